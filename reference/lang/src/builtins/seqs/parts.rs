//! Parts of a collection, and its size.

use std::collections::VecDeque;

use super::deferred::{drop_last_later, step, tail_later};
use super::grouping::positive;
use super::{Result, bounded, builtin, later, transducer_of};
use crate::builtins::numbers::{amount, index};
use crate::builtins::{Builtin, Home, Section, Takes, between, callable, exactly, row};
use crate::error::{at_item, of_no_argument, wrong_type};
use crate::eval::{Eval, sequence};
use crate::value::shape::watched;
use crate::value::{Map, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("first", "seqs.first", Section::Core, &[Home::Core], exactly(1), "(first coll)", "Returns the first item, or nil when there is none.", first).streaming(0),
    row("second", "seqs.second", Section::Core, &[Home::Core], exactly(1), "(second coll)", "Returns the second item, or nil when there is none.", second).streaming(0),
    row("last", "seqs.last", Section::Core, &[Home::Core], exactly(1), "(last coll)", "Returns the last item, or nil when there is none.", last).streaming(0),
    row("rest", "seqs.rest", Section::Core, &[Home::Core], exactly(1), "(rest coll)", "Returns the items after the first, an empty vector when there are none.", rest).streaming(0).deferring(tail_later),
    row("next", "seqs.next", Section::Core, &[Home::Core], exactly(1), "(next coll)", "Returns the items after the first, or nil when there are none.", next).streaming(0).deferring(tail_later),
    row("ffirst", "seqs.ffirst", Section::Core, &[Home::Core], exactly(1), "(ffirst coll)", "Returns the first item of the first item.", ffirst).streaming(0),
    row("fnext", "seqs.fnext", Section::Core, &[Home::Core], exactly(1), "(fnext coll)", "Returns the first of the items after the first.", second).streaming(0),
    row("nfirst", "seqs.nfirst", Section::Core, &[Home::Core], exactly(1), "(nfirst coll)", "Returns the items of the first item after its first, or nil.", nfirst).streaming(0),
    row("nnext", "seqs.nnext", Section::Core, &[Home::Core], exactly(1), "(nnext coll)", "Returns the items after the second, or nil.", nnext).streaming(0).deferring(tail_later),
    row("butlast", "seqs.butlast", Section::Core, &[Home::Core], exactly(1), "(butlast coll)", "Returns all items but the last, or nil when none remain.", butlast).streaming(0).deferring(drop_last_later),
    row("nth", "seqs.nth", Section::Core, &[Home::Core], between(2, 3), "(nth coll idx), (nth coll idx not-found)", "Returns the item at an index, or the default (nil) when the index is out of range.", nth).streaming(0).taking(Takes::First),
    row("nthnext", "seqs.nthnext", Section::Core, &[Home::Core], exactly(2), "(nthnext coll n)", "Drops n items and returns the others, or nil when none remain.", nthnext).streaming(0).taking(Takes::First).deferring(tail_later),
    row("nthrest", "seqs.nthrest", Section::Core, &[Home::Core], exactly(2), "(nthrest coll n)", "Drops n items and returns the others, an empty vector when none remain.", nthrest).streaming(0).taking(Takes::First).deferring(tail_later),
    row("take", "seqs.take", Section::Core, &[Home::Core], between(1, 2), "(take n coll), (take n)", "Returns the first n items.", take).streaming(1).deferring(step),
    row("take-last", "seqs.take-last", Section::Core, &[Home::Core], exactly(2), "(take-last n coll)", "Returns the last n items, or nil when there are none.", take_last).streaming(1),
    row("take-while", "seqs.take-while", Section::Core, &[Home::Core], between(1, 2), "(take-while pred coll), (take-while pred)", "Returns the leading items for which the predicate holds.", take_while).streaming(1).deferring(step),
    row("drop", "seqs.drop", Section::Core, &[Home::Core], between(1, 2), "(drop n coll), (drop n)", "Returns the items after the first n.", drop).streaming(1).deferring(step),
    row("drop-last", "seqs.drop-last", Section::Core, &[Home::Core], between(1, 2), "(drop-last coll), (drop-last n coll)", "Returns all items but the last n (one unless n is given).", drop_last).streaming(0).deferring(drop_last_later),
    row("drop-while", "seqs.drop-while", Section::Core, &[Home::Core], between(1, 2), "(drop-while pred coll), (drop-while pred)", "Returns the items from the first for which the predicate fails.", drop_while).streaming(1).deferring(step),
    row("split-at", "seqs.split-at", Section::Core, &[Home::Core], exactly(2), "(split-at n coll)", "Returns the first n items and the others as two vectors.", split_at),
    row("split-with", "seqs.split-with", Section::Core, &[Home::Core], exactly(2), "(split-with pred coll)", "Returns the leading items for which the predicate holds and the others as two vectors.", split_with),
    row("subvec", "seqs.subvec", Section::Core, &[Home::Core], between(2, 3), "(subvec v start), (subvec v start end)", "Returns the items of a vector from start (inclusive) to end (exclusive); both are moved into range.", subvec),
    row("peek", "seqs.peek", Section::Core, &[Home::Core], exactly(1), "(peek coll)", "Returns the last item of a vector, or nil.", peek),
    row("pop", "seqs.pop", Section::Core, &[Home::Core], exactly(1), "(pop coll)", "Returns a vector without its last item, or nil when it is empty.", pop),
    row("count", "seqs.count", Section::Core, &[Home::Core], exactly(1), "(count coll)", "Returns the number of items, 0 for nil.", count).streaming(0),
    row("empty?", "seqs.empty?", Section::Core, &[Home::Core], exactly(1), "(empty? coll)", "Returns true when a collection has no items.", is_empty).streaming(0),
    row("not-empty", "seqs.not-empty", Section::Core, &[Home::Core], exactly(1), "(not-empty coll)", "Returns the collection itself, or nil when it has no items.", not_empty).streaming(0),
    row("empty", "seqs.empty", Section::Core, &[Home::Core], exactly(1), "(empty coll)", "Returns an empty collection of the same kind; nil for anything that is not a collection.", empty).kinds(),
    row("take-nth", "seqs.take-nth", Section::Core, &[Home::Core], between(1, 2), "(take-nth n coll), (take-nth n)", "Returns every n-th item, from the first.", take_nth).streaming(1).deferring(step),
];

fn take_nth(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    positive(&args[0], "n")?;
    if let Some(later) = later(eval, "take-nth", args)? {
        return Ok(later);
    }
    let step = sequence::transducer(builtin("take-nth"), vec![std::mem::take(&mut args[0])]);
    let items = eval.transduced(&step, std::mem::take(&mut args[1]))?;
    Ok(Value::vector(eval.collected(items)?))
}

/// The item at index `at`, without copying the others if possible.
pub(in crate::builtins) fn item_at(
    eval: &mut Eval<'_>,
    collection: &Value,
    at: usize,
) -> Result<Option<Value>> {
    Ok(match collection {
        Value::Nil => None,
        Value::Vector(items) => items.get(at).cloned(),
        Value::Str(text) => {
            eval.charge(text.seek_steps())?;
            text.grapheme(at).map(Value::from)
        }
        Value::Map(entries) => {
            eval.charge(at)?;
            entries
                .iter()
                .nth(at)
                .map(|(key, value)| Value::vector(vec![key.clone(), value.clone()]))
        }
        Value::Set(members) => {
            eval.charge(at)?;
            members.iter().nth(at).cloned()
        }
        _ if sequence::unsettled(collection).is_some() => return skipped_to(eval, collection, at),
        _ => return Err(wrong_type("a collection", collection)),
    })
}

/// The item at index `at` of a lazy sequence.
fn skipped_to(eval: &mut Eval<'_>, sequence: &Value, at: usize) -> Result<Option<Value>> {
    if let Some((start, end, step)) = sequence::integers(sequence) {
        let inside = at < sequence::integer_count(start, end, step);
        return Ok(inside.then(|| Value::Int(start.wrapping_add((at as i64).wrapping_mul(step)))));
    }
    if at == usize::MAX {
        return Ok(None);
    }
    let mut items = eval.stream(sequence.clone())?;
    for _ in 0..at {
        if items.next(eval)?.is_none() {
            return Ok(None);
        }
    }
    items.next(eval)
}

fn first(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(item_at(eval, &args[0], 0)?.unwrap_or_default())
}

fn second(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(item_at(eval, &args[0], 1)?.unwrap_or_default())
}

fn last(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Value::Vector(items) = &args[0] {
        return Ok(items.iter().next_back().cloned().unwrap_or_default());
    }
    if let Some((start, end, step)) = sequence::integers(&args[0]) {
        let count = sequence::integer_count(start, end, step);
        return match count.checked_sub(1) {
            Some(at) => Ok(skipped_to(eval, &args[0], at)?.unwrap_or_default()),
            None => Ok(Value::Nil),
        };
    }
    if sequence::endless(&args[0]) {
        eval.settle(&mut args[0])?;
    }
    let mut items = eval.stream(std::mem::take(&mut args[0]))?;
    let mut last = Value::Nil;
    while let Some(item) = items.next(eval)? {
        last = item;
    }
    Ok(last)
}

/// The items from index `from` on.
pub(super) fn tail(eval: &mut Eval<'_>, mut collection: Value, from: usize) -> Result {
    if let Some((start, end, step)) = sequence::integers(&collection) {
        let gone = from.min(sequence::integer_count(start, end, step));
        return Ok(match gone {
            gone if gone == sequence::integer_count(start, end, step) => Value::vector(Vec::new()),
            gone => {
                let start = start.wrapping_add((gone as i64).wrapping_mul(step));
                sequence::range([start, end, step].map(Value::Int))
            }
        });
    }
    if sequence::unsettled(&collection).is_some() {
        return sequence::behind(eval, collection, from);
    }
    if let Value::Vector(items) = &collection {
        eval.reserve_values(items.len().saturating_sub(from))?;
        eval.charge(items.len().saturating_sub(from))?;
        return Ok(Value::vector(
            watched(items.iter().skip(from)).cloned().collect(),
        ));
    }
    let mut items = eval.take_items(std::mem::take(&mut collection))?;
    items.drain(..from.min(items.len()));
    Ok(Value::vector(items))
}

pub(super) fn nil_if_empty(items: Vec<Value>) -> Value {
    if items.is_empty() {
        Value::Nil
    } else {
        Value::vector(items)
    }
}

/// `collection`, or nil when it has no items.
pub(super) fn nil_for_none(eval: &mut Eval<'_>, collection: Value) -> Result {
    let some = match &collection {
        Value::Vector(items) => !items.is_empty(),
        other => item_at(eval, other, 0)?.is_some(),
    };
    Ok(if some { collection } else { Value::Nil })
}

fn rest(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    tail(eval, std::mem::take(&mut args[0]), 1)
}

fn next(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let rest = tail(eval, std::mem::take(&mut args[0]), 1)?;
    nil_for_none(eval, rest)
}

fn ffirst(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let first = item_at(eval, &args[0], 0)?.unwrap_or_default();
    let inner = item_at(eval, &first, 0).map_err(of_no_argument)?;
    Ok(inner.unwrap_or_default())
}

fn nfirst(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let first = item_at(eval, &args[0], 0)?.unwrap_or_default();
    let rest = tail(eval, first, 1).map_err(of_no_argument)?;
    nil_for_none(eval, rest)
}

fn nnext(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let rest = tail(eval, std::mem::take(&mut args[0]), 2)?;
    nil_for_none(eval, rest)
}

fn butlast(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bounded(eval, args)?;
    let mut items = eval.take_items(std::mem::take(&mut args[0]))?;
    items.pop();
    Ok(nil_if_empty(items))
}

fn nth(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let at = index(&args[1])?;
    let found = match usize::try_from(at) {
        Ok(at) => item_at(eval, &args[0], at)?,
        Err(_) => item_at(eval, &args[0], usize::MAX)?,
    };
    Ok(found
        .or_else(|| args.get_mut(2).map(std::mem::take))
        .unwrap_or_default())
}

fn nthnext(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let from = amount_after(eval, args)?;
    let rest = tail(eval, std::mem::take(&mut args[0]), from)?;
    nil_for_none(eval, rest)
}

fn nthrest(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let from = amount_after(eval, args)?;
    tail(eval, std::mem::take(&mut args[0]), from)
}

/// The count of `(nthrest coll n)`; an error of the collection takes precedence.
pub(super) fn amount_after(eval: &mut Eval<'_>, args: &[Value]) -> Result<usize> {
    item_at(eval, &args[0], 0)?;
    amount(&args[1])
}

fn take(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    let [_, collection] = args else {
        return transducer_of("take", args);
    };
    if sequence::unsettled(collection).is_some() {
        let mut items = eval.stream(std::mem::take(collection))?;
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(item) = items.next(eval)?
        {
            taken.push(item);
        }
        return Ok(Value::vector(taken));
    }
    if let Value::Vector(items) = &args[1] {
        let count = count.min(items.len());
        eval.reserve_values(count)?;
        eval.charge(count)?;
        return Ok(Value::vector(
            watched(items.iter().take(count)).cloned().collect(),
        ));
    }
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    items.truncate(count);
    Ok(Value::vector(items))
}

fn take_last(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    bounded(eval, &mut args[1..])?;
    if sequence::unsettled(&args[1]).is_none() {
        let items = eval.take_items(std::mem::take(&mut args[1]))?;
        let from = items.len().saturating_sub(count);
        return Ok(nil_if_empty(items.into_iter().skip(from).collect()));
    }
    // Only the last `count` items so far are held.
    let mut items = eval.stream(std::mem::take(&mut args[1]))?;
    let mut last = VecDeque::new();
    while let Some(item) = items.next(eval)? {
        if last.len() == count {
            last.pop_front();
        }
        if last.len() < count {
            if last.len() == last.capacity() {
                eval.reserve_values(last.len().max(4) * 2)?;
            }
            last.push_back(item);
        }
    }
    Ok(nil_if_empty(last.into()))
}

fn drop(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    if args.len() == 1 {
        return transducer_of("drop", args);
    }
    tail(eval, std::mem::take(&mut args[1]), count)
}

fn drop_last(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = if args.len() == 2 {
        amount(&args[0])?
    } else {
        1
    };
    let at = args.len() - 1;
    bounded(eval, &mut args[at..])?;
    let mut items = eval.take_items(std::mem::take(&mut args[at]))?;
    items.truncate(items.len().saturating_sub(count));
    Ok(Value::vector(items))
}

/// The index of the first item for which the predicate fails.
fn prefix(eval: &mut Eval<'_>, predicate: &Value, items: &[Value]) -> Result<usize> {
    callable(predicate)?;
    for (at, item) in items.iter().enumerate() {
        let answer = eval.call1(predicate, item.clone());
        if !answer.map_err(|stop| at_item(stop, at))?.truthy() {
            return Ok(at);
        }
    }
    Ok(items.len())
}

fn take_while(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [predicate, collection] = args else {
        return transducer_of("take-while", args);
    };
    if sequence::unsettled(collection).is_some() {
        callable(predicate)?;
        let mut items = eval.stream(std::mem::take(collection))?;
        let mut taken = Vec::new();
        while let Some(item) = items.next(eval)?
            && eval
                .call1(predicate, item.clone())
                .map_err(|stop| at_item(stop, taken.len()))?
                .truthy()
        {
            taken.push(item);
        }
        return Ok(Value::vector(taken));
    }
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    items.truncate(end);
    Ok(Value::vector(items))
}

fn drop_while(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(later) = later(eval, "drop-while", args)? {
        return Ok(later);
    }
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    items.drain(..end);
    Ok(Value::vector(items))
}

fn split_with(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    parted(eval, items, end)
}

fn split_at(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    parted(eval, items, count)
}

/// Splits `items` after the first `count`; the shorter half is moved.
fn parted(eval: &mut Eval<'_>, mut items: Vec<Value>, count: usize) -> Result {
    let count = count.min(items.len());
    let moved = count.min(items.len() - count);
    eval.reserve_values(moved)?;
    eval.charge(moved)?;
    let parts = if moved == count {
        let first = items.drain(..count).collect();
        [first, items]
    } else {
        let behind = items.split_off(count);
        [items, behind]
    };
    Ok(Value::vector(parts.map(Value::vector).to_vec()))
}

fn subvec(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Value::Vector(items) = &args[0] else {
        return Err(wrong_type("a vector", &args[0]));
    };
    let inside = |at: i64| at.clamp(0, items.len() as i64) as usize;
    let start = inside(index(&args[1])?);
    let end = inside(args.get(2).map_or(Ok(items.len() as i64), index)?).max(start);
    eval.reserve_values(end - start)?;
    eval.charge(end - start)?;
    Ok(Value::vector(
        items
            .iter()
            .skip(start)
            .take(end - start)
            .cloned()
            .collect(),
    ))
}

fn peek(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match &args[0] {
        Value::Nil | Value::Vector(_) => last(eval, args),
        other => Err(wrong_type("a vector", other)),
    }
}

fn pop(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match &mut args[0] {
        Value::Nil => Ok(Value::Nil),
        Value::Vector(items) if items.is_empty() => Ok(Value::Nil),
        Value::Vector(items) => {
            eval.change(items.copy_bytes())?;
            items.pop();
            Ok(std::mem::take(&mut args[0]))
        }
        other => Err(wrong_type("a vector", other)),
    }
}

fn count(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::from(match &args[0] {
        Value::Nil => 0,
        Value::Vector(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Set(members) => members.len(),
        Value::Str(text) => {
            eval.charge(text.seek_steps())?;
            text.count()
        }
        other if sequence::unsettled(other).is_some() => {
            return counted_items(eval, std::mem::take(&mut args[0]));
        }
        other => return Err(wrong_type("a collection", other)),
    }))
}

/// The number of items of a lazy sequence.
fn counted_items(eval: &mut Eval<'_>, mut collection: Value) -> Result {
    if let Some((start, end, step)) = sequence::integers(&collection) {
        return Ok(Value::from(sequence::integer_count(start, end, step)));
    }
    if sequence::endless(&collection) {
        eval.settle(&mut collection)?;
    }
    let mut items = eval.stream(collection)?;
    let mut count = 0usize;
    while items.next(eval)?.is_some() {
        count += 1;
    }
    Ok(Value::from(count))
}

fn is_empty(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::unsettled(&args[0]).is_some() {
        return Ok(Value::Bool(item_at(eval, &args[0], 0)?.is_none()));
    }
    Ok(Value::Bool(emptiness(&args[0])?))
}

pub(super) fn emptiness(value: &Value) -> Result<bool> {
    Ok(match value {
        Value::Nil => true,
        Value::Vector(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Set(members) => members.is_empty(),
        Value::Str(text) => text.is_empty(),
        other => return Err(wrong_type("a collection", other)),
    })
}

fn not_empty(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::unsettled(&args[0]).is_some() {
        return nil_for_none(eval, std::mem::take(&mut args[0]));
    }
    Ok(if emptiness(&args[0])? {
        Value::Nil
    } else {
        std::mem::take(&mut args[0])
    })
}

fn empty(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(match &args[0] {
        Value::Vector(_) => Value::vector(Vec::new()),
        sequence if sequence::unsettled(sequence).is_some() => Value::vector(Vec::new()),
        Value::Map(_) => Value::Map(Map::new()),
        Value::Set(_) => Value::Set(crate::value::Set::new()),
        _ => Value::Nil,
    })
}
