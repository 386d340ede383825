//! The preview of a result that stays in the cache: its shape, its first rows, or the output of a custom function. Knows
//! nothing of calls or the cache itself.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ptc_lang::value::{Items, Map};
use ptc_lang::{Value, heap};
use ptc_protocol::encode_value;
use ptc_protocol::limits::{JSON_DEPTH_MAX, JSON_PART_BYTES};
use serde_json::{Map as JsonMap, Value as Json, json};

use crate::cache::CanonicalArgs;
use crate::tool::{NativeResult, Preview};

/// Maximum keys shown of a wide object.
const KEYS_MAX: usize = 20;
/// The number of elements whose keys decide whether the rows of a list have one shape.
const ROWS_COMPARED: usize = 5;
/// Values with more parts have no JSON form here, nor do those that memory has no room for.
const JSON_NODES_MAX: u64 = 10_000_000;

/// A preview, and why it differs from the requested one.
#[derive(Debug, Clone, PartialEq)]
pub struct NativePreview {
    /// The content of the tool message.
    pub payload: Json,
    /// The problem with the requested preview.
    pub fallback: Option<Fallback>,
    /// Whether the payload leaves out a part of the result.
    pub truncated: bool,
}

/// Why a preview fell back to metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    Raised,
    /// The function returned something other than a map.
    NonMap,
    /// The value to show has no JSON form.
    NonEncodable,
}

impl Fallback {
    /// The category in the warning.
    #[must_use]
    pub fn category(self) -> &'static str {
        match self {
            Fallback::Raised => "raised",
            Fallback::NonMap => "non_map",
            Fallback::NonEncodable => "non_encodable",
        }
    }

    /// The warning for the log.
    #[must_use]
    pub fn warning(self, tool: &str) -> String {
        format!(
            "[ptc_runner] custom native_result preview for tool {} fell back to metadata: category={}",
            Json::from(tool),
            self.category()
        )
    }
}

/// The preview of a call's result. Three fields are always set last, replacing others of the same name: `status`,
/// `full_result_cached`, `cache_hint`.
#[must_use]
pub fn native_preview(
    options: &NativeResult,
    tool: &str,
    args: &CanonicalArgs,
    result: &Value,
) -> NativePreview {
    let (mut payload, fallback) = match &options.preview {
        Preview::Metadata => (metadata(result), None),
        Preview::Rows => match rows(result, options.limit) {
            Some(payload) => (payload, None),
            None => (metadata(result), Some(Fallback::NonEncodable)),
        },
        Preview::Custom(function) => match custom(result, function) {
            Ok(payload) => (payload, None),
            Err(fallback) => (metadata(result), Some(fallback)),
        },
    };
    let shows_all = matches!(&options.preview, Preview::Rows)
        && fallback.is_none()
        && matches!(result, Value::Vector(items) if items.len() <= options.limit);
    payload.insert("status".into(), "ok".into());
    payload.insert("full_result_cached".into(), true.into());
    payload.insert("cache_hint".into(), args.hint(tool).into());
    NativePreview {
        payload: Json::Object(payload),
        fallback,
        truncated: !shows_all,
    }
}

/// The JSON form for a model: temporals as ISO-8601 text, keywords and keys as text; a string key replaces a keyword
/// with the same name. `None` for values that JSON can't represent: sets, functions, vars, regexes.
#[must_use]
pub fn lenient_json(value: &Value) -> Option<Json> {
    let shape = value.shape();
    if shape.depth > JSON_DEPTH_MAX || shape.weight > JSON_NODES_MAX {
        return None;
    }
    let nodes = usize::try_from(shape.weight).ok()?;
    heap::reserve(nodes.saturating_mul(JSON_PART_BYTES)).then(|| to_json(value))?
}

fn to_json(value: &Value) -> Option<Json> {
    match value {
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Str(_) => {
            Some(encode_value(value))
        }
        Value::Float(float) if float.is_finite() => Some(encode_value(value)),
        Value::Float(float) if float.is_nan() => Some("nan".into()),
        Value::Float(float) => Some(
            if *float > 0.0 {
                "infinity"
            } else {
                "negative_infinity"
            }
            .into(),
        ),
        Value::Keyword(name) => Some(name.as_str().into()),
        Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
            ptc_lang::json::temporal_text(value).map(Json::from)
        }
        Value::Vector(items) => items
            .iter()
            .map(to_json)
            .collect::<Option<Vec<_>>>()
            .map(Json::Array),
        Value::Map(map) => {
            let mut object = JsonMap::new();
            // Keywords come before strings, so the value of the string is kept.
            for (key, value) in map {
                object.insert(key_name(key)?, to_json(value)?);
            }
            Some(Json::Object(object))
        }
        Value::Symbol(_)
        | Value::Set(_)
        | Value::Fn(_)
        | Value::Builtin(_)
        | Value::Combined(_)
        | Value::Var(_)
        | Value::Regex(_) => None,
    }
}

/// The text of a key, or `None` for a key that is itself a collection.
fn key_name(key: &Value) -> Option<String> {
    match key {
        Value::Str(text) | Value::Keyword(text) => Some(text.as_str().to_owned()),
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => {
            Some(ptc_lang::print::readable(key))
        }
        _ => None,
    }
}

fn metadata(result: &Value) -> JsonMap<String, Json> {
    let mut payload = JsonMap::new();
    match result {
        Value::Vector(items) => {
            payload.insert("result_count".into(), items.len().into());
            describe_list(&mut payload, items.iter(), KEYS_MAX);
        }
        Value::Map(map) => {
            let names = names(map);
            let mut schema = JsonMap::new();
            schema.insert("type".into(), "object".into());
            if !map.is_empty() {
                describe_properties(&mut schema, map, &names);
            }
            payload.insert("schema".into(), schema.into());
            payload.insert(
                "sample_keys".into(),
                names.iter().take(KEYS_MAX).cloned().collect(),
            );
        }
        scalar => {
            payload.insert("schema".into(), json!({ "type": type_name(scalar) }));
        }
    }
    payload
}

/// The first rows; `None` when one has no JSON form.
fn rows(result: &Value, limit: usize) -> Option<JsonMap<String, Json>> {
    let Value::Vector(items) = result else {
        return Some(metadata(result));
    };
    let taken: Vec<Value> = items.iter().take(limit).cloned().collect();
    let mut payload = JsonMap::new();
    payload.insert("result_count".into(), items.len().into());
    payload.insert(
        "rows".into(),
        taken
            .iter()
            .map(lenient_json)
            .collect::<Option<Vec<_>>>()?
            .into(),
    );
    let taken = ptc_lang::value::Vector::from(taken);
    describe_list(&mut payload, taken.iter(), usize::MAX);
    Some(payload)
}

fn custom(
    result: &Value,
    function: &crate::tool::PreviewFn,
) -> Result<JsonMap<String, Json>, Fallback> {
    // A preview is the caller's code: whatever it does, the call itself has succeeded.
    let made = catch_unwind(AssertUnwindSafe(|| function(result)));
    match made {
        Ok(Ok(Value::Map(map))) => match lenient_json(&Value::Map(map)) {
            Some(Json::Object(payload)) => Ok(payload),
            _ => Err(Fallback::NonEncodable),
        },
        Ok(Ok(_)) => Err(Fallback::NonMap),
        Ok(Err(_)) | Err(_) => Err(Fallback::Raised),
    }
}

/// Adds `schema` and, when the rows have one shape, `sample_keys` of a list.
fn describe_list(payload: &mut JsonMap<String, Json>, mut items: Items<'_>, sample_max: usize) {
    let Some(first) = items.next() else {
        payload.insert("schema".into(), json!({ "type": "array", "items": {} }));
        return;
    };
    let item_schema = match first {
        Value::Map(map) => {
            let names = names(map);
            let mut schema = JsonMap::new();
            schema.insert("type".into(), "object".into());
            if items
                .take(ROWS_COMPARED - 1)
                .all(|row| has_names(row, &names))
            {
                describe_properties(&mut schema, map, &names);
                payload.insert(
                    "sample_keys".into(),
                    names.iter().take(sample_max).cloned().collect(),
                );
            }
            Json::Object(schema)
        }
        first => {
            let name = type_name(first);
            let uniform = items.all(|item| type_name(item) == name);
            json!({ "type": if uniform { name } else { "any" } })
        }
    };
    payload.insert(
        "schema".into(),
        json!({ "type": "array", "items": item_schema }),
    );
}

fn describe_properties(schema: &mut JsonMap<String, Json>, map: &Map, names: &BTreeSet<String>) {
    let mut properties = JsonMap::new();
    let shown: BTreeSet<&String> = names.iter().take(KEYS_MAX).collect();
    // Keywords come before strings. A `false` under a string key counts as absent (`agent.preview.false`).
    for (key, value) in map {
        let name = shown_name(key);
        if !shown.contains(&name) {
            continue;
        }
        let falsy = matches!(value, Value::Nil | Value::Bool(false));
        if matches!(key, Value::Str(_)) && falsy {
            properties.entry(name).or_insert_with(|| "null".into());
        } else {
            properties.insert(name, type_name(value).into());
        }
    }
    schema.insert("properties".into(), properties.into());
    if names.len() > KEYS_MAX {
        schema.insert("truncated".into(), true.into());
    }
}

fn names(map: &Map) -> BTreeSet<String> {
    map.keys().map(shown_name).collect()
}

fn shown_name(key: &Value) -> String {
    key_name(key).unwrap_or_else(|| ptc_lang::print::readable(key))
}

fn has_names(row: &Value, names: &BTreeSet<String>) -> bool {
    match row {
        Value::Map(map) => {
            map.len() == names.len() && map.keys().all(|key| names.contains(&shown_name(key)))
        }
        _ => false,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Int(_) | Value::BigInt(_) => "integer",
        Value::Float(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Nil => "null",
        Value::Vector(_) => "array",
        Value::Map(_) => "object",
        _ => "string",
    }
}
