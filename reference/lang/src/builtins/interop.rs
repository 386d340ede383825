//! Java names that programs use out of habit: methods of strings, static members, constants.
//! Temporal ones are in `time`.

use super::strings::{
    ends_with, includes, index_of, last_index_of, lower_case, parse_double, parse_long, part,
    starts_with, string, upper_case,
};
use super::{Builtin, Home, Section, between, constant, exactly, row};
use crate::error::{Stop, bad_value, wrong_type};
use crate::eval::Eval;
use crate::value::Value;

/// The rows of this area.
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
        "(.indexOf s substr), (.indexOf s substr from), (.indexOf v item)",
        "Returns the index of the first occurrence, -1 when there is none.",
        first_index,
    ),
    row(
        ".lastIndexOf",
        "interop.lastIndexOf",
        Section::Interop,
        &[],
        exactly(2),
        "(.lastIndexOf s substr)",
        "Returns the index of the last occurrence, -1 when there is none.",
        |eval, args| Ok(last_index_of(eval, args)?.map_or(Value::Int(-1), Value::from)),
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
        exactly(2),
        "(.startsWith s prefix)",
        "Returns true when a string starts with a prefix.",
        starts_with,
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
        exactly(1),
        "(Integer/parseInt s)",
        "Reads an integer from text; nil when the text is not one.",
        parse_long,
    )
    .qualified(),
    row(
        "Long/parseLong",
        "interop.Long/parseLong",
        Section::Interop,
        &[Home::Long],
        exactly(1),
        "(Long/parseLong s)",
        "Reads an integer from text; nil when the text is not one.",
        parse_long,
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
        _ => index_of(eval, args)?,
    };
    Ok(found.map_or(Value::Int(-1), Value::from))
}

fn length(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    eval.charge(text.seek_steps())?;
    Ok(Value::from(text.count()))
}

fn substring(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let text = string(args, 0)?;
    let count = text.count();
    let start = position(args, 1)?;
    let end = match args.len() {
        3 => position(args, 2)?,
        _ => count as i64,
    };
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from <= to && to <= count => part(eval, text, from, to),
        _ => Err(bad_value(format!(
            "{start} to {end} is out of range for a string of {count} characters"
        ))),
    }
}

/// The index at `at`; floats lose their fraction.
fn position(args: &[Value], at: usize) -> Result<i64, Stop> {
    match &args[at] {
        Value::Float(float) if float.is_finite() => Ok(*float as i64),
        Value::Int(index) => Ok(*index),
        other => Err(wrong_type("an integer", other)),
    }
}

fn parse_boolean(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    match &args[0] {
        Value::Nil => Ok(Value::Bool(false)),
        Value::Str(text) => Ok(Value::Bool(text.eq_ignore_ascii_case("true"))),
        other => Err(wrong_type("a string or nil", other)),
    }
}
