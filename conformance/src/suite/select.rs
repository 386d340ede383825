//! Matches cases against globs. The only implementation, used for `--filter`, `--skip` and expected failures.

use std::collections::BTreeSet;

use globset::{Glob, GlobMatcher};

use super::{Case, Suite};

/// Maximum length of a glob in bytes, and maximum number of opening braces: a glob is compiled to a regular expression, which fails
/// for large or deeply nested ones.
const GLOB_BYTES_MAX: usize = 1000;
const BRACES_MAX: usize = 50;
/// Words longer than this, in bytes, get no suggestion.
const WORD_BYTES_MAX: usize = 200;
/// The edit distance always allowed for a suggestion; for long names a third of their length is allowed.
const NEAR_MAX: usize = 2;

/// A glob over the ids of cases, clauses and sections, and over pages, whose paths are dotted: `lang/reader.md` is named
/// `lang.reader`. `*` matches any characters: `strings.*` means every case of every section below `strings`, `lib.*` every
/// case of every page in `lib/`.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    matcher: GlobMatcher,
}

/// Why a glob is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It exceeds a limit.
    #[error(
        "`{start}…` is too large: a glob has at most {GLOB_BYTES_MAX} bytes and {BRACES_MAX} braces that open; write several"
    )]
    TooLarge {
        /// Its first characters.
        start: String,
    },
    /// It breaks the grammar of globs.
    #[error(transparent)]
    Malformed(#[from] globset::Error),
    /// It selects nothing: a typo would leave out, or let in, every case.
    #[error("`{text}` matches no case, clause, section or page{}", hint(.nearest.as_deref()))]
    NoMatch {
        /// The glob.
        text: String,
        /// The most similar name that matches.
        nearest: Option<String>,
    },
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `ptc-conformance list` names them".to_owned(),
    }
}

impl Selector {
    /// Parses a glob.
    ///
    /// # Errors
    /// When the glob is malformed or too large.
    pub fn new(text: &str) -> Result<Selector, SelectorError> {
        if text.len() > GLOB_BYTES_MAX || text.matches('{').count() > BRACES_MAX {
            let start = &text[..text.floor_char_boundary(WORD_BYTES_MAX)];
            return Err(SelectorError::TooLarge {
                start: start.to_owned(),
            });
        }
        let glob = Glob::new(text)?;
        Ok(Selector {
            text: text.to_owned(),
            matcher: glob.compile_matcher(),
        })
    }

    /// The glob as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches a name.
    pub fn matches_name(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }

    /// Whether it names one case exactly, rather than many.
    pub fn is_exact(&self) -> bool {
        !self.text.contains(['*', '?', '[', '{'])
    }

    /// Checks that the glob matches at least one case of a suite.
    ///
    /// # Errors
    /// [`SelectorError::NoMatch`].
    pub fn check_matches(&self, suite: &Suite) -> Result<(), SelectorError> {
        if suite.cases.iter().any(|case| self.selects(case)) {
            return Ok(());
        }
        Err(SelectorError::NoMatch {
            text: self.text.clone(),
            nearest: self.nearest(suite),
        })
    }

    /// The most similar name of a clause, section, page or case. The part of the glob from the first wildcard on is kept.
    fn nearest(&self, suite: &Suite) -> Option<String> {
        let (stem, tail) = match self.text.find(['*', '?', '[', '{']) {
            Some(at) => {
                let stem = self.text[..at].trim_end_matches(['.', '/']);
                (stem, &self.text[stem.len()..])
            }
            None => (self.text.as_str(), ""),
        };
        let mut names: BTreeSet<String> = BTreeSet::new();
        for case in &suite.cases {
            names.extend(case.clauses.iter().cloned());
            names.insert(case.section.clone());
            names.insert(page_name(case));
            if stem.contains('/') {
                names.insert(case.id.clone());
            }
        }
        // A wildcard usually follows a complete part of a name.
        let parts: Vec<String> = if tail.is_empty() {
            Vec::new()
        } else {
            let dots = |name: &String| -> Vec<String> {
                name.match_indices('.')
                    .map(|(at, _)| name[..at].to_owned())
                    .collect()
            };
            names.iter().flat_map(dots).collect()
        };
        names.extend(parts);
        // If the name itself exists, there is nothing below it.
        nearest(stem, names).map(|name| if name == stem { name } else { name + tail })
    }

    /// Whether the glob matches this case by its id, one of its clauses, its section, or its page.
    pub fn selects(&self, case: &Case) -> bool {
        self.matcher.is_match(&case.id)
            || self.matcher.is_match(&case.section)
            || case
                .clauses
                .iter()
                .any(|clause| self.matcher.is_match(clause))
            || self.matcher.is_match(page_name(case))
    }
}

/// The name most similar to `word`, if one is similar enough.
pub fn nearest(word: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let (distance, name) = names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, &name), name))
        .min()?;
    (distance <= NEAR_MAX.max(word.len() / 3)).then_some(name)
}

/// The page of a case, as globs name it: `lang.reader`.
pub fn page_name(case: &Case) -> String {
    case.page.trim_end_matches(".md").replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_globs_are_rejected() {
        for text in [
            "a".repeat(3_000_000),
            "?".repeat(3_000_000),
            "{a,b".repeat(3000) + &"}".repeat(3000),
            "{a,".repeat(300) + &"}".repeat(300),
        ] {
            let told = Selector::new(&text)
                .expect_err("it is too large")
                .to_string();
            assert!(told.len() < 500 && told.contains("is too large"), "{told}");
        }
        assert!(Selector::new(&"?".repeat(GLOB_BYTES_MAX)).is_ok());
        let deep = "{a,".repeat(BRACES_MAX) + &"}".repeat(BRACES_MAX);
        assert!(Selector::new(&deep).is_ok());
        assert_eq!(nearest(&"a".repeat(100_000), ["b".repeat(100_000)]), None);
    }
}
