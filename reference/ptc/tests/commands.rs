//! The built `ptc` as a shell command: closed pipes, a full disk, arguments that are not text.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");

fn ptc(arguments: &[&str]) -> Command {
    let mut command = Command::new(PTC);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Started as by a terminal. Background commands of a script ignore interrupts, and commands under `nohup` ignore hangups, as do
/// their children; the tests may be such children.
fn interruptible(arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,TERM,HUP", PTC])
        .args(arguments);
    command.stdin(Stdio::null());
    command
}

/// A pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full_device() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

fn error_output(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn unread_error_still_gives_its_exit_status() {
    let wrong: [(&[&str], i32); 11] = [
        (&[], 0),
        (&["bogus"], 1),
        (&["eval"], 2),
        (&["eval", "-e", "(zork)"], 1),
        (&["eval", "-e", "(fail 1)"], 1),
        (&["repl", "-e", "(zork)"], 1),
        (&["repl", "--bogus"], 1),
        (&["start", "--bogus"], 1),
        (&["agent", "run", "nothing.toml"], 1),
        (&["session", "list"], 1),
        (&["worker"], 1),
    ];
    for (arguments, status) in wrong {
        let output = ptc(arguments).stderr(closed_pipe()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn closed_output_pipe_is_no_failure() {
    for arguments in [
        &["eval", "-e", "1"] as &[&str],
        &["docs"],
        &["repl", "-e", "1"],
    ] {
        let output = ptc(arguments).stdout(closed_pipe()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        assert_eq!(error_output(&output), "", "{arguments:?}");
    }
}

#[test]
fn unwritten_answer_is_a_failure() {
    let commands: [&[&str]; 5] = [
        &["eval", "-e", "1"],
        &["repl", "-e", "1"],
        &["docs"],
        &["version"],
        &["doctor"],
    ];
    for arguments in commands {
        let output = ptc(arguments).stdout(full_device()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = error_output(&output);
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

/// It would be treated as not set.
#[test]
fn non_utf8_setting_is_rejected() {
    let token = OsStr::from_bytes(b"\xffabcdefghijklmnopqrstuvwxyz012345");
    for command in ["start", "doctor"] {
        let output = ptc(&[command])
            .env("PTC_RUNNER_MCP_HTTP_AUTH_TOKEN", token)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = error_output(&output);
        assert_eq!(said, "PTC_RUNNER_MCP_HTTP_AUTH_TOKEN is not UTF-8 text\n");
    }
    let output = ptc(&["start", "--http-auth-token"]).arg(token).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(error_output(&output), "argument 3 is not UTF-8 text\n");
}

#[test]
fn non_utf8_input_is_reported() {
    for arguments in [&["repl"] as &[&str], &["repl", "-"], &["eval", "-"]] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"(+ 1 \xff)\n").unwrap();
        drop(writer);
        let output = ptc(arguments).stdin(reader).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            error_output(&output).contains("UTF-8"),
            "{arguments:?}: {}",
            error_output(&output)
        );
    }
}

/// Runs `ptc` with these bytes on standard input.
fn run_with_input(arguments: &[&str], input: Vec<u8>) -> Output {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // The command may stop reading before the end.
    std::thread::spawn(move || writer.write_all(&input));
    ptc(arguments).stdin(reader).output().unwrap()
}

#[test]
fn endless_input_is_not_buffered() {
    let without_end = vec![b'x'; 17 << 20];
    let mut unclosed = b"(str \"".to_vec();
    unclosed.resize(17 << 20, b'x');
    unclosed
        .chunks_mut(1 << 10)
        .for_each(|piece| piece[piece.len() - 1] = b'\n');
    for arguments in [&["repl"] as &[&str], &["repl", "-i"]] {
        for input in [&without_end, &unclosed] {
            let output = run_with_input(arguments, input.clone());
            let said = error_output(&output);
            assert!(said.contains("goes on beyond 16777216"), "{said:.200}");
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        }
    }
}

/// Each line is checked together with the open brackets only, not with all earlier lines.
#[test]
fn long_program_is_read_in_linear_time() {
    let rows = 20_000;
    let kinds = [
        ("(count [\n", "[1 2]\n", "])\n"),
        ("(count [\n", "{:a\n1\n:b 2}\n", "])\n"),
        ("(count [\n", "#{1 \"a\n\\\"}b\" ; }\n}\n", "])\n"),
        ("(count [\n", "\"\n\" #\"a\\\"\n\\\\\" \\)\n", "])\n"),
    ];
    for (before, row, behind) in kinds {
        let text = format!("{before}{}{behind}(inc 1)\n", row.repeat(rows));
        let began = std::time::Instant::now();
        let output = run_with_input(
            &[
                "repl",
                "--program-memory-limit-bytes",
                "1000000000",
                "--program-timeout-ms",
                "60000",
            ],
            text.into_bytes(),
        );
        let (shown, said) = (
            String::from_utf8_lossy(&output.stdout),
            error_output(&output),
        );
        let forms = if row.starts_with("\"\n") {
            3 * rows
        } else {
            rows
        };
        assert_eq!(shown, format!("{forms}\n2\n"), "{row}: {said:.300}");
        assert!(
            began.elapsed().as_secs() < 30,
            "{row}: {:?}",
            began.elapsed()
        );
    }
}

/// A snapshot contains definitions unscrubbed.
#[test]
fn exported_session_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let held = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], input: &str| {
        let mut command = ptc(arguments);
        command.args(["--session-store", "file:store"]);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(input.as_bytes()).unwrap();
        drop(writer);
        let output = command.current_dir(held.path()).stdin(reader).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let start = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_session_start","arguments":{}}}"#,
        "\n"
    );
    run(&["start", "--sessions"], start);
    let listed = run(&["session", "list"], "");
    let id = listed
        .split_whitespace()
        .find(|word| word.starts_with("ptcs_"));
    // The existing file was readable for everybody.
    std::fs::write(held.path().join("kept"), "older").unwrap();
    run(&["session", "export", id.unwrap(), "kept"], "");
    let mode = held.path().join("kept").metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn doctor_leaves_no_trace_directory() {
    let held = tempfile::tempdir().unwrap();
    let directory = held.path().join("a/b");
    let output = ptc(&["doctor", "--trace-dir"]).arg(&directory).output();
    let shown = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(shown.contains("ok   traces go to"), "{shown}");
    assert_eq!(held.path().read_dir().unwrap().count(), 0);
}

#[test]
fn multi_line_name_is_one_finding() {
    let held = tempfile::tempdir().unwrap();
    let config =
        r#"{"upstreams":{"f\nok   x":{"transport":"mcp_stdio","command":"/no/such/command"}}}"#;
    std::fs::write(held.path().join("u.json"), config).unwrap();
    let mut command = ptc(&["doctor", "--upstreams-config", "u.json"]);
    let output = command.current_dir(held.path()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let faked = shown.lines().any(|line| line.starts_with("ok   x"));
    assert!(!faked && shown.contains("FAIL"), "{shown}");
}

/// Otherwise the saved file would replace the device that programs use.
#[test]
fn session_is_not_saved_to_a_device() {
    let output = run_with_input(&["repl"], b":save /dev/null\n".to_vec());
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("/dev/null: it is no regular file"),
        "{shown}"
    );
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn each_command_has_a_help_text() {
    for words in [
        &["testee", "--help"][..],
        &["docs", "-h"],
        &["version", "--help"],
        &["help", "testee"],
        &["help", "eval"],
        &["help", "start"],
    ] {
        let output = ptc(words).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{words:?}");
        let named = words
            .iter()
            .find(|word| !["help", "--help", "-h"].contains(word));
        let usage = format!("Usage: ptc {}", named.unwrap());
        assert!(shown.starts_with(&usage), "{words:?}: {shown}");
    }
}

#[test]
fn unknown_session_arguments_are_reported() {
    for words in [
        &["session", "lst", "--session-store", "file:x"][..],
        &["session", "list", "lst", "--session-store", "file:x"],
        &["session", "--session-store", "file:x", "list"],
        &["session"],
    ] {
        let output = ptc(words).output().unwrap();
        let told = error_output(&output);
        let last = told.lines().last().unwrap_or_default();
        assert!(last.contains("expected list, show ID"), "{words:?}: {told}");
        let found = match words.contains(&"lst") {
            true => "lst",
            false => "before the flags",
        };
        assert!(last.contains(found), "{words:?}: {told}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn control_characters_in_file_names_are_escaped() {
    let held = tempfile::tempdir().unwrap();
    let name = "a\u{1b}[2J\u{202e}b";
    std::fs::write(held.path().join(name), "(+ 1 zork)").unwrap();
    let mut command = ptc(&["eval", name]);
    let output = command.current_dir(held.path()).output().unwrap();
    let told = error_output(&output);
    assert!(told.contains("zork"), "{told}");
    assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
}

/// Computes for about a minute.
const SPIN: &str = "(reduce + (map (fn [x] (reduce + (range 100000))) (range 100000)))";

fn send(child: &std::process::Child, signal: nix::sys::signal::Signal) {
    let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(id, signal).unwrap();
}

/// The answer is printed, and the missing recording is reported.
#[test]
fn unwritten_recording_is_reported() {
    let held = tempfile::tempdir().unwrap();
    std::fs::write(held.path().join("agent.toml"), "prompt = \"Go\"\n").unwrap();
    std::fs::write(held.path().join("replay.jsonl"), "\"Done.\"\n").unwrap();
    let words = "agent run agent.toml --replay replay.jsonl --record /dev/full";
    let mut command = ptc(&words.split(' ').collect::<Vec<_>>());
    let output = command.current_dir(held.path()).output().unwrap();
    assert_eq!(output.stdout, b"Done.\n");
    assert!(
        error_output(&output).starts_with("/dev/full: "),
        "{}",
        error_output(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn signal_ends_a_program_but_keeps_its_prints() {
    use nix::sys::signal::Signal;
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let program = format!("(do (println \"before\") {SPIN})");
        let words = ["eval", "--program-timeout-ms", "60000", "-e", &program];
        let mut command = interruptible(&words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"before\n", "{signal}");
        assert_eq!(output.status.signal(), Some(signal as i32));
    }
}

/// A limit that is as large as a number can be is not counted beyond.
#[test]
fn debug_tool_answers_under_the_greatest_limit() {
    // A server that has lost the thread that reads requests ends only so.
    let mut child = Command::new("timeout")
        .args(["60", PTC, "start", "--debug-tool"])
        .args(["--max-debug-response-bytes", &u64::MAX.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let call = |id: u32, tool: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    };
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for (id, tool, arguments, wanted) in [
        (1, "lisp_eval", r#"{"program":"(+ 1 2)"}"#, "user=> 3"),
        (2, "lisp_debug", r#"{"op":"recent"}"#, r#""count":1"#),
    ] {
        writeln!(input, "{}", call(id, tool, arguments)).unwrap();
        let answer = lines.next().unwrap().unwrap();
        assert!(answer.contains(wanted), "{answer}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Like a background command of a shell.
#[test]
fn ignored_signals_stay_ignored() {
    for signal in ["INT", "TERM", "HUP"] {
        let program =
            format!("trap '' {signal}; exec {PTC} eval --program-timeout-ms 3000 -e '{SPIN}'");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &program]).stderr(Stdio::piped());
        let child = shell.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        send(&child, format!("SIG{signal}").parse().unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(
            error_output(&output).contains("timeout"),
            "{signal}: {output:?}"
        );
    }
}

/// A `ptc repl` whose streams are a terminal.
struct Prompt {
    child: std::process::Child,
    terminal: std::fs::File,
    shown: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Prompt {
    fn start(directory: &Path) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let words = "repl --session kept --program-timeout-ms 60000";
        let words: Vec<&str> = words.split(' ').collect();
        let child = interruptible(&words)
            .env("HOME", directory)
            .env("TERM", "xterm")
            .current_dir(directory)
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        let terminal = std::fs::File::from(pty.master);
        let shown = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let (mut reader, into) = (terminal.try_clone().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..count]);
                into.lock().unwrap().push_str(&text);
            }
        });
        Prompt {
            child,
            terminal,
            shown,
        }
    }

    /// Types a line, and waits until `shown` appears at the beginning of a line.
    fn type_line(&mut self, line: &str, shown: &str) {
        self.terminal.write_all(line.as_bytes()).unwrap();
        self.terminal.write_all(b"\r").unwrap();
        self.wait_for(&format!("\n{shown}"));
    }

    fn wait_for(&self, text: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.shown.lock().unwrap().contains(text) {
            let shown = self.shown.lock().unwrap().clone();
            assert!(Instant::now() < until, "no {text:?} in {shown:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn interrupt_at_the_prompt_ends_only_the_program() {
    use nix::sys::signal::Signal;
    let held = tempfile::tempdir().unwrap();
    let mut prompt = Prompt::start(held.path());
    prompt.wait_for("ptc> ");
    prompt.type_line("(def a 41)", "#'a");
    send(&prompt.child, Signal::SIGINT);
    writeln!(prompt.terminal, "{SPIN}\r").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    send(&prompt.child, Signal::SIGINT);
    prompt.wait_for("Error (cancelled)");
    prompt.type_line("(inc a)", "42");
    prompt.terminal.write_all(b"\x04").unwrap();
    assert!(prompt.child.wait().unwrap().success());
}

#[test]
fn signal_at_the_prompt_saves_the_session_and_restores_the_terminal() {
    use nix::sys::signal::Signal;
    use nix::sys::termios::{LocalFlags, tcgetattr};
    use std::os::unix::process::ExitStatusExt as _;
    let held = tempfile::tempdir().unwrap();
    let mut prompt = Prompt::start(held.path());
    prompt.wait_for("ptc> ");
    prompt.type_line("(def a 41)", "#'a");
    // Time for the editor to wait for the next line.
    std::thread::sleep(Duration::from_millis(500));
    let is_plain = |prompt: &Prompt| {
        let modes = tcgetattr(&prompt.terminal).unwrap().local_flags;
        modes.contains(LocalFlags::ECHO | LocalFlags::ICANON)
    };
    assert!(!is_plain(&prompt));
    send(&prompt.child, Signal::SIGTERM);
    let status = prompt.child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
    assert!(is_plain(&prompt));
    let mut again = ptc(&["repl", "--session", "kept", "-e", "(inc a)"]);
    let output = again.current_dir(held.path()).output().unwrap();
    assert_eq!(output.stdout, b"42\n", "{}", error_output(&output));
}

/// Whatever is asked of a server whose standard output fails, it says so and ends at once, but a client that is gone is no failure.
#[test]
fn start_tells_when_replies_cannot_be_written() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let call = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"lisp_eval\",\"arguments\":{\"program\":\"1\"}}}\n";
    let serve = |frames: &str, stdout: Stdio| {
        let mut command = ptc(&["start", "--log-level", "error"]);
        command.stdin(Stdio::piped()).stdout(stdout);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // The input stays open: the server ends for the sake of its output alone.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(frames.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    for frames in [ping, call] {
        let output = serve(frames, full_device());
        assert_eq!(output.status.code(), Some(1), "{frames}");
        let told = error_output(&output);
        assert!(
            told.ends_with("cannot write to stdout: No space left on device (os error 28)\n"),
            "{told}"
        );
        let output = serve(frames, closed_pipe());
        assert_eq!(output.status.code(), Some(0), "{frames}");
        assert_eq!(error_output(&output), "");
    }
}

/// The end of a client's input is told from an input that cannot be read.
#[test]
fn start_tells_when_its_input_cannot_be_read() {
    let mut command = ptc(&["start", "--log-level", "error"]);
    command.stdin(std::fs::File::open("/").unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = error_output(&output);
    assert!(
        told.ends_with("cannot read from stdin: Is a directory (os error 21)\n"),
        "{told}"
    );
}

/// Files that are kept elsewhere stay there: a link is followed when a session is saved, even to a file that does not exist yet.
#[test]
fn repl_saves_through_symbolic_links() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("real")).unwrap();
    for (link, target) in [("kept", "second"), ("second", "real/file")] {
        std::os::unix::fs::symlink(target, place.path().join(link)).unwrap();
    }
    for (program, wanted) in [("(def a 1)", "#'a\n"), ("a", "1\n")] {
        let mut command = ptc(&["repl", "--session", "kept", "-e", program]);
        let output = command.current_dir(place.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
        assert!(place.path().join("kept").is_symlink());
        assert!(place.path().join("second").is_symlink());
        let names = std::fs::read_dir(place.path().join("real")).unwrap();
        assert_eq!(names.count(), 1);
    }
    std::os::unix::fs::symlink("round", place.path().join("round")).unwrap();
    let mut command = ptc(&["repl", "--session", "round", "-e", "(def a 1)"]);
    let output = command.current_dir(place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// With hardly any file descriptors, and whatever tokio's own variable says, a server starts or says why not.
#[test]
fn start_says_what_the_system_refuses() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("u.json"), r#"{"upstreams": {}}"#).unwrap();
    let starts = [
        "start --upstreams-config u.json",
        "doctor --upstreams-config u.json",
        "repl --upstreams-config u.json -e 1",
    ];
    for start in starts {
        for files in 4..12 {
            let mut shell = Command::new("sh");
            let program = format!("ulimit -n {files}; exec {PTC} {start}");
            let shell = shell.args(["-c", &program]).stdin(Stdio::null());
            let output = shell.current_dir(place.path()).output().unwrap();
            let told = error_output(&output);
            assert!(!told.contains("panicked"), "{start}: {told}");
        }
        let mut command = Command::new(PTC);
        command.args(start.split(' ')).stdin(Stdio::null());
        command.env("TOKIO_WORKER_THREADS", "many");
        let output = command.current_dir(place.path()).output().unwrap();
        let told = error_output(&output);
        assert!(!told.contains("panicked"), "{start}: {told}");
    }
}

/// What is written to a pipe goes to whoever comes to read it, but nobody waits for ever for one who does not come.
#[test]
fn pipes_to_write_to_need_a_reader() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    std::fs::write(place.path().join("agent.toml"), "prompt = \"Go\"\n").unwrap();
    std::fs::write(place.path().join("replay.jsonl"), "\"Done.\"\n").unwrap();
    let run = || {
        let words = "agent run agent.toml --replay replay.jsonl --record pipe";
        let mut command = ptc(&words.split(' ').collect::<Vec<_>>());
        command.current_dir(place.path()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let child = run();
    std::thread::sleep(Duration::from_millis(300));
    let read = std::fs::read_to_string(&pipe).unwrap();
    assert!(read.contains("Done."), "{read}");
    assert!(child.wait_with_output().unwrap().status.success());
    let output = run().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = error_output(&output);
    assert!(told.starts_with("pipe: "), "{told}");
}
