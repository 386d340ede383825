//! Events of a run, for listeners. Names and fields are part of the contract; the caller provides the
//! sinks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map as JsonMap, Value as Json, json};

use crate::lock::lock;

/// Receives events. Called on the thread of the run and, for calls inside `pmap`, on its workers.
pub trait Telemetry: Sync {
    fn emit(&self, event: &Event);
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `run.start`, `tool.call`, ….
    pub name: &'static str,
    pub measurements: Json,
    pub metadata: Json,
}

/// Fields in every event's metadata in addition to its own: the agent, and the position in the run.
pub const SPAN_FIELDS: &[&str] = &["agent_name", "agent_id", "span_id", "parent_span_id"];
/// The name of the event of a tool call.
pub const TOOL_CALL: &str = "tool.call";

/// Which layer a call came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The provider's tool calling.
    Native,
    PtcLisp,
}

impl Layer {
    /// The name in telemetry.
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
    pub layer: Layer,
    /// Whether a stored result was reused.
    pub cached: bool,
    /// Whether the call failed or was rejected.
    pub error: bool,
    /// SHA-256 of the canonical key's JSON, when the call has a key.
    pub cache_key_hash: Option<String>,
    /// Bytes of the stored result's JSON.
    pub retained_bytes: Option<u64>,
    /// Whether this call stored an entry.
    pub full_result_cached: bool,
    /// Whether the model saw only a part of the result.
    pub result_preview_truncated: bool,
    pub duration_ms: u64,
}

impl ToolCallFacts {
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

/// A new id of 8 hex digits, unique in this process.
pub(crate) fn new_id() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(1);
    // Multiplication by an odd factor is a bijection, and makes consecutive ids look different.
    let spread = GIVEN
        .fetch_add(1, Ordering::Relaxed)
        .wrapping_mul(0x9E37_79B1);
    format!("{spread:08x}")
}

/// Adds the identifying fields to each event of one run: `agent_name`, `agent_id`, `span_id`,
/// `parent_span_id`.
pub(crate) struct Spans<'a> {
    sink: &'a dyn Telemetry,
    agent_name: Json,
    agent_id: String,
    run: String,
    open: Mutex<OpenSpans>,
}

/// The open spans inside the run's span.
#[derive(Default)]
struct OpenSpans {
    turn: Option<String>,
    request: Option<String>,
}

impl<'a> Spans<'a> {
    pub(crate) fn new(sink: &'a dyn Telemetry, agent_name: Json) -> Self {
        Spans {
            sink,
            agent_name,
            agent_id: new_id(),
            run: new_id(),
            open: Mutex::default(),
        }
    }

    /// The span of an event and its parent. A start event opens a span, and the matching stop event
    /// closes it.
    fn place(&self, event: &'static str) -> (String, Option<String>) {
        let mut open = lock(&self.open);
        let around = |open: &OpenSpans| Some(open.turn.clone().unwrap_or_else(|| self.run.clone()));
        match event {
            "run.start" | "run.stop" => (self.run.clone(), None),
            "turn.start" => (open.turn.insert(new_id()).clone(), Some(self.run.clone())),
            "turn.stop" => {
                let turn = open.turn.take().unwrap_or_else(new_id);
                (turn, Some(self.run.clone()))
            }
            "llm.start" => (open.request.insert(new_id()).clone(), around(&open)),
            "llm.stop" => {
                let request = open.request.take().unwrap_or_else(new_id);
                (request, around(&open))
            }
            _ => (new_id(), around(&open)),
        }
    }
}

impl Telemetry for Spans<'_> {
    fn emit(&self, event: &Event) {
        let (span, parent) = self.place(event.name);
        let mut metadata = match &event.metadata {
            Json::Object(fields) => fields.clone(),
            _ => JsonMap::new(),
        };
        metadata.insert("agent_name".into(), self.agent_name.clone());
        metadata.insert("agent_id".into(), self.agent_id.as_str().into());
        metadata.insert("parent_span_id".into(), parent.into());
        // Tool calls overlap in `pmap`, so the caller names the span of each.
        metadata.entry("span_id").or_insert_with(|| span.into());
        self.sink.emit(&Event {
            name: event.name,
            measurements: event.measurements.clone(),
            metadata: metadata.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct EventLog(Mutex<Vec<Event>>);

    impl Telemetry for EventLog {
        fn emit(&self, event: &Event) {
            lock(&self.0).push(event.clone());
        }
    }

    #[test]
    fn spans_nest() {
        let kept = EventLog::default();
        let spans = Spans::new(&kept, "a".into());
        for name in [
            "run.start",
            "turn.start",
            "llm.start",
            "llm.stop",
            "tool.call",
            "turn.stop",
            "run.stop",
        ] {
            spans.emit(&Event {
                name,
                measurements: json!({}),
                metadata: json!({ "turn": 1 }),
            });
        }
        let events = lock(&kept.0);
        let field = |at: usize, name: &str| events[at].metadata[name].clone();
        for at in 0..events.len() {
            assert!(
                SPAN_FIELDS
                    .iter()
                    .all(|name| events[at].metadata.get(*name).is_some())
            );
            let id = field(at, "span_id");
            let id = id.as_str().unwrap();
            assert!(
                id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{id}"
            );
        }
        for (start, stop) in [(0, 6), (1, 5), (2, 3)] {
            assert_eq!(field(start, "span_id"), field(stop, "span_id"));
            assert_eq!(
                field(start, "parent_span_id"),
                field(stop, "parent_span_id")
            );
        }
        assert_eq!(field(0, "parent_span_id"), Json::Null);
        assert_eq!(field(1, "parent_span_id"), field(0, "span_id"));
        for inner in [2, 4] {
            assert_eq!(field(inner, "parent_span_id"), field(1, "span_id"));
        }
        assert_ne!(field(2, "span_id"), field(4, "span_id"));
    }
}
