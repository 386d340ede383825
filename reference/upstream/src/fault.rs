//! World faults: what can go wrong at an upstream, as data. Knows the closed list of reasons; knows nothing of transports.

/// Why an upstream call gave no value. The program gets it as `{:ok false :reason … :message …}` and goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldFault {
    /// One of the closed list.
    pub reason: Reason,
    /// What happened; from outside in part, so it is scrubbed before anyone sees it.
    pub message: String,
    /// Bytes read when an oversize answer was cut, or of a `tool_error`'s envelope; otherwise unknown.
    pub bytes: Option<u64>,
}

impl WorldFault {
    /// A fault without a byte count.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            bytes: None,
        }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Reason::UpstreamUnavailable, message)
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(Reason::UpstreamError, message)
    }

    pub(crate) fn too_large(what: &str, cap: usize, bytes: u64) -> Self {
        let message = format!("{what} exceeded {cap} bytes");
        Self {
            reason: Reason::ResponseTooLarge,
            message,
            bytes: Some(bytes),
        }
    }
}

/// The reasons of world faults: the seeds' six and ruling 47's two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It could not be started, its handshake failed, or it is inside its recovery window.
    UpstreamUnavailable,
    /// It answered a call with a JSON-RPC error, or with something that is no answer.
    UpstreamError,
    /// It answered with `isError: true`.
    ToolError,
    /// It did not answer in time.
    Timeout,
    /// Its answer was cut at the cap, before decoding.
    ResponseTooLarge,
    /// The program has made all the calls it may make.
    CapExhausted,
    /// HTTP 401 or 403.
    AuthFailed,
    /// HTTP 429.
    RateLimited,
    /// The program's own fault: only a ledger that asks for those has it, no program gets it as a value.
    Programmer,
}

/// Every reason of the world with its wire name, in the order of documentation.
pub const REASONS: &[(Reason, &str)] = &[
    (Reason::UpstreamUnavailable, "upstream_unavailable"),
    (Reason::UpstreamError, "upstream_error"),
    (Reason::ToolError, "tool_error"),
    (Reason::Timeout, "timeout"),
    (Reason::ResponseTooLarge, "response_too_large"),
    (Reason::CapExhausted, "cap_exhausted"),
    (Reason::AuthFailed, "auth_failed"),
    (Reason::RateLimited, "rate_limited"),
];

impl Reason {
    /// The name on the wire and, as a keyword, in programs.
    pub fn name(self) -> &'static str {
        REASONS
            .iter()
            .find(|(reason, _)| *reason == self)
            .map_or("runtime_error", |(_, name)| name)
    }
}
