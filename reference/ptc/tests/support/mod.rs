//! How tests start servers and observe them from outside. Knows processes, not what they serve.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]
#![allow(dead_code, reason = "no test needs all of it")]

pub mod http;
#[path = "../../../server/tests/support/ports.rs"]
pub mod ports;

use ports::free_port;
use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with its owner: one left running by a failed test would keep the test's output open.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// Starts a server with piped input and output, and discards its log.
pub fn spawn_piped(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Maximum attempts to start a listening server.
const TRIES: usize = 100;

/// A listening server and its port. Another program may take the port first; then another port is tried. `command` receives the port;
/// the log is read and discarded, so that its pipe never fills.
pub fn listening(mut command: impl FnMut(&str) -> Command) -> (Process, u16) {
    for _ in 0..TRIES {
        let port = free_port();
        let child = command(&port.to_string())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Process(child);
        let log = BufReader::new(server.stderr.take().unwrap());
        let mut lines = log.lines().map_while(Result::ok);
        if lines.any(|line| line.contains("http_listening")) {
            std::thread::spawn(move || lines.for_each(drop));
            return (server, port);
        }
    }
    panic!("it never listens");
}

/// Waits until `holds` is true; the awaited events take milliseconds on an idle machine.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `VmRSS` or `VmHWM` of a process in bytes; `None` when the process is gone.
pub fn memory(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kilobytes = line.split_whitespace().nth(1)?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}
