//! Sequences whose length their consumer decides.

use super::deferred::repeatedly_later;
use super::parts::emptiness;
use super::{Result, builtin};
use crate::builtins::numbers::amount;
use crate::builtins::{Builtin, Home, Section, between, callable, exactly, row};
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::Value;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("iterate", "seqs.iterate", Section::Core, &[Home::Core], exactly(2), "(iterate f x)", "Returns x, (f x), (f (f x)) and so on, for as long as items are taken.", iterate),
    row("repeat", "seqs.repeat", Section::Core, &[Home::Core], between(1, 2), "(repeat n x), (repeat x)", "Returns a value n times, or for as long as items are taken.", repeat),
    row("repeatedly", "seqs.repeatedly", Section::Core, &[Home::Core], between(1, 2), "(repeatedly n f), (repeatedly f)", "Calls a function without arguments n times, or for as long as items are taken, and returns the results.", repeatedly).deferring(repeatedly_later),
    row("cycle", "seqs.cycle", Section::Core, &[Home::Core], exactly(1), "(cycle coll)", "Returns the items of a collection again and again, for as long as items are taken.", cycle).endless(),
];

fn iterate(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    callable(&args[0])?;
    Ok(endless_of(Combinator::Iterate, args))
}

fn repeat(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    counted(eval, Combinator::Repeat, args)
}

fn repeatedly(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Some(function) = args.last() {
        callable(function)?;
    }
    if let [count, function] = args {
        let count = amount(count)?;
        let mut results = Vec::new();
        for _ in 0..count {
            results.push(eval.call(function, &mut [])?);
        }
        return Ok(Value::vector(results));
    }
    Ok(endless_of(Combinator::Repeatedly, args))
}

fn cycle(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::endless(&args[0]) {
        return Ok(std::mem::take(&mut args[0]));
    }
    let items = Value::vector(eval.take_items(std::mem::take(&mut args[0]))?);
    Ok(match emptiness(&items)? {
        true => items,
        false => endless_of(Combinator::Cycle, &mut [items]),
    })
}

pub(super) fn endless_of(kind: Combinator, parts: &mut [Value]) -> Value {
    let parts = parts.iter_mut().map(std::mem::take).collect();
    sequence::sequence_of(crate::builtins::made_of(kind, parts))
}

/// As many items of a source as the first of two arguments says; an endless source with one argument.
pub(super) fn counted(eval: &mut Eval<'_>, kind: Combinator, args: &mut [Value]) -> Result {
    let [count, item] = args else {
        return Ok(endless_of(kind, args));
    };
    let wanted = amount(count)?;
    if wanted <= sequence::AT_ONCE_MAX {
        eval.charge(wanted)?;
        return Ok(Value::vector(vec![std::mem::take(item); wanted]));
    }
    let count = std::mem::take(count);
    let source = endless_of(kind, &mut args[1..]);
    eval.deferred(builtin("take"), &[count], &source)
}
