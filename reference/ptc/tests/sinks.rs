//! Every output through which text from outside can leave: a credential is sent in every member of every kind of request, plain
//! and encoded, and then searched for in replies, on standard error, in traces and in metrics. Knows the server from outside only.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SECRET: &str = "canary-sinks-0123456789";
const TOKEN: &str = "token-of-sinks-abcdefghijklmnopqrstuvwxyz";
/// Credentials that the language reads as names of several parts, like signed tokens and cloud keys.
const DOTTED: &str = "eyJhead-sinks.eyJbody-sinks.signed-sinks-Q5x";
const SLASHED: &str = "AKfirst-sinks/K7second-sinks/bPxthird-sinks";
/// A credential of several program tokens. A message may quote each of them, and also a whole Lisp form and the remains of another
/// one.
const WORDS: &str = "velvet-sinks harbour-sinks/quay-sinks (amber-sinks) lantern-sinks";
/// Traces of a credential that was not redacted, and of its encoded forms.
const TRACES: &[&str] = &[
    "canary-sinks",
    "63616e6172792d73696e6b73",
    "Y2FuYXJ5LXNpbmtz",
    "canary\\u002dsinks",
    "canary&#45;sinks",
    "canary%252Dsinks",
    "canary%2Dsinks",
    "token-of-sinks",
    "eyJhead-sinks",
    "eyJbody-sinks",
    "signed-sinks",
    "AKfirst-sinks",
    "K7second-sinks",
    "bPxthird-sinks",
    "velvet-sinks",
    "harbour-sinks",
    "quay-sinks",
    "amber-sinks",
    "lantern-sinks",
];

/// The forms in which the credential is written.
fn forms() -> Vec<String> {
    let hexadecimal: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    [
        SECRET,
        TOKEN,
        DOTTED,
        SLASHED,
        WORDS,
        "canary%2Dsinks%2D0123456789",
        "canary%252Dsinks%252D0123456789",
        "canary&#45;sinks&#45;0123456789",
        "Y2FuYXJ5LXNpbmtzLTAxMjM0NTY3ODk=",
        "canary\\\\u002dsinks\\\\u002d0123456789",
        &hexadecimal,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Requests with `§` wherever a credential may appear; ids are the client's own and stay.
const REQUESTS: &[&str] = &[
    r#""method":"§""#,
    r#""method":"tools/§","params":{"§":"§"}"#,
    r#""method":"initialize","params":{"protocolVersion":"§","capabilities":{"§":{}},"clientInfo":{"name":"§","version":"§"}}"#,
    r#""method":"logging/setLevel","params":{"level":"§"}"#,
    r#""method":"tools/list","params":{"cursor":"§"}"#,
    r#""method":"tools/call","params":"§""#,
    r#""method":"tools/call","params":{"name":"§","arguments":{"§":"§"}}"#,
    r#""method":"tools/call","params":{"name":["§"]}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":"§"}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"§":1,"program":"1"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":["§"]}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(str \"§\" data/§)","context":{"§":["§",{"§":"§"}]}}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1","context":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1","context":"{\"§\":\"§\""}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1","signature":"(§) -> {§ :§}"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1","signature":"{q-§ :int"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"{\"§\" \"§\"}","output_schema":{"type":"object","properties":{"§":{"type":"integer"}},"required":["§"]}}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"{\"§\" \"§\"}","output_schema":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1","output_schema":{"§":"§","type":"§","enum":["§"]}}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(do (println \"§\" {:k \"§\"}) (tool/call {:server \"far\" :tool \"§\" :args {\"§\" \"§\"}}) (tool/call {:server \"§\" :tool \"§\" :args {\"§\" \"§\"}}))"},"_meta":{"traceparent":"§","progressToken":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(fail {\"§\" [\"§\" #{\"§\"} (keyword \"§\")]})"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"[(dir \"§\") (doc \"§\") (meta \"§\") (apropos \"§\") (tool/servers)]"}}"#,
    r#""method":"tools/list""#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(map (fn [t] (tool/call {:server \"far\" :tool t :args {:§ \"§\"}})) [\"t-§\" \"fails\" \"breaks\" \"x\"])"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"[(dir \"far\") (doc \"far/t-§\") (meta \"far/t-§\") (apropos \"says\")]"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_eval","arguments":{"session_id":"S","program":"(def r (tool/call {:server \"far\" :tool \"t-§\" :args {:a \"§\"}})) (tool/call {:server \"far\" :tool \"fails\" :args {:a \"§\"}})"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S","view":"tool_calls"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(re-find (re-pattern \"(§\") \"§\")"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(let [x \"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(q-§ (q-§/x 1) (.q-§ 1) :q/§ \\§ #§{})"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 §)"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(§ 1)"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 §"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"[1 §] :§ @§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(let [a 1] [a.§ §.b])"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(str/§ 1)"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(.§ 1)"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"data/§","context":{"near":1}}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(tool/§ 1)"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(tool/§ {})"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"[(java.time.LocalDate/parse \"§\") 1]"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(format \"§%q\" \"§\")"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(mapv (fn [i] (str \"§\" i)) (range 300))"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(json/generate-string {\"§\" (json/generate-string [\"§\"])})"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_start","arguments":{"§":"§","label":"§","title":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_start","arguments":{}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_eval","arguments":{"session_id":"S","program":"(def q-§ {\"§\" \"§\"}) (defn f \"§\" [§] \"§\") (println \"§\") \"§\""}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_eval","arguments":{"session_id":"S","program":"[*1 (f 1) \"§\"]"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_eval","arguments":{"session_id":"S","program":"(fail \"§\")"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S","view":"history"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S","view":"memory"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S","view":"prints"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_inspect","arguments":{"session_id":"S","view":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_forget","arguments":{"session_id":"S","clear":["§"],"bindings":["§"]}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_list","arguments":{"§":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_eval","arguments":{"session_id":"§","program":"1"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_close","arguments":{"session_id":"§","owner":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_session_close","arguments":{"session_id":"S","reason":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_debug","arguments":{"op":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_debug","arguments":{"op":"get","request_id":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_debug","arguments":{"op":"recent","limit":"§","reason":"§","tool":"§","§":"§"}}"#,
    r#""method":"tools/call","params":{"name":"lisp_debug","arguments":{"op":"recent","limit":50}}"#,
    r#""method":"tools/call","params":{"name":"lisp_debug","arguments":{"op":"stats"}}"#,
    r#""method":"notifications/cancelled","params":{"requestId":"§","reason":"§"}"#,
    r#""method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"§","io.modelcontextprotocol/clientCapabilities":{}}}"#,
    r#""method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"§"}},"name":"§"}"#,
    r#""method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"lisp_eval","arguments":{"program":"(q-§)","§":"§"},"inputResponses":{"§":"§"},"requestState":"§"}"#,
];

/// HTTP requests, from the request line on; `B` is replaced by the body's length and the body.
const HTTP: &[&str] = &[
    "GET /§?§=§ HTTP/1.1\r\nHost: localhost\r\nUser-Agent: §\r\nX-Request-Id: §\r\nReferer: §\r\ntraceparent: §\r\n\r\n",
    "§ /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: §\r\nContent-Length: 0\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://§\r\nContent-Length: 0\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer §-wrong\r\nX-Forwarded-For: §\r\nContent-Length: 0\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer T\r\nContent-Type: §\r\nAccept: §\r\nContent-Length: 2\r\n\r\n{}",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer T\r\nContent-Type: application/json\r\nMCP-Session-Id: §\r\nMCP-Protocol-Version: §\r\nContent-Length: 2\r\n\r\n{}",
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer T\r\nContent-Type: application/json\r\nX-Request-Id: §\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: §\r\nContent-Length: 172\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}   ",
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer T\r\n\r\n",
    "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/// Commands other than `start`, word by word, with their standard input. `FORM` is replaced by the credential in one of its forms.
/// Each command shows its input, so that something must be redacted.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["doctor", "--upstreams-config", "upstreams.json"], ""),
    (
        &[
            "doctor",
            "--http",
            "--http-port",
            "1",
            "--http-auth-token",
            TOKEN,
            "--trace-dir",
            "/no/FORM",
            "--upstreams-config",
            "upstreams.json",
        ],
        "",
    ),
    (
        &[
            "eval",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "[\"FORM\" (fn [] \"FORM\") {\"FORM\" #{\"FORM\"}}]",
        ],
        "",
    ),
    (
        &[
            "eval",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "(fail {\"FORM\" \"FORM\"})",
        ],
        "",
    ),
    (
        &[
            "eval",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "(let [a 1] (+ a FORM))",
        ],
        "",
    ),
    // Text is cut only after redaction.
    (
        &[
            "eval",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "(inc \"0123456789012345678901234567890123456789012345678901234567 FORM and more\")",
        ],
        "",
    ),
    (
        &[
            "repl",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "(println \"FORM\") (q-FORM \"FORM\")",
        ],
        "",
    ),
    (
        &[
            "repl",
            "--upstreams-config",
            "upstreams.json",
            "-e",
            "(do (println \"FORM\" {\"FORM\" 1}) [(dir \"far\") (apropos \"says\") (tool/servers) (tool/call {:server \"far\" :tool \"t-FORM\"})])",
        ],
        "",
    ),
    (
        &[
            "repl",
            "--upstreams-config",
            "upstreams.json",
            "--display",
            "envelope",
            "-e",
            "(do (println \"FORM\") (tool/call {:server \"far\" :tool \"fails\"}))",
        ],
        "",
    ),
    (
        &[
            "repl",
            "--upstreams-config",
            "upstreams.json",
            "--display",
            "json",
            "-e",
            "{\"FORM\" [\"FORM\"]}",
        ],
        "",
    ),
    (
        &["repl", "--upstreams-config", "upstreams.json"],
        ":tools\n:find says\n:doc far/t-FORM\n(def a \"FORM\")\na\n*1\n:display FORM\n(q \"FORM\"\n",
    ),
    (
        &[
            "agent",
            "run",
            "agent.toml",
            "--replay",
            "replay.jsonl",
            "--transcript",
            "--record",
            RECORDING,
        ],
        "",
    ),
    (
        &[
            "agent",
            "run",
            "agent.toml",
            "--replay",
            "replay-fails.jsonl",
            "--transcript",
        ],
        "",
    ),
    (
        &[
            "agent",
            "run",
            "agent.toml",
            "--replay",
            "replay-cut.jsonl",
            "--transcript",
        ],
        "",
    ),
];

/// The file in which an agent's exchanges are recorded.
const RECORDING: &str = "recording.jsonl";

/// Invalid members of an upstreams config entry, with a credential where none belongs.
const REFUSED: &[&str] = &[
    r#"{"transport":"FORM"}"#,
    r#"{"transport":"mcp_stdio","command":"sh","FORM":1}"#,
    r#"{"transport":"mcp_stdio","command":"sh","args":{"FORM":"FORM"}}"#,
    r#"{"transport":"mcp_http","url":"http://127.0.0.1:1/FORM"}"#,
    r#"{"transport":"mcp_http","url":"FORM"}"#,
    r#"{"transport":"mcp_http","url":"https://127.0.0.1:1/","auth":[{"scheme":"bearer","binding":"FORM"}]}"#,
    r#"{"transport":"mcp_http","url":"https://127.0.0.1:1/","auth":[{"scheme":"FORM","binding":"c"}]}"#,
    r#"{"transport":"mcp_http","url":"https://127.0.0.1:1/","static_headers":{"FORM":"FORM\n"}}"#,
    r#"{"transport":"openapi","base_url":"https://127.0.0.1:1/","schema_file":"FORM.json","include_operations":["FORM"]}"#,
    r#"{"transport":"openapi","base_url":"https://127.0.0.1:1/","schema_file":"api.json","include_operations":["FORM"]}"#,
    r#"{"transport":"openapi","base_url":"https://127.0.0.1:1/","schema_file":"api.json","include_operations":["op"]}"#,
];

/// A description that the compiler must refuse and quote.
const OPENAPI: &str = r##"{"openapi":"3.0.0","paths":{"/FORM":{"get":{"operationId":"op","parameters":[{"$ref":"#/FORM"}]}}}}"##;

/// An agent with a command that fails and one that answers, both with its environment; and the model's replies.
const AGENT: &str = r#"
prompt = "Say FORM"
upstreams = "upstreams.json"
max_turns = 3
[[tools]]
name = "broken"
signature = "() -> :any"
expose = "both"
command = ["sh", "-c", "echo broke with FORM and $OPENAI_API_KEY >&2; exit 3"]
[[tools]]
name = "tells"
signature = "() -> :any"
expose = "both"
command = ["sh", "-c", "echo tells $OPENAI_API_KEY"]
[[tools]]
name = "far"
signature = "() -> :any"
expose = "both"
upstream = { server = "far", tool = "fails" }
"#;
const REPLAY: &str = r#"{"reply":{"content":"FORM","tool_calls":[{"id":"c1","name":"broken","arguments":"{}"},{"id":"c2","name":"tells","arguments":"{}"},{"id":"c3","name":"far","arguments":"{}"},{"id":"c4","name":"FORM","arguments":"{\"FORM\":\"FORM\"}"}]}}
{"reply":{"content":"","tool_calls":[{"id":"c5","name":"lisp_eval","arguments":"{\"program\":\"(do (println \\\"FORM\\\") (tool/broken {}))\"}"}]}}
{"reply":{"content":"So it is FORM."}}
"#;
const REPLAY_FAILS: &str = r#"{"reply":{"content":"","tool_calls":[{"id":"c1","name":"lisp_eval","arguments":"{\"program\":\"(fail \\\"FORM\\\")\"}"}]}}
{"error":{"kind":"provider","message":"no FORM"}}
"#;
/// Programs that compose the credential at the point where their output is cut: none contains all of it.
const REPLAY_CUT: &str = r#"{"content":"","tool_calls":[{"id":"c1","name":"lisp_eval","args":{"program":"((str (apply str (repeat 66 \"x\")) \"canary-si\" \"nks-0123456789\") 1)"}}]}
{"content":"","tool_calls":[{"id":"c2","name":"lisp_eval","args":{"program":"(def s (str \"canary-si\" \"nks-0123456789\")) (def many (apply str (repeat 900 s))) (println many) (println [many many] {many many}) many"}}]}
{"content":"","tool_calls":[{"id":"c3","name":"lisp_eval","args":{"program":"(fail [(map (fn [n] (apply str (repeat n s))) (range 1 60)) many])"}}]}
"#;

/// An upstream that reveals the credential wherever it can.
const UPSTREAM: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  echo "asked with §: $line" >&2
  case $line in
    *initialize\"*) reply "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"§","version":"§"}}' ;;
    *tools/list*) reply "$id" '{"tools":[{"name":"t-§","title":"§","description":"Says §","inputSchema":{"type":"object","properties":{"§":{"type":"string","description":"§"}},"required":["§"]},"annotations":{"title":"§"}}]}' ;;
    *fails*) reply "$id" '{"isError":true,"content":[{"type":"text","text":"no §"}]}' ;;
    *breaks*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no §","data":"§"}}\n' "$id" ;;
    *tools/call*) reply "$id" '{"structuredContent":{"§":["§","\\u0063anary-sinks-0123456789"]}}' ;;
  esac
done
"#;

fn config(dir: &Path) -> std::path::PathBuf {
    let (config, script) = (dir.join("upstreams.json"), dir.join("far.sh"));
    let entry = serde_json::json!({
        "credentials": {
            "c": {"source": "literal", "value": SECRET},
            "t": {"source": "literal", "value": TOKEN},
            "d": {"source": "literal", "value": DOTTED},
            "s": {"source": "literal", "value": SLASHED},
            "w": {"source": "literal", "value": WORDS},
        },
        "upstreams": {"far": {
            "transport": "mcp_stdio", "command": "sh", "args": [script], "description": format!("Knows {SECRET}"),
        }},
    });
    std::fs::write(&config, entry.to_string()).unwrap();
    std::fs::write(&script, UPSTREAM.replace('§', SECRET)).unwrap();
    config
}

/// The output of a command on both streams.
fn output_of(dir: &Path, words: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args(words)
        .current_dir(dir)
        .env("OPENAI_API_KEY", TOKEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may have ended already.
    let _ = command.stdin.take().unwrap().write_all(input.as_bytes());
    let output = command.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn no_command_shows_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    config(dir);
    let mut markers = vec![0; COMMANDS.len()];
    for form in forms() {
        let fill = |text: &str, form: &str| text.replace("FORM", form);
        let quoted = form.replace("\\\\", "\\");
        let in_json = quoted.replace('\\', "\\\\");
        std::fs::write(dir.join("agent.toml"), fill(AGENT, &in_json)).unwrap();
        for (file, text) in [
            ("replay.jsonl", REPLAY),
            ("replay-fails.jsonl", REPLAY_FAILS),
            ("replay-cut.jsonl", REPLAY_CUT),
        ] {
            // A program in the arguments of a reply is JSON in JSON.
            let lines = text.replace(
                "\\\"FORM\\\"",
                &format!("\\\"{}\\\"", in_json.replace('\\', "\\\\\\\\")),
            );
            std::fs::write(dir.join(file), fill(&lines, &in_json)).unwrap();
        }
        for ((words, input), markers) in COMMANDS.iter().zip(&mut markers) {
            let filled: Vec<String> = words.iter().map(|word| fill(word, &form)).collect();
            let filled: Vec<&str> = filled.iter().map(String::as_str).collect();
            let told = output_of(dir, &filled, &fill(input, &form));
            *markers += assert_redacted(&filled.join(" "), &told);
            if words.contains(&RECORDING) {
                let recording = std::fs::read_to_string(dir.join(RECORDING)).unwrap();
                let found = assert_redacted("the recording", &recording);
                assert!(found > 0, "what was said is recorded: {recording}");
            }
        }
    }
    for ((words, _), markers) in COMMANDS.iter().zip(markers) {
        assert!(markers > 0, "{words:?} shows nothing");
    }
}

/// Messages may quote a refused config, which may have a credential where none belongs.
#[test]
fn no_refusal_of_a_config_shows_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("api.json"), OPENAPI.replace("FORM", SECRET)).unwrap();
    let mut markers = 0;
    for entry in REFUSED {
        let entry = entry.replace("FORM", SECRET);
        let text = format!(
            r#"{{"credentials":{{"c":{{"source":"literal","value":"{SECRET}"}}}},"upstreams":{{"far":{entry}}}}}"#
        );
        std::fs::write(dir.join("refused.json"), text).unwrap();
        for command in [
            &["doctor"][..],
            &["start"],
            &["eval", "-e", "1"],
            &["repl", "-e", "1"],
        ] {
            let words = [command, &["--upstreams-config", "refused.json"]].concat();
            let told = output_of(dir, &words, "");
            markers += assert_redacted(&format!("{} of {entry}", command[0]), &told);
            assert!(told.contains("far"), "{command:?} of {entry}: {told}");
        }
    }
    assert!(markers > 2 * REFUSED.len(), "only {markers} markers");
}

fn start(dir: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args([
            "start",
            "--sessions",
            "--debug-tool",
            "--log-level",
            "debug",
        ])
        .args(["--response-profile", "debug", "--trace-payloads", "full"])
        .arg("--trace-dir")
        .arg(dir.join("traces"))
        .arg("--upstreams-config")
        .arg(config(dir))
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Panics when `text`, an output of `sink`, contains a credential; returns the number of markers in it.
fn assert_redacted(sink: &str, text: &str) -> usize {
    for line in text.lines() {
        for trace in TRACES {
            assert!(!line.contains(trace), "{sink} shows {trace}: {line}");
        }
    }
    text.matches("[REDACTED]").count()
}

fn assert_traces_redacted(dir: &Path) {
    let mut markers = 0;
    for file in std::fs::read_dir(dir.join("traces")).unwrap() {
        markers += assert_redacted(
            "a trace",
            &std::fs::read_to_string(file.unwrap().path()).unwrap(),
        );
    }
    assert!(markers > 0, "what is traced was sent");
}

#[test]
fn no_reply_log_line_or_trace_shows_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), &[]);
    let mut log = server.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut told = String::new();
        log.read_to_string(&mut told).map(|_| told).unwrap()
    });
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let (mut session, mut markers) = (String::from("none"), 0);
    let mut id = 0;
    for form in forms() {
        for request in REQUESTS {
            id += 1;
            let body = request
                .replace('§', &form)
                .replace("\"S\"", &format!("\"{session}\""));
            // A notification has no answer; the answer to the next request shows that it was read.
            if !request.contains("notifications/") {
                writeln!(input, "{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}").unwrap();
                let mut reply = String::new();
                output.read_line(&mut reply).unwrap();
                markers += assert_redacted(request, &reply);
                if let Some((_, rest)) = reply.split_once("\"session_id\":\"")
                    && request.contains("lisp_session_start")
                {
                    session = rest.split('"').next().unwrap().to_owned();
                }
            } else {
                writeln!(input, "{{\"jsonrpc\":\"2.0\",{body}}}").unwrap();
            }
        }
        writeln!(input, "{form} is no JSON").unwrap();
        let mut reply = String::new();
        output.read_line(&mut reply).unwrap();
        assert_redacted("what is no JSON", &reply);
    }
    assert_ne!(session, "none");
    assert!(
        markers > 500,
        "only {markers} markers: was anything quoted?"
    );
    drop(input);
    server.wait().unwrap();
    assert!(assert_redacted("the log", &log.join().unwrap()) > 0);
    assert_traces_redacted(dir.path());
}

#[test]
fn no_http_answer_shows_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let port = support::ports::free_port().to_string();
    let flags = [
        "--http",
        "--http-port",
        &port,
        "--http-metrics",
        "--http-auth-rate-limit-max-failures",
        "1000",
    ];
    let mut server = start(
        dir.path(),
        &[&flags[..], &["--http-auth-token", TOKEN]].concat(),
    );
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut told = String::new();
    for line in lines.by_ref() {
        told += &line.unwrap();
        told.push('\n');
        if told.contains("http_listening") {
            break;
        }
    }
    let log = std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .fold(told, |told, line| told + &line + "\n")
    });
    for form in forms() {
        for request in HTTP {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            stream
                .set_read_timeout(Some(std::time::Duration::from_secs(20)))
                .unwrap();
            let request = request
                .replace('§', &form)
                .replace("Bearer T", &format!("Bearer {TOKEN}"));
            let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            // The server may refuse before it has read everything.
            let _ = stream.write_all(request.as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(!answer.is_empty(), "nothing answers {request}");
            let answer = String::from_utf8_lossy(&answer).into_owned();
            // As in JSON-RPC, a request's id belongs to its sender: it is returned unchanged.
            let id = |line: &&str| !line.starts_with("x-request-id: ");
            let answer: Vec<&str> = answer.lines().filter(id).collect();
            assert_redacted(&request, &answer.join("\n"));
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(assert_redacted("the log", &log.join().unwrap()) > 0);
}

/// What clients wrote into sessions is also shown to operators.
#[test]
fn no_store_command_shows_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().join("store").display());
    let mut server = start(dir.path(), &["--session-store", &store]);
    drop(server.stderr.take());
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut call = |tool: &str, arguments: serde_json::Value| {
        let params = serde_json::json!({"name": tool, "arguments": arguments});
        let frame = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writeln!(input, "{frame}").unwrap();
        let mut reply = String::new();
        output.read_line(&mut reply).unwrap();
        serde_json::from_str::<serde_json::Value>(&reply).unwrap()
    };
    let mut sessions = Vec::new();
    for form in forms() {
        let title = form.replace("\\\\", "\\");
        let started = call("lisp_session_start", serde_json::json!({"title": title}));
        let id = started["result"]["structuredContent"]["session_id"].clone();
        // One value is shown whole, another is cut.
        let text = serde_json::Value::from(title);
        let program = format!(
            "(def a {text}) (def b (str (apply str (repeat 190 \"x\")) {text})) (def c {{{text} [{text}]}})"
        );
        call(
            "lisp_session_eval",
            serde_json::json!({"session_id": id, "program": program}),
        );
        sessions.push(id.as_str().unwrap().to_owned());
    }
    drop(input);
    server.wait().unwrap();
    let ask = |words: &[&str]| {
        let flags = [
            "--session-store",
            &store,
            "--upstreams-config",
            "upstreams.json",
        ];
        let words = [&["session"], words, &flags[..]].concat();
        let told = output_of(dir.path(), &words, "");
        assert!(
            assert_redacted(&words.join(" "), &told) > 0,
            "{words:?} shows {told}"
        );
    };
    ask(&["list"]);
    for id in &sessions {
        ask(&["show", id]);
    }
}

/// Responses of an HTTP upstream, with `§` for the credential that it received: each in turn, to any request.
const HTTP_FAULTS: &[&str] = &[
    "HTTP/1.1 500 §\r\nX-§: §\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nbroke with §",
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/§?t=§\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"§\"\r\nConnection: close\r\n\r\n{\"error\":\"§ is not welcome\"}",
    "HTTP/1.1 200 OK\r\nContent-Type: §/§\r\nConnection: close\r\n\r\n§",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":\"§\",\"error\":{\"code\":1,\"message\":\"§\",\"data\":\"§\"}}",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"§\":[\"§\"",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nevent: §\ndata: §\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"§\",\"params\":{\"§\":\"§\"}}\n\n",
    "HTTP/1.1 200 OK\r\n§\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 9999\r\nConnection: close\r\n\r\n<p>§</p>",
    "§ is no HTTP\r\n\r\n",
];

/// Responds to every request with the next fault.
fn faulty_upstream() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The thread ends with the test.
    std::thread::spawn(move || {
        let faults = HTTP_FAULTS.iter().cycle();
        for (stream, fault) in listener.incoming().zip(faults) {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 16 * 1024];
            let _ = stream.set_read_timeout(Some(std::time::Duration::from_secs(5)));
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(fault.replace('§', SECRET).as_bytes());
        }
    });
    port
}

#[test]
fn no_http_upstream_fault_shows_a_credential() {
    const API: &str = r#"{"openapi":"3.0.0","info":{"title":"§","version":"1"},"paths":{"/x":{"get":{"operationId":"getx","parameters":[{"name":"q","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"§"}}}}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let port = faulty_upstream();
    std::fs::write(dir.join("api.json"), API.replace('§', SECRET)).unwrap();
    let auth = serde_json::json!([{"scheme": "bearer", "binding": "c"}]);
    let entry = |name: &str, upstream: serde_json::Value| {
        let config = serde_json::json!({
            "credentials": {"c": {"source": "literal", "value": SECRET}},
            "upstreams": {name: upstream},
        });
        let file = format!("{name}.json");
        std::fs::write(dir.join(&file), config.to_string()).unwrap();
    };
    let url = format!("http://127.0.0.1:{port}");
    entry(
        "web",
        serde_json::json!({
            "transport": "mcp_http", "url": format!("{url}/{SECRET}"),
            "allow_insecure_http": true, "allow_insecure_auth": true, "auth": auth,
        }),
    );
    entry(
        "service",
        serde_json::json!({
            "transport": "openapi", "base_url": url, "schema_file": "api.json", "include_operations": ["getx"],
            "allow_insecure_http": true, "allow_insecure_auth": true, "auth": auth,
        }),
    );
    // An MCP server with such responses does not even start: checks the messages about it, in repeated attempts.
    for round in 0..HTTP_FAULTS.len() {
        for words in [&["doctor"][..], &["start"]] {
            let words = [words, &["--upstreams-config", "web.json"]].concat();
            let told = output_of(dir, &words, "");
            assert_redacted(&format!("{} in round {round}", words.join(" ")), &told);
            assert!(told.contains("web"), "{words:?}: {told}");
        }
    }
    let config = ["--upstreams-config", "service.json"];
    let program = format!(
        "[(mapv (fn [i] (tool/call {{:server \"service\" :tool \"getx\" :args {{:q \"{SECRET}\"}}}})) (range 20)) (dir \"service\") (tool/servers)]"
    );
    let mut markers = 0;
    for words in [
        &["eval", "-e", &program][..],
        &["repl", "--display", "envelope", "-e", &program],
        &["doctor"],
    ] {
        let words = [words, &config].concat();
        markers += assert_redacted(&words.join(" "), &output_of(dir, &words, ""));
    }
    let call = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "lisp_eval", "arguments": {"program": program}},
    });
    let start = [
        &[
            "start",
            "--debug-tool",
            "--log-level",
            "debug",
            "--response-profile",
            "debug",
            "--trace-payloads",
            "full",
            "--trace-dir",
            "traces",
        ][..],
        &config,
    ]
    .concat();
    markers += assert_redacted("start", &output_of(dir, &start, &format!("{call}\n")));
    assert_traces_redacted(dir);
    assert!(markers > 10, "only {markers} markers: was anything quoted?");
}
