//! The MCP server as a library: stdio and HTTP, tools, sessions, diagnostics, settings. The binary is `ptc`'s.
//!
//! A request arrives through `transport`; `mcp` decides what it asks for, `admission` whether it runs now, `evaluation` runs its program,
//! and `render` builds its reply. `sessions` keep what programs leave, `diagnostics` report to operators, `settings` hold their
//! configuration, and `start` puts a server together from all of these. `ptc-lang` runs programs, `ptc-protocol` provides the texts of
//! payloads, `ptc-secrets` handles secrets.

#![forbid(unsafe_code)]

mod admission;
mod agentic;
mod call;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod checks;
pub mod clock;
mod diagnostics;
mod evaluation;
mod executor;
pub mod facts;
mod mcp;
mod render;
mod server;
mod sessions;
pub mod settings;
pub mod start;
pub mod token;
mod transport;
pub mod upstreams;
pub mod version;

use ptc_agent::lock;

// What the commands of `ptc` use; the modules themselves stay private.
pub use agentic::{Agentic, register_keys};
pub use diagnostics::install as install_diagnostics;
pub use evaluation::as_runtime_error;
#[cfg(target_os = "linux")]
pub use evaluation::isolation::worker;
pub use render::redact;
pub use server::Server;
pub use sessions::record::{SNAPSHOT_BYTES_MAX, SnapshotDeadline};
pub use sessions::{ListedSession, SessionError, SharedSessions, examine as examine_store};
pub use transport::signals;

#[cfg(test)]
ptc_lang::counting_allocator!();
