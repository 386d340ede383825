//! The JSON payloads of `lisp_eval`: one shape for success, one for errors. Decides keys, not texts.

use std::collections::BTreeMap;

use ptc_lang::Value;
use serde_json::{Map, Value as Json, json};

use crate::feedback::{Execution, PreviewOptions, Turns, execution_feedback};
use crate::reason::ErrorReason;

/// Options of [`render_success`].
#[derive(Debug, Clone)]
pub struct SuccessOptions {
    /// Shown as `validated` when given, even when it is null.
    pub validated: Option<Json>,
    /// Whether `memory` is part of the payload.
    pub include_memory: bool,
}

impl Default for SuccessOptions {
    fn default() -> Self {
        SuccessOptions {
            validated: None,
            include_memory: true,
        }
    }
}

/// The parts of a finished execution that a payload shows.
#[derive(Debug, Clone, Default)]
pub struct Step {
    pub returned: Value,
    pub prints: Vec<String>,
    /// Definitions after the execution.
    pub memory: BTreeMap<String, Value>,
}

/// Options of [`render_success_from_step`]; by default one-shot, without memory.
#[derive(Debug, Clone, Default)]
pub struct StepOptions {
    /// As in [`SuccessOptions`].
    pub validated: Option<Json>,
    /// Whether `memory` is part of the payload and of the feedback.
    pub include_memory: bool,
    /// Definitions before the execution, to tell what changed.
    pub prior_memory: BTreeMap<String, Value>,
    pub preview: PreviewOptions,
}

/// The success payload as JSON text.
#[must_use]
pub fn render_success(returned: &Value, execution: &Execution, options: SuccessOptions) -> String {
    success_payload(returned, execution, options).to_string()
}

/// The success payload of a step as JSON text.
#[must_use]
pub fn render_success_from_step(step: &Step, options: StepOptions) -> String {
    let turns = if options.include_memory {
        Turns::Several
    } else {
        Turns::Single
    };
    let execution = execution_feedback(
        &step.returned,
        &step.prints,
        &step.memory,
        &options.prior_memory,
        turns,
        options.preview,
    );
    let options = SuccessOptions {
        validated: options.validated,
        include_memory: options.include_memory,
    };
    render_success(&step.returned, &execution, options)
}

/// The error payload as JSON text. `feedback` defaults to the message; `result` shows for `fail` alone.
#[must_use]
pub fn render_error(
    reason: ErrorReason,
    message: &str,
    feedback: Option<Json>,
    result: Option<Json>,
) -> String {
    error_payload(reason, message, feedback, result).to_string()
}

/// The success payload: `status`, `result`, `prints`, `feedback`, `truncated`, `memory`, `validated`.
///
/// `result` is left out only when neither the execution nor the program has a value.
#[must_use]
pub fn success_payload(returned: &Value, execution: &Execution, options: SuccessOptions) -> Json {
    let mut payload = Map::new();
    payload.insert("status".into(), "ok".into());
    if execution.result.is_some() || !returned.is_nil() {
        payload.insert("result".into(), execution.result.clone().into());
    }
    payload.insert("prints".into(), execution.prints.clone().into());
    payload.insert("feedback".into(), execution.feedback.clone().into());
    let truncated = match options.include_memory {
        true => execution.truncated,
        false => execution.visible_truncated.unwrap_or(execution.truncated),
    };
    payload.insert("truncated".into(), truncated.into());
    if options.include_memory {
        let memory = &execution.memory;
        let shown = json!({
            "changed": memory.changed,
            "stored_keys": memory.stored_keys,
            "truncated": memory.truncated,
        });
        payload.insert("memory".into(), shown);
    }
    if let Some(validated) = options.validated {
        payload.insert("validated".into(), validated);
    }
    Json::Object(payload)
}

/// The error payload: `status`, `reason`, `message`, `feedback`, and `result` for `fail`.
#[must_use]
pub fn error_payload(
    reason: ErrorReason,
    message: &str,
    feedback: Option<Json>,
    result: Option<Json>,
) -> Json {
    let mut payload = Map::new();
    payload.insert("status".into(), "error".into());
    payload.insert("reason".into(), reason.name().into());
    payload.insert("message".into(), message.into());
    payload.insert(
        "feedback".into(),
        feedback.unwrap_or_else(|| message.into()),
    );
    match reason {
        ErrorReason::Fail => {
            payload.insert("result".into(), result.unwrap_or(Json::Null));
        }
        ErrorReason::ParseError
        | ErrorReason::RuntimeError
        | ErrorReason::Timeout
        | ErrorReason::MemoryLimit
        | ErrorReason::ArgsError
        | ErrorReason::ValidationError => {}
    }
    Json::Object(payload)
}
