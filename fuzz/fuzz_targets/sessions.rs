//! Fuzzes sequences of actions by clients, sessions and upstreams, on a simulated clock. The checks are in the simulation.
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
