//! The chat-completions wire format, as OpenAI documents it and many providers speak it. Translates, no more.

use serde_json::{Map, Value as Json, json};

use super::http::{Poster, ProviderOptions, TOOL_CALLS_MAX};
use super::{ARGUMENTS_NOT_OBJECT, Llm, LlmError, LlmReply, LlmRequest, Message, Tokens, ToolCall};

/// A model behind `POST {base_url}/chat/completions`.
pub struct ChatCompletions(Poster);

impl ChatCompletions {
    /// A model at this provider.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn new(options: ProviderOptions) -> Result<Self, LlmError> {
        Poster::new(
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
            .exchange(&body, request.timeout, read_answer, "`choices[0].message`")
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

fn read_answer(answer: &Json) -> Option<LlmReply> {
    let message = answer.get("choices")?.get(0)?.get("message")?.as_object()?;
    let calls = message
        .get("tool_calls")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    Some(LlmReply {
        content: message
            .get("content")
            .and_then(Json::as_str)
            .map(str::to_owned),
        tool_calls: calls
            .filter_map(Json::as_object)
            .take(TOOL_CALLS_MAX + 1)
            .map(read_call)
            .collect(),
        tokens: Tokens::read(answer, "prompt_tokens", "completion_tokens"),
    })
}

fn read_call(call: &Map<String, Json>) -> ToolCall {
    let function = call.get("function").unwrap_or(&Json::Null);
    let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
    let (args, args_error) = read_arguments(function.get("arguments"));
    ToolCall {
        id: text(call.get("id")),
        name: text(function.get("name")).unwrap_or_default(),
        args,
        args_error,
    }
}

/// Arguments come as JSON text. What does not decode is kept verbatim, with the reason.
fn read_arguments(arguments: Option<&Json>) -> (Option<Json>, Option<String>) {
    let Some(Json::String(text)) = arguments else {
        return (arguments.cloned(), None);
    };
    if text.trim().is_empty() {
        return (None, None);
    }
    match serde_json::from_str::<Json>(text) {
        Ok(args @ (Json::Object(_) | Json::Null)) => (Some(args), None),
        Ok(_) => (
            Some(Json::from(text.as_str())),
            Some(ARGUMENTS_NOT_OBJECT.to_owned()),
        ),
        Err(error) => (
            Some(Json::from(text.as_str())),
            Some(format!("Tool arguments are not valid JSON: {error}")),
        ),
    }
}
