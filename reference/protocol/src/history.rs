//! Keeps `*1 *2 *3` small: measures values in size units, and shortens them. Knows nothing of runs.

use ptc_lang::Value;
use ptc_lang::print;
use ptc_lang::value::Map;

use crate::limits::JSON_DEPTH_MAX;
use crate::stack;

/// Values above this many size units are shortened before they enter the history.
pub const HISTORY_SIZE_MAX: u64 = 1024;

/// A list of integers from 0 to 255 up to this length is held as bytes.
const BYTE_LIST_LEN_MAX: usize = 65_535;
/// Size of a map entry in addition to its key and value.
const PAIR_SIZE: u64 = 3;
/// A value with more nodes than this (shared parts count each time) has its node count as size: it exceeds
/// any limit.
const NODES_MAX: u64 = 1_000_000;
/// The size of a value that is never shortened: a function, a regex.
const OPAQUE_SIZE: u64 = 64;

/// The size of a value in the units of the memory check: about the bytes of a compact binary encoding.
#[must_use]
pub fn size_units(value: &Value) -> u64 {
    inner_size(value).saturating_add(1)
}

/// The value itself when it is at most `max` units, else a shorter one: the start of a string, or the
/// leading elements or entries, with `"..."` at the cut. Functions are kept whole.
#[must_use]
pub fn shorten(value: &Value, max: u64) -> Value {
    if size_units(value) <= max {
        return value.clone();
    }
    if value.shape().depth > JSON_DEPTH_MAX {
        return Value::str("...");
    }
    stack::with_room(|| match value {
        Value::Str(text) => cut_text(text.as_str(), max),
        Value::Vector(items) => {
            let mut budget = max;
            let mut kept = Vec::new();
            for item in items.iter() {
                let size = size_units(item);
                if size > budget {
                    kept.push(shorten_part(item, budget));
                    break;
                }
                budget -= size;
                kept.push(item.clone());
            }
            Value::vector(kept)
        }
        Value::Map(map) => shorten_map(map, max),
        other => other.clone(),
    })
}

/// The element at which a collection is cut: a container keeps its kind, anything else becomes text.
fn shorten_part(value: &Value, max: u64) -> Value {
    match value {
        Value::Str(_) | Value::Vector(_) | Value::Map(_) => shorten(value, max),
        // The shared parts of a set may expand to more than memory can hold; the preview writes only what
        // is kept.
        other => {
            let graphemes = usize::try_from(max).unwrap_or(usize::MAX);
            cut_text(&print::preview(other, usize::MAX, graphemes), max)
        }
    }
}

fn shorten_map(map: &Map, max: u64) -> Value {
    let mut budget = max;
    let mut kept = Vec::new();
    for (key, value) in map {
        let size = inner_size(key)
            .saturating_add(inner_size(value))
            .saturating_add(PAIR_SIZE);
        if size > budget {
            kept.push((
                key.clone(),
                shorten_part(value, budget.saturating_sub(size_units(key))),
            ));
            break;
        }
        budget -= size;
        kept.push((key.clone(), value.clone()));
    }
    Value::Map(Map::from(kept))
}

fn cut_text(text: &str, max: u64) -> Value {
    let keep = usize::try_from(max.saturating_sub(3)).unwrap_or(usize::MAX);
    let mut cut: String = text.chars().take(keep).collect();
    cut.push_str("...");
    Value::str(cut)
}

/// The size of a value and all its parts. Values may be nested as deep as memory allows, so those still to be measured are on a list.
fn inner_size(value: &Value) -> u64 {
    let (mut total, mut left) = (0_u64, vec![value]);
    while let Some(value) = left.pop() {
        total = total.saturating_add(own_size(value, &mut left));
    }
    total
}

/// The size of a value without its parts, which are added to `left`.
fn own_size<'a>(value: &'a Value, left: &mut Vec<&'a Value>) -> u64 {
    if value.shape().weight > NODES_MAX {
        return value.shape().weight;
    }
    match value {
        Value::Nil => 6,
        Value::Bool(true) => 7,
        Value::Bool(false) => 8,
        Value::Int(int) => int_size(*int),
        Value::BigInt(int) => 3 + int.bits().div_ceil(8),
        Value::Float(_) => 9,
        Value::Str(text) => 5 + text.as_str().len() as u64,
        Value::Keyword(name) | Value::Symbol(name) | Value::Var(name) => {
            3 + name.as_str().len() as u64
        }
        Value::Vector(items) if items.is_empty() => 1,
        Value::Vector(items) if is_byte_list(value) => 3 + items.len() as u64,
        Value::Vector(items) => parts_size(6, items.iter(), left),
        Value::Set(members) => parts_size(6, members.iter(), left),
        Value::Map(map) => {
            let keys = parts_size(5, map.keys(), left);
            keys.saturating_add(parts_size(0, map.values(), left))
        }
        Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) | Value::Regex(_) => OPAQUE_SIZE,
        Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
            5 + ptc_lang::json::temporal_text(value).map_or(0, |text| text.len() as u64)
        }
    }
}

/// `base` and the sizes of those parts that have none themselves; the others are added to `left`.
fn parts_size<'a>(
    base: u64,
    parts: impl Iterator<Item = &'a Value>,
    left: &mut Vec<&'a Value>,
) -> u64 {
    parts.fold(base, |total, part| match part.shape().depth {
        0 => total.saturating_add(own_size(part, left)),
        _ => {
            left.push(part);
            total
        }
    })
}

fn is_byte_list(value: &Value) -> bool {
    match value {
        Value::Vector(items) => {
            items.len() <= BYTE_LIST_LEN_MAX
                && items.iter().all(|item| matches!(item, Value::Int(0..=255)))
        }
        _ => false,
    }
}

fn int_size(int: i64) -> u64 {
    if (0..=255).contains(&int) {
        return 2;
    }
    if i32::try_from(int).is_ok() {
        return 5;
    }
    let magnitude_bits = 64 - int.unsigned_abs().leading_zeros();
    3 + u64::from(magnitude_bits.div_ceil(8))
}
