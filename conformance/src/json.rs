//! JSON exactly as it was written: integers of any size, floats distinct from integers, keys in
//! order, duplicates rejected. Knows nothing of patterns, of fixtures or of the server under test.
//!
//! `serde_json` reads strings and numbers and writes every value. What nests is read here, because judging needs what it doesn't offer:
//! duplicate keys and too many values are errors, nesting may be deeper than its 128 levels but not without end, a mistake has the place
//! and the words that a fixture's author is shown, and a number keeps its token as evidence. `serde_json::Value` would read `1E2` as
//! `1e+2`, take the object `{"$serde_json::private::Number": "1"}` for the number 1, and sort keys; the features against these would
//! change what the reference is built from.
//!
//! Two numbers are equal here when both are integers of the same value, or both are floats with the same bits: `1` is never `1.0`, and
//! `1e2` is `100.0`.

use std::{fmt, io};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Nesting depth of arrays and objects that [`Json::parse`] accepts. A hostile target can nest as deep as
/// it likes; the harness rejects the text instead of overflowing its stack.
pub const DEPTH_MAX: usize = 512;

/// Number of values that [`Json::parse`] accepts in one text. A zero that takes a target two bytes to write takes about 100 bytes here.
pub const VALUES_MAX: usize = 2_000_000;

/// Parses a text of at most [`VALUES_MAX`] values with `serde_json`, for members that are inspected but not compared. Empty arrays and
/// objects are counted as if they had an element.
pub fn parse_loosely(text: &str) -> Option<serde_json::Value> {
    let (mut values, mut quoted, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    let is_bounded = values <= VALUES_MAX;
    is_bounded
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}

/// A JSON value. Equality is by data: the order of object members is ignored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(Number),
    String(String),
    Array(Vec<Json>),
    /// An object, with its members in the order of the text.
    Object(IndexMap<String, Json>),
}

/// A number token of the JSON grammar.
#[derive(Clone, Debug)]
pub struct Number(String);

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {at}")]
pub struct JsonError {
    /// Byte offset into the text.
    pub at: usize,
    /// What was expected, and what was found.
    pub message: String,
}

impl Json {
    /// Parses `text` as exactly one JSON value.
    ///
    /// # Errors
    /// On anything RFC 8259 doesn't allow, on a duplicate key, and beyond [`DEPTH_MAX`] levels or [`VALUES_MAX`] values.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        let mut reader = JsonReader::new(text);
        let value = reader.value(0)?;
        reader.skip_blanks();
        if reader.at < text.len() {
            return Err(reader.error("expected the end of the JSON text"));
        }
        Ok(value)
    }

    /// Parses one JSON value at the start of `text`; also returns the number of bytes consumed.
    ///
    /// # Errors
    /// As [`Json::parse`], except that text may follow the value.
    pub fn parse_prefix(text: &str) -> Result<(Json, usize), JsonError> {
        let mut reader = JsonReader::new(text);
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// The member `key` of an object; `None` for any other value.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.get(key),
            _ => None,
        }
    }

    /// Whether the two are equal for a reader to whom every number is a double, as to JavaScript's.
    pub fn equals_in_doubles(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
            (Json::Array(a), Json::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals_in_doubles(b))
            }
            (Json::Object(a), Json::Object(b)) => {
                let equal =
                    |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| a.equals_in_doubles(b));
                a.len() == b.len() && a.iter().all(equal)
            }
            (a, b) => a == b,
        }
    }

    /// Whether reading it with doubles for numbers, and writing it again as JavaScript does, changes nothing.
    pub fn survives_doubles(&self) -> bool {
        match self {
            Json::Number(number) if number.is_integer() => number
                .as_i64()
                .is_some_and(|value| value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS),
            Json::Number(number) => number.as_f64().fract() != 0.0,
            Json::Array(items) => items.iter().all(Json::survives_doubles),
            Json::Object(members) => members.values().all(Json::survives_doubles),
            Json::Null | Json::Bool(_) | Json::String(_) => true,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of an integer that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&IndexMap<String, Json>> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// An object of the given members, in their order.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// The kind of value, in JSON's words (integers and floats are distinguished).
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(number) if number.is_integer() => "integer",
            Json::Number(_) => "float",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Indented text in which the members of every object are sorted, so that two values can be compared
    /// line by line. Output stops where it reaches `bytes`: deep values have far more indentation than content.
    pub fn pretty(&self, bytes: usize) -> String {
        let mut out = Bounded {
            bytes,
            text: Vec::new(),
        };
        let mut writer = serde_json::Serializer::pretty(&mut out);
        // Fails only once the text is full.
        let _full = Sorted(self).serialize(&mut writer);
        String::from_utf8(out.text).expect("serde_json writes whole characters")
    }
}

/// Compact JSON, members in their order, numbers as they were written.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// A value that is written with the members of its objects in the order of their keys.
struct Sorted<'j>(&'j Json);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Json::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(key, _)| *key);
                serializer.collect_map(members.into_iter().map(|(key, value)| (key, Sorted(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

/// Text that takes nothing more once it has `bytes` bytes.
struct Bounded {
    bytes: usize,
    text: Vec<u8>,
}

impl io::Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.text.len() >= self.bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Number {
    /// A number from a token of the JSON grammar; `None` for any other text.
    pub fn from_token(token: &str) -> Option<Number> {
        match Json::parse(token) {
            Ok(Json::Number(number)) if number.0 == token => Some(number),
            _ => None,
        }
    }

    /// The token, as written.
    pub fn token(&self) -> &str {
        &self.0
    }

    /// Whether the token has neither a fraction nor an exponent.
    pub fn is_integer(&self) -> bool {
        !self.0.contains(['.', 'e', 'E'])
    }

    /// The value, if it is an integer that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        if self.is_integer() {
            self.0.parse().ok()
        } else {
            None
        }
    }

    /// The nearest double; infinite if the token is out of range.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number(value.to_string())
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Number(value.into())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::Array(items)
    }
}

/// By value within a kind: an integer never equals a float, `-0` is `0`, `-0.0` is not `0.0`.
impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        if self.0 == other.0 {
            return true;
        }
        match (self.is_integer(), other.is_integer()) {
            // The grammar has no leading zeros, so zero is the only integer with two spellings.
            (true, true) => is_zero(&self.0) && is_zero(&other.0),
            (false, false) => {
                let (a, b) = (self.as_f64(), other.as_f64());
                a.is_finite() && a.to_bits() == b.to_bits()
            }
            _ => false,
        }
    }
}

fn is_zero(integer: &str) -> bool {
    matches!(integer, "0" | "-0")
}

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
    values: usize,
}

impl<'t> JsonReader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            values: 0,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(self.error(&format!("expected at most {VALUES_MAX} values")));
        }
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Json::Number(Number(self.token()?.to_owned()))),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.error("expected a JSON value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut members = IndexMap::new();
        self.skip_blanks();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in double quotes"));
            }
            let start = self.at;
            let key = self.string()?;
            self.skip_blanks();
            if !self.take(b':') {
                return Err(self.error("expected ':' after the key"));
            }
            let value = self.value(depth + 1)?;
            if members.contains_key(&key) {
                return Err(JsonError {
                    at: start,
                    message: format!("duplicate key {key:?}"),
                });
            }
            members.insert(key, value);
            self.skip_blanks();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("expected ',' or '}' in an object"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.error("expected ',' or ']' in an array"));
            }
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= DEPTH_MAX {
            return Err(self.error("expected at most 512 levels of nesting"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        let token = self.token()?;
        serde_json::from_str(token).map_err(|error| self.leaf_error(start, &error))
    }

    /// The string or number that starts here, as written.
    fn token(&mut self) -> Result<&str, JsonError> {
        let mut reader = serde_json::Deserializer::from_str(&self.text[self.at..]);
        match <&RawValue>::deserialize(&mut reader) {
            Ok(raw) => {
                self.at += raw.get().len();
                Ok(raw.get())
            }
            Err(error) => Err(self.leaf_error(self.at, &error)),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error("expected a JSON value"))
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    fn error(&self, expected: &str) -> JsonError {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("found {c:?}"),
            None => "found the end".to_owned(),
        };
        JsonError {
            at: self.at,
            message: format!("{expected}, {found}"),
        }
    }

    /// What `serde_json` says of the string or number that starts at `start`; neither contains a line break.
    fn leaf_error(&self, start: usize, error: &serde_json::Error) -> JsonError {
        let inside = match error.is_eof() {
            true => 0,
            false => error.column().saturating_sub(1),
        };
        let words = error.to_string();
        JsonError {
            at: start + inside,
            message: words
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Writes the token verbatim, so that no digit is lost. As [`Json::deserialize`], only for `serde_json`, and never inside a type that
/// buffers (`untagged`, `flatten`, internally tagged enums).
impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.clone())
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Json::parse(raw.get()).map_err(D::Error::custom)
    }
}

impl JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "Any JSON value. Integers may exceed 64 bits; 1 and 1.0 are different values."
        })
    }
}

#[cfg(test)]
mod tests;
