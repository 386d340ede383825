//! The mutants of servers with state: sessions, upstreams, diagnostics. One row each; the functions that need more than a line stand
//! below the table.

use crate::json::Json;

use super::edit::{self, at, remove, set};
use super::{Mutant, Mutation, flagged, over_stdio as row, payload};

flagged!(row);

const fn printed(name: &'static str, clause: &'static str, edit: fn(&str) -> String) -> Mutant {
    row(name, clause, Mutation::Printed(edit))
}

/// All of them, in the order of the specification.
pub const MUTANTS: &[Mutant] = &[
    // Sessions.
    flag(
        "sessions-always",
        "mcp.sessions.enabling.off",
        "--sessions",
        "",
    ),
    row(
        "sessions-tool-missing",
        "mcp.sessions.tools.added",
        Mutation::Reply(tool_missing),
    ),
    payload("sessions-endless", "mcp.sessions.tools.start", |payload| {
        remove(payload, &[], "expires_at");
    }),
    payload(
        "sessions-arguments-plain",
        "mcp.sessions.tools.arguments",
        |payload| {
            reason(payload, "session_args_error", "args_error");
        },
    ),
    payload(
        "sessions-closed-unknown",
        "mcp.sessions.tools.unknown",
        |payload| {
            reason(payload, "session_closed", "session_not_found");
        },
    ),
    row(
        "sessions-forget",
        "mcp.sessions.turns.keeps",
        Mutation::Program(|text| text.replace("(def ", "(def zz-")),
    ),
    row(
        "sessions-keep-failures",
        "mcp.sessions.turns.atomic",
        Mutation::Program(|text| text.replace("(fail ", "(return ")),
    ),
    payload(
        "sessions-busy-plain",
        "mcp.sessions.turns.busy",
        |payload| {
            reason(payload, "session_busy", "busy");
        },
    ),
    row(
        "sessions-cancel-ignored",
        "mcp.sessions.turns.cancelled",
        Mutation::Stream(super::Stream::AnswersCancelled),
    ),
    row(
        "sessions-changes-unnamed",
        "mcp.sessions.profiles.structured",
        Mutation::Reply(changes_unnamed),
    ),
    payload(
        "sessions-changes-unshown",
        "mcp.sessions.profiles.debug",
        |payload| {
            remove(payload, &["memory"], "changed");
        },
    ),
    flag(
        "sessions-any-number",
        "mcp.sessions.owner-cap.count",
        "--max-sessions-per-owner",
        "9999",
    ),
    flag(
        "sessions-any-definitions",
        "mcp.sessions.caps.state",
        "--max-session-bindings",
        "9999",
    ),
    flag(
        "sessions-any-result",
        "mcp.sessions.caps.history",
        "--max-session-history-entry-bytes",
        "99999999",
    ),
    flag(
        "sessions-never-idle",
        "mcp.sessions.lives.idle",
        "--session-idle-timeout-ms",
        "99999999",
    ),
    flag(
        "sessions-immortal",
        "mcp.sessions.longest-life.ends",
        "--session-ttl-ms",
        "99999999",
    ),
    payload(
        "sessions-view-unnamed",
        "mcp.sessions.inspect.views",
        |payload| {
            remove(payload, &[], "view");
        },
    ),
    payload(
        "sessions-miscounted",
        "mcp.sessions.inspect.list",
        |payload| {
            if at(payload, &["sessions"]).is_some() {
                set(payload, &[], "count", Json::from(99));
            }
        },
    ),
    payload(
        "sessions-removed-unsaid",
        "mcp.sessions.inspect.forget",
        |payload| {
            remove(payload, &[], "removed_bindings");
        },
    ),
    // Session stores.
    payload(
        "store-ids-short",
        "mcp.session_store.setting.memory",
        |payload| {
            if at(payload, &["session_id"]).is_some() {
                set(payload, &[], "session_id", Json::from("ptcs_1"));
            }
        },
    ),
    row(
        "store-keys-forget",
        "mcp.session_store.key.several",
        Mutation::Program(|text| text.replace("(def ", "(def zz-")),
    ),
    payload(
        "store-key-lists-nothing",
        "mcp.session_store.key.right",
        |payload| {
            if at(payload, &["sessions"]).is_some() {
                set(payload, &[], "sessions", Json::Array(Vec::new()));
                set(payload, &[], "count", Json::from(0));
            }
        },
    ),
    row(
        "store-captures-lost",
        "mcp.session_store.kept.values",
        Mutation::Program(|text| text.replace("[n 40]", "[n 0]")),
    ),
    row(
        "store-results-lost",
        "mcp.session_store.kept.values",
        Mutation::Symbol("*1", "*2"),
    ),
    row(
        "store-keeps-failures",
        "mcp.session_store.kept.nothing",
        Mutation::Program(|text| text.replace("(fail ", "(return ")),
    ),
    payload(
        "store-forgets-nothing",
        "mcp.session_store.kept.forget",
        |payload| {
            if at(payload, &["removed_bindings"]).is_some() {
                set(payload, &[], "removed_bindings", Json::Array(Vec::new()));
            }
        },
    ),
    flag(
        "store-needed-after-all",
        "mcp.session_store.away.optional",
        "--session-store-optional",
        "false",
    ),
    row(
        "store-needed-to-evaluate",
        "mcp.session_store.away.eval",
        Mutation::Reply(|frame, method| {
            if method == "tools/call" {
                set(frame, &["result"], "isError", Json::from(true));
            }
        }),
    ),
    payload(
        "store-away-is-no-session",
        "mcp.session_store.away.reason",
        |payload| {
            reason(payload, "session_store_unavailable", "session_not_found");
        },
    ),
    // Upstreams.
    printed(
        "upstream-kind-dropped",
        "upstream.calls.values.kind",
        |text| text.replace(":value_kind", ":kind"),
    ),
    printed(
        "upstream-failures-ok",
        "upstream.calls.world.tagged",
        |text| text.replace(":ok false", ":ok true"),
    ),
    row(
        "upstream-hyphens-sent",
        "upstream.calls.arguments.keys",
        Mutation::Program(|text| text.replace('-', "_")),
    ),
    payload(
        "upstream-wordy",
        "upstream.calls.exact.message",
        |payload| {
            if let Some(Json::String(message)) = at(payload, &["message"]) {
                message.push('.');
            }
        },
    ),
    flag(
        "upstream-any-number-of-calls",
        "upstream.calls.budget.cap",
        "--max-upstream-calls-per-program",
        "9999",
    ),
    flag(
        "upstream-cap-too-large",
        "upstream.calls.budget.atomic",
        "--max-upstream-calls-per-program",
        "9999",
    ),
    printed(
        "upstream-errors-of-tools",
        "upstream.faults.answers.reason",
        |text| text.replace("upstream_error", "tool_error"),
    ),
    printed(
        "upstream-crash-as-error",
        "upstream.faults.crash.call",
        |text| text.replace("upstream_unavailable", "upstream_error"),
    ),
    row(
        "upstream-redaction-starred",
        "upstream.redaction.values.forms",
        Mutation::Reply(starred),
    ),
    row(
        "upstream-faults-starred",
        "upstream.redaction.values.faults",
        Mutation::Reply(starred),
    ),
    row(
        "upstream-programs-starred",
        "upstream.redaction.values.program",
        Mutation::Reply(starred),
    ),
    printed(
        "upstream-counts-renamed",
        "upstream.discovery.servers.rows",
        |text| text.replace("tool_count", "tools"),
    ),
    printed(
        "upstream-dashes-dropped",
        "upstream.discovery.dir.lines",
        |text| text.replace(" - ", ": "),
    ),
    printed(
        "upstream-doc-reworded",
        "upstream.discovery.doc.layout",
        |text| text.replace("Returns", "Gives"),
    ),
    printed(
        "upstream-meta-renamed",
        "upstream.discovery.meta.parts",
        |text| text.replace("input_schema", "schema"),
    ),
    flag(
        "upstream-any-discovery",
        "upstream.discovery.budget.nil",
        "--max-catalog-ops-per-program",
        "9999",
    ),
    flag(
        "upstream-any-listing",
        "upstream.discovery.budget.size",
        "--max-catalog-result-bytes",
        "99999999",
    ),
    flag(
        "upstream-never-inline",
        "upstream.catalog.inline.layout",
        "--catalog-mode",
        "lazy",
    ),
    flag(
        "upstream-never-lazy",
        "upstream.catalog.lazy.names",
        "--catalog-mode",
        "inline",
    ),
    flag(
        "upstream-any-number-of-tools",
        "upstream.catalog.auto.tools",
        "--catalog-inline-max-tools",
        "9999",
    ),
    flag(
        "upstream-any-description",
        "upstream.catalog.auto.descriptions",
        "--catalog-inline-max-chars",
        "99999",
    ),
    payload(
        "upstream-bytes-unknown",
        "upstream.metrics.calls.entry",
        bytes_unknown,
    ),
    payload(
        "upstream-ratio-rounded",
        "upstream.metrics.block.ratio",
        |payload| {
            set(
                payload,
                &["ptc_metrics"],
                "payload_reduction_ratio",
                Json::from(1),
            );
        },
    ),
    payload(
        "upstream-metrics-always",
        "upstream.metrics.block.absent",
        |payload| {
            if at(payload, &["ptc_metrics"]).is_none() {
                set(payload, &[], "ptc_metrics", Json::object::<&str>([]));
            }
        },
    ),
    printed(
        "upstream-results-unlabelled",
        "upstream.rendering.labels.absent",
        |text| text.replace("Result<any>", "any"),
    ),
    // Diagnostics.
    flag("debug-always", "mcp.debug.tool.off", "--debug-tool", ""),
    payload(
        "debug-arguments-reworded",
        "mcp.debug.asking.arguments",
        |payload| {
            reason(payload, "args_error", "runtime_error");
        },
    ),
    flag(
        "debug-payloads-kept",
        "mcp.debug.policies.none",
        "--trace-payloads",
        "full",
    ),
    flag(
        "debug-payloads-lost",
        "mcp.debug.full.kept",
        "--trace-payloads",
        "none",
    ),
    flag(
        "debug-any-size",
        "mcp.debug.size.cut",
        "--max-debug-response-bytes",
        "99999999",
    ),
];

fn reason(payload: &mut Json, from: &str, to: &str) {
    if let Some(Json::String(reason)) = at(payload, &["reason"])
        && reason == from
    {
        to.clone_into(reason);
    }
}

fn tool_missing(frame: &mut Json, method: &str) {
    if method == "tools/list"
        && let Some(Json::Array(tools)) = at(frame, &["result", "tools"])
    {
        tools.retain(|tool| tool.get("name").and_then(Json::as_str) != Some("lisp_session_forget"));
    }
}

fn changes_unnamed(frame: &mut Json, _method: &str) {
    edit::payload(frame, |payload| {
        remove(payload, &["memory"], "changed_keys");
    });
    edit::payload(frame, |payload| {
        remove(payload, &["memory"], "stored_keys");
    });
}

fn starred(frame: &mut Json, _method: &str) {
    let text = frame.to_string().replace("[REDACTED]", "********");
    if let Ok(changed) = Json::parse(&text) {
        *frame = changed;
    }
}

fn bytes_unknown(payload: &mut Json) {
    if let Some(Json::Array(calls)) = at(payload, &["upstream_calls"]) {
        for call in calls {
            remove(call, &[], "result_bytes");
        }
    }
}
