//! Answers as data: objects of named fields that know which of their texts come from outside, so that these can be scrubbed first, and
//! the answer cut and written afterwards. All answers are written here.
//!
//! Knows nothing of profiles, limits or envelopes.

use ptc_json::{write_float, write_string};
use ptc_secrets::{Redactor, Scrub, Scrubbed, scrub_json_text};
use std::borrow::Cow;

/// An object with its fields in ascending order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload {
    fields: Vec<(Name, Field)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Name {
    /// A name that the server chose. Never scrubbed: a client could not read the answer.
    Own(Cow<'static, str>),
    Outside(String),
}

/// One value of a payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field {
    /// `null`
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    /// A double; written as `null` when it is not finite.
    Float(f64),
    /// A text that comes from outside, at least in part.
    Text(String),
    /// A word that the server chose. Never scrubbed.
    Own(Cow<'static, str>),
    /// A text that was scrubbed when it was composed.
    Clean(Scrubbed<String>),
    /// JSON text that must be exact: it is omitted when scrubbing would change it. The preview is shown in its place when it is too
    /// large.
    Exact(String, Option<Preview>),
    /// JSON text from outside: its strings and keys are scrubbed.
    Json(String),
    /// JSON text that the server wrote. Never scrubbed.
    OwnJson(Cow<'static, str>),
    List(Vec<Field>),
    Object(Payload),
}

/// The preview of a value that is too large, and whether it leaves something out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    pub text: String,
    pub truncated: bool,
}

impl Payload {
    pub fn new() -> Self {
        Payload::default()
    }

    /// An empty payload with capacity for `fields` fields.
    pub(crate) fn with_room(fields: usize) -> Self {
        Payload {
            fields: Vec::with_capacity(fields),
        }
    }

    /// Sets a field, replacing an existing one.
    pub fn set(&mut self, name: impl Into<Name>, value: impl Into<Field>) -> &mut Self {
        let field = (name.into(), value.into());
        let last = self.fields.last();
        if last.is_none_or(|(last, _)| last.text() < field.0.text()) {
            self.fields.push(field);
            return self;
        }
        let order = |other: &(Name, Field)| other.0.text().cmp(field.0.text());
        match self.fields.binary_search_by(order) {
            Ok(at) => self.fields[at].1 = field.1,
            Err(at) => self.fields.insert(at, field),
        }
        self
    }

    /// Like [`set`](Self::set), for building in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<Name>, value: impl Into<Field>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets all members of another object.
    pub fn add(&mut self, members: impl Into<Payload>) -> &mut Self {
        for (name, value) in members.into().fields {
            self.set(name, value);
        }
        self
    }

    pub fn get(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|at| &self.fields[at].1)
    }

    /// The text of a field that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Field::as_text)
    }

    /// True when the field is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some(&Field::Bool(true))
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) -> Option<Field> {
        self.position(name).map(|at| self.fields.remove(at).1)
    }

    /// Keeps the fields whose names pass.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.fields.retain(|(name, _)| keep(name.text()));
    }

    /// A copy of all fields except one, which may be large.
    #[must_use]
    pub fn without(&self, name: &str) -> Payload {
        let rest = self.fields.iter().filter(|field| field.0.text() != name);
        Payload {
            fields: rest.cloned().collect(),
        }
    }

    /// The fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, value)| (name.text(), value))
    }

    /// True when there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The object as text for [`Payload::from_stored_text`]; it preserves which parts are to be scrubbed.
    pub fn to_stored_text(&self) -> String {
        Field::Object(self.clone()).to_stored_text().to_string()
    }

    /// The object that [`Payload::to_stored_text`] wrote.
    pub fn from_stored_text(text: &str) -> Option<Payload> {
        match Field::from_stored_text(serde_json::from_str(text).ok()?)? {
            Field::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Appends the object as compact JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (name, value)) in self.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(out, name.text());
            out.push(b':');
            value.write(out);
        }
        out.push(b'}');
    }

    /// The object as compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).expect("JSON written from strings is UTF-8")
    }

    /// The position of a field. A linear search: objects have few fields, and most names already differ in length.
    fn position(&self, name: &str) -> Option<usize> {
        self.fields
            .iter()
            .position(|(other, _)| other.text() == name)
    }
}

impl Name {
    fn text(&self) -> &str {
        match self {
            Name::Own(text) => text,
            Name::Outside(text) => text,
        }
    }
}

impl FromIterator<(Name, Field)> for Payload {
    /// Of fields with the same name the last one counts.
    fn from_iter<T: IntoIterator<Item = (Name, Field)>>(fields: T) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| a.text().cmp(b.text()));
        fields.dedup_by(|later, earlier| {
            let same = later.0.text() == earlier.0.text();
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        Payload { fields }
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Name::Own(Cow::Borrowed(name))
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Name::Outside(name)
    }
}

impl Field {
    /// Its kind and value. Text that was scrubbed when it was composed is scrubbed again after it is read.
    fn to_stored_text(&self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Field::Null => json!(["null"]),
            Field::Bool(on) => json!(["bool", on]),
            Field::Int(int) => json!(["int", int]),
            Field::Float(float) => json!(["float", float]),
            Field::Text(text) => json!(["text", text]),
            Field::Clean(text) => json!(["text", text.as_str()]),
            Field::Own(text) => json!(["own", text]),
            Field::Exact(text, _) => json!(["exact", text]),
            Field::Json(text) => json!(["json", text]),
            Field::OwnJson(text) => json!(["own-json", text]),
            Field::List(items) => {
                json!([
                    "list",
                    items.iter().map(Field::to_stored_text).collect::<Vec<_>>()
                ])
            }
            Field::Object(object) => {
                let fields = object.fields.iter().map(|(name, field)| {
                    let own = matches!(name, Name::Own(_));
                    json!([own, name.text(), field.to_stored_text()])
                });
                json!(["object", fields.collect::<Vec<_>>()])
            }
        }
    }

    fn from_stored_text(value: serde_json::Value) -> Option<Field> {
        use serde_json::Value;
        let Value::Array(parts) = value else {
            return None;
        };
        let mut parts = parts.into_iter();
        let kind = parts.next()?;
        let rest = parts.next();
        Some(match (kind.as_str()?, rest) {
            ("null", None) => Field::Null,
            ("bool", Some(Value::Bool(on))) => Field::Bool(on),
            ("int", Some(int)) => Field::Int(int.as_i64()?),
            ("float", Some(float)) => Field::Float(float.as_f64()?),
            ("text", Some(Value::String(text))) => Field::Text(text),
            ("own", Some(Value::String(text))) => Field::Own(Cow::Owned(text)),
            ("exact", Some(Value::String(text))) => Field::Exact(text, None),
            ("json", Some(Value::String(text))) => Field::Json(text),
            ("own-json", Some(Value::String(text))) => Field::OwnJson(Cow::Owned(text)),
            ("list", Some(Value::Array(items))) => Field::List(
                items
                    .into_iter()
                    .map(Field::from_stored_text)
                    .collect::<Option<_>>()?,
            ),
            ("object", Some(Value::Array(fields))) => {
                let mut object = Payload::new();
                for field in fields {
                    let Value::Array(parts) = field else {
                        return None;
                    };
                    let [own, name, field] = <[Value; 3]>::try_from(parts).ok()?;
                    let name = name.as_str()?.to_owned();
                    let name = match own.as_bool()? {
                        true => Name::Own(Cow::Owned(name)),
                        false => Name::Outside(name),
                    };
                    object.set(name, Field::from_stored_text(field)?);
                }
                Field::Object(object)
            }
            _ => return None,
        })
    }

    /// Appends the value as compact JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Field::Null => out.extend_from_slice(b"null"),
            Field::Bool(true) => out.extend_from_slice(b"true"),
            Field::Bool(false) => out.extend_from_slice(b"false"),
            Field::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Field::Float(value) => write_float(out, *value),
            Field::Text(text) => write_string(out, text),
            Field::Own(text) => write_string(out, text),
            Field::Clean(text) => write_string(out, text),
            Field::Exact(json, _) | Field::Json(json) => out.extend_from_slice(json.as_bytes()),
            Field::OwnJson(json) => out.extend_from_slice(json.as_bytes()),
            Field::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Field::Object(object) => object.write(out),
        }
    }

    /// Bytes of the value as compact JSON.
    pub fn json_bytes(&self) -> usize {
        let mut out = Vec::new();
        self.write(&mut out);
        out.len()
    }

    /// A word that the server chose: an id, a hash, a name of a closed list.
    pub fn word(word: impl Into<Cow<'static, str>>) -> Self {
        Field::Own(word.into())
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Field::Text(text) => Some(text),
            Field::Own(text) => Some(text),
            Field::Clean(text) => Some(text),
            _ => None,
        }
    }

    /// True when there is nothing to show: null, or an empty text, list or object.
    pub fn is_blank(&self) -> bool {
        match self {
            Field::Null => true,
            Field::Text(_) | Field::Own(_) | Field::Clean(_) => {
                self.as_text().is_some_and(str::is_empty)
            }
            Field::List(items) => items.is_empty(),
            Field::Object(object) => object.is_empty(),
            _ => false,
        }
    }
}

impl From<&serde_json::Value> for Field {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Field::Null,
            Value::Bool(on) => Field::Bool(*on),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(int), _) => Field::Int(int),
                (None, Some(float)) if number.is_f64() => Field::Float(float),
                _ => Field::Json(number.to_string()),
            },
            Value::String(text) => Field::Text(text.clone()),
            Value::Array(items) => Field::List(items.iter().map(Field::from).collect()),
            Value::Object(entries) => {
                let mut object = Payload::new();
                for (name, value) in entries {
                    object.set(name.clone(), value);
                }
                Field::Object(object)
            }
        }
    }
}

impl From<bool> for Field {
    fn from(value: bool) -> Self {
        Field::Bool(value)
    }
}

impl From<String> for Field {
    fn from(value: String) -> Self {
        Field::Text(value)
    }
}

impl From<&'static str> for Field {
    fn from(value: &'static str) -> Self {
        Field::Own(Cow::Borrowed(value))
    }
}

impl From<Scrubbed<String>> for Field {
    fn from(value: Scrubbed<String>) -> Self {
        Field::Clean(value)
    }
}

impl From<f64> for Field {
    fn from(value: f64) -> Self {
        Field::Float(value)
    }
}

impl From<u32> for Field {
    fn from(value: u32) -> Self {
        Field::Int(value.into())
    }
}

/// A word that the server chose: an id, a name of a closed list. Never scrubbed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(pub String);

impl From<Word> for Field {
    fn from(value: Word) -> Self {
        Field::word(value.0)
    }
}

impl From<i64> for Field {
    fn from(value: i64) -> Self {
        Field::Int(value)
    }
}

impl From<usize> for Field {
    fn from(value: usize) -> Self {
        Field::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u64> for Field {
    fn from(value: u64) -> Self {
        Field::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&String> for Field {
    fn from(value: &String) -> Self {
        Field::Text(value.clone())
    }
}

impl From<Payload> for Field {
    fn from(value: Payload) -> Self {
        Field::Object(value)
    }
}

impl<T: Into<Field>> From<Vec<T>> for Field {
    fn from(values: Vec<T>) -> Self {
        Field::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Field>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Field::Null, Into::into)
    }
}

impl Scrub for Payload {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        self.fields.retain_mut(|(_, value)| {
            if matches!(value, Field::Exact(json, _) if matches!(scrub_json_text(json, redactor), Cow::Owned(_))) {
                return false;
            }
            value.scrub_in_place(redactor);
            true
        });
        let outside = |(name, _): &(Name, Field)| matches!(name, Name::Outside(_));
        if self.fields.iter().any(outside) {
            for (name, value) in std::mem::take(&mut self.fields) {
                match name {
                    Name::Outside(name) => self.set(redactor.scrub(name).into_inner(), value),
                    own => self.set(own, value),
                };
            }
        }
    }
}

impl Scrub for Field {
    fn scrub_in_place(&mut self, redactor: &Redactor) {
        match self {
            Field::Text(text) => text.scrub_in_place(redactor),
            Field::Json(json) => {
                if let Cow::Owned(clean) = scrub_json_text(json, redactor) {
                    *json = clean;
                }
            }
            Field::List(items) => items.scrub_in_place(redactor),
            Field::Object(object) => object.scrub_in_place(redactor),
            Field::Null
            | Field::Bool(_)
            | Field::Int(_)
            | Field::Float(_)
            | Field::Own(_)
            | Field::Clean(_)
            | Field::Exact(..)
            | Field::OwnJson(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_ordered_and_replaced() {
        let mut payload = Payload::new()
            .with("status", "ok")
            .with("prints", vec!["a\n"]);
        payload
            .set("status", "error")
            .set("n", 3usize)
            .set("x", 2.0);
        assert_eq!(
            payload.to_json(),
            r#"{"n":3,"prints":["a\n"],"status":"error","x":2.0}"#
        );
    }
}
