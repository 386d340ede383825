//! Paths of operations: templates, which arguments they accept, and to which operation a filled path belongs.
//!
//! An argument comes from a program and must not lead out of the included operation, however often a proxy between us and the
//! service decodes it. Sends nothing.

use memchr::memmem;

use super::compile::Piece;

/// Why arguments would lead out of their operation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathArgumentFault {
    #[error("path arg '{0}' must not contain a slash or a backslash")]
    Slash(String),
    #[error("path arg '{0}' must not contain a control character")]
    Control(String),
    #[error("path arg '{0}' must not contain overlong UTF-8")]
    Overlong(String),
    #[error("path arg '{0}' must not make a path segment of dots")]
    Dots(String),
    #[error("path arg '{0}' must not leave a path segment empty")]
    Empty(String),
    #[error("path args name GET {0}, an operation that is not included")]
    Excluded(String),
    #[error(
        "path args are too long to tell from the paths of {operations} operations that are not included"
    )]
    TooLong { operations: usize },
    #[error("path args name another path")]
    OtherPath,
}

/// A path template split at its slashes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template {
    /// As written in the description.
    pub text: String,
    segments: Vec<Vec<Piece>>,
}

impl Template {
    pub fn new(text: &str) -> Self {
        let mut segments = vec![Vec::new()];
        for piece in pieces(text) {
            match piece {
                Piece::Literal(text) => {
                    for (index, part) in text.split('/').enumerate() {
                        if index > 0 {
                            segments.push(Vec::new());
                        }
                        if let (Some(segment), false) = (segments.last_mut(), part.is_empty()) {
                            segment.push(Piece::Literal(part.to_owned()));
                        }
                    }
                }
                parameter => {
                    if let Some(segment) = segments.last_mut() {
                        segment.push(parameter);
                    }
                }
            }
        }
        Self {
            text: text.to_owned(),
            segments,
        }
    }

    /// Names of the parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments
            .iter()
            .flatten()
            .filter_map(|piece| match piece {
                Piece::Parameter(name) => Some(name.as_str()),
                Piece::Literal(_) => None,
            })
    }

    /// The path with `value` in place of each parameter, percent-encoded.
    ///
    /// # Errors
    /// Which argument is not allowed in a path, and why.
    pub fn fill<E: From<PathArgumentFault>>(
        &self,
        mut value: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Filled, E> {
        let mut path = String::new();
        let mut plain = Vec::with_capacity(self.segments.len());
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                path.push('/');
            }
            let mut text = String::new();
            let mut filled_in = None;
            for piece in segment {
                match piece {
                    Piece::Literal(literal) => {
                        path.push_str(literal);
                        text.push_str(literal);
                    }
                    Piece::Parameter(name) => {
                        let value = value(name)?;
                        path.push_str(&percent_encode(&value));
                        text.push_str(&value);
                        filled_in = Some(name);
                    }
                }
            }
            let text = percent_decode(text.as_bytes());
            if let Some(name) = filled_in {
                check_segment(name, &text)?;
            }
            plain.push(text.to_ascii_lowercase());
        }
        Ok(Filled { path, plain })
    }

    /// Whether a service with both templates would route `filled`, made from `ours`, to this one: it fits, and some segment is more
    /// definite. `None` when deciding takes more bytes than are `left` to examine.
    pub fn also_routes(&self, filled: &Filled, ours: &Template, left: &mut usize) -> Option<bool> {
        let pairs = || self.segments.iter().zip(&ours.segments);
        if self.segments.len() != filled.plain.len()
            || !pairs().any(|(their, our)| specificity(their) > specificity(our))
        {
            return Some(false);
        }
        for (segment, text) in self.segments.iter().zip(&filled.plain) {
            if !may_match(segment, text, left)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// A template filled with arguments.
pub(super) struct Filled {
    /// As it is sent.
    pub path: String,
    /// Its segments in lower case, decoded repeatedly until nothing is left to decode.
    plain: Vec<Vec<u8>>,
}

fn pieces(path: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else {
            break;
        };
        pieces.push(Piece::Literal(before.to_owned()));
        pieces.push(Piece::Parameter(name.to_owned()));
        rest = tail;
    }
    pieces.push(Piece::Literal(rest.to_owned()));
    pieces
}

/// Checks that a decoded segment with the argument `name` is a single segment and does not differ from its appearance.
fn check_segment(name: &str, segment: &[u8]) -> Result<(), PathArgumentFault> {
    let name = || name.to_owned();
    if segment.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
        return Err(PathArgumentFault::Slash(name()));
    }
    if segment.iter().any(|&byte| byte.is_ascii_control()) {
        return Err(PathArgumentFault::Control(name()));
    }
    // Bytes that never occur in UTF-8: they begin overlong forms of the characters above.
    if segment.iter().any(|byte| matches!(byte, 0xC0 | 0xC1)) {
        return Err(PathArgumentFault::Overlong(name()));
    }
    // Some servers strip everything from a semicolon on before they look for dots.
    let kept = segment
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or(segment);
    if !kept.iter().all(|byte| matches!(byte, b'.' | b' ')) {
        return Ok(());
    }
    Err(match kept.contains(&b'.') {
        true => PathArgumentFault::Dots(name()),
        false => PathArgumentFault::Empty(name()),
    })
}

/// How much of a segment is fixed by its template: all (2), a part (1), nothing (0).
fn specificity(segment: &[Piece]) -> u8 {
    let parameters = segment
        .iter()
        .filter(|piece| matches!(piece, Piece::Parameter(_)))
        .count();
    match (parameters, segment.len()) {
        (0, _) => 2,
        (1, 1) => 0,
        _ => 1,
    }
}

/// Whether a decoded segment in lower case may match `template`, both for a case-sensitive service and for a case-insensitive one.
/// `None` when the budget `left` is used up.
fn may_match(template: &[Piece], segment: &[u8], left: &mut usize) -> Option<bool> {
    let lower = |literal: &String| percent_decode(literal.as_bytes()).to_ascii_lowercase();
    let (mut rest, mut inner) = (segment, template);
    if let [Piece::Literal(literal), behind @ ..] = inner {
        let Some(after) = rest.strip_prefix(&*lower(literal)) else {
            return Some(false);
        };
        (rest, inner) = (after, behind);
    }
    if inner.is_empty() {
        return Some(rest.is_empty());
    }
    // Both ends are compared first; only the middle must be searched for.
    if let [before @ .., Piece::Literal(literal)] = inner {
        let Some(ahead) = rest.strip_suffix(&*lower(literal)) else {
            return Some(false);
        };
        (rest, inner) = (ahead, before);
    }
    for piece in inner {
        if let Piece::Literal(literal) = piece {
            let literal = lower(literal);
            let found = memmem::find(rest, &literal);
            let behind = found.map_or(rest.len(), |at| at + literal.len());
            *left = left.checked_sub(behind)?;
            if found.is_none() {
                return Some(false);
            }
            rest = &rest[behind..];
        }
    }
    Some(true)
}

/// Percent-encodes all but unreserved characters.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes `%XX` and `%uXXXX` repeatedly until nothing is left to decode. In one pass: a program may send a million percent signs.
fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        out.push(byte);
        while let Some((length, code)) = escape_at_end(&out) {
            out.truncate(out.len() - length);
            match u8::try_from(code) {
                Ok(byte) => out.push(byte),
                Err(_) => {
                    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }
    out
}

/// The length and value of an escape at the end of the text.
fn escape_at_end(text: &[u8]) -> Option<(usize, u32)> {
    let hex = |digits: &[u8]| {
        let all = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| all)?;
        u32::from_str_radix(digits, 16).ok()
    };
    match text {
        [.., b'%', b'u' | b'U', a, b, c, d] => hex(&[*a, *b, *c, *d]).map(|code| (6, code)),
        _ => None,
    }
    .or_else(|| match text {
        [.., b'%', a, b] => hex(&[*a, *b]).map(|code| (3, code)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
