//! The result of one case: the verdict with its evidence.
//! Knows nothing of how the case was run or how it is reported.

use std::time::Duration;

use crate::cut;
use crate::judge;
use crate::suite::Case;
use crate::target::Answer;
use crate::target::fault::Fault;
use crate::target::link::FailedRequest;
use crate::target::process::STDERR_TAIL_BYTES;
use crate::traffic::{Direction, TRIED_AGAIN, Traffic};
use crate::verdict::{Mismatch, Verdict};

use super::start::Refusal;

/// Frames of a transcript that are kept at its beginning, and at its end.
const FRAMES_FIRST: usize = 16;
const FRAMES_LAST: usize = 112;
/// Precedes a target's standard error in a text for display.
pub const STDERR_FOLLOWS: &str = "its standard error:";
/// Number of remarks on unobservable parts that are kept.
const REMARKS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub verdict: Verdict,
    /// A word more specific than the verdict: the kind of fault.
    pub cause: Option<&'static str>,
    /// The bytes exchanged in both directions.
    pub traffic: Vec<Traffic>,
    /// The target's standard error.
    pub stderr: String,
    /// Whether the case was retried alone after a concurrent trial.
    pub seen_alone: bool,
    /// Whether messages were sent before earlier ones were answered, on a transport that does not keep their order: then timing decides it.
    pub overtaken: bool,
    /// The error messages in the target's answers, whether or not the case checks them.
    pub messages: Vec<String>,
    /// Duration of the case.
    pub took: Duration,
}

impl Trial {
    /// A case with this verdict and no traffic.
    pub fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            cause: None,
            traffic: Vec::new(),
            stderr: String::new(),
            seen_alone: false,
            overtaken: false,
            messages: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// A case that the harness could not run.
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

    /// A case that ended with a fault.
    pub fn faulted(fault: &Fault, sent: &str, stderr: String, answered: bool) -> Self {
        let mut traffic = Vec::new();
        if !sent.is_empty() {
            traffic.push(Traffic::new(Direction::Sent, sent));
        }
        traffic.extend(traffic_of(fault));
        Self {
            cause: Some(fault.name()),
            traffic,
            stderr,
            ..Self::of(fault.verdict(answered))
        }
    }

    /// A case that ended with a fault when the target was started or sent a request.
    pub fn failed(failed: &FailedRequest, stderr: String, answered: bool) -> Self {
        Self::faulted(&failed.0, &failed.1, stderr, answered)
    }

    /// A case that was answered.
    pub fn answered(verdict: Verdict, answer: &Answer, stderr: String) -> Self {
        let mut traffic = vec![Traffic::new(Direction::Sent, &answer.sent)];
        traffic.extend(answer.strays.iter().flat_map(traffic_of));
        traffic.push(Traffic::new(Direction::Received, &answer.received));
        Self {
            traffic,
            stderr,
            messages: judge::error_messages(&answer.received),
            took: answer.took,
            ..Self::of(verdict)
        }
    }

    /// Whether the target sent nothing before the time limit.
    pub fn is_silent(&self) -> bool {
        let timed_out = matches!(
            self.verdict,
            Verdict::TimedOut { .. } | Verdict::Silent { .. }
        );
        let is_received = |frame: &Traffic| frame.direction == Direction::Received;
        timed_out && !self.traffic.iter().any(is_received)
    }

    /// The verdict's message and the target's standard error, for display.
    pub fn display_text(&self) -> String {
        match cut::to_last_bytes(self.stderr.trim_end(), STDERR_TAIL_BYTES).as_ref() {
            "" => self.verdict.message(),
            // Indented, so that none of its lines is mistaken for the harness's.
            stderr => format!(
                "{}\n{STDERR_FOLLOWS}\n    {}",
                self.verdict.message(),
                stderr.replace('\n', "\n    ")
            ),
        }
    }

    /// Marks the trial of a case that was retried after it had failed, with the message `first`, during concurrent runs.
    pub fn with_retry_note(self, first: &str) -> Self {
        self.with_note(format!(
            "{TRIED_AGAIN}, after it had failed beside others: {first}"
        ))
    }

    /// Marks the trial of a call that was answered only after it had been refused as `busy`, `times` times, although no other was in flight.
    pub fn with_busy_note(self, times: usize) -> Self {
        self.with_note(format!(
            "{TRIED_AGAIN}, after it had been refused as `busy` with no other call in flight ({})",
            attempts(times)
        ))
    }

    fn with_note(mut self, note: String) -> Self {
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

    /// Truncates the trial's texts to at most `bytes` each: targets write them, and thousands of trials are kept until the end of the run.
    #[must_use]
    pub fn truncated_to(mut self, bytes: usize) -> Self {
        // Already checked, and not part of any report.
        self.messages = Vec::new();
        let hidden = self
            .traffic
            .len()
            .saturating_sub(FRAMES_FIRST + FRAMES_LAST);
        if hidden > 0 {
            let note = Traffic::new(Direction::Note, format!("… {hidden} frames"));
            self.traffic
                .splice(FRAMES_FIRST..FRAMES_FIRST + hidden, [note]);
        }
        for frame in &mut self.traffic {
            cut::keep_bytes(&mut frame.text, bytes);
        }
        if self.verdict.is_pass() {
            // A pass needs no explanation.
            self.stderr = String::new();
        }
        self.stderr = cut::to_last_bytes(&self.stderr, bytes.min(STDERR_TAIL_BYTES)).into_owned();
        match &mut self.verdict {
            Verdict::Pass { unobserved } => {
                unobserved.truncate(REMARKS_MAX);
                unobserved
                    .iter_mut()
                    .for_each(|text| cut::keep_bytes(text, bytes));
            }
            Verdict::Fail(mismatch) => {
                let Mismatch {
                    what,
                    expected,
                    observed,
                    diff,
                    clause: _,
                    line: _,
                } = mismatch;
                for text in [what, expected, observed, diff] {
                    cut::keep_bytes(text, bytes);
                }
            }
            Verdict::Crashed { detail }
            | Verdict::TimedOut { detail }
            | Verdict::Silent { detail }
            | Verdict::Junk { detail } => cut::keep_bytes(detail, bytes),
            Verdict::SelfCheck
            | Verdict::Unobservable { .. }
            | Verdict::NotClaimed { .. }
            | Verdict::Excluded { .. }
            | Verdict::HarnessError { .. } => {}
        }
        self
    }

    /// Number of bytes of target output that the trial holds.
    pub fn output_bytes(&self) -> usize {
        let said = match &self.verdict {
            Verdict::Pass { unobserved } => unobserved.iter().map(String::len).sum(),
            Verdict::Fail(mismatch) => {
                mismatch.expected.len() + mismatch.observed.len() + mismatch.diff.len()
            }
            _ => 0,
        };
        let frames = self.traffic.iter().map(|frame| frame.text.len());
        said + self.stderr.len() + frames.sum::<usize>()
    }

    /// Fails a passed case for what no target may write, whatever the case asks: text of the host in an error message, or a
    /// credential anywhere.
    pub fn checked_for_leaks(mut self, case: &Case) -> Self {
        if !self.verdict.is_pass() {
            return self;
        }
        let received = self
            .traffic
            .iter()
            .filter(|frame| frame.direction == Direction::Received)
            .map(|frame| frame.text.as_str());
        let written = received.chain([self.stderr.as_str()]);
        // Checked before anything is truncated: a leak may follow much other output.
        let wrong = judge::host_text_mismatch(case, &self.messages)
            .or_else(|| judge::leaked_credential(case, written));
        if let Some(mismatch) = wrong {
            self.verdict = Verdict::Fail(mismatch);
        }
        self
    }

    /// Fails the trial of the last case on a connection if the target wrote unsolicited output after its answer.
    pub fn with_unsolicited_output(mut self, unasked: Option<Fault>) -> Self {
        if let Some(fault) = unasked.filter(|_| self.verdict.is_pass()) {
            self.traffic.extend(traffic_of(&fault));
            self.cause = Some(fault.name());
            self.verdict = fault.verdict(true);
        }
        self
    }

    /// Marks a fault that a case met during concurrent runs and that no case met alone.
    pub fn with_intermittent_note(mut self) -> Self {
        self.seen_alone = true;
        if let Verdict::Crashed { detail } | Verdict::Junk { detail } = &mut self.verdict {
            detail.push_str(" (asked again alone, of a target just started, it was answered)");
        }
        self
    }
}

/// How often something was attempted, in words.
pub fn attempts(times: usize) -> String {
    match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    }
}

/// A failed step of a transcript.
pub fn unmet(mismatch: Mismatch, line: u32) -> Verdict {
    Verdict::Fail(Mismatch {
        line: Some(line),
        ..mismatch
    })
}

/// The target's output, as far as a fault contains it.
fn traffic_of(fault: &Fault) -> Vec<Traffic> {
    match fault {
        Fault::Junk { line, .. }
        | Fault::Stray { line }
        | Fault::Malformed { line, .. }
        | Fault::NotMcp { body: line, .. } => {
            vec![Traffic::new(Direction::Received, line)]
        }
        Fault::Overlong { head, .. } | Fault::Flooded { head, .. } => {
            vec![Traffic::new(Direction::Received, head)]
        }
        Fault::Then { first, then } => {
            let mut lines = traffic_of(first);
            lines.extend(traffic_of(then));
            lines
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_trial_is_bounded_and_says_so() {
        let long = "é".repeat(10_000);
        let trial = Trial {
            traffic: vec![Traffic::new(Direction::Received, &long); 5000],
            stderr: long.clone(),
            ..Trial::of(Verdict::Fail(Mismatch {
                what: "result".to_owned(),
                expected: long.clone(),
                observed: long.clone(),
                diff: long,
                clause: None,
                line: None,
            }))
        };
        let kept = trial.truncated_to(1000);
        assert_eq!(kept.traffic.len(), FRAMES_FIRST + 1 + FRAMES_LAST);
        assert_eq!(kept.traffic[FRAMES_FIRST].text, "… 4872 frames");
        assert!(kept.output_bytes() < 150 * 1100, "{}", kept.output_bytes());
        assert!(kept.verdict.message().contains("é…"));
        let Verdict::Fail(mismatch) = kept.verdict else {
            panic!("it failed");
        };
        assert!(mismatch.observed.ends_with("é… (20000 bytes)"));
    }
}
