//! Known and explained failures, so that a run can pass without hiding anything: an entry
//! that is no longer needed fails the run. Knows ids and verdicts, nothing of targets.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::files::{self, TomlError};
use crate::suite::{Case, Selector, SelectorError, Suite};
use crate::verdict::{Mismatch, Verdict};

/// The list, as read from a file like this:
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
    /// The expected divergences by id, each with the differences that it explains.
    divergences: BTreeMap<String, Vec<&'static Difference>>,
}

/// A kind of failure that a recorded divergence can explain.
#[derive(Debug)]
struct Difference {
    /// The word behind [`DIFFERS_IN`].
    word: &'static str,
    is_shown_by: fn(&Verdict) -> bool,
    /// Whether entries without that line explain it.
    by_default: bool,
}

/// The line of an entry that lists the differences it explains, and no others: `Differs in: messages.`
const DIFFERS_IN: &str = "Differs in:";

/// Every kind of difference. A failure of the harness is none.
const DIFFERENCES: &[Difference] = &[
    Difference {
        word: "values",
        is_shown_by: |verdict| matches!(verdict, Verdict::Fail(wrong) if !is_of_reason(wrong) && !is_of_message(wrong)),
        by_default: true,
    },
    Difference {
        word: "reasons",
        is_shown_by: |verdict| matches!(verdict, Verdict::Fail(wrong) if is_of_reason(wrong)),
        by_default: true,
    },
    Difference {
        word: "messages",
        is_shown_by: |verdict| matches!(verdict, Verdict::Fail(wrong) if is_of_message(wrong)),
        by_default: true,
    },
    Difference {
        word: "crashes",
        is_shown_by: |verdict| matches!(verdict, Verdict::Crashed { .. }),
        by_default: false,
    },
    Difference {
        word: "silence",
        is_shown_by: |verdict| matches!(verdict, Verdict::TimedOut { .. } | Verdict::Silent { .. }),
        by_default: false,
    },
    Difference {
        word: "junk",
        is_shown_by: |verdict| matches!(verdict, Verdict::Junk { .. }),
        by_default: false,
    },
];

fn is_of_reason(wrong: &Mismatch) -> bool {
    wrong.what == "reason" || wrong.what.ends_with(".reason")
}

fn is_of_message(wrong: &Mismatch) -> bool {
    wrong.what == "message"
        || [".message", ".feedback"]
            .iter()
            .any(|end| wrong.what.ends_with(end))
}

/// Why a list of expected failures is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedFailuresError {
    /// The text is not TOML of this shape.
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error("expected a reason for {id}, found none")]
    NoReason { id: String },
    #[error("expected {id} once, found it again")]
    Twice { id: String },
    #[error("{id}: {error}")]
    Glob { id: String, error: SelectorError },
    #[error(
        "no case shows a divergence called `{word}`; name a page of spec/divergences (original-0.12) or an entry of one"
    )]
    NoDivergence { word: String },
    #[error("{id}: `{DIFFERS_IN}` lists {known}, and not `{word}`")]
    NoDifference {
        /// The entry.
        id: String,
        word: String,
        /// The words that there are.
        known: String,
    },
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

/// How a verdict compares with the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaselineMatch {
    /// It is not a failure, or is not listed.
    Plain,
    /// It fails as listed, for this reason.
    Expected(String),
    /// It fails as the divergence with this id explains.
    Diverges(String),
}

impl ExpectedFailures {
    /// Parses a list.
    ///
    /// # Errors
    /// With line and column for text that is not TOML of this shape; with the entry for a bad glob, an empty
    /// reason or a duplicate id.
    pub fn read(text: &str) -> Result<ExpectedFailures, ExpectedFailuresError> {
        let file: File = files::parse_toml(text)?;
        let mut entries: Vec<Entry> = Vec::new();
        for raw in file.case {
            if raw.reason.trim().is_empty() {
                return Err(ExpectedFailuresError::NoReason { id: raw.id });
            }
            if entries
                .iter()
                .any(|entry| entry.selector.text() == raw.id && entry.message == raw.message)
            {
                return Err(ExpectedFailuresError::Twice { id: raw.id });
            }
            let selector = Selector::new(&raw.id).map_err(|error| ExpectedFailuresError::Glob {
                id: raw.id.clone(),
                error,
            })?;
            entries.push(Entry {
                selector,
                reason: raw.reason,
                message: raw.message,
            });
        }
        Ok(ExpectedFailures {
            entries,
            divergences: BTreeMap::new(),
        })
    }

    /// Adds the failures that recorded divergences explain: those of the kinds that the entry lists, else all differences in an answer. Such an
    /// entry may remain unused: a server that conforms where another was seen to differ is not at fault.
    ///
    /// # Errors
    /// When a word names neither a page of divergences nor an entry that a case demonstrates, or an entry lists an unknown kind.
    pub fn expect_divergences(
        &mut self,
        words: &[String],
        suite: &Suite,
    ) -> Result<(), ExpectedFailuresError> {
        for word in words {
            let means = |id: &&String| {
                let below = id.strip_prefix(word.as_str());
                let page = suite.section(id).map(|section| {
                    let file = section.file.trim_end_matches(".md");
                    file.rsplit('/').next().unwrap_or(file)
                });
                page == Some(word)
                    || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let shown = suite
                .cases
                .iter()
                .filter_map(|case| case.divergence.as_ref());
            let ids: BTreeSet<&String> = shown.filter(means).collect();
            if ids.is_empty() {
                return Err(ExpectedFailuresError::NoDivergence { word: word.clone() });
            }
            for id in ids {
                let prose = suite.section(id).map_or("", |entry| &entry.prose);
                self.divergences.insert(id.clone(), explained(id, prose)?);
            }
        }
        Ok(())
    }

    /// Decides whether a verdict is a listed failure.
    pub fn compare(&self, case: &Case, verdict: &Verdict) -> BaselineMatch {
        if !verdict.is_failure() {
            return BaselineMatch::Plain;
        }
        match self
            .entries
            .iter()
            .find(|entry| entry.covers(case, verdict))
        {
            Some(entry) => BaselineMatch::Expected(entry.reason.clone()),
            None => {
                let explains = |id: &&String| {
                    let explained = self.divergences.get(*id).into_iter().flatten();
                    explained
                        .into_iter()
                        .any(|kind| (kind.is_shown_by)(verdict))
                };
                match case.divergence.as_ref().filter(explains) {
                    Some(id) => BaselineMatch::Diverges(id.clone()),
                    None => BaselineMatch::Plain,
                }
            }
        }
    }

    /// Entries that are wrong after a run: those for cases that passed, those that no failure
    /// needed, and, if `whole` (every case of the suite was considered), those that match no
    /// case. Cases that were not judged (unobservable, not claimed, excluded) prove nothing either way.
    pub fn stale_entries<'c>(
        &self,
        judged: impl IntoIterator<Item = (&'c Case, &'c Verdict)>,
        whole: bool,
    ) -> Vec<String> {
        let mut tallies = vec![EntryUse::default(); self.entries.len()];
        for (case, verdict) in judged {
            for (entry, tally) in self.entries.iter().zip(&mut tallies) {
                if !entry.selector.selects(case) {
                    continue;
                }
                tally.named = true;
                if verdict.is_pass() {
                    tally.passed.push(&case.id);
                } else if verdict.is_failure() {
                    tally.failed = true;
                    tally.needed |= entry.covers(case, verdict);
                }
            }
        }
        self.entries
            .iter()
            .zip(&tallies)
            .filter_map(|(entry, tally)| entry.complaint(tally, whole))
            .collect()
    }
}

/// The differences that an entry with this prose explains.
fn explained(id: &str, prose: &str) -> Result<Vec<&'static Difference>, ExpectedFailuresError> {
    let Some(listed) = prose.lines().find_map(|line| line.strip_prefix(DIFFERS_IN)) else {
        return Ok(DIFFERENCES.iter().filter(|kind| kind.by_default).collect());
    };
    let words = listed.trim().trim_end_matches('.').split(", ");
    words
        .map(|word| {
            let known = DIFFERENCES.iter().find(|kind| kind.word == word);
            known.ok_or_else(|| ExpectedFailuresError::NoDifference {
                id: id.to_owned(),
                word: word.to_owned(),
                known: DIFFERENCES
                    .iter()
                    .map(|kind| kind.word)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        })
        .collect()
}

/// What a run showed about an entry.
#[derive(Clone, Default)]
struct EntryUse<'c> {
    /// The entry matches a case that was considered.
    named: bool,
    /// A case that it matches failed.
    failed: bool,
    /// A case that it matches failed with the listed message.
    needed: bool,
    /// The ids of matching cases that passed.
    passed: Vec<&'c str>,
}

impl Entry {
    fn complaint(&self, tally: &EntryUse<'_>, whole: bool) -> Option<String> {
        let id = self.selector.text();
        match tally.passed.as_slice() {
            [first] if *first == id => Some(format!("{id} passes now: remove its entry")),
            [first] => Some(format!(
                "{first} passes now: narrow or remove the entry {id}"
            )),
            [first, ..] => {
                let count = tally.passed.len();
                Some(format!(
                    "{count} cases pass now, such as {first}: narrow or remove the entry {id}"
                ))
            }
            [] if tally.failed && !tally.needed => Some(format!(
                "no case fails as the entry {id} says: correct or remove it"
            )),
            [] if whole && !tally.named => Some(format!(
                "the entry {id} names no case: correct or remove it"
            )),
            [] => None,
        }
    }

    fn covers(&self, case: &Case, verdict: &Verdict) -> bool {
        let said = |prefix: &String| verdict.message().starts_with(prefix.as_str());
        self.selector.selects(case) && self.message.as_ref().is_none_or(said)
    }
}

#[cfg(test)]
mod tests;
