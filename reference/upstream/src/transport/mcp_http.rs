//! MCP over Streamable HTTP: JSON and SSE replies, sessions and their loss, both eras of the protocol. Every request is a
//! separate POST, so any number can be in flight.

mod config;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode};
use ptc_outbound::Repeat;
use ptc_rpc::{
    Document, Frame, Id, Json, JsonKind, JsonText, RpcError, write_error, write_notification,
    write_request, write_result,
};
use ptc_secrets::{AuthHeaders, Emitter};
use reqwest::Response;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::http_client::{HttpClient, read_body, set_trace, status_fault, with_timeout};
use super::reconnect::{Connection, Connector, Reconnecting};
use super::revision::{LEGACY_VERSION, MODERN_VERSION, initialize_params, with_meta};
use super::sse::SseParser;
use super::stdio::{LIST_CHANGED, as_handshake_fault, log_list_changed};
use super::{
    Answer, CallLimits, Outgoing, Transport, TransportConfig, TransportContext, TransportRow,
    listing,
};
use crate::arguments::members_by_name;
use crate::config::REMOTE_KEYS;
use crate::fault::WorldFault;
use crate::limits::{
    CHILD_GRACE, HEADER_BYTES_CHARGED, PARAM_HEADER_BYTES_MAX, REPEATED_HEADER_BYTES_MAX,
    REPLIES_PENDING_MAX, REPLY_POSTS_MAX, REQUEST_ID_BYTES_MAX,
};
use crate::runtime::Platform;
use crate::tool::RawTool;
use config::HttpConfig;

/// Maximum bytes of an error body that are examined to determine the server's era.
const ERROR_BODY_BYTES: usize = 64 * 1024;
/// The name of an answer in messages.
const RESPONSE: &str = "mcp_http response";
/// The beginning of the message about a body that is not JSON.
const INVALID: &str = "invalid JSON response: ";
/// The beginning of the message about JSON that does not answer the request.
const UNEXPECTED: &str = "unexpected JSON-RPC response ";

pub(super) const ROW: TransportRow = TransportRow {
    name: "mcp_http",
    keys: &[REMOTE_KEYS, config::KEYS],
    read: |entry, warnings| Ok(Box::new(entry.http(warnings)?)),
};

impl TransportConfig for HttpConfig {
    fn auth(&self) -> &[Emitter] {
        &self.remote.auth
    }

    fn transport(&self, setting: TransportContext) -> Arc<dyn Transport> {
        let remote = RemoteServer {
            config: self.clone(),
            auth: setting.auth,
            platform: setting.platform,
        };
        Arc::new(Reconnecting::new(setting.name, setting.redactor, remote))
    }
}

/// The settings for opening sessions repeatedly.
struct RemoteServer {
    config: HttpConfig,
    auth: AuthHeaders,
    platform: Platform,
}

impl Connector for RemoteServer {
    type Connection = HttpConnection;

    async fn open(&self, name: &str) -> Result<HttpConnection, WorldFault> {
        HttpConnection::open(name, &self.config, &self.auth, &self.platform).await
    }
}

/// A server after its handshake.
pub(crate) struct HttpConnection {
    server: String,
    client: HttpClient,
    url: String,
    handshake: Duration,
    request: Duration,
    handshake_bytes: usize,
    next_id: AtomicU64,
    session: RwLock<Session>,
    /// Held while a lost session is replaced.
    renewing: tokio::sync::Mutex<()>,
    list_changed: AtomicBool,
    replies: Replies,
}

/// Bounds the replies to the server's own requests: each is a separate POST, and the server decides how many it asks for.
struct Replies {
    pending: Arc<Semaphore>,
    posting: Arc<Semaphore>,
}

/// The session as the server knows it, or the era without sessions.
#[derive(Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    modern: bool,
}

/// A reply that is not a result, with what decides how to proceed.
struct Refusal {
    fault: WorldFault,
    status: Option<StatusCode>,
    /// The code of a JSON-RPC error in the body.
    code: Option<i64>,
}

impl From<WorldFault> for Refusal {
    fn from(fault: WorldFault) -> Self {
        Self {
            fault,
            status: None,
            code: None,
        }
    }
}

impl HttpConnection {
    async fn open(
        server: &str,
        config: &HttpConfig,
        auth: &AuthHeaders,
        platform: &Platform,
    ) -> Result<Self, WorldFault> {
        let connection = Self {
            server: server.to_owned(),
            client: HttpClient::new(&config.remote, &config.remote.url, auth, platform)?,
            url: config.remote.url.clone(),
            handshake: config.handshake_timeout,
            request: config.remote.request_timeout,
            handshake_bytes: config.remote.response_bytes_max,
            next_id: AtomicU64::new(1),
            session: RwLock::new(Session::default()),
            renewing: tokio::sync::Mutex::new(()),
            list_changed: AtomicBool::new(false),
            replies: Replies {
                pending: Arc::new(Semaphore::new(REPLIES_PENDING_MAX)),
                posting: Arc::new(Semaphore::new(REPLY_POSTS_MAX)),
            },
        };
        connection
            .perform_handshake()
            .await
            .map_err(as_handshake_fault)?;
        Ok(connection)
    }
}

impl Connection for HttpConnection {
    fn take_list_changed(&self) -> bool {
        self.list_changed.swap(false, Ordering::Relaxed)
    }

    async fn list_tools(&self) -> Result<Vec<RawTool>, WorldFault> {
        // The deadline covers all pages together.
        let limits = self.handshake_limits();
        listing::list_all(|params| async move {
            self.request("tools/list", None, &params, limits)
                .await
                .map_err(as_handshake_fault)
        })
        .await
    }

    async fn call(&self, call: Outgoing<'_>, limits: CallLimits) -> Result<Answer, WorldFault> {
        let deadline = limits.deadline.min(Instant::now() + self.request);
        let limits = CallLimits { deadline, ..limits };
        self.request("tools/call", Some(call), &call.params(), limits)
            .await
            .map(Answer::Envelope)
    }

    /// Ends the server's session, if there is one; briefly, since the process may be ending.
    async fn close(&self) {
        let session = self.session();
        if session.id.is_some() {
            let _ = tokio::time::timeout(
                CHILD_GRACE,
                self.client.delete(&self.url, headers(&session)),
            )
            .await;
        }
    }
}

impl HttpConnection {
    /// Opens a session. Meanwhile other calls continue under the old session: without one they would be refused for good.
    async fn perform_handshake(&self) -> Result<(), WorldFault> {
        let fresh = RwLock::default();
        self.initialize(&fresh).await?;
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = snapshot(&fresh);
        Ok(())
    }

    async fn initialize(&self, session: &RwLock<Session>) -> Result<(), WorldFault> {
        let limits = self.handshake_limits();
        let hello = initialize_params();
        let hello = async {
            Ok(self
                .exchange(session, "initialize", None, &hello, limits)
                .await)
        };
        match with_timeout(limits.remaining(), hello).await {
            Ok(Ok(result)) => {
                let version = result
                    .json()
                    .get("protocolVersion")
                    .and_then(Json::as_str)
                    .filter(|version| version.len() <= REPEATED_HEADER_BYTES_MAX)
                    .and_then(|version| HeaderValue::from_str(&version).ok());
                session
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .version = version;
                with_timeout(self.handshake, self.notify_initialized(session)).await
            }
            Ok(Err(refusal)) if refusal.is_json_rpc() => {
                // No initialize here: a server of the stateless revisions.
                session
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .modern = true;
                let limits = self.handshake_limits();
                let discover = async {
                    Ok(self
                        .exchange(session, "server/discover", None, "{}", limits)
                        .await)
                };
                match with_timeout(limits.remaining(), discover).await {
                    Ok(Ok(_)) => Ok(()),
                    _ => Err(refusal.fault),
                }
            }
            Ok(Err(refusal)) => Err(refusal.fault),
            Err(fault) => Err(fault),
        }
    }

    async fn notify_initialized(&self, session: &RwLock<Session>) -> Result<(), WorldFault> {
        let mut frame = Vec::new();
        write_notification(&mut frame, "notifications/initialized", Some("{}"));
        let response = self
            .client
            .post(
                &self.url,
                headers(&snapshot(session)),
                frame,
                Repeat::Harmless,
            )
            .await?;
        let status = response.status();
        if !status.is_success() {
            return Err(status_fault(&response));
        }
        update_session_id(session, &response);
        if status == StatusCode::ACCEPTED {
            return Ok(());
        }
        // A server that answers a notification mistook it for a request.
        let refusal_text = format!(
            "notifications/initialized returned http {}",
            status.as_u16()
        );
        let bytes = read_body(response, RESPONSE, self.handshake_bytes).await?;
        let prefix = match ptc_rpc::parse(&bytes) {
            Ok(_) => "",
            Err(_) => INVALID,
        };
        Err(WorldFault::error(format!("{prefix}{refusal_text}")))
    }

    /// One request; a session that the server has lost is replaced once.
    async fn request(
        &self,
        method: &str,
        call: Option<Outgoing<'_>>,
        params: &str,
        limits: CallLimits,
    ) -> Result<JsonText, WorldFault> {
        with_timeout(limits.remaining(), async {
            let before = self.session();
            let refusal = match self
                .exchange(&self.session, method, call, params, limits)
                .await
            {
                Ok(result) => return Ok(result),
                Err(refusal) => refusal,
            };
            if before.id.is_none() || refusal.status != Some(StatusCode::NOT_FOUND) {
                return Err(refusal.fault);
            }
            {
                let _alone = self.renewing.lock().await;
                if self.session().id == before.id {
                    self.perform_handshake().await.map_err(as_handshake_fault)?;
                }
            }
            self.exchange(&self.session, method, call, params, limits)
                .await
                .map_err(|refusal| refusal.fault)
        })
        .await
    }

    async fn exchange(
        &self,
        session_lock: &RwLock<Session>,
        method: &str,
        call: Option<Outgoing<'_>>,
        params: &str,
        limits: CallLimits,
    ) -> Result<JsonText, Refusal> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let session = snapshot(session_lock);
        let mut extra = headers(&session);
        let trace = call.and_then(|call| call.trace);
        set_trace(&mut extra, trace);
        let dressed;
        let params = if session.modern {
            add_request_headers(&mut extra, method, call)?;
            dressed = with_meta(params, trace);
            &dressed
        } else {
            params
        };
        let mut frame = Vec::with_capacity(params.len() + 80);
        write_request(&mut frame, &Id::number(id), method, Some(params));
        // Every method except `tools/call` only reads, and so do the tools that are marked read-only.
        let repeat = match call {
            Some(call) if call.tool.effect != "read" => Repeat::Never,
            _ => Repeat::Harmless,
        };
        let response = self.client.post(&self.url, extra, frame, repeat).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        update_session_id(session_lock, &response);
        let status = response.status();
        let sse = response
            .headers()
            .get(http::header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.to_ascii_lowercase().contains("text/event-stream"));
        if sse {
            return self
                .read_stream(session_lock, response, id, limits.bytes_max)
                .await;
        }
        let bytes = read_body(response, RESPONSE, limits.bytes_max).await?;
        if status == StatusCode::ACCEPTED && bytes.is_empty() {
            return Err(WorldFault::error(format!("{UNEXPECTED}nil")).into());
        }
        let senseless = |what: &str| {
            Err(WorldFault::error(what)
                .quoting(String::from_utf8_lossy(&bytes))
                .into())
        };
        let Ok(message) = Document::read(&bytes) else {
            return senseless(INVALID);
        };
        match reply_in(message.json(), id) {
            Some(outcome) => outcome,
            None => senseless(UNEXPECTED),
        }
    }

    /// Reads events until the reply arrives. Requests from the server in between are answered by separate POSTs.
    async fn read_stream(
        &self,
        session_lock: &RwLock<Session>,
        mut response: Response,
        id: u64,
        cap: usize,
    ) -> Result<JsonText, Refusal> {
        let mut events = SseParser::default();
        let mut total = 0usize;
        loop {
            let chunk = response.chunk().await.map_err(|_| ()).unwrap_or(None);
            let mut found = None;
            let mut refused = Ok(());
            let mut take = |data: &[u8]| {
                if found.is_none()
                    && refused.is_ok()
                    && let Ok(data) = Document::read(data)
                {
                    found = find_reply(data.json(), id);
                    refused = self.answer_server_requests(session_lock, data.json());
                }
            };
            match &chunk {
                Some(chunk) => {
                    total += chunk.len();
                    if total > cap {
                        return Err(WorldFault::too_large(RESPONSE, cap, total as u64).into());
                    }
                    events.feed(chunk, &mut take);
                }
                None => events.finish(&mut take),
            }
            refused?;
            match (found, chunk) {
                (Some(outcome), _) => return outcome,
                (None, Some(_)) => {}
                (None, None) => {
                    let message = format!("SSE stream closed before response with id={id} arrived");
                    return Err(WorldFault::error(message).into());
                }
            }
        }
    }

    /// Answers the requests in a message or batch, unless they exceed what a server may ask.
    fn answer_server_requests(
        &self,
        session_lock: &RwLock<Session>,
        data: Json<'_>,
    ) -> Result<(), WorldFault> {
        let one = |json: Json<'_>| {
            let ended_for_id = || {
                Err(WorldFault::error(format!(
                    "mcp_http stream ended: the id of a request in it exceeded {REQUEST_ID_BYTES_MAX} bytes"
                )))
            };
            let Ok(frame) = Frame::of(json) else {
                // An object is refused only for its id.
                return match json.get("method") {
                    Some(_) => ended_for_id(),
                    None => Ok(()),
                };
            };
            let Some(method) = frame.method_name() else {
                return Ok(());
            };
            if frame
                .id
                .is_some_and(|id| id.text().len() > REQUEST_ID_BYTES_MAX)
            {
                return ended_for_id();
            }
            match frame.request_id() {
                Some(id) => self.reply(session_lock, reply_to(&id, &method)),
                None => {
                    if method == LIST_CHANGED && !self.list_changed.swap(true, Ordering::Relaxed) {
                        log_list_changed(&self.server);
                    }
                    Ok(())
                }
            }
        };
        match data.kind() {
            JsonKind::Array => data.elements().try_for_each(one),
            _ => one(data),
        }
    }

    /// Sends a reply by a separate POST, a few at the same time, each within the request timeout.
    fn reply(&self, session_lock: &RwLock<Session>, reply: Vec<u8>) -> Result<(), WorldFault> {
        let Ok(pending) = Arc::clone(&self.replies.pending).try_acquire_owned() else {
            return Err(WorldFault::error(format!(
                "mcp_http stream ended: {REPLIES_PENDING_MAX} answers to requests in it wait to be taken"
            )));
        };
        let posting = Arc::clone(&self.replies.posting);
        let client = self.client.clone();
        let (url, extra) = (self.url.clone(), headers(&snapshot(session_lock)));
        let limit = self.request;
        tokio::spawn(async move {
            let _pending = pending;
            let _posting = posting.acquire_owned().await;
            let _ =
                tokio::time::timeout(limit, client.post(&url, extra, reply, Repeat::Never)).await;
        });
        Ok(())
    }

    fn session(&self) -> Session {
        snapshot(&self.session)
    }

    fn handshake_limits(&self) -> CallLimits {
        CallLimits {
            deadline: Instant::now() + self.handshake,
            bytes_max: self.handshake_bytes,
        }
    }
}

fn snapshot(session_lock: &RwLock<Session>) -> Session {
    session_lock
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Any successful response may name the session to use from then on.
fn update_session_id(session_lock: &RwLock<Session>, response: &Response) {
    let id = response.headers().get("mcp-session-id");
    if let Some(id) = id.filter(|id| id.len() <= REPEATED_HEADER_BYTES_MAX) {
        session_lock
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .id = Some(id.clone());
    }
}

impl Refusal {
    /// The server understood the frame but refused the method or the revision.
    fn is_json_rpc(&self) -> bool {
        self.code.is_some()
    }
}

async fn refusal(response: Response) -> Refusal {
    let fault = status_fault(&response);
    let status = Some(response.status());
    let bytes = match status {
        Some(status) if status.is_client_error() => read_body(response, "error", ERROR_BODY_BYTES)
            .await
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    let code = Frame::parse(&bytes)
        .ok()
        .and_then(|frame| frame.error)
        .and_then(|error| error.get("code"));
    Refusal {
        fault,
        status,
        code: code.and_then(Json::as_i64),
    }
}

/// The reply to request `id` in the data of an event: a message or a batch.
fn find_reply(data: Json<'_>, id: u64) -> Option<Result<JsonText, Refusal>> {
    match data.kind() {
        JsonKind::Array => data.elements().find_map(|one| reply_in(one, id)),
        _ => reply_in(data, id),
    }
}

/// The reply to request `id`, if `message` is that reply.
fn reply_in(message: Json<'_>, id: u64) -> Option<Result<JsonText, Refusal>> {
    let frame = Frame::of(message).ok()?;
    let ours = frame
        .id
        .is_some_and(|found| found.kind() == JsonKind::Integer && found.text() == id.to_string());
    if !ours || frame.method.is_some() {
        return None;
    }
    if let Some(error) = frame.error.filter(|error| !error.is_null()) {
        let code = error.get("code").and_then(Json::as_i64);
        let fault = WorldFault::from_rpc_error(error);
        return Some(Err(Refusal {
            fault,
            status: None,
            code: code.or(Some(0)),
        }));
    }
    frame.result.map(|result| Ok(result.to_text()))
}

/// The reply to a server's request: `ping` succeeds; this client has no capability for anything else.
fn reply_to(id: &Id, method: &str) -> Vec<u8> {
    let mut reply = Vec::new();
    match method {
        "ping" => write_result(&mut reply, id, |out| out.extend_from_slice(b"{}")),
        _ => write_error(&mut reply, Some(id), &RpcError::METHOD_NOT_FOUND),
    }
    reply
}

fn headers(session: &Session) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        http::header::ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    let version = match (&session.version, session.modern) {
        (_, true) => HeaderValue::from_static(MODERN_VERSION),
        (Some(version), _) => version.clone(),
        (None, _) => HeaderValue::from_static(LEGACY_VERSION),
    };
    headers.insert("mcp-protocol-version", version);
    if let Some(id) = &session.id {
        headers.insert("mcp-session-id", id.clone());
    }
    headers
}

/// The stateless era repeats method, tool and marked arguments in headers.
fn add_request_headers(
    headers: &mut HeaderMap,
    method: &str,
    call: Option<Outgoing<'_>>,
) -> Result<(), WorldFault> {
    if let Ok(method) = HeaderValue::from_str(method) {
        headers.insert("mcp-method", method);
    }
    let Some(Outgoing {
        tool, arguments, ..
    }) = call
    else {
        return Ok(());
    };
    if let Some(name) = plain_or_base64(&tool.name) {
        headers.insert("mcp-name", name);
    }
    let Ok(arguments) = ptc_rpc::parse(arguments.as_bytes()) else {
        return Ok(());
    };
    let arguments = members_by_name(arguments);
    let mut bytes = 0;
    for (key, header) in tool
        .schema_keys
        .marked
        .iter()
        .zip(tool.schema_keys.headers.iter())
    {
        let Some(value) = arguments.get(key) else {
            continue;
        };
        let Ok(name) = format!("mcp-param-{header}").parse::<http::HeaderName>() else {
            continue;
        };
        let text = match value.kind() {
            JsonKind::String => value.as_str().map(|text| text.into_owned()),
            JsonKind::Integer | JsonKind::Bool => Some(value.text().to_owned()),
            _ => None,
        };
        if let Some(value) = text.and_then(|text| plain_or_base64(&text)) {
            bytes += name.as_str().len() + value.len() + HEADER_BYTES_CHARGED;
            if bytes > PARAM_HEADER_BYTES_MAX {
                return Err(WorldFault::error(format!(
                    "mcp_http request: arguments that the tool wants in headers exceed {PARAM_HEADER_BYTES_MAX} bytes"
                )));
            }
            headers.insert(name, value);
        }
    }
    Ok(())
}

/// Text as a header value: as it is when it is plain ASCII without surrounding blanks, otherwise in the revision's base64 form.
fn plain_or_base64(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let value = if plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    };
    HeaderValue::from_str(&value).ok()
}
