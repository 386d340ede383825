//! The ways to reach an implementation under test: a process over stdio, a server over HTTP, a library behind an adapter.
//! Knows nothing of cases or verdicts, and nothing of any one implementation but how to start it.

pub mod capability;
pub mod claims;
pub mod fault;
pub mod frame;
pub mod http;
pub mod launch;
pub mod lines;
pub mod link;
pub mod pipe;
pub mod process;
pub mod program;
pub mod raw;
pub mod reference;
pub mod sse;

use std::time::Duration;

use fault::Fault;

/// One answered request, with the bytes exchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The frame that was sent.
    pub sent: String,
    /// The frame that answered it.
    pub received: String,
    /// What the target wrote unsolicited before the answer arrived.
    pub strays: Vec<Fault>,
    /// Time from sending to the answer.
    pub took: Duration,
}

/// How long the harness waits for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From starting the process to its first answer.
    pub start: Duration,
    /// From a request to its answer.
    pub reply: Duration,
    /// From the end of input, or from `exit`, to the end of the process.
    pub exit: Duration,
    /// How long to watch for silence where a case asserts it.
    pub silence: Duration,
    /// Factor by which every wait is multiplied, including those that cases ask for (`within 2s`).
    pub factor: u32,
}

impl Patience {
    /// A wait, multiplied by the factor.
    pub fn stretched(&self, wait: Duration) -> Duration {
        wait.saturating_mul(self.factor)
    }

    /// The wait that a case asks for, or else `usual`, which is already multiplied.
    pub fn within(&self, asked_ms: Option<u64>, usual: Duration) -> Duration {
        asked_ms.map_or(usual, |ms| self.stretched(Duration::from_millis(ms)))
    }

    /// As [`Self::within`] for a process, whose first answer also has to wait for it to start.
    pub fn of_process(&self, asked_ms: Option<u64>, answered: bool) -> Duration {
        let usual = match answered {
            true => self.reply,
            false => self.reply.max(self.start),
        };
        self.within(asked_ms, usual)
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            reply: Duration::from_secs(10),
            exit: Duration::from_secs(5),
            silence: Duration::from_millis(150),
            factor: 1,
        }
    }
}
