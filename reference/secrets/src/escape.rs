//! Reads one character that is written as an escape sequence: percent, backslash, HTML entity, or one of them inside another.
//! Knows how writers escape; knows nothing of secrets.
//!
//! An escape begins with an introducer (`%`, `\`, `&`), and each of its characters may itself be written as an escape:
//! `%25` is a percent sign, so `%252F` is a slash, and so is `&amp;#x2f;`. A position in a text therefore has several readings,
//! and none is preferred: `\u0041` is a backslash, or an `A`.
//!
//! Writers are nested in layers: each one escapes the output of the one before, either all of it or only what it has to, up to
//! [`DEPTH`] times. Layer 0 is the text. An escape is one layer deeper than the deepest of its characters. Escapes of all layers
//! are parsed in one pass: an escape consists of what follows its introducer, so a group of positions whose escapes may depend on
//! each other is read from last to first, each position once. A run of backslashes has a reading for each of its lengths; these
//! are counted, not stored.

use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::blocks::digit;
use crate::watch::Watch;

/// Maximum nesting depth of escapes around a character: JSON in JSON in JSON, and one more.
pub(crate) const DEPTH: u8 = 4;
/// Maximum digits of a numeric escape: enough for any number of leading zeros that occurs in practice.
const DIGITS_MAX: usize = 16;
/// The number of digits that the fast path handles.
const USUAL_DIGITS_MAX: usize = 6;
/// Maximum digits of a style sheet escape.
const STYLE_DIGITS_MAX: usize = 6;
/// Characters that may end a style sheet escape and belong to it.
const STYLE_ENDS: &[u8] = b" \t\n\r\x0c+";
/// Letters of the longest entity name.
const NAME_MAX: usize = 32;
/// Letters of the shortest and the longest entity name that is valid without its semicolon.
const OPEN_NAME_LETTERS: RangeInclusive<usize> = 2..=6;
/// The number of readings of an escape that are stored inline, and the maximum that are kept: octal digits that are octal escapes in
/// turn, four deep, have nearly a hundred.
const USUAL: usize = 4;
const READINGS_MAX: usize = 128;
/// Maximum alternative readings of the digits or the letters of one escape that are followed in parallel.
const ALTERNATIVES_MAX: usize = 16;

/// Maximum escapes that are parsed at one position, each way to begin one counted once: real text needs a few, and text that needs
/// more was crafted to have many readings.
const PARSES_MAX: u32 = 64;
/// This many are parsed at every position even when the budget is used up.
const PARSES_MIN: u32 = 2;
/// The budget of an escape that depends on no other position.
const PARSES_ALONE: u32 = 8;
/// The parse budget of a text: its maximum, and what each byte adds to it.
const PARSES_SAVED_MAX: u32 = 16 * 1024;
const PARSES_PER_BYTE: u32 = 2;
/// Maximum bytes without an introducer inside one escape.
const REACH: usize = DEPTH as usize * (NAME_MAX + 2);
/// Bytes of a text that are read at once, and how many of these are only look-ahead for those before them.
const GROUP_BYTES_MAX: usize = 12 * 1024;
const LOOKAHEAD_BYTES: usize = 4 * 1024;
/// The cost of a position, and of each escape that is parsed there, in bytes of easy text.
const WORK_PER_PLACE: usize = 4;
const WORK_PER_PARSE: usize = 8;

/// The readings of one escape.
pub(crate) type Readings = SmallVec<[Reading; USUAL]>;

/// One reading of an escape: the bytes it stands for, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The position after the last byte of the escape.
    pub end: usize,
    bytes: [u8; READING_BYTES_MAX],
    length: u8,
    /// Whether it is a style sheet escape: hexadecimal digits behind a backslash. People write these by hand, and no writer uses them
    /// for the characters of its own escapes, so this reading is not used as a character of another escape. Otherwise `\134` (octal
    /// for a backslash, or U+0134 of a style sheet) would have twice as many readings in each layer.
    style: bool,
    /// The first layer in which it is read.
    layer: u8,
}

/// Maximum bytes that one escape stands for: one character, or the two of some entities.
const READING_BYTES_MAX: usize = 8;

impl Reading {
    /// The bytes that the escape stands for: a character in UTF-8, or one raw byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// A blank that a form writes as one other character.
    pub fn blank(end: usize) -> Self {
        Self::from_byte(b' ', end)
    }

    pub fn from_byte(byte: u8, end: usize) -> Self {
        let mut bytes = [0; READING_BYTES_MAX];
        bytes[0] = byte;
        Self {
            end,
            bytes,
            length: 1,
            style: false,
            layer: 0,
        }
    }

    fn in_layer(self, layer: u8) -> Self {
        Self { layer, ..self }
    }

    /// The same reading for an escape whose introducer is read in `layer`.
    fn behind_introducer(self, layer: u8) -> Self {
        self.in_layer(self.layer.max(1 + layer))
    }

    /// Whether the two are equal apart from their layer.
    pub fn reads_as(&self, other: &Self) -> bool {
        (self.end, self.bytes, self.length, self.style)
            == (other.end, other.bytes, other.length, other.style)
    }

    /// The single byte that the escape stands for, if it is ASCII.
    pub fn ascii(&self) -> Option<u8> {
        match self.bytes() {
            [byte] if byte.is_ascii() => Some(*byte),
            _ => None,
        }
    }

    /// The byte as a character of another escape or of a block, if it can be one.
    pub fn character(&self) -> Option<u8> {
        self.ascii().filter(|_| !self.style)
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
    MAY_FOLLOW[usize::from(next)] & bit != 0
}

const PERCENT: u8 = 1;
const BACKSLASH: u8 = 2;
const ENTITY: u8 = 4;
/// Bit set of the introducers that each byte may follow.
const MAY_FOLLOW: [u8; 256] = {
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

/// Whether each byte may be part of an escape that began before it, or directly follow it.
const MAY_CONTINUE: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        table[at] = byte.is_ascii_alphanumeric()
            || introduces(byte)
            || matches!(byte, b'#' | b';' | b'{' | b'}' | b'\r');
        at += 1;
    }
    table
};

/// The escapes of one text.
pub(crate) struct Escapes<'t> {
    text: &'t [u8],
    /// The positions `known`, one entry per byte from `known.start` on; those before `until` are final.
    places: Vec<Place>,
    known: Range<usize>,
    until: usize,
    stored: Vec<Reading>,
    /// Readings of what follows the last run of backslashes, and the position after that run.
    rest: Readings,
    rest_at: usize,
    /// The remaining parse budget of the current position, and of the text.
    left: u32,
    saved: u32,
    /// The number of escapes parsed so far.
    parsed: u64,
    /// Whether parsing met an introducer at a position that is not known and that may continue the escape.
    met_unknown: bool,
}

/// What is kept of one position in the text.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The escapes that begin here, except backslashes that are written as several backslashes.
    escapes: ReadingRange,
    /// The readings of an escape that begins with several backslashes before this position and whose first character is itself an
    /// escape, beginning here.
    after_backslashes: ReadingRange,
}

/// A range of the stored readings.
#[derive(Clone, Copy, Default)]
struct ReadingRange {
    first: u32,
    count: u32,
}

impl ReadingRange {
    fn range(self) -> Range<usize> {
        let first = self.first as usize;
        first..first + self.count as usize
    }
}

/// Context of the escape being parsed: its introducer, and the layer in which that is read.
#[derive(Clone, Copy)]
struct EscapeContext {
    introducer: u8,
    /// Where the introducer begins in the text.
    start: usize,
    /// The introducer is written literally. A writer escapes every introducer of its kind, so inside this escape no character is
    /// itself written with that introducer.
    plain: bool,
    layer: u8,
}

/// Context behind several backslashes that form one introducer. Their layer depends on how many there are.
const AFTER_SEVERAL: EscapeContext = EscapeContext {
    introducer: b'\\',
    // Only entities ask for it.
    start: 0,
    plain: false,
    layer: 0,
};

/// A character of an escape: its byte, where it ends, and the layer in which it is read.
type Character = (u8, usize, u8);

/// Alternative numbers that digits form: the value, where it ends, and the deepest layer of its digits.
type Alternatives = SmallVec<[(u32, usize, u8); USUAL]>;

/// The layer in which `count` backslashes are one.
fn layer_of(count: usize) -> u8 {
    count.next_power_of_two().ilog2() as u8
}

impl<'t> Escapes<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            places: Vec::new(),
            known: 0..0,
            until: 0,
            stored: Vec::new(),
            rest: Readings::new(),
            rest_at: usize::MAX,
            left: 0,
            saved: PARSES_SAVED_MAX,
            parsed: 0,
            met_unknown: false,
        }
    }

    /// Adds to `out`, which is empty, the readings of the escape that begins at `at`: all that the parse budget allows, except
    /// backslashes that are written as several backslashes. Not for an escape that has a single reading
    /// ([`read_single`](Self::read_single)). Positions are read from left to right; nothing is read any more once `watch` is over.
    #[inline]
    pub fn read(&mut self, at: usize, out: &mut Readings, watch: &mut Watch<'_>) {
        if !self.read_some(at, out) {
            self.read_unusual(at, out, watch);
        }
    }

    #[inline(never)]
    fn read_unusual(&mut self, at: usize, out: &mut Readings, watch: &mut Watch<'_>) {
        if at < self.until {
            return out.extend_from_slice(self.escapes(at));
        }
        if self.read_alone(at, out) {
            return;
        }
        out.clear();
        let (mut last, mut end) = (at, at + 1);
        let most = self.text.len().min(at + GROUP_BYTES_MAX);
        while end < most && end - last <= REACH && MAY_CONTINUE[usize::from(self.text[end])] {
            if introduces(self.text[end]) {
                last = end;
            }
            end += 1;
        }
        self.stored.clear();
        self.places.clear();
        self.known = at..end;
        self.until = match end < at + GROUP_BYTES_MAX {
            true => end,
            false => end - LOOKAHEAD_BYTES,
        };
        let more = (self.until - at) as u64 * u64::from(PARSES_PER_BYTE);
        self.saved = (u64::from(self.saved) + more).min(u64::from(PARSES_SAVED_MAX)) as u32;
        self.read_group(last, watch);
        out.extend_from_slice(self.escapes(at));
    }

    /// Adds the readings of the escape at `at` and returns true if they depend on no other position; else false.
    fn read_alone(&mut self, at: usize, out: &mut Readings) -> bool {
        self.stored.clear();
        self.places.clear();
        self.known = at..at;
        self.met_unknown = false;
        let run = match self.text[at] {
            b'\\' => self.run(at),
            _ => 1,
        };
        if run == 1 {
            self.saved = self.saved.max(PARSES_ALONE);
            self.read_all(at, out);
            return !self.met_unknown;
        }
        if run > 1 << (DEPTH - 1) || self.plain(at + run).is_none() {
            return false;
        }
        self.left = PARSES_ALONE;
        self.parse(AFTER_SEVERAL, at + run, out);
        // Fewer of the backslashes followed by this escape must have the same reading.
        let same = |byte: u8| AFTER_BACKSLASH[usize::from(byte)] == byte;
        !self.met_unknown && out.iter().filter_map(Reading::character).all(same)
    }

    /// The readings of the escapes at a known position.
    fn escapes(&self, at: usize) -> &[Reading] {
        let place = at.checked_sub(self.known.start);
        let place = place.and_then(|place| self.places.get(place));
        place.map_or(&[], |place| &self.stored[place.escapes.range()])
    }

    /// Reads all positions up to `last` in descending order: whatever an escape is made of follows it.
    fn read_group(&mut self, last: usize, watch: &mut Watch<'_>) {
        self.places.resize(self.known.len(), Place::default());
        self.rest_at = usize::MAX;
        for at in (self.known.start..=last).rev() {
            if !introduces(self.text[at]) {
                continue;
            }
            let parsed = self.parsed;
            let mut out = Readings::new();
            if !self.read_usual(at, &mut out) {
                out.clear();
                self.read_all(at, &mut out);
            }
            self.places[at - self.known.start].escapes = self.store(&out);
            let parsed = (self.parsed - parsed) as usize;
            if !watch.try_spend(WORK_PER_PLACE + parsed * WORK_PER_PARSE) {
                return;
            }
        }
    }

    fn store(&mut self, readings: &[Reading]) -> ReadingRange {
        let stored = ReadingRange {
            first: self.stored.len() as u32,
            count: readings.len() as u32,
        };
        self.stored.extend_from_slice(readings);
        stored
    }

    /// Adds the readings of the most common escapes, equal to those of [`read_all`](Self::read_all). False for every other escape.
    fn read_usual(&self, at: usize, out: &mut Readings) -> bool {
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
    fn read_some(&self, at: usize, out: &mut Readings) -> bool {
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
    fn read_number(&self, at: usize, out: &mut Readings) -> bool {
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
    fn read_name(&self, at: usize, out: &mut Readings) -> bool {
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

    /// The number of backslashes at `at`, capped at one more than the longest escape of a backslash has.
    fn run(&self, at: usize) -> usize {
        let most = self.text.len().min(at + (1 << DEPTH) + 1);
        let run = self.text[at..most].iter();
        run.take_while(|byte| **byte == b'\\').count()
    }

    /// Adds the readings of the escape at `at`; all positions behind it must be known.
    fn read_all(&mut self, at: usize, out: &mut Readings) {
        let allowed = self.saved.clamp(PARSES_MIN, PARSES_MAX);
        self.left = allowed;
        let introducer = self.text[at];
        let plain = EscapeContext {
            introducer,
            start: at,
            plain: true,
            layer: 0,
        };
        match introducer {
            b'\\' => match self.run(at) {
                1 => self.parse(plain, at + 1, out),
                run => self.after_run(at, run, out),
            },
            _ => self.parse(plain, at + 1, out),
        }
        // An escape of an introducer may begin another escape, which is read in a deeper layer.
        for layer in 1..DEPTH {
            let mut next = 0;
            while let Some(&outer) = out.get(next) {
                next += 1;
                if outer.layer == layer
                    && let Some(introducer) = outer.character().filter(|byte| introduces(*byte))
                {
                    let inside = EscapeContext {
                        introducer,
                        start: at,
                        plain: false,
                        layer,
                    };
                    self.parse(inside, outer.end, out);
                }
            }
        }
        self.saved = self.saved.saturating_sub(allowed - self.left);
    }

    /// Adds the readings of the escapes whose introducer is the run of backslashes at `at`, or the first part of the run.
    fn after_run(&mut self, at: usize, run: usize, out: &mut Readings) {
        let most = 1 << (DEPTH - 1);
        if run <= most {
            let end = at + run;
            if self.rest_at != end {
                let mut rest = Readings::new();
                self.parse(AFTER_SEVERAL, end, &mut rest);
                (self.rest, self.rest_at) = (rest, end);
            }
            for reading in &self.rest {
                push_unique(reading.behind_introducer(layer_of(run)), out);
            }
        }
        // Or only the first backslashes are the introducer, and an escape that begins with the others is the next character.
        let next = at + 1 - self.known.start;
        if next < self.places.len() {
            self.places[next].after_backslashes = self.after_backslashes(at + 1);
        }
        for count in 2..run.min(most + 1) {
            let turn = self.places.get(next + count - 1);
            for reading in &self.stored[turn.map_or(0..0, |place| place.after_backslashes.range())]
            {
                push_unique(reading.behind_introducer(layer_of(count)), out);
            }
        }
    }

    /// The readings of the text at `at` behind several backslashes that form one introducer, when its first character is itself an
    /// escape.
    fn after_backslashes(&mut self, at: usize) -> ReadingRange {
        let mut out = Readings::new();
        let place = at - self.known.start;
        for index in self.places[place].escapes.range() {
            let reading = self.stored[index];
            if let Some(byte) = reading.character().filter(|_| reading.layer < DEPTH)
                && self.try_spend()
            {
                self.after_backslash(AFTER_SEVERAL, (byte, reading.end, reading.layer), &mut out);
            }
        }
        self.store(&out)
    }

    /// Takes one parse from the budget; false when it is used up.
    fn try_spend(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.parsed += 1;
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn parse(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
        if !self.try_spend() {
            return;
        }
        match inside.introducer {
            b'%' => self.percent(inside, at, out),
            b'\\' => self.backslash(inside, at, out),
            _ => self.entity(inside, at, out),
        }
    }

    /// The characters at `at`: the literal byte, or, if it introduces an escape, that escape's ASCII characters.
    #[inline]
    fn characters(&mut self, inside: EscapeContext, at: usize) -> SmallVec<[Character; USUAL]> {
        let mut found = SmallVec::new();
        match self.text.get(at) {
            None => {}
            Some(&byte) if !introduces(byte) => found.push((byte, at + 1, 0)),
            Some(&byte) if inside.plain && byte == inside.introducer => {}
            Some(_) => {
                let wanted = |byte: &u8| match byte {
                    byte if STYLE_ENDS.contains(byte) => inside.introducer == b'\\',
                    byte => byte.is_ascii_alphanumeric() || b"#;{}".contains(byte),
                };
                if !self.is_known(at, &wanted) {
                    return found;
                }
                for reading in self.escapes(at).iter().filter(|read| read.layer < DEPTH) {
                    if let Some(byte) = reading.character().filter(wanted) {
                        found.push((byte, reading.end, reading.layer));
                    }
                }
            }
        }
        found
    }

    /// Whether the readings at `at` are known. When no position is known, most escapes there don't yield a `wanted` byte.
    fn is_known(&mut self, at: usize, wanted: &dyn Fn(&u8) -> bool) -> bool {
        if !self.places.is_empty() || self.met_unknown {
            return !self.places.is_empty();
        }
        let mut usual = Readings::new();
        self.met_unknown = !self.read_usual(at, &mut usual)
            || usual
                .iter()
                .filter_map(Reading::character)
                .any(|byte| wanted(&byte));
        false
    }

    /// The possible ends of the character `byte` at `at`, each with the layer in which it is read.
    fn char_ends(
        &mut self,
        inside: EscapeContext,
        at: usize,
        byte: u8,
    ) -> SmallVec<[(usize, u8); USUAL]> {
        if self.plain(at).is_some_and(|plain| plain != byte) {
            return SmallVec::new();
        }
        let found = self.characters(inside, at).into_iter();
        found
            .filter(|(found, ..)| *found == byte)
            .map(|(_, end, layer)| (end, layer))
            .collect()
    }

    /// The numbers of `least` to `most` digits at `at`, the longest first. Each takes as many digits as it can, except that a digit
    /// written as an escape may also be a separate character after the number.
    fn digits(
        &mut self,
        inside: EscapeContext,
        (at, layer): (usize, u8),
        radix: u32,
        counts: RangeInclusive<usize>,
    ) -> Alternatives {
        self.more_digits(inside, (0, at, layer), radix, counts)
    }

    /// [`digits`](Self::digits) that continue the number `begun`.
    fn more_digits(
        &mut self,
        inside: EscapeContext,
        begun: (u32, usize, u8),
        radix: u32,
        counts: RangeInclusive<usize>,
    ) -> Alternatives {
        let (least, most) = counts.into_inner();
        let (mut value, mut end, layer) = begun;
        let (mut found, mut open) = (Alternatives::new(), Alternatives::new());
        let mut count = 0;
        // Most digits are written literally.
        while count < most
            && let Some(digit) = self
                .plain(end)
                .and_then(|byte| char::from(byte).to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            (end, count) = (end + 1, count + 1);
        }
        if count == most || self.text.get(end).is_none_or(|byte| !introduces(*byte)) {
            if count >= least {
                found.push((value, end, layer));
            }
            return found;
        }
        open.push((value, end, layer));
        for count in count..=most {
            let mut longer = Alternatives::new();
            for &(value, at, layer) in &open {
                let before = longer.len();
                if count < most {
                    for (byte, end, read) in self.characters(inside, at) {
                        if let Some(digit) = char::from(byte).to_digit(radix) {
                            let value = value.saturating_mul(radix).saturating_add(digit);
                            longer.push((value, end, layer.max(read)));
                        }
                    }
                }
                if count >= least && (longer.len() == before || self.plain(at).is_none()) {
                    found.push((value, at, layer));
                }
            }
            if longer.len() > ALTERNATIVES_MAX {
                // Of many alternatives, keep those with the fewest layers.
                longer.sort_by_key(|(.., layer)| *layer);
                longer.truncate(ALTERNATIVES_MAX);
            }
            open = longer;
            if open.is_empty() {
                break;
            }
        }
        found.reverse();
        found
    }

    /// The byte at `at` if it introduces no escape.
    #[inline]
    fn plain(&self, at: usize) -> Option<u8> {
        let byte = self.text.get(at).copied();
        byte.filter(|byte| !introduces(*byte))
    }

    fn percent(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
        for (value, end, layer) in self.digits(inside, (at, 0), 16, 2..=2) {
            push_byte_or_char(value, end, inside.outer_layer(layer), out);
        }
        for (byte, end, layer) in self.characters(inside, at) {
            if matches!(byte, b'u' | b'U') {
                self.utf16(inside, (end, layer), out);
            }
        }
    }

    /// `XXXX`, and if that is the first half of a surrogate pair, also the second half.
    fn utf16(&mut self, inside: EscapeContext, at: (usize, u8), out: &mut Readings) {
        for (first, end, layer) in self.digits(inside, at, 16, 4..=4) {
            if !(0xD800..0xDC00).contains(&first) {
                push_char(first, end, inside.outer_layer(layer), out);
                continue;
            }
            for (letter, read) in self.introducers(inside, end) {
                for (digits, letter) in self.char_ends(inside, letter, b'u') {
                    let layer = layer.max(read).max(letter);
                    for (second, end, layer) in self.digits(inside, (digits, layer), 16, 4..=4) {
                        if (0xDC00..0xE000).contains(&second) {
                            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                            push_char(code, end, inside.outer_layer(layer), out);
                        }
                    }
                }
            }
        }
    }

    /// The possible ends of a second introducer of the same kind at `at`, each with the layer in which it is read.
    fn introducers(&mut self, inside: EscapeContext, at: usize) -> SmallVec<[(usize, u8); USUAL]> {
        let mut ends = SmallVec::new();
        self.met_unknown |= self.text.get(at).copied().is_some_and(introduces);
        match self.text.get(at) {
            Some(b'\\') if inside.introducer == b'\\' => {
                let most = self.run(at).min(1 << (DEPTH - 1));
                ends.extend((1..=most).map(|count| (at + count, layer_of(count))));
            }
            Some(byte) if *byte == inside.introducer => ends.push((at + 1, 0)),
            _ => {}
        }
        for reading in self.escapes(at) {
            if reading.character() == Some(inside.introducer) && reading.layer < DEPTH {
                ends.push((reading.end, reading.layer));
            }
        }
        ends
    }

    fn backslash(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
        let Some(&next) = self.text.get(at) else {
            return;
        };
        if !introduces(next) {
            return self.after_backslash(inside, (next, at + 1, 0), out);
        }
        self.met_unknown = true;
        match next {
            b'\\' => {
                for count in 1..=self.run(at).min(1 << (DEPTH - 1)) {
                    push_byte(b'\\', at + count, inside.outer_layer(layer_of(count)), out);
                }
            }
            other => push_byte(other, at + 1, inside.outer_layer(0), out),
        }
        for index in self.known_range(at) {
            let reading = self.stored[index];
            if let Some(byte) = reading.character().filter(|_| reading.layer < DEPTH)
                && self.try_spend()
            {
                self.after_backslash(inside, (byte, reading.end, reading.layer), out);
            }
        }
    }

    fn known_range(&self, at: usize) -> Range<usize> {
        let place = at.checked_sub(self.known.start);
        let place = place.and_then(|place| self.places.get(place));
        place.map_or(0..0, |place| place.escapes.range())
    }

    /// The rest of an escape, given its first character behind the backslash.
    fn after_backslash(&mut self, inside: EscapeContext, first: Character, out: &mut Readings) {
        let (byte, end, layer) = first;
        match byte {
            b'u' | b'x' | b'U' => {
                for (open, brace) in self.char_ends(inside, end, b'{') {
                    let open = (open, layer.max(brace));
                    for (value, close, layer) in self.digits(inside, open, 16, 1..=DIGITS_MAX) {
                        for (end, brace) in self.char_ends(inside, close, b'}') {
                            push_char(value, end, inside.outer_layer(layer.max(brace)), out);
                        }
                    }
                }
                match byte {
                    b'u' => self.utf16(inside, (end, layer), out),
                    b'x' => {
                        for (value, end, layer) in self.digits(inside, (end, layer), 16, 2..=2) {
                            push_byte_or_char(value, end, inside.outer_layer(layer), out);
                        }
                    }
                    _ => {
                        for (value, end, layer) in self.digits(inside, (end, layer), 16, 8..=8) {
                            push_char(value, end, inside.outer_layer(layer), out);
                        }
                    }
                }
                return;
            }
            _ => {}
        }
        if let Some((_, meaning)) = CONTROLS.iter().find(|(letter, _)| *letter == byte) {
            push_byte(*meaning, end, inside.outer_layer(layer), out);
        } else if byte.is_ascii() && !byte.is_ascii_alphanumeric() {
            push_byte(byte, end, inside.outer_layer(layer), out);
        }
        let Some(first) = digit(byte) else {
            return;
        };
        let begun = (first, end, layer);
        if first < 8 {
            for (value, end, layer) in self.more_digits(inside, begun, 8, 0..=2) {
                push_byte_or_char(value, end, inside.outer_layer(layer), out);
            }
        }
        for (value, end, layer) in self.more_digits(inside, begun, 16, 0..=STYLE_DIGITS_MAX - 1) {
            push_style_char(value, end, inside.outer_layer(layer), out);
            // A blank after it separates it from a following digit; a URL may write that blank as another character.
            for (byte, end, blank) in self.characters(inside, end) {
                if !STYLE_ENDS.contains(&byte) {
                    continue;
                }
                let layer = layer.max(blank);
                push_style_char(value, end, inside.outer_layer(layer), out);
                if byte == b'\r' {
                    for (end, feed) in self.char_ends(inside, end, b'\n') {
                        push_style_char(value, end, inside.outer_layer(layer.max(feed)), out);
                    }
                }
            }
        }
    }

    fn entity(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
        for (next, layer) in self.char_ends(inside, at, b'#') {
            let decimal = self.digits(inside, (next, layer), 10, 1..=DIGITS_MAX);
            self.numbers(inside, decimal, 10, out);
            for (letter, digits, read) in self.characters(inside, next) {
                if matches!(letter, b'x' | b'X') {
                    let digits = (digits, layer.max(read));
                    let hexadecimal = self.digits(inside, digits, 16, 1..=DIGITS_MAX);
                    self.numbers(inside, hexadecimal, 16, out);
                }
            }
        }
        if self.plain(at) != Some(b'#') {
            self.name(inside, at, out);
        }
    }

    /// Adds the characters with these numbers.
    fn numbers(
        &mut self,
        inside: EscapeContext,
        values: Alternatives,
        radix: u32,
        out: &mut Readings,
    ) {
        for (value, end, layer) in values {
            // An entity without a semicolon ends where a reader of its layer sees neither a semicolon nor another digit.
            let layer = layer.max(inside.layer);
            // An escape of a kind that the entity has none of may be older than the entity, whose reader then sees only its introducer.
            let text = self.text;
            let may_be_older = text
                .get(end)
                .is_some_and(|next| introduces(*next) && !text[inside.start..end].contains(next));
            let (mut ends, mut goes_on) = (false, false);
            for (byte, end, read) in self.characters(inside, end) {
                if byte == b';' {
                    push_char(value, end, inside.outer_layer(layer.max(read)), out);
                }
                let is_seen = read <= layer && !may_be_older;
                ends |= byte == b';' && is_seen;
                goes_on |= char::from(byte).is_digit(radix) && is_seen;
            }
            if !ends && !goes_on {
                push_char(value, end, inside.outer_layer(layer), out);
            }
        }
    }

    /// Some names are valid without a semicolon; the longest one counts.
    fn name(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
        let mut ways: SmallVec<[EntityName; 1]> = SmallVec::new();
        ways.push(EntityName::at(at, inside.layer));
        let mut next = 0;
        while let Some(mut name) = ways.get(next).copied() {
            next += 1;
            loop {
                let character = match self.plain(name.end) {
                    Some(byte) => (byte, name.end + 1, 0),
                    None => {
                        let characters = self.characters(inside, name.end);
                        // For a reader of this layer the name ends here.
                        if characters.iter().all(|(.., layer)| *layer > name.layer) {
                            name.push_found(out);
                        }
                        for character in characters.iter().skip(1) {
                            let mut other = name;
                            if !other.push_letter(*character) {
                                other.push_found(out);
                            } else if ways.len() < ALTERNATIVES_MAX {
                                ways.push(other);
                            }
                        }
                        match characters.first() {
                            Some(first) => *first,
                            None => break,
                        }
                    }
                };
                if !name.push_letter(character) {
                    break;
                }
            }
            name.push_found(out);
        }
    }
}

impl EscapeContext {
    /// The layer of an escape whose deepest character is read in `layer`.
    fn outer_layer(self, layer: u8) -> u8 {
        1 + self.layer.max(layer)
    }
}

/// The letters of an entity name that were read so far.
#[derive(Clone, Copy)]
struct EntityName {
    letters: [u8; NAME_MAX],
    length: usize,
    hash: u32,
    end: usize,
    /// The deepest layer of the letters and the introducer.
    layer: u8,
    /// The longest known name so far: its characters, where it ends, and its layer.
    found: Option<(&'static str, usize, u8)>,
}

impl EntityName {
    fn at(at: usize, layer: u8) -> Self {
        Self {
            letters: [0; NAME_MAX],
            length: 0,
            hash: 0,
            end: at,
            layer,
            found: None,
        }
    }

    /// Adds the longest known name.
    fn push_found(&self, out: &mut Readings) {
        if let Some((characters, end, layer)) = self.found {
            push_text(characters.as_bytes(), end, 1 + layer, out);
        }
    }

    /// Takes one more letter; false when the name ends before or with it.
    fn push_letter(&mut self, (byte, end, layer): Character) -> bool {
        let last = byte == b';';
        if self.length == NAME_MAX || !(last || byte.is_ascii_alphanumeric()) {
            return false;
        }
        self.letters[self.length] = byte;
        (self.length, self.end) = (self.length + 1, end);
        self.layer = self.layer.max(layer);
        self.hash = Names::hash(self.hash, byte);
        if (last || OPEN_NAME_LETTERS.contains(&self.length))
            && let Some(characters) = NAMES.get(self.hash, &self.letters[..self.length])
        {
            self.found = Some((characters, end, self.layer));
        }
        !last
    }
}

fn push_text(text: &[u8], end: usize, layer: u8, out: &mut Readings) {
    let mut bytes = [0; READING_BYTES_MAX];
    if let Some(place) = bytes.get_mut(..text.len()) {
        place.copy_from_slice(text);
        let length = text.len() as u8;
        let reading = Reading {
            end,
            bytes,
            length,
            style: false,
            layer,
        };
        push_unique(reading, out);
    }
}

fn push_char(code: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        let length = character.encode_utf8(&mut [0; 4]).len();
        let mut reading = Reading::from_byte(0, end).in_layer(layer);
        character.encode_utf8(&mut reading.bytes);
        reading.length = length as u8;
        push_unique(reading, out);
    }
}

fn push_style_char(code: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        let mut reading = Reading::from_byte(0, end).in_layer(layer);
        reading.length = character.encode_utf8(&mut reading.bytes).len() as u8;
        reading.style = true;
        push_unique(reading, out);
    }
}

fn push_byte(byte: u8, end: usize, layer: u8, out: &mut Readings) {
    push_unique(Reading::from_byte(byte, end).in_layer(layer), out);
}

/// The byte that two hexadecimal digits encode.
fn pair(high: u8, low: u8) -> Option<u8> {
    let (high, low) = digit(high).zip(digit(low))?;
    Some((high << 4 | low) as u8)
}

/// Adds both the raw byte and the character with that number: `%XX` may mean either.
fn push_byte_or_char(value: u32, end: usize, layer: u8, out: &mut Readings) {
    if let Ok(byte) = u8::try_from(value) {
        push_byte(byte, end, layer, out);
        if !byte.is_ascii() {
            push_char(value, end, layer, out);
        }
    }
}

/// Adds a reading unless it is present or too deep; an existing equal reading keeps the lower layer.
#[inline]
fn push_unique(reading: Reading, out: &mut Readings) {
    if reading.layer > DEPTH {
        return;
    }
    if let Some(other) = out.iter_mut().find(|other| other.reads_as(&reading)) {
        other.layer = other.layer.min(reading.layer);
    } else if out.len() < READINGS_MAX {
        out.push(reading);
    } else if let Some(deepest) = out.iter_mut().max_by_key(|other| other.layer)
        && reading.layer < deepest.layer
    {
        *deepest = reading;
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

/// What each byte means behind a backslash: 0 for nothing, or `SEVERAL` when that depends on what follows.
const AFTER_BACKSLASH: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        if introduces(byte) || matches!(byte, 0 | b'u' | b'U' | b'x') || byte.is_ascii_hexdigit() {
            table[at] = SEVERAL;
        } else if !byte.is_ascii_alphanumeric() {
            table[at] = byte;
        }
        at += 1;
    }
    let mut control = 0;
    while control < CONTROLS.len() {
        let at = CONTROLS[control].0 as usize;
        if table[at] != SEVERAL {
            table[at] = CONTROLS[control].1;
        }
        control += 1;
    }
    table
};
const SEVERAL: u8 = 0xFF;

/// HTML's entity names.
struct Names {
    /// By hash: one plus the index of an entity.
    slots: Vec<u16>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut slots = vec![0; Names::SLOTS];
    for (number, (name, _)) in (1..).zip(Names::all()) {
        let mut slot = Names::slot(Names::hash_of(name));
        while slots[slot] != 0 {
            slot = (slot + 1) % Names::SLOTS;
        }
        slots[slot] = number;
    }
    Names { slots }
});

impl Names {
    const SLOTS: usize = 1 << 13;

    /// Every name without `&`, with the semicolon where it has one, and its characters.
    fn all() -> impl Iterator<Item = (&'static [u8], &'static str)> {
        let name = |entity: &entities::Entity| (&entity.entity.as_bytes()[1..], entity.characters);
        entities::ENTITIES.iter().map(name)
    }

    /// The hash of a string with hash `before`, extended by `byte`.
    fn hash(before: u32, byte: u8) -> u32 {
        (before ^ u32::from(byte))
            .wrapping_mul(0x9E37_79B1)
            .rotate_left(7)
    }

    fn slot(hash: u32) -> usize {
        hash as usize % Self::SLOTS
    }

    /// The characters that the name stands for.
    fn of(&self, name: &[u8]) -> Option<&'static str> {
        self.get(Self::hash_of(name), name)
    }

    fn hash_of(name: &[u8]) -> u32 {
        name.iter().fold(0, |hash, byte| Self::hash(hash, *byte))
    }

    /// The same for a name with a known hash.
    fn get(&self, hash: u32, name: &[u8]) -> Option<&'static str> {
        let mut slot = Self::slot(hash);
        while let Some(number) = usize::from(self.slots[slot]).checked_sub(1) {
            let entity = &entities::ENTITIES[number];
            if &entity.entity.as_bytes()[1..] == name {
                return Some(entity.characters);
            }
            slot = (slot + 1) % Self::SLOTS;
        }
        None
    }
}

#[cfg(test)]
mod tests;
