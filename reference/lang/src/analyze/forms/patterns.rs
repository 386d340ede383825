//! Patterns and binding vectors, the same in every binding position. Knows nothing of evaluation.

use std::collections::HashMap;

use super::invalid;
use crate::analyze::ir::{Ir, MapEntryPattern, MapPattern, Pattern, SequencePattern};
use crate::analyze::{Analyzer, calls};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};
use crate::value::Value;

impl Analyzer<'_, '_> {
    pub(in crate::analyze) fn parameters(
        &mut self,
        params: &[Form<'_>],
    ) -> Result<(Box<[Pattern]>, Option<Pattern>), Error> {
        let (items, rest) = split_rest(params)?;
        // Parameters take the first slots, so that the arguments can become the frame as they are; names that
        // destructuring binds come after them.
        let items = items
            .iter()
            .map(|item| self.pattern(item))
            .collect::<Result<Box<[_]>, _>>()?;
        let rest = rest.map(|rest| self.pattern(rest)).transpose()?;
        Ok((items, rest))
    }

    pub(super) fn pattern(&mut self, form: &Form<'_>) -> Result<Pattern, Error> {
        match &form.kind {
            FormKind::Symbol(name) => {
                local_name(name, form.span)?;
                Ok(Pattern::Slot(self.bind(name)))
            }
            FormKind::Vector(items) => self.sequence_pattern(items, form.span),
            FormKind::Map(items) => self.map_pattern(items, form.span),
            _ => Err(invalid(
                format!(
                    "unsupported pattern {}: bind a symbol, a vector of patterns, or a map pattern such as {{:keys [a b]}}",
                    form.span.of(self.text)
                ),
                form.span,
            )),
        }
    }

    fn sequence_pattern(&mut self, items: &[Form<'_>], span: Span) -> Result<Pattern, Error> {
        let (items, all) = match items {
            [
                items @ ..,
                Form {
                    kind: FormKind::Keyword("as"),
                    ..
                },
                Form {
                    kind: FormKind::Symbol(name),
                    span,
                },
            ] => {
                local_name(name, *span)?;
                (items, Some(*name))
            }
            _ => (items, None),
        };
        let (items, rest) = split_rest(items)?;
        let items = items
            .iter()
            .map(|item| self.pattern(item))
            .collect::<Result<Box<[_]>, _>>()?;
        let rest = rest.map(|rest| self.pattern(rest)).transpose()?;
        let all = all.map(|name| self.bind(name));
        Ok(Pattern::Sequence(Box::new(SequencePattern {
            items,
            rest,
            all,
            span,
        })))
    }

    fn map_pattern(&mut self, items: &[Form<'_>], span: Span) -> Result<Pattern, Error> {
        let mut wanted: Vec<(Form<'_>, Value)> = Vec::new();
        let mut defaults: HashMap<&str, &Form<'_>> = HashMap::new();
        let mut all = None;
        for pair in items.chunks_exact(2) {
            let [left, right] = pair else { continue };
            match (&left.kind, &right.kind) {
                (FormKind::Keyword(kind @ ("keys" | "strs" | "syms")), FormKind::Vector(names)) => {
                    for name in names.iter() {
                        let (FormKind::Symbol(text) | FormKind::Keyword(text)) = name.kind else {
                            return Err(invalid(
                                format!(":{kind} takes a vector of symbols"),
                                name.span,
                            ));
                        };
                        let key = match *kind {
                            "keys" => Value::keyword(text),
                            "strs" => Value::str(text),
                            _ => Value::Symbol((*text).into()),
                        };
                        wanted.push((
                            Form {
                                kind: FormKind::Symbol(text),
                                span: name.span,
                            },
                            key,
                        ));
                    }
                }
                (FormKind::Keyword("keys" | "strs" | "syms"), _) => {
                    return Err(invalid(
                        ":keys, :strs and :syms take a vector of symbols",
                        right.span,
                    ));
                }
                (FormKind::Keyword("as"), FormKind::Symbol(name)) => {
                    local_name(name, right.span)?;
                    all = Some(*name);
                }
                (FormKind::Keyword("or"), FormKind::Map(entries)) => {
                    for entry in entries.chunks_exact(2) {
                        let FormKind::Symbol(name) = entry[0].kind else {
                            return Err(invalid(
                                ":or takes a map from symbols to defaults",
                                entry[0].span,
                            ));
                        };
                        // Of two defaults for one name the first wins.
                        defaults.entry(name).or_insert(&entry[1]);
                    }
                }
                (FormKind::Keyword("as" | "or"), _) => {
                    return Err(invalid(
                        ":as takes a symbol and :or a map from symbols to defaults",
                        right.span,
                    ));
                }
                (FormKind::Keyword(other), _) => {
                    return Err(invalid(
                        format!(
                            "unsupported pattern {{:{other} …}}: map patterns know :keys, :strs, :syms, :or, :as and name key pairs"
                        ),
                        left.span,
                    ));
                }
                (_, key) => {
                    let key = match key {
                        FormKind::Keyword(name) => Value::keyword(*name),
                        FormKind::Str(text) => Value::str(&**text),
                        _ if let Some(key) = self.constant_key(right)? => key,
                        _ => {
                            return Err(invalid(
                                format!(
                                    "unsupported pattern: the key of a name must be a constant such as a keyword, a string or a number, not {}",
                                    right.span.of(self.text)
                                ),
                                right.span,
                            ));
                        }
                    };
                    wanted.push((left.clone(), key));
                }
            }
        }
        let mut entries = Vec::with_capacity(wanted.len());
        for (target, key) in wanted {
            let default = match &target.kind {
                FormKind::Symbol(name) => defaults.get(name).copied(),
                _ => None,
            };
            // A default may use the names bound before it, but not its own.
            let default = default.map(|form| self.expr(form)).transpose()?;
            let pattern = self.pattern(&target)?;
            entries.push(MapEntryPattern {
                pattern,
                key,
                default,
            });
        }
        let all = all.map(|name| self.bind(name));
        Ok(Pattern::Map(Box::new(MapPattern {
            entries: entries.into_boxed_slice(),
            all,
            span,
        })))
    }

    /// The constant that a form stands for, if it is one.
    fn constant_key(&mut self, form: &Form<'_>) -> Result<Option<Value>, Error> {
        if matches!(form.kind, FormKind::Symbol(_) | FormKind::Regex(_)) {
            return Ok(None);
        }
        Ok(match self.expr(form)? {
            Ir::Const(key) => Some(key),
            _ => None,
        })
    }

    /// `[pattern value …]`
    pub(super) fn bindings(
        &mut self,
        form: &str,
        bindings: &Form<'_>,
    ) -> Result<Box<[(Pattern, Ir)]>, Error> {
        let FormKind::Vector(items) = &bindings.kind else {
            return Err(invalid(
                format!("{form} bindings must be a vector"),
                bindings.span,
            ));
        };
        self.binding_pairs(form, items, bindings.span)
    }

    pub(super) fn binding_pairs(
        &mut self,
        form: &str,
        items: &[Form<'_>],
        span: Span,
    ) -> Result<Box<[(Pattern, Ir)]>, Error> {
        if !items.len().is_multiple_of(2) {
            return Err(invalid(
                format!("{form} bindings require even number of forms"),
                span,
            ));
        }
        let mut pairs = Vec::with_capacity(items.len() / 2);
        for pair in items.chunks_exact(2) {
            let mut value = self.expr(&pair[1])?;
            let pattern = self.pattern(&pair[0])?;
            // Only as many items as the pattern names are needed.
            if let Pattern::Sequence(parts) = &pattern
                && parts.rest.is_none()
                && parts.all.is_none()
            {
                calls::make_lazy(&mut value);
            }
            pairs.push((pattern, value));
        }
        Ok(pairs.into_boxed_slice())
    }
}

/// Whether a form stands for a value without a call or a look-up.
pub(super) fn is_literal(kind: &FormKind<'_>) -> bool {
    matches!(
        kind,
        FormKind::Nil
            | FormKind::Bool(_)
            | FormKind::Int(_)
            | FormKind::BigInt(_)
            | FormKind::Float(_)
            | FormKind::Str(_)
            | FormKind::Regex(_)
            | FormKind::Keyword(_)
            | FormKind::Vector(_)
            | FormKind::Map(_)
            | FormKind::Set(_)
    )
}

/// The patterns before `&`, and the one after it.
pub(super) fn split_rest<'f, 'a>(
    items: &'f [Form<'a>],
) -> Result<(&'f [Form<'a>], Option<&'f Form<'a>>), Error> {
    let Some(at) = items
        .iter()
        .position(|item| matches!(item.kind, FormKind::Symbol("&")))
    else {
        return Ok((items, None));
    };
    match &items[at + 1..] {
        [rest] if !matches!(rest.kind, FormKind::Symbol("&")) => Ok((&items[..at], Some(rest))),
        [] => Err(invalid("& must be followed by a pattern", items[at].span)),
        [_, extra, ..] => Err(invalid(
            "& must be followed by exactly one pattern",
            extra.span,
        )),
        [rest] => Err(invalid("& must be followed by a pattern", rest.span)),
    }
}

pub(super) fn local_name(name: &str, span: Span) -> Result<(), Error> {
    if name.contains('/') && name != "/" {
        return Err(invalid(
            format!("unsupported pattern {name}: a name with a namespace cannot be bound"),
            span,
        ));
    }
    Ok(())
}
