//! Events of a run, for whoever listens. Names and fields are the contract; sinks are the caller's.

use serde_json::{Value as Json, json};

/// Receives events. Called on the thread of the run and, for calls inside `pmap`, on its workers.
pub trait Telemetry: Sync {
    /// Takes one event.
    fn emit(&self, event: &Event);
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `run.start`, `tool.call`, ….
    pub name: &'static str,
    /// Numbers.
    pub measurements: Json,
    /// Everything else.
    pub metadata: Json,
}

/// The name of the event of a tool call.
pub const TOOL_CALL: &str = "tool.call";

/// Which layer a call came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The provider's tool calling.
    Native,
    /// A program.
    PtcLisp,
}

impl Layer {
    /// As telemetry has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Native => "native",
            Layer::PtcLisp => "ptc_lisp",
        }
    }
}

/// The fields of a tool call's event.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallFacts {
    /// The name that the caller used.
    pub tool_name: String,
    /// Where the call came from.
    pub layer: Layer,
    /// Whether a stored result was reused.
    pub cached: bool,
    /// Whether it failed or was rejected.
    pub error: bool,
    /// SHA-256 of the canonical key's JSON, when the call has a key.
    pub cache_key_hash: Option<String>,
    /// Bytes of the stored result's JSON.
    pub retained_bytes: Option<u64>,
    /// Whether an entry was stored by this call.
    pub full_result_cached: bool,
    /// Whether what the model saw leaves out a part of the result.
    pub result_preview_truncated: bool,
    /// Milliseconds.
    pub duration_ms: u64,
}

impl ToolCallFacts {
    /// The event.
    #[must_use]
    pub fn event(&self) -> Event {
        Event {
            name: TOOL_CALL,
            measurements: json!({ "duration_ms": self.duration_ms }),
            metadata: json!({
                "tool_name": self.tool_name,
                "exposure_layer": self.layer.name(),
                "cached": self.cached,
                "error": self.error,
                "cache_key_hash": self.cache_key_hash,
                "retained_bytes": self.retained_bytes,
                "full_result_cached": self.full_result_cached,
                "result_preview_truncated": self.result_preview_truncated,
            }),
        }
    }
}
