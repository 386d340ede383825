//! Follows a call from its arrival to its reply, for those who want to know: ring and traces. Costs nothing when nobody does.

use crate::clock;
use crate::diagnostics::record::{Ring, Sighting};
use crate::diagnostics::trace::{Trace, Tracer};
use crate::mcp::connection::Transport;
use crate::mcp::dispatch::CallContext;
use crate::render::payload::Payload;
use crate::server::Server;
use ptc_agent::PlannerRequest;
use ptc_rpc::{Json, JsonKind};
use ptc_upstream::TraceContext;
use std::time::Instant;

/// Who wants to know.
#[derive(Default)]
pub struct Observers {
    /// The ring behind `lisp_debug`.
    pub ring: Option<Ring>,
    pub tracer: Option<Tracer>,
    /// Spans for a collector.
    #[cfg(feature = "otlp")]
    pub exporter: Option<crate::diagnostics::otlp::Exporter>,
}

/// A call that is followed.
pub struct Observed {
    sighting: Sighting,
    trace: Option<Trace>,
    executing: Option<Instant>,
}

/// How a call ended, as far as observers care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Ran,
    /// A tool answered at once.
    Answered,
    /// It was refused before anything ran: in the ring, not traced.
    Refused,
    /// There is no such tool: traced, not in the ring.
    Unknown,
}

/// Tools whose calls nobody remembers: they are how one looks.
const UNOBSERVED: &str = "lisp_debug";

impl Observers {
    /// Begins to follow a call; `None` when nobody wants to know.
    pub fn see(
        &self,
        place: &CallContext<'_>,
        tool: &str,
        params: Json<'_>,
        trace: Option<&TraceContext>,
    ) -> Option<Box<Observed>> {
        if !self.is_anybody() || tool == UNOBSERVED {
            return None;
        }
        let arguments = params
            .get("arguments")
            .filter(|arguments| arguments.kind() == JsonKind::Object);
        let argument = |name: &str| arguments.and_then(|arguments| arguments.get(name));
        let id = &place.id;
        let sighting = Sighting {
            id: (!id.is_null()).then(|| id.plain().into_owned()),
            tool: tool.to_owned(),
            revision: place.revision,
            started: Instant::now(),
            started_micros: clock::now_micros(),
            program: argument("program").and_then(Json::as_str).map(Into::into),
            context: argument("context")
                .filter(|context| context.kind() == JsonKind::Object)
                .map(Json::compact),
            trace: trace.cloned(),
            transport_request_id: place.context.request_id.clone(),
            transport: match &place.connection.transport {
                Transport::Stdio => None,
                Transport::Http {
                    owner_hash,
                    session_hash,
                } => Some((owner_hash.clone(), session_hash.clone())),
            },
        };
        Some(Box::new(Observed {
            sighting,
            trace: None,
            executing: None,
        }))
    }

    /// A program of the call begins to run. Gives the id of its trace, if it is traced.
    pub fn executing(&self, observed: &mut Observed, server: &Server) -> Option<String> {
        observed.executing = Some(Instant::now());
        let tracer = self.tracer.as_ref()?;
        let mut trace = tracer.begin(&observed.sighting);
        tracer.executing(&mut trace, &observed.sighting, server.is_aggregator());
        let id = trace.id().to_owned();
        observed.trace = Some(trace);
        Some(id)
    }

    /// A planner was asked `requests` while the call ran.
    pub fn planned(&self, observed: &mut Observed, server: &Server, requests: &[PlannerRequest]) {
        if let (Some(tracer), Some(trace)) = (&self.tracer, &mut observed.trace) {
            tracer.planned(trace, requests, server.settings.agentic.trace_prompts);
        }
    }

    /// The call is answered with `payload`, its full one.
    pub fn ended(
        &self,
        mut observed: Box<Observed>,
        server: &Server,
        payload: &Payload,
        ending: Ending,
    ) {
        let sighting = &observed.sighting;
        if let (Some(ring), true) = (&self.ring, ending != Ending::Unknown) {
            ring.remember(sighting, payload, ending == Ending::Ran, &server.redactor);
        }
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.ended(sighting, payload);
        }
        let Some(tracer) = self.tracer.as_ref().filter(|_| ending != Ending::Refused) else {
            return;
        };
        let mut trace = observed
            .trace
            .take()
            .unwrap_or_else(|| tracer.begin(sighting));
        if let Some(since) = observed.executing {
            tracer.executed(
                &mut trace,
                sighting,
                server.is_aggregator(),
                since.elapsed(),
                payload,
            );
        }
        tracer.end(trace, sighting, payload);
    }

    /// Waits, a short while at most, for what is still to be sent.
    pub fn flush(&self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.flush();
        }
    }

    fn is_anybody(&self) -> bool {
        #[cfg(feature = "otlp")]
        if self.exporter.is_some() {
            return true;
        }
        self.ring.is_some() || self.tracer.is_some()
    }

    /// Nobody waits for the call any more.
    pub fn abandoned(&self, mut observed: Box<Observed>) {
        if let (Some(tracer), Some(trace)) = (&self.tracer, observed.trace.take()) {
            tracer.abandon(trace);
        }
    }
}
