//! Where the items of a lazy sequence come from.

use smallvec::SmallVec;

use super::super::{Eval, Evaluated, ITEM_STEPS};
use super::integer_count;
use super::stream::{CHUNK, Stream};
use crate::error::wrong_type;
use crate::function::Combinator;
use crate::value::{Value, Vector, number_cmp};

pub(super) enum Source {
    Items(std::vec::IntoIter<Value>),
    Vector(Vector, usize),
    Integers {
        next: i64,
        left: usize,
        step: i64,
    },
    Numbers {
        next: Value,
        end: Value,
        step: Value,
    },
    Iterate {
        function: Value,
        last: Value,
        first: bool,
    },
    Repeat(Value),
    Cycle(Vector, usize),
    Repeatedly(Value),
    ZipWith(Value, Vec<Stream>),
    Chain(Option<Box<Stream>>, std::vec::IntoIter<Value>),
}

/// Appends an item, after reserving memory for it.
pub(super) fn push(eval: &mut Eval<'_>, items: &mut Vec<Value>, item: Value) -> Evaluated<()> {
    if items.len() == items.capacity() {
        eval.reserve_values(items.len().max(4) * 2)?;
    }
    items.push(item);
    Ok(())
}

impl Source {
    /// Appends the next items to `items`, for a source whose items are available or cost nothing.
    pub(super) fn fill(&mut self, eval: &mut Eval<'_>, items: &mut Vec<Value>) -> Evaluated<()> {
        match self {
            Source::Items(all) => items.extend(all.take(CHUNK)),
            Source::Vector(all, at) => {
                let end = all.len().min(*at + CHUNK);
                items.extend((*at..end).filter_map(|at| all.get(at).cloned()));
                *at = end;
            }
            Source::Integers { next, left, step } => {
                let count = CHUNK.min(*left);
                *left -= count;
                items.extend((0..count).map(|_| {
                    let item = *next;
                    *next = next.wrapping_add(*step);
                    Value::Int(item)
                }));
            }
            _ => {}
        }
        eval.charge(items.len())
    }

    /// Like `fill`, for a vector of maps, but appends only the maps whose `field` is `wanted`, so that skipped ones are
    /// not copied. Returns how many were examined, 0 when the source is not such a vector.
    pub(super) fn fill_with(
        &mut self,
        eval: &mut Eval<'_>,
        items: &mut Vec<Value>,
        field: &Value,
        wanted: bool,
    ) -> Evaluated<usize> {
        let Source::Vector(all, at) = self else {
            return Ok(0);
        };
        let end = all.len().min(*at + CHUNK);
        let maps = (*at..end).map_while(|at| match all.get(at) {
            Some(item @ Value::Map(map)) => Some((item, map)),
            _ => None,
        });
        let mut seen = 0;
        for (item, map) in maps {
            seen += 1;
            if map.lookup(field).is_some_and(Value::is_truthy) == wanted {
                items.push(item.clone());
            }
        }
        *at += seen;
        eval.charge(seen * 2)?;
        Ok(seen)
    }

    pub(super) fn next(&mut self, eval: &mut Eval<'_>) -> Evaluated<Option<Value>> {
        eval.charge(1)?;
        Ok(match self {
            Source::Items(items) => items.next(),
            Source::Vector(items, at) => {
                *at += 1;
                items.get(*at - 1).cloned()
            }
            Source::Integers { next, left, step } => {
                if *left == 0 {
                    return Ok(None);
                }
                *left -= 1;
                let item = *next;
                // Every item lies within the bounds, but the number after the last one may overflow.
                *next = next.wrapping_add(*step);
                Some(Value::Int(item))
            }
            Source::Numbers { next, end, step } => {
                let direction = number_cmp(step, &Value::Int(0));
                if !end.is_nil() && number_cmp(next, end) != direction.reverse() {
                    return Ok(None);
                }
                let item = std::mem::take(next);
                *next = crate::builtins::plus(&item, step)?;
                if matches!(next, Value::Float(float) if float.is_nan()) {
                    *end = Value::Int(0);
                    *next = Value::Int(0);
                }
                Some(item)
            }
            Source::Iterate {
                function,
                last,
                first,
            } => {
                if !std::mem::take(first) {
                    let before = std::mem::take(last);
                    *last = eval.call1(function, before)?;
                }
                Some(last.clone())
            }
            Source::Repeat(item) => Some(item.clone()),
            Source::Cycle(items, at) => {
                if items.is_empty() {
                    return Ok(None);
                }
                let item = items.get(*at).cloned();
                *at = (*at + 1) % items.len();
                item
            }
            Source::Repeatedly(function) => Some(eval.call(function, &mut [])?),
            Source::ZipWith(function, columns) => {
                let mut row = SmallVec::<[Value; 4]>::new();
                for column in columns {
                    match column.next(eval)? {
                        Some(item) => row.push(item),
                        None => return Ok(None),
                    }
                }
                Some(eval.call(function, &mut row)?)
            }
            Source::Chain(part, parts) => loop {
                if let Some(items) = part {
                    if let Some(item) = items.next(eval)? {
                        break Some(item);
                    }
                    *part = None;
                }
                let Some(next) = parts.next() else {
                    break None;
                };
                eval.charge(ITEM_STEPS)?;
                *part = Some(Box::new(eval.stream(next)?));
            },
        })
    }

    pub(super) fn of(eval: &mut Eval<'_>, value: Value) -> Evaluated<Source> {
        let Value::Combined(made) = &value else {
            return Ok(match value {
                Value::Vector(items) if items.is_unshared() => {
                    Source::Items(items.into_vec().into_iter())
                }
                Value::Vector(items) => Source::Vector(items, 0),
                other => Source::Items(eval.items(&other)?.into_iter()),
            });
        };
        Ok(match (made.kind, made.parts.as_slice()) {
            (Combinator::Range, [Value::Int(start), Value::Int(end), Value::Int(step)]) => {
                Source::Integers {
                    next: *start,
                    left: integer_count(*start, *end, *step),
                    step: *step,
                }
            }
            (Combinator::Range, [start, end, step]) => Source::Numbers {
                next: start.clone(),
                end: end.clone(),
                step: step.clone(),
            },
            (Combinator::Iterate, [function, first]) => Source::Iterate {
                function: function.clone(),
                last: first.clone(),
                first: true,
            },
            (Combinator::Repeat, [item]) => Source::Repeat(item.clone()),
            (Combinator::Cycle, [Value::Vector(items)]) => Source::Cycle(items.clone(), 0),
            (Combinator::Repeatedly, [function]) => Source::Repeatedly(function.clone()),
            (Combinator::ZipWith, [function, columns @ ..]) => {
                let mut streams = Vec::with_capacity(columns.len());
                for column in columns {
                    eval.charge(ITEM_STEPS)?;
                    streams.push(eval.stream(column.clone())?);
                }
                Source::ZipWith(function.clone(), streams)
            }
            (Combinator::Chain, parts) => Source::Chain(None, Vec::from(parts).into_iter()),
            _ => return Err(wrong_type("a collection", &value)),
        })
    }
}
