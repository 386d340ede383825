//! The secrets of one scrub set, prepared to be found: as they stand, and behind escapes. Knows nothing of blocks or markers.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Anchored, Input, Match, MatchKind, StartKind};
use zeroize::Zeroizing;

use crate::escape::{self, Credit, Reading, Readings};
use crate::skip::Skip;

/// Up to this many pattern bytes the automaton is a dense table (fast on text full of near misses); above it, a compact one.
const DENSE_PATTERN_BYTES_MAX: usize = 8 * 1024;
/// Up to this many patterns the automaton itself knows a quick way past text without secrets.
const QUICK_PATTERNS_MAX: usize = 64;
/// Places where a secret could start and did not, before and per so many bytes of text, after which skipping is given up: text
/// full of near misses must not cost more than one pass of the automaton.
const MISSES_MIN: usize = 64;
const BYTES_PER_MISS: usize = 512;
/// A longer run of backslashes begins no escape but at its end.
const BACKSLASHES_MAX: usize = 48;
/// States of one walk, at least and by byte of the longest secret: paths through ambiguous escapes beyond that are those of text
/// made to have many.
const STATES_MAX: usize = 4096;
const STATES_PER_BYTE: usize = 16;
/// Bytes of the pieces of secrets that stand before an escape.
const GRAM: usize = 3;
/// Words of a set of pairs of bytes.
const PAIR_WORDS: usize = (1 << 16) / 64;

/// Secrets in bytewise order, each once and none empty.
pub(crate) struct Needles {
    secrets: Vec<Zeroizing<String>>,
    matcher: AhoCorasick,
    /// For more patterns than the automaton is quick with.
    skip: Option<Skip>,
    /// By first byte: the secrets that begin with it.
    first: Vec<Range<usize>>,
    /// The bytes that secrets have anywhere.
    bytes: [bool; 256],
    /// What secrets begin with, two bytes of it and a gram, and what they have before any of their bytes.
    pairs: Box<[u64; PAIR_WORDS]>,
    heads: Grams,
    grams: Grams,
    /// Some secret is shorter than a gram.
    short: bool,
    /// Some secret has a blank, which forms write as `+`.
    blanks: bool,
    /// Bytes of the longest secret.
    pub longest: usize,
}

/// A set of grams, with false hits.
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

/// A place in a text, and the secrets that what was read up to it begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    at: usize,
    depth: usize,
    low: usize,
    high: usize,
}

impl Needles {
    /// `secrets`: in bytewise order, each once, at least one and none empty.
    pub fn new(secrets: Vec<Zeroizing<String>>) -> Self {
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
        let mut needles = Self {
            matcher,
            skip,
            first: vec![0..0; 256],
            bytes: [false; 256],
            pairs: Box::new([0; PAIR_WORDS]),
            heads: Grams::new(patterns.len()),
            grams: Grams::new(total),
            short: patterns.iter().any(|pattern| pattern.len() < GRAM),
            blanks: patterns.iter().any(|pattern| pattern.contains(' ')),
            longest: patterns
                .iter()
                .map(|pattern| pattern.len())
                .max()
                .unwrap_or(0),
            secrets: Vec::new(),
        };
        for (index, pattern) in patterns.iter().enumerate() {
            let bytes = pattern.as_bytes();
            let begin = &mut needles.first[usize::from(bytes[0])];
            *begin = match begin.end {
                0 => index..index + 1,
                _ => begin.start..index + 1,
            };
            for byte in bytes {
                needles.bytes[usize::from(*byte)] = true;
            }
            if let Some(head) = bytes.get(..GRAM) {
                let pair = pair(head[0], head[1]);
                needles.pairs[pair / 64] |= 1 << (pair % 64);
                needles.heads.add(head, 0);
            }
            for window in bytes.windows(GRAM + 1) {
                needles.grams.add(window, window[GRAM]);
            }
        }
        needles.secrets = secrets;
        needles
    }

    /// How many secrets there are.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Bytes that the tables occupy.
    pub fn memory_bytes(&self) -> usize {
        self.matcher.memory_usage()
            + self.skip.as_ref().map_or(0, Skip::memory_bytes)
            + (PAIR_WORDS + self.heads.bits.len() + self.grams.bits.len()) * 8
    }

    /// Whether a secret of `least` bytes or more stands in `text` as it is.
    pub fn stands_in(&self, text: &[u8], least: usize) -> bool {
        let mut found = false;
        self.standing(text, least, &mut |_| found = true);
        found
    }

    /// The places of secrets of `least` bytes or more that stand in `text` as they are.
    pub fn standing(&self, text: &[u8], least: usize, hit: &mut dyn FnMut(Range<usize>)) {
        let mut from = 0;
        while let Some(found) = self.next(text, from) {
            if found.len() >= least {
                hit(found.range());
            }
            from = found.start() + 1;
        }
    }

    /// The leftmost match that starts at `from` or later, the longest of those that start there.
    fn next(&self, text: &[u8], mut from: usize) -> Option<Match> {
        let at = |from| Input::new(text).range(from..);
        if let Some(skip) = &self.skip {
            for _ in 0..MISSES_MIN + text.len() / BYTES_PER_MISS {
                from = skip.candidate(text, from)?;
                let found = self.matcher.find(at(from).anchored(Anchored::Yes));
                if found.is_some() {
                    return found;
                }
                from += 1;
            }
        }
        self.matcher.find(at(from))
    }

    /// The places of secrets of `least` bytes or more of which at least one character is escaped. `passed` is told every escape
    /// with its readings.
    pub fn escaped(
        &self,
        text: &[u8],
        least: usize,
        hit: &mut dyn FnMut(Range<usize>),
        passed: &mut dyn FnMut(usize, &[Reading]),
    ) {
        let mut walker = Walker {
            needles: self,
            text,
            least,
            open: Vec::new(),
            readings: Readings::new(),
            credit: Credit::new(),
        };
        let mut readings = Readings::new();
        for at in memchr::memchr3_iter(b'%', b'\\', b'&', text) {
            let next = text.get(at + 1);
            if next.is_none_or(|next| !escape::may_begin(text[at], *next)) {
                continue;
            }
            if text[at] == b'\\'
                && text[at..]
                    .iter()
                    .take(BACKSLASHES_MAX)
                    .eq([b'\\'; BACKSLASHES_MAX].iter())
            {
                continue;
            }
            walker.credit.reach(at);
            self.read(text, at, &mut walker.credit, &mut readings);
            if !readings.is_empty() {
                walker.around(at, &readings, hit);
                passed(at, &readings);
            }
        }
        if self.blanks {
            for at in memchr::memchr_iter(b'+', text) {
                self.read(text, at, &mut walker.credit, &mut readings);
                walker.around(at, &readings, hit);
            }
        }
    }

    /// The readings of the escape at `at`. A form writes a blank as `+`, which may be escaped in turn.
    fn read(&self, text: &[u8], at: usize, credit: &mut Credit, readings: &mut Readings) {
        readings.clear();
        escape::read(text, at, credit, readings);
        if self.blanks {
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

    fn begins(&self, byte: u8) -> bool {
        self.first[usize::from(byte)].end > 0
    }

    /// Whether a secret may begin with `before`, of fewer bytes than a gram, and then what `reading` says and what stands behind it.
    fn may_begin(&self, text: &[u8], before: &[u8], reading: &Reading) -> bool {
        if self.short {
            return true;
        }
        let (mut head, mut length) = ([0; GRAM], before.len());
        head[..length].copy_from_slice(before);
        for byte in reading.said().iter().take(GRAM - length) {
            head[length] = *byte;
            length += 1;
        }
        if !self.begins(head[0]) {
            return false;
        }
        let mut at = reading.end;
        while length < GRAM
            && let Some(byte) = text.get(at)
            // What stands behind may be an escape in turn, or a blank's stand-in.
            && !escape::introduces(*byte)
            && *byte != b'+'
        {
            head[length] = *byte;
            (length, at) = (length + 1, at + 1);
        }
        let pair = pair(head[0], head[1]);
        match length {
            GRAM => self.has_pair(pair) && self.heads.has(&head, 0),
            2 => self.has_pair(pair),
            _ => true,
        }
    }

    fn has_pair(&self, pair: usize) -> bool {
        self.pairs[pair / 64] & 1 << (pair % 64) != 0
    }

    /// The state behind `said`, when a secret goes on so.
    fn step(&self, mut state: State, said: &[u8], end: usize) -> Option<State> {
        for byte in said {
            if state.depth == 0 {
                let first = &self.first[usize::from(*byte)];
                (state.low, state.high) = (first.start, first.end);
            } else {
                let depth = state.depth;
                let next = |secret: &Zeroizing<String>| secret.as_bytes().get(depth).copied();
                let range = &self.secrets[state.low..state.high];
                let low = range.partition_point(|secret| next(secret) < Some(*byte));
                let high = range.partition_point(|secret| next(secret) <= Some(*byte));
                (state.low, state.high) = (state.low + low, state.low + high);
            }
            if state.low >= state.high {
                return None;
            }
            state.depth += 1;
        }
        state.at = end;
        Some(state)
    }
}

/// The number of a pair of bytes.
fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// Follows secrets through the escapes of one text.
struct Walker<'n> {
    needles: &'n Needles,
    text: &'n [u8],
    /// Bytes of the secrets that are looked for, at least.
    least: usize,
    /// Of the walk under way: where it goes on, and what is being read.
    open: Vec<State>,
    readings: Readings,
    credit: Credit,
}

impl Walker<'_> {
    /// Tells `hit` the secrets whose first escaped character is the one at `at`.
    fn around(&mut self, at: usize, readings: &[Reading], hit: &mut dyn FnMut(Range<usize>)) {
        let (needles, text) = (self.needles, self.text);
        let known = |byte: &u8| needles.bytes[usize::from(*byte)];
        let mut firsts = readings.iter().filter_map(|reading| reading.said().first());
        if !firsts.clone().any(known) {
            return;
        }
        for back in 0..GRAM.min(at + 1) {
            let from = at - back;
            let may = |reading: &Reading| needles.may_begin(text, &text[from..at], reading);
            if back > 0 && !needles.begins(text[from]) {
                continue;
            }
            if readings.iter().any(may) {
                self.walk(from, hit);
            }
        }
        // Farther back all that stands before it is a secret's beginning as it is, and every gram of it is one of a secret.
        let Some(mut from) = at.checked_sub(GRAM) else {
            return;
        };
        if !firsts.any(|byte| needles.grams.has(&text[from..at], *byte)) {
            return;
        }
        let farthest = at.saturating_sub(needles.longest);
        loop {
            let gram = &text[from..from + GRAM];
            if needles.heads.has(gram, 0) && needles.has_pair(pair(gram[0], gram[1])) {
                self.walk(from, hit);
            }
            if from == farthest
                || !needles
                    .grams
                    .has(&text[from - 1..from - 1 + GRAM], text[from - 1 + GRAM])
            {
                return;
            }
            from -= 1;
        }
    }

    /// Tells `hit` the longest secret whose form begins at `from`.
    fn walk(&mut self, from: usize, hit: &mut dyn FnMut(Range<usize>)) {
        let needles = self.needles;
        let mut farthest = None;
        self.open.clear();
        self.open.push(State {
            at: from,
            depth: 0,
            low: 0,
            high: needles.secrets.len(),
        });
        let mut count = 0;
        // Every step leads on in the text, so that the first place first meets each state once.
        while let Some(state) = self.open.pop() {
            count += 1;
            if count > STATES_MAX.max(needles.longest * STATES_PER_BYTE) {
                break;
            }
            if state.depth >= self.least.max(1) && needles.secrets[state.low].len() == state.depth {
                farthest = farthest.max(Some(state.at));
            }
            let Some(&byte) = self.text.get(state.at) else {
                continue;
            };
            if escape::introduces(byte) || byte == b'+' {
                needles.read(self.text, state.at, &mut self.credit, &mut self.readings);
                for reading in &self.readings {
                    if let Some(step) = needles.step(state, reading.said(), reading.end) {
                        meet(&mut self.open, step);
                    }
                }
            }
            if let Some(step) = needles.step(state, &[byte], state.at + 1) {
                meet(&mut self.open, step);
            }
        }
        if let Some(end) = farthest {
            hit(from..end);
        }
    }
}

/// Adds a state to those that are open, the first place last, unless it is among them.
fn meet(open: &mut Vec<State>, state: State) {
    let place = open.binary_search_by(|known| state.cmp(known));
    if let Err(place) = place {
        open.insert(place, state);
    }
}
