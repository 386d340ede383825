//! The special forms: one table, and a file per group. Knows nothing of evaluation.

mod bindings;
mod conditionals;
mod control;
mod definitions;
mod functions;
mod iteration;
mod patterns;
mod threading;

pub(super) use threading::chain_parts;

use super::Analyzer;
use super::ir::Ir;
use crate::builtins::Section;
use crate::error::{Error, Kind};
use crate::form::{Form, Span};
use crate::heap;
use std::collections::HashMap;
use std::sync::LazyLock;

type Analyze = fn(&mut Analyzer<'_, '_>, FormUse<'_>) -> Result<Ir, Error>;

/// One use of a special form.
#[derive(Clone, Copy)]
pub struct FormUse<'f> {
    /// The forms after its name.
    pub args: &'f [Form<'f>],
    pub span: Span,
    /// Whether its value is the result of the innermost loop or function.
    pub tail: bool,
}

/// A row of the table of special forms.
pub struct SpecialForm {
    pub name: &'static str,
    /// The id of the section of the specification.
    pub id: &'static str,
    /// The section of listings that shows it.
    pub section: Section,
    /// The correct shape.
    pub signature: &'static str,
    pub doc: &'static str,
    /// Whether its name can't be shadowed (`forms.shadowing.fixed`).
    fixed: bool,
    analyze: Analyze,
}

impl SpecialForm {
    const fn fixed(self) -> Self {
        SpecialForm {
            fixed: true,
            ..self
        }
    }
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
        fixed: false,
        analyze,
    }
}

use Section::{AgentControl, Conditionals, ControlFlow, Core, Definitions, Iteration, Threading};

#[rustfmt::skip]
pub const SPECIAL_FORMS: &[SpecialForm] = &[
    row("def", "forms.def", Definitions, "(def name value) or (def name docstring value)", "Defines a global, wherever it is executed, and returns its var.", definitions::def).fixed(),
    row("defn", "forms.defn", Definitions, "(defn name [params] body)", "Defines a global function.", definitions::defn),
    row("defonce", "forms.defonce", Definitions, "(defonce name value) or (defonce name docstring value)", "Defines a global unless it is defined already.", definitions::defonce),
    row("fn", "forms.fn", Definitions, "(fn [params] body ...)", "Makes a function, which may have a name of its own.", functions::function).fixed(),
    row("letfn", "forms.letfn", Definitions, "(letfn [(name [params] body ...) ...] body ...)", "Binds functions that may call one another and evaluates a body with them.", functions::letfn),
    row("let", "forms.let", Definitions, "(let [bindings] body ...)", "Binds names in turn and evaluates a body with them.", bindings::let_form).fixed(),
    row("loop", "forms.loop", Definitions, "(loop [bindings] body ...)", "Binds names like let; recur in its body goes round again.", bindings::loop_form).fixed(),
    row("recur", "forms.recur", Definitions, "(recur args ...)", "Goes round the innermost loop or function with new values.", bindings::recur).fixed(),
    row("case", "forms.case", Conditionals, "(case expr constant result ... default?)", "Picks the result whose constant equals a value.", conditionals::case),
    row("cond", "forms.cond", Conditionals, "(cond test result ...)", "Picks the result of the first test that holds.", conditionals::cond),
    row("condp", "forms.condp", Conditionals, "(condp pred expr test result ... default?)", "Picks the result whose test stands in a relation to a value.", conditionals::condp),
    row("if", "forms.if", Conditionals, "(if cond then else)", "Evaluates one of two expressions.", conditionals::if_form).fixed(),
    row("if-let", "forms.if-let", Conditionals, "(if-let [name expr] then else)", "Binds a value and branches on whether it is true.", conditionals::if_let),
    row("if-not", "forms.if-not", Conditionals, "(if-not cond then else)", "Evaluates one of two expressions, the first when the test fails.", conditionals::if_not),
    row("if-some", "forms.if-some", Conditionals, "(if-some [name expr] then else)", "Binds a value and branches on whether it is not nil.", conditionals::if_some),
    row("when", "forms.when", Conditionals, "(when cond body ...)", "Evaluates a body when a test holds.", conditionals::when),
    row("when-first", "forms.when-first", Conditionals, "(when-first [name coll] body ...)", "Binds the first item of a collection that has one and evaluates a body.", conditionals::when_first),
    row("when-let", "forms.when-let", Conditionals, "(when-let [name expr] body ...)", "Binds a value and evaluates a body when it is true.", conditionals::when_let),
    row("when-not", "forms.when-not", Conditionals, "(when-not cond body ...)", "Evaluates a body when a test fails.", conditionals::when_not),
    row("when-some", "forms.when-some", Conditionals, "(when-some [name expr] body ...)", "Binds a value and evaluates a body when it is not nil.", conditionals::when_some),
    row("->", "forms.thread-first", Threading, "(-> expr form ...)", "Puts each result into the next form as its first argument.", threading::thread_first),
    row("->>", "forms.thread-last", Threading, "(->> expr form ...)", "Puts each result into the next form as its last argument.", threading::thread_last),
    row("as->", "forms.as-thread", Threading, "(as-> expr name form ...)", "Binds each result to a name for the next form.", threading::as_thread),
    row("cond->", "forms.cond-thread", Threading, "(cond-> expr test form ...)", "Threads first through the forms whose tests hold.", threading::cond_thread_first),
    row("cond->>", "forms.cond-thread", Threading, "(cond->> expr test form ...)", "Threads last through the forms whose tests hold.", threading::cond_thread_last),
    row("some->", "forms.some-thread", Threading, "(some-> expr form ...)", "Threads first until a result is nil.", threading::some_thread_first),
    row("some->>", "forms.some-thread", Threading, "(some->> expr form ...)", "Threads last until a result is nil.", threading::some_thread_last),
    row("and", "forms.and", ControlFlow, "(and expr ...)", "Returns the first value that is false or nil, else the last one.", control::and),
    row("comment", "forms.comment", ControlFlow, "(comment ...)", "Ignores what is inside and returns nil.", control::comment),
    row("do", "forms.do", ControlFlow, "(do expr ...)", "Evaluates expressions in turn and returns the last value.", control::do_form).fixed(),
    row("or", "forms.or", ControlFlow, "(or expr ...)", "Returns the first value that is neither false nor nil, else the last one.", control::or),
    row("doseq", "forms.doseq", Iteration, "(doseq [bindings] body ...)", "Evaluates a body for every combination of items and returns nil.", iteration::doseq),
    row("for", "forms.for", Iteration, "(for [bindings] body ...)", "Collects the value of a body for every combination of items.", iteration::for_form),
    row("dotimes", "forms.dotimes", Iteration, "(dotimes [name n] body ...)", "Evaluates a body with a name bound to the numbers from 0 below n and returns nil.", iteration::dotimes),
    row("quote", "forms.quote", Core, "(quote symbol)", "Returns a symbol, or data, unevaluated.", control::quote).fixed(),
    row("var", "forms.var", Core, "(var name)", "Returns the var of a global, as #'name does.", control::var).fixed(),
    row("step-done", "tasks.step-done", AgentControl, "(step-done id summary)", "Records the summary of a finished step and returns it.", control::step_done),
    row("task-reset", "tasks.task-reset", AgentControl, "(task-reset id)", "Forgets the remembered value of a task.", control::task_reset),
    row("task", "tasks.task", AgentControl, "(task \"id\" expr)", "Evaluates an expression once per id and remembers its value.", control::task),
];

type Index = HashMap<&'static str, &'static SpecialForm, foldhash::fast::FixedState>;

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    heap::uncharged(|| SPECIAL_FORMS.iter().map(|form| (form.name, form)).collect())
});

fn find(name: &str) -> Option<&'static SpecialForm> {
    INDEX.get(name).copied()
}

/// The analysis of the special form `name`.
pub fn special(name: &str) -> Option<Analyze> {
    if name.starts_with('\0') {
        return threading::chain(name).or_else(|| functions::internal_form(name));
    }
    find(name).map(|form| form.analyze)
}

/// Whether a name is a special form's that can't be shadowed.
pub fn is_fixed(name: &str) -> bool {
    find(name).is_some_and(|form| form.fixed)
}

/// The names of all special forms.
pub fn names() -> impl Iterator<Item = &'static str> {
    SPECIAL_FORMS.iter().map(|form| form.name)
}

/// The error for a malformed use of a form, with its correct shape.
fn usage(name: &str, span: Span) -> Error {
    let expected = find(name).map_or("another form", |form| form.signature);
    Kind::Usage { expected }.at(span)
}

fn invalid(problem: impl Into<String>, span: Span) -> Error {
    Kind::Form(problem.into()).at(span)
}
