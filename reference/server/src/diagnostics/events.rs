//! What the libraries report while they work (an upstream's stderr, a tool that failed), as lines of the server's log.
//!
//! They speak through `tracing`; this is its one subscriber. Knows nothing of what is reported.

use crate::diagnostics::log::{Fields, Log};
use crate::settings::Level;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Metadata, Subscriber};

/// Where the libraries' events go.
struct Events(Log);

/// Only this workspace's own libraries are listened to.
const TARGETS: &str = "ptc_";
/// The event of a line that names none.
const UNNAMED: &str = "library_event";
/// The field that names the event.
const EVENT: &str = "event";

/// Sends the libraries' events to `log` from now on. Once a process; later calls change nothing.
pub fn install(log: Log) {
    // Another subscriber can only be that of a test in the same process.
    let _ = tracing::subscriber::set_global_default(Events(log));
}

fn level(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with(TARGETS)
            && self.0.takes(level(metadata))
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        let name = said.name.as_deref().unwrap_or(UNNAMED);
        self.0.event(level(event.metadata()), name, None, |fields| {
            said.fields.sort();
            for (name, value) in &said.fields {
                value.write(name, fields);
            }
        });
    }

    // Nothing here makes spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// What one event says.
#[derive(Default)]
struct Said {
    name: Option<String>,
    fields: Vec<(&'static str, Value)>,
}

/// The value of one field.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text(String),
    Number(i128),
}

impl Value {
    fn write(&self, name: &str, fields: &mut Fields) {
        match self {
            Value::Text(text) => fields.text(name, text),
            Value::Number(number) => fields.number(name, number),
        };
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            EVENT => self.name = Some(value.to_owned()),
            name => self.fields.push((name, Value::Text(value.to_owned()))),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields
            .push((field.name(), Value::Number(value.into())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields
            .push((field.name(), Value::Number(value.into())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
