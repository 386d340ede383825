//! Generates arguments for an unknown JSON Schema: some that it accepts, some that it rejects.
//! Knows JSON Schema; knows nothing of tools or MCP.

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value, json};

/// Maximum nesting depth of generated values.
const DEPTH_MAX: usize = 8;

/// A schema that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{why}{}", dialect_named(.dialect.as_deref()))]
pub struct InvalidSchema {
    why: Box<ValidationError<'static>>,
    /// The dialect that it names.
    dialect: Option<String>,
}

fn dialect_named(dialect: Option<&str>) -> String {
    dialect.map_or_else(String::new, |dialect| format!(" ({dialect})"))
}

/// Compiles a schema without fetching anything over the network.
///
/// # Errors
/// When the schema is not valid.
pub fn compile(schema: &Value) -> Result<Validator, InvalidSchema> {
    jsonschema::options().build(schema).map_err(|why| {
        let dialect = schema.get("$schema").and_then(Value::as_str);
        InvalidSchema {
            why: Box::new(why),
            dialect: dialect.map(str::to_owned),
        }
    })
}

/// Arguments that the schema accepts, with only the required members.
pub fn generate_accepted(schema: &Value, validator: &Validator) -> Option<Value> {
    let made = generate(schema, schema, 0)?;
    validator.is_valid(&made).then_some(made)
}

/// Arguments that the schema rejects: without a required member, or with one of another type.
pub fn generate_rejected(schema: &Value, validator: &Validator, right: &Value) -> Option<Value> {
    let right = right.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let without = names.map(|name| {
        let mut members = right.clone();
        members.remove(name);
        Value::Object(members)
    });
    let properties = schema.get("properties").and_then(Value::as_object);
    let mistyped = properties.into_iter().flatten().flat_map(|(name, _)| {
        // A server may convert between strings and numbers; an object or an array is neither.
        [json!({"unexpected": true}), json!(["unexpected"])].map(|value| {
            let mut members = right.clone();
            members.insert(name.clone(), value);
            Value::Object(members)
        })
    });
    let mut all = without.chain(mistyped);
    all.find(|made| !validator.is_valid(made))
}

/// A value that a schema without references accepts.
pub fn sample(schema: &Value) -> Option<Value> {
    generate(schema, schema, 0)
}

fn generate(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    let schema = match schema {
        Value::Bool(true) => return Some(Value::String("a".to_owned())),
        Value::Object(schema) => schema,
        _ => return None,
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let at = root.pointer(reference.strip_prefix('#')?)?;
        return generate(at, root, depth + 1);
    }
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given).filter(|value| !value.is_null()) {
            return Some(value.clone());
        }
    }
    for list in ["enum", "examples"] {
        if let Some(value) = schema.get(list).and_then(|list| list.get(0)) {
            return Some(value.clone());
        }
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        if let Some(several) = schema.get(list).and_then(Value::as_array)
            && let Some(made) = several
                .iter()
                .find_map(|one| generate(one, root, depth + 1))
        {
            return Some(made);
        }
    }
    match kind(schema) {
        "object" => object(schema, root, depth),
        "array" => array(schema, root, depth),
        "integer" | "number" => Some(number(schema)),
        "boolean" => Some(Value::Bool(false)),
        "null" => Some(Value::Null),
        _ => Some(Value::String(string(schema))),
    }
}

/// The type of value to generate.
fn kind(schema: &Map<String, Value>) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.contains_key("properties") => "object",
        _ if schema.contains_key("items") => "array",
        _ => "string",
    }
}

fn object(schema: &Map<String, Value>, root: &Value, depth: usize) -> Option<Value> {
    let mut members = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let of = schema.get("properties").and_then(|all| all.get(name));
        let made = generate(of.unwrap_or(&Value::Bool(true)), root, depth + 1)?;
        members.insert(name.to_owned(), made);
    }
    Some(Value::Object(members))
}

fn array(schema: &Map<String, Value>, root: &Value, depth: usize) -> Option<Value> {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let items = schema.get("items").unwrap_or(&Value::Bool(true));
    let made = (0..least.min(16)).map(|_| generate(items, root, depth + 1));
    made.collect::<Option<Vec<Value>>>().map(Value::Array)
}

fn number(schema: &Map<String, Value>) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or(bound("exclusiveMaximum").map(|most| most - 1.0));
    let wanted = match (least, most) {
        (Some(least), _) => least.max(1.0),
        (None, Some(most)) => most.min(1.0),
        (None, None) => 1.0,
    };
    let wanted = most.map_or(wanted, |most| wanted.min(most));
    match bound("multipleOf").filter(|step| *step > 0.0) {
        Some(step) => json_number((wanted / step).ceil() * step),
        None => json_number(wanted),
    }
}

fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// Sample strings for the formats of JSON Schema.
const FORMATS: &[(&str, &str)] = &[
    ("date", "2025-01-31"),
    ("date-time", "2025-01-31T12:00:00Z"),
    ("time", "12:00:00Z"),
    ("duration", "PT1S"),
    ("email", "somebody@example.com"),
    ("hostname", "example.com"),
    ("ipv4", "127.0.0.1"),
    ("ipv6", "::1"),
    ("uri", "https://example.com/"),
    ("url", "https://example.com/"),
    ("uri-reference", "a"),
    ("uuid", "00000000-0000-4000-8000-000000000000"),
];

fn string(schema: &Map<String, Value>) -> String {
    let format = schema.get("format").and_then(Value::as_str);
    if let Some((_, text)) = FORMATS.iter().find(|(known, _)| Some(*known) == format) {
        return (*text).to_owned();
    }
    let length = |name: &str| schema.get(name).and_then(Value::as_u64);
    let least = length("minLength").unwrap_or(1).clamp(1, 4096);
    let plain = "a".repeat(usize::try_from(least).unwrap_or(1));
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else {
        return plain;
    };
    // Strings are not generated from a pattern, but one of these may match it.
    let fits = |text: &&str| {
        fancy_regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
    };
    let known = FORMATS.iter().map(|(_, text)| *text);
    let mut candidates = [plain.as_str(), "A", "1", "1.0.0", "/a", "a/b", "a-b"]
        .into_iter()
        .chain(known);
    candidates.find(fits).unwrap_or("a").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str) -> String {
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let Ok(validator) = compile(&schema) else {
            return "no schema".to_owned();
        };
        let Some(made) = generate_accepted(&schema, &validator) else {
            return "nothing".to_owned();
        };
        match generate_rejected(&schema, &validator, &made) {
            Some(wrong) => format!("{made} {wrong}"),
            None => format!("{made} -"),
        }
    }

    #[test]
    fn generated_arguments_are_accepted_or_rejected_as_intended() {
        let rows = [
            (r#"{"type":"object"}"#, "{} -"),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
                r#"{"a":"a"} {}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#,
                r#"{} {"a":{"unexpected":true}}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"integer","minimum":3,"multipleOf":5}},"required":["a"]}"#,
                r#"{"a":5} {}"#,
            ),
            (
                r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],"$defs":{"A":{"type":"array","minItems":2,"items":{"enum":["x","y"]}}}}"##,
                r#"{"a":["x","x"]} {}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]}},"required":["a"]}"#,
                r#"{"a":"2025-01-31"} {}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^\\d+$"}},"required":["a"]}"#,
                r#"{"a":"1"} {}"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^never such a text$"}},"required":["a"]}"#,
                "nothing",
            ),
            (
                r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##,
                "nothing",
            ),
            (r#"{"type":"what"}"#, "no schema"),
        ];
        for (schema, made) in rows {
            assert_eq!(check(schema), made, "{schema}");
        }
    }
}
