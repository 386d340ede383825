//! Relations: sets of rows, joined and projected as in `clojure.set`. Knows no databases.

use super::maps::look_up;
use super::{Builtin, Home, Section, between, exactly, row};
use crate::error::{Stop, at_item, wrong_type};
use crate::eval::Eval;
use crate::value::{Map, Value};

/// The rows of this module.
pub const ROWS: &[Builtin] = &[
    row(
        "set/join",
        "sets.join",
        Section::Sets,
        &[Home::Set],
        between(2, 3),
        "(set/join rows1 rows2), (set/join rows1 rows2 kmap)",
        "Merges each row with the rows of another collection that have the same values under their common keys, or under the keys that a map pairs.",
        join,
    )
    .qualified(),
    row(
        "set/project",
        "sets.project",
        Section::Sets,
        &[Home::Set],
        exactly(2),
        "(set/project rows keys)",
        "Returns the set of rows with only the given keys.",
        project,
    )
    .qualified(),
    row(
        "set/index",
        "sets.index",
        Section::Sets,
        &[Home::Set],
        exactly(2),
        "(set/index rows keys)",
        "Returns a map from what rows have under the given keys to the set of rows that have it.",
        index,
    )
    .qualified(),
];

/// The rows of a relation: maps in a set or any other collection, or nil for no rows.
fn rows(eval: &mut Eval<'_>, relation: &Value) -> Result<Vec<Map>, Stop> {
    if matches!(relation, Value::Map(_) | Value::Str(_)) {
        return Err(wrong_type("a set or a vector of maps", relation));
    }
    let mut rows = Vec::new();
    for (at, mut item) in eval.items(relation)?.into_iter().enumerate() {
        eval.charge(1)?;
        eval.see_through(&mut item);
        match item {
            Value::Map(map) => rows.push(map),
            other => return Err(at_item(wrong_type("a map as each row", &other), at)),
        }
    }
    Ok(rows)
}

/// The values of a row under each of `keys`: each in a vector of its own, nil for a missing one.
fn under(eval: &mut Eval<'_>, row: &Map, keys: &[Value]) -> Result<Value, Stop> {
    let row = Value::Map(row.clone());
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let found = look_up(eval, &row, key)?;
        values.push(found.map_or(Value::Nil, |value| Value::vector(vec![value])));
    }
    let values = Value::vector(values);
    eval.walk(&values)?;
    Ok(values)
}

/// The entries of a row under `keys`, as stored.
fn cut(eval: &mut Eval<'_>, row: &Map, keys: &[Value]) -> Result<Value, Stop> {
    let mut entries = Vec::with_capacity(keys.len());
    for key in keys {
        eval.charge(1)?;
        eval.walk(key)?;
        if let Some((stored, value)) = row.find(key) {
            entries.push((stored.clone(), value.clone()));
        }
    }
    let cut = Value::Map(Map::from(entries));
    eval.walk(&cut)?;
    Ok(cut)
}

/// Appends `row` to the rows under `key`.
fn gather(eval: &mut Eval<'_>, groups: &mut Map, key: Value, row: Value) -> Result<(), Stop> {
    eval.change(groups.copy_bytes())?;
    let mut group = match groups.take(&key) {
        Some(Value::Vector(group)) => group,
        _ => Default::default(),
    };
    eval.change(group.copy_bytes())?;
    group.push(row);
    groups.insert(key, Value::Vector(group));
    Ok(())
}

fn join(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (first, second) = (rows(eval, &args[0])?, rows(eval, &args[1])?);
    let mut keys: Vec<(Value, Value)> = Vec::new();
    match args.get(2) {
        Some(Value::Map(pairs)) => {
            keys.extend(pairs.iter().map(|(a, b)| (a.clone(), b.clone())));
        }
        Some(other) => return Err(wrong_type("a map of keys", other)),
        None => {
            if let (Some(one), Some(other)) = (first.first(), second.first()) {
                for key in one.keys() {
                    eval.charge(1)?;
                    eval.walk(key)?;
                    if other.find(key).is_some() {
                        keys.push((key.clone(), key.clone()));
                    }
                }
            }
        }
    }
    let (ours, theirs): (Vec<Value>, Vec<Value>) = keys.into_iter().unzip();
    let mut groups = Map::new();
    for row in second {
        let key = under(eval, &row, &theirs)?;
        gather(eval, &mut groups, key, Value::Map(row))?;
    }
    let mut joined = Vec::new();
    for row in first {
        let key = under(eval, &row, &ours)?;
        let Some(Value::Vector(matches)) = groups.get(&key).cloned() else {
            continue;
        };
        for other in matches.iter() {
            let Value::Map(other) = other else { continue };
            let mut merged = row.clone();
            eval.change(merged.copy_bytes())?;
            for (key, value) in other {
                eval.charge(1)?;
                eval.walk(key)?;
                merged.put(key.clone(), value.clone());
            }
            let merged = Value::Map(merged);
            eval.walk(&merged)?;
            if joined.len() == joined.capacity() {
                eval.reserve_values(joined.len().max(4) * 2)?;
            }
            joined.push(merged);
        }
    }
    Ok(Value::Set(joined.into_iter().collect()))
}

fn project(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (rows, keys) = (rows(eval, &args[0])?, eval.items(&args[1])?);
    let mut projected = Vec::with_capacity(rows.len());
    for row in rows {
        projected.push(cut(eval, &row, &keys)?);
    }
    Ok(Value::Set(projected.into_iter().collect()))
}

fn index(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (rows, keys) = (rows(eval, &args[0])?, eval.items(&args[1])?);
    let mut groups = Map::new();
    for row in rows {
        let key = cut(eval, &row, &keys)?;
        let row = Value::Map(row);
        eval.walk(&row)?;
        gather(eval, &mut groups, key, row)?;
    }
    let mut entries = Vec::with_capacity(groups.len());
    for (key, group) in &groups {
        eval.charge(1)?;
        let Value::Vector(group) = group else {
            continue;
        };
        eval.charge(group.len())?;
        entries.push((key.clone(), Value::Set(group.iter().cloned().collect())));
    }
    Ok(Value::Map(Map::from(entries)))
}
