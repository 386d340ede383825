//! HTTP requests: where each ends, and what it says about where it comes from and what it carries. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_server::checks::fuzz::http(data));
