//! JSON text: scanned once, then navigated in place or built into values; and the writer of its strings and floats.
//!
//! A [`Json`] is a slice of text that is known to be one JSON value, so looking into it cannot fail, nothing is built until it is
//! asked for, and nothing is checked twice: a [`Visitor`] makes of it what it wants. Nesting is bounded by the text alone: every
//! walk is iterative. Knows nothing of JSON-RPC, and of no value type but its own text. Everything that reads or writes JSON
//! stands on it.

#![forbid(unsafe_code)]

mod compact;
pub mod passes;
mod scan;
mod view;
mod write;

pub use scan::{Container, Quoted, Scalar, Stopped, SyntaxError, Visitor, scan};
pub use view::{
    Document, Elements, Json, JsonKind, JsonText, Malformed, Members, PARTS_BETWEEN_LOOKS, Unread,
    parse, parse_while,
};
pub use write::{Escaped, escaped, escaped_in_lower_case, float, write_float, write_string};

#[cfg(test)]
mod tests;
