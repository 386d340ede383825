//! The forms of escapes behind their introducer: percent, backslash and entity, in each layer.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::names::{NAMES, Names};
use super::reading::{
    Reading, Readings, USUAL, push_byte, push_byte_or_char, push_char, push_style_char, push_text,
};
use super::{DEPTH, Escapes, NAME_MAX, OPEN_NAME_LETTERS, introduces};
use crate::blocks::digit;

/// Maximum digits of a numeric escape: enough for any number of leading zeros that occurs in practice.
const DIGITS_MAX: usize = 16;
/// Maximum digits of a style sheet escape.
const STYLE_DIGITS_MAX: usize = 6;
/// Characters that may end a style sheet escape and belong to it.
const STYLE_ENDS: &[u8] = b" \t\n\r\x0c+";
/// Maximum alternative readings of the digits or the letters of one escape that are followed in parallel.
const ALTERNATIVES_MAX: usize = 16;

/// Context of the escape being parsed: its introducer, and the layer in which that is read.
#[derive(Clone, Copy)]
pub(super) struct EscapeContext {
    pub(super) introducer: u8,
    /// Where the introducer begins in the text.
    pub(super) start: usize,
    /// The introducer is written literally. A writer escapes every introducer of its kind, so inside this escape no character is
    /// itself written with that introducer.
    pub(super) plain: bool,
    pub(super) layer: u8,
}

/// Context behind several backslashes that form one introducer. Their layer depends on how many there are.
pub(super) const AFTER_SEVERAL: EscapeContext = EscapeContext {
    introducer: b'\\',
    // Only entities ask for it.
    start: 0,
    plain: false,
    layer: 0,
};

/// A character of an escape: its byte, where it ends, and the layer in which it is read.
pub(super) type Character = (u8, usize, u8);

/// Alternative numbers that digits form: the value, where it ends, and the deepest layer of its digits.
type Alternatives = SmallVec<[(u32, usize, u8); USUAL]>;

/// The layer in which `count` backslashes are one.
pub(super) fn layer_of(count: usize) -> u8 {
    count.next_power_of_two().ilog2() as u8
}

impl Escapes<'_> {
    pub(super) fn parse(&mut self, inside: EscapeContext, at: usize, out: &mut Readings) {
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
    pub(super) fn characters(
        &mut self,
        inside: EscapeContext,
        at: usize,
    ) -> SmallVec<[Character; USUAL]> {
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
    pub(super) fn is_known(&mut self, at: usize, wanted: &dyn Fn(&u8) -> bool) -> bool {
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
    pub(super) fn plain(&self, at: usize) -> Option<u8> {
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

    /// The rest of an escape, given its first character behind the backslash.
    pub(super) fn after_backslash(
        &mut self,
        inside: EscapeContext,
        first: Character,
        out: &mut Readings,
    ) {
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
pub(super) struct EntityName {
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
pub(super) const AFTER_BACKSLASH: [u8; 256] = {
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
pub(super) const SEVERAL: u8 = 0xFF;
