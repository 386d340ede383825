//! Entry points for tests and fuzzers: the whole server under their own scheduler, and its HTTP side under hostile bytes.

pub mod fuzz;
pub mod passes;
pub mod simulate;
