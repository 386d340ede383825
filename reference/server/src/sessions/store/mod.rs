//! Stores for sessions that outlive a process: one trait with two implementations, a directory and Redis.
//!
//! A store holds records: opaque bytes plus the few facts that it decides by. Each operation is one atomic step, so nodes that share a
//! store agree on who may use a session, which of them runs a program in it, and how many sessions there are. Knows nothing of programs,
//! values or MCP.
//!
//! **Leases.** A node that runs a program in a session holds the session's lease: a fencing token, which is a number that grows with each
//! lease of that session, and a deadline on the store's clock. A commit names the fencing token and the version that the turn began with;
//! the store compares both and writes in the same atomic step. A node that was paused beyond its deadline therefore commits nothing,
//! whatever it believes. A store that lost its latest writes (a promoted replica, for instance) may issue the same token twice, so a
//! commit also names the random holder of its lease.

mod acks;
mod file;
mod redis;
mod seal;
mod wire;

pub use crate::settings::store_address::Address;
pub use seal::{KeyFileFault, Seal, UnsealError};

use super::SessionError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A session's key in a store: a digest of the session id, because the id is a secret of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(String);

impl SessionKey {
    pub fn of(id: &str) -> Self {
        SessionKey(digest(id))
    }

    /// Wraps a key that another node computed.
    pub fn from_digest(text: &str) -> Self {
        SessionKey(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Hex digits of the digests in keys and owners: 128 bits, so collisions do not happen by chance.
const DIGEST_DIGITS: usize = 32;

/// A digest of the owner, which is all that a store sees of it.
pub fn owner_digest(owner: &str) -> String {
    digest(owner)
}

fn digest(text: &str) -> String {
    let mut hex = ptc_protocol::digest::hex(text.as_bytes());
    hex.truncate(DIGEST_DIGITS);
    hex
}

/// A session to be created.
pub struct NewSession<'a> {
    pub key: &'a SessionKey,
    pub owner: &'a str,
    pub ttl: Duration,
    /// The session expires when it was unused for this long.
    pub idle: Duration,
    /// Maximum number of sessions in the store.
    pub count_max: usize,
    /// Maximum number of sessions of this owner.
    pub per_owner_max: usize,
    pub stamp: &'a str,
    pub content: SealedContent<'a>,
}

/// Content that only nodes can read. They seal it with the session's key, owner and stamp as associated data.
#[derive(Clone, Copy)]
pub struct SealedContent<'a> {
    /// What lists show.
    pub head: &'a [u8],
    pub body: &'a [u8],
}

/// Creation, expiry and last use, in microseconds since 1970 by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTimes {
    pub created: i64,
    pub expires: i64,
    pub used: i64,
    /// The store's time when it replied.
    pub now: i64,
}

impl RecordTimes {
    /// Microseconds until its end.
    pub fn left_micros(&self) -> u64 {
        u64::try_from(self.expires.saturating_sub(self.now)).unwrap_or(0)
    }
}

/// A session as the store returns it.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub key: SessionKey,
    pub owner: String,
    /// Number of commits so far.
    pub version: u64,
    /// Random text written with the last commit. Equal stamps mean equal content, even where a store was restored from a backup and
    /// repeats version numbers.
    pub stamp: String,
    pub times: RecordTimes,
    /// Whether a program runs in it, on any node.
    pub running: bool,
    pub head: Vec<u8>,
    /// `None` where the caller did not ask for it or already has the content with this stamp.
    pub body: Option<Vec<u8>>,
}

/// The request for a lease at the start of a turn.
#[derive(Clone, Copy)]
pub struct LeaseRequest<'a> {
    pub key: &'a SessionKey,
    pub owner: &'a str,
    /// The stamp of the content that the caller already has.
    pub known: Option<&'a str>,
    /// Random text that distinguishes a retry of this request from another request.
    pub holder: &'a str,
    /// The duration of the lease.
    pub term: Duration,
}

/// The right to commit once.
#[derive(Clone, Debug)]
pub struct Lease {
    pub key: SessionKey,
    /// The fencing token.
    pub fence: u64,
    /// The version that the turn began with.
    pub version: u64,
    /// Random text that identifies the holder of this one lease; it becomes the stamp of the committed content.
    pub holder: String,
}

/// A failed login, and the limits on such failures.
#[derive(Clone, Copy)]
pub struct FailedLogin<'a> {
    /// A digest of the source address.
    pub source: &'a str,
    /// Failures within this window are counted together.
    pub window: Duration,
    pub failures_max: u64,
    /// The duration of a block.
    pub block: Duration,
}

/// The result of recording a failed login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    Counted,
    /// This failure reached the maximum: the source is blocked from now on.
    Blocks,
    /// The source is already blocked, for this much longer.
    Blocked(Duration),
}

/// Sources of failed logins that are remembered. Beyond that the oldest are evicted, so a flood of addresses cannot use up memory.
pub const SOURCES_MAX: usize = 16_384;

/// The result of a read-only inspection of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSummary {
    pub mark: Option<Vec<u8>>,
    /// Number of live sessions.
    pub sessions: usize,
    /// Settings of the store that an operator may want to change.
    pub warnings: Vec<String>,
}

/// Why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store refused: the session cannot be used.
    #[error("{}", .0.message())]
    Rejected(SessionError),
    /// The store is unreachable or sent a malformed reply.
    #[error("{0}")]
    Unavailable(String),
    /// The outcome is unknown although the store is reachable: the reply was lost, or the request was too large to send in time.
    #[error("{0}")]
    UnknownOutcome(String),
}

impl From<SessionError> for StoreError {
    fn from(refused: SessionError) -> Self {
        StoreError::Rejected(refused)
    }
}

/// Why a store cannot be opened or inspected. `Display` contains no credentials.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    #[error("cannot make the directory: {0}")]
    Make(io::Error),
    #[error("cannot be found: {0}")]
    Find(io::Error),
    #[error("cannot sync {}: {error}", path.display())]
    Sync { path: PathBuf, error: io::Error },
    #[error("cannot write: {0}")]
    Write(io::Error),
    #[error("cannot remove: {0}")]
    Remove(io::Error),
    #[error("cannot be read: {0}")]
    List(io::Error),
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Operation(#[from] StoreError),
}

/// The result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// Keeps sessions for several processes. Every operation is idempotent: it may be repeated with the same arguments when its reply was
/// lost. It may block for a short, bounded time: [`STORE_TIMEOUT`] plus the transfer time of large content. Besides the errors that an
/// operation names, each may fail with [`StoreError::Unavailable`] and [`StoreError::UnknownOutcome`].
pub trait SessionStore: Send + Sync {
    /// Writes `fresh` if the store has no mark or its mark equals `replaced`, and returns the mark that the store has afterwards.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn mark(&self, fresh: &[u8], replaced: Option<&[u8]>) -> StoreResult<Vec<u8>>;

    /// Creates a session.
    ///
    /// # Errors
    /// [`SessionError::Full`], [`SessionError::OwnerFull`].
    fn create(&self, new: &NewSession<'_>) -> StoreResult<RecordTimes>;

    /// Reads a session, which counts as a use. The body is included unless `known` is the session's current stamp.
    ///
    /// # Errors
    /// [`SessionError::NotFound`], [`SessionError::Closed`], [`SessionError::Foreign`], checked in this order;
    /// [`SessionError::Unreadable`] where the facts that the store decides by are damaged, which affects no other session.
    fn read(
        &self,
        key: &SessionKey,
        owner: &str,
        known: Option<&str>,
    ) -> StoreResult<SessionRecord>;

    /// Takes the lease of a session and reads it.
    ///
    /// # Errors
    /// As [`SessionStore::read`], then [`SessionError::Busy`].
    fn acquire(&self, acquire: &LeaseRequest<'_>) -> StoreResult<(SessionRecord, Lease)>;

    /// Like [`SessionStore::acquire`], for a session whose owner is the key of a protocol session. The protocol session is read first,
    /// which counts as a use. Returns the protocol session's record, without a body, and the result of acquiring the lease. `protocol` is
    /// the store of protocol sessions, at the same address; `protocol_owner` must own the protocol session. A remote store does all of it
    /// in one round trip.
    ///
    /// # Errors
    /// As [`SessionStore::read`] of the protocol session.
    fn acquire_within(
        &self,
        protocol: &dyn SessionStore,
        protocol_owner: &str,
        acquire: &LeaseRequest<'_>,
    ) -> StoreResult<(SessionRecord, StoreResult<(SessionRecord, Lease)>)> {
        let within = SessionKey::from_digest(acquire.owner);
        let record = protocol.read(&within, protocol_owner, None)?;
        match self.acquire(acquire) {
            Err(failure @ (StoreError::Unavailable(_) | StoreError::UnknownOutcome(_))) => {
                Err(failure)
            }
            begun => Ok((record, begun)),
        }
    }

    /// Replaces a session's content, increments its version and ends the lease.
    ///
    /// # Errors
    /// [`SessionError::Closed`] where the session is gone, [`SessionError::LeaseLost`] where the lease is.
    fn commit(&self, lease: &Lease, content: SealedContent<'_>) -> StoreResult<()>;

    /// Ends a lease without a commit. Releasing a lease that has already ended is not an error.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn release(&self, lease: &Lease) -> StoreResult<()>;

    /// Closes a session, even while a program runs in it.
    ///
    /// # Errors
    /// As [`SessionStore::read`].
    fn close(&self, key: &SessionKey, owner: &str) -> StoreResult<()>;

    /// Closes all sessions of an owner.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn close_owner(&self, owner: &str) -> StoreResult<()>;

    /// The live sessions of one owner, or of all owners; without bodies, in no order, and without sessions whose facts are damaged.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn list(&self, owner: Option<&str>) -> StoreResult<Vec<SessionRecord>>;

    /// Closes expired sessions and returns the number of those that remain.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn sweep(&self) -> StoreResult<usize>;

    /// Records a failed login.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn login_failed(&self, failed: &FailedLogin<'_>) -> StoreResult<LoginFailure>;

    /// Clears the failures of a source after a successful login, unless the source is blocked: someone else may be guessing from the same
    /// address.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn login_succeeded(&self, source: &str) -> StoreResult<()>;

    /// Whether nodes are notified of failed logins; where they are not, the store is asked at each successful login.
    fn can_broadcast(&self) -> bool {
        false
    }

    /// Whether the store is known to be away and requests fail without being sent, so that they change nothing.
    fn fails_fast(&self) -> bool {
        false
    }

    /// Whether a waiting operation yields its executor thread by itself; if not, the caller must arrange that.
    fn yields_executor(&self) -> bool {
        false
    }

    /// Broadcasts a message to all nodes, including this one. Disconnected nodes miss it, and a directory cannot broadcast at all. Waits
    /// until the listening nodes acknowledged that they acted on it, or until a timeout; it must therefore not be called from a
    /// listener's callback.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn broadcast(&self, _message: &str) -> StoreResult<()> {
        Ok(())
    }

    /// Delivers broadcasts to `listener`, on a thread of its own, until `listener` returns false. If the store is reachable, every message that
    /// is sent after this function returned is delivered.
    fn subscribe(&self, _heard: Listener) {}
}

/// An event for a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent<'a> {
    /// Subscribed: no message is missed from here on.
    Subscribed,
    Message(&'a str),
    /// The connection was lost.
    Disconnected,
}

/// Handles an event; returns false to stop listening.
pub type Listener = Box<dyn Fn(StoreEvent<'_>) -> bool + Send>;

/// Closed sessions that a store remembers, to distinguish them from ids that never existed.
const CLOSED_MAX: usize = 1024;

/// The longest that a store may take to connect and reply, not counting the transfer time of large content.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens a store.
///
/// # Errors
/// The cause.
pub fn open(address: &Address, namespace: Namespace) -> Result<Box<dyn SessionStore>, StoreFault> {
    match address {
        Address::Directory(path) => Ok(Box::new(file::Directory::open(path, namespace)?)),
        Address::Redis(servers) => Ok(Box::new(redis::Redis::open(servers, namespace)?)),
    }
}

/// Whether a store certainly does not exist yet. Opening it would create it.
pub fn is_unmade(address: &Address) -> bool {
    match address {
        Address::Directory(path) => {
            let there = path.join(Namespace::Programs.name()).try_exists();
            matches!(there, Ok(false))
        }
        Address::Redis(_) => false,
    }
}

/// Inspects a store without changing it.
///
/// # Errors
/// The cause.
pub fn inspect(address: &Address) -> Result<StoreSummary, StoreFault> {
    match address {
        Address::Directory(path) => file::inspect(path),
        Address::Redis(servers) => Ok(redis::Redis::open(servers, Namespace::Programs)?.inspect()?),
    }
}

/// Namespaces in one store. A protocol session owns program sessions under its own key; they end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    Programs,
    Protocol,
}

impl Namespace {
    const fn name(self) -> &'static str {
        match self {
            Namespace::Programs => "programs",
            Namespace::Protocol => "protocol",
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests;
