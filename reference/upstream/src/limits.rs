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

impl Limits {
    /// Those where nothing says otherwise.
    pub const DEFAULT: Limits = Limits {
        call_timeout: Duration::from_millis(5_000),
        response_bytes_max: 2 * 1024 * 1024,
        calls_per_program: 50,
        catalog_ops_per_program: 25,
        catalog_result_bytes_max: 256 * 1024,
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
/// Pages of one `tools/list` before the upstream is taken to be endless.
pub(crate) const LIST_PAGES_MAX: usize = 1_000;
/// Tools of one upstream.
pub(crate) const TOOLS_MAX: usize = 20_000;
/// Time that a child gets after its input was closed, and again after SIGTERM, before it is killed.
pub(crate) const CHILD_GRACE: Duration = Duration::from_millis(150);

/// Bytes of our own requests that wait for a child to read; further ones wait for room.
pub(crate) const REQUEST_BYTES_QUEUED_MAX: usize = 4 << 20;
/// Bytes of what a child's behaviour makes us say (answers to its requests, cancellations) that wait for it to read. A child that
/// lets more pile up is ended.
pub(crate) const ANSWER_BYTES_QUEUED_MAX: usize = 256 << 10;
/// What holding a frame costs at least: so the bytes bound the frames, too.
pub(crate) const FRAME_BYTES_CHARGED_MIN: usize = 512;
/// Bytes of the id of an upstream's request, which its answer has to repeat.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 1024;
/// Answers to requests of one HTTP upstream that are on their way at the same time, and that wait for that.
pub(crate) const REPLY_POSTS_MAX: usize = 4;
pub(crate) const REPLIES_PENDING_MAX: usize = 64;
/// Bytes of all the pages of one `tools/list`.
pub(crate) const LIST_BYTES_MAX: usize = 64 << 20;
/// Bytes of a header value that an upstream chooses and we repeat: its session, its revision.
pub(crate) const REPEATED_HEADER_BYTES_MAX: usize = 1024;
/// Bytes of headers that repeat the arguments that a tool marks: how many it marks is the upstream's choice, how long each is the
/// program's.
pub(crate) const PARAM_HEADER_BYTES_MAX: usize = 64 << 10;
/// What a header costs beside its name and value.
pub(crate) const HEADER_BYTES_CHARGED: usize = 32;
/// Bytes of a tool's name: what tells of a call, in replies, traces and sessions, names its tool.
pub const NAME_BYTES_MAX: usize = 32 << 10;
/// Bytes of the names that a hint lists.
pub(crate) const HINT_BYTES_MAX: usize = 16 << 10;
/// Bytes of an error that an entry of a ledger keeps: an upstream writes it, and replies, traces and sessions show all of them.
pub(crate) const LISTED_ERROR_BYTES: usize = 4 << 10;
/// Bytes of a URL that arguments are part of: HTTP libraries take none of 64 KiB.
pub(crate) const URL_BYTES_MAX: usize = (64 << 10) - 2;
/// Bytes of arguments that are looked through for parts of other operations' paths: how many of those there are is a description's
/// choice, how long the arguments are a program's.
pub(crate) const CLAIM_BYTES_MAX: usize = 256 << 20;
/// Bytes of all the schemas of one OpenAPI description after its references were resolved: a small one can describe an enormous one.
pub(crate) const RESOLVED_BYTES_MAX: usize = LIST_BYTES_MAX;

const _: () = assert!(ANSWER_BYTES_QUEUED_MAX > 2 * REQUEST_ID_BYTES_MAX);
const _: () = assert!(CLAIM_BYTES_MAX > 1_000 * URL_BYTES_MAX);
const _: () = assert!(NAME_BYTES_MAX > HINT_BYTES_MAX);
const _: () = assert!(REPLY_POSTS_MAX < REPLIES_PENDING_MAX);
const _: () = assert!(RECOVERY_FIRST.as_millis() < RECOVERY_LONGEST.as_millis());
