//! Errors and limits as data. Knows no sentences: those are in `message`.

mod explain;
mod message;
mod order;
pub(crate) mod quote;

use std::sync::Arc;

use crate::analyze::ir::Source;
use crate::builtins::Arity;
use crate::env::Env;
use crate::form::Span;
use crate::function::Closure;
use crate::reader::ReadError;
use crate::value::{Mark, Text, Type, Value};

pub(crate) use message::arguments;
pub use quote::{Quote, Veil, Words, about, got, naming, quoting};

/// The closed union of outcome reasons that the language itself can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The text is no program.
    ParseError,
    /// The program is malformed or went wrong.
    RuntimeError,
    /// It took too long.
    Timeout,
    /// It wanted too much memory.
    MemoryLimit,
    /// Nobody waited for it any more.
    Cancelled,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 5] = [
        Reason::ParseError,
        Reason::RuntimeError,
        Reason::Timeout,
        Reason::MemoryLimit,
        Reason::Cancelled,
    ];

    /// The one with this wire word.
    pub fn named(word: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.word() == word)
    }

    /// The wire word.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::ParseError => "parse_error",
            Reason::RuntimeError => "runtime_error",
            Reason::Timeout => "timeout",
            Reason::MemoryLimit => "memory_limit",
            Reason::Cancelled => "cancelled",
        }
    }
}

/// Names without a meaning that more is said about.
const NAMES_MAX: usize = 8;

/// The finer kinds of errors that have one, as [`Error::code`] gives them.
const CODES: &[&str] = &[
    "symbol_limit_exceeded",
    "invalid_arity",
    "invalid_form",
    "unbound_var",
    "duplicate_key",
    "type_error",
    "arity_error",
    "arithmetic_error",
    "not_callable",
    "destructure_error",
    "loop_limit_exceeded",
    "unsupported_method",
    "unknown_tool",
    "invalid_tool_args",
    "pmap_error",
    "pcalls_error",
    "parallel_capacity_exceeded",
];

/// The finer kind or reason with this word, as it is told from elsewhere; none for any other word.
pub fn known_code(word: &str) -> &'static str {
    let reasons = Reason::ALL.map(Reason::word);
    let mut known = CODES.iter().copied().chain(reasons);
    known.find(|known| *known == word).unwrap_or_default()
}

/// A program's failure: what kind, and where in the text.
#[derive(Clone, Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: Kind,
    /// Where.
    pub place: Box<Place>,
}

/// Where evaluation was when it stopped.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// In the text, when it is known.
    pub span: Option<Span>,
    /// The function whose code `span` is in; none for code outside of functions.
    pub within: Option<Box<Within>>,
    /// Calls of the program's functions that had not ended.
    pub depth: u32,
    /// The items that were worked on, by position: the innermost collection's first.
    pub items: Vec<usize>,
    /// Which argument of the function that the kind names would not do, from 0.
    pub argument: Option<usize>,
    /// The arguments of the function that the kind names would do in another order.
    pub swapped: bool,
    /// Of the names without a meaning, those that the context has.
    pub in_context: Vec<String>,
    /// Of the names without a meaning, those that a form elsewhere in the program binds.
    pub bound_elsewhere: Vec<String>,
    /// What to do about it, where only the place knows.
    pub way_out: Option<String>,
    /// What [`Error::explained`] says, when that was found out elsewhere.
    pub told: Option<String>,
}

impl Place {
    /// Collections inside one another that are remembered.
    const ITEMS_MAX: usize = 3;

    /// Notes that this was at item `index` of a collection. Of many that lie around each other the innermost and the
    /// outermost are kept.
    fn at_item(&mut self, index: usize) {
        if self.items.len() == Self::ITEMS_MAX {
            self.items.pop();
        }
        self.items.push(index);
    }
}

/// A function as an error remembers it.
#[derive(Clone, Debug)]
pub struct Within {
    /// Its name, when it has one.
    pub name: Option<Text>,
    /// The top-level expression that it stands in.
    pub source: Arc<Source>,
}

/// What went wrong. [`std::fmt::Display`] gives the sentence.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The reader refused the text.
    Read(Box<ReadError>),
    /// A special form was used in a shape that it does not have.
    Usage {
        /// The shape that it has, such as `(let [bindings] body ...)`.
        expected: &'static str,
    },
    /// A form that cannot be analysed, in words.
    Form(String),
    /// A name behind a namespace that does not have it, or that does not exist.
    Member(String),
    /// Names without a meaning, each with a suggestion.
    Unbound(Vec<(String, Option<String>)>),
    /// A literal map or set that has a constant twice.
    Duplicate {
        /// `key` or `element`.
        part: &'static str,
        /// `map` or `set`.
        literal: &'static str,
        /// The constant as written.
        text: String,
    },
    /// An argument of the wrong kind.
    Type {
        /// The function as written; empty until the caller fills it in.
        function: String,
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        found: Found,
    },
    /// A value of the right kind that will not do, in words.
    Value {
        /// The function as written; empty until the caller fills it in.
        function: String,
        /// What is wrong.
        problem: Words,
    },
    /// The wrong number of arguments.
    Arity {
        /// The function as written.
        function: String,
        /// How many it takes.
        accepts: Arity,
        /// How many it was given.
        given: usize,
    },
    /// Keys and values that do not pair up, in words.
    Pairs(String),
    /// Arithmetic without a result, in words.
    Arithmetic(&'static str),
    /// A value in call position that cannot be called.
    NotCallable(Quote),
    /// A binding pattern met a value that it cannot take apart.
    Destructure {
        /// What the pattern takes.
        expected: &'static str,
        /// What it met.
        found: Found,
    },
    /// A method that no class here has.
    Method(String),
    /// `data/NAME` that the context does not have.
    Data {
        /// The name.
        name: String,
        /// Names that the context has, some of them.
        known: Vec<String>,
    },
    /// `tool/NAME` that does not exist.
    UnknownTool {
        /// As written, without `tool/`.
        name: String,
        /// The tools that there are.
        available: Vec<String>,
    },
    /// A tool called with something else than one map.
    ToolArgs {
        /// As written, without `tool/`.
        name: String,
        /// The single argument it was given.
        found: Option<Quote>,
    },
    /// A branch of `pmap` or `pcalls` failed.
    Branch {
        /// `pmap` or `pcalls`.
        form: &'static str,
        /// Which item.
        index: usize,
        /// Why.
        cause: Box<Kind>,
    },
    /// Something `pmap` or `pcalls` does not allow, in words.
    Parallel {
        /// `pmap` or `pcalls`.
        form: &'static str,
        /// What is wrong.
        problem: Words,
    },
    /// No worker was free.
    Capacity,
    /// What the host raised.
    Host {
        /// The finer kind; empty for none.
        kind: &'static str,
        /// The whole text.
        message: String,
    },
    /// Anything else, in words.
    Other(Words),
    /// What an evaluation elsewhere told, in words.
    Told {
        /// The reason that it gave.
        reason: Reason,
        /// The finer kind.
        code: &'static str,
        /// The sentence.
        message: String,
    },
    /// The wall clock ran out.
    Timeout,
    /// Memory ran out.
    Memory,
    /// Nobody waits any more.
    Cancelled,
}

/// A value as a message shows it: its kind and a short preview.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is.
    pub kind: Type,
    /// It.
    pub text: Quote,
    /// Where it stood, to be found among arguments that still stand there. Nothing is read from it.
    address: usize,
    /// What tells it from the other arguments once they were taken from there.
    mark: Mark,
}

/// What the first arguments of a call are, for an error to find one that the function has taken since.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    marks: [Mark; Self::MAX],
    count: usize,
}

impl Marks {
    /// Arguments that are told apart. A function that has more leaves those behind in their places, where they are found without
    /// a mark.
    const MAX: usize = 4;

    /// The marks of `args`.
    #[inline]
    pub fn of(args: &[Value]) -> Marks {
        let mut marks = [Mark::NIL; Self::MAX];
        let mut count = 0;
        for (mark, arg) in marks.iter_mut().zip(args) {
            *mark = arg.mark();
            count += 1;
        }
        Marks { marks, count }
    }

    fn seen(&self) -> &[Mark] {
        &self.marks[..self.count]
    }
}

impl Found {
    /// Describes `value`.
    pub fn of(value: &Value) -> Found {
        Found {
            kind: value.kind(),
            text: Quote::value(value),
            address: std::ptr::from_ref(value).addr(),
            mark: value.mark(),
        }
    }

    /// Forgets where it stood and what it was.
    fn leave(&mut self) {
        self.address = 0;
        self.mark = Mark::NONE;
    }

    /// Its position among `args`, when it is one of them.
    fn among(&self, args: &[Value], marks: &Marks) -> Option<usize> {
        let stands = |arg: &Value| std::ptr::from_ref(arg).addr() == self.address;
        args.iter()
            .position(stands)
            .or_else(|| self.taken_from(args, marks))
    }

    /// The only one of `args` that the function has taken out of its place and that was what this is. Of several that were
    /// the same, nothing tells which one it is.
    fn taken_from(&self, args: &[Value], marks: &Marks) -> Option<usize> {
        let pairs = marks.seen().iter().zip(args).enumerate();
        let mut taken = pairs
            .filter_map(|(at, (mark, now))| (*mark == self.mark && now.is_nil()).then_some(at));
        let (at, other) = (taken.next()?, taken.next());
        other.is_none().then_some(at)
    }
}

impl Error {
    /// This error, which remembers which of the names without a meaning the context has.
    pub(crate) fn seen_in(mut self, env: &Env) -> Error {
        if let Kind::Unbound(names) = &self.kind {
            let known = |name: &&(String, _)| {
                let name = Value::str(name.0.as_str());
                // As `data/NAME` finds it.
                env.context().get(&name).is_some()
            };
            let named = names.iter().take(NAMES_MAX).filter(known);
            self.place.in_context = named.map(|(name, _)| name.clone()).collect();
        }
        self
    }

    /// The outcome reason.
    pub fn reason(&self) -> Reason {
        self.kind.reason()
    }

    /// The finer kind, such as `type_error`; the reason's word when there is none.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// The sentence.
    pub fn message(&self) -> String {
        self.message_behind(&quote::open)
    }

    /// The sentence as somebody may be told it: what it quotes goes through `veil` before it is cut.
    pub fn message_behind(&self, veil: &Veil<'_>) -> String {
        self.kind.told(veil).to_string()
    }
}

impl Kind {
    /// The outcome reason.
    pub fn reason(&self) -> Reason {
        match self {
            Kind::Read(error) if error.is_syntax() => Reason::ParseError,
            Kind::Timeout => Reason::Timeout,
            Kind::Memory => Reason::MemoryLimit,
            Kind::Cancelled => Reason::Cancelled,
            Kind::Told { reason, .. } => *reason,
            _ => Reason::RuntimeError,
        }
    }

    /// The finer kind; the reason's word when there is none.
    pub fn code(&self) -> &'static str {
        match self {
            Kind::Read(error) if !error.is_syntax() => "symbol_limit_exceeded",
            Kind::Usage { .. } => "invalid_arity",
            Kind::Form(_) | Kind::Member(_) => "invalid_form",
            Kind::Unbound(_) => "unbound_var",
            Kind::Duplicate { .. } => "duplicate_key",
            Kind::Type { .. } | Kind::Value { .. } => "type_error",
            Kind::Arity { .. } | Kind::Pairs(_) => "arity_error",
            Kind::Arithmetic(_) => "arithmetic_error",
            Kind::NotCallable(_) => "not_callable",
            Kind::Destructure { .. } => "destructure_error",
            Kind::Method(_) => "unsupported_method",
            Kind::UnknownTool { .. } => "unknown_tool",
            Kind::ToolArgs { .. } => "invalid_tool_args",
            Kind::Branch { form: "pmap", .. } | Kind::Parallel { form: "pmap", .. } => "pmap_error",
            Kind::Branch { .. } | Kind::Parallel { .. } => "pcalls_error",
            Kind::Capacity => "parallel_capacity_exceeded",
            Kind::Host { kind, .. } if !kind.is_empty() => kind,
            Kind::Told { code, .. } if !code.is_empty() => code,
            _ => self.reason().word(),
        }
    }

    /// This kind without a place.
    pub fn anywhere(self) -> Error {
        self.in_place(Place::default())
    }

    /// This kind at `span`.
    pub fn at(self, span: Span) -> Error {
        self.in_place(Place {
            span: Some(span),
            ..Place::default()
        })
    }

    /// This kind in `place`.
    pub fn in_place(self, place: Place) -> Error {
        Error {
            kind: self,
            place: Box::new(place),
        }
    }
}

/// Why evaluation unwinds. A limit is not an error: no construct of the language can catch it.
#[derive(Debug)]
pub enum Unwind {
    /// Something went wrong.
    Raise(Error),
    /// A limit was reached.
    Limit(Limit, Place),
    /// `(return v)`
    Return(Value),
    /// `(fail v)`
    Fail(Value),
}

/// A limit that ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Memory.
    Memory,
    /// Wall clock.
    Time,
    /// Nobody waits for the answer.
    Cancelled,
}

impl Limit {
    /// As an error of the outcome.
    pub fn kind(self) -> Kind {
        match self {
            Limit::Memory => Kind::Memory,
            Limit::Time => Kind::Timeout,
            Limit::Cancelled => Kind::Cancelled,
        }
    }
}

impl Unwind {
    /// Where an error or a limit was met; none for what ends a program as it wanted.
    fn place(&mut self) -> Option<&mut Place> {
        match self {
            Unwind::Raise(error) => Some(&mut *error.place),
            Unwind::Limit(_, place) => Some(place),
            Unwind::Return(_) | Unwind::Fail(_) => None,
        }
    }
}

/// Boxed so that a `Result<Value, Stop>` is as small as a `Value`.
pub type Stop = Box<Unwind>;

/// Lets an error say where it happened, unless it knows. A call that no program wrote has an empty span, and is nowhere.
#[cold]
pub fn at(mut stop: Stop, span: Span) -> Stop {
    if let Some(place) = stop.place()
        && span.start < span.end
    {
        place.span.get_or_insert(span);
    }
    stop
}

/// Lets an error say at which item of a collection it happened.
#[cold]
pub fn at_item(mut stop: Stop, index: usize) -> Stop {
    if let Some(place) = stop.place() {
        place.at_item(index);
    }
    stop
}

/// Lets an error say that a function was called for a collection without items, unless it happened inside of it.
#[cold]
pub fn of_empty(mut stop: Stop) -> Stop {
    if let Unwind::Raise(Error {
        kind: Kind::Arity { .. } | Kind::Pairs(_),
        place,
    }) = &mut *stop
        && place.span.is_none()
    {
        place.way_out = Some(
            "the collection is empty and there is no first value: give one, as in (reduce f 0 xs), or test it first, as in (when (seq xs) (reduce f xs))"
                .to_owned(),
        );
    }
    stop
}

/// Lets an error say that a reduction without a first value began with an item of this kind, where a function of the program
/// met that item in the place of its result.
#[cold]
pub fn of_first(mut stop: Stop, first: Type) -> Stop {
    if let Unwind::Raise(Error {
        kind: Kind::Type {
            expected, found, ..
        },
        place,
    }) = &mut *stop
        && place.within.is_some()
        && place.items == [1]
        && found.kind == first
        && (matches!(first, Type::Map | Type::Vector)
            || ["map", "vector"].iter().any(|kind| expected.contains(kind)))
    {
        place.way_out = Some(
            "without a first value a reduction begins with the first item as its result: give one, as in (reduce f 0 xs), (reduce f [] xs) or (reduce f {} xs)"
                .to_owned(),
        );
    }
    stop
}

/// Lets an error say in which function's code it is, unless it knows, and that a call of it had not ended.
#[cold]
pub fn within(mut stop: Stop, closure: &Closure) -> Stop {
    if let Some(place) = stop.place() {
        place.depth = place.depth.saturating_add(1);
        if place.span.is_some() && place.within.is_none() {
            place.within = Some(Box::new(Within {
                name: closure.lambda.name.clone(),
                source: Arc::clone(&closure.lambda.source.0),
            }));
        }
    }
    stop
}

/// Lets an error say which function it comes from, unless it knows, and which of its arguments it speaks of. `marks` are of
/// the arguments as they were given.
#[cold]
pub(crate) fn named(mut stop: Stop, name: &str, args: &[Value], marks: &Marks) -> Stop {
    let Unwind::Raise(Error { kind, place }) = &mut *stop else {
        return stop;
    };
    match kind {
        Kind::Type {
            function,
            expected,
            found,
        } if function.is_empty() => {
            name.clone_into(function);
            place.argument = found.among(args, marks);
            place.swapped = place
                .argument
                .is_some_and(|at| order::swapped(name, expected, found, at, marks));
        }
        Kind::Value { function, problem } if function.is_empty() => {
            name.clone_into(function);
            let found = problem.about();
            place.argument = found.and_then(|found| found.among(args, marks));
        }
        kind if matches!(kind.cause(), Kind::NotCallable(_)) && place.span.is_none() => {
            let way_out = format!("`{name}` calls what it is given: give it a function");
            place.way_out.get_or_insert(way_out);
        }
        Kind::Parallel { form, problem } if *form == name => {
            let found = problem.about();
            place.argument = found.and_then(|found| found.among(args, marks));
        }
        _ => {}
    }
    stop
}

/// Lets an error say that the value it speaks of is no argument of the function: it was found inside of one, or a function made
/// it. An argument may be equal to it.
#[cold]
pub(crate) fn of_no_argument(mut stop: Stop) -> Stop {
    if let Unwind::Raise(Error { kind, .. }) = &mut *stop {
        match kind {
            Kind::Type {
                function, found, ..
            } if function.is_empty() => found.leave(),
            Kind::Value { function, problem } if function.is_empty() => problem.leave(),
            _ => {}
        }
    }
    stop
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Box::new(Unwind::Raise(error))
    }
}

impl From<Kind> for Stop {
    #[cold]
    fn from(kind: Kind) -> Stop {
        Box::new(Unwind::Raise(kind.anywhere()))
    }
}

impl From<Limit> for Stop {
    #[cold]
    fn from(limit: Limit) -> Stop {
        Box::new(Unwind::Limit(limit, Place::default()))
    }
}

/// The stop of a walk over so many values that no time limit would do: it ends before it begins.
#[cold]
pub fn unbegun(values: u64) -> Stop {
    let way_out = format!(
        "not begun: it would look at {values} values, as structure that is shared counts each time it is met, and no time limit is long enough"
    );
    let place = Place {
        way_out: Some(way_out),
        ..Place::default()
    };
    Box::new(Unwind::Limit(Limit::Time, place))
}

/// An argument of the wrong kind; the caller of the function fills in its name.
#[cold]
pub fn wrong_type(expected: &'static str, found: &Value) -> Stop {
    Kind::Type {
        function: String::new(),
        expected,
        found: Found::of(found),
    }
    .into()
}

/// A value of the right kind that will not do; the caller of the function fills in its name.
#[cold]
pub fn bad_value(problem: impl Into<Words>) -> Stop {
    Kind::Value {
        function: String::new(),
        problem: problem.into(),
    }
    .into()
}
