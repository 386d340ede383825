//! The arguments of tools, one row each: its part of the input schema, its validation, and the message for a wrong value. Knows no tool.

use ptc_protocol::{Field, Payload};
use ptc_rpc::{Json, JsonKind};

/// One argument of a tool.
#[derive(Clone, Copy)]
pub struct Argument {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// Its description for clients; may be empty.
    pub about: &'static str,
}

/// Which values an argument accepts.
#[derive(Clone, Copy)]
pub enum Shape {
    Text,
    /// A text of at most this many bytes.
    TextWithin(usize),
    Object,
    /// An object whose keys the caller chooses.
    Map,
    Bool,
    /// A whole number from 1.
    Integer {
        max: Option<i64>,
    },
    /// One word of a closed list.
    Word(fn() -> Vec<&'static str>),
    List(&'static Shape),
}

impl Argument {
    pub const fn required(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Argument {
            required: true,
            ..Argument::optional(name, shape, about)
        }
    }

    pub const fn optional(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Argument {
            name,
            shape,
            required: false,
            about,
        }
    }

    /// The message for a value that the argument does not accept, without the part about the value itself; `None` if it accepts the
    /// value.
    pub fn refusal(&self, value: Json<'_>) -> Option<String> {
        let must = self.shape.mismatch(value)?;
        Some(format!("argument `{}` must be {must}", self.name))
    }

    /// Validates `value`; the message names its kind.
    ///
    /// # Errors
    /// The message.
    pub fn validate(&self, value: Json<'_>) -> Result<(), String> {
        match self.refusal(value) {
            Some(refusal) => Err(format!("{refusal}, got {}", kind_word(value))),
            None => Ok(()),
        }
    }
}

/// The input schema of a tool; a closed one accepts no other arguments.
pub fn schema(arguments: &[Argument], closed: bool) -> Field {
    let mut properties = Payload::new();
    for argument in arguments {
        let mut property = argument.shape.schema();
        if !argument.about.is_empty() {
            property.set("description", Field::word(argument.about));
        }
        properties.set(argument.name, property);
    }
    let mut schema = Payload::new()
        .with("properties", properties)
        .with("type", "object");
    if closed {
        schema.set("additionalProperties", false);
    }
    let required = arguments.iter().filter(|argument| argument.required);
    let required: Vec<&'static str> = required.map(|argument| argument.name).collect();
    if !required.is_empty() {
        schema.set("required", required);
    }
    Field::OwnJson(schema.to_json().into())
}

/// The kind of a JSON value in messages. A string is called `unknown`, as clients expect.
pub fn kind_word(value: Json<'_>) -> &'static str {
    match value.kind() {
        JsonKind::Null => "null",
        JsonKind::Bool => "boolean",
        JsonKind::Integer => "integer",
        JsonKind::Float => "number",
        JsonKind::String => "unknown",
        JsonKind::Array => "array",
        JsonKind::Object => "object",
    }
}

impl Shape {
    /// What the value must be but is not.
    fn mismatch(self, value: Json<'_>) -> Option<String> {
        let (kind, must) = match self {
            Shape::Text | Shape::TextWithin(_) => (JsonKind::String, "a string"),
            Shape::Object | Shape::Map => (JsonKind::Object, "a JSON object"),
            Shape::Bool => (JsonKind::Bool, "a boolean"),
            Shape::List(_) => (JsonKind::Array, "an array"),
            Shape::Integer { max } => {
                if value.kind() == JsonKind::Integer
                    && let Some(max) = max
                {
                    let fits = value
                        .as_i64()
                        .is_some_and(|number| (1..=max).contains(&number));
                    return (!fits).then(|| format!("between 1 and {max}"));
                }
                (JsonKind::Integer, "an integer")
            }
            Shape::Word(words) => {
                let known = words();
                let fits = value.as_str().is_some_and(|word| known.contains(&&*word));
                return (!fits).then(|| format!("one of {}", known.join(", ")));
            }
        };
        (value.kind() != kind).then(|| must.to_owned())
    }

    fn schema(self) -> Payload {
        let of = |kind: &'static str| Payload::new().with("type", kind);
        match self {
            Shape::Text => of("string"),
            Shape::TextWithin(bytes) => of("string").with("maxLength", bytes),
            Shape::Object => of("object"),
            Shape::Map => of("object").with("additionalProperties", true),
            Shape::Bool => of("boolean"),
            Shape::Integer { max } => {
                let mut schema = of("integer").with("minimum", 1_usize);
                if let Some(max) = max {
                    schema.set("maximum", max);
                }
                schema
            }
            Shape::Word(words) => of("string").with("enum", words()),
            Shape::List(item) => of("array").with("items", item.schema()),
        }
    }
}
