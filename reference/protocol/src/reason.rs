//! Why a `lisp_eval` call failed. Knows no rendering.

use ptc_lang::Reason;

ptc_lang::reasons! {
    /// Why a `lisp_eval` call failed. The renderer matches without a wildcard, so the compiler demands a rule for each new
    /// member.
    pub enum ErrorReason {
        /// The source can't be read, or its static checks fail.
        ParseError = Reason::ParseError.name(),
        RuntimeError = Reason::RuntimeError.name(),
        Timeout = Reason::Timeout.name(),
        /// The memory limit was reached.
        MemoryLimit = Reason::MemoryLimit.name(),
        /// The arguments of the call are malformed.
        ArgsError = "args_error",
        /// The program called `(fail v)`. The only reason whose payload carries `result`.
        Fail = "fail",
        /// The returned value does not match the requested type.
        ValidationError = "validation_error",
    }
}
