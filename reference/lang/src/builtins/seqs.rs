//! Sequence functions. Everything is eager, every result is a vector, and anything seqable is a
//! sequence: vectors, sets, maps as entries, strings as graphemes, nil as nothing.

use std::collections::BTreeSet;

use super::numbers::{amount, index};
use super::{Builtin, Home, Section, at_least, between, callable, exactly, key_of, row};
use crate::analyze::ir::Op;
use crate::error::{Stop, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::value::{Items, Map, Value};

/// The rows of this area.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("map", "seqs.map", Section::Core, &[Home::Core], at_least(2), "(map f coll), (map f c1 c2 ...)", "Calls a function on each item, or on the items of several collections side by side, and returns the results in a vector.", map),
    row("mapv", "seqs.mapv", Section::Core, &[Home::Core], at_least(2), "(mapv f coll), (mapv f c1 c2 ...)", "Does what map does; the result is a vector in both.", map),
    row("mapcat", "seqs.mapcat", Section::Core, &[Home::Core], at_least(2), "(mapcat f coll)", "Maps a function that returns collections and joins the results end to end.", mapcat),
    row("map-indexed", "seqs.map-indexed", Section::Core, &[Home::Core], exactly(2), "(map-indexed f coll)", "Calls a function with the index and the item, from index 0.", map_indexed),
    row("filter", "seqs.filter", Section::Core, &[Home::Core], exactly(2), "(filter pred coll)", "Keeps the items for which the predicate holds.", filter),
    row("filterv", "seqs.filterv", Section::Core, &[Home::Core], exactly(2), "(filterv pred coll)", "Does what filter does; the result is a vector in both.", filter),
    row("remove", "seqs.remove", Section::Core, &[Home::Core], exactly(2), "(remove pred coll)", "Drops the items for which the predicate holds.", remove),
    row("keep", "seqs.keep", Section::Core, &[Home::Core], exactly(2), "(keep f coll)", "Maps a function and keeps the results that are not nil.", keep),
    row("keep-indexed", "seqs.keep-indexed", Section::Core, &[Home::Core], exactly(2), "(keep-indexed f coll)", "Maps a function of index and item and keeps the results that are not nil.", keep_indexed),
    row("reduce", "seqs.reduce", Section::Core, &[Home::Core], between(2, 3), "(reduce f coll), (reduce f init coll)", "Folds a collection into one value with a function of accumulator and item.", reduce),
    row("reduce-kv", "maps.reduce-kv", Section::Core, &[Home::Core], exactly(3), "(reduce-kv f init m)", "Folds a map with a function of accumulator, key and value.", reduce_kv),
    row("some", "seqs.some", Section::Core, &[Home::Core], at_least(2), "(some pred coll), (some pred c1 c2 ...)", "Returns the first truthy result of the predicate, or nil.", some),
    row("every?", "seqs.every?", Section::Core, &[Home::Core], at_least(2), "(every? pred coll), (every? pred c1 c2 ...)", "Returns true when the predicate holds for every item.", every),
    row("not-any?", "seqs.not-any?", Section::Core, &[Home::Core], at_least(2), "(not-any? pred coll)", "Returns true when the predicate holds for no item.", not_any),
    row("not-every?", "seqs.not-every?", Section::Core, &[Home::Core], at_least(2), "(not-every? pred coll)", "Returns true when the predicate fails for at least one item.", not_every),
    row("first", "seqs.first", Section::Core, &[Home::Core], exactly(1), "(first coll)", "Returns the first item, or nil when there is none.", first),
    row("second", "seqs.second", Section::Core, &[Home::Core], exactly(1), "(second coll)", "Returns the second item, or nil when there is none.", second),
    row("last", "seqs.last", Section::Core, &[Home::Core], exactly(1), "(last coll)", "Returns the last item, or nil when there is none.", last),
    row("rest", "seqs.rest", Section::Core, &[Home::Core], exactly(1), "(rest coll)", "Returns the items after the first, an empty vector when there are none.", rest),
    row("next", "seqs.next", Section::Core, &[Home::Core], exactly(1), "(next coll)", "Returns the items after the first, or nil when there are none.", next),
    row("ffirst", "seqs.ffirst", Section::Core, &[Home::Core], exactly(1), "(ffirst coll)", "Returns the first item of the first item.", ffirst),
    row("fnext", "seqs.fnext", Section::Core, &[Home::Core], exactly(1), "(fnext coll)", "Returns the first item of what follows the first item.", second),
    row("nfirst", "seqs.nfirst", Section::Core, &[Home::Core], exactly(1), "(nfirst coll)", "Returns what follows the first item of the first item, or nil.", nfirst),
    row("nnext", "seqs.nnext", Section::Core, &[Home::Core], exactly(1), "(nnext coll)", "Returns what follows the second item, or nil.", nnext),
    row("butlast", "seqs.butlast", Section::Core, &[Home::Core], exactly(1), "(butlast coll)", "Returns all items but the last, or nil when none remain.", butlast),
    row("nth", "seqs.nth", Section::Core, &[Home::Core], between(2, 3), "(nth coll idx), (nth coll idx not-found)", "Returns the item at an index, or nil or the default when the index is out of range.", nth),
    row("nthnext", "seqs.nthnext", Section::Core, &[Home::Core], exactly(2), "(nthnext coll n)", "Drops n items and returns the others, or nil when none remain.", nthnext),
    row("nthrest", "seqs.nthrest", Section::Core, &[Home::Core], exactly(2), "(nthrest coll n)", "Drops n items and returns the others, an empty vector when none remain.", nthrest),
    row("take", "seqs.take", Section::Core, &[Home::Core], exactly(2), "(take n coll)", "Returns the first n items.", take),
    row("take-last", "seqs.take-last", Section::Core, &[Home::Core], exactly(2), "(take-last n coll)", "Returns the last n items, or nil when there are none.", take_last),
    row("take-while", "seqs.take-while", Section::Core, &[Home::Core], exactly(2), "(take-while pred coll)", "Returns the leading items for which the predicate holds.", take_while),
    row("drop", "seqs.drop", Section::Core, &[Home::Core], exactly(2), "(drop n coll)", "Returns the items after the first n.", drop),
    row("drop-last", "seqs.drop-last", Section::Core, &[Home::Core], between(1, 2), "(drop-last coll), (drop-last n coll)", "Returns all items but the last n (one unless n is given).", drop_last),
    row("drop-while", "seqs.drop-while", Section::Core, &[Home::Core], exactly(2), "(drop-while pred coll)", "Returns the items from the first for which the predicate fails.", drop_while),
    row("split-at", "seqs.split-at", Section::Core, &[Home::Core], exactly(2), "(split-at n coll)", "Returns the first n items and the others as two vectors.", split_at),
    row("split-with", "seqs.split-with", Section::Core, &[Home::Core], exactly(2), "(split-with pred coll)", "Returns the leading items for which the predicate holds and the others as two vectors.", split_with),
    row("subvec", "seqs.subvec", Section::Core, &[Home::Core], between(2, 3), "(subvec v start), (subvec v start end)", "Returns the items of a vector from start up to, not including, end; both are moved into range.", subvec),
    row("peek", "seqs.peek", Section::Core, &[Home::Core], exactly(1), "(peek coll)", "Returns the last item of a vector, or nil.", peek),
    row("pop", "seqs.pop", Section::Core, &[Home::Core], exactly(1), "(pop coll)", "Returns a vector without its last item, or nil when it is empty.", pop),
    row("vector", "seqs.vector", Section::Sets, &[Home::Core, Home::Set], at_least(0), "(vector & args)", "Makes a vector of its arguments.", vector),
    row("list", "seqs.list", Section::Core, &[Home::Core], at_least(0), "(list & args)", "Makes a vector of its arguments.", vector),
    row("vec", "seqs.vec", Section::Sets, &[Home::Core, Home::Set], exactly(1), "(vec coll)", "Makes a vector of the items of a collection.", vec),
    row("seq", "seqs.seq", Section::Core, &[Home::Core], exactly(1), "(seq coll)", "Returns the items of a collection as a vector, or nil when it has none.", seq),
    row("concat", "seqs.concat", Section::Core, &[Home::Core], at_least(0), "(concat coll1 coll2 ...)", "Joins collections end to end into one vector.", concat),
    row("cons", "seqs.cons", Section::Core, &[Home::Core], exactly(2), "(cons x seq)", "Puts an item in front of the items of a collection.", cons),
    row("conj", "seqs.conj", Section::Core, &[Home::Core], at_least(0), "(conj), (conj coll x ...)", "Adds items to a collection where it grows naturally: at the end of a vector, as entries of a map, as members of a set.", conj),
    row("into", "seqs.into", Section::Core, &[Home::Core], exactly(2), "(into to from)", "Adds all items of the second collection to the first.", into),
    row("range", "seqs.range", Section::Core, &[Home::Core], between(1, 3), "(range end), (range start end), (range start end step)", "Returns the numbers from start (0) up to, not including, end, by step (1).", range),
    row("reverse", "seqs.reverse", Section::Core, &[Home::Core], exactly(1), "(reverse coll)", "Returns the items in opposite order.", reverse),
    row("distinct", "seqs.distinct", Section::Core, &[Home::Core], exactly(1), "(distinct coll)", "Drops items that occurred before.", distinct),
    row("distinct-by", "aggregates.distinct-by", Section::Core, &[], exactly(2), "(distinct-by key coll)", "Keeps the first item for each value of the key function.", distinct_by),
    row("dedupe", "seqs.dedupe", Section::Core, &[Home::Core], exactly(1), "(dedupe coll)", "Drops items that are the same as the item directly before.", dedupe),
    row("interleave", "seqs.interleave", Section::Core, &[Home::Core], at_least(0), "(interleave), (interleave coll), (interleave c1 c2 ...)", "Takes items from each collection in turn until one is used up.", interleave),
    row("interpose", "seqs.interpose", Section::Core, &[Home::Core], exactly(2), "(interpose sep coll)", "Puts a separator between neighbouring items.", interpose),
    row("zip", "seqs.zip", Section::Core, &[], exactly(2), "(zip c1 c2)", "Pairs the items of two collections.", zip),
    row("partition", "seqs.partition", Section::Core, &[Home::Core], between(2, 4), "(partition n coll), (partition n step coll), (partition n step pad coll)", "Cuts a collection into groups of exactly n items and drops an incomplete last group unless padding is given.", partition),
    row("partition-all", "seqs.partition-all", Section::Core, &[Home::Core], between(2, 3), "(partition-all n coll), (partition-all n step coll)", "Cuts a collection into groups of n items; the last may be shorter.", partition_all),
    row("partition-by", "seqs.partition-by", Section::Core, &[Home::Core], exactly(2), "(partition-by f coll)", "Starts a new group whenever the function's value changes.", partition_by),
    row("combinations", "seqs.combinations", Section::Core, &[], exactly(2), "(combinations coll n)", "Returns every choice of n items, in the order of the collection.", combinations),
    row("flatten", "seqs.flatten", Section::Core, &[Home::Core], exactly(1), "(flatten coll)", "Replaces nested vectors by their items, at every depth.", flatten),
    row("tree-seq", "seqs.tree-seq", Section::Core, &[Home::Core], exactly(3), "(tree-seq branch? children root)", "Returns the nodes of a tree in depth-first order.", tree_seq),
    row("count", "seqs.count", Section::Core, &[Home::Core], exactly(1), "(count coll)", "Returns the number of items, 0 for nil.", count),
    row("empty?", "seqs.empty?", Section::Core, &[Home::Core], exactly(1), "(empty? coll)", "Returns true when a collection has no items.", is_empty),
    row("not-empty", "seqs.not-empty", Section::Core, &[Home::Core], exactly(1), "(not-empty coll)", "Returns the collection itself, or nil when it has no items.", not_empty),
    row("empty", "seqs.empty", Section::Core, &[Home::Core], exactly(1), "(empty coll)", "Returns an empty collection of the same kind.", empty),
];

type Result<T = Value> = std::result::Result<T, Stop>;

// --- mapping and filtering

/// Calls `each` with the items of the collections side by side, as far as the shortest goes.
fn side_by_side(
    eval: &mut Eval<'_>,
    collections: &mut [Value],
    mut each: impl FnMut(&mut Eval<'_>, &mut [Value]) -> Result<bool>,
) -> Result<()> {
    if let [only] = collections {
        for item in eval.take_items(std::mem::take(only))? {
            if !each(eval, &mut [item])? {
                break;
            }
        }
        return Ok(());
    }
    let mut columns = Vec::with_capacity(collections.len());
    for collection in collections {
        columns.push(eval.take_items(std::mem::take(collection))?.into_iter());
    }
    let mut row = Vec::with_capacity(columns.len());
    loop {
        row.clear();
        for column in &mut columns {
            match column.next() {
                Some(item) => row.push(item),
                None => return Ok(()),
            }
        }
        if !each(eval, &mut row)? {
            return Ok(());
        }
    }
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
    if let [Value::Vector(items)] = &mut *collections
        && items.moves()
    {
        // A buffer that nobody else will read becomes the result's.
        let mut items = std::mem::take(items).into_vec();
        eval.replace_each(&function, &mut items)?;
        return Ok(Value::vector(items));
    }
    let mut results = Vec::with_capacity(shortest(collections));
    if let [Value::Vector(items)] = &*collections {
        eval.call_each(&function, items.iter(), |_, _, result| {
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

/// A bound for the length of a result that is known to fit: what is there already.
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
    let [function, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    for (at, item) in eval
        .take_items(std::mem::take(collection))?
        .into_iter()
        .enumerate()
    {
        let result = eval.call2(function, Value::from(at), item)?;
        if !result.is_nil() {
            kept.push(result);
        }
    }
    Ok(Value::vector(kept))
}

/// The items for which the predicate's answer is `wanted`.
fn selected(eval: &mut Eval<'_>, args: &mut [Value], wanted: bool) -> Result {
    let [predicate, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(predicate)?;
    let mut kept = Vec::new();
    if let Value::Vector(items) = &*collection {
        // Only what is kept is copied.
        eval.call_each(predicate, items.iter(), |_, item, answer| {
            if answer.truthy() == wanted {
                kept.push(item.clone());
            }
            Ok(true)
        })?;
        return Ok(Value::vector(kept));
    }
    for item in eval.take_items(std::mem::take(collection))? {
        if eval.call1(predicate, item.clone())?.truthy() == wanted {
            kept.push(item);
        }
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
    let [function, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let mut kept = Vec::new();
    for item in eval.take_items(std::mem::take(collection))? {
        let result = eval.call1(function, item)?;
        if !result.is_nil() {
            kept.push(result);
        }
    }
    Ok(Value::vector(kept))
}

fn reduce(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (function, initial, collection) = match args {
        [function, collection] => (std::mem::take(function), None, std::mem::take(collection)),
        [function, initial, collection] => (
            std::mem::take(function),
            Some(std::mem::take(initial)),
            std::mem::take(collection),
        ),
        _ => return Ok(Value::Nil),
    };
    callable(&function)?;
    if let Value::Vector(items) = &collection {
        // Read in place: reducing copies nothing.
        let mut items = items.iter();
        let first = match initial {
            Some(initial) => initial,
            None => match items.next() {
                Some(first) => first.clone(),
                None => return eval.call(&function, &mut []),
            },
        };
        return fold(eval, &function, first, items);
    }
    let mut items = eval.take_items(collection)?.into_iter();
    let first = match initial {
        Some(initial) => initial,
        None => match items.next() {
            Some(first) => first,
            None => return eval.call(&function, &mut []),
        },
    };
    items.try_fold(first, |acc, item| eval.call2(&function, acc, item))
}

/// Folds items that are read in place; numbers under an operator need no call.
fn fold(eval: &mut Eval<'_>, function: &Value, first: Value, items: Items<'_>) -> Result {
    let Value::Builtin(builtin) = function else {
        return eval.fold_each(function, first, items);
    };
    let Some(op) = Op::of(builtin) else {
        return eval.fold_each(function, first, items);
    };
    let mut acc = first;
    for item in items {
        let known = match (&acc, item) {
            (Value::Int(a), Value::Int(b)) => op.integers(*a, *b),
            (Value::Float(a), Value::Float(b)) => Some(op.floats(*a, *b)),
            _ => None,
        };
        acc = match known {
            Some(known) => {
                eval.charge(1)?;
                known
            }
            None => eval.call2(function, acc, item.clone())?,
        };
    }
    Ok(acc)
}

fn reduce_kv(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [function, initial, collection] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let initial = std::mem::take(initial);
    match &*collection {
        Value::Nil => Ok(initial),
        Value::Map(entries) => entries.iter().try_fold(initial, |acc, (key, value)| {
            eval.call(function, &mut [acc, key.clone(), value.clone()])
        }),
        other => Err(wrong_type("a map", other)),
    }
}

/// Whether some result is true, and what the first such result is.
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

// --- parts

/// The item at `at`, without copying the others where that is possible.
fn item_at(eval: &mut Eval<'_>, collection: &Value, at: usize) -> Result<Option<Value>> {
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
        _ => return Err(wrong_type("a collection", collection)),
    })
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
    Ok(eval.items(&args[0])?.pop().unwrap_or_default())
}

/// The items from `from` on.
fn tail(eval: &mut Eval<'_>, collection: Value, from: usize) -> Result<Vec<Value>> {
    if let Value::Vector(items) = &collection {
        eval.reserve_values(items.len().saturating_sub(from))?;
        eval.charge(items.len().saturating_sub(from))?;
        return Ok(items.iter().skip(from).cloned().collect());
    }
    let mut items = eval.take_items(collection)?;
    items.drain(..from.min(items.len()));
    Ok(items)
}

fn nil_if_empty(items: Vec<Value>) -> Value {
    if items.is_empty() {
        Value::Nil
    } else {
        Value::vector(items)
    }
}

fn rest(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::vector(tail(eval, std::mem::take(&mut args[0]), 1)?))
}

fn next(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(nil_if_empty(tail(eval, std::mem::take(&mut args[0]), 1)?))
}

fn ffirst(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let first = item_at(eval, &args[0], 0)?.unwrap_or_default();
    Ok(item_at(eval, &first, 0)?.unwrap_or_default())
}

fn nfirst(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let first = item_at(eval, &args[0], 0)?.unwrap_or_default();
    Ok(nil_if_empty(tail(eval, first, 1)?))
}

fn nnext(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(nil_if_empty(tail(eval, std::mem::take(&mut args[0]), 2)?))
}

fn butlast(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
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
    Ok(nil_if_empty(tail(
        eval,
        std::mem::take(&mut args[0]),
        from,
    )?))
}

fn nthrest(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let from = amount_after(eval, args)?;
    Ok(Value::vector(tail(
        eval,
        std::mem::take(&mut args[0]),
        from,
    )?))
}

/// The count of `(nthrest coll n)`: the collection is judged first.
fn amount_after(eval: &mut Eval<'_>, args: &[Value]) -> Result<usize> {
    item_at(eval, &args[0], 0)?;
    amount(&args[1])
}

fn take(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    if let Value::Vector(items) = &args[1] {
        let count = count.min(items.len());
        eval.reserve_values(count)?;
        eval.charge(count)?;
        return Ok(Value::vector(items.iter().take(count).cloned().collect()));
    }
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    items.truncate(count);
    Ok(Value::vector(items))
}

fn take_last(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    let from = items.len().saturating_sub(count);
    if from == items.len() {
        return Ok(Value::Nil);
    }
    Ok(Value::vector(items.into_iter().skip(from).collect()))
}

fn drop(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    Ok(Value::vector(tail(
        eval,
        std::mem::take(&mut args[1]),
        count,
    )?))
}

fn drop_last(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = if args.len() == 2 {
        amount(&args[0])?
    } else {
        1
    };
    let collection = args.last_mut().map(std::mem::take).unwrap_or_default();
    let mut items = eval.take_items(collection)?;
    items.truncate(items.len().saturating_sub(count));
    Ok(Value::vector(items))
}

/// Where the predicate fails first.
fn prefix(eval: &mut Eval<'_>, predicate: &Value, items: &[Value]) -> Result<usize> {
    callable(predicate)?;
    for (at, item) in items.iter().enumerate() {
        if !eval.call1(predicate, item.clone())?.truthy() {
            return Ok(at);
        }
    }
    Ok(items.len())
}

fn take_while(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    items.truncate(end);
    Ok(Value::vector(items))
}

fn drop_while(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    items.drain(..end);
    Ok(Value::vector(items))
}

fn split_with(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let end = prefix(eval, &args[0], &items)?;
    let behind = items.split_off(end);
    Ok(Value::vector(vec![
        Value::vector(items),
        Value::vector(behind),
    ]))
}

fn split_at(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let count = amount(&args[0])?;
    let mut items = eval.take_items(std::mem::take(&mut args[1]))?;
    let behind = items.split_off(count.min(items.len()));
    Ok(Value::vector(vec![
        Value::vector(items),
        Value::vector(behind),
    ]))
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

// --- building

fn vector(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::vector(args.iter_mut().map(std::mem::take).collect()))
}

fn vec(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::vector(
        eval.take_items(std::mem::take(&mut args[0]))?,
    ))
}

fn seq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(nil_if_empty(eval.take_items(std::mem::take(&mut args[0]))?))
}

fn concat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut joined = Vec::new();
    for arg in args {
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

/// Adds `item` where `collection` grows naturally.
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
    match item {
        Value::Nil => {}
        Value::Map(more) => {
            for (key, value) in &more {
                eval.walk(key)?;
                eval.change(entries.copy_bytes())?;
                entries.put(key.clone(), value.clone());
            }
        }
        Value::Vector(pair) if pair.len() == 2 => {
            let mut pair = pair.into_vec().into_iter();
            if let (Some(key), Some(value)) = (pair.next(), pair.next()) {
                eval.walk(&key)?;
                eval.change(entries.copy_bytes())?;
                entries.put(key, value);
            }
        }
        other => {
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
    let mut target = std::mem::take(&mut args[0]);
    if target.is_nil() {
        target = Value::vector(Vec::new());
    }
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    if let Value::Vector(held) = &target {
        eval.reserve_values(if held.copy_bytes() == 0 {
            items.len()
        } else {
            held.len() + items.len()
        })?;
    }
    // Into an empty map or set all at once: sorting beats inserting.
    match &target {
        Value::Map(map) if map.is_empty() && items.len() > 8 => {
            let mut entries = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Value::Vector(pair) if pair.len() == 2 => {
                        let mut pair = pair.into_vec().into_iter();
                        if let (Some(key), Some(value)) = (pair.next(), pair.next()) {
                            eval.walk(&key)?;
                            entries.push((key, value));
                        }
                    }
                    other => {
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
    // A target that is no collection is an error even when there is nothing to add.
    match target {
        Value::Vector(_) | Value::Map(_) | Value::Set(_) => Ok(target),
        other => Err(wrong_type("a vector, map, set or nil", &other)),
    }
}

fn range(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (start, end, step) = match args {
        [end] => (Value::Int(0), std::mem::take(end), Value::Int(1)),
        [start, end] => (std::mem::take(start), std::mem::take(end), Value::Int(1)),
        [start, end, step] => (
            std::mem::take(start),
            std::mem::take(end),
            std::mem::take(step),
        ),
        _ => return Ok(Value::Nil),
    };
    match (&start, &end, &step) {
        (Value::Int(start), Value::Int(end), Value::Int(step)) if *step != 0 => {
            int_range(eval, *start, *end, *step)
        }
        _ => {
            for bound in [&start, &end, &step] {
                if !matches!(bound, Value::Int(_) | Value::Float(_) | Value::BigInt(_)) {
                    return Err(wrong_type("a number", bound));
                }
            }
            number_range(eval, start, &end, &step)
        }
    }
}

fn int_range(eval: &mut Eval<'_>, start: i64, end: i64, step: i64) -> Result {
    let span = if step > 0 {
        i128::from(end) - i128::from(start)
    } else {
        i128::from(start) - i128::from(end)
    };
    let step_size = i128::from(step).abs();
    let count = if span <= 0 {
        0
    } else {
        (span + step_size - 1) / step_size
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    eval.reserve_values(count)?;
    eval.charge(count)?;
    let mut items = Vec::with_capacity(count);
    for at in 0..count as i64 {
        // Every item lies between the bounds, though the product may not.
        items.push(Value::Int(start.wrapping_add(at.wrapping_mul(step))));
    }
    Ok(Value::vector(items))
}

fn number_range(eval: &mut Eval<'_>, start: Value, end: &Value, step: &Value) -> Result {
    use crate::value::number_cmp;
    let direction = number_cmp(step, &Value::Int(0));
    if direction.is_eq() {
        return Err(bad_value("the step of a range must not be 0"));
    }
    let mut items = Vec::new();
    let mut at = start;
    while number_cmp(&at, end) == direction.reverse() {
        eval.charge(1)?;
        let next = super::numbers::plus(&at, step)?;
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

fn distinct(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[0]))?;
    unique(eval, items, |_, item| Ok(item.clone()))
}

/// The first item of each key.
pub fn unique(
    eval: &mut Eval<'_>,
    items: Vec<Value>,
    mut key: impl FnMut(&mut Eval<'_>, &Value) -> Result,
) -> Result {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for item in items {
        let key = key(eval, &item)?;
        eval.charge(1)?;
        eval.walk(&key)?;
        if seen.insert(key) {
            kept.push(item);
        }
    }
    Ok(Value::vector(kept))
}

fn distinct_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    let function = std::mem::take(&mut args[0]);
    key_function(&function)?;
    unique(eval, items, |eval, item| key_of(eval, &function, item))
}

/// Refuses what can neither be called nor stand for a key.
pub fn key_function(value: &Value) -> Result<()> {
    if Eval::callable(value) || matches!(value, Value::Str(_)) {
        return Ok(());
    }
    Err(wrong_type("a key, a path or a function", value))
}

fn dedupe(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[0]))?;
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
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
    let mut rows = Vec::new();
    side_by_side(eval, args, |eval, row| {
        eval.charge(row.len())?;
        rows.push(Value::vector(row.iter_mut().map(std::mem::take).collect()));
        Ok(true)
    })?;
    Ok(Value::vector(rows))
}

fn interpose(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
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

// --- grouping by position

/// A size or step that must be positive.
fn positive(value: &Value, what: &str) -> Result<usize> {
    match index(value)? {
        count if count > 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        other => Err(bad_value(format!(
            "{what} must be a positive integer, got {other}"
        ))),
    }
}

/// Windows of `size` items, `step` apart; the last ones may be short when `all`.
fn windows(
    eval: &mut Eval<'_>,
    items: &[Value],
    size: usize,
    step: usize,
    all: bool,
) -> Result<Vec<Value>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < items.len() {
        let end = start.saturating_add(size).min(items.len());
        if end - start < size && !all {
            break;
        }
        eval.charge(end - start + 1)?;
        eval.reserve_values(end - start)?;
        parts.push(Value::vector(items[start..end].to_vec()));
        start = start.saturating_add(step);
    }
    Ok(parts)
}

fn partition(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let size = positive(&args[0], "n")?;
    let step = if args.len() > 2 {
        positive(&args[1], "step")?
    } else {
        size
    };
    let collection = args.last_mut().map(std::mem::take).unwrap_or_default();
    let items = eval.take_items(collection)?;
    let mut parts = windows(eval, &items, size, step, false)?;
    if args.len() == 4 {
        let start = parts.len().saturating_mul(step);
        if start < items.len() {
            let pad = eval.items(&args[2])?;
            let mut last = items[start..].to_vec();
            let missing = size.saturating_sub(last.len());
            last.truncate(size);
            last.extend(pad.into_iter().take(missing));
            parts.push(Value::vector(last));
        }
    }
    Ok(Value::vector(parts))
}

fn partition_all(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let size = positive(&args[0], "n")?;
    let step = if args.len() == 3 {
        positive(&args[1], "step")?
    } else {
        size
    };
    let collection = args.last_mut().map(std::mem::take).unwrap_or_default();
    let items = eval.take_items(collection)?;
    Ok(Value::vector(windows(eval, &items, size, step, true)?))
}

fn partition_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    callable(&args[0])?;
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    let mut parts = Vec::new();
    let mut part: Vec<Value> = Vec::new();
    let mut current: Option<Value> = None;
    for item in items {
        let key = eval.call1(&args[0], item.clone())?;
        if let Some(current) = &current {
            eval.walk_both(current, &key)?;
            if *current != key {
                parts.push(Value::vector(std::mem::take(&mut part)));
            }
        }
        part.push(item);
        current = Some(key);
    }
    if !part.is_empty() {
        parts.push(Value::vector(part));
    }
    Ok(Value::vector(parts))
}

fn combinations(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[0]))?;
    let size = match index(&args[1])? {
        size if size < 0 => return Ok(Value::vector(Vec::new())),
        size => usize::try_from(size).unwrap_or(usize::MAX),
    };
    if size > items.len() {
        return Ok(Value::vector(Vec::new()));
    }
    let mut picked: Vec<usize> = (0..size).collect();
    let mut found = Vec::new();
    loop {
        eval.charge(size + 1)?;
        eval.reserve_values(size)?;
        found.push(Value::vector(
            picked.iter().map(|at| items[*at].clone()).collect(),
        ));
        // The rightmost position that can still move on.
        let Some(at) = (0..size)
            .rev()
            .find(|at| picked[*at] < items.len() - size + at)
        else {
            return Ok(Value::vector(found));
        };
        picked[at] += 1;
        for behind in at + 1..size {
            picked[behind] = picked[behind - 1] + 1;
        }
    }
}

// --- trees

fn flatten(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match &args[0] {
        Value::Vector(_) | Value::Set(_) | Value::Map(_) | Value::Nil | Value::Str(_) => {}
        other => return Err(wrong_type("a collection", other)),
    }
    eval.walk(&args[0])?;
    let mut flat = Vec::new();
    let mut pending = eval.take_items(std::mem::take(&mut args[0]))?;
    pending.reverse();
    while let Some(item) = pending.pop() {
        match item {
            Value::Vector(items) => {
                eval.charge(items.len())?;
                eval.reserve_values(pending.len() + items.len())?;
                pending.extend(items.iter().rev().cloned());
            }
            other => {
                eval.charge(1)?;
                flat.push(other);
            }
        }
    }
    Ok(Value::vector(flat))
}

fn tree_seq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [branch, children, root] = args else {
        return Ok(Value::Nil);
    };
    callable(branch)?;
    callable(children)?;
    let mut nodes = Vec::new();
    let mut pending = vec![std::mem::take(root)];
    while let Some(node) = pending.pop() {
        if eval.call1(branch, node.clone())?.truthy() {
            let below = eval.call1(children, node.clone())?;
            let below = eval.take_items(below)?;
            pending.extend(below.into_iter().rev());
        }
        nodes.push(node);
    }
    Ok(Value::vector(nodes))
}

// --- size

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
        other => return Err(wrong_type("a collection", other)),
    }))
}

fn is_empty(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(emptiness(&args[0])?))
}

fn emptiness(value: &Value) -> Result<bool> {
    Ok(match value {
        Value::Nil => true,
        Value::Vector(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Set(members) => members.is_empty(),
        Value::Str(text) => text.is_empty(),
        other => return Err(wrong_type("a collection", other)),
    })
}

fn not_empty(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(if emptiness(&args[0])? {
        Value::Nil
    } else {
        std::mem::take(&mut args[0])
    })
}

fn empty(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(match &args[0] {
        Value::Vector(_) => Value::vector(Vec::new()),
        Value::Map(_) => Value::Map(Map::new()),
        Value::Set(_) => Value::Set(crate::value::Set::new()),
        Value::Str(_) => Value::str(""),
        Value::Nil => Value::Nil,
        other => return Err(wrong_type("a collection", other)),
    })
}
