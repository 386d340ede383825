//! Programs that are designed to break an evaluator. Data only: the tests of the language run them inside the process,
//! and those of the server through its pipes.
#![allow(dead_code)] // Each of the two test crates uses only a part.

/// The ways in which a program may end, as words separated by `|`, and the program.
pub type Bomb = (&'static str, &'static str);

/// Patterns that need backtracking, or are large after repetitions are expanded.
pub const REGEXES: &[Bomb] = &[
    (
        "ok",
        "(re-find #\"(a+)+$\" (apply str (map (constantly \"a\") (range 5000))))",
    ),
    (
        "ok",
        "(re-find #\"(a|a)*b\" (apply str (map (constantly \"a\") (range 5000))))",
    ),
    (
        "timeout|ok",
        "(re-find #\"(?=(a+)+$)(a+)+b\" (apply str (map (constantly \"a\") (range 200))))",
    ),
    (
        "timeout|ok",
        "(re-find #\"(a*)*\\1b\" (apply str (map (constantly \"a\") (range 200))))",
    ),
    (
        "runtime_error|ok|timeout",
        "(re-find (re-pattern \"(((a{1,100}){1,100}){1,100}){1,100}\") \"aaa\")",
    ),
    (
        "runtime_error|ok|timeout",
        "(re-find (re-pattern \"(?=a)\\\\w{1000}{1000}{1000}\") \"aaa\")",
    ),
    (
        "runtime_error|parse_error|ok",
        "(re-pattern (apply str (map (constantly \"(\") (range 120))))",
    ),
    (
        "runtime_error|ok",
        "(re-pattern (str (apply str (map (constantly \"(\") (range 120))) (apply str (map (constantly \")\") (range 120)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(count (re-seq #\"\" (apply str (map (constantly \"a\") (range 100000)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(count (re-seq #\"a*?\" (apply str (map (constantly \"b\") (range 100000)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(count (re-seq #\"a.*b\" (apply str (map (constantly \"a\") (range 20000)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(count (re-seq #\"(?=a.*b)a\" (apply str (map (constantly \"a\") (range 20000)))))",
    ),
    (
        "memory_limit|timeout",
        "(let [s (apply str (map (constantly \"a\") (range 100000)))] (count (replace s #\"a\" s)))",
    ),
    (
        "ok|memory_limit|timeout",
        "(count (split (apply str (map (constantly \"a\") (range 100000))) #\"(?<=a)\"))",
    ),
    (
        "ok|timeout",
        "(count (map (fn [i] (re-find (re-pattern (str \"(a|b\" i \")*c\")) \"abab\")) (range 5000)))",
    ),
];

/// Strings that grow, and functions on long strings.
pub const TEXTS: &[Bomb] = &[
    (
        "ok",
        "(let [s (join (map (constantly \"é\") (range 20000)))] (reduce + (map (fn [i] (count (subs s i (inc i)))) (range 20000))))",
    ),
    (
        "ok",
        "(let [s (join (map (constantly \"é\") (range 20000)))] (count (map (fn [i] (nth s i)) (range 20000))))",
    ),
    ("memory_limit", "(format \"%2000000000d\" 1)"),
    ("memory_limit", "(format \"%99999999999999999999999d\" 1)"),
    ("memory_limit", "(format \"%.2000000000f\" 1.5)"),
    ("memory_limit", "(format \"%-2000000000s|\" \"a\")"),
    ("memory_limit|ok", "(format \"%09000000d%09000000d\" 1 2)"),
    (
        "ok|runtime_error|memory_limit",
        "(format (apply str (map (constantly \"%s\") (range 50000))) 1)",
    ),
    (
        "memory_limit",
        "(reduce (fn [s _] (str s s)) \"0123456789\" (range 40))",
    ),
    (
        "memory_limit",
        "(apply str (map (constantly \"abcdefgh\") (range 3000000)))",
    ),
    (
        "memory_limit",
        "(join (apply str (map (constantly \"x\") (range 10000))) (range 10000))",
    ),
    (
        "memory_limit",
        "(let [s (apply str (map (constantly \"a\") (range 100000)))] (replace s \"a\" s))",
    ),
    (
        "memory_limit|ok",
        "(count (vec (reduce (fn [s _] (str s s)) \"a\" (range 20))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(count (split (reduce (fn [s _] (str s s)) \"a,\" (range 20)) \",\"))",
    ),
    (
        "ok|timeout",
        "(let [s (reduce (fn [s _] (str s s)) \"a\" (range 18))] (count (map (fn [i] (index-of s \"b\")) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a\" (range 20)) b (reduce (fn [s _] (str s s)) \"a\" (range 20))] (count (sort (map (fn [i] (if (even? i) a b)) (range 20000)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a\" (range 20)) b (reduce (fn [s _] (str s s)) \"a\" (range 20))] (count (distinct (map (fn [i] (if (even? i) a b)) (range 100000)))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a\" (range 20)) b (reduce (fn [s _] (str s s)) \"a\" (range 20))] (count (filter (fn [i] (= a b)) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"é\" (range 20))] (count (filter (fn [i] (= 3 (count a))) (range 10000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"é\" (range 20))] (reduce + (map (fn [i] (count (subs a i))) (range 10000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"é\" (range 19))] (count (map (fn [i] (nth a 400000)) (range 10000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a \" (range 20))] (count (map (fn [i] (upper-case a)) (range 10000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \" \" (range 20))] (count (map (fn [i] (blank? a)) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \" \" (range 20))] (count (map (fn [i] (trim a)) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"1\" (range 20))] (count (map (fn [i] (parse-long a)) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"1\" (range 20))] (count (map (fn [i] (parse-double a)) (range 100000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"1\" (range 20))] (count (map (fn [i] (json/parse-string a)) (range 1000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"1\" (range 20))] (doseq [i (range 100000)] (println a)))",
    ),
    (
        "memory_limit|timeout",
        "(doseq [i (range 1000000)] (println \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a\" (range 20))] (count (map (fn [i] (keyword a)) (range 10000))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a\" (range 19)) m {(str a 1) 1 (str a 2) 2}] (count (map (fn [i] (get m (str a i))) (range 20))))",
    ),
    (
        "ok|timeout|memory_limit",
        "(let [a (reduce (fn [s _] (str s s)) \"a-\" (range 18)) m {(keyword a) 1 :b 2}] (count (filter (fn [i] (get m a)) (range 100000))))",
    ),
];

/// Integers of millions of digits.
pub const NUMBERS: &[Bomb] = &[
    (
        "memory_limit|timeout",
        "(reduce (fn [x _] (* x x)) 3 (range 40))",
    ),
    (
        "memory_limit|timeout",
        "(let [x (bit-shift-left 1 60000000)] (* x x x))",
    ),
    ("memory_limit", "(bit-shift-left 1 1000000000000)"),
    ("memory_limit", "(bit-set 0 1000000000000)"),
    (
        "timeout|memory_limit",
        "(let [x (dec (bit-shift-left 1 262000))] (count (map (fn [i] (* x x)) (range 1000))))",
    ),
    (
        "timeout|memory_limit",
        "(let [x (dec (bit-shift-left 1 262000))] (count (mapv (fn [i] (quot x (+ i (bit-shift-left 3 130000)))) (range 1000))))",
    ),
    (
        "timeout|memory_limit",
        "(let [x (dec (bit-shift-left 1 262000))] (count (mapv (fn [i] (mod x (+ i (bit-shift-left 3 130000)))) (range 1000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (str x)))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (format \"%d\" x)))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (format \"%x\" x)))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (json/generate-string {:a x}))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] x)",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (filter (fn [i] (< 1.5 (* 1.0 x))) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (map (fn [i] (+ x i)) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000)) y (dec (bit-shift-left 1 262000))] (count (filter (fn [i] (= x y)) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (filter (fn [i] (= x 1.5)) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (filter (fn [i] (even? x)) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (map (fn [i] (bit-and x x)) (range 100000))))",
    ),
    (
        "timeout|memory_limit|ok",
        "(let [x (dec (bit-shift-left 1 262000))] (count (map (fn [i] (/ x 3)) (range 100000))))",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(parse-long (apply str (map (constantly \"9\") (range 3000000))))",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(parse-double (apply str (map (constantly \"9\") (range 3000000))))",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(json/parse-string (apply str (map (constantly \"9\") (range 3000000))))",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(parse-long \"1e999999999\")",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(json/parse-string \"1e999999999\")",
    ),
    (
        "runtime_error|timeout|ok|memory_limit",
        "(+ 1 (bigint 1e308))",
    ),
    ("ok|runtime_error", "(pow 2 1000000000)"),
];

/// Large collections that are copied repeatedly.
pub const CHANGED_WHILE_SHARED: &[Bomb] = &[
    (
        "memory_limit|timeout",
        "(let [m (zipmap (range 50000) (range 50000))] (count (map (fn [i] (assoc m i 1)) (range 100000))))",
    ),
    (
        "memory_limit|timeout",
        "(let [m (zipmap (range 50000) (range 50000))] (count (map (fn [i] (dissoc m i)) (range 100000))))",
    ),
    (
        "memory_limit|timeout",
        "(let [m (zipmap (range 50000) (range 50000))] (count (map (fn [i] (update m i inc)) (range 100000))))",
    ),
    (
        "memory_limit|timeout",
        "(let [m (zipmap (range 50000) (range 50000))] (count (map (fn [i] (merge m {i 0})) (range 100000))))",
    ),
    (
        "memory_limit|timeout",
        "(let [s (set (range 50000))] (count (vec (map (fn [i] (conj s (- i))) (range 100000)))))",
    ),
    (
        "memory_limit|timeout",
        "(let [s (set (range 50000))] (count (vec (map (fn [i] (disj s i)) (range 100000)))))",
    ),
    (
        "memory_limit|timeout",
        "(let [v (range 100000)] (count (vec (map (fn [i] (conj v i)) (range 100000)))))",
    ),
    (
        "memory_limit|timeout",
        "(let [v (range 100000)] (count (map (fn [i] (assoc v i 0)) (range 100000))))",
    ),
    (
        "memory_limit|timeout",
        "(let [v (range 100000)] (count (map (fn [i] (pop v)) (range 100000))))",
    ),
    (
        "timeout",
        "(let [m (zipmap (range 50000) (range 50000))] (count (map (fn [i] (last m)) (range 10000))))",
    ),
    (
        "timeout",
        "(let [s (set (range 50000))] (count (map (fn [i] (last s)) (range 100000))))",
    ),
    (
        "timeout|memory_limit",
        "(let [f (apply partial + (range 50000))] (count (map (fn [i] (f i)) (range 100000))))",
    ),
];

/// Endless or practically endless ranges, products and walks.
pub const COLLECTIONS: &[Bomb] = &[
    ("memory_limit", "(range 1000000000000)"),
    (
        "memory_limit",
        "(range -9223372036854775808 9223372036854775807)",
    ),
    (
        "ok",
        "(range -9000000000000000000 9000000000000000000 5000000000000000000)",
    ),
    (
        "ok",
        "(range 9223372036854775807 -9223372036854775808 -9000000000000000000)",
    ),
    ("memory_limit|timeout", "(range 0.0 1.0 1e-300)"),
    ("memory_limit|timeout|runtime_error", "(range 0 ##Inf)"),
    (
        "memory_limit|timeout|runtime_error",
        "(range 1e300 1e301 1)",
    ),
    ("memory_limit|timeout|runtime_error", "(range)"),
    ("memory_limit", "(map (constantly 1) (range 1000000000))"),
    (
        "memory_limit|timeout|runtime_error|ok",
        "(take 3 (repeat 1))",
    ),
    (
        "memory_limit|timeout|runtime_error|ok",
        "(take 3 (iterate inc 1))",
    ),
    (
        "memory_limit|timeout|runtime_error|ok",
        "(take 3 (cycle [1 2]))",
    ),
    (
        "memory_limit|timeout|runtime_error|ok",
        "(repeatedly 1000000000 (fn [] 1))",
    ),
    (
        "memory_limit|timeout",
        "(reduce (fn [acc x] (into acc acc)) [1 2 3] (range 60))",
    ),
    ("memory_limit|timeout", "(combinations (range 100) 50)"),
    ("memory_limit|timeout", "(partition 50000 1 (range 100000))"),
    (
        "memory_limit|timeout",
        "(partition-all 50000 1 (range 100000))",
    ),
    (
        "memory_limit|timeout",
        "(for [a (range 1000) b (range 1000) c (range 1000)] [a b c])",
    ),
    (
        "memory_limit|timeout",
        "(doseq [a (range 10000) b (range 10000) c (range 10000)] [a b c])",
    ),
    (
        "memory_limit|timeout",
        "(mapcat (fn [x] (range 100000)) (range 100000))",
    ),
    (
        "memory_limit|timeout",
        "(reduce (fn [m x] (assoc m x (range 1000))) {} (range 100000))",
    ),
    (
        "memory_limit|timeout",
        "(zipmap (range 1000000) (range 1000000))",
    ),
    (
        "memory_limit|timeout|ok",
        "(count (frequencies (range 100000)))",
    ),
    (
        "memory_limit|timeout",
        "(clojure.walk/prewalk (fn [x] [x x]) 1)",
    ),
    (
        "memory_limit|timeout",
        "(clojure.walk/prewalk (fn [x] [x]) 1)",
    ),
    (
        "memory_limit|timeout",
        "(tree-seq (fn [x] true) (fn [x] [x x]) 1)",
    ),
    (
        "memory_limit|timeout",
        "(apply concat (map (constantly (range 10000)) (range 10000)))",
    ),
    ("memory_limit|timeout|ok", "(apply hash-map (range 200000))"),
    (
        "memory_limit|timeout",
        "(sort (fn [a b] (range 100000) true) (range 100000))",
    ),
    ("ok|runtime_error", "(sort (fn [a b] true) (range 1000))"),
    (
        "memory_limit|timeout",
        "(apply interleave (map (constantly (range 1000)) (range 1000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 100000))] (reduce (fn [acc i] (+ acc (count (rest v)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 100000))] (reduce (fn [acc i] (count (drop i v))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 100000))] (reduce (fn [acc i] (+ acc (count (reverse v)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 100000))] (reduce (fn [acc i] (+ acc (last v))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [m (zipmap (range 30000) (range 30000))] (reduce (fn [acc i] (+ acc (count (keys m)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [m (zipmap (range 30000) (range 30000))] (reduce (fn [acc i] (+ acc (count (merge {} m)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [m (set (range 30000))] (reduce (fn [acc i] (+ acc (count (union m m)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [m (set (range 30000))] (reduce (fn [acc i] (+ acc (first m))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 30000))] (reduce (fn [acc i] (+ acc (apply + v))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 30000))] (reduce (fn [acc i] (let [[a & r] v] (+ acc (count r)))) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok",
        "(let [v (vec (range 30000)) m (zipmap (range 100) (map (constantly v) (range 100)))] (reduce (fn [acc i] (if (= m {}) 1 2)) 0 (range 100000)))",
    ),
    (
        "memory_limit|timeout|ok|runtime_error",
        "(count (pmap (fn [i] (range 1000000)) (range 100)))",
    ),
    (
        "memory_limit|timeout|ok|runtime_error",
        "(pmap (fn [i] (pmap (fn [j] (pmap inc (range 10))) (range 10))) (range 10))",
    ),
    (
        "timeout|memory_limit|ok|runtime_error",
        "(pmap (fn [i] (reduce + (map (fn [j] (reduce + (range 10000))) (range 10000)))) (range 10))",
    ),
];

/// Functions that call themselves through everything that makes calls.
pub const RECURSION: &[Bomb] = &[
    ("memory_limit", "(defn f [x] (inc (f x))) (f 1)"),
    ("memory_limit", "(defn f [x] (map f [x])) (f 1)"),
    ("memory_limit", "(defn f [x] (first (filter f [x]))) (f 1)"),
    (
        "memory_limit",
        "(defn f [x] (reduce (fn [a b] (f b)) 1 [x])) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (sort-by f [x x])) (f 1)"),
    ("memory_limit", "(defn f [x] (update {:a 1} :a f)) (f 1)"),
    ("memory_limit", "(defn f [x] (apply f [x])) (f 1)"),
    ("memory_limit", "(defn f [x] ((comp f identity) x)) (f 1)"),
    ("memory_limit", "(defn f [x] ((partial f) x)) (f 1)"),
    ("memory_limit", "(defn f [x] ((juxt f f) x)) (f 1)"),
    (
        "memory_limit",
        "(defn f [x] (clojure.walk/postwalk f [x])) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (for [y [x]] (f y))) (f 1)"),
    (
        "memory_limit",
        "(defn f [x] (let [[a {:keys [b] :or {b (f a)}}] [x {}]] b)) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (if (f x) (f x) (f x))) (f 1)"),
    ("memory_limit", "(defn f [x] (-> x f f f)) (f 1)"),
    ("memory_limit", "(defn f [x] [{:a #{(f x)}}]) (f 1)"),
    (
        "memory_limit",
        "(defn f [x] (loop [i 0] (if (f x) 1 (recur i)))) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (#'f x)) (f 1)"),
    (
        "memory_limit",
        "(defn g [x] 1) (defn f [x] (g x)) (defn g [x] (f x)) (f 1)",
    ),
    ("memory_limit|timeout", "(def f #'f) (f 1)"),
    ("memory_limit|timeout", "(def g #'f) (def f #'g) (f 1)"),
    (
        "memory_limit|timeout|runtime_error",
        "(def g (comp #'f inc)) (def f (partial #'g)) (f 1)",
    ),
    ("memory_limit", "((fn f [x] (f (f x))) 1)"),
    (
        "memory_limit|timeout",
        "(let [y (fn [h] ((fn [x] (x x)) (fn [x] (h (fn [v] ((x x) v))))))] ((y (fn [self] (fn [v] (inc (self v))))) 1))",
    ),
    (
        "memory_limit|ok",
        "((reduce (fn [f _] (comp f inc)) inc (range 50000)) 1)",
    ),
    (
        "memory_limit|ok",
        "((reduce (fn [f _] (comp inc f)) inc (range 50000)) 1)",
    ),
    (
        "memory_limit|ok",
        "((reduce (fn [f _] (complement f)) nil? (range 50000)) 1)",
    ),
    (
        "memory_limit|ok",
        "((reduce (fn [f _] (fnil f 1)) inc (range 50000)) 1)",
    ),
    (
        "memory_limit|ok",
        "((reduce (fn [f _] (fn [x] (f x))) inc (range 30000)) 1)",
    ),
    (
        "memory_limit|timeout|runtime_error",
        "(defn f [x] (pmap f [x])) (f 1)",
    ),
    (
        "memory_limit|timeout|runtime_error",
        "(defn f [x] (pcalls (fn [] (f x)))) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (max-key f x x)) (f 1)"),
    ("memory_limit", "(defn f [x] (group-by f [x])) (f 1)"),
    ("memory_limit", "(defn f [x] (sum-by f [{:a x}])) (f 1)"),
    (
        "memory_limit",
        "(defn f [x] (swap x)) (defn swap [x] (some f [x])) (f 1)",
    ),
    ("memory_limit", "(defn f [x] (tree-seq f f x)) (f 1)"),
    ("memory_limit", "(defn f [& xs] (apply f 1 xs)) (f)"),
    ("timeout", "(loop [] (recur))"),
];

/// Values of 100,000 levels.
pub const DEEP: &[&str] = &[
    "(reduce (fn [acc _] [acc]) [] (range 100000))",
    "(reduce (fn [acc _] {:a acc}) {} (range 100000))",
    "(reduce (fn [acc _] {acc 1}) {} (range 100000))",
    "(reduce (fn [acc _] #{acc}) #{} (range 100000))",
    "(reduce (fn [acc i] (if (even? i) [acc i] {:k acc})) nil (range 100000))",
    "(reduce (fn [f _] (fn [] f)) 1 (range 100000))",
    "(reduce (fn [f _] (comp f inc)) inc (range 100000))",
    "(reduce (fn [f _] (partial f 1)) + (range 100000))",
    "(reduce (fn [f _] (constantly [f])) 1 (range 50000))",
];

/// Uses of a deep value `x` and its twin `y`.
pub const USES: &[&str] = &[
    "(= x y)",
    "(= x x)",
    "(not= [x] [y])",
    "(compare [1] [1])",
    "(sort [[2 x] [1 y]])",
    "(get {x 1} y)",
    "(contains? #{x} y)",
    "(count (distinct [x y x]))",
    "(count (frequencies [x y]))",
    "(count (group-by identity [x y]))",
    "(count (str x))",
    "(count (pr-str x))",
    "(println x)",
    "(json/generate-string x)",
    "(count (if (coll? x) (flatten x) []))",
    "(count (if (coll? x) (flatten [x y]) []))",
    "(let [[a & r] (if (vector? x) x [])] (count r))",
    "(let [{:keys [a] :as m} (if (map? x) x {})] (count m))",
    "(= x (clojure.walk/postwalk identity x))",
    "(count (tree-seq coll? seq x))",
    "(count (into [] (if (coll? x) x [])))",
    "(count (conj #{x} y))",
    "(count (assoc {y 1} x 2))",
    "(count (update {:k x} :k vector))",
    "(count (get-in {:k {:l x}} [:k :l] []))",
    "(case [1 2] [1 2] 1 2)",
    "(apply str [(count [x])])",
    "(hash-map x y)",
    "(merge-with vector {:a x} {:a y})",
    "[x y]",
    "(fail x)",
    "(+ 1 x)",
    "(x 1 2 3)",
    "(def kept x)",
    "(throw-away x)",
    "(pmap vector [x y])",
    "(task x 1)",
    "(max [x] [y])",
    "(index-of \"a\" x)",
    "(re-find x \"a\")",
    "(nth x x)",
    "(return x)",
];

/// Small values that unfold to enormous size.
pub const DOUBLED: &[&str] = &[
    "(reduce (fn [acc x] (conj acc acc)) [1] (range 30))",
    "(reduce (fn [acc x] [acc acc]) [1] (range 25))",
    "(reduce (fn [acc x] [acc acc]) [1] (range 200))",
    "(reduce (fn [acc x] {:a acc :b acc}) {} (range 30))",
    "(reduce (fn [acc x] #{acc [acc]}) #{} (range 30))",
    "(reduce (fn [acc x] {acc acc}) {} (range 40))",
    "(reduce (fn [acc x] (str acc acc)) \"ab\" (range 21))",
];

/// Programs that are long rather than deep; some become nested by analysis.
pub const LONG: &[(&str, &str, usize, &str)] = &[
    ("[", "1 ", 500_000, "]"),
    ("(-> 1 ", "inc ", 490, ")"),
    ("(->> [1] ", "(map inc) ", 490, ")"),
    ("(-> 1 ", "inc ", 20_000, ")"),
    ("(-> 1 ", "(+ 1) ", 2_000, ")"),
    ("(->> 1 ", "(+ 1) ", 10_000, ")"),
    ("(cond-> 1 ", "true inc ", 1_000, ")"),
    ("(cond->> 1 ", "true inc ", 1_000, ")"),
    ("(some-> 1 ", "inc ", 5_000, ")"),
    ("(some->> 1 ", "inc ", 5_000, ")"),
    ("(as-> 1 x ", "(+ 1 x) ", 1_000, ")"),
    ("(doto 1 ", "inc ", 5_000, ")"),
    ("(cond ", "false 1 ", 20_000, ":else 1)"),
    ("(case 1 ", "2 3 ", 20_000, "1)"),
    ("(condp = 1 ", "2 3 ", 20_000, "1)"),
    ("(and ", "true ", 50_000, ")"),
    ("(or ", "nil ", 50_000, ")"),
    ("(let [", "x 1 ", 20_000, "] x)"),
    ("(let [", "[x] [1] ", 20_000, "] x)"),
    ("(let [", "x (fn [] 1) ", 5_000, "] x)"),
    ("(loop [", "x 1 ", 20_000, "] x)"),
    ("(for [", "x [1] ", 10_000, "] x)"),
    ("(for [x [1] ", ":when true ", 10_000, "] x)"),
    ("(when-let [x 1] ", "x ", 10_000, ")"),
    ("(fn [", "x ", 10_000, "] x)"),
    ("(str ", "1 ", 50_000, ")"),
    ("(+ ", "1 ", 50_000, ")"),
    ("((comp ", "inc ", 10_000, ") 1)"),
    ("(def x ", "1 ", 10_000, ")"),
    ("", "(def x 1)", 10_000, ""),
    ("", "(defn f [x] (f x))", 5_000, ""),
    ("", "y ", 5_000, ""),
    ("{", ":a 1 ", 10_000, "}"),
    ("#{", "1 ", 10_000, "}"),
    ("'(", "1 ", 10_000, ")"),
    ("#(+ ", "%1 %20 ", 10_000, ")"),
];

/// Long programs in which every part is different: `~` stands for a number, `@` for a name.
pub const LONG_UNLIKE: &[(&str, &str, &str)] = &[
    ("(let [", "@ ~ ", "] 1)"),
    ("(let [za 1 ", "@ (if za za 2) ", "] 1)"),
    ("(let [za 1 ", "@ (fn [] za) ", "] 1)"),
    ("(let [za 1 ", "@ (and za 1 2) ", "] 1)"),
    ("(let [{:keys [", "@ ", "]} {}] 1)"),
    ("(let [[", "@ ", "]] 1)"),
    ("(loop [", "@ ~ ", "] 1)"),
    ("(for [za [1] ", ":let [@ za] ", "] 1)"),
    ("(fn [", "@ ", "] 1)"),
    ("(cond-> 1 ", "1 - ", ")"),
    ("(cond->> 1 ", "1 (+ ~) ", ")"),
    ("(as-> 1 x ", "(+ x ~) ", ")"),
    ("(some-> 1 ", "(+ ~) ", ")"),
    ("(cond ", "(= 0 ~) @ ", ")"),
    ("(case -1 ", "~ 1 ", "2)"),
    ("(do ", "@ ", ")"),
    ("(do ", "(def @ q@) ", ")"),
    ("(do ", "#'@ ", ")"),
    ("(do ", "(when-let [@ 1] 1) ", ")"),
    ("[", "#\"a~\" ", "]"),
    ("[", "#\"\\w{15}~\" ", "]"),
    ("(fn [] [", "#\"(?i:[a-zà-ÿ]{40})~\" ", "])"),
    ("(count '(", "#\"\\w{15}~\" ", "))"),
    ("{", ":@ ~ ", "}"),
    ("#{", "[1 1 1 1 ~] ", "}"),
];

/// `part` repeated between `open` and `close`, up to 64 KiB.
pub fn long_unlike(open: &str, part: &str, close: &str) -> String {
    let mut text = open.to_owned();
    for at in 0.. {
        let name: String = format!("{at}")
            .bytes()
            .map(|digit| char::from(digit + 49))
            .collect();
        let part = part
            .replace('~', &at.to_string())
            .replace('@', &format!("z{name}"));
        if text.len() + part.len() + close.len() > 64 * 1024 {
            break;
        }
        text.push_str(&part);
    }
    text + close
}

/// Brackets that nest, each with its closing part.
pub const BRACKETS: &[(&str, &str)] = &[
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("#{", "}"),
    ("#(", ")"),
    ("'(", ")"),
    ("#_", ""),
];

/// `count` brackets: only opened, balanced, and only closed.
pub fn brackets(open: &str, close: &str, count: usize) -> [String; 3] {
    [
        open.repeat(count),
        open.repeat(count) + &close.repeat(count),
        close.repeat(count),
    ]
}
