//! Matches plain patterns in time proportional to the text by running all threads of the NFA in parallel. Every step is
//! counted.
//!
//! Threads are kept in order of preference, so the first one that leads to a match finds the same match as
//! backtracking.

use smallvec::SmallVec;

use super::program::{Inst, Pc, Program, holds};
use super::{Slots, Start, StepCounter};
use crate::clock::WorkMeter;
use crate::error::Stop;

const NONE: usize = usize::MAX;

/// The threads at one position, in order of preference, each with its slots.
#[derive(Debug, Default)]
struct ThreadList {
    /// The instruction of each thread, which consumes a character or ends the match.
    order: Vec<Pc>,
    /// The index in `seen` of each state that is there.
    index: Vec<usize>,
    /// The slots of each thread, in the order of `order`.
    slots: Vec<usize>,
    /// The states that were reached, including those of instructions that consume nothing.
    seen: Vec<usize>,
}

impl ThreadList {
    fn clear(&mut self) {
        self.order.clear();
        self.slots.clear();
        self.seen.clear();
    }

    /// Records that `state` is reached. Returns false if it was reached before.
    fn insert_state(&mut self, state: usize) -> bool {
        let at = self.index[state];
        if at < self.seen.len() && self.seen[at] == state {
            return false;
        }
        self.index[state] = self.seen.len();
        self.seen.push(state);
        true
    }
}

/// Pending work while the threads from an instruction are followed.
enum Pending {
    /// Continue at an instruction; this many of the outermost iterations around it have consumed something.
    Follow(Pc, usize),
    Restore(usize, usize),
}

/// A search in progress.
pub struct Search<'s> {
    pub program: &'s Program,
    pub text: &'s str,
    pub start: Start,
    /// Whether the match must begin at `start`.
    pub anchored: bool,
    /// Whether the match must end at the end of the text.
    pub whole: bool,
    /// The number of slots to record: 2 for the match alone.
    pub slots: usize,
}

impl Search<'_> {
    pub fn run(&self, meter: &mut dyn WorkMeter) -> Result<Option<Slots>, Stop> {
        let (insts, states) = (self.program.insts.len(), self.program.states());
        let words = 2 * states + insts * (1 + self.slots);
        meter.reserve(2 * words * size_of::<usize>())?;
        let mut now = ThreadList {
            index: vec![0; states],
            ..ThreadList::default()
        };
        let mut then = ThreadList {
            index: vec![0; states],
            ..ThreadList::default()
        };
        let mut pending = Vec::new();
        let mut slots: Slots = SmallVec::from_elem(NONE, self.slots);
        let mut found: Option<Slots> = None;
        let mut clock = StepCounter::new(meter);
        let mut at = self.start.at;
        loop {
            let mut next = self.text[at..].chars().next();
            if now.order.is_empty() {
                if found.is_some() || self.anchored && at > self.start.at {
                    break;
                }
                if !self.anchored
                    && let Some(first) = &self.program.first
                {
                    // No match begins with these characters, and states that were reached before them say nothing about
                    // the position after them.
                    now.clear();
                    while let Some(character) = next
                        && !first.contains(character)
                    {
                        at += character.len_utf8();
                        next = self.text[at..].chars().next();
                        clock.spend(1)?;
                    }
                }
            }
            if found.is_none() && (!self.anchored || at == self.start.at) {
                slots.fill(NONE);
                slots[0] = at;
                self.add_threads(0, at, &mut now, &mut slots, &mut pending, &mut clock)?;
            }
            for thread in 0..now.order.len() {
                let pc = now.order[thread];
                let takes = match (self.program.insts[pc], next) {
                    (Inst::Char(wanted), Some(character)) => wanted == character,
                    (Inst::Set(set), Some(character)) => self.program.sets[set].contains(character),
                    (Inst::Done, _) if !self.whole || at == self.text.len() => {
                        let kept = &now.slots[thread * self.slots..][..self.slots];
                        let mut kept = Slots::from_slice(kept);
                        kept[1] = at;
                        found = Some(kept);
                        // Later threads would give a less preferred match.
                        break;
                    }
                    _ => false,
                };
                if takes {
                    let next_at = at + next.map_or(0, char::len_utf8);
                    let kept = &now.slots[thread * self.slots..][..self.slots];
                    slots.copy_from_slice(kept);
                    self.add_threads(
                        pc + 1,
                        next_at,
                        &mut then,
                        &mut slots,
                        &mut pending,
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
        clock.report()?;
        Ok(found)
    }

    /// Adds every thread that continues from `pc`, in order of preference.
    fn add_threads(
        &self,
        pc: Pc,
        at: usize,
        threads: &mut ThreadList,
        slots: &mut [usize],
        pending: &mut Vec<Pending>,
        clock: &mut StepCounter<'_>,
    ) -> Result<(), Stop> {
        // After a character every iteration has consumed something, and before the first instruction there are no
        // iterations.
        pending.push(Pending::Follow(pc, usize::MAX));
        while let Some(next) = pending.pop() {
            let (mut pc, mut taken) = match next {
                Pending::Follow(pc, taken) => (pc, taken),
                Pending::Restore(slot, old) => {
                    slots[slot] = old;
                    continue;
                }
            };
            loop {
                let rounds = self.program.rounds(pc);
                taken = taken.min(rounds);
                if !threads.insert_state(self.program.state(pc, taken)) {
                    break;
                }
                clock.spend(1)?;
                match self.program.insts[pc] {
                    Inst::Jump(to) => pc = to,
                    Inst::Split(first, second) => {
                        pending.push(Pending::Follow(second, taken));
                        pc = first;
                    }
                    Inst::Save(slot) => {
                        if let Some(kept) = slots.get_mut(slot) {
                            pending.push(Pending::Restore(slot, *kept));
                            *kept = at;
                        }
                        pc += 1;
                    }
                    Inst::Assert(assert) => {
                        if !holds(assert, self.text, at, self.start.previous) {
                            break;
                        }
                        pc += 1;
                    }
                    Inst::Unless { exit, .. } if taken < rounds => pc = exit,
                    Inst::Mark(_) | Inst::Unless { .. } => pc += 1,
                    _ => {
                        threads.order.push(pc);
                        threads.slots.extend_from_slice(slots);
                        clock.spend(slots.len() / 8)?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
