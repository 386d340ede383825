//! Text in which every byte is written as several characters: base64 in both alphabets, hexadecimal. Finds such runs, decodes
//! them in every alignment, and maps a decoded byte back to its place in the text. Knows nothing of secrets.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

/// What may separate the pairs of digits in a dump, and precede each.
const SEPARATORS: &[u8] = b":-,. _|+\t";
/// Maximum bytes between two pairs.
const SEPARATOR_BYTES_MAX: usize = 4;

/// Maximum blanks that a block's line may be indented by.
const INDENT_MAX: usize = 64;

/// The value of each byte as a base64 character in either alphabet, or `NONE`.
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
/// The value of each byte as a hexadecimal digit, or `NONE`.
const NIBBLES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        table[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    table
};
const NONE: u8 = 0xFF;

/// True for a base64 character.
pub(crate) fn is_sextet(byte: u8) -> bool {
    SEXTETS[usize::from(byte)] != NONE
}

pub(crate) fn digit(byte: u8) -> Option<u32> {
    let value = NIBBLES[usize::from(byte)];
    (value != NONE).then_some(u32::from(value))
}

fn is_digit(byte: u8) -> bool {
    NIBBLES[usize::from(byte)] != NONE
}

/// True for a base64 character or a line end.
fn is_run(byte: u8) -> bool {
    is_sextet(byte) || byte == b'\n' || byte == b'\r'
}

/// The characters of a run, and their positions in the text.
pub(crate) struct Run<'t> {
    chars: Cow<'t, [u8]>,
    /// For each line: the index of its first character in the run, and that character's position in the text.
    places: SmallVec<[(usize, usize); 4]>,
    /// The position after the last character.
    pub end: usize,
}

/// A decoded piece of a run: its first character, and the number of bits per character.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    first: usize,
    bits: usize,
}

/// Buffers that are reused during one search of a text.
#[derive(Default)]
pub(crate) struct Scratch {
    sextets: Vec<u8>,
    bytes: Vec<u8>,
    shifted: Vec<u8>,
}

/// Calls `found` with the position of the first character of every run of at least `chars` plain characters, and of some shorter
/// ones, in order; `found` returns where the run ends.
pub(crate) fn scan(text: &[u8], chars: usize, mut found: impl FnMut(usize) -> usize) {
    // A run of that length covers a whole window wherever it begins.
    let window = if chars >= 15 { 8 } else { 4 };
    let stride = (chars + 1).saturating_sub(window).max(1);
    let (mut at, mut done) = (0, 0);
    while let Some(piece) = text.get(at..at + window) {
        // The last byte is the likeliest to differ: words are short.
        if is_run(piece[window - 1]) && piece.iter().all(|byte| is_run(*byte)) {
            let before = text[done..at].iter().rev();
            let mut from = at - before.take_while(|byte| is_run(**byte)).count();
            // Blank lines separate runs: the one that covers the window, and those before it.
            while from < at + window {
                done = match is_sextet(text[from]) {
                    true => found(from),
                    false => from + 1,
                };
                from = done;
            }
            at = done.max(at + window);
        } else {
            at += stride;
        }
    }
}

/// Calls `found` with the position of the first character of every run that continues on an indented line, however short its
/// lines are; `found` returns where the run ends. Runs inside the ranges `known` are skipped.
pub(crate) fn scan_indented(
    text: &[u8],
    known: &[Range<usize>],
    mut found: impl FnMut(usize) -> usize,
) {
    let mut done = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        if end < done || !text.get(end + 1).is_some_and(is_blank) {
            continue;
        }
        let goes_on = next_line(text, end).and_then(|next| text.get(next));
        if !goes_on.is_some_and(|byte| is_sextet(*byte)) {
            continue;
        }
        // Back to the beginning, across line ends that are not indented.
        let mut from = end;
        while from > done {
            let before = &text[done..from];
            from = match before {
                [.., last] if is_sextet(*last) => from - 1,
                [.., last, b'\r', b'\n'] if is_sextet(*last) => from - 2,
                [.., last, b'\r'] if from == end && is_sextet(*last) => from - 1,
                [.., last, b'\n'] if is_sextet(*last) => from - 1,
                _ => break,
            };
        }
        let after = known.partition_point(|known| known.end <= end);
        let inside = known.get(after).is_some_and(|known| known.start <= from);
        if is_sextet(text[from]) && !inside {
            done = found(from).max(end + 1);
        }
    }
}

impl<'t> Run<'t> {
    /// Reads the run that begins at `from`, across line ends and indentation.
    pub fn read(text: &'t [u8], from: usize) -> Self {
        let line = |from: usize| &text[from..from + leading_sextets(&text[from..])];
        let next = |end: usize| {
            let next = next_line(text, end)?;
            text.get(next).copied().filter(|byte| is_sextet(*byte))?;
            Some(next)
        };
        let first = line(from);
        let mut run = Self {
            chars: Cow::Borrowed(first),
            places: smallvec::smallvec![(0, from)],
            end: from + first.len(),
        };
        while let Some(from) = next(run.end) {
            let more = line(from);
            run.places.push((run.chars.len(), from));
            run.chars.to_mut().extend_from_slice(more);
            run.end = from + more.len();
        }
        run
    }

    /// Whether it spans several lines.
    pub fn is_wrapped(&self) -> bool {
        self.places.len() > 1
    }

    /// The number of characters.
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// Calls `found` with the run decoded as base64 in each of the four alignments, and with its hexadecimal pieces of at least
    /// `least` bytes in both alignments.
    pub fn decode(&self, least: usize, scratch: &mut Scratch, mut found: impl FnMut(&[u8], Piece)) {
        let Scratch {
            sextets,
            bytes,
            shifted,
        } = scratch;
        let value = |byte: &u8| SEXTETS[usize::from(*byte)];
        sextets.clear();
        sextets.extend(self.chars.iter().map(value));
        let last = unpack(sextets, bytes);
        found(bytes, Piece { first: 0, bits: 6 });
        bytes.push(last);
        for first in 1..4.min(sextets.len()) {
            shift(bytes, first, (sextets.len() - first) * 6 / 8, shifted);
            found(shifted, Piece { first, bits: 6 });
        }
        let mut at = 0;
        while let Some(window) = self.chars.get(at..at + least * 2) {
            if let Some(other) = window.iter().rposition(|byte| !is_digit(*byte)) {
                at += other + 1;
                continue;
            }
            let more = self.chars[at + window.len()..].iter();
            let digits = window.len() + more.take_while(|byte| is_digit(**byte)).count();
            for first in [at, at + 1] {
                let pairs = self.chars[first..at + digits].chunks_exact(2);
                bytes.clear();
                bytes.extend(pairs.map(|pair| hex_byte(pair[0], pair[1])));
                found(bytes, Piece { first, bits: 4 });
            }
            at += digits + 1;
        }
    }

    /// The range of `text` in which the bytes `range` of a decoded piece are written, with the padding behind the last one.
    pub fn place(&self, text: &[u8], piece: Piece, range: Range<usize>) -> Range<usize> {
        let first = piece.first + range.start * 8 / piece.bits;
        let last = piece.first + (range.end * 8).div_ceil(piece.bits) - 1;
        let mut end = self.at(last) + 1;
        if piece.bits == 6 && last + 1 == self.chars.len() {
            let padding = text[end..].iter().take(2).take_while(|byte| **byte == b'=');
            end += padding.count();
        }
        self.at(first)..end
    }

    /// The position of a character in the text.
    fn at(&self, char: usize) -> usize {
        let line = self.places.partition_point(|(first, _)| *first <= char) - 1;
        let (first, start) = self.places[line];
        start + (char - first)
    }
}

/// An escape of a block character: where it begins and ends, and the byte it stands for.
pub(crate) type ResolvedEscape = (usize, usize, u8);

/// A piece of a text in which the escapes of block characters are resolved.
pub(crate) struct UnescapedView<'e> {
    /// The text to search for blocks.
    pub text: Vec<u8>,
    /// Where the piece begins in the original, the escapes in it, and the position of each escape's byte in `text`.
    from: usize,
    escapes: &'e [ResolvedEscape],
    bytes: Vec<usize>,
}

impl<'e> UnescapedView<'e> {
    /// A view of the piece `around`. `escapes`: those inside the piece, in order and without overlap.
    pub fn new(original: &[u8], around: Range<usize>, escapes: &'e [ResolvedEscape]) -> Self {
        let mut text = Vec::with_capacity(around.len());
        let mut bytes = Vec::with_capacity(escapes.len());
        let mut done = around.start;
        for &(start, end, byte) in escapes {
            text.extend_from_slice(&original[done..start]);
            bytes.push(text.len());
            text.push(byte);
            done = end;
        }
        text.extend_from_slice(&original[done..around.end]);
        Self {
            text,
            from: around.start,
            escapes,
            bytes,
        }
    }

    /// The text with blanks in place of each `+` that stands for indentation; `None` when no line has one.
    pub fn with_blank_indent(&self) -> Option<Vec<u8>> {
        let lines = || memchr::memchr_iter(b'\n', &self.text).map(|end| end + 1);
        let pluses = |line: usize| {
            let first = self.text[line..].iter().take(INDENT_MAX);
            first.take_while(|byte| **byte == b'+').count()
        };
        // One line's content may begin with a `+` of its own after the indentation, but hardly all lines do.
        let indent = lines().map(pluses).filter(|count| *count > 0).min()?;
        let mut text = self.text.clone();
        for line in lines() {
            text[line..line + pluses(line).min(indent)].fill(b' ');
        }
        Some(text)
    }

    /// The range of the original in which a range of `text` is written.
    pub fn original(&self, range: Range<usize>) -> Range<usize> {
        self.place(range.start).start..self.place(range.end - 1).end
    }

    fn place(&self, byte: usize) -> Range<usize> {
        let behind = self.bytes.partition_point(|escape| *escape <= byte);
        let start = match behind.checked_sub(1) {
            None => self.from + byte,
            Some(escape) => {
                let (start, end, _) = self.escapes[escape];
                match byte - self.bytes[escape] {
                    0 => return start..end,
                    more => end + more - 1,
                }
            }
        };
        start..start + 1
    }
}

/// The ranges in which blocks with at least one of `escapes` may be, with the indices of those escapes: they extend as far around
/// each escape as block characters do. `chars`: the minimum characters of a block; shorter ranges are left out.
pub(crate) fn surroundings(
    text: &[u8],
    escapes: &[ResolvedEscape],
    chars: usize,
) -> Vec<(Range<usize>, Range<usize>)> {
    let mut found: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let mut add = |around: &Range<usize>, which: Range<usize>| {
        let unescaped: usize = escapes[which.clone()]
            .iter()
            .map(|(start, end, _)| end - start - 1)
            .sum();
        if around.len() - unescaped >= chars {
            found.push((around.clone(), which));
        }
    };
    // After an escaped line end or blank, a line may continue its indentation.
    let line = |byte: u8| matches!(byte, b'\n' | b'\t' | b' ');
    let mut open: Option<(Range<usize>, usize)> = None;
    for (index, &(start, end, byte)) in escapes.iter().enumerate() {
        let done = index.checked_sub(1).map_or(0, |before| escapes[before].1);
        let before = index.checked_sub(1).map(|before| escapes[before].2);
        let left = extent_before(&text[done..start], before.is_some_and(line));
        let limit = escapes.get(index + 1).map_or(text.len(), |next| next.0);
        let right = end + extent_after(&text[end..limit], line(byte));
        open = match open.take() {
            Some((around, first)) if start - left == done => Some((around.start..right, first)),
            before => {
                if let Some((around, first)) = before {
                    add(&around, first..index);
                }
                Some((start - left..right, index))
            }
        };
    }
    if let Some((around, first)) = open {
        add(&around, first..escapes.len());
    }
    found
}

/// The number of leading bytes that can belong to one block (base64 or a dump). `line`: they may be at the beginning of a line.
fn extent_after(text: &[u8], mut line: bool) -> usize {
    let mut run = 0;
    loop {
        let rest = &text[run..];
        let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
        if blanks > 0 && (!line || !rest.get(blanks).is_none_or(|byte| is_sextet(*byte))) {
            break;
        }
        let more = blanks + leading_of_kind(rest[blanks..].iter(), IN_RUN);
        if more == 0 {
            break;
        }
        run += more;
        line = text[run - 1] == b'\n';
        if !line {
            break;
        }
    }
    run.max(leading_of_kind(text.iter(), IN_DUMP))
}

/// The number of trailing bytes that can belong to one block. `line`: the first byte of `text` may be at the beginning of a line.
fn extent_before(text: &[u8], line: bool) -> usize {
    let mut from = text.len();
    loop {
        from -= leading_of_kind(text[..from].iter().rev(), IN_RUN);
        let blanks = text[..from].iter().rev();
        let blanks = blanks.take_while(|byte| is_blank(byte)).count();
        let ends_line = match text[..from - blanks].last() {
            None => line,
            Some(last) => *last == b'\n',
        };
        let goes_on = text.get(from).is_none_or(|byte| is_sextet(*byte));
        if blanks == 0 || !ends_line || !goes_on {
            break;
        }
        from -= blanks;
    }
    (text.len() - from).max(leading_of_kind(text.iter().rev(), IN_DUMP))
}

/// The number of leading bytes that occur in blocks of this kind.
fn leading_of_kind<'t>(bytes: impl Iterator<Item = &'t u8>, kind: u8) -> usize {
    let fits = |byte: &&u8| KINDS[usize::from(**byte)] & kind != 0;
    bytes.take_while(fits).count()
}

const IN_RUN: u8 = 1;
const IN_DUMP: u8 = 2;
/// For each byte: whether it occurs in base64 runs (with their line ends and padding), and in dumps.
const KINDS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        if SEXTETS[at] != NONE || matches!(at as u8, b'\n' | b'\r' | b'=') {
            table[at] |= IN_RUN;
        }
        if NIBBLES[at] != NONE || matches!(at as u8, b'x' | b'X') {
            table[at] |= IN_DUMP;
        }
        at += 1;
    }
    let mut separator = 0;
    while separator < SEPARATORS.len() {
        table[SEPARATORS[separator] as usize] |= IN_DUMP;
        separator += 1;
    }
    table
};

/// The number of base64 characters that `text` begins with.
fn leading_sextets(text: &[u8]) -> usize {
    let (chunks, _) = text.as_chunks::<16>();
    let all = |chunk: &&[u8; 16]| {
        let values = chunk.iter().map(|byte| SEXTETS[usize::from(*byte)]);
        values.fold(0, |either, value| either | value) != NONE
    };
    let whole = chunks.iter().take_while(all).count() * 16;
    let rest = text[whole..].iter();
    whole + rest.take_while(|byte| is_sextet(**byte)).count()
}

/// Decodes six-bit characters into `bytes` and returns the bits of the last ones that make no whole byte, from the highest on.
fn unpack(sextets: &[u8], bytes: &mut Vec<u8>) -> u8 {
    bytes.resize(sextets.len() * 6 / 8, 0);
    let (groups, rest) = sextets.as_chunks::<8>();
    let (sixes, last) = bytes.as_chunks_mut::<6>();
    for (group, six) in groups.iter().zip(sixes) {
        // Neighbours are joined: eight to four, to two, to one.
        let eight = u64::from_be_bytes(*group);
        let four = (eight >> 2 & 0x0FC0_0FC0_0FC0_0FC0) | (eight & 0x003F_003F_003F_003F);
        let two = (four >> 4 & 0x00FF_F000_00FF_F000) | (four & 0x0000_0FFF_0000_0FFF);
        let one = (two >> 8 & 0x0000_FFFF_FF00_0000) | (two & 0x0000_0000_00FF_FFFF);
        let [_, _, decoded @ ..] = one.to_be_bytes();
        *six = decoded;
    }
    let bits = rest
        .iter()
        .fold(0u64, |bits, sextet| bits << 6 | u64::from(*sextet));
    // Left-aligned in the word.
    let bits = match rest.len() {
        0 => 0,
        some => bits << (64 - some * 6),
    };
    let decoded = bits.to_be_bytes();
    let count = last.len();
    last.copy_from_slice(&decoded[..count]);
    decoded[count]
}

/// Writes to `shifted` the `count` bytes that begin at the sextet `first` (the second to the fourth) of the decoded `bytes`.
fn shift(bytes: &[u8], first: usize, count: usize, shifted: &mut Vec<u8>) {
    // Each sextet has six bits; `bits` is the number to drop from the byte in which it begins.
    let (from, bits) = (first * 6 / 8, first * 6 % 8);
    let (high, low) = (&bytes[from..], &bytes[from + 1..]);
    shifted.clear();
    let pairs = high.iter().zip(low).take(count);
    shifted.extend(pairs.map(|(high, low)| high << bits | low >> (8 - bits)));
}

/// True for a byte that can [belong](belongs) to a block in some context.
pub(crate) fn may_belong(byte: u8) -> bool {
    KINDS[usize::from(byte)] != 0
}

/// True for a byte that continues the block that `before` may end with: a block character or, after one, padding, a line end, or
/// a separator of pairs. `joined`: an escape directly before it is part of the block, which `before` does not show.
pub(crate) fn belongs(before: &[u8], byte: u8, joined: bool) -> bool {
    let last = before.last().copied();
    match byte {
        byte if is_sextet(byte) => true,
        // Indentation may be written as escapes.
        b'\t' | b' ' if matches!(before, [.., b'\n' | b'\t' | b' ']) => true,
        b'\r' | b'\n' if ends_in_digits(before, 2) => true,
        b'=' | b'\r' | b'\n' => joined || last.is_some_and(|last| is_sextet(last) || last == b'\r'),
        byte => {
            // Behind a pair, or after the first of two separators behind it.
            let is_pair = ends_in_digits(before, 1);
            SEPARATORS.contains(&byte) && (joined || is_pair)
        }
    }
}

/// Whether `text` ends in two digits and at most `separators` separators. The character before the digits may be an escape.
fn ends_in_digits(text: &[u8], separators: usize) -> bool {
    let gap = text.iter().rev().take(separators);
    let gap = gap.take_while(|byte| SEPARATORS.contains(byte)).count();
    let digits = text[..text.len() - gap].last_chunk::<2>();
    digits.is_some_and(|digits| digits.iter().all(|byte| is_digit(*byte)))
}

/// The position after a line end, `\n` or `\r\n`.
fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)? {
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\n', ..] => Some(at + 1),
        _ => None,
    }
}

/// True for an indentation character.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The position after a line end and the indentation of the next line.
fn next_line(text: &[u8], at: usize) -> Option<usize> {
    let next = line_end(text, at)?;
    let blanks = text[next..]
        .iter()
        .take(INDENT_MAX)
        .take_while(|byte| is_blank(byte));
    Some(next + blanks.count())
}

fn hex_byte(high: u8, low: u8) -> u8 {
    NIBBLES[usize::from(high)] << 4 | NIBBLES[usize::from(low)]
}

/// Finds pairs of digits with separators between them, such as `63:61:6E` or `0x63, 0x61`, and calls `found` with the bytes and
/// their positions for every such run of at least `least` bytes.
pub(crate) fn find_dumps(text: &[u8], least: usize, mut found: impl FnMut(&[u8], &[usize])) {
    if text.len() < least * 3 - 1 {
        return;
    }
    // The ranges of dumps that span several lines.
    let mut wrapped: Vec<Range<usize>> = Vec::new();
    let mut run_at = |pair: usize, wrapped: &mut Vec<Range<usize>>| {
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
            next = pair_after(text, end);
        }
        if bytes.len() >= least {
            found(&bytes, &places);
        }
        if memchr::memchr(b'\n', &text[first..end]).is_some() {
            wrapped.push(first..end);
        }
        end
    };
    // A line of `least` pairs is long enough to cover one of the windows that are probed at this stride.
    let stride = (least * 3).saturating_sub(SEPARATOR_BYTES_MAX + 4).max(1);
    let mut at = 0;
    while at < text.len() {
        at = match pair_near(text, at) {
            Some(pair) => run_at(pair, &mut wrapped).max(at + stride),
            None => at + stride,
        };
    }
    // With shorter lines, all those positions may fall into indentation.
    let known = std::mem::take(&mut wrapped);
    let mut done = 0;
    for end in memchr::memchr_iter(b'\n', text).filter(|end| *end > 0) {
        if end < done || pair_at_start(text, end + 1).is_none() {
            continue;
        }
        let Some(pair) = pair_at_line_end(&text[..end]) else {
            continue;
        };
        let after = known.partition_point(|known| known.end <= end);
        if known.get(after).is_none_or(|known| end < known.start) {
            done = run_at(pair, &mut wrapped);
        }
    }
}

/// The first pair that begins in the short window at `at`: a dump begins at least one pair in every window that it covers.
fn pair_near(text: &[u8], at: usize) -> Option<usize> {
    const PLACES: usize = SEPARATOR_BYTES_MAX + 3;
    let Some(around) = at
        .checked_sub(1)
        .and_then(|before| text.get(before..=at + PLACES + 1))
    else {
        return (at..(at + PLACES).min(text.len())).find(|at| is_pair(text, *at));
    };
    // A bit for each digit: the byte before, the positions themselves, and two bytes behind.
    let digits = around.iter().rev().fold(0u32, |digits, byte| {
        digits << 1 | u32::from(is_digit(*byte))
    });
    let pairs = digits >> 1 & digits >> 2 & !(digits >> 3) & !digits & ((1 << PLACES) - 1);
    (pairs != 0).then(|| at + pairs.trailing_zeros() as usize)
}

/// Whether exactly two digits are at `at`.
fn is_pair(text: &[u8], at: usize) -> bool {
    let digit = |at: usize| text.get(at).is_some_and(|byte| is_digit(*byte));
    digit(at)
        && digit(at + 1)
        && !digit(at + 2)
        && at.checked_sub(1).is_none_or(|before| !digit(before))
}

fn pair_after(text: &[u8], end: usize) -> Option<usize> {
    (end + 1..=end + SEPARATOR_BYTES_MAX)
        .find(|at| is_pair(text, *at) && separates(&text[end..*at]))
        .or_else(|| {
            let gap = text[end..].iter().take(2);
            let gap = gap.take_while(|byte| SEPARATORS.contains(byte)).count();
            pair_at_start(text, line_end(text, end + gap)?)
        })
}

fn pair_before(text: &[u8], at: usize) -> Option<usize> {
    let ends = (1..=SEPARATOR_BYTES_MAX).filter_map(|gap| at.checked_sub(gap));
    ends.filter(|end| *end >= 2 && separates(&text[*end..at]))
        .map(|end| end - 2)
        .find(|start| is_pair(text, *start))
        .or_else(|| {
            let line = match &text[..at] {
                [line @ .., b'0', b'x' | b'X'] => line,
                line => line,
            };
            let blanks = line.iter().rev().take(INDENT_MAX);
            let line = &line[..line.len() - blanks.take_while(|byte| is_blank(byte)).count()];
            pair_at_line_end(line.strip_suffix(b"\n")?)
        })
}

/// The first pair of a line, after indentation and an optional `0x`.
fn pair_at_start(text: &[u8], line: usize) -> Option<usize> {
    let blanks = text[line..].iter().take(INDENT_MAX);
    let at = line + blanks.take_while(|byte| is_blank(byte)).count();
    let at = match text[at..] {
        [b'0', b'x' | b'X', ..] => at + 2,
        _ => at,
    };
    is_pair(text, at).then_some(at)
}

/// The last pair of the line that `text` ends with, before its line end and separators.
fn pair_at_line_end(text: &[u8]) -> Option<usize> {
    let line = text.strip_suffix(b"\r").unwrap_or(text);
    let gap = line.iter().rev().take(2);
    let gap = gap.take_while(|byte| SEPARATORS.contains(byte)).count();
    let start = (line.len() - gap).checked_sub(2)?;
    is_pair(text, start).then_some(start)
}

/// True for one or two separators and an optional `0x`.
fn separates(gap: &[u8]) -> bool {
    let rest = match gap {
        [rest @ .., b'0', b'x' | b'X'] => rest,
        rest => rest,
    };
    rest.len() <= 2 && !rest.is_empty() && rest.iter().all(|byte| SEPARATORS.contains(byte))
}
