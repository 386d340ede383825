//! The names that the server's tables hold, for checks that each of them is specified. Knows the tables; decides nothing.

use crate::mcp::dispatch;
use crate::mcp::tools;
use crate::render::reason::{RefusalReason, SessionReason};
use ptc_agent::TaskReason;

/// Methods of requests and notifications.
pub fn methods() -> impl Iterator<Item = &'static str> {
    dispatch::method_names()
}

/// Tools, listed or not.
pub fn tools() -> impl Iterator<Item = &'static str> {
    tools::names()
}

/// Reasons of the server's own refusals, of sessions and of tasks.
pub fn reasons() -> Vec<&'static str> {
    let refusals = RefusalReason::ALL.iter().map(|reason| reason.name());
    let sessions = SessionReason::ALL.iter().map(|reason| reason.name());
    let tasks = TaskReason::ALL.iter().map(|reason| reason.name());
    refusals.chain(sessions).chain(tasks).collect()
}
