//! Diagnostics for operators: log lines, counters, the ring of recent calls, traces, spans.
//!
//! Other modules emit `tracing` events or open spans; the layers installed here decide where these go.

pub mod counters;
pub mod log;
pub mod observe;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod record;
pub mod trace;

use crate::settings::Level;
use ptc_lang::visible::{is_nonprinting, is_printable};
use ptc_secrets::Redactor;
use std::fmt::Write as _;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

/// Handles to the queues of events and spans.
#[derive(Clone, Default)]
pub struct Sinks {
    log: Option<log::Log>,
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

/// From now on, writes events of at least `level` and panics to stderr, and sends spans to the collector that the environment names, all
/// scrubbed with `redactor`. Takes effect once per process; later calls change nothing.
pub fn install(level: Level, redactor: &Redactor) -> Sinks {
    let (lines, log) = log::layer(level, redactor.clone());
    let subscriber = Registry::default().with(lines);
    #[cfg(feature = "otlp")]
    let (subscriber, exporter) = {
        let (spans, exporter) = otlp::from_environment(redactor).unzip();
        (subscriber.with(spans), exporter)
    };
    // Another subscriber can only be that of a test in the same process.
    let _ = tracing::subscriber::set_global_default(subscriber);
    log.install_panic_hook();
    Sinks {
        log: Some(log),
        #[cfg(feature = "otlp")]
        exporter,
    }
}

/// Escapes characters that a terminal would obey in a line of JSON, where they occur only inside strings.
fn escape_control(line: String) -> String {
    if is_printable(&line) {
        return line;
    }
    let mut shown = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match is_nonprinting(letter) {
            // All of them fit four hex digits, and writing to a string cannot fail.
            true => drop(write!(shown, "\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    shown
}

impl Sinks {
    /// Waits, for a short while at most, until everything so far is written and sent.
    pub fn flush(&self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.flush();
        }
        if let Some(log) = &self.log {
            log.flush();
        }
    }
}
