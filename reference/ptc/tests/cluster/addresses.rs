//! Each kind of store address against real servers: TLS, sentinels, a cluster.

use super::*;

/// Runs a command that must succeed; if the program is not installed, the test is skipped.
fn run(program: &str, words: &[&str], directory: &Path) -> Option<()> {
    let output = Command::new(program)
        .args(words)
        .current_dir(directory)
        .output()
        .inspect_err(|error| eprintln!("skipped: {program} is not installed here: {error}"))
        .ok()?;
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    Some(())
}

/// A session is created on one server, moves to another one, and back.
fn sessions_move(url: &str, environment: &[(&str, &str)]) -> (Node, Node, String) {
    // Long enough for the running turn to be observed on a busy machine.
    let flags = ["--program-timeout-ms", "8000"];
    let [first, second] = [(); 2].map(|()| Node::start(url, &flags, environment));
    let session = first.new_session();
    assert_eq!(
        first.eval(&session, "(do (def n 40) n)")["text"],
        shown("40")
    );
    assert_eq!(
        second.eval(&session, "(do (def n (inc n)) n)")["text"],
        shown("41")
    );
    assert_eq!(
        first.eval(&session, "(do (def n (inc n)) n)")["text"],
        shown("42")
    );
    // A notification reaches a program that runs on another server.
    let endless = json!({"session_id": session, "program": "(loop [i 0] (recur (inc i)))"});
    let address = second.address;
    let other = first.new_session();
    let running = json!({"session_id": other, "program": endless["program"]});
    let turn = std::thread::spawn(move || call(address, "session_eval", &running));
    wait_until("a turn", || first.is_running(&other));
    first
        .call("session_close", &json!({"session_id": other}))
        .unwrap();
    let ended = turn.join().unwrap().unwrap();
    assert_eq!(ended["status"], json!("error"), "{ended}");
    assert_ne!(ended["reason"], json!("timeout"), "{ended}");
    (first, second, session)
}

#[test]
fn store_over_tls_with_a_private_ca() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let files = "[v3]\nsubjectAltName=IP:127.0.0.1\n";
    std::fs::write(path.join("extensions"), files).unwrap();
    let commands: [&[&str]; 3] = [
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
        ],
        &[
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=store",
            "-keyout",
            "store.key",
            "-out",
            "store.csr",
        ],
        &[
            "x509",
            "-req",
            "-in",
            "store.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-extensions",
            "v3",
            "-out",
            "store.pem",
        ],
    ];
    for words in commands {
        if run("openssl", words, path).is_none() {
            return;
        }
    }
    let (plain, port) = (free_port(), free_port().to_string());
    let tls = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        "store.pem",
        "--tls-key-file",
        "store.key",
        "--tls-ca-cert-file",
        "ca.pem",
        "--tls-auth-clients",
        "no",
        "--requirepass",
        "p@ss",
    ];
    // Files are resolved against the server's working directory, which is the current one.
    let tls: Vec<String> = tls
        .iter()
        .map(|word| match word.rsplit_once('.') {
            Some((_, "pem" | "key")) => path.join(word).to_str().unwrap().to_owned(),
            _ => (*word).to_owned(),
        })
        .collect();
    let flags: Vec<&str> = tls.iter().map(String::as_str).collect();
    let mut server = match redis_with(plain, path, &flags) {
        Ok(server) => server,
        Err(error) => return eprintln!("skipped: redis-server is not installed here: {error}"),
    };
    let listens = || TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).is_ok();
    wait_until("redis-server", || {
        listens() || server.0.try_wait().unwrap().is_some()
    });
    if !listens() {
        return eprintln!("skipped: this redis-server was built without TLS");
    }
    let url = format!("rediss://:p%40ss@127.0.0.1:{port}");
    let authority = path.join("ca.pem");
    sessions_move(&url, &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    // An authority that is not configured is not trusted.
    let refused = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args(["start", "--sessions", "--session-store", &url])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("cannot use rediss://127.0.0.1") && !said.contains("p@ss"),
        "{said}"
    );
}

#[test]
fn sessions_survive_a_sentinel_failover() {
    let directory = tempfile::tempdir().unwrap();
    let [master_port, replica_port, sentinel_port] = [(); 3].map(|()| free_port());
    let home = |name: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let Ok(master) = redis_with(master_port, &home("master"), &[]) else {
        return eprintln!("skipped: redis-server is not installed here");
    };
    let of = format!("127.0.0.1 {master_port}");
    let replica = redis_with(replica_port, &home("replica"), &["--replicaof", &of]).unwrap();
    let watch = home("sentinel");
    let config = watch.join("sentinel.conf");
    let text = format!(
        "bind 127.0.0.1\nport {sentinel_port}\ndir {}\nsentinel monitor main 127.0.0.1 {master_port} 1\n\
         sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 5000\n",
        watch.display()
    );
    std::fs::write(&config, text).unwrap();
    wait_until("the master", || answers(master_port));
    wait_until("the replica", || answers(replica_port));
    let sentinel = Command::new("redis-server")
        .arg(&config)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _sentinel = Process(sentinel);
    wait_until("the sentinel", || answers(sentinel_port));
    let knows = |what: &[u8]| redis_command(sentinel_port, &[b"SENTINEL", what, b"main"]);
    wait_until(
        "the sentinel knows the replica",
        || matches!(knows(b"replicas"), Resp::Many(replicas) if replicas.len() == 1),
    );
    let url = format!("redis+sentinel://127.0.0.1:{sentinel_port}/main");
    let (first, second, session) = sessions_move(&url, &[]);
    // Data that the replica has not received is lost with the master; it receives everything in
    // order.
    redis_command(master_port, &[b"SET", b"last", b"1"]);
    wait_until("the replica has all", || {
        let last = redis_command(replica_port, &[b"GET", b"last"]);
        matches!(last, Resp::Text(last) if last == b"1")
    });
    drop(master);
    for node in [&first, &second] {
        wait_until("the replica takes over", || {
            node.eval(&session, "n")["text"] == shown("42")
        });
    }
    drop(replica);
}

#[test]
fn sessions_work_in_a_redis_cluster_of_three() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for name in ["a", "b", "c"] {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let (port, bus) = (free_port(), free_port().to_string());
        let flags = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        match redis_with(port, &path, &flags) {
            Ok(server) => servers.push((server, port)),
            Err(error) => return eprintln!("skipped: redis-server is not installed here: {error}"),
        }
    }
    let addresses: Vec<String> = servers
        .iter()
        .map(|(_, port)| format!("127.0.0.1:{port}"))
        .collect();
    for (_, port) in &servers {
        wait_until("redis-server", || answers(*port));
    }
    let mut words = vec!["--cluster", "create"];
    words.extend(addresses.iter().map(String::as_str));
    words.push("--cluster-yes");
    if run("redis-cli", &words, directory.path()).is_none() {
        return;
    }
    for (_, port) in &servers {
        wait_until("the cluster", || {
            redis_command(*port, &[b"CLUSTER", b"INFO"])
                .text()
                .contains("cluster_state:ok")
        });
    }
    sessions_move(&format!("redis+cluster://{}", addresses.join(",")), &[]);
}
