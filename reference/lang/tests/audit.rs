//! Every builtin and method, called with long, large, deep or shared operands: measures how long each works without a
//! check of the clock. Takes builtins from their table, so that a new one is measured too.

mod clock;

use std::collections::BTreeMap;
use std::time::Duration;

use ptc_lang::{Env, fuzz};

ptc_lang::counting_allocator!();

/// A test build is about ten times as slow.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 15 } else { 1 };
/// The target is at most a millisecond of work between two checks; processors differ by a factor of about two.
const GAP_MAX: Duration = Duration::from_millis(2).saturating_mul(SLOWNESS);
/// The time that a stopped program may take to free ten megabytes, in such gaps, as for hostile programs: half of the
/// delay that it is allowed.
const END_GAPS: u32 = 25;
/// How often a long gap is measured again: caches and the system may take time occasionally.
const TRIES: usize = 8;
/// One call out of this many is tried, unless `PTC_AUDIT_EVERY` says otherwise.
const EVERY: usize = 397;
/// The smallest stack of a server thread.
const STACK_BYTES: usize = 512 * 1024;

fn gauge() -> fuzz::Gauge {
    fuzz::Gauge {
        cpu_time: clock::cpu_time,
        wall_time: clock::wall_time,
        limit: Duration::from_millis(40),
        gap: GAP_MAX,
        end: GAP_MAX * END_GAPS,
        work: || {},
    }
}

/// The time that [`strain`] takes on an idle machine.
const UNSTRAINED: Duration =
    Duration::from_micros(if cfg!(debug_assertions) { 2_500 } else { 500 });
/// The largest slowdown that counts as an excuse.
const STRAIN_MAX: f64 = 8.0;

/// How much slower this thread is than it should be: on a busy machine caches and page handling cost CPU time, and a
/// virtual machine counts time that others were given. Measured with what builtins do most: allocating memory, writing
/// to it, and freeing it.
fn strain() -> f64 {
    const BLOCKS: usize = 4_000;
    const LARGE_BYTES: usize = 2 << 20;
    let before = clock::cpu_time();
    let blocks: Vec<Box<usize>> = (0..BLOCKS).map(Box::new).collect();
    drop(std::hint::black_box(blocks));
    drop(std::hint::black_box(vec![1u8; LARGE_BYTES]));
    let spent = clock::cpu_time() - before;
    spent.div_duration_f64(UNSTRAINED).clamp(1.0, STRAIN_MAX)
}

/// The longest gap of a program, and the other observations. A slow end counts as a gap, on its own scale; delays of a
/// busy machine are factored out.
fn longest_gap(text: &str, env: &Env, gauge: &fuzz::Gauge) -> (Duration, isize, &'static str) {
    let before = strain();
    let seen = fuzz::measure(text, env, gauge);
    let strain = before.max(strain());
    let gap = seen.gap.max(seen.end / END_GAPS).div_f64(strain);
    (gap, seen.grown, seen.how)
}

/// The longest gap per name, and a program that shows it.
type Longest = BTreeMap<&'static str, (Duration, String)>;

/// Measures one out of `every` calls, with the operand at index `at`.
fn audit(at: usize, every: usize) -> Longest {
    let (gauge, operands) = (gauge(), fuzz::operands());
    let mut definitions = fuzz::Gauge { ..gauge };
    definitions.limit = Duration::from_secs(20);
    let mut env = Env::new();
    for (name, value) in [
        ("v", &operands[at]),
        ("w", &operands[(at + 5) % operands.len()]),
    ] {
        env = fuzz::measure(&format!("(def {name} {value}) nil"), &env, &definitions).env;
    }
    let mut longest = Longest::new();
    for (number, (name, call)) in fuzz::calls(at).into_iter().enumerate() {
        if !(number + at * 31).is_multiple_of(every) {
            continue;
        }
        let text = format!("(do {call} nil)");
        let gap = (0..TRIES)
            .map(|_| longest_gap(&text, &env, &gauge).0)
            .take_while_inclusive(|gap| *gap > GAP_MAX / 3)
            .min()
            .unwrap_or_default();
        let known = longest.entry(name).or_default();
        if gap > known.0 {
            *known = (
                gap,
                format!(
                    "(let [v {} w {}] {call})",
                    operands[at],
                    operands[(at + 5) % operands.len()]
                ),
            );
        }
    }
    longest
}

trait TakeWhileInclusive: Iterator + Sized {
    /// The items up to and including the first that does not fit.
    fn take_while_inclusive(
        self,
        fits: impl Fn(&Self::Item) -> bool,
    ) -> impl Iterator<Item = Self::Item> {
        let mut may_continue = true;
        self.take_while(move |item| std::mem::replace(&mut may_continue, fits(item)))
    }
}

impl<I: Iterator> TakeWhileInclusive for I {}

#[test]
fn builtins_check_the_clock_often_enough() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told how long it may take"
    )]
    let setting = |name: &str| std::env::var(name).ok();
    let every =
        setting("PTC_AUDIT_EVERY").map_or(EVERY, |number| number.parse().expect("a number"));
    // As a server does at its start.
    ptc_lang::heap::tune();
    let mut longest = Longest::new();
    for at in 0..fuzz::operands().len() {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let found = thread
            .spawn(move || audit(at, every))
            .expect("a thread starts");
        for (name, (gap, text)) in found.join().expect("no call panics") {
            let known = longest.entry(name).or_default();
            if gap > known.0 {
                *known = (gap, text);
            }
        }
    }
    let mut rows: Vec<_> = longest.iter().collect();
    rows.sort_by_key(|(_, (gap, _))| std::cmp::Reverse(*gap));
    #[expect(clippy::disallowed_methods, reason = "a test is told where to write")]
    if let Some(path) = setting("PTC_AUDIT_TABLE") {
        let row = |(name, (gap, text)): &(&&str, &(Duration, String))| {
            format!("| `{name}` | {} | `{text}` |\n", gap.as_micros())
        };
        let table: String = rows.iter().map(row).collect();
        std::fs::write(
            path,
            format!("| name | µs | program |\n|---|--:|---|\n{table}"),
        )
        .expect("a table");
    }
    let slow: Vec<_> = rows.iter().filter(|(_, (gap, _))| *gap > GAP_MAX).collect();
    assert!(slow.is_empty(), "without a check for too long: {slow:#?}");
}

/// Calls whose arguments must fit each other, which random operands hardly ever do: definitions, and calls that use
/// them.
const CALLS_WITH_SETUP: &[(&str, &[&str])] = &[
    // Text that almost fills the memory, written after other text and in parts; values that grow until memory is
    // exhausted, and are freed.
    (
        "(def long (let [k (reduce (fn [s _] (str s s)) \"%n\" (range 12))] (join (map (constantly k) (range 300))))) (def marked (apply str (repeat 40000 \"n\\u0085\\\"\"))) (def many (vec (map (fn [i] (str i long)) (range 1))))",
        &[
            "(pr-str long)",
            "(pr-str 1 long)",
            "(prn long)",
            "(prn marked)",
            "(pr long)",
            "(print long 1 long)",
            "(println many)",
            "(do (print long) (print long) (prn long))",
            "(str [long])",
            "(group-by str many)",
            "(json/generate-string [long])",
            "(prewalk vector 1)",
            "(prewalk vector long)",
            "(prewalk (fn [x] {x x}) {})",
            "(prewalk (fn [& xs] xs) [1])",
            "(prewalk (fn [x] [x 1 2 3]) [1])",
            "(loop [v []] (recur [v]))",
            "(into [] (range 500000))",
            "(vec (repeat 400000 long))",
        ],
    ),
    // Megabytes of lines, with an error at the end.
    (
        "(def lines (let [k (reduce (fn [s _] (str s s)) \"\\n\" (range 12))] (join (map (constantly k) (range 1000)))))",
        &[
            "(json/parse-string lines)",
            "(json/parse-string (str lines 1))",
            "(json/parse-string (str \"[\" lines \"]\"))",
            "(json/parse-string (str \"[1\" lines))",
            "(parse-long lines)",
            "(parse-double (str \"1\" lines))",
            "(LocalDate/parse lines)",
            "(str/trim lines)",
            "(str/blank? lines)",
            "(count (str/split-lines (str lines \"a\")))",
            "(re-find #\"(?m)a$\" lines)",
        ],
    ),
    // Deep values that hold all earlier ones, until memory is exhausted: freed in the time that making them took.
    (
        "(def wide (vec (range 1000)))",
        &[
            "(loop [v []] (recur (conj v v)))",
            "(loop [v []] (recur (conj v v v)))",
            "(loop [v []] (recur (conj v [v])))",
            "(loop [v []] (recur (conj v (fn [] v))))",
            "(loop [v []] (recur (conj v (partial + v))))",
            "(loop [v wide] (recur (assoc v 500 v)))",
            "(loop [v [1]] (recur (into v v)))",
            "(loop [v []] (recur (vector v v)))",
            "(loop [v []] (recur [v v]))",
            "(loop [m {}] (recur {:k m :m m}))",
            "(loop [m {}] (recur (assoc m :k m)))",
            "(loop [m {}] (recur (assoc m m m)))",
            "(loop [m {} i 0] (recur (assoc m i m) (inc i)))",
            "(loop [m {} i 0] (recur (assoc m [m i] i) (inc i)))",
            "(loop [s #{}] (recur (conj s s)))",
            "(loop [s #{} i 0] (recur (conj s [i s]) (inc i)))",
            "(loop [s #{}] (recur #{s}))",
        ],
    ),
    // Rows that have no keys, some keys or all keys in common.
    (
        "(def rows (map (fn [i] {:k (mod i 9) :n i}) (range 6000))) (def more (map (fn [i] {:k (mod i 7) :m i}) (range 6000)))",
        &[
            "(set/join rows rows)",
            "(set/join rows more)",
            "(set/join (set rows) (set more) {:n :m})",
            "(set/join rows more {:n :k})",
            "(set/join rows more {})",
            "(set/project rows [:k])",
            "(set/project rows (map (fn [i] (keyword (str \"k\" i))) (range 3000)))",
            "(set/index rows [:k])",
            "(set/index rows [:n :k])",
            "(set/index rows [])",
        ],
    ),
    // Keys and values that take long to compare.
    (
        "(def long (reduce (fn [s _] (str s s)) \"ab\" (range 12))) (def rows (map (fn [i] {(str long (mod i 5)) i :t (str long i)}) (range 300)))",
        &[
            "(set/join rows rows)",
            "(set/join rows rows {:t :t})",
            "(set/project rows [:t])",
            "(set/project rows (map (fn [i] (str long i)) (range 200)))",
            "(set/index rows [:t (str long 1)])",
        ],
    ),
    // Values that weigh more than the memory that they take.
    (
        "(def heavy (reduce (fn [v _] [v v]) [1] (range 18))) (def rows (map (fn [i] {:k heavy :n (mod i 3) :i i}) (range 2000)))",
        &[
            "(set/join rows rows {:k :k})",
            "(set/join rows rows {:i :i})",
            "(set/project rows [:k])",
            "(set/index rows [:k :n])",
        ],
    ),
    (
        "(def wide (into {} (map (fn [i] [(keyword (str \"k\" i)) i]) (range 20000))))",
        &[
            "(set/join [wide] [wide])",
            "(set/join (map (fn [i] (assoc wide :n i)) (range 40)) [{:k1 1}])",
            "(set/project [wide wide] (keys wide))",
            "(set/index [wide] (keys wide))",
        ],
    ),
    (
        "(def text (reduce (fn [s _] (str s s)) \"aé\" (range 15))) (def marks (str \"a\" (reduce (fn [s _] (str s s)) \"\\u0301\" (range 19))))",
        &[
            "(str/escape text {\"a\" text})",
            "(str/escape text (fn [c] (str c c)))",
            "(str/escape text {\"a\" (vec (range 5000))})",
            "(str/escape marks {marks \"x\"})",
            "(str/capitalize marks)",
            "(str/capitalize (str marks marks))",
            "(str/upper-case marks)",
            "(str/reverse marks)",
            "(str/blank? marks)",
            "(str/trim (str \" \" marks))",
            "(first marks)",
            "(last marks)",
            "(frequencies marks)",
            "(nth marks 0)",
            "(subs marks 1)",
            "(count marks)",
            "(str/split marks #\"\")",
            "(str/index-of (str \"b\" marks) marks)",
            "(str/replace marks marks \"x\")",
            "(format \"%5s\" marks)",
            "(format \"%S\" marks)",
            "(println marks)",
            "(pr-str [marks])",
            "(keyword marks)",
            "(name (keyword marks))",
            "(dir marks)",
            "(doc marks)",
            "(meta marks)",
            "(ns-publics marks)",
            "(apropos marks)",
            "(tool/call {:server marks :tool marks})",
            "(Character/isLetter marks)",
            "(Character/isDigit text)",
            "(Character/digit marks 36)",
            "(Character/getNumericValue marks)",
            "(Integer/parseInt text 36)",
        ],
    ),
    (
        "(def ones (reduce (fn [s _] (str s s)) \"1\" (range 20))) (def noughts (reduce (fn [s _] (str s s)) \"0\" (range 20))) (def big (bit-shift-left 1 262000))",
        &[
            "(Integer/parseInt ones 2)",
            "(Integer/parseInt noughts 36)",
            "(Long/parseLong (str \"-\" noughts \"z\") 36)",
            "(Long/toString big)",
            "(Long/toString big 10)",
            "(Long/toString big 7)",
            "(Integer/toHexString big)",
        ],
    ),
    (
        "(def day (LocalDate/parse \"2025-03-09\"))",
        &[
            "(map (fn [_] (.getValue (.getMonth day))) (range 20000))",
            "(map (fn [_] (.getValue (.getDayOfWeek day))) (range 20000))",
        ],
    ),
    // Regexes that are kept and used repeatedly.
    (
        "(def res (map (fn [i] (re-pattern (str \"(?:a|b\" i \")*c\"))) (range 500))) (def text (apply str (map (constantly \"ab\") (range 50000))))",
        &[
            "(map (fn [r] (re-find r text)) res)",
            "(map (fn [r] (re-seq r \"abcabc\")) res)",
            "(frequencies res)",
            "(str/replace text (first res) text)",
            "(str/replace text #\"(z)\" (reduce (fn [s _] (str s s)) \"$1\" (range 20)))",
            "(str/replace text #\"(z)\" (reduce (fn [s _] (str s s)) \"ab\" (range 21)))",
        ],
    ),
    // A few long texts and numbers that occur in many places, and others that are equal but not identical to them.
    (
        "(def s (reduce (fn [s _] (str s s)) \"ab\" (range 15))) (def t (str s \"\")) (def a (vec (repeat 4096 s))) (def b (vec (repeat 4096 t))) (def ks (vec (repeat 4096 (keyword s)))) (def kt (vec (repeat 4096 (keyword t)))) (def n (bit-shift-left 1 262000)) (def m (inc (dec n))) (def ns (vec (repeat 4096 n))) (def ms (vec (repeat 4096 m)))",
        &[
            "(= a b)",
            "(= ks kt)",
            "(= ns ms)",
            "(compare a b)",
            "(compare ks kt)",
            "(compare ns ms)",
            "(not= [a] [b])",
            "(= {:a a} {:a b})",
            "(= #{a} #{b})",
            "(frequencies (concat a b))",
            "(frequencies (concat ns ms))",
            "(distinct (interleave a b))",
            "(distinct (interleave ns ms))",
            "(dedupe (interleave a b))",
            "(dedupe (interleave ns ms))",
            "(apply distinct? (interleave a b))",
            "(apply = (interleave a b))",
            "(apply = (interleave ns ms))",
            "(apply == (interleave ns ms))",
            "(apply <= (interleave ns ms))",
            "(apply max (interleave ns ms))",
            "(apply hash-set (interleave a b))",
            "(apply hash-map (interleave a b))",
            "(apply sorted-map (interleave ns ms))",
            "(set (interleave a b))",
            "(set (interleave ns ms))",
            "(sort (interleave a b))",
            "(sort (interleave ns ms))",
            "(sort compare (interleave a b))",
            "(sort-by identity > (interleave ns ms))",
            "(max-by identity (interleave ns ms))",
            "(group-by identity (interleave a b))",
            "(partition-by identity (interleave a b))",
            "(zipmap (interleave a b) (range))",
            "(into {} (map vector a b))",
            "(into #{} (interleave a b))",
            "(reduce conj #{} (interleave a b))",
            "(some #{t} (repeat 4096 (str s 1)))",
            "(filter #{t} a)",
            "(replace {s t} b)",
            "(select-keys {s 1} b)",
            "(map {s 1} b)",
            "(map {n 1} ms)",
            "(apply dissoc {s 1} b)",
            "(merge-with vector {s 1} {t 2})",
            "(map (fn [x] (case x \"a\" 1 \"b\" 2 3)) a)",
            "(union (set a) (set b))",
            "(rename-keys {s 1} {t s})",
            "(index-of a t)",
            "(keep-indexed (fn [i x] (when (= x t) i)) a)",
            "(str/join (take 60 a))",
            "(str/join t (take 60 a))",
            "(str/join (take 100 ns))",
            "(apply str (take 60 (interleave a b)))",
            "(json/generate-string (take 100 a))",
            "(json/generate-string (take 100 ns))",
            "(pr-str (take 100 a))",
            "(map count a)",
            "(map str/upper-case (take 500 a))",
            "(map (fn [x] (str/index-of x \"ba \")) a)",
            "(map (fn [x] (str/includes? x \"bb\")) a)",
            "(map (fn [x] (str/starts-with? x t)) a)",
            "(map (fn [x] (str/ends-with? x t)) a)",
            "(map (fn [x] (str/blank? x)) (repeat 4096 (str/replace s #\"[ab]\" \" \")))",
            "(map (fn [x] (str/trim x)) (repeat 4096 (str/replace s #\"[ab]\" \" \")))",
            "(map (fn [x] (parse-long x)) (repeat 4096 (str/replace s #\"[ab]\" \"1\")))",
            "(map (fn [x] (parse-double x)) (repeat 4096 (str/replace s #\"[ab]\" \"1\")))",
            "(map keyword a)",
            "(map name ks)",
            "(map (fn [x] (quot x 3)) ns)",
            "(map (fn [x] (* x x)) (take 50 ns))",
            "(map (fn [x] (bit-and x m)) ns)",
            "(map double ns)",
            "(map even? ns)",
            "(reduce + ns)",
            "(apply + ns)",
            "(apply - ns)",
            "(sum ns)",
            "(avg ns)",
            "(sum-by identity ns)",
            "(map str (take 50 ns))",
            "(format \"%d\" n)",
            "(format \"%x\" n)",
            "(format \"%S %S %S\" s s s)",
            "(format \"%,d\" n)",
        ],
    ),
    // Wide maps: in one buffer, as trees, as many trees that share almost everything, and as many that share nothing.
    (
        "(def wide (into {} (map (fn [i] [(keyword (str \"k\" i)) i]) (range 24000)))) (def tree (assoc wide :n 1)) (def again (reduce (fn [m i] (assoc m i i)) {} (range 24000)))",
        &[
            "(count (reduce (fn [m i] (assoc m i i)) {} (range 30000)))",
            "(count (reduce (fn [v i] (conj [i] v)) (vec (range 30000)) (range 10)))",
            "(let [v (vec (range 60000))] (count (conj v (count (conj v 1)))))",
            "(let [v (vec (range 60000))] (count (map (fn [i] (assoc v i :x)) (range 9000))))",
            "(map (fn [i] (assoc wide :n i)) (range 40))",
            "(map (fn [i] (assoc tree :n i)) (range 4000))",
            "(set (map (fn [i] (assoc tree :n i)) (range 60)))",
            "(distinct (map (fn [i] (assoc tree :n (mod i 3))) (range 60)))",
            "(frequencies (map (fn [i] (assoc tree :n (mod i 3))) (range 60)))",
            "(group-by (fn [m] (dissoc m :n)) (map (fn [i] (assoc tree :n i)) (range 60)))",
            "(sort-by identity (map (fn [i] (assoc tree :n (- i))) (range 60)))",
            "(= tree (assoc wide :n 1))",
            "(= again (zipmap (range 24000) (range 24000)))",
            "(merge wide again)",
            "(merge tree tree)",
            "(apply merge (repeat 50 tree))",
            "(merge-with + wide tree)",
            "(merge-with merge {:a wide} {:a tree})",
            "(select-keys wide (keys wide))",
            "(apply dissoc tree (keys wide))",
            "(map-invert tree)",
            "(update-vals tree inc)",
            "(update-keys tree name)",
            "(rename-keys tree (zipmap (keys wide) (vals wide)))",
            "(reduce-kv (fn [m k v] (assoc m v k)) {} tree)",
            "(into tree (map vec wide))",
            "(into {} tree)",
            "(into wide again)",
            "(zipmap (keys wide) (vals wide))",
            "(sort-by val tree)",
            "(sort-by val > tree)",
            "(sort (fn [a b] (compare (val a) (val b))) tree)",
            "(filter (fn [[k v]] (even? v)) tree)",
            "(group-by val tree)",
            "(frequencies (vals tree))",
            "(postwalk identity tree)",
            "(prewalk identity tree)",
            "(walk identity identity tree)",
            "(stringify-keys tree)",
            "(keywordize-keys (stringify-keys tree))",
            "(json/generate-string tree)",
            "(json/parse-string (json/generate-string wide))",
            "(str tree)",
            "(pr-str tree)",
            "(println tree)",
            "(get-in {:a {:b tree}} [:a :b :n])",
            "(update-in {:a {:b tree}} [:a :b] assoc :m 1)",
            "(set (keys tree))",
            "(union (set (keys tree)) (set (range 20000)))",
            "(intersection (set (keys tree)) (set (keys wide)))",
            "(difference (set (keys tree)) (set (keys wide)))",
            "(subset? (set (keys wide)) (set (keys tree)))",
            "(disj (set (keys tree)) :n)",
            "(apply disj (set (keys tree)) (keys wide))",
            "(tree-seq map? vals {:a tree})",
            "(flatten [(vals tree) (vals wide)])",
            "(interleave (keys tree) (vals tree))",
            "(partition-all 1 tree)",
            "(mapcat identity tree)",
            "(apply hash-map (mapcat identity tree))",
            "(fail tree)",
            "(return (map (fn [i] (assoc wide :n i)) (range 8)))",
        ],
    ),
    // JSON text as wide, as deep and as long as memory allows.
    (
        "(def wide (str \"{\" (str/join \",\" (map (fn [i] (str \"\\\"k\" i \"\\\":\" i)) (range 30000))) \"}\")) (def same (str \"{\" (str/join \",\" (repeat 40000 \"\\\"k\\\":[]\")) \"}\")) (def spelled (str \"[\\\"\" (reduce (fn [s _] (str s s)) \"\\\\u0061\" (range 16)) \"\\\"]\")) (def blank (str (reduce (fn [s _] (str s s)) \" \" (range 20)) \"1\"))",
        &[
            "(json/parse-string wide)",
            "(json/parse-string same)",
            "(json/parse-string spelled)",
            "(json/parse-string blank)",
            "(json/parse-string (str \"[1\" blank \"]\"))",
            "(json/parse-string (str \"[\" (str/join \",\" (repeat 900 (apply str (repeat 900 \"9\")))) \"]\"))",
            "(json/parse-string (str \"[\" (str/join \",\" (repeat 9000 \"1.2345678901234567890123456789e-300\")) \"]\"))",
            "(json/parse-string (str (reduce (fn [s _] (str s s)) \"[\" (range 18))))",
            "(json/parse-string (str \"[\" (str/join \",\" (repeat 3000 \"[[[[[[{}]]]]]]\")) \"]\"))",
        ],
    ),
    // Sequences without an end.
    (
        "(def n 200000)",
        &[
            "(take n (map + (range) (range)))",
            "(nth (map vector (range) (repeat 1) (iterate inc 5)) n)",
            "(nth (concat (range 100000) (range)) n)",
            "(loop [s (range) i 0] (if (< i 2000) (recur (cons i s) (inc i)) (nth s n)))",
            "(loop [s (range) i 0] (if (< i 2000) (recur (map + s s) (inc i)) (first s)))",
            "(loop [s (range) i 0] (if (< i 2000) (recur (map + s s s s s s s s s s) (inc i)) (first s)))",
            "(loop [s (range) i 0] (if (< i 7) (recur (map + s s s s s s s s s s) (inc i)) (first s)))",
            "(loop [s (range) i 0] (if (< i 7) (recur (concat [i] (map inc s)) (inc i)) (nth s n)))",
            "(take 50 (partition n 1 (range)))",
            "(take 5 (partition 9000000000000000000 1 (range)))",
            "(take 5 (partition 1 9000000000000000000 (range)))",
            "(first (drop n (partition 3 2 (range))))",
            "(partition n n (repeat 0) [1])",
            "(partition 9000000000000000000 1 (range) [1])",
        ],
    ),
];

#[test]
fn calls_on_large_values_check_the_clock() {
    const GROWTH_BYTES_MAX: isize = 28 << 20;
    ptc_lang::heap::tune();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let found = thread.spawn(|| {
        let gauge = gauge();
        let mut definitions = fuzz::Gauge { ..gauge };
        definitions.limit = Duration::from_secs(20);
        let mut failed = Vec::new();
        for (given, calls) in CALLS_WITH_SETUP {
            let set = fuzz::measure(given, &Env::new(), &definitions);
            assert_eq!(set.how, "value", "{given}");
            for call in *calls {
                let text = format!("(do {call} nil)");
                let tries = (0..TRIES)
                    .map(|_| longest_gap(&text, &set.env, &gauge))
                    .take_while_inclusive(|(gap, grown, _)| {
                        *gap > GAP_MAX || *grown > GROWTH_BYTES_MAX
                    });
                let Some((gap, grown, how)) = tries.min() else {
                    continue;
                };
                println!(
                    "{:>6} µs {grown:>9} bytes {how:>13}  {call}",
                    gap.as_micros()
                );
                if gap > GAP_MAX || grown > GROWTH_BYTES_MAX {
                    failed.push((gap, grown, *call));
                }
            }
        }
        failed
    });
    let failed = found.expect("a thread starts").join().expect("no panic");
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A measurement that never detects anything proves nothing.
#[test]
fn work_without_clock_checks_is_detected() {
    let found = std::thread::spawn(|| {
        let gauge = fuzz::Gauge {
            work: || {
                let until = clock::cpu_time() + GAP_MAX * 2;
                while clock::cpu_time() < until {}
            },
            ..gauge()
        };
        fuzz::measure("(tool/work {})", &Env::new(), &gauge).gap
    });
    assert!(found.join().expect("it ends") > GAP_MAX);
}

#[test]
fn calls_with_large_counts_check_the_clock() {
    ptc_lang::heap::tune();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let found = thread.spawn(|| {
        let (gauge, env) = (gauge(), Env::new());
        let mut slow = Vec::new();
        for (_, call) in fuzz::calls_with_large_counts() {
            let text = format!("(do {call} nil)");
            let gap = (0..TRIES)
                .map(|_| longest_gap(&text, &env, &gauge).0)
                .take_while_inclusive(|gap| *gap > GAP_MAX)
                .min()
                .unwrap_or_default();
            if gap > GAP_MAX {
                slow.push((gap, call));
            }
        }
        slow
    });
    let slow = found.expect("a thread starts").join().expect("no panic");
    assert!(slow.is_empty(), "without a check for too long: {slow:#?}");
}
