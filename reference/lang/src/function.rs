//! Callable values: closures, and functions made of functions; and sequences that are not made yet. Knows nothing of how they are run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::analyze::ir::Lambda;
use crate::value::Value;
use crate::value::shape::{DROP_DEPTH_MAX, Remains, drop_flat, freed};

/// A function written in the program, with what it captured.
pub struct Closure {
    /// Its code; kept alive, and counted as memory, as long as the closure is.
    pub lambda: Arc<Lambda>,
    /// Captured locals, in the order that the code expects.
    pub captures: Vec<Value>,
    /// Levels of nesting through captures.
    pub depth: u32,
    /// Its place among functions.
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

/// Its place in the order of functions, which are equal only when they are the same one: the order in which they were
/// first compared. Nothing is counted for a function that is never compared.
#[derive(Default)]
pub struct Identity(AtomicU64);

/// The next place that is free. Only its growth matters, so nothing is ordered by it.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Identity {
    /// `count` places in a row that no other function has; the first one.
    pub fn block(count: u64) -> u64 {
        NEXT.fetch_add(count, Ordering::Relaxed)
    }

    pub fn at(place: u64) -> Identity {
        Identity(AtomicU64::new(place))
    }

    /// The place, found out when it is first asked for.
    pub fn place(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let place = Identity::block(1);
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

    /// The place, when anybody asked for it.
    pub fn found(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|place| *place != 0)
    }
}

/// Whether nothing bounds the items of what these parts make.
fn is_endless(kind: Combinator, parts: &[Value]) -> bool {
    let endless = |part: &Value| matches!(part, Value::Combined(part) if part.endless);
    let bounds = |step: &Value| matches!(step, Value::Combined(step) if step.bounds);
    match kind {
        Combinator::Range => parts.get(1).is_none_or(Value::is_nil),
        Combinator::Iterate | Combinator::Repeat | Combinator::Repeatedly => true,
        // The function, and what it is called with side by side.
        Combinator::Beside => parts.iter().skip(1).all(endless),
        Combinator::Chain => parts.iter().any(endless),
        Combinator::Cycle => {
            !matches!(parts.first(), Some(Value::Vector(items)) if items.is_empty())
        }
        // A source, and the transducers that its items go through.
        Combinator::Sequence => match parts {
            [source, steps @ ..] => endless(source) && !steps.iter().any(bounds),
            [] => false,
        },
        _ => false,
    }
}

/// Whether the transducer of these parts lets only some items through.
fn bounds(kind: Combinator, parts: &[Value]) -> bool {
    match kind {
        Combinator::Transducer => matches!(
            parts.first(),
            Some(Value::Builtin(builtin)) if matches!(builtin.name, "take" | "take-while")
        ),
        Combinator::Comp => parts
            .iter()
            .any(|part| matches!(part, Value::Combined(part) if part.bounds)),
        _ => false,
    }
}

/// A function made from other values.
pub struct Combined {
    /// How the parts work together.
    pub kind: Combinator,
    pub parts: Vec<Value>,
    /// Levels of nesting through parts.
    pub depth: u32,
    /// Whether nothing bounds its items. Known from the start, like what follows: parts can be shared, and looking through them would
    /// take each as often as there are ways to it.
    pub endless: bool,
    /// Whether it lets only some items through.
    pub bounds: bool,
    /// Its place among functions.
    pub identity: Identity,
}

impl Combined {
    /// A function of `parts`.
    pub fn new(kind: Combinator, parts: Vec<Value>) -> Combined {
        Combined {
            kind,
            depth: deepest(&parts),
            endless: is_endless(kind, &parts),
            bounds: bounds(kind, &parts),
            parts,
            identity: Identity::default(),
        }
    }

    /// What it is among its like, the same wherever it is made: a tool is what its name says, a function of `letfn` one of
    /// those that know each other; any other is its own.
    pub fn standing(&self) -> (u8, &str, u64, i64) {
        match (self.kind, self.parts.as_slice()) {
            (Combinator::Tool, [Value::Str(name)]) => (0, name, 0, 0),
            (Combinator::Letfn, [Value::Fn(all), Value::Int(which)]) => {
                (1, "", all.identity.place(), *which)
            }
            _ => (2, "", self.identity.place(), 0),
        }
    }

    /// The name of the tool that this calls.
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
    /// One of the functions of a `letfn`: the function that is all of them, and which one it is.
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
    /// `(memoize f)`: what `f` gave for the same arguments is given again, as long as the program runs.
    Memoize,
    /// `tool/NAME`; the only part is the name.
    Tool,
    /// `(map f)`, `(take n)` and their kin without a collection: the builtin and its arguments.
    Transducer,
    /// `(reduced x)`: ends a reduction with `x`.
    Reduced,
    /// No function: a sequence whose items are made when they are asked for. A source and the transducers that its items
    /// go through. It is part of no value but another sequence, and never leaves the program (`eval::sequence`).
    Sequence,
    /// Only as the source of a [`Combinator::Sequence`]: numbers from the first part, up to the second unless that is nil, by
    /// the third.
    Range,
    /// Only as a source: the second part, and what the first makes of it again and again.
    Iterate,
    /// Only as a source: the same value for ever.
    Repeat,
    /// Only as a source: a vector for ever.
    Cycle,
    /// Only as a source: what a function of no arguments gives each time.
    Repeatedly,
    /// Only as a source: what the first part makes of the items of the others, side by side.
    Beside,
    /// Only as a source: the items of each part, one part after the other.
    Chain,
}

impl Combinator {
    /// Those that make a function of others.
    pub const MADE: [Combinator; 12] = [
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

    /// Whether a function may be made of `count` parts.
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

    /// The name that prints for it.
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
            Combinator::Beside => "beside",
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
            drop_flat(Remains::Values(std::mem::take(&mut self.captures)));
        }
        freed();
    }
}

impl Drop for Combined {
    fn drop(&mut self) {
        if self.depth >= DROP_DEPTH_MAX {
            drop_flat(Remains::Values(std::mem::take(&mut self.parts)));
        }
        freed();
    }
}
