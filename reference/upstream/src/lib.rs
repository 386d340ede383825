//! The upstream runtime: configured MCP and OpenAPI servers, called and discovered from programs.
//!
//! Knows configuration, transports, the catalog and the ledger of calls. Knows nothing of MCP's server side, of profiles or
//! of sessions; never sees the bytes of a credential.

mod arguments;
mod catalog;
mod config;
mod discovery;
mod docs;
mod fault;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod fuzz;
mod label;
mod ledger;
mod limits;
mod metrics;
mod program;
mod prose;
mod schema_keys;

mod runtime;
mod select;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod simulation;
pub mod span;
mod tool;
mod trace_context;
mod transport;

#[cfg(test)]
ptc_lang::counting_allocator!();

pub use catalog::{CatalogMode, Thresholds};
pub use config::{ConfigLookup, resolve_path};
pub use fault::{Reason, WorldFault};
pub use label::{Argument, argument_label, arguments, result_label};
pub use ledger::{CallEntry, CallStatus, ResultSummary, feedback_block};
pub use limits::Limits;
pub use metrics::{estimated_tokens, payload_reduction_ratio, ptc_metrics, round2};
pub use program::{Cancel, ProgramCalls};
pub use ptc_lang::rank::{Indexed, tokens};
pub use runtime::{
    ConfiguredUpstreams, Platform, Runtime, SnapshotMode, StartFault, UpstreamOptions,
};
pub use select::scrubbed_compact;
pub use tool::{PackedJson, Tool, Toolset};
pub use trace_context::TraceContext;
pub use transport::child::{
    Child, ChildExit, ExitFuture, KeeperLauncher, KeptCommand, Launcher, ProcessGroup,
};
#[cfg(target_os = "linux")]
pub use transport::keeper;
pub use transport::stdio::StdioConfig;
