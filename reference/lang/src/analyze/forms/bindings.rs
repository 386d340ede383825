//! Bindings and loops: `let`, `loop`, `recur`. Knows nothing of evaluation.

use super::{FormUse, invalid, usage};
use crate::analyze::Analyzer;
use crate::analyze::ir::{Ir, Loop};
use crate::error::{Error, Kind};

pub(super) fn let_form(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [bindings, body @ ..] = args else {
        return Err(usage("let", span));
    };
    a.block(|a| {
        let bindings = a.bindings("let", bindings)?;
        let body = a.body(body, tail)?;
        Ok(Ir::Let(Box::new((bindings, body))))
    })
}

pub(super) fn loop_form(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [bindings, body @ ..] = args else {
        return Err(usage("loop", span));
    };
    a.block(|a| {
        let floor = a.scope().next_slot();
        let bindings = a.bindings("loop", bindings)?;
        let outer = a.scope().recur.replace(bindings.len());
        let body = a.body(body, true);
        a.scope().recur = outer;
        Ok(Ir::Loop(Box::new(Loop {
            bindings,
            body: body?,
            floor,
            span,
        })))
    })
}

pub(super) fn recur(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let Some(takes) = a.scope().recur.filter(|_| tail) else {
        return Err(invalid(
            "recur must be in tail position of a loop or function",
            span,
        ));
    };
    if args.len() != takes {
        let function = "recur".to_owned();
        return Err(Kind::Arity {
            function,
            accepts: crate::builtins::exactly(u8::try_from(takes).unwrap_or(u8::MAX)),
            given: args.len(),
        }
        .at(span));
    }
    Ok(Ir::Recur(a.all(args)?))
}
