//! Comparisons: identity of keys, term order, and `=`. Callers charge by weight before they compare; long comparisons
//! also check the clock, and stop early when a limit was reached.
//!
//! Three relations, all without native recursion:
//! - key identity (`Eq`, `Ord` of [`Value`]): by value and kind; 1 and 1.0 differ, NaN equals itself;
//! - term order ([`term_cmp`]): as used by `sort` and `<`; 1 and 1.0 are equal;
//! - equality ([`equal`]): as used by `=`; numbers by value, NaN equals nothing at any depth.

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::FromPrimitive;
use smallvec::SmallVec;

use super::Value;
use super::shape::{free_flat, metered};
use crate::{clock, heap};

/// Metered steps per pair of parts.
const NODE_STEPS: usize = 4;

/// Which numbers compare as equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberOrder {
    /// An integer comes before the float of the same value.
    Key,
    /// Numbers of the same value are equal.
    Term,
}

/// Term order of two values as used by `compare` and `sort`. NaN comes after every other number.
#[inline]
pub fn term_cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) | (Value::Keyword(a), Value::Keyword(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        _ => order(a, b, NumberOrder::Term),
    }
}

/// The order of maps and sets: term order, with an integer before the float of the same value.
#[inline]
pub fn key_cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) | (Value::Keyword(a), Value::Keyword(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        _ => order(a, b, NumberOrder::Key),
    }
}

/// Sorts `items` stably by their `key`. When a limit was reached, their order is unspecified.
pub fn sort_by<T>(
    items: &mut Vec<T>,
    key: impl Fn(&T) -> &Value + Copy,
    compare: impl Fn(&Value, &Value) -> Ordering + Copy,
) {
    /// The number of nodes that are sorted at once, in much less than a millisecond.
    const RUN_WEIGHT: u64 = 1_024;
    /// How much longer a comparison of a collection takes than that of a scalar: its items are walked anew each time.
    const COLLECTION_FACTOR: u64 = 8;
    let weight = |item: &T| match key(item).shape().weight {
        scalar @ ..=1 => scalar,
        more => more.saturating_mul(COLLECTION_FACTOR),
    };
    let sort = |run: &mut Vec<T>| {
        // The library's sort panics when a comparison stops early.
        if run.len() > 1 {
            clock::uninterrupted(|| run.sort_by(|a, b| compare(key(a), key(b))));
        }
    };
    let total = metered(items.iter())
        .map(weight)
        .fold(0, u64::saturating_add);
    if total <= RUN_WEIGHT {
        return sort(items);
    }
    let bytes = items.len().saturating_mul(size_of::<T>());
    if !heap::reserve_or_overdraw(bytes) {
        return;
    }
    let mut runs: Vec<Vec<T>> = Vec::new();
    let mut run_weight = u64::MAX;
    for item in metered(items.drain(..)) {
        run_weight = run_weight.saturating_add(weight(&item));
        match runs.last_mut() {
            Some(run) if run_weight <= RUN_WEIGHT => run.push(item),
            _ => {
                run_weight = weight(&item);
                runs.push(vec![item]);
            }
        }
    }
    free_flat(std::mem::take(items));
    for run in &mut runs {
        clock::may_continue(RUN_WEIGHT as usize);
        sort(run);
    }
    if !heap::reserve_or_overdraw(bytes) {
        return;
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, key, compare),
                None => left,
            });
        }
        runs = merged;
    }
    *items = runs.pop().unwrap_or_default();
}

/// Merges two sorted runs.
fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    key: impl Fn(&T) -> &Value,
    compare: impl Fn(&Value, &Value) -> Ordering,
) -> Vec<T> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(earlier), Some(later)) = (left.peek(), right.peek()) {
        if !clock::may_continue(NODE_STEPS) {
            break;
        }
        merged.extend(match compare(key(later), key(earlier)) {
            Ordering::Less => right.next(),
            _ => left.next(),
        });
    }
    merged.extend(metered(left));
    merged.extend(metered(right));
    merged
}

/// Equality as used by `=`.
pub fn equal(a: &Value, b: &Value) -> bool {
    let mut pending: SmallVec<[(Side<'_>, Side<'_>); 4]> = SmallVec::new();
    let mut next = Some((a, b));
    loop {
        if let Some((a, b)) = next {
            if !pending.is_empty() && !clock::may_continue(NODE_STEPS) {
                return false;
            }
            match (a, b) {
                (Value::Vector(a), Value::Vector(b)) => {
                    if a.len() != b.len() {
                        return false;
                    }
                    pending.push((Side::Items(a.iter()), Side::Items(b.iter())));
                }
                (Value::Map(a), Value::Map(b)) => {
                    if a.len() != b.len()
                        || !a.keys().zip(b.keys()).all(|(a, b)| a == b && !has_nan(a))
                    {
                        return false;
                    }
                    pending.push((Side::Values(a.iter()), Side::Values(b.iter())));
                }
                (Value::Set(a), Value::Set(b)) => {
                    if a.len() != b.len() || !a.iter().zip(b).all(|(a, b)| a == b && !has_nan(a)) {
                        return false;
                    }
                }
                _ => {
                    if !equal_leaves(a, b) {
                        return false;
                    }
                }
            }
        }
        next = loop {
            let Some((left, right)) = pending.last_mut() else {
                return true;
            };
            match (left.next(), right.next()) {
                (Some(a), Some(b)) => break Some((a, b)),
                _ => pending.pop(),
            };
        };
    }
}

/// Equality of values without parts.
#[inline]
fn equal_leaves(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) | (Value::Keyword(a), Value::Keyword(b)) => a == b,
        (
            Value::Int(_) | Value::BigInt(_) | Value::Float(_),
            Value::Int(_) | Value::BigInt(_) | Value::Float(_),
        ) => !is_nan(a) && !is_nan(b) && number_cmp(a, b) == Ordering::Equal,
        _ => rank(a) == rank(b) && order(a, b, NumberOrder::Key) == Ordering::Equal,
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float(float) if float.is_nan())
}

/// Whether a NaN occurs anywhere inside.
fn has_nan(value: &Value) -> bool {
    let mut pending: SmallVec<[&Value; 8]> = SmallVec::from_slice(&[value]);
    while let Some(value) = pending.pop() {
        if !clock::may_continue(NODE_STEPS) {
            return false;
        }
        match value {
            Value::Float(float) if float.is_nan() => return true,
            Value::Vector(items) => pending.extend(items.iter()),
            Value::Set(members) => pending.extend(members.iter()),
            Value::Map(entries) => {
                pending.extend(entries.iter().flat_map(|(key, value)| [key, value]))
            }
            _ => {}
        }
    }
    false
}

impl PartialEq for Value {
    /// Key identity, not the language's `=`: see [`equal`].
    fn eq(&self, other: &Value) -> bool {
        key_cmp(self, other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        key_cmp(self, other)
    }
}

/// One side of a comparison in progress.
enum Side<'a> {
    Items(super::Items<'a>),
    Keys(super::Entries<'a>),
    Values(super::Entries<'a>),
    Members(super::Members<'a>),
}

impl<'a> Iterator for Side<'a> {
    type Item = &'a Value;

    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Side::Items(items) => items.next(),
            Side::Keys(entries) => entries.next().map(|(key, _)| key),
            Side::Values(entries) => entries.next().map(|(_, value)| value),
            Side::Members(members) => members.next(),
        }
    }
}

fn order(a: &Value, b: &Value, mode: NumberOrder) -> Ordering {
    // Inside the keys of maps and the members of sets, 1 and 1.0 differ in either mode.
    let mut pending: SmallVec<[(Side<'_>, Side<'_>, NumberOrder); 4]> = SmallVec::new();
    let mut next = Some((a, b, mode));
    loop {
        if let Some((a, b, mode)) = next {
            if !pending.is_empty() && !clock::may_continue(NODE_STEPS) {
                return Ordering::Equal;
            }
            let found = match (a, b) {
                (Value::Vector(a), Value::Vector(b)) if !a.ptr_eq(b) => {
                    pending.push((Side::Items(a.iter()), Side::Items(b.iter()), mode));
                    Ordering::Equal
                }
                (Value::Map(a), Value::Map(b)) if !a.ptr_eq(b) => {
                    pending.push((Side::Values(a.iter()), Side::Values(b.iter()), mode));
                    pending.push((Side::Keys(a.iter()), Side::Keys(b.iter()), NumberOrder::Key));
                    a.len().cmp(&b.len())
                }
                (Value::Set(a), Value::Set(b)) if !a.ptr_eq(b) => {
                    pending.push((
                        Side::Members(a.iter()),
                        Side::Members(b.iter()),
                        NumberOrder::Key,
                    ));
                    a.len().cmp(&b.len())
                }
                _ => order_leaves(a, b, mode),
            };
            if found != Ordering::Equal {
                return found;
            }
        }
        next = loop {
            let Some((left, right, mode)) = pending.last_mut() else {
                return Ordering::Equal;
            };
            match (left.next(), right.next()) {
                (Some(a), Some(b)) => break Some((a, b, *mode)),
                (None, None) => {
                    pending.pop();
                }
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
            }
        };
    }
}

/// Order of values without parts, and of values of different ranks.
fn order_leaves(a: &Value, b: &Value, mode: NumberOrder) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (
            Value::Int(_) | Value::BigInt(_) | Value::Float(_),
            Value::Int(_) | Value::BigInt(_) | Value::Float(_),
        ) => {
            let by_value = number_cmp(a, b);
            match mode {
                NumberOrder::Key => by_value
                    .then_with(|| matches!(a, Value::Float(_)).cmp(&matches!(b, Value::Float(_)))),
                NumberOrder::Term => by_value,
            }
        }
        (Value::Str(a), Value::Str(b))
        | (Value::Keyword(a), Value::Keyword(b))
        | (Value::Symbol(a), Value::Symbol(b))
        | (Value::Var(a), Value::Var(b)) => a.cmp(b),
        (Value::Regex(a), Value::Regex(b)) => a.source().cmp(b.source()),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Instant(a), Value::Instant(b)) => a.micros().cmp(&b.micros()),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Builtin(a), Value::Builtin(b)) => (a.name, a.id).cmp(&(b.name, b.id)),
        (Value::Fn(a), Value::Fn(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
        (Value::Fn(a), Value::Fn(b)) => a.identity.place().cmp(&b.identity.place()),
        (Value::Combined(a), Value::Combined(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
        (Value::Combined(a), Value::Combined(b)) => a.order_key().cmp(&b.order_key()),
        _ => {
            let (left, right) = (rank(a), rank(b));
            if left == SPELLING_RANK && right == SPELLING_RANK {
                return spelling(a).cmp(&spelling(b));
            }
            left.cmp(&right)
        }
    }
}

/// Keywords, booleans and nil share one rank, and are ordered by spelling.
const SPELLING_RANK: u8 = 1;

/// The rank of a kind in term order.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => 0,
        Value::Nil | Value::Bool(_) | Value::Keyword(_) => SPELLING_RANK,
        Value::Symbol(_) => 2,
        Value::Builtin(_) => 3,
        Value::Fn(_) => 4,
        Value::Combined(_) => 5,
        Value::Var(_) => 6,
        Value::Regex(_) => 7,
        Value::Date(_) => 8,
        Value::Instant(_) => 9,
        Value::Duration(_) => 10,
        Value::Map(_) => 11,
        Value::Set(_) => 12,
        Value::Vector(_) => 13,
        Value::Str(_) => 14,
    }
}

/// The spelling, and whether it is a keyword: `nil` comes before `:nil`.
fn spelling(value: &Value) -> (&str, bool) {
    match value {
        Value::Nil => ("nil", false),
        Value::Bool(true) => ("true", false),
        Value::Bool(false) => ("false", false),
        Value::Keyword(name) => (name, true),
        _ => ("", false),
    }
}

/// Exact order of two numbers; NaN comes after every other number and equals itself.
pub fn number_cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => float_cmp(*a, *b),
        (Value::BigInt(a), Value::BigInt(b)) => big_cmp(a, b),
        (Value::BigInt(a), Value::Int(_)) => a.sign().cmp(&num_bigint::Sign::NoSign),
        (Value::Int(_), Value::BigInt(b)) => num_bigint::Sign::NoSign.cmp(&b.sign()),
        (Value::Int(a), Value::Float(b)) => int_float_cmp(*a, *b),
        (Value::Float(a), Value::Int(b)) => int_float_cmp(*b, *a).reverse(),
        (Value::BigInt(a), Value::Float(b)) => big_float_cmp(a, *b),
        (Value::Float(a), Value::BigInt(b)) => big_float_cmp(b, *a).reverse(),
        _ => Ordering::Equal,
    }
}

fn big_cmp(a: &Arc<BigInt>, b: &Arc<BigInt>) -> Ordering {
    /// The number of bits that are compared in about the time of a step.
    const STEP_BITS: u64 = 1_024;
    let steps = a.bits().min(b.bits()) / STEP_BITS;
    if Arc::ptr_eq(a, b) || !clock::may_continue(steps as usize) {
        return Ordering::Equal;
    }
    a.cmp(b)
}

fn float_cmp(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn int_float_cmp(int: i64, float: f64) -> Ordering {
    const EXACT: i64 = 1 << 53;
    if (-EXACT..=EXACT).contains(&int) || !float.is_finite() {
        return float_cmp(int as f64, float);
    }
    if float.abs() >= 9.3e18 {
        return if float > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    }
    // Below 2^64 in size, so the cast is exact up to the fraction.
    i128::from(int)
        .cmp(&(float.trunc() as i128))
        .then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn big_float_cmp(int: &BigInt, float: f64) -> Ordering {
    match BigInt::from_f64(float) {
        Some(whole) => int.cmp(&whole),
        None if float == f64::NEG_INFINITY => Ordering::Greater,
        None => Ordering::Less,
    }
}
