//! Nodes that share a faulty store: it fails, delays, gets requests twice, loses replies, and receives requests after nobody waits for
//! them any more, under a scheduler whose every decision comes from one source. Each turn appends its number to a list that the session
//! keeps, so the final list shows which turns were kept, and in which order; clients know what they were told. Knows no transport, and
//! runs no programs.

use ptc_lang::meter::Unwatched;
use ptc_lang::{Env, Value};
use ptc_server::checks::sessions::store::{
    FailedLogin, Lease, LeaseRequest, LoginFailure, NewSession, RecordTimes, SealedContent,
    SessionKey, SessionRecord, SessionStore, StoreError, StoreResult,
};
use ptc_server::checks::sessions::{
    SessionError, Sessions, SharedSessions, StorePair, Turn, TurnEffects,
};
use ptc_server::checks::simulate::{Choices, SimulationReport};
use ptc_server::settings::Settings;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const NODES: usize = 3;
const SESSIONS_MAX: usize = 3;
const STEPS: usize = 60;
const OWNER: &str = "owner";
/// A program's limit; leases last a little longer.
const PROGRAM: Duration = Duration::from_secs(2);

/// The content of a store, and its clock in microseconds.
struct Ledger {
    now: i64,
    sessions: BTreeMap<SessionKey, StoredSession>,
    closed: Vec<SessionKey>,
    /// Whether it checks commits.
    careful: bool,
}

struct StoredSession {
    record: SessionRecord,
    body: Vec<u8>,
    fence: u64,
    committed: u64,
    holder: String,
    until: i64,
}

impl StoredSession {
    fn is_held_by(&self, lease: &Lease) -> bool {
        self.fence == lease.fence && self.holder == lease.holder
    }
}

impl Ledger {
    fn find(&mut self, key: &SessionKey, owner: &str) -> StoreResult<&mut StoredSession> {
        match self.sessions.get_mut(key) {
            None if self.closed.contains(key) => Err(SessionError::Closed.into()),
            None => Err(SessionError::NotFound.into()),
            Some(held) if held.record.owner != owner => Err(SessionError::Foreign.into()),
            Some(held) => Ok(held),
        }
    }

    fn create(&mut self, new: &NewSession<'_>) -> StoreResult<RecordTimes> {
        let live = self.sessions.len();
        if !self.sessions.contains_key(new.key) && live >= new.count_max {
            return Err(SessionError::Full.into());
        }
        let now = self.now;
        let times = RecordTimes {
            created: now,
            expires: i64::MAX,
            used: now,
            now,
        };
        let fresh = || StoredSession {
            record: SessionRecord {
                key: new.key.clone(),
                owner: new.owner.to_owned(),
                version: 0,
                stamp: new.stamp.to_owned(),
                times,
                running: false,
                head: new.content.head.to_vec(),
                body: None,
            },
            body: new.content.body.to_vec(),
            fence: 0,
            committed: 0,
            holder: String::new(),
            until: 0,
        };
        let held = self.sessions.entry(new.key.clone()).or_insert_with(fresh);
        Ok(held.record.times)
    }

    fn read(
        &mut self,
        key: &SessionKey,
        owner: &str,
        known: Option<&str>,
    ) -> StoreResult<SessionRecord> {
        let now = self.now;
        let held = self.find(key, owner)?;
        let mut record = held.record.clone();
        record.running = held.until > now;
        record.body = (known != Some(record.stamp.as_str())).then(|| held.body.clone());
        Ok(record)
    }

    fn acquire(&mut self, acquire: &LeaseRequest<'_>) -> StoreResult<(SessionRecord, Lease)> {
        let now = self.now;
        let held = self.find(acquire.key, acquire.owner)?;
        if held.until > now && held.holder != acquire.holder {
            return Err(SessionError::Busy.into());
        }
        if held.until <= now {
            held.fence += 1;
            held.holder = acquire.holder.to_owned();
            held.until = now + i64::try_from(acquire.term.as_micros()).unwrap_or(i64::MAX / 2);
        }
        let lease = Lease {
            key: acquire.key.clone(),
            fence: held.fence,
            version: held.record.version,
            holder: acquire.holder.to_owned(),
        };
        let mut record = self.read(acquire.key, acquire.owner, acquire.known)?;
        record.running = false;
        Ok((record, lease))
    }

    fn commit(&mut self, lease: &Lease, head: &[u8], body: &[u8]) -> StoreResult<()> {
        let (now, careful) = (self.now, self.careful);
        let held = self
            .sessions
            .get_mut(&lease.key)
            .ok_or(SessionError::Closed)?;
        if held.committed == lease.fence && held.record.stamp == lease.holder {
            return Ok(());
        }
        let holds = held.is_held_by(lease) && held.until > now;
        if careful && (!holds || held.record.version != lease.version) {
            return Err(SessionError::LeaseLost.into());
        }
        held.record.version += 1;
        held.record.stamp.clone_from(&lease.holder);
        held.record.head = head.to_vec();
        held.body = body.to_vec();
        held.committed = lease.fence;
        held.until = 0;
        Ok(())
    }

    fn release(&mut self, lease: &Lease) {
        if let Some(held) = self.sessions.get_mut(&lease.key)
            && held.is_held_by(lease)
        {
            held.until = 0;
        }
    }

    fn close(&mut self, key: &SessionKey, owner: &str) -> StoreResult<()> {
        self.find(key, owner)?;
        self.sessions.remove(key);
        self.closed.push(key.clone());
        Ok(())
    }
}

/// A request that was sent and has not arrived.
type LateRequest = Box<dyn FnOnce(&mut Ledger) + Send>;

/// The connection to the ledger, shared by all nodes.
struct FaultyChannel {
    ledger: Ledger,
    choices: Choices,
    late: Vec<LateRequest>,
    /// The percentage of requests that meet a fault.
    faults: usize,
    /// Number of faults so far.
    made: usize,
    outcomes: BTreeMap<String, usize>,
}

impl FaultyChannel {
    fn note(&mut self, what: &str) {
        *self.outcomes.entry(what.to_owned()).or_default() += 1;
    }

    fn pass_time(&mut self) {
        let ms = self.choices.one_of(&[1, 100, 2_000, 6_000]);
        self.ledger.now += ms * 1000;
    }

    fn unavailable(&mut self, what: &str) -> StoreError {
        self.made += 1;
        self.note(what);
        StoreError::Unavailable(what.to_owned())
    }

    /// Sends a request to the ledger, which may meet a fault.
    fn ask<T>(
        &mut self,
        commits: bool,
        ask: impl Fn(&mut Ledger) -> StoreResult<T> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        if !self.choices.percent(self.faults) {
            return ask(&mut self.ledger);
        }
        match self.choices.below(6) {
            0 => Err(self.unavailable("it fails")),
            1 => {
                // It takes effect, but its reply is lost.
                let _ = ask(&mut self.ledger);
                Err(self.unavailable("its answer is lost"))
            }
            2 => {
                self.late.push(Box::new(move |ledger| drop(ask(ledger))));
                Err(self.unavailable("it arrives late"))
            }
            3 => {
                self.note("it is asked twice");
                let _ = ask(&mut self.ledger);
                match ask(&mut self.ledger) {
                    // Like `redis.rs`: the first attempt may have committed.
                    Err(StoreError::Rejected(_)) if commits => {
                        Err(self.unavailable("asked twice, refused"))
                    }
                    answer => answer,
                }
            }
            4 => {
                self.note("it is slow to arrive");
                self.pass_time();
                ask(&mut self.ledger)
            }
            _ => {
                self.note("its answer is slow");
                let answer = ask(&mut self.ledger);
                self.pass_time();
                answer
            }
        }
    }
}

/// One node's view of the store. Requests of a dead node are never sent.
struct FaultyStore {
    channel: Arc<Mutex<FaultyChannel>>,
    dead: Arc<Mutex<bool>>,
}

impl FaultyStore {
    fn ask<T>(
        &self,
        commits: bool,
        ask: impl Fn(&mut Ledger) -> StoreResult<T> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let mut channel = lock(&self.channel);
        if *lock(&self.dead) {
            return Err(StoreError::Unavailable("its node is dead".into()));
        }
        channel.ask(commits, ask)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionStore for FaultyStore {
    fn mark(&self, fresh: &[u8], _: Option<&[u8]>) -> StoreResult<Vec<u8>> {
        Ok(fresh.to_vec())
    }

    fn create(&self, new: &NewSession<'_>) -> StoreResult<RecordTimes> {
        let (key, owner, stamp) = (new.key.clone(), new.owner.to_owned(), new.stamp.to_owned());
        let (head, body) = (new.content.head.to_vec(), new.content.body.to_vec());
        let (ttl, idle) = (new.ttl, new.idle);
        let (count_max, per_owner_max) = (new.count_max, new.per_owner_max);
        self.ask(false, move |ledger| {
            ledger.create(&NewSession {
                key: &key,
                owner: &owner,
                ttl,
                idle,
                count_max,
                per_owner_max,
                stamp: &stamp,
                content: SealedContent {
                    head: &head,
                    body: &body,
                },
            })
        })
    }

    fn read(
        &self,
        key: &SessionKey,
        owner: &str,
        known: Option<&str>,
    ) -> StoreResult<SessionRecord> {
        let (key, owner, known) = (key.clone(), owner.to_owned(), known.map(str::to_owned));
        self.ask(false, move |ledger| {
            ledger.read(&key, &owner, known.as_deref())
        })
    }

    fn acquire(&self, acquire: &LeaseRequest<'_>) -> StoreResult<(SessionRecord, Lease)> {
        let (key, owner) = (acquire.key.clone(), acquire.owner.to_owned());
        let known = acquire.known.map(str::to_owned);
        let (holder, term) = (acquire.holder.to_owned(), acquire.term);
        self.ask(false, move |ledger| {
            ledger.acquire(&LeaseRequest {
                key: &key,
                owner: &owner,
                known: known.as_deref(),
                holder: &holder,
                term,
            })
        })
    }

    fn commit(&self, lease: &Lease, content: SealedContent<'_>) -> StoreResult<()> {
        let (lease, head, body) = (lease.clone(), content.head.to_vec(), content.body.to_vec());
        self.ask(true, move |ledger| ledger.commit(&lease, &head, &body))
    }

    fn release(&self, lease: &Lease) -> StoreResult<()> {
        let lease = lease.clone();
        self.ask(false, move |ledger| {
            ledger.release(&lease);
            Ok(())
        })
    }

    fn close(&self, key: &SessionKey, owner: &str) -> StoreResult<()> {
        let (key, owner) = (key.clone(), owner.to_owned());
        self.ask(false, move |ledger| ledger.close(&key, &owner))
    }

    fn close_owner(&self, _: &str) -> StoreResult<()> {
        Ok(())
    }

    fn list(&self, owner: Option<&str>) -> StoreResult<Vec<SessionRecord>> {
        let owner = owner.map(str::to_owned);
        self.ask(false, move |ledger| {
            let own = ledger.sessions.values().map(|held| held.record.clone());
            let own = own.filter(|record| owner.as_ref().is_none_or(|own| *own == record.owner));
            Ok(own.collect())
        })
    }

    fn sweep(&self) -> StoreResult<usize> {
        self.ask(false, |ledger| Ok(ledger.sessions.len()))
    }

    fn login_failed(&self, _: &FailedLogin<'_>) -> StoreResult<LoginFailure> {
        Ok(LoginFailure::Counted)
    }

    fn login_succeeded(&self, _: &str) -> StoreResult<()> {
        Ok(())
    }
}

struct Node {
    sessions: Sessions,
    dead: Arc<Mutex<bool>>,
}

/// A session as clients know it.
struct KnownSession {
    id: String,
    /// Numbers of acknowledged turns, in the order of the replies.
    acknowledged: Vec<i64>,
    /// Turns that a client was told are not kept.
    refused: Vec<i64>,
    closed: bool,
    /// A closing was requested, and its outcome is unknown.
    perhaps_closed: bool,
}

/// A running turn.
struct OpenTurn {
    node: usize,
    session: usize,
    number: i64,
    turn: Turn,
    env: Env,
    /// When its lease expires.
    until: i64,
}

struct Simulation {
    channel: Arc<Mutex<FaultyChannel>>,
    nodes: Vec<Node>,
    known: Vec<KnownSession>,
    open: Vec<OpenTurn>,
    choices: Choices,
    turns: i64,
    text: String,
}

/// Runs one simulation. A careless store accepts every commit, which must be detected.
///
/// # Panics
/// When what clients were told cannot be true; the message contains the story so far.
pub fn run(seed: u64, careful: bool) -> SimulationReport {
    let mut choices = Choices::Seed(seed);
    let faults = choices.one_of(&[0, 5, 15, 40]);
    let channel = FaultyChannel {
        ledger: Ledger {
            now: 1,
            sessions: BTreeMap::new(),
            closed: Vec::new(),
            careful,
        },
        choices: Choices::Seed(!seed),
        late: Vec::new(),
        faults,
        made: 0,
        outcomes: BTreeMap::new(),
    };
    let mut simulation = Simulation {
        channel: Arc::new(Mutex::new(channel)),
        nodes: Vec::new(),
        known: Vec::new(),
        open: Vec::new(),
        choices,
        turns: 0,
        text: String::new(),
    };
    (0..NODES).for_each(|_| {
        let node = simulation.node();
        simulation.nodes.push(node);
    });
    (0..STEPS).for_each(|_| simulation.step());
    simulation.end();
    let outcomes = std::mem::take(&mut lock(&simulation.channel).outcomes);
    SimulationReport {
        text: simulation.text,
        outcomes,
    }
}

/// The numbers that a session keeps.
fn numbers(env: &Env) -> Vec<i64> {
    let definitions = env.definitions();
    let list = definitions.iter().find(|(name, ..)| *name == "turns");
    let Some((_, Value::Vector(items), _)) = list else {
        return Vec::new();
    };
    let numbers = items.iter().map(|item| match item {
        Value::Int(number) => *number,
        _ => -1,
    });
    numbers.collect()
}

impl Simulation {
    fn node(&self) -> Node {
        let dead = Arc::new(Mutex::new(false));
        let store = || FaultyStore {
            channel: self.channel.clone(),
            dead: dead.clone(),
        };
        let flags = [
            "--sessions".to_owned(),
            format!("--max-sessions={SESSIONS_MAX}"),
        ];
        let settings = Settings::read(&flags, |_| None).expect("the flags are valid");
        let stores = StorePair {
            programs: Box::new(store()),
            protocol: Box::new(store()),
            address: "simulated".into(),
        };
        let shared = SharedSessions::simulated(stores, &settings.sessions, PROGRAM);
        let sessions = Sessions::new(settings.sessions, Some(shared));
        Node { sessions, dead }
    }

    fn log(&mut self, what: &str, outcome: &str) {
        let _ = writeln!(self.text, "{what}: {outcome}");
        lock(&self.channel).note(outcome);
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}", self.text)
    }

    /// Checks that an uncertain reply has a reason: it must come from a fault that was made.
    fn check_justified(&self, refused: SessionError, before: usize) {
        let away = matches!(
            refused,
            SessionError::StoreUnavailable
                | SessionError::CommitUnknown
                | SessionError::ChangeUnknown
        );
        if away && lock(&self.channel).made == before {
            self.fail("the store was reported unavailable, but was reachable");
        }
        if refused == SessionError::Unreadable {
            self.fail("what was written can't be read");
        }
    }

    fn step(&mut self) {
        let node = self.choices.below(NODES);
        let made = lock(&self.channel).made;
        match self.choices.below(12) {
            0 if self.known.len() < SESSIONS_MAX => self.start(node, made),
            0..5 if !self.known.is_empty() => self.begin(node, made),
            5..8 if !self.open.is_empty() => self.finish(made),
            8 if !self.open.is_empty() => {
                let at = self.choices.below(self.open.len());
                let open = self.open.swap_remove(at);
                // The turn failed or was cancelled: its lease is released.
                self.known[open.session].refused.push(open.number);
                self.log(&format!("turn {}", open.number), "failed");
            }
            9 => {
                let mut channel = lock(&self.channel);
                if !channel.late.is_empty() {
                    let count = channel.late.len();
                    let at = channel.choices.below(count);
                    let late = channel.late.swap_remove(at);
                    late(&mut channel.ledger);
                    drop(channel);
                    self.log("late", "arrived");
                }
            }
            10 => lock(&self.channel).pass_time(),
            _ => match self.choices.below(4) {
                0 => self.kill(node),
                1 if !self.known.is_empty() => self.close(node, made),
                _ => self.list(node, made),
            },
        }
    }

    fn start(&mut self, node: usize, made: usize) {
        let before = lock(&self.channel).ledger.sessions.len();
        let outcome = match self.nodes[node].sessions.start(OWNER, None, None) {
            Ok(session) => {
                self.known.push(KnownSession {
                    id: session.id.clone(),
                    acknowledged: Vec::new(),
                    refused: Vec::new(),
                    closed: false,
                    perhaps_closed: false,
                });
                "started"
            }
            Err(refused) => {
                self.check_justified(refused, made);
                let left = lock(&self.channel).ledger.sessions.len() > before;
                if left && refused != SessionError::ChangeUnknown {
                    self.fail("a start reported as not done left a session");
                }
                refused.reason().name()
            }
        };
        self.log("start", outcome);
    }

    fn begin(&mut self, node: usize, made: usize) {
        let session = self.choices.below(self.known.len());
        let acknowledged = self.known[session].acknowledged.len();
        let begun = self.nodes[node]
            .sessions
            .begin(&self.known[session].id, OWNER, None);
        let turn = match begun {
            Ok(turn) => turn,
            Err(refused) => {
                self.check_justified(refused, made);
                let known = &self.known[session];
                let over = matches!(refused, SessionError::Closed | SessionError::NotFound);
                if over && !known.closed && !known.perhaps_closed {
                    self.fail("a session is gone that nobody closed");
                }
                self.log(&format!("begin in {session}"), refused.reason().name());
                return;
            }
        };
        if self.known[session].closed {
            self.fail("a closed session is there");
        }
        if let Err(refused) = turn.restore() {
            self.check_justified(refused, made);
            return;
        }
        let now = lock(&self.channel).ledger.now;
        let others = self.open.iter().filter(|open| open.session == session);
        if others.clone().any(|open| open.until > now) && lock(&self.channel).ledger.careful {
            self.fail("two programs run in one session");
        }
        let mut env = turn.session.env();
        let seen = numbers(&env);
        let known = &self.known[session];
        if let Some(missing) = known.acknowledged[..acknowledged]
            .iter()
            .find(|number| !seen.contains(number))
        {
            self.fail(&format!("turn {missing} was acknowledged, and is not seen"));
        }
        // The lease that was granted, whatever happened to the reply.
        let until = {
            let channel = lock(&self.channel);
            let held = channel.ledger.sessions.get(&SessionKey::of(&known.id));
            held.map_or(0, |held| held.until)
        };
        self.turns += 1;
        let number = self.turns;
        let list = seen.iter().chain([&number]).map(|each| Value::Int(*each));
        env.define("turns", Value::vector(list.collect()));
        self.open.push(OpenTurn {
            node,
            session,
            number,
            turn,
            env,
            until,
        });
        self.log(&format!("turn {number} in {session} on {node}"), "begun");
    }

    fn finish(&mut self, made: usize) {
        let at = self.choices.below(self.open.len());
        let open = self.open.swap_remove(at);
        let (session, number) = (open.session, open.number);
        let effects = TurnEffects {
            env: open.env,
            value: Value::Nil,
            shown: Value::Nil,
            prints: Vec::new(),
            tool_calls: Vec::new(),
            upstream_calls: Vec::new(),
        };
        let sessions = &self.nodes[open.node].sessions;
        let Ok(Ok(checked)) = sessions.check_limits(&open.turn, effects, &Unwatched) else {
            self.fail("a small list is too large")
        };
        let Ok(encoded) = open.turn.encode(checked) else {
            self.fail("a small list can't be packed")
        };
        let outcome = match open.turn.commit(encoded) {
            Ok(()) => {
                self.known[session].acknowledged.push(number);
                "committed"
            }
            Err(SessionError::CommitUnknown) => {
                self.check_justified(SessionError::CommitUnknown, made);
                "unconfirmed"
            }
            Err(refused) => {
                self.check_justified(refused, made);
                self.known[session].refused.push(number);
                refused.reason().name()
            }
        };
        self.log(&format!("turn {number}"), outcome);
    }

    /// Kills a node: its turns end with it, and nobody releases their leases.
    fn kill(&mut self, node: usize) {
        *lock(&self.nodes[node].dead) = true;
        let (dead, left) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.node == node);
        self.open = left;
        let dead: Vec<OpenTurn> = dead;
        for open in &dead {
            self.known[open.session].refused.push(open.number);
        }
        drop(dead);
        self.nodes[node] = self.node();
        self.log(&format!("node {node}"), "killed");
    }

    fn close(&mut self, node: usize, made: usize) {
        // Most sessions live long.
        if self.choices.percent(60) {
            return;
        }
        let session = self.choices.below(self.known.len());
        let closed = self.nodes[node]
            .sessions
            .close(&self.known[session].id, OWNER);
        let known = &mut self.known[session];
        let outcome = match closed {
            Ok(_) => {
                known.closed = true;
                "closed"
            }
            Err(refused) => {
                known.perhaps_closed |= refused == SessionError::ChangeUnknown;
                // If the request was sent twice, the first attempt may have closed it.
                known.closed |= refused == SessionError::Closed;
                self.check_justified(refused, made);
                refused.reason().name()
            }
        };
        self.log(&format!("close {session}"), outcome);
    }

    fn list(&mut self, node: usize, made: usize) {
        let outcome = match self.nodes[node].sessions.list(OWNER) {
            Ok(listed) => {
                let there =
                    |known: &KnownSession| listed.iter().any(|session| session.id == known.id);
                let wrong = self.known.iter().any(|known| {
                    let gone = !there(known) && !known.closed && !known.perhaps_closed;
                    gone || (there(known) && known.closed)
                });
                if wrong {
                    self.fail("a list is not of what is there");
                }
                "listed"
            }
            Err(refused) => {
                self.check_justified(refused, made);
                refused.reason().name()
            }
        };
        self.log("list", outcome);
    }

    /// Delivers all late requests, stops the faults, and checks that the final state matches what clients were told.
    fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        for open in &open {
            self.known[open.session].refused.push(open.number);
        }
        drop(open);
        {
            let mut channel = lock(&self.channel);
            channel.faults = 0;
            for late in std::mem::take(&mut channel.late) {
                late(&mut channel.ledger);
            }
            channel.ledger.now += 3_600_000_000;
        }
        self.nodes[0] = self.node();
        for session in 0..self.known.len() {
            let known = &self.known[session];
            let kept = match self.nodes[0].sessions.find(&known.id, OWNER) {
                Ok(kept) if !known.closed => numbers(&kept.env()),
                Ok(_) => self.fail("a closed session is there"),
                Err(_) if known.closed || known.perhaps_closed => continue,
                Err(refused) => self.fail(&format!("session {session}: {refused:?}")),
            };
            let place = |number: &i64| kept.iter().position(|each| each == number);
            let mut places = Vec::new();
            for number in &known.acknowledged {
                match place(number) {
                    Some(place) => places.push(place),
                    None => self.fail(&format!("turn {number} was acknowledged, and is lost")),
                }
            }
            if !places.is_sorted() {
                self.fail("turns are kept in another order than they were acknowledged in");
            }
            if let Some(number) = known.refused.iter().find(|number| place(number).is_some()) {
                self.fail(&format!("turn {number} was refused, and is kept"));
            }
            let mut sorted = kept.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != kept.len() {
                self.fail("a turn is kept twice");
            }
        }
    }
}
