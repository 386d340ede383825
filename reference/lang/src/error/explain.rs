//! Where an error is and what to do about it: what a message does not say because its words are fixed. Knows the text of
//! the program; knows nothing of how errors come about.

use std::fmt::Write as _;

use super::{Error, Kind, Veil, Within};
use crate::absent::instead;
use crate::builtins;
use crate::form::Span;
use crate::value::Type;

/// Characters of a form that are quoted.
const FORM_CHARS: usize = 80;
/// Bytes of a form that are looked at; a longer one is not quoted.
const FORM_BYTES_MAX: usize = 4 * 1024;
/// Unknown names that are explained.
const NAMES_MAX: usize = 8;

impl Error {
    /// Where it is in `program`; none when that is not known, or when it is in a function that an earlier program made.
    pub fn span_in(&self, program: &str) -> Option<Span> {
        let span = self.span?;
        match &self.within {
            Some(within) if !within.is_part_of(program) => None,
            _ => program
                .get(span.start as usize..span.end as usize)
                .map(|_| span),
        }
    }

    /// Its place in `program` and its way out, a line each: empty when neither is known. What is quoted goes through
    /// `veil` before it is cut.
    pub fn explained(&self, program: &str, veil: &Veil<'_>) -> String {
        // What the reader found says where it is itself.
        if let Kind::Read(_) = &self.kind {
            return String::new();
        }
        let mut lines: Vec<String> = self.place(program, veil).into_iter().collect();
        lines.extend(self.kind.ways_out(veil));
        lines.join("\n")
    }

    fn place(&self, program: &str, veil: &Veil<'_>) -> Option<String> {
        let span = self.span?;
        let (text, start, owner) = match &self.within {
            Some(within) if !within.is_part_of(program) => {
                let name = within
                    .name
                    .as_ref()
                    .map_or("a function", |name| name.as_str());
                let owner = format!("in {name}, which an earlier program defined, ");
                (&*within.source.text, within.source.start, owner)
            }
            _ => (program, 0, String::new()),
        };
        let from = (span.start.checked_sub(start)?) as usize;
        let form = text.get(from..(span.end.checked_sub(start)?) as usize)?;
        let (line, column) = line_and_column(text, from);
        let mut place = format!("{owner}at line {line}, column {column}");
        if !form.trim().is_empty() && form.len() <= FORM_BYTES_MAX {
            let _ = write!(place, ": {}", quoted(form, veil));
        }
        Some(place)
    }
}

impl Within {
    /// Whether the function stands in `program`.
    fn is_part_of(&self, program: &str) -> bool {
        let start = self.source.start as usize;
        program.get(start..start + self.source.text.len()) == Some(&*self.source.text)
    }
}

/// Line and column, from 1, of a place in `text`.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// A form on one line, cut.
fn quoted(form: &str, veil: &Veil<'_>) -> String {
    let line = form.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = veil(&line);
    if line.chars().count() <= FORM_CHARS {
        return line;
    }
    let cut: String = line.chars().take(FORM_CHARS).collect();
    format!("{cut}…")
}

impl Kind {
    fn ways_out(&self, veil: &Veil<'_>) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Kind::Unbound(names) => {
                let known = names.iter().take(NAMES_MAX);
                known.filter_map(|(name, _)| absent(name)).collect()
            }
            Kind::Method(name) => absent(name).into_iter().collect(),
            Kind::Data { known, .. } => vec![entries(known, veil)],
            Kind::Type {
                function,
                expected,
                found,
            } => typed(function, expected, found.kind),
            Kind::Arity { function, .. } => called_as(function).into_iter().collect(),
            Kind::NotCallable(_) => one(
                "what stands first in (…) is called; write [ … ] for a list of values, and leave out brackets around a single value",
            ),
            Kind::Destructure { .. } => one(
                "test the value before it is taken apart, or give a default, as in (or value {})",
            ),
            Kind::Arithmetic(problem) if problem.contains("zero") => {
                one("test the divisor first, as in (when-not (zero? d) (/ n d))")
            }
            Kind::Timeout => one(
                "do less in one program: take a part of the data, look things up in a map instead of filtering again and again, or split the work over several calls",
            ),
            Kind::Memory => one(
                "keep less at once: reduce instead of collecting, take only the fields that are needed, or end a recursion that does not end",
            ),
            Kind::Branch { cause, .. } => cause.ways_out(veil),
            _ => Vec::new(),
        }
    }
}

fn absent(name: &str) -> Option<String> {
    let instead = instead(name)?;
    Some(format!("`{name}` is not in this language: {instead}"))
}

/// The entries that the context has.
fn entries(known: &[String], veil: &Veil<'_>) -> String {
    if known.is_empty() {
        return "the `context` object has no entries that can be named".to_owned();
    }
    let plain = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-?!".contains(c))
    };
    let shown = known.iter().map(|name| match plain(name) {
        true => format!("data/{}", veil(name)),
        false => format!(
            "(get data {})",
            crate::print::readable(&crate::Value::from(veil(name)))
        ),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    format!("the `context` object has {shown}")
}

fn called_as(function: &str) -> Option<String> {
    let builtin = builtins::lookup(function)?;
    Some(format!("`{function}` is called as {}", builtin.signatures))
}

/// What to do about an argument of the wrong kind.
fn typed(function: &str, expected: &str, found: Type) -> Vec<String> {
    const COMPARES: &[&str] = &["<", ">", "<=", ">=", "max", "min", "max-key", "min-key"];
    const COUNTS: &[&str] = &[
        "+", "-", "*", "/", "inc", "dec", "pos?", "neg?", "zero?", "even?", "odd?", "quot", "rem",
        "mod", "sum", "abs",
    ];
    let (compares, counts) = (COMPARES.contains(&function), COUNTS.contains(&function));
    let way = match found {
        Type::Nil if compares || counts => {
            "leave nil out, as in (filter some? xs), or give a default, as in (or x 0)"
        }
        Type::String if compares => {
            "make text a number with (parse-long s) or (parse-double s), or a date with (LocalDate/parse s); compare text with (neg? (compare a b))"
        }
        Type::String if counts || function == "int" => {
            "make text a number with (parse-long s) or (parse-double s), or join text with (str a b)"
        }
        _ => "",
    };
    if !way.is_empty() {
        return vec![way.to_owned()];
    }
    let Some(called) = called_as(function) else {
        return Vec::new();
    };
    let collection = ["collection", "map", "vector"]
        .iter()
        .any(|word| expected.contains(word));
    let swapped = (collection
        && matches!(
            found,
            Type::Function | Type::Integer | Type::Keyword | Type::Regex
        ))
        || (expected.contains("function")
            && matches!(found, Type::Vector | Type::Set | Type::String))
        || (expected.contains("integer")
            && matches!(found, Type::Vector | Type::Map | Type::Set | Type::String))
        || (expected.contains("string") && matches!(found, Type::Regex | Type::Vector));
    vec![match swapped {
        true => format!("perhaps the arguments are swapped: {called}"),
        false => called,
    }]
}
