//! JSON text to values and back. Knows no files and no protocol.
//!
//! Text becomes values without an intermediate tree. Nothing recurses natively, so depth is bounded only by the size of
//! the text. Both directions have limits in bytes, for text that a program made.

use std::collections::HashMap;
use std::fmt;

use num_bigint::BigInt;
use ptc_json::{Container, Json, Quoted, Scalar, Stopped, Visitor};

use crate::clock;
use crate::error::Limit;
use crate::heap;
use crate::meter::{Unwatched, Watch};
use crate::print;
use crate::sink::{Sink, SinkError};
use crate::value::shape::metered;
use crate::value::{ENTRY_STEPS, Entries, Items, Map, Text, Value, key_cmp, sort_by};

/// Which of several entries with the same key an object keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The last one, as everywhere in programs (`json.parse-string.duplicates`).
    #[default]
    Last,
    /// The first one, as in protocol frames (`mcp.dispatch.ids.first`).
    First,
}

/// Why text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong.
    pub problem: Problem,
    /// Byte offset of the problem. Line numbers are left to callers that show them.
    pub offset: usize,
}

/// What can be wrong with JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The text is not JSON.
    Malformed(ptc_json::SyntaxError),
    /// The program that reads reached a limit.
    Limit(Limit),
    /// An integer with more digits than allowed.
    Integer,
}

impl From<ptc_json::SyntaxError> for Problem {
    fn from(problem: ptc_json::SyntaxError) -> Problem {
        Problem::Malformed(problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ptc_json::SyntaxError as Malformed;
        f.write_str(match self {
            Problem::Malformed(problem) => match problem {
                Malformed::End => "the text ends too early",
                Malformed::Unexpected => "unexpected character",
                Malformed::Trailing => "something follows the value",
                Malformed::Control => "control character in a string, write it as an escape",
                Malformed::Escape => "unknown escape in a string",
                Malformed::Surrogate => "half of a surrogate pair",
                Malformed::Number => "malformed number",
            },
            Problem::Limit(Limit::Memory) => "the values take too much memory",
            Problem::Limit(_) => "there was no time to read it all",
            Problem::Integer => "an integer has more digits than the limit of 78,913",
        })
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.problem, self.offset)
    }
}

impl std::error::Error for JsonError {}

/// Why a value has no JSON form, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathError {
    /// Keys joined by dots, indices in brackets: `rows[0].ts`; `<root>` for the value itself.
    pub path: String,
    /// What is wrong there.
    pub problem: PathProblem,
}

/// The kinds of values that JSON cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// A value of a kind without a JSON form: a set, a function, a var, a regex, a symbol.
    Kind(&'static str),
    /// An infinity or NaN.
    Special,
    /// A map with a key that is neither a string nor a keyword; the path is that of the map.
    Key,
    /// A map that has both a keyword and a string with the same text; the path is that of the map.
    SameKey,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "non-JSON-encodable value at {}", self.path)
    }
}

impl std::error::Error for JsonPathError {}

/// Why the text was not written completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The value has no JSON form.
    Path(JsonPathError),
    /// The text exceeds the allowed length, or the program reached a limit.
    Sink(SinkError),
}

impl From<SinkError> for WriteError {
    fn from(over: SinkError) -> WriteError {
        WriteError::Sink(over)
    }
}

/// The value that JSON `text` represents: objects keep string keys, integers have any size, and a number with a point
/// or an exponent is a float. Of equal keys the last wins.
///
/// Errors: the first place where `text` is not JSON.
pub fn from_str(text: &str) -> Result<Value, JsonError> {
    read(text, Duplicates::Last, &Unwatched)
}

/// [`from_str`] with a choice of which equal key wins, under a program's memory and time limits.
pub fn read(text: &str, duplicates: Duplicates, watch: &dyn Watch) -> Result<Value, JsonError> {
    let mut builder = Builder::new(duplicates, watch);
    let scanned = ptc_json::scan(text, &mut builder);
    builder.finish(scanned)
}

/// [`read`] of text that was validated before and is not validated again.
///
/// # Errors
/// A part that no value can hold, or the limit that ended the work.
pub fn build(
    json: Json<'_>,
    duplicates: Duplicates,
    watch: &dyn Watch,
) -> Result<Value, JsonError> {
    let mut builder = Builder::new(duplicates, watch);
    let visited = json.visit(&mut builder);
    builder.finish(visited)
}

/// The compact JSON text of `value`: object keys sorted, keywords as their names, dates, instants and
/// durations as ISO-8601 text.
///
/// Errors: the first part that JSON cannot represent (`json.generate-string.nil`).
pub fn to_string(value: &Value) -> Result<String, JsonPathError> {
    let mut out = Sink::unbounded();
    match write(&mut out, value) {
        Err(WriteError::Path(error)) => Err(error),
        // Without limits no other error can occur.
        _ => Ok(out.into_text()),
    }
}

/// [`to_string`] for a value of a program: at most `bytes_max` bytes, under the program's memory and time limits.
///
/// # Errors
/// [`WriteError`].
pub fn to_string_within(
    value: &Value,
    bytes_max: usize,
    watch: &dyn Watch,
) -> Result<String, WriteError> {
    let mut out = Sink::new(String::new(), bytes_max, watch);
    write(&mut out, value)?;
    Ok(out.into_text())
}

/// Appends [`to_string`] to `out`.
///
/// # Errors
/// [`WriteError`]; `out` then holds the beginning of the text.
pub fn write(out: &mut Sink<'_>, value: &Value) -> Result<(), WriteError> {
    let mut writer = Writer {
        out,
        open: Vec::new(),
    };
    writer.write(value)
}

/// The ISO 8601 text that represents a date, an instant or a duration in JSON; `None` for any other value.
pub fn temporal_text(value: &Value) -> Option<String> {
    matches!(
        value,
        Value::Date(_) | Value::Instant(_) | Value::Duration(_)
    )
    .then(|| crate::time::text(value))
}

/// Writes `text` as a JSON string, quotes included.
///
/// # Errors
/// Why the string was not written completely.
pub fn write_string(out: &mut Sink<'_>, text: &str) -> Result<(), SinkError> {
    out.push('"')?;
    for piece in ptc_json::escaped_in_lower_case(text) {
        out.push_str(piece)?;
    }
    out.push('"')
}

/// The largest number of digits of an integer. Converting more would take long, so digits are counted first.
pub(crate) const INTEGER_DIGITS_MAX: usize = 78_913;

/// The integer with these `digits`, which may begin with a minus. The cost grows far more slowly than the square of
/// their number.
pub(crate) fn parse_integer(digits: &str) -> Option<BigInt> {
    /// Below this many digits the simple conversion is faster.
    const SIMPLE_DIGITS_MAX: usize = 1_000;
    fn parse_halves(digits: &str) -> Option<BigInt> {
        if digits.len() <= SIMPLE_DIGITS_MAX {
            return digits.parse().ok();
        }
        // A product takes about as many steps as it has digits. When a limit was reached, nobody sees the result.
        clock::may_continue(digits.len());
        let low_digits = digits.len() / 2;
        let (high, low) = digits.split_at_checked(digits.len() - low_digits)?;
        let shift = BigInt::from(10).pow(u32::try_from(low_digits).ok()?);
        Some(parse_halves(high)? * shift + parse_halves(low)?)
    }
    match digits.strip_prefix('-') {
        Some(digits) => parse_halves(digits).map(|integer| -integer),
        None => parse_halves(digits),
    }
}

/// The float nearest to a decimal with any number of digits.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    /// Longer texts are cut to the significant digits, with regular checks of the clock.
    const SHORT_BYTES_MAX: usize = 1_024;
    if text.len() <= SHORT_BYTES_MAX {
        return text.parse().ok();
    }
    shortened(text)?.parse().ok()
}

/// A short decimal that is nearest to the same float as `text`. A midpoint between two floats has at most 767
/// significant digits; of the digits after those it only matters whether all are zero.
fn shortened(text: &str) -> Option<String> {
    const DIGITS_MAX: usize = 800;
    /// Far beyond the exponent of any float.
    const EXPONENT_MAX: i64 = 1 << 40;
    let (sign, unsigned) = match text.as_bytes()[0] {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let mut digits = String::new();
    let (mut scale, mut point, mut any, mut more) = (0i64, false, false, false);
    let mut bytes = metered(unsigned.bytes());
    let mut exponent = 0i64;
    while let Some(byte) = bytes.next() {
        match byte {
            b'0'..=b'9' => {
                any = true;
                let leading = digits.is_empty() && byte == b'0';
                let kept = !leading && digits.len() < DIGITS_MAX;
                if kept {
                    digits.push(char::from(byte));
                } else {
                    more |= byte != b'0';
                }
                match (point, kept || leading) {
                    (true, true) => scale -= 1,
                    (false, false) => scale += 1,
                    _ => {}
                }
            }
            b'.' if !point => point = true,
            b'e' | b'E' => {
                let mut written = bytes.by_ref().peekable();
                let negative = written.peek() == Some(&b'-');
                written.next_if(|byte| matches!(byte, b'-' | b'+'));
                written.peek()?;
                for byte in written {
                    let digit = char::from(byte).to_digit(10)?;
                    exponent = (exponent * 10 + i64::from(digit)).min(EXPONENT_MAX);
                }
                exponent = if negative { -exponent } else { exponent };
            }
            _ => return None,
        }
    }
    let last = if more { "1" } else { "0" };
    any.then(|| format!("{sign}{digits}{last}e{}", scale + exponent - 1))
}

/// Values read between two checks of memory.
const VALUES_BETWEEN_CHECKS: u32 = 256;

/// Builds values from the events of a scanner. The parts of all open collections are stored one after the other.
struct Builder<'t, 'w> {
    duplicates: Duplicates,
    watch: &'w dyn Watch,
    until_check: u32,
    items: Vec<Value>,
    entries: Vec<(Value, Value)>,
    open: Vec<OpenContainer>,
    keys: Keys<'t>,
    /// A string with escapes, decoded so far.
    spelled: String,
    result: Value,
}

/// A collection that is still open, with the index of its first part.
#[derive(Clone, Copy)]
enum OpenContainer {
    Array(usize),
    Object(usize),
}

impl<'t, 'w> Builder<'t, 'w> {
    fn new(duplicates: Duplicates, watch: &'w dyn Watch) -> Self {
        Builder {
            duplicates,
            watch,
            until_check: VALUES_BETWEEN_CHECKS,
            items: Vec::new(),
            entries: Vec::new(),
            open: Vec::new(),
            keys: Keys::default(),
            spelled: String::new(),
            result: Value::Nil,
        }
    }

    /// The value that was built from the scanned text.
    fn finish(self, scanned: Result<(), Stopped<Problem>>) -> Result<Value, JsonError> {
        match scanned {
            Ok(()) => Ok(self.result),
            Err(Stopped { why, offset }) => Err(JsonError {
                problem: why,
                offset,
            }),
        }
    }

    /// Adds a value to the innermost open collection, or makes it the result.
    #[inline]
    fn add_value(&mut self, value: Value) -> Result<(), Problem> {
        match self.open.last() {
            Some(OpenContainer::Array(_)) => {
                if self.items.len() == self.items.capacity() {
                    reserve_items::<Value>(self.items.len())?;
                }
                self.items.push(value);
            }
            Some(OpenContainer::Object(_)) => {
                if let Some(entry) = self.entries.last_mut() {
                    entry.1 = value;
                }
            }
            None => self.result = value,
        }
        Ok(())
    }

    fn object(&mut self, start: usize) -> Result<Value, Problem> {
        reserve_items::<(Value, Value)>(2 * (self.entries.len() - start))?;
        let mut entries: Vec<_> = self.entries.drain(start..).collect();
        if self.duplicates == Duplicates::First {
            sort_by(&mut entries, |(key, _)| key, key_cmp);
            entries.dedup_by(|later, earlier| {
                clock::may_continue(ENTRY_STEPS);
                later.0 == earlier.0
            });
        }
        Ok(Value::Map(Map::from(entries)))
    }

    fn string(&mut self, text: Quoted<'t>) -> Result<Text, Problem> {
        Ok(match text {
            Quoted::Plain(text) => {
                reserve_items::<u8>(text.len())?;
                Text::from(text)
            }
            Quoted::Spelled => Text::from(std::mem::take(&mut self.spelled)),
        })
    }

    /// Checks memory and the clock at regular intervals.
    #[inline]
    fn check_limits(&mut self) -> Result<(), Problem> {
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = VALUES_BETWEEN_CHECKS;
            self.watch.check_limits().map_err(Problem::Limit)?;
        }
        Ok(())
    }
}

impl<'t> Visitor<'t> for Builder<'t, '_> {
    type Stop = Problem;

    #[inline]
    fn inside(&self) -> Option<Container> {
        self.open.last().map(|open| match open {
            OpenContainer::Array(_) => Container::Array,
            OpenContainer::Object(_) => Container::Object,
        })
    }

    /// Depth takes memory just as parts do.
    fn open(&mut self, container: Container, _: usize) -> Result<(), Problem> {
        if self.open.len() == self.open.capacity() {
            reserve_items::<OpenContainer>(self.open.len())?;
        }
        self.open.push(match container {
            Container::Array => OpenContainer::Array(self.items.len()),
            Container::Object => OpenContainer::Object(self.entries.len()),
        });
        self.check_limits()
    }

    fn close(&mut self, _: usize) -> Result<(), Problem> {
        let value = match self.open.last().copied() {
            Some(OpenContainer::Array(start)) => {
                reserve_items::<Value>(self.items.len() - start)?;
                Value::vector(self.items.drain(start..).collect())
            }
            Some(OpenContainer::Object(start)) => self.object(start)?,
            None => return Ok(()),
        };
        self.open.pop();
        // Nested containers may close one directly after the other.
        self.check_limits()?;
        self.add_value(value)
    }

    /// Adds an entry with this key; its value is filled in later.
    #[inline]
    fn name(&mut self, name: Quoted<'t>) -> Result<(), Problem> {
        let key = match (name, self.open.last()) {
            (Quoted::Plain(name), Some(OpenContainer::Object(start))) => {
                self.keys.text(name, self.entries.len() - start)
            }
            _ => self.string(name)?,
        };
        if self.entries.len() == self.entries.capacity() {
            reserve_items::<(Value, Value)>(self.entries.len())?;
        }
        self.entries.push((Value::Str(key), Value::Nil));
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, scalar: Scalar<'t>) -> Result<(), Problem> {
        let value = match scalar {
            Scalar::Null => Value::Nil,
            Scalar::Bool(bool) => Value::Bool(bool),
            Scalar::Integer(text) => integer(text)?,
            Scalar::Float(text) => match parse_float(text) {
                Some(float) if float.is_finite() => Value::Float(float),
                _ => return Err(ptc_json::SyntaxError::Number.into()),
            },
            Scalar::String(text) => Value::Str(self.string(text)?),
            Scalar::Empty(Container::Array) => Value::vector(Vec::new()),
            Scalar::Empty(Container::Object) => Value::Map(Map::new()),
        };
        self.check_limits()?;
        self.add_value(value)
    }

    fn piece(&mut self, piece: &'t str) -> Result<(), Problem> {
        if piece.len() > self.spelled.capacity() - self.spelled.len() {
            reserve_items::<u8>(piece.len().max(self.spelled.len()))?;
        }
        clock::may_continue(1);
        self.spelled.push_str(piece);
        Ok(())
    }

    fn letter(&mut self, letter: char) -> Result<(), Problem> {
        if letter.len_utf8() > self.spelled.capacity() - self.spelled.len() {
            reserve_items::<u8>(self.spelled.len())?;
        }
        clock::may_continue(1);
        self.spelled.push(letter);
        Ok(())
    }

    fn passed(&mut self, bytes: usize) {
        clock::may_continue(bytes);
    }
}

/// The integer with the JSON text `text`.
#[inline]
fn integer(text: &str) -> Result<Value, Problem> {
    /// The number of digits that always fit in 64 bits.
    const SMALL_DIGITS_MAX: usize = 18;
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.len() <= SMALL_DIGITS_MAX {
        let size = digits
            .bytes()
            .fold(0, |size, digit| size * 10 + i64::from(digit - b'0'));
        let negative = digits.len() < text.len();
        return Ok(Value::Int(if negative { -size } else { size }));
    }
    if digits.len() > INTEGER_DIGITS_MAX {
        return Err(Problem::Integer);
    }
    parse_integer(text)
        .map(Value::integer)
        .ok_or(ptc_json::SyntaxError::Number.into())
}

/// Reserves memory for a copy of a collection of `parts`.
#[inline]
fn reserve_items<T>(parts: usize) -> Result<(), Problem> {
    /// The next check catches smaller amounts.
    const LARGE_BYTES: usize = 4_096;
    let bytes = parts.saturating_mul(size_of::<T>());
    if bytes > LARGE_BYTES && !heap::reserve(bytes) {
        return Err(Problem::Limit(Limit::Memory));
    }
    Ok(())
}

/// Keys seen so far, so that records share the text of their keys.
#[derive(Default)]
struct Keys<'t> {
    /// The last key seen at each position of an object: successive records tend to have the same key there.
    last: Vec<Text>,
    all: HashMap<&'t str, Text, foldhash::fast::RandomState>,
}

impl<'t> Keys<'t> {
    /// The largest number of positions that are remembered.
    const POSITIONS_MAX: usize = 64;
    /// The largest number of keys that are remembered.
    const KEYS_MAX: usize = 1_024;
    /// The size in bytes of the longest key that is remembered.
    const KEY_BYTES_MAX: usize = 128;

    #[inline]
    fn text(&mut self, key: &'t str, position: usize) -> Text {
        match self.last.get(position) {
            Some(last) if last.as_str() == key => last.clone(),
            _ => self.intern(key, position),
        }
    }

    fn intern(&mut self, key: &'t str, position: usize) -> Text {
        if key.len() > Self::KEY_BYTES_MAX {
            return Text::from(key);
        }
        let text = match self.all.get(key) {
            Some(text) => text.clone(),
            None => {
                let text = Text::from(key);
                if self.all.len() < Self::KEYS_MAX {
                    self.all.insert(key, text.clone());
                }
                text
            }
        };
        if position < self.last.len() {
            self.last[position] = text.clone();
        } else if position == self.last.len() && position < Self::POSITIONS_MAX {
            self.last.push(text.clone());
        }
        text
    }
}

/// A writer with an explicit stack.
struct Writer<'a, 'o, 'w> {
    out: &'o mut Sink<'w>,
    open: Vec<Part<'a>>,
}

/// A collection that is being written, with the writer's position in it.
enum Part<'a> {
    Array {
        items: Items<'a>,
        index: usize,
    },
    Object {
        entries: SortedEntries<'a>,
        key: &'a str,
        first: bool,
    },
}

/// The entries of a map in the order of their keys as text.
enum SortedEntries<'a> {
    InOrder(Entries<'a>),
    Sorted(std::vec::IntoIter<(&'a str, &'a Value)>),
}

impl<'a> Iterator for SortedEntries<'a> {
    type Item = (&'a str, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            SortedEntries::InOrder(entries) => {
                let (key, value) = entries.next()?;
                Some((key.key_text()?.as_str(), value))
            }
            SortedEntries::Sorted(entries) => entries.next(),
        }
    }
}

impl<'a> Writer<'a, '_, '_> {
    fn write(&mut self, value: &'a Value) -> Result<(), WriteError> {
        let mut next = Some(value);
        loop {
            if let Some(value) = next {
                self.begin(value)?;
            }
            next = match self.open.last_mut() {
                None => return Ok(()),
                Some(Part::Array { items, index }) => match items.next() {
                    Some(item) => {
                        if *index != usize::MAX {
                            self.out.push(',')?;
                        }
                        *index = index.wrapping_add(1);
                        Some(item)
                    }
                    None => {
                        self.out.push(']')?;
                        self.open.pop();
                        None
                    }
                },
                Some(Part::Object {
                    entries,
                    key,
                    first,
                }) => match entries.next() {
                    Some((name, value)) => {
                        if !std::mem::take(first) {
                            self.out.push(',')?;
                        }
                        *key = name;
                        write_string(self.out, name)?;
                        self.out.push(':')?;
                        Some(value)
                    }
                    None => {
                        self.out.push('}')?;
                        self.open.pop();
                        None
                    }
                },
            };
        }
    }

    /// Writes a value without parts, or opens a collection.
    fn begin(&mut self, value: &'a Value) -> Result<(), WriteError> {
        let out = &mut *self.out;
        match value {
            Value::Nil => out.push_str("null")?,
            Value::Bool(true) => out.push_str("true")?,
            Value::Bool(false) => out.push_str("false")?,
            Value::Int(integer) => write!(out, "{integer}")?,
            Value::BigInt(integer) => out.push_integer(integer)?,
            Value::Float(float) if float.is_finite() => out.push_str(&print::float(*float))?,
            Value::Float(_) => return Err(self.path_error(PathProblem::Special)),
            Value::Str(text) | Value::Keyword(text) => write_string(out, text)?,
            Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
                write_string(out, &crate::time::text(value))?;
            }
            Value::Vector(items) => {
                out.push('[')?;
                // The index is that of the current item; `usize::MAX` before the first.
                self.open.push(Part::Array {
                    items: items.iter(),
                    index: usize::MAX,
                });
            }
            Value::Map(map) => {
                let entries = self.sorted_entries(map)?;
                self.out.push('{')?;
                self.open.push(Part::Object {
                    entries,
                    key: "",
                    first: true,
                });
            }
            Value::Symbol(_)
            | Value::Set(_)
            | Value::Fn(_)
            | Value::Builtin(_)
            | Value::Combined(_)
            | Value::Var(_)
            | Value::Regex(_) => {
                return Err(self.path_error(PathProblem::Kind(value.kind().word())));
            }
        }
        Ok(())
    }

    fn sorted_entries(&mut self, map: &'a Map) -> Result<SortedEntries<'a>, WriteError> {
        self.out.charge_steps(1 + map.len())?;
        let (mut keywords, mut strings) = (false, false);
        for key in map.keys() {
            match key {
                Value::Keyword(_) => keywords = true,
                Value::Str(_) => strings = true,
                _ => return Err(self.path_error(PathProblem::Key)),
            }
        }
        if !(keywords && strings) {
            return Ok(SortedEntries::InOrder(map.iter()));
        }
        if !heap::reserve(map.len().saturating_mul(size_of::<(&str, &Value)>())) {
            return Err(SinkError::Limit(Limit::Memory).into());
        }
        let mut entries: Vec<_> = map
            .iter()
            .filter_map(|(key, value)| Some((key.key_text()?.as_str(), value)))
            .collect();
        entries.sort_by_key(|(key, _)| *key);
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(self.path_error(PathProblem::SameKey));
        }
        Ok(SortedEntries::Sorted(entries.into_iter()))
    }

    #[cold]
    fn path_error(&self, problem: PathProblem) -> WriteError {
        use fmt::Write as _;
        let mut path = String::new();
        for part in &self.open {
            match part {
                Part::Array { index, .. } => {
                    let _ = write!(path, "[{index}]");
                }
                Part::Object { key, .. } => {
                    if !path.is_empty() && !key.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
            }
        }
        if path.is_empty() {
            path.push_str("<root>");
        }
        WriteError::Path(JsonPathError { path, problem })
    }
}

#[cfg(test)]
mod tests;
