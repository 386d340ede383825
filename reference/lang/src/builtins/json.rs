//! JSON functions of programs. Knows nothing of how JSON is read and written.

use super::{Builtin, Home, Section, exactly, row};
use crate::error::{Limit, Stop};
use crate::eval::Eval;
use crate::json::{Duplicates, Problem, WriteError, read, to_string_within};
use crate::value::Value;

/// The rows of this area.
pub const ROWS: &[Builtin] = &[
    row(
        "json/parse-string",
        "json.parse-string",
        Section::Json,
        &[Home::Json],
        exactly(1),
        "(json/parse-string s)",
        "Reads JSON text; nil when the text is not JSON.",
        parse_string,
    )
    .qualified(),
    row(
        "json/generate-string",
        "json.generate-string",
        Section::Json,
        &[Home::Json],
        exactly(1),
        "(json/generate-string v)",
        "Writes a value as JSON text; nil when JSON cannot carry it.",
        generate_string,
    )
    .qualified(),
];

fn parse_string(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Value::Str(text) = &args[0] else {
        return Ok(Value::Nil);
    };
    eval.charge(text.len() / 16)?;
    match read(text, Duplicates::Last, eval.room()) {
        Ok(value) => Ok(value),
        Err(error) if error.problem == Problem::Memory => Err(eval.out_of_memory()),
        Err(_) => Ok(Value::Nil),
    }
}

fn generate_string(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    eval.walk(&args[0])?;
    match to_string_within(&args[0], eval.room()) {
        Ok(text) => Ok(Value::from(text)),
        Err(WriteError::TooLong) => Err(eval.out_of_memory()),
        Err(WriteError::TooMuchWork) => Err(Limit::Time.into()),
        Err(WriteError::Path(_)) => Ok(Value::Nil),
    }
}
