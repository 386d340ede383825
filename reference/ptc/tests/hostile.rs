//! The programs that are built to break an evaluator, sent to one `ptc start` through its pipes: each is answered in one
//! of the ways that it may end, and the call behind it finds the server as fit as before.
//!
//! Knows the server only through its pipes, and the programs only by their list.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

// The list stands with the language.
#[path = "../../lang/tests/bombs/mod.rs"]
mod bombs;

use bombs::{
    BRACKETS, CHANGED_WHILE_SHARED, COLLECTIONS, DEEP, DOUBLED, LONG, LONG_UNLIKE, NUMBERS,
    RECURSION, REGEXES, TEXTS, brackets, long_unlike,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a program of unknown outcome may end with.
const ANYHOW: &str = "ok|runtime_error|parse_error|memory_limit|fail|args_error";
/// Bytes of an answer: the value of `fail` shows 50 items of every collection in it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What is done with a value that is deep, or unfolds without end.
const USES: &[&str] = &[
    "x",
    "(= x y)",
    "[x y]",
    "{x y}",
    "(println x)",
    "(json/generate-string x)",
    "(sort [[2 x] [1 y]])",
    "(fail x)",
    "(pmap vector [x y])",
];

/// One server, asked one thing after the other.
struct Server {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ptc"))
            .args(["start", "--program-timeout-ms", "250"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Server {
            child,
            input,
            output,
            asked: 0,
        };
        let client = json!({ "name": "test", "version": "1" });
        let parameters =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        server.ask("initialize", &parameters);
        server
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let frame =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters });
        writeln!(self.input, "{frame}").unwrap();
        let line = self.output.next().expect("the server lives").unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(reply["id"], self.asked, "{line}");
        reply
    }

    /// The text that `program` is answered with, which a nil has none of, as an error or as a result.
    fn eval(&mut self, program: &str) -> Result<String, String> {
        let call = json!({ "name": "lisp_eval", "arguments": { "program": program } });
        loop {
            let reply = self.ask("tools/call", &call);
            let text = reply["result"]["content"][0]["text"].as_str();
            let text = text.unwrap_or_else(|| panic!("{reply}"));
            // A program that ran out of time was answered before its thread is done with it.
            match reply["result"]["isError"] {
                Value::Bool(false) => return Ok(text.to_owned()),
                _ if text.starts_with("busy") => {}
                _ => return Err(text.to_owned()),
            }
        }
    }

    /// `program` ends with one of the words of `wanted`, or for want of time, which a busy machine decides; the next one
    /// is answered as ever.
    fn survives(&mut self, wanted: &str, program: &str) {
        let answer = self.eval(program);
        let word = match &answer {
            Ok(_) => "ok",
            Err(text) => text.split([':', '\n']).next().unwrap_or_default(),
        };
        let shown: String = program.chars().take(200).collect();
        assert!(
            word == "timeout" || wanted.split('|').any(|one| one == word),
            "{shown}: wanted {wanted}, got {answer:?}"
        );
        let (Ok(text) | Err(text)) = &answer;
        assert!(text.len() < ANSWER_BYTES_MAX, "{shown}: {}", text.len());
        let next = self.eval("(+ 1 2)");
        assert_eq!(next.as_deref(), Ok("user=> 3"), "after {shown}");
    }
}

#[test]
fn the_server_survives_every_program() {
    let mut server = Server::start();
    let lists = [
        REGEXES,
        TEXTS,
        NUMBERS,
        CHANGED_WHILE_SHARED,
        COLLECTIONS,
        RECURSION,
    ];
    for (wanted, program) in lists.concat() {
        server.survives(wanted, program);
    }
    for made in [DEEP, DOUBLED].concat() {
        for use_of in USES {
            server.survives(ANYHOW, &format!("(let [x {made} y {made}] {use_of})"));
        }
    }
    for (open, part, count, close) in LONG {
        server.survives(ANYHOW, &format!("{open}{}{close}", part.repeat(*count)));
    }
    for (open, part, close) in LONG_UNLIKE {
        server.survives(ANYHOW, &long_unlike(open, part, close));
    }
    for (open, close) in BRACKETS {
        for count in [64, 1_000, 20_000, 1_000_000] {
            for program in brackets(open, close, count) {
                server.survives(ANYHOW, &program);
            }
        }
    }
    drop(server.input);
    assert!(server.child.wait().unwrap().success());
}
