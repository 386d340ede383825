//! Finds the JSON document in a model's text. Knows nothing of signatures.

use serde_json::Value as Json;

/// Why a text gave no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtractError {
    NotFound,
    /// The candidate text is not JSON.
    Invalid,
}

impl ExtractError {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ExtractError::NotFound => "no_json_found",
            ExtractError::Invalid => "invalid_json",
        }
    }
}

/// Parses the content of the first fenced block that is not empty; without one, the text from the first `{`
/// or `[` to its closing counterpart. If the block is not JSON, nothing else is tried.
///
/// # Errors
/// Nothing was found, or it does not decode.
pub fn extract_json(text: &str) -> Result<Json, ExtractError> {
    let document = match fenced(text) {
        Some(block) => block,
        None => bracketed(text).ok_or(ExtractError::NotFound)?,
    };
    decode(document).ok_or(ExtractError::Invalid)
}

/// Parses `text` as JSON. A number that exceeds a double makes it invalid: JSON has no infinity.
#[must_use]
pub fn decode(text: &str) -> Option<Json> {
    let json = serde_json::from_str(text).ok()?;
    has_room(&json).then_some(json)
}

fn has_room(json: &Json) -> bool {
    match json {
        Json::Number(number) => {
            number.as_f64().is_some() || !number.to_string().contains(['.', 'e', 'E'])
        }
        Json::Array(items) => items.iter().all(has_room),
        Json::Object(entries) => entries.values().all(has_room),
        Json::Null | Json::Bool(_) | Json::String(_) => true,
    }
}

fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (block, _) = after.split_once("```")?;
    let block = block.strip_prefix("json").unwrap_or(block).trim();
    (!block.is_empty()).then_some(block)
}

fn bracketed(text: &str) -> Option<&str> {
    let start = text.find(['{', '['])?;
    let (open, close) = if text[start..].starts_with('{') {
        (b'{', b'}')
    } else {
        (b'[', b']')
    };
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (i, byte) in text[start..].bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else if byte == b'"' {
            in_string = true;
        } else if byte == open {
            depth += 1;
        } else if byte == close {
            depth -= 1;
            if depth == 0 {
                return Some(&text[start..=start + i]);
            }
        }
    }
    None
}
