//! Groups failures with the same cause: their messages are the same, apart from what is specific to each case.
//! Knows only the record.

use indexmap::IndexMap;

use super::{CaseRecord, Run, Status};

/// Number of characters by which causes are distinguished.
const CAUSE_CHARS_MAX: usize = 120;
/// Number of cases of a group that are named at once.
pub const EXAMPLES: usize = 3;

/// Cases that did not pass for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup<'r> {
    /// The shared message, with `…` for what differs.
    pub cause: String,
    /// Their pages, each with its clauses or sections.
    pub pages: IndexMap<&'r str, IndexMap<&'r str, usize>>,
    /// The cases, in the suite's order.
    pub cases: Vec<&'r CaseRecord>,
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
            pages: IndexMap::new(),
            cases: Vec::new(),
        });
        let clauses = group.pages.entry(&case.page).or_default();
        *clauses.entry(case.anchor()).or_default() += 1;
        group.cases.push(case);
    }
    let mut groups: Vec<FailureGroup<'r>> = groups.into_values().collect();
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

/// A message without what is specific to its case: quoted texts are cut after their first word, numbers are `#`.
fn cause(case: &CaseRecord) -> String {
    let message = case.message.as_deref().unwrap_or("no reason given");
    let mut out = String::new();
    let mut letters = message.chars().peekable();
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
}
