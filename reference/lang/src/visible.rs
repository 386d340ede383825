//! Text for terminals and logs: characters that are obeyed there instead of shown are written as their codes. Knows no output.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal, an editor or a log reader obeys `letter`: control characters of both sets, line and paragraph separators, and
/// what turns the direction of text.
pub fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether nothing in `text` is obeyed.
pub fn is_plain(text: &str) -> bool {
    // Nearly all text is printable ASCII: a look at all its bytes, many at once, costs a fraction of one at its letters.
    let is_printable = |all, byte| all & matches!(byte, b' '..=b'~');
    text.bytes().fold(true, is_printable) || !text.contains(is_obeyed)
}

/// `text` as people may see it: each character that is obeyed is written as `\u{9b}`, but for line ends and tabs.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_escaped = |letter: char| is_obeyed(letter) && !matches!(letter, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_escaped(letter) {
            // A string takes every write.
            true => drop(write!(out, "{}", letter.escape_unicode())),
            false => out.push(letter),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_shown_as_its_code() {
        let plain = "a\tb\nZürich 東京 \u{1f600} \u{200d}";
        assert!(matches!(visible(plain), Cow::Borrowed(_)));
        for (text, shown) in [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\r\u{7f}\u{85}", "\\u{d}\\u{7f}\\u{85}"),
            (
                "a\u{202e}b\u{2066}c\u{2069}",
                "a\\u{202e}b\\u{2066}c\\u{2069}",
            ),
            ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
