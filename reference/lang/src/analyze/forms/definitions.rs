//! Definitions: `def`, `defn`, `defonce`. Knows nothing of evaluation.

use super::{FormUse, invalid, usage};
use crate::analyze::Analyzer;
use crate::analyze::ir::{Def, Ir};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};
use crate::value::Text;

pub(super) fn def(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    define(a, "def", args, span, false)
}

pub(super) fn defonce(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    define(a, "defonce", args, span, true)
}

pub(super) fn define(
    a: &mut Analyzer<'_, '_>,
    form: &str,
    args: &[Form<'_>],
    span: Span,
    once: bool,
) -> Result<Ir, Error> {
    let (name, doc, value) = match args {
        [name, value] => (name, None, value),
        [name, doc, value] => match &doc.kind {
            FormKind::Str(doc) => (name, Some(Text::from(&**doc)), value),
            _ => return Err(usage(form, span)),
        },
        _ => return Err(usage(form, span)),
    };
    let name = global_name(form, name)?;
    let id = a.define_name(name);
    // A function literal gets the name that it is defined under.
    let value = match &value.kind {
        FormKind::List(items) => match &**items {
            [head, params, body @ ..] if matches!(head.kind, FormKind::Symbol("fn")) => {
                match &params.kind {
                    FormKind::Vector(params) => {
                        a.function(None, Some(name), params, body, value.span)?
                    }
                    _ => a.expr(value)?,
                }
            }
            _ => a.expr(value)?,
        },
        _ => a.expr(value)?,
    };
    Ok(Ir::Def(Box::new(Def {
        id,
        name: name.into(),
        doc,
        value,
        once,
    })))
}

pub(super) fn global_name<'a>(form: &str, name: &Form<'a>) -> Result<&'a str, Error> {
    match name.kind {
        FormKind::Symbol(text @ ("*1" | "*2" | "*3")) => Err(invalid(
            format!("{form}: {text} is the history of results and cannot be defined"),
            name.span,
        )),
        FormKind::Symbol(text) if !text.contains('/') || text == "/" => Ok(text),
        FormKind::Symbol(text) => Err(invalid(
            format!("{form}: {text} has a namespace; definitions have plain names"),
            name.span,
        )),
        _ => Err(invalid(format!("{form} name must be a symbol"), name.span)),
    }
}

pub(super) fn defn(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [name, rest @ ..] = args else {
        return Err(usage("defn", span));
    };
    let name = global_name("defn", name)?;
    let (doc, rest) = match rest {
        [
            Form {
                kind: FormKind::Str(doc),
                ..
            },
            rest @ ..,
        ] if !rest.is_empty() => (Some(Text::from(&**doc)), rest),
        _ => (None, rest),
    };
    let [params, body @ ..] = rest else {
        return Err(usage("defn", span));
    };
    let FormKind::Vector(params) = &params.kind else {
        if let FormKind::List(_) = &params.kind {
            let id = a.define_name(name);
            let value = super::functions::multi_arity(a, None, Some(name), rest, span)?;
            return Ok(Ir::Def(Box::new(Def {
                id,
                name: name.into(),
                doc,
                value,
                once: false,
            })));
        }
        return Err(invalid("defn parameters must be a vector", params.span));
    };
    let id = a.define_name(name);
    let value = a.function(None, Some(name), params, body, span)?;
    Ok(Ir::Def(Box::new(Def {
        id,
        name: name.into(),
        doc,
        value,
        once: false,
    })))
}
