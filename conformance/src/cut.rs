//! Truncates long texts to what is kept or shown of them, and notes their original length. Knows nothing of their contents.

use std::borrow::Cow;

/// `text`, truncated to at most `bytes` bytes.
pub fn to_bytes(text: &str, bytes: usize) -> Cow<'_, str> {
    let end = (text.len() > bytes).then(|| text.floor_char_boundary(bytes));
    at(text, end)
}

/// The end of `text`, at most `bytes` bytes of it.
pub fn to_last_bytes(text: &str, bytes: usize) -> Cow<'_, str> {
    match text.len().saturating_sub(bytes) {
        0 => Cow::Borrowed(text),
        from => Cow::Owned(format!("…{}", &text[text.ceil_char_boundary(from)..])),
    }
}

/// Truncates a text in place to at most `bytes` bytes.
pub fn keep_bytes(text: &mut String, bytes: usize) {
    if let Cow::Owned(cut) = to_bytes(text, bytes) {
        *text = cut;
    }
}

/// `text`, truncated to at most `chars` characters.
pub fn to_chars(text: &str, chars: usize) -> Cow<'_, str> {
    at(text, text.char_indices().nth(chars).map(|(end, _)| end))
}

fn at(text: &str, end: Option<usize>) -> Cow<'_, str> {
    match end {
        Some(end) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}
