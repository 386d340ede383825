//! Patterns of JSON: values, holes, open objects, captures. Does not know how patterns are
//! written in a fixture (`fixture/pattern.rs`) or compared (`judge/json.rs`).

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::encoding::EncodingError;
use super::text::Text;
use crate::json::Json;

/// What a JSON value must look like.
///
/// In the bundle a pattern is JSON in which a member starting with `$` has a meaning:
/// `{"$hole": …}`, `{"$text": …}`, `{"$use": "name"}`, `"$open": true` inside an object and
/// `{"$more": true}` as the last element of an array. A member that itself starts with `$` is
/// written with one more `$`.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Exactly this null, boolean, number or string.
    Exact(Json),
    /// A string with computed parts.
    Text(Text),
    /// Any value of a kind.
    Hole(Hole),
    /// The value captured under this name.
    Use(String),
    /// An array of these elements.
    Array {
        /// The elements, in order.
        items: Vec<Pattern>,
        /// Whether further elements may follow (`"..."` as the last element).
        open: bool,
    },
    /// An object with these members.
    Object {
        /// The members; their order is not compared.
        members: IndexMap<String, Pattern>,
        /// Whether other members are allowed (`"...": "..."`).
        open: bool,
    },
}

/// A placeholder for a value of a kind, which may be captured under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Hole {
    /// The name under which the value is captured.
    pub capture: Option<String>,
    /// The kind of value that matches.
    pub kind: HoleKind,
    /// Whether the member may be missing altogether (`<int?>`); only as a member's value.
    pub optional: bool,
}

/// The kinds of values that a hole matches.
#[derive(Clone, Debug, PartialEq)]
pub enum HoleKind {
    /// Any value.
    Any,
    /// No member of this name; only as a member's value.
    Absent,
    /// `true` or `false`.
    Bool,
    /// An integer within inclusive bounds.
    Int {
        /// The minimum, if any.
        min: Option<i64>,
        /// The maximum, if any.
        max: Option<i64>,
    },
    /// A number with a fraction or an exponent.
    Float,
    /// Any number.
    Number,
    /// A string; with a regex, one that the regex matches completely.
    String(Option<String>),
    /// An array.
    Array,
    /// An object.
    Object,
    /// A string that contains JSON text that matches.
    JsonText(Box<Pattern>),
    /// An array of these elements, in any order.
    Unordered {
        /// The elements.
        items: Vec<Pattern>,
        /// Whether there may be further elements among them (`"..."` as the last one).
        open: bool,
    },
    /// A value that one of these patterns matches.
    Either(Vec<Pattern>),
}

impl HoleKind {
    /// The word for the kind in a fixture and in the bundle.
    pub const fn word(&self) -> &'static str {
        match self {
            HoleKind::Any => "any",
            HoleKind::Absent => "absent",
            HoleKind::Bool => "bool",
            HoleKind::Int { .. } => "int",
            HoleKind::Float => "float",
            HoleKind::Number => "number",
            HoleKind::String(_) => "string",
            HoleKind::Array => "array",
            HoleKind::Object => "object",
            HoleKind::JsonText(_) => "json",
            HoleKind::Unordered { .. } => "unordered",
            HoleKind::Either(_) => "either",
        }
    }

    /// Every word of [`HoleKind::word`], for messages.
    pub const WORDS: &'static [&'static str] = &[
        "any",
        "absent",
        "bool",
        "int",
        "float",
        "number",
        "string",
        "array",
        "object",
        "json",
        "unordered",
        "either",
    ];
}

impl Hole {
    /// A required hole that captures nothing.
    pub const fn of(kind: HoleKind) -> Hole {
        Hole {
            capture: None,
            kind,
            optional: false,
        }
    }

    /// The hole as a fixture writes it.
    pub fn source(&self) -> String {
        let name = self
            .capture
            .as_ref()
            .map(|name| format!("{name}:"))
            .unwrap_or_default();
        let mark = if self.optional { "?" } else { "" };
        let detail = match &self.kind {
            HoleKind::Int { min, max } if min.is_some() || max.is_some() => {
                let bound =
                    |bound: &Option<i64>| bound.map(|value| value.to_string()).unwrap_or_default();
                format!(" {}..{}", bound(min), bound(max))
            }
            HoleKind::String(Some(regex)) => format!("~{regex}"),
            HoleKind::JsonText(pattern) => format!(" {}", pattern.source()),
            HoleKind::Unordered { items, open } => format!(" [{}]", listed(items, *open, ", ")),
            HoleKind::Either(items) => format!(" [{}]", listed(items, false, ", ")),
            _ => String::new(),
        };
        format!("<{name}{}{mark}{detail}>", self.kind.word())
    }

    pub(super) fn to_json(&self) -> Json {
        let mut members = IndexMap::new();
        members.insert("$hole".to_owned(), Json::from(self.kind.word()));
        if let Some(name) = &self.capture {
            members.insert("$capture".to_owned(), Json::from(name.as_str()));
        }
        if self.optional {
            members.insert("$optional".to_owned(), Json::from(true));
        }
        match &self.kind {
            HoleKind::Int { min, max } => {
                for (key, bound) in [("$min", min), ("$max", max)] {
                    if let Some(bound) = bound {
                        members.insert(key.to_owned(), Json::from(*bound));
                    }
                }
            }
            HoleKind::String(Some(regex)) => {
                members.insert("$regex".to_owned(), Json::from(regex.as_str()));
            }
            HoleKind::JsonText(pattern) => {
                members.insert("$pattern".to_owned(), pattern.to_json());
            }
            HoleKind::Unordered { items, open } => {
                members.insert("$items".to_owned(), list_to_json(items, *open));
            }
            HoleKind::Either(items) => {
                members.insert("$items".to_owned(), list_to_json(items, false));
            }
            _ => {}
        }
        Json::Object(members)
    }

    pub(super) fn from_json(json: &Json) -> Result<Hole, EncodingError> {
        let bound = |key: &'static str| match json.get(key) {
            None => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or(EncodingError::Bound(key)),
        };
        let word = json
            .get("$hole")
            .and_then(Json::as_str)
            .ok_or(EncodingError::HoleKind)?;
        let kind = match word {
            "any" => HoleKind::Any,
            "absent" => HoleKind::Absent,
            "bool" => HoleKind::Bool,
            "int" => HoleKind::Int {
                min: bound("$min")?,
                max: bound("$max")?,
            },
            "float" => HoleKind::Float,
            "number" => HoleKind::Number,
            "string" => {
                HoleKind::String(json.get("$regex").and_then(Json::as_str).map(str::to_owned))
            }
            "array" => HoleKind::Array,
            "object" => HoleKind::Object,
            "json" => {
                let pattern = json.get("$pattern").ok_or(EncodingError::HolePattern)?;
                HoleKind::JsonText(Box::new(Pattern::from_json(pattern)?))
            }
            "unordered" | "either" => {
                let list = json.get("$items").map(Pattern::from_json).transpose()?;
                match (word, list) {
                    ("either", Some(Pattern::Array { items, open: false })) => {
                        HoleKind::Either(items)
                    }
                    ("unordered", Some(Pattern::Array { items, open })) => {
                        HoleKind::Unordered { items, open }
                    }
                    _ => return Err(EncodingError::HoleItems),
                }
            }
            other => return Err(EncodingError::UnknownHole(other.to_owned())),
        };
        Ok(Hole {
            capture: json
                .get("$capture")
                .and_then(Json::as_str)
                .map(str::to_owned),
            kind,
            optional: json
                .get("$optional")
                .and_then(Json::as_bool)
                .unwrap_or(false),
        })
    }
}

/// Elements as a fixture writes them, with this separator.
fn listed(items: &[Pattern], open: bool, separator: &str) -> String {
    let mut parts: Vec<String> = items.iter().map(Pattern::source).collect();
    if open {
        parts.push("\"...\"".to_owned());
    }
    parts.join(separator)
}

/// Elements as the bundle holds them.
fn list_to_json(items: &[Pattern], open: bool) -> Json {
    let mut items: Vec<Json> = items.iter().map(Pattern::to_json).collect();
    if open {
        items.push(Json::object([("$more", Json::from(true))]));
    }
    Json::Array(items)
}

impl Pattern {
    /// A pattern that matches this value only.
    pub fn exactly(json: &Json) -> Pattern {
        match json {
            Json::Array(items) => Pattern::Array {
                items: items.iter().map(Pattern::exactly).collect(),
                open: false,
            },
            Json::Object(members) => Pattern::Object {
                members: members
                    .iter()
                    .map(|(key, value)| (key.clone(), Pattern::exactly(value)))
                    .collect(),
                open: false,
            },
            scalar => Pattern::Exact(scalar.clone()),
        }
    }

    /// The pattern as a fixture writes it, on one line.
    pub fn source(&self) -> String {
        match self {
            Pattern::Exact(json) => json.to_string(),
            Pattern::Text(text) => Json::from(text.source()).to_string(),
            Pattern::Hole(hole) => hole.source(),
            Pattern::Use(name) => format!("{{{{{name}}}}}"),
            Pattern::Array { items, open } => format!("[{}]", listed(items, *open, ",")),
            Pattern::Object { members, open } => {
                let mut parts: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{}:{}", Json::from(key.as_str()), value.source()))
                    .collect();
                if *open {
                    parts.push("\"...\":\"...\"".to_owned());
                }
                format!("{{{}}}", parts.join(","))
            }
        }
    }

    /// The JSON that the bundle holds for this pattern.
    pub fn to_json(&self) -> Json {
        match self {
            Pattern::Exact(json) => json.clone(),
            Pattern::Text(text) => text.to_json(),
            Pattern::Hole(hole) => hole.to_json(),
            Pattern::Use(name) => Json::object([("$use", Json::from(name.as_str()))]),
            Pattern::Array { items, open } => list_to_json(items, *open),
            Pattern::Object { members, open } => {
                let escaped = |key: &String| {
                    if key.starts_with('$') {
                        format!("${key}")
                    } else {
                        key.clone()
                    }
                };
                let mut encoded: IndexMap<String, Json> = members
                    .iter()
                    .map(|(key, value)| (escaped(key), value.to_json()))
                    .collect();
                if *open {
                    encoded.insert("$open".to_owned(), Json::from(true));
                }
                Json::Object(encoded)
            }
        }
    }

    /// Reads the JSON of a bundle.
    ///
    /// # Errors
    /// When it is not the JSON of a pattern.
    pub fn from_json(json: &Json) -> Result<Pattern, EncodingError> {
        match json {
            Json::Array(items) => {
                let open = items.last().is_some_and(|last| last.get("$more").is_some());
                let items = &items[..items.len() - usize::from(open)];
                Ok(Pattern::Array {
                    items: items
                        .iter()
                        .map(Pattern::from_json)
                        .collect::<Result<_, _>>()?,
                    open,
                })
            }
            Json::Object(members) if members.contains_key("$hole") => {
                Hole::from_json(json).map(Pattern::Hole)
            }
            Json::Object(members) if members.contains_key("$text") => {
                Text::from_json(json).map(Pattern::Text)
            }
            Json::Object(members) if members.contains_key("$use") => {
                let name = json
                    .get("$use")
                    .and_then(Json::as_str)
                    .ok_or(EncodingError::UsedName)?;
                Ok(Pattern::Use(name.to_owned()))
            }
            Json::Object(members) => {
                let mut decoded = IndexMap::new();
                for (key, value) in members.iter().filter(|(key, _)| *key != "$open") {
                    let key = match key.strip_prefix('$') {
                        Some(rest) if rest.starts_with('$') => rest,
                        Some(_) => return Err(EncodingError::UnknownMember(key.clone())),
                        None => key,
                    };
                    decoded.insert(key.to_owned(), Pattern::from_json(value)?);
                }
                Ok(Pattern::Object {
                    members: decoded,
                    open: members.contains_key("$open"),
                })
            }
            scalar => Ok(Pattern::Exact(scalar.clone())),
        }
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        Pattern::from_json(&Json::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "JSON that must be met exactly, save where a member starts with $: {\"$hole\": kind}, {\"$text\": parts}, \
                            {\"$use\": captured name}, \"$open\": true allows further members, {\"$more\": true} as the last element \
                            allows further elements. A literal member that starts with $ has one $ more."
        })
    }
}

impl JsonSchema for Hole {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Hole".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let pattern = generator.subschema_for::<Pattern>();
        schemars::json_schema!({
            "type": "object",
            "required": ["$hole"],
            "additionalProperties": false,
            "properties": {
                "$hole": {"enum": HoleKind::WORDS},
                "$capture": {"type": "string"},
                "$optional": {"type": "boolean"},
                "$min": {"type": "integer"},
                "$max": {"type": "integer"},
                "$regex": {"type": "string"},
                "$pattern": pattern.clone(),
                "$items": {"type": "array", "items": pattern}
            }
        })
    }
}
