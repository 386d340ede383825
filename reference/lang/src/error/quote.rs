//! Quotations of a program or of a value in a message. It is kept whole until the message is told, so that its teller can
//! take out what must not be told before anything is cut. Knows nothing of what that is.

use std::fmt::{Display, Formatter, Result};

use unicode_segmentation::UnicodeSegmentation as _;

use super::Found;
use crate::value::Value;

/// Takes out of a text what must not be told.
pub type Veil<'a> = dyn Fn(&str) -> String + 'a;

/// The veil of somebody who may be told everything.
pub(crate) fn open(text: &str) -> String {
    text.to_owned()
}

/// Whether `veil` takes nothing out of `name`. Of any other name nothing is said that was made of its pieces, or that resembles
/// it: nobody could take that out any more.
pub(super) fn is_open(name: &str, veil: &Veil<'_>) -> bool {
    veil(name) == name
}

/// `name` as it is written behind `prefix`, and by itself, both veiled. What is hidden in the one is hidden in the other.
pub(super) fn behind(prefix: &str, name: &str, veil: &Veil<'_>) -> (String, String) {
    let written = format!("{prefix}{name}");
    let whole = veil(&written);
    let alone = match whole == written {
        true => veil(name),
        false => whole.strip_prefix(prefix).unwrap_or(&whole).to_owned(),
    };
    (whole, alone)
}

/// A quoted text, and how much of it a message shows.
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

/// Bytes that are kept for a veil to look at: far more than is shown, and no more than an error may hold.
const QUOTE_BYTES_MAX: usize = 64 * 1024;
/// Graphemes of a value that are shown.
const VALUE_GRAPHEMES_MAX: usize = 80;
/// Items of each collection of a value that are shown.
const VALUE_ITEMS_MAX: usize = 5;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 1_024;
/// Characters of a malformed token that are shown.
pub(crate) const TOKEN_CHARS_MAX: usize = 40;

impl Quote {
    /// A value, as one short line.
    pub fn value(value: &Value) -> Quote {
        Quote {
            text: crate::print::bounded(value, VALUE_ITEMS_MAX, QUOTE_BYTES_MAX),
            style: Style::Value,
        }
    }

    /// A piece of program text.
    pub fn token(text: &str) -> Quote {
        Quote {
            text: text[..text.floor_char_boundary(QUOTE_BYTES_MAX)].to_owned(),
            style: Style::Token,
        }
    }

    /// A name, as it is. Only one that can name nothing is long enough to be cut.
    pub fn name(text: &str) -> Quote {
        Quote {
            text: text[..text.floor_char_boundary(QUOTE_BYTES_MAX)].to_owned(),
            style: Style::Name,
        }
    }

    /// What a message shows of it: veiled first, cut afterwards.
    pub fn shown(&self, veil: &Veil<'_>) -> String {
        let mut text = veil(&self.text);
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

/// A sentence that may quote something, and may be about a value.
#[derive(Clone, Debug)]
pub struct Words {
    before: String,
    quote: Option<Quote>,
    after: Box<str>,
    about: Option<Box<Found>>,
}

impl Words {
    /// Goes on with `after` behind the quote.
    #[must_use]
    pub fn then(mut self, after: impl Into<String>) -> Words {
        self.after = after.into().into_boxed_str();
        self
    }

    /// Whether the sentence begins with `words`.
    pub(super) fn begin_with(&self, words: &str) -> bool {
        self.before.starts_with(words)
    }

    /// The value that it is about.
    pub(super) fn about(&self) -> Option<&Found> {
        self.about.as_deref()
    }

    /// Is about no argument any more.
    pub(super) fn leave(&mut self) {
        if let Some(about) = &mut self.about {
            about.leave();
        }
    }

    /// The sentence, with what it quotes veiled and cut.
    pub fn told(&self, veil: &Veil<'_>) -> String {
        let quote = self.quote.as_ref().map(|quote| quote.shown(veil));
        [
            self.before.as_str(),
            quote.as_deref().unwrap_or_default(),
            &*self.after,
        ]
        .concat()
    }

    fn quoting(self, quote: Quote) -> Words {
        Words {
            quote: Some(quote),
            ..self
        }
    }
}

/// `before`, and then `value` as a message shows values.
pub fn quoting(before: impl Into<String>, value: &Value) -> Words {
    about(before, value).quoting(Quote::value(value))
}

/// `problem`, which is about `value` and says of it what there is to say.
pub fn about(problem: impl Into<String>, value: &Value) -> Words {
    Words {
        about: Some(Box::new(Found::of(value))),
        ..Words::from(problem)
    }
}

/// `before`, and then a name that a program chose.
pub fn naming(before: impl Into<String>, name: &str) -> Words {
    Words::from(before).quoting(Quote::name(name))
}

/// `before`, and then the kind of `value` and the value.
pub fn got(before: impl Into<String>, value: &Value) -> Words {
    let (mut before, word) = (before.into(), value.kind().word());
    let quote = Quote::value(value);
    // `nil nil` would say it twice.
    if quote.text != word {
        before.push_str(word);
        before.push(' ');
    }
    about(before, value).quoting(quote)
}

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Words {
        Words {
            before: text.into(),
            quote: None,
            after: Box::default(),
            about: None,
        }
    }
}

impl Display for Words {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.told(&open))
    }
}
