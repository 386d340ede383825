//! Checks that the rows of the source documents are proven: reads `spec/documents.toml`, and reports where it refers to
//! nothing. Knows ids and cases; the documents themselves are not in the repository, so it knows nothing of their contents.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use conformance::suite::Suite;
use serde::Deserialize;

use anyhow::{Context, Result};

/// The table, relative to the workspace.
pub const FILE: &str = "spec/documents.toml";

/// Rows by document and section.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Documents(BTreeMap<String, BTreeMap<String, BTreeMap<String, Proof>>>);

/// The proof of a row.
#[derive(Deserialize)]
#[serde(untagged)]
enum Proof {
    /// The id of one clause.
    Clause(String),
    /// Ids of several clauses, each for a part of the row.
    Clauses(Vec<String>),
    /// No clause, with a reason.
    Excluded(Excluded),
}

/// Why no clause can prove a row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Excluded {
    excluded: String,
}

impl Proof {
    fn clauses(&self) -> &[String] {
        match self {
            Proof::Clause(id) => std::slice::from_ref(id),
            Proof::Clauses(ids) => ids,
            Proof::Excluded(_) => &[],
        }
    }

    fn excluded(&self) -> Option<&str> {
        match self {
            Proof::Excluded(Excluded { excluded }) => Some(excluded),
            Proof::Clause(_) | Proof::Clauses(_) => None,
        }
    }
}

impl Documents {
    /// Reads the table of the project at `root`.
    ///
    /// # Errors
    /// When the table is missing or invalid, for example because a row occurs twice in a section.
    pub fn read(root: &Path) -> Result<Documents> {
        let text = crate::guarded_fs::read_to_string(&root.join(FILE))?;
        Documents::parse(&text)
    }

    fn parse(text: &str) -> Result<Documents> {
        toml::from_str(text).context(FILE)
    }

    /// Unproven rows, one per line: no clause, an unknown clause, a clause without cases or a reason, or clauses whose cases
    /// don't use a name that the row has in backticks.
    pub fn faults(&self, suite: &Suite) -> Vec<String> {
        let shown = ClauseTexts::of(suite);
        let mut faults = Vec::new();
        for (document, section, row, proof) in self.rows() {
            let what = proof.fault(row, suite, &shown);
            faults.extend(what.map(|what| format!("{FILE}: {document}: {section}: {row}: {what}")));
        }
        faults
    }

    /// The number of rows of each document, as a part of the coverage page.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "## Source documents\n\nRows of the documents that the specification stands on, each joined with its clauses in \
             [`spec/documents.toml`](../spec/documents.toml).\n\n| Document | Sections | Rows | Excluded for a reason |\n|---|---|---|---|\n",
        );
        for (document, sections) in &self.0 {
            let rows = sections.values().map(BTreeMap::len).sum::<usize>();
            let proofs = sections.values().flat_map(BTreeMap::values);
            let excluded = proofs.filter(|proof| proof.excluded().is_some()).count();
            let _infallible = writeln!(
                text,
                "| {document} | {} | {rows} | {excluded} |",
                sections.len()
            );
        }
        text
    }

    fn rows(&self) -> impl Iterator<Item = (&str, &str, &str, &Proof)> {
        self.0.iter().flat_map(|(document, sections)| {
            sections.iter().flat_map(move |(section, rows)| {
                rows.iter()
                    .map(move |(row, proof)| (&**document, &**section, &**row, proof))
            })
        })
    }
}

impl Proof {
    fn fault(&self, row: &str, suite: &Suite, shown: &ClauseTexts) -> Option<String> {
        if let Some(reason) = self.excluded() {
            let fault = "expected a reason for the exclusion";
            return reason.trim().is_empty().then(|| fault.to_owned());
        }
        if self.clauses().is_empty() {
            return Some("expected a clause, or `excluded` with a reason".to_owned());
        }
        for id in self.clauses() {
            match suite.clause(id) {
                None => return Some(format!("there is no clause {id}")),
                Some(clause) if clause.untested.is_none() && !shown.0.contains_key(&**id) => {
                    return Some(format!("no case tests {id}"));
                }
                Some(_) => {}
            }
        }
        let names = row.split('`').skip(1).step_by(2);
        let unused = names.filter(|name| !self.clauses().iter().any(|id| shown.has(id, name)));
        unused
            .map(|name| format!("no case of its clauses uses `{name}`"))
            .next()
    }
}

/// What the cases of each clause send and expect, by the clause's id.
struct ClauseTexts<'s>(HashMap<&'s str, String>);

impl<'s> ClauseTexts<'s> {
    fn of(suite: &'s Suite) -> ClauseTexts<'s> {
        let mut shown: HashMap<&str, String> = HashMap::new();
        for case in suite.cases.iter().filter(|case| !case.clauses.is_empty()) {
            let text = serde_json::to_string(&(&case.target, &case.body)).unwrap_or_default();
            let text = unescaped(&text);
            for clause in &case.clauses {
                shown.entry(clause).or_default().push_str(&text);
            }
        }
        ClauseTexts(shown)
    }

    fn has(&self, clause: &str, name: &str) -> bool {
        let text = self.0.get(clause);
        text.is_some_and(|text| text.contains(&unescaped(name)))
    }
}

/// A text without escapes, however often it was quoted.
fn unescaped(text: &str) -> String {
    text.replace('\\', "")
}

#[cfg(test)]
mod tests;
