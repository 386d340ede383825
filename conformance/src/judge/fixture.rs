//! Judges the fixture parser itself with the valid and invalid pages in `spec/README.md`.

use super::mismatch;
use crate::fixture;
use crate::suite::{FixtureCase, FixtureExpect};
use crate::verdict::Verdict;

/// Judges the parser's result for a page. Needs no target, and says nothing about one.
pub fn fixture(case: &FixtureCase) -> Verdict {
    let observed = match fixture::page("page.md", case.page.as_bytes()) {
        Ok(page) => FixtureExpect::Cases(page.cases.into_iter().map(|case| case.id).collect()),
        Err(errors) => FixtureExpect::Errors(
            errors
                .iter()
                .map(|error| format!("{}:{} {}", error.line, error.column, error.message))
                .collect(),
        ),
    };
    if observed == case.expect {
        return Verdict::SelfCheck;
    }
    Verdict::Fail(mismatch("page", shown(&case.expect), shown(&observed)))
}

fn shown(expect: &FixtureExpect) -> String {
    let (mark, lines) = match expect {
        FixtureExpect::Cases(ids) => ("=>", ids),
        FixtureExpect::Errors(errors) => ("!!", errors),
    };
    lines
        .iter()
        .map(|line| format!("{mark} {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
