//! The result of one case: the verdict with its evidence.
//! Knows nothing of how the case was tried, nor how it is reported.

use std::time::Duration;

use crate::judge;
use crate::suite::Case;
use crate::target::Answer;
use crate::target::fault::Fault;
use crate::target::link::Failed;
use crate::traffic::{Direction, Traffic};
use crate::verdict::{Mismatch, Verdict};

use super::start::Refusal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// What came of it.
    pub verdict: Verdict,
    /// A word that is finer than the verdict: what kind of trouble the target made.
    pub cause: Option<&'static str>,
    /// The bytes that went each way.
    pub traffic: Vec<Traffic>,
    /// The end of the target's error output.
    pub stderr: String,
    /// Whether the case was tried alone, besides its trial in company.
    pub seen_alone: bool,
    /// The error messages that the target gave, whatever the case expects of them.
    pub messages: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Trial {
    /// A case that came to this verdict without any traffic.
    pub fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            cause: None,
            traffic: Vec::new(),
            stderr: String::new(),
            seen_alone: false,
            messages: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// A case that the harness could not try.
    pub fn harness(message: impl Into<String>) -> Self {
        Self::of(Verdict::HarnessError {
            message: message.into(),
        })
    }

    /// A case for which the target was not even started.
    pub fn refused(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NotClaimed(reason) => Self::of(Verdict::NotClaimed {
                capability: reason.clone(),
            }),
            Refusal::Harness(message) => Self::harness(message.as_str()),
        }
    }

    /// A case that met a fault.
    pub fn faulted(fault: &Fault, sent: &str, stderr: String, answered: bool) -> Self {
        let mut traffic = Vec::new();
        if !sent.is_empty() {
            traffic.push(Traffic::new(Direction::Sent, sent));
        }
        traffic.extend(lines_of(fault));
        Self {
            cause: Some(fault.name()),
            traffic,
            stderr,
            ..Self::of(fault.verdict(answered))
        }
    }

    /// A case that met a fault when the target was started or asked.
    pub fn failed(failed: &Failed, stderr: String, answered: bool) -> Self {
        Self::faulted(&failed.0, &failed.1, stderr, answered)
    }

    /// A case that was answered.
    pub fn answered(verdict: Verdict, answer: &Answer, stderr: String) -> Self {
        let mut traffic = vec![Traffic::new(Direction::Sent, &answer.sent)];
        traffic.extend(answer.strays.iter().flat_map(lines_of));
        traffic.push(Traffic::new(Direction::Received, &answer.received));
        Self {
            traffic,
            stderr,
            messages: judge::error_messages(&answer.received),
            took: answer.took,
            ..Self::of(verdict)
        }
    }

    /// What became of it and what the target wrote to standard error, for people.
    pub fn told(&self) -> String {
        match self.stderr.trim_end() {
            "" => self.verdict.message(),
            stderr => format!("{}\nits standard error:\n{stderr}", self.verdict.message()),
        }
    }

    /// The trial of a case that failed beside others, as `first` says, and was tried again.
    pub fn tried_again(mut self, first: &str) -> Self {
        let note = format!("tried again alone, after it had failed beside others: {first}");
        match &mut self.verdict {
            Verdict::Pass { unobserved } => unobserved.push(note),
            Verdict::Fail(mismatch) => mismatch.observed.push_str(&format!(" ({note})")),
            Verdict::Crashed { detail }
            | Verdict::TimedOut { detail }
            | Verdict::Silent { detail }
            | Verdict::Junk { detail } => detail.push_str(&format!(" ({note})")),
            _ => {}
        }
        self
    }

    /// Fails a case that passed when an error message shows text of the host.
    pub fn in_own_words(mut self, case: &Case) -> Self {
        if self.verdict.is_pass()
            && let Some(mismatch) = judge::own_words(case, &self.messages)
        {
            self.verdict = Verdict::Fail(mismatch);
        }
        self
    }

    /// A fault that a case met among others, when it met none alone.
    pub fn not_seen_alone(mut self) -> Self {
        self.seen_alone = true;
        if let Verdict::Crashed { detail } | Verdict::Junk { detail } = &mut self.verdict {
            detail.push_str(" (asked again alone, of a target just started, it was answered)");
        }
        self
    }
}

/// A step of a transcript that did not come out as the case says.
pub fn unmet(mismatch: Mismatch, line: u32) -> Verdict {
    Verdict::Fail(Mismatch {
        line: Some(line),
        ..mismatch
    })
}

/// What the target wrote, as far as a fault shows it.
fn lines_of(fault: &Fault) -> Vec<Traffic> {
    match fault {
        Fault::Junk { line, .. } | Fault::Stray { line } | Fault::Malformed { line, .. } => {
            vec![Traffic::new(Direction::Received, line)]
        }
        Fault::Overlong { head, .. } => vec![Traffic::new(Direction::Received, head)],
        Fault::Then { first, then } => {
            let mut lines = lines_of(first);
            lines.extend(lines_of(then));
            lines
        }
        _ => Vec::new(),
    }
}
