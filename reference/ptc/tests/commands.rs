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
