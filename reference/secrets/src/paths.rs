//! Follows secrets along the ways in which a text with escapes can be read. An escape leads on from where it begins to where each
//! of its readings ends, every other byte to the next one; what the automaton of the secrets says of the text read so far is a
//! state at a place, and whatever leads to the same state at the same place is one; so is a way that has read the end of what
//! another has. So each place is passed a few times, whatever begins at how many places before it. Knows nothing of how escapes
//! are written.

use std::ops::Range;

use smallvec::SmallVec;

use crate::escape::{DEPTH, Reading};
use crate::prefixes::{Beginning, NOTHING, Prefixes};

/// States that are followed at the same time: as many as eight backslashes side by side have that are escaped four times, and many
/// more than other text of writers has.
const OPEN_MAX: usize = 128;
/// As many when the text has used up its steps.
const OPEN_FEW: usize = 6;
/// So many are compared in about the time of a step.
const COMPARED_PER_STEP: usize = 64;
/// Steps that a text affords: so many at first and at the most, and so many more for each of its bytes.
const STEPS_SAVED_MAX: u32 = 32 * 1024;
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
    /// It is a run of backslashes, each of the bytes said by some of them.
    run: bool,
}

/// Backslashes that say one.
const BACKSLASHES_EACH: usize = 1 << DEPTH;

/// What an escape in a run of backslashes may be, and the place before that where it may as well begin.
pub(crate) type InRun = (usize, Reading, Option<usize>);

/// The ways that are followed, and what of each is asked most beside them, so that several are compared at once.
struct Ways {
    ways: Vec<Open>,
    /// By way: its place, or one that looks the same.
    places: [u32; OPEN_MAX],
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
            places: [0; OPEN_MAX],
            depths: [u32::MAX; OPEN_MAX],
        }
    }

    /// Adds one, for which there is room.
    fn push(&mut self, way: Open) {
        self.ways.push(way);
        self.set(self.ways.len() - 1, way);
    }

    fn set(&mut self, index: usize, way: Open) {
        self.ways[index] = way;
        self.places[index] = way.at as u32;
        self.depths[index] = way.state.depth;
    }

    /// Takes one out; another takes its place.
    fn take(&mut self, index: usize) {
        let last = self.ways.len() - 1;
        self.ways.swap_remove(index);
        self.places[index] = self.places[last];
        self.depths[index] = self.depths[last];
        self.depths[last] = u32::MAX;
    }

    /// The first way from `from` on that is at `at`.
    fn at(&self, at: usize, from: usize) -> Option<usize> {
        let (chunks, _) = self.places.as_chunks::<COMPARED>();
        let used = self.ways.len().div_ceil(COMPARED);
        let mut from = from;
        for (chunk, first) in chunks.iter().zip((0..).step_by(COMPARED)).take(used) {
            let is_there = |any, place: &u32| any | (*place == at as u32);
            if first + COMPARED <= from || !chunk.iter().fold(false, is_there) {
                continue;
            }
            let last = self.ways.len().min(first + COMPARED);
            from = from.max(first);
            if let Some(index) = self.ways[from..last].iter().position(|way| way.at == at) {
                return Some(from + index);
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
        readings: &[Reading],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        if self.crumbs.len() > self.crumbs_max {
            self.forget();
        }
        let mut here = self.take(at);
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

    /// Leads on from the places of the run of backslashes at `run`, of which the first was [`reach`](Self::reach)ed, as
    /// [`escape`](Self::escape) does from one: a backslash of a secret is said by any number of them up to [`BACKSLASHES_EACH`],
    /// so that how many are said where is told by counting. `readings`: what else is said in the run.
    pub fn run(
        &mut self,
        run: Range<usize>,
        begun: Option<Beginning>,
        readings: &[InRun],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        if self.crumbs.len() > self.crumbs_max {
            self.forget();
        }
        let mut here = self.take(run.end - 1);
        let begun = begun.unwrap_or(NOTHING);
        let told = |open: &Open| open.at == run.start && begun.depth <= open.plain;
        if !here.iter().any(told) {
            here.push(Open {
                at: run.start,
                state: begun,
                plain: begun.depth,
                crumb: START,
                from: run.start - begun.depth as usize,
                loose: false,
            });
        }
        for open in here {
            self.along(open, run.end, readings, hit);
        }
        if self.is_clear() {
            self.crumbs.clear();
        }
    }

    /// Leads one way on through the run of backslashes in which it is, and which ends at `end`.
    fn along(
        &mut self,
        open: Open,
        end: usize,
        readings: &[InRun],
        hit: &mut dyn FnMut(Range<usize>),
    ) {
        let (mut way, mut said) = (open, 0);
        loop {
            let next = self.prefixes.behind(way.state, b'\\');
            // However many more are said, what was read begins the same.
            let last = next == way.state;
            let least = open.at + said as usize;
            let most = match last {
                true => end,
                false => end.min(open.at + said as usize * BACKSLASHES_EACH),
            };
            for (at, reading, before) in readings {
                if (least..=most).contains(at) && before.is_none_or(|before| before < least) {
                    self.read(Open { at: *at, ..way }, reading, hit);
                }
            }
            if said > 0 {
                let says = self.prefixes.says(way.state);
                if says >= self.least && says > 0 {
                    let begin = self.begin(&Open { at: least, ..way }, says);
                    self.find(begin..most, hit);
                }
                if most == end {
                    self.add(Open { at: end, ..way });
                }
            }
            self.steps = self.steps.saturating_sub(1);
            if last || least == end || next.depth == 0 {
                return;
            }
            said += 1;
            self.crumbs.push(Crumb {
                before: open.crumb,
                plain: open.plain,
                at: open.at,
                said,
                run: true,
            });
            way = Open {
                at: open.at,
                state: next,
                plain: 0,
                crumb: self.crumbs.len() as u32 - 1,
                from: open.from,
                loose: open.loose || next.depth < open.state.depth + said,
            };
        }
    }

    /// Takes out all ways to the places up to `last`, but those that met there only now and for which another suffices.
    fn take(&mut self, last: usize) -> SmallVec<[Open; 4]> {
        let mut next = 0;
        let mut here: SmallVec<[Open; 4]> = SmallVec::new();
        while let Some(&open) = self.open.ways.get(next) {
            if open.at > last {
                next += 1;
                continue;
            }
            self.open.take(next);
            let mut open = open;
            let mut known = 0;
            let suffices = loop {
                let Some(mut other) = here.get(known).copied() else {
                    break false;
                };
                if other.at == open.at {
                    if self.suffices(&mut other, &mut open) {
                        break true;
                    }
                    if self.suffices(&mut open, &mut other) {
                        here.swap_remove(known);
                        continue;
                    }
                }
                known += 1;
            };
            if !suffices {
                here.push(open);
            }
        }
        here
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
            run: false,
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
        let (mut new, mut from) = (new, 0);
        while let Some(index) = self.open.at(new.at, from) {
            let mut other = self.open.ways[index];
            self.steps = self.steps.saturating_sub(1);
            if self.suffices(&mut other, &mut new) {
                return self.open.set(index, other);
            }
            match self.suffices(&mut new, &mut other) {
                true => self.open.take(index),
                false => from = index + 1,
            }
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

    /// Whether all that is found on the way `short` is found on `long`, which meets it, and begins no later there.
    fn suffices(&mut self, long: &mut Open, short: &mut Open) -> bool {
        if !self.prefixes.ends_with(long.state, short.state) {
            return false;
        }
        // What begins earlier is of use only where what follows is known to the text's end.
        if self.steps == 0 {
            return true;
        }
        let length = short.state.depth;
        // What goes on from inside of what was found last prolongs it, wherever it begins there.
        let least = (length as usize * 3).div_ceil(4);
        if short.from >= self.found.start && long.at < self.found.end + least {
            return true;
        }
        let begin = self.begins(short);
        let other = match length == long.state.depth {
            true => self.begins(long),
            false if length <= long.plain => long.at - length as usize,
            false => self.begin(long, length),
        };
        other <= begin
    }

    /// Where what was read on a way begins.
    fn begins(&mut self, open: &mut Open) -> usize {
        if open.loose {
            open.from = self.begin(open, open.state.depth);
            open.loose = false;
        }
        open.from
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
        self.find(place, hit);
    }

    /// Tells of what was found last, unless `place` overlaps it.
    fn find(&mut self, place: Range<usize>, hit: &mut dyn FnMut(Range<usize>)) {
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
        let mut end = open.at - open.plain as usize;
        while let Some(&escape) = self.crumbs.get(crumb as usize)
            && self.steps > 0
        {
            self.steps -= 1;
            if rest <= escape.said && escape.run {
                // The bytes before it are said by one backslash each, or its own by as many as can say one.
                let least = escape.at + (escape.said - rest) as usize;
                return least.max(end.saturating_sub(rest as usize * BACKSLASHES_EACH));
            }
            if rest <= escape.said {
                return escape.at;
            }
            rest -= escape.said;
            if rest <= escape.plain || escape.before == START {
                return escape.at - rest.min(escape.plain) as usize;
            }
            rest -= escape.plain;
            crumb = escape.before;
            end = escape.at - escape.plain as usize;
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
