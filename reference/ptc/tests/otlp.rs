//! The built `ptc` with a stub collector: which spans arrive and how they are related, and that an unreachable collector affects no call.
//! Needs the feature `otlp`.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use support::http::Message;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER`, `SPAN_KIND_CLIENT`
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// Used by no upstream, but still a credential for the server.
const CREDENTIALS: &str = r#"{"credentials": {"token": {"source": "literal", "value": "otlp-test-token-0123456789abcdef"}}, "upstreams": {}}"#;
const CALLS: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 2)"},"#,
    r#""_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"v=1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"otlp-test-token-0123456789abcdef"}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":"otlp-test-token-0123456789abcdef","method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(fail \"otlp-test-token-0123456789abcdef\")"},"#,
    r#""_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319d-00f067aa0ba902b7-01","tracestate":"v=otlp-test-token-0123456789abcdef"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"%6ftlp-test-token-0123456789abcdef and 6f746c702d746573742d746f6b656e2d30313233343536373839616263646566"}}"#,
    "\n"
);

/// The calls, and a call of a tool with a long name that has a credential where it is cut.
fn calls() -> String {
    let (before, behind) = ("a".repeat(240), "b".repeat(1 << 15));
    let name = format!("{before}otlp-test-token-0123456789abcdef{behind}");
    let long = serde_json::json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": name}});
    format!("{CALLS}{long}\n")
}

/// The output of calls, made one after the other with the collector at `endpoint`: replies and log.
fn run(endpoint: &str, calls: &str) -> (String, String) {
    run_with(endpoint, CREDENTIALS, &[], calls)
}

/// The same with this upstreams config and these flags.
fn run_with(endpoint: &str, upstreams: &str, flags: &[&str], calls: &str) -> (String, String) {
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(upstreams.as_bytes()).unwrap();
    let mut server = Command::new(PTC)
        .args(["start", "--log-level", "warn", "--upstreams-config"])
        .arg(config.path())
        .args(flags)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut replies = String::new();
    for call in calls.lines() {
        writeln!(input, "{call}").unwrap();
        output.read_line(&mut replies).unwrap();
    }
    drop(input);
    let ended = server.wait_with_output().unwrap();
    assert!(ended.status.success());
    (replies, String::from_utf8(ended.stderr).unwrap())
}

/// A collector that responds to each request with this status and header: its address, and what arrives until there are `roots` spans
/// of calls. Those within a call come before its own.
fn collector(roots: usize, answer: &'static str) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (
        endpoint,
        std::thread::spawn(move || collect(&listener, roots, answer)),
    )
}

fn collect(listener: &TcpListener, roots: usize, answer: &str) -> Vec<Value> {
    let mut spans: Vec<Value> = Vec::new();
    while spans.iter().filter(|span| span["kind"] == SERVER).count() < roots {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let request = Message::read(&mut stream).expect("a request");
        assert_eq!(request.start, "POST /v1/traces HTTP/1.1");
        assert_eq!(request.field("content-type"), Some("application/json"));
        write!(
            stream.get_mut(),
            "HTTP/1.1 {answer}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
        )
        .unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0]["value"]["stringValue"],
            "ptc_lisp"
        );
        let batch = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.extend(batch.iter().cloned());
    }
    spans
}

/// An upstream with a tool that succeeds, whose name contains a credential, and one that fails: its config, and the `traceparent` of each
/// call.
fn upstream() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, parents) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let request = Message::read(&mut stream).expect("a request");
            let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let result = match asked["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "", "version": ""}})
                }
                Some("tools/list") => {
                    let reads = json!({"readOnlyHint": true});
                    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": reads});
                    json!({"tools": [tool("good-otlp-test-token-0123456789abcdef"), tool("bad")]})
                }
                Some("tools/call") => {
                    let parent = request.field("traceparent").unwrap_or_default();
                    seen.send(parent.to_owned()).unwrap();
                    let text = "otlp-test-token-0123456789abcdef";
                    let content = [json!({"type": "text", "text": text})];
                    json!({"content": content, "isError": asked["params"]["name"] == "bad"})
                }
                _ => Value::Null,
            };
            let (status, body) = match result {
                Value::Null => ("202 Accepted", String::new()),
                result => {
                    let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                    ("200 OK", reply.to_string())
                }
            };
            let length = body.len();
            write!(
                stream.get_mut(),
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    let config = json!({
        "credentials": {"token": {"source": "literal", "value": "otlp-test-token-0123456789abcdef"}},
        "upstreams": {"api": {"transport": "mcp_http", "url": url, "allow_insecure_http": true}},
    });
    (config.to_string(), parents)
}

/// The call of a program, with this `traceparent`.
fn program(program: &str, parent: Option<&str>) -> String {
    let meta = parent.map(|parent| json!({"traceparent": parent, "tracestate": "v=1"}));
    let params = json!({"name": "lisp_eval", "arguments": {"program": program}, "_meta": meta});
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    )
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array()?;
    let found = attributes
        .iter()
        .find(|attribute| attribute["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

#[test]
fn each_call_is_a_span() {
    let (endpoint, collector) = collector(calls().lines().count(), "200 OK");
    let (replies, log) = run(&endpoint, &calls());
    assert!(replies.contains("user=> 3"), "{replies}");
    assert_eq!(log, "");
    let spans = collector.join().unwrap();
    let sent = serde_json::to_string(&spans).unwrap();
    for form in ["tlp-test-token", "6f746c702d74657374"] {
        assert!(!sent.contains(form), "a span shows {form}: {sent}");
    }
    // The id and trace state, the name of the tool and of the span, and the same in two forms.
    assert!(sent.matches("[REDACTED]").count() >= 8, "{sent}");
    let of = |id: &str| {
        let found = |span: &&Value| attribute(span, "jsonrpc.request.id") == Some(id);
        spans.iter().find(found).unwrap()
    };
    let good = of("a");
    assert_eq!(good["name"], "tools/call lisp_eval");
    assert_eq!(good["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(good["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(good["traceState"], "v=1");
    assert_eq!(good["status"], serde_json::json!({}));
    assert_eq!(attribute(good, "network.transport"), Some("pipe"));
    let time = |name: &str| good[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    let long = attribute(of("4"), "gen_ai.tool.name").unwrap();
    assert!(
        long.len() <= 512 && long.ends_with("[REDACTED]bbbbbb…"),
        "{long}"
    );
    let bad = of("2");
    assert_eq!(attribute(bad, "error.type"), Some("unknown_tool"));
    assert_eq!(bad["status"]["code"], 2);
    assert_eq!(bad["traceId"].as_str().unwrap().len(), 32);
    assert!(bad.get("parentSpanId").is_none());
}

fn number(span: &Value, key: &str) -> Option<u64> {
    let attributes = span["attributes"].as_array()?;
    let found = attributes
        .iter()
        .find(|attribute| attribute["key"] == key)?;
    found["value"]["intValue"].as_str()?.parse().ok()
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

const CALL: &str = "tools/call lisp_eval";
const GOOD: &str = "upstream_call good-[REDACTED]";

/// Three calls side by side, and one that fails.
const BRANCHES: &str = r#"(do (pmap (fn [n] (tool/call {:server "api" :tool "good-otlp-test-token-0123456789abcdef"})) [1 2 3])
    (tool/call {:server "api" :tool "bad"}))"#;

#[test]
fn spans_of_a_call_are_a_tree() {
    for isolation in ["thread", "process"] {
        let (upstreams, parents) = upstream();
        let (endpoint, collector) = collector(1, "200 OK");
        let given = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
        let (replies, log) = run_with(
            &endpoint,
            &upstreams,
            &["--isolation", isolation],
            &program(BRANCHES, Some(given)),
        );
        assert!(replies.contains("tool_error"), "{replies}");
        assert_eq!(log, "");
        let spans = collector.join().unwrap();
        let sent = serde_json::to_string(&spans).unwrap();
        assert!(!sent.contains("otlp-test-token"), "{sent}");
        assert_eq!(spans.len(), 7, "{sent}");
        let trace = |span: &&Value| span["traceId"] == "0af7651916cd43dd8448eb211c80319c";
        assert!(spans.iter().all(|span| trace(&span)), "{sent}");
        let [call] = named(&spans, CALL)[..] else {
            panic!("{sent}");
        };
        assert_eq!(call["kind"], SERVER);
        assert_eq!(call["parentSpanId"], "00f067aa0ba902b7");
        for name in ["admission", "evaluation"] {
            let [within] = named(&spans, name)[..] else {
                panic!("{sent}");
            };
            assert_eq!(within["parentSpanId"], call["spanId"]);
            assert_eq!(within["kind"], INTERNAL);
        }
        let evaluation = named(&spans, "evaluation")[0];
        let good = named(&spans, GOOD);
        assert_eq!(good.len(), 3, "{sent}");
        let bad = named(&spans, "upstream_call bad")[0];
        assert_eq!(attribute(bad, "error.type"), Some("tool_error"));
        assert_eq!(bad["status"], json!({"code": 2, "message": "tool_error"}));
        for span in good.iter().chain([&bad]) {
            assert_eq!(span["parentSpanId"], evaluation["spanId"]);
            assert_eq!(span["kind"], CLIENT);
            assert_eq!(attribute(span, "ptc.upstream.name"), Some("api"));
            assert_eq!(span["traceState"], "v=1");
            let time = |name: &str, span: &Value| span[name].as_str().unwrap().to_owned();
            for outer in [evaluation, call] {
                assert!(time("startTimeUnixNano", outer) <= time("startTimeUnixNano", span));
                assert!(time("endTimeUnixNano", outer) >= time("endTimeUnixNano", span));
            }
        }
        for span in &good {
            assert_eq!(span["status"], json!({}));
        }
        let of = |span: &&Value| {
            let id = span["spanId"].as_str().unwrap();
            format!("00-0af7651916cd43dd8448eb211c80319c-{id}-00")
        };
        let own: BTreeSet<_> = good.iter().chain([&bad]).map(of).collect();
        assert_eq!(own, parents.try_iter().collect(), "{isolation}");
    }
}

/// A call without a trace begins one.
#[test]
fn excess_spans_are_counted() {
    let (upstreams, parents) = upstream();
    let calls = r#"(dotimes [n 150] (tool/call {:server "api" :tool "good-otlp-test-token-0123456789abcdef"}))"#;
    let (endpoint, collector) = collector(1, "200 OK");
    let (_, log) = run_with(
        &endpoint,
        &upstreams,
        &["--max-upstream-calls-per-program=200"],
        &program(calls, None),
    );
    assert_eq!(log, "");
    let spans = collector.join().unwrap();
    assert_eq!(spans.len(), 129);
    let call = named(&spans, CALL)[0];
    assert_eq!(number(call, "ptc.spans.left_out"), Some(24));
    assert!(call.get("parentSpanId").is_none());
    // The other calls name the span that they are made in.
    let trace = call["traceId"].as_str().unwrap();
    let evaluation = named(&spans, "evaluation")[0]["spanId"].as_str().unwrap();
    let around = format!("00-{trace}-{evaluation}-01");
    let parents: Vec<_> = parents.try_iter().collect();
    assert_eq!(parents.len(), 150);
    let unnamed = parents.iter().filter(|parent| **parent == around).count();
    assert_eq!(unnamed, 24);
}

/// A turn of a planner is around the program that it plans.
#[test]
fn turns_of_a_planner_are_spans() {
    let (upstreams, _parents) = upstream();
    let mut plan = tempfile::NamedTempFile::new().unwrap();
    let turn = |program: &str| json!({"content": program});
    let call = r#"(def r (tool/call {:server "api" :tool "bad"}))"#;
    writeln!(plan, "{}\n{}", turn(call), turn("(return 1)")).unwrap();
    let model = format!("replay:{}", plan.path().display());
    let task = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "lisp_task", "arguments": {"task": "Call it"}}});
    let (endpoint, collector) = collector(1, "200 OK");
    let flags = [
        "--agentic",
        "--aggregator-read-only",
        "--agentic-max-turns=2",
        "--agentic-model",
        &model,
    ];
    let (replies, log) = run_with(&endpoint, &upstreams, &flags, &format!("{task}\n"));
    assert_eq!(log, "", "{replies}");
    let spans = collector.join().unwrap();
    let turns = named(&spans, "planner_turn");
    let programs = named(&spans, "evaluation");
    let within: Vec<_> = programs.iter().map(|span| &span["parentSpanId"]).collect();
    let ids: Vec<_> = turns.iter().map(|span| &span["spanId"]).collect();
    assert_eq!((ids.len(), &ids), (2, &within), "{spans:?}");
    let numbers: Vec<_> = turns.iter().map(|span| number(span, "ptc.turn")).collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
    let call = named(&spans, "upstream_call bad")[0];
    assert_eq!(call["parentSpanId"], programs[0]["spanId"]);
}

#[test]
fn collector_redirect_is_reported_and_not_followed() {
    let redirect = "307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/v1/traces";
    let (endpoint, collector) = collector(calls().lines().count(), redirect);
    let (replies, log) = run(&endpoint, &calls());
    collector.join().unwrap();
    assert!(replies.contains("user=> 3"), "{replies}");
    assert!(log.contains("http 307"), "{log}");
}

#[test]
fn unreachable_collector_costs_only_a_warning() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (replies, log) = run(&endpoint, &calls());
    assert!(replies.contains("user=> 3"), "{replies}");
    assert!(log.contains("otlp_export_failed"), "{log}");
    assert!(!log.contains("127.0.0.1"), "{log}");
}

/// A collector that accepts requests and never responds.
#[test]
fn undelivered_spans_are_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let count = 3_000;
    let call = |id| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"nothing"}}}}"#
        ) + "\n"
    };
    let calls: String = (0..count).map(call).collect();
    let (_, log) = run(&endpoint, &calls);
    let told = |line: &str| -> Option<u64> {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["event"] == "otlp_export_failed").then(|| line["fields"]["spans"].as_u64().unwrap())
    };
    let lost: u64 = log.lines().filter_map(told).sum();
    assert_eq!(lost, count, "{log}");
}

#[test]
fn invalid_collector_address_is_reported() {
    for endpoint in ["ht!tp://x y", "ftp://127.0.0.1", "127.0.0.1:4318"] {
        let (_, log) = run(endpoint, &calls());
        assert!(
            log.contains("OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL"),
            "{log}"
        );
    }
}
