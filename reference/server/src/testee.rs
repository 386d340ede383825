//! `ptc testee`: the library's operations over standard input and output. The tables are the crates'.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use ptc_protocol::Operation;

/// Every operation that this build answers, one table a crate.
pub const OPERATIONS: &[&[Operation]] = &[ptc_protocol::OPERATIONS, ptc_agent::OPERATIONS];

/// Serves until the input ends.
pub fn serve(_: &[String]) -> ExitCode {
    match ptc_agent::serve_operations(OPERATIONS, stdin().lock(), stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // A caller that went away has what it wanted.
        Err(_) => ExitCode::SUCCESS,
    }
}
