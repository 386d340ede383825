//! MCP's requirements for servers, and the clauses that test them: `spec/base/requirements.toml` must name each clause of the pages
//! `base.*`, and no other. Knows ids and sentences; knows nothing of servers.

use std::collections::BTreeSet;

use conformance::suite::{Level, Suite};
use serde::Deserialize;

use super::Project;
use anyhow::{Context, Result, bail};

const FILE: &str = "spec/base/requirements.toml";
/// The page with the table of counts.
const PAGE: &str = "conformance/mcp.md";
/// The revisions that rows may refer to.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];
/// The prefix of clauses that rows may name.
const PREFIX: &str = "base.";
/// Minimum percentage of observable requirements that must be tested, for each revision.
const TRIED_PERCENT_MIN: usize = 90;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirements {
    requirement: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    revisions: Vec<String>,
    section: String,
    level: Level,
    says: String,
    /// The clauses that test it.
    #[serde(default)]
    clauses: Vec<String>,
    /// Why compliance cannot be observed.
    unseen: Option<String>,
    /// The scenario of the official runner that tests it.
    official: Option<String>,
}

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let read = |path: &str| crate::guarded_fs::read_to_string(&project.root.join(path));
    let requirements = parse(&read(FILE)?)?;
    let mut wrong = faults(&requirements, &project.suite);
    let page = read(PAGE)?;
    let rows = REVISIONS.map(|revision| counts_row(&requirements, revision));
    let stale = rows.iter().filter(|row| !page.contains(&**row));
    wrong.extend(stale.map(|row| format!("{PAGE}: expected the row {row}")));
    Ok(wrong)
}

fn parse(text: &str) -> Result<Vec<Requirement>> {
    let read: Requirements = toml::from_str(text).context(FILE)?;
    match read.requirement.iter().find(|row| row.level == Level::May) {
        Some(row) => bail!(
            "{FILE}: {}: expected MUST or SHOULD; a MAY asks for nothing",
            row.says
        ),
        None => Ok(read.requirement),
    }
}

/// Rows that name no clause, or a clause that does not exist; clauses that no row names.
fn faults(requirements: &[Requirement], suite: &Suite) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    let of_musts = requirements.iter().filter(|row| row.level == Level::Must);
    let duties: BTreeSet<&str> = of_musts
        .flat_map(|row| row.clauses.iter().map(String::as_str))
        .collect();
    for row in requirements {
        let faults = row.faults(suite, &duties);
        wrong.extend(
            faults
                .into_iter()
                .map(|fault| format!("{FILE}: {}: {}: {fault}", row.section, row.says)),
        );
        named.extend(row.clauses.iter().map(String::as_str));
    }
    let clauses = suite.clauses.iter().map(|clause| clause.id.as_str());
    let of_page = clauses.filter(|id| id.starts_with(PREFIX) && !named.contains(id));
    wrong.extend(of_page.map(|id| format!("{FILE}: no requirement names {id}")));
    for revision in REVISIONS {
        let (_, seen, tried, _) = counts(requirements, revision);
        if tried * 100 < seen * TRIED_PERCENT_MIN {
            wrong.push(format!("{FILE}: {revision}: {tried} of {seen} are tried"));
        }
    }
    wrong
}

impl Requirement {
    fn faults(&self, suite: &Suite, duties: &BTreeSet<&str>) -> Vec<String> {
        let mut wrong = Vec::new();
        let revisions = self.revisions.iter();
        let unknown = revisions.filter(|revision| !REVISIONS.contains(&revision.as_str()));
        wrong.extend(unknown.map(|revision| format!("there is no revision {revision}")));
        if let Some(why) = &self.unseen
            && (why.trim().is_empty() || !self.clauses.is_empty())
        {
            wrong.push("expected either clauses, or `unseen` with a reason".to_owned());
        }
        for id in &self.clauses {
            match suite.clause(id).filter(|_| id.starts_with(PREFIX)) {
                None => wrong.push(format!("there is no clause {id}")),
                // A clause is as binding as the most binding requirement that it tests.
                Some(clause) if clause.level == Level::Must && !duties.contains(id.as_str()) => {
                    wrong.push(format!("is advice, and {id} a duty"));
                }
                Some(_) => {}
            }
        }
        for revision in &self.revisions {
            let sources = self.clauses.iter().filter_map(|id| suite.clause(id));
            let states = |text: &str| {
                text.contains(revision.as_str())
                    || !REVISIONS.iter().any(|known| text.contains(known))
            };
            if !self.clauses.is_empty()
                && !sources.into_iter().any(|clause| states(&clause.sentence))
            {
                wrong.push(format!("no clause of it is of {revision}"));
            }
        }
        wrong
    }
}

/// The numbers of a revision's rows: all, observable, tested, and tested by the official runner.
fn counts(requirements: &[Requirement], revision: &str) -> (usize, usize, usize, usize) {
    let of = |wanted: fn(&Requirement) -> bool| {
        let rows = requirements.iter();
        rows.filter(|row| row.revisions.iter().any(|own| own == revision) && wanted(row))
            .count()
    };
    (
        of(|_| true),
        of(|row| row.unseen.is_none()),
        of(|row| !row.clauses.is_empty()),
        of(|row| row.unseen.is_none() && row.official.is_some()),
    )
}

/// The row of the page's table.
fn counts_row(requirements: &[Requirement], revision: &str) -> String {
    let (all, seen, tried, official) = counts(requirements, revision);
    format!("| {revision} | {all} | {seen} | {tried} | {official} |")
}

#[cfg(test)]
mod tests;
