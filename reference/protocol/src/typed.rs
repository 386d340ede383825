//! Converts plain JSON values to the form that a type requires. Only datetimes change.

use ptc_lang::value::{Instant, Map};
use ptc_lang::{Value, parse_instant_with_offset};

use crate::returns::find_field;
use crate::signature::{Prim, Type};

/// Turns ISO-8601 strings with an offset into instants where the type is `:datetime`. Keys stay strings
/// (lookups by keyword find them too), and mismatches are left for validation to report.
#[must_use]
pub fn atomize_value(value: &Value, expected: &Type) -> Value {
    match (expected, value) {
        (Type::Optional(inner), _) => atomize_value(value, inner),
        (Type::Prim(Prim::Datetime), Value::Str(text)) => {
            parse_instant(text.as_str()).map_or_else(|| value.clone(), Value::Instant)
        }
        (Type::List(item), Value::Vector(items)) if changes(item) => Value::vector(
            items
                .iter()
                .map(|value| atomize_value(value, item))
                .collect(),
        ),
        (Type::Map(fields) | Type::ClosedMap(fields), Value::Map(map)) => {
            Value::Map(atomize_fields(map, fields))
        }
        _ => value.clone(),
    }
}

/// Parses a moment with an offset: `2026-05-07T14:00:00.120+02:00`; a space may replace the `T`. Up to six
/// fraction digits are kept, and the offset is applied. Accepts exactly what the language accepts.
#[must_use]
pub fn parse_instant(text: &str) -> Option<Instant> {
    Some(parse_instant_with_offset(text).ok()?.0)
}

/// Whether a value of this type can contain a datetime.
fn changes(t: &Type) -> bool {
    match t {
        Type::Prim(prim) => *prim == Prim::Datetime,
        Type::Optional(inner) | Type::List(inner) => changes(inner),
        Type::Map(fields) | Type::ClosedMap(fields) => fields.iter().any(|(_, t)| changes(t)),
    }
}

fn atomize_fields(map: &Map, fields: &[(String, Type)]) -> Map {
    let mut typed = map.clone();
    for (name, expected) in fields.iter().filter(|(_, expected)| changes(expected)) {
        if let Some((key, value)) = find_field(map, name) {
            typed.insert(key.clone(), atomize_value(value, expected));
        }
    }
    typed
}
