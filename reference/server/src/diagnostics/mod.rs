//! What operators learn of a server at work: log lines, counters, the ring of recent calls, traces, spans.

pub mod counters;
pub mod events;
pub mod log;
pub mod observe;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod record;
pub mod trace;
