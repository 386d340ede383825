//! Escapes as nearly all writers write them: found without a search, with the same readings.

use super::forms::{AFTER_BACKSLASH, SEVERAL};
use super::names::NAMES;
use super::reading::{Reading, Readings, pair, push_char, push_text};
use super::{DEPTH, Escapes, NAME_MAX, OPEN_NAME_LETTERS, introduces};

/// The number of digits that the fast path handles.
const USUAL_DIGITS_MAX: usize = 6;

impl Escapes<'_> {
    /// Adds the readings of the most common escapes, equal to those of [`read_all`](Self::read_all). False for every other escape.
    pub(super) fn read_usual(&self, at: usize, out: &mut Readings) -> bool {
        match self.read_single(at) {
            Some(one) => out.push(one),
            None => return self.read_some(at, out),
        }
        true
    }

    /// Like [`read_usual`](Self::read_usual) for escapes without a single reading: backslashes that escape nothing; a percent sign
    /// before two digits that are a byte of a longer character, or an escaped percent sign before two digits that are no introducer;
    /// and entities that are no introducer.
    #[inline]
    pub(super) fn read_some(&self, at: usize, out: &mut Readings) -> bool {
        match self.text[at..] {
            [b'%', high, low, ..] => {
                let Some(byte) = pair(high, low) else {
                    return false;
                };
                let (mut byte, mut end, mut layer) = (byte, at + 3, 1);
                if byte == b'%' {
                    // The percent sign is escaped once more.
                    let rest = self.text[end..].first_chunk();
                    let Some(inner) = rest.and_then(|[high, low]| pair(*high, *low)) else {
                        return false;
                    };
                    out.push(Reading::from_byte(byte, end).in_layer(layer));
                    (byte, end, layer) = (inner, end + 2, layer + 1);
                }
                if introduces(byte) {
                    out.clear();
                    return false;
                }
                out.push(Reading::from_byte(byte, end).in_layer(layer));
                if !byte.is_ascii() {
                    push_char(u32::from(byte), end, layer, out);
                }
                true
            }
            [b'\\', ..] => {
                let behind = self.text.get(at + self.run(at)).copied();
                behind.is_some_and(|byte| AFTER_BACKSLASH[usize::from(byte)] != SEVERAL)
            }
            [b'&', b'#', ..] => self.read_number(at + 2, out),
            [b'&', ..] => self.read_name(at + 1, out),
            _ => false,
        }
    }

    /// The same for a numeric entity whose number begins at `at`, with few digits; digits and semicolon are written literally.
    pub(super) fn read_number(&self, at: usize, out: &mut Readings) -> bool {
        let (from, radix) = match self.text.get(at) {
            Some(b'x' | b'X') => (at + 1, 16),
            _ => (at, 10),
        };
        let (mut end, mut value) = (from, 0);
        while end - from < USUAL_DIGITS_MAX
            && let Some(digit) = self
                .text
                .get(end)
                .and_then(|byte| char::from(*byte).to_digit(radix))
        {
            (end, value) = (end + 1, value * radix + digit);
        }
        if end == from
            || self.text.get(end) != Some(&b';')
            || u8::try_from(value).is_ok_and(introduces)
        {
            return false;
        }
        push_char(value, end + 1, 1, out);
        true
    }

    /// The same for a named entity whose name begins at `at`; the letters and what ends the name are written literally.
    pub(super) fn read_name(&self, at: usize, out: &mut Readings) -> bool {
        let end = at + self.letters(at) + 1;
        match self.text.get(end - 1) {
            Some(b';') => {
                let bytes = NAMES.of(&self.text[at..end]).filter(|bytes| match *bytes {
                    "&" => self.is_no_entity(end),
                    bytes => !bytes.bytes().any(introduces),
                });
                if let Some(bytes) = bytes {
                    push_text(bytes.as_bytes(), end, 1, out);
                }
                bytes.is_some()
            }
            _ => self.is_no_entity(at),
        }
    }

    /// Whether the text at `at` is certainly not the rest of an entity after its ampersand.
    fn is_no_entity(&self, at: usize) -> bool {
        let letters = self.letters(at);
        let (rest, behind) = self.text[at..].split_at(letters);
        let ends = behind
            .first()
            .is_none_or(|byte| !introduces(*byte) && !b"#;".contains(byte));
        let mut open = OPEN_NAME_LETTERS.take_while(|count| *count <= letters);
        ends && open.all(|count| NAMES.of(&rest[..count]).is_none())
    }

    /// The number of letters at `at`, up to the longest name.
    fn letters(&self, at: usize) -> usize {
        let letters = self.text[at..].iter().take(NAME_MAX);
        letters
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count()
    }

    /// The reading of an escape that has exactly one and is cheap to recognise: backslashes before a character with a single meaning,
    /// or a percent sign before two digits that are ASCII but no introducer.
    #[inline]
    pub fn read_single(&self, at: usize) -> Option<Reading> {
        match self.text[at..] {
            [b'%', high, low, ..] => {
                let byte = pair(high, low).filter(|byte| byte.is_ascii() && !introduces(*byte))?;
                Some(Reading::from_byte(byte, at + 3).in_layer(1))
            }
            [b'\\', ..] => {
                let count = self.run(at);
                let byte = self.text.get(at + count).copied()?;
                let meaning = AFTER_BACKSLASH[usize::from(byte)];
                if matches!(meaning, 0 | SEVERAL) || count >= 1 << DEPTH {
                    return None;
                }
                // Each layer adds one backslash and doubles those that were there.
                let layer = 1 + count.ilog2() as u8;
                Some(Reading::from_byte(meaning, at + count + 1).in_layer(layer))
            }
            _ => None,
        }
    }
}
