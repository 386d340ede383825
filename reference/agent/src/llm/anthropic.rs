//! The messages wire format, as documented by Anthropic. Only translates.

use std::borrow::Cow;

use ptc_json::{Json as Read, JsonKind};
use serde_json::{Value as Json, json};

use super::http::{ArgumentParser, HttpProvider, ProviderOptions, TOOL_CALLS_MAX};
use super::{ARGUMENTS_NOT_OBJECT, Llm, LlmError, LlmReply, LlmRequest, Message, Tokens, ToolCall};

/// The format requires a limit for the answer; used when the request has none.
const ANSWER_TOKENS_DEFAULT: u32 = 4096;
const HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/json"),
    ("anthropic-version", "2023-06-01"),
];

/// A model behind `POST {base_url}/messages`.
pub struct AnthropicMessages(HttpProvider);

impl AnthropicMessages {
    /// A model at this provider.
    ///
    /// # Errors
    /// The HTTP client can't be built.
    pub fn new(options: ProviderOptions) -> Result<Self, LlmError> {
        HttpProvider::new(options, "/messages", HEADERS).map(AnthropicMessages)
    }
}

impl Llm for AnthropicMessages {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let body = body(self.0.model(), request);
        self.0
            .exchange(&body, request, read_answer, "`content` list")
    }
}

fn body(model: &str, request: &LlmRequest<'_>) -> Json {
    let system = match request.cache {
        true => {
            json!([{ "type": "text", "text": request.system, "cache_control": { "type": "ephemeral" } }])
        }
        false => request.system.into(),
    };
    let mut body = json!({
        "model": model,
        "system": system,
        "messages": messages(request.messages),
        "max_tokens": request.max_tokens.unwrap_or(ANSWER_TOKENS_DEFAULT),
    });
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .filter_map(|tool| tool_definition(tool.get("function")?))
            .collect();
    }
    body
}

fn tool_definition(function: &Json) -> Option<Json> {
    let mut tool =
        json!({ "name": function.get("name")?, "input_schema": function.get("parameters")? });
    if let Some(description) = function.get("description") {
        tool["description"] = description.clone();
    }
    Some(tool)
}

/// The results of one turn's calls must be in one user message, because the format requires
/// alternating roles.
fn messages(history: &[Message]) -> Json {
    let mut shown: Vec<(&str, Vec<Json>)> = Vec::new();
    for message in history {
        let (role, blocks) = match message {
            Message::User(text) => ("user", text_block(text).into_iter().collect()),
            Message::Tool {
                tool_call_id,
                content,
            } => (
                "user",
                vec![
                    json!({ "type": "tool_result", "tool_use_id": tool_call_id, "content": content }),
                ],
            ),
            Message::Assistant {
                content,
                tool_calls,
            } => {
                let mut blocks: Vec<Json> = text_block(content).into_iter().collect();
                blocks.extend(tool_calls.iter().map(|call| {
                    let input: Json = serde_json::from_str(&call.arguments).unwrap_or_default();
                    let input = if input.is_object() { input } else { json!({}) };
                    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
                }));
                ("assistant", blocks)
            }
        };
        match shown.last_mut() {
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => shown.push((role, blocks)),
        }
    }
    let shown = shown.into_iter().filter(|(_, content)| !content.is_empty());
    shown
        .map(|(role, content)| json!({ "role": role, "content": content }))
        .collect()
}

/// The provider refuses empty text blocks.
fn text_block(text: &str) -> Option<Json> {
    (!text.is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn read_answer(answer: Read<'_>) -> Option<LlmReply> {
    let blocks = answer.get("content")?;
    if blocks.kind() != JsonKind::Array {
        return None;
    }
    let mut reply = LlmReply::default();
    let mut arguments = ArgumentParser::new();
    for block in blocks.elements() {
        let text = |key: &str| block.get(key).and_then(Read::as_str);
        match text("type").as_deref() {
            Some("text") => reply
                .content
                .get_or_insert_default()
                .push_str(&text("text").unwrap_or_default()),
            Some("tool_use") if reply.tool_calls.len() <= TOOL_CALLS_MAX => {
                let input = block
                    .get("input")
                    .map(|input| arguments.value(input.text()));
                let (args, wrong) = input.unzip();
                reply.tool_calls.push(ToolCall {
                    id: text("id").map(Cow::into_owned),
                    name: text("name").unwrap_or_default().into_owned(),
                    args_error: wrong.flatten().or(match &args {
                        None | Some(Json::Object(_) | Json::Null) => None,
                        Some(_) => Some(ARGUMENTS_NOT_OBJECT.to_owned()),
                    }),
                    args,
                })
            }
            _ => {}
        }
    }
    reply.tokens = Tokens::read(answer, "input_tokens", "output_tokens");
    Some(reply)
}
