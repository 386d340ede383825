//! World faults: what can go wrong at an upstream, as data. Knows the closed list of reasons; knows nothing of transports.

use std::borrow::Cow;

use crate::ledger::cut;
use crate::limits::LISTED_ERROR_BYTES;
use ptc_rpc::{Json, parse};
use ptc_secrets::{Redactor, SCRUB_TIME_MAX, scrub_json_text};

/// Why an upstream call gave no value. The program receives it as `{:ok false :reason … :message …}` and continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldFault {
    pub reason: Reason,
    /// What happened; contains text from outside, so it is scrubbed before anyone sees it.
    pub message: String,
    /// The upstream's text to show after the message, in full: half a secret would not be recognised.
    pub quoted: Option<QuotedText>,
    /// Bytes read when an oversize answer was cut, or of the envelope of a `tool_error`; otherwise unknown.
    pub bytes: Option<u64>,
}

/// An upstream's text of which a message shows the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedText {
    /// As received.
    pub text: String,
    /// Whether it is JSON: then its strings and numbers are scrubbed in decoded form, and it is shown compacted.
    pub is_json: bool,
    /// Maximum characters that are shown.
    pub chars_max: usize,
}

/// Maximum characters of an invalid answer that a fault shows.
const QUOTED_CHARS: usize = 200;

impl WorldFault {
    /// A fault without a byte count.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            quoted: None,
            bytes: None,
        }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Reason::UpstreamUnavailable, message)
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(Reason::UpstreamError, message)
    }

    /// Adds the beginning of `text` to the end of the message.
    pub(crate) fn quoting(self, text: impl Into<String>) -> Self {
        let quoted = QuotedText {
            text: text.into(),
            is_json: false,
            chars_max: QUOTED_CHARS,
        };
        Self {
            quoted: Some(quoted),
            ..self
        }
    }

    /// The fault for a JSON-RPC error: its `message`, or the whole error when it has none.
    pub(crate) fn from_rpc_error(error: Json<'_>) -> Self {
        if let Some(message) = error.get("message").and_then(Json::as_str) {
            return Self::error(message);
        }
        let quoted = QuotedText {
            text: error.text().to_owned(),
            is_json: true,
            chars_max: usize::MAX,
        };
        Self {
            quoted: Some(quoted),
            ..Self::error("")
        }
    }

    /// The message as anyone may see it: scrubbed, and only then cut.
    pub fn message_for(&self, redactor: &Redactor) -> String {
        let mut text = redactor.scrub_str(&self.message).into_owned();
        if let Some(quoted) = &self.quoted {
            let clean = quoted.scrubbed(redactor);
            text.extend(clean.chars().take(quoted.chars_max));
        }
        text
    }

    /// The message for the operator, with bounded time and length: an upstream may send much slow-to-scrub text on every
    /// attempt to reach it.
    pub(crate) fn log_message(&self, redactor: &Redactor) -> String {
        cut(
            &self.message_for(&redactor.with_time_limit(SCRUB_TIME_MAX)),
            LISTED_ERROR_BYTES,
        )
    }

    pub(crate) fn too_large(what: &str, cap: usize, bytes: u64) -> Self {
        let message = format!("{what} exceeded {cap} bytes");
        Self {
            reason: Reason::ResponseTooLarge,
            message,
            quoted: None,
            bytes: Some(bytes),
        }
    }
}

impl QuotedText {
    fn scrubbed(&self, redactor: &Redactor) -> Cow<'_, str> {
        if !self.is_json {
            return redactor.scrub_str(&self.text);
        }
        // Compacting comes last because it keeps no more digits of a number than a double has.
        let clean = scrub_json_text(&self.text, redactor);
        match parse(clean.as_bytes()) {
            Ok(json) => Cow::Owned(json.compact().into()),
            Err(_) => clean,
        }
    }
}

ptc_lang::reasons! {
    /// The reasons of world faults (`upstream.faults.answers`); in programs, their names are keywords.
    pub enum Reason {
        /// The upstream could not be started, its handshake failed, or it is in its recovery window.
        UpstreamUnavailable = "upstream_unavailable",
        /// It answered with `isError: true`.
        ToolError = "tool_error",
        /// It answered a call with a JSON-RPC error, or with something that is no answer.
        UpstreamError = "upstream_error",
        /// HTTP 401 or 403.
        AuthFailed = "auth_failed",
        /// HTTP 429.
        RateLimited = "rate_limited",
        /// It did not answer in time.
        Timeout = "timeout",
        /// Its answer was cut at the limit, before decoding.
        ResponseTooLarge = "response_too_large",
        /// The program has used up its call budget.
        CapExhausted = "cap_exhausted",
    }
    beside {
        /// The program's own fault: appears only in a ledger that lists such faults; no program receives it as a value.
        Programmer = "runtime_error",
    }
}
