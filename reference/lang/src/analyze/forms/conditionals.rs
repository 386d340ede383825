//! Conditionals: `if`, `when`, `cond`, `case` and their variants. Knows nothing of evaluation.

use std::collections::BTreeSet;

use super::patterns::local_name;
use super::{FormUse, invalid, usage};
use crate::analyze::ir::{BindingTest, Case, IfLet, Ir, Pattern};
use crate::analyze::{Analyzer, calls};
use crate::error::Error;
use crate::form::{Form, FormKind};
use crate::value::Value;

pub(super) fn if_form(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    match args {
        [test, then] => branch(a, test, Some(then), None, tail),
        [test, then, otherwise] => branch(a, test, Some(then), Some(otherwise), tail),
        _ => Err(usage("if", span)),
    }
}

pub(super) fn if_not(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    match args {
        [test, then] => branch(a, test, None, Some(then), tail),
        [test, then, otherwise] => branch(a, test, Some(otherwise), Some(then), tail),
        _ => Err(usage("if-not", span)),
    }
}

pub(super) fn branch(
    a: &mut Analyzer<'_, '_>,
    test: &Form<'_>,
    then: Option<&Form<'_>>,
    otherwise: Option<&Form<'_>>,
    tail: bool,
) -> Result<Ir, Error> {
    let test = a.expr(test)?;
    let mut part = |form: Option<&Form<'_>>| {
        form.map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))
    };
    let then = part(then)?;
    let otherwise = part(otherwise)?;
    Ok(Ir::If(Box::new((test, then, otherwise))))
}

pub(super) fn when(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let (test, body) = test_and_body(a, "when", form)?;
    Ok(Ir::If(Box::new((test, body, Ir::Const(Value::Nil)))))
}

pub(super) fn when_not(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let (test, body) = test_and_body(a, "when-not", form)?;
    Ok(Ir::If(Box::new((test, Ir::Const(Value::Nil), body))))
}

fn test_and_body(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    form: FormUse<'_>,
) -> Result<(Ir, Ir), Error> {
    let FormUse { args, span, tail } = form;
    let [test, body @ ..] = args else {
        return Err(usage(name, span));
    };
    Ok((a.expr(test)?, a.body(body, tail)?))
}

pub(super) fn if_let(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    if_bound(a, "if-let", BindingTest::Truthy, form)
}

pub(super) fn if_some(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    if_bound(a, "if-some", BindingTest::Some, form)
}

pub(super) fn when_let(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    when_bound(a, "when-let", BindingTest::Truthy, form)
}

pub(super) fn when_some(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    when_bound(a, "when-some", BindingTest::Some, form)
}

pub(super) fn when_first(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    when_bound(a, "when-first", BindingTest::First, form)
}

fn if_bound(
    a: &mut Analyzer<'_, '_>,
    name: &'static str,
    test: BindingTest,
    form: FormUse<'_>,
) -> Result<Ir, Error> {
    let (binding, then, otherwise) = match form.args {
        [binding, then] => (binding, then, None),
        [binding, then, otherwise] => (binding, then, Some(otherwise)),
        _ => return Err(usage(name, form.span)),
    };
    let then = std::slice::from_ref(then);
    binding_branch(a, name, test, form, binding, then, otherwise)
}

fn when_bound(
    a: &mut Analyzer<'_, '_>,
    name: &'static str,
    test: BindingTest,
    form: FormUse<'_>,
) -> Result<Ir, Error> {
    let [binding, body @ ..] = form.args else {
        return Err(usage(name, form.span));
    };
    binding_branch(a, name, test, form, binding, body, None)
}

fn binding_branch(
    a: &mut Analyzer<'_, '_>,
    form: &'static str,
    test: BindingTest,
    FormUse { span, tail, .. }: FormUse<'_>,
    binding: &Form<'_>,
    then: &[Form<'_>],
    otherwise: Option<&Form<'_>>,
) -> Result<Ir, Error> {
    let FormKind::Vector(pair) = &binding.kind else {
        return Err(usage(form, span));
    };
    let [name, value] = &**pair else {
        return Err(usage(form, span));
    };
    let mut value = a.expr(value)?;
    if test == BindingTest::First {
        calls::make_lazy(&mut value);
    }
    let (slot, then) = a.block(|a| {
        if let FormKind::Symbol(symbol) = name.kind {
            local_name(symbol, name.span)?;
            let slot = a.bind(symbol);
            return Ok((slot, a.body(then, tail)?));
        }
        // The whole value is tested; its parts are bound only if the test passes.
        let slot = a.scope().slot();
        let pattern = a.pattern(name)?;
        let bindings = Box::new([(pattern, Ir::Local { slot, last: false })]);
        let then = a.body(then, tail)?;
        Ok((slot, Ir::Let(Box::new((bindings, then)))))
    })?;
    let otherwise = otherwise.map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
    Ok(Ir::IfLet(Box::new(IfLet {
        slot,
        value,
        test,
        then,
        otherwise,
        span,
    })))
}

pub(super) fn cond(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    if !args.len().is_multiple_of(2) {
        return Err(invalid(
            "cond requires even number of forms: a test and a result in turn",
            span,
        ));
    }
    let mut clauses = Vec::with_capacity(args.len() / 2);
    for pair in args.chunks_exact(2) {
        clauses.push((a.expr(&pair[0])?, a.analyze(&pair[1], tail)?));
    }
    Ok(Ir::Cond(Box::new((
        clauses.into_boxed_slice(),
        Ir::Const(Value::Nil),
    ))))
}

pub(super) fn condp(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [pred, subject, clauses @ ..] = args else {
        return Err(usage("condp", span));
    };
    if clauses.is_empty() {
        return Err(usage("condp", span));
    }
    let pred = a.expr(pred)?;
    a.note_call(&pred);
    a.block(|a| {
        let pred_slot = a.scope().slot();
        // The predicate is already in its slot; slots bound by the subject come after it.
        let subject = a.expr(subject)?;
        let subject_slot = a.scope().slot();
        let mut tests = Vec::with_capacity(clauses.len() / 2);
        let mut clauses = clauses;
        while let [test, result, rest @ ..] = clauses {
            clauses = rest;
            let callee = Ir::Local {
                slot: pred_slot,
                last: false,
            };
            let test = a.expr(test)?;
            a.note_arguments(&pred, &mut [&test, &subject].into_iter());
            let subject = Ir::Local {
                slot: subject_slot,
                last: false,
            };
            let call = crate::analyze::ir::Call {
                callee,
                args: Box::new([test, subject]),
                span,
            };
            let call = Ir::Call(Box::new(call));
            if let FormKind::Keyword(">>") = result.kind {
                let [function, rest @ ..] = clauses else {
                    return Err(invalid(
                        "condp :>> is followed by a function of what the test gave",
                        result.span,
                    ));
                };
                clauses = rest;
                tests.push(test_and_call(a, call, function)?);
                continue;
            }
            tests.push((call, a.analyze(result, tail)?));
        }
        let default = clauses
            .first()
            .map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
        let bindings = Box::new([
            (Pattern::Slot(pred_slot), pred),
            (Pattern::Slot(subject_slot), subject),
        ]);
        let body = Ir::Cond(Box::new((tests.into_boxed_slice(), default)));
        Ok(Ir::Let(Box::new((bindings, body))))
    })
}

/// A test, and the call of `function` with the value of the test.
fn test_and_call(
    a: &mut Analyzer<'_, '_>,
    value: Ir,
    function: &Form<'_>,
) -> Result<(Ir, Ir), Error> {
    let span = function.span;
    let slot = a.scope().slot();
    // The test yields true if the value is truthy; the value itself stays in its slot.
    let test = Ir::IfLet(Box::new(IfLet {
        slot,
        value,
        test: BindingTest::Truthy,
        then: Ir::Const(Value::Bool(true)),
        otherwise: Ir::Const(Value::Nil),
        span,
    }));
    let callee = a.expr(function)?;
    a.note_call(&callee);
    let found = Ir::Local { slot, last: false };
    a.note_arguments(&callee, &mut [&found].into_iter());
    let call = crate::analyze::ir::Call {
        callee,
        args: Box::new([found]),
        span,
    };
    Ok((test, Ir::Call(Box::new(call))))
}

pub(super) fn case(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [subject, clauses @ ..] = args else {
        return Err(usage("case", span));
    };
    let subject = a.expr(subject)?;
    let (pairs, default) = clauses.as_chunks::<2>();
    let mut constants = Vec::new();
    let mut known = BTreeSet::new();
    let mut branches = Vec::with_capacity(pairs.len());
    for [test, result] in pairs {
        match &test.kind {
            FormKind::List(group) if group.is_empty() => {
                return Err(invalid(
                    "case grouped match must contain at least one value",
                    test.span,
                ));
            }
            FormKind::List(group) => {
                for item in group.iter() {
                    constants.push((new_constant(item, &mut known)?, branches.len()));
                }
            }
            _ => constants.push((new_constant(test, &mut known)?, branches.len())),
        }
        branches.push(a.analyze(result, tail)?);
    }
    let default = default
        .first()
        .map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
    let case = Case {
        subject,
        constants: constants.into_boxed_slice(),
        branches: branches.into_boxed_slice(),
        default,
    };
    Ok(Ir::Case(Box::new(case)))
}

/// A `case` constant that did not occur before: of two equal ones, the second could never be chosen.
fn new_constant(form: &Form<'_>, known: &mut BTreeSet<Value>) -> Result<Value, Error> {
    let constant = case_constant(form)?;
    if !known.insert(constant.clone()) {
        return Err(invalid(
            "a case constant stands twice, and its second result could never be chosen; remove one of the two",
            form.span,
        ));
    }
    Ok(constant)
}

pub(super) fn case_constant(form: &Form<'_>) -> Result<Value, Error> {
    match &form.kind {
        FormKind::Nil => Ok(Value::Nil),
        FormKind::Bool(value) => Ok(Value::Bool(*value)),
        FormKind::Int(value) => Ok(Value::Int(*value)),
        FormKind::BigInt(value) => Ok(Value::integer(value.clone())),
        FormKind::Float(value) if !value.is_nan() => Ok(Value::Float(*value)),
        FormKind::Str(text) => Ok(Value::str(&**text)),
        FormKind::Keyword(name) => Ok(Value::keyword(*name)),
        FormKind::Vector(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(case_constant).collect();
            Ok(Value::from(items?))
        }
        FormKind::Set(items) => {
            let items: Result<crate::value::Set, _> = items.iter().map(case_constant).collect();
            Ok(Value::Set(items?))
        }
        FormKind::Map(items) => {
            let (pairs, _) = items.as_chunks::<2>();
            let pairs = pairs
                .iter()
                .map(|[key, value]| Ok((case_constant(key)?, case_constant(value)?)));
            Ok(Value::Map(pairs.collect::<Result<_, Error>>()?))
        }
        _ => Err(invalid(
            "case test values must be compile-time constants (keywords, strings, numbers, booleans, nil, collections of these)",
            form.span,
        )),
    }
}
