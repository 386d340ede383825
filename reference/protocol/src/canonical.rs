//! The canonical form of arguments: equal calls have equal forms, however they were written.

use num_traits::FromPrimitive as _;
use ptc_lang::Value;
use ptc_lang::value::{BigInt, Map};

use crate::stack;

/// The form in which equal arguments of a call are equal: map keys are strings with `_` for `-`, and integral
/// floats are integers, at every depth outside sets. Shares all parts that are already canonical.
#[must_use]
pub fn canonical(value: &Value) -> Value {
    changed(value).unwrap_or_else(|| value.clone())
}

/// The canonical form of a value; `None` when it is already canonical.
fn changed(value: &Value) -> Option<Value> {
    match value {
        Value::Float(float) => integral(*float),
        Value::Vector(items) => stack::with_room(|| {
            let (at, first) = items
                .iter()
                .enumerate()
                .find_map(|(at, item)| Some((at, changed(item)?)))?;
            let mut built: Vec<Value> = items.iter().take(at).cloned().collect();
            built.reserve_exact(items.len() - at);
            built.push(first);
            built.extend(items.iter().skip(at + 1).map(canonical));
            Some(Value::vector(built))
        }),
        Value::Map(map) => stack::with_room(|| {
            let changes: Vec<Option<Value>> = map.values().map(changed).collect();
            if changes.iter().all(Option::is_none) && map.keys().all(is_canonical_key) {
                return None;
            }
            let entries = map.iter().zip(changes);
            let entries = entries.map(|((key, value), change)| {
                (canonical_key(key), change.unwrap_or_else(|| value.clone()))
            });
            Some(Value::Map(Map::from(entries.collect::<Vec<_>>())))
        }),
        _ => None,
    }
}

fn is_canonical_key(key: &Value) -> bool {
    match key {
        Value::Str(text) => !text.as_str().contains('-'),
        Value::Keyword(_) => false,
        _ => true,
    }
}

fn canonical_key(key: &Value) -> Value {
    match key {
        Value::Str(text) if !text.as_str().contains('-') => key.clone(),
        Value::Keyword(text) | Value::Str(text) => Value::str(text.as_str().replace('-', "_")),
        other => other.clone(),
    }
}

/// The integer that a float with an integral value equals, exactly.
#[must_use]
pub fn integral(float: f64) -> Option<Value> {
    if !float.is_finite() || float.fract() != 0.0 {
        return None;
    }
    if float.abs() < 9.0e18 {
        #[allow(clippy::cast_possible_truncation)] // Integral and within range, as just tested.
        return Some(Value::Int(float as i64));
    }
    BigInt::from_f64(float).map(Value::integer)
}
