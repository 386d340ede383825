//! The settings of `ptc start`, checked and typed. Knows nothing of how they are used.

pub mod flags;
pub mod values;

use crate::transport::http::TrustedProxies;
use ptc_secrets::Secret;
use std::net::{IpAddr, Ipv4Addr};
use values::{Ignored, Values};

/// Settings of one server. Byte and time limits carry their unit last.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Longest frame in bytes.
    pub frame_bytes: usize,
    /// Longest program in bytes.
    pub program_bytes: usize,
    /// Largest context in bytes of compact JSON.
    pub context_bytes: usize,
    /// Calls that may run at once.
    pub concurrent_calls: usize,
    /// Explicit wall-clock limit of a program.
    pub program_timeout_ms: Option<u64>,
    /// Explicit memory limit of a program.
    pub program_memory_bytes: Option<u64>,
    /// Programs are evaluated in processes of their own.
    pub isolated: bool,
    /// Share of memory above which calls are refused.
    pub watermark_percent: u64,
    /// How much of a result is shown.
    pub profile: ResponseProfile,
    /// Stateful sessions.
    pub sessions: SessionSettings,
    /// Logs, traces, the debug tool.
    pub diagnostics: DiagnosticsSettings,
    /// Upstream servers.
    pub upstreams: UpstreamSettings,
    /// `lisp_task`.
    pub agentic: AgenticSettings,
    /// Streamable HTTP; `None` serves stdio.
    pub http: Option<HttpSettings>,
    /// Values that were passed over; each becomes a warning.
    pub warnings: Vec<Warning>,
}

/// The three shapes of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseProfile {
    /// Text only.
    Slim,
    /// Text and a compact object.
    Structured,
    /// The full object, mirrored as text.
    Debug,
}

impl ResponseProfile {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            ResponseProfile::Slim => "slim",
            ResponseProfile::Structured => "structured",
            ResponseProfile::Debug => "debug",
        }
    }
}

/// What traces and the debug ring hold of programs, contexts and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadPolicy {
    /// Sizes and digests; the ring holds no preview either.
    None,
    /// Sizes and digests.
    Summary,
    /// Everything, scrubbed.
    Full,
}

impl PayloadPolicy {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            PayloadPolicy::None => "none",
            PayloadPolicy::Summary => "summary",
            PayloadPolicy::Full => "full",
        }
    }
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Bodies and details.
    Debug,
    /// One line per event.
    Info,
    /// Something was refused or changed.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The word in a log line.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Settings of the `lisp_session_*` tools.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The tools exist.
    pub enabled: bool,
    /// Live sessions in the process.
    pub count_max: usize,
    /// Live sessions of one owner.
    pub per_owner_max: usize,
    /// Longest life.
    pub ttl_ms: u64,
    /// Longest idleness.
    pub idle_ms: u64,
    /// Definitions.
    pub bindings_max: usize,
    /// Size of all definitions.
    pub memory_bytes: u64,
    /// Size of one definition.
    pub binding_bytes: u64,
    /// Size of a kept result.
    pub history_entry_bytes: u64,
    /// Kept prints.
    pub prints: HistoryCap,
    /// Kept tool calls.
    pub tool_calls: HistoryCap,
    /// Kept upstream calls.
    pub upstream_calls: HistoryCap,
}

/// Bounds of a history list.
#[derive(Clone, Copy, Debug)]
pub struct HistoryCap {
    /// Entries.
    pub entries: usize,
    /// Bytes of all entries.
    pub bytes: u64,
}

/// Settings of logs, traces and `lisp_debug`.
#[derive(Clone, Debug)]
pub struct DiagnosticsSettings {
    /// Least level logged.
    pub level: Level,
    /// `lisp_debug` exists.
    pub debug_tool: bool,
    /// Calls remembered.
    pub ring_size: usize,
    /// Largest reply of `lisp_debug`.
    pub response_bytes: usize,
    /// Where traces go.
    pub trace_dir: Option<String>,
    /// What traces and the ring hold.
    pub payloads: PayloadPolicy,
    /// Trace files kept.
    pub trace_files: usize,
}

/// Settings of aggregator mode.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// Config file named by flag or environment; it must exist.
    pub config: Option<String>,
    /// Every upstream tool only reads.
    pub read_only: bool,
    /// `auto`, `inline` or `lazy`.
    pub catalog_mode: &'static str,
    /// Longest inline catalog in characters.
    pub inline_chars: usize,
    /// Most tools inline.
    pub inline_tools: usize,
    /// Discovery calls of one program.
    pub catalog_ops: usize,
    /// Size of one discovery result.
    pub catalog_result_bytes: usize,
    /// Limit of one upstream call.
    pub call_timeout_ms: u64,
    /// Largest upstream answer.
    pub response_bytes: usize,
    /// Upstream calls of one program.
    pub calls_per_program: usize,
}

/// Settings of `lisp_task`.
#[derive(Clone, Debug)]
pub struct AgenticSettings {
    /// The tool is wanted.
    pub enabled: bool,
    /// The planner's model.
    pub model: String,
    /// Limit of a task.
    pub task_timeout_ms: u64,
    /// Limit of a planner request.
    pub planner_timeout_ms: u64,
    /// Tokens per turn.
    pub output_tokens: u64,
    /// Size of the structured result.
    pub result_bytes: u64,
    /// Shows the program.
    pub include_program: bool,
    /// Traces hold prompts.
    pub trace_prompts: bool,
    /// Planner turns.
    pub turns: u64,
    /// Turns after failures.
    pub retry_turns: u64,
    /// Writes are allowed.
    pub allow_writes: bool,
    /// Where turns, turns after failures and the permission to write were given.
    pub sources: AgenticSources,
    /// Planner settings file.
    pub subagent_config: Option<String>,
    /// Capability text file.
    pub capability_summary: Option<String>,
    /// Its cap.
    pub capability_summary_bytes: u64,
}

/// Where settings of the planner were given: `flag`, `env`, or nowhere.
#[derive(Clone, Copy, Debug)]
pub struct AgenticSources {
    /// Planner turns.
    pub turns: Option<&'static str>,
    /// Turns after failures.
    pub retry_turns: Option<&'static str>,
    /// Writes are allowed.
    pub allow_writes: Option<&'static str>,
}

/// Settings of the HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Address.
    pub host: IpAddr,
    /// Port.
    pub port: u16,
    /// Path of the endpoint.
    pub path: String,
    /// Bearer token.
    pub token: Option<Secret>,
    /// First 16 hex digits of the digest of who calls: of the token, or of the word for calls without one.
    pub owner_hash: String,
    /// No token is checked.
    pub auth_disabled: bool,
    /// Origins that may call.
    pub origins: Vec<String>,
    /// Time to read one request.
    pub request_timeout_ms: u64,
    /// Time for what is written to leave.
    pub write_timeout_ms: u64,
    /// Time to drain.
    pub grace_ms: u64,
    /// Largest body.
    pub body_bytes: usize,
    /// Bodies of all requests together; never less than one body.
    pub unfinished_body_bytes: usize,
    /// Connections of all clients.
    pub connections_max: usize,
    /// Connections of one address.
    pub connections_per_address_max: usize,
    /// Proxies that say where a request came from.
    pub trusted_proxies: TrustedProxies,
    /// Session life.
    pub session_ttl_ms: u64,
    /// Session idleness.
    pub session_idle_ms: u64,
    /// Sessions in the process.
    pub sessions_max: usize,
    /// Sessions of one owner.
    pub sessions_per_owner_max: usize,
    /// Calls of one session at once.
    pub in_flight_max: usize,
    /// Failed authentications are limited.
    pub rate_limit: Option<RateLimitSettings>,
    /// Path of the metrics.
    pub metrics_path: Option<String>,
    /// Name of the instance.
    pub instance: String,
}

impl HttpSettings {
    /// The token that requests must carry.
    pub fn checked_token(&self) -> Option<&Secret> {
        self.token.as_ref().filter(|_| !self.auth_disabled)
    }

    /// The address is reachable from this machine only.
    pub fn is_loopback(&self) -> bool {
        self.host.is_loopback()
    }
}

/// Bounds on failed authentications of one address.
#[derive(Clone, Copy, Debug)]
pub struct RateLimitSettings {
    /// Window.
    pub window_ms: u64,
    /// Failures that block.
    pub failures_max: u64,
    /// Length of a block.
    pub block_ms: u64,
}

/// A boot warning: an event with the value given and the one used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A value that was not understood.
    Ignored(Ignored),
    /// A number outside its range.
    Clamped {
        /// The setting.
        flag: &'static str,
        /// What was given.
        requested: i128,
        /// What is used.
        used: u64,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
}

const CONCURRENT_CALLS_MAX: usize = 8;
/// Smallest memory limit of a program, in bytes, and what every limit is a multiple of.
const PROGRAM_MEMORY_BYTES_MIN: u64 = 1864;
const PROGRAM_MEMORY_BYTES_STEP: u64 = 8;
const TOKEN_BYTES_MIN: usize = 32;

impl Settings {
    /// Reads and checks every setting.
    ///
    /// # Errors
    /// The sentence to print before exiting with status 1.
    pub fn read(
        arguments: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut values = Values::read(arguments, environment)?;
        let values = &mut values;
        let mut warnings = Vec::new();
        let frame_bytes = size(values.positive("max-frame-bytes", 8 << 20)?);
        let program_bytes = size(values.positive("max-program-bytes", 64 << 10)?);
        let context_bytes = size(values.positive("max-context-bytes", 4 << 20)?);
        // Counting processors reads several files.
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        let concurrent_calls = values
            .positive_if_given("max-concurrent-calls")?
            .map_or_else(|| cpus().min(CONCURRENT_CALLS_MAX), size);
        let program_timeout_ms = values.positive_if_given("program-timeout-ms")?;
        let program_memory_bytes = values
            .positive_if_given("program-memory-limit-bytes")?
            .map(|bytes| bytes / PROGRAM_MEMORY_BYTES_STEP * PROGRAM_MEMORY_BYTES_STEP)
            .map(|bytes| bytes.max(PROGRAM_MEMORY_BYTES_MIN));
        let watermark_percent = clamped(values, &mut warnings, "memory-watermark-percent", 95);
        let sessions = sessions(values)?;
        let upstreams = upstreams(values)?;
        let agentic = agentic(values)?;
        let diagnostics = diagnostics(values, &mut warnings)?;
        let profile = match values
            .word("response-profile", false)
            .map_err(|text| format!("invalid MCP response profile: {text:?}"))?
        {
            Some("slim") => ResponseProfile::Slim,
            Some("structured") => ResponseProfile::Structured,
            Some(_) => ResponseProfile::Debug,
            None if diagnostics.debug_tool => ResponseProfile::Debug,
            None => ResponseProfile::Slim,
        };
        let http = match values.boolean("http", false) {
            true => Some(http(values, frame_bytes)?),
            false => None,
        };
        let isolated = match values
            .word("isolation", false)
            .map_err(|text| format!("invalid isolation: {text:?}; it is thread or process"))?
        {
            Some(word) => word == "process",
            // Who reaches the port may be anybody.
            None => {
                cfg!(target_os = "linux") && http.as_ref().is_some_and(|http| !http.is_loopback())
            }
        };
        warnings.extend(values.ignored.drain(..).map(Warning::Ignored));
        Ok(Settings {
            frame_bytes,
            program_bytes,
            context_bytes,
            concurrent_calls,
            program_timeout_ms,
            program_memory_bytes,
            isolated,
            watermark_percent,
            profile,
            sessions,
            diagnostics,
            upstreams,
            agentic,
            http,
            warnings,
        })
    }
}

fn sessions(values: &mut Values) -> Result<SessionSettings, String> {
    Ok(SessionSettings {
        enabled: values.boolean("sessions", false),
        count_max: size(values.positive("max-sessions", 64)?),
        per_owner_max: size(values.positive("max-sessions-per-owner", 16)?),
        ttl_ms: values.positive("session-ttl-ms", 1_800_000)?,
        idle_ms: values.positive("session-idle-timeout-ms", 900_000)?,
        bindings_max: size(values.positive("max-session-bindings", 200)?),
        memory_bytes: values.positive("max-session-memory-bytes", 1 << 20)?,
        binding_bytes: values.positive("max-session-binding-bytes", 256 << 10)?,
        history_entry_bytes: values.positive("max-session-history-entry-bytes", 64 << 10)?,
        prints: HistoryCap {
            entries: size(values.positive("max-session-print-entries", 50)?),
            bytes: values.positive("max-session-print-bytes", 64 << 10)?,
        },
        tool_calls: HistoryCap {
            entries: size(values.positive("max-session-tool-call-entries", 50)?),
            bytes: values.positive("max-session-tool-call-bytes", 128 << 10)?,
        },
        upstream_calls: HistoryCap {
            entries: size(values.positive("max-session-upstream-call-entries", 50)?),
            bytes: values.positive("max-session-upstream-call-bytes", 128 << 10)?,
        },
    })
}

fn upstreams(values: &mut Values) -> Result<UpstreamSettings, String> {
    Ok(UpstreamSettings {
        config: values.text("upstreams-config"),
        read_only: values.boolean("aggregator-read-only", false),
        catalog_mode: values
            .word("catalog-mode", false)
            .unwrap_or_default()
            .unwrap_or("auto"),
        inline_chars: size(values.positive("catalog-inline-max-chars", 800)?),
        inline_tools: size(values.positive("catalog-inline-max-tools", 8)?),
        catalog_ops: size(values.positive("max-catalog-ops-per-program", 25)?),
        catalog_result_bytes: size(values.positive("max-catalog-result-bytes", 256 << 10)?),
        call_timeout_ms: values.positive("upstream-call-timeout-ms", 5_000)?,
        response_bytes: size(values.positive("max-upstream-response-bytes", 2 << 20)?),
        calls_per_program: size(values.positive("max-upstream-calls-per-program", 50)?),
    })
}

fn agentic(values: &mut Values) -> Result<AgenticSettings, String> {
    Ok(AgenticSettings {
        enabled: values.boolean("agentic", false),
        model: values
            .text("agentic-model")
            .unwrap_or_else(|| "gemini-flash-lite".into()),
        task_timeout_ms: values.positive("agentic-task-timeout-ms", 45_000)?,
        planner_timeout_ms: values.positive("agentic-planner-timeout-ms", 15_000)?,
        output_tokens: values.positive("agentic-max-output-tokens", 1_200)?,
        result_bytes: values.positive("agentic-max-result-bytes", 4_096)?,
        include_program: values.boolean("agentic-include-program", true),
        trace_prompts: values.boolean("agentic-trace-prompts", false),
        turns: values.positive("agentic-max-turns", 1)?,
        retry_turns: values.count("agentic-retry-turns", 0),
        allow_writes: values.boolean("agentic-allow-writes", false),
        sources: AgenticSources {
            turns: values.source("agentic-max-turns"),
            retry_turns: values.source("agentic-retry-turns"),
            allow_writes: values.source("agentic-allow-writes"),
        },
        subagent_config: values.text("agentic-subagent-config"),
        capability_summary: values.text("agentic-capability-summary"),
        capability_summary_bytes: values.positive("agentic-capability-summary-max-bytes", 800)?,
    })
}

/// A number within its range, with a warning when it was moved there.
fn clamped(
    values: &mut Values,
    warnings: &mut Vec<Warning>,
    flag: &'static str,
    default: u64,
) -> u64 {
    let (used, requested) = values.clamped(flag, default);
    if let (Some(requested), Some(flags::Kind::Clamped { min, max })) =
        (requested, flags::find(flag).map(|row| row.kind))
    {
        warnings.push(Warning::Clamped {
            flag,
            requested,
            used,
            min,
            max,
        });
    }
    used
}

fn diagnostics(
    values: &mut Values,
    warnings: &mut Vec<Warning>,
) -> Result<DiagnosticsSettings, String> {
    let ring_size = size(clamped(values, warnings, "debug-ring-size", 500));
    let response_bytes = size(clamped(
        values,
        warnings,
        "max-debug-response-bytes",
        64 << 10,
    ));
    Ok(DiagnosticsSettings {
        level: match values.word("log-level", true).unwrap_or_default() {
            Some("debug") => Level::Debug,
            Some("warn" | "warning") => Level::Warn,
            Some("error") => Level::Error,
            _ => Level::Info,
        },
        debug_tool: values.boolean("debug-tool", false),
        ring_size,
        response_bytes,
        trace_dir: values.text("trace-dir"),
        payloads: match values.word("trace-payloads", true).unwrap_or_default() {
            Some("none") => PayloadPolicy::None,
            Some("full") => PayloadPolicy::Full,
            _ => PayloadPolicy::Summary,
        },
        trace_files: size(values.positive("trace-max-files", 1_000)?),
    })
}

fn http(values: &mut Values, frame_bytes: usize) -> Result<HttpSettings, String> {
    let port = values.positive("http-port", 7332)?;
    let request_timeout_ms = values.positive("http-request-timeout-ms", 15_000)?;
    let grace_ms = values.positive("http-shutdown-grace-ms", 10_000)?;
    let body_bytes = values
        .positive_if_given("http-max-body-bytes")?
        .map_or(frame_bytes, size);
    let session_ttl_ms = values.positive("http-session-ttl-ms", 3_600_000)?;
    let session_idle_ms = values.positive("http-session-idle-timeout-ms", 900_000)?;
    let sessions_max = size(values.positive("http-max-sessions", 256)?);
    let sessions_per_owner_max = size(values.positive("http-max-sessions-per-owner", 32)?);
    let in_flight_max = size(values.positive("http-max-in-flight-per-session", 4)?);
    let rate_limit = RateLimitSettings {
        window_ms: values.positive("http-auth-rate-limit-window-ms", 60_000)?,
        failures_max: values.positive("http-auth-rate-limit-max-failures", 5)?,
        block_ms: values.positive("http-auth-rate-limit-block-ms", 60_000)?,
    };
    let write_timeout_ms = values.positive("http-write-timeout-ms", 30_000)?;
    let unfinished_body_bytes = size(values.positive("http-max-unfinished-body-bytes", 128 << 20)?);
    let connections_max = size(values.positive("http-max-connections", 4_096)?);
    let per_address = values.positive("http-max-connections-per-address", 256)?;
    let port = u16::try_from(port).map_err(|_| {
        format!("--http-port / PTC_RUNNER_MCP_HTTP_PORT must be at most 65535, got: \"{port}\"")
    })?;
    let host = match values.text("http-host").as_deref() {
        None | Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Some(text) => text
            .parse()
            .map_err(|_| "HTTP host must be an IP address or localhost".to_owned())?,
    };
    let rooted = |path: String| match path.starts_with('/') {
        true => path,
        false => format!("/{path}"),
    };
    let path = rooted(values.text("http-path").unwrap_or_else(|| "/mcp".into()));
    let metrics_path = rooted(
        values
            .text("http-metrics-path")
            .unwrap_or_else(|| "/metrics".into()),
    );
    let paths = [
        path.as_str(),
        "/health",
        "/health/",
        "/ready",
        "/ready/",
        metrics_path.as_str(),
    ];
    if (0..paths.len()).any(|at| paths[at + 1..].contains(&paths[at])) {
        return Err("HTTP paths must be distinct".into());
    }
    let trusted_proxies = values.list("http-trusted-proxy");
    let trusted_proxies = TrustedProxies::read(&trusted_proxies).map_err(|item| {
        format!(
            "--http-trusted-proxy / PTC_RUNNER_MCP_HTTP_TRUSTED_PROXY must be addresses or networks such as 10.0.0.0/8, got: {item:?}"
        )
    })?;
    let token = values.text("http-auth-token");
    let auth_disabled = values.boolean("http-disable-auth", false);
    let unsafe_network = values.boolean("http-allow-unsafe-network", false);
    let loopback = host.is_loopback();
    if token
        .as_ref()
        .is_some_and(|token| token.len() < TOKEN_BYTES_MIN)
    {
        return Err(format!(
            "HTTP auth token must be at least {TOKEN_BYTES_MIN} characters"
        ));
    }
    if auth_disabled && unsafe_network {
        return Err(
            "--http-disable-auth cannot be combined with --http-allow-unsafe-network".into(),
        );
    }
    if auth_disabled && !loopback {
        return Err("--http-disable-auth is only permitted on loopback binds".into());
    }
    if token.is_none() && !loopback {
        return Err("HTTP auth token is required for non-loopback binds".into());
    }
    let owner = match &token {
        _ if auth_disabled => "disabled",
        Some(token) => token.as_str(),
        None => "loopback-unauthenticated",
    };
    let owner_hash = crate::digest::short(owner.as_bytes());
    let limit = values.boolean("http-auth-rate-limit", true);
    let metrics = values.boolean("http-metrics", false);
    Ok(HttpSettings {
        host,
        port,
        path,
        token: token.map(Secret::new),
        owner_hash,
        auth_disabled,
        origins: values.list("http-allowed-origin"),
        request_timeout_ms,
        write_timeout_ms,
        grace_ms,
        body_bytes,
        unfinished_body_bytes: unfinished_body_bytes.max(body_bytes),
        connections_max,
        connections_per_address_max: size(per_address),
        trusted_proxies,
        session_ttl_ms,
        session_idle_ms,
        sessions_max,
        sessions_per_owner_max,
        in_flight_max,
        rate_limit: limit.then_some(rate_limit),
        metrics_path: metrics.then_some(metrics_path),
        instance: values.text("http-instance-label").unwrap_or_else(host_name),
    })
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}

/// Sizes beyond the machine's address space are as good as unlimited.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Settings, String> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        Settings::read(&arguments, |_| None)
    }

    #[test]
    fn every_flag_is_read() {
        // A value that every kind but the integers takes; the integers get their own.
        for flag in flags::FLAGS {
            let value = match flag.kind {
                flags::Kind::OneOf(words) | flags::Kind::OneOfOrDefault(words) => words[0],
                flags::Kind::Bool => "false",
                _ if flag.name == "http-host" => "127.0.0.1",
                _ if flag.name == "env-file" => "",
                _ => "5000",
            };
            assert!(
                read(&[&format!("--{}={value}", flag.name)]).is_ok(),
                "{}",
                flag.name
            );
        }
    }

    #[test]
    fn the_debug_tool_changes_the_default_profile() {
        assert_eq!(read(&[]).unwrap().profile, ResponseProfile::Slim);
        assert_eq!(
            read(&["--debug-tool"]).unwrap().profile,
            ResponseProfile::Debug
        );
        let slim = read(&["--debug-tool", "--response-profile", "slim"]).unwrap();
        assert_eq!(slim.profile, ResponseProfile::Slim);
        assert_eq!(
            read(&["--response-profile", "Debug"]).unwrap_err(),
            "invalid MCP response profile: \"Debug\""
        );
    }

    #[test]
    fn http_refusals() {
        let long = "x".repeat(32);
        let token = format!("--http-auth-token={long}");
        for (arguments, message) in [
            (
                vec!["--http-host=mcp.example"],
                "HTTP host must be an IP address or localhost",
            ),
            (
                vec!["--http-host=[::1]"],
                "HTTP host must be an IP address or localhost",
            ),
            (vec!["--http-path=/health"], "HTTP paths must be distinct"),
            (vec!["--http-path=metrics"], "HTTP paths must be distinct"),
            (
                vec!["--http-auth-token=short", "--http-disable-auth"],
                "HTTP auth token must be at least 32 characters",
            ),
            (
                vec!["--http-disable-auth", "--http-allow-unsafe-network"],
                "--http-disable-auth cannot be combined with --http-allow-unsafe-network",
            ),
            (
                vec![token.as_str(), "--http-disable-auth", "--http-host=0.0.0.0"],
                "--http-disable-auth is only permitted on loopback binds",
            ),
            (
                vec!["--http-host=0.0.0.0", "--http-allow-unsafe-network"],
                "HTTP auth token is required for non-loopback binds",
            ),
            (
                vec!["--http-port=70000"],
                "--http-port / PTC_RUNNER_MCP_HTTP_PORT must be at most 65535, got: \"70000\"",
            ),
        ] {
            let arguments: Vec<&str> = std::iter::once("--http").chain(arguments).collect();
            assert_eq!(read(&arguments).unwrap_err(), message, "{arguments:?}");
        }
        assert!(read(&["--http-path=/health"]).unwrap().http.is_none());
        assert!(
            read(&["--http", "--http-host=::1", "--http-path=rpc/v1"])
                .unwrap()
                .http
                .unwrap()
                .path
                == "/rpc/v1"
        );
    }

    #[test]
    fn warnings_name_what_was_passed_over() {
        let settings = read(&["--trace-payloads=bogus", "--debug-ring-size=1"]).unwrap();
        assert_eq!(settings.warnings.len(), 2);
    }
}
