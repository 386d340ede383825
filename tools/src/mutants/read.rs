//! The verdicts of people on faults that the suite does not catch: `tools/mutants.toml`. Knows no fault but by its names.

use std::collections::HashSet;

use serde::Deserialize;

/// Where it stands, below the workspace.
const FILE: &str = "tools/mutants.toml";

/// Faults that were read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    fault: Vec<Fault>,
}

/// A fault, or several of one function, with what was found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// How its file ends; absent: any.
    #[serde(default)]
    file: String,
    /// How the name of the function around it ends; absent: any.
    #[serde(default)]
    function: String,
    /// How what it does begins; absent: whatever it does there.
    #[serde(default)]
    what: String,
    /// Why no case catches it.
    pub kind: Excuse,
    pub reason: String,
}

impl Fault {
    /// What it is a verdict on.
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
    /// It changes what nobody was promised: a wording, a number of steps, how fast it is.
    Unobservable,
}

impl Excuse {
    /// As the table says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Unobservable => "unobservable",
        }
    }
}

impl Read {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load() -> Result<Self, String> {
        let text = std::fs::read_to_string(crate::root().join(FILE))
            .map_err(|error| format!("{FILE}: {error}"))?;
        toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
    }

    /// Verdicts on what an earlier one is on: they are never read.
    pub fn second_verdicts(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut second = self.fault.iter().map(Fault::key).collect::<Vec<_>>();
        second.retain(|key| !seen.insert(*key));
        let told = |(file, function, what)| {
            format!(
                "{FILE}: a second verdict on file = {file:?}, function = {function:?}, what = {what:?}: remove one of the two"
            )
        };
        second.into_iter().map(told).collect()
    }

    /// What was found of a fault, if it was read.
    pub fn reason(&self, file: &str, function: &str, what: &str) -> Option<&Fault> {
        self.fault.iter().find(|fault| {
            file.ends_with(&fault.file)
                && function.ends_with(&fault.function)
                && what.starts_with(&fault.what)
        })
    }
}
