//! PTC-Lisp. Knows nothing of I/O, clocks, randomness or threads' owners.

pub mod form;
pub mod fuzz;
pub mod reader;
