//! Faults between a server and its store or its clients: a wire that is held or cut, servers that are restarted one after the
//! other.

use super::*;
use std::net::Shutdown;
use std::sync::atomic::AtomicU64;

/// A port that forwards to another one, until it is held: then data waits, and arrives late.
pub struct FaultyProxy {
    port: u16,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    held: Mutex<HeldTraffic>,
    /// The delay of answers in milliseconds.
    slow_ms: AtomicU64,
    /// The number of answers held back.
    waiting: AtomicUsize,
    /// The number of messages, or parts of them, that reached subscribers.
    heard: AtomicUsize,
    /// The number of cuts: a connection older than the last cut ends.
    cuts: AtomicU64,
    over: AtomicBool,
}

/// What is held back.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HeldTraffic {
    #[default]
    Nothing,
    All,
    /// Requests, but not answers.
    Requests,
    /// Answers, but not messages to subscribers.
    Answers,
}

/// The interval at which a connection checks for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl FaultyProxy {
    pub fn to(target: u16) -> FaultyProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let wire = FaultyProxy {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
        };
        let state = wire.state.clone();
        std::thread::spawn(move || {
            while !state.over.load(Ordering::Acquire) {
                let Ok((near, _)) = listener.accept() else {
                    std::thread::sleep(POLL_INTERVAL);
                    continue;
                };
                let state = state.clone();
                std::thread::spawn(move || state.serve(near, target));
            }
        });
        wire
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on answers and messages are delayed by `ms`.
    pub fn slow(&self, ms: u64) {
        self.state.slow_ms.store(ms, Ordering::Release);
    }

    /// From now on nothing arrives, in either direction.
    pub fn hold(&self) {
        self.state.hold(HeldTraffic::All);
    }

    /// From now on no request arrives; earlier requests are answered.
    fn hold_requests(&self) {
        self.state.hold(HeldTraffic::Requests);
    }

    /// From now on requests are processed but not answered; messages to subscribers arrive.
    pub fn hold_answers(&self) {
        self.state.waiting.store(0, Ordering::Release);
        self.state.hold(HeldTraffic::Answers);
    }

    /// Whether an answer is held back.
    pub fn is_awaited(&self) -> bool {
        self.state.waiting.load(Ordering::Acquire) > 0
    }

    /// How much reached subscribers.
    pub fn messages_delivered(&self) -> usize {
        self.state.heard.load(Ordering::Acquire)
    }

    /// Delivers what was held.
    pub fn release(&self) {
        self.state.hold(HeldTraffic::Nothing);
    }

    pub fn hold_for(&self, time: Duration) {
        self.hold();
        std::thread::sleep(time);
        self.release();
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.state.cuts.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Release);
        self.cut();
    }
}

struct ProxiedConnection {
    /// The number of cuts before it.
    cuts: u64,
    /// Whether it subscribed to messages.
    listens: AtomicBool,
}

impl ProxyState {
    fn serve(self: Arc<Self>, near: TcpStream, target: u16) {
        let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else {
            return;
        };
        near.set_nonblocking(false).unwrap();
        let (near_end, far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let led = Arc::new(ProxiedConnection {
            cuts: self.cuts.load(Ordering::Acquire),
            listens: AtomicBool::new(false),
        });
        let (state, answered) = (self.clone(), led.clone());
        let back = std::thread::spawn(move || state.forward(far_end, near_end, &answered, true));
        self.forward(near, far, &led, false);
        let _ = back.join();
    }

    fn hold(&self, held: HeldTraffic) {
        *self.held.lock().unwrap() = held;
    }

    fn holds(&self, led: &ProxiedConnection, answers: bool) -> bool {
        match *self.held.lock().unwrap() {
            HeldTraffic::Nothing => false,
            HeldTraffic::All => true,
            HeldTraffic::Requests => !answers,
            HeldTraffic::Answers => answers && !led.listens.load(Ordering::Acquire),
        }
    }

    fn forward(
        &self,
        mut from: TcpStream,
        mut to: TcpStream,
        led: &ProxiedConnection,
        answers: bool,
    ) {
        from.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        let mut bytes = [0; 16 << 10];
        let is_cut = || self.cuts.load(Ordering::Acquire) != led.cuts;
        while !is_cut() {
            let count = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            let said = &bytes[..count];
            if !answers && said.windows(9).any(|word| word == b"SUBSCRIBE") {
                led.listens.store(true, Ordering::Release);
            }
            if answers && self.holds(led, answers) {
                self.waiting.fetch_add(1, Ordering::AcqRel);
            }
            while self.holds(led, answers) && !is_cut() {
                std::thread::sleep(POLL_INTERVAL);
            }
            if answers {
                let late = self.slow_ms.load(Ordering::Acquire);
                std::thread::sleep(Duration::from_millis(late));
            }
            if to.write_all(said).is_err() {
                break;
            }
            if answers && led.listens.load(Ordering::Acquire) {
                self.heard.fetch_add(1, Ordering::AcqRel);
            }
        }
        // Data received before the end is delivered.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}

#[test]
fn commit_that_arrives_late_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let Store::Redis { port, .. } = &store else {
        return;
    };
    let wire = FaultyProxy::to(*port);
    let environment = [
        ("PTC_CHECKS_LEASE_MS", "6000"),
        ("PTC_CHECKS_SLOW_COMMITS_MS", "4000"),
    ];
    let flags = ["--program-timeout-ms", "20000"];
    let far = Node::start(&wire.url(), &flags, &environment);
    let near = Node::start(&store.url(), &[], &[]);
    let session = near.new_session();
    near.eval(&session, "(def n 0)");
    let (address, running) = (far.address, session.clone());
    let turn = std::thread::spawn(move || {
        let program = json!({"session_id": running, "program": "(do (def n (inc n)) n)"});
        call(address, "session_eval", &program).unwrap()
    });
    wait_until("the turn", || near.is_running(&session));
    // The lease was taken, and the wire is held before the commit; its node gives up after two seconds, and its lease ends.
    wire.hold_requests();
    let lost = turn.join().unwrap();
    assert_eq!(lost["reason"], json!("session_store_unavailable"), "{lost}");
    let words = lost["text"].as_str().unwrap_or_default();
    assert!(words.contains("is not known"), "{lost}");
    // That node refuses sessions; everything else works.
    let refused = far.eval(&session, "n");
    assert_eq!(refused["reason"], json!("session_store_unavailable"));
    let alone = far.call("eval", &json!({"program": "(+ 1 2)"})).unwrap();
    assert_eq!(alone["text"], shown("3"));
    wait_until("the lease", || {
        near.eval(&session, "(do (def n (+ n 10)) n)")["text"] == shown("10")
    });
    // Now the commit arrives, with an outdated fencing token.
    wire.release();
    wait_until("the store", || {
        far.eval(&session, "n")["text"] == shown("10")
    });
    assert_eq!(near.eval(&session, "n")["text"], shown("10"));
}

/// HAProxy in front of the servers, configured by `dist/cluster/haproxy.cfg`.
fn haproxy(directory: &Path, servers: &[SocketAddr]) -> Option<(Process, SocketAddr)> {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/dist/cluster/haproxy.cfg"),
    )
    .unwrap();
    let (before, after) = text.split_once("    server-template").unwrap();
    let (_, rest) = after.split_once("\n\n").unwrap();
    assert!(rest.starts_with("resolvers docker"), "{rest}");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let servers: String = servers
        .iter()
        .enumerate()
        .map(|(at, server)| format!("    server ptc{at} {server}\n"))
        .collect();
    let before = before.replace("bind :7332", &format!("bind {address}"));
    let config = directory.join("haproxy.cfg");
    std::fs::write(&config, format!("{before}{servers}")).unwrap();
    let child = Command::new("haproxy")
        .args(["-db", "-q", "-f"])
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .inspect_err(|error| eprintln!("skipped: haproxy is not installed here: {error}"))
        .ok()?;
    let proxy = Process(child);
    wait_until("haproxy", || TcpStream::connect(address).is_ok());
    Some((proxy, address))
}

#[test]
fn rolling_restart_fails_no_call() {
    use nix::sys::signal::Signal;
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let url = store.url();
    const LABEL: &str = "PTC_RUNNER_MCP_HTTP_INSTANCE_LABEL";
    let labels = ["a", "b", "c"];
    let flags = ["--http-shutdown-delay-ms", "5000"];
    let mut nodes = labels.map(|label| Node::start(&url, &flags, &[(LABEL, label)]));
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let Some((_proxy, address)) = haproxy(directory.path(), &addresses) else {
        return;
    };
    // Waits until the proxy forwards requests to this server.
    let serves = |label: &str| {
        wait_until("a server behind the proxy", || {
            request(address, "GET /ready HTTP/1.1", "")
                .is_ok_and(|(_, reply)| reply["instance"] == json!(label))
        });
    };
    labels.iter().for_each(|label| serves(label));
    let started = call(address, "session_start", &json!({})).unwrap();
    let session = started["session_id"].as_str().unwrap().to_owned();
    let define = json!({"session_id": session, "program": "(def n 0)"});
    call(address, "session_eval", &define).unwrap();
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // One client counts in the session, each turn once; others evaluate.
        let counting = scope.spawn(|| {
            let add = json!({"session_id": session, "program": "(do (def n (inc n)) n)"});
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                let reply = call(address, "session_eval", &add).unwrap();
                count += 1;
                assert_eq!(reply["text"], shown(&count.to_string()), "{reply}");
                asked.fetch_add(1, Ordering::AcqRel);
            }
            count
        });
        let others: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        let reply = call(address, "eval", &json!({"program": "(+ 1 2)"})).unwrap();
                        assert_eq!(reply["text"], shown("3"), "{reply}");
                        asked.fetch_add(1, Ordering::AcqRel);
                    }
                })
            })
            .collect();
        let progress = |what: &str, count: usize| {
            let before = asked.load(Ordering::Acquire);
            wait_until(what, || {
                let failed = counting.is_finished() || others.iter().any(|it| it.is_finished());
                failed || asked.load(Ordering::Acquire) >= before + count
            });
        };
        for (node, label) in nodes.iter_mut().zip(labels) {
            progress("the calls before", 20);
            node.process.signal(Signal::SIGTERM);
            wait_until("its end", || node.process.0.try_wait().unwrap().is_some());
            progress("the calls without it", 20);
            *node = Node::start_at(node.address, &url, &flags, &[(LABEL, label)]);
            // Like an orchestrator, waits for a replica before ending the next one.
            serves(label);
        }
        done.store(true, Ordering::Release);
        let count = counting.join().unwrap();
        assert!(count > 0);
        for other in others {
            other.join().unwrap();
        }
    });
    println!("{} calls, none failed", asked.into_inner());
}

#[test]
fn client_disconnect_behind_a_proxy_ends_its_call() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::Directory(directory.path().join("store"));
    let flags = ["--http-metrics", "--program-timeout-ms", "50000"];
    let node = Node::start(&store.url(), &flags, &[]);
    let Some((_proxy, address)) = haproxy(directory.path(), &[node.address]) else {
        return;
    };
    wait_until("a server behind the proxy", || {
        request(address, "GET /ready HTTP/1.1", "").is_ok_and(|(status, _)| status == 200)
    });
    let metrics = || {
        let mut stream = TcpStream::connect(node.address).unwrap();
        let host = node.address;
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let runs = |count: usize| metrics().contains(&format!("ptc_lisp_calls_in_flight {count}\n"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lisp_eval",
        "arguments": {"program": "(loop [i 0] (recur (inc i)))"},
        "_meta": {"io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let mut client = TcpStream::connect(address).unwrap();
    write!(
        client,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nMCP-Protocol-Version: {REVISION}\r\nMcp-Method: tools/call\r\nMcp-Name: lisp_eval\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    wait_until("the call", || runs(1));
    let since = Instant::now();
    drop(client);
    wait_until("its end", || runs(0));
    // Cancelled, not ended by its own time limit.
    assert!(since.elapsed() < Duration::from_secs(45));
}

#[test]
fn full_store_is_reported_and_its_sessions_stay_usable() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let [node, other] = [(); 2].map(|()| Node::start(&store.url(), &[], &[]));
    let [session, closed] = [node.new_session(), node.new_session()];
    node.eval(&session, "(def n 1)");
    let room = |bytes: &str| {
        let set = [b"CONFIG".as_slice(), b"SET", b"maxmemory", bytes.as_bytes()];
        assert_eq!(store.ask(&set).text(), "OK");
    };
    room("1");
    for node in [&node, &other] {
        let full = node.eval(&session, "(def n 2)");
        assert_eq!(full["reason"], json!("session_limit_exceeded"), "{full}");
        let words = full["text"].as_str().unwrap();
        assert!(words.contains("the session store is full"), "{full}");
        let full = node.call("session_start", &json!({})).unwrap();
        assert_eq!(full["reason"], json!("session_limit_exceeded"), "{full}");
        // The store is available, so the server stays ready.
        assert_eq!(node.request("GET /ready HTTP/1.1", "").unwrap().0, 200);
        let inspect = json!({"session_id": session});
        let inspected = node.call("session_inspect", &inspect).unwrap();
        assert_eq!(
            inspected["session"]["binding_count"],
            json!(1),
            "{inspected}"
        );
        assert_eq!(
            inspected["session"]["eval_status"],
            json!("idle"),
            "{inspected}"
        );
    }
    let close = json!({"session_id": closed});
    let reply = other.call("session_close", &close).unwrap();
    assert_eq!(reply["closed"], json!(true), "{reply}");
    room("0");
    assert_eq!(
        node.eval(&session, "(do (def n (inc n)) n)")["text"],
        shown("2")
    );
    assert_eq!(node.eval(&closed, "1")["reason"], json!("session_closed"));
}

#[test]
fn slow_store_delays_only_turns() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let Store::Redis { port, .. } = &store else {
        return;
    };
    let wire = FaultyProxy::to(*port);
    let node = Node::start(&wire.url(), &[], &[]);
    let sessions: Vec<String> = (0..8).map(|_| node.new_session()).collect();
    // Each answer arrives half a second late.
    wire.slow(500);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let turns: Vec<_> = sessions
            .iter()
            .map(|session| scope.spawn(|| node.eval(session, "(do (def n 1) n)")))
            .collect();
        let others = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !done.load(Ordering::Acquire) {
                let since = Instant::now();
                let reply = node.call("eval", &json!({"program": "(+ 1 2)"})).unwrap();
                assert_eq!(reply["text"], shown("3"));
                slowest = slowest.max(since.elapsed());
                std::thread::sleep(POLL_INTERVAL);
            }
            slowest
        });
        for turn in turns {
            let reply = turn.join().unwrap();
            assert_eq!(reply["text"], shown("1"), "{reply}");
        }
        done.store(true, Ordering::Release);
        // Eight turns would have to wait for sixteen answers if they were served one after the other.
        let slowest = others.join().unwrap();
        assert!(slowest < Duration::from_secs(6), "{slowest:?}");
    });
    assert_eq!(node.request("GET /ready HTTP/1.1", "").unwrap().0, 200);
}
