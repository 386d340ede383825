//! Values that contain secrets, scrubbed.

use super::*;
use ptc_secrets::Secret;

#[test]
fn secrets_are_redacted_before_truncation() {
    let mut secrets = Redactor::builder();
    secrets.add(&Secret::new("hunter2-hunter2".into()));
    let redactor = secrets.build();
    let clean = Value::vector(vec![Value::Int(1), Value::str("plain")]);
    assert!(matches!(value(&clean, &redactor), Cow::Borrowed(_)));
    let dirty = Value::vector(vec![Value::str("a hunter2-hunter2 b"), Value::Int(2)]);
    assert_eq!(
        ptc_lang::print::readable(&value(&dirty, &redactor)),
        r#"["a [REDACTED] b" 2]"#
    );
}

struct Nowhere;

impl ptc_lang::Host for Nowhere {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn made(program: &str) -> Value {
    let program = ptc_lang::Program::new(program);
    let limits = ptc_lang::Limits::default();
    let (outcome, _) = ptc_lang::run(&program, &ptc_lang::Env::new(), &limits, &Nowhere);
    match outcome.ended {
        ptc_lang::Ended::Value(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn secrets_in_big_integers_are_found() {
    let mut secrets = Redactor::builder();
    secrets.add(&Secret::new("9876543210987654".into()));
    let redactor = secrets.build();
    for (last, shown) in [("4", "\"[REDACTED]\""), ("5", "")] {
        let program = format!("(reduce * 987654321098765{last} (repeat 4000 10))");
        let told = ptc_lang::print::readable(&value(&made(&program), &redactor));
        match shown {
            "" => assert_eq!(told.len(), 4016),
            shown => assert_eq!(told, shown),
        }
    }
}

#[test]
fn secrets_in_sources_and_names_are_redacted() {
    let mut secrets = Redactor::builder();
    secrets.add(&Secret::new("hunter2-hunter2".into()));
    let redactor = secrets.build();
    for (program, shown) in [
        (
            r#"(re-pattern "a hunter2-hunter2")"#,
            r##"#"a [REDACTED]""##,
        ),
        ("[(fn qq-hunter2-hunter2 [] 1)]", "[#fn[qq-[REDACTED]]]"),
        ("(def hunter2-hunter2 1)", "#'[REDACTED]"),
        (
            "{inc #\"hunter2-hunter1\"}",
            "{#fn[inc] #\"hunter2-hunter1\"}",
        ),
    ] {
        let told = ptc_lang::print::readable(&value(&made(program), &redactor));
        assert_eq!(told, shown, "{program}");
    }
}

#[test]
fn shared_values_are_scrubbed_once() {
    let mut secrets = Redactor::builder();
    secrets.add(&Secret::new("hunter2-hunter2".into()));
    let redactor = secrets.build();
    let mut doubled = Value::vector(vec![Value::str("hunter2-hunter2")]);
    for _ in 0..60 {
        doubled = Value::vector(vec![doubled.clone(), doubled]);
    }
    let clean = value(&doubled, &redactor);
    assert_eq!(clean.shape().weight, doubled.shape().weight);
    let clean = Value::vector(vec![clean.into_owned(), Value::Nil]);
    let text = ptc_lang::print::preview(&clean, 1, 4_000);
    assert!(
        text.contains("[REDACTED]") && !text.contains("hunter2"),
        "{text}"
    );
}
