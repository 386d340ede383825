//! The redactor against a slow model. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_secrets::fuzz::lines(text));
