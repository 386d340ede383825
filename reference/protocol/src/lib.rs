//! The wire format of `lisp_eval`: payloads, signatures, JSON values, tool descriptions.
//!
//! One place for what all surfaces share: in-process agents, the MCP server, other libraries. Knows nothing of transports,
//! sessions, models or upstreams.
//!
//! - Answers: [`members`] has their objects as types, [`Payload`] scrubs and writes all of them; [`render_success`],
//!   [`render_success_from_step`] and [`render_error`] (over the closed [`ErrorReason`]) do both in one step.
//! - Types: [`parse_signature`], [`validate_return`], [`atomize_value`], [`json_schema_to_type`], [`type_to_json_schema`].
//! - Values at the boundary: [`to_json_value`], [`json_to_value`], [`format_value`], [`shorten`], [`coerce_input`],
//!   [`canonical`].
//! - The tool itself: [`validate_program`], [`tool_description`], and the language, re-exported as [`lang`].

mod canonical;
mod closest;
mod coerce;
mod description;
pub mod digest;
mod encoding;
mod feedback;
mod format;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod fuzz;
mod history;
mod json_value;
pub mod limits;
mod lisp_text;
pub mod members;
mod payload;
mod program;
mod reason;
mod returns;
mod schema;
mod signature;
pub mod stack;
mod step;
mod typed;

#[cfg(test)]
ptc_lang::counting_allocator!();

pub use canonical::{canonical, integral};
pub use closest::closest_of;
pub use coerce::{CoerceFault, Coerced, coerce_input};
pub use description::{PROFILES, Profile, tool_description};
pub use encoding::{EncodingError, append_encoded, decode_value, encode_value, encoded_bytes};
pub use feedback::{
    Execution, MemoryDelta, PreviewOptions, Turns, UNTRUSTED_PREAMBLE, differs, execution_feedback,
    execution_feedback_within, preview, untrusted_block,
};
pub use format::{FormatOptions, Formatted, format_value, format_value_within};
pub use history::{HISTORY_SIZE_MAX, shorten, size_units};
pub use json_value::{NotJson, json_to_value, to_json_value};
pub use payload::{Field, Name, Payload, Preview, Word};
pub use program::{InvalidProgram, validate_program};
pub use ptc_lang as lang;
pub use reason::ErrorReason;
pub use returns::{
    Mismatch, Segment, describe_mismatches, validate_return, validate_return_within,
};
pub use schema::{
    SchemaFault, json_schema_to_type, parameters_schema, provider_schema, tool_definition,
    type_to_json_schema,
};
pub use signature::{Prim, Signature, SignatureError, Type, parse_signature};
pub use step::{
    Step, StepOptions, SuccessOptions, render_error, render_success, render_success_from_step,
};
pub use typed::{atomize_value, parse_instant};
