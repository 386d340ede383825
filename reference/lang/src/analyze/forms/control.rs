//! Order of evaluation, quoting, and the notes of tasks. Knows nothing of evaluation.

use super::{FormUse, invalid, usage};
use crate::analyze::ir::Ir;
use crate::analyze::{Analyzer, calls};
use crate::builtins;
use crate::error::Error;
use crate::form::{Form, FormKind};
use crate::value::Value;

pub(super) fn do_form(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, tail, .. } = form;
    a.body(args, tail)
}

pub(super) fn comment(_: &mut Analyzer<'_, '_>, _: FormUse<'_>) -> Result<Ir, Error> {
    Ok(Ir::Const(Value::Nil))
}

pub(super) fn and(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, tail, .. } = form;
    match args {
        [] => Ok(Ir::Const(Value::Bool(true))),
        [only] => a.analyze(only, tail),
        _ => Ok(Ir::And(alternatives(a, args, tail)?)),
    }
}

pub(super) fn or(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, tail, .. } = form;
    let last = args.len().saturating_sub(1);
    let mut parts = Vec::with_capacity(args.len());
    for (at, form) in args.iter().enumerate() {
        let known = a.unbound.len();
        let mut part = a.analyze(form, tail && at == last)?;
        // An unbound bare name counts as nil here: the idiom for a default across turns.
        if matches!(form.kind, FormKind::Symbol(_)) {
            a.unbound.truncate(known);
            if let Ir::Global(global) = &mut part {
                global.optional = true;
            }
        }
        parts.push(part);
    }
    match parts.len() {
        0 => Ok(Ir::Const(Value::Nil)),
        _ => Ok(Ir::Or(parts.into())),
    }
}

pub(super) fn alternatives(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    tail: bool,
) -> Result<Box<[Ir]>, Error> {
    let last = args.len().saturating_sub(1);
    args.iter()
        .enumerate()
        .map(|(at, form)| a.analyze(form, tail && at == last))
        .collect()
}

pub(super) fn quote(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    match args {
        [form] => match form.kind {
            FormKind::Symbol(_) | FormKind::List(_) => Ok(Ir::Const(a.quoted(form)?)),
            _ => Err(invalid(
                "quote takes a symbol or a list; anything else stands for itself",
                form.span,
            )),
        },
        _ => Err(usage("quote", span)),
    }
}

pub(super) fn var(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    match form.args {
        [
            Form {
                kind: FormKind::Symbol(name),
                span,
            },
        ] => Ok(a.var_quote(name, *span)),
        _ => Err(usage("var", form.span)),
    }
}

pub(super) fn task(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [id, expr] = args else {
        return Err(usage("task", span));
    };
    a.note_effect();
    Ok(Ir::Task(Box::new((a.expr(id)?, a.expr(expr)?))))
}

pub(super) fn step_done(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [_, _] = args else {
        return Err(usage("step-done", span));
    };
    a.note_effect();
    Ok(calls::builtin_call(
        &builtins::STEP_DONE,
        a.all(args)?,
        span,
    ))
}

pub(super) fn task_reset(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [_] = args else {
        return Err(usage("task-reset", span));
    };
    a.note_effect();
    Ok(calls::builtin_call(
        &builtins::TASK_RESET,
        a.all(args)?,
        span,
    ))
}
