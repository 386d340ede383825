//! JSON-RPC 2.0 over bytes: frames, ids, errors and newline framing.
//!
//! Serves both sides: the server reads requests and writes replies, upstream clients do the reverse.
//! Knows nothing of MCP methods, transports, or PTC-Lisp values; holds no secrets and does no I/O.

#![forbid(unsafe_code)]

mod frame;
mod framing;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod fuzz;

#[cfg(feature = "checks")]
#[doc(hidden)]
pub use ptc_json::passes;

pub use frame::{
    Frame, FrameFault, ID_BYTES_MAX, Id, RpcError, write_error, write_notification, write_request,
    write_result,
};
pub use framing::{Framer, Line};
pub use ptc_json::{
    Document, Elements, Json, JsonKind, JsonText, Malformed, Members, PARTS_BETWEEN_LOOKS,
    ParseError, parse, parse_while, write_float, write_string,
};
