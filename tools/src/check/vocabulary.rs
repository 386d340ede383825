//! Cases for an earlier revision must not use names that a later one added: a case that uses such a name must require its capability.

use std::collections::{BTreeSet, HashMap};

use conformance::suite::{Case, CaseBody, Outcome, ProgramExpect, Suite};

use super::{Project, builtins};
use anyhow::Result;

/// Names, with the capabilities of a server that has them.
type Later<'s> = HashMap<String, BTreeSet<&'s str>>;

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let later = later_names(&project.suite);
    Ok(project
        .suite
        .cases
        .iter()
        .filter_map(|case| complaint(case, &later))
        .collect())
}

/// The names whose sections' clauses all require a capability.
fn later_names(suite: &Suite) -> Later<'_> {
    let forms = ptc_lang::special_forms()
        .iter()
        .map(|form| (form.id, vec![form.name.to_owned()]));
    let rows = ptc_lang::builtins().map(|builtin| (builtin.id, builtins::spellings(builtin)));
    let mut later = Later::new();
    for (id, names) in forms.chain(rows) {
        let clauses = suite.clauses.iter().filter(|clause| clause.section == id);
        let all = clauses
            .map(|clause| {
                clause
                    .requires
                    .iter()
                    .map(String::as_str)
                    .collect::<BTreeSet<_>>()
            })
            .reduce(|all, more| &all & &more)
            .unwrap_or_default();
        if !all.is_empty() {
            later.extend(names.into_iter().map(|name| (name, all.clone())));
        }
    }
    later
}

fn complaint(case: &Case, later: &Later<'_>) -> Option<String> {
    let needs: BTreeSet<&str> = case.needs().collect();
    let text = match &case.body {
        // A server without the name raises an error, too.
        CaseBody::Clj(program) if may_raise(&program.expect) => return None,
        CaseBody::Clj(program) => without_strings(&program.program.source()),
        CaseBody::Fixture(_) => return None,
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    let names: Vec<&str> = match &case.body {
        CaseBody::Clj(_) => text.split(is_name_end).collect(),
        _ => called_names(&text).collect(),
    };
    let (name, asked) = names.into_iter().find_map(|name| {
        let asked = later.get(name)?;
        // The program binds the name itself.
        let is_own = || text.contains(&format!("[{name} ")) || text.contains(&format!("[{name}]"));
        (asked.is_disjoint(&needs) && !is_own()).then_some((name, asked))
    })?;
    let asked = asked.iter().copied().collect::<Vec<_>>().join(", ");
    let (file, line, id) = (&case.file, case.line, &case.id);
    Some(format!(
        "{file}:{line}: {id} uses `{name}`, which needs {asked}: say it without, or ask for that"
    ))
}

fn may_raise(expect: &ProgramExpect) -> bool {
    matches!(expect.outcome, Outcome::Raises(_))
        || expect.otherwise.as_deref().is_some_and(may_raise)
}

/// A program with its strings and patterns emptied.
fn without_strings(program: &str) -> String {
    let mut left = String::new();
    let (mut inside, mut escaped) = (false, false);
    for sign in program.chars() {
        let quotes = sign == '"' && !escaped;
        if quotes || !inside {
            left.push(sign);
        }
        inside ^= quotes;
        escaped = sign == '\\' && !escaped;
    }
    left
}

fn is_name_end(sign: char) -> bool {
    sign.is_whitespace() || "()[]{}\"\\,;'".contains(sign)
}

/// The names between an opening parenthesis and a blank, except those of a shell.
fn called_names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').filter_map(|(at, _)| {
        let (name, _) = text[at + 1..].split_once(is_name_end)?;
        let blank = text[at + 1 + name.len()..].starts_with(' ');
        (blank && !text[..at].ends_with('$')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::fixture;

    fn check_clause(clause: &str) -> Vec<String> {
        let page = format!(
            "# Seqs\n\n## repeat {{#seqs.repeat}}\n\n- {{#seqs.repeat.times requires: lang-1.1}} It MUST repeat.\n\n## count {{#seqs.count}}\n\n{clause}\n\n```clj\n(count (repeat 3 1)) ;=> 3\n```\n"
        );
        let suite = fixture::page("lib/seqs.md", page.as_bytes()).expect("a page");
        let later = later_names(&suite);
        let cases = suite.cases.iter();
        cases.filter_map(|case| complaint(case, &later)).collect()
    }

    #[test]
    fn names_of_later_revisions_are_found() {
        let complaints = check_clause("- {#seqs.count.any} It MUST count.");
        assert!(
            complaints.len() == 1 && complaints[0].contains("uses `repeat`, which needs lang-1.1"),
            "{complaints:?}"
        );
        let asked = check_clause("- {#seqs.count.any requires: lang-1.1} It MUST count.");
        assert_eq!(asked, Vec::<String>::new());
    }
}
