//! Hostile programs from the language's generator, sent to a built `ptc` over MCP, in sessions and without, on threads and in
//! processes: each is answered within its time limit plus half a second, the next call is answered normally, and their memory
//! is returned.
//!
//! Only a few programs by default: `PTC_HOSTILE_PROGRAMS` sets their number, `PTC_HOSTILE_FROM` the first seed, and
//! `PTC_HUNT_SERVER` another executable, such as a release build, whose replies may be at most half a second late.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use std::io::{BufRead, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use ptc_lang::fuzz;
use serde_json::{Value, json};

ptc_commands::counting_allocator!();

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// The time limit of a program.
const LIMIT: Duration = Duration::from_millis(150);
/// Maximum delay of the reply beyond it. A test build is ten times as slow.
const BEYOND: Duration = Duration::from_millis(if cfg!(debug_assertions) { 5_000 } else { 500 });
/// A single late reply may be the machine's fault.
const TRIES: usize = 3;
/// How long to wait for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Programs per server, unless the environment sets another number.
const PROGRAMS: u64 = 12;
/// Bytes from which a program is generated.
const BYTES: usize = 160;
/// Maximum resident memory that all programs together may leave behind.
const LEFT_BYTES_MAX: u64 = 20 << 20;

/// A server with one request at a time.
struct Server {
    child: Child,
    replies: Receiver<String>,
}

impl Server {
    fn start(isolation: &str) -> Server {
        let executable = std::env::var("PTC_HUNT_SERVER").unwrap_or_else(|_| PTC.into());
        let limit = LIMIT.as_millis().to_string();
        let mut command = Command::new(executable);
        command.args(["start", "--sessions", "--program-timeout-ms", &limit]);
        Server::of(command.args(["--isolation", isolation]))
    }

    fn of(command: &mut Command) -> Server {
        let (child, output) = support::spawn_piped(command);
        let (said, replies) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    break;
                }
            }
        });
        Server { child, replies }
    }

    /// The answer of a tool, and its duration.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<(Value, Duration), String> {
        let frame = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let began = Instant::now();
        let pipe = self.child.stdin.as_mut().unwrap();
        writeln!(pipe, "{frame}").map_err(|error| format!("it takes nothing in: {error}"))?;
        let line = self
            .replies
            .recv_timeout(PATIENCE)
            .map_err(|gone| match gone {
                RecvTimeoutError::Timeout => "it does not answer".to_owned(),
                RecvTimeoutError::Disconnected => "it ended".to_owned(),
            })?;
        let took = began.elapsed();
        let reply: Value = serde_json::from_str(&line).map_err(|_| format!("it says {line:?}"))?;
        Ok((reply["result"].clone(), took))
    }

    /// The checks for each program.
    fn check_program(&mut self, program: &str, session: Option<&Value>) -> Result<(), String> {
        let (tool, arguments) = match session {
            Some(id) => (
                "lisp_session_eval",
                json!({"session_id": id, "program": program}),
            ),
            None => ("lisp_eval", json!({"program": program})),
        };
        let (answer, took) = self.call(tool, arguments)?;
        if !answer["content"][0]["text"].is_string() {
            return Err(format!("no answer of a program: {answer}"));
        }
        if took > LIMIT + BEYOND {
            return Err(format!("it answers after {took:?}"));
        }
        let (next, _) = self.call("lisp_eval", json!({"program": "(+ 1 2)"}))?;
        match next["content"][0]["text"].as_str() {
            Some("user=> 3") => Ok(()),
            _ => Err(format!("the next call is answered with {next}")),
        }
    }

    fn resident_bytes(&self) -> u64 {
        support::memory(self.child.id(), "VmRSS").unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// Two programs from one seed.
fn programs(seed: u64) -> [String; 2] {
    let mut random = fastrand::Rng::with_seed(seed);
    [(); 2].map(|()| {
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.u8(..)).collect();
        fuzz::hostile_text(&bytes)
    })
}

/// The problem with how a server handles the programs of `seed`, alone and as turns of a session.
fn hunt_seed(server: &mut Server, seed: u64) -> Result<(), String> {
    for program in programs(seed) {
        server
            .check_program(&program, None)
            .map_err(|wrong| format!("{wrong}: {program}"))?;
    }
    let (started, _) = server.call("lisp_session_start", json!({}))?;
    let id = started["structuredContent"]["session_id"].clone();
    for program in programs(seed) {
        // Later turns hold what an earlier turn keeps.
        let keeps = format!("(def kept{} {program})", seed % 3);
        for turn in [keeps.as_str(), &program] {
            server
                .check_program(turn, Some(&id))
                .map_err(|wrong| format!("{wrong}: {turn}"))?;
        }
        let preview = json!({"session_id": id});
        let (_, took) = server.call("lisp_session_inspect", preview)?;
        if took > LIMIT + BEYOND {
            return Err(format!("inspecting takes {took:?} after {program}"));
        }
    }
    server
        .call("lisp_session_close", json!({"session_id": id}))
        .map(drop)
}

#[test]
fn no_program_delays_the_server() {
    let from = number("PTC_HOSTILE_FROM", 0);
    let programs = number("PTC_HOSTILE_PROGRAMS", PROGRAMS);
    let mut findings = Vec::new();
    for isolation in ["thread", "process"] {
        let mut server = Server::start(isolation);
        hunt_seed(&mut server, from).ok();
        let before = server.resident_bytes();
        for seed in from..from + programs {
            let mut tries = (0..TRIES).map(|_| hunt_seed(&mut server, seed));
            if let Some(wrong) = tries.try_fold(String::new(), |_, found| found.err()) {
                findings.push(format!("{isolation}, seed {seed}: {wrong}"));
                server = Server::start(isolation);
            }
        }
        let left = server.resident_bytes().saturating_sub(before);
        if left > LEFT_BYTES_MAX {
            findings.push(format!("{isolation}: {left} bytes are left"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn late_server_is_detected() {
    let reply =
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"user=> 3"}]}}"#;
    let late = (LIMIT + BEYOND * 2).as_secs_f64();
    let script = format!("while read -r line; do sleep {late}; echo '{reply}'; done");
    let mut server = Server::of(Command::new("sh").args(["-c", &script]));
    let found = server.check_program("1", None).expect_err("it is late");
    assert!(found.starts_with("it answers after"), "{found}");
}

#[test]
fn exited_server_is_detected() {
    let mut server = Server::of(Command::new("sh").args(["-c", "read -r line"]));
    let found = server.check_program("1", None).expect_err("it ends");
    assert_eq!(found, "it ended");
}
