//! The span of an upstream call, as layers of `tracing` see it. Knows nothing of how spans are exported.

use ptc_lang::{Pulse, Reason, heap};
use tracing::Span;
use tracing::field::Empty;
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::trace_context::TraceContext;

/// The name of the span.
pub const UPSTREAM_SPAN: &str = "upstream_call";
/// The field with the called tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// The field with the reason of a call that failed.
pub const ERROR: &str = "error.type";

/// An open span. What layers keep with it is not charged to the program.
pub(crate) struct CallSpan(Span);

impl CallSpan {
    /// The span of no call.
    pub fn none() -> Self {
        Self(Span::none())
    }

    /// Opens the span of a call; disabled when no layer takes it.
    pub fn open(server: &str, tool: &str) -> Self {
        heap::uncharged(|| {
            Self(tracing::info_span!(
                UPSTREAM_SPAN,
                "ptc.upstream.name" = server,
                { TOOL } = tool,
                { ERROR } = Empty,
            ))
        })
    }

    /// The trace context that names this span, if a layer exports it: the layer keeps the context among the span's extensions.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.with_subscriber(|(id, subscriber)| {
            let span = subscriber.downcast_ref::<Registry>()?.span(id)?;
            span.extensions().get::<TraceContext>().cloned()
        })?
    }

    /// The call failed for this reason.
    pub fn fail(&self, reason: &str) {
        heap::uncharged(|| self.0.record(ERROR, reason));
    }

    /// The program ended before the call did.
    pub fn stop(&self, why: Pulse) {
        self.fail(match why {
            Pulse::OutOfMemory => Reason::MemoryLimit.name(),
            Pulse::Cancelled => Reason::Cancelled.name(),
            Pulse::TimedOut | Pulse::Continue => Reason::Timeout.name(),
        });
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        heap::uncharged(|| drop(std::mem::replace(&mut self.0, Span::none())));
    }
}
