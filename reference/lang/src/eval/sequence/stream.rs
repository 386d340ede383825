//! The transducers that the items of a lazy sequence pass through.

use std::collections::{BTreeSet, VecDeque};

use smallvec::SmallVec;

use super::super::{Eval, Evaluated};
use super::source::{Source, push};
use super::{reduced, unreduced};
use crate::builtins::{Builtin, callable};
use crate::error::{
    Fingerprints, Stop, at_item, bad_value, in_empty_reduction, with_function, wrong_type,
};
use crate::value::Value;
use crate::value::shape::FreedInSlices;

/// The number of items that are processed together where all of them are wanted.
pub(super) const CHUNK: usize = 64;

pub struct Stream {
    pub(super) source: Source,
    pub(super) steps: Vec<Step>,
    /// The number of items that each step has received.
    given: Vec<usize>,
    /// Items in progress, the next one last, each with the index of the step that it enters next.
    waiting: Vec<(usize, Value)>,
    /// Whether the source is exhausted or no longer needed.
    done: bool,
    /// The steps before this one have emitted the items that they held back.
    flushed: usize,
    /// Whether nobody can observe when its steps run.
    is_pure: bool,
}

pub(super) enum Step {
    Map(Value),
    Filter(Value, bool),
    Keep(Value),
    MapIndexed(Value, usize),
    KeepIndexed(Value, usize),
    Mapcat(Value),
    Cat,
    Take(usize),
    Drop(usize),
    TakeWhile(Value),
    DropWhile(Value, bool),
    TakeNth(usize, usize),
    Distinct(FreedInSlices<BTreeSet<Value>>),
    Dedupe(Option<Value>),
    Interpose(Value, bool),
    /// The size of a window, the distance between the starts of windows, the items to skip before the next window, and
    /// the current window.
    Partition(usize, usize, usize, Vec<Value>),
    /// The same, followed at the end by the incomplete windows.
    PartitionAll(usize, usize, usize, Vec<Value>),
    PartitionBy(Value, Vec<Value>, Option<Value>),
    /// Replaces items that are vectors by their own items, at every depth.
    Flatten,
    /// Drops this many items at the end; items are held back until enough follow.
    DropLast(usize, VecDeque<Value>),
    /// The function, its latest result, and whether any result was emitted. Without any item, the function is called
    /// with no arguments.
    Reductions(Value, Option<Value>, bool),
}

impl Step {
    pub(super) fn of(builtin: &Builtin, args: &[Value]) -> Evaluated<Step> {
        let function = || -> Evaluated<Value> {
            let function = args.first().cloned().unwrap_or_default();
            match callable(&function) {
                Ok(()) => Ok(function),
                Err(stop) => Err(with_function(
                    stop,
                    builtin.name,
                    args,
                    &Fingerprints::of(args),
                )),
            }
        };
        let count = || -> Evaluated<usize> {
            crate::builtins::amount(args.first().unwrap_or(&Value::Nil))
                .map_err(|stop| with_function(stop, builtin.name, args, &Fingerprints::of(args)))
        };
        let positive = || match count()? {
            0 => Err(with_function(
                bad_value("n must be a positive integer"),
                builtin.name,
                args,
                &Fingerprints::of(args),
            )),
            count => Ok(count),
        };
        Ok(match builtin.name {
            "map" => Step::Map(function()?),
            "filter" => Step::Filter(function()?, true),
            "remove" => Step::Filter(function()?, false),
            "keep" => Step::Keep(function()?),
            "map-indexed" => Step::MapIndexed(function()?, 0),
            "keep-indexed" => Step::KeepIndexed(function()?, 0),
            "mapcat" => Step::Mapcat(function()?),
            "cat" => Step::Cat,
            "take" => Step::Take(count()?),
            "drop" => Step::Drop(count()?),
            "take-while" => Step::TakeWhile(function()?),
            "drop-while" => Step::DropWhile(function()?, true),
            "take-nth" => Step::TakeNth(positive()?, 0),
            "distinct" => Step::Distinct(FreedInSlices::default()),
            "dedupe" => Step::Dedupe(None),
            "interpose" => Step::Interpose(args.first().cloned().unwrap_or_default(), false),
            "partition" => match args {
                [_, step] => {
                    let step = crate::builtins::amount(step)?;
                    Step::Partition(positive()?, step.max(1), 0, Vec::new())
                }
                _ => return Err(not_a_transducer(&Value::Nil)),
            },
            "partition-all" => {
                let size = positive()?;
                let step = args.get(1).map_or(Ok(size), crate::builtins::amount)?;
                Step::PartitionAll(size, step.max(1), 0, Vec::new())
            }
            "partition-by" => Step::PartitionBy(function()?, Vec::new(), None),
            "flatten" => Step::Flatten,
            "drop-last" => Step::DropLast(count()?, VecDeque::new()),
            "reductions" => Step::Reductions(function()?, args.get(1).cloned(), false),
            _ => return Err(not_a_transducer(&Value::Nil)),
        })
    }
}

#[cold]
pub(super) fn not_a_transducer(found: &Value) -> Stop {
    wrong_type("a transducer such as (map f) or (filter pred)", found)
}

impl Stream {
    pub(super) fn new(source: Source, steps: Vec<Step>, is_pure: bool) -> Self {
        let mut stream = Self {
            source,
            given: vec![0; steps.len()],
            steps,
            waiting: Vec::new(),
            done: false,
            flushed: 0,
            is_pure,
        };
        // `(take 0)` requests nothing from the source.
        let last_empty = stream
            .steps
            .iter()
            .rposition(|step| matches!(step, Step::Take(0)));
        if let Some(index) = last_empty {
            stream.end(index);
        }
        stream
    }

    /// Whether all items are already available.
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty() && matches!(self.source, Source::Items(_) | Source::Vector(..))
    }

    pub fn next(&mut self, eval: &mut Eval<'_>) -> Evaluated<Option<Value>> {
        if self.steps.is_empty() {
            return self.source.next(eval);
        }
        loop {
            let (mut index, mut item) = match self.waiting.pop() {
                Some(waiting) => waiting,
                None if !self.done => match self.source.next(eval)? {
                    Some(item) => (0, item),
                    None => {
                        self.done = true;
                        continue;
                    }
                },
                None if self.flushed < self.steps.len() => {
                    self.flush(eval)?;
                    continue;
                }
                None => return Ok(None),
            };
            // An item that passes one by one never has to wait.
            loop {
                if index == self.steps.len() {
                    return Ok(Some(item));
                }
                let given = self.given[index];
                self.given[index] += 1;
                match self.step(eval, index, item) {
                    Ok(Some(made)) => (index, item) = (index + 1, made),
                    Ok(None) => break,
                    Err(stop) => return Err(at_item(stop, given)),
                }
            }
        }
    }

    /// Whether items may be made in chunks, for callers that consume all of them. Intermediate results may be large, so
    /// they are held one at a time: only the last step of a chunk may make new values.
    pub(super) fn is_chunkable(&self) -> bool {
        let (last, before) = match self.steps.split_last() {
            Some((last, before)) => (Some(last), before),
            None => (None, [].as_slice()),
        };
        self.is_pure
            && self.waiting.is_empty()
            && !self.done
            && matches!(
                self.source,
                Source::Items(_) | Source::Vector(..) | Source::Integers { .. }
            )
            && before.iter().all(|step| matches!(step, Step::Filter(..)))
            && last.is_none_or(|step| matches!(step, Step::Map(_) | Step::Filter(..)))
    }

    /// Fills `items` with the next items, which pass through all steps together; leaves it empty at the end.
    pub(super) fn next_chunk(
        &mut self,
        eval: &mut Eval<'_>,
        items: &mut Vec<Value>,
    ) -> Evaluated<()> {
        items.clear();
        while items.is_empty() {
            let seen = match self.steps.first() {
                Some(Step::Filter(field @ Value::Keyword(_), wanted)) => {
                    self.source.fill_with(eval, items, field, *wanted)?
                }
                _ => 0,
            };
            if seen == 0 {
                self.source.fill(eval, items)?;
                if items.is_empty() {
                    self.done = true;
                    break;
                }
            }
            let filtered = usize::from(seen > 0);
            if let Some(given) = self.given.first_mut().filter(|_| seen > 0) {
                *given += seen;
            }
            let steps = self.steps.iter().zip(&mut self.given);
            for (step, given) in steps.skip(filtered) {
                let before = *given;
                *given += items.len();
                eval.charge(items.len())?;
                match step {
                    Step::Map(function) => eval.replace_each(function, items, before)?,
                    Step::Filter(predicate, wanted) => {
                        let mut passes = SmallVec::<[bool; CHUNK]>::new();
                        let all = items.as_slice().iter().into();
                        eval.call_each(predicate, all, before, |_, _, result| {
                            passes.push(result.is_truthy() == *wanted);
                            Ok(true)
                        })?;
                        let mut passes = passes.into_iter();
                        items.retain(|_| passes.next().unwrap_or(false));
                    }
                    // No other step runs in chunks.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Passes an item through one step; returns what the next step gets at once, if anything.
    #[inline]
    fn step(&mut self, eval: &mut Eval<'_>, index: usize, item: Value) -> Evaluated<Option<Value>> {
        eval.charge(1)?;
        match &mut self.steps[index] {
            Step::Map(function) => Ok(Some(eval.call1(function, item)?)),
            Step::Filter(predicate, wanted) => {
                let passes = eval.call1(predicate, item.clone())?.is_truthy() == *wanted;
                Ok(passes.then_some(item))
            }
            _ => self.step_rare(eval, index, item),
        }
    }

    #[inline(never)]
    fn step_rare(
        &mut self,
        eval: &mut Eval<'_>,
        index: usize,
        item: Value,
    ) -> Evaluated<Option<Value>> {
        let next = index + 1;
        Ok(match &mut self.steps[index] {
            // The frequent steps are in `step`.
            Step::Map(_) | Step::Filter(..) => None,
            Step::Keep(function) => {
                let made = eval.call1(function, item)?;
                (!made.is_nil()).then_some(made)
            }
            Step::MapIndexed(function, count) => {
                let made = eval.call2(function, Value::from(*count), item)?;
                *count += 1;
                Some(made)
            }
            Step::KeepIndexed(function, count) => {
                let made = eval.call2(function, Value::from(*count), item)?;
                *count += 1;
                (!made.is_nil()).then_some(made)
            }
            Step::Mapcat(function) => {
                let part = eval.call1(function, item)?;
                let part = eval.take_items(part)?;
                self.expand(eval, next, part)?
            }
            Step::Cat => {
                let part = eval.take_items(item)?;
                self.expand(eval, next, part)?
            }
            Step::Take(left) => {
                // Nothing is requested after the last item.
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.end(index);
                }
                Some(item)
            }
            Step::Drop(left) => match left {
                0 => Some(item),
                _ => {
                    *left -= 1;
                    None
                }
            },
            Step::TakeWhile(predicate) => {
                if eval.call1(predicate, item.clone())?.is_truthy() {
                    Some(item)
                } else {
                    self.end(index);
                    None
                }
            }
            Step::DropWhile(predicate, dropping) => {
                if *dropping && eval.call1(predicate, item.clone())?.is_truthy() {
                    None
                } else {
                    *dropping = false;
                    Some(item)
                }
            }
            Step::TakeNth(nth, count) => {
                let taken = *count % *nth == 0;
                *count += 1;
                taken.then_some(item)
            }
            Step::Distinct(seen) => {
                eval.walk(&item)?;
                seen.insert(item.clone()).then_some(item)
            }
            Step::Dedupe(last) => {
                if let Some(last) = last {
                    eval.walk_both(last, &item)?;
                }
                if last.as_ref() == Some(&item) {
                    None
                } else {
                    *last = Some(item.clone());
                    Some(item)
                }
            }
            Step::Interpose(separator, started) => {
                if std::mem::replace(started, true) {
                    let separator = separator.clone();
                    self.waiting.push((next, item));
                    Some(separator)
                } else {
                    Some(item)
                }
            }
            Step::Partition(size, step, passes, part)
            | Step::PartitionAll(size, step, passes, part) => {
                if *passes > 0 {
                    *passes -= 1;
                    return Ok(None);
                }
                push(eval, part, item)?;
                if part.len() < *size {
                    return Ok(None);
                }
                *passes = step.saturating_sub(*size);
                next_window(eval, part, *step).map(Some)?
            }
            Step::PartitionBy(function, part, current) => {
                let key = eval.call1(function, item.clone())?;
                let same = match current {
                    Some(current) => {
                        eval.walk_both(current, &key)?;
                        *current == key
                    }
                    None => true,
                };
                let whole = (!same).then(|| Value::vector(std::mem::take(part)));
                push(eval, part, item)?;
                *current = Some(key);
                whole
            }
            Step::Flatten => match item {
                Value::Vector(parts) => {
                    let parts = eval.take_items(Value::Vector(parts))?;
                    // Each part is flattened in turn.
                    let first = self.expand(eval, index, parts)?;
                    self.waiting.extend(first.map(|first| (index, first)));
                    None
                }
                other => Some(other),
            },
            Step::DropLast(count, held) => {
                if held.len() == held.capacity() {
                    eval.reserve_values(held.len().max(4) * 2)?;
                }
                held.push_back(item);
                match held.len() > *count {
                    true => held.pop_front(),
                    false => None,
                }
            }
            Step::Reductions(function, folded, started) => {
                let first = !std::mem::replace(started, true);
                let Some(before) = folded.take() else {
                    *folded = Some(item.clone());
                    return Ok(Some(item));
                };
                let made = eval.call2(function, before.clone(), item)?;
                let ends = reduced(&made).is_some();
                let made = unreduced(made);
                *folded = Some(made.clone());
                if ends {
                    self.end(index);
                }
                if first {
                    self.waiting.push((next, made));
                    return Ok(Some(before));
                }
                Some(made)
            }
        })
    }

    /// Passes each of `parts` on to step `next`: returns the first one and queues the others.
    fn expand(
        &mut self,
        eval: &mut Eval<'_>,
        next: usize,
        parts: Vec<Value>,
    ) -> Evaluated<Option<Value>> {
        eval.charge(parts.len())?;
        eval.reserve(parts.len().saturating_mul(size_of::<(usize, Value)>()))?;
        let mut parts = parts.into_iter();
        let first = parts.next();
        self.waiting.extend(parts.rev().map(|part| (next, part)));
        Ok(first)
    }

    /// Step `index` needs no more items: drops everything that waits for it or for an earlier step.
    fn end(&mut self, index: usize) {
        self.done = true;
        self.waiting.retain(|(at, _)| *at > index);
        self.flushed = self.flushed.max(index + 1);
    }

    /// Makes the next step emit what it held back.
    fn flush(&mut self, eval: &mut Eval<'_>) -> Evaluated<()> {
        let index = self.flushed;
        self.flushed += 1;
        let held = match &mut self.steps[index] {
            Step::PartitionAll(_, step, _, part) if !part.is_empty() => {
                let whole = next_window(eval, part, *step)?;
                if !part.is_empty() {
                    self.flushed = index;
                }
                whole
            }
            Step::PartitionBy(_, part, _) if !part.is_empty() => {
                Value::vector(std::mem::take(part))
            }
            Step::Reductions(function, folded, false) => match folded.take() {
                Some(folded) => folded,
                None => eval.call(function, &mut []).map_err(in_empty_reduction)?,
            },
            _ => return Ok(()),
        };
        self.waiting.push((index + 1, held));
        Ok(())
    }
}

/// The complete window `part`. Afterwards `part` holds the items that also belong to the next window, `step` items
/// later.
fn next_window(eval: &mut Eval<'_>, part: &mut Vec<Value>, step: usize) -> Evaluated {
    let kept = part.get(step..).unwrap_or_default();
    eval.charge(kept.len())?;
    eval.reserve_values(kept.len())?;
    let kept = kept.to_vec();
    Ok(Value::vector(std::mem::replace(part, kept)))
}
