//! The special forms: one table, and below it how each is analysed. Knows nothing of evaluation.

use super::ir::{
    Case, Clause, Def, For, IfLet, Ir, Loop, MapEntryPattern, MapPattern, Pattern, SequencePattern,
    SomeChain, Test,
};
use super::{Analyzer, Forms};
use crate::builtins::{self, Section};
use crate::error::{Error, Kind};
use crate::form::{Form, FormKind, Span};
use crate::value::{Text, Value};

type Analyze = fn(&mut Analyzer<'_, '_>, &[Form<'_>], Span, bool) -> Result<Ir, Error>;

/// A row of the table of special forms.
pub struct SpecialForm {
    /// As written.
    pub name: &'static str,
    /// The section of the specification.
    pub id: &'static str,
    /// Where listings put it.
    pub section: Section,
    /// The shape that it has.
    pub signature: &'static str,
    /// One sentence.
    pub doc: &'static str,
    analyze: Analyze,
}

const fn row(
    name: &'static str,
    id: &'static str,
    section: Section,
    signature: &'static str,
    doc: &'static str,
    analyze: Analyze,
) -> SpecialForm {
    SpecialForm {
        name,
        id,
        section,
        signature,
        doc,
        analyze,
    }
}

use Section::{AgentControl, Conditionals, ControlFlow, Core, Definitions, Iteration, Threading};

/// Every special form.
pub const SPECIAL_FORMS: &[SpecialForm] = &[
    row(
        "def",
        "forms.def",
        Definitions,
        "(def name value) or (def name docstring value)",
        "Defines a global, wherever it is executed, and returns its var.",
        def,
    ),
    row(
        "defn",
        "forms.defn",
        Definitions,
        "(defn name [params] body)",
        "Defines a global function.",
        defn,
    ),
    row(
        "defonce",
        "forms.defonce",
        Definitions,
        "(defonce name value) or (defonce name docstring value)",
        "Defines a global unless it is defined already.",
        defonce,
    ),
    row(
        "fn",
        "forms.fn",
        Definitions,
        "(fn [params] body ...)",
        "Makes a function, which may have a name of its own.",
        function,
    ),
    row(
        "let",
        "forms.let",
        Definitions,
        "(let [bindings] body ...)",
        "Binds names in turn and evaluates a body with them.",
        let_form,
    ),
    row(
        "loop",
        "forms.loop",
        Definitions,
        "(loop [bindings] body ...)",
        "Binds names like let; recur in its body goes round again.",
        loop_form,
    ),
    row(
        "recur",
        "forms.recur",
        Definitions,
        "(recur args ...)",
        "Goes round the innermost loop or function with new values.",
        recur,
    ),
    row(
        "case",
        "forms.case",
        Conditionals,
        "(case expr constant result ... default?)",
        "Picks the result whose constant equals a value.",
        case,
    ),
    row(
        "cond",
        "forms.cond",
        Conditionals,
        "(cond test result ...)",
        "Picks the result of the first test that holds.",
        cond,
    ),
    row(
        "condp",
        "forms.condp",
        Conditionals,
        "(condp pred expr test result ... default?)",
        "Picks the result whose test stands in a relation to a value.",
        condp,
    ),
    row(
        "if",
        "forms.if",
        Conditionals,
        "(if cond then else)",
        "Evaluates one of two expressions.",
        if_form,
    ),
    row(
        "if-let",
        "forms.if-let",
        Conditionals,
        "(if-let [name expr] then else)",
        "Binds a value and branches on whether it is true.",
        if_let,
    ),
    row(
        "if-not",
        "forms.if-not",
        Conditionals,
        "(if-not cond then else)",
        "Evaluates one of two expressions, the first when the test fails.",
        if_not,
    ),
    row(
        "if-some",
        "forms.if-some",
        Conditionals,
        "(if-some [name expr] then else)",
        "Binds a value and branches on whether it is not nil.",
        if_some,
    ),
    row(
        "when",
        "forms.when",
        Conditionals,
        "(when cond body ...)",
        "Evaluates a body when a test holds.",
        when,
    ),
    row(
        "when-first",
        "forms.when-first",
        Conditionals,
        "(when-first [name coll] body ...)",
        "Binds the first item of a collection that has one and evaluates a body.",
        when_first,
    ),
    row(
        "when-let",
        "forms.when-let",
        Conditionals,
        "(when-let [name expr] body ...)",
        "Binds a value and evaluates a body when it is true.",
        when_let,
    ),
    row(
        "when-not",
        "forms.when-not",
        Conditionals,
        "(when-not cond body ...)",
        "Evaluates a body when a test fails.",
        when_not,
    ),
    row(
        "when-some",
        "forms.when-some",
        Conditionals,
        "(when-some [name expr] body ...)",
        "Binds a value and evaluates a body when it is not nil.",
        when_some,
    ),
    row(
        "->",
        "forms.thread-first",
        Threading,
        "(-> expr form ...)",
        "Puts each result into the next form as its first argument.",
        thread_first,
    ),
    row(
        "->>",
        "forms.thread-last",
        Threading,
        "(->> expr form ...)",
        "Puts each result into the next form as its last argument.",
        thread_last,
    ),
    row(
        "as->",
        "forms.as-thread",
        Threading,
        "(as-> expr name form ...)",
        "Binds each result to a name for the next form.",
        as_thread,
    ),
    row(
        "cond->",
        "forms.cond-thread",
        Threading,
        "(cond-> expr test form ...)",
        "Threads first through the forms whose tests hold.",
        cond_thread_first,
    ),
    row(
        "cond->>",
        "forms.cond-thread",
        Threading,
        "(cond->> expr test form ...)",
        "Threads last through the forms whose tests hold.",
        cond_thread_last,
    ),
    row(
        "some->",
        "forms.some-thread",
        Threading,
        "(some-> expr form ...)",
        "Threads first until a result is nil.",
        some_thread_first,
    ),
    row(
        "some->>",
        "forms.some-thread",
        Threading,
        "(some->> expr form ...)",
        "Threads last until a result is nil.",
        some_thread_last,
    ),
    row(
        "and",
        "forms.and",
        ControlFlow,
        "(and expr ...)",
        "Returns the first value that is false or nil, else the last one.",
        and,
    ),
    row(
        "comment",
        "forms.comment",
        ControlFlow,
        "(comment ...)",
        "Ignores what is inside and returns nil.",
        comment,
    ),
    row(
        "do",
        "forms.do",
        ControlFlow,
        "(do expr ...)",
        "Evaluates expressions in turn and returns the last value.",
        do_form,
    ),
    row(
        "or",
        "forms.or",
        ControlFlow,
        "(or expr ...)",
        "Returns the first value that is neither false nor nil, else the last one.",
        or,
    ),
    row(
        "doseq",
        "forms.doseq",
        Iteration,
        "(doseq [bindings] body ...)",
        "Evaluates a body for every combination of items and returns nil.",
        doseq,
    ),
    row(
        "for",
        "forms.for",
        Iteration,
        "(for [bindings] body ...)",
        "Collects the value of a body for every combination of items.",
        for_form,
    ),
    row(
        "quote",
        "forms.quote",
        Core,
        "(quote symbol)",
        "Returns a symbol, or data, unevaluated.",
        quote,
    ),
    row(
        "step-done",
        "tasks.step-done",
        AgentControl,
        "(step-done id summary)",
        "Records the summary of a finished step and returns it.",
        step_done,
    ),
    row(
        "task-reset",
        "tasks.task-reset",
        AgentControl,
        "(task-reset id)",
        "Forgets the remembered value of a task.",
        task_reset,
    ),
    row(
        "task",
        "tasks.task",
        AgentControl,
        "(task \"id\" expr)",
        "Evaluates an expression once per id and remembers its value.",
        task,
    ),
];

/// How the special form `name` is analysed.
pub fn special(name: &str) -> Option<Analyze> {
    // Names of special forms begin with few letters, and most calls are of functions.
    if !matches!(
        name.as_bytes().first(),
        Some(
            b'a' | b'c'
                | b'd'
                | b'f'
                | b'i'
                | b'l'
                | b'o'
                | b'q'
                | b'r'
                | b's'
                | b't'
                | b'w'
                | b'-'
        )
    ) {
        return None;
    }
    SPECIAL_FORMS
        .iter()
        .find(|form| form.name == name)
        .map(|form| form.analyze)
}

/// The names of all special forms.
pub fn names() -> impl Iterator<Item = &'static str> {
    SPECIAL_FORMS.iter().map(|form| form.name)
}

/// The malformed use of a form, with the shape that it has.
fn usage(name: &str, span: Span) -> Error {
    let expected = SPECIAL_FORMS
        .iter()
        .find(|form| form.name == name)
        .map_or("another form", |form| form.signature);
    Kind::Usage { expected }.at(span)
}

fn invalid(problem: impl Into<String>, span: Span) -> Error {
    Kind::Form(problem.into()).at(span)
}

// --- definitions

fn def(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, _tail: bool) -> Result<Ir, Error> {
    define(a, "def", args, span, false)
}

fn defonce(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    define(a, "defonce", args, span, true)
}

fn define(
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
    // A function literal takes the name that it is defined under.
    let value = match &value.kind {
        FormKind::List(items) => match items.as_slice() {
            [head, params, body @ ..]
                if matches!(head.kind, FormKind::Symbol("fn")) && !a.is_local("fn") =>
            {
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

fn global_name<'a>(form: &str, name: &Form<'a>) -> Result<&'a str, Error> {
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

fn defn(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, _tail: bool) -> Result<Ir, Error> {
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
            return Err(invalid(
                "defn takes one parameter vector; several arities are not supported, use & rest",
                params.span,
            ));
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

fn function(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
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

impl<'p> Analyzer<'p, '_> {
    /// The position of a global that this program defines.
    fn define_name(&mut self, name: &str) -> u32 {
        match self.names.get(name) {
            Some(id) => id,
            None => std::sync::Arc::make_mut(self.names).intern(name),
        }
    }

    /// `#(…)`
    pub(super) fn anonymous(&mut self, items: &[Form<'_>], span: Span) -> Result<Ir, Error> {
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
        let mut params: Forms<'_> = NAMES[..uses.highest]
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
                kind: FormKind::List(items.to_vec()),
                span,
            }],
        };
        if uses.bare && uses.first {
            let bindings = Form {
                kind: FormKind::Vector(vec![symbol("%1"), symbol("%")]),
                span,
            };
            let mut wrapped = vec![symbol("let"), bindings];
            wrapped.append(&mut body);
            body = vec![Form {
                kind: FormKind::List(wrapped),
                span,
            }];
        }
        self.function(None, None, &params, &body, span)
    }

    pub(super) fn parameters(
        &mut self,
        params: &[Form<'_>],
    ) -> Result<(Box<[Pattern]>, Option<Pattern>), Error> {
        let (items, rest) = split_rest(params)?;
        // Parameters take the first slots, so that arguments can be the frame as they are; what
        // destructuring binds comes behind them.
        let items = items
            .iter()
            .map(|item| self.pattern(item))
            .collect::<Result<Box<[_]>, _>>()?;
        let rest = rest.map(|rest| self.pattern(rest)).transpose()?;
        Ok((items, rest))
    }

    fn pattern(&mut self, form: &Form<'_>) -> Result<Pattern, Error> {
        match &form.kind {
            FormKind::Symbol(name) => {
                local_name(name, form.span)?;
                Ok(Pattern::Slot(self.bind(name)))
            }
            FormKind::Vector(items) => self.sequence_pattern(items),
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

    fn sequence_pattern(&mut self, items: &[Form<'_>]) -> Result<Pattern, Error> {
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
        })))
    }

    fn map_pattern(&mut self, items: &[Form<'_>], span: Span) -> Result<Pattern, Error> {
        let mut wanted: Vec<(Form<'_>, Value)> = Vec::new();
        let mut defaults: Vec<(&str, &Form<'_>)> = Vec::new();
        let mut all = None;
        for pair in items.chunks_exact(2) {
            let [left, right] = pair else { continue };
            match (&left.kind, &right.kind) {
                (FormKind::Keyword(kind @ ("keys" | "strs")), FormKind::Vector(names)) => {
                    for name in names {
                        let (FormKind::Symbol(text) | FormKind::Keyword(text)) = name.kind else {
                            return Err(invalid(
                                format!(":{kind} takes a vector of symbols"),
                                name.span,
                            ));
                        };
                        let key = if *kind == "keys" {
                            Value::keyword(text)
                        } else {
                            Value::str(text)
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
                (FormKind::Keyword("keys" | "strs"), _) => {
                    return Err(invalid(
                        ":keys and :strs take a vector of symbols",
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
                        defaults.push((name, &entry[1]));
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
                            "unsupported pattern {{:{other} …}}: map patterns know :keys, :strs, :or, :as and name key pairs"
                        ),
                        left.span,
                    ));
                }
                (_, key) => {
                    let key = match key {
                        FormKind::Keyword(name) => Value::keyword(*name),
                        FormKind::Str(text) => Value::str(&**text),
                        _ => {
                            return Err(invalid(
                                format!(
                                    "unsupported pattern: the key of a name must be a keyword or a string, not {}",
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
        let _ = span;
        let mut entries = Vec::with_capacity(wanted.len());
        for (target, key) in wanted {
            let default = match &target.kind {
                FormKind::Symbol(name) => defaults
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, form)| *form),
                _ => None,
            };
            // A default may use the names bound before it, not its own.
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
        })))
    }

    /// `[pattern value …]`
    fn bindings(&mut self, form: &str, bindings: &Form<'_>) -> Result<Box<[(Pattern, Ir)]>, Error> {
        let FormKind::Vector(items) = &bindings.kind else {
            return Err(invalid(
                format!("{form} bindings must be a vector"),
                bindings.span,
            ));
        };
        self.binding_pairs(form, items, bindings.span)
    }

    fn binding_pairs(
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
            let value = self.expr(&pair[1])?;
            pairs.push((self.pattern(&pair[0])?, value));
        }
        Ok(pairs.into_boxed_slice())
    }
}

/// Whether a form stands for a value without being called or looked up.
fn is_literal(kind: &FormKind<'_>) -> bool {
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

/// Patterns before `&`, and the one behind it.
fn split_rest<'f, 'a>(
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

fn local_name(name: &str, span: Span) -> Result<(), Error> {
    if name.contains('/') && name != "/" {
        return Err(invalid(
            format!("unsupported pattern {name}: a name with a namespace cannot be bound"),
            span,
        ));
    }
    Ok(())
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

fn let_form(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [bindings, body @ ..] = args else {
        return Err(usage("let", span));
    };
    a.block(|a| {
        let bindings = a.bindings("let", bindings)?;
        let body = a.body(body, tail)?;
        Ok(Ir::Let(Box::new((bindings, body))))
    })
}

fn loop_form(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
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
        })))
    })
}

fn recur(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, tail: bool) -> Result<Ir, Error> {
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
            accepts: crate::builtins::exactly(takes as u8),
            given: args.len(),
        }
        .at(span));
    }
    Ok(Ir::Recur(a.all(args)?))
}

// --- conditionals

fn if_form(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    match args {
        [test, then] => branch(a, test, Some(then), None, tail),
        [test, then, otherwise] => branch(a, test, Some(then), Some(otherwise), tail),
        _ => Err(usage("if", span)),
    }
}

fn if_not(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    match args {
        [test, then] => branch(a, test, None, Some(then), tail),
        [test, then, otherwise] => branch(a, test, Some(otherwise), Some(then), tail),
        _ => Err(usage("if-not", span)),
    }
}

fn branch(
    a: &mut Analyzer<'_, '_>,
    test: &Form<'_>,
    then: Option<&Form<'_>>,
    otherwise: Option<&Form<'_>>,
    tail: bool,
) -> Result<Ir, Error> {
    let test = a.expr(test)?;
    let mut part = |form: Option<&Form<'_>>| {
        form.map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))
    };
    let then = part(then)?;
    let otherwise = part(otherwise)?;
    Ok(Ir::If(Box::new((test, then, otherwise))))
}

fn when(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, tail: bool) -> Result<Ir, Error> {
    let [test, body @ ..] = args else {
        return Err(usage("when", span));
    };
    let test = a.expr(test)?;
    let body = a.body(body, tail)?;
    Ok(Ir::If(Box::new((test, body, Ir::Const(Value::Nil)))))
}

fn when_not(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [test, body @ ..] = args else {
        return Err(usage("when-not", span));
    };
    let test = a.expr(test)?;
    let body = a.body(body, tail)?;
    Ok(Ir::If(Box::new((test, Ir::Const(Value::Nil), body))))
}

fn if_let(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let (binding, then, otherwise) = match args {
        [binding, then] => (binding, then, None),
        [binding, then, otherwise] => (binding, then, Some(otherwise)),
        _ => return Err(usage("if-let", span)),
    };
    binding_branch(
        a,
        "if-let",
        Test::Truthy,
        binding,
        std::slice::from_ref(then),
        otherwise,
        span,
        tail,
    )
}

fn if_some(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let (binding, then, otherwise) = match args {
        [binding, then] => (binding, then, None),
        [binding, then, otherwise] => (binding, then, Some(otherwise)),
        _ => return Err(usage("if-some", span)),
    };
    binding_branch(
        a,
        "if-some",
        Test::Some,
        binding,
        std::slice::from_ref(then),
        otherwise,
        span,
        tail,
    )
}

fn when_let(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [binding, body @ ..] = args else {
        return Err(usage("when-let", span));
    };
    binding_branch(a, "when-let", Test::Truthy, binding, body, None, span, tail)
}

fn when_some(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [binding, body @ ..] = args else {
        return Err(usage("when-some", span));
    };
    binding_branch(a, "when-some", Test::Some, binding, body, None, span, tail)
}

fn when_first(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [binding, body @ ..] = args else {
        return Err(usage("when-first", span));
    };
    binding_branch(
        a,
        "when-first",
        Test::First,
        binding,
        body,
        None,
        span,
        tail,
    )
}

#[allow(clippy::too_many_arguments)]
fn binding_branch(
    a: &mut Analyzer<'_, '_>,
    form: &'static str,
    test: Test,
    binding: &Form<'_>,
    then: &[Form<'_>],
    otherwise: Option<&Form<'_>>,
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let FormKind::Vector(pair) = &binding.kind else {
        return Err(usage(form, span));
    };
    let [name, value] = pair.as_slice() else {
        return Err(usage(form, span));
    };
    let FormKind::Symbol(name) = name.kind else {
        return Err(invalid(
            format!("{form} binds one symbol; take the value apart with let inside"),
            name.span,
        ));
    };
    local_name(name, binding.span)?;
    let value = a.expr(value)?;
    let (slot, then) = a.block(|a| {
        let slot = a.bind(name);
        Ok((slot, a.body(then, tail)?))
    })?;
    let otherwise = otherwise.map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
    Ok(Ir::IfLet(Box::new(IfLet {
        slot,
        value,
        test,
        then,
        otherwise,
        span,
    })))
}

fn cond(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, tail: bool) -> Result<Ir, Error> {
    if !args.len().is_multiple_of(2) {
        return Err(invalid(
            "cond requires even number of forms: a test and a result in turn",
            span,
        ));
    }
    let mut clauses = Vec::with_capacity(args.len() / 2);
    for pair in args.chunks_exact(2) {
        clauses.push((a.expr(&pair[0])?, a.analyze(&pair[1], tail)?));
    }
    Ok(Ir::Cond(Box::new((
        clauses.into_boxed_slice(),
        Ir::Const(Value::Nil),
    ))))
}

fn condp(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, tail: bool) -> Result<Ir, Error> {
    let [pred, subject, clauses @ ..] = args else {
        return Err(usage("condp", span));
    };
    if clauses.is_empty() {
        return Err(usage("condp", span));
    }
    if let Some(arrow) = clauses
        .iter()
        .find(|form| matches!(form.kind, FormKind::Keyword(">>")))
    {
        return Err(invalid(
            "condp :>> result-fn form is not supported",
            arrow.span,
        ));
    }
    let pred = a.expr(pred)?;
    let subject = a.expr(subject)?;
    a.block(|a| {
        let pred_slot = a.scope().slot();
        let subject_slot = a.scope().slot();
        let mut tests = Vec::with_capacity(clauses.len() / 2);
        let (pairs, default) = clauses.as_chunks::<2>();
        for [test, result] in pairs {
            let callee = Ir::Local {
                slot: pred_slot,
                last: false,
            };
            let test = a.expr(test)?;
            let subject = Ir::Local {
                slot: subject_slot,
                last: false,
            };
            let call = super::Call {
                callee,
                args: Box::new([test, subject]),
                span,
            };
            tests.push((Ir::Call(Box::new(call)), a.analyze(result, tail)?));
        }
        let default = default
            .first()
            .map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
        let bindings = Box::new([
            (Pattern::Slot(pred_slot), pred),
            (Pattern::Slot(subject_slot), subject),
        ]);
        let body = Ir::Cond(Box::new((tests.into_boxed_slice(), default)));
        Ok(Ir::Let(Box::new((bindings, body))))
    })
}

fn case(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, tail: bool) -> Result<Ir, Error> {
    let [subject, clauses @ ..] = args else {
        return Err(usage("case", span));
    };
    let subject = a.expr(subject)?;
    let (pairs, default) = clauses.as_chunks::<2>();
    let mut constants = Vec::new();
    let mut branches = Vec::with_capacity(pairs.len());
    for [test, result] in pairs {
        match &test.kind {
            FormKind::List(group) if group.is_empty() => {
                return Err(invalid(
                    "case grouped match must contain at least one value",
                    test.span,
                ));
            }
            FormKind::List(group) => {
                for item in group {
                    constants.push((case_constant(item)?, branches.len()));
                }
            }
            _ => constants.push((case_constant(test)?, branches.len())),
        }
        branches.push(a.analyze(result, tail)?);
    }
    let default = default
        .first()
        .map_or(Ok(Ir::Const(Value::Nil)), |form| a.analyze(form, tail))?;
    let case = Case {
        subject,
        constants: constants.into_boxed_slice(),
        branches: branches.into_boxed_slice(),
        default,
    };
    Ok(Ir::Case(Box::new(case)))
}

fn case_constant(form: &Form<'_>) -> Result<Value, Error> {
    match &form.kind {
        FormKind::Nil => Ok(Value::Nil),
        FormKind::Bool(value) => Ok(Value::Bool(*value)),
        FormKind::Int(value) => Ok(Value::Int(*value)),
        FormKind::BigInt(value) => Ok(Value::integer(value.clone())),
        FormKind::Float(value) if value.is_finite() => Ok(Value::Float(*value)),
        FormKind::Str(text) => Ok(Value::str(&**text)),
        FormKind::Keyword(name) => Ok(Value::keyword(*name)),
        _ => Err(invalid(
            "case test values must be compile-time constants (keywords, strings, numbers, booleans, nil)",
            form.span,
        )),
    }
}

// --- threading

/// Rewrites `step` so that `value` is an argument of it.
fn threaded<'a>(value: Form<'a>, step: &Form<'a>, last: bool) -> Form<'a> {
    let span = step.span;
    let kind = match &step.kind {
        FormKind::List(items) if !items.is_empty() => {
            let mut items = items.clone();
            items.insert(if last { items.len() } else { 1 }, value);
            FormKind::List(items)
        }
        FormKind::List(_) => FormKind::List(Vec::new()),
        _ => FormKind::List(vec![step.clone(), value]),
    };
    Form { kind, span }
}

fn thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
    last: bool,
) -> Result<Ir, Error> {
    let [first, steps @ ..] = args else {
        return Err(usage(name, span));
    };
    let mut nested = first.clone();
    for step in steps {
        nested = threaded(nested, step, last);
    }
    a.analyze(&nested, tail)
}

fn thread_first(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    thread(a, "->", args, span, tail, false)
}

fn thread_last(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    thread(a, "->>", args, span, tail, true)
}

fn as_thread(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    let [first, name, steps @ ..] = args else {
        return Err(usage("as->", span));
    };
    let FormKind::Symbol(symbol) = name.kind else {
        return Err(invalid("as-> name must be a symbol", name.span));
    };
    local_name(symbol, name.span)?;
    let [steps @ .., last] = steps else {
        return a.analyze(first, tail);
    };
    a.block(|a| {
        let mut bindings = Vec::with_capacity(args.len());
        for step in std::iter::once(first).chain(steps) {
            let value = a.expr(step)?;
            bindings.push((Pattern::Slot(a.bind(symbol)), value));
        }
        let body = a.analyze(last, tail)?;
        Ok(Ir::Let(Box::new((bindings.into_boxed_slice(), body))))
    })
}

/// The name of the value between steps: no program can write it.
const STEP: &str = "\u{0}step";

fn step_symbol<'a>(span: Span) -> Form<'a> {
    Form {
        kind: FormKind::Symbol(STEP),
        span,
    }
}

fn some_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    last: bool,
) -> Result<Ir, Error> {
    let [first, steps @ ..] = args else {
        return Err(usage(name, span));
    };
    let start = a.expr(first)?;
    a.block(|a| {
        let slot = a.bind(STEP);
        let mut chain = Vec::with_capacity(steps.len());
        for step in steps {
            chain.push(a.expr(&threaded(step_symbol(step.span), step, last))?);
        }
        Ok(Ir::Some(Box::new(SomeChain {
            slot,
            start,
            steps: chain.into_boxed_slice(),
        })))
    })
}

fn some_thread_first(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    some_thread(a, "some->", args, span, false)
}

fn some_thread_last(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    some_thread(a, "some->>", args, span, true)
}

fn cond_thread(
    a: &mut Analyzer<'_, '_>,
    name: &str,
    args: &[Form<'_>],
    span: Span,
    last: bool,
) -> Result<Ir, Error> {
    let [first, clauses @ ..] = args else {
        return Err(usage(name, span));
    };
    let (pairs, odd) = clauses.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(invalid(
            format!("{name} requires even number of test/form pairs after expression"),
            span,
        ));
    }
    let start = a.expr(first)?;
    a.block(|a| {
        let mut bindings = Vec::with_capacity(pairs.len() + 1);
        let mut value = start;
        for [test, step] in pairs {
            let slot = a.bind(STEP);
            bindings.push((Pattern::Slot(slot), value));
            let test = a.expr(test)?;
            let then = a.expr(&threaded(step_symbol(step.span), step, last))?;
            value = Ir::If(Box::new((test, then, Ir::Local { slot, last: false })));
        }
        Ok(Ir::Let(Box::new((bindings.into_boxed_slice(), value))))
    })
}

fn cond_thread_first(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    cond_thread(a, "cond->", args, span, false)
}

fn cond_thread_last(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    cond_thread(a, "cond->>", args, span, true)
}

// --- control flow

fn do_form(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    _span: Span,
    tail: bool,
) -> Result<Ir, Error> {
    a.body(args, tail)
}

fn comment(
    _a: &mut Analyzer<'_, '_>,
    _args: &[Form<'_>],
    _span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    Ok(Ir::Const(Value::Nil))
}

fn and(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], _span: Span, tail: bool) -> Result<Ir, Error> {
    match args {
        [] => Ok(Ir::Const(Value::Bool(true))),
        [only] => a.analyze(only, tail),
        _ => Ok(Ir::And(alternatives(a, args, tail)?)),
    }
}

fn or(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], _span: Span, tail: bool) -> Result<Ir, Error> {
    let last = args.len().saturating_sub(1);
    let mut parts = Vec::with_capacity(args.len());
    for (at, form) in args.iter().enumerate() {
        let known = a.unbound.len();
        let mut part = a.analyze(form, tail && at == last)?;
        // A bare name without a meaning counts as nil here: the idiom for a default across turns.
        if matches!(form.kind, FormKind::Symbol(_)) {
            a.unbound.truncate(known);
            if let Ir::Global(global) = &mut part {
                global.optional = true;
            }
        }
        parts.push(part);
    }
    match parts.len() {
        0 => Ok(Ir::Const(Value::Nil)),
        _ => Ok(Ir::Or(parts.into())),
    }
}

fn alternatives(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    tail: bool,
) -> Result<Box<[Ir]>, Error> {
    let last = args.len().saturating_sub(1);
    args.iter()
        .enumerate()
        .map(|(at, form)| a.analyze(form, tail && at == last))
        .collect()
}

fn quote(
    _a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    match args {
        [form] => match form.kind {
            FormKind::Symbol(_) | FormKind::List(_) => Ok(Ir::Const(super::quoted_value(form)?)),
            _ => Err(invalid(
                "quote takes a symbol or a list; anything else stands for itself",
                form.span,
            )),
        },
        _ => Err(usage("quote", span)),
    }
}

fn task(a: &mut Analyzer<'_, '_>, args: &[Form<'_>], span: Span, _tail: bool) -> Result<Ir, Error> {
    let [id, expr] = args else {
        return Err(usage("task", span));
    };
    Ok(Ir::Task(Box::new((a.expr(id)?, a.expr(expr)?))))
}

// --- iteration

fn for_form(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    iterate(a, "for", args, span, true)
}

fn doseq(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    iterate(a, "doseq", args, span, false)
}

fn iterate(
    a: &mut Analyzer<'_, '_>,
    form: &'static str,
    args: &[Form<'_>],
    span: Span,
    collect: bool,
) -> Result<Ir, Error> {
    let [bindings, body @ ..] = args else {
        return Err(usage(form, span));
    };
    if body.is_empty() {
        return Err(usage(form, span));
    }
    let FormKind::Vector(items) = &bindings.kind else {
        return Err(usage(form, span));
    };
    if items.is_empty() {
        return Err(invalid(
            format!("{form} requires at least one binding pair"),
            bindings.span,
        ));
    }
    if !items.len().is_multiple_of(2) {
        return Err(invalid(
            format!("{form} bindings require even number of forms"),
            bindings.span,
        ));
    }
    a.block(|a| {
        let start = a.scope().next_slot();
        let mut clauses = Vec::with_capacity(items.len() / 2);
        for (at, pair) in items.chunks_exact(2).enumerate() {
            let FormKind::Keyword(modifier) = pair[0].kind else {
                let collection = a.expr(&pair[1])?;
                clauses.push(Clause::Each(a.pattern(&pair[0])?, collection));
                continue;
            };
            if at == 0 {
                return Err(invalid(
                    format!("{form}: expected a binding first, got :{modifier}; modifiers follow a binding pair"),
                    pair[0].span,
                ));
            }
            clauses.push(match modifier {
                "when" => Clause::When(a.expr(&pair[1])?),
                "while" => Clause::While(a.expr(&pair[1])?),
                "let" => {
                    let FormKind::Vector(bindings) = &pair[1].kind else {
                        return Err(invalid(":let takes a vector of bindings", pair[1].span));
                    };
                    Clause::Let(a.binding_pairs(":let", bindings, pair[1].span)?)
                }
                _ => {
                    return Err(invalid(
                        format!("unknown modifier :{modifier} in {form}. Known: :when, :let, :while"),
                        pair[0].span,
                    ));
                }
            });
        }
        // With one collection every item is bound anew before it is read again; with several, the
        // names of the outer ones are read once for each inner item.
        let nested = clauses.iter().filter(|clause| matches!(clause, Clause::Each(..))).count() > 1;
        let floor = if nested { a.scope().next_slot() } else { start };
        // A body is no tail: recur cannot leave an iteration.
        let recur = a.scope().recur.take();
        let body = a.body(body, false);
        a.scope().recur = recur;
        Ok(Ir::For(Box::new(For { clauses: clauses.into_boxed_slice(), body: body?, collect, floor, span })))
    })
}

fn step_done(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    let [_, _] = args else {
        return Err(usage("step-done", span));
    };
    Ok(super::builtin_call(
        &builtins::STEP_DONE,
        a.all(args)?,
        span,
    ))
}

fn task_reset(
    a: &mut Analyzer<'_, '_>,
    args: &[Form<'_>],
    span: Span,
    _tail: bool,
) -> Result<Ir, Error> {
    let [_] = args else {
        return Err(usage("task-reset", span));
    };
    Ok(super::builtin_call(
        &builtins::TASK_RESET,
        a.all(args)?,
        span,
    ))
}
