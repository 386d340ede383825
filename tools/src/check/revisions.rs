//! The requirement sets of published revisions are frozen: their clauses keep their ids and levels.

use std::collections::BTreeMap;

use conformance::suite::Suite;
use serde::Deserialize;

use super::Project;

/// A file of `spec/revisions/`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revision {
    revision: String,
    /// Levels by clause.
    clauses: BTreeMap<String, String>,
}

pub(super) fn check(project: &Project) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let Ok(entries) = std::fs::read_dir(project.root.join("spec/revisions")) else {
        return Ok(wrong);
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let told = |message: String| format!("{}: {message}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| told(error.to_string()))?;
        let revision: Revision = toml::from_str(&text).map_err(|error| told(error.to_string()))?;
        wrong.extend(broken(&revision, &project.suite));
    }
    Ok(wrong)
}

/// Clauses of a revision that are gone or have another level. Clauses that came later are no business of it.
fn broken(revision: &Revision, suite: &Suite) -> Vec<String> {
    let version = &revision.revision;
    let told = |(id, level): (&String, &String)| match suite.clause(id) {
        None => Some(format!("revision {version}: {id} is gone")),
        Some(clause) if clause.level.word() != level => Some(format!(
            "revision {version}: {id} was {level}, and is {} now",
            clause.level.word()
        )),
        Some(_) => None,
    };
    revision.clauses.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::fixture;

    #[test]
    fn a_clause_may_come_but_not_go_nor_change() {
        let page = "# A {#a}\n\n- {#a.same} It MUST be so.\n\n```clj\n1 ;=> 1\n```\n\n\
                    - {#a.softer} It SHOULD be so.\n\n```clj\n2 ;=> 2\n```\n\n\
                    - {#a.newer} It MUST be so.\n\n```clj\n3 ;=> 3\n```\n";
        let suite = fixture::page("a.md", page.as_bytes()).expect("a page");
        let text = "revision = \"1.0\"\n[clauses]\n\"a.same\" = \"MUST\"\n\"a.softer\" = \"MUST\"\n\"a.gone\" = \"MUST\"\n";
        let revision: Revision = toml::from_str(text).expect("a revision");
        assert_eq!(
            broken(&revision, &suite),
            [
                "revision 1.0: a.gone is gone",
                "revision 1.0: a.softer was MUST, and is SHOULD now"
            ]
        );
    }
}
