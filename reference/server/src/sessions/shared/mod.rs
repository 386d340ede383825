//! Sessions in a store: how a node runs a program in a session that any node may have used before.
//!
//! A turn costs two round trips: one takes the lease and reads, one commits and ends the lease. A node caches what it read or committed
//! under its stamp, so that the next turn need not transfer the body.

use super::logins::LoginFailures;
use super::record::{self, RecordError, SessionHead};
use super::store::{
    self, Address, KeyFileFault, Lease, LeaseRequest, Namespace, NewSession, Seal, SealedContent,
    SessionKey, SessionRecord, SessionStore, StoreError, StoreEvent, StoreFault, StoreResult,
    UnsealError,
};
use super::{RunningTurn, Session, SessionError, SessionState, Turn, instant_after};
use crate::clock;
use crate::diagnostics::counters::{Histogram, head};
use crate::executor;
use crate::lock::lock;
use crate::settings::SessionSettings;
use ptc_lang::Env;
use ptc_rpc::Id;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    cache: Mutex<VecDeque<(SessionKey, String, SessionState)>>,
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

/// Handles messages about protocol sessions.
type MessageHandler = Box<dyn Fn(&NodeMessage) + Send + Sync>;

struct StoreMetrics {
    /// Duration of requests in seconds.
    requests: Histogram,
    /// Seconds until a lease was granted or refused.
    leases: Histogram,
    /// Bytes of committed content.
    snapshots: Histogram,
    failures: AtomicU64,
    /// Turns refused because another turn was running.
    busy: AtomicU64,
    /// Turns that lost their lease.
    lost: AtomicU64,
    read_bytes: AtomicU64,
}

/// Histogram bounds: request durations in seconds, and sizes of committed content in bytes.
const SECONDS: &[f64] = &[
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];
const BYTES: &[f64] = &[
    256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0,
];

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            requests: Histogram::new(SECONDS),
            leases: Histogram::new(SECONDS),
            snapshots: Histogram::new(BYTES),
            failures: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }
}

/// Prefix of the names of a store's metrics.
const METRICS: &str = "ptc_lisp_session_store_";
/// Sessions whose content a node caches.
const RECENT_MAX: usize = 64;
/// Unclaimed sessions that a node remembers.
const UNCLAIMED_MAX: usize = 64;
/// How long a lease outlasts the program's own limit: the result is encoded and sent in this time.
const LEASE_SLACK: Duration = Duration::from_secs(3);
const _: () = assert!(store::STORE_TIMEOUT.as_millis() <= LEASE_SLACK.as_millis());
/// When the last reply is older than this, readiness asks the store again.
const REPLY_AGE_MAX: Duration = Duration::from_secs(1);
/// The plaintext of the mark.
const MARK: &[u8] = b"ptc session store";
const MARK_CONTEXT: &str = "mark";

impl SharedSessions {
    /// Opens the store that the settings name, if any. `program` is the maximum duration of a program.
    ///
    /// # Errors
    /// Which store cannot be used, and why.
    pub fn open(
        settings: &SessionSettings,
        program: Duration,
    ) -> Result<Option<Arc<SharedSessions>>, StoreOpenError> {
        let Some(address) = &settings.store.address else {
            return Ok(None);
        };
        let seal = seal(settings)?;
        let unusable = |fault| StoreOpenError::unusable(address, fault);
        let stores = StorePair {
            programs: store::open(address, Namespace::Programs).map_err(unusable)?,
            protocol: store::open(address, Namespace::Protocol).map_err(unusable)?,
            address: address.to_string(),
        };
        let shared = SharedSessions::of(stores, seal, settings, program);
        match shared.check_mark() {
            Ok(()) => {}
            Err(StoreError::Unavailable(cause))
                if settings.store.optional && !shared.has_replied() =>
            {
                shared.mark_unavailable(&cause);
            }
            Err(failure) => return Err(unusable(failure.into())),
        }
        tracing::info!(
            event = "session_store",
            address = shared.address,
            encrypted = shared.seal.is_on(),
        );
        let shared = Arc::new(shared);
        let listening = Arc::downgrade(&shared);
        shared.store.subscribe(Box::new(move |word| {
            let shared = listening.upgrade();
            if let Some(shared) = &shared {
                match word {
                    StoreEvent::Subscribed => shared.logins.set_receiving(true),
                    StoreEvent::Disconnected => shared.logins.set_receiving(false),
                    StoreEvent::Message(message) => shared.receive(message),
                }
            }
            shared.is_some()
        }));
        Ok(Some(shared))
    }

    fn of(stores: StorePair, seal: Seal, settings: &SessionSettings, program: Duration) -> Self {
        SharedSessions {
            store: stores.programs,
            protocol: stores.protocol,
            seal,
            address: stores.address,
            settings: settings.clone(),
            term: super::lease_for_test().unwrap_or(program + LEASE_SLACK),
            cache: Mutex::default(),
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

    /// Broadcasts a message and waits until the nodes acted on it, so that a client which then asks another node finds it done. If the
    /// store is away, the message is lost; messages only speed up what would happen anyway.
    pub fn broadcast(&self, message: &NodeMessage) {
        let message = message.to_text();
        // A directory cannot broadcast, so nothing waits for it.
        let _ = self.request(|store| store.broadcast(&message));
    }

    /// Sets the handler for messages about protocol sessions.
    pub fn on_message(&self, act: impl Fn(&NodeMessage) + Send + Sync + 'static) {
        // There is one handler per process.
        let _ = self.handler.set(Box::new(act));
    }

    fn receive(&self, text: &str) {
        let Some(message) = NodeMessage::from_text(text) else {
            return;
        };
        match message {
            NodeMessage::Login { source, block } => self.logins.record_failure(source, block),
            NodeMessage::Closed(key) => self.end_running(&key),
            NodeMessage::Cancel { .. } | NodeMessage::Ended(_) => {
                if let Some(act) = self.handler.get() {
                    act(&message);
                }
            }
        }
    }

    /// Ends what runs here in a session that was closed.
    fn end_running(&self, key: &SessionKey) {
        let here = lock(&self.running).get(key).cloned();
        here.iter().flatten().for_each(|running| running.close());
    }

    /// Checks that one of this node's keys opens the store's mark. An unmarked store is marked now, and a mark under an older key is
    /// replaced: a node that does not have the new key can then no longer start.
    fn check_mark(&self) -> StoreResult<()> {
        let fresh = self.seal.seal(MARK, MARK_CONTEXT);
        let fresh = fresh.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let mark = self.store.mark(&fresh, None)?;
        self.has_replied.store(true, Ordering::Release);
        verify_mark(&self.seal, &mark)
            .map_err(|fault| StoreError::Unavailable(fault.to_string()))?;
        if !self.seal.is_newest(&mark, MARK_CONTEXT) {
            self.store.mark(&fresh, Some(&mark))?;
        }
        Ok(())
    }

    /// Whether the store has replied at least once, so that a later failure is not a matter of reaching it.
    fn has_replied(&self) -> bool {
        self.has_replied.load(Ordering::Acquire)
    }

    pub(super) fn logins(&self) -> &LoginFailures {
        &self.logins
    }

    /// The longest that a store may take before it counts as away.
    pub const STORE_TIMEOUT: Duration = store::STORE_TIMEOUT;

    /// Whether nodes are notified of failed logins.
    pub(super) fn can_broadcast(&self) -> bool {
        self.store.can_broadcast()
    }

    /// Sends a request to the store and records its outcome.
    pub(super) fn request<T>(
        &self,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        self.request_from(&*self.store, ask)
    }

    /// Like [`SharedSessions::request`], for a request that changes the store: if the store becomes unreachable meanwhile, the change may have been
    /// made.
    fn request_change<T>(
        &self,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        let given_up = self.store.fails_fast();
        self.request(ask).map_err(|refused| match refused {
            SessionError::StoreUnavailable if !given_up => SessionError::ChangeUnknown,
            refused => refused,
        })
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

    fn request_from<T>(
        &self,
        store: &dyn SessionStore,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        let since = Instant::now();
        let ask = || {
            // The node was started while the store was away.
            if !self.has_replied() {
                self.check_mark()?;
            }
            ask(store)
        };
        let answer = match store.yields_executor() {
            true => ask(),
            false => executor::blocking(ask),
        };
        let seconds = since.elapsed().as_secs_f64();
        self.metrics.requests.observe(seconds);
        self.record_outcome(answer)
    }

    /// Records whether the store replied, and translates the reply.
    fn record_outcome<T>(&self, answer: StoreResult<T>) -> Result<T, SessionError> {
        match answer {
            Err(StoreError::Unavailable(cause)) => {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                self.mark_unavailable(&cause);
                Err(SessionError::StoreUnavailable)
            }
            Err(StoreError::UnknownOutcome(cause)) => {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event = "session_store_unanswered",
                    address = self.address,
                    cause,
                );
                Err(SessionError::StoreUnavailable)
            }
            Err(StoreError::Rejected(refused)) => {
                self.mark_available();
                match refused {
                    SessionError::Busy => self.metrics.busy.fetch_add(1, Ordering::Relaxed),
                    SessionError::LeaseLost => self.metrics.lost.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
                Err(refused)
            }
            Ok(answer) => {
                self.mark_available();
                Ok(answer)
            }
        }
    }

    /// Logs once that the store is away.
    fn mark_unavailable(&self, cause: &str) {
        if !self.is_unavailable.swap(true, Ordering::AcqRel) {
            tracing::error!(
                event = "session_store_unavailable",
                address = self.address,
                cause,
            );
        }
    }

    fn mark_available(&self) {
        *lock(&self.last_reply) = Instant::now();
        if self.is_unavailable.swap(false, Ordering::AcqRel) {
            tracing::info!(event = "session_store_back", address = self.address);
        }
    }

    /// Whether sessions can be used; asks the store if there was no recent reply.
    pub fn is_ready(&self) -> bool {
        if self.is_unavailable.load(Ordering::Acquire)
            || lock(&self.last_reply).elapsed() > REPLY_AGE_MAX
        {
            return self.sweep();
        }
        true
    }

    /// Closes expired sessions. Returns false when the store is away.
    pub fn sweep(&self) -> bool {
        let left = self.request(|store| store.sweep());
        if self.handler.get().is_some() {
            // Program sessions that belong to protocol sessions end with them.
            let _ = self.request_from(&*self.protocol, |store| store.sweep());
        }
        if let Ok(count) = left {
            self.count.store(count, Ordering::Relaxed);
        }
        left.is_ok()
    }

    /// Measurements of store requests as Prometheus text.
    pub fn metrics(&self) -> String {
        let StoreMetrics {
            requests,
            leases,
            snapshots,
            failures,
            busy,
            lost,
            read_bytes,
        } = &self.metrics;
        let mut text = String::new();
        for (histogram, name, help) in [
            (
                requests,
                "request_seconds",
                "Time that requests to the session store took.",
            ),
            (
                leases,
                "lease_seconds",
                "Time until a turn had its lease, or was refused it.",
            ),
            (
                snapshots,
                "snapshot_bytes",
                "Sizes of the sessions that turns committed.",
            ),
        ] {
            histogram.render(&mut text, &format!("{METRICS}{name}"), help);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let up = u64::from(!self.is_unavailable.load(Ordering::Acquire));
        for (name, kind, help, value) in [
            (
                "failures_total",
                "counter",
                "Requests that the session store did not answer.",
                count(failures),
            ),
            (
                "busy_total",
                "counter",
                "Turns that another one kept away.",
                count(busy),
            ),
            (
                "lost_total",
                "counter",
                "Turns whose lease ended before they were committed.",
                count(lost),
            ),
            (
                "read_bytes_total",
                "counter",
                "Bytes of sessions that were read.",
                count(read_bytes),
            ),
            (
                "up",
                "gauge",
                "Whether the session store answered the last time.",
                up,
            ),
        ] {
            let name = format!("{METRICS}{name}");
            head(&mut text, &name, kind, help);
            text.push_str(&format!("{name} {value}\n"));
        }
        text
    }

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
        let head = SessionHead::of(&id, title.as_deref(), &state).to_bytes();
        let digest = store::owner_digest(owner);
        let place = AssociatedData {
            key: &key,
            owner: &digest,
            stamp: &stamp,
        };
        let (head, body) = self.seal_parts(&place, head, record::encode_body(&state))?;
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
        self.cache(&key, &stamp, &state);
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

    fn seal_parts(
        &self,
        place: &AssociatedData<'_>,
        head: Result<Vec<u8>, RecordError>,
        body: Result<Vec<u8>, RecordError>,
    ) -> Result<(Vec<u8>, Vec<u8>), SessionError> {
        let seal = |part: &str, bytes: Result<Vec<u8>, RecordError>| {
            let bytes = bytes.map_err(|_| SessionError::TooLarge)?;
            let sealed = self.seal.seal(&bytes, &place.of(part));
            sealed.map_err(|_| SessionError::TooLarge)
        };
        Ok((seal("head", head)?, seal("body", body)?))
    }

    fn open_head(&self, record: &SessionRecord) -> Result<SessionHead, SessionError> {
        let place = AssociatedData::of_record(record).of("head");
        let head = self.seal.open(&record.head, &place);
        head.map_err(RecordError::from)
            .and_then(|head| SessionHead::read(&head))
            .map_err(|cause| self.unreadable(&record.key, &cause))
    }

    /// Logs why a session cannot be read; its owner only learns that it cannot.
    fn unreadable(&self, key: &SessionKey, cause: &RecordError) -> SessionError {
        let cause = cause.to_string();
        tracing::error!(event = "session_unreadable", cause, key = key.as_str());
        SessionError::Unreadable
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
        let left = u64::try_from(times.expires.saturating_sub(times.now)).unwrap_or(0);
        Ok(Arc::new(Session {
            id: head.id,
            owner: owner.to_owned(),
            title: head.title,
            created_micros: times.created,
            expires_micros: times.expires,
            expires: instant_after(tokio::time::Instant::now(), left / 1000),
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

    /// Reads a session for inspection.
    pub fn find(&self, id: &str, owner: &str) -> Result<Arc<Session>, SessionError> {
        let key = SessionKey::of(id);
        let known = self.cached(&key);
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

    /// Only content that this node has cached may come without a body; otherwise a store that withholds it could pass a session off as
    /// empty. A record of another owner is refused, too.
    fn check_record(
        &self,
        record: &SessionRecord,
        owner: &str,
        known: Option<&str>,
    ) -> Result<(), SessionError> {
        if record.owner != owner {
            return Err(SessionError::Foreign);
        }
        match record.body.is_some() || known == Some(record.stamp.as_str()) {
            true => Ok(()),
            false => Err(self.unreadable(&record.key, &RecordError::NoBody)),
        }
    }

    /// Decodes a body into a session and caches the result.
    fn restore_body(
        &self,
        session: &Session,
        place: &AssociatedData<'_>,
        body: &[u8],
    ) -> Result<(), SessionError> {
        self.metrics
            .read_bytes
            .fetch_add(body.len() as u64, Ordering::Relaxed);
        let mut state = session.state();
        let opened = self.seal.open(body, &place.of("body"));
        opened
            .map_err(RecordError::from)
            .and_then(|body| record::decode_body(&mut state, &body, self.settings.memory_bytes))
            .map_err(|cause| self.unreadable(place.key, &cause))?;
        self.cache(place.key, place.stamp, &state);
        Ok(())
    }

    /// Takes the lease of a session for one turn. If a protocol session owns the session, `within` is the owner of the protocol session,
    /// which is looked up and used in the same step.
    pub fn begin(
        self: &Arc<Self>,
        id: &str,
        owner: &str,
        within: Option<&str>,
    ) -> Result<Turn, SessionError> {
        let key = SessionKey::of(id);
        let known = self.cached(&key);
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

    /// Closes a session, and ends what runs in it on any node.
    pub fn close(&self, id: &str, owner: &str) -> Result<(), SessionError> {
        let key = SessionKey::of(id);
        self.request_change(|store| store.close(&key, &store::owner_digest(owner)))?;
        lock(&self.cache).retain(|(known, ..)| *known != key);
        self.end_running(&key);
        self.broadcast(&NodeMessage::Closed(key));
        Ok(())
    }

    pub fn forget_owner(&self, owner: &str) {
        // If the store is away, the sessions expire.
        let _ = self.request(|store| store.close_owner(&store::owner_digest(owner)));
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

    /// Every live session, for operators, most recently used first. Sessions that this node cannot read are left out.
    pub fn list_all(&self) -> Result<Vec<ListedSession>, SessionError> {
        let mut records = self.request(|store| store.list(None))?;
        records.sort_by_key(|record| std::cmp::Reverse(record.times.used));
        let listed = records.into_iter().filter_map(|record| {
            let head = self.open_head(&record).ok()?;
            Some(ListedSession { head, record })
        });
        Ok(listed.collect())
    }

    /// The environment of a session.
    pub fn env_of(&self, listed: &ListedSession) -> Result<Env, SessionError> {
        let ListedSession { record, .. } = listed;
        let read = self.request(|store| store.read(&record.key, &record.owner, None))?;
        let session = self.local_session(&read, "", SessionState::empty(0))?;
        self.restore_body(
            &session,
            &AssociatedData::of_record(&read),
            read.body.as_deref().unwrap_or_default(),
        )?;
        Ok(session.env())
    }

    /// The environment of a session as a snapshot.
    pub fn export(&self, listed: &ListedSession) -> Result<Vec<u8>, SessionError> {
        let env = self.env_of(listed)?;
        env.snapshot(
            record::SNAPSHOT_BYTES_MAX,
            &record::SnapshotDeadline::start(),
        )
        .map_err(|_| SessionError::TooLarge)
    }

    /// Closes a session of any owner.
    pub fn delete(&self, listed: &ListedSession) -> Result<(), SessionError> {
        let ListedSession { record, .. } = listed;
        self.request_change(|store| store.close(&record.key, &record.owner))?;
        let message = NodeMessage::Closed(record.key.clone()).to_text();
        self.request(|store| store.broadcast(&message))
    }

    fn cached(&self, key: &SessionKey) -> Option<(String, SessionState)> {
        let recent = lock(&self.cache);
        let known = recent.iter().find(|(known, ..)| known == key);
        known.map(|(_, stamp, state)| (stamp.clone(), state.clone()))
    }

    fn cache(&self, key: &SessionKey, stamp: &str, state: &SessionState) {
        let mut recent = lock(&self.cache);
        recent.retain(|(known, ..)| known != key);
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        let state = SessionState {
            running: None,
            runs_elsewhere: false,
            ..state.clone()
        };
        recent.push_back((key.clone(), stamp.to_owned(), state));
    }

    /// Makes a protocol session valid on every node.
    pub fn share_protocol(&self, new: &NewProtocolSession<'_>) -> Result<(), SessionError> {
        let key = SessionKey::of(new.id);
        let stamp = crate::token::random(18);
        let owner = store::owner_digest(new.owner);
        let protocol = ProtocolState {
            revision: new.revision.to_owned(),
            drains: false,
        };
        let place = AssociatedData {
            key: &key,
            owner: &owner,
            stamp: &stamp,
        };
        let head = self.seal_protocol(&protocol, &place)?;
        let new = NewSession {
            key: &key,
            owner: &owner,
            ttl: new.ttl,
            idle: new.idle,
            count_max: new.count_max,
            per_owner_max: new.per_owner_max,
            stamp: &stamp,
            content: SealedContent {
                head: &head,
                body: b"",
            },
        };
        self.request_from(&*self.protocol, |store| store.create(&new))
            .map(drop)
    }

    fn seal_protocol(
        &self,
        protocol: &ProtocolState,
        place: &AssociatedData<'_>,
    ) -> Result<Vec<u8>, SessionError> {
        let bytes = minicbor::to_vec(protocol).map_err(|_| SessionError::TooLarge)?;
        let sealed = self.seal.seal(&bytes, &place.of("protocol"));
        sealed.map_err(|_| SessionError::TooLarge)
    }

    fn open_protocol(&self, record: &SessionRecord) -> Result<ProtocolState, SessionError> {
        let opened = self.seal.open(
            &record.head,
            &AssociatedData::of_record(record).of("protocol"),
        );
        opened
            .map_err(RecordError::from)
            .and_then(|bytes| Ok(minicbor::decode(&bytes)?))
            .map_err(|cause| self.unreadable(&record.key, &cause))
    }

    /// Reads the shared state of a protocol session, which counts as a use, and its maximum remaining lifetime.
    pub fn find_protocol(
        &self,
        id: &str,
        owner: &str,
    ) -> Result<(ProtocolState, Duration), SessionError> {
        let key = SessionKey::of(id);
        let digest = store::owner_digest(owner);
        let record = self.request_from(&*self.protocol, |store| store.read(&key, &digest, None))?;
        self.check_record(&record, &digest, None)?;
        let times = record.times;
        let left = u64::try_from(times.expires.saturating_sub(times.now)).unwrap_or_default();
        Ok((self.open_protocol(&record)?, Duration::from_micros(left)))
    }

    /// Makes every node refuse tool calls in a protocol session.
    ///
    /// # Errors
    /// Why the nodes cannot be made to refuse them.
    pub fn drain_protocol(&self, id: &str, owner: &str) -> Result<(), SessionError> {
        let (key, owner) = (SessionKey::of(id), store::owner_digest(owner));
        let holder = crate::token::random(18);
        let acquire = LeaseRequest {
            key: &key,
            owner: &owner,
            known: None,
            holder: &holder,
            term: LEASE_SLACK,
        };
        let (record, lease) =
            self.request_from(&*self.protocol, |store| store.acquire(&acquire))?;
        let protocol = ProtocolState {
            drains: true,
            ..self.open_protocol(&record)?
        };
        let place = AssociatedData {
            key: &key,
            owner: &owner,
            stamp: &holder,
        };
        let head = self.seal_protocol(&protocol, &place)?;
        let content = SealedContent {
            head: &head,
            body: b"",
        };
        self.request_from(&*self.protocol, |store| store.commit(&lease, content))
    }

    /// Ends a protocol session on every node.
    pub fn close_protocol(&self, id: &str, owner: &str) {
        let key = SessionKey::of(id);
        // If the store is away, the session expires.
        if self
            .request_from(&*self.protocol, |store| {
                store.close(&key, &store::owner_digest(owner))
            })
            .is_ok()
        {
            self.broadcast(&NodeMessage::Ended(key));
        }
    }

    /// The number of protocol sessions on all nodes.
    pub fn count_protocol(&self) -> Result<usize, SessionError> {
        self.request_from(&*self.protocol, |store| store.sweep())
    }
}

pub struct StorePair {
    pub programs: Box<dyn SessionStore>,
    pub protocol: Box<dyn SessionStore>,
    /// The name of the stores in logs.
    pub address: String,
}

/// State of a protocol session that all nodes share.
#[derive(Clone, Debug, minicbor::Encode, minicbor::Decode)]
pub struct ProtocolState {
    #[n(0)]
    pub revision: String,
    /// Its client asked to end the session: tool calls are refused.
    #[n(1)]
    pub drains: bool,
}

/// A protocol session that no other node knows yet.
pub struct NewProtocolSession<'a> {
    pub id: &'a str,
    pub owner: &'a str,
    pub revision: &'a str,
    pub ttl: Duration,
    pub idle: Duration,
    pub count_max: usize,
    pub per_owner_max: usize,
}

/// Messages between nodes. They name sessions by their keys, because ids are secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMessage {
    /// A program session was closed: what runs in it is to be ended.
    Closed(SessionKey),
    /// A client cancelled a call of its protocol session on a node that does not run the call.
    Cancel { session: SessionKey, call: Id },
    /// A protocol session ended.
    Ended(SessionKey),
    /// A login failed; if `block` is set, its source is blocked for that long.
    Login {
        source: String,
        block: Option<Duration>,
    },
}

impl NodeMessage {
    fn to_text(&self) -> String {
        match self {
            NodeMessage::Closed(key) => format!("closed {}", key.as_str()),
            NodeMessage::Cancel { session, call } => {
                format!("cancel {} {}", session.as_str(), call.as_json())
            }
            NodeMessage::Ended(key) => format!("ended {}", key.as_str()),
            NodeMessage::Login { source, block } => match block {
                None => format!("failed {source}"),
                Some(block) => format!("blocked {source} {}", block.as_micros()),
            },
        }
    }

    /// Returns `None` for any other text: anybody who can reach the store may have written it.
    fn from_text(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ')?;
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let login = |block| NodeMessage::Login {
            source: name.to_owned(),
            block,
        };
        Some(match word {
            "closed" => NodeMessage::Closed(SessionKey::from_digest(name)),
            "ended" => NodeMessage::Ended(SessionKey::from_digest(name)),
            "failed" => login(None),
            "blocked" => login(Some(Duration::from_micros(rest.parse().ok()?))),
            "cancel" => NodeMessage::Cancel {
                session: SessionKey::from_digest(name),
                call: Id::from_json(ptc_rpc::parse(rest.as_bytes()).ok()?),
            },
            _ => return None,
        })
    }
}

/// A session as operators see it.
pub struct ListedSession {
    pub head: SessionHead,
    pub record: SessionRecord,
}

/// Loads the keys that the settings name.
fn seal(settings: &SessionSettings) -> Result<Seal, StoreOpenError> {
    match &settings.store.key_file {
        Some(path) => Seal::from_file(path).map_err(StoreOpenError::KeyFile),
        None => Ok(Seal::none()),
    }
}

/// The report of `ptc doctor` on the store that the settings name, if any: a line and warnings. Does not change the store.
///
/// # Errors
/// The error that a start would end with.
pub fn examine(
    settings: &SessionSettings,
) -> Result<Option<(String, Vec<String>)>, StoreOpenError> {
    let Some(address) = &settings.store.address else {
        return Ok(None);
    };
    let seal = seal(settings)?;
    let summary =
        store::inspect(address).map_err(|fault| StoreOpenError::unusable(address, fault))?;
    if let Some(mark) = &summary.mark {
        verify_mark(&seal, mark).map_err(|fault| StoreOpenError::Mark {
            address: address.to_string(),
            fault,
        })?;
    }
    let keys = match seal.keys() {
        0 => "not encrypted".to_owned(),
        1 => "encrypted".to_owned(),
        keys => format!("encrypted under the first of {keys} keys"),
    };
    let sessions = match summary.sessions {
        1 => "1 session".to_owned(),
        sessions => format!("{sessions} sessions"),
    };
    let line = format!("session store: {address}: {sessions}, {keys}");
    Ok(Some((line, summary.warnings)))
}

#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    #[error("--session-store-key-file / PTC_RUNNER_MCP_SESSION_STORE_KEY_FILE: {0}")]
    KeyFile(KeyFileFault),
    #[error("--session-store / PTC_RUNNER_MCP_SESSION_STORE: cannot use {address}: {fault}")]
    Unusable { address: String, fault: StoreFault },
    #[error("--session-store / PTC_RUNNER_MCP_SESSION_STORE: cannot use {address}: {fault}")]
    Mark { address: String, fault: MarkFault },
}

impl StoreOpenError {
    fn unusable(address: &Address, fault: StoreFault) -> Self {
        StoreOpenError::Unusable {
            address: address.to_string(),
            fault,
        }
    }
}

/// Why none of the keys opens a store's mark, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum MarkFault {
    #[error("it is marked by something else")]
    Foreign,
    #[error(
        "{}: start without --session-store-key-file, or name another store",
        UnsealError::Clear
    )]
    Clear,
    #[error("{}: name it with --session-store-key-file", UnsealError::NoKey)]
    NoKey,
    #[error(
        "the key is not the one of what it holds (--session-store-key-file), or its mark was changed: name the key that it began with"
    )]
    OtherKey,
    #[error(
        "its `{MARK_CONTEXT}`, which tells the right key from a wrong one, is damaged: {0}. Put it back from a backup, or remove it: \
         the next start makes one for its own key, and what another key sealed stays unreadable"
    )]
    Damaged(UnsealError),
}

/// Associated data of sealed bytes: where they belong. They open nowhere else: not under another id, not for another owner, not beside
/// parts of another turn.
struct AssociatedData<'a> {
    key: &'a SessionKey,
    owner: &'a str,
    stamp: &'a str,
}

impl<'a> AssociatedData<'a> {
    fn of_record(record: &'a SessionRecord) -> Self {
        AssociatedData {
            key: &record.key,
            owner: &record.owner,
            stamp: &record.stamp,
        }
    }

    fn of(&self, part: &str) -> String {
        let AssociatedData { key, owner, stamp } = self;
        format!("{part} {} {owner} {stamp}", key.as_str())
    }
}

/// Checks that one of the keys opens a store's mark.
///
/// # Errors
/// Why the mark does not open.
fn verify_mark(seal: &Seal, mark: &[u8]) -> Result<(), MarkFault> {
    match seal.open(mark, MARK_CONTEXT) {
        Ok(text) if text == MARK => Ok(()),
        Ok(_) => Err(MarkFault::Foreign),
        Err(UnsealError::Clear) => Err(MarkFault::Clear),
        Err(UnsealError::NoKey) => Err(MarkFault::NoKey),
        Err(UnsealError::Refused) => Err(MarkFault::OtherKey),
        Err(
            cause @ (UnsealError::Empty
            | UnsealError::Foreign
            | UnsealError::CutOff
            | UnsealError::Damaged),
        ) => Err(MarkFault::Damaged(cause)),
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
        let head = SessionHead::of(&session.id, session.title.as_deref(), &state).to_bytes();
        let place = self.associated_data(&self.lease.holder);
        let (head, body) = self
            .shared
            .seal_parts(&place, head, record::encode_body(&state))?;
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
        super::delay_commit_for_test();
        let committed = self
            .shared
            .request(|store| store.commit(&self.lease, content));
        match committed {
            Ok(()) => self
                .shared
                .cache(&self.lease.key, &self.lease.holder, &encoded.state),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let key = SessionKey::of("mcp_1");
        let login = |block| NodeMessage::Login {
            source: "0a1b".into(),
            block,
        };
        for message in [
            NodeMessage::Closed(key.clone()),
            NodeMessage::Ended(key.clone()),
            NodeMessage::Cancel {
                session: key.clone(),
                call: Id::from_json(ptc_rpc::parse(br#""a b""#).ok().unwrap()),
            },
            login(None),
            login(Some(Duration::from_micros(1_500))),
        ] {
            let text = message.to_text();
            assert!(!text.contains("mcp_1"), "{text}");
            assert_eq!(NodeMessage::from_text(&text), Some(message));
        }
        for text in [
            "",
            "closed",
            "opened 1",
            "blocked 1 soon",
            "cancel 1",
            "cancel 1 {",
        ] {
            assert_eq!(NodeMessage::from_text(text), None, "{text:?}");
        }
    }
}
