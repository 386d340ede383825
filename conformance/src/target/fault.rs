//! Faults between the harness and a target, in words that name the target's part in them.
//! Knows the verdict for each; knows nothing of cases.

use std::borrow::Cow;
use std::time::Duration;

use super::process::Exit;
use crate::cut;
use crate::verdict::Verdict;

/// Longest piece of a target's output that a message quotes, in characters.
const QUOTE_CHARS_MAX: usize = 200;
/// Maximum number of unsolicited lines or frames kept per process or answer, and the size kept of each, in bytes.
pub const STRAYS_KEPT_MAX: usize = 64;
const STRAY_BYTES_MAX: usize = 4 << 10;

/// A fault of the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The command could not be started.
    #[error("the target could not be started: `{command}`: {error}")]
    CannotStart {
        /// The command, in shell syntax.
        command: String,
        /// The operating system's message.
        error: String,
    },
    /// The process exited although an answer was due.
    #[error("the target ended while an answer was due ({exit})")]
    Exited {
        /// How it ended.
        exit: Exit,
    },
    /// The process closed its standard output, but is still running.
    #[error("the target closed its standard output while an answer was due, and runs on")]
    ClosedOutput,
    /// No answer arrived in time.
    #[error("the target gave no answer within {} ms", waited.as_millis())]
    NoReply {
        /// How long the harness waited.
        waited: Duration,
    },
    /// The process did not accept its input in time.
    #[error("the target did not read its input for {} ms", waited.as_millis())]
    InputStalled {
        /// How long the harness waited.
        waited: Duration,
    },
    /// The process did not exit although it should have.
    #[error(
        "the target still ran {} ms after it should have ended",
        waited.as_millis()
    )]
    StillRunning {
        /// How long the harness waited.
        waited: Duration,
    },
    /// A line on standard output that is not a frame.
    #[error("the target wrote a line that is not a frame ({why}): {}", quote(line))]
    Junk {
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// A frame that answers no request.
    #[error(
        "the target sent a frame that answers no open request: {}",
        quote(line)
    )]
    Stray { line: String },
    /// A line longer than the harness keeps.
    #[error(
        "the target wrote a line of {bytes} bytes, more than the harness keeps: {}",
        quote(head)
    )]
    Overlong {
        /// Its first bytes.
        head: String,
        bytes: u64,
    },
    /// A command that wrote more than the harness keeps.
    #[error(
        "the command had written {bytes} bytes when it was ended, more than the harness keeps: {}",
        quote(head)
    )]
    Flooded {
        /// Its first bytes.
        head: String,
        bytes: u64,
    },
    /// A reply that the protocol does not permit at this point.
    #[error("expected {expected}, got: {}", quote(line))]
    Malformed { expected: String, line: String },
    /// The server closed the connection without a complete answer.
    #[error("{address} closed the connection without a complete answer")]
    Dropped {
        /// The server's address.
        address: String,
    },
    /// The HTTP exchange itself failed.
    #[error("{message}")]
    Http {
        /// What was tried, and what went wrong.
        message: String,
    },
    /// A response over HTTP that no MCP server gives.
    #[error(
        "POST {url} answered {status}{}; expected 200 with application/json or text/event-stream; {}",
        kind.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default(),
        advice_for_response(url, *status)
    )]
    NotMcp {
        url: String,
        status: u16,
        /// Its content type.
        kind: Option<String>,
        body: String,
    },
    /// Two faults in a row; the first is the target's first mistake.
    #[error("{first}; then {then}")]
    Then {
        /// The first fault.
        first: Box<Fault>,
        then: Box<Fault>,
    },
    /// Something that the harness itself needs is missing.
    #[error("{message}")]
    Harness {
        /// What is missing, and how to get it.
        message: String,
    },
}

impl Fault {
    /// Whether the target is unusable after this, so that it must be restarted.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Stray { .. } | Self::Malformed { .. } => false,
            Self::CannotStart { .. }
            | Self::Exited { .. }
            | Self::ClosedOutput
            | Self::NoReply { .. }
            | Self::InputStalled { .. }
            | Self::StillRunning { .. }
            | Self::Junk { .. }
            | Self::Overlong { .. }
            | Self::Flooded { .. }
            | Self::Dropped { .. }
            | Self::Http { .. }
            | Self::NotMcp { .. }
            | Self::Harness { .. } => true,
            Self::Then { first, then } => first.is_fatal() || then.is_fatal(),
        }
    }

    /// This fault, preceded by an earlier one, if any.
    #[must_use]
    pub fn after(self, earlier: Option<Fault>) -> Self {
        match earlier {
            Some(first) => Self::Then {
                first: Box::new(first),
                then: Box::new(self),
            },
            None => self,
        }
    }

    /// This fault as kept in the list of unsolicited output: with at most [`STRAY_BYTES_MAX`] of the line.
    #[must_use]
    pub fn as_stray(mut self) -> Self {
        if let Self::Junk { line, .. } | Self::Stray { line } | Self::NotMcp { body: line, .. } =
            &mut self
        {
            cut::keep_bytes(line, STRAY_BYTES_MAX);
        }
        self
    }

    /// The verdict on a case that ends with this fault. `answered`: whether the target ever answered anything.
    pub fn verdict(&self, answered: bool) -> Verdict {
        let detail = self.to_string();
        match self {
            Self::CannotStart { .. }
            | Self::Exited { .. }
            | Self::ClosedOutput
            | Self::Dropped { .. }
            | Self::Http { .. } => Verdict::Crashed { detail },
            Self::NotMcp { body, .. } if body.is_empty() => Verdict::Crashed { detail },
            Self::NoReply { .. } | Self::InputStalled { .. } | Self::StillRunning { .. } => {
                if answered {
                    Verdict::TimedOut { detail }
                } else {
                    Verdict::Silent { detail }
                }
            }
            Self::Junk { .. }
            | Self::Stray { .. }
            | Self::Overlong { .. }
            | Self::Flooded { .. }
            | Self::NotMcp { .. }
            | Self::Malformed { .. } => Verdict::Junk { detail },
            Self::Then { first, .. } => match first.verdict(answered) {
                Verdict::Crashed { .. } => Verdict::Crashed { detail },
                Verdict::TimedOut { .. } => Verdict::TimedOut { detail },
                Verdict::Silent { .. } => Verdict::Silent { detail },
                _ => Verdict::Junk { detail },
            },
            Self::Harness { message } => Verdict::HarnessError {
                message: message.clone(),
            },
        }
    }

    /// One word for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CannotStart { .. } => "cannot-start",
            Self::Exited { .. } => "crash",
            Self::ClosedOutput => "closed-output",
            Self::NoReply { .. } => "no-reply",
            Self::InputStalled { .. } => "input-stalled",
            Self::StillRunning { .. } => "still-running",
            Self::Junk { .. } => "junk",
            Self::Stray { .. } => "stray-reply",
            Self::Overlong { .. } => "overlong-line",
            Self::Flooded { .. } => "flood",
            Self::Malformed { .. } => "malformed-reply",
            Self::Dropped { .. } => "dropped",
            Self::Http { .. } => "http",
            Self::NotMcp { .. } => "not-mcp",
            Self::Harness { .. } => "harness",
            Self::Then { first, .. } => first.name(),
        }
    }
}

/// What to look at when a server answers a URL with this status.
fn advice_for_response(url: &str, status: u16) -> String {
    if matches!(status, 401 | 403) {
        return "is a --header missing?".to_owned();
    }
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.find('/').map(|start| &rest[start..]))
        .map_or("/", |path| path.split(['?', '#']).next().unwrap_or(path));
    format!("is {path} the right path?")
}

/// `text`, truncated to [`QUOTE_CHARS_MAX`] characters for a message.
pub fn quote(text: &str) -> Cow<'_, str> {
    cut::to_chars(text, QUOTE_CHARS_MAX)
}
