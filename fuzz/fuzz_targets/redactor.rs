//! Fuzzes the redactor against a slow model. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_secrets::fuzz::lines(text));
