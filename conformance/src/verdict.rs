//! The verdict on a case, with its reason. Knows nothing of judging or reporting.

use serde::{Deserialize, Serialize};

/// The result of judging a case. Only [`Verdict::Pass`] means that the target did what the clause asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything observable was as expected, and something was observable.
    Pass {
        /// Parts of the expectation that this target can't show.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unobserved: Vec<String>,
    },
    /// The harness tested itself, independently of the target.
    SelfCheck,
    /// Something observed was not as expected.
    Fail(Mismatch),
    /// The target can show nothing of the expectation.
    Unobservable { reason: String },
    /// The target doesn't claim a capability that the case needs: its word in backticks, or a noun phrase.
    NotClaimed { capability: String },
    /// The run excludes the case deliberately.
    Excluded { reason: String },
    /// The harness could not judge the case, through its own fault or the fixture's.
    HarnessError { message: String },
    /// The target's process ended unexpectedly.
    Crashed {
        /// Exit status or signal, with the end of its standard error.
        detail: String,
    },
    /// The expected answer did not arrive in time, although the target had answered something before.
    TimedOut {
        /// What was awaited, and for how long.
        detail: String,
    },
    /// The target never wrote anything.
    Silent {
        /// What was awaited, and for how long.
        detail: String,
    },
    /// The target wrote something that is not a protocol message.
    Junk { detail: String },
}

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The part that differs: `result`, `validated`, `prints`, `body.error.code`, …
    pub what: String,
    /// What was expected, in readable form.
    pub expected: String,
    /// What was observed, in readable form.
    pub observed: String,
    /// A line diff, `-` expected and `+` observed; empty when both are one short line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
    /// The violated clause, if it is not the case's own but one that applies to every case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<Box<str>>,
    /// Line of the step in the fixture, if there are steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Verdict {
    /// A pass in which nothing was unobservable.
    pub const fn pass() -> Verdict {
        Verdict::Pass {
            unobserved: Vec::new(),
        }
    }

    /// Whether the expectation was met.
    pub const fn is_pass(&self) -> bool {
        matches!(self, Verdict::Pass { .. })
    }

    /// Whether it is the target's failure.
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

    /// One line that explains the verdict, for reports and for the message prefixes of expected failures; empty
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
            // A word in backticks is a capability of a claim; other needs are noun phrases.
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

/// Maximum length of a text in a one-line message, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// A text on one line, truncated when it is long.
fn line(text: &str) -> String {
    let mut out: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out.replace('\n', "\\n")
}
