//! Parses a target's answer to a program, in any of its permitted shapes.
//! Knows the response profiles and the adapter protocol; knows nothing of what was expected.

use crate::json::{Json, JsonError};
use crate::observed::{ProgramOutcome, ProgramRun};

/// Prefix of a printed result.
const RESULT_PREFIX: &str = "user=> ";
/// Prefix of the prints in a text rendering, and separator between them and the result.
const PRINTS_HEAD: &str = "<prints>\n";
const RESULT_HEAD: &str = "\n\n<result>\n";
/// Suffix of a text rendering from which something was cut.
const TRUNCATED_TAIL: &str = "\n\n[truncated]";

/// Why an answer could not be parsed: what was expected instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("a JSON-RPC response ({0})")]
    Response(JsonError),
    #[error("a response that says `\"jsonrpc\": \"2.0\"`")]
    Version,
    #[error("a response with a `result`; errors of programs are tool results")]
    NoResult,
    #[error("a response with a `result` or an `error`, not both")]
    ResultAndError,
    #[error("a tool result with a boolean `isError`")]
    IsError,
    #[error("a tool result whose `content` is one text block")]
    Content,
    #[error("a text block with a string `text`")]
    BlockText,
    #[error("`status` \"ok\" with `isError` false, or `status` \"error\" with `isError` true")]
    Status,
    #[error("an error with a string `reason`")]
    Reason,
    #[error("a reply of the adapter ({0})")]
    Reply(JsonError),
    #[error("a reply with either `ok` or `error`")]
    OkOrError,
    /// As [`Unreadable::Reason`], in an adapter's words.
    #[error("an `error` with a string `reason`")]
    ErrorReason,
    #[error("`prints` that is an array of strings")]
    Prints,
    #[error("a `result` that starts with {RESULT_PREFIX:?}")]
    Prompt,
    /// A member of another type.
    #[error("`{0}` that is a string")]
    Text(&'static str),
    /// A member of another type.
    #[error("`{0}` that is a boolean")]
    Flag(&'static str),
}

/// Parses the answer to `tools/call lisp_eval`. `asked` means that the call had an output schema.
///
/// # Errors
/// What the frame should have been, when it is not a tool result.
pub fn from_tool_result(line: &str, asked: bool) -> Result<ProgramRun, Unreadable> {
    let frame = Json::parse(line).map_err(Unreadable::Response)?;
    if frame.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
        return Err(Unreadable::Version);
    }
    let result = frame.get("result").ok_or(Unreadable::NoResult)?;
    if frame.get("error").is_some() {
        return Err(Unreadable::ResultAndError);
    }
    // Absent, it is false.
    let is_error = match result.get("isError") {
        None => false,
        Some(told) => told.as_bool().ok_or(Unreadable::IsError)?,
    };
    let text = text_block(result)?;
    match result.get("structuredContent") {
        Some(payload) => from_payload(payload, is_error, asked),
        None if is_error => Ok(failed_text(text)),
        None => Ok(returned_text(text, asked)),
    }
}

/// Parses the answer to a testee's `lisp_run`.
///
/// # Errors
/// What the frame should have been.
pub fn from_testee(line: &str) -> Result<ProgramRun, Unreadable> {
    let frame = Json::parse(line).map_err(Unreadable::Reply)?;
    match (frame.get("ok"), frame.get("error")) {
        (None, Some(error)) => Ok(ProgramRun {
            outcome: ProgramOutcome::Raised {
                reason: string(error, "reason")?.ok_or(Unreadable::ErrorReason)?,
                message: string(error, "message")?,
                value: shown(error)?,
            },
            prints: prints(error)?,
            prints_cut: false,
            truncated: None,
        }),
        (Some(ok), None) => Ok(ProgramRun {
            outcome: ProgramOutcome::Returned {
                text: shown(ok)?.map(|text| text.as_deref().map(without_prompt)),
                json: ok.get("value").cloned().map(Some),
            },
            prints: prints(ok)?,
            prints_cut: false,
            truncated: flag(ok, "truncated")?,
        }),
        _ => Err(Unreadable::OkOrError),
    }
}

/// The reason of a refusal in a tool result, in any profile.
pub fn refusal(line: &str) -> Option<String> {
    let frame = Json::parse(line).ok()?;
    let result = frame.get("result")?;
    if !result.get("isError").and_then(Json::as_bool)? {
        return None;
    }
    let structured = result
        .get("structuredContent")
        .and_then(|payload| payload.get("reason"));
    match structured.and_then(Json::as_str) {
        Some(reason) => Some(reason.to_owned()),
        None => text_block(result)
            .ok()?
            .split_once(':')
            .map(|(reason, _)| reason.to_owned()),
    }
}

/// Whether a call failed with an error of the protocol or of the program.
pub fn is_failure(line: &str) -> bool {
    let Ok(frame) = Json::parse(line) else {
        return false;
    };
    let result = frame.get("result");
    let is_error = result.and_then(|result| result.get("isError")?.as_bool());
    frame.get("error").is_some() || is_error == Some(true)
}

fn text_block(result: &Json) -> Result<&str, Unreadable> {
    let content = result.get("content").and_then(Json::as_array);
    match content {
        Some([block]) if block.get("type").and_then(Json::as_str) == Some("text") => block
            .get("text")
            .and_then(Json::as_str)
            .ok_or(Unreadable::BlockText),
        _ => Err(Unreadable::Content),
    }
}

fn from_payload(payload: &Json, is_error: bool, asked: bool) -> Result<ProgramRun, Unreadable> {
    let status = payload.get("status").and_then(Json::as_str);
    // Only the debug profile has these members, and it always has them.
    let full = payload.get("feedback").is_some() && payload.get("prints").is_some();
    let truncated = flag(payload, "truncated")?;
    match (status, is_error) {
        (Some("ok"), false) => Ok(ProgramRun {
            outcome: ProgramOutcome::Returned {
                text: Some(printed(payload)?),
                json: match payload.get("validated") {
                    Some(value) => Some(Some(value.clone())),
                    // A value beyond the output limits is omitted deliberately.
                    None if payload.get("validated_preview").is_some() => None,
                    None => asked.then_some(None),
                },
            },
            prints: if full { prints(payload)? } else { None },
            prints_cut: flag(payload, "prints_truncated")?.unwrap_or(false),
            // If the output was truncated as well, the flag says nothing about the program's outcome.
            truncated: match flag(payload, "output_truncated")? {
                Some(true) => None,
                _ => Some(truncated.unwrap_or(false)),
            },
        }),
        (Some("error"), true) => Ok(ProgramRun {
            outcome: ProgramOutcome::Raised {
                reason: string(payload, "reason")?.ok_or(Unreadable::Reason)?,
                message: string(payload, "message")?,
                value: Some(shown(payload)?.flatten()),
            },
            prints: None,
            prints_cut: false,
            truncated,
        }),
        _ => Err(Unreadable::Status),
    }
}

/// The printed entries; `None` if the target doesn't show them. Anything but a list of strings is an error.
fn prints(payload: &Json) -> Result<Option<Vec<String>>, Unreadable> {
    let Some(prints) = payload.get("prints") else {
        return Ok(None);
    };
    let entries = prints.as_array().and_then(|entries| {
        let texts = entries.iter().map(|entry| entry.as_str());
        texts.map(|text| text.map(str::to_owned)).collect()
    });
    match entries {
        Some(entries) => Ok(Some(entries)),
        None => Err(Unreadable::Prints),
    }
}

/// A member that must be a string if it is present.
fn string(payload: &Json, name: &'static str) -> Result<Option<String>, Unreadable> {
    match payload.get(name) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Unreadable::Text(name)),
    }
}

/// A member that must be a boolean if it is present.
fn flag(payload: &Json, name: &'static str) -> Result<Option<bool>, Unreadable> {
    match payload.get(name) {
        None => Ok(None),
        Some(Json::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Unreadable::Flag(name)),
    }
}

/// The text of a result or of a failed value; `Some(None)` if it is explicitly absent.
fn shown(payload: &Json) -> Result<Option<Option<String>>, Unreadable> {
    match payload.get("result") {
        Some(Json::Null) => Ok(Some(None)),
        _ => Ok(string(payload, "result")?.map(Some)),
    }
}

/// Parses a text rendering. It joins the prints into one text, in which the boundaries between entries are not visible.
///
/// Prints and validated values that exceed the profile's limits are cut as well, and marked in the same way; if there are any, the mark
/// says nothing about the result.
fn returned_text(text: &str, asked: bool) -> ProgramRun {
    let (text, truncated) = match text.strip_suffix(TRUNCATED_TAIL) {
        Some(text) => (text, true),
        None => (text, false),
    };
    let printed = text.starts_with(PRINTS_HEAD);
    let (result, prints) = match text.strip_prefix(PRINTS_HEAD) {
        Some(rest) => match rest.rsplit_once(RESULT_HEAD) {
            Some((_, result)) => (result, None),
            None => (text, None),
        },
        None => (text, Some(Vec::new())),
    };
    let (text, json) = match result.strip_prefix(RESULT_PREFIX) {
        Some(printed) => (Some(Some(printed.to_owned())), None),
        None if result.is_empty() => (Some(None), None),
        // Without a printed result the text is the validated value.
        None => (Some(None), Json::parse(result).ok().map(Some)),
    };
    ProgramRun {
        outcome: ProgramOutcome::Returned { text, json },
        prints,
        prints_cut: false,
        truncated: (!truncated || !(asked || printed)).then_some(truncated),
    }
}

/// Parses a text rendering of an error: `reason: message`, where a message that already starts with the reason gets no second prefix.
fn failed_text(text: &str) -> ProgramRun {
    let (reason, message) = text.split_once(": ").unwrap_or((text, ""));
    ProgramRun {
        outcome: ProgramOutcome::Raised {
            reason: reason.to_owned(),
            message: Some(message.to_owned()),
            value: None,
        },
        prints: None,
        prints_cut: false,
        truncated: None,
    }
}

/// The printed result in a payload, without its prefix.
fn printed(payload: &Json) -> Result<Option<String>, Unreadable> {
    let letters = match payload.get("result") {
        None | Some(Json::Null) => return Ok(None),
        Some(result) => result
            .as_str()
            .and_then(|text| text.strip_prefix(RESULT_PREFIX)),
    };
    match letters {
        Some(letters) => Ok(Some(letters.to_owned())),
        None => Err(Unreadable::Prompt),
    }
}

fn without_prompt(text: &str) -> String {
    text.strip_prefix(RESULT_PREFIX).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> ProgramRun {
        let text = Json::from(text);
        let line = format!(
            "{{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{{\"content\":[{{\"text\":{text},\"type\":\"text\"}}],\"isError\":false}}}}"
        );
        from_tool_result(&line, false).expect("a tool result")
    }

    #[test]
    fn text_rendering_yields_result_and_truncation() {
        let run = check("<prints>\nx\n[1 2]\n\n<result>\nuser=> 42\n\n[truncated]");
        let text = Some(Some("42".to_owned()));
        assert_eq!(run.outcome, ProgramOutcome::Returned { text, json: None });
        assert_eq!((run.prints, run.truncated), (None, None));
        assert_eq!(
            check("user=> [0 ...] (50/60)\n\n[truncated]").truncated,
            Some(true)
        );
    }

    #[test]
    fn members_of_wrong_type_are_not_treated_as_absent() {
        let tool = |head: &str, payload: &str| {
            let is_error = payload.contains(r#""error""#);
            let line = format!(
                r#"{{"id":1,{head}"result":{{"content":[{{"text":"","type":"text"}}],"isError":{is_error},"structuredContent":{{{payload}}}}}}}"#
            );
            from_tool_result(&line, false).err()
        };
        let payload = |payload: &str| tool(r#""jsonrpc":"2.0","#, payload);
        let testee = |reply: &str| from_testee(&format!(r#"{{"id":1,{reply}}}"#)).err();
        let right = r#""status":"ok","result":null,"prints":["x"],"feedback":"","truncated":false"#;
        for told in [
            payload(right),
            payload(r#""status":"error","reason":"fail","message":"x","result":null"#),
            testee(r#""ok":{"result":null,"prints":[]}"#),
            testee(r#""error":{"reason":"fail","result":"1"}"#),
        ] {
            assert_eq!(told, None);
        }
        for (told, expected) in [
            (tool("", right), "says `\"jsonrpc\""),
            (tool(r#""jsonrpc":"1.0","#, right), "says `\"jsonrpc\""),
            (tool(r#""jsonrpc":"2.0","error":{},"#, right), "not both"),
            (
                payload(r#""status":"ok","prints":["x",1],"feedback":"""#),
                "`prints`",
            ),
            (
                payload(r#""status":"ok","prints":"x","feedback":"""#),
                "`prints`",
            ),
            (payload(r#""status":"ok","truncated":"no""#), "`truncated`"),
            (
                payload(r#""status":"ok","prints_truncated":1"#),
                "`prints_truncated`",
            ),
            (
                payload(r#""status":"error","reason":"fail","message":1"#),
                "`message`",
            ),
            (
                payload(r#""status":"error","reason":"fail","result":1"#),
                "`result`",
            ),
            (testee(r#""ok":{"result":1}"#), "`result`"),
            (testee(r#""ok":{"prints":[1]}"#), "`prints`"),
            (testee(r#""ok":{"truncated":0}"#), "`truncated`"),
            (testee(r#""ok":{},"error":{"reason":"fail"}"#), "either"),
            (
                testee(r#""error":{"reason":"fail","message":[]}"#),
                "`message`",
            ),
        ] {
            let told = told.map_or_else(String::new, |told| told.to_string());
            assert!(told.contains(expected), "{expected}: {told:?}");
        }
    }

    #[test]
    fn protocol_error_is_not_a_program_outcome() {
        let line = r#"{"id":1,"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"}}"#;
        assert!(from_tool_result(line, false).is_err());
    }
}
