//! Converts JSON Schema to types and back. Knows the accepted subset of JSON Schema, and no values.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::lisp_text::lisp_text;
use crate::signature::{Prim, Signature, Type};

/// The keys that each `type` word allows. Any other key is refused by name.
const ACCEPTED: &[(&str, &[&str])] = &[
    ("string", &["type", "description"]),
    ("integer", &["type", "description"]),
    ("number", &["type", "description"]),
    ("boolean", &["type", "description"]),
    ("array", &["type", "description", "items"]),
    (
        "object",
        &[
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
        ],
    ),
];

/// Deeper schemas are refused. JSON text of this depth never gets here, since its reader stops at 128.
const DEPTH_MAX: usize = 256;

/// The JSON Schema of a type, without any wrapping, as prompts show it.
#[must_use]
pub fn type_to_json_schema(t: &Type) -> Json {
    match t {
        Type::Prim(prim) => json!({ "type": prim_word(*prim) }),
        Type::Optional(inner) => type_to_json_schema(inner),
        Type::List(item) => json!({ "type": "array", "items": type_to_json_schema(item) }),
        Type::Map(fields) | Type::ClosedMap(fields) => {
            let mut schema = object_schema(fields);
            schema["additionalProperties"] = Json::Bool(false);
            schema
        }
    }
}

/// The schema of a signature's return type for a provider that requires an object at the top level: a list
/// becomes an object with the one required property `items`.
#[must_use]
pub fn provider_schema(t: &Type) -> Json {
    let schema = type_to_json_schema(t);
    if !matches!(t.required(), Type::List(_)) {
        return schema;
    }
    json!({
        "type": "object",
        "properties": { "items": schema },
        "required": ["items"],
        "additionalProperties": false,
    })
}

/// The `parameters` schema of a tool. Without parameters (or without a signature) it has no `required`.
#[must_use]
pub fn parameters_schema(signature: Option<&Signature>) -> Json {
    match signature {
        Some(signature) if !signature.params.is_empty() => object_schema(&signature.params),
        _ => json!({ "type": "object", "properties": {} }),
    }
}

/// A provider's tool definition (`{"type":"function",…}`); an empty `description` is left out.
#[must_use]
pub fn tool_definition(name: &str, description: Option<&str>, parameters: Json) -> Json {
    let mut function = Map::new();
    function.insert("name".into(), name.into());
    if let Some(description) = description.filter(|d| !d.is_empty()) {
        function.insert("description".into(), description.into());
    }
    function.insert("parameters".into(), parameters);
    json!({ "type": "function", "function": function })
}

/// Converts an `output_schema` to a type.
///
/// # Errors
/// One sentence that names the unsupported feature or the malformed part, and its property; the first problem
/// in this order: keys, `additionalProperties`, `properties`, `required`, properties by name.
pub fn json_schema_to_type(schema: &Json) -> Result<Type, String> {
    read_schema(schema, 0)
}

fn object_schema(fields: &[(String, Type)]) -> Json {
    let properties: Map<String, Json> = fields
        .iter()
        .map(|(name, t)| (name.clone(), type_to_json_schema(t)))
        .collect();
    let mut seen = HashSet::new();
    let required: Vec<&str> = fields
        .iter()
        .filter(|(name, t)| !t.is_optional() && seen.insert(name))
        .map(|(name, _)| name.as_str())
        .collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn prim_word(prim: Prim) -> &'static str {
    match prim {
        Prim::String | Prim::Keyword | Prim::Datetime => "string",
        Prim::Int => "integer",
        Prim::Float => "number",
        Prim::Bool => "boolean",
        Prim::Map | Prim::Any => "object",
    }
}

fn read_schema(schema: &Json, depth: usize) -> Result<Type, String> {
    if depth > DEPTH_MAX {
        return Err(format!("schema is nested deeper than {DEPTH_MAX} levels"));
    }
    let Json::Object(schema) = schema else {
        return Err(format!(
            "schema must be a JSON object, got {}",
            lisp_text(schema)
        ));
    };
    let word = type_word(schema)?;
    let Some((_, accepted)) = ACCEPTED.iter().find(|(name, _)| *name == word) else {
        return Err(format!("unsupported type: {}", Json::from(word)));
    };
    refuse_other_keys(schema, accepted)?;
    match word {
        "string" => Ok(Type::Prim(Prim::String)),
        "integer" => Ok(Type::Prim(Prim::Int)),
        "number" => Ok(Type::Prim(Prim::Float)),
        "boolean" => Ok(Type::Prim(Prim::Bool)),
        "array" => read_array(schema, depth),
        _ => read_object(schema, depth),
    }
}

/// The `type` word. A schema without it that uses another feature is refused by that feature's name.
fn type_word(schema: &Map<String, Json>) -> Result<&str, String> {
    match schema.get("type") {
        Some(Json::String(word)) => return Ok(word),
        Some(union @ Json::Array(_)) => return Err(format!("unsupported type: {union}")),
        _ => {}
    }
    let known = |key: &str| ACCEPTED.iter().any(|(_, keys)| keys.contains(&key));
    let other = joined_keys(schema, |key| !known(key));
    if !schema.contains_key("type") && !other.is_empty() {
        return Err(format!("unsupported JSON Schema key(s): {other}"));
    }
    Err("schema must have a \"type\" key".to_owned())
}

fn refuse_other_keys(schema: &Map<String, Json>, accepted: &[&str]) -> Result<(), String> {
    let other = joined_keys(schema, |key| !accepted.contains(&key));
    if other.is_empty() {
        Ok(())
    } else {
        Err(format!("unsupported JSON Schema key(s): {other}"))
    }
}

fn joined_keys(schema: &Map<String, Json>, wanted: impl Fn(&str) -> bool) -> String {
    let mut keys: Vec<&str> = schema
        .keys()
        .map(String::as_str)
        .filter(|key| wanted(key))
        .collect();
    keys.sort_unstable();
    let mut text = String::new();
    for (i, key) in keys.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{key}");
    }
    text
}

fn read_array(schema: &Map<String, Json>, depth: usize) -> Result<Type, String> {
    let items = schema
        .get("items")
        .ok_or("array type requires an \"items\" key")?;
    if !items.is_object() {
        return Err("array \"items\" must be a JSON object".to_owned());
    }
    let item = read_schema(items, depth + 1).map_err(|reason| in_items(reason, depth))?;
    Ok(Type::List(Box::new(item)))
}

/// Adds the place to an unsupported feature. Below a property, the property is the place; only a top-level
/// array needs to say that its `items` are meant.
fn in_items(reason: String, depth: usize) -> String {
    if depth == 0 && reason.starts_with("unsupported") {
        format!("items: {reason}")
    } else {
        reason
    }
}

fn read_object(schema: &Map<String, Json>, depth: usize) -> Result<Type, String> {
    let closed = match schema.get("additionalProperties") {
        None | Some(Json::Bool(true)) => false,
        Some(Json::Bool(false)) => true,
        Some(other) => {
            return Err(format!(
                "\"additionalProperties\" must be true or false, got {}",
                lisp_text(other)
            ));
        }
    };
    let empty = Map::new();
    let properties = match schema.get("properties") {
        None => None,
        Some(Json::Object(properties)) => Some(properties),
        Some(_) => return Err("object \"properties\" must be a JSON object".to_owned()),
    };
    let required = read_required(schema.get("required"), properties.unwrap_or(&empty))?;
    let Some(properties) = properties else {
        return Ok(if closed {
            Type::ClosedMap(Vec::new())
        } else {
            Type::Prim(Prim::Map)
        });
    };
    let mut names: Vec<&String> = properties.keys().collect();
    names.sort_unstable();
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        let t = read_schema(&properties[name], depth + 1)
            .map_err(|reason| format!("property {}: {reason}", Json::from(name.as_str())))?;
        let optional = !required.contains(&name.as_str());
        fields.push((
            name.clone(),
            if optional {
                Type::Optional(Box::new(t))
            } else {
                t
            },
        ));
    }
    Ok(if closed {
        Type::ClosedMap(fields)
    } else {
        Type::Map(fields)
    })
}

fn read_required<'a>(
    required: Option<&'a Json>,
    properties: &Map<String, Json>,
) -> Result<HashSet<&'a str>, String> {
    let entries = match required {
        None => return Ok(HashSet::new()),
        Some(Json::Array(entries)) => entries,
        Some(_) => return Err("\"required\" must be an array of strings".to_owned()),
    };
    let mut names = HashSet::with_capacity(entries.len());
    for entry in entries {
        let Json::String(name) = entry else {
            return Err(format!(
                "\"required\" entries must be strings, got {}",
                lisp_text(entry)
            ));
        };
        if !properties.contains_key(name) {
            return Err(format!(
                "\"required\" entry {} is not a declared property",
                Json::from(name.as_str())
            ));
        }
        names.insert(name.as_str());
    }
    Ok(names)
}
