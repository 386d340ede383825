//! What tests of a running server look at from outside. Knows processes, not what they serve.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::io::BufReader;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Starts a server that is written to and read from, and whose log goes nowhere.
pub fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// `VmRSS` or `VmHWM` of a process in bytes; none when it is gone.
pub fn memory(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kilobytes = line.split_whitespace().nth(1)?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}
