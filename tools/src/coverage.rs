//! Joins the specification's clauses with the cases that test them and the files that implement them.
//! Knows ids; knows nothing of verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use conformance::suite::{Clause, Level, Suite};

use crate::documents::Documents;
use anyhow::Result;

/// What is known about each anchor of a suite.
pub struct Coverage<'s> {
    suite: &'s Suite,
    /// The number of cases that belong to an anchor, by its id.
    cases: HashMap<&'s str, usize>,
    /// The number of cases in a section, whichever of its anchors they belong to.
    in_section: HashMap<&'s str, usize>,
    /// Files below `reference/` that mention an anchor, by its id.
    files: HashMap<String, BTreeSet<String>>,
    documents: Documents,
}

impl<'s> Coverage<'s> {
    /// Joins the suite with the sources of the reference.
    ///
    /// # Errors
    /// When the sources of the reference or the table of documents can't be read.
    pub fn of(suite: &'s Suite) -> Result<Coverage<'s>> {
        let (mut cases, mut in_section) = (HashMap::new(), HashMap::new());
        for case in &suite.cases {
            *in_section.entry(case.section.as_str()).or_default() += 1;
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
            in_section,
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

    /// The counts for the whole suite, on one line.
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

    /// The counts for the whole suite, for the source documents and for each page.
    pub fn counts(&self) -> String {
        let mut pages: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for clause in &self.suite.clauses {
            let [clauses, untested, _] = pages.entry(&clause.file).or_default();
            *clauses += 1;
            *untested += usize::from(clause.untested.is_some());
        }
        for section in &self.suite.sections {
            let [_, _, cases] = pages.entry(&section.file).or_default();
            *cases += self.in_section.get(&*section.id).copied().unwrap_or(0);
        }
        let mut text = format!(
            "# Coverage\n\nWritten by `cargo tool bless`. Which cases test which clause: `cargo tool matrix --table FILE`.\n\n{}.\n\n{}\n\
             ## Pages\n\n| Page | Clauses | Without a case for a reason | Cases |\n|---|--:|--:|--:|\n",
            self.summary(),
            self.documents.render()
        );
        for (page, [clauses, untested, cases]) in pages {
            let _infallible = writeln!(text, "| {page} | {clauses} | {untested} | {cases} |");
        }
        text
    }

    /// The matrix as a page.
    pub fn matrix(&self) -> String {
        let mut text = String::from(
            "# Coverage\n\nWritten by `cargo tool matrix`: each section and clause, how many cases test it, \
             and which files of the reference name it\nor, for a clause, its section.\n\n",
        );
        let _infallible = writeln!(text, "{}.", self.summary());
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

/// The files below `reference/` that mention one of `anchors`, by anchor.
fn references(anchors: &HashSet<&str>) -> Result<HashMap<String, BTreeSet<String>>> {
    let root = crate::root().join("reference");
    let mut found: HashMap<String, BTreeSet<String>> = HashMap::new();
    for path in crate::guarded_fs::files_below(&root, "rs")? {
        let text = crate::guarded_fs::read_to_string(&path)?;
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

/// Whether an id may contain the character (spec/README.md, fixtures.anchors.id).
fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+*/<>=!?'".contains(c)
}
