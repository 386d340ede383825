//! Fuzzes programs that a grammar generates from bytes, using the tables of builtins and special forms. The checks are in the function
//! that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_lang::fuzz::generated_program(data));
