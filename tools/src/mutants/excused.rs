//! People's verdicts on faults that the suite does not catch: `tools/mutants.toml`. Knows faults only by their names.

use std::collections::HashSet;

use serde::Deserialize;

use anyhow::{Context, Result};

/// The file, relative to the workspace.
const FILE: &str = "tools/mutants.toml";

/// The faults that people have read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExcusedFaults {
    fault: Vec<ExcusedFault>,
}

/// A fault, or several in one function, with the verdict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExcusedFault {
    /// Suffix of the file's path; absent: any.
    #[serde(default)]
    file: String,
    /// Suffix of the name of the function; absent: any.
    #[serde(default)]
    function: String,
    /// Prefix of the fault's description; absent: any.
    #[serde(default)]
    what: String,
    /// Why no case catches it.
    pub kind: Excuse,
    pub reason: String,
}

impl ExcusedFault {
    /// Whether the verdict applies to this fault.
    pub fn matches(&self, file: &str, function: &str, what: &str) -> bool {
        file.ends_with(&self.file)
            && function.ends_with(&self.function)
            && what.starts_with(&self.what)
    }

    /// What the verdict applies to.
    fn key(&self) -> (&str, &str, &str) {
        (&self.file, &self.function, &self.what)
    }
}

/// Why no case catches a fault.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Excuse {
    /// It changes no answer.
    Equivalent,
    /// It changes what is not specified: a wording, a number of steps, speed.
    Unobservable,
}

impl Excuse {
    /// The word that the table prints.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Unobservable => "unobservable",
        }
    }
}

impl ExcusedFaults {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load() -> Result<Self> {
        let text = crate::guarded_fs::read_to_string(&crate::root().join(FILE))?;
        toml::from_str(&text).context(FILE)
    }

    /// Duplicate verdicts, which are never used.
    pub fn duplicate_verdicts(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut second = self.fault.iter().map(ExcusedFault::key).collect::<Vec<_>>();
        second.retain(|key| !seen.insert(*key));
        let describe = |(file, function, what)| {
            format!(
                "{FILE}: a second verdict on file = {file:?}, function = {function:?}, what = {what:?}: remove one of the two"
            )
        };
        second.into_iter().map(describe).collect()
    }

    /// The verdict on a fault, if people have read it.
    pub fn find(&self, file: &str, function: &str, what: &str) -> Option<&ExcusedFault> {
        let mut rows = self.fault.iter();
        rows.find(|fault| fault.matches(file, function, what))
    }

    /// Complaints about the verdicts for which `is_matched` is false.
    pub fn unmatched(&self, is_matched: impl Fn(&ExcusedFault) -> bool) -> Vec<String> {
        let stale = self.fault.iter().filter(|fault| !is_matched(fault));
        let describe = |fault: &ExcusedFault| {
            let (file, function, what) = fault.key();
            format!(
                "{FILE}: file = {file:?}, function = {function:?}, what = {what:?}: no such fault can be planted: rename it, or remove it"
            )
        };
        stale.map(describe).collect()
    }
}
