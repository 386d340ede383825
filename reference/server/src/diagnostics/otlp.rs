//! Sends a span for each followed call to an OpenTelemetry collector, as OTLP's JSON over HTTP. Built with the feature `otlp` only.
//!
//! Spans wait in a bounded queue for a thread of their own: a collector that is slow or gone costs spans and a warning, and no
//! call. Spans hold names, sizes and outcomes, never programs or values. Knows nothing of how calls run.

use crate::clock;
use crate::diagnostics::log::Log;
use crate::diagnostics::record::Sighting;
use crate::digest;
use crate::render::payload::{Field, Payload};
use crate::server::{NAME, PACKAGE_VERSION};
use crate::settings::Level;
use crate::token;
use ptc_secrets::Redactor;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tokio::time::Instant;

pub struct Exporter {
    queue: SyncSender<Item>,
    redactor: Redactor,
}

enum Item {
    Span(Payload),
    Flush(SyncSender<()>),
}

/// The variable that names the collector, as every OpenTelemetry SDK reads it; spans go to `/v1/traces` below it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variable that names the address for spans itself.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Spans that may wait.
const QUEUE_SPANS_MAX: usize = 2048;
/// Spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// How long a batch waits for more.
const BATCH_WAIT: Duration = Duration::from_millis(200);
/// How long a collector may take.
const SEND_WAIT: Duration = Duration::from_secs(5);
/// How long an exiting process waits for the last batch.
const FLUSH_WAIT: Duration = Duration::from_secs(1);
const _: () = assert!(BATCH_SPANS_MAX < QUEUE_SPANS_MAX);
/// `SPAN_KIND_SERVER`
const KIND_SERVER: u64 = 2;
/// `STATUS_CODE_ERROR`
const STATUS_ERROR: u64 = 2;

impl Exporter {
    /// The exporter to the collector that the environment names, if it names one.
    pub fn from_environment(log: &Log, redactor: &Redactor) -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|url| !url.is_empty());
        let url = variable(TRACES_ENDPOINT).or_else(|| {
            variable(ENDPOINT).map(|base| format!("{}/v1/traces", base.trim_end_matches('/')))
        })?;
        let (queue, items) = sync_channel(QUEUE_SPANS_MAX);
        let log = log.clone();
        std::thread::Builder::new()
            .name("otlp".into())
            .spawn(move || send_all(&url, &items, &log))
            .ok()?;
        Some(Exporter {
            queue,
            redactor: redactor.clone(),
        })
    }

    /// Exports a call that was answered with `payload`. A full queue drops it.
    pub fn ended(&self, sighting: &Sighting, payload: &Payload) {
        let span = self.redactor.scrub(span(sighting, payload)).into_inner();
        let _ = self.queue.try_send(Item::Span(span));
    }

    /// Waits, a short while at most, until everything exported so far is sent.
    pub fn flush(&self) {
        let (done, waiting) = sync_channel(1);
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            let _ = waiting.recv_timeout(FLUSH_WAIT);
        }
    }
}

fn span(sighting: &Sighting, payload: &Payload) -> Payload {
    let random = || digest::hex(token::random(24).as_bytes());
    let error = payload
        .text("reason")
        .filter(|_| payload.text("status") == Some("error"));
    let transport = match sighting.transport {
        Some(_) => "tcp",
        None => "pipe",
    };
    let attributes = [
        ("mcp.method.name", Some("tools/call")),
        ("gen_ai.tool.name", Some(sighting.tool.as_str())),
        ("mcp.protocol.version", Some(sighting.revision)),
        ("jsonrpc.request.id", sighting.id.as_deref()),
        ("network.transport", Some(transport)),
        ("error.type", error),
    ];
    let attributes = attributes
        .into_iter()
        .filter_map(|(key, value)| Some(attribute(key, value?)));
    let status = match error {
        Some(reason) => Payload::new()
            .with("code", STATUS_ERROR)
            .with("message", reason.to_owned()),
        None => Payload::new(),
    };
    let trace_id = match &sighting.trace {
        Some(trace) => trace.trace_id().to_owned(),
        None => random()[..32].to_owned(),
    };
    let mut span = Payload::new()
        .with("attributes", Field::List(attributes.collect()))
        .with("endTimeUnixNano", nanos(clock::now_micros()))
        .with("kind", KIND_SERVER)
        .with("name", format!("tools/call {}", sighting.tool))
        .with("spanId", random()[..16].to_owned())
        .with("startTimeUnixNano", nanos(sighting.started_micros))
        .with("status", status)
        .with("traceId", trace_id);
    if let Some(trace) = &sighting.trace {
        span.set("parentSpanId", trace.span_id().to_owned());
        if let Some(state) = trace.state() {
            span.set("traceState", state.to_owned());
        }
    }
    span
}

fn attribute(key: &'static str, value: &str) -> Field {
    let value = Payload::new().with("stringValue", value.to_owned());
    Field::Object(Payload::new().with("key", key).with("value", value))
}

/// 64-bit integers are strings in this format.
fn nanos(micros: i64) -> String {
    format!("{}000", micros.max(0))
}

/// The request for a batch.
fn request(spans: Vec<Payload>) -> String {
    let version = attribute("service.version", PACKAGE_VERSION);
    let resource = Payload::new().with(
        "attributes",
        Field::List(vec![attribute("service.name", NAME), version]),
    );
    let scope = Payload::new()
        .with("name", NAME)
        .with("version", PACKAGE_VERSION);
    let scope_spans = Payload::new().with("scope", scope).with("spans", spans);
    let resource_spans = Payload::new()
        .with("resource", resource)
        .with("scopeSpans", vec![scope_spans]);
    Payload::new()
        .with("resourceSpans", vec![resource_spans])
        .to_json()
}

fn send_all(url: &str, items: &Receiver<Item>, log: &Log) {
    let lost = |reason: &str, spans: usize| {
        log.event(Level::Warn, "otlp_export_failed", None, |fields| {
            fields.text("reason", reason).number("spans", spans);
        });
    };
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // Upstreams may have installed the same one already.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    // A redirect would lead spans where nobody said that they go.
    let builder = reqwest::Client::builder()
        .timeout(SEND_WAIT)
        .redirect(reqwest::redirect::Policy::none());
    // A collector on this machine is reached without the machine's CA certificates, so they need not be there.
    let builder = match url.starts_with("http://") {
        true => builder.tls_certs_only([]),
        false => builder,
    };
    let client = builder.build();
    let (Ok(executor), Ok(client)) = (executor, client) else {
        return lost("the exporter could not be started", 0);
    };
    let mut open = true;
    while open {
        let (spans, flushed);
        (spans, flushed, open) = batch(items);
        let count = spans.len();
        if count > 0 {
            let sending = async {
                let request = client.post(url).body(request(spans));
                let request = request.header("content-type", "application/json");
                request.send().await
            };
            match executor.block_on(sending) {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => lost(&format!("http {}", answer.status().as_u16()), count),
                // Its text may hold the address, and that a password.
                Err(_) => lost("the collector can't be reached", count),
            }
        }
        for done in flushed {
            let _ = done.try_send(());
        }
    }
}

/// The next spans, who waits for them to be sent, and whether more can come.
fn batch(items: &Receiver<Item>) -> (Vec<Payload>, Vec<SyncSender<()>>, bool) {
    let (mut spans, mut flushed) = (Vec::new(), Vec::new());
    let Ok(first) = items.recv() else {
        return (spans, flushed, false);
    };
    let until = Instant::now() + BATCH_WAIT;
    let mut next = Ok(first);
    loop {
        match next {
            Ok(Item::Span(span)) => spans.push(span),
            Ok(Item::Flush(done)) => flushed.push(done),
            Err(RecvTimeoutError::Timeout) => return (spans, flushed, true),
            Err(RecvTimeoutError::Disconnected) => return (spans, flushed, false),
        }
        if spans.len() >= BATCH_SPANS_MAX || !flushed.is_empty() {
            return (spans, flushed, true);
        }
        next = items.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}
