//! Functions: `fn` and `#(…)`. Knows nothing of evaluation.

use super::patterns::is_literal;
use super::{Use, invalid, usage};
use crate::analyze::Analyzer;
use crate::analyze::ir::Ir;
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
        // `%` is `%1`: whichever is written is the name that is bound.
        if uses.bare && !params.is_empty() {
            params[0] = symbol("%");
        }
        if uses.rest {
            params.push(symbol("&"));
            params.push(symbol("%&"));
        }
        let mut body = match items {
            [] => Vec::new(),
            // A literal alone is the body itself; anything else is called.
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

pub(super) fn function(a: &mut Analyzer<'_, '_>, form: Use<'_>) -> Result<Ir, Error> {
    let Use { args, span, .. } = form;
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
    let FormKind::Vector(params) = &params.kind else {
        if let FormKind::List(_) = &params.kind {
            return Err(invalid(
                "fn takes one parameter vector; several arities are not supported, use & rest",
                params.span,
            ));
        }
        return Err(invalid("fn parameters must be a vector", params.span));
    };
    a.function(name, name, params, body, span)
}

/// What an anonymous function uses of its arguments.
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
