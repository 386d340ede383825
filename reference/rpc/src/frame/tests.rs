//! Bytes in, frames or refusals out; replies written.

use super::*;

fn id(text: &str) -> Id {
    Id::from_json(parse(text.as_bytes()).unwrap())
}

#[test]
fn ids_of_every_kind_compare_with_their_type() {
    let kinds = ["7", "\"7\"", "7.0", "null", "true", "[7]", "{\"a\":7}"];
    for (at, one) in kinds.iter().enumerate() {
        for (other_at, other) in kinds.iter().enumerate() {
            assert_eq!(id(one) == id(other), at == other_at, "{one} {other}");
        }
    }
    assert_eq!(id("\"\\u0061\""), id("\"a\""));
    assert_eq!(id("1e3"), id("1000.0"));
    assert_eq!(id("-0"), id("0"));
    assert_eq!(id("\"a\\\"b\"").plain(), "a\"b");
    assert_eq!(id("2.5").plain(), "2.5");
    assert_eq!(
        id("123456789012345678901234567890").as_json(),
        "123456789012345678901234567890"
    );
}

#[test]
fn first_duplicate_member_counts() {
    let frame =
        Frame::parse(br#"{"jsonrpc":"2.0","id":41,"id":42,"method":"ping","method":5}"#).unwrap();
    assert_eq!(frame.request_id(), Some(id("41")));
    assert_eq!(frame.method_name().as_deref(), Some("ping"));
    assert!(frame.version_ok);
}

#[test]
fn non_frames_are_rejected() {
    assert_eq!(Frame::parse(b"{").unwrap_err(), FrameFault::Malformed);
    assert_eq!(Frame::parse(b"").unwrap_err(), FrameFault::Malformed);
    for text in ["[]", "1", "\"a\"", "null", "[{}]"] {
        assert_eq!(
            Frame::parse(text.as_bytes()).unwrap_err(),
            FrameFault::NotAnObject
        );
    }
    assert!(!Frame::parse(br#"{"jsonrpc":2.0}"#).unwrap().version_ok);
    assert!(
        Frame::parse(br#"{"id":1,"result":{}}"#)
            .unwrap()
            .is_response()
    );
}

#[test]
fn replies() {
    let mut out = Vec::new();
    write_result(&mut out, &id("\"a\""), |out| out.extend_from_slice(b"{}"));
    write_error(&mut out, None, &RpcError::PARSE);
    write_request(&mut out, &Id::number(3), "tools/list", Some("{}"));
    write_notification(&mut out, "exit", None);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r#"{"id":"a","jsonrpc":"2.0","result":{}}"#,
            r#"{"error":{"code":-32700,"message":"Parse error"},"id":null,"jsonrpc":"2.0"}"#,
            r#"{"id":3,"jsonrpc":"2.0","method":"tools/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"exit"}"#,
        )
    );
}
