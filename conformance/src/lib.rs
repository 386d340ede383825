//! Decides, with evidence, whether an implementation of the PTC-Lisp MCP server family conforms.
//! Depends on nothing of the reference: it would inherit the faults that it must find.

pub mod target;
