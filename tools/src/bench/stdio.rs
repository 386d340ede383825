//! Measurements over standard streams: how soon the server answers, the round-trip time of a call, and
//! the server's memory. Knows three messages.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::row::{Row, median_of};
use anyhow::{Context, Result, bail};

/// Number of starts of the server.
const STARTS: usize = 40;
/// Number of calls, after a tenth as many for warm-up.
const CALLS: usize = 5_000;
/// Target for the first answer after exec.
const FIRST_RESPONSE: Duration = Duration::from_millis(5);
/// Target for the round trip of a call.
const ROUND_TRIP: Duration = Duration::from_micros(60);
/// Target for a call, as a multiple of an echo.
const ECHOES_MAX: u32 = 3;
/// Target for the memory of an idle server, in KiB.
const IDLE_KIB_MAX: f64 = 8.0 * 1024.0;
/// Numbers of calls after which the server's memory is measured, first and second.
const CALLS_SOME: usize = 10_000;
const CALLS_MANY: usize = 100_000;
/// Target for the growth between these, as a ratio of the second to the first.
const GROWTH_MAX: f64 = 1.1;

pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(super) const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 2)"}}}"#;

/// Measures the server that `command` starts.
pub(super) fn measure(command: &[String]) -> Result<Vec<Row>> {
    let starts: Result<Vec<Duration>> = (0..STARTS).map(|_| first_response(command)).collect();
    let mut server = StdioServer::start(command)?;
    server.ask(INITIALIZE)?;
    server.send(INITIALIZED)?;
    let idle = server.resident_kib()?;
    let call = server.round_trip()?;
    // The cost of pipes, the scheduler and this client without any server.
    let own = std::env::current_exe()?;
    let echo = [own.to_string_lossy().into_owned(), "echo".to_owned()];
    let echo = StdioServer::start(&echo)?.round_trip()?;
    server.calls(CALLS_SOME)?;
    let some = server.resident_kib()?;
    server.calls(CALLS_MANY - CALLS_SOME)?;
    let many = server.resident_kib()?;
    Ok(vec![
        Row::time(
            "stdio: first response after exec",
            median_of(starts?),
            FIRST_RESPONSE,
        ),
        Row::time("stdio: round trip of (+ 1 2)", call, ROUND_TRIP),
        Row::time(
            "stdio: the same, against three empty answers",
            call,
            echo * ECHOES_MAX,
        ),
        Row::at_most("stdio: resident when idle", idle, IDLE_KIB_MAX, " KiB"),
        Row::at_most(
            "stdio: resident after 100,000 calls, of that after 10,000",
            (many / some * 1e3).round() / 1e3,
            GROWTH_MAX,
            "x",
        ),
    ])
}

fn first_response(command: &[String]) -> Result<Duration> {
    let began = Instant::now();
    let mut peer = StdioServer::start(command)?;
    peer.ask(INITIALIZE)?;
    Ok(began.elapsed())
}

/// A process that answers lines; it is killed when dropped.
pub(super) struct StdioServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl StdioServer {
    pub(super) fn start(command: &[String]) -> Result<StdioServer> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let mut child = Command::new(Path::new(program))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| program.to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        match (input, output) {
            (Some(input), Some(output)) => Ok(StdioServer {
                child,
                input,
                output: BufReader::new(output),
                line: String::new(),
            }),
            _ => bail!("{program}: no pipes"),
        }
    }

    pub(super) fn send(&mut self, message: &str) -> Result<()> {
        let framed = format!("{message}\n");
        self.input
            .write_all(framed.as_bytes())
            .context("it takes no message")
    }

    /// Sends `message` and returns the answer.
    pub(super) fn ask(&mut self, message: &str) -> Result<&str> {
        self.send(message)?;
        self.line.clear();
        match self.output.read_line(&mut self.line) {
            Ok(0) => bail!("it ended without an answer"),
            Ok(_) => Ok(&self.line),
            Err(error) => bail!("no answer: {error}"),
        }
    }

    fn calls(&mut self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.ask(CALL).map(drop))
    }

    fn round_trip(&mut self) -> Result<Duration> {
        self.calls(CALLS / 10)?;
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let began = Instant::now();
            self.ask(CALL)?;
            times.push(began.elapsed());
        }
        Ok(median_of(times))
    }

    fn resident_kib(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = crate::guarded_fs::read_to_string(Path::new(&path))?;
        text.lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
            .with_context(|| format!("{path}: no VmRSS"))
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        // It may have exited already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
