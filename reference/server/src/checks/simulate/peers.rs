//! In-memory upstream servers that misbehave on demand. Knows as much of MCP as an echoing tool needs, over pipes and over HTTP, and an
//! OpenAPI service that echoes, too; knows nothing of the server under simulation.

use hyper::header::HeaderValue;
use hyper::{Method, Request, Response, StatusCode};
use nix::sys::signal::Signal;
use ptc_upstream::simulation::{HttpBackend, ResponseFuture};
use ptc_upstream::{
    Child, ChildExit, ExitFuture, Launcher, ProcessGroup, Reason, StdioConfig, WorldFault,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, watch};

/// A secret in replies of upstreams that must never reach a client.
pub const CANARY: &str = "canary-of-the-simulation";
/// The names of the upstreams: two over pipes, one over Streamable HTTP, one with an OpenAPI description.
pub const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
/// The one over Streamable HTTP.
const HTTP_PEER: &str = "gamma";
/// The one with an OpenAPI description.
const OPENAPI_PEER: &str = "delta";
/// Bytes of an oversized answer.
const OVERSIZE_BYTES: usize = 8 << 10;
/// Capacity of a pipe in bytes.
const PIPE_BYTES: usize = 32 << 10;

/// How a peer treats one call of its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behavior {
    Prompt,
    /// Answers after this many milliseconds.
    Slow(u64),
    Silent,
    /// Sends something that is not JSON, then answers.
    Junk,
    /// Answers with an id that was not requested.
    OtherId,
    Twice,
    /// Ends without an answer.
    Dies,
    /// Answers with a JSON-RPC error that contains a secret.
    Error,
    /// Answers that the tool failed.
    ToolError,
    /// Answers with more bytes than allowed.
    Oversize,
    /// Answers with a secret beside the value.
    Secret,
    /// Announces that its tools changed, then answers.
    ListChanged,
    /// Forgets its session once; over pipes there is none, so it answers.
    Forgets,
}

impl Behavior {
    /// Whether the call gets the requested value, if nothing else goes wrong and time allows.
    pub fn is_good(self) -> bool {
        matches!(
            self,
            Behavior::Prompt
                | Behavior::Slow(_)
                | Behavior::Twice
                | Behavior::Secret
                | Behavior::ListChanged
                | Behavior::Forgets
        )
    }
}

/// How a peer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerStart {
    Well,
    Fails,
    /// It starts, but does not answer the handshake.
    Mute,
}

#[derive(Clone)]
pub struct Peers {
    shared: Arc<Mutex<BTreeMap<String, Peer>>>,
    /// Whether the returned values are the requested ones; a dishonest peer shows that the simulation detects wrong ones.
    honest: bool,
}

/// One peer across restarts.
#[derive(Default)]
struct Peer {
    manners: VecDeque<Behavior>,
    starts: VecDeque<PeerStart>,
    alive: Option<watch::Sender<bool>>,
    /// How each call was treated, by the requested number.
    served: BTreeMap<i64, Behavior>,
    /// Over HTTP: the number of the session that it knows; `None` before the first handshake and after it was forgotten.
    session: Option<u64>,
    /// Number of sessions that it issued.
    sessions: u64,
    /// Whether it ever misbehaved.
    faulty: bool,
}

impl Peers {
    /// Peers that do not misbehave yet.
    pub fn new(honest: bool) -> Self {
        Peers {
            shared: Arc::default(),
            honest,
        }
    }

    /// Queues how the next call of a peer is treated.
    pub fn set_next_behavior(&self, name: &str, behavior: Behavior) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty |= behavior != Behavior::Prompt;
        peer.manners.push_back(behavior);
    }

    /// Queues how a peer starts the next time.
    pub fn set_next_start(&self, name: &str, start: PeerStart) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty |= start != PeerStart::Well;
        peer.starts.push_back(start);
    }

    /// Ends a peer's process, if it runs.
    pub fn kill(&self, name: &str) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty = true;
        peer.session = None;
        if let Some(alive) = &peer.alive {
            alive.send_replace(false);
        }
    }

    /// The configuration of an upstream.
    pub fn entry(name: &str) -> Value {
        let base = format!("http://{name}.invalid");
        match name {
            HTTP_PEER => json!({
                "transport": "mcp_http",
                "url": format!("{base}/mcp"),
                "allow_insecure_http": true,
            }),
            OPENAPI_PEER => json!({
                "transport": "openapi",
                "base_url": base,
                "schema_url": format!("{base}/schema"),
                "include_operations": ["echo"],
                "allow_insecure_http": true,
            }),
            _ => json!({"transport": "mcp_stdio", "command": name}),
        }
    }

    /// How the call for `number` was treated, if it arrived.
    pub fn served(&self, name: &str, number: i64) -> Option<Behavior> {
        self.lock().get(name)?.served.get(&number).copied()
    }

    /// Whether a peer ever misbehaved, so that any of its calls may have been affected.
    pub fn is_faulty(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|peer| peer.faulty)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Peer>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launcher for Peers {
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault> {
        let name = config.command.clone();
        let (alive, watching) = watch::channel(true);
        let start = {
            let mut peers = self.lock();
            let peer = peers.entry(name.clone()).or_default();
            peer.alive = Some(alive.clone());
            peer.starts.pop_front().unwrap_or(PeerStart::Well)
        };
        if start == PeerStart::Fails {
            let message = format!("command not found: {name}");
            return Err(WorldFault::new(Reason::UpstreamUnavailable, message));
        }
        let (stdin, requests) = tokio::io::duplex(PIPE_BYTES);
        let (answers, stdout) = tokio::io::duplex(PIPE_BYTES);
        let (say, said) = mpsc::unbounded_channel();
        let life = PeerTask {
            peers: self.clone(),
            name,
            mute: start == PeerStart::Mute,
            say,
            alive: alive.clone(),
        };
        tokio::spawn(write(answers, said, watching.clone()));
        tokio::spawn(life.run(requests, watching.clone()));
        Ok(Child {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(tokio::io::empty()),
            life: Box::new(Watched(watching)),
            group: Box::new(KillSwitch(alive)),
        })
    }
}

/// Waits for the end of a peer.
struct Watched(watch::Receiver<bool>);

impl ChildExit for Watched {
    fn wait(&mut self) -> ExitFuture<'_> {
        Box::pin(async {
            let _everybody_left = self.0.wait_for(|alive| !alive).await;
            Ok(ExitStatus::from_raw(0))
        })
    }
}

/// Ends a peer at any signal.
struct KillSwitch(watch::Sender<bool>);

impl ProcessGroup for KillSwitch {
    fn signal(&self, _: Signal) {
        self.0.send_replace(false);
    }
}

/// Writes the peer's messages, until it ends.
async fn write(
    mut out: DuplexStream,
    mut said: mpsc::UnboundedReceiver<String>,
    mut alive: watch::Receiver<bool>,
) {
    loop {
        let line = tokio::select! {
            biased;
            _ = alive.wait_for(|alive| !alive) => return,
            line = said.recv() => line,
        };
        let Some(mut line) = line else { return };
        line.push('\n');
        let written = tokio::select! {
            biased;
            _ = alive.wait_for(|alive| !alive) => return,
            written = out.write_all(line.as_bytes()) => written,
        };
        if written.is_err() {
            return;
        }
    }
}

struct PeerTask {
    peers: Peers,
    name: String,
    mute: bool,
    say: mpsc::UnboundedSender<String>,
    alive: watch::Sender<bool>,
}

impl PeerTask {
    async fn run(self, requests: DuplexStream, mut alive: watch::Receiver<bool>) {
        let mut lines = BufReader::new(requests).lines();
        loop {
            let line = tokio::select! {
                biased;
                _ = alive.wait_for(|alive| !alive) => return,
                line = lines.next_line() => line,
            };
            let Ok(Some(line)) = line else { break };
            let request: Value = serde_json::from_str(&line).expect("the client sends JSON");
            if !request["id"].is_null() && !self.mute {
                self.answer(&request);
            }
        }
        // The peer ends when its input ends.
        self.alive.send_replace(false);
    }

    fn answer(&self, request: &Value) {
        let id = &request["id"];
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match request["method"].as_str().unwrap_or_default() {
            "initialize" => self.send(&result(initialize_result(&self.name))),
            "tools/list" => self.send(&result(tools())),
            "tools/call" => self.serve(request),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        }
    }

    fn serve(&self, request: &Value) {
        let number = requested_number(request);
        let (behavior, mut content) = self.peers.take(&self.name, number);
        let id = &request["id"];
        match behavior {
            Behavior::Prompt | Behavior::Forgets => self.send(&reply(id, &content, false)),
            Behavior::Slow(ms) => {
                let (say, line) = (self.say.clone(), reply(id, &content, false).to_string());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    let _nobody_listens = say.send(line);
                });
            }
            Behavior::Silent => {}
            Behavior::Junk => {
                let _nobody_listens = self.say.send(format!("<{CANARY}>"));
                self.send(&reply(id, &content, false));
            }
            Behavior::OtherId => self.send(&reply(&json!(1_000_000 + number), &content, false)),
            Behavior::Twice => {
                self.send(&reply(id, &content, false));
                self.send(&reply(id, &content, false));
            }
            Behavior::Dies => {
                self.alive.send_replace(false);
            }
            Behavior::Error => {
                let error = json!({"code": -32000, "message": format!("no: {CANARY}")});
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Behavior::ToolError => self.send(&reply(id, &json!({"why": CANARY}), true)),
            Behavior::Oversize => {
                content["filler"] = json!("x".repeat(OVERSIZE_BYTES));
                self.send(&reply(id, &content, false));
            }
            Behavior::Secret => {
                content["key"] = json!(CANARY);
                self.send(&reply(id, &content, false));
            }
            Behavior::ListChanged => {
                let method = "notifications/tools/list_changed";
                self.send(&json!({"jsonrpc": "2.0", "method": method}));
                self.send(&reply(id, &content, false));
            }
        }
    }

    fn send(&self, frame: &Value) {
        let _nobody_listens = self.say.send(frame.to_string());
    }
}

fn initialize_result(name: &str) -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": "1"},
    })
}

fn tools() -> Value {
    let properties = json!({"n": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["n"]});
    json!({"tools": [{"name": "echo", "description": "Gives back n.", "inputSchema": schema}]})
}

/// The number that a call requests.
fn requested_number(request: &Value) -> i64 {
    let number = request["params"]["arguments"]["n"].as_i64();
    number.expect("the client sends the argument that the schema asks for")
}

/// The answer to a call of the tool.
fn reply(id: &Value, content: &Value, is_error: bool) -> Value {
    let result = json!({"content": [], "structuredContent": content, "isError": is_error});
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

impl Peers {
    /// How the call for `number` is treated, and the content of a correct answer.
    fn take(&self, name: &str, number: i64) -> (Behavior, Value) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        let behavior = peer.manners.pop_front().unwrap_or(Behavior::Prompt);
        peer.served.insert(number, behavior);
        let said = if self.honest { number } else { number + 1 };
        (behavior, json!({"n": said}))
    }

    /// Answers a request over HTTP, unless the peer is killed meanwhile.
    async fn over_http(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, WorldFault> {
        let host = request.uri().host().unwrap_or_default();
        let name = host.strip_suffix(".invalid").unwrap_or_default().to_owned();
        let mut alive = self.watch(&name);
        tokio::select! {
            biased;
            _ = alive.wait_for(|alive| !alive) => Err(closed()),
            answer = async {
                match name.as_str() {
                    HTTP_PEER => self.post(&name, &request).await,
                    _ => self.get(&name, &request).await,
                }
            } => answer,
        }
    }

    /// Watches whether a peer over HTTP is killed. It is up again at once, without any memory of the past.
    fn watch(&self, name: &str) -> watch::Receiver<bool> {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        let up = peer.alive.take().filter(|alive| *alive.borrow());
        let alive = up.unwrap_or_else(|| watch::channel(true).0);
        let watching = alive.subscribe();
        peer.alive = Some(alive);
        watching
    }

    /// The peer's reaction to its first request over HTTP.
    async fn starts(&self, name: &str) -> Result<(), WorldFault> {
        let start = {
            let mut peers = self.lock();
            peers.entry(name.to_owned()).or_default().starts.pop_front()
        };
        match start.unwrap_or(PeerStart::Well) {
            PeerStart::Well => Ok(()),
            PeerStart::Fails => Err(WorldFault::new(
                Reason::UpstreamUnavailable,
                "connection refused",
            )),
            PeerStart::Mute => std::future::pending().await,
        }
    }

    /// MCP over Streamable HTTP.
    async fn post(
        &self,
        name: &str,
        request: &Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, WorldFault> {
        let header = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
        let frame: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (id, method) = (&frame["id"], frame["method"].as_str().unwrap_or_default());
        if method == "initialize" {
            self.starts(name).await?;
            let session = {
                let mut peers = self.lock();
                let peer = peers.entry(name.to_owned()).or_default();
                peer.sessions += 1;
                peer.session = Some(peer.sessions);
                peer.sessions
            };
            let result = initialize_result(name);
            let mut response = json_response(
                &json!({"jsonrpc": "2.0", "id": id, "result": result}),
                false,
            );
            let session = HeaderValue::from(session);
            response.headers_mut().insert("mcp-session-id", session);
            return Ok(response);
        }
        let known = self.lock().get(name).and_then(|peer| peer.session);
        let known = known.map(|session| session.to_string());
        match header("mcp-session-id") {
            None => return Ok(status(StatusCode::BAD_REQUEST)),
            Some(session) if Some(session) != known.as_ref().map(String::as_bytes) => {
                return Ok(status(StatusCode::NOT_FOUND));
            }
            Some(_) => {}
        }
        if request.method() == Method::DELETE || id.is_null() {
            return Ok(status(StatusCode::ACCEPTED));
        }
        assert_eq!(
            header("mcp-protocol-version"),
            Some(b"2025-06-18".as_slice()),
            "the client says which revision was agreed on"
        );
        if method == "tools/list" {
            let list = json!({"jsonrpc": "2.0", "id": id, "result": tools()});
            return Ok(json_response(&list, false));
        }
        let number = requested_number(&frame);
        let (behavior, mut content) = self.take(name, number);
        match behavior {
            Behavior::Prompt => {}
            Behavior::Slow(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Behavior::Silent => std::future::pending().await,
            Behavior::Junk => return Ok(text(&format!("<{CANARY}>"), "application/json")),
            Behavior::OtherId => {
                let other = json!(1_000_000 + number);
                return Ok(json_response(&reply(&other, &content, false), false));
            }
            Behavior::Twice => {
                let twice = json_response(&reply(id, &content, false), true)
                    .into_body()
                    .repeat(2);
                let twice = String::from_utf8_lossy(&twice).into_owned();
                return Ok(text(&twice, "text/event-stream"));
            }
            Behavior::Dies => return Err(closed()),
            Behavior::Error => {
                let error = json!({"code": -32000, "message": format!("no: {CANARY}")});
                let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
                return Ok(json_response(&error, false));
            }
            Behavior::ToolError => {
                return Ok(json_response(
                    &reply(id, &json!({"why": CANARY}), true),
                    false,
                ));
            }
            Behavior::Oversize => content["filler"] = json!("x".repeat(OVERSIZE_BYTES)),
            Behavior::Secret => content["key"] = json!(CANARY),
            Behavior::ListChanged => {
                let method = "notifications/tools/list_changed";
                let mut events = json_response(&json!({"jsonrpc": "2.0", "method": method}), true);
                let answer = json_response(&reply(id, &content, false), true);
                events.body_mut().extend(answer.into_body());
                return Ok(events);
            }
            Behavior::Forgets => {
                if let Some(peer) = self.lock().get_mut(name) {
                    peer.session = None;
                }
                return Ok(status(StatusCode::NOT_FOUND));
            }
        }
        Ok(json_response(&reply(id, &content, false), false))
    }

    /// The service with an OpenAPI description, and the description itself.
    async fn get(
        &self,
        name: &str,
        request: &Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, WorldFault> {
        if request.uri().path() == "/schema" {
            self.starts(name).await?;
            return Ok(json_response(&description(), false));
        }
        let query = request.uri().query().unwrap_or_default();
        let number = query
            .strip_prefix("n=")
            .and_then(|number| number.parse().ok());
        let number = number.expect("the client sends the argument that the description asks for");
        let (behavior, mut content) = self.take(name, number);
        match behavior {
            Behavior::Prompt | Behavior::Twice | Behavior::ListChanged | Behavior::Forgets => {}
            Behavior::Slow(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Behavior::Silent => std::future::pending().await,
            Behavior::Junk => return Ok(text(&format!("<{CANARY}>"), "application/json")),
            Behavior::Dies => return Err(closed()),
            Behavior::Error | Behavior::OtherId | Behavior::ToolError => {
                let mut refusal = text(&format!("no: {CANARY}"), "text/plain");
                *refusal.status_mut() = match behavior {
                    Behavior::ToolError => StatusCode::UNPROCESSABLE_ENTITY,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                return Ok(refusal);
            }
            Behavior::Oversize => content["filler"] = json!("x".repeat(OVERSIZE_BYTES)),
            Behavior::Secret => content["key"] = json!(CANARY),
        }
        Ok(json_response(&content, false))
    }
}

impl HttpBackend for Peers {
    fn send(&self, request: Request<Vec<u8>>) -> ResponseFuture<'_> {
        Box::pin(self.over_http(request))
    }
}

fn description() -> Value {
    let number =
        json!({"name": "n", "in": "query", "required": true, "schema": {"type": "integer"}});
    let result = json!({"200": {"content": {"application/json": {"schema": {"type": "object"}}}}});
    let operation = json!({"operationId": "echo", "parameters": [number], "responses": result});
    json!({"openapi": "3.0.3", "paths": {"/echo": {"get": operation}}})
}

fn closed() -> WorldFault {
    WorldFault::new(Reason::UpstreamUnavailable, "socket closed")
}

fn status(status: StatusCode) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    response
}

/// JSON, as a whole body or as an event.
fn json_response(value: &Value, event: bool) -> Response<Vec<u8>> {
    match event {
        true => text(&format!("data: {value}\n\n"), "text/event-stream"),
        false => text(&value.to_string(), "application/json"),
    }
}

fn text(body: &str, kind: &'static str) -> Response<Vec<u8>> {
    let mut response = Response::new(body.as_bytes().to_vec());
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert("content-type", kind);
    response
}
