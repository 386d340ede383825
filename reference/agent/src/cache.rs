//! Results shared by the two layers of a run: canonical keys, the store, and the hint that names an entry.
//! Knows nothing of the callers.

use std::collections::HashMap;

use ptc_lang::Value;
use ptc_lang::value::Map;
use ptc_protocol::{append_encoded, canonical, digest, stack};

/// The arguments of a call in the form in which equal calls are equal.
///
/// Map keys are strings with `_` for `-`, and integral floats are integers, at every depth outside sets; other
/// values are unchanged. Of keys that become equal the last one in key order wins; keywords come before
/// strings.
#[derive(Clone, Debug, PartialEq)]
pub struct CanonicalArgs {
    value: Value,
    /// Whether the arguments are a map; others are kept unchanged.
    is_map: bool,
}

impl CanonicalArgs {
    #[must_use]
    pub fn of(args: &Value) -> Self {
        match args {
            Value::Map(_) => CanonicalArgs {
                value: canonical(args),
                is_map: true,
            },
            other => CanonicalArgs {
                value: other.clone(),
                is_map: false,
            },
        }
    }

    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    #[must_use]
    pub fn is_map(&self) -> bool {
        self.is_map
    }

    /// The sentence that tells a model how to access the cached result. `None` for arguments that are not a
    /// map.
    #[must_use]
    pub fn hint(&self, tool: &str) -> Option<String> {
        let Value::Map(args) = &self.value else {
            return None;
        };
        let mut text = format!("Call lisp_eval and then call (tool/{tool} ");
        write_map(&mut text, args);
        text.push_str(") to process the full cached result.");
        Some(text)
    }

    /// SHA-256, in lower-case hex, of the key's JSON: `["tool",args]`.
    #[must_use]
    pub fn hash(&self, tool: &str) -> String {
        let mut key = format!("[{},", serde_json::Value::from(tool)).into_bytes();
        append_encoded(&mut key, &self.value);
        key.push(b']');
        digest::hex(&key)
    }
}

/// The cached results of one run. Entries stay until the run ends.
#[derive(Default)]
pub struct Cache {
    tools: HashMap<String, Map>,
}

impl Cache {
    /// The result stored for a call.
    #[must_use]
    pub fn get(&self, tool: &str, args: &CanonicalArgs) -> Option<&Value> {
        self.tools.get(tool)?.get(&args.value)
    }

    /// Stores the result of a successful call.
    pub fn insert(&mut self, tool: &str, args: &CanonicalArgs, result: Value) {
        let entries = match self.tools.get_mut(tool) {
            Some(entries) => entries,
            None => self.tools.entry(tool.to_owned()).or_default(),
        };
        entries.insert(args.value.clone(), result);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.values().map(Map::len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every entry: tool, canonical arguments, result.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value, &Value)> {
        self.tools.iter().flat_map(|(tool, entries)| {
            entries
                .iter()
                .map(move |(args, result)| (tool.as_str(), args, result))
        })
    }
}

fn write_map(text: &mut String, map: &Map) {
    text.push('{');
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            text.push(' ');
        }
        match key {
            Value::Str(name) if reads_as_keyword(name.as_str()) => {
                text.push(':');
                text.push_str(name.as_str());
            }
            other => write_value(text, other),
        }
        text.push(' ');
        write_value(text, value);
    }
    text.push('}');
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Map(map) => stack::with_room(|| write_map(text, map)),
        Value::Vector(items) => stack::with_room(|| {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                write_value(text, item);
            }
            text.push(']');
        }),
        leaf => text.push_str(&ptc_lang::print::readable(leaf)),
    }
}

/// Whether `:name` reads back as the keyword with this name; other names are shown as strings.
fn reads_as_keyword(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-?!*+<>=".contains(&b))
}
