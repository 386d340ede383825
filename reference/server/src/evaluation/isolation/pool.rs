//! The server's side of the worker processes: keeps them ready, gives them programs, answers their questions, watches and replaces them.
//! Knows nothing of MCP, and trusts nothing that they send.

use crate::lock::lock;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ptc_lang::error::{self, Code};
use ptc_lang::form::Span;
use ptc_lang::heap::Account;
use ptc_lang::{
    CompletedRun, Discovery, Ended, Env, Error, Host, HostFault, Kind, Limits, Outcome, Program,
    Pulse, Reason, Value, print, snapshot,
};

use super::frames::{
    self, FrameReader, HostReply, HostRequest, RunEnd, RunLimits, RunRequest, RunResult, ToServer,
    ToWorker,
};
use super::worker::{received_bytes_max, sent_bytes_max};
use super::{EvaluationContext, IsolationFault, WorkerSettings, transfer_fault};

/// How long a program may run past its deadline before its process is killed.
const KILL_GRACE: Duration = Duration::from_millis(100);
/// The interval at which a program's deadline and cancellation are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The time for a process to get ready: this many times what the last one took, within bounds. A hanging process delays the start of
/// others.
const READY_TIMEOUT_FACTOR: u32 = 10;
const READY_TIMEOUT_MIN: Duration = Duration::from_secs(2);
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// The time in which a process must accept at least some bytes of a frame.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_millis(500);
/// The time for a process to accept a program, as a fraction of the program's time; after that another process is tried.
const WRITE_TIME_SHARE: u32 = 2;
/// Bytes that are written between two checks of the clock: the kernel's write timeout applies anew to each part that it accepts.
const CHUNK_BYTES: usize = 64 << 10;
/// The time for a process to report that it begins, as a fraction of the program's time and within bounds; after that another one is
/// tried.
const START_TIME_SHARE: u32 = 4;
const START_TIMEOUT_MIN: Duration = Duration::from_millis(50);
const START_TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Seconds of CPU time after which a process is replaced. Its limit is this plus the time of one program.
const CPU_SECONDS: u64 = 600;
/// Threads of a program: its own, and those of `pmap`.
const THREADS: u64 = 9;
/// Bytes that a printed line is charged besides its text.
const LINE_BYTES: usize = 32;
/// The pause after a failed start.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// One program to evaluate.
struct ProgramTask<'a> {
    env: &'a Env,
    place: &'a EvaluationContext<'a>,
    limits: &'a Limits,
    host: &'a dyn Host,
    deadline: Instant,
    /// Bytes of the largest frame that the process may send.
    bytes_max: usize,
}

impl ProgramTask<'_> {
    /// When a process that gets the program now must have begun.
    fn start_deadline(&self) -> Instant {
        let now = Instant::now();
        let share = self.deadline.saturating_duration_since(now) / START_TIME_SHARE;
        now + share.clamp(START_TIMEOUT_MIN, START_TIMEOUT_MAX)
    }
}

/// The processes of a server.
pub struct Processes {
    shared: Arc<Shared>,
}

struct Shared {
    settings: WorkerSettings,
    state: Mutex<State>,
    /// Signalled when a process becomes idle, to programs that wait for one.
    idle: Condvar,
    /// Signalled when a process may be missing, or none is wanted any more, to the thread that starts them. Not signalled on every call.
    missing: Condvar,
    landlock: AtomicBool,
    /// Number of processes started so far.
    started: AtomicUsize,
}

#[derive(Default)]
struct State {
    idle: Vec<Worker>,
    busy: usize,
    failure: Option<SpawnFault>,
    closed: bool,
}

/// A process that is ready.
struct Worker {
    child: Child,
    stream: UnixStream,
    inbox: FrameReader,
    /// An upper bound of the CPU time it has used.
    spent: Duration,
}

impl Processes {
    /// Starts the thread that starts processes, and waits for the first process.
    pub fn start(settings: WorkerSettings) -> Result<Processes, IsolationFault> {
        let shared = Arc::new(Shared {
            settings,
            state: Mutex::new(State::default()),
            idle: Condvar::new(),
            missing: Condvar::new(),
            landlock: AtomicBool::new(false),
            started: AtomicUsize::new(0),
        });
        let starting = Arc::downgrade(&shared);
        // One long-lived thread starts all of them, because the kernel kills a process when the thread that started it ends.
        std::thread::Builder::new()
            .name("processes".into())
            .spawn(move || replenish(&starting))
            .map_err(IsolationFault::Thread)?;
        let mut state = shared.lock();
        loop {
            if let Some(failure) = state.failure.take() {
                state.closed = true;
                return Err(IsolationFault::Process(failure));
            }
            if !state.idle.is_empty() {
                break;
            }
            state = wait(&shared.idle, state, READY_TIMEOUT);
        }
        drop(state);
        Ok(Processes { shared })
    }

    /// Whether Landlock fully confines all of them.
    pub fn is_confined(&self) -> bool {
        self.shared.landlock.load(Ordering::Relaxed)
    }

    /// Evaluates a program. What it holds while it runs is charged inside its process; the server's work on its behalf, and the
    /// environment that it leaves, are charged to its meter here.
    pub fn run(&self, program: &Program, env: &Env, place: &EvaluationContext<'_>) -> CompletedRun {
        let mut prints = Vec::new();
        // Frames belong to the server, and are bounded.
        let elsewhere = Account::new(u64::MAX);
        let evaluated = elsewhere.within(|| self.evaluate(program, env, place, &mut prints));
        let (ended, left) = evaluated.unwrap_or_else(|error| (Ended::Error(error), None));
        let (before, after) = match left {
            Some((after, changed)) => {
                let after = after.with_context(env.context().clone());
                // The process may name any definitions, any number of times.
                let names = changed.lines().filter(|name| after.get(name).is_some());
                let names: BTreeSet<_> = names.collect();
                let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
                (after.with_unchanged(env, &names), after)
            }
            None => (env.clone(), env.clone()),
        };
        CompletedRun {
            outcome: Outcome { ended, prints },
            before,
            after,
        }
    }

    fn evaluate(
        &self,
        program: &Program,
        env: &Env,
        place: &EvaluationContext<'_>,
        prints: &mut Vec<String>,
    ) -> Result<(Ended, Option<LeftEnv>), Error> {
        let EvaluationContext { limits, host, .. } = place;
        let snapshot_bytes = env
            .snapshot(received_bytes_max(limits.memory_bytes), *host)
            .map_err(snapshot_error)?;
        let task = ProgramTask {
            env,
            place,
            limits,
            host: *host,
            deadline: place.deadline,
            bytes_max: sent_bytes_max(limits.memory_bytes, snapshot_bytes.len()),
        };
        let remaining = task.deadline.saturating_duration_since(Instant::now());
        let run = ToWorker::Run(RunRequest {
            program: program.text().to_owned(),
            env: snapshot_bytes,
            keeps: place.keeps,
            time_micros: u64::try_from(remaining.as_micros()).unwrap_or(u64::MAX),
            limits: RunLimits {
                memory_bytes: limits.memory_bytes,
                workers: limits.workers as u64,
                nesting: limits.nesting,
                symbols: limits.symbols,
            },
            tools: host.tool_names().to_vec(),
        });
        let bytes = frames::encode(&run).map_err(|error| worker_lost(&error.to_string()))?;
        drop(run);
        loop {
            let mut guard = self.take(&task, &bytes)?;
            let began = Instant::now();
            let result = match &mut guard.worker {
                Some(Worker { stream, inbox, .. }) => {
                    Exchange::new(&task, stream).run(inbox, prints)
                }
                None => Err(WorkerFault::Exited),
            };
            let used = began.elapsed().saturating_mul(THREADS as u32);
            match result {
                Ok(done) => {
                    guard.release(used);
                    return conclude(done, &task);
                }
                // The program has not started, so nothing can happen twice.
                Err(WorkerFault::NotStarted) => check_pulse(task.host.pulse())?,
                Err(end) => return Err(guard.discard(end, task.host)),
            }
        }
    }

    /// A process that has accepted the program.
    fn take(&self, task: &ProgramTask<'_>, run: &[u8]) -> Result<BusyWorker<'_>, Error> {
        loop {
            let mut state = self.shared.lock();
            let worker = loop {
                if Instant::now() >= task.deadline {
                    return Err(match &state.failure {
                        Some(problem) => {
                            worker_lost(&format!("cannot start another one: {problem}"))
                        }
                        None => Kind::Timeout.into_error(),
                    });
                }
                check_pulse(task.host.pulse())?;
                if let Some(worker) = state.idle.pop() {
                    break worker;
                }
                self.shared.missing.notify_one();
                state = wait(&self.shared.idle, state, POLL_INTERVAL);
            };
            state.busy += 1;
            drop(state);
            let mut guard = BusyWorker {
                shared: &self.shared,
                worker: Some(worker),
            };
            // A process that died while idle does not fail the call.
            let Some(worker) = &mut guard.worker else {
                continue;
            };
            let now = Instant::now();
            let taken_by = now + task.deadline.saturating_duration_since(now) / WRITE_TIME_SHARE;
            let may_continue = || Instant::now() < taken_by && task.host.pulse() == Pulse::Continue;
            if worker.is_usable() && write(&worker.stream, run, may_continue).is_ok() {
                return Ok(guard);
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        for mut worker in state.idle.drain(..) {
            worker.kill();
        }
        self.shared.missing.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn wait<'s>(told: &Condvar, state: MutexGuard<'s, State>, most: Duration) -> MutexGuard<'s, State> {
    let waited = told.wait_timeout(state, most);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Starts a process whenever one is missing, as long as the server exists.
fn replenish(shared: &Weak<Shared>) {
    const CHECK_INTERVAL: Duration = Duration::from_secs(1);
    let mut ready_timeout = READY_TIMEOUT;
    loop {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut state = shared.lock();
        // Idle processes that cannot be used count as missing, too.
        for mut worker in state.idle.extract_if(.., |worker| !worker.is_usable()) {
            worker.kill();
        }
        if state.closed {
            return;
        }
        if state.idle.len() + state.busy >= shared.settings.places && !state.idle.is_empty() {
            drop(wait(&shared.missing, state, CHECK_INTERVAL));
            continue;
        }
        drop(state);
        let began = Instant::now();
        let started = Worker::start(shared.settings, ready_timeout);
        ready_timeout = match started {
            Ok(_) => (began.elapsed() * READY_TIMEOUT_FACTOR).max(READY_TIMEOUT_MIN),
            Err(_) => ready_timeout * 2,
        }
        .min(READY_TIMEOUT);
        let mut state = shared.lock();
        match started {
            Ok((worker, landlock)) => {
                shared.started.fetch_add(1, Ordering::Relaxed);
                shared.landlock.store(landlock, Ordering::Relaxed);
                state.failure = None;
                // Added at the bottom of the stack: the most recently used process is reused first, because its memory is warm.
                state.idle.insert(0, worker);
            }
            Err(fault) => state.failure = Some(fault),
        }
        let failed = state.failure.is_some();
        drop(state);
        shared.idle.notify_all();
        if failed {
            std::thread::sleep(RESTART_PAUSE);
        }
    }
}

impl Worker {
    /// Starts a process and waits until it is confined. Also returns whether Landlock fully confines it.
    fn start(
        settings: WorkerSettings,
        ready_timeout: Duration,
    ) -> Result<(Worker, bool), SpawnFault> {
        let (stream, other) = UnixStream::pair()?;
        let program_seconds = settings.time_ms.div_ceil(1000).saturating_add(1);
        let cpu_seconds = program_seconds
            .saturating_mul(THREADS)
            .saturating_add(CPU_SECONDS);
        // The running binary, even after another one was installed in its place.
        let child = Command::new("/proc/self/exe")
            .arg0("ptc")
            .arg("worker")
            .arg(settings.memory_bytes.to_string())
            .arg(cpu_seconds.to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut worker = Worker {
            child,
            stream,
            inbox: FrameReader::default(),
            spent: Duration::ZERO,
        };
        match worker.wait_until_ready(ready_timeout) {
            Ok(landlock) => Ok((worker, landlock)),
            Err(fault) => Err(match worker.kill() {
                Some(status) => SpawnFault::Ended {
                    fault: Box::new(fault),
                    status,
                },
                None => fault,
            }),
        }
    }

    fn wait_until_ready(&mut self, within: Duration) -> Result<bool, SpawnFault> {
        const FRAME_BYTES: usize = 4096;
        self.stream.set_read_timeout(Some(within))?;
        let confinement = loop {
            match self.inbox.next(FRAME_BYTES)? {
                Some(ToServer::Ready(confinement)) => break confinement,
                Some(ToServer::Failed(problem)) => return Err(SpawnFault::Reported(problem)),
                Some(_) => return Err(SpawnFault::ProtocolViolation),
                None if self.inbox.fill(&self.stream)? => {}
                None => return Err(SpawnFault::Closed),
            }
        };
        self.stream.set_read_timeout(Some(POLL_INTERVAL))?;
        self.stream.set_write_timeout(Some(POLL_INTERVAL))?;
        Ok(confinement.landlock)
    }

    /// Whether a program can be given to it: it is running, not stopped, and has sent nothing unasked.
    fn is_usable(&self) -> bool {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let watched = WaitPidFlag::WEXITED
            | WaitPidFlag::WSTOPPED
            | WaitPidFlag::WNOHANG
            | WaitPidFlag::WNOWAIT;
        let pid = i32::try_from(self.child.id()).map(nix::unistd::Pid::from_raw);
        let runs = pid
            .is_ok_and(|pid| matches!(waitid(Id::Pid(pid), watched), Ok(WaitStatus::StillAlive)));
        let mut socket = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        runs && self.inbox.is_empty() && poll(&mut socket, PollTimeout::ZERO) == Ok(0)
    }

    /// Kills the process and returns its exit status; it may have ended earlier.
    fn kill(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

/// A process that is evaluating; killed on drop unless it was given back or buried.
struct BusyWorker<'s> {
    shared: &'s Shared,
    worker: Option<Worker>,
}

impl BusyWorker<'_> {
    /// Keeps the process for further programs, unless it has used up its CPU time.
    fn release(&mut self, used: Duration) {
        let Some(mut worker) = self.worker.take() else {
            return;
        };
        worker.spent += used;
        let is_worn_out = worker.spent.as_secs() >= CPU_SECONDS;
        let mut state = self.shared.lock();
        state.busy -= 1;
        if !is_worn_out && !state.closed {
            state.idle.push(worker);
            drop(state);
            self.shared.idle.notify_one();
        } else {
            drop(state);
            worker.kill();
            self.shared.missing.notify_one();
        }
    }

    /// Ends the process, and returns the error for its program.
    fn discard(&mut self, end: WorkerFault, host: &dyn Host) -> Error {
        let status = self.worker.as_mut().and_then(Worker::kill);
        match end {
            WorkerFault::Stopped(Pulse::Cancelled) => return Kind::Cancelled.into_error(),
            WorkerFault::Stopped(_) => return Kind::Timeout.into_error(),
            WorkerFault::Memory => return Kind::Memory.into_error(),
            WorkerFault::ProtocolViolation(problem) => return worker_lost(problem),
            WorkerFault::Exited | WorkerFault::NotStarted => {}
        }
        if host.pulse() == Pulse::Cancelled {
            return Kind::Cancelled.into_error();
        }
        let signal = status.and_then(|status| status.signal());
        match signal {
            // The limit of CPU time exceeds what any single program may take.
            Some(libc::SIGXCPU) => Kind::Timeout.into_error(),
            // A failed allocation and a native stack overflow abort the process.
            Some(libc::SIGABRT) => Kind::Memory.into_error(),
            Some(signal) => worker_lost(&format!("it was ended by signal {signal}")),
            None => worker_lost("it ended"),
        }
    }
}

impl Drop for BusyWorker<'_> {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            worker.kill();
            self.shared.lock().busy -= 1;
            self.shared.missing.notify_one();
        }
    }
}

/// Why a process did not get ready.
#[derive(Debug, thiserror::Error)]
pub enum SpawnFault {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The process's own words.
    #[error("{0}")]
    Reported(String),
    #[error("the process said something else than that it is ready")]
    ProtocolViolation,
    #[error("the process ended before it was ready")]
    Closed,
    #[error("{fault} ({status})")]
    Ended {
        fault: Box<SpawnFault>,
        status: ExitStatus,
    },
}

/// Why a process cannot be used any more.
enum WorkerFault {
    /// Its program did not end in time, or was cancelled.
    Stopped(Pulse),
    /// Its program printed more than its memory limit.
    Memory,
    /// It violated the protocol.
    ProtocolViolation(&'static str),
    Exited,
    /// It did not begin: it died, was stopped or was corrupted while it was idle.
    NotStarted,
}

/// Writes to a process as long as `may_continue` holds and the process keeps accepting bytes.
fn write(
    mut stream: &UnixStream,
    mut bytes: &[u8],
    may_continue: impl Fn() -> bool,
) -> io::Result<()> {
    let mut taken = Instant::now();
    while !bytes.is_empty() {
        match stream.write(&bytes[..bytes.len().min(CHUNK_BYTES)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                taken = Instant::now();
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if taken.elapsed() < WRITE_STALL_TIMEOUT => {}
                _ => return Err(error),
            },
        }
        if !bytes.is_empty() && !may_continue() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// The exchange between sending a program and its end. The listening thread must never lose sight of its clock: every write is given up
/// when the process is due to be killed, so nobody waits longer than that for the write lock.
struct Exchange<'a> {
    task: &'a ProgramTask<'a>,
    stream: &'a UnixStream,
    /// When the process is to be killed.
    kill_at: Mutex<Instant>,
    cancelled: AtomicBool,
    /// Locked while a frame is written; false once a frame was not accepted.
    writing: Mutex<bool>,
    /// Number of questions that are being answered.
    open: AtomicUsize,
}

impl Exchange<'_> {
    fn new<'a>(task: &'a ProgramTask<'a>, stream: &'a UnixStream) -> Exchange<'a> {
        Exchange {
            task,
            stream,
            kill_at: Mutex::new(task.deadline + KILL_GRACE),
            cancelled: AtomicBool::new(false),
            writing: Mutex::new(true),
            open: AtomicUsize::new(0),
        }
    }

    fn run(
        &self,
        inbox: &mut FrameReader,
        prints: &mut Vec<String>,
    ) -> Result<RunResult, WorkerFault> {
        std::thread::scope(|scope| {
            let ended = self.read_frames(scope, inbox, prints);
            if ended.is_err() {
                // Stops all writes, so that the process is killed at once.
                self.set_kill_deadline(Instant::now());
            }
            ended
        })
    }

    fn read_frames<'s>(
        &'s self,
        scope: &'s std::thread::Scope<'s, '_>,
        inbox: &mut FrameReader,
        prints: &mut Vec<String>,
    ) -> Result<RunResult, WorkerFault> {
        let mut printed = 0_usize;
        let mut began = false;
        // A process that has not begun has had no effects: whatever is wrong with it, another one can be tried.
        let or_not_started = |began: bool, broken: WorkerFault| match began {
            true => broken,
            false => WorkerFault::NotStarted,
        };
        let start_deadline = self.task.start_deadline();
        let mut told = false;
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            if now.duration_since(looked) >= POLL_INTERVAL {
                looked = now;
                let may_continue = self.may_continue();
                let cancelled = self.cancelled.load(Ordering::Relaxed);
                if may_continue && !began && !cancelled && now >= start_deadline {
                    return Err(WorkerFault::NotStarted);
                }
                if !may_continue {
                    return Err(self.stop_reason());
                }
                if cancelled && !told {
                    told = true;
                    self.send(&ToWorker::Cancel);
                }
            }
            let frame = match inbox.next::<ToServer>(self.task.bytes_max) {
                Ok(Some(frame)) => frame,
                Err(_) => {
                    let violation = WorkerFault::ProtocolViolation("it sent what is no frame");
                    return Err(or_not_started(began, violation));
                }
                Ok(None) => match inbox.fill(self.stream) {
                    Ok(true) => continue,
                    Ok(false) => return Err(or_not_started(began, self.exit_reason())),
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted => continue,
                        _ => return Err(or_not_started(began, self.exit_reason())),
                    },
                },
            };
            if !began && !matches!(frame, ToServer::Began) {
                return Err(WorkerFault::NotStarted);
            }
            match frame {
                ToServer::Done(done) => {
                    return match self.open.load(Ordering::Acquire) {
                        0 => Ok(done),
                        _ => Err(WorkerFault::ProtocolViolation(
                            "it ended with questions open",
                        )),
                    };
                }
                ToServer::Printed(line) => {
                    let line = self.task.place.meter.within(|| {
                        let line = self.task.host.printed(line);
                        print::line(line, self.task.limits.print_graphemes)
                    });
                    printed = printed.saturating_add(line.len() + LINE_BYTES);
                    if printed as u64 > self.task.limits.memory_bytes {
                        return Err(WorkerFault::Memory);
                    }
                    prints.push(line);
                }
                ToServer::Began => began = true,
                ToServer::Ready(_) | ToServer::Failed(_) => {
                    return Err(WorkerFault::ProtocolViolation(
                        "it said anew whether it is ready",
                    ));
                }
                ToServer::Ask { number, question } => {
                    self.take_question(scope, number, question)?;
                }
            }
        }
    }

    /// Answers a question at once, or on a thread of its own if it may wait for an upstream: `pmap` asks concurrently.
    fn take_question<'s>(
        &'s self,
        scope: &'s std::thread::Scope<'s, '_>,
        number: u32,
        question: HostRequest,
    ) -> Result<(), WorkerFault> {
        let at_once = match &question {
            HostRequest::Now => Some(HostReply::Number(self.task.host.now_micros())),
            HostRequest::Quotes(quotes) => {
                let veil = self.task.place.veil;
                let redacted = quotes.iter().map(|quoted| veil.redact(quoted));
                Some(HostReply::Texts(redacted.collect()))
            }
            HostRequest::Budget => Some(self.reply(Ok(self.task.host.budget()))),
            _ => None,
        };
        if let Some(reply) = at_once {
            self.send(&ToWorker::Answer { number, reply });
            return Ok(());
        }
        let questions_max = self.task.limits.workers.saturating_add(1);
        if self.open.fetch_add(1, Ordering::AcqRel) >= questions_max {
            return Err(WorkerFault::ProtocolViolation("it asked too much at once"));
        }
        let span = tracing::Span::current();
        let started = std::thread::Builder::new().spawn_scoped(scope, move || {
            let _evaluation = span.entered();
            self.task.place.meter.within(|| {
                let reply = self.answer(&question);
                // Decremented before the reply is sent: the next question may arrive as soon as the process has it.
                self.open.fetch_sub(1, Ordering::AcqRel);
                // Inside the meter, so that memory is freed where it was charged.
                self.send(&ToWorker::Answer { number, reply });
            });
        });
        if let Err(error) = started {
            self.open.fetch_sub(1, Ordering::AcqRel);
            let reply = HostReply::Raise {
                code: None,
                message: format!("runtime_error: the server cannot start a thread: {error}"),
            };
            self.send(&ToWorker::Answer { number, reply });
        }
        Ok(())
    }

    /// Whether the process may live on; polls whether its program may continue.
    fn may_continue(&self) -> bool {
        let now = Instant::now();
        match self.task.host.pulse() {
            Pulse::Continue => {}
            Pulse::TimedOut => self.set_kill_deadline(now + KILL_GRACE),
            // The program learns of it when it requests more memory than it has.
            Pulse::OutOfMemory => {}
            Pulse::Cancelled => {
                if !self.cancelled.swap(true, Ordering::Relaxed) {
                    self.set_kill_deadline(now + KILL_GRACE);
                }
            }
        }
        let kill_at = lock(&self.kill_at);
        now < *kill_at
    }

    fn set_kill_deadline(&self, at: Instant) {
        let mut kill_at = lock(&self.kill_at);
        *kill_at = at.min(*kill_at);
    }

    fn stop_reason(&self) -> WorkerFault {
        WorkerFault::Stopped(match self.cancelled.load(Ordering::Relaxed) {
            true => Pulse::Cancelled,
            false => Pulse::TimedOut,
        })
    }

    /// Why the process sends nothing more.
    fn exit_reason(&self) -> WorkerFault {
        let all_taken = *lock(&self.writing);
        match all_taken {
            true => WorkerFault::Exited,
            false if !self.may_continue() => self.stop_reason(),
            false => WorkerFault::ProtocolViolation("it took in no answer"),
        }
    }

    /// Sends a frame. If it is not accepted, the exchange ends.
    fn send(&self, frame: &ToWorker) {
        let mut all_taken = lock(&self.writing);
        if !*all_taken {
            return;
        }
        let written = frames::encode(frame)
            .and_then(|bytes| write(self.stream, &bytes, || self.may_continue()));
        if written.is_err() {
            *all_taken = false;
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    fn answer(&self, question: &HostRequest) -> HostReply {
        let host = self.task.host;
        let size = |number: &u64| usize::try_from(*number).unwrap_or(usize::MAX);
        let found = match question {
            HostRequest::Call { tool, arguments } => match self.values(arguments).as_deref() {
                Ok([arguments]) => Some(host.call(tool, arguments)),
                Ok(_) => Some(Err(HostFault::Stopped(Pulse::TimedOut))),
                Err(fault) => Some(Err(fault.clone())),
            },
            HostRequest::Servers => host.discover(&Discovery::Servers),
            HostRequest::Apropos {
                query,
                limit,
                load,
                local,
            } => match self.values(local) {
                Ok(local) => host.discover(&Discovery::Apropos {
                    query,
                    limit: size(limit),
                    load: *load,
                    local: &local,
                }),
                Err(fault) => Some(Err(fault)),
            },
            HostRequest::Dir {
                server,
                limit,
                offset,
            } => host.discover(&Discovery::Dir {
                server,
                limit: size(limit),
                offset: size(offset),
            }),
            HostRequest::Doc(reference) => host.discover(&Discovery::Doc { reference }),
            HostRequest::Meta(reference) => host.discover(&Discovery::Meta { reference }),
            HostRequest::Now | HostRequest::Budget | HostRequest::Quotes(_) => None,
        };
        found.map_or(HostReply::Unsupported, |found| self.reply(found))
    }

    fn values(&self, bytes: &[u8]) -> Result<Vec<Value>, HostFault> {
        match snapshot::read_metered(bytes, self.task.place.meter) {
            Ok((_, values)) => Ok(values),
            Err(error) => Err(transfer_fault(&error)),
        }
    }

    fn reply_bytes(&self) -> usize {
        received_bytes_max(self.task.limits.memory_bytes)
    }

    fn reply(&self, found: Result<Value, HostFault>) -> HostReply {
        let written = found.and_then(|value| {
            snapshot::write(&Env::new(), &[&value], self.reply_bytes(), self.task.host)
                .map_err(|error| transfer_fault(&error))
        });
        match written {
            Ok(bytes) => HostReply::Value(bytes),
            Err(HostFault::Raise { code, message }) => HostReply::Raise {
                code: code.map(|code| code.name().to_owned()),
                message,
            },
            Err(HostFault::Stopped(pulse)) => stop_reply(pulse),
        }
    }
}

fn stop_reply(pulse: Pulse) -> HostReply {
    match pulse {
        Pulse::Cancelled => HostReply::Cancelled,
        Pulse::OutOfMemory => HostReply::OutOfMemory,
        Pulse::TimedOut | Pulse::Continue => HostReply::TimedOut,
    }
}

/// The environment that a program left, and the names of the definitions that it changed, one per line.
type LeftEnv = (Env, String);

/// Translates the end of a program. What it left is restored within its memory limit, not counting the environment that it began with.
fn conclude(done: RunResult, task: &ProgramTask<'_>) -> Result<(Ended, Option<LeftEnv>), Error> {
    let EvaluationContext { meter, keeps, .. } = task.place;
    let RunResult { end, left, changed } = done;
    let left = || {
        let free_bytes = match keeps {
            true => task.env.held_bytes(),
            false => 0,
        };
        // Some values are charged slightly differently after they are read back.
        let free_bytes = usize::try_from(free_bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        let room = usize::try_from(task.limits.memory_bytes).unwrap_or(usize::MAX);
        let read = meter.within(|| {
            meter.with_extra_memory(room, || {
                meter.with_free_bytes(free_bytes, || snapshot::read_metered(&left, meter))
            })
        });
        match read {
            Ok((env, mut values)) if values.len() == 1 => Ok((
                keeps.then_some((env, changed)),
                values.pop().unwrap_or_default(),
            )),
            Ok(_) => Err(worker_lost("it left no value")),
            Err(error) => Err(snapshot_error(error)),
        }
    };
    match end {
        RunEnd::Value => left().map(|(left, value)| (Ended::Value(value), left)),
        RunEnd::Return => left().map(|(left, value)| (Ended::Return(value), left)),
        RunEnd::Fail => left().map(|(_, value)| (Ended::Fail(value), None)),
        RunEnd::Error {
            reason,
            code,
            message,
            span,
            explained,
        } => {
            let kind = match Reason::from_name(&reason) {
                Some(Reason::Timeout) => Kind::Timeout,
                Some(Reason::MemoryLimit) => Kind::Memory,
                Some(Reason::Cancelled) => Kind::Cancelled,
                Some(reason) => Kind::Reported {
                    reason,
                    code: Code::from_name(&code),
                    message,
                },
                None => return Err(worker_lost("it ended for no known reason")),
            };
            let span = span.map(|(start, end)| Span { start, end });
            Err(kind.at_place(error::Place {
                span,
                explanation: Some(explained),
                ..error::Place::default()
            }))
        }
    }
}

fn check_pulse(pulse: Pulse) -> Result<(), Error> {
    match pulse {
        Pulse::Continue => Ok(()),
        Pulse::TimedOut => Err(Kind::Timeout.into_error()),
        Pulse::Cancelled => Err(Kind::Cancelled.into_error()),
        Pulse::OutOfMemory => Err(Kind::Memory.into_error()),
    }
}

fn snapshot_error(error: snapshot::Error) -> Error {
    match error.limit() {
        Some(Pulse::Cancelled) => Kind::Cancelled.into_error(),
        Some(Pulse::OutOfMemory) => Kind::Memory.into_error(),
        Some(_) => Kind::Timeout.into_error(),
        None => worker_lost(&error.to_string()),
    }
}

/// The error of a program whose process failed.
fn worker_lost(problem: &str) -> Error {
    let problem = format!("the process that evaluated the program was lost: {problem}");
    Kind::Other(problem.into()).into_error()
}
