//! JSON functions of programs. Knows nothing of how JSON is read and written.

use super::{Builtin, Home, Section, exactly, row};
use crate::error::Stop;
use crate::eval::Eval;
use crate::json::{Duplicates, Problem, WriteError, read, write};
use crate::sink::{Sink, SinkError};
use crate::value::Value;

/// The rows of this module.
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
    match read(text, Duplicates::Last, eval.watch()) {
        Ok(value) => Ok(value),
        Err(error) => match error.problem {
            Problem::Limit(limit) => Err(limit.into()),
            Problem::Integer => Err(eval.out_of_memory()),
            _ => Ok(Value::Nil),
        },
    }
}

fn generate_string(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    eval.walk(&args[0])?;
    let mut out = Sink::new(String::new(), usize::MAX, eval.watch());
    match write(&mut out, &args[0]) {
        Ok(()) => Ok(Value::from(out.into_text())),
        Err(WriteError::Sink(SinkError::Limit(limit))) => Err(limit.into()),
        Err(WriteError::Sink(SinkError::Bytes)) => Err(eval.out_of_memory()),
        Err(WriteError::Path(_)) => Ok(Value::Nil),
    }
}
