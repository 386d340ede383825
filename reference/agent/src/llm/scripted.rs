//! A model that gives scripted replies, in order. For tests and for evaluation without a provider.

use std::sync::Mutex;

use serde_json::{Value as Json, json};

use crate::lock::lock;

use super::{Llm, LlmError, LlmErrorKind, LlmReply, LlmRequest, Message};

/// Gives replies in order; keeps the requests.
#[derive(Debug, Default)]
pub struct Scripted {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    replies: std::collections::VecDeque<Result<LlmReply, LlmError>>,
    requests: Vec<Json>,
}

impl Scripted {
    /// A model that gives these replies, and an error after the last one.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Result<LlmReply, LlmError>>) -> Self {
        let state = State {
            replies: replies.into_iter().collect(),
            requests: Vec::new(),
        };
        Scripted {
            state: Mutex::new(state),
        }
    }

    /// Reads a script: each item is a reply, or `{"error": text}`.
    ///
    /// # Errors
    /// The index of an item that is neither.
    pub fn from_json(script: &[Json]) -> Result<Self, usize> {
        let reply = |(i, item): (usize, &Json)| match item.get("error").and_then(Json::as_str) {
            Some(message) => Ok(Err(LlmError::new(LlmErrorKind::Unavailable, message))),
            None => LlmReply::from_json(item).map(Ok).ok_or(i),
        };
        Ok(Scripted::new(
            script
                .iter()
                .enumerate()
                .map(reply)
                .collect::<Result<Vec<_>, usize>>()?,
        ))
    }

    /// The requests so far, each as `{system, messages, turn, output, tools, cache}`.
    #[must_use]
    pub fn requests(&self) -> Vec<Json> {
        lock(&self.state).requests.clone()
    }
}

impl Llm for Scripted {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let mut state = lock(&self.state);
        state.requests.push(request_json(request));
        let next = state.replies.pop_front();
        next.unwrap_or_else(|| {
            Err(LlmError::new(
                LlmErrorKind::NotRecorded,
                "the script has no further reply",
            ))
        })
    }
}

/// A request as JSON, for scripts and recordings.
pub(super) fn request_json(request: &LlmRequest<'_>) -> Json {
    let messages: Vec<Json> = request.messages.iter().map(Message::to_json).collect();
    let output = match request.output {
        crate::exposure::Output::Text => "text",
        crate::exposure::Output::PtcLisp => "ptc_lisp",
    };
    let mut shown = json!({
        "system": request.system,
        "messages": messages,
        "turn": request.turn,
        "output": output,
        "tools": request.tools,
        "cache": request.cache,
    });
    if let Some(schema) = request.schema {
        shown["schema"] = schema.clone();
    }
    shown
}
