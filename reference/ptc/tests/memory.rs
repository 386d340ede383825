//! The resident memory of a built `ptc`, as the system counts it, while programs try to increase it.
//!
//! Only a few programs by default; `PTC_HOSTILE_PROGRAMS` sets how many run one after the other, `PTC_MEMORY_SERVER` another
//! executable, such as a release build. Knows the server only through its pipes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use support::memory;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// The default memory limit of a program.
const LIMIT_BYTES: u64 = 10 << 20;
/// Maximum growth of the process caused by a program, in addition to what was sent.
const GROWTH_BYTES_MAX: u64 = 2 * LIMIT_BYTES + (8 << 20);
/// Stack frames of a test build are this many times larger than those that the limit assumes.
const UNOPTIMISED: u64 = if cfg!(debug_assertions) { 2 } else { 1 };
/// Maximum resident memory that hostile programs may leave behind, all together.
const LEFT_BYTES_MAX: u64 = 20 << 20;

struct Server {
    child: Child,
    replies: BufReader<ChildStdout>,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let executable = std::env::var("PTC_MEMORY_SERVER").unwrap_or_else(|_| PTC.into());
        let mut server = Self::spawn_piped(Command::new(executable).arg("start").args(arguments));
        assert_eq!(server.eval("(+ 1 2)", &Value::Null), "user=> 3");
        server
    }

    fn spawn_piped(command: &mut Command) -> Server {
        let (child, replies) = support::spawn_piped(command);
        Server { child, replies }
    }

    fn write(&mut self, frame: &str) {
        let pipe = self.child.stdin.as_mut().unwrap();
        pipe.write_all(frame.as_bytes()).unwrap();
        pipe.write_all(b"\n").unwrap();
    }

    fn send(&mut self, frame: &str) -> Value {
        self.write(frame);
        self.reply()
    }

    fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the server answers, not {line:?}"))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let frame = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        self.send(&frame.to_string())
    }

    /// The text of the answer to a program.
    fn eval(&mut self, program: &str, schema: &Value) -> String {
        let mut arguments = json!({ "program": program });
        if !schema.is_null() {
            arguments["output_schema"] = schema.clone();
        }
        text(&self.call("lisp_eval", &arguments))
    }

    /// `VmRSS` or `VmHWM` in bytes.
    fn memory(&self, name: &str) -> u64 {
        memory(self.child.id(), name).unwrap()
    }
}

/// The worker processes of a server.
fn workers(server: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{server}/task")).unwrap();
    let children = tasks.flatten().filter_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).ok()?;
        Some(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>(),
        )
    });
    children.flatten().collect()
}

/// Measures the peak growth of a server's workers while it exists. Polls, because the counts of a worker that ends are lost.
struct PeakMemory {
    over: Arc<AtomicBool>,
    reads: JoinHandle<u64>,
}

impl PeakMemory {
    fn of_workers(server: u32) -> PeakMemory {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let mut seen: HashMap<u32, (u64, u64)> = HashMap::new();
        for pid in workers(server) {
            if let Some(bytes) = memory(pid, "VmHWM") {
                seen.insert(pid, (bytes, bytes));
            }
        }
        assert!(!seen.is_empty(), "a worker waits");
        let reads = std::thread::spawn(move || {
            loop {
                let last = ends.load(Ordering::Acquire);
                for (pid, (_, most)) in &mut seen {
                    if let Some(bytes) = memory(*pid, "VmHWM") {
                        *most = bytes.max(*most);
                    }
                }
                if last {
                    let grown = seen.values().map(|(first, most)| most - first);
                    return grown.max().unwrap_or(0);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        PeakMemory { over, reads }
    }

    fn growth(self) -> u64 {
        self.over.store(true, Ordering::Release);
        self.reads.join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn text(reply: &Value) -> String {
    reply["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("a result: {reply}"))
        .to_owned()
}

/// A program, the schema of its value, and the factor for the size of its stack frames.
#[derive(Clone)]
struct Hostile {
    program: String,
    schema: Value,
    scale: u64,
}

fn hostile() -> Vec<Hostile> {
    let shared = "(let [s (apply str (map (fn [_] \"0123456789\") (range 100))) v (vec (map (fn [_] s) (range 1000)))] \
                  (vec (map (fn [_] v) (range 1000))))";
    let integer = "(dec (bit-shift-left 1 1000000))";
    let nested = |around: &str| {
        format!(
            "(defn f [n] {}(inc (f (inc n))){}) ",
            around.repeat(50),
            ")".repeat(50)
        )
    };
    let texts = json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}});
    let integers = json!({"type": "array", "items": {"type": "integer"}});
    let heap = |program: String| Hostile {
        program,
        schema: Value::Null,
        scale: 1,
    };
    let stack = |program: String| Hostile {
        scale: UNOPTIMISED,
        ..heap(program)
    };
    let shown = |program: String, schema: &Value| Hostile {
        schema: schema.clone(),
        ..heap(program)
    };
    vec![
        shown(shared.into(), &texts),
        heap(format!("(count (json/generate-string {shared}))")),
        heap(format!("(count (str {shared}))")),
        heap(format!("(println {shared})")),
        heap(format!("(fail {shared})")),
        heap(format!("(task {shared} 1)")),
        shown(format!("(let [x {integer}] (vec (map (fn [_] x) (range 200))))"), &integers),
        heap(format!("(let [x {integer}] (fail (vec (map (fn [i] (+ x i)) (range 60)))))")),
        heap(format!("(let [x {integer}] (count (pmap (fn [_] (mapv (fn [i] (inc (+ x i))) (range 2000))) (range 8))))")),
        heap(format!("(let [x {integer}] (count (pmap (fn [_] (mapv (fn [i] (abs (- (dec (bit-or x i))))) (range 2000))) (range 8))))")),
        heap(format!("(let [x {integer}] (count (pmap (fn [_] (mapv (fn [i] (bit-xor (bit-and x x) (bit-not i))) (range 2000))) (range 8))))")),
        heap("(count (pmap (fn [_] (vec (range 500000))) (range 8)))".into()),
        heap("(count (pmap (fn [_] (reduce (fn [s _] (str s s)) \"0123456789\" (range 40))) (range 8)))".into()),
        // A value that fills the memory: sending it must not take the same amount for each time that it is written.
        heap("(let [s (reduce (fn [s _] (str s s)) \"abcd\" (range 13))] (vec (map (fn [i] (str i s)) (range 300))))".into()),
        heap("(reduce (fn [acc x] (into acc acc)) [1 2 3] (range 40))".into()),
        heap("(count (map (fn [i] {:a i :b (str i)}) (range 1000000)))".into()),
        heap("(count (pmap (fn [_] (json/parse-string (str \"[\" (apply str (map (fn [_] \"[],\") (range 100000))) \"1]\"))) (range 8)))".into()),
        stack(nested("(case n 0 1 ") + "(f 1)"),
        stack(nested("(cond (= n 0) 1 :else ") + "(f 1)"),
        stack(nested("(let [a n] ") + "(pmap f (range 8))"),
        stack(nested("(case n 0 1 ") + "(pcalls (fn [] (f 1)) (fn [] (f 1)))"),
        stack("(defn f [n] (+ 1 (f (inc n)))) (f 1)".into()),
    ]
}

#[test]
fn no_program_takes_more_than_twice_its_limit() {
    let mut wrong = Vec::new();
    for (
        Hostile {
            program,
            schema,
            scale,
        },
        isolation,
    ) in hostile()
        .into_iter()
        .flat_map(|hostile| [(hostile.clone(), "thread"), (hostile, "process")])
    {
        let mut server = Server::start(&["--isolation", isolation, "--max-concurrent-calls", "1"]);
        let before = server.memory("VmHWM");
        let watched = (isolation == "process").then(|| PeakMemory::of_workers(server.child.id()));
        let answer = server.eval(&program, &schema);
        let inside = watched.map_or(0, PeakMemory::growth);
        let grown = (server.memory("VmHWM") - before).max(inside);
        assert_eq!(
            server.eval("(+ 1 2)", &Value::Null),
            "user=> 3",
            "{program}"
        );
        let shown: String = answer.chars().take(60).collect();
        println!(
            "{isolation:8} {:>6} KB, {:>6} KB in the worker  {shown}  {:.90}",
            grown / 1024,
            inside / 1024,
            program
        );
        if grown > GROWTH_BYTES_MAX * scale {
            wrong.push(format!("{isolation}: {grown} bytes: {program}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn context_that_is_refused_takes_five_times_its_bytes_at_most() {
    const SENT_BYTES: usize = 8_000_000;
    let nested = |open: &str, close: &str| {
        let depth = SENT_BYTES / (open.len() + close.len());
        format!("{{\"c\":{}1{}}}", open.repeat(depth), close.repeat(depth))
    };
    let mut wrong = Vec::new();
    for context in [
        nested("{\"a\":1,\"n\":", "}"),
        nested("{\"n\":", "}"),
        nested("[", "]"),
        format!("{{\"c\":[{}1]}}", "{\"a\":[]},".repeat(SENT_BYTES / 9)),
        format!("{{\"c\":\"{}\"}}", "x".repeat(SENT_BYTES)),
    ] {
        let mut server = Server::start(&[]);
        let before = server.memory("VmHWM");
        let frame = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1","context":{context}}}}}}}"#
        );
        let answer = text(&server.send(&frame));
        assert!(answer.contains("exceeds max_context_bytes"), "{answer}");
        let grown = server.memory("VmHWM") - before;
        println!(
            "{:>6} KB for {} KB  {:.40}",
            grown / 1024,
            frame.len() / 1024,
            context
        );
        // The frame, up to twice while its buffer grows, the part of the context that is kept, and where its names begin.
        if grown > 5 * frame.len() as u64 {
            wrong.push(format!("{grown} bytes: {context:.60}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn memory_of_programs_is_returned_to_the_system() {
    let programs: usize = std::env::var("PTC_HOSTILE_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(42);
    for isolation in ["thread", "process"] {
        let mut server = Server::start(&["--program-timeout-ms", "500", "--isolation", isolation]);
        let before = server.memory("VmRSS");
        let hostile = hostile();
        for number in 0..programs {
            let Hostile {
                program, schema, ..
            } = &hostile[number % hostile.len()];
            server.eval(program, schema);
        }
        assert_eq!(server.eval("(+ 1 2)", &Value::Null), "user=> 3");
        let left = server.memory("VmRSS").saturating_sub(before);
        println!(
            "{isolation}: {} KB are left after {programs} programs",
            left / 1024
        );
        assert!(left <= LEFT_BYTES_MAX, "{isolation}: {left} bytes are left");
    }
}

#[test]
fn frames_are_copied_a_bounded_number_of_times() {
    const DEPTH: usize = 2_000_000;
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1","context":{{"t":{}{}}}}}}}}}"#,
        "[".repeat(DEPTH),
        "]".repeat(DEPTH)
    );
    let objects = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1","context":{{"t":{}1{}}}}}}}}}"#,
        r#"{"a":"#.repeat(DEPTH / 3),
        "}".repeat(DEPTH / 3)
    );
    let id = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
        "x".repeat(6_000_000)
    );
    for (frame, times) in [(nested, 20), (objects, 25), (id, 4)] {
        let mut server = Server::start(&[]);
        let before = server.memory("VmHWM");
        server.send(&frame);
        let grown = server.memory("VmHWM") - before;
        println!(
            "{} KB for a frame of {} KB",
            grown / 1024,
            frame.len() / 1024
        );
        assert!(
            grown <= times * frame.len() as u64,
            "{grown} bytes for a frame of {}",
            frame.len()
        );
        assert_eq!(server.eval("(+ 1 2)", &Value::Null), "user=> 3");
    }
}

/// The record of a call is about as large as a reply may be, and a request for it copies no other records.
#[test]
fn debug_records_take_bounded_memory() {
    const CALLS: u64 = 300;
    const SHOWN_BYTES_MAX: u64 = 64 << 10;
    let members: Vec<String> = (0..2_600).map(|name| format!(r#""{name:x}":1"#)).collect();
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1","context":{{{}}}}}}}}}"#,
        members.join(",")
    );
    let mut server = Server::start(&["--debug-tool", "--response-profile", "slim"]);
    let before = server.memory("VmHWM");
    for _ in 0..CALLS {
        server.send(&frame);
    }
    server.call("lisp_debug", &json!({"op": "recent"}));
    server.call("lisp_debug", &json!({"op": "stats"}));
    let grown = server.memory("VmHWM") - before;
    println!("{} KB for {CALLS} calls", grown / 1024);
    assert!(
        grown <= 3 * CALLS * SHOWN_BYTES_MAX,
        "{grown} bytes for {CALLS} calls"
    );
}

#[test]
fn nested_context_is_charged_while_it_is_read() {
    const DEPTH: usize = 300_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for isolation in ["thread", "process"] {
            let mut server =
                Server::start(&["--isolation", isolation, "--max-concurrent-calls", "1"]);
            let frame = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1","context":{{"t":{}1{}}}}}}}}}"#,
                open.repeat(DEPTH),
                close.repeat(DEPTH)
            );
            let before = server.memory("VmHWM");
            let answer = text(&server.send(&frame));
            let grown = server.memory("VmHWM") - before;
            println!(
                "{isolation:8} {} KB for a frame of {} KB: {answer:.40}",
                grown / 1024,
                frame.len() / 1024
            );
            assert!(
                grown <= GROWTH_BYTES_MAX,
                "{isolation}: {grown} bytes for {DEPTH} {open}"
            );
            assert_eq!(server.eval("(+ 1 2)", &Value::Null), "user=> 3");
        }
    }
}

#[test]
fn sessions_hold_no_more_than_a_multiple_of_their_limit() {
    // Each turn keeps code, and regexes that compile to much more than their text.
    let turn = |number: usize| {
        let regexes: String = (0..40)
            .map(|at| format!("#\"(?:\\\\w{{{}}}|x{number}y{at})[ab]{{50}}\" ", 8 + at % 8))
            .collect();
        format!(
            "(def r{number} [{regexes}]) (def f{number} (fn [s] (map (fn [r] (re-find r s)) [{regexes}]))) \
             (count (map (fn [r] (re-find r \"abc\")) r{number})) (count (f{number} \"abc\"))"
        )
    };
    assert_bounded_session(SESSION_TURNS, turn);
}

/// A shortened collection keeps none of the memory of the long one.
#[test]
fn sessions_keep_no_memory_of_dropped_values() {
    let long = "(vec (range 200000))";
    for short in [
        format!("(take-last 3 {long})"),
        format!("(drop-last 199997 {long})"),
        format!("(take-while #(< % 3) {long})"),
        format!("(drop-while #(< % 199997) {long})"),
        format!("(loop [v {long}] (if (> (count v) 3) (recur (pop v)) v))"),
        "(apply hash-map (mapcat (fn [i] [(mod i 3) i]) (range 50000)))".to_owned(),
        "(mapv (fn [_] (reduce dissoc (zipmap (range 66) (range)) (range 65))) (range 500))"
            .to_owned(),
        "(mapv (fn [_] (reduce disj (set (range 66)) (range 65))) (range 500))".to_owned(),
    ] {
        assert_bounded_session(40, |number| format!("(def k{number} {short}) nil"));
    }
}

const SESSION_TURNS: usize = 110;

/// Runs turns until the session's limit is reached; those that fit may hold only a multiple of it.
fn assert_bounded_session(turns: usize, turn: impl Fn(usize) -> String) {
    const SESSION_BYTES: u64 = 1 << 20;
    let mut server = Server::start(&["--sessions", "--program-timeout-ms", "20000"]);
    let started = server.call("lisp_session_start", &json!({}));
    let id = started["result"]["structuredContent"]["session_id"].clone();
    let before = server.memory("VmRSS");
    let mut refused = 0;
    for number in 0..turns {
        let arguments = json!({"session_id": id, "program": turn(number)});
        let reply = server.call("lisp_session_eval", &arguments);
        if text(&reply).contains("session_limit_exceeded") {
            refused += 1;
            break;
        }
    }
    let held = server.memory("VmRSS").saturating_sub(before);
    assert!(refused > 0 || turns < SESSION_TURNS, "the limit is met");
    assert!(
        held <= 8 * SESSION_BYTES + LEFT_BYTES_MAX,
        "{held} bytes are held of {}",
        turn(0)
    );
}

#[test]
fn memory_of_sessions_is_returned_to_the_system() {
    // The maximum for one client.
    const SESSIONS: usize = 16;
    for isolation in ["thread", "process"] {
        let mut server = Server::start(&[
            "--sessions",
            "--max-session-binding-bytes",
            "1000000",
            "--isolation",
            isolation,
        ]);
        let before = server.memory("VmRSS");
        let ids: Vec<Value> = (0..SESSIONS)
            .map(|_| {
                let started = server.call("lisp_session_start", &json!({}));
                let id = started["result"]["structuredContent"]["session_id"].clone();
                let program = "(def v (vec (map str (range 40000)))) (count v)";
                let arguments = json!({"session_id": id, "program": program});
                let reply = server.call("lisp_session_eval", &arguments);
                assert_eq!(reply["result"]["isError"], false, "{reply}");
                id
            })
            .collect();
        let held = server.memory("VmRSS").saturating_sub(before);
        for id in ids {
            server.call("lisp_session_close", &json!({"session_id": id}));
        }
        assert_eq!(server.eval("(+ 1 2)", &Value::Null), "user=> 3");
        let left = server.memory("VmRSS").saturating_sub(before);
        println!(
            "{isolation}: of {} KB that sessions held, {} KB are left",
            held / 1024,
            left / 1024
        );
        assert!(held > LEFT_BYTES_MAX, "{isolation}: only {held} bytes");
        assert!(left <= LEFT_BYTES_MAX, "{isolation}: {left} bytes are left");
    }
}

/// When the kernel refuses memory, a failing allocation would end the process: the server answers `busy` instead.
#[test]
fn server_survives_a_kernel_memory_limit() {
    const CLIENT_CALLS: usize = 8;
    let (mut answered, mut busy) = (0, 0);
    for limit_mb in [300, 400, 600] {
        let command = format!(
            "ulimit -v {} && exec {PTC} start --program-timeout-ms 500 --max-concurrent-calls 8",
            limit_mb * 1024
        );
        let mut server = Server::spawn_piped(Command::new("sh").args(["-c", &command]));
        for _ in 0..2 {
            for hostile in hostile() {
                let frame = |id: usize| {
                    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                        "params": {"name": "lisp_eval", "arguments": {"program": hostile.program}}})
                };
                for id in 0..CLIENT_CALLS {
                    server.write(&frame(id).to_string());
                }
                for _ in 0..CLIENT_CALLS {
                    match text(&server.reply()) {
                        text if text.starts_with("busy") => busy += 1,
                        _ => answered += 1,
                    }
                }
            }
        }
        let status = server.child.try_wait().unwrap();
        assert!(
            status.is_none(),
            "{limit_mb} MB ended the server: {status:?}"
        );
    }
    println!("{answered} calls were answered, {busy} were told that the server is busy");
    assert!(answered > 0 && busy > 0, "{answered} answered, {busy} busy");
}
