//! Runs programs and turns their outcomes into payloads. The only file that touches the language's evaluation API.
//!
//! Knows nothing of profiles or transports; truncation for a client happens later.

pub mod isolation;
pub mod pool;

use crate::call::Call;
use crate::clock;
use crate::evaluation::isolation::{Evaluation, EvaluationContext};
use crate::render::preview::PreviewBudget;
use crate::render::reason::{Refusal, SessionReason};
use crate::render::redact;
use crate::sessions::{CheckedTurn, Sessions, Turn, TurnEffects};
use crate::settings::Settings;
use crate::upstreams;
use ptc_lang::error::Limit;
use ptc_lang::heap::Account;
use ptc_lang::json::{Duplicates, JsonPathError, Problem, WriteError};
use ptc_lang::meter::Watch;
use ptc_lang::sink::SinkError;
use ptc_lang::value::Map;
use ptc_lang::{
    CompletedRun, Discovery, Ended, Env, Error, Host, HostFault, Limits, Meter, Outcome, Program,
    Pulse, Reason, Value,
};
use ptc_protocol::limits::{JSON_DEPTH_MAX, ProgramLimits};
use ptc_protocol::members::{Failure, Success};
use ptc_protocol::{
    ErrorReason, FormatOptions, Mismatch, NotJson, PreviewOptions, SchemaFault, Turns, Type,
    describe_mismatches, execution_feedback_within, format_value_within, json_schema_to_type,
    to_json_value, validate_return_within,
};
use ptc_protocol::{Field, Payload};
use ptc_rpc::Json;
use ptc_secrets::{Redactor, Scrubbed};
use ptc_upstream::{CallEntry, Cancel, ProgramCalls, Runtime};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Settings and services that all programs of a process share.
pub struct Programs {
    /// Wall-clock limit of one program in milliseconds.
    pub timeout_ms: u64,
    /// Memory limit of one program in bytes.
    pub memory_bytes: u64,
    /// Where programs are evaluated.
    pub evaluation: Evaluation,
    /// The upstream servers, if there are any.
    pub upstreams: Option<Arc<Runtime>>,
    /// Removes secrets from what programs show.
    pub redactor: Redactor,
}

impl Programs {
    /// As the settings say, on threads. A limit that is not set gets a default that depends on whether there are upstreams.
    pub fn new(settings: &Settings, redactor: Redactor, upstreams: Option<Arc<Runtime>>) -> Self {
        let default = ProgramLimits::of(upstreams.is_some());
        let timeout_ms = u64::try_from(default.timeout.as_millis()).unwrap_or(u64::MAX);
        Programs {
            timeout_ms: settings.program_timeout_ms.unwrap_or(timeout_ms),
            memory_bytes: settings
                .program_memory_bytes
                .unwrap_or(default.memory_bytes),
            evaluation: Evaluation::Thread,
            upstreams,
            redactor,
        }
    }
}

/// One program to run.
pub struct ProgramRun<'a> {
    pub program: &'a str,
    /// Its context, as compact JSON.
    pub context: Json<'a>,
    /// The type that its value must match.
    pub schema: Option<&'a OutputSchema>,
    /// The space for a preview of the matching value.
    pub room: PreviewBudget,
    pub programs: &'a Programs,
    /// The call that the program answers.
    pub call: &'a Arc<Call>,
}

/// The type that a returned value must match.
pub struct OutputSchema(Type);

/// Why an output schema is refused.
#[derive(Debug, thiserror::Error)]
pub enum OutputSchemaFault {
    #[error("argument `output_schema` is invalid: schema is nested too deeply")]
    TooDeep(#[from] serde_json::Error),
    #[error("argument `output_schema` is invalid: {0}")]
    NoType(#[from] SchemaFault),
}

/// Why a returned value does not match its schema. `Display` is the message of the `validation_error`.
#[derive(Debug, thiserror::Error)]
enum ReturnFault {
    #[error("{}", describe_mismatches(.0, Some("return")))]
    Type(Vec<Mismatch>),
    #[error("validated value: {0}")]
    TooDeep(NotJson),
    #[error("validated value: {0}")]
    NotJson(JsonPathError),
}

impl OutputSchema {
    /// Reads `output_schema`.
    ///
    /// # Errors
    /// [`OutputSchemaFault`].
    pub fn read(json: Option<&str>) -> Result<Option<Self>, OutputSchemaFault> {
        let Some(json) = json else { return Ok(None) };
        let expected = json_schema_to_type(&serde_json::from_str(json)?)?;
        Ok(Some(OutputSchema(expected)))
    }

    /// The JSON of a matching value.
    ///
    /// # Errors
    /// The limit that ends the program: matching and writing are a part of it.
    fn validated(
        &self,
        value: &Value,
        watch: &dyn Watch,
    ) -> Result<Result<String, ReturnFault>, Limit> {
        if let Err(mismatches) = validate_return_within(&self.0, value, watch)? {
            return Ok(Err(ReturnFault::Type(mismatches)));
        }
        // Perhaps deeper than any JSON reader accepts: a slow path looks for the place that is too deep.
        if value.shape().depth >= JSON_DEPTH_MAX
            && let Err(error) = to_json_value(value)
        {
            return Ok(Err(ReturnFault::TooDeep(error)));
        }
        match ptc_lang::json::to_string_within(value, usize::MAX, watch) {
            Ok(json) => Ok(Ok(json)),
            Err(WriteError::Sink(SinkError::Limit(limit))) => Err(limit),
            Err(WriteError::Sink(SinkError::Bytes)) => Err(Limit::Memory),
            Err(WriteError::Path(error)) => Ok(Err(ReturnFault::NotJson(error))),
        }
    }
}

/// Runs a program that keeps nothing.
pub fn run_once(job: &ProgramRun<'_>) -> Payload {
    metered(job, None, |running| {
        let shown = running.context(job.context).and_then(|context| {
            let env = Env::new().with_context(context);
            let ran = running.run(&env);
            conclude(job, running, ran.outcome)
        });
        let mut payload: Payload = match shown {
            Ok(Ok(success)) => success.into(),
            Ok(Err(failure)) => failure.into(),
            Err(limit) => limit_failure(limit, job.programs).into(),
        };
        upstreams::add(&mut payload, &running.entries(), false);
        payload
    })
}

/// The value as the call's schema requires, if it has one; otherwise the failure that says why it does not match.
fn validated(
    job: &ProgramRun<'_>,
    value: &Value,
    watch: &dyn Watch,
) -> Result<Result<Option<Field>, Failure>, Limit> {
    let Some(schema) = job.schema else {
        return Ok(Ok(None));
    };
    let json = match schema.validated(value, watch)? {
        Ok(json) => json,
        Err(fault) => {
            return Ok(Err(Failure::new(
                ErrorReason::ValidationError.name(),
                fault.to_string(),
            )));
        }
    };
    let preview = job.room.preview(&json, watch)?;
    watch.check_limits()?;
    Ok(Ok(Some(Field::Exact(json, preview))))
}

/// The result of a program that keeps nothing, without upstream calls.
fn conclude(
    job: &ProgramRun<'_>,
    running: &MeteredProgram<'_>,
    outcome: Outcome,
) -> Result<Result<Success, Failure>, Limit> {
    let redactor = &job.programs.redactor;
    let watch = running.meter;
    let value = match outcome.ended {
        Ended::Value(value) | Ended::Return(value) => value,
        Ended::Fail(value) => {
            return fail_failure(&*redact::value_within(&value, redactor, watch)?, watch).map(Err);
        }
        Ended::Error(error) => {
            return Ok(Err(error_failure(
                &error,
                running.hint(),
                job.program,
                job.programs,
            )));
        }
    };
    let validated = match validated(job, &value, watch)? {
        Ok(exact) => exact,
        Err(mismatch) => return Ok(Err(mismatch)),
    };
    let nothing = BTreeMap::new();
    let prints = redactor.scrub_lines_within(outcome.prints, &mut || watch.check_limits())?;
    let shown = execution_feedback_within(
        &*redact::value_within(&value, redactor, watch)?,
        &prints,
        &nothing,
        &nothing,
        Turns::Single,
        PreviewOptions::default(),
        watch,
    )?;
    let success = Success {
        validated,
        ..with_prompt(Success::new(&value, shown), redactor)
    };
    // A result that comes too late is a timeout, however well the program went.
    watch.check_limits()?;
    Ok(Ok(success))
}

/// The outcome of a program in a session.
pub enum TurnOutcome {
    /// It succeeded within all limits. Permanent once `checked` is committed.
    Kept {
        payload: Payload,
        checked: Box<CheckedTurn>,
    },
    /// It failed, or its result would break a limit or its schema.
    Failed(Payload),
    /// The session expired, or the call was cancelled.
    Cancelled,
}

/// Previews in a session are longer, because its programs build on each other.
const SESSION_PREVIEWS: PreviewOptions = PreviewOptions {
    preview_chars: 512,
    feedback_chars: 2048,
};

/// Runs a program in a session. Limits are checked before the schema; nothing is committed yet.
pub fn run_in_session(job: &ProgramRun<'_>, sessions: &Sessions, turn: &Turn) -> TurnOutcome {
    metered(job, Some(turn.session.expires), |running| {
        let turned = running
            .context(job.context)
            .and_then(|context| conclude_turn(job, sessions, turn, running, context));
        match turned {
            Ok(turned) => turned,
            Err(Limit::Cancelled) => TurnOutcome::Cancelled,
            Err(limit) => failure_without_prints(running, limit_failure(limit, job.programs)),
        }
    })
}

/// A program that failed in a session, with nothing of what it printed.
fn failure_without_prints(running: &MeteredProgram<'_>, failure: Failure) -> TurnOutcome {
    let prints = Some(Vec::new());
    rolled_back(running, Failure { prints, ..failure })
}

/// A failed turn of which nothing is kept.
fn rolled_back(running: &MeteredProgram<'_>, failure: Failure) -> TurnOutcome {
    let mut payload = Payload::from(failure);
    upstreams::add(&mut payload, &running.entries(), true);
    TurnOutcome::Failed(payload)
}

fn conclude_turn(
    job: &ProgramRun<'_>,
    sessions: &Sessions,
    turn: &Turn,
    running: &MeteredProgram<'_>,
    context: Map,
) -> Result<TurnOutcome, Limit> {
    let CompletedRun {
        outcome,
        before,
        after,
    } = running.run(&turn.session.env().clone().with_context(context));
    let (redactor, watch) = (&job.programs.redactor, running.meter);
    let value = match outcome.ended {
        Ended::Value(value) | Ended::Return(value) => value,
        Ended::Fail(value) => {
            let failure = fail_failure(&*redact::value_within(&value, redactor, watch)?, watch)?;
            return Ok(failure_without_prints(running, failure));
        }
        Ended::Error(error) if error.reason() == Reason::Cancelled => {
            return Ok(TurnOutcome::Cancelled);
        }
        Ended::Error(error) => {
            let failure = error_failure(&error, running.hint(), job.program, job.programs);
            return Ok(failure_without_prints(running, failure));
        }
    };
    let entries = running.entries();
    let prints = redactor.scrub_lines_within(outcome.prints, &mut || watch.check_limits())?;
    let visible = redact::value_within(&value, redactor, watch)?.into_owned();
    let shown = execution_feedback_within(
        &visible,
        &prints,
        &named(&after, redactor, watch)?,
        &named(&before, redactor, watch)?,
        Turns::Several,
        SESSION_PREVIEWS,
        watch,
    )?;
    let (tool_calls, upstream_calls) = upstreams::histories(&entries);
    let effects = TurnEffects {
        env: after,
        value: value.clone(),
        shown: visible,
        prints,
        tool_calls: redactor.scrub(tool_calls).into_inner(),
        upstream_calls: redactor.scrub(upstream_calls).into_inner(),
    };
    let checked = match sessions.check_limits(turn, effects, watch)? {
        Ok(checked) => checked,
        Err(exceeded) => {
            let message = "session persisted-state limit exceeded; eval was not committed";
            let failure = Failure::new(SessionReason::LimitExceeded.name(), message);
            let detail = Some(exceeded);
            return Ok(rolled_back(running, Failure { detail, ..failure }));
        }
    };
    let validated = match validated(job, &value, watch)? {
        Ok(exact) => exact,
        Err(mismatch) => return Ok(rolled_back(running, mismatch)),
    };
    let mut success = with_prompt(Success::with_memory(&value, shown), redactor);
    if let Some(memory) = &mut success.memory {
        memory.changed_keys = Some(memory.changed.keys().cloned().collect());
    }
    for notice in &checked.notices {
        let gap = if success.feedback.is_empty() {
            ""
        } else {
            "\n\n"
        };
        success
            .feedback
            .push_str(&format!("{gap};; {}", notice.message));
    }
    success.truncated |= !checked.notices.is_empty();
    let mut payload = Payload::from(Success {
        // A turn without a value still has the member.
        result: Some(success.result.unwrap_or_default()),
        validated,
        session: Some(checked.summary.clone()),
        history_notices: Some(checked.notices.clone()),
        ..success
    });
    upstreams::add(&mut payload, &entries, true);
    // A result that comes too late is a timeout, and keeps nothing.
    watch.check_limits()?;
    Ok(TurnOutcome::Kept {
        payload,
        checked: Box::new(checked),
    })
}

/// The definitions with secrets redacted.
fn named(
    env: &Env,
    redactor: &Redactor,
    watch: &dyn Watch,
) -> Result<BTreeMap<String, Value>, Limit> {
    env.definitions()
        .into_iter()
        .map(|(name, value, _)| {
            let shown = redact::value_within(value, redactor, watch)?;
            Ok((name.to_owned(), shown.into_owned()))
        })
        .collect()
}

/// The name of the span of a program, from reading its context to the last byte of its result.
const EVALUATION_SPAN: &str = "evaluation";

/// A program under its limits, from reading its context to the last byte of its result.
struct MeteredProgram<'a> {
    job: &'a ProgramRun<'a>,
    place: EvaluationContext<'a>,
    meter: &'a Meter<'a>,
    calls: Option<&'a ProgramCalls>,
}

/// Does `work` for a program within its memory limit, until its own deadline, or until `expires`, when the session ends without a reply.
fn metered<T>(
    job: &ProgramRun<'_>,
    expires: Option<Instant>,
    work: impl FnOnce(&MeteredProgram<'_>) -> T,
) -> T {
    let _evaluation =
        tracing::info_span!(EVALUATION_SPAN, "ptc.session" = expires.is_some()).entered();
    let programs = job.programs;
    let limits = limits(programs);
    let deadline = Instant::now() + Duration::from_millis(programs.timeout_ms);
    let calls = upstream_calls(programs, job.call, deadline);
    let host = CallHost::new(
        job.call,
        &programs.redactor,
        expires,
        deadline,
        calls.as_ref(),
    );
    let meter = Meter::new(&limits, &host);
    let done = meter.within(|| {
        work(&MeteredProgram {
            job,
            place: EvaluationContext {
                meter: &meter,
                limits: &limits,
                host: &host,
                deadline: deadline.into_std(),
                keeps: expires.is_some(),
                veil: &job.programs.redactor.veil(job.program),
            },
            meter: &meter,
            calls: calls.as_ref(),
        })
    });
    meter.trim();
    done
}

impl MeteredProgram<'_> {
    fn run(&self, env: &Env) -> CompletedRun {
        let program = Program::new(self.job.program);
        self.job.programs.evaluation.run(&program, env, &self.place)
    }

    /// The context object as a map. Its values are not charged, up to four times its bytes.
    fn context(&self, json: Json<'_>) -> Result<Map, Limit> {
        let free_bytes = json.text().len().saturating_mul(CONTEXT_FREE_TIMES);
        let map = self
            .meter
            .with_free_bytes(free_bytes, || read_context(json, self.meter))?;
        self.meter.check_limits()?;
        Ok(map)
    }

    /// The upstream calls so far.
    fn entries(&self) -> Vec<CallEntry> {
        self.calls.map(ProgramCalls::entries).unwrap_or_default()
    }

    /// The names of servers or tools, after a wrong name was used.
    fn hint(&self) -> Option<String> {
        self.calls.and_then(ProgramCalls::hint)
    }
}

/// Bytes of values per byte of a context that a program is not charged for (`limits.memory.context`).
const CONTEXT_FREE_TIMES: usize = 4;

fn limits(programs: &Programs) -> Limits {
    Limits {
        memory_bytes: programs.memory_bytes,
        ..Limits::default()
    }
}

/// The upstream side of a call, until `deadline` or the call's cancellation.
pub fn upstream_calls(
    programs: &Programs,
    call: &Arc<Call>,
    deadline: Instant,
) -> Option<ProgramCalls> {
    programs.upstreams.as_ref().map(|runtime| {
        let cancel = Cancel::default();
        let ending = cancel.clone();
        call.on_cancel(move || ending.cancel());
        ProgramCalls::new(runtime.clone(), Some(deadline), cancel)
            .with_trace_context(call.trace.clone())
    })
}

/// Runs one program of a planned task, and renders it within the same limits. Upstream calls count for the whole task.
///
/// # Errors
/// The limit that ended it while it was rendered.
pub fn planned(
    programs: &Programs,
    call: &Call,
    program: &str,
    env: &Env,
    calls: Option<&ProgramCalls>,
    deadline: Instant,
    conclude: ptc_agent::Conclude<'_>,
) -> Result<(), Limit> {
    let _evaluation = tracing::info_span!(EVALUATION_SPAN, "ptc.session" = false).entered();
    let host = CallHost::new(call, &programs.redactor, None, deadline, calls);
    let limits = limits(programs);
    let meter = Meter::new(&limits, &host);
    let place = EvaluationContext {
        meter: &meter,
        limits: &limits,
        host: &host,
        deadline: deadline.into_std(),
        keeps: true,
        veil: &programs.redactor.veil(program),
    };
    let concluded = meter.within(|| {
        let ran = programs.evaluation.run(&Program::new(program), env, &place);
        conclude(ran, &meter)?;
        meter.check_limits()
    });
    meter.trim();
    concluded
}

/// More memory than the limit of programs, in bytes.
#[derive(Debug, thiserror::Error)]
#[error("heap limit {0} bytes exceeded")]
pub struct HeapLimitExceeded(u64);

/// The context of a task. Each of the task's programs may hold as much again.
///
/// # Errors
/// When the context takes more memory than a program has.
pub fn task_context(programs: &Programs, json: Json<'_>) -> Result<Map, HeapLimitExceeded> {
    let limit = programs.memory_bytes;
    let free_bytes = json.text().len().saturating_mul(CONTEXT_FREE_TIMES) as u64;
    let account = Account::new(limit.saturating_add(free_bytes));
    account
        .within(|| read_context(json, &account))
        .map_err(|_| HeapLimitExceeded(limit))
}

/// The context object as a map. The text was validated when its frame was read; as everywhere in a frame, the first of duplicate keys
/// wins.
fn read_context(json: Json<'_>, watch: &dyn Watch) -> Result<Map, Limit> {
    match ptc_lang::json::build(json, Duplicates::First, watch) {
        Ok(Value::Map(map)) => Ok(map),
        Err(error) => match error.problem {
            Problem::Limit(limit) => Err(limit),
            // An integer too long to be converted counts as too much memory, as in arithmetic.
            Problem::Integer => Err(Limit::Memory),
            _ => Ok(Map::new()),
        },
        Ok(_) => Ok(Map::new()),
    }
}

/// The prefix of a result.
const PROMPT: &str = "user=> ";

/// Marks the prompt of a result as the server's own, so that it is not redacted.
fn with_prompt(success: Success, redactor: &Redactor) -> Success {
    let shown = success.result.as_ref().and_then(Field::as_text);
    match shown.and_then(|text| text.strip_prefix(PROMPT)) {
        Some(shown) => {
            let clean = Scrubbed::from(PROMPT).then(redactor.scrub(shown.to_owned()));
            Success {
                result: Some(Field::Clean(clean)),
                ..success
            }
        }
        None => success,
    }
}

/// Characters of a failed string that are shown.
const FAIL_STRING_CHARS: usize = 4096;
/// Characters of any other failed value that are shown: no envelope holds more.
const FAIL_CHARS: usize = 1 << 19;

/// The failure for `(fail v)`.
fn fail_failure(value: &Value, watch: &dyn Watch) -> Result<Failure, Limit> {
    use ptc_lang::print::{PREVIEW_ITEMS, preview_within};
    let text = match value {
        Value::Str(_) => {
            let options = FormatOptions {
                printable: Some(FAIL_STRING_CHARS),
                ..FormatOptions::default()
            };
            format_value_within(value, options, watch)?.text
        }
        _ => preview_within(value, PREVIEW_ITEMS, FAIL_CHARS, watch)?,
    };
    watch.check_limits()?;
    Ok(Failure {
        result: Some(text.clone().into()),
        ..Failure::new(ErrorReason::Fail.name(), text)
    })
}

/// The failure for a limit that was reached before or after the program ran.
fn limit_failure(limit: Limit, programs: &Programs) -> Failure {
    error_failure(&limit.kind().into_error(), None, "", programs)
}

/// Does `work` on values of programs, outside of a program but within the time and memory limits of one.
///
/// # Errors
/// The limit that was reached.
pub fn within_limits<T>(
    programs: &Programs,
    work: impl FnOnce(&dyn Watch) -> Result<T, Limit>,
) -> Result<T, Box<Failure>> {
    let limits = limits(programs);
    let host = DeadlineHost(std::time::Instant::now() + Duration::from_millis(programs.timeout_ms));
    let meter = Meter::new(&limits, &host);
    meter
        .within(|| work(&meter))
        .map_err(|limit| Box::new(limit_failure(limit, programs)))
}

/// A host that offers a clock and a deadline, and nothing else.
struct DeadlineHost(std::time::Instant);

impl Host for DeadlineHost {
    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn pulse(&self) -> Pulse {
        match std::time::Instant::now() >= self.0 {
            true => Pulse::TimedOut,
            false => Pulse::Continue,
        }
    }
}

/// Messages longer than this get no explanation in the feedback.
const EXPLAINED_BYTES_MAX: usize = 4 * 1024;

/// The failure for an error or a limit. Limits are named as the operator set them; after the message, the feedback says where in
/// `program` the error happened and what to do about it.
fn error_failure(
    error: &Error,
    hint: Option<String>,
    program: &str,
    programs: &Programs,
) -> Failure {
    let veil = programs.redactor.veil(program);
    let veil = |quoted: &str| veil.redact(quoted);
    let message = || error.redacted_message(&veil);
    let (reason, message) = match error.reason() {
        Reason::ParseError => (ErrorReason::ParseError, message()),
        Reason::RuntimeError => (ErrorReason::RuntimeError, message()),
        Reason::Timeout => {
            let limit = programs.timeout_ms;
            (
                ErrorReason::Timeout,
                format!("execution exceeded {limit}ms limit"),
            )
        }
        Reason::MemoryLimit => (
            ErrorReason::MemoryLimit,
            HeapLimitExceeded(programs.memory_bytes).to_string(),
        ),
        Reason::Cancelled => return Refusal::Cancelled.failure(),
    };
    let mut feedback = match hint {
        Some(hint) => format!("{message}. {hint}"),
        None => message.clone(),
    };
    if feedback.len() <= EXPLAINED_BYTES_MAX {
        let explained = error.explained(program, &veil);
        if !explained.is_empty() {
            feedback.push('\n');
            feedback.push_str(&explained);
        }
    }
    Failure::new(reason.name(), message).with_feedback(feedback)
}

/// The tool through which programs reach upstreams: `tool/call`.
const UPSTREAM_TOOL: &str = "call";

/// Prefixes a programmer's fault with its reason, as in every message of an upstream.
pub fn as_runtime_error(fault: HostFault) -> HostFault {
    match fault {
        HostFault::Raise {
            code: None,
            message,
        } => HostFault::Raise {
            code: None,
            message: format!("runtime_error: {message}"),
        },
        other => other,
    }
}

/// The host of one call: its clock, its cancellation and its upstream calls.
struct CallHost<'a> {
    call: &'a Call,
    redactor: &'a Redactor,
    expires: Option<Instant>,
    deadline: Instant,
    calls: Option<&'a ProgramCalls>,
    tool_names: Vec<String>,
}

impl<'a> CallHost<'a> {
    fn new(
        call: &'a Call,
        redactor: &'a Redactor,
        expires: Option<Instant>,
        deadline: Instant,
        calls: Option<&'a ProgramCalls>,
    ) -> Self {
        let tool_names = match calls {
            Some(_) => vec![UPSTREAM_TOOL.to_owned()],
            None => Vec::new(),
        };
        CallHost {
            call,
            redactor,
            expires,
            deadline,
            calls,
            tool_names,
        }
    }
}

impl Host for CallHost<'_> {
    fn tool_names(&self) -> &[String] {
        &self.tool_names
    }

    fn call(&self, tool: &str, args: &Value) -> Result<Value, HostFault> {
        match &self.calls {
            Some(calls) if tool == UPSTREAM_TOOL => calls.call(args).map_err(as_runtime_error),
            _ => Err(HostFault::unknown_tool(tool)),
        }
    }

    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let calls = self.calls.as_ref()?;
        Some(calls.discover(request).map_err(as_runtime_error))
    }

    fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize {
        // What a branch does belongs to the program's request, too.
        let span = tracing::Span::current();
        let worker = || span.in_scope(worker);
        #[cfg(feature = "checks")]
        if let Some(calls) = self.calls {
            return calls.run_workers(count, &worker);
        }
        ptc_lang::run_on_threads(count, &worker)
    }

    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn printed(&self, line: String) -> String {
        // Nobody reads the output of a program that has to stop.
        let mut look = || match self.pulse() {
            Pulse::Continue => Ok(()),
            stop => Err(stop),
        };
        match self.redactor.scrub_str_within(&line, &mut look) {
            Ok(Cow::Borrowed(_)) => line,
            Ok(Cow::Owned(clean)) => clean,
            Err(_) => String::new(),
        }
    }

    fn pulse(&self) -> Pulse {
        let _clock = self.calls.map(ProgramCalls::enter);
        let now = Instant::now();
        if self.call.is_cancelled() || self.expires.is_some_and(|expires| now >= expires) {
            Pulse::Cancelled
        } else if now >= self.deadline {
            Pulse::TimedOut
        } else {
            Pulse::Continue
        }
    }
}
