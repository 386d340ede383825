//! Evaluation in processes, seen from outside: whatever kills a process costs only its own call; code in a process can access
//! nothing. Knows the server only through its pipes, its sockets and `/proc`.
//!
//! Test builds commit a fault when a program begins with `;; fault: NAME`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::Process;
use support::http::Message;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// Well-behaved clients.
const CLIENTS: u64 = 16;
/// Maximum time for an event on a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of a program.
const TIMEOUT_MS: &str = "3000";
/// Before that limit, even on a machine under load.
const SOON: Duration = Duration::from_millis(2900);

/// A server that is killed with the test that started it.
struct Server(Process);

impl Server {
    fn command(arguments: &[&str]) -> Command {
        let mut command = Command::new(PTC);
        command
            .args([
                "start",
                "--isolation",
                "process",
                "--response-profile",
                "structured",
            ])
            .args(["--program-timeout-ms", TIMEOUT_MS])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(arguments: &[&str]) -> Server {
        Server(Process(Self::command(arguments).spawn().unwrap()))
    }

    /// A listening server and its port.
    fn listening(arguments: &[&str]) -> (Server, u16) {
        let (server, port) = support::listening(|port| {
            Self::command(&[&["--http", "--http-port", port], arguments].concat())
        });
        (Server(server), port)
    }

    /// Its worker processes.
    fn workers(&self) -> Vec<i32> {
        let own = self.0.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| stat(*pid).is_some_and(|fields| fields[1] == own && fields[0] != "Z"))
            .collect()
    }

    fn resident_bytes(&self) -> u64 {
        support::memory(self.0.id(), "VmRSS").unwrap()
    }

    /// Its peak resident memory.
    fn most_resident_bytes(&self) -> u64 {
        support::memory(self.0.id(), "VmHWM").unwrap()
    }
}

/// The fields of `/proc/PID/stat` after the name: state, parent, ….
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// Processor time used by a process, in ticks.
fn ticks(pid: i32) -> u64 {
    stat(pid).map_or(0, |fields| fields[11].parse::<u64>().unwrap_or(0))
}

fn kill(pid: i32, signal: &str) {
    let killed = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
}

/// One client over standard streams.
struct Pipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Pipe {
    fn to(server: &mut Server) -> Pipe {
        let mut log = server.0.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let mut pipe = Pipe {
            input: server.0.stdin.take().unwrap(),
            output: BufReader::new(server.0.stdout.take().unwrap()),
            next: 0,
        };
        pipe.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}));
        pipe
    }

    fn send(&mut self, frame: &Value) {
        self.input
            .write_all(format!("{frame}\n").as_bytes())
            .unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "the server answers"
        );
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let reply = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        reply["result"]["structuredContent"].clone()
    }

    fn eval(&mut self, program: &str) -> Value {
        self.call("lisp_eval", json!({"program": program}))
    }
}

/// One client over HTTP, with its own connection and protocol session.
struct Client {
    stream: BufReader<TcpStream>,
    session: String,
    next: u64,
}

impl Client {
    fn to(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client {
            stream: BufReader::new(stream),
            session: String::new(),
            next: 0,
        };
        client.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}));
        assert!(!client.session.is_empty());
        client
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
            .to_string();
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
        };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream
            .get_mut()
            .write_all((head + &body).as_bytes())
            .unwrap();
        let answer = Message::read(&mut self.stream).expect("the server answers");
        if let Some(session) = answer.field("mcp-session-id") {
            self.session = session.to_owned();
        }
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn eval(&mut self, program: &str) -> Value {
        let reply = self.ask(
            "tools/call",
            json!({"name": "lisp_eval", "arguments": {"program": program}}),
        );
        reply["result"]["structuredContent"].clone()
    }
}

fn reason(payload: &Value) -> &str {
    payload["reason"].as_str().unwrap_or_default()
}

fn message(payload: &Value) -> &str {
    payload["message"].as_str().unwrap_or_default()
}

/// Waits until `holds` is true.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How each fault is reported.
const FAULTS: &[(&str, &str, &str)] = &[
    ("segv", "runtime_error", "signal 11"),
    ("exit", "runtime_error", "was lost: it ended"),
    ("panic", "runtime_error", "inside the server"),
    ("garbage", "runtime_error", "no frame"),
    ("endless", "runtime_error", "no frame"),
    ("memory", "memory_limit", "heap limit"),
    ("spin", "timeout", "execution exceeded"),
];

#[test]
fn killed_worker_fails_only_its_own_call() {
    let (server, port) = Server::listening(&["--max-concurrent-calls", "20"]);
    let over = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    let before = server.resident_bytes();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (over, answered) = (&over, &answered);
            scope.spawn(move || {
                let mut client = Client::to(port);
                let mut round = 0;
                while !over.load(Ordering::Relaxed) {
                    round += 1;
                    let found = client.eval(&format!("(+ {number} {round})"));
                    assert_eq!(
                        found["result"],
                        format!("user=> {}", number + round),
                        "an innocent call: {found}"
                    );
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut hostile = Client::to(port);
        for (fault, expected, said) in FAULTS {
            let found = hostile.eval(&format!(";; fault: {fault}\n(+ 1 2)"));
            let ended = reason(&found) == *expected && message(&found).contains(said);
            over.fetch_or(!ended, Ordering::Relaxed);
            assert!(ended, "{fault}: {found}");
        }
        // The process that uses the processor is the one to kill.
        let (found, killed) = std::thread::scope(|inner| {
            let spinning = inner.spawn(|| hostile.eval(";; fault: spin\n1"));
            std::thread::sleep(Duration::from_millis(300));
            let at_first: Vec<_> = server
                .workers()
                .iter()
                .map(|pid| (*pid, ticks(*pid)))
                .collect();
            std::thread::sleep(Duration::from_millis(700));
            let busiest = at_first
                .iter()
                .max_by_key(|(pid, used)| ticks(*pid).saturating_sub(*used));
            let pid = busiest.unwrap().0;
            kill(pid, "-9");
            (spinning.join().unwrap(), pid)
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(reason(&found), "runtime_error", "{found}");
        assert!(message(&found).contains("signal 9"), "{found}");
        assert!(!server.workers().contains(&killed));
    });
    assert!(answered.load(Ordering::Relaxed) > CLIENTS * 5);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {grown} bytes");
    wait_until("the processes that died were replaced", || {
        server.workers().len() >= 20
    });
}

#[test]
fn slow_reading_worker_gets_no_extra_time() {
    let mut server = Server::start(&["--max-concurrent-calls", "2"]);
    let mut pipe = Pipe::to(&mut server);
    let mut timed = |arguments: Value| {
        let began = Instant::now();
        let answer = pipe.call("lisp_eval", arguments);
        (answer, began.elapsed())
    };
    let (answer, took) = timed(json!({"program": ";; fault: deaf\n1"}));
    assert!(message(&answer).contains("took in no"), "{answer}");
    assert!(took < SOON, "it took {took:?}");
    // To its server the process ended normally, so it receives the next program.
    let (answer, _) = timed(json!({"program": ";; fault: lazy\n1"}));
    assert!(message(&answer).contains("lost"), "{answer}");
    let rows = vec!["a row of some length"; 100_000];
    let (answer, took) = timed(json!({"program": "(count data/rows)", "context": {"rows": rows}}));
    assert_eq!(answer["result"], "user=> 100000", "{answer}");
    assert!(took < SOON, "it took {took:?}");
}

#[test]
fn worker_output_is_limited_to_its_frame() {
    let mut server = Server::start(&["--max-concurrent-calls", "1"]);
    let mut pipe = Pipe::to(&mut server);
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    let before = server.most_resident_bytes();
    let answer = pipe.eval(";; fault: names\n1");
    assert!(message(&answer).contains("lost"), "{answer}");
    let grown = server.most_resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "the server grew by {grown} bytes");
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
}

#[test]
fn server_reports_that_no_worker_starts() {
    let mut server = Server::start(&["--max-concurrent-calls", "1"]);
    let mut pipe = Pipe::to(&mut server);
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    let files = |most: &str| {
        let pid = server.0.id().to_string();
        let limit = format!("--nofile={most}:");
        let set = Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status();
        assert!(set.is_ok_and(|status| status.success()));
    };
    files("3");
    for pid in server.workers() {
        kill(pid, "-9");
    }
    let answer = pipe.eval("(+ 1 2)");
    assert_eq!(reason(&answer), "runtime_error", "{answer}");
    assert!(message(&answer).contains("Too many open files"), "{answer}");
    files("1024");
    wait_until("processes are started again", || {
        pipe.eval("(+ 1 2)")["result"] == "user=> 3"
    });
}

/// Duplicates a socket of another process into this one.
#[allow(
    unsafe_code,
    reason = "the kernel's number for a file of another process"
)]
fn socket_of(pid: i32) -> UnixStream {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: both calls take only numbers, and return either a new file descriptor or an error.
    let taken = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        assert!(process >= 0, "{}", std::io::Error::last_os_error());
        let process = OwnedFd::from_raw_fd(process);
        let file = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), 0, 0) as i32;
        assert!(file >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(file)
    };
    UnixStream::from(taken)
}

#[test]
fn harmed_idle_worker_fails_no_call() {
    let mut server = Server::start(&["--max-concurrent-calls", "3"]);
    let mut pipe = Pipe::to(&mut server);
    type Harm = fn(i32);
    let harms: [(&str, Harm); 6] = [
        ("stopped", |pid| kill(pid, "-STOP")),
        ("what is no frame", |pid| {
            socket_of(pid).write_all(&[0xff; 10]).unwrap();
        }),
        ("half a frame", |pid| {
            socket_of(pid).write_all(&[100, 0, 0, 0]).unwrap();
        }),
        ("an old answer", |pid| {
            socket_of(pid)
                .write_all(&[4, 0, 0, 0, 0x82, 2, 0x81, 0x60])
                .unwrap();
        }),
        ("no more to read", |pid| {
            socket_of(pid).shutdown(Shutdown::Write).unwrap();
        }),
        ("closed", |pid| {
            socket_of(pid).shutdown(Shutdown::Both).unwrap();
        }),
    ];
    for (name, harm) in harms {
        for at_once in [true, false] {
            wait_until("processes are ready", || server.workers().len() >= 3);
            server.workers().into_iter().for_each(harm);
            if !at_once {
                std::thread::sleep(Duration::from_millis(1500));
            }
            for _ in 0..4 {
                let answer = pipe.eval("(+ 1 2)");
                assert_eq!(answer["result"], "user=> 3", "{name}: {answer}");
                assert!(answer.get("prints").is_none(), "{name}: {answer}");
            }
        }
    }
}

#[test]
fn dead_idle_worker_fails_no_call() {
    let mut server = Server::start(&["--max-concurrent-calls", "3"]);
    let mut pipe = Pipe::to(&mut server);
    for _ in 0..3 {
        wait_until("processes are ready", || server.workers().len() >= 3);
        for pid in server.workers() {
            kill(pid, "-9");
        }
        assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    }
}

#[test]
fn worker_reaches_nothing_outside() {
    let mut server = Server::start(&["--max-concurrent-calls", "1"]);
    let mut pipe = Pipe::to(&mut server);
    for tried in ["open", "proc", "socket", "connect", "exec", "spawn", "kill"] {
        let found = pipe.eval(&format!(";; fault: {tried}\n1"));
        // EPERM comes from the system call filter; Landlock would give EACCES.
        assert_eq!(message(&found), "tried: Some(1)", "{tried}: {found}");
    }
    let found = pipe.eval(";; fault: environment\n1");
    assert_eq!(message(&found), "tried: []", "{found}");
    let worker = server.workers()[0];
    let files = std::fs::read_dir(format!("/proc/{worker}/fd"));
    // The process can't be inspected by its own user, but by root.
    if let Ok(files) = files {
        assert_eq!(files.count(), 1, "one socket");
    }
    let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
    for limit in ["Max data size", "Max address space", "Max cpu time"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert!(!line.contains("unlimited"), "{line}");
    }
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    for thread in std::fs::read_dir(format!("/proc/{worker}/task"))
        .unwrap()
        .flatten()
    {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        assert!(
            status.contains("Seccomp:\t2"),
            "every thread is held: {status}"
        );
    }
}

#[test]
fn server_drops_privileges_that_it_never_needs() {
    let mut server = Server::start(&["--max-concurrent-calls", "1"]);
    let mut pipe = Pipe::to(&mut server);
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.0.id())).unwrap();
    for thread in tasks.flatten() {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        assert!(status.contains("Seccomp:\t2"), "{status}");
    }
}

/// Whether `marker` occurs in the memory of a process. `None` where the system denies access: only root may look.
fn holds(pid: i32, marker: &[u8]) -> Option<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let writable = maps.lines().filter(|line| line.contains(" rw"));
    Some(writable.into_iter().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        memory.seek(SeekFrom::Start(start)).unwrap();
        let mut bytes = Vec::new();
        let _unmapped_meanwhile = (&mut memory).take(end - start).read_to_end(&mut bytes);
        bytes.windows(marker.len()).any(|part| part == marker)
    }))
}

#[test]
fn reused_worker_keeps_nothing_of_earlier_calls() {
    const MARKER: &str = "q7XfLw2Zr9";
    const LEFT_BYTES_MAX: u64 = 4 << 20;
    let mut server = Server::start(&["--sessions", "--max-concurrent-calls", "1"]);
    let mut pipe = Pipe::to(&mut server);
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    let worker = server.workers()[0];
    let resident = |pid: i32| {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = resident(worker);
    let own = pipe.call("lisp_session_start", json!({}))["session_id"].clone();
    // The program contains the marker in two parts and joins them; it also contains the whole marker.
    let (head, tail) = MARKER.split_at(4);
    let made = format!("(def kept (str \"{head}\" \"{tail}\")) (def marker{MARKER} :{MARKER})");
    for program in [
        format!(
            "{made} (println kept \"{MARKER}\") (vec (map (fn [i] (str kept i)) (range 3000)))"
        ),
        format!("{made} (fail {{:why kept}})"),
        format!("{made} (re-find #\"{MARKER}\" (str kept kept))"),
        format!("{made} (count (pmap (fn [i] (str kept i)) (range 100)))"),
        format!("{made} (undefined-{MARKER} 1)"),
    ] {
        pipe.eval(&program);
        let found = pipe.call(
            "lisp_session_eval",
            json!({"session_id": own, "program": program, "context": {"mine": MARKER}}),
        );
        assert!(
            found.to_string().contains(MARKER) || !reason(&found).is_empty(),
            "{found}"
        );
    }
    pipe.call("lisp_session_close", json!({"session_id": own}));
    // What others see: no definitions, no results, no prints, no context.
    let other = pipe.call("lisp_session_start", json!({}))["session_id"].clone();
    for program in [
        "kept",
        "[*1 *2 *3]",
        "(count data/mine)",
        "(do (println 1) 2)",
    ] {
        for session in [None, Some(&other)] {
            let found = match session {
                None => pipe.eval(program),
                Some(id) => pipe.call(
                    "lisp_session_eval",
                    json!({"session_id": id, "program": program}),
                ),
            };
            assert!(!found.to_string().contains(MARKER), "{program}: {found}");
            match program {
                "kept" | "(count data/mine)" => assert!(!reason(&found).is_empty(), "{found}"),
                "[*1 *2 *3]" => assert_eq!(found["result"], "user=> [nil nil nil]"),
                _ => assert_eq!(found["result"], "user=> 2", "{found}"),
            }
        }
    }
    let shown = pipe.call(
        "lisp_session_inspect",
        json!({"session_id": other, "view": "prints"}),
    );
    assert!(!shown.to_string().contains(MARKER), "{shown}");
    // Another process may have been prepared meanwhile; the one used last is reused first.
    let workers = server.workers();
    assert!(workers.contains(&worker), "{workers:?}: {worker} evaluated");
    let left = resident(worker).saturating_sub(before);
    assert!(left <= LEFT_BYTES_MAX, "{left} bytes are left");
    let holding = || -> Option<Vec<bool>> {
        let found = server.workers().into_iter();
        found.map(|pid| holds(pid, MARKER.as_bytes())).collect()
    };
    let Some(found) = holding() else {
        println!("their memory can't be read here");
        return;
    };
    assert!(!found.contains(&true), "the marker is left in memory");
    // The search finds a marker that is present.
    std::thread::scope(|scope| {
        let spins = scope.spawn(|| pipe.eval(&format!(";; fault: spin\n\"{MARKER}\"")));
        wait_until("the marker is in memory while a program has it", || {
            holding().is_some_and(|found| found.contains(&true))
        });
        assert_eq!(reason(&spins.join().unwrap()), "timeout");
    });
}

#[test]
fn sessions_prints_branches_and_cancellation_reach_workers() {
    let mut server = Server::start(&["--sessions", "--max-concurrent-calls", "2"]);
    let mut pipe = Pipe::to(&mut server);
    let session = pipe.call("lisp_session_start", json!({}))["session_id"].clone();
    for (program, result) in [
        (
            "(def n 3) (defn add [x] (+ x n)) (def fs #{(fn [] 1) (fn [] 2)}) n",
            "3",
        ),
        ("(println \"a line\") (mapv add [1 2])", "[4 5]"),
        (
            "[(pmap add (range 20)) *1 (count (conj fs (first fs)))]",
            "[[3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22] [4 5] 2]",
        ),
        ("(def n 10) (add 1)", "11"),
    ] {
        let found = pipe.call(
            "lisp_session_eval",
            json!({"session_id": session, "program": program}),
        );
        assert_eq!(
            found["result"],
            format!("user=> {result}"),
            "{program}: {found}"
        );
    }
    // A message about a function names the turn that defined it, in whichever process the next turn runs.
    let failed = pipe.call(
        "lisp_session_eval",
        json!({"session_id": session, "program": "(map add [1 nil])"}),
    );
    let feedback = failed["feedback"].as_str().unwrap_or_default();
    assert!(
        feedback.contains("in `add`, which turn 1 defined, at line 1, column 25: (+ x n)"),
        "{failed}"
    );
    let failed = pipe.call(
        "lisp_session_eval",
        json!({"session_id": session, "program": ";; fault: segv\n(def n 0)"}),
    );
    assert_eq!(reason(&failed), "runtime_error", "{failed}");
    let kept = pipe.call(
        "lisp_session_eval",
        json!({"session_id": session, "program": "n"}),
    );
    assert_eq!(kept["result"], "user=> 10", "{kept}");

    // Over stdio a cancelled call is not answered; its process ends the program, or is ended.
    let long = "(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)";
    pipe.next += 1;
    let id = pipe.next;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "lisp_eval", "arguments": {"program": long}}}));
    std::thread::sleep(Duration::from_millis(200));
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(pipe.eval("(+ 1 2)")["result"], "user=> 3");
    std::thread::sleep(Duration::from_millis(500));
    let used: Vec<_> = server
        .workers()
        .iter()
        .map(|pid| (*pid, ticks(*pid)))
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    for (pid, before) in used {
        assert!(
            ticks(pid).saturating_sub(before) < 10,
            "a process works on for nobody"
        );
    }
}

#[test]
fn workers_end_with_their_server() {
    let mut server = Server::start(&["--max-concurrent-calls", "2"]);
    let mut pipe = Pipe::to(&mut server);
    wait_until("processes are ready", || server.workers().len() >= 2);
    pipe.next += 1;
    let id = pipe.next;
    pipe.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "lisp_eval", "arguments": {"program": ";; fault: spin\n1"}}}));
    std::thread::sleep(Duration::from_millis(200));
    let workers = server.workers();
    kill(i32::try_from(server.0.id()).unwrap(), "-9");
    server.0.wait().unwrap();
    wait_until("they end", || {
        workers
            .iter()
            .all(|pid| stat(*pid).is_none_or(|fields| fields[0] == "Z"))
    });
}
