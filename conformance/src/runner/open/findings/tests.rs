//! Checks exchanges for findings: each fault has its word, a correct exchange has none.

use super::*;

/// The findings in lines that answer these requests.
fn check(sent: &[&str], lines: &[&str]) -> String {
    let findings = Findings::default();
    findings.set_declares_logging(false);
    let schema = serde_json::json!({"type": "object", "required": ["n"]});
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    findings.register_output_schema("sum", schema);
    let mut requests = SentRequests::default();
    for line in sent {
        requests.record_sent(format!("{line}\n").as_bytes());
    }
    for line in lines {
        findings.inspect(line.as_bytes(), &mut requests, true);
    }
    let found = findings.lock().found.keys().cloned().collect::<Vec<_>>();
    found.join(" ")
}

#[test]
fn correct_exchange_has_no_findings() {
    let sent = [
        r#"{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"sum","_meta":{"progressToken":"p"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ];
    let lines = [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1.5,"total":2}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{ \\\"n\\\": 1 }\"}],\"structuredContent\":{\"n\":1}}}\r",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","method":"x/y"}"#,
    ];
    assert_eq!(check(&sent, &lines), "");
}

const STATELESS: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

#[test]
fn stateless_results_are_checked() {
    let ask = |id: u32, method: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}{STATELESS}}}}}"#
        )
    };
    let sent = [
        ask(1, "prompts/list", ""),
        ask(2, "prompts/list", r#""cursor":"a","#),
        ask(3, "tools/call", ""),
    ];
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    let page = |id: u32, hints: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","prompts":[]{hints}}}}}"#
        )
    };
    let public = r#","ttlMs":0,"cacheScope":"public""#;
    let rows = [
        (vec![page(1, public), page(2, public)], ""),
        (vec![page(1, "")], "cache-hints"),
        (
            vec![page(1, r#","ttlMs":-1,"cacheScope":"public""#)],
            "cache-hints",
        ),
        (
            vec![page(1, r#","ttlMs":5,"cacheScope":"all""#)],
            "cache-hints",
        ),
        (
            vec![
                page(1, public),
                page(2, r#","ttlMs":0,"cacheScope":"private""#),
            ],
            "cache-scopes",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32002,"message":""}}"#.to_owned()],
            "reserved-codes",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32077,"message":""}}"#.to_owned()],
            "reserved-codes",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":""}}"#.to_owned()],
            "",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","requestState":"s"}}"#.to_owned()],
            "",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required"}}"#.to_owned()],
            "input-required",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","inputRequests":{"a":{}}}}"#.to_owned()],
            "input-required",
        ),
        (
            vec![r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}}"#.to_owned()],
            "input-required unasked-input",
        ),
    ];
    for (lines, word) in rows {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(check(&sent, &lines), word, "{lines:?}");
    }
}

#[test]
fn meta_keys_are_validated() {
    for key in [
        "progressToken",
        "io.modelcontextprotocol/serverInfo",
        "a-1.b/",
        "traceparent",
        "x_y.z-1",
    ] {
        assert!(is_valid_key(key), "{key}");
    }
    for key in ["a b", "/x", "1a/x", "a../x", "a-/x", "a/b/c", "_x", "x-"] {
        assert!(!is_valid_key(key), "{key}");
    }
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"a":[{"_meta":{"a b":1}}]}}"#;
    assert_eq!(check(&[call], &[answer]), "meta-keys");
}

#[test]
fn event_streams_are_inspected() {
    let (findings, mut requests) = (Findings::default(), SentRequests::default());
    let primed = crate::target::sse::read("id: 1\ndata:\n\nid: 2\ndata: {}\n\n");
    findings.inspect_stream(&primed, &mut requests);
    findings.inspect_get_stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n");
    assert!(findings.is_empty());
    findings.inspect_stream(&primed[1..], &mut requests);
    findings.inspect_get_stream("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    let words = Vec::from_iter(findings.lock().found.keys().cloned());
    assert_eq!(words, ["event-ids", "stream-responses", "unprimed"]);
}

#[test]
fn each_fault_yields_its_finding() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sum","_meta":{"progressToken":5}}}"#;
    let cases = [
        ("Server is running", "junk"),
        ("[]", "batches"),
        ("7", "junk"),
        (
            r#"{"id":1,"result":{"content":[],"isError":true}}"#,
            "malformed",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true},"error":{"code":1,"message":""}}"#,
            "malformed",
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, "malformed"),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
            "error-objects",
        ),
        (r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "strays"),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "malformed"),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            "no-structure shape-call",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}"#,
            "structured unmirrored",
        ),
        (
            r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}"#,
            "early-requests unasked-requests",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#,
            "undeclared-logs",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"5","progress":1}}"#,
            "progress-tokens",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5}}"#,
            "shape-notifications",
        ),
    ];
    for (line, word) in cases {
        assert_eq!(check(&[call], &[line]), word, "{line}");
    }
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}"#;
    assert_eq!(check(&[call], &[progress, progress]), "progress-backwards");
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#;
    assert_eq!(check(&[call], &[answer, progress]), "progress-late");
    assert_eq!(check(&[call], &[answer, answer]), "strays");
}
