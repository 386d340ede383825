//! The MCP server: stdio and HTTP, tools, sessions, diagnostics, settings.
//!
//! A request comes in through `transport`, `mcp` decides what it asks for, `evaluation` runs its program, `render` makes its
//! reply. `sessions` keep what programs leave, `diagnostics` tell operators what happened, `settings` hold what they
//! wanted, `commands` are what they type. Programs are run by `ptc-lang`, payload texts come from `ptc-protocol`, secrets
//! are the business of `ptc-secrets`.

#![forbid(unsafe_code)]

mod agentic;
mod call;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod checks;
mod clock;
pub mod commands;
mod diagnostics;
mod digest;
mod evaluation;
pub mod facts;
mod mcp;
mod render;
mod server;
mod sessions;
pub mod settings;
mod token;
mod transport;
mod upstreams;
mod version;

/// What a binary that starts the server says once.
pub use ptc_lang::counting_allocator;

#[cfg(test)]
counting_allocator!();
