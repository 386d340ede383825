//! Equality, comparison and sorting. Knows values only through term order and comparators.

use std::cmp::Ordering;

use super::{Builtin, Home, Section, Takes, at_least, between, exactly, key_of, row};
use crate::error::{Kind, Stop, about, at_item, bad_value, got, of_no_argument, wrong_type};
use crate::eval::{Eval, sequence};
use crate::value::shape::{watched, watched_blocks};
use crate::value::{Value, equal, term_cmp};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("=", "order.=", Section::Core, &[Home::Core], at_least(1), "(= x), (= x y & more)", "Returns true when all arguments are equal; numbers compare by value.", equals).streaming(0).taking(Takes::From(0)),
    row("==", "order.==", Section::Core, &[Home::Core], at_least(1), "(== x), (== x y & more)", "Returns true when all arguments are numerically equal.", number_equals).streaming(0).taking(Takes::From(0)),
    row("not=", "order.not=", Section::Core, &[Home::Core], at_least(1), "(not= x), (not= x y & more)", "Returns true when not all arguments are equal.", not_equals).streaming(0).taking(Takes::From(0)),
    row("<", "order.<", Section::Core, &[Home::Core], at_least(1), "(< x), (< x y & more)", "Returns true when each argument is less than the next.", less),
    row("<=", "order.<=", Section::Core, &[Home::Core], at_least(1), "(<= x), (<= x y & more)", "Returns true when no argument is greater than the next.", less_equal),
    row(">", "order.>", Section::Core, &[Home::Core], at_least(1), "(> x), (> x y & more)", "Returns true when each argument is greater than the next.", greater),
    row(">=", "order.>=", Section::Core, &[Home::Core], at_least(1), "(>= x), (>= x y & more)", "Returns true when no argument is less than the next.", greater_equal),
    row("compare", "order.compare", Section::Core, &[Home::Core], exactly(2), "(compare x y)", "Returns -1, 0 or 1 when the first value sorts before, equal to or after the second.", compare),
    row("sort", "order.sort", Section::Core, &[Home::Core], between(1, 2), "(sort coll), (sort comparator coll)", "Returns the items in ascending order, or in the order of a comparator.", sort),
    row("sort-by", "order.sort-by", Section::Core, &[Home::Core], between(2, 3), "(sort-by keyfn coll), (sort-by keyfn comparator coll)", "Returns the items in the order of the results of a key function.", sort_by),
    row("min-key", "aggregates.min-key", Section::Core, &[Home::Core], at_least(2), "(min-key f x), (min-key f x y & more)", "Returns the argument for which the function returns the smallest value, the last of equals.", min_key),
    row("max-key", "aggregates.max-key", Section::Core, &[Home::Core], at_least(2), "(max-key f x), (max-key f x y & more)", "Returns the argument for which the function returns the largest value, the last of equals.", max_key),
    row("min-by", "aggregates.min-by", Section::Core, &[], at_least(2), "(min-by f x), (min-by f x y & more)", "Returns the item for which the key function returns the smallest value.", min_by).streaming(0),
    row("max-by", "aggregates.max-by", Section::Core, &[], at_least(2), "(max-by f x), (max-by f x y & more)", "Returns the item for which the key function returns the largest value.", max_by).streaming(0),
    row("distinct?", "seqs.distinct?", Section::Core, &[Home::Core], at_least(1), "(distinct? x y ...)", "Returns true when no two arguments are the same.", are_distinct),
];

type Result<T = Value> = std::result::Result<T, Stop>;

/// The term order of two values; a date and an instant cannot be compared (`order.temporals`).
pub fn compared(eval: &mut Eval<'_>, a: &Value, b: &Value) -> Result<Ordering> {
    eval.walk_both(a, b)?;
    if let (Value::Date(_), Value::Instant(_)) | (Value::Instant(_), Value::Date(_)) = (a, b) {
        return Err(apart());
    }
    Ok(term_cmp(a, b))
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float(float) if float.is_nan())
}

/// The kinds of values that ordering operators compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Number,
    Date,
    Instant,
    Duration,
}

fn scale(value: &Value) -> Option<Scale> {
    match value {
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => Some(Scale::Number),
        Value::Date(_) => Some(Scale::Date),
        Value::Instant(_) => Some(Scale::Instant),
        Value::Duration(_) => Some(Scale::Duration),
        _ => None,
    }
}

/// Refuses `values` unless all are numbers, or all are temporal values of one kind (`order.operands`). A single value
/// is always accepted.
pub fn comparable<'v>(values: impl IntoIterator<Item = &'v Value>) -> Result<()> {
    let mut values = values.into_iter();
    let Some(first) = values.next() else {
        return Ok(());
    };
    for value in values {
        match (scale(first), scale(value)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(Scale::Date), Some(Scale::Instant))
            | (Some(Scale::Instant), Some(Scale::Date)) => {
                return Err(apart());
            }
            (None, _) => return Err(wrong_type("a number", first)),
            (Some(Scale::Number), _) | (_, None) => {
                return Err(wrong_type(scale_word(first), value));
            }
            (_, Some(_)) => return Err(wrong_type(scale_word(value), first)),
        }
    }
    Ok(())
}

fn scale_word(value: &Value) -> &'static str {
    match scale(value) {
        Some(Scale::Date) => "a date",
        Some(Scale::Instant) => "an instant",
        Some(Scale::Duration) => "a duration",
        _ => "a number",
    }
}

fn apart() -> Stop {
    bad_value("a date and an instant do not compare; make both dates or both instants")
}

fn chain(args: &[Value], holds: fn(Ordering) -> bool) -> Result {
    if let [Value::Int(a), Value::Int(b)] = args {
        return Ok(Value::Bool(holds(a.cmp(b))));
    }
    // All arguments are checked first: a result decided by the first two would hide a nil after them.
    comparable(args)?;
    let holds = |pair: &[Value]| {
        !is_nan(&pair[0]) && !is_nan(&pair[1]) && holds(term_cmp(&pair[0], &pair[1]))
    };
    Ok(Value::Bool(args.windows(2).all(holds)))
}

fn less(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    chain(args, Ordering::is_lt)
}

fn less_equal(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    chain(args, Ordering::is_le)
}

fn greater(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    chain(args, Ordering::is_gt)
}

fn greater_equal(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    chain(args, Ordering::is_ge)
}

fn all_equal(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<bool> {
    if args.iter().any(|arg| sequence::unsettled(arg).is_some()) {
        return sequences_equal(eval, args);
    }
    for pair in args.windows(2) {
        eval.walk_both(&pair[0], &pair[1])?;
        if !equal(&pair[0], &pair[1]) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// [`all_equal`] for arguments that include lazy sequences: two of them are compared item by item, up to the first
/// difference.
fn sequences_equal(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<bool> {
    let streams = |side: &Value| match sequence::unsettled(side) {
        Some(sequence) => !sequence.endless,
        None => matches!(side, Value::Vector(_)),
    };
    if let [a, b] = args
        && streams(a)
        && streams(b)
    {
        let mut a = eval.stream(std::mem::take(a))?;
        let mut b = eval.stream(std::mem::take(b))?;
        loop {
            let (one, other) = match (a.next(eval)?, b.next(eval)?) {
                (Some(one), Some(other)) => (one, other),
                (one, other) => return Ok(one.is_none() && other.is_none()),
            };
            eval.charge(1)?;
            eval.walk_both(&one, &other)?;
            if !equal(&one, &other) {
                return Ok(false);
            }
        }
    }
    for arg in args.iter_mut() {
        eval.settle(arg)?;
    }
    all_equal(eval, args)
}

fn equals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let [Value::Int(a), Value::Int(b)] = args {
        return Ok(Value::Bool(a == b));
    }
    all_equal(eval, args).map(Value::Bool)
}

fn number_equals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    all_equal(eval, args).map(Value::Bool)
}

fn not_equals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    all_equal(eval, args).map(|equal| Value::Bool(!equal))
}

pub(super) fn compare(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(nan) = args.iter().find(|arg| is_nan(arg)) {
        return Err(bad_value(about("##NaN has no place in an order", nan)));
    }
    Ok(Value::Int(match compared(eval, &args[0], &args[1])? {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// The order of `sort`.
enum Comparator {
    Ascending,
    Descending,
    Function(Value),
}

fn comparator(value: &Value) -> Result<Comparator> {
    match value {
        Value::Keyword(name) if name.as_str() == "asc" => Ok(Comparator::Ascending),
        Value::Keyword(name) if name.as_str() == "desc" => Ok(Comparator::Descending),
        Value::Builtin(builtin) if matches!(builtin.name, "<" | "<=" | "compare") => {
            Ok(Comparator::Ascending)
        }
        Value::Builtin(builtin) if matches!(builtin.name, ">" | ">=") => Ok(Comparator::Descending),
        Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) | Value::Var(_) => {
            Ok(Comparator::Function(value.clone()))
        }
        _ => Err(wrong_type(
            "a comparator (:asc, :desc or a function of two items)",
            value,
        )),
    }
}

/// Whether `later` must come before `earlier`.
fn precedes(
    eval: &mut Eval<'_>,
    comparator: &Value,
    later: &Value,
    earlier: &Value,
) -> Result<bool> {
    match eval.call2(comparator, later.clone(), earlier.clone())? {
        // A comparator such as >= returns true both ways for equal items, which then keep their order.
        Value::Bool(true) => Ok(!eval
            .call2(comparator, earlier.clone(), later.clone())?
            .truthy()),
        Value::Bool(false) => Ok(false),
        Value::Int(order) => Ok(order < 0),
        Value::BigInt(order) => Ok(order.sign() == num_bigint::Sign::Minus),
        Value::Float(order) if !order.is_nan() => Ok(order < 0.0),
        other => Err(bad_value(got(
            "a comparator must return a boolean or a number, got ",
            &other,
        ))),
    }
}

/// Sorts `items`, each with its key, stably.
fn sort_keyed(
    eval: &mut Eval<'_>,
    mut items: Vec<(Value, Value)>,
    comparator: &Comparator,
) -> Result<Vec<Value>> {
    if items.len() > 1 {
        match comparator {
            Comparator::Ascending | Comparator::Descending => {
                let mut weight = 0u64;
                let (mut dates, mut instants) = (false, false);
                for (key, _) in watched(items.iter()) {
                    if is_nan(key) {
                        return Err(bad_value(
                            "##NaN has no place in an order; remove it before sorting",
                        ));
                    }
                    dates |= matches!(key, Value::Date(_));
                    instants |= matches!(key, Value::Instant(_));
                    weight = weight.saturating_add(key.shape().weight);
                }
                if dates && instants {
                    return Err(apart());
                }
                // Each key is compared about once per level of the merge.
                eval.walk_weight(weight.saturating_mul(u64::from(items.len().ilog2()) + 1))?;
                if matches!(comparator, Comparator::Ascending) {
                    crate::value::sort_by(&mut items, |(key, _)| key, term_cmp);
                } else {
                    crate::value::sort_by(&mut items, |(key, _)| key, |a, b| term_cmp(b, a));
                }
            }
            Comparator::Function(function) => items = merge_sort(eval, items, function)?,
        }
    }
    Ok(watched(items.into_iter()).map(|(_, item)| item).collect())
}

/// A stable merge sort that tolerates inconsistent comparators, and stops when one raises an error.
fn merge_sort(
    eval: &mut Eval<'_>,
    items: Vec<(Value, Value)>,
    comparator: &Value,
) -> Result<Vec<(Value, Value)>> {
    let items = watched_blocks(items.into_iter());
    let mut runs: Vec<Vec<(Value, Value)>> = items.map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(eval, left, right, comparator)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge(
    eval: &mut Eval<'_>,
    left: Vec<(Value, Value)>,
    right: Vec<(Value, Value)>,
    comparator: &Value,
) -> Result<Vec<(Value, Value)>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(earlier), Some(later)) = (left.peek(), right.peek()) {
        let take_right = precedes(eval, comparator, &later.0, &earlier.0)?;
        merged.extend(if take_right {
            right.next()
        } else {
            left.next()
        });
    }
    merged.extend(watched(left));
    merged.extend(watched(right));
    Ok(merged)
}

fn sort(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (comparator, collection) = match args {
        [collection] => (Comparator::Ascending, std::mem::take(collection)),
        [order, collection] => (comparator(order)?, std::mem::take(collection)),
        _ => return Ok(Value::Nil),
    };
    let items = eval.take_items(collection)?;
    eval.reserve_values(items.len() * 2)?;
    let keyed = watched(items.into_iter())
        .map(|item| (item.clone(), item))
        .collect();
    Ok(Value::vector(sort_keyed(eval, keyed, &comparator)?))
}

fn sort_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let (key, comparator, collection) = match args {
        [key, collection] => (
            std::mem::take(key),
            Comparator::Ascending,
            std::mem::take(collection),
        ),
        [key, order, collection] => (
            std::mem::take(key),
            comparator(order)?,
            std::mem::take(collection),
        ),
        _ => return Ok(Value::Nil),
    };
    super::seqs::key_function(&key)?;
    let items = eval.take_items(collection)?;
    eval.reserve_values(items.len() * 2)?;
    let mut keyed = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let found = key_of(eval, &key, &item).map_err(|stop| at_item(stop, index))?;
        keyed.push((found, item));
    }
    Ok(Value::vector(sort_keyed(eval, keyed, &comparator)?))
}

/// The item with the extreme key, the first of equals. Items whose key is nil are ignored, and a NaN is chosen only when
/// there is no other key.
fn extreme_by(
    eval: &mut Eval<'_>,
    key: &Value,
    mut items: sequence::Stream,
    better: Ordering,
) -> Result {
    super::seqs::key_function(key)?;
    let mut best: Option<(Value, Value)> = None;
    for index in 0.. {
        let Some(item) = items.next(eval)? else {
            break;
        };
        let found = key_of(eval, key, &item).map_err(|stop| at_item(stop, index))?;
        if found.is_nil() {
            continue;
        }
        let wins = match &best {
            None => true,
            Some(_) if is_nan(&found) => false,
            Some((leader, _)) if is_nan(leader) => true,
            Some((leader, _)) => compared(eval, &found, leader)? == better,
        };
        if wins {
            best = Some((found, item));
        }
    }
    Ok(best.map_or(Value::Nil, |(_, item)| item))
}

/// As in Clojure: the argument for which a function returns the extreme value, the last of equals. A single argument is
/// returned as it is.
fn by_function(eval: &mut Eval<'_>, args: &mut [Value], better: Ordering) -> Result {
    let (function, items) = args
        .split_first_mut()
        .ok_or_else(|| Stop::from(Kind::Other("no function".into())))?;
    if let [only] = items {
        return Ok(std::mem::take(only));
    }
    super::callable(function)?;
    let mut best: Option<(Value, Value)> = None;
    for item in items {
        let item = std::mem::take(item);
        let found = eval.call1(function, item.clone())?;
        let wins = match &best {
            None => true,
            Some((leader, _)) => {
                comparable([leader, &found]).map_err(of_no_argument)?;
                let order = term_cmp(&found, leader);
                order == better || order.is_eq()
            }
        };
        if wins {
            best = Some((found, item));
        }
    }
    Ok(best.map_or(Value::Nil, |(_, item)| item))
}

fn min_key(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    by_function(eval, args, Ordering::Less)
}

fn max_key(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    by_function(eval, args, Ordering::Greater)
}

fn by(eval: &mut Eval<'_>, args: &mut [Value], better: Ordering) -> Result {
    let Some((key, items)) = args.split_first_mut() else {
        return Ok(Value::Nil);
    };
    eval.settle(key)?;
    let items = match items {
        [only] => {
            if sequence::endless(only) {
                eval.settle(only)?;
            }
            let many = matches!(
                only,
                Value::Nil | Value::Vector(_) | Value::Map(_) | Value::Set(_)
            );
            if !many && sequence::unsettled(only).is_none() {
                return Ok(std::mem::take(only));
            }
            std::mem::take(only)
        }
        items => {
            for item in &mut *items {
                eval.settle(item)?;
            }
            Value::vector(items.iter_mut().map(std::mem::take).collect())
        }
    };
    let items = eval.stream(items)?;
    extreme_by(eval, key, items, better)
}

fn min_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    by(eval, args, Ordering::Less)
}

fn max_by(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    by(eval, args, Ordering::Greater)
}

fn are_distinct(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut seen = std::collections::BTreeSet::new();
    for arg in args.iter() {
        eval.walk(arg)?;
        if !seen.insert(arg) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}
