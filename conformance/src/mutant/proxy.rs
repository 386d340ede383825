//! A proxy between a client and a server on standard streams that changes messages as one mutant specifies.
//! Blocking threads, no runtime: the proxy must not add faults of its own.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::json::Json;

use super::{Mutant, Mutation, StreamFault, edit, frame, http};

/// How long a mutant that exchanges ids holds back a reply while it waits for another call.
const SWAP_WAIT: Duration = Duration::from_millis(60);
/// How long it holds back a reply while another call is in progress.
const SWAP_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a mutant that drops pending answers takes to write one.
const FORGETTING: Duration = Duration::from_millis(30);
/// How long a mutant that does not exit when its input ends keeps running.
const LINGER: Duration = Duration::from_secs(60);

/// Runs `command` behind the mutant and returns its exit status.
///
/// # Errors
/// When the command cannot be started.
pub fn run(mutant: &'static Mutant, command: &[String]) -> std::io::Result<i32> {
    if http::is_served(command) {
        return http::run(&mutant.mutation, command);
    }
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| std::io::Error::other("no command stands behind `--`"))?;
    let mut server = Command::new(program);
    server
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Mutation::Flag(flag) = &mutant.mutation {
        server.args(flag);
    }
    let mut child = server.spawn()?;
    let missing = || std::io::Error::other("a standard stream of the server is missing");
    let input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    let shared = Arc::new(SharedState::default());
    let incoming = Arc::clone(&shared);
    let mutation = &mutant.mutation;
    std::thread::spawn(move || {
        ClientToServer {
            mutation,
            shared: incoming,
            program: String::new(),
        }
        .pump(input)
    });
    ServerToClient {
        mutation,
        shared,
        calls: 0,
        held: None,
        held_since: None,
        queue: Vec::new(),
    }
    .pump(BufReader::new(output));
    let status = child.wait()?.code().unwrap_or(1);
    if mutation.is_stream_fault(StreamFault::Lingers) {
        std::thread::sleep(LINGER);
    }
    Ok(match mutation {
        Mutation::Stream(StreamFault::ExitStatus(status)) => *status,
        _ => status,
    })
}

impl Mutation {
    fn is_stream_fault(&self, stream: StreamFault) -> bool {
        matches!(self, Mutation::Stream(found) if *found == stream)
    }
}

/// State shared by both directions: the method and the progress token of each request, the ids of calls in order of arrival, and the ids
/// of cancelled calls.
#[derive(Default)]
struct SharedState(Mutex<ProxyState>);

#[derive(Default)]
struct ProxyState {
    methods: HashMap<String, String>,
    calls: Vec<String>,
    cancelled: HashSet<String>,
    /// Progress tokens by the id of their request.
    tokens: HashMap<String, Json>,
}

impl SharedState {
    fn lock(&self) -> std::sync::MutexGuard<'_, ProxyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From the client to the server.
struct ClientToServer {
    mutation: &'static Mutation,
    shared: Arc<SharedState>,
    /// The definitions of earlier programs.
    program: String,
}

impl ClientToServer {
    fn pump(mut self, mut server: ChildStdin) {
        let mut client = BufReader::new(std::io::stdin());
        let mut line = Vec::new();
        while let Ok(1..) = client.read_until(b'\n', &mut line) {
            if self
                .mutation
                .is_stream_fault(StreamFault::WantsBareNewlines)
                && line.ends_with(b"\r\n")
            {
                line.clear();
                continue;
            }
            let passed = self.pass(&line);
            let written = server.write_all(&passed).and_then(|()| server.flush());
            if written.is_err() {
                return;
            }
            line.clear();
        }
        if self.mutation.is_stream_fault(StreamFault::ForgetsAtEnd) {
            std::process::exit(0);
        }
    }

    fn pass(&mut self, line: &[u8]) -> Vec<u8> {
        let parsed = std::str::from_utf8(line)
            .ok()
            .and_then(|text| Json::parse(text.trim()).ok());
        let Some(mut frame) = parsed else {
            match self.mutation {
                Mutation::Stream(StreamFault::DiesOnGarbage) => std::process::exit(70),
                Mutation::Stream(StreamFault::SilentOnGarbage) => return Vec::new(),
                _ => return line.to_vec(),
            }
        };
        let before = frame.clone();
        self.record_request(&frame);
        match self.mutation {
            Mutation::Symbol(from, to) => {
                edit::program(&mut frame, |text| edit::symbol(text, from, to))
            }
            Mutation::Program(text) => edit::program(&mut frame, |program| text.apply(program)),
            Mutation::Frame(steps) => frame::apply(steps, &mut frame, ""),
            Mutation::Stream(StreamFault::Remembers) => {
                let earlier = &mut self.program;
                edit::program(&mut frame, |text| {
                    let whole = format!("{earlier}{text}");
                    if text.contains("(def ") && text.len() < 200 {
                        earlier.push_str(text);
                        earlier.push('\n');
                    }
                    whole
                });
            }
            Mutation::Stream(StreamFault::AnswersCancelled) => {
                let cancels =
                    frame.get("method").and_then(Json::as_str) == Some("notifications/cancelled");
                if cancels {
                    return Vec::new();
                }
            }
            _ => {}
        }
        // A frame that was not changed is passed on byte for byte.
        if frame == before {
            return line.to_vec();
        }
        format!("{frame}\n").into_bytes()
    }

    fn record_request(&self, frame: &Json) {
        let Some(method) = frame.get("method").and_then(Json::as_str) else {
            return;
        };
        let mut notes = self.shared.lock();
        match frame.get("id") {
            Some(id) => {
                let id = id.to_string();
                if method == "tools/call" {
                    notes.calls.push(id.clone());
                }
                let meta = frame.get("params").and_then(|params| params.get("_meta"));
                if let Some(token) = meta.and_then(|meta| meta.get("progressToken")) {
                    notes.tokens.insert(id.clone(), token.clone());
                }
                notes.methods.insert(id, method.to_owned());
            }
            None => {
                if method == "notifications/cancelled"
                    && let Some(id) = frame
                        .get("params")
                        .and_then(|params| params.get("requestId"))
                {
                    notes.cancelled.insert(id.to_string());
                }
                drop(notes);
                if self
                    .mutation
                    .is_stream_fault(StreamFault::AnswersNotifications)
                {
                    write_line(br#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
                }
            }
        }
    }
}

/// From the server to the client.
struct ServerToClient {
    mutation: &'static Mutation,
    shared: Arc<SharedState>,
    calls: usize,
    held: Option<Json>,
    held_since: Option<Instant>,
    queue: Vec<Json>,
}

impl ServerToClient {
    fn pump<R: Read + Send + 'static>(mut self, server: BufReader<R>) {
        // Lines arrive through a channel, so that a reply that is held back can be released after a timeout.
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut server = server;
            let mut line = Vec::new();
            while let Ok(1..) = server.read_until(b'\n', &mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        if self.mutation.is_stream_fault(StreamFault::Banner) {
            write_line(b"PTC-Lisp server ready");
        }
        loop {
            let wait = if self.held.is_some() {
                SWAP_WAIT
            } else {
                LINGER * 60
            };
            match lines.recv_timeout(wait) {
                Ok(line) => self.pass(&line),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if self.should_keep_holding() => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => self.release_held(),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.release_held();
        for frame in std::mem::take(&mut self.queue) {
            write_line(frame.to_string().as_bytes());
        }
    }

    fn should_keep_holding(&self) -> bool {
        let recent = self
            .held_since
            .is_some_and(|since| since.elapsed() < SWAP_WAIT_MAX);
        recent && !self.shared.lock().calls.is_empty()
    }

    fn release_held(&mut self) {
        if let Some(frame) = self.held.take() {
            write_line(frame.to_string().as_bytes());
        }
    }

    fn pass(&mut self, line: &[u8]) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let parsed = std::str::from_utf8(text)
            .ok()
            .and_then(|text| Json::parse(text).ok());
        let Some(mut frame) = parsed else {
            return write_line(text);
        };
        let id = frame.get("id").map(Json::to_string).unwrap_or_default();
        let method = self
            .shared
            .lock()
            .methods
            .get(&id)
            .cloned()
            .unwrap_or_default();
        let before = frame.clone();
        match self.mutation {
            Mutation::Printed(rewrite) => edit::printed(&mut frame, |text| rewrite.apply(text)),
            Mutation::Errors(rewrite) => edit::errors(&mut frame, |text| rewrite.apply(text)),
            Mutation::Payload(steps) => {
                edit::payload(&mut frame, |payload| frame::apply(steps, payload, ""));
            }
            Mutation::Reply(steps) => frame::apply(steps, &mut frame, &method),
            Mutation::Stream(stream) => return self.stream(*stream, frame, text, &id, &method),
            _ => {}
        }
        if frame == before {
            write_line(text);
        } else {
            write_line(frame.to_string().as_bytes());
        }
    }

    fn stream(&mut self, stream: StreamFault, frame: Json, text: &[u8], id: &str, method: &str) {
        let is_call = method == "tools/call";
        if is_call {
            self.calls += 1;
        }
        match stream {
            StreamFault::ExtraLine if is_call => {
                write_line(b"evaluating");
                write_line(text);
            }
            // The end of input is detected before the last answer is written.
            StreamFault::ForgetsAtEnd => {
                std::thread::sleep(FORGETTING);
                write_line(text);
            }
            StreamFault::BlankLine => {
                write_line(text);
                write_line(b"");
            }
            StreamFault::Twice if is_call => {
                write_line(text);
                write_line(text);
            }
            StreamFault::ProgressBackwards => {
                self.send_progress(id, &[2, 1]);
                write_line(text);
            }
            StreamFault::ProgressLate => {
                write_line(text);
                self.send_progress(id, &[1]);
            }
            StreamFault::ProgressOfNobody => {
                if self.shared.lock().tokens.contains_key(id) {
                    write_progress(&Json::from("of nobody"), 1);
                }
                write_line(text);
            }
            StreamFault::Lost if is_call && self.calls.is_multiple_of(3) => {}
            StreamFault::SwappedIds if is_call => self.swap_ids(frame, id),
            StreamFault::Unbroken if is_call => self.send_in_order(frame),
            StreamFault::CarriageReturn => {
                let mut line = text.to_vec();
                line.push(b'\r');
                write_line(&line);
            }
            _ => write_line(text),
        }
    }

    /// Sends progress notifications for a request that has a progress token.
    fn send_progress(&self, id: &str, steps: &[i64]) {
        if let Some(token) = self.shared.lock().tokens.get(id) {
            for step in steps {
                write_progress(token, *step);
            }
        }
    }

    fn swap_ids(&mut self, mut frame: Json, id: &str) {
        self.shared.lock().calls.retain(|call| call != id);
        let Some(mut earlier) = self.held.take() else {
            self.held = Some(frame);
            self.held_since = Some(Instant::now());
            return;
        };
        let ids = (earlier.get("id").cloned(), frame.get("id").cloned());
        if let (Some(first), Some(second)) = ids {
            edit::set(&mut earlier, &[], "id", second);
            edit::set(&mut frame, &[], "id", first);
        }
        write_line(earlier.to_string().as_bytes());
        write_line(frame.to_string().as_bytes());
    }

    fn send_in_order(&mut self, frame: Json) {
        self.queue.push(frame);
        loop {
            let next = {
                let mut notes = self.shared.lock();
                let cancelled = notes.cancelled.clone();
                notes.calls.retain(|call| !cancelled.contains(call));
                notes.calls.first().cloned()
            };
            let found = self.queue.iter().position(|reply| {
                let id = reply.get("id").map(Json::to_string);
                id == next
            });
            let Some(found) = found else { return };
            let reply = self.queue.remove(found);
            self.shared.lock().calls.remove(0);
            write_line(reply.to_string().as_bytes());
        }
    }
}

fn write_progress(token: &Json, step: i64) {
    let params = format!("{{\"progressToken\":{token},\"progress\":{step}}}");
    let frame = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{params}}}"
    );
    write_line(frame.as_bytes());
}

/// Writes a line. An error means that the client has closed its end, and is ignored.
fn write_line(line: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _client_gone = out
        .write_all(line)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
}
