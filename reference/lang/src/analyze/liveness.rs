//! Marks the last read of each local, so that the evaluator may move the value and change collections in place. Knows
//! nothing of names.
//!
//! The walk goes backwards through the order of evaluation and carries the set of slots that are read later. Bodies
//! that run repeatedly keep alive everything that they read from outside.

use smallvec::SmallVec;

use super::ir::{Clause, Ir, Lambda, Pattern};

/// The set of slots that are read later, one bit each.
#[derive(Clone, Default)]
struct LiveSlots(SmallVec<[u64; 2]>);

impl LiveSlots {
    fn contains(&self, slot: u32) -> bool {
        let (word, bit) = place(slot);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn insert(&mut self, slot: u32) {
        let (word, bit) = place(slot);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    fn remove(&mut self, slot: u32) {
        let (word, bit) = place(slot);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= !bit;
        }
    }

    fn union(&mut self, other: &LiveSlots) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    /// Removes `floor` and all higher slots.
    fn keep_below(&mut self, floor: u32) {
        let (word, bit) = place(floor);
        self.0.truncate(word + 1);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= bit - 1;
        }
    }
}

/// The index of the word for a slot, and the slot's bit in it.
fn place(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

/// Marks the body and the parameter defaults of a function.
pub fn mark_lambda(lambda: &mut Lambda) {
    on_stack(lambda.levels, || {
        let mut live = LiveSlots::default();
        mark(&mut lambda.body, &mut live);
        if let Some(rest) = &mut lambda.rest {
            mark_pattern(rest, &mut live);
        }
        for param in lambda.params.iter_mut().rev() {
            mark_pattern(param, &mut live);
        }
    });
}

/// Marks a top-level expression of at most `levels` levels.
pub fn mark_top(ir: &mut Ir, levels: u32) {
    on_stack(levels, || mark(ir, &mut LiveSlots::default()));
}

/// Runs `walk` with native stack for `levels` levels of nesting.
fn on_stack(levels: u32, walk: impl FnOnce()) {
    const LEVEL_BYTES: usize = if cfg!(debug_assertions) { 4096 } else { 1024 };
    let need = (levels as usize + 16) * LEVEL_BYTES;
    stacker::maybe_grow(need, need, walk);
}

fn mark(ir: &mut Ir, live: &mut LiveSlots) {
    match ir {
        Ir::Local { slot, last } => {
            *last = !live.contains(*slot);
            live.insert(*slot);
        }
        Ir::Const(_)
        | Ir::Capture(_)
        | Ir::Itself
        | Ir::Global(_)
        | Ir::Data(_)
        | Ir::Context
        | Ir::History(_)
        | Ir::Budget
        | Ir::Raise(_) => {}
        Ir::If(parts) => {
            let mut other = live.clone();
            mark(&mut parts.1, live);
            mark(&mut parts.2, &mut other);
            live.union(&other);
            mark(&mut parts.0, live);
        }
        Ir::Cond(parts) => {
            let after = live.clone();
            mark(&mut parts.1, live);
            for (test, expr) in parts.0.iter_mut().rev() {
                let mut taken = after.clone();
                mark(expr, &mut taken);
                live.union(&taken);
                mark(test, live);
            }
        }
        Ir::Case(case) => {
            let after = live.clone();
            mark(&mut case.default, live);
            for branch in &mut case.branches {
                let mut taken = after.clone();
                mark(branch, &mut taken);
                live.union(&taken);
            }
            mark(&mut case.subject, live);
        }
        Ir::And(parts) | Ir::Or(parts) => {
            let after = live.clone();
            for part in parts.iter_mut().rev() {
                live.union(&after);
                mark(part, live);
            }
        }
        Ir::Do(parts) | Ir::Vector(parts) | Ir::Set(parts) | Ir::Recur(parts) => {
            mark_all(parts, live)
        }
        Ir::Map(entries) => {
            for (key, value) in entries.iter_mut().rev() {
                mark(value, live);
                mark(key, live);
            }
        }
        Ir::Let(parts) => {
            mark(&mut parts.1, live);
            mark_bindings(&mut parts.0, live);
        }
        Ir::IfLet(parts) => {
            let mut other = live.clone();
            mark(&mut parts.then, live);
            live.remove(parts.slot);
            mark(&mut parts.otherwise, &mut other);
            live.union(&other);
            mark(&mut parts.value, live);
        }
        Ir::Some(chain) => {
            // A nil ends the chain early, so every slot that is live after the chain is live between steps too.
            let after = live.clone();
            for step in chain.steps.iter_mut().rev() {
                live.union(&after);
                live.remove(chain.slot);
                mark(step, live);
                live.insert(chain.slot);
            }
            live.remove(chain.slot);
            mark(&mut chain.start, live);
        }
        Ir::Chain(chain) => {
            // Callees, and arguments before the value, are evaluated before it, outermost first.
            if !chain.last {
                for step in chain.steps.iter_mut().rev() {
                    mark_all(&mut step.args, live);
                }
            }
            mark(&mut chain.start, live);
            for step in &mut chain.steps {
                if chain.last {
                    mark_all(&mut step.args, live);
                }
                mark(&mut step.callee, live);
            }
        }
        Ir::Loop(parts) => {
            // Every iteration evaluates the body and the defaults of the patterns again.
            let mut outer = LiveSlots::default();
            collect_reads(&parts.body, &mut outer);
            for (pattern, _) in &parts.bindings {
                collect_pattern_reads(pattern, &mut outer);
            }
            outer.keep_below(parts.floor);
            live.union(&outer);
            mark(&mut parts.body, live);
            live.union(&outer);
            mark_bindings(&mut parts.bindings, live);
        }
        Ir::Fn(make) => mark_all(&mut make.captures, live),
        Ir::Builtin1(call) => mark(&mut call.1, live),
        Ir::Builtin2(call) => {
            mark(&mut call.2, live);
            mark(&mut call.1, live);
        }
        Ir::Op(call) => {
            mark(&mut call.3, live);
            mark(&mut call.2, live);
        }
        Ir::Key(call) => mark(&mut call.1, live),
        Ir::Builtin3(call) => {
            mark(&mut call.3, live);
            mark(&mut call.2, live);
            mark(&mut call.1, live);
        }
        Ir::BuiltinN(call) | Ir::Lazy(call) => mark_all(&mut call.1, live),
        Ir::Arities(arities) => {
            for arity in &mut arities.arities {
                mark(&mut arity.function, live);
            }
            mark(&mut arities.given, live);
        }
        Ir::Call(call) => {
            mark_all(&mut call.args, live);
            mark(&mut call.callee, live);
        }
        Ir::Def(def) => mark(&mut def.value, live),
        Ir::Task(parts) => {
            mark(&mut parts.1, live);
            mark(&mut parts.0, live);
        }
        Ir::For(parts) => {
            // Everything but the first collection may be evaluated again.
            let mut outer = LiveSlots::default();
            collect_reads(&parts.body, &mut outer);
            for (at, clause) in parts.clauses.iter().enumerate() {
                match clause {
                    Clause::Each(pattern, _) if at == 0 => {
                        collect_pattern_reads(pattern, &mut outer)
                    }
                    _ => collect_clause_reads(clause, &mut outer),
                }
            }
            outer.keep_below(parts.floor);
            live.union(&outer);
            mark(&mut parts.body, live);
            for (at, clause) in parts.clauses.iter_mut().enumerate().rev() {
                live.union(&outer);
                match clause {
                    Clause::Each(pattern, collection) => {
                        mark_pattern(pattern, live);
                        if at > 0 {
                            live.union(&outer);
                        }
                        mark(collection, live);
                    }
                    Clause::When(test) | Clause::While(test) => mark(test, live),
                    Clause::Let(bindings) => mark_bindings(bindings, live),
                }
            }
        }
    }
}

fn mark_all(parts: &mut [Ir], live: &mut LiveSlots) {
    for part in parts.iter_mut().rev() {
        mark(part, live);
    }
}

fn mark_bindings(bindings: &mut [(Pattern, Ir)], live: &mut LiveSlots) {
    for (pattern, value) in bindings.iter_mut().rev() {
        mark_pattern(pattern, live);
        mark(value, live);
    }
}

fn mark_pattern(pattern: &mut Pattern, live: &mut LiveSlots) {
    match pattern {
        Pattern::Slot(slot) => live.remove(*slot),
        Pattern::Sequence(parts) => {
            if let Some(rest) = &mut parts.rest {
                mark_pattern(rest, live);
            }
            for item in parts.items.iter_mut().rev() {
                mark_pattern(item, live);
            }
            if let Some(all) = parts.all {
                live.remove(all);
            }
        }
        Pattern::Map(parts) => {
            for entry in parts.entries.iter_mut().rev() {
                mark_pattern(&mut entry.pattern, live);
                if let Some(default) = &mut entry.default {
                    mark(default, live);
                }
            }
            if let Some(all) = parts.all {
                live.remove(all);
            }
        }
    }
}

/// Adds every slot that `ir` reads anywhere, including its own bindings.
fn collect_reads(ir: &Ir, found: &mut LiveSlots) {
    let mut all = |parts: &[Ir]| parts.iter().for_each(|part| collect_reads(part, found));
    match ir {
        Ir::Local { slot, .. } => found.insert(*slot),
        Ir::Const(_)
        | Ir::Capture(_)
        | Ir::Itself
        | Ir::Global(_)
        | Ir::Data(_)
        | Ir::Context
        | Ir::History(_)
        | Ir::Budget
        | Ir::Raise(_) => {}
        Ir::If(parts) => {
            collect_reads(&parts.0, found);
            collect_reads(&parts.1, found);
            collect_reads(&parts.2, found);
        }
        Ir::Cond(parts) => {
            for (test, expr) in &parts.0 {
                collect_reads(test, found);
                collect_reads(expr, found);
            }
            collect_reads(&parts.1, found);
        }
        Ir::Case(case) => {
            all(&case.branches);
            collect_reads(&case.subject, found);
            collect_reads(&case.default, found);
        }
        Ir::Do(parts)
        | Ir::And(parts)
        | Ir::Or(parts)
        | Ir::Vector(parts)
        | Ir::Set(parts)
        | Ir::Recur(parts) => {
            all(parts);
        }
        Ir::Map(entries) => {
            for (key, value) in entries {
                collect_reads(key, found);
                collect_reads(value, found);
            }
        }
        Ir::Let(parts) => {
            collect_binding_reads(&parts.0, found);
            collect_reads(&parts.1, found);
        }
        Ir::IfLet(parts) => {
            collect_reads(&parts.value, found);
            collect_reads(&parts.then, found);
            collect_reads(&parts.otherwise, found);
        }
        Ir::Some(chain) => {
            all(&chain.steps);
            collect_reads(&chain.start, found);
        }
        Ir::Chain(chain) => {
            collect_reads(&chain.start, found);
            for step in &chain.steps {
                collect_reads(&step.callee, found);
                step.args.iter().for_each(|arg| collect_reads(arg, found));
            }
        }
        Ir::Loop(parts) => {
            collect_binding_reads(&parts.bindings, found);
            collect_reads(&parts.body, found);
        }
        Ir::Fn(make) => all(&make.captures),
        Ir::Builtin1(call) => collect_reads(&call.1, found),
        Ir::Builtin2(call) => {
            collect_reads(&call.1, found);
            collect_reads(&call.2, found);
        }
        Ir::Op(call) => {
            collect_reads(&call.2, found);
            collect_reads(&call.3, found);
        }
        Ir::Key(call) => collect_reads(&call.1, found),
        Ir::Builtin3(call) => {
            collect_reads(&call.1, found);
            collect_reads(&call.2, found);
            collect_reads(&call.3, found);
        }
        Ir::BuiltinN(call) | Ir::Lazy(call) => all(&call.1),
        Ir::Arities(arities) => {
            for arity in &arities.arities {
                collect_reads(&arity.function, found);
            }
            collect_reads(&arities.given, found);
        }
        Ir::Call(call) => {
            all(&call.args);
            collect_reads(&call.callee, found);
        }
        Ir::Def(def) => collect_reads(&def.value, found),
        Ir::Task(parts) => {
            collect_reads(&parts.0, found);
            collect_reads(&parts.1, found);
        }
        Ir::For(parts) => {
            parts
                .clauses
                .iter()
                .for_each(|clause| collect_clause_reads(clause, found));
            collect_reads(&parts.body, found);
        }
    }
}

fn collect_binding_reads(bindings: &[(Pattern, Ir)], found: &mut LiveSlots) {
    for (pattern, value) in bindings {
        collect_pattern_reads(pattern, found);
        collect_reads(value, found);
    }
}

fn collect_clause_reads(clause: &Clause, found: &mut LiveSlots) {
    match clause {
        Clause::Each(pattern, value) => {
            collect_pattern_reads(pattern, found);
            collect_reads(value, found);
        }
        Clause::When(test) | Clause::While(test) => collect_reads(test, found),
        Clause::Let(bindings) => collect_binding_reads(bindings, found),
    }
}

fn collect_pattern_reads(pattern: &Pattern, found: &mut LiveSlots) {
    match pattern {
        Pattern::Slot(_) => {}
        Pattern::Sequence(parts) => {
            parts
                .items
                .iter()
                .chain(&parts.rest)
                .for_each(|item| collect_pattern_reads(item, found));
        }
        Pattern::Map(parts) => {
            for entry in &parts.entries {
                collect_pattern_reads(&entry.pattern, found);
                if let Some(default) = &entry.default {
                    collect_reads(default, found);
                }
            }
        }
    }
}
