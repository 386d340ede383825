//! Sends programs that are designed to break an evaluator to one `ptc start` through its pipes: each ends in one of the
//! ways that are allowed for it, and the next call finds the server unharmed.
//!
//! Knows the server only through its pipes, and the programs only by their list.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

// The list is in the language crate.
#[path = "../../lang/tests/bombs/mod.rs"]
mod bombs;

use bombs::{
    BRACKETS, CHANGED_WHILE_SHARED, COLLECTIONS, DEEP, DOUBLED, LONG, LONG_UNLIKE, NUMBERS,
    RECURSION, REGEXES, TEXTS, brackets, long_unlike,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The possible outcomes of a program with unknown outcome.
const ANYHOW: &str = "ok|runtime_error|parse_error|memory_limit|fail|args_error";
/// Maximum bytes of an answer: the value of `fail` shows 50 items of every collection in it.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Uses of a value that is deep or expands without end.
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

/// A server with one request at a time.
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

    /// The text of the answer to `program`, as a result or as an error.
    fn eval(&mut self, program: &str) -> Result<String, String> {
        let call = json!({ "name": "lisp_eval", "arguments": { "program": program } });
        loop {
            let reply = self.ask("tools/call", &call);
            let text = reply["result"]["content"][0]["text"].as_str();
            let text = text.unwrap_or_else(|| panic!("{reply}"));
            // A program that timed out is answered before its thread has finished.
            match reply["result"]["isError"] {
                Value::Bool(false) => return Ok(text.to_owned()),
                _ if text.starts_with("busy") => {}
                _ => return Err(text.to_owned()),
            }
        }
    }

    /// Checks that `program` ends with one of the outcomes in `wanted`, or by timeout, which depends on the machine's
    /// load; and that the next program is answered normally.
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
