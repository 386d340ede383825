//! Fuzzes HTTP requests: where each ends, and what its headers say about its origin and its body. The checks are in the function that it
//! calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_server::checks::fuzz::http(data));
