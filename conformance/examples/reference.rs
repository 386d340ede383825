//! The reference server, built as a part of this crate's tests, so that `cargo test -p conformance` alone works.
//! The library and the command never link it: they would inherit the faults that they must find.

use std::process::ExitCode;

ptc_commands::counting_allocator!();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    ptc_commands::main(&arguments)
}
