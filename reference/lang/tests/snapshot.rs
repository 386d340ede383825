//! Snapshots: sessions of several turns, of the corpus, and with everything that a session may keep, continue from
//! their bytes as they would have without; hostile bytes are refused at a bounded cost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ptc_lang::fuzz::same_session;
use ptc_lang::snapshot::Error;
use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Host, Limits, Program, Pulse, Value, heap, print, run, snapshot};

ptc_lang::counting_allocator!();

const BYTES_MAX: usize = 64 << 20;

/// A world without a clock, which stops programs that run long.
#[derive(Default)]
struct TestHost(AtomicU32);

impl Host for TestHost {
    fn now_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn pulse(&self) -> Pulse {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0..2_000 => Pulse::Continue,
            _ => Pulse::TimedOut,
        }
    }
}

fn bytes(env: &Env) -> Vec<u8> {
    env.snapshot(BYTES_MAX, &TestHost::default())
        .expect("a session is written")
}

fn restored(bytes: &[u8]) -> Env {
    Env::restore(bytes, &Limits::default(), &TestHost::default()).expect("a snapshot is read")
}

fn refused(bytes: &[u8]) -> Error {
    match Env::restore(bytes, &Limits::default(), &TestHost::default()) {
        Ok(_) => panic!("the bytes are no snapshot"),
        Err(error) => error,
    }
}

fn turn(env: &Env, program: &str) -> (Ended, Env) {
    let (outcome, mut after) = run(
        &Program::new(program),
        env,
        &Limits::default(),
        &TestHost::default(),
    );
    if let Ended::Value(value) | Ended::Return(value) = &outcome.ended {
        after.remember(value.clone());
    }
    (outcome.ended, after)
}

/// The result of the last of `turns`, when the session is written and read before each of them.
fn replay_through_snapshots(turns: &[&str]) -> String {
    let mut env = Env::new()
        .recording_results()
        .with_journal(Map::new())
        .with_context(
            [(Value::str("rows"), Value::vector(vec![Value::Int(7)]))]
                .into_iter()
                .collect(),
        );
    let mut given = String::new();
    for program in turns {
        let written = bytes(&env);
        same_session(&env, &written, program);
        let (ended, after) = turn(&restored(&written), program);
        given = match ended {
            Ended::Value(value) | Ended::Return(value) => print::readable(&value),
            Ended::Fail(value) => format!("fail {}", print::readable(&value)),
            Ended::Error(error) => error.message(),
        };
        env = after;
    }
    given
}

#[test]
fn sessions_survive_snapshots() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["(def x 1)", "(def y (+ x 1))", "[x y *1 *2]"],
            "[1 2 #'y #'x]",
        ),
        (
            &[
                "(defn f [n] (* 2 n))",
                "(defn g [n] (f (f n)))",
                "(defn f [n] (+ 1 n))",
                "(g 5)",
            ],
            "7",
        ),
        (
            &[
                "(defn adder [n] (fn [m] (+ n m)))",
                "(def add3 (adder 3))",
                "(add3 4)",
            ],
            "7",
        ),
        (
            &[
                "(def fs (let [a 1 b [2]] {:p (fn [] a) :q (fn [x] [x b])}))",
                "[((:p fs)) ((:q fs) 0)]",
            ],
            "[1 [0 [2]]]",
        ),
        (
            &[
                "(def f (fn fact [n] (if (< n 2) 1 (* n (fact (dec n))))))",
                "(f 25)",
            ],
            "15511210043330985984000000",
        ),
        (&["(def f #(vector % %2 %&))", "(f 1 2 3)"], "[1 2 [3]]"),
        (
            &[
                "(def xf (comp (map inc) (filter odd?) (take 2)))",
                "[(into [] xf (range 9)) (sequence xf [4 6 8]) (into #{} xf [])]",
            ],
            "[[1 3] [5 7] #{}]",
        ),
        (
            &[
                "(def big 2)",
                "(def xf (remove (fn [x] (> x big))))",
                "(def ys (comp xf (partition-all 2) cat (interpose :s)))",
                "(def big 1)",
                "[(transduce xf + 0 [1 2 3]) (into [] ys [1 0 5])]",
            ],
            "[1 [1 :s 0]]",
        ),
        (
            &[
                "(def steps {:d dedupe :x [(distinct) (take-nth 2) (map-indexed vector) (drop-while neg?)]})",
                "[(into [] (first (:x steps)) [1 1 2]) (into [] (last (:x steps)) [-1 2 -3]) (into [] ((:d steps)) [1 1 2 1])]",
            ],
            "[[1 2] [2 -3] [1 2 1]]",
        ),
        (
            &[
                "(def r (reduced {:n [1 (reduced 2)]}))",
                "[(reduced? r) (unreduced r) (reduced? (second (:n (unreduced r))))]",
            ],
            "[true {:n [1 #fn[anonymous]]} true]",
        ),
        (
            &[
                "(defn until [limit] (fn [sum x] (if (> x limit) (reduced sum) (+ sum x))))",
                "(def f (until 2))",
                "[(reduce f 0 [1 2 3 4]) (reduce f (range)) (reduce (:f {:f f}) 5 [])]",
            ],
            "[3 3 5]",
        ),
        (
            &[
                "(def xs (map inc (range 1000)))",
                "(def ys (take 3 (iterate inc 5)))",
                "[(count xs) (last xs) ys]",
            ],
            "[1000 1000 [5 6 7]]",
        ),
        (
            &[
                "(def known [set/join Character/isDigit str/escape Integer/parseInt Long/MAX_VALUE])",
                "(let [[join digit? escape parse most] known] [(join [{:a 1}] [{:a 1 :b 2}]) (digit? \"5\") (escape \"a<\" {\"<\" \"&lt;\"}) (parse \"ff\" 16) most])",
            ],
            "[#{{:a 1 :b 2}} true \"a&lt;\" 255 9223372036854775807]",
        ),
        (&["(def f (->> 5 (fn [])))", "(f)"], "5"),
        (
            &[
                "(defn f [{:keys [a b] :or {b (inc 1)} :as m} [x & more]] [a b m x more])",
                "(f {:a 1} [1 2 3])",
            ],
            "[1 2 {:a 1} 1 [2 3]]",
        ),
        (
            &[
                "(defn f [x] (inc x))",
                "(def inc dec)",
                "(defn g [x] (inc x))",
                "[(f 5) (g 5)]",
            ],
            "[6 4]",
        ),
        (
            &["(defn f [] (h))", "(defn h [] 1)", "(f)"],
            "Undefined variable: f",
        ),
        (&["(defn f [] (or later 0))", "(f)"], "0"),
        (&["(do (defn f [] (h)) (defn h [] 1))", "(f)"], "1"),
        (
            &[
                "(def v #'x)",
                "(def x 1)",
                "(def v #'x)",
                "(def x 2)",
                "[v (v)]",
            ],
            "not callable",
        ),
        (&["(def x 1)", "(def v #'x)", "(def x [5])", "(v 0)"], "5"),
        (
            &["(def r #\"a(b)\")", "(re-find r \"ab\")"],
            "[\"ab\" \"b\"]",
        ),
        (
            &[
                "(def t [(LocalDate/parse \"2025-03-09\") (Instant/parse \"2025-03-09T01:02:03.450Z\") (Duration/ofMillis 5)])",
                "t",
            ],
            "",
        ),
        (
            &[
                "(def n [##NaN ##Inf ##-Inf -0.0 1.0 99999999999999999999 -99999999999999999999 9223372036854775807 -9223372036854775808])",
                "n",
            ],
            "[##NaN ##Inf ##-Inf -0.0 1.0 99999999999999999999 -99999999999999999999 9223372036854775807 -9223372036854775808]",
        ),
        (
            &[
                "(def m {1 :a 1.0 :b :k 2 \"k\" 3 nil 4 true 5 [1] 6 #{1} 7 {:x 1} 8 'sym 9})",
                "m",
            ],
            "",
        ),
        (
            &["(def s #{1 1.0 :k \"k\" nil [1] {:a #{2}} ##NaN inc})", "s"],
            "",
        ),
        (
            &[
                "(def fs #{(fn a [] 1) (fn b [] 2) (fn c [] 3) (partial + 1)})",
                "(vec fs)",
                "(conj fs (first fs))",
            ],
            "",
        ),
        (
            &[
                "(def c [(comp inc dec) (partial + 1) (juxt inc dec) (complement nil?) (constantly 4) (fnil inc 0) (every-pred odd?) (some-fn even?)])",
                "(map #(% 3) c)",
            ],
            "[3 4 [4 2] true 4 4 true false]",
        ),
        (
            &["(def t tool/search)", "[t (= t tool/search)]"],
            "[#fn[tool/search] true]",
        ),
        (
            &[
                "(def k [.contains json/parse-string clojure.string/join])",
                "((nth k 1) \"[1]\")",
            ],
            "[1]",
        ),
        (
            &[
                "(task \"a\" (+ 1 2))",
                "(step-done \"s\" \"done\")",
                "(task \"a\" 9)",
            ],
            "3",
        ),
        (&["(def q '(a [b {:c d}]))", "q"], "[a [b {:c d}]]"),
        (&["(def d \"doc\" 5)", "(doc d)"], ""),
        (&["(defn f [x] data/rows)", "(f 1)"], "[7]"),
        (&["(def e \"\\u0000 e\\u0301 \\r\\n\")", "(count e)"], "5"),
        (
            &[
                "(def a [1 2 3])",
                "(def b [a a {:a a}])",
                "(def b (conj b a))",
                "b",
            ],
            "[[1 2 3] [1 2 3] {:a [1 2 3]} [1 2 3]]",
        ),
        (
            &[
                "(defn f [] ( def late 5) (dec 3))",
                "(defn g [] [(dec 3) ( def dec inc) (dec 3)])",
                "(g)",
                "[(f) (g)]",
            ],
            "",
        ),
    ];
    for (turns, expected) in cases {
        let given = replay_through_snapshots(turns);
        if !expected.is_empty() {
            assert!(
                given.contains(expected),
                "{turns:?} gives {given}, not {expected}"
            );
        }
        assert!(!given.is_empty());
    }
}

// The language knows no files; its tests read the corpus.
#[allow(clippy::disallowed_methods)]
#[test]
fn corpus_sessions_continue_from_snapshots() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/corpus");
    let mut programs = 0;
    let mut files: Vec<_> = std::fs::read_dir(corpus)
        .expect("the corpus is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    for file in files {
        let mut env = Env::new().recording_results().with_journal(Map::new());
        for (at, line) in std::fs::read_to_string(file)
            .expect("readable")
            .lines()
            .enumerate()
        {
            let row: serde_json::Value = serde_json::from_str(line).expect("a row");
            let Some(program) = row["program"].as_str() else {
                continue;
            };
            // A session of several programs, each of which may leave its value behind.
            if programs % 12 == 0 {
                env = Env::new().recording_results().with_journal(Map::new());
            }
            programs += 1;
            same_session(&env, &bytes(&env), program);
            let (ended, mut after) = turn(&env, program);
            if let Ended::Value(value) | Ended::Return(value) = ended {
                after.define(&format!("value{at}"), value);
            }
            env = after;
        }
    }
    assert!(programs > 5_000, "{programs} programs");
}

#[test]
fn shared_values_are_written_once_and_stay_shared() {
    let long = "x".repeat(10_000);
    let text = Value::str(long.as_str());
    let row = Value::vector(vec![text; 10]);
    let mut env = Env::new();
    env.define("rows", Value::vector(vec![row.clone(); 1_000]));
    env.define("row", row);
    let written = bytes(&env);
    assert!(written.len() < 20_000, "{} bytes", written.len());
    let before = heap::thread_balance();
    let again = restored(&written);
    assert!(
        heap::thread_balance() - before < 120_000,
        "{} bytes",
        heap::thread_balance() - before
    );
    assert_eq!(
        print::readable(again.get("row").expect("row")).len(),
        10 * 10_003 + 1
    );

    // Doubled forty times: huge when unfolded, but small in bytes.
    let (_, env) = turn(
        &Env::new(),
        "(def tower (reduce (fn [acc _] [acc acc]) [1] (range 40)))",
    );
    let written = bytes(&env);
    assert!(written.len() < 1_000, "{} bytes", written.len());
    assert_eq!(bytes(&restored(&written)), written);
}

#[test]
fn deep_values_use_no_native_stack() {
    let deep = std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(|| {
            let mut value = Value::Int(1);
            for at in 0..100_000 {
                value = match at % 3 {
                    0 => Value::vector(vec![value]),
                    1 => Value::Map([(Value::keyword("k"), value)].into_iter().collect()),
                    _ => Value::Set([value].into_iter().collect()),
                };
            }
            let mut env = Env::new();
            env.define("deep", value);
            let written = env
                .snapshot(BYTES_MAX, &TestHost::default())
                .expect("written");
            let limits = Limits {
                memory_bytes: 1 << 30,
                ..Limits::default()
            };
            let again = Env::restore(&written, &limits, &TestHost::default()).expect("read");
            assert!(again.snapshot(BYTES_MAX, &TestHost::default()) == Ok(written));
        })
        .expect("a thread");
    deep.join().expect("no overflow");
}

#[test]
fn every_builtin_survives_a_snapshot() {
    for builtin in ptc_lang::builtins() {
        // Some can only be written with a namespace: these are called as in their signatures.
        let called = builtin.signatures.trim_start_matches('(');
        let called = called.split([' ', ')']).next().unwrap_or_default();
        let name = if builtin.bare { builtin.name } else { called };
        let (ended, _) = turn(&Env::new(), name);
        let Ended::Value(value) = ended else {
            panic!("{name} is no value");
        };
        let mut env = Env::new();
        env.define("f", value);
        same_session(&env, &bytes(&env), "f");
        let again = restored(&bytes(&env));
        assert!(again.get("f") == env.get("f"), "{}", builtin.name);
    }
}

#[test]
fn equal_sessions_give_equal_bytes() {
    let turns = [
        "(def a {:b [1 2] :c #{\"x\" \"y\"}})",
        "(defn f [x] (assoc a :d x))",
        "(def g (let [n 3] (fn [x] (+ x n))))",
    ];
    let session = || {
        turns
            .iter()
            .fold(Env::new(), |env, program| turn(&env, program).1)
    };
    assert_eq!(bytes(&session()), bytes(&session()));
    // Whether values are shared makes no difference.
    let mut one = Env::new();
    let text = Value::str("same");
    one.define("x", Value::vector(vec![text.clone(), text]));
    let mut other = Env::new();
    other.define(
        "x",
        Value::vector(vec![Value::str("same"), Value::str("same")]),
    );
    assert_eq!(bytes(&one), bytes(&other));
}

#[test]
fn damaged_snapshots_are_rejected_with_the_reason() {
    let (_, env) = turn(&Env::new(), "(def f (fn [x] (map inc [x 1.5 {:k \"v\"}])))");
    let good = bytes(&env);
    assert_eq!(refused(b""), Error::Foreign);
    assert_eq!(refused(b"PK\x03\x04 another format"), Error::Foreign);
    for at in 0..good.len() {
        assert!(
            Env::restore(&good[..at], &Limits::default(), &TestHost::default()).is_err(),
            "cut at {at}"
        );
        let mut changed = good.clone();
        changed[at] ^= 0x20;
        assert!(
            Env::restore(&changed, &Limits::default(), &TestHost::default()).is_err(),
            "changed at {at}"
        );
    }
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(refused(&longer), Error::Damaged);
    // The version is the number after the name.
    let mut newer = good;
    newer[17] = 0x17;
    assert_eq!(refused(&newer), Error::Version(23));
    assert_eq!(
        refused(&newer).to_string(),
        "the snapshot has version 23 of the format, and this program reads versions up to 2"
    );
}

/// A session written by version 1: `rate`, the functions `scale` and `add`, and a set of several kinds.
const VERSION_1: &str = "\
    d9d9f7846c7074632d736e617073686f740159011885846472617465657363616c6563616464647365656e808ca0d81b8364636f64657828\
    286465666e207363616c65202274696d6573207261746522205b785d20282a207820726174652929816472617465d81b8462666e0100806a\
    74696d65732072617465d81b8364636f64657826286465662061646420286c6574205b6b20325d2028666e205b785d20282b206b20782929\
    292980d81b8462666e04008102d81b82676b6579776f7264616bd81b82676275696c74696e63696e63d82362612bd9010285d81d06d81d07\
    d81d02d81d08d864194ebcd81b8263766172647365656ed81b82637661726361646486d81d00848303f6f683d81d02d81d03f683d81d05f6\
    f683d81d09f6f6830cd81d0ad81d0bf6d81d00f4801a26fd6fdf\
";

#[test]
fn snapshots_of_version_1_are_read() {
    let old: Vec<u8> = (0..VERSION_1.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&VERSION_1[at..at + 2], 16).expect("digits"))
        .collect();
    let env = restored(&old);
    let next = "[(scale 4) (add 1) *1 (contains? seen scale) (count seen)]";
    same_session(&env, &bytes(&env), next);
    let (ended, _) = turn(&env, next);
    assert!(
        matches!(&ended, Ended::Value(value) if print::readable(value) == "[12 3 12 true 5]"),
        "{ended:?}"
    );
    let explained = |env: &Env| match turn(env, "(scale nil)").0 {
        Ended::Error(error) => error.explained("(scale nil)", &|quoted| quoted.to_owned()),
        other => panic!("{other:?}"),
    };
    let explained = explained(&env);
    let place = "in `scale`, which an earlier program defined, at line 1, column 30: (* x rate)";
    assert!(explained.starts_with(place), "{explained}");
    // The version decides: neither version may contain the parts of the other.
    for (from, to) in [(0x01, 0x02), (0x02, 0x01)] {
        let mut with_other_version = if from == 1 { old.clone() } else { bytes(&env) };
        assert_eq!(with_other_version[17], from);
        with_other_version[17] = to;
        let end = with_other_version.len() - 5;
        let checksum = crc32fast::hash(&with_other_version[..end]).to_be_bytes();
        with_other_version[end + 1..].copy_from_slice(&checksum);
        assert!(
            matches!(refused(&with_other_version), Error::Malformed { .. }),
            "{from} as {to}"
        );
    }
}

#[test]
fn errors_name_the_turn_after_a_snapshot() {
    let program = "(def k 1)\n\n  (def f\n (let [y 1] (fn [x] (inc x))))";
    let (_, env) = turn(&Env::new().in_turn(7), program);
    let (_, env) = turn(&env.in_turn(8), "(def g (partial map f))");
    for env in [restored(&bytes(&env)), env] {
        let (ended, _) = turn(&env.in_turn(9), "(g [nil])");
        let Ended::Error(error) = ended else {
            panic!("{ended:?}");
        };
        let explained = error.explained("(g [nil])", &|quoted| quoted.to_owned());
        let place = "in a function, which turn 7 defined, at line 4, column 21: (inc x)";
        assert!(explained.starts_with(place), "{explained}");
    }
}

#[test]
fn snapshots_respect_size_limit_and_cancellation() {
    let mut env = Env::new();
    env.define("x", Value::str("x".repeat(10_000)));
    assert_eq!(
        env.snapshot(5_000, &TestHost::default()),
        Err(Error::TooLarge { bytes_max: 5_000 })
    );
    struct CancellingHost;
    impl Host for CancellingHost {
        fn now_micros(&self) -> i64 {
            0
        }
        fn pulse(&self) -> Pulse {
            Pulse::Cancelled
        }
    }
    env.define("y", Value::vector((0..20_000).map(Value::Int).collect()));
    assert_eq!(
        env.snapshot(BYTES_MAX, &CancellingHost),
        Err(Error::Stopped(Pulse::Cancelled))
    );
    let written = bytes(&env);
    assert!(matches!(
        Env::restore(&written, &Limits::default(), &CancellingHost),
        Err(Error::Stopped(Pulse::Cancelled))
    ));
}

#[test]
fn extra_values_are_saved_with_a_session() {
    let shared = Value::vector(vec![Value::str("x".repeat(1_000))]);
    let mut env = Env::new();
    env.define("x", shared.clone());
    let written = snapshot::write(
        &env,
        &[&shared, &Value::Nil, &shared],
        BYTES_MAX,
        &TestHost::default(),
    )
    .expect("written");
    assert!(written.len() < 1_300);
    let (env, values) =
        snapshot::read(&written, &Limits::default(), &TestHost::default()).expect("read");
    assert_eq!(values.len(), 3);
    assert!(env.get("x") == values.first() && values[1].is_nil());
    let program: Arc<str> = "x".into();
    assert!(matches!(
        turn(&env, &program).0,
        Ended::Value(Value::Vector(_))
    ));
}
