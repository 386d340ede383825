//! Leases: the right of one node to run one turn of a session.

use super::SharedSessions;
use super::content::AssociatedData;
use crate::lock::lock;
use crate::sessions::store::{self, Lease, LeaseRequest, SealedContent, SessionKey, SessionRecord};
use crate::sessions::turn::{RunningTurn, Turn};
use crate::sessions::{Session, SessionError, SessionState};
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

impl SharedSessions {
    /// Takes the lease of a session for one turn. If a protocol session owns the session, `within` is the owner of the protocol session,
    /// which is looked up and used in the same step.
    pub fn begin(
        self: &Arc<Self>,
        id: &str,
        owner: &str,
        within: Option<&str>,
    ) -> Result<Turn, SessionError> {
        let key = SessionKey::of(id);
        let known = self.cache.get(&key);
        let stamp = known.as_ref().map(|(stamp, _)| stamp.as_str());
        let holder = crate::token::random(18);
        let digest = store::owner_digest(owner);
        let acquire = LeaseRequest {
            key: &key,
            owner: &digest,
            known: stamp,
            holder: &holder,
            term: self.term,
        };
        // Registered before the lease is requested: if the session is closed after the store granted the lease, the broadcast finds this
        // entry.
        let running = RunningGuard::enter(self, &key);
        let since = Instant::now();
        let asked = match within {
            None => self.request(|store| store.acquire(&acquire)),
            Some(owner) => self.acquire_within(&store::owner_digest(owner), &acquire),
        };
        self.metrics.leases.observe(since.elapsed().as_secs_f64());
        let (mut record, lease) = asked?;
        let whole = self.check_record(&record, &digest, stamp);
        let token = running.token.clone();
        let leased = SessionLease {
            shared: self.clone(),
            lease,
            owner: record.owner.clone(),
            stamp: record.stamp.clone(),
            ended: AtomicBool::new(false),
            body: Mutex::new(record.body.take()),
            _running: running,
        };
        whole?;
        let session = self.local_session(
            &record,
            owner,
            known.map_or_else(|| SessionState::empty(0), |(_, state)| state),
        )?;
        session.state().running = Some(token.clone());
        Ok(Turn {
            session,
            token,
            lease: Some(Arc::new(leased)),
        })
    }

    /// Acquires the lease of a session within a protocol session, which must exist and accept tool calls.
    fn acquire_within(
        &self,
        owner: &str,
        acquire: &LeaseRequest<'_>,
    ) -> Result<(SessionRecord, Lease), SessionError> {
        let (protocol, answer) =
            self.request(|store| store.acquire_within(&*self.protocol, owner, acquire))?;
        let begun = self.record_outcome(answer);
        let open = match protocol.owner == owner {
            true => self.open_protocol(&protocol),
            false => Err(SessionError::Foreign),
        };
        let refused = match open {
            Ok(protocol) if !protocol.drains => return begun,
            Ok(_) => SessionError::Draining,
            Err(refused) => refused,
        };
        if let Ok((_, lease)) = begun {
            // If the store is away, the lease ends at its deadline.
            let _ = self.request(|store| store.release(&lease));
        }
        Err(refused)
    }
}

/// A lease that ends with a commit, with its release, or when it is dropped.
pub struct SessionLease {
    shared: Arc<SharedSessions>,
    lease: Lease,
    /// A digest of the owner.
    owner: String,
    /// The stamp of what was read.
    stamp: String,
    ended: AtomicBool,
    /// The body that was read, until it is decoded.
    body: Mutex<Option<Vec<u8>>>,
    _running: RunningGuard,
}

/// What a turn leaves behind, encoded for the store.
pub struct EncodedTurn {
    state: SessionState,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl SessionLease {
    /// Decodes the session's content unless this node had it cached.
    pub fn restore(&self, session: &Session) -> Result<(), SessionError> {
        let body = lock(&self.body).take();
        match body {
            Some(body) => {
                self.shared
                    .restore_body(session, &self.associated_data(&self.stamp), &body)
            }
            None => Ok(()),
        }
    }

    pub fn encode(
        &self,
        session: &Session,
        state: SessionState,
    ) -> Result<EncodedTurn, SessionError> {
        let place = self.associated_data(&self.lease.holder);
        let title = session.title.as_deref();
        let (head, body) = self
            .shared
            .seal_session(&place, &session.id, title, &state)?;
        Ok(EncodedTurn { state, head, body })
    }

    fn associated_data<'a>(&'a self, stamp: &'a str) -> AssociatedData<'a> {
        AssociatedData {
            key: &self.lease.key,
            owner: &self.owner,
            stamp,
        }
    }

    pub fn commit(&self, encoded: &EncodedTurn) -> Result<(), SessionError> {
        if self.ended.swap(true, Ordering::AcqRel) {
            return Err(SessionError::LeaseLost);
        }
        let content = SealedContent {
            head: &encoded.head,
            body: &encoded.body,
        };
        let bytes = encoded.body.len() as f64;
        self.shared.metrics.snapshots.observe(bytes);
        crate::sessions::test_faults::delay_commit_for_test();
        let committed = self
            .shared
            .request(|store| store.commit(&self.lease, content));
        match committed {
            Ok(()) => self
                .shared
                .cache
                .insert(&self.lease.key, &self.lease.holder, &encoded.state),
            // The lease still exists; release it so that nobody has to wait for its deadline.
            Err(SessionError::StoreFull) => {
                let _ = self.shared.request(|store| store.release(&self.lease));
            }
            Err(_) => {}
        }
        committed.map_err(|refused| match refused {
            // The commit may have reached the store.
            SessionError::StoreUnavailable => SessionError::CommitUnknown,
            refused => refused,
        })
    }

    pub fn release(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            // If the store is away, the lease ends at its deadline.
            let _ = self.shared.request(|store| store.release(&self.lease));
        }
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.release();
    }
}

/// Registers a program that runs here, or will run once it has its lease; deregisters it when dropped.
struct RunningGuard {
    shared: Arc<SharedSessions>,
    key: SessionKey,
    token: Arc<RunningTurn>,
}

impl RunningGuard {
    fn enter(shared: &Arc<SharedSessions>, key: &SessionKey) -> Self {
        let token = Arc::new(RunningTurn::default());
        let mut all = lock(&shared.running);
        all.entry(key.clone()).or_default().push(token.clone());
        RunningGuard {
            shared: shared.clone(),
            key: key.clone(),
            token,
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut all = lock(&self.shared.running);
        if let Entry::Occupied(mut here) = all.entry(self.key.clone()) {
            here.get_mut()
                .retain(|known| !Arc::ptr_eq(known, &self.token));
            if here.get().is_empty() {
                here.remove();
            }
        }
    }
}
