//! Limits of the upstream runtime, with the defaults of the seeds. Knows no flags.

use std::time::Duration;

/// Limits of one runtime. All positive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest that one upstream call may take, queueing included.
    pub call_timeout: Duration,
    /// Largest answer to a call, in bytes, cut before decoding.
    pub response_bytes_max: usize,
    /// Upstream calls per program.
    pub calls_per_program: usize,
    /// Discovery operations per program.
    pub catalog_ops_per_program: usize,
    /// Largest upstream part of a discovery result, in bytes of JSON.
    pub catalog_result_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_millis(5_000),
            response_bytes_max: 2 * 1024 * 1024,
            calls_per_program: 50,
            catalog_ops_per_program: 25,
            catalog_result_bytes_max: 256 * 1024,
        }
    }
}

/// Program wall clock where upstreams are configured and no flag says otherwise.
pub const PROGRAM_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Program memory where upstreams are configured and no flag says otherwise, in bytes.
pub const PROGRAM_MEMORY_BYTES_DEFAULT: usize = 100 * 1024 * 1024;

/// The first recovery window after a crash.
pub(crate) const RECOVERY_FIRST: Duration = Duration::from_millis(100);
/// The longest recovery window.
pub(crate) const RECOVERY_LONGEST: Duration = Duration::from_secs(30);
/// Pages of one `tools/list` before the upstream is taken to be endless.
pub(crate) const LIST_PAGES_MAX: usize = 1_000;
/// Tools of one upstream.
pub(crate) const TOOLS_MAX: usize = 20_000;
/// Time that a child gets after its input was closed, and again after SIGTERM, before it is killed.
pub(crate) const CHILD_GRACE: Duration = Duration::from_millis(150);

const _: () = assert!(RECOVERY_FIRST.as_millis() < RECOVERY_LONGEST.as_millis());
