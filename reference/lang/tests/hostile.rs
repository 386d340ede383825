//! Programs that are designed to break the evaluator: deep values, shared structure that unfolds to gigabytes, bombs
//! for every library area, recursion of every kind. Each must end in time with a value or a limit, on a small native
//! stack, and leave the thread fit for the next program.

mod bombs;
mod clock;

use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

use bombs::{BRACKETS, Bomb, DEEP, DOUBLED, LONG, LONG_UNLIKE, USES, brackets, long_unlike};
use clock::{cpu_time, wall_time};
use ptc_lang::meter::Unwatched;
use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Host, Limits, Program, Pulse, Value, heap, json, print, run};

ptc_lang::counting_allocator!();

/// The smallest stack of a server thread.
const STACK_BYTES: usize = 512 * 1024;
/// The time limit of a bomb.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a program may run on after its time is up: a test build is ten times as slow.
const GRACE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4_000 } else { 1_000 });

/// Ends a program by the CPU time of its thread, and by wall-clock time: a thread that waits for its workers uses no
/// CPU.
struct DeadlineHost {
    deadline: Duration,
    patience: Duration,
    start: Duration,
    thread: std::thread::ThreadId,
    /// The most bytes that its thread was observed to hold.
    peak: AtomicIsize,
}

impl DeadlineHost {
    fn new(patience: Duration) -> DeadlineHost {
        DeadlineHost {
            deadline: cpu_time() + patience,
            patience,
            start: wall_time(),
            thread: std::thread::current().id(),
            peak: AtomicIsize::new(heap::thread_balance()),
        }
    }
}

impl Host for DeadlineHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        let may_continue = if std::thread::current().id() == self.thread {
            self.peak
                .fetch_max(heap::thread_balance(), Ordering::Relaxed);
            cpu_time() < self.deadline
        } else {
            wall_time() - self.start < self.patience
        };
        if may_continue {
            return Pulse::Continue;
        }
        Pulse::TimedOut
    }
}

/// How `program` ends: `ok` or the reason, followed by the preview of the value or by the message.
fn end(program: &str, limits: &Limits, patience: Duration) -> String {
    end_in(&Env::new(), program, limits, patience).0
}

/// The same in the environment `env`, together with the environment afterwards.
fn end_in(env: &Env, program: &str, limits: &Limits, patience: Duration) -> (String, Env) {
    let start = cpu_time();
    let host = DeadlineHost::new(patience);
    let before = heap::thread_balance();
    let (outcome, env) = run(&Program::new(program), env, limits, &host);
    let held = heap::thread_balance() - before;
    let shown = match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) => {
            // As a server does with a result.
            let _ = json::to_string_within(value, 100_000, &Unwatched);
            format!("ok {}", print::preview(value, 50, 250))
        }
        Ended::Fail(value) => format!("fail {}", print::preview(value, 50, 250)),
        Ended::Error(error) => {
            let message = error.message();
            // A message may quote the program, names above all.
            let length = message.chars().count();
            assert!(length < 1_000 + program.len(), "{program}: {message}");
            format!("{} {message}", error.reason().name())
        }
    };
    drop(outcome);
    let took = cpu_time() - start;
    let peak = host.peak.into_inner() - before;
    assert!(
        peak <= 2 * limits.memory_bytes as isize,
        "{program}: held {peak}"
    );
    assert!(took < patience + GRACE, "{program}: took {took:?}: {shown}");
    assert!(
        held <= 2 * limits.memory_bytes as isize,
        "{program}: holds {held}"
    );
    (shown, env)
}

/// Runs `job` on a thread with a small stack.
fn on_small_stack(job: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(job)
        .expect("a thread starts")
        .join()
        .expect("the programs end as they should");
}

/// Checks that each program ends with one of the words before it, and that the thread can continue.
fn check(cases: &'static [Bomb]) {
    on_small_stack(move || {
        for (wanted, program) in cases {
            let mut shown = end(program, &Limits::default(), PATIENCE);
            // On a busy machine a thread gets less done within its time.
            if shown.starts_with("timeout") && !wanted.contains("timeout") {
                shown = end(program, &Limits::default(), 10 * PATIENCE);
            }
            let word = shown.split(' ').next().unwrap_or_default();
            assert!(
                wanted.split('|').any(|one| one == word),
                "{program}: wanted {wanted}, got {shown}"
            );
            assert_eq!(end("(+ 1 2)", &Limits::default(), PATIENCE), "ok 3");
        }
    });
}

/// Runs every use of the values that `made` makes, under `limits`.
fn check_uses(made: &str, limits: &Limits, patience: Duration) {
    let (shown, env) = end_in(
        &Env::new(),
        &format!("(def x {made}) (def y {made}) 1"),
        limits,
        patience,
    );
    assert!(
        matches!(
            shown.split(' ').next(),
            Some("ok" | "memory_limit" | "timeout")
        ),
        "{made}: {shown}"
    );
    for use_of in USES {
        end_in(&env, use_of, limits, patience);
    }
    drop(env);
    assert_eq!(end("(+ 1 2)", limits, patience), "ok 3");
}

#[test]
fn deep_values() {
    on_small_stack(|| {
        let limits = Limits {
            memory_bytes: 400 << 20,
            ..Limits::default()
        };
        for deep in DEEP {
            check_uses(deep, &limits, Duration::from_secs(5));
        }
    });
}

#[test]
fn deep_json_text() {
    on_small_stack(|| {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let objects = "{\"a\":".repeat(100_000) + "1" + &"}".repeat(100_000);
        for text in [
            deep,
            objects,
            "[".repeat(1_000_000),
            "{\"a\":".repeat(200_000),
        ] {
            let _ =
                json::from_str(&text).map(|value| json::to_string(&value).map(|text| text.len()));
            let context = Map::from(vec![(Value::from("t"), Value::from(text))]);
            let env = Env::new().with_context(context);
            let host = DeadlineHost::new(PATIENCE);
            let program = Program::new(
                "(let [v (json/parse-string data/t)] [(= v (json/parse-string (json/generate-string v)))])",
            );
            let (outcome, _) = run(&program, &env, &Limits::default(), &host);
            drop((outcome, env));
            assert_eq!(end("(+ 1 2)", &Limits::default(), PATIENCE), "ok 3");
        }
    });
}

#[test]
fn shared_structure() {
    on_small_stack(|| {
        for doubled in DOUBLED {
            check_uses(doubled, &Limits::default(), PATIENCE);
        }
    });
}

#[test]
fn regexes() {
    check(bombs::REGEXES);
}

#[test]
fn texts() {
    check(bombs::TEXTS);
}

#[test]
fn numbers() {
    check(bombs::NUMBERS);
}

#[test]
fn collections_changed_while_shared() {
    check(bombs::CHANGED_WHILE_SHARED);
}

#[test]
fn collections() {
    check(bombs::COLLECTIONS);
}

#[test]
fn recursion() {
    check(bombs::RECURSION);
}

#[test]
fn long_programs_are_analysed_within_limits() {
    on_small_stack(|| {
        for (open, part, close) in LONG_UNLIKE {
            let text = long_unlike(open, part, close);
            end(&text, &Limits::default(), PATIENCE);
        }
        // Every macro contains all the others.
        let text = format!(
            "{}(+ {}){}",
            "(-> 1 ".repeat(60),
            "1 ".repeat(32_000),
            ")".repeat(60)
        );
        end(&text, &Limits::default(), PATIENCE);
        assert_eq!(end("(+ 1 2)", &Limits::default(), PATIENCE), "ok 3");
    });
}

#[test]
fn unclosed_brackets() {
    on_small_stack(|| {
        for (open, close) in BRACKETS {
            for count in [64, 1_000, 65_536, 1_000_000] {
                for text in brackets(open, close, count) {
                    let shown = end(&text, &Limits::default(), PATIENCE);
                    assert!(shown.len() < 2_000);
                }
            }
        }
        // As deep as the limit allows.
        for (open, close) in [
            ("(+ 1 ", ")"),
            ("[", "]"),
            ("(if true ", ")"),
            ("(let [x 1] ", ")"),
            ("((fn [x] ", ") 1)"),
            ("(for [x [1]] ", ")"),
            ("(-> 1 (+ ", "))"),
            ("(map inc ", ")"),
            ("(cond nil 1 :else ", ")"),
            ("(case 1 1 ", ")"),
        ] {
            for depth in [20, 31, 63] {
                let text = open.repeat(depth) + "[]" + &close.repeat(depth);
                end(&text, &Limits::default(), PATIENCE);
            }
        }
        for (open, part, count, close) in LONG {
            let text = format!("{open}{}{close}", part.repeat(*count));
            end(&text, &Limits::default(), PATIENCE);
        }
        assert_eq!(end("(+ 1 2)", &Limits::default(), PATIENCE), "ok 3");
    });
}
