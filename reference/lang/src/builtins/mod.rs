//! The builtin table: every function of the language in one place. Knows no forms and no hosts.
//!
//! A row names the clause that specifies it, where it is offered, how many arguments it takes, what
//! it does in one sentence, and the function that does it. Help, `doc`, `apropos`, `dir`, `meta`,
//! coverage and tests are derived from the rows.

mod aggregates;
mod discovery;
mod format;
mod functions;
mod interop;
mod json;
mod maps;
mod numbers;
mod order;
mod predicates;
mod regex;
mod relations;
mod seqs;
mod strings;
mod time;
mod walk;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub use functions::{DOTIMES, LETFN, STEP_DONE, TASK_RESET};
pub use maps::merge;
pub use numbers::{amount, plus};

use smallvec::SmallVec;

use crate::clock::Meter;
use crate::error::{Stop, wrong_type};
use crate::eval::Eval;
use crate::function::{Combinator, Combined};
use crate::heap;
use crate::value::{Text, Value};

/// What a function does: it may take its arguments out of `args`.
pub type Run = fn(&mut Eval<'_>, &mut [Value]) -> Result<Value, Stop>;

/// What signatures call a parameter that is called, or that calls what it was made of.
const CALLED: &[&str] = &[
    "f",
    "f1",
    "f2",
    "p1",
    "p2",
    "pred",
    "keyfn",
    "comparator",
    "xform",
    "xform1",
    "xform2",
    "branch?",
    "children",
    "cmap",
    "inner",
    "outer",
    "replacement",
];

/// A row of the builtin table.
#[derive(Debug)]
pub struct Builtin {
    /// As it is written and printed, such as `map`, `.contains` or `json/parse-string`.
    pub name: &'static str,
    /// The section or clause of the specification.
    pub id: &'static str,
    /// Where listings put it.
    pub section: Section,
    /// The namespaces that offer it.
    pub homes: &'static [Home],
    /// Whether it is known by its bare name.
    pub bare: bool,
    /// How many arguments it takes.
    pub arity: Arity,
    /// How it is called, one shape after the other.
    pub signatures: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The function, or the constant that the name stands for.
    pub run: Body,
    /// Which of its arguments have to be made.
    pub settles: Settles,
    /// Which of its arguments it takes the items of one by one.
    pub takes: Takes,
    /// Makes its items one by one, where a function that takes them so is called with them.
    pub later: Option<Later>,
}

/// A sequence of what a function would give, or none where only a call of it will do.
pub type Later = fn(&mut Eval<'_>, &'static Builtin, &mut [Value]) -> Result<Option<Value>, Stop>;

/// Which arguments a function takes the items of one by one: what stands there may be made so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    None,
    /// The first.
    First,
    /// The last.
    Last,
    /// The one at this place, from 0, and those behind it.
    From(usize),
}

impl Takes {
    /// Those of `count` arguments.
    pub fn of(self, count: usize) -> std::ops::Range<usize> {
        match self {
            Takes::None => 0..0,
            Takes::First => 0..count.min(1),
            Takes::Last => count.saturating_sub(1)..count,
            Takes::From(at) => at.min(count)..count,
        }
    }
}

/// Which arguments of a function are made into vectors before it is called, where they are sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settles {
    /// All of them.
    Every,
    /// Those that have an end.
    Ending,
    /// So many of the first; the items of the others it takes one by one.
    First(usize),
    /// None: it only asks what they are.
    Nothing,
}

/// What a name of the table stands for.
#[derive(Debug)]
pub enum Body {
    /// A function.
    Function(Run),
    /// A float.
    Constant(f64),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(&'static str),
}

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// At least.
    pub min: u8,
    /// At most; none when there is no upper bound.
    pub max: Option<u8>,
}

impl Arity {
    /// Whether `count` arguments are right.
    #[inline]
    pub const fn accepts(self, count: usize) -> bool {
        count >= self.min as usize
            && match self.max {
                Some(max) => count <= max as usize,
                None => true,
            }
    }
}

/// Exactly `count` arguments.
pub const fn exactly(count: u8) -> Arity {
    Arity {
        min: count,
        max: Some(count),
    }
}

/// `min` to `max` arguments.
pub const fn between(min: u8, max: u8) -> Arity {
    Arity {
        min,
        max: Some(max),
    }
}

/// `min` arguments or more.
pub const fn at_least(min: u8) -> Arity {
    Arity { min, max: None }
}

/// Where listings put a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `def` and its kin
    Definitions,
    /// `if` and its kin
    Conditionals,
    /// `->` and its kin
    Threading,
    /// `do`, `and`, `or`, `comment`
    ControlFlow,
    /// `for`, `doseq`
    Iteration,
    /// the bulk
    Core,
    /// `juxt`, `pmap`, `pcalls`
    FunctionalTools,
    /// `apropos` and its kin
    Discovery,
    /// `return`, `fail`, `task` and its kin
    AgentControl,
    /// strings
    Strings,
    /// sets
    Sets,
    /// regular expressions
    Regex,
    /// mathematics
    Math,
    /// Java members
    Interop,
    /// JSON
    Json,
}

impl Section {
    /// As it is shown.
    pub const fn title(self) -> &'static str {
        match self {
            Section::Definitions => "Definitions & Bindings",
            Section::Conditionals => "Conditionals",
            Section::Threading => "Threading Macros",
            Section::ControlFlow => "Control Flow",
            Section::Iteration => "Iteration",
            Section::Core => "Core",
            Section::FunctionalTools => "Functional Tools",
            Section::Discovery => "Discovery",
            Section::AgentControl => "Agent Control",
            Section::Strings => "String Functions",
            Section::Sets => "Set Operations",
            Section::Regex => "Regex Functions",
            Section::Math => "Math Functions",
            Section::Interop => "Interop",
            Section::Json => "JSON",
        }
    }
}

/// A namespace that offers functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// `clojure.core`
    Core,
    /// `clojure.string`
    String,
    /// `clojure.set`
    Set,
    /// `clojure.walk`
    Walk,
    /// `regex`
    Regex,
    /// `json`
    Json,
    /// `java.lang.Math`
    Math,
    /// `java.lang.System`
    System,
    /// `java.lang.Boolean`
    Boolean,
    /// `java.lang.Character`
    Character,
    /// `java.lang.Double`
    Double,
    /// `java.lang.Float`
    Float,
    /// `java.lang.Integer`
    Integer,
    /// `java.lang.Long`
    Long,
    /// `java.time.LocalDate`
    LocalDate,
    /// `java.time.Instant`
    Instant,
    /// `java.time.Duration`
    Duration,
    /// `java.time.temporal.ChronoUnit`
    ChronoUnit,
}

/// A row of the table of namespaces.
pub struct Namespace {
    /// Which.
    pub id: Home,
    /// How it may be written before the slash; the first one is its full name.
    pub spellings: &'static [&'static str],
    /// How messages call what it offers.
    pub title: &'static str,
}

const fn namespace(id: Home, spellings: &'static [&'static str], title: &'static str) -> Namespace {
    Namespace {
        id,
        spellings,
        title,
    }
}

const fn class(id: Home, spellings: &'static [&'static str]) -> Namespace {
    namespace(id, spellings, "Interop functions")
}

/// Every namespace that offers functions.
pub const NAMESPACES: &[Namespace] = &[
    namespace(Home::Json, &["json"], "JSON functions"),
    namespace(Home::Core, &["clojure.core", "core"], "Core functions"),
    namespace(
        Home::String,
        &["clojure.string", "str", "string"],
        "String functions",
    ),
    namespace(Home::Set, &["clojure.set", "set"], "Set functions"),
    namespace(Home::Walk, &["clojure.walk", "walk"], "Walk functions"),
    namespace(Home::Regex, &["regex"], "Regex functions"),
    namespace(Home::Math, &["Math"], "Math functions"),
    class(Home::System, &["System"]),
    class(Home::Boolean, &["Boolean"]),
    class(Home::Character, &["Character"]),
    class(Home::Double, &["Double"]),
    class(Home::Float, &["Float"]),
    class(Home::Integer, &["Integer"]),
    class(Home::Long, &["Long"]),
    class(Home::LocalDate, &["LocalDate", "java.time.LocalDate"]),
    class(Home::Instant, &["Instant", "java.time.Instant"]),
    class(Home::Duration, &["Duration", "java.time.Duration"]),
    class(
        Home::ChronoUnit,
        &["ChronoUnit", "java.time.temporal.ChronoUnit"],
    ),
];

/// The rows of each area.
pub const TABLES: &[&[Builtin]] = &[
    aggregates::ROWS,
    discovery::ROWS,
    format::ROWS,
    functions::ROWS,
    interop::ROWS,
    json::ROWS,
    maps::ROWS,
    numbers::ROWS,
    order::ROWS,
    predicates::ROWS,
    regex::ROWS,
    relations::ROWS,
    seqs::mapping::ROWS,
    seqs::folding::ROWS,
    seqs::endless::ROWS,
    seqs::parts::ROWS,
    seqs::building::ROWS,
    seqs::grouping::ROWS,
    seqs::trees::ROWS,
    strings::ROWS,
    time::ROWS,
    walk::ROWS,
];

/// The methods that `(.name object …)` knows.
pub static METHODS: LazyLock<Box<[&'static str]>> = LazyLock::new(|| {
    heap::aside(|| {
        let names = all().map(|builtin| builtin.name);
        let mut methods: Vec<_> = names.filter(|name| name.starts_with('.')).collect();
        methods.sort_unstable();
        methods.into_boxed_slice()
    })
});

/// A row of a function.
#[allow(clippy::too_many_arguments)]
pub const fn row(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    arity: Arity,
    signatures: &'static str,
    doc: &'static str,
    run: Run,
) -> Builtin {
    Builtin {
        arity,
        signatures,
        ..fixed(name, id, section, homes, doc, Body::Function(run))
    }
}

/// A row of a float, which may be written with its namespace or without.
pub const fn constant(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    doc: &'static str,
    value: f64,
) -> Builtin {
    fixed(name, id, section, homes, doc, Body::Constant(value))
}

/// A row of a number.
pub const fn fixed(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    doc: &'static str,
    run: Body,
) -> Builtin {
    Builtin {
        name,
        id,
        section,
        homes,
        bare: true,
        arity: exactly(0),
        signatures: name,
        doc,
        run,
        settles: Settles::Every,
        takes: Takes::None,
        later: None,
    }
}

impl Builtin {
    /// This row, known only with its namespace.
    pub const fn qualified(mut self) -> Builtin {
        self.bare = false;
        self
    }

    /// This row, which takes the items of its last argument one by one; the `made` first are made before.
    pub const fn streaming(mut self, made: usize) -> Builtin {
        self.settles = Settles::First(made);
        self.takes = Takes::Last;
        self
    }

    /// This row, which takes the items of these arguments one by one.
    pub const fn taking(mut self, takes: Takes) -> Builtin {
        self.takes = takes;
        self
    }

    /// This row, which takes sequences without an end as they are.
    pub const fn endless(mut self) -> Builtin {
        self.settles = Settles::Ending;
        self
    }

    /// This row, which asks of its arguments only what they are.
    pub const fn kinds(mut self) -> Builtin {
        self.settles = Settles::Nothing;
        self.takes = Takes::Last;
        self
    }

    /// This row, whose items can be made one by one.
    pub const fn deferring(mut self, later: Later) -> Builtin {
        self.later = Some(later);
        self
    }

    /// Whether somebody can see when it is called.
    pub fn is_loud(&self) -> bool {
        matches!(self.section, Section::Discovery | Section::AgentControl)
            || matches!(
                self.name,
                "println" | "print" | "pr" | "prn" | "pmap" | "pcalls"
            )
    }

    /// Whether it may call the one at `at`, from 0, of `count` arguments.
    pub fn calls(&self, at: usize, count: usize) -> bool {
        self.shapes()
            .filter_map(|signature| parameter(signature, at, count))
            .any(|name| CALLED.contains(&name))
    }

    /// Its signatures, one by one.
    pub fn shapes(&self) -> impl Iterator<Item = &'static str> {
        self.signatures.split(", (")
    }

    /// Whether there is an argument that it may call.
    pub fn calls_any(&self) -> bool {
        (1..=3).any(|count| (0..count).any(|at| self.calls(at, count)))
    }

    /// What the name stands for.
    pub fn value(&'static self) -> Value {
        match self.run {
            Body::Function(_) => Value::Builtin(self),
            Body::Constant(constant) => Value::Float(constant),
            Body::Integer(integer) => Value::Int(integer),
            Body::Text(text) => Value::str(text),
        }
    }

    /// Its name without a namespace.
    pub fn member(&self) -> &'static str {
        match self.name.split_once('/') {
            Some((namespace, member)) if !namespace.is_empty() && !member.is_empty() => member,
            _ => self.name,
        }
    }
}

/// What `signature` calls the one at `at`, from 0, of `count` arguments, where it takes so many.
pub fn parameter(signature: &'static str, at: usize, count: usize) -> Option<&'static str> {
    let words = signature.split([' ', '(', ')']);
    let words: SmallVec<[&str; 8]> = words.filter(|word| !word.is_empty()).collect();
    let parameters = words.get(1..).unwrap_or_default();
    let named = parameters
        .iter()
        .position(|word| matches!(*word, "..." | "&"));
    let (named, behind) = match named {
        Some(end) if parameters[end] == "..." => parameters.split_at(end),
        Some(end) => (&parameters[..end], &[][..]),
        None => (parameters, &[][..]),
    };
    // What may be repeated is like what stands before.
    let (repeats, behind) = (!behind.is_empty(), behind.get(1..).unwrap_or_default());
    let open = repeats || named.len() < parameters.len();
    let fits = match open {
        true => named.len() + behind.len() <= count + 1,
        false => named.len() == count,
    };
    let from_end = count.saturating_sub(at + 1);
    let name = match behind.len().checked_sub(from_end + 1) {
        Some(place) => behind.get(place),
        None => named.get(at).or(named.last().filter(|_| repeats)),
    };
    name.copied().filter(|_| fits)
}

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    TABLES.iter().copied().flatten()
}

/// What `name` stands for, with or without a namespace.
#[inline]
pub fn lookup(name: &str) -> Option<&'static Builtin> {
    INDEX.get(name).copied()
}

/// The names that need no namespace.
pub fn bare_names() -> impl Iterator<Item = &'static str> {
    all()
        .filter(|builtin| builtin.bare)
        .map(|builtin| builtin.name)
}

/// What a namespace offers, sorted.
pub fn members(home: Home) -> Vec<&'static str> {
    let mut members: Vec<_> = all()
        .filter(|builtin| builtin.homes.contains(&home))
        .map(|builtin| builtin.member())
        .collect();
    members.sort_unstable();
    members.dedup();
    members
}

type Index = HashMap<Box<str>, &'static Builtin, foldhash::fast::FixedState>;

static INDEX: LazyLock<Index> = LazyLock::new(|| heap::aside(index));

fn index() -> Index {
    let mut index = Index::default();
    for builtin in all() {
        if builtin.bare {
            index.insert(builtin.name.into(), builtin);
        }
        for home in builtin.homes {
            let spellings = NAMESPACES
                .iter()
                .filter(|namespace| namespace.id == *home)
                .flat_map(|namespace| namespace.spellings);
            for spelling in spellings {
                index.insert(format!("{spelling}/{}", builtin.member()).into(), builtin);
            }
        }
    }
    index
}

/// The function that `tool/NAME` stands for.
pub fn tool_value(name: &str) -> Value {
    Value::Combined(Arc::new(Combined::new(
        Combinator::Tool,
        vec![Value::Str(Text::from(name))],
    )))
}

/// A function made of `parts`.
pub fn made_of(kind: Combinator, parts: Vec<Value>) -> Value {
    Value::Combined(Arc::new(Combined::new(kind, parts)))
}

// Two rows of one table never share a name with the same home, and every row is described.
const _: () = {
    let mut table = 0;
    while table < TABLES.len() {
        let rows = TABLES[table];
        let mut at = 0;
        while at < rows.len() {
            assert!(!rows[at].doc.is_empty(), "every builtin has a doc sentence");
            assert!(!rows[at].id.is_empty(), "every builtin names its clause");
            let mut other = at + 1;
            while other < rows.len() {
                assert!(
                    !same(rows[at].name, rows[other].name),
                    "a builtin is listed twice"
                );
                other += 1;
            }
            at += 1;
        }
        table += 1;
    }
};

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl Meter for Eval<'_> {
    fn work(&mut self, steps: usize) -> Result<(), Stop> {
        /// Steps of some nanoseconds in the time of one step of a program, about.
        const STEPS: usize = 32;
        self.charge(1 + steps / STEPS)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Stop> {
        Eval::reserve(self, bytes)
    }
}

/// Refuses what cannot be called.
pub fn callable(value: &Value) -> Result<(), Stop> {
    if Eval::callable(value) {
        Ok(())
    } else {
        Err(wrong_type("a function", value))
    }
}

/// What a key function makes of `item`: a vector is a path, a string a key, anything else is called.
pub fn key_of(eval: &mut Eval<'_>, key: &Value, item: &Value) -> Result<Value, Stop> {
    match key {
        Value::Keyword(_) => match item {
            Value::Map(map) => {
                eval.charge(1)?;
                Ok(map.lookup(key).cloned().unwrap_or_default())
            }
            _ => eval.call1(key, item.clone()),
        },
        Value::Str(_) => Ok(maps::look_up(eval, item, key)?.unwrap_or_default()),
        Value::Vector(steps) => Ok(maps::look_along(eval, item, steps.iter())?.unwrap_or_default()),
        _ => eval.call1(key, item.clone()),
    }
}
