//! The analyzer's output: resolved slots, no names left to look up. Knows nothing of
//! evaluation.

use std::sync::{Arc, OnceLock};

use crate::builtins::Builtin;
use crate::error::Error;
use crate::form::Span;
use crate::regex::Regex;
use crate::value::{Text, Value};

/// Tests, each with the expression to evaluate when it holds.
pub type Clauses = Box<[(Ir, Ir)]>;
/// Patterns, each with the expression whose value it binds.
pub type Bindings = Box<[(Pattern, Ir)]>;

#[derive(Debug)]
pub enum Ir {
    /// A value known at analysis time.
    Const(Value),
    /// A local of the running function. When `last` is set, nothing reads the slot afterwards, so its value may be
    /// moved out and changed in place.
    Local {
        /// Position in the frame.
        slot: u32,
        /// Whether this is the last read of the slot.
        last: bool,
    },
    /// A captured local of an enclosing function.
    Capture(u32),
    /// The running function itself, referred to by its own name.
    Itself,
    /// A global: its definition if there is one, else the builtin of that name.
    Global(Box<Global>),
    /// `data/NAME`
    Data(Box<(Value, Span)>),
    /// `data`: the whole context
    Context,
    /// `*1`, `*2`, `*3`
    History(u8),
    /// `(if test then else)`
    If(Box<(Ir, Ir, Ir)>),
    /// `(cond test expr …)`, with the value when no test matches
    Cond(Box<(Clauses, Ir)>),
    /// `(case expr constant expr …)`
    Case(Box<Case>),
    /// Expressions evaluated in order; the value is that of the last one.
    Do(Box<[Ir]>),
    /// `(and …)`
    And(Box<[Ir]>),
    /// `(or …)`
    Or(Box<[Ir]>),
    /// Bindings made in order, then a body.
    Let(Box<(Bindings, Ir)>),
    /// `if-let` and its variants.
    IfLet(Box<IfLet>),
    /// `some->` and `some->>`: each step binds `slot`; nil ends the chain.
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
    /// Arithmetic or comparison of two values, with a fast path for small numbers.
    Op(Box<Operation>),
    /// `(:key map)`
    Key(Box<(Value, Ir, Span)>),
    /// A builtin with three arguments, its arity checked.
    Builtin3(Box<(&'static Builtin, Ir, Ir, Ir, Span)>),
    /// A builtin with any number of arguments.
    BuiltinN(Box<(&'static Builtin, Box<[Ir]>, Span)>),
    /// A builtin whose items the enclosing call takes one by one.
    Lazy(Box<(&'static Builtin, Box<[Ir]>, Span)>),
    /// A call that is dispatched to the arity that fits.
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
    /// An error found by analysis that is raised only when evaluation reaches it.
    Raise(Box<Error>),
}

/// Builtins that make a function from other functions and do nothing else.
const FUNCTION_MAKERS: &[&str] = &[
    "comp",
    "complement",
    "every-pred",
    "juxt",
    "memoize",
    "some-fn",
];

impl Ir {
    /// Whether this call makes a function from its arguments without calling any of them.
    pub fn is_made_function(&self) -> bool {
        let builtin = match self {
            Ir::Builtin1(call) => call.0,
            Ir::Builtin2(call) => call.0,
            Ir::Builtin3(call) => call.0,
            Ir::BuiltinN(call) => call.0,
            _ => return false,
        };
        FUNCTION_MAKERS.contains(&builtin.name)
    }
}

/// An operator, the builtin that it stands for, its two arguments, and the span of the call.
pub type Operation = (Op, &'static Builtin, Ir, Ir, Span);

/// The operators that programs spend most of their time in.
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
    /// Whether the function accepts `count` arguments.
    pub fn accepts(&self, count: usize) -> bool {
        if let Ir::Arities(arities) = &self.body {
            return arities.accepts(count).is_some();
        }
        count == self.params.len() || (self.rest.is_some() && count > self.params.len())
    }
}

impl Arities {
    /// The arity that accepts `count` arguments; an exact one comes before a variadic one.
    pub fn accepts(&self, count: usize) -> Option<&ArityClause> {
        let exact = |arity: &&ArityClause| !arity.variadic && arity.count == count;
        let variadic = |arity: &&ArityClause| arity.variadic && arity.count <= count;
        let mut arities = self.arities.iter();
        let found = self.arities.iter().find(exact);
        found.or_else(|| arities.find(variadic))
    }
}

impl Op {
    /// The operator that a builtin with two arguments is, if any.
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

    /// The result for two small integers or two doubles; `None` for anything else, and on overflow.
    #[inline(always)]
    pub fn values(self, a: &Value, b: &Value) -> Option<Value> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => self.integers(*a, *b),
            (Value::Float(a), Value::Float(b)) => Some(self.floats(*a, *b)),
            _ => None,
        }
    }

    /// The result for two small integers; `None` on overflow.
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
    /// Index in the table of globals.
    pub id: u32,
    /// The builtin that the name means while it has no definition.
    pub fallback: Option<&'static Builtin>,
    pub name: Text,
    pub span: Span,
    /// Whether the name evaluates to nil while it is undefined: true for a name that stands directly in `or`.
    pub optional: bool,
}

/// `case`, with its constants in source order.
#[derive(Debug)]
pub struct Case {
    /// The expression whose value is compared.
    pub subject: Ir,
    /// Constants, each with the index of its branch.
    pub constants: Box<[(Value, usize)]>,
    pub branches: Box<[Ir]>,
    /// The value when no constant matches.
    pub default: Ir,
}

/// Which values make an `if-let` take its first branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingTest {
    /// Anything but nil and false.
    Truthy,
    Some,
    /// A collection with a first item; the first item is bound.
    First,
}

/// `if-let`, `when-let`, `if-some`, `when-some`, `when-first`.
#[derive(Debug)]
pub struct IfLet {
    /// The slot that the value is bound to.
    pub slot: u32,
    pub value: Ir,
    pub test: BindingTest,
    pub then: Ir,
    pub otherwise: Ir,
    pub span: Span,
}

/// `some->` and `some->>`.
#[derive(Debug)]
pub struct SomeChain {
    /// Holds the value between steps.
    pub slot: u32,
    pub start: Ir,
    /// The expressions that follow, in order; each reads `slot`.
    pub steps: Box<[Ir]>,
}

/// Calls, each of which takes the result of the previous one. Equivalent to nested calls, but without their depth.
#[derive(Debug)]
pub struct Chain {
    pub start: Ir,
    /// The calls, innermost first, each without the argument that it gets from the previous one.
    pub steps: Box<[Call]>,
    /// Whether that argument comes last (`->>`) rather than first (`->`).
    pub last: bool,
}

/// `loop`
#[derive(Debug)]
pub struct Loop {
    /// Patterns and their initial values.
    pub bindings: Box<[(Pattern, Ir)]>,
    pub body: Ir,
    /// Slots from this one on are bound inside the loop.
    pub floor: u32,
    pub span: Span,
}

/// A function literal with the values that it captures from its surroundings.
#[derive(Debug)]
pub struct MakeFn {
    pub lambda: Arc<Lambda>,
    /// Reads of the enclosing frame, in the order of the captures.
    pub captures: Box<[Ir]>,
}

/// The code of a function.
#[derive(Debug)]
pub struct Lambda {
    pub name: Option<Text>,
    /// Its parameters as written, with `_` in place of each pattern: `x _ & more`.
    pub heading: Text,
    /// One pattern per positional parameter.
    pub params: Box<[Pattern]>,
    /// The pattern after `&`.
    pub rest: Option<Pattern>,
    /// Whether every parameter is a plain name and there is no rest parameter, so that the arguments are the frame.
    pub plain: bool,
    /// The number of slots that a frame needs.
    pub slots: u32,
    pub body: Ir,
    /// Levels of nesting in the body, which bound the native stack that it needs.
    pub levels: u32,
    pub span: Span,
    /// The source text that it was made from, and its index among the functions of that text.
    pub source: (Arc<SourceText>, u32),
    /// Whether its code may have a visible effect: it prints, defines, calls a tool, ends the program, or calls
    /// something that is not known at analysis time.
    pub has_effects: bool,
    /// The globals that its code reads.
    pub globals: Box<[u32]>,
    /// Bytes of memory that its code takes, including the functions inside it.
    pub code_bytes: usize,
    /// The regex literals in it.
    pub regexes: Box<[Arc<Regex>]>,
}

/// A top-level expression as text, with what is needed to make its functions again from it.
#[derive(Debug)]
pub struct SourceText {
    pub text: Box<str>,
    /// Byte offset of its beginning in its program.
    pub start: u32,
    pub written: SourcePosition,
    /// Of the names that it uses, those that were globals when it was analysed, in order. A name that is defined later
    /// does not change the meaning of code written before.
    pub globals: OnceLock<Box<[Arc<str>]>>,
}

/// Where a top-level expression was written, for errors in its functions that occur in later programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// The turn; 0 where turns are not counted.
    pub turn: u64,
    /// Line of its beginning, from 1.
    pub line: u32,
    /// Column of its beginning in characters, from 1.
    pub column: u32,
}

impl SourcePosition {
    /// The beginning of turn `turn`.
    pub fn start_of_turn(turn: u64) -> SourcePosition {
        SourcePosition {
            turn,
            line: 1,
            column: 1,
        }
    }

    /// The position after `text`, which begins here.
    pub fn after(self, text: &str) -> SourcePosition {
        let counted = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (lines, column, last) = match text.rfind('\n') {
            Some(newline) => (text.matches('\n').count(), 1, &text[newline + 1..]),
            None => (0, self.column, text),
        };
        SourcePosition {
            line: self.line.saturating_add(counted(lines)),
            column: column.saturating_add(counted(last.chars().count())),
            ..self
        }
    }
}

/// A function of several arities, one of which is called.
#[derive(Debug)]
pub struct Arities {
    /// The name of the function as a whole, when it has one.
    pub name: Option<Text>,
    /// The arguments as a vector, or nil.
    pub given: Ir,
    pub arities: Box<[ArityClause]>,
    pub span: Span,
}

#[derive(Debug)]
pub struct ArityClause {
    /// The number of positional arguments that it takes.
    pub count: usize,
    /// Whether it takes further arguments.
    pub variadic: bool,
    pub function: Ir,
}

/// A call of anything but a known builtin.
#[derive(Debug)]
pub struct Call {
    pub callee: Ir,
    pub args: Box<[Ir]>,
    pub span: Span,
}

#[derive(Debug)]
pub struct Def {
    /// Index in the table of globals.
    pub id: u32,
    pub name: Text,
    pub doc: Option<Text>,
    pub value: Ir,
    /// `defonce`: does nothing when the name is already defined.
    pub once: bool,
}

/// `for` and `doseq`.
#[derive(Debug)]
pub struct For {
    /// The clauses in order; the first is always [`Clause::Each`].
    pub clauses: Box<[Clause]>,
    pub body: Ir,
    /// Whether the results are collected, as in `for`.
    pub collect: bool,
    /// Slots from this one on are bound anew before each evaluation of the body that reads them.
    pub floor: u32,
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

/// How a value is destructured.
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
    /// The pattern after `&`.
    pub rest: Option<Pattern>,
    /// `:as`
    pub all: Option<u32>,
    pub span: Span,
}

/// `{:keys [a] :or {a 1} :as all}` and `{pattern key}`
#[derive(Debug)]
pub struct MapPattern {
    pub entries: Box<[MapEntryPattern]>,
    /// `:as`
    pub all: Option<u32>,
    pub span: Span,
}

/// One key of a map pattern.
#[derive(Debug)]
pub struct MapEntryPattern {
    pub pattern: Pattern,
    /// The key to look up.
    pub key: Value,
    /// `:or`: evaluated when the map lacks the key.
    pub default: Option<Ir>,
}
