//! Runs the commands that `show` prints for a case in a shell: they do to the reference what the harness would do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = r#"# Few {#few}

## Flags {#few.flags}

```toml target
flags.max_program_bytes = 10
```
```clj
;name one
(+ 1 2 3 4 5 6) ;!! args_error
```

## Variables {#few.variables}

```toml target
env.PTC_RUNNER_MCP_MAX_PROGRAM_BYTES = "10"
```
```clj
;name one
(+ 1 2 3 4 5 6) ;!! args_error
```

## Peers {#few.peers}

```toml target
[peers.fx]
kind = "stdio"
tools = [{ name = "text", does = { text = "it's\na pipe" } }]
[peers.web]
kind = "http"
tools = [{ name = "text", does = { text = "a 'socket'" } }]
```
```clj
;name one
(map (fn [server] (:value (tool/call {:server server :tool "text"}))) ["fx" "web"]) ;=> ["it's\na pipe" "a 'socket'"]
```

## Files {#few.files}

```toml target
[files]
"plans/one.jsonl" = "{\"content\": \"(return {:answer 42})\"}"
[flags]
agentic = true
agentic_model = "replay:{{dir}}/plans/one.jsonl"
aggregator_read_only = true
[peers.fx]
kind = "stdio"
tools = []
```
```wire #one
-> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lisp_task", "arguments": {"task": "?"}}}
<- {"id": 1, "...": "..."}
```

## Bytes {#few.bytes}

```wire bare #one
->raw \xFF\n
<- {"...": "..."}
-> {"jsonrpc": "2.0", "id": 7, "method": "ping"}
<- {"...": "..."}
```

## Commands {#few.commands}

```cli #one
file sums/one.clj
| (+ 1 2)
| ; no end
$ ptc repl sums/one.clj
exit 0
```
```cli #two
stdin
| (* 6 7)
$ ptc repl -
exit 0
```

## Over HTTP {#few.http}

```http #one
-> POST /mcp
Content-Type: application/json
Accept: application/json, text/event-stream

{"jsonrpc": "2.0", "id": 7, "method": "nothing"}
<- 400
```

## Messages {#few.posts}

```wire #one
-> {"jsonrpc": "2.0", "id": 1, "method": "ping"}
<- {"id": 1, "...": "..."}
-> {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
-> {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "lisp_eval", "arguments": {"program": "(+ 1 2)"}}}
<- {"id": 2, "...": "..."}
```

## Raw requests {#few.raw}

```http #usual
->raw POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{"its": "'"}
<- 400
```
```http #no-host
->raw GET /health HTTP/1.1\r\n\r\n
<- 400
```
```http #bad-length
->raw POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: +2\r\n\r\n{}
<- 400
```
```http #dots
->raw GET /a/../health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n
<- 404
```

## Not by hand {#few.not}

```http #one
-> [a] GET /health
hang up [a]
-> GET /health
<- 200
```
```wire #two
-> {"jsonrpc": "2.0", "id": 1, "method": "ping"}
<- <reply:any>
-> {{reply}}
<- <any>
```
"#;

/// The output of a case's commands, if there are any.
fn by_hand(id: &str) -> Option<String> {
    by_hand_against(id, &[])
}

fn by_hand_against(id: &str, target: &[&str]) -> Option<String> {
    let bench = tempfile::tempdir().expect("a directory");
    let commands = commands_for(id, target, bench.path())?;
    let programs = bench.path().join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new("sh")
        .args(["-c", &commands])
        .env("PATH", format!("{}:{path}", programs.display()))
        // The directory in which the commands create theirs.
        .env("TMPDIR", bench.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("a shell");
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Sends its input to a host and a port, and prints the answer, as `nc -w SECONDS HOST PORT` does.
const NC: &str = "#!/bin/bash\nexec 3<>\"/dev/tcp/$3/$4\" && cat >&3 && timeout \"$2\" cat <&3\n";

/// The commands for a case, if there are any. The programs that they need are in `bin` of the bench.
fn commands_for(id: &str, target: &[&str], bench: &Path) -> Option<String> {
    let suite = bench.join("spec");
    let programs = bench.join("bin");
    for directory in [&suite, &programs] {
        std::fs::create_dir(directory).expect("a directory");
    }
    std::fs::write(suite.join("few.md"), PAGE).expect("a page");
    let harness = Path::new(env!("CARGO_BIN_EXE_ptc-conformance"));
    let reference = harness.with_file_name("examples").join("reference");
    for (name, program) in [("ptc", &*reference), ("ptc-conformance", harness)] {
        std::os::unix::fs::symlink(program, programs.join(name)).expect("a link");
    }
    let nc = programs.join("nc");
    std::fs::write(&nc, NC).expect("a script");
    std::fs::set_permissions(&nc, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let shown = Command::new(harness)
        .args(["show", id, "--suite"])
        .arg(&suite)
        .args(target)
        .output()
        .expect("the harness starts");
    assert!(shown.status.success(), "{id}");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    let (_, rest) = shown.split_once("\nBy hand:\n\n")?;
    let (commands, _) = rest.split_once("\n\nThrough the harness:")?;
    Some(commands.to_owned())
}

#[test]
fn shell_commands_do_what_the_harness_does() {
    for (id, pieces) in [
        // The program follows the handshake.
        ("few.flags/one", &["protocolVersion", "args_error"][..]),
        ("few.variables/one", &["args_error"]),
        ("few.peers/one", &[r"it's\\na pipe", "a 'socket'"]),
        ("few.files/one", &["protocolVersion", "42"]),
        ("few.bytes/one", &["-32700", "\"id\":7"]),
        ("few.commands/one", &["3"]),
        ("few.commands/two", &["42"]),
        ("few.http/one", &["HTTP/1.1 4"]),
        ("few.raw/usual", &["-32600"]),
        ("few.raw/no-host", &["HTTP/1.1 400"]),
    ] {
        let printed = by_hand(id).unwrap_or_else(|| panic!("no commands for {id}"));
        for piece in pieces {
            assert!(printed.contains(piece), "{id}: no {piece} in\n{printed}");
        }
    }
}

#[test]
fn running_server_is_called_with_curl() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let harness = Path::new(env!("CARGO_BIN_EXE_ptc-conformance"));
    let mut server = Command::new(harness.with_file_name("examples").join("reference"))
        .args(["start", "--http", "--http-port", &port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the reference starts");
    let address = ("127.0.0.1", port);
    for _ in 0..200 {
        if std::net::TcpStream::connect(address).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    let raw = by_hand_against("few.raw/usual", &["--url", &url]).expect("commands");
    assert!(raw.contains("-32600"), "{raw}");
    let printed = ["few.flags/one", "few.posts/one"]
        .map(|id| by_hand_against(id, &["--url", &url]).expect("commands"));
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    // The server was started without the flag.
    assert!(printed[0].contains("user=> 21"), "{}", printed[0]);
    // The second call belongs to the session, and a notification has no answer.
    assert_eq!(printed[1].matches("jsonrpc").count(), 2, "{}", printed[1]);
    assert!(printed[1].contains("user=> 3"), "{}", printed[1]);
}

#[test]
fn raw_request_is_curl_only_where_curl_sends_the_same() {
    for (id, told) in [
        ("few.raw/usual", "curl -si -X POST -H 'Host: localhost' "),
        (
            "few.raw/usual",
            r#"--data-binary '{"its": "'\''"}' http://127.0.0.1:9/mcp"#,
        ),
        (
            "few.raw/no-host",
            r"printf %b 'GET /health HTTP/1.1\0015\n\0015\n' | nc -w 3 127.0.0.1 9",
        ),
        ("few.raw/bad-length", "| nc -w 3 127.0.0.1 9"),
        ("few.raw/dots", "| nc -w 3 127.0.0.1 9"),
    ] {
        let bench = tempfile::tempdir().expect("a directory");
        let target = ["--url", "http://127.0.0.1:9/mcp"];
        let commands = commands_for(id, &target, bench.path()).expect("commands");
        assert!(commands.contains(told), "{id}: {commands}");
    }
}

#[test]
fn cases_beyond_shell_commands_have_none() {
    assert_eq!(by_hand("few.not/one"), None);
    assert_eq!(by_hand("few.not/two"), None);
}
