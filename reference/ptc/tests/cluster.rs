//! Several servers with one store, as processes: sessions move between them, nothing that was acknowledged is lost, and their answers
//! about a session are linearizable.
//!
//! Redis is tested where `redis-server` is installed; the directory always.
//! `PTC_CLUSTER_SECONDS=300 cargo test -p ptc --test cluster acknowledged_turns` disturbs for longer; with
//! `PTC_CLUSTER_PLANTED=1` servers accept commits unchecked, until no order explains what clients saw.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

#[path = "cluster/addresses.rs"]
mod addresses;
#[path = "cluster/faults.rs"]
mod faults;
#[path = "cluster/forgery.rs"]
mod forgery;
#[path = "cluster/order.rs"]
mod order;
mod support;
#[path = "cluster/together.rs"]
mod together;

use serde_json::{Value, json};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::ports::free_port;
use support::{Process, wait_until};

const REVISION: &str = "2026-07-28";

/// Where sessions are stored during a test.
enum Store {
    Directory(PathBuf),
    Redis {
        server: Mutex<Process>,
        port: u16,
        directory: PathBuf,
    },
}

impl Store {
    /// The stores that are available here.
    fn all(directory: &Path) -> Vec<Store> {
        let mut all = vec![Store::Directory(directory.join("store"))];
        all.extend(Store::redis(directory));
        all
    }

    fn redis(directory: &Path) -> Option<Store> {
        let port = free_port();
        match redis_server(port, directory) {
            Ok(server) => Some(Store::Redis {
                server: Mutex::new(server),
                port,
                directory: directory.to_owned(),
            }),
            Err(error) => {
                eprintln!("skipped: redis-server is not installed here: {error}");
                None
            }
        }
    }

    /// The answer of `redis-server` to a command.
    fn ask(&self, command: &[&[u8]]) -> Resp {
        let Store::Redis { port, .. } = self else {
            panic!("a directory answers no commands")
        };
        redis_command(*port, command)
    }

    fn url(&self) -> String {
        match self {
            Store::Directory(path) => format!("file:{}", path.display()),
            Store::Redis { port, .. } => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// Ends the store as in a crash, and restarts it with what it had written.
    fn restart(&self) {
        if let Store::Redis {
            server,
            port,
            directory,
        } = self
        {
            let mut server = server.lock().unwrap();
            let _ = server.0.kill();
            let _ = server.0.wait();
            *server = redis_server(*port, directory).unwrap();
        }
    }
}

/// A redis-server that loses nothing that it acknowledged.
fn redis_server(port: u16, directory: &Path) -> std::io::Result<Process> {
    let safe = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = redis_with(port, directory, &safe)?;
    wait_until("redis-server", || answers(port));
    Ok(server)
}

/// A redis-server that keeps its files in a directory; it may not answer yet.
fn redis_with(port: u16, directory: &Path, flags: &[&str]) -> std::io::Result<Process> {
    let port = port.to_string();
    let child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port, "--save", ""])
        .args(flags)
        .arg("--dir")
        .arg(directory)
        .stdout(Stdio::null())
        .spawn()?;
    Ok(Process(child))
}

fn answers(port: u16) -> bool {
    let mut answer = [0; 5];
    TcpStream::connect(("127.0.0.1", port)).is_ok_and(|mut stream| {
        stream.write_all(b"PING\r\n").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && answer == *b"+PONG"
    })
}

/// An answer of Redis.
#[derive(Clone, Debug, PartialEq)]
enum Resp {
    Nil,
    Text(Vec<u8>),
    Many(Vec<Resp>),
}

impl Resp {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Resp::Text(bytes) => bytes.clone(),
            other => panic!("no text: {other:?}"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    fn read(stream: &mut impl std::io::BufRead) -> Resp {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" | "*" if rest.starts_with('-') => Resp::Nil,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Resp::Text(bytes)
            }
            "*" => {
                let count: usize = rest.parse().unwrap();
                Resp::Many((0..count).map(|_| Resp::read(stream)).collect())
            }
            _ => Resp::Text(rest.as_bytes().to_vec()),
        }
    }
}

fn redis_command(port: u16, command: &[&[u8]]) -> Resp {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).unwrap();
    let mut asked = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        asked.extend(format!("${}\r\n", word.len()).into_bytes());
        asked.extend_from_slice(word);
        asked.extend_from_slice(b"\r\n");
    }
    stream.write_all(&asked).unwrap();
    Resp::read(&mut std::io::BufReader::new(stream))
}

/// One server of the cluster.
struct Node {
    process: Process,
    address: SocketAddr,
}

impl Node {
    fn start(store: &str, flags: &[&str], environment: &[(&str, &str)]) -> Node {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Node::start_at(address, store, flags, environment)
    }

    fn start_at(
        address: SocketAddr,
        store: &str,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Node {
        let child = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args([
                "start",
                "--http",
                "--sessions",
                "--log-level",
                "error",
                "--max-concurrent-calls",
                "16",
            ])
            .args([
                "--http-port",
                &address.port().to_string(),
                "--session-store",
                store,
            ])
            .args(flags)
            .envs(environment.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let node = Node {
            process: Process(child),
            address,
        };
        wait_until("a server's start", || TcpStream::connect(address).is_ok());
        node
    }

    fn request(&self, head: &str, body: &str) -> std::io::Result<(u16, Value)> {
        request(self.address, head, body)
    }

    /// Calls a tool in the revision without protocol sessions, in which the token's owner is the same on all servers.
    fn call(&self, tool: &str, arguments: &Value) -> std::io::Result<Value> {
        call(self.address, tool, arguments)
    }

    fn eval(&self, session: &str, program: &str) -> Value {
        self.call(
            "session_eval",
            &json!({"session_id": session, "program": program}),
        )
        .unwrap()
    }

    fn is_running(&self, session: &str) -> bool {
        let inspected = self
            .call("session_inspect", &json!({"session_id": session}))
            .unwrap();
        inspected["session"]["eval_status"] == json!("running")
    }

    fn new_session(&self) -> String {
        let started = self.call("session_start", &json!({})).unwrap();
        started["session_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{started}"))
            .to_owned()
    }
}

fn request(address: SocketAddr, head: &str, body: &str) -> std::io::Result<(u16, Value)> {
    let (status, _, reply) = exchange(address, head, body)?;
    Ok((status, reply))
}

/// The status, the header fields and the JSON of the response to a request.
fn exchange(address: SocketAddr, head: &str, body: &str) -> std::io::Result<(u16, String, Value)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let request = format!(
        "{head}\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || std::io::Error::other(format!("half an answer: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .ok_or_else(broken)?;
    let reply = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok((status, head.to_owned(), reply))
}

fn call(address: SocketAddr, tool: &str, arguments: &Value) -> std::io::Result<Value> {
    call_with(address, "", tool, arguments)
}

/// Like [`call`] with more header fields, each of which begins with the end of the previous line.
fn call_with(
    address: SocketAddr,
    fields: &str,
    tool: &str,
    arguments: &Value,
) -> std::io::Result<Value> {
    let tool = format!("lisp_{tool}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments,
        "_meta": {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}}});
    let head = format!(
        "POST /mcp HTTP/1.1\r\nMCP-Protocol-Version: {REVISION}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}{fields}"
    );
    let (status, reply) = request(address, &head, &body.to_string())?;
    // The server, or the proxy in front of it, did not begin the call.
    if status == 503 {
        return Err(std::io::Error::other("Service Unavailable"));
    }
    if !reply.is_object() {
        return Err(std::io::Error::other(format!("{status}: {reply}")));
    }
    let result = &reply["result"];
    // The value is followed by the turn's definitions.
    let text = result["content"][0]["text"]
        .as_str()
        .and_then(|text| text.lines().next());
    let text = json!(text);
    Ok(match &result["structuredContent"] {
        Value::Object(_) => result["structuredContent"].clone(),
        _ if result["isError"] == json!(true) => {
            let text = text.as_str().unwrap_or_default();
            json!({"status": "error", "reason": text.split(':').next(), "text": text})
        }
        _ if result.is_object() => json!({"status": "ok", "text": text}),
        _ => reply,
    })
}

fn shown(text: &str) -> Value {
    json!(format!("user=> {text}"))
}

#[test]
fn sessions_move_between_servers_and_survive_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
    let flags = [
        "--session-store-key-file",
        key.to_str().unwrap(),
        "--max-sessions",
        "2",
    ];
    for store in Store::all(directory.path()) {
        let url = store.url();
        let start = || Node::start(&url, &flags, &[]);
        let (first, second) = (start(), start());
        let session = first.new_session();
        first.eval(
            &session,
            "(do (def n 40) (def add (let [k 2] (fn [x] (+ x k)))) (println \"a word\"))",
        );
        assert_eq!(
            second.eval(&session, "(do (def n (add n)) n)")["text"],
            shown("42")
        );
        assert_eq!(first.eval(&session, "n")["text"], shown("42"));
        let listed = second.call("session_list", &json!({})).unwrap();
        assert_eq!(listed["sessions"][0]["turn"], json!(3), "{listed}");
        // The limits apply to both servers together.
        let other = second.new_session();
        let full = first.call("session_start", &json!({})).unwrap();
        assert_eq!(full["reason"], json!("session_limit_exceeded"), "{full}");
        // Closing and forgetting take effect everywhere.
        first
            .call("session_close", &json!({"session_id": other}))
            .unwrap();
        assert_eq!(second.eval(&other, "1")["reason"], json!("session_closed"));
        second
            .call(
                "session_forget",
                &json!({"session_id": session, "bindings": ["add"]}),
            )
            .unwrap();
        let inspected = first
            .call(
                "session_inspect",
                &json!({"session_id": session, "view": "prints"}),
            )
            .unwrap();
        assert_eq!(
            inspected["session"]["binding_count"],
            json!(1),
            "{inspected}"
        );
        assert!(inspected.to_string().contains("a word"), "{inspected}");
        drop(first);
        drop(second);
        store.restart();
        let third = start();
        assert_eq!(third.eval(&session, "(inc n)")["text"], shown("43"));
        // Operators see the session, and a prompt continues it.
        let operator = |words: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_ptc"))
                .args(words)
                .args(["--session-store", &url])
                .args(&flags[..2])
                .output()
                .unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(operator(&["session", "list"]).contains(&session));
        assert!(operator(&["session", "show", &session]).contains("n = 42"));
        let kept = directory.path().join("kept");
        let kept = kept.to_str().unwrap();
        operator(&["session", "export", &session, kept]);
        let prompt = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args(["repl", "--session", kept, "-e", "(+ n 1)"])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&prompt.stdout),
            "43\n",
            "{prompt:?}"
        );
        operator(&["session", "delete", &session]);
        assert_eq!(third.eval(&session, "n")["reason"], json!("session_closed"));
        // Without the key, or with another one, no server starts on this store.
        let refused = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args(["start", "--sessions", "--session-store", &url])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("there is no key"), "{said}");
    }
}

/// Flips each bit of the bodies in a directory.
fn damage(directory: &Path) {
    let mut damaged = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.contains('.') && !name.ends_with(".head") {
            let bytes: Vec<u8> = std::fs::read(&path).unwrap();
            std::fs::write(&path, bytes.iter().map(|byte| !byte).collect::<Vec<u8>>()).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
}

#[test]
fn unreadable_session_is_reported_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let url = format!("file:{}", store.display());
    let node = Node::start(&url, &[], &[]);
    let session = node.new_session();
    node.eval(&session, "(def a 41)");
    drop(node);
    damage(&store.join("programs"));
    let node = Node::start(&url, &[], &[]);
    for _ in 0..2 {
        let refused = node.eval(&session, "a");
        assert_eq!(refused["reason"], json!("session_unreadable"), "{refused}");
    }
    let other = node.new_session();
    assert_eq!(node.eval(&other, "(+ 40 2)")["text"], shown("42"));
    // Once repaired, the session is unchanged.
    node.call("session_close", &json!({"session_id": other}))
        .unwrap();
    drop(node);
    damage(&store.join("programs"));
    let node = Node::start(&url, &[], &[]);
    assert_eq!(node.eval(&session, "(inc a)")["text"], shown("42"));
}

#[test]
fn one_program_runs_at_a_time_and_dead_servers_hold_no_lease() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        // The lease must last while the turn is observed.
        let lease = [("PTC_CHECKS_LEASE_MS", "8000")];
        let start = || Node::start(&store.url(), &["--program-timeout-ms", "20000"], &lease);
        let (first, second) = (start(), start());
        let session = first.new_session();
        first.eval(&session, "(def n 1)");
        let address = first.address;
        let running = session.clone();
        let turn = std::thread::spawn(move || {
            let endless = json!({"session_id": running, "program": "(do (def n 2) (loop [i 0] (recur (inc i))))"});
            call(address, "session_eval", &endless)
        });
        wait_until("a turn", || second.is_running(&session));
        assert_eq!(second.eval(&session, "n")["reason"], json!("session_busy"));
        let forgotten = second
            .call(
                "session_forget",
                &json!({"session_id": session, "bindings": ["n"]}),
            )
            .unwrap();
        assert_eq!(forgotten["reason"], json!("session_busy"), "{forgotten}");
        let inspected = second
            .call("session_inspect", &json!({"session_id": session}))
            .unwrap();
        assert_eq!(
            inspected["session"]["eval_status"],
            json!("running"),
            "{inspected}"
        );
        drop(first);
        assert!(turn.join().unwrap().is_err());
        // Its lease ends by the store's clock.
        wait_until("a lease", || {
            second.eval(&session, "n")["text"] == shown("1")
        });
    }
}

/// A counter stored in a session.
#[derive(Clone, Debug, Default)]
struct Counter(i64);

#[derive(Clone, Debug, PartialEq)]
enum CounterOp {
    Add,
    Read,
}

impl SequentialSpec for Counter {
    type Op = CounterOp;
    type Ret = i64;

    fn invoke(&mut self, asked: &CounterOp) -> i64 {
        if *asked == CounterOp::Add {
            self.0 += 1;
        }
        self.0
    }
}

/// The operations of clients on one session, in the order of invocations and responses.
type History = LinearizabilityTester<usize, Counter>;

/// The events of clients, in order. A client that does not know whether its turn was kept makes no further requests.
#[derive(Debug, Default)]
struct ObservedHistory(Vec<(usize, Event)>);

#[derive(Debug)]
enum Event {
    Invoked(CounterOp),
    Returned(i64),
}

impl ObservedHistory {
    /// Whether some order of the operations explains the events.
    ///
    /// Turns with unknown outcome would make the search endless. They are assigned the numbers that no client was told, the smallest to
    /// the earliest request, as if answered at the end; the remaining ones never happened. Another assignment can explain the events only
    /// where this one does, because an earlier request may have been served at any later time.
    fn is_consistent(&self) -> bool {
        let added: BTreeSet<i64> = {
            let mut adds = BTreeMap::new();
            let mut numbers = BTreeSet::new();
            for (name, event) in &self.0 {
                match event {
                    Event::Invoked(asked) => drop(adds.insert(name, asked.clone())),
                    Event::Returned(number) if adds.get(name) == Some(&CounterOp::Add) => {
                        numbers.insert(*number);
                    }
                    Event::Returned(_) => {}
                }
            }
            numbers
        };
        let most = self.0.iter().filter_map(|(_, event)| match event {
            Event::Returned(number) => Some(*number),
            Event::Invoked(_) => None,
        });
        let mut missing = (1..=most.max().unwrap_or(0)).filter(|number| !added.contains(number));
        let mut history = History::new(Counter(0));
        let mut at_last = Vec::new();
        for (at, (name, event)) in self.0.iter().enumerate() {
            match event {
                Event::Returned(number) => drop(history.on_return(*name, *number).unwrap()),
                Event::Invoked(asked) => {
                    let answered = self.0[at + 1..].iter().any(|(of, _)| of == name);
                    if !answered && *asked == CounterOp::Read {
                        continue;
                    }
                    if !answered {
                        let Some(number) = missing.next() else {
                            continue;
                        };
                        at_last.push((*name, number));
                    }
                    history.on_invoke(*name, asked.clone()).unwrap();
                }
            }
        }
        // A number that no request produced.
        if missing.next().is_some() {
            return false;
        }
        for (name, number) in at_last {
            history.on_return(name, number).unwrap();
        }
        history.is_consistent()
    }
}

#[test]
fn checker_accepts_only_linearizable_histories() {
    let seen = |events: &[(usize, Option<i64>)]| {
        let events = events.iter().map(|(name, told)| {
            let event = match told {
                None => Event::Invoked(CounterOp::Add),
                Some(-1) => Event::Invoked(CounterOp::Read),
                Some(number) => Event::Returned(*number),
            };
            (*name, event)
        });
        ObservedHistory(events.collect()).is_consistent()
    };
    const READ: Option<i64> = Some(-1);
    let (add, told) = (None, Some);
    assert!(seen(&[
        (0, add),
        (0, told(1)),
        (1, add),
        (1, told(2)),
        (0, READ),
        (0, told(2))
    ]));
    // The same number twice; a smaller number after a larger one; a number without a request; a read of an old state.
    assert!(!seen(&[(0, add), (1, add), (0, told(1)), (1, told(1))]));
    assert!(!seen(&[(0, add), (0, told(2)), (1, add), (1, told(1))]));
    assert!(!seen(&[(0, add), (0, told(2))]));
    assert!(!seen(&[(0, add), (0, told(1)), (1, READ), (1, told(0))]));
    // Turns with unknown outcome fill the gaps, once each, and not before they were requested.
    assert!(seen(&[
        (0, add),
        (1, add),
        (1, told(2)),
        (2, READ),
        (2, told(2))
    ]));
    assert!(seen(&[
        (0, add),
        (2, add),
        (1, add),
        (1, told(1)),
        (3, READ),
        (3, told(1))
    ]));
    assert!(!seen(&[(0, add), (1, add), (1, told(3))]));
    assert!(!seen(&[(1, add), (1, told(2)), (0, add)]));
    let many: Vec<_> = (10..40)
        .map(|name| (name, add))
        .chain([
            (0, add),
            (0, told(20)),
            (1, READ),
            (1, told(25)),
            (2, READ),
            (2, told(25)),
        ])
        .collect();
    assert!(seen(&many));
}

/// Clients send requests for one session to the nodes until all turns are taken; returns their events and the number of acknowledged
/// turns.
fn clients(
    addresses: &[SocketAddr],
    session: &str,
    turns: usize,
    count: usize,
) -> (ObservedHistory, usize) {
    let history = Arc::new(Mutex::new(ObservedHistory::default()));
    let (names, kept) = (AtomicUsize::new(count), AtomicUsize::new(0));
    let left = AtomicUsize::new(turns);
    std::thread::scope(|scope| {
        for client in 0..count {
            let (history, names, kept, left) = (history.clone(), &names, &kept, &left);
            scope.spawn(move || {
                let (mut name, mut at) = (client, client);
                loop {
                    let Ok(turn) = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                        left.checked_sub(1)
                    }) else {
                        return;
                    };
                    let (asked, program) = match turn % 4 {
                        0 => (CounterOp::Read, "n"),
                        _ => (CounterOp::Add, "(do (def n (inc n)) n)"),
                    };
                    history
                        .lock()
                        .unwrap()
                        .0
                        .push((name, Event::Invoked(asked)));
                    let since = Instant::now();
                    loop {
                        at += 1;
                        let arguments = json!({"session_id": session, "program": program});
                        let reply =
                            call(addresses[at % addresses.len()], "session_eval", &arguments);
                        let reply =
                            reply.unwrap_or_else(|error| json!({"reason": error.to_string()}));
                        let reason = reply["reason"].as_str().unwrap_or_default();
                        let number = reply["text"]
                            .as_str()
                            .and_then(|text| text.strip_prefix("user=> ")?.parse().ok());
                        if let Some(number) = number {
                            kept.fetch_add(1, Ordering::AcqRel);
                            history
                                .lock()
                                .unwrap()
                                .0
                                .push((name, Event::Returned(number)));
                            break;
                        }
                        // These errors mean that nothing was done; the request may be repeated.
                        let undone = [
                            "session_busy",
                            "session_lease_lost",
                            "timeout",
                            "busy",
                            "Connection refused",
                            "Service Unavailable",
                        ];
                        let nothing = reply["text"]
                            .as_str()
                            .is_some_and(|text| text.contains("nothing was changed"));
                        if !(nothing || undone.iter().any(|word| reason.starts_with(word)))
                            || since.elapsed() > Duration::from_secs(60)
                        {
                            // The outcome is unknown: the operation stays open, and its client continues under another name.
                            name = names.fetch_add(1, Ordering::AcqRel);
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            });
        }
    });
    let history = Arc::into_inner(history).unwrap().into_inner().unwrap();
    (history, kept.into_inner())
}

/// Concurrent clients.
const CLIENTS: usize = 8;

fn seconds() -> Duration {
    let seconds = std::env::var("PTC_CLUSTER_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

#[test]
fn acknowledged_turns_are_linearizable() {
    use nix::sys::signal::Signal;
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let url = store.url();
        // Shorter than the longest pause of a server, which then continues with an expired lease.
        let lease = ("PTC_CHECKS_LEASE_MS", "400");
        let planted = std::env::var_os("PTC_CLUSTER_PLANTED").is_some();
        let careless = [lease, ("PTC_CHECKS_CARELESS_COMMITS", "1")];
        let environment = if planted {
            &careless[..]
        } else {
            &careless[..1]
        };
        let flags = ["--program-timeout-ms", "300"];
        let start = || Node::start(&url, &flags, environment);
        // One of them reaches its store through a wire that can be held or cut.
        let wire = match &store {
            Store::Redis { port, .. } => Some(faults::FaultyProxy::to(*port)),
            Store::Directory(_) => None,
        };
        let far = wire.as_ref().map(faults::FaultyProxy::url);
        let far = far.as_deref().unwrap_or(&url);
        let start_far = || Node::start(far, &flags, environment);
        let mut nodes = [start(), start(), start_far()];
        let (since, mut acknowledged, mut found) = (Instant::now(), 0, false);
        let mut random = fastrand::Rng::with_seed(7);
        while since.elapsed() < seconds() && !found {
            let session = nodes[0].new_session();
            // On a busy machine the lease may end first; then nothing is kept, and the turn is repeated.
            wait_until("the first turn", || {
                nodes[0].eval(&session, "(do (def n 0) n)")["text"] == shown("0")
            });
            let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
            let done = AtomicBool::new(false);
            let (history, kept) = std::thread::scope(|scope| {
                let asking = scope.spawn(|| {
                    let seen = clients(&addresses, &session, 32, CLIENTS);
                    done.store(true, Ordering::Release);
                    seen
                });
                while !done.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(random.u64(20..200)));
                    let node = random.usize(..nodes.len());
                    match random.u8(..6) {
                        0 => {
                            nodes[node].process.signal(Signal::SIGSTOP);
                            std::thread::sleep(Duration::from_millis(random.u64(50..1500)));
                            nodes[node].process.signal(Signal::SIGCONT);
                        }
                        1 => store.restart(),
                        3 => {
                            let pause = Duration::from_millis(random.u64(50..3000));
                            wire.iter().for_each(|wire| wire.hold_for(pause));
                        }
                        4 => wire.iter().for_each(faults::FaultyProxy::cut),
                        // The others continue the sessions of the killed node; one node always survives.
                        2 if node > 0 => nodes[node].process.signal(Signal::SIGKILL),
                        _ => {}
                    }
                }
                asking.join().unwrap()
            });
            acknowledged += kept;
            found = !history.is_consistent();
            assert!(
                !found || planted,
                "{url}: no order explains what was seen: {history:?}"
            );
            for (at, node) in nodes.iter_mut().enumerate() {
                if node.process.0.try_wait().unwrap().is_some() {
                    *node = if at == 2 { start_far() } else { start() };
                }
            }
            let close = json!({"session_id": session});
            wait_until("the store", || {
                nodes[0]
                    .call("session_close", &close)
                    .is_ok_and(|reply| reply["reason"] != json!("session_store_unavailable"))
            });
        }
        println!(
            "{url}: {acknowledged} turns acknowledged in {:?}; an order explains them: {}",
            since.elapsed(),
            !found
        );
        assert!(acknowledged > 0);
        assert_eq!(found, planted, "{url}");
    }
}

#[test]
fn late_commit_is_rejected_and_accepting_it_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let url = store.url();
        // Leases end while commits wait.
        let lease = ("PTC_CHECKS_LEASE_MS", "1000");
        let slow = ("PTC_CHECKS_SLOW_COMMITS_MS", "4000");
        let flags = ["--program-timeout-ms", "20000"];
        let careful = Node::start(&url, &flags, &[lease, slow]);
        let careless = Node::start(
            &url,
            &flags,
            &[lease, slow, ("PTC_CHECKS_CARELESS_COMMITS", "1")],
        );
        let other = Node::start(&url, &flags, &[]);
        for (node, safe) in [(&careful, true), (&careless, false)] {
            let session = other.new_session();
            other.eval(&session, "(def n 0)");
            let (address, running) = (node.address, session.clone());
            let mut history = History::new(Counter(0));
            history.on_invoke(0, CounterOp::Add).unwrap();
            let late = std::thread::spawn(move || {
                let program = json!({"session_id": running, "program": "(do (def n (inc n)) n)"});
                call(address, "session_eval", &program).unwrap()
            });
            wait_until("the turn", || other.is_running(&session));
            assert_eq!(other.eval(&session, "n")["reason"], json!("session_busy"));
            // The lease ends before the commit; another turn takes its place.
            wait_until("the lease", || {
                other.eval(&session, "n")["text"] == shown("0")
            });
            history.on_invoke(1, CounterOp::Add).unwrap();
            let number = other.eval(&session, "(do (def n (inc n)) n)");
            assert_eq!(number["text"], shown("1"), "{number}");
            history.on_return(1, 1).unwrap();
            let late = late.join().unwrap();
            if safe {
                assert_eq!(late["reason"], json!("session_lease_lost"), "{late}");
            } else {
                assert_eq!(late["text"], shown("1"), "{late}");
                history.on_return(0, 1).unwrap();
            }
            assert_eq!(history.is_consistent(), safe, "{history:?}");
            assert_eq!(other.eval(&session, "n")["text"], shown("1"));
        }
    }
}

#[test]
fn server_reports_a_lost_store_and_recovers_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let node = Node::start(&store.url(), &[], &[]);
    let session = node.new_session();
    node.eval(&session, "(def n 1)");
    let ready = || node.request("GET /ready HTTP/1.1", "").unwrap();
    assert_eq!(ready().0, 200);
    if let Store::Redis { server, .. } = &store {
        let _ = server.lock().unwrap().0.kill();
    }
    wait_until("its end", || {
        node.eval(&session, "n")["reason"] == json!("session_store_unavailable")
    });
    assert_eq!(
        ready(),
        (503, json!({"status": "session_store_unavailable"}))
    );
    let alone = node.call("eval", &json!({"program": "(+ 1 2)"})).unwrap();
    assert_eq!(alone["text"], shown("3"));
    store.restart();
    wait_until("its return", || {
        node.eval(&session, "n")["text"] == shown("1")
    });
    assert_eq!(ready().0, 200);
}

/// A node's response in the revision with protocol sessions: the status, the session header and the body.
fn request_in_protocol_session(
    address: SocketAddr,
    session: Option<&str>,
    method: &str,
    body: &str,
) -> (u16, Option<String>, Value) {
    let session = session
        .map(|id| format!("\r\nMcp-Session-Id: {id}"))
        .unwrap_or_default();
    let head = format!("{method} /mcp HTTP/1.1{session}");
    let (status, head, reply) = exchange(address, &head, body).unwrap();
    let named = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id")
            .then(|| value.to_owned())
    });
    (status, named, reply)
}

#[test]
fn protocol_sessions_are_valid_on_every_server() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let start = || {
            Node::start(
                &store.url(),
                &["--program-timeout-ms", "20000", "--http-max-sessions", "1"],
                &[],
            )
        };
        let (first, second) = (start(), start());
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}})
        .to_string();
        let (status, id, reply) =
            request_in_protocol_session(first.address, None, "POST", &initialize);
        assert_eq!(
            (status, &reply["result"]["protocolVersion"]),
            (200, &json!("2025-06-18")),
            "{reply}"
        );
        let id = id.unwrap();
        // The limit applies to both servers, and the revision is known on both.
        assert_eq!(
            request_in_protocol_session(second.address, None, "POST", &initialize).0,
            503
        );
        let call = |node: &Node, number: u64, tool: &str, arguments: Value| {
            let body = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
            request_in_protocol_session(node.address, Some(&id), "POST", &body.to_string())
        };
        let (_, _, started) = call(&first, 2, "lisp_session_start", json!({}));
        let session = started["result"]["structuredContent"]["session_id"].clone();
        call(
            &first,
            3,
            "lisp_session_eval",
            json!({"session_id": session, "program": "(def n 41)"}),
        );
        let (_, _, reply) = call(
            &second,
            4,
            "lisp_session_eval",
            json!({"session_id": session, "program": "(inc n)"}),
        );
        assert_eq!(
            reply["result"]["content"][0]["text"],
            shown("42"),
            "{reply}"
        );
        // The session survives a restart.
        drop(first);
        let first = start();
        let (_, _, reply) = call(
            &first,
            5,
            "lisp_session_eval",
            json!({"session_id": session, "program": "n"}),
        );
        assert_eq!(
            reply["result"]["content"][0]["text"],
            shown("41"),
            "{reply}"
        );
        if matches!(store, Store::Redis { .. }) {
            // A cancellation reaches the program on the server where it runs.
            let endless = json!({"session_id": session, "program": "(loop [i 0] (recur (inc i)))"});
            std::thread::scope(|scope| {
                let running = scope.spawn(|| call(&first, 6, "lisp_session_eval", endless));
                wait_until("a turn", || {
                    let inspected = call(
                        &second,
                        7,
                        "lisp_session_inspect",
                        json!({"session_id": session}),
                    );
                    inspected.2.to_string().contains("\"running\"")
                });
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}});
                assert_eq!(
                    request_in_protocol_session(
                        second.address,
                        Some(&id),
                        "POST",
                        &cancel.to_string()
                    )
                    .0,
                    202
                );
                let (_, _, reply) = running.join().unwrap();
                assert!(reply.to_string().contains("cancelled"), "{reply}");
            });
            let (_, _, reply) = call(
                &second,
                8,
                "lisp_session_eval",
                json!({"session_id": session, "program": "n"}),
            );
            assert_eq!(
                reply["result"]["content"][0]["text"],
                shown("41"),
                "{reply}"
            );
        }
        assert_eq!(
            request_in_protocol_session(second.address, Some(&id), "DELETE", "").0,
            202
        );
        let (status, _, _) = call(&first, 9, "lisp_eval", json!({"program": "1"}));
        assert_eq!(status, 404);
    }
}
