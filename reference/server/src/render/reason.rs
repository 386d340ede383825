//! The server's own refusals: two closed sets of reasons, with their messages.
//!
//! The reasons of programs belong to the protocol crate; these are added by the server.

use ptc_protocol::Payload;
use ptc_protocol::members::Failure;

ptc_lang::reasons! {
    /// Reasons for which the server does not run a tool.
    pub enum RefusalReason {
        /// The gate is full, memory is short, or there is no thread.
        Busy = "busy",
        Cancelled = "cancelled",
        /// No tool of that name.
        UnknownTool = "unknown_tool",
        /// The client sent `shutdown`.
        ShuttingDown = "shutting_down",
        /// The arguments have the wrong shape.
        Arguments = "args_error",
    }
}

ptc_lang::reasons! {
    /// Reasons of the session tools.
    pub enum SessionReason {
        /// It never existed, or is no longer remembered.
        NotFound = "session_not_found",
        /// It was closed or has expired.
        Closed = "session_closed",
        /// It belongs to another owner.
        Foreign = "session_owner_mismatch",
        /// A program is running in it.
        Busy = "session_busy",
        /// The maximum number of sessions is reached, for the process or the owner, or a size limit is exceeded.
        LimitExceeded = "session_limit_exceeded",
        /// The arguments have the wrong shape.
        Arguments = "session_args_error",
        /// Sessions are disabled on this server.
        Disabled = "sessions_disabled",
        /// The session store is unreachable.
        StoreUnavailable = "session_store_unavailable",
        /// Another node took over the session, or the turn took longer than its lease.
        LeaseLost = "session_lease_lost",
        /// This server cannot read the session's content in the store.
        Unreadable = "session_unreadable",
    }
}

/// Why the server did not run a tool, with the data for its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The gate is full.
    Busy {
        /// The cap that was reached.
        cap: usize,
    },
    MemoryShort,
    /// The system gives no thread.
    NoThread,
    /// No tool of that name.
    UnknownTool {
        /// The name; empty when it was missing or not a string.
        name: String,
        /// The names of the existing tools.
        known: Vec<&'static str>,
    },
    /// The client sent `shutdown`.
    ShuttingDown,
    Cancelled,
    /// The arguments have the wrong shape.
    Arguments(String),
}

impl Refusal {
    pub const fn reason(&self) -> RefusalReason {
        match self {
            Refusal::Busy { .. } | Refusal::MemoryShort | Refusal::NoThread => RefusalReason::Busy,
            Refusal::UnknownTool { .. } => RefusalReason::UnknownTool,
            Refusal::ShuttingDown => RefusalReason::ShuttingDown,
            Refusal::Cancelled => RefusalReason::Cancelled,
            Refusal::Arguments(_) => RefusalReason::Arguments,
        }
    }

    pub fn failure(&self) -> Failure {
        let (message, feedback) = self.words();
        let failure = Failure::new(self.reason().name(), message);
        match feedback {
            Some(feedback) => failure.with_feedback(feedback),
            None => failure,
        }
    }

    pub fn payload(&self) -> Payload {
        self.failure().into()
    }

    /// The message, and what the model reads beside it.
    pub fn words(&self) -> (String, Option<String>) {
        match self {
            Refusal::Busy { cap } => (
                format!("server busy: {cap} concurrent calls in flight"),
                Some(format!(
                    "The MCP server is at its concurrent-call cap ({cap}). The previous call has not finished. \
                     Wait briefly and retry the same `tools/call`."
                )),
            ),
            Refusal::MemoryShort => (
                "server busy: memory is short".into(),
                Some(
                    "The MCP server's memory is nearly used up, so that it takes in no further call. \
                     Wait briefly and retry the same `tools/call`."
                        .into(),
                ),
            ),
            Refusal::NoThread => (
                "server busy: no thread is free".into(),
                Some(
                    "The operating system gives the MCP server no further thread for the program. \
                     Wait briefly and retry the same `tools/call`."
                        .into(),
                ),
            ),
            Refusal::UnknownTool { name, known } => {
                let tools: Vec<String> = known.iter().map(|tool| format!("`{tool}`")).collect();
                let tools = match tools.as_slice() {
                    [one] => format!("The MCP server exposes exactly one tool: {one}."),
                    several => format!("The MCP server exposes these tools: {}.", several.join(", ")),
                };
                let what = match name.is_empty() {
                    true => "The requested tool name was missing or empty.".to_owned(),
                    false => format!("The requested tool `{name}` is not registered."),
                };
                (format!("unknown tool: {name}"), Some(format!("{tools} {what}")))
            }
            Refusal::ShuttingDown => (
                "server is draining after shutdown; new tool calls are rejected".into(),
                Some(
                    "The MCP server received a `shutdown` request and is no longer accepting new tool calls. \
                     Open a fresh server process to retry."
                        .into(),
                ),
            ),
            Refusal::Cancelled => (
                "cancelled".into(),
                Some("The request was cancelled before the tool call completed.".into()),
            ),
            Refusal::Arguments(message) => (message.clone(), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tool_refusal_lists_the_tools() {
        let one = Refusal::UnknownTool {
            name: "nope".into(),
            known: vec!["lisp_eval"],
        }
        .payload();
        assert_eq!(one.text("message"), Some("unknown tool: nope"));
        assert_eq!(
            one.text("feedback"),
            Some(
                "The MCP server exposes exactly one tool: `lisp_eval`. The requested tool `nope` is not registered."
            )
        );
        let two = Refusal::UnknownTool {
            name: String::new(),
            known: vec!["lisp_eval", "lisp_debug"],
        }
        .payload();
        assert_eq!(
            two.text("feedback"),
            Some(
                "The MCP server exposes these tools: `lisp_eval`, `lisp_debug`. The requested tool name was missing or empty."
            )
        );
    }
}
