//! Iteration: `for` and `doseq`. Knows nothing of evaluation.

use super::{FormUse, invalid, usage};
use crate::analyze::ir::{Clause, For, Ir, Pattern};
use crate::analyze::{Analyzer, calls};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};

pub(super) fn for_form(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    iterate(a, "for", args, span, true)
}

pub(super) fn doseq(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    iterate(a, "doseq", args, span, false)
}

/// `(dotimes [i n] body …)`: a `doseq` over the numbers below `n`.
pub(super) fn dotimes(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [bindings, body @ ..] = args else {
        return Err(usage("dotimes", span));
    };
    let FormKind::Vector(items) = &bindings.kind else {
        return Err(usage("dotimes", span));
    };
    let [name, count] = &**items else {
        return Err(usage("dotimes", span));
    };
    let FormKind::Symbol(symbol) = name.kind else {
        return Err(invalid("dotimes binds one symbol", name.span));
    };
    super::patterns::local_name(symbol, name.span)?;
    a.block(|a| {
        let floor = a.scope().next_slot();
        let count = a.expr(count)?;
        let count = Box::new([count]);
        let whole = calls::builtin_call(&crate::builtins::DOTIMES, count, span);
        let range = crate::builtins::lookup("range").expect("a row of the table");
        let numbers = calls::builtin_call(range, Box::new([whole]), span);
        let slot = a.bind(symbol);
        let recur = a.scope().recur.take();
        let body = a.with_levels(1, |a| a.body(body, false));
        a.scope().recur = recur;
        let clauses = Box::new([Clause::Each(Pattern::Slot(slot), numbers)]);
        Ok(Ir::For(Box::new(For {
            clauses,
            body: body?,
            collect: false,
            floor,
            span,
        })))
    })
}

pub(super) fn iterate(
    a: &mut Analyzer<'_, '_>,
    form: &'static str,
    args: &[Form<'_>],
    span: Span,
    collect: bool,
) -> Result<Ir, Error> {
    let [bindings, body @ ..] = args else {
        return Err(usage(form, span));
    };
    // `doseq` may have an empty body.
    if collect && body.is_empty() {
        return Err(usage(form, span));
    }
    let FormKind::Vector(items) = &bindings.kind else {
        return Err(usage(form, span));
    };
    if items.is_empty() {
        return Err(invalid(
            format!("{form} requires at least one binding pair"),
            bindings.span,
        ));
    }
    if !items.len().is_multiple_of(2) {
        return Err(invalid(
            format!("{form} bindings require even number of forms"),
            bindings.span,
        ));
    }
    // Each clause runs inside the one before it.
    let inside = items.len() / 2;
    a.check_expansion(inside, span)?;
    a.block(|a| {
        let start = a.scope().next_slot();
        let mut clauses = Vec::with_capacity(items.len() / 2);
        for (at, pair) in items.chunks_exact(2).enumerate() {
            let FormKind::Keyword(modifier) = pair[0].kind else {
                let mut collection = a.expr(&pair[1])?;
                calls::make_lazy(&mut collection);
                clauses.push(Clause::Each(a.pattern(&pair[0])?, collection));
                continue;
            };
            if at == 0 {
                return Err(invalid(
                    format!("{form}: expected a binding first, got :{modifier}; modifiers follow a binding pair"),
                    pair[0].span,
                ));
            }
            clauses.push(match modifier {
                "when" => Clause::When(a.expr(&pair[1])?),
                "while" => Clause::While(a.expr(&pair[1])?),
                "let" => {
                    let FormKind::Vector(bindings) = &pair[1].kind else {
                        return Err(invalid(":let takes a vector of bindings", pair[1].span));
                    };
                    Clause::Let(a.binding_pairs(":let", bindings, pair[1].span)?)
                }
                _ => {
                    return Err(invalid(
                        format!("unknown modifier :{modifier} in {form}. Known: :when, :let, :while"),
                        pair[0].span,
                    ));
                }
            });
        }
        // With one collection every item is bound anew before it is read again; with several, the names of the outer
        // ones are read once per inner item.
        let nested = clauses.iter().filter(|clause| matches!(clause, Clause::Each(..))).count() > 1;
        let floor = if nested { a.scope().next_slot() } else { start };
        // A body is not in tail position: recur cannot leave an iteration.
        let recur = a.scope().recur.take();
        let body = a.with_levels(inside as u32, |a| a.body(body, false));
        a.scope().recur = recur;
        Ok(Ir::For(Box::new(For { clauses: clauses.into_boxed_slice(), body: body?, collect, floor, span })))
    })
}
