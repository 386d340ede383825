//! Starts the upstream runtime as the settings say, and turns its ledger into members of payloads.
//!
//! Knows nothing of how upstreams are reached.

use crate::agentic::AgenticFault;
use crate::settings::{AgenticSettings, Settings, UpstreamSettings};
use ptc_protocol::members::{
    StoredToolCall, StoredUpstreamCall, ToolCallArguments, UpstreamCall, UpstreamMembers,
};
use ptc_protocol::{Field, Payload};
use ptc_secrets::{ConfigDocument, ConfigFault, RedactorBuilder};
use ptc_upstream::{
    CallEntry, ConfigLookup, ConfiguredUpstreams, KeeperLauncher, Platform, SnapshotMode,
    UpstreamOptions, ptc_metrics, resolve_path,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The path of the config file, if upstreams are configured.
pub fn config_path(settings: &Settings) -> Option<PathBuf> {
    let lookup = ConfigLookup {
        flag: settings.upstreams.config.clone().map(PathBuf::from),
        variable: "PTC_RUNNER_MCP_UPSTREAMS",
        default_file: true,
    };
    resolve_path(&lookup, &environment)
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the upstreams config, and registers the secrets in it with `secrets`.
///
/// # Errors
/// What is wrong in the file, and where.
pub fn read(
    path: &Path,
    settings: &Settings,
    secrets: &mut RedactorBuilder,
) -> Result<ConfiguredUpstreams, ConfigFault> {
    let document = ConfigDocument::read(path, &environment)?;
    let options = options(&settings.upstreams);
    ConfiguredUpstreams::read(&document, options, secrets, &environment)
}

/// Like [`read`], but reports all faults at once: returns the upstreams that could be started, and every refusal.
pub fn read_with_all_faults(
    path: &Path,
    settings: &Settings,
    secrets: &mut RedactorBuilder,
) -> (Option<ConfiguredUpstreams>, Vec<ConfigFault>) {
    let document = match ConfigDocument::read(path, &environment) {
        Ok(document) => document,
        Err(fault) => return (None, vec![fault]),
    };
    let options = options(&settings.upstreams);
    let (configured, faults) =
        ConfiguredUpstreams::read_with_all_faults(&document, options, secrets, &environment);
    (Some(configured), faults)
}

/// How the upstream runtime is started.
pub fn options(settings: &UpstreamSettings) -> UpstreamOptions {
    UpstreamOptions {
        snapshot: SnapshotMode::Frozen,
        limits: settings.limits.clone(),
        catalog: settings.catalog_mode,
        thresholds: settings.thresholds,
        own: std::env::current_exe().into_iter().collect(),
        platform: platform(),
    }
}

/// How upstreams are launched: each below its own keeper process, which is this executable with another command.
pub fn platform() -> Platform {
    Platform::with_launcher(Arc::new(KeeperLauncher))
}

/// Refuses an agentic mode that could write without permission.
///
/// # Errors
/// Which flag is missing.
pub fn check_agentic(
    agentic: &AgenticSettings,
    upstreams: &UpstreamSettings,
    aggregator: bool,
) -> Result<(), AgenticFault> {
    if agentic.allow_writes && !agentic.enabled {
        return Err(AgenticFault::WritesAlone);
    }
    if agentic.enabled && aggregator && !upstreams.read_only && !agentic.allow_writes {
        return Err(AgenticFault::MayWrite);
    }
    Ok(())
}

/// Adds a program's upstream calls to its full payload. In a session, each entry includes its summary.
pub fn add(payload: &mut Payload, entries: &[CallEntry], in_session: bool) {
    if entries.is_empty() {
        return;
    }
    let is_error = payload.text("status") == Some("error");
    if is_error && let Some(block) = ptc_upstream::feedback_block(entries) {
        let feedback = payload.text("feedback").unwrap_or_default();
        let gap = if feedback.is_empty() { "" } else { "\n\n" };
        let feedback = format!("{feedback}{gap}{block}");
        payload.set("feedback", feedback);
    }
    let calls = entries.iter().map(|entry| UpstreamCall {
        result_overview: entry.overview().filter(|_| in_session),
        ..entry.call()
    });
    let result_bytes = match is_error {
        true => 0,
        false => payload.text("result").map_or(0, str::len),
    };
    let prints_bytes = payload.get("prints").map_or(0, Field::json_bytes);
    payload.add(UpstreamMembers {
        upstream_calls: calls.collect(),
        ptc_metrics: ptc_metrics(entries, result_bytes as u64, prints_bytes as u64),
        upstream_results: (!in_session).then(|| entries.iter().map(CallEntry::result).collect()),
    });
}

/// The entries as a session keeps them: its tool calls, and its upstream calls.
pub fn histories(entries: &[CallEntry]) -> (Vec<Payload>, Vec<Payload>) {
    let tool_calls = entries.iter().map(|entry| StoredToolCall {
        args: ToolCallArguments {
            server: entry.server.clone(),
            tool: entry.tool.clone(),
            args: entry
                .args_given
                .then(|| Field::Json(entry.arguments.clone())),
        },
        name: "call",
    });
    let upstream_calls = entries.iter().map(|entry| StoredUpstreamCall {
        args: Payload::new(),
        name: format!("{}.{}", entry.server, entry.tool),
        status: entry.status_word(),
        error: entry.error.as_ref().map(|(_, error)| error.clone()),
    });
    (
        tool_calls.map(Payload::from).collect(),
        upstream_calls.map(Payload::from).collect(),
    )
}
