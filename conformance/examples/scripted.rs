//! A server that evaluates only `(+ a b)` and has one kind of misbehaviour, named by its first argument.
//! It shares no code with the reference or the harness; the tests of targets start it.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// Commands to a terminal and to a runner of workflows, and a line that imitates the harness.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}\n::error::forged\nconforms\n";

fn main() {
    let fault = std::env::args().nth(1).unwrap_or_default();
    if fault == "spawns" {
        // A grandchild that outlives its parent, unless the whole group is killed.
        let marker = std::env::args().nth(2).unwrap_or_default();
        let grandchild = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM HUP; sleep 300; : \"$0\"", &marker])
            .spawn();
        assert!(grandchild.is_ok(), "sh starts");
    }
    if fault == "escapes" {
        // A grandchild that leaves the group and the session before its parent answers anything.
        let marker = std::env::args().nth(2).unwrap_or_default();
        let escaped = std::process::Command::new("setsid")
            .args(["sh", "-c", "(sleep 300; : \"$0\") & sleep 300", &marker])
            .stdin(std::process::Stdio::null())
            .spawn();
        assert!(escaped.is_ok(), "setsid starts");
    }
    if fault == "regroups" {
        // The process joins its parent's group, and no longer leads its own.
        let group =
            nix::unistd::getpgid(Some(nix::unistd::getppid())).expect("its parent is there");
        nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), group)
            .expect("both are in one session");
    }
    if fault == "floods-behind" {
        // A grandchild leaves the group and writes to both streams without end or line break, to standard output only after a second.
        let escaped = std::process::Command::new("setsid")
            .args([
                "sh",
                "-c",
                "cat /dev/zero >&2 & sleep 1; exec cat /dev/zero",
            ])
            .stdin(std::process::Stdio::null())
            .spawn();
        assert!(escaped.is_ok(), "setsid starts");
    }
    if fault == "curses" {
        eprint!("{HOSTILE}");
        let mut out = std::io::stdout();
        let _reader_gone = write!(out, "{HOSTILE}").and_then(|()| out.flush());
        std::process::exit(3);
    }
    let mut calls = 0_u64;
    let mut answered = Value::Null;
    let mut lines = std::io::stdin().lock().lines();
    // Lines that were read while the answer to a ping was awaited.
    let mut read = VecDeque::new();
    while let Some(line) = read.pop_front().or_else(|| lines.next()) {
        let Ok(line) = line else { return };
        let Ok(request) = serde_json::from_str::<Value>(&line) else {
            write_frame(
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}}),
            );
            continue;
        };
        let Some(id) = request.get("id") else {
            continue;
        };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": false}},
                "serverInfo": {"name": "scripted", "version": fault}
            }),
            Some("tools/list") => {
                let properties = match fault.as_str() {
                    "ignores-schemas" => json!({"output_schema": {"type": "object"}}),
                    _ => json!({}),
                };
                let input = json!({"type": "object", "properties": properties});
                json!({"tools": [{"name": "lisp_eval", "inputSchema": input}]})
            }
            _ => {
                let program = request["params"]["arguments"]["program"].as_str();
                let program = program.unwrap_or_default();
                if program == "(+ 3 3)" && fault == "blabs" {
                    eprintln!("{{\"event\":\"call\",\"token\":\"canary-abcdef-123\"}}");
                    // The log must be there before the answer.
                    std::thread::sleep(Duration::from_millis(100));
                }
                // The warm-up program is answered correctly by all of them.
                if program.starts_with("(+") {
                    calls += 1;
                    misbehave(&fault, calls);
                }
                match fault.as_str() {
                    // Every other call is refused, whether or not another is in flight.
                    "busy" if calls % 2 == 1 => refused("busy"),
                    "always-busy" if calls > 0 => refused("busy"),
                    "verbose" if calls > 0 => returned(&"x".repeat(4 << 20)),
                    _ => evaluate(program),
                }
            }
        };
        let id = match (fault.as_str(), id.as_u64()) {
            ("wrong-ids", Some(number)) if calls > 0 => json!(number + 1000),
            _ => id.clone(),
        };
        if fault == "pings" {
            write_frame(&json!({"jsonrpc": "2.0", "id": "there?", "method": "ping"}));
            let pong = json!({"jsonrpc": "2.0", "id": "there?", "result": {}});
            let is_other = |line: &std::io::Result<String>| {
                let line = line.as_deref().unwrap_or_default();
                serde_json::from_str(line).ok().as_ref() != Some(&pong)
            };
            read.extend(lines.by_ref().take_while(is_other));
        }
        if fault == "pings-unread" && calls > 0 {
            // The answers do not fit into the pipe.
            for _ in 0..40 {
                write_frame(&json!({"jsonrpc": "2.0", "id": "x".repeat(4000), "method": "ping"}));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        if fault == "repeats" && calls > 1 {
            write_frame(&answered);
            std::thread::sleep(Duration::from_millis(800));
        }
        answered = json!({"jsonrpc": "2.0", "id": id, "result": result});
        write_frame(&answered);
        if fault == "pings-unread" && calls > 0 {
            std::thread::sleep(Duration::from_secs(300));
        }
    }
    if fault == "repeats-late" && calls > 0 {
        write_frame(&answered);
    }
    if fault == "ignores-eof" || fault == "regroups" {
        std::thread::sleep(Duration::from_secs(300));
    }
}

fn misbehave(fault: &str, calls: u64) {
    match fault {
        "chatty" => {
            let _ = writeln!(std::io::stdout(), "evaluating, please wait");
        }
        "slow" => std::thread::sleep(Duration::from_millis(30)),
        "silent" => std::thread::sleep(Duration::from_secs(300)),
        // Only the first of all processes that gets here stalls.
        "stalls-once" if calls == 3 => {
            let mark = std::env::args().nth(2).unwrap_or_default();
            if std::fs::File::create_new(mark).is_ok() {
                std::thread::sleep(Duration::from_secs(300));
            }
        }
        // The first process answers slowly, then not at all, and dies before all waits have timed out.
        "stalls-and-dies" => {
            let mark = std::env::args().nth(2).unwrap_or_default();
            if calls < 3 && !std::path::Path::new(&mark).exists() {
                std::thread::sleep(Duration::from_secs(1));
            }
            if calls == 3 && std::fs::File::create_new(mark).is_ok() {
                std::thread::sleep(Duration::from_millis(1500));
                std::process::exit(9);
            }
        }
        "crashes" if calls == 3 => {
            eprintln!("the third call is my undoing");
            std::process::exit(9);
        }
        "floods" => {
            let junk = vec![b'x'; 1 << 20];
            loop {
                if std::io::stdout().write_all(&junk).is_err() {
                    return;
                }
            }
        }
        "junk" => {
            let line = vec![b'x'; 8 << 20];
            for _ in 0..80 {
                let mut out = std::io::stdout().lock();
                let _reader_gone = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
            }
        }
        "twice" => write_frame(&json!({"jsonrpc": "2.0", "id": 4_000_000, "result": {}})),
        _ => {}
    }
}

fn evaluate(program: &str) -> Value {
    let words: Vec<&str> = program.trim_matches(['(', ')']).split(' ').collect();
    let numbers: Option<Vec<i64>> = words.iter().skip(1).map(|word| word.parse().ok()).collect();
    match (words.first(), numbers) {
        (Some(&"+"), Some(numbers)) => returned(&numbers.iter().sum::<i64>().to_string()),
        _ => refused("runtime_error"),
    }
}

fn refused(reason: &str) -> Value {
    let payload = json!({
        "status": "error", "reason": reason, "message": "only + is known", "feedback": ""
    });
    json!({"content": [{"type": "text", "text": payload.to_string()}], "isError": true, "structuredContent": payload})
}

fn returned(value: &str) -> Value {
    let payload = json!({
        "status": "ok", "feedback": "", "prints": [], "truncated": false,
        "result": format!("user=> {value}")
    });
    json!({"content": [{"type": "text", "text": payload.to_string()}], "isError": false, "structuredContent": payload})
}

fn write_frame(frame: &Value) {
    let mut out = std::io::stdout().lock();
    let _reader_gone = writeln!(out, "{frame}").and_then(|()| out.flush());
}
