//! Grouping by position.

use super::deferred::{partition_later, step};
use super::{Result, builtin, later};
use crate::builtins::numbers::index;
use crate::builtins::{Builtin, Home, Section, Takes, between, callable, exactly, row};
use crate::error::{at_item, bad_value, quoting};
use crate::eval::{Eval, sequence};
use crate::value::Value;
use crate::value::shape::watched;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("partition", "seqs.partition", Section::Core, &[Home::Core], between(2, 4), "(partition n coll), (partition n step coll), (partition n step pad coll)", "Cuts a collection into groups of exactly n items and drops an incomplete last group unless padding is given.", partition).endless().taking(Takes::Last).deferring(partition_later),
    row("partition-all", "seqs.partition-all", Section::Core, &[Home::Core], between(1, 3), "(partition-all n coll), (partition-all n step coll), (partition-all n)", "Cuts a collection into groups of n items; the last may be shorter.", partition_all).streaming(1).deferring(partition_later),
    row("partition-by", "seqs.partition-by", Section::Core, &[Home::Core], between(1, 2), "(partition-by f coll), (partition-by f)", "Cuts a collection into groups and starts a new one whenever the result of the function changes.", partition_by).streaming(1).deferring(step),
    row("combinations", "seqs.combinations", Section::Core, &[], exactly(2), "(combinations coll n)", "Returns every choice of n items, in the order of the collection.", combinations),
];

/// A size or step, which must be positive.
pub(super) fn positive(value: &Value, what: &str) -> Result<usize> {
    match index(value)? {
        count if count > 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(bad_value(quoting(
            format!("{what} must be a positive integer, got "),
            value,
        ))),
    }
}

/// Windows of `size` items, `step` apart; incomplete ones at the end are included if `all`.
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
    // A negative size has no combinations.
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
        // The rightmost position that can still advance.
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
