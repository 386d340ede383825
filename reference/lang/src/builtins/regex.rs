//! Functions of regular expressions. Knows nothing of how patterns are matched.
//!
//! A search is charged while it runs, for its actual work.

use std::sync::Arc;

use super::numbers::index;
use super::strings::{charge_text, long, parts_of, push, push_part, string};
use super::{Builtin, Home, Section, between, exactly, row};
use crate::error::{Stop, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::regex::{Match, Regex, Start};
use crate::value::{Text, Value};

const REGEX: &[Home] = &[Home::Regex];
const REGEX_AND_CORE: &[Home] = &[Home::Regex, Home::Core];
const STRING: &[Home] = &[Home::String];

/// The rows of this module.
pub const ROWS: &[Builtin] = &[
    row(
        "re-pattern",
        "regex.re-pattern",
        Section::Regex,
        REGEX_AND_CORE,
        exactly(1),
        "(re-pattern s)",
        "Makes a regex from a string.",
        re_pattern,
    ),
    row(
        "re-find",
        "regex.re-find",
        Section::Regex,
        REGEX_AND_CORE,
        exactly(2),
        "(re-find re s)",
        "Returns the first match of a regex in a string, nil when there is none.",
        re_find,
    ),
    row(
        "re-matches",
        "regex.re-matches",
        Section::Regex,
        REGEX_AND_CORE,
        exactly(2),
        "(re-matches re s)",
        "Returns the match when a regex matches the whole string, else nil.",
        re_matches,
    ),
    row(
        "re-seq",
        "regex.re-seq",
        Section::Regex,
        REGEX_AND_CORE,
        exactly(2),
        "(re-seq re s)",
        "Returns all matches of a regex in a string.",
        re_seq,
    ),
    row(
        "re-split",
        "regex.re-split",
        Section::Regex,
        REGEX,
        exactly(2),
        "(re-split re s)",
        "Splits a string at the matches of a regex.",
        |eval, args| split_at(eval, regex(args, 0)?, string(args, 1)?),
    ),
    row(
        "regex?",
        "regex.regex?",
        Section::Regex,
        REGEX,
        exactly(1),
        "(regex? x)",
        "Returns true for a regex.",
        |_, args| Ok(Value::Bool(matches!(args[0], Value::Regex(_)))),
    ),
    row(
        "extract",
        "regex.extract",
        Section::Strings,
        STRING,
        between(2, 3),
        "(extract pattern s), (extract pattern s n)",
        "Returns a group of the first match, the first group unless another is named.",
        |eval, args| Ok(group(eval, args)?.map_or(Value::Nil, Value::Str)),
    ),
    row(
        "extract-int",
        "regex.extract-int",
        Section::Strings,
        STRING,
        between(2, 4),
        "(extract-int pattern s), (extract-int pattern s n), (extract-int pattern s n default)",
        "Reads an integer from a group of the first match.",
        extract_int,
    ),
];

fn regex(args: &[Value], at: usize) -> Result<&Arc<Regex>, Stop> {
    match &args[at] {
        Value::Regex(regex) => Ok(regex),
        other => Err(wrong_type("a regex", other)),
    }
}

/// The regex of the text `pattern`. The last one is cached, for loops that use it repeatedly.
pub(super) fn compiled(eval: &mut Eval<'_>, pattern: &str) -> Result<Arc<Regex>, Stop> {
    /// The number of steps charged for compiling.
    const COMPILE_STEPS: usize = 1_024;
    /// The size of the part of a pattern that an error keeps: a refused pattern may be long.
    const SHOWN_BYTES_MAX: usize = 64 * 1024;
    if let Some(last) = &eval.pattern
        && last.source() == pattern
    {
        return Ok(Arc::clone(last));
    }
    eval.charge(COMPILE_STEPS)?;
    let regex = Regex::new(pattern).map_err(|problem| {
        let shown = &pattern[..pattern.floor_char_boundary(SHOWN_BYTES_MAX)];
        bad_value(quoting("regex ", &Value::from(shown)).then(format!(": {problem}")))
    })?;
    let regex = Arc::new(regex);
    eval.pattern = Some(Arc::clone(&regex));
    Ok(regex)
}

type ByteSpan = (usize, usize);

fn find_at(
    eval: &mut Eval<'_>,
    regex: &Arc<Regex>,
    text: &str,
    start: Start,
) -> Result<Option<ByteSpan>, Stop> {
    let mut scratch = std::mem::take(&mut eval.scratch);
    let found = regex.find_at(text, start, &mut scratch, eval);
    eval.scratch = scratch;
    found
}

fn captures_at(
    eval: &mut Eval<'_>,
    regex: &Arc<Regex>,
    text: &str,
    start: Start,
) -> Result<Option<Match>, Stop> {
    let mut scratch = std::mem::take(&mut eval.scratch);
    let found = regex.captures_at(text, start, &mut scratch, eval);
    eval.scratch = scratch;
    found
}

/// The value of a match: its text, or a vector with its groups.
fn match_value(eval: &mut Eval<'_>, text: &str, found: &Match) -> Result<Value, Stop> {
    let mut parts = Vec::with_capacity(found.groups().len());
    for group in found.groups() {
        parts.push(match group {
            Some((start, end)) => {
                charge_text(eval, end - start)?;
                Value::from(&text[start..end])
            }
            None => Value::Nil,
        });
    }
    Ok(match parts.len() {
        1 => parts.pop().unwrap_or_default(),
        _ => Value::vector(parts),
    })
}

fn re_pattern(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match &args[0] {
        Value::Regex(_) => Ok(std::mem::take(&mut args[0])),
        Value::Str(pattern) => Ok(Value::Regex(compiled(eval, pattern)?)),
        other => Err(wrong_type("a string or a regex", other)),
    }
}

fn re_find(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (regex, text) = (regex(args, 0)?, string(args, 1)?);
    if regex.groups() == 0 {
        let found = find_at(eval, regex, text, Start::at(0))?;
        let Some((start, end)) = found else {
            return Ok(Value::Nil);
        };
        charge_text(eval, end - start)?;
        return Ok(Value::from(&text[start..end]));
    }
    match captures_at(eval, regex, text, Start::at(0))? {
        Some(found) => match_value(eval, text, &found),
        None => Ok(Value::Nil),
    }
}

pub(super) fn re_matches(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (regex, text) = (regex(args, 0)?, string(args, 1)?);
    let mut scratch = std::mem::take(&mut eval.scratch);
    let found = regex.matches(text, &mut scratch, eval);
    eval.scratch = scratch;
    match found? {
        Some(found) => match_value(eval, text, &found),
        None => Ok(Value::Nil),
    }
}

/// The position where a search continues after a match: one character further after an empty match.
fn next_start(text: &str, start: usize, end: usize) -> Option<Start> {
    if end > start {
        return Some(Start::at(end));
    }
    let next = text[end..].chars().next()?;
    Some(Start {
        at: end + next.len_utf8(),
        previous: end,
    })
}

fn re_seq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (regex, text) = (regex(args, 0)?, string(args, 1)?);
    let mut found = Vec::new();
    let mut from = Some(Start::at(0));
    while let Some(at) = from {
        let (start, end) = if regex.groups() == 0 {
            let Some((start, end)) = find_at(eval, regex, text, at)? else {
                break;
            };
            push_part(eval, &mut found, &text[start..end])?;
            (start, end)
        } else {
            let Some(groups) = captures_at(eval, regex, text, at)? else {
                break;
            };
            if found.len() == found.capacity() {
                eval.reserve_values(found.len().max(4))?;
            }
            found.push(match_value(eval, text, &groups)?);
            groups.span()
        };
        from = next_start(text, start, end);
    }
    Ok(Value::vector(found))
}

/// The parts of `text` between the matches of `regex`, without empty ones at the end.
pub(super) fn split_at(eval: &mut Eval<'_>, regex: &Arc<Regex>, text: &str) -> Result<Value, Stop> {
    split_into(eval, regex, text, usize::MAX, true)
}

/// At most `parts_max` parts of `text`; empty ones at the end are kept unless `trims`.
pub(super) fn split_into(
    eval: &mut Eval<'_>,
    regex: &Arc<Regex>,
    text: &str,
    parts_max: usize,
    trims: bool,
) -> Result<Value, Stop> {
    let mut parts = Vec::new();
    let mut part_start = 0;
    let mut from = Some(Start::at(0));
    while parts.len() + 1 < parts_max
        && let Some(at) = from
    {
        let Some((start, end)) = find_at(eval, regex, text, at)? else {
            break;
        };
        // An empty match at the start of the text gives no part.
        if end > 0 {
            push_part(eval, &mut parts, &text[part_start..start])?;
            part_start = end;
        }
        from = next_start(text, start, end);
    }
    push_part(eval, &mut parts, &text[part_start..])?;
    match trims {
        true => Ok(parts_of(text, parts)),
        false => Ok(Value::vector(parts)),
    }
}

/// `text` with the first `matches_max` matches of `regex` replaced by the results of `made`: a function or a map of the
/// match, which is its text or a vector with its groups.
pub(super) fn replace_by(
    eval: &mut Eval<'_>,
    regex: &Arc<Regex>,
    text: &str,
    made: &Value,
    matches_max: usize,
) -> Result<Value, Stop> {
    if !Eval::callable(made) {
        return Err(wrong_type("a string, a function or a map", made));
    }
    let (mut out, mut copied, mut from) = (String::new(), 0, Some(Start::at(0)));
    for _ in 0..matches_max {
        let Some(at) = from else { break };
        let Some(found) = captures_at(eval, regex, text, at)? else {
            break;
        };
        let (start, end) = found.span();
        let matched = match_value(eval, text, &found)?;
        let replacement = match eval.call1(made, matched)? {
            Value::Str(replacement) => replacement,
            other => {
                return Err(wrong_type("a string from the function or map", &other));
            }
        };
        push(eval, &mut out, &text[copied..start])?;
        push(eval, &mut out, &replacement)?;
        copied = end;
        from = next_start(text, start, end);
    }
    push(eval, &mut out, &text[copied..])?;
    Ok(Value::from(out))
}

/// `text` with the first `matches_max` matches of `regex` replaced; `$0`, `$1`, … in `replacement` stand for groups.
pub(super) fn replace_all(
    eval: &mut Eval<'_>,
    regex: &Arc<Regex>,
    text: &str,
    replacement: &str,
    matches_max: usize,
) -> Result<Value, Stop> {
    let template = template(eval, replacement, regex.groups())?;
    let mut out = String::new();
    let mut copied = 0;
    let mut from = Some(Start::at(0));
    for _ in 0..matches_max {
        let Some(at) = from else { break };
        let Some(found) = captures_at(eval, regex, text, at)? else {
            break;
        };
        let (start, end) = found.span();
        push(eval, &mut out, &text[copied..start])?;
        for piece in &template {
            let piece = match piece {
                Piece::Text(text) => text,
                Piece::Group(group) => found
                    .group(*group)
                    .map_or("", |(start, end)| &text[start..end]),
            };
            push(eval, &mut out, piece)?;
        }
        copied = end;
        from = next_start(text, start, end);
    }
    push(eval, &mut out, &text[copied..])?;
    Ok(Value::from(out))
}

enum Piece<'t> {
    Text(&'t str),
    Group(usize),
}

/// The pieces of a replacement text. A number without a group is literal text; a number extends as long as a group with
/// that number exists.
fn template<'t>(
    eval: &mut Eval<'_>,
    replacement: &'t str,
    groups: usize,
) -> Result<Vec<Piece<'t>>, Stop> {
    let mut pieces = Vec::new();
    let (mut literal, mut at) = (0, 0);
    let bytes = replacement.as_bytes();
    while at < bytes.len() {
        eval.charge(1)?;
        if pieces.capacity() - pieces.len() < 2 {
            let more = pieces.len().max(4);
            eval.reserve(more * size_of::<Piece<'_>>())?;
            pieces.reserve_exact(more);
        }
        let digit = |at: usize| {
            bytes
                .get(at)
                .filter(|byte| byte.is_ascii_digit())
                .map(|byte| usize::from(byte - b'0'))
        };
        match digit(at + 1) {
            Some(first) if bytes[at] == b'$' && first <= groups => {
                let (mut group, mut end) = (first, at + 2);
                while let Some(next) = digit(end)
                    && group * 10 + next <= groups
                {
                    group = group * 10 + next;
                    end += 1;
                }
                pieces.push(Piece::Text(&replacement[literal..at]));
                pieces.push(Piece::Group(group));
                literal = end;
                at = end;
            }
            _ => at += 1,
        }
    }
    pieces.push(Piece::Text(&replacement[literal..]));
    Ok(pieces)
}

/// The group of the first match that `extract` and `extract-int` select.
fn group(eval: &mut Eval<'_>, args: &[Value]) -> Result<Option<Text>, Stop> {
    let regex = match &args[0] {
        Value::Regex(regex) => Arc::clone(regex),
        Value::Str(pattern) => compiled(eval, pattern)?,
        other => return Err(wrong_type("a string or a regex", other)),
    };
    let text = string(args, 1)?;
    let group = match args.get(2) {
        Some(_) => index(&args[2])?,
        None => 1,
    };
    let found = captures_at(eval, &regex, text, Start::at(0))?;
    let found = found
        .zip(usize::try_from(group).ok())
        .and_then(|(found, group)| found.group(group));
    let Some((start, end)) = found else {
        return Ok(None);
    };
    charge_text(eval, end - start)?;
    Ok(Some(Text::from(&text[start..end])))
}

fn extract_int(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let value = group(eval, args)?.map_or(Value::Nil, |found| long(&found));
    Ok(match (value, args.get_mut(3)) {
        (Value::Nil, Some(default)) => std::mem::take(default),
        (value, _) => value,
    })
}
