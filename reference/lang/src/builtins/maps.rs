//! Maps and paths into nested data. Reads are flexible, writes exact, except that updates change the key that a read
//! found (`keys.flexible`).

use super::numbers::index;
use super::{Builtin, Home, Section, Takes, at_least, between, callable, exactly, row};
use crate::error::{Kind, Stop, about, at_item, bad_value, of_no_argument, wrong_type};
use crate::eval::{Eval, sequence};
use crate::value::shape::watched;
use crate::value::{Map, Set, Type, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("get", "maps.get", Section::Core, &[Home::Core], between(2, 3), "(get m key), (get m key default)", "Returns the value of a key, or the default (nil) when it is missing.", get),
    row("get-in", "maps.get-in", Section::Core, &[Home::Core], between(2, 3), "(get-in m path), (get-in m path default)", "Follows a path of keys into nested collections.", get_in),
    row("find", "maps.find", Section::Core, &[Home::Core], exactly(2), "(find coll key)", "Returns the entry of a key as it is stored, or nil.", find),
    row("contains?", "maps.contains?", Section::Sets, &[Home::Core, Home::Set], exactly(2), "(contains? coll key)", "Returns true when a map has the key, a set or vector the item, or a string the index.", contains),
    row("select-keys", "maps.select-keys", Section::Core, &[Home::Core], exactly(2), "(select-keys m keys)", "Returns a map with only those of the given keys that are present.", select_keys),
    row("keys", "maps.keys", Section::Core, &[Home::Core], exactly(1), "(keys m)", "Returns the keys of a map in order.", keys),
    row("vals", "maps.vals", Section::Core, &[Home::Core], exactly(1), "(vals m)", "Returns the values of a map in the order of its keys.", vals),
    row("entries", "maps.entries", Section::Core, &[], exactly(1), "(entries m)", "Returns the entries of a map as a vector of key and value pairs.", entries),
    row("key", "maps.key", Section::Core, &[Home::Core], exactly(1), "(key entry)", "Returns the key of a map entry.", key),
    row("val", "maps.val", Section::Core, &[Home::Core], exactly(1), "(val entry)", "Returns the value of a map entry.", val),
    row("assoc", "maps.assoc", Section::Core, &[Home::Core], at_least(3), "(assoc m key val)", "Returns a map or vector with keys set to values.", assoc),
    row("assoc-in", "maps.assoc-in", Section::Core, &[Home::Core], exactly(3), "(assoc-in m path val)", "Sets the value at a path of keys, creating missing maps on the way.", assoc_in),
    row("dissoc", "maps.dissoc", Section::Core, &[Home::Core], at_least(1), "(dissoc m key)", "Returns a map without the given keys.", dissoc),
    row("update", "maps.update", Section::Core, &[Home::Core], at_least(3), "(update m key f & args)", "Replaces the value of a key by the result of calling a function on it.", update),
    row("update-in", "maps.update-in", Section::Core, &[Home::Core], at_least(3), "(update-in m path f & args)", "Replaces the value at a path of keys by the result of calling a function on it.", update_in),
    row("merge", "maps.merge", Section::Core, &[Home::Core], at_least(0), "(merge m1 m2 ...)", "Joins maps; the value of the rightmost map wins.", merge),
    row("merge-with", "maps.merge-with", Section::Core, &[Home::Core], at_least(1), "(merge-with f m1 m2 ...)", "Joins maps; values of the same key are combined by a function.", merge_with),
    row("update-vals", "maps.update-vals", Section::Core, &[Home::Core], exactly(2), "(update-vals m f)", "Calls a function on every value of a map.", update_vals),
    row("update-keys", "maps.update-keys", Section::Core, &[Home::Core], exactly(2), "(update-keys m f)", "Calls a function on every key of a map.", update_keys),
    row("zipmap", "maps.zipmap", Section::Core, &[Home::Core], exactly(2), "(zipmap keys vals)", "Makes a map with the keys from one collection and the values from another.", zipmap).streaming(0).taking(Takes::From(0)),
    row("hash-map", "maps.hash-map", Section::Core, &[Home::Core], at_least(0), "(hash-map & kvs)", "Makes a map from alternating keys and values.", hash_map),
    row("array-map", "maps.array-map", Section::Core, &[Home::Core], at_least(0), "(array-map & kvs)", "Makes a map from alternating keys and values.", array_map),
    row("sorted-map", "maps.sorted-map", Section::Core, &[Home::Core], at_least(0), "(sorted-map & kvs)", "Makes a map of alternating keys and values; every map is in the order of its keys.", |eval, args| map_of_pairs(eval, "sorted-map", args)),
    row("rename-keys", "sets.rename-keys", Section::Core, &[Home::Set], exactly(2), "(rename-keys m kmap)", "Returns a map with keys renamed as a map from old to new ones says.", rename_keys),
    row("select", "sets.select", Section::Sets, &[Home::Set], exactly(2), "(set/select pred set)", "Returns the members of a set for which a predicate holds.", select).qualified(),
    row("map-invert", "sets.map-invert", Section::Core, &[Home::Set], exactly(1), "(map-invert m)", "Returns a map with the values as keys and the keys as values.", map_invert),
    row("subset?", "sets.subset?", Section::Sets, &[Home::Set], exactly(2), "(subset? set1 set2)", "Returns true when every member of the first set is one of the second.", |eval, args| subset(eval, args, 0, 1)),
    row("superset?", "sets.superset?", Section::Sets, &[Home::Set], exactly(2), "(superset? set1 set2)", "Returns true when every member of the second set is one of the first.", |eval, args| subset(eval, args, 1, 0)),
    row("sorted-set", "sets.sorted-set", Section::Sets, &[Home::Core], at_least(0), "(sorted-set & items)", "Makes a set of its arguments; every set is in order.", hash_set),
    row("hash-set", "sets.hash-set", Section::Sets, &[Home::Core, Home::Set], at_least(0), "(hash-set & items)", "Makes a set of its arguments.", hash_set),
    row("set", "sets.set", Section::Sets, &[Home::Core, Home::Set], exactly(1), "(set coll)", "Makes a set of the items of a collection.", set).streaming(0),
    row("disj", "sets.disj", Section::Sets, &[Home::Core, Home::Set], at_least(1), "(disj set x ...)", "Returns a set without the given members.", disj),
    row("union", "sets.union", Section::Sets, &[Home::Set], at_least(0), "(clojure.set/union & sets)", "Returns the members of any of the sets.", union),
    row("intersection", "sets.intersection", Section::Sets, &[Home::Set], at_least(1), "(clojure.set/intersection & sets)", "Returns the members that are in all the sets.", intersection),
    row("difference", "sets.difference", Section::Sets, &[Home::Set], at_least(1), "(clojure.set/difference & sets)", "Returns the members of the first set that are in no other.", difference),
];

type Result<T = Value> = std::result::Result<T, Stop>;

// --- reading

/// The value that a flexible read of `key` finds in anything that can be read by key; a var is replaced by its value.
pub fn look_up(eval: &mut Eval<'_>, holder: &Value, key: &Value) -> Result<Option<Value>> {
    eval.walk(key)?;
    let held;
    let holder = match holder {
        Value::Var(_) => {
            let mut value = holder.clone();
            eval.see_through(&mut value);
            held = value;
            &held
        }
        holder => holder,
    };
    Ok(match holder {
        Value::Map(map) => map.lookup(key).cloned(),
        Value::Vector(items) => match key {
            Value::Int(at) => usize::try_from(*at)
                .ok()
                .and_then(|at| items.get(at))
                .cloned(),
            _ => None,
        },
        Value::Set(members) => members.get(key).cloned(),
        Value::Str(_) => match key {
            Value::Int(at) => match usize::try_from(*at) {
                Ok(at) => super::seqs::item_at(eval, holder, at)?,
                Err(_) => None,
            },
            _ => None,
        },
        _ => None,
    })
}

fn get(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    eval.see_through(&mut args[0]);
    if !matches!(
        args[0],
        Value::Nil | Value::Map(_) | Value::Vector(_) | Value::Set(_) | Value::Str(_)
    ) {
        return Err(wrong_type("a map, vector, set, string or nil", &args[0]));
    }
    let found = look_up(eval, &args[0], &args[1])?;
    Ok(found
        .or_else(|| args.get_mut(2).map(std::mem::take))
        .unwrap_or_default())
}

/// The keys of a path.
fn path(eval: &mut Eval<'_>, value: &Value) -> Result<Vec<Value>> {
    match value {
        Value::Vector(_) | Value::Nil | Value::Str(_) => eval.items(value),
        other => Err(wrong_type("a path (a vector of keys)", other)),
    }
}

/// The value that the path `steps` leads to.
pub fn look_along<'s>(
    eval: &mut Eval<'_>,
    holder: &Value,
    steps: impl IntoIterator<Item = &'s Value>,
) -> Result<Option<Value>> {
    let mut at = holder.clone();
    for step in steps {
        match look_up(eval, &at, step)? {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn get_in(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let steps = path(eval, &args[1])?;
    let found = look_along(eval, &args[0], &steps)?;
    Ok(found
        .or_else(|| args.get_mut(2).map(std::mem::take))
        .unwrap_or_default())
}

fn find(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    eval.see_through(&mut args[0]);
    eval.walk(&args[1])?;
    let entry = |key: &Value, value: &Value| Value::vector(vec![key.clone(), value.clone()]);
    match &args[0] {
        Value::Nil => Ok(Value::Nil),
        Value::Map(map) => Ok(map
            .find(&args[1])
            .map_or(Value::Nil, |(key, value)| entry(key, value))),
        Value::Vector(_) => {
            let found = look_up(eval, &args[0], &args[1])?;
            Ok(found.map_or(Value::Nil, |value| entry(&args[1], &value)))
        }
        other => Err(wrong_type("a map, vector or nil", other)),
    }
}

fn contains(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    eval.see_through(&mut args[0]);
    eval.walk(&args[1])?;
    Ok(Value::Bool(match &args[0] {
        Value::Nil => false,
        Value::Map(map) => map.find(&args[1]).is_some(),
        Value::Set(set) => set.contains(&args[1]),
        Value::Vector(items) => {
            // In this language a vector contains its items, not its indices.
            eval.charge(items.len())?;
            items.iter().any(|item| item == &args[1])
        }
        text @ Value::Str(_) if matches!(args[1], Value::Int(_) | Value::BigInt(_)) => {
            look_up(eval, text, &args[1])?.is_some()
        }
        other => return Err(wrong_type("a map, set, vector or nil", other)),
    }))
}

fn select_keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    eval.see_through(&mut args[0]);
    let keys = eval.items(&args[1])?;
    let mut selected = Vec::new();
    match &args[0] {
        Value::Nil => {}
        Value::Map(map) => {
            for key in keys {
                eval.charge(1)?;
                eval.walk(&key)?;
                if let Some((stored, value)) = map.find(&key) {
                    selected.push((stored.clone(), value.clone()));
                }
            }
        }
        // Keys that are not indices indicate swapped arguments: a map in the place of the keys.
        items @ Value::Vector(_)
            if watched(keys.iter()).all(|key| matches!(key, Value::Int(_) | Value::BigInt(_))) =>
        {
            for key in keys {
                eval.charge(1)?;
                if let Some(item) = look_up(eval, items, &key)? {
                    selected.push((key, item));
                }
            }
        }
        other => return Err(wrong_type("a map, nil, or a vector with indexes", other)),
    }
    Ok(Value::Map(Map::from(selected)))
}

fn map_or_nil(value: &Value) -> Result<Option<&Map>> {
    match value {
        Value::Nil => Ok(None),
        Value::Map(map) => Ok(Some(map)),
        other => Err(wrong_type("a map or nil", other)),
    }
}

fn keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    parts(eval, &args[0], 0)
}

fn vals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    parts(eval, &args[0], 1)
}

/// The keys (`at` 0) or the values (`at` 1) of a map, or of entries that were filtered or sorted.
fn parts(eval: &mut Eval<'_>, of: &Value, at: usize) -> Result {
    let refused = || wrong_type("a map, its entries or nil", of);
    let map = match of {
        Value::Nil => return Ok(Value::vector(Vec::new())),
        Value::Map(map) => map,
        Value::Vector(entries) => {
            eval.reserve_values(entries.len())?;
            eval.charge(entries.len())?;
            let part = |entry: &Value| match entry {
                Value::Vector(pair) if pair.len() == 2 => pair.get(at).cloned(),
                _ => None,
            };
            let parts = watched(entries.iter()).map(part).collect::<Option<_>>();
            return parts.map(Value::vector).ok_or_else(refused);
        }
        _ => return Err(refused()),
    };
    eval.reserve_values(map.len())?;
    eval.charge(map.len())?;
    Ok(Value::vector(match at {
        0 => watched(map.keys()).cloned().collect(),
        _ => watched(map.values()).cloned().collect(),
    }))
}

fn entries(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    map_or_nil(&args[0])?;
    eval.charge(1)?;
    Ok(Value::vector(eval.items(&args[0])?))
}

fn entry_part(args: &mut [Value], at: usize) -> Result {
    match &args[0] {
        Value::Vector(pair) if pair.len() == 2 => Ok(pair.get(at).cloned().unwrap_or_default()),
        other => Err(wrong_type("a map entry (a vector of two items)", other)),
    }
}

fn key(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    entry_part(args, 0)
}

fn val(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    entry_part(args, 1)
}

// --- writing

/// Stores `value` under the stored key if there is one, else under `key`.
fn store(eval: &mut Eval<'_>, holder: &mut Value, key: Value, value: Value) -> Result<()> {
    eval.walk(&key)?;
    if holder.is_nil() {
        *holder = Value::Map(Map::new());
    }
    match holder {
        Value::Map(map) => {
            eval.change(map.copy_bytes())?;
            map.put(key, value);
            Ok(())
        }
        Value::Vector(items) => {
            eval.change(items.copy_bytes())?;
            let at = index(&key)?;
            match usize::try_from(at) {
                Ok(at) if at < items.len() => {
                    items.set(at, value);
                    Ok(())
                }
                Ok(at) if at == items.len() => {
                    items.push(value);
                    Ok(())
                }
                _ => Err(bad_value(about(
                    format!(
                        "index {} is out of range for a vector of {} items",
                        crate::print::display(&key),
                        items.len()
                    ),
                    &key,
                ))),
            }
        }
        other => Err(wrong_type("a map, vector or nil", other)),
    }
}

fn assoc(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let given = args.len();
    let Some((holder, pairs)) = args.split_first_mut() else {
        return Ok(Value::Nil);
    };
    if !pairs.len().is_multiple_of(2) {
        let problem = format!("assoc takes keys and values in pairs, got {given} arguments");
        return Err(Kind::Pairs(problem).into());
    }
    let mut holder = std::mem::take(holder);
    for pair in pairs.chunks_exact_mut(2) {
        let (key, value) = (std::mem::take(&mut pair[0]), std::mem::take(&mut pair[1]));
        store(eval, &mut holder, key, value)?;
    }
    Ok(holder)
}

fn dissoc(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    without(eval, args, Type::Map, "a map or nil")
}

/// The map or set in the first argument, as `kind` says, without the keys or members in the others.
fn without(eval: &mut Eval<'_>, args: &mut [Value], kind: Type, expected: &'static str) -> Result {
    let Some((holder, removed)) = args.split_first_mut() else {
        return Ok(Value::Nil);
    };
    if !holder.is_nil() && holder.kind() != kind {
        return Err(wrong_type(expected, holder));
    }
    for item in removed {
        eval.walk(item)?;
        match holder {
            Value::Map(map) => {
                eval.change(map.copy_bytes())?;
                if let Some(stored) = map.stored(item).cloned() {
                    map.remove(&stored);
                }
            }
            Value::Set(set) => {
                eval.change(set.copy_bytes())?;
                set.remove(item);
            }
            _ => {}
        }
    }
    Ok(std::mem::take(holder))
}

/// The stored key that a flexible read of `key` finds, else `key` itself.
fn read_key(holder: &Value, key: Value) -> Value {
    match holder {
        Value::Map(map) => map.find(&key).map_or(key, |(stored, _)| stored.clone()),
        _ => key,
    }
}

/// The key that a write to `key` affects.
fn written_key(holder: &Value, key: Value) -> Value {
    match holder {
        Value::Map(map) => map.stored(&key).cloned().unwrap_or(key),
        _ => key,
    }
}

/// Takes the value of the stored `key` out of `holder`, so that it can be changed in place.
fn take_out(eval: &mut Eval<'_>, holder: &mut Value, key: &Value) -> Result {
    eval.walk(key)?;
    Ok(match holder {
        Value::Map(map) => {
            eval.change(map.copy_bytes())?;
            map.take(key).unwrap_or_default()
        }
        Value::Vector(items) => match key {
            Value::Int(at) => {
                eval.change(items.copy_bytes())?;
                usize::try_from(*at)
                    .ok()
                    .and_then(|at| items.take(at))
                    .unwrap_or_default()
            }
            _ => Value::Nil,
        },
        _ => Value::Nil,
    })
}

/// Replaces the value at the path `steps` by the result of `change`, creating maps where nothing exists.
fn change_along(
    eval: &mut Eval<'_>,
    holder: Value,
    steps: Vec<Value>,
    flexible_last: bool,
    change: impl FnOnce(&mut Eval<'_>, Value) -> Result,
) -> Result {
    let last = steps.len().saturating_sub(1);
    let mut opened = Vec::with_capacity(steps.len());
    let mut inner = holder;
    for (at, step) in steps.into_iter().enumerate() {
        let key = if at < last || flexible_last {
            read_key(&inner, step)
        } else {
            written_key(&inner, step)
        };
        let below = take_out(eval, &mut inner, &key)?;
        opened.push((inner, key));
        inner = below;
    }
    let mut value = change(eval, inner)?;
    while let Some((mut holder, key)) = opened.pop() {
        store(eval, &mut holder, key, value)?;
        value = holder;
    }
    Ok(value)
}

fn assoc_in(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [holder, steps, value] = args else {
        return Ok(Value::Nil);
    };
    let mut steps = path(eval, steps)?;
    if steps.is_empty() {
        steps.push(Value::Nil);
    }
    holds_keys(holder)?;
    let value = std::mem::take(value);
    change_along(eval, std::mem::take(holder), steps, false, |_, _| Ok(value))
        .map_err(of_no_argument)
}

fn applied(eval: &mut Eval<'_>, function: &Value, value: Value, extra: &mut [Value]) -> Result {
    let mut args = Vec::with_capacity(extra.len() + 1);
    args.push(value);
    args.extend(extra.iter_mut().map(std::mem::take));
    eval.call(function, &mut args)
}

fn update(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [holder, key, function, extra @ ..] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    holds_keys(holder)?;
    let steps = vec![std::mem::take(key)];
    let holder = std::mem::take(holder);
    change_along(eval, holder, steps, true, |eval, value| {
        applied(eval, function, value, extra)
    })
}

fn holds_keys(holder: &Value) -> Result<()> {
    match holder {
        Value::Nil | Value::Map(_) | Value::Vector(_) => Ok(()),
        other => Err(wrong_type("a map, vector or nil", other)),
    }
}

fn update_in(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [holder, steps, function, extra @ ..] = args else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    let mut steps = path(eval, steps)?;
    if steps.is_empty() {
        steps.push(Value::Nil);
    }
    holds_keys(holder)?;
    let holder = std::mem::take(holder);
    change_along(eval, holder, steps, true, |eval, value| {
        applied(eval, function, value, extra)
    })
    .map_err(of_no_argument)
}

pub fn merge(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    merged(eval, args, None)
}

fn merge_with(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((function, maps)) = args.split_first_mut() else {
        return Ok(Value::Nil);
    };
    callable(function)?;
    merged(eval, maps, Some(function))
}

/// Merges all maps. `combine` combines two values of the same key; without it the later value wins.
fn merged(eval: &mut Eval<'_>, maps: &mut [Value], combine: Option<&Value>) -> Result {
    let mut merged: Option<Map> = None;
    for arg in maps {
        match std::mem::take(arg) {
            Value::Nil => {}
            Value::Map(map) => match &mut merged {
                None => merged = Some(map),
                Some(merged) => {
                    for (key, value) in &map {
                        eval.charge(1)?;
                        eval.walk(key)?;
                        eval.change(merged.copy_bytes())?;
                        let key = merged.stored(key).unwrap_or(key).clone();
                        let value = match combine.and_then(|call| Some((call, merged.take(&key)?)))
                        {
                            Some((call, old)) => eval.call2(call, old, value.clone())?,
                            None => value.clone(),
                        };
                        merged.insert(key, value);
                    }
                }
            },
            other => return Err(wrong_type("maps", &other)),
        }
    }
    Ok(Value::Map(merged.unwrap_or_default()))
}

fn update_vals(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let is_vector = matches!(args[0], Value::Vector(_));
    let updated = update_each(eval, args, |eval, function, key, value| {
        Ok((key.clone(), eval.call1(function, value.clone())?))
    })?;
    Ok(match updated {
        None => Value::Nil,
        Some(entries) if is_vector => {
            let values = watched(entries.into_iter()).map(|(_, value)| value);
            Value::vector(values.collect())
        }
        Some(entries) => Value::Map(Map::from(entries)),
    })
}

fn update_keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let updated = update_each(eval, args, |eval, function, key, value| {
        let key = eval.call1(function, key.clone())?;
        eval.walk(&key)?;
        Ok((key, value.clone()))
    })?;
    Ok(updated.map_or(Value::Nil, |entries| Value::Map(Map::gathered(entries))))
}

/// The results of `update`, with the given function, for each entry of a map or each index and item of a vector; `None`
/// for nil.
fn update_each(
    eval: &mut Eval<'_>,
    args: &mut [Value],
    update: impl Fn(&mut Eval<'_>, &Value, &Value, &Value) -> Result<(Value, Value)>,
) -> Result<Option<Vec<(Value, Value)>>> {
    let [holder, function] = args else {
        return Ok(None);
    };
    let count = match &*holder {
        Value::Vector(items) => items.len(),
        map => match map_or_nil(map)? {
            Some(map) => map.len(),
            None => return Ok(None),
        },
    };
    if count > 0 {
        callable(function)?;
    }
    eval.reserve_values(count.saturating_mul(2))?;
    let mut entries = Vec::with_capacity(count);
    let mut add = |index: usize, key: &Value, value: &Value| -> Result<()> {
        let entry = update(eval, function, key, value);
        entries.push(entry.map_err(|stop| at_item(stop, index))?);
        Ok(())
    };
    match &*holder {
        Value::Vector(items) => (items.iter().enumerate())
            .try_for_each(|(index, item)| add(index, &Value::from(index), item))?,
        Value::Map(map) => {
            (map.iter().enumerate()).try_for_each(|(index, (key, value))| add(index, key, value))?
        }
        _ => {}
    }
    Ok(Some(entries))
}

fn zipmap(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if args.iter().all(sequence::endless) {
        eval.settle(&mut args[0])?;
    }
    let mut keys = eval.stream(std::mem::take(&mut args[0]))?;
    let mut values = eval.stream(std::mem::take(&mut args[1]))?;
    let mut entries = Vec::new();
    while let Some(key) = keys.next(eval)?
        && let Some(value) = values.next(eval)?
    {
        eval.charge(1)?;
        eval.walk(&key)?;
        entries.push((key, value));
    }
    Ok(Value::Map(Map::gathered(entries)))
}

/// A map, or `None` for nil.
fn map_or_nothing(value: &mut Value) -> Result<Option<Map>> {
    match std::mem::take(value) {
        Value::Nil => Ok(None),
        Value::Map(map) => Ok(Some(map)),
        other => Err(wrong_type("a map or nil", &other)),
    }
}

fn rename_keys(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let map = map_or_nothing(&mut args[0])?;
    let names = map_or_nothing(&mut args[1])?;
    let (Some(map), Some(names)) = (map, names) else {
        return Ok(Value::Nil);
    };
    // All old keys are removed before any new one is added, so that names can be swapped.
    let mut renamed = map.clone();
    eval.change(renamed.copy_bytes())?;
    let mut moved = Vec::new();
    for (old, new) in names.iter() {
        eval.charge(1)?;
        eval.walk(old)?;
        eval.walk(new)?;
        // A name of the other kind is renamed too, unless it has a new name of its own.
        let stored = map
            .stored(old)
            .filter(|stored| *stored == old || names.get(stored).is_none());
        if let Some(value) = stored.and_then(|stored| renamed.remove(stored)) {
            moved.push((new.clone(), value));
        }
    }
    for (key, value) in moved {
        eval.charge(1)?;
        renamed.put(key, value);
    }
    Ok(Value::Map(renamed))
}

fn map_invert(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some(map) = map_or_nothing(&mut args[0])? else {
        return Ok(Value::Map(Map::new()));
    };
    eval.reserve_values(map.len() * 2)?;
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        eval.charge(1)?;
        eval.walk(value)?;
        entries.push((value.clone(), key.clone()));
    }
    Ok(Value::Map(Map::gathered(entries)))
}

fn select(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [predicate, set] = args else {
        return Ok(Value::Nil);
    };
    super::callable(predicate)?;
    let members = match set {
        Value::Nil => return Ok(Value::Nil),
        Value::Set(_) => eval.items(set)?,
        other => return Err(wrong_type("a set or nil", other)),
    };
    let mut kept = Vec::new();
    for (index, member) in members.into_iter().enumerate() {
        let answer = eval.call1(predicate, member.clone());
        if answer.map_err(|stop| at_item(stop, index))?.truthy() {
            kept.push(member);
        }
    }
    Ok(Value::Set(kept.into_iter().collect()))
}

/// Whether every member of the set at index `inner` is in the set at index `outer`; nil is the empty set.
fn subset(eval: &mut Eval<'_>, args: &[Value], inner: usize, outer: usize) -> Result {
    let none = Set::new();
    let set = |at: usize| match &args[at] {
        Value::Set(set) => Ok(set),
        Value::Nil => Ok(&none),
        other => Err(wrong_type("a set or nil", other)),
    };
    let (inner, outer) = (set(inner)?, set(outer)?);
    if inner.len() > outer.len() {
        return Ok(Value::Bool(false));
    }
    for member in inner.iter() {
        eval.charge(1)?;
        eval.walk(member)?;
        if !outer.contains(member) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn hash_map(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    map_of_pairs(eval, "hash-map", args)
}

fn array_map(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    map_of_pairs(eval, "array-map", args)
}

fn map_of_pairs(eval: &mut Eval<'_>, name: &str, args: &mut [Value]) -> Result {
    if !args.len().is_multiple_of(2) {
        let problem = format!(
            "{name} takes keys and values in pairs, got {} arguments",
            args.len()
        );
        return Err(Kind::Pairs(problem).into());
    }
    let mut entries = Vec::with_capacity(args.len() / 2);
    for pair in args.chunks_exact_mut(2) {
        eval.walk(&pair[0])?;
        entries.push((std::mem::take(&mut pair[0]), std::mem::take(&mut pair[1])));
    }
    Ok(Value::Map(Map::gathered(entries)))
}

// --- sets

fn hash_set(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    for arg in args.iter() {
        eval.walk(arg)?;
    }
    Ok(Value::Set(args.iter_mut().map(std::mem::take).collect()))
}

fn set(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Value::Set(_) = &args[0] {
        return Ok(std::mem::take(&mut args[0]));
    }
    if sequence::endless(&args[0]) {
        eval.settle(&mut args[0])?;
    }
    let items = eval.stream(std::mem::take(&mut args[0]))?;
    super::seqs::into_target(eval, Value::Set(Set::new()), items)
}

fn disj(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    without(eval, args, Type::Set, "a set or nil")
}

/// A set argument of set algebra; nil is the empty set.
fn as_set(value: Value) -> Result<Set> {
    match value {
        Value::Set(set) => Ok(set),
        Value::Nil => Ok(Set::new()),
        other => Err(wrong_type("a set or nil", &other)),
    }
}

fn union(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let mut all = Set::new();
    for arg in args {
        let set = as_set(std::mem::take(arg))?;
        if all.is_empty() {
            all = set;
            continue;
        }
        for member in &set {
            eval.charge(1)?;
            eval.walk(member)?;
            eval.change(all.copy_bytes())?;
            all.insert(member.clone());
        }
    }
    Ok(Value::Set(all))
}

/// The members of the first set that are in every other set (`wanted`) or in none of them.
fn kept_members(eval: &mut Eval<'_>, args: &mut [Value], wanted: bool) -> Result {
    let Some((first, others)) = args.split_first_mut() else {
        return Ok(Value::Set(Set::new()));
    };
    let mut kept = as_set(std::mem::take(first))?;
    for other in others {
        let other = as_set(std::mem::take(other))?;
        let mut members = Vec::new();
        for member in &kept {
            eval.charge(1)?;
            eval.walk(member)?;
            if other.contains(member) == wanted {
                members.push(member.clone());
            }
        }
        kept = members.into_iter().collect();
    }
    Ok(Value::Set(kept))
}

fn intersection(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    kept_members(eval, args, true)
}

fn difference(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    kept_members(eval, args, false)
}
