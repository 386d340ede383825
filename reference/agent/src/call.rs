//! One call of an app tool from either layer: cache lookup, function call, cache update.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

use ptc_lang::Value;
use serde_json::json;

use crate::cache::{Cache, CanonicalArgs};
use crate::lock::lock;
use crate::telemetry::{Event, Telemetry, new_id};
use crate::tool::{Tool, ToolFault};

/// The outcome of a call.
pub(crate) struct Invocation {
    pub result: Result<Value, ToolFault>,
    /// Whether a stored result was reused.
    pub cached: bool,
    /// Whether this call stored the result.
    pub stored: bool,
}

/// Calls `tool`, unless a result is stored under `key`; stores the result of a successful call under `key`.
///
/// Only successes are stored, so a failed call runs again. Two workers of a program may run the same call at
/// once; the last result is kept. From `until` on nobody waits for the result.
pub(crate) fn invoke(
    tool: &Tool,
    args: &Value,
    key: Option<&CanonicalArgs>,
    cache: &Mutex<Cache>,
    until: Option<Instant>,
    telemetry: Option<&dyn Telemetry>,
) -> Invocation {
    if let Some(key) = key
        && let Some(found) = lock(cache).get(&tool.name, key).cloned()
    {
        return Invocation {
            result: Ok(found),
            cached: true,
            stored: false,
        };
    }
    let started = Instant::now();
    let span = telemetry.map(|_| new_id());
    if let Some(telemetry) = telemetry {
        let metadata = json!({ "tool_name": tool.name, "span_id": span });
        telemetry.emit(&Event {
            name: "tool.start",
            measurements: json!({}),
            metadata,
        });
    }
    // A tool is the caller's code: a panic in it is a failed call, not the end of the agent.
    let outcome = catch_unwind(AssertUnwindSafe(|| (tool.function)(args, until)));
    let result = outcome.unwrap_or_else(|_| Err(ToolFault::new("the tool crashed")));
    if let Some(telemetry) = telemetry {
        let name = if result.is_ok() {
            "tool.stop"
        } else {
            "tool.exception"
        };
        let duration = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let metadata = json!({ "tool_name": tool.name, "span_id": span, "reason": result.as_ref().err().map(|fault| &fault.message) });
        telemetry.emit(&Event {
            name,
            measurements: json!({ "duration": duration }),
            metadata,
        });
    }
    let mut stored = false;
    if let (Ok(value), Some(key)) = (&result, key) {
        lock(cache).insert(&tool.name, key, value.clone());
        stored = true;
    }
    Invocation {
        result,
        cached: false,
        stored,
    }
}
