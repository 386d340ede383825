//! Calls of closures, builtins, and everything else in call position.

use std::fmt::Display;
use std::sync::Arc;

use smallvec::SmallVec;

use super::sequence::{as_lazy, called_transducer, reduced};
use super::{Eval, Evaluated, Frame, not_callable};
use crate::analyze::ir::{Arities, Call, Chain, Ir, Lambda};
use crate::builtins::{Arity, at_least, exactly};
use crate::env::ValueSummary;
use crate::error::{
    Fingerprints, Kind, Limit, Place, Quote, Stop, about, arguments, at, at_item, bad_value,
    in_function, with_function, wrong_type,
};
use crate::function::{Closure, Combinator, Combined};
use crate::host::HostFault;
use crate::value::{Items, Map, Value};

/// Native stack kept free beyond what each function needs.
const STACK_RESERVE: usize = 160 * 1024;
/// The most native stack that one level of a function's body takes.
const LEVEL_BYTES: usize = if cfg!(debug_assertions) {
    12 * 1024
} else {
    2 * 1024
};
/// The size of a new segment of native stack.
const STACK_SEGMENT: usize = 2 * 1024 * 1024;
/// Native stack that every thread of a program gets free of charge.
const STACK_FREE: usize = 64 * 1024 * UNOPTIMISED;
/// Native stack is charged in steps of this size.
const STACK_STEP: usize = 16 * 1024 * UNOPTIMISED;
/// How much larger frames are in builds without optimisation than the limits assume, as this workspace builds its tests
/// (`Cargo.toml`).
const UNOPTIMISED: usize = if cfg!(debug_assertions) { 2 } else { 1 };

impl<'r> Eval<'r> {
    pub(super) fn eval_call(&mut self, call: &Call, frame: Frame<'_>) -> Evaluated {
        let callee = self.eval(&call.callee, frame)?;
        let result = match call.args.as_ref() {
            [] => self.call_unrealized(&callee, &mut []),
            [a] => {
                let mut args = [self.eval(a, frame)?];
                self.call_unrealized(&callee, &mut args)
            }
            [a, b] => {
                let mut args = [self.eval(a, frame)?, self.eval(b, frame)?];
                self.call_unrealized(&callee, &mut args)
            }
            args => {
                let mut args = self.eval_all(args, frame)?;
                self.call_unrealized(&callee, &mut args)
            }
        };
        self.finish_call(call, &callee, result)
    }

    /// Processes the result of a call of `callee`: records a summary of it, or adds the position to an error.
    #[inline]
    fn finish_call(&mut self, call: &Call, callee: &Value, result: Evaluated) -> Evaluated {
        if self.records_results
            && let (Ok(value), Ir::Global(global), Value::Fn(_)) = (&result, &call.callee, callee)
        {
            self.record_result(global.id as usize, value);
        }
        result.map_err(|stop| at(stop, call.span))
    }

    /// Records a summary of the result of the function defined at `id`.
    #[inline(never)]
    fn record_result(&mut self, id: usize, value: &Value) {
        if self.last_results.len() <= id {
            self.last_results.resize(id + 1, None);
        }
        self.last_results[id] = Some(ValueSummary::of(value));
    }

    /// Evaluates in the order of the nested calls that the chain is equivalent to: from the outermost call inwards
    /// everything that comes before the value, and on the way back everything that comes after it.
    #[inline(never)]
    pub(super) fn eval_chain(&mut self, chain: &Chain, frame: Frame<'_>) -> Evaluated {
        let mut waiting = Vec::new();
        for step in chain.steps.iter().rev() {
            if !matches!(step.callee, Ir::Const(_)) {
                waiting.push(self.eval(&step.callee, frame)?);
            }
            if chain.last {
                for arg in &step.args {
                    waiting.push(self.eval(arg, frame)?);
                }
            }
        }
        let mut value = self.eval(&chain.start, frame)?;
        for step in &chain.steps {
            let mut args = SmallVec::<[Value; 4]>::new();
            if chain.last {
                args.extend(waiting.drain(waiting.len() - step.args.len()..));
                args.push(value);
            } else {
                args.push(value);
                for arg in &step.args {
                    args.push(self.eval(arg, frame)?);
                }
            }
            let callee = match &step.callee {
                Ir::Const(callee) => callee.clone(),
                _ => waiting.pop().unwrap_or_default(),
            };
            let result = self.call_unrealized(&callee, &mut args);
            value = self.finish_call(step, &callee, result)?;
        }
        Ok(value)
    }

    /// Calls the function of the arity that fits.
    #[inline(never)]
    pub(super) fn eval_arity(&mut self, arities: &Arities, frame: Frame<'_>) -> Evaluated {
        let mut given: SmallVec<[Value; 4]> = match self.eval(&arities.given, frame)? {
            Value::Vector(given) => given.into_vec().into(),
            _ => SmallVec::new(),
        };
        let Some(arity) = arities.accepts(given.len()) else {
            let lambda = frame.closure.map(|closure| &*closure.lambda);
            return Err(arity_not_found(arities, lambda, given.len()));
        };
        let function = self.eval(&arity.function, frame)?;
        self.call_unrealized(&function, &mut given)
    }

    /// Calls `callee`; arguments may be moved out of `args`. The result is realized, so it may be kept anywhere.
    #[inline]
    pub fn call(&mut self, callee: &Value, args: &mut [Value]) -> Evaluated {
        let result = self.call_unrealized(callee, args)?;
        self.realized(result)
    }

    /// Calls `callee`; the result may be a lazy sequence.
    fn call_unrealized(&mut self, callee: &Value, args: &mut [Value]) -> Evaluated {
        match callee {
            Value::Fn(closure) => self.call_closure(closure, args),
            Value::Builtin(builtin) => {
                self.tick()?;
                self.invoke(builtin, args)
            }
            _ => self.call_rare(callee, args),
        }
    }

    /// Calls `callee` with one argument.
    #[inline(always)]
    pub fn call1(&mut self, callee: &Value, arg: Value) -> Evaluated {
        self.call(callee, &mut [arg])
    }

    /// Calls `callee` with two arguments.
    #[inline]
    pub fn call2(&mut self, callee: &Value, a: Value, b: Value) -> Evaluated {
        self.call(callee, &mut [a, b])
    }

    /// Calls `callee` with each item in turn. `each` gets the item and the result, and returns whether to continue.
    /// `before` items of the collection came before these.
    pub fn call_each(
        &mut self,
        callee: &Value,
        items: Items<'_>,
        before: usize,
        mut each: impl FnMut(&mut Self, &Value, Value) -> Evaluated<bool>,
    ) -> Evaluated<()> {
        if let Some(closure) = closure_of(callee, 1) {
            return self.one_call_deeper(closure, |eval, base| {
                for (index, item) in items.enumerate() {
                    let result =
                        eval.call_prepared(closure, base, |stack| stack.push(item.clone()));
                    let result = result.and_then(|result| eval.realized(result));
                    let result = result.map_err(|stop| at_item(stop, before + index))?;
                    if !each(eval, item, result)? {
                        break;
                    }
                }
                Ok(())
            });
        }
        for (index, item) in items.enumerate() {
            let result = match (callee, item) {
                // The map need not be passed as an argument.
                (Value::Keyword(_), Value::Map(map)) => {
                    self.tick()?;
                    map.lookup(callee).cloned().unwrap_or_default()
                }
                _ => self
                    .call1(callee, item.clone())
                    .map_err(|stop| at_item(stop, before + index))?,
            };
            if !each(self, item, result)? {
                break;
            }
        }
        Ok(())
    }

    /// Calls `callee` with each item in turn, and replaces the item by the result. `before` items of the collection
    /// came before these.
    pub fn replace_each(
        &mut self,
        callee: &Value,
        items: &mut [Value],
        before: usize,
    ) -> Evaluated<()> {
        if let Some(closure) = closure_of(callee, 1) {
            return self.one_call_deeper(closure, |eval, base| {
                for (index, item) in items.iter_mut().enumerate() {
                    let argument = std::mem::take(item);
                    let result = eval.call_prepared(closure, base, |stack| stack.push(argument));
                    let result = result.and_then(|result| eval.realized(result));
                    *item = result.map_err(|stop| at_item(stop, before + index))?;
                }
                Ok(())
            });
        }
        for (index, item) in items.iter_mut().enumerate() {
            let argument = std::mem::take(item);
            *item = match (callee, &argument) {
                // The map need not be passed as an argument.
                (Value::Keyword(_), Value::Map(map)) => {
                    self.tick()?;
                    map.lookup(callee).cloned().unwrap_or_default()
                }
                _ => self
                    .call1(callee, argument)
                    .map_err(|stop| at_item(stop, before + index))?,
            };
        }
        Ok(())
    }

    /// Calls `callee` with the accumulator, initially `first`, and each item in turn. `before` items of the collection
    /// came before these.
    pub fn fold_each(
        &mut self,
        callee: &Value,
        first: Value,
        items: Items<'_>,
        before: usize,
    ) -> Evaluated {
        let mut folded = first;
        if let Some(closure) = closure_of(callee, 2) {
            return self.one_call_deeper(closure, |eval, base| {
                for (index, item) in items.enumerate() {
                    let result = eval.call_prepared(closure, base, |stack| {
                        stack.push(folded);
                        stack.push(item.clone());
                    });
                    folded = result.map_err(|stop| at_item(stop, before + index))?;
                    if let Some(value) = reduced(&folded) {
                        return Ok(value.clone());
                    }
                }
                eval.realized(folded)
            });
        }
        self.fold_items(callee, folded, items, before)
    }

    /// Whether `value` is valid in call position.
    pub fn callable(value: &Value) -> bool {
        matches!(
            value,
            Value::Fn(_)
                | Value::Builtin(_)
                | Value::Combined(_)
                | Value::Keyword(_)
                | Value::Map(_)
                | Value::Set(_)
                | Value::Vector(_)
                | Value::Var(_)
        )
    }

    #[inline(never)]
    fn call_rare(&mut self, callee: &Value, args: &mut [Value]) -> Evaluated {
        self.tick()?;
        if !matches!(callee, Value::Combined(_) | Value::Var(_)) || is_tool(callee) {
            for arg in &mut *args {
                self.realize(arg)?;
            }
        }
        match callee {
            Value::Keyword(name) => {
                check_arity(
                    format_args!(":{name}"),
                    crate::builtins::between(1, 2),
                    args.len(),
                )?;
                self.deref_var(&mut args[0]);
                let found = match &args[0] {
                    Value::Map(map) => map.lookup(callee).cloned(),
                    _ => None,
                };
                Ok(found.unwrap_or_else(|| default_argument(args)))
            }
            Value::Map(map) => {
                check_arity("a map", crate::builtins::between(1, 2), args.len())?;
                self.walk(&args[0])?;
                Ok(map
                    .lookup(&args[0])
                    .cloned()
                    .unwrap_or_else(|| default_argument(args)))
            }
            Value::Set(set) => {
                check_arity("a set", exactly(1), args.len())?;
                self.walk(&args[0])?;
                Ok(set.get(&args[0]).cloned().unwrap_or_default())
            }
            Value::Vector(items) => {
                check_arity("a vector", exactly(1), args.len())?;
                let item = match &args[0] {
                    Value::Int(index) => usize::try_from(*index)
                        .ok()
                        .and_then(|index| items.get(index)),
                    // No vector is this long.
                    Value::BigInt(_) => None,
                    other => return Err(wrong_type_for("a vector", "an integer index", other)),
                };
                match item {
                    Some(item) => Ok(item.clone()),
                    None => Err(bad_value(about(
                        format!(
                            "index {} is out of range for a vector of {} items",
                            crate::print::display(&args[0]),
                            items.len()
                        ),
                        &args[0],
                    ))),
                }
            }
            Value::Var(name) => {
                let value = match self.global(name) {
                    Some(value) => value,
                    None => match crate::builtins::lookup(name) {
                        Some(builtin) => builtin.value(),
                        None => return Err(Kind::Unbound(vec![(name.to_string(), None)]).into()),
                    },
                };
                // A var may lead to another var, or to itself.
                self.on_stack(1, |eval| eval.call(&value, args))
            }
            Value::Combined(_) if as_lazy(callee).is_some() => {
                let callee = self.realized(callee.clone())?;
                self.call_rare(&callee, args)
            }
            Value::Combined(made) if made.kind == Combinator::Memoize => {
                self.on_stack(1, |eval| eval.call_memoized(made, args))
            }
            Value::Combined(combined) => {
                self.on_stack(1, |eval| eval.call_combined(combined, args))
            }
            _ => Err(not_callable(callee)),
        }
    }

    /// The earlier result for equal arguments of the same kinds, or else the result of calling the function now.
    fn call_memoized(&mut self, made: &Arc<Combined>, args: &mut [Value]) -> Evaluated {
        /// The approximate bytes of a remembered call besides its values.
        const CALL_BYTES: usize = 128;
        let [function] = made.parts.as_slice() else {
            return Err(not_callable(&Value::Nil));
        };
        self.realize_all(args)?;
        self.reserve_values(args.len())?;
        let given = Value::vector(args.to_vec());
        self.walk(&given)?;
        let place = Arc::as_ptr(made).addr();
        let known = self.memoized.get(&place);
        if let Some(value) = known.and_then(|(_, known)| known.get(&given)) {
            return Ok(value.clone());
        }
        let value = self.call(function, args)?;
        self.reserve(CALL_BYTES)?;
        let (_, known) = self
            .memoized
            .entry(place)
            .or_insert_with(|| (Arc::clone(made), Map::new()));
        known.insert(given, value.clone());
        Ok(value)
    }

    fn call_combined(&mut self, combined: &Combined, args: &mut [Value]) -> Evaluated {
        let parts = combined.parts.as_slice();
        self.charge(parts.len())?;
        match combined.kind {
            Combinator::Partial | Combinator::Letfn => {
                let [function, bound @ ..] = parts else {
                    return Ok(Value::Nil);
                };
                let mut all: SmallVec<[Value; 4]> = bound.iter().cloned().collect();
                all.extend(args.iter_mut().map(std::mem::take));
                self.call(function, &mut all)
            }
            Combinator::Comp => {
                let Some((first, rest)) = parts.split_last() else {
                    check_arity("the identity made by (comp)", exactly(1), args.len())?;
                    return Ok(std::mem::take(&mut args[0]));
                };
                let mut value = self.call(first, args)?;
                for function in rest.iter().rev() {
                    value = self.call1(function, value)?;
                }
                Ok(value)
            }
            Combinator::Juxt => {
                let mut results = Vec::with_capacity(parts.len());
                self.realize_all(args)?;
                for function in parts {
                    let mut copy: SmallVec<[Value; 4]> = args.iter().cloned().collect();
                    results.push(self.call(function, &mut copy)?);
                }
                Ok(Value::vector(results))
            }
            Combinator::Complement => Ok(Value::Bool(!self.call(&parts[0], args)?.is_truthy())),
            Combinator::Constantly => Ok(parts[0].clone()),
            Combinator::Fnil => {
                let [function, defaults @ ..] = parts else {
                    return Ok(Value::Nil);
                };
                for (arg, default) in args.iter_mut().zip(defaults) {
                    if arg.is_nil() {
                        *arg = default.clone();
                    }
                }
                self.call(function, args)
            }
            Combinator::EveryPred => {
                self.realize_all(args)?;
                for (predicate, arg) in predicate_pairs(parts, args) {
                    if !self.call1(predicate, arg.clone())?.is_truthy() {
                        return Ok(Value::Bool(false));
                    }
                }
                Ok(Value::Bool(true))
            }
            Combinator::SomeFn => {
                self.realize_all(args)?;
                let mut last = Value::Nil;
                for (function, arg) in predicate_pairs(parts, args) {
                    last = self.call1(function, arg.clone())?;
                    if last.is_truthy() {
                        return Ok(last);
                    }
                }
                Ok(
                    match parts.len() <= FIXED_ARITIES_MAX && args.len() <= FIXED_ARITIES_MAX {
                        true => last,
                        false => Value::Nil,
                    },
                )
            }
            Combinator::Tool => {
                let Some(Value::Str(name)) = parts.first() else {
                    return Ok(Value::Nil);
                };
                self.call_tool(name, args)
            }
            Combinator::Transducer => Err(called_transducer()),
            _ => Err(not_callable(&Value::Nil)),
        }
    }

    /// Replaces sequences by vectors.
    fn realize_all(&mut self, args: &mut [Value]) -> Evaluated<()> {
        args.iter_mut().try_for_each(|arg| self.realize(arg))
    }

    /// Calls a tool of the host. `:key value` pairs may take the place of a map.
    fn call_tool(&mut self, name: &str, args: &mut [Value]) -> Evaluated {
        let args = match args {
            [map @ Value::Map(_)] => std::mem::take(map),
            [Value::Symbol(reference), rest @ ..]
                if matches!(rest, [] | [Value::Map(_)]) && reference.as_str().contains('/') =>
            {
                qualified_call(reference.as_str(), rest.first_mut())
            }
            [found] => {
                return Err(Kind::ToolArgs {
                    name: name.into(),
                    found: Some(Quote::value(found)),
                }
                .into());
            }
            // An empty argument list does not count as pairs.
            pairs
                if pairs.len().is_multiple_of(2)
                    && pairs
                        .iter()
                        .step_by(2)
                        .all(|key| matches!(key, Value::Keyword(_))) =>
            {
                let entries = pairs
                    .chunks_exact_mut(2)
                    .map(|pair| (std::mem::take(&mut pair[0]), std::mem::take(&mut pair[1])));
                Value::Map(entries.collect())
            }
            _ => {
                return Err(Kind::ToolArgs {
                    name: name.into(),
                    found: None,
                }
                .into());
            }
        };
        let host = self.host();
        if host
            .tool_names()
            .binary_search_by(|known| known.as_str().cmp(name))
            .is_err()
        {
            let available = host.tool_names().to_vec();
            return Err(Kind::UnknownTool {
                name: name.into(),
                available,
            }
            .into());
        }
        // The host walks the arguments; after the deadline no call is started.
        self.walk(&args)?;
        self.refuel()?;
        host.call(name, &args).map_err(host_fault)
    }

    /// Calls a closure: pushes its frame, evaluates its body, and repeats for each `recur`.
    pub(super) fn call_closure(&mut self, closure: &Arc<Closure>, args: &mut [Value]) -> Evaluated {
        self.tick()?;
        let lambda = &*closure.lambda;
        if !(lambda.params.len() == args.len()
            || (lambda.rest.is_some() && args.len() > lambda.params.len()))
        {
            return Err(arity_error(lambda, args.len()));
        }
        self.one_call_deeper(closure, |eval, base| {
            let frame = Frame {
                base,
                closure: Some(closure),
            };
            if lambda.plain {
                eval.stack.extend(args.iter_mut().map(std::mem::take));
                eval.fill_frame(lambda, base);
            } else {
                eval.fill_frame(lambda, base);
                eval.bind_params(lambda, args, frame)?;
            }
            eval.eval_body(lambda, frame)
        })
    }

    /// Runs `inside` one call deeper, with the index where the frames of `closure` begin. Everything from there on is
    /// dropped afterwards.
    #[inline]
    fn one_call_deeper<T>(
        &mut self,
        closure: &Closure,
        inside: impl FnOnce(&mut Self, usize) -> Evaluated<T>,
    ) -> Evaluated<T> {
        self.on_stack(closure.lambda.levels, |eval| {
            let base = eval.stack.len();
            let result = inside(eval, base);
            eval.stack.truncate(base);
            result.map_err(|stop| in_function(stop, closure))
        })
    }

    /// One of many calls of a closure for which depth and native stack are already taken care of; `push` puts its
    /// arguments where its frame begins.
    #[inline(always)]
    fn call_prepared(
        &mut self,
        closure: &Arc<Closure>,
        base: usize,
        push: impl FnOnce(&mut Vec<Value>),
    ) -> Evaluated {
        self.tick()?;
        let lambda = &*closure.lambda;
        let frame = Frame {
            base,
            closure: Some(closure),
        };
        self.stack.truncate(base);
        push(&mut self.stack);
        if lambda.plain {
            self.fill_frame(lambda, base);
        } else {
            let mut args: SmallVec<[Value; 4]> = self.stack.drain(base..).collect();
            self.fill_frame(lambda, base);
            self.bind_params(lambda, &mut args, frame)?;
        }
        self.eval_body(lambda, frame)
    }

    /// Extends the frame at `base` to the length that the function needs.
    #[inline]
    fn fill_frame(&mut self, lambda: &Lambda, base: usize) {
        let end = base + lambda.slots as usize;
        if self.stack.len() < end {
            self.stack.resize(end, Value::Nil);
        }
    }

    /// Evaluates the body of a function whose arguments are bound, once more for each `recur`.
    #[inline]
    fn eval_body(&mut self, lambda: &Lambda, frame: Frame<'_>) -> Evaluated {
        let mut outcome = match &lambda.body {
            // A body of a single operator takes a shortcut.
            Ir::Op(call) => self.operate(call, frame),
            body => self.eval(body, frame),
        };
        // Usually there is none, and checking is cheaper than taking.
        if self.recur.is_some() {
            outcome = self.eval_recur(lambda, frame);
        }
        outcome
    }

    #[inline(never)]
    fn eval_recur(&mut self, lambda: &Lambda, frame: Frame<'_>) -> Evaluated {
        while let Some(mut values) = self.recur.take() {
            self.tick()?;
            // The rest argument of a `recur` is already a collection. Its defaults may read the parameters.
            let rest = lambda.rest.as_ref().map(|rest| (rest, values.pop()));
            for (pattern, value) in lambda.params.iter().zip(values) {
                self.bind(pattern, value, frame)?;
            }
            if let Some((rest, value)) = rest {
                self.bind(rest, value.unwrap_or_default(), frame)?;
            }
            let value = self.eval(&lambda.body, frame)?;
            if self.recur.is_none() {
                return Ok(value);
            }
        }
        Ok(Value::Nil)
    }

    fn bind_params(
        &mut self,
        lambda: &Lambda,
        args: &mut [Value],
        frame: Frame<'_>,
    ) -> Evaluated<()> {
        let (positional, rest) = args.split_at_mut(lambda.params.len());
        for (pattern, arg) in lambda.params.iter().zip(positional) {
            self.bind(pattern, std::mem::take(arg), frame)?;
        }
        if let Some(pattern) = &lambda.rest {
            let rest = rest.iter_mut().map(std::mem::take).collect();
            self.bind_rest(pattern, rest, frame)?;
        }
        Ok(())
    }

    /// Runs `inside` with native stack for `levels` levels of nesting. The stack in use counts as memory.
    #[inline]
    pub(super) fn on_stack<T>(
        &mut self,
        levels: u32,
        inside: impl FnOnce(&mut Self) -> Evaluated<T>,
    ) -> Evaluated<T> {
        let marker = 0u8;
        let here = std::ptr::from_ref(&marker) as usize;
        let need = levels as usize * LEVEL_BYTES;
        if here > self.stack_paid.saturating_add(need) && self.stack_paid != 0 {
            return inside(self);
        }
        if self.stack_paid == 0 {
            return self.first_stack(here, levels, inside);
        }
        self.charge_stack(here, need, inside)
    }

    /// While `inside` runs, charges the native stack in use, plus `need` bytes and one step.
    #[cold]
    #[inline(never)]
    fn charge_stack<T>(
        &mut self,
        here: usize,
        need: usize,
        inside: impl FnOnce(&mut Self) -> Evaluated<T>,
    ) -> Evaluated<T> {
        let paid = here.saturating_sub(need + STACK_STEP);
        let bytes = self.stack_paid.saturating_sub(paid) / UNOPTIMISED;
        let account = &self.shared.meter.account;
        if !account.charge(bytes) {
            return Err(self.out_of_memory());
        }
        let before = std::mem::replace(&mut self.stack_paid, paid);
        let result = if paid > self.stack_floor {
            inside(self)
        } else {
            self.grow_stack(need, inside)
        };
        self.stack_paid = before;
        account.release(bytes);
        result
    }

    /// Sets up the thread's own stack on first use: the part that any program needs is free of charge.
    #[cold]
    #[inline(never)]
    fn first_stack<T>(
        &mut self,
        here: usize,
        levels: u32,
        inside: impl FnOnce(&mut Self) -> Evaluated<T>,
    ) -> Evaluated<T> {
        let remaining = stacker::remaining_stack().unwrap_or(0);
        self.stack_floor = here.saturating_sub(remaining.saturating_sub(STACK_RESERVE));
        self.stack_paid = here.saturating_sub(STACK_FREE).max(self.stack_floor);
        let result = self.on_stack(levels, inside);
        (self.stack_floor, self.stack_paid) = (0, 0);
        result
    }

    /// Runs `inside` on a new segment of native stack.
    fn grow_stack<T>(
        &mut self,
        need: usize,
        inside: impl FnOnce(&mut Self) -> Evaluated<T>,
    ) -> Evaluated<T> {
        let before = (self.stack_floor, self.stack_paid);
        let size = need + STACK_RESERVE + STACK_SEGMENT;
        let result = stacker::grow(size, || {
            let marker = 0u8;
            let here = std::ptr::from_ref(&marker) as usize;
            let remaining = stacker::remaining_stack().unwrap_or(size);
            self.stack_floor = here.saturating_sub(remaining.saturating_sub(STACK_RESERVE));
            // What was paid for is used here now.
            self.stack_paid = here.saturating_sub(need + STACK_STEP);
            inside(self)
        });
        (self.stack_floor, self.stack_paid) = before;
        result
    }
}

/// The closure that `callee` is, if it takes exactly `count` arguments.
fn closure_of(callee: &Value, count: usize) -> Option<&Arc<Closure>> {
    match callee {
        Value::Fn(closure)
            if closure.lambda.rest.is_none() && closure.lambda.params.len() == count =>
        {
            Some(closure)
        }
        _ => None,
    }
}

/// Whether `callee` is `tool/NAME`.
fn is_tool(callee: &Value) -> bool {
    matches!(callee, Value::Combined(made) if made.kind == Combinator::Tool)
}

fn default_argument(args: &mut [Value]) -> Value {
    args.get_mut(1).map(std::mem::take).unwrap_or_default()
}

fn check_arity(function: impl Display, accepts: Arity, given: usize) -> Evaluated<()> {
    if accepts.accepts(given) {
        return Ok(());
    }
    Err(Kind::Arity {
        function: function.to_string(),
        accepts,
        given,
    }
    .into())
}

#[cold]
fn wrong_type_for(function: &str, expected: &'static str, found: &Value) -> Stop {
    let args = std::slice::from_ref(found);
    with_function(
        wrong_type(expected, found),
        function,
        args,
        &Fingerprints::of(args),
    )
}

#[cold]
fn arity_not_found(arities: &Arities, lambda: Option<&Lambda>, given: usize) -> Stop {
    let mut counts: Vec<_> = arities.arities.iter().collect();
    counts.sort_by_key(|arity| arity.count);
    let noun = match counts[..] {
        [only] => arguments(only.count),
        _ => "arguments",
    };
    let counts = counts.iter().map(|arity| match arity.variadic {
        true => format!("at least {}", arity.count),
        false => arity.count.to_string(),
    });
    let name = arities
        .name
        .as_ref()
        .map_or("the function", |name| name.as_str());
    let counts = counts.collect::<Vec<_>>().join(" or ");
    let place = Place {
        advice: lambda.map(parameters_advice),
        ..Place::default()
    };
    let kind = Kind::Pairs(format!("{name} expects {counts} {noun}, got {given}"));
    kind.at_place(place).into()
}

/// A sentence about the parameters of a function of the program.
fn parameters_advice(lambda: &Lambda) -> String {
    let heading = &lambda.heading;
    match &lambda.name {
        Some(name) => format!("`{name}` was defined with the parameters [{heading}]"),
        None => format!("the function was defined with the parameters [{heading}]"),
    }
}

#[cold]
fn arity_error(lambda: &Lambda, given: usize) -> Stop {
    let function = lambda
        .name
        .as_ref()
        .map_or_else(|| "the function".to_owned(), |name| name.to_string());
    let count = u8::try_from(lambda.params.len()).unwrap_or(u8::MAX);
    let accepts = if lambda.rest.is_some() {
        at_least(count)
    } else {
        exactly(count)
    };
    let kind = Kind::Arity {
        function,
        accepts,
        given,
    };
    let place = Place {
        advice: Some(parameters_advice(lambda)),
        ..Place::default()
    };
    kind.at_place(place).into()
}

/// `'server/tool` and its arguments, as the map that the tool takes.
fn qualified_call(reference: &str, args: Option<&mut Value>) -> Value {
    let (server, tool) = reference.split_once('/').unwrap_or((reference, ""));
    let mut entries = vec![
        (Value::keyword("server"), Value::str(server)),
        (Value::keyword("tool"), Value::str(tool)),
    ];
    entries.extend(args.map(|args| (Value::keyword("args"), std::mem::take(args))));
    Value::Map(Map::from(entries))
}

pub(crate) fn host_fault(fault: HostFault) -> Stop {
    match fault {
        HostFault::Raise { code, message } => Kind::Host { code, message }.into(),
        HostFault::Stopped(pulse) => pulse.limit().err().unwrap_or(Limit::Time).into(),
    }
}

/// The number of arguments that `every-pred` and `some-fn` check predicate by predicate; also the largest number of
/// predicates with which they check further arguments one by one.
const FIXED_ARITIES_MAX: usize = 3;

/// Pairs each predicate of `every-pred` or `some-fn` with each argument, in Clojure's order.
fn predicate_pairs<'a>(
    predicates: &'a [Value],
    args: &'a [Value],
) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let (first, rest) = args.split_at(args.len().min(FIXED_ARITIES_MAX));
    let (by_item, by_predicate) = match predicates.len() <= FIXED_ARITIES_MAX {
        true => (rest, &rest[..0]),
        false => (&rest[..0], rest),
    };
    let each = move |args: &'a [Value]| {
        predicates
            .iter()
            .flat_map(move |predicate| args.iter().map(move |arg| (predicate, arg)))
    };
    let items = by_item.iter();
    let items = items.flat_map(move |arg| predicates.iter().map(move |predicate| (predicate, arg)));
    each(first).chain(items).chain(each(by_predicate))
}
