//! The HTTP endpoint in one thread: the real accept loop, the real HTTP library and the real sessions over in-memory streams, on a clock
//! that only the scheduler advances, with clients that send in pieces, pipeline, stop reading, half-close and vanish. Each request gets
//! its own reply and no other, caps hold, and a drain leaves nothing behind; a violation panics with the story so far. Knows no
//! upstreams: the waiting of programs is simulated separately.

use super::{Choices, SimulationReport, request};
use crate::checks::{settings, threadless_server};
use crate::server::Server;
use crate::transport::http::accept;
use crate::transport::http::endpoint::Endpoint;
use crate::transport::http::stream::{Closed, DetectClose};
use axum::serve::Listener;
use ptc_secrets::Redactor;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Concurrent connections.
const CLIENTS: usize = 4;
/// Steps of a seeded run, and steps after shutdown began.
const STEPS: usize = 90;
const FINAL_STEPS: usize = 8;
/// Requests that one connection may pipeline.
const PIPELINED_MAX: usize = 3;
const TTL: Duration = Duration::from_millis(20_000);
const IDLE: Duration = Duration::from_millis(6_000);
const REQUEST_TIMEOUT: Duration = Duration::from_millis(3_000);
/// Longer than the request timeout: a client that is slow to send is given up before one that is slow to read.
const WRITE_TIMEOUT: Duration = Duration::from_millis(10_000);
const GRACE: Duration = Duration::from_millis(2_000);
const PROGRAM_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How much longer than a program's limit the server waits before it gives the request up.
const SLACK: Duration = Duration::from_millis(1_000);
/// The clock advances by this much while the simulation settles.
const TICK: Duration = Duration::from_millis(1);
/// Within this distance of a time limit either outcome is accepted.
const MARGIN: Duration = Duration::from_millis(500);
/// The server detects within this time that the client of a running program has gone.
const NOTICED_WITHIN: Duration = Duration::from_millis(250);
/// After the grace period, final replies get a second to be sent; twice as much is too long.
const END_WITHIN: Duration = Duration::from_millis(2_000 + 2_000);
const TOKEN: &str = "token-of-the-simulated-http-server";

/// Runs one simulation. `executor` is a current-thread runtime with a paused clock.
///
/// # Panics
/// When an invariant of the endpoint is violated; the message contains the story so far.
pub fn run(executor: tokio::runtime::Runtime, mut choices: Choices) -> SimulationReport {
    let executor = Arc::new(executor);
    let entered = executor.enter();
    let caps = Caps {
        calls: 1 + choices.below(4),
        calls_of_a_session: 1 + choices.below(3),
        sessions: 2 + choices.below(4),
        sessions_of_an_owner: 2 + choices.below(4),
        programs_sessions: 1 + choices.below(4),
    };
    let waits_for_replies = choices.percent(30);
    let server = server(&caps);
    let settings = server.settings.http.clone().expect("it serves HTTP");
    let endpoint = Arc::new(Endpoint::new(server.clone(), settings));
    let (connect_sender, entrance) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let listening = executor.spawn(accept::serve(
        endpoint.clone(),
        SimulatedListener(entrance),
        stopped,
    ));
    let mut simulation = Simulation {
        server,
        endpoint,
        connect_sender,
        stop,
        listening,
        caps,
        waits_for_replies,
        choices,
        began: Instant::now(),
        stopped_at: None,
        clients: Vec::new(),
        sessions: Vec::new(),
        stateful: Vec::new(),
        unconfirmed_sessions: 0,
        abandoned_programs: Vec::new(),
        client_was_dropped: false,
        last: 0,
        responses_read: 0,
        report: SimulationReport {
            text: String::new(),
            outcomes: BTreeMap::new(),
        },
        executor: executor.clone(),
    };
    (0..CLIENTS).for_each(|place| simulation.connect(place));
    for _ in 0..STEPS {
        if simulation.choices.is_over() {
            break;
        }
        simulation.step();
    }
    simulation.end();
    let report = simulation.report;
    drop(entered);
    report
}

/// The server's limits.
struct Caps {
    calls: usize,
    calls_of_a_session: usize,
    sessions: usize,
    sessions_of_an_owner: usize,
    programs_sessions: usize,
}

/// A server without upstreams.
fn server(caps: &Caps) -> Arc<Server> {
    let flags = [
        "--http".to_owned(),
        "--http-metrics".to_owned(),
        "--http-auth-rate-limit=false".to_owned(),
        "--sessions".to_owned(),
        "--response-profile=debug".to_owned(),
        format!("--http-auth-token={TOKEN}"),
        format!("--max-concurrent-calls={}", caps.calls),
        format!(
            "--http-max-in-flight-per-session={}",
            caps.calls_of_a_session
        ),
        format!("--http-max-sessions={}", caps.sessions),
        format!(
            "--http-max-sessions-per-owner={}",
            caps.sessions_of_an_owner
        ),
        format!("--max-sessions={}", caps.programs_sessions),
        format!("--http-session-ttl-ms={}", TTL.as_millis()),
        format!("--http-session-idle-timeout-ms={}", IDLE.as_millis()),
        format!("--http-request-timeout-ms={}", REQUEST_TIMEOUT.as_millis()),
        format!("--http-write-timeout-ms={}", WRITE_TIMEOUT.as_millis()),
        format!("--http-shutdown-grace-ms={}", GRACE.as_millis()),
        format!("--program-timeout-ms={}", PROGRAM_TIMEOUT.as_millis()),
    ];
    threadless_server(settings(&flags), Redactor::empty(), None)
}

/// Accepts the connections that the scheduler makes.
struct SimulatedListener(mpsc::UnboundedReceiver<(ServerStream, SocketAddr)>);

impl Listener for SimulatedListener {
    type Io = ServerStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ServerStream, SocketAddr) {
        match self.0.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}

struct ServerStream {
    stream: DuplexStream,
    /// Whether the client has closed its end; a socket shows that before the bytes that were sent are read.
    hung_up: Arc<AtomicBool>,
}

impl DetectClose for ServerStream {
    fn closed(&self) -> Closed {
        match self.hung_up.load(Ordering::SeqCst) {
            true => Closed::Sending,
            false => Closed::Nothing,
        }
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

struct Simulation {
    executor: Arc<tokio::runtime::Runtime>,
    server: Arc<Server>,
    endpoint: Arc<Endpoint>,
    connect_sender: mpsc::UnboundedSender<(ServerStream, SocketAddr)>,
    stop: watch::Sender<bool>,
    listening: JoinHandle<()>,
    caps: Caps,
    /// Whether every client waits for its replies.
    waits_for_replies: bool,
    choices: Choices,
    began: Instant,
    /// When shutdown began.
    stopped_at: Option<Instant>,
    clients: Vec<Client>,
    /// Protocol sessions that clients know.
    sessions: Vec<Session>,
    /// Program sessions that clients know.
    stateful: Vec<ProgramSession>,
    /// Protocol sessions that may have begun although no client received the reply.
    unconfirmed_sessions: usize,
    /// Programs that may continue although nobody waits for them, each with the time by which the server must have noticed.
    abandoned_programs: Vec<Instant>,
    /// Whether a client may have been given up for not reading, so that responses were lost.
    client_was_dropped: bool,
    /// The last number used for an id or a value.
    last: i64,
    /// Number of responses that were read.
    responses_read: usize,
    report: SimulationReport,
}

struct Client {
    /// `None` once the connection is over.
    stream: Option<DuplexStream>,
    /// Tells the server that this end is closed.
    hung_up: Arc<AtomicBool>,
    /// Bytes to be sent, and how many of them may be sent already.
    out: Vec<u8>,
    allowed: usize,
    inbox: Vec<u8>,
    /// Requests without an answer, in order.
    waiting: VecDeque<PendingRequest>,
    /// When a byte was last sent. Received bytes do not count, because they may be read long after they arrived.
    busy_at: Instant,
    /// Whether the server may end the connection with requests unanswered.
    may_end: bool,
    /// Whether the client reads, and when it last did.
    reads: bool,
    read_at: Instant,
    /// Whether something could not be sent.
    cut: bool,
}

struct Session {
    id: String,
    /// The earliest and the latest possible time.
    opened: (Instant, Instant),
    /// It was used at this time or later.
    used: Instant,
    /// Whether its end was requested, and when it was confirmed.
    ending: bool,
    over: Option<Instant>,
    /// Ids of calls that a client tried to cancel.
    cancelled: BTreeSet<i64>,
}

/// A program session.
struct ProgramSession {
    id: String,
    /// The protocol session that owns it.
    owner: usize,
    /// The value of `total`; `None` once a reply was lost, and while an abandoned program may still run.
    total: Option<i64>,
    uncertain_until: Instant,
}

struct PendingRequest {
    number: i64,
    what: RequestKind,
    since: Instant,
    /// Since when the connection had been idle before this request.
    idle_since: Instant,
    /// When its last byte was sent.
    fully_sent: Option<Instant>,
    /// Whether the server was handling it when shutdown began.
    in_progress: bool,
    /// Whether the rest of it will never be sent.
    broken: bool,
    /// Whether its session had certainly ended by then.
    too_late: bool,
    /// The maximum number of programs that may have been in flight meanwhile, including this one, and of sessions.
    crowd: usize,
    sessions: usize,
    /// Whether another call with that id, or in that program session, may have been in flight meanwhile.
    may_be_duplicate: bool,
}

#[derive(Clone, Debug)]
enum RequestKind {
    Initialize,
    Ping {
        session: usize,
    },
    /// A program; stateless if it has no session.
    Sum {
        session: Option<usize>,
        id: i64,
        sum: i64,
    },
    Start {
        session: usize,
    },
    /// A program in a program session, which may belong to another owner.
    Turn {
        session: usize,
        stateful: usize,
        add: i64,
    },
    Cancel {
        session: usize,
        id: i64,
    },
    Delete {
        session: usize,
    },
    Metrics,
    /// This status is expected in any case.
    Fixed(u16),
    Malformed,
}

impl RequestKind {
    fn session(&self) -> Option<usize> {
        match self {
            RequestKind::Sum { session, .. } => *session,
            RequestKind::Ping { session }
            | RequestKind::Start { session }
            | RequestKind::Turn { session, .. }
            | RequestKind::Cancel { session, .. }
            | RequestKind::Delete { session } => Some(*session),
            RequestKind::Initialize
            | RequestKind::Metrics
            | RequestKind::Fixed(_)
            | RequestKind::Malformed => None,
        }
    }

    fn is_program(&self) -> bool {
        matches!(self, RequestKind::Sum { .. } | RequestKind::Turn { .. })
    }
}

/// A response as it was read.
struct Response {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

/// An action of the scheduler, with its weight.
type Action = (usize, fn(&mut Simulation));

const ACTIONS: &[Action] = &[
    (9, Simulation::ask_initialize),
    (5, Simulation::ask_ping),
    (24, Simulation::ask_sum),
    (5, Simulation::ask_start),
    (10, Simulation::ask_turn),
    (6, Simulation::ask_cancel),
    (3, Simulation::ask_delete),
    (4, Simulation::ask_fixed),
    (1, Simulation::ask_malformed),
    (16, Simulation::send_some),
    (24, Simulation::run_program),
    (6, Simulation::disconnect),
    (2, Simulation::half_close),
    (3, Simulation::stop_reading),
    (9, Simulation::wait),
];

impl Simulation {
    fn log(&mut self, line: &str) {
        let ms = self.began.elapsed().as_millis();
        let _infallible = writeln!(self.report.text, "{ms:>6} {line}");
    }

    fn count(&mut self, outcome: &str) {
        *self.report.outcomes.entry(outcome.to_owned()).or_default() += 1;
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{}\n{what}", self.report.text)
    }

    fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(&what());
        }
    }

    fn next_number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn step(&mut self) {
        let act = self.choices.weighted(ACTIONS);
        act(self);
        // Sometimes the next action comes before the server has done everything that it could.
        match self.choices.percent(75) {
            true => self.settle(),
            false => self.advance_briefly(),
        }
        self.check_balance();
    }

    /// Invariants at any time.
    fn check_balance(&self) {
        let counts = self.endpoint.counts();
        let taken = self.server.gate.taken();
        self.check(taken <= self.caps.calls, || {
            format!("{taken} calls at once")
        });
        self.check(taken == counts.calls, || {
            format!(
                "{taken} places are taken, and {} calls in flight",
                counts.calls
            )
        });
        let most = self.caps.calls_of_a_session;
        self.check(counts.calls_of_one_session <= most, || {
            format!(
                "a session has {} calls in flight",
                counts.calls_of_one_session
            )
        });
        let most = self.caps.sessions.min(self.caps.sessions_of_an_owner);
        self.check(counts.sessions <= most, || {
            format!("{} sessions", counts.sessions)
        });
        let alive = (0..self.sessions.len()).filter(|session| self.is_alive(*session));
        let alive = alive.count();
        self.check(counts.sessions >= alive, || {
            format!("{} sessions, of {alive} that must live", counts.sessions)
        });
        let programs = self.server.sessions.count();
        self.check(programs <= self.caps.programs_sessions, || {
            format!("{programs} sessions of programs")
        });
    }

    // -- Connections ------------------------------------------------------------------------------------------------------------

    fn connect(&mut self, place: usize) {
        let bytes = self.choices.one_of(&[48, 700, 16 << 10]);
        let (ours, theirs) = tokio::io::duplex(bytes);
        let hung_up = Arc::new(AtomicBool::new(false));
        let theirs = ServerStream {
            stream: theirs,
            hung_up: hung_up.clone(),
        };
        let port = u16::try_from(self.next_number() % 60_000).unwrap_or_default() + 1;
        let _nobody_listens = self
            .connect_sender
            .send((theirs, SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        self.log(&format!("client {place} connects through {bytes} bytes"));
        let client = Client {
            stream: Some(ours),
            hung_up,
            out: Vec::new(),
            allowed: 0,
            inbox: Vec::new(),
            waiting: VecDeque::new(),
            busy_at: Instant::now(),
            may_end: false,
            reads: true,
            read_at: Instant::now(),
            cut: false,
        };
        match self.clients.get_mut(place) {
            Some(old) => *old = client,
            None => self.clients.push(client),
        }
    }

    /// Lets the server do everything that it can, and reads its responses.
    fn settle(&mut self) {
        loop {
            self.executor.block_on(tokio::time::sleep(TICK));
            let moved: Vec<bool> = (0..CLIENTS).map(|place| self.exchange(place)).collect();
            if !moved.contains(&true) {
                return;
            }
        }
    }

    /// Lets the server do some of what it can.
    fn advance_briefly(&mut self) {
        let turns = self.choices.below(6);
        self.executor.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Writes what may be sent and reads what arrived; returns whether any byte moved.
    fn exchange(&mut self, place: usize) -> bool {
        let client = &mut self.clients[place];
        let Some(stream) = &mut client.stream else {
            return false;
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let (mut moved, mut over) = (false, false);
        while client.allowed > 0 {
            let bytes = &client.out[..client.allowed];
            match Pin::new(&mut *stream).poll_write(&mut context, bytes) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    client.out.drain(..count);
                    client.allowed -= count;
                    moved = true;
                }
                Poll::Ready(_) => {
                    // Nobody will ever read it.
                    client.cut = true;
                    client.out.clear();
                    client.allowed = 0;
                }
                Poll::Pending => break,
            }
        }
        let wrote = moved;
        if client.reads {
            // A client that did not read for too long may have been given up.
            let deaf = client.read_at.elapsed() + MARGIN >= WRITE_TIMEOUT;
            client.may_end |= deaf;
            self.client_was_dropped |= deaf;
            client.read_at = Instant::now();
        }
        while client.reads {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(&mut context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    client.inbox.extend_from_slice(buffer.filled());
                    moved = true;
                }
                Poll::Ready(_) => {
                    over = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        let now = Instant::now();
        if wrote {
            client.busy_at = now;
        }
        if client.out.is_empty() && !client.cut {
            let unsent = client
                .waiting
                .iter_mut()
                .filter(|asked| asked.fully_sent.is_none());
            unsent.for_each(|asked| asked.fully_sent = Some(now));
        }
        while let Some(response) = take_response(&mut self.clients[place].inbox) {
            self.receive(place, &response);
        }
        if over {
            self.connection_ended(place);
        }
        moved
    }

    /// Handles that the server ended the connection.
    fn connection_ended(&mut self, place: usize) {
        let client = &self.clients[place];
        let stopped = self.stopped_at;
        // A request that took too long to arrive may be dropped.
        let slow = |asked: &PendingRequest| {
            let whole = asked.fully_sent.unwrap_or_else(Instant::now);
            whole.duration_since(asked.idle_since) + MARGIN >= REQUEST_TIMEOUT
        };
        let lost = client.waiting.front().is_some_and(|asked| match stopped {
            // A request that the server was handling when shutdown began is still answered.
            Some(_) => asked.in_progress,
            None => !slow(asked),
        });
        let lost = lost && !client.may_end;
        let waiting = client.waiting.iter().map(|asked| &asked.what);
        let waiting: Vec<&RequestKind> = waiting.collect();
        self.check(!lost, || {
            format!("client {place} is cut off while it waits for {waiting:?}")
        });
        self.check(client.inbox.is_empty() || client.may_end, || {
            format!("client {place} is cut off in the middle of a reply")
        });
        self.count("the server ends a connection");
        self.log(&format!("client {place} is told good-bye"));
        self.forget(place);
    }

    /// Forgets a connection that nobody uses any more.
    fn forget(&mut self, place: usize) {
        let client = &mut self.clients[place];
        client.stream = None;
        client.hung_up.store(true, Ordering::SeqCst);
        client.out.clear();
        client.allowed = 0;
        client.inbox.clear();
        let until = Instant::now() + NOTICED_WITHIN;
        for asked in std::mem::take(&mut client.waiting) {
            if asked.what.is_program() {
                self.abandoned_programs.push(until);
            }
            match asked.what {
                RequestKind::Initialize => self.unconfirmed_sessions += 1,
                RequestKind::Turn { stateful, .. } => {
                    self.stateful[stateful].total = None;
                    self.stateful[stateful].uncertain_until = until;
                }
                _ => {}
            }
        }
    }

    // -- What clients ask -------------------------------------------------------------------------------------------------------

    /// Sends a request on some connection, at once or in pieces.
    fn ask(&mut self, what: RequestKind, request: impl FnOnce(i64) -> Vec<u8>) {
        // With nothing under way, the outcome of a program is certain.
        let settled = matches!(what, RequestKind::Sum { .. }) && self.choices.percent(50);
        if settled {
            self.settle();
        }
        let place = self.choices.below(CLIENTS);
        if self.clients[place].stream.is_none() {
            match self.stopped_at {
                None => self.connect(place),
                Some(_) => return,
            }
        }
        if self.clients[place].waiting.len() >= PIPELINED_MAX || self.clients[place].may_end {
            return;
        }
        let number = self.next_number();
        let now = Instant::now();
        let too_late = what
            .session()
            .and_then(|session| self.sessions.get(session));
        let too_late = too_late.is_some_and(|session| {
            session.over.is_some() || now.duration_since(session.opened.1) >= TTL
        });
        let asked = PendingRequest {
            number,
            what: what.clone(),
            since: now,
            idle_since: self.clients[place].busy_at,
            fully_sent: None,
            in_progress: false,
            broken: false,
            too_late,
            crowd: 0,
            sessions: 0,
            may_be_duplicate: false,
        };
        match &what {
            RequestKind::Delete { session } => self.sessions[*session].ending = true,
            RequestKind::Cancel { session, id } => {
                self.sessions[*session].cancelled.insert(*id);
            }
            _ => {}
        }
        let expected = self.expected_at_once(place, &what).filter(|_| settled);
        let client = &mut self.clients[place];
        if client.waiting.is_empty()
            && now.duration_since(client.busy_at) + MARGIN >= REQUEST_TIMEOUT
        {
            // The server may be about to end a connection that was idle for so long.
            client.may_end = true;
        }
        client.may_end |= matches!(what, RequestKind::Malformed);
        client.out.extend(request(number));
        client.waiting.push_back(asked);
        let whole = expected.is_some() || self.choices.percent(60);
        let length = client.out.len();
        client.allowed = match whole {
            true => length,
            false => client.allowed + self.choices.below(length - client.allowed + 1),
        };
        self.record_crowding();
        self.log(&format!(
            "client {place} asks {number}: {what:?}, whole: {whole}"
        ));
        if let Some(taken) = expected {
            self.settle();
            let now_taken = self.server.gate.taken();
            self.check(now_taken == taken, || {
                format!("{taken} calls must be in flight then, and {now_taken} are")
            });
        }
    }

    /// The expected number of calls in flight after a program was sent, if it is certain.
    fn expected_at_once(&self, place: usize, what: &RequestKind) -> Option<usize> {
        let RequestKind::Sum { session, id, .. } = what else {
            return None;
        };
        let now = Instant::now();
        let quiet =
            |client: &Client| client.out.is_empty() && client.inbox.is_empty() && client.reads;
        let own = &self.clients[place];
        let calm = self.stopped_at.is_none()
            && self.abandoned_programs.iter().all(|until| *until <= now)
            && self.clients.iter().all(quiet)
            && own.waiting.is_empty()
            && now.duration_since(own.busy_at) + MARGIN < REQUEST_TIMEOUT
            && session.is_none_or(|session| self.is_alive(session));
        let waiting = || self.clients.iter().flat_map(|client| &client.waiting);
        // Every other program must be the first request on its connection; otherwise it is unknown whether it has begun.
        let known = self.clients.iter().all(|client| {
            client
                .waiting
                .iter()
                .skip(1)
                .all(|asked| !asked.what.is_program())
        });
        let in_time = waiting().all(|asked| {
            let limit = PROGRAM_TIMEOUT + SLACK;
            now.duration_since(asked.since) + MARGIN < limit
        });
        if !calm || !known || !in_time {
            return None;
        }
        let taken = self.server.gate.taken();
        let of_session: Vec<&RequestKind> = waiting()
            .map(|asked| &asked.what)
            .filter(|other| other.is_program() && other.session() == *session)
            .collect();
        let may_be_duplicate = session.is_some()
            && of_session
                .iter()
                .any(|other| matches!(other, RequestKind::Sum { id: known, .. } if known == id));
        let crowded = session.is_some() && of_session.len() >= self.caps.calls_of_a_session;
        let full = taken >= self.caps.calls || crowded;
        Some(taken + usize::from(!full && !may_be_duplicate))
    }

    /// Updates, for every waiting request, how many others wait.
    fn record_crowding(&mut self) {
        let waiting: Vec<RequestKind> = self
            .clients
            .iter()
            .flat_map(|client| client.waiting.iter().map(|asked| asked.what.clone()))
            .collect();
        let now = Instant::now();
        self.abandoned_programs.retain(|until| *until > now);
        let haunted = !self.abandoned_programs.is_empty();
        let programs =
            waiting.iter().filter(|what| what.is_program()).count() + self.abandoned_programs.len();
        let beginning = waiting
            .iter()
            .filter(|what| matches!(what, RequestKind::Initialize));
        // Expired sessions no longer count, whether they were swept or not.
        let counts = |session: &&Session| {
            session.over.is_none() && now.duration_since(session.opened.1) < TTL
        };
        let known = self.sessions.iter().filter(counts);
        let sessions = known.count() + self.unconfirmed_sessions + beginning.count();
        for client in &mut self.clients {
            for asked in &mut client.waiting {
                asked.crowd = asked.crowd.max(programs);
                asked.sessions = asked.sessions.max(sessions);
                if let RequestKind::Sum { session, id, .. } = &asked.what {
                    let twins = waiting.iter().filter(
                        |what| matches!(what, RequestKind::Sum { session: s, id: i, .. } if s == session && i == id),
                    );
                    asked.may_be_duplicate |= haunted || twins.count() > 1;
                }
                if let RequestKind::Turn { stateful, .. } = &asked.what {
                    let twins = waiting.iter().filter(
                        |what| matches!(what, RequestKind::Turn { stateful: s, .. } if s == stateful),
                    );
                    asked.may_be_duplicate |= twins.count() > 1;
                }
            }
        }
    }

    fn pick_session(&mut self) -> Option<usize> {
        let all = self.sessions.len();
        let live: Vec<usize> = (0..all)
            .filter(|place| self.sessions[*place].over.is_none())
            .collect();
        match live.is_empty() || self.choices.percent(10) {
            true => (all > 0).then(|| self.choices.below(all)),
            false => Some(self.choices.one_of(&live)),
        }
    }

    fn session_header(&self, session: usize) -> Vec<(&'static str, String)> {
        vec![("mcp-session-id", self.sessions[session].id.clone())]
    }

    fn ask_initialize(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}});
        let chunked = self.choices.percent(25);
        self.ask(RequestKind::Initialize, |number| {
            let frame =
                json!({"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params});
            post(number, &[], &frame, chunked)
        });
    }

    fn ask_ping(&mut self) {
        let Some(session) = self.pick_session() else {
            return;
        };
        let headers = self.session_header(session);
        self.ask(RequestKind::Ping { session }, |number| {
            let frame = json!({"jsonrpc": "2.0", "id": number, "method": "ping"});
            post(number, &headers, &frame, false)
        });
    }

    fn ask_sum(&mut self) {
        let sum = self.next_number();
        // Few ids, so that those of different clients coincide.
        let id = i64::try_from(self.choices.below(6)).unwrap_or_default();
        let stateless = self.choices.percent(25);
        let session = match stateless {
            true => None,
            false => match self.pick_session() {
                None => return,
                some => some,
            },
        };
        let arguments = json!({"program": format!("(+ {} 1)", sum - 1)});
        let mut frame = request(id, "lisp_eval", &arguments);
        let headers = match session {
            Some(session) => self.session_header(session),
            None => {
                frame["params"]["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let headers = [
                    ("mcp-protocol-version", "2026-07-28"),
                    ("mcp-method", "tools/call"),
                    ("mcp-name", "lisp_eval"),
                ];
                headers
                    .map(|(name, value)| (name, value.to_owned()))
                    .to_vec()
            }
        };
        let chunked = self.choices.percent(25);
        self.ask(RequestKind::Sum { session, id, sum }, |number| {
            post(number, &headers, &frame, chunked)
        });
    }

    fn ask_start(&mut self) {
        let Some(session) = self.pick_session() else {
            return;
        };
        let headers = self.session_header(session);
        self.ask(RequestKind::Start { session }, |number| {
            let frame = request(number, "lisp_session_start", &json!({}));
            post(number, &headers, &frame, false)
        });
    }

    fn ask_turn(&mut self) {
        if self.stateful.is_empty() {
            return self.ask_start();
        }
        let stateful = self.choices.below(self.stateful.len());
        let owner = self.stateful[stateful].owner;
        let session = match self.choices.percent(75) {
            true => Some(owner),
            false => self.pick_session(),
        };
        let Some(session) = session else { return };
        let add = 1 + i64::try_from(self.choices.below(9)).unwrap_or_default();
        let headers = self.session_header(session);
        let arguments = json!({
            "session_id": self.stateful[stateful].id,
            "program": format!("(def total (+ (or total 0) {add})) total"),
        });
        self.ask(
            RequestKind::Turn {
                session,
                stateful,
                add,
            },
            |number| {
                let frame = request(number, "lisp_session_eval", &arguments);
                post(number, &headers, &frame, false)
            },
        );
    }

    fn ask_cancel(&mut self) {
        let waiting = self.clients.iter().flat_map(|client| &client.waiting);
        let calls: Vec<(usize, i64)> = waiting
            .filter_map(|asked| match asked.what {
                RequestKind::Sum {
                    session: Some(session),
                    id,
                    ..
                } => Some((session, id)),
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            return;
        }
        let (session, id) = self.choices.one_of(&calls);
        let headers = self.session_header(session);
        self.ask(RequestKind::Cancel { session, id }, |number| {
            let params = json!({"requestId": id});
            let frame =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            post(number, &headers, &frame, false)
        });
    }

    fn ask_delete(&mut self) {
        let Some(session) = self.pick_session() else {
            return;
        };
        let headers = self.session_header(session);
        self.ask(RequestKind::Delete { session }, |number| {
            (head("DELETE /mcp", number, &headers) + "\r\n").into_bytes()
        });
    }

    fn ask_fixed(&mut self) {
        let (status, line) = self.choices.one_of(&[
            (404, "GET /elsewhere"),
            (405, "GET /mcp"),
            (404, "DELETE /mcp"),
            (401, "GET /metrics"),
            (200, "GET /health"),
        ]);
        self.ask(RequestKind::Fixed(status), |number| {
            let mut text = head(line, number, &[]);
            match status {
                401 => text = text.replace(TOKEN, "another-token-of-another-server-xx"),
                404 if line.starts_with("DELETE") => text += "mcp-session-id: mcp_never\r\n",
                _ => {}
            }
            (text + "\r\n").into_bytes()
        });
    }

    fn ask_malformed(&mut self) {
        if self.waits_for_replies {
            return;
        }
        self.ask(RequestKind::Malformed, |number| {
            let text = head("POST /mcp", number, &[]);
            format!("{text}content-length: 3\r\ncontent-length: 4\r\n\r\n").into_bytes()
        });
    }

    // -- What else happens ------------------------------------------------------------------------------------------------------

    /// Lets a client send more of what it began, and read again.
    fn send_some(&mut self) {
        let place = self.choices.below(CLIENTS);
        let client = &mut self.clients[place];
        client.reads = true;
        let left = client.out.len() - client.allowed;
        if left > 0 {
            let more = 1 + self.choices.below(left);
            client.allowed += more;
            self.log(&format!("client {place} sends {more} of {left} bytes"));
        }
    }

    fn run_program(&mut self) {
        let number = self.choices.below(1000);
        if let Some(job) = self.server.pool.take(number) {
            self.log("a program runs");
            job.run();
        }
    }

    fn disconnect(&mut self) {
        let place = self.choices.below(CLIENTS);
        if self.waits_for_replies || self.clients[place].stream.is_none() {
            return;
        }
        let waits = !self.clients[place].waiting.is_empty();
        self.log(&format!("client {place} vanishes, waiting: {waits}"));
        self.count(if waits {
            "vanished while it waited"
        } else {
            "vanished"
        });
        self.forget(place);
    }

    fn half_close(&mut self) {
        let place = self.choices.below(CLIENTS);
        let client = &mut self.clients[place];
        let Some(stream) = client.stream.as_mut().filter(|_| !self.waits_for_replies) else {
            return;
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _closed = Pin::new(stream).poll_shutdown(&mut context);
        client.hung_up.store(true, Ordering::SeqCst);
        client.may_end = true;
        client.cut |= !client.out.is_empty();
        client.out.clear();
        client.allowed = 0;
        let unsent = client
            .waiting
            .iter_mut()
            .filter(|asked| asked.fully_sent.is_none());
        unsent.for_each(|asked| asked.broken = true);
        self.log(&format!("client {place} will send no more"));
        self.count("half-closed");
    }

    fn stop_reading(&mut self) {
        let place = self.choices.below(CLIENTS);
        self.clients[place].reads = false;
        self.log(&format!("client {place} stops reading"));
    }

    fn wait(&mut self) {
        let ms = self.choices.one_of(&[1, 90, 700, 1500, 2500, 5000, 8000]);
        if self.waits_for_replies && ms > 700 {
            return;
        }
        self.log(&format!("{ms} ms pass"));
        let until = Instant::now() + Duration::from_millis(ms);
        self.executor.block_on(tokio::time::sleep_until(until));
    }

    // -- What clients hear ------------------------------------------------------------------------------------------------------

    /// Handles a response: it answers the first waiting request of this connection.
    fn receive(&mut self, place: usize, response: &Response) {
        let Some(asked) = self.clients[place].waiting.pop_front() else {
            self.fail(&format!("client {place} asked nothing: {}", response.body))
        };
        let now = Instant::now();
        self.responses_read += 1;
        let word = word(response);
        self.log(&format!("client {place} hears {}: {word}", asked.number));
        self.count(&word);
        let echoed = response.headers.get("x-request-id").map(String::as_str);
        let own = format!("r{}", asked.number);
        // A malformed request has no id.
        let unread = matches!(asked.what, RequestKind::Malformed) && response.status == 400;
        self.check(echoed == Some(own.as_str()) || unread, || {
            format!("{own} gets the response to {echoed:?}")
        });
        if response
            .headers
            .get("connection")
            .is_some_and(|value| value == "close")
            || unread
        {
            self.clients[place].may_end = true;
        }
        let reply: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let right = self.is_expected(&asked, &word, response, &reply);
        self.check(right, || {
            format!("{:?} must not get {word}: {}", asked.what, response.body)
        });
        if let Some(session) = asked.what.session() {
            let session = &mut self.sessions[session];
            if word == "gone" {
                session.over.get_or_insert(now);
            }
            if !["gone", "too slow", "malformed", "server draining"].contains(&word.as_str()) {
                session.used = session.used.max(asked.since);
            }
        }
        self.update_model(&asked, &word, response, &reply);
    }

    /// Whether this response to a request is possible.
    fn is_expected(
        &self,
        asked: &PendingRequest,
        word: &str,
        response: &Response,
        reply: &Value,
    ) -> bool {
        let now = Instant::now();
        let took = now.duration_since(asked.since);
        match (word, &asked.what) {
            ("server draining", _) => return self.stopped_at.is_some(),
            ("malformed", _) if asked.broken => return true,
            ("too slow", _) => return took >= REQUEST_TIMEOUT,
            ("gone", RequestKind::Fixed(404)) => return true,
            ("gone", _) => {
                let session = asked.what.session();
                return session.is_some_and(|session| self.may_be_over(session, now));
            }
            _ if asked.too_late => return false,
            _ => {}
        }
        let said = &reply["result"]["structuredContent"];
        let id = match &asked.what {
            RequestKind::Sum { id, .. } => Some(*id),
            RequestKind::Initialize
            | RequestKind::Ping { .. }
            | RequestKind::Start { .. }
            | RequestKind::Turn { .. } => Some(asked.number),
            _ => None,
        };
        if id.is_some_and(|id| reply["id"] != id) {
            return false;
        }
        // Calls without a session are limited by the process's cap only.
        let of_a_session = asked.what.session().map(|_| self.caps.calls_of_a_session);
        let places = of_a_session.map_or(self.caps.calls, |most| most.min(self.caps.calls));
        let ended = || match asked.what.session() {
            Some(session) => self.may_be_over(session, now),
            None => self.stopped_at.is_some(),
        };
        match (&asked.what, word) {
            (RequestKind::Initialize, "ok") => response.headers.contains_key("mcp-session-id"),
            (RequestKind::Initialize, "server saturated") => asked.sessions > self.caps.sessions,
            (RequestKind::Initialize, "session owner limit exceeded") => {
                asked.sessions > self.caps.sessions_of_an_owner
            }
            (RequestKind::Ping { .. }, "ok") => reply["result"] == json!({}),
            (RequestKind::Start { .. }, "ok" | "session_limit_exceeded") => true,
            (
                RequestKind::Start { .. } | RequestKind::Sum { .. } | RequestKind::Turn { .. },
                "shutting_down",
            ) => ended(),
            (RequestKind::Sum { sum, .. }, "ok") => said["result"] == format!("user=> {sum}"),
            (
                RequestKind::Turn {
                    session,
                    stateful,
                    add,
                },
                "ok",
            ) => {
                let stateful = &self.stateful[*stateful];
                let total = stateful
                    .total
                    .map(|total| format!("user=> {}", total + add));
                stateful.owner == *session
                    && total.is_none_or(|total| asked.may_be_duplicate || said["result"] == total)
            }
            (RequestKind::Sum { .. } | RequestKind::Turn { .. }, "busy") => asked.crowd > places,
            (RequestKind::Sum { .. } | RequestKind::Turn { .. }, "request timed out") => {
                took >= PROGRAM_TIMEOUT + SLACK
            }
            (RequestKind::Sum { session, id, .. }, "cancelled") => {
                let asked_for =
                    session.is_some_and(|session| self.sessions[session].cancelled.contains(id));
                asked_for || ended()
            }
            (RequestKind::Turn { .. }, "cancelled") => ended(),
            (RequestKind::Sum { session, .. }, "duplicate") => {
                asked.may_be_duplicate && session.is_some()
            }
            (RequestKind::Turn { .. }, "session_busy") => asked.may_be_duplicate || asked.crowd > 1,
            (
                RequestKind::Turn {
                    session, stateful, ..
                },
                "session_owner_mismatch",
            ) => self.stateful[*stateful].owner != *session,
            (RequestKind::Turn { stateful, .. }, "session_closed" | "session_not_found") => {
                self.may_be_over(self.stateful[*stateful].owner, now)
            }
            (RequestKind::Cancel { .. } | RequestKind::Delete { .. }, "accepted") => true,
            (RequestKind::Metrics, "text") => {
                response.body.contains("ptc_lisp_http_requests_total")
            }
            (RequestKind::Fixed(status), _) => response.status == *status,
            (RequestKind::Malformed, "malformed") => true,
            _ => false,
        }
    }

    /// Updates the model from a reply.
    fn update_model(
        &mut self,
        asked: &PendingRequest,
        word: &str,
        response: &Response,
        reply: &Value,
    ) {
        let now = Instant::now();
        let said = &reply["result"]["structuredContent"];
        match (&asked.what, word) {
            (RequestKind::Initialize, "ok") => self.sessions.push(Session {
                id: response.headers["mcp-session-id"].clone(),
                opened: (asked.since, now),
                used: asked.since,
                ending: false,
                over: None,
                cancelled: BTreeSet::new(),
            }),
            (RequestKind::Delete { session }, "accepted") => {
                self.sessions[*session].over = Some(now)
            }
            (RequestKind::Start { session }, "ok") => {
                let id = said["session_id"].as_str().unwrap_or_default().to_owned();
                self.stateful.push(ProgramSession {
                    id,
                    owner: *session,
                    total: Some(0),
                    uncertain_until: now,
                });
            }
            (RequestKind::Turn { stateful, .. }, "ok") => {
                let total = said["result"]
                    .as_str()
                    .and_then(|text| text.strip_prefix("user=> "));
                let total = total.and_then(|total| total.parse().ok());
                self.check(total.is_some(), || format!("no total: {reply}"));
                let stateful = &mut self.stateful[*stateful];
                stateful.total =
                    total.filter(|_| !asked.may_be_duplicate && now > stateful.uncertain_until);
            }
            // A program that was given up may or may not have run by then.
            (RequestKind::Turn { stateful, .. }, "request timed out" | "cancelled") => {
                self.stateful[*stateful].total = None;
            }
            _ => {}
        }
    }

    /// Whether a session may have ended by now.
    fn may_be_over(&self, session: usize, now: Instant) -> bool {
        let session = &self.sessions[session];
        session.ending
            || session.over.is_some()
            || self.stopped_at.is_some()
            || now.duration_since(session.opened.0) >= TTL
            || now.duration_since(session.used) >= IDLE
    }

    /// Whether a session cannot have ended yet, and will not end while the simulation settles.
    fn is_alive(&self, session: usize) -> bool {
        !self.may_be_over(session, Instant::now() + MARGIN)
    }

    // -- The end ----------------------------------------------------------------------------------------------------------------

    /// Shuts the server down, and checks what is left.
    fn end(&mut self) {
        let drains_calls = self.choices.percent(70);
        for client in &mut self.clients {
            client.reads = true;
            client.allowed = client.out.len();
        }
        self.settle();
        if self.waits_for_replies && !drains_calls {
            self.compare_counters();
        }
        self.executor.block_on(tokio::time::sleep(MARGIN + TICK));
        self.settle();
        self.log("the server is told to end");
        let in_flight = self.server.gate.taken();
        if in_flight > 0 {
            self.count("told to end with calls in flight");
        }
        for client in &mut self.clients {
            let first = client
                .waiting
                .front_mut()
                .filter(|asked| asked.fully_sent.is_some());
            if let Some(asked) = first.filter(|_| !client.may_end) {
                asked.in_progress = true;
            }
        }
        self.stopped_at = Some(Instant::now());
        let _nobody_listens = self.stop.send(true);
        for _ in 0..FINAL_STEPS {
            self.step();
        }
        for client in &mut self.clients {
            client.reads = true;
            client.allowed = client.out.len();
        }
        let by = Instant::now() + END_WITHIN;
        while !self.listening.is_finished() && Instant::now() < by {
            self.settle();
            self.executor
                .block_on(tokio::time::sleep(Duration::from_millis(50)));
        }
        self.check(self.listening.is_finished(), || {
            "the server does not end".to_owned()
        });
        self.settle();
        (0..CLIENTS).for_each(|place| self.forget(place));
        self.settle();
        let (counts, taken) = (self.endpoint.counts(), self.server.gate.taken());
        let left = (counts.calls, counts.requests, counts.body_bytes, taken);
        self.check(left == (0, 0, 0, 0), || {
            format!("calls, requests, bytes of bodies and places that are left: {left:?}")
        });
        // Abandoned programs run now, and answer nobody.
        while let Some(job) = self.server.pool.take(0) {
            job.run();
        }
        self.check_balance();
    }

    /// Once every reply is read, the metrics must report the same numbers.
    fn compare_counters(&mut self) {
        while let Some(job) = self.server.pool.take(0) {
            job.run();
            self.settle();
        }
        let waits = |client: &Client| !client.waiting.is_empty();
        if self.client_was_dropped
            || self.clients.iter().any(waits)
            || self.clients.iter().all(|client| client.stream.is_none())
        {
            return;
        }
        let heard = self.responses_read;
        let ok = |report: &SimulationReport, word: &str| {
            report.outcomes.get(word).copied().unwrap_or_default()
        };
        let busy = ok(&self.report, "busy");
        let before = self.last;
        self.ask(RequestKind::Metrics, |number| {
            (head("GET /metrics", number, &[]) + "\r\n").into_bytes()
        });
        if self.last == before {
            return;
        }
        for client in &mut self.clients {
            client.allowed = client.out.len();
        }
        // The page itself is read separately: nothing else is under way.
        let page = self.page();
        let sum = |name: &str, label: &str| -> usize {
            let lines = page
                .lines()
                .filter(|line| line.starts_with(name) && line.contains(label));
            lines
                .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
                .sum()
        };
        let counted = sum("ptc_lisp_http_requests_total{", "");
        self.check(counted == heard, || {
            format!("{counted} responses are counted, and {heard} were read:\n{page}")
        });
        let counted = sum("ptc_lisp_calls_total{", "reason=\"busy\"");
        self.check(counted == busy, || {
            format!("{counted} refusals are counted, and {busy} were read:\n{page}")
        });
        self.count("counters compared");
    }

    /// The body of the next response.
    fn page(&mut self) -> String {
        for _ in 0..1000 {
            self.executor.block_on(tokio::time::sleep(TICK));
            for place in 0..CLIENTS {
                let reads = std::mem::replace(&mut self.clients[place].reads, false);
                self.exchange(place);
                self.clients[place].reads = reads;
                let client = &mut self.clients[place];
                let Some(stream) = client.stream.as_mut() else {
                    continue;
                };
                let mut bytes = [0; 4096];
                let mut buffer = ReadBuf::new(&mut bytes);
                let mut context = Context::from_waker(std::task::Waker::noop());
                if let Poll::Ready(Ok(())) = Pin::new(stream).poll_read(&mut context, &mut buffer) {
                    client.inbox.extend_from_slice(buffer.filled());
                }
                if let Some(response) = take_response(&mut client.inbox) {
                    self.receive(place, &response);
                    return response.body;
                }
            }
        }
        self.fail("the metrics are not served")
    }
}

/// A response in a word.
fn word(response: &Response) -> String {
    let reply: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let error = reply["error"]["message"].as_str();
    let said = &reply["result"]["structuredContent"];
    let reason = said["reason"]
        .as_str()
        .filter(|_| said["status"] == "error");
    let word = match (response.status, error, reason) {
        (_, Some(error), _) if error.contains("already in flight") => "duplicate",
        (_, Some(error), _) => error,
        (_, _, Some(reason)) => reason,
        (202, ..) => "accepted",
        (400, ..) => "malformed",
        (404, ..) => "gone",
        (408, ..) => "too slow",
        (200, ..) if reply.is_object() => "ok",
        (200, ..) => "text",
        (status, ..) => return status.to_string(),
    };
    word.to_owned()
}

/// The first complete response in these bytes; interim responses before it are skipped, as clients do.
fn take_response(bytes: &mut Vec<u8>) -> Option<Response> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if (100..200).contains(&status) {
        bytes.drain(..end);
        return take_response(bytes);
    }
    let fields = lines.filter_map(|line| line.split_once(':'));
    let headers: BTreeMap<String, String> = fields
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse::<usize>().ok());
    let whole = end + length.unwrap_or(0);
    if bytes.len() < whole {
        return None;
    }
    let body = String::from_utf8_lossy(&bytes[end..whole]).into_owned();
    bytes.drain(..whole);
    Some(Response {
        status,
        headers,
        body,
    })
}

/// A request's head without its last line.
fn head(line: &str, number: i64, headers: &[(&str, String)]) -> String {
    let mut text = format!(
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\nx-request-id: r{number}\r\n"
    );
    for (name, value) in headers {
        let _infallible = write!(text, "{name}: {value}\r\n");
    }
    text
}

fn post(number: i64, headers: &[(&str, String)], frame: &Value, chunked: bool) -> Vec<u8> {
    let head = head("POST /mcp", number, headers);
    let body = frame.to_string();
    let (first, rest) = body.split_at(body.len() / 2);
    match chunked {
        true => format!(
            "{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:X};a=b\r\n{rest}\r\n0\r\n\r\n",
            first.len(),
            rest.len()
        ),
        false => format!(
            "{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    }
    .into_bytes()
}
