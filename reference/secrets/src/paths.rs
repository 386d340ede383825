//! Follows secrets along all readings of a text with escapes. At an escape, a path continues at the end of each of its readings;
//! at any other byte, at the next byte. The automaton of the secrets gives each path a state. Paths with the same state at the
//! same position are merged, and a path whose state is a suffix of another's is dropped where the other covers it. So each position
//! is passed only a few times, however many paths began before it. Knows nothing of how escapes are written.

use std::ops::Range;

use smallvec::SmallVec;

use crate::escape::{DEPTH, Reading};
use crate::prefixes::{NO_PREFIX, PrefixState, Prefixes};

/// Maximum number of states that are followed at the same time: as many as eight backslashes escaped four times need, and many
/// more than other real text needs.
const OPEN_MAX: usize = 128;
/// The maximum when the text has used up its steps.
const OPEN_MAX_OUT_OF_STEPS: usize = 6;
/// Comparing this many paths takes about as long as one step.
const COMPARED_PER_STEP: usize = 64;
/// The step budget of a text: its initial value, which is also the maximum, and what each byte adds to it.
const STEPS_SAVED_MAX: u32 = 32 * 1024;
const STEPS_PER_BYTE: u32 = 12;
/// Number of stored escapes at which those that no open path needs are first discarded.
const CRUMBS_MIN: usize = 4096;
/// Stands for the absence of an escape before the first one of a path.
const START: u32 = u32::MAX;

/// An open path: a position in the text and what was read up to it, with at least one escape.
#[derive(Clone, Copy)]
struct OpenPath {
    at: usize,
    state: PrefixState,
    /// Literal bytes since the last escape.
    plain: u32,
    /// The last escape.
    crumb: u32,
    /// Where the text that was read begins, or a position before that.
    from: usize,
    /// `from` may be too early: a longer beginning did not continue, so the actual beginning is later.
    loose: bool,
}

/// An escape on a path.
#[derive(Clone, Copy)]
struct Crumb {
    /// The escape before it, or `START`.
    before: u32,
    /// Literal bytes between the two.
    plain: u32,
    /// Where it begins, and the number of bytes that it stands for.
    at: usize,
    len: u32,
    /// It is a run of backslashes; each byte is written as some of them.
    run: bool,
}

/// Maximum number of backslashes that encode one backslash.
const BACKSLASHES_EACH: usize = 1 << DEPTH;

/// A possible escape in a run of backslashes: where it begins, its reading, and the position of an earlier escape with the same
/// reading.
pub(crate) type RunEscape = (usize, Reading, Option<usize>);

/// The open paths, with their most-used fields in separate arrays so that several can be compared at once.
struct OpenPaths {
    paths: Vec<OpenPath>,
    /// For each path: the low 32 bits of its position.
    places: [u32; OPEN_MAX],
    /// For each path: the depth of its state; `u32::MAX` in unused entries.
    depths: [u32; OPEN_MAX],
}

/// Paths that are compared at once.
const COMPARED: usize = 16;
const _: () = assert!(OPEN_MAX.is_multiple_of(COMPARED));

impl OpenPaths {
    fn new() -> Self {
        Self {
            paths: Vec::new(),
            places: [0; OPEN_MAX],
            depths: [u32::MAX; OPEN_MAX],
        }
    }

    /// Adds a path; there must be room.
    fn push(&mut self, path: OpenPath) {
        self.paths.push(path);
        self.set(self.paths.len() - 1, path);
    }

    fn set(&mut self, index: usize, path: OpenPath) {
        self.paths[index] = path;
        self.places[index] = path.at as u32;
        self.depths[index] = path.state.depth;
    }

    /// Removes a path; the last one takes its index.
    fn take(&mut self, index: usize) {
        let last = self.paths.len() - 1;
        self.paths.swap_remove(index);
        self.places[index] = self.places[last];
        self.depths[index] = self.depths[last];
        self.depths[last] = u32::MAX;
    }

    /// The first path from index `from` on that is at position `at`.
    fn at(&self, at: usize, from: usize) -> Option<usize> {
        let (chunks, _) = self.places.as_chunks::<COMPARED>();
        let used = self.paths.len().div_ceil(COMPARED);
        let mut from = from;
        for (chunk, first) in chunks.iter().zip((0..).step_by(COMPARED)).take(used) {
            let is_there = |any, place: &u32| any | (*place == at as u32);
            if first + COMPARED <= from || !chunk.iter().fold(false, is_there) {
                continue;
            }
            let last = self.paths.len().min(first + COMPARED);
            from = from.max(first);
            if let Some(index) = self.paths[from..last].iter().position(|path| path.at == at) {
                return Some(from + index);
            }
        }
        None
    }

    /// The first of the paths with the smallest depth.
    fn shortest(&self) -> Option<usize> {
        let least = self
            .depths
            .iter()
            .fold(u32::MAX, |least, depth| least.min(*depth));
        let mut depths = self.depths[..self.paths.len()].iter();
        depths.position(|depth| *depth == least)
    }
}

pub(crate) struct Paths<'n> {
    prefixes: &'n Prefixes,
    text: &'n [u8],
    /// Minimum bytes of the secrets to find.
    least: u32,
    open: OpenPaths,
    crumbs: Vec<Crumb>,
    crumbs_max: usize,
    /// The last match, joined with the matches that it overlaps; not reported yet.
    found: Range<usize>,
    steps: u32,
    /// The position up to which the text has added to the step budget.
    credited: usize,
}

impl<'n> Paths<'n> {
    pub fn new(prefixes: &'n Prefixes, text: &'n [u8], least: usize) -> Self {
        Self {
            prefixes,
            text,
            least: least.max(1) as u32,
            open: OpenPaths::new(),
            crumbs: Vec::new(),
            crumbs_max: CRUMBS_MIN,
            found: 0..0,
            steps: STEPS_SAVED_MAX,
            credited: 0,
        }
    }

    /// Whether no path is open.
    pub fn is_empty(&self) -> bool {
        self.open.paths.is_empty()
    }

    /// The number of open paths.
    pub fn open(&self) -> usize {
        self.open.paths.len()
    }

    /// Follows all paths up to `at`; every escape before it must have been passed to [`escape`](Self::escape).
    pub fn advance_to(&mut self, at: usize, hit: &mut dyn FnMut(Range<usize>)) {
        let more = (at - self.credited) as u64 * u64::from(STEPS_PER_BYTE);
        self.steps = (u64::from(self.steps) + more).min(u64::from(STEPS_SAVED_MAX)) as u32;
        self.credited = at;
        let mut next = 0;
        while let Some(&open) = self.open.paths.get(next) {
            match open.at < at {
                false => next += 1,
                true => match self.follow_literal(open, at, hit) {
                    Some(open) => {
                        self.open.set(next, open);
                        next += 1;
                    }
                    None => self.open.take(next),
                },
            }
        }
    }

    /// Continues from the position that was [advanced to](Self::advance_to) with each of the `readings`: the paths that lead there, and
    /// `begun`, the beginning of a secret in the literal text before it. The former also continue with the literal byte.
    pub fn escape(
        &mut self,
        at: usize,
        begun: Option<PrefixState>,
        readings: &[Reading],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        if self.crumbs.len() > self.crumbs_max {
            self.discard_crumbs();
        }
        let mut here = self.take(at);
        // A path with at least as many literal bytes at its end already covers the literal beginning.
        let told = |state: &PrefixState| here.iter().any(|open| state.depth <= open.plain);
        if let Some(state) = begun.filter(|state| !told(state)) {
            here.push(OpenPath {
                at,
                state,
                plain: state.depth,
                crumb: START,
                from: at - state.depth as usize,
                loose: false,
            });
        }
        for open in &here {
            for reading in readings {
                self.read(*open, reading, hit);
            }
            if open.crumb != START
                && let Some(open) = self.follow_literal(*open, at + 1, hit)
            {
                self.add(open);
            }
        }
        if self.is_empty() {
            self.crumbs.clear();
        }
    }

    /// Like [`escape`](Self::escape) for all positions of the run of backslashes at `run`, whose first position was
    /// [advanced to](Self::advance_to). Each backslash of a secret may be written as up to [`BACKSLASHES_EACH`] backslashes, so how many
    /// are read at each position follows from counting. `readings`: the other escapes in the run.
    pub fn run(
        &mut self,
        run: Range<usize>,
        begun: Option<PrefixState>,
        readings: &[RunEscape],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        if self.crumbs.len() > self.crumbs_max {
            self.discard_crumbs();
        }
        let mut here = self.take(run.end - 1);
        let begun = begun.unwrap_or(NO_PREFIX);
        let told = |open: &OpenPath| open.at == run.start && begun.depth <= open.plain;
        if !here.iter().any(told) {
            here.push(OpenPath {
                at: run.start,
                state: begun,
                plain: begun.depth,
                crumb: START,
                from: run.start - begun.depth as usize,
                loose: false,
            });
        }
        for open in here {
            self.follow_run(open, run.end, readings, hit);
        }
        if self.is_empty() {
            self.crumbs.clear();
        }
    }

    /// Continues one path through its run of backslashes, which ends at `end`.
    fn follow_run(
        &mut self,
        open: OpenPath,
        end: usize,
        readings: &[RunEscape],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        let (mut path, mut len) = (open, 0);
        loop {
            let next = self.prefixes.next(path.state, b'\\');
            // Further backslashes don't change the state.
            let last = next == path.state;
            let least = open.at + len as usize;
            let most = match last {
                true => end,
                false => end.min(open.at + len as usize * BACKSLASHES_EACH),
            };
            for (at, reading, before) in readings {
                if (least..=most).contains(at) && before.is_none_or(|before| before < least) {
                    self.read(OpenPath { at: *at, ..path }, reading, hit);
                }
            }
            if len > 0 {
                let secret_len = self.prefixes.secret_len(path.state);
                if secret_len >= self.least && secret_len > 0 {
                    let begin = self.match_start(&OpenPath { at: least, ..path }, secret_len);
                    self.add_match(begin..most, hit);
                }
                if most == end {
                    self.add(OpenPath { at: end, ..path });
                }
            }
            self.steps = self.steps.saturating_sub(1);
            if last || least == end || next.depth == 0 {
                return;
            }
            len += 1;
            self.crumbs.push(Crumb {
                before: open.crumb,
                plain: open.plain,
                at: open.at,
                len,
                run: true,
            });
            path = OpenPath {
                at: open.at,
                state: next,
                plain: 0,
                crumb: self.crumbs.len() as u32 - 1,
                from: open.from,
                loose: open.loose || next.depth < open.state.depth + len,
            };
        }
    }

    /// Removes and returns all paths at positions up to `last`; of those that meet only now, one is dropped where another
    /// covers it.
    fn take(&mut self, last: usize) -> SmallVec<[OpenPath; 4]> {
        let mut next = 0;
        let mut here: SmallVec<[OpenPath; 4]> = SmallVec::new();
        while let Some(&open) = self.open.paths.get(next) {
            if open.at > last {
                next += 1;
                continue;
            }
            self.open.take(next);
            let mut open = open;
            let mut known = 0;
            let covered = loop {
                let Some(mut other) = here.get(known).copied() else {
                    break false;
                };
                if other.at == open.at {
                    if self.covers(&mut other, &mut open) {
                        break true;
                    }
                    if self.covers(&mut open, &mut other) {
                        here.swap_remove(known);
                        continue;
                    }
                }
                known += 1;
            };
            if !covered {
                here.push(open);
            }
        }
        here
    }

    /// Follows all paths to the end of the text and reports the last match.
    pub fn finish(mut self, hit: &mut dyn FnMut(Range<usize>)) {
        self.advance_to(self.text.len(), hit);
        if !self.found.is_empty() {
            hit(self.found);
        }
    }

    /// Continues a path literally up to `at`; `None` once its state no longer includes an escape.
    fn follow_literal(
        &mut self,
        mut open: OpenPath,
        at: usize,
        hit: &mut dyn FnMut(Range<usize>),
    ) -> Option<OpenPath> {
        let begun = open.at;
        while open.at < at && open.state.depth > open.plain {
            let byte = self.text[open.at];
            let before = open.state.depth;
            open.state = self.prefixes.next(open.state, byte);
            open.loose |= open.state.depth <= before;
            open.at += 1;
            open.plain += 1;
            self.report(&open, hit);
        }
        self.steps = self.steps.saturating_sub((open.at - begun) as u32);
        (open.state.depth > open.plain).then_some(open)
    }

    fn read(&mut self, open: OpenPath, reading: &Reading, hit: &mut dyn FnMut(Range<usize>)) {
        let len = reading.bytes().len() as u32;
        let next = |state, byte: &u8| self.prefixes.next(state, *byte);
        let state = reading.bytes().iter().fold(open.state, next);
        self.steps = self.steps.saturating_sub(len);
        if state.depth == 0 {
            return;
        }
        let crumb = Crumb {
            before: open.crumb,
            plain: open.plain,
            at: open.at,
            len,
            run: false,
        };
        self.crumbs.push(crumb);
        let (from, loose) = match state.depth <= len {
            true => (open.at, false),
            false => (
                open.from,
                open.loose || state.depth < open.state.depth + len,
            ),
        };
        let open = OpenPath {
            at: reading.end,
            state,
            plain: 0,
            crumb: self.crumbs.len() as u32 - 1,
            from,
            loose,
        };
        self.report(&open, hit);
        self.add(open);
    }

    /// Adds a path, unless another one at its position covers it, or there are too many and it has the smallest depth.
    fn add(&mut self, new: OpenPath) {
        // The cost of comparing it with all open paths.
        let compared = self.open.paths.len() / COMPARED_PER_STEP;
        self.steps = self.steps.saturating_sub(compared as u32);
        let (mut new, mut from) = (new, 0);
        while let Some(index) = self.open.at(new.at, from) {
            let mut other = self.open.paths[index];
            self.steps = self.steps.saturating_sub(1);
            if self.covers(&mut other, &mut new) {
                return self.open.set(index, other);
            }
            match self.covers(&mut new, &mut other) {
                true => self.open.take(index),
                false => from = index + 1,
            }
        }
        let most = match self.steps {
            0 => OPEN_MAX_OUT_OF_STEPS,
            _ => OPEN_MAX,
        };
        if self.open.paths.len() < most {
            return self.open.push(new);
        }
        if let Some(shortest) = self.open.shortest()
            && self.open.paths[shortest].state.depth < new.state.depth
        {
            self.open.set(shortest, new);
        }
    }

    /// Whether every match on the path `short` is also a match on `long`, which is at the same position, and begins no later
    /// there.
    fn covers(&mut self, long: &mut OpenPath, short: &mut OpenPath) -> bool {
        if !self.prefixes.ends_with(long.state, short.state) {
            return false;
        }
        // Exact beginnings matter only while the step budget lasts.
        if self.steps == 0 {
            return true;
        }
        let length = short.state.depth;
        // A continuation from inside the last match extends that match, wherever it begins in it.
        let least = (length as usize * 3).div_ceil(4);
        if short.from >= self.found.start && long.at < self.found.end + least {
            return true;
        }
        let begin = self.path_start(short);
        let other = match length == long.state.depth {
            true => self.path_start(long),
            false if length <= long.plain => long.at - length as usize,
            false => self.match_start(long, length),
        };
        other <= begin
    }

    /// Where the text that was read on a path begins.
    fn path_start(&mut self, open: &mut OpenPath) -> usize {
        if open.loose {
            open.from = self.match_start(open, open.state.depth);
            open.loose = false;
        }
        open.from
    }

    /// Records a match that ends here and contains an escape.
    fn report(&mut self, open: &OpenPath, hit: &mut dyn FnMut(Range<usize>)) {
        let secret_len = self.prefixes.secret_len(open.state);
        if secret_len < self.least || secret_len <= open.plain {
            return;
        }
        // The match begins no earlier than its path, so an overlap with the last match is usually evident without walking back.
        // Some entities decode to more bytes than they are written in, by a fifth.
        let least = secret_len as usize * 3 / 4;
        if open.from >= self.found.start && open.at - least < self.found.end {
            self.found.end = self.found.end.max(open.at);
            return;
        }
        let place = self.match_start(open, secret_len)..open.at;
        self.add_match(place, hit);
    }

    /// Reports the last match, or joins `place` with it where they overlap.
    fn add_match(&mut self, place: Range<usize>, hit: &mut dyn FnMut(Range<usize>)) {
        if place.start < self.found.end && self.found.start < place.end {
            self.found.start = self.found.start.min(place.start);
            self.found.end = self.found.end.max(place.end);
            return;
        }
        let before = std::mem::replace(&mut self.found, place);
        if !before.is_empty() {
            hit(before);
        }
    }

    /// Where the last `length` bytes that were read begin; an earlier position when the text has used up its steps.
    fn match_start(&mut self, open: &OpenPath, length: u32) -> usize {
        let (mut rest, mut crumb) = (length - open.plain, open.crumb);
        let mut end = open.at - open.plain as usize;
        while let Some(&escape) = self.crumbs.get(crumb as usize)
            && self.steps > 0
        {
            self.steps -= 1;
            if rest <= escape.len && escape.run {
                // Either each byte before it is written as one backslash, or each of its own as the maximum number.
                let least = escape.at + (escape.len - rest) as usize;
                return least.max(end.saturating_sub(rest as usize * BACKSLASHES_EACH));
            }
            if rest <= escape.len {
                return escape.at;
            }
            rest -= escape.len;
            if rest <= escape.plain || escape.before == START {
                return escape.at - rest.min(escape.plain) as usize;
            }
            rest -= escape.plain;
            crumb = escape.before;
            end = escape.at - escape.plain as usize;
        }
        open.from
    }

    /// Discards the escapes that come before the beginning of every open path's state.
    fn discard_crumbs(&mut self) {
        let mut kept = vec![START; self.crumbs.len()];
        for open in &self.open.paths {
            let mut rest = open.state.depth.saturating_sub(open.plain);
            let mut crumb = open.crumb;
            while rest > 0
                && let Some(escape) = self.crumbs.get(crumb as usize)
            {
                kept[crumb as usize] = 0;
                rest = rest.saturating_sub(escape.len + escape.plain);
                crumb = escape.before;
            }
        }
        let mut count = 0;
        for index in 0..kept.len() {
            if kept[index] == START {
                continue;
            }
            kept[index] = count;
            let mut crumb = self.crumbs[index];
            crumb.before = kept.get(crumb.before as usize).copied().unwrap_or(START);
            self.crumbs[count as usize] = crumb;
            count += 1;
        }
        self.crumbs.truncate(count as usize);
        for open in &mut self.open.paths {
            open.crumb = kept[open.crumb as usize];
        }
        self.crumbs_max = CRUMBS_MIN.max(self.crumbs.len() * 2);
    }
}
