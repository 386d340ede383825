//! Programs that want more than their share, generated from bytes, and the time and memory bounds that each must keep.
//! Knows no clock itself: the caller brings one.
//!
//! All builtins and methods are called, in loops, chains, nested calls, workers and sessions, with values that are
//! large, deep, repeatedly shared, or awkward; patterns from a grammar search long texts.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread::ThreadId;
use std::time::Duration;

use super::program::Bytes;
use crate::meter::Unwatched;
use crate::value::Value;
use crate::{
    Ended, Env, Host, HostFault, Limits, METHODS, Meter, Outcome, Program, Pulse, Section,
    builtins, heap, json, print, run, snapshot,
};

/// The clocks and bounds that a run is measured with.
pub struct Gauge {
    /// CPU time of the calling thread.
    pub cpu_time: fn() -> Duration,
    /// Wall-clock time.
    pub wall_time: fn() -> Duration,
    /// The time limit of a program: CPU time for its own thread, wall-clock time for its workers.
    pub limit: Duration,
    /// The longest CPU time allowed between two checks of the clock.
    pub gap: Duration,
    /// The longest CPU time allowed from the check that finds that time is up to the end of the program, which includes
    /// freeing what it holds; also bounds the time to show the outcome, where nothing checks the clock.
    pub end: Duration,
    /// What `(tool/work {})` does. A tool that works without checking the clock must be detected.
    pub work: fn(),
}

/// The memory limit of a program, in bytes.
const MEMORY_BYTES: u64 = 10 << 20;
/// Bytes by which a program may make its thread grow.
const GROWTH_BYTES_MAX: isize = 2 * MEMORY_BYTES as isize + (8 << 20);
/// The largest response, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;
/// The number of programs in a session.
const TURNS: usize = 2;
/// Bytes that a session may hold, as servers count them by default.
const SESSION_BYTES: u64 = 4 << 20;
/// The largest snapshot, in bytes.
const SNAPSHOT_BYTES_MAX: usize = 16 << 20;

/// The host of one program.
struct MeasuringHost<'g> {
    gauge: &'g Gauge,
    thread: ThreadId,
    deadline: Duration,
    start: Duration,
    names: Vec<String>,
    seen: Mutex<Observations>,
}

/// What was observed of the program's own thread.
struct Observations {
    /// CPU time of the last check.
    last: Duration,
    /// The longest time between two checks.
    gap: Duration,
    /// When the thread learned that its time was up.
    stopped: Option<Duration>,
    /// The most bytes that it held.
    most: isize,
}

impl Host for MeasuringHost<'_> {
    fn tool_names(&self) -> &[String] {
        &self.names
    }

    fn call(&self, _: &str, args: &Value) -> Result<Value, HostFault> {
        (self.gauge.work)();
        Ok(args.clone())
    }

    fn now_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn pulse(&self) -> Pulse {
        let may_continue = if std::thread::current().id() == self.thread {
            let may_continue = self.record_check() < self.deadline;
            if !may_continue && let Ok(mut seen) = self.seen.lock() {
                let last = seen.last;
                seen.stopped.get_or_insert(last);
            }
            may_continue
        } else {
            (self.gauge.wall_time)() < self.start + self.gauge.limit
        };
        if may_continue {
            Pulse::Continue
        } else {
            Pulse::TimedOut
        }
    }
}

impl MeasuringHost<'_> {
    fn record_check(&self) -> Duration {
        let now = (self.gauge.cpu_time)();
        let live = heap::thread_balance();
        if let Ok(mut seen) = self.seen.lock() {
            if seen.stopped.is_none() {
                seen.gap = seen.gap.max(now.saturating_sub(seen.last));
            }
            seen.last = now;
            seen.most = seen.most.max(live);
        }
        now
    }
}

/// What must hold for each hostile program: it checks the clock regularly, so that it ends in time however it ends; its
/// thread does not grow beyond twice its memory limit; the next program works with what it leaves behind, which can be
/// written as a snapshot and read back within the same bounds.
pub fn hostile(bytes: &[u8], gauge: &Gauge) {
    let mut env = Env::new();
    let mut rest = Bytes(bytes);
    for _ in 0..TURNS {
        let after = measure_within_bounds(&hostile_program(&mut rest), &env, gauge);
        env = persist(env, after, gauge);
    }
    let after = measure_within_bounds(&keeping_program(&mut Bytes(bytes)), &env, gauge);
    env = persist(env, after, gauge);
    let (outcome, _) = run(
        &Program::new("(clojure.core/+ 1 2)"),
        &env,
        &Limits::default(),
        &NullHost,
    );
    assert!(
        matches!(outcome.ended, Ended::Value(Value::Int(3))),
        "the next program works"
    );
}

/// The session after a turn, as a server that persists it would keep it: `after`, or `before` when `after` is too
/// large.
fn persist(before: Env, after: Env, gauge: &Gauge) -> Env {
    let (held, seen) = observe(gauge, |_, meter| meter.within(|| after.held_bytes()));
    seen.assert_within(gauge, "to reckon what a session holds");
    if held > SESSION_BYTES {
        return before;
    }
    let write = |env: &Env| observe(gauge, |host, _| env.snapshot(SNAPSHOT_BYTES_MAX, host));
    let (written, seen) = write(&after);
    seen.assert_within(gauge, "to write a session");
    let Some(written) = unless_stopped(written) else {
        return after;
    };
    let (restored, seen) = observe(gauge, |_, meter| {
        meter.within(|| snapshot::read_metered(&written, meter))
    });
    seen.assert_within(gauge, "to read a session");
    let Some((restored, _)) = unless_stopped(restored) else {
        return after;
    };
    if let Some(again) = unless_stopped(write(&restored).0) {
        assert!(again == written, "what was read is written as it was");
    }
    restored
}

/// The result of writing or reading what a hostile program left behind, unless a limit ended the work.
fn unless_stopped<T>(done: Result<T, snapshot::Error>) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(
            snapshot::Error::Stopped(_)
            | snapshot::Error::Memory
            | snapshot::Error::TooLarge { .. },
        ) => None,
        Err(error) => panic!("what a program left is a session: {error}"),
    }
}

/// What was observed of one program.
pub struct Measurement {
    /// The longest CPU time without a check of the clock, until it had to stop.
    pub gap: Duration,
    /// CPU time from when it had to stop until it ended.
    pub end: Duration,
    /// CPU time until it ended.
    pub took: Duration,
    /// CPU time to show its outcome.
    pub shown: Duration,
    /// The most bytes that its thread held, beyond what it held before.
    pub grown: isize,
    /// How it ended: a reason, or `value`.
    pub how: &'static str,
    /// The environment that it left behind.
    pub env: Env,
}

/// Runs one program, and panics when it exceeds a bound.
pub fn measure_within_bounds(text: &str, env: &Env, gauge: &Gauge) -> Env {
    let Measurement {
        gap,
        end,
        took,
        shown,
        grown,
        how,
        env,
    } = measure(text, env, gauge);
    assert!(
        gap <= gauge.gap,
        "{gap:?} without a check of the clock ({how}): {text}"
    );
    assert!(end <= gauge.end, "{end:?} to stop ({how}): {text}");
    assert!(
        took <= gauge.limit + gauge.gap + gauge.end,
        "ran for {took:?} ({how}): {text}"
    );
    // Shown as a preview and as JSON.
    assert!(shown <= gauge.end * 2, "{shown:?} to show it: {text}");
    assert!(grown <= GROWTH_BYTES_MAX, "grew by {grown}: {text}");
    env
}

/// Runs one program and returns what was observed.
pub fn measure(text: &str, env: &Env, gauge: &Gauge) -> Measurement {
    let program = Program::new(text);
    let ((outcome, env), seen) =
        observe(gauge, |host, meter| run(&program, env, meter.limits, host));
    let ended = (gauge.cpu_time)();
    show_outcome(&outcome, text);
    Measurement {
        shown: (gauge.cpu_time)() - ended,
        how: match &outcome.ended {
            Ended::Error(error) => error.reason().name(),
            _ => "value",
        },
        gap: seen.gap,
        end: seen.end,
        took: seen.took,
        grown: seen.grown,
        env,
    }
}

/// What was observed of a piece of work.
struct WorkMeasurement {
    gap: Duration,
    end: Duration,
    took: Duration,
    grown: isize,
}

impl WorkMeasurement {
    fn assert_within(&self, gauge: &Gauge, what: &str) {
        let WorkMeasurement {
            gap,
            end,
            took,
            grown,
        } = self;
        assert!(*gap <= gauge.gap, "{gap:?} without a check {what}");
        assert!(*end <= gauge.end, "{end:?} to stop {what}");
        assert!(
            *took <= gauge.limit + gauge.gap + gauge.end,
            "{took:?} {what}"
        );
        assert!(*grown <= GROWTH_BYTES_MAX, "grew by {grown} {what}");
    }
}

/// Does `work` under the limits of a program, with a host and a meter that observe it.
fn observe<T>(
    gauge: &Gauge,
    work: impl FnOnce(&dyn Host, &Meter<'_>) -> T,
) -> (T, WorkMeasurement) {
    let limits = Limits {
        memory_bytes: MEMORY_BYTES,
        ..Limits::default()
    };
    let (before, live) = ((gauge.cpu_time)(), heap::thread_balance());
    let host = MeasuringHost {
        gauge,
        thread: std::thread::current().id(),
        deadline: before + gauge.limit,
        start: (gauge.wall_time)(),
        names: vec!["work".to_owned()],
        seen: Mutex::new(Observations {
            last: before,
            gap: Duration::ZERO,
            stopped: None,
            most: live,
        }),
    };
    let done = work(&host, &Meter::new(&limits, &host));
    host.record_check();
    let ended = (gauge.cpu_time)();
    let seen = host
        .seen
        .into_inner()
        .unwrap_or_else(|seen| seen.into_inner());
    let seen = WorkMeasurement {
        gap: seen.gap,
        end: seen.stopped.map_or(Duration::ZERO, |at| ended - at),
        took: ended.saturating_sub(before),
        grown: seen.most - live,
    };
    (done, seen)
}

/// Expressions for the operands of [`calls`].
pub fn operands() -> Vec<String> {
    let shapes = VALUES.iter().chain(OPERANDS).enumerate();
    let operands = shapes.flat_map(|(at, shape)| {
        let sizes: &[&str] = match (shape.contains("(range #)"), shape.contains('@')) {
            (true, true) => &["18", "21"],
            (true, false) => &["12", "30"],
            _ => &["0"],
        };
        sizes.iter().map(move |size| {
            let sized = shape.replace("(range #)", &format!("(range {size})"));
            sized.replace('@', TEXTS[at % TEXTS.len()])
        })
    });
    let long = LONG_TEXTS.iter().map(|text| {
        let copies = LONG_BYTES / text.len() / 4096;
        let block = format!("(reduce (fn [s _] (str s s)) \"{text}\" (range 12))");
        format!("(let [k {block}] (join (map (constantly k) (range {copies}))))")
    });
    operands.chain(long).collect()
}

/// Pieces for texts that take almost the whole memory limit.
const LONG_TEXTS: &[&str] = &[
    "9", "-", "%n", " ", "[", "\\n", "Σ", "é", ".", "0", "1e", "\\\\",
];
/// The approximate size of such a text, in bytes.
const LONG_BYTES: usize = 9_000_000;

/// Further operands of [`operands`]: values that are long or large for particular builtins.
const OPERANDS: &[&str] = &[
    "(reduce (fn [s _] (str s s)) \"ab\" (range 20))",
    "(reduce (fn [s _] (str s s)) \"7\" (range 16))",
    "(apply str (map (constantly \"9\") (range 78900)))",
    "(str \"1.\" (reduce (fn [s _] (str s s)) \"5\" (range 20)))",
    "(str \"[\" (reduce (fn [s _] (str s s)) \"1,\" (range 18)) \"1]\")",
    "(reduce (fn [s _] (str s s)) \"%s \" (range 12))",
    "(re-pattern (reduce (fn [s _] (str s s)) \"a?\" (range 12)))",
    "(reduce (fn [s _] (str s s)) \"(?:a|b){0,99}\" (range 9))",
    "(reduce (fn [s _] (str s s)) \"\\\\p{L}\" (range 12))",
    "(map (fn [i] (keyword (str \"k\" i))) (range 20000))",
    "(map (fn [i] [i (str i)]) (range 15000))",
    "(map (fn [i] {:a (mod i 7) :b i}) (range 8000))",
    "(map (fn [i] (/ 1.0 (+ i 1))) (range 40000))",
    "(reduce (fn [d _] (* d d)) 3 (range 17))",
    "(+ 1 (bit-shift-left 1 131072))",
    "(vec (map (fn [i] (bit-shift-left 1 i)) (range 4000)))",
    "(map (fn [i] (LocalDate/parse \"2025-03-09\")) (range 5000))",
    "#{#{1 2} [#{3}] {#{} {}}}",
    "(str \"Α\" (let [k (reduce (fn [s _] (str s s)) \"\\u0301\" (range 12))] (join (map (constantly k) (range 1000)))) \"Σ\")",
    "(str \"0.\" (let [k (reduce (fn [s _] (str s s)) \"5\" (range 12))] (join (map (constantly k) (range 2000)))))",
];

/// Calls of every builtin and method, with its name: the operands `v` and `w` alone, side by side, and before and after
/// small values and functions. `turn` chooses among the small values.
pub fn calls(turn: usize) -> Vec<(&'static str, String)> {
    const FUNCTIONS: [&str; 7] = [
        "identity",
        "str",
        "vector",
        "compare",
        "=",
        "(fn [& xs] xs)",
        "inc",
    ];
    let mut shapes: Vec<Vec<&str>> = vec![
        vec!["v"],
        vec!["v", "v"],
        vec!["v", "w"],
        vec!["w", "v"],
        vec!["v", "v", "v"],
        vec!["v", "w", "v"],
    ];
    for step in 0..4 {
        let small = |more: usize| SMALL[(turn * 7 + step + more) % SMALL.len()];
        shapes.push(vec!["v", small(0)]);
        shapes.push(vec![small(0), "v"]);
        shapes.push(vec!["v", small(0), "v"]);
        shapes.push(vec![small(0), "v", small(1)]);
        shapes.push(vec!["v", small(0), small(1)]);
    }
    for function in FUNCTIONS {
        shapes.push(vec![function, "v"]);
        shapes.push(vec![function, "v", "v"]);
    }
    let takes = |min: u8, max: Option<u8>, count: usize| {
        (usize::from(min)..=max.map_or(3, usize::from)).contains(&count)
    };
    let functions = builtins().map(|row| (row.name, row.arity.min, row.arity.max));
    let methods = METHODS.iter().map(|name| (*name, 1, Some(3)));
    let mut calls = Vec::new();
    for (name, min, max) in functions.chain(methods) {
        for shape in &shapes {
            if takes(min, max, shape.len()) {
                calls.push((name, format!("({name} {})", shape.join(" "))));
            }
        }
    }
    calls
}

/// Calls of every builtin with short values and one large number, a combination that the operands of [`calls`] lack:
/// counts, sizes and positions.
pub fn calls_with_large_counts() -> Vec<(&'static str, String)> {
    const COUNTS: [&str; 3] = ["30000000", "9007199254740991", "-9007199254740991"];
    const SHAPES: [&str; 14] = [
        "#",
        "# _",
        "_ #",
        "# #",
        "_ # _",
        "_ _ #",
        "# _ _",
        "_ # #",
        "# # _",
        "identity #",
        "# identity _",
        "identity # _",
        "# # #",
        "# # _ _",
    ];
    const SHORT: [&str; 5] = ["\"a\"", "\"é\"", "[1 2]", "nil", "{:a 1}"];
    let mut calls = Vec::new();
    for (turn, row) in builtins().enumerate() {
        let most = row.arity.max.map_or(4, usize::from);
        for (at, shape) in SHAPES.iter().enumerate() {
            let count = shape.split(' ').count();
            if !(usize::from(row.arity.min)..=most).contains(&count) {
                continue;
            }
            let mut call = |number: &str, short: &str| {
                let args = shape.replace('#', number).replace('_', short);
                calls.push((row.name, format!("({} {args})", row.name)));
            };
            call(COUNTS[0], SHORT[0]);
            let turn = turn + at;
            if turn.is_multiple_of(4) {
                call(
                    COUNTS[turn / 4 % COUNTS.len()],
                    SHORT[turn / 4 % SHORT.len()],
                );
            }
        }
    }
    calls
}

/// Shows an outcome as a server does.
fn show_outcome(outcome: &Outcome, text: &str) {
    match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) | Ended::Fail(value) => {
            drop(print::preview(
                value,
                print::PREVIEW_ITEMS,
                print::PREVIEW_GRAPHEMES,
            ));
            drop(json::to_string_within(value, ANSWER_BYTES, &Unwatched));
        }
        Ended::Error(error) => {
            assert!(!error.message().is_empty(), "an error has a message");
            drop(error.explained(text, &|quoted| quoted.to_owned()));
        }
    }
}

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

/// Expressions for values of many kinds; `#` stands for a size, `@` for a text.
const VALUES: &[&str] = &[
    "(reduce (fn [s _] (str s s)) @ (range #))",
    "(reduce (fn [s _] (str s s)) @ (range #))",
    "(str (reduce (fn [s _] (str s s)) @ (range #)) @)",
    "(keyword (reduce (fn [s _] (str s s)) @ (range #)))",
    "(reduce (fn [a _] [a a]) [] (range #))",
    "(reduce (fn [a _] [a a]) @ (range #))",
    "(reduce (fn [a _] {:a a :b a}) {} (range #))",
    "(reduce (fn [a _] {a a}) {} (range #))",
    "(reduce (fn [a _] #{a [a]}) #{} (range #))",
    "(reduce (fn [a _] (conj a a)) [1] (range #))",
    "(reduce (fn [a _] [a]) 1 (range 3000))",
    "(reduce (fn [a _] {:a a}) @ (range 3000))",
    "(vec (range 60000))",
    "(set (range 20000))",
    "(zipmap (range 20000) (range 20000))",
    "(map (fn [i] (str @ i)) (range 20000))",
    "(let [s (reduce (fn [s _] (str s s)) @ (range #))] (vec (map (fn [_] s) (range 3000))))",
    "(let [s (reduce (fn [s _] (str s s)) @ (range #))] (vec (map (fn [i] (str s i)) (range 5))))",
    "(let [s (vec (range 1000))] (vec (map (fn [_] s) (range 1000))))",
    "(bit-shift-left 1 262143)",
    "(dec (bit-shift-left 1 262000))",
    "(- (bit-shift-left 3 130000))",
    "(vec (map (fn [i] (+ i (bit-shift-left 1 100000))) (range 20)))",
    "(bit-shift-left 1 5000)",
    "(re-pattern \"(?:[ab]{0,1000}){9}c\")",
    "(re-pattern \"(?=a.*b)a\")",
    "(LocalDate/parse \"2025-03-09\")",
    "(Instant/parse \"2025-03-09T10:00:00Z\")",
    "(reduce (fn [f _] (comp f identity)) identity (range 500))",
    "{:a 1 \"b\" 2 3 [4]}",
    "##NaN",
    "##Inf",
    "9223372036854775807",
    "[3 1 2 nil \"a\" :b 1.5 ##NaN]",
    "(json/generate-string (vec (range 50000)))",
    "(str (apply str (map (constantly \"[\") (range 50000))))",
];

/// The texts that `@` stands for.
const TEXTS: &[&str] = &[
    "\"a\"",
    "\"a\"",
    "\"ab\"",
    "\"é\"",
    "\"e\\u0301\"",
    "\"\\u0301\"",
    "\"\\u200d\"",
    "\"🇨🇭\"",
    "\"👩\\u200d🚀\"",
    "\"\\r\\n\"",
    "\"\\n\"",
    "\" \"",
    "\"1\"",
    "\"-\"",
    "\"[\"",
    "\"{\\\"a\\\":\"",
    "\",\"",
    "\"$1\"",
    "\"%s \"",
    "\"%5.2f\"",
    "\"Σ\"",
    "\"ﬃ\"",
    "\"\\\"\"",
    "\"\\\\\"",
    "\"A b-c_d\"",
    "\"한\"",
    "\"\\u1100\"",
];

/// Small values that accompany the others.
const SMALL: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3",
    "1000",
    "nil",
    "true",
    ":a",
    "\"a\"",
    "\"\"",
    "\"b\"",
    "\"é\"",
    "[]",
    "{}",
    "[0]",
    "[:a :b]",
    "1.5",
    "inc",
    "identity",
    "str",
    "vector",
    "=",
    "<",
    "compare",
    "(fn [& xs] (first xs))",
    "(fn [x] [x x])",
    "count",
    "#{}",
    "\"%s\"",
    "\"%10d\"",
    "\"%x\"",
    ":desc",
    "\"a\\n\"",
    "(range 100)",
    "hash-map",
    "(range)",
    "(iterate inc 0)",
    "(cycle [1 2])",
    "(repeat :x)",
    "(map inc)",
    "(comp (filter some?) (take 9))",
    "(partition-all 3)",
    "(reduced 1)",
    "#\"a+|b\"",
    "(fn [m] (str m m))",
    "(sorted-map 1 2)",
];

/// Loops around an expression `_`; `i` counts.
const LOOPS: &[&str] = &[
    "_",
    "_",
    "(count (map (fn [i] _) (range 3000)))",
    "(reduce (fn [acc i] _) a (range 300))",
    "(loop [i 0] (when (< i 900) _ (recur (inc i))))",
    "(doseq [i (range 1000)] _)",
    "(for [i (range 40) j (range 40)] _)",
    "(pmap (fn [i] _) (range 4))",
    "(pcalls (fn [] _) (fn [] _))",
    "(first (filter (fn [i] _ nil) (range 3000)))",
    "(sort-by (fn [i] _) (range 500))",
    "(do (def kept _) (count (map (fn [i] (= kept _)) (range 300))))",
    "(println _)",
    "(defn f [i] (if (< i 400) (do _ (f (inc i))) i)) (f 0)",
    "(-> a (vector _) str count)",
    "(let [b _ a [b b]] [(= a [b b]) (pr-str a)])",
    "(return _)",
    "(fail [_ _])",
    "(tool/work {:a _})",
    "(hash-set _ _)",
    "{_ 1 :b 2}",
    "(case _ 1 2 3)",
    "(str (fn [i] _) _)",
    "(into [] (comp (map (fn [i] _)) (take 300)) (range 900))",
    "(transduce (comp (map (fn [i] _)) (partition-all 7)) conj [] (range 300))",
    "(count (take 300 (iterate (fn [i] _) a)))",
    "(count (reductions (fn [acc i] _) a (range 300)))",
    "(reduce (fn [acc i] (if (> i 99) (reduced acc) _)) a (range))",
    "(replace (str b) #\".\" (fn [i] (str _)))",
    "(prewalk (fn [i] (if (coll? i) i _)) b)",
    "(postwalk (fn [i] i) _)",
    "(json/parse-string (json/generate-string _))",
    "(format \"%S %20s\" _ _)",
    "(get {:a 1 \"b\" 2} _)",
    "(update {:a a} :a (fn [i] _))",
];

/// The subject of a program's values, so that most calls accept them.
#[derive(Clone, Copy)]
enum Theme {
    Texts,
    Collections,
    Numbers,
    Mixed,
}

impl Theme {
    /// A value of this theme. [`VALUES`] lists texts first, then collections, then numbers.
    fn value(self, bytes: &mut Bytes<'_>) -> &'static str {
        let starts = |wanted: &str| VALUES.iter().position(|value| value.starts_with(wanted));
        let collections = starts("(reduce (fn [a _] [a a]) []").unwrap_or(0);
        let numbers = starts("(bit-shift-left 1 262143)").unwrap_or(0);
        let (from, to) = match self {
            Theme::Texts => (0, collections),
            Theme::Collections => (collections, numbers),
            Theme::Numbers => (numbers, numbers + 5),
            Theme::Mixed => (0, VALUES.len()),
        };
        VALUES[from + bytes.below(to - from)]
    }

    /// Whether functions of `section` accept such values.
    fn takes(self, section: Section) -> bool {
        match self {
            Theme::Texts => matches!(section, Section::Strings | Section::Regex | Section::Json),
            Theme::Collections => matches!(
                section,
                Section::Core | Section::Sets | Section::FunctionalTools
            ),
            Theme::Numbers => matches!(section, Section::Math | Section::Core),
            Theme::Mixed => true,
        }
    }
}

fn hostile_program(bytes: &mut Bytes<'_>) -> String {
    let (theme, mut out) = values(bytes);
    for _ in 0..=bytes.below(2) {
        let around = LOOPS[bytes.below(LOOPS.len())];
        for (at, piece) in around.split('_').enumerate() {
            if at > 0 {
                call(&mut out, bytes, theme, 0);
            }
            out.push_str(piece);
        }
        out.push(' ');
    }
    out.push(')');
    out
}

/// A program that keeps values of these kinds in definitions: in collections, captured by functions, as keys, shared
/// and unshared.
fn keeping_program(bytes: &mut Bytes<'_>) -> String {
    const DEFINITIONS: [&str; 8] = [
        "(def kept [a b c d])",
        "(def kept (fn [x] [a b c d x]))",
        "(def kept {a b, :c c, [d] :d})",
        "(def kept #{a b #{c} {d d}})",
        "(def kept [(comp (partial vector a b) (fn [& xs] [c xs])) (juxt identity (fn [x] d))])",
        "(def kept (map (fn [i] (fn [x] [i x a])) (range 2000)))",
        "(def kept (reduce (fn [m i] (assoc m i [a i])) {} (range 5000)))",
        "(def kept (map (fn [i] (re-pattern (str \"(?:a|b\" i \")*[^c]{0,9}\"))) (range 400)))",
    ];
    let (_, mut out) = values(bytes);
    for _ in 0..2 {
        out.push_str(DEFINITIONS[bytes.below(DEFINITIONS.len())]);
        out.push(' ');
    }
    out.push_str("(def again kept) nil)");
    out
}

/// The beginning of a program, up to its body: the values that it works on.
fn values(bytes: &mut Bytes<'_>) -> (Theme, String) {
    let mut out = String::from("(let [");
    let theme = [
        Theme::Texts,
        Theme::Collections,
        Theme::Numbers,
        Theme::Mixed,
    ][bytes.below(4)];
    for name in ["a", "b", "c"] {
        let value = theme.value(bytes);
        let _infallible = write!(out, "{name} ");
        filled(&mut out, value, bytes);
        out.push(' ');
    }
    // `a` and `d` are equal but distinct values.
    out.push_str("d (if (vector? a) (vec (map identity a)) (if (string? a) (str a \"\") a)) i 7] ");
    (theme, out)
}

fn filled(out: &mut String, shape: &str, bytes: &mut Bytes<'_>) {
    const SIZES: [&str; 8] = ["3", "9", "12", "15", "18", "20", "21", "30"];
    let mut characters = shape.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '#' if characters.peek() == Some(&')') => {
                out.push_str(SIZES[bytes.below(SIZES.len())]);
            }
            '@' => out.push_str(TEXTS[bytes.below(TEXTS.len())]),
            other => out.push(other),
        }
    }
}

/// A random call.
fn call(out: &mut String, bytes: &mut Bytes<'_>, theme: Theme, depth: usize) {
    if matches!(theme, Theme::Texts) && bytes.below(3) == 0 || bytes.below(20) == 0 {
        return search(out, bytes);
    }
    let free = bytes.below(6) == 0;
    let fitting = || builtins().filter(|row| free || theme.takes(row.section));
    let rows = fitting().count();
    let methods = if free || matches!(theme, Theme::Texts) {
        METHODS.len()
    } else {
        0
    };
    let chosen = bytes.below(rows + methods);
    let (name, count) = match fitting().nth(chosen) {
        Some(row) => {
            let least = usize::from(row.arity.min);
            let most = row.arity.max.map_or(least + 2, usize::from);
            (row.name, least + bytes.below(most - least + 1))
        }
        None => (METHODS[chosen - rows], 1 + bytes.below(3)),
    };
    let _infallible = write!(out, "({name}");
    for _ in 0..count {
        out.push(' ');
        argument(out, bytes, theme, depth);
    }
    out.push(')');
}

fn argument(out: &mut String, bytes: &mut Bytes<'_>, theme: Theme, depth: usize) {
    match bytes.below(12) {
        0..=3 => out.push('a'),
        4 | 5 => out.push('b'),
        6 => out.push('c'),
        7 => out.push('d'),
        8 if depth < 2 => call(out, bytes, theme, depth + 1),
        9 if matches!(theme, Theme::Texts | Theme::Mixed) => pattern(out, bytes),
        _ => out.push_str(SMALL[bytes.below(SMALL.len())]),
    }
}

/// A search with a random pattern.
fn search(out: &mut String, bytes: &mut Bytes<'_>) {
    const SEARCHES: [&str; 8] = [
        "(re-find ~ _)",
        "(re-seq ~ _)",
        "(re-matches ~ _)",
        "(split _ ~)",
        "(replace _ ~ \"$1x\")",
        "(extract ~ _)",
        "(re-split ~ _)",
        "(re-find ~ (str _ \"!\\n\"))",
    ];
    let shape = SEARCHES[bytes.below(SEARCHES.len())];
    for character in shape.chars() {
        match character {
            '~' => pattern(out, bytes),
            '_' => out.push_str(["a", "b", "c"][bytes.below(3)]),
            other => out.push(other),
        }
    }
}

/// A random regex literal from a grammar.
fn pattern(out: &mut String, bytes: &mut Bytes<'_>) {
    out.push_str("#\"");
    let start = out.len();
    branch(out, bytes, 0, start);
    out.push('"');
}

fn branch(out: &mut String, bytes: &mut Bytes<'_>, depth: usize, start: usize) {
    const ATOMS: [&str; 18] = [
        "a", "b", "é", ".", "[ab]", "[^a]", "\\\\w", "\\\\s", "\\\\d", "\\\\b", "^", "$", "\\\\X",
        "\\\\R", "\\\\p{L}", "(?i)", "\\\\1", "(?s)",
    ];
    const GROUPS: [&str; 9] = [
        "(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?:a|",
    ];
    const SIGNS: [&str; 14] = [
        "", "", "", "*", "+", "?", "*?", "+?", "*+", "{2}", "{0,50}", "{3,}", "{0,1000}", "{5,9}?",
    ];
    const LONG: usize = 120;
    for at in 0..=bytes.below(3) {
        if at > 0 && bytes.below(5) == 0 {
            out.push('|');
        }
        let group = depth < 4 && out.len() - start < LONG && bytes.below(3) == 0;
        if group {
            out.push_str(GROUPS[bytes.below(GROUPS.len())]);
            branch(out, bytes, depth + 1, start);
            out.push(')');
        } else {
            // In a regex literal, a backslash of the pattern is written once.
            out.push_str(&ATOMS[bytes.below(ATOMS.len())].replace("\\\\", "\\"));
        }
        out.push_str(SIGNS[bytes.below(SIGNS.len())]);
    }
}

/// The program that [`hostile`] makes from `bytes` and runs first.
pub fn hostile_text(bytes: &[u8]) -> String {
    hostile_program(&mut Bytes(bytes))
}
