//! What an HTTP request says about where it comes from and what it carries. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ptc_server::fuzz::http(text));
