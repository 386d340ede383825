//! The transcript of an exchange, and the reasons why one ends before its last step. Knows nothing of how frames travel.

use tokio::time::Instant;

use crate::judge;
use crate::suite::{Captures, Text};
use crate::target::fault::Fault;
use crate::traffic::{Direction, Traffic};
use crate::verdict::{Mismatch, Verdict};

use super::trial::Trial;

/// Frames and remarks that a transcript keeps; a case has fewer steps, and a target that goes on and on is not written down.
const FRAMES_MAX: usize = 4096;

/// Why a transcript ended before its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The case is decided.
    Verdict(Verdict),
    /// The target did not do its part.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was said and captured so far.
#[derive(Debug, Default)]
pub struct Record {
    /// The bytes that went each way.
    pub traffic: Vec<Traffic>,
    /// Values captured by holes.
    pub captures: Captures,
    /// Whether the target ever answered.
    pub answered: bool,
    /// Whether something was sent before what had gone ahead of it was answered.
    pub overtaken: bool,
    /// The error messages among what was received.
    pub messages: Vec<String>,
}

impl Record {
    /// The trial of a case that took since `began`: passed, unless something stopped it. The target's error output
    /// is kept only where it explains something.
    pub fn concluded(
        self,
        stopped: Option<Stop>,
        began: Instant,
        stderr: impl FnOnce() -> String,
    ) -> Trial {
        let (verdict, cause) = match stopped {
            None => (Verdict::pass(), None),
            Some(Stop::Verdict(verdict)) => (verdict, None),
            Some(Stop::Fault(fault)) => (fault.verdict(self.answered), Some(fault.name())),
        };
        Trial {
            stderr: if verdict.is_pass() {
                String::new()
            } else {
                stderr()
            },
            verdict,
            cause,
            traffic: self.traffic,
            messages: self.messages,
            seen_alone: false,
            overtaken: self.overtaken,
            took: began.elapsed(),
        }
    }

    /// Notes what was sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.push(Direction::Sent, &String::from_utf8_lossy(bytes));
    }

    pub fn received(&mut self, text: &str) {
        self.answered = true;
        if self.traffic.len() < FRAMES_MAX {
            self.messages.extend(judge::error_messages(text));
        }
        self.push(Direction::Received, text);
    }

    /// Notes what else happened.
    pub fn note(&mut self, text: &str) {
        self.push(Direction::Note, text);
    }

    /// The bytes of a text, with captures filled in.
    ///
    /// # Errors
    /// A verdict about the fixture, when the text cannot be made.
    pub fn bytes(&self, text: &Text) -> Result<Vec<u8>, Stop> {
        text.bytes(&self.captures)
            .map_err(|fault| harness(format!("the step cannot be sent: {fault}")))
    }

    fn push(&mut self, direction: Direction, text: &str) {
        if self.traffic.len() < FRAMES_MAX {
            self.traffic.push(Traffic::new(direction, text));
        }
    }
}

/// A verdict of failure at a line of the fixture.
pub fn unmet(line: u32, mismatch: Mismatch) -> Stop {
    Stop::Verdict(super::trial::unmet(mismatch, line))
}

/// A failure in words.
pub fn differs(line: u32, what: &str, expected: &str, observed: &str) -> Stop {
    unmet(
        line,
        Mismatch {
            what: what.to_owned(),
            expected: expected.to_owned(),
            observed: observed.to_owned(),
            diff: String::new(),
            clause: None,
            line: None,
        },
    )
}

/// A verdict about the fixture, or about the harness.
pub fn harness(message: impl Into<String>) -> Stop {
    Stop::Verdict(Verdict::HarnessError {
        message: message.into(),
    })
}
