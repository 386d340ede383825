//! Collections made from items and from other collections.

use std::collections::BTreeSet;

use super::deferred::{chain_later, interleave_later, step, zip_later};
use super::endless::endless_of;
use super::mapping::side_by_side;
use super::parts::{nil_for_none, nil_if_empty};
use super::{Result, bounded, builtin, later, transducer_of};
use crate::builtins::{Builtin, Home, Section, Takes, at_least, between, exactly, key_of, row};
use crate::error::{about, at_item, bad_value, quoting, wrong_type};
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::shape::Freed;
use crate::value::{Map, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("vector", "seqs.vector", Section::Sets, &[Home::Core, Home::Set], at_least(0), "(vector & args)", "Makes a vector of its arguments.", vector),
    row("list", "seqs.list", Section::Core, &[Home::Core], at_least(0), "(list & args)", "Makes a vector of its arguments.", vector),
    row("vec", "seqs.vec", Section::Sets, &[Home::Core, Home::Set], exactly(1), "(vec coll)", "Makes a vector of the items of a collection.", vec),
    row("seq", "seqs.seq", Section::Core, &[Home::Core], exactly(1), "(seq coll)", "Returns the items of a collection as a vector, or nil when it has none.", seq).streaming(0),
    row("concat", "seqs.concat", Section::Core, &[Home::Core], at_least(0), "(concat coll1 coll2 ...)", "Joins collections end to end into one vector.", concat).endless().taking(Takes::From(0)).deferring(chain_later),
    row("cons", "seqs.cons", Section::Core, &[Home::Core], exactly(2), "(cons x seq)", "Puts an item in front of the items of a collection.", cons).endless().taking(Takes::Last).deferring(chain_later),
    row("conj", "seqs.conj", Section::Core, &[Home::Core], at_least(0), "(conj), (conj coll x ...)", "Adds items to a collection: at the end of a vector, as entries of a map, as members of a set.", conj),
    row("into", "seqs.into", Section::Core, &[Home::Core], between(0, 3), "(into), (into to), (into to from), (into to xform from)", "Adds all items of the second collection to the first.", into).streaming(1),
    row("range", "seqs.range", Section::Core, &[Home::Core], between(0, 3), "(range end), (range start end), (range start end step), (range)", "Returns the numbers from start (default 0, inclusive) to end (exclusive), by step (default 1); without an end they are endless.", range),
    row("reverse", "seqs.reverse", Section::Core, &[Home::Core], exactly(1), "(reverse coll)", "Returns the items in reverse order.", reverse),
    row("rseq", "seqs.rseq", Section::Core, &[Home::Core], exactly(1), "(rseq v)", "Returns the items of a vector in opposite order, or nil when it has none.", rseq),
    row("distinct", "seqs.distinct", Section::Core, &[Home::Core], between(0, 1), "(distinct coll), (distinct)", "Drops items that occurred before.", distinct).streaming(0).deferring(step),
    row("distinct-by", "aggregates.distinct-by", Section::Core, &[], exactly(2), "(distinct-by keyfn coll)", "Keeps the first item for each value of the key function.", distinct_by),
    row("dedupe", "seqs.dedupe", Section::Core, &[Home::Core], between(0, 1), "(dedupe coll), (dedupe)", "Drops items that are the same as the item directly before.", dedupe).streaming(0).deferring(step),
    row("interleave", "seqs.interleave", Section::Core, &[Home::Core], at_least(0), "(interleave), (interleave coll), (interleave c1 c2 ...)", "Takes items from each collection in turn until one is used up.", interleave).streaming(0).taking(Takes::From(0)).deferring(interleave_later),
    row("interpose", "seqs.interpose", Section::Core, &[Home::Core], between(1, 2), "(interpose sep coll), (interpose sep)", "Puts a separator between neighbouring items.", interpose).streaming(1).deferring(step),
    row("zip", "seqs.zip", Section::Core, &[], exactly(2), "(zip c1 c2)", "Pairs the items of two collections.", zip).streaming(0).taking(Takes::From(0)).deferring(zip_later),
];

fn vector(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::vector(args.iter_mut().map(std::mem::take).collect()))
}

fn vec(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::vector(
        eval.take_items(std::mem::take(&mut args[0]))?,
    ))
}

fn seq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::unsettled(&args[0]).is_some() {
        return nil_for_none(eval, std::mem::take(&mut args[0]));
    }
    Ok(nil_if_empty(eval.take_items(std::mem::take(&mut args[0]))?))
}

fn concat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut joined = Vec::new();
    for arg in args {
        if sequence::endless(arg) {
            return sequence::before(eval, joined, std::mem::take(arg));
        }
        let part = eval.take_items(std::mem::take(arg))?;
        eval.charge(part.len())?;
        eval.reserve_values(joined.len() + part.len())?;
        if joined.is_empty() {
            joined = part;
        } else {
            joined.extend(part);
        }
    }
    Ok(Value::vector(joined))
}

fn cons(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::endless(&args[1]) {
        let [first, endless] = args else {
            return Ok(Value::Nil);
        };
        eval.settle(first)?;
        return sequence::before(eval, vec![std::mem::take(first)], std::mem::take(endless));
    }
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    eval.charge(items.len())?;
    items.insert(0, std::mem::take(&mut args[0]));
    Ok(Value::vector(items))
}

fn conj(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((collection, added)) = args.split_first_mut() else {
        return Ok(Value::vector(Vec::new()));
    };
    let mut collection = std::mem::take(collection);
    if added.is_empty() {
        return Ok(collection);
    }
    if collection.is_nil() {
        collection = Value::vector(Vec::new());
    }
    for item in added {
        join(eval, &mut collection, std::mem::take(item))?;
    }
    Ok(collection)
}

/// Adds `item` at the natural end of `collection`.
fn join(eval: &mut Eval<'_>, collection: &mut Value, item: Value) -> Result<()> {
    match collection {
        Value::Vector(items) => {
            eval.change(items.copy_bytes())?;
            items.push(item);
        }
        Value::Set(members) => {
            eval.walk(&item)?;
            eval.change(members.copy_bytes())?;
            members.insert(item);
        }
        Value::Map(entries) => join_entry(eval, entries, item)?,
        other => return Err(wrong_type("a vector, map, set or nil", other)),
    }
    Ok(())
}

fn join_entry(eval: &mut Eval<'_>, entries: &mut Map, item: Value) -> Result<()> {
    match item.into_entry() {
        Ok((key, value)) => {
            eval.walk(&key)?;
            eval.change(entries.copy_bytes())?;
            entries.put(key, value);
        }
        Err(Value::Nil) => {}
        Err(Value::Map(more)) => {
            for (key, value) in &more {
                eval.walk(key)?;
                eval.change(entries.copy_bytes())?;
                entries.put(key.clone(), value.clone());
            }
        }
        Err(other) => {
            return Err(bad_value(quoting(
                format!(
                    "a map takes entries of two items or maps, got {} ",
                    other.kind().word()
                ),
                &other,
            )));
        }
    }
    Ok(())
}

fn into(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match args {
        [] => return Ok(Value::vector(Vec::new())),
        [target] => return Ok(std::mem::take(target)),
        _ => {}
    }
    let mut target = std::mem::take(&mut args[0]);
    if target.is_nil() {
        target = Value::vector(Vec::new());
    }
    if let [_, through @ .., from] = &*args
        && sequence::endless(from)
    {
        let mut parts = sequence::parts_of(from);
        parts.extend(through.iter().cloned());
        let mut all = crate::builtins::made_of(Combinator::Sequence, parts);
        if sequence::endless(&all) {
            eval.settle(&mut all)?;
        }
    }
    let items = match args {
        [_, xform, from] => {
            let (xform, from) = (std::mem::take(xform), std::mem::take(from));
            eval.transduced(&xform, from)?
        }
        _ => eval.stream(std::mem::take(&mut args[1]))?,
    };
    into_target(eval, target, items)
}

/// Adds the remaining `items` to `target`.
pub(in crate::builtins) fn into_target(
    eval: &mut Eval<'_>,
    mut target: Value,
    mut items: sequence::Stream,
) -> Result {
    if items.is_whole() {
        /// The entries, and a copy of them for sorting.
        const ITEM_BYTES: usize = 2 * size_of::<(Value, Value)>();
        let items = eval.collected(items)?;
        let is_vector = matches!(target, Value::Vector(_));
        if is_vector || items.len() <= TOGETHER_MAX || eval.room() / ITEM_BYTES > items.len() {
            return into_whole(eval, target, items);
        }
        // Many items may be equal: adding them in batches takes less memory.
        let mut items = items.into_iter();
        while items.len() > 0 {
            let some = items.by_ref().take(TOGETHER_MAX).collect();
            target = into_whole(eval, target, some)?;
        }
        return Ok(target);
    }
    // Items are added one by one, so that what they are made from need not exist all at once; or in batches, where
    // sorting them helps.
    if let Value::Vector(_) = &target {
        while let Some(item) = items.next(eval)? {
            eval.charge(1)?;
            join(eval, &mut target, item)?;
        }
        return Ok(target);
    }
    loop {
        let mut some = Vec::new();
        while some.len() < TOGETHER_MAX
            && let Some(item) = items.next(eval)?
        {
            if some.len() == some.capacity() {
                eval.reserve_values(some.len().max(4) * 2)?;
            }
            some.push(item);
        }
        let last = some.len() < TOGETHER_MAX;
        target = into_whole(eval, target, some)?;
        if last {
            return Ok(target);
        }
    }
}

/// The number of items of a sequence that are added to a map or set at once.
const TOGETHER_MAX: usize = 4096;

/// Adds `items` to `target`.
fn into_whole(eval: &mut Eval<'_>, mut target: Value, items: Vec<Value>) -> Result {
    if let Value::Vector(held) = &target {
        eval.reserve_values(if held.copy_bytes() == 0 {
            items.len()
        } else {
            held.len() + items.len()
        })?;
    }
    // An empty map or set is built at once: sorting beats inserting.
    match &target {
        Value::Map(map) if map.is_empty() && items.len() > 8 => {
            eval.reserve_values(items.len() * 2)?;
            let mut entries = Vec::with_capacity(items.len());
            for item in items {
                match item.into_entry() {
                    Ok((key, value)) => {
                        eval.walk(&key)?;
                        entries.push((key, value));
                    }
                    Err(other) => {
                        let mut one = Map::new();
                        join_entry(eval, &mut one, other)?;
                        entries.extend(one.iter().map(|(key, value)| (key.clone(), value.clone())));
                    }
                }
            }
            eval.charge(entries.len())?;
            return Ok(Value::Map(Map::gathered(entries)));
        }
        Value::Set(set) if set.is_empty() && items.len() > 8 => {
            for item in &items {
                eval.walk(item)?;
            }
            return Ok(Value::Set(items.into_iter().collect()));
        }
        _ => {}
    }
    for item in items {
        eval.charge(1)?;
        join(eval, &mut target, item)?;
    }
    // A target that is not a collection is an error even when there is nothing to add.
    match target {
        Value::Vector(_) | Value::Map(_) | Value::Set(_) => Ok(target),
        other => Err(wrong_type("a vector, map, set or nil", &other)),
    }
}

fn range(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (start, end, step) = match args {
        [] => (Value::Int(0), Value::Nil, Value::Int(1)),
        [end] => (Value::Int(0), end.clone(), Value::Int(1)),
        [start, end] => (start.clone(), end.clone(), Value::Int(1)),
        [start, end, step] => (start.clone(), end.clone(), step.clone()),
        _ => return Ok(Value::Nil),
    };
    match (&start, &end, &step) {
        (Value::Int(start), Value::Int(end), Value::Int(step)) if *step != 0 => {
            int_range(eval, *start, *end, *step)
        }
        (Value::Int(_), Value::Nil, Value::Int(_)) if args.is_empty() => {
            Ok(endless_of(Combinator::Range, &mut [start, end, step]))
        }
        _ => {
            for bound in &*args {
                if !matches!(bound, Value::Int(_) | Value::Float(_) | Value::BigInt(_)) {
                    return Err(wrong_type("a number", bound));
                }
            }
            number_range(eval, start, &end, args.get(2).unwrap_or(&step))
        }
    }
}

fn int_range(eval: &mut Eval<'_>, start: i64, end: i64, step: i64) -> Result {
    let count = sequence::integer_count(start, end, step);
    if count > sequence::AT_ONCE_MAX {
        return Ok(sequence::range([start, end, step].map(Value::Int)));
    }
    eval.charge(count)?;
    let mut items = Vec::with_capacity(count);
    for at in 0..count as i64 {
        // Every item lies within the bounds, but the product may overflow.
        items.push(Value::Int(start.wrapping_add(at.wrapping_mul(step))));
    }
    Ok(Value::vector(items))
}

fn number_range(eval: &mut Eval<'_>, start: Value, end: &Value, step: &Value) -> Result {
    use crate::value::number_cmp;
    let direction = number_cmp(step, &Value::Int(0));
    if direction.is_eq() {
        return Err(bad_value(about("the step of a range must not be 0", step)));
    }
    let mut items = Vec::new();
    let mut at = start.clone();
    while number_cmp(&at, end) == direction.reverse() {
        if items.len() == sequence::AT_ONCE_MAX {
            return Ok(sequence::range([start, end.clone(), step.clone()]));
        }
        eval.charge(1)?;
        let next = crate::builtins::numbers::plus(&at, step)?;
        items.push(at);
        if matches!(next, Value::Float(next) if next.is_nan()) {
            break;
        }
        at = next;
    }
    Ok(Value::vector(items))
}

fn reverse(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut items = eval.take_items(std::mem::take(&mut args[0]))?;
    eval.charge(items.len())?;
    items.reverse();
    Ok(Value::vector(items))
}

fn rseq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match &args[0] {
        Value::Vector(items) if items.is_empty() => Ok(Value::Nil),
        Value::Vector(_) => reverse(eval, args),
        other => Err(wrong_type("a vector", other)),
    }
}

fn distinct(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if args.is_empty() {
        return transducer_of("distinct", args);
    }
    if sequence::endless(&args[0]) {
        return eval.deferred(builtin("distinct"), &[], &args[0]);
    }
    unique(eval, std::mem::take(&mut args[0]), |_, item| {
        Ok(item.clone())
    })
}

/// The first item for each key.
fn unique(
    eval: &mut Eval<'_>,
    collection: Value,
    mut key: impl FnMut(&mut Eval<'_>, &Value) -> Result,
) -> Result {
    let mut seen = Freed::<BTreeSet<Value>>::default();
    let mut kept = Vec::new();
    let mut items = eval.stream(collection)?;
    for index in 0.. {
        let Some(item) = items.next(eval)? else {
            break;
        };
        let key = key(eval, &item).map_err(|stop| at_item(stop, index))?;
        eval.charge(1)?;
        eval.walk(&key)?;
        if seen.insert(key) {
            kept.push(item);
        }
    }
    Ok(Value::vector(kept))
}

fn distinct_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bounded(eval, &mut args[1..])?;
    let items = std::mem::take(&mut args[1]);
    let function = std::mem::take(&mut args[0]);
    key_function(&function)?;
    unique(eval, items, |eval, item| key_of(eval, &function, item))
}

/// Refuses a value that can neither be called nor used as a key.
pub(in crate::builtins) fn key_function(value: &Value) -> Result<()> {
    if Eval::callable(value) || matches!(value, Value::Str(_)) {
        return Ok(());
    }
    Err(wrong_type("a key, a path or a function", value))
}

fn dedupe(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if args.is_empty() {
        return transducer_of("dedupe", args);
    }
    if sequence::endless(&args[0]) {
        return eval.deferred(builtin("dedupe"), &[], &args[0]);
    }
    let mut items = eval.stream(std::mem::take(&mut args[0]))?;
    let mut kept: Vec<Value> = Vec::new();
    while let Some(item) = items.next(eval)? {
        eval.charge(1)?;
        if let Some(last) = kept.last() {
            eval.walk_both(last, &item)?;
            if *last == item {
                continue;
            }
        }
        kept.push(item);
    }
    Ok(Value::vector(kept))
}

fn interleave(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if !args.is_empty()
        && args.iter().all(sequence::endless)
        && let Some(mixed) = interleave_later(eval, builtin("interleave"), args)?
    {
        return Ok(mixed);
    }
    let mut mixed = Vec::new();
    if !args.is_empty() {
        side_by_side(eval, args, |eval, row| {
            eval.charge(row.len())?;
            mixed.extend(row.iter_mut().map(std::mem::take));
            Ok(true)
        })?;
    }
    Ok(Value::vector(mixed))
}

fn zip(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if args.iter().all(sequence::endless)
        && let Some(rows) = zip_later(eval, builtin("zip"), args)?
    {
        return Ok(rows);
    }
    let mut rows = Vec::new();
    side_by_side(eval, args, |eval, row| {
        eval.charge(row.len())?;
        rows.push(Value::vector(row.iter_mut().map(std::mem::take).collect()));
        Ok(true)
    })?;
    Ok(Value::vector(rows))
}

fn interpose(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(later) = later(eval, "interpose", args)? {
        return Ok(later);
    }
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    eval.reserve_values(items.len() * 2)?;
    eval.charge(items.len())?;
    let mut spaced = Vec::with_capacity(items.len() * 2);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            spaced.push(args[0].clone());
        }
        spaced.push(item);
    }
    Ok(Value::vector(spaced))
}
