//! One-line descriptions: white space collapsed, cut by graphemes. Knows nothing of what is described.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

/// Graphemes of a description in the catalog, in `dir` and in `apropos`.
pub(crate) const LISTED_GRAPHEMES_MAX: usize = 120;
/// Graphemes of a description in `doc`.
pub(crate) const DOC_GRAPHEMES_MAX: usize = 240;

/// `text` on one line of at most `max` graphemes, then `...`.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max * 4));
    let mut count = 0;
    for (index, word) in text.split_whitespace().enumerate() {
        for grapheme in (index > 0)
            .then_some(" ")
            .into_iter()
            .chain(word.graphemes(true))
        {
            if count == max {
                out.push_str("...");
                return out;
            }
            // Control characters would let a description write outside its line.
            out.push_str(if grapheme.chars().any(char::is_control) {
                "\u{fffd}"
            } else {
                grapheme
            });
            count += 1;
        }
    }
    out
}

/// `text` without control characters: what an upstream says must not write outside its line, nor move anybody's cursor.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// `name - description`, or the name alone.
pub(crate) fn listed(name: &str, description: &str) -> String {
    let description = one_line(description, LISTED_GRAPHEMES_MAX);
    if description.is_empty() {
        name.to_owned()
    } else {
        format!("{name} - {description}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(one_line(" a\n\n b\tc ", 10), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcdef...");
        assert_eq!(one_line("abcde fg", 6), "abcde ...");
        assert_eq!(
            one_line(&"é\u{301}".repeat(7), 6),
            format!("{}...", "é\u{301}".repeat(6))
        );
        assert_eq!(listed("t", "  "), "t");
    }
}
