//! Tokens: one bracket, prefix or atom at a time. Knows nothing of nesting.
//!
//! A token ends only at white space, a comma, a bracket, a double quote, `;`, or where `#{`, `#(` or `#"` opens. Any
//! other character belongs to the token and makes it malformed; nothing is ever split in two.

use std::borrow::Cow;
use std::ops::Range;

use num_bigint::BigInt;
use unicode_segmentation::UnicodeSegmentation;

use super::error::{Opener, ReadError, ReadErrorKind};
use crate::form::{Form, FormKind, Span};

/// A token of the lexer.
pub(super) enum Token<'a> {
    /// A form without parts, including a quoted symbol and a var.
    Atom(FormKind<'a>),
    /// An opening bracket with its prefix.
    Open(Opener),
    /// `)`, `]` or `}`.
    Close(char),
    /// `#_`.
    Discard,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The start of the latest token.
    start: usize,
    /// Where to look for the next token.
    at: usize,
    digits_max: usize,
}

/// The error is boxed, so that the successful result stays small.
pub(super) type Lexed<T> = Result<T, Box<ReadError>>;

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, digits_max: u32) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            start: 0,
            at: 0,
            digits_max: digits_max as usize,
        }
    }

    /// The span of the latest token.
    pub(super) fn span(&self) -> Span {
        Span {
            start: self.start as u32,
            end: self.at as u32,
        }
    }

    /// The next token; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Lexed<Option<Token<'a>>> {
        self.skip_blank();
        self.start = self.at;
        let Some(byte) = self.byte(self.at) else {
            return Ok(None);
        };
        let token = match byte {
            b'(' => self.open(Opener::List),
            b'[' => self.open(Opener::Vector),
            b'{' => self.open(Opener::Map),
            b')' | b']' | b'}' => {
                self.at += 1;
                Token::Close(char::from(byte))
            }
            b'"' => Token::Atom(FormKind::Str(self.string()?)),
            b':' => Token::Atom(self.keyword()?),
            b'\\' => Token::Atom(FormKind::Str(self.character()?)),
            b'#' => self.dispatch()?,
            b'\'' => self.quote()?,
            _ if self.is_number(self.at) => Token::Atom(self.number()?),
            _ if is_in_class(byte, SYMBOL) => Token::Atom(symbol_kind(self.symbol(self.at)?)),
            _ => return Err(self.unexpected()),
        };
        Ok(Some(token))
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.byte(self.at) {
            if is_in_class(byte, BLANK) {
                self.at += 1;
            } else if byte == b';' {
                let rest = &self.bytes[self.at..];
                self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }

    fn open(&mut self, opener: Opener) -> Token<'a> {
        self.at += opener.text().len();
        Token::Open(opener)
    }

    fn dispatch(&mut self) -> Lexed<Token<'a>> {
        let kind = match self.byte(self.start + 1) {
            Some(b'{') => return Ok(self.open(Opener::Set)),
            Some(b'(') => return Ok(self.open(Opener::AnonFn)),
            Some(b'"') => return Ok(Token::Atom(FormKind::Regex(self.regex()?))),
            Some(b'_') => {
                self.at += 2;
                return Ok(Token::Discard);
            }
            Some(b'\'') => return Ok(Token::Atom(FormKind::VarQuote(self.var()?))),
            Some(b'#') => return Ok(Token::Atom(FormKind::Float(self.symbolic()?))),
            Some(b'?') => ReadErrorKind::ReaderConditional,
            Some(b'^') => ReadErrorKind::Metadata,
            Some(b':') => ReadErrorKind::NamespacedMap,
            Some(b'!' | b'|') => ReadErrorKind::HashComment,
            Some(b'=' | b'<') => ReadErrorKind::HashUnreadable,
            Some(byte) if byte.is_ascii_alphabetic() => {
                let end = self.token_end(self.start + 1);
                match &self.text[self.start + 1..end] {
                    "Inf" | "NaN" => ReadErrorKind::Symbolic,
                    _ => ReadErrorKind::Tagged,
                }
            }
            _ => ReadErrorKind::LoneHash,
        };
        Err(self.bad_token(kind, self.start + 1))
    }

    fn var(&mut self) -> Lexed<&'a str> {
        let at = self.start + 2;
        if self.starts_symbol(at) {
            self.symbol(at)
        } else {
            Err(self.bad_token(ReadErrorKind::VarName, at))
        }
    }

    fn symbolic(&mut self) -> Lexed<f64> {
        let end = self.token_end(self.start + 2);
        let value = match &self.text[self.start + 2..end] {
            "Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            "NaN" => f64::NAN,
            _ => return Err(self.bad_token(ReadErrorKind::Symbolic, end)),
        };
        self.at = end;
        Ok(value)
    }

    /// After `'`: a symbol, or the bracket of a list.
    fn quote(&mut self) -> Lexed<Token<'a>> {
        let at = self.start + 1;
        if self.starts_symbol(at) {
            let kind = symbol_kind(self.symbol(at)?);
            let FormKind::Symbol(_) = kind else {
                return Ok(Token::Atom(kind));
            };
            let span = Span {
                start: at as u32,
                end: self.at as u32,
            };
            return Ok(Token::Atom(FormKind::Quote(Box::new(Form { kind, span }))));
        }
        let kind = match (self.byte(at), self.byte(at + 1)) {
            (Some(b'('), _) => return Ok(self.open(Opener::QuotedList)),
            (Some(b'[' | b'{'), _) | (Some(b'#'), Some(b'{')) => ReadErrorKind::QuoteCollection,
            (Some(b'\''), _) => ReadErrorKind::QuoteQuote,
            (Some(b'"' | b'\\' | b':'), _) => ReadErrorKind::QuoteLiteral,
            (Some(_), _) if self.is_number(at) => ReadErrorKind::QuoteLiteral,
            _ => ReadErrorKind::QuoteNothing,
        };
        Err(self.bad_token(kind, at))
    }

    fn starts_symbol(&self, at: usize) -> bool {
        self.byte(at)
            .is_some_and(|b| is_in_class(b, SYMBOL) && b != b'\'' && !self.is_number(at))
    }

    /// A symbol whose name starts at `from`, which is after `start` when there is a prefix.
    fn symbol(&mut self, from: usize) -> Lexed<&'a str> {
        let end = self.scan(SYMBOL, from);
        if !self.ends_token(end) {
            let kind = match self.char(end) {
                ':' => ReadErrorKind::SymbolColon,
                ch => ReadErrorKind::SymbolCharacter { ch },
            };
            return Err(self.bad_character(kind, end));
        }
        self.at = end;
        Ok(&self.text[from..end])
    }

    fn keyword(&mut self) -> Lexed<FormKind<'a>> {
        let from = self.start + 1;
        let end = self.scan(KEYWORD, from);
        if end > from && self.ends_token(end) {
            self.at = end;
            return Ok(FormKind::Keyword(&self.text[from..end]));
        }
        let behind_string = self.start > 0 && self.bytes[self.start - 1] == b'"';
        let kind = match self.byte(end) {
            _ if behind_string => ReadErrorKind::EntryColon,
            Some(b':') if end == from => ReadErrorKind::DoubleColon,
            Some(b':') => ReadErrorKind::KeywordColon,
            Some(b'/') => ReadErrorKind::KeywordNamespace,
            _ if self.ends_token(end) => ReadErrorKind::LoneColon,
            _ => {
                let ch = self.char(end);
                return Err(self.bad_character(ReadErrorKind::KeywordCharacter { ch }, end));
            }
        };
        Err(self.bad_token(kind, from))
    }

    fn is_number(&self, at: usize) -> bool {
        let digit = |at| self.byte(at).is_some_and(|b| b.is_ascii_digit());
        digit(at) || matches!(self.byte(at), Some(b'+' | b'-')) && digit(at + 1)
    }

    fn number(&mut self) -> Lexed<FormKind<'a>> {
        let signed = !self.bytes[self.start].is_ascii_digit();
        let from = self.start + usize::from(signed);
        let end = self.digits(from)?;
        if self.ends_token(end) {
            self.at = end;
            return Ok(self.integer(from, end));
        }
        let mut at = end;
        if self.byte(at) == Some(b'.') {
            let from = at + 1;
            // Digits after the point do not count towards the limit.
            at = self.scan(DIGIT, from);
            if at == from {
                return Err(self.bad_number());
            }
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            let sign = matches!(self.byte(at + 1), Some(b'+' | b'-'));
            let from = at + 1 + usize::from(sign);
            at = self.digits(from)?;
            if at == from {
                return Err(self.bad_number());
            }
        }
        if !self.ends_token(at) {
            return Err(self.bad_number());
        }
        match self.text[self.start..at].parse::<f64>() {
            Ok(float) if float.is_finite() => {
                self.at = at;
                Ok(FormKind::Float(float))
            }
            _ => Err(self.bad_token(ReadErrorKind::FloatRange, at)),
        }
    }

    fn integer(&self, from: usize, end: usize) -> FormKind<'a> {
        let negative = self.bytes[self.start] == b'-';
        let digits = &self.bytes[from..end];
        if digits.len() <= I64_DIGITS_SAFE {
            let value = digits
                .iter()
                .fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
            return FormKind::Int(if negative { -value } else { value });
        }
        let value = BigInt::parse_bytes(digits, 10).unwrap_or_default();
        let value = if negative { -value } else { value };
        i64::try_from(&value).map_or(FormKind::BigInt(value), FormKind::Int)
    }

    fn digits(&self, from: usize) -> Lexed<usize> {
        let end = self.scan(DIGIT, from);
        if end - from > self.digits_max {
            let limit = self.digits_max as u32;
            return Err(self.bad_token(ReadErrorKind::NumberDigits { limit }, end));
        }
        Ok(end)
    }

    fn bad_number(&self) -> Box<ReadError> {
        let end = self.token_end(self.start);
        let token = &self.text[self.start..end];
        if let Some((at, ch)) = token.char_indices().find(|(_, ch)| !ch.is_ascii_graphic()) {
            return self.bad_character(ReadErrorKind::NumberCharacter { ch }, self.start + at);
        }
        self.bad_token(number_fault(token), end)
    }

    fn string(&mut self) -> Lexed<Cow<'a, str>> {
        let from = self.start + 1;
        let mut at = from;
        loop {
            match self.byte(at) {
                None => {
                    return Err(self.fault_at(ReadErrorKind::UnclosedString, self.start as u32, 1));
                }
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(Cow::Borrowed(&self.text[from..at]));
                }
                Some(b'\\') => return self.escaped_string(from, at),
                Some(_) => at += 1,
            }
        }
    }

    /// A string with escapes, the first of which is at `escape`.
    fn escaped_string(&mut self, from: usize, escape: usize) -> Lexed<Cow<'a, str>> {
        let mut value = String::from(&self.text[from..escape]);
        let mut at = escape;
        // The verbatim text between two escapes starts here.
        let mut verbatim = escape;
        loop {
            match self.byte(at) {
                None => {
                    return Err(self.fault_at(ReadErrorKind::UnclosedString, self.start as u32, 1));
                }
                Some(b'"') => {
                    value.push_str(&self.text[verbatim..at]);
                    self.at = at + 1;
                    return Ok(Cow::Owned(value));
                }
                Some(b'\\') => {
                    value.push_str(&self.text[verbatim..at]);
                    let (ch, end) = self.escape(at)?;
                    value.push(ch);
                    at = end;
                    verbatim = end;
                }
                Some(_) => at += 1,
            }
        }
    }

    /// The character that the escape at `at` stands for, and the end of the escape.
    fn escape(&self, at: usize) -> Lexed<(char, usize)> {
        let ch = match self.byte(at + 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'\\') => '\\',
            Some(b'"') => '"',
            Some(b'u') => return self.unicode_escape(at),
            None => return Err(self.fault_at(ReadErrorKind::UnclosedString, self.start as u32, 1)),
            Some(_) => {
                let end = at + 1 + self.char(at + 1).len_utf8();
                return Err(self.fault_in(ReadErrorKind::StringEscape, at..end));
            }
        };
        Ok((ch, at + 2))
    }

    fn unicode_escape(&self, at: usize) -> Lexed<(char, usize)> {
        let Some(first) = self.hex(at + 2) else {
            let digits = self.bytes[at + 2..]
                .iter()
                .take(4)
                .take_while(|b| b.is_ascii_hexdigit());
            let end = at + 2 + digits.count();
            return Err(self.fault_in(ReadErrorKind::UnicodeEscape, at..end));
        };
        let end = at + 6;
        let low = match self.bytes.get(end..end + 2) {
            Some(br"\u") => self.hex(end + 2),
            _ => None,
        };
        // A surrogate pair is one character, as in JSON.
        let units = [first, low.unwrap_or_default()];
        match char::decode_utf16(units).next() {
            Some(Ok(ch)) => Ok((ch, if ch.len_utf16() == 2 { end + 6 } else { end })),
            _ => Err(self.fault_in(ReadErrorKind::Surrogate, at..end)),
        }
    }

    fn hex(&self, at: usize) -> Option<u16> {
        let digits = self.bytes.get(at..at + 4)?;
        digits.iter().try_fold(0, |value, byte| {
            let digit = char::from(*byte).to_digit(16)?;
            Some((value << 4) | digit as u16)
        })
    }

    fn regex(&mut self) -> Lexed<&'a str> {
        let from = self.start + 2;
        let mut at = from;
        loop {
            match self.byte(at) {
                None => {
                    return Err(self.fault_at(ReadErrorKind::UnclosedRegex, self.start as u32, 2));
                }
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(&self.text[from..at]);
                }
                // The escaped byte may be the first of a longer character, whose other bytes match nothing here.
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
            }
        }
    }

    fn character(&mut self) -> Lexed<Cow<'a, str>> {
        let from = self.start + 1;
        let Some(grapheme) = self.grapheme(from) else {
            return Err(self.bad_token(ReadErrorKind::CharacterMissing, from));
        };
        let end = from + grapheme.len();
        if self.ends_token(end) || self.byte(end) == Some(b'\\') {
            self.at = end;
            return Ok(Cow::Borrowed(grapheme));
        }
        let mut end = self.token_end(end);
        if let Some(next) = self.text[from..end].find('\\') {
            end = from + next;
        }
        let name = &self.text[from..end];
        let value = match CHARACTERS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Cow::Borrowed(*text),
            None => Cow::Owned(self.unicode_character(name, end)?.to_string()),
        };
        self.at = end;
        Ok(value)
    }

    fn unicode_character(&self, name: &str, end: usize) -> Lexed<char> {
        let span = self.start..end;
        let digits = match name.strip_prefix('u') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => digits,
            _ => return Err(self.fault_in(ReadErrorKind::CharacterName, span)),
        };
        if digits.len() != 4 {
            return Err(self.fault_in(ReadErrorKind::UnicodeEscape, span));
        }
        match self.hex(self.start + 2).map(u32::from).map(char::from_u32) {
            Some(Some(ch)) => Ok(ch),
            _ => Err(self.fault_in(ReadErrorKind::Surrogate, span)),
        }
    }

    /// The grapheme at `at`; `None` at a line break or the end.
    fn grapheme(&self, at: usize) -> Option<&'a str> {
        match (self.byte(at), self.byte(at + 1)) {
            (None | Some(b'\n' | b'\r'), _) => None,
            (Some(0..0x80), None | Some(0..0x80)) => Some(&self.text[at..at + 1]),
            _ => self.text[at..].graphemes(true).next(),
        }
    }

    fn unexpected(&self) -> Box<ReadError> {
        let ch = self.char(self.start);
        let kind = match ch {
            '@' => ReadErrorKind::Deref,
            '^' => ReadErrorKind::Metadata,
            '`' => ReadErrorKind::SyntaxQuote,
            '~' => ReadErrorKind::Unquote,
            ch => return self.bad_character(ReadErrorKind::Unexpected { ch }, self.start),
        };
        self.bad_token(kind, self.start + 1)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The character at `at`, which is a character boundary before the end.
    fn char(&self, at: usize) -> char {
        self.text[at..].chars().next().unwrap_or_default()
    }

    fn scan(&self, class: u8, from: usize) -> usize {
        let rest = &self.bytes[from..];
        from + rest.iter().take_while(|b| is_in_class(**b, class)).count()
    }

    fn ends_token(&self, at: usize) -> bool {
        match self.byte(at) {
            None => true,
            Some(b'#') => matches!(self.byte(at + 1), Some(b'{' | b'(' | b'"')),
            Some(byte) => is_in_class(byte, END),
        }
    }

    /// The end of the token that contains `from`.
    fn token_end(&self, from: usize) -> usize {
        let mut at = from;
        while !self.ends_token(at) {
            at += 1;
        }
        at
    }

    /// The whole token, which continues at `from`, is malformed.
    fn bad_token(&self, kind: ReadErrorKind, from: usize) -> Box<ReadError> {
        self.fault_in(kind, self.start..self.token_end(from))
    }

    /// The character at `at` makes the token malformed; the error points at it and names the token.
    fn bad_character(&self, kind: ReadErrorKind, at: usize) -> Box<ReadError> {
        let token = &self.text[self.start..self.token_end(at)];
        let end = at + self.char(at).len_utf8();
        Box::new(ReadError::new(kind, at..end, self.text).found(token))
    }

    fn fault_in(&self, kind: ReadErrorKind, span: Range<usize>) -> Box<ReadError> {
        Box::new(ReadError::new(kind, span, self.text))
    }

    /// An error at the latest token.
    pub(super) fn fault(&self, kind: ReadErrorKind) -> Box<ReadError> {
        self.fault_in(kind, self.start..self.at)
    }

    /// An error at the `len` bytes from `start`.
    pub(super) fn fault_at(&self, kind: ReadErrorKind, start: u32, len: u32) -> Box<ReadError> {
        let start = start as usize;
        self.fault_in(kind, start..start + len as usize)
    }

    /// The latest token, `close`, does not match `opener`, which was opened at `start`.
    pub(super) fn mismatch(&self, opener: Opener, start: u32, close: char) -> Box<ReadError> {
        let (line, column) = super::error::position(self.text, start as usize);
        self.fault(ReadErrorKind::Mismatch {
            opener,
            line,
            column,
            close,
        })
    }
}

fn symbol_kind(name: &str) -> FormKind<'_> {
    match name {
        "nil" => FormKind::Nil,
        "true" => FormKind::Bool(true),
        "false" => FormKind::Bool(false),
        _ => FormKind::Symbol(name),
    }
}

/// What is wrong with a token that starts like a number.
fn number_fault(token: &str) -> ReadErrorKind {
    let body = token.trim_start_matches(['+', '-']);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let rest = body.trim_start_matches(|ch: char| ch.is_ascii_digit());
    let decimal = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match rest.as_bytes() {
        [b'/', ..] if digits(&rest[1..]) => ReadErrorKind::Ratio,
        [b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..]
            if body.len() == rest.len() + 1 && body.starts_with('0') =>
        {
            ReadErrorKind::Radix
        }
        [b'r' | b'R', ..] if rest.len() > 1 => ReadErrorKind::Radix,
        [.., b'N' | b'M'] if decimal(&rest[..rest.len() - 1]) => ReadErrorKind::NumberSuffix,
        [.., b'f' | b'F' | b'd' | b'D' | b'L' | b'l'] if decimal(&rest[..rest.len() - 1]) => {
            ReadErrorKind::NumberSuffix
        }
        [b'.'] | [b'.', b'e' | b'E', ..] => ReadErrorKind::TrailingDot,
        [b'.', ..] if decimal(rest) => ReadErrorKind::TwoDots,
        [b'_', ..] => ReadErrorKind::DigitSeparator,
        [.., b'e' | b'E' | b'+' | b'-']
            if rest.trim_end_matches(['+', '-']).ends_with(['e', 'E']) =>
        {
            ReadErrorKind::Exponent
        }
        _ => ReadErrorKind::Number,
    }
}

/// The named character literals; any other is the grapheme itself, or `\uXXXX`.
const CHARACTERS: &[(&str, &str)] = &[
    ("newline", "\n"),
    ("space", " "),
    ("tab", "\t"),
    ("return", "\r"),
    ("backspace", "\u{8}"),
    ("formfeed", "\u{c}"),
];

/// Any integer of at most this many digits fits in 64 bits.
const I64_DIGITS_SAFE: usize = 18;

/// Separates tokens and has no meaning.
const BLANK: u8 = 1;
const END: u8 = 2;
/// May occur in a symbol. A digit or `'` cannot come first.
const SYMBOL: u8 = 4;
/// May occur in a keyword.
const KEYWORD: u8 = 8;
const DIGIT: u8 = 16;

/// Whether `name` after a colon is a valid keyword.
pub(super) fn is_keyword(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| is_in_class(byte, KEYWORD))
}

fn is_in_class(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    classes = with_class(classes, b" \t\n\r,", BLANK | END);
    classes = with_class(classes, b"()[]{}\";", END);
    classes = with_class(classes, b"0123456789", SYMBOL | KEYWORD | DIGIT);
    classes = with_class(classes, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", SYMBOL | KEYWORD);
    classes = with_class(classes, b"abcdefghijklmnopqrstuvwxyz", SYMBOL | KEYWORD);
    classes = with_class(classes, b"+-*<>=?!_$", SYMBOL | KEYWORD);
    with_class(classes, b"/.%&'", SYMBOL)
};

const fn with_class(mut classes: [u8; 256], bytes: &[u8], class: u8) -> [u8; 256] {
    let mut i = 0;
    while i < bytes.len() {
        classes[bytes[i] as usize] = class;
        i += 1;
    }
    classes
}
