//! Joins what the specification says with the cases that test it and the files that implement it.
//! Knows ids; knows nothing of verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use conformance::suite::{Clause, Level, Suite};

use crate::documents::Documents;

/// Everything that is known about each anchor of a suite.
pub struct Coverage<'s> {
    suite: &'s Suite,
    /// Cases that hang on an anchor, by its id.
    cases: HashMap<&'s str, usize>,
    /// Files below `reference/` that name an anchor, by its id.
    files: HashMap<String, BTreeSet<String>>,
    documents: Documents,
}

impl<'s> Coverage<'s> {
    /// Joins.
    ///
    /// # Errors
    /// When the sources of the reference or the table of documents can't be read.
    pub fn of(suite: &'s Suite) -> Result<Coverage<'s>, String> {
        let mut cases = HashMap::new();
        for case in &suite.cases {
            if case.clauses.is_empty() {
                *cases.entry(case.section.as_str()).or_default() += 1;
            }
            for clause in &case.clauses {
                *cases.entry(clause.as_str()).or_default() += 1;
            }
        }
        let sections = suite.sections.iter().map(|section| section.id.as_str());
        let anchors: HashSet<&str> = sections
            .chain(suite.clauses.iter().map(|clause| clause.id.as_str()))
            .collect();
        Ok(Coverage {
            suite,
            cases,
            files: references(&anchors)?,
            documents: Documents::read(&crate::root())?,
        })
    }

    /// Clauses that no case tests and that give no reason.
    pub fn untested(&self) -> Vec<&'s Clause> {
        self.suite.untested()
    }

    /// Rows of the source documents that nothing proves.
    pub fn unproven(&self) -> Vec<String> {
        self.documents.faults(self.suite)
    }

    /// The counts of the whole suite, one line.
    pub fn summary(&self) -> String {
        let count = |level| {
            let of_level = self.suite.clauses.iter().filter(|c| c.level == level);
            of_level.count()
        };
        let excluded = self.suite.clauses.iter().filter(|c| c.untested.is_some());
        format!(
            "{} clauses ({} MUST, {} SHOULD, {} MAY), {} without a case for a reason, {} without a case or reason; {} cases",
            self.suite.clauses.len(),
            count(Level::Must),
            count(Level::Should),
            count(Level::May),
            excluded.count(),
            self.untested().len(),
            self.suite.cases.len(),
        )
    }

    /// The matrix as a page.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# Coverage\n\nWritten by `cargo tool bless`: each section and clause, how many cases test it, \
             and which files of the reference name it\nor, for a clause, its section.\n\n",
        );
        let _infallible = write!(text, "{}.\n\n{}", self.summary(), self.documents.render());
        let mut pages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut clauses: HashMap<&str, Vec<&Clause>> = HashMap::new();
        for clause in &self.suite.clauses {
            clauses.entry(&clause.section).or_default().push(clause);
        }
        for section in &self.suite.sections {
            let rows = pages.entry(&section.file).or_default();
            rows.push(format!(
                "| **{}** | | {} | {} |",
                section.id,
                self.count(&section.id),
                self.named_in(&section.id)
            ));
            for clause in clauses.get(section.id.as_str()).into_iter().flatten() {
                rows.push(self.row(clause));
            }
        }
        for (page, rows) in pages {
            let _infallible = write!(
                text,
                "\n## {page}\n\n| Id | Level | Cases | Implementation |\n|---|---|---|---|\n{}\n",
                rows.join("\n")
            );
        }
        text
    }

    fn row(&self, clause: &Clause) -> String {
        let cases = match (self.count(&clause.id), &clause.untested) {
            (0, Some(reason)) => format!("none: {reason}"),
            (count, _) => count.to_string(),
        };
        let files = match self.named_in(&clause.id) {
            files if files.is_empty() => self.named_in(&clause.section),
            files => files,
        };
        let (id, level) = (&clause.id, clause.level.word());
        format!("| {id} | {level} | {cases} | {files} |")
    }

    fn count(&self, id: &str) -> usize {
        self.cases.get(id).copied().unwrap_or(0)
    }

    fn named_in(&self, id: &str) -> String {
        let files = self.files.get(id).into_iter().flatten();
        files.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// The files below `reference/` that name one of `anchors`, by anchor.
fn references(anchors: &HashSet<&str>) -> Result<HashMap<String, BTreeSet<String>>, String> {
    let root = crate::root().join("reference");
    let mut found: HashMap<String, BTreeSet<String>> = HashMap::new();
    for path in sources(&root)? {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(&root).unwrap_or(&path);
        for word in text.split(|c: char| !is_id_char(c)) {
            let trimmed = word.trim_end_matches(['.', '\'']);
            for id in [word, trimmed] {
                if anchors.contains(id) {
                    let files = found.entry(id.to_owned()).or_default();
                    files.insert(name.to_string_lossy().into_owned());
                }
            }
        }
    }
    Ok(found)
}

/// Every Rust file below `directory`, sorted.
///
/// # Errors
/// When a directory can't be read.
pub fn sources(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let told = |error| format!("{}: {error}", directory.display());
        for entry in std::fs::read_dir(&directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What ids are made of (spec/README.md, fixtures.anchors.id).
fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+*/<>=!?'".contains(c)
}
