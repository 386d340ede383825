//! Detects calls whose arguments seem to be in the wrong order. Knows signatures and kinds; knows nothing of values
//! beyond their kinds.

use smallvec::SmallVec;

use super::{Fingerprints, ValuePreview, explain};
use crate::builtins::{self, Consumes};
use crate::value::Type;

/// The kinds of callable values.
const CALLABLE: &[Type] = &[
    Type::Function,
    Type::Keyword,
    Type::Map,
    Type::Set,
    Type::Vector,
    Type::Var,
];
/// The kinds of values with items.
const SEQUENCE: &[Type] = &[Type::Vector, Type::Map, Type::Set, Type::String, Type::Nil];

/// Names that signatures give to parameters of certain kinds only. A parameter with any other name may take any value.
#[rustfmt::skip]
const KINDS: &[(&[&str], &[Type])] = &[
    (&["n", "idx", "index", "start", "end", "step", "radix", "limit", "from-index", "code", "code-point", "year", "month", "day", "days", "millis", "seconds"], &[Type::Integer, Type::Float]),
    (&["coll", "coll1", "coll2", "c1", "c2", "seq", "keys", "vals", "pad", "rows", "rows1", "rows2"], SEQUENCE),
    (&["m", "m1", "m2"], &[Type::Map, Type::Vector, Type::Nil]),
    (&["kmap"], &[Type::Map]),
    (&["smap"], &[Type::Map, Type::Vector]),
    (&["set", "set1", "set2", "sets"], &[Type::Set, Type::Nil]),
    (&["path", "v"], &[Type::Vector]),
    (&["s", "t", "prefix", "suffix", "substr", "substring", "part", "separator", "fmt-string", "iso-string", "date-str", "value"], &[Type::String]),
    (&["re"], &[Type::Regex]),
    (&["re-or-char", "pattern"], &[Type::Regex, Type::String]),
    (&["xform", "xform1", "xform2"], &[Type::Function]),
    (&["f", "pred", "comparator", "branch?", "children", "cmap", "inner", "outer"], CALLABLE),
    (&["keyfn", "replacement"], &[Type::Function, Type::Keyword, Type::Map, Type::Set, Type::Vector, Type::Var, Type::String]),
];

/// Whether `found`, an unexpected value in position `at`, looks like the argument for another position of the function
/// `name`, and all arguments would be valid in another order.
pub(super) fn is_swapped(
    name: &str,
    expected: &str,
    found: &ValuePreview,
    at: usize,
    fingerprints: &Fingerprints,
) -> bool {
    /// Functions of a text and a position or a count.
    const TEXT_AND_COUNT: &[&str] = &["subs", ".charAt", ".repeat", ".substring"];
    if explain::COLLECTIONS_ONLY.contains(&name)
        || (found.kind == Type::Regex && name.starts_with('.'))
    {
        return false;
    }
    let other_from = |first: usize, kinds: &[Type]| {
        let mut others = fingerprints.as_slice().iter().enumerate().skip(first);
        others.any(|(place, other)| {
            place != at && kinds.contains(&other.kind) && !take_same_kinds(name, at, place)
        })
    };
    let other = |kinds: &[Type]| other_from(0, kinds);
    let expects = |words: &[&str]| words.iter().any(|word| expected.contains(word));
    // What is said about transducers quotes calls of `map` and `filter`.
    let expects_collection = expects(&["collection", "map", "vector"]) && !expects(&["transducer"]);
    let seems_swapped = match found.kind {
        Type::Function | Type::Keyword if expects_collection => {
            other(&[Type::Vector, Type::Map, Type::Set, Type::String])
        }
        Type::Integer if expects_collection && !expects(&["function"]) => {
            other(&[Type::Vector, Type::Map, Type::Set, Type::String])
        }
        // Several strings in a row are common: a string before this position proves nothing.
        Type::Integer if expects(&["string"]) => {
            TEXT_AND_COUNT.contains(&name) && other_from(at, &[Type::String])
        }
        Type::Vector | Type::Map | Type::Set | Type::String if expects(&["integer"]) => {
            other(&[Type::Integer])
        }
        Type::Vector | Type::Set | Type::String if expects(&["function"]) => {
            other(&[Type::Function])
        }
        Type::Regex if expects(&["string"]) => other(&[Type::String]),
        Type::String if expects(&["a regex"]) && !expects(&["string"]) => other(&[Type::Regex]),
        _ => false,
    };
    seems_swapped && fits_reordered(name, expected, at, fingerprints)
}

/// Whether the positions `a` and `b` of the function `name` take the same kinds: an argument that is wrong in one is
/// wrong in the other.
fn take_same_kinds(name: &str, a: usize, b: usize) -> bool {
    /// The first of several consecutive positions that take the same kinds.
    const FROM: &[(&str, usize)] = &[
        ("LocalDate/of", 0),
        ("format", 1),
        ("merge-with", 1),
        ("subs", 1),
        (".substring", 1),
        ("subvec", 1),
    ];
    let known = FROM.iter().find(|(known, _)| *known == name);
    let from = match builtins::lookup(name).map(|builtin| builtin.consumes) {
        _ if let Some((_, from)) = known => *from,
        _ if name.starts_with("bit-") || name.starts_with("Math/") => 0,
        Some(Consumes::From(from)) => from,
        _ => return false,
    };
    a.min(b) >= from
}

/// Whether the arguments of `name` would match the kinds in one of its signatures in another order. Position `at` takes
/// what is `expected` there.
fn fits_reordered(name: &str, expected: &str, at: usize, fingerprints: &Fingerprints) -> bool {
    let Some(builtin) = builtins::lookup(name) else {
        return true;
    };
    let given: SmallVec<[Type; Fingerprints::MAX]> = fingerprints
        .as_slice()
        .iter()
        .map(|fingerprint| fingerprint.kind)
        .collect();
    let count = given.len();
    let shapes = builtin.shapes().filter_map(|signature| {
        (0..count)
            .map(|place| builtins::parameter(signature, place, count))
            .collect::<Option<SmallVec<[&str; Fingerprints::MAX]>>>()
    });
    let mut shapes = shapes.peekable();
    if shapes.peek().is_none() {
        // A function that is called with more arguments than its signatures show takes any kind in the other positions.
        return given.iter().any(|kind| is_expected(expected, *kind));
    }
    shapes.any(|parameters| {
        let fits = |place: usize, kind: Type| match place == at {
            true => is_expected(expected, kind),
            false => takes(parameters[place], kind),
        };
        can_assign(&given, 0, 0, &fits)
    })
}

/// Whether the arguments that are not in `used` can be assigned to the positions from `place` on.
fn can_assign(given: &[Type], place: usize, used: u32, fits: &dyn Fn(usize, Type) -> bool) -> bool {
    place == given.len()
        || given.iter().enumerate().any(|(from, kind)| {
            used & (1 << from) == 0
                && fits(place, *kind)
                && can_assign(given, place + 1, used | (1 << from), fits)
        })
}

/// Whether a parameter called `name` in signatures takes a value of this kind.
fn takes(name: &str, kind: Type) -> bool {
    let row = KINDS.iter().find(|(names, _)| names.contains(&name));
    row.is_none_or(|(_, kinds)| kinds.contains(&kind))
}

/// Whether the text `expected` of a message includes this kind.
fn is_expected(expected: &str, kind: Type) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| expected.contains(word));
    match kind {
        Type::Nil => says(&["nil", "collection"]),
        Type::Integer => says(&["integer", "number"]),
        Type::Float => says(&["number"]),
        Type::String => says(&["string", "collection"]),
        Type::Keyword => says(&["keyword", "function", "a key"]),
        Type::Vector => says(&["vector", "collection", "function", "path"]),
        Type::Map => says(&["map", "collection", "function"]),
        Type::Set => says(&["set", "collection", "function"]),
        Type::Function => says(&["function", "transducer"]),
        Type::Var => says(&["function"]),
        Type::Regex => says(&["regex"]),
        Type::Boolean | Type::Symbol | Type::Date | Type::Instant | Type::Duration => false,
    }
}
