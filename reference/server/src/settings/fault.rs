//! Why settings are refused, and every sentence about it. Knows nothing of how settings are read.

use super::flags::Flag;
use super::store_address::StoreAddressFault;
use super::{INSTANCE_BYTES_MAX, TOKEN_BYTES_MIN};
use ptc_secrets::FileError;

/// What is wrong with a setting. `Display` is a sentence for the operator, which may quote any setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFault {
    #[error(
        "unexpected argument {0:?}; every argument of `ptc start` is a flag (see `ptc start --help`)"
    )]
    StrayArgument(String),
    #[error(
        "unknown flag --{name}.{}",
        closest.map(|flag| format!(" Did you mean --{}?", flag.name)).unwrap_or_default()
    )]
    UnknownFlag {
        name: String,
        closest: Option<&'static Flag>,
    },
    #[error("--{} needs a value: {}", .0.name, .0.kind.expected())]
    NoValue(&'static Flag),
    #[error("--{} / {} must be {}, got: {got:?}", flag.name, flag.env(), flag.kind.expected())]
    Value { flag: &'static Flag, got: String },
    #[error("--{} / {} must be at most {}, got: \"{got}\"", flag.name, flag.env(), u16::MAX)]
    PortTooLarge { flag: &'static Flag, got: u64 },
    #[error("invalid isolation: {0:?}; it is thread or process")]
    Isolation(String),
    #[error("invalid MCP response profile: {0:?}")]
    ResponseProfile(String),
    #[error("--env-file: cannot read {path}: {error}")]
    EnvFile { path: String, error: FileError },
    #[error("--session-store / PTC_RUNNER_MCP_SESSION_STORE is no address of a store: {0}")]
    Store(#[from] StoreAddressFault),
    #[error("--session-store-key-file needs a --session-store")]
    KeyFileWithoutStore,
    #[error("HTTP host must be an IP address or localhost")]
    Host,
    #[error("HTTP paths must be visible ASCII without a query or a fragment, got: {0:?}")]
    Path(String),
    #[error("HTTP paths must be distinct")]
    EqualPaths,
    #[error(
        "--http-allowed-origin / PTC_RUNNER_MCP_HTTP_ALLOWED_ORIGIN must be origins as browsers send them, such as \
         https://app.example, got: {0:?}"
    )]
    Origin(String),
    #[error(
        "--http-trusted-proxy / PTC_RUNNER_MCP_HTTP_TRUSTED_PROXY must be addresses or networks such as 10.0.0.0/8, got: {0:?}"
    )]
    TrustedProxy(String),
    #[error(
        "--http-instance-label / PTC_RUNNER_MCP_HTTP_INSTANCE_LABEL must be at most {INSTANCE_BYTES_MAX} bytes without control \
         characters"
    )]
    InstanceLabel,
    #[error("HTTP auth token must be at least {TOKEN_BYTES_MIN} characters")]
    ShortToken,
    #[error("--http-disable-auth cannot be combined with --http-allow-unsafe-network")]
    UnsafeWithoutAuth,
    #[error("--http-disable-auth is only permitted on loopback binds")]
    ReachableWithoutAuth,
    #[error("HTTP auth token is required for non-loopback binds")]
    NoToken,
}
