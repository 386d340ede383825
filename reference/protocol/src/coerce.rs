//! Lenient coercion of inputs to types, for hosts that want it: agent runs pass arguments through unchanged.
//! Every change is a warning; a value that can't be changed to fit is an error.

use ptc_lang::value::{BigInt, Map, Text};
use ptc_lang::{InstantError, Value, parse_instant_with_offset};
use serde_json::Value as Json;

use crate::returns::is_keyword_name;
use crate::signature::{Prim, Type};

/// A coerced value, and the changes that were needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Coerced {
    pub value: Value,
    /// One sentence per change.
    pub warnings: Vec<String>,
}

/// A value that can't be made to fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoerceFault {
    #[error("cannot coerce to {0}")]
    Kind(&'static str),
    #[error("cannot coerce string {} to {kind}", quoted(text))]
    Text { text: String, kind: &'static str },
    #[error("missing required field {}", quoted(.0))]
    Missing(String),
    #[error(
        "cannot coerce to datetime — expected ISO 8601 string with offset (e.g. \"2026-05-03T09:14:00Z\") or a datetime"
    )]
    NotDatetime,
    #[error(
        "datetime requires a timezone offset (got naive ISO 8601 {}); use \"...Z\" or \"...+HH:MM\"",
        quoted(.0)
    )]
    NoOffset(String),
    #[error("invalid datetime {}: {problem}", quoted(text))]
    Datetime { text: String, problem: &'static str },
}

/// Makes a value fit a type: texts become numbers, booleans, keywords and datetimes, integers become floats,
/// keywords and temporals become text. Maps are reduced to their declared fields, which are looked up by their
/// exact names.
///
/// # Errors
/// The first part that can't be made to fit.
pub fn coerce_input(value: &Value, expected: &Type) -> Result<Coerced, CoerceFault> {
    let mut warnings = Vec::new();
    let value = coerce(value, expected, &mut warnings)?;
    Ok(Coerced { value, warnings })
}

fn coerce(
    value: &Value,
    expected: &Type,
    warnings: &mut Vec<String>,
) -> Result<Value, CoerceFault> {
    match (expected, value) {
        (Type::Optional(_), Value::Nil) => Ok(Value::Nil),
        (Type::Optional(inner), _) => coerce(value, inner, warnings),
        (Type::Prim(prim), _) => primitive(value, *prim, warnings),
        (Type::List(item), Value::Vector(items)) => {
            let items = items.iter().map(|value| coerce(value, item, warnings));
            Ok(Value::vector(items.collect::<Result<_, _>>()?))
        }
        (Type::List(_), _) => Err(CoerceFault::Kind("list")),
        (Type::Map(fields) | Type::ClosedMap(fields), Value::Map(map)) => {
            let mut kept = Vec::new();
            for (name, expected) in fields {
                let text = Text::from(name.as_str());
                let keys = [Value::Keyword(text.clone()), Value::Str(text)];
                match keys.iter().find_map(|key| map.entry(key)) {
                    Some((key, value)) => {
                        kept.push((key.clone(), coerce(value, expected, warnings)?))
                    }
                    None if expected.is_optional() => {}
                    None => return Err(CoerceFault::Missing(name.clone())),
                }
            }
            Ok(Value::Map(Map::from(kept)))
        }
        (Type::Map(_) | Type::ClosedMap(_), _) => Err(CoerceFault::Kind("map")),
    }
}

fn primitive(value: &Value, prim: Prim, warnings: &mut Vec<String>) -> Result<Value, CoerceFault> {
    match (prim, value) {
        (Prim::Any, _)
        | (Prim::Int, Value::Int(_) | Value::BigInt(_))
        | (Prim::Float, Value::Float(_))
        | (Prim::Bool, Value::Bool(_))
        | (Prim::String, Value::Str(_))
        | (Prim::Keyword, Value::Keyword(_))
        | (Prim::Map, Value::Map(_))
        | (Prim::Datetime, Value::Instant(_)) => Ok(value.clone()),
        #[allow(clippy::cast_precision_loss)] // A request for a float accepts the loss.
        (Prim::Float, Value::Int(int)) => Ok(Value::Float(*int as f64)),
        (Prim::Float, Value::BigInt(int)) => int
            .to_string()
            .parse()
            .ok()
            .filter(|float: &f64| float.is_finite())
            .map(Value::Float)
            .ok_or(CoerceFault::Kind("float")),
        (Prim::String, Value::Keyword(name)) => {
            warnings.push("coerced keyword to string".to_owned());
            Ok(Value::Str(name.clone()))
        }
        (Prim::String, Value::Instant(_) | Value::Date(_)) => {
            let kind = if matches!(value, Value::Date(_)) {
                "date"
            } else {
                "datetime"
            };
            warnings.push(format!("coerced {kind} to ISO 8601 string"));
            Ok(Value::str(ptc_lang::print::display(value)))
        }
        (Prim::Datetime, Value::Str(text)) => datetime(text.as_str(), warnings),
        (Prim::Int | Prim::Float | Prim::Bool | Prim::Keyword, Value::Str(text)) => {
            let text = text.as_str();
            let kind = word(prim);
            let read = from_text(text, prim).ok_or_else(|| CoerceFault::Text {
                text: text.to_owned(),
                kind,
            })?;
            warnings.push(format!("coerced string {} to {kind}", quoted(text)));
            Ok(read)
        }
        (Prim::Datetime, _) => Err(CoerceFault::NotDatetime),
        _ => Err(CoerceFault::Kind(word(prim))),
    }
}

fn from_text(text: &str, prim: Prim) -> Option<Value> {
    match prim {
        Prim::Int => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            whole
                .then(|| text.parse::<BigInt>().ok().map(Value::integer))
                .flatten()
        }
        Prim::Float => leading_float(text.trim_start()).map(Value::Float),
        Prim::Bool => match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        Prim::Keyword => is_keyword_name(text).then(|| Value::keyword(text)),
        Prim::String | Prim::Map | Prim::Datetime | Prim::Any => None,
    }
}

/// The number that a text starts with; the rest is ignored.
fn leading_float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let sign = usize::from(bytes.first().is_some_and(|b| matches!(b, b'+' | b'-')));
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let whole = digits(sign);
    if whole == 0 {
        return None;
    }
    let mut end = sign + whole;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + signed).min(bytes.len()));
        if exponent > 0 {
            end += 1 + signed + exponent;
        }
    }
    text[..end]
        .parse()
        .ok()
        .filter(|float: &f64| float.is_finite())
}

fn datetime(text: &str, warnings: &mut Vec<String>) -> Result<Value, CoerceFault> {
    let problem = match parse_instant_with_offset(text) {
        Ok((moment, ahead)) => {
            warnings.push("normalized to UTC".to_owned());
            if ahead != 0 {
                warnings.push("non-UTC offset in datetime, normalized to UTC".to_owned());
            }
            return Ok(Value::Instant(moment));
        }
        Err(InstantError::Offset) => return Err(CoerceFault::NoOffset(text.to_owned())),
        Err(InstantError::Format) => "invalid_format",
        Err(InstantError::Date) => "invalid_date",
        Err(InstantError::Time) => "invalid_time",
    };
    Err(CoerceFault::Datetime {
        text: text.to_owned(),
        problem,
    })
}

fn word(prim: Prim) -> &'static str {
    match prim {
        Prim::Int => "integer",
        Prim::Bool => "boolean",
        other => other.name(),
    }
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}
