//! Names: what a symbol means, which names a program defines, and what is said of those that nothing binds.

use std::collections::HashSet;
use std::sync::Arc;

use super::ir::{Global, Ir};
use super::scope::Storage;
use super::{Analyzer, forms, suggest};
use crate::builtins::{self, Builtin};
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::value::Value;

/// The number of unbound names that get a suggestion: each is compared with every known name.
const SUGGESTIONS_MAX: usize = 20;

/// Collects every name that a `def` anywhere in the program may bind (`names.known`).
pub(super) fn collect_definitions<'a>(forms: &'a [Form<'a>], found: &mut HashSet<&'a str>) {
    for form in forms {
        match &form.kind {
            FormKind::List(items) | FormKind::AnonFn(items) => {
                if let [head, name, ..] = &**items
                    && let (FormKind::Symbol("def" | "defn" | "defonce"), FormKind::Symbol(name)) =
                        (&head.kind, &name.kind)
                {
                    found.insert(name);
                }
                if !matches!(
                    items.first().map(|head| &head.kind),
                    Some(FormKind::Symbol("comment" | "quote"))
                ) {
                    collect_definitions(items, found);
                }
            }
            FormKind::Vector(items) | FormKind::Map(items) | FormKind::Set(items) => {
                collect_definitions(items, found);
            }
            _ => {}
        }
    }
}

impl Analyzer<'_, '_> {
    /// Whether a local, or a definition above, shadows the special form `name`.
    pub(super) fn shadows(&self, name: &str) -> bool {
        if forms::is_fixed(name) {
            return false;
        }
        let defined = match &self.known_globals {
            None => self.names.get(name).is_some(),
            Some(only) => only.contains(name),
        };
        defined || self.scopes.binds(name)
    }

    pub(super) fn symbol(&mut self, name: &str, span: Span) -> Result<Ir, Error> {
        if let Some(place) = self.scopes.resolve(name) {
            return Ok(place.read());
        }
        let builtin = builtins::lookup(name);
        if builtin.is_some_and(Builtin::has_effects) {
            self.note_effect();
        }
        if let Some(id) = self.global(name) {
            self.effects().globals.push(id);
            let global = Global {
                id,
                fallback: builtin,
                name: name.into(),
                span,
                optional: false,
            };
            return Ok(Ir::Global(Box::new(global)));
        }
        if let Some(builtin) = builtin {
            return Ok(Ir::Const(builtin.value()));
        }
        match name {
            "*1" => return Ok(Ir::History(0)),
            "*2" => return Ok(Ir::History(1)),
            "*3" => return Ok(Ir::History(2)),
            "budget/remaining" => return Ok(Ir::Budget),
            "data" => return Ok(Ir::Context),
            _ => {}
        }
        if let Some((namespace, member)) = name.split_once('/')
            && !namespace.is_empty()
            && !member.is_empty()
        {
            return self.qualified(name, namespace, member, span);
        }
        if let Some(number) = name.strip_prefix('%')
            && (number == "&" || number.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Err(Kind::Form(format!(
                "placeholder '{name}' only has a meaning inside #(…)"
            ))
            .at(span));
        }
        if name.starts_with('.') && name.len() > 1 {
            let error = Kind::Method(name.to_owned()).at(span);
            return Ok(Ir::Raise(Box::new(error)));
        }
        self.unbound.push((name.to_owned(), span));
        Ok(Ir::Const(Value::Nil))
    }

    fn qualified(
        &mut self,
        name: &str,
        namespace: &str,
        member: &str,
        span: Span,
    ) -> Result<Ir, Error> {
        match namespace {
            "data" => return Ok(Ir::Data(Box::new((Value::str(member), span)))),
            "tool" => {
                self.note_effect();
                // Which tools exist is known only to the host of the call that runs it.
                return Ok(Ir::Const(builtins::tool_value(member)));
            }
            "budget" => {
                let problem =
                    format!("{name} does not exist. The budget namespace offers: budget/remaining");
                return Err(Kind::Form(problem).at(span));
            }
            _ => {}
        }
        Err(Kind::Member(name.to_owned()).at(span))
    }

    pub(super) fn var_quote(&mut self, name: &str, span: Span) -> Ir {
        if self.global(name).is_some() {
            return Ir::Const(Value::Var(name.into()));
        }
        // A builtin has no var of its own: it is its value.
        if let Some(builtin) =
            builtins::lookup(name).filter(|builtin| builtin.bare && builtin.name == name)
        {
            return Ir::Const(builtin.value());
        }
        self.unbound.push((name.to_owned(), span));
        Ir::Const(Value::Nil)
    }

    /// The index of a global that is defined, or that some `def` of this program may define.
    pub(super) fn global(&mut self, name: &str) -> Option<u32> {
        let id = match &self.known_globals {
            None => match self.names.get(name) {
                Some(id) => Some(id),
                None => self
                    .defined
                    .contains(name)
                    .then(|| Arc::make_mut(self.names).intern(name)),
            },
            Some(only) if only.contains(name) => Some(Arc::make_mut(self.names).intern(name)),
            Some(_) => self
                .names
                .get(name)
                .filter(|id| self.origin.own.contains(id)),
        }?;
        if !self.origin.own.contains(&id) {
            self.origin.globals.push(id);
        }
        Some(id)
    }

    /// The index of a global that this program defines.
    pub(super) fn define_name(&mut self, name: &str) -> u32 {
        self.note_effect();
        let (known, foreseen) = match &self.known_globals {
            None => (self.names.get(name), self.defined.contains(name)),
            Some(only) => (self.names.get(name), only.contains(name)),
        };
        let new = match &self.known_globals {
            None => known.is_none() && !foreseen,
            Some(_) => !foreseen,
        };
        let id = known.unwrap_or_else(|| Arc::make_mut(self.names).intern(name));
        if new {
            self.origin.own.insert(id);
        }
        let is_statement = self.effects.len() == 1 && self.level == 1;
        if !is_statement && !self.names.is_redefinable(id) {
            Arc::make_mut(self.names).note_redefinable(id);
        }
        id
    }

    pub(super) fn unbound_error(&self) -> Error {
        let span = self.unbound[0].1;
        let mut known: Vec<&str> = self.names.all().collect();
        known.extend(self.defined.iter().copied());
        let bare = builtins::bare_names().map(|name| -> &str { name });
        known.extend(bare.filter(|name| !name.starts_with('.')));
        known.extend(forms::names().map(|name| -> &str { name }));
        known.extend(self.scopes.names());
        let mut seen = HashSet::new();
        let names = self
            .unbound
            .iter()
            .filter(|(name, _)| seen.insert(name.as_str()))
            .enumerate()
            .map(|(at, (name, _))| {
                let known = known
                    .iter()
                    .take(if at < SUGGESTIONS_MAX { usize::MAX } else { 0 });
                // A name known to be absent is not a typo, nor is a name that is bound elsewhere.
                let slip =
                    crate::absent::replacement(name).is_none() && !self.scopes.ever_bound(name);
                let nearest = || suggest::nearest(name, known.copied());
                (name.clone(), slip.then(nearest).flatten())
            });
        let mut error = Kind::Unbound(names.collect()).at(span);
        let unbound = self.unbound.iter().map(|(name, _)| name);
        let elsewhere = unbound.filter(|name| self.scopes.ever_bound(name));
        error.place.bound_elsewhere = elsewhere.take(SUGGESTIONS_MAX).cloned().collect();
        error
    }
}

/// Where a name is stored.
impl Storage {
    pub(super) fn read(self) -> Ir {
        match self {
            Storage::Slot(slot) => Ir::Local { slot, last: false },
            Storage::Capture(at) => Ir::Capture(at),
            Storage::Itself => Ir::Itself,
        }
    }
}
