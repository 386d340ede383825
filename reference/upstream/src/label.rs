//! Types of arguments and results as a model reads them: turns a JSON Schema into one short label. Knows schemas; knows nothing of
//! tools. The rules are a table in `spec/upstream/rendering.md`.

use std::collections::HashSet;

use ptc_rpc::write_string;
use serde_json::{Map, Value};

/// Maximum characters of a shown literal of a `const` or `enum`: the length of a description in `doc`, so that it carries no more
/// prose.
const LITERAL_CHARS_MAX: usize = 240;
/// Nesting depth from which a result's structure is no longer shown.
const RESULT_DEPTH_MAX: usize = 8;
/// Schema type names and their words in `Result<…>`.
const RESULT_WORDS: &[(&str, &str)] = &[
    ("string", "string"),
    ("integer", "int"),
    ("number", "float"),
    ("boolean", "bool"),
    ("null", "null"),
];

/// The label of one argument: `const` beats `enum` beats `type`; compound types keep their bare name.
pub fn argument_label(schema: &Value) -> String {
    let Value::Object(schema) = schema else {
        return "any".into();
    };
    if let Some(fixed) = schema.get("const") {
        return format!("const<{}>", cap(&fixed.to_string()));
    }
    if let Some(values) = enum_values(schema) {
        let mut kinds = values.iter().map(json_type);
        let first = kinds.next().unwrap_or("any");
        return if kinds.all(|kind| kind == first) {
            format!("enum<{first}>")
        } else {
            "enum".into()
        };
    }
    match schema.get("type") {
        Some(Value::String(name)) if is_word(name) => name.clone(),
        Some(Value::Array(names))
            if names.iter().any(|name| name.as_str().is_some_and(is_word)) =>
        {
            names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| is_word(name))
                .collect::<Vec<_>>()
                .join("|")
        }
        _ if schema.get("properties").is_some_and(Value::is_object) => "object".into(),
        _ if schema.contains_key("items") => "array".into(),
        _ => "any".into(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The key as the schema declares it.
    pub key: String,
    /// The key as programs write it: `:max-results`, or a string when it could not be a keyword.
    pub shown: String,
    pub label: String,
    /// False adds `?` to the label.
    pub required: bool,
}

/// Arguments in documentation order: required ones as `required` lists them, then the others by name.
pub fn arguments(schema: &Value) -> Vec<Argument> {
    let none = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let required = required_keys(schema);
    let known: HashSet<&str> = required.iter().copied().collect();
    let mut optional: Vec<&String> = properties
        .keys()
        .filter(|key| !known.contains(key.as_str()))
        .collect();
    optional.sort();
    let declared = required
        .iter()
        .filter(|key| properties.contains_key(**key))
        .copied();
    let row = |key: &str, required| Argument {
        key: key.to_owned(),
        shown: shown_key(key, properties),
        label: argument_label(&properties[key]),
        required,
    };
    declared
        .map(|key| row(key, true))
        .chain(optional.iter().map(|key| row(key, false)))
        .collect()
}

/// The names under `required`, each once, whether declared or not.
pub fn required_keys(schema: &Value) -> Vec<&str> {
    distinct_texts(schema.get("required"))
}

fn distinct_texts(list: Option<&Value>) -> Vec<&str> {
    let (mut texts, mut seen) = (Vec::new(), HashSet::new());
    for text in list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if seen.insert(text) {
            texts.push(text);
        }
    }
    texts
}

/// How a program writes a key: with underscores as hyphens, unless that would name a different key of the same map or no key at all
/// (in a key that a program writes, hyphens become underscores again).
pub fn shown_key(key: &str, siblings: &Map<String, Value>) -> String {
    let hyphened = key.replace('_', "-");
    let name = if key.contains('-') || hyphened != key && siblings.contains_key(&hyphened) {
        key
    } else {
        &hyphened
    };
    let plain = |c: char| c.is_alphanumeric() || "-_.*+!?<>=$".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return format!(":{name}");
    }
    quoted(&cap(key))
}

/// The payload inside `Result<…>`.
pub fn result_label(schema: &Value) -> String {
    result_type(schema, 0)
}

fn result_type(schema: &Value, depth: usize) -> String {
    let Value::Object(schema) = schema else {
        return "any".into();
    };
    if let Some(fixed) = schema.get("const") {
        return literal(fixed);
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        if values.is_empty() {
            return "enum".into();
        }
        return cap(&values.iter().map(literal).collect::<Vec<_>>().join("|"));
    }
    match schema.get("type") {
        Some(Value::String(name)) => result_word(name, schema, depth),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            let other: Vec<String> = names
                .iter()
                .filter(|name| **name != "null")
                .map(|name| result_word(name, schema, depth))
                .collect();
            match (other.is_empty(), names.is_empty()) {
                (true, true) => "any".into(),
                (true, false) => "nil".into(),
                _ => other.join("|"),
            }
        }
        _ if schema.get("properties").is_some_and(Value::is_object) => {
            result_word("object", schema, depth)
        }
        _ if schema.contains_key("items") => result_word("array", schema, depth),
        _ => "any".into(),
    }
}

fn result_word(name: &str, schema: &Map<String, Value>, depth: usize) -> String {
    if let Some((_, word)) = RESULT_WORDS.iter().find(|(known, _)| *known == name) {
        return (*word).to_owned();
    }
    match name {
        "array" => match schema.get("items") {
            Some(items) if depth < RESULT_DEPTH_MAX => {
                format!("[{}]", result_type(items, depth + 1))
            }
            _ => "[any]".into(),
        },
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) if !properties.is_empty() && depth < RESULT_DEPTH_MAX => {
                result_map(schema, properties, depth)
            }
            _ => "map".into(),
        },
        other if is_word(other) => other.to_owned(),
        _ => "any".into(),
    }
}

fn result_map(
    schema: &Map<String, Value>,
    properties: &Map<String, Value>,
    depth: usize,
) -> String {
    let mut required = distinct_texts(schema.get("required"));
    required.retain(|key| properties.contains_key(*key));
    let known: HashSet<&str> = required.iter().copied().collect();
    let mut optional: Vec<&str> = properties
        .keys()
        .map(String::as_str)
        .filter(|key| !known.contains(key))
        .collect();
    optional.sort_unstable();
    let row = |key: &str, mark| {
        format!(
            "{} {}{mark}",
            shown_key(key, properties),
            result_type(&properties[key], depth + 1)
        )
    };
    let rows = required
        .iter()
        .map(|key| row(key, ""))
        .chain(optional.iter().map(|key| row(key, "?")));
    format!("{{{}}}", rows.collect::<Vec<_>>().join(" "))
}

/// A JSON value as PTC-Lisp text.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".into(),
        Value::String(text) => quoted(&cap(text)),
        Value::Array(items) => cap(&format!(
            "[{}]",
            items.iter().map(literal).collect::<Vec<_>>().join(" ")
        )),
        Value::Object(entries) => {
            let mut keys: Vec<&String> = entries.keys().collect();
            keys.sort();
            let pairs: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{} {}", quoted(key), literal(&entries[key])))
                .collect();
            cap(&format!("{{{}}}", pairs.join(" ")))
        }
        other => other.to_string(),
    }
}

fn enum_values(schema: &Map<String, Value>) -> Option<&Vec<Value>> {
    schema
        .get("enum")
        .and_then(Value::as_array)
        .filter(|values| !values.is_empty())
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a type name is shown as it is: an upstream must not write prose or lines into a label.
fn is_word(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn cap(text: &str) -> String {
    match text.char_indices().nth(LITERAL_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
