//! Extracts the value for a program from an upstream's answer. Works on JSON text; scrubs before anyone sees it.

use std::borrow::Cow;

use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_rpc::{Json, JsonKind, JsonText, ParseError, parse_while};
use ptc_secrets::{Redactor, scrub_json_text};

use crate::fault::{Reason, WorldFault};
use crate::transport::Answer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Compact JSON text of the scrubbed value.
    pub json: JsonText,
    pub kind: ValueKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `structuredContent`, or text that is JSON.
    Json,
    /// Text that is not JSON.
    Text,
    None,
}

impl ValueKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::None => "none",
        }
    }
}

/// Why nothing was selected.
#[derive(Debug)]
pub(crate) enum SelectError {
    /// A world fault.
    Fault(WorldFault),
    /// The program was stopped.
    Stopped(Limit),
}

impl From<Limit> for SelectError {
    fn from(limit: Limit) -> SelectError {
        SelectError::Stopped(limit)
    }
}

/// Selects the payload: an error result is a fault; then `structuredContent` unless null; then the first text content, parsed
/// if it is JSON; otherwise nothing. Stops when the program's time is up.
pub(crate) fn select(
    answer: &Answer,
    redactor: &Redactor,
    watch: &dyn Watch,
) -> Result<Selected, SelectError> {
    let text = match answer {
        Answer::None => return Ok(empty_selection()),
        Answer::Json(text) => {
            return Ok(Selected {
                json: scrubbed_compact(text.json(), redactor, watch)?,
                kind: ValueKind::Json,
            });
        }
        Answer::Envelope(text) => text,
    };
    let envelope = text.json();
    if envelope.kind() != JsonKind::Object {
        let fault = WorldFault::error("unexpected tools/call result ").quoting(&**text);
        return Err(SelectError::Fault(fault));
    }
    let texts = || {
        let content = envelope.get("content").into_iter().flat_map(Json::elements);
        content
            .filter(|item| {
                item.get("type")
                    .and_then(Json::as_str)
                    .is_some_and(|kind| kind == "text")
            })
            .find_map(|item| item.get("text").and_then(Json::as_str))
    };
    if envelope.get("isError").and_then(Json::as_bool) == Some(true) {
        let clean = scrubbed_compact(envelope, redactor, watch)?;
        let bytes = Some(clean.len() as u64);
        let message = texts().map_or_else(|| clean.into(), Cow::into_owned);
        return Err(SelectError::Fault(WorldFault {
            reason: Reason::ToolError,
            message,
            quoted: None,
            bytes,
        }));
    }
    if let Some("input_required") = envelope.get("resultType").and_then(Json::as_str).as_deref() {
        return Err(SelectError::Fault(WorldFault::error(
            "the upstream asks for further input, which a program cannot give",
        )));
    }
    if let Some(structured) = envelope
        .get("structuredContent")
        .filter(|value| !value.is_null())
    {
        return Ok(Selected {
            json: scrubbed_compact(structured, redactor, watch)?,
            kind: ValueKind::Json,
        });
    }
    Ok(match texts() {
        None => empty_selection(),
        Some(text) => match parse_while(text.as_bytes(), || watch.check_limits()) {
            Ok(json) => Selected {
                json: scrubbed_compact(json, redactor, watch)?,
                kind: ValueKind::Json,
            },
            Err(ParseError::Stopped(limit)) => return Err(SelectError::Stopped(limit)),
            Err(ParseError::Malformed(_)) => Selected {
                json: JsonText::string(&redactor.scrub_str(&text)),
                kind: ValueKind::Text,
            },
        },
    })
}

fn empty_selection() -> Selected {
    Selected {
        json: JsonText::null(),
        kind: ValueKind::None,
    }
}

/// Compact text with every string and key scrubbed, and every number that spells a secret.
///
/// # Errors
/// The limit that `watch` reports.
pub fn scrubbed_compact(
    json: Json<'_>,
    redactor: &Redactor,
    watch: &dyn Watch,
) -> Result<JsonText, Limit> {
    // Scrubs the original text: parsing a number may drop digits.
    let compact = match scrub_json_text(json.text(), redactor) {
        Cow::Borrowed(_) => json.compact_while(|| watch.check_limits())?,
        // The scrubbed text must be parsed again; its escapes were written by the redactor.
        Cow::Owned(clean) => match parse_while(clean.as_bytes(), || watch.check_limits()) {
            Ok(clean) => clean.compact_while(|| watch.check_limits())?,
            Err(ParseError::Stopped(limit)) => return Err(limit),
            Err(ParseError::Malformed(_)) => JsonText::string(&clean),
        },
    };
    if !redactor.has_structured_secret() {
        return Ok(compact);
    }
    // A credential that is itself JSON may have been written with other blanks than it has.
    Ok(match scrub_json_text(&compact, redactor) {
        Cow::Borrowed(_) => compact,
        Cow::Owned(clean) => JsonText::read(&clean).unwrap_or_else(|_| JsonText::string(&clean)),
    })
}

#[cfg(test)]
mod tests;
