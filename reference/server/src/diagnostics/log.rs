//! JSON log lines on stderr: the `tracing` layer that scrubs events and writes them.
//!
//! The field `event` names an event; its `request_id`, or else that of the enclosing request span, assigns it to a request. Values
//! recorded as bytes are JSON text already. Lines wait for a writer thread in one bounded buffer, so a client that never reads stderr can
//! neither stall a call nor make the process grow; lines that do not fit are dropped, and their number is logged. Knows nothing of what
//! is logged.

use crate::clock;
use crate::diagnostics::escape_control;
use crate::lock::lock;
use crate::settings::Level;
use ptc_rpc::write_string;
use ptc_secrets::{Redactor, SCRUB_TIME_MAX, scrub_json_text};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Value, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The layer that writes lines.
struct LogLayer {
    queue: Arc<Queue>,
    redactor: Redactor,
}

/// A handle to the queue, for callers that wait until it is written.
#[derive(Clone)]
pub struct Log(Arc<Queue>);

struct Queue {
    waiting: Mutex<PendingLines>,
    /// Signalled when there is something to write, or somebody waits for it.
    filled: Condvar,
    /// Signalled when a batch was written.
    written: Condvar,
}

#[derive(Default)]
struct PendingLines {
    bytes: Vec<u8>,
    lost: u64,
    writing: bool,
    /// Somebody waits for the content to be written.
    flush_requested: bool,
}

/// Bytes that may wait for a slow reader; a single line may exceed this, however long it is.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// How long a line waits for others, so that a busy server wakes the writer once for many lines.
const BATCH_WAIT: Duration = Duration::from_millis(1);
/// How long an exiting process waits for a reader of stderr, and for its own writer on a busy machine.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Initial capacity that suffices for the fields of most events, and for most lines.
const FIELDS_BYTES: usize = 256;
const LINE_BYTES: usize = 512;
/// The targets of this workspace's own crates: only their events are logged, and only their spans exported.
pub const TARGETS: &str = "ptc_";
/// The span of a request. It is kept at every level, so that errors have their request, too.
pub const REQUEST_SPAN: &str = "request";
/// The field that names the event.
const EVENT: &str = "event";
/// The name of an event without a name.
const UNNAMED: &str = "library_event";
/// The field with the request's id.
const REQUEST_ID: &str = "request_id";
/// The field with a JSON object whose members become fields of the line.
const FIELDS: &str = "fields";

/// The layer that writes lines of at least `level` to stderr, scrubbed with `redactor`, and a handle to their queue.
pub fn layer<S>(level: Level, redactor: Redactor) -> (impl Layer<S>, Log)
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let queue = Arc::new(Queue {
        waiting: Mutex::default(),
        filled: Condvar::new(),
        written: Condvar::new(),
    });
    let written = queue.clone();
    // Without the thread there is no log, which must not stop the server.
    let _ = std::thread::Builder::new()
        .name("log".into())
        .stack_size(128 << 10)
        .spawn(move || write_batches(&written));
    let wanted = move |metadata: &Metadata<'_>| {
        metadata.target().starts_with(TARGETS)
            && match metadata.is_span() {
                true => metadata.name() == REQUEST_SPAN,
                false => level_of(metadata) >= level,
            }
    };
    let log = Log(queue.clone());
    let lines = LogLayer { queue, redactor };
    (lines.with_filter(filter_fn(wanted)), log)
}

/// A text or `null`, as the value of a field.
pub fn text_or_null<'a>(text: &'a Option<&'a str>) -> &'a dyn Value {
    const NULL: &[u8] = b"null";
    match text {
        Some(text) => text,
        None => &NULL,
    }
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

/// A request's id as JSON, kept with its span.
struct RequestId(Vec<u8>);

/// Finds the id of a request among the fields of its span.
struct RequestIdVisitor<'a> {
    id: Option<RequestId>,
    redactor: &'a Redactor,
}

impl Visit for RequestIdVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == REQUEST_ID {
            self.id = Some(RequestId(scrubbed_string(value, self.redactor)));
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// `text`, scrubbed, as JSON.
fn scrubbed_string(text: &str, redactor: &Redactor) -> Vec<u8> {
    let mut json = Vec::with_capacity(text.len() + 2);
    write_string(&mut json, &redactor.scrub_str(text));
    json
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut found = RequestIdVisitor {
            id: None,
            redactor: &self.redactor,
        };
        attributes.record(&mut found);
        if let (Some(request_id), Some(span)) = (found.id, context.span(id)) {
            span.extensions_mut().insert(request_id);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = LineWriter::new(&self.redactor);
        event.record(&mut said);
        if said.request_id.is_none()
            && let Some(mut spans) = context.event_scope(event)
        {
            said.request_id =
                spans.find_map(|span| Some(span.extensions().get::<RequestId>()?.0.clone()));
        }
        self.queue.put(&said.line(level_of(event.metadata())));
    }
}

impl Log {
    /// Waits, for a short while at most, until everything logged so far is written.
    pub fn flush(&self) {
        let queue = &self.0;
        let mut waiting = queue.waiting();
        waiting.flush_requested = true;
        queue.filled.notify_one();
        // After a timeout there is nothing more to do: nobody reads.
        let _ = queue
            .written
            .wait_timeout_while(waiting, FLUSH_TIMEOUT, |waiting| {
                waiting.writing || !waiting.bytes.is_empty()
            });
    }

    /// Logs panics here, scrubbed, instead of printing them unchanged.
    pub fn install_panic_hook(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string);
            tracing::error!(
                event = "panic",
                location = text_or_null(&place.as_deref()),
                message = text_or_null(&panic.payload_as_str()),
            );
            // The process may end with this panic.
            log.flush();
        }));
    }
}

impl Queue {
    fn put(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.bytes.len() >= QUEUE_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        let first = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        drop(waiting);
        if first {
            self.filled.notify_one();
        }
    }

    /// Exchanges the waiting lines for `batch`, which was written. Waits until there are lines, and then briefly for more, unless
    /// somebody waits for them. Returns the number of dropped lines.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        batch.shrink_to(QUEUE_BYTES_MAX);
        let mut waiting = self.waiting();
        waiting.writing = false;
        self.written.notify_all();
        waiting = self
            .filled
            .wait_while(waiting, |waiting| waiting.bytes.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        (waiting, _) = self
            .filled
            .wait_timeout_while(waiting, BATCH_WAIT, |waiting| !waiting.flush_requested)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.flush_requested = false;
        std::mem::swap(&mut waiting.bytes, batch);
        waiting.writing = true;
        std::mem::take(&mut waiting.lost)
    }

    fn waiting(&self) -> MutexGuard<'_, PendingLines> {
        lock(&self.waiting)
    }
}

/// The content of one event. Names are the server's own; values are scrubbed before they are written as JSON.
struct LineWriter<'a> {
    /// The line up to the event's name.
    line: Vec<u8>,
    request_id: Option<Vec<u8>>,
    fields: Vec<u8>,
    redactor: &'a Redactor,
}

impl<'a> LineWriter<'a> {
    fn new(redactor: &'a Redactor) -> Self {
        LineWriter {
            line: Vec::new(),
            request_id: None,
            fields: Vec::new(),
            redactor,
        }
    }

    fn set_event(&mut self, name: &str) {
        self.line.clear();
        self.line.reserve(LINE_BYTES);
        self.line.extend_from_slice(b"{\"event\":");
        write_string(&mut self.line, name);
    }

    fn line(mut self, level: Level) -> Vec<u8> {
        if self.line.is_empty() {
            self.set_event(UNNAMED);
        }
        let mut line = self.line;
        if !self.fields.is_empty() {
            line.extend_from_slice(b",\"fields\":{");
            line.extend_from_slice(&self.fields);
            line.push(b'}');
        }
        line.extend_from_slice(b",\"level\":\"");
        line.extend_from_slice(level.name().as_bytes());
        line.push(b'"');
        if let Some(id) = self.request_id {
            line.extend_from_slice(b",\"request_id\":");
            line.extend_from_slice(&id);
        }
        line.extend_from_slice(b",\"ts\":\"");
        line.extend_from_slice(clock::now_text().as_bytes());
        line.extend_from_slice(b"\"}");
        let mut line = match String::from_utf8(line) {
            Ok(text) => escape_control(text).into_bytes(),
            Err(other) => other.into_bytes(),
        };
        line.push(b'\n');
        line
    }

    fn json(&mut self, name: &str, json: &str) {
        // All texts of a long value together get the scrubbing time of a single text.
        let timed =
            (json.len() > LINE_BYTES).then(|| self.redactor.with_time_limit(SCRUB_TIME_MAX));
        let clean = scrub_json_text(json, timed.as_ref().unwrap_or(self.redactor));
        if name == FIELDS {
            let members = clean.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
            if let Some(members) = members.filter(|members| !members.is_empty()) {
                self.comma();
                self.fields.extend_from_slice(members.as_bytes());
            }
            return;
        }
        self.name(name);
        self.fields.extend_from_slice(clean.as_bytes());
    }

    fn name(&mut self, name: &str) {
        self.comma();
        write_string(&mut self.fields, name);
        self.fields.push(b':');
    }

    fn comma(&mut self) {
        match self.fields.is_empty() {
            true => self.fields.reserve(FIELDS_BYTES),
            false => self.fields.push(b','),
        }
    }
}

impl Visit for LineWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            EVENT => self.set_event(value),
            REQUEST_ID => self.request_id = Some(scrubbed_string(value, self.redactor)),
            name => {
                self.name(name);
                write_string(&mut self.fields, &self.redactor.scrub_str(value));
            }
        }
    }

    fn record_bytes(&mut self, field: &Field, json: &[u8]) {
        self.json(field.name(), &String::from_utf8_lossy(json));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field.name());
        let word: &[u8] = if value { b"true" } else { b"false" };
        self.fields.extend_from_slice(word);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.json(field.name(), &value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.json(field.name(), &value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.json(field.name(), &value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.json(field.name(), &value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn write_batches(queue: &Queue) {
    let mut batch = Vec::new();
    loop {
        let lost = queue.take(&mut batch);
        if lost > 0 {
            let ts = clock::now_text();
            let line = format!(
                "{{\"event\":\"log_lines_dropped\",\"fields\":{{\"count\":{lost}}},\"level\":\"warn\",\"ts\":\"{ts}\"}}\n"
            );
            batch.extend_from_slice(line.as_bytes());
        }
        // If stderr is closed, there is nobody to tell.
        let _ = std::io::stderr().write_all(&batch);
    }
}

#[cfg(test)]
mod tests;
