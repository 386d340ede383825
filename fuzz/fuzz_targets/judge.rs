//! Fuzzes the judge's own parsers of JSON and of printed values. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| conformance::fuzz::check_values(data));
