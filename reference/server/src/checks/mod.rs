//! Entry points for tests and fuzzers: the whole server under their own scheduler, and its HTTP side under hostile bytes.

pub mod fuzz;
pub mod intake;
pub mod passes;
pub mod simulate;

use crate::agentic::Agentic;
use crate::diagnostics::Sinks;
use crate::evaluation::pool::ThreadPool;
use crate::server::{Server, ServerParts};
use crate::settings::Settings;
use ptc_secrets::Redactor;
use ptc_upstream::Runtime;
use std::sync::Arc;

/// The session store interface, for a simulation of several nodes that share a store.
pub mod sessions {
    pub use crate::sessions::{
        SessionError, Sessions, SharedSessions, StorePair, Turn, TurnEffects, store,
    };
}

/// The settings that these flags alone give.
fn settings(flags: &[String]) -> Settings {
    Settings::read(flags, |_| None).expect("the flags are valid")
}

/// A server without threads: a program runs when it is taken from the pool.
fn threadless_server(
    settings: Settings,
    redactor: Redactor,
    upstreams: Option<Arc<Runtime>>,
) -> Arc<Server> {
    let agentic = Agentic::read(&settings.agentic).expect("no files are named");
    let parts = ServerParts::in_process(settings, Sinks::default(), redactor, upstreams, agentic);
    Server::of(ServerParts {
        pool: ThreadPool::without_threads(),
        ..parts
    })
}
