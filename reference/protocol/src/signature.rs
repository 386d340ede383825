//! The signature language: `(a :int, b :string?) -> {x [:int]}`. Parses and renders it, and defines the
//! type tree. Knows nothing of language values; `returns` matches values against types.

use std::fmt;

/// A type of the signature language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// `:string`, `:int`, … and `:any`.
    Prim(Prim),
    /// `T?`: the value may be nil, and a field of this type may be missing.
    Optional(Box<Type>),
    /// `[T]`.
    List(Box<Type>),
    /// `{name T, …}`: fields in written order, undeclared keys allowed.
    Map(Vec<(String, Type)>),
    /// Like `Map`, but undeclared keys are errors. It has no signature text; JSON Schema has it.
    ClosedMap(Vec<(String, Type)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prim {
    String,
    /// An integer of any size.
    Int,
    /// A float; integers are accepted as well.
    Float,
    /// `true` or `false`.
    Bool,
    /// A keyword, or a string that could be the name of one.
    Keyword,
    /// A map of any shape.
    Map,
    Datetime,
    Any,
}

/// The type names in the order in which they are tried: there is no word boundary, so `boolean` has to
/// come before `bool`.
const PRIM_NAMES: &[(&str, Prim)] = &[
    ("datetime", Prim::Datetime),
    ("string", Prim::String),
    ("int", Prim::Int),
    ("float", Prim::Float),
    ("boolean", Prim::Bool),
    ("bool", Prim::Bool),
    ("keyword", Prim::Keyword),
    ("map", Prim::Map),
    ("any", Prim::Any),
];

/// Maximum nesting depth; deeper nesting is a parse error, and real signatures are far below it.
const DEPTH_MAX: usize = 128;

const HINT: &str = "\n\nHint: Valid types are :string, :int, :float, :bool, :boolean, :keyword, :map, :any, \
     :datetime. For lists use [:type], for maps use {field :type}.";

/// Parameters and return type. A bare type is a signature without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name and type of each parameter, in written order. Names may repeat.
    pub params: Vec<(String, Type)>,
    /// What the program or tool returns.
    pub returns: Type,
}

/// Why a text is not a signature. `line` is 1-based, `column` a 0-based byte offset in the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureError {
    /// 1-based line.
    pub line: usize,
    /// 0-based byte offset in the whole text, whatever the line.
    pub column: usize,
    kind: ErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    /// A complete signature, followed by something else.
    TrailingText,
    /// `:` without a known name after it.
    UnknownName,
    /// Any other error; `hint` when the text uses a type name that does not exist.
    NotAType { hint: bool },
}

/// Parses a signature: `() -> {count :int}`, or a bare type.
///
/// # Errors
/// The position and what was expected there, as one line of text (with a hint about type names when the
/// text uses one that does not exist).
pub fn parse_signature(text: &str) -> Result<Signature, SignatureError> {
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_blanks();
    let start = cursor.at;
    let parsed = cursor.signature().or_else(|| {
        cursor.at = start;
        cursor.type_(0).map(|returns| Signature {
            params: Vec::new(),
            returns,
        })
    });
    let Some(signature) = parsed else {
        return Err(not_a_signature(text, start));
    };
    cursor.skip_blanks();
    if cursor.at < text.len() {
        return Err(SignatureError::at(text, cursor.at, ErrorKind::TrailingText));
    }
    Ok(signature)
}

fn not_a_signature(text: &str, start: usize) -> SignatureError {
    let (column, kind) = if text[start..].starts_with(':') {
        (start + 1, ErrorKind::UnknownName)
    } else {
        (
            start,
            ErrorKind::NotAType {
                hint: names_an_unknown_type(text),
            },
        )
    };
    SignatureError::at(text, column, kind)
}

/// Whether the text has a `:word` in lower case that is not a type name.
fn names_an_unknown_type(text: &str) -> bool {
    text.split(':').skip(1).any(|after| {
        let word = &after[..after.bytes().take_while(u8::is_ascii_lowercase).count()];
        !word.is_empty() && !PRIM_NAMES.iter().any(|(name, _)| *name == word)
    })
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self
            .rest()
            .bytes()
            .take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
            .count();
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.rest()
            .starts_with(token)
            .then(|| self.at += token.len())
    }

    fn signature(&mut self) -> Option<Signature> {
        self.take("(")?;
        let params = self.fields(")", 0)?;
        self.skip_blanks();
        self.take("->")?;
        self.skip_blanks();
        Some(Signature {
            params,
            returns: self.type_(0)?,
        })
    }

    fn type_(&mut self, depth: usize) -> Option<Type> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.take("{").is_some() {
            return Some(Type::Map(self.fields("}", depth + 1)?));
        }
        if self.take("[").is_some() {
            self.skip_blanks();
            let item = self.type_(depth + 1)?;
            self.skip_blanks();
            self.take("]")?;
            return Some(Type::List(Box::new(item)));
        }
        self.take(":")?;
        let (name, prim) = PRIM_NAMES
            .iter()
            .find(|(name, _)| self.rest().starts_with(name))?;
        self.at += name.len();
        let prim = Type::Prim(*prim);
        Some(if self.take("?").is_some() {
            Type::Optional(Box::new(prim))
        } else {
            prim
        })
    }

    /// `name T, name T …` up to and including the closing token.
    fn fields(&mut self, close: &str, depth: usize) -> Option<Vec<(String, Type)>> {
        let mut fields = Vec::new();
        self.skip_blanks();
        if self.take(close).is_some() {
            return Some(fields);
        }
        loop {
            let name = self.ident()?;
            self.skip_blanks();
            fields.push((name, self.type_(depth)?));
            self.skip_blanks();
            if self.take(close).is_some() {
                return Some(fields);
            }
            self.take(",")?;
            self.skip_blanks();
        }
    }

    fn ident(&mut self) -> Option<String> {
        let rest = self.rest();
        let first = rest.bytes().next()?;
        if !(first.is_ascii_alphabetic() || first == b'_') {
            return None;
        }
        let len = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            .count();
        let name = rest[..len].to_owned();
        self.at += len;
        Some(name)
    }
}

impl SignatureError {
    fn at(text: &str, column: usize, kind: ErrorKind) -> Self {
        let line = 1 + text.as_bytes()[..column.min(text.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        SignatureError { line, column, kind }
    }
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "parse error at line {}, column {}: \"",
            self.line, self.column
        )?;
        match self.kind {
            ErrorKind::TrailingText => f.write_str("expected end of string\""),
            ErrorKind::NotAType { hint } => {
                f.write_str("expected ASCII character equal to \\\":\\\"\"")?;
                f.write_str(if hint { HINT } else { "" })
            }
            ErrorKind::UnknownName => {
                f.write_str("expected ")?;
                for (i, (name, _)) in PRIM_NAMES.iter().enumerate() {
                    let or = if i == 0 { "" } else { " or " };
                    write!(f, "{or}string \\\"{name}\\\"")?;
                }
                f.write_str("\"")
            }
        }
    }
}

impl std::error::Error for SignatureError {}

impl Prim {
    /// The name in the grammar, without the colon; also the word that messages use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Prim::String => "string",
            Prim::Int => "int",
            Prim::Float => "float",
            Prim::Bool => "bool",
            Prim::Keyword => "keyword",
            Prim::Map => "map",
            Prim::Datetime => "datetime",
            Prim::Any => "any",
        }
    }
}

impl Type {
    /// Whether a field of this type may be missing and a value may be nil.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(self, Type::Optional(_))
    }

    /// The type inside `T?`, or the type itself.
    #[must_use]
    pub fn required(&self) -> &Type {
        match self {
            Type::Optional(inner) => inner.required(),
            other => other,
        }
    }

    /// The type tree as JSON: `"int"`, `{"optional":T}`, `{"list":T}`, `{"map":[[name,T],…]}`,
    /// `{"closed_map":[[name,T],…]}`.
    #[must_use]
    pub fn to_tree(&self) -> serde_json::Value {
        let fields = |fields: &[(String, Type)]| -> serde_json::Value {
            fields
                .iter()
                .map(|(name, t)| serde_json::json!([name, t.to_tree()]))
                .collect()
        };
        match self {
            Type::Prim(prim) => prim.name().into(),
            Type::Optional(inner) => serde_json::json!({ "optional": inner.to_tree() }),
            Type::List(item) => serde_json::json!({ "list": item.to_tree() }),
            Type::Map(entries) => serde_json::json!({ "map": fields(entries) }),
            Type::ClosedMap(entries) => serde_json::json!({ "closed_map": fields(entries) }),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Prim(prim) => write!(f, ":{}", prim.name()),
            Type::Optional(inner) => write!(f, "{inner}?"),
            Type::List(item) => write!(f, "[{item}]"),
            Type::Map(fields) | Type::ClosedMap(fields) => {
                f.write_str("{")?;
                write_fields(f, fields)?;
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for Signature {
    /// The canonical text. Without parameters it is `-> T`, which does not parse back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.params.is_empty() {
            f.write_str("(")?;
            write_fields(f, &self.params)?;
            f.write_str(") ")?;
        }
        write!(f, "-> {}", self.returns)
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[(String, Type)]) -> fmt::Result {
    for (i, (name, t)) in fields.iter().enumerate() {
        write!(f, "{}{name} {t}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}
