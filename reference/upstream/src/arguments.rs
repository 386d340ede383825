//! Arguments of a call: converts a program's map to the text of a JSON object, with keys as the tool's schema declares them.
//! Iterative: a program chooses the depth.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use ptc_lang::error::{Limit, Sentence, quoting};
use ptc_lang::meter::Watch;
use ptc_lang::sink::{Sink, SinkError};
use ptc_lang::value::{Entries, Items, Map};
use ptc_lang::{Value, heap, json, print};
use ptc_rpc::{Json, write_float};

use crate::schema_keys::{Declared, SchemaKeys};

/// An unfinished collection, with the part that is being written.
enum OpenArgument<'a> {
    Map {
        rest: Entries<'a>,
        declared: Declared<'a>,
        seen: HashSet<String>,
        key: String,
        first: bool,
    },
    List {
        rest: Items<'a>,
        declared: Declared<'a>,
        index: usize,
    },
}

/// Why arguments could not be encoded.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// They have no JSON form: what, and where.
    Problem(Sentence),
    /// The program was stopped.
    Limit(Limit),
}

impl From<String> for EncodeError {
    fn from(problem: String) -> Self {
        EncodeError::Problem(problem.into())
    }
}

impl From<SinkError> for EncodeError {
    fn from(over: SinkError) -> Self {
        EncodeError::Limit(match over {
            SinkError::Limit(limit) => limit,
            SinkError::Bytes => Limit::Memory,
        })
    }
}

/// The arguments as compact JSON. A key that the schema declares is sent as written; in other keys hyphens become underscores. Keys
/// that become equal, and values without a JSON form, are refused with their path. The text is charged to the program's memory, and
/// so are the two copies that a transport and the ledger make of it.
pub(crate) fn encode(
    args: &Map,
    declared: Declared<'_>,
    watch: &dyn Watch,
) -> Result<String, EncodeError> {
    let mut out = Sink::new(String::new(), usize::MAX, watch);
    let mut open = vec![open_map(args, declared)];
    out.push('{')?;
    while let Some(top) = open.last_mut() {
        let (value, declared) = match top {
            OpenArgument::Map {
                rest,
                declared,
                seen,
                key: written,
                first,
            } => {
                let Some((key, value)) = rest.next() else {
                    out.push('}')?;
                    open.pop();
                    continue;
                };
                let Some(sent) = sent_key(key, *declared, watch)? else {
                    let path = path(&open[..open.len() - 1]);
                    let start = format!("not JSON-encodable (a key at {path} has no JSON form: ");
                    return Err(EncodeError::Problem(quoting(start, key).then(")")));
                };
                if !seen.insert(sent.clone()) {
                    let path = path(&open[..open.len() - 1]);
                    return Err(format!("two keys at {path} become \"{sent}\"").into());
                }
                if !std::mem::take(first) {
                    out.push(',')?;
                }
                json::write_string(&mut out, &sent)?;
                out.push(':')?;
                let inner = declared.property(&sent);
                *written = sent;
                (value, inner)
            }
            OpenArgument::List {
                rest,
                declared,
                index,
            } => {
                let Some(value) = rest.next() else {
                    out.push(']')?;
                    open.pop();
                    continue;
                };
                if *index > 0 {
                    out.push(',')?;
                }
                *index += 1;
                (value, declared.items())
            }
        };
        match value {
            Value::Map(map) => {
                out.push('{')?;
                open.push(open_map(map, declared));
            }
            Value::Vector(items) => {
                out.push('[')?;
                open.push(OpenArgument::List {
                    rest: items.iter(),
                    declared,
                    index: 0,
                });
            }
            scalar => {
                if let Some(why) = write_scalar(&mut out, scalar)? {
                    let path = path(&open);
                    return Err(format!("not JSON-encodable ({why} at {path})").into());
                }
            }
        }
    }
    let text = out.into_text();
    match heap::reserve(text.len().saturating_mul(2)) {
        true => Ok(text),
        false => Err(EncodeError::Limit(Limit::Memory)),
    }
}

/// The path of the unfinished parts: `args.rows[0].id`. Built only for messages: a program chooses the depth.
fn path(open: &[OpenArgument<'_>]) -> String {
    let mut path = "args".to_owned();
    for part in open {
        match part {
            OpenArgument::Map { key, .. } => {
                path.push('.');
                path.push_str(key);
            }
            OpenArgument::List { index, .. } => {
                path.push_str(&format!("[{}]", index.saturating_sub(1)))
            }
        }
    }
    path
}

/// Names that the schema requires and the arguments (JSON text) lack. A null counts as present.
pub(crate) fn missing_names<'a>(arguments: &str, schema_keys: &'a SchemaKeys) -> Vec<&'a str> {
    let Ok(arguments) = ptc_rpc::parse(arguments.as_bytes()) else {
        return schema_keys.required.iter().collect();
    };
    let given = members_by_name(arguments);
    let is_missing = |key: &&str| !given.contains_key(*key);
    schema_keys.required.iter().filter(is_missing).collect()
}

/// Members by name; of duplicates the first. Built once, because the schema determines how many names are looked up, and a program
/// how long each search would take.
pub(crate) fn members_by_name(arguments: Json<'_>) -> HashMap<Cow<'_, str>, Json<'_>> {
    let mut members = HashMap::new();
    for (name, value) in arguments.members() {
        if let Some(name) = name.as_str() {
            members.entry(name).or_insert(value);
        }
    }
    members
}

fn open_map<'a>(map: &'a Map, declared: Declared<'a>) -> OpenArgument<'a> {
    OpenArgument::Map {
        rest: map.iter(),
        declared,
        seen: HashSet::new(),
        key: String::new(),
        first: true,
    }
}

/// The key as it is sent; `None` when it has no JSON form.
fn sent_key(
    key: &Value,
    declared: Declared<'_>,
    watch: &dyn Watch,
) -> Result<Option<String>, EncodeError> {
    let mut out = Sink::new(String::new(), usize::MAX, watch);
    match key {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => out.push_str(text)?,
        Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Float(_)
        | Value::Vector(_) => print::write_readable(&mut out, key)?,
        Value::Date(_) | Value::Instant(_) => print::write_display(&mut out, key)?,
        _ => return Ok(None),
    }
    Ok(Some(declared.sent(out.into_text())))
}

/// Writes a scalar; returns the problem when it has no JSON form.
fn write_scalar(out: &mut Sink<'_>, value: &Value) -> Result<Option<String>, SinkError> {
    match value {
        Value::Nil => out.push_str("null")?,
        Value::Bool(true) => out.push_str("true")?,
        Value::Bool(false) => out.push_str("false")?,
        Value::Int(int) => out.push_str(&int.to_string())?,
        Value::BigInt(int) => out.push_integer(int)?,
        Value::Float(float) if float.is_finite() => {
            let mut text = Vec::new();
            write_float(&mut text, *float);
            out.push_str(&String::from_utf8_lossy(&text))?;
        }
        Value::Float(_) => {
            return Ok(Some(format!("{} has no JSON form", print::readable(value))));
        }
        Value::Str(text) | Value::Keyword(text) => json::write_string(out, text.as_str())?,
        other => match json::temporal_text(other) {
            Some(text) => json::write_string(out, &text)?,
            None => return Ok(Some(format!("a {} has no JSON form", other.kind().word()))),
        },
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
