//! Every setting of `ptc start`, once: its flag, and through it the environment variable, default, help and messages.
//!
//! Knows nothing of what a setting does.

/// One setting.
pub struct Flag {
    /// The flag without its dashes, such as `max-frame-bytes`.
    pub name: &'static str,
    /// The heading that help shows it under.
    pub group: Group,
    /// What values it takes.
    pub kind: Kind,
    /// What help says about the default; empty when there is none.
    pub default: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// Headings of the help, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Frames, programs, replies.
    Core,
    /// Stateful sessions.
    Sessions,
    /// Logs, traces, the debug tool.
    Diagnostics,
    /// Upstream servers.
    Upstreams,
    /// `lisp_task`.
    Agentic,
    /// Streamable HTTP.
    Http,
}

impl Group {
    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Group::Core => "Server",
            Group::Sessions => "Sessions",
            Group::Diagnostics => "Diagnostics",
            Group::Upstreams => "Upstream servers (aggregator mode)",
            Group::Agentic => "Agentic mode",
            Group::Http => "Streamable HTTP",
        }
    }

    /// All headings in the order of the help.
    pub const ALL: [Group; 6] = [
        Group::Core,
        Group::Http,
        Group::Sessions,
        Group::Upstreams,
        Group::Agentic,
        Group::Diagnostics,
    ];
}

/// What a setting's value looks like, and what happens to one that doesn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer above zero; anything else stops the start.
    Positive,
    /// The digits that the text starts with, above zero; only looked at when HTTP is on, and the empty value is refused as well.
    HttpPositive,
    /// The same, left out when it is empty.
    HttpPort,
    /// An integer that is clamped into the range with a warning; text without leading digits means the default.
    Clamped {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// An integer from zero up; anything else means the default.
    Count,
    /// A boolean word; any other word means the default, with a warning. The flag alone means true, `--no-NAME` false.
    Bool,
    /// Free text; the empty text means unset.
    Text,
    /// Free text; the empty text counts.
    TextOrEmpty,
    /// Comma-separated texts; flags repeat, and add to the environment's.
    List,
    /// One of these words; anything else stops the start.
    OneOf(&'static [&'static str]),
    /// One of these words; anything else means the default, with a warning.
    OneOfOrDefault(&'static [&'static str]),
}

impl Kind {
    /// What a valid value is, for messages and help.
    pub fn expected(self) -> String {
        match self {
            Kind::Positive | Kind::HttpPositive | Kind::HttpPort => "a positive integer".into(),
            Kind::Clamped { min, max: u64::MAX } => format!("an integer, at least {min}"),
            Kind::Clamped { min, max } => format!("an integer from {min} to {max}"),
            Kind::Count => "an integer from 0 up".into(),
            Kind::Bool => "one of true, false, yes, no, on, off, 1, 0".into(),
            Kind::Text | Kind::TextOrEmpty => "text".into(),
            Kind::List => "texts separated by commas".into(),
            Kind::OneOf(words) | Kind::OneOfOrDefault(words) => {
                format!("one of {}", words.join(", "))
            }
        }
    }

    /// The placeholder of the value in help.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Kind::Positive
            | Kind::HttpPositive
            | Kind::HttpPort
            | Kind::Clamped { .. }
            | Kind::Count => " N",
            Kind::Bool => "",
            Kind::Text | Kind::TextOrEmpty => " TEXT",
            Kind::List => " A,B",
            Kind::OneOf(_) | Kind::OneOfOrDefault(_) => " WORD",
        }
    }
}

impl Flag {
    /// The environment variable that sets the same.
    pub fn env(&self) -> String {
        match self.name {
            "upstreams-config" => "PTC_RUNNER_MCP_UPSTREAMS".into(),
            name => format!("PTC_RUNNER_MCP_{}", name.to_uppercase().replace('-', "_")),
        }
    }
}

const ISOLATIONS: &[&str] = &["thread", "process"];
const LOG_LEVELS: &[&str] = &["debug", "info", "warn", "warning", "error"];
const PROFILES: &[&str] = &["slim", "structured", "debug"];
const CATALOG_MODES: &[&str] = &["auto", "inline", "lazy"];
const TRACE_PAYLOADS: &[&str] = &["none", "summary", "full"];

macro_rules! flags {
    ($($group:ident { $($name:literal $kind:expr, $default:literal, $doc:literal;)* })*) => {
        /// Every setting of `ptc start`.
        pub const FLAGS: &[Flag] = &[$($(
            Flag { name: $name, group: Group::$group, kind: $kind, default: $default, doc: $doc },
        )*)*];
    };
}

flags! {
    Core {
        "max-frame-bytes" Kind::Positive, "8388608", "Longest JSON-RPC line in bytes, its terminator not counted.";
        "max-program-bytes" Kind::Positive, "65536", "Longest program in bytes.";
        "max-context-bytes" Kind::Positive, "4194304", "Largest context in bytes of compact JSON.";
        "max-concurrent-calls" Kind::Positive, "CPUs, at most 8", "Calls that may run at once; one more is answered `busy`.";
        "program-timeout-ms" Kind::Positive, "1000; 10000 with upstreams", "Wall-clock limit of one program in milliseconds.";
        "program-memory-limit-bytes" Kind::Positive, "10485760; 104857600 with upstreams", "Memory limit of one program in bytes.";
        "isolation" Kind::OneOf(ISOLATIONS), "process for HTTP on addresses that aren't loopback, else thread", "Where programs are evaluated: on threads of the server, or in processes that hold no secrets, files or sockets (Linux).";
        "memory-watermark-percent" (Kind::Clamped { min: 1, max: 100 }), "95", "Share of the memory of the control group or machine above which calls are answered `busy`; 100 for none.";
        "response-profile" Kind::OneOf(PROFILES), "slim; debug with --debug-tool", "How much of a result `lisp_eval` and `lisp_session_eval` show.";
    }
    Sessions {
        "sessions" Kind::Bool, "false", "Adds the `lisp_session_*` tools.";
        "max-sessions" Kind::Positive, "64", "Live sessions in the process.";
        "max-sessions-per-owner" Kind::Positive, "16", "Live sessions of one owner.";
        "session-ttl-ms" Kind::Positive, "1800000", "Longest life of a session in milliseconds.";
        "session-idle-timeout-ms" Kind::Positive, "900000", "A session unused for so many milliseconds is closed.";
        "max-session-bindings" Kind::Positive, "200", "Definitions in one session.";
        "max-session-memory-bytes" Kind::Positive, "1048576", "Size of all definitions of one session in bytes.";
        "max-session-binding-bytes" Kind::Positive, "262144", "Size of one definition in bytes.";
        "max-session-history-entry-bytes" Kind::Positive, "65536", "Size of a result kept as `*1` in bytes; a larger one is kept as a preview.";
        "max-session-print-entries" Kind::Positive, "50", "Printed lines kept by a session.";
        "max-session-print-bytes" Kind::Positive, "65536", "Size of the printed lines kept by a session in bytes.";
        "max-session-tool-call-entries" Kind::Positive, "50", "Tool calls kept by a session.";
        "max-session-tool-call-bytes" Kind::Positive, "131072", "Size of the tool calls kept by a session in bytes.";
        "max-session-upstream-call-entries" Kind::Positive, "50", "Upstream calls kept by a session.";
        "max-session-upstream-call-bytes" Kind::Positive, "131072", "Size of the upstream calls kept by a session in bytes.";
    }
    Upstreams {
        "upstreams-config" Kind::Text, "$HOME/.config/ptc_runner_mcp/upstreams.json if there", "File that names the upstream servers.";
        "aggregator-read-only" Kind::Bool, "false", "The operator asserts that every upstream tool only reads.";
        "catalog-mode" Kind::OneOfOrDefault(CATALOG_MODES), "auto", "How tool descriptions list the upstream tools.";
        "catalog-inline-max-chars" Kind::Positive, "800", "Longest catalog that `auto` shows inline, in characters.";
        "catalog-inline-max-tools" Kind::Positive, "8", "Most tools that `auto` shows inline.";
        "max-catalog-ops-per-program" Kind::Positive, "25", "Discovery calls of one program.";
        "max-catalog-result-bytes" Kind::Positive, "262144", "Size of one discovery result in bytes.";
        "upstream-call-timeout-ms" Kind::Positive, "5000", "Wall-clock limit of one upstream call in milliseconds.";
        "max-upstream-response-bytes" Kind::Positive, "2097152", "Largest upstream answer in bytes.";
        "max-upstream-calls-per-program" Kind::Positive, "50", "Upstream calls of one program.";
    }
    Agentic {
        "agentic" Kind::Bool, "false", "Adds `lisp_task`, which plans with a language model; needs upstreams.";
        "agentic-model" Kind::Text, "gemini-flash-lite", "The planner's model.";
        "agentic-task-timeout-ms" Kind::Positive, "45000", "Wall-clock limit of one task in milliseconds.";
        "agentic-planner-timeout-ms" Kind::Positive, "15000", "Wall-clock limit of one planner request in milliseconds.";
        "agentic-max-output-tokens" Kind::Positive, "1200", "Tokens that the planner may write per turn.";
        "agentic-max-result-bytes" Kind::Positive, "4096", "Size of a task's structured result in bytes.";
        "agentic-include-program" Kind::Bool, "true", "Shows the planned program in the result.";
        "agentic-trace-prompts" Kind::Bool, "false", "Traces hold the planner's prompts and replies, as --trace-payloads lets payloads be seen.";
        "agentic-max-turns" Kind::Positive, "1", "Planner turns of one task.";
        "agentic-retry-turns" Kind::Count, "0", "Further turns after a failed program.";
        "agentic-allow-writes" Kind::Bool, "false", "Tasks may call upstream tools that write.";
        "agentic-subagent-config" Kind::Text, "", "File with planner settings.";
        "agentic-capability-summary" Kind::Text, "", "File whose text describes the upstreams in the tool's description.";
        "agentic-capability-summary-max-bytes" Kind::Positive, "800", "Longest capability summary in bytes.";
    }
    Http {
        "http" Kind::Bool, "false", "Serves Streamable HTTP instead of stdio.";
        "http-host" Kind::Text, "127.0.0.1", "Address to bind: an IP address or localhost.";
        "http-port" Kind::HttpPort, "7332", "Port to bind.";
        "http-path" Kind::Text, "/mcp", "Path of the MCP endpoint.";
        "http-auth-token" Kind::Text, "", "Bearer token, at least 32 bytes; needed on addresses that aren't loopback.";
        "http-disable-auth" Kind::Bool, "false", "Checks no token; only on loopback.";
        "http-allow-unsafe-network" Kind::Bool, "false", "Accepted for compatibility; cannot be combined with --http-disable-auth.";
        "http-allowed-origin" Kind::List, "", "Origins that browsers may call from; replaces the loopback rule.";
        "http-request-timeout-ms" Kind::HttpPositive, "15000", "Time to read one request in milliseconds.";
        "http-write-timeout-ms" Kind::HttpPositive, "30000", "Time that a client has to take what it is answered, in milliseconds.";
        "http-shutdown-grace-ms" Kind::HttpPositive, "10000", "Time that calls get to finish after SIGTERM, in milliseconds.";
        "http-max-body-bytes" Kind::HttpPositive, "--max-frame-bytes", "Largest request body in bytes.";
        "http-max-unfinished-body-bytes" Kind::HttpPositive, "134217728", "Bodies of all requests together, in bytes; beyond that a request is answered 503.";
        "http-max-connections" Kind::HttpPositive, "4096", "Connections of all clients. Beyond that only /health, /ready and requests with the token are answered.";
        "http-max-connections-per-address" Kind::HttpPositive, "256", "Connections of one address (of v6, of 64 bits of it), trusted proxies excepted. Beyond that as beyond those of all.";
        "http-trusted-proxy" Kind::List, "", "Addresses or networks of proxies whose X-Forwarded-For or Forwarded says who failed to authenticate.";
        "http-session-ttl-ms" Kind::HttpPositive, "3600000", "Longest life of a protocol session in milliseconds.";
        "http-session-idle-timeout-ms" Kind::HttpPositive, "900000", "A protocol session unused for so many milliseconds is closed.";
        "http-max-sessions" Kind::HttpPositive, "256", "Protocol sessions in the process.";
        "http-max-sessions-per-owner" Kind::HttpPositive, "32", "Protocol sessions of one owner.";
        "http-max-in-flight-per-session" Kind::HttpPositive, "4", "Calls that one protocol session may run at once.";
        "http-auth-rate-limit" Kind::Bool, "true", "Blocks an address after too many failed authentications.";
        "http-auth-rate-limit-window-ms" Kind::HttpPositive, "60000", "Window in which failures are counted, in milliseconds.";
        "http-auth-rate-limit-max-failures" Kind::HttpPositive, "5", "Failures that block.";
        "http-auth-rate-limit-block-ms" Kind::HttpPositive, "60000", "Length of a block in milliseconds.";
        "http-metrics" Kind::Bool, "false", "Serves Prometheus metrics.";
        "http-metrics-path" Kind::Text, "/metrics", "Path of the metrics.";
        "http-instance-label" Kind::Text, "host name", "Name of this instance in /ready and logs.";
    }
    Diagnostics {
        "log-level" Kind::OneOfOrDefault(LOG_LEVELS), "info", "Least level of the log lines on stderr.";
        "debug-tool" Kind::Bool, "false", "Adds the `lisp_debug` tool.";
        "debug-ring-size" (Kind::Clamped { min: 10, max: 5000 }), "500", "Calls that `lisp_debug` remembers.";
        "max-debug-response-bytes" (Kind::Clamped { min: 4096, max: u64::MAX }), "65536", "Largest reply of `lisp_debug` in bytes.";
        "trace-dir" Kind::Text, "", "Directory that gets one JSONL file per call.";
        "trace-payloads" Kind::OneOfOrDefault(TRACE_PAYLOADS), "summary", "What traces and `lisp_debug` hold of programs, contexts and results.";
        "trace-max-files" Kind::Positive, "1000", "Trace files kept.";
        "env-file" Kind::Text, "", "File with KEY=VALUE lines; never overrides the environment.";
    }
}

/// The row of a flag.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// The flag whose name is closest to a mistyped one; `None` when nothing is close.
pub fn closest(name: &str) -> Option<&'static Flag> {
    let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    closest_of(&name.replace('_', "-"), &names).and_then(find)
}

/// The known word that is closest to a mistyped one; `None` when nothing is close.
pub fn closest_of<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (distance(word, known), *known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Letters to insert, delete or replace to make one word the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for column in 0..right.len() {
            let replaced = diagonal + usize::from(letter != right[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

const _: () = {
    let mut at = 0;
    while at < FLAGS.len() {
        assert!(!FLAGS[at].doc.is_empty(), "every flag is documented");
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_documented_as_sentences() {
        for (at, flag) in FLAGS.iter().enumerate() {
            assert!(
                FLAGS[at + 1..].iter().all(|other| other.name != flag.name),
                "{}",
                flag.name
            );
            assert!(flag.doc.ends_with('.'), "{}", flag.name);
        }
    }

    #[test]
    fn a_typo_finds_its_flag() {
        for (typo, meant) in [
            ("max-frame-byte", Some("max-frame-bytes")),
            ("http_port", Some("http-port")),
            ("session", Some("sessions")),
            ("zzzzzz", None),
        ] {
            assert_eq!(closest(typo).map(|flag| flag.name), meant, "{typo}");
        }
    }

    #[test]
    fn environment_names() {
        assert_eq!(
            find("max-frame-bytes").unwrap().env(),
            "PTC_RUNNER_MCP_MAX_FRAME_BYTES"
        );
        assert_eq!(
            find("upstreams-config").unwrap().env(),
            "PTC_RUNNER_MCP_UPSTREAMS"
        );
    }
}
