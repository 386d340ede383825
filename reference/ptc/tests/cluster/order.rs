//! A client's operation on one server has taken effect when the client asks another server, though servers notify each other late.

use super::faults::FaultyProxy;
use super::*;

/// How late one of the servers is notified. Others wait for it for two seconds, in which it also has to ask the store.
const LATE_MS: u64 = 200;

/// Servers with one store; the first one has a slow connection to it.
struct DelayedCluster {
    far: Node,
    near: [Node; 2],
    wire: FaultyProxy,
    store: Store,
    _directory: tempfile::TempDir,
}

impl DelayedCluster {
    /// Starts them where Redis is installed: a directory sends no notifications.
    fn start() -> Option<DelayedCluster> {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::redis(directory.path())?;
        let Store::Redis { port, .. } = &store else {
            return None;
        };
        let wire = FaultyProxy::to(*port);
        let flags = ["--program-timeout-ms", "20000", "--http-metrics"];
        Some(DelayedCluster {
            far: Node::start(&wire.url(), &flags, &[]),
            near: [(); 2].map(|()| Node::start(&store.url(), &flags, &[])),
            wire,
            store,
            _directory: directory,
        })
    }

    /// The same with late notifications to the first server.
    fn start_slow() -> Option<DelayedCluster> {
        let nodes = DelayedCluster::start()?;
        nodes.wire.slow(LATE_MS);
        Some(nodes)
    }

    /// Has the far server ask the store, which processes the request but holds the answer back until the far server is notified of
    /// `meanwhile`. Returns both results.
    fn overtake<A: Send, B: Send>(
        &self,
        ask: impl FnOnce() -> A + Send,
        meanwhile: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.wire.hold_answers();
        std::thread::scope(|scope| {
            let asks = scope.spawn(ask);
            wait_until("the question", || self.wire.is_awaited());
            let heard = self.wire.messages_delivered();
            let overtakes = scope.spawn(meanwhile);
            wait_until("what is told", || self.wire.messages_delivered() > heard);
            self.wire.release();
            let overtaken = overtakes.join().unwrap();
            (asks.join().unwrap(), overtaken)
        })
    }

    /// Running calls on the far server.
    fn in_flight(&self) -> u64 {
        let stream = TcpStream::connect(self.far.address).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        (&stream).write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        (&stream).read_to_string(&mut answer).unwrap();
        let gauge = answer
            .lines()
            .find_map(|line| line.strip_prefix("ptc_lisp_calls_in_flight "));
        gauge.and_then(|number| number.parse().ok()).unwrap()
    }
}

fn frame(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A client with a protocol session.
struct Client(Option<String>);

impl Client {
    fn open(node: &Node) -> Client {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let body = frame(1, "initialize", &params);
        Client(request_in_protocol_session(node.address, None, "POST", &body).1)
    }

    fn send(&self, node: &Node, method: &str, body: &str) -> (u16, Value) {
        let (status, _, reply) =
            request_in_protocol_session(node.address, self.0.as_deref(), method, body);
        (status, reply)
    }

    fn call(&self, node: &Node, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": format!("lisp_{tool}"), "arguments": arguments});
        self.send(node, "POST", &frame(id, "tools/call", &params)).1
    }

    /// Starts a new program session.
    fn start(&self, node: &Node) -> Value {
        let started = self.call(node, 1, "session_start", json!({}));
        started["result"]["structuredContent"]["session_id"].clone()
    }

    fn turn(&self, node: &Node, id: u64, session: &Value, program: &str) -> String {
        let arguments = json!({"session_id": session, "program": program});
        self.call(node, id, "session_eval", arguments).to_string()
    }
}

const ENDLESS: &str = "(loop [i 0] (recur (inc i)))";

fn cancel_of(id: u64) -> String {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

#[test]
fn cancel_on_another_server_frees_the_session() {
    let Some(nodes) = DelayedCluster::start_slow() else {
        return;
    };
    let [here, next] = &nodes.near;
    let client = Client::open(here);
    let session = client.start(here);
    for id in 3..6 {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| client.turn(&nodes.far, id, &session, ENDLESS));
            wait_until("the turn", || nodes.in_flight() == 1);
            assert_eq!(client.send(here, "POST", &cancel_of(id)).0, 202);
            let reply = client.turn(next, 1001, &session, "(+ 40 2)");
            assert!(reply.contains("user=> 42"), "{reply}");
            let reply = running.join().unwrap();
            assert!(reply.contains("cancelled"), "{reply}");
        });
    }
    // An unknown id is no reason to wait for long.
    assert_eq!(client.send(here, "POST", &cancel_of(999)).0, 202);
}

#[test]
fn ending_a_session_elsewhere_stops_its_program() {
    let Some(nodes) = DelayedCluster::start_slow() else {
        return;
    };
    let [here, _] = &nodes.near;
    std::thread::scope(|scope| {
        let client = Client::open(here);
        let endless = json!({"program": ENDLESS});
        let running = scope.spawn({
            let (client, far) = (Client(client.0.clone()), &nodes.far);
            move || client.call(far, 2, "eval", endless)
        });
        wait_until("the call", || nodes.in_flight() == 1);
        assert_eq!(client.send(here, "DELETE", "").0, 202);
        assert_eq!(nodes.in_flight(), 0, "after a DELETE");
        let reply = running.join().unwrap().to_string();
        assert!(reply.contains("cancelled"), "{reply}");
    });
    let session = here.new_session();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| nodes.far.eval(&session, ENDLESS));
        wait_until("the turn", || nodes.in_flight() == 1);
        here.call("session_close", &json!({"session_id": session}))
            .unwrap();
        assert_eq!(nodes.in_flight(), 0, "after a closing");
        let reply = running.join().unwrap().to_string();
        assert!(reply.contains("cancelled"), "{reply}");
    });
}

#[test]
fn cancel_that_overtakes_its_lease_is_not_lost() {
    let Some(nodes) = DelayedCluster::start() else {
        return;
    };
    let [here, next] = &nodes.near;
    let client = Client::open(here);
    let session = client.start(here);
    // The far server looks up the protocol session, which it has never seen; then the lease.
    for id in 3..6 {
        let (reply, (status, _)) = nodes.overtake(
            || client.turn(&nodes.far, id, &session, ENDLESS),
            || client.send(here, "POST", &cancel_of(id)),
        );
        assert!(reply.contains("cancelled"), "{reply}");
        assert_eq!((status, nodes.in_flight()), (202, 0));
        let reply = client.turn(next, 1001, &session, "(+ 40 2)");
        assert!(reply.contains("user=> 42"), "{reply}");
    }
    // A call outside of sessions, with an id that was cancelled before.
    let endless = json!({"program": ENDLESS});
    let (reply, _) = nodes.overtake(
        || client.call(&nodes.far, 3, "eval", endless),
        || client.send(here, "POST", &cancel_of(3)),
    );
    assert!(reply.to_string().contains("cancelled"), "{reply}");
    let reply = client.turn(&nodes.far, 3, &session, "(+ 40 2)");
    assert!(reply.contains("user=> 42"), "{reply}");
}

#[test]
fn end_that_overtakes_a_session_or_lease_is_not_lost() {
    let Some(nodes) = DelayedCluster::start() else {
        return;
    };
    let [here, next] = &nodes.near;
    for is_known in [false, true] {
        for is_turn in [false, true] {
            let client = Client::open(here);
            let session = client.start(here);
            if is_known {
                client.turn(&nodes.far, 2, &session, "1");
            }
            let (tool, arguments) = match is_turn {
                true => (
                    "lisp_session_eval",
                    json!({"session_id": session, "program": ENDLESS}),
                ),
                false => ("lisp_eval", json!({"program": ENDLESS})),
            };
            let call = frame(
                3,
                "tools/call",
                &json!({"name": tool, "arguments": arguments}),
            );
            let ((known, reply), (status, _)) = nodes.overtake(
                || client.send(&nodes.far, "POST", &call),
                || client.send(here, "DELETE", ""),
            );
            // The session is unknown, its calls are cancelled, or it accepts no more calls.
            let reply = reply.to_string();
            let over = ["cancelled", "shutting_down", "session_closed"];
            let over = known == 404 || over.iter().any(|word| reply.contains(word));
            assert!(over, "{known}: {reply}");
            assert_eq!((status, nodes.in_flight()), (202, 0));
            let (status, _) = client.send(&nodes.far, "POST", &frame(4, "ping", &json!({})));
            assert_eq!(status, 404);
        }
    }
    // Program sessions, which are independent of protocol sessions.
    for from in [here, next] {
        let session = here.new_session();
        let (reply, closed) = nodes.overtake(
            || nodes.far.eval(&session, ENDLESS),
            || from.call("session_close", &json!({"session_id": session})),
        );
        assert_eq!(closed.unwrap()["closed"], json!(true));
        let reply = reply.to_string();
        assert!(reply.contains("cancelled"), "{reply}");
        assert_eq!(nodes.in_flight(), 0);
    }
}

#[test]
fn end_of_a_call_during_a_directory_lock_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file:{}", directory.path().display());
    let node = Node::start(&url, &["--program-timeout-ms", "20000"], &[]);
    for end in ["cancelled", "closed", "DELETE"] {
        // A server waits one second for a lock: on a busy machine that may end before both calls wait for it.
        let overtaken = (0..30).any(|_| ends_while_locked(&node, directory.path(), end));
        assert!(overtaken, "no call was {end} while it waited for a lock");
    }
}

/// Ends a call while it waits for a lock; false when the call was refused before it was ended.
fn ends_while_locked(node: &Node, directory: &Path, end: &str) -> bool {
    let client = Client::open(node);
    let session = client.start(node);
    let locks = locks_below(directory);
    assert!(!locks.is_empty());
    locks.iter().for_each(|lock| lock.lock().unwrap());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| client.turn(node, 3, &session, ENDLESS));
        wait_until("the call", || {
            waiting_for_locks(node) >= 1 || running.is_finished()
        });
        let ended = scope.spawn(|| match end {
            "cancelled" => client.send(node, "POST", &cancel_of(3)),
            "DELETE" => client.send(node, "DELETE", ""),
            _ => {
                let closed = client.call(node, 4, "session_close", json!({"session_id": session}));
                (202, closed)
            }
        });
        wait_until("its end", || {
            waiting_for_locks(node) >= 2 || running.is_finished() || ended.is_finished()
        });
        locks.iter().for_each(|lock| lock.unlock().unwrap());
        let (status, answer) = ended.join().unwrap();
        let reply = running.join().unwrap();
        let away = |text: &str| text.contains("session_store_unavailable");
        if status != 202 || away(&reply) || away(&answer.to_string()) {
            return false;
        }
        assert!(!reply.contains("timeout"), "{reply}");
        if end == "cancelled" {
            assert!(reply.contains("cancelled"), "{reply}");
            let reply = client.turn(node, 5, &session, "(+ 40 2)");
            assert!(reply.contains("user=> 42"), "{reply}");
        }
        true
    })
}

fn locks_below(path: &Path) -> Vec<std::fs::File> {
    let below = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let (directories, files): (Vec<_>, Vec<_>) =
        below(path).into_iter().partition(|path| path.is_dir());
    let nested = directories.iter().flat_map(|path| locks_below(path));
    let own = files
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name == "lock"))
        .map(|path| std::fs::File::open(path).unwrap());
    own.chain(nested).collect()
}

/// How many lock files the server has open.
fn waiting_for_locks(node: &Node) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", node.process.id())).unwrap();
    open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .filter(|path| path.file_name().is_some_and(|name| name == "lock"))
        .count()
}

#[test]
fn early_end_of_a_stdio_call_is_not_lost() {
    let Some(nodes) = DelayedCluster::start() else {
        return;
    };
    let flags = ["--sessions", "--max-concurrent-calls", "1"];
    let mut far = Stdio::start(&nodes.wire.url(), &flags);
    let mut near = Stdio::start(&nodes.store.url(), &flags);
    let started = near.call(1, "session_start", json!({}));
    let session = started["result"]["structuredContent"]["session_id"].clone();
    let turn = |id: u64, program: &str| {
        let arguments = json!({"session_id": session, "program": program});
        frame(
            id,
            "tools/call",
            &json!({"name": "lisp_session_eval", "arguments": arguments}),
        )
    };
    nodes.wire.hold_answers();
    far.write(&turn(2, ENDLESS));
    wait_until("the question", || nodes.wire.is_awaited());
    far.write(&cancel_of(2));
    nodes.wire.release();
    // Over stdio a cancelled call is not answered; it frees its place and the session for the next call.
    far.write(&turn(3, "(+ 40 2)"));
    let reply = far.read();
    assert_eq!(reply["id"], json!(3), "{reply}");
    assert!(reply.to_string().contains("user=> 42"), "{reply}");
    let close = json!({"session_id": session});
    let (_, closed) = nodes.overtake(
        || far.write(&turn(4, ENDLESS)),
        || near.call(2, "session_close", close),
    );
    assert!(closed.to_string().contains(r#""closed":true"#), "{closed}");
    // A close on another server arrives as a notification: the call then frees its place without an answer.
    wait_until("its place", || {
        let reply = far.call(5, "eval", json!({"program": "(+ 40 2)"}));
        assert_eq!(reply["id"], json!(5), "{reply}");
        let reply = reply.to_string();
        assert!(
            reply.contains("user=> 42") || reply.contains("busy"),
            "{reply}"
        );
        reply.contains("user=> 42")
    });
}

/// A server over its standard streams.
struct Stdio {
    process: Process,
    replies: std::io::BufReader<std::process::ChildStdout>,
}

impl Stdio {
    fn start(store: &str, flags: &[&str]) -> Stdio {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptc"));
        command.args(["start", "--program-timeout-ms", "20000", "--session-store"]);
        let (child, replies) = support::spawn_piped(command.arg(store).args(flags));
        Stdio {
            process: Process(child),
            replies,
        }
    }

    fn write(&mut self, frame: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{frame}").unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.replies, &mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": format!("lisp_{tool}"), "arguments": arguments});
        self.write(&frame(id, "tools/call", &params));
        self.read()
    }
}
