//! What frames are handled with. It holds no transport, no settings of HTTP, no threads and no log.

use crate::admission::gate::Gate;
use crate::diagnostics::counters::Counters;
use crate::diagnostics::observe::Observers;
use crate::mcp::tools::ToolContext;
use crate::sessions::Sessions;
use crate::settings::ResponseProfile;
use ptc_secrets::Redactor;
use std::sync::Arc;

pub struct Handler {
    pub redactor: Redactor,
    pub profile: ResponseProfile,
    /// Limits the number of concurrent programs.
    pub gate: Arc<Gate>,
    /// Counts of events since the start, if metrics are enabled.
    pub counters: Option<Arc<Counters>>,
    pub observers: Arc<Observers>,
    pub sessions: Arc<Sessions>,
    pub tools: ToolContext,
}
