//! Matches values against types and says what does not fit. Knows nothing of JSON or payloads.

use std::fmt::Write as _;

use ptc_lang::Value;
use ptc_lang::value::Map;

use crate::signature::{Prim, Type};

/// At most this many mismatches are reported for one value.
const MISMATCHES_MAX: usize = 20_000;

/// One step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A field, as the type declares it (an undeclared one as the value has it).
    Field(String),
    /// A 0-based index.
    Index(usize),
}

/// Something in a value that its type does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where; empty for the value itself.
    pub path: Vec<Segment>,
    /// `expected int, got string`.
    pub message: String,
}

/// Checks a value against a type. Undeclared keys are ignored, except by a closed map.
///
/// # Errors
/// Every mismatch in the order of the declared fields (at most 20,000).
pub fn validate_return(expected: &Type, value: &Value) -> Result<(), Vec<Mismatch>> {
    let mut check = Check {
        path: Vec::new(),
        mismatches: Vec::new(),
    };
    check.value(expected, value);
    if check.mismatches.is_empty() {
        Ok(())
    } else {
        Err(check.mismatches)
    }
}

/// `a.0: expected int, got string; b: …`, each path under `root` when that is given (`return.a.0`), else the
/// path alone, with `root` for the value itself.
#[must_use]
pub fn describe_mismatches(mismatches: &[Mismatch], root: Option<&str>) -> String {
    let mut text = String::new();
    for (i, mismatch) in mismatches.iter().enumerate() {
        if i > 0 {
            text.push_str("; ");
        }
        let start = text.len();
        text.push_str(root.unwrap_or_default());
        for segment in &mismatch.path {
            let dot = if text.len() > start { "." } else { "" };
            let _ = match segment {
                Segment::Field(name) => write!(text, "{dot}{name}"),
                Segment::Index(index) => write!(text, "{dot}{index}"),
            };
        }
        if mismatch.path.is_empty() && root.is_none() {
            text.push_str("root");
        }
        let _ = write!(text, ": {}", mismatch.message);
    }
    text
}

/// The value under a field name: `-` read as `_`, then the name as declared, then `_` read as `-`; for each
/// spelling the keyword before the string. The key is returned as stored.
pub(crate) fn find_field<'m>(map: &'m Map, field: &str) -> Option<(&'m Value, &'m Value)> {
    let spellings = [
        field.replace('-', "_"),
        field.to_owned(),
        field.replace('_', "-"),
    ];
    for (i, spelling) in spellings.iter().enumerate() {
        if spellings[..i].contains(spelling) {
            continue;
        }
        let name = ptc_lang::value::Text::from(spelling.as_str());
        for key in [Value::Keyword(name.clone()), Value::Str(name.clone())] {
            if let Some(entry) = map.entry(&key) {
                return Some(entry);
            }
        }
    }
    None
}

/// What a value is, in the words of the signature grammar where it has one.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Vector(_) => "list",
        Value::Instant(_) => "datetime",
        other => other.kind().word(),
    }
}

struct Check {
    path: Vec<Segment>,
    mismatches: Vec<Mismatch>,
}

impl Check {
    fn value(&mut self, expected: &Type, value: &Value) {
        match (expected, value) {
            (Type::Prim(prim), _) => {
                if !prim_accepts(*prim, value) {
                    self.expected(prim.name(), value);
                }
            }
            (Type::Optional(_), Value::Nil) => {}
            (Type::Optional(inner), _) => self.value(inner, value),
            (Type::List(item), Value::Vector(items)) => {
                for (i, value) in items.iter().enumerate() {
                    if self.mismatches.len() >= MISMATCHES_MAX {
                        return;
                    }
                    self.at(Segment::Index(i), |check| check.value(item, value));
                }
            }
            (Type::List(_), _) => self.expected("list", value),
            (Type::Map(fields), Value::Map(map)) => self.fields(fields, map),
            (Type::ClosedMap(fields), Value::Map(map)) => {
                self.fields(fields, map);
                self.undeclared(fields, map);
            }
            (Type::Map(_) | Type::ClosedMap(_), _) => self.expected("map", value),
        }
    }

    fn fields(&mut self, fields: &[(String, Type)], map: &Map) {
        for (name, expected) in fields {
            self.at(Segment::Field(name.clone()), |check| {
                match find_field(map, name) {
                    Some((_, value)) => check.value(expected, value),
                    None if expected.is_optional() => {}
                    None => check.report("expected field, got nil".to_owned()),
                }
            });
        }
    }

    fn undeclared(&mut self, fields: &[(String, Type)], map: &Map) {
        let declared: Vec<&Value> = fields
            .iter()
            .filter_map(|(name, _)| find_field(map, name))
            .map(|(key, _)| key)
            .collect();
        for key in map.keys() {
            if declared.iter().any(|known| std::ptr::eq(*known, key)) {
                continue;
            }
            let shown = key.key_text().map_or_else(
                || ptc_lang::print::readable(key),
                |text| text.as_str().to_owned(),
            );
            self.at(Segment::Field(shown), |check| {
                check
                    .report("unexpected field — schema disallows additional properties".to_owned());
            });
        }
    }

    fn at(&mut self, segment: Segment, inside: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        inside(self);
        self.path.pop();
    }

    fn expected(&mut self, expected: &str, got: &Value) {
        self.report(format!("expected {expected}, got {}", word(got)));
    }

    fn report(&mut self, message: String) {
        if self.mismatches.len() < MISMATCHES_MAX {
            self.mismatches.push(Mismatch {
                path: self.path.clone(),
                message,
            });
        }
    }
}

fn prim_accepts(prim: Prim, value: &Value) -> bool {
    match prim {
        Prim::Any => true,
        Prim::String => matches!(value, Value::Str(_)),
        Prim::Int => matches!(value, Value::Int(_) | Value::BigInt(_)),
        Prim::Float => matches!(value, Value::Int(_) | Value::BigInt(_) | Value::Float(_)),
        Prim::Bool => matches!(value, Value::Bool(_)),
        Prim::Map => matches!(value, Value::Map(_)),
        Prim::Datetime => matches!(value, Value::Instant(_)),
        Prim::Keyword => match value {
            Value::Keyword(_) => true,
            Value::Str(text) => is_keyword_name(text.as_str()),
            _ => false,
        },
    }
}

/// Whether JSON text can stand for a keyword of this name.
pub(crate) fn is_keyword_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+*<>=?!_-".contains(&b))
}
