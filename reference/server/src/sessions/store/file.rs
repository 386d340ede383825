//! A directory as a store, for one machine: its content outlives the process, and several processes may share it.
//!
//! A session is two files: a small one with the facts that the store decides by, replaced by renaming, and one with its body, which is
//! written and synced before the small file names it. One lock on the directory makes an operation atomic; the kernel releases it when
//! the process that holds it ends.
//!
//! **Durability.** A machine that crashes loses nothing that was acknowledged. A file's bytes are synced before the file is renamed to
//! its final name, because a file system may keep a new name and lose the bytes behind it; and the directory is synced before the
//! creation of a session, a commit or a closing is acknowledged. Leases, uses and failed logins may be lost: after a crash nobody holds a
//! lease any more.

use super::super::SessionError;
use super::super::record::SNAPSHOT_BYTES_MAX;
use super::{
    CLOSED_MAX, DIGEST_DIGITS, FailedLogin, Lease, LeaseRequest, LoginFailure, Namespace,
    NewSession, RecordTimes, SOURCES_MAX, SealedContent, SessionKey, SessionRecord, SessionStore,
    StoreError, StoreFault, StoreResult, StoreSummary, micros,
};
use crate::clock;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory that keeps sessions.
pub struct Directory {
    path: PathBuf,
    /// The file system that the directory was on at the start.
    device: u64,
    /// The store of the sessions that belong to this store's sessions and end with them.
    owned_store: Option<Box<Directory>>,
}

/// The facts that the store decides by, and what lists show.
#[derive(Clone, Debug, Encode, Decode)]
struct Entry {
    #[n(0)]
    owner: String,
    #[n(1)]
    version: u64,
    #[n(2)]
    created: i64,
    #[n(3)]
    expires: i64,
    #[n(4)]
    used: i64,
    #[n(5)]
    idle: i64,
    /// The last fencing token that was issued.
    #[n(6)]
    fence: u64,
    /// The fencing token of the last commit; it is a part of the body's file name.
    #[n(7)]
    committed: u64,
    /// The holder of the lease, and until when it holds; zero without a lease.
    #[n(8)]
    holder: String,
    #[n(9)]
    until: i64,
    #[cbor(n(10), with = "minicbor::bytes")]
    head: Vec<u8>,
    #[n(11)]
    stamp: String,
    /// When this entry was written; zero in entries older than this field.
    #[cbor(n(12), default)]
    written: i64,
}

impl Entry {
    fn expires_at(&self) -> i64 {
        self.expires
            .min(self.used.saturating_add(self.idle).max(self.until))
    }

    /// Whether a lease is the last that was issued. A directory restored from a backup may issue its fencing token a second time.
    fn is_held_by(&self, lease: &Lease) -> bool {
        self.fence == lease.fence && self.holder == lease.holder
    }

    /// Shifts all times back after the clock was set back, as an entry cannot have been written in the future. Otherwise the remaining
    /// life, idle time and lease would grow by that much.
    fn adjust_to_clock(&mut self, now: i64) {
        let back = self.written.saturating_sub(now);
        if back > CLOCK_BACK_MIN {
            for time in [
                &mut self.created,
                &mut self.expires,
                &mut self.used,
                &mut self.until,
                &mut self.written,
            ] {
                *time = time.saturating_sub(back);
            }
        }
    }

    fn record(&self, key: &SessionKey, now: i64) -> SessionRecord {
        SessionRecord {
            key: key.clone(),
            owner: self.owner.clone(),
            version: self.version,
            stamp: self.stamp.clone(),
            times: RecordTimes {
                created: self.created,
                expires: self.expires,
                used: self.used,
                now,
            },
            running: self.until > now,
            head: self.head.clone(),
            body: None,
        }
    }
}

/// How long an operation waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Opening a pipe in place of a file would otherwise block until its other end is opened.
const NONBLOCKING: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;
/// In microseconds: times are shifted only when the clock was set back by more than this.
const CLOCK_BACK_MIN: i64 = 60_000_000;
/// The pause between two attempts to take the lock.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(1);
/// Age at which bodies that no entry names are removed: nobody is about to commit them any more.
const STRAY_AGE: Duration = Duration::from_secs(3600);

/// Bytes of the largest body that is read, and of the largest other file. None of our processes writes more.
const BODY_BYTES_MAX: usize = 2 * SNAPSHOT_BYTES_MAX;
const FACTS_BYTES_MAX: usize = 16 << 20;

const HEAD: &str = "head";
/// Keys of the sessions that were closed last.
const CLOSED: &str = "closed";
/// Extension of temporary files; before it stands random text of this many bytes, encoded in this many characters.
const STRAY: &str = "new";
const STRAY_BYTES: usize = 18;
const STRAY_CHARS: usize = STRAY_BYTES * 4 / 3;

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match is_full(&error) {
            true => SessionError::StoreFull.into(),
            false => StoreError::Unavailable(error.to_string()),
        }
    }
}

/// The directory while this operation has exclusive access.
struct LockedDirectory<'a> {
    path: &'a Path,
    owned_store: Option<&'a Directory>,
    now: i64,
    /// `None` in read-only operations.
    _lock: Option<File>,
}

impl Directory {
    /// Creates the directory if necessary, and tests whether it can be written.
    ///
    /// # Errors
    /// Why the directory cannot be used.
    pub fn open(path: &Path, namespace: Namespace) -> Result<Self, StoreFault> {
        let owned_store = match namespace {
            Namespace::Programs => None,
            Namespace::Protocol => Some(Box::new(Directory::open(path, Namespace::Programs)?)),
        };
        let operators = path;
        let path = &path.join(namespace.name());
        let made = create_directories(operators).and_then(|()| create_directory(path));
        let made = made.and_then(|()| std::fs::metadata(path));
        let device = made.map_err(StoreFault::Make)?.dev();
        let directory = Directory {
            path: path.to_owned(),
            device,
            owned_store,
        };
        let held = directory.acquire_lock()?;
        // The directory itself may be new, so its name is synced, too. A parent that this process may not read was not created by it.
        let whole = path.canonicalize().map_err(StoreFault::Find)?;
        for made in whole.ancestors().skip(1).take(2) {
            match sync_names(made) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                    let path = made.to_owned();
                    return Err(StoreFault::Sync { path, error });
                }
                _ => {}
            }
        }
        let tried = stray_path(&directory.path);
        write(&tried, b"").map_err(StoreFault::Write)?;
        std::fs::remove_file(&tried).map_err(StoreFault::Remove)?;
        drop(held);
        directory.remove_strays().map_err(StoreFault::List)?;
        Ok(directory)
    }

    fn acquire_lock(&self) -> StoreResult<LockedDirectory<'_>> {
        let since = Instant::now();
        let lock = loop {
            let lock = match self.open_lock() {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.was_emptied() => {
                    create_directory(&self.path)?;
                    self.open_lock()?
                }
                opened => opened?,
            };
            match lock.try_lock() {
                Ok(()) if self.is_current_lock(&lock)? => break lock,
                Ok(()) | Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(LOCK_RETRY_PAUSE);
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Unavailable(
                        "another process holds its lock".into(),
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        };
        Ok(LockedDirectory {
            path: &self.path,
            owned_store: self.owned_store.as_deref(),
            now: clock::now_micros(),
            _lock: Some(lock),
        })
    }

    fn open_lock(&self) -> io::Result<File> {
        let path = self.path.join("lock");
        loop {
            let there = if_exists(open(OpenOptions::new().write(true), &path))?;
            match there.map_or_else(|| create_file(&path), Ok) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return opened,
            }
        }
    }

    /// Whether a lock file is still the one that others would lock now: a lock on a removed file excludes nobody.
    fn is_current_lock(&self, lock: &File) -> io::Result<bool> {
        let mine = lock.metadata()?;
        let theirs = if_exists(std::fs::symlink_metadata(self.path.join("lock")))?;
        Ok(theirs.is_some_and(|theirs| (theirs.dev(), theirs.ino()) == (mine.dev(), mine.ino())))
    }

    /// Whether the content of the operator's directory was removed, and that directory is still on the file system of the start or was
    /// created anew there. Another file system, or the one beneath an unmounted one, is not ours to write to.
    fn was_emptied(&self) -> bool {
        let operators = self.path.parent().map(std::fs::metadata);
        operators.is_some_and(|data| data.is_ok_and(|data| data.dev() == self.device))
    }

    /// Removes files left by processes that were killed in the middle of a change. This needs no lock, which with many files would keep
    /// others waiting: a file that is this old and not named by an entry will not be named any more.
    fn remove_strays(&self) -> io::Result<()> {
        let looks = LockedDirectory {
            path: &self.path,
            owned_store: None,
            now: clock::now_micros(),
            _lock: None,
        };
        for file in std::fs::read_dir(&self.path)? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str().and_then(OwnFile::of) else {
                continue;
            };
            // Another process may have removed it meanwhile.
            let Some(data) = if_exists(file.metadata())? else {
                continue;
            };
            let age = clock::since(data.modified()?);
            if age.is_some_and(|age| age > STRAY_AGE) && !looks.is_named(&name) {
                let _ = std::fs::remove_file(file.path());
            }
        }
        Ok(())
    }
}

/// The name of a file that our processes write and may have left behind.
enum OwnFile {
    Body(SessionKey, u64),
    Stray,
}

impl OwnFile {
    fn of(name: &str) -> Option<Self> {
        let (before, kind) = name.rsplit_once('.')?;
        if kind == STRAY {
            let is_ours = before.len() == STRAY_CHARS
                && before
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            return is_ours.then_some(OwnFile::Stray);
        }
        let is_ours = before.len() == DIGEST_DIGITS
            && before
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = kind.parse().ok().filter(|_| is_ours)?;
        Some(OwnFile::Body(SessionKey(before.to_owned()), number))
    }
}

/// The temporary path of a file that is renamed to its final name later.
fn stray_path(directory: &Path) -> PathBuf {
    directory.join(format!("{}.{STRAY}", crate::token::random(STRAY_BYTES)))
}

/// Creates an operator's directory if necessary, with its parents.
fn create_directories(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)
}

/// Creates one of our own directories inside the operator's, if it does not exist.
fn create_directory(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => chown_to_owner(&File::open(path)?, path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Creates a new file; fails if the name exists, so that nothing is written through a symbolic or hard link or into a pipe.
fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = open(options.create_new(true).write(true).mode(0o600), path)?;
    chown_to_owner(&file, path)?;
    Ok(file)
}

/// What root creates (an operator who inspects the store of a service, for instance) gets the owner of the directory: the service could
/// not read it otherwise.
fn chown_to_owner(made: &File, path: &Path) -> io::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    let (owner, mine) = (std::fs::metadata(directory)?, made.metadata()?);
    match owner.uid() == mine.uid() {
        true => Ok(()),
        false => std::os::unix::fs::fchown(made, Some(owner.uid()), Some(owner.gid())),
    }
}

/// The name of a file of a session: its [`HEAD`], or the body that a lease committed.
fn file_name(key: &SessionKey, part: impl fmt::Display) -> String {
    format!("{}.{part}", key.as_str())
}

/// Writes and syncs a new file. Its bytes survive a crash once this returns; its name does once the directory is synced.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_file(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // On a full disk a partial file would take the space that is needed to close a session.
        let _ = std::fs::remove_file(path);
        match error.kind() {
            // The process's limit on file sizes counts as a full disk, too.
            io::ErrorKind::FileTooLarge => io::Error::new(io::ErrorKind::StorageFull, error),
            _ => error,
        }
    })
}

/// Syncs a directory, so that the names in it survive a crash.
fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

impl LockedDirectory<'_> {
    fn entry(&self, key: &SessionKey) -> StoreResult<Option<Entry>> {
        let Some(bytes) = self.read(key, HEAD, FACTS_BYTES_MAX)? else {
            return Ok(None);
        };
        let sound = bytes
            .split_last_chunk()
            .filter(|(entry, sum)| **sum == checksum(key, entry));
        let entry = sound.and_then(|(entry, _)| minicbor::decode::<Entry>(entry).ok());
        // A damaged entry is kept, so that it can be repaired.
        let mut entry = entry.ok_or(SessionError::Unreadable)?;
        entry.adjust_to_clock(self.now);
        Ok(Some(entry))
    }

    /// Replaces the entry. A lease need not survive a crash; a commit does.
    fn put(&self, key: &SessionKey, entry: &mut Entry, lasting: bool) -> StoreResult<()> {
        entry.written = self.now;
        let mut bytes = minicbor::to_vec(&*entry)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        bytes.extend(checksum(key, &bytes));
        self.replace(&file_name(key, HEAD), &bytes)?;
        match lasting {
            // The rename has been done, so the entry is visible even if this sync fails.
            true => {
                sync_names(self.path).map_err(|error| StoreError::Unavailable(error.to_string()))
            }
            false => Ok(()),
        }
    }

    fn keys(&self) -> StoreResult<Vec<SessionKey>> {
        let mut keys = Vec::new();
        for file in std::fs::read_dir(self.path)? {
            let name = file?.file_name();
            let key = name.to_str().and_then(|name| name.strip_suffix(".head"));
            keys.extend(key.map(|key| SessionKey(key.to_owned())));
        }
        Ok(keys)
    }

    /// The live sessions, after expired ones were closed.
    fn live(&self) -> StoreResult<Vec<(SessionKey, Entry)>> {
        let mut live = Vec::new();
        for key in self.keys()? {
            match self.entry(&key) {
                Ok(Some(entry)) if entry.expires_at() <= self.now => self.close(&key, &entry)?,
                Ok(Some(entry)) => live.push((key, entry)),
                Ok(None) | Err(StoreError::Rejected(SessionError::Unreadable)) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(live)
    }

    /// The session, if `owner` may use it.
    fn find(&self, key: &SessionKey, owner: &str) -> StoreResult<Entry> {
        let Some(entry) = self.entry(key)? else {
            return Err(
                match self.closed()?.iter().any(|closed| closed == key.as_str()) {
                    true => SessionError::Closed.into(),
                    false => SessionError::NotFound.into(),
                },
            );
        };
        if entry.expires_at() <= self.now {
            self.close(key, &entry)?;
            return Err(SessionError::Closed.into());
        }
        match entry.owner == owner {
            true => Ok(entry),
            false => Err(SessionError::Foreign.into()),
        }
    }

    /// The keys of closed sessions, which distinguish them from ids that never existed. A damaged list counts as empty: it is no reason
    /// to refuse a session.
    fn closed(&self) -> StoreResult<Vec<String>> {
        let text = match read(&self.path.join(CLOSED), FACTS_BYTES_MAX) {
            Err(error) if is_damaged(&error) => Err(error.to_string()),
            read => String::from_utf8(read?.unwrap_or_default()).map_err(|error| error.to_string()),
        };
        let text = text.unwrap_or_else(|cause| {
            tracing::error!(event = "session_store_damaged", file = CLOSED, cause);
            String::new()
        });
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Replaces a file of the directory atomically.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fresh = stray_path(self.path);
        write(&fresh, bytes)?;
        let renamed = std::fs::rename(&fresh, self.path.join(name));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&fresh);
        }
        renamed
    }

    fn close(&self, key: &SessionKey, entry: &Entry) -> StoreResult<()> {
        // First: once the session is gone, nobody knows what belonged to it. Lock order: the holder of this lock may wait for the lock of
        // `owned_store`, never the other way round.
        if let Some(owned_store) = self.owned_store {
            owned_store.close_owner(key.as_str())?;
        }
        let mut closed = self.closed()?;
        closed.push(key.as_str().to_owned());
        let from = closed.len().saturating_sub(CLOSED_MAX);
        let text = closed[from..].join("\n");
        let mut noted = self.replace(CLOSED, text.as_bytes());
        if noted.as_ref().is_err_and(is_full) {
            // The body of the closed session makes room for the note that it is closed.
            self.remove_body(key, entry.committed);
            noted = self.replace(CLOSED, text.as_bytes());
        }
        match noted {
            // A directory has the name.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                let cause = error.to_string();
                tracing::error!(event = "session_store_damaged", file = CLOSED, cause);
            }
            noted => noted?,
        }
        std::fs::remove_file(self.path.join(file_name(key, HEAD)))?;
        self.remove_body(key, entry.committed);
        Ok(())
    }

    /// Removes a body. One that stays behind is removed later as a stray.
    fn remove_body(&self, key: &SessionKey, committed: u64) {
        let _ = std::fs::remove_file(self.path.join(file_name(key, committed)));
    }

    /// Reads the body, unless the caller already has the content with this stamp.
    fn body(
        &self,
        key: &SessionKey,
        entry: &Entry,
        known: Option<&str>,
    ) -> StoreResult<Option<Vec<u8>>> {
        if known == Some(entry.stamp.as_str()) {
            return Ok(None);
        }
        let body = self.read(key, entry.committed, BODY_BYTES_MAX)?;
        // A missing body is not a fault of the whole directory.
        Ok(Some(body.ok_or(SessionError::Unreadable)?))
    }

    /// Reads a file of a session, if it exists. That it is faulty affects no other session.
    fn read(
        &self,
        key: &SessionKey,
        part: impl fmt::Display,
        bytes_max: usize,
    ) -> StoreResult<Option<Vec<u8>>> {
        let name = file_name(key, part);
        match read(&self.path.join(&name), bytes_max) {
            Err(error) if is_damaged(&error) => {
                let cause = format!("{name}: {error}");
                tracing::error!(event = "session_unreadable", cause, key = key.as_str());
                Err(SessionError::Unreadable.into())
            }
            read => Ok(read?),
        }
    }

    /// Whether an entry names this file.
    fn is_named(&self, name: &OwnFile) -> bool {
        match name {
            // It is unknown what a damaged entry names.
            OwnFile::Body(key, number) => self.entry(key).map_or(true, |entry| {
                entry.is_some_and(|entry| entry.committed == *number)
            }),
            OwnFile::Stray => false,
        }
    }
}

/// Failed logins by their source.
struct LoginTable(BTreeMap<String, SourceFailures>);

#[derive(Clone, Copy, Encode, Decode)]
struct SourceFailures {
    #[n(0)]
    count: u64,
    #[n(1)]
    since: i64,
    /// Until when the source is blocked.
    #[n(2)]
    until: i64,
    /// When this record is dropped.
    #[n(3)]
    over: i64,
}

const LOGINS: &str = "logins";

impl LoginTable {
    /// A damaged file counts as no failures: that only delays a block.
    fn read(directory: &Path) -> io::Result<Self> {
        let bytes = match read(&directory.join(LOGINS), FACTS_BYTES_MAX) {
            Err(error) if is_damaged(&error) => None,
            read => read?,
        };
        let all = bytes.and_then(|bytes| minicbor::decode(&bytes).ok());
        Ok(LoginTable(all.unwrap_or_default()))
    }

    fn write(&self, held: &LockedDirectory<'_>) -> StoreResult<()> {
        let bytes = minicbor::to_vec(&self.0)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(held.replace(LOGINS, &bytes)?)
    }

    fn add(&mut self, failed: &FailedLogin<'_>, now: i64) -> LoginFailure {
        // A failure in the future was recorded before the clock was set back.
        self.0
            .retain(|_, of| of.over > now && of.since <= now.saturating_add(CLOCK_BACK_MIN));
        if self.0.len() >= SOURCES_MAX && !self.0.contains_key(failed.source) {
            let stalest = self.0.iter().min_by_key(|(_, of)| of.since);
            let stalest = stalest.map(|(source, _)| source.clone());
            stalest.and_then(|stalest| self.0.remove(&stalest));
        }
        let (window, block) = (micros(failed.window), micros(failed.block));
        let fresh = SourceFailures {
            count: 0,
            since: now,
            until: 0,
            over: 0,
        };
        let of = self.0.entry(failed.source.to_owned()).or_insert(fresh);
        if of.until > now {
            let left = u64::try_from(of.until.saturating_sub(now)).unwrap_or_default();
            return LoginFailure::Blocked(Duration::from_micros(left));
        }
        if now.saturating_sub(of.since) >= window {
            *of = fresh;
        }
        of.count += 1;
        let blocks = of.count >= failed.failures_max;
        if blocks {
            of.until = now.saturating_add(block);
        }
        of.over = of.since.saturating_add(window).max(of.until);
        match blocks {
            true => LoginFailure::Blocks,
            false => LoginFailure::Counted,
        }
    }
}

/// Inspects the directory of a store without changing it.
pub fn inspect(path: &Path) -> Result<StoreSummary, StoreFault> {
    let path = path.join(Namespace::Programs.name());
    let read = |error: io::Error| StoreFault::Read {
        path: path.clone(),
        error,
    };
    let Some(files) = if_exists(std::fs::read_dir(&path)).map_err(read)? else {
        return Ok(StoreSummary {
            warnings: vec!["there is no such directory yet; a start makes it".into()],
            ..StoreSummary::default()
        });
    };
    let directory = LockedDirectory {
        path: &path,
        owned_store: None,
        now: clock::now_micros(),
        _lock: None,
    };
    let mut sessions = 0;
    for file in files {
        let name = file.map_err(read)?.file_name();
        let key = name.to_str().and_then(|name| name.strip_suffix(".head"));
        let entry = key.map(|key| directory.entry(&SessionKey(key.to_owned())));
        if let Some(Ok(Some(entry))) = entry {
            sessions += usize::from(entry.expires_at() > directory.now);
        }
    }
    Ok(StoreSummary {
        mark: self::read(&path.join("mark"), FACTS_BYTES_MAX).map_err(read)?,
        sessions,
        warnings: Vec::new(),
    })
}

/// The checksum behind an entry: it detects flipped bits and another session's entry.
fn checksum(key: &SessionKey, entry: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_str().as_bytes());
    hasher.update(entry);
    hasher.finalize().to_be_bytes()
}

/// Reads a file if it exists, but no more than `bytes_max`: another program may have made it as large as the disk, or replaced it by a
/// link.
fn read(path: &Path, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = if_exists(open(OpenOptions::new().read(true), path))? else {
        return Ok(None);
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        let cause = format!("it is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, cause));
    }
    Ok(Some(bytes))
}

/// Opens a file of the directory without following links.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options
        .custom_flags(NONBLOCKING | libc::O_NOFOLLOW)
        .open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(io::ErrorKind::InvalidData, "it is a link"),
        // A socket, or the device file of a missing device.
        Some(libc::ENXIO) => io::Error::new(io::ErrorKind::InvalidData, "it is no file"),
        _ => error,
    })
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Whether the file itself is at fault: too large, not a regular file, or not readable by us.
fn is_damaged(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied
    )
}

/// Turns a missing file into `None`.
fn if_exists<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

impl SessionStore for Directory {
    fn mark(&self, fresh: &[u8], replaced: Option<&[u8]>) -> StoreResult<Vec<u8>> {
        let held = self.acquire_lock()?;
        let path = held.path.join("mark");
        let mark = read(&path, FACTS_BYTES_MAX)?;
        match mark {
            Some(mark) if replaced != Some(&mark) => Ok(mark),
            _ => {
                held.replace("mark", fresh)?;
                Ok(fresh.to_vec())
            }
        }
    }

    fn create(&self, new: &NewSession<'_>) -> StoreResult<RecordTimes> {
        let held = self.acquire_lock()?;
        // A retry: the first reply was lost.
        if let Some(entry) = held.entry(new.key)? {
            return Ok(entry.record(new.key, held.now).times);
        }
        let live = held.live()?;
        if live.len() >= new.count_max {
            return Err(SessionError::Full.into());
        }
        let own = live.iter().filter(|(_, entry)| entry.owner == new.owner);
        if own.count() >= new.per_owner_max {
            return Err(SessionError::OwnerFull.into());
        }
        held.replace(&file_name(new.key, 0), new.content.body)?;
        let times = RecordTimes {
            created: held.now,
            expires: held.now.saturating_add(micros(new.ttl)),
            used: held.now,
            now: held.now,
        };
        let mut entry = Entry {
            owner: new.owner.to_owned(),
            version: 0,
            created: times.created,
            expires: times.expires,
            used: times.used,
            idle: micros(new.idle),
            fence: 0,
            committed: 0,
            holder: String::new(),
            until: 0,
            head: new.content.head.to_vec(),
            stamp: new.stamp.to_owned(),
            written: held.now,
        };
        held.put(new.key, &mut entry, true)?;
        Ok(times)
    }

    fn read(
        &self,
        key: &SessionKey,
        owner: &str,
        known: Option<&str>,
    ) -> StoreResult<SessionRecord> {
        let held = self.acquire_lock()?;
        let mut entry = held.find(key, owner)?;
        let record = SessionRecord {
            body: held.body(key, &entry, known)?,
            ..entry.record(key, held.now)
        };
        entry.used = held.now;
        match held.put(key, &mut entry, false) {
            // A session in a full directory can be read; only its use is not recorded.
            Err(StoreError::Rejected(SessionError::StoreFull)) => {}
            noted => noted?,
        }
        Ok(record)
    }

    fn acquire(&self, acquire: &LeaseRequest<'_>) -> StoreResult<(SessionRecord, Lease)> {
        let LeaseRequest {
            key,
            owner,
            known,
            holder,
            term,
        } = *acquire;
        let held = self.acquire_lock()?;
        let mut entry = held.find(key, owner)?;
        let again = entry.until > held.now && entry.holder == holder;
        if entry.until > held.now && !again {
            return Err(SessionError::Busy.into());
        }
        let record = SessionRecord {
            body: held.body(key, &entry, known)?,
            running: false,
            ..entry.record(key, held.now)
        };
        if !again {
            // A lease never had the largest number, so an entry with it is not ours.
            entry.fence = entry.fence.checked_add(1).ok_or(SessionError::Unreadable)?;
            holder.clone_into(&mut entry.holder);
            entry.until = held.now.saturating_add(micros(term));
            held.put(key, &mut entry, false)?;
        }
        let lease = Lease {
            key: key.clone(),
            fence: entry.fence,
            version: entry.version,
            holder: holder.to_owned(),
        };
        Ok((record, lease))
    }

    fn commit(&self, lease: &Lease, content: SealedContent<'_>) -> StoreResult<()> {
        // Before the lock, so that others need not wait for the disk.
        let fresh = stray_path(&self.path);
        write(&fresh, content.body)?;
        let held = self.acquire_lock()?;
        let committed = (|| {
            let Some(mut entry) = held.entry(&lease.key)? else {
                return Err(SessionError::Closed.into());
            };
            if entry.committed == lease.fence && entry.stamp == lease.holder {
                return Ok(());
            }
            if entry.expires <= held.now {
                held.close(&lease.key, &entry)?;
                return Err(SessionError::Closed.into());
            }
            let holds = entry.is_held_by(lease) && entry.until > held.now;
            if (!holds || entry.version != lease.version)
                && !crate::sessions::test_faults::skips_commit_checks()
            {
                return Err(SessionError::LeaseLost.into());
            }
            let version = lease
                .version
                .checked_add(1)
                .ok_or(SessionError::Unreadable)?;
            std::fs::rename(&fresh, self.path.join(file_name(&lease.key, lease.fence)))?;
            let before = std::mem::replace(&mut entry.committed, lease.fence);
            entry.version = version;
            entry.used = held.now;
            entry.until = 0;
            entry.head = content.head.to_vec();
            entry.stamp.clone_from(&lease.holder);
            let put = held.put(&lease.key, &mut entry, true);
            match &put {
                Ok(()) => held.remove_body(&lease.key, before),
                Err(StoreError::Rejected(_)) => held.remove_body(&lease.key, lease.fence),
                Err(_) => {}
            }
            put
        })();
        // Already renamed, unless the commit was refused.
        let _ = std::fs::remove_file(&fresh);
        committed
    }

    fn release(&self, lease: &Lease) -> StoreResult<()> {
        let held = self.acquire_lock()?;
        if let Some(mut entry) = held.entry(&lease.key)?
            && entry.is_held_by(lease)
            && entry.until > 0
        {
            entry.until = 0;
            entry.used = held.now;
            held.put(&lease.key, &mut entry, false)?;
        }
        Ok(())
    }

    fn close(&self, key: &SessionKey, owner: &str) -> StoreResult<()> {
        let held = self.acquire_lock()?;
        let entry = held.find(key, owner)?;
        held.close(key, &entry)?;
        sync_names(held.path).map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    fn close_owner(&self, owner: &str) -> StoreResult<()> {
        let held = self.acquire_lock()?;
        for (key, entry) in held.live()? {
            if entry.owner == owner {
                held.close(&key, &entry)?;
            }
        }
        Ok(())
    }

    fn list(&self, owner: Option<&str>) -> StoreResult<Vec<SessionRecord>> {
        let held = self.acquire_lock()?;
        let live = held.live()?;
        let wanted = live
            .iter()
            .filter(|(_, entry)| owner.is_none_or(|owner| entry.owner == owner));
        Ok(wanted
            .map(|(key, entry)| entry.record(key, held.now))
            .collect())
    }

    fn sweep(&self) -> StoreResult<usize> {
        Ok(self.acquire_lock()?.live()?.len())
    }

    fn login_failed(&self, failed: &FailedLogin<'_>) -> StoreResult<LoginFailure> {
        let held = self.acquire_lock()?;
        let mut failures = LoginTable::read(held.path)?;
        let told = failures.add(failed, held.now);
        failures.write(&held)?;
        Ok(told)
    }

    fn login_succeeded(&self, source: &str) -> StoreResult<()> {
        // Nearly always there was no failure: then nothing waits for the lock.
        if !LoginTable::read(&self.path)?.0.contains_key(source) {
            return Ok(());
        }
        let held = self.acquire_lock()?;
        let mut failures = LoginTable::read(held.path)?;
        let blocked = failures.0.get(source).is_some_and(|of| of.until > held.now);
        if !blocked && failures.0.remove(source).is_some() {
            failures.write(&held)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
mod tests;
