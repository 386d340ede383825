//! Scrubs language values before they are previewed: a preview cuts, and half a secret would no longer be recognised.
//!
//! Knows nothing of payloads. What programs keep is not touched, only what is shown.

use ptc_lang::{Value, print};
use ptc_secrets::Redactor;
use std::borrow::Cow;

/// Nodes that are looked at; a value with more is shown as a marker, since no preview could show it anyway.
const NODES_MAX: u64 = 1_000_000;
/// Deeper parts of a value with a secret are shown as a marker.
const DEPTH_MAX: u32 = 64;
/// What stands for what is too large or too deep to scrub.
const MARKER: &str = "[REDACTED]";

/// The value as it may be shown.
pub fn value<'a>(value: &'a Value, redactor: &Redactor) -> Cow<'a, Value> {
    if redactor.is_empty() || !holds_secret(value, redactor) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(scrubbed(value, redactor, 0))
}

fn holds_secret(value: &Value, redactor: &Redactor) -> bool {
    if value.shape().weight > NODES_MAX {
        return true;
    }
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text)
                if redactor.finds_secret_in(text.as_str()) =>
            {
                return true;
            }
            number if spells_secret(number, redactor) => return true,
            Value::Vector(items) => pending.extend(items.iter()),
            Value::Set(items) => pending.extend(items.iter()),
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    pending.push(key);
                    pending.push(value);
                }
            }
            _ => {}
        }
    }
    false
}

/// Bits of an integer that could spell a credential; writing out a larger one would take long.
const INTEGER_BITS_MAX: u64 = 4096;

/// Whether `value` is a number whose digits are a credential's.
fn spells_secret(value: &Value, redactor: &Redactor) -> bool {
    let written = match value {
        Value::Int(_) | Value::Float(_) => true,
        Value::BigInt(int) => int.bits() <= INTEGER_BITS_MAX,
        _ => false,
    };
    written && redactor.knows_numbers() && redactor.finds_secret_in_number(&print::readable(value))
}

fn scrubbed(value: &Value, redactor: &Redactor, depth: u32) -> Value {
    if depth > DEPTH_MAX || value.shape().weight > NODES_MAX {
        return Value::str(MARKER);
    }
    let part = |part: &Value| scrubbed(part, redactor, depth + 1);
    match value {
        Value::Str(text) => Value::str(&*redactor.scrub_str(text.as_str())),
        Value::Keyword(text) if redactor.finds_secret_in(text.as_str()) => {
            Value::keyword(&*redactor.scrub_str(text.as_str()))
        }
        Value::Symbol(text) if redactor.finds_secret_in(text.as_str()) => Value::str(MARKER),
        number if spells_secret(number, redactor) => Value::str(MARKER),
        Value::Vector(items) => Value::vector(items.iter().map(part).collect()),
        Value::Set(items) => Value::Set(items.iter().map(part).collect()),
        Value::Map(map) => Value::Map(
            map.iter()
                .map(|(key, value)| (part(key), part(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptc_secrets::Secret;

    #[test]
    fn secrets_go_before_anything_is_cut() {
        let mut secrets = Redactor::builder();
        secrets.add(&Secret::new("hunter2-hunter2".into()));
        let redactor = secrets.build();
        let clean = Value::vector(vec![Value::Int(1), Value::str("plain")]);
        assert!(matches!(value(&clean, &redactor), Cow::Borrowed(_)));
        let dirty = Value::vector(vec![Value::str("a hunter2-hunter2 b"), Value::Int(2)]);
        assert_eq!(
            ptc_lang::print::readable(&value(&dirty, &redactor)),
            r#"["a [REDACTED] b" 2]"#
        );
    }
}
