//! Text with computed parts: repetitions, bytes, captured values, holes. Used both for
//! what is sent (without holes) and for what is expected. Knows JSON, but nothing of fixtures or targets.

use std::collections::HashMap;
use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::encoding::EncodingError;
use super::pattern::Hole;
use crate::json::Json;

/// Maximum size of an expanded text, in bytes. A fixture that exceeds it is malformed.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// Values captured so far, by name.
pub type Captures = HashMap<String, Json>;

/// A text made of parts. In the bundle: a plain string when it is purely literal, else
/// `{"$text": [part, …]}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// The parts, in order; literal parts are never empty and never adjacent.
    pub parts: Vec<Part>,
}

/// A part of a text. In the bundle: a string for a literal part, else an object with one member, whose name is
/// given in parentheses here.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Literal text.
    Lit(String),
    /// Bytes that need not be UTF-8 (`hex`: two digits each).
    Bytes(Vec<u8>),
    /// `{{repeat:N:text}}` (`repeat`: `{"count", "text"}`).
    Repeat {
        /// The number of repetitions.
        count: u64,
        /// The repeated text.
        text: Text,
    },
    /// `{{fill:N:c}}` (`fill`: `{"bytes", "text"}`): `c` repeated until the whole text has
    /// `N` bytes.
    Fill {
        /// Size of the whole text in bytes.
        bytes: u64,
        /// One ASCII character.
        text: String,
    },
    /// `{{name}}` (`use`: `{"name", "as"}`): a captured value.
    Use {
        /// The name of the capture.
        name: String,
        /// How the value is written.
        form: CaptureForm,
    },
    /// `<…>` (`hole`): text to be matched; only in expectations.
    Hole(Hole),
}

/// How a captured value is written into a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureForm {
    /// As JSON: a string is quoted (`json`).
    Json,
    /// As the inside of a JSON string: a string is escaped, without quotes (`string`).
    InString,
    /// Unquoted: the contents of a string, or the JSON of any other value (`plain`).
    Plain,
}

/// Why a text can't be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Nothing was captured under this name.
    #[error("nothing was captured as {0}")]
    Unbound(String),
    /// A hole has no bytes that could be sent.
    #[error("a hole stands where text is sent")]
    Hole,
    /// The other parts are already longer than the size that the fill asks for.
    #[error("fill to {asked} bytes, but {present} bytes are there already")]
    Overfull {
        /// The size asked for, in bytes.
        asked: u64,
        /// The size of the other parts, in bytes.
        present: u64,
    },
    /// The text exceeds [`TEXT_BYTES_MAX`].
    #[error("the text grows beyond {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// The bytes are not UTF-8, where text is needed.
    #[error("the bytes are not UTF-8")]
    NotUtf8,
}

impl Text {
    /// A purely literal text.
    pub fn plain(text: impl Into<String>) -> Text {
        let text = text.into();
        Text {
            parts: if text.is_empty() {
                Vec::new()
            } else {
                vec![Part::Lit(text)]
            },
        }
    }

    /// The text, if it is purely literal.
    pub fn as_plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Lit(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text contains a hole.
    pub fn has_holes(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Hole(_)))
    }

    /// The expanded size in bytes, not counting captured values and holes.
    pub fn size(&self) -> u64 {
        self.parts.iter().fold(0, |size: u64, part| {
            size.saturating_add(match part {
                Part::Lit(text) => text.len() as u64,
                Part::Bytes(bytes) => bytes.len() as u64,
                Part::Repeat { count, text } => count.saturating_mul(text.size()),
                Part::Fill { bytes, .. } => *bytes,
                Part::Use { .. } | Part::Hole(_) => 0,
            })
        })
    }

    /// The bytes to be sent.
    ///
    /// # Errors
    /// When a capture is missing, the text contains a hole, the other parts exceed a fill, or the text grows too long.
    pub fn bytes(&self, captures: &Captures) -> Result<Vec<u8>, ExpandError> {
        let mut out = Vec::new();
        let mut fill = None;
        for part in &self.parts {
            match part {
                Part::Lit(text) => append(&mut out, text.as_bytes(), 1)?,
                Part::Bytes(bytes) => append(&mut out, bytes, 1)?,
                Part::Repeat { count, text } => append(&mut out, &text.bytes(captures)?, *count)?,
                Part::Fill { bytes, text } => fill = Some((out.len(), *bytes, text)),
                Part::Use { name, form } => {
                    let value = captures
                        .get(name)
                        .ok_or_else(|| ExpandError::Unbound(name.clone()))?;
                    append(&mut out, written(value, *form).as_bytes(), 1)?;
                }
                Part::Hole(_) => return Err(ExpandError::Hole),
            }
        }
        if let Some((at, asked, unit)) = fill {
            let present = out.len() as u64;
            let missing = asked
                .checked_sub(present)
                .ok_or(ExpandError::Overfull { asked, present })?;
            let mut filling = Vec::new();
            append(&mut filling, unit.as_bytes(), missing)?;
            out.splice(at..at, filling);
        }
        Ok(out)
    }

    /// The bytes to be sent, as text.
    ///
    /// # Errors
    /// As [`Text::bytes`], and when the bytes are not UTF-8.
    pub fn string(&self, captures: &Captures) -> Result<String, ExpandError> {
        String::from_utf8(self.bytes(captures)?).map_err(|_| ExpandError::NotUtf8)
    }

    /// The text in one line, for display: computed parts in the notation of fixtures.
    pub fn source(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Lit(text) => out.push_str(text),
                Part::Bytes(bytes) => bytes.iter().for_each(|byte| {
                    write!(out, "\\x{byte:02X}").expect("a String takes every write");
                }),
                Part::Repeat { count, text } => {
                    write!(out, "{{{{repeat:{count}:{}}}}}", text.source())
                        .expect("a String takes every write");
                }
                Part::Fill { bytes, text } => {
                    write!(out, "{{{{fill:{bytes}:{text}}}}}").expect("a String takes every write");
                }
                Part::Use { name, .. } => {
                    write!(out, "{{{{{name}}}}}").expect("a String takes every write");
                }
                Part::Hole(hole) => out.push_str(&hole.source()),
            }
        }
        out
    }

    /// The JSON that the bundle holds for this text.
    pub fn to_json(&self) -> Json {
        match self.as_plain() {
            Some(text) => Json::from(text),
            None => Json::object([(
                "$text",
                Json::Array(self.parts.iter().map(Part::to_json).collect()),
            )]),
        }
    }

    /// Reads the JSON of a bundle.
    ///
    /// # Errors
    /// When it is not the JSON of a text.
    pub fn from_json(json: &Json) -> Result<Text, EncodingError> {
        match (json, json.get("$text")) {
            (Json::String(text), _) => Ok(Text::plain(text.as_str())),
            (_, Some(Json::Array(parts))) => Ok(Text {
                parts: parts
                    .iter()
                    .map(Part::from_json)
                    .collect::<Result<_, _>>()?,
            }),
            _ => Err(EncodingError::Text { found: json.kind() }),
        }
    }
}

fn append(out: &mut Vec<u8>, unit: &[u8], count: u64) -> Result<(), ExpandError> {
    let count = usize::try_from(count).map_err(|_| ExpandError::TooLong)?;
    let grown = count.checked_mul(unit.len());
    match grown.and_then(|bytes| bytes.checked_add(out.len())) {
        Some(total) if total <= TEXT_BYTES_MAX => {
            out.extend_from_slice(&unit.repeat(count));
            Ok(())
        }
        _ => Err(ExpandError::TooLong),
    }
}

fn written(value: &Json, form: CaptureForm) -> String {
    match (value, form) {
        (Json::String(text), CaptureForm::Plain) => text.clone(),
        (Json::String(_), CaptureForm::InString) => {
            let quoted = value.to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        (value, _) => value.to_string(),
    }
}

impl Part {
    fn to_json(&self) -> Json {
        match self {
            Part::Lit(text) => Json::from(text.as_str()),
            Part::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Json::object([("hex", Json::from(digits))])
            }
            Part::Repeat { count, text } => {
                let inner = [
                    ("count", Json::from(*count as i64)),
                    ("text", text.to_json()),
                ];
                Json::object([("repeat", Json::object(inner))])
            }
            Part::Fill { bytes, text } => {
                let inner = [
                    ("bytes", Json::from(*bytes as i64)),
                    ("text", Json::from(text.as_str())),
                ];
                Json::object([("fill", Json::object(inner))])
            }
            Part::Use { name, form } => {
                let form = match form {
                    CaptureForm::Json => "json",
                    CaptureForm::InString => "string",
                    CaptureForm::Plain => "plain",
                };
                Json::object([(
                    "use",
                    Json::object([
                        ("name", Json::from(name.as_str())),
                        ("as", Json::from(form)),
                    ]),
                )])
            }
            Part::Hole(hole) => Json::object([("hole", hole.to_json())]),
        }
    }

    fn from_json(json: &Json) -> Result<Part, EncodingError> {
        if let Some(text) = json.as_str() {
            return Ok(Part::Lit(text.to_owned()));
        }
        let members = json.as_object().filter(|members| members.len() == 1);
        let Some((name, value)) = members.and_then(|members| members.get_index(0)) else {
            return Err(EncodingError::Part);
        };
        let count = |member: &'static str| {
            let count = value
                .get(member)
                .and_then(Json::as_i64)
                .and_then(|count| u64::try_from(count).ok());
            count.ok_or_else(|| EncodingError::Count {
                member,
                part: name.clone(),
            })
        };
        let word = |member: &'static str| {
            value
                .get(member)
                .and_then(Json::as_str)
                .ok_or_else(|| EncodingError::Word {
                    member,
                    part: name.clone(),
                })
        };
        match name.as_str() {
            "hex" => {
                let digits = value.as_str().ok_or(EncodingError::Digits)?.as_bytes();
                let byte = |pair: &[u8]| {
                    let text = std::str::from_utf8(pair)
                        .ok()
                        .filter(|text| text.len() == 2);
                    text.and_then(|text| u8::from_str_radix(text, 16).ok())
                };
                let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
                bytes.map(Part::Bytes).ok_or(EncodingError::Digits)
            }
            "repeat" => {
                let text = value.get("text").ok_or(EncodingError::RepeatedText)?;
                Ok(Part::Repeat {
                    count: count("count")?,
                    text: Text::from_json(text)?,
                })
            }
            "fill" => Ok(Part::Fill {
                bytes: count("bytes")?,
                text: word("text")?.to_owned(),
            }),
            "use" => {
                let form = match word("as")? {
                    "json" => CaptureForm::Json,
                    "string" => CaptureForm::InString,
                    "plain" => CaptureForm::Plain,
                    other => return Err(EncodingError::CaptureForm(other.to_owned())),
                };
                Ok(Part::Use {
                    name: word("name")?.to_owned(),
                    form,
                })
            }
            "hole" => Ok(Part::Hole(Hole::from_json(value)?)),
            other => Err(EncodingError::UnknownPart(other.to_owned())),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        Text::from_json(&Json::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = generator.subschema_for::<Text>();
        let hole = generator.subschema_for::<Hole>();
        schemars::json_schema!({
            "description": "A text: a string, or parts that are written one after the other.",
            "oneOf": [
                {"type": "string"},
                {
                    "type": "object", "required": ["$text"], "additionalProperties": false,
                    "properties": {"$text": {"type": "array", "items": {"oneOf": [
                        {"type": "string"},
                        {"type": "object", "required": ["hex"], "additionalProperties": false, "properties": {
                            "hex": {"type": "string", "pattern": "^([0-9a-f]{2})*$", "description": "Bytes."}
                        }},
                        {"type": "object", "required": ["repeat"], "additionalProperties": false, "properties": {
                            "repeat": {
                                "type": "object", "required": ["count", "text"], "additionalProperties": false,
                                "properties": {"count": {"type": "integer", "minimum": 0}, "text": text}
                            }
                        }},
                        {"type": "object", "required": ["fill"], "additionalProperties": false, "properties": {
                            "fill": {
                                "type": "object", "required": ["bytes", "text"], "additionalProperties": false,
                                "description": "The one-byte text, as often as the whole text needs to have so many bytes.",
                                "properties": {"bytes": {"type": "integer", "minimum": 0}, "text": {"type": "string"}}
                            }
                        }},
                        {"type": "object", "required": ["use"], "additionalProperties": false, "properties": {
                            "use": {
                                "type": "object", "required": ["name", "as"], "additionalProperties": false,
                                "properties": {"name": {"type": "string"}, "as": {"enum": ["json", "string", "plain"]}}
                            }
                        }},
                        {"type": "object", "required": ["hole"], "additionalProperties": false, "properties": {"hole": hole}}
                    ]}}}
                }
            ]
        })
    }
}
