//! Totals, averages, counts and groups. Knows no order beyond that of keys.

use super::numbers::plus;
use super::seqs::key_function;
use super::{Builtin, Home, Section, exactly, key_of, row};
use crate::clock;
use crate::error::{Kind, Stop, wrong_type};
use crate::eval::Eval;
use crate::value::{Map, Value, one_kind_each};

/// The rows of this area.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("sum", "aggregates.sum", Section::Core, &[], exactly(1), "(sum coll)", "Adds the numbers of a collection; nil items are skipped.", sum),
    row("sum-by", "aggregates.sum-by", Section::Core, &[], exactly(2), "(sum-by key coll)", "Adds what a key function gives for each item.", sum_by),
    row("avg", "aggregates.avg", Section::Core, &[], exactly(1), "(avg coll)", "Returns the mean of the numbers of a collection as a float, nil when there are none; nil items are skipped.", avg),
    row("avg-by", "aggregates.avg-by", Section::Core, &[], exactly(2), "(avg-by key coll)", "Returns the mean of what a key function gives for each item.", avg_by),
    row("frequencies", "seqs.frequencies", Section::Core, &[Home::Core], exactly(1), "(frequencies coll)", "Maps each distinct item to the number of times it occurs.", frequencies),
    row("group-by", "seqs.group-by", Section::Core, &[Home::Core], exactly(2), "(group-by keyfn coll)", "Maps each key that the function gives to the vector of items that gave it.", group_by),
];

type Result<T = Value> = std::result::Result<T, Stop>;

/// The sum of the items that are not nil, and how many there were.
fn total(eval: &mut Eval<'_>, items: impl Iterator<Item = Value>) -> Result<(Value, usize)> {
    let mut sum = Value::Int(0);
    let mut count = 0;
    for item in items {
        eval.charge(1)?;
        if item.is_nil() {
            continue;
        }
        sum = plus(&sum, &item)?;
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

/// What the key function makes of each item.
fn picked(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Vec<Value>> {
    let [key, collection] = args else {
        return Ok(Vec::new());
    };
    key_function(key)?;
    let items = eval.take_items(std::mem::take(collection))?;
    let mut found = Vec::with_capacity(items.len());
    for item in &items {
        found.push(key_of(eval, key, item)?);
    }
    Ok(found)
}

fn sum(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[0]))?;
    Ok(total(eval, items.into_iter())?.0)
}

fn avg(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = eval.take_items(std::mem::take(&mut args[0]))?;
    let (sum, count) = total(eval, items.into_iter())?;
    average(sum, count)
}

fn sum_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = picked(eval, args)?;
    Ok(total(eval, items.into_iter())?.0)
}

fn avg_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let items = picked(eval, args)?;
    let (sum, count) = total(eval, items.into_iter())?;
    average(sum, count)
}

fn frequencies(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut items = eval.take_items(std::mem::take(&mut args[0]))?;
    one_kind_each(&mut items, |item| item);
    let mut counts: std::collections::BTreeMap<Value, i64> = std::collections::BTreeMap::new();
    for item in items {
        eval.charge(1)?;
        eval.walk(&item)?;
        *counts.entry(item).or_default() += 1;
    }
    Ok(Value::Map(
        counts
            .into_iter()
            .map(|(item, count)| (item, Value::Int(count)))
            .collect::<Map>(),
    ))
}

/// Steps of the clock for an item that is put into its group.
const GROUPED_STEPS: usize = 32;

fn group_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [key, collection] = args else {
        return Err(Kind::Other("group-by takes two arguments".into()).into());
    };
    key_function(key)?;
    let items = eval.take_items(std::mem::take(collection))?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = key_of(eval, key, &item)?;
        eval.walk(&key)?;
        keyed.push((key, item));
    }
    one_kind_each(&mut keyed, |(key, _)| key);
    let mut groups: std::collections::BTreeMap<Value, Vec<Value>> =
        std::collections::BTreeMap::new();
    for (key, item) in keyed {
        clock::check(GROUPED_STEPS)?;
        groups.entry(key).or_default().push(item);
    }
    let mut map = Vec::with_capacity(groups.len());
    for (key, items) in groups {
        clock::check(GROUPED_STEPS)?;
        map.push((key, Value::vector(items)));
    }
    Ok(Value::Map(map.into_iter().collect::<Map>()))
}
