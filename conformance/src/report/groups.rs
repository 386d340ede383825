//! Groups failures with the same cause: their messages are the same, apart from what is specific to each case.
//! Knows only the record.

use indexmap::IndexMap;

use super::{CaseRecord, Run, Status};

/// Number of characters by which causes are distinguished.
const CAUSE_CHARS_MAX: usize = 120;
/// Number of words in the head of an error message.
const KIND_WORDS_MAX: usize = 3;
/// The message of a case without one.
const NO_MESSAGE: &str = "no reason given";
/// Number of cases of a group that are named at once, and of wordings.
pub const EXAMPLES: usize = 3;

/// Cases that did not pass for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup<'r> {
    /// The shared message, with `…` for what differs.
    pub cause: String,
    /// The different messages, each with the number of cases that it has, the most frequent first.
    pub wordings: IndexMap<&'r str, usize>,
    /// Their pages, each with its clauses or sections.
    pub pages: IndexMap<&'r str, IndexMap<&'r str, usize>>,
    /// The cases, in the suite's order.
    pub cases: Vec<&'r CaseRecord>,
}

impl<'r> FailureGroup<'r> {
    /// The most frequent messages with their numbers of cases, unless there is only one.
    pub fn examples(&self) -> impl Iterator<Item = (&'r str, usize)> {
        let shown = match self.wordings.len() {
            1 => 0,
            _ => EXAMPLES,
        };
        let wordings = self.wordings.iter().take(shown);
        wordings.map(|(wording, count)| (*wording, *count))
    }
}

/// The failures of a run by cause, the largest group first.
pub fn of_failures(run: &Run) -> Vec<FailureGroup<'_>> {
    by_cause(run.cases.iter().filter(|case| case.status.is_failure()))
}

/// Cases by cause, the largest group first.
pub fn by_cause<'r>(cases: impl Iterator<Item = &'r CaseRecord>) -> Vec<FailureGroup<'r>> {
    let mut groups: IndexMap<String, FailureGroup<'r>> = IndexMap::new();
    for case in cases {
        let cause = cause(case);
        let group = groups.entry(cause.clone()).or_insert_with(|| FailureGroup {
            cause,
            wordings: IndexMap::new(),
            pages: IndexMap::new(),
            cases: Vec::new(),
        });
        let wording = case.message.as_deref().unwrap_or(NO_MESSAGE);
        *group.wordings.entry(wording).or_default() += 1;
        let clauses = group.pages.entry(&case.page).or_default();
        *clauses.entry(case.anchor()).or_default() += 1;
        group.cases.push(case);
    }
    let mut groups: Vec<FailureGroup<'r>> = groups.into_values().collect();
    for group in &mut groups {
        group.wordings.sort_by(|_, few, _, many| many.cmp(few));
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.cases.len()));
    groups
}

/// The number of cases of each page by status, in the suite's order.
pub fn pages(run: &Run) -> IndexMap<&str, IndexMap<Status, usize>> {
    let mut pages: IndexMap<&str, IndexMap<Status, usize>> = IndexMap::new();
    for case in &run.cases {
        let page = pages.entry(&case.page).or_default();
        *page.entry(case.status).or_default() += 1;
    }
    pages
}

/// The cause of a message `AT: expected E, observed O`: each side without what is specific to its case. Any other message as a whole.
fn cause(case: &CaseRecord) -> String {
    let message = case.message.as_deref().unwrap_or(NO_MESSAGE);
    let sides = message.split_once(": expected ").and_then(|(at, sides)| {
        let (expected, observed) = sides.split_once(", observed ")?;
        Some((at, expected, observed))
    });
    match sides {
        Some((at, expected, observed)) => format!(
            "{}: expected {}, observed {}",
            without_details(at),
            without_tail(at, expected),
            without_tail(at, observed)
        ),
        None => without_details(message),
    }
}

/// A side of a finding without its tail: an error is its reason or kind, a response its status, and a value that stands for an outcome is
/// any value. What else is found has no such head, and is left whole, but without its details.
fn without_tail(at: &str, side: &str) -> String {
    if let Some((kind, _)) = side.split_once(": ")
        && is_kind(kind)
    {
        return format!("{kind}: …");
    }
    let of_message = at == "message" || at.ends_with(".message");
    match side.split_once(' ') {
        _ if side.starts_with("the value ") => "the value …".to_owned(),
        Some((status, _)) if at == "status" => format!("{status} …"),
        None if at == "status" => side.to_owned(),
        // A message without a kind begins with what it is about.
        Some((first, _)) if of_message && first.chars().all(char::is_alphanumeric) => {
            format!("{first} …")
        }
        _ => without_details(side),
    }
}

/// Whether it is the head of an error message: `type_error`, `arity error`, `Undefined variable`.
fn is_kind(words: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    words.starts_with(letter)
        && words.chars().all(|c| letter(c) || c == ' ')
        && words.split(' ').count() <= KIND_WORDS_MAX
}

/// A text without what is specific to its case: quoted texts are cut after their first word, numbers are `#`.
fn without_details(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            quote @ ('"' | '`') => {
                let mut text = String::new();
                while let Some(inside) = letters.next() {
                    match inside {
                        '\\' => drop(letters.next()),
                        end if end == quote => break,
                        inside => text.push(inside),
                    }
                }
                let word = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
                let end = text.find(|c| !word(c)).unwrap_or(text.len());
                out.push(quote);
                out.push_str(&text[..end]);
                if end < text.len() {
                    out.push('…');
                }
                out.push(quote);
            }
            digit if digit.is_ascii_digit() => {
                while letters
                    .next_if(|c| c.is_ascii_digit() || *c == '.')
                    .is_some()
                {}
                out.push('#');
            }
            '\n' => break,
            plain => out.push(plain),
        }
        if out.chars().count() >= CAUSE_CHARS_MAX {
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn failures_with_the_same_cause_form_one_group() {
        let arity = |id: &str, name: &str| {
            let mut case = record(id, Status::Fail);
            case.message = Some(format!(
                "message: expected \"arity_error: {name} takes 1\", observed \"arity error: {name} expects 1 argument(s), got 2\""
            ));
            case
        };
        let mut other = record("c", Status::Fail);
        other.message = Some("result: expected 13, observed 12".to_owned());
        let cases = [arity("a", "inc"), other, arity("b", "dec")];
        let groups = by_cause(cases.iter());
        let told: Vec<(usize, &str)> = groups
            .iter()
            .map(|group| (group.cases.len(), group.cause.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    2,
                    "message: expected \"arity_error:…\", observed \"arity…\""
                ),
                (1, "result: expected #, observed #"),
            ]
        );
    }

    /// The causes of messages, each with its number of wordings.
    fn causes(messages: &[&str]) -> Vec<String> {
        let cases: Vec<CaseRecord> = messages
            .iter()
            .map(|message| {
                let mut case = record("a", Status::Fail);
                case.message = Some((*message).to_owned());
                case
            })
            .collect();
        let groups = by_cause(cases.iter());
        let told = groups
            .iter()
            .map(|group| format!("{} {}", group.wordings.len(), group.cause));
        told.collect()
    }

    #[test]
    fn wording_of_an_error_is_no_cause_of_its_own() {
        assert_eq!(
            causes(&[
                "reason: expected runtime_error, observed run_error: no function foo",
                "reason: expected runtime_error, observed run_error: it is no number: nil",
                "reason: expected runtime_error, observed run_error: it is no number: nil",
                "reason: expected runtime_error, observed timeout: after 10 ms",
            ]),
            [
                "2 reason: expected runtime_error, observed run_error: …",
                "1 reason: expected runtime_error, observed timeout: …",
            ]
        );
        assert_eq!(
            causes(&[
                "outcome: expected the value [1 2], observed runtime_error: unbound: x",
                "outcome: expected the value {:a 1}, observed runtime_error: unbound: y",
            ]),
            ["2 outcome: expected the value …, observed runtime_error: …"]
        );
        assert_eq!(
            causes(&[
                "message: expected arity_error: …, observed arity error: inc takes one",
                "message: expected arity_error: …, observed arity error: dec takes one",
                "message: expected arity_error: …, observed inc takes one",
                "message: expected arity_error: …, observed inc has one",
                "status: expected 200, observed 404 no such path",
                "status: expected 200, observed 404 nothing there",
            ]),
            [
                "2 message: expected arity_error: …, observed arity error: …",
                "2 message: expected arity_error: …, observed inc …",
                "2 status: expected 200, observed 404 …",
            ]
        );
        // Different values are different causes, as far as no error is among them.
        assert_eq!(
            causes(&[
                "result: expected :a, observed :b",
                "result: expected :a, observed nil",
                "the target ended while an answer was due (exit status 1)",
                "the target ended while an answer was due (exit status 2)",
            ]),
            [
                "2 the target ended while an answer was due (exit status #)",
                "1 result: expected :a, observed :b",
                "1 result: expected :a, observed nil",
            ]
        );
    }
}
