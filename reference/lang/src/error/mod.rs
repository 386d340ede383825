//! Errors and limits as data. Knows no sentences: those are in `message`.

mod argument_order;
mod explain;
mod message;
pub(crate) mod quote;
mod reason;

use std::sync::Arc;

use crate::analyze::ir::SourceText;
use crate::builtins::Arity;
use crate::env::Env;
use crate::form::Span;
use crate::function::Closure;
use crate::reader::ReadError;
use crate::value::{Fingerprint, Text, Type, Value};

pub(crate) use message::arguments;
pub use quote::{Quote, Redact, Sentence, about, got, naming, quoting};
pub use reason::{Code, Reason};

/// The number of unbound names that an error gives details about.
const NAMES_MAX: usize = 8;

/// A failure of a program: what kind, and where in the text.
#[derive(Clone, Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: Kind,
    /// Where it went wrong.
    pub place: Box<Place>,
}

/// Where evaluation was when it stopped.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Where in the text, when known.
    pub span: Option<Span>,
    /// The function whose code `span` is in; `None` for code outside of functions.
    pub function: Option<Box<EnclosingFunction>>,
    /// The number of unfinished calls of the program's functions.
    pub depth: u32,
    /// Positions of the items being processed, that of the innermost collection first.
    pub items: Vec<usize>,
    /// Index of the offending argument of the function that the error's kind names, from 0.
    pub argument: Option<usize>,
    /// Whether the arguments of the function that the error's kind names would be valid in another order.
    pub swapped: bool,
    /// The unbound names that are keys of the context.
    pub in_context: Vec<String>,
    /// The unbound names that a form elsewhere in the program binds.
    pub bound_elsewhere: Vec<String>,
    /// What to do about the error, when that depends on its place.
    pub advice: Option<String>,
    /// The text of [`Error::explained`], when it was computed elsewhere.
    pub explanation: Option<String>,
}

impl Place {
    /// The number of nested collections that are remembered.
    const ITEMS_MAX: usize = 3;

    /// Notes that the error happened at item `index` of a collection. When the collections are nested too deeply, the
    /// innermost ones and the outermost one are kept.
    fn at_item(&mut self, index: usize) {
        if self.items.len() == Self::ITEMS_MAX {
            self.items.pop();
        }
        self.items.push(index);
    }
}

/// A function as an error remembers it.
#[derive(Clone, Debug)]
pub struct EnclosingFunction {
    /// Its name, when it has one.
    pub name: Option<Text>,
    /// The top-level expression that contains it.
    pub source: Arc<SourceText>,
}

/// What went wrong. [`std::fmt::Display`] gives the sentence.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The reader refused the text.
    Read(Box<ReadError>),
    /// A special form was used with a wrong shape.
    Usage {
        /// The correct shape, such as `(let [bindings] body ...)`.
        expected: &'static str,
    },
    /// A form that cannot be analysed, as a sentence.
    Form(String),
    /// A name that its namespace does not have, or whose namespace does not exist.
    Member(String),
    /// Unbound names, each with a suggestion.
    Unbound(Vec<(String, Option<String>)>),
    /// A map or set literal that contains a constant twice.
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
        /// The kind that the function expects.
        expected: &'static str,
        /// The argument that it was given.
        found: ValuePreview,
    },
    /// A value of the right kind that is not acceptable, with the problem as a sentence.
    Value {
        /// The function as written; empty until the caller fills it in.
        function: String,
        /// What is wrong with the value.
        problem: Sentence,
    },
    /// The wrong number of arguments.
    Arity {
        /// The function as written.
        function: String,
        /// How many arguments it takes.
        accepts: Arity,
        /// How many arguments it was given.
        given: usize,
    },
    /// Keys and values that do not pair up, as a sentence.
    Pairs(String),
    /// Arithmetic without a result, as a sentence.
    Arithmetic(&'static str),
    /// A value in call position that cannot be called.
    NotCallable(Quote),
    /// A binding pattern met a value that it cannot destructure.
    Destructure {
        /// The kind that the pattern takes.
        expected: &'static str,
        /// The value that it met.
        found: ValuePreview,
    },
    /// A method that no supported class has.
    Method(String),
    /// `data/NAME` for a name that the context does not have.
    Data {
        /// The name, without `data/`.
        name: String,
        /// Some of the names that the context has.
        known: Vec<String>,
    },
    /// `tool/NAME` for a tool that does not exist.
    UnknownTool {
        /// The name as written, without `tool/`.
        name: String,
        /// The tools that exist.
        available: Vec<String>,
    },
    /// A tool called with something other than one map.
    ToolArgs {
        /// The name as written, without `tool/`.
        name: String,
        /// The argument, when there was exactly one.
        found: Option<Quote>,
    },
    /// A branch of `pmap` or `pcalls` failed.
    Branch {
        /// `pmap` or `pcalls`.
        form: &'static str,
        /// Index of the item, from 0.
        index: usize,
        /// Why the branch failed.
        cause: Box<Kind>,
    },
    /// Something that `pmap` or `pcalls` does not allow, as a sentence.
    Parallel {
        /// `pmap` or `pcalls`.
        form: &'static str,
        /// What is wrong.
        problem: Sentence,
    },
    /// No worker thread was free.
    Capacity,
    /// An error that the host raised.
    Host {
        /// The finer kind, if there is one.
        code: Option<Code>,
        /// The complete message.
        message: String,
    },
    /// Anything else, as a sentence.
    Other(Sentence),
    /// An error that an evaluation elsewhere reported, as a sentence.
    Reported {
        /// The reason that was reported.
        reason: Reason,
        /// The finer kind that was reported, if there was one.
        code: Option<Code>,
        /// The message that was reported.
        message: String,
    },
    /// The wall-clock limit was exceeded.
    Timeout,
    /// The memory limit was exceeded.
    Memory,
    /// The caller gave up waiting.
    Cancelled,
}

/// A value as a message shows it: its kind and a short preview.
#[derive(Clone, Debug)]
pub struct ValuePreview {
    /// The kind of the value.
    pub kind: Type,
    /// A preview of the value.
    pub text: Quote,
    /// The address of the value, to find it among arguments that are still in place. Never dereferenced.
    address: usize,
    /// A fingerprint that distinguishes it from the other arguments after they were moved out of their places.
    fingerprint: Fingerprint,
}

/// Marks of the first arguments of a call, so that an error can identify an argument that the function has moved out
/// since.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprints {
    fingerprints: [Fingerprint; Self::MAX],
    count: usize,
}

impl Fingerprints {
    /// The number of arguments that get a fingerprint. A function with more arguments leaves the rest in place, where
    /// they are found without a fingerprint.
    const MAX: usize = 4;

    /// The fingerprints of `args`.
    #[inline]
    pub fn of(args: &[Value]) -> Fingerprints {
        let mut fingerprints = [Fingerprint::NIL; Self::MAX];
        let mut count = 0;
        for (fingerprint, arg) in fingerprints.iter_mut().zip(args) {
            *fingerprint = arg.fingerprint();
            count += 1;
        }
        Fingerprints {
            fingerprints,
            count,
        }
    }

    fn as_slice(&self) -> &[Fingerprint] {
        &self.fingerprints[..self.count]
    }
}

impl ValuePreview {
    /// Describes `value`.
    pub fn of(value: &Value) -> ValuePreview {
        ValuePreview {
            kind: value.kind(),
            text: Quote::value(value),
            address: std::ptr::from_ref(value).addr(),
            fingerprint: value.fingerprint(),
        }
    }

    /// Forgets the address and the fingerprint.
    fn forget_identity(&mut self) {
        self.address = 0;
        self.fingerprint = Fingerprint::NONE;
    }

    /// The index of this value among `args`, when it is one of them.
    fn argument_index(&self, args: &[Value], fingerprints: &Fingerprints) -> Option<usize> {
        let is_same_address = |arg: &Value| std::ptr::from_ref(arg).addr() == self.address;
        args.iter()
            .position(is_same_address)
            .or_else(|| self.moved_argument_index(args, fingerprints))
    }

    /// The index of the only argument that the function has moved out of its place and whose fingerprint is the same as
    /// this value's. `None` when there are several, because nothing tells them apart.
    fn moved_argument_index(&self, args: &[Value], fingerprints: &Fingerprints) -> Option<usize> {
        let pairs = fingerprints.as_slice().iter().zip(args).enumerate();
        let mut taken = pairs.filter_map(|(at, (fingerprint, now))| {
            (*fingerprint == self.fingerprint && now.is_nil()).then_some(at)
        });
        let (at, other) = (taken.next()?, taken.next());
        other.is_none().then_some(at)
    }
}

impl Error {
    /// Records in this error which of its unbound names the context has.
    pub(crate) fn with_context_names(mut self, env: &Env) -> Error {
        if let Kind::Unbound(names) = &self.kind {
            let known = |name: &&(String, _)| {
                let name = Value::str(name.0.as_str());
                // The same look-up as that of `data/NAME`.
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

    /// The finer kind, such as `type_error`; the word of the reason when there is none.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// The error as a sentence.
    pub fn message(&self) -> String {
        self.redacted_message(&quote::unredacted)
    }

    /// The sentence as it may be shown to others: its quotes go through `redact` before they are truncated.
    pub fn redacted_message(&self, redact: &Redact<'_>) -> String {
        self.kind.display(redact).to_string()
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
            Kind::Reported { reason, .. } => *reason,
            _ => Reason::RuntimeError,
        }
    }

    /// The finer kind; the word of the reason when there is none.
    pub fn code(&self) -> &'static str {
        let code = match self {
            Kind::Read(error) if !error.is_syntax() => Code::SymbolLimit,
            Kind::Usage { .. } => Code::InvalidArity,
            Kind::Form(_) | Kind::Member(_) => Code::InvalidForm,
            Kind::Unbound(_) => Code::UnboundVar,
            Kind::Duplicate { .. } => Code::DuplicateKey,
            Kind::Type { .. } | Kind::Value { .. } => Code::TypeError,
            Kind::Arity { .. } | Kind::Pairs(_) => Code::ArityError,
            Kind::Arithmetic(_) => Code::ArithmeticError,
            Kind::NotCallable(_) => Code::NotCallable,
            Kind::Destructure { .. } => Code::DestructureError,
            Kind::Method(_) => Code::UnsupportedMethod,
            Kind::UnknownTool { .. } => Code::UnknownTool,
            Kind::ToolArgs { .. } => Code::InvalidToolArgs,
            Kind::Branch { form: "pmap", .. } | Kind::Parallel { form: "pmap", .. } => {
                Code::PmapError
            }
            Kind::Branch { .. } | Kind::Parallel { .. } => Code::PcallsError,
            Kind::Capacity => Code::ParallelCapacity,
            Kind::Host {
                code: Some(code), ..
            }
            | Kind::Reported {
                code: Some(code), ..
            } => *code,
            _ => return self.reason().name(),
        };
        code.name()
    }

    /// An error of this kind without a place.
    pub fn into_error(self) -> Error {
        self.at_place(Place::default())
    }

    /// An error of this kind at `span`.
    pub fn at(self, span: Span) -> Error {
        self.at_place(Place {
            span: Some(span),
            ..Place::default()
        })
    }

    /// An error of this kind in `place`.
    pub fn at_place(self, place: Place) -> Error {
        Error {
            kind: self,
            place: Box::new(place),
        }
    }
}

/// Why evaluation unwinds. A limit is not an error: no construct of the language can catch it.
#[derive(Debug)]
pub enum Unwind {
    /// A program error.
    Raise(Error),
    /// A limit was exceeded.
    Limit(Limit, Place),
    /// `(return v)`
    Return(Value),
    /// `(fail v)`
    Fail(Value),
}

/// A limit that ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The memory limit.
    Memory,
    /// The wall-clock limit.
    Time,
    /// The caller gave up waiting.
    Cancelled,
}

impl Limit {
    /// The kind of error that the outcome reports for this limit.
    pub fn kind(self) -> Kind {
        match self {
            Limit::Memory => Kind::Memory,
            Limit::Time => Kind::Timeout,
            Limit::Cancelled => Kind::Cancelled,
        }
    }
}

impl Unwind {
    /// The place of an error or limit; `None` for `return` and `fail`.
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

/// Records where an error happened, unless it already has a place. A call that no program wrote has an empty span,
/// which is not recorded.
#[cold]
pub fn at(mut stop: Stop, span: Span) -> Stop {
    if let Some(place) = stop.place()
        && span.start < span.end
    {
        place.span.get_or_insert(span);
    }
    stop
}

/// Records at which item of a collection an error happened.
#[cold]
pub fn at_item(mut stop: Stop, index: usize) -> Stop {
    if let Some(place) = stop.place() {
        place.at_item(index);
    }
    stop
}

/// Records that a function was called without arguments because the collection was empty, unless the error arose inside
/// that function.
#[cold]
pub fn in_empty_reduction(mut stop: Stop) -> Stop {
    if let Unwind::Raise(Error {
        kind: Kind::Arity { .. } | Kind::Pairs(_),
        place,
    }) = &mut *stop
        && place.span.is_none()
    {
        place.advice = Some(
            "the collection is empty and there is no first value: give one, as in (reduce f 0 xs), or test it first, as in (when (seq xs) (reduce f xs))"
                .to_owned(),
        );
    }
    stop
}

/// Records that a reduction without an initial value began with an item of this kind, if a function of the program
/// failed because it got that item as its accumulator.
#[cold]
pub fn with_first_accumulator(mut stop: Stop, first: Type) -> Stop {
    if let Unwind::Raise(Error {
        kind: Kind::Type {
            expected, found, ..
        },
        place,
    }) = &mut *stop
        && place.function.is_some()
        && place.items == [1]
        && found.kind == first
        && (matches!(first, Type::Map | Type::Vector)
            || ["map", "vector"].iter().any(|kind| expected.contains(kind)))
    {
        place.advice = Some(
            "without a first value a reduction begins with the first item as its result: give one, as in (reduce f 0 xs), (reduce f [] xs) or (reduce f {} xs)"
                .to_owned(),
        );
    }
    stop
}

/// Records in which function's code an error is, unless known, and that one more call of a function had not ended.
#[cold]
pub fn in_function(mut stop: Stop, closure: &Closure) -> Stop {
    if let Some(place) = stop.place() {
        place.depth = place.depth.saturating_add(1);
        if place.span.is_some() && place.function.is_none() {
            place.function = Some(Box::new(EnclosingFunction {
                name: closure.lambda.name.clone(),
                source: Arc::clone(&closure.lambda.source.0),
            }));
        }
    }
    stop
}

/// Records which function an error comes from, unless known, and which of its arguments the error is about.
/// `fingerprints` are those of the arguments as they were passed.
#[cold]
pub(crate) fn with_function(
    mut stop: Stop,
    name: &str,
    args: &[Value],
    fingerprints: &Fingerprints,
) -> Stop {
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
            place.argument = found.argument_index(args, fingerprints);
            place.swapped = place.argument.is_some_and(|at| {
                argument_order::is_swapped(name, expected, found, at, fingerprints)
            });
        }
        Kind::Value { function, problem } if function.is_empty() => {
            name.clone_into(function);
            let found = problem.about();
            place.argument = found.and_then(|found| found.argument_index(args, fingerprints));
        }
        kind if matches!(kind.cause(), Kind::NotCallable(_)) && place.span.is_none() => {
            let advice = format!("`{name}` calls what it is given: give it a function");
            place.advice.get_or_insert(advice);
        }
        Kind::Parallel { form, problem } if *form == name => {
            let found = problem.about();
            place.argument = found.and_then(|found| found.argument_index(args, fingerprints));
        }
        _ => {}
    }
    stop
}

/// Records that the value an error is about is not an argument of the function, even if an argument is equal to it: it
/// was found inside an argument, or a function made it.
#[cold]
pub(crate) fn not_an_argument(mut stop: Stop) -> Stop {
    if let Unwind::Raise(Error { kind, .. }) = &mut *stop {
        match kind {
            Kind::Type {
                function, found, ..
            } if function.is_empty() => found.forget_identity(),
            Kind::Value { function, problem } if function.is_empty() => problem.forget_identity(),
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
        Box::new(Unwind::Raise(kind.into_error()))
    }
}

impl From<Limit> for Stop {
    #[cold]
    fn from(limit: Limit) -> Stop {
        Box::new(Unwind::Limit(limit, Place::default()))
    }
}

/// The stop of a walk over so many values that no time limit would suffice: the walk is refused before it begins.
#[cold]
pub fn walk_too_large(values: u64) -> Stop {
    let advice = format!(
        "not begun: it would look at {values} values, as structure that is shared counts each time it is met, and no time limit is long enough"
    );
    let place = Place {
        advice: Some(advice),
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
        found: ValuePreview::of(found),
    }
    .into()
}

/// A value of the right kind that is not acceptable; the caller of the function fills in its name.
#[cold]
pub fn bad_value(problem: impl Into<Sentence>) -> Stop {
    Kind::Value {
        function: String::new(),
        problem: problem.into(),
    }
    .into()
}
