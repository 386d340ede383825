//! The built `ptc` under load with hostile traffic mixed in: no reply is lost, duplicated or mixed up, and the server ends
//! cleanly.
//!
//! Two seconds each by default; `PTC_LOAD_SECONDS` sets another duration, `PTC_LOAD_SERVER` another executable. One minute each
//! against a release build:
//!
//!     PTC_LOAD_SECONDS=60 PTC_LOAD_SERVER=$PWD/target/release/ptc cargo test -p ptc --test load -- --nocapture --test-threads 1
//!
//! Knows the server only through its pipes and sockets.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::Process;
use support::http::Message;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// Requests in flight over standard streams.
const WINDOW: u64 = 32;
/// HTTP clients, each with its own session.
const CLIENTS: u64 = 8;
/// Bytes of a frame or body that is refused; the servers here accept fewer.
const OVERSIZE_BYTES: usize = 100_000;
const BYTES_MAX: &str = "65536";

fn length() -> Duration {
    let seconds = std::env::var("PTC_LOAD_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// A separate server.
struct Server(Process);

impl Server {
    fn command(arguments: &[&str]) -> Command {
        let executable = std::env::var("PTC_LOAD_SERVER").unwrap_or_else(|_| PTC.into());
        let mut command = Command::new(executable);
        command
            .arg("start")
            .args(arguments)
            .args(["--max-concurrent-calls", "16"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn start(arguments: &[&str], log: Stdio) -> Self {
        let child = Self::command(arguments).stderr(log).spawn().unwrap();
        Server(Process(child))
    }

    /// A listening server and its port.
    fn listening(arguments: &[&str]) -> (Self, u16) {
        let (server, port) = support::listening(|port| {
            Self::command(&[&["--http", "--http-port", port], arguments].concat())
        });
        (Server(server), port)
    }

    fn resident_bytes(&self) -> u64 {
        support::memory(self.0.id(), "VmRSS").unwrap()
    }
}

/// Memory that varies with the calls in flight at the moment of measurement.
const SLACK_BYTES: u64 = 8 << 20;

/// Replies after which every worker has run its first programs and holds the memory that it keeps.
const WARM_REPLIES: u64 = 2_000;
/// How long to wait for that.
const WARM_WAIT: Duration = Duration::from_secs(30);

/// A run in two halves of equal length; the first is extended until the server is warm, which takes longer while other tests
/// run.
struct Halves {
    begun: Instant,
    /// The start of the second half, and the memory held then.
    middle: Option<(Instant, u64)>,
}

impl Halves {
    fn begin() -> Self {
        Halves {
            begun: Instant::now(),
            middle: None,
        }
    }

    fn are_over(&mut self, replies: u64, server: &Server) -> bool {
        let half = length() / 2;
        if let Some((middle, _)) = self.middle {
            return middle.elapsed() >= half;
        }
        let took = self.begun.elapsed();
        if took >= half && (replies >= WARM_REPLIES || took >= WARM_WAIT) {
            self.middle = Some((Instant::now(), server.resident_bytes()));
        }
        false
    }

    /// Checks that the server holds at most a tenth more at the end than in the middle. Returns a summary with the rate.
    fn judge(&self, replies: u64, server: &Server) -> String {
        let rate = replies as f64 / self.begun.elapsed().as_secs_f64();
        let (_, middle) = self.middle.unwrap();
        let end = server.resident_bytes();
        assert!(
            end <= middle + middle / 10 + SLACK_BYTES,
            "resident memory grew from {middle} to {end} bytes"
        );
        let (middle, end) = (middle >> 10, end >> 10);
        format!(
            "{replies} replies, {rate:.0}/s; {middle} kB resident in the middle, {end} kB at the end"
        )
    }
}

/// The expected reply to a frame.
#[derive(Clone, Debug)]
enum Expected {
    /// This text in the content, or a refusal because the server is busy.
    Text(String),
    /// A JSON-RPC error with this code.
    Code(i64),
    /// Anything: the call is cancelled at once, so it may or may not be answered.
    Maybe,
}

/// The `number`th frame of the mix, with its expected reply.
fn frame(number: u64) -> (String, Expected) {
    let call = |program: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":{}}}}}}}"#,
            Value::from(program)
        )
    };
    match number % 10 {
        0 => (
            call("(fail {:no 1})"),
            Expected::Text("fail: {:no 1}".into()),
        ),
        1 => (
            format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"nope"}}"#),
            Expected::Code(-32601),
        ),
        2 => (call("(((("), Expected::Text("parse_error".into())),
        3 => (
            call("(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)"),
            Expected::Maybe,
        ),
        _ => (
            call(&format!("[{number} (+ 1 2)]")),
            Expected::Text(format!("user=> [{number} 3]")),
        ),
    }
}

fn judge(reply: &Value, expected: &Expected) {
    let text = reply["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    match expected {
        Expected::Code(code) => assert_eq!(reply["error"]["code"], *code, "{reply}"),
        Expected::Text(wanted) => assert!(
            text.starts_with(wanted) || text.starts_with("busy"),
            "{reply} for {wanted}"
        ),
        Expected::Maybe => {}
    }
}

#[test]
fn stdio_answers_each_request_exactly_once() {
    let mut server = Server::start(
        &["--log-level", "error", "--max-frame-bytes", BYTES_MAX],
        Stdio::inherit(),
    );
    let mut input = server.0.stdin.take().unwrap();
    let output = BufReader::new(server.0.stdout.take().unwrap());
    let waiting: Arc<Mutex<HashMap<u64, Expected>>> = Arc::default();
    let answered = Arc::new(AtomicU64::new(0));
    let busy = Arc::new(AtomicU64::new(0));
    let (seen, counted, refused) = (waiting.clone(), answered.clone(), busy.clone());
    let reader = std::thread::spawn(move || {
        let mut garbage = 0;
        for line in output.lines() {
            let reply: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if reply["id"].is_null() {
                assert_eq!(reply["error"]["code"], -32700, "{reply}");
                garbage += 1;
                continue;
            }
            let id = reply["id"].as_u64().unwrap();
            let expected = seen.lock().unwrap().remove(&id);
            if id > u64::MAX / 2 {
                seen.lock().unwrap().remove(&(u64::MAX - id));
            }
            judge(
                &reply,
                &expected.unwrap_or_else(|| panic!("nobody waits for {reply}")),
            );
            counted.fetch_add(1, Ordering::Relaxed);
            refused.fetch_add(u64::from(is_busy(&reply)), Ordering::Relaxed);
        }
        garbage
    });
    let open = || {
        waiting
            .lock()
            .unwrap()
            .values()
            .filter(|expected| !matches!(expected, Expected::Maybe))
            .count()
    };
    let (mut halves, mut number, mut garbage) = (Halves::begin(), 0, 0);
    let oversize = "x".repeat(OVERSIZE_BYTES);
    while !halves.are_over(answered.load(Ordering::Relaxed), &server) {
        if open() > WINDOW as usize {
            std::thread::yield_now();
            continue;
        }
        let (text, expected) = frame(number);
        let cancelled = matches!(expected, Expected::Maybe);
        waiting.lock().unwrap().insert(number, expected);
        writeln!(input, "{text}").unwrap();
        if cancelled {
            writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number}}}}}"#).unwrap();
            // The call may be answered `busy` before the cancellation is read; after this reply it can't be answered any more.
            let after = u64::MAX - number;
            waiting
                .lock()
                .unwrap()
                .insert(after, Expected::Code(-32601));
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{after},"method":"nope"}}"#).unwrap();
        }
        if number % 50 == 7 {
            input.write_all(b"\xFF{garbage\n").unwrap();
            garbage += 1;
        }
        if number % 500 == 9 {
            writeln!(input, "{oversize}").unwrap();
            garbage += 1;
        }
        number += 1;
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while open() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(open(), 0, "replies are missing");
    let told = halves.judge(answered.load(Ordering::Relaxed), &server);
    drop(input);
    assert!(server.0.wait().unwrap().success());
    assert_eq!(reader.join().unwrap(), garbage);
    let busy = busy.load(Ordering::Relaxed);
    println!("stdio: {number} frames, {garbage} of garbage, {busy} busy; {told}");
}

fn is_busy(reply: &Value) -> bool {
    let text = reply["result"]["content"][0]["text"].as_str();
    text.is_some_and(|text| text.starts_with("busy"))
}

/// A keep-alive connection with a minimal HTTP client.
struct Client {
    stream: BufReader<TcpStream>,
    session: String,
}

impl Client {
    fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Client {
            stream: BufReader::new(stream),
            session: String::new(),
        }
    }

    fn send(&mut self, body: &str) {
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("MCP-Session-Id: {id}\r\n"),
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn receive(&mut self) -> (u16, String) {
        let answer = Message::read(&mut self.stream).expect("the server answers");
        if let Some(session) = answer.field("mcp-session-id") {
            self.session = session.to_owned();
        }
        (answer.status(), answer.text())
    }

    fn initialize(&mut self) {
        self.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
        assert_eq!(self.receive().0, 200);
    }
}

#[test]
fn http_answers_each_request_exactly_once() {
    let (mut server, port) = Server::listening(&[
        "--http-max-in-flight-per-session",
        "4",
        "--http-max-body-bytes",
        BYTES_MAX,
    ]);
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let busy = Arc::new(AtomicU64::new(0));
    let mut halves = Halves::begin();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (stop, answered, busy) = (stop.clone(), answered.clone(), busy.clone());
            std::thread::spawn(move || {
                let mut connection = Client::new(port);
                connection.initialize();
                let oversize = "x".repeat(OVERSIZE_BYTES);
                let mut number = client * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let (text, expected) = frame(number);
                    if matches!(expected, Expected::Maybe) {
                        // A client that disconnects after its request; its program must not keep a place.
                        let mut gone = Client::new(port);
                        gone.session.clone_from(&connection.session);
                        gone.send(&text);
                        continue;
                    }
                    if number % 500 == 9 {
                        // The connection stays usable.
                        connection.send(&oversize);
                        assert_eq!(connection.receive().0, 413);
                    }
                    connection.send(&text);
                    let (status, body) = connection.receive();
                    assert_eq!(status, 200, "{body}");
                    let reply: Value = serde_json::from_str(&body).unwrap();
                    assert_eq!(reply["id"], number, "{body}");
                    judge(&reply, &expected);
                    answered.fetch_add(1, Ordering::Relaxed);
                    busy.fetch_add(u64::from(is_busy(&reply)), Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Hostile neighbours: garbage, half a head, half a body, an oversize declaration, two conflicting lengths.
    while !halves.are_over(answered.load(Ordering::Relaxed), &server) {
        for bytes in [
            &b"\x00\xFF\xFE garbage\r\n\r\n"[..],
            b"POST /mcp HTTP/1.1\r\nHost: loc",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            b"GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        ] {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                let _ = stream.write_all(bytes);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let told = halves.judge(answered.load(Ordering::Relaxed), &server);
    println!("http: {} busy; {told}", busy.load(Ordering::Relaxed));
    let mut last = Client::new(port);
    last.initialize();
    last.send(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"7"}}}"#);
    assert!(last.receive().1.contains("user=> 7"));
    assert!(
        Command::new("kill")
            .arg(server.0.id().to_string())
            .status()
            .unwrap()
            .success()
    );
    assert!(server.0.wait().unwrap().success());
}
