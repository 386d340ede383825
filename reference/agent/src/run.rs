//! The run loop: turns, pairing, budgets, final answers. The calls of a turn are in `turn`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ptc_lang::heap::Account;
use ptc_lang::value::Map;
use ptc_lang::{Env, Value};
use serde_json::{Value as Json, json};

use crate::agent::{Agent, AgentError, fill_placeholders};
use crate::answer::{AnswerForm, answer_form, final_answer};
use crate::cache::Cache;
use crate::card::{base_prompt, combined_prompt, mission, program_prompt};
use crate::exposure::{Output, Transport};
use crate::llm::{AbandonCheck, Llm, LlmReply, LlmRequest, Message, WireCall};
use crate::lock::lock;
use crate::scrubber::{Scrubber, Unscrubbed};
use crate::step::{AgentStep, RunFailure, RunReason, TurnRecord};
use crate::telemetry::{Event, Spans, Telemetry};
use crate::tool::Tool;
use crate::turn::{TurnEnd, native_definitions};

/// Maximum bytes held in one run by all tools that the model calls natively: far more than a model reads.
const NATIVE_BYTES_MAX: u64 = 256 << 20;

/// The parameters of a run besides the agent.
pub struct RunOptions<'a> {
    pub llm: &'a dyn Llm,
    /// What programs read as `data/NAME`.
    pub context: Map,
    /// The journal of `task`; without one, nothing is remembered.
    pub journal: Option<Map>,
    /// Messages before this run.
    pub history: Vec<Message>,
    /// Whether the step includes the conversation.
    pub collect_messages: bool,
    /// Whether the step includes a record of each turn.
    pub trace: bool,
    /// Whether the provider may cache the prompt.
    pub prompt_cache: bool,
    pub telemetry: Option<&'a dyn Telemetry>,
    /// Applied to everything shown of programs. The caller scrubs tools, the context and the model itself.
    pub scrubber: &'a dyn Scrubber,
    /// Called once with the text of a final answer that is not JSON.
    pub on_chunk: Option<&'a dyn Fn(&str)>,
    /// Called with each message as it is appended.
    pub on_message: Option<&'a dyn Fn(&Message)>,
}

impl<'a> RunOptions<'a> {
    /// A run over `llm` with the default parameters.
    pub fn new(llm: &'a dyn Llm) -> Self {
        RunOptions {
            llm,
            context: Map::new(),
            journal: None,
            history: Vec::new(),
            collect_messages: false,
            trace: true,
            prompt_cache: false,
            telemetry: None,
            scrubber: &Unscrubbed,
            on_chunk: None,
            on_message: None,
        }
    }
}

/// Runs an agent in the mode determined by its output and transport.
///
/// # Errors
/// The agent is invalid, or a tool and a context key have the same name. All later failures are in the step's
/// `fail`.
pub fn run(agent: &Agent, options: RunOptions<'_>) -> Result<AgentStep, AgentError> {
    agent.validate()?;
    if let Some(tool) = agent
        .tools
        .iter()
        .find(|tool| options.context.contains(&Value::str(tool.name.as_str())))
    {
        return Err(AgentError::ToolIsData {
            name: tool.name.clone(),
        });
    }
    let spans = options
        .telemetry
        .map(|sink| Spans::new(sink, json!(agent.name)));
    let telemetry = spans.as_ref().map(|spans| spans as &dyn Telemetry);
    let options = RunOptions {
        telemetry,
        ..options
    };
    let prompt = fill_placeholders(&agent.prompt, |name| context_text(&options.context, name))?;
    let mut run = Run::new(agent, options);
    run.step.prompt = prompt;
    Ok(run.finish())
}

/// The kind of an agent's turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Text answers, native tools, and programs through `lisp_eval`.
    Combined,
    /// Text answers and native tools; every tool is native, and results are not shared.
    Text,
    /// The answer is the return value of a program that is passed to `lisp_eval`.
    LispCall,
    /// The answer is the return value of a program that is written as text.
    LispContent,
}

impl Mode {
    fn of(agent: &Agent) -> Mode {
        match (agent.output, agent.transport) {
            (Output::Text, Some(Transport::ToolCall)) => Mode::Combined,
            (Output::Text, _) => Mode::Text,
            (Output::PtcLisp, Some(Transport::ToolCall)) => Mode::LispCall,
            (Output::PtcLisp, _) => Mode::LispContent,
        }
    }
}

/// One turn of a conversation: a new run over the messages so far, answered with plain text.
///
/// Only the messages are carried over: no results, definitions, `*1` or journal.
///
/// # Errors
/// See [`run`]; a failed run is the inner error.
#[allow(clippy::type_complexity)]
pub fn chat(
    agent: &Agent,
    user_message: &str,
    mut options: RunOptions<'_>,
) -> Result<Result<(String, Vec<Json>), RunFailure>, AgentError> {
    let mut agent = agent.clone();
    agent.signature = None;
    agent.prompt = user_message.to_owned();
    options.collect_messages = true;
    let step = run(&agent, options)?;
    Ok(match step.fail {
        Some(failure) => Err(failure),
        None => {
            let text = match &step.returned {
                Value::Str(text) => text.as_str().to_owned(),
                other => ptc_lang::print::readable(other),
            };
            Ok((text, step.messages.unwrap_or_default()))
        }
    })
}

/// The message of a run that exceeds its time, and of each of its calls that is not made for that reason.
pub(crate) const MISSION_TIMEOUT: &str = "Mission timeout exceeded";

fn mission_timeout() -> RunFailure {
    RunFailure {
        reason: RunReason::MissionTimeout,
        message: MISSION_TIMEOUT.to_owned(),
    }
}

/// The state of a run.
pub(crate) struct Run<'a> {
    pub mode: Mode,
    pub agent: &'a Agent,
    pub options: RunOptions<'a>,
    /// Natively callable tools by their native and their original names.
    pub native: BTreeMap<String, &'a Tool>,
    /// Program-callable tools by name.
    pub callable: BTreeMap<String, &'a Tool>,
    pub callable_names: Vec<String>,
    pub cache: Mutex<Cache>,
    pub env: Env,
    pub step: AgentStep,
    pub messages: Vec<Message>,
    pub turn: u32,
    pub native_calls: u32,
    /// The memory of natively called tools: their answers and what shows them, which a run keeps until its end.
    pub native_account: Account,
    pub started: Instant,
}

impl<'a> Run<'a> {
    fn new(agent: &'a Agent, mut options: RunOptions<'a>) -> Self {
        let mode = Mode::of(agent);
        let mut native = BTreeMap::new();
        let mut callable = BTreeMap::new();
        for tool in &agent.tools {
            let exposure = agent.exposure(tool);
            if exposure.is_native() || mode == Mode::Text {
                native.insert(tool.name.clone(), tool);
                native.insert(tool.native_name(), tool);
            }
            if exposure.is_program_callable() {
                callable.insert(tool.name.clone(), tool);
            }
        }
        let mut context = options.context.clone();
        let fail = Value::str("fail");
        if !context.contains(&fail) {
            // The only name that is nil until it is set.
            context.insert(fail, Value::Nil);
        }
        let mut env = Env::new().with_context(context);
        if let Some(journal) = options.journal.take() {
            env = env.with_journal(journal);
        }
        let messages = std::mem::take(&mut options.history);
        Run {
            mode,
            agent,
            options,
            native,
            callable_names: callable.keys().cloned().collect(),
            callable,
            cache: Mutex::default(),
            env,
            step: AgentStep::default(),
            messages,
            turn: 0,
            native_calls: 0,
            native_account: Account::new(NATIVE_BYTES_MAX),
            started: Instant::now(),
        }
    }

    fn finish(mut self) -> AgentStep {
        let program_tools: Vec<&Tool> = self.callable.values().copied().collect();
        let custom = &self.agent.system_prompt;
        let system = match self.mode {
            Mode::Text => base_prompt(custom),
            Mode::Combined => combined_prompt(custom, &program_tools),
            Mode::LispCall | Mode::LispContent => {
                program_prompt(custom, &program_tools, self.mode == Mode::LispCall)
            }
        };
        let tools = native_definitions(self.agent, self.mode);
        let schema = self.answer_schema(&tools);
        let opening = mission(
            &self.step.prompt,
            &context_entries(&self.options.context),
            &self.agent.context_descriptions,
            self.agent
                .signature
                .as_ref()
                .map(|signature| &signature.returns),
        );
        self.append(Message::User(opening));
        self.emit("run.start", || json!({}), || json!({}));
        let fail = self.turns(&system, &tools, schema.as_ref()).err();
        self.close(system, fail)
    }

    /// Runs turns until there is an answer, or none is possible.
    fn turns(
        &mut self,
        system: &str,
        tools: &[Json],
        schema: Option<&Json>,
    ) -> Result<(), RunFailure> {
        loop {
            self.turn += 1;
            self.check_budgets()?;
            let number = self.turn;
            self.env = std::mem::take(&mut self.env).in_turn(number.into());
            let began = Instant::now();
            self.emit(
                "turn.start",
                || json!({}),
                || json!({ "turn": number, "type": "normal", "tools_count": self.agent.tools.len() }),
            );
            self.step.usage.turns = number;
            let request = LlmRequest {
                system,
                messages: &self.messages,
                turn: number,
                output: self.agent.output,
                tools,
                cache: self.options.prompt_cache,
                schema,
                max_tokens: None,
                timeout: self.time_left(),
                abandoned: AbandonCheck::NEVER,
            };
            self.emit(
                "llm.start",
                || json!({}),
                || json!({ "turn": number, "messages": self.messages.len() }),
            );
            let reply = match self.options.llm.complete(&request) {
                Ok(reply) => reply,
                Err(_) if self.is_timed_out() => return Err(mission_timeout()),
                Err(error) => {
                    return Err(RunFailure {
                        reason: RunReason::Llm,
                        message: format!("LLM call failed: {error}"),
                    });
                }
            };
            self.count(&reply);
            let end = self.take_turn(&reply);
            let tokens = reply.tokens.unwrap_or_default();
            self.emit(
                "turn.stop",
                || {
                    json!({
                        "duration": u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
                        "tokens": tokens.input + tokens.output,
                        "input_tokens": tokens.input,
                        "output_tokens": tokens.output,
                    })
                },
                || json!({ "turn": number, "type": "normal" }),
            );
            match end {
                TurnEnd::Continue => {}
                TurnEnd::Answered => return Ok(()),
                TurnEnd::Abort(failure) => return Err(failure),
            }
        }
    }

    /// The schema for the provider. Only a text agent without tools asks the provider itself for JSON.
    fn answer_schema(&self, tools: &[Json]) -> Option<Json> {
        let returns = &self.agent.signature.as_ref()?.returns;
        let asked = self.mode == Mode::Text
            && tools.is_empty()
            && answer_form(Some(returns)) == AnswerForm::Structured;
        asked.then(|| ptc_protocol::provider_schema(returns))
    }

    fn check_budgets(&self) -> Result<(), RunFailure> {
        let failed = |reason, message: String| Err(RunFailure { reason, message });
        if self.turn > self.agent.max_turns {
            return failed(
                RunReason::MaxTurns,
                format!("Exceeded max_turns limit of {}", self.agent.max_turns),
            );
        }
        if self.turn > self.agent.turn_budget {
            return failed(RunReason::TurnBudget, "Turn budget exhausted".to_owned());
        }
        match self.is_timed_out() {
            true => Err(mission_timeout()),
            false => Ok(()),
        }
    }

    /// The remaining time of the run, if it is limited.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let limit = self.agent.mission_timeout?;
        Some(limit.saturating_sub(self.started.elapsed()))
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    fn take_turn(&mut self, reply: &LlmReply) -> TurnEnd {
        if !reply.tool_calls.is_empty() {
            return self.tool_turn(reply);
        }
        match (&reply.content, self.mode) {
            (None, _) => self.empty_turn(),
            (Some(text), Mode::Combined | Mode::Text) => self.answer_turn(text),
            (Some(_), Mode::LispCall) => self.ask_for_program(reply),
            (Some(_), Mode::LispContent) => self.content_turn(reply),
        }
    }

    fn answer_turn(&mut self, text: &str) -> TurnEnd {
        let returns = self
            .agent
            .signature
            .as_ref()
            .map(|signature| &signature.returns);
        match final_answer(text, returns) {
            Ok(value) => {
                self.append(Message::Assistant {
                    content: text.to_owned(),
                    tool_calls: Vec::new(),
                });
                self.record(true, value.clone(), self.step.tool_calls.clone(), text);
                if let (Some(on_chunk), true) = (
                    self.options.on_chunk,
                    answer_form(returns) != AnswerForm::Structured,
                ) {
                    on_chunk(text);
                }
                self.step.returned = value;
                TurnEnd::Answered
            }
            Err(error) => {
                self.record(false, Value::Nil, Vec::new(), text);
                self.append(Message::Assistant {
                    content: text.to_owned(),
                    tool_calls: Vec::new(),
                });
                if self.turn >= self.agent.max_turns {
                    return TurnEnd::Abort(RunFailure {
                        reason: error.reason,
                        message: error.message,
                    });
                }
                self.append(Message::User(error.feedback()));
                TurnEnd::Continue
            }
        }
    }

    fn empty_turn(&mut self) -> TurnEnd {
        const MESSAGE: &str = "LLM returned neither content nor tool calls";
        self.record(false, Value::Nil, Vec::new(), "");
        if self.turn >= self.agent.max_turns {
            self.append(Message::Assistant {
                content: String::new(),
                tool_calls: Vec::new(),
            });
            return TurnEnd::Abort(RunFailure {
                reason: RunReason::EmptyResponse,
                message: MESSAGE.to_owned(),
            });
        }
        self.append(Message::User(format!(
            "Error: {MESSAGE}. Please use tools or return a final answer."
        )));
        TurnEnd::Continue
    }

    fn count(&mut self, reply: &LlmReply) {
        let usage = &mut self.step.usage;
        usage.llm_requests += 1;
        if let Some(tokens) = reply.tokens {
            usage.input_tokens += tokens.input;
            usage.output_tokens += tokens.output;
        }
        let tokens = reply.tokens.unwrap_or_default();
        let response = if reply.tool_calls.is_empty() {
            reply.content.as_deref()
        } else {
            Some("tool_calls")
        };
        self.emit(
            "llm.stop",
            || json!({ "input_tokens": tokens.input, "output_tokens": tokens.output }),
            || json!({ "turn": self.turn, "response": response }),
        );
    }

    pub(crate) fn append(&mut self, message: Message) {
        if let Some(on_message) = self.options.on_message {
            on_message(&message);
        }
        self.messages.push(message);
    }

    /// Appends the model's turn with its calls, giving an id to each call without one.
    pub(crate) fn append_calls(&mut self, reply: &LlmReply) -> Vec<String> {
        let mut ids = Vec::with_capacity(reply.tool_calls.len());
        let mut calls = Vec::with_capacity(reply.tool_calls.len());
        for (i, call) in reply.tool_calls.iter().enumerate() {
            let id = call
                .id
                .clone()
                .unwrap_or_else(|| format!("tc_{}", self.native_calls as usize + i + 1));
            calls.push(WireCall {
                id: id.clone(),
                name: call.name.clone(),
                arguments: call.arguments_text(),
            });
            ids.push(id);
        }
        self.append(Message::Assistant {
            content: reply.content.clone().unwrap_or_default(),
            tool_calls: calls,
        });
        ids
    }

    pub(crate) fn record(
        &mut self,
        success: bool,
        result: Value,
        tool_calls: Vec<crate::step::CallRecord>,
        raw_response: &str,
    ) {
        if self.options.trace {
            let raw_response = raw_response.to_owned();
            self.step.turns.push(TurnRecord {
                number: self.turn,
                success,
                result,
                tool_calls,
                raw_response,
            });
        }
    }

    /// Emits an event, which is built only when there is a listener.
    pub(crate) fn emit(
        &self,
        name: &'static str,
        measurements: impl FnOnce() -> Json,
        metadata: impl FnOnce() -> Json,
    ) {
        if let Some(telemetry) = self.options.telemetry {
            telemetry.emit(&Event {
                name,
                measurements: measurements(),
                metadata: metadata(),
            });
        }
    }

    fn close(mut self, system: String, fail: Option<RunFailure>) -> AgentStep {
        self.step.usage.duration_ms =
            u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let status = if fail.is_some() { "error" } else { "ok" };
        self.emit(
            "run.stop",
            || json!({ "duration_ms": self.step.usage.duration_ms }),
            || json!({ "status": status, "reason": fail.as_ref().map(|fail| fail.reason.name()) }),
        );
        if self.options.collect_messages {
            self.step.messages = Some(conversation(&system, &self.messages));
        }
        if fail.is_none() {
            self.step.memory = memory(&self.env);
            self.step.journal = self.env.journal().cloned();
            self.step.summaries = self.env.steps();
            self.step.cache = std::mem::take(&mut *lock(&self.cache));
        } else {
            // A failed run returns the records of its turns, but no state to continue from.
            self.step.tool_calls.clear();
        }
        self.step.fail = fail;
        self.step
    }
}

/// A conversation as JSON, with the system message first.
pub(crate) fn conversation(system: &str, messages: &[Message]) -> Vec<Json> {
    let mut shown = vec![json!({ "role": "system", "content": system })];
    shown.extend(messages.iter().map(Message::to_json));
    shown
}

/// The definitions of an environment by name.
pub(crate) fn memory(env: &Env) -> BTreeMap<String, Value> {
    env.definitions()
        .into_iter()
        .map(|(name, value, _)| (name.to_owned(), value.clone()))
        .collect()
}

/// A context value as a placeholder shows it.
pub(crate) fn context_text(context: &Map, name: &str) -> Option<String> {
    let mut names = name.split('.');
    let mut value = context.lookup(&Value::str(names.next()?))?;
    for name in names {
        let Value::Map(inner) = value else {
            return None;
        };
        value = inner.lookup(&Value::str(name))?;
    }
    Some(ptc_lang::print::display(value))
}

pub(crate) fn context_entries(context: &Map) -> Vec<(String, Value)> {
    let entries = context.iter();
    entries
        .filter_map(|(key, value)| Some((key.key_text()?.as_str().to_owned(), value.clone())))
        .collect()
}
