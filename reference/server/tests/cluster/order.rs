//! What a client did on one server is done when it asks the next one, though servers hear of each other late.

use super::faults::Wire;
use super::*;

/// How late one of the servers hears. It is waited for for two seconds, in which it has to ask the store, too.
const LATE_MS: u64 = 200;

/// Servers of one store. The first one hears of the others late.
struct Late {
    far: Node,
    near: [Node; 2],
    _wire: Wire,
}

impl Late {
    fn start(store: &Store) -> Late {
        let Store::Redis { port, .. } = store else {
            panic!("nobody is told anything by a directory")
        };
        let wire = Wire::to(*port);
        let flags = ["--program-timeout-ms", "20000", "--http-metrics"];
        let far = Node::start(&wire.url(), &flags, &[]);
        wire.slow(LATE_MS);
        Late {
            far,
            near: [(); 2].map(|()| Node::start(&store.url(), &flags, &[])),
            _wire: wire,
        }
    }

    /// Calls that run on the server that hears late.
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

/// A session of the protocol.
struct Client(Option<String>);

impl Client {
    fn open(node: &Node) -> Client {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let body = frame(1, "initialize", &params);
        Client(in_protocol(node.address, None, "POST", &body).1)
    }

    fn send(&self, node: &Node, method: &str, body: &str) -> (u16, Value) {
        let (status, _, reply) = in_protocol(node.address, self.0.as_deref(), method, body);
        (status, reply)
    }

    fn call(&self, node: &Node, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": format!("lisp_{tool}"), "arguments": arguments});
        self.send(node, "POST", &frame(id, "tools/call", &params)).1
    }
}

const ENDLESS: &str = "(loop [i 0] (recur (inc i)))";

fn store(directory: &tempfile::TempDir) -> Option<Store> {
    Store::redis(directory.path())
}

#[test]
fn a_session_is_free_once_its_program_was_cancelled_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = store(&directory) else {
        return;
    };
    let nodes = Late::start(&store);
    let [here, next] = &nodes.near;
    let client = Client::open(here);
    let started = client.call(here, 2, "session_start", json!({}));
    let session = &started["result"]["structuredContent"]["session_id"];
    for id in 3..6 {
        std::thread::scope(|scope| {
            let endless = json!({"session_id": session, "program": ENDLESS});
            let running = scope.spawn(|| client.call(&nodes.far, id, "session_eval", endless));
            until("the turn", || nodes.in_flight() == 1);
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            assert_eq!(client.send(here, "POST", &cancel.to_string()).0, 202);
            let turn = json!({"session_id": session, "program": "(+ 40 2)"});
            let reply = client.call(next, 1001, "session_eval", turn).to_string();
            assert!(reply.contains("user=> 42"), "{reply}");
            let reply = running.join().unwrap().to_string();
            assert!(reply.contains("cancelled"), "{reply}");
        });
    }
    // What nobody knows is no reason to wait for long.
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}"#;
    assert_eq!(client.send(here, "POST", cancel).0, 202);
}

#[test]
fn nothing_runs_any_more_once_its_session_was_ended_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = store(&directory) else {
        return;
    };
    let nodes = Late::start(&store);
    let [here, _] = &nodes.near;
    std::thread::scope(|scope| {
        let client = Client::open(here);
        let endless = json!({"program": ENDLESS});
        let running = scope.spawn({
            let (client, far) = (Client(client.0.clone()), &nodes.far);
            move || client.call(far, 2, "eval", endless)
        });
        until("the call", || nodes.in_flight() == 1);
        assert_eq!(client.send(here, "DELETE", "").0, 202);
        assert_eq!(nodes.in_flight(), 0, "after a DELETE");
        let reply = running.join().unwrap().to_string();
        assert!(reply.contains("cancelled"), "{reply}");
    });
    let session = here.new_session();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| nodes.far.eval(&session, ENDLESS));
        until("the turn", || nodes.in_flight() == 1);
        here.call("session_close", &json!({"session_id": session}))
            .unwrap();
        assert_eq!(nodes.in_flight(), 0, "after a closing");
        let reply = running.join().unwrap().to_string();
        assert!(reply.contains("cancelled"), "{reply}");
    });
}
