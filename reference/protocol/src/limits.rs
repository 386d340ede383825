//! Every default limit that a flag, a config or an embedder can change, in one table, and the bounds of JSON trees that several crates
//! build. A flag of `ptc start` that only the server reads has its default in the server's table of flags.

use std::time::Duration;

use ptc_lang::Limits;

/// Limits of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Wall-clock time from the start of the call.
    pub timeout: Duration,
    pub memory_bytes: u64,
}

/// The limits of a program without external access.
pub const WITHOUT_UPSTREAMS: ProgramLimits = ProgramLimits {
    timeout: Duration::from_secs(1),
    memory_bytes: Limits::DEFAULT.memory_bytes,
};

/// The limits of a program that may call upstream servers.
pub const WITH_UPSTREAMS: ProgramLimits = ProgramLimits {
    timeout: Duration::from_secs(10),
    memory_bytes: 100 << 20,
};

/// The limits of a program in an agent's turn.
pub const IN_AGENT: ProgramLimits = ProgramLimits {
    timeout: Duration::from_secs(5),
    memory_bytes: Limits::DEFAULT.memory_bytes,
};

const _: () = assert!(WITHOUT_UPSTREAMS.timeout.as_millis() < WITH_UPSTREAMS.timeout.as_millis());
const _: () = assert!(WITHOUT_UPSTREAMS.memory_bytes < WITH_UPSTREAMS.memory_bytes);

impl ProgramLimits {
    /// The limits of a program, by whether it may call upstream servers.
    pub const fn of(upstreams: bool) -> Self {
        match upstreams {
            true => WITH_UPSTREAMS,
            false => WITHOUT_UPSTREAMS,
        }
    }
}

/// Defaults of what programs may ask of upstream servers; flags change them for the whole process.
pub mod upstream_calls {
    use std::time::Duration;

    /// Maximum duration of one call, including queueing.
    pub const TIMEOUT: Duration = Duration::from_secs(5);
    /// Maximum bytes of an answer.
    pub const RESPONSE_BYTES_MAX: usize = 2 << 20;
    /// Maximum calls of one program.
    pub const PER_PROGRAM_MAX: usize = 50;
    /// Maximum discovery operations of one program.
    pub const CATALOG_OPS_MAX: usize = 25;
    /// Maximum bytes of JSON in the upstream part of one discovery result.
    pub const CATALOG_RESULT_BYTES_MAX: usize = 256 << 10;
    /// The longest catalog that `auto` shows inline, in characters.
    pub const INLINE_CHARS_MAX: usize = 800;
    /// The most tools that `auto` shows inline.
    pub const INLINE_TOOLS_MAX: usize = 8;
}

/// Defaults of an entry of the upstreams config, which each entry may change for itself.
pub mod upstream_entry {
    /// Milliseconds for an HTTP request.
    pub const REQUEST_TIMEOUT_MS: u64 = 30_000;
    /// Milliseconds for an HTTP connection.
    pub const CONNECT_TIMEOUT_MS: u64 = 5_000;
    /// Milliseconds for the MCP handshake.
    pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;
    /// Maximum bytes of an answer, of a handshake or of an OpenAPI description.
    pub const RESPONSE_BYTES_MAX: u64 = super::upstream_calls::RESPONSE_BYTES_MAX as u64;
}

/// Defaults of an agent's definition.
pub mod agent {
    /// Maximum turns of a run.
    pub const TURNS_MAX: u32 = 5;
    /// Maximum turns of a run and its retries together.
    pub const TURN_BUDGET: u32 = 20;
    /// Maximum size units of all definitions.
    pub const MEMORY_UNITS_MAX: u64 = 1_048_576;
    /// Rows of a native result that its preview shows.
    pub const PREVIEW_ROWS_MAX: usize = 20;
}

/// Maximum nesting depth of a value that becomes JSON: no reader accepts deeper texts, and ours stops at 128.
pub const JSON_DEPTH_MAX: u32 = 512;
/// Minimum bytes that a part of a tree of [`serde_json::Value`] takes.
pub const JSON_PART_BYTES: usize = 96;
