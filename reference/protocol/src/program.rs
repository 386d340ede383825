//! The check of `lisp_eval`'s `program` argument, worded alike on every in-process surface.

use ptc_lang::Value;

use crate::format::{FormatOptions, format_value};

/// Maximum characters of a value in a message.
const SHOWN_CHARS_MAX: usize = 200;

/// The `program` argument is invalid; `message` says why. Its reason is always `args_error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidProgram {
    /// The sentence for the payload.
    pub message: String,
}

/// Accepts a string that is not blank and returns it untrimmed.
///
/// # Errors
/// The argument is missing, nil, of another kind, or a blank string.
pub fn validate_program(program: Option<&Value>) -> Result<&str, InvalidProgram> {
    let message = match program {
        Some(Value::Str(text)) if !text.as_str().trim().is_empty() => return Ok(text.as_str()),
        Some(Value::Str(_)) => "lisp_eval `program` must be a non-empty string.".to_owned(),
        None | Some(Value::Nil) => {
            "lisp_eval requires a non-empty `program` string argument.".to_owned()
        }
        Some(other) => {
            let shown = format_value(
                other,
                FormatOptions {
                    chars: Some(SHOWN_CHARS_MAX),
                    ..FormatOptions::default()
                },
            );
            let dots = if shown.cut { "..." } else { "" };
            format!(
                "lisp_eval `program` must be a string, got {}{dots}.",
                shown.text
            )
        }
    };
    Err(InvalidProgram { message })
}
