//! Converts language values to JSON and back, strictly: values that JSON can't represent are refused with their
//! path. The lenient conversions live with combined mode.

use std::fmt::Write as _;

use ptc_lang::Value;
use ptc_lang::json::temporal_text;
use ptc_lang::value::{BigInt, Map};
use serde_json::{Number, Value as Json};

use crate::limits::{JSON_DEPTH_MAX, JSON_PART_BYTES};

/// Maximum bytes of the JSON tree, shared parts counted each time; conversion stops when it would exceed them.
const TREE_BYTES_MAX: usize = 64 << 20;

/// A value without a JSON form. `path`: map keys joined by `.`, indices as `[i]`, empty for the value itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("non-JSON-encodable value at {}", if path.is_empty() { "<root>" } else { path })]
pub struct NotJson {
    /// The path of the offending part.
    pub path: String,
}

/// The JSON form of a value: keywords are their names, temporals ISO-8601 text.
///
/// # Errors
/// The path of the first part, in iteration order, that JSON can't represent: a set, function, var, regex or
/// symbol, an infinity or NaN. For a map with keys that are neither strings nor keywords, or with a keyword and a
/// string of the same name, the path of the map.
pub fn to_json_value(value: &Value) -> Result<Json, NotJson> {
    let mut walk = JsonConverter {
        path: Vec::new(),
        bytes_left: TREE_BYTES_MAX.min(ptc_lang::heap::room()),
    };
    walk.convert(value).ok_or_else(|| NotJson {
        path: path_text(&walk.path),
    })
}

/// The value of a JSON document: objects become maps with string keys, arrays vectors; numbers are exact.
#[must_use]
pub fn json_to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => number_value(number),
        Json::String(text) => Value::str(text.as_str()),
        Json::Array(items) => Value::vector(items.iter().map(json_to_value).collect()),
        Json::Object(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, value)| (Value::str(key.as_str()), json_to_value(value)))
                .collect(),
        ),
    }
}

/// The JSON number of an integer or a finite float, in the digits that the language prints.
pub(crate) fn json_number(value: &Value) -> Option<Number> {
    match value {
        Value::Int(int) => Some(Number::from(*int)),
        Value::BigInt(int) => int.to_string().parse().ok(),
        Value::Float(float) if float.is_finite() => ptc_lang::print::readable(value).parse().ok(),
        _ => None,
    }
}

enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

struct JsonConverter<'a> {
    path: Vec<PathStep<'a>>,
    bytes_left: usize,
}

impl<'a> JsonConverter<'a> {
    /// On `None`, `path` leads to the offending part.
    fn convert(&mut self, value: &'a Value) -> Option<Json> {
        if self.path.len() > JSON_DEPTH_MAX as usize {
            return None;
        }
        self.spend(JSON_PART_BYTES)?;
        match value {
            Value::Nil => Some(Json::Null),
            Value::Bool(bool) => Some(Json::Bool(*bool)),
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => {
                json_number(value).map(Json::Number)
            }
            Value::Str(text) | Value::Keyword(text) => {
                self.spend(text.len())?;
                Some(Json::String(text.as_str().to_owned()))
            }
            Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
                temporal_text(value).map(Json::String)
            }
            Value::Vector(items) => {
                self.spend(items.len().checked_mul(size_of::<Json>())?)?;
                let mut array = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    self.path.push(PathStep::Index(i));
                    array.push(self.convert(item)?);
                    self.path.pop();
                }
                Some(Json::Array(array))
            }
            Value::Map(map) => self.convert_map(map),
            Value::Symbol(_)
            | Value::Set(_)
            | Value::Fn(_)
            | Value::Builtin(_)
            | Value::Combined(_)
            | Value::Var(_)
            | Value::Regex(_) => None,
        }
    }

    fn convert_map(&mut self, map: &'a Map) -> Option<Json> {
        let mut object = serde_json::Map::new();
        if map.keys().any(|key| key.key_text().is_none()) || has_converging_keys(map) {
            return None;
        }
        for (key, value) in map {
            let name = key.key_text()?.as_str();
            self.path.push(PathStep::Key(name));
            self.spend(name.len())?;
            object.insert(name.to_owned(), self.convert(value)?);
            self.path.pop();
        }
        Some(Json::Object(object))
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.bytes_left = self.bytes_left.checked_sub(bytes)?;
        Some(())
    }
}

/// Whether a keyword and a string of the same name are both keys.
fn has_converging_keys(map: &Map) -> bool {
    map.keys().any(|key| match key {
        Value::Keyword(name) => map.contains(&Value::Str(name.clone())),
        _ => false,
    })
}

fn path_text(path: &[PathStep<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() || key.is_empty() => text.push_str(key),
            PathStep::Key(key) => {
                let _ = write!(text, ".{key}");
            }
            PathStep::Index(i) => {
                let _ = write!(text, "[{i}]");
            }
        }
    }
    text
}

fn number_value(number: &Number) -> Value {
    let text = number.to_string();
    if let Ok(int) = text.parse::<i64>() {
        return Value::Int(int);
    }
    match text.parse::<BigInt>() {
        Ok(int) => Value::integer(int),
        Err(_) => Value::Float(text.parse().unwrap_or(f64::NAN)),
    }
}
