//! Sequences of what clients, sessions and upstreams may do, on a clock of their own. Knows nothing of what is checked: the simulation does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptc_server::checks::simulate::{self, Choices};

ptc_lang::counting_allocator!();

fuzz_target!(|data: &[u8]| {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    simulate::run(executor, Choices::Bytes(data.to_vec().into_iter()), true);
});
