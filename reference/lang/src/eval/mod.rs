//! The evaluator: turns IR into values. Every loop and every growth is charged; a limit ends the program.

mod bind;
mod call;
mod parallel;
pub mod sequence;

pub(crate) use call::host_fault;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use smallvec::SmallVec;

use crate::analyze::ir::{BindingTest, Clause, For, Ir, Operation};
use crate::builtins::{Builtin, BuiltinValue, Realizes};
use crate::clock;
use crate::env::{Definition, Env, Names, ValueSummary};
use crate::error::{
    Fingerprints, Kind, Limit, Quote, Stop, at, at_item, walk_too_large, with_function,
};
use crate::form::Span;
use crate::function::{Closure, Combined};
use crate::heap;
use crate::host::Host;
use crate::limits::Limits;
use crate::meter::{Meter, Watch};
use crate::regex::{Regex, Scratch};
use crate::sink::{Sink, SinkError};
use crate::value::shape::metered;
use crate::value::text::{free_text, grow_text, push_metered};
use crate::value::{Map, Set, Text, Value, equal};

/// Metered steps per item that is made.
const ITEM_STEPS: usize = 32;

pub type Evaluated<T = Value> = Result<T, Stop>;

/// The longest chain of vars that a read follows.
const VARS_MAX: usize = 16;

/// State that all workers of one program share.
pub struct RunContext<'r> {
    /// The program's limits and its host.
    pub meter: &'r Meter<'r>,
    /// The environment that the program started with.
    pub env: &'r Env,
    /// The names of the environment and those that the program adds.
    pub(crate) names: &'r Names,
    pub workers: AtomicUsize,
}

/// An evaluator: one for the program and one for each parallel worker.
pub struct Eval<'r> {
    shared: &'r RunContext<'r>,
    /// The frames of all running functions, one after the other.
    stack: Vec<Value>,
    /// Native stack down to this address is paid for.
    stack_paid: usize,
    /// Below this address only the reserve of the native stack is left.
    stack_floor: usize,
    /// The arguments of a `recur` that is in progress.
    recur: Option<SmallVec<[Value; 4]>>,
    pub(crate) globals: Arc<Vec<Option<Definition>>>,
    /// Summaries of the results of functions called by name, by index of the global; recorded only if enabled.
    pub(crate) last_results: Vec<Option<ValueSummary>>,
    records_results: bool,
    pub(crate) journal: Option<Map>,
    pub(crate) steps: Option<Map>,
    /// The printed lines, each truncated to the limit of a line.
    pub(crate) prints: Vec<String>,
    /// The beginning of a line that `print` and `pr` left open.
    open_line: Option<String>,
    /// The last regex that was made from text.
    pub(crate) pattern: Option<Arc<Regex>>,
    /// Compiled regexes and buffers of earlier searches, for reuse.
    pub(crate) scratch: Scratch,
    /// Results of functions made by `memoize`, by argument. The function is held, so that no other one can get its
    /// address.
    memoized: BTreeMap<usize, (Arc<Combined>, Map)>,
    /// Whether this evaluator runs a branch of `pmap` or `pcalls`.
    is_worker: bool,
}

/// The position of the running function's locals and captures.
#[derive(Clone, Copy)]
struct Frame<'f> {
    base: usize,
    closure: Option<&'f Arc<Closure>>,
}

impl<'r> Eval<'r> {
    /// An evaluator that starts with the definitions of `env`.
    pub fn new(shared: &'r RunContext<'r>) -> Eval<'r> {
        let env = shared.env;
        Eval {
            shared,
            stack: Vec::new(),
            stack_paid: 0,
            stack_floor: 0,
            recur: None,
            globals: Arc::clone(&env.globals),
            last_results: Vec::new(),
            records_results: env.records_results,
            journal: env.journal.clone(),
            steps: env.steps.clone(),
            prints: Vec::new(),
            open_line: None,
            pattern: None,
            scratch: Scratch::default(),
            memoized: BTreeMap::new(),
            is_worker: false,
        }
    }

    /// Evaluates top-level expressions in order.
    pub(crate) fn run(&mut self, body: &[Ir], slots: u32, levels: u32) -> Evaluated {
        self.on_stack(levels, |eval| {
            eval.stack.resize(slots as usize, Value::Nil);
            let frame = Frame {
                base: 0,
                closure: None,
            };
            let mut last = Value::Nil;
            for ir in body {
                last = eval.eval(ir, frame)?;
            }
            eval.realized(last)
        })
    }

    // --- what builtins use of the evaluator

    pub fn host(&self) -> &'r dyn Host {
        self.shared.meter.host
    }

    pub fn limits(&self) -> &'r Limits {
        self.shared.meter.limits
    }

    /// Charges `steps` of work. A function over a collection charges its length, or one step per item.
    #[inline]
    pub fn charge(&mut self, steps: usize) -> Evaluated<()> {
        match u32::try_from(steps) {
            Ok(steps) if heap::step(steps) => Ok(()),
            _ => self.refuel(),
        }
    }

    /// Reserves `bytes` before they are allocated.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Evaluated<()> {
        // The next memory check catches small growth.
        if bytes < 4096 {
            Ok(())
        } else {
            self.reserve_large(bytes)
        }
    }

    /// Reserves memory for `count` values before they are allocated.
    pub fn reserve_values(&mut self, count: usize) -> Evaluated<()> {
        self.reserve(count.saturating_mul(size_of::<Value>()))
    }

    /// Charges a change to a collection, and reserves the `bytes` that it may copy.
    #[inline]
    pub fn change(&mut self, bytes: usize) -> Evaluated<()> {
        /// The number of bytes that are copied in about the time of one step.
        const STEP_BYTES: usize = 64;
        if bytes == 0 {
            return Ok(());
        }
        self.reserve(bytes)?;
        self.charge(bytes / STEP_BYTES)
    }

    /// Charges a full walk over `value`, counting shared parts each time they are reached.
    pub fn walk(&mut self, value: &Value) -> Evaluated<()> {
        self.walk_weight(value.shape().weight)
    }

    /// Charges a comparison of two values.
    #[inline]
    pub fn walk_both(&mut self, a: &Value, b: &Value) -> Evaluated<()> {
        let weight = a.shape().weight.min(b.shape().weight);
        if weight <= 1 {
            Ok(())
        } else {
            self.walk_weight(weight)
        }
    }

    /// Charges a walk of `weight` nodes. Stops at once when no time limit would suffice.
    pub fn walk_weight(&mut self, weight: u64) -> Evaluated<()> {
        /// A walk of this many nodes takes a good part of a second. Memory never holds this many distinct nodes, so a
        /// greater weight comes only from repeated sharing.
        const WALK_MAX: u64 = 1 << 26;
        if weight > WALK_MAX {
            return Err(walk_too_large(weight));
        }
        self.charge(weight as usize)?;
        if weight > 1_024 {
            // The walk checks the clock itself; if it gave up, nothing more may happen.
            heap::drain_fuel();
        }
        Ok(())
    }

    #[cold]
    fn reserve_large(&mut self, bytes: usize) -> Evaluated<()> {
        if heap::reserve(bytes) {
            Ok(())
        } else {
            Err(self.out_of_memory())
        }
    }

    /// Bytes that may still be allocated.
    pub fn room(&self) -> usize {
        heap::room()
    }

    /// The limits that readers and writers on behalf of the program check.
    pub fn watch(&self) -> &'r dyn Watch {
        self.shared.meter
    }

    /// The stop for exhausted memory.
    pub fn out_of_memory(&self) -> Stop {
        Limit::Memory.into()
    }

    /// Checks memory and the clock.
    #[cold]
    #[inline(never)]
    pub fn refuel(&mut self) -> Evaluated<()> {
        Ok(self.shared.meter.check_limits()?)
    }

    #[inline]
    fn tick(&mut self) -> Evaluated<()> {
        if heap::step(1) { Ok(()) } else { self.refuel() }
    }

    /// Prints text without ending the line; output of parallel branches is discarded.
    pub fn print_open(&mut self, text: String) -> Evaluated<()> {
        if self.is_worker {
            free_text(text);
            return Ok(());
        }
        match &mut self.open_line {
            None => self.open_line = Some(text),
            Some(line) => {
                append_line(line, &text)?;
                free_text(text);
            }
        }
        Ok(())
    }

    /// Ends a line that was left open.
    pub(crate) fn close_line(&mut self) {
        if let Some(line) = self.open_line.take() {
            self.store_line(line);
        }
    }

    /// Prints a line after any text that was left open; output of parallel branches is discarded.
    pub fn print(&mut self, line: String) -> Evaluated<()> {
        let line = match self.open_line.take() {
            Some(mut open) => {
                append_line(&mut open, &line)?;
                free_text(line);
                open
            }
            None => line,
        };
        self.store_line(line);
        Ok(())
    }

    fn store_line(&mut self, line: String) {
        if self.is_worker {
            free_text(line);
        } else {
            let line = self.host().printed(line);
            let graphemes_max = self.limits().print_graphemes;
            let line = crate::print::line(line, graphemes_max);
            // When a limit was reached meanwhile, the graphemes were not counted to the end.
            if !clock::has_stopped() {
                self.prints.push(line);
            }
        }
    }

    /// The current value of the global `name`.
    pub fn global(&self, name: &str) -> Option<Value> {
        let id = self.shared.names.get(name);
        id.and_then(|id| {
            self.globals
                .get(id as usize)?
                .as_ref()
                .map(|definition| definition.value.clone())
        })
    }

    /// Replaces a var by its current value, as key lookups need it. A var without a value, or one that leads back to
    /// itself, stays.
    pub fn deref_var(&self, value: &mut Value) {
        for _ in 0..VARS_MAX {
            let Value::Var(name) = value else { return };
            match self.global(name) {
                Some(held) => *value = held,
                None => return,
            }
        }
    }

    // --- expressions

    fn eval(&mut self, ir: &Ir, frame: Frame<'_>) -> Evaluated {
        match ir {
            Ir::Const(value) => Ok(value.clone()),
            Ir::Local { slot, last } => {
                let slot = &mut self.stack[frame.base + *slot as usize];
                Ok(if *last {
                    std::mem::take(slot)
                } else {
                    slot.clone()
                })
            }
            Ir::Builtin2(call) => {
                let (builtin, a, b, span) = &**call;
                let mut args = [self.eval(a, frame)?, self.eval(b, frame)?];
                self.builtin(builtin, &mut args, *span)
            }
            Ir::Op(call) => self.operate(call, frame),
            Ir::Key(call) => {
                let (key, holder, span) = &**call;
                self.tick()?;
                if let Some(Value::Map(map)) = self.peek(holder, frame) {
                    return Ok(map.lookup(key).cloned().unwrap_or_default());
                }
                let holder = self.eval(holder, frame)?;
                match &holder {
                    Value::Map(map) => Ok(map.lookup(key).cloned().unwrap_or_default()),
                    _ => self.call1(key, holder).map_err(|stop| at(stop, *span)),
                }
            }
            Ir::Lazy(call) => {
                let (builtin, args, span) = &**call;
                let args = self.eval_all(args, frame)?;
                self.call_lazily(builtin, args, *span)
            }
            Ir::Builtin1(call) => {
                let (builtin, a, span) = &**call;
                let mut args = [self.eval(a, frame)?];
                self.builtin(builtin, &mut args, *span)
            }
            Ir::If(parts) => {
                let (test, then, otherwise) = &**parts;
                if self.eval(test, frame)?.is_truthy() {
                    self.eval(then, frame)
                } else {
                    self.eval(otherwise, frame)
                }
            }
            Ir::Call(call) => self.eval_call(call, frame),
            Ir::Global(global) => match self.globals.get(global.id as usize) {
                Some(Some(definition)) => Ok(definition.value.clone()),
                _ => self.undefined(global),
            },
            Ir::Capture(at) => Ok(frame
                .closure
                .map_or(Value::Nil, |closure| closure.captures[*at as usize].clone())),
            Ir::Itself => Ok(frame
                .closure
                .map_or(Value::Nil, |closure| Value::Fn(Arc::clone(closure)))),
            Ir::Builtin3(call) => {
                let (builtin, a, b, c, span) = &**call;
                let mut args = [
                    self.eval(a, frame)?,
                    self.eval(b, frame)?,
                    self.eval(c, frame)?,
                ];
                self.builtin(builtin, &mut args, *span)
            }
            Ir::BuiltinN(call) => {
                let (builtin, args, span) = &**call;
                let mut args = self.eval_all(args, frame)?;
                self.builtin(builtin, &mut args, *span)
            }
            Ir::Do(parts) => {
                let Some((last, first)) = parts.split_last() else {
                    return Ok(Value::Nil);
                };
                for part in first {
                    self.eval(part, frame)?;
                }
                self.eval(last, frame)
            }
            Ir::Let(parts) => {
                for (pattern, value) in &parts.0 {
                    let value = self.eval(value, frame)?;
                    self.bind(pattern, value, frame)?;
                }
                self.eval(&parts.1, frame)
            }
            _ => self.eval_rare(ir, frame),
        }
    }

    /// An operator: small numbers are read in place, anything else is evaluated first.
    #[inline(always)]
    fn operate(&mut self, call: &Operation, frame: Frame<'_>) -> Evaluated {
        let (op, _, a, b, _) = call;
        let known = match (self.peek(a, frame), self.peek(b, frame)) {
            (Some(a), Some(b)) => op.values(a, b),
            _ => None,
        };
        match known {
            Some(known) => {
                self.tick()?;
                Ok(known)
            }
            None => self.operate_on_values(call, frame),
        }
    }

    #[inline(never)]
    fn operate_on_values(&mut self, call: &Operation, frame: Frame<'_>) -> Evaluated {
        let (op, builtin, a, b, span) = call;
        let mut args = [self.eval(a, frame)?, self.eval(b, frame)?];
        match op.values(&args[0], &args[1]) {
            Some(known) => {
                self.tick()?;
                Ok(known)
            }
            None => self.builtin(builtin, &mut args, *span),
        }
    }

    /// The value of a simple expression, without copying it.
    #[inline]
    fn peek<'v>(&'v self, ir: &'v Ir, frame: Frame<'v>) -> Option<&'v Value> {
        match ir {
            Ir::Local { slot, .. } => self.stack.get(frame.base + *slot as usize),
            Ir::Const(value) => Some(value),
            Ir::Capture(at) => frame
                .closure
                .and_then(|closure| closure.captures.get(*at as usize)),
            _ => None,
        }
    }

    /// Separate, so that the frame of [`Eval::eval`] stays small.
    #[inline(never)]
    fn eval_rare(&mut self, ir: &Ir, frame: Frame<'_>) -> Evaluated {
        match ir {
            Ir::And(parts) => {
                let mut last = Value::Nil;
                for part in parts {
                    last = self.eval(part, frame)?;
                    if !last.is_truthy() {
                        break;
                    }
                }
                Ok(last)
            }
            Ir::Or(parts) => {
                let mut last = Value::Nil;
                for part in parts {
                    last = self.eval(part, frame)?;
                    if last.is_truthy() {
                        break;
                    }
                }
                Ok(last)
            }
            Ir::Cond(parts) => {
                for (test, result) in &parts.0 {
                    if self.eval(test, frame)?.is_truthy() {
                        return self.eval(result, frame);
                    }
                }
                self.eval(&parts.1, frame)
            }
            Ir::Case(case) => {
                let mut subject = self.eval(&case.subject, frame)?;
                self.realize(&mut subject)?;
                self.charge(case.constants.len())?;
                let branch = case
                    .constants
                    .iter()
                    .find(|(constant, _)| equal(constant, &subject));
                match branch {
                    Some((_, branch)) => self.eval(&case.branches[*branch], frame),
                    None => self.eval(&case.default, frame),
                }
            }
            Ir::IfLet(parts) => {
                let mut value = self.eval(&parts.value, frame)?;
                let counts = match parts.test {
                    BindingTest::Truthy => value.is_truthy(),
                    BindingTest::Some => !value.is_nil(),
                    BindingTest::First => match self
                        .stream(value.clone())
                        .and_then(|mut stream| stream.next(self))
                        .map_err(|stop| at(stop, parts.span))?
                    {
                        Some(first) => {
                            value = first;
                            true
                        }
                        None => false,
                    },
                };
                if !counts {
                    return self.eval(&parts.otherwise, frame);
                }
                self.stack[frame.base + parts.slot as usize] = value;
                self.eval(&parts.then, frame)
            }
            Ir::Some(chain) => {
                let mut value = self.eval(&chain.start, frame)?;
                for step in &chain.steps {
                    if value.is_nil() {
                        break;
                    }
                    self.stack[frame.base + chain.slot as usize] = value;
                    value = self.eval(step, frame)?;
                }
                Ok(value)
            }
            Ir::Chain(chain) => self.eval_chain(chain, frame),
            Ir::Arities(arities) => self.eval_arity(arities, frame),
            Ir::Loop(parts) => {
                for (pattern, value) in &parts.bindings {
                    let value = self.eval(value, frame)?;
                    self.bind(pattern, value, frame)?;
                }
                loop {
                    let value = self.eval(&parts.body, frame)?;
                    if self.recur.is_none() {
                        return Ok(value);
                    }
                    let values = self.recur.take().unwrap_or_default();
                    self.tick().map_err(|stop| at(stop, parts.span))?;
                    for ((pattern, _), value) in parts.bindings.iter().zip(values) {
                        self.bind(pattern, value, frame)?;
                    }
                }
            }
            Ir::Recur(args) => {
                self.recur = Some(self.eval_all(args, frame)?);
                Ok(Value::Nil)
            }
            Ir::Vector(parts) => {
                let mut items = Vec::with_capacity(parts.len());
                for part in parts {
                    let item = self.eval(part, frame)?;
                    items.push(self.realized(item)?);
                }
                Ok(Value::vector(items))
            }
            Ir::Map(parts) => {
                let mut entries = Vec::with_capacity(parts.len());
                for (key, value) in parts {
                    let key = self.eval(key, frame)?;
                    let key = self.realized(key)?;
                    self.walk(&key)?;
                    let value = self.eval(value, frame)?;
                    entries.push((key, self.realized(value)?));
                }
                Ok(Value::Map(Map::from(entries)))
            }
            Ir::Set(parts) => {
                let mut members = Vec::with_capacity(parts.len());
                for part in parts {
                    let member = self.eval(part, frame)?;
                    let member = self.realized(member)?;
                    self.walk(&member)?;
                    members.push(member);
                }
                Ok(Value::Set(members.into_iter().collect::<Set>()))
            }
            Ir::Fn(make) => {
                let mut captures = Vec::with_capacity(make.captures.len());
                for capture in &make.captures {
                    let captured = self.eval(capture, frame)?;
                    captures.push(self.realized(captured)?);
                }
                Ok(Value::Fn(Arc::new(Closure::new(
                    Arc::clone(&make.lambda),
                    captures,
                ))))
            }
            Ir::Data(data) => {
                let (key, span) = &**data;
                match self.shared.env.context.get(key) {
                    Some(value) => Ok(value.clone()),
                    None => Err(self.missing_data_error(key).at(*span).into()),
                }
            }
            Ir::Context => Ok(Value::Map(self.shared.env.context.clone())),
            Ir::History(at) => Ok(self.shared.env.history[*at as usize].clone()),
            Ir::Raise(error) => Err((**error).clone().into()),
            Ir::Budget => Ok(match self.host().budget() {
                Value::Nil => Value::Map(Map::new()),
                budget => budget,
            }),
            Ir::Def(def) => {
                let id = def.id as usize;
                if def.once && matches!(self.globals.get(id), Some(Some(_))) {
                    return Ok(Value::Var(def.name.clone()));
                }
                let value = self.eval(&def.value, frame)?;
                let value = self.realized(value)?;
                let globals = Arc::make_mut(&mut self.globals);
                if globals.len() <= id {
                    globals.resize(id + 1, None);
                }
                globals[id] = Some(Definition {
                    value,
                    doc: def.doc.clone(),
                    last_result: None,
                });
                if let Some(last_result) = self.last_results.get_mut(id) {
                    *last_result = None;
                }
                Ok(Value::Var(def.name.clone()))
            }
            Ir::For(parts) => {
                let mut results = Vec::new();
                self.eval_for(parts, 0, frame, &mut results)?;
                Ok(if parts.collect {
                    Value::vector(results)
                } else {
                    Value::Nil
                })
            }
            Ir::Task(parts) => {
                let id = self.eval(&parts.0, frame)?;
                let id = self.realized(id)?;
                let id = self.task_id(&id)?;
                let Some(journal) = &self.journal else {
                    return self.eval(&parts.1, frame);
                };
                if let Some(done) = journal.get(&id) {
                    return Ok(done.clone());
                }
                let value = self.eval(&parts.1, frame)?;
                let value = self.realized(value)?;
                if let Some(journal) = &mut self.journal {
                    journal.insert(id, value.clone());
                }
                Ok(value)
            }
            // The frequent expressions are in `eval`.
            _ => self.eval(ir, frame),
        }
    }

    /// Ids of tasks and steps are text, whatever values they are given as.
    pub(crate) fn task_id(&mut self, id: &Value) -> Evaluated {
        self.walk(id)?;
        Ok(match id {
            Value::Str(_) => id.clone(),
            _ => {
                let mut text = Sink::new(String::new(), usize::MAX, self.watch());
                match crate::print::write_text(&mut text, id) {
                    Err(SinkError::Limit(limit)) => return Err(limit.into()),
                    _ => Value::from(text.into_text()),
                }
            }
        })
    }

    /// The error for a key that the context lacks, with some of the keys that it has.
    #[cold]
    #[inline(never)]
    fn missing_data_error(&self, key: &Value) -> Kind {
        const NAMES_MAX: usize = 20;
        const NAME_BYTES_MAX: usize = 100;
        let names = self.shared.env.context.keys().filter_map(Value::key_text);
        let known = names.filter(|name| name.len() <= NAME_BYTES_MAX);
        Kind::Data {
            name: key.key_text().map(Text::to_string).unwrap_or_default(),
            known: known.take(NAMES_MAX).map(|name| name.to_string()).collect(),
        }
    }

    #[cold]
    #[inline(never)]
    fn undefined(&self, global: &crate::analyze::ir::Global) -> Evaluated {
        match global.fallback {
            Some(builtin) => Ok(builtin.value()),
            None if global.optional => Ok(Value::Nil),
            None => Err(Kind::Unbound(vec![(global.name.to_string(), None)])
                .at(global.span)
                .into()),
        }
    }

    fn eval_all(&mut self, parts: &[Ir], frame: Frame<'_>) -> Evaluated<SmallVec<[Value; 4]>> {
        let mut values = SmallVec::with_capacity(parts.len());
        for part in parts {
            values.push(self.eval(part, frame)?);
        }
        Ok(values)
    }

    /// Evaluates the clauses from `at` on, then the body. Returns false when a `:while` ended the innermost `Each`.
    fn eval_for(
        &mut self,
        parts: &For,
        at: usize,
        frame: Frame<'_>,
        results: &mut Vec<Value>,
    ) -> Evaluated<bool> {
        let Some(clause) = parts.clauses.get(at) else {
            let value = self.eval(&parts.body, frame)?;
            if parts.collect {
                results.push(self.realized(value)?);
            }
            return Ok(true);
        };
        match clause {
            Clause::Each(pattern, collection) => {
                let collection = self.eval(collection, frame)?;
                let place = |stop| crate::error::at(stop, parts.span);
                let mut items = self.stream(collection).map_err(place)?;
                let mut index = 0;
                while let Some(item) = items.next(self).map_err(place)? {
                    self.tick().map_err(place)?;
                    let here = |stop| at_item(place(stop), index);
                    self.bind(pattern, item, frame).map_err(here)?;
                    if !self.eval_for(parts, at + 1, frame, results).map_err(here)? {
                        break;
                    }
                    index += 1;
                }
                Ok(true)
            }
            Clause::When(test) => {
                if self.eval(test, frame)?.is_truthy() {
                    self.eval_for(parts, at + 1, frame, results)
                } else {
                    Ok(true)
                }
            }
            Clause::While(test) => {
                if self.eval(test, frame)?.is_truthy() {
                    self.eval_for(parts, at + 1, frame, results)
                } else {
                    Ok(false)
                }
            }
            Clause::Let(bindings) => {
                for (pattern, value) in bindings {
                    let value = self.eval(value, frame)?;
                    self.bind(pattern, value, frame)?;
                }
                self.eval_for(parts, at + 1, frame, results)
            }
        }
    }

    /// The items of anything seqable: a map gives entries, a string graphemes, nil nothing. Moved out when `value` is
    /// the only holder.
    pub fn items(&mut self, value: &Value) -> Evaluated<Vec<Value>> {
        Ok(match value {
            Value::Nil => Vec::new(),
            Value::Vector(items) => {
                self.reserve_values(items.len())?;
                self.charge(items.len())?;
                metered(items.iter()).cloned().collect()
            }
            Value::Map(entries) => {
                self.reserve(entries.len() * 96)?;
                self.charge(entries.len())?;
                let entry = |(key, value): (&Value, &Value)| {
                    clock::may_continue(ITEM_STEPS);
                    Value::vector(vec![key.clone(), value.clone()])
                };
                entries.iter().map(entry).collect()
            }
            Value::Set(members) => {
                self.reserve_values(members.len())?;
                self.charge(members.len())?;
                metered(members.iter()).cloned().collect()
            }
            Value::Str(text) => {
                self.reserve(text.len().saturating_mul(64))?;
                self.charge(text.len())?;
                let item = |grapheme| {
                    // Each item is a string of its own. When a limit was reached, nobody sees the result.
                    clock::may_continue(ITEM_STEPS);
                    Value::from(grapheme)
                };
                text.graphemes().map(item).collect()
            }
            _ if sequence::as_lazy(value).is_some() => {
                let mut value = value.clone();
                self.realize(&mut value)?;
                return self.take_items(value);
            }
            _ => return Err(crate::error::wrong_type("a collection", value)),
        })
    }

    /// The items of `value`, which is consumed.
    pub fn take_items(&mut self, value: Value) -> Evaluated<Vec<Value>> {
        match value {
            Value::Vector(items) => {
                self.change(items.copy_bytes())?;
                Ok(items.into_vec())
            }
            other => self.items(&other),
        }
    }

    /// Calls a builtin with evaluated arguments.
    #[inline]
    fn builtin(&mut self, builtin: &'static Builtin, args: &mut [Value], span: Span) -> Evaluated {
        match self.tick().and_then(|()| self.invoke(builtin, args)) {
            Ok(value) => Ok(value),
            Err(stop) => Err(at(stop, span)),
        }
    }

    /// Calls a builtin and adds its name to errors.
    #[inline]
    fn invoke(&mut self, builtin: &'static Builtin, args: &mut [Value]) -> Evaluated {
        let BuiltinValue::Function(run) = builtin.run else {
            return Err(not_callable(&builtin.value()));
        };
        if !builtin.arity.accepts(args.len()) {
            let (function, accepts) = (builtin.name.to_owned(), builtin.arity);
            return Err(Kind::Arity {
                function,
                accepts,
                given: args.len(),
            }
            .into());
        }
        let realizes = match builtin.realizes {
            Realizes::Every | Realizes::Ending => args.len(),
            Realizes::First(count) => count.min(args.len()),
            Realizes::Nothing => 0,
        };
        for arg in &mut args[..realizes] {
            if builtin.realizes == Realizes::Ending && sequence::is_endless(arg) {
                continue;
            }
            if let Err(stop) = self.realize(arg) {
                return Err(with_function(
                    stop,
                    builtin.name,
                    args,
                    &Fingerprints::of(args),
                ));
            }
        }
        let fingerprints = Fingerprints::of(args);
        match run(self, args) {
            Ok(value) => Ok(value),
            Err(stop) => Err(with_function(stop, builtin.name, args, &fingerprints)),
        }
    }
}

/// Appends `text` after reserving memory for it, in slices between which the clock is checked.
fn append_line(line: &mut String, text: &str) -> Evaluated<()> {
    let needed = line.len() + text.len();
    if needed > line.capacity() {
        // Reserves twice as much if possible, so that many short pieces are not copied over and over.
        let wanted = [needed.saturating_mul(2), needed]
            .into_iter()
            .find(|wanted| heap::reserve(wanted - line.capacity()))
            .ok_or(Limit::Memory)?;
        grow_text(line, wanted);
    }
    push_metered(line, text);
    Ok(())
}

/// The error for a value that cannot be called.
#[cold]
pub(crate) fn not_callable(value: &Value) -> Stop {
    Kind::NotCallable(Quote::value(value)).into()
}
