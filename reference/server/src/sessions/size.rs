//! Estimates the size of a stored value in bytes: that of a compact binary encoding, computed from a table. The walk is iterative and
//! bounded: shared parts count each time they occur, but at most [`NODES_MAX`] nodes are visited, and the walk checks the clock.
//!
//! The figures are those that clients of the original know (`mcp.sessions.kept`). Knows nothing of limits.

use ptc_lang::Value;
use ptc_lang::error::Limit;
use ptc_lang::meter::{Unwatched, Watch};

/// Nodes that a walk visits; the size of a larger value is that of the visited part, which exceeds every limit by then.
const NODES_MAX: usize = 4_000_000;
/// Nodes between two checks of the clock.
const NODES_BETWEEN_LOOKS: usize = 4_096;
/// A function counts its source, its captures, and this.
const FUNCTION_BYTES: u64 = 48;

/// The size of a single value.
pub fn of(value: &Value) -> u64 {
    // Without a watch nothing stops the walk.
    of_within(value, &Unwatched).unwrap_or(u64::MAX)
}

/// [`of`] under the memory limit and clock of a program.
///
/// # Errors
/// The limit that ends the program.
pub fn of_within(value: &Value, watch: &dyn Watch) -> Result<u64, Limit> {
    let mut walk = Walk::new(watch);
    Ok(1 + walk.inner(value)?)
}

/// The size of a map from names to values: all definitions together.
pub fn of_named<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> u64 {
    of_named_within(entries, &Unwatched).unwrap_or(u64::MAX)
}

/// [`of_named`] under the memory limit and clock of a program.
///
/// # Errors
/// The limit that ends the program.
pub fn of_named_within<'a>(
    entries: impl Iterator<Item = (&'a str, &'a Value)>,
    watch: &dyn Watch,
) -> Result<u64, Limit> {
    let (mut walk, mut bytes) = (Walk::new(watch), 6);
    for (name, value) in entries {
        bytes += text(name.len()) + walk.inner(value)?;
    }
    Ok(bytes)
}

/// The size of a list of texts.
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

/// A walk over one or more values.
struct Walk<'w> {
    watch: &'w dyn Watch,
    nodes: usize,
    until_look: usize,
}

impl<'w> Walk<'w> {
    fn new(watch: &'w dyn Watch) -> Self {
        Walk {
            watch,
            nodes: 0,
            until_look: NODES_BETWEEN_LOOKS,
        }
    }

    fn inner(&mut self, value: &Value) -> Result<u64, Limit> {
        let mut pending = vec![value];
        let mut bytes = 0u64;
        while let Some(value) = pending.pop() {
            self.nodes += 1;
            if self.nodes > NODES_MAX {
                break;
            }
            // All parts are pushed, whether they are visited later or not.
            self.count_nodes(match value {
                Value::Vector(items) => 1 + items.len(),
                Value::Map(map) => 1 + map.len(),
                Value::Set(set) => 1 + set.len(),
                _ => 1,
            })?;
            bytes += of_node(value, &mut pending);
        }
        Ok(bytes)
    }

    fn count_nodes(&mut self, nodes: usize) -> Result<(), Limit> {
        self.until_look = self.until_look.saturating_sub(nodes);
        if self.until_look == 0 {
            self.until_look = NODES_BETWEEN_LOOKS;
            self.watch.check_limits()?;
        }
        Ok(())
    }
}

/// The size of a value without its parts, which are added to `pending`.
fn of_node<'v>(value: &'v Value, pending: &mut Vec<&'v Value>) -> u64 {
    match value {
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
        Value::Vector(items) if items.iter().all(|item| matches!(item, Value::Int(0..=255))) => {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_match_the_measured_figures() {
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
    fn shared_structure_is_sized_in_bounded_time() {
        let mut value = Value::vector(vec![Value::Float(1.0)]);
        for _ in 0..60 {
            value = Value::vector(vec![value.clone(), value]);
        }
        assert!(of(&value) > 4_000_000);
        let names: Vec<String> = (0..200).map(|at| format!("n{at}")).collect();
        let all = names.iter().map(|name| (name.as_str(), &value));
        assert!(of_named(all) > 4_000_000);
    }
}
