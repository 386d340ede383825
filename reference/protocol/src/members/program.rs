//! Members of a program's result: a value, or why there is none.

use std::collections::BTreeMap;

use ptc_lang::Value;

use super::session::{HistoryNotice, LimitExceeded, TurnSummary};
use super::upstream::UpstreamCall;
use super::{members, schema};
use crate::feedback::{Execution, MemoryDelta};
use crate::{Field, Payload};

members! {
    /// What a model sees of a call that breaks the protocol of its mode.
    pub struct ProtocolError = "error" {
        reason: &'static str,
        message: String,
    }
}

members! {
    /// What a model sees of a tool call that gave no value.
    pub struct ToolError {
        error: String,
    }
    maybe {
        tool: String,
        args_received: Field,
        hint: Option<String>,
    }
}

members! {
    /// What `ptc repl` prints for a program when envelopes are requested.
    pub struct ReplResult = "ok" {
        prints: Vec<String>,
        result: String,
        upstream_calls: Vec<UpstreamCall>,
    }
}

members! {
    /// A program that returned a value.
    pub struct Success = "ok" {
        prints: Vec<String>,
        feedback: String,
        truncated: bool,
    }
    maybe {
        /// The preview, or null; omitted when the program has no value at all.
        result: Field => Option<String>,
        memory: Memory,
        /// The exact value, when it was requested.
        validated: Field,
        session: TurnSummary,
        history_notices: Vec<HistoryNotice>,
    }
}

members! {
    /// What stands for an exact value that is too long to be shown.
    pub struct ValidatedPreview {
        /// Bytes of the exact value.
        validated_bytes: u64,
        validated_preview: String,
    }
    maybe {
        validated_preview_truncated: bool,
    }
}

members! {
    /// Says that something was left out of a reply.
    pub struct Truncated {
        truncated: bool,
        output_truncated: bool,
    }
    maybe {
        prints_truncated: bool,
        feedback_truncated: bool,
    }
}

members! {
    /// The definitions that a program stored.
    pub struct Memory {
        /// Previews of changed definitions, by name.
        changed: BTreeMap<String, String>,
        stored_keys: Vec<String>,
        truncated: bool,
    }
    maybe {
        changed_keys: Vec<String>,
    }
}

members! {
    /// Anything that gave no value: a program, a refusal, a session that can't be used.
    pub struct Failure = "error" {
        reason: &'static str,
        message: String,
        feedback: Field => String,
    }
    maybe {
        /// The value of `(fail v)`.
        result: Field => String,
        /// In a session, whose prints are not kept.
        prints: Vec<String>,
        detail: LimitExceeded,
        session_id: String,
    }
}

impl Truncated {
    /// Only that something was left out.
    #[must_use]
    pub fn mark() -> Self {
        Truncated {
            truncated: true,
            output_truncated: true,
            ..Truncated::default()
        }
    }
}

impl Success {
    /// For a program that keeps no definitions.
    #[must_use]
    pub fn new(returned: &Value, execution: Execution) -> Self {
        let has_result = execution.result.is_some() || !returned.is_nil();
        Success {
            prints: execution.prints,
            feedback: execution.feedback,
            truncated: execution.visible_truncated.unwrap_or(execution.truncated),
            result: has_result.then(|| execution.result.into()),
            ..Success::default()
        }
    }

    /// For a program whose definitions are shown, too.
    #[must_use]
    pub fn with_memory(returned: &Value, execution: Execution) -> Self {
        let (truncated, memory) = (execution.truncated, execution.memory.clone().into());
        Success {
            truncated,
            memory: Some(memory),
            ..Success::new(returned, execution)
        }
    }
}

impl From<MemoryDelta> for Memory {
    fn from(delta: MemoryDelta) -> Self {
        Memory {
            changed: delta.changed,
            stored_keys: delta.stored_keys,
            truncated: delta.truncated,
            changed_keys: None,
        }
    }
}

impl Failure {
    /// A failure whose feedback repeats the message.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Failure {
            reason,
            feedback: Field::Text(message.clone()),
            message,
            ..Failure::default()
        }
    }

    /// The same with a separate feedback text.
    #[must_use]
    pub fn with_feedback(mut self, feedback: impl Into<Field>) -> Self {
        self.feedback = feedback.into();
        self
    }
}

impl From<BTreeMap<String, String>> for Field {
    fn from(named: BTreeMap<String, String>) -> Self {
        let mut payload = Payload::new();
        for (name, text) in named {
            payload.set(name, text);
        }
        Field::Object(payload)
    }
}
