//! Text in which every byte is written by several characters: base64 in both alphabets, hexadecimal. Finds such runs, decodes
//! them in every alignment, and tells where in the text a decoded byte is written. Knows nothing of secrets.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

/// What may stand between the pairs of digits of a dump, and before each.
const SEPARATORS: &[u8] = b":-,. _|+\t";
/// Most bytes of it.
const SEPARATOR_BYTES_MAX: usize = 4;

/// Blanks that a line of a block is indented by.
const INDENT_MAX: usize = 64;

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
/// By byte: its value as a hexadecimal digit, or `NONE`.
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

/// True for a character of base64.
pub(crate) fn is_sextet(byte: u8) -> bool {
    SEXTETS[usize::from(byte)] != NONE
}

/// The value of a hexadecimal digit.
pub(crate) fn digit(byte: u8) -> Option<u32> {
    let value = NIBBLES[usize::from(byte)];
    (value != NONE).then_some(u32::from(value))
}

/// True for a hexadecimal digit.
fn is_digit(byte: u8) -> bool {
    NIBBLES[usize::from(byte)] != NONE
}

/// True for a character of base64 or a line end.
fn is_run(byte: u8) -> bool {
    is_sextet(byte) || byte == b'\n' || byte == b'\r'
}

/// Characters of a run, and where they stand.
pub(crate) struct Run<'t> {
    chars: Cow<'t, [u8]>,
    /// From which character on, and where that stands; the others of its line follow.
    places: SmallVec<[(usize, usize); 4]>,
    /// The byte behind the last character.
    pub end: usize,
}

/// Where a piece of a run begins that was decoded, and how many bits each character holds.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    first: usize,
    bits: usize,
}

/// What is written by one search through a text and of no use behind it.
#[derive(Default)]
pub(crate) struct Scratch {
    sextets: Vec<u8>,
    bytes: Vec<u8>,
    shifted: Vec<u8>,
}

/// Tells `found` the first character of every run of at least `chars` plain characters, and of some shorter ones, in order; it
/// answers with where the run ends.
pub(crate) fn scan(text: &[u8], chars: usize, mut found: impl FnMut(usize) -> usize) {
    // A run of that length covers a whole window wherever it begins.
    let window = if chars >= 15 { 8 } else { 4 };
    let stride = (chars + 1).saturating_sub(window).max(1);
    let (mut at, mut done) = (0, 0);
    while let Some(piece) = text.get(at..at + window) {
        // The likeliest to differ first: words are short.
        if is_run(piece[window - 1]) && piece.iter().all(|byte| is_run(*byte)) {
            let before = text[done..at].iter().rev();
            let mut from = at - before.take_while(|byte| is_run(**byte)).count();
            // Empty lines part runs; the one that covers the window, and those before it.
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

/// Tells `found` the first character of every run that goes on in an indented line, however short its lines are; it answers with
/// where the run ends. Those that lie inside of the ranges `known` are left out.
pub(crate) fn indented(text: &[u8], known: &[Range<usize>], mut found: impl FnMut(usize) -> usize) {
    let mut done = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        if end < done || !text.get(end + 1).is_some_and(is_blank) {
            continue;
        }
        let goes_on = next_line(text, end).and_then(|next| text.get(next));
        if !goes_on.is_some_and(|byte| is_sextet(*byte)) {
            continue;
        }
        // Back to the beginning, over line ends that are not indented.
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
    /// The run that begins at `from`, over line ends and what lines are indented by.
    pub fn read(text: &'t [u8], from: usize) -> Self {
        let line = |from: usize| &text[from..from + sextets_before(&text[from..])];
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

    /// Whether it goes over line ends.
    pub fn is_wrapped(&self) -> bool {
        self.places.len() > 1
    }

    /// How many characters there are.
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// Tells `found` what the run says as base64, in each of the four alignments, and of its pieces of at least `least` bytes
    /// that are hexadecimal, in both.
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

    /// Where in `text` the bytes `range` of a decoded piece are written, with the padding behind the last one.
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

    /// Where a character stands.
    fn at(&self, char: usize) -> usize {
        let line = self.places.partition_point(|(first, _)| *first <= char) - 1;
        let (first, start) = self.places[line];
        start + (char - first)
    }
}

/// An escape that says a character of a block: where it begins and ends, and what it says.
pub(crate) type Resolved = (usize, usize, u8);

/// A piece of a text with the escapes resolved that say characters of blocks.
pub(crate) struct View<'e> {
    /// The text to look for blocks in.
    pub text: Vec<u8>,
    /// Where the piece begins in the original, and the escapes in it, with the byte of the text that each says.
    from: usize,
    escapes: &'e [Resolved],
    bytes: Vec<usize>,
}

impl<'e> View<'e> {
    /// Of the piece `around`. `escapes`: those in it, in order and apart.
    pub fn new(original: &[u8], around: Range<usize>, escapes: &'e [Resolved]) -> Self {
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

    /// The text with blanks where `+` stands for those that its lines are indented by; `None` where none does.
    pub fn indented(&self) -> Option<Vec<u8>> {
        let lines = || memchr::memchr_iter(b'\n', &self.text).map(|end| end + 1);
        let pluses = |line: usize| {
            let first = self.text[line..].iter().take(INDENT_MAX);
            first.take_while(|byte| **byte == b'+').count()
        };
        // A line may begin with one of its own behind them, but hardly all of them do.
        let indent = lines().map(pluses).filter(|count| *count > 0).min()?;
        let mut text = self.text.clone();
        for line in lines() {
            text[line..line + pluses(line).min(indent)].fill(b' ');
        }
        Some(text)
    }

    /// Where in the original a range of the text is written.
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

/// Where blocks may stand that have one of `escapes` in them, and which of these: as far around each as characters of blocks go.
/// `chars`: the least that a block has; places with fewer are left out.
pub(crate) fn surroundings(
    text: &[u8],
    escapes: &[Resolved],
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
    // Behind what says a line end or a blank, a line may be indented by some more.
    let line = |byte: u8| matches!(byte, b'\n' | b'\t' | b' ');
    let mut open: Option<(Range<usize>, usize)> = None;
    for (index, &(start, end, byte)) in escapes.iter().enumerate() {
        let done = index.checked_sub(1).map_or(0, |before| escapes[before].1);
        let before = index.checked_sub(1).map(|before| escapes[before].2);
        let left = extent_before(&text[done..start], before.is_some_and(line));
        let limit = escapes.get(index + 1).map_or(text.len(), |next| next.0);
        let right = end + extent_behind(&text[end..limit], line(byte));
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

/// How many of the first bytes can belong to one block: of base64, or a dump. `line`: they may stand at the beginning of a line.
fn extent_behind(text: &[u8], mut line: bool) -> usize {
    let mut run = 0;
    loop {
        let rest = &text[run..];
        let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
        if blanks > 0 && (!line || !rest.get(blanks).is_none_or(|byte| is_sextet(*byte))) {
            break;
        }
        let more = blanks + alike(rest[blanks..].iter(), IN_RUN);
        if more == 0 {
            break;
        }
        run += more;
        line = text[run - 1] == b'\n';
        if !line {
            break;
        }
    }
    run.max(alike(text.iter(), IN_DUMP))
}

/// How many of the last bytes can. `line`: the first of all may stand at the beginning of one.
fn extent_before(text: &[u8], line: bool) -> usize {
    let mut from = text.len();
    loop {
        from -= alike(text[..from].iter().rev(), IN_RUN);
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
    (text.len() - from).max(alike(text.iter().rev(), IN_DUMP))
}

/// How many bytes stand in blocks of a kind.
fn alike<'t>(bytes: impl Iterator<Item = &'t u8>, kind: u8) -> usize {
    let fits = |byte: &&u8| KINDS[usize::from(**byte)] & kind != 0;
    bytes.take_while(fits).count()
}

const IN_RUN: u8 = 1;
const IN_DUMP: u8 = 2;
/// By byte: whether it stands in runs of base64, with their line ends and padding, and in dumps.
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

/// How many characters of base64 `text` begins with.
fn sextets_before(text: &[u8]) -> usize {
    let (chunks, _) = text.as_chunks::<16>();
    let all = |chunk: &&[u8; 16]| {
        let values = chunk.iter().map(|byte| SEXTETS[usize::from(*byte)]);
        values.fold(0, |either, value| either | value) != NONE
    };
    let whole = chunks.iter().take_while(all).count() * 16;
    let rest = text[whole..].iter();
    whole + rest.take_while(|byte| is_sextet(**byte)).count()
}

/// Writes to `bytes` what characters of six bits say, and gives the bits of the last ones that make no byte, from the highest on.
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
        let [_, _, said @ ..] = one.to_be_bytes();
        *six = said;
    }
    let bits = rest
        .iter()
        .fold(0u64, |bits, sextet| bits << 6 | u64::from(*sextet));
    // From the highest bit of the word on.
    let bits = match rest.len() {
        0 => 0,
        some => bits << (64 - some * 6),
    };
    let said = bits.to_be_bytes();
    let count = last.len();
    last.copy_from_slice(&said[..count]);
    said[count]
}

/// Writes to `shifted` the `count` bytes that `bytes` say from the sextet `first` on, the second to the fourth.
fn shift(bytes: &[u8], first: usize, count: usize, shifted: &mut Vec<u8>) {
    // Six bits of each sextet: of the byte in which it begins, so many are left out.
    let (from, bits) = (first * 6 / 8, first * 6 % 8);
    let (high, low) = (&bytes[from..], &bytes[from + 1..]);
    shifted.clear();
    let pairs = high.iter().zip(low).take(count);
    shifted.extend(pairs.map(|(high, low)| high << bits | low >> (8 - bits)));
}

/// True for a byte that [`belongs`] to a block somewhere.
pub(crate) fn may_belong(byte: u8) -> bool {
    KINDS[usize::from(byte)] != 0
}

/// True for a byte that goes on with the block that `before` may end with: its characters, and where there are some its
/// padding, a line end, what separates pairs. `joined`: so many escapes stand before it that the text does not tell.
pub(crate) fn belongs(before: &[u8], byte: u8, joined: bool) -> bool {
    let last = before.last().copied();
    match byte {
        byte if is_sextet(byte) => true,
        // A line may be indented by escapes.
        b'\t' | b' ' if matches!(before, [.., b'\n' | b'\t' | b' ']) => true,
        b'\r' | b'\n' if ends_in_digits(before, 2) => true,
        b'=' | b'\r' | b'\n' => joined || last.is_some_and(|last| is_sextet(last) || last == b'\r'),
        byte => {
            // Behind a pair, or behind the first of two that stand there.
            let is_pair = ends_in_digits(before, 1);
            SEPARATORS.contains(&byte) && (joined || is_pair)
        }
    }
}

/// Whether `text` ends in two digits and at most so many separators. What stands before them may be an escape.
fn ends_in_digits(text: &[u8], separators: usize) -> bool {
    let gap = text.iter().rev().take(separators);
    let gap = gap.take_while(|byte| SEPARATORS.contains(byte)).count();
    let digits = text[..text.len() - gap].last_chunk::<2>();
    digits.is_some_and(|digits| digits.iter().all(|byte| is_digit(*byte)))
}

/// Behind a line end, `\n` or `\r\n`.
fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)? {
        [b'\r', b'\n', ..] => Some(at + 2),
        [b'\n', ..] => Some(at + 1),
        _ => None,
    }
}

/// True for what lines are indented by.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Behind a line end, and behind what the next line is indented by.
fn next_line(text: &[u8], at: usize) -> Option<usize> {
    let next = line_end(text, at)?;
    let blanks = text[next..]
        .iter()
        .take(INDENT_MAX)
        .take_while(|byte| is_blank(byte));
    Some(next + blanks.count())
}

/// What two hexadecimal digits say.
fn hex_byte(high: u8, low: u8) -> u8 {
    NIBBLES[usize::from(high)] << 4 | NIBBLES[usize::from(low)]
}

/// Pairs of digits with something between them, such as `63:61:6E` or `0x63, 0x61`: the bytes, and where each is written.
/// Tells `found` every such run of at least `least` bytes.
pub(crate) fn dumps(text: &[u8], least: usize, mut found: impl FnMut(&[u8], &[usize])) {
    if text.len() < least * 3 - 1 {
        return;
    }
    // Of one that goes over line ends, what is told of the pairs from `pair` on, and where it ends.
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
            next = pair_behind(text, end);
        }
        if bytes.len() >= least {
            found(&bytes, &places);
        }
        if memchr::memchr(b'\n', &text[first..end]).is_some() {
            wrapped.push(first..end);
        }
        end
    };
    // A line that is so long covers a pair in one of any two places so far apart.
    let stride = (least * 3).saturating_sub(SEPARATOR_BYTES_MAX + 4).max(1);
    let mut at = 0;
    while at < text.len() {
        at = match pair_near(text, at) {
            Some(pair) => run_at(pair, &mut wrapped).max(at + stride),
            None => at + stride,
        };
    }
    // Between shorter ones, those places may all be indents.
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

/// The first of the pairs that begin at `at` or at one of the places behind it of which a dump has a pair in one.
fn pair_near(text: &[u8], at: usize) -> Option<usize> {
    const PLACES: usize = SEPARATOR_BYTES_MAX + 3;
    let Some(around) = at
        .checked_sub(1)
        .and_then(|before| text.get(before..=at + PLACES + 1))
    else {
        return (at..(at + PLACES).min(text.len())).find(|at| is_pair(text, *at));
    };
    // A bit for each digit: the one before, the places, and two behind.
    let digits = around.iter().rev().fold(0u32, |digits, byte| {
        digits << 1 | u32::from(is_digit(*byte))
    });
    let pairs = digits >> 1 & digits >> 2 & !(digits >> 3) & !digits & ((1 << PLACES) - 1);
    (pairs != 0).then(|| at + pairs.trailing_zeros() as usize)
}

/// Exactly two digits.
fn is_pair(text: &[u8], at: usize) -> bool {
    let digit = |at: usize| text.get(at).is_some_and(|byte| is_digit(*byte));
    digit(at)
        && digit(at + 1)
        && !digit(at + 2)
        && at.checked_sub(1).is_none_or(|before| !digit(before))
}

fn pair_behind(text: &[u8], end: usize) -> Option<usize> {
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

/// The pair that a line begins with, behind what it is indented by and perhaps `0x`.
fn pair_at_start(text: &[u8], line: usize) -> Option<usize> {
    let blanks = text[line..].iter().take(INDENT_MAX);
    let at = line + blanks.take_while(|byte| is_blank(byte)).count();
    let at = match text[at..] {
        [b'0', b'x' | b'X', ..] => at + 2,
        _ => at,
    };
    is_pair(text, at).then_some(at)
}

/// The pair that the line ends with, to which `text` goes, before its line end and separators.
fn pair_at_line_end(text: &[u8]) -> Option<usize> {
    let line = text.strip_suffix(b"\r").unwrap_or(text);
    let gap = line.iter().rev().take(2);
    let gap = gap.take_while(|byte| SEPARATORS.contains(byte)).count();
    let start = (line.len() - gap).checked_sub(2)?;
    is_pair(text, start).then_some(start)
}

/// One or two separators, and perhaps `0x`.
fn separates(gap: &[u8]) -> bool {
    let rest = match gap {
        [rest @ .., b'0', b'x' | b'X'] => rest,
        rest => rest,
    };
    rest.len() <= 2 && !rest.is_empty() && rest.iter().all(|byte| SEPARATORS.contains(byte))
}
