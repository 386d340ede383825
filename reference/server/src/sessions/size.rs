//! How many bytes a stored value is reckoned at: a compact binary encoding of it, by table. Iterative and bounded.
//!
//! The figures are those that clients of the original know (`mcp.sessions.kept`). Knows nothing of limits.

use ptc_lang::Value;

/// Nodes that a walk visits; what is larger is reckoned at what was seen, which is above every limit by then.
const NODES_MAX: usize = 4_000_000;
/// A function counts its source, what it captured, and this.
const FUNCTION_BYTES: u64 = 48;

/// The bytes of one value on its own.
pub fn of(value: &Value) -> u64 {
    1 + inner([value].into_iter())
}

/// The bytes of a map from names to values, as all definitions are reckoned together.
pub fn of_named<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> u64 {
    let mut bytes = 6;
    for (name, value) in entries {
        bytes += text(name.len()) + inner([value].into_iter());
    }
    bytes
}

/// The bytes of a list of texts.
pub fn of_texts<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let mut count = 0;
    let bytes: u64 = texts
        .inspect(|_| count += 1)
        .map(|item| text(item.len()))
        .sum();
    match count {
        0 => 2,
        _ => 1 + 5 + bytes + 1,
    }
}

fn text(length: usize) -> u64 {
    5 + length as u64
}

fn inner<'a>(values: impl Iterator<Item = &'a Value>) -> u64 {
    let mut pending: Vec<&Value> = values.collect();
    let (mut bytes, mut nodes) = (0u64, 0);
    while let Some(value) = pending.pop() {
        nodes += 1;
        if nodes > NODES_MAX {
            break;
        }
        bytes += match value {
            Value::Nil => 6,
            Value::Bool(true) => 7,
            Value::Bool(false) => 8,
            Value::Int(0..=255) => 2,
            Value::Int(int) if i32::try_from(*int).is_ok() => 5,
            Value::Int(int) => 3 + u64::from((64 - int.unsigned_abs().leading_zeros()).div_ceil(8)),
            Value::BigInt(int) => 3 + int.bits().div_ceil(8),
            Value::Float(_) => 9,
            Value::Str(name) | Value::Keyword(name) | Value::Symbol(name) | Value::Var(name) => {
                text(name.as_str().len())
            }
            Value::Vector(items) if items.is_empty() => 1,
            Value::Vector(items)
                if items.iter().all(|item| matches!(item, Value::Int(0..=255))) =>
            {
                3 + items.len() as u64
            }
            Value::Vector(items) => {
                pending.extend(items.iter());
                6
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    pending.push(key);
                    pending.push(value);
                }
                5
            }
            Value::Set(set) => {
                pending.extend(set.iter());
                45 + set.len() as u64
            }
            Value::Fn(closure) => {
                pending.extend(closure.captures.iter());
                let span = closure.lambda.span;
                FUNCTION_BYTES + u64::from(span.end.saturating_sub(span.start))
            }
            Value::Combined(combined) => {
                pending.extend(combined.parts.iter());
                FUNCTION_BYTES
            }
            Value::Builtin(_) | Value::Regex(_) => FUNCTION_BYTES,
            Value::Date(_) | Value::Instant(_) | Value::Duration(_) => 30,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_figures() {
        let ints =
            |items: &[i64]| Value::vector(items.iter().map(|item| Value::Int(*item)).collect());
        assert_eq!(of(&Value::str("abc")), 9);
        assert_eq!(of(&ints(&[1, 2, 3])), 7);
        assert_eq!(of(&Value::vector(vec![Value::Nil])), 13);
        assert_eq!(of_named(std::iter::empty()), 6);
        assert_eq!(of_named([("a", &Value::Int(10))].into_iter()), 14);
        assert_eq!(of(&ints(&(1000..1100).collect::<Vec<_>>())), 507);
        assert_eq!(of_texts(std::iter::empty()), 2);
        assert_eq!(of_texts(["hi"].into_iter()), 14);
    }

    #[test]
    fn shared_structure_costs_bounded_time() {
        let mut value = Value::vector(vec![Value::Float(1.0)]);
        for _ in 0..60 {
            value = Value::vector(vec![value.clone(), value]);
        }
        assert!(of(&value) > 4_000_000);
    }
}
