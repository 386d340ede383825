//! Rewriting nested data: `walk`, `prewalk`, `postwalk`. Map entries are seen as vectors of two.

use super::{Builtin, Home, Section, callable, exactly, row};
use crate::error::{Stop, not_an_argument, wrong_type};
use crate::eval::Eval;
use crate::value::shape::WorkStack;
use crate::value::{Map, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("walk", "walk.walk", Section::Core, &[Home::Walk], exactly(3), "(walk inner outer form)", "Calls inner on each part of a form, rebuilds it, and calls outer on the result.", walk),
    row("prewalk", "walk.prewalk", Section::Core, &[Home::Walk], exactly(2), "(prewalk f form)", "Calls a function on a form, then on its parts, from the top down.", prewalk),
    row("keywordize-keys", "walk.keywordize-keys", Section::Core, &[Home::Walk], exactly(1), "(walk/keywordize-keys form)", "Makes the string keys of every map in a form keywords.", keywordize_keys).qualified(),
    row("stringify-keys", "walk.stringify-keys", Section::Core, &[Home::Walk], exactly(1), "(walk/stringify-keys form)", "Makes the keyword keys of every map in a form strings.", stringify_keys).qualified(),
    row("postwalk", "walk.postwalk", Section::Core, &[Home::Walk], exactly(2), "(postwalk f form)", "Calls a function on the parts of a form, then on the form, from the bottom up.", postwalk),
];

/// A function that is called on each form.
type Visit<'f> = &'f dyn Fn(&mut Eval<'_>, Value) -> Result;

type Result<T = Value> = std::result::Result<T, Stop>;

/// A collection whose parts are being rewritten.
struct OpenCollection {
    kind: CollectionKind,
    parts: std::vec::IntoIter<Value>,
    done: Vec<Value>,
}

#[derive(Clone, Copy)]
enum CollectionKind {
    Vector,
    Map,
    Set,
}

/// Takes the parts out of a collection; `None` for any other value.
fn open(eval: &mut Eval<'_>, value: &Value) -> Result<Option<OpenCollection>> {
    let kind = match value {
        Value::Vector(_) => CollectionKind::Vector,
        Value::Map(_) => CollectionKind::Map,
        Value::Set(_) => CollectionKind::Set,
        _ => return Ok(None),
    };
    let parts = eval.items(value)?;
    eval.charge(parts.len())?;
    Ok(Some(OpenCollection {
        kind,
        done: Vec::with_capacity(parts.len()),
        parts: parts.into_iter(),
    }))
}

/// A collection of the rewritten parts.
fn close(eval: &mut Eval<'_>, kind: CollectionKind, parts: Vec<Value>) -> Result {
    Ok(match kind {
        CollectionKind::Vector => Value::vector(parts),
        CollectionKind::Set => {
            for part in &parts {
                eval.walk(part)?;
            }
            Value::Set(parts.into_iter().collect())
        }
        CollectionKind::Map => {
            let mut entries = Vec::with_capacity(parts.len());
            for part in parts {
                let (key, value) = part.into_entry().map_err(|other| {
                    not_an_argument(wrong_type("a map entry (a vector of two items)", &other))
                })?;
                eval.walk(&key)?;
                entries.push((key, value));
            }
            Value::Map(Map::from_writes(entries))
        }
    })
}

/// Rewrites a tree with an explicit stack, calling `before` on the way down and `after` on the way up.
fn rewrite(
    eval: &mut Eval<'_>,
    before: Option<Visit<'_>>,
    after: Option<Visit<'_>>,
    form: Value,
) -> Result {
    let mut stack = WorkStack::<OpenCollection>::default();
    let mut next = form;
    loop {
        let value = match before {
            Some(visit) => visit(eval, next)?,
            None => next,
        };
        eval.charge(1)?;
        let mut finished = match open(eval, &value)? {
            Some(opened) => {
                stack.push(opened);
                None
            }
            None => Some(match after {
                Some(visit) => visit(eval, value)?,
                None => value,
            }),
        };
        next = loop {
            let Some(top) = stack.last_mut() else {
                return Ok(finished.unwrap_or_default());
            };
            if let Some(value) = finished.take() {
                top.done.push(value);
            }
            if let Some(part) = top.parts.next() {
                break part;
            }
            let Some(OpenCollection { kind, done, .. }) = stack.pop() else {
                return Ok(Value::Nil);
            };
            let whole = close(eval, kind, done)?;
            finished = Some(match after {
                Some(visit) => visit(eval, whole)?,
                None => whole,
            });
        };
    }
}

fn walk(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [inner, outer, form] = args else {
        return Ok(Value::Nil);
    };
    callable(inner)?;
    callable(outer)?;
    let whole = match open(eval, form)? {
        Some(OpenCollection {
            kind,
            parts,
            mut done,
        }) => {
            for part in parts {
                done.push(eval.call1(inner, part)?);
            }
            close(eval, kind, done)?
        }
        None => std::mem::take(form),
    };
    eval.call1(outer, whole)
}

fn prewalk(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rewrite_with_function(eval, args, true)
}

fn postwalk(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rewrite_with_function(eval, args, false)
}

/// A form whose parts are rewritten by a function, each before its own parts or after them.
fn rewrite_with_function(eval: &mut Eval<'_>, args: &mut [Value], before: bool) -> Result {
    let [function, form] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let form = std::mem::take(form);
    let call: Visit<'_> = &|eval, form| eval.call1(function, form);
    match before {
        true => rewrite(eval, Some(call), None, form),
        false => rewrite(eval, None, Some(call), form),
    }
}

/// Rewrites the keys of every map in a form.
fn rewrite_keys(
    eval: &mut Eval<'_>,
    args: &mut [Value],
    key: fn(&Value) -> Option<Value>,
) -> Result {
    let form = std::mem::take(&mut args[0]);
    let visit = |eval: &mut Eval<'_>, form: Value| {
        let Value::Map(map) = &form else {
            return Ok(form);
        };
        eval.charge(map.len())?;
        eval.reserve_values(map.len() * 2)?;
        let entries = map
            .iter()
            .map(|(old, value)| (key(old).unwrap_or_else(|| old.clone()), value.clone()));
        Ok(Value::Map(Map::from_writes(entries.collect())))
    };
    rewrite(eval, None, Some(&visit), form)
}

fn keywordize_keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rewrite_keys(eval, args, |key| match key {
        // A string that is not a valid keyword stays.
        Value::Str(name) if crate::reader::is_readable_keyword(name) => {
            Some(Value::Keyword(name.clone()))
        }
        _ => None,
    })
}

fn stringify_keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    rewrite_keys(eval, args, |key| match key {
        Value::Keyword(name) => Some(Value::Str(name.clone())),
        _ => None,
    })
}
