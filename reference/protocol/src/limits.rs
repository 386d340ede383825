//! The default limits of one program, in one table.

use std::time::Duration;

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
    memory_bytes: 10 << 20,
};

/// The limits of a program that may call upstream servers.
pub const WITH_UPSTREAMS: ProgramLimits = ProgramLimits {
    timeout: Duration::from_secs(10),
    memory_bytes: 100 << 20,
};

/// The limits of a program in an agent's turn.
pub const IN_AGENT: ProgramLimits = ProgramLimits {
    timeout: Duration::from_secs(5),
    memory_bytes: 10 << 20,
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
