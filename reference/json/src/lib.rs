//! JSON text: scanned once, then navigated in place or built into values; and the writer of its strings and floats.
//!
//! A [`Json`] is a slice of text that is known to be one JSON value, so navigating it can't fail, nothing is built before it is
//! requested, and nothing is checked twice: a [`Visitor`] builds what it needs. Nesting is bounded only by the text: every walk
//! is iterative. Knows nothing of JSON-RPC, and of no value type except its own text. Programs' values, frames and upstreams'
//! answers are read and written with this crate.

#![forbid(unsafe_code)]

mod compact;
pub mod passes;
mod scan;
mod view;
mod write;

pub use scan::{Container, Quoted, Scalar, Stopped, SyntaxError, Visitor, scan};
pub use view::{
    Document, Elements, Json, JsonKind, JsonText, Malformed, Members, PARTS_BETWEEN_LOOKS,
    ParseError, parse, parse_while,
};
pub use write::{Escaped, escaped, escaped_in_lower_case, float, write_float, write_string};

#[cfg(test)]
mod tests;
