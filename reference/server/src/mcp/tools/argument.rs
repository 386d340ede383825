//! The arguments of tools, one row each: its part of the input schema and its validation; and every message about wrong arguments. Knows
//! nothing of what tools do.

use crate::evaluation::OutputSchemaFault;
use ptc_protocol::{Field, Payload};
use ptc_rpc::{Json, JsonKind, JsonText};

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

/// Why the arguments of a tool are refused. `Display` is the message for the client.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentFault {
    #[error("argument `{0}` is required")]
    Missing(&'static str),
    #[error("argument `{name}` must be {expected}, got {kind}")]
    Kind {
        name: &'static str,
        expected: String,
        kind: &'static str,
    },
    #[error("argument `{name}` must be {expected} (got: {shown})")]
    Value {
        name: &'static str,
        expected: String,
        shown: String,
    },
    #[error("argument `{0}` must be a non-empty string")]
    Empty(&'static str),
    #[error("argument `{name}` exceeds max_{name}_bytes ({bytes} > {bytes_max})")]
    TooLong {
        name: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
    #[error("argument `{name}` is too long ({bytes} > {bytes_max} bytes)")]
    JsonTooLong {
        name: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
    #[error(transparent)]
    Schema(#[from] OutputSchemaFault),
    #[error("argument `signature` is no longer supported; use `output_schema`")]
    Signature,
    #[error("argument `context` keys must be non-empty")]
    EmptyKey,
    #[error(
        "argument `context` keys may not contain `/` (would shadow PTC-Lisp namespace): {}",
        JsonText::string(.0)
    )]
    KeyWithSlash(String),
    #[error("argument `context` keys may not contain `/`: {}", JsonText::string(.0))]
    TaskKeyWithSlash(String),
    #[error("argument `op` is required (one of: {})", .0.join(", "))]
    NoOp(Vec<&'static str>),
    #[error("argument `request_id` exceeds {bytes_max} bytes")]
    RequestIdTooLong { bytes_max: usize },
    #[error("argument `request_id` is required for op=get")]
    NoRequestId,
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

    /// What `value` must be but is not, in words; `None` if the argument accepts it.
    pub fn mismatch(&self, value: Json<'_>) -> Option<String> {
        self.shape.mismatch(value)
    }

    /// Validates `value`.
    ///
    /// # Errors
    /// [`ArgumentFault::Kind`].
    pub fn validate(&self, value: Json<'_>) -> Result<(), ArgumentFault> {
        match self.mismatch(value) {
            Some(expected) => Err(ArgumentFault::Kind {
                name: self.name,
                expected,
                kind: kind_word(value),
            }),
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
