//! The traffic between the harness and a target, as text. Knows neither runners, which record it, nor reports, which show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes sent in one direction, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// The direction.
    pub direction: Direction,
    /// A frame, a request, or a note by the harness.
    pub text: String,
}

/// The direction of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the harness to the target.
    Sent,
    /// From the target to the harness.
    Received,
    /// A note by the harness: end of input, a signal, a wait.
    Note,
}

impl Direction {
    /// The direction in the notation of fixtures.
    pub fn arrow(self) -> &'static str {
        match self {
            Self::Sent => "->",
            Self::Received => "<-",
            Self::Note => "--",
        }
    }
}

/// Prefix of the note on a case whose result was reached only when it was retried alone.
pub const TRIED_AGAIN: &str = "tried again alone";

impl Traffic {
    pub fn new(direction: Direction, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { direction, text }
    }
}
