//! The methods of the MCP endpoint: a POST passes one frame to the dispatcher, a DELETE ends a session. Knows nothing of who may call.

use super::accept::Peer;
use super::access_log::AccessRecord;
use super::body::Posted;
use super::endpoint::Endpoint;
use super::protocol_sessions::{MissingSession, ProtocolSession, SessionCap};
use super::refusal::HttpRefusal;
use super::stateless;
use crate::call::{Call, Responder};
use crate::executor;
use crate::mcp::connection::{Arrival, Connection, RequestContext, STATELESS_REVISION};
use crate::mcp::dispatch::{self, Handled};
use crate::mcp::incoming::Incoming;
use crate::mcp::stateless::declared_version;
use crate::render::reply::{Era, Reply, ReplyBody};
use crate::sessions::SharedSessions;
use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Response as HttpResponse, StatusCode};
use axum::response::Response;
use ptc_protocol::digest;
use ptc_rpc::{Document, Frame, FrameFault, Id, RpcError};
use ptc_upstream::TraceContext;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The methods of the endpoint's path.
pub const METHODS: &str = "POST, DELETE";

static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");
static MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
static MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// How much longer than a program's own limit a request waits.
const REPLY_SLACK: Duration = Duration::from_secs(1);

/// Errors of this transport.
const SATURATED: RpcError = RpcError::fixed(-32000, "server saturated");
const OWNER_LIMIT: RpcError = RpcError::fixed(-32000, "session owner limit exceeded");
const DRAINING: RpcError = RpcError::fixed(-32000, "server draining");
const TIMED_OUT: RpcError = RpcError::fixed(-32000, "request timed out");

/// The first bytes of every answer to a call in HTTP/1.0, whatever the outcome: those of [`Exchange::wait`].
const HTTP_1_0_BEGINNING: &[u8] =
    b"HTTP/1.0 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n";

type PostResult = Result<Response, HttpRefusal>;

/// A session that a request names. With a store, it may not exist: the store has not been asked yet.
struct NamedSession(Arc<ProtocolSession>);

/// A session that a request names and that exists.
pub struct LiveSession(Arc<ProtocolSession>);

impl NamedSession {
    fn name(endpoint: &Endpoint, head: &Parts) -> Result<Self, HttpRefusal> {
        let id = header(&head.headers, &SESSION_ID).filter(|id| !id.is_empty());
        let id = id.ok_or(HttpRefusal::MissingSession)?;
        let owner = &endpoint.settings().owner_hash;
        let named = endpoint.sessions().name(id, owner, Instant::now());
        if let Some(record) = head.extensions.get::<AccessRecord>() {
            record.owner(owner);
            record.session(match &named {
                Ok(session) => session.hash.clone(),
                Err(_) => digest::short(id.as_bytes()),
            });
        }
        named
            .map(NamedSession)
            .map_err(|missing| refused(endpoint, missing))
    }

    /// The session, if it exists.
    fn check(&self, endpoint: &Endpoint) -> Result<LiveSession, HttpRefusal> {
        let checked = endpoint.sessions().check(&self.0, Instant::now());
        checked.map_err(|missing| refused(endpoint, missing))?;
        Ok(LiveSession(Arc::clone(&self.0)))
    }
}

fn refused(endpoint: &Endpoint, missing: MissingSession) -> HttpRefusal {
    match missing {
        MissingSession::Unknown => HttpRefusal::UnknownSession,
        MissingSession::Ended(session) => {
            endpoint.remove_ended(&session);
            HttpRefusal::UnknownSession
        }
        MissingSession::StoreUnavailable => HttpRefusal::StoreUnavailable,
    }
}

impl FromRequestParts<Arc<Endpoint>> for LiveSession {
    type Rejection = HttpRefusal;

    async fn from_request_parts(
        head: &mut Parts,
        endpoint: &Arc<Endpoint>,
    ) -> Result<Self, HttpRefusal> {
        NamedSession::name(endpoint, head)?.check(endpoint)
    }
}

pub async fn delete(State(endpoint): State<Arc<Endpoint>>, session: LiveSession) -> Response {
    endpoint.end_session(&session.0, ":delete");
    plain(StatusCode::ACCEPTED, "")
}

/// Handles one frame.
pub async fn post(
    State(endpoint): State<Arc<Endpoint>>,
    Extension(peer): Extension<Arc<Peer>>,
    Extension(record): Extension<AccessRecord>,
    posted: Posted,
) -> PostResult {
    let exchange = Exchange {
        endpoint: &endpoint,
        peer: &peer,
        record: &record,
        head: &posted.head,
        body_bytes: posted.body().len(),
    };
    let draining = || endpoint.shutdown().has_begun();
    let document = executor::for_body(exchange.body_bytes, || Document::read(posted.body()));
    let frame = match document.as_ref() {
        Ok(document) => Frame::of(document.json()),
        Err(_) => Err(FrameFault::Malformed),
    };
    let incoming = match frame.map(Incoming::from) {
        Ok(incoming) => incoming,
        Err(FrameFault::Malformed) => return Ok(exchange.error(None, RpcError::PARSE)),
        Err(FrameFault::NotAnObject) if draining() => {
            return Err(exchange.refusal(StatusCode::SERVICE_UNAVAILABLE, None, DRAINING));
        }
        Err(FrameFault::NotAnObject) => return Ok(exchange.error(None, RpcError::INVALID_REQUEST)),
    };
    let frame = &incoming.frame;
    let _active = endpoint.shutdown().enter();
    if draining() {
        let id = incoming.id;
        return Err(exchange.refusal(StatusCode::SERVICE_UNAVAILABLE, id, DRAINING));
    }
    if frame.method.is_none() && !frame.is_response() {
        return Ok(exchange.error(incoming.id, RpcError::INVALID_REQUEST));
    }
    if incoming.era == Era::Stateless
        || exchange.header(&PROTOCOL_VERSION) == Some(STATELESS_REVISION)
    {
        return exchange.stateless(&incoming).await;
    }
    if frame.id.is_some() && incoming.method.as_deref() == Some("initialize") {
        return exchange.initialize(&incoming);
    }
    let named = NamedSession::name(&endpoint, &posted.head)?;
    let session = &named.0;
    // The call is registered from here on, so that nothing that ends it meanwhile is lost.
    let arrival = incoming
        .runs_program()
        .map(|key| session.connection.arrive(&key));
    // The request for a turn's lease also checks the session in the store.
    let asked = !incoming.begins_turn() || !endpoint.sessions().can_check_with_turn(session);
    if asked {
        named.check(&endpoint)?;
    }
    if let Some(version) = posted.head.headers.get(&PROTOCOL_VERSION)
        && version.as_bytes() != session.connection.revision().as_bytes()
    {
        if !asked {
            named.check(&endpoint)?;
        }
        return Err(HttpRefusal::WrongRevision);
    }
    let began = Instant::now();
    let response = exchange
        .in_session(&named, &incoming, asked, arrival)
        .await?;
    endpoint.sessions().record_end(session, began);
    Ok(response)
}

struct Exchange<'a> {
    endpoint: &'a Arc<Endpoint>,
    peer: &'a Peer,
    record: &'a AccessRecord,
    head: &'a Parts,
    body_bytes: usize,
}

impl Exchange<'_> {
    /// Handles the frame by `handle`, which reads its arguments and may scrub them.
    fn handled(&self, handle: impl FnOnce() -> Handled) -> Handled {
        executor::for_body(self.body_bytes, handle)
    }

    fn initialize(&self, incoming: &Incoming<'_>) -> PostResult {
        let frame = &incoming.frame;
        let endpoint = self.endpoint;
        if self
            .head
            .headers
            .get(&SESSION_ID)
            .is_some_and(|id| !id.is_empty())
        {
            return Err(HttpRefusal::SessionChosenByClient);
        }
        let id = incoming.id.clone();
        if !frame.version_ok {
            return Ok(self.error(id, RpcError::INVALID_REQUEST));
        }
        let owner = &endpoint.settings().owner_hash;
        self.record.owner(owner);
        let now = Instant::now();
        // Expired sessions do not count towards the caps.
        endpoint.sweep_sessions(now);
        let refused = |full: SessionCap| match full {
            SessionCap::Server => {
                self.refusal(StatusCode::SERVICE_UNAVAILABLE, id.clone(), SATURATED)
            }
            SessionCap::Owner => {
                self.refusal(StatusCode::TOO_MANY_REQUESTS, id.clone(), OWNER_LIMIT)
            }
        };
        let session = endpoint.sessions().open(owner, now).map_err(refused)?;
        let server = endpoint.server();
        let context = self.context();
        let handled = self.handled(|| {
            dispatch::handle(
                &server.handler,
                &session.connection,
                &context,
                incoming,
                || Box::new(|_| {}),
            )
        });
        let Handled::Now(reply) = handled else {
            return Err(HttpRefusal::Internal);
        };
        endpoint.sessions().share(&session).map_err(refused)?;
        tracing::info!(
            event = "http_session_created",
            instance = endpoint.settings().instance,
            owner_hash = session.owner_hash,
            protocol_version = session.connection.revision(),
            session_hash = session.hash,
        );
        self.record.session(session.hash.clone());
        let mut response = self.reply(StatusCode::OK, reply);
        if let Ok(id) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION_ID.clone(), id);
        }
        Ok(response)
    }

    /// `asked` is whether the store was asked for the session; otherwise the turn that begins asks for it.
    async fn in_session(
        &self,
        named: &NamedSession,
        incoming: &Incoming<'_>,
        asked: bool,
        arrival: Option<Arrival>,
    ) -> PostResult {
        let (session, frame) = (&named.0, &incoming.frame);
        if frame.is_response() || (frame.id.is_none() && !frame.version_ok) {
            return Ok(plain(StatusCode::ACCEPTED, ""));
        }
        let (sender, receiver) = oneshot::channel();
        let server = self.endpoint.server();
        let context = RequestContext {
            arrival,
            ..self.context()
        };
        let handle = |answer: Responder| {
            self.handled(|| {
                dispatch::handle(
                    &server.handler,
                    &session.connection,
                    &context,
                    incoming,
                    || answer,
                )
            })
        };
        let mut handled = handle(responder(sender));
        if !asked && !matches!(handled, Handled::Later(..)) {
            // No turn began, for whatever reason. That the session does not exist takes precedence over that reason.
            let drained = session.connection.is_draining();
            named.check(self.endpoint)?;
            if session.connection.is_draining() && !drained {
                handled = handle(Box::new(|_| {}));
            }
        }
        drop(context);
        Ok(match handled {
            Handled::Silent => plain(StatusCode::ACCEPTED, ""),
            Handled::Now(reply) => self.reply(StatusCode::OK, reply),
            Handled::Later(call, job) => {
                // A job that no thread takes answers its call itself.
                drop(server.pool.run(job));
                self.wait(&session.connection, call, receiver).await
            }
            Handled::Exit(reply) => {
                self.endpoint.end_session(session, ":normal");
                match reply {
                    Some(reply) => self.reply(StatusCode::OK, reply),
                    None => plain(StatusCode::ACCEPTED, ""),
                }
            }
        })
    }

    /// Handles a request of the stateless revision.
    async fn stateless(&self, incoming: &Incoming<'_>) -> PostResult {
        let endpoint = self.endpoint;
        self.record.owner(&endpoint.settings().owner_hash);
        let Some(id) = incoming.id.clone() else {
            return Ok(plain(StatusCode::ACCEPTED, ""));
        };
        let refuse = |error: RpcError| {
            let status = match error.code {
                -32601 => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            self.refusal(status, Some(id.clone()), error)
        };
        let version = declared_version(incoming).map_err(refuse)?;
        let mirrored = stateless::MirroredHeaders {
            version: self.header(&PROTOCOL_VERSION),
            method: self.header(&MCP_METHOD),
            name: self.header(&MCP_NAME),
        };
        stateless::check(&mirrored, incoming, &version).map_err(refuse)?;
        let key = endpoint.next_key();
        let (sender, receiver) = oneshot::channel();
        let (server, calls) = (endpoint.server(), endpoint.stateless());
        let context = self.context();
        let handled = self.handled(|| {
            dispatch::handle_stateless(&server.handler, calls, &context, incoming, key, || {
                responder(sender)
            })
        });
        Ok(match handled {
            Handled::Silent | Handled::Exit(None) => plain(StatusCode::ACCEPTED, ""),
            Handled::Now(Reply {
                body: ReplyBody::Error(error),
                ..
            }) => return Err(refuse(error)),
            Handled::Now(reply) | Handled::Exit(Some(reply)) => self.reply(StatusCode::OK, reply),
            Handled::Later(call, job) => {
                drop(server.pool.run(job));
                self.wait(calls, call, receiver).await
            }
        })
    }

    /// Waits for a program's reply. The connection is watched meanwhile: when its client disconnects, this future is dropped and the call
    /// is cancelled.
    async fn wait(
        &self,
        connection: &Arc<Connection>,
        call: Arc<Call>,
        receiver: oneshot::Receiver<Vec<u8>>,
    ) -> Response {
        let id = call.id.clone();
        let _watched = self
            .peer
            .activity
            .call(self.head.version, HTTP_1_0_BEGINNING);
        let mut guard = CancelOnDrop {
            connection,
            call: Some(call),
        };
        let server = self.endpoint.server();
        let mut limit = server.call_timeout() + REPLY_SLACK;
        if server.sessions.shared().is_some() {
            // Leaves time to report a commit that the store does not answer.
            limit += SharedSessions::STORE_TIMEOUT;
        }
        match tokio::time::timeout(limit, receiver).await {
            Ok(Ok(reply)) => {
                guard.call = None;
                json(StatusCode::OK, reply)
            }
            Ok(Err(_)) => {
                guard.call = None;
                self.error(Some(id), RpcError::INTERNAL)
            }
            Err(_) => self.error(Some(id), TIMED_OUT),
        }
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        header(&self.head.headers, name)
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            request_id: Some(self.record.request_id().to_owned()),
            trace: self
                .header(&TRACE_PARENT)
                .and_then(|parent| TraceContext::new(parent, self.header(&TRACE_STATE))),
            ..RequestContext::default()
        }
    }

    fn error(&self, id: Option<Id>, error: RpcError) -> Response {
        self.reply(StatusCode::OK, Reply::error(id, error))
    }

    fn refusal(&self, status: StatusCode, id: Option<Id>, error: RpcError) -> HttpRefusal {
        let reply = self
            .endpoint
            .server()
            .redactor
            .scrub(Reply::error(id, error));
        HttpRefusal::Rpc(status, Box::new(reply))
    }

    fn reply(&self, status: StatusCode, reply: Reply) -> Response {
        let reply = self.endpoint.server().redactor.scrub(reply);
        json(status, Reply::bytes(&reply))
    }
}

/// Cancels a call whose request is dropped before its reply came.
struct CancelOnDrop<'a> {
    connection: &'a Connection,
    call: Option<Arc<Call>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(call) = &self.call {
            drop(self.connection.cancel_call(call));
        }
    }
}

/// Sends a reply as bytes, so that the thread that made it also serializes and frees it, not a thread that serves all connections.
fn responder(sender: oneshot::Sender<Vec<u8>>) -> Responder {
    Box::new(move |reply| {
        // The client may have disconnected.
        let _ = sender.send(Reply::bytes(&reply));
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A response without a content type: text for people, or nothing.
pub fn plain(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = HttpResponse::new(body.into());
    *response.status_mut() = status;
    response
}

pub fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = plain(status, body);
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
