//! A peer over HTTP/1.1, with TLS if its script asks for it: an MCP endpoint at `/mcp`, or a JSON service. One thread per connection; only what
//! scripts need.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::barriers::CallBarriers;
use super::mcp::{Reaction, react};
use super::script::{Action, PeerKind, Script};
use super::{PeerError, PeerFiles, tls};

/// Path of the MCP endpoint.
const MCP_PATH: &str = "/mcp";
/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

struct Peer {
    script: Mutex<Script>,
    files: PeerFiles,
    session: AtomicU64,
    barriers: CallBarriers,
}

struct Request {
    method: String,
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delivery: Delivery,
}

/// How a response is sent; by default as a whole, with its length.
#[derive(Clone, Copy, Default)]
struct Delivery {
    chunk: Option<usize>,
    stall: bool,
    open: bool,
    cut: bool,
    hang_up: bool,
}

impl Delivery {
    fn of(action: &Action) -> Self {
        Self {
            chunk: action.chunk.or(action.open.then_some(usize::MAX)),
            stall: action.stall,
            open: action.open,
            cut: action.cut,
            hang_up: action.hang_up,
        }
    }
}

/// Listens on a free port, prints the URL, and serves until standard input ends.
pub(super) fn play(script: Script, files: PeerFiles) -> Result<(), PeerError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(PeerError::Listen)?;
    let address = listener.local_addr().map_err(PeerError::Listen)?;
    let path = if script.kind == PeerKind::Http {
        MCP_PATH
    } else {
        ""
    };
    let tls = script.tls.then(tls::config).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{scheme}://{address}{path}").and_then(|()| out.flush());
    let peer = Arc::new(Peer {
        script: Mutex::new(script),
        files,
        session: AtomicU64::new(1),
        barriers: CallBarriers::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (peer, tls) = (Arc::clone(&peer), tls.clone());
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                match &tls {
                    None => peer.serve(stream),
                    Some(config) => {
                        if let Ok(stream) = tls::accept(config, stream) {
                            peer.serve(stream);
                        }
                    }
                }
            });
        }
    });
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    Ok(())
}

impl Peer {
    fn serve(&self, stream: impl Read + Write) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            let response = self.answer(&request);
            let delivery = response.delivery;
            let stream = reader.get_mut();
            if delivery.hang_up || write_response(stream, response).is_err() || delivery.cut {
                return;
            }
            if delivery.stall || delivery.open {
                std::thread::park();
            }
        }
    }

    fn answer(&self, request: &Request) -> Response {
        let required = self.script().require_header.clone();
        self.note(request);
        if let Some((name, value)) = required
            && request.headers.get(&name.to_ascii_lowercase()) != Some(&value)
        {
            return plain(401, "");
        }
        if self.script().kind == PeerKind::Http {
            self.mcp(request)
        } else {
            self.service(request)
        }
    }

    fn note(&self, request: &Request) {
        let body = String::from_utf8_lossy(&request.body);
        let body =
            serde_json::from_str::<Value>(&body).unwrap_or_else(|_| Value::from(body.as_ref()));
        let note = json!({"method": request.method, "target": request.target, "headers": request.headers, "body": body});
        self.files.received(&note.to_string());
    }

    fn mcp(&self, request: &Request) -> Response {
        if request.method != "POST" {
            return plain(if request.method == "DELETE" { 204 } else { 405 }, "");
        }
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return plain(400, "");
        };
        let sessions = self.script().sessions;
        let current = format!("session-{}", self.session.load(Ordering::SeqCst));
        let initialize = message["method"] == "initialize";
        if sessions && !initialize && request.headers.get("mcp-session-id") != Some(&current) {
            return plain(404, "");
        }
        let elsewhere = Some(request.target.as_str()).filter(|path| *path != MCP_PATH);
        let reaction = react(&mut self.script(), &message, elsewhere);
        let Reaction::Do { action, answer } = reaction else {
            return plain(202, "");
        };
        if action.lose_session {
            self.session.fetch_add(1, Ordering::SeqCst);
            self.script().tools.iter_mut().for_each(clear_session_loss);
            return plain(404, "");
        }
        let mut response = self.run_action(&action, answer.as_ref());
        if sessions && initialize {
            response.headers.push(("Mcp-Session-Id".into(), current));
        }
        response
    }

    fn run_action(&self, action: &Action, answer: Option<&Value>) -> Response {
        std::thread::sleep(Duration::from_millis(action.delay_ms));
        self.barriers.wait(action.together);
        if let Some(status) = action.exit {
            std::process::exit(status);
        }
        if action.silent {
            std::thread::park();
        }
        let mut headers: Vec<(String, String)> = action
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let delivery = Delivery::of(action);
        if let Some(status) = action.status {
            let body = action.body.clone().unwrap_or_default().into_bytes();
            return Response {
                status,
                headers,
                body,
                delivery,
            };
        }
        let (kind, body) = self.body(action, answer);
        let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if !headers.iter().any(named) {
            headers.push(("Content-Type".into(), kind.into()));
        }
        Response {
            status: 200,
            headers,
            body: body.into_bytes(),
            delivery,
        }
    }

    /// The body of an answer without a scripted status, and its media type.
    fn body(&self, action: &Action, answer: Option<&Value>) -> (&'static str, String) {
        const STREAM: &str = "text/event-stream";
        let answer = answer.map(Value::to_string);
        if self.script().sse || !action.before.is_empty() || action.events.is_some() {
            return (STREAM, event_stream(action, answer));
        }
        let mut messages = action.raw.iter().cloned();
        let body = answer.or_else(|| messages.next()).unwrap_or_default();
        ("application/json", body)
    }

    fn service(&self, request: &Request) -> Response {
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((&request.target, ""));
        if path == "/openapi.json" {
            let schema = self.script().schema.clone().unwrap_or(Value::Null);
            return typed(schema.to_string());
        }
        let route = self.script().routes.get(path).cloned();
        let Some(action) = route else {
            return plain(404, "no such route");
        };
        if action.echo {
            std::thread::sleep(Duration::from_millis(action.delay_ms));
            return typed(
                json!({"path": path, "query": query, "headers": request.headers}).to_string(),
            );
        }
        if let Some(value) = action.structured.as_ref().or(action.result.as_ref()) {
            std::thread::sleep(Duration::from_millis(action.delay_ms));
            return typed(value.to_string());
        }
        if let Some(bytes) = action.fill {
            return typed(format!("\"{}\"", "x".repeat(bytes)));
        }
        self.run_action(&action, None)
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer as a stream of events, preceded by the scripted messages.
pub fn event_stream(action: &Action, answer: Option<String>) -> String {
    if let Some(events) = &action.events {
        return events.replace("{{answer}}", &answer.unwrap_or_default());
    }
    let messages = action.before.iter().chain(&action.raw).cloned();
    let event = |message| format!("event: message\ndata: {message}\n\n");
    messages.chain(answer).map(event).collect()
}

/// Makes sure that a session is lost only once, so that the repeated call succeeds.
fn clear_session_loss(tool: &mut Value) {
    if let Some(does) = tool.get_mut("does").and_then(Value::as_object_mut) {
        does.remove("lose_session");
    }
}

fn plain(status: u16, body: &str) -> Response {
    Response {
        status,
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
        delivery: Delivery::default(),
    }
}

fn typed(body: String) -> Response {
    let headers = vec![("Content-Type".into(), "application/json".into())];
    Response {
        status: 200,
        headers,
        body: body.into_bytes(),
        delivery: Delivery::default(),
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        // The values of a repeated field are joined in order.
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|all: &mut String| all.push_str(&format!(", {}", value.trim())))
            .or_insert_with(|| value.trim().to_owned());
    }
    let length: usize = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length.min(REQUEST_BYTES_MAX)];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        method,
        target,
        headers,
        body,
    })
}

fn write_response(stream: &mut impl Write, response: Response) -> std::io::Result<()> {
    let Response {
        status,
        headers,
        body,
        delivery,
    } = response;
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in &headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match delivery.chunk {
        Some(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
        None if status != 204 => head.push_str(&format!("Content-Length: {}\r\n", body.len())),
        None => {}
    }
    head.push_str("\r\n");
    let half = delivery.stall || delivery.cut;
    let shown = if half { body.len() / 2 } else { body.len() };
    let shown = &body[..shown];
    let mut bytes = head.into_bytes();
    let Some(size) = delivery.chunk else {
        bytes.extend_from_slice(shown);
        return stream.write_all(&bytes);
    };
    stream.write_all(&bytes)?;
    for chunk in shown.chunks(size.max(1)) {
        let mut bytes = format!("{:x}\r\n", chunk.len()).into_bytes();
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        stream.write_all(&bytes)?;
    }
    if half || delivery.open {
        return Ok(());
    }
    stream.write_all(b"0\r\n\r\n")
}
