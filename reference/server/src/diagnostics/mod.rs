//! Diagnostics for operators: log lines, counters, the ring of recent calls, traces, spans.
//!
//! Who has something to tell emits a `tracing` event or opens a span; the layers installed here decide where it goes.

pub mod counters;
pub mod log;
pub mod observe;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod record;
pub mod trace;

use crate::settings::Level;
use ptc_lang::visible::{is_obeyed, is_plain};
use ptc_secrets::Redactor;
use std::fmt::Write as _;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

/// Where events and spans wait to be written and sent.
#[derive(Clone, Default)]
pub struct Sinks {
    log: Option<log::Log>,
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

/// Lets events and panics from now on go to stderr, from `level` up, and spans to the collector that the environment names, all scrubbed
/// with `redactor`. Once a process; later calls change nothing.
pub fn install(level: Level, redactor: &Redactor) -> Sinks {
    let (lines, log) = log::layer(level, redactor.clone());
    let spine = Registry::default().with(lines);
    #[cfg(feature = "otlp")]
    let (spine, exporter) = {
        let (spans, exporter) = otlp::from_environment(redactor).unzip();
        (spine.with(spans), exporter)
    };
    // Another subscriber can only be that of a test in the same process.
    let _ = tracing::subscriber::set_global_default(spine);
    log.take_panics();
    Sinks {
        log: Some(log),
        #[cfg(feature = "otlp")]
        exporter,
    }
}

/// A line of JSON with what a terminal would obey as escapes: it stands in strings alone.
fn unobeyed(line: String) -> String {
    if is_plain(&line) {
        return line;
    }
    let mut shown = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match is_obeyed(letter) {
            // All of them take four digits, and a string takes every write.
            true => drop(write!(shown, "\\u{:04x}", u32::from(letter))),
            false => shown.push(letter),
        }
    }
    shown
}

impl Sinks {
    /// Waits, a short while at most, until all that was told so far is written and sent.
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
