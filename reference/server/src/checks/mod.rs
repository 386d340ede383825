//! What tests and fuzzers drive: the whole server under a scheduler of theirs, and its HTTP side under hostile bytes.

pub mod fuzz;
pub mod passes;
pub mod simulate;
