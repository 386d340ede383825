//! Judges the outcome of a program. Every part of the expectation is met, unmet or unobservable; a part
//! that the target can't show never counts as met.

use std::borrow::Cow;

use super::{PartVerdict, mismatch, output_schema, text, verdict};
use crate::edn::Edn;
use crate::json::Json;
use crate::observed::{ProgramOutcome, ProgramRun};
use crate::suite::{
    Captures, Hole, HoleKind, MessageExpect, Outcome, Part as TextPart, ProgramExpect, Raised,
    Returned, Text,
};
use crate::verdict::Verdict;

/// The mark of truncation inside a preview, for targets that have no flag for it.
const CUT_MARK: &str = "... (";

/// Judges the result of a program.
pub fn program(expect: &ProgramExpect, run: &ProgramRun) -> Verdict {
    let verdict = one(expect, run);
    match (&verdict, &expect.otherwise) {
        (Verdict::Fail(_), Some(otherwise)) => match program(otherwise, run) {
            // A failure is reported in terms of the first expectation.
            Verdict::Fail(_) => verdict,
            other => other,
        },
        _ => verdict,
    }
}

/// Judges the result of a program that a target without `exact_json` ran: JSON that doubles may have changed shows nothing; the text does.
pub fn program_in_doubles(expect: &ProgramExpect, mut run: ProgramRun) -> Verdict {
    if let ProgramOutcome::Returned { json, .. } = &mut run.outcome
        && let Some(Some(observed)) = json
        && is_rounded(expect, observed)
    {
        *json = None;
    }
    program(expect, &run)
}

fn is_rounded(expect: &ProgramExpect, observed: &Json) -> bool {
    let expected = match &expect.outcome {
        Outcome::Returns(Returned { json, .. }) => json.as_ref(),
        Outcome::Raises(_) => None,
    };
    let rounded = expected.is_some_and(|expected| expected.equals_in_doubles(observed));
    let otherwise = expect.otherwise.as_ref();
    rounded || otherwise.is_some_and(|otherwise| is_rounded(otherwise, observed))
}

fn one(expect: &ProgramExpect, run: &ProgramRun) -> Verdict {
    let mut parts = match (&expect.outcome, &run.outcome) {
        (Outcome::Returns(expected), ProgramOutcome::Returned { text, json }) => {
            let mut parts = returned(expected, text.as_ref(), is_cut(expect, run));
            parts.extend(
                expected
                    .json
                    .as_ref()
                    .map(|value| exact(expect, value, json.as_ref())),
            );
            parts
        }
        (
            Outcome::Raises(expected),
            ProgramOutcome::Raised {
                reason,
                message,
                value,
            },
        ) => raised(
            expected,
            reason,
            message.as_deref(),
            value.as_ref(),
            run.truncated.unwrap_or(false),
        ),
        (Outcome::Returns(expected), ProgramOutcome::Raised { .. }) => {
            let observed = run.outcome.words();
            return Verdict::Fail(mismatch("outcome", display_expected(expected), observed));
        }
        (Outcome::Raises(expected), ProgramOutcome::Returned { .. }) => {
            let (expected, observed) = (expected.reason.word(), run.outcome.words());
            return Verdict::Fail(mismatch("outcome", expected, observed));
        }
    };
    parts.extend(
        expect
            .prints
            .as_ref()
            .map(|expected| prints(expected, run.prints.as_deref(), run.prints_cut)),
    );
    // Implementation-specific text may have any length.
    let own_words =
        matches!(&expect.outcome, Outcome::Returns(expected) if expected.shape.is_some());
    // The flag alone proves nothing, so it can fail a case but not pass it.
    match run.truncated {
        Some(_) if own_words => {}
        Some(observed) if observed != expect.truncated => {
            let words = |cut: bool| {
                if cut {
                    "a truncated outcome"
                } else {
                    "an outcome that is not truncated"
                }
            };
            parts.push(PartVerdict::Unmet(mismatch(
                "truncated",
                words(expect.truncated),
                words(observed),
            )));
        }
        None if expect.truncated => parts.push(unobservable("truncated")),
        _ => {}
    }
    verdict(parts)
}

/// Whether the preview is truncated, as far as can be determined.
fn is_cut(expect: &ProgramExpect, run: &ProgramRun) -> bool {
    let ProgramOutcome::Returned {
        text: Some(Some(text)),
        ..
    } = &run.outcome
    else {
        return false;
    };
    match run.truncated {
        Some(truncated) => truncated,
        None => expect.truncated || text.contains(CUT_MARK),
    }
}

fn returned(expected: &Returned, text: Option<&Option<String>>, cut: bool) -> Vec<PartVerdict> {
    let mut parts = Vec::new();
    if expected.nothing {
        parts.push(no_result(text));
    }
    if let Some(letters) = &expected.text {
        parts.push(printed("result", letters, text));
    }
    if let Some(regex) = &expected.shape {
        parts.push(shape(regex, text));
    }
    if let Some(source) = &expected.data {
        parts.push(data("result", source, text, cut));
    }
    parts
}

fn no_result(text: Option<&Option<String>>) -> PartVerdict {
    match text {
        None => unobservable("result"),
        Some(None) => PartVerdict::Met,
        Some(Some(text)) => PartVerdict::Unmet(mismatch("result", "no result text", text)),
    }
}

fn printed(what: &'static str, expected: &Text, text: Option<&Option<String>>) -> PartVerdict {
    match text {
        None => unobservable(what),
        Some(None) => PartVerdict::Unmet(mismatch(what, expected.source(), "no result text")),
        Some(Some(text)) => match super::text(what, expected, text, &mut Captures::new()) {
            Ok(()) => PartVerdict::Met,
            Err(wrong) => PartVerdict::Unmet(wrong),
        },
    }
}

fn shape(regex: &str, text: Option<&Option<String>>) -> PartVerdict {
    let expected = || format!("text of the shape {regex}");
    match text {
        None => unobservable("result"),
        Some(None) => PartVerdict::Unmet(mismatch("result", expected(), "no result text")),
        Some(Some(text)) => match text::matches_whole(regex, text) {
            Ok(true) => PartVerdict::Met,
            Ok(false) => PartVerdict::Unmet(mismatch("result", expected(), text)),
            Err(error) => PartVerdict::Unmet(mismatch("result", error.to_string(), text)),
        },
    }
}

/// Compares as data. A truncated preview never matches, because any part of the value may be missing.
fn data(what: &'static str, source: &str, text: Option<&Option<String>>, cut: bool) -> PartVerdict {
    let expected = match Edn::parse_expected(source) {
        Ok(expected) => expected,
        Err((_, message)) => {
            return PartVerdict::Unmet(mismatch(
                what,
                format!("readable data ({message})"),
                source,
            ));
        }
    };
    match text {
        None => unobservable(what),
        Some(None) if expected == Edn::Nil || matches_nothing(&expected) => PartVerdict::Met,
        Some(None) => PartVerdict::Unmet(mismatch(what, expected.to_string(), "no result text")),
        Some(Some(_)) if cut => PartVerdict::Unseen(
            what,
            "the preview is truncated, so it can't be compared".to_owned(),
        ),
        Some(Some(text)) => match Edn::parse(text) {
            Ok(observed) if expected.matches(&observed) => PartVerdict::Met,
            Ok(observed) => {
                PartVerdict::Unmet(mismatch(what, expected.to_string(), observed.to_string()))
            }
            Err((at, message)) => PartVerdict::Unmet(mismatch(
                what,
                expected.to_string(),
                format!("{text} (unreadable at {at}: {message})"),
            )),
        },
    }
}

/// Whether the expectation is a hole that matches nil, which is shown as no text.
fn matches_nothing(expected: &Edn) -> bool {
    matches!(expected, Edn::Symbol(_)) && expected.matches(&Edn::Nil)
}

fn exact(expect: &ProgramExpect, expected: &Json, json: Option<&Option<Json>>) -> PartVerdict {
    match json {
        Some(Some(observed)) if observed == expected => PartVerdict::Met,
        Some(Some(observed)) => {
            let mut wrong = mismatch("json", expected.to_string(), observed.to_string());
            wrong.diff = super::diff::values(expected, observed);
            PartVerdict::Unmet(wrong)
        }
        Some(None) => {
            let schema = output_schema(expect).map(|schema| schema.to_string());
            PartVerdict::Unmet(mismatch(
                "json",
                expected.to_string(),
                format!(
                    "no `validated`, though the call asked for it with the output_schema {}",
                    schema.unwrap_or_default()
                ),
            ))
        }
        None => {
            let reason = match output_schema(expect) {
                Ok(_) => "the target shows no JSON value".to_owned(),
                Err(reason) => reason.to_string(),
            };
            PartVerdict::Unseen("json", reason)
        }
    }
}

fn raised(
    expected: &Raised,
    reason: &str,
    message: Option<&str>,
    value: Option<&Option<String>>,
    cut: bool,
) -> Vec<PartVerdict> {
    let shown = || format!("{reason}: {}", message.unwrap_or(""));
    if reason != expected.reason.word() {
        return vec![PartVerdict::Unmet(mismatch(
            "reason",
            expected.reason.word(),
            shown(),
        ))];
    }
    let mut parts = vec![PartVerdict::Met];
    let kind = expected
        .kind
        .as_ref()
        .map(|kind| MessageExpect::Prefix(Text::plain(format!("{kind}: "))));
    for wanted in kind.iter().chain(&expected.message) {
        parts.push(match message {
            None => unobservable("message"),
            Some(message) => match compare_message(wanted, &with_kind_spelling(wanted, message)) {
                // The mismatch shows the original message.
                PartVerdict::Unmet(_) => compare_message(wanted, message),
                other => other,
            },
        });
    }
    if let Some(letters) = &expected.value_text {
        parts.push(printed("failed value", letters, value));
    }
    if let Some(source) = &expected.value_data {
        parts.push(data("failed value", source, value, cut));
    }
    parts
}

/// The message with its kind spelled as expected: `arity error` and `arity_error` count as the same.
fn with_kind_spelling<'m>(wanted: &MessageExpect, message: &'m str) -> Cow<'m, str> {
    let (MessageExpect::Exact(text) | MessageExpect::Prefix(text)) = wanted;
    let Some(TextPart::Lit(letters)) = text.parts.first() else {
        return Cow::Borrowed(message);
    };
    let end = letters
        .find(|c: char| !c.is_ascii_lowercase() && c != '_')
        .unwrap_or(letters.len());
    let kind = &letters[..end];
    let apart = kind.replace('_', " ");
    match message.strip_prefix(&apart) {
        Some(rest) if kind.contains('_') && rest.starts_with(':') => {
            Cow::Owned(format!("{kind}{rest}"))
        }
        _ => Cow::Borrowed(message),
    }
}

fn compare_message(wanted: &MessageExpect, message: &str) -> PartVerdict {
    match wanted {
        MessageExpect::Exact(text) => {
            match super::text("message", text, message, &mut Captures::new()) {
                Ok(()) => PartVerdict::Met,
                Err(wrong) => PartVerdict::Unmet(wrong),
            }
        }
        MessageExpect::Prefix(prefix) => {
            let mut open = prefix.clone();
            open.parts.push(TextPart::Hole(Hole::of(HoleKind::Any)));
            match text::compare(&open, message, &mut Captures::new()) {
                Ok(()) => PartVerdict::Met,
                Err(_) => PartVerdict::Unmet(mismatch(
                    "message",
                    format!("{}…", prefix.source()),
                    message,
                )),
            }
        }
    }
}

/// Compares entry by entry: two lines in one entry are not two entries. When the target left out the end, the
/// entries shown must still be a proper prefix.
fn prints(expected: &[Text], observed: Option<&[String]>, cut: bool) -> PartVerdict {
    let Some(observed) = observed else {
        return unobservable("prints");
    };
    let shown = |entries: Vec<String>| match entries.as_slice() {
        [] => "nothing printed".to_owned(),
        entries => entries
            .iter()
            .map(|entry| format!("{entry:?}"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let begins = expected.iter().zip(observed).all(|(expected, observed)| {
        text::compare(expected, observed, &mut Captures::new()).is_ok()
    });
    if cut && begins && observed.len() < expected.len() {
        return PartVerdict::Unseen("prints", "the target leaves out the end".to_owned());
    }
    let same = begins && !cut && expected.len() == observed.len();
    if same {
        PartVerdict::Met
    } else {
        PartVerdict::Unmet(mismatch(
            "prints",
            shown(expected.iter().map(Text::source).collect()),
            shown(observed.to_vec()),
        ))
    }
}

fn unobservable(part: &'static str) -> PartVerdict {
    PartVerdict::Unseen(part, "the target doesn't show it".to_owned())
}

/// The expected value, for display.
fn display_expected(expected: &Returned) -> String {
    let text = expected.text.as_ref().map(Text::source);
    let json = expected.json.as_ref().map(Json::to_string);
    let shape = expected
        .shape
        .as_ref()
        .map(|regex| format!("text of the shape {regex}"));
    let value = expected.data.clone().or(text).or(json).or(shape);
    value.map_or_else(
        || "no result text".to_owned(),
        |value| format!("the value {value}"),
    )
}
