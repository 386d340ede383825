//! Check functions for hostile input: each accepts any input, and panics when a guarantee is broken. Driven by
//! libFuzzer in `fuzz/`, and with seeded random input by the tests.

mod hostile;
mod program;
mod session;

use crate::form::{Form, FormKind, Span};
use crate::json::{self, Duplicates};
use crate::meter::Unwatched;
use crate::reader::{ReadLimits, read};

pub use hostile::{
    Gauge, Measurement, calls, calls_with_large_counts, hostile, hostile_text, measure,
    measure_within_bounds, operands,
};
pub use program::{eval, generated_program, print_read, program, reads};
pub use session::{same_session, snapshot, snapshot_bytes};

/// The guarantees of the reader: it ends, spans are within the text and nested, limits hold, an error points into the
/// text, and its message stays short.
pub fn reader(text: &str) {
    let limits = ReadLimits {
        nesting: 8,
        symbols: 4,
        number_digits: 5,
    };
    let all = Span {
        start: 0,
        end: text.len() as u32,
    };
    let outcome = read(text, &limits);
    match &outcome {
        Ok(forms) => check_siblings(forms, all, text, limits.nesting + 1),
        Err(error) => {
            assert!(
                covers(all, error.span),
                "an error stands in the text: {error:?}"
            );
            assert!(
                text.get(error.span.start as usize..error.span.end as usize)
                    .is_some()
            );
            let line = text
                .split('\n')
                .nth(error.line as usize - 1)
                .unwrap_or_default();
            assert!(
                error.column as usize <= line.chars().count() + 1,
                "{error:?}"
            );
            assert!(
                error.to_string().chars().count() <= SENTENCE_CHARS_MAX,
                "{error}"
            );
        }
    }
    // Forms that contain NaN differ from themselves.
    if !text.contains("##NaN") {
        assert_eq!(outcome, read(text, &limits), "reading is deterministic");
    }
}

/// The guarantees of JSON: an error points into the text; a value that was read is written as text that gives the same
/// value; both ways of handling equal keys agree on everything else.
pub fn json(text: &str) {
    match json::from_str(text) {
        Ok(value) => {
            let written = json::to_string(&value).expect("what JSON gave, JSON can carry");
            let again = json::from_str(&written).expect("what was written is JSON");
            assert!(again == value, "{written}");
            assert!(json::read(text, Duplicates::First, &Unwatched).is_ok());
            let known = ptc_json::parse(text.as_bytes()).expect("there is one scanner");
            let built = json::build(known, Duplicates::Last, &Unwatched);
            assert!(built.expect("it was read") == value, "{text}");
        }
        Err(error) => {
            assert!(error.offset <= text.len(), "{error}");
            assert_eq!(
                json::read(text, Duplicates::First, &Unwatched).err(),
                Some(error)
            );
        }
    }
}

const SENTENCE_CHARS_MAX: usize = 500;

fn check_siblings(forms: &[Form<'_>], parent: Span, text: &str, nesting: u32) {
    let mut from = parent.start;
    for form in forms {
        assert!(
            covers(parent, form.span) && from <= form.span.start,
            "{form:?}"
        );
        assert!(!form.span.of(text).is_empty(), "{form:?}");
        from = form.span.end;
        check_form(form, text, nesting);
    }
}

fn check_form(form: &Form<'_>, text: &str, nesting: u32) {
    match &form.kind {
        FormKind::List(forms)
        | FormKind::Vector(forms)
        | FormKind::Map(forms)
        | FormKind::Set(forms)
        | FormKind::AnonFn(forms) => {
            assert!(nesting > 0, "nested too deep: {form:?}");
            assert!(!matches!(form.kind, FormKind::Map(_)) || forms.len() % 2 == 0);
            check_siblings(forms, form.span, text, nesting - 1);
        }
        FormKind::Quote(quoted) => {
            assert!(covers(form.span, quoted.span));
            assert!(
                matches!(quoted.kind, FormKind::Symbol(_) | FormKind::List(_)),
                "{form:?}"
            );
            check_form(quoted, text, nesting);
        }
        FormKind::Symbol(name) => assert!(form.span.of(text).ends_with(name)),
        FormKind::Keyword(name) => assert_eq!(form.span.of(text).strip_prefix(':'), Some(*name)),
        FormKind::Float(float) => {
            assert!(
                float.is_finite() || form.span.of(text).starts_with("##"),
                "{form:?}"
            );
        }
        _ => {}
    }
}

fn covers(outer: Span, inner: Span) -> bool {
    outer.start <= inner.start && inner.start <= inner.end && inner.end <= outer.end
}
