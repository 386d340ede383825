//! A clock that stops while the thread waits for a processor, so that time limits can be tested on a busy machine.
//! Knows nothing of programs.
#![expect(
    clippy::disallowed_methods,
    reason = "a test has no host that knows the time"
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Wall-clock time since the first call.
#[allow(dead_code, reason = "not every test asks for it")]
pub fn wall_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
