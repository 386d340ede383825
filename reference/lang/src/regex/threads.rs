//! Matches plain patterns in time proportional to the text, following all ways at once. Every step is counted.
//!
//! The first way that leads to a match is the one that stepping back would find, since the ways are kept in
//! that order.

use smallvec::SmallVec;

use super::program::{Inst, Pc, Program, holds};
use super::{Clock, Slots};
use crate::clock::Meter;
use crate::error::Stop;

const NONE: usize = usize::MAX;

/// The ways that are followed at one position, in order, with what each remembers.
#[derive(Debug, Default)]
struct Ways {
    /// The instructions that take a character, or end.
    order: Vec<Pc>,
    /// Where in `seen` a state is, when it is there.
    index: Vec<usize>,
    /// What each way remembers, in the order of `order`.
    slots: Vec<usize>,
    /// States that were reached, those of instructions that take nothing too.
    seen: Vec<usize>,
}

impl Ways {
    fn clear(&mut self) {
        self.order.clear();
        self.slots.clear();
        self.seen.clear();
    }

    /// Notes that `state` is reached. False when it was before.
    fn reach(&mut self, state: usize) -> bool {
        let at = self.index[state];
        if at < self.seen.len() && self.seen[at] == state {
            return false;
        }
        self.index[state] = self.seen.len();
        self.seen.push(state);
        true
    }
}

/// What is left to do while the ways from an instruction are followed.
enum Todo {
    /// From an instruction on; the rounds of so many loops around it have taken something.
    Follow(Pc, usize),
    Restore(usize, usize),
}

/// A search under way.
pub struct Search<'s> {
    pub program: &'s Program,
    pub text: &'s str,
    pub from: usize,
    /// Only a match that begins at `from` counts.
    pub anchored: bool,
    /// Only a match that ends with the text counts.
    pub whole: bool,
    /// How many slots are remembered: 2 for the match alone.
    pub slots: usize,
}

impl Search<'_> {
    pub fn run(&self, meter: &mut dyn Meter) -> Result<Option<Slots>, Stop> {
        let (insts, states) = (self.program.insts.len(), self.program.states());
        let words = 2 * states + insts * (1 + self.slots);
        meter.reserve(2 * words * size_of::<usize>())?;
        let mut now = Ways {
            index: vec![0; states],
            ..Ways::default()
        };
        let mut then = Ways {
            index: vec![0; states],
            ..Ways::default()
        };
        let mut todo = Vec::new();
        let mut slots: Slots = SmallVec::from_elem(NONE, self.slots);
        let mut found: Option<Slots> = None;
        let mut clock = Clock::new(meter);
        let mut at = self.from;
        loop {
            let mut next = self.text[at..].chars().next();
            if now.order.is_empty() {
                if found.is_some() || self.anchored && at > self.from {
                    break;
                }
                if !self.anchored
                    && let Some(first) = &self.program.first
                {
                    // Nothing begins with these, and what was reached in front of them says nothing about the place behind.
                    now.clear();
                    while let Some(character) = next
                        && !first.has(character)
                    {
                        at += character.len_utf8();
                        next = self.text[at..].chars().next();
                        clock.spend(1)?;
                    }
                }
            }
            if found.is_none() && (!self.anchored || at == self.from) {
                slots.fill(NONE);
                slots[0] = at;
                self.follow(0, at, &mut now, &mut slots, &mut todo, &mut clock)?;
            }
            for way in 0..now.order.len() {
                let place = now.order[way];
                let takes = match (self.program.insts[place], next) {
                    (Inst::Char(wanted), Some(character)) => wanted == character,
                    (Inst::Set(set), Some(character)) => self.program.sets[set].has(character),
                    (Inst::Done, _) if !self.whole || at == self.text.len() => {
                        let kept = &now.slots[way * self.slots..][..self.slots];
                        let mut kept = Slots::from_slice(kept);
                        kept[1] = at;
                        found = Some(kept);
                        // What comes later in order is a worse match.
                        break;
                    }
                    _ => false,
                };
                if takes {
                    let behind = at + next.map_or(0, char::len_utf8);
                    let kept = &now.slots[way * self.slots..][..self.slots];
                    slots.copy_from_slice(kept);
                    self.follow(
                        place + 1,
                        behind,
                        &mut then,
                        &mut slots,
                        &mut todo,
                        &mut clock,
                    )?;
                }
                clock.spend(1)?;
            }
            let Some(character) = next else { break };
            std::mem::swap(&mut now, &mut then);
            then.clear();
            at += character.len_utf8();
        }
        clock.tell()?;
        Ok(found)
    }

    /// Adds every way on from `place`, in order.
    fn follow(
        &self,
        place: Pc,
        at: usize,
        ways: &mut Ways,
        slots: &mut [usize],
        todo: &mut Vec<Todo>,
        clock: &mut Clock<'_>,
    ) -> Result<(), Stop> {
        // Behind a character every round has taken something, and in front of the first instruction there is none.
        todo.push(Todo::Follow(place, usize::MAX));
        while let Some(next) = todo.pop() {
            let (mut place, mut taken) = match next {
                Todo::Follow(place, taken) => (place, taken),
                Todo::Restore(slot, old) => {
                    slots[slot] = old;
                    continue;
                }
            };
            loop {
                let rounds = self.program.rounds(place);
                taken = taken.min(rounds);
                if !ways.reach(self.program.state(place, taken)) {
                    break;
                }
                clock.spend(1)?;
                match self.program.insts[place] {
                    Inst::Jump(to) => place = to,
                    Inst::Split(first, second) => {
                        todo.push(Todo::Follow(second, taken));
                        place = first;
                    }
                    Inst::Save(slot) => {
                        if let Some(kept) = slots.get_mut(slot) {
                            todo.push(Todo::Restore(slot, *kept));
                            *kept = at;
                        }
                        place += 1;
                    }
                    Inst::Assert(assert) => {
                        if !holds(assert, self.text, at, self.from) {
                            break;
                        }
                        place += 1;
                    }
                    Inst::Unless { exit, .. } if taken < rounds => place = exit,
                    Inst::Mark(_) | Inst::Unless { .. } => place += 1,
                    _ => {
                        ways.order.push(place);
                        ways.slots.extend_from_slice(slots);
                        clock.spend(slots.len() / 8)?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
