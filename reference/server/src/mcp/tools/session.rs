//! The six `lisp_session_*` tools: their arguments, replies and entries. Sessions themselves are in `sessions`.

use super::argument::{self, Argument, ArgumentFault, Shape};
use super::program::{self, ProgramContext};
use super::{NotReady, PreparedCall, ToolOutcome, card};
use crate::call::Call;
use crate::evaluation::{self, OutputSchema, ProgramRun, TurnOutcome};
use crate::mcp::connection::{Connection, Transport};
use crate::mcp::dispatch;
use crate::render::profile::{self, View};
use crate::render::reason::{Refusal, SessionReason};
use crate::render::redact;
use crate::render::reply::ToolReply;
use crate::sessions::{ForgetTarget, Session, SessionError, Sessions, Turn, view};
use crate::settings::ResponseProfile;
use ptc_protocol::members::schema::{self, Member, ObjectSchema};
use ptc_protocol::members::{
    Failure, SessionClosed, SessionForgotten, SessionList, SessionStarted, SessionView, Success,
    Truncated, ValidatedPreview,
};
use ptc_protocol::{Field, Payload, Word};
use ptc_rpc::{Id, Json, JsonKind, JsonText};
use ptc_upstream::Runtime;
use std::borrow::Cow;
use std::sync::Arc;

const SESSION_ID: Argument = Argument::required("session_id", Shape::Text, "");
const START: &[Argument] = &[
    Argument::optional("title", Shape::Text, ""),
    Argument::optional("ttl_ms", Shape::Integer { max: None }, ""),
];
const INSPECT: &[Argument] = &[
    SESSION_ID,
    Argument::optional("view", Shape::Word(|| view::names().collect()), ""),
];
const FORGET: &[Argument] = &[
    SESSION_ID,
    Argument::optional("bindings", Shape::List(&Shape::Text), ""),
    Argument::optional(
        "clear",
        Shape::List(&Shape::Word(|| {
            ForgetTarget::ALL.map(|(word, _)| word).to_vec()
        })),
        "",
    ),
];
const CLOSE: &[Argument] = &[SESSION_ID, Argument::optional("reason", Shape::Text, "")];
const EVAL: &[Argument] = &[
    SESSION_ID,
    Argument::required("program", Shape::Text, ""),
    Argument::optional("context", Shape::Object, ""),
    program::schema_argument(
        "Optional JSON Schema that the returned value must match; on a mismatch the eval is rejected and nothing is kept.",
    ),
];

/// A call of a session tool, and what it may use.
pub struct SessionCall<'a> {
    pub sessions: &'a Arc<Sessions>,
    pub programs: &'a ProgramContext,
    pub connection: &'a Arc<Connection>,
    /// The key that identifies the call while it is in flight.
    pub key: &'a Id,
    pub arguments: Option<Json<'a>>,
}

/// Why a session tool failed.
enum ToolError {
    /// An argument is wrong.
    Arguments(String),
    /// Sessions are disabled on this server.
    Disabled,
    /// The session cannot be used.
    Session(SessionError),
    /// The session cannot be used, and the reply names it.
    Named(SessionError, String),
    /// The connection is shutting down.
    Draining,
    /// Rendering the session's content takes more time or memory than a program may use.
    Limited(Box<Failure>),
}

const DISABLED: &str = "stateful PTC-Lisp sessions are disabled; start the server with --sessions or PTC_RUNNER_MCP_SESSIONS=true";

impl ToolError {
    fn failure(self) -> Failure {
        match self {
            ToolError::Arguments(message) => Failure::new(SessionReason::Arguments.name(), message),
            ToolError::Disabled => Failure::new(SessionReason::Disabled.name(), DISABLED),
            ToolError::Session(refused) => Failure::new(refused.reason().name(), refused.message()),
            ToolError::Named(refused, id) => Failure {
                session_id: Some(id),
                ..ToolError::Session(refused).failure()
            },
            ToolError::Draining => Refusal::ShuttingDown.failure(),
            ToolError::Limited(failure) => *failure,
        }
    }
}

impl From<SessionError> for ToolError {
    fn from(refused: SessionError) -> Self {
        ToolError::Session(refused)
    }
}

impl From<ArgumentFault> for ToolError {
    fn from(fault: ArgumentFault) -> Self {
        ToolError::Arguments(fault.to_string())
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Arguments(message.into()))
}

fn mirrored<T: Into<Payload>>(outcome: Result<T, ToolError>) -> ToolReply {
    let payload = outcome.map_or_else(|error| error.failure().into(), Into::into);
    ToolReply::new(payload, View::Mirrored)
}

/// Bytes of the longest title: it is kept as long as its session, and listed with it.
const TITLE_BYTES_MAX: usize = 4 << 10;
/// Bytes of the longest reason for closing a session: it is repeated twice.
const REASON_BYTES_MAX: usize = 4 << 10;

/// `lisp_session_start`
pub fn start(call: &SessionCall<'_>) -> ToolReply {
    mirrored((|| {
        let arguments = arguments_object(call)?;
        if let Some(unknown) = first_unknown(arguments, START) {
            // Any name may come, of any length.
            let shown = dispatch::scrub_and_truncate(&call.programs.programs.redactor, &unknown);
            return invalid(format!("unexpected lisp_session_start argument: {shown}"));
        }
        check_enabled(call)?;
        let title = arguments
            .get("title")
            .and_then(Json::as_str)
            .filter(|title| !title.is_empty());
        if title
            .as_ref()
            .is_some_and(|title| title.len() > TITLE_BYTES_MAX)
        {
            return invalid(format!("title exceeds {TITLE_BYTES_MAX} bytes"));
        }
        let ttl_ms = arguments
            .get("ttl_ms")
            .and_then(Json::as_i64)
            .and_then(|ms| u64::try_from(ms).ok());
        let sessions = call.sessions;
        let session = sessions.start(
            &call.connection.owner,
            title.map(Cow::into_owned),
            ttl_ms.filter(|ms| *ms > 0),
        )?;
        Ok(SessionStarted {
            expires_at: session.expires_at(),
            limits: sessions.limits(),
            session_id: Word(session.id.clone()),
        })
    })())
}

/// `lisp_session_list`
pub fn list(call: &SessionCall<'_>) -> ToolReply {
    mirrored((|| {
        let arguments = arguments_object(call)?;
        if arguments.members().next().is_some() {
            return invalid("lisp_session_list takes no arguments");
        }
        check_enabled(call)?;
        let own = call.sessions.list(&call.connection.owner)?;
        Ok(SessionList {
            count: own.len(),
            sessions: own.iter().map(|session| session.summary()).collect(),
        })
    })())
}

/// `lisp_session_inspect`
pub fn inspect(call: &SessionCall<'_>) -> ToolReply {
    mirrored((|| {
        let arguments = arguments_object(call)?;
        let session = session(call, arguments)?;
        let wanted = arguments
            .get("view")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let (sessions, programs) = (call.sessions, &call.programs.programs);
        let reply = evaluation::within_limits(programs, |watch| {
            view::inspect(sessions, &session, &wanted, &programs.redactor, watch)
        });
        session.touch();
        reply.map_err(ToolError::Limited)
    })())
}

/// `lisp_session_forget`
pub fn forget(call: &SessionCall<'_>) -> ToolReply {
    mirrored((|| {
        let arguments = arguments_object(call)?;
        let bindings = bindings(arguments.get("bindings"))?;
        let clear = clear(arguments.get("clear"))?;
        let id = session_id(call, arguments)?;
        let (session, removed) = call
            .sessions
            .forget(&id, &call.connection.owner, &bindings, &clear)
            .map_err(|refused| with_session_id(refused, &id))?;
        let words = clear
            .iter()
            .filter_map(|target| clear_name(*target))
            .collect();
        Ok(SessionForgotten {
            cleared: words,
            removed_bindings: removed,
            session_id: Word(session.id.clone()),
            stored_keys: view::stored_keys(&session),
            usage: view::usage(&session),
        })
    })())
}

fn clear_name(target: ForgetTarget) -> Option<&'static str> {
    ForgetTarget::ALL
        .iter()
        .find(|(_, clear)| *clear == target)
        .map(|(word, _)| *word)
}

/// `lisp_session_close`
pub fn close(call: &SessionCall<'_>) -> ToolReply {
    mirrored((|| {
        let arguments = arguments_object(call)?;
        let reason = match arguments.get("reason") {
            None => "closed".to_owned(),
            Some(reason) => match (reason.kind(), reason.as_str()) {
                (JsonKind::Null, _) => "closed".to_owned(),
                (_, Some(text)) => text.into_owned(),
                (JsonKind::Object | JsonKind::Array, _) => {
                    return invalid("reason must be a string");
                }
                _ => redact::compact(reason, &call.programs.programs.redactor).into(),
            },
        };
        if reason.len() > REASON_BYTES_MAX {
            return invalid(format!("reason exceeds {REASON_BYTES_MAX} bytes"));
        }
        let id = session_id(call, arguments)?;
        let sessions = call.sessions;
        sessions.close(&id, &call.connection.owner)?;
        Ok(SessionClosed {
            closed: true,
            reason,
            session_id: Word(id.into_owned()),
        })
    })())
}

/// `lisp_session_eval`: validates the arguments and begins a turn.
pub fn prepare(call: &SessionCall<'_>) -> Result<PreparedCall, NotReady> {
    let profile = call.programs.profile;
    let view = View::Profile(profile);
    let refuse = move |error: ToolError| ToolReply::new(error.failure().into(), view);
    let EvalArguments {
        session,
        program,
        context,
        schema,
    } = validate(call).map_err(refuse)?;
    if call.connection.is_in_flight(call.key) {
        return Err(NotReady::Duplicate);
    }
    let turn = begin(call, &session).map_err(refuse)?;
    let stdio = call.connection.transport == Transport::Stdio;
    let turn = Arc::new(turn);
    let began = Arc::clone(&turn);
    let (sessions, programs) = (call.sessions.clone(), call.programs.programs.clone());
    let (connection, redactor) = (call.connection.clone(), programs.redactor.clone());
    let run = move |call: &Arc<Call>| {
        let refused = |refused: SessionError| refuse(ToolError::Session(refused));
        if let Err(unreadable) = turn.restore() {
            return ToolOutcome::of(refused(unreadable));
        }
        let job = ProgramRun {
            program: &program,
            context: context.json(),
            schema: schema.as_ref(),
            room: profile::room(profile),
            programs: &programs,
            call,
        };
        match evaluation::run_in_session(&job, &sessions, &turn) {
            TurnOutcome::Kept { payload, checked } => {
                let encoded = match turn.encode(*checked) {
                    Ok(encoded) => encoded,
                    Err(unkept) => return ToolOutcome::of(refused(unkept)),
                };
                let stored = changed_keys(&payload).map(|keys| format!("stored: {keys}"));
                let suffix = suffix([stored, upstream_calls(&payload, view)]);
                let reply = ToolReply {
                    suffix,
                    ..ToolReply::new(payload, view)
                };
                ToolOutcome {
                    reply: Some(reply),
                    commit: Some(Box::new(move || {
                        let lost = turn.commit(encoded).err()?;
                        Some(refuse(ToolError::Session(lost)))
                    })),
                }
            }
            TurnOutcome::Failed(payload) => {
                // Nothing was kept, so the summary is still correct.
                let payload = payload.with("session", turn.session.summary_idle());
                let suffix = suffix([
                    Some("rolled back".to_owned()),
                    upstream_calls(&payload, view),
                ]);
                let reply = ToolReply {
                    suffix,
                    ..ToolReply::new(payload, view)
                };
                ToolOutcome::of(reply)
            }
            TurnOutcome::Cancelled if stdio => ToolOutcome {
                reply: None,
                commit: None,
            },
            TurnOutcome::Cancelled => {
                ToolOutcome::of(ToolReply::new(Refusal::Cancelled.payload(), view))
            }
        }
    };
    Ok(PreparedCall {
        // A program that waits for a thread can be cancelled like a running one.
        admitted: Some(Box::new(move |call| {
            began.attach_call(call);
            let call = call.clone();
            began.on_close(move || {
                if let Some(answer) = connection.cancel_call(&call) {
                    dispatch::answer_cancelled(&redactor, &connection, &call, answer);
                }
            });
        })),
        run: Box::new(run),
    })
}

/// The last line of a text: its parts in brackets.
fn suffix(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("[{}]", parts.join("; ")))
}

/// The number of upstream calls of the turn, for profiles where the client gets only text.
fn upstream_calls(payload: &Payload, view: View) -> Option<String> {
    match payload.get("upstream_calls") {
        Some(Field::List(calls)) if view == View::Profile(ResponseProfile::Slim) => {
            Some(format!("turn upstream calls: {}", calls.len()))
        }
        _ => None,
    }
}

/// The validated arguments of `lisp_session_eval`.
struct EvalArguments {
    session: String,
    program: String,
    context: JsonText,
    schema: Option<OutputSchema>,
}

fn validate(call: &SessionCall<'_>) -> Result<EvalArguments, ToolError> {
    let limits = call.programs.limits;
    let arguments = call
        .arguments
        .filter(|arguments| arguments.kind() == JsonKind::Object)
        .unwrap_or(Json::EMPTY_OBJECT);
    let id = arguments
        .get("session_id")
        .and_then(Json::as_str)
        .filter(|id| !id.is_empty());
    let Some(id) = id else {
        return invalid("session_id must be a non-empty string");
    };
    let program = arguments
        .get("program")
        .and_then(Json::as_str)
        .filter(|program| !program.is_empty());
    let Some(program) = program else {
        return invalid("program must be a non-empty string");
    };
    if program.len() > limits.program_bytes {
        return invalid("program exceeds max_program_bytes");
    }
    let given = arguments.get("context").unwrap_or(Json::EMPTY_OBJECT);
    if given.kind() != JsonKind::Object {
        return invalid("context must be an object when supplied");
    }
    let Ok((context, bad_key)) = program::compact_context(given, limits.context_bytes) else {
        return invalid("context exceeds max_context_bytes");
    };
    match bad_key.as_deref() {
        None => {}
        Some("") => return invalid("context keys must be non-empty"),
        Some(_) => return invalid("context keys may not contain `/`"),
    }
    program::no_signature(arguments)?;
    let schema = program::output_schema(arguments)?;
    let schema = OutputSchema::read(schema.as_deref()).map_err(ArgumentFault::from)?;
    Ok(EvalArguments {
        session: id.into_owned(),
        program: program.into_owned(),
        context,
        schema,
    })
}

/// Begins a turn in the session `id`, if its state allows one.
fn begin(call: &SessionCall<'_>, id: &str) -> Result<Turn, ToolError> {
    check_enabled(call)?;
    let connection = call.connection;
    let begun = call
        .sessions
        .begin(id, &connection.owner, connection.protocol_owner());
    begun.map_err(|refused| match refused {
        // Another node received the request to shut down.
        SessionError::Draining => {
            connection.drain();
            ToolError::Draining
        }
        refused => with_session_id(refused, id),
    })
}

/// A busy session exists, so the reply names it.
fn with_session_id(refused: SessionError, id: &str) -> ToolError {
    match refused {
        SessionError::Busy => ToolError::Named(refused, id.to_owned()),
        _ => ToolError::Session(refused),
    }
}

/// The changed names of a reply, joined; `None` when there are none.
fn changed_keys(payload: &Payload) -> Option<String> {
    let Some(Field::Object(memory)) = payload.get("memory") else {
        return None;
    };
    let Some(Field::List(keys)) = memory.get("changed_keys") else {
        return None;
    };
    let names: Vec<&str> = keys.iter().filter_map(Field::as_text).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn arguments_object<'a>(call: &SessionCall<'a>) -> Result<Json<'a>, ToolError> {
    match call.arguments {
        None => Ok(Json::EMPTY_OBJECT),
        Some(arguments) if arguments.kind() == JsonKind::Object => Ok(arguments),
        Some(_) => invalid("arguments must be an object"),
    }
}

fn check_enabled(call: &SessionCall<'_>) -> Result<(), ToolError> {
    match call.sessions.are_enabled() {
        true => Ok(()),
        false => Err(ToolError::Disabled),
    }
}

fn session(call: &SessionCall<'_>, arguments: Json<'_>) -> Result<Arc<Session>, ToolError> {
    let id = session_id(call, arguments)?;
    let sessions = call.sessions;
    Ok(sessions.find(&id, &call.connection.owner)?)
}

fn session_id<'a>(call: &SessionCall<'_>, arguments: Json<'a>) -> Result<Cow<'a, str>, ToolError> {
    let Some(id) = arguments.get("session_id").and_then(Json::as_str) else {
        return invalid("session_id must be a non-empty string");
    };
    check_enabled(call)?;
    Ok(id)
}

fn first_unknown(arguments: Json<'_>, known: &[Argument]) -> Option<String> {
    let names = arguments.members().filter_map(|(name, _)| name.as_str());
    names
        .filter(|name| !known.iter().any(|argument| argument.name == name.as_ref()))
        .min()
        .map(Cow::into_owned)
}

fn bindings(value: Option<Json<'_>>) -> Result<Vec<String>, ToolError> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    match value.kind() {
        JsonKind::Null => Ok(Vec::new()),
        JsonKind::Array => value.elements().map(binding).collect(),
        _ => Ok(vec![binding(value)?]),
    }
}

fn binding(value: Json<'_>) -> Result<String, ToolError> {
    match value.kind() {
        JsonKind::Object | JsonKind::Array => invalid("bindings must be names"),
        _ => Ok(value
            .as_str()
            .map_or_else(|| value.compact().into(), Cow::into_owned)),
    }
}

fn clear(value: Option<Json<'_>>) -> Result<Vec<ForgetTarget>, ToolError> {
    let invalid = || ToolError::Arguments("invalid clear target".into());
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    if value.kind() != JsonKind::Array {
        return Err(invalid());
    }
    let mut targets = Vec::new();
    for target in value.elements() {
        let word = target.as_str();
        let target = word.and_then(|word| ForgetTarget::from_word(&word));
        let target = target.ok_or_else(invalid)?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Ok(targets)
}

/// One sentence for each tool; `lisp_session_eval` has a longer description.
pub fn start_entry() -> Payload {
    entry(
        "Create an empty stateful PTC-Lisp session; pass its `session_id` to `lisp_session_eval`.",
        argument::schema(START, true),
        &["status", "session_id"],
    )
}

pub fn list_entry() -> Payload {
    entry(
        "List your live sessions without showing any stored value.",
        argument::schema(&[], true),
        &["status", "count", "sessions"],
    )
}

pub fn inspect_entry() -> Payload {
    entry(
        "Show a compact view of one session: definitions, prints, calls, results or limits.",
        argument::schema(INSPECT, false),
        &["status", "session_id", "session"],
    )
}

pub fn forget_entry() -> Payload {
    entry(
        "Remove definitions of a session by name, or clear its histories.",
        argument::schema(FORGET, false),
        &["status", "session_id"],
    )
}

pub fn close_entry() -> Payload {
    entry(
        "Close a session and delete what it holds.",
        argument::schema(CLOSE, false),
        &["status", "session_id", "closed"],
    )
}

pub fn eval_entry(profile: ResponseProfile, upstreams: Option<&Runtime>) -> Payload {
    let mut entry = entry(
        card::session_eval(profile, upstreams),
        argument::schema(EVAL, true),
        &["status"],
    );
    if profile == ResponseProfile::Slim {
        entry.remove("outputSchema");
    }
    entry
}

/// Members of answers that the output schema leaves to `additionalProperties`.
const UNDESCRIBED: &[&str] = &[
    "cleared",
    "detail",
    "expires_at",
    "history",
    "history_notices",
    "removed_bindings",
    "stored_keys",
    "tool_calls",
    "top_bindings",
    "upstream_calls",
    "usage",
    "view",
];

/// Every answer of these tools; the schemas of all of them describe the same members.
fn answer() -> ObjectSchema {
    const ANSWERS: &[&[Member]] = &[
        SessionStarted::MEMBERS,
        SessionList::MEMBERS,
        SessionView::MEMBERS,
        SessionForgotten::MEMBERS,
        SessionClosed::MEMBERS,
        Failure::MEMBERS,
        Success::MEMBERS,
        Truncated::MEMBERS,
        ValidatedPreview::MEMBERS,
    ];
    ObjectSchema::of(&ANSWERS.concat())
        .without(UNDESCRIBED)
        .described("prints", schema::of_type("array"))
        .described("sessions", schema::of_type("array"))
}

/// An entry whose output schema requires `required` on success. A reply that the envelope guard truncated satisfies it, too.
fn entry(description: impl Into<Field>, input: Field, required: &[&'static str]) -> Payload {
    let branch = |status: &'static str, required: &[&'static str]| {
        answer()
            .described("status", schema::constant(status))
            .requiring(required)
            .into_payload()
            .with("additionalProperties", true)
    };
    let success = branch("ok", required);
    let error = branch("error", &["status", "reason", "message"]);
    Payload::new()
        .with("description", description)
        .with("inputSchema", input)
        .with("outputSchema", schema::one_of(vec![success, error]))
}
