//! The modes whose answer is the value of a program: programs as calls of `lisp_eval`, or as the text of a
//! reply. `turn` runs the programs.

use ptc_lang::Value;
use ptc_protocol::{
    ErrorReason, UNTRUSTED_PREAMBLE, describe_mismatches, render_error, untrusted_block,
    validate_return,
};

use crate::llm::{LlmReply, Message};
use crate::run::Run;
use crate::step::{CallRecord, RunFailure, RunReason};
use crate::turn::TurnEnd;

/// Maximum characters of an error shown to a model that writes programs as text.
const ERROR_CHARS_MAX: usize = 512;

/// Why a reply holds no usable program. `Display` is a sentence for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("the reply holds no program")]
    NoProgram,
    #[error("the fenced block is empty")]
    EmptyBlock,
    #[error("the reply must hold exactly one fenced block")]
    Blocks,
    #[error("the {part} has {bytes} bytes; a program may have {bytes_max}")]
    TooLong {
        part: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
}

/// The program in a reply: its only fenced block, or the whole text when that looks like a program.
///
/// # Errors
/// [`ReplyError`], but not for the length.
pub fn program_in_reply(text: &str) -> Result<&str, ReplyError> {
    let fences = text.matches("```").count();
    match fences {
        0 if text
            .trim_start()
            .starts_with(['(', '[', '{', ';', '#', '"']) =>
        {
            Ok(text.trim())
        }
        0 => Err(ReplyError::NoProgram),
        2 => {
            let block = text.split("```").nth(1).unwrap_or_default();
            // The info string ends with the line.
            let program = match block.split_once('\n') {
                Some((info, program)) if !info.contains(['(', ';']) => program,
                _ => block,
            };
            if program.trim().is_empty() {
                Err(ReplyError::EmptyBlock)
            } else {
                Ok(program.trim())
            }
        }
        _ => Err(ReplyError::Blocks),
    }
}

impl Run<'_> {
    /// Processes the end of a program in these modes: `(return v)` that matches the signature ends the run,
    /// `(fail v)` fails it.
    pub(crate) fn finish_program(
        &mut self,
        record: &CallRecord,
        returned: Option<Value>,
        content: &mut String,
    ) -> Option<TurnEnd> {
        if record.failed_value {
            let message = record.error.clone().unwrap_or_default();
            return Some(TurnEnd::Abort(RunFailure {
                reason: RunReason::Failed,
                message,
            }));
        }
        let value = returned?;
        let Some(signature) = &self.agent.signature else {
            self.step.returned = value;
            return Some(TurnEnd::Answered);
        };
        match validate_return(&signature.returns, &value) {
            Ok(()) => {
                self.step.returned = value;
                Some(TurnEnd::Answered)
            }
            Err(mismatches) => {
                let message = format!(
                    "Return validation failed: {}",
                    describe_mismatches(&mismatches, None)
                );
                *content = render_error(ErrorReason::RuntimeError, &message, None, None);
                None
            }
        }
    }

    /// Handles a reply whose text is the program.
    pub(crate) fn content_turn(&mut self, reply: &LlmReply) -> TurnEnd {
        let text = reply.content.clone().unwrap_or_default();
        self.append(Message::Assistant {
            content: text.clone(),
            tool_calls: Vec::new(),
        });
        let (end, feedback) = match program_in_reply(&text) {
            Err(error) => (None, error_block(&error.to_string())),
            Ok(program) => {
                let (record, returned, mut content) = self.evaluate_text(program);
                let end = self.finish_program(&record, returned, &mut content);
                self.record(
                    end.is_some() || record.error.is_none(),
                    record.result.clone(),
                    vec![record.clone()],
                    &text,
                );
                self.step.tool_calls.push(record.clone());
                let told = feedback_of(&content);
                let feedback = match record.error.is_some() {
                    true => error_block(&told),
                    false => told,
                };
                (end, feedback)
            }
        };
        match end {
            Some(end) => end,
            None => {
                self.append(Message::User(feedback));
                TurnEnd::Continue
            }
        }
    }

    /// Handles a text where a program was expected.
    pub(crate) fn ask_for_program(&mut self, reply: &LlmReply) -> TurnEnd {
        let text = reply.content.clone().unwrap_or_default();
        self.record(false, Value::Nil, Vec::new(), &text);
        self.append(Message::Assistant {
            content: text,
            tool_calls: Vec::new(),
        });
        self.append(Message::User(
            "Error: the answer has to come from a program. Call `lisp_eval` and end it with (return value).".to_owned(),
        ));
        TurnEnd::Continue
    }
}

/// An error as a block of quoted data.
pub(crate) fn error_block(message: &str) -> String {
    let mut shown: String = message.chars().take(ERROR_CHARS_MAX).collect();
    if shown.len() < message.len() {
        shown.push_str(&format!("\n... (truncated at {ERROR_CHARS_MAX} chars)"));
    }
    format!(
        "Error:\n{UNTRUSTED_PREAMBLE}\n\n{}",
        untrusted_block("error", &format!("Error: {shown}"))
    )
}

/// The part of a payload that the model sees.
fn feedback_of(payload: &str) -> String {
    let payload: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    let text = |key: &str| {
        payload
            .get(key)
            .and_then(serde_json::Value::as_str)
            .filter(|text| !text.is_empty())
    };
    text("feedback")
        .or_else(|| text("result"))
        .unwrap_or("nil")
        .to_owned()
}
