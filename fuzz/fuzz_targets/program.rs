//! Programs as text, run under limits. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|text: &str| ptc_lang::fuzz::eval(text));
