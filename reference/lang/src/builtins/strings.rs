//! Strings: `clojure.string` and other common string functions. Knows no patterns: those are in `regex`, directives in
//! `format`.
//!
//! Positions and lengths count graphemes; searches compare code points. Memory is reserved before text grows.

use super::numbers::index;
use super::{Builtin, Home, Section, at_least, between, exactly, row};
use crate::clock;
use crate::error::{Stop, about, at_item, bad_value, quoting, wrong_type};
use crate::eval::{Eval, sequence};
use crate::print;
use crate::sink::{Over, Sink};
use crate::substring::{self, Needle};
use crate::value::shape::watched;
use crate::value::text::{free_text, grow_text, push_watched};
use crate::value::{Text, Value};

const STRING: &[Home] = &[Home::String];
const STRING_AND_CORE: &[Home] = &[Home::String, Home::Core];

/// The rows of this module.
pub const ROWS: &[Builtin] = &[
    row(
        "str",
        "strings.str",
        Section::Strings,
        STRING_AND_CORE,
        at_least(0),
        "(str ...)",
        "Joins the text of its arguments; nil contributes nothing.",
        str,
    ),
    row(
        "char",
        "strings.char",
        Section::Strings,
        &[Home::Core],
        exactly(1),
        "(char code)",
        "Returns the character with a code point, a string of one.",
        char_of,
    ),
    row(
        "pr-str",
        "strings.pr-str",
        Section::Strings,
        STRING_AND_CORE,
        at_least(0),
        "(pr-str ...)",
        "Returns the readable form of its arguments, separated by spaces.",
        pr_str,
    ),
    row(
        "subs",
        "strings.subs",
        Section::Strings,
        STRING_AND_CORE,
        between(2, 3),
        "(subs s start), (subs s start end)",
        "Returns the part of a string from start (inclusive) to end (exclusive), counted in graphemes.",
        subs,
    ),
    row(
        "join",
        "strings.join",
        Section::Strings,
        STRING,
        between(1, 2),
        "(join coll), (join separator coll)",
        "Joins the text of the items, with a separator between them when one is given.",
        join,
    )
    .streaming(0),
    row(
        "split",
        "strings.split",
        Section::Strings,
        STRING,
        between(2, 3),
        "(split s re-or-char), (split s re-or-char limit)",
        "Splits a string at a delimiter or a regex, into at most limit parts when a limit is given.",
        split,
    ),
    row(
        "split-lines",
        "strings.split-lines",
        Section::Strings,
        STRING,
        exactly(1),
        "(split-lines s)",
        "Splits a string at line ends.",
        split_lines,
    ),
    row(
        "trim",
        "strings.trim",
        Section::Strings,
        STRING,
        exactly(1),
        "(trim s)",
        "Removes whitespace from both ends.",
        trim,
    ),
    row(
        "triml",
        "strings.triml",
        Section::Strings,
        STRING,
        exactly(1),
        "(triml s)",
        "Removes whitespace from the start.",
        |eval, args| trimmed(eval, args, true, false, char::is_whitespace),
    ),
    row(
        "trimr",
        "strings.trimr",
        Section::Strings,
        STRING,
        exactly(1),
        "(trimr s)",
        "Removes whitespace from the end.",
        |eval, args| trimmed(eval, args, false, true, char::is_whitespace),
    ),
    row(
        "trim-newline",
        "strings.trim-newline",
        Section::Strings,
        STRING,
        exactly(1),
        "(trim-newline s)",
        "Removes newlines and carriage returns from the end.",
        |eval, args| {
            trimmed(eval, args, false, true, |character| {
                matches!(character, '\n' | '\r')
            })
        },
    ),
    row(
        "replace",
        "strings.replace",
        Section::Strings,
        STRING_AND_CORE,
        between(2, 3),
        "(replace smap coll), (replace s pattern replacement)",
        "Replaces every match in a string, or every item of a collection that a map names.",
        |eval, args| match args.len() {
            2 => replace_items(eval, args),
            _ => on_text(eval, args, replace),
        },
    ),
    row(
        "replace-first",
        "strings.replace-first",
        Section::Strings,
        STRING,
        exactly(3),
        "(replace-first s pattern replacement)",
        "Replaces the first match in a string.",
        |eval, args| on_text(eval, args, replace_first),
    ),
    row(
        "capitalize",
        "strings.capitalize",
        Section::Strings,
        STRING,
        exactly(1),
        "(capitalize s)",
        "Returns the string with its first character in upper case and the others in lower case.",
        |eval, args| on_text(eval, args, capitalize),
    ),
    row(
        "str/reverse",
        "strings.reverse",
        Section::Strings,
        STRING,
        exactly(1),
        "(str/reverse s)",
        "Returns the string backwards.",
        reversed,
    )
    .qualified(),
    row(
        "str/escape",
        "strings.escape",
        Section::Strings,
        STRING,
        exactly(2),
        "(str/escape s cmap)",
        "Replaces each character for which a map or function returns a value by the text of that value.",
        escape,
    )
    .qualified(),
    row(
        "upper-case",
        "strings.upper-case",
        Section::Strings,
        STRING,
        exactly(1),
        "(upper-case ...)",
        "Returns the string in upper case.",
        |eval, args| on_text(eval, args, upper_case),
    ),
    row(
        "lower-case",
        "strings.lower-case",
        Section::Strings,
        STRING,
        exactly(1),
        "(lower-case ...)",
        "Returns the string in lower case.",
        |eval, args| on_text(eval, args, lower_case),
    ),
    row(
        "upcase",
        "strings.upcase",
        Section::Strings,
        STRING,
        exactly(1),
        "(upcase ...)",
        "Returns the string in upper case.",
        |eval, args| on_text(eval, args, upper_case),
    ),
    row(
        "downcase",
        "strings.downcase",
        Section::Strings,
        STRING,
        exactly(1),
        "(downcase ...)",
        "Returns the string in lower case.",
        |eval, args| on_text(eval, args, lower_case),
    ),
    row(
        "blank?",
        "strings.blank?",
        Section::Strings,
        STRING,
        exactly(1),
        "(blank? s)",
        "Returns true when a string is nil, empty or only whitespace.",
        is_blank,
    ),
    row(
        "starts-with?",
        "strings.starts-with?",
        Section::Strings,
        STRING,
        exactly(2),
        "(starts-with? s prefix)",
        "Returns true when a string starts with a prefix.",
        |eval, args| on_text(eval, args, starts_with),
    ),
    row(
        "ends-with?",
        "strings.ends-with?",
        Section::Strings,
        STRING,
        exactly(2),
        "(ends-with? s suffix)",
        "Returns true when a string ends with a suffix.",
        |eval, args| on_text(eval, args, ends_with),
    ),
    row(
        "includes?",
        "strings.includes?",
        Section::Strings,
        STRING,
        exactly(2),
        "(includes? s substring)",
        "Returns true when a string contains another.",
        |eval, args| on_text(eval, args, includes),
    ),
    row(
        "index-of",
        "strings.index-of",
        Section::Strings,
        STRING,
        between(2, 3),
        "(index-of s value), (index-of s value from-index)",
        "Returns the index of the first occurrence, nil when there is none.",
        |eval, args| {
            on_text(eval, args, |eval, args| {
                Ok(index_of(eval, args)?.map_or(Value::Nil, Value::from))
            })
        },
    ),
    row(
        "last-index-of",
        "strings.last-index-of",
        Section::Strings,
        STRING,
        between(2, 3),
        "(last-index-of s value), (last-index-of s value from-index)",
        "Returns the index of the last occurrence, nil when there is none.",
        |eval, args| {
            on_text(eval, args, |eval, args| {
                Ok(last_index_of(eval, args)?.map_or(Value::Nil, Value::from))
            })
        },
    ),
    row(
        "name",
        "strings.name",
        Section::Strings,
        STRING_AND_CORE,
        exactly(1),
        "(name x)",
        "Returns the text of a keyword, string or symbol without any colon.",
        name,
    ),
    row(
        "parse-long",
        "numbers.parse-long",
        Section::Strings,
        STRING_AND_CORE,
        exactly(1),
        "(parse-long ...)",
        "Reads an integer from text; nil when the text is not one.",
        parse_long,
    ),
    row(
        "parse-int",
        "numbers.parse-int",
        Section::Strings,
        STRING,
        exactly(1),
        "(parse-int ...)",
        "Reads an integer from text; nil when the text is not one.",
        parse_long,
    ),
    row(
        "parse-double",
        "numbers.parse-double",
        Section::Strings,
        STRING_AND_CORE,
        exactly(1),
        "(parse-double ...)",
        "Reads a float from text; nil when the text is not one.",
        parse_double,
    ),
    row(
        "parse-boolean",
        "numbers.parse-boolean",
        Section::Strings,
        STRING_AND_CORE,
        exactly(1),
        "(parse-boolean s)",
        "Reads \"true\" or \"false\"; nil for any other text.",
        parse_boolean,
    ),
];

/// The string at index `at` of `args`.
pub(super) fn string(args: &[Value], at: usize) -> Result<&Text, Stop> {
    match &args[at] {
        Value::Str(text) => Ok(text),
        other => Err(wrong_type("a string", other)),
    }
}

/// The number of bytes that are copied and scanned once in the time of one step.
const STEP_BYTES: usize = 512;

/// Charges a string of `bytes` that is about to be made.
pub(super) fn charge_text(eval: &mut Eval<'_>, bytes: usize) -> Result<(), Stop> {
    eval.reserve(bytes)?;
    eval.charge(bytes / STEP_BYTES)
}

/// Appends `part` after reserving memory. Each part is one step, so that a loop of appends checks the clock.
#[inline]
pub(super) fn push(eval: &mut Eval<'_>, out: &mut String, part: &str) -> Result<(), Stop> {
    if part.len() > out.capacity() - out.len() {
        grow(eval, out, part.len())?;
    }
    eval.charge(1 + part.len() / STEP_BYTES)?;
    push_watched(out, part);
    Ok(())
}

/// Reserves memory for `more` bytes and extends the capacity.
#[cold]
fn grow(eval: &mut Eval<'_>, out: &mut String, more: usize) -> Result<(), Stop> {
    let capacity = out.capacity();
    let wanted = (out.len() + more).max(capacity.saturating_mul(2));
    if let Err(stop) = eval.reserve(wanted - capacity) {
        free_text(std::mem::take(out));
        return Err(stop);
    }
    grow_text(out, wanted);
    Ok(())
}

/// How a value is written: [`print::write_text`] or a similar function.
pub(super) type Write = fn(&mut Sink<'_>, &Value) -> Result<(), Over>;

/// Appends the text of a value, charged and limited.
pub(super) fn append(
    eval: &mut Eval<'_>,
    out: &mut String,
    value: &Value,
    write: Write,
) -> Result<(), Stop> {
    eval.walk(value)?;
    let mut sink = Sink::new(std::mem::take(out), usize::MAX, eval.watch());
    write(&mut sink, value).map_err(|over| match over {
        Over::Bytes => eval.out_of_memory(),
        Over::Limit(limit) => limit.into(),
    })?;
    *out = sink.into_text();
    Ok(())
}

/// Appends the text that `str` returns for a value.
pub(super) fn append_text(
    eval: &mut Eval<'_>,
    out: &mut String,
    value: &Value,
) -> Result<(), Stop> {
    match value {
        Value::Nil => Ok(()),
        Value::Str(text) => push(eval, out, text),
        _ => append(eval, out, value, print::write_text),
    }
}

/// Appends `part` to the strings in `items`, which become the result.
pub(super) fn push_part(
    eval: &mut Eval<'_>,
    items: &mut Vec<Value>,
    part: &str,
) -> Result<(), Stop> {
    // A string takes some words besides its bytes.
    const OVERHEAD_BYTES: usize = 64;
    if items.len() == items.capacity() {
        eval.reserve_values(items.len().max(4))?;
    }
    eval.charge(1)?;
    charge_text(eval, part.len() + OVERHEAD_BYTES)?;
    items.push(Value::from(part));
    Ok(())
}

pub(super) fn str(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    if let [text @ Value::Str(_)] = args {
        return Ok(std::mem::take(text));
    }
    let mut out = String::new();
    for arg in args.iter() {
        append_text(eval, &mut out, arg)?;
    }
    Ok(Value::from(out))
}

fn pr_str(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let mut out = String::new();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        append(eval, &mut out, arg, print::write_readable)?;
    }
    Ok(Value::from(out))
}

fn subs(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let start = index(&args[1])?;
    let end = match args.len() {
        3 => usize::try_from(index(&args[2])?).unwrap_or(0),
        _ => usize::MAX,
    };
    match usize::try_from(start) {
        Ok(start) => part(eval, text, start, end),
        Err(_) => Ok(Value::from("")),
    }
}

/// The graphemes from `start` up to `end`; positions outside the text are clamped.
pub(super) fn part(
    eval: &mut Eval<'_>,
    text: &Text,
    start: usize,
    end: usize,
) -> Result<Value, Stop> {
    eval.charge(text.seek_steps())?;
    let from = text.byte_offset(start).unwrap_or(text.len());
    let to = match end {
        usize::MAX => text.len(),
        _ => text.byte_offset(end).unwrap_or(text.len()),
    };
    if from >= to {
        return Ok(Value::from(""));
    }
    if (from, to) == (0, text.len()) {
        return Ok(Value::Str(text.clone()));
    }
    charge_text(eval, to - from)?;
    Ok(Value::from(&text[from..to]))
}

fn join(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    if let [separator, _] = args {
        eval.settle(separator)?;
    }
    let (separator, items) = match args {
        [items] => (None, items),
        [Value::Nil, items] => (None, items),
        [Value::Str(separator), items] => (Some(&*separator), items),
        _ => return Err(wrong_type("a string as separator", &args[0])),
    };
    let separator = separator.map_or("", |separator| separator.as_str());
    if sequence::unsettled(items).is_some() {
        if sequence::endless(items) {
            eval.settle(items)?;
        }
        let items = eval.stream(std::mem::take(items))?;
        return joined(eval, String::new(), separator, items);
    }
    let mut out = String::new();
    if let Value::Vector(items) = items {
        // Memory for the result is reserved at once.
        let bytes = items.iter().fold(0usize, |bytes, item| {
            bytes
                .saturating_add(separator.len())
                .saturating_add(match item {
                    Value::Str(text) => text.len(),
                    _ => 4,
                })
        });
        eval.reserve(bytes)?;
        out.reserve(bytes);
        eval.charge(items.len())?;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                push(eval, &mut out, separator)?;
            }
            append_text(eval, &mut out, item)?;
        }
    } else {
        for (at, item) in eval.items(items)?.iter().enumerate() {
            eval.charge(1)?;
            if at > 0 {
                push(eval, &mut out, separator)?;
            }
            append_text(eval, &mut out, item)?;
        }
    }
    Ok(Value::from(out))
}

/// `out`, followed by the texts of `items` with `separator` between them.
pub(super) fn joined(
    eval: &mut Eval<'_>,
    mut out: String,
    separator: &str,
    mut items: sequence::Stream,
) -> Result<Value, Stop> {
    let mut between = "";
    while let Some(item) = items.next(eval)? {
        eval.charge(1)?;
        push(eval, &mut out, between)?;
        append_text(eval, &mut out, &item)?;
        between = separator;
    }
    Ok(Value::from(out))
}

pub(super) fn split(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let limit = match args.get(2) {
        None => 0,
        Some(limit) => index(limit)?,
    };
    // As on the JVM: a positive limit is the largest number of parts, and any limit but 0 keeps empty parts at the end.
    let parts_max = usize::try_from(limit).ok().filter(|limit| *limit > 0);
    let parts_max = parts_max.unwrap_or(usize::MAX);
    let delimiter = match &args[1] {
        Value::Regex(regex) => {
            return super::regex::split_into(eval, regex, text, parts_max, limit == 0);
        }
        Value::Str(delimiter) if delimiter.count() <= 1 => delimiter,
        Value::Str(_) => {
            return Err(bad_value(quoting(
                "a delimiter has one character, use a regex for ",
                &args[1],
            )));
        }
        other => return Err(wrong_type("a regex or a delimiter of one character", other)),
    };
    let mut parts = Vec::new();
    if delimiter.is_empty() {
        let mut from = 0;
        for grapheme in text.graphemes() {
            if parts.len() + 1 == parts_max {
                break;
            }
            push_part(eval, &mut parts, grapheme)?;
            from += grapheme.len();
        }
        if from < text.len() || limit != 0 && parts.len() < parts_max {
            push_part(eval, &mut parts, &text[from..])?;
        }
    } else {
        let delimiter = Needle::new(delimiter);
        let mut from = 0;
        while parts.len() + 1 < parts_max
            && let Some(at) = delimiter.find(text, from, eval)?
        {
            push_part(eval, &mut parts, &text[from..at])?;
            from = at + delimiter.len();
        }
        push_part(eval, &mut parts, &text[from..])?;
    }
    match limit {
        0 => Ok(parts_of(text, parts)),
        _ => Ok(Value::vector(parts)),
    }
}

fn split_lines(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let mut parts = Vec::new();
    for line in text.split('\n') {
        push_part(eval, &mut parts, line)?;
    }
    // Only a carriage return directly before a line feed belongs to the line end.
    let last = parts.len() - 1;
    for part in &mut parts[..last] {
        if let Value::Str(line) = part
            && let Some(line) = line.strip_suffix('\r')
        {
            *part = Value::from(line);
        }
    }
    Ok(parts_of(text, parts))
}

/// `parts` without the empty ones at the end; for an empty text, the text itself.
pub(super) fn parts_of(text: &str, mut parts: Vec<Value>) -> Value {
    if text.is_empty() {
        return Value::vector(vec![Value::from("")]);
    }
    while let Some(Value::Str(last)) = parts.last()
        && last.is_empty()
    {
        parts.pop();
    }
    Value::vector(parts)
}

/// The string without white space at both ends.
pub(super) fn trim(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    trimmed(eval, args, true, true, char::is_whitespace)
}

/// The string without the `unwanted` characters at its start, its end, or both.
fn trimmed(
    eval: &mut Eval<'_>,
    args: &mut [Value],
    at_start: bool,
    at_end: bool,
    unwanted: fn(char) -> bool,
) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let mut inner = text.as_str();
    if at_start {
        let kept = first_kept(eval, inner.char_indices(), unwanted)?;
        inner = kept.map_or("", |(at, _)| &inner[at..]);
    }
    if at_end {
        let kept = first_kept(eval, inner.char_indices().rev(), unwanted)?;
        inner = kept.map_or("", |(at, last)| &inner[..at + last.len_utf8()]);
    }
    if inner.len() == text.len() {
        return Ok(std::mem::take(&mut args[0]));
    }
    eval.charge(inner.len() / 64)?;
    eval.reserve(inner.len())?;
    Ok(Value::from(inner))
}

/// The first character that is not `unwanted`.
fn first_kept(
    eval: &mut Eval<'_>,
    characters: impl Iterator<Item = (usize, char)>,
    unwanted: fn(char) -> bool,
) -> Result<Option<(usize, char)>, Stop> {
    /// The approximate number of characters that are examined in the time of one step.
    const STEP_CHARACTERS: usize = 32;
    for (count, (at, character)) in characters.enumerate() {
        if !unwanted(character) {
            return Ok(Some((at, character)));
        }
        if count % STEP_CHARACTERS == 0 {
            eval.charge(1)?;
        }
    }
    Ok(None)
}

pub(super) fn replace(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    match &args[1] {
        Value::Regex(regex) => match &args[2] {
            Value::Str(replacement) => {
                super::regex::replace_all(eval, regex, text, replacement, usize::MAX)
            }
            made => super::regex::replace_by(eval, regex, text, made, usize::MAX),
        },
        Value::Str(wanted) => {
            let replacement = string(args, 2)?;
            let mut out = String::new();
            let mut from = 0;
            if wanted.is_empty() {
                for (at, _) in text.char_indices() {
                    eval.charge(1)?;
                    push(eval, &mut out, &text[from..at])?;
                    push(eval, &mut out, replacement)?;
                    from = at;
                }
                push(eval, &mut out, &text[from..])?;
                push(eval, &mut out, replacement)?;
                return Ok(Value::from(out));
            }
            let wanted = Needle::new(wanted);
            while let Some(at) = wanted.find(text, from, eval)? {
                push(eval, &mut out, &text[from..at])?;
                push(eval, &mut out, replacement)?;
                from = at + wanted.len();
            }
            if from == 0 {
                return Ok(args[0].clone());
            }
            push(eval, &mut out, &text[from..])?;
            Ok(Value::from(out))
        }
        other => Err(wrong_type("a string or a regex", other)),
    }
}

fn replace_first(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    match (&args[1], &args[2]) {
        (Value::Regex(regex), Value::Str(replacement)) => {
            super::regex::replace_all(eval, regex, text, replacement, 1)
        }
        (Value::Regex(regex), made) => super::regex::replace_by(eval, regex, text, made, 1),
        (Value::Str(wanted), _) => {
            let replacement = string(args, 2)?;
            let Some(at) = Needle::new(wanted).find(text, 0, eval)? else {
                return Ok(args[0].clone());
            };
            let mut out = String::new();
            for part in [&text[..at], replacement, &text[at + wanted.len()..]] {
                push(eval, &mut out, part)?;
            }
            Ok(Value::from(out))
        }
        (other, _) => Err(wrong_type("a string or a regex", other)),
    }
}

fn capitalize(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let end = text.byte_offset(1).unwrap_or(text.len());
    let mut out = in_upper_case(eval, &text[..end])?;
    let rest = in_case(eval, &text[end..], |slice| slice.to_lowercase())?;
    push(eval, &mut out, &rest)?;
    free_text(rest);
    Ok(Value::from(out))
}

fn reversed(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let graphemes = eval.items(&args[0])?;
    charge_text(eval, text.len())?;
    let mut out = String::with_capacity(text.len());
    for grapheme in graphemes.iter().rev() {
        eval.charge(1)?;
        if let Value::Str(grapheme) = grapheme {
            out.push_str(grapheme);
        }
    }
    Ok(Value::from(out))
}

fn escape(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    string(args, 0)?;
    super::callable(&args[1])?;
    let graphemes = eval.items(&args[0])?;
    let mut out = String::new();
    for (at, grapheme) in graphemes.iter().enumerate() {
        eval.charge(1)?;
        let made = match &args[1] {
            Value::Map(map) => map.get(grapheme).cloned().unwrap_or_default(),
            function => {
                let made = eval.call1(function, grapheme.clone());
                made.map_err(|stop| at_item(stop, at))?
            }
        };
        let part = if made.is_nil() { grapheme } else { &made };
        append_text(eval, &mut out, part)?;
    }
    Ok(Value::from(out))
}

fn replace_items(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    if !matches!(args[0], Value::Nil | Value::Map(_) | Value::Vector(_)) {
        return Err(wrong_type("a map or a vector of replacements", &args[0]));
    }
    let items = std::mem::take(&mut args[1]);
    let mut items = eval.take_items(items)?;
    for item in &mut items {
        eval.walk(item)?;
        let replacement = match (&args[0], &*item) {
            (Value::Map(map), item) => map.get(item),
            (Value::Vector(vector), Value::Int(index)) => usize::try_from(*index)
                .ok()
                .and_then(|index| vector.get(index)),
            _ => None,
        };
        if let Some(replacement) = replacement {
            *item = replacement.clone();
        }
    }
    Ok(Value::vector(items))
}

pub(super) fn upper_case(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    in_upper_case(eval, string(args, 0)?).map(Value::from)
}

pub(super) fn lower_case(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    in_case(eval, string(args, 0)?, |slice| slice.to_lowercase()).map(Value::from)
}

/// Converts text that a builtin wrote to upper case.
pub(super) fn in_upper_case(eval: &mut Eval<'_>, text: &str) -> Result<String, Stop> {
    in_case(eval, text, |slice| slice.to_uppercase())
}

/// Converts case in slices. The lower-case form of `Σ` depends on the letters around it, which may be in other slices.
/// So a slice that contains one is converted with a letter or a space added on either side, in place of its neighbours.
fn in_case(eval: &mut Eval<'_>, text: &str, change: fn(&str) -> String) -> Result<String, Stop> {
    const SLICE_BYTES: usize = 8 * 1024;
    eval.reserve(text.len().saturating_mul(2))?;
    if text.len() <= SLICE_BYTES {
        eval.charge(text.len() / 32)?;
        return Ok(change(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut around = Neighbours::default();
    let mut at = 0;
    while at < text.len() {
        let end = text.floor_char_boundary(at + SLICE_BYTES);
        let slice = &text[at..end];
        // A byte takes a nanosecond or two.
        clock::check(slice.len())?;
        eval.charge(slice.len() / 32)?;
        if memchr::memmem::find(slice.as_bytes(), "Σ".as_bytes()).is_none() {
            push(eval, &mut out, &change(slice))?;
        } else {
            let (before, behind) = (around.before(text, at)?, around.behind(text, end)?);
            let changed = change(&format!("{before}{slice}{behind}"));
            push(eval, &mut out, &changed[1..changed.len() - 1])?;
        }
        at = end;
    }
    Ok(out)
}

/// The context of a position in a text, for the one letter whose lower-case form depends on it.
#[derive(Default)]
struct Neighbours {
    /// The position up to which characters were examined, and the stand-in for the last significant one.
    seen: usize,
    last: Option<char>,
    /// The position of the next significant character, and its stand-in.
    found: usize,
    next: Option<char>,
}

impl Neighbours {
    /// A letter if a word continues before `place`, else a space. Calls come with ascending places.
    fn before(&mut self, text: &str, place: usize) -> Result<char, Stop> {
        for character in text[self.seen..place].chars().rev() {
            if let Some(stands_for) = counted(character)? {
                self.last = Some(stands_for);
                break;
            }
        }
        self.seen = place;
        Ok(self.last.unwrap_or(' '))
    }

    /// A letter if a word continues after `place`, else a space. Calls come with ascending places.
    fn behind(&mut self, text: &str, place: usize) -> Result<char, Stop> {
        // A place is the end of a slice, and the first call searches.
        if self.found < place {
            (self.found, self.next) = (text.len(), Some(' '));
            for (at, character) in text[place..].char_indices() {
                if let Some(stands_for) = counted(character)? {
                    (self.found, self.next) = (place + at, Some(stands_for));
                    break;
                }
            }
        }
        Ok(self.next.unwrap_or(' '))
    }
}

/// The stand-in for a character next to a `Σ`: a letter, a space for a character that ends a word, or `None` for one
/// that is skipped, such as an apostrophe. Determined by how the library converts a `Σ` before it.
fn counted(character: char) -> Result<Option<char>, Stop> {
    /// Metered steps to determine a stand-in.
    const FOUND_OUT_STEPS: usize = 64;
    let within_word = |behind: &str| format!("aΣ{behind}").to_lowercase().starts_with("aσ");
    if character.is_ascii_alphabetic() {
        return Ok(Some('a'));
    }
    clock::check(FOUND_OUT_STEPS)?;
    let mut buffer = [0; 4];
    let alone = character.encode_utf8(&mut buffer);
    Ok(
        match (within_word(alone), within_word(&format!("{alone}a"))) {
            (true, _) => Some('a'),
            (false, false) => Some(' '),
            (false, true) => None,
        },
    )
}

pub(super) fn is_blank(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match &args[0] {
        Value::Nil => Ok(Value::Bool(true)),
        Value::Str(text) => {
            let kept = first_kept(eval, text.char_indices(), char::is_whitespace)?;
            Ok(Value::Bool(kept.is_none()))
        }
        other => Err(wrong_type("a string or nil", other)),
    }
}

pub(super) fn starts_with(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    eval.charge(string(args, 1)?.len() / 64)?;
    let found = string(args, 0)?.starts_with(string(args, 1)?.as_str());
    Ok(Value::Bool(found))
}

pub(super) fn ends_with(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    eval.charge(string(args, 1)?.len() / 64)?;
    let found = string(args, 0)?.ends_with(string(args, 1)?.as_str());
    Ok(Value::Bool(found))
}

pub(super) fn includes(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (text, wanted) = (string(args, 0)?, string(args, 1)?);
    let found = Needle::new(wanted).find(text, 0, eval)?;
    Ok(Value::Bool(found.is_some()))
}

/// The index of the first occurrence, searched from the index in argument 2.
fn char_of(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match &args[0] {
        Value::Int(code) => match u32::try_from(*code).ok().and_then(char::from_u32) {
            Some(char) => Ok(Value::from(char.to_string())),
            None => Err(bad_value(about(
                format!("{code} is no code point of a character"),
                &args[0],
            ))),
        },
        large @ Value::BigInt(_) => Err(bad_value(
            quoting("", large).then(" is no code point of a character"),
        )),
        Value::Str(text) if text.count() == 1 => Ok(std::mem::take(&mut args[0])),
        other => Err(wrong_type("an integer or a character", other)),
    }
}

pub(super) fn index_of(eval: &mut Eval<'_>, args: &[Value]) -> Result<Option<usize>, Stop> {
    let (text, wanted) = (string(args, 0)?, string(args, 1)?);
    let from = match args.get(2) {
        None => 0,
        Some(_) => usize::try_from(index(&args[2])?).unwrap_or(0),
    };
    let from = text.byte_offset(from).unwrap_or(text.len());
    let found = Needle::new(wanted).find(text, from, eval)?;
    Ok(found.map(|at| text.grapheme_index(at)))
}

/// Calls `run` with the arguments, the first converted to text if it is a number, a keyword, a symbol or a boolean.
fn on_text(
    eval: &mut Eval<'_>,
    args: &mut [Value],
    run: impl FnOnce(&mut Eval<'_>, &mut [Value]) -> Result<Value, Stop>,
) -> Result<Value, Stop> {
    if let Value::Bool(_)
    | Value::Int(_)
    | Value::BigInt(_)
    | Value::Float(_)
    | Value::Keyword(_)
    | Value::Symbol(_) = &args[0]
    {
        let mut out = String::new();
        append_text(eval, &mut out, &args[0])?;
        args[0] = Value::from(out);
    }
    run(eval, args)
}

/// The index of the last occurrence that starts at or before the index in argument 2.
pub(super) fn last_index_of(eval: &mut Eval<'_>, args: &[Value]) -> Result<Option<usize>, Stop> {
    let (text, wanted) = (string(args, 0)?, string(args, 1)?);
    let mut end = text.len();
    if args.len() > 2 {
        let Ok(from) = usize::try_from(index(&args[2])?) else {
            return Ok(None);
        };
        // An occurrence may start anywhere in the grapheme.
        if let Some(next) = text.byte_offset(from.saturating_add(1)) {
            let last_start = text[..next]
                .char_indices()
                .next_back()
                .map_or(0, |(at, _)| at);
            end = end.min(last_start.saturating_add(wanted.len()));
            while !text.is_char_boundary(end) {
                end -= 1;
            }
        }
    }
    let found = substring::find_last(&text[..end], wanted, eval)?;
    Ok(found.map(|at| text.grapheme_index(at)))
}

fn name(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match std::mem::take(&mut args[0]) {
        text @ Value::Str(_) => Ok(text),
        Value::Keyword(name) => Ok(Value::Str(name)),
        Value::Symbol(name) => Ok(match name.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() => Value::from(name),
            _ => Value::Str(name),
        }),
        other => Err(wrong_type("a keyword, a string or a symbol", &other)),
    }
}

pub(super) fn parse_long(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Ok(match &args[0] {
        Value::Str(text) => {
            eval.charge(text.len() / 16)?;
            long(text)
        }
        _ => Value::Nil,
    })
}

/// The integer of an optional sign and ASCII digits if it fits in 64 bits, else nil.
pub(super) fn long(text: &str) -> Value {
    /// The number of digits of the largest one.
    const DIGITS_MAX: usize = 19;
    if text.len() <= DIGITS_MAX {
        return text.parse().map_or(Value::Nil, Value::Int);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = &text[..text.len() - unsigned.len()];
    let zeros = watched(unsigned.bytes().take_while(|byte| *byte == b'0')).count();
    let digits = &unsigned[zeros..];
    // Longer text is not a number, or too large a one.
    if digits.len() > DIGITS_MAX {
        return Value::Nil;
    }
    let zero = if zeros > 0 { "0" } else { "" };
    let short = format!("{sign}{zero}{digits}");
    short.parse().map_or(Value::Nil, Value::Int)
}

pub(super) fn parse_double(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Value::Str(text) = &args[0] else {
        return Ok(Value::Nil);
    };
    eval.charge(text.len() / 16)?;
    // As on the JVM, where control characters count as blanks too.
    let is_blank = |byte: &u8| *byte <= b' ';
    let start = watched(text.bytes().take_while(is_blank)).count();
    let text = &text[start..];
    let behind = watched(text.bytes().rev().take_while(is_blank)).count();
    Ok(match &text[..text.len() - behind] {
        "NaN" => Value::Float(f64::NAN),
        "Infinity" | "+Infinity" => Value::Float(f64::INFINITY),
        "-Infinity" => Value::Float(f64::NEG_INFINITY),
        text if watched(text.bytes())
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) =>
        {
            crate::json::parse_float(text).map_or(Value::Nil, Value::Float)
        }
        _ => Value::Nil,
    })
}

fn parse_boolean(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Ok(match &args[0] {
        Value::Str(text) if text.as_str() == "true" => Value::Bool(true),
        Value::Str(text) if text.as_str() == "false" => Value::Bool(false),
        _ => Value::Nil,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ended, Env, Host, Limits, Program, run};

    struct Nowhere;

    impl Host for Nowhere {
        fn now_micros(&self) -> i64 {
            0
        }
    }

    /// Converted in slices, long words come out as the library converts them in one piece, wherever the slices end.
    #[test]
    fn a_sigma_is_written_as_its_word_asks_for_wherever_it_is_cut() {
        let parts = [
            "Σ", "Α", "'", "\u{301}", " ", "ΑΣ", "Σ'", "ʰ", "\u{345}", "1", "Ⅷ",
        ];
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let few = 1 + random.usize(..parts.len());
            let mut text = String::new();
            // Long repetitions of one part extend across slices.
            while text.len() < 40_000 {
                let part = parts[random.usize(..few)];
                let times = [1, 1, 3, 5_000][random.usize(..4)];
                text.push_str(&part.repeat(times));
            }
            for (call, wanted) in [
                ("(lower-case (str data/a data/b))", text.to_lowercase()),
                ("(upper-case (str data/a data/b))", text.to_uppercase()),
            ] {
                let at = text.floor_char_boundary(random.usize(..text.len()));
                let context = [("a", &text[..at]), ("b", &text[at..])];
                let context = context.map(|(name, part)| (Value::from(name), Value::from(part)));
                let env = Env::new().with_context(context.into_iter().collect());
                let limits = Limits::default();
                let (outcome, _) = run(&Program::new(call), &env, &limits, &Nowhere);
                let Ended::Value(Value::Str(found)) = outcome.ended else {
                    panic!("seed {seed}: {:?}", outcome.ended);
                };
                assert!(found.as_str() == wanted, "seed {seed}: {call}");
            }
        }
    }
}
