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

mod forms;
mod names;
mod reading;
mod usual;

use std::ops::{Range, RangeInclusive};

use crate::watch::Watch;
use forms::{AFTER_BACKSLASH, AFTER_SEVERAL, EscapeContext, layer_of};
use reading::push_unique;
pub(crate) use reading::{Reading, Readings};

/// Maximum nesting depth of escapes around a character: JSON in JSON in JSON, and one more.
pub(crate) const DEPTH: u8 = 4;
/// Letters of the longest entity name.
const NAME_MAX: usize = 32;
/// Letters of the shortest and the longest entity name that is valid without its semicolon.
const OPEN_NAME_LETTERS: RangeInclusive<usize> = 2..=6;

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

    fn known_range(&self, at: usize) -> Range<usize> {
        let place = at.checked_sub(self.known.start);
        let place = place.and_then(|place| self.places.get(place));
        place.map_or(0..0, |place| place.escapes.range())
    }
}

#[cfg(test)]
mod tests;
