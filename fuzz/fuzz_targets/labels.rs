//! Argument and result labels of schemas. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_upstream::fuzz::labels(text));
