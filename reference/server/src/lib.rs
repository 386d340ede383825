//! The MCP server: stdio and HTTP, tools, sessions, diagnostics, settings.
//!
//! Programs are run by `ptc-lang`, payload texts come from `ptc-protocol`, secrets are the business of `ptc-secrets`.

#![forbid(unsafe_code)]

mod agent_command;
mod agentic;
pub mod cli;
mod clock;
mod connection;
mod counters;
mod digest;
mod dispatch;
mod doctor;
mod eval;
mod eval_command;
mod events;
pub mod facts;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod http;
mod intake;
mod isolation;
mod log;
mod observe;
#[cfg(feature = "otlp")]
mod otlp;
mod payload;
mod pool;
mod pressure;
mod preview;
mod profile;
mod reason;
mod record;
mod redact;
mod repl;
mod reply;
mod server;
mod sessions;
pub mod settings;
mod signals;
#[doc(hidden)]
pub mod simulate;
mod stdio;
mod testee;
mod token;
mod tools;
mod trace;
mod upstreams;
