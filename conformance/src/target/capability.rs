//! The capabilities that cases can require: what each means, and how the harness determines that a target has it.
//! A table; knows nothing of any declaration or target.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its word in `requires`, `implements`, `lacks` and `extensions`.
    pub name: &'static str,
    /// How the harness determines that a target has it.
    pub known: DetectionRule,
    /// What a target with it does, as a verb phrase.
    pub meaning: &'static str,
}

/// How the harness determines that a target has a capability. A declaration always takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectionRule {
    /// By the way in which the target is reached: nothing to declare.
    Reached,
    /// On, unless a running server lacks this tool.
    Tool(&'static str),
    /// On, unless `lisp_eval` lists no such argument.
    Argument(&'static str),
    /// On.
    Granted,
    /// Off, unless this method answers with a result.
    Answered(&'static str),
    /// Off, unless it is declared.
    Declared,
    /// By a survey of an MCP server: nothing to declare.
    Surveyed,
}

impl DetectionRule {
    /// The rule in words, for display.
    pub fn words(self) -> String {
        match self {
            Self::Reached => "by how the target is reached".to_owned(),
            Self::Tool(tool) => format!("on, unless a running server lists no `{tool}`"),
            Self::Argument(argument) => {
                format!("on, unless `lisp_eval` lists no argument `{argument}`")
            }
            Self::Granted => "on, unless the declaration says otherwise".to_owned(),
            Self::Answered(method) => {
                format!("off, unless `{method}` is answered or it is declared")
            }
            Self::Declared => "off, unless it is declared".to_owned(),
            Self::Surveyed => "by what an MCP server says of itself".to_owned(),
        }
    }
}

/// Runs programs at all.
pub const LISP_RUN: &str = "lisp_run";

/// Returns results as JSON under a schema.
pub const OUTPUT_SCHEMA: &str = "output_schema";

const fn row(name: &'static str, known: DetectionRule, meaning: &'static str) -> Capability {
    Capability {
        name,
        known,
        meaning,
    }
}

/// Every capability. Those that older servers cannot know of are off until they are declared or detected, because no document
/// requires them of these servers.
pub const CAPABILITIES: &[Capability] = &[
    row(LISP_RUN, DetectionRule::Tool("lisp_eval"), "runs programs"),
    row(
        "stdio",
        DetectionRule::Reached,
        "speaks MCP over its standard streams",
    ),
    row(
        "http",
        DetectionRule::Reached,
        "speaks MCP over Streamable HTTP",
    ),
    row(
        "cli",
        DetectionRule::Reached,
        "is a program with commands; a launch template names it under `[programs]`",
    ),
    row(
        "testee",
        DetectionRule::Reached,
        "has an adapter that calls its library",
    ),
    row(
        "sessions",
        DetectionRule::Tool("lisp_session_eval"),
        "keeps definitions in sessions",
    ),
    row(
        "debug",
        DetectionRule::Tool("lisp_debug"),
        "shows what it kept of earlier calls",
    ),
    row(
        "agentic",
        DetectionRule::Tool("lisp_task"),
        "plans and runs tasks with a model",
    ),
    row(
        "aggregator",
        DetectionRule::Granted,
        "calls upstream servers",
    ),
    row(
        OUTPUT_SCHEMA,
        DetectionRule::Argument(OUTPUT_SCHEMA),
        "checks results against a schema and shows them as JSON",
    ),
    row(
        "stateless",
        DetectionRule::Answered("server/discover"),
        "speaks the stateless revision 2026-07-28",
    ),
    row(
        "modern_upstreams",
        DetectionRule::Declared,
        "calls upstream servers that speak the stateless revision alone",
    ),
    row(
        "openapi_refs",
        DetectionRule::Declared,
        "resolves references inside an OpenAPI description",
    ),
    row(
        "trace_context",
        DetectionRule::Declared,
        "hands W3C trace contexts on",
    ),
    row(
        "metrics",
        DetectionRule::Declared,
        "serves Prometheus metrics",
    ),
    row(
        "crowd_control",
        DetectionRule::Declared,
        "bounds connections and unfinished bodies by the flags that the reference has for it",
    ),
    row(
        "trusted_proxies",
        DetectionRule::Declared,
        "believes the proxies that `http_trusted_proxy` names",
    ),
    row(
        "web_pages",
        DetectionRule::Declared,
        "answers the pages that may call as browsers ask, and refuses what other pages cause",
    ),
    row(
        "fair_rate_limit",
        DetectionRule::Declared,
        "counts wrong tokens alone, and lets the right one pass during a block",
    ),
    row(
        "prompt_expiry",
        DetectionRule::Declared,
        "ends protocol sessions when their time is over, not at a later sweep",
    ),
    row(
        "hang_up_cancels",
        DetectionRule::Declared,
        "cancels a call whose client over HTTP has gone",
    ),
    row(
        "half_closed_clients",
        DetectionRule::Declared,
        "answers a client over HTTP that has said that it will send no more",
    ),
    row(
        "credential_floor",
        DetectionRule::Declared,
        "refuses credentials that can be guessed, unless `allow_short` is there",
    ),
    row(
        "child_environment",
        DetectionRule::Declared,
        "gives upstreams no more of its environment than revision 1.1 names, takes `inherit_env`, and scrubs what `${VAR}` stands for",
    ),
    row(
        "bounded_files",
        DetectionRule::Declared,
        "reads no more of a file that its start names than that may have",
    ),
    row(
        "measured_sizes",
        DetectionRule::Declared,
        "reckons what a session keeps by the very bytes that were measured of the original",
    ),
    row(
        "path_guard",
        DetectionRule::Declared,
        "refuses arguments that lead out of the path of their OpenAPI operation, instead of sending them encoded",
    ),
    row(
        "isolation",
        DetectionRule::Declared,
        "evaluates programs in processes where `isolation` says so",
    ),
    row(
        "session_store",
        DetectionRule::Declared,
        "keeps sessions where `session_store` says",
    ),
    row(
        "memory_watermark",
        DetectionRule::Declared,
        "is busy above `memory_watermark_percent`",
    ),
    row(
        "decoding_redactor",
        DetectionRule::Declared,
        "finds credentials by decoding what is written, not in a list of forms",
    ),
    row(
        "setting_warnings",
        DetectionRule::Declared,
        "logs a warning for a setting that it passes over",
    ),
    row(
        "command_help",
        DetectionRule::Declared,
        "tells its use and its version by flags, each command its own",
    ),
    row(
        "repl",
        DetectionRule::Declared,
        "has the commands `repl` and `eval`, and speaks there as the pages about them say",
    ),
    row(
        "doctor",
        DetectionRule::Declared,
        "has the command `doctor`",
    ),
    row(
        "agent_run",
        DetectionRule::Declared,
        "has the command `agent run`",
    ),
    row(
        "replay",
        DetectionRule::Declared,
        "can have a recording as its model (`replay:FILE`)",
    ),
    row("mcp-tools", DetectionRule::Surveyed, "declares tools"),
    row(
        "mcp-resources",
        DetectionRule::Surveyed,
        "declares resources",
    ),
    row(
        "mcp-subscribe",
        DetectionRule::Surveyed,
        "declares subscriptions to resources",
    ),
    row("mcp-prompts", DetectionRule::Surveyed, "declares prompts"),
    row(
        "mcp-completions",
        DetectionRule::Surveyed,
        "declares completions",
    ),
    row(
        "mcp-logging",
        DetectionRule::Surveyed,
        "declares log messages",
    ),
    row(
        "mcp-sessions",
        DetectionRule::Surveyed,
        "gives out session ids over HTTP",
    ),
    row(
        "mcp-delete",
        DetectionRule::Surveyed,
        "lets clients end sessions over HTTP",
    ),
    row(
        "mcp-authorization",
        DetectionRule::Surveyed,
        "refuses requests without a token over HTTP",
    ),
    row(
        "mcp-listen",
        DetectionRule::Surveyed,
        "tells of changes to whoever listens, in the stateless revision",
    ),
    row(
        "mcp-initialize",
        DetectionRule::Surveyed,
        "answers `initialize`",
    ),
    row(
        "mcp-stateless-only",
        DetectionRule::Surveyed,
        "speaks no revision before 2026-07-28",
    ),
    row(
        "mcp-cancelled",
        DetectionRule::Surveyed,
        "is told of cancellations by `notifications/cancelled`, as revision 2026-07-28 has it over standard streams alone",
    ),
    row(
        "mcp-2025-11-25",
        DetectionRule::Surveyed,
        "speaks revision 2025-11-25",
    ),
    row(
        "lang-1.1",
        DetectionRule::Declared,
        "has what revision 1.1 adds to the language",
    ),
];

pub fn find(name: &str) -> Option<&'static Capability> {
    CAPABILITIES.iter().find(|row| row.name == name)
}

/// Whether a capability is off until it is declared or detected. This includes words that are not in the table.
pub fn is_extension(name: &str) -> bool {
    let off = |row: &Capability| {
        matches!(
            row.known,
            DetectionRule::Declared | DetectionRule::Answered(_) | DetectionRule::Surveyed
        )
    };
    find(name).is_none_or(off)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn capability_names_are_unique_and_cover_the_suite() {
        let names: BTreeSet<&str> = CAPABILITIES.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), CAPABILITIES.len());
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec"));
        let suite = crate::fixture::load(root).expect("the specification");
        let needed: BTreeSet<&str> = suite.cases.iter().flat_map(|case| case.needs()).collect();
        let unknown: Vec<&&str> = needed.difference(&names).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let idle: Vec<&&str> = names.difference(&needed).collect();
        assert!(idle.is_empty() || idle == [&"lang-1.1"], "{idle:?}");
    }
}
