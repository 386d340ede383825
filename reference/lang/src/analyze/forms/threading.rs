//! Threading macros: `->` and the like. Knows nothing of evaluation.

use super::patterns::local_name;
use super::{Analyze, FormUse, invalid, usage};
use crate::analyze::Analyzer;
use crate::analyze::calls::budget_usage;
use crate::analyze::ir::{Call, Chain, Ir, Pattern, SomeChain};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};

/// Rewrites `step` with `value` as an additional argument.
fn threaded<'a>(value: Form<'a>, step: &Form<'a>, last: bool) -> Form<'a> {
    let unchained = unchained(step);
    let step = unchained.as_ref().unwrap_or(step);
    let span = step.span;
    let kind = match &step.kind {
        FormKind::List(items) if !items.is_empty() => {
            let (before, after) = items.split_at(if last { items.len() } else { 1 });
            let items = before.iter().cloned();
            let items = items.chain(std::iter::once(value));
            FormKind::List(items.chain(after.iter().cloned()).collect())
        }
        // An empty list has no callee: it becomes a call of nil with the value.
        FormKind::List(_) => {
            let nothing = Form {
                kind: FormKind::Nil,
                span: step.span,
            };
            FormKind::List([nothing, value].into())
        }
        _ => FormKind::List([step.clone(), value].into()),
    };
    Form { kind, span }
}

fn thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    form: FormUse<'_>,
    last: bool,
) -> Result<Ir, Error> {
    let [first, steps @ ..] = form.args else {
        return Err(usage(name, form.span));
    };
    // A long sequence of calls is kept flat. A special form may evaluate the value never, or repeatedly, so it has to
    // contain the steps before it.
    let parts = || {
        let chained = steps.len() > NESTED_STEPS_MAX;
        steps.chunk_by(move |a, b| chained && is_call(a) && is_call(b))
    };
    a.check_expansion(parts().count(), form.span)?;
    let mut nested = first.clone();
    for part in parts() {
        if !last {
            reject_function_step(&nested, &part[0])?;
        }
        nested = match part {
            [step] => threaded(nested, step, last),
            calls => chained(nested, calls, last),
        };
    }
    a.analyze(&nested, form.tail)
}

/// Refuses `(fn [x] …)` as a step of `->`: the value would take the place of the function's name, which must be a
/// symbol.
fn reject_function_step(value: &Form<'_>, step: &Form<'_>) -> Result<(), Error> {
    // A vector before the parameters would itself be read as the parameters.
    let is_fitting = matches!(value.kind, FormKind::Symbol(_) | FormKind::Vector(_));
    let FormKind::List(items) = &step.kind else {
        return Ok(());
    };
    match &**items {
        [head, params, ..]
            if !is_fitting
                && matches!(head.kind, FormKind::Symbol("fn"))
                && matches!(params.kind, FormKind::Vector(_)) =>
        {
            Err(invalid(
                "a step that is a function stands in brackets of its own: write ((fn [x] …)), not (fn [x] …)",
                step.span,
            ))
        }
        _ => Ok(()),
    }
}

/// The number of steps up to which a chain becomes nested calls, which are the fastest to evaluate.
const NESTED_STEPS_MAX: usize = 32;

/// Heads of the forms that hold a value and a chain of calls. No program can write them.
const CHAIN_FIRST: &str = "\0->";
const CHAIN_LAST: &str = "\0->>";

/// Whether `step` can only be a call, whatever names are bound around it.
fn is_call(step: &Form<'_>) -> bool {
    let head = match &step.kind {
        FormKind::List(items) => items.first(),
        _ => Some(step),
    };
    match head.map(|head| &head.kind) {
        Some(FormKind::Symbol(name)) => super::special(name).is_none(),
        Some(_) => true,
        None => false,
    }
}

fn chained<'a>(value: Form<'a>, calls: &[Form<'a>], last: bool) -> Form<'a> {
    let name = if last { CHAIN_LAST } else { CHAIN_FIRST };
    let span = value.span;
    let head = Form {
        kind: FormKind::Symbol(name),
        span,
    };
    let items = [head, value].into_iter().chain(calls.iter().cloned());
    Form {
        kind: FormKind::List(items.collect()),
        span,
    }
}

/// The parts of a form that [`chained`] made: the value, the calls in order, and whether the value is their last
/// argument.
pub(in crate::analyze) fn chain_parts<'f, 'a>(
    form: &'f Form<'a>,
) -> Option<(&'f Form<'a>, &'f [Form<'a>], bool)> {
    let FormKind::List(items) = &form.kind else {
        return None;
    };
    let [head, value, calls @ ..] = &**items else {
        return None;
    };
    match head.kind {
        FormKind::Symbol(CHAIN_FIRST) => Some((value, calls, false)),
        FormKind::Symbol(CHAIN_LAST) => Some((value, calls, true)),
        _ => None,
    }
}

/// The form that a form of [`chained`] is equivalent to: the last call, with the others inside.
fn unchained<'a>(form: &Form<'a>) -> Option<Form<'a>> {
    let (value, calls, last) = chain_parts(form)?;
    let (call, before) = calls.split_last()?;
    let value = match before {
        [] => value.clone(),
        before => chained(value.clone(), before, last),
    };
    Some(threaded(value, call, last))
}

/// The analysis of the forms that [`chained`] makes.
pub(super) fn chain(name: &str) -> Option<Analyze> {
    match name {
        CHAIN_FIRST => Some(|a, form| analyze_chain(a, form, false)),
        CHAIN_LAST => Some(|a, form| analyze_chain(a, form, true)),
        _ => None,
    }
}

fn analyze_chain(a: &mut Analyzer<'_, '_>, form: FormUse<'_>, last: bool) -> Result<Ir, Error> {
    let [value, calls @ ..] = form.args else {
        return Err(usage("->", form.span));
    };
    let start = a.expr(value)?;
    let mut steps = Vec::with_capacity(calls.len());
    let mut given = value.clone();
    for step in calls {
        let nothing = Form {
            kind: FormKind::Nil,
            span: value.span,
        };
        let whole = threaded(std::mem::replace(&mut given, nothing), step, last);
        if let FormKind::List(items) = &whole.kind
            && let Some((head, args)) = items.split_first()
        {
            a.reject_empty_list_target(head, args)?;
        }
        let (callee, args) = match &step.kind {
            FormKind::List(items) => items.split_first().unwrap_or((step, &[])),
            _ => (step, &[][..]),
        };
        let callee = a.expr(callee)?;
        a.note_call(&callee);
        if let Ir::Budget = callee {
            return Err(budget_usage(step.span));
        }
        let args = a.all(args)?;
        // Nothing is known here about the threaded value.
        let before = (!last).then_some(&Ir::Budget);
        let after = last.then_some(&Ir::Budget);
        a.note_arguments(&callee, &mut before.into_iter().chain(&args).chain(after));
        steps.push(Call {
            callee,
            args,
            span: step.span,
        });
    }
    Ok(Ir::Chain(Box::new(Chain {
        start,
        steps: steps.into_boxed_slice(),
        last,
    })))
}

pub(super) fn thread_first(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    thread(a, "->", form, false)
}

pub(super) fn thread_last(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    thread(a, "->>", form, true)
}

pub(super) fn as_thread(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [first, name, steps @ ..] = args else {
        return Err(usage("as->", span));
    };
    let FormKind::Symbol(symbol) = name.kind else {
        return Err(invalid("as-> name must be a symbol", name.span));
    };
    local_name(symbol, name.span)?;
    let [steps @ .., last] = steps else {
        return a.analyze(first, tail);
    };
    a.block(|a| {
        let value = a.expr(first)?;
        let slot = a.bind(symbol);
        let mut bindings = Vec::with_capacity(args.len());
        bindings.push((Pattern::Slot(slot), value));
        for step in steps {
            bindings.push((Pattern::Slot(slot), a.expr(step)?));
        }
        let body = a.analyze(last, tail)?;
        Ok(Ir::Let(Box::new((bindings.into_boxed_slice(), body))))
    })
}

/// The name of the value between steps. No program can write it.
const STEP: &str = "\u{0}step";

fn step_symbol<'a>(span: Span) -> Form<'a> {
    Form {
        kind: FormKind::Symbol(STEP),
        span,
    }
}

fn some_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    form: FormUse<'_>,
    last: bool,
) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [first, steps @ ..] = args else {
        return Err(usage(name, span));
    };
    let start = a.expr(first)?;
    a.block(|a| {
        let slot = a.bind(STEP);
        let mut chain = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let tail = tail && at + 1 == steps.len();
            chain.push(a.analyze(&threaded(step_symbol(step.span), step, last), tail)?);
        }
        Ok(Ir::Some(Box::new(SomeChain {
            slot,
            start,
            steps: chain.into_boxed_slice(),
        })))
    })
}

pub(super) fn some_thread_first(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    some_thread(a, "some->", form, false)
}

pub(super) fn some_thread_last(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    some_thread(a, "some->>", form, true)
}

fn cond_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    form: FormUse<'_>,
    last: bool,
) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [first, clauses @ ..] = args else {
        return Err(usage(name, span));
    };
    let (pairs, odd) = clauses.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(invalid(
            format!("{name} requires even number of test/form pairs after expression"),
            span,
        ));
    }
    let start = a.expr(first)?;
    a.block(|a| {
        let slot = a.bind(STEP);
        let mut bindings = Vec::with_capacity(pairs.len() + 1);
        let mut value = start;
        for (at, [test, step]) in pairs.iter().enumerate() {
            bindings.push((Pattern::Slot(slot), value));
            let test = a.expr(test)?;
            let tail = tail && at + 1 == pairs.len();
            let then = a.analyze(&threaded(step_symbol(step.span), step, last), tail)?;
            value = Ir::If(Box::new((test, then, Ir::Local { slot, last: false })));
        }
        Ok(Ir::Let(Box::new((bindings.into_boxed_slice(), value))))
    })
}

pub(super) fn cond_thread_first(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    cond_thread(a, "cond->", form, false)
}

pub(super) fn cond_thread_last(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    cond_thread(a, "cond->>", form, true)
}
