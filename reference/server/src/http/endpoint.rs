//! One HTTP request in, one HTTP response out: routing, the order of checks, and the way into the dispatcher.
//!
//! The order is part of the contract (`mcp.http.bearer.order`). Knows nothing of sockets.

#![allow(
    clippy::result_large_err,
    reason = "a refusal is a response, made once and moved once"
)]

use super::access::Access;
use super::guard::{self, Bearer, OriginRule};
use super::rate_limit::RateLimit;
use super::sessions::{Full, Session, Sessions};
use super::stateless;
use crate::connection::{Answer, Arrival, Connection, Transport};
use crate::counters::Gauges;
use crate::digest;
use crate::dispatch::{self, Handled};
use crate::payload::Field;
use crate::reply::{Body as ReplyBody, Reply};
use crate::server::Server;
use crate::settings::{HttpSettings, Level};
use crate::token;
use http_body_util::{BodyExt, Full as FullBody};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER, TRANSFER_ENCODING, VARY,
    WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use ptc_rpc::{Frame, Id, Refused, RpcError};
use ptc_secrets::Scrubbed;
use ptc_upstream::TraceContext;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

type HttpResponse = Response<FullBody<Bytes>>;

/// The endpoint and all that its requests share.
pub struct Endpoint {
    server: Arc<Server>,
    settings: HttpSettings,
    sessions: Sessions,
    rate_limit: Option<RateLimit>,
    origins: OriginRule,
    /// Calls of the stateless revision; their owner is the token's.
    stateless: Arc<Connection>,
    next_key: AtomicUsize,
    draining: AtomicBool,
    active: AtomicUsize,
    idle: Notify,
}

/// What an endpoint holds.
pub struct Standing {
    /// Live protocol sessions.
    pub sessions: usize,
    /// Requests between their frame and their response.
    pub requests: usize,
    /// Calls in flight, in live sessions and in none.
    pub calls: usize,
    /// The most of them in one session.
    pub calls_of_one_session: usize,
}

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");
static MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
static MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A longer `X-Request-Id` is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Bytes of an oversize body that are read on, so that the connection stays usable.
const DISCARD_BYTES_MAX: usize = 1 << 20;
/// Time beyond a program's own limit before its request is given up.
const AWAIT_SLACK: Duration = Duration::from_secs(1);

/// Errors of this transport.
const SATURATED: RpcError = RpcError::fixed(-32000, "server saturated");
const OWNER_LIMIT: RpcError = RpcError::fixed(-32000, "session owner limit exceeded");
const DRAINING: RpcError = RpcError::fixed(-32000, "server draining");
const TIMED_OUT: RpcError = RpcError::fixed(-32000, "request timed out");

impl Endpoint {
    /// The endpoint of `server`.
    pub fn new(server: Arc<Server>, settings: HttpSettings) -> Self {
        let transport = Transport::Http {
            owner_hash: settings.owner_hash.clone(),
            session_hash: String::new(),
        };
        Endpoint {
            sessions: Sessions::new(&settings),
            rate_limit: settings
                .rate_limit
                .filter(|_| settings.checks_token())
                .map(RateLimit::new),
            origins: OriginRule::new(&settings.origins, settings.is_loopback()),
            stateless: Connection::new(
                format!("token:{}", settings.owner_hash),
                transport,
                settings.in_flight_max,
            ),
            next_key: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            idle: Notify::new(),
            server,
            settings,
        }
    }

    /// How it is set.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// What is so at this moment.
    pub fn standing(&self) -> Standing {
        let connections: Vec<_> = self
            .sessions
            .all()
            .iter()
            .map(|session| session.connection.in_flight())
            .collect();
        Standing {
            sessions: connections.len(),
            requests: self.active.load(Ordering::SeqCst),
            calls: connections.iter().sum::<usize>() + self.stateless.in_flight(),
            calls_of_one_session: connections.into_iter().max().unwrap_or(0),
        }
    }

    /// Answers one request and logs it.
    pub async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> HttpResponse {
        let given = request
            .headers()
            .get(&REQUEST_ID)
            .filter(|id| id.len() <= REQUEST_ID_BYTES_MAX)
            .cloned();
        let request_id = given.unwrap_or_else(|| {
            HeaderValue::from_str(&token::random(12))
                .unwrap_or_else(|_| HeaderValue::from_static("-"))
        });
        let mut access = Access {
            request_id: String::from_utf8_lossy(request_id.as_bytes()).into_owned(),
            started: Instant::now(),
            method: request.method().as_str().to_owned(),
            path: request.uri().path().to_owned(),
            owner_hash: None,
            session_hash: None,
        };
        let mut response = match self.route(request, peer, &mut access).await {
            Ok(response) | Err(response) => response,
        };
        if response.status() == StatusCode::REQUEST_TIMEOUT
            || response.extensions().get::<Malformed>().is_some()
        {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID.clone(), request_id);
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("max-age=0, private, must-revalidate"),
        );
        if let Some(counters) = &self.server.counters {
            counters.request(response.status().as_u16());
        }
        access.log(
            &self.server.log,
            &self.settings.instance,
            response.status().as_u16(),
        );
        response
    }

    /// Refuses new calls, waits until nothing is in flight or `grace` is over, then cancels the rest.
    pub async fn drain(&self, grace: Duration) {
        self.draining.store(true, Ordering::SeqCst);
        let quiet = async {
            loop {
                let idle = self.idle.notified();
                if self.active.load(Ordering::SeqCst) == 0 {
                    return;
                }
                idle.await;
            }
        };
        if tokio::time::timeout(grace, quiet).await.is_err() {
            for session in self.sessions.all() {
                self.cancel_all(&session.connection);
            }
            self.cancel_all(&self.stateless);
        }
    }

    /// Ends what has expired.
    pub fn sweep(&self, now: Instant) {
        for (session, why) in self.sessions.expired(now) {
            self.ended(&session, why.name());
        }
        self.server.sessions.sweep();
        if let Some(limit) = &self.rate_limit {
            limit.sweep(now);
        }
    }

    /// Everything before the method: who may be here at all. An `Err` is a refusal, nothing more.
    async fn route(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        access: &mut Access,
    ) -> Result<HttpResponse, HttpResponse> {
        let headers = request.headers();
        let authority = authority(&request)?;
        let path = request.uri().path();
        match path.strip_suffix('/').unwrap_or(path) {
            "/health" if request.method() == Method::GET => {
                return Ok(json(StatusCode::OK, "{\"status\":\"ok\"}".into()));
            }
            "/ready" if request.method() == Method::GET => return Ok(self.ready()),
            _ => {}
        }
        let metrics = self.settings.metrics_path.as_deref() == Some(path);
        if path != self.settings.path && !metrics {
            return Err(text(StatusCode::NOT_FOUND, "not found"));
        }
        if self.settings.is_loopback()
            && !authority
                .as_deref()
                .is_none_or(guard::is_loopback_authority)
        {
            return Err(text(StatusCode::FORBIDDEN, "forbidden"));
        }
        if let Some(origin) = headers.get(ORIGIN)
            && !origin
                .to_str()
                .is_ok_and(|origin| self.origins.permits(origin))
        {
            return Err(text(StatusCode::FORBIDDEN, "forbidden"));
        }
        self.authenticate(headers, peer)?;
        if metrics {
            return Ok(match *request.method() {
                Method::GET => {
                    let mut response = text(StatusCode::OK, &self.metrics());
                    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                    response
                }
                _ => empty(StatusCode::METHOD_NOT_ALLOWED),
            });
        }
        match *request.method() {
            Method::POST => self.post(request, access).await,
            Method::DELETE => self.delete(headers, access),
            _ => {
                let mut refused = empty(StatusCode::METHOD_NOT_ALLOWED);
                refused
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
                Err(refused)
            }
        }
    }

    fn ready(&self) -> HttpResponse {
        let instance = crate::payload::Payload::new()
            .with("instance", Field::word(self.settings.instance.clone()));
        if self.draining.load(Ordering::SeqCst) {
            json(
                StatusCode::SERVICE_UNAVAILABLE,
                "{\"status\":\"draining\"}".into(),
            )
        } else if self.sessions.is_full() {
            json(
                StatusCode::SERVICE_UNAVAILABLE,
                "{\"status\":\"saturated\"}".into(),
            )
        } else {
            json(
                StatusCode::OK,
                instance.with("status", "ready").to_json().into_bytes(),
            )
        }
    }

    fn authenticate(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<(), HttpResponse> {
        let Some(token) = self
            .settings
            .token
            .as_ref()
            .filter(|_| self.settings.checks_token())
        else {
            return Ok(());
        };
        let (source, now) = (guard::source(peer), Instant::now());
        if let Some(left) = self
            .rate_limit
            .as_ref()
            .and_then(|limit| limit.blocked(source, now))
        {
            let mut refused = empty(StatusCode::TOO_MANY_REQUESTS);
            let seconds = left.as_millis().div_ceil(1000).max(1).to_string();
            if let Ok(seconds) = HeaderValue::from_str(&seconds) {
                refused.headers_mut().insert(RETRY_AFTER, seconds);
            }
            return Err(refused);
        }
        let challenge = match guard::bearer(
            token,
            headers
                .get_all(AUTHORIZATION)
                .iter()
                .map(HeaderValue::as_bytes),
        ) {
            Bearer::Right => {
                if let Some(limit) = &self.rate_limit {
                    limit.succeeded(source);
                }
                return Ok(());
            }
            Bearer::Missing => "Bearer",
            Bearer::Wrong => "Bearer error=\"invalid_token\"",
        };
        if let Some(block) = self
            .rate_limit
            .as_ref()
            .and_then(|limit| limit.failed(source, now))
        {
            self.server
                .log
                .event(Level::Warn, "http_auth_rate_limited", None, |fields| {
                    fields
                        .number("block_ms", block.as_millis())
                        .text("instance", &self.settings.instance)
                        .text("source", &source.to_string());
                });
        }
        let mut refused = empty(StatusCode::UNAUTHORIZED);
        refused
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        Err(refused)
    }

    fn delete(
        &self,
        headers: &HeaderMap,
        access: &mut Access,
    ) -> Result<HttpResponse, HttpResponse> {
        let session = self.session(headers, access)?;
        self.end(&session, ":delete");
        Ok(empty(StatusCode::ACCEPTED))
    }

    async fn post(
        &self,
        request: Request<Incoming>,
        access: &mut Access,
    ) -> Result<HttpResponse, HttpResponse> {
        let (head, body) = request.into_parts();
        if let Some(kind) = head.headers.get(CONTENT_TYPE)
            && !kind.to_str().is_ok_and(guard::is_json)
        {
            return Err(text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported media type",
            ));
        }
        let body = self.read(body, &head.headers).await?;
        if body.is_empty() {
            return Err(text(StatusCode::BAD_REQUEST, "empty body"));
        }
        let frame = match Frame::parse(&body) {
            Ok(frame) => frame,
            Err(Refused::Malformed) => {
                return Ok(self.rpc(StatusCode::OK, Reply::error(None, RpcError::PARSE)));
            }
            Err(Refused::NotAnObject) if self.draining.load(Ordering::SeqCst) => {
                return Err(self.rpc(
                    StatusCode::SERVICE_UNAVAILABLE,
                    Reply::error(None, DRAINING),
                ));
            }
            Err(Refused::NotAnObject) => {
                return Ok(self.rpc(
                    StatusCode::OK,
                    Reply::error(None, RpcError::INVALID_REQUEST),
                ));
            }
        };
        let _active = Active::enter(self);
        if self.draining.load(Ordering::SeqCst) {
            return Err(self.rpc(
                StatusCode::SERVICE_UNAVAILABLE,
                Reply::error(frame.request_id(), DRAINING),
            ));
        }
        if frame.method.is_none() && !frame.is_response() {
            let reply = Reply::error(frame.request_id(), RpcError::INVALID_REQUEST);
            return Ok(self.rpc(StatusCode::OK, reply));
        }
        if dispatch::is_stateless(&frame)
            || header(&head.headers, &PROTOCOL_VERSION)
                == Some(crate::connection::STATELESS_REVISION)
        {
            return self.stateless(&frame, &head.headers, access).await;
        }
        if frame.id.is_some() && frame.method_name().as_deref() == Some("initialize") {
            return self.initialize(&frame, &head.headers, access);
        }
        let session = self.session(&head.headers, access)?;
        if let Some(version) = head.headers.get(&PROTOCOL_VERSION)
            && version.as_bytes() != session.connection.revision().as_bytes()
        {
            return Err(text(StatusCode::BAD_REQUEST, "bad MCP-Protocol-Version"));
        }
        let arrival = arrival(&head.headers, access);
        let response = self.in_session(&session, &arrival, &frame).await;
        session.touch(Instant::now());
        Ok(response)
    }

    /// The body, within its size and its time.
    async fn read(&self, mut body: Incoming, headers: &HeaderMap) -> Result<Vec<u8>, HttpResponse> {
        let cap = self.settings.body_bytes;
        let too_large = || text(StatusCode::PAYLOAD_TOO_LARGE, "payload too large");
        let declared =
            header(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if declared.is_some_and(|length| length > cap && headers.contains_key(EXPECT)) {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(cap).min(DISCARD_BYTES_MAX));
        let mut total = 0usize;
        let reading = async {
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(|_| malformed())?.into_data() else {
                    continue;
                };
                total = total.saturating_add(data.len());
                if total <= cap {
                    bytes.extend_from_slice(&data);
                } else if total - cap > DISCARD_BYTES_MAX {
                    break;
                }
            }
            Ok(())
        };
        match tokio::time::timeout(
            Duration::from_millis(self.settings.request_timeout_ms),
            reading,
        )
        .await
        {
            Err(_) => Err(empty(StatusCode::REQUEST_TIMEOUT)),
            Ok(Err(refused)) => Err(refused),
            Ok(Ok(())) if total > cap => Err(too_large()),
            Ok(Ok(())) => Ok(bytes),
        }
    }

    fn initialize(
        &self,
        frame: &Frame<'_>,
        headers: &HeaderMap,
        access: &mut Access,
    ) -> Result<HttpResponse, HttpResponse> {
        if headers.get(&SESSION_ID).is_some_and(|id| !id.is_empty()) {
            return Err(text(
                StatusCode::BAD_REQUEST,
                "initialize must not include MCP-Session-Id",
            ));
        }
        let id = frame.request_id();
        if !frame.version_ok {
            return Ok(self.rpc(StatusCode::OK, Reply::error(id, RpcError::INVALID_REQUEST)));
        }
        access.owner_hash = Some(self.settings.owner_hash.clone());
        let session = self
            .sessions
            .open(&self.settings.owner_hash, Instant::now())
            .map_err(|full| match full {
                Full::Server => self.rpc(
                    StatusCode::SERVICE_UNAVAILABLE,
                    Reply::error(id.clone(), SATURATED),
                ),
                Full::Owner => self.rpc(
                    StatusCode::TOO_MANY_REQUESTS,
                    Reply::error(id.clone(), OWNER_LIMIT),
                ),
            })?;
        let arrival = arrival(headers, access);
        let handled = dispatch::handle(&self.server, &session.connection, &arrival, frame, || {
            Box::new(|_| {})
        });
        let Handled::Now(reply) = handled else {
            return Err(empty(StatusCode::INTERNAL_SERVER_ERROR));
        };
        let session_hash = digest::short(session.id.as_bytes());
        self.server
            .log
            .event(Level::Info, "http_session_created", None, |fields| {
                fields
                    .text("instance", &self.settings.instance)
                    .text("owner_hash", &session.owner_hash)
                    .text("protocol_version", session.connection.revision())
                    .text("session_hash", &session_hash);
            });
        access.session_hash = Some(session_hash);
        let mut response = self.rpc(StatusCode::OK, reply);
        if let Ok(id) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION_ID.clone(), id);
        }
        Ok(response)
    }

    /// The session that the request names.
    fn session(
        &self,
        headers: &HeaderMap,
        access: &mut Access,
    ) -> Result<Arc<Session>, HttpResponse> {
        let Some(id) = header(headers, &SESSION_ID).filter(|id| !id.is_empty()) else {
            return Err(text(StatusCode::BAD_REQUEST, "missing MCP-Session-Id"));
        };
        access.owner_hash = Some(self.settings.owner_hash.clone());
        access.session_hash = Some(digest::short(id.as_bytes()));
        self.sessions
            .find(id, &self.settings.owner_hash, Instant::now())
            .ok_or_else(|| empty(StatusCode::NOT_FOUND))
    }

    async fn in_session(
        &self,
        session: &Arc<Session>,
        arrival: &Arrival,
        frame: &Frame<'_>,
    ) -> HttpResponse {
        if frame.is_response() || (frame.id.is_none() && !frame.version_ok) {
            return empty(StatusCode::ACCEPTED);
        }
        let (sender, receiver) = oneshot::channel();
        let handled = dispatch::handle(&self.server, &session.connection, arrival, frame, || {
            answer_to(sender)
        });
        match handled {
            Handled::Silent => empty(StatusCode::ACCEPTED),
            Handled::Now(reply) => self.rpc(StatusCode::OK, reply),
            Handled::Later(key, job) => {
                // A job that no thread takes answers for itself.
                drop(self.server.pool.run(job));
                self.wait(&session.connection, key, frame.request_id(), receiver)
                    .await
            }
            Handled::Exit(reply) => {
                self.end(session, ":normal");
                match reply {
                    Some(reply) => self.rpc(StatusCode::OK, reply),
                    None => empty(StatusCode::ACCEPTED),
                }
            }
        }
    }

    /// A request of the revision without sessions.
    async fn stateless(
        &self,
        frame: &Frame<'_>,
        headers: &HeaderMap,
        access: &mut Access,
    ) -> Result<HttpResponse, HttpResponse> {
        access.owner_hash = Some(self.settings.owner_hash.clone());
        let Some(id) = frame.request_id() else {
            return Ok(empty(StatusCode::ACCEPTED));
        };
        let refuse = |error: RpcError| {
            let status = match error.code {
                -32601 => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            self.rpc(status, Reply::error(Some(id.clone()), error))
        };
        let version = dispatch::stateless_version(frame).map_err(refuse)?;
        let mirrored = stateless::Headers {
            version: header(headers, &PROTOCOL_VERSION),
            method: header(headers, &MCP_METHOD),
            name: header(headers, &MCP_NAME),
        };
        stateless::check(&mirrored, frame, &version).map_err(refuse)?;
        let key = Id::number(self.next_key.fetch_add(1, Ordering::Relaxed) as u64);
        let (sender, receiver) = oneshot::channel();
        let arrival = arrival(headers, access);
        let handled =
            dispatch::handle_stateless(&self.server, &self.stateless, &arrival, frame, key, || {
                answer_to(sender)
            });
        Ok(match handled {
            Handled::Silent | Handled::Exit(None) => empty(StatusCode::ACCEPTED),
            Handled::Now(Reply {
                body: ReplyBody::Error(error),
                ..
            }) => refuse(error),
            Handled::Now(reply) | Handled::Exit(Some(reply)) => self.rpc(StatusCode::OK, reply),
            Handled::Later(key, job) => {
                drop(self.server.pool.run(job));
                self.wait(&self.stateless, key, Some(id), receiver).await
            }
        })
    }

    /// Waits for a program's reply. A client that goes away meanwhile cancels it.
    async fn wait(
        &self,
        connection: &Arc<Connection>,
        key: Id,
        id: Option<Id>,
        receiver: oneshot::Receiver<Scrubbed<Reply>>,
    ) -> HttpResponse {
        let mut guard = CancelOnDrop {
            connection,
            key: Some(key),
        };
        let limit = self.server.call_timeout() + AWAIT_SLACK;
        let outcome = tokio::time::timeout(limit, receiver).await;
        match outcome {
            Ok(Ok(reply)) => {
                guard.key = None;
                self.scrubbed(StatusCode::OK, &reply)
            }
            Ok(Err(_)) => {
                guard.key = None;
                self.rpc(StatusCode::OK, Reply::error(id, RpcError::INTERNAL))
            }
            Err(_) => self.rpc(StatusCode::OK, Reply::error(id, TIMED_OUT)),
        }
    }

    fn end(&self, session: &Arc<Session>, why: &str) {
        if self.sessions.close(session) {
            self.ended(session, why);
        }
    }

    /// What follows when a session has been taken out.
    fn ended(&self, session: &Arc<Session>, why: &str) {
        session.connection.drain();
        self.cancel_all(&session.connection);
        self.server.forget_owner(&session.connection.owner);
        self.server
            .log
            .event(Level::Info, "http_session_closed", None, |fields| {
                fields
                    .text("instance", &self.settings.instance)
                    .text("owner_hash", &session.owner_hash)
                    .text("reason", why)
                    .text("session_hash", &digest::short(session.id.as_bytes()));
            });
    }

    fn cancel_all(&self, connection: &Connection) {
        for (id, answer) in connection.cancel_all() {
            dispatch::answer_cancelled(&self.server, connection, id, answer);
        }
    }

    fn metrics(&self) -> String {
        let gauges = Gauges {
            in_flight: self.server.gate.taken(),
            in_flight_max: self.server.gate.cap(),
            protocol_sessions: self.sessions.count(),
            sessions: self.server.sessions.count(),
        };
        self.server
            .counters
            .as_ref()
            .map(|counters| counters.render(&gauges))
            .unwrap_or_default()
    }

    fn rpc(&self, status: StatusCode, reply: Reply) -> HttpResponse {
        self.scrubbed(status, &self.server.redactor.scrub(reply))
    }

    fn scrubbed(&self, status: StatusCode, reply: &Scrubbed<Reply>) -> HttpResponse {
        let mut body = Vec::with_capacity(512);
        Reply::write(reply, &mut body);
        json(status, body)
    }
}

/// Counts a request from its frame to its response.
struct Active<'a>(&'a Endpoint);

impl<'a> Active<'a> {
    fn enter(endpoint: &'a Endpoint) -> Self {
        endpoint.active.fetch_add(1, Ordering::SeqCst);
        Active(endpoint)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        if self.0.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// Cancels a call whose request is dropped before its reply came.
struct CancelOnDrop<'a> {
    connection: &'a Connection,
    key: Option<Id>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            drop(self.connection.cancel(key));
        }
    }
}

fn answer_to(sender: oneshot::Sender<Scrubbed<Reply>>) -> Answer {
    Box::new(move |reply| {
        // Whoever asked may have gone.
        let _ = sender.send(reply);
    })
}

/// Marks a response after which the connection cannot be trusted.
#[derive(Clone)]
struct Malformed;

fn malformed() -> HttpResponse {
    let mut response = empty(StatusCode::BAD_REQUEST);
    response.extensions_mut().insert(Malformed);
    response
}

/// Who the request is addressed to. Requests whose framing or addressee is ambiguous are refused.
fn authority(request: &Request<Incoming>) -> Result<Option<String>, HttpResponse> {
    let headers = request.headers();
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Err(malformed());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && request.version() == Version::HTTP_11) {
        return Err(malformed());
    }
    let named = match host {
        None => None,
        Some(host) => {
            let text = host.to_str().map_err(|_| malformed())?;
            let parsed: hyper::http::uri::Authority = text.parse().map_err(|_| malformed())?;
            if parsed.as_str().contains('@') {
                return Err(malformed());
            }
            Some(text.to_owned())
        }
    };
    match (request.uri().authority(), &named) {
        (Some(target), Some(host)) if target.as_str() != host.as_str() => Err(malformed()),
        (Some(target), None) => Ok(Some(target.as_str().to_owned())),
        _ => Ok(named),
    }
}

fn arrival(headers: &HeaderMap, access: &Access) -> Arrival {
    Arrival {
        request_id: Some(access.request_id.clone()),
        trace: header(headers, &TRACE_PARENT)
            .and_then(|parent| TraceContext::new(parent, header(headers, &TRACE_STATE))),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn empty(status: StatusCode) -> HttpResponse {
    response(status, Bytes::new())
}

fn text(status: StatusCode, body: &str) -> HttpResponse {
    response(status, Bytes::copy_from_slice(body.as_bytes()))
}

fn json(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    let mut response = response(status, Bytes::from(body));
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn response(status: StatusCode, body: Bytes) -> HttpResponse {
    let mut response = Response::new(FullBody::new(body));
    *response.status_mut() = status;
    response
}
