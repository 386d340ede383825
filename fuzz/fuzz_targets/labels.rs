//! Fuzzes argument and result labels of schemas. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_upstream::fuzz::labels(text));
