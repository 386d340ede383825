//! `format`: directives as on the JVM. Knows nothing of other text functions.
//!
//! Floats are rounded from their exact value, halves away from zero. Memory for widths and precisions is reserved
//! before it is filled.

use super::strings::{append_text, in_upper_case, push, string};
use super::{Builtin, Home, Section, at_least, row};
use crate::error::{Stop, bad_value, wrong_type};
use crate::eval::Eval;
use crate::value::shape::watched;
use crate::value::{Text, Value};

/// The rows of this module.
pub const ROWS: &[Builtin] = &[row(
    "format",
    "format.format",
    Section::Strings,
    &[Home::String, Home::Core],
    at_least(1),
    "(format fmt-string & args)",
    "Formats values with a format string of %s, %d, %f and the other directives.",
    format,
)];

/// The directives, with the flags that each accepts.
const DIRECTIVES: &[(char, &str)] = &[
    ('s', "-"),
    ('d', "-0+ (,"),
    ('f', "-0+ (,"),
    ('e', "-0+ ("),
    ('g', "-0+ (,"),
    ('x', "-0+ (#"),
    ('o', "-0+ (#"),
    ('b', "-"),
    ('c', "-"),
    ('n', ""),
    ('%', "-"),
    ('S', "-"),
    ('E', "-0+ ("),
    ('G', "-0+ (,"),
    ('X', "-0+ (#"),
    ('B', "-"),
    ('C', "-"),
];

/// A directive of a format string.
struct Directive<'t> {
    flags: &'t str,
    width: usize,
    precision: Option<usize>,
    conversion: char,
    argument: Argument,
    /// `%S`: whether the text is converted to upper case.
    upper: bool,
}

/// The argument that a directive formats.
#[derive(Clone, Copy)]
enum Argument {
    /// The next argument, not counting numbered ones.
    Next,
    /// `%1$s`, from 1.
    At(usize),
    /// `%<s`: the argument of the previous directive.
    Again,
}

impl Directive<'_> {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

fn format(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let template = string(args, 0)?;
    let mut values = args[1..].iter();
    let mut last = None;
    let mut out = String::new();
    let mut rest = template.as_str();
    while let Some(at) = memchr::memchr(b'%', rest.as_bytes()) {
        push(eval, &mut out, &rest[..at])?;
        let (directive, behind) = parse(&rest[at..])?;
        rest = behind;
        eval.charge(1)?;
        let value = match directive.conversion {
            '%' | 'n' => &Value::Nil,
            _ => {
                let value = match directive.argument {
                    Argument::Next => values.next(),
                    Argument::At(at) => args.get(at),
                    Argument::Again => last,
                };
                last = value;
                value.ok_or_else(|| {
                    let why = match directive.argument {
                        Argument::Again => "no directive before it takes one".to_owned(),
                        _ => format!("{} given, more wanted", args.len() - 1),
                    };
                    bad_value(format!("%{} has no argument: {why}", directive.conversion))
                })?
            }
        };
        fill(eval, &mut out, &directive, value)?;
    }
    push(eval, &mut out, rest)?;
    Ok(Value::from(out))
}

/// The directive that `text` starts with, and the text after it.
fn parse(text: &str) -> Result<(Directive<'_>, &str), Stop> {
    let mut body = &text[1..];
    // Digits before a `$` are an argument number; otherwise they are parsed as flags and width.
    let digits = watched(body.bytes().take_while(u8::is_ascii_digit)).count();
    let position = body[digits..].strip_prefix('$').and_then(|behind| {
        let number = body[..digits].parse().ok().filter(|number| *number > 0)?;
        body = behind;
        Some(Argument::At(number))
    });
    let flags_end = body
        .find(|character| !"-0+ (,#<".contains(character))
        .unwrap_or(body.len());
    let (flags, mut rest) = body.split_at(flags_end);
    let argument = match flags.contains('<') {
        true => Argument::Again,
        false => position.unwrap_or(Argument::Next),
    };
    let mut number = || {
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let (digits, behind) = rest.split_at(end);
        rest = behind;
        // A number beyond any memory size is treated like the largest one.
        (!digits.is_empty()).then(|| digits.parse::<usize>().unwrap_or(usize::MAX))
    };
    let width = number();
    let mut precision = None;
    let mut dangling = false;
    if let Some(behind) = rest.strip_prefix('.') {
        rest = behind;
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        dangling = end == 0;
        precision = Some(rest[..end].parse().unwrap_or(usize::MAX));
        rest = &rest[end..];
    }
    let conversion = rest.chars().next();
    let behind = &rest[conversion.map_or(0, char::len_utf8)..];
    let written = &text[..text.len() - behind.len()];
    let refused = |problem: &str| bad_value(format!("{problem}: {written}"));
    let Some((conversion, allowed)) = DIRECTIVES
        .iter()
        .find(|(known, _)| Some(*known) == conversion)
    else {
        return Err(refused(
            "unknown directive, known are %s %d %f %e %g %x %o %b %c %n %%",
        ));
    };
    let doubled = flags
        .chars()
        .enumerate()
        .any(|(at, flag)| flags[..at].contains(flag));
    let contradictory = ["-0", "+ "]
        .iter()
        .any(|pair| pair.chars().all(|flag| flags.contains(flag)));
    let has_argument = !matches!(conversion, '%' | 'n');
    let fits = |flag| allowed.contains(flag) || flag == '<' && has_argument;
    if doubled || contradictory || !flags.chars().all(fits) {
        return Err(refused("flags that do not go together"));
    }
    if width.is_none() && flags.contains(['-', '0']) || *conversion == 'n' && width.is_some() {
        return Err(refused("a width is missing or out of place"));
    }
    if dangling
        || precision.is_some()
            && !matches!(conversion.to_ascii_lowercase(), 's' | 'f' | 'e' | 'g' | 'b')
    {
        return Err(refused("a precision is missing or out of place"));
    }
    let directive = Directive {
        flags,
        width: width.unwrap_or(0),
        precision,
        conversion: conversion.to_ascii_lowercase(),
        argument,
        upper: conversion.is_ascii_uppercase(),
    };
    Ok((directive, behind))
}

fn fill(
    eval: &mut Eval<'_>,
    out: &mut String,
    directive: &Directive<'_>,
    value: &Value,
) -> Result<(), Stop> {
    let mut text = String::new();
    match directive.conversion {
        'n' => return push(eval, out, "\n"),
        '%' => text.push('%'),
        's' => append_text(eval, &mut text, value)?,
        'b' => text.push_str(if value.truthy() { "true" } else { "false" }),
        'c' => match value {
            Value::Str(character) if character.count() == 1 => text.push_str(character),
            other => return Err(wrong_type("a character for %c", other)),
        },
        _ => {
            let start = out.len();
            number(eval, out, directive, value)?;
            if directive.upper {
                out[start..].make_ascii_uppercase();
            }
            return Ok(());
        }
    }
    if let Some(precision) = directive.precision
        && let Some(end) = Text::from(text.as_str()).byte_offset(precision)
    {
        text.truncate(end);
    }
    if directive.upper {
        // Before padding: one letter may become two.
        text = in_upper_case(eval, &text)?;
    }
    padded(eval, out, directive, "", &text, "", ' ')
}

/// The number of bits that are written in a power-of-two base in about the time of one step.
const DIGIT_BITS: usize = 32;

fn number(
    eval: &mut Eval<'_>,
    out: &mut String,
    directive: &Directive<'_>,
    value: &Value,
) -> Result<(), Stop> {
    let (negative, mut digits) = match (directive.conversion, value) {
        ('d', Value::Int(_) | Value::BigInt(_)) => decimal(eval, value)?,
        // An integer is never a negative zero: adding zero removes the sign.
        ('d', Value::Float(float)) if float.fract() == 0.0 => {
            unsigned(format!("{:.0}", float + 0.0))
        }
        ('x', Value::Int(integer)) => (*integer < 0, format!("{:x}", integer.unsigned_abs())),
        ('o', Value::Int(integer)) => (*integer < 0, format!("{:o}", integer.unsigned_abs())),
        ('x', Value::BigInt(integer)) => {
            eval.charge(integer.bits() as usize / DIGIT_BITS)?;
            unsigned(integer.to_str_radix(16))
        }
        ('o', Value::BigInt(integer)) => {
            eval.charge(integer.bits() as usize / DIGIT_BITS)?;
            unsigned(integer.to_str_radix(8))
        }
        ('f' | 'e' | 'g', Value::Float(float)) if !float.is_finite() => {
            let text = if float.is_nan() { "NaN" } else { "Infinity" };
            let (before, after) = match float.is_nan() {
                true => ("", ""),
                false => signs(directive, *float < 0.0),
            };
            return padded(eval, out, directive, before, text, after, ' ');
        }
        ('f', Value::Float(float)) => (
            float.is_sign_negative(),
            fixed(eval, float.abs(), directive.precision)?,
        ),
        ('f', Value::Int(_) | Value::BigInt(_)) => {
            let (negative, mut digits) = decimal(eval, value)?;
            let precision = directive.precision.unwrap_or(PRECISION);
            if precision > 0 {
                digits.push('.');
                zeros(eval, &mut digits, precision)?;
            }
            (negative, digits)
        }
        ('e', Value::Float(float)) => (
            float.is_sign_negative(),
            scientific(eval, float.abs(), directive.precision)?,
        ),
        ('e', Value::Int(_) | Value::BigInt(_)) => {
            let (negative, digits) = decimal(eval, value)?;
            let precision = directive.precision.unwrap_or(PRECISION);
            (negative, scientific_integer(eval, &digits, precision)?)
        }
        ('g', Value::Float(float)) => (
            float.is_sign_negative(),
            general(eval, float.abs(), directive.precision)?,
        ),
        ('g', Value::Int(_) | Value::BigInt(_)) => {
            let (negative, digits) = decimal(eval, value)?;
            (
                negative,
                general_integer(eval, digits, directive.precision)?,
            )
        }
        ('d', other) => return Err(wrong_type("an integer for %d", other)),
        ('x', other) => return Err(wrong_type("an integer for %x", other)),
        ('o', other) => return Err(wrong_type("an integer for %o", other)),
        ('e', other) => return Err(wrong_type("a number for %e", other)),
        ('g', other) => return Err(wrong_type("a number for %g", other)),
        (_, other) => return Err(wrong_type("a number for %f", other)),
    };
    if directive.has(',') {
        digits = grouped(eval, &digits)?;
    }
    let (sign, after) = signs(directive, negative);
    let base = match directive.conversion {
        'x' if directive.has('#') => "0x",
        'o' if directive.has('#') => "0",
        _ => "",
    };
    let fill = if directive.has('0') { '0' } else { ' ' };
    padded(
        eval,
        out,
        directive,
        &[sign, base].concat(),
        &digits,
        after,
        fill,
    )
}

/// The signs before and after a number.
fn signs(directive: &Directive<'_>, negative: bool) -> (&'static str, &'static str) {
    match negative {
        true if directive.has('(') => ("(", ")"),
        true => ("-", ""),
        false if directive.has('+') => ("+", ""),
        false if directive.has(' ') => (" ", ""),
        false => ("", ""),
    }
}

/// Appends `before`, `text` and `after`, padded to the width.
fn padded(
    eval: &mut Eval<'_>,
    out: &mut String,
    directive: &Directive<'_>,
    before: &str,
    text: &str,
    after: &str,
    fill: char,
) -> Result<(), Stop> {
    // Counting takes long for long texts, and is needed only for the width.
    let missing = match directive.width {
        0 => 0,
        width => {
            let length = before.len() + after.len() + Text::from(text).count();
            width.saturating_sub(length)
        }
    };
    eval.charge(8 + (text.len() + missing) / 64)?;
    eval.reserve(out.capacity().saturating_add(missing))?;
    let padding = |out: &mut String, here: bool| {
        if here {
            out.extend(std::iter::repeat_n(fill, missing));
        }
    };
    let left = directive.has('-');
    padding(out, !left && fill == ' ');
    out.push_str(before);
    padding(out, !left && fill == '0');
    push(eval, out, text)?;
    out.push_str(after);
    padding(out, left);
    Ok(())
}

/// The default number of decimal places, or of digits for `%g`.
const PRECISION: usize = 6;
/// The largest number of decimal places of a double.
const EXACT_PLACES: usize = 1_074;

/// Whether an integer is negative, and its digits.
fn decimal(eval: &mut Eval<'_>, value: &Value) -> Result<(bool, String), Stop> {
    let mut text = String::new();
    append_text(eval, &mut text, value)?;
    Ok(unsigned(text))
}

fn unsigned(text: String) -> (bool, String) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits.to_owned()),
        None => (false, text),
    }
}

fn zeros(eval: &mut Eval<'_>, out: &mut String, count: usize) -> Result<(), Stop> {
    eval.reserve(count.saturating_add(out.capacity()))?;
    out.extend(std::iter::repeat_n('0', count));
    Ok(())
}

/// `value`, which is not negative, in decimal notation.
fn fixed(eval: &mut Eval<'_>, value: f64, precision: Option<usize>) -> Result<String, Stop> {
    let precision = precision.unwrap_or(PRECISION);
    let places = precision.min(EXACT_PLACES);
    eval.charge(8 + places / 8)?;
    let mut text = format!("{value:.places$}");
    // Only a value that ends exactly in a half was rounded to even.
    let longer = format!("{value:.*}", places + 1);
    if longer.ends_with('5') && longer.parse() == Ok(value) && is_exact(&longer, value) {
        text = rounded_up(&longer[..longer.len() - 1]);
    }
    zeros(eval, &mut text, precision - places)?;
    Ok(text)
}

/// `value`, which is not negative, with one digit before the point and an exponent.
fn scientific(eval: &mut Eval<'_>, value: f64, precision: Option<usize>) -> Result<String, Stop> {
    let precision = precision.unwrap_or(PRECISION);
    let places = precision.min(EXACT_PLACES);
    eval.charge(8 + places / 8)?;
    let text = format!("{value:.places$e}");
    let longer = format!("{value:.*e}", places + 1);
    let (mut mantissa, mut exponent) = halves(&text);
    let (longer_mantissa, longer_exponent) = halves(&longer);
    if longer_mantissa.ends_with('5') && longer.parse() == Ok(value) && is_exact(&longer, value) {
        mantissa = rounded_up(&longer_mantissa[..longer_mantissa.len() - 1]);
        exponent = longer_exponent;
        if mantissa.starts_with("10") {
            // The carry added a second digit before the point.
            mantissa = format!("{:.places$}", 1.0);
            exponent += 1;
        }
    }
    zeros(eval, &mut mantissa, precision - places)?;
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()))
}

/// The exponent below which `%g` uses scientific notation.
const GENERAL_EXPONENT_MIN: i32 = -4;

/// `value`, which is not negative, with this many significant digits: in decimal notation unless it is very small or
/// has more digits before its point.
fn general(eval: &mut Eval<'_>, value: f64, precision: Option<usize>) -> Result<String, Stop> {
    let digits = precision.unwrap_or(PRECISION).max(1);
    if value == 0.0 {
        return fixed(eval, value, Some(digits - 1));
    }
    let text = scientific(eval, value, Some(digits - 1))?;
    let (_, exponent) = halves(&text);
    match i32::try_from(digits) {
        Ok(digits) if exponent >= digits || exponent < GENERAL_EXPONENT_MIN => Ok(text),
        Err(_) if exponent < GENERAL_EXPONENT_MIN => Ok(text),
        _ => {
            let places = (digits - 1).saturating_add_signed(-exponent as isize);
            fixed(eval, value, Some(places))
        }
    }
}

/// Like [`general`], for an integer with these digits.
fn general_integer(
    eval: &mut Eval<'_>,
    mut digits: String,
    precision: Option<usize>,
) -> Result<String, Stop> {
    let wanted = precision.unwrap_or(PRECISION).max(1);
    if digits.len() > wanted {
        return scientific_integer(eval, &digits, wanted - 1);
    }
    let places = wanted - digits.len();
    if places > 0 {
        digits.push('.');
        zeros(eval, &mut digits, places)?;
    }
    Ok(digits)
}

/// An integer with these digits in scientific notation, with one digit before the point.
fn scientific_integer(eval: &mut Eval<'_>, digits: &str, precision: usize) -> Result<String, Stop> {
    let mut exponent = digits.len() - 1;
    let kept = precision.saturating_add(1).min(digits.len());
    let mut mantissa = digits[..kept].to_owned();
    if digits
        .as_bytes()
        .get(kept)
        .is_some_and(|next| *next >= b'5')
    {
        mantissa = rounded_up(&mantissa);
        if mantissa.len() > kept {
            mantissa.pop();
            exponent += 1;
        }
    }
    if precision > 0 {
        mantissa.insert(1, '.');
        zeros(eval, &mut mantissa, precision + 1 - kept)?;
    }
    Ok(format!("{mantissa}e+{exponent:02}"))
}

fn halves(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

/// Whether the decimal `text` is exactly `value`.
fn is_exact(text: &str, value: f64) -> bool {
    let exact = if text.contains('e') {
        format!("{value:.EXACT_PLACES$e}")
    } else {
        format!("{value:.EXACT_PLACES$}")
    };
    let (text, exact) = (halves(text), halves(&exact));
    text.1 == exact.1
        && exact
            .0
            .strip_prefix(text.0.as_str())
            .is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'))
}

/// The decimal `text`, incremented in its last place.
fn rounded_up(text: &str) -> String {
    let mut digits: Vec<u8> = text.trim_end_matches('.').bytes().collect();
    for digit in digits.iter_mut().rev() {
        match digit {
            b'.' => {}
            b'9' => *digit = b'0',
            _ => {
                *digit += 1;
                return String::from_utf8(digits).unwrap_or_default();
            }
        }
    }
    digits.insert(0, b'1');
    String::from_utf8(digits).unwrap_or_default()
}

/// Digits with commas between groups of three.
fn grouped(eval: &mut Eval<'_>, digits: &str) -> Result<String, Stop> {
    let whole_length = digits.find(['.', 'e']).unwrap_or(digits.len());
    eval.reserve(digits.len().saturating_mul(2))?;
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && at < whole_length && (whole_length - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    Ok(out)
}
