//! One frame in, at most one reply out: the table of methods and what each does.
//!
//! Knows nothing of transports; they pass in frames and a way to reply later.

use crate::call::{Call, Responder};
use crate::diagnostics::log::{REQUEST_SPAN, text_or_null};
use crate::evaluation::pool;
use crate::executor;
use crate::mcp::connection::{
    Cancelled, Connection, RequestContext, STATELESS_REVISION, Transport,
};
use crate::mcp::handler::Handler;
use crate::mcp::incoming::Incoming;
use crate::mcp::stateless;
use crate::mcp::tools;
use crate::mcp::tools_call::{CallContext, tools_call};
use crate::render::reason::Refusal;
use crate::render::reply::{Era, RefusalForm, Reply};
use crate::sessions::store::SessionKey;
use crate::sessions::{NodeMessage, Sessions, SharedSessions};
use crate::version;
use ptc_protocol::Payload;
use ptc_protocol::members::{Capabilities, InitializeResult};
use ptc_rpc::{ID_BYTES_MAX, Id, Json, RpcError};
use ptc_secrets::Redactor;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;

/// The outcome of handling a frame.
pub enum Handled {
    /// There is no reply.
    Silent,
    Now(Reply),
    /// Running the job uses the answer that was passed in, or drops it.
    Later(Arc<Call>, pool::Job),
    /// Send this reply, if any, and end the connection.
    Exit(Option<Reply>),
}

/// A method: its name, what a request for it does in each protocol era, and what it does as a notification.
struct Method {
    name: &'static str,
    session: OnRequest,
    stateless: OnRequest,
    /// `None` for a name that is not a notification.
    notified: Option<fn(&Notification<'_>) -> Handled>,
    /// Its action as a notification in the stateless era, which has no connection that could end.
    notified_stateless: Option<fn(&Notification<'_>) -> Handled>,
}

/// What a request for a method does.
#[derive(Clone, Copy)]
enum OnRequest {
    /// It is answered at once.
    Answer(fn(&MethodCall<'_>) -> Reply),
    CallTool,
    /// The name of a notification, which is not valid with an id.
    Invalid,
    /// The name is not known in this era.
    Unknown,
    /// It is answered, and the connection ends.
    Exit,
}

struct Notification<'a> {
    handler: &'a Arc<Handler>,
    connection: &'a Arc<Connection>,
    params: Option<Json<'a>>,
}

/// A request for a method that is answered at once.
pub(super) struct MethodCall<'a> {
    pub handler: &'a Arc<Handler>,
    connection: &'a Arc<Connection>,
    pub id: &'a Id,
    params: Option<Json<'a>>,
}

/// Every method, of requests and notifications.
const METHODS: &[Method] = &[
    Method {
        name: "initialize",
        session: OnRequest::Answer(initialize),
        stateless: OnRequest::Unknown,
        notified: Some(ignored),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "ping",
        session: OnRequest::Answer(ping),
        stateless: OnRequest::Unknown,
        notified: Some(ignored),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "shutdown",
        session: OnRequest::Answer(shutdown),
        stateless: OnRequest::Unknown,
        notified: Some(shutdown_notified),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "exit",
        session: OnRequest::Exit,
        stateless: OnRequest::Unknown,
        notified: Some(exit_notified),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "tools/list",
        session: OnRequest::Answer(tools_list),
        stateless: OnRequest::Answer(stateless::tools_list),
        notified: Some(ignored),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "tools/call",
        session: OnRequest::CallTool,
        stateless: OnRequest::CallTool,
        notified: Some(ignored),
        notified_stateless: Some(ignored),
    },
    Method {
        name: "server/discover",
        // The name alone selects the stateless era.
        session: OnRequest::Unknown,
        stateless: OnRequest::Answer(stateless::discover),
        notified: None,
        notified_stateless: None,
    },
    Method {
        name: "notifications/initialized",
        session: OnRequest::Invalid,
        stateless: OnRequest::Unknown,
        notified: Some(initialized),
        notified_stateless: Some(initialized),
    },
    Method {
        name: "notifications/cancelled",
        session: OnRequest::Invalid,
        stateless: OnRequest::Unknown,
        notified: Some(cancelled),
        notified_stateless: Some(cancelled),
    },
];

pub fn method_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|method| method.name)
}

fn method(name: Option<&str>) -> Option<&'static Method> {
    METHODS.iter().find(|method| Some(method.name) == name)
}

/// Handles one syntactically valid frame, which may or may not be an object with `"jsonrpc":"2.0"` and a method. `answer` creates the way
/// to reply later and is called at most once.
pub fn handle(
    handler: &Arc<Handler>,
    connection: &Arc<Connection>,
    context: &RequestContext,
    incoming: &Incoming<'_>,
    answer: impl FnOnce() -> Responder,
) -> Handled {
    contain_panic(incoming, || {
        let Incoming { frame, era, .. } = incoming;
        let id = incoming.id.clone();
        if !frame.version_ok || frame.method.is_none() {
            // A response is not a request, so the error does not use its id.
            let id = id.filter(|_| !frame.is_response());
            return Handled::Now(Reply::error(id, RpcError::INVALID_REQUEST));
        }
        if let Some(id) = id.clone().filter(|_| *era == Era::Stateless) {
            return handle_stateless(handler, connection, context, incoming, id, answer);
        }
        let Some(id) = id else {
            return notification(handler, connection, *era, incoming);
        };
        let request = CallContext {
            handler,
            connection,
            context,
            key: id.clone(),
            id,
            era: Era::Session,
            revision: connection.revision(),
        };
        answer_request(request, incoming, answer)
    })
}

/// Handles one frame of the stateless revision. `key` identifies the call while it is in flight.
pub fn handle_stateless(
    handler: &Arc<Handler>,
    connection: &Arc<Connection>,
    context: &RequestContext,
    incoming: &Incoming<'_>,
    key: Id,
    answer: impl FnOnce() -> Responder,
) -> Handled {
    contain_panic(incoming, || {
        let Some(id) = incoming.id.clone() else {
            return notification(handler, connection, Era::Stateless, incoming);
        };
        if let Err(error) = stateless::check_request(&handler.redactor, incoming) {
            return Handled::Now(Reply::error(Some(id), error));
        }
        let request = CallContext {
            handler,
            connection,
            context,
            key,
            id,
            era: Era::Stateless,
            revision: STATELESS_REVISION,
        };
        answer_request(request, incoming, answer)
    })
}

/// Answers a request in a frame that is valid in its era, as the row of its method says.
fn answer_request(
    request: CallContext<'_>,
    incoming: &Incoming<'_>,
    answer: impl FnOnce() -> Responder,
) -> Handled {
    let CallContext {
        handler,
        connection,
        context,
        era,
        ..
    } = request;
    let (name, params) = (incoming.method.as_deref(), incoming.frame.params);
    let known = method(name);
    let transport_id = context.request_id.as_deref();
    let _request = request_span(handler, connection, &request.id, known, transport_id).entered();
    let action = known.map_or(OnRequest::Unknown, |known| match era {
        Era::Session => known.session,
        Era::Stateless => known.stateless,
    });
    match action {
        OnRequest::Answer(answer) => Handled::Now(answer(&MethodCall {
            handler,
            connection,
            id: &request.id,
            params,
        })),
        OnRequest::CallTool => {
            if era == Era::Stateless
                && let Err(error) = stateless::check_input_responses(params)
            {
                return Handled::Now(Reply::error(Some(request.id), error));
            }
            tools_call(request, incoming, answer)
        }
        OnRequest::Exit => {
            tracing::info!(event = "exit");
            Handled::Exit(Some(null_result(request.id)))
        }
        OnRequest::Invalid => {
            Handled::Now(Reply::error(Some(request.id), RpcError::INVALID_REQUEST))
        }
        OnRequest::Unknown => Handled::Now(method_not_found(&handler.redactor, name, request.id)),
    }
}

/// A fault of this server fails the request that met it, and never ends the thread that reads the others.
fn contain_panic(incoming: &Incoming<'_>, handle: impl FnOnce() -> Handled) -> Handled {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(handle)).unwrap_or_else(|_| {
        tracing::error!(event = "worker_raise");
        match incoming.id.clone() {
            Some(id) => Handled::Now(Reply::error(Some(id), RpcError::INTERNAL)),
            None => Handled::Silent,
        }
    })
}

/// Acts on a notification, which is never answered.
fn notification(
    handler: &Arc<Handler>,
    connection: &Arc<Connection>,
    era: Era,
    incoming: &Incoming<'_>,
) -> Handled {
    let name = incoming.method.as_deref();
    let act = method(name).and_then(|method| match era {
        Era::Session => method.notified,
        Era::Stateless => method.notified_stateless,
    });
    match act {
        Some(act) => act(&Notification {
            handler,
            connection,
            params: incoming.frame.params,
        }),
        None => {
            unknown_method(&handler.redactor, name);
            Handled::Silent
        }
    }
}

fn ignored(_: &Notification<'_>) -> Handled {
    Handled::Silent
}

fn initialized(_: &Notification<'_>) -> Handled {
    tracing::debug!(event = "notifications_initialized");
    Handled::Silent
}

fn shutdown_notified(notified: &Notification<'_>) -> Handled {
    tracing::info!(event = "shutdown");
    drain(&notified.handler.sessions, notified.connection);
    Handled::Silent
}

fn exit_notified(_: &Notification<'_>) -> Handled {
    tracing::info!(event = "exit");
    Handled::Exit(None)
}

fn method_not_found(redactor: &Redactor, name: Option<&str>, id: Id) -> Reply {
    unknown_method(redactor, name);
    Reply::error(Some(id), RpcError::METHOD_NOT_FOUND)
}

fn unknown_method(redactor: &Redactor, name: Option<&str>) {
    let method = name.map(|name| scrub_and_truncate(redactor, name));
    tracing::warn!(
        event = "method_not_found",
        method = text_or_null(&method.as_deref())
    );
}

/// Bytes of a name or an id from outside that a log line or a message shows.
const SHOWN_BYTES_MAX: usize = 256;

/// A name or an id from outside, made short enough for a log line or a message: scrubbed first, and truncated afterwards.
pub(super) fn scrub_and_truncate<'a>(redactor: &Redactor, text: &'a str) -> Cow<'a, str> {
    let clean = executor::for_text(text, || redactor.scrub_str(text));
    match clean.len() <= SHOWN_BYTES_MAX {
        true => clean,
        false => Cow::Owned(format!(
            "{}…",
            crate::render::profile::prefix(&clean, SHOWN_BYTES_MAX)
        )),
    }
}

fn cancelled(notified: &Notification<'_>) -> Handled {
    let Notification {
        handler,
        connection,
        params,
    } = *notified;
    let named = params.and_then(|params| params.get("requestId"));
    // A null names no call, although a call may have the id null; nor does text longer than any call's id in any spelling.
    let may_be_known = |id: &Json<'_>| !id.is_null() && id.text().len() <= CANCELLED_ID_BYTES_MAX;
    let Some(id) = named.filter(may_be_known).map(Id::from_json) else {
        tracing::debug!(event = "notifications_cancelled");
        return Handled::Silent;
    };
    let known = method(Some("notifications/cancelled"));
    let _request = request_span(handler, connection, &id, known, None).entered();
    tracing::debug!(event = "notifications_cancelled");
    match connection.cancel(&id) {
        Cancelled::Unknown => {
            tracing::debug!(event = "cancelled_unknown");
            // With shared protocol sessions, the call may run on another node.
            if let (Some(shared), Some(_)) =
                (handler.sessions.shared(), connection.protocol_owner())
            {
                shared.broadcast(&NodeMessage::Cancel {
                    session: SessionKey::of(&connection.owner),
                    call: id,
                });
            }
        }
        Cancelled::Arriving => {
            tracing::info!(event = "cancelled_in_flight");
            // On stdio the next frame waits behind this one anyway.
            if connection.transport != Transport::Stdio {
                wait_until_arrived(connection, &id, SharedSessions::STORE_TIMEOUT);
            }
        }
        Cancelled::InFlight(call, answer) => {
            tracing::info!(event = "cancelled_in_flight");
            answer_cancelled(&handler.redactor, connection, &call, answer);
        }
    }
    Handled::Silent
}

/// Bytes of the longest id in a cancellation: each byte of the id may be written as an escape. Longer ones are not broadcast to other
/// nodes.
const CANCELLED_ID_BYTES_MAX: usize = 6 * ID_BYTES_MAX;

/// How long the listening thread waits for a request to arrive: all other nodes wait for that thread.
const ARRIVAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Cancels a call because another node received the cancellation.
pub fn cancel_from_other_node(handler: &Handler, connection: &Connection, id: &Id) {
    match connection.cancel(id) {
        Cancelled::Unknown => {}
        Cancelled::Arriving => wait_until_arrived(connection, id, ARRIVAL_TIMEOUT),
        Cancelled::InFlight(call, answer) => {
            answer_cancelled(&handler.redactor, connection, &call, answer);
        }
    }
}

/// Delays the handling of the cancellation until the request has released its session's lease, so that the client's next turn does not
/// find the session busy.
fn wait_until_arrived(connection: &Connection, id: &Id, patience: Duration) {
    executor::blocking(|| connection.wait_until_arrived(id, patience));
}

/// Uses the answer of a cancelled call: over HTTP a request is waiting for it, on stdio nothing is.
pub fn answer_cancelled(
    redactor: &Redactor,
    connection: &Connection,
    call: &Call,
    answer: Responder,
) {
    if let Some(reply) = cancelled_reply(connection, call.id.clone(), call.refusal_form) {
        answer(redactor.scrub(reply));
    }
}

pub(super) fn cancelled_reply(connection: &Connection, id: Id, form: RefusalForm) -> Option<Reply> {
    matches!(connection.transport, Transport::Http { .. })
        .then(|| form.reply(id, &Refusal::Cancelled))
}

fn initialize(call: &MethodCall<'_>) -> Reply {
    let wanted = call
        .params
        .and_then(|params| params.get("protocolVersion"))
        .and_then(Json::as_str);
    let revision = call.connection.negotiate(wanted.as_deref());
    tracing::info!(event = "initialize");
    let result = InitializeResult {
        capabilities: Capabilities::default(),
        protocol_version: revision,
        server_info: version::server_info(),
    };
    own_result(call.id.clone(), Payload::from(result).to_json())
}

fn ping(call: &MethodCall<'_>) -> Reply {
    own_result(call.id.clone(), "{}".into())
}

fn shutdown(call: &MethodCall<'_>) -> Reply {
    tracing::info!(event = "shutdown");
    drain(&call.handler.sessions, call.connection);
    null_result(call.id.clone())
}

/// Refuses tool calls of a session from now on, on every node.
fn drain(sessions: &Sessions, connection: &Connection) {
    connection.drain();
    if let (Some(shared), Some(owner)) = (sessions.shared(), connection.protocol_owner()) {
        // If the store is away, or another request drains the session now, there is nothing more to do.
        let _ = shared.drain_protocol(&connection.owner, owner);
    }
}

fn tools_list(call: &MethodCall<'_>) -> Reply {
    tracing::debug!(event = "tools_list");
    Reply::json(call.id.clone(), tools::list(&call.handler.tools))
}

fn null_result(id: Id) -> Reply {
    own_result(id, "null".into())
}

/// A result in the server's own words, without any text from outside.
pub(super) fn own_result(id: Id, json: String) -> Reply {
    Reply::json(id, Arc::new(ptc_secrets::Redactor::empty().scrub(json)))
}

/// The span of everything that is done for a request; a null id counts as no id. `transport_id` is its `X-Request-Id`.
fn request_span(
    handler: &Handler,
    connection: &Connection,
    id: &Id,
    known: Option<&Method>,
    transport_id: Option<&str>,
) -> Span {
    let id = (!id.is_null()).then(|| id.plain());
    // Short ids are scrubbed when the log is written, because every request reaches this line.
    let id = id.as_deref().map(|id| match id.len() <= SHOWN_BYTES_MAX {
        true => Cow::Borrowed(id),
        false => scrub_and_truncate(&handler.redactor, id),
    });
    let session = match &connection.transport {
        Transport::Http { session_hash, .. } if !session_hash.is_empty() => Some(session_hash),
        _ => None,
    };
    tracing::info_span!(
        REQUEST_SPAN,
        request_id = id.as_deref(),
        method = known.map(|known| known.name),
        session = session.map(String::as_str),
        transport_request_id = transport_id,
    )
}
