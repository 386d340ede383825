//! One-line descriptions: whitespace collapsed, cut by graphemes. Knows nothing of what is described.

use std::borrow::Cow;

use ptc_lang::visible::{is_nonprinting, is_printable};
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::HINT_BYTES_MAX;

/// Maximum graphemes of a description in the catalog, in `dir` and in `apropos`.
pub(crate) const LISTED_GRAPHEMES_MAX: usize = 120;
/// Maximum graphemes of a description in `doc`.
pub(crate) const DOC_GRAPHEMES_MAX: usize = 240;

/// `text` on one line of at most `max` graphemes, followed by `...` if cut.
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
            // Control characters would let a description write outside its line, and bidirectional ones reorder the text next to
            // it.
            out.push_str(if grapheme.contains(is_nonprinting) {
                "\u{fffd}"
            } else {
                grapheme
            });
            count += 1;
        }
    }
    out
}

/// `text` without characters that a terminal obeys: an upstream's text must not write outside its line, move the cursor, or change
/// the direction of the text next to it.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    match is_printable(text) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.replace(is_nonprinting, "\u{fffd}")),
    }
}

/// As many names as fit into a hint, and the number of the others: an upstream chooses how long names are.
pub(crate) fn enumerated<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let (all, mut shown, mut text) = (names.len(), 0, String::new());
    for name in names {
        let separator = if shown == 0 { "" } else { ", " };
        if text.len() + separator.len() + name.len() > HINT_BYTES_MAX {
            break;
        }
        text.push_str(separator);
        text.push_str(name);
        shown += 1;
    }
    match all - shown {
        0 => text,
        more if shown == 0 => format!("{more}, whose names are too long to list"),
        more => format!("{text} and {more} more"),
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
        assert_eq!(
            one_line("a\u{202e}b\u{2028}c \u{1f469}\u{200d}\u{1f4bb}", 20),
            "a\u{fffd}b c \u{1f469}\u{200d}\u{1f4bb}"
        );
        assert_eq!(
            printable("\u{61c}\u{2066}a\u{200d}"),
            "\u{fffd}\u{fffd}a\u{200d}"
        );
    }
}
