//! Reads a target's answer to a program, in any of its allowed shapes.
//! Knows the response profiles and the adapter protocol; knows nothing of what was expected.

use crate::json::Json;
use crate::observed::{ProgramOutcome, ProgramRun};

/// What stands before a printed result.
const RESULT_PREFIX: &str = "user=> ";
/// What stands before the prints in a text rendering, and between them and the result.
const PRINTS_HEAD: &str = "<prints>\n";
const RESULT_HEAD: &str = "\n\n<result>\n";
/// What stands after a text rendering of which something was cut.
const TRUNCATED_TAIL: &str = "\n\n[truncated]";

/// Why an answer could not be understood: what was expected instead.
pub type Unreadable = String;

/// Reads the answer to `tools/call lisp_eval`. `asked` says that it was given an output schema.
///
/// # Errors
/// What the frame should have been, when it is not a tool result.
pub fn from_tool_result(line: &str, asked: bool) -> Result<ProgramRun, Unreadable> {
    let frame = Json::parse(line).map_err(|error| format!("a JSON-RPC response ({error})"))?;
    let result = frame
        .get("result")
        .ok_or("a response with a `result`; errors of programs are tool results")?;
    let is_error = result
        .get("isError")
        .and_then(Json::as_bool)
        .ok_or("a tool result with a boolean `isError`")?;
    let text = text_block(result)?;
    match result.get("structuredContent") {
        Some(payload) => from_payload(payload, is_error, asked),
        None if is_error => Ok(failed_text(text)),
        None => Ok(returned_text(text, asked)),
    }
}

/// Reads the answer to a testee's `lisp_run`.
///
/// # Errors
/// What the frame should have been.
pub fn from_testee(line: &str) -> Result<ProgramRun, Unreadable> {
    let frame = Json::parse(line).map_err(|error| format!("a reply of the adapter ({error})"))?;
    if let Some(error) = frame.get("error") {
        let reason = error.get("reason").and_then(Json::as_str);
        return Ok(ProgramRun {
            outcome: ProgramOutcome::Raised {
                reason: reason
                    .ok_or("an `error` with a string `reason`")?
                    .to_owned(),
                message: error
                    .get("message")
                    .and_then(Json::as_str)
                    .map(str::to_owned),
                value: error
                    .get("result")
                    .map(|value| value.as_str().map(str::to_owned)),
            },
            prints: prints(error),
            prints_cut: false,
            truncated: None,
        });
    }
    let ok = frame.get("ok").ok_or("a reply with `ok` or `error`")?;
    Ok(ProgramRun {
        outcome: ProgramOutcome::Returned {
            text: ok.get("result").map(|text| text.as_str().map(bare)),
            json: ok.get("value").cloned().map(Some),
        },
        prints: prints(ok),
        prints_cut: false,
        truncated: ok.get("truncated").and_then(Json::as_bool),
    })
}

/// The reason of a refusal that a tool result carries, in every profile.
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

/// Whether a call failed: by an error of the protocol or of the program.
pub fn failed(line: &str) -> bool {
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
            .ok_or_else(|| "a text block with a string `text`".to_owned()),
        _ => Err("a tool result whose `content` is one text block".to_owned()),
    }
}

fn from_payload(payload: &Json, is_error: bool, asked: bool) -> Result<ProgramRun, Unreadable> {
    let status = payload.get("status").and_then(Json::as_str);
    // Only the debug profile has these members, and it always has them.
    let full = payload.get("feedback").is_some() && payload.get("prints").is_some();
    let truncated = payload.get("truncated").and_then(Json::as_bool);
    let flag = |name: &str| payload.get(name).and_then(Json::as_bool) == Some(true);
    match (status, is_error) {
        (Some("ok"), false) => Ok(ProgramRun {
            outcome: ProgramOutcome::Returned {
                text: Some(printed(payload)?),
                json: match payload.get("validated") {
                    Some(value) => Some(Some(value.clone())),
                    // A value beyond the output limits is absent on purpose.
                    None if payload.get("validated_preview").is_some() => None,
                    None => asked.then_some(None),
                },
            },
            prints: if full { prints(payload) } else { None },
            prints_cut: flag("prints_truncated"),
            // With its output cut, too, the flag says nothing of the program's outcome.
            truncated: (!flag("output_truncated")).then_some(truncated.unwrap_or(false)),
        }),
        (Some("error"), true) => {
            let word = |name: &str| payload.get(name).and_then(Json::as_str).map(str::to_owned);
            Ok(ProgramRun {
                outcome: ProgramOutcome::Raised {
                    reason: word("reason").ok_or("an error with a string `reason`")?,
                    message: word("message"),
                    value: Some(word("result")),
                },
                prints: None,
                prints_cut: false,
                truncated,
            })
        }
        _ => Err(
            "`status` \"ok\" with `isError` false, or `status` \"error\" with `isError` true"
                .to_owned(),
        ),
    }
}

fn prints(payload: &Json) -> Option<Vec<String>> {
    let entries = payload.get("prints")?.as_array()?;
    entries
        .iter()
        .map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

/// A text rendering shows prints as one text; where one entry ends cannot be seen.
///
/// Prints and validated values beyond the profile's limits are cut too, and set the same mark; where there are such, the mark
/// says nothing of the result.
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

/// A text rendering of an error is `reason: message`, where a message that starts so is not prefixed twice.
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

/// The printed result of a payload, without what stands before it.
fn printed(payload: &Json) -> Result<Option<String>, Unreadable> {
    let letters = match payload.get("result") {
        None | Some(Json::Null) => return Ok(None),
        Some(result) => result
            .as_str()
            .and_then(|text| text.strip_prefix(RESULT_PREFIX)),
    };
    match letters {
        Some(letters) => Ok(Some(letters.to_owned())),
        None => Err(format!("a `result` that starts with {RESULT_PREFIX:?}")),
    }
}

fn bare(text: &str) -> String {
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
    fn a_text_rendering_gives_the_result_and_says_whether_it_was_cut() {
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
    fn a_protocol_error_is_not_an_outcome() {
        let line = r#"{"id":1,"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"}}"#;
        assert!(from_tool_result(line, false).is_err());
    }
}
