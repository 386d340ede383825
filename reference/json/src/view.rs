//! A view of checked JSON text, navigated in place.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;

use crate::compact::{self, CompactText};
use crate::passes::{self, Pass};
use crate::scan::{
    Container, Quoted, Scalar, Stopped, SyntaxError, Visitor, is_space, plain_escape, scan,
    unicode_escape, visit,
};
use crate::write;

/// Reads `bytes` as exactly one JSON value, surrounded by nothing but JSON white space.
///
/// Refuses what RFC 8259 refuses, and also bad UTF-8, lone surrogates and numbers beyond the range of a double.
///
/// # Errors
/// The offset of the first byte that can't be read.
pub fn parse(bytes: &[u8]) -> Result<Json<'_>, Malformed> {
    parse_while(bytes, always).map_err(Malformed::from)
}

/// [`parse`] while `goes_on` allows it: it is called far more often than once per millisecond.
///
/// # Errors
/// The text is not JSON, or `goes_on` stopped the reading.
pub fn parse_while<E>(
    bytes: &[u8],
    goes_on: impl FnMut() -> Result<(), E>,
) -> Result<Json<'_>, ParseError<E>> {
    let (text, _) = check(bytes, false, goes_on)?;
    Ok(Json {
        text,
        at: 0,
        skips: &[],
    })
}

/// Why a text was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError<E> {
    Malformed(Malformed),
    /// `goes_on` stopped the reading, with this reason.
    Stopped(E),
}

impl From<ParseError<Infallible>> for Malformed {
    fn from(unread: ParseError<Infallible>) -> Malformed {
        match unread {
            ParseError::Malformed(malformed) => malformed,
            ParseError::Stopped(never) => match never {},
        }
    }
}

/// Never stops.
fn always() -> Result<(), Infallible> {
    Ok(())
}

/// [`parse`] for text that is accessed more than once: its large containers are skipped without being read again.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    skips: Vec<Skip>,
}

impl<'t> Document<'t> {
    /// Reads `bytes` as [`parse`] does.
    ///
    /// # Errors
    /// The offset of the first byte that can't be read.
    pub fn read(bytes: &'t [u8]) -> Result<Document<'t>, Malformed> {
        let (text, skips) = check(bytes, true, always)?;
        Ok(Document { text, skips })
    }

    pub fn json(&self) -> Json<'_> {
        Json {
            text: self.text,
            at: 0,
            skips: &self.skips,
        }
    }
}

/// Owned JSON text that was checked.
#[derive(Clone)]
pub struct JsonText {
    text: Cow<'static, str>,
    skips: Vec<Skip>,
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for JsonText {}

impl JsonText {
    /// Checks `text`.
    ///
    /// # Errors
    /// The offset of the first byte that can't be read.
    pub fn read(text: &str) -> Result<JsonText, Malformed> {
        Document::read(text.as_bytes()).map(|document| document.json().to_text())
    }

    /// `{}`.
    pub const EMPTY_OBJECT: JsonText = JsonText {
        text: Cow::Borrowed("{}"),
        skips: Vec::new(),
    };

    /// `null`.
    pub fn null() -> JsonText {
        Json::NULL.to_text()
    }

    /// The JSON string for `text`.
    pub fn string(text: &str) -> JsonText {
        let mut out = Vec::with_capacity(text.len() + 2);
        write::write_string(&mut out, text);
        JsonText::from_parts(out, Vec::new())
    }

    /// JSON written here from checked text.
    fn from_parts(text: Vec<u8>, skips: Vec<Skip>) -> JsonText {
        JsonText {
            text: String::from_utf8(text)
                .expect("pieces of UTF-8 text cut at ASCII bytes are UTF-8")
                .into(),
            skips,
        }
    }

    pub fn json(&self) -> Json<'_> {
        Json {
            text: &self.text,
            at: 0,
            skips: &self.skips,
        }
    }
}

impl Deref for JsonText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl From<JsonText> for String {
    fn from(text: JsonText) -> String {
        text.text.into_owned()
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Begin and end of a large container, relative to the beginning of the checked text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Skip {
    start: usize,
    end: usize,
}

/// Smaller containers are not remembered.
const SKIPPED_BYTES_MIN: usize = 512;
/// Nesting levels at which containers are remembered: together with the minimum size this bounds their number.
const SKIPPED_LEVELS: usize = 5;

/// Large containers, in the order in which they begin.
pub(crate) struct Skips {
    /// The number of levels at which they are remembered.
    levels: usize,
    /// For each level, the index of the open container in `found`.
    slots: [usize; SKIPPED_LEVELS],
    found: Vec<Skip>,
}

impl Skips {
    /// Empty, for text of `bytes` bytes.
    pub(crate) fn of(bytes: usize) -> Skips {
        Skips {
            levels: match bytes {
                ..SKIPPED_BYTES_MIN => 0,
                _ => SKIPPED_LEVELS,
            },
            slots: [0; SKIPPED_LEVELS],
            found: Vec::new(),
        }
    }

    /// A container begins at byte `at`, inside `level` others.
    #[inline]
    pub(crate) fn open(&mut self, level: usize, at: usize) {
        if level < self.levels {
            self.slots[level] = self.found.len();
            self.found.push(Skip { start: at, end: 0 });
        }
    }

    /// The container inside `level` others ended before byte `end`.
    #[inline]
    pub(crate) fn close(&mut self, level: usize, end: usize) {
        if level < self.levels {
            let slot = self.slots[level];
            match end - self.found[slot].start {
                // Containers inside it are smaller and already removed.
                ..SKIPPED_BYTES_MIN => self.found.truncate(slot),
                _ => self.found[slot].end = end,
            }
        }
    }
}

/// Checks `bytes` as one value and, with `skipping`, returns its large containers.
fn check<E>(
    bytes: &[u8],
    skipping: bool,
    goes_on: impl FnMut() -> Result<(), E>,
) -> Result<(&str, Vec<Skip>), ParseError<E>> {
    let malformed = |offset| ParseError::Malformed(Malformed { offset });
    let text = std::str::from_utf8(bytes).map_err(|error| malformed(error.valid_up_to()))?;
    let text = text.trim_matches(|letter| u8::try_from(letter).is_ok_and(is_space));
    let before = text.as_ptr() as usize - bytes.as_ptr() as usize;
    let mut checker = Checker {
        open: Vec::new(),
        skips: Skips::of(if skipping { text.len() } else { 0 }),
        until_look: PARTS_BETWEEN_LOOKS,
        goes_on,
    };
    match scan(text, &mut checker) {
        Ok(()) => Ok((text, checker.skips.found)),
        Err(Stopped { why, offset }) => Err(match why {
            CheckStop::Malformed => malformed(before + offset),
            CheckStop::Stopped(why) => ParseError::Stopped(why),
        }),
    }
}

/// Parts that are checked, or walked, between two calls of `goes_on`.
pub const PARTS_BETWEEN_LOOKS: usize = 1_024;

/// Why a check ended early.
enum CheckStop<E> {
    Malformed,
    Stopped(E),
}

impl<E> From<SyntaxError> for CheckStop<E> {
    fn from(_: SyntaxError) -> Self {
        CheckStop::Malformed
    }
}

/// Tracks the open containers and remembers the large ones.
struct Checker<G> {
    open: Vec<Container>,
    skips: Skips,
    until_look: usize,
    goes_on: G,
}

impl<G> Checker<G> {
    #[inline]
    fn part<E>(&mut self) -> Result<(), CheckStop<E>>
    where
        G: FnMut() -> Result<(), E>,
    {
        self.until_look -= 1;
        if self.until_look > 0 {
            return Ok(());
        }
        self.until_look = PARTS_BETWEEN_LOOKS;
        (self.goes_on)().map_err(CheckStop::Stopped)
    }
}

impl<'t, E, G: FnMut() -> Result<(), E>> Visitor<'t> for Checker<G> {
    type Stop = CheckStop<E>;

    #[inline]
    fn inside(&self) -> Option<Container> {
        self.open.last().copied()
    }

    #[inline]
    fn open(&mut self, container: Container, at: usize) -> Result<(), Self::Stop> {
        self.skips.open(self.open.len(), at);
        self.open.push(container);
        self.part()
    }

    #[inline]
    fn close(&mut self, end: usize) -> Result<(), Self::Stop> {
        self.open.pop();
        self.skips.close(self.open.len(), end);
        self.part()
    }

    #[inline]
    fn name(&mut self, _: Quoted<'t>) -> Result<(), Self::Stop> {
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, scalar: Scalar<'t>) -> Result<(), Self::Stop> {
        match scalar {
            Scalar::Float(text) if !float_of(text).is_finite() => Err(CheckStop::Malformed),
            _ => self.part(),
        }
    }

    #[inline]
    fn piece(&mut self, _: &'t str) -> Result<(), Self::Stop> {
        self.part()
    }

    #[inline]
    fn letter(&mut self, _: char) -> Result<(), Self::Stop> {
        self.part()
    }
}

/// The double nearest to a JSON number.
pub(crate) fn float_of(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// One JSON value as text, without surrounding white space.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    text: &'a str,
    /// Its offset in the text that was checked.
    at: usize,
    skips: &'a [Skip],
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Json<'_> {}

/// The kind of a [`Json`]. Integers and floats are distinguished by how they are written.
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
    /// Offset of the first byte that can't be read.
    pub offset: usize,
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl<'a> Json<'a> {
    pub const EMPTY_OBJECT: Json<'static> = Json::from_static("{}");
    pub const NULL: Json<'static> = Json::from_static("null");

    const fn from_static(text: &'static str) -> Json<'static> {
        Json {
            text,
            at: 0,
            skips: &[],
        }
    }

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

    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The string's content with escapes resolved; `None` for every other kind.
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

    /// Whether this is the string `text`. Every escape is longer than its character, so most strings are decided by their length.
    fn is_text(self, text: &str) -> bool {
        if self.kind() != JsonKind::String {
            return false;
        }
        let inner = &self.text[1..self.text.len() - 1];
        match inner.len().cmp(&text.len()) {
            Ordering::Less => false,
            Ordering::Equal => inner == text && !inner.contains('\\'),
            Ordering::Greater => self.as_str().as_deref() == Some(text),
        }
    }

    /// The boolean; `None` for every other kind.
    pub fn as_bool(self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The integer if it is written as one and fits; `None` otherwise.
    pub fn as_i64(self) -> Option<i64> {
        (self.kind() == JsonKind::Integer)
            .then(|| self.text.parse().ok())
            .flatten()
    }

    /// The first member named `key`; `None` when there is none or this is not an object.
    pub fn get(self, key: &str) -> Option<Json<'a>> {
        self.members()
            .find(|(name, _)| name.is_text(key))
            .map(|(_, value)| value)
    }

    /// The members in order, including duplicates; empty for every other kind.
    pub fn members(self) -> Members<'a> {
        Members {
            rest: match self.kind() {
                JsonKind::Object => Cursor::new(self, 1),
                _ => Cursor::new(Json::from_static("}"), 0),
            },
        }
    }

    /// The elements in order; empty for every other kind.
    pub fn elements(self) -> Elements<'a> {
        Elements {
            rest: match self.kind() {
                JsonKind::Array => Cursor::new(self, 1),
                _ => Cursor::new(Json::from_static("]"), 0),
            },
        }
    }

    /// The same value in compact canonical text: no white space, only the first of duplicate members, shortest escapes, floats in their
    /// shortest form, `-0` as `0`.
    pub fn compact(self) -> JsonText {
        let Ok(text) = self.compact_while(always);
        text
    }

    /// [`Json::compact`] of at most `bytes_max` bytes, which also passes the name of each member, including duplicates, to `name`.
    ///
    /// # Errors
    /// The number of bytes of a longer text; of it no more than `bytes_max` are held, and behind these, members that are repeated count.
    pub fn compact_within(
        self,
        bytes_max: usize,
        name: impl FnMut(&str),
    ) -> Result<JsonText, usize> {
        passes::count(Pass::Copied, self.text.len());
        let mut out = CompactText::of(self, bytes_max);
        let mut skips = Skips::of(self.text.len());
        let Ok(()) = compact::compact(self, &mut out, &mut skips, name, always);
        match out.bytes() {
            bytes if bytes > bytes_max => Err(bytes),
            _ => Ok(JsonText::from_parts(out.kept, skips.found)),
        }
    }

    /// [`Json::compact`] while `goes_on` allows it: it is called far more often than once per millisecond.
    ///
    /// # Errors
    /// The error of `goes_on`.
    pub fn compact_while<E>(self, goes_on: impl FnMut() -> Result<(), E>) -> Result<JsonText, E> {
        passes::count(Pass::Copied, self.text.len());
        let mut out = CompactText::of(self, usize::MAX);
        let mut skips = Skips::of(self.text.len());
        compact::compact(self, &mut out, &mut skips, |_| {}, goes_on)?;
        Ok(JsonText::from_parts(out.kept, skips.found))
    }

    /// The same text, owned.
    pub fn to_text(self) -> JsonText {
        let (start, end) = (self.at, self.at + self.text.len());
        let inside = self.skips.partition_point(|skip| skip.start < start);
        let inside = self.skips[inside..].iter();
        JsonText {
            text: Cow::Owned(self.text.to_owned()),
            skips: inside
                .take_while(|skip| skip.start < end)
                .map(|skip| Skip {
                    start: skip.start - start,
                    end: skip.end - start,
                })
                .collect(),
        }
    }

    /// Reports the value to `visitor`. It is not checked again.
    ///
    /// # Errors
    /// Where the visitor ended the visit.
    pub fn visit<V: Visitor<'a>>(self, visitor: &mut V) -> Result<(), Stopped<V::Stop>> {
        visit(self.text, visitor)
    }
}

/// Iterator over the members of an object as (name, value); the name is a [`JsonKind::String`].
#[derive(Clone)]
pub struct Members<'a> {
    rest: Cursor<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Json<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.next_item(b'}')?;
        self.rest.skip_space();
        self.rest.at += 1;
        self.rest.skip_space();
        let value = self.rest.step_over();
        Some((key, value))
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Elements<'a> {
    rest: Cursor<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next_item(b']')
    }
}

/// A position in checked text.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub(crate) at: usize,
    /// The offset of `text` in the text that was checked.
    base: usize,
    skips: &'a [Skip],
}

impl<'a> Cursor<'a> {
    /// A cursor at byte `at` of the text of `json`.
    pub(crate) fn new(json: Json<'a>, at: usize) -> Self {
        Cursor {
            text: json.text,
            at,
            base: json.at,
            skips: json.skips,
        }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// The next item of a container in checked text; `None` at its closing bracket.
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
        Some(self.step_over())
    }

    /// Takes the value at the current byte of checked text.
    pub(crate) fn take_value(&mut self) -> Json<'a> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => {
                let mut depth = 0usize;
                loop {
                    match self.peek() {
                        Some(b'"') => {
                            self.skip_string();
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
        self.slice_from(start)
    }

    /// Takes the value at the current byte, without reading it if it is a large container.
    fn step_over(&mut self) -> Json<'a> {
        let start = self.at;
        if matches!(self.peek(), Some(b'{' | b'[')) && self.skip_large() {
            return self.slice_from(start);
        }
        let value = self.take_value();
        passes::count(Pass::Walked, value.text.len());
        value
    }

    fn slice_from(&self, start: usize) -> Json<'a> {
        Json {
            text: &self.text[start..self.at],
            at: self.base + start,
            skips: self.skips,
        }
    }

    /// Skips the container at the current byte if it was remembered.
    fn skip_large(&mut self) -> bool {
        let start = self.base + self.at;
        let found = self.skips.binary_search_by_key(&start, |skip| skip.start);
        let Ok(found) = found else { return false };
        self.at = self.skips[found].end - self.base;
        true
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(found) = memchr::memchr2(
            b'"',
            b'\\',
            self.text.as_bytes().get(self.at..).unwrap_or(&[]),
        ) {
            self.at += found;
            if self.text.as_bytes()[self.at] == b'"' {
                self.at += 1;
                return;
            }
            self.at += 2;
        }
        self.at = self.text.len();
    }
}

/// Resolves the escapes in the content of a valid string.
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at..];
        let (letter, length) = match plain_escape(escape[1]) {
            Some(letter) => (letter, 2),
            None => unicode_escape(escape).unwrap_or((char::REPLACEMENT_CHARACTER, 2)),
        };
        out.push(letter);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}
