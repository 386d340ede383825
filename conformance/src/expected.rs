//! Failures that are known and explained, so that a run can be green without hiding anything: an entry
//! that has become needless fails the run. Knows ids and verdicts, nothing of targets.

use std::collections::HashMap;

use serde::Deserialize;

use crate::suite::{Case, Selector};
use crate::verdict::Verdict;

/// The list, as read from a file of this shape:
///
/// ```toml
/// [[case]]
/// id = "time.duration/*"                 # a case, or a glob over cases, clauses and sections
/// reason = "durations are not there yet"
/// message = "reason: expected"           # optional: the failure's message starts so
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExpectedFailures {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    selector: Selector,
    reason: String,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    case: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    id: String,
    reason: String,
    message: Option<String>,
}

/// How a verdict stands against the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is listed for it, or it is no failure.
    Plain,
    /// It fails as listed, for this reason.
    Expected(String),
}

impl ExpectedFailures {
    /// Reads a list.
    ///
    /// # Errors
    /// With line and column for what is no TOML of this shape; with the entry for a bad glob, an empty
    /// reason or an id that is listed twice.
    pub fn read(text: &str) -> Result<ExpectedFailures, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut entries: Vec<Entry> = Vec::new();
        for raw in file.case {
            if raw.reason.trim().is_empty() {
                return Err(format!("expected a reason for {}, found none", raw.id));
            }
            if entries
                .iter()
                .any(|entry| entry.selector.text() == raw.id && entry.message == raw.message)
            {
                return Err(format!("expected {} once, found it again", raw.id));
            }
            let selector =
                Selector::new(&raw.id).map_err(|error| format!("{}: {error}", raw.id))?;
            entries.push(Entry {
                selector,
                reason: raw.reason,
                message: raw.message,
            });
        }
        Ok(ExpectedFailures { entries })
    }

    /// Whether a verdict is a failure that is listed.
    pub fn standing(&self, case: &Case, verdict: &Verdict) -> Standing {
        if !verdict.is_failure() {
            return Standing::Plain;
        }
        match self
            .entries
            .iter()
            .find(|entry| entry.covers(case, verdict))
        {
            Some(entry) => Standing::Expected(entry.reason.clone()),
            None => Standing::Plain,
        }
    }

    /// What the list says wrongly, after a run of `judged` cases: entries for cases that passed, and
    /// entries that no failure needed. `whole` says that every case of the suite was run; otherwise an
    /// entry none of whose cases were run is left alone.
    pub fn stale<'c>(
        &self,
        judged: impl IntoIterator<Item = (&'c Case, &'c Verdict)>,
        whole: bool,
    ) -> Vec<String> {
        let mut needed: HashMap<usize, usize> = HashMap::new();
        let mut run: HashMap<usize, usize> = HashMap::new();
        let mut passed: HashMap<usize, Vec<&str>> = HashMap::new();
        for (case, verdict) in judged {
            for (index, entry) in self
                .entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.selector.selects(case))
            {
                *run.entry(index).or_default() += 1;
                if verdict.is_failure() && entry.covers(case, verdict) {
                    *needed.entry(index).or_default() += 1;
                } else if verdict.is_pass() {
                    passed.entry(index).or_default().push(&case.id);
                }
            }
        }
        let mut stale = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let id = entry.selector.text();
            let passes = passed.get(&index).map(Vec::as_slice).unwrap_or_default();
            if let Some(first) = passes.first() {
                stale.push(match passes.len() {
                    1 if *first == id => format!("{id} passes now: remove its entry"),
                    1 => format!("{first} passes now: narrow the entry {id}"),
                    count => format!(
                        "{count} cases pass now, such as {first}: narrow or remove the entry {id}"
                    ),
                });
            } else if !needed.contains_key(&index) && (whole || run.contains_key(&index)) {
                stale.push(format!(
                    "no case fails as the entry {id} says: correct or remove it"
                ));
            }
        }
        stale
    }
}

impl Entry {
    fn covers(&self, case: &Case, verdict: &Verdict) -> bool {
        let said = |prefix: &String| verdict.message().starts_with(prefix.as_str());
        self.selector.selects(case) && self.message.as_ref().is_none_or(said)
    }
}
