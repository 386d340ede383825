//! Programs made from bytes by a grammar that knows the tables of builtins and special forms. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_lang::fuzz::generated(data));
