//! The definition of an agent, and all errors in such a definition. Runs nothing.

use std::collections::HashSet;
use std::time::Duration;

use ptc_protocol::{PreviewOptions, Signature, limits, parse_signature};
use serde_json::Value as Json;

use crate::card::SystemPrompt;
use crate::exposure::{Exposure, Output, Transport, resolve_exposure};
use crate::tool::{NativeResult, Preview, PreviewFn, Tool, ToolFn};

/// The name that no app tool may have.
pub const LISP_EVAL: &str = "lisp_eval";

/// What happens when definitions exceed the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryStrategy {
    #[default]
    Strict,
    /// The program's definitions are dropped, and the model is informed.
    Rollback,
}

/// An agent. [`Agent::validate`] (or [`Agent::from_options`]) must accept it before it runs.
#[derive(Debug, Clone)]
pub struct Agent {
    /// For logs and telemetry.
    pub name: String,
    /// The mission; `{{name}}` is filled from the context.
    pub prompt: String,
    pub output: Output,
    /// How programs arrive; `None` in pure text mode.
    pub transport: Option<Transport>,
    /// The type that the answer must match.
    pub signature: Option<Signature>,
    /// App tools, in any order.
    pub tools: Vec<Tool>,
    /// Maximum turns of a run.
    pub max_turns: u32,
    /// Maximum turns in total, counted separately from `max_turns`.
    pub turn_budget: u32,
    /// Maximum native calls of a run; `None` means no limit. Calls inside programs are not counted.
    pub max_tool_calls: Option<u32>,
    /// Maximum wall-clock time of one program.
    pub program_timeout: Duration,
    /// Maximum memory of one program, in bytes.
    pub program_heap_bytes: usize,
    /// Maximum size units of all definitions.
    pub memory_limit: u64,
    /// What happens when `memory_limit` is exceeded.
    pub memory_strategy: MemoryStrategy,
    /// Changes to the system prompt.
    pub system_prompt: SystemPrompt,
    /// Descriptions of context keys, for the model.
    pub context_descriptions: Vec<(String, String)>,
    pub preview: PreviewOptions,
    /// Maximum wall-clock time of a run.
    pub mission_timeout: Option<Duration>,
}

/// Provides the functions of an agent's tools when the agent is read from options.
pub trait ToolSource {
    /// The function of a tool, from its options.
    ///
    /// # Errors
    /// What the tool must be instead, in words: [`AgentError::Option`] quotes it.
    fn function(&self, tool: &Json) -> Result<ToolFn, String>;

    /// A custom preview from the `preview` option; `None` when the option names none.
    fn preview(&self, option: &Json) -> Option<PreviewFn>;
}

/// Why an agent can't be built. The texts are part of the contract; `{}` is the tool's name or the given
/// value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// An unknown `expose` value.
    #[error(
        "tool \"{tool}\": invalid expose: {got} — accepted values are :native, :ptc_lisp, :both"
    )]
    Expose { tool: String, got: String },
    /// A preview for a tool whose results are not shared.
    #[error(
        "tool \"{tool}\": native_result: requires expose: :both AND cache: true (got expose: {expose}, cache: {cache})"
    )]
    PreviewNeedsSharing {
        tool: String,
        expose: String,
        cache: bool,
    },
    /// A `native_result` that is not a list of options.
    #[error("tool \"{tool}\": native_result: must be a keyword list or nil, got {got}")]
    NativeResult { tool: String, got: String },
    /// An invalid preview.
    #[error(
        "tool \"{tool}\": native_result.preview: must be :metadata, :rows, or a 1-arity function, got {got}"
    )]
    Preview { tool: String, got: String },
    /// A limit that is not a positive integer.
    #[error("tool \"{tool}\": native_result.limit: must be a positive integer, got {got}")]
    PreviewLimit { tool: String, got: String },
    /// `ptc_reference: :full`.
    #[error("ptc_reference: :full is deferred (v1 supports :compact only)")]
    ReferenceFull,
    /// Any other `ptc_reference` except `:compact`.
    #[error("ptc_reference must be :compact, got {got}")]
    Reference { got: String },
    /// Text output with programs in the content.
    #[error(
        "ptc_transport: :content is not supported with output: :text, whose answers carry no programs"
    )]
    TextOverContent,
    /// An unknown transport.
    #[error("ptc_transport must be :content or :tool_call, got {got}")]
    Transport { got: String },
    /// An unknown output.
    #[error("output must be :ptc_lisp or :text, got {got}")]
    Output { got: String },
    /// A tool named `lisp_eval`.
    #[error("tool name \"{LISP_EVAL}\" is reserved for the tool that runs programs")]
    ReservedName,
    /// Two tools that have the same name for providers.
    #[error("tools \"{first}\" and \"{second}\" have the same native name; rename one")]
    SameNativeName { first: String, second: String },
    /// An option that must be a positive integer.
    #[error("{option} must be a positive integer")]
    PositiveInteger { option: &'static str },
    /// An unknown memory strategy.
    #[error("memory_strategy must be :strict or :rollback, got {got}")]
    MemoryStrategy { got: String },
    /// Compaction in text mode.
    #[error("output: :text cannot be used with compaction")]
    Compaction,
    /// A signature that does not parse.
    #[error("invalid signature: {error}")]
    Signature { error: String },
    /// Parameters that the prompt does not use.
    #[error(
        "Text mode requires all signature params in prompt. Unused: {}",
        quoted_list(names)
    )]
    UnusedParams { names: Vec<String> },
    /// A prompt whose placeholders stand for too much.
    #[error("the prompt is longer than {PROMPT_BYTES_MAX} bytes once its placeholders are filled")]
    PromptTooLong,
    /// Placeholders that are not parameters.
    #[error("placeholders {} not found in signature", placeholders(names))]
    UnknownPlaceholders { names: Vec<String> },
    /// A tool and a context key with the same name.
    #[error("{name} is both a tool and data - rename one")]
    ToolIsData { name: String },
    /// An option of the wrong kind.
    #[error("{option} must be {expected}")]
    Option {
        option: String,
        /// The expected value, in words.
        expected: String,
    },
}

/// Names in the form of placeholders in prompts.
fn placeholders(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().map(|name| format!("{{{{{name}}}}}")).collect();
    shown.join(", ")
}

impl Agent {
    /// A combined-mode agent without tools: text output, programs through `lisp_eval`.
    #[must_use]
    pub fn combined(prompt: impl Into<String>) -> Self {
        Agent::new(prompt, Output::Text, Some(Transport::ToolCall))
    }

    /// An agent without tools, with every default.
    #[must_use]
    pub fn new(prompt: impl Into<String>, output: Output, transport: Option<Transport>) -> Self {
        Agent {
            name: "agent".to_owned(),
            prompt: prompt.into(),
            output,
            transport,
            signature: None,
            tools: Vec::new(),
            max_turns: limits::agent::TURNS_MAX,
            turn_budget: limits::agent::TURN_BUDGET,
            max_tool_calls: None,
            program_timeout: limits::IN_AGENT.timeout,
            program_heap_bytes: limits::IN_AGENT.memory_bytes as usize,
            memory_limit: limits::agent::MEMORY_UNITS_MAX,
            memory_strategy: MemoryStrategy::Strict,
            system_prompt: SystemPrompt::Base,
            context_descriptions: Vec::new(),
            preview: PreviewOptions::default(),
            mission_timeout: None,
        }
    }

    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the signature of the answer.
    ///
    /// # Errors
    /// The signature does not parse.
    pub fn signature(mut self, text: &str) -> Result<Self, AgentError> {
        let parsed = parse_signature(text).map_err(|error| AgentError::Signature {
            error: error.to_string(),
        })?;
        self.signature = Some(parsed);
        Ok(self)
    }

    #[must_use]
    pub fn exposure(&self, tool: &Tool) -> Exposure {
        resolve_exposure(tool.expose, self.output, self.transport)
    }

    /// Checks what the types can't express.
    ///
    /// # Errors
    /// The first variant of [`AgentError`] that applies.
    pub fn validate(&self) -> Result<(), AgentError> {
        if self.output == Output::Text && self.transport == Some(Transport::Content) {
            return Err(AgentError::TextOverContent);
        }
        if self.max_turns == 0 {
            return Err(AgentError::PositiveInteger {
                option: "max_turns",
            });
        }
        if self.max_tool_calls == Some(0) {
            return Err(AgentError::PositiveInteger {
                option: "max_tool_calls",
            });
        }
        for (i, tool) in self.tools.iter().enumerate() {
            if tool.name == LISP_EVAL || tool.native_name() == LISP_EVAL {
                return Err(AgentError::ReservedName);
            }
            let same = |other: &&Tool| other.native_name() == tool.native_name();
            if let Some(first) = self.tools[..i].iter().find(same) {
                return Err(AgentError::SameNativeName {
                    first: first.name.clone(),
                    second: tool.name.clone(),
                });
            }
            if tool.native_result.limit == 0 {
                return Err(AgentError::PreviewLimit {
                    tool: tool.name.clone(),
                    got: "0".to_owned(),
                });
            }
            let previewed = !matches!(tool.native_result.preview, Preview::Metadata);
            if previewed && !tool.is_shared() {
                return Err(needs_sharing(tool));
            }
        }
        match &self.signature {
            Some(signature) if self.output == Output::Text => {
                check_placeholders(&self.prompt, signature)
            }
            _ => Ok(()),
        }
    }

    /// Reads an agent from options, as agent files and adapters provide them. Unknown options are ignored.
    ///
    /// # Errors
    /// The first variant of [`AgentError`] that applies.
    pub fn from_options(options: &Json, source: &dyn ToolSource) -> Result<Self, AgentError> {
        let output = match options.get("output") {
            None => Output::PtcLisp,
            Some(given) => match word(given) {
                Some("text") => Output::Text,
                Some("ptc_lisp") => Output::PtcLisp,
                _ => return Err(AgentError::Output { got: shown(given) }),
            },
        };
        let transport = match options.get("ptc_transport") {
            None => None,
            Some(given) => match word(given) {
                Some("content") => Some(Transport::Content),
                Some("tool_call") => Some(Transport::ToolCall),
                _ => return Err(AgentError::Transport { got: shown(given) }),
            },
        };
        let mut agent = Agent::new(
            text(options, "prompt")?.unwrap_or_default(),
            output,
            transport,
        );
        read_reference(options.get("ptc_reference"))?;
        if output == Output::Text
            && options
                .get("compaction")
                .is_some_and(|on| !matches!(on, Json::Null | Json::Bool(false)))
        {
            return Err(AgentError::Compaction);
        }
        if let Some(name) = text(options, "name")? {
            agent.name = name;
        }
        if let Some(turns) = positive(options, "max_turns")? {
            agent.max_turns = turns;
        }
        if let Some(turns) = positive(options, "turn_budget")? {
            agent.turn_budget = turns;
        }
        agent.max_tool_calls = positive(options, "max_tool_calls")?;
        if let Some(ms) = positive(options, "timeout")? {
            agent.program_timeout = Duration::from_millis(ms.into());
        }
        if let Some(ms) = positive(options, "mission_timeout")? {
            agent.mission_timeout = Some(Duration::from_millis(ms.into()));
        }
        if let Some(bytes) = positive(options, "max_heap_bytes")? {
            agent.program_heap_bytes = bytes as usize;
        }
        if let Some(limit) = positive(options, "memory_limit")? {
            agent.memory_limit = limit.into();
        }
        if let Some(given) = options.get("memory_strategy") {
            agent.memory_strategy = match word(given) {
                Some("strict") => MemoryStrategy::Strict,
                Some("rollback") => MemoryStrategy::Rollback,
                _ => return Err(AgentError::MemoryStrategy { got: shown(given) }),
            };
        }
        agent.system_prompt = read_system_prompt(options.get("system_prompt"))?;
        if let Some(descriptions) = options
            .get("context_descriptions")
            .and_then(Json::as_object)
        {
            let pairs = descriptions
                .iter()
                .filter_map(|(key, about)| Some((key.clone(), about.as_str()?.to_owned())));
            agent.context_descriptions = pairs.collect();
        }
        for tool in options
            .get("tools")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
        {
            agent.tools.push(read_tool(tool, source)?);
        }
        if let Some(signature) = text(options, "signature")? {
            agent = agent.signature(&signature)?;
        }
        agent.validate()?;
        Ok(agent)
    }
}

/// Maximum bytes of a filled prompt: more than any model reads. A short prompt may repeat a long value.
const PROMPT_BYTES_MAX: usize = 16 << 20;

/// Fills `{{name}}` from the context; unknown names stay as they are written.
///
/// # Errors
/// The filled prompt is too long.
pub fn fill_placeholders(
    prompt: &str,
    mut lookup: impl FnMut(&str) -> Option<String>,
) -> Result<String, AgentError> {
    let mut filled = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let (name, tail) = match placeholder(after) {
            Some(split) => split,
            None => {
                filled.push_str("{{");
                rest = after;
                continue;
            }
        };
        match lookup(name.trim()) {
            Some(value) => filled.push_str(&value),
            None => {
                filled.push_str("{{");
                filled.push_str(name);
                filled.push_str("}}");
            }
        }
        if filled.len() > PROMPT_BYTES_MAX {
            return Err(AgentError::PromptTooLong);
        }
        rest = tail;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The name of a placeholder whose opening braces stand before `text`, with the white space around it, and the text after the closing
/// ones. Reads no further than a name goes, so that many braces cost no more than their length.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let end = text.find(|c: char| !in_name(c) && !c.is_whitespace())?;
    let (name, rest) = text.split_at(end);
    let tail = rest.strip_prefix("}}")?;
    let bare = name.trim();
    (!bare.is_empty() && bare.chars().all(in_name)).then_some((name, tail))
}

fn check_placeholders(prompt: &str, signature: &Signature) -> Result<(), AgentError> {
    let (mut used, mut unknown) = (HashSet::new(), Vec::new());
    let params: HashSet<&str> = signature
        .params
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let _ = fill_placeholders(prompt, |name| {
        let root = name.split('.').next().unwrap_or(name);
        if used.insert(root.to_owned()) && !params.contains(root) {
            unknown.push(root.to_owned());
        }
        None
    });
    // Without parameters the placeholders refer to the context only.
    if !unknown.is_empty() && !params.is_empty() {
        return Err(AgentError::UnknownPlaceholders { names: unknown });
    }
    let unused: Vec<String> = signature
        .params
        .iter()
        .filter(|(name, _)| !used.contains(name))
        .map(|(name, _)| name.clone())
        .collect();
    if unused.is_empty() {
        Ok(())
    } else {
        Err(AgentError::UnusedParams { names: unused })
    }
}

fn read_reference(given: Option<&Json>) -> Result<(), AgentError> {
    match given {
        None => Ok(()),
        Some(given) => match word(given) {
            Some("compact") => Ok(()),
            Some("full") => Err(AgentError::ReferenceFull),
            _ => Err(AgentError::Reference { got: shown(given) }),
        },
    }
}

fn read_system_prompt(given: Option<&Json>) -> Result<SystemPrompt, AgentError> {
    match given {
        None | Some(Json::Null) => Ok(SystemPrompt::Base),
        Some(Json::String(text)) => Ok(SystemPrompt::Replaced(text.clone())),
        Some(Json::Object(parts)) => {
            let part = |key: &str| {
                parts
                    .get(key)
                    .and_then(Json::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            Ok(SystemPrompt::Wrapped {
                prefix: part("prefix"),
                suffix: part("suffix"),
            })
        }
        Some(_) => Err(option_error(
            "system_prompt",
            "a string, or an object with prefix and suffix",
        )),
    }
}

fn read_tool(options: &Json, source: &dyn ToolSource) -> Result<Tool, AgentError> {
    let name = text(options, "name")?.ok_or_else(|| option_error("tool name", "a string"))?;
    let function = source
        .function(options)
        .map_err(|expected| option_error(&format!("tool \"{name}\""), &expected))?;
    let mut tool = Tool::new(name, |_| Err("no function".into()));
    tool.function = function;
    tool.description = text(options, "description")?;
    if let Some(signature) = text(options, "signature")? {
        tool = tool.signature(&signature);
    }
    tool.expose = match options.get("expose") {
        None | Some(Json::Null) => None,
        Some(given) => match word(given).and_then(Exposure::from_name) {
            Some(exposure) => Some(exposure),
            None => {
                return Err(AgentError::Expose {
                    tool: tool.name,
                    got: shown(given),
                });
            }
        },
    };
    tool.cache = options
        .get("cache")
        .and_then(Json::as_bool)
        .unwrap_or(false);
    let native_result = match options.get("native_result") {
        None | Some(Json::Null) => return Ok(tool),
        Some(Json::Object(options)) => options,
        // Some hosts write an empty list of options as an empty array.
        Some(Json::Array(items)) if items.is_empty() => &serde_json::Map::new(),
        Some(given) => {
            return Err(AgentError::NativeResult {
                tool: tool.name,
                got: shown(given),
            });
        }
    };
    if !tool.is_shared() {
        return Err(needs_sharing(&tool));
    }
    let preview = match native_result.get("preview") {
        None => Preview::Metadata,
        Some(given) => match read_preview(given, source) {
            Some(preview) => preview,
            None => {
                return Err(AgentError::Preview {
                    tool: tool.name,
                    got: shown(given),
                });
            }
        },
    };
    let limit = match native_result.get("limit") {
        None => limits::agent::PREVIEW_ROWS_MAX,
        Some(given) => match given
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit > 0)
        {
            Some(limit) => limit,
            None => {
                return Err(AgentError::PreviewLimit {
                    tool: tool.name,
                    got: shown(given),
                });
            }
        },
    };
    tool.native_result = NativeResult { preview, limit };
    Ok(tool)
}

/// The kind of preview that an option names; `None` for an unknown one.
pub fn read_preview(given: &Json, source: &dyn ToolSource) -> Option<Preview> {
    match word(given) {
        Some("metadata") => Some(Preview::Metadata),
        Some("rows") => Some(Preview::Rows),
        _ => source.preview(given).map(Preview::Custom),
    }
}

fn needs_sharing(tool: &Tool) -> AgentError {
    let expose = tool
        .expose
        .map_or("nil".to_owned(), |exposure| format!(":{}", exposure.name()));
    AgentError::PreviewNeedsSharing {
        tool: tool.name.clone(),
        expose,
        cache: tool.cache,
    }
}

fn option_error(option: &str, expected: &str) -> AgentError {
    AgentError::Option {
        option: option.to_owned(),
        expected: expected.to_owned(),
    }
}

fn text(options: &Json, key: &str) -> Result<Option<String>, AgentError> {
    match options.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(option_error(key, "a string")),
    }
}

fn positive(options: &Json, key: &'static str) -> Result<Option<u32>, AgentError> {
    match options.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(given) => match given
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
        {
            Some(number) => Ok(Some(number)),
            None => Err(AgentError::PositiveInteger { option: key }),
        },
    }
}

/// The word of a keyword option: a string, or `{"$kw": …}`.
fn word(given: &Json) -> Option<&str> {
    given.as_str().or_else(|| given.get("$kw")?.as_str())
}

/// An option as messages show it: words as keywords, everything else as PTC-Lisp text.
fn shown(given: &Json) -> String {
    match word(given) {
        Some(word) => format!(":{word}"),
        None => ptc_lang::print::readable(&ptc_protocol::json_to_value(given)),
    }
}

fn quoted_list(names: &[String]) -> String {
    Json::from(names).to_string().replace("\",\"", "\", \"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each brace begins a placeholder that never ends; looking for its end each time takes seconds here.
    #[test]
    fn filling_reads_a_prompt_once() {
        let prompt = "{{".repeat(200_000);
        assert_eq!(fill_placeholders(&prompt, |_| None), Ok(prompt.clone()));
        for (prompt, filled) in [
            ("{{{a}}}", "{{{a}}}"),
            ("{{ a }} {{a b}} {{}} {{a", "V {{a b}} {{}} {{a"),
            ("{{\u{a0}a\n}}{{a{{a}}", "V{{aV"),
        ] {
            let value = |name: &str| (name == "a").then(|| "V".to_owned());
            assert_eq!(fill_placeholders(prompt, value).as_deref(), Ok(filled));
        }
    }

    #[test]
    fn filled_prompts_are_bounded() {
        let prompt = "{{a}}".repeat(100);
        let value = |_: &str| Some("x".repeat(1 << 20));
        assert_eq!(
            fill_placeholders(&prompt, value),
            Err(AgentError::PromptTooLong)
        );
    }
}
