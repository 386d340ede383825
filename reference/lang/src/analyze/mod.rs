//! The analyzer: turns forms into IR and finds every static error. Knows names and scopes; knows nothing of run-time
//! values.

mod forms;
pub mod ir;
mod liveness;
mod scope;
mod suggest;

pub(crate) use suggest::nearest;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::builtins::{self, Builtin};
use crate::env::Names;
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::heap;
use crate::meter::Watch;
use crate::regex::Regex;
use crate::value::{Text, Value};
pub use forms::{SPECIAL_FORMS, SpecialForm};
use ir::{Call, Global, Ir, Lambda, MakeFn, Op, Pattern, SourcePosition, SourceText};
use scope::{FnScope, Scopes, Storage};

/// The deepest nesting of an analysed program, counting the special forms in threading macros and the clauses of `for`.
/// A program that nests deeper is refused.
const LEVELS_MAX: u32 = 500;
/// Expressions between two checks of the clock and of memory.
const FUEL: u32 = 1024;
/// The number of unbound names that get a suggestion: each is compared with every known name.
const SUGGESTIONS_MAX: usize = 20;

/// The analysed program with the stack that it needs.
pub(crate) struct Analysis {
    /// The top-level expressions in order.
    pub body: Vec<Ir>,
    /// The number of slots that top-level bindings need.
    pub slots: u32,
    pub levels: u32,
}

/// Analyses the forms of a program.
///
/// `names` gains the globals that the program defines. `turn` is the program's turn, where turns are counted.
pub(crate) fn analyze(
    text: &str,
    forms: &[Form<'_>],
    turn: u64,
    names: &mut Arc<Names>,
    watch: &dyn Watch,
) -> Result<Analysis, Error> {
    let mut analyzer = Analyzer::new(text, names, watch, SourcePosition::start_of_turn(turn));
    // Most programs define nothing, and a scan of bytes is cheaper than a walk over forms.
    if text.contains("(def") {
        collect_definitions(forms, &mut analyzer.defined);
    }
    let mut body = Vec::with_capacity(forms.len());
    for form in forms {
        let mut ir = analyzer.top_level(form)?;
        liveness::mark_top(&mut ir, analyzer.deepest);
        body.push(ir);
    }
    if !analyzer.unbound.is_empty() {
        return Err(analyzer.unbound_error());
    }
    if let Some((name, span)) = method_after_value(forms) {
        let problem = format!(
            "`{name}` stands right behind a value, which it is not called with; write ({name} value)"
        );
        return Err(Kind::Form(problem).at(span));
    }
    Ok(Analysis {
        body,
        slots: analyzer.scope().slots_max,
        levels: analyzer.deepest,
    })
}

/// The functions of a top-level expression in order, each with the number of values that it captures, made again from
/// `text`, which was originally written at `written`. Of the names that the expression uses, only those in `globals`
/// are globals, whatever `names` contains.
pub(crate) fn functions(
    text: &str,
    forms: &[Form<'_>],
    written: SourcePosition,
    globals: &[Arc<str>],
    names: &mut Arc<Names>,
    watch: &dyn Watch,
) -> Result<Vec<(Arc<Lambda>, usize)>, Error> {
    let mut analyzer = Analyzer::new(text, names, watch, written);
    analyzer.known_globals = Some(globals.iter().map(|name| &**name).collect());
    let [form] = forms else {
        return Ok(Vec::new());
    };
    analyzer.top_level(form)?;
    Ok(analyzer.origin.functions)
}

/// Finds a method name directly after a value, as in other languages. Read as two expressions, the program would return
/// the method itself.
fn method_after_value<'a>(forms: &[Form<'a>]) -> Option<(&'a str, Span)> {
    forms.windows(2).find_map(|pair| match &pair[1].kind {
        FormKind::Symbol(name)
            if name.starts_with('.') && pair[0].span.end == pair[1].span.start =>
        {
            Some((*name, pair[1].span))
        }
        _ => None,
    })
}

/// All special forms, in the order of the table.
pub fn special_forms() -> &'static [SpecialForm] {
    SPECIAL_FORMS
}

/// Collects every name that a `def` anywhere in the program may bind (`names.known`).
fn collect_definitions<'a>(forms: &'a [Form<'a>], found: &mut HashSet<&'a str>) {
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

/// How much of a call's arguments is known.
#[derive(Clone, Copy)]
enum KnownArguments {
    All,
    /// Only the first ones.
    Some,
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

pub(crate) struct Analyzer<'p, 'e> {
    text: &'p str,
    names: &'e mut Arc<Names>,
    watch: &'e dyn Watch,
    /// Expressions until the next check.
    fuel: u32,
    defined: HashSet<&'p str>,
    scopes: Scopes,
    /// Unbound names, in order, once per use.
    unbound: Vec<(String, Span)>,
    /// The regex literals in the order in which they were found.
    regexes: Vec<Arc<Regex>>,
    level: u32,
    deepest: u32,
    origin: Origin,
    /// A byte offset in the text, and its line and column.
    written: (usize, SourcePosition),
    /// When a stored expression is analysed again: the only names that are globals.
    known_globals: Option<HashSet<&'p str>>,
    /// The effects of the code of each enclosing function, innermost last.
    effects: Vec<Effects>,
}

/// What the code of a function may do.
#[derive(Default)]
struct Effects {
    /// [`Lambda::has_effects`]
    has_effects: bool,
    /// [`Lambda::globals`]
    globals: Vec<u32>,
    /// Indices of the captures that it calls.
    called: Vec<u32>,
}

/// What is recorded about a top-level expression during analysis, so that its functions can be made again from its
/// text.
#[derive(Default)]
struct Origin {
    /// The text of the expression; `None` until it contains a function.
    source: Option<Arc<SourceText>>,
    /// The span of the expression.
    span: Span,
    /// Indices of names read as globals, once per use.
    globals: Vec<u32>,
    /// Names that the expression itself made known, and that were not collected before it was analysed.
    own: HashSet<u32, foldhash::fast::FixedState>,
    /// The functions in the order in which their analysis ended, each with the number of values that it captures.
    functions: Vec<(Arc<Lambda>, usize)>,
}

impl<'p, 'e> Analyzer<'p, 'e> {
    fn new(
        text: &'p str,
        names: &'e mut Arc<Names>,
        watch: &'e dyn Watch,
        written: SourcePosition,
    ) -> Self {
        Analyzer {
            text,
            names,
            watch,
            fuel: FUEL,
            defined: HashSet::new(),
            scopes: Scopes::new(),
            unbound: Vec::new(),
            regexes: Vec::new(),
            level: 0,
            deepest: 0,
            origin: Origin::default(),
            written: (0, written),
            known_globals: None,
            effects: vec![Effects::default()],
        }
    }

    fn top_level(&mut self, form: &Form<'_>) -> Result<Ir, Error> {
        self.origin = Origin {
            span: form.span,
            ..Origin::default()
        };
        let ir = self.expr(form)?;
        if let Some(source) = &self.origin.source {
            let names = &self.names;
            let mut globals: Vec<_> = std::mem::take(&mut self.origin.globals)
                .into_iter()
                .map(|id| names.shared(id))
                .collect();
            globals.sort_unstable();
            globals.dedup();
            let _ = source.globals.set(globals.into());
        }
        Ok(ir)
    }

    /// An expression that is not in tail position.
    fn expr(&mut self, form: &Form<'_>) -> Result<Ir, Error> {
        self.analyze(form, false)
    }

    /// An expression. It is in `tail` position when its value is the result of the innermost loop or function.
    fn analyze(&mut self, form: &Form<'_>, tail: bool) -> Result<Ir, Error> {
        self.level += 1;
        self.deepest = self.deepest.max(self.level);
        self.check_level(self.level, form.span)?;
        self.fuel -= 1;
        if self.fuel == 0 {
            self.fuel = FUEL;
            self.check_limits()?;
        }
        // The reader bounds nesting, but threading macros nest their steps.
        let result = stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.form(form, tail));
        self.level -= 1;
        result
    }

    fn check_limits(&self) -> Result<(), Error> {
        self.watch
            .check_limits()
            .map_err(|limit| limit.kind().into_error())
    }

    /// Refuses an expansion that would be `more` levels deeper than the current form, before it is built.
    fn check_expansion(&self, more: usize, span: Span) -> Result<(), Error> {
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.check_level(self.level.saturating_add(more), span)
    }

    /// Runs `inside` as if its forms were `more` levels deeper.
    fn with_levels<T>(&mut self, more: u32, inside: impl FnOnce(&mut Self) -> T) -> T {
        self.level += more;
        self.deepest = self.deepest.max(self.level);
        let result = inside(self);
        self.level -= more;
        result
    }

    fn check_level(&self, level: u32, span: Span) -> Result<(), Error> {
        if level <= LEVELS_MAX {
            return Ok(());
        }
        Err(Kind::Form(format!(
            "the program nests deeper than {LEVELS_MAX} levels, special forms in threading macros and clauses of for included"
        ))
        .at(span))
    }

    fn form(&mut self, form: &Form<'_>, tail: bool) -> Result<Ir, Error> {
        Ok(match &form.kind {
            FormKind::Nil => Ir::Const(Value::Nil),
            FormKind::Bool(value) => Ir::Const(Value::Bool(*value)),
            FormKind::Int(value) => Ir::Const(Value::Int(*value)),
            FormKind::BigInt(value) => Ir::Const(Value::integer(value.clone())),
            FormKind::Float(value) => Ir::Const(Value::Float(*value)),
            FormKind::Str(text) => Ir::Const(Value::str(&**text)),
            FormKind::Regex(pattern) => Ir::Const(self.regex(pattern, form.span)?),
            FormKind::Keyword(name) => Ir::Const(Value::keyword(*name)),
            FormKind::Symbol(name) => self.symbol(name, form.span)?,
            FormKind::List(items) => self.list(items, form, tail)?,
            FormKind::Vector(items) => self.vector(items)?,
            FormKind::Set(items) => self.set(items)?,
            FormKind::Map(items) => self.map(items)?,
            FormKind::AnonFn(items) => self.anonymous(items, form.span)?,
            FormKind::Quote(quoted) => Ir::Const(self.quoted(quoted)?),
            FormKind::VarQuote(name) => self.var_quote(name, form.span),
        })
    }

    fn vector(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
        let parts = self.all(items)?;
        if parts.iter().all(|part| matches!(part, Ir::Const(_))) {
            return Ok(Ir::Const(Value::vector(
                parts.into_vec().into_iter().map(constant).collect(),
            )));
        }
        Ok(Ir::Vector(parts))
    }

    fn set(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
        let parts = self.all(items)?;
        self.refuse_duplicates("element", "set", items.iter().zip(&parts))?;
        if parts.iter().all(|part| matches!(part, Ir::Const(_))) {
            return Ok(Ir::Const(Value::Set(
                parts.into_vec().into_iter().map(constant).collect(),
            )));
        }
        Ok(Ir::Set(parts))
    }

    fn map(&mut self, items: &[Form<'_>]) -> Result<Ir, Error> {
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

    fn all(&mut self, items: &[Form<'_>]) -> Result<Box<[Ir]>, Error> {
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            all.push(self.expr(item)?);
        }
        Ok(all.into())
    }

    /// A body, whose value is that of its last expression.
    fn body(&mut self, forms: &[Form<'_>], tail: bool) -> Result<Ir, Error> {
        match forms {
            [] => Ok(Ir::Const(Value::Nil)),
            [only] => self.analyze(only, tail),
            [first @ .., last] => {
                let mut parts = Vec::with_capacity(forms.len());
                for form in first {
                    parts.push(self.expr(form)?);
                }
                parts.push(self.analyze(last, tail)?);
                Ok(Ir::Do(parts.into_boxed_slice()))
            }
        }
    }

    fn list(&mut self, items: &[Form<'_>], form: &Form<'_>, tail: bool) -> Result<Ir, Error> {
        let Some((head, args)) = items.split_first() else {
            return Ok(Ir::Const(Value::from(Vec::new())));
        };
        if let FormKind::Symbol(name) = head.kind {
            self.reject_empty_list_target(head, args)?;
            if let Some(special) = forms::special(name)
                && !self.shadows(name)
            {
                return special(
                    self,
                    forms::FormUse {
                        args,
                        span: form.span,
                        tail,
                    },
                );
            }
            if let Some(method) = name.strip_prefix('.')
                && builtins::lookup(name).is_none()
                && !method.is_empty()
            {
                // The arguments are never evaluated, but are analysed like any part of the program.
                self.all(args)?;
                let error = Kind::Method(name.to_owned()).at(head.span);
                return Ok(Ir::Raise(Box::new(error)));
            }
        }
        self.call(head, args, form.span)
    }

    /// Refuses a call that starts to build a collection on `()`: in Clojure, `conj` adds to the front of a list.
    fn reject_empty_list_target(&self, head: &Form<'_>, args: &[Form<'_>]) -> Result<(), Error> {
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

    /// Whether a local, or a definition above, shadows the special form `name`.
    fn shadows(&self, name: &str) -> bool {
        if forms::is_fixed(name) {
            return false;
        }
        let defined = match &self.known_globals {
            None => self.names.get(name).is_some(),
            Some(only) => only.contains(name),
        };
        defined || self.scopes.binds(name)
    }

    fn call(&mut self, head: &Form<'_>, args: &[Form<'_>], span: Span) -> Result<Ir, Error> {
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

    fn effects(&mut self) -> &mut Effects {
        self.effects.last_mut().expect("the top level has effects")
    }

    /// Notes that the code has a visible effect.
    fn note_effect(&mut self) {
        self.effects().has_effects = true;
    }

    /// Notes a call of `callee`. A function in a local may have any effect.
    fn note_call(&mut self, callee: &Ir) {
        match callee {
            // Either known, or checked later with the globals of the function.
            Ir::Const(_) | Ir::Global(_) | Ir::Itself | Ir::Fn(_) => {}
            Ir::Capture(at) => self.effects().called.push(*at),
            _ => self.note_effect(),
        }
    }

    /// Notes which of `args` `callee` may call.
    fn note_arguments(&mut self, callee: &Ir, args: &mut dyn Iterator<Item = &Ir>) {
        if let Ir::Const(Value::Builtin(builtin)) = callee
            && self.effects.len() > 1
        {
            let args: SmallVec<[&Ir; 8]> = args.collect();
            self.note_called(builtin, &args);
        }
    }

    fn note_called(&mut self, builtin: &Builtin, args: &[&Ir]) {
        for (at, &arg) in args.iter().enumerate() {
            let is_plain = matches!(arg, Ir::Const(value) if !matches!(value, Value::Builtin(_)));
            if is_plain || !builtin.calls(at, args.len()) {
                continue;
            }
            match arg {
                // A function that calls its arguments may be given an unknown function.
                Ir::Const(Value::Builtin(given)) if given.calls_any() => self.note_effect(),
                made if made.is_made_function() => {}
                arg => self.note_call(arg),
            }
        }
        // These pass the arguments after a function on to it.
        if matches!(builtin.name, "apply" | "partial")
            && let Some((Ir::Const(Value::Builtin(given)), rest)) = args.split_first()
        {
            self.note_called(given, rest);
        }
    }

    fn symbol(&mut self, name: &str, span: Span) -> Result<Ir, Error> {
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

    fn var_quote(&mut self, name: &str, span: Span) -> Ir {
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
    fn global(&mut self, name: &str) -> Option<u32> {
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
    fn define_name(&mut self, name: &str) -> u32 {
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

    /// Binds `name` from here on and returns its slot.
    fn bind(&mut self, name: &str) -> u32 {
        self.scopes.bind(name)
    }

    fn scope(&mut self) -> &mut FnScope {
        self.scopes.current()
    }

    /// Runs `inside`; the bindings that it makes end with it.
    fn block<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let mark = self.scopes.mark();
        let result = inside(self);
        self.scopes.release(mark);
        result
    }

    /// A function with these `params` and this `body`; `name` is bound in the body.
    fn function(
        &mut self,
        name: Option<&str>,
        display: Option<&str>,
        params: &[Form<'_>],
        body: &[Form<'_>],
        span: Span,
    ) -> Result<Ir, Error> {
        let live = heap::thread_balance();
        let regexes = self.regexes.len();
        self.scopes.enter(name);
        self.effects.push(Effects::default());
        let outer_level = std::mem::take(&mut self.level);
        let outer_deepest = std::mem::take(&mut self.deepest);
        let heading = heading(params, body);
        let made = self.function_code(params, body);
        let levels = std::mem::replace(&mut self.deepest, outer_deepest.max(outer_level + 1));
        self.level = outer_level;
        let scope = self.scopes.leave();
        let mut effects = self.effects.pop().unwrap_or_default();
        effects.globals.sort_unstable();
        effects.globals.dedup();
        self.effects().has_effects |= effects.has_effects;
        self.effects().globals.extend(&effects.globals);
        // A capture may be a local of the enclosing function, unknown when that function is checked.
        for at in effects.called {
            let called = scope.captures[at as usize].read();
            self.note_call(&called);
        }
        let (params, rest, plain, body) = made?;
        let mut lambda = Lambda {
            name: display.map(Text::from),
            heading,
            params,
            rest,
            plain,
            slots: scope.slots_max,
            body,
            levels,
            span,
            source: self.function_source(),
            has_effects: effects.has_effects,
            globals: effects.globals.into_boxed_slice(),
            // Memory that analysis itself holds for a while is counted too; that is little.
            code_bytes: usize::try_from(heap::thread_balance() - live).unwrap_or(0)
                + size_of::<Lambda>(),
            regexes: self.regexes[regexes..].into(),
        };
        liveness::mark_lambda(&mut lambda);
        let captures: Box<[Ir]> = scope.captures.iter().map(|place| place.read()).collect();
        let lambda = Arc::new(lambda);
        self.origin
            .functions
            .push((Arc::clone(&lambda), captures.len()));
        Ok(Ir::Fn(Box::new(MakeFn { lambda, captures })))
    }

    /// The text of the top-level expression that contains a function, and the function's number in it.
    fn function_source(&mut self) -> (Arc<SourceText>, u32) {
        let (text, span) = (self.text, self.origin.span);
        let written = &mut self.written;
        let source = self.origin.source.get_or_insert_with(|| {
            // Expressions come in order, so the text is scanned only once.
            let passed = text.get(written.0..span.start as usize);
            *written = (span.start as usize, written.1.after(passed.unwrap_or("")));
            Arc::new(SourceText {
                text: span.of(text).into(),
                start: span.start,
                written: written.1,
                globals: OnceLock::new(),
            })
        });
        (Arc::clone(source), self.origin.functions.len() as u32)
    }

    #[allow(clippy::type_complexity)]
    fn function_code(
        &mut self,
        params: &[Form<'_>],
        body: &[Form<'_>],
    ) -> Result<(Box<[Pattern]>, Option<Pattern>, bool, Ir), Error> {
        let (params, rest) = self.parameters(params)?;
        // Plain arguments must fill slots 0, 1, … in order.
        let plain = rest.is_none()
            && params
                .iter()
                .enumerate()
                .all(|(at, param)| matches!(param, Pattern::Slot(slot) if *slot == at as u32));
        self.scope().recur = Some(params.len() + usize::from(rest.is_some()));
        let body = self.body(body, true)?;
        Ok((params, rest, plain, body))
    }

    fn unbound_error(&self) -> Error {
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

    fn regex(&mut self, pattern: &str, span: Span) -> Result<Value, Error> {
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
    fn quoted(&mut self, form: &Form<'_>) -> Result<Value, Error> {
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

/// The error for `budget/remaining` with arguments.
fn budget_usage(span: Span) -> Error {
    Kind::Usage {
        expected: "(budget/remaining)",
    }
    .at(span)
}

/// The parameters as text. The placeholders of an anonymous function become `p1`, `p2`, ….
fn heading(params: &[Form<'_>], body: &[Form<'_>]) -> Text {
    // With several arities, each one is listed.
    if let (
        [
            _,
            Form {
                kind: FormKind::Symbol("\0args"),
                ..
            },
        ],
        [only],
    ) = (params, body)
        && let FormKind::List(items) = &only.kind
    {
        let shown = items.iter().filter_map(|clause| match &clause.kind {
            FormKind::List(parts) => match parts.first().map(|params| &params.kind) {
                Some(FormKind::Vector(params)) => Some(heading(params, &[])),
                _ => None,
            },
            _ => None,
        });
        let shown: Vec<String> = shown.map(|heading| heading.to_string()).collect();
        return Text::from(shown.join("] [").as_str());
    }
    let shown = params.iter().map(|param| match param.kind {
        FormKind::Symbol(name) => match name.strip_prefix('%') {
            Some("") => "p1".into(),
            Some("&") => "more".into(),
            Some(number) => format!("p{number}"),
            None => name.to_owned(),
        },
        _ => "_".into(),
    });
    Text::from(shown.collect::<Vec<_>>().join(" ").as_str())
}

/// The cheapest IR for a call of a known builtin.
fn builtin_call(builtin: &'static Builtin, args: Box<[Ir]>, span: Span) -> Ir {
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
fn make_lazy(ir: &mut Ir) {
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

fn constant(ir: Ir) -> Value {
    match ir {
        Ir::Const(value) => value,
        _ => Value::Nil,
    }
}

/// Where a name is stored.
impl Storage {
    fn read(self) -> Ir {
        match self {
            Storage::Slot(slot) => Ir::Local { slot, last: false },
            Storage::Capture(at) => Ir::Capture(at),
            Storage::Itself => Ir::Itself,
        }
    }
}
