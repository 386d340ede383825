//! The config in `dist/upstreams/` works as its README says: each kind of upstream is started, listed and called.
//! Its servers are stubs here; only the addresses are changed.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use support::http::Message;

use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-the-tickets-server-0001";
/// A stub for the program that the example starts.
const FILES: &str = r#"#!/bin/sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *initialize\"*) reply "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}' ;;
    *tools/list*) reply "$id" '{"tools":[{"name":"list","description":"Lists files"}]}' ;;
    *tools/call*) reply "$id" "{\"structuredContent\":[\"$*\",\"${NODE_EXTRA_CA_CERTS-unset}\",\"${TICKETS_TOKEN-unset}\"]}" ;;
  esac
done
"#;

fn dist(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../server/dist/upstreams").join(file)
}

#[test]
fn the_example_works() {
    let home = tempfile::tempdir().unwrap();
    let npx = home.path().join("npx");
    std::fs::write(&npx, FILES).unwrap();
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(dist("weather.json"), home.path().join("weather.json")).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let origin = play(Arc::clone(&seen));
    let mut config: Value =
        serde_json::from_str(&std::fs::read_to_string(dist("upstreams.json")).unwrap()).unwrap();
    for (server, key) in [("tickets", "url"), ("weather", "base_url")] {
        let entry = &mut config["upstreams"][server];
        let url = entry[key].as_str().unwrap();
        let path = url
            .strip_prefix("https://")
            .and_then(|rest| rest.split_once('/'));
        entry[key] = format!("{origin}/{}", path.unwrap().1).into();
        entry["allow_insecure_http"] = true.into();
        entry["allow_insecure_auth"] = true.into();
    }
    std::fs::write(home.path().join("upstreams.json"), config.to_string()).unwrap();

    let doctor = ptc(
        home.path(),
        &["doctor", "--upstreams-config", "upstreams.json"],
    );
    let said = String::from_utf8(doctor.stdout).unwrap();
    for line in [
        "ok     files: 1 tool: list",
        "ok     tickets: 1 tool: search",
        "ok     weather: 1 tool: get-forecast",
        "`ptc start` would start with these settings.",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    let program = r#"[(map :name (tool/servers))
        (:value (tool/call {:server "files" :tool "list"}))
        (:value (tool/call {:server "tickets" :tool "search"}))
        (:value (tool/call {:server "weather" :tool "get-forecast" :args {:city "Oslo" :days 2}}))]"#;
    let eval = ptc(
        home.path(),
        &[
            "eval",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            program,
        ],
    );
    assert_eq!(
        String::from_utf8_lossy(&eval.stdout).trim_end(),
        r#"[["files" "tickets" "weather"] ["-y @modelcontextprotocol/server-filesystem ." "/ca.pem" "unset"] "two tickets" [1.5 -3]]"#,
        "{}",
        String::from_utf8_lossy(&eval.stderr)
    );
    let seen = seen.lock().unwrap();
    assert!(
        seen.contains(&format!("POST /mcp Bearer {TOKEN}")),
        "{seen:?}"
    );
    assert!(
        seen.contains(&"GET /v1/forecast/Oslo?days=2 ".to_owned()),
        "{seen:?}"
    );
}

/// The README contains the file unchanged.
#[test]
fn the_readme_shows_the_example() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let example = std::fs::read_to_string(dist("upstreams.json")).unwrap();
    assert!(readme.contains(&format!("```json\n{example}```\n")));
}

fn ptc(home: &Path, words: &[&str]) -> Output {
    let path = format!("{}:{}", home.display(), std::env::var("PATH").unwrap());
    Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args(words)
        .current_dir(home)
        .env("PATH", path)
        .env("TICKETS_TOKEN", TOKEN)
        .env("NODE_EXTRA_CA_CERTS", "/ca.pem")
        .output()
        .unwrap()
}

/// Plays both servers of the example and records their requests in `seen`: method, target and credential.
fn play(seen: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || while answer(&stream, &seen).is_some() {});
        }
    });
    origin
}

fn answer(mut stream: &TcpStream, seen: &Mutex<Vec<String>>) -> Option<()> {
    let request = Message::read(&mut BufReader::new(stream))?;
    let asked = request.start.trim_end_matches(" HTTP/1.1");
    let credential = request.field("authorization").unwrap_or_default();
    seen.lock().unwrap().push(format!("{asked} {credential}"));
    let frame: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let id = &frame["id"];
    let result =
        |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let (status, body) = match frame["method"].as_str() {
        None => ("200 OK", json!([1.5, -3]).to_string()),
        Some("initialize") => (
            "200 OK",
            result(
                json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "p", "version": "1" } }),
            ),
        ),
        Some("tools/list") => ("200 OK", result(json!({ "tools": [{ "name": "search" }] }))),
        Some("tools/call") => (
            "200 OK",
            result(json!({ "structuredContent": "two tickets" })),
        ),
        Some(_) => ("202 Accepted", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()
}
