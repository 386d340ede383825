//! The requirement sets of published revisions are frozen: their clauses keep their ids and levels.

use std::collections::BTreeMap;

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
        for (id, level) in &revision.clauses {
            let version = &revision.revision;
            match project.suite.clause(id) {
                None => wrong.push(format!("revision {version}: {id} is gone")),
                Some(clause) if clause.level.word() != level => wrong.push(format!(
                    "revision {version}: {id} was {level}, and is {} now",
                    clause.level.word()
                )),
                Some(_) => {}
            }
        }
    }
    Ok(wrong)
}
