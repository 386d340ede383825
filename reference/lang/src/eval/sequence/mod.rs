//! Lazy sequences, whose items are made on demand: a source, and the transducers that its items pass through. Knows
//! nothing of the functions that consume them.
//!
//! A lazy sequence exists only in locals and arguments. Anything that keeps a value, shows it or hands it out gets a
//! vector: at every such place the sequence is realized ([`Eval::realize`]), and each item is charged.

mod source;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Eval, Evaluated};
use crate::analyze::ir::Op;
use crate::builtins::{Builtin, Consumes, combined_value};
use crate::error::{
    Fingerprints, Kind, Stop, about, at, at_item, bad_value, with_function, wrong_type,
};
use crate::form::Span;
use crate::function::{Combinator, Combined};
use crate::value::{Items, Value};
use source::{Source, push};
pub use stream::Stream;
use stream::{CHUNK, Step, not_a_transducer};

/// Collections up to this length are processed eagerly, however many functions follow.
pub const EAGER_LEN_MAX: usize = 64;

/// The lazy sequence that `value` is, if it is one.
#[inline]
pub fn as_lazy(value: &Value) -> Option<&Arc<Combined>> {
    match value {
        Value::Combined(made) if made.kind == Combinator::Sequence => Some(made),
        _ => None,
    }
}

/// A lazy sequence over `source`, which is not a sequence itself.
pub fn lazy_sequence(source: Value) -> Value {
    combined_value(Combinator::Sequence, vec![source])
}

/// A lazy sequence of numbers; `bounds` are its start, end and step.
pub fn range(bounds: [Value; 3]) -> Value {
    lazy_sequence(combined_value(Combinator::Range, bounds.to_vec()))
}

/// `sequence` with `step` appended to its transducers.
fn append_step(sequence: &Combined, step: Value) -> Value {
    let mut parts = sequence.parts.clone();
    parts.push(step);
    combined_value(Combinator::Sequence, parts)
}

/// `(map f)`, `(take n)` and similar calls without a collection.
pub fn transducer(builtin: &'static Builtin, mut args: Vec<Value>) -> Value {
    args.insert(0, Value::Builtin(builtin));
    combined_value(Combinator::Transducer, args)
}

/// The value inside a `(reduced x)`.
#[inline]
pub fn reduced(value: &Value) -> Option<&Value> {
    match value {
        Value::Combined(made) if made.kind == Combinator::Reduced => made.parts.first(),
        _ => None,
    }
}

/// Whether `value` is a sequence without an end.
pub fn is_endless(value: &Value) -> bool {
    as_lazy(value).is_some_and(|sequence| sequence.endless)
}

/// The deepest nesting of sequences whose items come from other sequences. Making an item visits all of them.
const DEPTH_MAX: u32 = 16;

/// Realizes a sequence that nests too deep to be the source of another; an endless one is refused.
fn limit_nesting(eval: &mut Eval<'_>, sequence: &mut Value) -> Evaluated<()> {
    match as_lazy(sequence).is_none() || sequence.shape().depth <= DEPTH_MAX {
        true => Ok(()),
        false => eval.realize(sequence),
    }
}

/// A sequence of the results of `function` on the items of `columns`, side by side.
pub fn zip_with(eval: &mut Eval<'_>, function: Value, columns: &mut [Value]) -> Evaluated {
    let mut parts = vec![function];
    for column in columns {
        limit_nesting(eval, column)?;
        parts.push(std::mem::take(column));
    }
    Ok(lazy_sequence(combined_value(Combinator::ZipWith, parts)))
}

/// A sequence of the items of each of `parts`, one part after the other.
pub fn chain(eval: &mut Eval<'_>, mut parts: Vec<Value>) -> Evaluated {
    for part in &mut parts {
        limit_nesting(eval, part)?;
    }
    Ok(lazy_sequence(combined_value(Combinator::Chain, parts)))
}

/// A sequence of `items` followed by those of the sequence `endless`.
pub fn prepend(eval: &mut Eval<'_>, mut items: Vec<Value>, endless: Value) -> Evaluated {
    if items.is_empty() {
        return Ok(endless);
    }
    let mut after = vec![endless];
    // Items put before items are merged into one vector.
    if let Some(made) = as_lazy(&after[0])
        && let [Value::Combined(source)] = made.parts.as_slice()
        && let (Combinator::Chain, [Value::Vector(first), rest @ ..]) =
            (source.kind, source.parts.as_slice())
    {
        eval.reserve_values(items.len() + first.len())?;
        eval.charge(first.len())?;
        items.extend(first.iter().cloned());
        after = rest.to_vec();
    }
    after.insert(0, Value::vector(items));
    chain(eval, after)
}

/// A sequence without its first `count` items.
pub fn drop_first(eval: &mut Eval<'_>, value: Value, count: usize) -> Evaluated {
    let Some(made) = as_lazy(&value) else {
        return Ok(value);
    };
    // The items that were skipped need not be computed again.
    if let [Value::Combined(source)] = made.parts.as_slice()
        && let (Combinator::Iterate, [function, first]) = (source.kind, source.parts.as_slice())
    {
        let mut first = first.clone();
        for _ in 0..count {
            first = eval.call1(function, first)?;
        }
        let parts = vec![function.clone(), first];
        return Ok(lazy_sequence(combined_value(Combinator::Iterate, parts)));
    }
    if made.endless {
        return Ok(drop_lazily(made.parts.clone(), count));
    }
    let mut stream = eval.stream(value)?;
    for _ in 0..count {
        if stream.next(eval)?.is_none() {
            break;
        }
    }
    // The remaining numbers need not be made yet.
    if let (Source::Numbers { next, end, step }, []) = (&stream.source, stream.steps.as_slice()) {
        return Ok(range([next.clone(), end.clone(), step.clone()]));
    }
    Ok(Value::vector(eval.collected(stream)?))
}

/// The sequence of these parts without its first `count` items, which are skipped on demand.
pub fn drop_lazily(mut parts: Vec<Value>, count: usize) -> Value {
    let drop = crate::builtins::lookup("drop").expect("a row of the table");
    let before = match parts.last() {
        Some(Value::Combined(last)) => match last.parts.as_slice() {
            [Value::Builtin(builtin), Value::Int(before)] if builtin.name == "drop" => {
                usize::try_from(*before).ok()
            }
            _ => None,
        },
        _ => None,
    };
    if before.is_some() {
        parts.pop();
    }
    let count = before.unwrap_or(0).saturating_add(count);
    parts.push(transducer(drop, vec![Value::from(count)]));
    combined_value(Combinator::Sequence, parts)
}

/// The parts of a sequence; for any other collection, the parts of a sequence over it.
pub fn parts_of(collection: &Value) -> Vec<Value> {
    match as_lazy(collection) {
        Some(made) => made.parts.clone(),
        None => vec![collection.clone()],
    }
}

/// The start, end and step of a plain range of integers.
pub fn integers(value: &Value) -> Option<(i64, i64, i64)> {
    let [Value::Combined(source)] = as_lazy(value)?.parts.as_slice() else {
        return None;
    };
    match (source.kind, source.parts.as_slice()) {
        (Combinator::Range, [Value::Int(start), Value::Int(end), Value::Int(step)]) => {
            Some((*start, *end, *step))
        }
        _ => None,
    }
}

/// The number of integers from `start` up to `end` in steps of `step`.
pub fn integer_count(start: i64, end: i64, step: i64) -> usize {
    let span = if step > 0 {
        i128::from(end) - i128::from(start)
    } else {
        i128::from(start) - i128::from(end)
    };
    let step = i128::from(step).abs().max(1);
    let count = if span <= 0 {
        0
    } else {
        (span + step - 1) / step
    };
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Eval<'_> {
    /// The items of anything seqable, in order.
    pub fn stream(&mut self, value: Value) -> Evaluated<Stream> {
        let mut steps = Vec::new();
        let is_pure = as_lazy(&value).is_some();
        let source = match as_lazy(&value) {
            Some(sequence) => {
                let [source, through @ ..] = sequence.parts.as_slice() else {
                    return Err(wrong_type("a collection", &value));
                };
                for step in through {
                    self.steps(step, &mut steps)?;
                }
                Source::of(self, source.clone())?
            }
            None => Source::of(self, value)?,
        };
        Ok(Stream::new(source, steps, is_pure))
    }

    /// The items of `value`, passed through the transducer `xform`.
    pub fn transduce(&mut self, xform: &Value, value: Value) -> Evaluated<Stream> {
        let Stream {
            source, mut steps, ..
        } = self.stream(value)?;
        self.steps(xform, &mut steps)?;
        // A transducer may have any effect, item by item.
        Ok(Stream::new(source, steps, false))
    }

    /// The steps that a transducer consists of; `comp` is taken apart.
    fn steps(&mut self, xform: &Value, steps: &mut Vec<Step>) -> Evaluated<()> {
        let mut pending = vec![xform.clone()];
        while let Some(xform) = pending.pop() {
            self.charge(1)?;
            match &xform {
                Value::Builtin(builtin) if builtin.name == "cat" => steps.push(Step::Cat),
                Value::Combined(made) if made.kind == Combinator::Comp => {
                    self.charge(made.parts.len())?;
                    self.reserve_values(made.parts.len())?;
                    pending.extend(made.parts.iter().rev().cloned());
                }
                Value::Combined(made) if made.kind == Combinator::Transducer => {
                    match made.parts.as_slice() {
                        [Value::Builtin(builtin), args @ ..] => {
                            steps.push(Step::of(builtin, args)?);
                        }
                        _ => return Err(not_a_transducer(&xform)),
                    }
                }
                _ => return Err(not_a_transducer(&xform)),
            }
        }
        Ok(())
    }

    /// Every remaining item.
    pub fn collected(&mut self, mut stream: Stream) -> Evaluated<Vec<Value>> {
        if stream.steps.is_empty()
            && let Source::Items(items) = stream.source
        {
            return Ok(items.collect());
        }
        let mut items = Vec::new();
        if let (Source::Integers { left, .. }, []) = (&stream.source, stream.steps.as_slice()) {
            self.reserve_values(*left)?;
            items.reserve_exact(*left);
        }
        if stream.is_chunkable() {
            let mut chunk = Vec::with_capacity(CHUNK);
            loop {
                stream.next_chunk(self, &mut chunk)?;
                if chunk.is_empty() {
                    return Ok(items);
                }
                if items.capacity() - items.len() < chunk.len() {
                    self.reserve_values((items.len() + chunk.len()) * 2)?;
                }
                items.append(&mut chunk);
            }
        }
        while let Some(item) = stream.next(self)? {
            push(self, &mut items, item)?;
        }
        Ok(items)
    }

    /// Replaces a sequence by a vector.
    #[inline]
    pub fn realize(&mut self, value: &mut Value) -> Evaluated<()> {
        match as_lazy(value) {
            None => Ok(()),
            Some(_) => self.realize_sequence(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn realize_sequence(&mut self, value: &mut Value) -> Evaluated<()> {
        if is_endless(value) {
            return Err(bad_value(about(
                "the sequence has no end: bound it where it is made, as in (take 10 (iterate inc 0))",
                value,
            )));
        }
        let stream = self.stream(std::mem::take(value))?;
        *value = Value::vector(self.collected(stream)?);
        Ok(())
    }

    /// `value`, or a vector of its items if it is a sequence.
    #[inline]
    pub fn realized(&mut self, mut value: Value) -> Evaluated {
        self.realize(&mut value)?;
        Ok(value)
    }

    /// The result of a builtin on an endless sequence: the sequence with the builtin appended to its transducers.
    pub fn with_transducer(
        &mut self,
        builtin: &'static Builtin,
        args: &[Value],
        sequence: &Value,
    ) -> Evaluated {
        let mut args = args.to_vec();
        // An argument may become an item, such as a separator.
        args.iter_mut().try_for_each(|arg| self.realize(arg))?;
        // Errors are raised at the call of the builtin, not when an item is requested.
        Step::of(builtin, &args)?;
        let step = transducer(builtin, args);
        Ok(match as_lazy(sequence) {
            Some(sequence) => append_step(sequence, step),
            None => combined_value(Combinator::Sequence, vec![sequence.clone(), step]),
        })
    }

    /// Calls a builtin whose items the enclosing call consumes. When there are many of them, and nobody can observe
    /// when they are made, they are made one by one.
    pub(super) fn call_lazily(
        &mut self,
        builtin: &'static Builtin,
        mut args: smallvec::SmallVec<[Value; 4]>,
        span: Span,
    ) -> Evaluated {
        let many = |value: &Value| match value {
            Value::Vector(items) => items.len() > EAGER_LEN_MAX,
            Value::Map(entries) => entries.len() > EAGER_LEN_MAX,
            Value::Set(members) => members.len() > EAGER_LEN_MAX,
            _ => as_lazy(value).is_some(),
        };
        let taken = &args[builtin.consumes.of(args.len())];
        let is_lazy = builtin.arity.accepts(args.len())
            && (builtin.consumes == Consumes::None || taken.iter().any(many))
            && args.iter().all(|arg| self.is_pure(arg));
        if let Some(lazy) = builtin.lazy
            && is_lazy
        {
            let fingerprints = Fingerprints::of(&args);
            match lazy(self, builtin, &mut args) {
                Ok(None) => {}
                Ok(Some(sequence)) => {
                    self.tick()?;
                    return Ok(sequence);
                }
                Err(stop) => {
                    return Err(at(
                        with_function(stop, builtin.name, &args, &fingerprints),
                        span,
                    ));
                }
            }
        }
        self.builtin(builtin, &mut args, span)
    }

    /// Whether nobody can observe when `function` is called: it prints nothing, defines nothing, calls no tool, does
    /// not end the program, and reads no global that may be redefined.
    fn is_pure(&self, function: &Value) -> bool {
        /// The number of functions that are examined.
        const FUNCTIONS_MAX: usize = 64;
        let mut pending = vec![function.clone()];
        let mut seen = BTreeSet::new();
        while let Some(function) = pending.pop() {
            match &function {
                Value::Builtin(builtin) if builtin.has_effects() => return false,
                Value::Fn(closure) => {
                    if closure.lambda.has_effects || seen.len() >= FUNCTIONS_MAX {
                        return false;
                    }
                    if !seen.insert(Arc::as_ptr(&closure.lambda).addr()) {
                        continue;
                    }
                    let captured = closure.captures.iter();
                    pending.extend(captured.filter(|value| Eval::may_run_code(value)).cloned());
                    for id in &closure.lambda.globals {
                        if self.shared.names.is_redefinable(*id) {
                            return false;
                        }
                        match self.globals.get(*id as usize) {
                            Some(Some(definition)) => {
                                if Eval::may_run_code(&definition.value) {
                                    pending.push(definition.value.clone());
                                }
                            }
                            _ => return false,
                        }
                    }
                }
                Value::Combined(made) => match made.kind {
                    Combinator::Tool => return false,
                    _ if made.parts.len() > FUNCTIONS_MAX || made.depth > 8 => return false,
                    _ => {
                        let parts = made.parts.iter();
                        pending.extend(parts.filter(|part| Eval::may_run_code(part)).cloned());
                    }
                },
                Value::Var(_) => return false,
                _ => {}
            }
        }
        true
    }

    /// Whether `value` may run code of a program when it is called.
    fn may_run_code(value: &Value) -> bool {
        matches!(
            value,
            Value::Fn(_) | Value::Builtin(_) | Value::Combined(_) | Value::Var(_)
        )
    }

    /// Calls `callee` with the accumulator and each item in turn; a reduced value ends the loop. `before` items of the
    /// collection came before these.
    pub fn fold_stream(
        &mut self,
        callee: &Value,
        first: Value,
        mut stream: Stream,
        before: usize,
    ) -> Evaluated {
        let op = match callee {
            Value::Builtin(builtin) => Op::of(builtin),
            _ => None,
        };
        let mut folded = first;
        let mut index = before;
        if let Some(op) = op
            && stream.is_chunkable()
        {
            // An operator needs all items.
            let mut chunk = Vec::with_capacity(CHUNK);
            loop {
                stream.next_chunk(self, &mut chunk)?;
                if chunk.is_empty() {
                    return Ok(folded);
                }
                self.charge(chunk.len())?;
                for item in chunk.drain(..) {
                    folded = match op.values(&folded, &item) {
                        Some(known) => known,
                        None => {
                            let result = self.call2(callee, folded, item);
                            result.map_err(|stop| at_item(stop, index))?
                        }
                    };
                    index += 1;
                }
            }
        }
        while let Some(item) = stream.next(self)? {
            let result = self.call2(callee, folded, item);
            folded = result.map_err(|stop| at_item(stop, index))?;
            index += 1;
            if let Some(value) = reduced(&folded) {
                return Ok(value.clone());
            }
        }
        Ok(folded)
    }

    /// [`Eval::fold_stream`] for items that are already available.
    pub fn fold_items(
        &mut self,
        callee: &Value,
        first: Value,
        items: Items<'_>,
        before: usize,
    ) -> Evaluated {
        let mut folded = first;
        for (index, item) in items.enumerate() {
            let result = self.call2(callee, folded, item.clone());
            folded = result.map_err(|stop| at_item(stop, before + index))?;
            if let Some(value) = reduced(&folded) {
                return Ok(value.clone());
            }
        }
        Ok(folded)
    }
}

/// The value inside a reduced value; any other value itself.
pub fn unreduced(value: Value) -> Value {
    match reduced(&value) {
        Some(inner) => inner.clone(),
        None => value,
    }
}

/// The error for a transducer that is called like a function.
#[cold]
pub(super) fn called_transducer() -> Stop {
    Kind::Other("a transducer is no function of items: give it to into, transduce or sequence, as in (into [] (map inc) coll)".into()).into()
}
