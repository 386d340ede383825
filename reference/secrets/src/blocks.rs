//! Text in which every byte is written by several characters: base64 in both alphabets, hexadecimal. Finds such runs, decodes
//! them in every alignment, and tells where in the text a decoded byte is written. Knows nothing of secrets.

use std::ops::Range;

/// Characters of a line that goes on in the next one: who wraps base64 does so at 64 or 76.
pub(crate) const WRAP_CHARS_MIN: usize = 32;
/// What may stand between the pairs of digits of a dump, and before each.
const SEPARATORS: &[u8] = b":-,. _|";
/// Most bytes of it.
const SEPARATOR_BYTES_MAX: usize = 4;

/// By byte: its value as a character of base64 in either alphabet, or `NONE`.
const SEXTETS: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};
const NONE: u8 = 0xFF;

/// True for a character of base64.
pub(crate) fn is_sextet(byte: u8) -> bool {
    SEXTETS[usize::from(byte)] != NONE
}

/// Characters of a run, and where they stand.
pub(crate) struct Run {
    chars: Vec<u8>,
    /// From which character on, and where that stands; the others of its line follow.
    places: Vec<(usize, usize)>,
    /// The byte behind the last character.
    pub end: usize,
}

/// A decoded piece of a run.
pub(crate) struct Decoded {
    pub bytes: Vec<u8>,
    /// The character at which it begins, and how many bits each character holds.
    first: usize,
    bits: usize,
}

/// Tells `found` the first character of every run of plain characters that is worth a look, in order; it answers with where to
/// go on. `chars` is the least length of a run that matters.
pub(crate) fn scan(text: &[u8], chars: usize, mut found: impl FnMut(usize) -> usize) {
    // A run of that length covers a whole window wherever it begins.
    let window = if chars >= 15 { 8 } else { 4 };
    let mut at = 0;
    while let Some(piece) = text.get(at..at + window) {
        // The likeliest to differ first: words are short.
        if is_sextet(piece[window - 1]) && piece.iter().all(|byte| is_sextet(*byte)) {
            let next = found(start(text, at));
            at = next.max(at + window) / window * window;
        } else {
            at += window;
        }
    }
}

/// Where the plain characters begin that end before `at`.
pub(crate) fn start(text: &[u8], at: usize) -> usize {
    let plain = text[..at].iter().rev().take_while(|byte| is_sextet(**byte));
    at - plain.count()
}

impl Run {
    /// The run that begins at `from`, over line ends behind long lines.
    pub fn read(text: &[u8], from: usize) -> Self {
        let mut run = Self {
            chars: Vec::new(),
            places: Vec::new(),
            end: from,
        };
        loop {
            let plain = text[run.end..]
                .iter()
                .take_while(|byte| is_sextet(**byte))
                .count();
            run.places.push((run.chars.len(), run.end));
            run.chars.extend_from_slice(&text[run.end..run.end + plain]);
            run.end += plain;
            let next = line_end(text, run.end).filter(|_| plain >= WRAP_CHARS_MIN);
            match next.filter(|next| text.get(*next).copied().is_some_and(is_sextet)) {
                Some(next) => run.end = next,
                None => return run,
            }
        }
    }

    /// How many characters there are.
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// The run as base64, in each of the four alignments.
    pub fn base64(&self) -> impl Iterator<Item = Decoded> {
        (0..4).map(|first| {
            let chars = &self.chars[first.min(self.chars.len())..];
            let mut bytes = Vec::with_capacity(chars.len() * 3 / 4 + 3);
            for group in chars.chunks(4) {
                let sextet = |at: usize| {
                    let byte = group.get(at).map_or(0, |byte| SEXTETS[usize::from(*byte)]);
                    u32::from(byte)
                };
                let bits = sextet(0) << 18 | sextet(1) << 12 | sextet(2) << 6 | sextet(3);
                let whole = group.len() * 6 / 8;
                bytes.extend_from_slice(&bits.to_be_bytes()[1..=whole]);
            }
            Decoded {
                bytes,
                first,
                bits: 6,
            }
        })
    }

    /// Its pieces of at least `least` bytes that are hexadecimal, in both alignments.
    pub fn hexadecimal(&self, least: usize) -> Vec<Decoded> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < self.chars.len() {
            let digits = self.chars[at..]
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            if digits >= least * 2 {
                for first in [at, at + 1] {
                    let pairs = self.chars[first..at + digits].chunks_exact(2);
                    pieces.push(Decoded {
                        bytes: pairs.map(|pair| hex_byte(pair[0], pair[1])).collect(),
                        first,
                        bits: 4,
                    });
                }
            }
            at += digits + 1;
        }
        pieces
    }

    /// Where in `text` the bytes `range` of a decoded piece are written, with the padding behind the last one.
    pub fn place(&self, text: &[u8], decoded: &Decoded, range: Range<usize>) -> Range<usize> {
        let first = decoded.first + range.start * 8 / decoded.bits;
        let last = decoded.first + (range.end * 8).div_ceil(decoded.bits) - 1;
        let mut end = self.at(last) + 1;
        if decoded.bits == 6 && last + 1 == self.chars.len() {
            let padding = text[end..].iter().take(2).take_while(|byte| **byte == b'=');
            end += padding.count();
        }
        self.at(first)..end
    }

    /// Where a character stands.
    fn at(&self, char: usize) -> usize {
        let line = self.places.partition_point(|(first, _)| *first <= char) - 1;
        let (first, start) = self.places[line];
        start + (char - first)
    }
}

/// A text with the escapes resolved that say characters of blocks.
pub(crate) struct View {
    /// The text to look for blocks in.
    pub text: Vec<u8>,
    /// From which byte on, where that stands in the original, and how many bytes it takes; those that follow take one each.
    places: Vec<(usize, usize, usize)>,
}

impl View {
    /// `escapes`: where each begins and ends, and what it says; in order and apart.
    pub fn new(original: &[u8], escapes: &[(usize, usize, u8)]) -> Self {
        let mut view = Self {
            text: Vec::with_capacity(original.len()),
            places: vec![(0, 0, 1)],
        };
        let mut done = 0;
        for &(start, end, byte) in escapes {
            view.text.extend_from_slice(&original[done..start]);
            view.places.push((view.text.len(), start, end - start));
            view.text.push(byte);
            view.places.push((view.text.len(), end, 1));
            done = end;
        }
        view.text.extend_from_slice(&original[done..]);
        view
    }

    /// Where in the original a range of the text is written.
    pub fn original(&self, range: Range<usize>) -> Range<usize> {
        self.span(range.start).start..self.span(range.end - 1).end
    }

    fn span(&self, byte: usize) -> Range<usize> {
        let at = self.places.partition_point(|(first, ..)| *first <= byte) - 1;
        let (first, start, width) = self.places[at];
        let start = start + (byte - first);
        start..start + width
    }
}

/// True for a byte that goes on with the block that `before` may end with: its characters, and where there are some its
/// padding, a line end, what separates pairs. `joined`: so many escapes stand before it that the text does not tell.
pub(crate) fn belongs(before: &[u8], byte: u8, joined: bool) -> bool {
    let after = |fits: fn(u8) -> bool, count: usize| {
        let last = before.len().checked_sub(count).map(|from| &before[from..]);
        last.is_some_and(|last| last.iter().all(|byte| fits(*byte)))
    };
    match byte {
        byte if is_sextet(byte) => true,
        b'=' | b'\r' | b'\n' => joined || after(|byte| is_sextet(byte) || byte == b'\r', 1),
        byte => SEPARATORS.contains(&byte) && (joined || after(|byte| byte.is_ascii_hexdigit(), 2)),
    }
}

/// Behind a line end, `\n` or `\r\n`.
fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)? {
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\n', ..] => Some(at + 1),
        _ => None,
    }
}

fn hex_byte(high: u8, low: u8) -> u8 {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    digit(high) << 4 | digit(low)
}

/// Pairs of digits with something between them, such as `63:61:6E` or `0x63, 0x61`: the bytes, and where each is written.
/// Tells `found` every such run of at least `least` bytes.
pub(crate) fn dumps(text: &[u8], least: usize, mut found: impl FnMut(&[u8], &[usize])) {
    // A run of that length covers a pair in one of any two places so far apart.
    let stride = (least * 3).saturating_sub(SEPARATOR_BYTES_MAX + 4).max(1);
    let mut at = 0;
    while at < text.len() {
        let near =
            (at..(at + SEPARATOR_BYTES_MAX + 3).min(text.len())).find(|at| is_pair(text, *at));
        let Some(pair) = near else {
            at += stride;
            continue;
        };
        let mut first = pair;
        while let Some(before) = pair_before(text, first) {
            first = before;
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let (mut next, mut end) = (Some(first), first);
        while let Some(place) = next {
            bytes.push(hex_byte(text[place], text[place + 1]));
            places.push(place);
            end = place + 2;
            next = pair_behind(text, end);
        }
        if bytes.len() >= least {
            found(&bytes, &places);
        }
        at = end.max(at + stride);
    }
}

/// Exactly two digits.
fn is_pair(text: &[u8], at: usize) -> bool {
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_hexdigit);
    digit(at)
        && digit(at + 1)
        && !digit(at + 2)
        && at.checked_sub(1).is_none_or(|before| !digit(before))
}

fn pair_behind(text: &[u8], end: usize) -> Option<usize> {
    (end + 1..=end + SEPARATOR_BYTES_MAX)
        .find(|at| is_pair(text, *at) && separates(&text[end..*at]))
}

fn pair_before(text: &[u8], at: usize) -> Option<usize> {
    let ends = (1..=SEPARATOR_BYTES_MAX).filter_map(|gap| at.checked_sub(gap));
    ends.filter(|end| *end >= 2 && separates(&text[*end..at]))
        .map(|end| end - 2)
        .find(|start| is_pair(text, *start))
}

/// One or two separators, and perhaps `0x`.
fn separates(gap: &[u8]) -> bool {
    let rest = match gap {
        [rest @ .., b'0', b'x' | b'X'] => rest,
        rest => rest,
    };
    rest.len() <= 2 && !rest.is_empty() && rest.iter().all(|byte| SEPARATORS.contains(byte))
}
