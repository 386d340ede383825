//! Fuzzes fixture pages and corpus files. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| conformance::fuzz::check_fixture(data));
