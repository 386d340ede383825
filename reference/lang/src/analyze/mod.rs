//! The analyzer: turns forms into IR and finds every static error. Knows names and scopes; knows nothing of run-time
//! values.

mod calls;
mod effects;
mod forms;
mod functions;
pub mod ir;
mod literals;
mod liveness;
mod names;
mod scope;
mod suggest;

pub(crate) use suggest::nearest;

use std::collections::HashSet;
use std::sync::Arc;

use crate::builtins::{self};
use crate::env::Names;
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::meter::Watch;
use crate::regex::Regex;
use crate::value::Value;
use effects::Effects;
pub use forms::{SPECIAL_FORMS, SpecialForm};
use functions::Origin;
use ir::{Ir, Lambda, SourcePosition};
use scope::{FnScope, Scopes};

/// The deepest nesting of an analysed program, counting the special forms in threading macros and the clauses of `for`.
/// A program that nests deeper is refused.
const LEVELS_MAX: u32 = 500;
/// Expressions between two checks of the clock and of memory.
const FUEL: u32 = 1024;

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
        names::collect_definitions(forms, &mut analyzer.defined);
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
}
