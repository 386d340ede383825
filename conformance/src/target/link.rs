//! A connection to a started target that can serve many concurrent requests, over any transport.
//! Speaks MCP to servers and the adapter protocol to testees; knows nothing of cases or verdicts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::fault::Fault;
use super::http::{Endpoint, HttpLink};
use super::pipe::Pipe;
use super::process::{Process, Spawn};
use super::raw::RawConnection;
use super::{Answer, Patience};
use crate::cut;
use crate::json;

/// The protocol revision that the harness requests.
pub const PROTOCOL_VERSION: &str = "2025-11-25";
/// Ports for servers under test: below the ephemeral ports of outgoing connections, and above those that cases name.
const PORTS: std::ops::Range<u16> = 10_240..32_768;
/// Distance between the first ports of two harnesses with consecutive process ids.
const PORT_STRIDE: u32 = 7919;
/// Number of ports that are tried before giving up.
const PORTS_TRIED_MAX: u32 = 500;
/// Maximum length of the target's own name, in bytes.
const NAME_BYTES_MAX: usize = 1 << 10;
/// How often a starting HTTP server is asked whether it is ready.
const POLL: Duration = Duration::from_millis(5);

/// A fault, and the frame that caused it.
pub type FailedRequest = Box<(Fault, String)>;

/// A connection, and what must be taken down with it.
#[derive(Debug)]
pub struct Link {
    wire: LinkTransport,
    /// Name and version, as reported by `initialize`.
    name: Option<String>,
    /// The server process, when the connection is not to its standard streams.
    server: Option<Pipe>,
    /// Files that the server was given; removed with the link.
    _files: Option<KeptAlive>,
}

/// What a process needs while it runs and nobody inspects: its files, its peers.
pub type KeptAlive = Box<dyn std::fmt::Debug + Send + Sync>;

#[derive(Debug)]
enum LinkTransport {
    Stdio(Pipe),
    Http(HttpLink),
    Testee(Pipe),
}

/// A program to run, as JSON texts, so that numbers stay as the case wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evaluation {
    pub program: String,
    /// A JSON object.
    pub context: Option<String>,
    /// A JSON Schema.
    pub output_schema: Option<String>,
    /// A JSON object. Only a testee is given limits with each program; for a server they are flags.
    pub limits: Option<String>,
}

/// The program that a server runs before it is judged; it uses the functions that programs of cases need.
const WARM_UP: &str = r##"(let [f (fn [x] (+ x 1))] (str (map f [1 2.5]) {:a #{1}} (json/parse-string "[1]") (re-find #"a+" "aa")))"##;

/// A program whose value a reader of JSON shows with its numbers as they are, or as doubles; and that value.
pub const NUMBERS: (&str, &str) = ("[1.0 9007199254740993]", "[1.0,9007199254740993]");

impl Evaluation {
    /// The program of [`NUMBERS`], with its value returned as JSON.
    pub fn numbers() -> Self {
        Self {
            program: NUMBERS.0.to_owned(),
            context: None,
            output_schema: Some(r#"{"type":"array","items":{"type":"number"}}"#.to_owned()),
            limits: None,
        }
    }

    /// The warm-up program, which is not judged.
    pub fn warm_up() -> Self {
        Self {
            program: WARM_UP.to_owned(),
            ..Self::default()
        }
    }

    /// A JSON object: the arguments of `lisp_eval`, and the input of the testee's `lisp_run`.
    pub fn json(&self) -> String {
        let mut text = format!("{{\"program\":{}", quoted(&self.program));
        for (name, value) in [
            ("context", &self.context),
            ("output_schema", &self.output_schema),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        text.push('}');
        text
    }

    /// Method and params of the request to a server.
    pub fn request(&self) -> (&'static str, String) {
        let params = format!("{{\"name\":\"lisp_eval\",\"arguments\":{}}}", self.json());
        ("tools/call", params)
    }
}

impl Link {
    /// Starts a server that speaks MCP over its standard streams, and performs the handshake.
    ///
    /// # Errors
    /// When it does not start, or does not answer `initialize` in time.
    pub async fn stdio(
        spawn: &Spawn,
        files: Option<KeptAlive>,
        patience: Patience,
    ) -> Result<Self, (FailedRequest, String)> {
        let link = Self {
            wire: LinkTransport::Stdio(start(spawn)?),
            name: None,
            server: None,
            _files: files,
        };
        link.handshake(patience).await
    }

    /// Starts an adapter without sending it anything.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn testee(
        spawn: &Spawn,
        files: Option<KeptAlive>,
        _patience: Patience,
    ) -> Result<Self, (FailedRequest, String)> {
        Ok(Self {
            wire: LinkTransport::Testee(start(spawn)?),
            name: None,
            server: None,
            _files: files,
        })
    }

    /// Connects to a server that is already running, and performs the handshake.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer `initialize` in time.
    pub async fn url(
        endpoint: &Endpoint,
        patience: Patience,
    ) -> Result<Self, (FailedRequest, String)> {
        let link = Self {
            wire: LinkTransport::Http(HttpLink::new(endpoint).map_err(without_request)?),
            name: None,
            server: None,
            _files: None,
        };
        link.handshake(patience).await
    }

    /// Starts a server that listens on a port, waits until it is ready, and performs the handshake.
    ///
    /// # Errors
    /// When it does not start or listen in time, or does not answer `initialize`.
    pub async fn http(
        listener: ListenerLaunch,
        files: Option<KeptAlive>,
        patience: Patience,
    ) -> Result<Self, (FailedRequest, String)> {
        let server = listener.start(patience).await?;
        let link = Self {
            wire: LinkTransport::Http(HttpLink::new(&listener.endpoint).map_err(without_request)?),
            name: None,
            server: Some(server),
            _files: files,
        };
        link.handshake(patience).await
    }

    /// Calls a method, with params as JSON text.
    ///
    /// # Errors
    /// When no answer arrived.
    pub async fn call(
        &self,
        method: &str,
        params: Option<&str>,
        patience: Duration,
    ) -> Result<Answer, FailedRequest> {
        self.ask(|id| frame(id, method, params), patience).await
    }

    /// Runs a program: `tools/call lisp_eval`, or the testee's `lisp_run`.
    ///
    /// # Errors
    /// When no answer arrived.
    pub async fn eval(
        &self,
        evaluation: &Evaluation,
        patience: Duration,
    ) -> Result<Answer, FailedRequest> {
        match &self.wire {
            LinkTransport::Testee(_) => {
                self.operation("lisp_run", &evaluation.json(), patience)
                    .await
            }
            LinkTransport::Stdio(_) | LinkTransport::Http(_) => {
                let (method, params) = evaluation.request();
                self.call(method, Some(&params), patience).await
            }
        }
    }

    /// Calls an operation of a testee, with its input as JSON text.
    ///
    /// # Errors
    /// When no answer arrived.
    pub async fn operation(
        &self,
        operation: &str,
        input: &str,
        patience: Duration,
    ) -> Result<Answer, FailedRequest> {
        let frame = |id| self::operation(id, operation, input);
        self.ask(frame, patience).await
    }

    /// The target's own name and version, if it reported them.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the target is an adapter.
    pub fn is_testee(&self) -> bool {
        matches!(self.wire, LinkTransport::Testee(_))
    }

    /// The end of the target's standard error, if the harness started it.
    pub fn stderr(&self) -> String {
        self.process()
            .map(|pipe| pipe.handle().stderr().tail())
            .unwrap_or_default()
    }

    /// All of its standard error, as far as it is kept.
    pub fn log(&self) -> String {
        self.process()
            .map(|pipe| pipe.handle().stderr().text())
            .unwrap_or_default()
    }

    /// Gives the target at most `patience` to exit, then kills it. Returns what it wrote unsolicited since its last answer.
    pub async fn close(self, patience: Patience) -> Option<Fault> {
        match &self.wire {
            LinkTransport::Http(link) => {
                link.close(patience.exit).await;
                if let Some(server) = &self.server {
                    // A listening server does not react to the end of its input.
                    server.handle().kill().await;
                }
                None
            }
            LinkTransport::Stdio(pipe) | LinkTransport::Testee(pipe) => {
                pipe.close(patience.exit).await
            }
        }
    }

    /// Kills the target at once.
    pub async fn kill(self) {
        if let Some(pipe) = self.process() {
            pipe.handle().kill().await;
        }
    }

    fn process(&self) -> Option<&Pipe> {
        match &self.wire {
            LinkTransport::Stdio(pipe) | LinkTransport::Testee(pipe) => Some(pipe),
            LinkTransport::Http(_) => self.server.as_ref(),
        }
    }

    async fn handshake(mut self, patience: Patience) -> Result<Self, (FailedRequest, String)> {
        let params = initialize_params();
        let answered = self.call("initialize", Some(&params), patience.start).await;
        let failed = match answered {
            Ok(answer) if parse_result(&answer.received).is_some() => {
                let notified = match &self.wire {
                    LinkTransport::Stdio(pipe) | LinkTransport::Testee(pipe) => {
                        pipe.notify(INITIALIZED, patience.reply).await
                    }
                    LinkTransport::Http(link) => {
                        link.post(INITIALIZED, patience.reply).await.map(drop)
                    }
                };
                match notified {
                    Ok(()) => {
                        self.name = server_name(&answer.received);
                        return Ok(self);
                    }
                    Err(fault) => Box::new((fault, INITIALIZED.to_owned())),
                }
            }
            Ok(answer) => Box::new((
                Fault::Malformed {
                    expected: "a result for `initialize`".to_owned(),
                    line: answer.received,
                },
                answer.sent,
            )),
            Err(failed) => failed,
        };
        if let Some(pipe) = self.process() {
            pipe.handle().kill().await;
        }
        let stderr = self.stderr();
        Err((failed, stderr))
    }

    /// Lets a server run a program that is not judged: the first one may have to load what all programs need. If this fails,
    /// the cases will show it.
    pub async fn warm_up(&self, patience: Patience) {
        let program = Evaluation::warm_up();
        let _whatever = self.eval(&program, patience.start).await;
    }

    async fn ask(
        &self,
        frame: impl FnOnce(u64) -> String,
        patience: Duration,
    ) -> Result<Answer, FailedRequest> {
        match &self.wire {
            LinkTransport::Stdio(pipe) | LinkTransport::Testee(pipe) => {
                pipe.ask(frame, patience).await
            }
            LinkTransport::Http(link) => link.ask(frame, patience).await,
        }
    }
}

/// A server to be started as a listener: how to start it, and its address.
#[derive(Debug, Clone)]
pub struct ListenerLaunch {
    /// How to start it; its arguments already contain the port.
    pub spawn: Spawn,
    /// Its endpoint, once it is ready.
    pub endpoint: Endpoint,
    /// `host:port`.
    pub address: String,
    /// A path that answers 200 as soon as the server is ready.
    pub ready: String,
}

impl ListenerLaunch {
    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// When it exits, or does not listen in time; with its standard error.
    pub async fn start(&self, patience: Patience) -> Result<Pipe, (FailedRequest, String)> {
        let server = start(&self.spawn)?;
        let began = Instant::now();
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.ready, self.address
        );
        loop {
            if self.answers(&request).await {
                return Ok(server);
            }
            let fault = match server.fault() {
                Some(fault) => fault,
                None if began.elapsed() > patience.start => Fault::NoReply {
                    waited: patience.start,
                },
                None => {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
            };
            server.handle().kill().await;
            let stderr = server.handle().stderr().tail();
            return Err((Box::new((fault, request)), stderr));
        }
    }

    async fn answers(&self, request: &str) -> bool {
        let patience = Duration::from_secs(1);
        let Ok(mut connection) = RawConnection::open(&self.address, patience).await else {
            return false;
        };
        connection.send(request.as_bytes(), patience).await.is_ok()
            && connection
                .receive(false, patience)
                .await
                .is_ok_and(|reply| reply.status == 200)
    }
}

/// A port that is free at this moment, and that no outgoing connection will be assigned.
///
/// # Errors
/// When there is no free port.
pub fn free_port() -> std::io::Result<u16> {
    // Harnesses that run at the same time begin at different ports.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(PORT_STRIDE);
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for _ in 0..PORTS_TRIED_MAX {
        let step = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from(step % u32::from(PORTS.end - PORTS.start)).unwrap_or_default();
        let port = PORTS.start + offset;
        match bind(port) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Binds `port` without listening. A child that is forked at this moment inherits the socket until it executes its program; if the socket
/// listened, it would block the future server's port and accept its clients.
fn bind(port: u16) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

/// The frame that ends the handshake.
pub const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

/// The line that calls an operation of a testee, with its input as JSON text.
pub fn operation(id: u64, operation: &str, input: &str) -> String {
    let operation = quoted(operation);
    format!("{{\"id\":{id},\"op\":{operation},\"input\":{input}}}")
}

/// A request frame, with id and params as JSON text.
pub fn frame(id: impl std::fmt::Display, method: &str, params: Option<&str>) -> String {
    let method = quoted(method);
    match params {
        Some(params) => {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}")
        }
        None => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method}}}"),
    }
}

/// The params of the harness's `initialize`.
pub fn initialize_params() -> String {
    format!(
        "{{\"protocolVersion\":\"{PROTOCOL_VERSION}\",\"capabilities\":{{}},\
         \"clientInfo\":{{\"name\":\"ptc-conformance\",\"version\":\"{}\"}}}}",
        env!("CARGO_PKG_VERSION")
    )
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A directory for a child's home and files: below `TMPDIR` if it is set, else in memory, else in the system's temporary directory.
///
/// # Errors
/// When none can be created.
pub fn scratch() -> Result<(TempDir, PathBuf), Fault> {
    let made = |root: &Path| {
        tempfile::Builder::new()
            .prefix("ptc-conformance-")
            .tempdir_in(root)
    };
    let in_memory = match std::env::var_os("TMPDIR") {
        None => made(Path::new(MEMORY_ROOT)).ok(),
        Some(_) => None,
    };
    match in_memory.map_or_else(|| made(&std::env::temp_dir()), Ok) {
        Ok(directory) => {
            let path = directory.path().to_path_buf();
            Ok((directory, path))
        }
        Err(error) => Err(Fault::Harness {
            message: format!("no temporary directory: {error}"),
        }),
    }
}

/// A file system in memory, where the system has one: a run creates and deletes a directory for each of a thousand cases, which
/// takes a fifth of the run on a disk.
const MEMORY_ROOT: &str = "/dev/shm";

/// The `result` of a response frame.
pub fn parse_result(line: &str) -> Option<serde_json::Value> {
    match json::parse_loosely(line)? {
        serde_json::Value::Object(mut members) => {
            members.remove("result").filter(|result| !result.is_null())
        }
        _ => None,
    }
}

fn server_name(line: &str) -> Option<String> {
    let result = parse_result(line)?;
    let word = |name: &str| {
        result
            .get("serverInfo")?
            .get(name)?
            .as_str()
            .map(str::to_owned)
    };
    let mut name = match (word("name")?, word("version")) {
        (name, Some(version)) => format!("{name} {version}"),
        (name, None) => name,
    };
    cut::keep_bytes(&mut name, NAME_BYTES_MAX);
    Some(name)
}

/// Starts a process.
///
/// # Errors
/// [`Fault::CannotStart`], with the reason.
pub fn launch(spawn: &Spawn) -> Result<Process, Fault> {
    Process::start(spawn).map_err(|error| Fault::CannotStart {
        command: shell_words::join(&spawn.argv),
        error: error.to_string(),
    })
}

fn start(spawn: &Spawn) -> Result<Pipe, (FailedRequest, String)> {
    launch(spawn).map(Pipe::over).map_err(without_request)
}

fn without_request(fault: Fault) -> (FailedRequest, String) {
    (Box::new((fault, String::new())), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_name_from_handshake_is_bounded() {
        let line = |name: &str| {
            format!(r#"{{"id":1,"result":{{"serverInfo":{{"name":"{name}","version":"1"}}}}}}"#)
        };
        assert_eq!(server_name(&line("a")).as_deref(), Some("a 1"));
        let long = server_name(&line(&"n".repeat(1 << 20))).expect("a name");
        assert!(long.len() < 2 * NAME_BYTES_MAX, "{} bytes", long.len());
        let many = format!(r#"{{"result":[{}0]}}"#, "0,".repeat(json::VALUES_MAX));
        assert_eq!(parse_result(&many), None);
    }
}
