//! Folding a collection into one value, with transducers and without.

use super::deferred::{reductions_later, transduced_later};
use super::parts::item_at;
use super::{Result, builtin};
use crate::analyze::ir::Op;
use crate::builtins::{Builtin, Home, Section, at_least, between, callable, exactly, row};
use crate::error::{Stop, at_item, bad_value, of_empty, of_first, wrong_type};
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::{Items, Type, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("reduce", "seqs.reduce", Section::Core, &[Home::Core], between(2, 3), "(reduce f coll), (reduce f init coll)", "Folds a collection into one value with a function of accumulator and item.", reduce).streaming(1),
    row("reduce-kv", "maps.reduce-kv", Section::Core, &[Home::Core], exactly(3), "(reduce-kv f init m)", "Folds a map with a function of accumulator, key and value; the keys of a vector are its indexes.", reduce_kv),
    row("reductions", "seqs.reductions", Section::Core, &[Home::Core], between(2, 3), "(reductions f coll), (reductions f init coll)", "Folds a collection and returns every intermediate accumulator.", reductions).streaming(1).deferring(reductions_later),
    row("reduced", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(reduced x)", "Ends a reduction with a value when its function returns it.", make_reduced),
    row("reduced?", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(reduced? x)", "Returns true for what reduced returns.", is_reduced),
    row("unreduced", "seqs.reduced", Section::Core, &[Home::Core], exactly(1), "(unreduced x)", "Returns what reduced was given; any other value itself.", unreduce),
    row("transduce", "seqs.transduce", Section::Core, &[Home::Core], between(3, 4), "(transduce xform f coll), (transduce xform f init coll)", "Folds the items of a collection that come through a transducer.", transduce).streaming(2),
    row("sequence", "seqs.sequence", Section::Core, &[Home::Core], between(1, 2), "(sequence coll), (sequence xform coll)", "Returns the items of a collection that come through a transducer.", sequence).streaming(1).deferring(transduced_later),
    row("eduction", "seqs.sequence", Section::Core, &[Home::Core], at_least(1), "(eduction xform coll), (eduction xform1 xform2 ... coll)", "Returns the items of a collection that come through a transducer.", eduction).streaming(0).deferring(transduced_later),
    row("cat", "seqs.transducers", Section::Core, &[Home::Core], exactly(1), "cat", "Stands among transducers for the items of each item.", cat),
    row("doall", "seqs.doall", Section::Core, &[Home::Core], between(1, 2), "(doall coll), (doall n coll)", "Returns the collection; everything is evaluated at once anyway.", doall),
    row("dorun", "seqs.doall", Section::Core, &[Home::Core], between(1, 2), "(dorun coll), (dorun n coll)", "Returns nil; everything is evaluated at once anyway.", dorun).streaming(0),
    row("run!", "seqs.run!", Section::Core, &[Home::Core], exactly(2), "(run! f coll)", "Calls a function with each item for its side effects and returns nil.", run_each).streaming(1),
];

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
        // The items are read in place and not copied.
        let mut items = items.iter();
        let first = match initial {
            Some(initial) => initial,
            None => match items.next() {
                Some(first) => first.clone(),
                None => return of_nothing(eval, &function),
            },
        };
        let kind = first.kind();
        let result = fold(eval, &function, first, items, before);
        return result.map_err(|stop| begun(stop, before, kind));
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
    let kind = first.kind();
    let result = eval.fold_stream(&function, first, items, before);
    result.map_err(|stop| begun(stop, before, kind))
}

/// Adds to an error how the reduction began: `before` items were used as the initial value, which is of the kind
/// `first`.
fn begun(stop: Stop, before: usize, first: Type) -> Stop {
    match before {
        0 => stop,
        _ => of_first(stop, first),
    }
}

/// The result of reducing no items: that of calling the function without arguments.
fn of_nothing(eval: &mut Eval<'_>, function: &Value) -> Result {
    eval.call(function, &mut []).map_err(of_empty)
}

/// Folds a range of integers without making its items; an operator needs no calls.
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
    Ok(crate::builtins::made_of(Combinator::Reduced, vec![value]))
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
    // A function that also accepts one argument completes the result.
    if completes(&function) {
        eval.call1(&function, folded)
    } else {
        Ok(folded)
    }
}

/// Whether a reducing function accepts one argument, and may change the result when called with it.
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
    let xform = crate::builtins::made_of(Combinator::Comp, xforms);
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

/// Folds items that are read in place; an operator on numbers needs no calls.
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
