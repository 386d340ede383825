//! Syntax errors: their kinds, their places, and the one table of their messages.

use std::fmt;
use std::ops::Range;

use crate::error::quote::{self, Quote, Redact};
use crate::form::Span;
use crate::visible::is_nonprinting;

/// The bracket that opens a collection, with its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// `(`
    List,
    /// `[`
    Vector,
    /// `{`
    Map,
    /// `#{`
    Set,
    /// `#(`
    AnonFn,
    /// `'(`
    QuotedList,
}

impl Opener {
    /// The source text of the opening bracket.
    pub const fn text(self) -> &'static str {
        match self {
            Self::List => "(",
            Self::Vector => "[",
            Self::Map => "{",
            Self::Set => "#{",
            Self::AnonFn => "#(",
            Self::QuotedList => "'(",
        }
    }

    /// The matching closing bracket.
    pub const fn close(self) -> char {
        match self {
            Self::List | Self::AnonFn | Self::QuotedList => ')',
            Self::Vector => ']',
            Self::Map | Self::Set => '}',
        }
    }
}

/// Why a program could not be read. Its `Display` is the message for the author of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// What is wrong.
    pub kind: ReadErrorKind,
    /// The malformed token; empty when no token is to blame.
    pub found: Quote,
    /// The part of the text at fault.
    pub span: Span,
    /// The line of the span's start, from 1. Only a line feed ends a line.
    pub line: u32,
    /// The column of the span's start, from 1, in Unicode characters.
    pub column: u32,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// The text is longer than 4 GiB.
    TooLong,
    /// More distinct symbols and keywords than allowed. Not a syntax error.
    Symbols {
        /// How many there are.
        found: u32,
        /// How many are allowed.
        limit: u32,
    },
    /// A form nested in more than `limit` brackets.
    Nesting {
        /// Brackets allowed around a form.
        limit: u32,
    },

    /// The text ends inside a collection; `opener` is the bracket of the innermost one.
    Unclosed {
        /// The innermost open bracket.
        opener: Opener,
        /// How many brackets are open.
        open: u32,
        /// The first closing brackets that are missing, innermost first; at most 40.
        closers: String,
    },
    /// A closing bracket that does not match the open one.
    Mismatch {
        /// The open bracket.
        opener: Opener,
        /// Line of the open bracket, from 1.
        line: u32,
        /// Column of the open bracket, from 1.
        column: u32,
        /// The bracket found.
        close: char,
    },
    /// A closing bracket without an open one.
    Stray {
        /// The bracket found.
        close: char,
    },
    /// A map literal whose last key has no value.
    OddMap {
        /// Forms between the braces.
        forms: u32,
    },

    /// The text ends inside a string.
    UnclosedString,
    /// The text ends inside a regex literal.
    UnclosedRegex,
    /// A backslash in a string followed by an unknown character.
    StringEscape,
    /// `\u` without exactly four hexadecimal digits.
    UnicodeEscape,
    /// `\uXXXX` names half of a surrogate pair.
    Surrogate,
    /// A backslash followed by nothing or by a line break.
    CharacterMissing,
    /// A backslash followed by a word that is not the name of a character.
    CharacterName,

    /// `1/2`
    Ratio,
    /// `0x1F`, `0b1`, `16rFF`
    Radix,
    /// `1N`, `1.5M`, `2.0f`
    NumberSuffix,
    /// `1.`
    TrailingDot,
    /// `1.2.3`
    TwoDots,
    /// `1_000`
    DigitSeparator,
    /// `1e`
    Exponent,
    /// Any other text that starts like a number: `12abc`, `50%`, `3-2`.
    Number,
    /// A character that is valid in neither numbers nor names.
    NumberCharacter {
        /// The character.
        ch: char,
    },
    /// More than `limit` digits in a row.
    NumberDigits {
        /// Digits allowed.
        limit: u32,
    },
    /// A float that is not finite: `1e309`.
    FloatRange,
    /// `##` followed by anything but `Inf`, `-Inf` and `NaN`.
    Symbolic,

    /// `:` without a name.
    LoneColon,
    /// `:` directly after a string, as in a JSON object.
    EntryColon,
    /// `::a`
    DoubleColon,
    /// `:a/b`
    KeywordNamespace,
    /// `:a:b`, `:a:`
    KeywordColon,
    /// A character that is not allowed in a keyword.
    KeywordCharacter {
        /// The character.
        ch: char,
    },
    /// `a:b`, `a:`
    SymbolColon,
    /// A character that is not allowed in a symbol.
    SymbolCharacter {
        /// The character.
        ch: char,
    },
    /// A character that cannot start a form.
    Unexpected {
        /// The character.
        ch: char,
    },

    /// `@x`
    Deref,
    /// `^m`, `#^m`
    Metadata,
    /// `` `x ``
    SyntaxQuote,
    /// `~x`, `~@x`
    Unquote,
    /// `'` not directly followed by a symbol or list.
    QuoteNothing,
    /// `'[…]`, `'{…}`, `'#{…}`
    QuoteCollection,
    /// `'5`, `':k`, `'"s"`
    QuoteLiteral,
    /// `''x`, or a quote inside a quoted list.
    QuoteQuote,
    /// `#(…)` or `#'x` inside a quoted list.
    QuotedCode,
    /// `#'` not directly followed by a symbol.
    VarName,
    /// `#_` without a following form.
    DiscardNothing,
    /// `#?(…)`
    ReaderConditional,
    /// `#:a{…}`
    NamespacedMap,
    /// `#inst "…"`
    Tagged,
    /// `#!`, `#|`
    HashComment,
    /// `#<…>`, `#=(…)`
    HashUnreadable,
    /// Any other `#`.
    LoneHash,
}

impl ReadError {
    /// An error at `span` of `text`; the span starts and ends at character boundaries.
    pub(super) fn new(kind: ReadErrorKind, span: Range<usize>, text: &str) -> Self {
        let (line, column) = position(text, span.start);
        let error = Self {
            kind,
            found: Quote::token(""),
            span: Span {
                start: span.start as u32,
                end: span.end as u32,
            },
            line,
            column,
        };
        error.found(text.get(span).unwrap_or_default())
    }

    /// The same error, with the whole of `token` as the malformed token.
    pub(super) fn found(mut self, token: &str) -> Self {
        self.found = Quote::token(token);
        self
    }

    /// Whether the text is malformed (`parse_error`) rather than over a limit on names (`runtime_error`).
    pub fn is_syntax(&self) -> bool {
        !matches!(self.kind, ReadErrorKind::Symbols { .. })
    }
}

/// Line and column of a byte offset, both from 1.
pub(super) fn position(text: &str, at: usize) -> (u32, u32) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line_start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |newline| newline + 1);
    let newlines = before.iter().filter(|b| **b == b'\n').count();
    let is_first_byte = |b: &&u8| **b & 0xC0 != 0x80;
    let columns = before[line_start..].iter().filter(is_first_byte).count();
    (newlines as u32 + 1, columns as u32 + 1)
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&quote::unredacted))
    }
}

impl std::error::Error for ReadError {}

impl ReadError {
    /// The message, with the token that it quotes redacted.
    pub(crate) fn render(&self, redact: &Redact<'_>) -> String {
        let (what, advice) = self.words(redact);
        if !self.is_syntax() {
            return format!("{what}: {advice}");
        }
        format!(
            "{what} at line {}, column {}: {advice}",
            self.line, self.column
        )
    }

    /// What is wrong, and what to write instead.
    fn words(&self, redact: &Redact<'_>) -> (String, String) {
        use ReadErrorKind as Kind;
        let token = printable(&self.found.render(redact));
        let not_a = |what: &str| format!("`{token}` is not {what}");
        let unsupported = |what: &str| format!("{what} `{token}` is not supported");
        let (what, advice): (String, &str) = match &self.kind {
            Kind::TooLong => ("program text over 4 GiB".into(), "send a shorter program"),
            Kind::Symbols { found, limit } => (
                format!(
                    "the program uses {found} distinct symbols and keywords, the limit is {limit}"
                ),
                "use strings for data",
            ),
            Kind::Nesting { limit } => (
                format!("nesting deeper than {limit} brackets"),
                "give the inner part a name with def, defn or let",
            ),

            Kind::Unclosed {
                opener,
                open,
                closers,
            } => return unclosed(*opener, *open, closers),
            Kind::Mismatch {
                opener,
                line,
                column,
                close,
            } => {
                let (open, want) = (opener.text(), opener.close());
                let advice =
                    format!("the `{open}` at line {line}, column {column} ends with `{want}`");
                return (format!("unexpected `{close}`"), advice);
            }
            Kind::Stray { close } => (
                format!("unexpected `{close}`"),
                "no bracket is open here; remove it",
            ),
            Kind::OddMap { forms } => (
                format!("map literal with {forms} form{}", plural(*forms)),
                "every key needs a value",
            ),

            Kind::UnclosedString => ("unclosed string".into(), "add the closing `\"`"),
            Kind::UnclosedRegex => ("unclosed regex literal".into(), "add the closing `\"`"),
            Kind::StringEscape => (
                format!("unknown escape `{token}` in a string"),
                r#"the escapes are \n \t \r \b \f \\ \" and \uXXXX; write \\ for a backslash"#,
            ),
            Kind::UnicodeEscape => (
                format!("malformed escape `{token}`"),
                r"\u takes exactly four hexadecimal digits, as in \u00e9",
            ),
            Kind::Surrogate => (
                format!("`{token}` is half a character"),
                "write both surrogates in a string, or the character itself",
            ),
            Kind::CharacterMissing => (
                "no character behind `\\`".into(),
                r#"write \a, \space, \newline or a string such as "a""#,
            ),
            Kind::CharacterName => (
                not_a("a character"),
                r"a character literal is one character, \uXXXX, or \newline, \space, \tab, \return, \backspace, \formfeed; write longer text as a string",
            ),

            Kind::Ratio => (
                not_a("a number"),
                "there are no ratios; divide with (/ a b)",
            ),
            Kind::Radix => (
                not_a("a number"),
                "integers are decimal; write it in base 10",
            ),
            Kind::NumberSuffix => (
                not_a("a number"),
                "numbers take no suffix; integers have any size as they are",
            ),
            Kind::TrailingDot => (
                not_a("a number"),
                "write digits behind the decimal point, or leave it out",
            ),
            Kind::TwoDots => (
                not_a("a number"),
                "a number has one decimal point; write a version or an address as a string",
            ),
            Kind::DigitSeparator => (not_a("a number"), "write the digits without separators"),
            Kind::Exponent => (not_a("a number"), "the exponent needs digits, as in 1e5"),
            Kind::Number => (
                not_a("a number"),
                "a name cannot start with a digit; put a space between two forms",
            ),
            Kind::NumberCharacter { ch } => (
                format!("{} in number `{token}`", character(*ch)),
                character_advice(*ch),
            ),
            Kind::NumberDigits { limit } => (
                format!("number literal with more than {limit} digits in a row"),
                "calculate it, or keep it as a string",
            ),
            Kind::FloatRange => (
                format!("`{token}` is out of range for a float"),
                "write ##Inf or ##-Inf for infinity",
            ),
            Kind::Symbolic => (
                not_a("a number"),
                "the special floats are ##Inf, ##-Inf and ##NaN",
            ),

            Kind::LoneColon => (
                "`:` without a name".into(),
                "write a keyword such as :name, in one piece",
            ),
            Kind::EntryColon => (
                "`:` behind a string".into(),
                r#"a map has no colons between keys and values; write {"key" value} or {:key value}"#,
            ),
            Kind::DoubleColon => (
                not_a("a keyword"),
                "keywords have one colon and no namespace",
            ),
            Kind::KeywordNamespace => (
                not_a("a keyword"),
                "keywords have no namespace; write `-` instead of `/`",
            ),
            Kind::KeywordColon => (
                not_a("a keyword"),
                "a keyword has one colon, in front; put a space between two keywords",
            ),
            Kind::KeywordCharacter { ch } => {
                let advice = if ch.is_alphanumeric() || *ch == '.' || *ch == '\'' {
                    "keywords are made of ASCII letters, digits and + - * < > = ? ! _ $; use a string for other text"
                } else {
                    character_advice(*ch)
                };
                (format!("{} in keyword `{token}`", character(*ch)), advice)
            }
            Kind::SymbolColon => (
                format!("`:` in symbol `{token}`"),
                "a keyword has its colon in front, as in :name; a map has no other colons",
            ),
            Kind::SymbolCharacter { ch } => (
                format!("{} in symbol `{token}`", character(*ch)),
                character_advice(*ch),
            ),
            Kind::Unexpected { ch } => (
                format!("unexpected {}", character(*ch)),
                character_advice(*ch),
            ),

            Kind::Deref => (
                unsupported("dereferencing"),
                "there are no atoms or refs; a name is its value: carry what changes through reduce or loop/recur",
            ),
            Kind::Metadata => (unsupported("metadata"), "leave it out"),
            Kind::SyntaxQuote => (
                "the syntax quote is not supported".into(),
                "there are no macros; write a function, or 'x for a symbol",
            ),
            Kind::Unquote => (
                unsupported("unquoting with"),
                "there are no macros; write the expression itself",
            ),
            Kind::QuoteNothing => (
                "`'` without a symbol".into(),
                "a symbol or a list follows the quote at once, as in 'name",
            ),
            Kind::QuoteCollection => (
                "quoted vector, map or set".into(),
                "it needs no quote; quote the symbols in it one by one, as in ['a 'b]",
            ),
            Kind::QuoteLiteral => (
                format!("quoted literal `{token}`"),
                "it stands for itself; leave the quote out",
            ),
            Kind::QuoteQuote => (
                "quote inside a quote".into(),
                "one quote covers the whole form; leave the inner one out",
            ),
            Kind::QuotedCode => (
                format!("`{token}` inside a quoted list"),
                "a quoted list holds data only; build it with (vector …)",
            ),
            Kind::VarName => (
                "`#'` without a symbol".into(),
                "the name of a definition follows at once, as in #'total",
            ),
            Kind::DiscardNothing => (
                "`#_` without a form to discard".into(),
                "remove it, or use ; for a comment",
            ),
            Kind::ReaderConditional => (
                "reader conditional `#?` is not supported".into(),
                "there is one platform; write the form itself",
            ),
            Kind::NamespacedMap => (
                unsupported("namespaced map"),
                "keywords have no namespace; write {:name value}",
            ),
            Kind::Tagged => (
                unsupported("tagged literal"),
                r#"call a function, as in (Instant/parse "2025-03-09T00:00:00Z")"#,
            ),
            Kind::HashComment => (
                not_a("a comment"),
                "a comment starts with ; and ends with its line",
            ),
            Kind::HashUnreadable => (not_a("a form"), "write the expression that makes the value"),
            Kind::LoneHash => (
                not_a("a form"),
                "`#` starts a set #{…}, a function #(…), a regex #\"…\", a var #'x, a discarded form #_x, ##Inf, ##-Inf or ##NaN",
            ),
        };
        (what, advice.into())
    }
}

fn unclosed(opener: Opener, open: u32, closers: &str) -> (String, String) {
    let advice = match open as usize {
        1 => format!("add `{closers}`"),
        open if open == closers.len() => {
            format!("{open} brackets are open at the end; close them with `{closers}`")
        }
        open => format!("{open} brackets are open at the end"),
    };
    (format!("unclosed `{}`", opener.text()), advice)
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Advice about a character that is not allowed in any token.
fn character_advice(ch: char) -> &'static str {
    CHARACTER_ADVICE
        .iter()
        .find(|(chars, _)| chars.contains(ch))
        .map_or_else(
            || match ch {
                _ if ch.is_whitespace() => "separate forms with spaces, commas or line breaks",
                _ if ch.is_control() => "remove it",
                _ => "names are made of ASCII letters, digits and + - * / < > = ? ! _ $ % & ' .",
            },
            |(_, advice)| advice,
        )
}

const CHARACTER_ADVICE: &[(&str, &str)] = &[
    ("“”„‟«»", "write strings in straight double quotes, \"…\""),
    (
        "‘’‚‛",
        "write a quote as ' and strings in straight double quotes",
    ),
    ("–—−‐‑", "write minus as -"),
    ("×·", "multiply with *"),
    ("÷", "divide with /"),
    ("…", "write the forms out"),
    ("|", "write pipelines with -> or ->>"),
    (
        "@",
        "there are no atoms or refs; put text such as an address in double quotes",
    ),
    ("#", "`#` stands only in front of a form"),
    ("\\", "put a space in front of a character literal"),
    ("~^`", "there are no macros and no metadata"),
    ("\u{feff}", "remove the byte order mark"),
    (
        "\u{200b}\u{200c}\u{200d}\u{2060}",
        "remove the invisible character",
    ),
];

/// A character as messages show it: itself, or its code point when it is invisible.
fn character(ch: char) -> String {
    if is_invisible(ch) {
        format!("character U+{:04X}", ch as u32)
    } else {
        format!("`{ch}`")
    }
}

/// A token as messages show it: invisible characters are escaped.
fn printable(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    for ch in token.chars() {
        if is_invisible(ch) {
            text.push_str(&format!("\\u{:04x}", ch as u32));
        } else {
            text.push(ch);
        }
    }
    text
}

fn is_invisible(ch: char) -> bool {
    is_nonprinting(ch)
        || ch.is_whitespace()
        || matches!(ch, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
