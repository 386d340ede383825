//! Matches values against types and describes mismatches. Knows nothing of JSON or payloads.

use std::collections::HashSet;
use std::fmt::Write as _;

use ptc_lang::Value;
use ptc_lang::error::Limit;
use ptc_lang::meter::{Unwatched, Watch};
use ptc_lang::sink::{Sink, SinkError};
use ptc_lang::value::Map;

use crate::signature::{Prim, Type};

/// Maximum mismatches that are reported for one value.
const MISMATCHES_MAX: usize = 20_000;
/// Maximum bytes of all paths and messages; no more mismatches are reported after that, since names in a schema may be
/// long.
const MISMATCH_BYTES_MAX: usize = 1 << 20;
/// Parts of a value that are matched between two time checks.
const PARTS_BETWEEN_LOOKS: usize = 512;
/// Bytes of a name that cost about as much as one part to spell and look up.
const NAME_BYTES: usize = 32;

/// One step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A field name as the type declares it (an undeclared one as in the value).
    Field(String),
    /// A 0-based index.
    Index(usize),
}

/// A part of a value that its type does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its path; empty for the value itself.
    pub path: Vec<Segment>,
    /// `expected int, got string`.
    pub message: String,
}

/// Checks a value against a type. Undeclared keys are ignored, except by a closed map.
///
/// # Errors
/// Every mismatch in the order of the declared fields (at most 20,000).
pub fn validate_return(expected: &Type, value: &Value) -> Result<(), Vec<Mismatch>> {
    // Without a watch nothing stops it.
    validate_return_within(expected, value, &Unwatched).unwrap_or(Ok(()))
}

/// [`validate_return`] within a program's memory and time: a shared part is matched each time that it is reached.
///
/// # Errors
/// The limit that stopped the program; the inner error has the mismatches.
pub fn validate_return_within(
    expected: &Type,
    value: &Value,
    watch: &dyn Watch,
) -> Result<Result<(), Vec<Mismatch>>, Limit> {
    let mut check = ReturnChecker {
        path: Vec::new(),
        mismatches: Vec::new(),
        bytes_left: MISMATCH_BYTES_MAX,
        watch,
        until_look: PARTS_BETWEEN_LOOKS,
    };
    check.value(expected, value)?;
    Ok(match check.mismatches.is_empty() {
        true => Ok(()),
        false => Err(check.mismatches),
    })
}

/// `a.0: expected int, got string; b: …`. Each path is prefixed with `root` if given (`return.a.0`); the value itself is
/// called `root`.
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

/// The entry for a field name: tried with `-` replaced by `_`, as declared, and with `_` replaced by `-`; for each
/// spelling the keyword before the string. The key is returned as stored.
pub(crate) fn find_field<'m>(map: &'m Map, field: &str) -> Option<(&'m Value, &'m Value)> {
    let sought = |spelling: &str| {
        let name = ptc_lang::value::Text::from(spelling);
        [Value::Keyword(name.clone()), Value::Str(name)]
            .iter()
            .find_map(|key| map.entry(key))
    };
    let respelled = |from: char, to: &str| {
        let spelling = field.contains(from).then(|| field.replace(from, to))?;
        sought(&spelling)
    };
    respelled('-', "_")
        .or_else(|| sought(field))
        .or_else(|| respelled('_', "-"))
}

/// The kind of a value, in the words of the signature grammar where possible.
fn word(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Vector(_) => "list",
        Value::Instant(_) => "datetime",
        other => other.kind().word(),
    }
}

struct ReturnChecker<'w> {
    path: Vec<Segment>,
    mismatches: Vec<Mismatch>,
    bytes_left: usize,
    watch: &'w dyn Watch,
    until_look: usize,
}

impl ReturnChecker<'_> {
    fn value(&mut self, expected: &Type, value: &Value) -> Result<(), Limit> {
        self.visit()?;
        match (expected, value) {
            (Type::Prim(prim), _) => {
                if !prim_accepts(*prim, value) {
                    self.expected(prim.name(), value);
                }
            }
            (Type::Optional(_), Value::Nil) => {}
            (Type::Optional(inner), _) => self.value(inner, value)?,
            (Type::List(item), Value::Vector(items)) => {
                for (i, value) in items.iter().enumerate() {
                    if self.is_full() {
                        break;
                    }
                    self.at(Segment::Index(i), |check| check.value(item, value))?;
                }
            }
            (Type::List(_), _) => self.expected("list", value),
            (Type::Map(fields), Value::Map(map)) => self.fields(fields, map)?,
            (Type::ClosedMap(fields), Value::Map(map)) => {
                self.fields(fields, map)?;
                self.undeclared(fields, map)?;
            }
            (Type::Map(_) | Type::ClosedMap(_), _) => self.expected("map", value),
        }
        Ok(())
    }

    fn fields(&mut self, fields: &[(String, Type)], map: &Map) -> Result<(), Limit> {
        for (name, expected) in fields {
            if self.is_full() {
                break;
            }
            self.visit_named(name)?;
            self.at(Segment::Field(name.clone()), |check| {
                match find_field(map, name) {
                    Some((_, value)) => check.value(expected, value)?,
                    None if expected.is_optional() => {}
                    None => check.report("expected field, got nil".to_owned()),
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn undeclared(&mut self, fields: &[(String, Type)], map: &Map) -> Result<(), Limit> {
        let mut declared: HashSet<*const Value> = HashSet::new();
        for (name, _) in fields {
            self.visit_named(name)?;
            declared.extend(find_field(map, name).map(|(key, _)| std::ptr::from_ref(key)));
        }
        for key in map.keys() {
            if self.is_full() {
                break;
            }
            self.visit()?;
            if declared.contains(&std::ptr::from_ref(key)) {
                continue;
            }
            let shown = match key.key_text() {
                Some(text) => text.as_str().to_owned(),
                None => readable_key(key, self.watch)?,
            };
            self.at(Segment::Field(shown), |check| {
                check
                    .report("unexpected field — schema disallows additional properties".to_owned());
                Ok(())
            })?;
        }
        Ok(())
    }

    fn at(
        &mut self,
        segment: Segment,
        inside: impl FnOnce(&mut Self) -> Result<(), Limit>,
    ) -> Result<(), Limit> {
        self.path.push(segment);
        inside(self)?;
        self.path.pop();
        Ok(())
    }

    /// Counts a matched part.
    fn visit(&mut self) -> Result<(), Limit> {
        self.visit_parts(1)
    }

    /// Counts a field lookup; a long name counts as several parts.
    fn visit_named(&mut self, name: &str) -> Result<(), Limit> {
        self.visit_parts(1 + name.len() / NAME_BYTES)
    }

    fn visit_parts(&mut self, parts: usize) -> Result<(), Limit> {
        self.until_look = self.until_look.saturating_sub(parts);
        if self.until_look == 0 {
            self.until_look = PARTS_BETWEEN_LOOKS;
            self.watch.check_limits()?;
        }
        Ok(())
    }

    fn expected(&mut self, expected: &str, got: &Value) {
        self.report(format!("expected {expected}, got {}", word(got)));
    }

    fn is_full(&self) -> bool {
        self.mismatches.len() >= MISMATCHES_MAX || self.bytes_left == 0
    }

    fn report(&mut self, message: String) {
        if self.is_full() {
            return;
        }
        let names = self.path.iter().map(|segment| match segment {
            Segment::Field(name) => name.len(),
            Segment::Index(_) => 0,
        });
        let bytes: usize = names.sum::<usize>() + size_of_val(self.path.as_slice()) + message.len();
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.mismatches.push(Mismatch {
            path: self.path.clone(),
            message,
        });
    }
}

/// A key that is not a string, as the reader would read it, cut when it is long.
fn readable_key(key: &Value, watch: &dyn Watch) -> Result<String, Limit> {
    const KEY_BYTES_MAX: usize = 4_096;
    let mut out = Sink::new(String::new(), KEY_BYTES_MAX, watch);
    match ptc_lang::print::write_readable(&mut out, key) {
        Err(SinkError::Limit(limit)) => Err(limit),
        _ => Ok(out.into_text()),
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

/// Whether JSON text can represent a keyword of this name.
pub(crate) fn is_keyword_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+*<>=?!_-".contains(&b))
}
