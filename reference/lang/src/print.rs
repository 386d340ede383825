//! Text of values: readable, plain, and previews that are cut. Knows nothing of who reads it.
//!
//! Nothing here recurses natively, and what is cut is never built: a preview of a huge value costs
//! what is shown.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation;

use crate::value::{Entries, Items, Members, Value};

/// Items of each collection that a preview shows.
pub const PREVIEW_ITEMS: usize = 50;
/// Graphemes that a preview of an ordinary call shows.
pub const PREVIEW_GRAPHEMES: usize = 250;
/// Graphemes that a preview of a session call shows.
pub const SESSION_PREVIEW_GRAPHEMES: usize = 512;

/// A value's text, perhaps cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The text, with a note where something is missing.
    pub text: String,
    /// Whether anything is missing.
    pub truncated: bool,
}

/// The whole value as the reader would read it.
pub fn readable(value: &Value) -> String {
    let mut printer = Printer::new(usize::MAX, usize::MAX);
    printer.print(value);
    printer.out
}

/// What `str` makes of a value: strings as they are, nil as nothing.
pub fn text(value: &Value) -> String {
    match value {
        Value::Nil => String::new(),
        _ => display(value),
    }
}

/// What `println` makes of a value: strings as they are, nil as `nil`.
pub fn display(value: &Value) -> String {
    match value {
        Value::Str(text) => text.as_str().to_owned(),
        Value::Date(_) | Value::Instant(_) | Value::Duration(_) => crate::time::text(value),
        Value::Regex(regex) => regex.source().to_owned(),
        _ => readable(value),
    }
}

/// The line that `println` prints: its arguments separated by spaces, cut where a line ends.
pub(crate) fn line(
    eval: &mut crate::eval::Eval<'_>,
    args: &[Value],
) -> Result<String, crate::error::Stop> {
    let mut line = String::new();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            line.push(' ');
        }
        eval.walk(arg)?;
        line.push_str(&display(arg));
    }
    Ok(line)
}

/// A value for a message: short, and one line.
pub fn brief(value: &Value) -> String {
    const ITEMS: usize = 5;
    const GRAPHEMES: usize = 80;
    let preview = preview(value, ITEMS, GRAPHEMES);
    let mut text = preview.text;
    if preview.truncated && text.graphemes(true).count() > GRAPHEMES {
        text = text.graphemes(true).take(GRAPHEMES).collect();
        text.push_str("...");
    }
    text
}

/// A value with at most `items` items of each collection.
pub fn preview_items(value: &Value, items: usize) -> Preview {
    let mut printer = Printer::new(items, usize::MAX);
    printer.print(value);
    Preview {
        text: printer.out,
        truncated: printer.cut_items,
    }
}

/// A value with at most `items` items of each collection and then at most `graphemes` graphemes,
/// both noted where they cut.
pub fn preview(value: &Value, items: usize, graphemes: usize) -> Preview {
    // A grapheme has no bound in bytes, but text this long is always longer than what is shown.
    let mut printer = Printer::new(items, graphemes.saturating_mul(64).saturating_add(4096));
    printer.print(value);
    let Printer { out, cut_items, .. } = printer;
    match out.grapheme_indices(true).nth(graphemes) {
        Some((end, _)) => {
            let mut text = out[..end].to_owned();
            let _ = write!(
                text,
                " ... (truncated at {graphemes} chars; use println on specific fields)"
            );
            Preview {
                text,
                truncated: true,
            }
        }
        None => Preview {
            text: out,
            truncated: cut_items,
        },
    }
}

/// Prints with an explicit stack.
struct Printer {
    out: String,
    items_max: usize,
    bytes_max: usize,
    cut_items: bool,
}

/// A collection being printed.
struct Open<'a> {
    parts: Parts<'a>,
    total: usize,
    shown: usize,
    close: &'static str,
}

enum Parts<'a> {
    Items(Items<'a>),
    Members(Members<'a>),
    Entries(Entries<'a>),
    /// The value of an entry whose key was just printed, and the entries behind it.
    Value(&'a Value, Entries<'a>),
}

impl Printer {
    fn new(items_max: usize, bytes_max: usize) -> Printer {
        Printer {
            out: String::new(),
            items_max,
            bytes_max,
            cut_items: false,
        }
    }

    fn print(&mut self, value: &Value) {
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = Some(value);
        loop {
            if let Some(value) = next
                && let Some(opened) = self.begin(value)
            {
                open.push(opened);
            }
            if self.out.len() > self.bytes_max {
                return;
            }
            let Some(top) = open.last_mut() else { return };
            next = self.advance(top);
            if next.is_none() {
                let Open { close, total, .. } = *top;
                open.pop();
                self.out.push_str(close);
                if total > self.items_max {
                    let _ = write!(self.out, " ({}/{total})", self.items_max);
                }
            }
        }
    }

    /// The next part of a collection; none at its end.
    fn advance<'a>(&mut self, open: &mut Open<'a>) -> Option<&'a Value> {
        if let Parts::Value(value, _) = open.parts {
            self.out.push(' ');
            let Parts::Value(_, entries) =
                std::mem::replace(&mut open.parts, Parts::Items([].iter().into()))
            else {
                return None;
            };
            open.parts = Parts::Entries(entries);
            return Some(value);
        }
        if open.shown == self.items_max && open.total > self.items_max {
            self.cut_items = true;
            self.out.push_str(" ...");
            return None;
        }
        let part = match &mut open.parts {
            Parts::Items(items) => items.next()?,
            Parts::Members(members) => members.next()?,
            Parts::Entries(entries) => {
                let (key, value) = entries.next()?;
                let Parts::Entries(entries) =
                    std::mem::replace(&mut open.parts, Parts::Items([].iter().into()))
                else {
                    return None;
                };
                open.parts = Parts::Value(value, entries);
                key
            }
            Parts::Value(..) => return None,
        };
        if open.shown > 0 {
            self.out.push(' ');
        }
        open.shown += 1;
        Some(part)
    }

    /// Prints a value without parts, or opens a collection.
    fn begin<'a>(&mut self, value: &'a Value) -> Option<Open<'a>> {
        let (start, parts, total, close) = match value {
            Value::Vector(items) => ("[", Parts::Items(items.iter()), items.len(), "]"),
            Value::Set(members) => ("#{", Parts::Members(members.iter()), members.len(), "}"),
            Value::Map(entries) => ("{", Parts::Entries(entries.iter()), entries.len(), "}"),
            _ => {
                self.leaf(value);
                return None;
            }
        };
        self.out.push_str(start);
        Some(Open {
            parts,
            total,
            shown: 0,
            close,
        })
    }

    fn leaf(&mut self, value: &Value) {
        let out = &mut self.out;
        // Writing to a string cannot fail.
        let _ = match value {
            Value::Nil => out.write_str("nil"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Int(value) => write!(out, "{value}"),
            Value::BigInt(value) => write!(out, "{value}"),
            Value::Float(value) => out.write_str(&float(*value)),
            Value::Str(text) => {
                quoted(out, text, self.bytes_max);
                Ok(())
            }
            Value::Keyword(name) => write!(out, ":{}", name.as_str()),
            Value::Symbol(name) => out.write_str(name),
            Value::Fn(closure) => match &closure.lambda.name {
                Some(name) => write!(out, "#fn[{}]", name.as_str()),
                None => out.write_str("#fn[anonymous]"),
            },
            Value::Builtin(builtin) => write!(out, "#fn[{}]", builtin.name),
            Value::Combined(combined) => match (combined.kind, combined.parts.first()) {
                (crate::function::Combinator::Tool, Some(Value::Str(name))) => {
                    write!(out, "#fn[tool/{}]", name.as_str())
                }
                _ => out.write_str("#fn[anonymous]"),
            },
            Value::Var(name) => write!(out, "#'{}", name.as_str()),
            Value::Regex(regex) => write!(out, "#\"{}\"", regex.source()),
            Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
                write!(out, "\"{}\"", crate::time::text(value))
            }
            Value::Vector(_) | Value::Map(_) | Value::Set(_) => Ok(()),
        };
    }
}

/// A string literal that the reader reads back.
fn quoted(out: &mut String, text: &str, bytes_max: usize) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
        if out.len() > bytes_max {
            return;
        }
    }
    out.push('"');
}

/// The shortest text that reads back to the same double, always with a decimal point.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "##NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "##Inf" } else { "##-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0.0"
        } else {
            "0.0"
        }
        .to_owned();
    }
    let (digits, point) = shortest_digits(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = value.abs() >= 1.0 && value.fract() == 0.0;
    let scientific = || {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { "0" } else { rest };
        format!("{sign}{first}.{rest}e{}", point - 1)
    };
    if value.abs() >= DECIMAL_BELOW {
        return scientific();
    }
    let decimal = decimal(sign, &digits, point);
    let scientific = scientific();
    if whole || decimal.len() <= scientific.len() {
        decimal
    } else {
        scientific
    }
}

/// Whole numbers from here on are scientific.
const DECIMAL_BELOW: f64 = 1e16;

/// The fewest digits that read back to `value`, without zeros at either end, and how many of them
/// stand in front of the decimal point.
fn shortest_digits(value: f64) -> (String, i32) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0').to_owned();
    (digits, whole.len() as i32 + exponent - leading as i32)
}

fn decimal(sign: &str, digits: &str, point: i32) -> String {
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let len = digits.len() as i32;
    if point <= 0 {
        format!("{sign}0.{}{digits}", zeros(-point))
    } else if point >= len {
        format!("{sign}{digits}{}.0", zeros(point - len))
    } else {
        let (whole, fraction) = digits.split_at(point as usize);
        format!("{sign}{whole}.{fraction}")
    }
}
