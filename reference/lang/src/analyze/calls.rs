//! Calls: what a call becomes, and the calls that are refused before they run.

use std::collections::HashSet;

use super::Analyzer;
use super::ir::{Call, Ir, Op};
use crate::builtins::{self, Builtin};
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::value::Value;

/// How much of a call's arguments is known.
#[derive(Clone, Copy)]
enum KnownArguments {
    All,
    /// Only the first ones.
    Some,
}

impl Analyzer<'_, '_> {
    pub(super) fn call(
        &mut self,
        head: &Form<'_>,
        args: &[Form<'_>],
        span: Span,
    ) -> Result<Ir, Error> {
        let before = self.unbound.len();
        let callee = self.expr(head)?;
        self.note_call(&callee);
        let unknown = self.unbound.len() > before && matches!(head.kind, FormKind::Symbol(_));
        let forms = args;
        let args = self.all(args)?;
        self.note_arguments(&callee, &mut args.iter());
        if unknown {
            self.drop_bound_names(before, forms);
        }
        if let Ir::Budget = callee {
            if args.is_empty() {
                return Ok(callee);
            }
            return Err(budget_usage(span));
        }
        match (callee, args.len()) {
            (Ir::Const(Value::Builtin(builtin)), _) => Ok(builtin_call(builtin, args, span)),
            (Ir::Const(key @ Value::Keyword(_)), 1) => {
                let holder = args.into_iter().next().expect("one");
                Ok(Ir::Key(Box::new((key, holder, span))))
            }
            (callee, _) => Ok(Ir::Call(Box::new(Call { callee, args, span }))),
        }
    }

    /// Refuses a call that starts to build a collection on `()`: in Clojure, `conj` adds to the front of a list.
    pub(super) fn reject_empty_list_target(
        &self,
        head: &Form<'_>,
        args: &[Form<'_>],
    ) -> Result<(), Error> {
        match self.empty_list_target(head, args, KnownArguments::All) {
            Some(start) => Err(Kind::Form(
                "() is an empty vector, and conj adds at its end: write [], and reverse what \
                 is built, or put items in front with cons"
                    .into(),
            )
            .at(start.span)),
            None => Ok(()),
        }
    }

    /// The `()` that a call of `head` starts to build on, if any.
    fn empty_list_target<'f>(
        &self,
        head: &'f Form<'f>,
        args: &'f [Form<'f>],
        given: KnownArguments,
    ) -> Option<&'f Form<'f>> {
        let FormKind::Symbol(written) = head.kind else {
            return None;
        };
        let name = builtins::lookup(written).map_or(written, |builtin| builtin.name);
        let all = matches!(given, KnownArguments::All);
        let unshadowed = |_: &&Form<'_>| !self.shadows(written);
        let (starts, apart) = match (name, args) {
            ("conj" | "into", [start, ..])
            | ("reduce-kv" | "iterate", [_, start, ..])
            | ("transduce", [_, _, start, _]) => return empty_list(start).filter(unshadowed),
            // With two arguments, the second is the collection to reduce.
            ("reduce" | "reductions", [_, start, rest @ ..]) if !all || rest.len() == 1 => {
                return empty_list(start).filter(unshadowed);
            }
            ("as->" | "cond->" | "some->", [start, ..]) => (std::slice::from_ref(start), 1),
            ("fnil" | "def" | "defonce", [_, starts @ ..]) => (starts, 1),
            ("let" | "loop" | "if-let" | "if-some" | "when-let" | "when-some", [bindings, ..]) => {
                match &bindings.kind {
                    FormKind::Vector(parts) => (parts.get(1..)?, 2),
                    _ => return None,
                }
            }
            ("apply" | "partial", [_, ..]) if !all => return None,
            // The last argument of `apply` holds the further arguments.
            ("apply", [function, args @ .., _]) => {
                let found = self.empty_list_target(function, args, KnownArguments::Some);
                return found.filter(unshadowed);
            }
            ("partial", [function, args @ ..]) => {
                let found = self.empty_list_target(function, args, KnownArguments::Some);
                return found.filter(unshadowed);
            }
            _ => return None,
        };
        let mut starts = starts.iter().step_by(apart);
        starts
            .find(|start| matches!(&start.kind, FormKind::List(items) if items.is_empty()))
            .filter(unshadowed)
    }

    /// Drops unbound names that a call of an unknown form seems to bind: names that occur in a vector and again
    /// elsewhere. For forms known from other dialects these are all names in their binding positions. `at` is the index
    /// of the form's own name.
    fn drop_bound_names(&mut self, at: usize, args: &[Form<'_>]) {
        let form = crate::absent::is_binding_form(&self.unbound[at].0);
        let inside = |form: &Form<'_>, span: &Span| {
            form.span.start <= span.start && span.end <= form.span.end
        };
        // A list in a vector is an expression, which binds no names.
        let in_pattern = |span: &Span| {
            args.iter().any(|arg| match &arg.kind {
                FormKind::Vector(items) => {
                    let list = |item: &&Form<'_>| matches!(item.kind, FormKind::List(_));
                    inside(arg, span) && !items.iter().filter(list).any(|list| inside(list, span))
                }
                _ => false,
            })
        };
        let direct = |span: &Span| {
            let first = args.first();
            args.iter().any(|arg| arg.span == *span)
                || first.is_some_and(|first| {
                    matches!(first.kind, FormKind::List(_)) && inside(first, span)
                })
        };
        let found = &self.unbound[at + 1..];
        let elsewhere = |name: &str| {
            let mut others = found.iter().filter(|(other, _)| other == name);
            others.any(|(_, span)| !in_pattern(span))
        };
        let bound = |(name, span): &&(String, Span)| match form {
            true => direct(span) || in_pattern(span),
            false => in_pattern(span) && elsewhere(name),
        };
        let bound: HashSet<String> = found
            .iter()
            .filter(bound)
            .map(|(name, _)| name.clone())
            .collect();
        let mut index = 0;
        self.unbound.retain(|(name, _)| {
            index += 1;
            index <= at + 1 || !bound.contains(name)
        });
    }
}

/// The `()` that `form` may evaluate to.
fn empty_list<'f>(form: &'f Form<'f>) -> Option<&'f Form<'f>> {
    let FormKind::List(items) = &form.kind else {
        return None;
    };
    let Some((head, args)) = items.split_first() else {
        return Some(form);
    };
    let values = match head.kind {
        FormKind::Symbol("or") => args,
        FormKind::Symbol("if" | "if-not" | "if-let" | "if-some") | FormKind::Keyword(_) => {
            args.get(1..)?
        }
        FormKind::Symbol("get" | "get-in") => args.get(2..)?,
        FormKind::Symbol("do" | "let" | "when" | "when-not" | "when-let" | "when-some") => {
            args.last().map(std::slice::from_ref)?
        }
        _ => return None,
    };
    values.iter().find_map(empty_list)
}

/// The error for `budget/remaining` with arguments.
pub(super) fn budget_usage(span: Span) -> Error {
    Kind::Usage {
        expected: "(budget/remaining)",
    }
    .at(span)
}

/// The cheapest IR for a call of a known builtin.
pub(super) fn builtin_call(builtin: &'static Builtin, args: Box<[Ir]>, span: Span) -> Ir {
    if !builtin.arity.accepts(args.len()) {
        return Ir::BuiltinN(Box::new((builtin, args, span)));
    }
    let args_count = args.len();
    let mut parts = args.into_vec();
    for items in &mut parts[builtin.consumes.of(args_count)] {
        make_lazy(items);
    }
    match parts.len() {
        1 => {
            let a = parts.pop().expect("one");
            Ir::Builtin1(Box::new((builtin, a, span)))
        }
        2 => {
            let b = parts.pop().expect("two");
            let a = parts.pop().expect("two");
            match Op::of(builtin) {
                Some(op) => Ir::Op(Box::new((op, builtin, a, b, span))),
                None => Ir::Builtin2(Box::new((builtin, a, b, span))),
            }
        }
        3 => {
            let c = parts.pop().expect("three");
            let b = parts.pop().expect("three");
            let a = parts.pop().expect("three");
            Ir::Builtin3(Box::new((builtin, a, b, c, span)))
        }
        _ => Ir::BuiltinN(Box::new((builtin, parts.into_boxed_slice(), span))),
    }
}

/// Makes a call whose items the enclosing call consumes one by one produce them lazily (`seqs.unkept`).
///
/// Its own arguments were already handled when its call was analysed.
pub(super) fn make_lazy(ir: &mut Ir) {
    let lazy = match ir {
        Ir::Builtin1(call) => call.0.lazy,
        Ir::Builtin2(call) => call.0.lazy,
        Ir::Builtin3(call) => call.0.lazy,
        Ir::BuiltinN(call) => call.0.lazy,
        _ => None,
    };
    if lazy.is_none() {
        return;
    }
    *ir = Ir::Lazy(match std::mem::replace(ir, Ir::Const(Value::Nil)) {
        Ir::Builtin1(call) => Box::new((call.0, Box::new([call.1]), call.2)),
        Ir::Builtin2(call) => Box::new((call.0, Box::new([call.1, call.2]), call.3)),
        Ir::Builtin3(call) => Box::new((call.0, Box::new([call.1, call.2, call.3]), call.4)),
        Ir::BuiltinN(call) => call,
        other => {
            *ir = other;
            return;
        }
    });
}
