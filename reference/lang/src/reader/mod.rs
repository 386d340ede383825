//! The reader: program text to forms. Knows the grammar; knows nothing of what a symbol means.
//!
//! One pass over the bytes with an explicit stack: depth takes heap, never native stack, and the first error in text
//! order ends the reading. The limit on distinct names is the exception: it is checked last, because exceeding it is
//! not a syntax error.

mod error;
mod lexer;

use std::collections::HashSet;

pub use error::{Opener, ReadError, ReadErrorKind};
use smallvec::SmallVec;

use crate::form::{Form, FormKind, Forms, Span};
use lexer::{Lexed, Lexer, Token};

/// The limits that the reader enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The number of brackets that may enclose a form; a form inside one more is a parse error. Walks over forms
    /// recurse to this depth, so values beyond a few thousand are unwise.
    pub nesting: u32,
    /// The number of distinct symbols and keywords in one program.
    pub symbols: u32,
    /// The number of digits in a row before the decimal point or in the exponent of a number literal, leading zeros
    /// included. Digits after the decimal point do not count.
    pub number_digits: u32,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            nesting: 64,
            symbols: 10_000,
            number_digits: 100,
        }
    }
}

/// Reads all top-level forms of a program; empty when there is only white space and comments.
///
/// # Errors
/// The first error in text order; [`ReadErrorKind::Symbols`] only when there is no other.
pub fn read<'a>(text: &'a str, limits: &ReadLimits) -> Result<Vec<Form<'a>>, ReadError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ReadError::new(ReadErrorKind::TooLong, 0..0, text));
    }
    let mut reader = Reader {
        lexer: Lexer::new(text, limits.number_digits),
        forms: Vec::with_capacity(FORMS_CAPACITY),
        frames: SmallVec::new(),
        depth: 0,
        quoted: 0,
        names: 0,
    };
    reader.run(limits).map_err(|error| *error)?;
    // There are at least as many tokens as distinct names, so the count is unnecessary for nearly every program.
    if reader.names > limits.symbols {
        let found = distinct_names(text, limits);
        if found > limits.symbols {
            let limit = limits.symbols;
            return Err(ReadError::new(
                ReadErrorKind::Symbols { found, limit },
                0..0,
                text,
            ));
        }
    }
    Ok(reader.forms)
}

/// Whether a colon followed by `name` is a keyword.
pub(crate) fn is_readable_keyword(name: &str) -> bool {
    lexer::is_keyword(name)
}

/// Enough for the open collections of an ordinary program, so that its forms are moved only once.
const FORMS_CAPACITY: usize = 16;

struct Reader<'a> {
    lexer: Lexer<'a>,
    /// The finished forms of all open collections, one collection after the other.
    forms: Vec<Form<'a>>,
    frames: SmallVec<[Frame; 8]>,
    /// The number of `frames` that are collections.
    depth: u32,
    /// The number of `frames` that are quoted lists.
    quoted: u32,
    /// The number of symbol and keyword tokens so far.
    names: u32,
}

/// An open construct that expects forms.
#[derive(Clone, Copy)]
struct Frame {
    awaits: Awaits,
    start: u32,
    /// The index of its first form in `Reader::forms`.
    base: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaits {
    /// Forms until the closing bracket.
    Close(Opener),
    /// One form, which is discarded: `#_`.
    Discarded,
}

impl<'a> Reader<'a> {
    fn run(&mut self, limits: &ReadLimits) -> Lexed<()> {
        while let Some(token) = self.lexer.next()? {
            if let Token::Close(close) = token {
                self.close(close)?;
                continue;
            }
            if self.depth > limits.nesting {
                return Err(self.lexer.fault(ReadErrorKind::Nesting {
                    limit: limits.nesting,
                }));
            }
            match token {
                Token::Atom(kind) => self.atom(kind)?,
                Token::Open(opener) => self.open(opener)?,
                Token::Discard => self.push(Awaits::Discarded),
                Token::Close(_) => {}
            }
        }
        match self.frames.last() {
            None => Ok(()),
            Some(frame) => Err(self.unclosed(*frame)),
        }
    }

    fn atom(&mut self, kind: FormKind<'a>) -> Lexed<()> {
        match kind {
            FormKind::Symbol(_) | FormKind::Keyword(_) => self.names += 1,
            FormKind::Quote(_) if self.quoted > 0 => {
                return Err(self.lexer.fault(ReadErrorKind::QuoteQuote));
            }
            FormKind::VarQuote(_) if self.quoted > 0 => {
                return Err(self.lexer.fault(ReadErrorKind::QuotedCode));
            }
            FormKind::Quote(_) | FormKind::VarQuote(_) => self.names += 1,
            _ => {}
        }
        let span = self.lexer.span();
        self.deliver(Form { kind, span });
        Ok(())
    }

    fn open(&mut self, opener: Opener) -> Lexed<()> {
        if self.quoted > 0 {
            match opener {
                Opener::AnonFn => return Err(self.lexer.fault(ReadErrorKind::QuotedCode)),
                Opener::QuotedList => return Err(self.lexer.fault(ReadErrorKind::QuoteQuote)),
                _ => {}
            }
        }
        self.depth += 1;
        self.quoted += u32::from(opener == Opener::QuotedList);
        self.push(Awaits::Close(opener));
        Ok(())
    }

    fn push(&mut self, awaits: Awaits) {
        self.frames.push(Frame {
            awaits,
            start: self.lexer.span().start,
            base: self.forms.len() as u32,
        });
    }

    fn close(&mut self, close: char) -> Lexed<()> {
        let Some(frame) = self.frames.pop() else {
            return Err(self.lexer.fault(ReadErrorKind::Stray { close }));
        };
        let Awaits::Close(opener) = frame.awaits else {
            return Err(self.lacks_discarded(frame));
        };
        if opener.close() != close {
            return Err(self.lexer.mismatch(opener, frame.start, close));
        }
        let span = Span {
            start: frame.start,
            end: self.lexer.span().end,
        };
        let forms: Forms<'a> = self.forms.drain(frame.base as usize..).collect();
        let kind = match opener {
            Opener::List => FormKind::List(forms),
            Opener::Vector => FormKind::Vector(forms),
            Opener::Set => FormKind::Set(forms),
            Opener::AnonFn => FormKind::AnonFn(forms),
            Opener::Map if forms.len() % 2 == 1 => {
                let forms = forms.len() as u32;
                return Err(self
                    .lexer
                    .fault_at(ReadErrorKind::OddMap { forms }, frame.start, 1));
            }
            Opener::Map => FormKind::Map(forms),
            Opener::QuotedList => {
                self.quoted -= 1;
                let list = Span {
                    start: span.start + 1,
                    end: span.end,
                };
                FormKind::Quote(Box::new(Form {
                    kind: FormKind::List(forms),
                    span: list,
                }))
            }
        };
        self.depth -= 1;
        self.deliver(Form { kind, span });
        Ok(())
    }

    fn deliver(&mut self, form: Form<'a>) {
        match self.frames.last() {
            Some(frame) if frame.awaits == Awaits::Discarded => {
                self.frames.pop();
            }
            _ => self.forms.push(form),
        }
    }

    /// The error for text that ends inside `innermost`.
    fn unclosed(&self, innermost: Frame) -> Box<ReadError> {
        let Awaits::Close(opener) = innermost.awaits else {
            return self.lacks_discarded(innermost);
        };
        let open = self.frames.iter().rev().filter_map(|f| match f.awaits {
            Awaits::Close(opener) => Some(opener.close()),
            Awaits::Discarded => None,
        });
        let kind = ReadErrorKind::Unclosed {
            opener,
            open: self.depth,
            closers: open.take(crate::error::quote::TOKEN_CHARS_MAX).collect(),
        };
        self.lexer
            .fault_at(kind, innermost.start, opener.text().len() as u32)
    }

    fn lacks_discarded(&self, frame: Frame) -> Box<ReadError> {
        self.lexer
            .fault_at(ReadErrorKind::DiscardNothing, frame.start, 2)
    }
}

/// Counts the distinct symbols and keywords of a text that was read without error.
fn distinct_names(text: &str, limits: &ReadLimits) -> u32 {
    let mut names: HashSet<&str, foldhash::fast::RandomState> = HashSet::default();
    let mut lexer = Lexer::new(text, limits.number_digits);
    while let Ok(Some(token)) = lexer.next() {
        let name = match &token {
            Token::Atom(FormKind::Symbol(name) | FormKind::VarQuote(name)) => name,
            // With its colon, to distinguish it from the symbol.
            Token::Atom(FormKind::Keyword(_)) => lexer.span().of(text),
            Token::Atom(FormKind::Quote(form)) => match form.kind {
                FormKind::Symbol(name) => name,
                _ => continue,
            },
            _ => continue,
        };
        names.insert(name);
    }
    names.len() as u32
}

#[cfg(test)]
mod tests;
