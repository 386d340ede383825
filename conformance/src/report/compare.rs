//! Compares two runs, and merges the parts of one run into one record. Knows only the record.

use std::collections::BTreeMap;

use super::{CaseRecord, Run, Status, Transport, Visible, labelled};

/// How the second run differs from the first: lists of ids, with the transport where that matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunDifference {
    /// Failed before, passes now.
    pub fixed: Vec<String>,
    /// Passed before, fails now.
    pub broken: Vec<String>,
    /// The target now crashes or falls silent, and did not before.
    pub new_crashes: Vec<String>,
    /// Failed before and fails now, with a different message.
    pub fails_differently: Vec<String>,
    /// Passed before, and now neither passes nor fails: it is no longer judged, or its failure is expected or a warning.
    pub passed_before: Vec<String>,
    /// Only in the second run.
    pub added: Vec<String>,
    /// Only in the first run.
    pub removed: Vec<String>,
    /// A sentence for each transport that only one of the runs has, with the number of its cases.
    pub unmatched: Vec<String>,
    /// The second run's messages of failing cases, by id, each with the first run's message if that was different.
    pub messages: BTreeMap<String, (String, Option<String>)>,
}

/// Causes that count as crashes: the target was gone or silent.
const CRASHES: &[&str] = &[
    "crash",
    "closed-output",
    "no-reply",
    "input-stalled",
    "cannot-start",
];

/// Compares two runs. If neither has more than one transport, the transport is ignored.
pub fn difference(old: &Run, new: &Run) -> RunDifference {
    let by_transport = [old, new].iter().any(|run| run.transports().len() > 1);
    let mut before = by_key(old, by_transport);
    let mut after = by_key(new, by_transport);
    let mut difference = RunDifference::default();
    if by_transport {
        let (of_old, of_new) = (old.transports(), new.transports());
        let sides = [
            (&mut before, of_new, "first"),
            (&mut after, of_old, "second"),
        ];
        for (cases, of_other, run) in sides {
            difference
                .unmatched
                .extend(remove_other_transports(cases, &of_other, run));
        }
    }
    for (key, now) in &after {
        let kind = match before.get(key) {
            None => &mut difference.added,
            Some(then) if crashed(now) && !crashed(then) => &mut difference.new_crashes,
            Some(then) if now.status.is_failure() && !then.status.is_failure() => {
                &mut difference.broken
            }
            Some(then) if now.status == Status::Pass && then.status != Status::Pass => {
                &mut difference.fixed
            }
            Some(then)
                if now.status.is_failure()
                    && then.status.is_failure()
                    && now.message != then.message =>
            {
                &mut difference.fails_differently
            }
            Some(then) if then.status == Status::Pass && now.status != Status::Pass => {
                &mut difference.passed_before
            }
            Some(_) => continue,
        };
        let label = labelled(key.0, key.1);
        if let Some(message) = now.message.as_ref().filter(|_| now.status.is_failure()) {
            let then = before.get(key).and_then(|then| then.message.clone());
            let then = then.filter(|then| then != message);
            difference
                .messages
                .insert(label.clone(), (message.clone(), then));
        }
        kind.push(label);
    }
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    difference
        .removed
        .extend(gone.map(|(id, transport)| labelled(id, *transport)));
    difference
}

impl RunDifference {
    /// Whether the second run is worse.
    pub fn is_worse(&self) -> bool {
        !self.broken.is_empty() || !self.new_crashes.is_empty()
    }

    /// The kinds of change with their ids, the most important ones first.
    pub fn kinds(&self) -> [(&'static str, &[String]); 7] {
        [
            ("fixed", &self.fixed),
            ("broken", &self.broken),
            ("new crashes", &self.new_crashes),
            ("fails differently", &self.fails_differently),
            ("no longer passed", &self.passed_before),
            ("added", &self.added),
            ("removed", &self.removed),
        ]
    }

    /// The difference as text, one heading per kind.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (name, ids) in self.kinds() {
            text.push_str(&format!("{name}: {}\n", ids.len()));
            for id in ids {
                text.push_str(&format!("  {id}\n"));
                if let Some((now, then)) = self.messages.get(id) {
                    if let Some(then) = then {
                        text.push_str(&format!("    before: {}\n", Visible(then)));
                    }
                    text.push_str(&format!("    now: {}\n", Visible(now)));
                }
            }
        }
        for sentence in &self.unmatched {
            text.push_str(&format!("{sentence}\n"));
        }
        text
    }
}

/// Why reports are not parts of one run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("nothing to merge")]
    Nothing,
    #[error("the reports are of different suites: {0} and {1} cases")]
    Suites(usize, usize),
    #[error(
        "the reports are of different suites with {cases} cases each: digests {first} and {other}"
    )]
    Digests {
        cases: usize,
        first: String,
        other: String,
    },
    #[error("the reports are of different targets: `{0}` and `{1}`")]
    Targets(String, String),
    #[error("the reports are of different servers: `{0}` and `{1}`")]
    Servers(String, String),
    #[error("case {label} stands in two reports")]
    Twice { label: String },
}

/// Merges the parts of a run: its shards, or its transports.
///
/// # Errors
/// When there are no parts, they have different targets or suites, or a case occurs in two of them.
pub fn merge(parts: Vec<Run>) -> Result<Run, MergeError> {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().ok_or(MergeError::Nothing)?;
    for part in parts {
        if part.suite_cases != whole.suite_cases {
            return Err(MergeError::Suites(whole.suite_cases, part.suite_cases));
        }
        if let (Some(mine), Some(other)) = (&whole.suite_digest, &part.suite_digest)
            && mine != other
        {
            return Err(MergeError::Digests {
                cases: whole.suite_cases,
                first: mine.clone(),
                other: other.clone(),
            });
        }
        if part.target != whole.target {
            return Err(MergeError::Targets(whole.target, part.target));
        }
        if let (Some(mine), Some(other)) = (&whole.server, &part.server)
            && mine != other
        {
            return Err(MergeError::Servers(mine.clone(), other.clone()));
        }
        whole.suite_digest = whole.suite_digest.or(part.suite_digest);
        whole.strict &= part.strict;
        whole.interrupted |= part.interrupted;
        // The parts run at the same time.
        whole.duration_ms = whole.duration_ms.max(part.duration_ms);
        whole.cases.extend(part.cases);
        whole.complaints.extend(part.complaints);
    }
    let key = |case: &CaseRecord| (case.transport, case.id.clone());
    whole.cases.sort_by_cached_key(key);
    let mut pairs = whole.cases.windows(2);
    if let Some(pair) = pairs.find(|pair| key(&pair[0]) == key(&pair[1])) {
        let label = labelled(&pair[0].id, pair[0].transport);
        return Err(MergeError::Twice { label });
    }
    let all = whole
        .suite_cases
        .checked_mul(whole.transports().len().max(1));
    whole.partial = all != Some(whole.cases.len());
    Ok(whole)
}

/// Removes the cases over transports that the other run lacks, and returns a sentence with their number for each.
fn remove_other_transports(
    cases: &mut BTreeMap<Key<'_>, &CaseRecord>,
    of_other: &[Option<Transport>],
    run: &str,
) -> Vec<String> {
    let mut counts: BTreeMap<Option<Transport>, usize> = BTreeMap::new();
    cases.retain(|(_, transport), _| {
        let is_there = of_other.contains(transport);
        if !is_there {
            *counts.entry(*transport).or_default() += 1;
        }
        is_there
    });
    counts
        .into_iter()
        .map(|(transport, count)| {
            let over = transport.map_or("without a transport".to_owned(), |transport| {
                format!("over {}", transport.words())
            });
            format!("only the {run} run has cases {over}: {count}")
        })
        .collect()
}

/// The identity of a result.
type Key<'r> = (&'r str, Option<Transport>);

fn by_key(run: &Run, by_transport: bool) -> BTreeMap<Key<'_>, &CaseRecord> {
    let key = |case| {
        let CaseRecord { id, transport, .. }: &CaseRecord = case;
        (id.as_str(), transport.filter(|_| by_transport))
    };
    run.cases.iter().map(|case| (key(case), case)).collect()
}

fn crashed(case: &CaseRecord) -> bool {
    case.status.is_failure()
        && case
            .cause
            .as_deref()
            .is_some_and(|cause| CRASHES.contains(&cause))
}
