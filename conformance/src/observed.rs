//! A target's observable behaviour. The target modules produce these values, the judge
//! compares them; neither knows the other.

use indexmap::IndexMap;

use crate::json::Json;

/// The result of a program. `None` always means that this target can't show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramRun {
    pub outcome: ProgramOutcome,
    pub prints: Option<Vec<String>>,
    /// Whether the target reported that later entries were left out.
    pub prints_cut: bool,
    /// Whether the target reported that something was truncated.
    pub truncated: Option<bool>,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramOutcome {
    Returned {
        /// The result text without `user=> `; `Some(None)` when there was none.
        text: Option<Option<String>>,
        /// The exact JSON value: `validated`, or the testee's answer. `None` when the target has
        /// no way to show it, as when [`crate::judge::output_schema`] gives no schema;
        /// `Some(None)` when it was requested and is missing.
        json: Option<Option<Json>>,
    },
    Raised {
        reason: String,
        message: Option<String>,
        /// The printed text of a failed value; `Some(None)` when there was none.
        value: Option<Option<String>>,
    },
}

impl ProgramOutcome {
    /// The outcome in one line, for display.
    pub fn words(&self) -> String {
        match self {
            Self::Returned { text, .. } => match text {
                Some(Some(text)) => format!("the value {text}"),
                Some(None) => "no result text".to_owned(),
                None => "a value".to_owned(),
            },
            Self::Raised {
                reason, message, ..
            } => format!("{reason}: {}", message.as_deref().unwrap_or("")),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct HttpMessage {
    pub status: u16,
    /// Header fields in order, with their names as received.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A testee's answer to an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAnswer {
    Returned(Json),
    Refused(Json),
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandRun {
    /// Exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The files that the case names, as the command left them; missing ones are not in the map.
    pub files: IndexMap<String, Vec<u8>>,
    /// The messages received by the peers that the case names, one JSON line each.
    pub received: IndexMap<String, String>,
}
