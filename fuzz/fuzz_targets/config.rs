//! Upstream configurations. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_upstream::fuzz::config(text));
