//! Follows secrets along the ways in which a text with escapes can be read. An escape leads on from where it begins to where each
//! of its readings ends, every other byte to the next one; what the automaton of the secrets says of the text read so far is a
//! state at a place, and whatever leads to the same state at the same place is one. So each place is passed once, whatever begins
//! at how many places before it. Knows nothing of how escapes are written.

use std::ops::Range;

use crate::escape::{Reading, Readings};
use crate::prefixes::{Beginning, Prefixes};

/// States that are followed at the same time: as many as eight backslashes side by side have that are escaped four times, and many
/// more than other text of writers has.
const OPEN_MAX: usize = 128;
/// As many when the text has used up its steps.
const OPEN_FEW: usize = 6;
/// So many are compared in about the time of a step.
const COMPARED_PER_STEP: usize = 64;
/// Steps that a text affords: so many at first and at the most, and so many more for each of its bytes.
const STEPS_SAVED_MAX: u32 = 128 * 1024;
const STEPS_PER_BYTE: u32 = 12;
/// Escapes on the ways of a text that are remembered before those are forgotten on which nothing stands any more.
const CRUMBS_MIN: usize = 4096;
/// Before the first escape of a way.
const START: u32 = u32::MAX;

/// A place in the text and what was read up to it, at least one escape in it.
#[derive(Clone, Copy)]
struct Open {
    at: usize,
    state: Beginning,
    /// Bytes that stand as they are behind the last escape.
    plain: u32,
    /// The last escape.
    crumb: u32,
    /// Where what was read begins, or somewhat before.
    from: usize,
    /// It may be before: a longer beginning did not go on, so that what was read begins behind where that one did.
    loose: bool,
}

/// An escape on the way to a state.
#[derive(Clone, Copy)]
struct Crumb {
    /// The escape before it, or `START`.
    before: u32,
    /// Bytes that stand as they are between the two.
    plain: u32,
    /// Where it begins, and how many bytes it says.
    at: usize,
    said: u32,
}

/// The ways that are followed, and what of each is asked most beside them, so that several are compared at once.
struct Ways {
    ways: Vec<Open>,
    /// By way: a hash of its place and its state.
    marks: [u32; OPEN_MAX],
    /// By way: the depth of its state; `u32::MAX` behind the last one.
    depths: [u32; OPEN_MAX],
}

/// Ways that are compared at once.
const COMPARED: usize = 16;
const _: () = assert!(OPEN_MAX.is_multiple_of(COMPARED));

impl Ways {
    fn new() -> Self {
        Self {
            ways: Vec::new(),
            marks: [0; OPEN_MAX],
            depths: [u32::MAX; OPEN_MAX],
        }
    }

    fn mark(way: &Open) -> u32 {
        (way.at as u32).wrapping_mul(0x9E37_79B1) ^ way.state.number()
    }

    /// Adds one, for which there is room.
    fn push(&mut self, way: Open) {
        self.ways.push(way);
        self.set(self.ways.len() - 1, way);
    }

    fn set(&mut self, index: usize, way: Open) {
        self.ways[index] = way;
        self.marks[index] = Self::mark(&way);
        self.depths[index] = way.state.depth;
    }

    /// Takes one out; another takes its place.
    fn take(&mut self, index: usize) {
        let last = self.ways.len() - 1;
        self.ways.swap_remove(index);
        self.marks[index] = self.marks[last];
        self.depths[index] = self.depths[last];
        self.depths[last] = u32::MAX;
    }

    /// The way that is at the place of `new`, and has read what that has.
    fn met_by(&self, new: &Open) -> Option<usize> {
        let mark = Self::mark(new);
        let used = self.ways.len().div_ceil(COMPARED);
        let (chunks, _) = self.marks.as_chunks::<COMPARED>();
        for (chunk, first) in chunks.iter().zip((0..).step_by(COMPARED)).take(used) {
            if !chunk
                .iter()
                .fold(false, |any, known| any | (*known == mark))
            {
                continue;
            }
            let last = self.ways.len().min(first + COMPARED);
            let met = |way: &Open| way.at == new.at && way.state == new.state;
            if let Some(index) = self.ways[first..last].iter().position(met) {
                return Some(first + index);
            }
        }
        None
    }

    /// The first of those that read least.
    fn shortest(&self) -> Option<usize> {
        let least = self
            .depths
            .iter()
            .fold(u32::MAX, |least, depth| least.min(*depth));
        let mut depths = self.depths[..self.ways.len()].iter();
        depths.position(|depth| *depth == least)
    }
}

pub(crate) struct Paths<'n> {
    prefixes: &'n Prefixes,
    text: &'n [u8],
    /// Bytes of the secrets that are looked for, at least.
    least: u32,
    open: Ways,
    crumbs: Vec<Crumb>,
    crumbs_max: usize,
    /// What was found last, joined with what it overlaps.
    found: Range<usize>,
    steps: u32,
    /// Up to where the text was credited.
    credited: usize,
}

impl<'n> Paths<'n> {
    pub fn new(prefixes: &'n Prefixes, text: &'n [u8], least: usize) -> Self {
        Self {
            prefixes,
            text,
            least: least.max(1) as u32,
            open: Ways::new(),
            crumbs: Vec::new(),
            crumbs_max: CRUMBS_MIN,
            found: 0..0,
            steps: STEPS_SAVED_MAX,
            credited: 0,
        }
    }

    /// Whether no way leads through `at`, up to where all were followed.
    pub fn is_clear(&self) -> bool {
        self.open.ways.is_empty()
    }

    /// How many ways are followed.
    pub fn open(&self) -> usize {
        self.open.ways.len()
    }

    /// Follows all ways up to `at`; no escape is in between that was not [`escape`](Self::escape)d.
    pub fn reach(&mut self, at: usize, hit: &mut dyn FnMut(Range<usize>)) {
        let more = (at - self.credited) as u64 * u64::from(STEPS_PER_BYTE);
        self.steps = (u64::from(self.steps) + more).min(u64::from(STEPS_SAVED_MAX)) as u32;
        self.credited = at;
        let mut next = 0;
        while let Some(&open) = self.open.ways.get(next) {
            match open.at < at {
                false => next += 1,
                true => match self.plainly(open, at, hit) {
                    Some(open) => {
                        self.open.set(next, open);
                        next += 1;
                    }
                    None => self.open.take(next),
                },
            }
        }
    }

    /// Leads on from the place that was [`reach`](Self::reach)ed: the ways that lead to it, and `begun`, what stands before it
    /// as it is and begins a secret, by each of the `readings`; those ways also by the byte as it stands.
    pub fn escape(
        &mut self,
        at: usize,
        begun: Option<Beginning>,
        readings: &Readings,
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        if self.crumbs.len() > self.crumbs_max {
            self.forget();
        }
        let mut next = 0;
        let mut here: smallvec::SmallVec<[Open; 4]> = smallvec::SmallVec::new();
        while let Some(&open) = self.open.ways.get(next) {
            match open.at == at {
                true => {
                    // Two ways to the same place may have met there only now.
                    let same = |other: &&mut Open| other.state == open.state;
                    match here.iter_mut().find(same) {
                        Some(other) => *other = self.earlier(*other, open),
                        None => here.push(open),
                    }
                    self.open.take(next);
                }
                false => next += 1,
            }
        }
        // What was read up to here as it stands is at the end of a way that has as much of it.
        let told = |state: &Beginning| here.iter().any(|open| state.depth <= open.plain);
        if let Some(state) = begun.filter(|state| !told(state)) {
            here.push(Open {
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
                && let Some(open) = self.plainly(*open, at + 1, hit)
            {
                self.add(open);
            }
        }
        if self.is_clear() {
            self.crumbs.clear();
        }
    }

    /// Tells what was found last.
    pub fn end(mut self, hit: &mut dyn FnMut(Range<usize>)) {
        self.reach(self.text.len(), hit);
        if !self.found.is_empty() {
            hit(self.found);
        }
    }

    /// One way on to `at`, as long as it leads anywhere: without an escape on it, it is none.
    fn plainly(
        &mut self,
        mut open: Open,
        at: usize,
        hit: &mut dyn FnMut(Range<usize>),
    ) -> Option<Open> {
        let begun = open.at;
        while open.at < at && open.state.depth > open.plain {
            let byte = self.text[open.at];
            let before = open.state.depth;
            open.state = self.prefixes.behind(open.state, byte);
            open.loose |= open.state.depth <= before;
            open.at += 1;
            open.plain += 1;
            self.tell(&open, hit);
        }
        self.steps = self.steps.saturating_sub((open.at - begun) as u32);
        (open.state.depth > open.plain).then_some(open)
    }

    fn read(&mut self, open: Open, reading: &Reading, hit: &mut dyn FnMut(Range<usize>)) {
        let said = reading.said().len() as u32;
        let behind = |state, byte: &u8| self.prefixes.behind(state, *byte);
        let state = reading.said().iter().fold(open.state, behind);
        self.steps = self.steps.saturating_sub(said);
        if state.depth == 0 {
            return;
        }
        let crumb = Crumb {
            before: open.crumb,
            plain: open.plain,
            at: open.at,
            said,
        };
        self.crumbs.push(crumb);
        let (from, loose) = match state.depth <= said {
            true => (open.at, false),
            false => (
                open.from,
                open.loose || state.depth < open.state.depth + said,
            ),
        };
        let open = Open {
            at: reading.end,
            state,
            plain: 0,
            crumb: self.crumbs.len() as u32 - 1,
            from,
            loose,
        };
        self.tell(&open, hit);
        self.add(open);
    }

    /// Adds a way, unless it meets one that began no later or there are too many and it is the shortest.
    fn add(&mut self, new: Open) {
        // All that are open are compared with it.
        let compared = self.open.ways.len() / COMPARED_PER_STEP;
        self.steps = self.steps.saturating_sub(compared as u32);
        if let Some(index) = self.open.met_by(&new) {
            let earlier = self.earlier(self.open.ways[index], new);
            return self.open.set(index, earlier);
        }
        let most = match self.steps {
            0 => OPEN_FEW,
            _ => OPEN_MAX,
        };
        if self.open.ways.len() < most {
            return self.open.push(new);
        }
        if let Some(shortest) = self.open.shortest()
            && self.open.ways[shortest].state.depth < new.state.depth
        {
            self.open.set(shortest, new);
        }
    }

    /// Of two ways that meet the one on which what was read begins earlier; the first when both do where the other does.
    fn earlier(&mut self, mut one: Open, mut other: Open) -> Open {
        for open in [&mut one, &mut other] {
            if open.loose {
                open.from = self.begin(open, open.state.depth);
                open.loose = false;
            }
        }
        match other.from < one.from {
            true => other,
            false => one,
        }
    }

    /// Tells of a secret that ends here and has an escape in it.
    fn tell(&mut self, open: &Open, hit: &mut dyn FnMut(Range<usize>)) {
        let says = self.prefixes.says(open.state);
        if says < self.least || says <= open.plain {
            return;
        }
        // It begins behind where the way does, and mostly it can be told without going back that it overlaps what was found last.
        // Some entities say more bytes than they are written in, by a fifth.
        let least = says as usize * 3 / 4;
        if open.from >= self.found.start && open.at - least < self.found.end {
            self.found.end = self.found.end.max(open.at);
            return;
        }
        let place = self.begin(open, says)..open.at;
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

    /// Where the last `length` bytes begin that were read; somewhat before when the text has used up its steps.
    fn begin(&mut self, open: &Open, length: u32) -> usize {
        let (mut rest, mut crumb) = (length - open.plain, open.crumb);
        while let Some(&escape) = self.crumbs.get(crumb as usize)
            && self.steps > 0
        {
            self.steps -= 1;
            if rest <= escape.said {
                return escape.at;
            }
            rest -= escape.said;
            if rest <= escape.plain || escape.before == START {
                return escape.at - rest.min(escape.plain) as usize;
            }
            rest -= escape.plain;
            crumb = escape.before;
        }
        open.from
    }

    /// Forgets the escapes that no secret under way could begin at or behind.
    fn forget(&mut self) {
        let mut kept = vec![START; self.crumbs.len()];
        for open in &self.open.ways {
            let mut rest = open.state.depth.saturating_sub(open.plain);
            let mut crumb = open.crumb;
            while rest > 0
                && let Some(escape) = self.crumbs.get(crumb as usize)
            {
                kept[crumb as usize] = 0;
                rest = rest.saturating_sub(escape.said + escape.plain);
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
        for open in &mut self.open.ways {
            open.crumb = kept[open.crumb as usize];
        }
        self.crumbs_max = CRUMBS_MIN.max(self.crumbs.len() * 2);
    }
}
