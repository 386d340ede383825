//! The names that the server's tables hold, for checks that each of them is specified. Knows the tables; decides nothing.

use crate::mcp::dispatch;
use crate::mcp::tools;
use crate::render::reason::Refusal;
use crate::sessions::Refused;

/// Methods of requests and notifications.
pub fn methods() -> impl Iterator<Item = &'static str> {
    dispatch::method_names()
}

/// Tools, listed or not.
pub fn tools() -> impl Iterator<Item = &'static str> {
    tools::names()
}

/// Reasons of the server's own refusals.
pub fn reasons() -> Vec<&'static str> {
    let refusals = [
        Refusal::Busy { cap: 1 },
        Refusal::UnknownTool {
            name: String::new(),
            known: Vec::new(),
        },
        Refusal::ShuttingDown,
        Refusal::Cancelled,
        Refusal::Arguments(String::new()),
    ];
    let sessions = Refused::ALL.into_iter().map(Refused::reason);
    let own = refusals.iter().map(Refusal::reason);
    own.chain(sessions)
        .chain(["session_args_error", "sessions_disabled"])
        .collect()
}
