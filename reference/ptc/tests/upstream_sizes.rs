//! Upstreams with excessive descriptions: schemas with tens of thousands of names, listings made of brackets, descriptions that grow
//! when their references are resolved. A call to them ends within its time limit, and the memory for them is about as large as what
//! they sent. Knows the server through its pipes only.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{ChildStdout, Command};
use std::sync::Arc;
use support::Process;
use support::http::Message;

/// Names in the largest schemas: more than fit into headers, and enough that a quadratic algorithm would take minutes.
const NAMES: usize = 40_000;
/// Bytes of one page of a listing.
const PAGE_BYTES: usize = 1_900_000;
/// Pages that consist of brackets only.
const PAGES: usize = 10;
/// Maximum memory of the server per listed byte, and in addition to that.
const HELD_TIMES_MAX: u64 = 3;
const HELD_BESIDES_BYTES: u64 = 96 << 20;

/// The pages of a listing, each the JSON of its tools.
type Listing = Vec<String>;

/// An MCP server of the stateless revisions, which have no `initialize`. Ends with the test.
fn upstream(listing: Listing) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let listing = Arc::new(listing);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let listing = Arc::clone(&listing);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut writer = stream;
                while let Some(message) = Message::read(&mut reader) {
                    let frame: Value = serde_json::from_slice(&message.body).unwrap_or_default();
                    let body = answer(&frame, &listing);
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
                    if write!(
                        writer,
                        "{head}\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    )
                    .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn answer(frame: &Value, listing: &Listing) -> String {
    let id = &frame["id"];
    let result = match frame["method"].as_str() {
        Some("initialize") => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
        }
        Some("tools/list") => {
            let cursor = frame["params"]["cursor"].as_str().unwrap_or("0");
            let page: usize = cursor.parse().unwrap();
            let next = match page + 1 < listing.len() {
                true => format!(",\"nextCursor\":\"{}\"", page + 1),
                false => String::new(),
            };
            format!("{{\"tools\":[{}]{next}}}", listing[page])
        }
        Some("tools/call") if frame["params"]["name"] == "complains" => {
            let text = "e".repeat(PAGE_BYTES);
            format!(r#"{{"isError":true,"content":[{{"type":"text","text":"{text}"}}]}}"#)
        }
        Some("tools/call") => r#"{"structuredContent":"called"}"#.to_owned(),
        _ => "{}".to_owned(),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

struct Server {
    child: Process,
    replies: BufReader<ChildStdout>,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(upstream: &Value) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("upstreams.json");
        // With a registered credential, the shown tools are a second copy unless they share text with the raw ones.
        let credential = json!({"source": "literal", "value": "credential-of-nobody-0123456789"});
        let text = json!({"credentials": {"c": credential}, "upstreams": {"far": upstream}});
        std::fs::write(&config, text.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptc"));
        command
            .args(["start", "--program-timeout-ms", "120000"])
            .args(["--upstream-call-timeout-ms", "20000"])
            .args(["--max-upstream-response-bytes", "2000000"])
            .args(["--trace-payloads", "full"])
            .arg("--trace-dir")
            .arg(dir.path().join("traces"))
            .arg("--upstreams-config")
            .arg(&config);
        let (child, replies) = support::spawn_piped(&mut command);
        Server {
            child: Process(child),
            replies,
            _dir: dir,
        }
    }

    fn listing(listing: Listing) -> Server {
        Server::start(&json!({
            "transport": "mcp_http",
            "url": format!("http://127.0.0.1:{}/mcp", upstream(listing)),
            "allow_insecure_http": true,
            "handshake_timeout_ms": 60_000,
            "request_timeout_ms": 60_000,
        }))
    }

    /// The text of the answer to a program.
    fn eval(&mut self, program: &str) -> String {
        let frame = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "lisp_eval", "arguments": {"program": program}}});
        writeln!(self.child.stdin.as_mut().unwrap(), "{frame}").unwrap();
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = reply["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("an answer, not {line:?}"))
            .to_owned()
    }

    /// Asserts that the answer to a program has this beginning, and that the next program works.
    fn assert_answer(&mut self, program: &str, beginning: &str) {
        let text = self.eval(program);
        let shown: String = text.chars().take(300).collect();
        assert!(text.starts_with(beginning), "{program}: {shown}");
        assert_eq!(self.eval("(+ 1 2)"), "user=> 3", "after {program}");
    }

    #[cfg(target_os = "linux")]
    fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    #[cfg(target_os = "linux")]
    fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    #[cfg(target_os = "linux")]
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            << 10
    }
}

/// A tool whose schema has `NAMES` properties like `property`, or if that is empty, `NAMES` required names like `required`; `§` is
/// the name.
fn tool(name: &str, property: &str, required: &str) -> String {
    let (mut properties, mut needed) = (String::new(), String::new());
    for at in 0..NAMES {
        let separator = if at == 0 { "" } else { "," };
        let _ = write!(
            properties,
            "{separator}{}",
            property.replace('§', &format!("k{at}"))
        );
        let _ = write!(
            needed,
            "{separator}{}",
            required.replace('§', &format!("k{at}"))
        );
    }
    let (properties, needed) = match (property, required) {
        ("", _) => ("", needed.as_str()),
        _ => (properties.as_str(), ""),
    };
    format!(
        r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}},"required":[{needed}]}}}}"#
    )
}

#[test]
fn call_with_a_huge_schema_ends_in_time() {
    let mut server = Server::listing(vec![
        tool("marked", r#""§":{"x-mcp-header":"§"}"#, ""),
        tool("needing", "", r#""§""#),
        format!(r#"{{"name":"{}"}}"#, "n".repeat(PAGE_BYTES)),
    ]);
    let all = format!("(into {{}} (map (fn [i] [(str \"k\" i) \"x\"]) (range {NAMES})))");
    let call = |tool: &str, args: &str| {
        format!("(tool/call {{:server \"far\" :tool \"{tool}\" :args {args}}})")
    };
    server.assert_answer(&call("marked", r#"{:k7 "x"}"#), "user=> {:ok true");
    server.assert_answer(
        &call("marked", &all),
        "user=> {:message \"mcp_http request: arguments that the tool wants in headers exceed 65536 bytes\"",
    );
    server.assert_answer(
        &call("marked", r#"{:k7 (apply str (repeat 100000 "x"))}"#),
        "user=> {:message \"mcp_http request: arguments that the tool wants in headers exceed 65536 bytes\"",
    );
    server.assert_answer(&call("needing", &all), "user=> {:ok true");
    server.assert_answer(
        &call("needing", r#"{:rows (vec (range 100000))}"#),
        "runtime_error: tool 'far.needing' rejected args: missing required args k0, k1, ",
    );
    server.assert_answer(r#"(count (doc "far/marked"))"#, "user=> ");
    server.assert_answer(r#"(count (doc "far/needing"))"#, "user=> ");
    // The list of possible names is bounded.
    server.assert_answer(
        &call("unknown", "{}"),
        "runtime_error: no tool 'unknown' in upstream 'far'",
    );
}

#[test]
#[cfg(target_os = "linux")]
fn tool_list_takes_about_its_wire_size() {
    let brackets = format!("[{}[]]", "[],".repeat(PAGE_BYTES / 3));
    let page = |at: usize| {
        format!(r#"{{"name":"t{at}","inputSchema":{{"type":"object","x":{brackets}}}}}"#)
    };
    let words: String = (0..PAGE_BYTES / 7).map(|at| format!("{at:06x} ")).collect();
    let wordy = |at: usize| format!(r#"{{"name":"w{at}","description":"{words}"}}"#);
    let listing: Listing = (0..PAGES).flat_map(|at| [page(at), wordy(at)]).collect();
    let listed: u64 = listing.iter().map(|page| page.len() as u64).sum();
    let mut few = Server::listing(vec![r#"{"name":"t"}"#.into()]);
    few.assert_answer("1", "user=> 1");
    let mut server = Server::listing(listing);
    server.assert_answer(
        r#"(:ok (tool/call {:server "far" :tool "t0" :args {}}))"#,
        "user=> true",
    );
    let held = server.resident().saturating_sub(few.resident());
    println!("{} KB are held of {} KB", held >> 10, listed >> 10);
    assert!(
        held <= HELD_TIMES_MAX * listed + HELD_BESIDES_BYTES,
        "{held} bytes are held of {listed}"
    );
}

/// A program forgets an error; replies, traces and sessions list all of them.
#[test]
#[cfg(target_os = "linux")]
fn long_upstream_errors_are_not_kept_whole() {
    const CALLS: usize = 20;
    let mut server = Server::listing(vec![r#"{"name":"complains"}"#.into()]);
    let program = |calls: usize| {
        format!(
            "(count (mapv (fn [i] (count (:message (tool/call {{:server \"far\" :tool \"complains\" :args {{}}}})))) (range {calls})))"
        )
    };
    server.assert_answer(&program(1), "user=> 1");
    let before = server.peak();
    server.assert_answer(&program(CALLS), &format!("user=> {CALLS}"));
    let grown = server.peak() - before;
    println!("{} KB more after {CALLS} errors", grown >> 10);
    assert!(
        grown <= HELD_BESIDES_BYTES / 2,
        "{grown} bytes more after {CALLS} errors"
    );
}

/// An OpenAPI document with one operation that refers `times` times to a schema with `bytes` of description, and with `paths` other
/// paths that an argument of the operation could match.
fn api(times: usize, bytes: usize, paths: usize) -> String {
    let wide = json!({"type": "object", "description": "d".repeat(bytes)});
    let answer: HashMap<String, Value> = (0..times)
        .map(|at| {
            (
                format!("p{at}"),
                json!({"$ref": "#/components/schemas/wide"}),
            )
        })
        .collect();
    let mut all = json!({
        "/things/{id}": {"get": {
            "operationId": "getThing",
            "parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                {"name": "q", "in": "query", "schema": {"type": "string"}},
            ],
            "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "object", "properties": answer}}}}},
        }},
    });
    for at in 0..paths {
        let path = format!("/things/{{a}}x{at}{{b}}y");
        all[&path] = json!({"get": {"operationId": format!("other{at}"), "responses": {}}});
    }
    json!({"openapi": "3.0.0", "paths": all, "components": {"schemas": {"wide": wide}}}).to_string()
}

fn service(dir: &std::path::Path, api: &str) -> Value {
    let file = dir.join("api.json");
    std::fs::write(&file, api).unwrap();
    json!({
        "transport": "openapi",
        "base_url": "http://127.0.0.1:1/v1",
        "allow_insecure_http": true,
        "schema_file": file,
        "include_operations": ["getThing"],
    })
}

#[test]
fn endlessly_expanding_openapi_description_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&service(dir.path(), &api(2_000, 500_000, 0)));
    let mut reply = String::new();
    // The server ends before it answers.
    assert_eq!(server.replies.read_line(&mut reply).unwrap(), 0, "{reply}");
    assert!(!server.child.wait().unwrap().success());
}

#[test]
fn url_arguments_are_limited_to_the_url_length() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&service(dir.path(), &api(1, 1, 10_000)));
    let call = |args: &str| {
        format!("(:message (tool/call {{:server \"far\" :tool \"get-thing\" :args {args}}}))")
    };
    let long = r#"(apply str (repeat 200000 "a"))"#;
    for args in [
        format!("{{:id {long}}}"),
        format!("{{:id \"a\" :q {long}}}"),
        r#"{:id "a" :q (apply str (repeat 30000 "é"))}"#.to_owned(),
    ] {
        server.assert_answer(&call(&args), "user=> \"request URL exceeds 65534 bytes\"");
    }
    server.assert_answer(
        &call(r#"{:id (apply str (repeat 60000 "a"))}"#),
        "user=> \"connection refused\"",
    );
}
