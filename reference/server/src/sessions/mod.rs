//! Stateful sessions: who owns them, how long they live, what they keep, and that only one program at a time runs in each.
//!
//! Knows nothing of MCP or of how programs run; the caller passes in the environment that a program left.
//!
//! Without a store, sessions exist only in the memory of this process and nothing here blocks. With a store (`shared`), a session lives
//! in the store, and exists here only for the duration of a request.

mod error;
mod forget;
mod limits;
mod logins;
pub mod record;
mod shared;
pub mod size;
pub mod store;
mod test_faults;
mod turn;
pub mod view;

pub use error::SessionError;
pub use forget::ForgetTarget;
pub use limits::{CheckedTurn, TurnEffects};
pub use turn::Turn;

#[cfg(feature = "checks")]
pub use shared::StorePair;
pub use shared::{
    ListedSession, NewProtocolSession, NodeMessage, ProtocolState, SharedSessions, StoreOpenError,
    examine,
};

use self::turn::RunningTurn;
use crate::clock;
use crate::lock::lock;
use crate::settings::SessionSettings;
use ptc_lang::{Env, heap};
use ptc_protocol::members::{SessionLimits, SessionSummary};
use ptc_protocol::{Payload, Word};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

    fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
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

/// The instant `ms` milliseconds after `start`; beyond the clock's range, a century after it.
fn instant_after(start: Instant, ms: u64) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    start
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(start + CENTURY)
}

#[cfg(test)]
mod tests;
