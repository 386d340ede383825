//! Stateful sessions: who owns them, how long they live, what they keep, and that one program runs at a time in each.
//!
//! Knows nothing of MCP or of how programs run; a program hands in the surroundings that it left.
//!
//! Without a store the sessions of a process are in its memory alone, and nothing here waits for anything. With one (`shared`)
//! a session lives in the store, and here only for as long as a request takes.

mod logins;
pub mod record;
mod shared;
pub mod size;
pub mod store;
pub mod view;

#[cfg(feature = "checks")]
pub use shared::Stores;
pub use shared::{Listed, Message, NewProtocol, Protocol, Shared, examine};

use crate::call::Call;
use crate::clock;
use crate::lock::lock;
use crate::render::reason::SessionReason;
use crate::settings::{HistoryCap, SessionSettings};
use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_lang::value::{Held, Map};
use ptc_lang::{Env, Value, heap};
use ptc_protocol::members::{
    HistoryNotice, LimitExceeded, SessionLimits, SessionSummary, TurnSummary,
};
use ptc_protocol::{Field, Payload, Word};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// All sessions of a process, or of all that share its store.
pub struct Sessions {
    settings: SessionSettings,
    registry: Mutex<Registry>,
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Registry {
    live: HashMap<String, Arc<Session>>,
    closed: VecDeque<String>,
}

/// Results that a session keeps: `*1 *2 *3`.
const RESULTS_MAX: usize = 3;
/// Bytes that a session may really hold for each byte of its limit on memory. What is stored is reckoned at a compact
/// encoding (`mcp.sessions.kept`); in memory values have headers, functions their code, and regexes what they compiled.
const HELD_TIMES: u64 = 4;
/// A session that held less is not worth the time that giving memory back to the system takes.
const GIVEN_BACK_BYTES_MIN: u64 = 256 << 10;
/// Closed ids that are remembered, to be told from ids that never were.
const CLOSED_MAX: usize = 1024;

pub struct Session {
    /// Its id, a secret of its owner.
    pub id: String,
    /// Who may use it.
    pub owner: String,
    title: Option<String>,
    created_micros: i64,
    expires_micros: i64,
    /// When its life ends, whatever it does then.
    pub expires: Instant,
    /// What the clock that its times are read from is ahead of this process's.
    ahead_micros: i64,
    state: Mutex<State>,
}

/// What changes in a session.
#[derive(Clone)]
pub struct State {
    env: Env,
    /// Definitions in it.
    bindings: usize,
    /// How many of `*1 *2 *3` hold a result.
    results: usize,
    turn: u64,
    memory_bytes: u64,
    /// What the last turn left, with all that it takes in memory.
    held_bytes: u64,
    prints: VecDeque<String>,
    tool_calls: VecDeque<Payload>,
    upstream_calls: VecDeque<Payload>,
    updated_micros: i64,
    used: Instant,
    running: Option<Arc<Running>>,
    /// A program runs in it on another node.
    elsewhere: bool,
    closed: bool,
}

/// A program that runs in a session, or will once its call is taken in. While it is held and not cancelled, the session is busy.
#[derive(Default)]
pub struct Running {
    call: OnceLock<Arc<Call>>,
    end: Mutex<End>,
}

/// What ends a program's call, and answers it, when its session is closed.
#[derive(Default)]
enum End {
    /// The call is not taken in yet.
    #[default]
    Unknown,
    Known(Arc<dyn Fn() + Send + Sync>),
    /// The session is closed: whatever comes is in vain.
    Closed,
}

impl Running {
    /// Notes how the call is ended when the session is closed; at once, where it is already.
    fn ends_by(&self, end: impl Fn() + Send + Sync + 'static) {
        let mut known = lock(&self.end);
        if let End::Closed = *known {
            drop(known);
            return end();
        }
        *known = End::Known(Arc::new(end));
    }

    /// Ends the call because the session is closed.
    fn close(&self) {
        let mut known = lock(&self.end);
        let end = std::mem::replace(&mut *known, End::Closed);
        drop(known);
        if let End::Known(end) = end {
            end();
        }
    }
}

/// Why a session can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// It never was, or nobody remembers.
    NotFound,
    /// It was closed, or its life is over.
    Closed,
    /// It belongs to somebody else.
    Foreign,
    /// A program runs in it.
    Busy,
    /// The process has as many as it may.
    Full,
    /// The owner has as many as it may.
    OwnerFull,
    /// The store can't be reached.
    Away,
    /// The store went away while a turn was committed.
    Unconfirmed,
    /// The store went away while it was asked to start or to close a session.
    Unanswered,
    /// Another turn began, or the time for this one ended, before it was committed.
    Lost,
    /// This node can't read what the store holds.
    Unreadable,
    /// The store can't hold it.
    Unkept,
    /// The store is full.
    NoRoom,
    /// The client asked for the end of its session of the protocol, on whatever node.
    Drains,
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
            | SessionError::Unkept
            | SessionError::NoRoom => SessionReason::LimitExceeded,
            SessionError::Away | SessionError::Unconfirmed | SessionError::Unanswered => {
                SessionReason::StoreUnavailable
            }
            SessionError::Lost => SessionReason::LeaseLost,
            // The caller knows the protocol and chooses the words.
            SessionError::Drains => SessionReason::Closed,
            SessionError::Unreadable => SessionReason::Unreadable,
        }
    }

    /// The sentence under `message`.
    pub const fn message(self) -> &'static str {
        match self {
            SessionError::NotFound => "session not found",
            SessionError::Closed => "session is closed",
            SessionError::Foreign => "caller does not own this session",
            SessionError::Busy => "an eval is already running for this session",
            SessionError::Full => "maximum number of sessions reached",
            SessionError::OwnerFull => "maximum number of sessions for this owner reached",
            SessionError::Away => "the session store is unavailable; nothing was changed",
            SessionError::Unconfirmed => {
                "the session store became unavailable; whether this turn was kept is not known"
            }
            SessionError::Unanswered => {
                "the session store became unavailable; whether this was done is not known"
            }
            SessionError::Lost => {
                "this node lost the session before the turn was committed; nothing was kept"
            }
            SessionError::Unreadable => {
                "this server cannot read what the store holds of the session"
            }
            SessionError::Unkept => "what the session holds is too large for the store",
            SessionError::NoRoom => "the session store is full; nothing was changed",
            SessionError::Drains => "its client asked for the end of the connection",
        }
    }
}

/// The right to run one program in a session; ends when dropped.
pub struct Turn {
    pub session: Arc<Session>,
    token: Arc<Running>,
    /// The right to commit it to a store.
    lease: Option<Arc<shared::Leased>>,
}

/// A turn as it is made permanent.
pub enum Packed {
    Here(State),
    Stored(shared::Packed),
}

/// What a program leaves behind.
pub struct Leaving {
    /// The surroundings that the program left.
    pub env: Env,
    pub value: Value,
    /// The same, as it may be shown.
    pub shown: Value,
    /// What it printed, scrubbed.
    pub prints: Vec<String>,
    /// Its tool calls, scrubbed.
    pub tool_calls: Vec<Payload>,
    /// Its upstream calls, scrubbed.
    pub upstream_calls: Vec<Payload>,
}

/// A turn that keeps within all limits, ready to be made permanent.
pub struct Ready {
    state: State,
    /// What was kept as a preview only.
    pub notices: Vec<HistoryNotice>,
    /// `session` of the reply.
    pub summary: TurnSummary,
}

/// Why a turn is not kept.
enum Unkept {
    Exceeded(LimitExceeded),
    Stopped(Limit),
}

impl From<LimitExceeded> for Unkept {
    fn from(exceeded: LimitExceeded) -> Self {
        Unkept::Exceeded(exceeded)
    }
}

impl From<Limit> for Unkept {
    fn from(limit: Limit) -> Self {
        Unkept::Stopped(limit)
    }
}

/// The limit, where `actual` is more.
fn within(
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
    pub fn new(settings: SessionSettings) -> Self {
        Sessions {
            settings,
            registry: Mutex::new(Registry::default()),
            shared: None,
        }
    }

    /// Keeps sessions in a store from now on.
    pub fn keep_in(&mut self, shared: Option<Arc<Shared>>) {
        self.shared = shared;
    }

    /// The store, where there is one.
    pub fn shared(&self) -> Option<&Arc<Shared>> {
        self.shared.as_ref()
    }

    /// Whether there can be sessions at all.
    pub fn are_enabled(&self) -> bool {
        self.settings.enabled
    }

    /// Whether they can be used: false while their store is away.
    pub fn are_ready(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.is_ready())
    }

    /// A new session of `owner`; `ttl_ms` shortens its life.
    ///
    /// # Errors
    /// The cap that is met.
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
            expires: later(Instant::now(), ttl_ms),
            ahead_micros: 0,
            state: Mutex::new(State::empty(now)),
        });
        registry.live.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// The session `id`, when `owner` may use it.
    ///
    /// # Errors
    /// Why not.
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
        if self.is_over(&session) {
            registry.close(&session);
            return Err(SessionError::Closed);
        }
        match session.owner == owner {
            true => Ok(session),
            false => Err(SessionError::Foreign),
        }
    }

    /// Begins a turn in the session `id`. `within` is whose the session of the protocol is that owns it, where one does.
    ///
    /// # Errors
    /// As [`Sessions::find`] and [`Session::begin`]; [`SessionError::Drains`].
    pub fn begin(&self, id: &str, owner: &str, within: Option<&str>) -> Result<Turn, SessionError> {
        match &self.shared {
            Some(shared) => shared.begin(id, owner, within),
            None => self.find(id, owner)?.begin(),
        }
    }

    /// Removes definitions of a session and clears what `clear` names, which is a use of it. Gives the session and the names
    /// that were there.
    ///
    /// # Errors
    /// As [`Sessions::begin`].
    pub fn forget(
        &self,
        id: &str,
        owner: &str,
        bindings: &[String],
        clear: &[Clear],
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
        turn.commit(turn.pack_state(state)?)?;
        Ok((session, removed))
    }

    /// The live sessions of `owner`, the last changed first.
    ///
    /// # Errors
    /// [`SessionError::Away`], with a store.
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

    /// How many are live.
    pub fn count(&self) -> usize {
        match &self.shared {
            Some(shared) => shared.count(),
            None => self.registry().live.len(),
        }
    }

    /// Closes a session and ends the call of a program that runs in it, which is not waited for.
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

    /// Closes all sessions of an owner that is gone.
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

    /// Closes whatever is over.
    pub fn sweep(&self) {
        match &self.shared {
            // Where the store is away, it is swept later.
            Some(shared) => drop(shared.sweep()),
            None => self.sweep_locked(&mut self.registry()),
        }
    }

    /// `limits` of the replies.
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

    /// Judges what a program leaves behind, as a part of the program. Changes nothing yet.
    ///
    /// # Errors
    /// The limit that ends the program; inside, the first limit of sessions that is exceeded: definitions, their total size, one
    /// definition's size.
    pub fn judge(
        &self,
        turn: &Turn,
        leaving: Leaving,
        watch: &dyn Watch,
    ) -> Result<Result<Ready, LimitExceeded>, Limit> {
        let judged = self.judged(turn, leaving, watch);
        // Who had to stop may have counted too little.
        watch.look()?;
        match judged {
            Ok(ready) => Ok(Ok(ready)),
            Err(Unkept::Exceeded(exceeded)) => Ok(Err(exceeded)),
            Err(Unkept::Stopped(limit)) => Err(limit),
        }
    }

    fn judged(&self, turn: &Turn, leaving: Leaving, watch: &dyn Watch) -> Result<Ready, Unkept> {
        let settings = &self.settings;
        let mut env = leaving.env.with_context(Map::new());
        let definitions = env.definitions();
        let definitions_count = definitions.len();
        let count = definitions_count as u64;
        within("max_bindings", count, settings.bindings_max as u64, None)?;
        let memory_bytes = size::of_named_within(
            definitions.iter().map(|(name, value, _)| (*name, *value)),
            watch,
        )?;
        within(
            "max_memory_bytes",
            memory_bytes,
            settings.memory_bytes,
            None,
        )?;
        for (name, value, _) in &definitions {
            within(
                "max_binding_bytes",
                size::of_within(value, watch)?,
                settings.binding_bytes,
                Some(name),
            )?;
        }
        drop(definitions);
        let held_bytes = env.held_bytes();
        let held = held_bytes.div_ceil(HELD_TIMES);
        within("max_memory_bytes", held, settings.memory_bytes, None)?;
        let mut notices = Vec::new();
        env.remember(self.history_entry(leaving.value, &leaving.shown, &mut notices, watch)?);
        let mut state = turn.session.state().clone();
        state.env = env;
        state.bindings = definitions_count;
        state.results = (state.results + 1).min(RESULTS_MAX);
        state.memory_bytes = memory_bytes;
        state.held_bytes = held_bytes;
        state.turn += 1;
        state.prints.extend(leaving.prints);
        keep_newest(&mut state.prints, settings.prints, |prints| {
            size::of_texts(prints.iter().map(String::as_str))
        });
        state.tool_calls.extend(leaving.tool_calls);
        keep_newest(&mut state.tool_calls, settings.tool_calls, list_bytes);
        state.upstream_calls.extend(leaving.upstream_calls);
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
        Ok(Ready {
            state,
            notices,
            summary,
        })
    }

    /// A result as `*1` keeps it: itself, or a note of its size and start.
    fn history_entry(
        &self,
        value: Value,
        shown: &Value,
        notices: &mut Vec<HistoryNotice>,
        watch: &dyn Watch,
    ) -> Result<Value, Limit> {
        const MARKER_ITEMS: usize = 20;
        let mut held = Held::default();
        held.add(&value);
        let reckoned = size::of_within(&value, watch)?;
        let max = self.settings.history_entry_bytes;
        let bytes = match held.bytes().div_ceil(HELD_TIMES) {
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

    fn is_over(&self, session: &Session) -> bool {
        let now = Instant::now();
        let state = session.state();
        let idle = later(state.used, self.settings.idle_ms) <= now && !state.is_running();
        session.expires <= now || idle
    }

    fn sweep_locked(&self, registry: &mut Registry) {
        let over: Vec<_> = registry
            .live
            .values()
            .filter(|session| self.is_over(session))
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

/// Whether commits to a store skip what makes them safe: the fault that the test of histories has to find.
fn careless() -> bool {
    #[cfg(feature = "checks")]
    {
        static ON: OnceLock<bool> = OnceLock::new();
        *ON.get_or_init(|| std::env::var_os("PTC_CHECKS_CARELESS_COMMITS").is_some())
    }
    #[cfg(not(feature = "checks"))]
    false
}

/// Waits before a commit, where a test wants leases to end before.
fn dawdle() {
    if let Some(wait) = told_by_test("PTC_CHECKS_SLOW_COMMITS_MS") {
        std::thread::sleep(wait);
    }
}

/// How long leases last, where a test says so.
fn hasty() -> Option<Duration> {
    told_by_test("PTC_CHECKS_LEASE_MS")
}

fn told_by_test(_name: &str) -> Option<Duration> {
    #[cfg(feature = "checks")]
    {
        let ms = std::env::var(_name).ok()?.parse().ok()?;
        Some(Duration::from_millis(ms))
    }
    #[cfg(not(feature = "checks"))]
    None
}

impl State {
    /// Of a session that nobody used yet.
    fn empty(now_micros: i64) -> Self {
        State {
            env: Env::new().noting_results(),
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
            elsewhere: false,
            closed: false,
        }
    }

    fn is_running(&self) -> bool {
        let here = self
            .running
            .as_ref()
            .is_some_and(|running| !running.call.get().is_some_and(|call| call.is_cancelled()));
        here || self.elsewhere
    }
}

impl Session {
    /// Begins a turn.
    ///
    /// # Errors
    /// [`SessionError::Busy`] when a program runs already, [`SessionError::Closed`] when it is too late.
    pub fn begin(self: &Arc<Self>) -> Result<Turn, SessionError> {
        let mut state = self.state();
        if state.closed {
            return Err(SessionError::Closed);
        }
        if state.is_running() {
            return Err(SessionError::Busy);
        }
        let token = Arc::new(Running::default());
        state.running = Some(token.clone());
        Ok(Turn {
            session: self.clone(),
            token,
            lease: None,
        })
    }

    /// The surroundings that the last turn left, for the next.
    pub fn env(&self) -> Env {
        let state = self.state();
        state.env.clone().in_turn(state.turn + 1)
    }

    /// What the error of a turn says: the session as it is once that turn is over.
    pub fn summary_idle(&self) -> SessionSummary {
        SessionSummary {
            eval_status: "idle",
            updated_at: clock::text(clock::now_micros().saturating_add(self.ahead_micros)),
            ..self.summary()
        }
    }

    /// What list and inspect say about a session.
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

    /// Notes a use: the idle timer starts again.
    pub fn touch(&self) {
        let mut state = self.state();
        state.used = Instant::now();
        state.updated_micros = clock::now_micros();
    }

    /// Removes definitions and clears what `clear` names. Gives the names that were there.
    ///
    /// # Errors
    /// [`SessionError::Busy`] while a program runs.
    pub fn forget(
        &self,
        bindings: &[String],
        clear: &[Clear],
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
                Clear::Memory => {
                    let names: Vec<String> = env
                        .definitions()
                        .iter()
                        .map(|(name, ..)| (*name).to_owned())
                        .collect();
                    names.iter().for_each(|name| {
                        env.forget(name);
                    });
                }
                Clear::History => {
                    env.clear_history();
                    state.results = 0;
                }
                Clear::Prints => state.prints.clear(),
                Clear::ToolCalls => state.tool_calls.clear(),
                Clear::UpstreamCalls => state.upstream_calls.clear(),
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

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Turn {
    /// Notes the call that the program answers, so that its cancellation frees the session.
    pub fn belongs_to(&self, call: &Arc<Call>) {
        // A turn belongs to one call, so there is nothing set before.
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

    /// Notes how the call is ended when the session is closed, on whatever node; at once, where it is already.
    pub fn ends_by(&self, end: impl Fn() + Send + Sync + 'static) {
        self.token.ends_by(end);
    }

    /// Reads what the session holds, where it comes from a store. Takes as long as that is large.
    ///
    /// # Errors
    /// [`SessionError::Unreadable`].
    pub fn restore(&self) -> Result<(), SessionError> {
        match &self.lease {
            Some(lease) => lease.restore(&self.session),
            None => Ok(()),
        }
    }

    /// A turn as it is made permanent. Takes as long as the session is large, with a store.
    ///
    /// # Errors
    /// [`SessionError::Unkept`].
    pub fn pack(&self, ready: Ready) -> Result<Packed, SessionError> {
        self.pack_state(ready.state)
    }

    fn pack_state(&self, state: State) -> Result<Packed, SessionError> {
        match &self.lease {
            Some(lease) => lease.pack(&self.session, state).map(Packed::Stored),
            None => Ok(Packed::Here(state)),
        }
    }

    /// Makes a turn permanent, unless the session was closed or given to another turn meanwhile.
    ///
    /// # Errors
    /// With a store, that it was not, or that nobody knows.
    pub fn commit(&self, packed: Packed) -> Result<(), SessionError> {
        let kept = match (packed, &self.lease) {
            (Packed::Here(kept), _) => kept,
            (Packed::Stored(packed), Some(lease)) => return lease.commit(&packed),
            (Packed::Stored(_), None) => return Err(SessionError::Lost),
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

/// What a session held goes back to the system, else the process keeps it for good: programs that run later use other arenas.
impl Drop for Session {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(std::mem::take(&mut state.env));
        if state.held_bytes >= GIVEN_BACK_BYTES_MIN {
            heap::give_back();
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

/// What `lisp_session_forget` can clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    Memory,
    /// `*1 *2 *3`
    History,
    Prints,
    ToolCalls,
    UpstreamCalls,
}

impl Clear {
    /// The targets and their words.
    pub const ALL: [(&'static str, Clear); 5] = [
        ("memory", Clear::Memory),
        ("history", Clear::History),
        ("prints", Clear::Prints),
        ("tool_calls", Clear::ToolCalls),
        ("upstream_calls", Clear::UpstreamCalls),
    ];

    /// The target of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Clear::ALL
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, clear)| *clear)
    }
}

/// Drops from the front until both bounds hold.
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

/// A moment `ms` milliseconds after another; beyond the clock's range is as good as never.
fn later(start: Instant, ms: u64) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    start
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(start + CENTURY)
}

#[cfg(test)]
mod tests;
