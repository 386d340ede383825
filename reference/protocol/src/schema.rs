//! Converts JSON Schema to types and back. Knows the accepted subset of JSON Schema, and no values.

use std::collections::HashSet;

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

/// A schema that is no type: the unsupported feature or the malformed part, and its property.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    #[error("schema is nested deeper than {DEPTH_MAX} levels")]
    Depth,
    #[error("schema must be a JSON object, got {}", lisp_text(.0))]
    NotObject(Json),
    #[error("schema must have a \"type\" key")]
    NoType,
    #[error("unsupported type: {0}")]
    Type(Json),
    #[error("unsupported JSON Schema key(s): {}", .0.join(", "))]
    Keys(Vec<String>),
    #[error("array type requires an \"items\" key")]
    NoItems,
    #[error("array \"items\" must be a JSON object")]
    Items,
    #[error("\"additionalProperties\" must be true or false, got {}", lisp_text(.0))]
    AdditionalProperties(Json),
    #[error("object \"properties\" must be a JSON object")]
    Properties,
    #[error("\"required\" must be an array of strings")]
    Required,
    #[error("\"required\" entries must be strings, got {}", lisp_text(.0))]
    RequiredEntry(Json),
    #[error("\"required\" entry {} is not a declared property", Json::from(.0.as_str()))]
    Undeclared(String),
    #[error("items: {0}")]
    InItems(Box<SchemaFault>),
    #[error("property {}: {fault}", Json::from(name.as_str()))]
    InProperty {
        name: String,
        fault: Box<SchemaFault>,
    },
}

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
/// The first problem in this order: keys, `additionalProperties`, `properties`, `required`, properties by name.
pub fn json_schema_to_type(schema: &Json) -> Result<Type, SchemaFault> {
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

fn read_schema(schema: &Json, depth: usize) -> Result<Type, SchemaFault> {
    if depth > DEPTH_MAX {
        return Err(SchemaFault::Depth);
    }
    let Json::Object(schema) = schema else {
        return Err(SchemaFault::NotObject(schema.clone()));
    };
    let word = type_word(schema)?;
    let Some((_, accepted)) = ACCEPTED.iter().find(|(name, _)| *name == word) else {
        return Err(SchemaFault::Type(word.into()));
    };
    refuse_keys(schema, |key| !accepted.contains(&key))?;
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
fn type_word(schema: &Map<String, Json>) -> Result<&str, SchemaFault> {
    match schema.get("type") {
        Some(Json::String(word)) => return Ok(word),
        Some(union @ Json::Array(_)) => return Err(SchemaFault::Type(union.clone())),
        _ => {}
    }
    let known = |key: &str| ACCEPTED.iter().any(|(_, keys)| keys.contains(&key));
    if !schema.contains_key("type") {
        refuse_keys(schema, |key| !known(key))?;
    }
    Err(SchemaFault::NoType)
}

fn refuse_keys(
    schema: &Map<String, Json>,
    refused: impl Fn(&str) -> bool,
) -> Result<(), SchemaFault> {
    let mut keys: Vec<String> = schema.keys().filter(|key| refused(key)).cloned().collect();
    keys.sort_unstable();
    match keys.is_empty() {
        true => Ok(()),
        false => Err(SchemaFault::Keys(keys)),
    }
}

fn read_array(schema: &Map<String, Json>, depth: usize) -> Result<Type, SchemaFault> {
    let items = schema.get("items").ok_or(SchemaFault::NoItems)?;
    if !items.is_object() {
        return Err(SchemaFault::Items);
    }
    let item = read_schema(items, depth + 1).map_err(|fault| in_items(fault, depth))?;
    Ok(Type::List(Box::new(item)))
}

/// Adds the place to an unsupported feature. Below a property, the property is the place; only a top-level
/// array needs to say that its `items` are meant.
fn in_items(fault: SchemaFault, depth: usize) -> SchemaFault {
    match fault {
        SchemaFault::Type(_) | SchemaFault::Keys(_) if depth == 0 => {
            SchemaFault::InItems(Box::new(fault))
        }
        _ => fault,
    }
}

fn read_object(schema: &Map<String, Json>, depth: usize) -> Result<Type, SchemaFault> {
    let closed = match schema.get("additionalProperties") {
        None | Some(Json::Bool(true)) => false,
        Some(Json::Bool(false)) => true,
        Some(other) => return Err(SchemaFault::AdditionalProperties(other.clone())),
    };
    let empty = Map::new();
    let properties = match schema.get("properties") {
        None => None,
        Some(Json::Object(properties)) => Some(properties),
        Some(_) => return Err(SchemaFault::Properties),
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
        let t =
            read_schema(&properties[name], depth + 1).map_err(|fault| SchemaFault::InProperty {
                name: name.clone(),
                fault: Box::new(fault),
            })?;
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
) -> Result<HashSet<&'a str>, SchemaFault> {
    let entries = match required {
        None => return Ok(HashSet::new()),
        Some(Json::Array(entries)) => entries,
        Some(_) => return Err(SchemaFault::Required),
    };
    let mut names = HashSet::with_capacity(entries.len());
    for entry in entries {
        let Json::String(name) = entry else {
            return Err(SchemaFault::RequiredEntry(entry.clone()));
        };
        if !properties.contains_key(name) {
            return Err(SchemaFault::Undeclared(name.clone()));
        }
        names.insert(name.as_str());
    }
    Ok(names)
}
