//! `tools/call`: admits a call, runs and answers it, and records its end, whatever that is. Knows nothing of other methods, and of no
//! tool in particular.

use super::dispatch::{self, Handled};
use crate::admission::gate::GateClosed;
use crate::call::{Call, Responder};
use crate::diagnostics::counters::Counters;
use crate::diagnostics::log::text_or_null;
use crate::diagnostics::observe::{CallEnd, CalledTool, Caller, Observed};
use crate::evaluation::pool;
use crate::mcp::connection::{Arrival, Connection, NotAdmitted, RequestContext, Transport};
use crate::mcp::handler::Handler;
use crate::mcp::incoming::Incoming;
use crate::mcp::tools::{
    self, Execution, NotReady, PreparedCall, Tool, ToolJob, ToolOutcome, ToolRequest,
};
use crate::render::reason::Refusal;
use crate::render::redact;
use crate::render::reply::{Era, RefusalForm, Reply, ToolReply};
use ptc_protocol::Payload;
use ptc_rpc::{Id, Json, JsonKind, RpcError};
use ptc_secrets::{Redactor, SCRUB_TIME_MAX};
use ptc_upstream::TraceContext;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use tracing::Span;

/// The circumstances of a request.
pub struct CallContext<'a> {
    pub handler: &'a Arc<Handler>,
    pub connection: &'a Arc<Connection>,
    pub context: &'a RequestContext,
    /// Identifies the call while it is in flight.
    pub key: Id,
    pub id: Id,
    pub era: Era,
    /// The revision that the client speaks.
    pub revision: &'static str,
}

impl CallContext<'_> {
    fn caller(&self) -> Caller<'_> {
        Caller {
            id: &self.id,
            revision: self.revision,
            request_id: self.context.request_id.as_deref(),
            http: match &self.connection.transport {
                Transport::Stdio => None,
                Transport::Http {
                    owner_hash,
                    session_hash,
                } => Some((owner_hash, session_hash)),
            },
        }
    }
}

/// The trace context of a request: from its `_meta`, or else from its transport.
fn trace_context(meta: Option<Json<'_>>, context: &RequestContext) -> Option<TraceContext> {
    let text = |name: &str| meta?.get(name)?.as_str();
    text("traceparent")
        .and_then(|parent| TraceContext::new(&parent, text("tracestate").as_deref()))
        .or_else(|| context.trace.clone())
}

/// `tools/call`: refuses at once, and runs programs later.
pub fn tools_call(
    place: CallContext<'_>,
    incoming: &Incoming<'_>,
    answer: impl FnOnce() -> Responder,
) -> Handled {
    let CallContext {
        handler,
        connection,
        id,
        era,
        ..
    } = &place;
    let counters = handler.counters.as_deref();
    let params = incoming.frame.params.map(Json::kind);
    if params != Some(JsonKind::Object) {
        return Handled::Now(Reply::error(Some(place.id), RpcError::INVALID_PARAMS));
    }
    let arguments = incoming.members.arguments;
    let given = incoming.tool.as_deref();
    let name = given.unwrap_or_default();
    let tool = tools::find(&handler.tools, name);
    let form = match tool {
        Some(tool) => tool.refusal_form(handler.profile, *era),
        None => RefusalForm::of_no_tool(*era),
    };
    let reply = |reply: ToolReply| Handled::Now(Reply::tool(id.clone(), *era, reply));
    let refuse = |refusal: Refusal| Handled::Now(form.reply(id.clone(), &refusal));
    let since = Instant::now();
    // An unknown name may have any length, so it is logged and traced in part only.
    let shown = match tool {
        Some(tool) => Cow::Borrowed(tool.name),
        None => dispatch::scrub_and_truncate(&handler.redactor, name),
    };
    log_start(given.map(|_| shown.as_ref()));
    if connection.is_draining() && !place.context.arrived_in_time {
        tracing::info!(event = "tools_call_rejected_shutting_down");
        let tool = tool.map_or(UNKNOWN_TOOL, |tool| tool.name);
        count_refusal(counters, tool, &Refusal::ShuttingDown, since);
        return refuse(Refusal::ShuttingDown);
    }
    log_bodies(arguments, &handler.redactor);
    let observers = &handler.observers;
    let trace = trace_context(incoming.members.meta, place.context);
    let called = CalledTool {
        name: &shown,
        known: tools::names().find(|own| *own == name),
    };
    let observed = observers.observe(&place.caller(), called, arguments, trace.as_ref());
    let ended = |observed: Option<Box<Observed>>, payload: &Payload, ending: CallEnd| {
        if let Some(observed) = observed {
            observers.ended(observed, payload, ending);
        }
    };
    let Some(tool) = tool else {
        let refusal = Refusal::UnknownTool {
            name: shown.clone().into_owned(),
            known: tools::listed(&handler.tools)
                .map(|tool| tool.name)
                .collect(),
        };
        let payload = refusal.payload();
        record_stop(counters, UNKNOWN_TOOL, &payload, since, false);
        ended(observed, &payload, CallEnd::Unknown);
        return match era {
            Era::Session => refuse(refusal),
            // From 2026-07-28 on, an unknown tool is an error, not a result.
            Era::Stateless => Handled::Now(Reply::error(
                Some(place.id),
                RpcError {
                    message: format!("Unknown tool: {shown}").into(),
                    ..RpcError::INVALID_PARAMS
                },
            )),
        };
    };
    let request = ToolRequest {
        tools: &handler.tools,
        connection,
        id,
        era: *era,
        key: &place.key,
        arguments,
    };
    match tool.run {
        Execution::Now(run) => {
            let answered = run(&request);
            record_stop(counters, tool.name, &answered.payload, since, false);
            ended(observed, &answered.payload, CallEnd::Answered);
            reply(answered)
        }
        Execution::Program(prepare) => {
            let own;
            let arrival = match &place.context.arrival {
                Some(arrival) => arrival,
                None => {
                    own = connection.arrive(&place.key);
                    &own
                }
            };
            match prepare(&request) {
                Err(NotReady::Duplicate) => reject_duplicate(place.id),
                Err(NotReady::Refused(refusal)) => {
                    record_stop(counters, tool.name, &refusal.payload, since, false);
                    ended(observed, &refusal.observed_payload(), CallEnd::Refused);
                    reply(refusal)
                }
                Ok(work) => admit(&place, arrival, trace, tool, work, observed, answer()),
            }
        }
    }
}

/// Admits a prepared program, to be run by the thread that takes it, or refuses it.
fn admit(
    place: &CallContext<'_>,
    arrival: &Arrival,
    trace: Option<TraceContext>,
    tool: &'static Tool,
    work: PreparedCall,
    observed: Option<Box<Observed>>,
    answer: Responder,
) -> Handled {
    let CallContext {
        handler,
        connection,
        era,
        ..
    } = *place;
    let counters = handler.counters.as_deref();
    let id = place.id.clone();
    let form = tool.refusal_form(handler.profile, era);
    let call = match connection.admit(arrival, id.clone(), form, trace, answer, &handler.gate) {
        Ok(call) => call,
        Err((NotAdmitted::Duplicate, _)) => {
            return reject_duplicate(id);
        }
        Err((NotAdmitted::Cancelled, _)) => {
            count_refusal(counters, tool.name, &Refusal::Cancelled, Instant::now());
            if let Some(observed) = observed {
                handler.observers.abandoned(observed);
            }
            return match dispatch::cancelled_reply(connection, id, form) {
                Some(reply) => Handled::Now(reply),
                None => Handled::Silent,
            };
        }
        Err((NotAdmitted::GateClosed(shut), _)) => {
            let refusal = match shut {
                GateClosed::Full(cap) => Refusal::Busy { cap },
                GateClosed::Memory => Refusal::MemoryShort,
            };
            let reply = refuse(handler, tool, form, &refusal, observed);
            return Handled::Now(Reply::tool(id, era, reply));
        }
    };
    let PreparedCall {
        admitted,
        run: work,
    } = work;
    if let Some(counters) = handler.counters.clone() {
        let since = call.started;
        call.on_cancel(move || {
            count_refusal(Some(&counters), tool.name, &Refusal::Cancelled, since);
        });
    }
    if let Some(admitted) = admitted {
        admitted(&call);
    }
    // Until a thread takes the call.
    let admission = {
        let _call = observed.as_ref().map(|observed| observed.span().enter());
        tracing::info_span!("admission")
    };
    let admitted = Admitted {
        handler: handler.clone(),
        connection: connection.clone(),
        call: call.clone(),
        tool,
        span: Span::current(),
        waiting: Some((work, observed)),
    };
    let waits = call.clone();
    let job = pool::Job::voidable(
        move || waits.is_cancelled(),
        move || {
            drop(admission);
            run(admitted);
        },
    );
    Handled::Later(call, job)
}

/// Refuses a call whose id is already in flight.
fn reject_duplicate(id: Id) -> Handled {
    tracing::warn!(event = "duplicate_request_id");
    let shown = if id.is_null() { "nil" } else { id.as_json() };
    let error = RpcError {
        message: format!("Invalid Request: id {shown} is already in flight").into(),
        ..RpcError::INVALID_REQUEST
    };
    Handled::Now(Reply::error(Some(id), error))
}

/// Logs, counts and observes that a call that would run is refused, and returns its reply.
fn refuse(
    handler: &Handler,
    tool: &'static Tool,
    form: RefusalForm,
    refusal: &Refusal,
    observed: Option<Box<Observed>>,
) -> ToolReply {
    let reply = form.tool_reply(refusal);
    let counters = handler.counters.as_deref();
    record_stop(counters, tool.name, &reply.payload, Instant::now(), true);
    if let Some(observed) = observed {
        handler
            .observers
            .ended(observed, &reply.payload, CallEnd::Refused);
    }
    reply
}

/// An admitted call. If no thread runs it, or its thread fails, it is answered when this is dropped.
struct Admitted {
    handler: Arc<Handler>,
    connection: Arc<Connection>,
    call: Arc<Call>,
    tool: &'static Tool,
    /// The span of the request.
    span: Span,
    /// What is to be done; `None` once a thread does it.
    waiting: Option<(ToolJob, Option<Box<Observed>>)>,
}

/// The reason under which a call counts that was answered with an internal error.
const INTERNAL_ERROR: &str = "internal_error";

impl Drop for Admitted {
    fn drop(&mut self) {
        let Admitted {
            handler,
            call,
            tool,
            ..
        } = self;
        let mut waited = self.waiting.take().map(|(work, observed)| {
            // What the work holds, a session for example, is free before the answer.
            drop(work);
            observed
        });
        let id = call.id.clone();
        self.connection.finish(call, || {
            let reply = match waited.take() {
                Some(observed) => {
                    let form = call.refusal_form;
                    let reply = refuse(handler, tool, form, &Refusal::NoThread, observed);
                    Reply::tool(id, form.era, reply)
                }
                None => {
                    if let Some(counters) = &handler.counters {
                        let elapsed = call.started.elapsed();
                        counters.call(tool.name, INTERNAL_ERROR, elapsed);
                    }
                    Reply::error(Some(id), RpcError::INTERNAL)
                }
            };
            handler.redactor.scrub(reply)
        });
        // It was cancelled while it waited.
        if let Some(observed) = waited.flatten() {
            handler.observers.abandoned(observed);
        }
    }
}

/// Runs the program and answers its call, on a thread with a program's stack.
fn run(mut admitted: Admitted) {
    let Some((work, mut observed)) = admitted.waiting.take() else {
        return;
    };
    let Admitted {
        handler,
        connection,
        call,
        tool: Tool { name: tool, .. },
        span,
        ..
    } = &admitted;
    let _request = span.enter();
    let counters = handler.counters.as_deref();
    if let Some(observed) = &mut observed
        && let Some(trace_id) = handler.observers.executing(observed)
    {
        // A call runs once, so the cell is empty here.
        let _ = call.trace_id.set(trace_id);
    }
    let abandoned = |observed: Option<Box<Observed>>| {
        if let Some(observed) = observed {
            handler.observers.abandoned(observed);
        }
    };
    let outcome = {
        let _call = observed.as_ref().map(|observed| observed.span().enter());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(call)))
    };
    let id = call.id.clone();
    let Ok(ToolOutcome { reply, commit }) = outcome else {
        tracing::error!(event = "worker_raise");
        abandoned(observed);
        return;
    };
    let Some(reply) = reply else {
        drop(connection.cancel_call(call));
        abandoned(observed);
        return;
    };
    let mut followed = observed.take();
    connection.finish(call, || {
        // From here on the call cannot be cancelled any more.
        let reply = commit.and_then(|commit| commit()).unwrap_or(reply);
        let redactor = handler.redactor.with_time_limit(SCRUB_TIME_MAX);
        let reply = redactor.scrub(reply);
        if redactor.is_out_of_time() {
            tracing::warn!(event = "scrub_cut_short", tool);
        }
        record_stop(counters, tool, &reply.payload, call.started, false);
        if let Some(mut observed) = followed.take() {
            handler.observers.planned(&mut observed, &reply.planner);
            handler
                .observers
                .ended(observed, &reply.observed_payload(), CallEnd::Ran);
        }
        let era = call.refusal_form.era;
        handler.redactor.scrub(Reply::scrubbed(id, era, reply))
    });
    abandoned(followed);
}

fn log_start(tool: Option<&str>) {
    tracing::info!(event = "tools_call_start", tool = text_or_null(&tool));
}

/// Program and context are logged at `debug` only.
fn log_bodies(arguments: Option<Json<'_>>, redactor: &Redactor) {
    let argument = |name: &str| Some(redact::compact(arguments?.get(name)?, redactor));
    tracing::debug!(
        event = "tools_call_arguments",
        context = argument("context").as_ref().map(|json| json.as_bytes()),
        program = argument("program").as_ref().map(|json| json.as_bytes()),
    );
}

/// Logs and counts the end of a call of `tool` that was answered with `payload`. With `log_reason`, the log line has the reason, too.
fn record_stop(
    counters: Option<&Counters>,
    tool: &'static str,
    payload: &Payload,
    since: Instant,
    log_reason: bool,
) {
    let is_error = payload.text("status") == Some("error");
    let reason = payload.text("reason").filter(|_| is_error);
    if let Some(counters) = counters {
        counters.call(tool, reason.unwrap_or_default(), since.elapsed());
    }
    let reason = reason.filter(|_| log_reason);
    tracing::info!(event = "tools_call_stop", is_error, reason);
}

/// What counters call a tool that does not exist.
const UNKNOWN_TOOL: &str = "unknown";

/// Counts a call of `tool` that was refused.
fn count_refusal(
    counters: Option<&Counters>,
    tool: &'static str,
    refusal: &Refusal,
    since: Instant,
) {
    if let Some(counters) = counters {
        counters.call(tool, refusal.reason().name(), since.elapsed());
    }
}
