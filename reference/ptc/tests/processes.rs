//! Real processes: everything that a stdio upstream starts ends with it and with the server, however the server ends; and an
//! upstream that makes excessive requests costs neither memory nor file descriptors.
//!
//! Knows the server only through its pipes and `/proc`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use support::http::Message;
use support::wait_until;

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
/// For a machine under load; the awaited events take milliseconds.
const SOON: Duration = Duration::from_secs(20);
/// An MCP server that first runs `$BEGIN`, and `$CALL` on each call.
const SERVER: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
eval "$BEGIN"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *initialize\"*) reply "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}' ;;
    *tools/list*) reply "$id" '{"tools":[{"name":"go"}]}' ;;
    *tools/call*) eval "$CALL"; reply "$id" '{"content":[{"type":"text","text":"gone"}]}' ;;
  esac
done
"#;
/// Starts a grandchild in the process group, one outside of it, and one outside whose parent is gone; none ends by itself, and
/// all ignore the signals of terminals and pipes.
const FAMILY: &str = r#"
stubborn='trap "" TERM HUP INT PIPE; echo $$ >> pids; exec 0<&- 1>&- 2>&-; while :; do sleep 1000; done'
echo $$ >> pids
sh -c "$stubborn" &
setsid sh -c "$stubborn" &
(setsid sh -c "sh -c '$stubborn' & exit" &)
while [ "$(wc -l < pids)" -lt 4 ]; do sleep 0.01; done
"#;

/// A server with the upstream `fx`.
struct ServerWithUpstream {
    process: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    home: tempfile::TempDir,
}

impl ServerWithUpstream {
    fn start(entry: &Value, prepare: impl FnOnce(&mut Command)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = json!({ "upstreams": { "fx": entry } });
        std::fs::write(home.path().join("u.json"), config.to_string()).unwrap();
        // The parent of the tests may ignore SIGHUP, which children inherit.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", PTC, "start"])
            .args(["--upstreams-config", "u.json"])
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        prepare(&mut command);
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut served = ServerWithUpstream {
            process,
            input,
            output,
            home,
        };
        let client = json!({ "name": "test", "version": "1" });
        served.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        served
    }

    fn with_script(begin: &str, call: &str) -> Self {
        Self::start(&script(begin, call), |_| {})
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.input.as_ref().unwrap(), "{frame}").unwrap();
        let line = self.output.next().expect("the server answers").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The text of the answer to `program`.
    fn eval(&mut self, program: &str) -> String {
        let reply = self.ask(
            "tools/call",
            &json!({ "name": "lisp_eval", "arguments": { "program": program } }),
        );
        reply["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// The processes that wrote their ids to `pids`, all of which must be alive.
    fn family(&self) -> Vec<Pid> {
        let file = self.home.path().join("pids");
        let pids = std::fs::read_to_string(file).unwrap();
        let pids: Vec<Pid> = pids
            .lines()
            .map(|id| Pid::from_raw(id.parse().unwrap()))
            .collect();
        assert_eq!(pids.len(), 4, "the upstream, and what it started");
        assert!(pids.iter().all(|&id| is_alive(id)), "they live");
        pids
    }

    fn wait_for_exit(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for ServerWithUpstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn script(begin: &str, call: &str) -> Value {
    json!({ "transport": "mcp_stdio", "command": "sh", "args": ["-c", SERVER], "env": { "BEGIN": begin, "CALL": call } })
}

fn stat(id: Pid) -> Option<(char, Pid)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut behind = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = behind.next()?.chars().next()?;
    Some((state, Pid::from_raw(behind.next()?.parse().ok()?)))
}

fn is_alive(id: Pid) -> bool {
    stat(id).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn assert_all_end(family: &[Pid]) {
    wait_until("none of them is left", || {
        !family.iter().any(|&id| is_alive(id))
    });
}

#[test]
fn killed_server_leaves_no_process() {
    let mut served = ServerWithUpstream::with_script(FAMILY, "");
    let family = served.family();
    kill(served.id(), Signal::SIGKILL).unwrap();
    assert_eq!(
        served.wait_for_exit().signal(),
        Some(Signal::SIGKILL as i32)
    );
    assert_all_end(&family);
}

#[test]
fn terminated_server_leaves_no_process() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut served = ServerWithUpstream::with_script(FAMILY, "");
        let family = served.family();
        kill(served.id(), signal).unwrap();
        assert_eq!(served.wait_for_exit().code(), Some(0), "{signal}");
        assert_all_end(&family);
    }
}

#[test]
fn server_whose_input_ends_leaves_no_process() {
    let mut served = ServerWithUpstream::with_script(FAMILY, "");
    let family = served.family();
    served.input.take();
    assert_eq!(served.wait_for_exit().code(), Some(0));
    assert_all_end(&family);
}

#[test]
fn upstream_exit_ends_its_descendants() {
    let mut served = ServerWithUpstream::with_script(FAMILY, "exit 3");
    let family = served.family();
    let said = served.eval("(:message (tool/call {:server :fx :tool :go}))");
    assert_eq!(said, "user=> \"mcp_stdio process exited with status 3\"");
    assert_all_end(&family);
}

#[test]
fn killed_upstream_is_reported_as_killed() {
    let mut served = ServerWithUpstream::with_script(FAMILY, "kill -9 $$");
    let family = served.family();
    let said = served.eval("(:message (tool/call {:server :fx :tool :go}))");
    assert_eq!(said, "user=> \"mcp_stdio process was ended by signal 9\"");
    assert_all_end(&family);
}

/// A child that is restarted on a program's thread, which ends with the program, must survive that.
#[test]
fn upstream_started_by_a_program_outlives_it() {
    let mut served = ServerWithUpstream::with_script("", "[ -e once ] || { : > once; exit 3; }");
    served.eval("(tool/call {:server :fx :tool :go})");
    wait_until("it is started again", || {
        served.eval("(:value (tool/call {:server :fx :tool :go}))") == "user=> \"gone\""
    });
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        let said = served.eval("(:value (tool/call {:server :fx :tool :go}))");
        assert_eq!(said, "user=> \"gone\"");
    }
}

/// The keeper is no single point of failure: the kernel ends the command with it.
#[test]
fn upstream_does_not_outlive_its_keeper() {
    let served = ServerWithUpstream::with_script("echo $$ > pid", "");
    let id = std::fs::read_to_string(served.home.path().join("pid")).unwrap();
    let id = Pid::from_raw(id.trim().parse().unwrap());
    let (_, keeper) = stat(id).unwrap();
    assert_ne!(keeper, served.id());
    kill(keeper, Signal::SIGKILL).unwrap();
    assert_all_end(&[keeper, id]);
}

#[test]
fn upstream_inherits_only_its_three_streams() {
    let served = ServerWithUpstream::with_script("echo $$ > pid", "");
    let id = std::fs::read_to_string(served.home.path().join("pid")).unwrap();
    // Descriptors of this test may be inherited from its parent.
    let given = open_files("self");
    let theirs: Vec<_> = open_files(id.trim())
        .into_iter()
        .filter(|file| !given.contains(file))
        .collect();
    assert_eq!(theirs.len(), 3, "{theirs:?}");
}

/// The files behind a process's descriptors.
fn open_files(id: &str) -> Vec<std::path::PathBuf> {
    let fds = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .collect()
}

#[test]
fn server_with_ignored_hangup_outlives_its_terminal() {
    let mut served = ServerWithUpstream::start(&script("", ""), |command| {
        // The effect of `nohup`, by a shell that then becomes the server.
        let words = format!("trap '' HUP; exec {PTC} start --upstreams-config u.json");
        let directory = command.get_current_dir().map(Path::to_path_buf);
        let mut shell = Command::new("sh");
        shell.args(["-c", &words]).current_dir(directory.unwrap());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        *command = shell;
    });
    kill(served.id(), Signal::SIGHUP).unwrap();
    let said = served.eval("(:value (tool/call {:server :fx :tool :go}))");
    assert_eq!(said, "user=> \"gone\"");
}

/// While a process is not dumpable, sensitive files in `/proc` belong to root, even if another user runs the process.
#[test]
fn other_processes_cannot_read_the_server_memory() {
    use std::os::unix::fs::MetadataExt as _;
    const NOBODY: u32 = 65_534;
    let ours = std::fs::metadata("/proc/self").unwrap().uid();
    let program = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program.path(), mode).unwrap();
    let copy = program.path().join("ptc");
    // The user `nobody` may not enter the directory in which the executable was built.
    std::fs::hard_link(PTC, &copy)
        .or_else(|_| std::fs::copy(PTC, &copy).map(drop))
        .unwrap();
    let mut command = Command::new(&copy);
    command
        .arg("start")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if ours == 0 {
        command.current_dir("/").uid(NOBODY);
    }
    let mut server = command.spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut input = server.stdin.take().unwrap();
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).unwrap();
    output.read_line(&mut String::new()).unwrap();
    let owner = std::fs::metadata(format!("/proc/{}/environ", server.id()))
        .unwrap()
        .uid();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(owner, 0);
}

/// Calls that use the directory wait for its lock; other calls don't, nor do cancellations.
#[test]
fn requests_without_the_store_never_wait_for_it() {
    let mut served = ServerWithUpstream::start(&script("", ""), |command| {
        command.args(["--sessions", "--session-store", "file:store"]);
    });
    let call = |id: u32, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let started = served.ask(
        "tools/call",
        &json!({ "name": "lisp_session_start", "arguments": {} }),
    );
    let session = started["result"]["structuredContent"]["session_id"].clone();
    let lock = std::fs::File::options()
        .write(true)
        .open(served.home.path().join("store/programs/lock"))
        .unwrap();
    lock.lock().unwrap();
    let turn = json!({ "session_id": session, "program": "(def a 1)" });
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 11 } });
    let frames = [
        call(10, "lisp_session_list", json!({})),
        call(11, "lisp_session_eval", turn.clone()),
        cancelled,
        call(12, "lisp_eval", json!({ "program": "(+ 1 2)" })),
    ];
    for frame in frames {
        writeln!(served.input.as_ref().unwrap(), "{frame}").unwrap();
    }
    let mut answered = || -> Value {
        let line = served.output.next().expect("the server answers").unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let first = answered();
    assert_eq!(first["id"], 12, "{first}");
    let second = answered();
    assert_eq!(second["id"], 10, "{second}");
    assert!(
        second.to_string().contains("session_store_unavailable"),
        "{second}"
    );
    lock.unlock().unwrap();
    // The cancelled turn left nothing, and holds nothing.
    let last = call(13, "lisp_session_eval", turn);
    writeln!(served.input.as_ref().unwrap(), "{last}").unwrap();
    let third: Value = serde_json::from_str(&served.output.next().unwrap().unwrap()).unwrap();
    assert_eq!(third["id"], 13, "{third}");
    assert_ne!(third["result"]["isError"], true, "{third}");
    served.input = None;
    assert!(served.output.next().is_none(), "nothing else was answered");
}

/// Traces may contain the input of programs.
#[test]
fn trace_files_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut served = ServerWithUpstream::start(&script("", ""), |command| {
        command.args(["--trace-dir", "traces", "--trace-payloads", "full"]);
    });
    served.eval("1");
    let directory = served.home.path().join("traces");
    let mut files = Vec::new();
    wait_until("there is a trace", || {
        files = std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .collect();
        !files.is_empty()
    });
    for file in files {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// Resident bytes of a process.
fn resident(id: Pid) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A server with unbounded queues would exceed this; a bounded one stays far below.
const GROWTH_MAX: usize = 48 << 20;

#[test]
fn upstream_that_never_reads_answers_takes_bounded_memory() {
    let floods = [
        r#"while echo '{"jsonrpc":"2.0","id":1,"method":"ping"}'; do :; done"#,
        // Ids of a million bytes, ids of the maximum size that is answered, and requests that are refused.
        r#"id=$(head -c 1000000 /dev/zero | tr '\0' x); while echo "{\"id\":\"$id\",\"method\":\"ping\"}"; do :; done"#,
        r#"id=$(head -c 1000 /dev/zero | tr '\0' x); while echo "{\"id\":\"$id\",\"method\":\"roots/list\"}"; do :; done"#,
        r#"id=$(head -c 1000000 /dev/zero | tr '\0' x); while echo "{\"method\":\"notifications/$id\"}"; do :; done"#,
    ];
    for flood in floods {
        let mut served = ServerWithUpstream::with_script("", flood);
        served.eval("1");
        let before = resident(served.id());
        let said = served.eval("(:reason (tool/call {:server :fx :tool :go}))");
        assert!(
            ["user=> :upstream_unavailable", "user=> :timeout"].contains(&said.as_str()),
            "{said}"
        );
        let grown = resident(served.id()).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes: {flood}");
    }
}

/// Programs make requests that the upstream never reads.
#[test]
fn upstream_that_never_reads_queues_bounded_requests() {
    let mut served =
        ServerWithUpstream::start(&script("", "while :; do sleep 1000; done"), |command| {
            command.args([
                "--upstream-call-timeout-ms",
                "50",
                "--program-timeout-ms",
                "9000",
            ]);
        });
    served.eval("(tool/call {:server :fx :tool :go})");
    let before = resident(served.id());
    for _ in 0..10 {
        let program = "(let [s (reduce (fn [s _] (str s s)) \"x\" (range 20))] (frequencies (map (fn [_] (:reason (tool/call {:server :fx :tool :go :args {:s s}}))) (range 20))))";
        assert_eq!(served.eval(program), "user=> {:timeout 20}");
    }
    let grown = resident(served.id()).saturating_sub(before);
    // 200 MB were sent; memory of the programs themselves and of the allocator counts too.
    assert!(grown < 3 * GROWTH_MAX, "{grown} bytes");
}

/// An event stream with 20,000 pings in a megabyte: each answer is a separate request, none of which is ever responded to.
#[test]
fn event_stream_of_pings_takes_no_file_descriptors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || play(stream));
        }
    });
    let entry = json!({ "transport": "mcp_http", "url": url, "allow_insecure_http": true, "request_timeout_ms": 3000 });
    let mut served = ServerWithUpstream::start(&entry, |_| {});
    let before = resident(served.id());
    for _ in 0..3 {
        let said = served.eval("(:message (tool/call {:server :fx :tool :go}))");
        assert!(said.contains("64 answers"), "{said}");
        let open = std::fs::read_dir(format!("/proc/{}/fd", served.id()))
            .unwrap()
            .count();
        assert!(open < 100, "{open} file descriptors");
    }
    let grown = resident(served.id()).saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes");
}

/// One connection of an MCP server that floods each call with pings and leaves the answers waiting.
fn play(mut stream: std::net::TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = Message::read(&mut reader) {
        let frame: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let id = &frame["id"];
        let (kind, body) = match frame["method"].as_str() {
            Some("initialize") => ("application/json", json!({ "jsonrpc": "2.0", "id": id, "result": { "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "p", "version": "1" } } }).to_string()),
            Some("tools/list") => ("application/json", json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [{ "name": "go" }] } }).to_string()),
            Some("tools/call") => {
                let ping = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n";
                ("text/event-stream", ping.repeat(20_000))
            }
            Some(_) => {
                let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            // An answer to a ping.
            None => {
                std::thread::sleep(SOON);
                return;
            }
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}
