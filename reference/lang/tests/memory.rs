//! The memory that typical programs hold over typical numbers of records: under the default limits of a program, with
//! the context read from JSON as a server reads it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicIsize, Ordering};

use ptc_lang::{
    Ended, Env, Host, HostFault, Limits, Meter, Program, Pulse, Value, heap, json, run, run_metered,
};

ptc_lang::counting_allocator!();

/// The number of records in the context, with four fields each.
const RECORDS: usize = 5_000;

/// Observes how much memory the program holds.
struct PeakHost {
    before: isize,
    peak: AtomicIsize,
}

impl Host for PeakHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        let held = heap::thread_balance() - self.before;
        self.peak.fetch_max(held, Ordering::Relaxed);
        Pulse::Continue
    }
}

fn records() -> Env {
    let mut text = String::from("{\"records\":[");
    for id in 0..RECORDS {
        let comma = if id > 0 { "," } else { "" };
        let (region, total) = (id % 7, id * 7919 % 10_007);
        let _infallible = write!(
            text,
            "{comma}{{\"id\":{id},\"name\":\"customer {id}\",\"region\":\"r{region}\",\"total\":{total}}}"
        );
    }
    text.push_str("]}");
    match json::from_str(&text) {
        Ok(Value::Map(map)) => Env::new().with_context(map),
        other => panic!("the context is an object: {other:?}"),
    }
}

/// The value of `program` under `limits`, and the most bytes that it was observed to hold.
fn peak_of(env: &Env, program: &str, limits: &Limits) -> Result<(String, isize), String> {
    let before = heap::thread_balance();
    let host = PeakHost {
        before,
        peak: AtomicIsize::new(0),
    };
    let (outcome, _) = run(&Program::new(program), env, limits, &host);
    let peak = host.peak.into_inner().max(heap::thread_balance() - before);
    match outcome.ended {
        Ended::Value(value) => Ok((ptc_lang::print::preview(&value, 50, 250), peak)),
        Ended::Error(error) => Err(error.reason().name().to_owned()),
        other => panic!("{program}: {other:?}"),
    }
}

/// Programs over all records, each with its result.
const PROGRAMS: &[(&str, &str)] = &[
    ("(:id (first (sort-by :total data/records)))", "0"),
    ("(count (sort-by :total > data/records))", "5000"),
    (
        "(count (sort-by (fn [r] [(:region r) (:total r)]) data/records))",
        "5000",
    ),
    (
        "(count (get (group-by :region data/records) \"r3\"))",
        "714",
    ),
    ("(count (group-by :id data/records))", "5000"),
    (
        "(count (group-by (fn [r] [(:region r) (mod (:total r) 10)]) data/records))",
        "70",
    ),
    (
        "(let [sorted (sort-by :total data/records) groups (group-by :region sorted)] [(count sorted) (count groups)])",
        "[5000 7]",
    ),
    (
        "(count (map (fn [r] (assoc r :double (* 2 (:total r)))) data/records))",
        "5000",
    ),
];

#[test]
fn programs_over_thousands_of_records_fit_the_default_limits() {
    let env = records();
    for (program, value) in PROGRAMS {
        let (shown, peak) = peak_of(&env, program, &Limits::default())
            .unwrap_or_else(|reason| panic!("{program}: {reason}"));
        println!("{peak:>9} bytes  {program}");
        assert_eq!(&shown, value, "{program}");
    }
}

#[test]
fn programs_over_the_memory_limit_stop() {
    let env = records();
    let limits = Limits {
        memory_bytes: 64 * 1024,
        ..Limits::default()
    };
    for program in [
        "(sort-by :total data/records)",
        "(group-by :id data/records)",
    ] {
        assert_eq!(
            peak_of(&env, program, &limits),
            Err("memory_limit".to_owned()),
            "{program}"
        );
    }
}

/// The memory of a large integer is reserved before the integer is made.
#[test]
fn large_integers_are_charged_before_allocation() {
    const LIMIT_BYTES: u64 = 24 * 1024;
    const INTEGER_BYTES: u64 = 32 * 1024;
    let digits = "7".repeat(78_000);
    let env = match json::from_str(&format!("{{\"x\":{digits}}}")) {
        Ok(Value::Map(map)) => Env::new().with_context(map),
        other => panic!("the context is an object: {other:?}"),
    };
    let limits = Limits {
        memory_bytes: LIMIT_BYTES,
        ..Limits::default()
    };
    let held = |call: &str| {
        let host = PeakHost {
            before: heap::thread_balance(),
            peak: AtomicIsize::new(0),
        };
        let meter = Meter::new(&limits, &host);
        let (outcome, _) = meter.within(|| run_metered(&Program::new(call), &env, &meter));
        (outcome.ended, meter.peak_bytes())
    };
    // What reading and running any program takes.
    let (_, least) = held("(do data/x (vector 1 2) nil)");
    for call in [
        "(inc data/x)",
        "(dec data/x)",
        "(- data/x)",
        "(+ 1 data/x)",
        "(abs (- data/x))",
        "(abs data/x)",
        "(* 2 data/x)",
        "(quot data/x 2)",
        "(mod data/x 1000)",
        "(/ data/x 3)",
        "(bit-and data/x data/x)",
        "(bit-or data/x 1)",
        "(bit-xor 1 data/x)",
        "(bit-and-not data/x 1)",
        "(bit-not data/x)",
        "(bit-set data/x 1)",
        "(bit-clear data/x 200000)",
        "(bit-flip 1 250000)",
        "(bit-shift-left 1 250000)",
        "(bit-shift-right data/x 1)",
    ] {
        let (ended, most) = held(call);
        match ended {
            Ended::Error(error) => assert_eq!(error.reason().name(), "memory_limit", "{call}"),
            other => panic!("{call}: {other:?}"),
        }
        let beyond = most.saturating_sub(least);
        assert!(beyond <= INTEGER_BYTES / 2, "{call}: {beyond} bytes beyond");
    }
}

/// Counts the checks of the clock, as a measure of work.
#[derive(Default)]
struct CountingHost(AtomicIsize);

impl Host for CountingHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        self.0.fetch_add(1, Ordering::Relaxed);
        Pulse::Continue
    }
}

/// Trees that contain all earlier trees share nearly all of their nodes: twice as many take twice the work, not four
/// times, and freeing them takes no more memory than making them.
#[test]
fn freeing_deep_trees_visits_only_unshared_nodes() {
    const VERSIONS: usize = 1_500;
    for step in [
        "(conj v v)",
        "(conj v v v)",
        "(conj v [v])",
        "(conj v (fn [] v))",
        "(conj v (partial + v))",
        "(assoc (if (= v []) {} v) i v)",
    ] {
        let checks = |versions: usize| {
            let program =
                format!("(loop [v [] i 0] (if (< i {versions}) (recur {step} (inc i)) nil))");
            let (host, limits) = (CountingHost::default(), Limits::default());
            let (outcome, _) = run(&Program::new(program.as_str()), &Env::new(), &limits, &host);
            assert!(matches!(outcome.ended, Ended::Value(_)), "{program}");
            host.0.into_inner()
        };
        let (some, more) = (checks(VERSIONS), checks(2 * VERSIONS));
        println!("{some:>6} {more:>6} checks  {step}");
        assert!(more <= 3 * some, "{step}: {some} checks, then {more}");
    }
    let versions =
        "(loop [v (vec (range 1000)) i 0] (if (< i 300) (recur (assoc v 500 v) (inc i)) 1))";
    let shared = "(loop [v (vec (range 1000)) w [] i 0] (if (< i 300) (recur (assoc v 500 i) (conj w v) (inc i)) 1))";
    let [deep, flat] =
        [versions, shared].map(|program| peak_of(&Env::new(), program, &Limits::default()));
    let ((_, deep), (_, flat)) = (deep.expect("it fits"), flat.expect("it fits"));
    println!("{deep:>9} bytes deep, {flat} flat");
    assert!(deep <= 2 * flat, "{deep} bytes deep, {flat} flat");
}

/// A host with a tool that is itself a program.
struct ProgramToolHost {
    tool: [String; 1],
}

impl Host for ProgramToolHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn tool_names(&self) -> &[String] {
        &self.tool
    }

    fn call(&self, _: &str, args: &Value) -> Result<Value, HostFault> {
        let alone = CountingHost::default();
        let env =
            Env::new().with_context([(Value::str("args"), args.clone())].into_iter().collect());
        let tool = Program::new("(count (mapv str (range (:n data/args))))");
        let (outcome, _) = run(&tool, &env, &Limits::default(), &alone);
        match outcome.ended {
            Ended::Value(value) => Ok(value),
            _ => Err(HostFault::Raise {
                code: None,
                message: "the tool failed".to_owned(),
            }),
        }
    }
}

/// What the tools of a program hold while they run counts as the program's, however many run at once.
#[test]
fn tool_programs_are_charged_to_the_caller() {
    let host = ProgramToolHost {
        tool: ["make".to_owned()],
    };
    let most = |program: &str, memory_bytes: u64| {
        let limits = Limits {
            memory_bytes,
            ..Limits::default()
        };
        let meter = Meter::new(&limits, &host);
        let (outcome, _) =
            meter.within(|| run_metered(&Program::new(program), &Env::new(), &meter));
        (outcome.ended, meter.peak_bytes())
    };
    let (ended, one) = most("(tool/make {:n 20000})", u64::MAX);
    assert!(
        matches!(ended, Ended::Value(Value::Int(20_000))),
        "{ended:?}"
    );
    assert!(one > 500_000, "{one} bytes");
    // One after the other they hold no more than a single one.
    let (ended, most_held) = most("(mapv (fn [_] (tool/make {:n 20000})) (range 8))", one * 2);
    assert!(matches!(ended, Ended::Value(_)), "{ended:?}");
    assert!(most_held < one * 2, "{most_held} bytes, not {one}");
    // Exceeding the limit stops the tool, not only the program that called it.
    let (ended, most_held) = most("(tool/make {:n 200000})", one);
    assert!(matches!(ended, Ended::Error(_)), "{ended:?}");
    assert!(most_held < one * 2, "{most_held} bytes, not {one}");
}

/// The counted bytes of a definition are at least what it takes, whether it was made here or read from a snapshot, and
/// not many times as much: memory that analysis uses temporarily is counted too, most of all for a function with many
/// locals.
#[test]
fn stored_code_is_counted_fully() {
    const ARMS: usize = 1_500;
    type Arm = fn(usize) -> String;
    let forms: &[(&str, Arm)] = &[
        ("(case x # nil)", |i| format!("{i} {i}")),
        ("(case x # nil)", |i| format!(":k{i} {i}.5")),
        ("(case x # nil)", |i| {
            format!("\"a rather long text {i}\" nil")
        }),
        ("(case x # nil)", |i| format!("[{i} :b] {i}")),
        ("(case x # nil)", |i| format!("({i} :b{i}) {i}")),
        ("(case x # nil)", |i| format!("{i} (fn [y] (+ x y {i}))")),
        ("(cond # :else nil)", |i| format!("(= x {i}) {i}")),
        ("(condp = x # nil)", |i| format!("{i} {i}")),
        ("(do #)", |i| format!("(str x {i})")),
        ("[#]", |i| format!("\"a rather long text {i}\"")),
        ("{#}", |i| format!(":k{i} x")),
        ("(let [#] x)", |i| format!("v{i} (inc x)")),
    ];
    let (limits, host) = (Limits::default(), CountingHost::default());
    let go = |program: &str| run(&Program::new(program), &Env::new(), &limits, &host);
    // Make what a process makes only once.
    drop(go("(def f (fn [x] (case x 1 2 3)))"));
    for (form, arm) in forms {
        let arms: Vec<String> = (0..ARMS).map(arm).collect();
        let body = form.replace('#', &arms.join(" "));
        for wrap in ["(defn f [x] #)", "(def f (let [a 1] [(fn [x] #)]))"] {
            let program = wrap.replacen('#', &body, 1);
            let before = heap::thread_balance();
            let (outcome, env) = go(&program);
            assert!(!matches!(outcome.ended, Ended::Error(_)), "{wrap} {form}");
            drop(outcome);
            let made = (heap::thread_balance() - before, env.held_bytes());
            let snapshot = env.snapshot(1 << 24, &host).expect("it fits");
            let before = heap::thread_balance();
            let (env, _) = ptc_lang::snapshot::read(&snapshot, &limits, &host).expect("it is one");
            let read = (heap::thread_balance() - before, env.held_bytes());
            for (real, counted) in [made, read] {
                let counted = isize::try_from(counted).expect("it was allocated");
                assert!(
                    real <= counted && counted <= 3 * real,
                    "{wrap} {form} {}: {counted} for {real} bytes",
                    arm(7)
                );
            }
        }
    }
}
