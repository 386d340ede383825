//! The `ptc` command. Everything is in the library, so that it can be tested.

use std::process::ExitCode;

ptc::counting_allocator!();

fn main() -> ExitCode {
    let mut arguments = Vec::new();
    for (index, word) in std::env::args_os().enumerate().skip(1) {
        match word.into_string() {
            Ok(word) => arguments.push(word),
            Err(_) => return ptc::unreadable_argument(index),
        }
    }
    ptc::main(&arguments)
}
