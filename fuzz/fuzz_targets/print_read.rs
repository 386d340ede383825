//! Fuzzes printing: what is printed reads back as the same value. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_lang::fuzz::print_read(data));
