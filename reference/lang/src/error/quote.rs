//! Quotes of a program or of a value in a message. A quote is kept whole until the message is shown, so that the caller
//! can remove what must not be shown before anything is truncated. Knows nothing of what that is.

use std::fmt::{Display, Formatter, Result};

use unicode_segmentation::UnicodeSegmentation as _;

use super::ValuePreview;
use crate::value::Value;

/// Removes from a text what must not be shown.
pub type Redact<'a> = dyn Fn(&str) -> String + 'a;

/// A [`Redact`] that removes nothing.
pub(crate) fn unredacted(text: &str) -> String {
    text.to_owned()
}

/// Whether `redact` leaves `name` unchanged. For any other name, a message says nothing that is derived from its parts
/// or resembles it: no redaction could remove that.
pub(super) fn is_unredacted(name: &str, redact: &Redact<'_>) -> bool {
    redact(name) == name
}

/// `name` as it is written after `prefix`, and by itself, both redacted. Whatever is hidden in one is hidden in the
/// other.
pub(super) fn redact_after(prefix: &str, name: &str, redact: &Redact<'_>) -> (String, String) {
    let written = format!("{prefix}{name}");
    let whole = redact(&written);
    let alone = match whole == written {
        true => redact(name),
        false => whole.strip_prefix(prefix).unwrap_or(&whole).to_owned(),
    };
    (whole, alone)
}

/// A quoted text with the style in which a message shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    text: String,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Value,
    Token,
    Name,
}

/// The number of bytes that are kept for redaction: far more than is shown, and no more than an error may hold.
const QUOTE_BYTES_MAX: usize = 64 * 1024;
/// The number of graphemes of a value that are shown.
const VALUE_GRAPHEMES_MAX: usize = 80;
/// The number of items of each collection of a value that are shown.
const VALUE_ITEMS_MAX: usize = 5;
/// The number of characters of a name that are shown.
const NAME_CHARS_MAX: usize = 1_024;
/// The number of characters of a malformed token that are shown.
pub(crate) const TOKEN_CHARS_MAX: usize = 40;

impl Quote {
    /// Quotes a value, as one short line.
    pub fn value(value: &Value) -> Quote {
        Quote {
            text: crate::print::bounded(value, VALUE_ITEMS_MAX, QUOTE_BYTES_MAX),
            style: Style::Value,
        }
    }

    /// Quotes a piece of program text.
    pub fn token(text: &str) -> Quote {
        Quote {
            text: text[..text.floor_char_boundary(QUOTE_BYTES_MAX)].to_owned(),
            style: Style::Token,
        }
    }

    /// Quotes a name in full. Only a text too long to be a real name is truncated.
    pub fn name(text: &str) -> Quote {
        Quote {
            text: text[..text.floor_char_boundary(QUOTE_BYTES_MAX)].to_owned(),
            style: Style::Name,
        }
    }

    /// The text that a message shows: redacted first, truncated afterwards.
    pub fn render(&self, redact: &Redact<'_>) -> String {
        let mut text = redact(&self.text);
        let (end, ellipsis) = match self.style {
            Style::Value => {
                let mut graphemes = text.grapheme_indices(true);
                (graphemes.nth(VALUE_GRAPHEMES_MAX), "...")
            }
            Style::Token | Style::Name => {
                let most = match self.style {
                    Style::Name => NAME_CHARS_MAX,
                    _ => TOKEN_CHARS_MAX,
                };
                let mut chars = text.char_indices();
                (chars.nth(most).map(|(at, _)| (at, "")), "…")
            }
        };
        if let Some((end, _)) = end {
            text.truncate(end);
            text.push_str(ellipsis);
        }
        text
    }
}

/// A sentence that may quote a text, and may be about a value.
#[derive(Clone, Debug)]
pub struct Sentence {
    before: String,
    quote: Option<Quote>,
    after: Box<str>,
    about: Option<Box<ValuePreview>>,
}

impl Sentence {
    /// Appends `after`, which follows the quote.
    #[must_use]
    pub fn then(mut self, after: impl Into<String>) -> Sentence {
        self.after = after.into().into_boxed_str();
        self
    }

    /// Whether the sentence begins with `words`.
    pub(super) fn begin_with(&self, words: &str) -> bool {
        self.before.starts_with(words)
    }

    /// The value that the sentence is about.
    pub(super) fn about(&self) -> Option<&ValuePreview> {
        self.about.as_deref()
    }

    /// Marks the value as not being an argument of the function.
    pub(super) fn forget_identity(&mut self) {
        if let Some(about) = &mut self.about {
            about.forget_identity();
        }
    }

    /// The sentence, with its quote redacted and truncated.
    pub fn render(&self, redact: &Redact<'_>) -> String {
        let quote = self.quote.as_ref().map(|quote| quote.render(redact));
        [
            self.before.as_str(),
            quote.as_deref().unwrap_or_default(),
            &*self.after,
        ]
        .concat()
    }

    fn quoting(self, quote: Quote) -> Sentence {
        Sentence {
            quote: Some(quote),
            ..self
        }
    }
}

/// `before`, followed by a quote of `value`.
pub fn quoting(before: impl Into<String>, value: &Value) -> Sentence {
    about(before, value).quoting(Quote::value(value))
}

/// `problem`, a complete sentence about `value`.
pub fn about(problem: impl Into<String>, value: &Value) -> Sentence {
    Sentence {
        about: Some(Box::new(ValuePreview::of(value))),
        ..Sentence::from(problem)
    }
}

/// `before`, followed by a name that a program chose.
pub fn naming(before: impl Into<String>, name: &str) -> Sentence {
    Sentence::from(before).quoting(Quote::name(name))
}

/// `before`, followed by the kind of `value` and a quote of it.
pub fn got(before: impl Into<String>, value: &Value) -> Sentence {
    let (mut before, word) = (before.into(), value.kind().word());
    let quote = Quote::value(value);
    // Keys that are not indices indicate swapped arguments: a map in the place of the keys.
    if quote.text != word {
        before.push_str(word);
        before.push(' ');
    }
    about(before, value).quoting(quote)
}

impl<T: Into<String>> From<T> for Sentence {
    fn from(text: T) -> Sentence {
        Sentence {
            before: text.into(),
            quote: None,
            after: Box::default(),
            about: None,
        }
    }
}

impl Display for Sentence {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.render(&unredacted))
    }
}
