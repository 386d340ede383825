//! Functions: their code, what they capture, and the text that they can be made again from.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::effects::Effects;
use super::ir::{Ir, Lambda, MakeFn, Pattern, SourceText};
use super::{Analyzer, liveness};
use crate::error::Error;
use crate::form::{Form, FormKind, Span};
use crate::heap;
use crate::value::Text;

/// What is recorded about a top-level expression during analysis, so that its functions can be made again from its
/// text.
#[derive(Default)]
pub(super) struct Origin {
    /// The text of the expression; `None` until it contains a function.
    pub source: Option<Arc<SourceText>>,
    /// The span of the expression.
    pub span: Span,
    /// Indices of names read as globals, once per use.
    pub globals: Vec<u32>,
    /// Names that the expression itself made known, and that were not collected before it was analysed.
    pub own: HashSet<u32, foldhash::fast::FixedState>,
    /// The functions in the order in which their analysis ended, each with the number of values that it captures.
    pub functions: Vec<(Arc<Lambda>, usize)>,
}

impl Analyzer<'_, '_> {
    /// A function with these `params` and this `body`; `name` is bound in the body.
    pub(super) fn function(
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
