//! Where sessions are kept when they are to outlive a process: one trait, a directory and Redis behind it.
//!
//! A store holds records: bytes that it can't read and a few facts that it judges by. Each operation is one atomic step, so
//! nodes that share a store agree on who may use a session, which of them runs a program in it, and how many there are. Knows
//! nothing of programs, values or MCP.
//!
//! **Leases.** A node that runs a program in a session holds its lease: a fencing token, which is a number that grows with each
//! lease of that session, and a deadline by the store's clock. A commit names the token and the version that it
//! began with, and the store takes it in the same step in which it compares both; a node that was stopped beyond its deadline
//! therefore commits nothing, whatever it believes. A store that lost its last changes, as a replica that takes over may have, gives a
//! number again; so a commit names its holder, too.

mod acks;
mod file;
mod redis;
mod seal;
mod wire;

pub use crate::settings::store_address::Address;
pub use seal::{Seal, Unopened};

use super::SessionError;
use std::time::Duration;

/// What a store knows a session by: a digest of its id, which stays a secret of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The key of the session `id`.
    pub fn of(id: &str) -> Self {
        Key(digest(id))
    }

    /// A key as another node wrote it.
    pub fn told(text: &str) -> Self {
        Key(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Hex digits of digests in keys and owners: 128 bits, which nobody meets twice by chance.
const DIGEST_DIGITS: usize = 32;

/// What a store knows an owner by.
pub fn owner_of(owner: &str) -> String {
    digest(owner)
}

fn digest(text: &str) -> String {
    let mut hex = ptc_protocol::digest::hex(text.as_bytes());
    hex.truncate(DIGEST_DIGITS);
    hex
}

/// A session that is not in the store yet.
pub struct New<'a> {
    pub key: &'a Key,
    pub owner: &'a str,
    pub ttl: Duration,
    /// Unused for so long, it is over.
    pub idle: Duration,
    /// Sessions in the store.
    pub count_max: usize,
    /// Sessions of the owner.
    pub per_owner_max: usize,
    pub stamp: &'a str,
    pub content: Content<'a>,
}

/// What only nodes can read. They seal it for its place, which the key and the stamp name.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    /// What lists show.
    pub head: &'a [u8],
    /// All the rest.
    pub body: &'a [u8],
}

/// When a session came to be and when it ends, in microseconds since 1970 by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub created: i64,
    pub expires: i64,
    /// The last use.
    pub used: i64,
    /// The moment of the answer.
    pub now: i64,
}

/// A session as a store has it.
#[derive(Clone, Debug)]
pub struct Record {
    pub key: Key,
    pub owner: String,
    /// Commits so far.
    pub version: u64,
    /// Random text that came with the last of them: what one knows by its stamp is the same content, even where a store was
    /// restored from a copy and counts its versions again.
    pub stamp: String,
    pub times: Times,
    /// A program runs in it, on whatever node.
    pub running: bool,
    pub head: Vec<u8>,
    /// Absent where nobody asked, and where the stamp is the one that the asker has.
    pub body: Option<Vec<u8>>,
}

/// What a turn asks for when it begins.
#[derive(Clone, Copy)]
pub struct Acquire<'a> {
    pub key: &'a Key,
    pub owner: &'a str,
    /// The stamp of what the asker has.
    pub known: Option<&'a str>,
    /// Random text that tells a repeated request from another one.
    pub holder: &'a str,
    /// How long the lease lasts.
    pub term: Duration,
}

/// The right to commit once.
#[derive(Clone, Debug)]
pub struct Lease {
    pub key: Key,
    /// The fencing token.
    pub fence: u64,
    /// The version that it began with.
    pub version: u64,
    /// Who holds it, for this one lease: random text, which stamps what is committed.
    pub holder: String,
}

/// A login that failed, and what follows from so many of them.
#[derive(Clone, Copy)]
pub struct FailedLogin<'a> {
    /// Where it came from, as a digest.
    pub source: &'a str,
    /// Failures count together for so long.
    pub window: Duration,
    pub failures_max: u64,
    /// How long a block lasts.
    pub block: Duration,
}

/// What became of a login that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    Counted,
    /// It was one too many: the source is blocked from now on.
    Blocks,
    /// The source is blocked for so long.
    Blocked(Duration),
}

/// Sources of failed logins that are remembered; beyond that the stalest are forgotten, so that a flood of addresses takes no room.
pub const SOURCES_MAX: usize = 16_384;

/// What is in a store, as one who changes nothing sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    pub mark: Option<Vec<u8>>,
    /// Sessions that live.
    pub sessions: usize,
    /// What an operator may want to know of how it is set.
    pub warnings: Vec<String>,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The session can't be used.
    #[error("{}", .0.message())]
    Refused(SessionError),
    /// The store can't be reached, or answers what makes no sense.
    #[error("{0}")]
    Away(String),
    /// Nobody knows whether it was done, though the store is there: the answer was lost, or too much was to be sent in the time.
    #[error("{0}")]
    Unknown(String),
}

impl From<SessionError> for Failure {
    fn from(refused: SessionError) -> Self {
        Failure::Refused(refused)
    }
}

/// What a store answers.
pub type Answer<T> = Result<T, Failure>;

/// A place that keeps sessions for several processes. Every operation may be repeated with the same arguments when its answer was
/// lost, and may block for a short, bounded time: [`PATIENCE`], and what many bytes take on their way. Besides what an operation
/// names, each may fail with [`Failure::Away`] and [`Failure::Unknown`].
pub trait SessionStore: Send + Sync {
    /// Puts `fresh` into the store where no mark is there or the one that it is to replace, and gives the one that is there now.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn mark(&self, fresh: &[u8], replaced: Option<&[u8]>) -> Answer<Vec<u8>>;

    /// Adds a session.
    ///
    /// # Errors
    /// [`SessionError::Full`], [`SessionError::OwnerFull`].
    fn create(&self, new: &New<'_>) -> Answer<Times>;

    /// Reads a session, which is a use of it. Without `known`, or where that is not its stamp, with its body.
    ///
    /// # Errors
    /// [`SessionError::NotFound`], [`SessionError::Closed`], [`SessionError::Foreign`], looked at in this order; [`SessionError::Unreadable`]
    /// where what is judged by is damaged, which concerns no other session.
    fn read(&self, key: &Key, owner: &str, known: Option<&str>) -> Answer<Record>;

    /// Takes the lease of a session and reads it.
    ///
    /// # Errors
    /// As [`SessionStore::read`], then [`SessionError::Busy`].
    fn acquire(&self, acquire: &Acquire<'_>) -> Answer<(Record, Lease)>;

    /// The same where the owner is the key of a session of the protocol, which is read first and thereby used. Its record comes without a
    /// body, and beside it what became of the lease. `protocol` keeps such sessions, in the same place; `protocol_owner` is whose it
    /// has to be. A store that is far away does all of it in one round trip.
    ///
    /// # Errors
    /// As [`SessionStore::read`] of the session of the protocol.
    fn acquire_within(
        &self,
        protocol: &dyn SessionStore,
        protocol_owner: &str,
        acquire: &Acquire<'_>,
    ) -> Answer<(Record, Answer<(Record, Lease)>)> {
        let within = Key::told(acquire.owner);
        let record = protocol.read(&within, protocol_owner, None)?;
        match self.acquire(acquire) {
            Err(failure @ (Failure::Away(_) | Failure::Unknown(_))) => Err(failure),
            begun => Ok((record, begun)),
        }
    }

    /// Replaces a session's content, counts its version up and ends the lease.
    ///
    /// # Errors
    /// [`SessionError::Closed`] where the session is gone, [`SessionError::Lost`] where the lease is.
    fn commit(&self, lease: &Lease, content: Content<'_>) -> Answer<()>;

    /// Ends a lease without a commit. It is no fault when it ended before.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn release(&self, lease: &Lease) -> Answer<()>;

    /// Closes a session, even while a program runs in it.
    ///
    /// # Errors
    /// As [`SessionStore::read`].
    fn close(&self, key: &Key, owner: &str) -> Answer<()>;

    /// Closes what belongs to an owner that is gone.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn close_owner(&self, owner: &str) -> Answer<()>;

    /// The live sessions of an owner, or of all; without bodies, in no order, and without those whose facts are damaged.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn list(&self, owner: Option<&str>) -> Answer<Vec<Record>>;

    /// Closes whatever is over, and counts what is left.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn sweep(&self) -> Answer<usize>;

    /// Counts a failed login.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn login_failed(&self, failed: &FailedLogin<'_>) -> Answer<LoginFailure>;

    /// Forgets the failures of a source that showed the right token, unless it is blocked: somebody else may be guessing there.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn login_succeeded(&self, source: &str) -> Answer<()>;

    /// Whether nodes hear of a failed login; where they don't, each success asks.
    fn tells(&self) -> bool {
        false
    }

    /// Whether it is away and will not be asked: what is asked of it changes nothing.
    fn is_given_up(&self) -> bool {
        false
    }

    /// Whether an operation that waits lets the executor go on by itself; else the caller has to see to it.
    fn lets_go(&self) -> bool {
        false
    }

    /// Tells all nodes something, this one among them. Who is away does not hear it; who can't be told, as by a directory, never
    /// does. Waits for those that listen to have acted on it, or not to say so in time, and so may not be called in what is heard.
    ///
    /// # Errors
    /// [`Failure::Away`].
    fn tell(&self, _message: &str) -> Answer<()> {
        Ok(())
    }

    /// Hears what nodes tell, on a thread of its own, for as long as `heard` says that somebody listens. What is told once this
    /// returned is heard, where the store is there.
    fn listen(&self, _heard: Heard) {}
}

/// What a listener hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// From here on nothing is missed.
    Begins,
    Says(&'a str),
    /// The connection is gone.
    Ends,
}

/// Takes a word; false when nobody wants more.
pub type Heard = Box<dyn Fn(Word<'_>) -> bool + Send>;

/// Closed sessions that a store remembers, to be told from ids that never were.
const CLOSED_MAX: usize = 1024;

/// The longest that a store may take to be reached and to answer, but for the time that many bytes take on their way.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Opens a store.
///
/// # Errors
/// The cause, without credentials.
pub fn open(address: &Address, space: Space) -> Result<Box<dyn SessionStore>, String> {
    match address {
        Address::Directory(path) => Ok(Box::new(file::Directory::open(path, space)?)),
        Address::Redis(servers) => Ok(Box::new(redis::Redis::open(servers, space)?)),
    }
}

/// Looks at a store without changing it.
///
/// # Errors
/// The cause, without credentials.
pub fn look(address: &Address) -> Result<Sight, String> {
    match address {
        Address::Directory(path) => file::look(path),
        Address::Redis(servers) => redis::Redis::open(servers, Space::Programs)?.look(),
    }
}

/// What is kept apart in one store. A session of the protocol owns sessions of programs under its own key, which end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Programs,
    /// Sessions of the protocol.
    Protocol,
}

impl Space {
    const fn name(self) -> &'static str {
        match self {
            Space::Programs => "programs",
            Space::Protocol => "protocol",
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests;
