//! Runs programs and turns their outcomes into payloads. The only file that touches the language's evaluation API.
//!
//! Knows nothing of profiles or transports; what is cut for a client is cut later.

use crate::clock;
use crate::connection::Call;
use crate::payload::{Field, Payload};
use crate::reason::{Refusal, error_payload};
use crate::redact;
use crate::server::Server;
use crate::sessions::{Leaving, Ready, Turn};
use crate::upstreams;
use ptc_lang::json::Duplicates;
use ptc_lang::value::Map;
use ptc_lang::{
    Branching, Discovery, Ended, Env, Error, Host, HostFault, Limits, Outcome, Program, Pulse,
    Reason, Value,
};
use ptc_protocol::{
    ErrorReason, Execution, FormatOptions, PreviewOptions, Turns, Type, describe_mismatches,
    execution_feedback, format_value, json_schema_to_type, to_json_value, validate_return,
};
use ptc_secrets::Redactor;
use ptc_upstream::{Cancel, Entry, ProgramCalls};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One program to run.
pub struct Job<'a> {
    /// Its text.
    pub program: &'a str,
    /// Its context as compact JSON.
    pub context: &'a str,
    /// What its value must match.
    pub schema: Option<&'a Schema>,
    /// The process.
    pub server: &'a Arc<Server>,
    /// The call that it answers.
    pub call: &'a Arc<Call>,
}

/// What a returned value must match.
pub struct Schema(Type);

impl Schema {
    /// Reads `output_schema`.
    ///
    /// # Errors
    /// The message of the refusal.
    pub fn read(json: Option<&str>) -> Result<Option<Self>, String> {
        let Some(json) = json else { return Ok(None) };
        let invalid = |reason: String| format!("argument `output_schema` is invalid: {reason}");
        let tree = serde_json::from_str(json)
            .map_err(|_| invalid("schema is nested too deeply".into()))?;
        json_schema_to_type(&tree)
            .map(|expected| Some(Schema(expected)))
            .map_err(invalid)
    }

    /// The JSON of a value that matches.
    ///
    /// # Errors
    /// The message of the `validation_error`.
    fn validated(&self, value: &Value) -> Result<String, String> {
        validate_return(&self.0, value)
            .map_err(|mismatches| describe_mismatches(&mismatches, Some("return")))?;
        to_json_value(value)
            .map(|json| json.to_string())
            .map_err(|error| format!("validated value: {error}"))
    }
}

/// Runs a program that keeps nothing.
pub fn one_shot(job: &Job<'_>) -> Payload {
    let env = Env::new().with_context(context(job.context));
    let ran = evaluate(job, &env, None);
    let entries = ran.entries;
    let mut payload = conclude(job, ran.outcome, ran.hint);
    upstreams::add(&mut payload, &entries, false);
    payload
}

/// The payload of a program that keeps nothing, upstream calls aside.
fn conclude(job: &Job<'_>, outcome: Outcome, hint: Option<String>) -> Payload {
    let redactor = &job.server.redactor;
    let value = match outcome.ended {
        Ended::Value(value) | Ended::Return(value) => value,
        Ended::Fail(value) => return failed(&redact::value(&value, redactor)),
        Ended::Error(error) => return errored(&error, hint, job.server),
    };
    let validated = match job
        .schema
        .map(|schema| schema.validated(&value))
        .transpose()
    {
        Ok(validated) => validated,
        Err(message) => return error_payload(ErrorReason::ValidationError.as_str(), message, None),
    };
    let nothing = BTreeMap::new();
    let prints = redactor.scrub(outcome.prints).into_inner();
    let shown = execution_feedback(
        &redact::value(&value, redactor),
        &prints,
        &nothing,
        &nothing,
        Turns::Single,
        PreviewOptions::default(),
    );
    let mut payload = success(&value, shown);
    if let Some(json) = validated {
        payload.set("validated", Field::Exact(json));
    }
    payload
}

/// What came of a program in a session.
pub enum Turned {
    /// It succeeded, within all limits. Permanent once `ready` is committed.
    Kept {
        /// The full payload.
        payload: Payload,
        /// What to commit.
        ready: Box<Ready>,
    },
    /// It failed, or what it would leave breaks a limit or its schema.
    Failed(Payload),
    /// The session's life ended, or its call was cancelled.
    Over,
}

/// Previews of a session are longer: its programs build on each other.
const SESSION_PREVIEWS: PreviewOptions = PreviewOptions {
    preview_chars: 512,
    feedback_chars: 2048,
};

/// Runs a program in a session. Limits are judged first, then the schema; nothing is kept yet.
pub fn in_session(job: &Job<'_>, turn: &Turn) -> Turned {
    let before = turn.session.env();
    let env = before.clone().with_context(context(job.context));
    let Ran {
        outcome,
        env: after,
        entries,
        hint,
    } = evaluate(job, &env, Some(turn.session.expires));
    let rolled_back = |mut payload: Payload| {
        upstreams::add(&mut payload, &entries, true);
        Turned::Failed(payload)
    };
    let redactor = &job.server.redactor;
    let no_prints = || Field::List(Vec::new());
    let value = match outcome.ended {
        Ended::Value(value) | Ended::Return(value) => value,
        Ended::Fail(value) => {
            return rolled_back(
                failed(&redact::value(&value, redactor)).with("prints", no_prints()),
            );
        }
        Ended::Error(error) if error.reason() == Reason::Cancelled => return Turned::Over,
        Ended::Error(error) => {
            return rolled_back(errored(&error, hint, job.server).with("prints", no_prints()));
        }
    };
    let prints = redactor.scrub(outcome.prints).into_inner();
    let visible = redact::value(&value, redactor).into_owned();
    let shown = execution_feedback(
        &visible,
        &prints,
        &named(&after, redactor),
        &named(&before, redactor),
        Turns::Several,
        SESSION_PREVIEWS,
    );
    let (tool_calls, upstream_calls) = upstreams::histories(&entries);
    let leaving = Leaving {
        env: after,
        value: value.clone(),
        shown: visible,
        prints,
        tool_calls: redactor.scrub(tool_calls).into_inner(),
        upstream_calls: redactor.scrub(upstream_calls).into_inner(),
    };
    let ready = match job.server.sessions.judge(turn, leaving) {
        Ok(ready) => ready,
        Err(exceeded) => {
            let message =
                "session persisted-state limit exceeded; eval was not committed".to_owned();
            let payload = error_payload("session_limit_exceeded", message, None);
            return rolled_back(payload.with("detail", exceeded.detail()));
        }
    };
    let validated = match job
        .schema
        .map(|schema| schema.validated(&value))
        .transpose()
    {
        Ok(validated) => validated,
        Err(message) => {
            return rolled_back(error_payload(
                ErrorReason::ValidationError.as_str(),
                message,
                None,
            ));
        }
    };
    let changed: Vec<String> = shown.memory.changed.keys().cloned().collect();
    let mut previews = Payload::new();
    for (name, preview) in &shown.memory.changed {
        previews.set(name.clone(), preview.as_str());
    }
    let memory = Payload::new()
        .with("changed", previews)
        .with("changed_keys", changed)
        .with("stored_keys", shown.memory.stored_keys.clone())
        .with("truncated", shown.memory.truncated);
    let truncated = shown.truncated || !ready.notices.is_empty();
    let mut feedback = shown.feedback.clone();
    for notice in &ready.notices {
        let gap = if feedback.is_empty() { "" } else { "\n\n" };
        feedback.push_str(&format!(
            "{gap};; {}",
            notice.text("message").unwrap_or_default()
        ));
    }
    let mut payload = success(&value, shown)
        .with("feedback", feedback)
        .with("history_notices", ready.notices.clone())
        .with("memory", memory)
        .with("session", ready.summary.clone())
        .with("truncated", truncated);
    if value.is_nil() {
        payload.set("result", Field::Null);
    }
    if let Some(json) = validated {
        payload.set("validated", Field::Exact(json));
    }
    upstreams::add(&mut payload, &entries, true);
    Turned::Kept {
        payload,
        ready: Box::new(ready),
    }
}

/// The definitions as they may be shown.
fn named(env: &Env, redactor: &Redactor) -> BTreeMap<String, Value> {
    env.definitions()
        .into_iter()
        .map(|(name, value, _)| (name.to_owned(), redact::value(value, redactor).into_owned()))
        .collect()
}

/// What a run gave.
struct Ran {
    outcome: Outcome,
    env: Env,
    /// What was asked of upstreams.
    entries: Vec<Entry>,
    /// The servers or tools that there are, when a name was wrong.
    hint: Option<String>,
}

/// Runs a program until its own deadline, or until `expires`, when nobody is to be told.
fn evaluate(job: &Job<'_>, env: &Env, expires: Option<Instant>) -> Ran {
    let server = job.server;
    let limits = Limits {
        memory_bytes: server.program_memory_bytes(),
        worker_memory_bytes: server.program_memory_bytes(),
        ..Limits::default()
    };
    let deadline = Instant::now() + Duration::from_millis(server.program_timeout_ms());
    let calls = upstream_calls(server, job.call, deadline);
    let host = CallHost::new(
        job.call,
        &server.redactor,
        expires,
        deadline,
        calls.as_ref(),
    );
    let (outcome, env) = ptc_lang::run(&Program::new(job.program), env, &limits, &host);
    Ran {
        outcome,
        env,
        entries: calls
            .as_ref()
            .map(ProgramCalls::entries)
            .unwrap_or_default(),
        hint: calls.as_ref().and_then(ProgramCalls::hint),
    }
}

/// The upstream side of a call, until `deadline` or the call's cancellation.
pub fn upstream_calls(
    server: &Server,
    call: &Arc<Call>,
    deadline: Instant,
) -> Option<ProgramCalls> {
    server.upstreams.as_ref().map(|runtime| {
        let cancel = Cancel::default();
        let ending = cancel.clone();
        call.on_cancel(move || ending.cancel());
        ProgramCalls::new(runtime.clone(), Some(deadline), cancel).in_trace(call.trace.clone())
    })
}

/// Runs one program of a planned task: its calls are those of the whole task.
pub fn planned(
    server: &Server,
    call: &Call,
    program: &str,
    env: &Env,
    calls: Option<&ProgramCalls>,
    deadline: Instant,
) -> (Outcome, Env) {
    let limits = Limits {
        memory_bytes: server.program_memory_bytes(),
        worker_memory_bytes: server.program_memory_bytes(),
        ..Limits::default()
    };
    let host = CallHost::new(call, &server.redactor, None, deadline, calls);
    ptc_lang::run(&Program::new(program), env, &limits, &host)
}

/// The context object as a map. The text was validated when its frame was read; as everywhere in a
/// frame, the first of equal keys wins.
pub fn context(json: &str) -> Map {
    match ptc_lang::json::read(json, Duplicates::First, usize::MAX) {
        Ok(Value::Map(map)) => map,
        _ => Map::new(),
    }
}

/// The full payload of a success.
fn success(value: &Value, shown: Execution) -> Payload {
    let mut payload = Payload::new()
        .with("status", "ok")
        .with("prints", shown.prints)
        .with("feedback", shown.feedback)
        .with(
            "truncated",
            shown.visible_truncated.unwrap_or(shown.truncated),
        );
    if !value.is_nil() {
        payload.set("result", shown.result);
    }
    payload
}

/// Characters of a failed string that are shown.
const FAIL_STRING_CHARS: usize = 4096;
/// Characters of any other failed value that are shown: more than any envelope holds would be in vain.
const FAIL_CHARS: usize = 1 << 19;

/// The payload of `(fail v)`.
fn failed(value: &Value) -> Payload {
    use ptc_lang::print::{PREVIEW_ITEMS, preview};
    let text = match value {
        Value::Str(_) => {
            let options = FormatOptions {
                printable: Some(FAIL_STRING_CHARS),
                ..FormatOptions::default()
            };
            format_value(value, options).text
        }
        _ => preview(value, PREVIEW_ITEMS, FAIL_CHARS).text,
    };
    error_payload(ErrorReason::Fail.as_str(), text.clone(), None).with("result", text)
}

/// The payload of an error or a limit. The limits are named as the operator set them.
fn errored(error: &Error, hint: Option<String>, server: &Server) -> Payload {
    // Messages quote values, cut.
    let message = || server.redactor.scrub_cut(&error.message()).into_owned();
    let (reason, message) = match error.reason() {
        Reason::ParseError => (ErrorReason::ParseError, message()),
        Reason::RuntimeError => (ErrorReason::RuntimeError, message()),
        Reason::Timeout => {
            let limit = server.program_timeout_ms();
            (
                ErrorReason::Timeout,
                format!("execution exceeded {limit}ms limit"),
            )
        }
        Reason::MemoryLimit => {
            let limit = server.program_memory_bytes();
            (
                ErrorReason::MemoryLimit,
                format!("heap limit {limit} bytes exceeded"),
            )
        }
        Reason::Cancelled => return Refusal::Cancelled.payload(),
    };
    let feedback = hint.map(|hint| format!("{message}. {hint}"));
    error_payload(reason.as_str(), message, feedback)
}

/// The tool through which programs reach upstreams: `tool/call`.
const UPSTREAM_TOOL: &str = "call";

/// A programmer's fault says its reason, as every message of an upstream does.
pub(crate) fn as_runtime_error(fault: HostFault) -> HostFault {
    match fault {
        HostFault::Raise { kind: "", message } => HostFault::Raise {
            kind: "",
            message: format!("runtime_error: {message}"),
        },
        other => other,
    }
}

/// The world of one call: its clock and whether anybody still waits.
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
            _ => Err(HostFault::Raise {
                kind: "unknown_tool",
                message: format!("Unknown tool: {tool}."),
            }),
        }
    }

    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let calls = self.calls.as_ref()?;
        Some(calls.discover(request).map_err(as_runtime_error))
    }

    fn branching(&self, step: Branching) {
        if let Some(calls) = self.calls {
            calls.branching(step);
        }
    }

    fn now_micros(&self) -> i64 {
        clock::now_micros()
    }

    fn printed(&self, line: String) -> String {
        self.redactor.scrub(line).into_inner()
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
