//! The built `ptc` as a command among others: pipes whose reader is gone, a disk that is full, words that are no text.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");

fn ptc(arguments: &[&str]) -> Command {
    let mut command = Command::new(PTC);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A pipe that nobody reads.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_error_that_nobody_reads_ends_with_its_status() {
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
        let output = ptc(arguments).stderr(gone()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_is_gone_has_read_enough() {
    for arguments in [
        &["eval", "-e", "1"] as &[&str],
        &["docs"],
        &["repl", "-e", "1"],
    ] {
        let output = ptc(arguments).stdout(gone()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        assert_eq!(said(&output), "", "{arguments:?}");
    }
}

#[test]
fn an_answer_that_is_not_written_is_no_success() {
    let commands: [&[&str]; 5] = [
        &["eval", "-e", "1"],
        &["repl", "-e", "1"],
        &["docs"],
        &["version"],
        &["doctor"],
    ];
    for arguments in commands {
        let output = ptc(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = said(&output);
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

/// It would count as not set.
#[test]
fn a_setting_that_is_no_text_is_refused() {
    let token = OsStr::from_bytes(b"\xffabcdefghijklmnopqrstuvwxyz012345");
    for command in ["start", "doctor"] {
        let output = ptc(&[command])
            .env("PTC_RUNNER_MCP_HTTP_AUTH_TOKEN", token)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = said(&output);
        assert_eq!(said, "PTC_RUNNER_MCP_HTTP_AUTH_TOKEN is not UTF-8 text\n");
    }
    let output = ptc(&["start", "--http-auth-token"]).arg(token).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), "argument 3 is not UTF-8 text\n");
}

#[test]
fn input_that_is_no_text_is_told() {
    for arguments in [&["repl"] as &[&str], &["repl", "-"], &["eval", "-"]] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"(+ 1 \xff)\n").unwrap();
        drop(writer);
        let output = ptc(arguments).stdin(reader).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            said(&output).contains("UTF-8"),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

/// What `ptc` makes of these bytes on standard input.
fn fed(arguments: &[&str], input: Vec<u8>) -> Output {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // It may stop reading before the end.
    std::thread::spawn(move || writer.write_all(&input));
    ptc(arguments).stdin(reader).output().unwrap()
}

#[test]
fn input_that_goes_on_for_ever_is_not_kept() {
    let without_end = vec![b'x'; 17 << 20];
    let mut unclosed = b"(str \"".to_vec();
    unclosed.resize(17 << 20, b'x');
    unclosed
        .chunks_mut(1 << 10)
        .for_each(|piece| piece[piece.len() - 1] = b'\n');
    for arguments in [&["repl"] as &[&str], &["repl", "-i"]] {
        for input in [&without_end, &unclosed] {
            let output = fed(arguments, input.clone());
            let said = said(&output);
            assert!(said.contains("goes on beyond 16777216"), "{said:.200}");
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        }
    }
}

/// Each line is looked at with what is open before it, not with all that came before it.
#[test]
fn a_program_of_many_lines_is_read_in_the_time_that_it_takes() {
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
        let output = fed(
            &[
                "repl",
                "--program-memory-limit-bytes",
                "1000000000",
                "--program-timeout-ms",
                "60000",
            ],
            text.into_bytes(),
        );
        let (shown, said) = (String::from_utf8_lossy(&output.stdout), said(&output));
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

/// A snapshot holds what is defined unscrubbed.
#[test]
fn an_exported_session_is_its_owner_s_alone() {
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
    run(&["session", "export", id.unwrap(), "kept"], "");
    let mode = held.path().join("kept").metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn a_doctor_leaves_no_trace_directory_behind() {
    let held = tempfile::tempdir().unwrap();
    let directory = held.path().join("a/b");
    let output = ptc(&["doctor", "--trace-dir"]).arg(&directory).output();
    let shown = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(shown.contains("ok   traces go to"), "{shown}");
    assert_eq!(held.path().read_dir().unwrap().count(), 0);
}

/// It would take the place of what programs read and write there.
#[test]
fn a_session_is_saved_to_no_device() {
    let output = fed(&["repl"], b":save /dev/null\n".to_vec());
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("/dev/null: it is no regular file"),
        "{shown}"
    );
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}
