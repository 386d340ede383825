//! The whole server in one thread: clients, sessions, programs and upstreams under a scheduler whose every decision comes from one
//! source, on a clock that only the scheduler advances, with peers that misbehave. After every step, invariants are checked against a
//! slow model; a violation panics with the story so far. Knows no transport.
//!
//! A program runs when the scheduler takes it. While it waits for an upstream, the scheduler continues: other programs run, calls are
//! cancelled, sessions end, peers die.

mod choices;
pub mod http;
mod model;
mod peers;

pub use choices::Choices;

use crate::call::Responder;
use crate::checks::{settings, threadless_server};
use crate::mcp::connection::{Connection, RequestContext, Transport};
use crate::mcp::dispatch::{self, Handled};
use crate::render::reply::Reply;
use crate::server::Server;
use crate::upstreams;
use model::{CallKey, Sessions};
use peers::{Behavior, CANARY, NAMES, PeerStart, Peers};
use ptc_rpc::Frame;
use ptc_secrets::{ConfigDocument, Redactor};
use ptc_upstream::simulation::Driver;
use ptc_upstream::{ConfiguredUpstreams, Platform};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Concurrent clients.
const CLIENTS: usize = 3;
/// Steps of a seeded run.
const STEPS: usize = 80;
/// How many programs may be nested: one that waits lets the scheduler run others.
const DEPTH_MAX: usize = 3;
/// Concurrent calls of one protocol session over HTTP.
const IN_FLIGHT_MAX: usize = 2;
/// One in this many programs makes its calls from workers of `pmap`.
const PARALLEL_EVERY: i64 = 3;
/// Maximum number of additional calls of such a program: some of them wait until a worker is free.
const MORE_CALLS_MAX: usize = 9;
const PROGRAM_TIMEOUT: Duration = Duration::from_millis(3000);
const CALL_TIMEOUT: Duration = Duration::from_millis(1000);
const TTL: Duration = Duration::from_millis(20_000);
const IDLE: Duration = Duration::from_millis(6_000);

/// The result of a run.
pub struct SimulationReport {
    /// Every step and reply, with its time.
    pub text: String,
    /// The number of answers of each kind.
    pub outcomes: BTreeMap<String, usize>,
}

/// Runs one simulation. `executor` is a current-thread runtime with a paused clock. In a dishonest run peers return wrong values, which
/// must be detected.
///
/// # Panics
/// When an invariant of the server is violated; the message contains the story so far.
pub fn run(
    executor: tokio::runtime::Runtime,
    mut choices: Choices,
    honest: bool,
) -> SimulationReport {
    let executor = Arc::new(executor);
    let entered = executor.enter();
    let calm = choices.percent(20);
    let caps = [
        1 + choices.below(3),
        2 + choices.below(4),
        1 + choices.below(3),
    ];
    let peers = Peers::new(honest);
    let turnstile = Arc::new(Scheduler::default());
    let server = server(&executor, caps, &peers, &turnstile);
    let now = Instant::now();
    let simulation = Arc::new(Simulation {
        executor: executor.clone(),
        server,
        peers,
        calm,
        began: now,
        mail: Mailbox::default(),
        state: Mutex::new(State {
            choices,
            steps: 0,
            depth: 0,
            clients: Vec::new(),
            asks: BTreeMap::new(),
            queue: Vec::new(),
            sessions: Sessions {
                all: Vec::new(),
                count_max: caps[1],
                per_owner_max: caps[2],
                ttl: TTL,
                idle: IDLE,
            },
            broken: None,
            last: 0,
            report: SimulationReport {
                text: String::new(),
                outcomes: BTreeMap::new(),
            },
        }),
    });
    let _only_once = turnstile.simulation.set(Arc::downgrade(&simulation));
    (0..CLIENTS).for_each(|place| simulation.connect(place));
    while !simulation.is_over() {
        simulation.step();
    }
    simulation.finish();
    if let Some(upstreams) = &simulation.server.programs.upstreams {
        executor.block_on(upstreams.shutdown());
    }
    let report = std::mem::replace(
        &mut simulation.state().report,
        SimulationReport {
            text: String::new(),
            outcomes: BTreeMap::new(),
        },
    );
    drop(entered);
    report
}

/// A server with its upstreams, on the executor's clock.
fn server(
    executor: &tokio::runtime::Runtime,
    [concurrent, sessions, per_owner]: [usize; 3],
    peers: &Peers,
    turnstile: &Arc<Scheduler>,
) -> Arc<Server> {
    let flags = [
        "--sessions".to_owned(),
        "--response-profile=debug".to_owned(),
        format!("--max-concurrent-calls={concurrent}"),
        format!("--max-sessions={sessions}"),
        format!("--max-sessions-per-owner={per_owner}"),
        format!("--session-ttl-ms={}", TTL.as_millis()),
        format!("--session-idle-timeout-ms={}", IDLE.as_millis()),
        format!("--program-timeout-ms={}", PROGRAM_TIMEOUT.as_millis()),
        format!("--upstream-call-timeout-ms={}", CALL_TIMEOUT.as_millis()),
        "--max-upstream-response-bytes=2048".to_owned(),
    ];
    let settings = settings(&flags);
    let entry = |name: &str| (name.to_owned(), Peers::entry(name));
    let entries: serde_json::Map<String, Value> = NAMES.into_iter().map(entry).collect();
    let config = json!({
        "credentials": {"canary": {"source": "literal", "value": CANARY}},
        "upstreams": entries,
    });
    let nothing = |_: &str| None;
    let document = ConfigDocument::parse(Path::new("simulated"), config.to_string(), &nothing)
        .expect("the config is valid");
    let options = ptc_upstream::UpstreamOptions {
        platform: Platform {
            launcher: Some(Arc::new(peers.clone())),
            simulation: Some(ptc_upstream::simulation::Simulation {
                http_backend: Arc::new(peers.clone()),
                driver: turnstile.clone(),
            }),
        },
        ..upstreams::options(&settings.upstreams)
    };
    let mut secrets = Redactor::builder();
    let configured = ConfiguredUpstreams::read(&document, options, &mut secrets, &nothing);
    let redactor = secrets.build();
    let started = configured
        .expect("the entries are right")
        .start(redactor.clone());
    let upstreams = executor.block_on(started).expect("the peers start");
    threadless_server(settings, redactor, Some(upstreams))
}

/// Lets the scheduler continue while a program waits, and lets only one thread run at a time.
#[derive(Default)]
struct Scheduler {
    simulation: OnceLock<Weak<Simulation>>,
    threads: Mutex<Threads>,
    turn: Condvar,
}

/// The threads of programs. The running thread decides which one runs next; all others are paused.
#[derive(Default)]
struct Threads {
    /// The running thread; initially the main thread.
    running: usize,
    /// Threads that are ready to run, in the order in which they paused.
    runnable: Vec<usize>,
    last: usize,
}

thread_local! {
    /// The number of a worker's thread; `None` for the main thread.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Scheduler {
    fn simulation(&self) -> Arc<Simulation> {
        let simulation = self.simulation.get().and_then(Weak::upgrade);
        simulation.expect("programs run while the simulation does")
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one of the ready threads run.
    fn run_next(&self, threads: &mut Threads) {
        let place = self
            .simulation()
            .state()
            .choices
            .below(threads.runnable.len());
        threads.running = threads.runnable.remove(place);
        self.turn.notify_all();
    }

    fn wait_for_turn(&self, mut threads: MutexGuard<'_, Threads>, own: usize) {
        while threads.running != own {
            let waited = self.turn.wait(threads);
            threads = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets any ready thread run, possibly the calling one.
    fn yield_now(&self) {
        let own = WORKER.get().unwrap_or_default();
        let mut threads = self.threads();
        if threads.runnable.is_empty() {
            return;
        }
        threads.runnable.push(own);
        self.run_next(&mut threads);
        if threads.running != own {
            self.simulation().count("a thread yields");
        }
        self.wait_for_turn(threads, own);
    }
}

impl Driver for Scheduler {
    fn drive(&self, mut work: Pin<&mut dyn Future<Output = ()>>) {
        let simulation = self.simulation();
        loop {
            let slice = simulation.state().choices.one_of(&[1, 7, 60, 400]);
            let slice = Duration::from_millis(slice);
            let waited = async { tokio::time::timeout(slice, work.as_mut()).await.is_ok() };
            if simulation.executor.block_on(waited) {
                // Before this thread goes on, perhaps to the next branch of `pmap`, others may take theirs.
                return self.yield_now();
            }
            if !simulation.is_over() {
                simulation.step();
            }
            self.yield_now();
        }
    }

    fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize {
        let own = WORKER.get().unwrap_or_default();
        let left = AtomicUsize::new(count);
        std::thread::scope(|scope| {
            let mut threads = self.threads();
            let started: Vec<_> = (0..count)
                .map(|_| {
                    threads.last += 1;
                    let number = threads.last;
                    threads.runnable.push(number);
                    let left = &left;
                    scope.spawn(move || {
                        WORKER.set(Some(number));
                        self.wait_for_turn(self.threads(), number);
                        let _ending = EndingWorker {
                            scheduler: self,
                            parent: own,
                            left,
                        };
                        worker();
                    })
                })
                .collect();
            self.run_next(&mut threads);
            drop(threads);
            for thread in started {
                // The program notices that the results of a worker that panicked are missing.
                let _ = thread.join();
            }
        });
        self.wait_for_turn(self.threads(), own);
        count
    }
}

/// A worker that runs. When it ends, even by a panic, another thread runs: possibly its parent, if it was the last one.
struct EndingWorker<'s> {
    scheduler: &'s Scheduler,
    parent: usize,
    /// The workers of the parent that have not ended.
    left: &'s AtomicUsize,
}

impl Drop for EndingWorker<'_> {
    fn drop(&mut self) {
        let mut threads = self.scheduler.threads();
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            threads.runnable.push(self.parent);
        }
        self.scheduler.run_next(&mut threads);
    }
}

/// Replies of programs, each with its client.
type Mailbox = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

struct Simulation {
    executor: Arc<tokio::runtime::Runtime>,
    server: Arc<Server>,
    peers: Peers,
    /// Whether the peers never misbehave.
    calm: bool,
    began: Instant,
    mail: Mailbox,
    state: Mutex<State>,
}

struct State {
    choices: Choices,
    steps: usize,
    /// Nesting depth of programs that were begun and wait.
    depth: usize,
    clients: Vec<Client>,
    /// Programs that were admitted and are not answered yet.
    asks: BTreeMap<CallKey, PendingCall>,
    /// The content of the server's pool, in order, each with its session.
    queue: Vec<(CallKey, Option<usize>)>,
    sessions: Sessions,
    /// The first violation.
    broken: Option<String>,
    /// The last number used for an id, a value or a name.
    last: i64,
    report: SimulationReport,
}

struct Client {
    connection: Arc<Connection>,
    over_http: bool,
}

/// An admitted program.
#[derive(Clone)]
struct PendingCall {
    what: Program,
    /// When it began to run.
    begun: Option<Instant>,
}

#[derive(Clone)]
enum Program {
    Sum(i64),
    /// Asks each upstream for a number and returns all of them.
    Calls(Vec<(&'static str, i64)>),
    /// Adds to a session's total, then asks upstreams.
    Turn {
        session: usize,
        add: i64,
        calls: Vec<(&'static str, i64)>,
    },
    /// Changes a session's total, and fails.
    Failing {
        session: usize,
    },
}

/// Whether workers of `pmap` make these calls concurrently.
fn calls_from_workers(calls: &[(&str, i64)]) -> bool {
    let first = calls.first();
    first.is_some_and(|(_, number)| number % PARALLEL_EVERY == 0)
}

impl Program {
    fn text(&self) -> String {
        const CALL: &str = "(let [r (tool/call {:server s :tool \"echo\" :args {:n n}})] \
                            (if (:ok r) (get (:value r) \"n\") (:reason r)))";
        let calls = |before: &str, calls: &[(&str, i64)]| {
            let map = if calls_from_workers(calls) {
                "pmap"
            } else {
                "map"
            };
            let pairs = calls
                .iter()
                .map(|(name, number)| format!("[\"{name}\" {number}]"));
            let pairs = pairs.collect::<Vec<_>>().join(" ");
            format!("(into [{before}] ({map} (fn [[s n]] {CALL}) [{pairs}]))")
        };
        match self {
            Program::Sum(number) => format!("(+ {} 1)", number - 1),
            Program::Calls(list) => calls("", list),
            Program::Turn {
                add, calls: list, ..
            } => format!(
                "(def total (+ (or total 0) {add})) {}",
                calls("total", list)
            ),
            Program::Failing { .. } => "(def total 1000000) (fail :no)".to_owned(),
        }
    }

    fn session(&self) -> Option<usize> {
        match self {
            Program::Turn { session, .. } | Program::Failing { session } => Some(*session),
            Program::Sum(_) | Program::Calls(_) => None,
        }
    }
}

/// An action of the scheduler, with its weight.
type Action = (usize, fn(&Simulation));

const ACTIONS: &[Action] = &[
    (22, Simulation::run_program),
    (10, Simulation::ask_sum),
    (14, Simulation::ask_calls),
    (9, Simulation::start_session),
    (18, Simulation::ask_turn),
    (3, Simulation::ask_failing),
    (4, Simulation::inspect_sessions),
    (2, Simulation::forget),
    (3, Simulation::close),
    (8, Simulation::cancel),
    (4, Simulation::send_protocol_requests),
    (2, Simulation::reconnect),
    (12, Simulation::misbehave),
    (8, Simulation::wait),
];

impl Simulation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self, sides: usize) -> usize {
        self.state().choices.below(sides)
    }

    fn next_number(&self) -> i64 {
        let mut state = self.state();
        state.last += 1;
        state.last
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.steps >= STEPS || state.choices.is_over()
    }

    fn log(&self, line: &str) {
        let ms = self.began.elapsed().as_millis();
        let mut state = self.state();
        let depth = state.depth;
        let _infallible = writeln!(
            state.report.text,
            "{ms:>6} {:>depth$}{line}",
            "",
            depth = 2 * depth
        );
    }

    fn count(&self, outcome: &str) {
        *self
            .state()
            .report
            .outcomes
            .entry(outcome.to_owned())
            .or_default() += 1;
    }

    /// Reports a violation, with everything that led to it.
    fn fail(&self, what: &str) -> ! {
        let mut state = self.state();
        let first = format!("{}\n{what}", state.report.text);
        let found = state.broken.get_or_insert(first).clone();
        drop(state);
        panic!("{found}")
    }

    fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    fn step(&self) {
        self.state().steps += 1;
        let act = self.state().choices.weighted(ACTIONS);
        act(self);
        self.read_mail();
        self.check_balance();
    }

    /// Invariants between any two steps.
    fn check_balance(&self) {
        let taken = self.server.gate.taken();
        let (asks, live) = {
            let state = self.state();
            let live = state.sessions.all.iter().filter(|session| !session.closed);
            (state.asks.len(), live.count())
        };
        self.check(taken == asks, || {
            format!("{taken} places are taken, and {asks} calls in flight")
        });
        self.check(taken <= self.server.gate.cap(), || {
            "the gate overflows".to_owned()
        });
        // Like the server, the model closes an expired session when it is next looked at.
        self.check(self.server.sessions.count() == live, || {
            format!(
                "{} sessions live, {live} expected",
                self.server.sessions.count()
            )
        });
    }

    /// Runs all remaining programs, and checks that nothing is left.
    fn finish(&self) {
        while !self.state().queue.is_empty() {
            self.run_program();
            self.read_mail();
        }
        self.check_balance();
        let asks: Vec<CallKey> = self.state().asks.keys().copied().collect();
        self.check(asks.is_empty(), || format!("never answered: {asks:?}"));
        for place in 0..CLIENTS {
            let left = self.connection(place).in_flight();
            self.check(left == 0, || {
                format!("client {place} has {left} calls in flight")
            });
        }
    }

    fn connect(&self, place: usize) {
        let over_http = self.below(2) == 1;
        let owner = format!("owner-{}", self.next_number());
        let (transport, in_flight_max) = match over_http {
            true => (
                Transport::Http {
                    owner_hash: owner.clone(),
                    session_hash: owner.clone(),
                },
                IN_FLIGHT_MAX,
            ),
            false => (Transport::Stdio, usize::MAX),
        };
        self.log(&format!("client {place} connects, over HTTP: {over_http}"));
        let connection = Connection::new(owner, transport, in_flight_max);
        let client = Client {
            connection,
            over_http,
        };
        let mut state = self.state();
        match state.clients.get_mut(place) {
            Some(old) => *old = client,
            None => state.clients.push(client),
        }
    }

    fn connection(&self, place: usize) -> Arc<Connection> {
        self.state().clients[place].connection.clone()
    }

    fn owner(&self, place: usize) -> String {
        self.connection(place).owner.clone()
    }

    /// Passes a frame in as a transport would. Returns an immediate answer.
    fn send(&self, client: usize, frame: &Value) -> Option<Value> {
        let text = frame.to_string();
        let parsed = Frame::parse(text.as_bytes());
        let parsed = parsed.unwrap_or_else(|_| self.fail("a frame is not read"));
        let connection = self.connection(client);
        let handled = dispatch::handle(
            &self.server.handler,
            &connection,
            &RequestContext::default(),
            &parsed.into(),
            || {
                let mail = self.mail.clone();
                let answer: Responder = Box::new(move |reply| {
                    let mut bytes = Vec::new();
                    Reply::write(&reply, &mut bytes);
                    let mut mail = mail.lock().unwrap_or_else(PoisonError::into_inner);
                    mail.push((client, bytes));
                });
                answer
            },
        );
        match handled {
            Handled::Silent | Handled::Exit(None) => None,
            Handled::Later(_, job) => {
                // A pool without threads accepts every job.
                let _ = self.server.pool.run(job);
                None
            }
            Handled::Now(reply) | Handled::Exit(Some(reply)) => {
                let mut bytes = Vec::new();
                Reply::write(&self.server.redactor.scrub(reply), &mut bytes);
                Some(self.read(&bytes))
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Value {
        let text = String::from_utf8_lossy(bytes);
        self.check(!text.contains(CANARY), || format!("a secret leaks: {text}"));
        let reply: Result<Value, _> = serde_json::from_str(&text);
        reply.unwrap_or_else(|error| self.fail(&format!("{error}: {text}")))
    }

    /// Calls a tool that answers at once, and checks the reason of its refusal. Returns the structured content.
    fn call(&self, client: usize, tool: &str, arguments: &Value, refusal: Option<&str>) -> Value {
        let id = self.next_number();
        let draining = self.connection(client).is_draining();
        let refusal = if draining {
            Some("shutting_down")
        } else {
            refusal
        };
        let reply = self.send(client, &request(id, tool, arguments));
        let reply = reply.unwrap_or_else(|| self.fail(&format!("{tool} is not answered")));
        let said = &reply["result"]["structuredContent"];
        self.log(&format!(
            "client {client} calls {tool}: {}",
            summarize(said)
        ));
        self.check(reply["id"] == id, || format!("not the id {id}: {reply}"));
        let refused = said["reason"]
            .as_str()
            .filter(|_| said["status"] == "error");
        self.check(refused == refusal, || {
            format!("expected the refusal {refusal:?}: {reply}")
        });
        self.count(refusal.unwrap_or(tool));
        said.clone()
    }

    /// Calls a program tool. The model's sessions, ids and places determine the expected result.
    fn ask(&self, client: usize, what: Program, known_id: Option<i64>) {
        let now = Instant::now();
        let id = known_id.unwrap_or_else(|| self.next_number());
        let key = (client, id);
        let owner = self.owner(client);
        let (tool, mut arguments) = match what.session() {
            None => ("lisp_eval", json!({})),
            Some(place) => {
                let state = self.state();
                let session = state.sessions.all.get(place);
                let id = session.map_or("ptcs_never", |session| session.id.as_str());
                ("lisp_session_eval", json!({"session_id": id}))
            }
        };
        arguments["program"] = json!(what.text());
        let expected = self.verdict(client, key, &what, &owner, now);
        let reply = self.send(client, &request(id, tool, &arguments));
        self.log(&format!(
            "client {client} asks {id}: {} -> {}",
            what.text(),
            expected.unwrap_or("taken in")
        ));
        match (expected, &reply) {
            (None, None) => {
                let mut state = self.state();
                if let Some(place) = what.session() {
                    state.sessions.all[place].running = Some(key);
                }
                state.queue.push((key, what.session()));
                state.asks.insert(key, PendingCall { what, begun: None });
            }
            (Some("duplicate"), Some(reply)) => {
                let said = reply["error"]["message"].as_str().unwrap_or_default();
                let right = reply["id"] == id && said.contains("already in flight");
                self.check(right, || format!("expected a duplicate id: {reply}"));
            }
            (Some(reason), Some(reply)) => {
                let said = &reply["result"]["structuredContent"]["reason"];
                let right = reply["id"] == id && said == reason;
                self.check(right, || format!("expected {reason}: {reply}"));
            }
            (None, Some(reply)) => self.fail(&format!("it must be taken in: {reply}")),
            (Some(reason), None) => self.fail(&format!("expected {reason}, and it was taken in")),
        }
        if let Some(reason) = expected {
            self.count(reason);
        }
    }

    /// Why a program is refused, in the order of the server's checks.
    fn verdict(
        &self,
        client: usize,
        key: CallKey,
        what: &Program,
        owner: &str,
        now: Instant,
    ) -> Option<&'static str> {
        let connection = self.connection(client);
        if connection.is_draining() {
            return Some("shutting_down");
        }
        let mut state = self.state();
        let state = &mut *state;
        if let Some(place) = what.session() {
            if let Some(refusal) = state.sessions.refusal(place, owner, now) {
                return Some(refusal);
            }
            if state.sessions.all[place].running.is_some() {
                return Some("session_busy");
            }
        }
        let own = state.asks.keys().filter(|(asker, _)| *asker == client);
        let refusal = if state.asks.contains_key(&key) {
            Some("duplicate")
        } else if own.count() >= connection.in_flight_max
            || state.asks.len() >= self.server.gate.cap()
        {
            Some("busy")
        } else {
            None
        };
        if let (Some(place), Some(_)) = (what.session(), refusal) {
            // The turn began and ended at once.
            state.sessions.all[place].used = now;
        }
        refusal
    }

    /// Takes one program and runs it to its end, which may take many steps.
    fn run_program(&self) {
        let number = self.below(1000);
        let (key, session, job) = {
            let mut state = self.state();
            if state.queue.is_empty() || state.depth >= DEPTH_MAX {
                return;
            }
            let place = number % state.queue.len();
            let (key, session) = state.queue.remove(place);
            if let Some(ask) = state.asks.get_mut(&key) {
                ask.begun = Some(Instant::now());
            }
            (key, session, self.server.pool.take(place))
        };
        let job = job.unwrap_or_else(|| self.fail("the pool lost a program"));
        self.log(&format!("client {} runs {}", key.0, key.1));
        let began = Instant::now();
        self.state().depth += 1;
        job.run();
        // The server catches panics of a program; such a panic may be a violation that this simulation detected.
        let broken = self.state().broken.clone();
        if let Some(found) = broken {
            panic!("{found}");
        }
        self.state().depth -= 1;
        self.read_mail();
        self.log(&format!("client {} ran {}", key.0, key.1));
        let mut unanswered = false;
        {
            let mut state = self.state();
            let state = &mut *state;
            let mine = |ask: &PendingCall| ask.begun == Some(began);
            if state.asks.get(&key).is_some_and(mine) {
                state.asks.remove(&key);
                unanswered = true;
            }
            // A turn uses its session until it ends, even if it is cancelled.
            if let Some(place) = session {
                let session = &mut state.sessions.all[place];
                session.used = Instant::now();
                if session.running == Some(key) {
                    session.running = None;
                }
            }
        }
        if unanswered {
            // There is no reply when the program's session expired before the program ended.
            let over = session
                .is_some_and(|place| self.state().sessions.all[place].expires <= Instant::now());
            self.check(over, || format!("{key:?} ended without an answer"));
            self.count("over");
        }
    }

    /// Checks the replies of programs.
    fn read_mail(&self) {
        let mail = {
            let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *mail)
        };
        for (client, bytes) in mail {
            let reply = self.read(&bytes);
            let key = (client, reply["id"].as_i64().unwrap_or_default());
            let said = &reply["result"]["structuredContent"];
            let Some(ask) = self.state().asks.remove(&key) else {
                self.fail(&format!("nobody waits for {reply}"));
            };
            self.log(&format!(
                "client {client} gets {}: {}",
                key.1,
                summarize(said)
            ));
            self.judge(key, &ask, said);
        }
    }

    /// Checks that a program's reply is possible.
    fn judge(&self, key: CallKey, ask: &PendingCall, said: &Value) {
        let reason = said["reason"].as_str();
        let result = said["result"].as_str();
        let took = ask.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let late = took >= PROGRAM_TIMEOUT;
        self.count(reason.unwrap_or("ok"));
        let text = || format!("{key:?} gets what it must not: {said}");
        match (&ask.what, reason) {
            (Program::Sum(number), None) => {
                let expected = format!("user=> {number}");
                self.check(result == Some(&expected), text);
            }
            (Program::Calls(calls), None) => self.check_calls(result, None, calls, took),
            (
                Program::Turn {
                    session,
                    add,
                    calls,
                },
                None,
            ) => {
                let total = {
                    let mut state = self.state();
                    let session = &mut state.sessions.all[*session];
                    let total = session.total.unwrap_or_default() + add;
                    if !session.closed && session.running == Some(key) {
                        session.total = Some(total);
                        session.turns += 1;
                    }
                    total
                };
                self.check_calls(result, Some(total), calls, took);
            }
            (Program::Failing { .. }, Some("fail")) => {}
            (Program::Calls(_) | Program::Turn { .. }, Some("timeout")) => self.check(late, text),
            (Program::Turn { session, .. } | Program::Failing { session }, Some("cancelled")) => {
                let over = self.state().sessions.all[*session].expires <= Instant::now();
                self.check(over, text);
            }
            _ => self.fail(&text()),
        }
    }

    /// Each value is the requested number, or a reason that applies.
    fn check_calls(
        &self,
        result: Option<&str>,
        total: Option<i64>,
        calls: &[(&'static str, i64)],
        took: Duration,
    ) {
        let shown = result.unwrap_or_default();
        let items = shown
            .strip_prefix("user=> [")
            .and_then(|rest| rest.strip_suffix(']'));
        let mut items = items.unwrap_or_default().split_whitespace();
        if let Some(total) = total {
            let found = items.next().unwrap_or_default();
            self.check(found == total.to_string(), || {
                format!("the total is {total}: {shown}")
            });
        }
        for (name, number) in calls {
            let found = items.next().unwrap_or_default();
            let served = self.peers.served(name, *number);
            let faulty = self.peers.is_faulty(name);
            let right = match found.strip_prefix(':') {
                None => {
                    found == number.to_string() && served.is_some_and(Behavior::is_good) || {
                        // After junk the answer is still used, unless the call waited alone.
                        found == number.to_string() && served == Some(Behavior::Junk)
                    }
                }
                Some("timeout") => took >= CALL_TIMEOUT,
                Some("tool_error") => served == Some(Behavior::ToolError),
                Some("response_too_large") => served == Some(Behavior::Oversize),
                Some("upstream_error" | "upstream_unavailable") => faulty,
                Some(_) => false,
            };
            self.check(right, || {
                format!("{name} was asked for {number} ({served:?}) and gave {found}: {shown}")
            });
            if found == number.to_string() {
                let way = if calls_from_workers(calls) {
                    " by a worker"
                } else {
                    ""
                };
                self.count(&format!("{name}{way}"));
            }
            self.count(&format!("call {}", found.strip_prefix(':').unwrap_or("ok")));
        }
        self.check(items.next().is_none(), || {
            format!("more than was asked for: {shown}")
        });
    }

    fn pick_client(&self) -> usize {
        self.below(CLIENTS)
    }

    /// A session, mostly a live one of the client; sometimes one that never existed.
    fn pick_session(&self, client: usize) -> usize {
        let owner = self.owner(client);
        let mut state = self.state();
        let state = &mut *state;
        let all = state.sessions.all.iter().enumerate();
        let own: Vec<usize> = all
            .filter(|(_, session)| session.owner == owner && !session.closed)
            .map(|(place, _)| place)
            .collect();
        match own.is_empty() || state.choices.percent(20) {
            true => state.choices.below(state.sessions.all.len() + 1),
            false => state.choices.one_of(&own),
        }
    }

    fn pick_calls(&self, least: usize) -> Vec<(&'static str, i64)> {
        let one = || (NAMES[self.below(NAMES.len())], self.next_number());
        let mut calls: Vec<_> = (0..least + self.below(3)).map(|_| one()).collect();
        if calls_from_workers(&calls) {
            let more = self.below(MORE_CALLS_MAX + 1);
            calls.extend((0..more).map(|_| one()));
        }
        calls
    }

    fn ask_sum(&self) {
        let client = self.pick_client();
        let known = self.state().asks.keys().next().copied();
        // Sometimes with an id that is already in flight.
        let twice = known.filter(|(asker, _)| *asker == client && self.below(5) == 0);
        let number = self.next_number();
        self.ask(client, Program::Sum(number), twice.map(|(_, id)| id));
    }

    fn ask_calls(&self) {
        let client = self.pick_client();
        let calls = self.pick_calls(1);
        self.ask(client, Program::Calls(calls), None);
    }

    fn ask_turn(&self) {
        let client = self.pick_client();
        let turn = Program::Turn {
            session: self.pick_session(client),
            add: 1 + self.below(9) as i64,
            calls: self.pick_calls(0),
        };
        self.ask(client, turn, None);
    }

    fn ask_failing(&self) {
        let client = self.pick_client();
        let session = self.pick_session(client);
        self.ask(client, Program::Failing { session }, None);
    }

    fn start_session(&self) {
        let (client, now) = (self.pick_client(), Instant::now());
        let owner = self.owner(client);
        let short = self.below(3) == 0;
        let arguments = if short {
            json!({"ttl_ms": 2500})
        } else {
            json!({})
        };
        let refusal = match self.connection(client).is_draining() {
            true => None,
            false => self.state().sessions.refusal_to_start(&owner, now),
        };
        let said = self.call(client, "lisp_session_start", &arguments, refusal);
        if let Some(id) = said["session_id"].as_str() {
            let mut state = self.state();
            let life = if short {
                Duration::from_millis(2500)
            } else {
                state.sessions.ttl
            };
            state.sessions.all.push(model::Session {
                id: id.to_owned(),
                owner,
                expires: now + life,
                used: now,
                closed: false,
                running: None,
                total: None,
                turns: 0,
            });
        }
    }

    /// Calls a session tool that answers at once. Returns client, session and content unless the call was refused.
    fn request_about_session(
        &self,
        tool: &str,
        mut arguments: Value,
        needs_idle: bool,
    ) -> Option<(usize, usize, Value)> {
        let (client, now) = (self.pick_client(), Instant::now());
        let place = self.pick_session(client);
        let owner = self.owner(client);
        let draining = self.connection(client).is_draining();
        let (id, refusal) = {
            let mut state = self.state();
            let refusal = match draining {
                true => None,
                false => state.sessions.refusal(place, &owner, now),
            };
            let session = state.sessions.all.get(place);
            let busy = session.is_some_and(|session| needs_idle && session.running.is_some());
            let id = session.map_or("ptcs_never", |session| session.id.as_str());
            (id.to_owned(), refusal.or(busy.then_some("session_busy")))
        };
        arguments["session_id"] = json!(id);
        let said = self.call(client, tool, &arguments, refusal);
        (!draining && refusal.is_none()).then_some((client, place, said))
    }

    fn inspect_sessions(&self) {
        if self.below(3) == 0 {
            let client = self.pick_client();
            let (owner, now) = (self.owner(client), Instant::now());
            let said = self.call(client, "lisp_session_list", &json!({}), None);
            if self.connection(client).is_draining() {
                return;
            }
            let listed = said["sessions"].as_array().into_iter().flatten();
            let mut ids: Vec<&str> = listed
                .filter_map(|session| session["session_id"].as_str())
                .collect();
            ids.sort_unstable();
            let expected = self.state().sessions.listed(&owner, now);
            return self.check(ids == expected, || format!("expected {expected:?}: {said}"));
        }
        let looked = self.request_about_session("lisp_session_inspect", json!({}), false);
        let Some((_, place, said)) = looked else {
            return;
        };
        let mut state = self.state();
        let session = &mut state.sessions.all[place];
        session.used = Instant::now();
        let expected = json!({
            "turn": session.turns,
            "eval_status": if session.running.is_some() { "running" } else { "idle" },
            "binding_count": i32::from(session.total.is_some()),
        });
        drop(state);
        let fields = ["turn", "eval_status", "binding_count"];
        let same = fields
            .iter()
            .all(|name| said["session"][name] == expected[name]);
        self.check(same, || format!("expected {expected}: {said}"));
    }

    fn forget(&self) {
        let arguments = json!({"bindings": ["total"]});
        let forgot = self.request_about_session("lisp_session_forget", arguments, true);
        let Some((_, place, said)) = forgot else {
            return;
        };
        let was_bound = {
            let mut state = self.state();
            let session = &mut state.sessions.all[place];
            session.used = Instant::now();
            session.total.take().is_some()
        };
        let removed = said["removed_bindings"].as_array().map_or(0, Vec::len);
        self.check(removed == usize::from(was_bound), || {
            format!("it was bound: {was_bound}, {said}")
        });
    }

    fn close(&self) {
        let closed = self.request_about_session("lisp_session_close", json!({}), false);
        let Some((_, place, _)) = closed else { return };
        let running = {
            let mut state = self.state();
            let session = &mut state.sessions.all[place];
            session.closed = true;
            session.running.take()
        };
        if let Some(key) = running {
            self.end_call(key);
        }
    }

    /// Handles a cancelled call: over HTTP its answer says so, on stdio there is none.
    fn end_call(&self, key: CallKey) {
        let over_http = self.state().clients[key.0].over_http;
        if over_http {
            let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = |(client, bytes): &(usize, Vec<u8>)| {
                let reply: Value = serde_json::from_slice(bytes).unwrap_or_default();
                let reason = &reply["result"]["structuredContent"]["reason"];
                *client == key.0 && reply["id"] == key.1 && reason == "cancelled"
            };
            let found = mail.iter().position(wanted).map(|place| mail.remove(place));
            drop(mail);
            self.check(found.is_some(), || {
                format!("nobody says that {key:?} was cancelled")
            });
        }
        let mut state = self.state();
        state.asks.remove(&key);
        state.sessions.cancelled(key);
        drop(state);
        self.count("cancelled");
    }

    fn cancel(&self) {
        let keys: Vec<CallKey> = self.state().asks.keys().copied().collect();
        let number = self.below(keys.len() + 1);
        let (client, id) = keys
            .get(number)
            .copied()
            .unwrap_or((self.pick_client(), -1));
        self.log(&format!("client {client} cancels {id}"));
        let frame = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let reply = self.send(client, &frame);
        self.check(reply.is_none(), || "a notification is answered".to_owned());
        if number < keys.len() {
            self.end_call((client, id));
        }
    }

    fn send_protocol_requests(&self) {
        let (client, id) = (self.pick_client(), self.next_number());
        let talk = self.below(6);
        let (method, code) = match talk {
            0 => ("ping", None),
            1 => ("tools/list", None),
            2 => ("initialize", None),
            3 => ("no/such/method", Some(-32601)),
            4 => {
                let said = self.call(client, "no_such_tool", &json!({}), Some("unknown_tool"));
                return drop(said);
            }
            // Rarely, because it ends what the client can do.
            _ if self.below(6) > 0 => return,
            _ => ("shutdown", None),
        };
        self.log(&format!("client {client} says {method}"));
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method});
        let reply = self.send(client, &frame).unwrap_or_default();
        self.check(
            reply["id"] == id && reply["error"]["code"].as_i64() == code,
            || format!("{method}: {reply}"),
        );
    }

    /// A client leaves, and another one takes its place.
    fn reconnect(&self) {
        let client = self.pick_client();
        self.log(&format!("client {client} leaves"));
        let connection = self.connection(client);
        connection.drain();
        let redactor = &self.server.handler.redactor;
        for (call, answer) in connection.cancel_all() {
            dispatch::answer_cancelled(redactor, &connection, &call, answer);
        }
        self.server.forget_owner(&connection.owner);
        let keys: Vec<CallKey> = self.state().asks.keys().copied().collect();
        keys.into_iter()
            .filter(|(asker, _)| *asker == client)
            .for_each(|key| self.end_call(key));
        self.state().sessions.forget_owner(&connection.owner);
        self.connect(client);
    }

    /// Makes a peer misbehave.
    fn misbehave(&self) {
        let (kind, name) = (self.below(17), NAMES[self.below(NAMES.len())]);
        if self.calm {
            return;
        }
        let slow = self.state().choices.one_of(&[5, 90, 700, 1500]);
        let behavior = match kind {
            0 => {
                self.log(&format!("{name} is killed"));
                return self.peers.kill(name);
            }
            1 | 2 => {
                let start = if kind == 1 {
                    PeerStart::Fails
                } else {
                    PeerStart::Mute
                };
                self.log(&format!("{name} will start: {start:?}"));
                return self.peers.set_next_start(name, start);
            }
            3..=5 => Behavior::Slow(slow),
            6 => Behavior::Silent,
            7 => Behavior::Junk,
            8 => Behavior::OtherId,
            9 => Behavior::Twice,
            10 => Behavior::Dies,
            11 => Behavior::Error,
            12 => Behavior::ToolError,
            13 => Behavior::Oversize,
            14 => Behavior::Secret,
            15 => Behavior::ListChanged,
            _ => Behavior::Forgets,
        };
        self.log(&format!("{name} will treat a call so: {behavior:?}"));
        self.peers.set_next_behavior(name, behavior);
    }

    fn wait(&self) {
        let waits: &[u64] = &[1, 20, 120, 900, 2500, 6000, 20_000];
        let ms = self.state().choices.one_of(waits);
        self.log(&format!("{ms} ms pass"));
        self.executor
            .block_on(tokio::time::sleep(Duration::from_millis(ms)));
    }
}

/// A `tools/call` request.
fn request(id: i64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A reply in brief, without anything that differs from run to run.
fn summarize(said: &Value) -> String {
    let reason = said["reason"].as_str();
    let result = said["result"].as_str();
    reason.or(result).unwrap_or("ok").to_owned()
}
