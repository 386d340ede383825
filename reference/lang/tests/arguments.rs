//! Every builtin, called with values of every kind in every position: an error must say which function refused which
//! argument, and be right about it. Takes builtins from their table, so that a new one is tested too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use ptc_lang::{
    Builtin, Ended, Env, Error, Host, Kind, Limits, NAMESPACES, Program, Pulse, Reason, builtins,
    run,
};

ptc_lang::counting_allocator!();

/// A value of every kind, with the word for it in messages.
const VALUES: &[(&str, &str)] = &[
    ("nil", "nil"),
    ("true", "boolean"),
    ("1", "integer"),
    ("-1", "integer"),
    ("2.5", "float"),
    ("\"a\"", "string"),
    (":k", "keyword"),
    ("'sym", "symbol"),
    ("[7 8]", "vector"),
    ("[\"x\" nil]", "vector"),
    ("[[1 2] [3 4]]", "vector"),
    ("{:a 1}", "map"),
    ("#{7}", "set"),
    ("inc", "function"),
    ("#\"a\"", "regex"),
    ("(LocalDate/parse \"2025-03-09\")", "date"),
    ("(Instant/parse \"2025-03-09T10:00:00Z\")", "instant"),
    (
        "(Duration/between (Instant/parse \"2025-03-09T10:00:00Z\") (Instant/parse \"2025-03-09T11:00:00Z\"))",
        "duration",
    ),
];

/// The number of calls of one function with a given number of arguments.
const CALLS_MAX: usize = 500;
/// The largest number of arguments that is tried.
const ARGUMENTS_MAX: usize = 4;
/// The number of checks of the clock after which a call is stopped: some calls ask for more than any limit allows.
const PULSES_MAX: usize = 50;

/// Functions that refuse a value that is not one of their arguments, and what that value is.
const WITHOUT_ARGUMENT: &[(&str, &str)] = &[
    ("assoc-in", "a step of the path"),
    ("update-in", "a step of the path"),
    ("ffirst", "the first item"),
    ("nfirst", "the first item"),
    ("max-key", "what the function made of an argument"),
    ("min-key", "what the function made of an argument"),
    ("postwalk", "what the function made of an entry"),
    ("walk", "what the function made of an entry"),
    ("tree-seq", "what the function made of a node"),
];

/// Beginnings of messages, after the kind, that are not about an argument of the called function, and what they are
/// about.
const WITHOUT_NAME: &[(&str, &str)] = &[
    ("a vector", "the vector that stands for a function"),
    ("a map", "the map that stands for a function"),
    ("a set", "the set that stands for a function"),
    (":k", "the keyword that stands for a function"),
    ("inc", "the function that was given"),
    ("not callable: ", "the value that stands for a function"),
    ("index ", "the vector that stands for a function"),
    (
        "the sequence has no end",
        "what was made, not what it was made of",
    ),
    (
        "discovery options",
        "words that every tool for looking around has",
    ),
];

#[derive(Default)]
struct TestHost(AtomicUsize);

impl Host for TestHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        match self.0.fetch_add(1, Ordering::Relaxed) > PULSES_MAX {
            true => Pulse::TimedOut,
            false => Pulse::Continue,
        }
    }
}

fn error_of(program: &str) -> Option<Error> {
    let host = TestHost::default();
    let (outcome, _) = run(
        &Program::new(program),
        &Env::new(),
        &Limits::default(),
        &host,
    );
    match outcome.ended {
        Ended::Error(error) if error.reason() == Reason::RuntimeError => Some(error),
        _ => None,
    }
}

/// The name of `builtin` as a program writes it.
fn written(builtin: &Builtin) -> String {
    let home = NAMESPACES
        .iter()
        .find(|namespace| builtin.homes.first() == Some(&namespace.id));
    match home {
        Some(home) if !builtin.bare => format!("{}/{}", home.spellings[0], builtin.member()),
        _ => builtin.name.to_owned(),
    }
}

/// What is wrong with the `error` of `program`, which calls `name`, written as `written`, with values of these `kinds`.
fn fault(
    name: &str,
    written: &str,
    kinds: &[&str],
    program: &str,
    error: &Error,
) -> Option<String> {
    let message = error.message();
    let explained = error.explained(program, &|text: &str| text.to_owned());
    let sentence = message
        .split_once("rror: ")
        .map_or(&*message, |(_, sentence)| sentence);
    let elsewhere = || {
        WITHOUT_NAME
            .iter()
            .any(|(start, _)| sentence.starts_with(start))
    };
    if !message.contains(name) && !elsewhere() {
        return Some(format!("does not name {name}: {message}"));
    }
    if !explained.starts_with("at line 1, column 1: ") {
        return Some(format!("has no place: {explained}"));
    }
    let Kind::Type {
        function, found, ..
    } = &error.kind
    else {
        return None;
    };
    if function != name {
        return None;
    }
    let Some(at) = error.place.argument else {
        let known = WITHOUT_ARGUMENT.iter().any(|(other, _)| *other == name);
        // Among equal arguments it is unknown which one the function took first.
        let equals = kinds.iter().filter(|kind| **kind == found.kind.word());
        let is_exempt = known || !error.place.items.is_empty() || equals.count() > 1;
        return (!is_exempt).then(|| format!("names no argument: {message}"));
    };
    let words = format!(
        "argument {} of `{written}` is {}",
        at + 1,
        found.kind.word()
    );
    if kinds.get(at) != Some(&found.kind.word()) {
        return Some(format!("speaks of argument {} where {message}", at + 1));
    }
    (!explained.contains(&words)).then(|| format!("lacks «{words}»: {explained}"))
}

#[test]
fn errors_name_the_function_and_rejected_argument() {
    let mut faults = BTreeMap::new();
    let (mut asked, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let functions = builtins().filter(|builtin| builtin.signatures != builtin.name);
    for builtin in functions {
        let name = written(builtin);
        let least = usize::from(builtin.arity.min);
        let most = builtin.arity.max.map_or(least + 2, usize::from);
        for count in least..=most.max(least).min(ARGUMENTS_MAX) {
            let shapes = VALUES.len().pow(count as u32);
            for shape in (0..shapes).step_by((shapes / CALLS_MAX) | 1) {
                let place = |at: usize| shape / VALUES.len().pow(at as u32) % VALUES.len();
                let shown = (0..count).map(|at| VALUES[place(at)]);
                let (values, kinds): (Vec<_>, Vec<_>) = shown.unzip();
                let program = format!("({name} {})", values.join(" "));
                let Some(error) = error_of(&program) else {
                    continue;
                };
                asked.insert(builtin.name);
                if matches!(&error.kind, Kind::Type { .. }) && error.place.argument.is_some() {
                    refused.insert(builtin.name);
                }
                if let Some(fault) = fault(builtin.name, &name, &kinds, &program, &error) {
                    faults.entry(builtin.name).or_insert((program, fault));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} functions: {faults:#?}", faults.len());
    // The test must cover enough to be meaningful.
    assert!(
        asked.len() > 300 && refused.len() > 200,
        "{} {}",
        asked.len(),
        refused.len()
    );
    let idle = WITHOUT_ARGUMENT
        .iter()
        .filter(|(name, _)| !asked.contains(name));
    assert_eq!(idle.count(), 0, "a row for what refuses nothing");
}

/// Integers beyond the range of 64 bits, above and below.
const LARGE: [&str; 2] = ["99999999999999999999", "-99999999999999999999"];

/// An error about an integer of more than 64 bits says what was expected instead, and quotes the given integer rather
/// than the nearest one that fits.
#[test]
fn errors_quote_large_integers_exactly() {
    let mut faults = BTreeMap::new();
    let mut refused = BTreeSet::new();
    for builtin in builtins().filter(|builtin| builtin.signatures != builtin.name) {
        let name = written(builtin);
        let least = usize::from(builtin.arity.min).max(1);
        let most = builtin.arity.max.map_or(least + 2, usize::from);
        for count in least..=most.max(least).min(ARGUMENTS_MAX) {
            let shapes = VALUES.len().pow(count as u32 - 1);
            let shapes = (0..shapes).step_by((shapes * count / CALLS_MAX) | 1);
            for ((shape, at), large) in shapes.flat_map(|shape| {
                (0..count).flat_map(move |at| LARGE.map(|large| ((shape, at), large)))
            }) {
                let mut values: Vec<_> = (0..count - 1)
                    .map(|at| VALUES[shape / VALUES.len().pow(at as u32) % VALUES.len()].0)
                    .collect();
                values.insert(at, large);
                let program = format!("({name} {})", values.join(" "));
                let Some(error) = error_of(&program) else {
                    continue;
                };
                let message = error.message();
                if message.contains(large) {
                    refused.insert(builtin.name);
                }
                let other = [i64::MAX, i64::MIN].map(|other| other.to_string());
                let wrong = other.iter().any(|other| message.contains(other))
                    || message.contains("an integer, got integer")
                    || message.contains("an integer or a character, got integer");
                if wrong {
                    faults.entry(builtin.name).or_insert((program, message));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} functions: {faults:#?}", faults.len());
    assert!(refused.len() > 100, "{}", refused.len());
}

/// Calls with equal values in several positions, and the only argument that the error may name; `None` when the error
/// is about a value inside an argument or made from one.
const EQUALS: &[(&str, Option<usize>)] = &[
    ("(assoc-in {:a 1} [:a :b] 1)", None),
    ("(assoc-in [1] [5] 5)", None),
    ("(assoc-in {:a {:b \"x\"}} [:a :b :c] \"x\")", None),
    ("(assoc-in 1 [:a] 1)", Some(0)),
    ("(assoc-in 1 1 1)", Some(1)),
    ("(update-in {:a 1} [:a :b] (fn [_ x] x) 1)", None),
    ("(update-in 1 [1] inc 1)", Some(0)),
    ("(update 1 1 inc)", Some(0)),
    ("(update [1] 5 (fn [_ _] 1) 6)", Some(1)),
    ("(assoc 1 1 1)", Some(0)),
    ("(merge 1 1)", Some(0)),
    ("(merge {} 1 1)", Some(1)),
    ("(range 0 0 0)", Some(2)),
    ("(range 0 1 0)", Some(2)),
    ("(range 0.0 1 0.0)", Some(2)),
    ("(range \"a\" \"a\" \"a\")", Some(0)),
    ("(range 1 :a :a)", Some(1)),
    ("(range nil nil)", Some(0)),
    ("(max-key identity \"x\" \"x\")", None),
    ("(min-key identity nil nil)", None),
    ("(let [x \"x\"] (max-key (fn [_] x) x 1))", None),
    ("(ffirst [1])", None),
    ("(nfirst [1 1])", None),
    ("(tree-seq identity identity 1)", None),
    ("(tree-seq identity (fn [_] 7) 7)", None),
    ("(walk first identity {:a 1})", None),
    ("(conj 1 1)", Some(0)),
    ("(+ 1 \"a\" \"a\")", Some(1)),
    ("(nth 1 1)", Some(0)),
    ("(apply + 1 1)", Some(2)),
];

#[test]
fn equal_arguments_are_distinguished() {
    let mut named = 0;
    for (program, argument) in EQUALS {
        let error = error_of(program).unwrap_or_else(|| panic!("{program} is no error"));
        let sentence = error.explained(program, &|text: &str| text.to_owned());
        named += usize::from(error.place.argument.is_some());
        let right = error.place.argument.is_none() || error.place.argument == *argument;
        assert!(right, "{program}: {sentence}");
    }
    assert!(named > 10, "only {named} errors name an argument");
}
