//! A proxy between a client and a server over HTTP that changes heads and bodies as one mutant specifies. What it cannot parse is
//! passed on unchanged. Blocking threads, no runtime: the proxy must not add faults of its own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use crate::json::Json;

use super::{Mutation, frame};

/// The flag whose value is the port that clients use.
const PORT_FLAG: &str = "--http-port";
/// How long a client's connection waits for the server to listen.
const SERVER_WAIT: Duration = Duration::from_secs(10);
/// How often connecting to the server is attempted meanwhile.
const SERVER_POLL: Duration = Duration::from_millis(10);
/// Maximum size of a head, in bytes.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// A request or a response: its first line, its header fields in order, its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxiedMessage {
    /// `POST /mcp HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub first: String,
    /// Fields as sent, without the colon.
    pub fields: Vec<(String, String)>,
    /// The body; empty for requests, whose bodies are passed on unchanged.
    pub body: Vec<u8>,
}

impl ProxiedMessage {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Removes all occurrences of a field.
    pub fn drop_field(&mut self, name: &str) {
        self.fields
            .retain(|(found, _)| !found.eq_ignore_ascii_case(name));
    }

    /// Sets a field, replacing existing ones.
    pub fn set_field(&mut self, name: &str, value: &str) {
        self.drop_field(name);
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    /// Edits the first value of a field, which then replaces all its occurrences.
    fn edit_field(&mut self, name: &str, edit: impl FnOnce(&str) -> String) {
        if let Some(value) = self.field(name).map(edit) {
            self.set_field(name, &value);
        }
    }

    /// The status of a response; 0 if it has none.
    pub fn status(&self) -> u16 {
        let mut words = self.first.split(' ');
        let status = words.nth(1).and_then(|word| word.parse().ok());
        status.unwrap_or_default()
    }

    /// Replaces the status.
    pub fn set_status(&mut self, status: u16) {
        self.first = format!("HTTP/1.1 {status} Mutated");
    }

    /// Method and path of a request.
    pub fn target(&self) -> (&str, &str) {
        let mut words = self.first.split(' ');
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    }

    /// Edits a JSON body.
    pub fn json(&mut self, edit: impl FnOnce(&mut Json)) {
        let text = std::str::from_utf8(&self.body).ok();
        if let Some(mut json) = text.and_then(|text| Json::parse(text).ok()) {
            edit(&mut json);
            self.body = json.to_string().into_bytes();
        }
    }

    fn parse(head: &[u8]) -> Option<ProxiedMessage> {
        let text = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
        let mut lines = text.split("\r\n");
        let first = lines.next()?.to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        let fields: Option<Vec<_>> = lines.map(field).collect();
        Some(ProxiedMessage {
            first,
            fields: fields?,
            body: Vec::new(),
        })
    }

    fn head(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// An edit of a request's head or of a response, made if the request meets the conditions; in the order of the members.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpEdit {
    /// Condition: the request's method.
    method: Option<String>,
    /// Condition: prefix of the request's path.
    path: Option<String>,
    /// Condition: a field that the request has.
    has: Option<String>,
    /// Condition: a field that the request lacks.
    lacks: Option<String>,
    /// Condition: a field of the request, and the prefix of its value.
    says: Option<(String, String)>,
    /// Condition: the response's status, as it was.
    of: Option<u16>,
    /// A status, and its replacement.
    status: Option<(u16, u16)>,
    /// The replacement for any status.
    answers: Option<u16>,
    /// Fields to remove.
    #[serde(default)]
    drop: Vec<String>,
    /// A field that is present, and its new value.
    put: Option<(String, String)>,
    /// A field that is absent, and its value.
    add: Option<(String, String)>,
    /// A field, a text in its value, and the replacement of that text.
    replace: Option<(String, String, String)>,
    by: Option<CustomHttpEdit>,
}

/// Edits that the other members cannot express.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CustomHttpEdit {
    BodyCut,
    /// The declared length is three bytes too small.
    BodyLongerThanSaid,
    CapsSwapped,
    FirstTokenCounts,
    NotificationsAnswered,
    ProxiesOneLine,
    SessionsInAnyCase,
}

impl HttpEdit {
    pub fn apply(&self, message: &mut ProxiedMessage, request: &ProxiedMessage) {
        let (method, path) = request.target();
        let is_meant = self.method.as_ref().is_none_or(|wanted| wanted == method)
            && (self.path.as_ref()).is_none_or(|wanted| path.starts_with(wanted))
            && (self.has.as_ref()).is_none_or(|name| request.field(name).is_some())
            && (self.lacks.as_ref()).is_none_or(|name| request.field(name).is_none())
            && self.says.as_ref().is_none_or(|(name, start)| {
                (request.field(name)).is_some_and(|value| value.starts_with(start))
            })
            && self.of.is_none_or(|status| message.status() == status);
        if !is_meant {
            return;
        }
        if let Some((from, to)) = self.status
            && message.status() == from
        {
            message.set_status(to);
        }
        if let Some(status) = self.answers {
            message.set_status(status);
        }
        for name in &self.drop {
            message.drop_field(name);
        }
        if let Some((name, value)) = &self.put
            && message.field(name).is_some()
        {
            message.set_field(name, value);
        }
        if let Some((name, value)) = &self.add
            && message.field(name).is_none()
        {
            message.set_field(name, value);
        }
        if let Some((name, from, to)) = &self.replace {
            message.edit_field(name, |value| value.replace(from, to));
        }
        if let Some(own) = &self.by {
            own.apply(message);
        }
    }
}

impl CustomHttpEdit {
    fn apply(&self, message: &mut ProxiedMessage) {
        match (self, message.status()) {
            (CustomHttpEdit::BodyCut, _) => drop(message.body.pop()),
            (CustomHttpEdit::BodyLongerThanSaid, _) => {
                let said = message.body.len().saturating_sub(3);
                message.set_field("Content-Length", &said.to_string());
            }
            (CustomHttpEdit::CapsSwapped, 503) => message.set_status(429),
            (CustomHttpEdit::CapsSwapped, 429) => message.set_status(503),
            (CustomHttpEdit::FirstTokenCounts, _) => {
                message.edit_field("Authorization", str::to_owned);
            }
            (CustomHttpEdit::NotificationsAnswered, 202) => message.body = b"{}".to_vec(),
            (CustomHttpEdit::ProxiesOneLine, _) => {
                message.edit_field("X-Forwarded-For", str::to_owned)
            }
            (CustomHttpEdit::SessionsInAnyCase, _) => message.edit_field("MCP-Session-Id", |id| {
                id.trim().trim_end_matches(['x', 'X']).to_owned()
            }),
            (CustomHttpEdit::CapsSwapped | CustomHttpEdit::NotificationsAnswered, _) => {}
        }
    }
}

/// Whether the command line tells the server to serve HTTP.
pub fn is_served(command: &[String]) -> bool {
    command.iter().any(|word| word == PORT_FLAG)
}

/// Runs `command` behind the mutant and returns its exit status.
///
/// # Errors
/// When the port is in use or the command cannot be started.
pub fn run(mutation: &'static Mutation, command: &[String]) -> std::io::Result<i32> {
    let mut words = command.to_vec();
    if let Mutation::Flag(flag) = mutation {
        words.extend(flag.iter().cloned());
        return wait_for_exit(&mut start(&words)?);
    }
    let place = words.iter().position(|word| word == PORT_FLAG);
    let place = place.map(|place| place + 1).unwrap_or_default();
    let port = words.get(place).and_then(|word| word.parse::<u16>().ok());
    let port = port.ok_or_else(|| std::io::Error::other("no port stands behind --http-port"))?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let behind = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    words[place] = behind.to_string();
    let mut child = start(&words)?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                if let Some(server) = connect(behind) {
                    let _closed = proxy_connection(mutation, client, server);
                }
            });
        }
    });
    wait_for_exit(&mut child)
}

fn start(words: &[String]) -> std::io::Result<Child> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| std::io::Error::other("no command stands behind `--`"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::inherit())
        .spawn()
}

fn wait_for_exit(child: &mut Child) -> std::io::Result<i32> {
    Ok(child.wait()?.code().unwrap_or(1))
}

fn connect(port: u16) -> Option<TcpStream> {
    let began = std::time::Instant::now();
    while began.elapsed() < SERVER_WAIT {
        if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
            return Some(server);
        }
        std::thread::sleep(SERVER_POLL);
    }
    None
}

/// The heads of the requests that were passed on and are not answered yet.
type UnansweredRequests = Arc<Mutex<VecDeque<ProxiedMessage>>>;

fn proxy_connection(
    mutation: &'static Mutation,
    client: TcpStream,
    server: TcpStream,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let asked = UnansweredRequests::default();
    let (from, to, noted) = (client.try_clone()?, server.try_clone()?, asked.clone());
    std::thread::spawn(move || {
        let _closed = forward_requests(mutation, &from, &to, &noted);
        let _closed_too = to.shutdown(Shutdown::Write);
    });
    let passed = forward_responses(mutation, &server, &client, &asked);
    let _closed = client.shutdown(Shutdown::Both);
    passed
}

fn forward_requests(
    mutation: &Mutation,
    client: &TcpStream,
    mut server: &TcpStream,
    asked: &UnansweredRequests,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let head = read_head(&mut client)?;
        let Some(mut message) = ProxiedMessage::parse(&head) else {
            server.write_all(&head)?;
            break;
        };
        let before = message.clone();
        if let Mutation::Request(edit) = mutation {
            edit.apply(&mut message, &before);
        }
        asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(before.clone());
        // An unchanged message is passed on byte for byte.
        let same = message == before;
        server.write_all(&if same { head } else { message.head() })?;
        let length = before.field("content-length").unwrap_or("0");
        let (Ok(length), None) = (length.parse(), before.field("transfer-encoding")) else {
            break;
        };
        std::io::copy(&mut (&mut client).take(length), &mut server)?;
    }
    std::io::copy(&mut client, &mut server)?;
    Ok(())
}

fn forward_responses(
    mutation: &Mutation,
    server: &TcpStream,
    mut client: &TcpStream,
    asked: &UnansweredRequests,
) -> std::io::Result<()> {
    let mut server = BufReader::new(server);
    loop {
        let head = read_head(&mut server)?;
        let Some(mut message) = ProxiedMessage::parse(&head) else {
            client.write_all(&head)?;
            break;
        };
        let request = asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
            .unwrap_or_default();
        let to_head = request.target().0 == "HEAD";
        let length = message
            .field("content-length")
            .unwrap_or("0")
            .parse::<u64>();
        let streamed = message.field("transfer-encoding").is_some();
        if streamed || length.is_err() {
            client.write_all(&head)?;
            if streamed {
                break;
            }
            continue;
        }
        // A response to HEAD states a length that its body does not have.
        let length = length.ok().filter(|_| !to_head).unwrap_or_default();
        (&mut server).take(length).read_to_end(&mut message.body)?;
        let before = message.clone();
        match mutation {
            Mutation::Answer(edit) => edit.apply(&mut message, &request),
            Mutation::Reply(steps) => message.json(|json| frame::apply(steps, json, "")),
            _ => {}
        }
        if message == before {
            client.write_all(&head)?;
        } else {
            if message.body.len() != before.body.len() {
                message.set_field("content-length", &message.body.len().to_string());
            }
            client.write_all(&message.head())?;
        }
        client.write_all(&message.body)?;
    }
    std::io::copy(&mut server, &mut client)?;
    Ok(())
}

/// The bytes of a head including the blank line that ends it; fewer if the stream ends or the head is too long.
fn read_head(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        if stream.read_until(b'\n', &mut head)? == 0 {
            break;
        }
    }
    Ok(head)
}
