//! Forms, as the reader makes them from program text. Knows nothing of values or of the meaning of names.

use std::borrow::Cow;
use std::rc::Rc;

use num_bigint::BigInt;

/// A half-open range of byte offsets into the program text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just after the last byte.
    pub end: u32,
}

impl Span {
    /// The text that the span covers; empty when `text` is not the text that was read.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// One form and its position, brackets and prefix characters included.
#[derive(Clone, Debug, PartialEq)]
pub struct Form<'a> {
    /// The form itself.
    pub kind: FormKind<'a>,
    /// The position of the form in the text.
    pub span: Span,
}

/// The forms between two brackets, shared so that macros can reuse them elsewhere without copying.
pub type Forms<'a> = Rc<[Form<'a>]>;

/// The kinds of form. Text is borrowed from the program wherever it occurs there verbatim.
///
/// A form nests at most one level deeper than [`ReadLimits::nesting`](crate::reader::ReadLimits), so a walk
/// over a form, its drop included, may recurse.
#[derive(Clone, Debug, PartialEq)]
pub enum FormKind<'a> {
    /// `nil`.
    Nil,
    /// `true`, `false`.
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// An integer that does not fit 64 bits.
    BigInt(BigInt),
    /// A float, including `##Inf`, `##-Inf` and `##NaN`.
    Float(f64),
    /// The text of a string literal without its quotes, escapes resolved. A character literal is a string of one grapheme.
    Str(Cow<'a, str>),
    /// The pattern of `#"…"` exactly as written between the quotes, not compiled yet.
    Regex(&'a str),
    /// A keyword's name, without the colon.
    Keyword(&'a str),
    /// A symbol as written: `x`, `data/x`, `clojure.string/join`, `.method`, `*1`, `%`, `%&`.
    Symbol(&'a str),
    /// `(…)`.
    List(Forms<'a>),
    /// `[…]`.
    Vector(Forms<'a>),
    /// `{…}`: alternating keys and values, always an even number. Keys may repeat.
    Map(Forms<'a>),
    /// `#{…}`. Elements may repeat.
    Set(Forms<'a>),
    /// `#(…)`: the forms of its body.
    AnonFn(Forms<'a>),
    /// `'x` or `'(…)`: always a symbol or a list. The list holds data only: no `#(…)`, `#'x` or further quote at any depth.
    Quote(Box<Form<'a>>),
    /// The symbol of `#'x`.
    VarQuote(&'a str),
}
