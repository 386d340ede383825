//! Sequence functions. Everything is eager, every result is a vector, and anything seqable is a
//! sequence: vectors, sets, maps as entries, strings as graphemes, nil as nothing.

use std::collections::{BTreeSet, VecDeque};

use super::numbers::{amount, index};
use super::{Builtin, Home, Section, Takes, at_least, between, callable, exactly, key_of, row};
use crate::analyze::ir::Op;
use crate::error::{
    Stop, about, at_item, bad_value, of_empty, of_no_argument, quoting, wrong_type,
};
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::shape::{Freed, watched};
use crate::value::{Items, Map, Value};

/// The rows of this area.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("map", "seqs.map", Section::Core, &[Home::Core], at_least(1), "(map f coll), (map f c1 c2 ...), (map f)", "Calls a function on each item, or on the items of several collections side by side, and returns the results in a vector.", map).streaming(1).taking(Takes::From(1)).deferring(map_later),
    row("mapv", "seqs.mapv", Section::Core, &[Home::Core], at_least(2), "(mapv f coll), (mapv f c1 c2 ...)", "Does what map does; the result is a vector in both.", map).streaming(1).taking(Takes::From(1)),
    row("mapcat", "seqs.mapcat", Section::Core, &[Home::Core], at_least(1), "(mapcat f coll), (mapcat f c1 c2 ...), (mapcat f)", "Maps a function that returns collections and joins the results end to end.", mapcat).streaming(1).taking(Takes::From(1)).deferring(mapcat_later),
    row("map-indexed", "seqs.map-indexed", Section::Core, &[Home::Core], between(1, 2), "(map-indexed f coll), (map-indexed f)", "Calls a function with the index and the item, from index 0.", map_indexed).streaming(1).deferring(step),
    row("filter", "seqs.filter", Section::Core, &[Home::Core], between(1, 2), "(filter pred coll), (filter pred)", "Keeps the items for which the predicate holds.", filter).streaming(1).deferring(step),
    row("filterv", "seqs.filterv", Section::Core, &[Home::Core], exactly(2), "(filterv pred coll)", "Does what filter does; the result is a vector in both.", filter).streaming(1),
    row("remove", "seqs.remove", Section::Core, &[Home::Core], between(1, 2), "(remove pred coll), (remove pred)", "Drops the items for which the predicate holds.", remove).streaming(1).deferring(step),
    row("keep", "seqs.keep", Section::Core, &[Home::Core], between(1, 2), "(keep f coll), (keep f)", "Maps a function and keeps the results that are not nil.", keep).streaming(1).deferring(step),
    row("keep-indexed", "seqs.keep-indexed", Section::Core, &[Home::Core], between(1, 2), "(keep-indexed f coll), (keep-indexed f)", "Maps a function of index and item and keeps the results that are not nil.", keep_indexed).streaming(1).deferring(step),
    row("reduce", "seqs.reduce", Section::Core, &[Home::Core], between(2, 3), "(reduce f coll), (reduce f init coll)", "Folds a collection into one value with a function of accumulator and item.", reduce).streaming(1),
    row("reduce-kv", "maps.reduce-kv", Section::Core, &[Home::Core], exactly(3), "(reduce-kv f init m)", "Folds a map with a function of accumulator, key and value; a vector with its indexes.", reduce_kv),
    row("some", "seqs.some", Section::Core, &[Home::Core], at_least(2), "(some pred coll), (some pred c1 c2 ...)", "Returns the first truthy result of the predicate, or nil.", some).streaming(1).taking(Takes::From(1)),
    row("every?", "seqs.every?", Section::Core, &[Home::Core], at_least(2), "(every? pred coll), (every? pred c1 c2 ...)", "Returns true when the predicate holds for every item.", every).streaming(1).taking(Takes::From(1)),
    row("not-any?", "seqs.not-any?", Section::Core, &[Home::Core], at_least(2), "(not-any? pred coll), (not-any? pred c1 c2 ...)", "Returns true when the predicate holds for no item.", not_any).streaming(1).taking(Takes::From(1)),
    row("not-every?", "seqs.not-every?", Section::Core, &[Home::Core], at_least(2), "(not-every? pred coll), (not-every? pred c1 c2 ...)", "Returns true when the predicate fails for at least one item.", not_every).streaming(1).taking(Takes::From(1)),
    row("first", "seqs.first", Section::Core, &[Home::Core], exactly(1), "(first coll)", "Returns the first item, or nil when there is none.", first).streaming(0),
    row("second", "seqs.second", Section::Core, &[Home::Core], exactly(1), "(second coll)", "Returns the second item, or nil when there is none.", second).streaming(0),
    row("last", "seqs.last", Section::Core, &[Home::Core], exactly(1), "(last coll)", "Returns the last item, or nil when there is none.", last).streaming(0),
    row("rest", "seqs.rest", Section::Core, &[Home::Core], exactly(1), "(rest coll)", "Returns the items after the first, an empty vector when there are none.", rest).streaming(0).deferring(tail_later),
    row("next", "seqs.next", Section::Core, &[Home::Core], exactly(1), "(next coll)", "Returns the items after the first, or nil when there are none.", next).streaming(0).deferring(tail_later),
    row("ffirst", "seqs.ffirst", Section::Core, &[Home::Core], exactly(1), "(ffirst coll)", "Returns the first item of the first item.", ffirst).streaming(0),
    row("fnext", "seqs.fnext", Section::Core, &[Home::Core], exactly(1), "(fnext coll)", "Returns the first item of what follows the first item.", second).streaming(0),
    row("nfirst", "seqs.nfirst", Section::Core, &[Home::Core], exactly(1), "(nfirst coll)", "Returns what follows the first item of the first item, or nil.", nfirst).streaming(0),
    row("nnext", "seqs.nnext", Section::Core, &[Home::Core], exactly(1), "(nnext coll)", "Returns what follows the second item, or nil.", nnext).streaming(0).deferring(tail_later),
    row("butlast", "seqs.butlast", Section::Core, &[Home::Core], exactly(1), "(butlast coll)", "Returns all items but the last, or nil when none remain.", butlast).streaming(0).deferring(drop_last_later),
    row("nth", "seqs.nth", Section::Core, &[Home::Core], between(2, 3), "(nth coll idx), (nth coll idx not-found)", "Returns the item at an index, or nil or the default when the index is out of range.", nth).streaming(0).taking(Takes::First),
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
    row("subvec", "seqs.subvec", Section::Core, &[Home::Core], between(2, 3), "(subvec v start), (subvec v start end)", "Returns the items of a vector from start up to, not including, end; both are moved into range.", subvec),
    row("peek", "seqs.peek", Section::Core, &[Home::Core], exactly(1), "(peek coll)", "Returns the last item of a vector, or nil.", peek),
    row("pop", "seqs.pop", Section::Core, &[Home::Core], exactly(1), "(pop coll)", "Returns a vector without its last item, or nil when it is empty.", pop),
    row("vector", "seqs.vector", Section::Sets, &[Home::Core, Home::Set], at_least(0), "(vector & args)", "Makes a vector of its arguments.", vector),
    row("list", "seqs.list", Section::Core, &[Home::Core], at_least(0), "(list & args)", "Makes a vector of its arguments.", vector),
    row("vec", "seqs.vec", Section::Sets, &[Home::Core, Home::Set], exactly(1), "(vec coll)", "Makes a vector of the items of a collection.", vec),
    row("seq", "seqs.seq", Section::Core, &[Home::Core], exactly(1), "(seq coll)", "Returns the items of a collection as a vector, or nil when it has none.", seq).streaming(0),
    row("concat", "seqs.concat", Section::Core, &[Home::Core], at_least(0), "(concat coll1 coll2 ...)", "Joins collections end to end into one vector.", concat).endless().taking(Takes::From(0)).deferring(chain_later),
    row("cons", "seqs.cons", Section::Core, &[Home::Core], exactly(2), "(cons x seq)", "Puts an item in front of the items of a collection.", cons).endless().taking(Takes::Last).deferring(chain_later),
    row("conj", "seqs.conj", Section::Core, &[Home::Core], at_least(0), "(conj), (conj coll x ...)", "Adds items to a collection where it grows naturally: at the end of a vector, as entries of a map, as members of a set.", conj),
    row("into", "seqs.into", Section::Core, &[Home::Core], between(2, 3), "(into to from), (into to xform from)", "Adds all items of the second collection to the first.", into).streaming(1),
    row("range", "seqs.range", Section::Core, &[Home::Core], between(0, 3), "(range end), (range start end), (range start end step), (range)", "Returns the numbers from start (0) up to, not including, end, by step (1); without an end they never stop.", range),
    row("reverse", "seqs.reverse", Section::Core, &[Home::Core], exactly(1), "(reverse coll)", "Returns the items in opposite order.", reverse),
    row("rseq", "seqs.rseq", Section::Core, &[Home::Core], exactly(1), "(rseq v)", "Returns the items of a vector in opposite order, or nil when it has none.", rseq),
    row("distinct", "seqs.distinct", Section::Core, &[Home::Core], between(0, 1), "(distinct coll), (distinct)", "Drops items that occurred before.", distinct).streaming(0).deferring(step),
    row("distinct-by", "aggregates.distinct-by", Section::Core, &[], exactly(2), "(distinct-by keyfn coll)", "Keeps the first item for each value of the key function.", distinct_by),
    row("dedupe", "seqs.dedupe", Section::Core, &[Home::Core], between(0, 1), "(dedupe coll), (dedupe)", "Drops items that are the same as the item directly before.", dedupe).streaming(0).deferring(step),
    row("interleave", "seqs.interleave", Section::Core, &[Home::Core], at_least(0), "(interleave), (interleave coll), (interleave c1 c2 ...)", "Takes items from each collection in turn until one is used up.", interleave).streaming(0).taking(Takes::From(0)).deferring(interleave_later),
    row("interpose", "seqs.interpose", Section::Core, &[Home::Core], between(1, 2), "(interpose sep coll), (interpose sep)", "Puts a separator between neighbouring items.", interpose).streaming(1).deferring(step),
    row("zip", "seqs.zip", Section::Core, &[], exactly(2), "(zip c1 c2)", "Pairs the items of two collections.", zip).streaming(0).taking(Takes::From(0)).deferring(zip_later),
    row("partition", "seqs.partition", Section::Core, &[Home::Core], between(2, 4), "(partition n coll), (partition n step coll), (partition n step pad coll)", "Cuts a collection into groups of exactly n items and drops an incomplete last group unless padding is given.", partition).endless().taking(Takes::Last).deferring(partition_later),
    row("partition-all", "seqs.partition-all", Section::Core, &[Home::Core], between(1, 3), "(partition-all n coll), (partition-all n step coll), (partition-all n)", "Cuts a collection into groups of n items; the last may be shorter.", partition_all).streaming(1).deferring(partition_later),
    row("partition-by", "seqs.partition-by", Section::Core, &[Home::Core], between(1, 2), "(partition-by f coll), (partition-by f)", "Starts a new group whenever the function's value changes.", partition_by).streaming(1).deferring(step),
    row("combinations", "seqs.combinations", Section::Core, &[], exactly(2), "(combinations coll n)", "Returns every choice of n items, in the order of the collection.", combinations),
    row("flatten", "seqs.flatten", Section::Core, &[Home::Core], exactly(1), "(flatten coll)", "Replaces nested vectors by their items, at every depth.", flatten).streaming(0).deferring(step),
    row("tree-seq", "seqs.tree-seq", Section::Core, &[Home::Core], exactly(3), "(tree-seq branch? children root)", "Returns the nodes of a tree in depth-first order.", tree_seq),
    row("count", "seqs.count", Section::Core, &[Home::Core], exactly(1), "(count coll)", "Returns the number of items, 0 for nil.", count).streaming(0),
    row("empty?", "seqs.empty?", Section::Core, &[Home::Core], exactly(1), "(empty? coll)", "Returns true when a collection has no items.", is_empty).streaming(0),
    row("not-empty", "seqs.not-empty", Section::Core, &[Home::Core], exactly(1), "(not-empty coll)", "Returns the collection itself, or nil when it has no items.", not_empty).streaming(0),
    row("empty", "seqs.empty", Section::Core, &[Home::Core], exactly(1), "(empty coll)", "Returns an empty collection of the same kind.", empty).kinds(),
    row("reductions", "seqs.reductions", Section::Core, &[Home::Core], between(2, 3), "(reductions f coll), (reductions f init coll)", "Folds a collection and returns every accumulator on the way.", reductions).streaming(1).deferring(reductions_later),
    row("reduced", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(reduced x)", "Ends a reduction with a value when its function returns it.", make_reduced),
    row("reduced?", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(reduced? x)", "Returns true for what reduced returns.", is_reduced),
    row("unreduced", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(unreduced x)", "Returns what reduced was given; any other value itself.", unreduce),
    row("transduce", "seqs.transduce", Section::Core, &[Home::Core], between(3, 4), "(transduce xform f coll), (transduce xform f init coll)", "Folds the items of a collection that come through a transducer.", transduce).streaming(2),
    row("sequence", "seqs.sequence", Section::Core, &[Home::Core], between(1, 2), "(sequence coll), (sequence xform coll)", "Returns the items of a collection that come through a transducer.", sequence).streaming(1).deferring(transduced_later),
    row("eduction", "seqs.sequence", Section::Core, &[Home::Core], at_least(1), "(eduction xform coll), (eduction xform1 xform2 ... coll)", "Returns the items of a collection that come through transducers.", eduction).streaming(0).deferring(transduced_later),
    row("cat", "seqs.transducers", Section::Core, &[Home::Core], exactly(1), "cat", "Stands among transducers for the items of each item.", cat),
    row("iterate", "seqs.iterate", Section::Core, &[Home::Core], exactly(2), "(iterate f x)", "Returns x, (f x), (f (f x)) and so on, as many as are taken.", iterate),
    row("repeat", "seqs.repeat", Section::Core, &[Home::Core], between(1, 2), "(repeat n x), (repeat x)", "Returns a value n times, or for as long as items are taken.", repeat),
    row("repeatedly", "seqs.repeatedly", Section::Core, &[Home::Core], between(1, 2), "(repeatedly n f), (repeatedly f)", "Calls a function without arguments n times, or for as long as items are taken, and returns the results.", repeatedly).deferring(repeatedly_later),
    row("cycle", "seqs.cycle", Section::Core, &[Home::Core], exactly(1), "(cycle coll)", "Returns the items of a collection again and again, for as long as items are taken.", cycle).endless(),
    row("take-nth", "seqs.take-nth", Section::Core, &[Home::Core], between(1, 2), "(take-nth n coll), (take-nth n)", "Returns every n-th item, from the first.", take_nth).streaming(1).deferring(step),
    row("doall", "seqs.doall", Section::Core, &[Home::Core], between(1, 2), "(doall coll), (doall n coll)", "Returns the collection; everything is evaluated at once anyway.", doall),
    row("dorun", "seqs.doall", Section::Core, &[Home::Core], between(1, 2), "(dorun coll), (dorun n coll)", "Returns nil; everything is evaluated at once anyway.", dorun).streaming(0),
    row("run!", "seqs.run!", Section::Core, &[Home::Core], exactly(2), "(run! f coll)", "Calls a function with each item for what it does and returns nil.", run_each).streaming(1),
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

// --- what is made one by one where a function takes it so

/// The transducer that a function stands for, on its last argument.
fn step(eval: &mut Eval<'_>, row: &'static Builtin, args: &mut [Value]) -> Result<Option<Value>> {
    let before = usize::from(!matches!(row.name, "distinct" | "dedupe" | "flatten"));
    match args.split_last() {
        Some((collection, given)) if given.len() == before => {
            eval.deferred(row, given, collection).map(Some)
        }
        _ => Ok(None),
    }
}

fn seqable(value: &Value) -> bool {
    matches!(
        value,
        Value::Nil | Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Str(_)
    ) || sequence::unsettled(value).is_some()
}

fn beside_later(
    eval: &mut Eval<'_>,
    function: Value,
    columns: &mut [Value],
) -> Result<Option<Value>> {
    if Eval::callable(&function) && columns.iter().all(seqable) {
        return sequence::beside(eval, function, columns).map(Some);
    }
    Ok(None)
}

fn map_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [_, _] => step(eval, row, args),
        [function, columns @ ..] => beside_later(eval, function.clone(), columns),
        [] => Ok(None),
    }
}

/// The items of the items of a sequence.
fn joined(eval: &mut Eval<'_>, rows: Option<Value>) -> Result<Option<Value>> {
    let Some(rows) = rows else { return Ok(None) };
    let mut parts = sequence::parts_of(&rows);
    eval.reserve_values(parts.len() + 1)?;
    parts.push(builtin("cat").value());
    Ok(Some(super::made_of(Combinator::Sequence, parts)))
}

fn mapcat_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    if args.len() <= 2 {
        return map_later(eval, row, args);
    }
    let rows = map_later(eval, row, args)?;
    joined(eval, rows)
}

fn zip_later(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    beside_later(eval, builtin("vector").value(), args)
}

fn interleave_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let rows = zip_later(eval, row, args)?;
    joined(eval, rows)
}

fn chain_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    if !args[row.takes.of(args.len())].iter().all(seqable) {
        return Ok(None);
    }
    let mut parts: Vec<Value> = args.iter_mut().map(std::mem::take).collect();
    if row.name == "cons" {
        eval.settle(&mut parts[0])?;
        parts[0] = Value::vector(vec![std::mem::take(&mut parts[0])]);
    }
    sequence::chain(eval, parts).map(Some)
}

/// `rest` and its kin.
fn tail_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let from = match (row.name, &*args) {
        ("nthnext" | "nthrest", _) => amount_after(eval, args)?,
        ("nnext", _) => 2,
        _ => 1,
    };
    let collection = std::mem::take(&mut args[0]);
    let rest = match sequence::integers(&collection) {
        Some(_) => tail(eval, collection, from)?,
        None => sequence::dropped(sequence::parts_of(&collection), from),
    };
    match row.name {
        "rest" | "nthrest" => Ok(Some(rest)),
        _ => nil_for_none(eval, rest).map(Some),
    }
}

fn drop_last_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, given)) = args.split_last() else {
        return Ok(None);
    };
    if sequence::endless(collection) {
        return Ok(None);
    }
    let count = given.first().cloned().unwrap_or(Value::Int(1));
    let kept = eval.deferred(builtin("drop-last"), &[count], collection)?;
    match row.name {
        "butlast" => nil_for_none(eval, kept).map(Some),
        _ => Ok(Some(kept)),
    }
}

fn partition_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let (size, step) = match &*args {
        [size, _] => (size, size),
        [size, step, _] => (size, step),
        _ => return Ok(None),
    };
    let counts = [
        Value::from(positive(size, "n")?),
        Value::from(positive(step, "step")?),
    ];
    let collection = args.last().cloned().unwrap_or_default();
    eval.deferred(row, &counts, &collection).map(Some)
}

fn reductions_later(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, given)) = args.split_last_mut() else {
        return Ok(None);
    };
    if let Some(initial) = given.get_mut(1) {
        eval.settle(initial)?;
    }
    eval.deferred(row, given, collection).map(Some)
}

/// `sequence` and `eduction`.
fn transduced_later(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, xforms)) = args.split_last_mut() else {
        return Ok(None);
    };
    let mut parts = sequence::parts_of(collection);
    for xform in xforms {
        // What is none is refused where it stands, not where an item is asked for.
        eval.transduced(xform, Value::Nil)?;
        parts.push(std::mem::take(xform));
    }
    Ok(Some(super::made_of(Combinator::Sequence, parts)))
}

fn repeatedly_later(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [count, function] if Eval::callable(function) && amount(count)? > sequence::AT_ONCE_MAX => {
            counted(eval, Combinator::Repeatedly, args).map(Some)
        }
        _ => Ok(None),
    }
}

/// `(apply concat colls)`.
pub(super) fn apply_later(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [Value::Builtin(function), rows] if function.name == "concat" => {
            let rows = std::mem::take(rows);
            joined(eval, Some(rows))
        }
        _ => Ok(None),
    }
}

/// The row of `name`.
fn builtin(name: &str) -> &'static Builtin {
    super::lookup(name).expect("a row of the table")
}

/// The transducer that `name` makes of arguments without a collection.
fn transducer_of(name: &str, args: &mut [Value]) -> Result {
    if let Some(function) = args.first()
        && !matches!(
            name,
            "take" | "drop" | "take-nth" | "partition-all" | "interpose"
        )
    {
        callable(function)?;
    }
    let args = args.iter_mut().map(std::mem::take).collect();
    Ok(sequence::transducer(builtin(name), args))
}

/// Refuses collections none of which has an end.
fn bounded(eval: &mut Eval<'_>, collections: &mut [Value]) -> Result<()> {
    if !collections.is_empty() && collections.iter().all(sequence::endless) {
        return eval.settle(&mut collections[0]);
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
        // A buffer that nobody else will read becomes the result's.
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

/// A transducer, where there is no collection, or a sequence, where there is no end to it.
fn later(eval: &mut Eval<'_>, name: &str, args: &mut [Value]) -> Result<Option<Value>> {
    Ok(match args {
        [_] => Some(transducer_of(name, args)?),
        [argument, endless] if sequence::endless(endless) => {
            let argument = std::mem::take(argument);
            Some(eval.deferred(builtin(name), &[argument], endless)?)
        }
        _ => None,
    })
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

/// The items for which the predicate's answer is `wanted`.
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
        // Only what is kept is copied.
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
    let before = usize::from(initial.is_none());
    if let Value::Vector(items) = &collection {
        // Read in place: reducing copies nothing.
        let mut items = items.iter();
        let first = match initial {
            Some(initial) => initial,
            None => match items.next() {
                Some(first) => first.clone(),
                None => return of_nothing(eval, &function),
            },
        };
        return fold(eval, &function, first, items, before);
    }
    if let Some((start, end, step)) = sequence::integers(&collection) {
        return fold_integers(eval, &function, initial, (start, end, step));
    }
    let mut items = eval.stream(collection)?;
    let first = match initial {
        Some(initial) => initial,
        None => match items.next(eval)? {
            Some(first) => first,
            None => return of_nothing(eval, &function),
        },
    };
    eval.fold_stream(&function, first, items, before)
}

/// What a reduction of no items gives: the function's own value for no arguments, if it has one.
fn of_nothing(eval: &mut Eval<'_>, function: &Value) -> Result {
    eval.call(function, &mut []).map_err(of_empty)
}

/// Folds a range of integers that nobody made; under an operator no call is needed.
fn fold_integers(
    eval: &mut Eval<'_>,
    function: &Value,
    initial: Option<Value>,
    (start, end, step): (i64, i64, i64),
) -> Result {
    let op = match function {
        Value::Builtin(builtin) => Op::of(builtin),
        _ => None,
    };
    let count = sequence::integer_count(start, end, step);
    let before = usize::from(initial.is_none());
    let mut items = (0..count).map(|at| start.wrapping_add((at as i64).wrapping_mul(step)));
    let mut acc = match initial {
        Some(initial) => initial,
        None => match items.next() {
            Some(first) => Value::Int(first),
            None => return of_nothing(eval, function),
        },
    };
    for (index, item) in items.enumerate() {
        let known = match (&acc, op) {
            (Value::Int(acc), Some(op)) => op.integers(*acc, item),
            _ => None,
        };
        acc = match known {
            Some(known) => {
                eval.charge(1)?;
                known
            }
            None => {
                let result = eval.call2(function, acc, Value::Int(item));
                result.map_err(|stop| at_item(stop, before + index))?
            }
        };
        if let Some(value) = sequence::reduced(&acc) {
            return Ok(value.clone());
        }
    }
    Ok(acc)
}

fn make_reduced(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let value = std::mem::take(&mut args[0]);
    Ok(super::made_of(Combinator::Reduced, vec![value]))
}

fn is_reduced(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(sequence::reduced(&args[0]).is_some()))
}

fn unreduce(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(sequence::unreduced(std::mem::take(&mut args[0])))
}

fn reductions(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((collection, given)) = args.split_last_mut() else {
        return Ok(Value::Nil);
    };
    let function = std::mem::take(&mut given[0]);
    callable(&function)?;
    if sequence::endless(collection) {
        given[0] = function;
        return Ok(reductions_later(eval, builtin("reductions"), args)?.unwrap_or_default());
    }
    let mut items = eval.stream(std::mem::take(collection))?;
    let before = usize::from(given.len() < 2);
    let mut acc = match given.get_mut(1) {
        Some(initial) => std::mem::take(initial),
        None => match items.next(eval)? {
            Some(first) => first,
            None => {
                let empty = of_nothing(eval, &function)?;
                return Ok(Value::vector(vec![empty]));
            }
        },
    };
    eval.settle(&mut acc)?;
    let mut all = vec![acc.clone()];
    let mut index = before;
    while let Some(item) = items.next(eval)? {
        let result = eval.call2(&function, acc, item);
        acc = result.map_err(|stop| at_item(stop, index))?;
        index += 1;
        eval.charge(1)?;
        if let Some(value) = sequence::reduced(&acc) {
            all.push(value.clone());
            break;
        }
        all.push(acc.clone());
    }
    Ok(Value::vector(all))
}

fn transduce(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((collection, given)) = args.split_last_mut() else {
        return Ok(Value::Nil);
    };
    let (xform, function) = (std::mem::take(&mut given[0]), std::mem::take(&mut given[1]));
    callable(&function)?;
    let items = eval.transduced(&xform, std::mem::take(collection))?;
    let first = match given.get_mut(2) {
        Some(initial) => std::mem::take(initial),
        None => eval.call(&function, &mut [])?,
    };
    let folded = eval.fold_stream(&function, first, items, 0)?;
    // The function's arity of one completes the result, where it has one.
    if completes(&function) {
        eval.call1(&function, folded)
    } else {
        Ok(folded)
    }
}

/// Whether a reducing function has an arity of one that may change the result.
fn completes(function: &Value) -> bool {
    matches!(function, Value::Fn(closure) if closure.lambda.takes(1))
}

fn sequence(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match args {
        [collection] => Ok(Value::vector(eval.take_items(std::mem::take(collection))?)),
        _ => eduction(eval, args),
    }
}

fn eduction(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((collection, xforms)) = args.split_last_mut() else {
        return Ok(Value::Nil);
    };
    for xform in &mut *xforms {
        eval.settle(xform)?;
    }
    if sequence::endless(collection) {
        let made = transduced_later(eval, builtin("sequence"), args)?;
        return match made {
            Some(made) if !sequence::endless(&made) => eval.settled(made),
            made => Ok(made.unwrap_or_default()),
        };
    }
    let xforms = xforms.iter_mut().map(std::mem::take).collect();
    let xform = super::made_of(Combinator::Comp, xforms);
    let items = eval.transduced(&xform, std::mem::take(collection))?;
    Ok(Value::vector(eval.collected(items)?))
}

fn cat(_: &mut Eval<'_>, _: &mut [Value]) -> Result {
    Err(bad_value(
        "cat stands among transducers, as in (into [] cat [[1 2] [3]]); use (apply concat colls) to join collections",
    ))
}

fn run_each(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    callable(&args[0])?;
    let mut items = eval.stream(std::mem::take(&mut args[1]))?;
    let mut index = 0;
    while let Some(item) = items.next(eval)? {
        let result = eval.call1(&args[0], item);
        let result = result.map_err(|stop| at_item(stop, index))?;
        index += 1;
        if sequence::reduced(&result).is_some() {
            break;
        }
    }
    Ok(Value::Nil)
}

fn doall(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let collection = args.last_mut().map(std::mem::take).unwrap_or_default();
    item_at(eval, &collection, 0)?;
    Ok(collection)
}

fn dorun(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some(collection) = args.last_mut() else {
        return Ok(Value::Nil);
    };
    if sequence::endless(collection) {
        eval.settle(collection)?;
    }
    if sequence::unsettled(collection).is_none() {
        item_at(eval, collection, 0)?;
        return Ok(Value::Nil);
    }
    let mut items = eval.stream(std::mem::take(collection))?;
    while items.next(eval)?.is_some() {}
    Ok(Value::Nil)
}

fn take_nth(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    positive(&args[0], "n")?;
    if let Some(later) = later(eval, "take-nth", args)? {
        return Ok(later);
    }
    let step = sequence::transducer(builtin("take-nth"), vec![std::mem::take(&mut args[0])]);
    let items = eval.transduced(&step, std::mem::take(&mut args[1]))?;
    Ok(Value::vector(eval.collected(items)?))
}

// --- sequences that their consumer bounds

fn iterate(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    callable(&args[0])?;
    Ok(endless_of(Combinator::Iterate, args))
}

fn repeat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    counted(eval, Combinator::Repeat, args)
}

fn repeatedly(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(function) = args.last() {
        callable(function)?;
    }
    if let [count, function] = args {
        let count = amount(count)?;
        let mut results = Vec::new();
        for _ in 0..count {
            results.push(eval.call(function, &mut [])?);
        }
        return Ok(Value::vector(results));
    }
    Ok(endless_of(Combinator::Repeatedly, args))
}

fn cycle(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::endless(&args[0]) {
        return Ok(std::mem::take(&mut args[0]));
    }
    let items = Value::vector(eval.take_items(std::mem::take(&mut args[0]))?);
    Ok(match emptiness(&items)? {
        true => items,
        false => endless_of(Combinator::Cycle, &mut [items]),
    })
}

fn endless_of(kind: Combinator, parts: &mut [Value]) -> Value {
    let parts = parts.iter_mut().map(std::mem::take).collect();
    sequence::sequence_of(super::made_of(kind, parts))
}

/// A source, as many items of it as the first of two arguments says.
fn counted(eval: &mut Eval<'_>, kind: Combinator, args: &mut [Value]) -> Result {
    let [count, item] = args else {
        return Ok(endless_of(kind, args));
    };
    let wanted = amount(count)?;
    if wanted <= sequence::AT_ONCE_MAX {
        eval.charge(wanted)?;
        return Ok(Value::vector(vec![std::mem::take(item); wanted]));
    }
    let count = std::mem::take(count);
    let source = endless_of(kind, &mut args[1..]);
    eval.deferred(builtin("take"), &[count], &source)
}

/// Folds items that are read in place; numbers under an operator need no call.
fn fold(
    eval: &mut Eval<'_>,
    function: &Value,
    first: Value,
    items: Items<'_>,
    before: usize,
) -> Result {
    let op = match function {
        Value::Builtin(builtin) => Op::of(builtin),
        _ => None,
    };
    let Some(op) = op else {
        return eval.fold_each(function, first, items, before);
    };
    let mut acc = first;
    for (index, item) in items.enumerate() {
        acc = match op.values(&acc, item) {
            Some(known) => {
                eval.charge(1)?;
                known
            }
            None => {
                let result = eval.call2(function, acc, item.clone());
                result.map_err(|stop| at_item(stop, before + index))?
            }
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
        Value::Map(entries) => {
            let mut acc = initial;
            for (index, (key, value)) in entries.iter().enumerate() {
                let result = eval.call(function, &mut [acc, key.clone(), value.clone()]);
                acc = result.map_err(|stop| at_item(stop, index))?;
                if let Some(value) = sequence::reduced(&acc) {
                    return Ok(value.clone());
                }
            }
            Ok(acc)
        }
        Value::Vector(items) => {
            let mut acc = initial;
            for (index, item) in items.iter().enumerate() {
                let result = eval.call(function, &mut [acc, Value::from(index), item.clone()]);
                acc = result.map_err(|stop| at_item(stop, index))?;
                if let Some(value) = sequence::reduced(&acc) {
                    return Ok(value.clone());
                }
            }
            Ok(acc)
        }
        other => Err(wrong_type("a map or a vector", other)),
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
pub(super) fn item_at(eval: &mut Eval<'_>, collection: &Value, at: usize) -> Result<Option<Value>> {
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

/// The item at `at` of a sequence that is not made.
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

/// The items from `from` on.
fn tail(eval: &mut Eval<'_>, mut collection: Value, from: usize) -> Result {
    if let Some((start, end, step)) = sequence::integers(&collection) {
        let gone = from.min(sequence::integer_count(start, end, step));
        return Ok(match gone {
            gone if gone == sequence::integer_count(start, end, step) => Value::vector(Vec::new()),
            gone => {
                let start = start.wrapping_add((gone as i64).wrapping_mul(step));
                let bounds = [start, end, step].map(Value::Int).to_vec();
                sequence::sequence_of(super::made_of(Combinator::Range, bounds))
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

fn nil_if_empty(items: Vec<Value>) -> Value {
    if items.is_empty() {
        Value::Nil
    } else {
        Value::vector(items)
    }
}

/// `collection`, or nil when it has no items.
fn nil_for_none(eval: &mut Eval<'_>, collection: Value) -> Result {
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

/// The count of `(nthrest coll n)`: the collection is judged first.
fn amount_after(eval: &mut Eval<'_>, args: &[Value]) -> Result<usize> {
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
    // Only the last ones so far are held.
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

/// Where the predicate fails first.
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

/// The first `count` of `items`, and the others; the shorter side moves.
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
    let mut target = std::mem::take(&mut args[0]);
    if target.is_nil() {
        target = Value::vector(Vec::new());
    }
    if let [_, through @ .., from] = &*args
        && sequence::endless(from)
    {
        let mut parts = sequence::parts_of(from);
        parts.extend(through.iter().cloned());
        let mut all = super::made_of(Combinator::Sequence, parts);
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

/// Adds what is left of `items` to `target`.
pub(super) fn into_target(
    eval: &mut Eval<'_>,
    mut target: Value,
    mut items: sequence::Stream,
) -> Result {
    if items.is_whole() {
        /// An entry for each item, and another for sorting them.
        const ITEM_BYTES: usize = 2 * size_of::<(Value, Value)>();
        let items = eval.collected(items)?;
        let is_vector = matches!(target, Value::Vector(_));
        if is_vector || items.len() <= TOGETHER_MAX || eval.room() / ITEM_BYTES > items.len() {
            return into_whole(eval, target, items);
        }
        // Many may be the same: some at a time need less room.
        let mut items = items.into_iter();
        while items.len() > 0 {
            let some = items.by_ref().take(TOGETHER_MAX).collect();
            target = into_whole(eval, target, some)?;
        }
        return Ok(target);
    }
    // One by one: what they are made of need not be there at once. Some at a time where sorting them helps.
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

/// Items of a sequence that are put into a map or set together.
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
    // Into an empty map or set all at once: sorting beats inserting.
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
    // A target that is no collection is an error even when there is nothing to add.
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
        let bounds = [start, end, step].map(Value::Int).to_vec();
        let range = super::made_of(Combinator::Range, bounds);
        return Ok(sequence::sequence_of(range));
    }
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
        return Err(bad_value(about("the step of a range must not be 0", step)));
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

/// The first item of each key.
pub fn unique(
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

/// Refuses what can neither be called nor stand for a key.
pub fn key_function(value: &Value) -> Result<()> {
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

// --- grouping by position

/// A size or step that must be positive.
fn positive(value: &Value, what: &str) -> Result<usize> {
    match index(value)? {
        count if count > 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        other => Err(bad_value(about(
            format!("{what} must be a positive integer, got {other}"),
            value,
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
        parts.push(Value::vector(
            watched(items[start..end].iter()).cloned().collect(),
        ));
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
    let mut collection = args.last_mut().map(std::mem::take).unwrap_or_default();
    if args.len() < 4 && sequence::endless(&collection) {
        let counts = [Value::from(size), Value::from(step)];
        return eval.deferred(builtin("partition"), &counts, &collection);
    }
    eval.settle(&mut collection)?;
    let items = eval.take_items(collection)?;
    let mut parts = windows(eval, &items, size, step, false)?;
    if args.len() == 4 {
        let start = parts.len().saturating_mul(step);
        if start < items.len() {
            let mut pad = eval.stream(std::mem::take(&mut args[2]))?;
            let mut last = items[start..].to_vec();
            last.truncate(size);
            while last.len() < size
                && let Some(item) = pad.next(eval)?
            {
                if last.len() == last.capacity() {
                    eval.reserve_values(last.len() * 2)?;
                }
                last.push(item);
            }
            parts.push(Value::vector(last));
        }
    }
    Ok(Value::vector(parts))
}

fn partition_all(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let size = positive(&args[0], "n")?;
    if args.len() < 3
        && let Some(later) = later(eval, "partition-all", args)?
    {
        return Ok(later);
    }
    if args.last().is_some_and(sequence::endless) {
        return Ok(partition_later(eval, builtin("partition-all"), args)?.unwrap_or_default());
    }
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
    if let Some(later) = later(eval, "partition-by", args)? {
        return Ok(later);
    }
    callable(&args[0])?;
    let items = eval.take_items(std::mem::take(&mut args[1]))?;
    let mut parts = Vec::new();
    let mut part: Vec<Value> = Vec::new();
    let mut current: Option<Value> = None;
    for (index, item) in items.into_iter().enumerate() {
        let key = eval.call1(&args[0], item.clone());
        let key = key.map_err(|stop| at_item(stop, index))?;
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
    // Fewer than none are as many as there never are.
    let size = usize::try_from(index(&args[1])?).unwrap_or(usize::MAX);
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
    if sequence::unsettled(&args[0]).is_some() {
        let flat = eval.deferred(builtin("flatten"), &[], &args[0])?;
        return match sequence::endless(&flat) {
            true => Ok(flat),
            false => eval.settled(flat),
        };
    }
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
            let below = eval.take_items(below).map_err(of_no_argument)?;
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
        other if sequence::unsettled(other).is_some() => {
            return counted_items(eval, std::mem::take(&mut args[0]));
        }
        other => return Err(wrong_type("a collection", other)),
    }))
}

/// How many items a sequence has that is not made.
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
        Value::Str(_) => Value::str(""),
        Value::Nil => Value::Nil,
        other => return Err(wrong_type("a collection", other)),
    })
}
