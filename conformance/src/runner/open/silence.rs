//! Shortens the waits of open cases while a server answers nothing, so that a run against one that has stopped does not wait the full time
//! for each of them. A case that times out is retried alone with the full wait, so a slow server loses nothing. Knows nothing of cases.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::trial::Trial;
use crate::target::Patience;

/// Waits are shortened after this many consecutive cases that timed out without a byte.
pub const SILENT_CASES_MAX: usize = 3;
/// The part of a wait that remains.
const SHORTENED_BY: u32 = 5;

/// The number of consecutive cases that timed out without a byte.
#[derive(Debug, Default)]
pub struct Silence(AtomicUsize);

impl Silence {
    /// Counts a case, and begins anew when the server has sent anything. Returns whether waits are shortened from now on.
    pub fn observe(&self, trial: &Trial) -> bool {
        if trial.is_silent() {
            self.0.fetch_add(1, Ordering::Relaxed) + 1 == SILENT_CASES_MAX
        } else {
            self.0.store(0, Ordering::Relaxed);
            false
        }
    }

    /// How long the next case may wait.
    pub fn patience(&self, full: Patience) -> Patience {
        if self.0.load(Ordering::Relaxed) < SILENT_CASES_MAX {
            return full;
        }
        Patience {
            start: full.start / SHORTENED_BY,
            reply: full.reply / SHORTENED_BY,
            ..full
        }
    }

    /// What the user is told when waits are shortened.
    pub fn notice(full: Patience) -> String {
        format!(
            "the target sent nothing in {SILENT_CASES_MAX} cases in a row; until it answers again, a case waits {} ms instead of {} ms, \
             and what times out is tried again at the end",
            (full.reply / SHORTENED_BY).as_millis(),
            full.reply.as_millis()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Direction, Traffic};
    use crate::verdict::Verdict;

    fn timed_out(received: &[&str]) -> Trial {
        let received = received.iter();
        Trial {
            traffic: received
                .map(|text| Traffic::new(Direction::Received, *text))
                .collect(),
            ..Trial::of(Verdict::TimedOut {
                detail: String::new(),
            })
        }
    }

    #[test]
    fn waits_are_full_again_after_any_byte() {
        let (silence, full) = (Silence::default(), Patience::default());
        let observed: Vec<bool> = (0..4).map(|_| silence.observe(&timed_out(&[]))).collect();
        assert_eq!(observed, [false, false, true, false]);
        assert_eq!(silence.patience(full).reply, full.reply / SHORTENED_BY);
        assert!(!silence.observe(&timed_out(&["{}"])));
        assert_eq!(silence.patience(full), full);
        silence.observe(&timed_out(&[]));
        silence.observe(&Trial::of(Verdict::pass()));
        silence.observe(&timed_out(&[]));
        silence.observe(&timed_out(&[]));
        assert_eq!(silence.patience(full), full);
    }
}
