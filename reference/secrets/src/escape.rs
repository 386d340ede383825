//! Reads one character that is written as an escape sequence: percent, backslash, HTML entity, or one of them inside another.
//! Knows how writers write; knows nothing of secrets.
//!
//! An escape begins with an introducer (`%`, `\`, `&`), and each of its characters may itself be written as an escape:
//! `%25` is a percent sign, so `%252F` is a slash, and so is `&amp;#x2f;`. A place of a text therefore has several readings,
//! and none is preferred: `\u0041` is a backslash, or an `A`.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::blocks::digit;

/// Escapes around a character, one inside another: JSON in JSON in JSON, and one more.
pub(crate) const DEPTH: u8 = 4;
/// Digits of a numeric escape: enough for any number of leading zeros that somebody writes.
const DIGITS_MAX: usize = 16;
/// Letters of the longest name of an entity.
const NAME_MAX: usize = 32;
/// Letters of the shortest and the longest name that is known without its semicolon.
const OPEN_NAME: std::ops::RangeInclusive<usize> = 2..=6;
/// How many readings an escape usually has at the most.
const USUAL: usize = 4;

/// How often the kind of escape may change, and how many escapes of another kind a character of an escape may be written in at
/// least, whatever its introducer is written in: JSON in HTML in a URL.
const CROSS: u8 = 2;

/// Escapes that are tried for one: writers need half as many, and text that wants more was made to have many readings.
const PARSES_MAX: u32 = 64;
/// So many are tried whatever was tried before.
const PARSES_MIN: u32 = 4;
/// What one text affords: so many at first, and so many more for each of its bytes.
const PARSES_SAVED_MAX: u32 = 8 * 1024;
const PARSES_PER_BYTE: u32 = 4;

/// How many escapes may still be tried in a text: what was made to have many readings is read in its first ones only.
pub(crate) struct Credit {
    left: u32,
    /// Up to where the text was credited.
    at: usize,
}

impl Credit {
    pub fn new() -> Self {
        Self {
            left: PARSES_SAVED_MAX,
            at: 0,
        }
    }

    /// Credits the text up to `at`.
    pub fn reach(&mut self, at: usize) {
        let more = (at.saturating_sub(self.at) as u64).saturating_mul(u64::from(PARSES_PER_BYTE));
        self.left = (u64::from(self.left) + more).min(u64::from(PARSES_SAVED_MAX)) as u32;
        self.at = self.at.max(at);
    }
}

/// The readings of one escape.
pub(crate) type Readings = SmallVec<[Reading; USUAL]>;

/// One reading of an escape: what it says, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The byte behind the last one of the escape.
    pub end: usize,
    said: [u8; SAID_MAX],
    length: u8,
    /// How many escapes are one inside another.
    depth: u8,
}

/// Bytes that one escape says: a character, or the two of some entities.
const SAID_MAX: usize = 8;

impl Reading {
    /// What it says, in UTF-8 or as the bytes that are written.
    pub fn said(&self) -> &[u8] {
        &self.said[..usize::from(self.length)]
    }

    /// The blank that a form writes as one other character.
    pub fn blank(end: usize) -> Self {
        Self::one(b' ', 1, end)
    }

    /// A byte that is written as so many escapes, one inside another.
    fn one(byte: u8, depth: u8, end: usize) -> Self {
        let mut said = [0; SAID_MAX];
        said[0] = byte;
        Self {
            end,
            said,
            length: 1,
            depth,
        }
    }

    /// The single byte that it says, when that is ASCII.
    pub fn ascii(&self) -> Option<u8> {
        match self.said() {
            [byte] if byte.is_ascii() => Some(*byte),
            _ => None,
        }
    }
}

/// True for a byte that begins an escape.
pub(crate) const fn introduces(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// Whether an escape may begin with the introducer `first` and the byte behind it.
pub(crate) fn may_begin(first: u8, next: u8) -> bool {
    let bit = match first {
        b'%' => PERCENT,
        b'\\' => BACKSLASH,
        _ => ENTITY,
    };
    SECONDS[usize::from(next)] & bit != 0
}

const PERCENT: u8 = 1;
const BACKSLASH: u8 = 2;
const ENTITY: u8 = 4;
/// By byte: which introducers it may stand behind.
const SECONDS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if introduces(byte) {
            table[at] = PERCENT | BACKSLASH | ENTITY;
        } else {
            if byte.is_ascii_hexdigit() || matches!(byte, b'u' | b'U') {
                table[at] |= PERCENT;
            }
            if byte.is_ascii() {
                table[at] |= BACKSLASH;
            }
            if byte.is_ascii_alphanumeric() || byte == b'#' {
                table[at] |= ENTITY;
            }
        }
        at += 1;
    }
    table
};

/// Adds to `out`, which is empty, the readings of the escape that begins at `at`: every one that `credit` affords.
pub(crate) fn read(text: &[u8], at: usize, credit: &mut Credit, out: &mut Readings) {
    if read_usual(text, at, out) {
        return;
    }
    let allowed = credit.left.clamp(PARSES_MIN, PARSES_MAX);
    let left = Cell::new(allowed);
    let reader = Reader {
        text,
        cross: CROSS,
        left: &left,
    };
    reader.read(at, DEPTH, out);
    credit.left = credit.left.saturating_sub(allowed - left.get());
}

/// Adds the readings of the commonest escapes, which are as [`Reader::read`] gives them: one to three backslashes before what
/// says nothing more than one thing behind them, a percent sign before two digits that say no introducer. False for every other.
fn read_usual(text: &[u8], at: usize, out: &mut Readings) -> bool {
    let says = |byte: u8| match BEHIND_BACKSLASH[usize::from(byte)] {
        SEVERAL => None,
        said => Some((said != 0).then_some(said)),
    };
    // What the innermost escape says, behind how many backslashes.
    let (inner, count) = match text[at..] {
        [b'%', high, low, ..] => {
            let value = digit(high).zip(digit(low));
            let byte = value.map_or(SEVERAL, |(high, low)| (high << 4 | low) as u8);
            if byte.is_ascii() && !introduces(byte) {
                out.push(Reading::one(byte, 1, at + 3));
                return true;
            }
            return false;
        }
        [b'\\', b'\\', b'\\', byte, ..] if byte != b'\\' => (says(byte), 3),
        [b'\\', b'\\', byte, ..] if byte != b'\\' => (says(byte), 2),
        [b'\\', byte, ..] => (says(byte), 1),
        _ => return false,
    };
    let Some(inner) = inner else {
        return false;
    };
    if count > 1 {
        out.push(Reading::one(b'\\', 1, at + 2));
    }
    if let Some(byte) = inner {
        out.push(Reading::one(byte, 1 + u8::from(count > 1), at + count + 1));
    }
    true
}

struct Reader<'t> {
    text: &'t [u8],
    /// How often the kind of escape may still change.
    cross: u8,
    /// How many escapes may still be tried.
    left: &'t Cell<u32>,
}

/// Where an escape is being read: behind its introducer, which was written as `inner` escapes one inside another. Then so were
/// its other characters, as far as they had to be.
#[derive(Clone, Copy)]
struct Inside {
    introducer: u8,
    inner: u8,
    /// Whether those are escapes of another kind, which may leave a second introducer as it is.
    foreign: bool,
}

impl Reader<'_> {
    fn read(&self, at: usize, depth: u8, out: &mut Readings) {
        let Some(&introducer) = self.text.get(at) else {
            return;
        };
        if depth == 0 || !introduces(introducer) {
            return;
        }
        let inside = |introducer: u8, inner| Inside {
            introducer,
            inner,
            foreign: self.text[at] != introducer,
        };
        self.parse(inside(introducer, 0), at + 1, out);
        // An escape that says an introducer may be the beginning of another one.
        let mut next = 0;
        while let Some(outer) = out.get(next).copied() {
            next += 1;
            if let Some(introducer) = outer.ascii().filter(|byte| introduces(*byte))
                && outer.depth < depth
            {
                self.parse(inside(introducer, outer.depth), outer.end, out);
            }
        }
    }

    fn parse(&self, inside: Inside, at: usize, out: &mut Readings) {
        let Some(left) = self.left.get().checked_sub(1) else {
            return;
        };
        self.left.set(left);
        match inside.introducer {
            b'%' => self.percent(inside, at, out),
            b'\\' => self.backslash(inside, at, out),
            _ => self.entity(inside, at, out),
        }
    }

    /// The ways in which a character of an escape can be read that is itself written as one.
    fn written(&self, inside: Inside, at: usize) -> Readings {
        let mut readings = Readings::new();
        if self.text.get(at) == Some(&inside.introducer) {
            self.read(at, inside.inner, &mut readings);
            // Who escapes backslashes escapes all of them; digits and letters need not be escaped as often.
            if inside.introducer == b'\\' {
                readings.retain(|reading| reading.depth >= inside.inner);
            }
        } else if let Some(cross) = self.cross.checked_sub(1) {
            let Self { text, left, .. } = *self;
            let depth = CROSS.max(inside.inner);
            Reader { text, cross, left }.read(at, depth, &mut readings);
        }
        readings
    }

    /// The character at `at` and the byte behind it: as it stands unless it introduces an escape, which must then say ASCII.
    #[inline]
    fn plain(&self, inside: Inside, at: usize) -> Option<(u8, usize)> {
        let byte = *self.text.get(at)?;
        match introduces(byte) {
            true => self.escaped(inside, at),
            false => Some((byte, at + 1)),
        }
    }

    fn escaped(&self, inside: Inside, at: usize) -> Option<(u8, usize)> {
        let fits = |reading: &Reading| {
            let byte = reading.ascii().filter(|byte| !introduces(*byte));
            Some((byte?, reading.end))
        };
        self.written(inside, at).iter().find_map(fits)
    }

    /// Exactly `count` hexadecimal digits.
    fn hex(&self, inside: Inside, mut at: usize, count: usize) -> Option<(u32, usize)> {
        let mut value = 0;
        for _ in 0..count {
            let (byte, end) = self.plain(inside, at)?;
            value = value * 16 + digit(byte)?;
            at = end;
        }
        Some((value, at))
    }

    /// As many digits as there are, at least one. A value too large for a character stays too large.
    fn number(&self, inside: Inside, mut at: usize, radix: u32) -> Option<(u32, usize)> {
        let (mut value, mut digits) = (0u32, 0);
        while let Some((byte, end)) = self.plain(inside, at) {
            let Some(digit) = char::from(byte).to_digit(radix) else {
                break;
            };
            value = value.saturating_mul(radix).saturating_add(digit);
            (at, digits) = (end, digits + 1);
            if digits > DIGITS_MAX {
                return None;
            }
        }
        (digits > 0).then_some((value, at))
    }

    fn percent(&self, inside: Inside, at: usize, out: &mut Readings) {
        if let Some((value, end)) = self.hex(inside, at, 2) {
            inside.say_byte(value, end, out);
        } else if let Some((b'u' | b'U', digits)) = self.plain(inside, at) {
            self.utf16(inside, digits, out);
        }
    }

    /// `XXXX`, and the second half of a pair when it is the first.
    fn utf16(&self, inside: Inside, at: usize, out: &mut Readings) {
        let Some((first, end)) = self.hex(inside, at, 4) else {
            return;
        };
        if !(0xD800..0xDC00).contains(&first) {
            return inside.say_char(first, end, out);
        }
        let mut introducers = self.written(inside, end);
        introducers.retain(|reading| reading.ascii() == Some(inside.introducer));
        let escaped = introducers.iter().map(|reading| reading.end).max();
        let plain = (self.text.get(end) == Some(&inside.introducer)).then_some(end + 1);
        let introducer = escaped.or(plain);
        let second = introducer.and_then(|at| {
            let (_, digits) = self
                .plain(inside, at)
                .filter(|(letter, _)| *letter == b'u')?;
            self.hex(inside, digits, 4)
        });
        if let Some((second @ 0xDC00..0xE000, end)) = second {
            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            inside.say_char(code, end, out);
        }
    }

    fn backslash(&self, inside: Inside, at: usize, out: &mut Readings) {
        let Some(&next) = self.text.get(at) else {
            return;
        };
        if !introduces(next) {
            return self.behind_backslash(inside, next, at, at + 1, out);
        }
        if next != inside.introducer || inside.inner == 0 || inside.foreign {
            inside.say_one(next, at + 1, out);
        }
        // An escape of the same kind would be written in as many others: none.
        if next == inside.introducer && inside.inner == 0 {
            return;
        }
        for reading in self.written(inside, at) {
            if let Some(byte) = reading.ascii() {
                self.behind_backslash(inside, byte, at, reading.end, out);
            }
        }
    }

    /// The rest of an escape whose first character behind the backslash, at `at`, is `byte` and ends at `end`.
    fn behind_backslash(
        &self,
        inside: Inside,
        byte: u8,
        at: usize,
        end: usize,
        out: &mut Readings,
    ) {
        match byte {
            b'u' | b'x' | b'U' => {
                if let Some((b'{', open)) = self.plain(inside, end) {
                    if let Some((value, close)) = self.number(inside, open, 16)
                        && let Some((b'}', end)) = self.plain(inside, close)
                    {
                        inside.say_char(value, end, out);
                    }
                } else if byte == b'u' {
                    self.utf16(inside, end, out);
                } else if byte == b'x' {
                    if let Some((value, end)) = self.hex(inside, end, 2) {
                        inside.say_byte(value, end, out);
                    }
                } else if let Some((value, end)) = self.hex(inside, end, 8) {
                    inside.say_char(value, end, out);
                }
            }
            b'0'..=b'7' => self.octal(inside, at, out),
            byte if introduces(byte) || byte == 0 => inside.say_one(byte, end, out),
            _ => {
                let says = BEHIND_BACKSLASH[usize::from(byte)];
                if says != 0 {
                    inside.say_one(says, end, out);
                }
            }
        }
    }

    /// One to three octal digits.
    fn octal(&self, inside: Inside, from: usize, out: &mut Readings) {
        let (mut value, mut at) = (0, from);
        for _ in 0..3 {
            // No writer escapes digits, and two escapes side by side would be read as one.
            if inside.inner == 0 && self.text.get(at).copied().is_some_and(introduces) {
                break;
            }
            let Some((byte @ b'0'..=b'7', end)) = self.plain(inside, at) else {
                break;
            };
            (value, at) = (value * 8 + u32::from(byte - b'0'), end);
        }
        if at > from {
            inside.say_byte(value, at, out);
        }
    }

    fn entity(&self, inside: Inside, at: usize, out: &mut Readings) {
        let Some((first, next)) = self.plain(inside, at) else {
            return;
        };
        if first == b'#' {
            let value = match self.plain(inside, next) {
                Some((b'x' | b'X', digits)) => self.number(inside, digits, 16),
                _ => self.number(inside, next, 10),
            };
            if let Some((value, end)) = value {
                let behind = self.plain(inside, end).filter(|(byte, _)| *byte == b';');
                inside.say_char(value, behind.map_or(end, |(_, end)| end), out);
            }
            return;
        }
        let mut name = [0; NAME_MAX];
        let (mut length, mut end, mut found) = (0, at, None);
        while let Some((byte, next)) = self.plain(inside, end) {
            if length == NAME_MAX || !(byte.is_ascii_alphanumeric() || byte == b';') {
                break;
            }
            name[length] = byte;
            (length, end) = (length + 1, next);
            // Some names are known without a semicolon too; the longest one counts.
            if (byte == b';' || OPEN_NAME.contains(&length))
                && let Some(characters) = NAMES.get(&name[..length])
            {
                found = Some((*characters, end));
            }
            if byte == b';' {
                break;
            }
        }
        if let Some((characters, end)) = found {
            inside.say(characters.as_bytes(), end, out);
        }
    }
}

impl Inside {
    fn say(self, text: &[u8], end: usize, out: &mut Readings) {
        let mut said = [0; SAID_MAX];
        if let Some(place) = said.get_mut(..text.len()) {
            place.copy_from_slice(text);
            self.add(said, text.len(), end, out);
        }
    }

    fn say_char(self, code: u32, end: usize, out: &mut Readings) {
        if let Some(character) = char::from_u32(code) {
            let mut said = [0; SAID_MAX];
            let length = character.encode_utf8(&mut said).len();
            self.add(said, length, end, out);
        }
    }

    fn say_one(self, byte: u8, end: usize, out: &mut Readings) {
        let mut said = [0; SAID_MAX];
        said[0] = byte;
        self.add(said, 1, end, out);
    }

    /// A byte as it is, and the character of that number: both are written so.
    fn say_byte(self, value: u32, end: usize, out: &mut Readings) {
        if let Ok(byte) = u8::try_from(value) {
            self.say_one(byte, end, out);
            if !byte.is_ascii() {
                self.say_char(value, end, out);
            }
        }
    }

    #[inline]
    fn add(self, said: [u8; SAID_MAX], length: usize, end: usize, out: &mut Readings) {
        let reading = Reading {
            end,
            said,
            length: length as u8,
            depth: self.inner + 1,
        };
        if !out.contains(&reading) {
            out.push(reading);
        }
    }
}

/// Letters that stand for a control character behind a backslash.
const CONTROLS: &[(u8, u8)] = &[
    (b'n', b'\n'),
    (b'r', b'\r'),
    (b't', b'\t'),
    (b'b', 8),
    (b'f', 12),
    (b'v', 11),
    (b'a', 7),
    (b'e', 27),
];

/// By byte: what it says behind a backslash, 0 when nothing, or `SEVERAL`: what it says depends on what stands behind it.
const BEHIND_BACKSLASH: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        if introduces(byte) || matches!(byte, 0 | b'u' | b'U' | b'x' | b'0'..=b'7') {
            table[at] = SEVERAL;
        } else if !byte.is_ascii_alphanumeric() {
            table[at] = byte;
        }
        at += 1;
    }
    let mut control = 0;
    while control < CONTROLS.len() {
        table[CONTROLS[control].0 as usize] = CONTROLS[control].1;
        control += 1;
    }
    table
};
const SEVERAL: u8 = 0xFF;

/// HTML's names, by the name without `&`; with the semicolon where it has one.
static NAMES: LazyLock<HashMap<&'static [u8], &'static str>> = LazyLock::new(|| {
    let name = |entity: &entities::Entity| (&entity.entity.as_bytes()[1..], entity.characters);
    entities::ENTITIES.iter().map(name).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_semicolon_have_as_many_letters_as_is_said() {
        let open = NAMES.keys().filter(|name| !name.ends_with(b";"));
        let lengths: std::collections::BTreeSet<usize> = open.map(|name| name.len()).collect();
        assert_eq!(lengths.first(), Some(OPEN_NAME.start()));
        assert_eq!(lengths.last(), Some(OPEN_NAME.end()));
    }

    /// What is read at once reads as it would otherwise: every text of some characters, up to seven of them.
    #[test]
    fn usual_escapes_are_read_as_all_are() {
        let letters = b"\\\\\\%2f5nq0u\"&;";
        let mut random = fastrand::Rng::with_seed(5);
        let mut usual = 0;
        for _ in 0..200_000 {
            let text: Vec<u8> = (0..random.usize(1..8))
                .map(|_| letters[random.usize(..letters.len())])
                .collect();
            let (mut quick, mut slow) = (Readings::new(), Readings::new());
            if read_usual(&text, 0, &mut quick) {
                let (text, left) = (&text[..], &Cell::new(PARSES_MAX));
                let cross = CROSS;
                Reader { text, cross, left }.read(0, DEPTH, &mut slow);
                assert_eq!(quick, slow, "{}", String::from_utf8_lossy(text));
                usual += 1;
            }
        }
        assert!(usual > 10_000, "only {usual} were usual");
    }

    fn said(text: &str) -> Vec<String> {
        let mut readings = Readings::new();
        read(text.as_bytes(), 0, &mut Credit::new(), &mut readings);
        let whole = readings.iter().filter(|reading| reading.end == text.len());
        whole
            .map(|reading| String::from_utf8_lossy(reading.said()).into_owned())
            .collect()
    }

    #[test]
    fn every_escape_says_its_character() {
        for (text, expected) in [
            ("%2f", "/"),
            ("%2F", "/"),
            ("%252F", "/"),
            ("%25252F", "/"),
            ("%u00e4", "ä"),
            ("\\/", "/"),
            ("\\\\/", "/"),
            ("\\\\\\/", "/"),
            ("\\\"", "\""),
            ("\\\\\\\"", "\""),
            ("\\\\\\\\\\\\\\\"", "\""),
            ("\\u002f", "/"),
            ("\\\\u002F", "/"),
            ("\\\\\\\\u002F", "/"),
            ("\\u{2f}", "/"),
            ("\\x2f", "/"),
            ("\\057", "/"),
            ("\\U0000002f", "/"),
            ("\\ud83d\\ude00", "😀"),
            ("\\\\ud83d\\\\ude00", "😀"),
            ("\\xe4", "ä"),
            ("&#47;", "/"),
            ("&#0047", "/"),
            ("&#x2f;", "/"),
            ("&#X2F", "/"),
            ("&sol;", "/"),
            ("&amp;", "&"),
            ("&amp", "&"),
            ("&amp;#x2f;", "/"),
            ("&amp;amp;sol;", "/"),
            ("&#38;#47;", "/"),
            ("%26%2347%3B", "/"),
            ("\\u0026#47;", "/"),
            ("\\u00252f", "/"),
            ("&auml;", "ä"),
            ("%5Cu002f", "/"),
            ("%5c%2f", "/"),
            ("&#92;\\", "\\"),
            ("%5c\\", "\\"),
            ("&amp;#92;\\", "\\"),
            ("\\n", "\n"),
            ("%255C%255C%255C%2522", "\""),
            ("%252526amp%25253B", "&"),
            ("%25%32%35%36%31", "a"),
            ("%25253%37", "7"),
            ("&#38;#38;#4&#53;;", "-"),
        ] {
            assert!(
                said(text).contains(&expected.to_owned()),
                "{text}: {:?}",
                said(text)
            );
        }
        for text in ["%2", "%zz", "\\q", "&nonsense;", "&#;", "\\u12", "%%", "&"] {
            assert_eq!(said(text), Vec::<String>::new(), "{text}");
        }
    }
}
