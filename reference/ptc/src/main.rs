//! The `ptc` command. Everything is in the library, so that it can be tested.

use std::process::ExitCode;

ptc::counting_allocator!();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    ptc::main(&arguments)
}
