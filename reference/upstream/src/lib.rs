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
mod needs;
mod program;
mod prose;

mod runtime;
mod select;
mod tool;
mod trace_context;
mod transport;

#[cfg(test)]
ptc_lang::counting_allocator!();

pub use catalog::{CatalogMode, Thresholds};
pub use config::{Lookup, resolve_path};
pub use fault::{Reason, WorldFault};
pub use label::{Argument, argument_label, arguments, result_label};
pub use ledger::{Entry, Status, Summary, feedback_block};
pub use limits::Limits;
pub use metrics::{estimated_tokens, payload_reduction_ratio, ptc_metrics, round2};
pub use program::{Cancel, ProgramCalls};
pub use ptc_lang::rank::{Indexed, tokens};
pub use runtime::{Configured, Driver, Options, Runtime, SnapshotMode, StartFault, Surroundings};
pub use tool::{PackedJson, Tool, Toolset};
pub use trace_context::TraceContext;
pub use transport::carrier::{Carried, Carrier};
pub use transport::child::{Child, End, Group, Kept, KeptCommand, Launcher, Life};
#[cfg(target_os = "linux")]
pub use transport::keeper;
pub use transport::stdio::StdioConfig;
