//! The `output_schema` that makes a server show a value exactly. Knows the schema subset that every
//! server accepts, and nothing else of MCP.
//!
//! The schema asks for as little as it can: whatever it doesn't ask for is judged on `validated`
//! itself. Objects are left open, so that every member comes back.

use crate::json::Json;

/// What a schema of the subset can say of a value.
#[derive(Clone, PartialEq)]
enum Shape {
    /// Nothing is known: the element of an empty array.
    Unknown,
    String,
    Integer,
    /// Integers and floats.
    Number,
    Boolean,
    Object,
    Array(Box<Shape>),
}

/// The schema that an expected value calls for.
///
/// # Errors
/// Why no schema of the subset accepts the value: it is nil, or holds nil or unlike kinds in an
/// array.
pub fn output_schema(expected: &Json) -> Result<Json, String> {
    shape(expected).map(|shape| schema(&shape))
}

fn shape(value: &Json) -> Result<Shape, String> {
    Ok(match value {
        Json::Null => return Err("no output_schema accepts nil here".to_owned()),
        Json::Bool(_) => Shape::Boolean,
        Json::Number(number) if number.is_integer() => Shape::Integer,
        Json::Number(_) => Shape::Number,
        Json::String(_) => Shape::String,
        Json::Object(_) => Shape::Object,
        Json::Array(items) => {
            let element = items
                .iter()
                .try_fold(Shape::Unknown, |known, item| join(known, shape(item)?))?;
            Shape::Array(Box::new(element))
        }
    })
}

fn join(a: Shape, b: Shape) -> Result<Shape, String> {
    match (a, b) {
        (a, b) if a == b => Ok(a),
        (Shape::Unknown, known) | (known, Shape::Unknown) => Ok(known),
        (Shape::Integer, Shape::Number) | (Shape::Number, Shape::Integer) => Ok(Shape::Number),
        (Shape::Array(a), Shape::Array(b)) => Ok(Shape::Array(Box::new(join(*a, *b)?))),
        _ => Err("no output_schema accepts an array of unlike kinds".to_owned()),
    }
}

fn schema(shape: &Shape) -> Json {
    let named = |name: &str| Json::object([("type", Json::from(name))]);
    match shape {
        // An array that is empty accepts any schema of its elements.
        Shape::Unknown | Shape::String => named("string"),
        Shape::Integer => named("integer"),
        Shape::Number => named("number"),
        Shape::Boolean => named("boolean"),
        Shape::Object => named("object"),
        Shape::Array(element) => {
            Json::object([("type", Json::from("array")), ("items", schema(element))])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> String {
        match output_schema(&Json::parse(text).unwrap()) {
            Ok(schema) => format!("{text} -> {schema}"),
            Err(reason) => format!("{text} -> {reason}"),
        }
    }

    #[test]
    fn a_schema_accepts_its_value_and_as_much_else_as_it_can() {
        insta::assert_snapshot!(
            [
                "1", "1.0", "123456789012345678901234567890", "\"x\"", "true", "null", "{\"a\":null,\"b\":[1,\"x\"]}", "[]", "[1,2.5]",
                "[[],[1]]", "[[1],[\"x\"]]", "[1,\"x\"]", "[null]", "[{\"a\":1},{}]", "[[[]]]", "[[1],2]",
            ]
            .map(check)
            .join("\n"),
            @r#"
            1 -> {"type":"integer"}
            1.0 -> {"type":"number"}
            123456789012345678901234567890 -> {"type":"integer"}
            "x" -> {"type":"string"}
            true -> {"type":"boolean"}
            null -> no output_schema accepts nil here
            {"a":null,"b":[1,"x"]} -> {"type":"object"}
            [] -> {"type":"array","items":{"type":"string"}}
            [1,2.5] -> {"type":"array","items":{"type":"number"}}
            [[],[1]] -> {"type":"array","items":{"type":"array","items":{"type":"integer"}}}
            [[1],["x"]] -> no output_schema accepts an array of unlike kinds
            [1,"x"] -> no output_schema accepts an array of unlike kinds
            [null] -> no output_schema accepts nil here
            [{"a":1},{}] -> {"type":"array","items":{"type":"object"}}
            [[[]]] -> {"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}
            [[1],2] -> no output_schema accepts an array of unlike kinds
            "#
        );
    }
}
