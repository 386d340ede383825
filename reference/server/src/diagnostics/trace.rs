//! Traces: one JSONL file per executed call. A full disk or a vanished directory costs a warning and no call.
//!
//! Knows nothing of how calls run; it is notified when they begin and end.

use crate::clock;
use crate::diagnostics::escape_control;
use crate::diagnostics::record::{self, CallInfo, ContextText};
use crate::settings::PayloadPolicy;
use crate::token;
use ptc_agent::PlannerRequest;
use ptc_protocol::digest;
use ptc_protocol::members::{
    CallStarted, CallStopped, PlannerMeasurements, PlannerTurn, StartMeasurements,
    StopMeasurements, TraceEvent, TraceStart, TraceStop, TracedCall, TracedProgram,
};
use ptc_protocol::{Field, Payload};
use ptc_secrets::{Redactor, SharedTime};
use ptc_upstream::TraceContext;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Writes traces into a directory.
pub struct Tracer {
    dir: PathBuf,
    policy: PayloadPolicy,
    files_max: usize,
    /// Number of files in the directory; `usize::MAX` before it was first counted.
    files: AtomicUsize,
    redactor: Redactor,
}

/// The trace of one running call.
pub struct Trace {
    file: Option<File>,
    /// Why it is no longer written.
    failure: Option<std::io::Error>,
    path: PathBuf,
    /// The key in the names of its files.
    key: String,
    trace_id: String,
    sequence: u64,
    started: Instant,
    redactor: Redactor,
    time: SharedTime,
}

/// Version of the line format.
const SCHEMA_VERSION: u64 = 2;

impl Tracer {
    /// A tracer into `dir`, which is created with the first trace.
    pub fn new(dir: &str, policy: PayloadPolicy, files_max: usize, redactor: Redactor) -> Self {
        Tracer {
            dir: PathBuf::from(dir),
            policy,
            files_max,
            files: AtomicUsize::new(usize::MAX),
            redactor,
        }
    }

    pub fn policy(&self) -> PayloadPolicy {
        self.policy
    }

    /// Begins the trace of a call: its first two lines.
    pub fn begin(&self, info: &CallInfo) -> Trace {
        let key = info.trace_key();
        let (file, path) = self.open(info.started_micros, &key);
        let mut trace = Trace {
            file,
            failure: None,
            path,
            trace_id: trace_id(info.trace.as_ref()),
            key,
            sequence: 0,
            started: info.started,
            redactor: self.redactor.clone(),
            time: info.time.clone(),
        };
        let query = info
            .program
            .as_deref()
            .map(|program| self.scrub_text(program))
            .unwrap_or_default();
        trace.line(TraceStart {
            data: Field::Null,
            event: "trace.start",
            producer: "ptc_lisp",
            query,
            schema_version: SCHEMA_VERSION,
            trace_id: trace.trace_id.clone(),
            trace_kind: "mcp_call",
            trace_label: info.id.clone().unwrap_or_default(),
        });
        let context = info.context.as_ref();
        let mut metadata = Payload::from(traced_call(info));
        metadata.add(CallStarted {
            context_bytes: context.map_or(0, |context| context.bytes),
            program_bytes: program_bytes(info),
            signature_present: false,
            context: context
                .filter(|_| self.policy == PayloadPolicy::Full)
                .map(ContextText::field),
        });
        for (name, value) in info.trace.iter().flat_map(TraceContext::fields) {
            metadata.set(name, value.to_owned());
        }
        trace.event("ptc_lisp.call.start", None, start_measurements(), metadata);
        trace
    }

    /// Records that a program begins to run.
    pub fn executing(&self, trace: &mut Trace, info: &CallInfo, aggregator: bool) {
        trace.event(
            "ptc_runner.lisp.execute.start",
            None,
            start_measurements(),
            traced_program(info, aggregator),
        );
    }

    /// Records that a program ended after `elapsed`.
    pub fn executed(
        &self,
        trace: &mut Trace,
        info: &CallInfo,
        aggregator: bool,
        elapsed: Duration,
        payload: &Payload,
    ) {
        let prints = match payload.get("prints") {
            Some(Field::List(prints)) => prints.len(),
            _ => 0,
        };
        let measurements = StopMeasurements {
            prints_count: Some(prints),
            result_bytes: Some(payload.text("result").map_or(0, str::len)),
            ..stop_measurements(elapsed)
        };
        trace.event(
            "ptc_runner.lisp.execute.stop",
            Some(elapsed),
            measurements,
            traced_program(info, aggregator),
        );
    }

    /// Records the planner's requests, one line each; with `texts` also the prompt and the reply, as the policy allows.
    pub fn planned(&self, trace: &mut Trace, requests: &[PlannerRequest], texts: bool) {
        for (turn, request) in requests.iter().enumerate() {
            let tokens = request.tokens.unwrap_or_default();
            let measurements = PlannerMeasurements {
                completion_bytes: request.completion_bytes,
                input_tokens: tokens.input,
                output_tokens: tokens.output,
                prompt_bytes: request.prompt_bytes,
            };
            let metadata = PlannerTurn {
                status: request.error.map_or("ok", |_| "error"),
                turn: turn + 1,
                reason: request.error.map(|reason| reason.name()),
                completion: texts.then(|| self.scrub_text(&request.completion)),
                prompt: texts.then(|| self.scrub_text(&request.prompt)),
            };
            let took = Duration::from_millis(request.duration_ms);
            trace.event("ptc_lisp.planner.stop", Some(took), measurements, metadata);
        }
    }

    /// Ends the trace of a call that was answered with `payload`, in full.
    pub fn end(&self, mut trace: Trace, info: &CallInfo, payload: &Payload) {
        let status = payload.text("status").unwrap_or("ok");
        let is_error = status == "error";
        let word = if is_error { "error" } else { "ok" };
        let mut metadata = Payload::from(traced_call(info));
        metadata.add(CallStopped {
            is_error,
            status: word,
            validated_present: payload.get("validated").is_some(),
            // The reason of a failure is a word of a closed list; a client's reason for closing a session is not.
            reason: payload
                .text("reason")
                .filter(|_| is_error)
                .map(|reason| Field::word(reason.to_owned())),
            result: (self.policy == PayloadPolicy::Full).then(|| payload.clone()),
        });
        let elapsed = trace.started.elapsed();
        trace.event(
            "ptc_lisp.call.stop",
            Some(elapsed),
            stop_measurements(elapsed),
            metadata,
        );
        self.stop(&mut trace);
        let done = self.dir.join(format!(
            "{}-{}-{word}.jsonl",
            file_time(clock::now_micros()),
            trace.key
        ));
        if trace.file.take().is_some()
            && let Err(error) = fs::rename(&trace.path, &done)
        {
            tracing::error!(event = "trace_rename_failed", reason = %error);
        }
    }

    /// Ends the trace of a call that nobody waits for; its file stays pending.
    pub fn abandon(&self, mut trace: Trace) {
        self.stop(&mut trace);
    }

    /// The newest finished trace with one of these keys.
    pub fn find(&self, keys: &[String]) -> Option<PathBuf> {
        let ends: Vec<String> = keys
            .iter()
            .flat_map(|key| ["ok", "error"].map(|word| format!("-{key}-{word}.jsonl")))
            .collect();
        self.list()
            .into_iter()
            .filter(|(path, _)| {
                path.to_str()
                    .is_some_and(|path| ends.iter().any(|end| path.ends_with(end)))
            })
            .max_by_key(|(_, modified)| *modified)
            .map(|(path, _)| path)
    }

    /// The text of a trace file; `None` if it is longer than `bytes_max`, or not a regular file.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Option<String> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut text = String::new();
        // It may grow meanwhile.
        file.take(bytes_max.saturating_add(1))
            .read_to_string(&mut text)
            .ok()?;
        (text.len() as u64 <= bytes_max).then_some(text)
    }

    /// A text of a call as the policy allows: the text itself, or its size and digest.
    fn scrub_text(&self, text: &str) -> String {
        match self.policy {
            PayloadPolicy::Full => text.to_owned(),
            PayloadPolicy::None | PayloadPolicy::Summary => {
                Payload::from(record::digest_of(text)).to_json()
            }
        }
    }

    /// Creates the file for a call that began at `micros`. An existing file or link of that name is not a trace of this call; the time in
    /// the name is then increased a little.
    fn open(&self, micros: i64, key: &str) -> (Option<File>, PathBuf) {
        /// Calls with the same id that may begin at the same time.
        const TRIES: i64 = 16;
        let named = |later: i64| {
            let time = file_time(micros + later);
            self.dir.join(format!("{time}-{key}-pending.jsonl"))
        };
        if let Err(error) = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
        {
            tracing::error!(
                event = "trace_dir_create_failed",
                reason = %error,
                trace_dir = %self.dir.display(),
            );
            return (None, named(0));
        }
        self.make_room();
        let mut last = None;
        for later in 0..TRIES {
            let path = named(later);
            let new = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match new {
                Ok(file) => {
                    self.files.fetch_add(1, Ordering::Relaxed);
                    return (Some(file), path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => {
                    last = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = last {
            tracing::error!(event = "trace_open_failed", reason = %error);
        }
        (None, named(0))
    }

    /// Deletes the oldest files so that one more fits.
    fn make_room(&self) {
        if self.files.load(Ordering::Relaxed) < self.files_max {
            return;
        }
        let mut files = self.list();
        files.sort_by(|left, right| (left.1, &left.0).cmp(&(right.1, &right.0)));
        let surplus = (files.len() + 1).saturating_sub(self.files_max);
        let mut left = files.len();
        for (path, _) in files.into_iter().take(surplus) {
            match fs::remove_file(&path) {
                Ok(()) => left -= 1,
                // Another call deleted it first.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => left -= 1,
                Err(error) => tracing::warn!(event = "trace_evict_failed", reason = %error),
            }
        }
        self.files.store(left, Ordering::Relaxed);
    }

    fn list(&self) -> Vec<(PathBuf, SystemTime)> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "jsonl")
            })
            .filter_map(|path| {
                // Links and pipes are not our files.
                let data = fs::symlink_metadata(&path)
                    .ok()
                    .filter(fs::Metadata::is_file)?;
                let modified = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                Some((path, modified))
            })
            .collect()
    }

    /// Writes the last line, and logs once if lines could not be written.
    fn stop(&self, trace: &mut Trace) {
        trace.stop();
        if let Some(error) = trace.failure.take() {
            tracing::error!(event = "trace_write_failed", reason = %error);
        }
    }
}

impl Trace {
    /// The trace id, 32 hex digits.
    pub fn id(&self) -> &str {
        &self.trace_id
    }

    fn event(
        &mut self,
        event: &'static str,
        duration: Option<Duration>,
        measurements: impl Into<Payload>,
        metadata: impl Into<Payload>,
    ) {
        self.line(TraceEvent {
            event,
            measurements: measurements.into(),
            metadata: metadata.into(),
            duration_ms: duration.map(millis),
        });
    }

    fn stop(&mut self) {
        self.line(TraceStop {
            duration_ms: millis(self.started.elapsed()),
            event: "trace.stop",
            schema_version: SCHEMA_VERSION,
            trace_id: self.trace_id.clone(),
        });
    }

    fn line(&mut self, line: impl Into<Payload>) {
        let Some(file) = &mut self.file else { return };
        let mut line = line.into();
        line.set("seq", self.sequence)
            .set("timestamp", clock::now_text());
        self.sequence += 1;
        let scrub = |redactor: &Redactor| redactor.scrub(line).to_json();
        let mut text = escape_control(self.time.spend(&self.redactor, scrub));
        text.push('\n');
        if let Err(error) = file.write_all(text.as_bytes()) {
            // The disk is full or gone; the call continues without its trace.
            self.file = None;
            self.failure = Some(error);
        }
    }
}

fn traced_call(info: &CallInfo) -> TracedCall {
    let (owner, session) = info.transport.clone().unzip();
    TracedCall {
        protocol_version: info.revision,
        request_id: info.id.clone().unwrap_or_default(),
        tool_name: named(info),
        transport: owner.as_ref().map(|_| "http"),
        transport_request_id: owner.as_ref().map(|_| info.transport_request_id.clone()),
        mcp_session_hash: session.map(Field::word),
        owner_hash: owner.map(Field::word),
    }
}

fn program_bytes(info: &CallInfo) -> usize {
    info.program.as_deref().map_or(0, str::len)
}

/// The name of a tool as called: one of the server's own, or whatever the client sent.
fn named(info: &CallInfo) -> Field {
    match info.known {
        Some(own) => own.into(),
        None => Field::Text(info.tool.clone()),
    }
}

fn traced_program(info: &CallInfo, aggregator: bool) -> TracedProgram {
    TracedProgram {
        caller: "mcp",
        profile: match aggregator {
            true => "mcp_aggregator",
            false => "mcp_no_tools",
        },
        program_bytes: program_bytes(info),
        signature_supplied: false,
    }
}

fn start_measurements() -> StartMeasurements {
    StartMeasurements {
        monotonic_time: monotonic(),
        system_time: clock::now_micros().saturating_mul(1000),
    }
}

fn stop_measurements(elapsed: Duration) -> StopMeasurements {
    StopMeasurements {
        duration: i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX),
        monotonic_time: monotonic(),
        ..StopMeasurements::default()
    }
}

/// Nanoseconds since the first trace of the process.
fn monotonic() -> i64 {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    i64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn file_time(micros: i64) -> String {
    clock::text(micros).replace(':', "-")
}

/// The trace id of the client's trace context, or a new one.
fn trace_id(trace: Option<&TraceContext>) -> String {
    match trace {
        Some(trace) => trace.trace_id().to_owned(),
        None => digest::hex(token::random(24).as_bytes())[..32].to_owned(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn full_disk_ends_the_trace_and_is_reported() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut trace = Trace {
            file: Some(file),
            failure: None,
            path: PathBuf::new(),
            key: String::new(),
            trace_id: String::new(),
            sequence: 0,
            started: Instant::now(),
            redactor: Redactor::empty(),
            time: SharedTime::new(Duration::ZERO),
        };
        trace.stop();
        trace.stop();
        assert!(trace.file.is_none());
        assert_eq!(
            trace.failure.map(|error| error.kind()),
            Some(std::io::ErrorKind::StorageFull)
        );
    }
}
