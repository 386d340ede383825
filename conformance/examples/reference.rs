//! The reference server, built as a part of this crate's tests, so that `cargo test -p conformance` works by itself.
//! The library and the command never link it, because they would inherit the faults that they have to find.

use std::process::ExitCode;

ptc_commands::counting_allocator!();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    ptc_commands::main(&arguments)
}
