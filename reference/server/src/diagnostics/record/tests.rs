//! What the ring keeps of a call, and what it drops.

use super::*;

fn info(id: &str) -> CallInfo {
    CallInfo {
        id: Some(id.into()),
        tool: "lisp_eval".into(),
        known: Some("lisp_eval"),
        revision: "2025-11-25",
        started: Instant::now(),
        started_micros: 0,
        program: Some("(+ 1 2)".into()),
        context: Some(context(r#"{"a": [1,2], "s": "x"}"#)),
        trace: None,
        transport_request_id: None,
        transport: None,
        time: SharedTime::new(std::time::Duration::ZERO),
    }
}

fn context(text: &str) -> ContextText {
    let text = JsonText::read(text).unwrap();
    ContextText::of(text.json(), &Redactor::empty())
}

#[test]
fn ring_evicts_the_oldest_and_applies_policies() {
    for (policy, program, context) in [
        (
            PayloadPolicy::None,
            r#""program":{"bytes":7,"sha256":"#,
            r#""context":{"<bytes>":19}"#,
        ),
        (
            PayloadPolicy::Summary,
            r#""preview":"(+ 1 2)""#,
            r#""a":{"count":2,"type":"array"}"#,
        ),
        (
            PayloadPolicy::Full,
            r#""program":"(+ 1 2)""#,
            r#""context":{"a":[1,2],"s":"x"}"#,
        ),
    ] {
        let ring = Ring::new(2, policy, 4096);
        for id in ["1", "2", "3"] {
            ring.record(
                &info(id),
                &Payload::new().with("status", "ok"),
                true,
                &Redactor::empty(),
            );
        }
        assert_eq!(ring.count(), 2);
        assert!(ring.find("1").is_none());
        let shown = ring.find("3").unwrap().payload(false).to_json();
        assert!(
            shown.contains(program) && shown.contains(context),
            "{shown}"
        );
    }
}

/// Content that is too large to be shown is not kept, whatever its structure.
#[test]
fn wide_context_is_kept_up_to_the_display_limit() {
    const BYTES_MAX: usize = 4096;
    let members: Vec<String> = (0..400_000)
        .rev()
        .map(|at| format!("\"{at:06}\":0"))
        .collect();
    let long = format!("{{\"{}\":0,\"b\":0}}", "a".repeat(1 << 20));
    for context in [format!("{{{}}}", members.join(",")), long] {
        let ring = Ring::new(2, PayloadPolicy::Summary, BYTES_MAX);
        let wide = CallInfo {
            context: Some(self::context(&context)),
            ..info("1")
        };
        let payload = Payload::new().with("status", "ok");
        ring.record(&wide, &payload, true, &Redactor::empty());
        let shown = ring.find("1").unwrap().payload(false).to_json();
        // The note that a record is too large depends on its size.
        assert!(shown.len() > BYTES_MAX, "{}", shown.len());
        assert!(shown.len() < 4 * BYTES_MAX, "{}", shown.len());
    }
}

#[test]
fn refusals_record_their_reason_but_no_program() {
    let ring = Ring::new(10, PayloadPolicy::Summary, 4096);
    let payload = crate::render::reason::Refusal::Busy { cap: 2 }.payload();
    ring.record(&info(&"x".repeat(300)), &payload, false, &Redactor::empty());
    let shown = ring.select(None, true)[0].payload(false).to_json();
    assert!(
        shown.contains(r#""program":null"#) && shown.contains(r#""reason":"busy""#),
        "{shown}"
    );
    assert!(shown.contains("…(300B id, truncated)"));
}
