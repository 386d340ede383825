//! The built `ptc` over real sockets against clients that neither send nor read: they lock nobody out, and everything that they
//! can make the server hold is bounded. Knows the server only through its sockets.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::http::Message;
use support::{Process, wait_until};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
const TOKEN: &str = "abcdefghijklmnopqrstuvwxyz012345";
/// Maximum time for anything here before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// A program that runs until it is stopped.
const ENDLESS: &str = "(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)";

/// A separate server.
struct Server {
    child: Process,
    port: u16,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let (child, port) = support::listening(|port| {
            let mut command = Command::new(PTC);
            command.args(["start", "--http", "--http-port", port]);
            command.args(flags);
            command
        });
        Server { child, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The status and body of the response to `request`.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = self.connect();
        // The server may refuse before it has read everything.
        let _refused = stream.write_all(request.as_bytes());
        answer(&mut stream)
    }

    fn status(&self, request: &str) -> u16 {
        self.ask(request).0
    }

    fn resident_bytes(&self) -> u64 {
        support::memory(self.child.id(), "VmRSS").unwrap()
    }
}

/// One response; status 0 when the connection ends without one.
fn answer(stream: &mut TcpStream) -> (u16, String) {
    match Message::read(&mut BufReader::new(stream)) {
        Some(answer) => (answer.status(), answer.text()),
        None => (0, String::new()),
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A call outside of sessions.
fn call(headers: &str, program: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"{program}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: lisp_eval\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn connections_without_a_token_block_nobody() {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for caps in [
        [
            "--http-max-connections=40",
            "--http-max-connections-per-address=1000",
        ],
        [
            "--http-max-connections=1000",
            "--http-max-connections-per-address=40",
        ],
    ] {
        let server = Server::start(&[caps[0], caps[1], "--http-auth-token", TOKEN]);
        let held: Vec<TcpStream> = (0..200)
            .map(|_| {
                let mut stream = server.connect();
                // A connection that was evicted from the reserve accepts no more data.
                let _pushed_out = stream.write_all(b"GET /mcp HTTP/1.1\r\nX-Slow: ");
                stream
            })
            .collect();
        for _ in 0..3 {
            assert_eq!(server.status(&get("/health")), 200);
            assert_eq!(server.status(&get("/ready")), 200);
            let (status, body) = server.ask(&call(&token, "(+ 40 2)"));
            assert!(
                status == 200 && body.contains("user=> 42"),
                "{status} {body}"
            );
            assert_eq!(server.status(&call("", "1")), 401);
        }
        drop(held);
        wait_until("places are free again", || {
            server.status(&call(&token, "1")) == 200
        });
    }
}

#[test]
fn long_arguments_hold_up_no_other_request() {
    let server = Server::start(&["--http-disable-auth"]);
    let context = format!("{{\"c\":[{}1]}}", "{\"a\":[]},".repeat(800_000));
    let request = call("", "1");
    // The context comes before the program, which is written in quotes.
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let body = body.replace(
        r#""program":"#,
        &format!(r#""context":{context},"program":"#),
    );
    let length = head.rfind("Content-Length").unwrap();
    let long = format!(
        "{}Content-Length: {}\r\n\r\n{body}",
        &head[..length],
        body.len()
    );
    let clients = 2 * std::thread::available_parallelism().map_or(2, |places| places.get());
    let mut health = server.connect();
    let answered = Arc::new(AtomicUsize::new(0));
    let posts: Vec<_> = (0..clients)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(long.as_bytes()).unwrap();
            let answered = answered.clone();
            std::thread::spawn(move || {
                let (status, body) = answer(&mut stream);
                answered.fetch_add(1, Ordering::SeqCst);
                assert!(
                    body.contains("exceeds max_context_bytes"),
                    "{status} {body}"
                );
            })
        })
        .collect();
    health.write_all(get("/health").as_bytes()).unwrap();
    assert_eq!(answer(&mut health).0, 200);
    let before = answered.load(Ordering::SeqCst);
    for post in posts {
        post.join().unwrap();
    }
    // Each post takes hundreds of times as long as the question, and half of them wait for the others.
    assert!(
        before <= clients / 2,
        "answered after {before} of {clients} posts"
    );
}

#[test]
fn reserved_connections_without_token_serve_only_health() {
    let server = Server::start(&["--http-max-connections-per-address=2"]);
    let held: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    wait_until("both places are taken", || {
        server.status(&call("", "1")) == 503
    });
    assert_eq!(server.status(&get("/health")), 200);
    drop(held);
    wait_until("places are free again", || {
        server.status(&call("", "1")) == 200
    });
}

#[test]
fn client_that_never_reads_is_disconnected() {
    let server = Server::start(&["--http-write-timeout-ms=300"]);
    let mut deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let requests = get("/health").repeat(1000);
    let deadline = Instant::now() + PATIENCE;
    let given_up = loop {
        match deaf.write(requests.as_bytes()) {
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(_) => break true,
        }
        if Instant::now() > deadline {
            break false;
        }
    };
    assert!(given_up, "the server still waits for its client");
}

#[test]
fn unfinished_bodies_share_one_memory_limit() {
    const BODY: usize = 1 << 20;
    let flags = [
        "--http-max-body-bytes=1048576",
        "--http-max-unfinished-body-bytes=4194304",
    ];
    let server = Server::start(&flags);
    assert_eq!(server.status(&call("", "1")), 200);
    let before = server.resident_bytes();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
    );
    let part = "x".repeat(BODY - 1);
    let mut held: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = server.connect();
            let sent = stream.write_all(head.as_bytes());
            // Refused connections are closed.
            let _refused = sent.and_then(|()| stream.write_all(part.as_bytes()));
            stream
        })
        .collect();
    let refused = held.iter_mut().skip(8).filter_map(|stream| {
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut first = [0; 12];
        let reset = stream
            .read_exact(&mut first)
            .is_err_and(|error| !is_late(&error));
        (reset || first == *b"HTTP/1.1 503").then_some(())
    });
    assert!(refused.count() > 20);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 24 << 20,
        "40 MiB of bodies made the server grow by {grown} bytes"
    );
    drop(held);
    wait_until("there is room again", || {
        server.status(&call("", "1")) == 200
    });
}

#[test]
fn announced_content_length_takes_no_memory() {
    let server = Server::start(&["--http-max-connections-per-address=1000"]);
    assert_eq!(server.status(&call("", "1")), 200);
    let before = server.resident_bytes();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\n{";
    let held: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.status(&call("", "1")), 200);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 16 << 20,
        "150 announcements made the server grow by {grown} bytes"
    );
    drop(held);
}

#[test]
fn memory_of_many_connections_is_returned() {
    let server = Server::start(&["--http-max-connections-per-address=1000"]);
    assert_eq!(server.status(&call("", "1")), 200);
    let before = server.resident_bytes();
    let grown = || server.resident_bytes().saturating_sub(before);
    let head = format!("GET /mcp HTTP/1.1\r\nX-Long: {}", "x".repeat(40_000));
    let held: Vec<TcpStream> = (0..600)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    wait_until("600 heads are held", || grown() > 20 << 20);
    drop(held);
    wait_until("their memory is back", || grown() < 6 << 20);
    assert_eq!(server.status(&call("", "1")), 200);
}

#[test]
fn token_is_checked_before_the_body() {
    let server = Server::start(&[
        "--http-auth-token",
        TOKEN,
        "--http-request-timeout-ms=60000",
    ]);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    assert_eq!(server.status(head), 401);
    // A refusal reaches a client that keeps sending.
    let mut eager = server.connect();
    let _refused = eager.write_all(format!("{head}{}", "x".repeat(500_000)).as_bytes());
    assert_eq!(answer(&mut eager).0, 401);
}

#[test]
fn disconnected_client_with_pipelined_requests_frees_its_place() {
    let server = Server::start(&["--max-concurrent-calls=1", "--program-timeout-ms=60000"]);
    let busy = || server.ask(&call("", "1")).1.contains("busy: ");
    // The client's disconnect arrives after the data that it sent ahead, as far as the sockets buffer that.
    for ahead in [0, 1, 1_000] {
        let mut client = loop {
            let mut client = server.connect();
            client.write_all(call("", ENDLESS).as_bytes()).unwrap();
            client.set_nonblocking(true).unwrap();
            // The call may arrive while the probe for a free place occupies that place, and is then refused.
            let refused = || client.peek(&mut [0]).is_ok();
            wait_until("the program runs, or is refused", || busy() || refused());
            if !refused() {
                break client;
            }
        };
        client.set_nonblocking(false).unwrap();
        client
            .write_all(get("/health").repeat(ahead).as_bytes())
            .unwrap();
        drop(client);
        wait_until("the place is free", || !busy());
    }
}
