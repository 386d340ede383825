//! Fuzzes snapshots of sessions, whole and with bytes changed. The checks are in the function that it calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| ptc_lang::fuzz::snapshot(data));
