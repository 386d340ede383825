//! Fuzzes JSON-RPC frames on a stream that is split anywhere. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ptc_rpc::fuzz::frames(data));
