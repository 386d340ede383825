//! The names in the server's tables, for checks that each of them is specified and for listings. Knows the tables; decides nothing.

use crate::mcp::dispatch;
use crate::mcp::tools;
use crate::render::reason::{RefusalReason, SessionReason};
use crate::server::Server;
use ptc_agent::TaskReason;

/// Methods of requests and notifications.
pub fn methods() -> impl Iterator<Item = &'static str> {
    dispatch::method_names()
}

/// Tools, listed or not.
pub fn tools() -> impl Iterator<Item = &'static str> {
    tools::names()
}

/// The tools that a client of `server` sees.
pub fn listed_tools(server: &Server) -> impl Iterator<Item = &'static str> {
    tools::listed(&server.handler.tools).map(|tool| tool.name)
}

/// Reasons of the server's own refusals, of sessions and of tasks.
pub fn reasons() -> Vec<&'static str> {
    let refusals = RefusalReason::ALL.iter().map(|reason| reason.name());
    let sessions = SessionReason::ALL.iter().map(|reason| reason.name());
    let tasks = TaskReason::ALL.iter().map(|reason| reason.name());
    refusals.chain(sessions).chain(tasks).collect()
}
