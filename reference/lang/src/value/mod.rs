//! Values of PTC-Lisp. Knows nothing of programs, meters or hosts.
//!
//! A value is 16 bytes: small values are stored in place, everything else is shared. Collections are updated in place
//! when nobody else holds them. Deep values are compared, hashed and dropped without native recursion.

/// Adds methods that inspect the allocation that a value shares with its copies.
macro_rules! allocation {
    ($name:ident) => {
        impl $name {
            /// The address of the allocation, if anybody else holds it too.
            pub(crate) fn shared_address(&self) -> Option<usize> {
                (Arc::strong_count(&self.0) > 1).then(|| self.address())
            }

            /// The address of the allocation.
            #[inline]
            pub(crate) fn address(&self) -> usize {
                Arc::as_ptr(&self.0).addr()
            }

            /// Whether both are the same allocation.
            #[inline]
            pub fn ptr_eq(&self, other: &$name) -> bool {
                Arc::ptr_eq(&self.0, &other.0)
            }
        }
    };
}

pub mod heap_size;
mod map;
mod order;
mod set;
pub mod shape;
pub(crate) mod text;
mod vector;

use std::sync::Arc;

pub use heap_size::HeapSize;
pub(crate) use map::ENTRY_STEPS;
pub use map::{Entries, Map, unify_key_kinds};
pub use num_bigint::BigInt;
pub use order::{equal, key_cmp, number_cmp, sort_by, term_cmp};
pub use set::{Members, Set};
pub use shape::Shape;
pub use text::Text;
pub use vector::{Items, Vector};

use crate::builtins::Builtin;
use crate::function::{Closure, Combinator, Combined};
use crate::regex::Regex;

/// Any value of the language.
#[derive(Clone, Default)]
pub enum Value {
    /// `nil`
    #[default]
    Nil,
    /// `true`, `false`
    Bool(bool),
    /// An integer that fits 64 bits; larger ones are always `BigInt`.
    Int(i64),
    /// A double, including infinities and NaN.
    Float(f64),
    /// An integer that does not fit 64 bits.
    BigInt(Arc<BigInt>),
    /// A string; its elements are graphemes.
    Str(Text),
    /// A keyword, named without its colon.
    Keyword(Text),
    /// A quoted symbol.
    Symbol(Text),
    /// A vector; every sequence function returns one.
    Vector(Vector),
    /// A map, sorted by key in term order.
    Map(Map),
    /// A set, sorted in term order.
    Set(Set),
    /// A function written in the program.
    Fn(Arc<Closure>),
    /// A function of the builtin table.
    Builtin(&'static Builtin),
    /// A function made by `partial`, `comp`, `juxt` and the like, or a tool.
    Combined(Arc<Combined>),
    /// A var, from `def` or `#'name`.
    Var(Text),
    /// A regular expression.
    Regex(Arc<Regex>),
    /// A calendar date as days since 1970-01-01.
    Date(i32),
    /// An instant in UTC.
    Instant(Instant),
    /// A span of time in microseconds.
    Duration(i64),
}

const _: () = assert!(size_of::<Value>() == 16);
const _: () = assert!(size_of::<Result<Value, Box<()>>>() == 16);

/// An instant in UTC with the precision that it was written with.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    micros: Packed,
    /// Fraction digits shown when printed: 0 to 6.
    pub digits: u8,
}

/// Microseconds as unaligned bytes, so that `Instant` fits beside the tag.
type Packed = [u8; 8];

impl Instant {
    /// An instant `micros` microseconds after 1970-01-01T00:00:00Z, printed with `digits` fraction digits.
    pub fn new(micros: i64, digits: u8) -> Self {
        Instant {
            micros: micros.to_ne_bytes(),
            digits,
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn micros(self) -> i64 {
        i64::from_ne_bytes(self.micros)
    }
}

/// The kind of a value, in the words of messages (`errors.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `nil`
    Nil,
    /// `true` or `false`
    Boolean,
    /// whole number
    Integer,
    /// double-precision number
    Float,
    /// string of text
    String,
    /// `:k`
    Keyword,
    /// `'s`
    Symbol,
    /// `[…]`
    Vector,
    /// `{…}`
    Map,
    /// `#{…}`
    Set,
    /// anything that can be called
    Function,
    /// `#'x`
    Var,
    /// `#"…"`
    Regex,
    /// calendar date
    Date,
    /// moment in time
    Instant,
    /// span of time
    Duration,
}

/// Identifies a value without holding it; see [`Value::fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub kind: Type,
    bits: u64,
}

impl Fingerprint {
    /// The fingerprint in an unused place.
    pub const NIL: Fingerprint = Fingerprint {
        kind: Type::Nil,
        bits: 0,
    };
    /// A fingerprint that no value has.
    pub const NONE: Fingerprint = Fingerprint {
        kind: Type::Nil,
        bits: u64::MAX,
    };
}

impl Type {
    /// All kinds.
    pub const ALL: [Type; 16] = [
        Type::Nil,
        Type::Boolean,
        Type::Integer,
        Type::Float,
        Type::String,
        Type::Keyword,
        Type::Symbol,
        Type::Vector,
        Type::Map,
        Type::Set,
        Type::Function,
        Type::Var,
        Type::Regex,
        Type::Date,
        Type::Instant,
        Type::Duration,
    ];

    /// The word that messages use.
    pub const fn word(self) -> &'static str {
        match self {
            Type::Nil => "nil",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Float => "float",
            Type::String => "string",
            Type::Keyword => "keyword",
            Type::Symbol => "symbol",
            Type::Vector => "vector",
            Type::Map => "map",
            Type::Set => "set",
            Type::Function => "function",
            Type::Var => "var",
            Type::Regex => "regex",
            Type::Date => "date",
            Type::Instant => "instant",
            Type::Duration => "duration",
        }
    }
}

impl Value {
    /// A string value.
    pub fn str(text: impl Into<Text>) -> Value {
        Value::Str(text.into())
    }

    /// A keyword value; `name` has no colon.
    pub fn keyword(name: impl Into<Text>) -> Value {
        Value::Keyword(name.into())
    }

    /// The two items of a map entry.
    ///
    /// # Errors
    /// The value itself, when it is not a vector of two items.
    pub fn into_entry(self) -> Result<(Value, Value), Value> {
        match self {
            Value::Vector(pair) if pair.len() == 2 => {
                let mut items = pair.into_vec().into_iter();
                Ok((
                    items.next().unwrap_or_default(),
                    items.next().unwrap_or_default(),
                ))
            }
            other => Err(other),
        }
    }

    /// A nameless function that stands for a function of another program. A call of it returns its argument.
    pub fn opaque() -> Value {
        Value::Combined(Arc::new(Combined::new(Combinator::Comp, Vec::new())))
    }

    /// A vector value.
    pub fn vector(items: Vec<Value>) -> Value {
        Value::Vector(Vector::from(items))
    }

    /// An integer of any size, in its canonical representation.
    pub fn integer(int: BigInt) -> Value {
        match i64::try_from(&int) {
            Ok(small) => Value::Int(small),
            Err(_) => Value::BigInt(Arc::new(int)),
        }
    }

    /// Whether the value counts as true: everything but `nil` and `false`.
    #[inline]
    pub fn is_truthy(&self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    /// Whether this is `nil`.
    #[inline]
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// The kind of this value.
    pub fn kind(&self) -> Type {
        match self {
            Value::Nil => Type::Nil,
            Value::Bool(_) => Type::Boolean,
            Value::Int(_) | Value::BigInt(_) => Type::Integer,
            Value::Float(_) => Type::Float,
            Value::Str(_) => Type::String,
            Value::Keyword(_) => Type::Keyword,
            Value::Symbol(_) => Type::Symbol,
            Value::Vector(_) => Type::Vector,
            Value::Map(_) => Type::Map,
            Value::Set(_) => Type::Set,
            Value::Combined(made) if made.kind == Combinator::Sequence => Type::Vector,
            Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) => Type::Function,
            Value::Var(_) => Type::Var,
            Value::Regex(_) => Type::Regex,
            Value::Date(_) => Type::Date,
            Value::Instant(_) => Type::Instant,
            Value::Duration(_) => Type::Duration,
        }
    }

    /// Identifies this value among others: its kind, and its address or its content.
    #[inline]
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let (kind, bits) = match self {
            Value::Nil => (Type::Nil, 0),
            Value::Bool(truth) => (Type::Boolean, u64::from(*truth)),
            Value::Int(int) => (Type::Integer, int.cast_unsigned()),
            Value::Float(float) => (Type::Float, float.to_bits()),
            Value::BigInt(int) => (Type::Integer, Arc::as_ptr(int).addr() as u64),
            Value::Str(text) => (Type::String, text.address() as u64),
            Value::Keyword(text) => (Type::Keyword, text.address() as u64),
            Value::Symbol(text) => (Type::Symbol, text.address() as u64),
            Value::Vector(items) => (Type::Vector, items.address() as u64),
            Value::Map(entries) => (Type::Map, entries.address() as u64),
            Value::Set(members) => (Type::Set, members.address() as u64),
            Value::Fn(closure) => (Type::Function, Arc::as_ptr(closure).addr() as u64),
            Value::Builtin(builtin) => (Type::Function, std::ptr::from_ref(*builtin).addr() as u64),
            Value::Combined(combined) => (Type::Function, Arc::as_ptr(combined).addr() as u64),
            Value::Var(name) => (Type::Var, name.address() as u64),
            Value::Regex(regex) => (Type::Regex, Arc::as_ptr(regex).addr() as u64),
            Value::Date(days) => (Type::Date, u64::from(days.cast_unsigned())),
            Value::Instant(instant) => (Type::Instant, instant.micros().cast_unsigned()),
            Value::Duration(micros) => (Type::Duration, micros.cast_unsigned()),
        };
        Fingerprint { kind, bits }
    }

    /// The address of a collection that somebody else holds too, so that work on it need not be repeated.
    pub fn shared_address(&self) -> Option<usize> {
        match self {
            Value::Vector(items) => items.shared_address(),
            Value::Map(map) => map.shared_address(),
            Value::Set(set) => set.shared_address(),
            _ => None,
        }
    }

    /// Whether both are one allocation; if so they are equal without a walk, except for NaN.
    pub fn ptr_eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Str(a), Value::Str(b)) => a.ptr_eq(b),
            (Value::BigInt(a), Value::BigInt(b)) => Arc::ptr_eq(a, b),
            (Value::Vector(a), Value::Vector(b)) => a.ptr_eq(b),
            (Value::Map(a), Value::Map(b)) => a.ptr_eq(b),
            (Value::Set(a), Value::Set(b)) => a.ptr_eq(b),
            _ => false,
        }
    }

    /// The number of nodes that a full walk visits, and the depth. Takes constant time.
    #[inline]
    pub fn shape(&self) -> Shape {
        match self {
            Value::Vector(vector) => vector.shape(),
            Value::Map(map) => map.shape(),
            Value::Set(set) => set.shape(),
            Value::Fn(closure) => Shape {
                weight: 1,
                depth: closure.depth,
            },
            Value::Combined(combined) => Shape {
                weight: 1,
                depth: combined.depth,
            },
            Value::Str(text) => Shape::of_bytes(text.len()),
            Value::BigInt(int) => Shape::of_bytes((int.bits() / 8) as usize),
            _ => Shape::LEAF,
        }
    }

    /// The name of a keyword or the text of a string: what flexible key lookup compares.
    #[inline]
    pub fn key_text(&self) -> Option<&Text> {
        match self {
            Value::Str(text) | Value::Keyword(text) => Some(text),
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or_else(|_| Value::integer(value.into()), Value::Int)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::str(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::str(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Value::vector(value)
    }
}

impl From<Map> for Value {
    fn from(value: Map) -> Self {
        Value::Map(value)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::print::readable(self))
    }
}
