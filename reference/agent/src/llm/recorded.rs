//! Records the exchanges with a model as JSON lines, and replays them. Knows no provider.
//!
//! A line is `{"request": SHA-256 of the request, "reply": …}` or `{"request": …, "error": {"kind", "message"}}`.
//! A line without `request` matches any request, so that a recording can be written by hand.

use std::io::Write;
use std::sync::Mutex;

use ptc_protocol::digest;
use serde_json::{Value as Json, json};

use crate::lock::lock;

use super::scripted::request_json;
use super::{Llm, LlmError, LlmErrorKind, LlmReply, LlmRequest};

/// Passes requests on and records the outcomes.
pub struct Recorder<W> {
    model: Box<dyn Llm>,
    sink: Mutex<W>,
}

impl<W: Write + Send> Recorder<W> {
    /// Records the replies of `model` into `sink`.
    pub fn new(model: Box<dyn Llm>, sink: W) -> Self {
        Recorder {
            model,
            sink: Mutex::new(sink),
        }
    }
}

impl<W: Write + Send> Llm for Recorder<W> {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let outcome = self.model.complete(request);
        let request = digest(request);
        let line = match &outcome {
            Ok(reply) => json!({ "request": request, "reply": reply.to_json() }),
            Err(error) => json!({ "request": request, "error": { "message": error.message } }),
        };
        let mut sink = lock(&self.sink);
        // A failure to record must not cost the run its answer, but it is logged.
        if let Err(error) = writeln!(sink, "{line}").and_then(|()| sink.flush()) {
            tracing::warn!(event = "exchange_not_recorded", %error);
        }
        outcome
    }
}

/// Replays a recording in order.
#[derive(Debug)]
pub struct Replay {
    lines: Mutex<std::collections::VecDeque<Line>>,
    /// Whether requests must equal the recorded ones.
    strict: bool,
}

/// A line that is no recorded exchange: its number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: not a recorded exchange")]
pub struct RecordingError(pub usize);

#[derive(Debug)]
struct Line {
    request: Option<String>,
    outcome: Result<LlmReply, LlmError>,
}

impl Replay {
    /// Reads a recording. With `strict`, a request that differs from the recorded one is an error.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str, strict: bool) -> Result<Self, RecordingError> {
        let numbered = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let lines = numbered
            .map(|(i, line)| read_line(line).ok_or(RecordingError(i + 1)))
            .collect::<Result<_, _>>()?;
        Ok(Replay {
            lines: Mutex::new(lines),
            strict,
        })
    }
}

impl Llm for Replay {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let mut lines = lock(&self.lines);
        let Some(line) = lines.pop_front() else {
            return Err(LlmError::new(
                LlmErrorKind::NotRecorded,
                "the recording has no further reply",
            ));
        };
        match line.request {
            Some(recorded) if self.strict && recorded != digest(request) => {
                let message = format!(
                    "turn {}: the request is not the one that was recorded",
                    request.turn
                );
                Err(LlmError::new(LlmErrorKind::NotRecorded, message))
            }
            _ => line.outcome,
        }
    }
}

fn read_line(line: &str) -> Option<Line> {
    let record: Json = serde_json::from_str(line).ok()?;
    let request = record
        .get("request")
        .and_then(Json::as_str)
        .map(str::to_owned);
    let outcome = match (record.get("reply"), record.get("error")) {
        (Some(reply), _) => Ok(LlmReply::from_json(reply)?),
        (None, Some(error)) => {
            let message = error
                .get("message")
                .and_then(Json::as_str)
                .or(error.as_str())?;
            Err(LlmError::new(LlmErrorKind::Unavailable, message))
        }
        // A bare reply, as in a script.
        (None, None) => Ok(LlmReply::from_json(&record)?),
    };
    Some(Line { request, outcome })
}

fn digest(request: &LlmRequest<'_>) -> String {
    digest::hex(request_json(request).to_string().as_bytes())
}
