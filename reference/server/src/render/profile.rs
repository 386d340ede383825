//! Truncates a scrubbed payload to the limits of its response profile and writes it as an MCP tool result.
//!
//! First the limits apply (prints, feedback, `validated`), then the profile's view, then the envelope guard for the whole result
//! (`mcp.profiles`). Knows nothing of tools, programs or JSON-RPC.

use crate::render::preview::PreviewBudget;
use crate::settings::ResponseProfile;
use ptc_protocol::members::{Truncated, ValidatedPreview};
use ptc_protocol::{Field, Payload};
use ptc_rpc::write_string;
use std::borrow::Cow;

/// How a payload is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// By the response profile: `lisp_eval` and `lisp_session_eval`.
    Profile(ResponseProfile),
    /// The whole object, mirrored as text: every other tool.
    Mirrored,
}

/// Output limits of one profile.
pub struct ProfileLimits {
    /// Entries of `prints`.
    pub print_entries: usize,
    /// Bytes of `prints` as a JSON array.
    pub print_bytes: usize,
    /// Bytes of `feedback`.
    pub feedback_bytes: usize,
    /// Bytes of `validated` as compact JSON.
    pub validated_bytes: usize,
    /// String budget of `validated_preview` in characters.
    pub preview_chars: usize,
    /// Bytes of the whole result object.
    pub envelope_bytes: usize,
}

const SLIM: ProfileLimits = ProfileLimits {
    print_entries: 20,
    print_bytes: 8 << 10,
    feedback_bytes: 8 << 10,
    validated_bytes: 0,
    preview_chars: 512,
    envelope_bytes: 32 << 10,
};
const STRUCTURED: ProfileLimits = ProfileLimits {
    print_entries: 50,
    print_bytes: 16 << 10,
    feedback_bytes: 16 << 10,
    validated_bytes: 32 << 10,
    preview_chars: 1024,
    envelope_bytes: 96 << 10,
};
const DEBUG: ProfileLimits = ProfileLimits {
    print_entries: 200,
    print_bytes: 64 << 10,
    feedback_bytes: 64 << 10,
    validated_bytes: 128 << 10,
    preview_chars: 2048,
    envelope_bytes: 512 << 10,
};
const _: () = assert!(STRUCTURED.validated_bytes < STRUCTURED.envelope_bytes);
const _: () = assert!(DEBUG.validated_bytes < DEBUG.envelope_bytes);

pub const fn limits(profile: ResponseProfile) -> &'static ProfileLimits {
    match profile {
        ResponseProfile::Slim => &SLIM,
        ResponseProfile::Structured => &STRUCTURED,
        ResponseProfile::Debug => &DEBUG,
    }
}

/// A profile's limits for a validated value.
pub const fn room(profile: ResponseProfile) -> PreviewBudget {
    let limits = limits(profile);
    PreviewBudget {
        whole_bytes: limits.validated_bytes,
        chars: limits.preview_chars,
        preview_bytes: limits.envelope_bytes,
    }
}

/// Members of the compact object of a success.
pub const COMPACT_SUCCESS: &[&str] = &[
    "history_notices",
    "memory",
    "output_truncated",
    "result",
    "session",
    "status",
    "truncated",
    "validated",
    "validated_bytes",
    "validated_preview",
    "validated_preview_truncated",
];
/// Members of the compact object of an error.
pub const COMPACT_ERROR: &[&str] = &[
    "feedback",
    "feedback_truncated",
    "message",
    "output_truncated",
    "reason",
    "result",
    "session",
    // Only the refusal of a busy session has it.
    "session_id",
    "status",
    "truncated",
];
/// Members of a failed upstream call in the compact object of an error.
pub const COMPACT_CALL: &[&str] = &["reason", "server", "status", "tool"];
/// Members that the guard drops first.
pub const DROPPED_BY_GUARD: &[&str] = &[
    "feedback",
    "prints",
    "ptc_metrics",
    "upstream_calls",
    "upstream_results",
    "validated_preview",
];
/// The end of a text that the guard truncated.
const TRUNCATED: &str = "\n\n[truncated]";
/// The text when nothing else fits.
const NOTHING_FITS: &str = "MCP output exceeded response limit.";
/// Bytes of a slim text that the guard keeps.
const GUARD_TEXT_BYTES: usize = 16 << 10;
/// Bytes of `reason` and of `message` that the guard's last resort keeps.
const GUARD_FIELD_BYTES: usize = 4 << 10;

/// Appends the result object of a tool call: `{"content":…,"isError":…,"structuredContent":…}`.
///
/// `suffix` is a last line for the texts of the slim and structured profiles; `extra` is JSON members that are written first in the
/// result object, each followed by a comma.
pub fn write_result(
    out: &mut Vec<u8>,
    payload: &Payload,
    view: View,
    suffix: Option<&str>,
    extra: &str,
) {
    let start = out.len();
    let is_error = payload.text("status") == Some("error");
    let profile = match view {
        View::Mirrored => {
            let mirror = payload.to_json();
            write_envelope(out, &mirror, Some(&mirror), is_error, extra);
            return;
        }
        View::Profile(profile) => profile,
    };
    let limits = limits(profile);
    let capped = cap(payload, limits, profile);
    let shown: Cow<'_, Payload> = match profile {
        ResponseProfile::Slim | ResponseProfile::Debug => Cow::Borrowed(&*capped),
        ResponseProfile::Structured => Cow::Owned(compact(&capped)),
    };
    match profile {
        ResponseProfile::Debug => {
            let mirror = shown.to_json();
            write_envelope(out, &mirror, Some(&mirror), is_error, extra);
        }
        ResponseProfile::Structured => {
            let object = shown.to_json();
            let text = with_suffix(text_of(&shown), suffix);
            write_envelope(out, &text, Some(&object), is_error, extra);
        }
        ResponseProfile::Slim => {
            let text = with_suffix(text_of(&shown), suffix);
            write_envelope(out, &text, None, is_error, extra);
            if out.len() - start > limits.envelope_bytes {
                out.truncate(start);
                guard_text(out, start, &text, is_error, limits, extra);
            }
            return;
        }
    }
    if out.len() - start > limits.envelope_bytes {
        out.truncate(start);
        guard_object(out, start, &shown, is_error, limits, extra);
    }
}

fn write_envelope(
    out: &mut Vec<u8>,
    text: &str,
    object: Option<&str>,
    is_error: bool,
    extra: &str,
) {
    out.push(b'{');
    out.extend_from_slice(extra.as_bytes());
    out.extend_from_slice(b"\"content\":[{\"text\":");
    write_string(out, text);
    out.extend_from_slice(b",\"type\":\"text\"}],\"isError\":");
    out.extend_from_slice(if is_error { b"true" } else { b"false" });
    if let Some(object) = object {
        out.extend_from_slice(b",\"structuredContent\":");
        out.extend_from_slice(object.as_bytes());
    }
    out.push(b'}');
}

fn with_suffix(mut text: String, suffix: Option<&str>) -> String {
    if let Some(suffix) = suffix {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(suffix);
    }
    text
}

/// Truncates prints, feedback and `validated` to the profile's limits.
fn cap<'a>(
    payload: &'a Payload,
    limits: &ProfileLimits,
    profile: ResponseProfile,
) -> Cow<'a, Payload> {
    let mut capped = Cow::Borrowed(payload);
    if let Some(Field::Exact(json, Some(preview))) = payload.get("validated") {
        let mut rest = payload.without("validated");
        rest.add(ValidatedPreview {
            validated_bytes: json.len() as u64,
            validated_preview: preview.text.clone(),
            validated_preview_truncated: preview.truncated.then_some(true),
        });
        if preview.truncated || profile != ResponseProfile::Slim {
            rest.add(Truncated::mark());
        }
        capped = Cow::Owned(rest);
    }
    if let Some(Field::List(prints)) = payload.get("prints") {
        let kept = prints_within(prints, limits);
        if kept < prints.len() {
            let capped = capped.to_mut();
            capped.set("prints", Field::List(prints[..kept].to_vec()));
            capped.add(Truncated {
                prints_truncated: Some(true),
                ..Truncated::mark()
            });
        }
    }
    if let Some(feedback) = payload
        .text("feedback")
        .filter(|text| text.len() > limits.feedback_bytes)
    {
        let capped = capped.to_mut();
        capped.set(
            "feedback",
            prefix(feedback, limits.feedback_bytes).to_owned(),
        );
        capped.add(Truncated {
            feedback_truncated: Some(true),
            ..Truncated::mark()
        });
    }
    capped
}

/// How many prints fit: the longest prefix within both limits.
fn prints_within(prints: &[Field], limits: &ProfileLimits) -> usize {
    let mut bytes = 2;
    for (at, print) in prints.iter().enumerate() {
        bytes += print.json_bytes() + usize::from(at > 0);
        if at == limits.print_entries || bytes > limits.print_bytes {
            return at;
        }
    }
    prints.len()
}

/// The compact object: the members worth showing.
fn compact(payload: &Payload) -> Payload {
    let names = match payload.text("status") {
        Some("error") => COMPACT_ERROR,
        _ => COMPACT_SUCCESS,
    };
    let mut object = Payload::new();
    for name in names {
        let Some(value) = payload.get(name) else {
            continue;
        };
        let shown = match (*name, value) {
            (_, Field::Bool(on)) => *on,
            ("result", value) => value.as_text().is_some(),
            (_, value) => !value.is_blank(),
        };
        if shown {
            object.set(*name, value.clone());
        }
    }
    let failed = failed_calls(payload);
    if payload.text("status") == Some("error") && !failed.is_empty() {
        // In sessions, the same list has another name.
        let name = if payload.get("session").is_some() {
            "upstream_errors"
        } else {
            "upstream_calls"
        };
        object.set(name, failed);
    }
    if let Some(Field::Object(memory)) = object.remove("memory") {
        let mut kept = Payload::new();
        for name in ["changed_keys", "stored_keys"] {
            if let Some(keys) = memory.get(name).filter(|keys| !keys.is_blank()) {
                kept.set(name, keys.clone());
            }
        }
        if !kept.is_empty() {
            if memory.is_true("truncated") {
                kept.set("truncated", true);
            }
            object.set("memory", kept);
        }
    }
    object
}

/// The failed upstream calls, abbreviated.
fn failed_calls(payload: &Payload) -> Vec<Payload> {
    let Some(Field::List(calls)) = payload.get("upstream_calls") else {
        return Vec::new();
    };
    let failed = calls.iter().filter_map(|call| match call {
        Field::Object(call) if call.text("status") == Some("error") => Some(call),
        _ => None,
    });
    failed
        .map(|call| {
            let mut short = Payload::new();
            for name in COMPACT_CALL {
                if let Some(value) = call.get(name) {
                    short.set(*name, value.clone());
                }
            }
            short
        })
        .collect()
}

/// The text of the slim and structured profiles.
fn text_of(payload: &Payload) -> String {
    match payload.text("status") {
        Some("error") => error_text(payload),
        _ => success_text(payload),
    }
}

fn success_text(payload: &Payload) -> String {
    let result = match (payload.text("result"), payload.get("validated")) {
        (Some(result), _) => Cow::Borrowed(result),
        (None, Some(Field::Exact(json, _))) => Cow::Borrowed(json.as_str()),
        _ => Cow::Borrowed(payload.text("validated_preview").unwrap_or_default()),
    };
    let mut text = String::new();
    if let Some(Field::List(prints)) = payload.get("prints")
        && !prints.is_empty()
    {
        text.push_str("<prints>\n");
        for (at, print) in prints.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            if let Some(line) = print.as_text() {
                text.push_str(line);
            }
        }
        text.push_str("\n\n<result>\n");
    }
    text.push_str(&result);
    if payload.is_true("truncated") {
        text.push_str(TRUNCATED);
    }
    text
}

fn error_text(payload: &Payload) -> String {
    let mut text = reason_and_message(payload).unwrap_or_default();
    let feedback = payload.text("feedback").unwrap_or_default();
    // Feedback that begins with the message continues it here, too.
    let feedback = match payload.text("message") {
        Some(message) => match feedback.strip_prefix(message) {
            Some(more) if more.starts_with('\n') => more.trim_start_matches('\n'),
            _ => feedback,
        },
        None => feedback,
    };
    let repeats = feedback == text
        || text
            .strip_suffix(feedback)
            .is_some_and(|head| head.ends_with(": "));
    if !feedback.is_empty() && !repeats {
        text.push('\n');
        text.push_str(feedback);
    }
    if let Some(failed) = first_failure(payload) {
        text.push('\n');
        text.push_str(&failed);
    }
    text
}

/// The line that names the first failed upstream call, whatever name the list has here.
fn first_failure(payload: &Payload) -> Option<String> {
    let calls = payload
        .get("upstream_calls")
        .or_else(|| payload.get("upstream_errors"));
    let Some(Field::List(calls)) = calls else {
        return None;
    };
    calls.iter().find_map(|call| match call {
        Field::Object(call) if call.text("status") == Some("error") => Some(format!(
            "upstream {}.{} failed: {}",
            call.text("server")?,
            call.text("tool")?,
            call.text("reason")?
        )),
        _ => None,
    })
}

/// `reason: message`, without repeating the reason.
fn reason_and_message(payload: &Payload) -> Option<String> {
    let (reason, message) = (payload.text("reason")?, payload.text("message")?);
    let said = message
        .strip_prefix(reason)
        .is_some_and(|rest| rest.starts_with(": "));
    Some(match said {
        true => message.to_owned(),
        false => format!("{reason}: {message}"),
    })
}

/// The guard of a text-only result.
fn guard_text(
    out: &mut Vec<u8>,
    start: usize,
    text: &str,
    is_error: bool,
    limits: &ProfileLimits,
    extra: &str,
) {
    let cut = format!("{}{TRUNCATED}", prefix(text, GUARD_TEXT_BYTES));
    write_envelope(out, &cut, None, is_error, extra);
    if out.len() - start > limits.envelope_bytes {
        out.truncate(start);
        write_envelope(
            out,
            &format!("{NOTHING_FITS}{TRUNCATED}"),
            None,
            is_error,
            extra,
        );
    }
}

/// The guard of a result with structured content.
fn guard_object(
    out: &mut Vec<u8>,
    start: usize,
    shown: &Payload,
    is_error: bool,
    limits: &ProfileLimits,
    extra: &str,
) {
    let mut object = shown.clone();
    for name in DROPPED_BY_GUARD {
        object.remove(name);
    }
    object.add(Truncated::mark());
    write_envelope(
        out,
        &guard_line(&object),
        Some(&object.to_json()),
        is_error,
        extra,
    );
    if out.len() - start <= limits.envelope_bytes {
        return;
    }
    out.truncate(start);
    let mut last = Payload::from(Truncated::mark());
    for name in ["status", "validated_bytes"] {
        if let Some(value) = shown.get(name) {
            last.set(name, value.clone());
        }
    }
    for name in ["reason", "message"] {
        if let Some(text) = shown.text(name) {
            let kept = prefix(text, GUARD_FIELD_BYTES);
            let mark = if kept.len() < text.len() {
                TRUNCATED
            } else {
                ""
            };
            last.set(name, format!("{kept}{mark}"));
        }
    }
    write_envelope(
        out,
        &guard_line(&last),
        Some(&last.to_json()),
        is_error,
        extra,
    );
}

fn guard_line(object: &Payload) -> String {
    let line = reason_and_message(object)
        .or_else(|| object.text("result").map(str::to_owned))
        .unwrap_or_else(|| NOTHING_FITS.to_owned());
    line + TRUNCATED
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
pub fn prefix(text: &str, bytes: usize) -> &str {
    match text.len() <= bytes {
        true => text,
        false => &text[..text.floor_char_boundary(bytes)],
    }
}

#[cfg(test)]
mod tests;
