//! Every setting of `ptc start`, in one table: its flag, its default and its setter; environment variable, help and messages derive from
//! them.
//!
//! Knows nothing of what a setting does.

use super::{
    CONCURRENT_CALLS_MAX, Draft, Level, PayloadPolicy, RateLimitSettings, ResponseProfile,
    SettingsFault, absolute_path, program_memory, size,
};
use ptc_protocol::limits::{WITH_UPSTREAMS, WITHOUT_UPSTREAMS};
use ptc_secrets::Secret;
use ptc_upstream::{CatalogMode, Limits, Thresholds};
use std::borrow::Cow;
use std::time::Duration;

#[derive(Debug)]
pub struct Flag {
    /// The flag without its dashes, such as `max-frame-bytes`.
    pub name: &'static str,
    /// The heading that help shows it under.
    pub group: Group,
    /// Its environment variable without the prefix, where that isn't its name in capitals.
    variable: Option<&'static str>,
    /// Which values it accepts.
    pub kind: FlagKind,
    /// The default, and the function that sets the value.
    pub value: Value,
    /// The text of help for a default that depends on something.
    derived: Option<fn() -> Cow<'static, str>>,
    pub doc: &'static str,
}

/// A setting's default and its setter. Without a default, a setting that is not given is not set.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Number(Option<u64>, fn(&mut Draft, u64)),
    Switch(bool, fn(&mut Draft, bool)),
    Text(Option<&'static str>, fn(&mut Draft, String)),
    List(fn(&mut Draft, Vec<String>)),
    /// One of the words that the setting's kind lists.
    Word(Option<&'static str>, fn(&mut Draft, &'static str)),
}

/// Headings of the help, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Core,
    Sessions,
    /// Logs, traces, the debug tool.
    Diagnostics,
    Upstreams,
    /// `lisp_task`.
    Agentic,
    Http,
}

impl Group {
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

/// The form of a setting's value, and what happens to a value of another form.
#[derive(Clone, Copy, Debug)]
pub enum FlagKind {
    /// An integer above zero; anything else stops the start.
    Positive,
    /// The leading digits of the text, above zero. Checked only when HTTP is on; then the empty value is refused as well.
    HttpPositive,
    /// Like `HttpPositive`, for a port; an empty value counts as not given.
    HttpPort,
    /// An integer that is clamped into the range with a warning; text without leading digits means the default.
    Clamped { min: u64, max: u64 },
    /// An integer in the range; anything else stops the start.
    Within { min: u64, max: u64 },
    /// An integer from zero up; anything else means the default.
    Count,
    /// A boolean word; any other word means the default, with a warning. The flag alone means true, `--no-NAME` false.
    Bool,
    /// Free text; the empty text means unset.
    Text,
    /// Comma-separated texts; flags repeat, and add to the environment's.
    List,
    /// One of these words; anything else stops the start with the fault made of it.
    OneOf(&'static [&'static str], fn(String) -> SettingsFault),
    /// One of these words; anything else means the default, with a warning logged as this event.
    OneOfOrDefault(&'static [&'static str], Case, &'static str),
}

/// Whether words are compared without regard to case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Folded,
    Exact,
}

impl FlagKind {
    /// Describes a valid value, for messages and help.
    pub fn expected(self) -> String {
        match self {
            FlagKind::Positive | FlagKind::HttpPositive | FlagKind::HttpPort => {
                "a positive integer".into()
            }
            FlagKind::Clamped { min, max: u64::MAX } => format!("an integer, at least {min}"),
            FlagKind::Clamped { min, max } | FlagKind::Within { min, max } => {
                format!("an integer from {min} to {max}")
            }
            FlagKind::Count => "an integer from 0 up".into(),
            FlagKind::Bool => "one of true, false, yes, no, on, off, 1, 0".into(),
            FlagKind::Text => "text".into(),
            FlagKind::List => "texts separated by commas".into(),
            FlagKind::OneOf(words, _) | FlagKind::OneOfOrDefault(words, ..) => {
                format!("one of {}", words.join(", "))
            }
        }
    }

    /// The placeholder of the value in help.
    pub const fn placeholder(self) -> &'static str {
        match self {
            FlagKind::Positive
            | FlagKind::HttpPositive
            | FlagKind::HttpPort
            | FlagKind::Clamped { .. }
            | FlagKind::Within { .. }
            | FlagKind::Count => " N",
            FlagKind::Bool => "",
            FlagKind::Text => " TEXT",
            FlagKind::List => " A,B",
            FlagKind::OneOf(..) | FlagKind::OneOfOrDefault(..) => " WORD",
        }
    }
}

/// The event of a warning about a value that means the default, unless its setting has an event of its own.
pub const SETTING_IGNORED: &str = "setting_ignored";

/// Prefix of the environment variables that set flags.
pub const ENV_PREFIX: &str = "PTC_RUNNER_MCP_";

impl Flag {
    /// The environment variable for this flag.
    pub fn env(&self) -> String {
        let name = self.variable.unwrap_or(self.name);
        let letters = name.chars().map(|letter| match letter {
            '-' => '_',
            letter => letter.to_ascii_uppercase(),
        });
        // Called for each flag at every start, so it allocates once.
        let mut env = String::with_capacity(ENV_PREFIX.len() + name.len());
        env.push_str(ENV_PREFIX);
        env.extend(letters);
        env
    }

    /// The default as help shows it; empty when there is none.
    pub fn default_text(&self) -> Cow<'static, str> {
        match (self.derived, self.value) {
            (Some(derived), _) => derived(),
            (None, Value::Number(default, _)) => {
                default.map_or_else(Default::default, |number| number.to_string().into())
            }
            (None, Value::Switch(default, _)) => default.to_string().into(),
            (None, Value::Text(default, _) | Value::Word(default, _)) => {
                default.unwrap_or_default().into()
            }
            (None, Value::List(_)) => "".into(),
        }
    }
}

impl Flag {
    const fn new(name: &'static str, kind: FlagKind, value: Value, doc: &'static str) -> Self {
        Flag {
            name,
            group: Group::Core,
            variable: None,
            kind,
            value,
            derived: None,
            doc,
        }
    }

    const fn in_group(self, group: Group) -> Self {
        Flag { group, ..self }
    }

    const fn variable(self, variable: &'static str) -> Self {
        Flag {
            variable: Some(variable),
            ..self
        }
    }

    const fn unless_given(self, derived: fn() -> Cow<'static, str>) -> Self {
        Flag {
            derived: Some(derived),
            ..self
        }
    }
}

const fn positive(
    name: &'static str,
    default: u64,
    set: fn(&mut Draft, u64),
    doc: &'static str,
) -> Flag {
    Flag::new(
        name,
        FlagKind::Positive,
        Value::Number(Some(default), set),
        doc,
    )
}

const fn http_positive(
    name: &'static str,
    default: u64,
    set: fn(&mut Draft, u64),
    doc: &'static str,
) -> Flag {
    Flag {
        kind: FlagKind::HttpPositive,
        ..positive(name, default, set, doc)
    }
}

/// An integer whose default depends on something.
const fn derived(
    name: &'static str,
    kind: FlagKind,
    default: fn() -> Cow<'static, str>,
    set: fn(&mut Draft, u64),
    doc: &'static str,
) -> Flag {
    Flag::new(name, kind, Value::Number(None, set), doc).unless_given(default)
}

const fn switch(
    name: &'static str,
    default: bool,
    set: fn(&mut Draft, bool),
    doc: &'static str,
) -> Flag {
    Flag::new(name, FlagKind::Bool, Value::Switch(default, set), doc)
}

const fn text(
    name: &'static str,
    default: Option<&'static str>,
    set: fn(&mut Draft, String),
    doc: &'static str,
) -> Flag {
    Flag::new(name, FlagKind::Text, Value::Text(default, set), doc)
}

const fn list(name: &'static str, set: fn(&mut Draft, Vec<String>), doc: &'static str) -> Flag {
    Flag::new(name, FlagKind::List, Value::List(set), doc)
}

const fn word(
    name: &'static str,
    default: Option<&'static str>,
    kind: FlagKind,
    set: fn(&mut Draft, &'static str),
    doc: &'static str,
) -> Flag {
    Flag::new(name, kind, Value::Word(default, set), doc)
}

/// The words of a table of names.
const fn words<T, const N: usize>(names: &[(&'static str, T)]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = names[at].0;
        at += 1;
    }
    words
}

fn named<T: Copy>(names: &[(&str, T)], word: &str) -> Option<T> {
    let found = names.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value)
}

static ISOLATIONS: [&str; 2] = ["thread", "process"];
static LOG_LEVELS: [&str; Level::NAMES.len()] = words(Level::NAMES);
static PROFILES: [&str; ResponseProfile::NAMES.len()] = words(ResponseProfile::NAMES);
static CATALOG_MODES: [&str; CatalogMode::NAMES.len()] = words(CatalogMode::NAMES);
static TRACE_PAYLOADS: [&str; PayloadPolicy::NAMES.len()] = words(PayloadPolicy::NAMES);

macro_rules! flags {
    ($($group:ident { $($row:expr;)* })*) => {
        /// Every setting of `ptc start`.
        pub static FLAGS: &[Flag] = &[$($($row.in_group(Group::$group),)*)*];
    };
}

flags! {
    Core {
        positive("max-frame-bytes", 8 << 20, |to, n| to.settings.frame_bytes = size(n), "Maximum length of a JSON-RPC line in bytes, without its line terminator.");
        positive("max-program-bytes", 64 << 10, |to, n| to.settings.program_bytes = size(n), "Maximum length of a program in bytes.");
        positive("max-context-bytes", 4 << 20, |to, n| to.settings.context_bytes = size(n), "Maximum size of a context in bytes of compact JSON.");
        derived("max-concurrent-calls", FlagKind::Positive, || format!("CPUs, at most {CONCURRENT_CALLS_MAX}").into(), |to, n| to.concurrent_calls = Some(size(n)), "Maximum number of calls that run at once; further calls are answered `busy`.");
        derived("program-timeout-ms", FlagKind::Positive, || format!("{}; {} with upstreams", WITHOUT_UPSTREAMS.timeout.as_millis(), WITH_UPSTREAMS.timeout.as_millis()).into(), |to, n| to.settings.program_timeout_ms = Some(n), "Wall-clock limit of one program in milliseconds.");
        derived("program-memory-limit-bytes", FlagKind::Positive, || format!("{}; {} with upstreams", WITHOUT_UPSTREAMS.memory_bytes, WITH_UPSTREAMS.memory_bytes).into(), |to, n| to.settings.program_memory_bytes = Some(program_memory(n)), "Memory limit of one program in bytes.");
        word("isolation", None, FlagKind::OneOf(&ISOLATIONS, SettingsFault::Isolation), |to, word| to.isolated = Some(word == "process"), "Where programs are evaluated: on threads of the server, or in separate processes without secrets, files or sockets (Linux).").unless_given(|| "process for HTTP on addresses that aren't loopback, else thread".into());
        Flag::new("memory-watermark-percent", FlagKind::Within { min: 1, max: 100 }, Value::Number(Some(95), |to, n| to.settings.watermark_percent = n), "Percentage of the control group's or machine's memory above which calls are answered `busy`; 100 disables it.");
        word("response-profile", None, FlagKind::OneOf(&PROFILES, SettingsFault::ResponseProfile), |to, word| to.profile = named(ResponseProfile::NAMES, word), "How much detail the results of `lisp_eval` and `lisp_session_eval` contain.").unless_given(|| "slim; debug with --debug-tool".into());
    }
    Sessions {
        switch("sessions", false, |to, on| to.settings.sessions.enabled = on, "Adds the `lisp_session_*` tools.");
        Flag::new("session-store", FlagKind::Text, Value::Text(Some("memory:"), |to, text| to.store = text), "Where sessions are kept: memory:, file:DIR, redis://HOST:PORT/DB, rediss:// for TLS, redis+sentinel://A,B/MASTER or redis+cluster://A,B.");
        text("session-store-key-file", None, |to, path| to.settings.sessions.store.key_file = Some(path), "File with 32-byte keys, preferably lines of 64 hex digits. Stored sessions are encrypted with the first key and read with any of them.");
        switch("session-store-optional", false, |to, on| to.settings.sessions.store.optional = on, "Starts even when the session store can't be reached.");
        positive("max-sessions", 64, |to, n| to.settings.sessions.count_max = size(n), "Maximum number of live sessions in the process.");
        positive("max-sessions-per-owner", 16, |to, n| to.settings.sessions.per_owner_max = size(n), "Maximum number of live sessions of one owner.");
        positive("session-ttl-ms", 1_800_000, |to, n| to.settings.sessions.ttl_ms = n, "Maximum lifetime of a session in milliseconds.");
        positive("session-idle-timeout-ms", 900_000, |to, n| to.settings.sessions.idle_ms = n, "Time in milliseconds after which an unused session is closed.");
        positive("max-session-bindings", 200, |to, n| to.settings.sessions.bindings_max = size(n), "Maximum number of definitions in one session.");
        positive("max-session-memory-bytes", 1 << 20, |to, n| to.settings.sessions.memory_bytes = n, "Maximum size of all definitions of one session in bytes.");
        positive("max-session-binding-bytes", 256 << 10, |to, n| to.settings.sessions.binding_bytes = n, "Maximum size of one definition in bytes.");
        positive("max-session-history-entry-bytes", 64 << 10, |to, n| to.settings.sessions.history_entry_bytes = n, "Maximum size of a result kept as `*1`, in bytes; a larger result is kept as a preview.");
        positive("max-session-print-entries", 50, |to, n| to.settings.sessions.prints.entries = size(n), "Maximum number of printed lines that a session keeps.");
        positive("max-session-print-bytes", 64 << 10, |to, n| to.settings.sessions.prints.bytes = n, "Maximum size of the printed lines that a session keeps, in bytes.");
        positive("max-session-tool-call-entries", 50, |to, n| to.settings.sessions.tool_calls.entries = size(n), "Maximum number of tool calls that a session keeps.");
        positive("max-session-tool-call-bytes", 128 << 10, |to, n| to.settings.sessions.tool_calls.bytes = n, "Maximum size of the tool calls that a session keeps, in bytes.");
        positive("max-session-upstream-call-entries", 50, |to, n| to.settings.sessions.upstream_calls.entries = size(n), "Maximum number of upstream calls that a session keeps.");
        positive("max-session-upstream-call-bytes", 128 << 10, |to, n| to.settings.sessions.upstream_calls.bytes = n, "Maximum size of the upstream calls that a session keeps, in bytes.");
    }
    Upstreams {
        text("upstreams-config", None, |to, path| to.settings.upstreams.config = Some(path), "File that configures the upstream servers.").variable("UPSTREAMS").unless_given(|| "$HOME/.config/ptc_runner_mcp/upstreams.json if there".into());
        switch("aggregator-read-only", false, |to, on| to.settings.upstreams.read_only = on, "Asserts that every upstream tool only reads.");
        word("catalog-mode", Some("auto"), FlagKind::OneOfOrDefault(&CATALOG_MODES, Case::Exact, "catalog_mode_invalid"), |to, word| to.settings.upstreams.catalog_mode = named(CatalogMode::NAMES, word).unwrap_or_default(), "How tool descriptions list the upstream tools.");
        positive("catalog-inline-max-chars", Thresholds::DEFAULT.chars as u64, |to, n| to.settings.upstreams.thresholds.chars = size(n), "Maximum length of a catalog that `auto` shows inline, in characters.");
        positive("catalog-inline-max-tools", Thresholds::DEFAULT.tools as u64, |to, n| to.settings.upstreams.thresholds.tools = size(n), "Maximum number of tools that `auto` shows inline.");
        positive("max-catalog-ops-per-program", Limits::DEFAULT.catalog_ops_per_program as u64, |to, n| to.settings.upstreams.limits.catalog_ops_per_program = size(n), "Maximum number of discovery calls per program.");
        positive("max-catalog-result-bytes", Limits::DEFAULT.catalog_result_bytes_max as u64, |to, n| to.settings.upstreams.limits.catalog_result_bytes_max = size(n), "Maximum size of one discovery result in bytes.");
        positive("upstream-call-timeout-ms", Limits::DEFAULT.call_timeout.as_millis() as u64, |to, n| to.settings.upstreams.limits.call_timeout = Duration::from_millis(n), "Wall-clock limit of one upstream call in milliseconds.");
        positive("max-upstream-response-bytes", Limits::DEFAULT.response_bytes_max as u64, |to, n| to.settings.upstreams.limits.response_bytes_max = size(n), "Maximum size of an upstream response in bytes.");
        positive("max-upstream-calls-per-program", Limits::DEFAULT.calls_per_program as u64, |to, n| to.settings.upstreams.limits.calls_per_program = size(n), "Maximum number of upstream calls per program.");
    }
    Agentic {
        switch("agentic", false, |to, on| to.settings.agentic.enabled = on, "Adds the `lisp_task` tool, which plans with a language model; requires upstream servers.");
        text("agentic-model", Some("gemini-flash-lite"), |to, text| to.settings.agentic.model = text, "Language model of the planner: PROVIDER:NAME or an alias.");
        positive("agentic-task-timeout-ms", 45_000, |to, n| to.settings.agentic.task_timeout_ms = n, "Wall-clock limit of one task in milliseconds.");
        positive("agentic-planner-timeout-ms", 15_000, |to, n| to.settings.agentic.planner_timeout_ms = n, "Wall-clock limit of one planner request in milliseconds.");
        positive("agentic-max-output-tokens", 1_200, |to, n| to.settings.agentic.output_tokens = n, "Maximum number of tokens that the planner may write per turn.");
        positive("agentic-max-result-bytes", 4_096, |to, n| to.settings.agentic.result_bytes = n, "Maximum size of a task's structured result in bytes.");
        switch("agentic-include-program", true, |to, on| to.settings.agentic.include_program = on, "Includes the planned program in the result.");
        switch("agentic-trace-prompts", false, |to, on| to.settings.agentic.trace_prompts = on, "Includes the planner's prompts and replies in traces, as far as --trace-payloads allows.");
        positive("agentic-max-turns", 1, |to, n| (to.settings.agentic.turns, to.settings.agentic.sources.turns) = (n, to.source), "Maximum number of planner turns per task.");
        Flag::new("agentic-retry-turns", FlagKind::Count, Value::Number(Some(0), |to, n| (to.settings.agentic.retry_turns, to.settings.agentic.sources.retry_turns) = (n, to.source)), "Additional planner turns per task, used after failed programs.");
        switch("agentic-allow-writes", false, |to, on| (to.settings.agentic.allow_writes, to.settings.agentic.sources.allow_writes) = (on, to.source), "Allows tasks to call upstream tools that write.");
        text("agentic-subagent-config", None, |to, path| to.settings.agentic.subagent_config = Some(path), "JSON file with planner settings.");
        text("agentic-capability-summary", None, |to, path| to.settings.agentic.capability_summary = Some(path), "Text file that describes the upstream servers in the description of `lisp_task`.");
        positive("agentic-capability-summary-max-bytes", 800, |to, n| to.settings.agentic.capability_summary_bytes = n, "Maximum length of the capability summary in bytes.");
    }
    Http {
        switch("http", false, |to, on| to.http_enabled = on, "Serves Streamable HTTP instead of stdio.");
        text("http-host", Some("127.0.0.1"), |to, text| to.host = text, "Address to bind: an IP address or localhost.");
        Flag::new("http-port", FlagKind::HttpPort, Value::Number(Some(7332), |to, n| to.http.port = u16::try_from(n).unwrap_or(u16::MAX)), "Port to bind.");
        text("http-path", Some("/mcp"), |to, text| to.http.path = absolute_path(text), "Path of the MCP endpoint.");
        text("http-auth-token", None, |to, token| to.token = Some(Secret::new(token)), "Bearer token of at least 32 bytes; required on addresses that aren't loopback.");
        switch("http-disable-auth", false, |to, on| to.http.auth_disabled = on, "Checks no token; allowed only on loopback addresses.");
        switch("http-allow-unsafe-network", false, |to, on| to.unsafe_network = on, "Accepted for compatibility; cannot be combined with --http-disable-auth.");
        list("http-allowed-origin", |to, items| to.origins = items, "Origins from which browsers may call, such as https://app.example; if unset, loopback origins, and only on a loopback address.");
        http_positive("http-request-timeout-ms", 15_000, |to, n| to.http.request_timeout_ms = n, "Time limit for reading one request in milliseconds.");
        http_positive("http-write-timeout-ms", 30_000, |to, n| to.http.write_timeout_ms = n, "Time limit for a client to read a response, in milliseconds.");
        Flag::new("http-shutdown-delay-ms", FlagKind::Count, Value::Number(Some(0), |to, n| to.http.shutdown_delay_ms = n), "Time in milliseconds after SIGTERM during which /ready answers 503 but calls are still served, so that load balancers notice.");
        http_positive("http-shutdown-grace-ms", 10_000, |to, n| to.http.grace_ms = n, "Time limit for calls to finish after SIGTERM, in milliseconds.");
        derived("http-max-body-bytes", FlagKind::HttpPositive, || "--max-frame-bytes".into(), |to, n| to.body_bytes = Some(size(n)), "Maximum size of a request body in bytes.");
        http_positive("http-max-unfinished-body-bytes", 128 << 20, |to, n| to.http.unfinished_body_bytes = size(n), "Maximum size of the bodies of all requests together, in bytes; beyond it, a request is answered 503.");
        http_positive("http-max-connections", 4_096, |to, n| to.http.connections_max = size(n), "Maximum number of connections of all clients together. Beyond it, only /health, /ready and requests with the token are answered.");
        http_positive("http-max-connections-per-address", 256, |to, n| to.http.connections_per_address_max = size(n), "Maximum number of connections per address (IPv6: per /64 network), except for trusted proxies. Beyond it, the same applies as for --http-max-connections.");
        list("http-trusted-proxy", |to, items| to.trusted_proxies = items, "Addresses or networks of trusted proxies: failed authentications count for the client named in X-Forwarded-For or Forwarded.");
        http_positive("http-session-ttl-ms", 3_600_000, |to, n| to.http.session_ttl_ms = n, "Maximum lifetime of a protocol session in milliseconds.");
        http_positive("http-session-idle-timeout-ms", 900_000, |to, n| to.http.session_idle_ms = n, "Time in milliseconds after which an unused protocol session is closed.");
        http_positive("http-max-sessions", 256, |to, n| to.http.sessions_max = size(n), "Maximum number of protocol sessions in the process.");
        http_positive("http-max-sessions-per-owner", 32, |to, n| to.http.sessions_per_owner_max = size(n), "Maximum number of protocol sessions of one owner.");
        http_positive("http-max-in-flight-per-session", 4, |to, n| to.http.in_flight_max = size(n), "Maximum number of calls that one protocol session runs at once.");
        switch("http-auth-rate-limit", true, |to, on| to.http.rate_limit = on.then(RateLimitSettings::default), "Blocks an address after too many failed authentications.");
        http_positive("http-auth-rate-limit-window-ms", 60_000, |to, n| to.rate_limit(|limit| limit.window_ms = n), "Time window in which failed authentications are counted, in milliseconds.");
        http_positive("http-auth-rate-limit-max-failures", 5, |to, n| to.rate_limit(|limit| limit.failures_max = n), "Number of failed authentications within the window after which an address is blocked.");
        http_positive("http-auth-rate-limit-block-ms", 60_000, |to, n| to.rate_limit(|limit| limit.block_ms = n), "Time for which an address is blocked, in milliseconds.");
        switch("http-metrics", false, |to, on| to.metrics = on, "Serves Prometheus metrics.");
        text("http-metrics-path", Some("/metrics"), |to, text| to.metrics_path = absolute_path(text), "Path that serves the metrics.");
        text("http-instance-label", None, |to, text| to.http.instance = text, "Name of this instance in /ready and logs.").unless_given(|| "host name".into());
    }
    Diagnostics {
        word("log-level", Some("info"), FlagKind::OneOfOrDefault(&LOG_LEVELS, Case::Folded, SETTING_IGNORED), |to, word| to.settings.diagnostics.level = named(Level::NAMES, word).unwrap_or_default(), "Minimum level of log lines on stderr.");
        switch("debug-tool", false, |to, on| to.settings.diagnostics.debug_tool = on, "Adds the `lisp_debug` tool.");
        Flag::new("debug-ring-size", FlagKind::Clamped { min: 10, max: 5000 }, Value::Number(Some(500), |to, n| to.settings.diagnostics.ring_size = size(n)), "Number of recent calls that `lisp_debug` remembers.");
        Flag::new("max-debug-response-bytes", FlagKind::Clamped { min: 4096, max: u64::MAX }, Value::Number(Some(64 << 10), |to, n| to.settings.diagnostics.response_bytes = size(n)), "Maximum size of a response of `lisp_debug` in bytes.");
        text("trace-dir", None, |to, dir| to.settings.diagnostics.trace_dir = Some(dir), "Directory for traces, one JSONL file per call.");
        word("trace-payloads", Some("summary"), FlagKind::OneOfOrDefault(&TRACE_PAYLOADS, Case::Folded, "trace_payloads_invalid"), |to, word| to.settings.diagnostics.payloads = named(PayloadPolicy::NAMES, word).unwrap_or_default(), "How much of programs, contexts and results is kept in traces and by `lisp_debug`.");
        positive("trace-max-files", 1_000, |to, n| to.settings.diagnostics.trace_files = size(n), "Maximum number of trace files; the oldest are deleted.");
        text("env-file", None, |_, _| {}, "File with environment variables, as KEY=VALUE lines; the real environment takes precedence.");
    }
}

pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// The flag whose name is closest to a mistyped one; `None` when nothing is close.
pub fn closest(name: &str) -> Option<&'static Flag> {
    let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    ptc_protocol::closest_of(&name.replace('_', "-"), &names).and_then(find)
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
    fn typo_suggests_the_closest_flag() {
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
    fn flags_have_environment_variables() {
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
