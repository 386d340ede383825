//! The parts of a tool's schema that calls need: which keys are sent as written, which are required, which go into headers. Extracted once,
//! because an upstream chooses the size of a schema, and a parsed tree takes twenty times the memory. Knows nothing of the callee.

use serde_json::Value;

use crate::label::required_keys;
use crate::limits::{LIST_BYTES_MAX, RESOLVED_BYTES_MAX};

/// What calls need of an input schema: about as large as the relevant parts of the schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SchemaKeys {
    /// Names that the schema requires, each once.
    pub required: Names,
    /// Arguments that go into headers, in order of their names, and the header for each.
    pub marked: Names,
    pub headers: Names,
    /// The names of all `nodes`, concatenated.
    text: String,
    nodes: Vec<Node>,
    root: Node,
}

/// A list of names, concatenated.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Names {
    text: String,
    ends: Vec<u32>,
}

/// A schema with keys that would be sent differently if it did not declare them: keys with hyphens, and those that lead to such keys.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Node {
    /// Where its name ends in `text`; it begins where the name of the previous node ends.
    name_end: u32,
    /// The range of its properties in `nodes`, in order of their names.
    first: u32,
    count: u32,
    /// The node of its items, counted from one; 0 for none.
    items: u32,
}

/// The declarations of a schema or a part of one; without a schema, none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared<'a>(Option<(&'a SchemaKeys, Node)>);

impl SchemaKeys {
    pub fn of(schema: &Value) -> Self {
        let mut schema_keys = Self::default();
        required_keys(schema)
            .into_iter()
            .for_each(|name| schema_keys.required.push(name));
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
                schema_keys.marked.push(name);
                schema_keys.headers.push(header);
            }
        }
        schema_keys.root = schema_keys.gather(schema).unwrap_or_default();
        for names in [
            &mut schema_keys.required,
            &mut schema_keys.marked,
            &mut schema_keys.headers,
        ] {
            names.text.shrink_to_fit();
            names.ends.shrink_to_fit();
        }
        schema_keys.text.shrink_to_fit();
        schema_keys.nodes.shrink_to_fit();
        schema_keys
    }

    pub fn declared(&self) -> Declared<'_> {
        Declared(Some((self, self.root)))
    }

    /// Adds the parts of a schema and returns its node, without a name; `None` when it declares nothing relevant. Recurses as deep as JSON
    /// may be nested.
    fn gather(&mut self, schema: &Value) -> Option<Node> {
        let mut found = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let node = self.gather(property);
            if node.is_some() || name.contains('-') {
                found.push((name, node.unwrap_or_default()));
            }
        }
        let items = schema.get("items").and_then(|items| self.gather(items));
        if found.is_empty() && items.is_none() {
            return None;
        }
        found.sort_unstable_by_key(|(name, _)| *name);
        let mut node = Node {
            first: length(self.nodes.len()),
            count: length(found.len()),
            ..Node::default()
        };
        for (name, property) in found {
            self.push(name, property);
        }
        if let Some(items) = items {
            self.push("", items);
            node.items = length(self.nodes.len());
        }
        Some(node)
    }

    fn push(&mut self, name: &str, node: Node) {
        self.text.push_str(name);
        let name_end = length(self.text.len());
        self.nodes.push(Node { name_end, ..node });
    }

    fn name(&self, at: usize) -> &str {
        let start = match at {
            0 => 0,
            _ => self.nodes[at - 1].name_end as usize,
        };
        &self.text[start..self.nodes[at].name_end as usize]
    }
}

/// A listed schema is never longer than a `u32` counts.
fn length(bytes: usize) -> u32 {
    const { assert!(LIST_BYTES_MAX <= u32::MAX as usize && RESOLVED_BYTES_MAX <= u32::MAX as usize) };
    bytes as u32
}

impl<'a> Declared<'a> {
    /// The declarations of a missing schema.
    pub const NOTHING: Declared<'static> = Declared(None);

    /// The key as it is sent.
    pub fn sent(self, key: String) -> String {
        match key.contains('-') && self.find(&key).is_none() {
            true => key.replace('-', "_"),
            false => key,
        }
    }

    /// The declarations of the property with that name.
    pub fn property(self, name: &str) -> Self {
        self.find(name).unwrap_or(Declared(None))
    }

    /// The declarations of the items.
    pub fn items(self) -> Self {
        Declared(self.0.and_then(|(schema_keys, node)| {
            let at = (node.items as usize).checked_sub(1)?;
            Some((schema_keys, schema_keys.nodes[at]))
        }))
    }

    fn find(self, name: &str) -> Option<Self> {
        let (schema_keys, node) = self.0?;
        let (mut low, mut high) = (node.first as usize, (node.first + node.count) as usize);
        while low < high {
            let at = low.midpoint(high);
            match schema_keys.name(at).cmp(name) {
                std::cmp::Ordering::Less => low = at + 1,
                std::cmp::Ordering::Greater => high = at,
                std::cmp::Ordering::Equal => {
                    return Some(Declared(Some((schema_keys, schema_keys.nodes[at]))));
                }
            }
        }
        None
    }
}

impl Names {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(length(self.text.len()));
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let name = &self.text[start..end as usize];
            start = end as usize;
            name
        })
    }
}
