//! Requests to a model and its replies, for every provider. Does no I/O itself.

mod anthropic;
mod chat_completions;
mod http;
mod recorded;
mod scripted;

use std::fmt;
use std::time::Duration;

use ptc_json::Json as Read;
use ptc_secrets::{Redactor, Scrub};
use serde_json::{Value as Json, json};

pub use anthropic::AnthropicMessages;
pub use chat_completions::ChatCompletions;
pub use http::{ProviderOptions, RetryPolicy};
pub use recorded::{Recorder, RecordingError, Replay};
pub use scripted::Scripted;

use crate::exposure::Output;

/// Maximum plausible token count; sums of such counts can't overflow.
const TOKENS_MAX: u64 = 1 << 40;

/// The adapters' message for arguments that are JSON, but not an object.
const ARGUMENTS_NOT_OBJECT: &str = "Tool arguments must be a JSON object";

/// A model. Called from the thread that runs the agent, which it may block.
pub trait Llm: Send + Sync {
    /// Asks for one assistant turn.
    ///
    /// # Errors
    /// No answer was received; retries are the adapter's own matter.
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError>;
}

#[derive(Debug, Clone, Copy)]
pub struct LlmRequest<'a> {
    /// System prompt; not part of `messages`.
    pub system: &'a str,
    /// The conversation so far.
    pub messages: &'a [Message],
    /// The turn of the run, from 1.
    pub turn: u32,
    /// What the answer consists of.
    pub output: Output,
    /// Tool definitions in the chat-completions format.
    pub tools: &'a [Json],
    /// Whether the provider may cache the prompt.
    pub cache: bool,
    /// JSON Schema of the answer, in modes that send one.
    pub schema: Option<&'a Json>,
    /// Maximum tokens of the answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Maximum duration of the answer; `None` leaves it to the adapter.
    pub timeout: Option<Duration>,
    /// Adapters poll this while they wait.
    pub abandoned: AbandonCheck<'a>,
}

/// Tells whether nobody waits for the answer any more.
#[derive(Clone, Copy)]
pub struct AbandonCheck<'a>(pub &'a dyn Fn() -> bool);

impl AbandonCheck<'static> {
    pub const NEVER: Self = AbandonCheck(&|| false);
}

impl fmt::Debug for AbandonCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", (self.0)())
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// From the user, or feedback from the run loop.
    User(String),
    Assistant {
        /// The text, possibly empty.
        content: String,
        /// The calls that the model made.
        tool_calls: Vec<WireCall>,
    },
    /// The result of a call.
    Tool {
        tool_call_id: String,
        /// The result as text.
        content: String,
    },
}

/// A call as stored in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireCall {
    /// Matches the call with its result.
    pub id: String,
    /// The tool's native name.
    pub name: String,
    /// Arguments as JSON text.
    pub arguments: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmReply {
    pub content: Option<String>,
    /// The model's calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Token counts, when the provider reports them.
    pub tokens: Option<Tokens>,
}

/// A call that the model made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCall {
    pub id: Option<String>,
    /// The tool's native name.
    pub name: String,
    /// Decoded arguments, or a string to be kept verbatim.
    pub args: Option<Json>,
    /// Why the arguments could not be decoded.
    pub args_error: Option<String>,
}

impl Scrub for LlmReply {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        self.content.scrub_in_place(redactor);
        self.tool_calls.scrub_in_place(redactor);
    }
}

impl Scrub for ToolCall {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        self.id.scrub_in_place(redactor);
        self.name.scrub_in_place(redactor);
        self.args.scrub_in_place(redactor);
        self.args_error.scrub_in_place(redactor);
    }
}

/// Tokens of one request, each at most [`TOKENS_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
}

impl Tokens {
    pub fn total(self) -> u64 {
        self.input + self.output
    }

    /// Reads the counts from an answer's `usage` under the format's names; `None` when both are missing.
    pub(crate) fn read(answer: Read<'_>, input: &str, output: &str) -> Option<Tokens> {
        let usage = answer.get("usage")?;
        let count = |key: &str| u64::try_from(usage.get(key)?.as_i64()?).ok();
        Tokens::of(count(input), count(output))
    }

    /// Ignores implausibly large counts.
    fn of(input: Option<u64>, output: Option<u64>) -> Option<Tokens> {
        let possible = |count: &u64| *count <= TOKENS_MAX;
        match (input.filter(possible), output.filter(possible)) {
            (None, None) => None,
            (input, output) => Some(Tokens {
                input: input.unwrap_or(0),
                output: output.unwrap_or(0),
            }),
        }
    }
}

/// Why no answer was received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    pub kind: LlmErrorKind,
    /// What happened, without secrets.
    pub message: String,
}

/// Kinds of failure; the first three may succeed on another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmErrorKind {
    RateLimited,
    /// No answer in time.
    Timeout,
    /// The provider or the connection to it failed.
    Unavailable,
    /// The credentials are wrong.
    Auth,
    /// The provider refused the request.
    Refused,
    /// The answer does not follow the protocol.
    Malformed,
    /// Nobody waits for the answer any more.
    Abandoned,
    /// The script or recording has no reply for this request.
    NotRecorded,
    /// The model is not configured.
    Config,
}

impl LlmErrorKind {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            LlmErrorKind::RateLimited | LlmErrorKind::Timeout | LlmErrorKind::Unavailable
        )
    }
}

impl LlmError {
    pub fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        LlmError {
            kind,
            message: message.into(),
        }
    }
}

impl Message {
    /// The message in the chat-completions format.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Message::User(content) => json!({ "role": "user", "content": content }),
            Message::Assistant {
                content,
                tool_calls,
            } if tool_calls.is_empty() => {
                json!({ "role": "assistant", "content": content })
            }
            Message::Assistant {
                content,
                tool_calls,
            } => {
                let calls: Vec<Json> = tool_calls.iter().map(WireCall::to_json).collect();
                json!({ "role": "assistant", "content": content, "tool_calls": calls })
            }
            Message::Tool {
                tool_call_id,
                content,
            } => {
                json!({ "role": "tool", "tool_call_id": tool_call_id, "content": content })
            }
        }
    }

    /// Reads a message in the chat-completions format; `None` for system messages and invalid ones.
    #[must_use]
    pub fn from_json(message: &Json) -> Option<Message> {
        let content = message
            .get("content")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned();
        match message.get("role")?.as_str()? {
            "user" => Some(Message::User(content)),
            "tool" => {
                let tool_call_id = message.get("tool_call_id")?.as_str()?.to_owned();
                Some(Message::Tool {
                    tool_call_id,
                    content,
                })
            }
            "assistant" => {
                let calls = message
                    .get("tool_calls")
                    .and_then(Json::as_array)
                    .into_iter()
                    .flatten();
                Some(Message::Assistant {
                    content,
                    tool_calls: calls.filter_map(WireCall::from_json).collect(),
                })
            }
            _ => None,
        }
    }
}

impl WireCall {
    fn to_json(&self) -> Json {
        json!({ "id": self.id, "type": "function", "function": { "name": self.name, "arguments": self.arguments } })
    }

    fn from_json(call: &Json) -> Option<WireCall> {
        let function = call.get("function")?;
        let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
        Some(WireCall {
            id: text(call.get("id"))?,
            name: text(function.get("name"))?,
            arguments: text(function.get("arguments")).unwrap_or_default(),
        })
    }
}

impl ToolCall {
    /// The arguments as stored in the conversation: a string verbatim, else compact JSON, `{}` for none.
    #[must_use]
    pub fn arguments_text(&self) -> String {
        match &self.args {
            None | Some(Json::Null) => "{}".to_owned(),
            Some(Json::String(text)) => text.clone(),
            Some(args) => args.to_string(),
        }
    }
}

impl LlmReply {
    /// A reply with text only.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        LlmReply {
            content: Some(content.into()),
            ..LlmReply::default()
        }
    }

    /// The reply as JSON, for recordings.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let calls: Vec<Json> = self
            .tool_calls
            .iter()
            .map(|call| {
                let mut shown = json!({ "id": call.id, "name": call.name, "args": call.args });
                if let Some(error) = &call.args_error {
                    shown["args_error"] = error.as_str().into();
                }
                shown
            })
            .collect();
        let mut shown = json!({ "content": self.content });
        if !calls.is_empty() {
            shown["tool_calls"] = calls.into();
        }
        if let Some(tokens) = self.tokens {
            shown["tokens"] = json!({ "input": tokens.input, "output": tokens.output });
        }
        shown
    }

    /// Reads a reply: an object in the format of [`LlmReply::to_json`], or a bare string.
    #[must_use]
    pub fn from_json(reply: &Json) -> Option<Self> {
        if let Json::String(text) = reply {
            return Some(LlmReply::text(text.as_str()));
        }
        let reply = reply.as_object()?;
        let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
        let calls = reply
            .get("tool_calls")
            .and_then(Json::as_array)
            .into_iter()
            .flatten();
        let tokens = reply.get("tokens").filter(|tokens| tokens.is_object());
        let count = |tokens: &Json, key: &str| tokens.get(key).and_then(Json::as_u64).or(Some(0));
        Some(LlmReply {
            content: text(reply.get("content")),
            tool_calls: calls
                .map(|call| ToolCall {
                    id: text(call.get("id")),
                    name: text(call.get("name")).unwrap_or_default(),
                    args: call.get("args").cloned(),
                    args_error: text(call.get("args_error")),
                })
                .collect(),
            tokens: tokens
                .and_then(|tokens| Tokens::of(count(tokens, "input"), count(tokens, "output"))),
        })
    }
}
