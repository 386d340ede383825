//! Text of values: readable, plain, and truncated previews. Knows nothing of who reads it.
//!
//! Nothing here recurses natively, and omitted parts are never built: a preview of a huge value costs only as much as
//! it shows.

use unicode_segmentation::UnicodeSegmentation;

use crate::error::Limit;
use crate::meter::{Unwatched, Watch};
use crate::sink::{Sink, SinkError};
use crate::value::text::free_text;
use crate::value::{Entries, Items, Members, Value, text};

/// The number of items of each collection that a preview shows.
pub const PREVIEW_ITEMS: usize = 50;
/// The number of graphemes that the preview in an ordinary response shows.
pub const PREVIEW_GRAPHEMES: usize = 250;

/// The whole value as the reader would read it.
pub fn readable(value: &Value) -> String {
    unbounded(|out| write_readable(out, value))
}

/// The text that `str` returns for a value: strings unquoted, nil as the empty string.
pub fn text(value: &Value) -> String {
    unbounded(|out| write_text(out, value))
}

/// The text that `println` prints for a value: strings unquoted, nil as `nil`.
pub fn display(value: &Value) -> String {
    unbounded(|out| write_display(out, value))
}

fn unbounded(write: impl FnOnce(&mut Sink<'static>) -> Result<(), SinkError>) -> String {
    let mut out = Sink::unbounded();
    // Without a limit nothing is left out.
    let _ = write(&mut out);
    out.into_text()
}

/// Appends [`readable`] to `out`.
///
/// # Errors
/// Why the text is incomplete; `out` holds what there was room for.
pub fn write_readable(out: &mut Sink<'_>, value: &Value) -> Result<(), SinkError> {
    Printer::new(out, usize::MAX).print(value)
}

/// Appends [`text`] to `out`.
///
/// # Errors
/// As [`write_readable`].
pub fn write_text(out: &mut Sink<'_>, value: &Value) -> Result<(), SinkError> {
    match value {
        Value::Nil => Ok(()),
        Value::Float(float) if float.is_nan() => out.push_str("NaN"),
        Value::Float(f64::INFINITY) => out.push_str("Infinity"),
        Value::Float(f64::NEG_INFINITY) => out.push_str("-Infinity"),
        _ => write_display(out, value),
    }
}

/// Appends [`display`] to `out`.
///
/// # Errors
/// As [`write_readable`].
pub fn write_display(out: &mut Sink<'_>, value: &Value) -> Result<(), SinkError> {
    match value {
        Value::Str(text) => out.push_str(text),
        Value::Date(_) | Value::Instant(_) => out.push_str(&crate::time::text(value)),
        Value::Regex(regex) => out.push_str(regex.source()),
        _ => write_readable(out, value),
    }
}

/// A printed line, truncated to `graphemes` graphemes with a note of the original count.
pub fn line(text: String, graphemes: usize) -> String {
    // A grapheme has at least one byte.
    if text.len() <= graphemes {
        return text;
    }
    let mut ends = text::graphemes(&text).scan(0, |end, grapheme| {
        *end += grapheme.len();
        Some(*end)
    });
    let cut = match graphemes.checked_sub(1) {
        None => Some(0),
        Some(before) => ends.nth(before),
    };
    let noted = cut.filter(|end| *end < text.len()).map(|end| {
        let total = graphemes + ends.count();
        format!("{}... ({graphemes}/{total} chars)", &text[..end])
    });
    match noted {
        Some(noted) => {
            free_text(text);
            noted
        }
        None => text,
    }
}

/// The text of a value with at most `items` items of each collection, truncated to `bytes_max` bytes.
pub(crate) fn bounded(value: &Value, items: usize, bytes_max: usize) -> String {
    let mut sink = Sink::new(String::new(), bytes_max, &Unwatched);
    // Text over the limit is left out.
    let _ = Printer::new(&mut sink, items).print(value);
    sink.into_text()
}

/// Appends the text of a value with at most `items` items of each collection.
///
/// # Errors
/// As [`write_readable`].
pub fn write_preview(out: &mut Sink<'_>, value: &Value, items: usize) -> Result<(), SinkError> {
    Printer::new(out, items).print(value)
}

/// The text of a value with at most `items` items of each collection, truncated to `graphemes` graphemes; both
/// omissions are marked.
pub fn preview(value: &Value, items: usize, graphemes: usize) -> String {
    // Without a watch, only the limit in bytes can stop it.
    preview_within(value, items, graphemes, &Unwatched).unwrap_or_default()
}

/// [`preview`] of a value of a program, under the program's memory and time limits.
///
/// # Errors
/// The limit that ends the program.
pub fn preview_within(
    value: &Value,
    items: usize,
    graphemes: usize,
    watch: &dyn Watch,
) -> Result<String, Limit> {
    // A grapheme has no limit in bytes, but text this long is either longer than what is shown or not worth showing.
    let bytes_max = graphemes
        .saturating_mul(64)
        .saturating_add(4096)
        .min(graphemes.saturating_mul(4).saturating_add(1 << 20));
    let mut sink = Sink::new(String::new(), bytes_max, watch);
    match Printer::new(&mut sink, items).print(value) {
        // Whatever exceeds the limit in bytes exceeds the limit in graphemes too.
        Ok(()) | Err(SinkError::Bytes) => {}
        Err(SinkError::Limit(limit)) => return Err(limit),
    }
    let out = sink.into_text();
    Ok(match out.grapheme_indices(true).nth(graphemes) {
        Some((end, _)) => format!(
            "{} ... (truncated at {graphemes} chars; use println on specific fields)",
            &out[..end]
        ),
        None => out,
    })
}

/// Prints with an explicit stack.
struct Printer<'o, 'w> {
    out: &'o mut Sink<'w>,
    items_max: usize,
}

/// A collection that is being printed.
struct OpenCollection<'a> {
    parts: Parts<'a>,
    total: usize,
    shown: usize,
    close: &'static str,
}

enum Parts<'a> {
    Items(Items<'a>),
    Members(Members<'a>),
    Entries(Entries<'a>),
    /// The value of an entry whose key was just printed, and the entries after it.
    Value(&'a Value, Entries<'a>),
}

impl<'o, 'w> Printer<'o, 'w> {
    fn new(out: &'o mut Sink<'w>, items_max: usize) -> Printer<'o, 'w> {
        Printer { out, items_max }
    }

    fn print(&mut self, value: &Value) -> Result<(), SinkError> {
        let mut open: Vec<OpenCollection<'_>> = Vec::new();
        let mut next = Some(value);
        loop {
            if let Some(value) = next
                && let Some(opened) = self.begin(value)?
            {
                open.push(opened);
            }
            let Some(top) = open.last_mut() else {
                return Ok(());
            };
            next = self.advance(top)?;
            if next.is_none() {
                let OpenCollection { close, total, .. } = *top;
                open.pop();
                self.out.push_str(close)?;
                if total > self.items_max {
                    write!(self.out, " ({}/{total})", self.items_max)?;
                }
            }
        }
    }

    /// The next part of a collection; `None` at its end.
    fn advance<'a>(
        &mut self,
        open: &mut OpenCollection<'a>,
    ) -> Result<Option<&'a Value>, SinkError> {
        if let Parts::Value(value, _) = open.parts {
            self.out.push(' ')?;
            let Parts::Value(_, entries) =
                std::mem::replace(&mut open.parts, Parts::Items([].iter().into()))
            else {
                return Ok(None);
            };
            open.parts = Parts::Entries(entries);
            return Ok(Some(value));
        }
        if open.shown == self.items_max && open.total > self.items_max {
            self.out.push_str(" ...")?;
            return Ok(None);
        }
        let part = match &mut open.parts {
            Parts::Items(items) => items.next(),
            Parts::Members(members) => members.next(),
            Parts::Entries(entries) => match entries.next() {
                Some((key, value)) => {
                    let Parts::Entries(entries) =
                        std::mem::replace(&mut open.parts, Parts::Items([].iter().into()))
                    else {
                        return Ok(None);
                    };
                    open.parts = Parts::Value(value, entries);
                    Some(key)
                }
                None => None,
            },
            Parts::Value(..) => None,
        };
        if part.is_some() {
            if open.shown > 0 {
                self.out.push(' ')?;
            }
            open.shown += 1;
        }
        Ok(part)
    }

    /// Prints a value without parts, or opens a collection.
    fn begin<'a>(&mut self, value: &'a Value) -> Result<Option<OpenCollection<'a>>, SinkError> {
        let (start, parts, total, close) = match value {
            Value::Vector(items) => ("[", Parts::Items(items.iter()), items.len(), "]"),
            Value::Set(members) => ("#{", Parts::Members(members.iter()), members.len(), "}"),
            Value::Map(entries) => ("{", Parts::Entries(entries.iter()), entries.len(), "}"),
            _ => {
                return self.leaf(value).map(|()| None);
            }
        };
        self.out.push_str(start)?;
        Ok(Some(OpenCollection {
            parts,
            total,
            shown: 0,
            close,
        }))
    }

    fn leaf(&mut self, value: &Value) -> Result<(), SinkError> {
        let out = &mut *self.out;
        match value {
            Value::Nil => out.push_str("nil"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Int(value) => write!(out, "{value}"),
            Value::BigInt(value) => out.push_integer(value),
            Value::Float(value) => out.push_str(&float(*value)),
            Value::Str(text) => quoted(out, text),
            Value::Keyword(name) => {
                out.push(':')?;
                out.push_str(name)
            }
            Value::Symbol(name) => out.push_str(name),
            Value::Fn(closure) => match &closure.lambda.name {
                Some(name) => write!(out, "#fn[{}]", name.as_str()),
                None => out.push_str("#fn[anonymous]"),
            },
            Value::Builtin(builtin) => write!(out, "#fn[{}]", builtin.name),
            Value::Combined(combined) => match (combined.kind, combined.parts.first()) {
                (crate::function::Combinator::Sequence, _) => write!(out, "[…]"),
                (crate::function::Combinator::Tool, Some(Value::Str(name))) => {
                    write!(out, "#fn[tool/{}]", name.as_str())
                }
                _ => out.push_str("#fn[anonymous]"),
            },
            Value::Var(name) => write!(out, "#'{}", name.as_str()),
            Value::Regex(regex) => write!(out, "#\"{}\"", regex.source()),
            Value::Date(_) | Value::Instant(_) => {
                write!(out, "\"{}\"", crate::time::text(value))
            }
            Value::Duration(micros) => write!(out, "#duration[{}ms]", micros / 1_000),
            Value::Vector(_) | Value::Map(_) | Value::Set(_) => Ok(()),
        }
    }
}

/// Writes a string literal that the reader reads back.
fn quoted(out: &mut Sink<'_>, text: &str) -> Result<(), SinkError> {
    /// The number of bytes that are scanned before they are written; a lack of room is noticed only then.
    const SLICE_BYTES: usize = 4096;
    out.push('"')?;
    let bytes = text.as_bytes();
    let (mut clean, mut at) = (0, 0);
    let mut look = SLICE_BYTES;
    while at < bytes.len() {
        if at >= look {
            let end = text.floor_char_boundary(at);
            out.push_str(&text[clean..end])?;
            clean = end;
            look = at + SLICE_BYTES;
        }
        // Most bytes need no escape.
        let chunk = bytes[at..].first_chunk::<CHUNK_BYTES>();
        if chunk.is_some_and(|chunk| {
            !chunk
                .iter()
                .fold(false, |any, byte| any | may_escape(*byte))
        }) {
            at += CHUNK_BYTES;
            continue;
        }
        let byte = bytes[at];
        at += 1;
        let (short, width) = match byte {
            b'"' => ("\\\"", 1),
            b'\\' => ("\\\\", 1),
            b'\n' => ("\\n", 1),
            b'\t' => ("\\t", 1),
            b'\r' => ("\\r", 1),
            0x08 => ("\\b", 1),
            0x0c => ("\\f", 1),
            0..0x20 | 0x7f => ("", 1),
            // The control characters from U+0080 to U+009F.
            0xc2 if bytes[at] < 0xa0 => ("", 2),
            _ => continue,
        };
        out.push_str(&text[clean..at - 1])?;
        clean = at - 1 + width;
        at = clean;
        if short.is_empty() {
            let code = bytes[clean - 1];
            write!(out, "\\u{code:04X}")?;
        } else {
            out.push_str(short)?;
        }
    }
    out.push_str(&text[clean..])?;
    out.push('"')
}

/// The number of bytes that are tested together.
const CHUNK_BYTES: usize = 16;

/// Whether a character whose first byte is `byte` may need an escape in a string literal.
#[inline(always)]
fn may_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f | 0xc2)
}

/// The text of a float: as in JSON, or a symbolic value where JSON has no text for it.
pub fn float(value: f64) -> String {
    match value {
        _ if value.is_finite() => ptc_json::float(value),
        _ if value.is_nan() => "##NaN".to_owned(),
        f64::INFINITY => "##Inf".to_owned(),
        _ => "##-Inf".to_owned(),
    }
}

#[cfg(test)]
mod tests;
