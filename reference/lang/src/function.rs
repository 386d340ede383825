//! Callable values: closures, and functions made of functions. Knows nothing of how they are run.

use std::sync::Arc;

use crate::analyze::ir::Lambda;
use crate::value::Value;
use crate::value::shape::{DROP_DEPTH_MAX, drop_flat};

/// A function written in the program, with what it captured.
pub struct Closure {
    /// Its code; kept alive, and counted as memory, as long as the closure is.
    pub lambda: Arc<Lambda>,
    /// Captured locals, in the order that the code expects.
    pub captures: Vec<Value>,
    /// Levels of nesting through captures.
    pub depth: u32,
}

impl Closure {
    /// A closure over `captures`.
    pub fn new(lambda: Arc<Lambda>, captures: Vec<Value>) -> Closure {
        let depth = deepest(&captures);
        Closure {
            lambda,
            captures,
            depth,
        }
    }
}

/// A function made from other values.
pub struct Combined {
    /// How the parts work together.
    pub kind: Combinator,
    /// Functions and arguments.
    pub parts: Vec<Value>,
    /// Levels of nesting through parts.
    pub depth: u32,
}

impl Combined {
    /// A function of `parts`.
    pub fn new(kind: Combinator, parts: Vec<Value>) -> Combined {
        let depth = deepest(&parts);
        Combined { kind, parts, depth }
    }
}

/// How a [`Combined`] function uses its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combinator {
    /// `(partial f a …)`
    Partial,
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
    /// `tool/NAME`; the only part is the name.
    Tool,
}

impl Combinator {
    /// The name that prints for it.
    pub const fn name(self) -> &'static str {
        match self {
            Combinator::Partial => "partial",
            Combinator::Comp => "comp",
            Combinator::Juxt => "juxt",
            Combinator::Complement => "complement",
            Combinator::Constantly => "constantly",
            Combinator::Fnil => "fnil",
            Combinator::EveryPred => "every-pred",
            Combinator::SomeFn => "some-fn",
            Combinator::Tool => "tool",
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
            drop_flat(std::mem::take(&mut self.captures));
        }
    }
}

impl Drop for Combined {
    fn drop(&mut self) {
        if self.depth >= DROP_DEPTH_MAX {
            drop_flat(std::mem::take(&mut self.parts));
        }
    }
}
