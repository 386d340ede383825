//! A connection to a started target that can serve many requests at a time, whatever it is reached by.
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

/// The protocol revision that the harness asks for.
pub const PROTOCOL_VERSION: &str = "2025-11-25";
/// Ports for servers under test: below those that systems give to outgoing connections, and above those that cases name.
const PORTS: std::ops::Range<u16> = 10_240..32_768;
/// How far apart two harnesses with neighbouring process ids begin.
const PORT_STRIDE: u32 = 7919;
/// Ports that are tried before giving up.
const PORTS_TRIED_MAX: u32 = 500;
/// How much is kept of the target's own name.
const NAME_BYTES_MAX: usize = 1 << 10;
/// How often a starting HTTP server is asked whether it is up.
const POLL: Duration = Duration::from_millis(5);

/// A fault, and the frame that met it.
pub type Failed = Box<(Fault, String)>;

/// A connection, and what has to be taken down with it.
#[derive(Debug)]
pub struct Link {
    wire: Wire,
    /// Name and version, as `initialize` told them.
    name: Option<String>,
    /// The server process, when the connection is not to its standard streams.
    server: Option<Pipe>,
    /// Files that the server was given; removed with the link.
    _files: Option<Kept>,
}

/// What a process needs while it runs, and nobody looks at: its files, its peers.
pub type Kept = Box<dyn std::fmt::Debug + Send + Sync>;

#[derive(Debug)]
enum Wire {
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
    /// A JSON object; only a testee is given limits with each program, a server has its flags.
    pub limits: Option<String>,
}

/// The program that a server runs before it is judged; it touches what programs of cases need.
const WARM_UP: &str = r##"(let [f (fn [x] (+ x 1))] (str (map f [1 2.5]) {:a #{1}} (json/parse-string "[1]") (re-find #"a+" "aa")))"##;

impl Evaluation {
    /// A program that no case counts.
    pub fn warm_up() -> Self {
        Self {
            program: WARM_UP.to_owned(),
            ..Self::default()
        }
    }

    /// As a JSON object: the arguments of `lisp_eval`, and the input of the testee's `lisp_run`.
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
    /// Starts a server that speaks MCP over its standard streams, and shakes hands.
    ///
    /// # Errors
    /// When it does not start, or does not answer `initialize` in time.
    pub async fn stdio(
        spawn: &Spawn,
        files: Option<Kept>,
        patience: Patience,
    ) -> Result<Self, (Failed, String)> {
        let link = Self {
            wire: Wire::Stdio(start(spawn)?),
            name: None,
            server: None,
            _files: files,
        };
        link.shake(patience).await
    }

    /// Starts an adapter. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn testee(
        spawn: &Spawn,
        files: Option<Kept>,
        _patience: Patience,
    ) -> Result<Self, (Failed, String)> {
        Ok(Self {
            wire: Wire::Testee(start(spawn)?),
            name: None,
            server: None,
            _files: files,
        })
    }

    /// Connects to a server that runs already, and shakes hands.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer `initialize` in time.
    pub async fn url(endpoint: &Endpoint, patience: Patience) -> Result<Self, (Failed, String)> {
        let link = Self {
            wire: Wire::Http(HttpLink::to(endpoint).map_err(unsent)?),
            name: None,
            server: None,
            _files: None,
        };
        link.shake(patience).await
    }

    /// Starts a server that listens on a port, waits until it is up, and shakes hands.
    ///
    /// # Errors
    /// When it does not start or listen in time, or does not answer `initialize`.
    pub async fn http(
        served: Served,
        files: Option<Kept>,
        patience: Patience,
    ) -> Result<Self, (Failed, String)> {
        let server = served.up(patience).await?;
        let link = Self {
            wire: Wire::Http(HttpLink::to(&served.endpoint).map_err(unsent)?),
            name: None,
            server: Some(server),
            _files: files,
        };
        link.shake(patience).await
    }

    /// Calls a method, with params as JSON text.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn call(
        &self,
        method: &str,
        params: Option<&str>,
        patience: Duration,
    ) -> Result<Answer, Failed> {
        self.ask(|id| frame(id, method, params), patience).await
    }

    /// Runs a program: `tools/call lisp_eval`, or the testee's `lisp_run`.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn eval(
        &self,
        evaluation: &Evaluation,
        patience: Duration,
    ) -> Result<Answer, Failed> {
        match &self.wire {
            Wire::Testee(_) => {
                self.operation("lisp_run", &evaluation.json(), patience)
                    .await
            }
            Wire::Stdio(_) | Wire::Http(_) => {
                let (method, params) = evaluation.request();
                self.call(method, Some(&params), patience).await
            }
        }
    }

    /// Asks a testee for an operation, with its input as JSON text.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn operation(
        &self,
        operation: &str,
        input: &str,
        patience: Duration,
    ) -> Result<Answer, Failed> {
        let frame = |id| self::operation(id, operation, input);
        self.ask(frame, patience).await
    }

    /// The target's own name and version, when it told them.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the target is an adapter.
    pub fn is_testee(&self) -> bool {
        matches!(self.wire, Wire::Testee(_))
    }

    /// The end of the target's error output, when the harness started it.
    pub fn stderr(&self) -> String {
        self.process()
            .map(|pipe| pipe.handle().stderr().tail())
            .unwrap_or_default()
    }

    /// All of it, as far as it is kept.
    pub fn log(&self) -> String {
        self.process()
            .map(|pipe| pipe.handle().stderr().text())
            .unwrap_or_default()
    }

    /// Lets the target end by itself, for at most `patience`, and kills it then. Gives what it wrote unasked since its last answer.
    pub async fn close(self, patience: Patience) -> Option<Fault> {
        match &self.wire {
            Wire::Http(link) => {
                link.close(patience.exit).await;
                if let Some(server) = &self.server {
                    // A server that listens does not mind the end of its input.
                    server.handle().kill().await;
                }
                None
            }
            Wire::Stdio(pipe) | Wire::Testee(pipe) => pipe.close(patience.exit).await,
        }
    }

    /// Takes the target down at once.
    pub async fn kill(self) {
        if let Some(pipe) = self.process() {
            pipe.handle().kill().await;
        }
    }

    fn process(&self) -> Option<&Pipe> {
        match &self.wire {
            Wire::Stdio(pipe) | Wire::Testee(pipe) => Some(pipe),
            Wire::Http(_) => self.server.as_ref(),
        }
    }

    async fn shake(mut self, patience: Patience) -> Result<Self, (Failed, String)> {
        let params = initialize_params();
        let answered = self.call("initialize", Some(&params), patience.start).await;
        let failed = match answered {
            Ok(answer) if result_of(&answer.received).is_some() => {
                let told = match &self.wire {
                    Wire::Stdio(pipe) | Wire::Testee(pipe) => {
                        pipe.tell(INITIALIZED, patience.reply).await
                    }
                    Wire::Http(link) => link.post(INITIALIZED, patience.reply).await.map(drop),
                };
                match told {
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

    /// Lets a server run a program that no case counts: the first one may pay for loading what all need. Whatever comes of it,
    /// the cases will tell.
    pub async fn warm_up(&self, patience: Patience) {
        let program = Evaluation::warm_up();
        let _whatever = self.eval(&program, patience.start).await;
    }

    async fn ask(
        &self,
        frame: impl FnOnce(u64) -> String,
        patience: Duration,
    ) -> Result<Answer, Failed> {
        match &self.wire {
            Wire::Stdio(pipe) | Wire::Testee(pipe) => pipe.ask(frame, patience).await,
            Wire::Http(link) => link.ask(frame, patience).await,
        }
    }
}

/// A server that is to listen: how to start it, and where it will be.
#[derive(Debug, Clone)]
pub struct Served {
    /// How to start it; the port is in its words already.
    pub spawn: Spawn,
    /// Where it will answer.
    pub endpoint: Endpoint,
    /// `host:port`.
    pub address: String,
    /// Path that answers 200 as soon as it is up.
    pub ready: String,
}

impl Served {
    /// Starts the server and waits until it is up.
    ///
    /// # Errors
    /// When it ends, or does not listen in time; with its error output.
    pub async fn up(&self, patience: Patience) -> Result<Pipe, (Failed, String)> {
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

/// A port that is free at this moment, and that no outgoing connection is given by chance.
///
/// # Errors
/// When the machine has none.
pub fn free_port() -> std::io::Result<u16> {
    // Harnesses that run beside each other begin at different places.
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

/// Takes `port` without listening there. A child made at this moment holds the socket until it runs its program: one that
/// listened would be in the way of the server to come, and its clients would reach it.
fn bind(port: u16) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

/// The frame that ends the handshake.
pub const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

/// The line that asks a testee for an operation, with its input as JSON text.
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

/// The directory for a child's home and files: where `TMPDIR` says, else in memory, else in the system's temporary directory.
///
/// # Errors
/// When none can be made.
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

/// A file system in memory, where the system has one: a run makes and deletes a directory for each of a thousand cases, which
/// costs a disk's file system a fifth of the run.
const MEMORY_ROOT: &str = "/dev/shm";

/// The `result` of a response frame.
pub fn result_of(line: &str) -> Option<serde_json::Value> {
    match json::loosely(line)? {
        serde_json::Value::Object(mut members) => {
            members.remove("result").filter(|result| !result.is_null())
        }
        _ => None,
    }
}

fn server_name(line: &str) -> Option<String> {
    let result = result_of(line)?;
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

/// Starts a process, or says why not.
///
/// # Errors
/// [`Fault::CannotStart`].
pub fn launch(spawn: &Spawn) -> Result<Process, Fault> {
    Process::start(spawn).map_err(|error| Fault::CannotStart {
        command: shell_words::join(&spawn.argv),
        error: error.to_string(),
    })
}

fn start(spawn: &Spawn) -> Result<Pipe, (Failed, String)> {
    launch(spawn).map(Pipe::over).map_err(unsent)
}

fn unsent(fault: Fault) -> (Failed, String) {
    (Box::new((fault, String::new())), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read_and_kept_within_bounds() {
        let line = |name: &str| {
            format!(r#"{{"id":1,"result":{{"serverInfo":{{"name":"{name}","version":"1"}}}}}}"#)
        };
        assert_eq!(server_name(&line("a")).as_deref(), Some("a 1"));
        let long = server_name(&line(&"n".repeat(1 << 20))).expect("a name");
        assert!(long.len() < 2 * NAME_BYTES_MAX, "{} bytes", long.len());
        let many = format!(r#"{{"result":[{}0]}}"#, "0,".repeat(json::VALUES_MAX));
        assert_eq!(result_of(&many), None);
    }
}
