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
use serde_json::{Value as Json, json};

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
    if value.shape().depth > DEPTH_MAX {
        return json!({ "$opaque": "deep" });
    }
    match value {
        Value::Nil => Json::Null,
        Value::Bool(bool) => Json::Bool(*bool),
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => match (json_number(value), value) {
            (Some(number), _) => Json::Number(number),
            (None, Value::Float(float)) if float.is_nan() => json!({ "$float": "NaN" }),
            (None, Value::Float(float)) if *float > 0.0 => json!({ "$float": "Infinity" }),
            (None, _) => json!({ "$float": "-Infinity" }),
        },
        Value::Str(text) => text.as_str().into(),
        Value::Keyword(name) => json!({ "$kw": name.as_str() }),
        Value::Symbol(name) => json!({ "$symbol": name.as_str() }),
        Value::Var(name) => json!({ "$var": name.as_str() }),
        Value::Vector(items) => items.iter().map(encode_value).collect(),
        Value::Set(members) => {
            json!({ "$set": members.iter().map(encode_value).collect::<Vec<_>>() })
        }
        Value::Map(map) => encode_map(map),
        Value::Instant(_) => json!({ "$datetime": temporal_text(value) }),
        Value::Date(_) => json!({ "$date": temporal_text(value) }),
        Value::Duration(micros) => json!({ "$duration": micros }),
        Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) => json!({ "$opaque": "function" }),
        Value::Regex(_) => json!({ "$opaque": "regex" }),
    }
}

/// Appends the output of [`encode_value`] as compact JSON text, without building the JSON tree.
pub fn append_encoded(out: &mut Vec<u8>, value: &Value) {
    // Writing into memory does not fail.
    let _ = write_encoded(out, value);
}

/// The number of bytes that [`append_encoded`] appends, without building them.
#[must_use]
pub fn encoded_bytes(value: &Value) -> u64 {
    let mut count = ByteCount(0);
    // Counting cannot fail.
    let _ = write_encoded(&mut count, value);
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

fn write_encoded(out: &mut impl Write, value: &Value) -> io::Result<()> {
    if value.shape().depth > DEPTH_MAX {
        return out.write_all(b"{\"$opaque\":\"deep\"}");
    }
    match value {
        Value::Nil => out.write_all(b"null"),
        Value::Int(int) => write!(out, "{int}"),
        Value::Str(text) => write_text(out, text.as_str()),
        Value::Vector(items) => write_list(out, b"[", items.iter(), b"]"),
        Value::Set(members) => write_list(out, b"{\"$set\":[", members.iter(), b"]}"),
        Value::Map(map) if is_plain(map) => {
            out.write_all(b"{")?;
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.write_all(b",")?;
                }
                write_text(out, key.key_text().map_or("", |text| text.as_str()))?;
                out.write_all(b":")?;
                write_encoded(out, value)?;
            }
            out.write_all(b"}")
        }
        Value::Map(map) => {
            out.write_all(b"{\"$map\":[")?;
            for (i, (key, value)) in map.iter().enumerate() {
                out.write_all(if i > 0 { b",[" } else { b"[" })?;
                write_encoded(out, key)?;
                out.write_all(b",")?;
                write_encoded(out, value)?;
                out.write_all(b"]")?;
            }
            out.write_all(b"]}")
        }
        leaf => write!(out, "{}", encode_value(leaf)),
    }
}

fn write_list<'v>(
    out: &mut impl Write,
    open: &[u8],
    items: impl Iterator<Item = &'v Value>,
    close: &[u8],
) -> io::Result<()> {
    out.write_all(open)?;
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        write_encoded(out, item)?;
    }
    out.write_all(close)
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    for piece in ptc_json::escaped_in_lower_case(text) {
        out.write_all(piece.as_bytes())?;
    }
    out.write_all(b"\"")
}

/// Whether a map can be a plain JSON object: its keys are strings that are not tags.
fn is_plain(map: &Map) -> bool {
    map.keys()
        .all(|key| matches!(key, Value::Str(text) if !text.as_str().starts_with('$')))
}

fn encode_map(map: &Map) -> Json {
    if is_plain(map) {
        let entries = map.iter().filter_map(|(key, value)| {
            Some((key.key_text()?.as_str().to_owned(), encode_value(value)))
        });
        return Json::Object(entries.collect());
    }
    let pairs: Vec<Json> = map
        .iter()
        .map(|(key, value)| json!([encode_value(key), encode_value(value)]))
        .collect();
    json!({ "$map": pairs })
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
