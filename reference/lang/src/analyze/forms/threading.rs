//! Threading macros: `->` and its kin. Knows nothing of evaluation.

use super::patterns::local_name;
use super::{Use, invalid, usage};
use crate::analyze::Analyzer;
use crate::analyze::ir::{Ir, Pattern, SomeChain};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};

/// Rewrites `step` so that `value` is an argument of it.
pub(super) fn threaded<'a>(value: Form<'a>, step: &Form<'a>, last: bool) -> Form<'a> {
    let span = step.span;
    let kind = match &step.kind {
        FormKind::List(items) if !items.is_empty() => {
            let (before, behind) = items.split_at(if last { items.len() } else { 1 });
            let items = before.iter().cloned();
            let items = items.chain(std::iter::once(value));
            FormKind::List(items.chain(behind.iter().cloned()).collect())
        }
        FormKind::List(_) => FormKind::List([].into()),
        _ => FormKind::List([step.clone(), value].into()),
    };
    Form { kind, span }
}

pub(super) fn thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
    last: bool,
) -> Result<Ir, Error> {
    let [first, steps @ ..] = args else {
        return Err(usage(name, span));
    };
    a.check_expansion(steps.len(), span)?;
    let mut nested = first.clone();
    for step in steps {
        nested = threaded(nested, step, last);
    }
    a.analyze(&nested, tail)
}

pub(super) fn thread_first(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, tail } = form;
    thread(a, "->", args, span, tail, false)
}

pub(super) fn thread_last(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, tail } = form;
    thread(a, "->>", args, span, tail, true)
}

pub(super) fn as_thread(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, tail } = form;
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

/// The name of the value between steps: no program can write it.
const STEP: &str = "\u{0}step";

pub(super) fn step_symbol<'a>(span: Span) -> Form<'a> {
    Form {
        kind: FormKind::Symbol(STEP),
        span,
    }
}

pub(super) fn some_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    last: bool,
) -> Result<Ir, Error> {
    let [first, steps @ ..] = args else {
        return Err(usage(name, span));
    };
    let start = a.expr(first)?;
    a.block(|a| {
        let slot = a.bind(STEP);
        let mut chain = Vec::with_capacity(steps.len());
        for step in steps {
            chain.push(a.expr(&threaded(step_symbol(step.span), step, last))?);
        }
        Ok(Ir::Some(Box::new(SomeChain {
            slot,
            start,
            steps: chain.into_boxed_slice(),
        })))
    })
}

pub(super) fn some_thread_first(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, .. } = form;
    some_thread(a, "some->", args, span, false)
}

pub(super) fn some_thread_last(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, .. } = form;
    some_thread(a, "some->>", args, span, true)
}

pub(super) fn cond_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    last: bool,
) -> Result<Ir, Error> {
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
        for [test, step] in pairs {
            bindings.push((Pattern::Slot(slot), value));
            let test = a.expr(test)?;
            let then = a.expr(&threaded(step_symbol(step.span), step, last))?;
            value = Ir::If(Box::new((test, then, Ir::Local { slot, last: false })));
        }
        Ok(Ir::Let(Box::new((bindings.into_boxed_slice(), value))))
    })
}

pub(super) fn cond_thread_first(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, .. } = form;
    cond_thread(a, "cond->", args, span, false)
}

pub(super) fn cond_thread_last(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, .. } = form;
    cond_thread(a, "cond->>", args, span, true)
}
