//! Which cases a glob means. The one rule for `--filter`, `--skip` and expected failures.

use globset::{Glob, GlobMatcher};

use super::Case;

/// A glob over case ids, clause ids, section ids and pages, whose path is dotted: `lang/reader.md` is called
/// `lang.reader`. `*` stops at nothing: `strings.*` means every case of every section below `strings`, `lib.*` every
/// case of every page in `lib/`.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    matcher: GlobMatcher,
}

impl Selector {
    /// Reads a glob.
    ///
    /// # Errors
    /// When it is malformed, in the words of the glob's own grammar.
    pub fn new(text: &str) -> Result<Selector, String> {
        let glob = Glob::new(text).map_err(|error| error.to_string())?;
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
    pub fn names(&self, name: &str) -> bool {
        self.matcher.is_match(name)
    }

    /// Whether it names one case exactly, rather than many.
    pub fn is_exact(&self) -> bool {
        !self.text.contains(['*', '?', '[', '{'])
    }

    /// Whether it means this case: by its id, one of its clauses, its section, or its page.
    pub fn selects(&self, case: &Case) -> bool {
        self.matcher.is_match(&case.id)
            || self.matcher.is_match(&case.section)
            || case
                .clauses
                .iter()
                .any(|clause| self.matcher.is_match(clause))
            || self
                .matcher
                .is_match(case.page.trim_end_matches(".md").replace('/', "."))
    }
}
