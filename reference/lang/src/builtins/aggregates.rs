//! Totals, averages, counts and groups. Knows no order beyond that of keys.

use std::collections::BTreeMap;

use super::numbers::plus;
use super::seqs::key_function;
use super::{Builtin, Home, Section, exactly, key_of, row};
use crate::clock;
use crate::error::{Kind, Stop, at_item, wrong_type};
use crate::eval::{Eval, sequence};
use crate::value::shape::Freed;
use crate::value::{Map, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("sum", "aggregates.sum", Section::Core, &[], exactly(1), "(sum coll)", "Adds the numbers of a collection; nil items are skipped.", sum).streaming(0),
    row("sum-by", "aggregates.sum-by", Section::Core, &[], exactly(2), "(sum-by keyfn coll)", "Adds the results of a key function for all items.", sum_by).streaming(1),
    row("avg", "aggregates.avg", Section::Core, &[], exactly(1), "(avg coll)", "Returns the mean of the numbers of a collection as a float, nil when there are none; nil items are skipped.", avg).streaming(0),
    row("avg-by", "aggregates.avg-by", Section::Core, &[], exactly(2), "(avg-by keyfn coll)", "Returns the mean of the results of a key function for all items.", avg_by).streaming(1),
    row("frequencies", "seqs.frequencies", Section::Core, &[Home::Core], exactly(1), "(frequencies coll)", "Maps each distinct item to the number of times it occurs.", frequencies).streaming(0),
    row("group-by", "seqs.group-by", Section::Core, &[Home::Core], exactly(2), "(group-by keyfn coll)", "Maps each result of the key function to the vector of the items for which it was returned.", group_by).streaming(1),
];

type Result<T = Value> = std::result::Result<T, Stop>;

/// The sum of the results of `key` for the items, nil excluded, and the number of results in it.
fn total(
    eval: &mut Eval<'_>,
    key: Option<&Value>,
    collection: &mut Value,
) -> Result<(Value, usize)> {
    if let Some(key) = key {
        key_function(key)?;
    }
    bounded(eval, collection)?;
    let mut items = eval.stream(std::mem::take(collection))?;
    let (mut sum, mut count) = (Value::Int(0), 0);
    let mut index = 0;
    while let Some(item) = items.next(eval)? {
        let at = index;
        let here = |stop| at_item(stop, at);
        let item = match key {
            Some(key) => key_of(eval, key, &item).map_err(here)?,
            None => item,
        };
        index += 1;
        if item.is_nil() {
            continue;
        }
        sum = plus(&sum, &item).map_err(here)?;
        count += 1;
    }
    Ok((sum, count))
}

fn average(total: Value, count: usize) -> Result {
    if count == 0 {
        return Ok(Value::Nil);
    }
    let sum = match total {
        Value::Int(int) => int as f64,
        Value::Float(float) => float,
        Value::BigInt(int) => num_traits::ToPrimitive::to_f64(&*int).unwrap_or(f64::INFINITY),
        other => return Err(wrong_type("a number", &other)),
    };
    Ok(Value::Float(sum / count as f64))
}

fn sum(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(total(eval, None, &mut args[0])?.0)
}

fn avg(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (sum, count) = total(eval, None, &mut args[0])?;
    average(sum, count)
}

fn sum_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let key = std::mem::take(&mut args[0]);
    Ok(total(eval, Some(&key), &mut args[1])?.0)
}

fn avg_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let key = std::mem::take(&mut args[0]);
    let (sum, count) = total(eval, Some(&key), &mut args[1])?;
    average(sum, count)
}

/// Metered steps per item that is added to its group.
const GROUPED_STEPS: usize = 32;

/// The entries of a map that is being built. Each name is a key of only one kind, the first that occurs.
type Groups<T> = Freed<BTreeMap<Value, T>>;

/// Applies `add` to the value of `key` in `groups`.
fn group<T: Default, R>(groups: &mut Groups<T>, key: Value, add: impl FnOnce(&mut T) -> R) -> R {
    if let Some(group) = groups.get_mut(&key) {
        return add(group);
    }
    let other = match &key {
        Value::Keyword(name) => Some(Value::Str(name.clone())),
        Value::Str(name) => Some(Value::Keyword(name.clone())),
        _ => None,
    };
    let key = match other {
        Some(other) if groups.contains_key(&other) => other,
        _ => key,
    };
    add(groups.entry(key).or_default())
}

fn frequencies(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    bounded(eval, &mut args[0])?;
    let mut items = eval.stream(std::mem::take(&mut args[0]))?;
    let mut counts = Groups::<i64>::default();
    while let Some(item) = items.next(eval)? {
        eval.walk(&item)?;
        clock::check(GROUPED_STEPS)?;
        group(&mut counts, item, |count| *count += 1);
    }
    let counts = counts.take().into_iter();
    Ok(Value::Map(
        counts
            .map(|(item, count)| (item, Value::Int(count)))
            .collect::<Map>(),
    ))
}

/// Refuses a sequence without an end.
fn bounded(eval: &mut Eval<'_>, collection: &mut Value) -> Result<()> {
    match sequence::endless(collection) {
        true => eval.settle(collection),
        false => Ok(()),
    }
}

fn group_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [key, collection] = args else {
        return Err(Kind::Other("group-by takes two arguments".into()).into());
    };
    key_function(key)?;
    bounded(eval, collection)?;
    let mut items = eval.stream(std::mem::take(collection))?;
    let mut groups = Groups::<Vec<Value>>::default();
    let mut index = 0;
    while let Some(item) = items.next(eval)? {
        let key = key_of(eval, key, &item).map_err(|stop| at_item(stop, index))?;
        index += 1;
        eval.walk(&key)?;
        clock::check(GROUPED_STEPS)?;
        group(&mut groups, key, |items| {
            if items.len() == items.capacity() {
                eval.reserve_values(items.len().max(2) * 2)?;
            }
            items.push(item);
            Ok::<_, Stop>(())
        })?;
    }
    let mut map = Vec::with_capacity(groups.len());
    for (key, items) in groups.take() {
        clock::check(GROUPED_STEPS)?;
        map.push((key, Value::vector(items)));
    }
    Ok(Value::Map(map.into_iter().collect::<Map>()))
}
