//! Language values as JSON without loss, for adapters and tests: `{"$kw":"a"}`, `{"$map":[[k,v],…]}`, ….
//!
//! | JSON | value |
//! |---|---|
//! | null, booleans, numbers, strings, arrays | themselves; a number is an integer without `.` and exponent |
//! | object without `$` keys | map with string keys |
//! | `{"$map":[[k,v],…]}` | map with other keys |
//! | `{"$kw":"a"}` `{"$symbol":"a"}` `{"$var":"a"}` | keyword, symbol, var |
//! | `{"$set":[…]}` | set |
//! | `{"$float":"NaN"}` `"Infinity"` `"-Infinity"` | floats that JSON numbers cannot represent |
//! | `{"$datetime":s}` `{"$date":s}` `{"$duration":n}` | instant and date as ISO-8601 text, duration in microseconds |
//! | `{"$time":s}` `{"$naive_datetime":s}` | read as their text: programs have no times of day, and no moments without a zone |
//! | `{"$tuple":[…]}` | read as a vector: programs have no tuples |
//! | `{"$opaque":s}` | a function; also written for any other value without an encoding |

use std::io::{self, Write};

use ptc_lang::Value;
use ptc_lang::json::temporal_text;
use ptc_lang::value::{Map, Set};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::json_value::{json_number, json_to_value};
use crate::typed::parse_instant;

/// A JSON text that encodes no value: which tag is wrong, and what it contains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EncodingError {
    pub message: String,
}

const FLOATS: &[(&str, f64)] = &[
    ("NaN", f64::NAN),
    ("Infinity", f64::INFINITY),
    ("-Infinity", f64::NEG_INFINITY),
];

/// Reads an encoded value. The JSON's depth is bounded by its reader.
///
/// # Errors
/// An unknown tag, or one with invalid content.
pub fn decode_value(encoded: &Json) -> Result<Value, EncodingError> {
    match encoded {
        Json::Array(items) => Ok(Value::vector(decode_all(items)?)),
        Json::Object(object) => match object.iter().next() {
            Some((tag, content)) if tag.starts_with('$') && object.len() == 1 => {
                decode_tagged(tag, content)
            }
            _ => {
                let entries = object
                    .iter()
                    .map(|(key, value)| Ok((Value::str(key.as_str()), decode_value(value)?)));
                Ok(Value::Map(
                    entries.collect::<Result<Vec<_>, EncodingError>>()?.into(),
                ))
            }
        },
        plain => Ok(json_to_value(plain)),
    }
}

/// Maximum nesting depth; deeper values are written as `$opaque`, since no JSON reader would accept them.
const DEPTH_MAX: u32 = 500;

/// Writes a value so that [`decode_value`] reads it back; functions and regexes become `$opaque`, and so do values
/// that nest deeper than 500 levels.
#[must_use]
pub fn encode_value(value: &Value) -> Json {
    // Every value has an encoding.
    serde_json::to_value(Encoded(value)).unwrap_or_default()
}

/// Appends the output of [`encode_value`] as compact JSON text, without building the JSON tree.
pub fn append_encoded(out: &mut Vec<u8>, value: &Value) {
    // Writing into memory does not fail.
    let _ = serde_json::to_writer(out, &Encoded(value));
}

/// The number of bytes that [`append_encoded`] appends, without building them.
#[must_use]
pub fn encoded_bytes(value: &Value) -> u64 {
    let mut count = ByteCount(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, &Encoded(value));
    count.0
}

/// Counts the bytes written.
struct ByteCount(u64);

impl Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value in its encoding.
struct Encoded<'a>(&'a Value);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        if value.shape().depth > DEPTH_MAX {
            return out.collect_map([("$opaque", "deep")]);
        }
        match value {
            Value::Nil => out.serialize_unit(),
            Value::Bool(bool) => out.serialize_bool(*bool),
            Value::Int(int) => out.serialize_i64(*int),
            Value::BigInt(_) | Value::Float(_) => match (json_number(value), value) {
                (Some(number), _) => number.serialize(out),
                (None, Value::Float(float)) if float.is_nan() => {
                    out.collect_map([("$float", "NaN")])
                }
                (None, Value::Float(float)) if *float > 0.0 => {
                    out.collect_map([("$float", "Infinity")])
                }
                (None, _) => out.collect_map([("$float", "-Infinity")]),
            },
            Value::Str(text) => out.serialize_str(text.as_str()),
            Value::Keyword(name) => out.collect_map([("$kw", name.as_str())]),
            Value::Symbol(name) => out.collect_map([("$symbol", name.as_str())]),
            Value::Var(name) => out.collect_map([("$var", name.as_str())]),
            Value::Vector(items) => out.collect_seq(items.iter().map(Encoded)),
            Value::Set(members) => out.collect_map([("$set", EncodedSet(members))]),
            Value::Map(map) if is_plain(map) => {
                let entries = map.iter();
                out.collect_map(
                    entries.filter_map(|(key, value)| {
                        Some((key.key_text()?.as_str(), Encoded(value)))
                    }),
                )
            }
            Value::Map(map) => out.collect_map([("$map", EncodedPairs(map))]),
            Value::Instant(_) => out.collect_map([("$datetime", temporal_text(value))]),
            Value::Date(_) => out.collect_map([("$date", temporal_text(value))]),
            Value::Duration(micros) => out.collect_map([("$duration", micros)]),
            Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) => {
                out.collect_map([("$opaque", "function")])
            }
            Value::Regex(_) => out.collect_map([("$opaque", "regex")]),
        }
    }
}

struct EncodedSet<'a>(&'a Set);

impl Serialize for EncodedSet<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(Encoded))
    }
}

/// The entries of a map as an array of pairs.
struct EncodedPairs<'a>(&'a Map);

impl Serialize for EncodedPairs<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(
            self.0
                .iter()
                .map(|(key, value)| [Encoded(key), Encoded(value)]),
        )
    }
}

/// Whether a map can be a plain JSON object: its keys are strings that are not tags.
fn is_plain(map: &Map) -> bool {
    map.keys()
        .all(|key| matches!(key, Value::Str(text) if !text.as_str().starts_with('$')))
}

fn decode_all(items: &[Json]) -> Result<Vec<Value>, EncodingError> {
    items.iter().map(decode_value).collect()
}

fn decode_tagged(tag: &str, content: &Json) -> Result<Value, EncodingError> {
    let text = content.as_str();
    let decoded = match tag {
        "$kw" => text.map(Value::keyword),
        "$symbol" => text.map(|name| Value::Symbol(name.into())),
        "$var" => text.map(|name| Value::Var(name.into())),
        "$float" => FLOATS
            .iter()
            .find(|(name, _)| Some(*name) == text)
            .map(|(_, float)| Value::Float(*float)),
        "$datetime" => text.and_then(parse_instant).map(Value::Instant),
        "$date" => text.and_then(parse_date),
        "$time" => text
            .filter(|t| t.parse::<jiff::civil::Time>().is_ok())
            .map(Value::str),
        "$naive_datetime" => text
            .filter(|t| t.parse::<jiff::civil::DateTime>().is_ok())
            .map(Value::str),
        "$duration" => content.as_i64().map(Value::Duration),
        "$opaque" => Some(Value::opaque()),
        "$tuple" => match content {
            Json::Array(items) => Some(Value::vector(decode_all(items)?)),
            _ => None,
        },
        "$set" => match content {
            Json::Array(items) => {
                let mut set = Set::new();
                for member in decode_all(items)? {
                    set.insert(member);
                }
                Some(Value::Set(set))
            }
            _ => None,
        },
        "$map" => decode_pairs(content)?,
        _ => None,
    };
    decoded.ok_or_else(|| EncodingError {
        message: format!("`{tag}` does not encode a value: {content}"),
    })
}

fn decode_pairs(content: &Json) -> Result<Option<Value>, EncodingError> {
    let Json::Array(pairs) = content else {
        return Ok(None);
    };
    let mut entries = Vec::with_capacity(pairs.len());
    for pair in pairs {
        match pair.as_array().map(Vec::as_slice) {
            Some([key, value]) => entries.push((decode_value(key)?, decode_value(value)?)),
            _ => return Ok(None),
        }
    }
    Ok(Some(Value::Map(Map::from(entries))))
}

fn parse_date(text: &str) -> Option<Value> {
    let date: jiff::civil::Date = text.parse().ok()?;
    let days = date.since(jiff::civil::date(1970, 1, 1)).ok()?.get_days();
    Some(Value::Date(days))
}
