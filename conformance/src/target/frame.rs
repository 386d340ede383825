//! The members of a JSON-RPC frame that are needed to match it to a request. The rest is not kept, because its size is up to the target.
//! Knows nothing of what a frame means.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Longest id of a ping that is answered, in bytes, because queued answers are kept in memory.
const PING_ID_BYTES_MAX: usize = 4 << 10;

/// What a frame answers, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The id of the request that the frame answers. A frame with a method is a request or a notification, whatever its id.
    pub answers: Option<u64>,
    pub has_method: bool,
    pub has_result: bool,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
}

impl FrameHead {
    /// Parses a frame.
    ///
    /// # Errors
    /// When it is not a JSON object.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let members: Members = serde_json::from_str(line)?;
        let has_method = members.method.is_some();
        let id = members.id.and_then(|id| id.get().parse().ok());
        Ok(Self {
            answers: id.filter(|_| !has_method),
            has_method,
            has_result: members.result.is_some(),
        })
    }
}

/// Whether a frame is a notification: it has a method and no id, so that no answer follows.
pub fn is_notification(line: &str) -> bool {
    method_and_id(line) == Some((true, false))
}

/// Whether a frame answers a request, whichever it is.
pub fn is_response(line: &str) -> bool {
    method_and_id(line) == Some((false, true))
}

/// Whether a frame has a method, and whether it has an id; `None` if the line is not a frame.
fn method_and_id(line: &str) -> Option<(bool, bool)> {
    let members: BTreeMap<Cow<'_, str>, IgnoredAny> = serde_json::from_str(line).ok()?;
    Some((members.contains_key("method"), members.contains_key("id")))
}

/// An answer with an empty result.
pub fn empty_result(id: impl Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// The answer to `line`, if it is a `ping`: each side may ping the other at any time.
pub fn pong(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        method: Cow<'a, str>,
    }
    let asked: Asked = serde_json::from_str(line).ok()?;
    let id = asked.id.get();
    let is_id = id.starts_with(['"', '-']) || id.parse::<u64>().is_ok();
    let is_id = is_id && id.len() <= PING_ID_BYTES_MAX;
    (asked.method == "ping" && is_id).then(|| empty_result(asked.id))
}

/// The revision that an answer to `initialize` names.
pub fn revision(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Initialized>,
    }
    #[derive(Deserialize)]
    struct Initialized {
        #[serde(rename = "protocolVersion")]
        version: Option<String>,
    }
    let answer: Answer = serde_json::from_str(line).ok()?;
    answer.result?.version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_without_a_method_answer_numeric_ids() {
        let answers = |line: &str| FrameHead::parse(line).map(|head| head.answers).ok();
        assert_eq!(answers(r#"{"id":3,"result":{}}"#), Some(Some(3)));
        for line in [
            r#"{"id":3,"method":"ping"}"#,
            r#"{"id":3.0,"result":{}}"#,
            r#"{"id":"3","result":{}}"#,
            r#"{"id":null,"result":{}}"#,
            r#"{"result":{}}"#,
        ] {
            assert_eq!(answers(line), Some(None), "{line}");
        }
        for line in ["[]", "3", "{", r#"{"id":3,"id":4}"#] {
            assert_eq!(answers(line), None, "{line}");
        }
    }

    #[test]
    fn frame_with_method_and_no_id_is_a_notification() {
        assert!(is_notification(
            r#"{"method":"notifications/x","params":{"id":1}}"#
        ));
        for line in [
            r#"{"method":"ping","id":1}"#,
            r#"{"method":"ping","id":null}"#,
            r#"{"result":{}}"#,
            r#"[{"method":"x"}]"#,
            "x",
        ] {
            assert!(!is_notification(line), "{line}");
        }
    }

    #[test]
    fn only_a_ping_with_an_id_is_answered() {
        let answer = r#"{"jsonrpc":"2.0","id":"a\u0062","result":{}}"#;
        assert_eq!(
            pong(r#"{"id":"a\u0062","method":"ping"}"#).as_deref(),
            Some(answer)
        );
        for line in [
            r#"{"method":"ping"}"#,
            r#"{"id":null,"method":"ping"}"#,
            r#"{"id":[],"method":"ping"}"#,
            r#"{"id":1,"method":"roots/list"}"#,
            r#"{"id":1,"result":{}}"#,
        ] {
            assert_eq!(pong(line), None, "{line}");
        }
        let long = "x".repeat(PING_ID_BYTES_MAX);
        assert_eq!(pong(&format!(r#"{{"id":"{long}","method":"ping"}}"#)), None);
    }

    #[test]
    fn only_initialize_results_name_a_revision() {
        let named = |line: &str| revision(line);
        assert_eq!(
            named(r#"{"result":{"protocolVersion":"2025-11-25","x":1}}"#).as_deref(),
            Some("2025-11-25")
        );
        for line in [
            r#"{"result":null}"#,
            r#"{"result":[]}"#,
            r#"{"error":{}}"#,
            "x",
        ] {
            assert_eq!(named(line), None, "{line}");
        }
    }
}
