//! Shows the reports of several implementations side by side, clause by clause. Knows only the records.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use indexmap::IndexMap;

use super::{Run, Status, Visible};

/// The result of a clause, a page or a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    /// Cases that failed, whether or not that was expected, including those of a SHOULD.
    pub failed: usize,
    /// Cases without information about the implementation: not claimed, not run, unobservable.
    pub silent: usize,
}

impl Tally {
    fn add(&mut self, status: Status) {
        match status {
            Status::Pass => self.passed += 1,
            Status::Fail | Status::Flaky | Status::ExpectedFailure | Status::Warning => {
                self.failed += 1;
            }
            Status::Unobservable | Status::NotClaimed | Status::NotRun => self.silent += 1,
            Status::SelfCheck => {}
        }
    }

    fn join(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.silent += other.silent;
    }

    /// A mark that distinguishes the result without colour.
    pub fn mark(&self) -> &'static str {
        match (self.passed, self.failed) {
            (0, 0) => "–",
            (_, 0) => "✓",
            (0, _) => "✗",
            _ => "◐",
        }
    }

    /// The CSS class for its colour.
    pub fn class(&self) -> &'static str {
        match self.mark() {
            "✓" => "good",
            "✗" => "bad",
            "◐" => "odd",
            _ => "none",
        }
    }

    /// The text that tables print.
    pub fn words(&self) -> String {
        match self.passed + self.failed {
            0 => "–".to_owned(),
            all => format!("{} {}/{all}", self.mark(), self.passed),
        }
    }
}

/// The implementations of several reports, with the results of each page and clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The names of the reports.
    pub names: Vec<String>,
    /// Pages with their clauses; one tally for each report.
    pub pages: BTreeMap<String, MatrixPage>,
}

/// One page of the specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatrixPage {
    /// The page as a whole.
    pub all: Vec<Tally>,
    /// Its clauses and sections, in the suite's order.
    pub clauses: IndexMap<String, Vec<Tally>>,
}

/// Joins reports by clause. Each has a name that identifies it.
pub fn join(runs: &[(String, Run)]) -> Matrix {
    let count = runs.len();
    let mut pages: BTreeMap<String, MatrixPage> = BTreeMap::new();
    for (column, (_, run)) in runs.iter().enumerate() {
        let of_target = run
            .cases
            .iter()
            .filter(|case| case.status != Status::SelfCheck);
        for case in of_target {
            let page = pages
                .entry(case.page.clone())
                .or_insert_with(|| MatrixPage {
                    all: vec![Tally::default(); count],
                    clauses: IndexMap::new(),
                });
            page.all[column].add(case.status);
            let clause = page.clauses.entry(case.anchor().to_owned());
            let tallies = clause.or_insert_with(|| vec![Tally::default(); count]);
            tallies[column].add(case.status);
        }
    }
    Matrix {
        names: runs.iter().map(|(name, _)| name.clone()).collect(),
        pages,
    }
}

impl Matrix {
    /// The result of each report as a whole.
    pub fn totals(&self) -> Vec<Tally> {
        let mut totals = vec![Tally::default(); self.names.len()];
        for page in self.pages.values() {
            for (total, of_page) in totals.iter_mut().zip(&page.all) {
                total.join(*of_page);
            }
        }
        totals
    }

    /// The table of pages as text.
    pub fn render(&self) -> String {
        let mut rows: Vec<(String, Vec<String>)> = vec![(String::new(), self.names.clone())];
        let words = |tallies: &[Tally]| tallies.iter().map(Tally::words).collect();
        for (name, page) in &self.pages {
            rows.push((name.clone(), words(&page.all)));
        }
        rows.push(("all".to_owned(), words(&self.totals())));
        let wide = |text: &str| text.chars().count();
        let first = rows.iter().map(|(name, _)| wide(name)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.names.len())
            .map(|column| rows.iter().map(|(_, cells)| wide(&cells[column])).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut text = String::new();
        for (name, cells) in rows {
            let mut line = format!("{name:first$}");
            for (cell, width) in cells.iter().zip(&widths) {
                let _infallible = write!(line, "  {cell:>width$}");
            }
            let _infallible = writeln!(text, "{}", Visible(line.trim_end()));
        }
        text
    }

    /// The table of clauses as a self-contained page.
    ///
    /// # Errors
    /// When the template cannot be rendered, which does not happen with text.
    pub fn html(&self) -> Result<String, String> {
        let page = Html {
            names: &self.names,
            totals: self.totals(),
            pages: &self.pages,
        };
        page.render().map_err(|error| format!("HTML: {error}"))
    }
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Html<'a> {
    names: &'a [String],
    totals: Vec<Tally>,
    pages: &'a BTreeMap<String, MatrixPage>,
}

/// Whether implementations differ on a clause.
fn differs(tallies: &[Tally]) -> bool {
    tallies
        .windows(2)
        .any(|pair| pair[0].mark() != pair[1].mark())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, run};

    #[test]
    fn implementations_are_compared_in_columns() {
        let mine = run(
            "mine",
            vec![record("a/1", Status::Pass), record("b/1", Status::Fail)],
        );
        let theirs = run(
            "<theirs>",
            vec![
                record("a/1", Status::Pass),
                record("b/1", Status::NotClaimed),
            ],
        );
        let matrix = join(&[("mine".to_owned(), mine), ("<theirs>".to_owned(), theirs)]);
        assert_eq!(
            matrix.render(),
            "            mine  <theirs>\nlang.page  ◐ 1/2     ✓ 1/1\nall        ◐ 1/2     ✓ 1/1\n"
        );
        let html = matrix.html().expect("a page");
        assert!(
            !html.contains("<theirs>") && html.contains("&#60;theirs&#62;"),
            "{html}"
        );
        assert!(html.contains("✗ 0/1") && !html.contains("http"), "{html}");
    }
}
