//! JSON log lines on stderr.
//!
//! A line is handed to a writer thread through a bounded queue, so that a client that never reads stderr can't stall a
//! call; lines that don't fit are counted and the count is logged. Knows nothing of what is logged.

use crate::clock;
use crate::settings::Level;
use ptc_rpc::write_string;
use ptc_secrets::Redactor;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Where log lines go.
#[derive(Clone)]
pub struct Log {
    level: Level,
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
    redactor: Redactor,
}

enum Item {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Lines that may wait for a slow reader.
const QUEUE_LINES_MAX: usize = 4096;
/// How long a line waits for others, so that a busy server wakes the writer once for many.
const GATHERING: Duration = Duration::from_millis(1);
/// How long an exiting process waits for a reader of stderr.
const FLUSH_WAIT: Duration = Duration::from_millis(250);

impl Log {
    /// A log to stderr of lines from `level` up, scrubbed with `redactor`.
    pub fn to_stderr(level: Level, redactor: Redactor) -> Self {
        let (queue, items) = sync_channel(QUEUE_LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        // Without the thread there is no log, which must not stop the server.
        let _ = std::thread::Builder::new()
            .name("log".into())
            .stack_size(128 << 10)
            .spawn(move || write_lines(&items, &counter));
        Log {
            level,
            queue,
            dropped,
            redactor,
        }
    }

    /// The same log, scrubbing with another set.
    pub fn scrubbing_with(&self, redactor: Redactor) -> Self {
        Log {
            redactor,
            ..self.clone()
        }
    }

    /// Whether lines of `level` are written at all.
    pub fn takes(&self, level: Level) -> bool {
        level >= self.level
    }

    /// Logs `event`; `fields` adds its fields.
    pub fn event(
        &self,
        level: Level,
        event: &str,
        request_id: Option<&str>,
        fields: impl FnOnce(&mut Fields),
    ) {
        if !self.takes(level) {
            return;
        }
        let mut line = Vec::with_capacity(192);
        line.extend_from_slice(b"{\"event\":");
        write_string(&mut line, event);
        let mut collected = Fields { json: Vec::new() };
        fields(&mut collected);
        if !collected.json.is_empty() {
            line.extend_from_slice(b",\"fields\":{");
            line.extend_from_slice(&collected.json);
            line.push(b'}');
        }
        line.extend_from_slice(b",\"level\":\"");
        line.extend_from_slice(level.name().as_bytes());
        line.push(b'"');
        if let Some(id) = request_id {
            line.extend_from_slice(b",\"request_id\":");
            write_string(&mut line, id);
        }
        line.extend_from_slice(b",\"ts\":\"");
        line.extend_from_slice(clock::now_text().as_bytes());
        line.extend_from_slice(b"\"}");
        let mut line = self.redactor.scrub(line).into_inner();
        line.push(b'\n');
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets panics be told here, scrubbed, instead of as they are.
    pub fn take_panics(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            log.event(Level::Error, "panic", None, |fields| {
                let place = panic.location().map(ToString::to_string);
                fields
                    .maybe("location", place.as_deref())
                    .maybe("message", panic.payload_as_str());
            });
            // The process may end with this.
            log.flush();
        }));
    }

    /// Waits, a short while at most, until everything logged so far is written.
    pub fn flush(&self) {
        let (done, waiting) = sync_channel(1);
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            let _ = waiting.recv_timeout(FLUSH_WAIT);
        }
    }
}

/// The fields of one line.
pub struct Fields {
    json: Vec<u8>,
}

impl Fields {
    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        write_string(&mut self.json, value);
        self
    }

    /// Adds a text or `null`.
    pub fn maybe(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.json(name, "null"),
        }
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.json(name, &value.to_string())
    }

    /// Adds a boolean.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.json(name, if value { "true" } else { "false" })
    }

    /// Adds a value that is JSON text already.
    pub fn json(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.json.extend_from_slice(value.as_bytes());
        self
    }

    fn name(&mut self, name: &str) {
        if !self.json.is_empty() {
            self.json.push(b',');
        }
        write_string(&mut self.json, name);
        self.json.push(b':');
    }
}

fn write_lines(items: &Receiver<Item>, dropped: &AtomicU64) {
    while let Ok(first) = items.recv() {
        if matches!(first, Item::Line(_)) {
            std::thread::sleep(GATHERING);
        }
        let mut bytes = Vec::new();
        let mut flushed = Vec::new();
        let mut next = Some(first);
        while let Some(item) = next {
            match item {
                Item::Line(line) => bytes.extend_from_slice(&line),
                Item::Flush(done) => flushed.push(done),
            }
            next = items.try_recv().ok();
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let ts = clock::now_text();
            let line = format!(
                "{{\"event\":\"log_lines_dropped\",\"fields\":{{\"count\":{lost}}},\"level\":\"warn\",\"ts\":\"{ts}\"}}\n"
            );
            bytes.extend_from_slice(line.as_bytes());
        }
        // A closed stderr leaves nobody to tell.
        let _ = std::io::stderr().write_all(&bytes);
        for done in flushed {
            let _ = done.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptc_secrets::Secret;
    use std::process::Command;

    /// Set in the process that panics.
    const PANICS: &str = "TOUCHSTONE_PANICS";

    #[test]
    fn panics_are_scrubbed() {
        if std::env::var_os(PANICS).is_some() {
            let mut secrets = Redactor::builder();
            secrets.add(&Secret::new("canary-7f3a".to_owned()));
            Log::to_stderr(Level::Error, secrets.build()).take_panics();
            panic!("token canary-7f3a is wrong");
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::panics_are_scrubbed", "--nocapture"])
            .env(PANICS, "1")
            .output()
            .unwrap();
        let told = String::from_utf8(child.stderr).unwrap();
        assert!(!child.status.success());
        assert!(told.contains("\"event\":\"panic\""), "{told}");
        assert!(told.contains("token [REDACTED] is wrong"), "{told}");
        assert!(!told.contains("canary"), "{told}");
    }
}
