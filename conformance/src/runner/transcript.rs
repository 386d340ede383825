//! The transcript of an exchange, and the reasons why one ends before its last step. Does not know how frames are transported.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

use crate::cut;
use crate::json::Json;
use crate::judge;
use crate::suite::{Captures, ExpectLine, Pattern, Text};
use crate::target::fault::Fault;
use crate::traffic::{Direction, Traffic};
use crate::verdict::{Mismatch, Verdict};

use super::trial::Trial;

/// Number of frames and notes that a transcript keeps. A case has fewer steps; of a target that never stops writing, the rest is dropped.
const FRAMES_MAX: usize = 4096;

/// Bytes of traffic kept in full, together with the error messages in it, for the judge to check; later texts are each
/// truncated to the second limit.
const WHOLE_BYTES_MAX: usize = 64 << 20;
const CUT_BYTES_MAX: usize = 16 << 10;

/// Why a transcript ended before its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The case is decided.
    Verdict(Verdict),
    /// The target failed.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was sent, received and captured so far.
#[derive(Debug, Default)]
pub struct Record {
    /// The bytes exchanged in both directions.
    pub traffic: Vec<Traffic>,
    /// Values captured by holes.
    pub captures: Captures,
    /// Whether the target ever answered.
    pub answered: bool,
    /// Whether something was sent before an earlier message was answered.
    pub overtaken: bool,
    /// The error messages received.
    pub messages: Vec<String>,
    /// Bytes of traffic so far, kept or not.
    pub bytes: usize,
}

impl Record {
    /// The trial of a case that began at `began`: passed, unless something stopped it.
    pub fn into_trial(self, stopped: Option<Stop>, began: Instant, stderr: String) -> Trial {
        let (verdict, cause) = match stopped {
            None => (Verdict::pass(), None),
            Some(Stop::Verdict(verdict)) => (verdict, None),
            Some(Stop::Fault(fault)) => (fault.verdict(self.answered), Some(fault.name())),
        };
        Trial {
            stderr,
            verdict,
            cause,
            traffic: self.traffic,
            messages: self.messages,
            seen_alone: false,
            overtaken: self.overtaken,
            took: began.elapsed(),
        }
    }

    /// Records what was sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.push(Direction::Sent, &String::from_utf8_lossy(bytes));
    }

    pub fn received(&mut self, text: &str) {
        self.answered = true;
        if self.traffic.len() < FRAMES_MAX && self.bytes <= WHOLE_BYTES_MAX {
            self.messages.extend(judge::error_messages(text));
        }
        self.push(Direction::Received, text);
    }

    /// Records any other event.
    pub fn note(&mut self, text: &str) {
        self.push(Direction::Note, text);
    }

    /// The bytes of a text, with captures filled in.
    ///
    /// # Errors
    /// A verdict about the fixture, when the text cannot be expanded.
    pub fn bytes(&self, text: &Text) -> Result<Vec<u8>, Stop> {
        text.bytes(&self.captures)
            .map_err(|fault| harness(format!("the step cannot be sent: {fault}")))
    }

    fn push(&mut self, direction: Direction, text: &str) {
        self.bytes += text.len();
        if self.traffic.len() == FRAMES_MAX {
            return;
        }
        let text = match self.bytes <= WHOLE_BYTES_MAX {
            true => Cow::Borrowed(text),
            false => cut::to_bytes(text, CUT_BYTES_MAX),
        };
        self.traffic.push(Traffic::new(direction, text));
    }
}

/// An exchange in which replies arrive one by one.
pub trait ReplySource {
    fn record(&mut self) -> &mut Record;
    /// How long a step may wait, by what it says itself.
    fn within(&self, within_ms: Option<u64>) -> Duration;
    /// The next reply that the pattern could be about.
    ///
    /// # Errors
    /// When none arrives in time.
    async fn next_reply_for(&mut self, pattern: &Pattern, waited: Duration) -> Result<Json, Stop>;

    /// Matches the next reply with the pattern of a step, and captures what its holes name.
    ///
    /// # Errors
    /// When none arrives in time, or it does not match.
    async fn expect(&mut self, line: u32, expect: &ExpectLine) -> Result<(), Stop> {
        let waited = self.within(expect.within_ms);
        let reply = self.next_reply_for(&expect.pattern, waited).await?;
        let captures = &mut self.record().captures;
        judge::json("reply", &expect.pattern, &reply, captures)
            .map_err(|mismatch| unmet(line, mismatch))
    }

    /// Reads one reply for each of the patterns, all of them in time, and matches them in any order.
    ///
    /// # Errors
    /// When one of them does not arrive, or there is no order in which they match.
    async fn expect_unordered(
        &mut self,
        line: u32,
        patterns: &[Pattern],
        within_ms: Option<u64>,
    ) -> Result<(), Stop> {
        let waited = self.within(within_ms);
        let deadline = Instant::now() + waited;
        let mut replies = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let left = deadline.saturating_duration_since(Instant::now());
            let reply = self.next_reply_for(pattern, left).await;
            replies.push(reply.map_err(|stop| match stop {
                Stop::Fault(Fault::NoReply { .. }) => Stop::Fault(Fault::NoReply { waited }),
                stop => stop,
            })?);
        }
        judge::unordered("replies", patterns, &replies, &mut self.record().captures)
            .map_err(|mismatch| unmet(line, mismatch))
    }
}

/// A failure at a line of the fixture.
pub fn unmet(line: u32, mismatch: Mismatch) -> Stop {
    Stop::Verdict(super::trial::unmet(mismatch, line))
}

/// A failure at a line of the fixture, described by expected and observed texts.
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

/// A verdict about the fixture or the harness.
pub fn harness(message: impl Into<String>) -> Stop {
    Stop::Verdict(Verdict::HarnessError {
        message: message.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_beyond_the_report_limit_is_found() {
        let page = concat!(
            "# A {#a}\n\n```toml target\nflags.http_auth_token = \"canary-abcdef-123\"\n```\n\n",
            "- {#a.b} It MUST be.\n\n```clj\n1 ;=> 1\n```\n",
        );
        let suite = crate::fixture::page("a.md", page.as_bytes()).expect("the page is right");
        let filler = "x".repeat(1 << 20);
        let leak = format!(r#"{{"id":1,"result":{{"text":"{filler}canary-abcdef-123"}}}}"#);
        let harmless = format!(r#"{{"id":1,"result":{{"text":"{filler}"}}}}"#);
        for (frame, stderr, passes) in [
            (&leak, String::new(), false),
            (&harmless, format!("canary-abcdef-123\n{filler}"), false),
            (&harmless, filler.clone(), true),
        ] {
            let mut record = Record::default();
            record.received(frame);
            let trial = record.into_trial(None, Instant::now(), stderr);
            let trial = trial.checked_for_leaks(&suite.cases[0]).truncated_to(100);
            assert_eq!(trial.verdict.is_pass(), passes, "{}", trial.display_text());
            assert!(trial.output_bytes() < 1000);
        }
    }
}
