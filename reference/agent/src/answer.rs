//! Turns the model's last text into the final answer of a run, as the signature requires. Knows nothing of
//! turns.

use ptc_lang::Value;
use ptc_protocol::{
    Prim, Type, atomize_value, describe_mismatches, integral, json_to_value, parse_instant,
    validate_return,
};
use serde_json::Value as Json;

use crate::extract::{ExtractError, decode, extract_json};
use crate::step::RunReason;

/// Why a text is not a valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerError {
    /// `Validation` or `JsonParse`.
    pub reason: RunReason,
    pub message: String,
    /// What to return instead, as the end of the sentence to the model.
    wanted: &'static str,
}

const WANTED_VALUE: &str = "a valid value matching the expected output";
const WANTED_OBJECT: &str = "a valid JSON object matching the expected output format";

impl AnswerError {
    /// The message that asks the model to try again.
    #[must_use]
    pub fn feedback(&self) -> String {
        format!("Error: {}. Please return {}.", self.message, self.wanted)
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    Raw,
    /// One JSON scalar, coerced to the type.
    Scalar,
    /// A JSON object or array somewhere in the text.
    Structured,
}

/// The form for a return type; `None` means an agent without signature.
#[must_use]
pub fn answer_form(returns: Option<&Type>) -> AnswerForm {
    match returns {
        None | Some(Type::Prim(Prim::String | Prim::Any)) => AnswerForm::Raw,
        Some(Type::Map(_) | Type::ClosedMap(_) | Type::List(_)) => AnswerForm::Structured,
        Some(Type::Prim(_) | Type::Optional(_)) => AnswerForm::Scalar,
    }
}

/// Extracts the answer from `text`. Map keys become strings with `_` for `-`.
///
/// # Errors
/// The reason and message of a failed run, and the feedback for another attempt.
pub fn final_answer(text: &str, returns: Option<&Type>) -> Result<Value, AnswerError> {
    match (answer_form(returns), returns) {
        (AnswerForm::Scalar, Some(expected)) => {
            scalar(text.trim(), expected).map(|value| plain_keys(&value))
        }
        (AnswerForm::Structured, Some(expected)) => {
            structured(text, expected).map(|value| plain_keys(&value))
        }
        _ => Ok(Value::str(text)),
    }
}

fn scalar(text: &str, expected: &Type) -> Result<Value, AnswerError> {
    let failed = |message: String| AnswerError {
        reason: RunReason::Validation,
        message,
        wanted: WANTED_VALUE,
    };
    let is_datetime = *expected == Type::Prim(Prim::Datetime);
    let value = match decode(text) {
        Some(json) => json_to_value(&json),
        None if is_datetime => match parse_instant(text) {
            Some(moment) => Value::Instant(moment),
            None => {
                return Err(failed(format!(
                    "Could not parse datetime from response: {}",
                    Json::from(text)
                )));
            }
        },
        None => return Err(failed("Could not parse JSON from response.".to_owned())),
    };
    let value = atomize_value(&coerced(value, expected), expected);
    match validate_return(expected, &value) {
        Ok(()) => Ok(value),
        Err(mismatches) => Err(failed(format!(
            "Return validation failed: {}",
            describe_mismatches(&mismatches, None)
        ))),
    }
}

/// Coerces `42.0` and `"42"` to an integer, `3` to a float, and `"true"` to a boolean, where the type
/// requires these.
fn coerced(value: Value, expected: &Type) -> Value {
    let Type::Prim(prim) = expected.required() else {
        return value;
    };
    match (prim, &value) {
        (Prim::Int, Value::Float(float)) => integral(*float).unwrap_or(value),
        (Prim::Int, Value::Str(text)) => match serde_json::from_str::<Json>(text.as_str()) {
            Ok(Json::Number(number)) => match json_to_value(&Json::Number(number)) {
                integer @ (Value::Int(_) | Value::BigInt(_)) => integer,
                _ => value,
            },
            _ => value,
        },
        #[allow(clippy::cast_precision_loss)] // A request for a float accepts the loss.
        (Prim::Float, Value::Int(int)) => Value::Float(*int as f64),
        (Prim::Float, Value::BigInt(int)) => int.to_string().parse().map_or(value, Value::Float),
        (Prim::Bool, Value::Str(text)) => match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => value,
        },
        _ => value,
    }
}

fn structured(text: &str, expected: &Type) -> Result<Value, AnswerError> {
    let failed = |reason, message: &str| AnswerError {
        reason,
        message: message.to_owned(),
        wanted: WANTED_OBJECT,
    };
    let json = extract_json(text).map_err(|error| match error {
        ExtractError::NotFound => failed(RunReason::JsonParse, "No valid JSON found in response"),
        ExtractError::Invalid => failed(RunReason::JsonParse, "JSON parse error"),
    })?;
    let json = match (expected, json) {
        (Type::List(_), Json::Object(mut object)) => match object.remove("items") {
            Some(items @ Json::Array(_)) => items,
            _ => {
                return Err(failed(
                    RunReason::JsonParse,
                    "Expected {\"items\": [...]} wrapper for array response",
                ));
            }
        },
        (Type::List(_), array @ Json::Array(_))
        | (Type::Map(_) | Type::ClosedMap(_), array @ Json::Object(_)) => array,
        (Type::List(_), _) => {
            return Err(failed(
                RunReason::JsonParse,
                "Expected {\"items\": [...]} wrapper for array response",
            ));
        }
        _ => {
            return Err(failed(
                RunReason::JsonParse,
                "Response must be a JSON object, not an array or primitive",
            ));
        }
    };
    let value = atomize_value(&json_to_value(&json), expected);
    match validate_return(expected, &value) {
        Ok(()) => Ok(value),
        Err(mismatches) => Err(failed(
            RunReason::Validation,
            &describe_mismatches(&mismatches, None),
        )),
    }
}

/// Replaces `-` by `_` in keys, at every depth. JSON's own depth limit bounds the recursion.
fn plain_keys(value: &Value) -> Value {
    match value {
        Value::Vector(items) => Value::vector(items.iter().map(plain_keys).collect()),
        Value::Map(map) => Value::Map(
            map.iter()
                .map(|(key, value)| {
                    let name = key
                        .key_text()
                        .map(|text| Value::str(text.as_str().replace('-', "_")));
                    (name.unwrap_or_else(|| key.clone()), plain_keys(value))
                })
                .collect(),
        ),
        other => other.clone(),
    }
}
