//! JSON text: strict, validated once and then navigated in place; and how strings and floats of it are written.
//!
//! A [`Json`] is a slice of text that is known to be one JSON value, so looking into it cannot fail and nothing is
//! built until it is asked for. Nesting is bounded by the text alone: every walk is iterative.
//! Knows nothing of JSON-RPC, and of no value type but its own text. Everything that reads or writes JSON stands on it.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Reads `bytes` as exactly one JSON value, surrounded by nothing but JSON white space.
///
/// Refuses what RFC 8259 refuses, and also bad UTF-8, lone surrogates and numbers beyond the range of a double.
///
/// # Errors
/// [`Malformed`] with the offset of the first byte that cannot be read.
pub fn parse(bytes: &[u8]) -> Result<Json<'_>, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|error| Malformed {
        offset: error.valid_up_to(),
    })?;
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        at: 0,
    };
    scanner.skip_space();
    let start = scanner.at;
    scanner.value()?;
    let end = scanner.at;
    scanner.skip_space();
    if scanner.at < scanner.bytes.len() {
        return Err(scanner.malformed());
    }
    Ok(Json {
        text: &text[start..end],
    })
}

/// One JSON value as text, without surrounding white space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a> {
    text: &'a str,
}

/// What kind of value a [`Json`] is. Integers and floats are told apart by how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true`, `false`
    Bool,
    /// A number without fraction and exponent, of any size.
    Integer,
    /// A number with a fraction or an exponent.
    Float,
    String,
    Array,
    Object,
}

/// The text is not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON value: unreadable at byte {offset}")]
pub struct Malformed {
    /// Byte offset of the first byte that cannot be read.
    pub offset: usize,
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl<'a> Json<'a> {
    pub const EMPTY_OBJECT: Json<'static> = Json { text: "{}" };
    pub const NULL: Json<'static> = Json { text: "null" };

    /// The text as it was written.
    pub fn text(self) -> &'a str {
        self.text
    }

    /// The kind of the value.
    pub fn kind(self) -> JsonKind {
        match self.text.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::String,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            _ if self
                .text
                .bytes()
                .any(|byte| matches!(byte, b'.' | b'e' | b'E')) =>
            {
                JsonKind::Float
            }
            _ => JsonKind::Integer,
        }
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The string's content, escapes resolved; `None` for every other kind.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        let inner = &self.text[1..self.text.len() - 1];
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inner));
        }
        Some(Cow::Owned(unescape(inner)))
    }

    /// The boolean; `None` for every other kind.
    pub fn as_bool(self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The integer when it is written as one and fits; `None` otherwise.
    pub fn as_i64(self) -> Option<i64> {
        (self.kind() == JsonKind::Integer)
            .then(|| self.text.parse().ok())
            .flatten()
    }

    /// The first member named `key`; `None` when there is none or this is not an object.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        self.members()
            .find(|(name, _)| name.as_str().is_some_and(|name| name == key))
            .map(|(_, value)| value)
    }

    /// The members in their order, duplicates included; empty for every other kind.
    pub fn members(self) -> Members<'a> {
        Members {
            rest: match self.kind() {
                JsonKind::Object => Scanner::new(&self.text[1..]),
                _ => Scanner::new("}"),
            },
        }
    }

    /// The elements in their order; empty for every other kind.
    pub fn elements(self) -> Elements<'a> {
        Elements {
            rest: match self.kind() {
                JsonKind::Array => Scanner::new(&self.text[1..]),
                _ => Scanner::new("]"),
            },
        }
    }

    /// The same value in compact canonical text: no white space, of duplicate members only the first, shortest
    /// escapes, floats in their shortest form, `-0` as `0`.
    pub fn compact(self) -> String {
        let mut out = Vec::with_capacity(self.text.len());
        compact(self.text, &mut out);
        String::from_utf8(out).expect("pieces of UTF-8 text cut at ASCII bytes are UTF-8")
    }
}

/// Iterator over the members of an object as (name, value); the name is a [`JsonKind::String`].
#[derive(Clone)]
pub struct Members<'a> {
    rest: Scanner<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.next_item(b'}')?;
        self.rest.skip_space();
        self.rest.at += 1;
        self.rest.skip_space();
        let value = self.rest.take_known_value();
        Some((key, value))
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Elements<'a> {
    rest: Scanner<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next_item(b']')
    }
}

/// Appends `text` as a JSON string: quotes, backslashes and control characters escaped, the rest as it is.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for piece in escaped(text) {
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'"');
}

/// The inside of the JSON string that says `text`, piece by piece. No piece is longer than 64 KiB, so that whoever writes them can
/// look at a clock in between.
pub fn escaped(text: &str) -> Escaped<'_> {
    Escaped {
        rest: text,
        controls: &UPPER_CASE,
    }
}

/// The same with the digits of escapes in lower case: what programs get, where frames have capitals.
pub fn escaped_in_lower_case(text: &str) -> Escaped<'_> {
    Escaped {
        rest: text,
        controls: &LOWER_CASE,
    }
}

/// Iterator over the pieces of a JSON string: parts of the text as they are, and escapes.
#[derive(Clone)]
pub struct Escaped<'a> {
    rest: &'a str,
    controls: &'static Controls,
}

/// Most bytes of one piece.
const PIECE_BYTES: usize = 64 * 1024;

impl<'a> Iterator for Escaped<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let most = bytes.len().min(PIECE_BYTES);
        let plain = bytes[..most]
            .iter()
            .position(|&byte| escape(byte, self.controls).is_some());
        let (piece, rest) = match (plain, bytes.first()) {
            (_, None) => return None,
            (Some(0), Some(&byte)) => (escape(byte, self.controls)?, &self.rest[1..]),
            (Some(at), _) => self.rest.split_at(at),
            (None, _) => self.rest.split_at(self.rest.floor_char_boundary(most)),
        };
        self.rest = rest;
        Some(piece)
    }
}

/// How a byte of a JSON string is written, when not as it is.
#[inline]
fn escape(byte: u8, controls: &'static Controls) -> Option<&'static str> {
    match byte {
        b'"' => Some("\\\""),
        b'\\' => Some("\\\\"),
        0..0x20 => Some(controls[usize::from(byte)]),
        _ => None,
    }
}

/// The escapes of all control characters.
type Controls = [&'static str; 0x20];

/// How control characters are written.
const UPPER_CASE: Controls = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b",
    "\\t", "\\n", "\\u000B", "\\f", "\\r", "\\u000E", "\\u000F", "\\u0010", "\\u0011", "\\u0012",
    "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001A",
    "\\u001B", "\\u001C", "\\u001D", "\\u001E", "\\u001F",
];

/// The same with digits as `serde_json` and browsers write them.
const LOWER_CASE: Controls = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b",
    "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012",
    "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a",
    "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

/// Appends a finite double in the shortest text that reads back as the same double, always recognisable as a float.
/// Anything that is not finite becomes `null`.
pub fn write_float(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => {
            out.extend_from_slice(mantissa.as_bytes());
            out.extend_from_slice(b".0e");
            out.extend_from_slice(exponent.as_bytes());
        }
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

#[derive(Clone)]
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Scanner {
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    fn malformed(&self) -> Malformed {
        Malformed { offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek() != Some(byte) {
            return Err(self.malformed());
        }
        self.at += 1;
        Ok(())
    }

    /// One value, from its first byte to the byte after its last.
    fn value(&mut self) -> Result<(), Malformed> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.skip_space();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.skip_space();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(self.malformed()),
            }
            loop {
                let Some(&closing) = open.last() else {
                    return Ok(());
                };
                self.skip_space();
                if self.peek() == Some(closing) {
                    self.at += 1;
                    open.pop();
                    continue;
                }
                self.expect(b',')?;
                self.skip_space();
                if closing == b'}' {
                    self.key()?;
                }
                break;
            }
        }
    }

    fn key(&mut self) -> Result<(), Malformed> {
        self.string()?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Malformed> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.malformed());
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.malformed());
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut float = false;
        if self.peek() == Some(b'.') {
            float = true;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            float = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if float && !float_of(&self.bytes[start..self.at]).is_finite() {
            self.at = start;
            return Err(self.malformed());
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Malformed> {
        self.expect(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                None | Some(0..=0x1F) => return Err(self.malformed()),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                let lone = Malformed { offset: start };
                match self.unit()? {
                    0xD800..=0xDBFF => {
                        if !self.bytes[self.at..].starts_with(b"\\u") {
                            return Err(lone);
                        }
                        self.at += 1;
                        match self.unit()? {
                            0xDC00..=0xDFFF => Ok(()),
                            _ => Err(lone),
                        }
                    }
                    0xDC00..=0xDFFF => Err(lone),
                    _ => Ok(()),
                }
            }
            _ => Err(self.malformed()),
        }
    }

    /// `uXXXX` at the current byte.
    fn unit(&mut self) -> Result<u32, Malformed> {
        self.at += 1;
        let digits = self
            .bytes
            .get(self.at..self.at + 4)
            .ok_or(self.malformed())?;
        let unit = hex(digits).ok_or(self.malformed())?;
        self.at += 4;
        Ok(unit)
    }

    /// The next item of a container whose text is known to be valid; `None` at its closing bracket.
    fn next_item(&mut self, closing: u8) -> Option<Json<'a>> {
        self.skip_space();
        match self.peek() {
            None => return None,
            Some(byte) if byte == closing => return None,
            Some(b',') => {
                self.at += 1;
                self.skip_space();
            }
            Some(_) => {}
        }
        Some(self.take_known_value())
    }

    /// The value at the current byte of text that is known to be valid.
    fn take_known_value(&mut self) -> Json<'a> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.skip_known_string(),
            Some(b'{' | b'[') => {
                let mut depth = 0usize;
                loop {
                    match self.peek() {
                        Some(b'"') => {
                            self.skip_known_string();
                            continue;
                        }
                        Some(b'{' | b'[') => depth += 1,
                        Some(b'}' | b']') => depth = depth.saturating_sub(1),
                        None => break,
                        Some(_) => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                while let Some(byte) = self.peek() {
                    if matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') {
                        break;
                    }
                    self.at += 1;
                }
            }
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at])
            .expect("a value of valid text starts and ends at ASCII bytes");
        Json { text }
    }

    fn skip_known_string(&mut self) {
        self.at += 1;
        while let Some(found) =
            memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..).unwrap_or(&[]))
        {
            self.at += found;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return;
            }
            self.at += 2;
        }
        self.at = self.bytes.len();
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, &digit| {
        char::from(digit)
            .to_digit(16)
            .map(|value| unit * 16 + value)
    })
}

fn float_of(text: &[u8]) -> f64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(f64::NAN)
}

/// Resolves the escapes of the inside of a valid string.
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes()[at + 1];
        let mut length = 2;
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{C}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let high = hex(&rest.as_bytes()[at + 2..at + 6]).unwrap_or(0xFFFD);
                let mut code = high;
                length = 6;
                if (0xD800..0xDC00).contains(&high) {
                    let low = hex(&rest.as_bytes()[at + 8..at + 12]).unwrap_or(0xDC00);
                    code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    length = 12;
                }
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => out.push(char::from(other)),
        }
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// Names already written in one object of compact output, small where there is one: whoever sends the text chooses how
/// many objects nest.
#[derive(Default)]
enum Seen {
    #[default]
    None,
    One(usize, usize),
    Few(Vec<(usize, usize)>),
    #[allow(clippy::box_collection, reason = "an object's names stay small")]
    Many(Box<HashSet<Box<[u8]>>>),
}

impl Seen {
    /// Up to here a linear look is quicker than hashing.
    const FEW: usize = 12;

    /// True when `out[start..]` is a name seen for the first time.
    fn insert(&mut self, out: &[u8], start: usize) -> bool {
        let name = &out[start..];
        let place = (start, out.len());
        match self {
            Seen::None => *self = Seen::One(start, out.len()),
            Seen::One(from, to) if out[*from..*to] == *name => return false,
            Seen::One(from, to) => *self = Seen::Few(vec![(*from, *to), place]),
            Seen::Few(few) if few.iter().any(|&(from, to)| out[from..to] == *name) => return false,
            Seen::Few(few) if few.len() < Self::FEW => few.push(place),
            Seen::Few(few) => {
                let mut many: HashSet<Box<[u8]>> =
                    few.iter().map(|&(from, to)| out[from..to].into()).collect();
                many.insert(name.into());
                *self = Seen::Many(Box::new(many));
            }
            Seen::Many(many) => return many.insert(name.into()),
        }
        true
    }
}

/// The containers that compact output is inside of: a byte for each, and the names of those that are objects.
#[derive(Default)]
struct OpenContainers {
    /// The closing bracket, with the highest bit set while nothing is written inside.
    brackets: Vec<u8>,
    names: Vec<Seen>,
}

impl OpenContainers {
    const EMPTY: u8 = 0x80;

    fn push(&mut self, closing: u8) {
        self.brackets.push(closing | Self::EMPTY);
        if closing == b'}' {
            self.names.push(Seen::default());
        }
    }

    fn pop(&mut self) {
        if self.brackets.pop().map(|closing| closing & !Self::EMPTY) == Some(b'}') {
            self.names.pop();
        }
    }
}

fn compact(text: &str, out: &mut Vec<u8>) {
    let mut scanner = Scanner::new(text);
    let mut open = OpenContainers::default();
    loop {
        match scanner.peek() {
            Some(bracket @ (b'{' | b'[')) => {
                scanner.at += 1;
                out.push(bracket);
                open.push(bracket + 2);
            }
            _ => write_scalar(scanner.take_known_value(), out),
        }
        loop {
            let Some(&top) = open.brackets.last() else {
                return;
            };
            let (closing, empty) = (
                top & !OpenContainers::EMPTY,
                top & OpenContainers::EMPTY != 0,
            );
            scanner.skip_space();
            if scanner.peek() == Some(b',') {
                scanner.at += 1;
                scanner.skip_space();
            }
            if scanner.peek().is_none_or(|byte| byte == closing) {
                scanner.at += 1;
                out.push(closing);
                open.pop();
                continue;
            }
            let before = out.len();
            if !empty {
                out.push(b',');
            }
            if closing == b'}' {
                let start = out.len();
                write_scalar(scanner.take_known_value(), out);
                scanner.skip_space();
                scanner.at += 1;
                scanner.skip_space();
                let known = open
                    .names
                    .last_mut()
                    .is_some_and(|seen| !seen.insert(out, start));
                if known {
                    out.truncate(before);
                    scanner.take_known_value();
                    continue;
                }
                out.push(b':');
            }
            if let Some(top) = open.brackets.last_mut() {
                *top = closing;
            }
            break;
        }
    }
}

fn write_scalar(value: Json<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        JsonKind::String => match value.as_str() {
            Some(Cow::Owned(content)) => write_string(out, &content),
            _ => out.extend_from_slice(value.text.as_bytes()),
        },
        JsonKind::Float => write_float(out, float_of(value.text.as_bytes())),
        _ if value.text == "-0" => out.push(b'0'),
        _ => out.extend_from_slice(value.text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str) -> String {
        match parse(input.as_bytes()) {
            Ok(json) => json.compact(),
            Err(error) => format!("refused at {}", error.offset),
        }
    }

    #[test]
    fn values_come_back_compact() {
        for (input, output) in [
            (
                " { \"a\" : [ 1 , 2.50 , -0 , 1e3 ] , \"b\" : { } } ",
                r#"{"a":[1,2.5,0,1000.0],"b":{}}"#,
            ),
            ("[]", "[]"),
            ("[[],[[]],{}]", "[[],[[]],{}]"),
            (
                r#"{"a":1,"a":2,"\u0061":3,"b":{"c":1,"c":[2]}}"#,
                r#"{"a":1,"b":{"c":1}}"#,
            ),
            (r#""\u00e9\/\ud83d\ude00\u000b""#, "\"é/😀\\u000B\""),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("1e300", "1.0e300"),
            ("null", "null"),
            ("\"\u{7f}\"", "\"\u{7f}\""),
        ] {
            assert_eq!(check(input), output, "{input}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for input in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "'a'",
            "NaN",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e999",
            "{} {}",
            "[1 2]",
            "{\"a\" 1}",
            "{1:2}",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"a\u{1}\"",
            "\u{feff}{}",
            "tru",
            "nulll",
            "]",
            "{]",
            "[}",
            "\"",
            "\"\\",
            "\"\\u12\"",
            "\0",
        ] {
            assert!(
                check(input).starts_with("refused"),
                "{input:?} gave {}",
                check(input)
            );
        }
        assert!(parse(b"\"\xE9\"").is_err());
    }

    #[test]
    fn depth_is_bounded_by_the_text_only() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(check(&deep), deep);
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn many_members_keep_the_first_of_each() {
        let members: Vec<String> = (0..100).map(|n| format!("\"k{}\":{n}", n % 50)).collect();
        let object = format!("{{{}}}", members.join(","));
        let kept: Vec<String> = (0..50).map(|n| format!("\"k{n}\":{n}")).collect();
        assert_eq!(check(&object), format!("{{{}}}", kept.join(",")));
    }

    #[test]
    fn looking_into_values() {
        let json = parse(br#"{"a":{"b":[1,"x\ny",true]},"a":null,"n":9007199254740993}"#).unwrap();
        let list = json.get("a").and_then(|a| a.get("b")).unwrap();
        let parts: Vec<_> = list.elements().collect();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[1].as_str().unwrap(), "x\ny");
        assert_eq!(parts[2].as_bool(), Some(true));
        assert_eq!(json.get("n").unwrap().as_i64(), Some(9_007_199_254_740_993));
        assert_eq!(json.get("zz"), None);
        assert_eq!(list.get("a"), None);
        assert_eq!(json.members().count(), 3);
    }
}
