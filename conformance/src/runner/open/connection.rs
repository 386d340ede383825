//! A connection to a server, over standard streams or HTTP, on which any messages may arrive between a request and its response.
//! Every message is inspected when it arrives, and the server's requests are answered. Knows nothing of cases.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::start::PreparedProcess;
use super::super::transcript::{Record, Stop};
use super::findings::{Findings, MessageKind, SentRequests};
use super::stateless;
use crate::json;
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::frame;
use crate::target::http::{Endpoint, HttpLink};
use crate::target::lines::Piece;
use crate::target::link;
use crate::target::process::{Process, ProcessHandle};
use crate::target::sse::{self, Event};

/// The id of the handshake; no case uses it.
const HANDSHAKE_ID: &str = "handshake";
/// How long a posted message gets before the next one is sent, so that quick answers keep their order.
const HEAD_START: Duration = Duration::from_millis(10);
/// How long a server that closed its output may take to exit.
const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(500);
/// How long a server may take to close its output after its input has ended.
const CLOSE_WAIT: Duration = Duration::from_millis(250);

pub struct Connection {
    wire: ConnectionTransport,
    requests: SentRequests,
    findings: Arc<Findings>,
    patience: Patience,
    /// Whether messages are converted to the stateless revision.
    stateless: bool,
    /// The record of the current case.
    pub record: Record,
}

enum ConnectionTransport {
    Pipe {
        process: Process,
        _files: Arc<PreparedProcess>,
    },
    Posts {
        link: Arc<HttpLink>,
        sender: mpsc::UnboundedSender<PostResult>,
        frames: mpsc::UnboundedReceiver<PostResult>,
    },
}

/// A result of a POST.
enum PostResult {
    /// A message, or why there is none.
    Frame(Result<String, Fault>),
    /// The events of a stream of the session, before its messages.
    Stream(Vec<Event>),
    /// A fault of the response itself: a finding, and what was observed.
    Wrong(&'static str, String),
}

/// The params of `initialize`, for a client without capabilities.
pub fn initialize_params(revision: &str) -> String {
    format!(
        "{{\"protocolVersion\":\"{revision}\",\"capabilities\":{{}},\"clientInfo\":{{\"name\":\"mcp-conformance\",\"version\":\"{}\"}}}}",
        env!("CARGO_PKG_VERSION")
    )
}

impl Connection {
    /// Starts a server that uses its standard streams. Nothing is sent yet.
    ///
    /// # Errors
    /// When it does not start.
    pub fn over_stdio(
        prepared: Arc<PreparedProcess>,
        findings: Arc<Findings>,
        patience: Patience,
    ) -> Result<Self, Fault> {
        let process = link::launch(&prepared.spawn)?;
        let wire = ConnectionTransport::Pipe {
            process,
            _files: prepared,
        };
        Ok(Self::new(wire, findings, patience))
    }

    /// Prepares a session with a listening server. Nothing is sent yet.
    ///
    /// # Errors
    /// When a header is not valid in HTTP.
    pub fn over_http(
        endpoint: &Endpoint,
        findings: Arc<Findings>,
        patience: Patience,
    ) -> Result<Self, Fault> {
        let (sender, frames) = mpsc::unbounded_channel();
        let wire = ConnectionTransport::Posts {
            link: Arc::new(HttpLink::new(endpoint)?),
            sender,
            frames,
        };
        Ok(Self::new(wire, findings, patience))
    }

    fn new(wire: ConnectionTransport, findings: Arc<Findings>, patience: Patience) -> Self {
        Self {
            wire,
            requests: SentRequests::default(),
            findings,
            patience,
            stateless: false,
            record: Record::default(),
        }
    }

    /// Switches the connection to the stateless revision.
    pub fn into_stateless(mut self) -> Self {
        self.stateless = true;
        self
    }

    /// A message in the form that this connection uses.
    pub fn encode_message(&self, message: Vec<u8>) -> Vec<u8> {
        match std::str::from_utf8(&message) {
            Ok(text) if self.stateless => stateless::convert_message(text).into_bytes(),
            _ => message,
        }
    }

    /// Bytes that need not be a message, in the form that this connection uses.
    pub fn encode_raw(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.stateless {
            stateless::convert_bytes(&bytes)
        } else {
            bytes
        }
    }

    /// Sends `server/discover` to a server of the stateless revision.
    ///
    /// # Errors
    /// When there is no result.
    async fn discover(&mut self) -> Result<Value, Stop> {
        let (id, start) = (Value::from(HANDSHAKE_ID), self.patience.start);
        let answer = self.ask(&id, "server/discover", None, start).await?;
        require_result(answer, "server/discover")
    }

    /// Initializes the protocol and returns the server's answer; in the stateless revision sends `server/discover`.
    ///
    /// # Errors
    /// When there is no result.
    pub async fn initialize(&mut self) -> Result<Value, Stop> {
        if self.stateless {
            return self.discover().await;
        }
        let params = initialize_params(link::PROTOCOL_VERSION);
        let frame = link::frame(link::quoted(HANDSHAKE_ID), "initialize", Some(&params));
        let answer = if let ConnectionTransport::Posts { link, .. } = &self.wire {
            let link = Arc::clone(link);
            let make = |id| link::frame(id, "initialize", Some(&params));
            let answered = link.ask(make, self.patience.start).await;
            let answered = answered.map_err(|failed| Stop::Fault(failed.0))?;
            self.record.sent(answered.sent.as_bytes());
            self.record.received(&answered.received);
            self.requests
                .record_sent(format!("{}\n", answered.sent).as_bytes());
            let looked =
                self.findings
                    .inspect(answered.received.as_bytes(), &mut self.requests, false);
            looked.map(|(message, _)| message).unwrap_or_default()
        } else {
            self.send((frame + "\n").as_bytes()).await?;
            self.answer(&Value::from(HANDSHAKE_ID), self.patience.start)
                .await?
        };
        let answer = require_result(answer, "initialize")?;
        self.send(format!("{}\n", link::INITIALIZED).as_bytes())
            .await?;
        Ok(answer)
    }

    /// Sends a request and waits for the answer, skipping other messages.
    ///
    /// # Errors
    /// When none arrives in time.
    pub async fn ask(
        &mut self,
        id: &Value,
        method: &str,
        params: Option<&str>,
        waited: Duration,
    ) -> Result<Value, Stop> {
        let frame = link::frame(id, method, params).into_bytes();
        let mut frame = self.encode_message(frame);
        frame.push(b'\n');
        self.send(&frame).await?;
        self.answer(id, waited).await
    }

    async fn answer(&mut self, id: &Value, waited: Duration) -> Result<Value, Stop> {
        let deadline = Instant::now() + waited;
        loop {
            let (message, kind) = self.message(deadline, waited).await?;
            let named = message.get("id").unwrap_or(&Value::Null);
            // An answer with an unknown id is a finding already; accept it here, so that the survey can go on.
            if kind == MessageKind::Response && (named == id || !self.requests.contains(named)) {
                return Ok(message);
            }
        }
    }

    /// The requests sent on this connection.
    pub fn requests(&self) -> &SentRequests {
        &self.requests
    }

    /// The headers of requests within its session.
    pub fn session_headers(&self) -> Vec<(String, String)> {
        match &self.wire {
            ConnectionTransport::Pipe { .. } => Vec::new(),
            ConnectionTransport::Posts { link, .. } => link.session_headers(),
        }
    }

    /// Ends the session over HTTP. Returns the status of the server's response.
    pub async fn close(&self) -> Option<u16> {
        match &self.wire {
            ConnectionTransport::Pipe { .. } => None,
            ConnectionTransport::Posts { link, .. } => link.close(self.patience.reply).await,
        }
    }

    /// Whether the connection uses standard streams.
    pub fn is_pipe(&self) -> bool {
        matches!(self.wire, ConnectionTransport::Pipe { .. })
    }

    /// Sends bytes: to standard input, or as a POST of their own over HTTP.
    ///
    /// # Errors
    /// When the server does not accept them.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.record.sent(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.requests.record_sent(bytes);
        let waited = self.patience.reply;
        match &mut self.wire {
            ConnectionTransport::Pipe { process, .. } => {
                match tokio::time::timeout(waited, process.write(bytes)).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) => Err(Stop::Fault(self.closed_fault().await)),
                    Err(_) => Err(Stop::Fault(Fault::InputStalled { waited })),
                }
            }
            ConnectionTransport::Posts { link, sender, .. } => {
                let (link, sender) = (Arc::clone(link), sender.clone());
                let alone = stateless::headers(text.trim_end(), &self.findings);
                let of_notification = || stateless::notification_headers(text.trim_end());
                let alone = alone.or_else(|| self.stateless.then(of_notification));
                // Accepting a notification takes no work that the next message could be meant to overtake, so its response is awaited.
                let is_notification = frame::is_notification(text.trim_end());
                let task = tokio::spawn(async move {
                    for result in post(&link, text.trim_end(), alone, waited).await {
                        // The case may have ended already.
                        let _over = sender.send(result);
                    }
                });
                let head_start = if is_notification { waited } else { HEAD_START };
                self.record.overtaken |= tokio::time::timeout(head_start, task).await.is_err();
                Ok(())
            }
        }
    }

    /// The next valid message. Anything invalid is recorded as a finding and skipped.
    ///
    /// # Errors
    /// When none arrives before the deadline, `waited` from now, or none can arrive any more.
    pub async fn message(
        &mut self,
        deadline: Instant,
        waited: Duration,
    ) -> Result<(Value, MessageKind), Stop> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let silent = Stop::Fault(Fault::NoReply { waited });
            let stdio = self.is_pipe();
            let bytes = match &mut self.wire {
                ConnectionTransport::Pipe { process, .. } => {
                    match tokio::time::timeout(left, process.lines.next()).await {
                        Err(_) => return Err(silent),
                        Ok(None) => return Err(Stop::Fault(self.closed_fault().await)),
                        Ok(Some(piece)) => match self.complete_line(piece) {
                            Some(bytes) => bytes,
                            None => continue,
                        },
                    }
                }
                ConnectionTransport::Posts { frames, .. } => {
                    match tokio::time::timeout(left, frames.recv()).await {
                        Err(_) | Ok(None) => return Err(silent),
                        Ok(Some(PostResult::Frame(frame))) => frame?.into_bytes(),
                        Ok(Some(PostResult::Stream(events))) => {
                            self.findings.inspect_stream(&events, &mut self.requests);
                            continue;
                        }
                        Ok(Some(PostResult::Wrong(word, what))) => {
                            self.findings.add(word, &what);
                            continue;
                        }
                    }
                }
            };
            self.record.received(&String::from_utf8_lossy(&bytes));
            let looked = self.findings.inspect(&bytes, &mut self.requests, stdio);
            let Some((message, kind)) = looked else {
                continue;
            };
            if kind == MessageKind::Request {
                self.answer_request(&message).await?;
            }
            return Ok((message, kind));
        }
    }

    fn complete_line(&mut self, piece: Piece) -> Option<Vec<u8>> {
        let (what, bytes) = match piece {
            Piece::Line(bytes) if bytes.is_empty() => ("an empty line", bytes),
            Piece::Line(bytes) => return Some(bytes),
            Piece::Unterminated(bytes) => ("no newline ends", bytes),
            Piece::Overlong { head, .. } => ("an overlong line", head),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.record.received(&text);
        self.findings
            .add("junk", &format!("{what}: {}", Value::from(text)));
        None
    }

    /// Answers a request of the server as a client without capabilities does.
    async fn answer_request(&mut self, request: &Value) -> Result<(), Stop> {
        let id = request.get("id").cloned().unwrap_or(Value::Null);
        let answer = match request.get("method").and_then(Value::as_str) {
            // The link answers these where they arrive.
            Some("ping") if matches!(self.wire, ConnectionTransport::Posts { .. }) => return Ok(()),
            Some("ping") => frame::empty_result(id) + "\n",
            _ => format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"Method not found\"}}}}\n"
            ),
        };
        self.send(answer.as_bytes()).await
    }

    /// The process, if the harness started it.
    pub fn process(&self) -> Option<&Arc<ProcessHandle>> {
        match &self.wire {
            ConnectionTransport::Pipe { process, .. } => Some(process.handle()),
            ConnectionTransport::Posts { .. } => None,
        }
    }

    /// Closes the input of a process that the harness started.
    pub fn end_input(&mut self) {
        if let ConnectionTransport::Pipe { process, .. } = &mut self.wire {
            process.end_input();
        }
    }

    /// Closes the input, inspects the remaining output, and takes the server down.
    pub async fn shut_down(&mut self) {
        let Some(process) = self.process().cloned() else {
            self.close().await;
            return;
        };
        self.end_input();
        let deadline = Instant::now() + CLOSE_WAIT;
        while self.message(deadline, CLOSE_WAIT).await.is_ok() {}
        process.kill().await;
    }

    /// The server's standard error.
    pub fn stderr(&self) -> String {
        self.process()
            .map(|process| process.stderr().text())
            .unwrap_or_default()
    }

    async fn closed_fault(&self) -> Fault {
        let Some(process) = self.process() else {
            return Fault::ClosedOutput;
        };
        match tokio::time::timeout(EXIT_AFTER_OUTPUT, process.exited()).await {
            Ok(exit) => Fault::Exited { exit },
            Err(_) => Fault::ClosedOutput,
        }
    }
}

/// The answer, if it contains a result.
fn require_result(answer: Value, method: &str) -> Result<Value, Stop> {
    if answer.get("result").is_some() {
        return Ok(answer);
    }
    Err(Stop::Fault(Fault::Malformed {
        expected: format!("a result for `{method}`"),
        line: answer.to_string(),
    }))
}

/// The results of one POST: messages, or why there are none. A request of the stateless revision has its own headers, and belongs to
/// no session.
async fn post(
    link: &HttpLink,
    text: &str,
    alone: Option<Vec<(String, String)>>,
    waited: Duration,
) -> Vec<PostResult> {
    let answer = match &alone {
        Some(headers) => link.post_alone(text, headers, waited).await,
        None => link.post(text, waited).await,
    };
    let reply = match answer {
        Ok(reply) => reply,
        Err(fault) => return vec![PostResult::Frame(Err(fault))],
    };
    if reply.status >= 400 && frame::is_notification(text) {
        // A server may reject a notification with a status and an error that answers no request.
        return Vec::new();
    }
    if alone.is_none() && text.contains("\"initialize\"") {
        link.enter_session(&reply);
    }
    let frames = reply.frames();
    let is_object =
        |frame: &String| json::parse_loosely(frame).is_some_and(|value| value.is_object());
    if reply.status >= 400 && !frames.iter().any(is_object) {
        let message = format!(
            "the server answered HTTP {}: {}",
            reply.status,
            crate::target::fault::quote(&frames.concat())
        );
        return vec![PostResult::Frame(Err(Fault::Http { message }))];
    }
    let mut results = Vec::new();
    if !reply.is_utf8 {
        results.push(PostResult::Wrong("not-utf8", reply.body.clone()));
    }
    if alone.is_none() && reply.is_stream() {
        results.push(PostResult::Stream(sse::read(&reply.body)));
    }
    if alone.is_some() {
        if let Some(id) = reply.header("mcp-session-id") {
            results.push(PostResult::Wrong(
                "minted",
                format!("`Mcp-Session-Id: {id}`"),
            ));
        }
        let buffering = reply.header("x-accel-buffering");
        if reply.is_stream() && buffering != Some("no") {
            let what = format!("`X-Accel-Buffering: {}`", buffering.unwrap_or_default());
            results.push(PostResult::Wrong("buffered", what));
        }
    }
    results.extend(frames.into_iter().map(|frame| PostResult::Frame(Ok(frame))));
    results
}
