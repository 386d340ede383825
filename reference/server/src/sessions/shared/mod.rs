//! Sessions in a store: how a node runs a program in a session that any node may have used before.
//!
//! A turn costs two round trips: one takes the lease and reads, one commits and ends the lease. A node caches what it read or committed
//! under its stamp, so that the next turn need not transfer the body.

mod cache;
mod content;
mod lease;
mod messages;
mod metrics;
mod open;
mod operators;
mod protocol;
mod requests;

pub use lease::{EncodedTurn, SessionLease};
pub use messages::NodeMessage;
pub use open::{StoreOpenError, examine};
pub use operators::ListedSession;
pub use protocol::{NewProtocolSession, ProtocolState};

use self::cache::SessionCache;
use self::content::AssociatedData;
use self::messages::MessageHandler;
use self::metrics::StoreMetrics;
use super::logins::LoginFailures;
use super::store::{
    self, NewSession, Seal, SealedContent, SessionKey, SessionRecord, SessionStore,
};
use super::turn::RunningTurn;
use super::{Session, SessionError, SessionState, instant_after};
use crate::clock;
use crate::lock::lock;
use crate::settings::SessionSettings;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A store and this node's knowledge of it.
pub struct SharedSessions {
    store: Box<dyn SessionStore>,
    /// The store of protocol sessions, for HTTP.
    protocol: Box<dyn SessionStore>,
    seal: Seal,
    address: String,
    settings: SessionSettings,
    /// The duration of a lease: a program's own limit plus the time to commit its result.
    term: Duration,
    cache: SessionCache,
    /// Sessions that may exist although no client received their id, with their owners: they are closed when the next session is started.
    unclaimed: Mutex<VecDeque<(SessionKey, String)>>,
    /// Programs that run here, and those whose lease is being requested: closing the session ends them.
    running: Mutex<HashMap<SessionKey, Vec<Arc<RunningTurn>>>>,
    /// Handles messages about protocol sessions.
    handler: OnceLock<MessageHandler>,
    logins: LoginFailures,
    is_unavailable: AtomicBool,
    /// Whether the store's mark has been read.
    has_replied: AtomicBool,
    last_reply: Mutex<Instant>,
    count: AtomicUsize,
    /// Measurements of store requests, for metrics.
    metrics: StoreMetrics,
}

pub struct StorePair {
    pub programs: Box<dyn SessionStore>,
    pub protocol: Box<dyn SessionStore>,
    /// The name of the stores in logs.
    pub address: String,
}

/// Unclaimed sessions that a node remembers.
const UNCLAIMED_MAX: usize = 64;
/// How long a lease outlasts the program's own limit: the result is encoded and sent in this time.
const LEASE_SLACK: Duration = Duration::from_secs(3);
const _: () = assert!(store::STORE_TIMEOUT.as_millis() <= LEASE_SLACK.as_millis());

impl SharedSessions {
    fn of(stores: StorePair, seal: Seal, settings: &SessionSettings, program: Duration) -> Self {
        SharedSessions {
            store: stores.programs,
            protocol: stores.protocol,
            seal,
            address: stores.address,
            settings: settings.clone(),
            term: super::test_faults::lease_for_test().unwrap_or(program + LEASE_SLACK),
            cache: SessionCache::default(),
            unclaimed: Mutex::default(),
            running: Mutex::default(),
            handler: OnceLock::new(),
            logins: LoginFailures::default(),
            is_unavailable: AtomicBool::new(false),
            has_replied: AtomicBool::new(false),
            last_reply: Mutex::new(Instant::now()),
            count: AtomicUsize::new(0),
            metrics: StoreMetrics::default(),
        }
    }

    /// A node on top of stores that a simulation made.
    #[cfg(feature = "checks")]
    pub fn simulated(
        stores: StorePair,
        settings: &SessionSettings,
        program: Duration,
    ) -> Arc<Self> {
        let shared = SharedSessions::of(stores, Seal::none(), settings, program);
        Arc::new(shared)
    }

    pub(in crate::sessions) fn logins(&self) -> &LoginFailures {
        &self.logins
    }

    /// The longest that a store may take before it counts as away.
    pub const STORE_TIMEOUT: Duration = store::STORE_TIMEOUT;

    /// The number of sessions in the store at the last sweep.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn start(
        self: &Arc<Self>,
        owner: &str,
        title: Option<String>,
        ttl_ms: u64,
    ) -> Result<Arc<Session>, SessionError> {
        let id = super::new_id();
        let key = SessionKey::of(&id);
        let stamp = crate::token::random(18);
        let state = SessionState::empty(0);
        let digest = store::owner_digest(owner);
        let place = AssociatedData {
            key: &key,
            owner: &digest,
            stamp: &stamp,
        };
        let (head, body) = self.seal_session(&place, &id, title.as_deref(), &state)?;
        self.close_unclaimed();
        let created = self.request_change(|store| {
            store.create(&NewSession {
                key: &key,
                owner: &digest,
                ttl: Duration::from_millis(ttl_ms),
                idle: Duration::from_millis(self.settings.idle_ms),
                count_max: self.settings.count_max,
                per_owner_max: self.settings.per_owner_max,
                stamp: &stamp,
                content: SealedContent {
                    head: &head,
                    body: &body,
                },
            })
        });
        if created == Err(SessionError::ChangeUnknown) {
            let mut unclaimed = lock(&self.unclaimed);
            unclaimed.truncate(UNCLAIMED_MAX - 1);
            unclaimed.push_front((key.clone(), digest.clone()));
        }
        let times = created?;
        self.cache.insert(&key, &stamp, &state);
        let record = SessionRecord {
            key,
            owner: digest,
            version: 0,
            stamp,
            times,
            running: false,
            head,
            body: None,
        };
        self.local_session(&record, owner, state)
    }

    /// Closes sessions that an earlier start may have left in the store when its reply was lost. If the store is still away, the next
    /// start tries again.
    fn close_unclaimed(&self) {
        let next = || lock(&self.unclaimed).pop_back();
        while let Some((key, owner)) = next() {
            let closed = self.request(|store| store.close(&key, &owner));
            if closed == Err(SessionError::StoreUnavailable) {
                lock(&self.unclaimed).push_back((key, owner));
                return;
            }
        }
    }

    /// Reads a session for inspection.
    pub fn find(&self, id: &str, owner: &str) -> Result<Arc<Session>, SessionError> {
        let key = SessionKey::of(id);
        let known = self.cache.get(&key);
        let stamp = known.as_ref().map(|(stamp, _)| stamp.as_str());
        let digest = store::owner_digest(owner);
        let record = self.request(|store| store.read(&key, &digest, stamp))?;
        self.check_record(&record, &digest, stamp)?;
        let session = self.local_session(
            &record,
            owner,
            known.map_or_else(|| SessionState::empty(0), |(_, state)| state),
        )?;
        if let Some(body) = &record.body {
            self.restore_body(&session, &AssociatedData::of_record(&record), body)?;
        }
        Ok(session)
    }

    pub fn list(&self, owner: &str) -> Result<Vec<Arc<Session>>, SessionError> {
        let digest = store::owner_digest(owner);
        let mut records = self.request(|store| store.list(Some(&digest)))?;
        records.retain(|record| record.owner == digest);
        // An unreadable session does not affect the others; the log reports it.
        let readable = |record| match self.local_session(record, owner, SessionState::empty(0)) {
            Err(SessionError::Unreadable) => None,
            session => Some(session),
        };
        records.iter().filter_map(readable).collect()
    }

    /// Closes a session, and ends what runs in it on any node.
    pub fn close(&self, id: &str, owner: &str) -> Result<(), SessionError> {
        let key = SessionKey::of(id);
        self.request_change(|store| store.close(&key, &store::owner_digest(owner)))?;
        self.cache.remove(&key);
        self.end_running(&key);
        self.broadcast(&NodeMessage::Closed(key));
        Ok(())
    }

    pub fn forget_owner(&self, owner: &str) {
        // If the store is away, the sessions expire.
        let _ = self.request(|store| store.close_owner(&store::owner_digest(owner)));
    }

    /// This node's copy of a session for the duration of a request.
    fn local_session(
        &self,
        record: &SessionRecord,
        owner: &str,
        state: SessionState,
    ) -> Result<Arc<Session>, SessionError> {
        let head = self.open_head(record)?;
        let times = record.times;
        Ok(Arc::new(Session {
            id: head.id,
            owner: owner.to_owned(),
            title: head.title,
            created_micros: times.created,
            expires_micros: times.expires,
            expires: instant_after(tokio::time::Instant::now(), times.left_micros() / 1000),
            ahead_micros: times.now.saturating_sub(clock::now_micros()),
            state: Mutex::new(SessionState {
                turn: head.turn,
                memory_bytes: head.memory_bytes,
                bindings: usize::try_from(head.bindings).unwrap_or(usize::MAX),
                updated_micros: times.used,
                runs_elsewhere: record.running,
                ..state
            }),
        }))
    }
}
