//! Where an error is and what to do about it: the part of an explanation that a message, with its fixed wording, leaves
//! out. Knows the text of the program; knows nothing of how errors arise.

mod advice;
mod names;

use std::fmt::Write as _;

use super::message::describe_value;
use super::quote::is_unredacted;
use super::{EnclosingFunction, Error, Kind, Place, Redact};
use crate::absent::advice as absent;
use crate::analyze::ir::SourcePosition;
use crate::builtins::{self, NAMESPACES, Namespace};
use crate::form::Span;
pub(super) use advice::COLLECTIONS_ONLY;
use names::is_function_argument;

/// The most characters of a form that are quoted.
const FORM_CHARS: usize = 80;
/// The most bytes of a form that are examined; a longer form is not quoted.
const FORM_BYTES_MAX: usize = 4 * 1024;

impl Error {
    /// The span of the error in `program`; `None` when it is unknown, or when it is in a function that an earlier
    /// program made.
    pub fn span_in(&self, program: &str) -> Option<Span> {
        let span = self.place.span?;
        match &self.place.function {
            Some(function) if !function.is_part_of(program) => None,
            _ => program
                .get(span.start as usize..span.end as usize)
                .map(|_| span),
        }
    }

    /// The position of the error in `program` and advice on how to fix it, one line each; empty when neither is known.
    /// Quotes go through `redact` before they are truncated.
    pub fn explained(&self, program: &str, redact: &Redact<'_>) -> String {
        if let Some(explanation) = &self.place.explanation {
            return explanation.clone();
        }
        // Messages of the reader state the position themselves.
        let mut lines: Vec<String> = match &self.kind {
            Kind::Read(error) => {
                let around = enclosing_head(program, error.span.start as usize);
                let advice = syntax_advice(program, error.span.start as usize);
                let advice = advice.or_else(|| around.and_then(absent));
                let advice = advice.or_else(|| first_name(program).and_then(absent));
                advice.into_iter().collect()
            }
            _ => self.position_line(program, redact).into_iter().collect(),
        };
        let seen = self.advice_from_text(program, redact);
        match &self.place.advice {
            Some(advice) => lines.push(advice.clone()),
            // The text at the error says more than the general advice about values that cannot be called.
            None if seen.is_some() && matches!(self.kind, Kind::NotCallable(_)) => {}
            None => lines.extend(self.kind.advice(&self.place, redact)),
        }
        lines.extend(seen);
        lines.join("\n")
    }

    /// Advice derived from the program text around the error.
    fn advice_from_text(&self, program: &str, redact: &Redact<'_>) -> Option<String> {
        let span = self.span_in(program)?;
        let (before, form) = (
            program.get(..span.start as usize)?,
            program.get(span.start as usize..span.end as usize)?,
        );
        if let Kind::Unbound(names) = &self.kind {
            let after = program.get(span.end as usize..)?;
            if before.ends_with('"') || after.starts_with('"') {
                return Some("a `\"` inside a string is written `\\\"`".to_owned());
            }
            // If the unknown name is a misspelt function, an operator among its arguments does not mean infix notation.
            let unknown = |(name, near): &(String, Option<String>)| {
                is_unredacted(name, redact) && near.is_none() && absent(name).is_none()
            };
            if before.ends_with('(') {
                let first = names.first().filter(|name| unknown(name));
                return first
                    .filter(|_| !has_collection_argument(after))
                    .and_then(|_| infix_advice(after));
            }
            let assigned = first_word(after.trim_start()) == Some("=") && !before.contains('(');
            if assigned {
                let advice = "a name gets its value by (def name value), or by (let [name value] …) for one form";
                return Some(advice.to_owned());
            }
            let (name, _) = names.first()?;
            // Names such as `total` are known as functions of other languages, but are popular for values as well.
            let is_word = name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let is_value = is_word
                && absent(name).is_some()
                && !crate::absent::is_binding_form(name)
                && !is_function_argument(before)
                && is_unredacted(name, redact);
            return is_value.then(|| {
                format!("if `{name}` is a value, define it first, as in (let [{name} …] …)")
            });
        }
        let inside = form.strip_prefix('(')?;
        let head = first_word(inside).filter(|head| is_unredacted(head, redact));
        match self.kind.cause() {
            // A function made the call, whatever the text looks like.
            Kind::NotCallable(_) if self.place.advice.is_some() => None,
            Kind::NotCallable(_) if head.is_none() || before.ends_with(is_name_char) => {
                let name = &before[before.trim_end_matches(is_name_char).len()..];
                (!name.is_empty() && is_unredacted(name, redact)).then(|| {
                    format!("the name of what is called stands inside the brackets: ({name} …)")
                })
            }
            Kind::NotCallable(_) => {
                let after = head.and_then(|head| inside.strip_prefix(head));
                after
                    .and_then(infix_advice)
                    .or_else(|| head.and_then(shadowing_advice))
            }
            Kind::Arity { function, .. }
                if ["a map", "a set", "a vector"].contains(&&**function) =>
            {
                head.and_then(shadowing_advice)
            }
            Kind::Arity {
                function, accepts, ..
            } => {
                let caller = head.filter(|head| *head != function)?;
                let callback_arguments = callback_arguments(caller)?;
                // The text shows that the function is a `#(…)` without placeholders only if nothing else in it has one.
                let blank =
                    accepts.max == Some(0) && inside.contains("#(") && !inside.contains('%');
                Some(match blank {
                    true => format!(
                        "`{caller}` calls it with an item, and #(…) takes as many values as it has placeholders: write % for the item"
                    ),
                    false => format!("`{caller}` calls it with {callback_arguments}"),
                })
            }
            Kind::Type { .. } if self.place.swapped => threading_advice(before).map(str::to_owned),
            Kind::Usage { .. } => extra_part_advice(head?, inside),
            _ => None,
        }
    }

    fn position_line(&self, program: &str, redact: &Redact<'_>) -> Option<String> {
        let Place {
            span,
            function,
            depth,
            items,
            argument,
            ..
        } = &*self.place;
        let span = (*span)?;
        let earlier = function.as_ref().filter(|one| !one.is_part_of(program));
        let (text, start) = match earlier {
            Some(function) => (&*function.source.text, function.source.start),
            None => (program, 0),
        };
        let from = (span.start.checked_sub(start)?) as usize;
        let form = text.get(from..(span.end.checked_sub(start)?) as usize)?;
        let written = earlier.map_or(SourcePosition::start_of_turn(0), |function| {
            function.source.written
        });
        let SourcePosition { line, column, turn } = written.after(&text[..from]);
        let mut place = String::new();
        if let Some(function) = function {
            let name = function.name.as_ref();
            let name = name.map_or("a function".to_owned(), |name| format!("`{name}`"));
            let _ = match (earlier, &self.kind) {
                (Some(_), _) if turn > 0 => write!(place, "in {name}, which turn {turn} defined, "),
                (Some(_), _) => write!(place, "in {name}, which an earlier program defined, "),
                (None, Kind::Timeout | Kind::Memory) => write!(place, "in {name}, "),
                _ => Ok(()),
            };
            if matches!(self.kind, Kind::Timeout | Kind::Memory) {
                let calls = if *depth == 1 { "call" } else { "calls" };
                let _ = write!(place, "{depth} {calls} deep, ");
            }
        }
        let _ = write!(place, "at line {line}, column {column}");
        if !form.trim().is_empty() && form.len() <= FORM_BYTES_MAX {
            let _ = write!(place, ": {}", quote_form(form, redact));
        }
        if let (Some(argument), Some((function, found))) =
            (argument, self.kind.cause().rejected_value())
        {
            let (argument, describe_value) = (argument + 1, describe_value(found, redact));
            let function = function_as_written(form, function, redact);
            let _ = write!(
                place,
                "; argument {argument} of `{function}` is {describe_value}"
            );
        }
        let mut items = items.iter().rev();
        if let Some(outermost) = items.next() {
            let _ = write!(place, "; at item {outermost}");
            for item in items {
                let _ = write!(place, ", and in it at item {item}");
            }
            place.push_str(" (the first is item 0)");
        }
        Some(place)
    }
}

impl EnclosingFunction {
    /// Whether the function was written in `program`.
    fn is_part_of(&self, program: &str) -> bool {
        let start = self.source.start as usize;
        program.get(start..start + self.source.text.len()) == Some(&*self.source.text)
    }
}

/// The name of `function` as written in the form that calls it, with its namespace.
fn function_as_written<'a>(form: &'a str, function: &'a str, redact: &Redact<'_>) -> &'a str {
    let head = form.strip_prefix('(').and_then(first_word);
    let qualified = head.filter(|head| is_qualified(head, function));
    qualified
        .filter(|head| is_unredacted(head, redact))
        .unwrap_or(function)
}

/// Whether `head` is `function` with a namespace, in any spelling.
fn is_qualified(head: &str, function: &str) -> bool {
    let Some((home, member)) = head.rsplit_once('/') else {
        return false;
    };
    match function.rsplit_once('/') {
        None => member == function,
        Some((own, name)) => {
            let is_same = |namespace: &Namespace| {
                namespace.spellings.contains(&home) && namespace.spellings.contains(&own)
            };
            member == name && NAMESPACES.iter().any(is_same)
        }
    }
}

/// The first word of `text`, up to white space or a bracket.
fn first_word(text: &str) -> Option<&str> {
    text.split(|c: char| c.is_whitespace() || "()[]{}'\"`,;".contains(c))
        .next()
        .filter(|word| !word.is_empty())
}

/// Advice about an operator that is written after its first operand.
fn infix_advice(after: &str) -> Option<String> {
    const OPERATORS: &[&str] = &[
        "+", "-", "*", "/", "=", "==", "not=", "<", ">", "<=", ">=", "and", "or", "mod", "rem",
    ];
    let operator = first_word(after.trim_start())?;
    OPERATORS.contains(&operator).then(|| {
        format!("an operator stands in front of what it works on: ({operator} a b), not (a {operator} b)")
    })
}

/// Whether a collection follows the operator in `after`: then both are arguments of an unknown function.
fn has_collection_argument(after: &str) -> bool {
    let end = after.find(')').unwrap_or(after.len());
    after[..end].contains(['[', '{'])
}

/// Advice about a threading step that takes the value in a different position than the enclosing form inserts it;
/// `before` ends where the step begins.
fn threading_advice(before: &str) -> Option<&'static str> {
    let inside = enclosing_list(before)?;
    let around = first_word(inside)?;
    // The first form after the name is the value, not a step.
    let value = inside.strip_prefix(around)?;
    if value.trim().is_empty() {
        return None;
    }
    match around {
        "->" | "some->" | "cond->" => Some(
            "this form puts the value first: where it belongs at the end use ->> or its kin, and (as-> value x …) to say where",
        ),
        "->>" | "some->>" | "cond->>" => Some(
            "this form puts the value last: where it belongs in front use -> or its kin, and (as-> value x …) to say where",
        ),
        _ => None,
    }
}

/// Advice about a form with one part too many; `inside` begins with its name.
fn extra_part_advice(form: &str, inside: &str) -> Option<String> {
    let first = inside.strip_prefix(form)?.trim_start();
    let after = first.strip_prefix(first_word(first)?)?.trim_start();
    match form {
        "def" | "defonce" if after.starts_with('[') => {
            Some("a function is defined by (defn name [x y] body …)".to_owned())
        }
        "def" | "defonce" if first_word(after) == Some("=") => {
            Some("leave the = out, as in (def name value)".to_owned())
        }
        "if" | "if-not" => infix_advice(after),
        _ => None,
    }
}

/// Whether a name may contain `character`.
fn is_name_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-?!.".contains(character)
}

/// Advice about characters at `start` that no form begins with.
fn syntax_advice(program: &str, start: usize) -> Option<String> {
    const UNREADABLE: &[(&str, &str)] = &[
        ("```", "a code fence is none of the program: leave it out"),
        ("||", "the first of two that is true is (or a b)"),
        (
            "^ ",
            "a power is (Math/pow a b), a difference of bits (bit-xor a b)",
        ),
    ];
    let text = program.get(start..)?;
    let slip = UNREADABLE
        .iter()
        .find(|(signs, _)| text.starts_with(signs))?;
    Some(slip.1.to_owned())
}

/// The first word of a program.
fn first_name(program: &str) -> Option<&str> {
    let word = program.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let word = &word[..word.floor_char_boundary(FORM_CHARS)];
    word.split(|c: char| !is_name_char(c)).next()
}

/// Advice about a value in a place where the function of the same name is meant.
fn shadowing_advice(head: &str) -> Option<String> {
    let builtin = builtins::lookup(head)?;
    if !matches!(builtin.run, builtins::BuiltinValue::Function(_)) {
        return Some(format!(
            "`{head}` is a value: write it without brackets around it"
        ));
    }
    Some(format!(
        "`{head}` is a value of the program here, not the function: give the value another name"
    ))
}

/// The arguments that `caller` passes to the function that it is given.
fn callback_arguments(caller: &str) -> Option<&'static str> {
    const ROWS: &[(&[&str], &str)] = &[
        (
            &["reduce", "reductions"],
            "the result so far and an item: (fn [acc x] …), or (fn [acc [k v]] …) for the entries of a map",
        ),
        (
            &["reduce-kv"],
            "the result so far, a key and a value: (fn [acc k v] …)",
        ),
        (
            &["map-indexed", "keep-indexed"],
            "the index and the item: (fn [i x] …)",
        ),
        (
            &[
                "map",
                "mapv",
                "pmap",
                "mapcat",
                "filter",
                "filterv",
                "remove",
                "keep",
                "some",
                "every?",
                "not-any?",
                "not-every?",
                "sort-by",
                "group-by",
                "partition-by",
                "take-while",
                "drop-while",
                "split-with",
                "run!",
                "max-key",
                "min-key",
                "max-by",
                "min-by",
                "sum-by",
                "avg-by",
                "distinct-by",
            ],
            "one item of each collection: (fn [x] …), or (fn [[k v]] …) for the entries of a map",
        ),
        (
            &["apply"],
            "the items of the collection, as many as there are: test for none first, as in (when (seq xs) (apply max xs))",
        ),
        (&["sort", "merge-with"], "two values: (fn [a b] …)"),
        (
            &["update", "update-in"],
            "the value that is there, and with what follows the function",
        ),
        (&["update-vals", "update-keys"], "one value: (fn [x] …)"),
    ];
    let row = ROWS.iter().find(|(callers, _)| callers.contains(&caller))?;
    Some(row.1)
}

/// The name at the head of the list that contains `at`.
fn enclosing_head(program: &str, at: usize) -> Option<&str> {
    first_word(enclosing_list(program.get(..at)?)?)
}

/// The text of the innermost list that `before` ends in, from after its bracket.
fn enclosing_list(before: &str) -> Option<&str> {
    let from = before.floor_char_boundary(before.len().saturating_sub(FORM_BYTES_MAX));
    let before = before.get(from..)?;
    let mut closed = 0usize;
    let open = before.bytes().rposition(|byte| match byte {
        b')' => {
            closed += 1;
            false
        }
        b'(' if closed > 0 => {
            closed -= 1;
            false
        }
        byte => byte == b'(',
    })?;
    before.get(open + 1..)
}

/// A form on one line, truncated.
fn quote_form(form: &str, redact: &Redact<'_>) -> String {
    // Redacted both as written and as shown: either form may contain what must not be shown.
    let form = redact(form);
    let line = redact(&form.split_whitespace().collect::<Vec<_>>().join(" "));
    if line.chars().count() <= FORM_CHARS {
        return line;
    }
    let cut: String = line.chars().take(FORM_CHARS).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests;
