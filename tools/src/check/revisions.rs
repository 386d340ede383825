//! Published revisions are frozen: each of their clauses keeps its id and its level, unless a later revision declares a change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use conformance::suite::{Level, Suite};
use serde::Deserialize;

use super::Project;
use anyhow::{Context, Result};

/// A file of `spec/revisions/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revision {
    revision: String,
    /// Levels by clause: the contents of a revision that has no base.
    #[serde(default)]
    clauses: BTreeMap<String, String>,
    /// The revision that this one is based on.
    base: Option<String>,
    /// Clauses of the base that were removed, with the reason.
    #[serde(default)]
    retired: BTreeMap<String, String>,
    /// Clauses of the base whose meaning changed, with the reason.
    #[serde(default)]
    changed: BTreeMap<String, String>,
    /// Levels of clauses that the base does not have; empty until the revision is published.
    #[serde(default)]
    added: BTreeMap<String, String>,
}

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    Ok(revision_faults(&read(&project.root)?, &project.suite))
}

/// All clauses that revisions before `version` list.
///
/// # Errors
/// When a file of `spec/revisions/` cannot be read.
pub fn clauses_before(root: &Path, version: &str) -> Result<BTreeSet<String>> {
    let earlier = read(root)?;
    let earlier = earlier
        .into_iter()
        .filter(|revision| revision.revision.as_str() < version);
    Ok(earlier
        .flat_map(|revision| {
            revision
                .clauses
                .into_keys()
                .chain(revision.added.into_keys())
        })
        .collect())
}

/// The revisions, oldest first.
fn read(root: &Path) -> Result<Vec<Revision>> {
    let directory = root.join("spec/revisions");
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut revisions = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let text = crate::guarded_fs::read_to_string(&path)?;
        revisions
            .push(toml::from_str::<Revision>(&text).with_context(|| path.display().to_string())?);
    }
    revisions.sort_by(|a, b| a.revision.cmp(&b.revision));
    Ok(revisions)
}

/// The faults of the revisions, oldest first. Clauses that were added later are ignored.
fn revision_faults(revisions: &[Revision], suite: &Suite) -> Vec<String> {
    let mut wrong = Vec::new();
    // Each clause's current level, and the revision that set it.
    let mut standing: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for revision in revisions {
        let version = revision.revision.as_str();
        if let Some(base) = &revision.base
            && !revisions.iter().any(|other| other.revision == *base)
        {
            wrong.push(format!("revision {version}: there is no revision {base}"));
        }
        for (id, reason) in revision.retired.iter().chain(&revision.changed) {
            if !standing.contains_key(id.as_str()) {
                wrong.push(format!(
                    "revision {version}: {id} is no clause of what it builds on"
                ));
            }
            if reason.trim().is_empty() {
                wrong.push(format!("revision {version}: {id} has no reason"));
            }
        }
        for id in revision.retired.keys() {
            standing.remove(id.as_str());
            if suite.clause(id).is_some() {
                wrong.push(format!(
                    "revision {version}: {id} is retired, and still there"
                ));
            }
        }
        for id in revision.changed.keys() {
            // A changed clause has the level that the page gives it now.
            let level = suite
                .clause(id)
                .map_or("", |clause| Level::word(clause.level));
            if let Some(held) = standing.get_mut(id.as_str()) {
                *held = (version, level);
            }
        }
        for (id, level) in revision.clauses.iter().chain(&revision.added) {
            standing.insert(id, (version, level));
        }
    }
    for (id, (version, level)) in standing {
        match suite.clause(id) {
            None => wrong.push(format!(
                "revision {version}: {id} is gone; a later revision says so in [retired]"
            )),
            Some(clause) if clause.level.word() != level => wrong.push(format!(
                "revision {version}: {id} was {level}, and is {} now; a later revision says so in [changed]",
                clause.level.word()
            )),
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::fixture;

    const BASE: &str = "revision = \"1.0\"\n[clauses]\n\"a.same\" = \"MUST\"\n\"a.softer\" = \"MUST\"\n\"a.gone\" = \"MUST\"\n";

    fn faults_of(texts: &[&str]) -> Vec<String> {
        let page = "# A {#a}\n\n- {#a.same} It MUST be so.\n\n```clj\n1 ;=> 1\n```\n\n\
                    - {#a.softer} It SHOULD be so.\n\n```clj\n2 ;=> 2\n```\n\n\
                    - {#a.newer} It MUST be so.\n\n```clj\n3 ;=> 3\n```\n";
        let suite = fixture::page("a.md", page.as_bytes()).expect("a page");
        let revisions: Vec<Revision> = texts
            .iter()
            .map(|text| toml::from_str(text).expect("a revision"))
            .collect();
        revision_faults(&revisions, &suite)
    }

    #[test]
    fn clauses_may_be_added_but_not_removed_or_changed() {
        assert_eq!(
            faults_of(&[BASE]),
            [
                "revision 1.0: a.gone is gone; a later revision says so in [retired]",
                "revision 1.0: a.softer was MUST, and is SHOULD now; a later revision says so in [changed]",
            ]
        );
    }

    #[test]
    fn later_revisions_declare_removed_and_changed_clauses() {
        let next = "revision = \"1.1\"\nbase = \"1.0\"\n[retired]\n\"a.gone\" = \"nobody had it\"\n\
                    [changed]\n\"a.softer\" = \"it was too hard\"\n";
        assert_eq!(faults_of(&[BASE, next]), <[&str; 0]>::default());
        let wrong = "revision = \"1.1\"\nbase = \"0.9\"\n[retired]\n\"a.gone\" = \"\"\n\"a.same\" = \"it stands\"\n\
                     [changed]\n\"a.softer\" = \"it was too hard\"\n\"a.newer\" = \"it is new\"\n\
                     [added]\n\"a.lost\" = \"MUST\"\n";
        assert_eq!(
            faults_of(&[BASE, wrong]),
            [
                "revision 1.1: there is no revision 0.9",
                "revision 1.1: a.gone has no reason",
                "revision 1.1: a.newer is no clause of what it builds on",
                "revision 1.1: a.same is retired, and still there",
                "revision 1.1: a.lost is gone; a later revision says so in [retired]",
            ]
        );
    }
}
