//! Hints do not reveal what is hidden.

use crate::value::Map;
use crate::{Ended, Env, Host, Limits, Program, Pulse, Value, run};

struct World;

impl Host for World {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        Pulse::Continue
    }
}

/// Everything that is said about `program`, whose context has an entry, to a reader who may not see `secret`.
fn told(program: &str, secret: &str) -> String {
    let redact = |text: &str| text.replace(secret, "[REDACTED]");
    let context: Map = [(Value::str("piece-one"), Value::Nil)]
        .into_iter()
        .collect();
    let env = Env::new().with_context(context);
    let (outcome, _) = run(&Program::new(program), &env, &Limits::default(), &World);
    let Ended::Error(error) = outcome.ended else {
        panic!("{program} is no error");
    };
    let said = [
        error.redacted_message(&redact),
        error.explained(program, &redact),
    ];
    // As the caller does with the whole text.
    redact(&said.join("\n"))
}

#[test]
fn nothing_is_made_of_a_name_that_is_hidden() {
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
            let told = told(&program, secret);
            // Anyone may see the context's own entry.
            let told = told.replace("`context` object has data/piece-one", "");
            assert!(!told.contains("piece-"), "{program} says {told}");
        }
    }
}

#[test]
fn no_near_name_stands_for_one_that_is_hidden() {
    for program in [
        "(let [canary-one 1] canary-ones)",
        "(def canary-one 1) (inc canary-ones)",
    ] {
        let said = told(program, "canary-ones");
        assert!(!said.contains("Did you mean"), "{said}");
        assert!(told(program, "other").contains("Did you mean `canary-one`"));
    }
    assert!(!told("data/piece-ones", "piece-ones").contains("perhaps"));
    assert!(told("data/piece-ones", "other").contains("perhaps data/piece-one is meant"));
}

#[test]
fn what_is_hidden_by_its_blanks_is_hidden_where_they_are_taken_out() {
    let told = told("(inc \"a  hidden\n text\")", "a  hidden\n text");
    assert!(!told.contains("hidden text"), "{told}");
}

#[test]
fn members_of_members_are_read_one_by_one() {
    for (program, written) in [
        ("(let [x 1] x.y.z)", "write (:z (:y x))"),
        ("(let [x 1] x.y)", "write (:y x)"),
        ("data.y.z", "write (:z data/y)"),
        ("data.count", "write data/count"),
        ("(let [x 1] x.y.count)", "write (count …)"),
    ] {
        let said = told(program, "other");
        assert!(said.contains(written), "{program}: {said}");
    }
    for program in ["foo..bar", "foo.bar.", "a.b.c.d.e.f.g.h.i"] {
        let said = told(program, "other");
        assert!(!said.contains("members are read"), "{program}: {said}");
    }
}

#[test]
fn a_walk_that_was_not_begun_is_told_from_one_that_took_too_long() {
    for walk in ["(compare d d)", "(= d d)", "#{d}"] {
        let program =
            format!("(let [d (reduce (fn [acc _] [acc acc]) 1 (range 30))] (count {walk}))");
        let said = told(&program, "zork");
        assert!(
            said.contains("not begun: it would look at 2147483647 values"),
            "{said}"
        );
    }
}
