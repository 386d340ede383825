//! Long texts, cut to what is kept or shown of them; what is cut tells how long it was. Knows nothing of what they say.

use std::borrow::Cow;

/// As much of `text` as `bytes` hold.
pub fn to_bytes(text: &str, bytes: usize) -> Cow<'_, str> {
    let end = (text.len() > bytes).then(|| text.floor_char_boundary(bytes));
    at(text, end)
}

/// The end of `text`, as much of it as `bytes` hold.
pub fn to_last_bytes(text: &str, bytes: usize) -> Cow<'_, str> {
    match text.len().saturating_sub(bytes) {
        0 => Cow::Borrowed(text),
        from => Cow::Owned(format!("…{}", &text[text.ceil_char_boundary(from)..])),
    }
}

/// As much of a text that is kept as `bytes` hold.
pub fn keep_bytes(text: &mut String, bytes: usize) {
    if let Cow::Owned(cut) = to_bytes(text, bytes) {
        *text = cut;
    }
}

/// As many characters of `text`.
pub fn to_chars(text: &str, chars: usize) -> Cow<'_, str> {
    at(text, text.char_indices().nth(chars).map(|(end, _)| end))
}

fn at(text: &str, end: Option<usize>) -> Cow<'_, str> {
    match end {
        Some(end) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}
