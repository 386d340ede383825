//! Arguments in, the first wrong one out.

use super::*;

fn check(arguments: &str) -> String {
    let limits = ArgumentLimits {
        program_bytes: 10,
        context_bytes: 12,
    };
    let json = ptc_rpc::parse(arguments.as_bytes()).unwrap();
    match validate(Some(json), limits) {
        Ok(judged) => format!(
            "{} {} {:?}",
            judged.program, judged.context, judged.output_schema
        ),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn first_invalid_argument_is_named() {
    for (arguments, expected) in [
        (r#"{"program":"(+ 1 2)"}"#, "(+ 1 2) {} None"),
        (
            r#"{"program":"1","context":{"a" : 1},"output_schema":{}}"#,
            r#"1 {"a":1} Some("{}")"#,
        ),
        (r#"{"program":"1","context":null}"#, "1 {} None"),
        ("5", "argument `program` is required"),
        ("{}", "argument `program` is required"),
        (
            r#"{"program":1.5}"#,
            "argument `program` must be a string, got number",
        ),
        (
            r#"{"program":null}"#,
            "argument `program` must be a string, got null",
        ),
        (
            r#"{"program":" \u00a0\u2003\u3000\n"}"#,
            "argument `program` must be a non-empty string",
        ),
        (
            r#"{"program":"               "}"#,
            "argument `program` must be a non-empty string",
        ),
        (
            r#"{"program":"12345678901"}"#,
            "argument `program` exceeds max_program_bytes (11 > 10)",
        ),
        (
            r#"{"program":"éééééé"}"#,
            "argument `program` exceeds max_program_bytes (12 > 10)",
        ),
        (
            r#"{"program":"1","context":"x"}"#,
            "argument `context` must be a JSON object, got unknown",
        ),
        (
            r#"{"program":"1","context":{"abcdefghi":1}}"#,
            "argument `context` exceeds max_context_bytes (15 > 12)",
        ),
        (
            r#"{"program":"1","context":{"b/":1,"":1}}"#,
            "argument `context` exceeds max_context_bytes (13 > 12)",
        ),
        (
            r#"{"program":"1","context":{"":1}}"#,
            "argument `context` keys must be non-empty",
        ),
        (
            r#"{"program":"1","context":{"a/b":1}}"#,
            "argument `context` keys may not contain `/` (would shadow PTC-Lisp namespace): \"a/b\"",
        ),
        (
            r#"{"program":"1","signature":null}"#,
            "argument `signature` is no longer supported; use `output_schema`",
        ),
        (
            r#"{"program":"1","output_schema":null}"#,
            "argument `output_schema` must be a JSON object, got null",
        ),
    ] {
        assert_eq!(check(arguments), expected, "{arguments}");
    }
}
