//! Answers in, payloads out.

use super::*;
use ptc_lang::meter::Unwatched;
use ptc_secrets::Secret;

fn check(envelope: &str) -> String {
    let mut builder = Redactor::builder();
    builder
        .add(&Secret::new("s3cr3t-canary".into()))
        .add(&Secret::new("12345678901".into()));
    let redactor = builder.build();
    match select(
        &Answer::Envelope(JsonText::read(envelope).unwrap()),
        &redactor,
        &Unwatched,
    ) {
        Ok(Selected { json, kind }) => format!("{} {json}", kind.name()),
        Err(SelectError::Stopped(limit)) => format!("{limit:?}"),
        Err(SelectError::Fault(fault)) => format!(
            "{} {} {:?}",
            fault.reason.name(),
            fault.message_for(&redactor),
            fault.bytes
        ),
    }
}

#[test]
fn payloads() {
    for (envelope, expected) in [
        (
            r#"{"content":[{"type":"text","text":"plain text"}]}"#,
            r#"text "plain text""#,
        ),
        (
            r#"{"content":[{"type":"text","text":" {\"a\": 1} "}]}"#,
            r#"json {"a":1}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"\"quoted\""}]}"#,
            r#"json "quoted""#,
        ),
        (
            r#"{"content":[{"type":"text","text":"null"}]}"#,
            "json null",
        ),
        (r#"{"content":[{"type":"text","text":""}]}"#, r#"text """#),
        (r#"{"structuredContent":false,"content":[]}"#, "json false"),
        (
            r#"{"structuredContent":null,"content":[{"type":"text","text":"x"}]}"#,
            r#"text "x""#,
        ),
        (
            r#"{"content":[{"type":"image"},{"type":"text","text":"second"}]}"#,
            r#"text "second""#,
        ),
        (r#"{"content":[{"text":"no type"}]}"#, "none null"),
        (r#"{"content":null}"#, "none null"),
        ("{}", "none null"),
        (
            "[1]",
            "upstream_error unexpected tools/call result [1] None",
        ),
        (r#"{"isError":"true"}"#, "none null"),
        (
            r#"{"isError":true,"content":[{"type":"text","text":"it failed"}],"structuredContent":1}"#,
            "tool_error it failed Some(85)",
        ),
        (
            r#"{"isError":true}"#,
            r#"tool_error {"isError":true} Some(16)"#,
        ),
        (
            r#"{"structuredContent":{"\u00733cr3t-canary":["x s3cr3t-canary",12345678901,1234567890]}}"#,
            r#"json {"[REDACTED]":["x [REDACTED]","[REDACTED]",1234567890]}"#,
        ),
    ] {
        assert_eq!(check(envelope), expected, "{envelope}");
    }
}
