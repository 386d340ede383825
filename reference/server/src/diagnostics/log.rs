//! JSON log lines on stderr.
//!
//! Lines wait for a writer thread in one buffer of bounded size, so that a client that never reads stderr can neither stall
//! a call nor make the process grow; lines that don't fit are counted and the count is logged. Knows nothing of what is
//! logged.

use crate::clock;
use crate::settings::Level;
use ptc_rpc::write_string;
use ptc_secrets::{Redactor, scrub_json_text};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where log lines go.
#[derive(Clone)]
pub struct Log {
    level: Level,
    /// None when nothing is logged.
    lines: Option<Arc<Lines>>,
    redactor: Redactor,
}

/// What a log shares with its writer thread, which ends when no log is left.
struct Lines(Arc<Queue>);

struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to write, somebody who waits for that, or nothing more to come.
    filled: Condvar,
    /// A batch is out.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    lost: u64,
    writing: bool,
    /// Somebody waits for what is here to be written.
    hurried: bool,
    closed: bool,
}

/// Bytes that may wait for a slow reader; one line may go beyond, however long it is.
const QUEUE_BYTES_MAX: usize = 256 << 10;
/// How long a line waits for others, so that a busy server wakes the writer once for many.
const GATHERING: Duration = Duration::from_millis(1);
/// How long an exiting process waits for a reader of stderr.
const FLUSH_WAIT: Duration = Duration::from_millis(250);

impl Log {
    /// A log to stderr of lines from `level` up, scrubbed with `redactor`.
    pub fn to_stderr(level: Level, redactor: Redactor) -> Self {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
        });
        let lines = Arc::new(Lines(queue.clone()));
        // Without the thread there is no log, which must not stop the server.
        let _ = std::thread::Builder::new()
            .name("log".into())
            .stack_size(128 << 10)
            .spawn(move || write_batches(&queue));
        Log {
            level,
            lines: Some(lines),
            redactor,
        }
    }

    /// A log that keeps nothing, takes no panics and has no thread.
    #[cfg(feature = "checks")]
    pub fn nowhere() -> Self {
        Log {
            level: Level::Error,
            lines: None,
            redactor: Redactor::empty(),
        }
    }

    /// Whether lines of `level` are written at all.
    pub fn takes(&self, level: Level) -> bool {
        self.lines.is_some() && level >= self.level
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
        let mut collected = Fields {
            json: Vec::new(),
            redactor: &self.redactor,
        };
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
            write_string(&mut line, &self.redactor.scrub_str(id));
        }
        line.extend_from_slice(b",\"ts\":\"");
        line.extend_from_slice(clock::now_text().as_bytes());
        line.extend_from_slice(b"\"}");
        line.push(b'\n');
        if let Some(lines) = &self.lines {
            lines.0.put(&line);
        }
    }

    /// Lets panics be told here, scrubbed, instead of as they are.
    pub fn take_panics(&self) {
        if self.lines.is_none() {
            return;
        }
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
        let Some(Lines(queue)) = self.lines.as_deref() else {
            return;
        };
        let mut waiting = queue.waiting();
        waiting.hurried = true;
        queue.filled.notify_one();
        // Too late is as good as written: nobody reads.
        let _ = queue
            .written
            .wait_timeout_while(waiting, FLUSH_WAIT, |waiting| {
                waiting.writing || !waiting.bytes.is_empty()
            });
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

    /// Exchanges what waits for `batch`, which was written. Waits until there is something, and then a little for more
    /// unless somebody waits for it.
    /// Returns how many lines were lost, or `None` when no more can come.
    fn take(&self, batch: &mut Vec<u8>) -> Option<u64> {
        batch.clear();
        batch.shrink_to(QUEUE_BYTES_MAX);
        let mut waiting = self.waiting();
        waiting.writing = false;
        self.written.notify_all();
        waiting = self
            .filled
            .wait_while(waiting, |waiting| {
                waiting.bytes.is_empty() && !waiting.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.bytes.is_empty() {
            return None;
        }
        (waiting, _) = self
            .filled
            .wait_timeout_while(waiting, GATHERING, |waiting| {
                !waiting.hurried && !waiting.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        waiting.hurried = false;
        std::mem::swap(&mut waiting.bytes, batch);
        waiting.writing = true;
        Some(std::mem::take(&mut waiting.lost))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.waiting().closed = true;
        self.0.filled.notify_one();
    }
}

/// The fields of one line. Names are the server's own; values are scrubbed before they are written as JSON.
pub struct Fields<'a> {
    json: Vec<u8>,
    redactor: &'a Redactor,
}

impl Fields<'_> {
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        write_string(&mut self.json, &self.redactor.scrub_str(value));
        self
    }

    /// Adds a text or `null`.
    pub fn maybe(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    pub fn number(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.json(name, &value.to_string())
    }

    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    /// Adds a value that is JSON text already.
    pub fn json(&mut self, name: &str, value: &str) -> &mut Self {
        let clean = scrub_json_text(value, self.redactor);
        self.raw(name, &clean)
    }

    fn raw(&mut self, name: &str, value: &str) -> &mut Self {
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

fn write_batches(queue: &Queue) {
    let mut batch = Vec::new();
    while let Some(lost) = queue.take(&mut batch) {
        if lost > 0 {
            let ts = clock::now_text();
            let line = format!(
                "{{\"event\":\"log_lines_dropped\",\"fields\":{{\"count\":{lost}}},\"level\":\"warn\",\"ts\":\"{ts}\"}}\n"
            );
            batch.extend_from_slice(line.as_bytes());
        }
        // A closed stderr leaves nobody to tell.
        let _ = std::io::stderr().write_all(&batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptc_secrets::Secret;
    use std::process::Command;

    /// Set in the process that panics.
    const PANICS: &str = "TOUCHSTONE_PANICS";

    fn queue() -> Queue {
        Queue {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
        }
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_lost_is_counted() {
        let queue = queue();
        let line = [b'x'; 1000];
        (0..1000).for_each(|_| queue.put(&line));
        let mut batch = Vec::new();
        let lost = queue.take(&mut batch).unwrap();
        assert!((QUEUE_BYTES_MAX..QUEUE_BYTES_MAX + line.len()).contains(&batch.len()));
        assert_eq!(
            batch.len() + usize::try_from(lost).unwrap() * line.len(),
            1_000_000
        );
    }

    #[test]
    fn a_long_line_is_taken_whole_and_its_memory_given_back() {
        let queue = queue();
        queue.put(b"short\n");
        queue.put(&[b'x'; 3 << 20]);
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch), Some(0));
        assert_eq!(batch.len(), 6 + (3 << 20));
        queue.put(b"next\n");
        assert_eq!(queue.take(&mut batch), Some(0));
        assert_eq!(batch, b"next\n");
        queue.put(b"last\n");
        assert_eq!(queue.take(&mut batch), Some(0));
        let held = batch.capacity() + queue.waiting().bytes.capacity();
        assert!(held <= 2 * QUEUE_BYTES_MAX, "{held}");
    }

    #[test]
    fn panics_are_scrubbed() {
        if std::env::var_os(PANICS).is_some() {
            let mut secrets = Redactor::builder();
            secrets.add(&Secret::new("canary-7f3a".to_owned()));
            Log::to_stderr(Level::Error, secrets.build()).take_panics();
            panic!("token canary-7f3a is wrong");
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "diagnostics::log::tests::panics_are_scrubbed",
                "--nocapture",
            ])
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
