//! The builtin table: every function of the language in one place. Knows no forms and no hosts.
//!
//! A row names the clause that specifies the function, the namespaces that offer it, how many arguments it takes, what
//! it does in one sentence, and the Rust function that implements it. Help, `doc`, `apropos`, `dir`, `meta`, coverage
//! and tests are derived from the rows.

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

use crate::clock::WorkMeter;
use crate::error::{Stop, wrong_type};
use crate::eval::Eval;
use crate::function::{Combinator, Combined};
use crate::heap;
use crate::value::{Text, Value};

/// The implementation of a builtin. It may move its arguments out of `args`.
pub type BuiltinFn = fn(&mut Eval<'_>, &mut [Value]) -> Result<Value, Stop>;

/// Names of parameters in signatures whose arguments are called, either by the builtin or by the function that it
/// returns.
const CALLED_PARAMETERS: &[&str] = &[
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
    /// The name as it is written and printed, such as `map`, `.contains` or `json/parse-string`.
    pub name: &'static str,
    /// The id of the section or clause of the specification.
    pub id: &'static str,
    /// The section of listings that shows it.
    pub section: Section,
    /// The namespaces that offer it.
    pub homes: &'static [Home],
    /// Whether the name may be written without a namespace.
    pub bare: bool,
    /// How many arguments it takes.
    pub arity: Arity,
    /// The call shapes, separated by `, `.
    pub signatures: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// The function, or the constant that the name stands for.
    pub run: BuiltinValue,
    /// Which sequence arguments are realized before the call.
    pub realizes: Realizes,
    /// Which of its arguments it consumes item by item.
    pub consumes: Consumes,
    /// Makes a lazy sequence of its results, for callers that consume it item by item.
    pub lazy: Option<MakeLazy>,
}

/// Makes a lazy sequence of a function's results; `None` when only a plain call will do.
pub type MakeLazy =
    fn(&mut Eval<'_>, &'static Builtin, &mut [Value]) -> Result<Option<Value>, Stop>;

/// Which arguments a function consumes item by item; these may be lazy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumes {
    /// None.
    None,
    /// The first.
    First,
    /// The last.
    Last,
    /// The argument at this index, from 0, and all after it.
    From(usize),
}

impl Consumes {
    /// The indices of these arguments among `count`.
    pub fn of(self, count: usize) -> std::ops::Range<usize> {
        match self {
            Consumes::None => 0..0,
            Consumes::First => 0..count.min(1),
            Consumes::Last => count.saturating_sub(1)..count,
            Consumes::From(at) => at.min(count)..count,
        }
    }
}

/// Which arguments of a function are realized into vectors before the call, if they are sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Realizes {
    /// All arguments.
    Every,
    /// All but endless sequences.
    Ending,
    /// This many of the first arguments; the function consumes the others item by item.
    First(usize),
    /// None: the function asks only for the kinds of its arguments.
    Nothing,
}

/// The value of a name in the table.
#[derive(Debug)]
pub enum BuiltinValue {
    /// A function.
    Function(BuiltinFn),
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
    /// The smallest number.
    pub min: u8,
    /// The largest number; `None` when there is no upper bound.
    pub max: Option<u8>,
}

impl Arity {
    /// Whether a call with `count` arguments is valid.
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

/// At least `min` arguments.
pub const fn at_least(min: u8) -> Arity {
    Arity { min, max: None }
}

/// The section of listings that shows a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `def` and related forms
    Definitions,
    /// `if` and related forms
    Conditionals,
    /// `->` and related forms
    Threading,
    /// `do`, `and`, `or`, `comment`
    ControlFlow,
    /// `for`, `doseq`
    Iteration,
    /// most functions
    Core,
    /// `juxt`, `pmap`, `pcalls`
    FunctionalTools,
    /// `apropos` and related functions
    Discovery,
    /// `return`, `fail`, `task` and related names
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
    /// The title in listings.
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
    /// The namespace.
    pub id: Home,
    /// The prefixes that a program may write before the slash; the first is its full name.
    pub spellings: &'static [&'static str],
    /// What messages call its functions.
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

/// The rows of each subject.
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

/// The methods that `(.name object …)` supports.
pub static METHODS: LazyLock<Box<[&'static str]>> = LazyLock::new(|| {
    heap::uncharged(|| {
        let names = all().map(|builtin| builtin.name);
        let mut methods: Vec<_> = names.filter(|name| name.starts_with('.')).collect();
        methods.sort_unstable();
        methods.into_boxed_slice()
    })
});

/// The row of a function.
#[allow(clippy::too_many_arguments)]
pub const fn row(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    arity: Arity,
    signatures: &'static str,
    doc: &'static str,
    run: BuiltinFn,
) -> Builtin {
    Builtin {
        arity,
        signatures,
        ..fixed(name, id, section, homes, doc, BuiltinValue::Function(run))
    }
}

/// The row of a float constant, whose namespace is optional.
pub const fn constant(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    doc: &'static str,
    value: f64,
) -> Builtin {
    fixed(name, id, section, homes, doc, BuiltinValue::Constant(value))
}

/// The row of a constant, which [`row`] builds on.
pub const fn fixed(
    name: &'static str,
    id: &'static str,
    section: Section,
    homes: &'static [Home],
    doc: &'static str,
    run: BuiltinValue,
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
        realizes: Realizes::Every,
        consumes: Consumes::None,
        lazy: None,
    }
}

impl Builtin {
    /// This row, with a mandatory namespace.
    pub const fn qualified(mut self) -> Builtin {
        self.bare = false;
        self
    }

    /// This row, for a function that consumes its last argument item by item; the first `made` arguments are realized
    /// before the call.
    pub const fn streaming(mut self, made: usize) -> Builtin {
        self.realizes = Realizes::First(made);
        self.consumes = Consumes::Last;
        self
    }

    /// This row, for a function that consumes these arguments item by item.
    pub const fn consuming(mut self, consumes: Consumes) -> Builtin {
        self.consumes = consumes;
        self
    }

    /// This row, for a function that accepts endless sequences unrealized.
    pub const fn endless(mut self) -> Builtin {
        self.realizes = Realizes::Ending;
        self
    }

    /// This row, for a function that asks only for the kinds of its arguments.
    pub const fn by_kind(mut self) -> Builtin {
        self.realizes = Realizes::Nothing;
        self.consumes = Consumes::Last;
        self
    }

    /// This row, for a function whose results can be made one by one.
    pub const fn lazy(mut self, lazy: MakeLazy) -> Builtin {
        self.lazy = Some(lazy);
        self
    }

    /// Whether a call has a visible effect.
    pub fn has_effects(&self) -> bool {
        matches!(self.section, Section::Discovery | Section::AgentControl)
            || matches!(
                self.name,
                "println" | "print" | "pr" | "prn" | "pmap" | "pcalls"
            )
    }

    /// Whether it may call the argument at index `at`, from 0, of `count` arguments.
    pub fn calls(&self, at: usize, count: usize) -> bool {
        self.shapes()
            .filter_map(|signature| parameter(signature, at, count))
            .any(|name| CALLED_PARAMETERS.contains(&name))
    }

    /// Its signatures.
    pub fn shapes(&self) -> impl Iterator<Item = &'static str> {
        self.signatures.split(", (")
    }

    /// Whether it may call any of its arguments.
    pub fn calls_any(&self) -> bool {
        (1..=3).any(|count| (0..count).any(|at| self.calls(at, count)))
    }

    /// The value of the name.
    pub fn value(&'static self) -> Value {
        match self.run {
            BuiltinValue::Function(_) => Value::Builtin(self),
            BuiltinValue::Constant(constant) => Value::Float(constant),
            BuiltinValue::Integer(integer) => Value::Int(integer),
            BuiltinValue::Text(text) => Value::str(text),
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

/// The name that `signature` gives to the argument at index `at`, from 0, of `count` arguments; `None` when it does not
/// take this many.
pub fn parameter(signature: &'static str, at: usize, count: usize) -> Option<&'static str> {
    let words = signature.split([' ', '(', ')']);
    let words: SmallVec<[&str; 8]> = words.filter(|word| !word.is_empty()).collect();
    let parameters = words.get(1..).unwrap_or_default();
    let named = parameters
        .iter()
        .position(|word| matches!(*word, "..." | "&"));
    let (named, after) = match named {
        Some(end) if parameters[end] == "..." => parameters.split_at(end),
        Some(end) => (&parameters[..end], &[][..]),
        None => (parameters, &[][..]),
    };
    // A repeated parameter has the name of the one before the `...`.
    let (repeats, after) = (!after.is_empty(), after.get(1..).unwrap_or_default());
    let open = repeats || named.len() < parameters.len();
    let fits = match open {
        true => named.len() + after.len() <= count + 1,
        false => named.len() == count,
    };
    let from_end = count.saturating_sub(at + 1);
    let name = match after.len().checked_sub(from_end + 1) {
        Some(place) => after.get(place),
        None => named.get(at).or(named.last().filter(|_| repeats)),
    };
    name.copied().filter(|_| fits)
}

/// Every row of every table.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    TABLES.iter().copied().flatten()
}

/// The row of `name`, with or without a namespace.
#[inline]
pub fn lookup(name: &str) -> Option<&'static Builtin> {
    INDEX.get(name).copied()
}

/// The names that may be written without a namespace.
pub fn bare_names() -> impl Iterator<Item = &'static str> {
    all()
        .filter(|builtin| builtin.bare)
        .map(|builtin| builtin.name)
}

/// The names that a namespace offers, sorted.
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

static INDEX: LazyLock<Index> = LazyLock::new(|| heap::uncharged(index));

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
pub fn combined_value(kind: Combinator, parts: Vec<Value>) -> Value {
    Value::Combined(Arc::new(Combined::new(kind, parts)))
}

// No name occurs twice in a table, and every row has a doc sentence and a clause id.
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
                    !is_same_text(rows[at].name, rows[other].name),
                    "a builtin is listed twice"
                );
                other += 1;
            }
            at += 1;
        }
        table += 1;
    }
};

const fn is_same_text(a: &str, b: &str) -> bool {
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

impl WorkMeter for Eval<'_> {
    fn work(&mut self, steps: usize) -> Result<(), Stop> {
        /// The number of metered steps, of a few nanoseconds each, that take about as long as one step of a program.
        const STEPS: usize = 32;
        self.charge(1 + steps / STEPS)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Stop> {
        Eval::reserve(self, bytes)
    }
}

/// Raises a type error for a value that cannot be called.
pub fn callable(value: &Value) -> Result<(), Stop> {
    if Eval::callable(value) {
        Ok(())
    } else {
        Err(wrong_type("a function", value))
    }
}

/// The key that a key function gives for `item`: a vector is a path, a string is looked up, anything else is called.
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
        Value::Vector(steps) => {
            Ok(maps::look_up_path(eval, item, steps.iter())?.unwrap_or_default())
        }
        _ => eval.call1(key, item.clone()),
    }
}
