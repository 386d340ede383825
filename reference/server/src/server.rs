//! What the whole process shares: settings, gate, threads, log, redactor, tools.
//!
//! Knows nothing of frames or transports.

use crate::agentic::Agentic;
use crate::diagnostics::Sinks;
use crate::diagnostics::counters::Counters;
use crate::diagnostics::observe::Observers;
use crate::diagnostics::record::Ring;
use crate::diagnostics::trace::Tracer;
use crate::evaluation::gate::Gate;
use crate::evaluation::isolation::Evaluation;
use crate::evaluation::pool::Pool;
use crate::evaluation::pressure::Watermark;
use crate::mcp::tools;
use crate::sessions::Sessions;
use crate::settings::{Settings, Warning};
use ptc_protocol::limits::ProgramLimits;
use ptc_secrets::{Redactor, Scrubbed};
use ptc_upstream::Runtime;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub struct Server {
    /// What the operator asked for.
    pub settings: Settings,
    pub redactor: Redactor,
    /// Where what is told waits to be written.
    pub sinks: Sinks,
    /// Bounds the programs that run at once.
    pub gate: Arc<Gate>,
    /// The threads that they run on.
    pub pool: Pool,
    /// Where they are evaluated.
    pub evaluation: Evaluation,
    /// The upstream servers, when there are any.
    pub upstreams: Option<Arc<Runtime>>,
    /// What happened since the start, when somebody may ask.
    pub counters: Option<Counters>,
    pub observers: Observers,
    pub sessions: Sessions,
    /// The planner of `lisp_task`.
    pub agentic: Agentic,
    tools_list: OnceLock<Arc<Scrubbed<String>>>,
}

/// The server's name in `serverInfo`.
pub const NAME: &str = "ptc_lisp";
/// The version of this package.
pub const PACKAGE_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that this was built from, twelve hex digits, as the build says.
const BUILD_COMMIT: Option<&str> = option_env!("PTC_BUILD_COMMIT");
/// `"true"` when the build's tree had changes.
const BUILD_DIRTY: Option<&str> = option_env!("PTC_BUILD_DIRTY");

/// Time that upstream servers get to end.
const UPSTREAMS_END_WAIT: Duration = Duration::from_secs(1);

impl Server {
    /// A server with these settings. Logs the warnings that reading them gave.
    pub fn new(
        settings: Settings,
        sinks: Sinks,
        redactor: Redactor,
        upstreams: Option<Arc<Runtime>>,
        agentic: Agentic,
    ) -> Arc<Self> {
        let diagnostics = &settings.diagnostics;
        let observers = Observers {
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
        };
        let metrics = settings
            .http
            .as_ref()
            .is_some_and(|http| http.metrics_path.is_some());
        let mut server = Server {
            counters: metrics.then(Counters::default),
            upstreams,
            agentic,
            observers,
            gate: Gate::below(
                settings.concurrent_calls,
                Watermark::at(settings.watermark_percent),
            ),
            pool: Pool::new(settings.concurrent_calls),
            evaluation: Evaluation::Thread,
            sessions: Sessions::new(settings.sessions.clone()),
            tools_list: OnceLock::new(),
            settings,
            redactor,
            sinks,
        };
        let watermark = Watermark::with_room(
            server.settings.watermark_percent,
            server.program_memory_bytes(),
        );
        server.gate = Gate::below(server.settings.concurrent_calls, watermark);
        server.log_boot();
        Arc::new(server)
    }

    /// Whether upstream servers are configured.
    pub fn is_aggregator(&self) -> bool {
        self.upstreams.is_some()
    }

    /// Wall-clock limit of one program in milliseconds.
    pub fn program_timeout_ms(&self) -> u64 {
        let default = ProgramLimits::of(self.is_aggregator()).timeout;
        let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        self.settings.program_timeout_ms.unwrap_or(default)
    }

    /// Memory limit of one program in bytes.
    pub fn program_memory_bytes(&self) -> u64 {
        let default = ProgramLimits::of(self.is_aggregator()).memory_bytes;
        self.settings.program_memory_bytes.unwrap_or(default)
    }

    /// The longest that a call may take.
    pub fn call_timeout(&self) -> Duration {
        let agentic = &self.settings.agentic;
        let task = match agentic.enabled && self.is_aggregator() {
            true => agentic.task_timeout_ms,
            false => 0,
        };
        Duration::from_millis(self.program_timeout_ms().max(task))
    }

    /// Ends whatever belongs to an owner that is gone.
    pub fn forget_owner(&self, owner: &str) {
        self.sessions.forget_owner(owner);
    }

    /// The result of `tools/list`.
    pub fn tools_list(&self) -> Arc<Scrubbed<String>> {
        self.tools_list
            .get_or_init(|| Arc::new(tools::list_json(self)))
            .clone()
    }

    /// `serverInfo` as JSON.
    pub fn info_json() -> String {
        let dirty = BUILD_DIRTY == Some("true");
        let version = match (BUILD_COMMIT, dirty) {
            (None, _) => PACKAGE_VERSION.to_owned(),
            (Some(commit), false) => format!("{PACKAGE_VERSION}+{commit}"),
            (Some(commit), true) => format!("{PACKAGE_VERSION}+{commit}.dirty"),
        };
        format!(
            "{{\"build\":{{\"git_commit\":\"{}\",\"git_dirty\":{dirty},\"package_version\":\"{PACKAGE_VERSION}\"}},\
             \"name\":\"{NAME}\",\"version\":\"{version}\"}}",
            BUILD_COMMIT.unwrap_or("unknown")
        )
    }

    /// Ends what runs beside the process: upstream children with their groups, within a short while.
    pub fn shut_down(&self, executor: Option<&tokio::runtime::Handle>) {
        if let (Some(upstreams), Some(executor)) = (&self.upstreams, executor) {
            let ended =
                async { tokio::time::timeout(UPSTREAMS_END_WAIT, upstreams.shutdown()).await };
            // Children that don't end in time are killed with the process's end of their pipes.
            let _ = executor.block_on(ended);
        }
        self.sinks.flush();
    }

    /// Tells where programs are evaluated, and what the kernel can't do.
    pub fn log_isolation(&self) {
        let Some(landlock) = self.evaluation.is_confined() else {
            return;
        };
        tracing::info!(
            event = "isolation",
            isolation = "process",
            landlock = if landlock { "full" } else { "partial" },
            processes = self.settings.concurrent_calls,
        );
    }

    fn log_boot(&self) {
        for warning in &self.settings.warnings {
            match warning {
                Warning::Ignored(ignored) => {
                    let event = match ignored.flag {
                        "trace-payloads" => "trace_payloads_invalid",
                        "catalog-mode" => "catalog_mode_invalid",
                        _ => "setting_ignored",
                    };
                    tracing::warn!(
                        event,
                        expected = ignored.expected,
                        fallback = ignored.using,
                        flag = format!("--{}", ignored.flag),
                        value = ignored.got,
                    );
                }
                Warning::Clamped {
                    flag,
                    requested,
                    used,
                    min,
                    max,
                } => {
                    let event = format!("{}_clamped", flag.replace('-', "_"));
                    tracing::warn!(
                        event,
                        clamped_to = used,
                        max = (*max < u64::MAX).then_some(*max),
                        min,
                        requested,
                    );
                }
            }
        }
        for warning in self
            .upstreams
            .iter()
            .flat_map(|upstreams| upstreams.warnings())
        {
            tracing::warn!(event = "upstreams_warning", message = %*warning);
        }
        let agentic = &self.settings.agentic;
        if agentic.enabled {
            tracing::info!(
                event = "agentic_config",
                fields = self.agentic.described(agentic).to_string().as_bytes(),
            );
        }
        if agentic.enabled && !self.is_aggregator() {
            tracing::warn!(
                event = "agentic_without_aggregator",
                message = "agentic mode is enabled but no upstream MCP servers are configured",
            );
        }
        let diagnostics = &self.settings.diagnostics;
        if diagnostics.debug_tool {
            tracing::info!(
                event = "debug_config",
                max_response_bytes = diagnostics.response_bytes,
                ring_size = diagnostics.ring_size,
            );
        }
    }
}
