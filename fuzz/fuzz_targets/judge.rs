//! The judge's own readers of JSON and of printed values. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| conformance::fuzz::check_values(data));
