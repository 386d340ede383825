//! The first lines of a server's log: what its settings became. Knows nothing of servers.

use crate::agentic::Agentic;
use crate::evaluation::isolation::Evaluation;
use crate::settings::{Settings, Warning};
use ptc_upstream::Runtime;

/// Logs the warnings that arose when settings and upstream servers were read, and what optional parts are set to.
pub fn settings(settings: &Settings, upstreams: Option<&Runtime>, agentic: &Agentic) {
    log_warnings(&settings.warnings);
    for warning in upstreams.iter().flat_map(|upstreams| upstreams.warnings()) {
        tracing::warn!(event = "upstreams_warning", message = %*warning);
    }
    if settings.agentic.enabled {
        tracing::info!(
            event = "agentic_config",
            fields = agentic.described(&settings.agentic).to_string().as_bytes(),
        );
    }
    if settings.agentic.enabled && upstreams.is_none() {
        tracing::warn!(
            event = "agentic_without_aggregator",
            message = "agentic mode is enabled but no upstream MCP servers are configured",
        );
    }
    let diagnostics = &settings.diagnostics;
    if diagnostics.debug_tool {
        tracing::info!(
            event = "debug_config",
            max_response_bytes = diagnostics.response_bytes,
            ring_size = diagnostics.ring_size,
        );
    }
}

fn log_warnings(warnings: &[Warning]) {
    for warning in warnings {
        match warning {
            Warning::Ignored(ignored) => {
                tracing::warn!(
                    event = ignored.event,
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
}

/// Logs where programs are evaluated, and whether the kernel confines them fully.
pub fn isolation(evaluation: &Evaluation, processes: usize) {
    let Some(landlock) = evaluation.is_confined() else {
        return;
    };
    tracing::info!(
        event = "isolation",
        isolation = "process",
        processes,
        landlock = if landlock { "full" } else { "partial" },
    );
}
