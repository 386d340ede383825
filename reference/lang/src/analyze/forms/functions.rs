//! Functions: `fn` and `#(…)`. Knows nothing of evaluation.

use super::patterns::is_literal;
use super::{FormUse, invalid, usage};
use crate::analyze::ir::{Arities, ArityClause, Ir};
use crate::analyze::{Analyzer, calls};
use crate::builtins::Builtin;
use crate::error::Error;
use crate::form::{Form, FormKind, Span};

impl Analyzer<'_, '_> {
    /// `#(…)`
    pub(in crate::analyze) fn anonymous(
        &mut self,
        items: &[Form<'_>],
        span: Span,
    ) -> Result<Ir, Error> {
        const PLACEHOLDERS_MAX: usize = 20;
        let mut uses = Placeholders::default();
        uses.scan(items)?;
        if uses.highest > PLACEHOLDERS_MAX {
            return Err(invalid(
                format!("placeholders go up to %{PLACEHOLDERS_MAX}"),
                span,
            ));
        }
        const NAMES: [&str; PLACEHOLDERS_MAX] = [
            "%1", "%2", "%3", "%4", "%5", "%6", "%7", "%8", "%9", "%10", "%11", "%12", "%13",
            "%14", "%15", "%16", "%17", "%18", "%19", "%20",
        ];
        let symbol = |name| Form {
            kind: FormKind::Symbol(name),
            span,
        };
        let mut params: Vec<_> = NAMES[..uses.highest]
            .iter()
            .map(|name| symbol(name))
            .collect();
        // `%` is `%1`: the one that is written is bound.
        if uses.bare && !params.is_empty() {
            params[0] = symbol("%");
        }
        if uses.rest {
            params.push(symbol("&"));
            params.push(symbol("%&"));
        }
        let mut body = match items {
            [] => Vec::new(),
            // A literal alone is the body itself; anything else is a call.
            [only] if is_literal(&only.kind) => vec![only.clone()],
            _ => vec![Form {
                kind: FormKind::List(items.into()),
                span,
            }],
        };
        if uses.bare && uses.first {
            let bindings = Form {
                kind: FormKind::Vector([symbol("%1"), symbol("%")].into()),
                span,
            };
            let mut wrapped = vec![symbol("let"), bindings];
            wrapped.append(&mut body);
            body = vec![Form {
                kind: FormKind::List(wrapped.into()),
                span,
            }];
        }
        self.function(None, None, &params, &body, span)
    }
}

pub(super) fn function(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    literal(a, form, true)
}

/// A function literal. Its name is bound inside it only if `binds_name`; otherwise the name is only for display.
fn literal(a: &mut Analyzer<'_, '_>, form: FormUse<'_>, binds_name: bool) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let (name, rest) = match args {
        [
            Form {
                kind: FormKind::Symbol(name),
                ..
            },
            rest @ ..,
        ] if !rest.is_empty() => (Some(*name), rest),
        _ => (None, args),
    };
    let [params, body @ ..] = rest else {
        return Err(usage("fn", span));
    };
    let bound = name.filter(|_| binds_name);
    let FormKind::Vector(params) = &params.kind else {
        if let FormKind::List(_) = &params.kind {
            return multi_arity(a, bound, name, rest, span);
        }
        return Err(invalid("fn parameters must be a vector", params.span));
    };
    a.function(bound, name, params, body, span)
}

/// The arguments of a function of several arities. No program can write this name, nor those below.
const ARGS: &str = "\0args";
/// The head of the form that picks an arity.
const ARITIES: &str = "\0arities";
/// The function that stands for all functions of a `letfn`.
const LETFN_ALL: &str = "\0together";
/// The index of the one that is called.
const LETFN_INDEX: &str = "\0which";
/// A function whose name, in its body, means the binding of the `letfn`.
const LETFN_FN: &str = "\0fn";
/// Makes one of the functions from the whole.
const LETFN_PICK: &str = "\0one";
/// `apply` and `=`, whatever those names are bound to.
const APPLY: &str = "\0apply";
const EQUAL: &str = "\0=";

/// The analysis of the internal forms that functions are rewritten to here.
pub(super) fn internal_form(name: &str) -> Option<super::Analyze> {
    match name {
        ARITIES => Some(arities),
        LETFN_FN => Some(|a, form| literal(a, form, false)),
        LETFN_PICK => Some(|a, form| call_builtin(a, &crate::builtins::LETFN, form)),
        APPLY => Some(|a, form| call_named(a, "apply", form)),
        EQUAL => Some(|a, form| call_named(a, "=", form)),
        _ => None,
    }
}

fn call_named(a: &mut Analyzer<'_, '_>, name: &str, form: FormUse<'_>) -> Result<Ir, Error> {
    call_builtin(
        a,
        crate::builtins::lookup(name).expect("a row of the table"),
        form,
    )
}

fn call_builtin(
    a: &mut Analyzer<'_, '_>,
    builtin: &'static Builtin,
    form: FormUse<'_>,
) -> Result<Ir, Error> {
    let args = a.all(form.args)?;
    Ok(calls::builtin_call(builtin, args, form.span))
}

fn symbol(name: &str, span: Span) -> Form<'_> {
    Form {
        kind: FormKind::Symbol(name),
        span,
    }
}

fn list<'a>(items: impl IntoIterator<Item = Form<'a>>, span: Span) -> Form<'a> {
    Form {
        kind: FormKind::List(items.into_iter().collect()),
        span,
    }
}

fn vector<'a>(items: impl IntoIterator<Item = Form<'a>>, span: Span) -> Form<'a> {
    Form {
        kind: FormKind::Vector(items.into_iter().collect()),
        span,
    }
}

/// `(fn name ([a] …) ([a b] …))`: a function of any arguments that calls the function of the arity that fits.
pub(super) fn multi_arity(
    a: &mut Analyzer<'_, '_>,
    name: Option<&str>,
    display: Option<&str>,
    clauses: &[Form<'_>],
    span: Span,
) -> Result<Ir, Error> {
    let title = symbol(display.unwrap_or("\0"), span);
    let head = [symbol(ARITIES, span), title];
    let body = list(head.into_iter().chain(clauses.iter().cloned()), span);
    let params = [symbol("&", span), symbol(ARGS, span)];
    a.function(name, display, &params, &[body], span)
}

fn arities(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, .. } = form;
    let [title, clauses @ ..] = args else {
        return Err(usage("fn", span));
    };
    let display = match title.kind {
        FormKind::Symbol(name) if name != "\0" => Some(name),
        _ => None,
    };
    let given = a.expr(&symbol(ARGS, span))?;
    let mut made: Vec<ArityClause> = Vec::with_capacity(clauses.len());
    for clause in clauses {
        let FormKind::List(items) = &clause.kind else {
            return Err(invalid(
                "each arity is a list of its parameters and its body: ([a b] …)",
                clause.span,
            ));
        };
        let [params, body @ ..] = &**items else {
            return Err(invalid("an arity needs parameters: ([a b] …)", clause.span));
        };
        let FormKind::Vector(names) = &params.kind else {
            return Err(invalid(
                "the parameters of fn, defn and letfn must be a vector",
                params.span,
            ));
        };
        let (positional, rest) = super::patterns::split_rest(names)?;
        let (count, variadic) = (positional.len(), rest.is_some());
        if made.iter().any(|other| other.variadic && variadic) {
            return Err(invalid("only one arity can have & rest", params.span));
        }
        if made
            .iter()
            .any(|other| other.count == count && other.variadic == variadic)
        {
            return Err(invalid(
                format!(
                    "two arities take {count} arguments, and each number of arguments can have one: tell the values apart inside it, as in (if (map? x) … …)"
                ),
                params.span,
            ));
        }
        made.push(ArityClause {
            count,
            variadic,
            function: a.function(None, display, names, body, clause.span)?,
        });
    }
    if let Some(variadic) = made.iter().find(|arity| arity.variadic)
        && made
            .iter()
            .any(|arity| !arity.variadic && arity.count > variadic.count)
    {
        return Err(invalid(
            "no arity can take more arguments than the one with & rest",
            span,
        ));
    }
    Ok(Ir::Arities(Box::new(Arities {
        name: display.map(Into::into),
        given,
        arities: made.into_boxed_slice(),
        span,
    })))
}

/// `(letfn [(f [x] …) …] body …)`: each function is part of one that knows them all.
pub(super) fn letfn(a: &mut Analyzer<'_, '_>, form: FormUse<'_>) -> Result<Ir, Error> {
    let FormUse { args, span, tail } = form;
    let [bindings, body @ ..] = args else {
        return Err(usage("letfn", span));
    };
    let FormKind::Vector(functions) = &bindings.kind else {
        return Err(invalid("letfn bindings must be a vector", bindings.span));
    };
    let mut names = Vec::with_capacity(functions.len());
    let mut literals = Vec::with_capacity(functions.len());
    for function in functions.iter() {
        let FormKind::List(items) = &function.kind else {
            return Err(invalid(
                "letfn binds functions: [(name [params] body …) …]",
                function.span,
            ));
        };
        let [name, _, ..] = &**items else {
            return Err(usage("letfn", span));
        };
        let FormKind::Symbol(text) = name.kind else {
            return Err(invalid(
                "the name of a function must be a symbol",
                name.span,
            ));
        };
        super::patterns::local_name(text, name.span)?;
        names.push(text);
        let literal = [symbol(LETFN_FN, span)]
            .into_iter()
            .chain(items.iter().cloned());
        literals.push(list(literal, function.span));
    }
    let parts = || {
        let parts = names.iter().enumerate().flat_map(|(at, name)| {
            let which = Form {
                kind: FormKind::Int(at as i64),
                span,
            };
            let part = list(
                [symbol(LETFN_PICK, span), symbol(LETFN_ALL, span), which],
                span,
            );
            [symbol(name, span), part]
        });
        parts.collect::<Vec<_>>()
    };
    a.check_expansion(names.len() + 4, span)?;
    let mut picked = Form {
        kind: FormKind::Nil,
        span,
    };
    for (at, literal) in literals.into_iter().enumerate().rev() {
        let which = Form {
            kind: FormKind::Int(at as i64),
            span,
        };
        let test = list(
            [symbol(EQUAL, span), symbol(LETFN_INDEX, span), which],
            span,
        );
        // Errors of this call are reported where the function is called.
        let empty_span = Span {
            end: span.start,
            ..span
        };
        let call = list(
            [symbol(APPLY, span), literal, symbol(ARGS, span)],
            empty_span,
        );
        picked = list([symbol("if", span), test, call, picked], span);
    }
    let params = [LETFN_INDEX, "&", ARGS].map(|name| symbol(name, span));
    let inner = list([symbol("let", span), vector(parts(), span), picked], span);
    let together = list(
        [
            symbol("fn", span),
            symbol(LETFN_ALL, span),
            vector(params, span),
            inner,
        ],
        span,
    );
    let bound = [symbol(LETFN_ALL, span), together]
        .into_iter()
        .chain(parts());
    let head = [symbol("let", span), vector(bound, span)];
    let whole = list(head.into_iter().chain(body.iter().cloned()), span);
    a.analyze(&whole, tail)
}

/// The placeholders that an anonymous function uses.
#[derive(Default)]
struct Placeholders {
    highest: usize,
    bare: bool,
    first: bool,
    rest: bool,
}

impl Placeholders {
    fn scan(&mut self, forms: &[Form<'_>]) -> Result<(), Error> {
        for form in forms {
            match &form.kind {
                FormKind::Symbol("%") => {
                    self.bare = true;
                    self.highest = self.highest.max(1);
                }
                FormKind::Symbol("%&") => self.rest = true,
                FormKind::Symbol(name) => {
                    if let Some(number) = name.strip_prefix('%')
                        && !number.is_empty()
                        && number.bytes().all(|byte| byte.is_ascii_digit())
                    {
                        let number = number.parse().unwrap_or(usize::MAX);
                        if number == 0 {
                            return Err(invalid("placeholders count from %1", form.span));
                        }
                        self.first |= number == 1;
                        self.highest = self.highest.max(number);
                    }
                }
                FormKind::AnonFn(_) => {
                    return Err(invalid(
                        "Nested #() anonymous functions are not allowed; write (fn [x] …) for one of them",
                        form.span,
                    ));
                }
                FormKind::List(items)
                | FormKind::Vector(items)
                | FormKind::Map(items)
                | FormKind::Set(items) => {
                    self.scan(items)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
