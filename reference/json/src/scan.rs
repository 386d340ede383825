//! The one scanner of JSON text: it reports what it finds to a visitor and keeps nothing itself.
//!
//! Text from outside is checked while it is scanned; text that was already checked is only split into its parts. Nothing recurses,
//! and the visitor keeps track of the open containers, because the sender of the text chooses how deep it nests.

use crate::passes::{self, Pass};

/// Receives the parts of a JSON text, from its first byte to its last.
pub trait Visitor<'t> {
    /// Why a scan ends early.
    type Stop: From<SyntaxError>;

    /// The innermost open container.
    fn inside(&self) -> Option<Container>;

    /// A container with parts begins at byte `at`.
    ///
    /// # Errors
    /// The reason to end the scan here; likewise for all methods that follow.
    fn open(&mut self, container: Container, at: usize) -> Result<(), Self::Stop>;

    /// The innermost container ended before byte `end`.
    fn close(&mut self, end: usize) -> Result<(), Self::Stop>;

    /// The name of a member, whose value follows.
    fn name(&mut self, name: Quoted<'t>) -> Result<(), Self::Stop>;

    /// A value without parts.
    fn scalar(&mut self, scalar: Scalar<'t>) -> Result<(), Self::Stop>;

    /// A literal part of a string with escapes. [`Quoted::Spelled`] follows after the last part.
    fn piece(&mut self, piece: &'t str) -> Result<(), Self::Stop>;

    /// The character of an escape in such a string.
    fn letter(&mut self, letter: char) -> Result<(), Self::Stop>;

    /// Reports that this many bytes were skipped.
    fn passed(&mut self, _bytes: usize) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    Array,
    Object,
}

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'t> {
    Null,
    Bool(bool),
    /// A number without fraction and exponent, as it is written.
    Integer(&'t str),
    /// A number with a fraction or an exponent, as it is written.
    Float(&'t str),
    String(Quoted<'t>),
    /// A container without parts.
    Empty(Container),
}

/// The content of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted<'t> {
    /// It contains no escapes.
    Plain(&'t str),
    /// It contains escapes; its parts were reported before.
    Spelled,
}

/// What can be wrong with JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// The text ends too early.
    End,
    /// A character that is not allowed here.
    Unexpected,
    /// Something follows the value.
    Trailing,
    /// An unescaped control character in a string.
    Control,
    /// A backslash that does not begin a valid escape.
    Escape,
    /// Half of a surrogate pair.
    Surrogate,
    /// A number that is malformed, or too large for a float.
    Number,
}

/// A scan that did not reach the end of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped<S> {
    pub why: S,
    /// The byte that the scanner had reached.
    pub offset: usize,
}

/// Scans `text`, which may be surrounded by white space, as one value.
///
/// # Errors
/// Where the text is not JSON, or where the visitor ended the scan.
pub fn scan<'t, V: Visitor<'t>>(text: &'t str, visitor: &mut V) -> Result<(), Stopped<V::Stop>> {
    let mut scanner = Scanner::<false> { text, at: 0 };
    let whole = scanner.document(visitor);
    passes::count(Pass::Scanned, scanner.at);
    whole.map_err(|why| Stopped {
        why,
        offset: scanner.at,
    })
}

/// Visits `text`, which is known to be one value without surrounding white space.
pub(crate) fn visit<'t, V: Visitor<'t>>(
    text: &'t str,
    visitor: &mut V,
) -> Result<(), Stopped<V::Stop>> {
    let mut scanner = Scanner::<true> { text, at: 0 };
    let whole = scanner.value(visitor);
    passes::count(Pass::Built, scanner.at);
    whole.map_err(|why| Stopped {
        why,
        offset: scanner.at,
    })
}

/// Bytes between two calls of [`Visitor::passed`].
const RUN_BYTES: usize = 4096;

/// `KNOWN`: the text is known to be JSON.
struct Scanner<'t, const KNOWN: bool> {
    text: &'t str,
    at: usize,
}

impl<'t, const KNOWN: bool> Scanner<'t, KNOWN> {
    fn document<V: Visitor<'t>>(&mut self, visitor: &mut V) -> Result<(), V::Stop> {
        self.value(visitor)?;
        self.skip_space(visitor);
        if self.at < self.text.len() {
            return Err(SyntaxError::Trailing.into());
        }
        Ok(())
    }

    fn value<V: Visitor<'t>>(&mut self, visitor: &mut V) -> Result<(), V::Stop> {
        loop {
            self.skip_space(visitor);
            let scalar = match self.peek()? {
                b'[' => match self.opening(Container::Array, visitor)? {
                    Some(empty) => empty,
                    None => continue,
                },
                b'{' => match self.opening(Container::Object, visitor)? {
                    Some(empty) => empty,
                    None => {
                        self.name(visitor)?;
                        continue;
                    }
                },
                b'"' => Scalar::String(self.string(visitor)?),
                b'-' | b'0'..=b'9' => self.number(visitor)?,
                b't' => self.word("true", Scalar::Bool(true))?,
                b'f' => self.word("false", Scalar::Bool(false))?,
                b'n' => self.word("null", Scalar::Null)?,
                _ => return Err(SyntaxError::Unexpected.into()),
            };
            visitor.scalar(scalar)?;
            // The value may be the last part of several containers.
            loop {
                let Some(inside) = visitor.inside() else {
                    return Ok(());
                };
                self.skip_space(visitor);
                match (inside, self.peek()?) {
                    (_, b',') => {
                        self.at += 1;
                        if inside == Container::Object {
                            self.skip_space(visitor);
                            self.name(visitor)?;
                        }
                        break;
                    }
                    (Container::Array, b']') | (Container::Object, b'}') => {
                        self.at += 1;
                        visitor.close(self.at)?;
                    }
                    _ => return Err(SyntaxError::Unexpected.into()),
                }
            }
        }
    }

    /// Takes the opening bracket of a container, and the closing one if the container is empty.
    fn opening<V: Visitor<'t>>(
        &mut self,
        container: Container,
        visitor: &mut V,
    ) -> Result<Option<Scalar<'t>>, V::Stop> {
        let start = self.at;
        self.at += 1;
        self.skip_space(visitor);
        let closing = match container {
            Container::Array => b']',
            Container::Object => b'}',
        };
        if self.peek()? == closing {
            self.at += 1;
            return Ok(Some(Scalar::Empty(container)));
        }
        visitor.open(container, start)?;
        Ok(None)
    }

    /// Takes the name of a member and its colon.
    fn name<V: Visitor<'t>>(&mut self, visitor: &mut V) -> Result<(), V::Stop> {
        if self.peek()? != b'"' {
            return Err(SyntaxError::Unexpected.into());
        }
        let name = self.string(visitor)?;
        visitor.name(name)?;
        self.skip_space(visitor);
        if self.peek()? != b':' {
            return Err(SyntaxError::Unexpected.into());
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn string<V: Visitor<'t>>(&mut self, visitor: &mut V) -> Result<Quoted<'t>, V::Stop> {
        let start = self.at + 1;
        let end = self.plain_end(start);
        if self.bytes().get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Quoted::Plain(&self.text[start..end]));
        }
        self.escaped_string(start, visitor)
    }

    /// A string whose content begins at `start` and is not entirely literal.
    #[cold]
    fn escaped_string<V: Visitor<'t>>(
        &mut self,
        start: usize,
        visitor: &mut V,
    ) -> Result<Quoted<'t>, V::Stop> {
        self.at = start;
        loop {
            let (from, end) = (self.at, self.plain_end(self.at));
            self.at = end;
            if end > from {
                visitor.piece(&self.text[from..end])?;
            }
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(Quoted::Spelled);
                }
                b'\\' => {
                    let letter = self.escape()?;
                    visitor.letter(letter)?;
                }
                _ => return Err(SyntaxError::Control.into()),
            }
        }
    }

    /// The first byte from `at` on that is not literal in a string.
    #[inline]
    fn plain_end(&self, at: usize) -> usize {
        /// Most strings end within this many bytes; for them a simple search is fastest.
        const NEAR_BYTES: usize = 32;
        let bytes = &self.bytes()[at..];
        let (near, far) = bytes.split_at(bytes.len().min(NEAR_BYTES));
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        if let Some(end) = near.iter().position(special) {
            return at + end;
        }
        let end = memchr::memchr2(b'"', b'\\', far).unwrap_or(far.len());
        let control = match KNOWN {
            true => None,
            false => first_control(&far[..end]),
        };
        at + near.len() + control.unwrap_or(end)
    }

    /// The character of the escape at the current byte.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let Some(&escape) = self.bytes().get(self.at + 1) else {
            self.at += 1;
            return Err(SyntaxError::End);
        };
        if escape == b'u' {
            return self.unicode();
        }
        let letter = plain_escape(escape).ok_or(SyntaxError::Escape)?;
        self.at += 2;
        Ok(letter)
    }

    /// `\uXXXX`, or two of them for a surrogate pair.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let (letter, length) = unicode_escape(&self.bytes()[self.at..])?;
        self.at += length;
        Ok(letter)
    }

    fn number<V: Visitor<'t>>(&mut self, visitor: &mut V) -> Result<Scalar<'t>, V::Stop> {
        let start = self.at;
        if self.bytes()[start] == b'-' {
            self.at += 1;
        }
        let whole = self.at;
        let digits = self.digits(visitor);
        if digits == 0 || (digits > 1 && self.bytes()[whole] == b'0') {
            return Err(SyntaxError::Number.into());
        }
        let mut float = false;
        if self.bytes().get(self.at) == Some(&b'.') {
            float = true;
            self.at += 1;
            if self.digits(visitor) == 0 {
                return Err(SyntaxError::Number.into());
            }
        }
        if let Some(b'e' | b'E') = self.bytes().get(self.at) {
            float = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes().get(self.at) {
                self.at += 1;
            }
            if self.digits(visitor) == 0 {
                return Err(SyntaxError::Number.into());
            }
        }
        let text = &self.text[start..self.at];
        Ok(match float {
            true => Scalar::Float(text),
            false => Scalar::Integer(text),
        })
    }

    #[inline]
    fn digits<V: Visitor<'t>>(&mut self, visitor: &mut V) -> usize {
        self.run(visitor, |byte| byte.is_ascii_digit())
    }

    fn word(&mut self, word: &str, scalar: Scalar<'t>) -> Result<Scalar<'t>, SyntaxError> {
        if self.bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(scalar)
        } else {
            Err(SyntaxError::Unexpected)
        }
    }

    #[inline]
    fn skip_space<V: Visitor<'t>>(&mut self, visitor: &mut V) {
        if let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes().get(self.at) {
            self.run(visitor, is_space);
        }
    }

    /// Skips all bytes of a kind and returns their number.
    #[inline]
    fn run<V: Visitor<'t>>(&mut self, visitor: &mut V, of: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        loop {
            let rest = self.bytes()[self.at..].iter().take(RUN_BYTES);
            let run = rest.take_while(|byte| of(**byte)).count();
            self.at += run;
            if run < RUN_BYTES {
                return self.at - start;
            }
            visitor.passed(run);
        }
    }

    #[inline]
    fn peek(&self) -> Result<u8, SyntaxError> {
        self.bytes().get(self.at).copied().ok_or(SyntaxError::End)
    }

    #[inline]
    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The character of a backslash followed by `escape`, for all escapes except `\u`.
pub(crate) fn plain_escape(escape: u8) -> Option<char> {
    Some(match escape {
        b'"' | b'\\' | b'/' => char::from(escape),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// The character of one `\uXXXX`, or of a surrogate pair, at the start of `bytes`, and its length in bytes.
pub(crate) fn unicode_escape(bytes: &[u8]) -> Result<(char, usize), SyntaxError> {
    let high = unit(bytes)?;
    let (code, length) = match high {
        0xD800..0xDC00 => {
            let rest = &bytes[6..];
            if !rest.starts_with(b"\\u") {
                return Err(SyntaxError::Surrogate);
            }
            let low = unit(rest)?;
            if !(0xDC00..0xE000).contains(&low) {
                return Err(SyntaxError::Surrogate);
            }
            (0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12)
        }
        _ => (high, 6),
    };
    let letter = char::from_u32(code).ok_or(SyntaxError::Surrogate)?;
    Ok((letter, length))
}

/// The digits of `\uXXXX`.
fn unit(bytes: &[u8]) -> Result<u32, SyntaxError> {
    let digits = bytes.get(2..6).ok_or(SyntaxError::End)?;
    digits.iter().try_fold(0, |code, digit| {
        char::from(*digit)
            .to_digit(16)
            .map(|digit| code << 4 | digit)
            .ok_or(SyntaxError::Escape)
    })
}

/// The first byte below 32, examining eight at a time.
fn first_control(bytes: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::MAX / 255;
    let (blocks, _) = bytes.as_chunks::<8>();
    let clean = blocks.iter().take_while(|block| {
        let block = u64::from_le_bytes(**block);
        block.wrapping_sub(EACH * 0x20) & !block & (EACH * 0x80) == 0
    });
    let start = clean.count() * 8;
    let rest = bytes[start..].iter().position(|byte| *byte < 0x20)?;
    Some(start + rest)
}
