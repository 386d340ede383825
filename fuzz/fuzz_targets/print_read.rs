//! What is printed is read back as the same value. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_lang::fuzz::print_read(data));
