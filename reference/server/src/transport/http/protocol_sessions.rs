//! Protocol sessions of the HTTP endpoint: ids, caps, expiry. Knows nothing of requests or program sessions.
//!
//! Where nodes share a store, the store decides which sessions exist. The table here then holds the sessions that this node has seen,
//! with their calls that run here.

use crate::lock::lock;
use crate::mcp::connection::{Connection, SESSION_REVISIONS, Transport};
use crate::sessions::store::SessionKey;
use crate::sessions::{NewProtocolSession, ProtocolState, SessionError, SharedSessions};
use crate::settings::HttpSettings;
use ptc_protocol::digest;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::time::Instant;

pub struct ProtocolSession {
    /// A secret of the client.
    pub id: String,
    /// The name of the session in logs and traces.
    pub hash: String,
    /// The owner, hashed.
    pub owner_hash: String,
    pub connection: Arc<Connection>,
    /// The key of the session in a store.
    key: SessionKey,
    created: Mutex<Instant>,
    used: Mutex<Instant>,
    ended: AtomicBool,
}

pub struct ProtocolSessions {
    count_max: usize,
    per_owner_max: usize,
    in_flight_max: usize,
    ttl: Duration,
    idle: Duration,
    live: Mutex<HashMap<String, Arc<ProtocolSession>>>,
    /// Sessions that requests name and that this node does not know, while the store is asked for them: whatever ends such a session
    /// meanwhile, or cancels such a request, finds it here. Lock order: after `live`.
    named: Mutex<HashMap<String, Weak<ProtocolSession>>>,
    shared: Option<Arc<SharedSessions>>,
}

/// Why a request has no session.
pub enum MissingSession {
    Unknown,
    /// It ended on another node, but this node still had it.
    Ended(Arc<ProtocolSession>),
    /// Only the store would know, and it is away.
    StoreUnavailable,
}

/// Which cap a new session exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCap {
    Server,
    Owner,
}

/// Why a session expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryReason {
    /// It reached its maximum lifetime.
    Ttl,
    Idle,
}

impl ExpiryReason {
    /// The name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            ExpiryReason::Ttl => ":ttl",
            ExpiryReason::Idle => ":idle",
        }
    }
}

impl ProtocolSessions {
    pub fn new(settings: &HttpSettings, shared: Option<Arc<SharedSessions>>) -> Self {
        ProtocolSessions {
            count_max: settings.sessions_max,
            per_owner_max: settings.sessions_per_owner_max,
            in_flight_max: settings.in_flight_max,
            ttl: Duration::from_millis(settings.session_ttl_ms),
            idle: Duration::from_millis(settings.session_idle_ms),
            live: Mutex::default(),
            named: Mutex::default(),
            shared,
        }
    }

    /// Opens a new session of `owner_hash`.
    ///
    /// # Errors
    /// The cap that is reached; the cap of the process is checked first.
    pub fn open(&self, owner_hash: &str, now: Instant) -> Result<Arc<ProtocolSession>, SessionCap> {
        let mut live = self.live();
        if self.shared.is_some() {
            // With a store, the store counts, once the revision is negotiated.
            let session =
                self.session(format!("mcp_{}", crate::token::random(24)), owner_hash, now);
            live.insert(session.id.clone(), session.clone());
            return Ok(session);
        }
        if live.len() >= self.count_max {
            return Err(SessionCap::Server);
        }
        if live
            .values()
            .filter(|session| session.owner_hash == owner_hash)
            .count()
            >= self.per_owner_max
        {
            return Err(SessionCap::Owner);
        }
        let session = self.session(format!("mcp_{}", crate::token::random(24)), owner_hash, now);
        live.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    fn session(&self, id: String, owner_hash: &str, now: Instant) -> Arc<ProtocolSession> {
        let hash = digest::short(id.as_bytes());
        let transport = Transport::Http {
            owner_hash: owner_hash.to_owned(),
            session_hash: hash.clone(),
        };
        Arc::new(ProtocolSession {
            connection: Connection::new(id.clone(), transport, self.in_flight_max),
            key: SessionKey::of(&id),
            hash,
            owner_hash: owner_hash.to_owned(),
            created: Mutex::new(now),
            used: Mutex::new(now),
            ended: AtomicBool::new(false),
            id,
        })
    }

    /// Makes a session whose revision is negotiated valid on every node. While the store is away, the session exists only on this node.
    ///
    /// # Errors
    /// The cap that is reached.
    pub fn share(&self, session: &ProtocolSession) -> Result<(), SessionCap> {
        let Some(shared) = &self.shared else {
            return Ok(());
        };
        let told = shared.share_protocol(&NewProtocolSession {
            id: &session.id,
            owner: &session.owner_hash,
            revision: session.connection.revision(),
            ttl: self.ttl,
            idle: self.idle,
            count_max: self.count_max,
            per_owner_max: self.per_owner_max,
        });
        let full = match told {
            Err(SessionError::Full) => SessionCap::Server,
            Err(SessionError::OwnerFull) => SessionCap::Owner,
            _ => return Ok(()),
        };
        self.live().remove(&session.id);
        Err(full)
    }

    /// The session that a request names. With a store, it may not exist: the store has not been asked yet. A request names its session
    /// before it waits for anything.
    ///
    /// # Errors
    /// Without a store, that there is no such session.
    pub fn name(
        &self,
        id: &str,
        owner_hash: &str,
        now: Instant,
    ) -> Result<Arc<ProtocolSession>, MissingSession> {
        let live = self.live();
        let here = live.get(id).filter(|here| here.owner_hash == owner_hash);
        if self.shared.is_none() {
            return here.cloned().ok_or(MissingSession::Unknown);
        }
        if let Some(here) = here {
            // Counts as a use, so that the session is not forgotten while the store is asked.
            here.touch(now);
            return Ok(here.clone());
        }
        let mut named = self.named();
        named.retain(|_, session| session.strong_count() > 0);
        let known = named.get(id).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.owner_hash == owner_hash) {
            return Ok(known);
        }
        let session = self.session(id.to_owned(), owner_hash, now);
        named.insert(id.to_owned(), Arc::downgrade(&session));
        Ok(session)
    }

    /// Whether the request for a turn's lease may check the session in the store, too: only where this node has seen the session.
    pub fn can_check_with_turn(&self, session: &ProtocolSession) -> bool {
        self.shared.is_some() && self.is_here(session)
    }

    fn is_here(&self, session: &ProtocolSession) -> bool {
        let live = self.live();
        live.get(&session.id)
            .is_some_and(|here| std::ptr::eq(Arc::as_ptr(here), session))
    }

    /// Checks that the session that a request names exists, which counts as a use.
    ///
    /// # Errors
    /// When the session is foreign, expired or unknown.
    pub fn check(
        &self,
        session: &Arc<ProtocolSession>,
        now: Instant,
    ) -> Result<(), MissingSession> {
        match &self.shared {
            None if self.expiry(session, now).is_some() => return Err(MissingSession::Unknown),
            None => {}
            Some(shared) => {
                let here = self.is_here(session);
                // The next sweep ends it and logs why.
                if here && self.expiry(session, now) == Some(ExpiryReason::Ttl) {
                    return Err(MissingSession::Unknown);
                }
                match shared.find_protocol(&session.id, &session.owner_hash) {
                    Ok((protocol, left)) => self.adopt(session, &protocol, left, now)?,
                    Err(SessionError::StoreUnavailable) if here => {}
                    Err(SessionError::StoreUnavailable) => {
                        return Err(MissingSession::StoreUnavailable);
                    }
                    Err(_) if here => return Err(MissingSession::Ended(session.clone())),
                    Err(_) => return Err(MissingSession::Unknown),
                }
            }
        }
        session.touch(now);
        Ok(())
    }

    /// Adopts what the store knows of a session, unless the session ended meanwhile.
    fn adopt(
        &self,
        session: &Arc<ProtocolSession>,
        protocol: &ProtocolState,
        left: Duration,
        now: Instant,
    ) -> Result<(), MissingSession> {
        if protocol.drains {
            session.connection.drain();
        }
        let mut live = self.live();
        if session.ended.load(Ordering::Acquire) {
            return Err(MissingSession::Unknown);
        }
        if live.contains_key(&session.id) {
            return Ok(());
        }
        let known = SESSION_REVISIONS
            .into_iter()
            .find(|known| *known == protocol.revision);
        let revision = known.ok_or(MissingSession::Unknown)?;
        session.connection.use_revision(revision);
        // Adjusts the creation time, so that the session expires here when it expires everywhere.
        let created = now.checked_sub(self.ttl.saturating_sub(left));
        *lock(&session.created) = created.unwrap_or(now);
        live.insert(session.id.clone(), session.clone());
        Ok(())
    }

    /// This node's copy of a session that a message names.
    pub fn find_by_key(&self, key: &SessionKey) -> Option<Arc<ProtocolSession>> {
        let live = self.live();
        let here = live.values().find(|session| session.key == *key).cloned();
        here.or_else(|| {
            let named = self.named();
            let mut all = named.values().filter_map(Weak::upgrade);
            all.find(|session| session.key == *key)
        })
    }

    /// Removes a session from this node; true for the one caller that removed it.
    pub fn remove_here(&self, session: &ProtocolSession) -> bool {
        let mut live = self.live();
        live.remove(&session.id);
        self.named().remove(&session.id);
        !session.ended.swap(true, Ordering::AcqRel)
    }

    /// Removes a session everywhere; true for the one caller that removed it.
    pub fn close(&self, session: &ProtocolSession) -> bool {
        let closed = self.remove_here(session);
        if let (true, Some(shared)) = (closed, &self.shared) {
            shared.close_protocol(&session.id, &session.owner_hash);
        }
        closed
    }

    /// Removes expired sessions. The others count towards the caps.
    pub fn take_expired(&self, now: Instant) -> Vec<(Arc<ProtocolSession>, ExpiryReason)> {
        let mut due = Vec::new();
        self.live().retain(|_, session| {
            let why = self.expiry(session, now);
            // Another node may be using it: the store ends idle sessions, and this node only forgets them.
            let forgets = self.shared.is_some() && why == Some(ExpiryReason::Idle);
            if let Some(why) = why.filter(|_| !forgets) {
                due.push((session.clone(), why));
            }
            !forgets
        });
        if self.shared.is_some() {
            self.report_uses();
        }
        due.retain(|(session, _)| self.close(session));
        due
    }

    /// Reports uses to the store, so that sessions with running calls do not become idle.
    fn report_uses(&self) {
        for session in self.all() {
            if session.connection.in_flight() > 0 {
                self.report_use(&session);
            }
        }
    }

    /// Reports a use other than the start of a request to the store.
    fn report_use(&self, session: &ProtocolSession) {
        if let Some(shared) = &self.shared {
            // While the store is away, it does not end sessions either.
            let _ = shared.find_protocol(&session.id, &session.owner_hash);
        }
    }

    /// Records the end of a request, which counts as a use of its session. The store is notified if the request took a good part of the
    /// idle timeout.
    pub fn record_end(&self, session: &ProtocolSession, began: Instant) {
        let now = Instant::now();
        session.touch(now);
        if now.duration_since(began) > self.idle / 8 {
            self.report_use(session);
        }
    }

    pub fn all(&self) -> Vec<Arc<ProtocolSession>> {
        self.live().values().cloned().collect()
    }

    /// The number of live sessions.
    pub fn count(&self, now: Instant) -> usize {
        if let Some(Ok(count)) = self.shared.as_ref().map(|shared| shared.count_protocol()) {
            return count;
        }
        let live = self.live();
        let alive = live
            .values()
            .filter(|session| self.expiry(session, now).is_none());
        alive.count()
    }

    /// Whether another session would be refused.
    pub fn is_full(&self, now: Instant) -> bool {
        self.count(now) >= self.count_max
    }

    fn expiry(&self, session: &ProtocolSession, now: Instant) -> Option<ExpiryReason> {
        if now.duration_since(*lock(&session.created)) >= self.ttl {
            return Some(ExpiryReason::Ttl);
        }
        let used = *lock(&session.used);
        let idle = session.connection.in_flight() == 0 && now.duration_since(used) >= self.idle;
        idle.then_some(ExpiryReason::Idle)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<ProtocolSession>>> {
        lock(&self.live)
    }

    fn named(&self) -> MutexGuard<'_, HashMap<String, Weak<ProtocolSession>>> {
        lock(&self.named)
    }
}

impl ProtocolSession {
    pub fn touch(&self, now: Instant) {
        *lock(&self.used) = now;
    }
}

#[cfg(test)]
mod tests;
