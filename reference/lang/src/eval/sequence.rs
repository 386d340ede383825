//! Lazy sequences, whose items are made on demand: a source, and the transducers that its items pass through. Knows
//! nothing of the functions that consume them.
//!
//! A lazy sequence exists only in locals and arguments. Anything that keeps a value, shows it or hands it out gets a
//! vector: at every such place the sequence is realized ([`Eval::realize`]), and each item is charged.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Eval, Evaluated, ITEM_STEPS};
use crate::analyze::ir::Op;
use crate::builtins::{Builtin, Consumes, callable, combined_value};
use crate::error::{
    Fingerprints, Kind, Stop, about, at, at_item, bad_value, in_empty_reduction, with_function,
    wrong_type,
};
use crate::form::Span;
use crate::function::{Combinator, Combined};
use crate::value::shape::FreedInSlices;
use crate::value::{Items, Value, Vector, number_cmp};

/// Collections up to this length are processed eagerly, however many functions follow.
pub const EAGER_LEN_MAX: usize = 64;

/// The lazy sequence that `value` is, if it is one.
#[inline]
pub fn as_lazy(value: &Value) -> Option<&Arc<Combined>> {
    match value {
        Value::Combined(made) if made.kind == Combinator::Sequence => Some(made),
        _ => None,
    }
}

/// A lazy sequence over `source`, which is not a sequence itself.
pub fn lazy_sequence(source: Value) -> Value {
    combined_value(Combinator::Sequence, vec![source])
}

/// A lazy sequence of numbers; `bounds` are its start, end and step.
pub fn range(bounds: [Value; 3]) -> Value {
    lazy_sequence(combined_value(Combinator::Range, bounds.to_vec()))
}

/// `sequence` with `step` appended to its transducers.
fn append_step(sequence: &Combined, step: Value) -> Value {
    let mut parts = sequence.parts.clone();
    parts.push(step);
    combined_value(Combinator::Sequence, parts)
}

/// `(map f)`, `(take n)` and similar calls without a collection.
pub fn transducer(builtin: &'static Builtin, mut args: Vec<Value>) -> Value {
    args.insert(0, Value::Builtin(builtin));
    combined_value(Combinator::Transducer, args)
}

/// The value inside a `(reduced x)`.
#[inline]
pub fn reduced(value: &Value) -> Option<&Value> {
    match value {
        Value::Combined(made) if made.kind == Combinator::Reduced => made.parts.first(),
        _ => None,
    }
}

/// Whether `value` is a sequence without an end.
pub fn is_endless(value: &Value) -> bool {
    as_lazy(value).is_some_and(|sequence| sequence.endless)
}

/// The deepest nesting of sequences whose items come from other sequences. Making an item visits all of them.
const DEPTH_MAX: u32 = 16;

/// Realizes a sequence that nests too deep to be the source of another; an endless one is refused.
fn limit_nesting(eval: &mut Eval<'_>, sequence: &mut Value) -> Evaluated<()> {
    match as_lazy(sequence).is_none() || sequence.shape().depth <= DEPTH_MAX {
        true => Ok(()),
        false => eval.realize(sequence),
    }
}

/// A sequence of the results of `function` on the items of `columns`, side by side.
pub fn zip_with(eval: &mut Eval<'_>, function: Value, columns: &mut [Value]) -> Evaluated {
    let mut parts = vec![function];
    for column in columns {
        limit_nesting(eval, column)?;
        parts.push(std::mem::take(column));
    }
    Ok(lazy_sequence(combined_value(Combinator::ZipWith, parts)))
}

/// A sequence of the items of each of `parts`, one part after the other.
pub fn chain(eval: &mut Eval<'_>, mut parts: Vec<Value>) -> Evaluated {
    for part in &mut parts {
        limit_nesting(eval, part)?;
    }
    Ok(lazy_sequence(combined_value(Combinator::Chain, parts)))
}

/// A sequence of `items` followed by those of the sequence `endless`.
pub fn prepend(eval: &mut Eval<'_>, mut items: Vec<Value>, endless: Value) -> Evaluated {
    if items.is_empty() {
        return Ok(endless);
    }
    let mut after = vec![endless];
    // Items put before items are merged into one vector.
    if let Some(made) = as_lazy(&after[0])
        && let [Value::Combined(source)] = made.parts.as_slice()
        && let (Combinator::Chain, [Value::Vector(first), rest @ ..]) =
            (source.kind, source.parts.as_slice())
    {
        eval.reserve_values(items.len() + first.len())?;
        eval.charge(first.len())?;
        items.extend(first.iter().cloned());
        after = rest.to_vec();
    }
    after.insert(0, Value::vector(items));
    chain(eval, after)
}

/// A sequence without its first `count` items.
pub fn drop_first(eval: &mut Eval<'_>, value: Value, count: usize) -> Evaluated {
    let Some(made) = as_lazy(&value) else {
        return Ok(value);
    };
    // The items that were skipped need not be computed again.
    if let [Value::Combined(source)] = made.parts.as_slice()
        && let (Combinator::Iterate, [function, first]) = (source.kind, source.parts.as_slice())
    {
        let mut first = first.clone();
        for _ in 0..count {
            first = eval.call1(function, first)?;
        }
        let parts = vec![function.clone(), first];
        return Ok(lazy_sequence(combined_value(Combinator::Iterate, parts)));
    }
    if made.endless {
        return Ok(drop_lazily(made.parts.clone(), count));
    }
    let mut stream = eval.stream(value)?;
    for _ in 0..count {
        if stream.next(eval)?.is_none() {
            break;
        }
    }
    // The remaining numbers need not be made yet.
    if let (Source::Numbers { next, end, step }, []) = (&stream.source, stream.steps.as_slice()) {
        return Ok(range([next.clone(), end.clone(), step.clone()]));
    }
    Ok(Value::vector(eval.collected(stream)?))
}

/// The sequence of these parts without its first `count` items, which are skipped on demand.
pub fn drop_lazily(mut parts: Vec<Value>, count: usize) -> Value {
    let drop = crate::builtins::lookup("drop").expect("a row of the table");
    let before = match parts.last() {
        Some(Value::Combined(last)) => match last.parts.as_slice() {
            [Value::Builtin(builtin), Value::Int(before)] if builtin.name == "drop" => {
                usize::try_from(*before).ok()
            }
            _ => None,
        },
        _ => None,
    };
    if before.is_some() {
        parts.pop();
    }
    let count = before.unwrap_or(0).saturating_add(count);
    parts.push(transducer(drop, vec![Value::from(count)]));
    combined_value(Combinator::Sequence, parts)
}

/// The parts of a sequence; for any other collection, the parts of a sequence over it.
pub fn parts_of(collection: &Value) -> Vec<Value> {
    match as_lazy(collection) {
        Some(made) => made.parts.clone(),
        None => vec![collection.clone()],
    }
}

/// The start, end and step of a plain range of integers.
pub fn integers(value: &Value) -> Option<(i64, i64, i64)> {
    let [Value::Combined(source)] = as_lazy(value)?.parts.as_slice() else {
        return None;
    };
    match (source.kind, source.parts.as_slice()) {
        (Combinator::Range, [Value::Int(start), Value::Int(end), Value::Int(step)]) => {
            Some((*start, *end, *step))
        }
        _ => None,
    }
}

/// The number of integers from `start` up to `end` in steps of `step`.
pub fn integer_count(start: i64, end: i64, step: i64) -> usize {
    let span = if step > 0 {
        i128::from(end) - i128::from(start)
    } else {
        i128::from(start) - i128::from(end)
    };
    let step = i128::from(step).abs().max(1);
    let count = if span <= 0 {
        0
    } else {
        (span + step - 1) / step
    };
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The number of items that are processed together where all of them are wanted.
const CHUNK: usize = 64;

pub struct Stream {
    source: Source,
    steps: Vec<Step>,
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

enum Source {
    Items(std::vec::IntoIter<Value>),
    Vector(Vector, usize),
    Integers {
        next: i64,
        left: usize,
        step: i64,
    },
    Numbers {
        next: Value,
        end: Value,
        step: Value,
    },
    Iterate {
        function: Value,
        last: Value,
        first: bool,
    },
    Repeat(Value),
    Cycle(Vector, usize),
    Repeatedly(Value),
    ZipWith(Value, Vec<Stream>),
    Chain(Option<Box<Stream>>, std::vec::IntoIter<Value>),
}

enum Step {
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
    fn of(builtin: &Builtin, args: &[Value]) -> Evaluated<Step> {
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
fn not_a_transducer(found: &Value) -> Stop {
    wrong_type("a transducer such as (map f) or (filter pred)", found)
}

impl Stream {
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
    fn is_chunkable(&self) -> bool {
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
    fn next_chunk(&mut self, eval: &mut Eval<'_>, items: &mut Vec<Value>) -> Evaluated<()> {
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

/// Appends an item, after reserving memory for it.
fn push(eval: &mut Eval<'_>, items: &mut Vec<Value>, item: Value) -> Evaluated<()> {
    if items.len() == items.capacity() {
        eval.reserve_values(items.len().max(4) * 2)?;
    }
    items.push(item);
    Ok(())
}

impl Source {
    /// Appends the next items to `items`, for a source whose items are available or cost nothing.
    fn fill(&mut self, eval: &mut Eval<'_>, items: &mut Vec<Value>) -> Evaluated<()> {
        match self {
            Source::Items(all) => items.extend(all.take(CHUNK)),
            Source::Vector(all, at) => {
                let end = all.len().min(*at + CHUNK);
                items.extend((*at..end).filter_map(|at| all.get(at).cloned()));
                *at = end;
            }
            Source::Integers { next, left, step } => {
                let count = CHUNK.min(*left);
                *left -= count;
                items.extend((0..count).map(|_| {
                    let item = *next;
                    *next = next.wrapping_add(*step);
                    Value::Int(item)
                }));
            }
            _ => {}
        }
        eval.charge(items.len())
    }

    /// Like `fill`, for a vector of maps, but appends only the maps whose `field` is `wanted`, so that skipped ones are
    /// not copied. Returns how many were examined, 0 when the source is not such a vector.
    fn fill_with(
        &mut self,
        eval: &mut Eval<'_>,
        items: &mut Vec<Value>,
        field: &Value,
        wanted: bool,
    ) -> Evaluated<usize> {
        let Source::Vector(all, at) = self else {
            return Ok(0);
        };
        let end = all.len().min(*at + CHUNK);
        let maps = (*at..end).map_while(|at| match all.get(at) {
            Some(item @ Value::Map(map)) => Some((item, map)),
            _ => None,
        });
        let mut seen = 0;
        for (item, map) in maps {
            seen += 1;
            if map.lookup(field).is_some_and(Value::is_truthy) == wanted {
                items.push(item.clone());
            }
        }
        *at += seen;
        eval.charge(seen * 2)?;
        Ok(seen)
    }

    fn next(&mut self, eval: &mut Eval<'_>) -> Evaluated<Option<Value>> {
        eval.charge(1)?;
        Ok(match self {
            Source::Items(items) => items.next(),
            Source::Vector(items, at) => {
                *at += 1;
                items.get(*at - 1).cloned()
            }
            Source::Integers { next, left, step } => {
                if *left == 0 {
                    return Ok(None);
                }
                *left -= 1;
                let item = *next;
                // Every item lies within the bounds, but the number after the last one may overflow.
                *next = next.wrapping_add(*step);
                Some(Value::Int(item))
            }
            Source::Numbers { next, end, step } => {
                let direction = number_cmp(step, &Value::Int(0));
                if !end.is_nil() && number_cmp(next, end) != direction.reverse() {
                    return Ok(None);
                }
                let item = std::mem::take(next);
                *next = crate::builtins::plus(&item, step)?;
                if matches!(next, Value::Float(float) if float.is_nan()) {
                    *end = Value::Int(0);
                    *next = Value::Int(0);
                }
                Some(item)
            }
            Source::Iterate {
                function,
                last,
                first,
            } => {
                if !std::mem::take(first) {
                    let before = std::mem::take(last);
                    *last = eval.call1(function, before)?;
                }
                Some(last.clone())
            }
            Source::Repeat(item) => Some(item.clone()),
            Source::Cycle(items, at) => {
                if items.is_empty() {
                    return Ok(None);
                }
                let item = items.get(*at).cloned();
                *at = (*at + 1) % items.len();
                item
            }
            Source::Repeatedly(function) => Some(eval.call(function, &mut [])?),
            Source::ZipWith(function, columns) => {
                let mut row = SmallVec::<[Value; 4]>::new();
                for column in columns {
                    match column.next(eval)? {
                        Some(item) => row.push(item),
                        None => return Ok(None),
                    }
                }
                Some(eval.call(function, &mut row)?)
            }
            Source::Chain(part, parts) => loop {
                if let Some(items) = part {
                    if let Some(item) = items.next(eval)? {
                        break Some(item);
                    }
                    *part = None;
                }
                let Some(next) = parts.next() else {
                    break None;
                };
                eval.charge(ITEM_STEPS)?;
                *part = Some(Box::new(eval.stream(next)?));
            },
        })
    }

    fn of(eval: &mut Eval<'_>, value: Value) -> Evaluated<Source> {
        let Value::Combined(made) = &value else {
            return Ok(match value {
                Value::Vector(items) if items.is_unshared() => {
                    Source::Items(items.into_vec().into_iter())
                }
                Value::Vector(items) => Source::Vector(items, 0),
                other => Source::Items(eval.items(&other)?.into_iter()),
            });
        };
        Ok(match (made.kind, made.parts.as_slice()) {
            (Combinator::Range, [Value::Int(start), Value::Int(end), Value::Int(step)]) => {
                Source::Integers {
                    next: *start,
                    left: integer_count(*start, *end, *step),
                    step: *step,
                }
            }
            (Combinator::Range, [start, end, step]) => Source::Numbers {
                next: start.clone(),
                end: end.clone(),
                step: step.clone(),
            },
            (Combinator::Iterate, [function, first]) => Source::Iterate {
                function: function.clone(),
                last: first.clone(),
                first: true,
            },
            (Combinator::Repeat, [item]) => Source::Repeat(item.clone()),
            (Combinator::Cycle, [Value::Vector(items)]) => Source::Cycle(items.clone(), 0),
            (Combinator::Repeatedly, [function]) => Source::Repeatedly(function.clone()),
            (Combinator::ZipWith, [function, columns @ ..]) => {
                let mut streams = Vec::with_capacity(columns.len());
                for column in columns {
                    eval.charge(ITEM_STEPS)?;
                    streams.push(eval.stream(column.clone())?);
                }
                Source::ZipWith(function.clone(), streams)
            }
            (Combinator::Chain, parts) => Source::Chain(None, Vec::from(parts).into_iter()),
            _ => return Err(wrong_type("a collection", &value)),
        })
    }
}

impl Eval<'_> {
    /// The items of anything seqable, in order.
    pub fn stream(&mut self, value: Value) -> Evaluated<Stream> {
        let mut steps = Vec::new();
        let is_pure = as_lazy(&value).is_some();
        let source = match as_lazy(&value) {
            Some(sequence) => {
                let [source, through @ ..] = sequence.parts.as_slice() else {
                    return Err(wrong_type("a collection", &value));
                };
                for step in through {
                    self.steps(step, &mut steps)?;
                }
                Source::of(self, source.clone())?
            }
            None => Source::of(self, value)?,
        };
        Ok(self.new_stream(source, steps, is_pure))
    }

    /// The items of `value`, passed through the transducer `xform`.
    pub fn transduce(&mut self, xform: &Value, value: Value) -> Evaluated<Stream> {
        let mut stream = self.stream(value)?;
        let mut steps = Vec::new();
        self.steps(xform, &mut steps)?;
        stream.steps.extend(steps);
        let Stream { source, steps, .. } = stream;
        // A transducer may have any effect, item by item.
        Ok(self.new_stream(source, steps, false))
    }

    fn new_stream(&self, source: Source, steps: Vec<Step>, is_pure: bool) -> Stream {
        let mut stream = Stream {
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

    /// The steps that a transducer consists of; `comp` is taken apart.
    fn steps(&mut self, xform: &Value, steps: &mut Vec<Step>) -> Evaluated<()> {
        let mut pending = vec![xform.clone()];
        while let Some(xform) = pending.pop() {
            self.charge(1)?;
            match &xform {
                Value::Builtin(builtin) if builtin.name == "cat" => steps.push(Step::Cat),
                Value::Combined(made) if made.kind == Combinator::Comp => {
                    self.charge(made.parts.len())?;
                    self.reserve_values(made.parts.len())?;
                    pending.extend(made.parts.iter().rev().cloned());
                }
                Value::Combined(made) if made.kind == Combinator::Transducer => {
                    match made.parts.as_slice() {
                        [Value::Builtin(builtin), args @ ..] => {
                            steps.push(Step::of(builtin, args)?);
                        }
                        _ => return Err(not_a_transducer(&xform)),
                    }
                }
                _ => return Err(not_a_transducer(&xform)),
            }
        }
        Ok(())
    }

    /// Every remaining item.
    pub fn collected(&mut self, mut stream: Stream) -> Evaluated<Vec<Value>> {
        if stream.steps.is_empty()
            && let Source::Items(items) = stream.source
        {
            return Ok(items.collect());
        }
        let mut items = Vec::new();
        if let (Source::Integers { left, .. }, []) = (&stream.source, stream.steps.as_slice()) {
            self.reserve_values(*left)?;
            items.reserve_exact(*left);
        }
        if stream.is_chunkable() {
            let mut chunk = Vec::with_capacity(CHUNK);
            loop {
                stream.next_chunk(self, &mut chunk)?;
                if chunk.is_empty() {
                    return Ok(items);
                }
                if items.capacity() - items.len() < chunk.len() {
                    self.reserve_values((items.len() + chunk.len()) * 2)?;
                }
                items.append(&mut chunk);
            }
        }
        while let Some(item) = stream.next(self)? {
            push(self, &mut items, item)?;
        }
        Ok(items)
    }

    /// Replaces a sequence by a vector.
    #[inline]
    pub fn realize(&mut self, value: &mut Value) -> Evaluated<()> {
        match as_lazy(value) {
            None => Ok(()),
            Some(_) => self.realize_sequence(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn realize_sequence(&mut self, value: &mut Value) -> Evaluated<()> {
        if is_endless(value) {
            return Err(bad_value(about(
                "the sequence has no end: bound it where it is made, as in (take 10 (iterate inc 0))",
                value,
            )));
        }
        let stream = self.stream(std::mem::take(value))?;
        *value = Value::vector(self.collected(stream)?);
        Ok(())
    }

    /// `value`, or a vector of its items if it is a sequence.
    #[inline]
    pub fn realized(&mut self, mut value: Value) -> Evaluated {
        self.realize(&mut value)?;
        Ok(value)
    }

    /// The result of a builtin on an endless sequence: the sequence with the builtin appended to its transducers.
    pub fn with_transducer(
        &mut self,
        builtin: &'static Builtin,
        args: &[Value],
        sequence: &Value,
    ) -> Evaluated {
        let mut args = args.to_vec();
        // An argument may become an item, such as a separator.
        args.iter_mut().try_for_each(|arg| self.realize(arg))?;
        // Errors are raised at the call of the builtin, not when an item is requested.
        Step::of(builtin, &args)?;
        let step = transducer(builtin, args);
        Ok(match as_lazy(sequence) {
            Some(sequence) => append_step(sequence, step),
            None => combined_value(Combinator::Sequence, vec![sequence.clone(), step]),
        })
    }

    /// Calls a builtin whose items the enclosing call consumes. When there are many of them, and nobody can observe
    /// when they are made, they are made one by one.
    pub(super) fn call_lazily(
        &mut self,
        builtin: &'static Builtin,
        mut args: smallvec::SmallVec<[Value; 4]>,
        span: Span,
    ) -> Evaluated {
        let many = |value: &Value| match value {
            Value::Vector(items) => items.len() > EAGER_LEN_MAX,
            Value::Map(entries) => entries.len() > EAGER_LEN_MAX,
            Value::Set(members) => members.len() > EAGER_LEN_MAX,
            _ => as_lazy(value).is_some(),
        };
        let taken = &args[builtin.consumes.of(args.len())];
        let is_lazy = builtin.arity.accepts(args.len())
            && (builtin.consumes == Consumes::None || taken.iter().any(many))
            && args.iter().all(|arg| self.is_pure(arg));
        if let Some(lazy) = builtin.lazy
            && is_lazy
        {
            let fingerprints = Fingerprints::of(&args);
            match lazy(self, builtin, &mut args) {
                Ok(None) => {}
                Ok(Some(sequence)) => {
                    self.tick()?;
                    return Ok(sequence);
                }
                Err(stop) => {
                    return Err(at(
                        with_function(stop, builtin.name, &args, &fingerprints),
                        span,
                    ));
                }
            }
        }
        self.builtin(builtin, &mut args, span)
    }

    /// Whether nobody can observe when `function` is called: it prints nothing, defines nothing, calls no tool, does
    /// not end the program, and reads no global that may be redefined.
    fn is_pure(&self, function: &Value) -> bool {
        /// The number of functions that are examined.
        const FUNCTIONS_MAX: usize = 64;
        let mut pending = vec![function.clone()];
        let mut seen = BTreeSet::new();
        while let Some(function) = pending.pop() {
            match &function {
                Value::Builtin(builtin) if builtin.has_effects() => return false,
                Value::Fn(closure) => {
                    if closure.lambda.has_effects || seen.len() >= FUNCTIONS_MAX {
                        return false;
                    }
                    if !seen.insert(Arc::as_ptr(&closure.lambda).addr()) {
                        continue;
                    }
                    let captured = closure.captures.iter();
                    pending.extend(captured.filter(|value| Eval::may_run_code(value)).cloned());
                    for id in &closure.lambda.globals {
                        if self.shared.names.is_redefinable(*id) {
                            return false;
                        }
                        match self.globals.get(*id as usize) {
                            Some(Some(definition)) => {
                                if Eval::may_run_code(&definition.value) {
                                    pending.push(definition.value.clone());
                                }
                            }
                            _ => return false,
                        }
                    }
                }
                Value::Combined(made) => match made.kind {
                    Combinator::Tool => return false,
                    _ if made.parts.len() > FUNCTIONS_MAX || made.depth > 8 => return false,
                    _ => {
                        let parts = made.parts.iter();
                        pending.extend(parts.filter(|part| Eval::may_run_code(part)).cloned());
                    }
                },
                Value::Var(_) => return false,
                _ => {}
            }
        }
        true
    }

    /// Whether `value` may run code of a program when it is called.
    fn may_run_code(value: &Value) -> bool {
        matches!(
            value,
            Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) | Value::Var(_)
        )
    }

    /// Calls `callee` with the accumulator and each item in turn; a reduced value ends the loop. `before` items of the
    /// collection came before these.
    pub fn fold_stream(
        &mut self,
        callee: &Value,
        first: Value,
        mut stream: Stream,
        before: usize,
    ) -> Evaluated {
        let op = match callee {
            Value::Builtin(builtin) => Op::of(builtin),
            _ => None,
        };
        let mut folded = first;
        let mut index = before;
        if let Some(op) = op
            && stream.is_chunkable()
        {
            // An operator needs all items.
            let mut chunk = Vec::with_capacity(CHUNK);
            loop {
                stream.next_chunk(self, &mut chunk)?;
                if chunk.is_empty() {
                    return Ok(folded);
                }
                self.charge(chunk.len())?;
                for item in chunk.drain(..) {
                    folded = match op.values(&folded, &item) {
                        Some(known) => known,
                        None => {
                            let result = self.call2(callee, folded, item);
                            result.map_err(|stop| at_item(stop, index))?
                        }
                    };
                    index += 1;
                }
            }
        }
        while let Some(item) = stream.next(self)? {
            let result = self.call2(callee, folded, item);
            folded = result.map_err(|stop| at_item(stop, index))?;
            index += 1;
            if let Some(value) = reduced(&folded) {
                return Ok(value.clone());
            }
        }
        Ok(folded)
    }

    /// [`Eval::fold_stream`] for items that are already available.
    pub fn fold_items(
        &mut self,
        callee: &Value,
        first: Value,
        items: Items<'_>,
        before: usize,
    ) -> Evaluated {
        let mut folded = first;
        for (index, item) in items.enumerate() {
            let result = self.call2(callee, folded, item.clone());
            folded = result.map_err(|stop| at_item(stop, before + index))?;
            if let Some(value) = reduced(&folded) {
                return Ok(value.clone());
            }
        }
        Ok(folded)
    }
}

/// The value inside a reduced value; any other value itself.
pub fn unreduced(value: Value) -> Value {
    match reduced(&value) {
        Some(inner) => inner.clone(),
        None => value,
    }
}

/// The error for a transducer that is called like a function.
#[cold]
pub(super) fn called_transducer() -> Stop {
    Kind::Other("a transducer is no function of items: give it to into, transduce or sequence, as in (into [] (map inc) coll)".into()).into()
}
