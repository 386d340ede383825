//! The built `ptc` under a file size limit: only operations that need a larger file fail.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");

#[test]
fn file_size_limit_fails_only_one_turn() {
    let home = tempfile::tempdir().unwrap();
    let store = format!("file:{}", home.path().join("store").display());
    let mut server = Command::new("sh")
        .args(["-c", r#"ulimit -f 32; exec "$0" "$@""#, PTC])
        .args(["start", "--sessions", "--session-store", &store])
        .args(["--log-level", "error"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut call = |name: &str, arguments: Value| -> String {
        let params = json!({ "name": name, "arguments": arguments });
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        writeln!(input, "{frame}").unwrap();
        let mut reply = String::new();
        output.read_line(&mut reply).unwrap();
        assert!(
            !reply.is_empty(),
            "the server is gone after {name} {arguments}"
        );
        reply
    };
    let started: Value = serde_json::from_str(&call("lisp_session_start", json!({}))).unwrap();
    let id = started["result"]["structuredContent"]["session_id"].clone();
    let mut turn = |program: &str| {
        call(
            "lisp_session_eval",
            json!({ "session_id": id, "program": program }),
        )
    };
    assert!(turn("(def a 1)").contains("[stored: a]"));
    let failed = turn("(def b (apply str (range 20000)))");
    assert!(failed.contains("the session store is full"), "{failed}");
    // The turn was not kept and left nothing behind.
    assert!(turn("a").contains("user=> 1"));
    let names = std::fs::read_dir(home.path().join("store/programs")).unwrap();
    let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".new")),
        "{names:?}"
    );
    assert!(call("lisp_session_close", json!({ "session_id": id })).contains(r#""closed":true"#));
    drop(input);
    assert!(server.wait().unwrap().success());
}
