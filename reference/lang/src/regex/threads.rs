//! Matches plain patterns in time proportional to the text, following all ways at once. Every step is counted.
//!
//! The first way that leads to a match is the one that stepping back would find, since the ways are kept in
//! that order.

use smallvec::SmallVec;

use super::Slots;
use super::program::{Inst, Pc, Program, holds};
use crate::clock::Meter;
use crate::error::Stop;

/// Steps between two calls of the meter.
const STEPS: usize = 4_096;

const NONE: usize = usize::MAX;

/// The ways that are followed at one position, in order, with what each remembers.
#[derive(Debug, Default)]
struct Ways {
    /// The instructions that take a character, or end.
    order: Vec<Pc>,
    /// Where in `order` an instruction is, when it is there.
    index: Vec<usize>,
    /// What each way remembers, in the order of `order`.
    slots: Vec<usize>,
    /// Instructions that were reached, those that take nothing too.
    seen: Vec<Pc>,
}

impl Ways {
    fn clear(&mut self) {
        self.order.clear();
        self.slots.clear();
        self.seen.clear();
    }

    /// Notes that `place` is reached. False when it was before.
    fn reach(&mut self, place: Pc) -> bool {
        let at = self.index[place];
        if at < self.seen.len() && self.seen[at] == place {
            return false;
        }
        self.index[place] = self.seen.len();
        self.seen.push(place);
        true
    }
}

/// What is left to do while the ways from an instruction are followed.
enum Todo {
    Follow(Pc),
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
        let count = self.program.insts.len();
        let each = size_of::<usize>() * (3 + self.slots);
        meter.reserve(2 * count * each)?;
        let mut now = Ways {
            index: vec![0; count],
            ..Ways::default()
        };
        let mut then = Ways {
            index: vec![0; count],
            ..Ways::default()
        };
        let mut todo = Vec::new();
        let mut slots: Slots = SmallVec::from_elem(NONE, self.slots);
        let mut found: Option<Slots> = None;
        let mut steps = 0;
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
                    // Nothing begins with these.
                    while let Some(character) = next
                        && !first.has(character)
                    {
                        at += character.len_utf8();
                        next = self.text[at..].chars().next();
                        steps += 1;
                        if steps >= STEPS {
                            meter.work(std::mem::take(&mut steps))?;
                        }
                    }
                }
            }
            if found.is_none() && (!self.anchored || at == self.from) {
                slots.fill(NONE);
                slots[0] = at;
                steps += self.follow(0, at, &mut now, &mut slots, &mut todo);
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
                    steps += self.follow(place + 1, behind, &mut then, &mut slots, &mut todo);
                }
                steps += 1;
            }
            if steps >= STEPS {
                meter.work(std::mem::take(&mut steps))?;
            }
            let Some(character) = next else { break };
            std::mem::swap(&mut now, &mut then);
            then.clear();
            at += character.len_utf8();
        }
        meter.work(steps)?;
        Ok(found)
    }

    /// Adds every way on from `place`, in order, and returns how many steps that took.
    fn follow(
        &self,
        place: Pc,
        at: usize,
        ways: &mut Ways,
        slots: &mut [usize],
        todo: &mut Vec<Todo>,
    ) -> usize {
        let mut steps = 0;
        todo.push(Todo::Follow(place));
        while let Some(next) = todo.pop() {
            let mut place = match next {
                Todo::Follow(place) => place,
                Todo::Restore(slot, old) => {
                    slots[slot] = old;
                    continue;
                }
            };
            while ways.reach(place) {
                steps += 1;
                match self.program.insts[place] {
                    Inst::Jump(to) => place = to,
                    Inst::Split(first, second) => {
                        todo.push(Todo::Follow(second));
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
                    _ => {
                        ways.order.push(place);
                        ways.slots.extend_from_slice(slots);
                        steps += slots.len() / 8;
                        break;
                    }
                }
            }
        }
        steps
    }
}
