//! Text for terminals and logs: characters that these would obey instead of displaying are written as escapes. Knows no
//! output.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal, an editor or a log viewer obeys `letter` instead of displaying it: control characters of both
/// sets, line and paragraph separators, and characters that change the direction of text.
pub fn is_nonprinting(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether `text` contains no character that is obeyed.
pub fn is_printable(text: &str) -> bool {
    // Nearly all text is printable ASCII: testing all bytes, many at once, costs a fraction of testing each character.
    let is_ascii_printable = |all, byte| all & matches!(byte, b' '..=b'~');
    text.bytes().fold(true, is_ascii_printable) || !text.contains(is_nonprinting)
}

/// `text` as it may be shown to people: each character that is obeyed is written as an escape such as `\u{9b}`, except
/// line feeds and tabs.
pub fn escape_nonprinting(text: &str) -> Cow<'_, str> {
    let is_escaped = |letter: char| is_nonprinting(letter) && !matches!(letter, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_escaped(letter) {
            // Writing to a string cannot fail.
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
    fn nonprinting_characters_are_escaped() {
        let plain = "a\tb\nZürich 東京 \u{1f600} \u{200d}";
        assert!(matches!(escape_nonprinting(plain), Cow::Borrowed(_)));
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
            assert_eq!(escape_nonprinting(text), shown);
        }
    }
}
