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
    /// Off, unless the numbers of [`super::link::NUMBERS`] come back as they are.
    Numbers,
    /// Off, unless it is declared.
    Declared,
    /// By a survey of an MCP server: nothing to declare.
    Surveyed,
}

impl DetectionRule {
    /// The rule in words, for display.
    pub fn words(self) -> String {
        match self {
            Self::Reached => "by how the target is reached: nothing to declare".to_owned(),
            Self::Tool(tool) => format!(
                "on, unless a declaration leaves it out or a running server lists no tool `{tool}`"
            ),
            Self::Argument(argument) => {
                format!(
                    "on, unless a declaration leaves it out or `lisp_eval` lists no argument `{argument}`"
                )
            }
            Self::Granted => "on, unless a declaration leaves it out".to_owned(),
            Self::Answered(method) => {
                format!("off, unless a declaration names it or the server answers `{method}`")
            }
            Self::Numbers => {
                "off, unless a declaration names it or a running server returns 1.0 as the JSON number 1.0".to_owned()
            }
            Self::Declared => "off, unless a declaration names it".to_owned(),
            Self::Surveyed => {
                "by what the harness finds out about an MCP server: nothing to declare".to_owned()
            }
        }
    }
}

/// Runs programs at all.
pub const LISP_RUN: &str = "lisp_run";

/// Returns results as JSON under a schema.
pub const OUTPUT_SCHEMA: &str = "output_schema";

/// Reads and writes JSON numbers without a loss.
pub const EXACT_JSON: &str = "exact_json";

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
        "serves MCP over its standard streams",
    ),
    row(
        "http",
        DetectionRule::Reached,
        "serves MCP over Streamable HTTP",
    ),
    row(
        "cli",
        DetectionRule::Reached,
        "is a program with commands, which a launch template names under `[programs]`",
    ),
    row(
        "testee",
        DetectionRule::Reached,
        "has an adapter that calls operations of its library (`--testee`, or `testee` in a launch template)",
    ),
    row(
        "sessions",
        DetectionRule::Tool("lisp_session_eval"),
        "has sessions that keep definitions from one program to the next (`lisp_session_eval` and its companions)",
    ),
    row(
        "debug",
        DetectionRule::Tool("lisp_debug"),
        "shows its record of earlier calls (`lisp_debug`)",
    ),
    row(
        "agentic",
        DetectionRule::Tool("lisp_task"),
        "plans and runs tasks with a model (`lisp_task`)",
    ),
    row(
        "aggregator",
        DetectionRule::Granted,
        "lets programs call the tools of upstream servers",
    ),
    row(
        OUTPUT_SCHEMA,
        DetectionRule::Argument(OUTPUT_SCHEMA),
        "validates results against the `output_schema` of a call and returns them as JSON",
    ),
    row(
        "original_words",
        DetectionRule::Declared,
        "uses the words of the original where MCP leaves them to the server: its name, messages of errors, bodies of refusals",
    ),
    row(
        "unsound_frames",
        DetectionRule::Declared,
        "answers frames that MCP does not allow as the original does: an id of another type or already in flight, members of the wrong type, requests without members that they need",
    ),
    row(
        "first_member",
        DetectionRule::Declared,
        "reads the first of several members with the same name in a JSON object, and ignores the others",
    ),
    row(
        "shutdown",
        DetectionRule::Declared,
        "has the methods `shutdown`, after which it refuses calls, and `exit`",
    ),
    row(
        EXACT_JSON,
        DetectionRule::Numbers,
        "reads and writes JSON numbers more exactly than RFC 8259 requires: integers of any size, 1.0 distinct from 1",
    ),
    row(
        "stateless",
        DetectionRule::Answered("server/discover"),
        "supports the stateless MCP revision 2026-07-28",
    ),
    row(
        "modern_upstreams",
        DetectionRule::Declared,
        "calls upstream servers that support only the stateless revision",
    ),
    row(
        "openapi_refs",
        DetectionRule::Declared,
        "resolves local references (`$ref`) in an OpenAPI description",
    ),
    row(
        "trace_context",
        DetectionRule::Declared,
        "accepts the W3C trace context of a request, records it in traces and passes it on to upstreams",
    ),
    row(
        "metrics",
        DetectionRule::Declared,
        "serves metrics for Prometheus",
    ),
    row(
        "crowd_control",
        DetectionRule::Declared,
        "limits connections, unfinished bodies and slow readers over HTTP by flags",
    ),
    row(
        "trusted_proxies",
        DetectionRule::Declared,
        "takes a client's address from the headers of the proxies that `http_trusted_proxy` names",
    ),
    row(
        "web_pages",
        DetectionRule::Declared,
        "answers web pages of allowed origins with CORS headers, preflights included, and refuses requests from other pages",
    ),
    row(
        "fair_rate_limit",
        DetectionRule::Declared,
        "counts only wrong tokens as failed authentication, and accepts the correct one even while a client is blocked",
    ),
    row(
        "prompt_expiry",
        DetectionRule::Declared,
        "ends sessions at the moment when they expire, not at a later sweep",
    ),
    row(
        "hang_up_cancels",
        DetectionRule::Declared,
        "cancels a call over HTTP when its client disconnects",
    ),
    row(
        "half_closed_clients",
        DetectionRule::Declared,
        "answers a client over HTTP that has closed its sending side",
    ),
    row(
        "credential_floor",
        DetectionRule::Declared,
        "refuses short credentials, which could be guessed, unless their entry sets `allow_short`",
    ),
    row(
        "child_environment",
        DetectionRule::Declared,
        "gives stdio upstreams only the environment variables that revision 1.1 names and those in `inherit_env`, and scrubs the values of `${VAR}`",
    ),
    row(
        "bounded_files",
        DetectionRule::Declared,
        "limits how much it reads of each file that its flags or variables name",
    ),
    row(
        "measured_sizes",
        DetectionRule::Declared,
        "measures stored values in exactly the bytes that the original does",
    ),
    row(
        "path_guard",
        DetectionRule::Declared,
        "refuses arguments that would lead out of the path of their OpenAPI operation",
    ),
    row(
        "isolation",
        DetectionRule::Declared,
        "evaluates programs in separate processes when the flag `isolation` asks for it",
    ),
    row(
        "session_store",
        DetectionRule::Declared,
        "keeps sessions in the store that the flag `session_store` names",
    ),
    row(
        "memory_watermark",
        DetectionRule::Declared,
        "refuses calls as `busy` while its memory is above `memory_watermark_percent`",
    ),
    row(
        "decoding_redactor",
        DetectionRule::Declared,
        "finds credentials in any encoding by decoding its output, not by a list of encoded forms",
    ),
    row(
        "setting_warnings",
        DetectionRule::Declared,
        "warns in its log of settings that it ignores",
    ),
    row(
        "command_help",
        DetectionRule::Declared,
        "prints its usage with `--help` and its version with `--version`, for each command",
    ),
    row(
        "repl",
        DetectionRule::Declared,
        "has the commands `repl` and `eval`, with the output that their pages require",
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
        "accepts a recording as its model (`replay:FILE`)",
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
    row("mcp-logging", DetectionRule::Surveyed, "declares logging"),
    row(
        "mcp-sessions",
        DetectionRule::Surveyed,
        "assigns session ids over HTTP",
    ),
    row(
        "mcp-delete",
        DetectionRule::Surveyed,
        "lets clients end their session over HTTP with DELETE",
    ),
    row(
        "mcp-authorization",
        DetectionRule::Surveyed,
        "refuses requests without a token over HTTP (401)",
    ),
    row(
        "mcp-listen",
        DetectionRule::Surveyed,
        "sends notifications of changes on request (`subscriptions/listen`) in the stateless revision",
    ),
    row(
        "mcp-initialize",
        DetectionRule::Surveyed,
        "answers `initialize`",
    ),
    row(
        "mcp-stateless-only",
        DetectionRule::Surveyed,
        "supports no MCP revision before 2026-07-28",
    ),
    row(
        "mcp-cancelled",
        DetectionRule::Surveyed,
        "is told of cancellations with `notifications/cancelled`: in every revision over standard streams, and over HTTP before revision 2026-07-28",
    ),
    row(
        "mcp-2025-11-25",
        DetectionRule::Surveyed,
        "supports MCP revision 2025-11-25",
    ),
    row(
        "lang-1.1",
        DetectionRule::Declared,
        "has what revision 1.1 adds to or changes in the language",
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
            DetectionRule::Declared
                | DetectionRule::Answered(_)
                | DetectionRule::Numbers
                | DetectionRule::Surveyed
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
