//! A finished execution as text for a model or a client. Decides neither members nor their values.

use std::collections::BTreeMap;

use ptc_lang::Value;
use serde_json::Value as Json;

use crate::feedback::{Execution, PreviewOptions, Turns, execution_feedback};
use crate::members::{Failure, Success};
use crate::reason::ErrorReason;
use crate::{Field, Payload};

/// Options of [`render_success`].
#[derive(Debug, Clone)]
pub struct SuccessOptions {
    /// Shown as `validated` when present, even when it is null.
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

/// Options of [`render_success_from_step`]; by default for a single execution, without memory.
#[derive(Debug, Clone, Default)]
pub struct StepOptions {
    /// See [`SuccessOptions`].
    pub validated: Option<Json>,
    /// Whether `memory` is part of the payload and of the feedback.
    pub include_memory: bool,
    /// Definitions before the execution, to determine changes.
    pub prior_memory: BTreeMap<String, Value>,
    pub preview: PreviewOptions,
}

/// The success payload as JSON text.
#[must_use]
pub fn render_success(returned: &Value, execution: Execution, options: SuccessOptions) -> String {
    let success = match options.include_memory {
        true => Success::with_memory(returned, execution),
        false => Success::new(returned, execution),
    };
    let shown = Success {
        validated: options.validated.as_ref().map(json),
        ..success
    };
    Payload::from(shown).to_json()
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
    render_success(&step.returned, execution, options)
}

/// The error payload as JSON text. `feedback` defaults to the message; `result` is shown only for `fail`.
#[must_use]
pub fn render_error(
    reason: ErrorReason,
    message: &str,
    feedback: Option<Json>,
    result: Option<Json>,
) -> String {
    let mut failure = Failure::new(reason.name(), message);
    if let Some(feedback) = feedback {
        failure.feedback = json(&feedback);
    }
    failure.result = match reason {
        ErrorReason::Fail => Some(result.as_ref().map_or(Field::Null, json)),
        ErrorReason::ParseError
        | ErrorReason::RuntimeError
        | ErrorReason::Timeout
        | ErrorReason::MemoryLimit
        | ErrorReason::ArgsError
        | ErrorReason::ValidationError => None,
    };
    Payload::from(failure).to_json()
}

/// JSON that is passed on as it is.
fn json(value: &Json) -> Field {
    Field::Json(value.to_string())
}
