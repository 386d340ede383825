//! Destructuring: taking values apart in every binding position.

use super::sequence::{as_lazy, drop_first, is_endless};
use super::{Eval, Evaluated, Frame};
use crate::analyze::ir::{MapEntryPattern, MapPattern, Pattern, SequencePattern};
use crate::builtins::merge;
use crate::error::{Kind, ValuePreview};
use crate::value::{Map, Value};

impl Eval<'_> {
    /// Binds `value`, or its parts, to the slots of `pattern`.
    #[inline]
    pub(super) fn bind(
        &mut self,
        pattern: &Pattern,
        value: Value,
        frame: Frame<'_>,
    ) -> Evaluated<()> {
        match pattern {
            Pattern::Slot(slot) => {
                self.stack[frame.base + *slot as usize] = value;
                Ok(())
            }
            Pattern::Sequence(parts) => self.bind_sequence(parts, value, frame),
            Pattern::Map(parts) => self.bind_map(parts, value, frame),
        }
    }

    fn bind_sequence(
        &mut self,
        parts: &SequencePattern,
        value: Value,
        frame: Frame<'_>,
    ) -> Evaluated<()> {
        let mut value = value;
        let kept = parts.rest.is_some() || parts.all.is_some();
        if kept && as_lazy(&value).is_some() && !is_endless(&value) {
            self.realize(&mut value)?;
        }
        let items = match &value {
            // Only as many items are made as there are patterns.
            sequence if as_lazy(sequence).is_some() => {
                let mut stream = self.stream(match kept {
                    true => value.clone(),
                    false => std::mem::take(&mut value),
                })?;
                let mut items = Vec::new();
                while items.len() < parts.items.len()
                    && let Some(item) = stream.next(self)?
                {
                    items.push(item);
                }
                items
            }
            Value::Nil => Vec::new(),
            Value::Vector(items) if parts.rest.is_none() => {
                // Only the items that are bound are copied.
                items.iter().take(parts.items.len()).cloned().collect()
            }
            Value::Vector(_) | Value::Str(_) => self.items(&value)?,
            _ => {
                return Err(Kind::Destructure {
                    expected: "vector, string or nil",
                    found: ValuePreview::of(&value),
                }
                .at(parts.span)
                .into());
            }
        };
        let mut items = items.into_iter();
        for pattern in &parts.items {
            let item = items.next().unwrap_or_default();
            self.bind(pattern, item, frame)?;
        }
        match &parts.rest {
            Some(rest) if is_endless(&value) => {
                let mut more = drop_first(self, value.clone(), parts.items.len())?;
                if let Pattern::Map(_) = rest {
                    self.realize(&mut more)?;
                }
                self.bind(rest, more, frame)?;
            }
            Some(rest) => self.bind_rest(rest, items.collect(), frame)?,
            None => {}
        }
        if let Some(slot) = parts.all {
            self.stack[frame.base + slot as usize] = value;
        }
        Ok(())
    }

    /// Binds the items after `&` of a call or a vector pattern: nil when there are none. A map pattern takes them as
    /// keys and values, optionally followed by a map.
    pub(super) fn bind_rest(
        &mut self,
        pattern: &Pattern,
        mut rest: Vec<Value>,
        frame: Frame<'_>,
    ) -> Evaluated<()> {
        for item in &mut rest {
            self.realize(item)?;
        }
        let Pattern::Map(parts) = pattern else {
            let rest = if rest.is_empty() {
                Value::Nil
            } else {
                Value::vector(rest)
            };
            return self.bind(pattern, rest, frame);
        };
        let value = match rest.as_slice() {
            [] => Value::Nil,
            [map @ Value::Map(_)] => map.clone(),
            items if items.len().is_multiple_of(2) || matches!(items, [.., Value::Map(_)]) => {
                let more = match rest.len().is_multiple_of(2) {
                    true => Value::Nil,
                    false => rest.pop().unwrap_or_default(),
                };
                let mut entries = Vec::with_capacity(rest.len() / 2);
                let mut rest = rest.into_iter();
                while let (Some(key), Some(value)) = (rest.next(), rest.next()) {
                    entries.push((key, value));
                }
                merge(self, &mut [Value::Map(Map::from_writes(entries)), more])?
            }
            _ => {
                return Err(Kind::Destructure {
                    expected: "keys and values in turn",
                    found: ValuePreview::of(&Value::vector(rest)),
                }
                .at(parts.span)
                .into());
            }
        };
        self.bind_map(parts, value, frame)
    }

    fn bind_map(
        &mut self,
        parts: &MapPattern,
        mut value: Value,
        frame: Frame<'_>,
    ) -> Evaluated<()> {
        self.deref_var(&mut value);
        self.realize(&mut value)?;
        let by_index =
            |entry: &MapEntryPattern| matches!(entry.key, Value::Int(_) | Value::BigInt(_));
        let (map, items) = match &value {
            Value::Map(map) => (Some(map), None),
            Value::Nil => (None, None),
            Value::Vector(items)
                if !parts.entries.is_empty() && parts.entries.iter().all(by_index) =>
            {
                (None, Some(items))
            }
            _ => {
                return Err(Kind::Destructure {
                    expected: "map or nil",
                    found: ValuePreview::of(&value),
                }
                .at(parts.span)
                .into());
            }
        };
        for entry in &parts.entries {
            let found = match (map, items, &entry.key) {
                (Some(map), ..) => map.lookup(&entry.key).cloned(),
                (_, Some(items), Value::Int(at)) => {
                    let at = usize::try_from(*at).ok();
                    at.and_then(|at| items.get(at)).cloned()
                }
                _ => None,
            };
            let found = match (found, &entry.default) {
                (Some(found), _) => found,
                (None, Some(default)) => self.eval(default, frame)?,
                (None, None) => Value::Nil,
            };
            self.bind(&entry.pattern, found, frame)?;
        }
        if let Some(slot) = parts.all {
            self.stack[frame.base + slot as usize] = value;
        }
        Ok(())
    }
}
