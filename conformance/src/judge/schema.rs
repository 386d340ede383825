//! Derives the `output_schema` that makes a server show a value exactly. Knows the schema subset that every
//! server accepts, and nothing else of MCP.
//!
//! The schema requires as little as possible; the rest is judged on `validated` itself.
//! Objects are left open, so that every member is returned.

use crate::edn::Edn;
use crate::json::Json;
use crate::suite::{Outcome, ProgramExpect, Returned};

/// What a schema of the subset can express about a value.
#[derive(Clone, PartialEq)]
enum Shape {
    /// Unknown: the element of an empty array.
    Unknown,
    String,
    Integer,
    Number,
    Boolean,
    Object,
    Array(Box<Shape>),
}

/// Why there is no schema under which a server shows a value exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSchema {
    #[error("an error has no JSON value")]
    Raises,
    #[error("no JSON value is expected")]
    NoValue,
    /// A schema would reject the type that the value has before it becomes JSON.
    #[error("no output_schema calls a keyword or a time what its JSON form is")]
    OtherType,
    #[error("no output_schema accepts nil here")]
    Nil,
    #[error("no output_schema accepts an array of unlike kinds")]
    UnlikeElements,
}

/// The schema under which a server shows the JSON value that a program is expected to return.
///
/// # Errors
/// When there is none.
pub fn output_schema(expect: &ProgramExpect) -> Result<Json, NoSchema> {
    let Outcome::Returns(returned) = &expect.outcome else {
        return Err(NoSchema::Raises);
    };
    let json = returned.json.as_ref().ok_or(NoSchema::NoValue)?;
    let shape = shape(json)?;
    if !has_same_type(returned, json) {
        return Err(NoSchema::OtherType);
    }
    Ok(schema(&shape))
}

/// Whether the value has the same type for a schema as in its JSON form: for a schema neither a keyword nor
/// a date is a string, although both are strings in JSON. The contents of maps are not checked.
fn has_same_type(returned: &Returned, json: &Json) -> bool {
    let letters = returned.text.as_ref().and_then(|text| text.as_plain());
    let printed = match (letters, &returned.data) {
        (Some(letters), _) => Edn::parse(letters).ok(),
        (None, Some(data)) => Edn::parse_expected(data).ok(),
        (None, None) => None,
    };
    // A truncated text can't be parsed, but its first character identifies a keyword.
    let cut_keyword = printed.is_none() && letters.is_some_and(|text| text.starts_with(':'));
    !cut_keyword && !looks_like_time(json) && printed.as_ref().is_none_or(is_plain)
}

fn is_plain(value: &Edn) -> bool {
    match value {
        Edn::Keyword(_) | Edn::Symbol(_) | Edn::Opaque(_) => false,
        Edn::Vector(items) | Edn::List(items) => items.iter().all(is_plain),
        _ => true,
    }
}

/// Whether a string outside of objects looks like ISO 8601, in which dates, instants and durations are printed.
fn looks_like_time(json: &Json) -> bool {
    match json {
        Json::String(text) => {
            let text = text.trim_start_matches(['+', '-']);
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            (digits >= 4 && text[digits..].starts_with('-'))
                || (text.starts_with('P') && text[1..].bytes().all(is_duration_byte))
        }
        Json::Array(items) => items.iter().any(looks_like_time),
        _ => false,
    }
}

fn is_duration_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || b"TYMWDHS.,+-".contains(&byte)
}

fn shape(value: &Json) -> Result<Shape, NoSchema> {
    Ok(match value {
        Json::Null => return Err(NoSchema::Nil),
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

fn join(a: Shape, b: Shape) -> Result<Shape, NoSchema> {
    match (a, b) {
        (a, b) if a == b => Ok(a),
        (Shape::Unknown, known) | (known, Shape::Unknown) => Ok(known),
        (Shape::Integer, Shape::Number) | (Shape::Number, Shape::Integer) => Ok(Shape::Number),
        (Shape::Array(a), Shape::Array(b)) => Ok(Shape::Array(Box::new(join(*a, *b)?))),
        _ => Err(NoSchema::UnlikeElements),
    }
}

fn schema(shape: &Shape) -> Json {
    let named = |name: &str| Json::object([("type", Json::from(name))]);
    match shape {
        // An empty array accepts any schema for its elements.
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
mod tests;
