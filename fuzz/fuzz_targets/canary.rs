//! Must fail: shows that a violated property is found at all. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    assert!(!data.starts_with(b"(x)"), "the canary sings");
});
