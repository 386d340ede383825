//! Sends the spans of each observed call to an OpenTelemetry collector, as OTLP's JSON over HTTP. Built with the feature `otlp` only.
//!
//! The span of a call is the root; those opened within it are sent with it, up to a limit, when it was answered. Each keeps a
//! [`TraceContext`] that names it among its extensions, for the upstream calls made in it. Spans wait in a bounded queue for a separate
//! thread: a slow or missing collector costs spans and a warning, but no call. Spans contain names, sizes and outcomes, never programs or
//! values. Knows nothing of how calls run.

use crate::clock;
use crate::diagnostics::log::{REQUEST_SPAN, TARGETS};
use crate::diagnostics::observe::{CALL_SPAN, call};
use crate::lock::lock;
use crate::render::profile::prefix;
use crate::token;
use crate::version::{NAME, PACKAGE_VERSION};
use ptc_outbound::{Repeat, Sender};
use ptc_protocol::digest;
use ptc_protocol::limits::upstream_calls;
use ptc_protocol::{Field, Payload};
use ptc_secrets::{Redactor, RedactorBuilder, SCRUB_TIME_MAX};
use ptc_upstream::TraceContext;
use ptc_upstream::span::UPSTREAM_SPAN;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::field::Visit;
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, field};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The layer that passes the spans of answered calls to the exporter.
struct SpanLayer {
    exporter: Exporter,
    redactor: Redactor,
}

/// A handle to the sending thread.
#[derive(Clone)]
pub struct Exporter {
    queue: SyncSender<QueueItem>,
    counts: Arc<ExportCounts>,
}

#[derive(Default)]
struct ExportCounts {
    /// Spans that were dropped because the queue was full, and have not been logged yet.
    dropped: AtomicUsize,
    /// Spans in the queue or being sent.
    waiting: AtomicUsize,
}

enum QueueItem {
    Span(Payload),
    Flush(SyncSender<()>),
}

/// The variable that names the collector, as in every OpenTelemetry SDK; spans go to `/v1/traces` below it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The variable with the complete URL for spans.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Spans that may wait.
const QUEUE_SPANS_MAX: usize = 2048;
/// Spans of one call beside its own; the others are counted.
const CALL_SPANS_MAX: usize = 128;
/// Spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// Bytes of a text in a span: the maximum length of a trace state.
const TEXT_BYTES_MAX: usize = 512;
/// How long a batch waits for more spans.
const BATCH_WAIT: Duration = Duration::from_millis(200);
/// The time limit of a request to the collector.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an exiting process waits for the last batch.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two attempts to queue the flush request.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
const _: () = assert!(BATCH_SPANS_MAX < QUEUE_SPANS_MAX);
const _: () = assert!(upstream_calls::PER_PROGRAM_MAX < CALL_SPANS_MAX);
const _: () = assert!(CALL_SPANS_MAX < BATCH_SPANS_MAX);
/// Fields that are not exported as attributes.
const NOT_ATTRIBUTES: [&str; 3] = [call::STATUS, call::PARENT, call::STATE];
/// The attribute of a call with the number of its spans that were not exported.
const LEFT_OUT: &str = "ptc.spans.left_out";
/// `SPAN_KIND_INTERNAL`
const KIND_INTERNAL: u64 = 1;
/// `SPAN_KIND_SERVER`
const KIND_SERVER: u64 = 2;
/// `SPAN_KIND_CLIENT`
const KIND_CLIENT: u64 = 3;
/// `STATUS_CODE_ERROR`
const STATUS_ERROR: u64 = 2;

/// Registers the passwords in the addresses of the collector and of its proxies as secrets.
pub fn register_logins(env: &dyn Fn(&str) -> Option<String>, scrub: &mut RedactorBuilder) {
    let addresses = [ENDPOINT, TRACES_ENDPOINT].into_iter().filter_map(env);
    addresses.for_each(|address| ptc_secrets::register_login(&address, scrub));
    ptc_outbound::register_proxies(env, scrub);
}

/// The layer and the exporter for the collector that the environment names, if any.
pub fn from_environment<S>(redactor: &Redactor) -> Option<(impl Layer<S>, Exporter)>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let variable = |name| std::env::var(name).ok().filter(|url| !url.is_empty());
    let url = variable(TRACES_ENDPOINT).or_else(|| {
        variable(ENDPOINT).map(|base| format!("{}/v1/traces", base.trim_end_matches('/')))
    })?;
    let (queue, items) = sync_channel(QUEUE_SPANS_MAX);
    let counts = Arc::<ExportCounts>::default();
    let exporter = Exporter {
        queue,
        counts: counts.clone(),
    };
    std::thread::Builder::new()
        .name("otlp".into())
        .spawn(move || send_all(&url, &items, &counts))
        .ok()?;
    let spans = SpanLayer {
        exporter: exporter.clone(),
        redactor: redactor.clone(),
    };
    let wanted = filter_fn(|metadata| {
        metadata.is_span()
            && metadata.target().starts_with(TARGETS)
            && metadata.name() != REQUEST_SPAN
    });
    Some((spans.with_filter(wanted), exporter))
}

impl Exporter {
    /// Waits, for a short while at most, until everything exported so far is sent. The rest is logged as lost.
    pub fn flush(&self) {
        let until = std::time::Instant::now() + FLUSH_TIMEOUT;
        let left = || until.saturating_duration_since(std::time::Instant::now());
        let (done, sent) = sync_channel(1);
        let mut item = QueueItem::Flush(done);
        // If the queue is full, sending a batch makes room.
        while let Err(TrySendError::Full(back)) = self.queue.try_send(item) {
            if left().is_zero() {
                break;
            }
            item = back;
            std::thread::sleep(RETRY_PAUSE.min(left()));
        }
        let _ = sent.recv_timeout(left());
        log_lost(
            "the process ends before the collector took them",
            self.counts.waiting.load(Ordering::Acquire),
        );
        self.counts.log_dropped();
    }

    fn send(&self, span: Payload) {
        // Counted first: the exporter may send it at any time after it is queued.
        self.counts.waiting.fetch_add(1, Ordering::AcqRel);
        if let Err(refused) = self.queue.try_send(QueueItem::Span(span)) {
            self.counts.waiting.fetch_sub(1, Ordering::AcqRel);
            // A failure to start the exporter was logged already.
            let is_full = matches!(refused, TrySendError::Full(_));
            self.counts
                .dropped
                .fetch_add(usize::from(is_full), Ordering::AcqRel);
        }
    }
}

impl ExportCounts {
    fn log_dropped(&self) {
        let dropped = self.dropped.swap(0, Ordering::AcqRel);
        log_lost(
            "the collector takes spans more slowly than they come",
            dropped,
        );
    }
}

/// Logs the number of lost spans, and the reason.
fn log_lost(reason: &str, spans: usize) {
    if spans > 0 {
        tracing::warn!(event = "otlp_export_failed", reason, spans);
    }
}

/// The spans of one call. Kept with each of them, to find where the spans within belong.
#[derive(Default)]
struct CallSpans {
    /// How many were opened.
    opened: AtomicUsize,
    /// Those that are closed, ready to be sent.
    closed: Mutex<Vec<Payload>>,
}

/// A span that will be exported, while it is open.
struct OpenSpan {
    name: &'static str,
    parent: Option<String>,
    started_micros: i64,
    fields: Vec<(&'static str, Field)>,
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let mut open = OpenSpan {
            name: span.name(),
            parent: None,
            started_micros: clock::now_micros(),
            fields: Vec::new(),
        };
        attributes.record(&mut open);
        let own_id = digest::short(token::random(24).as_bytes());
        let outer = span.parent().and_then(|outer| {
            let extensions = outer.extensions();
            Some((
                extensions.get::<TraceContext>()?.clone(),
                extensions.get::<Arc<CallSpans>>()?.clone(),
            ))
        });
        let mut extensions = span.extensions_mut();
        match outer {
            None if open.name == CALL_SPAN => {
                let given = open
                    .text(call::PARENT)
                    .and_then(|parent| TraceContext::new(parent, open.text(call::STATE)));
                open.parent = given.as_ref().map(|given| given.span_id().to_owned());
                let Some(own) = given.map_or_else(new_trace, Some) else {
                    return;
                };
                extensions.insert(own.child(&own_id));
                extensions.insert(Arc::<CallSpans>::default());
            }
            // Work for no call.
            None => return,
            Some((outer, spans)) => {
                let is_over = spans.opened.fetch_add(1, Ordering::Relaxed) >= CALL_SPANS_MAX;
                extensions.insert(spans);
                if is_over {
                    extensions.insert(outer);
                    return;
                }
                open.parent = Some(outer.span_id().to_owned());
                extensions.insert(outer.child(&own_id));
            }
        }
        extensions.insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<OpenSpan>()
        {
            values.record(open);
        }
    }

    /// Exports a call that was answered, with the spans within it, which were all closed before. Drops what the queue has no room for.
    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let mut extensions = span.extensions_mut();
        let (Some(mut open), Some(own), Some(spans)) = (
            extensions.remove::<OpenSpan>(),
            extensions.remove::<TraceContext>(),
            extensions.remove::<Arc<CallSpans>>(),
        ) else {
            return;
        };
        drop(extensions);
        let is_call = open.name == CALL_SPAN;
        if is_call && open.text(call::STATUS).is_none() {
            return;
        }
        let left_out = spans
            .opened
            .load(Ordering::Relaxed)
            .saturating_sub(CALL_SPANS_MAX);
        if is_call && left_out > 0 {
            open.fields.push((LEFT_OUT, left_out.into()));
        }
        let redactor = self.redactor.with_time_limit(SCRUB_TIME_MAX);
        open.bound(&redactor);
        let exported = redactor.scrub(open.export(&own)).into_inner();
        let mut closed = lock(&spans.closed);
        closed.push(exported);
        if is_call {
            closed.drain(..).for_each(|span| self.exporter.send(span));
        }
    }
}

/// The context of a trace that begins here.
fn new_trace() -> Option<TraceContext> {
    let ids = digest::hex(token::random(24).as_bytes());
    TraceContext::new(&format!("00-{}-{}-01", &ids[..32], &ids[32..48]), None)
}

impl Visit for OpenSpan {
    fn record_bool(&mut self, field: &field::Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &field::Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.fields.push((field.name(), value.to_owned().into()));
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl OpenSpan {
    fn text(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.and_then(|(_, value)| value.as_text())
    }

    /// Scrubs the texts and then truncates them: a client chooses tool name and id, an upstream the names of its tools, and thousands of
    /// spans may wait.
    fn bound(&mut self, redactor: &Redactor) {
        for (_, value) in &mut self.fields {
            if let Field::Text(text) = value
                && text.len() > TEXT_BYTES_MAX
            {
                *text = prefix(&redactor.scrub_str(text), TEXT_BYTES_MAX).to_owned();
            }
        }
    }

    /// The span in OTLP's JSON, with the ids of `own`.
    fn export(&self, own: &TraceContext) -> Payload {
        let attributes = self
            .fields
            .iter()
            .filter(|(name, _)| !NOT_ATTRIBUTES.contains(name))
            .map(|(name, value)| attribute(name, value.clone()));
        let status = match self.text(call::ERROR) {
            Some(reason) => Payload::new()
                .with("code", STATUS_ERROR)
                .with("message", reason.to_owned()),
            None => Payload::new(),
        };
        let kind = match self.name {
            CALL_SPAN => KIND_SERVER,
            UPSTREAM_SPAN => KIND_CLIENT,
            _ => KIND_INTERNAL,
        };
        let name = match self.text(call::TOOL) {
            Some(tool) => format!("{} {tool}", self.name),
            None => self.name.to_owned(),
        };
        let mut span = Payload::new()
            .with("attributes", Field::List(attributes.collect()))
            .with("endTimeUnixNano", nanos(clock::now_micros()))
            .with("kind", kind)
            .with("name", name)
            .with("spanId", own.span_id().to_owned())
            .with("startTimeUnixNano", nanos(self.started_micros))
            .with("status", status)
            .with("traceId", own.trace_id().to_owned());
        if let Some(parent) = &self.parent {
            span.set("parentSpanId", parent.clone());
        }
        if let Some(state) = own.state() {
            span.set("traceState", state.to_owned());
        }
        span
    }
}

fn attribute(key: &'static str, value: Field) -> Field {
    // 64-bit integers are strings in this format.
    let value = match value {
        Field::Bool(_) => Payload::new().with("boolValue", value),
        Field::Int(number) => Payload::new().with("intValue", number.to_string()),
        text => Payload::new().with("stringValue", text),
    };
    Field::Object(Payload::new().with("key", key).with("value", value))
}

/// A time in the format's unit, as it writes integers.
fn nanos(micros: i64) -> String {
    format!("{}000", micros.max(0))
}

/// The request body for a batch.
fn request(spans: Vec<Payload>) -> String {
    let version = attribute("service.version", PACKAGE_VERSION.into());
    let resource = Payload::new().with(
        "attributes",
        Field::List(vec![attribute("service.name", NAME.into()), version]),
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

fn send_all(url: &str, items: &Receiver<QueueItem>, counts: &ExportCounts) {
    let off = |reason: &str| tracing::warn!(event = "otlp_export_failed", reason, spans = 0);
    let executor = ptc_outbound::executor::without_threads();
    let builder = match ptc_outbound::client(url) {
        Ok(builder) => builder,
        Err(fault) => return off(&fault.to_string()),
    };
    // A redirect would send spans to an address that nobody configured.
    let builder = builder
        .timeout(SEND_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    let (Ok(executor), Ok(sender)) = (executor, Sender::new(builder)) else {
        return off("the exporter could not be started");
    };
    let mut open = true;
    while open {
        let (spans, flushed);
        (spans, flushed, open) = batch(items);
        let count = spans.len();
        if count > 0 {
            let sending = async {
                let request = sender.client().post(url).body(request(spans));
                let request = request.header("content-type", "application/json");
                // Spans have ids, so sending them twice is harmless.
                sender.send(request.build()?, Repeat::Harmless).await
            };
            match executor.block_on(sending) {
                Ok(answer) if answer.status().is_success() => {}
                Ok(answer) => log_lost(&format!("http {}", answer.status().as_u16()), count),
                Err(error) => log_lost(cause(&error), count),
            }
            counts.waiting.fetch_sub(count, Ordering::AcqRel);
            counts.log_dropped();
        }
        for done in flushed {
            let _ = done.try_send(());
        }
    }
}

/// In our own words: the error's text may contain the address, and the address a password.
fn cause(error: &reqwest::Error) -> &'static str {
    match error {
        error if error.is_builder() => {
            "OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL, such as http://localhost:4318"
        }
        error if error.is_timeout() => "the collector did not answer in time",
        error if error.is_connect() => "the collector can't be reached",
        _ => "the exchange with the collector broke",
    }
}

/// The next spans, the callers that wait for them to be sent, and whether more can come.
fn batch(items: &Receiver<QueueItem>) -> (Vec<Payload>, Vec<SyncSender<()>>, bool) {
    let (mut spans, mut flushed) = (Vec::new(), Vec::new());
    let Ok(first) = items.recv() else {
        return (spans, flushed, false);
    };
    let until = Instant::now() + BATCH_WAIT;
    let mut next = Ok(first);
    loop {
        match next {
            Ok(QueueItem::Span(span)) => spans.push(span),
            Ok(QueueItem::Flush(done)) => flushed.push(done),
            Err(RecvTimeoutError::Timeout) => return (spans, flushed, true),
            Err(RecvTimeoutError::Disconnected) => return (spans, flushed, false),
        }
        if spans.len() >= BATCH_SPANS_MAX || !flushed.is_empty() {
            return (spans, flushed, true);
        }
        next = items.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}
