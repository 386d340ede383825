//! Observes a call from its arrival to its reply, for the ring, the traces, and layers that take its span. Costs nothing without
//! observers.

use crate::clock;
use crate::diagnostics::record::{CallInfo, ContextText, Ring};
use crate::diagnostics::trace::{Trace, Tracer};
use crate::executor;
use ptc_agent::PlannerRequest;
use ptc_protocol::Payload;
use ptc_rpc::{Id, Json, JsonKind};
use ptc_secrets::{Redactor, SCRUB_TIME_MAX, SharedTime};
use ptc_upstream::TraceContext;
use std::time::Instant;
use tracing::Span;
use tracing::field::Empty;

/// The observers of calls.
#[derive(Default)]
pub struct Observers {
    /// The ring behind `lisp_debug`.
    pub ring: Option<Ring>,
    pub tracer: Option<Tracer>,
    pub redactor: Redactor,
    /// Whether programs can call upstreams.
    pub aggregator: bool,
    /// Whether traces contain the planner's prompts.
    pub prompts: bool,
}

/// The caller of a tool.
pub struct Caller<'a> {
    pub id: &'a Id,
    /// The revision that the client speaks.
    pub revision: &'static str,
    /// Over HTTP: `X-Request-Id`.
    pub request_id: Option<&'a str>,
    /// Over HTTP: `owner_hash`, `mcp_session_hash`.
    pub http: Option<(&'a str, &'a str)>,
}

/// The name of a call's span. The span contains names and outcomes, never programs or values.
pub const CALL_SPAN: &str = "tools/call";

/// The fields of a call's span that have a meaning beyond an attribute.
pub mod call {
    pub use ptc_upstream::span::{ERROR, TOOL};
    /// Recorded when the call is answered.
    pub const STATUS: &str = "otel.status_code";
    pub const PARENT: &str = "trace.parent";
    pub const STATE: &str = "trace.state";
}

/// The tool that a call names.
#[derive(Clone, Copy)]
pub struct CalledTool<'a> {
    /// The name, as called.
    pub name: &'a str,
    /// The tool's own name, if there is such a tool.
    pub known: Option<&'static str>,
}

/// A call that is being observed.
pub struct Observed {
    info: CallInfo,
    span: Span,
    trace: Option<Trace>,
    executing: Option<Instant>,
}

/// How a call ended, as far as it matters to observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    Ran,
    /// A tool answered at once.
    Answered,
    /// It was refused before anything ran: recorded in the ring, but not traced.
    Refused,
    /// There is no such tool: traced, but not recorded in the ring.
    Unknown,
}

/// A tool whose calls are not observed, because it shows the observations.
const UNOBSERVED: &str = "lisp_debug";

impl Observed {
    /// The span of the call.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl Observers {
    /// Begins to observe a call; `None` when there is no observer.
    pub fn observe(
        &self,
        caller: &Caller<'_>,
        tool: CalledTool<'_>,
        arguments: Option<Json<'_>>,
        trace: Option<&TraceContext>,
    ) -> Option<Box<Observed>> {
        if tool.name == UNOBSERVED {
            return None;
        }
        let span = span(caller, tool.name, trace);
        if span.is_disabled() && self.ring.is_none() && self.tracer.is_none() {
            return None;
        }
        let arguments = arguments.filter(|arguments| arguments.kind() == JsonKind::Object);
        let argument = |name: &str| arguments.and_then(|arguments| arguments.get(name));
        let id = caller.id;
        let time = SharedTime::new(SCRUB_TIME_MAX);
        let context = argument("context").filter(|context| context.kind() == JsonKind::Object);
        let info = CallInfo {
            id: (!id.is_null()).then(|| id.plain().into_owned()),
            tool: tool.name.to_owned(),
            known: tool.known,
            revision: caller.revision,
            started: Instant::now(),
            started_micros: clock::now_micros(),
            program: argument("program").and_then(Json::as_str).map(Into::into),
            context: context.map(|context| {
                let scrub = |redactor: &Redactor| ContextText::of(context, redactor);
                let scrub = || time.spend(&self.redactor, scrub);
                executor::for_text(context.text(), scrub)
            }),
            trace: trace.cloned(),
            transport_request_id: caller.request_id.map(Into::into),
            transport: caller
                .http
                .map(|(owner, session)| (owner.into(), session.into())),
            time,
        };
        Some(Box::new(Observed {
            info,
            span,
            trace: None,
            executing: None,
        }))
    }

    /// A program of the call begins to run. Returns the id of its trace, if it is traced.
    pub fn executing(&self, observed: &mut Observed) -> Option<String> {
        observed.executing = Some(Instant::now());
        let tracer = self.tracer.as_ref()?;
        let mut trace = tracer.begin(&observed.info);
        tracer.executing(&mut trace, &observed.info, self.aggregator);
        let id = trace.id().to_owned();
        observed.trace = Some(trace);
        Some(id)
    }

    /// A planner got these `requests` while the call ran.
    pub fn planned(&self, observed: &mut Observed, requests: &[PlannerRequest]) {
        if let (Some(tracer), Some(trace)) = (&self.tracer, &mut observed.trace) {
            tracer.planned(trace, requests, self.prompts);
        }
    }

    /// The call is answered with `payload`, in full.
    pub fn ended(&self, mut observed: Box<Observed>, payload: &Payload, ending: CallEnd) {
        let info = &observed.info;
        if let (Some(ring), true) = (&self.ring, ending != CallEnd::Unknown) {
            info.time.spend(&self.redactor, |redactor| {
                ring.record(info, payload, ending == CallEnd::Ran, redactor);
            });
        }
        let is_error = payload.text("status") == Some("error");
        let reason = payload.text("reason").filter(|_| is_error);
        if let Some(reason) = reason {
            observed.span.record(call::ERROR, reason);
        }
        let status = if reason.is_some() { "ERROR" } else { "OK" };
        observed.span.record(call::STATUS, status);
        let Some(tracer) = self.tracer.as_ref().filter(|_| ending != CallEnd::Refused) else {
            return;
        };
        let mut trace = observed.trace.take().unwrap_or_else(|| tracer.begin(info));
        if let Some(since) = observed.executing {
            tracer.executed(&mut trace, info, self.aggregator, since.elapsed(), payload);
        }
        tracer.end(trace, info, payload);
    }

    /// The call was cancelled, or failed without a reply.
    pub fn abandoned(&self, mut observed: Box<Observed>) {
        if let (Some(tracer), Some(trace)) = (&self.tracer, observed.trace.take()) {
            tracer.abandon(trace);
        }
    }
}

/// The span of a call, disabled when no layer takes it.
fn span(caller: &Caller<'_>, tool: &str, trace: Option<&TraceContext>) -> Span {
    tracing::info_span!(
        CALL_SPAN,
        "mcp.method.name" = "tools/call",
        { call::TOOL } = tool,
        "mcp.protocol.version" = caller.revision,
        "jsonrpc.request.id" = (!caller.id.is_null()).then(|| caller.id.plain()).as_deref(),
        "network.transport" = match caller.http {
            Some(_) => "tcp",
            None => "pipe",
        },
        { call::ERROR } = Empty,
        { call::STATUS } = Empty,
        { call::PARENT } = trace.map(TraceContext::traceparent),
        { call::STATE } = trace.and_then(TraceContext::state),
    )
}
