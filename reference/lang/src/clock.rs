//! Checks the clock in code that has no evaluator at hand: comparisons, counting graphemes, reading and writing values.
//! Knows nothing of limits: the host decides whether the program may continue.
//!
//! A loop that learns here that it has to stop returns any result. Nobody ever sees such a result: the evaluator checks
//! the clock itself before anything observable happens, and after the last expression.

use std::cell::Cell;

use crate::error::{Limit, Stop};
use crate::host::{Host, Pulse};

/// The meter of work inside a builtin.
pub trait WorkMeter {
    /// Meters `steps` of a few nanoseconds each. Fails when the program has to stop.
    fn work(&mut self, steps: usize) -> Result<(), Stop>;

    /// Reserves `bytes` before they are allocated.
    fn reserve(&mut self, bytes: usize) -> Result<(), Stop>;
}

/// Steps of a few nanoseconds each between two checks.
const STEPS: u32 = 4 * 1024;

scoped_tls_hkt::scoped_thread_local!(static HOST: for<'h> &'h dyn Host);

thread_local! {
    static STEPS_LEFT: Cell<u32> = const { Cell::new(STEPS) };
    /// The result of the last check.
    static LAST_PULSE: Cell<Pulse> = const { Cell::new(Pulse::Continue) };
}

/// Runs `inside`. All metered work that it does on this thread asks `host` whether it may continue.
pub fn within<T>(host: &dyn Host, inside: impl FnOnce() -> T) -> T {
    let (last_pulse, left) = (
        LAST_PULSE.replace(Pulse::Continue),
        STEPS_LEFT.replace(STEPS),
    );
    let result = HOST.set(host, inside);
    LAST_PULSE.set(last_pulse);
    STEPS_LEFT.set(left);
    result
}

/// Counts `steps` of a few nanoseconds each. Returns false when the program has to stop.
#[inline]
pub fn may_continue(steps: usize) -> bool {
    match u32::try_from(steps)
        .ok()
        .and_then(|steps| STEPS_LEFT.get().checked_sub(steps))
    {
        Some(left) => {
            STEPS_LEFT.set(left);
            true
        }
        None => poll(),
    }
}

/// [`may_continue`] as a `Result`.
#[inline]
pub fn check(steps: usize) -> Result<(), Stop> {
    if may_continue(steps) {
        return Ok(());
    }
    Err(LAST_PULSE.get().limit().err().unwrap_or(Limit::Time).into())
}

/// Runs `inside`, which takes less than a millisecond and must not stop early, without any check. Does not run it when
/// the program already has to stop.
pub fn uninterrupted(inside: impl FnOnce()) {
    if !has_stopped() {
        let left = STEPS_LEFT.replace(u32::MAX);
        inside();
        STEPS_LEFT.set(left);
    }
}

/// Whether a check found that the program has to stop.
pub fn has_stopped() -> bool {
    LAST_PULSE.get() != Pulse::Continue
}

#[cold]
#[inline(never)]
fn poll() -> bool {
    if has_stopped() {
        return false;
    }
    STEPS_LEFT.set(STEPS);
    if HOST.is_set() {
        LAST_PULSE.set(HOST.with(|host| host.pulse()));
    }
    if has_stopped() {
        // The next check fails at once.
        STEPS_LEFT.set(0);
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct CountingHost(AtomicU32);

    impl Host for CountingHost {
        fn now_micros(&self) -> i64 {
            0
        }

        fn pulse(&self) -> Pulse {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0..3 => Pulse::Continue,
                _ => Pulse::Cancelled,
            }
        }
    }

    #[test]
    fn work_stops_at_a_check_and_stays_stopped() {
        let host = CountingHost(AtomicU32::new(0));
        within(&host, || {
            let done = (0..100)
                .take_while(|_| may_continue(STEPS as usize / 2))
                .count();
            assert_eq!(done, 2 + 3 * 3);
            assert!(has_stopped() && !may_continue(1) && check(1).is_err());
            within(&host, || assert!(!has_stopped() && may_continue(1)));
            assert!(has_stopped());
        });
        assert!(!has_stopped() && may_continue(usize::MAX), "nobody to ask");
        assert_eq!(host.0.into_inner(), 4);
    }
}
