//! Literals: collections, regexes and quoted forms.

use std::sync::Arc;

use super::ir::Ir;
use super::{Analyzer, forms};
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::regex::Regex;
use crate::value::Value;

impl Analyzer<'_, '_> {
    pub(super) fn vector(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
        let parts = self.all(items)?;
        if parts.iter().all(|part| matches!(part, Ir::Const(_))) {
            return Ok(Ir::Const(Value::vector(
                parts.into_vec().into_iter().map(constant).collect(),
            )));
        }
        Ok(Ir::Vector(parts))
    }

    pub(super) fn set(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
        let parts = self.all(items)?;
        self.refuse_duplicates("element", "set", items.iter().zip(&parts))?;
        if parts.iter().all(|part| matches!(part, Ir::Const(_))) {
            return Ok(Ir::Const(Value::Set(
                parts.into_vec().into_iter().map(constant).collect(),
            )));
        }
        Ok(Ir::Set(parts))
    }

    pub(super) fn map(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
        let parts = self.all(items)?;
        self.refuse_duplicates("key", "map", items.iter().zip(&parts).step_by(2))?;
        let mut entries = Vec::with_capacity(parts.len() / 2);
        let mut parts = parts.into_vec().into_iter();
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            entries.push((key, value));
        }
        if entries
            .iter()
            .all(|entry| matches!(entry, (Ir::Const(_), Ir::Const(_))))
        {
            let entries = entries
                .into_iter()
                .map(|(key, value)| (constant(key), constant(value)));
            return Ok(Ir::Const(Value::Map(entries.collect())));
        }
        Ok(Ir::Map(entries.into_boxed_slice()))
    }

    /// Refuses a literal that contains the same constant, or the same text, twice: a likely mistake.
    fn refuse_duplicates<'f>(
        &self,
        part: &'static str,
        literal: &'static str,
        parts: impl Iterator<Item = (&'f Form<'f>, &'f Ir)>,
    ) -> Result<(), Error> {
        let mut constants = std::collections::BTreeSet::new();
        let mut texts = std::collections::BTreeSet::new();
        for (form, ir) in parts {
            let text = form.span.of(self.text);
            let new = match (ir, &form.kind) {
                // As in Clojure, two of these are always different forms, wherever they occur.
                _ if has_distinct_literal(form) => true,
                (_, FormKind::Symbol(_)) => texts.insert(text),
                (Ir::Const(value), _) => constants.insert(value),
                _ => texts.insert(text),
            };
            if !new {
                let text = text.to_owned();
                return Err(Kind::Duplicate {
                    part,
                    literal,
                    text,
                }
                .at(form.span));
            }
        }
        Ok(())
    }

    pub(super) fn regex(&mut self, pattern: &str, span: Span) -> Result<Value, Error> {
        // Regex literals are compiled here, and a program may contain thousands.
        self.check_limits()?;
        match Regex::new(pattern) {
            Ok(regex) => {
                let regex = Arc::new(regex);
                self.regexes.push(Arc::clone(&regex));
                Ok(Value::Regex(regex))
            }
            Err(problem) => Err(Kind::Form(format!("regex #\"{pattern}\": {problem}")).at(span)),
        }
    }

    /// The value of a quoted form.
    pub(super) fn quoted(&mut self, form: &Form<'_>) -> Result<Value, Error> {
        if let Some((value, calls, last)) = forms::chain_parts(form) {
            let mut nested = self.quoted(value)?;
            for call in calls {
                let mut items = match &call.kind {
                    FormKind::List(items) => items
                        .iter()
                        .map(|item| self.quoted(item))
                        .collect::<Result<Vec<_>, _>>()?,
                    _ => vec![self.quoted(call)?],
                };
                items.insert(if last { items.len() } else { 1 }, nested);
                nested = Value::vector(items);
            }
            return Ok(nested);
        }
        let mut all = |items: &[Form<'_>]| {
            items
                .iter()
                .map(|item| self.quoted(item))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(match &form.kind {
            FormKind::Nil => Value::Nil,
            FormKind::Bool(value) => Value::Bool(*value),
            FormKind::Int(value) => Value::Int(*value),
            FormKind::BigInt(value) => Value::integer(value.clone()),
            FormKind::Float(value) => Value::Float(*value),
            FormKind::Str(text) => Value::str(&**text),
            FormKind::Regex(pattern) => self.regex(pattern, form.span)?,
            FormKind::Keyword(name) => Value::keyword(*name),
            FormKind::Symbol(name) if name.starts_with('\0') => {
                let problem = "the value between steps is no form that can be quoted";
                return Err(Kind::Form(problem.into()).at(form.span));
            }
            FormKind::Symbol(name) => Value::Symbol((*name).into()),
            FormKind::List(items) | FormKind::Vector(items) => Value::vector(all(items)?),
            FormKind::Set(items) => Value::Set(all(items)?.into_iter().collect()),
            FormKind::Map(items) => {
                let mut parts = all(items)?.into_iter();
                let mut entries = Vec::with_capacity(items.len() / 2);
                while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                    entries.push((key, value));
                }
                Value::Map(entries.into())
            }
            FormKind::AnonFn(_) | FormKind::Quote(_) | FormKind::VarQuote(_) => {
                return Err(Kind::Form(
                    "a quoted list holds data only, no functions or further quotes".into(),
                )
                .at(form.span));
            }
        })
    }
}

/// Whether a form contains a regex or a `#(…)`; each such literal is distinct from every other.
fn has_distinct_literal(form: &Form<'_>) -> bool {
    match &form.kind {
        FormKind::Regex(_) | FormKind::AnonFn(_) => true,
        FormKind::List(items)
        | FormKind::Vector(items)
        | FormKind::Map(items)
        | FormKind::Set(items) => items.iter().any(has_distinct_literal),
        _ => false,
    }
}

fn constant(ir: Ir) -> Value {
    match ir {
        Ir::Const(value) => value,
        _ => Value::Nil,
    }
}
