//! Shows the reports of several implementations side by side, clause by clause. Knows only the records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use askama::Template;
use indexmap::IndexMap;

use super::conclusion::{judged_share, percent};
use super::{ReportError, Run, Status, Visible};

/// The result of a clause, a page or a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    /// Cases that failed, whether or not that was expected, including those of a SHOULD.
    pub failed: usize,
    /// Cases without information about the implementation: not claimed, not run, unobservable, not in the report.
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
        match (self.passed, self.failed, self.silent) {
            (0, 0, _) => "–",
            (_, 0, 0) => "✓",
            (_, 0, _) => "in part",
            (0, _, _) => "✗",
            _ => "◐",
        }
    }

    /// The CSS class for its colour.
    pub fn class(&self) -> &'static str {
        match self.mark() {
            "✓" => "good",
            "✗" => "bad",
            "◐" => "odd",
            "in part" => "part",
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
    /// How much of the suite each report judges: `62 %`, and whether the run was a part of the suite.
    pub shares: Vec<String>,
    /// The number of cases that each report leaves out, apart from those below.
    left_out: Vec<usize>,
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
    // The cases of each clause, with the reports that have them.
    let mut known: BTreeMap<(&str, &str, &str), BTreeSet<usize>> = BTreeMap::new();
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
            let key = (case.page.as_str(), case.anchor(), case.id.as_str());
            known.entry(key).or_default().insert(column);
        }
    }
    let mut left_out: Vec<usize> = runs.iter().map(|(_, run)| missing(run)).collect();
    for ((page, clause, _), columns) in known {
        let Some(page) = pages.get_mut(page) else {
            continue;
        };
        for column in (0..count).filter(|column| !columns.contains(column)) {
            page.all[column].silent += 1;
            if let Some(tallies) = page.clauses.get_mut(clause) {
                tallies[column].silent += 1;
            }
            left_out[column] = left_out[column].saturating_sub(1);
        }
    }
    Matrix {
        names: runs.iter().map(|(name, _)| name.clone()).collect(),
        shares: runs.iter().map(|(_, run)| share(run)).collect(),
        left_out,
        pages,
    }
}

/// The number of cases of the suite that a run left out.
fn missing(run: &Run) -> usize {
    let ids: BTreeSet<&str> = run.cases.iter().map(|case| case.id.as_str()).collect();
    run.suite_cases.saturating_sub(ids.len())
}

fn share(run: &Run) -> String {
    let part = match run.partial {
        true => ", part of the suite",
        false => "",
    };
    format!("{} %{part}", percent(judged_share(run)))
}

impl Matrix {
    /// The result of each report as a whole.
    pub fn totals(&self) -> Vec<Tally> {
        let of_none = |silent: &usize| Tally {
            silent: *silent,
            ..Tally::default()
        };
        let mut totals: Vec<Tally> = self.left_out.iter().map(of_none).collect();
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
        rows.push(("judged".to_owned(), self.shares.clone()));
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
    pub fn html(&self) -> Result<String, ReportError> {
        let page = Html {
            names: &self.names,
            shares: &self.shares,
            totals: self.totals(),
            pages: &self.pages,
        };
        Ok(page.render()?)
    }
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Html<'a> {
    names: &'a [String],
    shares: &'a [String],
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
            "            mine     <theirs>\n\
             judged     100 %         50 %\n\
             lang.page  ◐ 1/2  in part 1/1\n\
             all        ◐ 1/2  in part 1/1\n"
        );
        let html = matrix.html().expect("a page");
        assert!(
            !html.contains("<theirs>") && html.contains("&#60;theirs&#62;"),
            "{html}"
        );
        assert!(html.contains("✗ 0/1") && !html.contains("http"), "{html}");
        assert!(html.contains("judged 50 %"), "{html}");
    }

    /// A tick would say that everything was judged.
    #[test]
    fn part_of_a_suite_gets_no_tick() {
        let cases = || vec![record("a/1", Status::Pass), record("a/2", Status::Pass)];
        let mut part = run("part", cases());
        part.partial = true;
        part.suite_cases = 10;
        let mut few = run("few", vec![record("a/1", Status::Pass)]);
        few.partial = true;
        few.suite_cases = 2;
        let all = run("all", cases());
        let runs = [part, few, all].map(|run| (run.target.clone(), run));
        let text = join(&runs).render();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            rows,
            [
                vec!["part", "few", "all"],
                vec![
                    "judged",
                    "100 %, part of the suite",
                    "100 %, part of the suite",
                    "100 %"
                ],
                vec!["lang.page", "✓ 2/2", "in part 1/1", "✓ 2/2"],
                vec!["all", "in part 2/2", "in part 1/1", "✓ 2/2"],
            ],
            "{text}"
        );
    }
}
