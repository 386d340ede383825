//! What passes between a run, its model and its recording, with the secrets scrubbed.

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ptc_agent::{Llm, LlmError, LlmReply, LlmRequest, Scrubber};
use ptc_lang::Value;
use ptc_secrets::{Redactor, scrub_json_text};
use ptc_server::redact;

/// Maximum processor time for scrubbing one answer, result or record. The longest output of a command takes less, unless it is crafted
/// to be slow to search.
pub(super) const SCRUB_TIME: Duration = Duration::from_secs(2);

/// A model whose answers are scrubbed when they arrive, like those of an upstream.
pub(super) struct ScrubbedLlm {
    pub(super) model: Box<dyn Llm>,
    pub(super) redactor: Redactor,
}

impl Llm for ScrubbedLlm {
    fn complete(&self, request: &LlmRequest<'_>) -> Result<LlmReply, LlmError> {
        let answer = self.model.complete(request);
        let redactor = self.redactor.with_time_limit(SCRUB_TIME);
        match answer {
            Ok(reply) => Ok(redactor.scrub(reply).into_inner()),
            Err(error) => Err(LlmError {
                message: redactor.scrub(error.message).into_inner(),
                ..error
            }),
        }
    }
}

impl Scrubber for ScrubbedLlm {
    fn text(&self, text: &str) -> String {
        let redactor = self.redactor.with_time_limit(SCRUB_TIME);
        redactor.scrub_str(text).into_owned()
    }

    fn value(&self, value: &Value) -> Value {
        redact::value(value, &self.redactor.with_time_limit(SCRUB_TIME)).into_owned()
    }
}

/// Scrubs lines of JSON one by one before they are written to a file.
pub(super) struct ScrubbedLines<W> {
    pub(super) redactor: Redactor,
    pub(super) line: Vec<u8>,
    pub(super) sink: W,
    /// The first problem.
    pub(super) fault: Arc<OnceLock<String>>,
}

impl<W: Write> Write for ScrubbedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                let clean = scrub_json_text(&line, &self.redactor.with_time_limit(SCRUB_TIME));
                if let Err(error) = self.sink.write_all(clean.as_bytes()) {
                    let _ = self.fault.set(error.to_string());
                    return Err(error);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}
