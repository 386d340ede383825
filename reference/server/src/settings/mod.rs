//! The settings of `ptc start`, validated and typed. Knows nothing of how they are used.

mod fault;
pub mod flags;
mod origins;
pub mod store_address;
mod trusted_proxies;
pub mod values;

pub use fault::SettingsFault;
pub use origins::Origin;
pub use trusted_proxies::TrustedProxies;

use axum::http::uri::PathAndQuery;
use ptc_protocol::digest;
use ptc_secrets::Secret;
use ptc_upstream::{CatalogMode, Limits, Thresholds};
use std::net::{IpAddr, Ipv4Addr};
use store_address::Address;
use values::{IgnoredValue, Values};

/// Settings of one server. The names of byte and time limits end with the unit.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Bytes of the longest frame.
    pub frame_bytes: usize,
    /// Bytes of the longest program.
    pub program_bytes: usize,
    /// Bytes of the largest context, as compact JSON.
    pub context_bytes: usize,
    /// Maximum number of concurrent calls.
    pub concurrent_calls: usize,
    /// Wall-clock limit of a program, if set explicitly.
    pub program_timeout_ms: Option<u64>,
    /// Memory limit of a program, if set explicitly.
    pub program_memory_bytes: Option<u64>,
    /// Whether programs are evaluated in processes of their own.
    pub isolated: bool,
    /// Share of memory above which calls are refused.
    pub watermark_percent: u64,
    /// How much of a result is shown.
    pub profile: ResponseProfile,
    pub sessions: SessionSettings,
    /// Logs, traces, the debug tool.
    pub diagnostics: DiagnosticsSettings,
    pub upstreams: UpstreamSettings,
    /// `lisp_task`.
    pub agentic: AgenticSettings,
    /// Streamable HTTP; `None` serves stdio.
    pub http: Option<HttpSettings>,
    /// Values that were ignored or changed; each becomes a warning.
    pub warnings: Vec<Warning>,
}

/// The three shapes of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResponseProfile {
    #[default]
    Slim,
    /// Text and a compact object.
    Structured,
    /// The full object, mirrored as text.
    Debug,
}

impl ResponseProfile {
    pub const NAMES: &[(&str, Self)] = &[
        ("slim", Self::Slim),
        ("structured", Self::Structured),
        ("debug", Self::Debug),
    ];

    pub fn name(self) -> &'static str {
        name_of(Self::NAMES, self)
    }
}

/// What traces and the debug ring contain of programs, contexts and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PayloadPolicy {
    /// Sizes and digests; the ring holds no preview either.
    None,
    #[default]
    Summary,
    Full,
}

impl PayloadPolicy {
    pub const NAMES: &[(&str, Self)] = &[
        ("none", Self::None),
        ("summary", Self::Summary),
        ("full", Self::Full),
    ];

    pub fn name(self) -> &'static str {
        name_of(Self::NAMES, self)
    }
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    Debug,
    /// One line per event.
    #[default]
    Info,
    /// Something was refused or changed.
    Warn,
    Error,
}

impl Level {
    /// Their names on the command line; where two names mean one level, log lines show the first.
    pub const NAMES: &[(&str, Self)] = &[
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("warn", Self::Warn),
        ("warning", Self::Warn),
        ("error", Self::Error),
    ];

    /// The name in a log line.
    pub fn name(self) -> &'static str {
        name_of(Self::NAMES, self)
    }
}

/// The first name of a value.
fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, named)| *named == value);
    found.map_or("", |(name, _)| name)
}

/// Settings of the `lisp_session_*` tools.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    pub enabled: bool,
    /// Live sessions in the process.
    pub count_max: usize,
    /// Live sessions of one owner.
    pub per_owner_max: usize,
    pub ttl_ms: u64,
    pub idle_ms: u64,
    pub bindings_max: usize,
    /// Bytes of all definitions together.
    pub memory_bytes: u64,
    /// Bytes of one definition.
    pub binding_bytes: u64,
    /// Bytes of a kept result.
    pub history_entry_bytes: u64,
    pub prints: HistoryCap,
    pub tool_calls: HistoryCap,
    pub upstream_calls: HistoryCap,
    pub store: StoreSettings,
}

/// Where sessions are kept.
#[derive(Clone, Debug, Default)]
pub struct StoreSettings {
    /// `None` keeps sessions in the memory of the process.
    pub address: Option<Address>,
    /// File with the encryption keys.
    pub key_file: Option<String>,
    /// Whether the server starts even if the store is away.
    pub optional: bool,
}

/// Bounds of a history list.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryCap {
    pub entries: usize,
    /// Bytes of all entries together.
    pub bytes: u64,
}

/// Settings of logs, traces and `lisp_debug`.
#[derive(Clone, Debug, Default)]
pub struct DiagnosticsSettings {
    pub level: Level,
    /// Whether the tool `lisp_debug` exists.
    pub debug_tool: bool,
    pub ring_size: usize,
    /// Bytes of the largest reply of `lisp_debug`.
    pub response_bytes: usize,
    pub trace_dir: Option<String>,
    /// What traces and the ring contain.
    pub payloads: PayloadPolicy,
    pub trace_files: usize,
}

/// Settings of aggregator mode.
#[derive(Clone, Debug, Default)]
pub struct UpstreamSettings {
    /// Path of the config file, if given by flag or environment; the file must exist.
    pub config: Option<String>,
    /// Whether the operator asserts that every upstream tool only reads.
    pub read_only: bool,
    pub catalog_mode: CatalogMode,
    /// Sizes beyond which `auto` no longer shows the catalog inline.
    pub thresholds: Thresholds,
    /// Limits of upstream calls and discovery.
    pub limits: Limits,
}

/// Settings of `lisp_task`.
#[derive(Clone, Debug, Default)]
pub struct AgenticSettings {
    /// Whether the tool is enabled.
    pub enabled: bool,
    pub model: String,
    /// Time limit of a task.
    pub task_timeout_ms: u64,
    /// Time limit of a planner request.
    pub planner_timeout_ms: u64,
    pub output_tokens: u64,
    /// Bytes of the structured result.
    pub result_bytes: u64,
    pub include_program: bool,
    pub trace_prompts: bool,
    pub turns: u64,
    pub retry_turns: u64,
    pub allow_writes: bool,
    /// Where the turns, the retry turns and the permission to write were set.
    pub sources: AgenticSources,
    pub subagent_config: Option<String>,
    pub capability_summary: Option<String>,
    pub capability_summary_bytes: u64,
}

/// Where settings of the planner were set: `flag`, `env`, or nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgenticSources {
    pub turns: Option<&'static str>,
    pub retry_turns: Option<&'static str>,
    pub allow_writes: Option<&'static str>,
}

/// The address to bind.
#[derive(Clone, Copy, Debug)]
pub struct BindAddress(pub IpAddr);

impl Default for BindAddress {
    fn default() -> Self {
        BindAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// Settings of the HTTP listener.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    pub host: BindAddress,
    pub port: u16,
    pub path: String,
    pub token: Option<Secret>,
    /// First 16 hex digits of a digest of the caller: of the token, or of a fixed word for calls without one.
    pub owner_hash: String,
    /// Whether tokens are not checked.
    pub auth_disabled: bool,
    /// Origins that may call; empty for the loopback rule.
    pub origins: Vec<Origin>,
    /// Time limit for reading one request.
    pub request_timeout_ms: u64,
    /// Time limit for a client to read what is written.
    pub write_timeout_ms: u64,
    pub grace_ms: u64,
    /// Delay before graceful shutdown begins, in which load balancers learn to route requests elsewhere.
    pub shutdown_delay_ms: u64,
    pub body_bytes: usize,
    /// Bytes of the bodies of all requests together; at least those of one body.
    pub unfinished_body_bytes: usize,
    /// Connections of all clients together.
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    /// Proxies that are trusted to report the client's address.
    pub trusted_proxies: TrustedProxies,
    pub session_ttl_ms: u64,
    pub session_idle_ms: u64,
    /// Protocol sessions in the process.
    pub sessions_max: usize,
    pub sessions_per_owner_max: usize,
    /// Concurrent calls of one session.
    pub in_flight_max: usize,
    /// Limits on failed authentications; `None` for no limits.
    pub rate_limit: Option<RateLimitSettings>,
    pub metrics_path: Option<String>,
    /// Name of the instance.
    pub instance: String,
}

impl HttpSettings {
    /// The token that requests must carry; `None` if none is checked.
    pub fn checked_token(&self) -> Option<&Secret> {
        self.token.as_ref().filter(|_| !self.auth_disabled)
    }

    /// Whether the address is reachable from this machine only.
    pub fn is_loopback(&self) -> bool {
        self.host.0.is_loopback()
    }
}

/// Limits on failed authentications of one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimitSettings {
    pub window_ms: u64,
    pub failures_max: u64,
    pub block_ms: u64,
}

/// A warning at startup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A value that was not understood.
    Ignored(IgnoredValue),
    /// A number outside its range.
    Clamped {
        flag: &'static str,
        requested: i128,
        used: u64,
        min: u64,
        max: u64,
    },
}

const CONCURRENT_CALLS_MAX: usize = 8;
/// Minimum memory limit of a program, in bytes; every limit is a multiple of the step.
const PROGRAM_MEMORY_BYTES_MIN: u64 = 1864;
const PROGRAM_MEMORY_BYTES_STEP: u64 = 8;
const TOKEN_BYTES_MIN: usize = 32;
/// Bytes of the longest instance name, which every HTTP log line carries.
const INSTANCE_BYTES_MAX: usize = 256;

/// Settings while the rows of the flag table fill them in; values that can only be validated together wait here.
#[derive(Default)]
pub struct Draft {
    settings: Settings,
    /// Where the value that is being read was given.
    source: Option<&'static str>,
    concurrent_calls: Option<usize>,
    profile: Option<ResponseProfile>,
    isolated: Option<bool>,
    http_enabled: bool,
    http: HttpSettings,
    host: String,
    body_bytes: Option<usize>,
    token: Option<Secret>,
    unsafe_network: bool,
    origins: Vec<String>,
    trusted_proxies: Vec<String>,
    metrics: bool,
    metrics_path: String,
    store: String,
}

/// Why settings are refused.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct SettingsError {
    pub fault: SettingsFault,
    /// The settings anyway, unchecked, so that secrets in them can be redacted.
    pub settings: Box<Settings>,
}

impl Settings {
    /// Reads and validates every setting.
    ///
    /// # Errors
    /// [`SettingsError`], with the first fault.
    pub fn read(
        arguments: &[String],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let (values, mut fault) = Values::read(arguments, environment);
        let mut draft = Draft::default();
        for flag in flags::FLAGS {
            draft.source = values.source(flag.name);
            match values.take(flag, &mut draft) {
                Ok(warning) => draft.settings.warnings.extend(warning),
                Err(refused) => drop(fault.get_or_insert(refused)),
            }
        }
        let settings = draft.unchecked();
        fault
            .map_or_else(|| draft.validate(), Err)
            .map_err(|fault| SettingsError { fault, settings })
    }
}

impl Draft {
    fn rate_limit(&mut self, set: impl FnOnce(&mut RateLimitSettings)) {
        if let Some(limit) = &mut self.http.rate_limit {
            set(limit);
        }
    }

    /// The settings before validation, as far as they contain or name secrets.
    fn unchecked(&self) -> Box<Settings> {
        let mut settings = self.settings.clone();
        settings.sessions.store.address =
            Address::read(&self.store).unwrap_or_else(|_| Address::password_only(&self.store));
        // A short token is not a usable secret, and redacting it would mutilate ordinary words.
        let token = self.token.clone();
        settings.http = token
            .filter(|token| !token.is_short())
            .map(|token| HttpSettings {
                token: Some(token),
                ..HttpSettings::default()
            });
        Box::new(settings)
    }

    /// Validates what a row could not validate alone.
    fn validate(mut self) -> Result<Settings, SettingsFault> {
        let default_profile = match self.settings.diagnostics.debug_tool {
            true => ResponseProfile::Debug,
            false => ResponseProfile::Slim,
        };
        self.settings.profile = self.profile.unwrap_or(default_profile);
        // Counting processors reads several files.
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.settings.concurrent_calls = self
            .concurrent_calls
            .unwrap_or_else(|| cpus().min(CONCURRENT_CALLS_MAX));
        let isolated = self.isolated;
        self.validate_store()?;
        let mut settings = std::mem::take(&mut self.settings);
        if self.http_enabled {
            settings.http = Some(self.validate_http(settings.frame_bytes)?);
        }
        // Anybody may be able to reach the port.
        let reachable = settings
            .http
            .as_ref()
            .is_some_and(|http| !http.is_loopback());
        settings.isolated = isolated.unwrap_or(cfg!(target_os = "linux") && reachable);
        Ok(settings)
    }

    fn validate_store(&mut self) -> Result<(), SettingsFault> {
        let store = &mut self.settings.sessions.store;
        store.address = Address::read(&self.store)?;
        if store.key_file.is_some() && store.address.is_none() {
            return Err(SettingsFault::KeyFileWithoutStore);
        }
        Ok(())
    }

    fn validate_http(self, frame_bytes: usize) -> Result<HttpSettings, SettingsFault> {
        let mut http = self.http;
        http.host = match self.host.as_str() {
            "localhost" => BindAddress::default(),
            text => text
                .parse()
                .map(|address: IpAddr| BindAddress(address.to_canonical()))
                .map_err(|_| SettingsFault::Host)?,
        };
        let own = [http.path.as_str(), self.metrics_path.as_str()];
        if let Some(path) = own.into_iter().find(|path| !is_nameable(path)) {
            return Err(SettingsFault::Path(path.to_owned()));
        }
        let paths = [
            http.path.as_str(),
            "/health",
            "/health/",
            "/ready",
            "/ready/",
            self.metrics_path.as_str(),
        ];
        if (0..paths.len()).any(|at| paths[at + 1..].contains(&paths[at])) {
            return Err(SettingsFault::EqualPaths);
        }
        let origins = self.origins.iter().map(|item| Origin::listed(item));
        http.origins = origins.collect::<Result<_, _>>()?;
        http.trusted_proxies = TrustedProxies::read(&self.trusted_proxies)?;
        if http.instance.is_empty() {
            http.instance = host_name();
        }
        let is_plain =
            http.instance.len() <= INSTANCE_BYTES_MAX && !http.instance.contains(char::is_control);
        if !is_plain {
            return Err(SettingsFault::InstanceLabel);
        }
        let loopback = http.is_loopback();
        let token = self.token;
        if token
            .as_ref()
            .is_some_and(|token| token.byte_len() < TOKEN_BYTES_MIN)
        {
            return Err(SettingsFault::ShortToken);
        }
        if http.auth_disabled && self.unsafe_network {
            return Err(SettingsFault::UnsafeWithoutAuth);
        }
        if http.auth_disabled && !loopback {
            return Err(SettingsFault::ReachableWithoutAuth);
        }
        if token.is_none() && !loopback {
            return Err(SettingsFault::NoToken);
        }
        http.owner_hash = match &token {
            _ if http.auth_disabled => digest::short(b"disabled"),
            Some(token) => hash_of(token),
            None => digest::short(b"loopback-unauthenticated"),
        };
        http.token = token;
        http.body_bytes = self.body_bytes.unwrap_or(frame_bytes);
        http.unfinished_body_bytes = http.unfinished_body_bytes.max(http.body_bytes);
        http.metrics_path = self.metrics.then_some(self.metrics_path);
        Ok(http)
    }
}

/// Rounds a program's memory limit to one that the evaluator can enforce.
fn program_memory(bytes: u64) -> u64 {
    let whole = bytes / PROGRAM_MEMORY_BYTES_STEP * PROGRAM_MEMORY_BYTES_STEP;
    whole.max(PROGRAM_MEMORY_BYTES_MIN)
}

/// Prepends a slash to a path without one.
fn absolute_path(path: String) -> String {
    match path.starts_with('/') {
        true => path,
        false => format!("/{path}"),
    }
}

/// What the log and the stores call the clients with this token.
#[expect(
    clippy::disallowed_methods,
    reason = "the digest gives nothing of it away"
)]
fn hash_of(token: &Secret) -> String {
    token.lend(|text| digest::short(text.as_bytes()))
}

/// Whether a request can have exactly this path.
fn is_nameable(path: &str) -> bool {
    let read = path.parse::<PathAndQuery>();
    path.is_ascii() && read.is_ok_and(|read| read.path() == path && read.query().is_none())
}

fn host_name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}

/// Sizes beyond the machine's address space are as good as unlimited.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
