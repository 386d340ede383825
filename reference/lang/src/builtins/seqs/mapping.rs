//! Mapping, filtering, and testing items.

use super::deferred::{map_later, mapcat_later, step};
use super::{Result, bounded, builtin, later, transducer_of};
use crate::builtins::{Builtin, Home, Section, Takes, at_least, between, callable, exactly, row};
use crate::error::{at_item, bad_value};
use crate::eval::{Eval, sequence};
use crate::value::Value;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("map", "seqs.map", Section::Core, &[Home::Core], at_least(1), "(map f coll), (map f c1 c2 ...), (map f)", "Calls a function on each item, or on the items of several collections side by side, and returns the results in a vector.", map).streaming(1).taking(Takes::From(1)).deferring(map_later),
    row("mapv", "seqs.mapv", Section::Core, &[Home::Core], at_least(2), "(mapv f coll), (mapv f c1 c2 ...)", "Does what map does; both return a vector.", map).streaming(1).taking(Takes::From(1)),
    row("mapcat", "seqs.mapcat", Section::Core, &[Home::Core], at_least(1), "(mapcat f coll), (mapcat f c1 c2 ...), (mapcat f)", "Maps a function that returns collections and joins the results end to end.", mapcat).streaming(1).taking(Takes::From(1)).deferring(mapcat_later),
    row("map-indexed", "seqs.map-indexed", Section::Core, &[Home::Core], between(1, 2), "(map-indexed f coll), (map-indexed f)", "Calls a function with the index and the item, from index 0.", map_indexed).streaming(1).deferring(step),
    row("filter", "seqs.filter", Section::Core, &[Home::Core], between(1, 2), "(filter pred coll), (filter pred)", "Returns the items for which the predicate holds.", filter).streaming(1).deferring(step),
    row("filterv", "seqs.filterv", Section::Core, &[Home::Core], exactly(2), "(filterv pred coll)", "Does what filter does; both return a vector.", filter).streaming(1),
    row("remove", "seqs.remove", Section::Core, &[Home::Core], between(1, 2), "(remove pred coll), (remove pred)", "Returns the items for which the predicate does not hold.", remove).streaming(1).deferring(step),
    row("keep", "seqs.keep", Section::Core, &[Home::Core], between(1, 2), "(keep f coll), (keep f)", "Maps a function and keeps the results that are not nil.", keep).streaming(1).deferring(step),
    row("keep-indexed", "seqs.keep-indexed", Section::Core, &[Home::Core], between(1, 2), "(keep-indexed f coll), (keep-indexed f)", "Maps a function of index and item and keeps the results that are not nil.", keep_indexed).streaming(1).deferring(step),
    row("some", "seqs.some", Section::Core, &[Home::Core], at_least(2), "(some pred coll), (some pred c1 c2 ...)", "Returns the first truthy result of the predicate, or nil.", some).streaming(1).taking(Takes::From(1)),
    row("every?", "seqs.every?", Section::Core, &[Home::Core], at_least(2), "(every? pred coll), (every? pred c1 c2 ...)", "Returns true when the predicate holds for every item.", every).streaming(1).taking(Takes::From(1)),
    row("not-any?", "seqs.not-any?", Section::Core, &[Home::Core], at_least(2), "(not-any? pred coll), (not-any? pred c1 c2 ...)", "Returns true when the predicate holds for no item.", not_any).streaming(1).taking(Takes::From(1)),
    row("not-every?", "seqs.not-every?", Section::Core, &[Home::Core], at_least(2), "(not-every? pred coll), (not-every? pred c1 c2 ...)", "Returns true when the predicate fails for at least one item.", not_every).streaming(1).taking(Takes::From(1)),
];

/// Calls `each` with the items of the collections side by side, up to the end of the shortest.
pub(super) fn side_by_side(
    eval: &mut Eval<'_>,
    collections: &mut [Value],
    mut each: impl FnMut(&mut Eval<'_>, &mut [Value]) -> Result<bool>,
) -> Result<()> {
    if let [only] = collections {
        let mut items = eval.stream(std::mem::take(only))?;
        let mut index = 0;
        while let Some(item) = items.next(eval)? {
            if !each(eval, &mut [item]).map_err(|stop| at_item(stop, index))? {
                break;
            }
            index += 1;
        }
        return Ok(());
    }
    let mut columns = Vec::with_capacity(collections.len());
    for collection in collections {
        columns.push(eval.stream(std::mem::take(collection))?);
    }
    let mut row = Vec::with_capacity(columns.len());
    for index in 0.. {
        row.clear();
        for column in &mut columns {
            match column.next(eval)? {
                Some(item) => row.push(item),
                None => return Ok(()),
            }
        }
        if !each(eval, &mut row).map_err(|stop| at_item(stop, index))? {
            break;
        }
    }
    Ok(())
}

fn split_first(args: &mut [Value]) -> Result<(Value, &mut [Value])> {
    match args.split_first_mut() {
        Some((first, rest)) => Ok((std::mem::take(first), rest)),
        None => Err(bad_value("expected a function")),
    }
}

fn map(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (function, collections) = split_first(args)?;
    callable(&function)?;
    match &*collections {
        [] => return transducer_of("map", &mut [function]),
        [endless] if sequence::endless(endless) => {
            return eval.deferred(builtin("map"), &[function], endless);
        }
        all if all.iter().all(sequence::endless) => {
            return sequence::beside(eval, function, collections);
        }
        _ => {}
    }
    if let [Value::Vector(items)] = &mut *collections
        && items.moves()
    {
        // A buffer that nobody else reads is reused for the result.
        let mut items = std::mem::take(items).into_vec();
        eval.replace_each(&function, &mut items, 0)?;
        return Ok(Value::vector(items));
    }
    let mut results = Vec::with_capacity(shortest(collections));
    if let [Value::Vector(items)] = &*collections {
        eval.call_each(&function, items.iter(), 0, |_, _, result| {
            results.push(result);
            Ok(true)
        })?;
        return Ok(Value::vector(results));
    }
    side_by_side(eval, collections, |eval, row| {
        results.push(eval.call(&function, row)?);
        Ok(true)
    })?;
    Ok(Value::vector(results))
}

/// A capacity for the result that certainly fits in memory: the length of the shortest collection, 0 if one is lazy.
fn shortest(collections: &[Value]) -> usize {
    let len = |value: &Value| match value {
        Value::Vector(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Set(members) => members.len(),
        _ => 0,
    };
    collections.iter().map(len).min().unwrap_or(0)
}

fn mapcat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (function, collections) = split_first(args)?;
    callable(&function)?;
    match &*collections {
        [] => return transducer_of("mapcat", &mut [function]),
        [endless] if sequence::endless(endless) => {
            return eval.deferred(builtin("mapcat"), &[function], endless);
        }
        _ => bounded(eval, collections)?,
    }
    let mut results = Vec::new();
    side_by_side(eval, collections, |eval, row| {
        let part = eval.call(&function, row)?;
        let part = eval.take_items(part)?;
        eval.charge(part.len())?;
        results.extend(part);
        Ok(true)
    })?;
    Ok(Value::vector(results))
}

fn map_indexed(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (function, collections) = split_first(args)?;
    callable(&function)?;
    match &*collections {
        [] => return transducer_of("map-indexed", &mut [function]),
        [endless] if sequence::endless(endless) => {
            return eval.deferred(builtin("map-indexed"), &[function], endless);
        }
        _ => {}
    }
    let mut results = Vec::new();
    side_by_side(eval, collections, |eval, row| {
        let mut with_index = vec![Value::from(results.len())];
        with_index.extend(row.iter_mut().map(std::mem::take));
        results.push(eval.call(&function, &mut with_index)?);
        Ok(true)
    })?;
    Ok(Value::vector(results))
}

fn keep_indexed(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut kept = Vec::new();
    if let Some(later) = later(eval, "keep-indexed", args)? {
        return Ok(later);
    }
    let [function, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let mut items = eval.stream(std::mem::take(collection))?;
    let mut at = 0usize;
    while let Some(item) = items.next(eval)? {
        let result = eval.call2(function, Value::from(at), item);
        let result = result.map_err(|stop| at_item(stop, at))?;
        at += 1;
        if !result.is_nil() {
            kept.push(result);
        }
    }
    Ok(Value::vector(kept))
}

/// The items for which the result of the predicate is `wanted`.
fn selected(eval: &mut Eval<'_>, args: &mut [Value], wanted: bool) -> Result {
    let name = if wanted { "filter" } else { "remove" };
    if let Some(later) = later(eval, name, args)? {
        return Ok(later);
    }
    let [predicate, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(predicate)?;
    let mut kept = Vec::new();
    if let Value::Vector(items) = &*collection {
        // Only the kept items are copied.
        eval.call_each(predicate, items.iter(), 0, |_, item, answer| {
            if answer.truthy() == wanted {
                kept.push(item.clone());
            }
            Ok(true)
        })?;
        return Ok(Value::vector(kept));
    }
    let mut items = eval.stream(std::mem::take(collection))?;
    let mut index = 0;
    while let Some(item) = items.next(eval)? {
        let answer = eval.call1(predicate, item.clone());
        if answer.map_err(|stop| at_item(stop, index))?.truthy() == wanted {
            kept.push(item);
        }
        index += 1;
    }
    Ok(Value::vector(kept))
}

fn filter(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    selected(eval, args, true)
}

fn remove(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    selected(eval, args, false)
}

fn keep(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(later) = later(eval, "keep", args)? {
        return Ok(later);
    }
    let [function, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let mut kept = Vec::new();
    let mut items = eval.stream(std::mem::take(collection))?;
    let mut index = 0;
    while let Some(item) = items.next(eval)? {
        let result = eval.call1(function, item);
        let result = result.map_err(|stop| at_item(stop, index))?;
        if !result.is_nil() {
            kept.push(result);
        }
        index += 1;
    }
    Ok(Value::vector(kept))
}

/// The first result whose truth is `wanted`; `None` when there is none.
fn first_true(eval: &mut Eval<'_>, args: &mut [Value], wanted: bool) -> Result<Option<Value>> {
    let (function, collections) = split_first(args)?;
    callable(&function)?;
    let mut found = None;
    side_by_side(eval, collections, |eval, row| {
        let result = eval.call(&function, row)?;
        if result.truthy() == wanted {
            found = Some(result);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

fn some(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(first_true(eval, args, true)?.unwrap_or_default())
}

fn every(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(first_true(eval, args, false)?.is_none()))
}

fn not_any(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(first_true(eval, args, true)?.is_none()))
}

fn not_every(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(first_true(eval, args, false)?.is_some()))
}
