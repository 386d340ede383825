//! Hostile programs by the clock. Knows nothing of what is checked: the function does.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

/// Time that went by since it was asked for first.
fn passed() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Time that this thread has been running; where the system does not tell, time that went by.
fn spent() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanos = stat
        .ok()
        .and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(passed, Duration::from_nanos)
}

fuzz_target!(|data: &[u8]| {
    // Sanitizers and counters make everything some times as slow.
    let gauge = ptc_lang::fuzz::Gauge {
        spent,
        passed,
        limit: Duration::from_millis(60),
        gap: Duration::from_millis(300),
        end: Duration::from_secs(1),
        work: || {},
    };
    ptc_lang::fuzz::hostile(data, &gauge);
});
