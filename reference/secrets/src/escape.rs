//! Reads one character that is written as an escape sequence: percent, backslash, HTML entity, or one of them inside another.
//! Knows how writers write; knows nothing of secrets.
//!
//! An escape begins with an introducer (`%`, `\`, `&`), and each of its characters may itself be written as an escape:
//! `%25` is a percent sign, so `%252F` is a slash, and so is `&amp;#x2f;`. A place of a text therefore has several readings,
//! and none is preferred: `\u0041` is a backslash, or an `A`.
//!
//! Writers are nested in layers: what the first one wrote the second one writes once more, all of it or only what it has to, and
//! so up to [`DEPTH`]. Layer 0 is the text. The readings of layer n at a place are those of layer n - 1, and the escapes whose
//! characters are read in layer n - 1, each as deep as it happens to be. They are made when they are asked for, and kept, so that
//! an escape is parsed once in each layer, whatever other escapes it is a character of. A run of backslashes has a reading for
//! each of its lengths; these are counted, not kept.

use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::blocks::digit;

/// Escapes around a character, one inside another: JSON in JSON in JSON, and one more.
pub(crate) const DEPTH: u8 = 4;
/// Digits of a numeric escape: enough for any number of leading zeros that somebody writes.
const DIGITS_MAX: usize = 16;
/// Digits of an escape of style sheets.
const STYLE_DIGITS_MAX: usize = 6;
/// Letters of the longest name of an entity.
const NAME_MAX: usize = 32;
/// Letters of the shortest and the longest name that is known without its semicolon.
const OPEN_NAME: std::ops::RangeInclusive<usize> = 2..=6;
/// How many readings an escape usually has at the most, and how many are kept.
const USUAL: usize = 4;
const READINGS_MAX: usize = 48;
/// Ways in which the digits or the letters of one escape are read at the same time.
const WAYS_MAX: usize = 16;

/// Escapes that are parsed for one, those of its characters among them, each reading of such a character once: writers need half
/// as many, and text that wants more was made to have many readings.
const PARSES_MAX: u32 = 2 * 1024;
/// So many are parsed whatever was parsed before.
const PARSES_MIN: u32 = 2;
/// Of an escape without introducers in it so many suffice.
const PLAIN_PARSES_MAX: u32 = 8;
/// What one text affords: so many at first, and so many more for each of its bytes.
const PARSES_SAVED_MAX: u32 = 4 * 1024;
const PARSES_PER_BYTE: u32 = 2;
/// Readings that are kept before all are forgotten, and places that are kept apart.
const KEPT_MAX: usize = 16 * 1024;
const PLACES_MIN: usize = 64;
const PLACES_MAX: usize = 4 * 1024;

/// The readings of one escape.
pub(crate) type Readings = SmallVec<[Reading; USUAL]>;

/// One reading of an escape: what it says, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The byte behind the last one of the escape.
    pub end: usize,
    said: [u8; SAID_MAX],
    length: u8,
    /// It is written as style sheets write escapes: hexadecimal digits behind a backslash. People write these by hand, and a
    /// writer does not use them for the characters of its own escapes; so this reading is not used as a character of another
    /// escape. Otherwise `\134` (octal for a backslash, or U+0134 of a style sheet) would have twice as many readings in each layer.
    style: bool,
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
        Self::one(b' ', end)
    }

    fn one(byte: u8, end: usize) -> Self {
        let mut said = [0; SAID_MAX];
        said[0] = byte;
        Self {
            end,
            said,
            length: 1,
            style: false,
        }
    }

    /// The single byte that it says, when that is ASCII.
    pub fn ascii(&self) -> Option<u8> {
        match self.said() {
            [byte] if byte.is_ascii() => Some(*byte),
            _ => None,
        }
    }

    /// The character of another escape, or of a block, that it says.
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

/// The escapes of one text.
pub(crate) struct Escapes<'t> {
    text: &'t [u8],
    /// Whether anybody wants to know of backslashes that are said.
    backslashes: bool,
    /// What was read, layer by layer: by place, as far as that is not taken by another one.
    places: Vec<Place>,
    kept: Vec<Reading>,
    /// How many escapes may still be parsed for the one that is read, and in the text.
    left: u32,
    saved: u32,
    /// How many were.
    pub parsed: u64,
    /// Up to where the text was credited.
    credited: usize,
    /// Whether what was parsed met another introducer, so that it may read otherwise in the next layer.
    met: bool,
}

/// What is kept of one place of the text.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    /// Once they were made: the readings by what is read, and in which layer.
    made: [[Option<Kept>; DEPTH as usize]; MADE],
}

/// What is read at a place: an escape, of which layer 0 has none.
const ESCAPE: usize = 0;
/// What stands behind several backslashes that are one introducer.
const REST: usize = 1;
/// The same, its first character said by an escape. Each of the backslashes before it may be the first of them, so it is read once
/// for all.
const TURN: usize = 2;
const MADE: usize = 3;

/// Some of the readings that are kept.
#[derive(Clone, Copy)]
struct Kept {
    first: u32,
    count: u8,
}

impl Kept {
    fn range(self) -> std::ops::Range<usize> {
        let first = self.first as usize;
        first..first + usize::from(self.count)
    }
}

const NONE: Kept = Kept { first: 0, count: 0 };
const NOWHERE: Place = Place {
    at: usize::MAX,
    made: [[None; DEPTH as usize]; MADE],
};
const _: () = assert!(READINGS_MAX <= u8::MAX as usize);

/// The escape that is parsed: what introduced it, and in which layer its other characters are read.
#[derive(Clone, Copy)]
struct Inside {
    introducer: u8,
    /// The introducer stands as it is. Who writes escapes of a kind writes its introducer so as well, so in this one no character
    /// is written in that way.
    plain: bool,
    layer: u8,
}

/// Behind several backslashes that are one introducer.
const BEHIND_SEVERAL: Inside = Inside {
    introducer: b'\\',
    plain: false,
    layer: 0,
};

impl Inside {
    fn in_layer(self, layer: u8) -> Self {
        Self { layer, ..self }
    }
}

/// A number that digits say, and where these end.
type Ways = SmallVec<[(u32, usize); USUAL]>;

impl<'t> Escapes<'t> {
    /// `backslashes`: whether to tell of them where they are said by several of their own.
    pub fn new(text: &'t [u8], backslashes: bool) -> Self {
        Self {
            text,
            backslashes,
            places: Vec::new(),
            kept: Vec::new(),
            left: 0,
            saved: PARSES_SAVED_MAX,
            parsed: 0,
            credited: 0,
            met: false,
        }
    }

    /// Adds to `out`, which is empty, the readings of the escape that begins at `at`: every one that the text affords.
    /// Places are read from left to right.
    pub fn read(&mut self, at: usize, out: &mut Readings) {
        if self.read_usual(at, out) {
            return;
        }
        let more = ((at - self.credited) as u64).saturating_mul(u64::from(PARSES_PER_BYTE));
        self.saved = (u64::from(self.saved) + more).min(u64::from(PARSES_SAVED_MAX)) as u32;
        self.credited = at;
        let is_plain = self.read_plain(at, out);
        self.saved = self.saved.saturating_sub(PLAIN_PARSES_MAX - self.left);
        if is_plain {
            if self.backslashes && self.text[at] == b'\\' {
                self.say_backslashes(at, out);
            }
            return;
        }
        out.clear();
        if self.kept.len() > KEPT_MAX {
            self.kept.clear();
            self.places.fill(NOWHERE);
        }
        let allowed = self.saved.clamp(PARSES_MIN, PARSES_MAX);
        self.left = allowed;
        let kept = self.layer(at, DEPTH);
        self.saved = self.saved.saturating_sub(allowed - self.left);
        out.extend(kept.range().map(|index| self.kept[index]));
        if self.backslashes && self.text[at] == b'\\' {
            self.say_backslashes(at, out);
        }
    }

    /// Adds the readings of the commonest escapes, which are as [`layer`](Self::layer) gives them: some backslashes before what
    /// says nothing more than one thing behind them, a percent sign before two digits that say no introducer, or that say a percent
    /// sign before two such digits. False for every other.
    #[inline]
    fn read_usual(&self, at: usize, out: &mut Readings) -> bool {
        match self.text[at..] {
            [b'%', high, low, ..] => {
                let Some(byte) = pair(high, low) else {
                    return false;
                };
                let (mut byte, mut end) = (byte, at + 3);
                if byte == b'%' {
                    // Escaped once more.
                    let rest = self.text[end..].first_chunk();
                    let Some(inner) = rest.and_then(|[high, low]| pair(*high, *low)) else {
                        return false;
                    };
                    out.push(Reading::one(byte, end));
                    (byte, end) = (inner, end + 2);
                }
                if introduces(byte) {
                    out.clear();
                    return false;
                }
                out.push(Reading::one(byte, end));
                if !byte.is_ascii() {
                    say_char(u32::from(byte), end, out);
                }
                true
            }
            [b'\\', ..] => {
                let count = self.run(at);
                let Some(&byte) = self.text.get(at + count) else {
                    return false;
                };
                let says = BEHIND_BACKSLASH[usize::from(byte)];
                if says == SEVERAL {
                    return false;
                }
                // In each layer one of its own, and as many again as there were.
                if says != 0 && count < 1 << DEPTH {
                    out.push(Reading::one(says, at + count + 1));
                }
                if self.backslashes && count > 1 {
                    self.say_backslashes(at, out);
                }
                true
            }
            _ => false,
        }
    }

    /// Adds the readings of an escape of which no character is an introducer, nor behind it one: they are the same in every layer.
    /// False when one is.
    fn read_plain(&mut self, at: usize, out: &mut Readings) -> bool {
        let introducer = self.text[at];
        let run = match introducer {
            b'\\' => self.run(at),
            _ => 1,
        };
        (self.met, self.left) = (false, PLAIN_PARSES_MAX);
        if run > 1 << (DEPTH - 1) || run > 1 && self.plain(at + run).is_none() {
            return false;
        }
        let inside = |introducer, plain| Inside {
            introducer,
            plain,
            layer: 0,
        };
        self.parse(inside(introducer, run == 1), at + run, out);
        // What fewer of the backslashes and such an escape behind them say must be the same.
        let same = |byte: u8| BEHIND_BACKSLASH[usize::from(byte)] == byte;
        if run > 1 && !out.iter().filter_map(Reading::character).all(same) {
            return false;
        }
        let (mut next, mut layers) = (0, 1);
        while !self.met && next < out.len() {
            // Those that are one layer deeper than those before.
            let end = out.len();
            for index in next..end {
                let outer = out[index];
                if let Some(introducer) = outer.character().filter(|byte| introduces(*byte)) {
                    if layers == DEPTH {
                        return false;
                    }
                    self.parse(inside(introducer, false), outer.end, out);
                }
            }
            (next, layers) = (end, layers + 1);
        }
        !self.met && self.left > 0
    }

    /// How many backslashes stand at `at`; one more than the longest escape of one has, when there are more.
    fn run(&self, at: usize) -> usize {
        let most = self.text.len().min(at + (1 << DEPTH) + 1);
        let run = self.text[at..most].iter();
        run.take_while(|byte| **byte == b'\\').count()
    }

    /// Adds the readings of the backslashes at `at` as one: two of them, or in each layer as many again.
    fn say_backslashes(&self, at: usize, out: &mut Readings) {
        for count in 2..=self.run(at).min(1 << DEPTH) {
            out.push(Reading::one(b'\\', at + count));
        }
    }

    /// The readings of the escape at `at` in a layer, but backslashes that are said by several of their own.
    fn layer(&mut self, at: usize, layer: u8) -> Kept {
        let Some(above) = layer.checked_sub(1).map(usize::from) else {
            return NONE;
        };
        if !self.text.get(at).copied().is_some_and(introduces) {
            return NONE;
        }
        if let Some(kept) = self.made(at, ESCAPE, above) {
            return kept;
        }
        // The text affords no more.
        if self.left == 0 {
            return NONE;
        }
        let before = self.layer(at, layer - 1);
        let mut out: Readings = before.range().map(|index| self.kept[index]).collect();
        self.met = false;
        self.parse_plain(at, layer - 1, &mut out);
        let mut met = self.met;
        // An escape that says an introducer may be the beginning of another one.
        for index in before.range() {
            let outer = self.kept[index];
            if let Some(introducer) = outer.character().filter(|byte| introduces(*byte)) {
                met = true;
                let inside = Inside {
                    introducer,
                    plain: false,
                    layer: layer - 1,
                };
                self.parse(inside, outer.end, &mut out);
            }
        }
        // Of characters that all stand as they are, and no introducer: it is the same in every layer.
        let introducer = |reading: &Reading| reading.character().is_some_and(introduces);
        let last = match layer == 1 && !met && !out.iter().any(introducer) {
            true => usize::from(DEPTH) - 1,
            false => above,
        };
        self.keep(at, ESCAPE, above..=last, &out)
    }

    /// What was made of a place.
    fn made(&mut self, at: usize, what: usize, layer: usize) -> Option<Kept> {
        let place = self.place(at);
        if place.at != at {
            *place = Place { at, ..NOWHERE };
        }
        place.made[what][layer]
    }

    /// Keeps what was made of a place, for some layers.
    fn keep(
        &mut self,
        at: usize,
        what: usize,
        layers: std::ops::RangeInclusive<usize>,
        readings: &Readings,
    ) -> Kept {
        let kept = Kept {
            first: self.kept.len() as u32,
            count: readings.len() as u8,
        };
        self.kept.extend(readings.iter().copied());
        let slot = at % self.places.len();
        let place = &mut self.places[slot];
        // Another place may have taken it meanwhile; and readings that were cut short are some of those that there are.
        if place.at == at && self.left > 0 {
            place.made[what][layers].fill(Some(kept));
        }
        kept
    }

    /// What is kept of a place, or of another one that it takes the place of.
    fn place(&mut self, at: usize) -> &mut Place {
        loop {
            let count = self.places.len().max(PLACES_MIN);
            let there = self.places.get(at % count);
            // What lies before the escape that is read is of no use any more.
            let taken = |place: &Place| {
                place.at != at && place.at != usize::MAX && place.at >= self.credited
            };
            match there {
                Some(place) if count == PLACES_MAX || !taken(place) => break,
                None => self.places = vec![NOWHERE; count],
                Some(_) => {
                    let mut more = vec![NOWHERE; count * 2];
                    for place in self.places.iter().filter(|place| place.at != usize::MAX) {
                        more[place.at % (count * 2)] = *place;
                    }
                    self.places = more;
                }
            }
        }
        let slot = at % self.places.len();
        &mut self.places[slot]
    }

    /// Parses the escape whose introducer stands at `at` as it is, and of a run of backslashes those that can be one introducer.
    fn parse_plain(&mut self, at: usize, layer: u8, out: &mut Readings) {
        let introducer = self.text[at];
        let inside = |plain| Inside {
            introducer,
            plain,
            layer,
        };
        if introducer != b'\\' {
            return self.parse(inside(true), at + 1, out);
        }
        let (run, most) = (self.run(at), 1 << layer);
        self.met |= run > 1;
        if run == 1 {
            return self.parse(inside(true), at + run, out);
        }
        if run <= most {
            let rest = self.rest(at + run, layer);
            self.add_kept(rest, out);
        }
        // Or they are fewer, and an escape that begins with the others says the next character.
        for count in 2..run.min(most + 1) {
            let turn = self.turn(at + count, layer);
            self.add_kept(turn, out);
        }
    }

    fn add_kept(&self, kept: Kept, out: &mut Readings) {
        for index in kept.range() {
            add(self.kept[index], out);
        }
    }

    /// The readings of what stands at `at`, behind several backslashes that are one introducer.
    fn rest(&mut self, at: usize, layer: u8) -> Kept {
        if let Some(kept) = self.made(at, REST, usize::from(layer)) {
            return kept;
        }
        let mut out = Readings::new();
        self.parse(BEHIND_SEVERAL.in_layer(layer), at, &mut out);
        self.keep(at, REST, usize::from(layer)..=usize::from(layer), &out)
    }

    /// The same, when an escape at `at` says the first character.
    fn turn(&mut self, at: usize, layer: u8) -> Kept {
        if let Some(kept) = self.made(at, TURN, usize::from(layer)) {
            return kept;
        }
        let mut out = Readings::new();
        for index in self.layer(at, layer).range() {
            let reading = self.kept[index];
            if let Some(byte) = reading.character()
                && self.affords()
            {
                let inside = BEHIND_SEVERAL.in_layer(layer);
                self.behind_backslash(inside, byte, reading.end, &mut out);
            }
        }
        self.keep(at, TURN, usize::from(layer)..=usize::from(layer), &out)
    }

    /// Whether one more escape may be parsed, which it then is.
    fn affords(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.parsed += 1;
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn parse(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        if !self.affords() {
            return;
        }
        match inside.introducer {
            b'%' => self.percent(inside, at, out),
            b'\\' => self.backslash(inside, at, out),
            _ => self.entity(inside, at, out),
        }
    }

    /// The character at `at` and the byte behind it: as it stands unless it introduces an escape, which must then say ASCII.
    #[inline]
    fn characters(&mut self, inside: Inside, at: usize) -> SmallVec<[(u8, usize); USUAL]> {
        let mut found = SmallVec::new();
        match self.text.get(at) {
            None => {}
            Some(&byte) if !introduces(byte) => found.push((byte, at + 1)),
            Some(&byte) if inside.plain && byte == inside.introducer => {}
            Some(_) => {
                let wanted = |byte: &u8| match byte {
                    b' ' | b'\t' | b'\n' | b'+' => inside.introducer == b'\\',
                    byte => byte.is_ascii_alphanumeric() || b"#;{}".contains(byte),
                };
                // Most say nothing that goes on with an escape, in no layer.
                let mut usual = Readings::new();
                if self.read_usual(at, &mut usual)
                    && !usual
                        .iter()
                        .filter_map(Reading::character)
                        .any(|byte| wanted(&byte))
                {
                    return found;
                }
                for index in self.layer(at, inside.layer).range() {
                    let reading = self.kept[index];
                    if let Some(byte) = reading.character().filter(wanted)
                        && found.len() < WAYS_MAX
                        && !found.contains(&(byte, reading.end))
                    {
                        found.push((byte, reading.end));
                    }
                }
                self.met = true;
            }
        }
        found
    }

    /// Where the character `byte` may end that stands at `at`.
    fn ends(&mut self, inside: Inside, at: usize, byte: u8) -> SmallVec<[usize; USUAL]> {
        if self.plain(at).is_some_and(|plain| plain != byte) {
            return SmallVec::new();
        }
        let found = self.characters(inside, at).into_iter();
        found
            .filter(|(found, _)| *found == byte)
            .map(|(_, end)| end)
            .collect()
    }

    /// The numbers of `least` to `most` digits at `at`, the longest first. Each is as long as it can be; but where another digit is
    /// written as an escape, that may as well be a character of its own.
    fn digits(&mut self, inside: Inside, at: usize, radix: u32, least: usize, most: usize) -> Ways {
        self.more_digits(inside, (0, at), radix, least, most)
    }

    /// [`digits`](Self::digits) behind those that say the number `begun`.
    fn more_digits(
        &mut self,
        inside: Inside,
        begun: (u32, usize),
        radix: u32,
        least: usize,
        most: usize,
    ) -> Ways {
        let (mut value, mut end) = begun;
        let (mut found, mut open) = (Ways::new(), Ways::new());
        let mut count = 0;
        // Most stand as they are.
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
                found.push((value, end));
            }
            return found;
        }
        open.push((value, end));
        for count in count..=most {
            let mut longer = Ways::new();
            for &(value, at) in &open {
                let with = |byte: u8| {
                    let digit = char::from(byte).to_digit(radix)?;
                    Some(value.saturating_mul(radix).saturating_add(digit))
                };
                let (before, plain) = (longer.len(), self.plain(at));
                if count < most {
                    match plain {
                        Some(byte) => longer.extend(with(byte).map(|value| (value, at + 1))),
                        None => {
                            for (byte, end) in self.characters(inside, at) {
                                longer.extend(with(byte).map(|value| (value, end)));
                            }
                        }
                    }
                }
                if count >= least && (longer.len() == before || plain.is_none()) {
                    found.push((value, at));
                }
            }
            longer.truncate(WAYS_MAX);
            open = longer;
            if open.is_empty() {
                break;
            }
        }
        // The longest first.
        found.reverse();
        found
    }

    /// The character at `at` that stands there as it is, and introduces no escape.
    #[inline]
    fn plain(&self, at: usize) -> Option<u8> {
        let byte = self.text.get(at).copied();
        byte.filter(|byte| !introduces(*byte))
    }

    fn percent(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        for (value, end) in self.digits(inside, at, 16, 2, 2) {
            say_byte(value, end, out);
        }
        for (byte, end) in self.characters(inside, at) {
            if matches!(byte, b'u' | b'U') {
                self.utf16(inside, end, out);
            }
        }
    }

    /// `XXXX`, and the second half of a pair when it is the first.
    fn utf16(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        for (first, end) in self.digits(inside, at, 16, 4, 4) {
            if !(0xD800..0xDC00).contains(&first) {
                say_char(first, end, out);
                continue;
            }
            for letter in self.introducers(inside, end) {
                for digits in self.ends(inside, letter, b'u') {
                    for (second, end) in self.digits(inside, digits, 16, 4, 4) {
                        if (0xDC00..0xE000).contains(&second) {
                            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                            say_char(code, end, out);
                        }
                    }
                }
            }
        }
    }

    /// Where one more introducer like that of the escape ends that stands at `at`.
    fn introducers(&mut self, inside: Inside, at: usize) -> SmallVec<[usize; USUAL]> {
        let mut ends = SmallVec::new();
        match self.text.get(at) {
            Some(b'\\') if inside.introducer == b'\\' => {
                let most = self.run(at).min(1 << inside.layer);
                ends.extend((1..=most).map(|count| at + count));
            }
            Some(byte) if *byte == inside.introducer => ends.push(at + 1),
            _ => {}
        }
        for index in self.layer(at, inside.layer).range() {
            let reading = self.kept[index];
            if reading.character() == Some(inside.introducer) {
                ends.push(reading.end);
            }
        }
        self.met = true;
        ends
    }

    fn backslash(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        let Some(&next) = self.text.get(at) else {
            return;
        };
        if !introduces(next) {
            return self.behind_backslash(inside, next, at + 1, out);
        }
        match next {
            b'\\' => {
                for count in 1..=self.run(at).min(1 << inside.layer) {
                    say_one(b'\\', at + count, out);
                }
            }
            other => say_one(other, at + 1, out),
        }
        for index in self.layer(at, inside.layer).range() {
            let reading = self.kept[index];
            if let Some(byte) = reading.character()
                && self.affords()
            {
                self.behind_backslash(inside, byte, reading.end, out);
            }
        }
        self.met = true;
    }

    /// The rest of an escape whose first character behind the backslash is `byte` and ends at `end`.
    fn behind_backslash(&mut self, inside: Inside, byte: u8, end: usize, out: &mut Readings) {
        match byte {
            b'u' | b'x' | b'U' => {
                for (brace, open) in self.characters(inside, end) {
                    if brace == b'{' {
                        for (value, close) in self.digits(inside, open, 16, 1, DIGITS_MAX) {
                            for end in self.ends(inside, close, b'}') {
                                say_char(value, end, out);
                            }
                        }
                    }
                }
                match byte {
                    b'u' => self.utf16(inside, end, out),
                    b'x' => {
                        for (value, end) in self.digits(inside, end, 16, 2, 2) {
                            say_byte(value, end, out);
                        }
                    }
                    _ => {
                        for (value, end) in self.digits(inside, end, 16, 8, 8) {
                            say_char(value, end, out);
                        }
                    }
                }
                return;
            }
            byte if introduces(byte) || byte == 0 => return say_one(byte, end, out),
            _ => {}
        }
        if let Some((_, says)) = CONTROLS.iter().find(|(letter, _)| *letter == byte) {
            say_one(*says, end, out);
        } else if byte.is_ascii() && !byte.is_ascii_alphanumeric() {
            say_one(byte, end, out);
        }
        let Some(first) = digit(byte) else {
            return;
        };
        if first < 8 {
            for (value, end) in self.more_digits(inside, (first, end), 8, 0, 2) {
                say_byte(value, end, out);
            }
        }
        let most = STYLE_DIGITS_MAX - 1;
        for (value, end) in self.more_digits(inside, (first, end), 16, 0, most) {
            say_style(value, end, out);
            // A blank is put behind it, so that no digit goes on with it; a URL may write that as another character.
            let blank = |(byte, _): &(u8, usize)| b" \t\n+".contains(byte);
            for (_, end) in self.characters(inside, end).into_iter().filter(blank) {
                say_style(value, end, out);
            }
        }
    }

    fn entity(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        for (first, next) in self.characters(inside, at) {
            if first != b'#' {
                continue;
            }
            let mut values = self.digits(inside, next, 10, 1, DIGITS_MAX);
            for (letter, digits) in self.characters(inside, next) {
                if matches!(letter, b'x' | b'X') {
                    values.extend(self.digits(inside, digits, 16, 1, DIGITS_MAX));
                }
            }
            for (value, end) in values {
                let behind = self.ends(inside, end, b';');
                for end in behind.iter().copied() {
                    say_char(value, end, out);
                }
                let digit = |(byte, _): &(u8, usize)| byte.is_ascii_hexdigit();
                if behind.is_empty() && !self.characters(inside, end).iter().any(digit) {
                    say_char(value, end, out);
                }
            }
        }
        if self.plain(at) != Some(b'#') {
            self.name(inside, at, out);
        }
    }

    /// Some names are known without a semicolon too; the longest one counts.
    fn name(&mut self, inside: Inside, at: usize, out: &mut Readings) {
        let mut ways: SmallVec<[Name; 1]> = SmallVec::new();
        ways.push(Name::at(at));
        let mut next = 0;
        while let Some(mut name) = ways.get(next).copied() {
            next += 1;
            loop {
                let (byte, end) = match self.plain(name.end) {
                    Some(byte) => (byte, name.end + 1),
                    None => {
                        let characters = self.characters(inside, name.end);
                        for (byte, end) in characters.iter().skip(1) {
                            let mut other = name;
                            if !other.goes_on(*byte, *end) {
                                other.say(out);
                            } else if ways.len() < WAYS_MAX {
                                ways.push(other);
                            }
                        }
                        match characters.first() {
                            Some(first) => *first,
                            None => break,
                        }
                    }
                };
                if !name.goes_on(byte, end) {
                    break;
                }
            }
            name.say(out);
        }
    }
}

/// The letters of a name that were read.
#[derive(Clone, Copy)]
struct Name {
    letters: [u8; NAME_MAX],
    length: usize,
    hash: u32,
    end: usize,
    /// What the longest known one says, and where it ends.
    found: Option<(&'static str, usize)>,
}

impl Name {
    fn at(at: usize) -> Self {
        Self {
            letters: [0; NAME_MAX],
            length: 0,
            hash: 0,
            end: at,
            found: None,
        }
    }

    /// Adds what was found.
    fn say(&self, out: &mut Readings) {
        if let Some((characters, end)) = self.found {
            say(characters.as_bytes(), end, false, out);
        }
    }

    /// Takes one more letter, which ends at `end`; false when the name ends before it or with it.
    fn goes_on(&mut self, byte: u8, end: usize) -> bool {
        let last = byte == b';';
        if self.length == NAME_MAX || !(last || byte.is_ascii_alphanumeric()) {
            return false;
        }
        self.letters[self.length] = byte;
        (self.length, self.end) = (self.length + 1, end);
        self.hash = Names::hash(self.hash, byte);
        if (last || OPEN_NAME.contains(&self.length))
            && let Some(characters) = NAMES.get(self.hash, &self.letters[..self.length])
        {
            self.found = Some((characters, end));
        }
        !last
    }
}

fn say(text: &[u8], end: usize, style: bool, out: &mut Readings) {
    let mut said = [0; SAID_MAX];
    if let Some(place) = said.get_mut(..text.len()) {
        place.copy_from_slice(text);
        let length = text.len() as u8;
        add(
            Reading {
                end,
                said,
                length,
                style,
            },
            out,
        );
    }
}

fn say_char(code: u32, end: usize, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        say(
            character.encode_utf8(&mut [0; 4]).as_bytes(),
            end,
            false,
            out,
        );
    }
}

fn say_style(code: u32, end: usize, out: &mut Readings) {
    if let Some(character) = char::from_u32(code) {
        say(
            character.encode_utf8(&mut [0; 4]).as_bytes(),
            end,
            true,
            out,
        );
    }
}

fn say_one(byte: u8, end: usize, out: &mut Readings) {
    add(Reading::one(byte, end), out);
}

/// The byte that two hexadecimal digits say.
fn pair(high: u8, low: u8) -> Option<u8> {
    let (high, low) = digit(high).zip(digit(low))?;
    Some((high << 4 | low) as u8)
}

/// A byte as it is, and the character of that number: both are written so.
fn say_byte(value: u32, end: usize, out: &mut Readings) {
    if let Ok(byte) = u8::try_from(value) {
        say_one(byte, end, out);
        if !byte.is_ascii() {
            say_char(value, end, out);
        }
    }
}

#[inline]
fn add(reading: Reading, out: &mut Readings) {
    if out.len() < READINGS_MAX && !out.contains(&reading) {
        out.push(reading);
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

/// HTML's names.
struct Names {
    /// By hash: the number of an entity, and one more.
    slots: Vec<u16>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut slots = vec![0; Names::SLOTS];
    for (number, (name, _)) in (1..).zip(Names::all()) {
        let mut slot = Names::slot(name.iter().fold(0, |hash, byte| Names::hash(hash, *byte)));
        while slots[slot] != 0 {
            slot = (slot + 1) % Names::SLOTS;
        }
        slots[slot] = number;
    }
    Names { slots }
});

impl Names {
    const SLOTS: usize = 1 << 13;

    /// Every name without `&`, with the semicolon where it has one, and what it says.
    fn all() -> impl Iterator<Item = (&'static [u8], &'static str)> {
        let name = |entity: &entities::Entity| (&entity.entity.as_bytes()[1..], entity.characters);
        entities::ENTITIES.iter().map(name)
    }

    /// The hash of what has the hash `before`, and `byte` behind it.
    fn hash(before: u32, byte: u8) -> u32 {
        (before ^ u32::from(byte))
            .wrapping_mul(0x9E37_79B1)
            .rotate_left(7)
    }

    fn slot(hash: u32) -> usize {
        hash as usize % Self::SLOTS
    }

    /// What the name says that has this hash.
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
