//! The analyzer's output: resolved slots, no names left to look up. Knows nothing of
//! evaluation.

use std::sync::{Arc, OnceLock};

use crate::builtins::Builtin;
use crate::error::Error;
use crate::form::Span;
use crate::regex::Regex;
use crate::value::{Text, Value};

/// Tests and what they lead to.
pub type Clauses = Box<[(Ir, Ir)]>;
/// Patterns and their values.
pub type Bindings = Box<[(Pattern, Ir)]>;

#[derive(Debug)]
pub enum Ir {
    /// A value known beforehand.
    Const(Value),
    /// A local of the running function; `last` when nothing reads it afterwards, so that it may be
    /// moved out and changed in place.
    Local {
        /// Position in the frame.
        slot: u32,
        /// Whether this is the last read.
        last: bool,
    },
    /// A captured local of an enclosing function.
    Capture(u32),
    /// The running function itself, by its own name.
    Itself,
    /// A global: its definition, else the builtin of that name.
    Global(Box<Global>),
    /// `data/NAME`
    Data(Box<(Value, Span)>),
    /// `data`: the whole context
    Context,
    /// `*1`, `*2`, `*3`
    History(u8),
    /// `(if test then else)`
    If(Box<(Ir, Ir, Ir)>),
    /// `(cond test expr …)`, with what stands for no match
    Cond(Box<(Clauses, Ir)>),
    /// `(case expr constant expr …)`
    Case(Box<Case>),
    /// Expressions in turn; the last one counts.
    Do(Box<[Ir]>),
    /// `(and …)`
    And(Box<[Ir]>),
    /// `(or …)`
    Or(Box<[Ir]>),
    /// Bindings in turn, then a body.
    Let(Box<(Bindings, Ir)>),
    /// `if-let` and its kin.
    IfLet(Box<IfLet>),
    /// `some->` and its kin: each step binds `slot`; nil ends it.
    Some(Box<SomeChain>),
    /// A long `->` or `->>`.
    Chain(Box<Chain>),
    /// `(loop [bindings] body)`
    Loop(Box<Loop>),
    /// `(recur …)`, always in tail position
    Recur(Box<[Ir]>),
    /// `[…]`
    Vector(Box<[Ir]>),
    /// `{…}`
    Map(Box<[(Ir, Ir)]>),
    /// `#{…}`
    Set(Box<[Ir]>),
    Fn(Box<MakeFn>),
    /// A builtin with one argument, its arity checked.
    Builtin1(Box<(&'static Builtin, Ir, Span)>),
    /// A builtin with two arguments, its arity checked.
    Builtin2(Box<(&'static Builtin, Ir, Ir, Span)>),
    /// Arithmetic on, or comparison of, two values: small numbers are worked on in place.
    Op(Box<Operation>),
    /// `(:key map)`
    Key(Box<(Value, Ir, Span)>),
    /// A builtin with three arguments, its arity checked.
    Builtin3(Box<(&'static Builtin, Ir, Ir, Ir, Span)>),
    /// A builtin with any number of arguments.
    BuiltinN(Box<(&'static Builtin, Box<[Ir]>, Span)>),
    /// A builtin whose items the function around it takes one by one.
    Deferred(Box<(&'static Builtin, Box<[Ir]>, Span)>),
    /// A call of the function of the right arity.
    Arities(Box<Arities>),
    Call(Box<Call>),
    /// `(def name value)`, `(defonce name value)`
    Def(Box<Def>),
    /// `for` and `doseq`
    For(Box<For>),
    /// `(task id expr)`
    Task(Box<(Ir, Ir)>),
    /// `(budget/remaining)`
    Budget,
    /// What analysis found wrong but only counts when it is reached.
    Raise(Box<Error>),
}

/// Builtins that make a function of functions and of nothing else.
const MAKERS: &[&str] = &[
    "comp",
    "complement",
    "every-pred",
    "juxt",
    "memoize",
    "some-fn",
];

impl Ir {
    /// Whether it makes a function of those that stand in it, and calls none.
    pub fn is_made_function(&self) -> bool {
        let builtin = match self {
            Ir::Builtin1(call) => call.0,
            Ir::Builtin2(call) => call.0,
            Ir::Builtin3(call) => call.0,
            Ir::BuiltinN(call) => call.0,
            _ => return false,
        };
        MAKERS.contains(&builtin.name)
    }
}

/// An operator, the builtin that it stands for, and its two arguments.
pub type Operation = (Op, &'static Builtin, Ir, Ir, Span);

/// Operators that programs spend their time in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `=`
    Equal,
}

impl Lambda {
    /// How many arguments it may be called with.
    pub fn takes(&self, count: usize) -> bool {
        if let Ir::Arities(arities) = &self.body {
            return arities.takes(count).is_some();
        }
        count == self.params.len() || (self.rest.is_some() && count > self.params.len())
    }
}

impl Arities {
    /// The arity that `count` arguments are for.
    pub fn takes(&self, count: usize) -> Option<&Arity> {
        let exact = |arity: &&Arity| !arity.open && arity.count == count;
        let open = |arity: &&Arity| arity.open && arity.count <= count;
        let mut arities = self.arities.iter();
        let found = self.arities.iter().find(exact);
        found.or_else(|| arities.find(open))
    }
}

impl Op {
    /// The operator that a builtin with two arguments is.
    pub fn of(builtin: &Builtin) -> Option<Op> {
        Some(match builtin.name {
            "+" => Op::Add,
            "-" => Op::Subtract,
            "*" => Op::Multiply,
            "<" => Op::Less,
            "<=" => Op::LessEqual,
            ">" => Op::Greater,
            ">=" => Op::GreaterEqual,
            "=" => Op::Equal,
            _ => return None,
        })
    }

    /// The result for two numbers of one small kind; none for anything else, or where it does not fit.
    #[inline(always)]
    pub fn values(self, a: &Value, b: &Value) -> Option<Value> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => self.integers(*a, *b),
            (Value::Float(a), Value::Float(b)) => Some(self.floats(*a, *b)),
            _ => None,
        }
    }

    /// The result for two small integers; none where it does not fit.
    #[inline(always)]
    pub fn integers(self, a: i64, b: i64) -> Option<Value> {
        Some(match self {
            Op::Add => Value::Int(a.checked_add(b)?),
            Op::Subtract => Value::Int(a.checked_sub(b)?),
            Op::Multiply => Value::Int(a.checked_mul(b)?),
            Op::Less => Value::Bool(a < b),
            Op::LessEqual => Value::Bool(a <= b),
            Op::Greater => Value::Bool(a > b),
            Op::GreaterEqual => Value::Bool(a >= b),
            Op::Equal => Value::Bool(a == b),
        })
    }

    /// The result for two doubles.
    #[inline(always)]
    pub fn floats(self, a: f64, b: f64) -> Value {
        match self {
            Op::Add => Value::Float(a + b),
            Op::Subtract => Value::Float(a - b),
            Op::Multiply => Value::Float(a * b),
            Op::Less => Value::Bool(a < b),
            Op::LessEqual => Value::Bool(a <= b),
            Op::Greater => Value::Bool(a > b),
            Op::GreaterEqual => Value::Bool(a >= b),
            Op::Equal => Value::Bool(a == b),
        }
    }
}

/// A reference to a global.
#[derive(Debug)]
pub struct Global {
    /// Position in the table of globals.
    pub id: u32,
    /// What stands there when nothing is defined.
    pub fallback: Option<&'static Builtin>,
    pub name: Text,
    pub span: Span,
    /// Whether it is nil while nothing defined it: a name that stands directly in `or`.
    pub optional: bool,
}

/// `case` with its constants in source order.
#[derive(Debug)]
pub struct Case {
    /// What is looked up.
    pub subject: Ir,
    /// Constants, each with the index of its branch.
    pub constants: Box<[(Value, usize)]>,
    pub branches: Box<[Ir]>,
    /// What stands for no match.
    pub default: Ir,
}

/// Which values of an `if-let` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Neither nil nor false.
    Truthy,
    Some,
    /// A collection with a first item, which is what is bound.
    First,
}

/// `if-let`, `when-let`, `if-some`, `when-some`, `when-first`.
#[derive(Debug)]
pub struct IfLet {
    /// Where the value goes.
    pub slot: u32,
    pub value: Ir,
    pub test: Test,
    pub then: Ir,
    pub otherwise: Ir,
    /// Where the form stands.
    pub span: Span,
}

/// `some->` and `some->>`.
#[derive(Debug)]
pub struct SomeChain {
    /// Holds the value between steps.
    pub slot: u32,
    pub start: Ir,
    /// What is done with it, in turn.
    pub steps: Box<[Ir]>,
}

/// Calls, each of which is given the value of the one before it: what they would be nested in one another, without
/// their depth.
#[derive(Debug)]
pub struct Chain {
    pub start: Ir,
    /// The calls, the innermost first, without the value that each is given.
    pub steps: Box<[Call]>,
    /// Whether the value is the last argument; the first otherwise.
    pub last: bool,
}

/// `loop`
#[derive(Debug)]
pub struct Loop {
    /// Patterns and their first values.
    pub bindings: Box<[(Pattern, Ir)]>,
    pub body: Ir,
    /// Slots from here on are bound inside.
    pub floor: u32,
    /// Where the form stands.
    pub span: Span,
}

/// A function literal with what it captures from where it stands.
#[derive(Debug)]
pub struct MakeFn {
    pub lambda: Arc<Lambda>,
    /// Reads of the enclosing frame, in the order of the captures.
    pub captures: Box<[Ir]>,
}

/// The code of a function.
#[derive(Debug)]
pub struct Lambda {
    /// Its name, when it has one.
    pub name: Option<Text>,
    /// Its parameters as written, a pattern as `_`: `x _ & more`.
    pub heading: Text,
    /// One pattern for each positional parameter.
    pub params: Box<[Pattern]>,
    /// The pattern after `&`.
    pub rest: Option<Pattern>,
    /// Every parameter is a plain name and there is no rest, so that arguments are the frame.
    pub plain: bool,
    /// Slots that a frame needs.
    pub slots: u32,
    pub body: Ir,
    /// Levels of nesting in the body, which bounds the native stack that it needs.
    pub levels: u32,
    /// Where the literal stands.
    pub span: Span,
    /// The text that it was made from, and which function of it this is.
    pub source: (Arc<Source>, u32),
    /// Whether its code does what somebody can see: prints, defines, calls a tool, ends the program, or calls what is not
    /// known beforehand.
    pub loud: bool,
    /// The globals that its code reads.
    pub globals: Box<[u32]>,
    /// Bytes that its code takes, functions inside it included.
    pub code_bytes: usize,
    /// The regex literals in it: what they compile when they are used is held with the code.
    pub regexes: Box<[Arc<Regex>]>,
}

/// A top-level expression as text, with what its functions need to be made from it again.
#[derive(Debug)]
pub struct Source {
    pub text: Box<str>,
    /// Where it began in its program.
    pub start: u32,
    pub written: Written,
    /// The names that were globals when it was analysed, of those that it uses, in order: a name that is defined later does
    /// not change what code written before means.
    pub globals: OnceLock<Box<[Arc<str>]>>,
}

/// Where a top-level expression was written, for errors that later programs meet in its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The turn; 0 where turns are not counted.
    pub turn: u64,
    /// Of its beginning, from 1.
    pub line: u32,
    /// Of its beginning in characters, from 1.
    pub column: u32,
}

impl Written {
    /// At the beginning of turn `turn`.
    pub fn first(turn: u64) -> Written {
        Written {
            turn,
            line: 1,
            column: 1,
        }
    }

    /// The place behind `text`, which begins here.
    pub fn behind(self, text: &str) -> Written {
        let counted = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (lines, column, last) = match text.rfind('\n') {
            Some(newline) => (text.matches('\n').count(), 1, &text[newline + 1..]),
            None => (0, self.column, text),
        };
        Written {
            line: self.line.saturating_add(counted(lines)),
            column: column.saturating_add(counted(last.chars().count())),
            ..self
        }
    }
}

/// The functions of a function of several arities, of which one is called.
#[derive(Debug)]
pub struct Arities {
    /// The name of the whole, when it has one.
    pub name: Option<Text>,
    /// The arguments as a vector, or nil.
    pub given: Ir,
    pub arities: Box<[Arity]>,
    /// Where the whole stands.
    pub span: Span,
}

#[derive(Debug)]
pub struct Arity {
    /// Arguments that it takes.
    pub count: usize,
    /// Whether it takes more.
    pub open: bool,
    pub function: Ir,
}

/// A call of something that is no known builtin.
#[derive(Debug)]
pub struct Call {
    pub callee: Ir,
    pub args: Box<[Ir]>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Def {
    /// Position in the table of globals.
    pub id: u32,
    pub name: Text,
    pub doc: Option<Text>,
    pub value: Ir,
    /// `defonce`: nothing happens when there is a definition.
    pub once: bool,
}

/// `for` and `doseq`.
#[derive(Debug)]
pub struct For {
    /// The clauses in order; the first is always [`Clause::Each`].
    pub clauses: Box<[Clause]>,
    pub body: Ir,
    /// Whether the results are kept.
    pub collect: bool,
    /// Slots from here on are bound anew before each time that the body reads them.
    pub floor: u32,
    /// Where the form stands.
    pub span: Span,
}

/// A clause of `for`.
#[derive(Debug)]
pub enum Clause {
    /// `pattern collection`
    Each(Pattern, Ir),
    /// `:when test`
    When(Ir),
    /// `:while test`
    While(Ir),
    /// `:let [bindings]`
    Let(Box<[(Pattern, Ir)]>),
}

/// How a value is taken apart.
#[derive(Debug)]
pub enum Pattern {
    Slot(u32),
    /// `[a b & rest :as all]`
    Sequence(Box<SequencePattern>),
    /// `{:keys [a] …}`
    Map(Box<MapPattern>),
}

/// `[a b & rest :as all]`
#[derive(Debug)]
pub struct SequencePattern {
    pub items: Box<[Pattern]>,
    /// After `&`.
    pub rest: Option<Pattern>,
    /// `:as`
    pub all: Option<u32>,
    /// Where the pattern stands.
    pub span: Span,
}

/// `{:keys [a] :or {a 1} :as all}` and `{pattern key}`
#[derive(Debug)]
pub struct MapPattern {
    pub entries: Box<[MapEntryPattern]>,
    /// `:as`
    pub all: Option<u32>,
    /// Where the pattern stands.
    pub span: Span,
}

/// One key of a map pattern.
#[derive(Debug)]
pub struct MapEntryPattern {
    pub pattern: Pattern,
    /// What is looked up.
    pub key: Value,
    /// `:or`, evaluated when the key is not there.
    pub default: Option<Ir>,
}
