//! The calls of one assistant turn: which of them may run, what the model sees of each, what is kept of them.
//! Knows nothing of turn budgets.

use std::time::Instant;

use ptc_lang::Value;
use ptc_lang::value::Map;
use ptc_protocol::members::{ProtocolError, ToolError};
use ptc_protocol::{
    ErrorReason, Execution, Field, HISTORY_SIZE_MAX, Payload, Profile, SuccessOptions, Turns,
    execution_feedback, format_value, json_to_value, parameters_schema, render_error,
    render_success, shorten, size_units, tool_definition, tool_description, validate_program,
};
use serde_json::{Value as Json, json};

use crate::agent::{Agent, LISP_EVAL, MemoryStrategy};
use crate::cache::CanonicalArgs;
use crate::call::{Invocation, invoke};
use crate::llm::{LlmReply, Message, ToolCall};
use crate::preview::{lenient_json, native_preview};
use crate::program::{ProgramEnd, ProgramHost, ProgramRun, retained_bytes, run_program};
use crate::run::{MISSION_TIMEOUT, Mode, Run, memory};
use crate::step::{CallRecord, RunFailure, RunReason};
use crate::telemetry::{Layer, ToolCallFacts};
use crate::tool::Tool;

/// Maximum items shown of each collection in a failed value.
const FAILED_ITEMS_MAX: usize = 50;

/// The outcome of a program, for the model and for the run loop.
#[derive(Default)]
struct Evaluated {
    /// The content of the tool message.
    content: String,
    /// The value of `(return v)`.
    returned: Option<Value>,
    /// Set when the run must end.
    abort: Option<RunFailure>,
    /// Whether the model sees only a part of the value or of the prints.
    truncated: bool,
}

impl Evaluated {
    fn from_content(content: String) -> Self {
        Evaluated {
            content,
            ..Evaluated::default()
        }
    }
}

/// How a turn ended.
pub(crate) enum TurnEnd {
    /// The run goes on with the next turn.
    Continue,
    /// The run has its answer.
    Answered,
    /// The run ends without an answer.
    Abort(RunFailure),
}

/// Protocol errors of a turn: reason and message. They have no `feedback`.
pub const PROTOCOL_ERRORS: &[(&str, &str)] = &[
    (MULTIPLE, "exactly one lisp_eval call per assistant turn"),
    (
        MIXED,
        "lisp_eval is exclusive in its assistant turn; no other native tool calls may accompany it",
    ),
    (UNKNOWN, "Unknown native tool `{}`."),
];
const MULTIPLE: &str = "multiple_tool_calls";
const MIXED: &str = "mixed_with_lisp_eval";
const UNKNOWN: &str = "unknown_tool";

const PROGRAM_DESCRIPTION: &str =
    "PTC-Lisp source; must not be empty. App tools are called as `(tool/name {...})`.";

/// The definitions sent with every request: natively visible tools by name, then `lisp_eval` in modes that have
/// it.
pub(crate) fn native_definitions(agent: &Agent, mode: Mode) -> Vec<Json> {
    let visible = |tool: &&Tool| mode == Mode::Text || agent.exposure(tool).is_native();
    let mut tools: Vec<&Tool> = agent.tools.iter().filter(visible).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let app_tools = tools.into_iter().map(definition);
    match mode {
        Mode::Text => app_tools.collect(),
        Mode::Combined => app_tools
            .chain([lisp_eval_definition(Profile::InProcessTextMode)])
            .collect(),
        Mode::LispCall => vec![lisp_eval_definition(Profile::InProcessWithAppTools)],
        Mode::LispContent => Vec::new(),
    }
}

pub(crate) fn definition(tool: &Tool) -> Json {
    tool_definition(
        &tool.native_name(),
        tool.description.as_deref(),
        parameters_schema(tool.signature.as_ref()),
    )
}

pub(crate) fn lisp_eval_definition(profile: Profile) -> Json {
    let parameters = json!({
        "type": "object",
        "properties": { "program": { "type": "string", "description": PROGRAM_DESCRIPTION } },
        "required": ["program"],
        "additionalProperties": false,
    });
    tool_definition(LISP_EVAL, Some(tool_description(profile)), parameters)
}

impl Run<'_> {
    /// Runs or rejects the calls of a turn. Every call has a result message when this returns.
    pub(crate) fn tool_turn(&mut self, reply: &LlmReply) -> TurnEnd {
        let programs = match self.mode {
            Mode::Combined | Mode::LispCall => reply
                .tool_calls
                .iter()
                .filter(|call| call.name == LISP_EVAL)
                .count(),
            Mode::Text | Mode::LispContent => 0,
        };
        match (programs, reply.tool_calls.len()) {
            (0, _) => {
                self.native_turn(reply);
                TurnEnd::Continue
            }
            (1, 1) => self.program_turn(reply),
            (1, _) => self.reject_turn(reply, MIXED),
            _ => self.reject_turn(reply, MULTIPLE),
        }
    }

    /// Rejects all calls of a turn with the same error; nothing runs.
    fn reject_turn(&mut self, reply: &LlmReply, reason: &'static str) -> TurnEnd {
        let payload = protocol_error(reason, "");
        let ids = self.append_calls(reply);
        for (id, call) in ids.into_iter().zip(&reply.tool_calls) {
            self.report_rejected(&call.name);
            self.append(Message::Tool {
                tool_call_id: id,
                content: payload.clone(),
            });
        }
        let entries = [("reason", reason), ("message", message_of(reason))];
        let result: Map = entries
            .into_iter()
            .map(|(key, text)| (Value::keyword(key), Value::str(text)))
            .collect();
        self.record(
            false,
            Value::Map(result),
            Vec::new(),
            reply.content.as_deref().unwrap_or_default(),
        );
        TurnEnd::Continue
    }

    fn native_turn(&mut self, reply: &LlmReply) {
        let ids = self.append_calls(reply);
        let mut records = Vec::new();
        // Messages of calls skipped because of the limit come after those of calls that ran.
        let mut skipped = Vec::new();
        for (id, call) in ids.into_iter().zip(&reply.tool_calls) {
            if let Some(limit) = self
                .agent
                .max_tool_calls
                .filter(|limit| self.native_calls >= *limit)
            {
                self.report_rejected(&call.name);
                let error = format!("Tool call limit reached (max: {limit})");
                skipped.push((id, tool_error(error)));
                continue;
            }
            if self.is_timed_out() {
                self.report_rejected(&call.name);
                skipped.push((id, tool_error(MISSION_TIMEOUT.to_owned())));
                continue;
            }
            self.native_calls += 1;
            let (record, content) = self.native_call(call);
            records.push(record);
            self.append(Message::Tool {
                tool_call_id: id,
                content,
            });
        }
        for (id, content) in skipped {
            self.append(Message::Tool {
                tool_call_id: id,
                content,
            });
        }
        self.step.tool_calls.extend(records.iter().cloned());
        self.record(
            true,
            Value::Nil,
            records,
            reply.content.as_deref().unwrap_or_default(),
        );
    }

    fn native_call(&mut self, call: &ToolCall) -> (CallRecord, String) {
        let started = Instant::now();
        let args = arguments(call);
        let mut record = CallRecord::begun(&call.name, &args);
        let Some(tool) = self.native.get(&call.name).copied() else {
            self.report_rejected(&call.name);
            if self.mode == Mode::Text {
                let error = format!("Tool '{}' not found", call.name);
                record.error = Some(error.clone());
                return (record, tool_error(error));
            }
            record.error = Some(format!("Unknown native tool `{}`.", call.name));
            return (record, protocol_error(UNKNOWN, &call.name));
        };
        if let Some(error) = &call.args_error {
            self.report_rejected(&call.name);
            record.error = Some(error.clone());
            return (record, tool_error(error.clone()));
        }
        let shared = self.mode == Mode::Combined && tool.is_shared();
        let key = shared
            .then(|| CanonicalArgs::of(&args))
            .filter(CanonicalArgs::is_map);
        // The call is outside of programs, so only this account limits the memory of its answer and of what
        // shows it.
        let (made, content, truncated) = self
            .native_account
            .within(|| self.invoke_and_preview(tool, call, &args, key.as_ref(), started));
        record.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(telemetry) = self.options.telemetry {
            let facts = ToolCallFacts {
                tool_name: call.name.clone(),
                layer: Layer::Native,
                cached: made.cached,
                error: made.result.is_err(),
                cache_key_hash: key.as_ref().map(|key| key.hash(&tool.name)),
                retained_bytes: retained_bytes(&made, key.is_some()),
                full_result_cached: made.stored,
                result_preview_truncated: truncated,
                duration_ms: record.duration_ms,
            };
            telemetry.emit(&facts.event());
        }
        match made.result {
            Ok(value) => record.result = value,
            Err(fault) => record.error = Some(fault.message),
        }
        (record, content)
    }

    /// Calls a tool and renders its result for the model; also returns whether a part is left out.
    fn invoke_and_preview(
        &self,
        tool: &Tool,
        call: &ToolCall,
        args: &Value,
        key: Option<&CanonicalArgs>,
        started: Instant,
    ) -> (Invocation, String, bool) {
        let made = invoke(
            tool,
            args,
            key,
            &self.cache,
            self.time_left().map(|left| started + left),
            self.options.telemetry,
        );
        let (content, truncated) = match (&made.result, key) {
            (Ok(value), Some(key)) => {
                let preview = native_preview(&tool.native_result, &tool.name, key, value);
                if let Some(fallback) = preview.fallback {
                    tracing::warn!(
                        event = "tool_result_fallback",
                        "{}",
                        fallback.warning(&tool.name)
                    );
                }
                (preview.payload.to_string(), preview.truncated)
            }
            (Ok(value), None) => match lenient_json(value) {
                Some(json) => (json.to_string(), false),
                None => (bounded_text(value), false),
            },
            (Err(fault), _) => {
                tracing::warn!(event = "tool_failed", tool = %tool.name, reason = %fault.message);
                let args = lenient_json(args).unwrap_or(Json::Null);
                let payload = ToolError {
                    error: fault.message.clone(),
                    tool: Some(call.name.clone()),
                    args_received: Some(Field::from(&args)),
                    hint: Some(fault.hint.clone()),
                };
                (Payload::from(payload).to_json(), false)
            }
        };
        (made, content, truncated)
    }

    fn program_turn(&mut self, reply: &LlmReply) -> TurnEnd {
        let Some(call) = reply.tool_calls.first() else {
            return TurnEnd::Continue;
        };
        let started = Instant::now();
        let ids = self.append_calls(reply);
        let args = arguments(call);
        let mut record = CallRecord::begun(&call.name, &args);
        let program = match (&call.args_error, &args) {
            (Some(error), _) => Err(format!("Invalid tool arguments: {error}")),
            (None, Value::Map(args)) => {
                let program = args.get(&Value::str("program"));
                validate_program(program)
                    .map(str::to_owned)
                    .map_err(|invalid| invalid.message)
            }
            (None, _) => validate_program(None)
                .map(str::to_owned)
                .map_err(|invalid| invalid.message),
        };
        let mut evaluated = match program {
            Err(message) => {
                record.error = Some(message.clone());
                Evaluated {
                    content: render_error(ErrorReason::ArgsError, &message, None, None),
                    ..Evaluated::default()
                }
            }
            Ok(program) => self.evaluate(&program, &mut record),
        };
        let mut end = evaluated.abort.take().map(TurnEnd::Abort);
        if self.mode == Mode::LispCall && end.is_none() {
            end = self.finish_program(&record, evaluated.returned.take(), &mut evaluated.content);
        }
        let Evaluated {
            content, truncated, ..
        } = evaluated;
        record.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(telemetry) = self.options.telemetry {
            let facts = ToolCallFacts {
                tool_name: LISP_EVAL.to_owned(),
                layer: Layer::Native,
                cached: false,
                error: record.error.is_some(),
                cache_key_hash: None,
                retained_bytes: None,
                full_result_cached: false,
                result_preview_truncated: truncated,
                duration_ms: record.duration_ms,
            };
            telemetry.emit(&facts.event());
        }
        for id in ids {
            self.append(Message::Tool {
                tool_call_id: id,
                content: content.clone(),
            });
        }
        self.step.tool_calls.push(record.clone());
        let success = !matches!(end, Some(TurnEnd::Abort(_)));
        self.record(
            success,
            Value::Nil,
            vec![record],
            reply.content.as_deref().unwrap_or_default(),
        );
        end.unwrap_or(TurnEnd::Continue)
    }

    /// Runs a program that arrived as text.
    pub(crate) fn evaluate_text(&mut self, program: &str) -> (CallRecord, Option<Value>, String) {
        let started = Instant::now();
        let args: Map = [(Value::str("program"), Value::str(program))]
            .into_iter()
            .collect();
        let mut record = CallRecord {
            name: LISP_EVAL.to_owned(),
            args: Value::Map(args),
            result: Value::Nil,
            failed_value: false,
            error: None,
            duration_ms: 0,
        };
        let done = self.evaluate(program, &mut record);
        record.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        (record, done.returned, done.content)
    }

    /// Runs a program and describes it to the model.
    fn evaluate(&mut self, program: &str, record: &mut CallRecord) -> Evaluated {
        let own = self.agent.program_timeout;
        let timeout = self.time_left().map_or(own, |left| left.min(own));
        let host = ProgramHost {
            tools: &self.callable,
            names: &self.callable_names,
            cache: &self.cache,
            telemetry: self.options.telemetry,
            scrubber: self.options.scrubber,
            deadline: Instant::now() + timeout,
            budget: self.budget(),
        };
        let ran = run_program(
            program,
            &self.env,
            &host,
            timeout,
            self.agent.program_heap_bytes,
        );
        let ProgramRun { end, prints, env } = ran;
        match end {
            ProgramEnd::Value(value) => {
                let after = memory(&env);
                let size = memory_units(&after);
                record.result = value.clone();
                if size > self.agent.memory_limit {
                    return self.memory_exceeded(size, after, record);
                }
                let evaluated = self.success(&value, &prints, &after);
                self.env = env;
                let kept = match size_units(&value) <= HISTORY_SIZE_MAX {
                    true => value,
                    // Scrubbed because it is cut, and a later program may show it.
                    false => shorten(&self.options.scrubber.value(&value), HISTORY_SIZE_MAX),
                };
                self.env.remember(kept);
                evaluated
            }
            ProgramEnd::Returned(value) => {
                let evaluated = self.success(&value, &prints, &memory(&env));
                record.result = value.clone();
                self.env = env;
                Evaluated {
                    returned: Some(value),
                    ..evaluated
                }
            }
            ProgramEnd::Failed(value) => {
                let value = self.options.scrubber.value(&value);
                let message = bounded_text(&value);
                let options = ptc_protocol::FormatOptions {
                    items: Some(FAILED_ITEMS_MAX),
                    ..Default::default()
                };
                let result = format_value(&value, options).text;
                record.error = Some(message.clone());
                record.result = value;
                record.failed_value = true;
                self.note_failure("fail", &message);
                Evaluated::from_content(render_error(
                    ErrorReason::Fail,
                    &message,
                    None,
                    Some(result.into()),
                ))
            }
            ProgramEnd::Error {
                reason,
                message,
                explained,
            } => {
                record.error = Some(message.clone());
                self.note_failure(reason.name(), &message);
                let feedback = match explained.is_empty() {
                    true => message.clone(),
                    false => format!("{message}\n{explained}"),
                };
                Evaluated::from_content(render_error(reason, &message, Some(feedback.into()), None))
            }
        }
    }

    fn success(
        &self,
        value: &Value,
        prints: &[String],
        after: &std::collections::BTreeMap<String, Value>,
    ) -> Evaluated {
        let turns = if self.agent.max_turns > 1 {
            Turns::Several
        } else {
            Turns::Single
        };
        let scrubber = self.options.scrubber;
        let told = |memory: &std::collections::BTreeMap<String, Value>| {
            let entries = memory.iter();
            entries
                .map(|(name, value)| (name.clone(), scrubber.value(value)))
                .collect()
        };
        let value = &scrubber.value(value);
        let execution: Execution = execution_feedback(
            value,
            prints,
            &told(after),
            &told(&memory(&self.env)),
            turns,
            self.agent.preview,
        );
        Evaluated {
            truncated: execution.visible_truncated.unwrap_or(execution.truncated),
            content: render_success(value, execution, SuccessOptions::default()),
            ..Evaluated::default()
        }
    }

    fn memory_exceeded(
        &mut self,
        size: u64,
        after: std::collections::BTreeMap<String, Value>,
        record: &mut CallRecord,
    ) -> Evaluated {
        let message = format!(
            "Memory limit exceeded ({size} bytes > {} bytes).",
            self.agent.memory_limit
        );
        record.error = Some(message.clone());
        match self.agent.memory_strategy {
            MemoryStrategy::Rollback => {
                let message = format!("{message} Last turn rolled back.");
                self.note_failure(ErrorReason::MemoryLimit.name(), &message);
                Evaluated::from_content(render_error(
                    ErrorReason::MemoryLimit,
                    &message,
                    None,
                    None,
                ))
            }
            MemoryStrategy::Strict => {
                let content = render_error(ErrorReason::MemoryLimit, &message, None, None);
                self.step.memory = after;
                let abort = Some(RunFailure {
                    reason: RunReason::MemoryLimit,
                    message,
                });
                Evaluated {
                    content,
                    abort,
                    ..Evaluated::default()
                }
            }
        }
    }

    /// Later programs see the latest failure as `data/fail`; a success does not clear it.
    fn note_failure(&mut self, reason: &str, message: &str) {
        let entries = [
            (Value::keyword("reason"), Value::keyword(reason)),
            (Value::keyword("message"), Value::str(message)),
            (Value::keyword("details"), Value::Map(Map::new())),
        ];
        let mut context = self.env.context().clone();
        context.insert(
            Value::str("fail"),
            Value::Map(entries.into_iter().collect()),
        );
        self.env = std::mem::take(&mut self.env).with_context(context);
    }

    /// The value of `(budget/remaining)`.
    fn budget(&self) -> Value {
        let map = |entries: Vec<(&str, Value)>| {
            Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (Value::keyword(key), value))
                    .collect(),
            )
        };
        let count = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let usage = &self.step.usage;
        let left = u64::from(self.agent.turn_budget.saturating_sub(self.turn - 1));
        map(vec![
            ("turns", count(left)),
            ("work-turns", count(self.agent.max_turns.into())),
            ("retry-turns", count(0)),
            ("depth", map(vec![("current", count(1)), ("max", count(3))])),
            (
                "tokens",
                map(vec![
                    ("input", count(usage.input_tokens)),
                    ("output", count(usage.output_tokens)),
                    ("total", count(usage.input_tokens + usage.output_tokens)),
                    ("cache-creation", count(0)),
                    ("cache-read", count(0)),
                ]),
            ),
            ("llm-requests", count(usage.llm_requests.into())),
        ])
    }

    /// Emits the telemetry event of a call that never ran.
    fn report_rejected(&self, name: &str) {
        if let Some(telemetry) = self.options.telemetry {
            let facts = ToolCallFacts {
                tool_name: name.to_owned(),
                layer: Layer::Native,
                cached: false,
                error: true,
                cache_key_hash: None,
                retained_bytes: None,
                full_result_cached: false,
                result_preview_truncated: false,
                duration_ms: 0,
            };
            telemetry.emit(&facts.event());
        }
    }
}

/// The arguments of a call as a value: what the model sent, or `{}`.
pub(crate) fn arguments(call: &ToolCall) -> Value {
    match &call.args {
        None | Some(Json::Null) => Value::Map(Map::new()),
        Some(args) => json_to_value(args),
    }
}

/// The size units of all definitions together.
fn memory_units(memory: &std::collections::BTreeMap<String, Value>) -> u64 {
    let entries: Map = memory
        .iter()
        .map(|(name, value)| (Value::str(name.as_str()), value.clone()))
        .collect();
    size_units(&Value::Map(entries))
}

/// A value as plain text of bounded length.
pub(crate) fn bounded_text(value: &Value) -> String {
    format_value(value, ptc_protocol::FormatOptions::default()).text
}

fn message_of(reason: &str) -> &'static str {
    PROTOCOL_ERRORS
        .iter()
        .find(|(known, _)| *known == reason)
        .map_or("", |(_, message)| message)
}

fn protocol_error(reason: &'static str, name: &str) -> String {
    let message = message_of(reason).replace("{}", name);
    Payload::from(ProtocolError { reason, message }).to_json()
}

fn tool_error(error: String) -> String {
    let error = ToolError {
        error,
        ..ToolError::default()
    };
    Payload::from(error).to_json()
}
