//! Callable values: closures, and functions made of other functions; also lazy sequences. Knows nothing of how they are
//! run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::analyze::ir::Lambda;
use crate::value::Value;
use crate::value::shape::{DROP_DEPTH_MAX, PendingDrop, charge_free, drop_iteratively};

/// A function written in the program, with its captured values.
pub struct Closure {
    /// Its code; kept alive, and counted as memory, as long as the closure exists.
    pub lambda: Arc<Lambda>,
    /// Captured locals, in the order that the code expects.
    pub captures: Vec<Value>,
    /// Levels of nesting through captured values.
    pub depth: u32,
    /// Its place in the order of functions.
    pub identity: Identity,
}

impl Closure {
    /// A closure over `captures`.
    pub fn new(lambda: Arc<Lambda>, captures: Vec<Value>) -> Closure {
        let depth = deepest(&captures);
        Closure {
            lambda,
            captures,
            depth,
            identity: Identity::default(),
        }
    }
}

/// A function's place in the order of functions: the order in which they were first compared. Functions are equal only
/// when they are the same one. A function that is never compared gets no place.
#[derive(Default)]
pub struct Identity(AtomicU64);

/// The next free place. Only its growth matters, so relaxed ordering suffices.
static NEXT_PLACE: AtomicU64 = AtomicU64::new(1);

impl Identity {
    /// Reserves `count` consecutive places and returns the first.
    pub fn reserve_block(count: u64) -> u64 {
        NEXT_PLACE.fetch_add(count, Ordering::Relaxed)
    }

    pub fn from_place(place: u64) -> Identity {
        Identity(AtomicU64::new(place))
    }

    /// The place, assigned on first use.
    pub fn place(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let place = Identity::reserve_block(1);
                // Another thread may have been first; its place counts for both.
                match self
                    .0
                    .compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed)
                {
                    Ok(_) => place,
                    Err(first) => first,
                }
            }
            place => place,
        }
    }

    /// The place, if one was assigned.
    pub fn assigned(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|place| *place != 0)
    }
}

/// Whether the items made from these parts have no end.
fn is_endless(kind: Combinator, parts: &[Value]) -> bool {
    let endless = |part: &Value| matches!(part, Value::Combined(part) if part.endless);
    let may_end_sequence =
        |step: &Value| matches!(step, Value::Combined(step) if step.may_end_sequence);
    match kind {
        Combinator::Range => parts.get(1).is_none_or(Value::is_nil),
        Combinator::Iterate | Combinator::Repeat | Combinator::Repeatedly => true,
        // A function, and the sequences that it is called with side by side.
        Combinator::ZipWith => parts.iter().skip(1).all(endless),
        Combinator::Chain => parts.iter().any(endless),
        Combinator::Cycle => {
            !matches!(parts.first(), Some(Value::Vector(items)) if items.is_empty())
        }
        // A source, and the transducers that its items pass through.
        Combinator::Sequence => match parts {
            [source, steps @ ..] => endless(source) && !steps.iter().any(may_end_sequence),
            [] => false,
        },
        _ => false,
    }
}

/// Whether the transducer with these parts may end a sequence.
fn may_end_sequence(kind: Combinator, parts: &[Value]) -> bool {
    match kind {
        Combinator::Transducer => matches!(
            parts.first(),
            Some(Value::Builtin(builtin)) if matches!(builtin.name, "take" | "take-while")
        ),
        Combinator::Comp => parts
            .iter()
            .any(|part| matches!(part, Value::Combined(part) if part.may_end_sequence)),
        _ => false,
    }
}

/// A function made of other values.
pub struct Combined {
    /// How it uses its parts.
    pub kind: Combinator,
    pub parts: Vec<Value>,
    /// Levels of nesting through its parts.
    pub depth: u32,
    /// Whether its items have no end. Computed on creation, as is `may_end_sequence`: parts can be shared, and a walk
    /// would visit a shared part once for every path to it.
    pub endless: bool,
    /// Whether it may end a sequence.
    pub may_end_sequence: bool,
    /// Its place in the order of functions.
    pub identity: Identity,
}

impl Combined {
    /// A function of `parts`.
    pub fn new(kind: Combinator, parts: Vec<Value>) -> Combined {
        Combined {
            kind,
            depth: deepest(&parts),
            endless: is_endless(kind, &parts),
            may_end_sequence: may_end_sequence(kind, &parts),
            parts,
            identity: Identity::default(),
        }
    }

    /// The key that orders it among combined functions. It is independent of the object for a tool, which its name
    /// identifies, and for a function of a `letfn`, which its group and index identify; any other function is equal
    /// only to itself.
    pub fn order_key(&self) -> (u8, &str, u64, i64) {
        match (self.kind, self.parts.as_slice()) {
            (Combinator::Tool, [Value::Str(name)]) => (0, name, 0, 0),
            (Combinator::Letfn, [Value::Fn(all), Value::Int(which)]) => {
                (1, "", all.identity.place(), *which)
            }
            _ => (2, "", self.identity.place(), 0),
        }
    }

    /// The name of the tool that this function calls.
    pub fn tool(&self) -> Option<&Value> {
        match (self.kind, self.parts.as_slice()) {
            (Combinator::Tool, [name]) => Some(name),
            _ => None,
        }
    }
}

/// How a [`Combined`] function uses its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combinator {
    /// `(partial f a …)`
    Partial,
    /// One function of a `letfn`: a function that stands for the whole group, and an index.
    Letfn,
    /// `(comp f g …)`
    Comp,
    /// `(juxt f g …)`
    Juxt,
    /// `(complement f)`
    Complement,
    /// `(constantly x)`
    Constantly,
    /// `(fnil f a …)`
    Fnil,
    /// `(every-pred p …)`
    EveryPred,
    /// `(some-fn f …)`
    SomeFn,
    /// `(memoize f)`: for the same arguments, returns the earlier result of `f`, as long as the program runs.
    Memoize,
    /// `tool/NAME`; the only part is the name.
    Tool,
    /// `(map f)`, `(take n)` and similar calls without a collection: the builtin and its arguments.
    Transducer,
    /// `(reduced x)`: ends a reduction with `x`.
    Reduced,
    /// Not a function but a lazy sequence: a source, and the transducers that its items pass through. It is part of no
    /// value but another sequence, and never leaves the program (`eval::sequence`).
    Sequence,
    /// Only as the source of a [`Combinator::Sequence`]: numbers from the first part, up to the second unless that is
    /// nil, in steps of the third.
    Range,
    /// Only as a source: the second part, then the results of applying the first part repeatedly.
    Iterate,
    /// Only as a source: the same value forever.
    Repeat,
    /// Only as a source: the items of a vector, over and over.
    Cycle,
    /// Only as a source: the results of calling a function without arguments, forever.
    Repeatedly,
    /// Only as a source: the results of calling the first part with the items of the others, side by side.
    ZipWith,
    /// Only as a source: the items of each part, one part after the other.
    Chain,
}

impl Combinator {
    /// The combinators that make a function of other values.
    pub const FUNCTION_MAKERS: [Combinator; 12] = [
        Combinator::Partial,
        Combinator::Letfn,
        Combinator::Comp,
        Combinator::Juxt,
        Combinator::Complement,
        Combinator::Constantly,
        Combinator::Fnil,
        Combinator::EveryPred,
        Combinator::SomeFn,
        Combinator::Memoize,
        Combinator::Transducer,
        Combinator::Reduced,
    ];

    /// Whether such a function can have `count` parts.
    pub const fn takes(self, count: usize) -> bool {
        match self {
            Combinator::Complement
            | Combinator::Constantly
            | Combinator::Memoize
            | Combinator::Tool
            | Combinator::Reduced => count == 1,
            Combinator::Letfn => count == 2,
            Combinator::Partial | Combinator::Fnil | Combinator::Transducer => count > 0,
            _ => true,
        }
    }

    /// The name under which it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Combinator::Partial => "partial",
            Combinator::Letfn => "letfn",
            Combinator::Comp => "comp",
            Combinator::Juxt => "juxt",
            Combinator::Complement => "complement",
            Combinator::Constantly => "constantly",
            Combinator::Fnil => "fnil",
            Combinator::EveryPred => "every-pred",
            Combinator::SomeFn => "some-fn",
            Combinator::Memoize => "memoize",
            Combinator::Tool => "tool",
            Combinator::Transducer => "transducer",
            Combinator::Reduced => "reduced",
            Combinator::Sequence => "sequence",
            Combinator::Range => "range",
            Combinator::Iterate => "iterate",
            Combinator::Repeat => "repeat",
            Combinator::Cycle => "cycle",
            Combinator::Repeatedly => "repeatedly",
            Combinator::ZipWith => "beside",
            Combinator::Chain => "chain",
        }
    }
}

fn deepest(parts: &[Value]) -> u32 {
    parts
        .iter()
        .map(|part| part.shape().depth)
        .max()
        .map_or(1, |depth| depth.saturating_add(1))
}

impl Drop for Closure {
    fn drop(&mut self) {
        if self.depth >= DROP_DEPTH_MAX {
            drop_iteratively(PendingDrop::Values(std::mem::take(&mut self.captures)));
        }
        charge_free();
    }
}

impl Drop for Combined {
    fn drop(&mut self) {
        if self.depth >= DROP_DEPTH_MAX {
            drop_iteratively(PendingDrop::Values(std::mem::take(&mut self.parts)));
        }
        charge_free();
    }
}
