//! `lisp_task`: a plain-English task, planned and carried out by programs over the upstreams. Reads the arguments and builds the payload;
//! the planner decides.

use crate::lock::lock;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ptc_agent::{
    Conclude, Constraints, PlannerRequest, PromptParts, Task, TaskEnd, TaskHost, TaskOutcome,
    TaskReason, planner_prompt, run_task,
};
use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_lang::{Env, Value};
use ptc_rpc::{Json as Frame, JsonKind, JsonText};
use ptc_secrets::{SCRUB_TIME_MAX, Scrubbed};
use ptc_upstream::{CallEntry, ProgramCalls, feedback_block, ptc_metrics};
use serde_json::Map;
use tracing::Span;

use super::argument::{self, Argument, ArgumentFault, Shape};
use super::program::{self, ProgramContext};
use super::{NotReady, PreparedCall, ToolOutcome, annotations};
use crate::agentic::Agentic;
use crate::call::Call;
use crate::evaluation::{self, Programs};
use crate::render::profile::View;
use crate::render::reason::{Refusal, RefusalReason};
use crate::render::reply::ToolReply;
use crate::settings::AgenticSettings;
use ptc_protocol::digest;
use ptc_protocol::members::{
    Metrics, PlannerRecord, PlannerReport, TaskAnswered, TaskExecution, TaskFailed, UpstreamCall,
    Warning,
};
use ptc_protocol::{Field, Payload};

const DESCRIPTION: &str = "Carries out a bounded plain-English task over the configured upstream MCP servers. Say what outcome \
     you want; the server plans and makes the upstream calls itself. Ask for the result, not for calls.";

const TASK: Argument = Argument::required("task", Shape::Text, "The task in plain English.");

const CONSTRAINTS: Argument = Argument::optional(
    "constraints",
    Shape::Object,
    "Optional soft constraints: max_items, preferred_fields.",
);

const ARGUMENTS: &[Argument] = &[
    TASK,
    Argument::optional(
        "context",
        Shape::Object,
        "Optional JSON values that programs read under data/.",
    ),
    CONSTRAINTS,
];

/// Written by hand, because clients know its members in an order of their own; a test compares it with the declared members.
const OUTPUT_SCHEMA: &str = r#"{"type":"object","oneOf":[{"type":"object","required":["status","answer","structured_result","warnings","planner","execution","upstream_calls"],"properties":PROPERTIES},{"type":"object","required":["status","reason","message","warnings","planner","execution","upstream_calls"],"properties":PROPERTIES}]}"#;
const OUTPUT_PROPERTIES: &str = r#"{"upstream_calls":{"type":"array","items":{"type":"object","properties":{"server":{"type":"string"},"tool":{"type":"string"},"status":{"type":"string"},"duration_ms":{"type":"integer","minimum":0},"effect":{"type":"string"},"turn":{"type":"integer"},"args_hash":{"type":"string"},"result_bytes":{"type":["integer","null"],"minimum":0},"oversize":{"type":"boolean"},"reason":{"type":"string"},"error":{"type":"string"}}}},"upstream_results":{"type":"array"},"ptc_metrics":{"type":["object","null"]}}"#;

const EFFICIENCY_NOTE: &str = "payload_reduction_ratio compares the answer with the upstream results alone. It leaves out what the \
     server-side planner cost (server_side_llm) and the envelope that the client receives too: prints, feedback, the list of upstream \
     calls, this block, all mirrored into the text. The total against a workflow without programs is not computed.";

/// What tasks get.
#[derive(Clone)]
pub struct TaskContext {
    pub programs: ProgramContext,
    pub planner: Arc<Agentic>,
    pub settings: Arc<AgenticSettings>,
}

impl TaskContext {
    /// Whether tasks are enabled, and have upstream servers.
    pub fn is_offered(&self) -> bool {
        self.settings.enabled && self.programs.programs.upstreams.is_some()
    }
}

/// The entry in `tools/list`.
pub fn entry(context: &TaskContext, read_only: bool) -> Payload {
    let hints = match read_only {
        false => annotations(false, true, false, true),
        true => annotations(true, false, false, true),
    };
    let mut description: Scrubbed<String> = DESCRIPTION.into();
    let programs = &context.programs.programs;
    if let Some(runtime) = &programs.upstreams {
        let bytes_max =
            usize::try_from(context.settings.capability_summary_bytes).unwrap_or(usize::MAX);
        let summary = context.planner.capability_summary(runtime, bytes_max);
        if !summary.is_empty() {
            description = description
                .then("\n\nAvailable upstream capabilities:\n")
                .then(programs.redactor.scrub(summary));
        }
    }
    Payload::new()
        .with("annotations", hints)
        .with("description", description)
        .with("inputSchema", argument::schema(ARGUMENTS, false))
        .with(
            "outputSchema",
            Field::OwnJson(
                OUTPUT_SCHEMA
                    .replace("PROPERTIES", OUTPUT_PROPERTIES)
                    .into(),
            ),
        )
}

/// The payload of a task that does not run, with all members that a failed task has.
pub fn refused(refusal: &Refusal) -> Payload {
    let (message, feedback) = refusal.words();
    TaskFailed {
        reason: refusal.reason().name(),
        message,
        feedback,
        ..TaskFailed::default()
    }
    .into()
}

/// Validates the arguments and prepares the task.
pub fn prepare(
    arguments: Option<Frame<'_>>,
    context: &TaskContext,
) -> Result<PreparedCall, NotReady> {
    let arguments =
        validate(arguments, context.programs.limits.context_bytes).map_err(|fault| {
            let payload = refused(&Refusal::Arguments(fault.to_string()));
            let mut refusal = ToolReply::new(payload, View::Mirrored);
            refusal.observed_details = Some(details(
                &TaskExecution::default(),
                &PlannerReport::default(),
                None,
            ));
            refusal
        })?;
    let context = context.clone();
    Ok(PreparedCall::of(move |call| {
        execute_task(&context, call, &arguments)
    }))
}

/// The validated arguments of a task.
struct Arguments {
    task: String,
    context: JsonText,
    constraints: Constraints,
    unsupported: Vec<String>,
}

fn validate(
    arguments: Option<Frame<'_>>,
    context_bytes: usize,
) -> Result<Arguments, ArgumentFault> {
    let arguments = arguments
        .filter(|arguments| arguments.kind() == JsonKind::Object)
        .unwrap_or(Frame::EMPTY_OBJECT);
    let task = arguments.get("task").unwrap_or(Frame::NULL);
    TASK.validate(task)?;
    let task = task.as_str().unwrap_or_default().trim().to_owned();
    if task.is_empty() {
        return Err(ArgumentFault::Empty("task"));
    }
    let context = program::context(arguments, context_bytes).map_err(|fault| match fault {
        ArgumentFault::KeyWithSlash(key) => ArgumentFault::TaskKeyWithSlash(key),
        fault => fault,
    })?;
    let constraints = match arguments.get("constraints") {
        None => Map::new(),
        Some(given) if given.is_null() => Map::new(),
        Some(given) => {
            CONSTRAINTS.validate(given)?;
            let given = program::compact_tree(&CONSTRAINTS, given)?;
            serde_json::from_str(&given).unwrap_or_default()
        }
    };
    let (constraints, unsupported) = Constraints::read(&constraints);
    Ok(Arguments {
        task,
        context,
        constraints,
        unsupported,
    })
}

fn execute_task(context: &TaskContext, call: &Arc<Call>, arguments: &Arguments) -> ToolOutcome {
    let TaskContext {
        planner, settings, ..
    } = context;
    let programs = &*context.programs.programs;
    let started = Instant::now();
    let deadline = started + Duration::from_millis(settings.task_timeout_ms);
    let world = TaskUpstreams {
        programs,
        call,
        calls: evaluation::upstream_calls(programs, call, deadline.into())
            .map(ProgramCalls::with_fault_entries),
        turn: AtomicU32::new(1),
        turn_span: std::sync::Mutex::new(Span::none()),
        counted: AtomicUsize::new(0),
        turns_of: std::sync::Mutex::default(),
    };
    let failed = |reason: TaskReason, message: String, requests| TaskOutcome {
        end: TaskEnd::Failed { reason, message },
        turns: 0,
        program: None,
        requests,
    };
    let data = evaluation::task_context(programs, arguments.context.json());
    let outcome = match (planner.model(settings), data) {
        (Err(error), _) => {
            let request = PlannerRequest {
                error: Some(TaskReason::Config),
                ..PlannerRequest::default()
            };
            failed(
                TaskReason::Config,
                format!("LLM call failed: {error}"),
                vec![request],
            )
        }
        (_, Err(fault)) => failed(TaskReason::Memory, fault.to_string(), Vec::new()),
        (Ok(llm), Ok(data)) => {
            let catalog = programs
                .upstreams
                .as_ref()
                .map(|runtime| runtime.catalog_text().into_inner());
            let prompt = planner_prompt(PromptParts {
                prefix: &planner.prefix,
                suffix: &planner.suffix,
                catalog: catalog.as_deref().unwrap_or_default(),
                several_turns: planner.turns > 1,
                writes: settings.allow_writes,
            });
            let task = Task {
                llm,
                prompt,
                task: &arguments.task,
                context: data,
                constraints: &arguments.constraints,
                result_bytes: usize::try_from(settings.result_bytes).unwrap_or(usize::MAX),
                max_turns: planner.turns,
                retry_turns: planner.retry_turns,
                deadline,
                planner_timeout: Duration::from_millis(settings.planner_timeout_ms),
                program_timeout: Duration::from_millis(programs.timeout_ms),
                program_bytes: context.programs.limits.program_bytes,
                output_tokens: u32::try_from(settings.output_tokens).unwrap_or(u32::MAX),
            };
            run_task(&task, &world)
        }
    };
    if matches!(outcome.end, TaskEnd::Cancelled) {
        return ToolOutcome {
            reply: None,
            commit: None,
        };
    }
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let trace_id = call.trace_id.get().cloned();
    let mut reply = reply(settings, arguments, &outcome, &world, duration_ms, trace_id);
    reply.planner = outcome.requests;
    ToolOutcome::of(reply)
}

fn reply(
    settings: &AgenticSettings,
    arguments: &Arguments,
    outcome: &TaskOutcome,
    world: &TaskUpstreams<'_>,
    duration_ms: u64,
    trace_id: Option<String>,
) -> ToolReply {
    let entries = world.entries();
    let unsupported = arguments.unsupported.iter().map(|name| Warning {
        code: "unsupported_constraint",
        detail: Field::Text(name.clone()),
    });
    let mut warnings: Vec<Warning> = unsupported.collect();
    let over_budget = matches!(
        &outcome.end,
        TaskEnd::Failed { reason, .. } if *reason == TaskReason::Budget
    );
    let mut execution = TaskExecution::default();
    let mut planner = PlannerReport::default();
    if !over_budget {
        execution.duration_ms = Some(duration_ms);
        execution.turn_count = Some(outcome.turns);
        planner = outcome.planner_report(&settings.model);
    }
    let upstream_results = match entries.is_empty() {
        true => None,
        false => Some(entries.iter().map(CallEntry::result).collect()),
    };
    let metrics = |final_bytes: u64| {
        (!over_budget && !outcome.requests.is_empty()).then(|| Metrics {
            server_side_llm: Some(outcome.planner_cost()),
            efficiency_note: Some(EFFICIENCY_NOTE),
            ..ptc_metrics(&entries, final_bytes, 0)
        })
    };
    let program = settings
        .include_program
        .then(|| outcome.program.clone().filter(|_| !over_budget));
    let upstream_calls = world.ledger(&entries);
    let failed = |reason: &'static str, message: &str| match feedback_block(&entries) {
        Some(block) => (reason, message.to_owned(), format!("{message}\n\n{block}")),
        None => (reason, message.to_owned(), message.to_owned()),
    };
    let (reason, message, feedback) = match &outcome.end {
        TaskEnd::Answered(answer) => {
            let bytes_max = usize::try_from(settings.result_bytes).unwrap_or(usize::MAX);
            if answer.truncated {
                warnings.push(Warning {
                    code: "max_result_bytes",
                    detail: bytes_max.into(),
                });
            }
            execution.result_bytes = Some(answer.result_bytes);
            execution.truncated = Some(answer.truncated);
            execution.max_result_bytes = Some(bytes_max);
            let aside = details(&execution, &planner, outcome.program.as_deref());
            let answered = TaskAnswered {
                answer: answer.answer.clone(),
                structured_result: Field::from(&answer.structured),
                execution,
                planner,
                trace_id,
                upstream_calls,
                warnings,
                program,
                upstream_results,
                ptc_metrics: metrics(answer.result_bytes),
            };
            let mut reply = ToolReply::new(answered.into(), View::Mirrored);
            reply.observed_details = Some(aside);
            return reply;
        }
        TaskEnd::Failed { reason, message } => failed(reason.name(), message),
        TaskEnd::Cancelled => failed(RefusalReason::Cancelled.name(), "cancelled"),
    };
    let aside = details(&execution, &planner, outcome.program.as_deref());
    let failed = TaskFailed {
        reason,
        message,
        execution,
        planner,
        upstream_calls,
        warnings,
        feedback: Some(feedback),
        program,
        trace_id,
        upstream_results,
        ptc_metrics: metrics(0),
    };
    let mut reply = ToolReply::new(failed.into(), View::Mirrored);
    reply.observed_details = Some(aside);
    reply
}

/// The planner's part of the record in the debug ring: what the reply reports of it, and the size of its program.
fn details(execution: &TaskExecution, planner: &PlannerReport, program: Option<&str>) -> Payload {
    let turns = u64::from(execution.turn_count.unwrap_or(0));
    let calls = planner.calls.unwrap_or(0) as u64;
    let status = match planner.error {
        None => "ok",
        Some(_) => "error",
    };
    PlannerRecord {
        planner_duration_ms: planner.duration_ms,
        planner_rejects: calls.saturating_sub(turns),
        planner_status: status,
        program_bytes: program.map(str::len),
        retries: turns.saturating_sub(1),
    }
    .into()
}

/// The upstreams as a task's programs reach them, with one budget of calls for the whole task.
struct TaskUpstreams<'a> {
    programs: &'a Programs,
    call: &'a Arc<Call>,
    calls: Option<ProgramCalls>,
    turn: AtomicU32,
    /// The span of the turn, which ends when the next one begins.
    turn_span: std::sync::Mutex<Span>,
    /// Number of entries whose turn is known.
    counted: AtomicUsize,
    /// The turn of each entry, in order.
    turns_of: std::sync::Mutex<Vec<u32>>,
}

impl TaskUpstreams<'_> {
    fn entries(&self) -> Vec<CallEntry> {
        self.calls
            .as_ref()
            .map(ProgramCalls::entries)
            .unwrap_or_default()
    }

    fn ledger(&self, entries: &[CallEntry]) -> Vec<UpstreamCall> {
        let turns = lock(&self.turns_of);
        let call = |(at, entry): (usize, &CallEntry)| UpstreamCall {
            effect: Some(entry.effect),
            turn: Some(turns.get(at).copied().unwrap_or(1)),
            args_hash: Some(digest::hex(entry.arguments.as_bytes())),
            ..entry.call()
        };
        entries.iter().enumerate().map(call).collect()
    }
}

impl TaskHost for TaskUpstreams<'_> {
    fn run(
        &self,
        program: &str,
        env: &Env,
        deadline: Instant,
        conclude: Conclude<'_>,
    ) -> Result<(), Limit> {
        let turn_span = lock(&self.turn_span).clone();
        let _turn = turn_span.enter();
        let ran = evaluation::planned(
            self.programs,
            self.call,
            program,
            env,
            self.calls.as_ref(),
            deadline.into(),
            conclude,
        );
        let now = self.entries().len();
        let new = now.saturating_sub(self.counted.swap(now, Ordering::Relaxed));
        let turn = self.turn.load(Ordering::Relaxed);
        let mut turns = lock(&self.turns_of);
        turns.extend(std::iter::repeat_n(turn, new));
        ran
    }

    fn turn(&self, number: u32) {
        self.turn.store(number, Ordering::Relaxed);
        *lock(&self.turn_span) = tracing::info_span!("planner_turn", "ptc.turn" = number);
    }

    fn may_have_written(&self) -> bool {
        self.entries().iter().any(|entry| entry.effect != "read")
    }

    fn notes(&self) -> Option<String> {
        feedback_block(&self.entries())
    }

    fn scrub(&self, text: String) -> String {
        let redactor = self.programs.redactor.with_time_limit(SCRUB_TIME_MAX);
        redactor.scrub(text).into_inner()
    }

    fn scrub_value(&self, value: &Value, watch: &dyn Watch) -> Result<Value, Limit> {
        crate::render::redact::value_within(value, &self.programs.redactor, watch)
            .map(Cow::into_owned)
    }

    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::{OUTPUT_PROPERTIES, OUTPUT_SCHEMA};
    use ptc_protocol::members::{TaskAnswered, TaskFailed, UpstreamCall};
    use serde_json::Value;

    #[test]
    fn output_schema_describes_the_declared_members() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let schema = read(&OUTPUT_SCHEMA.replace("PROPERTIES", OUTPUT_PROPERTIES));
        let calls = &schema["oneOf"][0]["properties"]["upstream_calls"];
        let mut described = calls["items"]["properties"].as_object().unwrap().clone();
        for member in UpstreamCall::MEMBERS {
            let declared = read(&(member.schema)().to_json());
            // An overview is shown only in sessions.
            let expected = (member.name != "result_overview").then_some(declared);
            assert_eq!(described.remove(member.name), expected, "{}", member.name);
        }
        assert!(described.is_empty(), "undeclared: {described:?}");
        for (at, members) in [TaskAnswered::MEMBERS, TaskFailed::MEMBERS]
            .iter()
            .enumerate()
        {
            let required = schema["oneOf"][at]["required"].as_array().unwrap();
            let declared = members.iter().filter(|member| member.required);
            // The schema leaves the id of the trace out.
            for member in declared.filter(|member| member.name != "trace_id") {
                assert!(required.contains(&member.name.into()), "{}", member.name);
            }
        }
    }
}
