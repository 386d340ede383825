//! Lazy sequences for calls whose items are consumed one by one: what a row's `later` returns in place of a vector.

use super::endless::take_or_endless;
use super::grouping::positive;
use super::parts::{checked_amount, non_empty_or_nil, tail};
use super::{Result, builtin};
use crate::builtins::Builtin;
use crate::builtins::numbers::amount;
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::Value;

/// A function as a transducer on its last argument.
pub(super) fn step(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let before = usize::from(!matches!(row.name, "distinct" | "dedupe" | "flatten"));
    match args.split_last() {
        Some((collection, given)) if given.len() == before => {
            eval.with_transducer(row, given, collection).map(Some)
        }
        _ => Ok(None),
    }
}

fn seqable(value: &Value) -> bool {
    matches!(
        value,
        Value::Nil | Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Str(_)
    ) || sequence::as_lazy(value).is_some()
}

fn lazy_zip_with(
    eval: &mut Eval<'_>,
    function: Value,
    columns: &mut [Value],
) -> Result<Option<Value>> {
    if Eval::callable(&function) && columns.iter().all(seqable) {
        return sequence::zip_with(eval, function, columns).map(Some);
    }
    Ok(None)
}

pub(super) fn lazy_map(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [_, _] => step(eval, row, args),
        [function, columns @ ..] => lazy_zip_with(eval, function.clone(), columns),
        [] => Ok(None),
    }
}

/// The concatenated items of the items of a sequence.
pub(super) fn lazy_join(eval: &mut Eval<'_>, rows: Option<Value>) -> Result<Option<Value>> {
    let Some(rows) = rows else { return Ok(None) };
    let mut parts = sequence::parts_of(&rows);
    eval.reserve_values(parts.len() + 1)?;
    parts.push(builtin("cat").value());
    Ok(Some(crate::builtins::combined_value(
        Combinator::Sequence,
        parts,
    )))
}

pub(super) fn lazy_mapcat(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    if args.len() <= 2 {
        return lazy_map(eval, row, args);
    }
    let rows = lazy_map(eval, row, args)?;
    lazy_join(eval, rows)
}

pub(super) fn lazy_zip(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    lazy_zip_with(eval, builtin("vector").value(), args)
}

pub(super) fn lazy_interleave(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let rows = lazy_zip(eval, row, args)?;
    lazy_join(eval, rows)
}

pub(super) fn lazy_chain(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    if !args[row.consumes.of(args.len())].iter().all(seqable) {
        return Ok(None);
    }
    let mut parts: Vec<Value> = args.iter_mut().map(std::mem::take).collect();
    if row.name == "cons" {
        eval.realize(&mut parts[0])?;
        parts[0] = Value::vector(vec![std::mem::take(&mut parts[0])]);
    }
    sequence::chain(eval, parts).map(Some)
}

/// `rest` and similar functions.
pub(super) fn lazy_tail(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let from = match (row.name, &*args) {
        ("nthnext" | "nthrest", _) => checked_amount(eval, args)?,
        ("nnext", _) => 2,
        _ => 1,
    };
    let collection = std::mem::take(&mut args[0]);
    let rest = match sequence::integers(&collection) {
        Some(_) => tail(eval, collection, from)?,
        None => sequence::drop_lazily(sequence::parts_of(&collection), from),
    };
    match row.name {
        "rest" | "nthrest" => Ok(Some(rest)),
        _ => non_empty_or_nil(eval, rest).map(Some),
    }
}

pub(super) fn lazy_drop_last(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, given)) = args.split_last() else {
        return Ok(None);
    };
    if sequence::is_endless(collection) {
        return Ok(None);
    }
    let count = given.first().cloned().unwrap_or(Value::Int(1));
    let kept = eval.with_transducer(builtin("drop-last"), &[count], collection)?;
    match row.name {
        "butlast" => non_empty_or_nil(eval, kept).map(Some),
        _ => Ok(Some(kept)),
    }
}

pub(super) fn lazy_partition(
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
    eval.with_transducer(row, &counts, &collection).map(Some)
}

pub(super) fn lazy_reductions(
    eval: &mut Eval<'_>,
    row: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, given)) = args.split_last_mut() else {
        return Ok(None);
    };
    if let Some(initial) = given.get_mut(1) {
        eval.realize(initial)?;
    }
    eval.with_transducer(row, given, collection).map(Some)
}

/// `sequence` and `eduction`.
pub(super) fn lazy_transduced(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    let Some((collection, xforms)) = args.split_last_mut() else {
        return Ok(None);
    };
    let mut parts = sequence::parts_of(collection);
    for xform in xforms {
        // A value that is not a transducer is refused here, not when an item is requested.
        eval.transduce(xform, Value::Nil)?;
        parts.push(std::mem::take(xform));
    }
    Ok(Some(crate::builtins::combined_value(
        Combinator::Sequence,
        parts,
    )))
}

pub(super) fn lazy_repeatedly(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [count, function]
            if Eval::callable(function) && amount(count)? > sequence::EAGER_LEN_MAX =>
        {
            take_or_endless(eval, Combinator::Repeatedly, args).map(Some)
        }
        _ => Ok(None),
    }
}

/// `(apply concat colls)`.
pub(in crate::builtins) fn lazy_apply(
    eval: &mut Eval<'_>,
    _: &'static Builtin,
    args: &mut [Value],
) -> Result<Option<Value>> {
    match args {
        [Value::Builtin(function), rows] if function.name == "concat" => {
            let rows = std::mem::take(rows);
            lazy_join(eval, Some(rows))
        }
        _ => Ok(None),
    }
}
