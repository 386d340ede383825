//! The help, and arguments parsed as flags.

use super::*;
use crate::command_line::{Stop, help, read};

fn check(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match read::<ReplArguments>(&words) {
        Ok(read) => format!(
            "{:?} {:?} {:?} {}ms {:?}",
            read.expressions,
            read.script,
            read.display,
            read.evaluation
                .program_limits(read.evaluation.config.is_some())
                .timeout
                .as_millis(),
            read.evaluation.snapshot
        ),
        Err(Stop::Help(_)) => "help".into(),
        Err(Stop::Refuse(refusal)) => refusal.to_string(),
    }
}

#[test]
fn help_gives_each_default() {
    let text = help::<ReplArguments>();
    assert!(text.contains("--max-tool-calls N\n"), "{text}");
    for default in [
        "value",
        "live",
        "50",
        "1000; 10000 with upstreams",
        "$PTC_RUNNER_UPSTREAMS",
    ] {
        let line = format!("      Default: {default}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn limits_are_those_of_the_tables_unless_given() {
    let read = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        read::<ReplArguments>(&words).unwrap().evaluation
    };
    let (plain, given) = (
        read(&[]),
        read(&["--max-tool-calls", "3", "--program-memory-limit-bytes=9"]),
    );
    assert_eq!(plain.limits, Limits::DEFAULT);
    for upstreams in [false, true] {
        let limits = ProgramLimits::of(upstreams);
        assert_eq!(plain.program_limits(upstreams), limits);
        assert_eq!(given.program_limits(upstreams).timeout, limits.timeout);
        assert_eq!(given.program_limits(upstreams).memory_bytes, 9);
    }
    assert_eq!(given.limits.calls_per_program, 3);
}

#[test]
fn command_lines() {
    for (words, expected) in [
        (
            &["-e", "1", "--eval=2"][..],
            "[\"1\", \"2\"] None Value 1000ms Live",
        ),
        (&["-"], "[] Some(\"-\") Value 1000ms Live"),
        (
            &["--display", "json", "--program-timeout-ms", "7", "f.clj"],
            "[] Some(\"f.clj\") Json 7ms Live",
        ),
        (
            &[
                "--upstreams-config",
                "u.json",
                "--catalog-snapshot-mode=frozen",
            ],
            "[] None Value 10000ms Frozen",
        ),
        (
            &["--display=json", "--", "-e"],
            "[] Some(\"-e\") Json 1000ms Live",
        ),
        (&["-e", "-h"], "[\"-h\"] None Value 1000ms Live"),
        (&["-h"], "help"),
        (&["--bogus", "--help"], "help"),
        (&["--help=1"], "--help takes no value"),
        (
            &["--display"],
            "--display needs one of value, envelope, json",
        ),
        (
            &["--max-tool-calls", "0"],
            "--max-tool-calls must be a positive integer, got: \"0\"",
        ),
        (
            &["--max-tool-cals", "3"],
            "unknown flag --max-tool-cals; did you mean --max-tool-calls?",
        ),
        (
            &["--display", "xml"],
            "--display must be one of value, envelope, json, got: \"xml\"",
        ),
        (&["a", "b"], "unexpected argument b"),
    ] {
        assert_eq!(check(words), expected, "{words:?}");
    }
}
