//! The chat-completions wire format, as documented by OpenAI and used by many providers. Only translates.

use std::borrow::Cow;

use ptc_json::{Json as Read, JsonKind};
use serde_json::{Value as Json, json};

use super::http::{ArgumentParser, HttpProvider, ProviderOptions, TOOL_CALLS_MAX};
use super::{ARGUMENTS_NOT_OBJECT, Llm, LlmError, LlmReply, LlmRequest, Message, Tokens, ToolCall};

/// A model behind `POST {base_url}/chat/completions`.
pub struct ChatCompletions(HttpProvider);

impl ChatCompletions {
    /// A model at this provider.
    ///
    /// # Errors
    /// The HTTP client can't be built.
    pub fn new(options: ProviderOptions) -> Result<Self, LlmError> {
        HttpProvider::new(
            options,
            "/chat/completions",
            &[("content-type", "application/json")],
        )
        .map(ChatCompletions)
    }
}

impl Llm for ChatCompletions {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let body = body(self.0.model(), request);
        self.0
            .exchange(&body, request, read_answer, "`choices[0].message`")
    }
}

fn body(model: &str, request: &LlmRequest<'_>) -> Json {
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    messages.extend(request.messages.iter().map(Message::to_json));
    let mut body = json!({ "model": model, "messages": messages, "stream": false });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.into();
    }
    if let Some(max_tokens) = request.max_tokens {
        body["max_tokens"] = max_tokens.into();
    }
    if let Some(schema) = request.schema {
        let format = json!({ "name": "answer", "schema": schema, "strict": false });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": format });
    }
    body
}

fn read_answer(answer: Read<'_>) -> Option<LlmReply> {
    let first = answer.get("choices")?.elements().next()?;
    let message = first.get("message").filter(is_object)?;
    let mut arguments = ArgumentParser::new();
    let calls = message.get("tool_calls").unwrap_or(Read::NULL);
    Some(LlmReply {
        content: text(message, "content"),
        tool_calls: calls
            .elements()
            .filter(is_object)
            .take(TOOL_CALLS_MAX + 1)
            .map(|call| read_call(call, &mut arguments))
            .collect(),
        tokens: Tokens::read(answer, "prompt_tokens", "completion_tokens"),
    })
}

fn is_object(json: &Read<'_>) -> bool {
    json.kind() == JsonKind::Object
}

fn text(object: Read<'_>, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(Cow::into_owned)
}

fn read_call(call: Read<'_>, arguments: &mut ArgumentParser) -> ToolCall {
    let function = call.get("function").unwrap_or(Read::NULL);
    let (args, args_error) = read_arguments(function.get("arguments"), arguments);
    ToolCall {
        id: text(call, "id"),
        name: text(function, "name").unwrap_or_default(),
        args,
        args_error,
    }
}

/// Arguments arrive as JSON text, from some providers as JSON. Text that does not decode to an object is kept verbatim, with the
/// reason.
fn read_arguments(
    given: Option<Read<'_>>,
    arguments: &mut ArgumentParser,
) -> (Option<Json>, Option<String>) {
    let Some(given) = given else {
        return (None, None);
    };
    let text = given.as_str().unwrap_or_else(|| given.text().into());
    if text.trim().is_empty() {
        return (None, None);
    }
    match arguments.value(&text) {
        (args @ (Json::Object(_) | Json::Null), None) => (Some(args), None),
        (_, None) => (
            Some(Json::from(text)),
            Some(ARGUMENTS_NOT_OBJECT.to_owned()),
        ),
        (kept, wrong) => (Some(kept), wrong),
    }
}
