//! Programs with mistakes that models make, and the errors that they get: the message, the position and the advice.
//! `golden/lang/wrong-programs.snap` is rewritten only by bless.

use std::fmt::Write as _;

use ptc_lang::value::Map;
use ptc_lang::{Ended, Env, Error, Host, Limits, Program, Value, run};

ptc_lang::counting_allocator!();

/// One program per line.
const PROGRAMS: &str = include_str!("wrong/programs.clj");
/// The least number of programs.
const PROGRAMS_MIN: usize = 250;

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn error(program: &str) -> Error {
    let rows = vec![(Value::str("orders"), Value::vector(Vec::new()))];
    let env = Env::new().with_context(Map::from(rows));
    let program = Program::new(program);
    match run(&program, &env, &Limits::default(), &NullHost).0.ended {
        Ended::Error(error) => error,
        ended => panic!("{} is not wrong: {ended:?}", program.text()),
    }
}

#[test]
fn messages_have_a_position_and_mostly_advice() {
    let (mut report, mut count, mut with_advice) = (String::new(), 0usize, 0usize);
    for program in PROGRAMS.lines() {
        let error = error(program);
        let message = error.message();
        let explained = error.explained(program, &|text| text.to_owned());
        let place = |line: &str| line.starts_with("at line ") || line.starts_with("in ");
        assert!(
            message.contains(" at line ") || explained.lines().any(place),
            "{program} has no place: {message}"
        );
        // Reader errors and suggestions state it in the message.
        let in_message = error.reason() == ptc_lang::Reason::ParseError
            || ["Did you mean", "expected (", "write ", "Available "]
                .iter()
                .any(|mark| message.contains(mark));
        with_advice += usize::from(in_message || explained.lines().any(|line| !place(line)));
        count += 1;
        let _ = writeln!(report, "{program}\n    {message}");
        for line in explained.lines() {
            let _ = writeln!(report, "    {line}");
        }
    }
    assert!(count >= PROGRAMS_MIN, "{count} programs");
    assert!(
        with_advice * 10 >= count * 9,
        "{with_advice} of {count} have advice"
    );
    insta::with_settings!({
        snapshot_path => "../../../golden/lang",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("wrong-programs", report);
    });
}
