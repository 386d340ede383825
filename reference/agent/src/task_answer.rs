//! The answer of a task: a value as JSON and as text, within constraints and size limits. Knows nothing of planners.

use ptc_lang::error::Limit;
use ptc_lang::json::{self, WriteError};
use ptc_lang::meter::Watch;
use ptc_lang::sink::SinkError;
use ptc_lang::{Value, heap};
use ptc_protocol::limits::JSON_PART_BYTES;
use ptc_protocol::{NotJson, to_json_value};
use serde_json::{Map, Value as Json, json};

/// Constraints that a client may set for an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Constraints {
    /// Maximum items of a list.
    pub max_items: Option<usize>,
    /// The fields to which maps are reduced if they have all of them.
    pub preferred_fields: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskAnswer {
    pub answer: String,
    /// As JSON; the cut text when the JSON is too long.
    pub structured: Json,
    /// Whether anything was cut.
    pub truncated: bool,
    /// Bytes of both parts together as JSON.
    pub result_bytes: u64,
    /// Bytes of the JSON before it was cut.
    pub uncut_bytes: u64,
}

impl Constraints {
    /// Reads constraints; the second value has the names of unknown or malformed ones.
    #[must_use]
    pub fn read(given: &Map<String, Json>) -> (Constraints, Vec<String>) {
        let mut constraints = Constraints::default();
        let mut unsupported = Vec::new();
        for (name, value) in given {
            match (name.as_str(), value) {
                ("max_items", Json::Number(count))
                    if count.as_u64().is_some_and(|count| count > 0) =>
                {
                    constraints.max_items =
                        count.as_u64().and_then(|count| usize::try_from(count).ok());
                }
                ("preferred_fields", Json::Array(fields)) => {
                    let names = fields
                        .iter()
                        .filter_map(Json::as_str)
                        .filter(|name| !name.is_empty());
                    constraints.preferred_fields = Some(names.map(str::to_owned).collect());
                }
                _ => unsupported.push(name.clone()),
            }
        }
        (constraints, unsupported)
    }

    /// The constraints that were understood, for the planner.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut shown = Map::new();
        if let Some(count) = self.max_items {
            shown.insert("max_items".into(), count.into());
        }
        if let Some(fields) = &self.preferred_fields {
            shown.insert("preferred_fields".into(), fields.clone().into());
        }
        Json::Object(shown)
    }

    fn apply(&self, value: Json) -> Json {
        let value = match &self.preferred_fields {
            Some(fields) if !fields.is_empty() => keep_fields(value, fields),
            _ => value,
        };
        match self.max_items {
            Some(count) => cut_list(value, count),
            None => value,
        }
    }
}

/// Builds the answer from a returned value, at most `bytes_max` bytes for each part. The inner error is for a value without a JSON
/// form.
///
/// # Errors
/// The limit that stopped the program: shared parts are written each time that they are reached, and may not fit.
pub fn task_answer(
    value: &Value,
    constraints: &Constraints,
    bytes_max: usize,
    watch: &dyn Watch,
) -> Result<Result<TaskAnswer, NotJson>, Limit> {
    let structured = match value {
        Value::Str(text) => {
            reserve_tree(text.as_str())?;
            decoded(text.as_str())
        }
        other => {
            match json::to_string_within(other, usize::MAX, watch) {
                // Three copies are made: the texts in the tree, its JSON, and the answer.
                Ok(text) if heap::reserve(text.len().saturating_mul(3)) => {}
                Ok(_) | Err(WriteError::Sink(SinkError::Bytes)) => return Err(Limit::Memory),
                Err(WriteError::Sink(SinkError::Limit(limit))) => return Err(limit),
                // The path of the part without a JSON form is determined below.
                Err(WriteError::Path(_)) => {}
            }
            match to_json_value(other) {
                Ok(json) => json,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    watch.check_limits()?;
    let answer = answer(value, constraints.apply(structured), bytes_max);
    watch.check_limits()?;
    Ok(Ok(answer))
}

/// Reserves the memory for the tree of a JSON text.
fn reserve_tree(text: &str) -> Result<(), Limit> {
    let separates = |byte: &u8| matches!(byte, b',' | b':' | b'[' | b'{');
    let parts = text.bytes().filter(separates).count();
    let bytes = parts
        .saturating_mul(JSON_PART_BYTES)
        .saturating_add(text.len().saturating_mul(4));
    match heap::reserve(bytes) {
        true => Ok(()),
        false => Err(Limit::Memory),
    }
}

fn answer(value: &Value, structured: Json, bytes_max: usize) -> TaskAnswer {
    let json = structured.to_string();
    let answer = match (value, &structured) {
        // Text that is not JSON is the answer as it is.
        (Value::Str(text), Json::String(_)) => text.as_str().to_owned(),
        _ => json.clone(),
    };
    let (answer, answer_cut) = cut(answer, bytes_max);
    let uncut_bytes = json.len() as u64;
    let (structured, structured_cut) = match json.len() > bytes_max {
        true => (Json::String(cut(json, bytes_max).0), true),
        false => (structured, false),
    };
    let result_bytes = json!({ "answer": answer, "structured_result": structured })
        .to_string()
        .len() as u64;
    TaskAnswer {
        answer,
        structured,
        truncated: answer_cut || structured_cut,
        result_bytes,
        uncut_bytes,
    }
}

/// Decodes JSON that was returned as text, even when it was encoded twice or printed as a result.
fn decoded(text: &str) -> Json {
    let bare = text.strip_prefix("user=> ").unwrap_or(text);
    match serde_json::from_str::<Json>(bare) {
        Ok(Json::String(inner)) => serde_json::from_str(&inner).unwrap_or(Json::String(inner)),
        Ok(json) => json,
        Err(_) => Json::String(text.to_owned()),
    }
}

/// Reduces maps that have all `fields` to them; descends into everything else. JSON's depth bounds the recursion.
fn keep_fields(value: Json, fields: &[String]) -> Json {
    match value {
        Json::Object(mut object) if fields.iter().all(|field| object.contains_key(field)) => {
            object.retain(|key, _| fields.contains(key));
            Json::Object(object)
        }
        Json::Object(object) => object
            .into_iter()
            .map(|(key, value)| (key, keep_fields(value, fields)))
            .collect::<Map<_, _>>()
            .into(),
        Json::Array(items) => items
            .into_iter()
            .map(|item| keep_fields(item, fields))
            .collect(),
        other => other,
    }
}

fn cut_list(value: Json, count: usize) -> Json {
    match value {
        Json::Array(mut items) => {
            items.truncate(count);
            Json::Array(items)
        }
        Json::Object(mut object) => {
            if let Some(Json::Array(items)) = object.values_mut().find(|value| value.is_array()) {
                items.truncate(count);
            }
            Json::Object(object)
        }
        other => other,
    }
}

/// The text, cut at a character boundary to at most `bytes_max` bytes, and whether it was cut.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> (String, bool) {
    if text.len() <= bytes_max {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    (text, true)
}
