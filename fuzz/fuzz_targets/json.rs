//! Fuzzes the conversion of JSON text to values and back. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|text: &str| ptc_lang::fuzz::json(text));
