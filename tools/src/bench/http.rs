//! Measurements over Streamable HTTP: calls on one persistent connection, and on sixteen connections at once.
//! Knows only as much of HTTP as a client needs to send one body and read one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use conformance::target::link::free_port;

use super::row::{Row, median_of};
use super::stdio::{CALL, INITIALIZE, INITIALIZED, StdioServer};
use anyhow::{Context, Error, Result, bail};

/// Number of calls on one connection, after a tenth as many for warm-up.
const CALLS: usize = 5_000;
/// Target for one call.
const ROUND_TRIP: Duration = Duration::from_micros(200);
/// Target for the extra time of a call that is evaluated in a process instead of a thread.
const PROCESS_EXTRA: Duration = Duration::from_micros(150);
/// Number of concurrent connections, each with its own session.
const CONNECTIONS: usize = 16;
/// How long they send calls.
const LENGTH: Duration = Duration::from_secs(3);
/// Target for all of them together, in answered calls per second.
const CALLS_A_SECOND_MIN: f64 = 15_000.0;
/// How long the server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// Measures the server that `command` starts.
pub(super) fn measure(command: &[String]) -> Result<Vec<Row>> {
    let (_server, port) = start_http(command, "thread")?;
    let alone = round_trip(&mut HttpClient::open(port)?)?;
    let together = concurrent_rate(port)?;
    let (_isolated, port) = start_http(command, "process")?;
    let isolated = round_trip(&mut HttpClient::open(port)?)?;
    Ok(vec![
        Row::time("http: round trip on one connection", alone, ROUND_TRIP),
        Row::at_least(
            "http: calls a second on 16 connections",
            together,
            CALLS_A_SECOND_MIN,
            "/s",
        ),
        Row::time(
            "http: round trip in a process, beyond that on a thread",
            isolated.saturating_sub(alone),
            PROCESS_EXTRA,
        ),
    ])
}

/// Starts a server with this kind of isolation; returns it with its port.
pub(super) fn start_http(command: &[String], isolation: &str) -> Result<(StdioServer, u16)> {
    let port = free_port().context("no port is free")?;
    let flags = [
        "--http",
        "--http-port",
        &port.to_string(),
        "--max-concurrent-calls",
        "16",
        "--isolation",
        isolation,
    ]
    .map(str::to_owned);
    Ok((StdioServer::start(&[command, &flags].concat())?, port))
}

fn round_trip(session: &mut HttpClient) -> Result<Duration> {
    let mut times = Vec::with_capacity(CALLS);
    for at in 0..CALLS + CALLS / 10 {
        let began = Instant::now();
        session.call()?;
        if at >= CALLS / 10 {
            times.push(began.elapsed());
        }
    }
    Ok(median_of(times))
}

/// The number of answered calls per second.
fn concurrent_rate(port: u16) -> Result<f64> {
    let sessions: Result<Vec<HttpClient>> =
        (0..CONNECTIONS).map(|_| HttpClient::open(port)).collect();
    let began = Instant::now();
    let calls = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions?
            .into_iter()
            .map(|mut session| {
                scope.spawn(move || {
                    let mut calls = 0u32;
                    while began.elapsed() < LENGTH {
                        session.call()?;
                        calls += 1;
                    }
                    Ok::<u32, Error>(calls)
                })
            })
            .collect();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Error::msg("a client broke"))?);
        counts.sum::<Result<u32>>()
    })?;
    Ok(f64::from(calls) / began.elapsed().as_secs_f64())
}

/// A persistent connection, and the MCP session on it.
pub(super) struct HttpClient {
    input: BufReader<TcpStream>,
    output: TcpStream,
    /// The header lines of every request.
    headers: String,
    line: String,
    body: Vec<u8>,
}

impl HttpClient {
    pub(super) fn open(port: u16) -> Result<HttpClient> {
        let stream = connect(port)?;
        let place = format!("port {port}");
        stream
            .set_nodelay(true)
            .with_context(|| place.to_string())?;
        let mut session = HttpClient {
            input: BufReader::new(stream.try_clone().with_context(|| place.to_string())?),
            output: stream,
            headers: format!(
                "Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            ),
            line: String::new(),
            body: Vec::new(),
        };
        let id = session
            .post(INITIALIZE)?
            .context("the server names no session")?;
        session.headers += &format!("MCP-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        session.post(INITIALIZED)?;
        session.call()?;
        Ok(session)
    }

    fn call(&mut self) -> Result<()> {
        self.post(CALL)?;
        let result = b"user=> 3";
        if self.body.windows(result.len()).any(|part| part == result) {
            return Ok(());
        }
        bail!(
            "no answer to (+ 1 2): {}",
            String::from_utf8_lossy(&self.body)
        )
    }

    /// Sends `message` and returns the body of the response.
    pub(super) fn ask(&mut self, message: &str) -> Result<&str> {
        self.post(message)?;
        std::str::from_utf8(&self.body).map_err(Error::from)
    }

    /// Sends `message` and reads the response; returns the session id in it.
    fn post(&mut self, message: &str) -> Result<Option<String>> {
        let request = format!(
            "POST /mcp HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{message}",
            self.headers,
            message.len()
        );
        self.output.write_all(request.as_bytes())?;
        let status = self.read_line()?.to_owned();
        if !status.starts_with("HTTP/1.1 20") {
            bail!("the server answers {status}");
        }
        let (mut length, mut session) = (0, None);
        loop {
            let line = self.read_line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    length = value
                        .trim()
                        .parse()
                        .with_context(|| format!("an odd {line}"))?
                }
                "mcp-session-id" => session = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        self.body.resize(length, 0);
        self.input.read_exact(&mut self.body)?;
        Ok(session)
    }

    fn read_line(&mut self) -> Result<&str> {
        self.line.clear();
        match self.input.read_line(&mut self.line) {
            Ok(0) => bail!("the server hung up"),
            Ok(_) => Ok(self.line.trim_end()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn connect(port: u16) -> Result<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > LISTENS_WITHIN => {
                bail!("port {port}: {error}");
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
