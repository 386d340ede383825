//! Java names that programs use out of habit: methods of strings, static members, constants. Temporal ones are in
//! `time`.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind};

use super::numbers::index;
use super::order::compare;
use super::regex::{compiled, re_matches};
use super::strings::{
    append_text, ends_with, includes, index_of, is_blank, last_index_of, lower_case, parse_double,
    parse_long, part, push, replace, split, starts_with, str, string, trim, upper_case,
};
use super::{Body, Builtin, Home, Section, between, constant, exactly, fixed, row};
use crate::error::{Stop, about, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::heap;
use crate::value::Value;
use crate::value::shape::watched;
use crate::value::text::grow_text;

/// The rows of this module.
pub const ROWS: &[Builtin] = &[
    row(
        ".contains",
        "interop.contains",
        Section::Interop,
        &[],
        exactly(2),
        "(.contains s substr)",
        "Returns true when a string contains another.",
        includes,
    ),
    row(
        ".endsWith",
        "interop.endsWith",
        Section::Interop,
        &[],
        exactly(2),
        "(.endsWith s suffix)",
        "Returns true when a string ends with a suffix.",
        ends_with,
    ),
    row(
        ".indexOf",
        "interop.indexOf",
        Section::Interop,
        &[],
        between(2, 3),
        "(.indexOf s substr), (.indexOf s substr from), (.indexOf s code-point), (.indexOf v item)",
        "Returns the index of the first occurrence, -1 when there is none.",
        first_index,
    ),
    row(
        ".lastIndexOf",
        "interop.lastIndexOf",
        Section::Interop,
        &[],
        between(2, 3),
        "(.lastIndexOf s substr), (.lastIndexOf s substr from), (.lastIndexOf s code-point)",
        "Returns the index of the last occurrence, -1 when there is none.",
        last_index,
    ),
    row(
        ".length",
        "interop.length",
        Section::Interop,
        &[],
        exactly(1),
        "(.length s)",
        "Returns the length of a string in graphemes.",
        length,
    ),
    row(
        ".startsWith",
        "interop.startsWith",
        Section::Interop,
        &[],
        between(2, 3),
        "(.startsWith s prefix), (.startsWith s prefix from)",
        "Returns true when a string, or its part from an index on, starts with a prefix.",
        starts_with_at,
    ),
    row(
        ".substring",
        "interop.substring",
        Section::Interop,
        &[],
        between(2, 3),
        "(.substring s start), (.substring s start end)",
        "Returns a part of a string; raises when an index is out of range.",
        substring,
    ),
    row(
        ".toLowerCase",
        "interop.toLowerCase",
        Section::Interop,
        &[],
        exactly(1),
        "(.toLowerCase s)",
        "Returns the string in lower case.",
        lower_case,
    ),
    row(
        ".toUpperCase",
        "interop.toUpperCase",
        Section::Interop,
        &[],
        exactly(1),
        "(.toUpperCase s)",
        "Returns the string in upper case.",
        upper_case,
    ),
    row(
        ".trim",
        "interop.text",
        Section::Interop,
        &[],
        exactly(1),
        "(.trim s)",
        "Returns the string without whitespace at both ends.",
        trim,
    ),
    row(
        ".strip",
        "interop.text",
        Section::Interop,
        &[],
        exactly(1),
        "(.strip s)",
        "Returns the string without whitespace at both ends.",
        trim,
    ),
    row(
        ".isBlank",
        "interop.text",
        Section::Interop,
        &[],
        exactly(1),
        "(.isBlank s)",
        "Returns true when a string holds nothing but whitespace.",
        |eval, args| { string(args, 0)?; is_blank(eval, args) },
    ),
    row(
        ".isEmpty",
        "interop.isEmpty",
        Section::Interop,
        &[],
        exactly(1),
        "(.isEmpty s)",
        "Returns true for an empty string or collection.",
        is_empty,
    ),
    row(
        ".charAt",
        "interop.charAt",
        Section::Interop,
        &[],
        exactly(2),
        "(.charAt s index)",
        "Returns the character at an index; raises when it is out of range.",
        char_at,
    ),
    row(
        ".concat",
        "interop.text",
        Section::Interop,
        &[],
        exactly(2),
        "(.concat s t)",
        "Returns two strings as one.",
        concat,
    ),
    row(
        ".repeat",
        "interop.repeat",
        Section::Interop,
        &[],
        exactly(2),
        "(.repeat s n)",
        "Returns a string so many times in a row.",
        repeat,
    ),
    row(
        ".replace",
        "interop.replaceAll",
        Section::Interop,
        &[],
        exactly(3),
        "(.replace s part replacement)",
        "Replaces every occurrence of a text by another.",
        replace_text,
    ),
    row(
        ".replaceAll",
        "interop.replaceAll",
        Section::Interop,
        &[],
        exactly(3),
        "(.replaceAll s pattern replacement)",
        "Replaces every match of a pattern, given as text.",
        replace_pattern,
    ),
    row(
        ".split",
        "interop.split",
        Section::Interop,
        &[],
        between(2, 3),
        "(.split s pattern), (.split s pattern limit)",
        "Cuts a string at every match of a pattern, given as text.",
        split_text,
    ),
    row(
        ".matches",
        "interop.split",
        Section::Interop,
        &[],
        exactly(2),
        "(.matches s pattern)",
        "Returns true when a pattern, given as text, matches the whole string.",
        matches_whole,
    ),
    row(
        ".equalsIgnoreCase",
        "interop.equals",
        Section::Interop,
        &[],
        exactly(2),
        "(.equalsIgnoreCase s t)",
        "Returns true when two strings differ in case at most.",
        equals_in_any_case,
    ),
    row(
        ".equals",
        "interop.equals",
        Section::Interop,
        &[],
        exactly(2),
        "(.equals a b)",
        "Returns true when two values are equal and of one kind.",
        equals,
    ),
    row(
        ".compareTo",
        "interop.compareTo",
        Section::Interop,
        &[],
        exactly(2),
        "(.compareTo a b)",
        "Returns -1, 0 or 1 as two values of one kind stand in order.",
        compare_to,
    ),
    row(
        ".toString",
        "interop.equals",
        Section::Interop,
        &[],
        exactly(1),
        "(.toString x)",
        "Returns the text of a value.",
        text_of,
    ),
    row(
        "Boolean/parseBoolean",
        "interop.Boolean/parseBoolean",
        Section::Interop,
        &[Home::Boolean],
        exactly(1),
        "(Boolean/parseBoolean s)",
        "Returns true for \"true\" in any case, false for any other string and nil.",
        parse_boolean,
    )
    .qualified(),
    row(
        "Integer/parseInt",
        "interop.Integer/parseInt",
        Section::Interop,
        &[Home::Integer],
        between(1, 2),
        "(Integer/parseInt s), (Integer/parseInt s radix)",
        "Reads an integer from text, in base 10 or another; nil when the text is not one.",
        parse_in_base,
    )
    .qualified(),
    row(
        "Long/parseLong",
        "interop.Long/parseLong",
        Section::Interop,
        &[Home::Long],
        between(1, 2),
        "(Long/parseLong s), (Long/parseLong s radix)",
        "Reads an integer from text, in base 10 or another; nil when the text is not one.",
        parse_in_base,
    )
    .qualified(),
    row(
        "Integer/toString",
        "interop.to-base",
        Section::Interop,
        &[Home::Integer],
        between(1, 2),
        "(Integer/toString n), (Integer/toString n radix)",
        "Writes an integer in base 10 or another.",
        to_string,
    )
    .qualified(),
    row(
        "Integer/toBinaryString",
        "interop.to-base",
        Section::Interop,
        &[Home::Integer],
        exactly(1),
        "(Integer/toBinaryString n)",
        "Writes an integer in base 2; a negative one as its 32 bits.",
        |_, args| unsigned(args, 32, 1),
    )
    .qualified(),
    row(
        "Integer/toOctalString",
        "interop.to-base",
        Section::Interop,
        &[Home::Integer],
        exactly(1),
        "(Integer/toOctalString n)",
        "Writes an integer in base 8; a negative one as its 32 bits.",
        |_, args| unsigned(args, 32, 3),
    )
    .qualified(),
    row(
        "Integer/toHexString",
        "interop.to-base",
        Section::Interop,
        &[Home::Integer],
        exactly(1),
        "(Integer/toHexString n)",
        "Writes an integer in base 16; a negative one as its 32 bits.",
        |_, args| unsigned(args, 32, 4),
    )
    .qualified(),
    fixed(
        "Integer/MAX_VALUE",
        "interop.bounds",
        Section::Interop,
        &[Home::Integer],
        "The greatest integer of 32 bits.",
        Body::Integer(i32::MAX as i64),
    )
    .qualified(),
    fixed(
        "Integer/MIN_VALUE",
        "interop.bounds",
        Section::Interop,
        &[Home::Integer],
        "The least integer of 32 bits.",
        Body::Integer(i32::MIN as i64),
    )
    .qualified(),
    row(
        "Long/toString",
        "interop.to-base",
        Section::Interop,
        &[Home::Long],
        between(1, 2),
        "(Long/toString n), (Long/toString n radix)",
        "Writes an integer in base 10 or another.",
        to_string,
    )
    .qualified(),
    row(
        "Long/toBinaryString",
        "interop.to-base",
        Section::Interop,
        &[Home::Long],
        exactly(1),
        "(Long/toBinaryString n)",
        "Writes an integer in base 2; a negative one as its 64 bits.",
        |_, args| unsigned(args, 64, 1),
    )
    .qualified(),
    row(
        "Long/toOctalString",
        "interop.to-base",
        Section::Interop,
        &[Home::Long],
        exactly(1),
        "(Long/toOctalString n)",
        "Writes an integer in base 8; a negative one as its 64 bits.",
        |_, args| unsigned(args, 64, 3),
    )
    .qualified(),
    row(
        "Long/toHexString",
        "interop.to-base",
        Section::Interop,
        &[Home::Long],
        exactly(1),
        "(Long/toHexString n)",
        "Writes an integer in base 16; a negative one as its 64 bits.",
        |_, args| unsigned(args, 64, 4),
    )
    .qualified(),
    fixed(
        "Long/MAX_VALUE",
        "interop.bounds",
        Section::Interop,
        &[Home::Long],
        "The greatest integer of 64 bits.",
        Body::Integer(i64::MAX),
    )
    .qualified(),
    fixed(
        "Long/MIN_VALUE",
        "interop.bounds",
        Section::Interop,
        &[Home::Long],
        "The least integer of 64 bits.",
        Body::Integer(i64::MIN),
    )
    .qualified(),
    row(
        "Character/isDigit",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isDigit c)",
        "Returns true for a decimal digit.",
        |_, args| Ok(Value::Bool(is_digit(character(args)?))),
    )
    .qualified(),
    row(
        "Character/isLetter",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isLetter c)",
        "Returns true for a letter.",
        |_, args| Ok(Value::Bool(is_letter(character(args)?))),
    )
    .qualified(),
    row(
        "Character/isLetterOrDigit",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isLetterOrDigit c)",
        "Returns true for a letter or a decimal digit.",
        |_, args| Ok(Value::Bool(is_letter_or_digit(character(args)?))),
    )
    .qualified(),
    row(
        "Character/isUpperCase",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isUpperCase c)",
        "Returns true for a letter in upper case.",
        |_, args| Ok(Value::Bool(char::is_uppercase(character(args)?))),
    )
    .qualified(),
    row(
        "Character/isLowerCase",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isLowerCase c)",
        "Returns true for a letter in lower case.",
        |_, args| Ok(Value::Bool(char::is_lowercase(character(args)?))),
    )
    .qualified(),
    row(
        "Character/isWhitespace",
        "interop.characters",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/isWhitespace c)",
        "Returns true for whitespace.",
        |_, args| Ok(Value::Bool(char::is_whitespace(character(args)?))),
    )
    .qualified(),
    row(
        "Character/getNumericValue",
        "interop.characters.value",
        Section::Interop,
        &[Home::Character],
        exactly(1),
        "(Character/getNumericValue c)",
        "Returns the value of a digit or of a letter from a, which is 10, to z; -1 for anything else.",
        |_, args| digit(args, 36),
    )
    .qualified(),
    row(
        "Character/digit",
        "interop.characters.value",
        Section::Interop,
        &[Home::Character],
        exactly(2),
        "(Character/digit c radix)",
        "Returns the value of a digit in a base, -1 when it is none.",
        |_, args| digit(args, radix(&args[1])?),
    )
    .qualified(),
    row(
        "Double/parseDouble",
        "interop.Double/parseDouble",
        Section::Interop,
        &[Home::Double],
        exactly(1),
        "(Double/parseDouble s)",
        "Reads a float from text; nil when the text is not one.",
        parse_double,
    )
    .qualified(),
    row(
        "Float/parseFloat",
        "interop.Float/parseFloat",
        Section::Interop,
        &[Home::Float],
        exactly(1),
        "(Float/parseFloat s)",
        "Reads a float from text; nil when the text is not one.",
        parse_double,
    )
    .qualified(),
    constant(
        "POSITIVE_INFINITY",
        "interop.Double/POSITIVE_INFINITY",
        Section::Interop,
        &[Home::Double],
        "The float above every other number.",
        f64::INFINITY,
    ),
    constant(
        "NEGATIVE_INFINITY",
        "interop.Double/NEGATIVE_INFINITY",
        Section::Interop,
        &[Home::Double],
        "The float below every other number.",
        f64::NEG_INFINITY,
    ),
    constant(
        "NaN",
        "interop.Double/NaN",
        Section::Interop,
        &[Home::Double],
        "The float that is not a number.",
        f64::NAN,
    ),
];

fn first_index(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let found = match args {
        [Value::Vector(items), item] => {
            let mut found = None;
            for (at, other) in items.iter().enumerate() {
                eval.charge(1)?;
                eval.walk_both(other, item)?;
                if crate::value::equal(other, item) {
                    found = Some(at);
                    break;
                }
            }
            found
        }
        _ => match is_character(args)? {
            true => index_of(eval, args)?,
            false => None,
        },
    };
    Ok(found.map_or(Value::Int(-1), Value::from))
}

fn last_index(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let found = match is_character(args)? {
        true => last_index_of(eval, args)?,
        false => None,
    };
    Ok(found.map_or(Value::Int(-1), Value::from))
}

/// Replaces a code point to search for by its character; returns false when no text can contain it.
fn is_character(args: &mut [Value]) -> Result<bool, Stop> {
    let [
        Value::Str(_),
        code @ (Value::Int(_) | Value::BigInt(_)),
        from @ ..,
    ] = args
    else {
        return Ok(true);
    };
    if let Some(from) = from.first() {
        index(from)?;
    }
    let character = u32::try_from(index(code)?).ok().and_then(char::from_u32);
    if let Some(character) = character {
        *code = Value::from(character.to_string());
    }
    Ok(character.is_some())
}

fn starts_with_at(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Some(from) = args.get(2) else {
        return starts_with(eval, args);
    };
    let (text, prefix) = (string(args, 0)?, string(args, 1)?);
    eval.charge(prefix.len() / 64 + text.seek_steps())?;
    let from = usize::try_from(index(from)?).ok();
    let from = from.and_then(|at| text.byte_offset(at));
    Ok(Value::Bool(
        from.is_some_and(|at| text[at..].starts_with(prefix.as_str())),
    ))
}

fn length(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    eval.charge(text.seek_steps())?;
    Ok(Value::from(text.count()))
}

fn substring(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let count = text.count();
    let start = position(args, 1, count)?;
    let end = match args.len() {
        3 => position(args, 2, count)?,
        _ => count as i64,
    };
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from <= to && to <= count => part(eval, text, from, to),
        _ => Err(bad_value(about(
            format!("{start} to {end} is out of range for a string of {count} characters"),
            match usize::try_from(start) {
                Ok(from) if from <= count && args.len() == 3 => &args[2],
                _ => &args[1],
            },
        ))),
    }
}

fn is_empty(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Ok(Value::Bool(match &args[0] {
        Value::Str(text) => text.is_empty(),
        Value::Vector(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Set(set) => set.is_empty(),
        other => return Err(wrong_type("a string or a collection", other)),
    }))
}

fn char_at(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let at = index(&args[1])?;
    let count = text.count();
    match usize::try_from(at) {
        Ok(at) if at < count => part(eval, text, at, at + 1),
        _ => Err(bad_value(quoting("", &args[1]).then(format!(
            " is out of range for a string of {count} characters"
        )))),
    }
}

fn concat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let mut out = String::new();
    push(eval, &mut out, string(args, 0)?)?;
    push(eval, &mut out, string(args, 1)?)?;
    Ok(Value::from(out))
}

/// The approximate number of bytes of repeated text that are appended at once.
const BLOCK_BYTES: usize = 4096;

fn repeat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let times = index(&args[1])?;
    if times < 0 {
        return Err(bad_value(quoting(
            "expected a count from 0, got ",
            &args[1],
        )));
    }
    let times = if text.is_empty() { 0 } else { times as usize };
    let Some(bytes) = text.len().checked_mul(times) else {
        return Err(eval.out_of_memory());
    };
    let mut out = String::new();
    eval.reserve(bytes)?;
    grow_text(&mut out, bytes);
    // Short text is appended many times at once.
    let at_once = (BLOCK_BYTES / text.len().max(1)).clamp(1, times.max(1));
    let block = text.as_str().repeat(at_once);
    for _ in 0..times / at_once {
        push(eval, &mut out, &block)?;
    }
    for _ in 0..times % at_once {
        push(eval, &mut out, text)?;
    }
    Ok(Value::from(out))
}

fn replace_text(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    for at in 0..3 {
        string(args, at)?;
    }
    replace(eval, args)
}

/// Replaces the text in argument 1 by a regex.
fn take_pattern(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<(), Stop> {
    string(args, 0)?;
    let regex = compiled(eval, string(args, 1)?)?;
    args[1] = Value::Regex(regex);
    Ok(())
}

fn replace_pattern(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    string(args, 2)?;
    take_pattern(eval, args)?;
    replace(eval, args)
}

fn split_text(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    take_pattern(eval, args)?;
    split(eval, args)
}

fn matches_whole(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    take_pattern(eval, args)?;
    args.swap(0, 1);
    Ok(Value::Bool(!re_matches(eval, args)?.is_nil()))
}

fn equals_in_any_case(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    string(args, 0)?;
    if args[1].is_nil() {
        return Ok(Value::Bool(false));
    }
    string(args, 1)?;
    let other = lower_case(eval, &mut args[1..])?;
    Ok(Value::Bool(lower_case(eval, &mut args[..1])? == other))
}

/// The receiver of a method that every value but nil has.
fn receiver(args: &[Value]) -> Result<&Value, Stop> {
    match &args[0] {
        Value::Nil => Err(wrong_type("a value", &args[0])),
        receiver => Ok(receiver),
    }
}

fn equals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    eval.walk(receiver(args)?)?;
    eval.walk(&args[1])?;
    Ok(Value::Bool(args[0] == args[1]))
}

/// The kind of a value that can be compared only with values of the same kind; `None` for a value without an order.
fn kind(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Str(_) => "string",
        Value::Keyword(_) => "keyword",
        Value::Symbol(_) => "symbol",
        Value::Bool(_) => "boolean",
        Value::Date(_) => "date",
        Value::Instant(_) => "instant",
        Value::Duration(_) => "duration",
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => "number",
        _ => return None,
    })
}

fn compare_to(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match (kind(&args[0]), kind(&args[1])) {
        (None, _) => Err(wrong_type(
            "a string, a number, a keyword, a boolean or a time",
            &args[0],
        )),
        (a, b) if a != b => Err(wrong_type("a value of the same kind", &args[1])),
        _ => compare(eval, args),
    }
}

fn text_of(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    receiver(args)?;
    str(eval, args)
}

/// The index in argument `at`, for text of `count` characters; floats lose their fraction.
fn position(args: &[Value], at: usize, count: usize) -> Result<i64, Stop> {
    match &args[at] {
        Value::Float(float) if float.is_finite() => Ok(*float as i64),
        Value::Int(index) => Ok(*index),
        large @ Value::BigInt(_) => {
            let problem = format!("expected an index from 0 to {count}, got ");
            Err(bad_value(quoting(problem, large)))
        }
        other => Err(wrong_type("an integer", other)),
    }
}

/// The base for writing numbers, from 2 to 36.
fn radix(value: &Value) -> Result<u32, Stop> {
    match index(value)? {
        base @ 2..=36 => Ok(base as u32),
        _ => Err(bad_value(quoting("a base is from 2 to 36, got ", value))),
    }
}

fn parse_in_base(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Some(base) = args.get(1) else {
        return parse_long(eval, args);
    };
    let base = radix(base)?;
    let Value::Str(text) = &args[0] else {
        return Ok(Value::Nil);
    };
    eval.charge(text.len() / 16)?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let zeros = watched(unsigned.bytes().take_while(|byte| *byte == b'0')).count();
    let digits = &unsigned[zeros..];
    /// The number of digits of the longest integer, which is in base 2.
    const DIGITS_MAX: usize = 64;
    if unsigned.is_empty() || digits.len() > DIGITS_MAX {
        return Ok(Value::Nil);
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let short = format!("{sign}0{digits}");
    Ok(i64::from_str_radix(&short, base).map_or(Value::Nil, Value::Int))
}

fn to_string(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let base = args.get(1).map_or(Ok(10), radix)?;
    match &args[0] {
        Value::Int(int) if base != 10 => {
            let mut left = int.unsigned_abs();
            let mut digits = Vec::new();
            while left > 0 || digits.is_empty() {
                let digit = (left % u64::from(base)) as u32;
                digits.push(char::from_digit(digit, base).unwrap_or('0'));
                left /= u64::from(base);
            }
            if *int < 0 {
                digits.push('-');
            }
            Ok(Value::from(digits.iter().rev().collect::<String>()))
        }
        Value::Int(_) | Value::BigInt(_) if base == 10 => {
            let mut out = String::new();
            append_text(eval, &mut out, &args[0])?;
            Ok(Value::from(out))
        }
        Value::BigInt(_) => Err(bad_value(about(
            "only an integer of 64 bits has other bases than 10",
            &args[0],
        ))),
        other => Err(wrong_type("an integer", other)),
    }
}

/// The integer in argument 0 as an unsigned number of `width` bits, in digits of `bits` bits each.
fn unsigned(args: &[Value], width: u32, bits: u32) -> Result<Value, Stop> {
    let Value::Int(int) = &args[0] else {
        return Err(wrong_type("an integer of 64 bits", &args[0]));
    };
    let word = match width {
        32 => match i32::try_from(*int) {
            Ok(int) => u64::from(int.cast_unsigned()),
            Err(_) => {
                return Err(bad_value(about(
                    format!("{int} has more than 32 bits: use Long instead of Integer"),
                    &args[0],
                )));
            }
        },
        _ => int.cast_unsigned(),
    };
    Ok(Value::from(match bits {
        1 => format!("{word:b}"),
        3 => format!("{word:o}"),
        _ => format!("{word:x}"),
    }))
}

/// The character in argument 0: a string of one character, or a code point.
fn character(args: &[Value]) -> Result<char, Stop> {
    let found = match &args[0] {
        Value::Str(text) if text.graphemes().take(2).count() == 1 => text.chars().next(),
        Value::Int(code) => u32::try_from(*code).ok().and_then(char::from_u32),
        _ => None,
    };
    found.ok_or_else(|| wrong_type("a character (a string of one)", &args[0]))
}

static LETTERS: LazyLock<ClassUnicode> = LazyLock::new(|| heap::aside(|| class(r"\p{L}")));
static DIGITS: LazyLock<ClassUnicode> = LazyLock::new(|| heap::aside(|| class(r"\p{Nd}")));

/// The characters of a class in regex syntax.
fn class(pattern: &str) -> ClassUnicode {
    match regex_syntax::parse(pattern).map(Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        _ => ClassUnicode::empty(),
    }
}

fn is_in(class: &ClassUnicode, character: char) -> bool {
    let ranges = class.ranges();
    let behind = ranges.partition_point(|range| range.start() <= character);
    behind > 0 && character <= ranges[behind - 1].end()
}

fn is_letter(character: char) -> bool {
    is_in(&LETTERS, character)
}

fn is_letter_or_digit(character: char) -> bool {
    is_letter(character) || is_digit(character)
}

fn is_digit(character: char) -> bool {
    is_in(&DIGITS, character)
}

/// The value of the digit in argument 0; -1 if it is not a digit.
fn digit(args: &[Value], base: u32) -> Result<Value, Stop> {
    let character = character(args)?;
    let found = character.to_digit(base).or_else(|| {
        // The digits of a script are consecutive and in order.
        let ranges = DIGITS.ranges();
        let behind = ranges.partition_point(|range| range.start() <= character);
        let range = ranges[..behind].last()?;
        let value = (u32::from(character) - u32::from(range.start())) % 10;
        (character <= range.end() && value < base).then_some(value)
    });
    Ok(found.map_or(Value::Int(-1), |value| Value::Int(i64::from(value))))
}

fn parse_boolean(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match &args[0] {
        Value::Nil => Ok(Value::Bool(false)),
        Value::Str(text) => Ok(Value::Bool(text.eq_ignore_ascii_case("true"))),
        other => Err(wrong_type("a string or nil", other)),
    }
}
