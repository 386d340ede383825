//! A clock that stands still while the thread waits for a processor, so that limits of time can be
//! tested on a busy machine. Knows nothing of programs.
#![expect(
    clippy::disallowed_methods,
    reason = "a test has no host that knows the time"
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Time that went by since it was asked for first.
pub fn passed() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Time that this thread has been running; where the system does not tell, time that went by.
pub fn spent() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanos = stat
        .ok()
        .and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(passed, Duration::from_nanos)
}
