//! Fuzzes the time limit with hostile programs. The checks are in the function that it calls.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;

ptc_lang::counting_allocator!();

/// Wall-clock time since the first call.
fn wall_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// CPU time of this thread; wall-clock time where the system does not report it.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanos = stat
        .ok()
        .and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(wall_time, Duration::from_nanos)
}

fuzz_target!(|data: &[u8]| {
    // Sanitizers and coverage counters make everything several times slower.
    let gauge = ptc_lang::fuzz::Gauge {
        cpu_time,
        wall_time,
        limit: Duration::from_millis(60),
        gap: Duration::from_millis(300),
        end: Duration::from_secs(1),
        work: || {},
    };
    ptc_lang::fuzz::hostile(data, &gauge);
});
