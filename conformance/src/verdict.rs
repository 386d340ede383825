//! The verdict on a case, with its reason. Knows nothing of judging or reporting.

use serde::{Deserialize, Serialize};

/// What came of a case. Only [`Verdict::Pass`] says that the target did what the clause asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that could be seen was as expected, and something could be seen.
    Pass {
        /// Parts of the expectation that this target can't show.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unobserved: Vec<String>,
    },
    /// The harness proved something of itself, whatever the target is.
    SelfCheck,
    /// Something seen was not as expected.
    Fail(Mismatch),
    /// Nothing of the expectation can be seen on this target.
    Unobservable { reason: String },
    /// The target doesn't claim a capability that the case needs: its word in backticks, or a noun phrase.
    NotClaimed { capability: String },
    /// The run leaves it out on purpose.
    Excluded { reason: String },
    /// The harness could not judge: its own fault or the fixture's.
    HarnessError { message: String },
    /// The target's process ended by itself.
    Crashed {
        /// Exit status or signal, with what it last wrote to standard error.
        detail: String,
    },
    /// The expected answer did not come in time, though the target did answer something before.
    TimedOut {
        /// What was waited for, and how long.
        detail: String,
    },
    /// The target never wrote anything.
    Silent {
        /// What was waited for, and how long.
        detail: String,
    },
    /// The target wrote something that is no protocol message.
    Junk { detail: String },
}

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which part: `result`, `validated`, `prints`, `body.error.code`, …
    pub what: String,
    /// What was expected, for people.
    pub expected: String,
    /// What was seen, for people.
    pub observed: String,
    /// Line by line, `-` expected and `+` observed; empty when both are one short line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
    /// The clause that is broken, where it is not the case's own but one that every case is held to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<Box<str>>,
    /// Line of the step in the fixture, where there are steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Verdict {
    /// A pass in which everything was seen.
    pub const fn pass() -> Verdict {
        Verdict::Pass {
            unobserved: Vec::new(),
        }
    }

    /// Whether it counts as met.
    pub const fn is_pass(&self) -> bool {
        matches!(self, Verdict::Pass { .. })
    }

    /// Whether it counts against the target.
    pub const fn is_failure(&self) -> bool {
        matches!(
            self,
            Verdict::Fail(_)
                | Verdict::HarnessError { .. }
                | Verdict::Crashed { .. }
                | Verdict::TimedOut { .. }
                | Verdict::Silent { .. }
                | Verdict::Junk { .. }
        )
    }

    /// The word for reports.
    pub const fn word(&self) -> &'static str {
        match self {
            Verdict::Pass { .. } => "pass",
            Verdict::SelfCheck => "self-check",
            Verdict::Fail(_) => "fail",
            Verdict::Unobservable { .. } => "unobservable",
            Verdict::NotClaimed { .. } => "not claimed",
            Verdict::Excluded { .. } => "excluded",
            Verdict::HarnessError { .. } => "harness error",
            Verdict::Crashed { .. } => "crashed",
            Verdict::TimedOut { .. } => "timed out",
            Verdict::Silent { .. } => "silent",
            Verdict::Junk { .. } => "junk",
        }
    }

    /// One line that says why, for reports and for the message prefixes of expected failures; empty
    /// for a pass and a self-check.
    pub fn message(&self) -> String {
        match self {
            Verdict::Pass { .. } | Verdict::SelfCheck => String::new(),
            Verdict::Fail(mismatch) => format!(
                "{}: expected {}, observed {}",
                mismatch.what,
                line(&mismatch.expected),
                line(&mismatch.observed)
            ),
            Verdict::Unobservable { reason } | Verdict::Excluded { reason } => reason.clone(),
            // A word is a claim's; other needs are told in words.
            Verdict::NotClaimed { capability } if capability.starts_with('`') => {
                format!("the target doesn't claim {capability}")
            }
            Verdict::NotClaimed { capability } => format!("this needs {capability}"),
            Verdict::HarnessError { message } => message.clone(),
            Verdict::Crashed { detail }
            | Verdict::TimedOut { detail }
            | Verdict::Silent { detail }
            | Verdict::Junk { detail } => detail.clone(),
        }
    }
}

/// Characters of a text that a one-line message shows.
const MESSAGE_CHARS_MAX: usize = 300;

/// A text on one line, cut where it is long.
fn line(text: &str) -> String {
    let mut out: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out.replace('\n', "\\n")
}
