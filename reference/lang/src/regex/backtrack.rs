//! Matches patterns with look-around, back-references and atomic groups by backtracking. Every step is counted, and the
//! backtracking stack counts as memory of the program.

use smallvec::SmallVec;

use super::parse::Greed;
use super::program::{CharSet, Inst, Pc, Program, holds};
use super::{Slots, Start, StepCounter};
use crate::clock::WorkMeter;
use crate::error::Stop;

const NONE: usize = usize::MAX;

/// What to do when the current thread fails.
#[derive(Clone, Copy)]
enum Undo {
    To(Pc, usize),
    /// Restore the old value of a slot.
    Slot(usize, usize),
    /// Restore the old value of a mark.
    Mark(usize, usize),
    /// Give back one character of a run that is longer than its minimum.
    Less {
        next: Pc,
        least: usize,
        end: usize,
    },
    /// Add one more character to a run.
    More {
        run: Pc,
        end: usize,
        left: usize,
    },
}

/// A search in progress.
pub struct Search<'s> {
    program: &'s Program,
    text: &'s str,
    start: Start,
    /// The slots of the program, and behind them the start of each group that is open: a back-reference inside its own
    /// group stands for the previous iteration of that group.
    slots: Slots,
    marks: SmallVec<[usize; 8]>,
    backtrack: Vec<Undo>,
    clock: StepCounter<'s>,
}

impl<'s> Search<'s> {
    /// The first match in `text` from `start` on; if `whole`, only a match from there to the end of the text.
    pub fn run(
        program: &'s Program,
        text: &'s str,
        start: Start,
        whole: bool,
        meter: &'s mut dyn WorkMeter,
    ) -> Result<Option<Slots>, Stop> {
        let mut search = Search {
            program,
            text,
            start,
            slots: SmallVec::from_elem(NONE, program.slots + program.slots / 2),
            marks: SmallVec::from_elem(NONE, program.marks),
            backtrack: Vec::new(),
            clock: StepCounter::new(meter),
        };
        let found = search.first(whole);
        search.clock.report()?;
        found
    }

    fn first(&mut self, whole: bool) -> Result<Option<Slots>, Stop> {
        let end = whole.then_some(self.text.len());
        let mut at = self.start.at;
        loop {
            let mut next = self.text[at..].chars().next();
            if !whole && let Some(first) = &self.program.first {
                while let Some(character) = next
                    && !first.contains(character)
                {
                    self.clock.spend(1)?;
                    at += character.len_utf8();
                    next = self.text[at..].chars().next();
                }
                if next.is_none() {
                    return Ok(None);
                }
            }
            if let Some(end) = self.match_from(0, at, end)? {
                self.slots[0] = at;
                self.slots[1] = end;
                self.slots.truncate(self.program.slots);
                return Ok(Some(std::mem::take(&mut self.slots)));
            }
            match next {
                Some(character) if !whole => at += character.len_utf8(),
                _ => return Ok(None),
            }
        }
    }

    #[inline]
    fn push(&mut self, back: Undo) -> Result<(), Stop> {
        if self.backtrack.len() == self.backtrack.capacity() {
            let more = self.backtrack.len().max(16);
            self.clock.meter.reserve(more * size_of::<Undo>())?;
            self.backtrack.reserve_exact(more);
        }
        self.backtrack.push(back);
        Ok(())
    }

    #[inline]
    fn set_slot(&mut self, slot: usize, at: usize) -> Result<(), Stop> {
        self.push(Undo::Slot(slot, self.slots[slot]))?;
        self.slots[slot] = at;
        Ok(())
    }

    /// Matches from the instruction `pc` on at `at`, up to the first [`Inst::Done`], which must be at `end` if that
    /// is given. Returns the end of the match. Changes of slots and marks are undone when an earlier choice fails.
    fn match_from(
        &mut self,
        mut pc: Pc,
        mut at: usize,
        end: Option<usize>,
    ) -> Result<Option<usize>, Stop> {
        let base = self.backtrack.len();
        loop {
            self.clock.spend(1)?;
            let may_continue = match self.program.insts[pc] {
                Inst::Char(wanted) => self.consume(&mut at, |character| character == wanted),
                Inst::Set(set) => {
                    let set = &self.program.sets[set];
                    self.consume(&mut at, |character| set.contains(character))
                }
                Inst::Split(first, second) => {
                    self.push(Undo::To(second, at))?;
                    pc = first;
                    continue;
                }
                Inst::Jump(to) => {
                    pc = to;
                    continue;
                }
                Inst::Save(slot) if slot % 2 == 0 => {
                    self.set_slot(self.program.slots + slot / 2, at)?;
                    true
                }
                Inst::Save(slot) => {
                    let start = self.slots[self.program.slots + slot / 2];
                    self.set_slot(slot - 1, start)?;
                    self.set_slot(slot, at)?;
                    true
                }
                Inst::Mark(mark) => {
                    self.push(Undo::Mark(mark, self.marks[mark]))?;
                    self.marks[mark] = at;
                    true
                }
                Inst::Unless { mark, exit } => {
                    if self.marks[mark] == at {
                        pc = exit;
                        continue;
                    }
                    true
                }
                Inst::Assert(assert) => holds(assert, self.text, at, self.start.previous),
                Inst::Done => {
                    if end.is_none_or(|end| at == end) {
                        self.commit(base)?;
                        return Ok(Some(at));
                    }
                    false
                }
                Inst::Backref { group, folded } => {
                    self.match_backreference(&mut at, group, folded)?
                }
                Inst::Atomic { next } => match self.match_from(pc + 1, at, None)? {
                    Some(end_at) => {
                        at = end_at;
                        pc = next;
                        continue;
                    }
                    None => false,
                },
                Inst::Look {
                    ahead,
                    negative,
                    min,
                    max,
                    next,
                } => {
                    let before = self.backtrack.len();
                    let found = if ahead {
                        self.match_from(pc + 1, at, None)?.is_some()
                    } else {
                        self.match_behind(pc + 1, at, min, max)?
                    };
                    if found && negative {
                        self.undo(before)?;
                    }
                    if found != negative {
                        pc = next;
                        continue;
                    }
                    false
                }
                Inst::Run {
                    set,
                    min,
                    max,
                    greed,
                } => self.match_run(pc, &mut at, set, (min, max), greed)?,
            };
            if may_continue {
                pc += 1;
                continue;
            }
            match self.step_back(base)? {
                Some(other) => (pc, at) = other,
                None => return Ok(None),
            }
        }
    }

    /// The next alternative to try, of those pushed since `base`.
    fn step_back(&mut self, base: usize) -> Result<Option<(Pc, usize)>, Stop> {
        while self.backtrack.len() > base {
            self.clock.spend(1)?;
            let Some(back) = self.backtrack.pop() else {
                break;
            };
            match back {
                Undo::To(pc, at) => return Ok(Some((pc, at))),
                Undo::Slot(slot, old) => self.slots[slot] = old,
                Undo::Mark(mark, old) => self.marks[mark] = old,
                Undo::Less { next, least, end } => {
                    let last = self.text[..end].chars().next_back();
                    let end = end - last.map_or(0, char::len_utf8);
                    if end > least {
                        self.push(Undo::Less { next, least, end })?;
                    }
                    return Ok(Some((next, end)));
                }
                Undo::More { run, end, left } => {
                    let Inst::Run { set, .. } = self.program.insts[run] else {
                        continue;
                    };
                    let set = &self.program.sets[set];
                    let mut end = end;
                    if self.consume(&mut end, |character| set.contains(character)) {
                        if left > 1 {
                            self.push(Undo::More {
                                run,
                                end,
                                left: left - 1,
                            })?;
                        }
                        return Ok(Some((run + 1, end)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Discards the alternatives pushed since `base`, but keeps the records of changes to undo.
    fn commit(&mut self, base: usize) -> Result<(), Stop> {
        self.clock.spend((self.backtrack.len() - base) / 4)?;
        let mut kept = base;
        for at in base..self.backtrack.len() {
            if let Undo::Slot(..) | Undo::Mark(..) = self.backtrack[at] {
                self.backtrack[kept] = self.backtrack[at];
                kept += 1;
            }
        }
        self.backtrack.truncate(kept);
        Ok(())
    }

    /// Undoes all changes recorded since `base`.
    fn undo(&mut self, base: usize) -> Result<(), Stop> {
        self.clock.spend((self.backtrack.len() - base) / 4)?;
        while self.backtrack.len() > base {
            match self.backtrack.pop() {
                Some(Undo::Slot(slot, old)) => self.slots[slot] = old,
                Some(Undo::Mark(mark, old)) => self.marks[mark] = old,
                _ => {}
            }
        }
        Ok(())
    }

    /// Consumes the next character if it is `wanted`.
    #[inline]
    fn consume(&self, at: &mut usize, wanted: impl FnOnce(char) -> bool) -> bool {
        match next_char(self.text, *at) {
            Some(character) if wanted(character) => {
                *at += character.len_utf8();
                true
            }
            _ => false,
        }
    }

    /// Consumes the text that `group` matched. A group that took no part does not match anything.
    fn match_backreference(
        &mut self,
        at: &mut usize,
        group: usize,
        folded: bool,
    ) -> Result<bool, Stop> {
        let (start, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        if start == NONE || end == NONE || start > end {
            return Ok(false);
        }
        let wanted = &self.text[start..end];
        self.clock.spend(wanted.len() / 16)?;
        if !folded {
            let same = self.text.as_bytes()[*at..].starts_with(wanted.as_bytes());
            if same {
                *at += wanted.len();
            }
            return Ok(same);
        }
        let mut end_at = *at;
        for wanted in wanted.chars() {
            self.clock.spend(1)?;
            if !self.consume(&mut end_at, |character| same_folded(character, wanted)) {
                return Ok(false);
            }
        }
        *at = end_at;
        Ok(true)
    }

    /// Whether the body at `pc` matches text that ends at `at`; shorter texts are tried first.
    fn match_behind(&mut self, pc: Pc, at: usize, min: usize, max: usize) -> Result<bool, Stop> {
        let mut start = at;
        for length in 0..=max {
            if length >= min && self.match_from(pc, start, Some(at))?.is_some() {
                return Ok(true);
            }
            self.clock.spend(1)?;
            match self.text[..start].chars().next_back() {
                Some(character) => start -= character.len_utf8(),
                None => break,
            }
        }
        Ok(false)
    }

    /// Consumes a run of characters of a set.
    fn match_run(
        &mut self,
        pc: Pc,
        at: &mut usize,
        set: usize,
        (min, max): (usize, usize),
        greed: Greed,
    ) -> Result<bool, Stop> {
        let set: &CharSet = &self.program.sets[set];
        let wanted = if greed == Greed::Lazy { min } else { max };
        let (mut taken, mut least) = (0, *at);
        while taken < wanted {
            if taken == min {
                least = *at;
            }
            self.clock.spend(1)?;
            if !self.consume(at, |character| set.contains(character)) {
                break;
            }
            taken += 1;
        }
        if taken < min {
            return Ok(false);
        }
        if taken == min {
            least = *at;
        }
        match greed {
            Greed::Possessive => {}
            Greed::Greedy if *at > least => self.push(Undo::Less {
                next: pc + 1,
                least,
                end: *at,
            })?,
            Greed::Lazy if max > min => self.push(Undo::More {
                run: pc,
                end: *at,
                left: max - min,
            })?,
            _ => {}
        }
        Ok(true)
    }
}

/// The character at byte `at`.
#[inline]
fn next_char(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        Some(_) => text[at..].chars().next(),
        None => None,
    }
}

/// Whether two characters differ only in case.
fn same_folded(a: char, b: char) -> bool {
    a == b || a.to_lowercase().eq(b.to_lowercase()) || a.to_uppercase().eq(b.to_uppercase())
}
