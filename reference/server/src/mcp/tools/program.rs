//! The arguments that describe a program, validated in order: `program`, `context`, `signature`, `output_schema`.
//!
//! Knows the wording of both tools that take a program (`mcp.lisp_eval.arguments`); runs nothing.

use super::argument::{Argument, ArgumentFault, Shape};
use crate::evaluation::Programs;
use crate::settings::ResponseProfile;
use ptc_rpc::{Json, JsonKind, JsonText};
use std::sync::Arc;

/// What tools that run programs get.
#[derive(Clone)]
pub struct ProgramContext {
    pub programs: Arc<Programs>,
    pub profile: ResponseProfile,
    pub limits: ArgumentLimits,
}

/// Limits of the arguments that describe a program.
#[derive(Clone, Copy)]
pub struct ArgumentLimits {
    /// Bytes of the longest program.
    pub program_bytes: usize,
    /// Bytes of the largest context, as compact JSON.
    pub context_bytes: usize,
}

/// The validated arguments of a program.
pub struct Arguments {
    /// The program's text, untrimmed.
    pub program: String,
    /// The context as compact JSON; `{}` when there is none.
    pub context: JsonText,
    /// The output schema as JSON text.
    pub output_schema: Option<String>,
}

pub const PROGRAM: Argument = Argument::required(
    "program",
    Shape::Text,
    "PTC-Lisp source code. Not empty after trimming.",
);

/// The values that the program reads.
pub const CONTEXT: Argument = Argument::optional(
    "context",
    Shape::Map,
    "Optional map of values that the program reads as data/NAME. Keys are strings, values any JSON.",
);

/// The schema that the returned value must match, with the tool's own description.
pub const fn schema_argument(about: &'static str) -> Argument {
    Argument::optional("output_schema", Shape::Object, about)
}

/// Validates the arguments of `lisp_eval`.
///
/// # Errors
/// The first argument that is wrong.
pub fn validate(
    arguments: Option<Json<'_>>,
    limits: ArgumentLimits,
) -> Result<Arguments, ArgumentFault> {
    let arguments = arguments
        .filter(|arguments| arguments.kind() == JsonKind::Object)
        .unwrap_or(Json::EMPTY_OBJECT);
    let program = arguments
        .get("program")
        .ok_or(ArgumentFault::Missing("program"))?;
    PROGRAM.validate(program)?;
    let program = program.as_str().unwrap_or_default();
    if program.trim().is_empty() {
        return Err(ArgumentFault::Empty("program"));
    }
    if program.len() > limits.program_bytes {
        return Err(ArgumentFault::TooLong {
            name: "program",
            bytes: program.len(),
            bytes_max: limits.program_bytes,
        });
    }
    let context = context(arguments, limits.context_bytes)?;
    no_signature(arguments)?;
    Ok(Arguments {
        program: program.into_owned(),
        context,
        output_schema: output_schema(arguments)?,
    })
}

/// Refuses the argument that `output_schema` replaced.
///
/// # Errors
/// What is wrong with it.
pub fn no_signature(arguments: Json<'_>) -> Result<(), ArgumentFault> {
    match arguments.get("signature") {
        Some(_) => Err(ArgumentFault::Signature),
        None => Ok(()),
    }
}

/// Maximum bytes of an argument that is read into a tree before a program runs, as compact JSON: so much can be read at once.
const TREE_BYTES_MAX: usize = 256 << 10;

/// The compact form of an argument that is read into a tree.
///
/// # Errors
/// That it is too long.
pub fn compact_tree(argument: &Argument, given: Json<'_>) -> Result<JsonText, ArgumentFault> {
    let too_long = |bytes| ArgumentFault::JsonTooLong {
        name: argument.name,
        bytes,
        bytes_max: TREE_BYTES_MAX,
    };
    given
        .compact_within(TREE_BYTES_MAX, |_| {})
        .map_err(too_long)
}

/// The output schema, which must be an object when present.
///
/// # Errors
/// What is wrong with it.
pub fn output_schema(arguments: Json<'_>) -> Result<Option<String>, ArgumentFault> {
    match arguments.get("output_schema") {
        None => Ok(None),
        Some(schema) => {
            let argument = schema_argument("");
            argument.validate(schema)?;
            compact_tree(&argument, schema).map(|schema| Some(schema.into()))
        }
    }
}

/// The context as compact JSON; `{}` when there is none.
///
/// # Errors
/// What is wrong with it.
pub fn context(arguments: Json<'_>, bytes_max: usize) -> Result<JsonText, ArgumentFault> {
    let given = match arguments.get("context") {
        Some(context) if !context.is_null() => context,
        _ => return Ok(JsonText::EMPTY_OBJECT),
    };
    CONTEXT.validate(given)?;
    let compact = compact_context(given, bytes_max);
    let (context, bad_key) = compact.map_err(|bytes| ArgumentFault::TooLong {
        name: "context",
        bytes,
        bytes_max,
    })?;
    match bad_key {
        None => Ok(context),
        Some(key) if key.is_empty() => Err(ArgumentFault::EmptyKey),
        Some(key) => Err(ArgumentFault::KeyWithSlash(key)),
    }
}

/// The context in compact form, and the smallest of its keys that no program could name.
///
/// # Errors
/// The bytes of a context that is longer than `bytes_max`.
pub fn compact_context(
    context: Json<'_>,
    bytes_max: usize,
) -> Result<(JsonText, Option<String>), usize> {
    let mut bad: Option<String> = None;
    let compact = context.compact_within(bytes_max, |name| {
        let nameless = name.is_empty() || name.contains('/');
        if nameless && bad.as_deref().is_none_or(|least| name < least) {
            bad = Some(name.to_owned());
        }
    })?;
    Ok((compact, bad))
}

#[cfg(test)]
mod tests;
