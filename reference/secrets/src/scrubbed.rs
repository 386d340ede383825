//! `Scrubbed<T>`: proof in the type system that a value went through the redactor. Only the redactor can make one.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};

use serde_json::Value;

use crate::redactor::{MARKER, Redactor};

/// A value that went through the redactor. There is no other constructor, and no way to change the value inside.
///
/// A type composed of parts implements [`Scrub`] and decides which parts are text from outside; parts that are already
/// `Scrubbed` are left alone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scrubbed<T>(T);

impl<T> Scrubbed<T> {
    pub(crate) fn seal(value: T) -> Self {
        Self(value)
    }

    /// Gives up the value and the proof.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Builds another value from this one. `write` is a plain function, so it can only add the program's own words.
    pub fn derive<U>(&self, write: fn(&T) -> U) -> Scrubbed<U> {
        Scrubbed(write(&self.0))
    }

    /// Borrows the value, keeping the proof.
    pub fn as_ref(&self) -> Scrubbed<&T> {
        Scrubbed(&self.0)
    }
}

/// Compiled-in words of this program contain no credential.
impl From<&'static str> for Scrubbed<String> {
    fn from(words: &'static str) -> Self {
        Self(words.to_owned())
    }
}

impl Scrubbed<String> {
    /// This text followed by `more`.
    #[must_use]
    pub fn then(mut self, more: impl Into<Scrubbed<String>>) -> Self {
        self.0.push_str(&more.into().0);
        self
    }

    /// A piece of scrubbed text is scrubbed: for previews and limits, which cut after scrubbing. `None` when the range is
    /// not on character boundaries.
    pub fn cut(&self, range: Range<usize>) -> Option<Scrubbed<String>> {
        self.0.get(range).map(|piece| Scrubbed(piece.to_owned()))
    }
}

impl<T> Deref for Scrubbed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Scrubbed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Scrubbed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Decides which parts of a value are scrubbed. Called only with a redactor that has secrets.
pub trait Scrub {
    /// Replaces every secret in the parts that come from outside.
    fn scrub_in_place(&mut self, redactor: &Redactor);
}

impl<T> Scrub for Scrubbed<T> {
    fn scrub_in_place(&mut self, _: &Redactor) {}
}

impl Scrub for String {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        if let Cow::Owned(clean) = redactor.scrub_str(self) {
            *self = clean;
        }
    }
}

impl Scrub for Cow<'_, str> {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        if let Cow::Owned(clean) = redactor.scrub_str(self) {
            *self = Cow::Owned(clean);
        }
    }
}

impl<T: Scrub> Scrub for Option<T> {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        if let Some(value) = self {
            value.scrub_in_place(redactor);
        }
    }
}

impl<T: Scrub> Scrub for Vec<T> {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        for value in self {
            value.scrub_in_place(redactor);
        }
    }
}

/// Scrubs every string, every key, and every number that spells a secret of eight bytes or more. For text that is partly
/// the server's own, see [`scrub_json`].
impl Scrub for Value {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        scrub_json(self, &[], redactor);
    }
}

/// Scrubs JSON text token by token, each string in its decoded form: keys, values, and numbers that spell a secret; and objects and
/// arrays that stand there as a secret. Borrows the text unchanged when nothing matches.
pub fn scrub_json_text<'a>(json: &'a str, redactor: &Redactor) -> Cow<'a, str> {
    if redactor.is_empty() {
        return Cow::Borrowed(json);
    }
    let bytes = json.as_bytes();
    let mut structures = redactor.find_structures(json).into_iter().peekable();
    let mut out = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        if matches!(byte, b'{' | b'[') {
            // Those that begin inside a string were found with it.
            while structures.next_if(|place| place.start < at).is_some() {}
            if let Some(place) = structures.next_if(|place| place.start == at) {
                out.push_str(&json[kept..at]);
                out.push_str(&quoted(MARKER));
                (at, kept) = (place.end, place.end);
                continue;
            }
        }
        if byte != b'"' && byte != b'-' && !byte.is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = json_token_end(bytes, at);
        if let Some(clean) = clean_token(&json[at..end], redactor) {
            out.push_str(&json[kept..at]);
            out.push_str(&clean);
            kept = end;
        }
        at = end;
    }
    match kept {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(out + &json[kept..]),
    }
}

/// The replacement for a string or number token of JSON text; `None` when it may stay.
fn clean_token(token: &str, redactor: &Redactor) -> Option<String> {
    let Some(inner) = token.strip_prefix('"') else {
        return redactor
            .finds_secret_in_number(token)
            .then(|| quoted(MARKER));
    };
    let told = match inner.contains('\\') {
        // Text that is no valid JSON string is scrubbed as it is.
        true => serde_json::from_str(token).map_or(Cow::Borrowed(inner), Cow::<str>::Owned),
        false => Cow::Borrowed(inner.strip_suffix('"').unwrap_or(inner)),
    };
    match redactor.scrub_str(&told) {
        Cow::Borrowed(_) => None,
        Cow::Owned(clean) => Some(quoted(&clean)),
    }
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The end of the string or number of JSON text that starts at `at`.
fn json_token_end(bytes: &[u8], at: usize) -> usize {
    if bytes[at] != b'"' {
        let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        return at + bytes[at..].iter().take_while(|byte| number(byte)).count();
    }
    let mut end = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(end..).unwrap_or_default()) {
        end += found + 1;
        if bytes[end - 1] == b'"' {
            return end;
        }
        end += 1;
    }
    bytes.len()
}

/// Scrubs JSON, except the keys named in `owned_keys` (at any depth): the server itself chose these names, and a one-letter
/// secret must not make them unreadable to a client. Iterative, because the sender chooses the depth.
pub fn scrub_json(root: &mut Value, owned_keys: &[&str], redactor: &Redactor) {
    if redactor.is_empty() {
        return;
    }
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => text.scrub_in_place(redactor),
            Value::Number(number) if redactor.finds_secret_in_number(&number.to_string()) => {
                *value = Value::String(MARKER.to_owned());
            }
            Value::Array(items) => pending.extend(items.iter_mut()),
            Value::Object(entries) => {
                let dirty = |key: &String| {
                    !owned_keys.contains(&key.as_str()) && redactor.finds_secret_in(key)
                };
                if entries.keys().any(dirty) {
                    let old = std::mem::take(entries);
                    entries.extend(old.into_iter().map(|(key, value)| {
                        let key = if dirty(&key) {
                            redactor.scrub_str(&key).into_owned()
                        } else {
                            key
                        };
                        (key, value)
                    }));
                }
                pending.extend(entries.values_mut());
            }
            _ => {}
        }
    }
}
