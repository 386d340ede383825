//! Hints do not reveal what is hidden.

use crate::value::Map;
use crate::{Ended, Env, Host, Limits, Program, Pulse, Value, run};

struct TestHost;

impl Host for TestHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        Pulse::Continue
    }
}

/// Everything that is said about `program`, whose context has an entry, to a reader who may not see `secret`.
fn explain(program: &str, secret: &str) -> String {
    let redact = |text: &str| text.replace(secret, "[REDACTED]");
    let context: Map = [(Value::str("piece-one"), Value::Nil)]
        .into_iter()
        .collect();
    let env = Env::new().with_context(context);
    let (outcome, _) = run(&Program::new(program), &env, &Limits::default(), &TestHost);
    let Ended::Error(error) = outcome.ended else {
        panic!("{program} is no error");
    };
    let text = [
        error.redacted_message(&redact),
        error.explained(program, &redact),
    ];
    // As the caller does with the whole text.
    redact(&text.join("\n"))
}

#[test]
fn advice_reveals_nothing_of_redacted_names() {
    const SECRETS: &[&str] = &[
        "piece-one.piece-two.piece-three",
        "piece-one/piece-two",
        "str/piece-one",
        "data.piece-one",
        "data/piece-one1",
        "tool/piece-one",
        "budget/piece-one",
        ".piece-one.piece-two",
        "piece-ones",
    ];
    const PROGRAMS: &[&str] = &[
        "(+ 1 §)",
        "(§ 1)",
        "(§)",
        "(let [a 1] a.§)",
        "(let [a 1] (a.§.b 2))",
        "(.§ 1)",
        "(§. 1)",
        "(x/§)",
        "data/§",
        "(tool/§ 1)",
        "(tool/§ {})",
        "[§ §.c b.§]",
        "(map § [1])",
        "(str \"a  b\" (inc \"§\"))",
        "(let [§ 1] (inc nil) q)",
        "(def f 1) (f §)",
    ];
    for secret in SECRETS {
        for program in PROGRAMS {
            let program = program.replace('§', secret);
            let text = explain(&program, secret);
            // Anyone may see the context's own entry.
            let text = text.replace("`context` object has data/piece-one", "");
            assert!(!text.contains("piece-"), "{program} says {text}");
        }
    }
}

#[test]
fn redacted_names_get_no_suggestion() {
    for program in [
        "(let [canary-one 1] canary-ones)",
        "(def canary-one 1) (inc canary-ones)",
    ] {
        let text = explain(program, "canary-ones");
        assert!(!text.contains("Did you mean"), "{text}");
        assert!(explain(program, "other").contains("Did you mean `canary-one`"));
    }
    assert!(!explain("data/piece-ones", "piece-ones").contains("perhaps"));
    assert!(explain("data/piece-ones", "other").contains("perhaps data/piece-one is meant"));
}

#[test]
fn secrets_stay_redacted_when_blanks_collapse() {
    let text = explain("(inc \"a  hidden\n text\")", "a  hidden\n text");
    assert!(!text.contains("hidden text"), "{text}");
}

#[test]
fn nested_member_access_is_explained_step_by_step() {
    for (program, written) in [
        ("(let [x 1] x.y.z)", "write (:z (:y x))"),
        ("(let [x 1] x.y)", "write (:y x)"),
        ("data.y.z", "write (:z data/y)"),
        ("data.count", "write data/count"),
        ("(let [x 1] x.y.count)", "write (count …)"),
    ] {
        let text = explain(program, "other");
        assert!(text.contains(written), "{program}: {text}");
    }
    for program in ["foo..bar", "foo.bar.", "a.b.c.d.e.f.g.h.i"] {
        let text = explain(program, "other");
        assert!(!text.contains("members are read"), "{program}: {text}");
    }
}

#[test]
fn oversized_walk_differs_from_a_timeout() {
    for walk in ["(compare d d)", "(= d d)", "#{d}"] {
        let program =
            format!("(let [d (reduce (fn [acc _] [acc acc]) 1 (range 30))] (count {walk}))");
        let text = explain(&program, "zork");
        assert!(
            text.contains("not begun: it would look at 2147483647 values"),
            "{text}"
        );
    }
}
