//! `lisp_task` over stdio with a replayed planner and a real upstream: a second server of ours.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");

#[test]
fn task_calls_an_upstream_and_lists_its_calls() {
    let program =
        r#"(def r (tool/call {:server "calc" :tool "lisp_eval" :args {:program "(+ 40 2)"}}))"#;
    let finish = r#"(return (str "It is " (:value r) "."))"#;
    let structured = task(&[
        json!({ "content": program }),
        json!({ "content": format!("```clojure\n{finish}\n```") }),
    ]);
    assert_eq!(structured["status"], "ok", "{structured}");
    assert_eq!(structured["answer"], "It is user=> 42.");
    assert_eq!(structured["execution"]["turn_count"], 2);
    assert_eq!(structured["planner"]["calls"], 2);
    let call = &structured["upstream_calls"][0];
    assert_eq!(
        (&call["server"], &call["effect"], &call["turn"]),
        (&json!("calc"), &json!("read"), &json!(1))
    );
    assert_eq!(structured["ptc_metrics"]["upstream_call_count"], 1);
    assert_eq!(
        structured["ptc_metrics"]["server_side_llm"]["planner_calls"],
        2
    );
}

/// Runs one task with two turns and returns its structured content.
fn task(replies: &[Json]) -> Json {
    let directory = tempfile::tempdir().unwrap();
    let (config, plan) = (
        directory.path().join("upstreams.json"),
        directory.path().join("plan.jsonl"),
    );
    // A server refuses itself as an upstream, so the upstream is a copy of the executable.
    let calc = directory.path().join("calc");
    std::fs::copy(PTC, &calc).unwrap();
    let upstreams = json!({ "upstreams": { "calc": { "transport": "mcp_stdio", "command": calc, "args": ["start"] } } });
    std::fs::write(&config, upstreams.to_string()).unwrap();
    let lines: Vec<String> = replies.iter().map(Json::to_string).collect();
    std::fs::write(&plan, lines.join("\n")).unwrap();
    let mut server = Command::new(PTC)
        .args([
            "start",
            "--agentic",
            "--aggregator-read-only",
            "--agentic-max-turns",
            "2",
        ])
        .args(["--upstreams-config".as_ref(), config.as_os_str()])
        .args(["--agentic-model", &format!("replay:{}", plan.display())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |frame: Json| {
        writeln!(input, "{frame}").unwrap();
        let line = output.next().unwrap().unwrap();
        serde_json::from_str::<Json>(&line).unwrap()
    };
    let client = json!({ "name": "test", "version": "1" });
    ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
                "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client } }));
    let reply = ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                            "params": { "name": "lisp_task", "arguments": { "task": "Add 40 and 2" } } }));
    drop(input);
    server.wait().unwrap();
    reply["result"]["structuredContent"].clone()
}
