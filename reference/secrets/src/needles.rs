//! The secrets of one scrub set, prepared for searching: written literally, and with escaped characters. Knows nothing of blocks or
//! markers.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored, Input, Match, MatchKind, StartKind};
use zeroize::Zeroizing;

use crate::blocks;
use crate::escape::{self, Escapes, Reading, Readings};
use crate::paths::{Paths, RunEscape};
use crate::prefixes::{NO_PREFIX, PrefixState, Prefixes};
use crate::skip::Skip;
use crate::watch::Watch;

/// Up to this many pattern bytes the automaton is a dense table (fast on text full of near misses); above it, a compact one.
const DENSE_PATTERN_BYTES_MAX: usize = 8 * 1024;
/// Up to this many patterns the automaton has its own prefilter for text without secrets.
const QUICK_PATTERNS_MAX: usize = 64;
/// Skipping is given up after this many near misses (positions where a secret could start and does not), plus one per
/// [`BYTES_PER_MISS`] bytes of text: text full of near misses must not cost more than one pass of the automaton.
const MISSES_MIN: usize = 64;
/// Bytes that are searched between two time checks.
const STRETCH: usize = 64 * 1024;
const BYTES_PER_MISS: usize = 512;
/// In a longer run of backslashes (longer also than any that a secret may be written with) only the end can begin an escape.
const BACKSLASHES_MIN: usize = 48;
/// Maximum number of backslashes that encode one backslash.
const BACKSLASHES_EACH: usize = 1 << escape::DEPTH;
/// Bytes that are examined together, one bit each.
const LANE_BYTES: usize = u64::BITS as usize;
/// Multiplier that gathers the lowest bits of eight bytes in the highest byte.
const EIGHTH_BITS: u64 = 0x0102_0408_1020_4080;
/// The cost of an escape, and of each open path at it, in bytes of easy text.
const WORK_PER_ESCAPE: usize = 4;
const WORK_PER_WAY: usize = 2;
/// Bytes of the pieces of secrets that are looked up before an escape.
const GRAM: usize = 3;
/// Words of a bit set of byte pairs.
const PAIR_WORDS: usize = (1 << 16) / 64;

/// The secrets, each once and none empty.
pub(crate) struct Needles {
    prefixes: Prefixes,
    matcher: AhoCorasick,
    /// Used when there are more patterns than the automaton's prefilter handles.
    skip: Option<Skip>,
    /// The bytes that occur in secrets.
    bytes: [bool; 256],
    /// The bytes that forms of secrets may be written in.
    written: [bool; 256],
    /// The first two bytes of each secret, its first gram, and each gram with the byte that follows it.
    pairs: Box<[u64; PAIR_WORDS]>,
    heads: Grams,
    grams: Grams,
    /// Some secret is shorter than a gram.
    short: bool,
    /// Some secret has a blank, which forms may write as `+`.
    blanks: bool,
    /// Maximum number of consecutive backslashes that a form may have.
    backslashes: usize,
    /// Bytes of the longest secret.
    pub longest: usize,
}

/// A set of grams with false positives.
struct Grams {
    bits: Vec<u64>,
    shift: u32,
}

impl Grams {
    fn new(count: usize) -> Self {
        let bits = (count * 32).next_power_of_two().clamp(1 << 10, 1 << 21);
        Self {
            bits: vec![0; bits / 64],
            shift: u32::BITS - bits.ilog2(),
        }
    }

    fn slot(&self, gram: &[u8], last: u8) -> (usize, u64) {
        let packed = u32::from_le_bytes([gram[0], gram[1], gram[2], last]);
        let slot = (packed.wrapping_mul(0x9E37_79B1) >> self.shift) as usize;
        (slot / 64, 1 << (slot % 64))
    }

    fn add(&mut self, gram: &[u8], last: u8) {
        let (word, bit) = self.slot(gram, last);
        self.bits[word] |= bit;
    }

    fn has(&self, gram: &[u8], last: u8) -> bool {
        let (word, bit) = self.slot(gram, last);
        self.bits[word] & bit != 0
    }
}

impl Needles {
    /// `secrets`: in bytewise order, each once, at least one and none empty.
    pub fn new(secrets: &[Zeroizing<String>]) -> Self {
        let patterns: Vec<&str> = secrets.iter().map(|secret| secret.as_str()).collect();
        let total: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let skip = (patterns.len() > QUICK_PATTERNS_MAX)
            .then(|| Skip::new(&patterns))
            .flatten();
        let start = match skip {
            Some(_) => StartKind::Both,
            None => StartKind::Unanchored,
        };
        let kind = match total <= DENSE_PATTERN_BYTES_MAX {
            true => AhoCorasickKind::DFA,
            false => AhoCorasickKind::ContiguousNFA,
        };
        let build = |kind| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .start_kind(start)
                .kind(kind)
                .build(&patterns)
        };
        // The builder fails only when state ids run out (2^31 pattern bytes); the noncontiguous form is its own fallback.
        let matcher = build(Some(kind)).or_else(|_| build(None)).expect(
            "patterns are bounded by the configuration file, far below the automaton's state limit",
        );
        let (mut bytes, mut pairs) = ([false; 256], Box::new([0; PAIR_WORDS]));
        let (mut heads, mut grams) = (Grams::new(patterns.len()), Grams::new(total));
        for pattern in &patterns {
            for byte in pattern.bytes() {
                bytes[usize::from(byte)] = true;
            }
            if let Some(head) = pattern.as_bytes().get(..GRAM) {
                let pair = pair(head[0], head[1]);
                pairs[pair / 64] |= 1 << (pair % 64);
                heads.add(head, 0);
            }
            for window in pattern.as_bytes().windows(GRAM + 1) {
                grams.add(window, window[GRAM]);
            }
        }
        Self {
            matcher,
            skip,
            bytes,
            written: std::array::from_fn(|byte| {
                bytes[byte] || matches!(byte as u8, b' '..=b'~' | b'\n' | b'\r' | b'\t')
            }),
            pairs,
            heads,
            grams,
            short: patterns.iter().any(|pattern| pattern.len() < GRAM),
            blanks: patterns.iter().any(|pattern| pattern.contains(' ')),
            backslashes: {
                let runs = patterns
                    .iter()
                    .flat_map(|pattern| pattern.split(|other| other != '\\').map(str::len));
                // The backslashes of a secret may be followed by those of an escape.
                BACKSLASHES_MIN.max((runs.max().unwrap_or(0) + 1) * BACKSLASHES_EACH)
            },
            longest: patterns
                .iter()
                .map(|pattern| pattern.len())
                .max()
                .unwrap_or(0),
            prefixes: Prefixes::new(secrets),
        }
    }

    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes that the tables occupy.
    pub fn memory_bytes(&self) -> usize {
        self.matcher.memory_usage()
            + self.prefixes.memory_bytes()
            + self.skip.as_ref().map_or(0, Skip::memory_bytes)
            + (PAIR_WORDS + self.heads.bits.len() + self.grams.bits.len()) * 8
    }

    /// Whether a secret of `least` bytes or more is written literally in `text`.
    pub fn contains_literal(&self, text: &[u8], least: usize) -> bool {
        let mut found = false;
        self.find_literal(text, least, &mut |_| found = true, &mut Watch::unlimited());
        found
    }

    /// The stretches of `text` in which a form of a secret of `least` bytes and more could be written: they consist of the secrets'
    /// own bytes and of the printable bytes, line ends and tabs that escapes and blocks are made of.
    pub fn candidates<'t>(
        &self,
        text: &'t [u8],
        least: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<'_, 't> {
        let is_other = |byte: &u8| !self.written[usize::from(*byte)];
        // Some entities decode to more bytes than they are written in, by a fifth.
        let window = (least * 3 / 4).max(1);
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                let piece = text.get(at..at + window)?;
                if let Some(other) = piece.iter().rposition(is_other) {
                    at += other + 1;
                    continue;
                }
                let after = &text[at + window..];
                let more = after.iter().position(is_other).unwrap_or(after.len());
                let found = at..at + window + more;
                at = found.end + 1;
                return Some(found);
            }
        })
    }

    /// Reports the ranges of secrets of `least` bytes or more that are written literally in `text`; overlapping ones may be reported
    /// as one.
    pub fn find_literal(
        &self,
        text: &[u8],
        least: usize,
        hit: &mut dyn FnMut(Range<usize>),
        watch: &mut Watch<'_>,
    ) {
        let mut misses = MISSES_MIN + text.len() / BYTES_PER_MISS;
        let (mut from, mut until) = (0, 0);
        loop {
            if from >= until {
                // A secret that begins before `until` ends in this stretch.
                until = text.len().min(from + STRETCH);
                if from == until || !watch.try_spend(until - from) {
                    return;
                }
            }
            let stretch = &text[..text.len().min(until + self.longest)];
            let Some(found) = self.next(stretch, from, &mut misses) else {
                from = until;
                continue;
            };
            if found.start() >= until {
                from = until;
                continue;
            }
            // Other matches may begin inside this one: they are followed together with what comes after it.
            let mut state = self.prefixes.after_secret(found.pattern().as_usize());
            let (mut at, mut end) = (found.end(), found.end());
            let mut place = if found.len() >= least {
                found.range()
            } else {
                0..0
            };
            while at < text.len() && at - (state.depth as usize) < end {
                if !watch.try_spend(1) {
                    return;
                }
                state = self.prefixes.next(state, text[at]);
                at += 1;
                let says = self.prefixes.secret_len(state) as usize;
                if says == 0 {
                    continue;
                }
                end = at;
                if says < least {
                    continue;
                }
                if place.end <= at - says {
                    let before = std::mem::replace(&mut place, at - says..at);
                    if !before.is_empty() {
                        hit(before);
                    }
                }
                place = place.start.min(at - says)..at;
            }
            if !place.is_empty() {
                hit(place);
            }
            if at == text.len() {
                return;
            }
            from = at - state.depth as usize;
        }
    }

    /// The leftmost match that starts at `from` or later; of several that start there, the longest.
    fn next(&self, text: &[u8], mut from: usize, misses: &mut usize) -> Option<Match> {
        let at = |from| Input::new(text).range(from..);
        if let Some(skip) = &self.skip {
            while *misses > 0 {
                from = skip.candidate(text, from)?;
                // A skip table exists only when every secret is at least as long as its head.
                if self.heads.has(&text[from..], 0) {
                    let found = self.matcher.find(at(from).anchored(Anchored::Yes));
                    if found.is_some() {
                        return found;
                    }
                    *misses -= 1;
                }
                from += 1;
            }
        }
        self.matcher.find(at(from))
    }

    /// Reports the ranges of secrets of `least` bytes or more of which at least one character is escaped; overlapping ones may be
    /// reported as one. `passed` receives every escape with its readings.
    pub fn find_escaped(
        &self,
        text: &[u8],
        least: usize,
        hit: &mut dyn FnMut(Range<usize>),
        passed: &mut dyn FnMut(usize, &[Reading]),
        watch: &mut Watch<'_>,
    ) {
        let mut introducers = Introducers::new(text, self.blanks);
        let Some(mut at) = introducers.next() else {
            return;
        };
        let mut walk = Walk {
            needles: self,
            text,
            escapes: Escapes::new(text),
            paths: Paths::new(&self.prefixes, text, least),
            before: LiteralPrefix {
                needles: self,
                text,
                at: 0,
                state: NO_PREFIX,
            },
            readings: Readings::new(),
        };
        let backslashes = self.bytes[usize::from(b'\\')];
        // The end of the last run of backslashes.
        let mut run_end = 0;
        loop {
            let reads = match text[at] {
                b'+' => !walk.paths.is_empty() || self.may_be_blank(text, at),
                b'\\' => {
                    let is_first = at >= run_end;
                    if is_first {
                        let run = text[at..].iter().take_while(|byte| **byte == b'\\');
                        run_end = at + run.count();
                    }
                    if is_first && backslashes {
                        let first = at.max(run_end.saturating_sub(self.backslashes));
                        walk.run(first..run_end, hit, passed, watch);
                    }
                    !backslashes && run_end - at < self.backslashes && begins_escape(text, at)
                }
                _ => begins_escape(text, at),
            };
            // A run of backslashes with one reading is reported once, not again for each shorter run inside it.
            let consumed = reads && walk.escape(at, hit, passed, watch) && text[at] == b'\\';
            if watch.is_over() {
                return;
            }
            let until = if consumed { run_end } else { at };
            match introducers.find(|next| *next >= until) {
                Some(next) => at = next,
                None => break,
            }
        }
        walk.paths.finish(hit);
    }

    /// Whether the `+` at `at` may be a blank of a secret that has no escape before it.
    fn may_be_blank(&self, text: &[u8], at: usize) -> bool {
        let before = at.checked_sub(GRAM).map(|from| &text[from..at]);
        before.is_none_or(|before| self.grams.has(before, b' '))
            || self.may_begin(text, at, &Reading::blank(at + 1))
    }

    /// Whether a secret may begin at `at` or within the gram before it, and continue with `reading` and the byte behind it.
    fn may_begin(&self, text: &[u8], at: usize, reading: &Reading) -> bool {
        let (first, second) = match reading.bytes() {
            [first] => (*first, None),
            [first, second, ..] => (*first, Some(*second)),
            [] => return false,
        };
        if self.short {
            return true;
        }
        // The next byte may begin an escape itself, or be a `+` for a blank.
        let after = || {
            let byte = text.get(reading.end).copied();
            byte.filter(|byte| !escape::introduces(*byte) && *byte != b'+')
        };
        let second = second.or_else(after);
        let pairs = |byte: u8| second.is_none_or(|second| self.has_pair(pair(byte, second)));
        if self.prefixes.begins(first) && pairs(first) {
            return true;
        }
        let Some(&before) = at.checked_sub(1).and_then(|at| text.get(at)) else {
            return false;
        };
        let heads = |second: u8| self.heads.has(&[before, first, second], 0);
        if self.has_pair(pair(before, first)) && second.is_none_or(heads) {
            return true;
        }
        at >= 2
            && self.has_pair(pair(text[at - 2], before))
            && self.heads.has(&[text[at - 2], before, first], 0)
    }

    fn has_pair(&self, pair: usize) -> bool {
        self.pairs[pair / 64] & 1 << (pair % 64) != 0
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// The positions in a text where an escape may begin, or where a `+` may stand for a blank.
struct Introducers<'t> {
    text: &'t [u8],
    blanks: bool,
    /// One bit for each byte from `from` on: set when the byte is an introducer that was not returned yet.
    found: u64,
    from: usize,
    /// The first introducer of each kind behind those bytes.
    escape: usize,
    blank: usize,
}

impl<'t> Introducers<'t> {
    fn new(text: &'t [u8], blanks: bool) -> Self {
        let mut introducers = Self {
            text,
            blanks,
            found: 0,
            from: 0,
            escape: 0,
            blank: 0,
        };
        introducers.found = introducers.introducer_bits(0);
        introducers
    }

    /// The bits of the introducers among the bytes from `from` on.
    fn introducer_bits(&self, from: usize) -> u64 {
        let rest = &self.text[from..];
        let blank = if self.blanks { b'+' } else { b'%' };
        let is_one = |byte: &u8| escape::introduces(*byte) | (*byte == blank);
        let Some(bytes) = rest.first_chunk::<LANE_BYTES>() else {
            // Fewer bytes are left; many texts are that short.
            let bits = (0..).zip(rest).filter(|(_, byte)| is_one(byte));
            return bits.fold(0, |bits, (at, _)| bits | 1 << at);
        };
        let mut each = [0; LANE_BYTES];
        for (one, byte) in each.iter_mut().zip(bytes) {
            *one = u8::from(is_one(byte));
        }
        let (words, _) = each.as_chunks::<8>();
        words.iter().rev().fold(0, |bits, word| {
            bits << 8 | u64::from_le_bytes(*word).wrapping_mul(EIGHTH_BITS) >> 56
        })
    }

    /// Advances to the next bytes with an introducer; false when there are none. Introducers tend to be close together.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        let text = self.text;
        self.from = text.len().min(self.from + LANE_BYTES);
        self.found = self.introducer_bits(self.from);
        if self.found != 0 {
            return true;
        }
        let from = text.len().min(self.from + LANE_BYTES);
        let far = |found: Option<usize>| found.map_or(text.len(), |found| from + found);
        if self.escape < from {
            self.escape = far(memchr::memchr3(b'%', b'\\', b'&', &text[from..]));
        }
        if self.blank < from {
            let blank = self.blanks.then(|| memchr::memchr(b'+', &text[from..]));
            self.blank = far(blank.flatten());
        }
        self.from = self.escape.min(self.blank);
        self.found = self.introducer_bits(self.from);
        self.found != 0
    }
}

impl Iterator for Introducers<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.found == 0 && !self.advance() {
            return None;
        }
        let at = self.from + self.found.trailing_zeros() as usize;
        self.found &= self.found - 1;
        Some(at)
    }
}

/// Whether the introducer at `at` can begin an escape, judged by the next byte alone.
fn begins_escape(text: &[u8], at: usize) -> bool {
    let next = text.get(at + 1);
    next.is_some_and(|next| escape::may_begin(text[at], *next))
}

/// A walk through the escapes of a text.
struct Walk<'n> {
    needles: &'n Needles,
    text: &'n [u8],
    escapes: Escapes<'n>,
    paths: Paths<'n>,
    before: LiteralPrefix<'n>,
    readings: Readings,
}

impl Walk<'_> {
    /// Processes the escape at `at`. True when it has one reading and no path that began before it continues with it.
    #[inline]
    fn escape(
        &mut self,
        at: usize,
        hit: &mut dyn FnMut(Range<usize>),
        passed: &mut dyn FnMut(usize, &[Reading]),
        watch: &mut Watch<'_>,
    ) -> bool {
        let one = self.escapes.read_single(at);
        watch.try_spend(WORK_PER_ESCAPE + self.paths.open() * WORK_PER_WAY);
        if let Some(one) = one.filter(|one| self.paths.is_empty() && !self.is_plus_for_blank(one)) {
            let (byte, one) = (one.bytes()[0], [one]);
            if self.needles.bytes[usize::from(byte)]
                && let Some(begun) = self.before.escape(at, &one)
            {
                self.paths.escape(at, Some(begun), &one, hit);
            }
            if blocks::may_belong(byte) {
                passed(at, &one);
            }
            return true;
        }
        self.read(at, one, watch);
        if !self.paths.is_empty() {
            self.paths.advance_to(at, hit);
        }
        let begun = self.before.escape(at, &self.readings);
        if begun.is_some() || !self.paths.is_empty() {
            self.paths.escape(at, begun, &self.readings, hit);
        }
        if self.text[at] != b'+' && !self.readings.is_empty() {
            passed(at, &self.readings);
        }
        false
    }

    /// Whether `reading` is a `+` that may stand for a blank.
    fn is_plus_for_blank(&self, reading: &Reading) -> bool {
        self.needles.blanks && reading.ascii() == Some(b'+')
    }

    /// Processes a run of backslashes, each of which may belong to a secret.
    #[inline(never)]
    fn run(
        &mut self,
        run: Range<usize>,
        hit: &mut dyn FnMut(Range<usize>),
        passed: &mut dyn FnMut(usize, &[Reading]),
        watch: &mut Watch<'_>,
    ) {
        let mut in_run: Vec<RunEscape> = Vec::new();
        for at in run.start.max(run.end.saturating_sub(BACKSLASHES_EACH))..run.end {
            self.read(at, self.escapes.read_single(at), watch);
            for reading in &self.readings {
                let same = |(_, other, _): &&RunEscape| other.reads_as(reading);
                let before = in_run.iter().rev().find(same).map(|(at, ..)| *at);
                in_run.push((at, *reading, before));
            }
            if !self.readings.is_empty() {
                passed(at, &self.readings);
            }
            watch.try_spend(WORK_PER_ESCAPE + self.paths.open() * WORK_PER_WAY);
        }
        self.paths.advance_to(run.start, hit);
        let here = in_run.iter().take_while(|(at, ..)| *at == run.start);
        let mut here: Readings = here.map(|(_, reading, _)| *reading).collect();
        here.push(Reading::from_byte(b'\\', run.start + 1));
        let begun = self.before.escape(run.start, &here);
        self.paths.run(run, begun, &in_run, hit);
    }

    /// Collects the readings of the escape at `at`; `one` is its only reading if known. A form may write a blank as `+`, which may be
    /// escaped in turn.
    #[inline]
    fn read(&mut self, at: usize, one: Option<Reading>, watch: &mut Watch<'_>) {
        let (text, readings) = (self.text, &mut self.readings);
        readings.clear();
        match one {
            Some(one) => readings.push(one),
            None if text[at] != b'+' => self.escapes.read(at, readings, watch),
            None => {}
        }
        if self.needles.blanks {
            for at in 0..readings.len() {
                if readings[at].ascii() == Some(b'+') {
                    readings.push(Reading::blank(readings[at].end));
                }
            }
            if text[at] == b'+' {
                readings.push(Reading::blank(at + 1));
            }
        }
    }
}

/// Tracks which secrets the literal text before an escape begins.
struct LiteralPrefix<'n> {
    needles: &'n Needles,
    text: &'n [u8],
    /// The position up to which this is fully known, and the state there.
    at: usize,
    state: PrefixState,
}

impl LiteralPrefix<'_> {
    /// The secrets begun by the literal text before `at` (possibly none of it) that may continue with one of `readings`.
    fn escape(&mut self, at: usize, readings: &[Reading]) -> Option<PrefixState> {
        let (needles, text) = (self.needles, self.text);
        // Farther back than these bytes, every gram of the beginning of a secret is a gram of that secret.
        let gram = |from: usize| {
            needles
                .grams
                .has(&text[from..from + GRAM], text[from + GRAM])
        };
        let (mut far, mut near) = (None, false);
        for reading in readings {
            let first = reading.bytes()[0];
            if !needles.bytes[usize::from(first)] {
                continue;
            }
            let before = at.checked_sub(GRAM);
            if let Some(from) = before.filter(|from| needles.grams.has(&text[*from..at], first)) {
                far = Some(from);
                break;
            }
            near = near || needles.may_begin(text, at, reading);
        }
        let mut from = match far {
            Some(from) => from,
            None if near => at.saturating_sub(GRAM - 1),
            None => return None,
        };
        let farthest = self.at.max(at.saturating_sub(needles.longest));
        while far.is_some() && from > farthest && gram(from - 1) {
            from -= 1;
        }
        let (from, mut state) = match from <= self.at {
            true => (self.at, self.state),
            false => (from, NO_PREFIX),
        };
        for byte in &text[from..at] {
            state = needles.prefixes.next(state, *byte);
        }
        // Otherwise secrets that begin before the few examined bytes are not known.
        if far.is_some() || from == self.at {
            (self.at, self.state) = (at, state);
        }
        Some(state)
    }
}
