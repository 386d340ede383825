//! The `ptc` command. Everything is in `ptc-commands`, which can be tested and is optimised for size.

use std::process::ExitCode;

ptc_commands::counting_allocator!();

fn main() -> ExitCode {
    let mut arguments = Vec::new();
    for (index, word) in std::env::args_os().enumerate().skip(1) {
        match word.into_string() {
            Ok(word) => arguments.push(word),
            Err(_) => return ptc_commands::unreadable_argument(index),
        }
    }
    ptc_commands::main(&arguments)
}
