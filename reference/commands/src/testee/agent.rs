//! Runs of agents as operations. The input contains scripts for models and tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{InvalidInput, Operation, text_of, value_of};
use ptc_agent::{
    Agent, AgentStep, CallRecord, CanonicalArgs, Event, Exposure, Message, NativeResult, Output,
    Preview, PreviewFn, ProgramEnd, ProgramHost, RunOptions, SPAN_FIELDS, Scripted, TOOL_CALL,
    Telemetry, ToolFault, ToolFn, ToolSource, Transport, Unscrubbed, chat, extract_json,
    native_preview, read_preview, resolve_exposure, run, run_program,
};
use ptc_lang::value::Map;
use ptc_lang::{Env, Value};
use ptc_protocol::limits::agent::PREVIEW_ROWS_MAX;
use ptc_protocol::{decode_value, encode_value, parse_signature};
use serde_json::{Value as Json, json};

/// Limits of `task_run`.
const TASK_TIMEOUT: Duration = Duration::from_secs(1);
const TASK_HEAP_BYTES: usize = 10 * 1024 * 1024;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "canonical_cache_key",
        doc: "`{tool, args}`: `{tool, args, cache_hint}`; arguments that are no map as `{non_map}`.",
        run: op_canonical_cache_key,
    },
    Operation {
        name: "chat",
        doc: "`{agent, turns: [{message, llm_script}]}`: each turn's answer and messages, threaded.",
        run: op_chat,
    },
    Operation {
        name: "combined_run",
        doc: "`{agent, llm_script, run: {context?, journal?}}`: requests, messages, step and events.",
        run: op_combined_run,
    },
    Operation {
        name: "final_answer",
        doc: "`{signature, llm_texts, max_turns}`: the answer, or how the run failed, with the feedback.",
        run: op_final_answer,
    },
    Operation {
        name: "json_extraction",
        doc: "`{text}`: the JSON in a model's text.",
        run: op_json_extraction,
    },
    Operation {
        name: "native_preview",
        doc: "`{tool, args, result, native_result}`: `{status, preview, warning?}`.",
        run: op_native_preview,
    },
    Operation {
        name: "resolve_exposure",
        doc: "`{expose?, output, ptc_transport?}`: the exposure's name.",
        run: op_resolve_exposure,
    },
    Operation {
        name: "system_prompt",
        doc: "`{agent}`: what the model is told before the first message.",
        run: op_system_prompt,
    },
    Operation {
        name: "task_run",
        doc: "`{program, journal?, budget?}`: `{ended, value, journal, summaries}`, or `{reason, message, journal, summaries}`.",
        run: op_task_run,
    },
    Operation {
        name: "validate_agent",
        doc: "`{agent}`: null, or the construction error.",
        run: op_validate_agent,
    },
];

fn op_canonical_cache_key(input: &Json) -> Result<Json, Json> {
    let tool = text_of(input, "tool")?;
    let canonical = CanonicalArgs::of(&value_of(input, "args")?);
    let args = encode_value(canonical.value());
    let args = if canonical.is_map() {
        args
    } else {
        json!({ "non_map": args })
    };
    Ok(json!({ "tool": tool, "args": args, "cache_hint": canonical.hint(tool) }))
}

fn op_json_extraction(input: &Json) -> Result<Json, Json> {
    extract_json(text_of(input, "text")?).map_err(|error| error.name().into())
}

fn op_resolve_exposure(input: &Json) -> Result<Json, Json> {
    let word = |key: &str| input.get(key).and_then(Json::as_str);
    let declared = match word("expose") {
        None => None,
        Some(name) => Some(Exposure::from_name(name).ok_or(InvalidInput("expose"))?),
    };
    let output = match word("output") {
        Some("text") => Output::Text,
        Some("ptc_lisp") => Output::PtcLisp,
        _ => return Err(InvalidInput("output").into()),
    };
    let transport = match word("ptc_transport") {
        None => None,
        Some("content") => Some(Transport::Content),
        Some("tool_call") => Some(Transport::ToolCall),
        Some(_) => return Err(InvalidInput("ptc_transport").into()),
    };
    Ok(resolve_exposure(declared, output, transport).name().into())
}

fn op_validate_agent(input: &Json) -> Result<Json, Json> {
    agent_of(input, &ScriptedTools::default()).map(|_| Json::Null)
}

fn op_system_prompt(input: &Json) -> Result<Json, Json> {
    let agent = agent_of(input, &ScriptedTools::default())?;
    let llm = Scripted::from_json(&["".into()]).map_err(|_| InvalidInput("agent"))?;
    let mut options = RunOptions::new(&llm);
    options.collect_messages = true;
    let step = run(&agent, options).map_err(|error| Json::from(error.to_string()))?;
    let mut messages = step.messages.iter().flatten();
    let system = messages.find(|message| is_role(message, "system"));
    Ok(system.map_or(Json::Null, |message| message["content"].clone()))
}

/// Runs a program of an agent, with a journal if given, and a budget.
fn op_task_run(input: &Json) -> Result<Json, Json> {
    let program = text_of(input, "program")?;
    let mut env = Env::new();
    if let Some(journal) = map_of(input.get("journal"), "journal")? {
        env = env.with_journal(journal);
    }
    let budget = map_of(input.get("budget"), "budget")?.unwrap_or_default();
    let host = ProgramHost {
        tools: &BTreeMap::new(),
        names: &[],
        cache: &Mutex::default(),
        telemetry: None,
        scrubber: &Unscrubbed,
        deadline: Instant::now() + TASK_TIMEOUT,
        budget: Value::Map(budget),
    };
    let ran = run_program(program, &env, &host, TASK_TIMEOUT, TASK_HEAP_BYTES);
    let state = |mut shown: Json| {
        let journal = ran
            .env
            .journal()
            .map(|journal| encode_value(&Value::Map(journal.clone())));
        shown["journal"] = journal.unwrap_or_default();
        shown["summaries"] = encode_value(&Value::Map(ran.env.steps()));
        shown
    };
    let (ended, value) = match &ran.end {
        ProgramEnd::Value(value) => ("value", value),
        ProgramEnd::Returned(value) => ("return", value),
        ProgramEnd::Failed(value) => ("fail", value),
        ProgramEnd::Error {
            reason, message, ..
        } => {
            return Err(state(
                json!({ "reason": reason.name(), "message": message }),
            ));
        }
    };
    Ok(state(
        json!({ "ended": ended, "value": encode_value(value) }),
    ))
}

fn op_native_preview(input: &Json) -> Result<Json, Json> {
    let canonical = CanonicalArgs::of(&value_of(input, "args")?);
    let options = input.get("native_result").unwrap_or(&Json::Null);
    let preview = match options.get("preview") {
        None => Preview::Metadata,
        Some(given) => {
            read_preview(given, &ScriptedTools::default()).ok_or(InvalidInput("native_result"))?
        }
    };
    let limit = options
        .get("limit")
        .and_then(Json::as_u64)
        .and_then(|limit| usize::try_from(limit).ok());
    let options = NativeResult {
        preview,
        limit: limit.unwrap_or(PREVIEW_ROWS_MAX),
    };
    let tool = text_of(input, "tool")?;
    let made = native_preview(&options, tool, &canonical, &value_of(input, "result")?);
    Ok(match made.fallback {
        None => json!({ "status": "ok", "preview": made.payload }),
        Some(fallback) => {
            json!({ "status": "fallback", "preview": made.payload, "warning": fallback.warning(tool) })
        }
    })
}

fn op_final_answer(input: &Json) -> Result<Json, Json> {
    let texts = input
        .get("llm_texts")
        .and_then(Json::as_array)
        .ok_or(InvalidInput("llm_texts"))?;
    let llm = Scripted::from_json(texts).map_err(|_| InvalidInput("llm_texts"))?;
    let mut agent = Agent::combined("go");
    if let Some(signature) = input.get("signature").and_then(Json::as_str) {
        agent.signature = Some(parse_signature(signature).map_err(|_| InvalidInput("signature"))?);
    }
    let turns = input
        .get("max_turns")
        .and_then(Json::as_u64)
        .and_then(|turns| u32::try_from(turns).ok());
    agent.max_turns = turns.ok_or(InvalidInput("max_turns"))?;
    let mut options = RunOptions::new(&llm);
    options.collect_messages = true;
    let step = run(&agent, options).map_err(|error| Json::from(error.to_string()))?;
    let successes: Vec<bool> = step.turns.iter().map(|turn| turn.success).collect();
    let mut shown = json!({
        "feedback_messages": later_user_messages(&step),
        "turn_success": successes,
        "turns": step.usage.turns,
    });
    match &step.fail {
        None => {
            shown["status"] = "ok".into();
            shown["return"] = encode_value(&step.returned);
        }
        Some(failure) => {
            shown["status"] = "error".into();
            shown["reason"] = failure.reason.name().into();
            shown["message"] = failure.message.as_str().into();
        }
    }
    Ok(shown)
}

fn op_combined_run(input: &Json) -> Result<Json, Json> {
    let tools = ScriptedTools::default();
    let agent = agent_of(input, &tools)?;
    let script = input
        .get("llm_script")
        .and_then(Json::as_array)
        .ok_or(InvalidInput("llm_script"))?;
    let llm = Scripted::from_json(script).map_err(|_| InvalidInput("llm_script"))?;
    let events = Events::default();
    let mut options = RunOptions::new(&llm);
    let asked = input.get("run").unwrap_or(&Json::Null);
    options.context = map_of(asked.get("context"), "context")?.unwrap_or_default();
    options.journal = map_of(asked.get("journal"), "journal")?;
    options.collect_messages = true;
    options.telemetry = Some(&events);
    let step = run(&agent, options).map_err(|error| Json::from(error.to_string()))?;
    let requests = llm.requests();
    let names = requests
        .first()
        .and_then(|request| request.get("tools"))
        .and_then(Json::as_array);
    let names: Vec<&Json> = names
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.get("function")?.get("name"))
        .collect();
    let memory: Map = step
        .memory
        .iter()
        .map(|(name, value)| (Value::str(name.as_str()), value.clone()))
        .collect();
    Ok(json!({
        "status": if step.fail.is_some() { "error" } else { "ok" },
        "return": encode_value(&step.returned),
        "fail": step.fail.as_ref().map(|fail| json!({ "reason": fail.reason.name(), "message": fail.message })),
        "roles": roles(&step),
        "tool_messages": tool_messages(&step),
        "later_user_messages": later_user_messages(&step),
        "llm_requests": step.usage.llm_requests,
        "usage_turns": step.usage.turns,
        "request_tool_names": names,
        "invocations": tools.invocations(),
        "tool_calls": step.tool_calls.iter().map(call_json).collect::<Vec<_>>(),
        "tool_call_events": events.tool_calls(),
        "memory": encode_value(&Value::Map(memory)),
        "journal": step.journal.clone().map(|journal| encode_value(&Value::Map(journal))),
        "summaries": encode_value(&Value::Map(step.summaries)),
    }))
}

fn op_chat(input: &Json) -> Result<Json, Json> {
    let tools = ScriptedTools::default();
    let agent = agent_of(input, &tools)?;
    let turns = input
        .get("turns")
        .and_then(Json::as_array)
        .ok_or(InvalidInput("turns"))?;
    let mut history: Vec<Message> = Vec::new();
    let mut shown = Vec::new();
    for turn in turns {
        let script = turn
            .get("llm_script")
            .and_then(Json::as_array)
            .ok_or(InvalidInput("llm_script"))?;
        let llm = Scripted::from_json(script).map_err(|_| InvalidInput("llm_script"))?;
        let mut options = RunOptions::new(&llm);
        options.history = history.clone();
        let message = text_of(turn, "message")?;
        match chat(&agent, message, options).map_err(|error| Json::from(error.to_string()))? {
            Ok((text, messages)) => {
                history = messages.iter().filter_map(Message::from_json).collect();
                let roles: Vec<&Json> = messages
                    .iter()
                    .filter_map(|message| message.get("role"))
                    .collect();
                let results: Vec<Json> = messages
                    .iter()
                    .filter(|message| is_role(message, "tool"))
                    .map(content)
                    .collect();
                shown.push(json!({ "status": "ok", "text": text, "roles": roles, "tool_messages": results }));
            }
            Err(failure) => {
                shown.push(json!({ "status": "error", "reason": failure.reason.name(), "message": failure.message }));
            }
        }
    }
    Ok(json!({ "turns": shown, "invocations": tools.invocations() }))
}

/// Tools with scripted behaviour: `{"returns": v}`, `{"ok": v}`, `{"error": v}`, `{"raises": text}`,
/// `{"echo_args": true}`, `{"returns_repeated": {"count": n, "row": v}}`.
#[derive(Default)]
struct ScriptedTools {
    invocations: Arc<Mutex<Vec<Json>>>,
}

impl ScriptedTools {
    fn invocations(&self) -> Json {
        lock(&self.invocations).clone().into()
    }
}

impl ToolSource for ScriptedTools {
    fn function(&self, tool: &Json) -> Result<ToolFn, String> {
        let name = tool
            .get("name")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned();
        let behaviour = Behaviour::read(tool.get("behavior").unwrap_or(&Json::Null))
            .ok_or("given a known behavior")?;
        let invocations = Arc::clone(&self.invocations);
        Ok(Arc::new(move |args: &Value, _| {
            lock(&invocations).push(json!([name, encode_value(args)]));
            behaviour.answer(args)
        }))
    }

    fn preview(&self, option: &Json) -> Option<PreviewFn> {
        scripted_preview(option)
    }
}

enum Behaviour {
    Returns(Value),
    Fails(String),
    Echo,
}

impl Behaviour {
    fn read(script: &Json) -> Option<Behaviour> {
        let Some(script) = script.as_object() else {
            return Some(Behaviour::Returns(Value::Nil));
        };
        let (kind, given) = script.iter().next()?;
        Some(match kind.as_str() {
            "returns" | "ok" => Behaviour::Returns(decode_value(given).ok()?),
            "raises" => Behaviour::Fails(given.as_str()?.to_owned()),
            "error" => match decode_value(given).ok()? {
                Value::Str(text) => Behaviour::Fails(text.as_str().to_owned()),
                other => Behaviour::Fails(ptc_lang::print::readable(&other)),
            },
            "echo_args" => Behaviour::Echo,
            "returns_repeated" => {
                let count = i64::try_from(given.get("count")?.as_u64()?).ok()?;
                let row = given.get("row")?;
                let rows = (1..=count).map(|index| decode_value(&numbered(row, index)).ok());
                Behaviour::Returns(Value::vector(rows.collect::<Option<Vec<_>>>()?))
            }
            _ => return None,
        })
    }

    fn answer(&self, args: &Value) -> Result<Value, ToolFault> {
        match self {
            Behaviour::Returns(value) => Ok(value.clone()),
            Behaviour::Fails(message) => Err(ToolFault::new(message.as_str())),
            Behaviour::Echo => Ok(args.clone()),
        }
    }
}

/// A row with its number in place of the text `<1-based index>`.
fn numbered(row: &Json, index: i64) -> Json {
    match row {
        Json::String(text) if text == "<1-based index>" => index.into(),
        Json::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), numbered(value, index)))
            .collect(),
        other => other.clone(),
    }
}

/// A preview that returns a fixed value (`{"$returns": v}`) or fails (`{"$raises": text}`).
fn scripted_preview(option: &Json) -> Option<PreviewFn> {
    if let Some(message) = option.get("$raises").and_then(Json::as_str) {
        let message = message.to_owned();
        return Some(Arc::new(move |_: &Value| {
            Err(ToolFault::new(message.as_str()))
        }));
    }
    let value = decode_value(option.get("$returns")?).ok()?;
    Some(Arc::new(move |_: &Value| Ok(value.clone())))
}

#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl Telemetry for Events {
    fn emit(&self, event: &Event) {
        lock(&self.0).push(event.clone());
    }
}

impl Events {
    fn tool_calls(&self) -> Vec<Json> {
        let events = lock(&self.0);
        events
            .iter()
            .filter(|event| event.name == TOOL_CALL)
            .map(|event| match &event.metadata {
                // Ids differ between runs.
                Json::Object(fields) => fields
                    .iter()
                    .filter(|(name, _)| !SPAN_FIELDS.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
                other => other.clone(),
            })
            .collect()
    }
}

fn agent_of(input: &Json, tools: &ScriptedTools) -> Result<Agent, Json> {
    let mut options = input.get("agent").cloned().ok_or(InvalidInput("agent"))?;
    // Tools of adapters keep their keyword options separately.
    if let Some(list) = options.get_mut("tools").and_then(Json::as_array_mut) {
        for tool in list {
            if let Some(Json::Object(own)) = tool.get("opts").cloned()
                && let Some(tool) = tool.as_object_mut()
            {
                tool.extend(own);
            }
        }
    }
    Agent::from_options(&options, tools).map_err(|error| error.to_string().into())
}

fn roles(step: &AgentStep) -> Vec<&Json> {
    step.messages
        .iter()
        .flatten()
        .filter_map(|message| message.get("role"))
        .collect()
}

fn tool_messages(step: &AgentStep) -> Vec<Json> {
    let messages = step
        .messages
        .iter()
        .flatten()
        .filter(|message| is_role(message, "tool"));
    messages.map(|message| json!({ "tool_call_id": message["tool_call_id"], "content": content(message) })).collect()
}

fn later_user_messages(step: &AgentStep) -> Vec<&Json> {
    let messages = step
        .messages
        .iter()
        .flatten()
        .filter(|message| is_role(message, "user"));
    messages
        .skip(1)
        .filter_map(|message| message.get("content"))
        .collect()
}

fn is_role(message: &Json, role: &str) -> bool {
    message.get("role").and_then(Json::as_str) == Some(role)
}

/// Content parsed as JSON, or `{"$text": …}` when it is not JSON.
fn content(message: &Json) -> Json {
    let text = message
        .get("content")
        .and_then(Json::as_str)
        .unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| json!({ "$text": text }))
}

fn call_json(call: &CallRecord) -> Json {
    let result = match (&call.result, call.failed_value) {
        (value, true) => json!({ "$fail": encode_value(value) }),
        (Value::Vector(items), false) if items.len() > 100 => {
            json!({ "$elided_list": items.len() })
        }
        (value, false) => encode_value(value),
    };
    json!({ "name": call.name, "args": encode_value(&call.args), "result": result, "error": call.error })
}

fn map_of(encoded: Option<&Json>, field: &'static str) -> Result<Option<Map>, InvalidInput> {
    match encoded
        .map(decode_value)
        .transpose()
        .map_err(|_| InvalidInput(field))?
    {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map)),
        Some(_) => Err(InvalidInput(field)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
