//! The traffic between the harness and a target, as text. Knows neither runners, which record it, nor reports, which show it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes that went one way, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Which way.
    pub direction: Direction,
    /// A frame, a request, or a remark of the harness.
    pub text: String,
}

/// Which way bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the harness to the target.
    Sent,
    /// From the target to the harness.
    Received,
    /// A remark: end of input, a signal, a wait.
    Note,
}

impl Direction {
    /// As fixtures write it.
    pub fn arrow(self) -> &'static str {
        match self {
            Self::Sent => "->",
            Self::Received => "<-",
            Self::Note => "--",
        }
    }
}

/// How the remark begins on a case that came out as it did only when it was tried again.
pub const TRIED_AGAIN: &str = "tried again alone";

impl Traffic {
    pub fn new(direction: Direction, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { direction, text }
    }
}
