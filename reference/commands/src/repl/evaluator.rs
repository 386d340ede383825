//! The evaluations of one REPL: persistent definitions, limits per evaluation, upstreams if configured, rendered
//! output.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

use nix::errno::Errno;
use ptc_lang::form::Span;
use ptc_lang::json::{JsonPathError, WriteError};
use ptc_lang::meter::Unwatched;
use ptc_lang::sink::{Sink, SinkError};
use ptc_lang::snapshot::Error as SnapshotError;
use ptc_lang::value::Map;
use ptc_lang::{
    Discovery, Ended, Env, Host, HostFault, Limits, Outcome, Program, Pulse, Reason, Value, print,
};
use ptc_outbound::executor;
use ptc_protocol::Payload;
use ptc_protocol::members::{ReplResult, UpstreamCall};
use ptc_secrets::{ConfigDocument, ConfigFault, FileError, Redactor, SCRUB_TIME_MAX, Veil};
use ptc_upstream::{
    CallEntry, Cancel, CatalogMode, ConfiguredUpstreams, ProgramCalls, Runtime, StartFault,
};

use super::options::{Display, EvaluationArguments};
use crate::environment;
use crate::interrupt::Interrupts;
use ptc_server::as_runtime_error;
use ptc_server::clock;
use ptc_server::redact;
use ptc_server::{SNAPSHOT_BYTES_MAX, SnapshotDeadline};

/// Stack size of the evaluating thread.
const STACK_BYTES: usize = 16 << 20;

/// The message for a program that a signal ended.
pub const INTERRUPTED: &str = "a signal ended the program";

/// The output of an evaluation.
pub struct Shown {
    /// The printed lines.
    pub prints: Vec<String>,
    /// The value, or the error message.
    pub text: String,
    pub ok: bool,
}

/// Why upstreams can't be started.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamStartError {
    #[error(transparent)]
    Config(#[from] ConfigFault),
    #[error("no I/O runtime: {0}")]
    Executor(std::io::Error),
    #[error(transparent)]
    Start(#[from] StartFault),
}

/// Why definitions are not saved or restored.
#[derive(Debug, thiserror::Error)]
#[error("Error {doing} {path}: {cause}")]
pub struct SessionFileError {
    doing: &'static str,
    path: String,
    cause: SessionFileFault,
}

impl SessionFileError {
    pub fn saving(path: &str, cause: SessionFileFault) -> Self {
        SessionFileError {
            doing: "saving",
            path: path.to_owned(),
            cause,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SessionFileFault {
    #[error("it is no regular file")]
    NotRegular,
    /// No file can be created in the directory.
    #[error("{}: {}", directory.display(), errno.desc())]
    Directory { directory: PathBuf, errno: Errno },
    #[error(transparent)]
    Read(#[from] FileError),
    #[error(transparent)]
    Write(#[from] std::io::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Why a value is not shown.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(
        "the value's text is longer than the memory limit of {bytes_max} bytes; show a part of it"
    )]
    TooLong { bytes_max: u64 },
    #[error("no JSON form: {0}")]
    NoJson(JsonPathError),
}

/// Evaluates one text after the other.
pub struct Evaluator {
    env: Env,
    limits: Limits,
    timeout: Duration,
    upstreams: Option<(tokio::runtime::Runtime, Arc<Runtime>)>,
    redactor: Redactor,
    /// The file that stores the definitions.
    pub session: Option<String>,
    /// Signals that end programs.
    pub interrupts: Interrupts,
    /// How values are shown.
    pub display: Display,
    /// Whether long values are abbreviated.
    pub abbreviate: bool,
    /// Whether input is typed: errors then show their position.
    pub typed: bool,
    /// Whether documentation is shown as text.
    pub shows_documents: bool,
}

impl Evaluator {
    /// Starts the upstreams, if any.
    ///
    /// # Errors
    /// The upstreams can't be started.
    pub fn start(
        arguments: &EvaluationArguments,
        catalog: CatalogMode,
    ) -> Result<Self, UpstreamStartError> {
        let interrupts = Interrupts::watch();
        let upstreams = match arguments.config() {
            None => None,
            Some(path) => Some(start_upstreams(&path, arguments, catalog)?),
        };
        let program = arguments.program_limits(upstreams.is_some());
        let redactor = match &upstreams {
            Some((_, runtime)) => runtime.redactor().clone(),
            None => Redactor::empty(),
        };
        for warning in upstreams.iter().flat_map(|(_, runtime)| runtime.warnings()) {
            crate::print_error(format_args!("warning: {warning}"));
        }
        let clean = redactor.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let told = panic.to_string();
            crate::print_error(clean.scrub_str(&told));
        }));
        Ok(Self {
            env: Env::new(),
            limits: Limits {
                memory_bytes: program.memory_bytes,
                ..Limits::default()
            },
            timeout: program.timeout,
            upstreams,
            redactor,
            session: None,
            interrupts,
            display: Display::Value,
            abbreviate: false,
            typed: false,
            shows_documents: false,
        })
    }

    /// The outcome of a program, neither stored nor scrubbed, and a hint for a program that failed.
    pub fn outcome_of(&self, text: &str, context: Map) -> (Outcome, Option<String>) {
        let env = Env::new().with_context(context);
        let evaluate = || {
            let (outcome, _, host) = self.outcome(text, &env);
            (outcome, host.calls.as_ref().and_then(ProgramCalls::hint))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            match thread.spawn_scoped(scope, evaluate) {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => evaluate(),
            }
        })
    }

    /// Saves the definitions and the last results to a file that only its owner can read.
    ///
    /// # Errors
    /// Why saving failed. An existing file is then unchanged.
    pub fn save(&self, path: &str) -> Result<(), SessionFileError> {
        save(&self.env, path)
    }

    /// Saves the current definitions before a signal ends the process.
    fn save_before_exit(&self) {
        if let Some(path) = self.session.clone() {
            let (env, redactor) = (self.env.clone(), self.redactor.clone());
            self.interrupts.set_exit_hook(move || {
                if let Err(error) = save(&env, &path) {
                    crate::print_error(redactor.scrub_str(&error.to_string()));
                }
            });
        }
    }

    /// Replaces the definitions by those that [`Evaluator::save`] wrote.
    ///
    /// # Errors
    /// Why restoring failed. Everything is then unchanged.
    pub fn restore(&mut self, path: &str) -> Result<(), SessionFileError> {
        let failed = |cause| SessionFileError {
            doing: "restoring",
            path: path.to_owned(),
            cause,
        };
        let bytes = ptc_secrets::read_file(path, SNAPSHOT_BYTES_MAX as u64)
            .map_err(|error| failed(error.into()))?;
        let limits = Limits {
            memory_bytes: self.limits.memory_bytes.saturating_mul(4),
            ..self.limits.clone()
        };
        self.env = Env::restore(&bytes, &limits, &SnapshotDeadline::start())
            .map_err(|error| failed(error.into()))?;
        self.save_before_exit();
        Ok(())
    }

    /// The value with secrets scrubbed.
    pub fn clean<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        redact::value(value, &self.redactor.with_time_limit(SCRUB_TIME_MAX))
    }

    /// The value in the language's syntax.
    ///
    /// # Errors
    /// The text is longer than a program's memory: shared parts are written each time.
    pub fn readable(&self, value: &Value) -> Result<String, RenderError> {
        self.bounded(|out| print::write_readable(out, value))
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// See [`Self::readable`]; or the value has no JSON form.
    pub fn json(&self, value: &Value) -> Result<String, RenderError> {
        match ptc_lang::json::to_string_within(value, self.text_bytes_max(), &Unwatched) {
            Ok(text) => Ok(text),
            Err(WriteError::Path(error)) => Err(RenderError::NoJson(error)),
            Err(WriteError::Sink(_)) => Err(self.too_long()),
        }
    }

    fn bounded(
        &self,
        write: impl FnOnce(&mut Sink<'_>) -> Result<(), SinkError>,
    ) -> Result<String, RenderError> {
        let mut out = Sink::new(String::new(), self.text_bytes_max(), &Unwatched);
        match write(&mut out) {
            Ok(()) => Ok(out.into_text()),
            Err(_) => Err(self.too_long()),
        }
    }

    fn text_bytes_max(&self) -> usize {
        usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX)
    }

    fn too_long(&self) -> RenderError {
        RenderError::TooLong {
            bytes_max: self.limits.memory_bytes,
        }
    }

    /// Decides what messages may quote from `program`.
    pub fn veil<'r>(&'r self, program: &'r str) -> Veil<'r> {
        self.redactor.veil(program)
    }

    /// The text with secrets scrubbed.
    pub fn scrubbed(&self, text: &str) -> String {
        self.redactor.scrub_str(text).into_owned()
    }

    /// Evaluates a program; its definitions are kept if it succeeds.
    pub fn evaluate(&mut self, text: &str) -> Shown {
        // Deep programs need a larger stack than a main thread may have.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            match thread
                .spawn_scoped(scope, || self.run(text))
                .map(std::thread::ScopedJoinHandle::join)
            {
                Ok(Ok(shown)) => shown,
                _ => failure("internal error", "the evaluation could not be run"),
            }
        })
    }

    /// Evaluates a lookup outside of the session: it does not see the session's definitions and stores nothing.
    /// Returns the text or texts of its result; none when it fails.
    pub fn look_up(&self, text: &str) -> Vec<String> {
        let (outcome, _, _) = self.outcome(text, &Env::new());
        let Ended::Value(value) = outcome.ended else {
            return Vec::new();
        };
        let clean = |value: &Value| match value {
            Value::Str(text) => Some(self.redactor.scrub_str(text.as_str()).into_owned()),
            _ => None,
        };
        match &value {
            Value::Vector(values) => values.iter().filter_map(clean).collect(),
            value => clean(value).into_iter().collect(),
        }
    }

    /// The catalog of the upstreams; `None` without upstreams.
    pub fn catalog(&self) -> Option<String> {
        self.upstreams
            .as_ref()
            .map(|(_, runtime)| runtime.catalog_text().into_inner())
    }

    /// Names for completion: definitions and configured upstreams.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .env
            .definitions()
            .iter()
            .map(|(name, _, _)| (*name).to_owned())
            .collect();
        if let Some((_, runtime)) = &self.upstreams {
            names.extend(["tool/call", "tool/servers"].map(str::to_owned));
            names.extend(runtime.names().map(str::to_owned));
        }
        names
    }

    pub fn end(&self) {
        if let Some((executor, runtime)) = &self.upstreams {
            executor.block_on(runtime.shutdown());
        }
    }

    fn outcome(&self, text: &str, env: &Env) -> (Outcome, Env, PromptHost) {
        let deadline = Instant::now() + self.timeout;
        let cancel = self.interrupts.begin();
        let calls = self.upstreams.as_ref().map(|(_, runtime)| {
            ProgramCalls::new(Arc::clone(runtime), Some(deadline), cancel.clone())
        });
        let host = PromptHost {
            redactor: self.redactor.clone(),
            calls,
            deadline,
            cancel,
        };
        let (outcome, env) = ptc_lang::run(&Program::new(text), env, &self.limits, &host);
        self.interrupts.finish();
        (outcome, env, host)
    }

    fn run(&mut self, text: &str) -> Shown {
        let (outcome, env, host) = self.outcome(text, &self.env);
        let entries = host
            .calls
            .as_ref()
            .map(ProgramCalls::entries)
            .unwrap_or_default();
        let hint = host.calls.as_ref().and_then(ProgramCalls::hint);
        let mut shown = match outcome.ended {
            Ended::Value(value) | Ended::Return(value) => {
                self.env = env;
                self.env.remember(value.clone());
                self.save_before_exit();
                let redactor = self.redactor.with_time_limit(SCRUB_TIME_MAX);
                let value = redact::value(&value, &redactor);
                let shown = match &*value {
                    Value::Str(doc)
                        if self.shows_documents
                            && self.display == Display::Value
                            && asks_doc(text) =>
                    {
                        Ok(doc.as_str().to_owned())
                    }
                    value => self.render(value, &outcome.prints, &entries),
                };
                match shown {
                    Ok(text) => Shown {
                        prints: Vec::new(),
                        text,
                        ok: true,
                    },
                    Err(error) => failure("memory limit", &error.to_string()),
                }
            }
            Ended::Fail(value) => {
                let redactor = self.redactor.with_time_limit(SCRUB_TIME_MAX);
                let value = redact::value(&value, &redactor);
                let value = self.readable(&value);
                failure("fail", &value.unwrap_or_else(|error| error.to_string()))
            }
            Ended::Error(error) => {
                let masks = self.redactor.veil(text);
                let veil = |quoted: &str| masks.redact(quoted);
                let mut message = error.redacted_message(&veil);
                match error.reason() {
                    Reason::Timeout => {
                        message =
                            format!("execution exceeded {}ms limit", self.timeout.as_millis());
                    }
                    Reason::Cancelled => message = INTERRUPTED.to_owned(),
                    _ => {}
                }
                if let Some(hint) = hint {
                    message = format!("{message}\n{hint}");
                }
                let explained = error.explained(text, &veil);
                if !explained.is_empty() {
                    message = format!("{message}\n{explained}");
                }
                if self.typed
                    && let Some(span) = error.span_in(text)
                    && let Some(place) = caret(&masks.masked_program(), span)
                {
                    message = format!("{message}\n{place}");
                }
                failure(&error.code().replace('_', " "), &message)
            }
        };
        if !(shown.ok && self.display == Display::Envelope) {
            shown.prints = outcome.prints;
        }
        // The result is shown below the printed lines.
        let mut lines = std::mem::take(&mut shown.prints);
        lines.push(shown.text);
        lines = self.redactor.scrub_lines(lines);
        shown.text = lines.pop().unwrap_or_default();
        shown.prints = lines;
        shown
    }

    fn render(
        &self,
        value: &Value,
        prints: &[String],
        entries: &[CallEntry],
    ) -> Result<String, RenderError> {
        match self.display {
            Display::Json => self.json(value).or_else(|error| {
                let readable = self.readable(value)?;
                Ok(format!("{readable}  ; {error}"))
            }),
            Display::Envelope => {
                let calls: Vec<UpstreamCall> = entries.iter().map(CallEntry::call).collect();
                let shown = ReplResult {
                    prints: prints.to_vec(),
                    result: self.readable(value)?,
                    upstream_calls: calls,
                };
                Ok(Payload::from(shown).to_json())
            }
            Display::Value if self.abbreviate => {
                self.bounded(|out| print::write_preview(out, value, print::PREVIEW_ITEMS))
            }
            Display::Value => self.readable(value),
        }
    }
}

/// Saves the definitions of `env` and the last results to a file that only its owner can read.
fn save(env: &Env, path: &str) -> Result<(), SessionFileError> {
    let failed = |cause| SessionFileError::saving(path, cause);
    // The file is replaced by a new one.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(failed(SessionFileFault::NotRegular));
    }
    let bytes = env
        .snapshot(SNAPSHOT_BYTES_MAX, &SnapshotDeadline::start())
        .map_err(|error| failed(error.into()))?;
    crate::replace_private_file(path, &bytes).map_err(|error| failed(error.into()))
}

/// Whether a program is a single call of `doc`.
fn asks_doc(text: &str) -> bool {
    let text = text.trim();
    let argument = text
        .strip_prefix("(doc")
        .and_then(|rest| rest.strip_suffix(')'));
    let argument = argument.filter(|rest| rest.starts_with(char::is_whitespace));
    argument
        .is_some_and(|rest| !rest.contains(['(', ')']) || rest.trim_start().starts_with("(quote"))
}

/// The line in which a span begins, with carets below the span.
fn caret(text: &str, span: Span) -> Option<String> {
    let (start, end) = (span.start as usize, span.end as usize);
    let before = text.get(..start)?;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let marked = text.get(start..end.min(begin + line.len()))?;
    let indent: String = text[begin..start]
        .chars()
        .map(|c| if c == '\t' { c } else { ' ' })
        .collect();
    let carets = "^".repeat(marked.chars().count().max(1));
    Some(format!("  {line}\n  {indent}{carets}"))
}

fn failure(reason: &str, message: &str) -> Shown {
    Shown {
        prints: Vec::new(),
        text: format!("Error ({reason}): {message}"),
        ok: false,
    }
}

fn start_upstreams(
    path: &std::path::Path,
    arguments: &EvaluationArguments,
    catalog: CatalogMode,
) -> Result<(tokio::runtime::Runtime, Arc<Runtime>), UpstreamStartError> {
    let document = ConfigDocument::read(path, &environment)?;
    let executor = executor::with_threads(2).map_err(UpstreamStartError::Executor)?;
    let settings = ptc_upstream::UpstreamOptions {
        snapshot: arguments.snapshot,
        limits: arguments.limits.clone(),
        catalog,
        own: std::env::current_exe().into_iter().collect(),
        platform: ptc_server::upstreams::platform(),
        ..ptc_upstream::UpstreamOptions::default()
    };
    let mut secrets = Redactor::builder();
    let configured = ConfiguredUpstreams::read(&document, settings, &mut secrets, &environment)?;
    let started = executor
        .block_on(configured.start(secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX)));
    Ok((executor, started?))
}

/// The host of one evaluation at the prompt.
struct PromptHost {
    redactor: Redactor,
    calls: Option<ProgramCalls>,
    deadline: Instant,
    cancel: Cancel,
}

impl Host for PromptHost {
    fn tool_names(&self) -> &[String] {
        static NAMES: OnceLock<Vec<String>> = OnceLock::new();
        match self.calls {
            Some(_) => NAMES.get_or_init(|| vec!["call".to_owned()]),
            None => &[],
        }
    }

    fn call(&self, tool: &str, args: &Value) -> Result<Value, HostFault> {
        match &self.calls {
            Some(calls) => calls.call(args).map_err(as_runtime_error),
            None => Err(HostFault::unknown_tool(tool)),
        }
    }

    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let calls = self.calls.as_ref()?;
        Some(calls.discover(request).map_err(as_runtime_error))
    }

    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn printed(&self, line: String) -> String {
        self.redactor.scrub(line).into_inner()
    }

    fn pulse(&self) -> Pulse {
        if self.cancel.is_cancelled() {
            Pulse::Cancelled
        } else if Instant::now() >= self.deadline {
            Pulse::TimedOut
        } else {
            Pulse::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_point_at_the_span() {
        let check = |text: &str, part: &str| {
            let start = text.find(part).expect("it is there");
            let span = Span {
                start: start as u32,
                end: (start + part.len()) as u32,
            };
            caret(text, span).expect("a place")
        };
        assert_eq!(check("(bad-fn 1)", "bad-fn"), "  (bad-fn 1)\n   ^^^^^^");
        assert_eq!(check("(+ 1\n\tx)\n", "x"), "  \tx)\n  \t^");
        assert_eq!(check("(é x\n y)", "x\n y"), "  (é x\n     ^");
    }

    #[test]
    fn single_doc_call_is_recognised() {
        for text in ["(doc 'map)", " (doc \"map\") ", "(doc (quote map))"] {
            assert!(asks_doc(text), "{text}");
        }
        for text in [
            "(docs 'map)",
            "(doc)",
            "(str (doc 'map))",
            "(doc 'a) (doc 'b)",
            "doc",
        ] {
            assert!(!asks_doc(text), "{text}");
        }
    }
}
