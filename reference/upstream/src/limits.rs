//! Limits of the upstream runtime. Knows nothing of command-line flags.

use std::time::Duration;

use ptc_protocol::limits::upstream_calls;

/// Limits of one runtime. All positive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum duration of one upstream call, including queueing.
    pub call_timeout: Duration,
    /// Maximum bytes of an answer to a call; a longer one is cut before decoding.
    pub response_bytes_max: usize,
    /// Maximum upstream calls per program.
    pub calls_per_program: usize,
    /// Maximum discovery operations per program.
    pub catalog_ops_per_program: usize,
    /// Maximum bytes of JSON in the upstream part of a discovery result.
    pub catalog_result_bytes_max: usize,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Limits = Limits {
        call_timeout: upstream_calls::TIMEOUT,
        response_bytes_max: upstream_calls::RESPONSE_BYTES_MAX,
        calls_per_program: upstream_calls::PER_PROGRAM_MAX,
        catalog_ops_per_program: upstream_calls::CATALOG_OPS_MAX,
        catalog_result_bytes_max: upstream_calls::CATALOG_RESULT_BYTES_MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The first recovery window after a crash.
pub(crate) const RECOVERY_FIRST: Duration = Duration::from_millis(100);
/// The longest recovery window.
pub(crate) const RECOVERY_LONGEST: Duration = Duration::from_secs(30);
/// Maximum pages of one `tools/list`; an upstream with more is taken to be endless.
pub(crate) const LIST_PAGES_MAX: usize = 1_000;
/// Maximum tools of one upstream.
pub(crate) const TOOLS_MAX: usize = 20_000;
/// Grace period of a child process after its input is closed, and again after SIGTERM, before it is killed.
pub(crate) const CHILD_GRACE: Duration = Duration::from_millis(150);

/// Maximum bytes of queued requests that a child has not read yet; further requests wait for room.
pub(crate) const REQUEST_BYTES_QUEUED_MAX: usize = 4 << 20;
/// Maximum bytes of queued messages caused by a child's own behaviour (answers to its requests, cancellations). A child that lets
/// more pile up is terminated.
pub(crate) const ANSWER_BYTES_QUEUED_MAX: usize = 256 << 10;
/// Minimum bytes charged for a queued frame, so that the byte limits also bound the number of frames.
pub(crate) const FRAME_BYTES_CHARGED_MIN: usize = 512;
/// Maximum bytes of the id of an upstream's request, which the answer repeats.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 1024;
/// Maximum answers to requests of one HTTP upstream that are in flight at the same time, and that are queued behind them.
pub(crate) const REPLY_POSTS_MAX: usize = 4;
pub(crate) const REPLIES_PENDING_MAX: usize = 64;
/// Maximum bytes of all pages of one `tools/list`.
pub(crate) const LIST_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of a header value that an upstream chooses and we repeat: its session id, its protocol revision.
pub(crate) const REPEATED_HEADER_BYTES_MAX: usize = 1024;
/// Maximum bytes of headers that repeat marked arguments: the upstream chooses how many arguments are marked, the program how long
/// each is.
pub(crate) const PARAM_HEADER_BYTES_MAX: usize = 64 << 10;
/// Bytes charged for a header in addition to its name and value.
pub(crate) const HEADER_BYTES_CHARGED: usize = 32;
/// Maximum bytes of a tool's name, which replies, traces and sessions repeat for each call.
pub const NAME_BYTES_MAX: usize = 32 << 10;
/// Maximum bytes of the names that a hint lists.
pub(crate) const HINT_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of an error in a ledger entry: an upstream writes it, and replies, traces and sessions show all entries.
pub(crate) const LISTED_ERROR_BYTES: usize = 4 << 10;
/// Maximum entries of a ledger for calls beyond the cap: a program can make any number of them, and nothing is sent for them.
pub(crate) const REFUSED_CALLS_LISTED_MAX: usize = 100;
/// Maximum bytes of a URL that includes arguments: HTTP libraries reject 64 KiB.
pub(crate) const URL_BYTES_MAX: usize = (64 << 10) - 2;
/// Maximum bytes of arguments that are searched for parts of other operations' paths: the description chooses how many such parts
/// there are, the program how long the arguments are.
pub(crate) const CLAIM_BYTES_MAX: usize = 256 << 20;
/// Maximum bytes of all schemas of one OpenAPI description after references are resolved: a small description can expand enormously.
pub(crate) const RESOLVED_BYTES_MAX: usize = LIST_BYTES_MAX;

const _: () = assert!(ANSWER_BYTES_QUEUED_MAX > 2 * REQUEST_ID_BYTES_MAX);
const _: () = assert!(CLAIM_BYTES_MAX > 1_000 * URL_BYTES_MAX);
const _: () = assert!(NAME_BYTES_MAX > HINT_BYTES_MAX);
const _: () = assert!(REPLY_POSTS_MAX < REPLIES_PENDING_MAX);
const _: () = assert!(RECOVERY_FIRST.as_millis() < RECOVERY_LONGEST.as_millis());
