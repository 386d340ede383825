//! The worker process: it has one socket, no files, no environment and no secrets, and evaluates one program after the other. Knows
//! nothing of MCP. Everything that a program needs from its host is requested from the server, over the socket.

use crate::lock::lock;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ptc_lang::error::{Code, Redact};
use ptc_lang::{
    Discovery, Ended, Env, Host, HostFault, Limits, Meter, Outcome, Program, Pulse, Reason, Value,
    heap, run, run_metered, snapshot,
};

use super::confine::{self, ConfineFault};
use super::faults;
use super::frames::{
    self, Confinement, FrameReader, HostReply, HostRequest, RunEnd, RunLimits, RunRequest,
    RunResult, ToServer, ToWorker,
};

/// Native stack of the evaluating thread.
const STACK_BYTES: usize = crate::evaluation::pool::STACK_BYTES;
/// How often a running program checks for cancellation.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Size of a session's snapshot from which memory is returned to the system.
const LARGE_BYTES: usize = 1 << 20;
/// Bytes of quotations in one question, unless a single one is longer.
const QUOTES_BYTES_MAX: usize = 64 << 10;
/// Bytes of the longest accepted frame: the server is trusted.
const FRAME_BYTES_MAX: usize = u32::MAX as usize;

/// Runs the hidden command `worker MEMORY CPU`: bytes that programs may hold, and seconds of CPU time for the whole process.
pub fn main(arguments: &[String]) -> ExitCode {
    let number = |at: usize| arguments.get(at).and_then(|word| word.parse().ok());
    let (Some(memory_bytes), Some(cpu_seconds)) = (number(0), number(1)) else {
        let _ = writeln!(std::io::stderr(), "this command is for the server itself");
        return ExitCode::FAILURE;
    };
    match serve(memory_bytes, cpu_seconds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            let _ = frames::send(Socket, &ToServer::Failed(fault.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Why the process cannot get ready.
#[derive(Debug, thiserror::Error)]
enum ReadyFault {
    #[error(transparent)]
    Process(#[from] Errno),
    #[error(transparent)]
    Confine(#[from] ConfineFault),
    #[error(transparent)]
    Thread(#[from] std::io::Error),
    #[error("the evaluating thread panicked")]
    Panicked,
}

fn serve(memory_bytes: u64, cpu_seconds: u64) -> Result<(), ReadyFault> {
    // When the server dies, the kernel kills this process, even in the middle of a program.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    nix::sys::prctl::set_dumpable(false)?;
    heap::overwrite_freed();
    confine::close_files()?;
    let landlock = confine::landlock();
    confine::set_limits(memory_bytes, cpu_seconds)?;
    // Builds tables that are otherwise built on first use, before anybody waits for them.
    warm_up();
    let served = std::thread::Builder::new()
        .name("eval".into())
        .stack_size(STACK_BYTES)
        .spawn(move || -> Result<(), ReadyFault> {
            // Measures the native stack once, which reads files, before files are denied.
            warm_up();
            confine::seccomp()?;
            ServerLink::new(Socket).serve(Confinement { landlock })
        })?
        .join();
    served.unwrap_or(Err(ReadyFault::Panicked))
}

/// Evaluates something, so that the first program does not pay for one-time work.
fn warm_up() {
    struct NullHost;
    impl Host for NullHost {
        fn now_micros(&self) -> i64 {
            0
        }
    }
    let program = Program::new("(defn f [x] (re-find #\"a+\" x)) (f \"baab\")");
    let (_, env) = run(&program, &Env::new(), &Limits::default(), &NullHost);
    if let Ok(bytes) = env.snapshot(1 << 20, &NullHost) {
        let _ = Env::restore(&bytes, &Limits::default(), &NullHost);
    }
}

/// The socket, which is file descriptor 0 of the process.
#[derive(Clone, Copy)]
struct Socket;

impl std::io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(nix::unistd::read(std::io::stdin(), buffer)?)
    }
}

impl std::io::Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        Ok(nix::unistd::write(std::io::stdin(), buffer)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The connection to the server, shared by all threads of a program.
struct ServerLink {
    socket: Socket,
    /// Locked while a frame is written, so that frames do not interleave.
    writing: Mutex<()>,
    state: Mutex<State>,
    /// Signalled whenever an answer arrived, or no thread is reading any more.
    changed: Condvar,
    numbers: AtomicU32,
    held_much: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The read buffer; `None` while a thread is reading.
    inbox: Option<FrameReader>,
    answers: HashMap<u32, HostReply>,
    cancelled: bool,
}

impl ServerLink {
    fn new(socket: Socket) -> ServerLink {
        ServerLink {
            socket,
            writing: Mutex::new(()),
            state: Mutex::new(State {
                inbox: Some(FrameReader::default()),
                ..State::default()
            }),
            changed: Condvar::new(),
            numbers: AtomicU32::new(0),
            held_much: AtomicBool::new(false),
        }
    }

    fn serve(&self, confinement: Confinement) -> ! {
        self.send(&ToServer::Ready(confinement));
        loop {
            let mut inbox = self.state().inbox.take().unwrap_or_default();
            let frame = self.read(&mut inbox);
            {
                let mut state = self.state();
                state.inbox = Some(inbox);
                state.answers.clear();
                state.cancelled = false;
            }
            // A cancellation or an answer that came too late is ignored.
            if let ToWorker::Run(asked) = frame {
                self.send(&ToServer::Began);
                let done = self.evaluate(&asked);
                drop(asked);
                self.send(&ToServer::Done(done));
                if self.held_much.swap(false, Ordering::Relaxed) {
                    heap::trim();
                }
            }
        }
    }

    fn evaluate(&self, asked: &RunRequest) -> RunResult {
        let host = RemoteHost {
            link: self,
            deadline: Instant::now() + Duration::from_micros(asked.time_micros),
            looked: Mutex::new(Instant::now()),
            cancelled: AtomicBool::new(false),
            tools: asked.tools.clone(),
            bytes_max: sent_bytes_max(asked.limits.memory_bytes, asked.env.len()),
        };
        let ended =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                match faults::inject(&asked.program) {
                    Some(told) => error_result(Reason::RuntimeError, told),
                    None => host.evaluate(asked),
                }
            }));
        ended.unwrap_or_else(|_| {
            error_result(
                Reason::RuntimeError,
                "the evaluation failed inside the server".into(),
            )
        })
    }

    /// Sends a frame. If the server is gone, the process exits.
    fn send(&self, frame: &ToServer) {
        let _one = lock(&self.writing);
        if frames::send(self.socket, frame).is_err() {
            std::process::exit(0);
        }
    }

    /// Waits for the next frame.
    fn read(&self, inbox: &mut FrameReader) -> ToWorker {
        loop {
            match inbox.next(FRAME_BYTES_MAX) {
                Ok(Some(frame)) => return frame,
                Ok(None) => match inbox.fill(self.socket) {
                    Ok(true) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Ok(false) | Err(_) => std::process::exit(0),
                },
                Err(_) => std::process::exit(1),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Asks the server, passes the reply to `used`, and drops it. Bytes from the socket are charged to no program, because one thread may
    /// read what another one drops.
    fn ask<T>(&self, question: HostRequest, used: impl FnOnce(&HostReply) -> T) -> T {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.send(&ToServer::Ask { number, question });
        let reply = heap::uncharged(|| self.answer(number));
        let made = used(&reply);
        heap::uncharged(|| drop(reply));
        made
    }

    /// Waits for the answer to a question. Of several waiting threads, one reads for all.
    fn answer(&self, number: u32) -> HostReply {
        let mut state = self.state();
        loop {
            if let Some(reply) = state.answers.remove(&number) {
                return reply;
            }
            let Some(inbox) = state.inbox.take() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state = self.receive_frame(state, inbox);
        }
    }

    /// Reads one frame without holding the lock on the state, and records it.
    fn receive_frame<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        mut inbox: FrameReader,
    ) -> MutexGuard<'s, State> {
        drop(state);
        let frame = self.read(&mut inbox);
        let mut state = self.state();
        state.inbox = Some(inbox);
        state.record(frame);
        self.changed.notify_all();
        state
    }

    /// Whether the server has cancelled the program.
    fn is_cancelled(&self) -> bool {
        let mut state = self.state();
        while !state.cancelled {
            // A thread that waits for an answer will read a cancellation as well.
            let Some(mut inbox) = state.inbox.take() else {
                break;
            };
            let input = std::io::stdin();
            let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            let waits = match inbox.next(FRAME_BYTES_MAX) {
                Ok(Some(frame)) => {
                    state.inbox = Some(inbox);
                    state.record(frame);
                    self.changed.notify_all();
                    continue;
                }
                Ok(None) => poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0),
                Err(_) => std::process::exit(1),
            };
            if waits {
                state = self.receive_frame(state, inbox);
            } else {
                state.inbox = Some(inbox);
                break;
            }
        }
        state.cancelled
    }
}

impl State {
    fn record(&mut self, frame: ToWorker) {
        match frame {
            ToWorker::Answer { number, reply } => {
                self.answers.insert(number, reply);
            }
            ToWorker::Cancel => self.cancelled = true,
            // One program at a time.
            ToWorker::Run(_) => std::process::exit(1),
        }
    }
}

/// The host of a program, whose real counterpart is at the other end of the socket.
struct RemoteHost<'l> {
    link: &'l ServerLink,
    deadline: Instant,
    looked: Mutex<Instant>,
    cancelled: AtomicBool,
    tools: Vec<String>,
    bytes_max: usize,
}

/// Bytes of the largest frame that a program may send: what it may hold plus what it was given. Times and dates take more space in a
/// snapshot than in memory, everything else less.
pub fn sent_bytes_max(memory_bytes: u64, given_bytes: usize) -> usize {
    const ROOM: usize = 64 << 10;
    let held = memory_bytes.saturating_add(memory_bytes / 2);
    usize::try_from(held)
        .unwrap_or(usize::MAX)
        .saturating_add(given_bytes)
        .saturating_add(ROOM)
}

/// Bytes of the largest snapshot that is sent to a program with this memory limit.
pub fn received_bytes_max(memory_bytes: u64) -> usize {
    const ROOM: u64 = 16 << 20;
    usize::try_from(memory_bytes.saturating_mul(2).saturating_add(ROOM)).unwrap_or(usize::MAX)
}

impl RemoteHost<'_> {
    fn evaluate(&self, asked: &RunRequest) -> RunResult {
        let RunLimits {
            memory_bytes,
            workers,
            nesting,
            symbols,
        } = asked.limits;
        let limits = Limits {
            memory_bytes,
            workers: usize::try_from(workers).unwrap_or(usize::MAX),
            nesting,
            symbols,
            // The server truncates lines, after redaction.
            print_graphemes: usize::MAX,
        };
        let roomy = super::snapshot_limits(&limits);
        let env = match Env::restore(&asked.env, &roomy, self) {
            Ok(env) => env,
            Err(error) => return snapshot_failure(&error),
        };
        let meter = Meter::new(&limits, self);
        let program = Program::new(asked.program.as_str());
        let (outcome, after) = meter.within(|| run_metered(&program, &env, &meter));
        let much = meter.held_much() || asked.env.len() > LARGE_BYTES;
        self.link.held_much.store(much, Ordering::Relaxed);
        let Outcome { ended, prints: _ } = outcome;
        let (end, value) = match ended {
            Ended::Value(value) => (RunEnd::Value, value),
            Ended::Return(value) => (RunEnd::Return, value),
            Ended::Fail(value) => (RunEnd::Fail, value),
            Ended::Error(error) => {
                let end = RunEnd::Error {
                    reason: error.reason().name().into(),
                    code: error.code().into(),
                    message: self.veiled(|redact| error.redacted_message(redact)),
                    span: error
                        .span_in(asked.program.as_str())
                        .map(|span| (span.start, span.end)),
                    explained: self.veiled(|redact| error.explained(&asked.program, redact)),
                };
                return RunResult {
                    end,
                    left: Vec::new(),
                    changed: String::new(),
                };
            }
        };
        let (left, changed) = match asked.keeps && !matches!(end, RunEnd::Fail) {
            true => {
                let changed = changed(&env, &after);
                // The context is not the program's to keep.
                (after.with_context(Default::default()), changed)
            }
            false => (Env::new(), String::new()),
        };
        drop(env);
        match snapshot::write(&left, &[&value], self.bytes_max, self) {
            Ok(left) => RunResult { end, left, changed },
            Err(error) => snapshot_failure(&error),
        }
    }

    fn value(&self, reply: &HostReply) -> Option<Result<Value, HostFault>> {
        Some(match reply {
            HostReply::Value(bytes) => {
                // This meter only watches the limits; what is read is charged to the program that this thread works for.
                let limits = Limits::default();
                match snapshot::read_metered(bytes, &Meter::new(&limits, &ChargedHost(self))) {
                    Ok((_, mut values)) => Ok(values.pop().unwrap_or_default()),
                    Err(error) => Err(super::transfer_fault(&error)),
                }
            }
            HostReply::Raise { code, message } => Err(HostFault::Raise {
                code: code.as_deref().and_then(Code::from_name),
                message: message.clone(),
            }),
            HostReply::TimedOut => Err(HostFault::Stopped(Pulse::TimedOut)),
            HostReply::Cancelled => Err(HostFault::Stopped(Pulse::Cancelled)),
            HostReply::OutOfMemory => Err(HostFault::Stopped(Pulse::OutOfMemory)),
            HostReply::Number(number) => Ok(Value::Int(*number)),
            HostReply::Texts(_) | HostReply::Unsupported => return None,
        })
    }

    /// What `make` makes of quotations in which the secrets are veiled, which only the server knows. An error may quote thousands of
    /// names, and each question takes a round trip, so it is made once for its quotations, and once of what the server says of them.
    fn veiled(&self, make: impl Fn(&Redact<'_>) -> String) -> String {
        let quoted = RefCell::new(BTreeSet::new());
        make(&|text| {
            quoted.borrow_mut().insert(text.to_owned());
            text.to_owned()
        });
        let quoted: Vec<String> = quoted.into_inner().into_iter().collect();
        let (mut redacted, mut rest) = (BTreeMap::new(), &quoted[..]);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |text: &&String| {
                bytes += text.len();
                bytes <= QUOTES_BYTES_MAX
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            redacted.extend(now.iter().cloned().zip(self.redact(now)));
            rest = later;
        }
        make(&|text| match redacted.get(text) {
            Some(redacted) => redacted.clone(),
            None => self.redact(&[text.to_owned()]).concat(),
        })
    }

    fn redact(&self, quoted: &[String]) -> Vec<String> {
        let question = HostRequest::Quotes(quoted.to_vec());
        self.link.ask(question, |reply| match reply {
            HostReply::Texts(texts) => texts.clone(),
            _ => Vec::new(),
        })
    }

    fn encode_values(&self, values: &[&Value]) -> Result<Vec<u8>, HostFault> {
        snapshot::write(&Env::new(), values, self.bytes_max, self)
            .map_err(|error| super::transfer_fault(&error))
    }
}

/// A host that also reports when the program exceeds its memory limit.
struct ChargedHost<'w>(&'w RemoteHost<'w>);

impl Host for ChargedHost<'_> {
    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    fn pulse(&self) -> Pulse {
        match heap::is_overdrawn() {
            true => Pulse::OutOfMemory,
            false => self.0.pulse(),
        }
    }
}

impl Host for RemoteHost<'_> {
    fn tool_names(&self) -> &[String] {
        &self.tools
    }

    fn call(&self, tool: &str, args: &Value) -> Result<Value, HostFault> {
        let question = HostRequest::Call {
            tool: tool.to_owned(),
            arguments: self.encode_values(&[args])?,
        };
        let answered = self.link.ask(question, |reply| self.value(reply));
        answered.unwrap_or_else(|| Err(HostFault::unknown_tool(tool)))
    }

    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let question = match request {
            Discovery::Servers => HostRequest::Servers,
            Discovery::Apropos {
                query,
                limit,
                load,
                local,
            } => HostRequest::Apropos {
                query: (*query).to_owned(),
                limit: *limit as u64,
                load: *load,
                local: match self.encode_values(&local.iter().collect::<Vec<_>>()) {
                    Ok(local) => local,
                    Err(fault) => return Some(Err(fault)),
                },
            },
            Discovery::Dir {
                server,
                limit,
                offset,
            } => HostRequest::Dir {
                server: (*server).to_owned(),
                limit: *limit as u64,
                offset: *offset as u64,
            },
            Discovery::Doc { reference } => HostRequest::Doc((*reference).to_owned()),
            Discovery::Meta { reference } => HostRequest::Meta((*reference).to_owned()),
        };
        self.link.ask(question, |reply| self.value(reply))
    }

    fn now_micros(&self) -> i64 {
        self.link.ask(HostRequest::Now, |reply| match reply {
            HostReply::Number(micros) => *micros,
            _ => 0,
        })
    }

    fn pulse(&self) -> Pulse {
        if self.cancelled.load(Ordering::Relaxed) {
            return Pulse::Cancelled;
        }
        let now = Instant::now();
        let due = match self.looked.try_lock() {
            Ok(mut looked) => {
                let due = now.duration_since(*looked) >= CHECK_INTERVAL;
                if due {
                    *looked = now;
                }
                due
            }
            Err(_) => false,
        };
        if due && heap::uncharged(|| self.link.is_cancelled()) {
            self.cancelled.store(true, Ordering::Relaxed);
            return Pulse::Cancelled;
        }
        match now >= self.deadline {
            true => Pulse::TimedOut,
            false => Pulse::Continue,
        }
    }

    fn printed(&self, line: String) -> String {
        self.link.send(&ToServer::Printed(line));
        // The server keeps the line.
        String::new()
    }

    fn budget(&self) -> Value {
        let budget = self
            .link
            .ask(HostRequest::Budget, |reply| self.value(reply));
        budget.and_then(Result::ok).unwrap_or_default()
    }
}

fn snapshot_failure(error: &snapshot::Error) -> RunResult {
    let reason = match error.limit() {
        Some(Pulse::Cancelled) => Reason::Cancelled,
        Some(Pulse::OutOfMemory) => Reason::MemoryLimit,
        Some(_) => Reason::Timeout,
        None => Reason::RuntimeError,
    };
    error_result(reason, error.to_string())
}

fn error_result(reason: Reason, message: String) -> RunResult {
    RunResult {
        end: RunEnd::Error {
            reason: reason.name().into(),
            code: reason.name().into(),
            message,
            span: None,
            explained: String::new(),
        },
        left: Vec::new(),
        changed: String::new(),
    }
}

/// The names of the definitions that changed. Only this process can tell, because here unchanged functions keep their identity.
fn changed(before: &Env, after: &Env) -> String {
    let all = after.definitions().into_iter();
    let changed = all.filter(|(name, value, _)| {
        before
            .get(name)
            .is_none_or(|earlier| ptc_protocol::differs(earlier, value))
    });
    let names: Vec<_> = changed.map(|(name, ..)| name).collect();
    names.join("\n")
}
