//! Stateful sessions: who owns them, how long they live, what they keep, and that only one program at a time runs in each.
//!
//! Knows nothing of MCP or of how programs run; the caller passes in the environment that a program left.
//!
//! Without a store, sessions exist only in the memory of this process and nothing here blocks. With a store (`shared`), a session lives
//! in the store, and exists here only for the duration of a request.

mod logins;
pub mod record;
mod shared;
pub mod size;
pub mod store;
pub mod view;

#[cfg(feature = "checks")]
pub use shared::StorePair;
pub use shared::{
    ListedSession, NewProtocolSession, NodeMessage, ProtocolState, SharedSessions, StoreOpenError,
    examine,
};

use crate::call::Call;
use crate::clock;
use crate::lock::lock;
use crate::render::reason::SessionReason;
use crate::settings::{HistoryCap, SessionSettings};
use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_lang::value::{HeapSize, Map};
use ptc_lang::{Env, Value, heap};
use ptc_protocol::members::{
    HistoryNotice, LimitExceeded, SessionLimits, SessionSummary, TurnSummary,
};
use ptc_protocol::{Field, Payload, Word};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// All sessions of a process, or of all processes that share its store.
pub struct Sessions {
    settings: SessionSettings,
    registry: Mutex<Registry>,
    shared: Option<Arc<SharedSessions>>,
}

#[derive(Default)]
struct Registry {
    live: HashMap<String, Arc<Session>>,
    closed: VecDeque<String>,
}

/// Number of results that a session keeps: `*1 *2 *3`.
const RESULTS_MAX: usize = 3;
/// Bytes of real memory that a session may hold for each byte of its memory limit. The limit is computed for a compact encoding
/// (`mcp.sessions.kept`); in memory, values have headers, functions carry their code, and regexes their compiled form.
const HEAP_FACTOR: u64 = 4;
/// Below this size, returning memory to the system takes more time than it is worth.
const GIVEN_BACK_BYTES_MIN: u64 = 256 << 10;
/// Closed ids that are remembered, to distinguish them from ids that never existed.
const CLOSED_MAX: usize = 1024;

pub struct Session {
    /// A secret of the owner.
    pub id: String,
    pub owner: String,
    title: Option<String>,
    created_micros: i64,
    expires_micros: i64,
    /// The end of its life, even if a program is running.
    pub expires: Instant,
    /// How far the clock of its timestamps is ahead of this process's clock.
    ahead_micros: i64,
    state: Mutex<SessionState>,
}

/// The mutable part of a session.
#[derive(Clone)]
pub struct SessionState {
    env: Env,
    /// Number of definitions.
    bindings: usize,
    /// How many of `*1 *2 *3` hold a result.
    results: usize,
    turn: u64,
    memory_bytes: u64,
    /// Real memory held after the last turn.
    held_bytes: u64,
    prints: VecDeque<String>,
    tool_calls: VecDeque<Payload>,
    upstream_calls: VecDeque<Payload>,
    updated_micros: i64,
    used: Instant,
    running: Option<Arc<RunningTurn>>,
    /// Whether a program runs in it on another node.
    runs_elsewhere: bool,
    closed: bool,
}

/// A program that runs in a session, or will run once its call is admitted. The session is busy while this exists and is not cancelled.
#[derive(Default)]
pub struct RunningTurn {
    call: OnceLock<Arc<Call>>,
    end: Mutex<CancelHook>,
}

/// How to end and answer a program's call when its session is closed.
#[derive(Default)]
enum CancelHook {
    /// The call has not been admitted yet.
    #[default]
    Unset,
    Set(Arc<dyn Fn() + Send + Sync>),
    /// The session is closed: a call that arrives now is ended at once.
    Closed,
}

impl RunningTurn {
    /// Registers how to end the call when the session is closed. Ends it at once if the session is already closed.
    fn on_close(&self, end: impl Fn() + Send + Sync + 'static) {
        let mut known = lock(&self.end);
        if let CancelHook::Closed = *known {
            drop(known);
            return end();
        }
        *known = CancelHook::Set(Arc::new(end));
    }

    /// Ends the call because the session is closed.
    fn close(&self) {
        let mut known = lock(&self.end);
        let end = std::mem::replace(&mut *known, CancelHook::Closed);
        drop(known);
        if let CancelHook::Set(end) = end {
            end();
        }
    }
}

/// Why a session cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// It never existed, or is no longer remembered.
    NotFound,
    /// It was closed or has expired.
    Closed,
    /// It belongs to another owner.
    Foreign,
    /// A program is running in it.
    Busy,
    /// The maximum number of sessions of the process or store is reached.
    Full,
    /// The owner's maximum number of sessions is reached.
    OwnerFull,
    /// The store is unreachable.
    StoreUnavailable,
    /// The store became unreachable during the commit of a turn.
    CommitUnknown,
    /// The store became unreachable while it was asked to start or close a session.
    ChangeUnknown,
    /// Another turn began, or the lease of this one expired, before the commit.
    LeaseLost,
    /// This node cannot read the session's content in the store.
    Unreadable,
    /// The session is too large for the store.
    TooLarge,
    /// The store is full.
    StoreFull,
    /// The client asked to end its protocol session, on any node.
    Draining,
}

impl SessionError {
    pub const fn reason(self) -> SessionReason {
        match self {
            SessionError::NotFound => SessionReason::NotFound,
            SessionError::Closed => SessionReason::Closed,
            SessionError::Foreign => SessionReason::Foreign,
            SessionError::Busy => SessionReason::Busy,
            SessionError::Full
            | SessionError::OwnerFull
            | SessionError::TooLarge
            | SessionError::StoreFull => SessionReason::LimitExceeded,
            SessionError::StoreUnavailable
            | SessionError::CommitUnknown
            | SessionError::ChangeUnknown => SessionReason::StoreUnavailable,
            SessionError::LeaseLost => SessionReason::LeaseLost,
            // The caller knows the protocol session and chooses the message.
            SessionError::Draining => SessionReason::Closed,
            SessionError::Unreadable => SessionReason::Unreadable,
        }
    }

    /// The text of the reply's `message`.
    pub const fn message(self) -> &'static str {
        match self {
            SessionError::NotFound => "session not found",
            SessionError::Closed => "session is closed",
            SessionError::Foreign => "caller does not own this session",
            SessionError::Busy => "an eval is already running for this session",
            SessionError::Full => "maximum number of sessions reached",
            SessionError::OwnerFull => "maximum number of sessions for this owner reached",
            SessionError::StoreUnavailable => {
                "the session store is unavailable; nothing was changed"
            }
            SessionError::CommitUnknown => {
                "the session store became unavailable; whether this turn was kept is not known"
            }
            SessionError::ChangeUnknown => {
                "the session store became unavailable; whether this was done is not known"
            }
            SessionError::LeaseLost => {
                "this node lost the session before the turn was committed; nothing was kept"
            }
            SessionError::Unreadable => {
                "this server cannot read what the store holds of the session"
            }
            SessionError::TooLarge => "what the session holds is too large for the store",
            SessionError::StoreFull => "the session store is full; nothing was changed",
            SessionError::Draining => "its client asked for the end of the connection",
        }
    }
}

/// The right to run one program in a session; ends when dropped.
pub struct Turn {
    pub session: Arc<Session>,
    token: Arc<RunningTurn>,
    /// The right to commit the turn to a store.
    lease: Option<Arc<shared::SessionLease>>,
}

/// A turn, encoded for the commit.
pub enum PendingCommit {
    Local(SessionState),
    Stored(shared::EncodedTurn),
}

/// What a program leaves behind.
pub struct TurnEffects {
    /// The environment that the program left.
    pub env: Env,
    pub value: Value,
    /// The same value, as it may be shown.
    pub shown: Value,
    /// Its prints, scrubbed.
    pub prints: Vec<String>,
    /// Its tool calls, scrubbed.
    pub tool_calls: Vec<Payload>,
    /// Its upstream calls, scrubbed.
    pub upstream_calls: Vec<Payload>,
}

/// A turn within all limits, ready to be committed.
pub struct CheckedTurn {
    state: SessionState,
    /// Values that were kept as a preview only.
    pub notices: Vec<HistoryNotice>,
    /// The `session` member of the reply.
    pub summary: TurnSummary,
}

/// Why a turn is not kept.
enum TurnRejection {
    Exceeded(LimitExceeded),
    Stopped(Limit),
}

impl From<LimitExceeded> for TurnRejection {
    fn from(exceeded: LimitExceeded) -> Self {
        TurnRejection::Exceeded(exceeded)
    }
}

impl From<Limit> for TurnRejection {
    fn from(limit: Limit) -> Self {
        TurnRejection::Stopped(limit)
    }
}

/// Fails where `actual` exceeds `max`.
fn check_limit(
    limit: &'static str,
    actual: u64,
    max: u64,
    name: Option<&str>,
) -> Result<(), LimitExceeded> {
    if actual <= max {
        return Ok(());
    }
    Err(LimitExceeded {
        actual,
        field: match name {
            Some(_) => "binding",
            None => "memory",
        },
        limit,
        max,
        name: name.map(str::to_owned),
    })
}

impl Sessions {
    pub fn new(settings: SessionSettings, shared: Option<Arc<SharedSessions>>) -> Self {
        Sessions {
            settings,
            registry: Mutex::new(Registry::default()),
            shared,
        }
    }

    /// The store, if there is one.
    pub fn shared(&self) -> Option<&Arc<SharedSessions>> {
        self.shared.as_ref()
    }

    /// Whether sessions are enabled.
    pub fn are_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// Whether sessions can be used now: false while the store is away.
    pub fn are_ready(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.is_ready())
    }

    /// Starts a session of `owner`; `ttl_ms` can only shorten the configured lifetime.
    ///
    /// # Errors
    /// The cap that is reached.
    pub fn start(
        &self,
        owner: &str,
        title: Option<String>,
        ttl_ms: Option<u64>,
    ) -> Result<Arc<Session>, SessionError> {
        let ttl_ms = ttl_ms.unwrap_or(u64::MAX).min(self.settings.ttl_ms);
        if let Some(shared) = &self.shared {
            return shared.start(owner, title, ttl_ms);
        }
        let mut registry = self.registry();
        self.sweep_locked(&mut registry);
        if registry.live.len() >= self.settings.count_max {
            return Err(SessionError::Full);
        }
        if registry
            .live
            .values()
            .filter(|session| session.owner == owner)
            .count()
            >= self.settings.per_owner_max
        {
            return Err(SessionError::OwnerFull);
        }
        let now = clock::now_micros();
        let session = Arc::new(Session {
            id: new_id(),
            owner: owner.to_owned(),
            title,
            created_micros: now,
            expires_micros: now
                .saturating_add(i64::try_from(ttl_ms.saturating_mul(1000)).unwrap_or(i64::MAX)),
            expires: instant_after(Instant::now(), ttl_ms),
            ahead_micros: 0,
            state: Mutex::new(SessionState::empty(now)),
        });
        registry.live.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// Returns the session `id` if `owner` may use it.
    ///
    /// # Errors
    /// Why the session cannot be used.
    pub fn find(&self, id: &str, owner: &str) -> Result<Arc<Session>, SessionError> {
        if let Some(shared) = &self.shared {
            return shared.find(id, owner);
        }
        let mut registry = self.registry();
        let Some(session) = registry.live.get(id).cloned() else {
            return Err(match registry.closed.iter().any(|closed| closed == id) {
                true => SessionError::Closed,
                false => SessionError::NotFound,
            });
        };
        if self.is_expired(&session) {
            registry.close(&session);
            return Err(SessionError::Closed);
        }
        match session.owner == owner {
            true => Ok(session),
            false => Err(SessionError::Foreign),
        }
    }

    /// Begins a turn in the session `id`. `within` is the owner of the protocol session that the session belongs to, if any.
    ///
    /// # Errors
    /// As [`Sessions::find`] and [`Session::begin`]; [`SessionError::Draining`].
    pub fn begin(&self, id: &str, owner: &str, within: Option<&str>) -> Result<Turn, SessionError> {
        match &self.shared {
            Some(shared) => shared.begin(id, owner, within),
            None => self.find(id, owner)?.begin(),
        }
    }

    /// Removes definitions from a session and clears what `clear` names, which counts as a use. Returns the session and the names that
    /// were defined.
    ///
    /// # Errors
    /// As [`Sessions::begin`].
    pub fn forget(
        &self,
        id: &str,
        owner: &str,
        bindings: &[String],
        clear: &[ForgetTarget],
    ) -> Result<(Arc<Session>, Vec<String>), SessionError> {
        if self.shared.is_none() {
            let session = self.find(id, owner)?;
            let removed = session.forget(bindings, clear)?;
            session.touch();
            return Ok((session, removed));
        }
        let turn = self.begin(id, owner, None)?;
        turn.restore()?;
        let session = turn.session.clone();
        session.state().running = None;
        let removed = session.forget(bindings, clear)?;
        let state = session.state().clone();
        turn.commit(turn.prepare_state(state)?)?;
        Ok((session, removed))
    }

    /// The live sessions of `owner`, most recently changed first.
    ///
    /// # Errors
    /// [`SessionError::StoreUnavailable`], with a store.
    pub fn list(&self, owner: &str) -> Result<Vec<Arc<Session>>, SessionError> {
        let mut own: Vec<_> = match &self.shared {
            Some(shared) => shared.list(owner)?,
            None => {
                let mut registry = self.registry();
                self.sweep_locked(&mut registry);
                let live = registry.live.values();
                live.filter(|session| session.owner == owner)
                    .cloned()
                    .collect()
            }
        };
        own.sort_by_cached_key(|session| std::cmp::Reverse(session.state().updated_micros));
        Ok(own)
    }

    /// The number of live sessions.
    pub fn count(&self) -> usize {
        match &self.shared {
            Some(shared) => shared.count(),
            None => self.registry().live.len(),
        }
    }

    /// Closes a session and ends the call of a program that runs in it, without waiting for the program to stop.
    ///
    /// # Errors
    /// As [`Sessions::find`].
    pub fn close(&self, id: &str, owner: &str) -> Result<(), SessionError> {
        if let Some(shared) = &self.shared {
            return shared.close(id, owner);
        }
        let session = self.find(id, owner)?;
        self.registry().close(&session);
        let running = session.state().running.clone();
        if let Some(running) = running {
            running.close();
        }
        Ok(())
    }

    /// Closes all sessions of an owner.
    pub fn forget_owner(&self, owner: &str) {
        if let Some(shared) = &self.shared {
            return shared.forget_owner(owner);
        }
        let mut registry = self.registry();
        let own: Vec<_> = registry
            .live
            .values()
            .filter(|session| session.owner == owner)
            .cloned()
            .collect();
        own.iter().for_each(|session| registry.close(session));
    }

    /// Closes expired sessions.
    pub fn sweep(&self) {
        match &self.shared {
            // If the store is away, a later sweep closes them.
            Some(shared) => drop(shared.sweep()),
            None => self.sweep_locked(&mut self.registry()),
        }
    }

    /// The `limits` member of the replies.
    pub fn limits(&self) -> SessionLimits {
        let settings = &self.settings;
        SessionLimits {
            max_binding_bytes: settings.binding_bytes,
            max_bindings: settings.bindings_max,
            max_history_entry_bytes: settings.history_entry_bytes,
            max_idle_ms: settings.idle_ms,
            max_memory_bytes: settings.memory_bytes,
            max_print_bytes: settings.prints.bytes,
            max_print_entries: settings.prints.entries,
            max_tool_call_bytes: settings.tool_calls.bytes,
            max_tool_call_entries: settings.tool_calls.entries,
            max_upstream_call_bytes: settings.upstream_calls.bytes,
            max_upstream_call_entries: settings.upstream_calls.entries,
        }
    }

    /// Checks what a program leaves behind against the limits, as a part of the program. Changes nothing yet.
    ///
    /// # Errors
    /// The limit that ends the program. The inner result is the first session limit that is exceeded: number of definitions, their total
    /// size, the size of one definition.
    pub fn check_limits(
        &self,
        turn: &Turn,
        effects: TurnEffects,
        watch: &dyn Watch,
    ) -> Result<Result<CheckedTurn, LimitExceeded>, Limit> {
        let judged = self.check_turn(turn, effects, watch);
        // A count that was interrupted may be too low.
        watch.check_limits()?;
        match judged {
            Ok(checked) => Ok(Ok(checked)),
            Err(TurnRejection::Exceeded(exceeded)) => Ok(Err(exceeded)),
            Err(TurnRejection::Stopped(limit)) => Err(limit),
        }
    }

    fn check_turn(
        &self,
        turn: &Turn,
        effects: TurnEffects,
        watch: &dyn Watch,
    ) -> Result<CheckedTurn, TurnRejection> {
        let settings = &self.settings;
        let mut env = effects.env.with_context(Map::new());
        let definitions = env.definitions();
        let definitions_count = definitions.len();
        let count = definitions_count as u64;
        check_limit("max_bindings", count, settings.bindings_max as u64, None)?;
        let memory_bytes = size::of_named_within(
            definitions.iter().map(|(name, value, _)| (*name, *value)),
            watch,
        )?;
        check_limit(
            "max_memory_bytes",
            memory_bytes,
            settings.memory_bytes,
            None,
        )?;
        for (name, value, _) in &definitions {
            check_limit(
                "max_binding_bytes",
                size::of_within(value, watch)?,
                settings.binding_bytes,
                Some(name),
            )?;
        }
        drop(definitions);
        let held_bytes = env.held_bytes();
        let held = held_bytes.div_ceil(HEAP_FACTOR);
        check_limit("max_memory_bytes", held, settings.memory_bytes, None)?;
        let mut notices = Vec::new();
        env.remember(self.history_entry(effects.value, &effects.shown, &mut notices, watch)?);
        let mut state = turn.session.state().clone();
        state.env = env;
        state.bindings = definitions_count;
        state.results = (state.results + 1).min(RESULTS_MAX);
        state.memory_bytes = memory_bytes;
        state.held_bytes = held_bytes;
        state.turn += 1;
        state.prints.extend(effects.prints);
        keep_newest(&mut state.prints, settings.prints, |prints| {
            size::of_texts(prints.iter().map(String::as_str))
        });
        state.tool_calls.extend(effects.tool_calls);
        keep_newest(&mut state.tool_calls, settings.tool_calls, list_bytes);
        state.upstream_calls.extend(effects.upstream_calls);
        keep_newest(
            &mut state.upstream_calls,
            settings.upstream_calls,
            list_bytes,
        );
        let summary = TurnSummary {
            binding_count: count,
            memory_bytes,
            session_id: Word(turn.session.id.clone()),
            turn: state.turn,
        };
        Ok(CheckedTurn {
            state,
            notices,
            summary,
        })
    }

    /// A result as `*1` keeps it: the value itself, or a marker with its size and a preview.
    fn history_entry(
        &self,
        value: Value,
        shown: &Value,
        notices: &mut Vec<HistoryNotice>,
        watch: &dyn Watch,
    ) -> Result<Value, Limit> {
        const MARKER_ITEMS: usize = 20;
        let mut heap_size = HeapSize::default();
        heap_size.add(&value);
        let reckoned = size::of_within(&value, watch)?;
        let max = self.settings.history_entry_bytes;
        let bytes = match heap_size.bytes().div_ceil(HEAP_FACTOR) {
            held if held > max => held.max(reckoned),
            _ => reckoned,
        };
        if bytes <= max {
            return Ok(value);
        }
        notices.push(HistoryNotice {
            bytes,
            field: "*1",
            max_bytes: max,
            message: "*1 stored as preview; original value exceeded max_session_history_entry_bytes",
            reason: "max_history_entry_bytes",
        });
        let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let chars = ptc_lang::print::PREVIEW_GRAPHEMES;
        let preview = ptc_lang::print::preview_within(shown, MARKER_ITEMS, chars, watch)?;
        let mut marker = Map::new();
        marker.insert(Value::keyword("lisp_session_preview"), Value::Bool(true));
        let least = marker.clone();
        marker.insert(Value::keyword("bytes"), int(bytes));
        marker.insert(Value::keyword("max_bytes"), int(max));
        marker.insert(
            Value::keyword("reason"),
            Value::keyword("max_history_entry_bytes"),
        );
        let short = marker.clone();
        marker.insert(Value::keyword("preview"), Value::str(preview));
        Ok([marker, short]
            .into_iter()
            .map(Value::Map)
            .find(|marker| size::of(marker) <= max)
            .unwrap_or(Value::Map(least)))
    }

    fn is_expired(&self, session: &Session) -> bool {
        let now = Instant::now();
        let state = session.state();
        let idle = instant_after(state.used, self.settings.idle_ms) <= now && !state.is_running();
        session.expires <= now || idle
    }

    fn sweep_locked(&self, registry: &mut Registry) {
        let over: Vec<_> = registry
            .live
            .values()
            .filter(|session| self.is_expired(session))
            .cloned()
            .collect();
        over.iter().for_each(|session| registry.close(session));
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }
}

impl Registry {
    fn close(&mut self, session: &Arc<Session>) {
        if self.live.remove(&session.id).is_none() {
            return;
        }
        session.state().closed = true;
        if self.closed.len() == CLOSED_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back(session.id.clone());
    }
}

/// A new id: a secret of its owner.
fn new_id() -> String {
    format!("ptcs_{}", crate::token::random(18))
}

/// Whether commits to a store skip their safety checks: the fault that the history test must detect.
fn skips_commit_checks() -> bool {
    #[cfg(feature = "checks")]
    {
        static ON: OnceLock<bool> = OnceLock::new();
        *ON.get_or_init(|| std::env::var_os("PTC_CHECKS_CARELESS_COMMITS").is_some())
    }
    #[cfg(not(feature = "checks"))]
    false
}

/// Delays a commit where a test wants leases to expire first.
fn delay_commit_for_test() {
    if let Some(wait) = duration_from_environment("PTC_CHECKS_SLOW_COMMITS_MS") {
        std::thread::sleep(wait);
    }
}

/// The duration of leases, where a test sets it.
fn lease_for_test() -> Option<Duration> {
    duration_from_environment("PTC_CHECKS_LEASE_MS")
}

fn duration_from_environment(_name: &str) -> Option<Duration> {
    #[cfg(feature = "checks")]
    {
        let ms = std::env::var(_name).ok()?.parse().ok()?;
        Some(Duration::from_millis(ms))
    }
    #[cfg(not(feature = "checks"))]
    None
}

impl SessionState {
    /// The state of a new session.
    fn empty(now_micros: i64) -> Self {
        SessionState {
            env: Env::new().recording_results(),
            bindings: 0,
            results: 0,
            turn: 0,
            memory_bytes: size::of_named(std::iter::empty()),
            held_bytes: 0,
            prints: VecDeque::new(),
            tool_calls: VecDeque::new(),
            upstream_calls: VecDeque::new(),
            updated_micros: now_micros,
            used: Instant::now(),
            running: None,
            runs_elsewhere: false,
            closed: false,
        }
    }

    fn is_running(&self) -> bool {
        let here = self
            .running
            .as_ref()
            .is_some_and(|running| !running.call.get().is_some_and(|call| call.is_cancelled()));
        here || self.runs_elsewhere
    }
}

impl Session {
    /// Begins a turn.
    ///
    /// # Errors
    /// [`SessionError::Busy`] when a program is already running, [`SessionError::Closed`] when the session is closed.
    pub fn begin(self: &Arc<Self>) -> Result<Turn, SessionError> {
        let mut state = self.state();
        if state.closed {
            return Err(SessionError::Closed);
        }
        if state.is_running() {
            return Err(SessionError::Busy);
        }
        let token = Arc::new(RunningTurn::default());
        state.running = Some(token.clone());
        Ok(Turn {
            session: self.clone(),
            token,
            lease: None,
        })
    }

    /// The environment for the next turn.
    pub fn env(&self) -> Env {
        let state = self.state();
        state.env.clone().in_turn(state.turn + 1)
    }

    /// The summary for the error of a turn: the session as it is once that turn is over.
    pub fn summary_idle(&self) -> SessionSummary {
        SessionSummary {
            eval_status: "idle",
            updated_at: clock::text(clock::now_micros().saturating_add(self.ahead_micros)),
            ..self.summary()
        }
    }

    /// The summary of a session for list and inspect.
    pub fn summary(&self) -> SessionSummary {
        let state = self.state();
        SessionSummary {
            binding_count: state.bindings,
            created_at: clock::text(self.created_micros),
            eval_status: match state.is_running() {
                true => "running",
                false => "idle",
            },
            expires_at: self.expires_at(),
            memory_bytes: state.memory_bytes,
            session_id: Word(self.id.clone()),
            title: self.title.clone(),
            turn: state.turn,
            updated_at: clock::text(state.updated_micros),
        }
    }

    /// The end of its life as text.
    pub fn expires_at(&self) -> String {
        clock::text(self.expires_micros)
    }

    /// Records a use: restarts the idle timer.
    pub fn touch(&self) {
        let mut state = self.state();
        state.used = Instant::now();
        state.updated_micros = clock::now_micros();
    }

    /// Removes definitions and clears what `clear` names. Returns the names that were defined.
    ///
    /// # Errors
    /// [`SessionError::Busy`] while a program runs.
    pub fn forget(
        &self,
        bindings: &[String],
        clear: &[ForgetTarget],
    ) -> Result<Vec<String>, SessionError> {
        let mut state = self.state();
        if state.is_running() {
            return Err(SessionError::Busy);
        }
        let mut env = state.env.clone();
        let mut removed: Vec<String> = bindings
            .iter()
            .filter(|name| env.forget(name))
            .cloned()
            .collect();
        removed.sort();
        removed.dedup();
        for target in clear {
            match target {
                ForgetTarget::Memory => {
                    let names: Vec<String> = env
                        .definitions()
                        .iter()
                        .map(|(name, ..)| (*name).to_owned())
                        .collect();
                    names.iter().for_each(|name| {
                        env.forget(name);
                    });
                }
                ForgetTarget::History => {
                    env.clear_history();
                    state.results = 0;
                }
                ForgetTarget::Prints => state.prints.clear(),
                ForgetTarget::ToolCalls => state.tool_calls.clear(),
                ForgetTarget::UpstreamCalls => state.upstream_calls.clear(),
            }
        }
        state.memory_bytes = size::of_named(
            env.definitions()
                .iter()
                .map(|(name, value, _)| (*name, *value)),
        );
        state.bindings = env.definitions().len();
        state.env = env;
        Ok(removed)
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
    }
}

impl Turn {
    /// Records the call that the program answers, so that cancelling the call frees the session.
    pub fn attach_call(&self, call: &Arc<Call>) {
        // A turn belongs to one call, so the cell is empty here.
        let _ = self.token.call.set(call.clone());
        if let Some(lease) = &self.lease {
            let lease = Arc::downgrade(lease);
            call.on_cancel(move || {
                if let Some(lease) = lease.upgrade() {
                    lease.release();
                }
            });
        }
    }

    /// Registers how to end the call when the session is closed on any node. Ends it at once if the session is already closed.
    pub fn on_close(&self, end: impl Fn() + Send + Sync + 'static) {
        self.token.on_close(end);
    }

    /// Decodes the session's content if it comes from a store. Takes time in proportion to the content's size.
    ///
    /// # Errors
    /// [`SessionError::Unreadable`].
    pub fn restore(&self) -> Result<(), SessionError> {
        match &self.lease {
            Some(lease) => lease.restore(&self.session),
            None => Ok(()),
        }
    }

    /// Encodes a turn for the commit. With a store, takes time in proportion to the session's size.
    ///
    /// # Errors
    /// [`SessionError::TooLarge`].
    pub fn encode(&self, checked: CheckedTurn) -> Result<PendingCommit, SessionError> {
        self.prepare_state(checked.state)
    }

    fn prepare_state(&self, state: SessionState) -> Result<PendingCommit, SessionError> {
        match &self.lease {
            Some(lease) => lease
                .encode(&self.session, state)
                .map(PendingCommit::Stored),
            None => Ok(PendingCommit::Local(state)),
        }
    }

    /// Commits a turn, unless the session was closed or given to another turn in the meantime.
    ///
    /// # Errors
    /// With a store: that the commit was refused, or that its outcome is unknown.
    pub fn commit(&self, encoded: PendingCommit) -> Result<(), SessionError> {
        let kept = match (encoded, &self.lease) {
            (PendingCommit::Local(kept), _) => kept,
            (PendingCommit::Stored(encoded), Some(lease)) => return lease.commit(&encoded),
            (PendingCommit::Stored(_), None) => return Err(SessionError::LeaseLost),
        };
        let mut state = self.session.state();
        let own = state
            .running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, &self.token));
        if own && !state.closed {
            let running = state.running.take();
            *state = kept;
            state.running = running;
        }
        Ok(())
    }
}

/// Returns the session's memory to the system. Otherwise the process would keep it for good, because later programs use other arenas.
impl Drop for Session {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::take(&mut state.env));
        if state.held_bytes >= GIVEN_BACK_BYTES_MIN {
            heap::trim();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.session.state();
        state.used = Instant::now();
        state.updated_micros = clock::now_micros();
        if state
            .running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, &self.token))
        {
            state.running = None;
        }
    }
}

/// Targets that `lisp_session_forget` can clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetTarget {
    Memory,
    /// `*1 *2 *3`
    History,
    Prints,
    ToolCalls,
    UpstreamCalls,
}

impl ForgetTarget {
    /// All targets and their names in requests.
    pub const ALL: [(&'static str, ForgetTarget); 5] = [
        ("memory", ForgetTarget::Memory),
        ("history", ForgetTarget::History),
        ("prints", ForgetTarget::Prints),
        ("tool_calls", ForgetTarget::ToolCalls),
        ("upstream_calls", ForgetTarget::UpstreamCalls),
    ];

    pub fn from_word(word: &str) -> Option<Self> {
        ForgetTarget::ALL
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, clear)| *clear)
    }
}

/// Drops items from the front until both bounds hold.
fn keep_newest<T>(items: &mut VecDeque<T>, cap: HistoryCap, bytes: impl Fn(&VecDeque<T>) -> u64) {
    while items.len() > cap.entries {
        items.pop_front();
    }
    while !items.is_empty() && bytes(items) > cap.bytes {
        items.pop_front();
    }
}

fn list_bytes(items: &VecDeque<Payload>) -> u64 {
    2 + items
        .iter()
        .map(|item| Field::Object(item.clone()).json_bytes() as u64 + 1)
        .sum::<u64>()
}

/// The instant `ms` milliseconds after `start`; beyond the clock's range, a century after it.
fn instant_after(start: Instant, ms: u64) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    start
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(start + CENTURY)
}

#[cfg(test)]
mod tests;
