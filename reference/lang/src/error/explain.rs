//! Where an error is and what to do about it: the part of an explanation that a message, with its fixed wording, leaves
//! out. Knows the text of the program; knows nothing of how errors arise.

use std::fmt::Write as _;

use super::message::describe_value;
use super::quote::is_unredacted;
use super::{EnclosingFunction, Error, Kind, NAMES_MAX, Place, Redact, ValuePreview};
use crate::absent::advice as absent;
use crate::analyze::ir::SourcePosition;
use crate::analyze::special_forms;
use crate::builtins::{self, METHODS, NAMESPACES, Namespace};
use crate::form::Span;
use crate::value::Type;

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

impl Kind {
    /// The error of a failed branch; any other error itself.
    pub(super) fn cause(&self) -> &Kind {
        match self {
            Kind::Branch { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// The function that rejected a value, and the value.
    fn rejected_value(&self) -> Option<(&str, &ValuePreview)> {
        match self {
            Kind::Type {
                function, found, ..
            } => Some((function, found)),
            Kind::Value { function, problem } => Some((function, problem.about()?)),
            Kind::Parallel { form, problem } => Some((form, problem.about()?)),
            _ => None,
        }
    }

    fn advice(&self, place: &Place, redact: &Redact<'_>) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Kind::Unbound(names) => {
                let names = names.iter().take(NAMES_MAX);
                names
                    .filter_map(|(name, near)| unbound_advice(name, near.is_some(), place, redact))
                    .collect()
            }
            Kind::Method(name) | Kind::Member(name) if is_unredacted(name, redact) => absent(name)
                .or_else(|| decimal_point_advice(name))
                .or_else(|| member_advice(name))
                .or_else(|| method_advice(name))
                .into_iter()
                .collect(),
            Kind::UnknownTool { available, .. } if available.is_empty() => {
                one("no tools can be called here: work with what the program and data/ hold")
            }
            Kind::UnknownTool { name, available } if *available == ["call"] => {
                let name = redact(name.trim_start_matches("tool/"));
                one(&format!(
                    "a tool of an upstream is called as (tool/call {{:server \"NAME\" :tool \"{name}\" :args {{…}}}})"
                ))
            }
            Kind::Data { name, known } => vec![context_advice(name, known, redact)],
            Kind::Type {
                function,
                expected,
                found,
            } => type_advice(function, expected, found.kind, place),
            Kind::Value { function, problem }
                if problem.begin_with("there is no date") && !function.is_empty() =>
            {
                one(
                    "the month does not have that day, or the year that month: the first of a month is (LocalDate/of year month 1), and (.lengthOfMonth d) counts its days",
                )
            }
            Kind::Value { function, .. } if function == "parse" => one(
                "take text of another shape apart with (re-matches re s), and make a date of its numbers: (LocalDate/of year month day); a time with a space for the T is read by (java.util.Date. s)",
            ),
            Kind::Value { function, problem } if function == "format" => {
                one(if problem.begin_with("unknown directive") {
                    "write %% for a percent sign, %s for any value, %d for an integer and %.2f for a number with two places"
                } else if problem.begin_with("%") {
                    "give one value for each directive, or take one again by its number, as in %1$s"
                } else if problem.begin_with("a precision") {
                    "a precision belongs to %s, %f, %e and %g, as in %.2f; write %5d, %05d or %,d for an integer"
                } else if problem.begin_with("a width") {
                    "write a width behind the flag, as in %-8s or %05d"
                } else {
                    "leave the flags out that the directive does not have: %-8s, %05d, %+d, %,d and %,.2f are known"
                })
            }
            Kind::Value { function, problem }
                if function.is_empty() && problem.begin_with("index ") =>
            {
                one("(get v index) gives nil there, and (get v index default) the default")
            }
            Kind::Value { function, problem }
                if function == "assoc" && problem.begin_with("index ") =>
            {
                one(
                    "a vector grows at its end, as in (conj v x); what is there is changed at its index, from 0",
                )
            }
            Kind::Value { function, .. } if function == "keyword" => one(
                "text may be a key as it is, as in (get m \"has space\"); make it fit with (keyword (clojure.string/replace s #\"[^A-Za-z0-9]+\" \"-\"))",
            ),
            Kind::Value { problem, .. } if problem.begin_with("expected an integer, got float") => {
                one("(quot a b) divides and stays whole, where (/ a b) makes a float")
            }
            Kind::Value { problem, .. } if problem.begin_with("a delimiter ") => one(
                "a longer delimiter is written as a regex, as in (clojure.string/split s #\", \"), and one that is a value as (re-pattern sep)",
            ),
            Kind::Value { problem, .. } if problem.begin_with("a map takes entries") => one(
                "give it pairs, as in (into {} [[:a 1] [:b 2]]), or make them, as in (into {} (map (fn [x] [(:id x) x]) rows))",
            ),
            Kind::Value { function, .. } => call_shape(function).into_iter().collect(),
            Kind::Arity {
                function,
                accepts,
                given,
            } => {
                let more = accepts.max.is_some_and(|max| *given > max.into());
                let meant = EXTRA_ARGUMENTS
                    .iter()
                    .filter(|(name, _)| more && name == function);
                let meant = meant.map(|(_, advice)| (*advice).to_owned());
                call_shape(function).into_iter().chain(meant).collect()
            }
            Kind::Pairs(problem) => {
                let function = first_word(problem);
                function.and_then(call_shape).into_iter().collect()
            }
            Kind::Form(problem) => form_advice(problem).into_iter().collect(),
            Kind::NotCallable(_) => one(
                "what stands first in (…) is called; write [ … ] for a list of values, and leave out brackets around a single value",
            ),
            Kind::Destructure { expected, found }
                if found.kind == Type::Map && !expected.contains("map") =>
            {
                one("take a map apart by its keys, as in (let [{:keys [a b]} m] …)")
            }
            Kind::Destructure { expected, found }
                if found.kind == Type::Vector && !expected.contains("vector") =>
            {
                one("take a vector apart by its places, as in (let [[a b] v] …)")
            }
            Kind::Destructure { .. } => one(
                "test the value before it is taken apart, or give a default, as in (or value {})",
            ),
            Kind::Arithmetic(problem) if problem.contains("zero") => {
                one("test the divisor first, as in (when-not (zero? d) (/ n d))")
            }
            Kind::Duplicate { literal, .. } => one(if literal.contains("set") {
                "a member stands once in #{…}: make a set of a collection with (set coll)"
            } else {
                "a key stands once in {…}: the last of several is kept by (assoc m k v) or (merge m1 m2)"
            }),
            Kind::Timeout => one(
                "do less in one program: take a part of the data, look things up in a map instead of filtering again and again, or split the work over several calls",
            ),
            Kind::Memory => one(
                "keep less at once: reduce instead of collecting, take only the fields that are needed, or end a recursion that does not end",
            ),
            Kind::Branch { cause, .. } => cause.advice(place, redact),
            _ => Vec::new(),
        }
    }
}

/// Advice about an unbound name, unless the message already suggests a similar one.
fn unbound_advice(name: &str, near: bool, place: &Place, redact: &Redact<'_>) -> Option<String> {
    let undefined = |name: &str| {
        format!(
            "`{name}` is defined nowhere: define it first, as in (def {name} …), (defn {name} [x] …) or (let [{name} …] …)"
        )
    };
    if !is_unredacted(name, redact) {
        return Some(undefined(&redact(name)));
    }
    if place.in_context.iter().any(|known| known == name) {
        return Some(format!("the context has `{name}`: write data/{name}"));
    }
    if place.bound_elsewhere.iter().any(|bound| bound == name) {
        return Some(format!(
            "`{name}` is bound in another form of the program and ends with it: use it inside of that form, or bind it here"
        ));
    }
    let known = || namespace_advice(name).or_else(|| absent(name));
    let known = known().or_else(|| special_form_advice(name));
    let known = known.or_else(|| decimal_point_advice(name));
    let known = known.or_else(|| class_advice(name));
    let known = known.or_else(|| dotted_name_advice(name));
    if near {
        return known;
    }
    known.or_else(|| {
        let meant = match name.ends_with('\'') {
            true => Some("; text stands in double quotes, as in \"some text\"".to_owned()),
            false => typo_advice(name),
        };
        Some(undefined(name) + &meant.unwrap_or_default())
    })
}

/// Whether what follows `before` is given to a builtin that calls it.
fn is_function_argument(before: &str) -> bool {
    let call = before.trim_end();
    let caller = &call[call.trim_end_matches(is_name_char).len()..];
    call.ends_with(caller)
        && call[..call.len() - caller.len()].ends_with('(')
        && callback_arguments(caller).is_some()
}

/// Advice about a name that is one typo away from a popular name that the language does not have.
fn typo_advice(name: &str) -> Option<String> {
    const LETTERS: std::ops::RangeInclusive<usize> = 5..=40;
    if !LETTERS.contains(&name.len()) {
        return None;
    }
    let near = crate::absent::names().find(|near| strsim::osa_distance(name, near) == 1)?;
    let instead = crate::absent::replacement(near)?;
    Some(format!(
        "; if `{near}` is meant, that is not in this language: {instead}"
    ))
}

/// Advice about a special form in the place of a value.
fn special_form_advice(name: &str) -> Option<String> {
    let form = special_forms().iter().find(|form| form.name == name)?;
    let shape = form.signature.split(", (").next()?;
    Some(format!(
        "`{name}` is no value: it stands first, as in {shape}"
    ))
}

/// Advice about a number without a digit before its point.
fn decimal_point_advice(name: &str) -> Option<String> {
    let (sign, digits) = name.split_once('.')?;
    let is_number =
        ["", "+", "-"].contains(&sign) && digits.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| format!("a number has a digit in front of its point: write {sign}0.{digits}"))
}

/// Advice about a method that no class has: probably a map key is meant.
fn method_advice(name: &str) -> Option<String> {
    let key = name.strip_prefix('.')?.trim_start_matches('-');
    crate::reader::is_readable_keyword(key)
        .then(|| format!("a key of a map is read as (:{key} m), and as (map :{key} rows) of each"))
}

/// Advice about a Java class: a constructor call such as `Name.`, or a class name with its package.
fn class_advice(name: &str) -> Option<String> {
    let (path, made) = match name.strip_suffix('.') {
        Some(path) => (path, true),
        None => (name, false),
    };
    let (package, class) = path.rsplit_once('.').unwrap_or(("", path));
    let is_class = class.starts_with(|first: char| first.is_ascii_uppercase())
        && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '$');
    if !is_class || (!made && !is_jvm_package(package)) {
        return None;
    }
    let raised = ["Exception", "Error", "Throwable"];
    let instead = match made {
        true if raised.iter().any(|end| class.ends_with(end)) => {
            crate::absent::replacement("throw")?
        }
        true => crate::absent::replacement(&format!("{class}.")).unwrap_or(
            "no objects are made: keep data in maps, vectors and sets, and text in strings",
        ),
        false => crate::absent::replacement("class")?,
    };
    Some(format!("`{name}` is not in this language: {instead}"))
}

/// Whether a namespace or a package is one of Clojure's or Java's.
fn is_jvm_package(package: &str) -> bool {
    let first = package.split('.').next().unwrap_or_default();
    ["clojure", "java", "javax"].contains(&first)
}

/// Advice about a name with a dot, as other languages write member access.
fn dotted_name_advice(name: &str) -> Option<String> {
    const STEPS_MAX: usize = 8;
    let (holder, member) = name.rsplit_once('.')?;
    let mut steps = name.split('.');
    if steps.clone().any(str::is_empty) || steps.clone().count() > STEPS_MAX {
        return None;
    }
    let qualified = format!("{holder}/{member}");
    let bare = builtins::bare_names().any(|known| known == member);
    let written = match holder {
        _ if builtins::lookup(&qualified).is_some() => qualified,
        _ if bare && holder != "data" => format!("({member} …)"),
        _ => {
            let start = match steps.next()? {
                "data" => format!("data/{}", steps.next()?),
                start => start.to_owned(),
            };
            steps.fold(start, |inner, step| format!("(:{step} {inner})"))
        }
    };
    Some(format!(
        "`{name}` is no name here, members are read by functions: write {written}"
    ))
}

/// The spelling of a name that is known only with a namespace.
fn namespace_advice(name: &str) -> Option<String> {
    let spelled = qualified_spellings(name, |row| !row.bare);
    let written = spelled.join(" or ");
    (!written.is_empty()).then(|| format!("`{name}` stands in a namespace: write {written}"))
}

/// Advice about a name that its namespace does not have.
fn member_advice(name: &str) -> Option<String> {
    if name.starts_with('.') {
        let near = crate::analyze::nearest(name, METHODS.iter().copied())?;
        return Some(format!("perhaps `{near}` is meant"));
    }
    let (namespace, member) = name.split_once('/')?;
    let known = NAMESPACES.iter();
    let known = known
        .clone()
        .find(|known| known.spellings.contains(&namespace));
    let members = known.as_ref().map(|known| builtins::members(known.id));
    let near = crate::analyze::nearest(member, members.into_iter().flatten());
    // Advice about exactly this name is better than a similar name.
    let near = near.filter(|_| absent(member).is_none());
    if let Some(near) = near {
        return Some(format!("perhaps `{namespace}/{near}` is meant"));
    }
    // A member of a date or time class is no substitute for a member of another class.
    let class = namespace.rsplit('.').next().unwrap_or(namespace);
    let is_class = class.starts_with(|first: char| first.is_ascii_uppercase());
    let counts = |row: &builtins::Builtin| !is_class || !row.homes.iter().all(is_temporal_class);
    let written = qualified_spellings(member, counts).join(" or ");
    if written.is_empty() {
        return absent(member).or_else(|| match (known, is_class) {
            (Some(_), _) => None,
            (None, false) if is_jvm_package(namespace) => Some(format!(
                "there is no namespace {namespace} here, and nothing is loaded: write it with the functions of those above"
            )),
            (None, true) if ["DayOfWeek", "Month"].contains(&class) => Some(
                "days of the week and months are strings, as in (= \"MONDAY\" (.getDayOfWeek d)), and numbers by .getMonthValue and .getValue"
                    .to_owned(),
            ),
            (None, true) => Some(format!(
                "there is no class {class} here, and none but those with the namespaces above: write it with functions, such as those of clojure.core and clojure.string"
            )),
            (None, false) => Some(format!(
                "a tool of an upstream is called as (tool/call {{:server \"{namespace}\" :tool \"{member}\" :args {{…}}}})"
            )),
        });
    }
    Some(format!("`{member}` stands elsewhere: write {written}"))
}

/// Whether a namespace is a class of dates and times.
fn is_temporal_class(home: &builtins::Home) -> bool {
    use builtins::Home;
    matches!(
        home,
        Home::LocalDate | Home::Instant | Home::Duration | Home::ChronoUnit
    )
}

/// The spellings of a member in each of its namespaces, for the builtins that `counts` accepts.
fn qualified_spellings(member: &str, counts: impl Fn(&builtins::Builtin) -> bool) -> Vec<String> {
    let rows = builtins::all().filter(|row| row.member() == member && counts(row));
    let spelled = rows.flat_map(|row| row.homes).filter_map(|home| {
        let namespace = NAMESPACES.iter().find(|namespace| namespace.id == *home)?;
        Some(match namespace.id {
            builtins::Home::Core => member.to_owned(),
            _ => format!("{}/{member}", namespace.spellings[0]),
        })
    });
    let mut spelled: Vec<_> = spelled.collect();
    spelled.sort_unstable();
    spelled.dedup();
    spelled
}

/// The entries of the context, the one that `name` may stand for first.
fn context_advice(name: &str, known: &[String], redact: &Redact<'_>) -> String {
    if known.is_empty() {
        return "the `context` object has no entries that can be named: `context` is given beside the program, for each call again; (def name data/name) keeps a value in a session"
            .to_owned();
    }
    if name == "get" {
        return "an entry is read as data/NAME, or as (get data \"NAME\") whatever its name is"
            .to_owned();
    }
    if is_unredacted(name, redact)
        && let Some((holder, member)) = name.split_once('.')
        && known.iter().any(|known| known == holder)
        && !member.contains('.')
    {
        return format!(
            "the `context` object has data/{holder}; members are read by functions: write (:{member} data/{holder})"
        );
    }
    let plain = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-?!".contains(c))
    };
    let read = |name: &String| match plain(name) {
        true => format!("data/{}", redact(name)),
        false => format!(
            "(get data {})",
            crate::print::readable(&crate::Value::from(redact(name)))
        ),
    };
    let near = match is_unredacted(name, redact) && is_unredacted(&format!("data/{name}"), redact) {
        true => crate::analyze::nearest(name, known.iter().map(String::as_str)),
        false => None,
    };
    let near = near.map_or(String::new(), |near| {
        format!("; perhaps {} is meant", read(&near))
    });
    let shown = known.iter().map(read).collect::<Vec<_>>().join(", ");
    format!("the `context` object has {shown}{near}")
}

/// Advice about the special form that `problem` begins with.
fn form_advice(problem: &str) -> Option<String> {
    if problem.starts_with("regex #") && problem.contains("unknown ") {
        return Some(
            "a pattern knows (…), (?:…), (?<name>…), (?=…), (?!…), (?<=…), (?<!…), (?>…), \\1, x*, x+, x?, x{2,5}, [a-z], \\d \\w \\s \\b, \\p{L}, and the flags (?i) (?m) (?s) (?x); \\ in front of a sign takes it as it is"
                .to_owned(),
        );
    }
    const FORM_SHAPES: &[(&str, &str)] = &[
        ("let ", "(let [name value …] body …)"),
        ("loop ", "(loop [name value …] … (recur value …))"),
        ("for ", "(for [x xs :when test] result)"),
        ("doseq ", "(doseq [x xs] (println x))"),
        ("fn ", "(fn [x y] body …)"),
        ("defn ", "(defn name [x y] body …)"),
        ("def ", "(def name value)"),
        (
            "the parameters ",
            "(fn [x y] body …) or (defn name [x y] body …)",
        ),
        ("cond ", "(cond test result … :else result)"),
        (
            "recur ",
            "(loop [i 0] (if (< i 10) (recur (inc i)) i)), with nothing around the recur but if, when, cond, let and do; elsewhere a function calls itself by its name",
        ),
        (
            "condp :>>",
            "(condp pred value test :>> (fn [found] …) … default)",
        ),
        (
            "case test values",
            "(condp = value a result … default) or (cond …) to compare with what a name or a call gives",
        ),
        (":keys", "{:keys [a b]}"),
        (
            "placeholder '%' ",
            "% for the argument inside #(…), and (mod a b) for a remainder",
        ),
        (
            "unsupported pattern",
            "(let [name value] …), (let [[a b] pair] …) or (let [{:keys [a b]} map] …)",
        ),
    ];
    let row = FORM_SHAPES
        .iter()
        .find(|(start, _)| problem.starts_with(start))?;
    Some(format!("write {}", row.1))
}

fn call_shape(function: &str) -> Option<String> {
    match function {
        "recur" => {
            return Some(
                "`recur` is called as (recur value …), with as many values as the loop or the function has names"
                    .into(),
            );
        }
        "a map" => return Some("a map is called as (m key) or (m key default)".into()),
        "a set" => return Some("a set is called as (s member)".into()),
        "a vector" => {
            return Some(
                "a vector is called as (v index); (get v index default) does without an error"
                    .into(),
            );
        }
        _ if function.starts_with(':') => {
            return Some(format!(
                "`{function}` is called as (:key m) or (:key m default)"
            ));
        }
        _ => {}
    }
    let builtin = builtins::lookup(function)?;
    Some(format!("`{function}` is called as {}", builtin.signatures))
}

/// For functions that are called with too many arguments: what is probably meant.
#[rustfmt::skip]
const EXTRA_ARGUMENTS: &[(&str, &str)] = &[
    ("sum", "what a function or a key gives for each item is added by (sum-by :total rows)"),
    ("avg", "the mean of what a function or a key gives for each item is (avg-by :total rows)"),
    ("distinct", "items with different values under a key are kept by (distinct-by :id rows)"),
    ("frequencies", "what a function or a key gives for each item is counted by (frequencies (map :status rows))"),
    ("group-by", "groups by two keys at once are made by (group-by (juxt :a :b) rows)"),
    ("round", "two places are kept by (/ (Math/round (* 100.0 x)) 100.0), or in text by (format \"%.2f\" x)"),
    ("parse", "there are no formats: take text of another shape apart with (re-matches re s), and make a date of its numbers: (LocalDate/of year month day)"),
    ("json/parse-string", "there are no options: keys stay strings, and (:name m) finds them as well"),
    ("json/generate-string", "there are no options: the text is compact"),
];

/// Functions that take a collection in every position, so that swapped arguments are never the problem.
pub(super) const COLLECTIONS_ONLY: &[&str] =
    &["concat", "into", "interleave", "join", "merge", "zip"];

/// Advice about an argument of the wrong kind.
fn type_advice(function: &str, expected: &str, found: Type, place: &Place) -> Vec<String> {
    const COMPARISONS: &[&str] = &["<", ">", "<=", ">=", "max", "min", "max-key", "min-key"];
    const PREDICATE_CALLERS: &[&str] = &[
        "some",
        "every?",
        "not-any?",
        "not-every?",
        "filter",
        "filterv",
        "remove",
    ];
    let called = || call_shape(function).into_iter().collect::<Vec<_>>();
    if expected.starts_with("a path") {
        let shape = match function {
            "assoc-in" => "(assoc-in m [:a :b] value)",
            "update-in" => "(update-in m [:a :b] f)",
            _ => "(get-in m [:a :b])",
        };
        return vec![format!("write the path in brackets, as in {shape}")];
    }
    if function == "find" && found == Type::Function {
        return vec![
            "the first item that passes is (first (filter pred coll)); find takes the entry of a key"
                .to_owned(),
        ];
    }
    if place.swapped {
        let called = called().into_iter();
        return called
            .map(|called| format!("perhaps the arguments are swapped: {called}"))
            .collect();
    }
    let compares = COMPARISONS.contains(&function);
    let counts = !compares && expected.contains("a number");
    let advice = match found {
        Type::Nil if compares || counts => {
            "leave nil out, as in (filter some? xs), or give a default, as in (or x 0)"
        }
        Type::String if compares => {
            "make text a number with (parse-long s) or (parse-double s), or a date with (LocalDate/parse s); compare text with (neg? (compare a b))"
        }
        Type::String if counts || function == "int" || expected.contains("an integer for %") => {
            "make text a number with (parse-long s) or (parse-double s), or join text with (str a b)"
        }
        Type::Vector if counts && !place.items.is_empty() => {
            "an item that is a vector, as an entry of a map is, is taken apart first, as in (fn [[k v]] …)"
        }
        Type::Function if counts => {
            "call the function, as in (f x); a step of -> or ->> with arguments stands in brackets, as in (map inc)"
        }
        Type::Vector | Type::Set if counts => {
            "give the items one by one, as in (apply + xs), or work on each, as in (map inc xs)"
        }
        Type::Map if counts => {
            "take a value out of the map first, as in (:total m), or work on all, as in (map :total rows)"
        }
        Type::Date | Type::Instant if counts => {
            "count between dates with (.until a b ChronoUnit/DAYS), and go on with (.plusDays d n)"
        }
        Type::Date if expected.contains("an instant") => {
            "count between dates with (.until a b ChronoUnit/DAYS); (java.util.Date. d) is the midnight of a date"
        }
        Type::String if expected.contains("a date") => "make text a date with (LocalDate/parse s)",
        Type::String if expected.contains("an instant") => {
            "make text an instant with (Instant/parse s)"
        }
        Type::Regex if function.starts_with('.') => {
            "give the pattern as text, or use (clojure.string/replace s re t), split or re-matches"
        }
        Type::String if function == "contains?" => {
            "look for a part of a text with (clojure.string/includes? s part)"
        }
        Type::String if function == "replace" && expected.contains("of replacements") => {
            "in a text it takes three: (clojure.string/replace s pattern replacement)"
        }
        Type::Keyword if counts || compares || function == "int" => {
            "a keyword takes its value out of a map, as in (:total m)"
        }
        Type::Keyword if function == "assoc" => {
            "a vector has an index for each item, from 0; a key is set in each map of it by (map (fn [m] (assoc m :key x)) rows)"
        }
        Type::Vector if function == "dissoc" => {
            "an item is left out by (filterv pred v), or at an index by (into (subvec v 0 i) (subvec v (inc i))); a key of each map in it by (map (fn [m] (dissoc m :key)) rows)"
        }
        Type::Vector if function == "select-keys" => {
            "keys of each map in it are taken by (map (fn [m] (select-keys m [:a :b])) rows)"
        }
        Type::Map if function == "a vector" => {
            "several keys of a map are taken by ((juxt :a :b) m), or by (select-keys m [:a :b])"
        }
        Type::Keyword
            if ["map", "mapv", "pmap"].contains(&function) && expected == "a collection" =>
        {
            "several keys of each item are taken by (map (juxt :a :b) rows)"
        }
        Type::Date | Type::Instant | Type::Duration if expected.contains("a string") => {
            "make it text with (str x)"
        }
        Type::Boolean | Type::Nil
            if expected == "a function" && PREDICATE_CALLERS.contains(&function) =>
        {
            "a predicate asks each item, as in (filter (fn [x] (= (:k x) v)) coll); a value that is looked for stands in a set, as in (some #{x} coll)"
        }
        Type::Map if function == "key" || function == "val" => {
            "ask the map itself, as in (keys m) and (vals m), or each of its entries, as in (map key m)"
        }
        Type::Integer | Type::Float if expected == "a string, a function or a map" => {
            "make it text with (str x)"
        }
        Type::String if expected == "an integer" => "make text a number with (parse-long s)",
        Type::Float if expected == "an integer" => {
            "make it whole with (int x); (quot a b) divides and stays whole, where (/ a b) makes a float"
        }
        Type::String if expected.contains("a regex") && !expected.contains("string") => {
            "write a pattern as #\"…\", or make one of text with (re-pattern s)"
        }
        Type::Vector | Type::Set if function == "includes?" || function == ".contains" => {
            "look for an item with (some #{x} coll), or for a member of a set with (contains? s x)"
        }
        Type::Vector if ["keys", "vals"].contains(&function) => {
            "ask one map, as in (keys (first rows)), or each, as in (map keys rows)"
        }
        Type::Integer | Type::Float | Type::String
            if expected == "a function" && PREDICATE_CALLERS.contains(&function) =>
        {
            "a value that is looked for stands in a set, as in (some #{x} coll)"
        }
        _ if function == "mapcat" && place.argument.is_none() => {
            "the function has to give a collection for each item: use map or keep where it gives one value"
        }
        _ if function.is_empty() && expected == "a collection" => {
            "for and doseq go through the items of a collection: a single value goes in brackets, as in [x], and (range n) counts from 0"
        }
        Type::Float if expected.contains("an integer for") => {
            "make it whole with (Math/round x) or (int x), or write it with a directive such as %.2f"
        }
        Type::Integer | Type::Float | Type::Keyword | Type::Boolean
            if COLLECTIONS_ONLY.contains(&function) && expected.contains("collection") =>
        {
            "a single value goes in brackets, as in [x]"
        }
        Type::Vector | Type::Set | Type::Map if function == "join" => {
            "the separator comes first, as in (clojure.string/join \", \" coll)"
        }
        Type::Nil if expected.contains("string") => {
            "give a default, as in (or s \"\"), or test it first, as in (when s …)"
        }
        Type::Vector if function == "index-of" || function == "last-index-of" => {
            "the place of an item is told by (.indexOf coll x), or by (first (keep-indexed (fn [i x] (when (pred x) i)) coll))"
        }
        Type::Vector | Type::Set | Type::Map if function == ".length" => "use (count coll)",
        Type::Vector if expected.contains("a set") => "make a set of it with (set coll)",
        Type::Vector | Type::Set if expected == "maps" => {
            "put the items of collections together with (into a b) or (concat a b); merge takes maps"
        }
        Type::Float if function == "java.util.Date." => {
            "make it whole with (Math/round x) or (int x)"
        }
        Type::Instant if expected.contains("a date") => {
            "make an instant a date with (LocalDate/parse (subs (str t) 0 10)), or go on from it with (.plusHours t 24)"
        }
        Type::Integer if expected.contains("ISO-8601") => {
            "make a number a time with (Instant/ofEpochMilli n) or (Instant/ofEpochSecond n)"
        }
        Type::Integer | Type::Float | Type::Keyword if expected.contains("string") => {
            "make it text with (str x), or (name k) of a keyword"
        }
        Type::Function if expected.contains("a collection") => {
            "a function stands where its result is meant: map and its kin without a collection make one, as (apply map f rows) does when there are no rows: test for none first, as in (when (seq rows) …)"
        }
        Type::Integer | Type::Float | Type::Keyword | Type::Boolean
            if expected.contains("a collection") =>
        {
            let single = "a single value goes in brackets, as in [x]".to_owned();
            return std::iter::once(single).chain(called()).collect();
        }
        _ => return called(),
    };
    vec![advice.to_owned()]
}

#[cfg(test)]
mod tests;
