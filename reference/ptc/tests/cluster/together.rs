//! State that servers of one store share: failed logins, an owner's limits, a client's shutdown request, keys. And the cost of
//! sharing it.

use super::*;
use std::io::{BufRead, BufReader};

const TOKEN: &str = "token-of-the-owner-0123456789abcdef";

/// The status of a request with this token from this client.
fn login(node: &Node, token: &str, client: &str) -> u16 {
    let shown = match token {
        "" => String::new(),
        token => format!("\r\nAuthorization: Bearer {token}"),
    };
    let head = format!("POST /mcp HTTP/1.1\r\nX-Forwarded-For: {client}{shown}");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    node.request(&head, ping).unwrap().0
}

/// A Redis server has the same channels for all its databases.
#[test]
fn redis_databases_are_isolated() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let flags = [
        "--http-auth-token",
        TOKEN,
        "--http-auth-rate-limit-max-failures",
        "1",
        "--http-auth-rate-limit-block-ms",
        "600000",
        "--http-trusted-proxy",
        "127.0.0.1",
    ];
    let urls = ["", "/1", "/1", "/2"].map(|database| store.url() + database);
    let [first, second, beside, third] = urls.map(|url| Node::start(&url, &flags, &[]));
    let wrong = "x".repeat(32);
    for (node, client) in [
        (&first, "192.0.2.1"),
        (&second, "192.0.2.1"),
        (&third, "192.0.2.1"),
        (&third, "192.0.2.2"),
        (&second, "192.0.2.2"),
        (&first, "192.0.2.2"),
    ] {
        assert_eq!(login(node, &wrong, client), 401);
        assert_eq!(login(node, &wrong, client), 429);
    }
    // Servers of the same database are notified.
    assert_eq!(login(&beside, &wrong, "192.0.2.1"), 429);
}

#[test]
fn failed_logins_count_across_servers() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let flags = [
            "--http-auth-token",
            TOKEN,
            "--http-auth-rate-limit-max-failures",
            "4",
            "--http-auth-rate-limit-block-ms",
            "600000",
            "--http-auth-rate-limit-window-ms",
            "600000",
            "--http-trusted-proxy",
            "127.0.0.1",
        ];
        let url = store.url();
        let [first, second] = [(); 2].map(|()| Node::start(&url, &flags, &[]));
        let wrong = "x".repeat(32);
        for node in [&first, &second, &first, &second] {
            assert_eq!(login(node, &wrong, "192.0.2.1"), 401, "{url}");
        }
        for node in [&first, &second, &first] {
            assert_eq!(login(node, &wrong, "192.0.2.1"), 429, "{url}");
        }
        // Other clients are not blocked, the right token passes, but does not end a block.
        assert_eq!(login(&first, &wrong, "192.0.2.2"), 401);
        for node in [&first, &second] {
            assert_eq!(login(node, TOKEN, "192.0.2.1"), 400, "{url}");
            assert_eq!(login(node, &wrong, "192.0.2.1"), 429, "{url}");
        }
        if matches!(store, Store::Redis { .. }) {
            // A server that received no request knows it, too.
            let third = Node::start(&url, &flags, &[]);
            assert_eq!(login(&third, &wrong, "192.0.2.1"), 429);
            assert_eq!(login(&third, "", "192.0.2.1"), 429);
        }
        // A success clears the count on all servers.
        for node in [&first, &second, &second] {
            assert_eq!(login(node, &wrong, "192.0.2.3"), 401, "{url}");
        }
        assert_ne!(login(&second, TOKEN, "192.0.2.3"), 401);
        for node in [&first, &second, &first, &second] {
            assert_eq!(login(node, &wrong, "192.0.2.3"), 401, "{url}");
        }
        assert_eq!(login(&first, &wrong, "192.0.2.3"), 429, "{url}");
        if let Store::Redis { port, .. } = &store {
            // The others wait for a server that is notified late; a server that was not notified asks the store.
            let wire = faults::FaultyProxy::to(*port);
            let far = Node::start(&wire.url(), &flags, &[]);
            wire.slow(500);
            for source in ["192.0.2.5", "192.0.2.6"] {
                for node in [&first, &second, &first] {
                    assert_eq!(login(node, &wrong, source), 401, "{url}");
                }
                let forgets = match source {
                    "192.0.2.5" => &far,
                    _ => &Node::start(&url, &flags, &[]),
                };
                assert_ne!(login(forgets, TOKEN, source), 401);
                for node in [&first, &far, &second, &first] {
                    assert_eq!(login(node, &wrong, source), 401, "{url}");
                }
                assert_eq!(login(&second, &wrong, source), 429, "{url}");
            }
        }
        // Without the store each server counts on its own.
        if let Store::Redis { server, .. } = &store {
            let _ = server.lock().unwrap().0.kill();
            let blocked = (0..5).map(|_| login(&first, &wrong, "192.0.2.4"));
            assert_eq!(blocked.collect::<Vec<_>>(), [401, 401, 401, 401, 429]);
        }
    }
}

fn initialize(node: &Node) -> (u16, Option<String>) {
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let (status, id, _) =
        request_in_protocol_session(node.address, None, "POST", &initialize.to_string());
    (status, id)
}

#[test]
fn owner_limits_count_across_servers() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let flags = [
            "--max-sessions-per-owner",
            "1",
            "--http-max-sessions-per-owner",
            "1",
        ];
        let [first, second] = [(); 2].map(|()| Node::start(&store.url(), &flags, &[]));
        let session = first.new_session();
        let full = second.call("session_start", &json!({})).unwrap();
        assert_eq!(full["reason"], json!("session_limit_exceeded"), "{full}");
        second
            .call("session_close", &json!({"session_id": session}))
            .unwrap();
        first.new_session();
        let (status, id) = initialize(&first);
        assert_eq!((status, initialize(&second).0), (200, 429));
        request_in_protocol_session(second.address, id.as_deref(), "DELETE", "");
        assert_eq!(initialize(&second).0, 200);
    }
}

#[test]
fn session_shutdown_applies_to_every_server() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let start = || Node::start(&store.url(), &[], &[]);
        let (first, second) = (start(), start());
        let (_, id) = initialize(&first);
        let ask = |node: &Node, id: &Option<String>, method: &str, params: Value| {
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
            request_in_protocol_session(node.address, id.as_deref(), "POST", &body.to_string()).2
        };
        let eval = |node: &Node, id: &Option<String>| {
            let params = json!({"name": "lisp_eval", "arguments": {"program": "(+ 1 2)"}});
            ask(node, id, "tools/call", params).to_string()
        };
        assert!(eval(&first, &id).contains("user=> 3") && eval(&second, &id).contains("user=> 3"));
        let reply = ask(&second, &id, "shutdown", json!({}));
        assert_eq!(reply["result"], json!(null), "{reply}");
        for node in [&second, &first, &start()] {
            let reply = eval(node, &id);
            assert!(reply.contains("shutting_down"), "{reply}");
        }
        // Other sessions continue.
        let (_, other) = initialize(&first);
        let reply = eval(&second, &other);
        assert!(reply.contains("user=> 3"), "{reply}");
    }
}

#[test]
fn client_sessions_end_with_their_protocol_session() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let flags = [
            "--http-session-idle-timeout-ms",
            "3000",
            "--program-timeout-ms",
            "5000",
        ];
        let [first, second] = [(); 2].map(|()| Node::start(&store.url(), &flags, &[]));
        let (_, id) = initialize(&first);
        let call = |node: &Node, tool: &str, arguments: &Value| {
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
            request_in_protocol_session(node.address, id.as_deref(), "POST", &body.to_string())
        };
        let (_, _, started) = call(&first, "lisp_session_start", &json!({}));
        let session = &started["result"]["structuredContent"]["session_id"];
        // A call longer than the idle timeout.
        let endless = json!({"program": "(loop [i 0] (recur (inc i)))"});
        let (_, _, reply) = call(&second, "lisp_eval", &endless);
        assert!(reply.to_string().contains("timeout"), "{reply}");
        let eval = json!({"session_id": session, "program": "(+ 1 2)"});
        let (_, _, reply) = call(&first, "lisp_session_eval", &eval);
        assert!(reply.to_string().contains("user=> 3"), "{reply}");
        // A request in the session would count as use, so only `ptc session list` looks until it is over.
        let listed = || {
            let output = Command::new(env!("CARGO_BIN_EXE_ptc"))
                .args(["session", "list", "--session-store", &store.url()])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(listed().contains(session.as_str().unwrap()));
        wait_until("its end", || !listed().contains(session.as_str().unwrap()));
        assert_eq!(call(&second, "lisp_eval", &json!({"program": "1"})).0, 404);
    }
}

/// The requests to Redis while something happens, one line each, without the periodic requests of servers.
fn store_commands_during(store: &Store, happens: impl FnOnce()) -> Vec<String> {
    let Store::Redis { port, .. } = store else {
        panic!("it is asked nothing")
    };
    let stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    (&stream).write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    happens();
    store.ask(&[b"ECHO", b"that was all"]);
    let mut seen = Vec::new();
    for line in lines {
        let line = line.unwrap();
        if line.contains("that was all") {
            break;
        }
        // Requests at the beginning of a connection, and scripts that Redis does not know yet, occur only once.
        let once = ["CLIENT", "HELLO", "SELECT", "SCRIPT"];
        if once
            .iter()
            .any(|word| line.contains(&format!("] \"{word}\"")))
        {
            continue;
        }
        // Commands inside of scripts are no round trips.
        let swept = [r#""{ptc}:programs:" "1024""#, r#""{ptc}:protocol:" "1024""#];
        if !line.contains(" lua] ") && !swept.iter().any(|end| line.ends_with(end)) {
            seen.push(line);
        }
    }
    seen
}

#[test]
fn turn_costs_two_store_round_trips() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    const TURNS: usize = 5;
    let [first, second] = [(); 2].map(|()| Node::start(&store.url(), &[], &[]));
    let session = first.new_session();
    let turn = |node: &Node| {
        let reply = node.eval(&session, "(do (def n (inc (or n 0))) n)");
        assert_eq!(reply["status"], json!("ok"), "{reply}");
    };
    // Warm-up: connections are opened, and scripts are loaded.
    for node in [&first, &second] {
        turn(node);
    }
    let own = store_commands_during(&store, || (0..TURNS).for_each(|_| turn(&first)));
    assert_eq!(own.len(), 2 * TURNS, "{own:#?}");
    // The same when another server had the session before.
    let moved = store_commands_during(&store, || {
        (0..TURNS).for_each(|_| {
            turn(&second);
            turn(&first);
        });
    });
    assert_eq!(moved.len(), 4 * TURNS, "{moved:#?}");
    let none = store_commands_during(&store, || {
        for _ in 0..TURNS {
            let reply = first.call("eval", &json!({"program": "(+ 1 2)"})).unwrap();
            assert_eq!(reply["text"], shown("3"));
        }
    });
    assert_eq!(none, [""; 0]);
    // The same number in a protocol session: the script that takes the lease also checks that the session exists.
    let (_, id) = initialize(&first);
    let in_session = |program: &str, session: &Value| {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "lisp_session_eval", "arguments": {"session_id": session, "program": program}}});
        request_in_protocol_session(first.address, id.as_deref(), "POST", &body.to_string()).2
    };
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "lisp_session_start", "arguments": {}}});
    let started =
        request_in_protocol_session(first.address, id.as_deref(), "POST", &body.to_string()).2;
    let session = &started["result"]["structuredContent"]["session_id"];
    in_session("(def n 1)", session);
    let protocol = store_commands_during(&store, || {
        (0..TURNS).for_each(|_| {
            let reply = in_session("n", session);
            assert!(reply.to_string().contains("user=> 1"), "{reply}");
        });
    });
    assert_eq!(protocol.len(), 2 * TURNS, "{protocol:#?}");
    // A turn that does not begin costs no more.
    let refused = store_commands_during(&store, || {
        (0..TURNS).for_each(|_| {
            let reply = in_session("", session);
            assert!(reply.to_string().contains("args_error"), "{reply}");
            let reply = in_session("n", &json!("ptcs_none"));
            assert!(reply.to_string().contains("session_not_found"), "{reply}");
        });
    });
    assert_eq!(refused.len(), 3 * TURNS, "{refused:#?}");
}

/// A turn looks up its protocol session in the step that takes its lease: that must not change any answer.
#[test]
fn turn_sees_protocol_session_changes_of_other_servers() {
    let directory = tempfile::tempdir().unwrap();
    for store in Store::all(directory.path()) {
        let flags = ["--http-session-idle-timeout-ms", "4000"];
        let [first, second] = [(); 2].map(|()| Node::start(&store.url(), &flags, &[]));
        let call = |node: &Node, id: &Option<String>, tool: &str, arguments: Value| {
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
            let (status, _, reply) =
                request_in_protocol_session(node.address, id.as_deref(), "POST", &body.to_string());
            (status, reply.to_string())
        };
        let eval = |node: &Node, id: &Option<String>, session: &Value, program: &str| {
            let arguments = json!({"session_id": session, "program": program});
            call(node, id, "lisp_session_eval", arguments)
        };
        // A protocol session and a program session, known to both servers.
        let made = || {
            let (_, id) = initialize(&first);
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "lisp_session_start", "arguments": {}}});
            let (_, _, started) = request_in_protocol_session(
                first.address,
                id.as_deref(),
                "POST",
                &body.to_string(),
            );
            let session = started["result"]["structuredContent"]["session_id"].clone();
            for node in [&first, &second] {
                let (_, reply) = eval(node, &id, &session, "(def n 1)");
                assert!(reply.contains("\"isError\":false"), "{reply}");
            }
            (id, session)
        };
        let url = store.url();
        // The only requests are turns, and each counts as use.
        let (id, session) = made();
        for _ in 0..6 {
            std::thread::sleep(Duration::from_millis(1000));
            let (status, reply) = eval(&second, &id, &session, "n");
            assert_eq!(status, 200, "{url}: {reply}");
        }
        // When it is ended on one server, it is gone on the other, whatever the turn is.
        request_in_protocol_session(second.address, id.as_deref(), "DELETE", "");
        for program in ["n", ""] {
            assert_eq!(eval(&first, &id, &session, program).0, 404, "{url}");
        }
        // A client that requested shutdown on one server is refused on the other.
        for program in ["n", ""] {
            let (id, session) = made();
            let shutdown = json!({"jsonrpc": "2.0", "id": 3, "method": "shutdown"}).to_string();
            request_in_protocol_session(second.address, id.as_deref(), "POST", &shutdown);
            let (status, reply) = eval(&first, &id, &session, program);
            assert_eq!(status, 200, "{url}: {reply}");
            assert!(reply.contains("shutting_down"), "{url}: {reply}");
        }
        // A wrong revision is reported as such, and only when the session exists.
        let (id, session) = made();
        let old = format!(
            "{}\r\nMCP-Protocol-Version: 2025-11-25",
            id.as_deref().unwrap()
        );
        let (status, _) = eval(&first, &Some(old.clone()), &session, "n");
        assert_eq!(status, 400, "{url}");
        request_in_protocol_session(second.address, id.as_deref(), "DELETE", "");
        assert_eq!(eval(&first, &Some(old), &session, "n").0, 404, "{url}");
        // Another client's program session.
        let (id, _) = made();
        let (_, theirs) = made();
        let (_, reply) = eval(&second, &id, &theirs, "n");
        assert!(reply.contains("session_owner_mismatch"), "{url}: {reply}");
    }
}

#[test]
fn store_key_is_replaced_while_servers_run() {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["a", "b"].map(|digit| digit.repeat(64));
    let file = |name: &str, keys: &[&String]| {
        let path = directory.path().join(name);
        let lines: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [
        file("old", &[&old]),
        file("old-new", &[&old, &new]),
        file("new-old", &[&new, &old]),
        file("new", &[&new]),
    ];
    for store in Store::all(directory.path()) {
        let url = store.url();
        let start = |file: &str| Node::start(&url, &["--session-store-key-file", file], &[]);
        let before = start(&files[0]);
        let [session, unused] = [before.new_session(), before.new_session()];
        before.eval(&session, "(def n 1)");
        // First each server learns the new key, then each seals with it.
        let learnt = start(&files[1]);
        assert_eq!(
            learnt.eval(&session, "(do (def n (inc n)) n)")["text"],
            shown("2")
        );
        assert_eq!(before.eval(&session, "n")["text"], shown("2"));
        drop(before);
        let sealing = start(&files[2]);
        assert_eq!(
            sealing.eval(&session, "(do (def n (inc n)) n)")["text"],
            shown("3")
        );
        assert_eq!(
            learnt.eval(&session, "(do (def n (inc n)) n)")["text"],
            shown("4")
        );
        assert_eq!(
            sealing.eval(&session, "(do (def n (inc n)) n)")["text"],
            shown("5")
        );
        drop(learnt);
        drop(sealing);
        // Once the old key is removed, sessions that were not used meanwhile are lost.
        let after = start(&files[3]);
        assert_eq!(after.eval(&session, "n")["text"], shown("5"));
        assert_eq!(
            after.eval(&unused, "1")["reason"],
            json!("session_unreadable")
        );
        drop(after);
        // A server with only the old key no longer starts.
        let refused = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args(["start", "--sessions", "--session-store", &url])
            .args(["--session-store-key-file", &files[0]])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
}

#[test]
fn doctor_checks_a_store_without_changing_it() {
    let directory = tempfile::tempdir().unwrap();
    let doctor = |url: &str, flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args(["doctor", "--sessions", "--session-store", url])
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    };
    for store in Store::all(directory.path()) {
        let url = store.url();
        let (status, text) = doctor(&url, &[]);
        assert_eq!(status, 0, "{text}");
        assert!(
            text.contains(&format!("session store: {url}: 0 sessions, not encrypted")),
            "{text}"
        );
        match &store {
            Store::Directory(path) => assert!(!path.exists()),
            Store::Redis { .. } => assert_eq!(store.ask(&[b"DBSIZE"]).text(), "0"),
        }
        let key = directory.path().join("key");
        std::fs::write(&key, "c".repeat(64)).unwrap();
        let flags = ["--session-store-key-file", key.to_str().unwrap()];
        let node = Node::start(&url, &flags, &[]);
        node.new_session();
        let (status, text) = doctor(&url, &flags);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains(": 1 session, encrypted\n"), "{text}");
        let (status, text) = doctor(&url, &[]);
        assert_eq!(status, 1, "{text}");
        assert!(
            text.contains("it is encrypted, and there is no key"),
            "{text}"
        );
    }
}

/// The metrics of a server by name.
fn metrics(node: &Node) -> std::collections::BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(node.address).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        node.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let rows = answer.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let name = name.strip_prefix("ptc_lisp_session_store_")?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    rows.collect()
}

#[test]
fn metrics_report_store_costs() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let flags = ["--http-metrics", "--program-timeout-ms", "20000"];
    let slow = [
        ("PTC_CHECKS_LEASE_MS", "1000"),
        ("PTC_CHECKS_SLOW_COMMITS_MS", "3000"),
    ];
    let (node, late) = (
        Node::start(&store.url(), &flags, &[]),
        Node::start(&store.url(), &flags, &slow),
    );
    let session = node.new_session();
    let before = metrics(&node);
    node.eval(
        &session,
        "(def text (apply str (repeat 1000 \"abcdefgh\")))",
    );
    let after = metrics(&node);
    let grown = |name: &str| after[name] - before[name];
    assert!(grown("snapshot_bytes_sum") > 8_000.0, "{after:?}");
    assert_eq!(grown("snapshot_bytes_count"), 1.0, "{after:?}");
    assert_eq!(grown("lease_seconds_count"), 1.0, "{after:?}");
    assert!(
        grown("request_seconds_count") >= 2.0 && grown("request_seconds_sum") > 0.0,
        "{after:?}"
    );
    for name in ["snapshot_bytes", "lease_seconds", "request_seconds"] {
        let all = after[&format!("{name}_bucket{{le=\"+Inf\"}}")];
        assert_eq!(all, after[&format!("{name}_count")], "{after:?}");
        let begin = format!("{name}_bucket{{le=");
        let buckets = after.iter().filter(|(name, _)| name.starts_with(&begin));
        assert!(buckets.clone().count() > 5, "{after:?}");
        assert!(buckets.clone().all(|(_, count)| *count <= all), "{after:?}");
    }
    // More than 4 KiB, and no more than 16.
    let within = |bound: &str| grown(&format!("snapshot_bytes_bucket{{le=\"{bound}\"}}"));
    assert_eq!((within("4096"), within("16384")), (0.0, 1.0), "{after:?}");
    assert_eq!(grown("read_bytes_total"), 0.0, "it knows what it wrote");
    assert_eq!((after["up"], after["failures_total"]), (1.0, 0.0));
    // Another server reads the session, blocks this one, and loses its turn.
    let address = late.address;
    let running = json!({"session_id": session, "program": "(count text)"});
    let turn = std::thread::spawn(move || call(address, "session_eval", &running).unwrap());
    wait_until("the turn", || node.is_running(&session));
    assert_eq!(node.eval(&session, "1")["reason"], json!("session_busy"));
    assert!(metrics(&node)["busy_total"] >= 1.0);
    wait_until("the lease", || {
        node.eval(&session, "1")["status"] == json!("ok")
    });
    let lost = turn.join().unwrap();
    assert_eq!(lost["reason"], json!("session_lease_lost"), "{lost}");
    let late = metrics(&late);
    assert!(
        late["read_bytes_total"] > 8_000.0 && late["lost_total"] == 1.0,
        "{late:?}"
    );
    if let Store::Redis { server, .. } = &store {
        let _ = server.lock().unwrap().0.kill();
    }
    wait_until("its end", || {
        node.eval(&session, "1")["reason"] == json!("session_store_unavailable")
    });
    let without = metrics(&node);
    assert!(
        without["up"] == 0.0 && without["failures_total"] >= 1.0,
        "{without:?}"
    );
}
