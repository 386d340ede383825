//! A builtin is a row, a function, and a section of the specification with a tested clause. The compiler makes sure that a row
//! has a function and, by its warning about dead code, that a function has a row; the rest is checked here.

use std::collections::HashSet;

use conformance::suite::{Section, Suite};
use ptc_lang::{Builtin, NAMESPACES};

use super::Project;
use anyhow::Result;

/// The pages in which a section that is headed with a name describes a function.
const LIBRARY: &str = "lib/";

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let suite = &project.suite;
    let mut wrong = rows_without_section(suite);
    wrong.extend(duplicate_names());
    wrong.extend(sections_without_row(suite));
    Ok(wrong)
}

/// Rows whose id is not a heading or clause, or below which no case tests a clause.
fn rows_without_section(suite: &Suite) -> Vec<String> {
    let mut tested = HashSet::new();
    for id in suite.cases.iter().flat_map(|case| &case.clauses) {
        tested.insert(id.as_str());
        tested.extend(suite.clause(id).map(|clause| clause.section.as_str()));
    }
    let sections = suite.sections.iter().map(|section| section.id.as_str());
    let anchors: HashSet<&str> = sections
        .chain(suite.clauses.iter().map(|clause| clause.id.as_str()))
        .collect();
    let forms = ptc_lang::special_forms()
        .iter()
        .map(|form| ("special form", form.name, form.id));
    let builtins = ptc_lang::builtins().map(|builtin| ("builtin", builtin.name, builtin.id));
    forms
        .chain(builtins)
        .filter_map(
            |(kind, name, id)| match (anchors.contains(id), tested.contains(id)) {
                (false, _) => Some(format!("{kind} `{name}`: expected {{#{id}}} in spec/")),
                (true, false) => Some(format!(
                    "{kind} `{name}`: expected a clause with a case below {{#{id}}}"
                )),
                (true, true) => None,
            },
        )
        .collect()
}

/// Names that two rows claim in the same place.
fn duplicate_names() -> Vec<String> {
    let mut seen = HashSet::new();
    let spellings = |builtin: &'static Builtin| {
        let bare = builtin.bare.then(|| builtin.name.to_owned());
        let homes = builtin.homes.iter();
        bare.into_iter()
            .chain(homes.map(|home| format!("{home:?}/{}", builtin.member())))
    };
    ptc_lang::builtins()
        .flat_map(spellings)
        .filter(|name| !seen.insert(name.clone()))
        .map(|name| format!("builtin `{name}` has two rows"))
        .collect()
}

/// Sections that describe a function without a row.
fn sections_without_row(suite: &Suite) -> Vec<String> {
    let known: HashSet<String> = ptc_lang::builtins().flat_map(spellings).collect();
    let mut wrong = Vec::new();
    for section in suite
        .sections
        .iter()
        .filter(|section| describes_function(section))
    {
        for name in section.title.split(", ") {
            if !known.contains(name) {
                let (file, line) = (&section.file, section.line);
                wrong.push(format!(
                    "{file}:{line}: `{name}` has no row in the builtin table"
                ));
            }
        }
    }
    wrong
}

/// Whether a section is headed with the last part of its id.
fn describes_function(section: &Section) -> bool {
    let first = section.title.split(", ").next().unwrap_or_default();
    let named = section.id.split_once('.').map(|(_, name)| name);
    section.file.starts_with(LIBRARY)
        && named.is_some_and(|named| named == first || first.strip_prefix('.') == Some(named))
}

/// The spellings of a builtin's name in programs.
pub(super) fn spellings(builtin: &'static Builtin) -> Vec<String> {
    let mut names = vec![builtin.name.to_owned()];
    for home in builtin.homes {
        let namespaces = NAMESPACES.iter().filter(|namespace| namespace.id == *home);
        for spelling in namespaces.flat_map(|namespace| namespace.spellings) {
            names.push(format!("{spelling}/{}", builtin.member()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::fixture;

    fn page(text: &str) -> Suite {
        fixture::page("lib/strings.md", text.as_bytes()).expect("a page")
    }

    #[test]
    fn sections_without_a_row_are_found() {
        let suite = page(
            "# Strings\n\n## zork {#strings.zork}\n\n## Rows {#strings.rows}\n\n## join {#strings.join}\n",
        );
        assert_eq!(
            sections_without_row(&suite),
            ["lib/strings.md:3: `zork` has no row in the builtin table"]
        );
    }

    #[test]
    fn rows_without_a_section_or_case_are_found() {
        let missing_row = |text: &str, id: &str| {
            let mut complaints = rows_without_section(&page(text)).into_iter();
            complaints.find(|complaint| complaint.contains(id))
        };
        let missing = missing_row("# Strings\n", "{#strings.join}");
        assert!(
            missing
                .is_some_and(|complaint| complaint.contains("expected {#strings.join} in spec/"))
        );
        let head = "## join {#strings.join}\n\n";
        let case = "```clj\n(join \"\" []) ;=> \"\"\n```\n";
        for untested in [head.to_owned(), format!("{head}{case}")] {
            let missing = missing_row(&untested, "{#strings.join}");
            assert!(missing.is_some_and(|complaint| complaint.contains("expected a clause")));
        }
        let tested = format!("{head}- {{#strings.join.none}} It MUST be empty.\n\n{case}");
        assert_eq!(missing_row(&tested, "{#strings.join}"), None);
    }
}
