//! One frame in, at most one reply out: the table of methods and what each does.
//!
//! Knows nothing of transports; they hand in frames and a way to answer later.

use crate::connection::{Answer, Call, Connection, NotAdmitted, SESSION_REVISIONS, Transport};
use crate::profile::View;
use crate::reason::Refusal;
use crate::reply::{Era, Reply, ToolReply};
use crate::server::Server;
use crate::settings::Level;
use crate::tools::{self, Request, Run, Tool, Work};
use ptc_rpc::{Frame, Id, Json, Kind, RpcError};
use std::borrow::Cow;
use std::sync::Arc;

/// What came of a frame.
pub enum Handled {
    /// There is nothing to send.
    Silent,
    /// Send this.
    Now(Reply),
    /// The answer that was handed in will be used, or dropped.
    Later,
    /// Send this, if anything, and end the connection.
    Exit(Option<Reply>),
}

/// A method: its name and what a request for it does.
struct Method {
    name: &'static str,
    request: fn(&Scene<'_>) -> Result<Reply, RpcError>,
}

/// What a request is about.
struct Scene<'a> {
    server: &'a Arc<Server>,
    connection: &'a Arc<Connection>,
    id: &'a Id,
    params: Option<Json<'a>>,
}

/// Methods that are answered at once. `tools/call` and `exit` are apart.
const METHODS: &[Method] = &[
    Method {
        name: "initialize",
        request: initialize,
    },
    Method {
        name: "ping",
        request: ping,
    },
    Method {
        name: "shutdown",
        request: shutdown,
    },
    Method {
        name: "tools/list",
        request: tools_list,
    },
];

/// Handles one well-formed frame: an object with `"jsonrpc":"2.0"` and a method, or not. `answer` makes the way to answer
/// later and is called at most once.
pub fn handle(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    frame: &Frame<'_>,
    answer: impl FnOnce() -> Answer,
) -> Handled {
    let id = frame.request_id();
    if !frame.version_ok || frame.method.is_none() {
        // A response of ours to nobody's question has no id to answer.
        let id = id.filter(|_| !frame.is_response());
        return Handled::Now(Reply::error(id, RpcError::INVALID_REQUEST));
    }
    let method = frame.method_name();
    let Some(id) = id else {
        return notification(server, connection, method.as_deref(), frame.params);
    };
    match method.as_deref() {
        Some("tools/call") => tools_call(server, connection, id, frame.params, answer),
        Some("exit") => {
            server
                .log
                .event(Level::Info, "exit", Some(&id.plain()), |_| {});
            Handled::Exit(Some(null_result(server, id)))
        }
        // Notifications by name: an id makes them requests that mean nothing.
        Some("notifications/initialized" | "notifications/cancelled") => {
            Handled::Now(Reply::error(Some(id), RpcError::INVALID_REQUEST))
        }
        name => {
            let known = METHODS.iter().find(|known| Some(known.name) == name);
            let Some(known) = known else {
                method_not_found(server, name, Some(&id));
                return Handled::Now(Reply::error(Some(id), RpcError::METHOD_NOT_FOUND));
            };
            let scene = Scene {
                server,
                connection,
                id: &id,
                params: frame.params,
            };
            Handled::Now(
                (known.request)(&scene)
                    .unwrap_or_else(|error| Reply::error(Some(id.clone()), error)),
            )
        }
    }
}

/// Acts on a notification. It is never answered.
fn notification(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    method: Option<&str>,
    params: Option<Json<'_>>,
) -> Handled {
    match method {
        Some("notifications/initialized") => {
            server
                .log
                .event(Level::Debug, "notifications_initialized", None, |_| {});
        }
        Some("notifications/cancelled") => cancelled(server, connection, params),
        Some("shutdown") => {
            server.log.event(Level::Info, "shutdown", None, |_| {});
            connection.drain();
        }
        Some("exit") => {
            server.log.event(Level::Info, "exit", None, |_| {});
            return Handled::Exit(None);
        }
        Some("tools/call") => {}
        Some(name) if METHODS.iter().any(|known| known.name == name) => {}
        name => method_not_found(server, name, None),
    }
    Handled::Silent
}

fn method_not_found(server: &Server, name: Option<&str>, id: Option<&Id>) {
    let id = id.map(Id::plain);
    server
        .log
        .event(Level::Warn, "method_not_found", id.as_deref(), |fields| {
            fields.maybe("method", name.map(bounded).as_deref());
        });
}

/// A name from outside, short enough for a log line.
fn bounded(name: &str) -> Cow<'_, str> {
    const NAME_BYTES_MAX: usize = 256;
    match name.len() <= NAME_BYTES_MAX {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("{}…", crate::profile::prefix(name, NAME_BYTES_MAX))),
    }
}

fn cancelled(server: &Arc<Server>, connection: &Arc<Connection>, params: Option<Json<'_>>) {
    let Some(id) = params
        .and_then(|params| params.get("requestId"))
        .map(Id::from_json)
    else {
        server
            .log
            .event(Level::Debug, "cancelled_unknown", None, |_| {});
        return;
    };
    server.log.event(
        Level::Debug,
        "notifications_cancelled",
        Some(&id.plain()),
        |_| {},
    );
    match connection.cancel(&id) {
        None => server
            .log
            .event(Level::Debug, "cancelled_unknown", Some(&id.plain()), |_| {}),
        Some(answer) => {
            server.log.event(
                Level::Info,
                "cancelled_in_flight",
                Some(&id.plain()),
                |_| {},
            );
            answer_cancelled(server, connection, id, answer);
        }
    }
}

/// Uses the answer of a cancelled call: over HTTP somebody waits for it, on stdio nobody does.
pub fn answer_cancelled(server: &Server, connection: &Connection, id: Id, answer: Answer) {
    if matches!(connection.transport, Transport::Http { .. }) {
        let reply = ToolReply::new(
            Refusal::Cancelled.payload(),
            View::Profile(server.settings.profile),
        );
        answer(server.redactor.scrub(Reply::tool(id, Era::Session, reply)));
    }
}

fn initialize(scene: &Scene<'_>) -> Result<Reply, RpcError> {
    let wanted = scene
        .params
        .and_then(|params| params.get("protocolVersion"))
        .and_then(Json::as_str);
    let revision = scene.connection.negotiate(wanted.as_deref());
    scene
        .server
        .log
        .event(Level::Info, "initialize", Some(&scene.id.plain()), |_| {});
    let result = format!(
        "{{\"capabilities\":{{\"tools\":{{\"listChanged\":false}}}},\"protocolVersion\":\"{revision}\",\"serverInfo\":{}}}",
        Server::info_json()
    );
    Ok(own_result(scene.server, scene.id.clone(), result))
}

fn ping(scene: &Scene<'_>) -> Result<Reply, RpcError> {
    Ok(own_result(scene.server, scene.id.clone(), "{}".into()))
}

fn shutdown(scene: &Scene<'_>) -> Result<Reply, RpcError> {
    scene
        .server
        .log
        .event(Level::Info, "shutdown", Some(&scene.id.plain()), |_| {});
    scene.connection.drain();
    Ok(null_result(scene.server, scene.id.clone()))
}

fn tools_list(scene: &Scene<'_>) -> Result<Reply, RpcError> {
    scene
        .server
        .log
        .event(Level::Debug, "tools_list", Some(&scene.id.plain()), |_| {});
    Ok(Reply::json(scene.id.clone(), scene.server.tools_list()))
}

fn null_result(server: &Server, id: Id) -> Reply {
    own_result(server, id, "null".into())
}

/// A result in the server's own words, with nothing from outside in it.
fn own_result(_: &Server, id: Id, json: String) -> Reply {
    Reply::json(id, Arc::new(ptc_secrets::Redactor::empty().scrub(json)))
}

/// `tools/call`: refusals at once, programs on their threads.
fn tools_call(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    id: Id,
    params: Option<Json<'_>>,
    answer: impl FnOnce() -> Answer,
) -> Handled {
    let Some(params) = params.filter(|params| params.kind() == Kind::Object) else {
        return Handled::Now(Reply::error(Some(id), RpcError::INVALID_PARAMS));
    };
    let era = Era::Session;
    let name = params
        .get("name")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let tool = tools::find(server, &name);
    let view = tool.map_or(View::Mirrored, |tool| tool.view(server));
    let refuse = |refusal: Refusal| {
        Handled::Now(Reply::tool(
            id.clone(),
            era,
            ToolReply::new(refusal.payload(), view),
        ))
    };
    if connection.is_draining() {
        server.log.event(
            Level::Info,
            "tools_call_rejected_shutting_down",
            Some(&id.plain()),
            |_| {},
        );
        return refuse(Refusal::ShuttingDown);
    }
    started(server, &id, &name);
    let Some(tool) = tool else {
        stopped(server, &id, true, None);
        return refuse(Refusal::UnknownTool {
            name: name.into_owned(),
            known: tools::listed(server).map(|tool| tool.name).collect(),
        });
    };
    let request = Request {
        server,
        connection,
        id: &id,
        arguments: params.get("arguments"),
    };
    match tool.run {
        Run::Now(run) => {
            let reply = run(&request);
            stopped(server, &id, reply.is_error(), None);
            Handled::Now(Reply::tool(id, era, reply))
        }
        Run::Program(prepare) => match prepare(&request) {
            Err(reply) => {
                stopped(server, &id, reply.is_error(), None);
                Handled::Now(Reply::tool(id, era, reply))
            }
            Ok(work) => admit(server, connection, id, era, tool, work, answer()),
        },
    }
}

/// Takes a prepared program in and hands it to a thread, or says why not.
fn admit(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    id: Id,
    era: Era,
    tool: &'static Tool,
    work: Work,
    answer: Answer,
) -> Handled {
    let call = match connection.admit(id.clone(), answer, &server.gate) {
        Ok(call) => call,
        Err((NotAdmitted::Duplicate, _)) => {
            server.log.event(
                Level::Warn,
                "duplicate_request_id",
                Some(&id.plain()),
                |_| {},
            );
            let shown = if id.is_null() { "nil" } else { id.as_json() };
            let message = format!("Invalid Request: id {shown} is already in flight");
            let error = RpcError {
                message: message.into(),
                ..RpcError::INVALID_REQUEST
            };
            return Handled::Now(Reply::error(Some(id), error));
        }
        Err((NotAdmitted::Full(cap), _)) => {
            stopped(server, &id, true, Some("busy"));
            let reply = ToolReply::new(Refusal::Busy { cap }.payload(), tool.view(server));
            return Handled::Now(Reply::tool(id, era, reply));
        }
    };
    let (server_of_job, connection_of_job, call_of_job) =
        (server.clone(), connection.clone(), call.clone());
    let job = Box::new(move || run(&server_of_job, &connection_of_job, &call_of_job, era, work));
    if server.pool.run(job).is_err() {
        connection.finish(&call, || {
            server
                .redactor
                .scrub(Reply::error(Some(id), RpcError::INTERNAL))
        });
    }
    Handled::Later
}

/// On a thread of the pool: runs the program and answers its call.
fn run(server: &Arc<Server>, connection: &Arc<Connection>, call: &Arc<Call>, era: Era, work: Work) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(call)));
    let id = call.id.clone();
    let reply = match outcome {
        Ok(reply) => {
            if !call.is_cancelled() {
                stopped(server, &id, reply.is_error(), None);
            }
            Reply::tool(id, era, reply)
        }
        Err(_) => {
            server
                .log
                .event(Level::Error, "worker_raise", Some(&id.plain()), |_| {});
            Reply::error(Some(id), RpcError::INTERNAL)
        }
    };
    connection.finish(call, || server.redactor.scrub(reply));
}

fn started(server: &Server, id: &Id, tool: &str) {
    server.log.event(
        Level::Info,
        "tools_call_start",
        log_id(id).as_deref(),
        |fields| {
            fields.text("tool", &bounded(tool));
        },
    );
}

fn stopped(server: &Server, id: &Id, is_error: bool, reason: Option<&str>) {
    server.log.event(
        Level::Info,
        "tools_call_stop",
        log_id(id).as_deref(),
        |fields| {
            fields.flag("is_error", is_error);
            if let Some(reason) = reason {
                fields.text("reason", reason);
            }
        },
    );
}

fn log_id(id: &Id) -> Option<Cow<'_, str>> {
    (!id.is_null()).then(|| id.plain())
}

/// Revisions that `initialize` knows, for those who list them.
pub const fn session_revisions() -> &'static [&'static str] {
    &SESSION_REVISIONS
}
