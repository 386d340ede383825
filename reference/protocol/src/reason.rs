//! The closed unions of reasons. One table each; knows no rendering.

/// Why a `lisp_eval` call failed. Adding a member means adding a row of `REASONS` and a rule to the renderer;
/// both match without a wildcard, so the compiler asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReason {
    /// The source does not read, or its static checks fail.
    ParseError,
    /// Evaluation failed.
    RuntimeError,
    /// The deadline passed.
    Timeout,
    /// The memory bound was reached.
    MemoryLimit,
    /// The arguments of the call are malformed.
    ArgsError,
    /// The program called `(fail v)`. The only reason whose payload carries `result`.
    Fail,
    /// The returned value does not match what was asked for.
    ValidationError,
}

/// Every member with its wire name.
pub const REASONS: &[(ErrorReason, &str)] = &[
    (ErrorReason::ParseError, "parse_error"),
    (ErrorReason::RuntimeError, "runtime_error"),
    (ErrorReason::Timeout, "timeout"),
    (ErrorReason::MemoryLimit, "memory_limit"),
    (ErrorReason::ArgsError, "args_error"),
    (ErrorReason::Fail, "fail"),
    (ErrorReason::ValidationError, "validation_error"),
];

impl ErrorReason {
    /// The wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorReason::ParseError => "parse_error",
            ErrorReason::RuntimeError => "runtime_error",
            ErrorReason::Timeout => "timeout",
            ErrorReason::MemoryLimit => "memory_limit",
            ErrorReason::ArgsError => "args_error",
            ErrorReason::Fail => "fail",
            ErrorReason::ValidationError => "validation_error",
        }
    }

    /// The member with this wire name.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        REASONS
            .iter()
            .find(|(_, wire)| *wire == name)
            .map(|(reason, _)| *reason)
    }
}
