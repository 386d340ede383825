//! Plays an `http` case: requests byte for byte over its own sockets, step by step.
//! Knows nothing of JSON-RPC or of reports.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::json::Json;
use crate::judge;
use crate::observed::HttpMessage;
use crate::suite::{Captures, Control, HttpAction, HttpCase, HttpRequest, HttpStep};
use crate::target::Patience;
use crate::target::fault::Fault;
use crate::target::http::{Endpoint, HttpLink};
use crate::target::raw::RawConnection;
use crate::target::sse;
use crate::verdict::Verdict;

use super::listening_server::{ALREADY_RUNNING, ListeningServer, asks_to_exit};
use super::open::findings::Findings;
use super::open::stateless;
use super::transcript::{Record, Stop, differs, unmet};
use super::trial::Trial;

/// Time limit of an exchange that no step waits for.
const EXCHANGE_MAX: Duration = Duration::from_secs(120);
/// How long a connection must stay silent where nothing more may arrive.
const QUIET: Duration = Duration::from_millis(300);
/// The path that cases use for the MCP endpoint.
const MCP_PATH: &str = "/mcp";

/// Settings of an open exchange: known values, and headers that every request carries unless it sets them itself.
#[derive(Debug)]
pub struct OpenSettings {
    /// Values that cases use.
    pub captures: Captures,
    /// The findings made so far in the server's output.
    pub findings: Arc<Findings>,
    /// Session id and protocol revision, if there is a session.
    pub headers: Vec<(String, String)>,
    /// Whether requests use the stateless protocol revision.
    pub stateless: bool,
}

/// What an MCP client must accept, as a header of every request.
pub const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
/// The headers that a client sends with every request.
pub const USUAL_HEADERS: [(&str, &str); 2] = [("Content-Type", "application/json"), ACCEPT];

/// Plays the case against the server at `endpoint`, and takes the server down.
pub async fn play(
    case: &HttpCase,
    server: ListeningServer,
    endpoint: &Endpoint,
    patience: Patience,
    settings: Option<OpenSettings>,
) -> Trial {
    let began = Instant::now();
    if server.process.is_none() && case.steps.iter().any(|step| ends_server(&step.action)) {
        return Trial::of(Verdict::Unobservable {
            reason: ALREADY_RUNNING.to_owned(),
        });
    }
    let mut player = HttpPlayer {
        server: &server,
        endpoint,
        patience,
        record: Record::default(),
        exchanges: Vec::new(),
        default_headers: None,
        findings: None,
        stateless: false,
        asked_get: false,
        sessions: Vec::new(),
    };
    if let Some(settings) = settings {
        player.findings = Some(settings.findings);
        player.stateless = settings.stateless;
        player.record.captures = settings.captures;
        let default_headers =
            USUAL_HEADERS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        player.default_headers = Some(
            default_headers
                .into_iter()
                .chain(settings.headers)
                .collect(),
        );
    }
    let mut stopped = player.play_steps(case).await.err();
    let HttpPlayer {
        record, sessions, ..
    } = player;
    // A server that goes on running would hold the sessions of all cases until it has no room for more.
    if server.process.is_none() {
        for id in sessions {
            HttpLink::end_session(endpoint, &id, patience.reply).await;
        }
    }
    if stopped.is_none() {
        stopped = server.unexpected_output().map(Stop::Fault);
    }
    server.kill().await;
    record.into_trial(stopped, began, server.stderr())
}

/// Whether a step would end a server that others may be using.
fn ends_server(action: &HttpAction) -> bool {
    match action {
        HttpAction::Request(request) => {
            let body = request.body.as_ref();
            body.is_some_and(|body| asks_to_exit(&body.source()))
        }
        _ => false,
    }
}

struct HttpPlayer<'a> {
    server: &'a ListeningServer,
    endpoint: &'a Endpoint,
    patience: Patience,
    record: Record,
    exchanges: Vec<Exchange>,
    /// The findings, in an open exchange.
    findings: Option<Arc<Findings>>,
    /// Whether requests use the stateless protocol revision.
    stateless: bool,
    /// Whether the last request was a GET.
    asked_get: bool,
    /// The ids of sessions that the server opened.
    sessions: Vec<String>,
    /// The default headers of an open exchange.
    default_headers: Option<Vec<(String, String)>>,
}

/// A request and its connection. An untagged one is dropped when the next one begins.
struct Exchange {
    tag: Option<String>,
    state: ResponseState,
    /// Whether exactly one response may arrive: a single request was sent, and it opens no stream.
    is_single: bool,
    /// Signals the task to shut down the sending side.
    half_close: Option<oneshot::Sender<()>>,
}

enum ResponseState {
    /// The response is awaited.
    Due(JoinHandle<Result<ResponseOnConnection, Fault>>),
    /// The response has arrived, but no step has checked it.
    Done(Result<ResponseOnConnection, Fault>),
    /// A step has checked the response.
    Seen(Option<RawConnection>),
}

type ResponseOnConnection = (HttpMessage, RawConnection);

impl HttpPlayer<'_> {
    async fn play_steps(&mut self, case: &HttpCase) -> Result<(), Stop> {
        for step in &case.steps {
            self.step(step).await?;
        }
        let last = case.steps.last().map_or(0, |step| step.line);
        let open = std::mem::take(&mut self.exchanges);
        self.check_finished(last, open).await
    }

    /// Checks that connections that are no longer needed received nothing after their one response.
    async fn check_finished(&mut self, line: u32, open: Vec<Exchange>) -> Result<(), Stop> {
        for exchange in open.into_iter().filter(|exchange| exchange.is_single) {
            let ResponseState::Seen(Some(mut connection)) = exchange.state else {
                continue;
            };
            if connection.has_open_stream() {
                continue;
            }
            let more = connection.read_within(Duration::ZERO).await;
            let seen = String::from_utf8_lossy(&more).into_owned();
            // A server may send 408 when it closes an idle connection (RFC 9110, 15.5.9).
            let closes = seen.split(' ').nth(1) == Some("408");
            if !seen.is_empty() && !closes {
                self.record.received(&seen);
                let expected = "nothing behind the answer";
                return Err(differs(line, "connection", expected, &seen));
            }
        }
        Ok(())
    }

    /// Drops an untagged exchange that has been checked, before another one begins.
    async fn drop_finished(&mut self, line: u32) -> Result<(), Stop> {
        let is_over =
            |old: &mut Exchange| old.tag.is_none() && matches!(old.state, ResponseState::Seen(_));
        let over = self.exchanges.extract_if(.., is_over).collect();
        self.check_finished(line, over).await
    }

    async fn step(&mut self, step: &HttpStep) -> Result<(), Stop> {
        let line = step.line;
        match &step.action {
            HttpAction::Request(request) => {
                self.await_untagged().await;
                self.drop_finished(line).await?;
                let bytes = self.compose(request)?;
                self.asked_get = request.method == "GET";
                // The stream that a GET opens has no end.
                let to_head = request.method == "HEAD"
                    || (self.default_headers.is_some() && request.method == "GET");
                let is_framed_by_case = request.headers.iter().any(|(name, _)| {
                    ["content-length", "transfer-encoding"].contains(&&*name.to_ascii_lowercase())
                });
                let is_single = !is_framed_by_case && (!to_head || request.method == "HEAD");
                self.send_request(request.tag.clone(), bytes, to_head, is_single)
            }
            HttpAction::Raw { tag, bytes } => {
                self.await_untagged().await;
                self.drop_finished(line).await?;
                let bytes = self.record.bytes(bytes)?;
                self.send_request(tag.clone(), bytes, false, false)
            }
            HttpAction::Response(expect) => {
                let answer = self
                    .await_response(line, expect.tag.as_deref(), expect.within_ms)
                    .await?;
                let mut answer = answer.map_err(Stop::Fault)?;
                self.record.received(&shown(&answer));
                let ids = answer.headers.iter();
                let ids = ids.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
                self.sessions.extend(ids.map(|(_, id)| id.clone()));
                if let Some(findings) = &self.findings
                    && self.asked_get
                    && answer.status == 200
                    && !is_stream(&answer)
                {
                    findings.add("no-stream", &shown(&answer));
                }
                if is_stream(&answer) {
                    answer.body = response_in_stream(line, answer.body)?;
                }
                judge::http(expect, &answer, &mut self.record.captures)
                    .map_err(|mismatch| unmet(line, mismatch))
            }
            HttpAction::Dropped {
                tag,
                or_status,
                within_ms,
            } => match self
                .await_response(line, tag.as_deref(), *within_ms)
                .await?
            {
                Err(Fault::Dropped { .. }) => {
                    self.record.note("connection closed");
                    Ok(())
                }
                Err(fault) => Err(Stop::Fault(fault)),
                Ok(answer) => {
                    let seen = shown(&answer);
                    self.record.received(&seen);
                    if or_status.contains(&answer.status) {
                        return Ok(());
                    }
                    Err(differs(
                        line,
                        "connection",
                        "closed without an answer",
                        &seen,
                    ))
                }
            },
            HttpAction::Nothing { tag, within_ms } => {
                let patience = self.patience.within(*within_ms, QUIET);
                self.expect_nothing(line, tag.as_deref(), patience).await
            }
            HttpAction::HangUp { tag } => {
                self.record.note(&format!("[{tag}] hangs up"));
                let found = self.find(Some(tag));
                let exchange = found.map(|found| self.exchanges.remove(found));
                let Some(ResponseState::Due(task)) = exchange.map(|exchange| exchange.state) else {
                    return Err(no_open_exchange(line));
                };
                // The connection is closed together with its task.
                task.abort();
                let _cancelled = task.await;
                Ok(())
            }
            HttpAction::HalfClose { tag } => {
                self.record.note(&format!("[{tag}] will send no more"));
                let found = self.find(Some(tag));
                let half_close = found.and_then(|found| self.exchanges[found].half_close.take());
                match half_close.map(|half_close| half_close.send(())) {
                    Some(Ok(())) => Ok(()),
                    Some(Err(())) | None => Err(no_open_exchange(line)),
                }
            }
            HttpAction::Control(control) => {
                self.await_untagged().await;
                if let (Control::Never { .. }, Some(findings)) = (control, self.findings.clone()) {
                    self.read_open_streams(&findings).await;
                }
                self.server
                    .control(
                        &mut self.record,
                        line,
                        control,
                        self.patience,
                        self.findings.as_deref(),
                    )
                    .await
            }
        }
    }

    /// Reads what has arrived meanwhile on open streams.
    async fn read_open_streams(&mut self, findings: &Findings) {
        for exchange in self.exchanges.iter_mut().filter(|open| open.tag.is_some()) {
            if let ResponseState::Seen(Some(connection)) = &mut exchange.state {
                let more = connection.read_within(QUIET).await;
                findings.inspect_get_stream(&String::from_utf8_lossy(&more));
            }
        }
    }

    fn send_request(
        &mut self,
        tag: Option<String>,
        bytes: Vec<u8>,
        to_head: bool,
        is_single: bool,
    ) -> Result<(), Stop> {
        let Some(address) = address(&self.endpoint.url) else {
            return Err(Stop::Verdict(Verdict::Unobservable {
                reason: "byte-exact requests need an http:// address".to_owned(),
            }));
        };
        self.record.sent(&bytes);
        let start = self.patience.start;
        let (sender, half_close) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut connection = RawConnection::open(&address, start).await?;
            // A server may respond and close before it has read everything.
            let sent = connection.send(&bytes, EXCHANGE_MAX).await;
            let answer = connection.receive_and_half_close(to_head, EXCHANGE_MAX, half_close);
            match answer.await {
                Err(fault) => Err(sent.err().unwrap_or(fault)),
                Ok(answer) => Ok((answer, connection)),
            }
        });
        self.exchanges.push(Exchange {
            tag,
            state: ResponseState::Due(task),
            is_single,
            half_close: Some(sender),
        });
        Ok(())
    }

    /// Waits for the response to an untagged request, because the next step may rely on it.
    async fn await_untagged(&mut self) {
        let waited = self.patience.reply;
        if let Some(exchange) = self.exchanges.last_mut().filter(|last| last.tag.is_none()) {
            await_state(&mut exchange.state, waited).await;
        }
    }

    async fn await_response(
        &mut self,
        line: u32,
        tag: Option<&str>,
        within_ms: Option<u64>,
    ) -> Result<Result<HttpMessage, Fault>, Stop> {
        let waited = self.patience.within(within_ms, self.patience.reply);
        let is_new = |exchange: &Exchange| !matches!(exchange.state, ResponseState::Seen(_));
        let found = self
            .find(tag)
            .filter(|found| is_new(&self.exchanges[*found]));
        let Some(found) = found else {
            return Err(differs(
                line,
                "answer",
                "a request that it answers",
                "none is open",
            ));
        };
        let state = &mut self.exchanges[found].state;
        await_state(state, waited).await;
        match std::mem::replace(state, ResponseState::Seen(None)) {
            ResponseState::Done(Ok((answer, connection))) => {
                *state = ResponseState::Seen(Some(connection));
                Ok(Ok(answer))
            }
            ResponseState::Done(Err(fault)) => Ok(Err(fault)),
            ResponseState::Due(task) => {
                task.abort();
                Ok(Err(Fault::NoReply { waited }))
            }
            ResponseState::Seen(_) => Ok(Err(Fault::NoReply { waited })),
        }
    }

    /// Expects that nothing more arrives on a connection.
    async fn expect_nothing(
        &mut self,
        line: u32,
        tag: Option<&str>,
        patience: Duration,
    ) -> Result<(), Stop> {
        let Some(found) = self.find(tag) else {
            return Err(differs(line, "connection", "one that was used", "none was"));
        };
        let more = match &mut self.exchanges[found].state {
            ResponseState::Seen(Some(connection)) => connection.read_within(patience).await,
            ResponseState::Seen(None) => Vec::new(),
            state => {
                await_state(state, patience).await;
                match state {
                    ResponseState::Done(Ok((answer, _))) => shown(answer).into_bytes(),
                    ResponseState::Done(Err(Fault::Dropped { .. }))
                    | ResponseState::Due(_)
                    | ResponseState::Seen(_) => Vec::new(),
                    ResponseState::Done(Err(fault)) => return Err(Stop::Fault(fault.clone())),
                }
            }
        };
        if more.is_empty() {
            self.record.note("nothing more comes");
            return Ok(());
        }
        let seen = String::from_utf8_lossy(&more).into_owned();
        self.record.received(&seen);
        if closes_unread(&seen) {
            return Ok(());
        }
        Err(differs(line, "connection", "nothing more", &seen))
    }

    /// The last exchange with this tag, or the last untagged one.
    fn find(&self, tag: Option<&str>) -> Option<usize> {
        let mut exchanges = self.exchanges.iter();
        exchanges.rposition(|exchange| exchange.tag.as_deref() == tag)
    }

    fn compose(&self, request: &HttpRequest) -> Result<Vec<u8>, Stop> {
        let text = |text: &crate::suite::Text| self.record.bytes(text);
        let body = request.body.as_ref().map(text).transpose()?;
        let (body, repeated) = self.prepare_body(body);
        let mut headers = Vec::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            headers.push((self.header_name(name)?, text(value)?));
        }
        let path = String::from_utf8_lossy(&text(&request.path)?).into_owned();
        let mut bytes = format!(
            "{} {} HTTP/1.1\r\n",
            request.method,
            self.request_target(path)
        )
        .into_bytes();
        let given = |name: &str| {
            let mut names = headers.iter();
            names.any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        let mut field = |name: &str, value: &[u8]| {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        };
        if !given("Host") {
            let host = address(&self.endpoint.url).unwrap_or_default();
            field("Host", host.as_bytes());
        }
        for (name, value) in &headers {
            // In an open exchange, an empty value removes a default header.
            if self.default_headers.is_none() || !value.is_empty() {
                field(name, value);
            }
        }
        for (name, value) in self.default_headers.iter().flatten().chain(&repeated) {
            let bodiless = request.body.is_none() && name == "Content-Type";
            if !given(name) && !bodiless {
                field(name, value.as_bytes());
            }
        }
        if self.default_headers.is_none() && !given(ACCEPT.0) {
            field(ACCEPT.0, ACCEPT.1.as_bytes());
        }
        for (name, value) in &self.endpoint.headers {
            if !given(name) {
                field(name, value.as_bytes());
            }
        }
        if let Some(body) = &body
            && !given("Content-Length")
            && !given("Transfer-Encoding")
        {
            field("Content-Length", body.len().to_string().as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend(body.unwrap_or_default());
        Ok(bytes)
    }

    /// The body as an open exchange sends it, and the headers that repeat parts of it.
    fn prepare_body(&self, body: Option<Vec<u8>>) -> (Option<Vec<u8>>, Vec<(String, String)>) {
        let (Some(findings), Some(body)) = (&self.findings, body.as_ref()) else {
            return (body, Vec::new());
        };
        let Ok(text) = std::str::from_utf8(body) else {
            return (Some(body.clone()), Vec::new());
        };
        if self.stateless {
            let said = stateless::convert_message(text);
            let headers = stateless::headers(&said, findings);
            let headers = headers.unwrap_or_else(|| stateless::notification_headers(&said));
            return (Some(said.into_bytes()), headers);
        }
        let message = serde_json::from_str(text).unwrap_or_default();
        (
            Some(body.clone()),
            stateless::parameter_headers(&message, findings),
        )
    }

    /// The name of a header, which may end with a value that a survey found.
    fn header_name(&self, name: &str) -> Result<String, Stop> {
        let Some((start, capture)) = name.split_once("{{") else {
            return Ok(name.to_owned());
        };
        let known = self.record.captures.get(capture.trim_end_matches("}}"));
        match known.and_then(Json::as_str) {
            Some(end) => Ok(format!("{start}{end}")),
            None => Err(Stop::Verdict(Verdict::HarnessError {
                message: format!("nothing was captured for the header {name}"),
            })),
        }
    }

    /// Replaces the `/mcp` that cases use with the path of the endpoint.
    fn request_target(&self, path: String) -> String {
        match path.strip_prefix(MCP_PATH) {
            Some(rest) if rest.is_empty() || rest.starts_with('?') => {
                format!("{}{rest}", endpoint_path(&self.endpoint.url))
            }
            _ => path,
        }
    }
}

/// Whether the response is declared to be an event stream.
/// Whether this is the 400 with which a server closes a connection because it cannot read what is left on it.
fn closes_unread(seen: &str) -> bool {
    let head = seen.split("\r\n\r\n").next().unwrap_or_default();
    let mut fields = head.split("\r\n");
    let is_refusal = fields
        .next()
        .is_some_and(|status| status.starts_with("HTTP/1.1 400"));
    is_refusal && fields.any(|field| field.eq_ignore_ascii_case("connection: close"))
}

fn is_stream(answer: &HttpMessage) -> bool {
    answer
        .headers
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("content-type") && sse::is_stream(value))
}

/// The response frame in an event stream, as a body; the stream itself if there is none. Requests and notifications may stand beside it.
fn response_in_stream(line: u32, stream: Vec<u8>) -> Result<Vec<u8>, Stop> {
    let mut response = None;
    for event in sse::events(&String::from_utf8_lossy(&stream)) {
        // The first event of a stream may only give it an id.
        if event.is_empty() {
            continue;
        }
        let frame = Json::parse(&event)
            .map_err(|_| differs(line, "stream", "events that are JSON", &event))?;
        if frame.get("method").is_none() && response.replace(event.clone()).is_some() {
            return Err(differs(line, "stream", "one response", &event));
        }
    }
    Ok(response.map_or(stream, String::into_bytes))
}

fn no_open_exchange(line: u32) -> Stop {
    differs(line, "exchange", "one that is waited for", "none is open")
}

async fn await_state(state: &mut ResponseState, waited: Duration) {
    if let ResponseState::Due(task) = state
        && let Ok(joined) = tokio::time::timeout(waited, task).await
    {
        *state = ResponseState::Done(joined.unwrap_or_else(|error| {
            Err(Fault::Harness {
                message: format!("the exchange was cut short: {error}"),
            })
        }));
    }
}

/// `host:port` of an `http://` URL.
fn address(url: &str) -> Option<String> {
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    let bracketed = authority
        .rsplit_once(']')
        .map_or(authority, |(_, rest)| rest);
    if bracketed.contains(':') {
        Some(authority.to_owned())
    } else {
        Some(format!("{authority}:80"))
    }
}

fn endpoint_path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

fn shown(answer: &HttpMessage) -> String {
    let mut text = format!("HTTP {}\n", answer.status);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&answer.body));
    text
}
