//! Every name in a table of the reference (settings, methods, tools, reasons) must occur in a case that belongs to a clause, or in the
//! sentence of a clause that is marked as untested. Builtins and special forms have their own rule. Knows the tables, not what names mean.

use std::collections::HashSet;

use conformance::suite::Suite;

use super::Project;
use anyhow::{Context, Result};

/// The words in cases of clauses, and in the sentences of clauses that no case can test.
struct CaseWords(HashSet<String>);

impl CaseWords {
    fn of(suite: &Suite) -> Result<CaseWords> {
        let mut words = HashSet::new();
        let mut texts = Vec::new();
        for case in suite.cases.iter().filter(|case| !case.clauses.is_empty()) {
            texts.push(serde_json::to_string(case).with_context(|| case.id.to_string())?);
        }
        let untested = suite
            .clauses
            .iter()
            .filter(|clause| clause.untested.is_some());
        texts.extend(untested.map(|clause| clause.sentence.clone()));
        for text in &texts {
            let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-/".contains(c)));
            for part in parts.filter(|part| !part.is_empty()) {
                if !words.contains(part) {
                    words.insert(part.to_owned());
                }
            }
        }
        Ok(CaseWords(words))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let words = CaseWords::of(&project.suite)?;
    let mut wrong = Vec::new();
    for flag in ptc_server::settings::flags::FLAGS {
        let name = flag.name;
        let spellings = [
            name.replace('-', "_"),
            format!("--{name}"),
            format!("--no-{name}"),
        ];
        if !spellings.iter().any(|spelling| words.has(spelling)) {
            wrong.push(format!(
                "no case below a clause starts a server with --{name}"
            ));
        }
        let variable = flag.env();
        if !words.has(&variable) {
            wrong.push(format!(
                "no case below a clause sets {variable}, or names it"
            ));
        }
    }
    let families: [(&str, Vec<&str>); 6] = [
        ("method", ptc_server::facts::methods().collect()),
        ("tool", ptc_server::facts::tools().collect()),
        ("reason of a refusal", ptc_server::facts::reasons()),
        (
            "reason of a program",
            ptc_protocol::ErrorReason::ALL
                .iter()
                .map(|reason| reason.name())
                .collect(),
        ),
        (
            "reason of an agent's run",
            ptc_agent::RunReason::ALL
                .iter()
                .map(|reason| reason.name())
                .collect(),
        ),
        (
            "reason of an upstream",
            ptc_upstream::Reason::ALL
                .iter()
                .map(|reason| reason.name())
                .collect(),
        ),
    ];
    for (family, names) in families {
        let missing = names.into_iter().filter(|name| !words.has(name));
        wrong.extend(
            missing.map(|name| format!("{family} `{name}`: no case below a clause uses it")),
        );
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::fixture;

    #[test]
    fn names_count_only_below_a_clause() {
        let case = "```clj\n(str \"busy\") ;=> \"busy\"\n```\n";
        let words = |text: &str| {
            let suite = fixture::page("a.md", text.as_bytes()).expect("a page");
            CaseWords::of(&suite).expect("words")
        };
        assert!(!words(&format!("# A {{#a}}\n\n{case}")).has("busy"));
        let below = format!("# A {{#a}}\n\n- {{#a.b}} It MUST be so.\n\n{case}");
        assert!(words(&below).has("busy") && !words(&below).has("shutting_down"));
        let sentence = |attribute: &str| {
            words(&format!(
                "# A {{#a}}\n\n- {{#a.b{attribute}}} It MUST be `busy`.\n"
            ))
        };
        assert!(sentence(" untested: why").has("busy") && !sentence("").has("busy"));
    }
}
