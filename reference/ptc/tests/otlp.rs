//! The built `ptc` with a stub collector: which spans arrive, and that an unreachable collector affects no call. Needs
//! the feature `otlp`.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use support::http::Message;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
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
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(CREDENTIALS.as_bytes()).unwrap();
    let mut server = Command::new(PTC)
        .args(["start", "--log-level", "warn", "--upstreams-config"])
        .arg(config.path())
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

/// Accepts requests until all spans have arrived, and responds to each with this status and header.
fn collect(listener: &TcpListener, answer: &str) -> Vec<Value> {
    let mut spans = Vec::new();
    while spans.len() < calls().lines().count() {
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

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array()?;
    let found = attributes
        .iter()
        .find(|attribute| attribute["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

#[test]
fn each_call_is_a_span() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || collect(&listener, "200 OK"));
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

#[test]
fn collector_redirect_is_reported_and_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let redirect = "307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/v1/traces";
    let collector = std::thread::spawn(move || collect(&listener, redirect));
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
