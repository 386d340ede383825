//! The state that the whole process shares: settings, gate, threads, log, redactor, tools.
//!
//! Knows nothing of frames or transports.

use crate::admission::gate::Gate;
use crate::admission::pressure::Watermark;
use crate::agentic::Agentic;
use crate::diagnostics::Sinks;
use crate::diagnostics::counters::Counters;
use crate::diagnostics::observe::Observers;
use crate::diagnostics::record::Ring;
use crate::diagnostics::trace::Tracer;
use crate::evaluation::Programs;
use crate::evaluation::pool::ThreadPool;
use crate::mcp::handler::Handler;
use crate::mcp::tools::ToolContext;
use crate::mcp::tools::program::{ArgumentLimits, ProgramContext};
use crate::mcp::tools::task::TaskContext;
use crate::sessions::Sessions;
use crate::settings::Settings;
use ptc_protocol::limits::ProgramLimits;
use ptc_secrets::Redactor;
use ptc_upstream::Runtime;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub struct Server {
    pub settings: Settings,
    pub(crate) redactor: Redactor,
    /// Handles to the queues of log lines and spans.
    pub(crate) sinks: Sinks,
    /// Limits the number of concurrent programs.
    pub(crate) gate: Arc<Gate>,
    /// The threads that run programs.
    pub(crate) pool: ThreadPool,
    /// Settings and services that all programs share.
    pub(crate) programs: Arc<Programs>,
    /// Counts of events since the start, if metrics are enabled.
    pub(crate) counters: Option<Arc<Counters>>,
    pub(crate) sessions: Arc<Sessions>,
    /// What frames are handled with.
    pub(crate) handler: Arc<Handler>,
}

/// Time that upstream servers get to end.
const UPSTREAMS_END_WAIT: Duration = Duration::from_secs(1);

/// What a server is made of.
pub(crate) struct ServerParts {
    pub settings: Settings,
    pub sinks: Sinks,
    pub redactor: Redactor,
    pub agentic: Agentic,
    pub programs: Programs,
    pub sessions: Sessions,
    pub pool: ThreadPool,
}

impl ServerParts {
    /// The parts of a server that evaluates on its own threads, and keeps sessions in its own memory.
    pub fn in_process(
        settings: Settings,
        sinks: Sinks,
        redactor: Redactor,
        upstreams: Option<Arc<Runtime>>,
        agentic: Agentic,
    ) -> Self {
        ServerParts {
            programs: Programs::new(&settings, redactor.clone(), upstreams),
            sessions: Sessions::new(settings.sessions.clone(), None),
            pool: ThreadPool::new(settings.concurrent_calls),
            settings,
            sinks,
            redactor,
            agentic,
        }
    }
}

impl Server {
    /// A server that evaluates on its own threads, and keeps sessions in its own memory.
    pub fn new(
        settings: Settings,
        sinks: Sinks,
        redactor: Redactor,
        upstreams: Option<Arc<Runtime>>,
        agentic: Agentic,
    ) -> Arc<Self> {
        let parts = ServerParts::in_process(settings, sinks, redactor, upstreams, agentic);
        Server::of(parts)
    }

    /// A server of these parts.
    pub(crate) fn of(parts: ServerParts) -> Arc<Self> {
        let ServerParts {
            settings,
            sinks,
            redactor,
            agentic,
            programs,
            sessions,
            pool,
        } = parts;
        let (programs, sessions) = (Arc::new(programs), Arc::new(sessions));
        let observers = Arc::new(observers(&settings, &programs));
        let metrics = settings
            .http
            .as_ref()
            .is_some_and(|http| http.metrics_path.is_some());
        let counters = metrics.then(|| Arc::new(Counters::default()));
        let watermark = Watermark::with_headroom(settings.watermark_percent, programs.memory_bytes);
        let gate = Gate::with_watermark(settings.concurrent_calls, watermark);
        let handler = Handler {
            redactor: redactor.clone(),
            profile: settings.profile,
            gate: gate.clone(),
            counters: counters.clone(),
            tools: tools(&settings, agentic, &programs, &sessions, &observers),
            observers,
            sessions: sessions.clone(),
        };
        Arc::new(Server {
            settings,
            redactor,
            sinks,
            gate,
            pool,
            programs,
            counters,
            sessions,
            handler: Arc::new(handler),
        })
    }

    /// Whether upstream servers are configured.
    pub fn is_aggregator(&self) -> bool {
        self.programs.upstreams.is_some()
    }

    /// Time and memory of one program.
    pub fn program_limits(&self) -> ProgramLimits {
        ProgramLimits {
            timeout: Duration::from_millis(self.programs.timeout_ms),
            memory_bytes: self.programs.memory_bytes,
        }
    }

    /// The longest that a call may take.
    pub fn call_timeout(&self) -> Duration {
        let agentic = &self.settings.agentic;
        let task = match agentic.enabled && self.is_aggregator() {
            true => agentic.task_timeout_ms,
            false => 0,
        };
        Duration::from_millis(self.programs.timeout_ms.max(task))
    }

    /// Ends everything that belongs to this owner.
    pub fn forget_owner(&self, owner: &str) {
        self.sessions.forget_owner(owner);
    }

    /// Ends what runs beside the process, within a short while: upstream children with their process groups.
    pub fn shut_down(&self, executor: Option<&tokio::runtime::Handle>) {
        if let (Some(upstreams), Some(executor)) = (&self.programs.upstreams, executor) {
            let ended =
                async { tokio::time::timeout(UPSTREAMS_END_WAIT, upstreams.shutdown()).await };
            // Children that do not end in time die when their pipes close with this process.
            let _ = executor.block_on(ended);
        }
        self.sinks.flush();
    }
}

fn tools(
    settings: &Settings,
    agentic: Agentic,
    programs: &Arc<Programs>,
    sessions: &Arc<Sessions>,
    observers: &Arc<Observers>,
) -> ToolContext {
    let programs = ProgramContext {
        programs: programs.clone(),
        profile: settings.profile,
        limits: ArgumentLimits {
            program_bytes: settings.program_bytes,
            context_bytes: settings.context_bytes,
        },
    };
    let diagnostics = &settings.diagnostics;
    ToolContext {
        tasks: TaskContext {
            programs: programs.clone(),
            planner: Arc::new(agentic),
            settings: Arc::new(settings.agentic.clone()),
        },
        programs,
        sessions: sessions.clone(),
        observers: observers.clone(),
        debug_bytes: diagnostics.debug_tool.then_some(diagnostics.response_bytes),
        read_only: settings.upstreams.read_only,
        list: OnceLock::new(),
    }
}

fn observers(settings: &Settings, programs: &Programs) -> Observers {
    let diagnostics = &settings.diagnostics;
    let redactor = &programs.redactor;
    Observers {
        ring: diagnostics.debug_tool.then(|| {
            Ring::new(
                diagnostics.ring_size,
                diagnostics.payloads,
                diagnostics.response_bytes,
            )
        }),
        tracer: diagnostics.trace_dir.as_deref().map(|dir| {
            Tracer::new(
                dir,
                diagnostics.payloads,
                diagnostics.trace_files,
                redactor.clone(),
            )
        }),
        redactor: redactor.clone(),
        aggregator: programs.upstreams.is_some(),
        prompts: settings.agentic.trace_prompts,
    }
}

#[cfg(test)]
mod tests;
