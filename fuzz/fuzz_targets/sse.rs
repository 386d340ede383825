//! Server-Sent Events on a stream that is cut anywhere. Knows nothing of what is checked: the function does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ptc_upstream::fuzz::sse(data));
