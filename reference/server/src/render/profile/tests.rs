//! Payloads in, tool results of each profile out.

use super::*;
use ptc_protocol::members::Failure;

fn check(payload: &Payload, profile: ResponseProfile) -> String {
    let mut out = Vec::new();
    write_result(&mut out, payload, View::Profile(profile), None, "");
    String::from_utf8(out).unwrap()
}

fn success(result: &'static str) -> Payload {
    Payload::new()
        .with("status", "ok")
        .with("prints", Field::List(Vec::new()))
        .with("feedback", "")
        .with("truncated", false)
        .with("result", result)
}

#[test]
fn success_is_rendered_in_each_profile() {
    let three = success("user=> 3");
    assert_eq!(
        check(&three, ResponseProfile::Slim),
        r#"{"content":[{"text":"user=> 3","type":"text"}],"isError":false}"#
    );
    assert_eq!(
        check(&three, ResponseProfile::Structured),
        r#"{"content":[{"text":"user=> 3","type":"text"}],"isError":false,"structuredContent":{"result":"user=> 3","status":"ok"}}"#
    );
    assert_eq!(
        check(&three, ResponseProfile::Debug),
        concat!(
            r#"{"content":[{"text":"{\"feedback\":\"\",\"prints\":[],\"result\":\"user=> 3\",\"status\":\"ok\",\"truncated\":false}","type":"text"}],"#,
            r#""isError":false,"structuredContent":{"feedback":"","prints":[],"result":"user=> 3","status":"ok","truncated":false}}"#
        )
    );
}

#[test]
fn error_states_its_reason_once() {
    let payload = Failure::new("runtime_error", "runtime_error: data/nope is not bound").into();
    assert_eq!(
        check(&payload, ResponseProfile::Slim),
        r#"{"content":[{"text":"runtime_error: data/nope is not bound","type":"text"}],"isError":true}"#
    );
}

#[test]
fn prints_are_truncated_over_the_limit() {
    let printed = |count: usize| success("user=> 1").with("prints", vec!["x"; count]);
    assert!(!check(&printed(20), ResponseProfile::Slim).contains("[truncated]"));
    assert!(check(&printed(21), ResponseProfile::Slim).contains("[truncated]"));
    assert!(!check(&printed(50), ResponseProfile::Structured).contains("truncated"));
    assert!(check(&printed(51), ResponseProfile::Structured).contains("\"output_truncated\":true"));
    assert!(check(&printed(201), ResponseProfile::Debug).contains("\"prints_truncated\":true"));
}

#[test]
fn validated_value_is_exact_or_absent() {
    let profile = ResponseProfile::Structured;
    let text = |bytes: usize| {
        let json = format!("\"{}\"", "x".repeat(bytes - 2));
        let preview = room(profile)
            .preview(&json, &ptc_lang::meter::Unwatched)
            .expect("no limit");
        Field::Exact(json, preview)
    };
    let exact = check(
        &success("r").with("validated", text(32768)),
        ResponseProfile::Structured,
    );
    assert!(exact.contains("\"validated\":") && !exact.contains("validated_preview"));
    let over = check(
        &success("r").with("validated", text(32769)),
        ResponseProfile::Structured,
    );
    assert!(!over.contains("\"validated\":") && over.contains("\"validated_bytes\":32769"));
    for blank in ["[]", "{}", "\"\"", "null"] {
        let kept = check(
            &success("r").with("validated", Field::Exact(blank.into(), None)),
            ResponseProfile::Structured,
        );
        assert!(kept.contains(&format!("\"validated\":{blank}")), "{kept}");
    }
}

#[test]
fn guard_keeps_every_envelope_within_its_limit() {
    for profile in [
        ResponseProfile::Slim,
        ResponseProfile::Structured,
        ResponseProfile::Debug,
    ] {
        for filler in ["x", "\"", "é", "\u{1}"] {
            for bytes in [1_000, 20_000, 60_000, 600_000] {
                let message = filler.repeat(bytes);
                let payload = Failure::new("runtime_error", message).into();
                let shown = check(&payload, profile);
                assert!(
                    shown.len() <= limits(profile).envelope_bytes,
                    "{profile:?} {filler:?} {bytes}"
                );
                assert!(shown.contains("\"isError\":true"));
            }
        }
    }
}
