//! Must fail: shows that a broken promise is found at all. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    assert!(!data.starts_with(b"(x)"), "the canary sings");
});
