//! Output schemas, derived from the declarations of members. Knows no tool; what a tool shows, and how closely it describes it, the
//! tool says.

use std::collections::BTreeMap;

use crate::{Field, Payload, Word};

/// A member of an object of the wire, as schemas describe it.
#[derive(Clone, Copy)]
pub struct Member {
    pub name: &'static str,
    /// Whether every such object has it.
    pub required: bool,
    pub schema: fn() -> Payload,
}

impl Member {
    pub const fn required(name: &'static str, schema: fn() -> Payload) -> Self {
        let required = true;
        Member {
            name,
            required,
            schema,
        }
    }

    pub const fn optional(name: &'static str, schema: fn() -> Payload) -> Self {
        let required = false;
        Member {
            name,
            required,
            schema,
        }
    }
}

/// The schema of an object: its members, and which of them it requires. Derived first, then adapted to what a tool really shows.
#[derive(Clone, Default)]
pub struct ObjectSchema {
    properties: Payload,
    /// Properties that are written after the others.
    last: Payload,
    required: Vec<&'static str>,
}

impl ObjectSchema {
    /// An object with these members.
    pub fn of(members: &[Member]) -> Self {
        let required = members.iter().filter(|member| member.required);
        ObjectSchema {
            required: required.map(|member| member.name).collect(),
            ..ObjectSchema::default().with(members)
        }
    }

    /// Adds members that a reply may have.
    #[must_use]
    pub fn with(mut self, members: &[Member]) -> Self {
        for member in members {
            self.properties.set(member.name, (member.schema)());
        }
        self
    }

    /// Removes all members but these.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.properties.retain(|name| names.contains(&name));
        self.required.retain(|name| names.contains(name));
        self
    }

    /// Removes members that no reply of the tool has, or that its schema leaves open.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.properties.retain(|name| !names.contains(&name));
        self.optional(names)
    }

    /// Members that a reply may lack.
    #[must_use]
    pub fn optional(mut self, names: &[&str]) -> Self {
        self.required.retain(|name| !names.contains(name));
        self
    }

    /// The members that every reply has.
    #[must_use]
    pub fn requiring(mut self, names: &[&'static str]) -> Self {
        self.required = names.to_vec();
        self
    }

    /// Describes a member otherwise than its type does.
    #[must_use]
    pub fn described(mut self, name: &'static str, schema: Payload) -> Self {
        self.properties.set(name, schema);
        self
    }

    /// Writes the members of `last` after these. `tools/list` keeps the order that clients have recorded.
    #[must_use]
    pub fn followed_by(mut self, last: ObjectSchema) -> Self {
        self.last = last.properties;
        self
    }

    /// The schema as JSON.
    pub fn into_payload(self) -> Payload {
        let mut properties = self.properties.to_json();
        if !self.last.is_empty() {
            properties.truncate(properties.len() - 1);
            properties.push(',');
            properties.push_str(&self.last.to_json()[1..]);
        }
        Payload::new()
            .with("properties", Field::OwnJson(properties.into()))
            .with("required", self.required)
            .with("type", "object")
    }
}

/// The schema of an answer that is one of several objects.
pub fn one_of(objects: Vec<Payload>) -> Payload {
    of_type("object").with("oneOf", objects)
}

/// The schema of a JSON type.
pub fn of_type(name: &'static str) -> Payload {
    Payload::new().with("type", name)
}

/// The schema of a list.
pub fn list_of(item: Payload) -> Payload {
    of_type("array").with("items", item)
}

/// The schema of one value.
pub fn constant(value: impl Into<Field>) -> Payload {
    Payload::new().with("const", value)
}

/// The schema of words from a closed list.
pub fn one_word_of(words: impl IntoIterator<Item = &'static str>) -> Payload {
    of_type("string").with("enum", words.into_iter().collect::<Vec<_>>())
}

/// The same schema for a value that may be null, too.
#[must_use]
pub fn nullable(mut schema: Payload) -> Payload {
    if let Some(kind) = schema.remove("type") {
        schema.set("type", vec![kind, "null".into()]);
    }
    schema
}

/// How schemas describe a type.
pub trait JsonSchema {
    fn json_schema() -> Payload;
}

/// Types whose schema is a JSON type.
macro_rules! json_types {
    ($($name:literal: $($type:ty)|+;)*) => {
        $($(impl JsonSchema for $type {
            fn json_schema() -> Payload {
                of_type($name)
            }
        })+)*
    };
}

json_types! {
    "boolean": bool;
    // Counts, and differences.
    "integer": i64 | u32 | usize;
    "number": f64;
    "object": Payload | BTreeMap<String, String>;
    "string": &'static str | String | Word;
}

/// Bytes and milliseconds. Only for these do schemas say that they are never negative.
impl JsonSchema for u64 {
    fn json_schema() -> Payload {
        of_type("integer").with("minimum", 0_usize)
    }
}

/// Any value.
impl JsonSchema for Field {
    fn json_schema() -> Payload {
        Payload::new()
    }
}

impl<T: JsonSchema> JsonSchema for Option<T> {
    fn json_schema() -> Payload {
        nullable(T::json_schema())
    }
}

impl<T: JsonSchema> JsonSchema for Vec<T> {
    fn json_schema() -> Payload {
        list_of(T::json_schema())
    }
}
