//! What changed between two runs, and how parts of one run become one record again. Knows only the record.

use std::collections::BTreeMap;

use super::{CaseRecord, Run, Status};

/// How the second run differs from the first, by ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Failed before, passes now.
    pub fixed: Vec<String>,
    /// Passed before, fails now.
    pub broken: Vec<String>,
    /// The target did not end or fall silent on it before, and does now.
    pub new_crashes: Vec<String>,
    /// Only in the second run.
    pub added: Vec<String>,
    /// Only in the first run.
    pub removed: Vec<String>,
}

/// Causes that count as crashes: the target was gone or silent, whatever it should have said.
const CRASHES: &[&str] = &[
    "crash",
    "closed-output",
    "no-reply",
    "input-stalled",
    "cannot-start",
];

/// Compares two runs.
pub fn difference(old: &Run, new: &Run) -> Difference {
    let before: BTreeMap<&str, &CaseRecord> = by_id(old);
    let after: BTreeMap<&str, &CaseRecord> = by_id(new);
    let mut difference = Difference::default();
    for (id, now) in &after {
        let Some(then) = before.get(id) else {
            difference.added.push((*id).to_owned());
            continue;
        };
        if crashed(now) && !crashed(then) {
            difference.new_crashes.push((*id).to_owned());
        } else if now.status.is_failure() && !then.status.is_failure() {
            difference.broken.push((*id).to_owned());
        } else if now.status == Status::Pass && then.status != Status::Pass {
            difference.fixed.push((*id).to_owned());
        }
    }
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    difference.removed.extend(gone.map(|id| (*id).to_owned()));
    difference
}

impl Difference {
    /// Whether the second run is worse.
    pub fn is_worse(&self) -> bool {
        !self.broken.is_empty() || !self.new_crashes.is_empty()
    }

    /// The difference as text, one heading a kind.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let kinds = [
            ("fixed", &self.fixed),
            ("broken", &self.broken),
            ("new crashes", &self.new_crashes),
            ("added", &self.added),
            ("removed", &self.removed),
        ];
        for (name, ids) in kinds {
            text.push_str(&format!("{name}: {}\n", ids.len()));
            for id in ids {
                text.push_str(&format!("  {id}\n"));
            }
        }
        text
    }
}

/// Puts the parts of a sharded run together.
///
/// # Errors
/// When there is no part, the parts are of different targets or suites, or a case stands in two of them.
pub fn merge(parts: Vec<Run>) -> Result<Run, String> {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().ok_or("nothing to merge")?;
    for part in parts {
        if part.suite_cases != whole.suite_cases {
            return Err(format!(
                "the reports are of different suites: {} and {} cases",
                whole.suite_cases, part.suite_cases
            ));
        }
        if part.target != whole.target {
            return Err(format!(
                "the reports are of different targets: `{}` and `{}`",
                whole.target, part.target
            ));
        }
        whole.strict &= part.strict;
        // Parts run beside each other.
        whole.duration_ms = whole.duration_ms.max(part.duration_ms);
        whole.cases.extend(part.cases);
        whole.complaints.extend(part.complaints);
    }
    whole.cases.sort_by(|a, b| a.id.cmp(&b.id));
    let twice = whole.cases.windows(2).find(|pair| pair[0].id == pair[1].id);
    if let Some(pair) = twice {
        return Err(format!("case {} stands in two reports", pair[0].id));
    }
    whole.partial = whole.cases.len() != whole.suite_cases;
    Ok(whole)
}

fn by_id(run: &Run) -> BTreeMap<&str, &CaseRecord> {
    run.cases
        .iter()
        .map(|case| (case.id.as_str(), case))
        .collect()
}

fn crashed(case: &CaseRecord) -> bool {
    case.status.is_failure()
        && case
            .cause
            .as_deref()
            .is_some_and(|cause| CRASHES.contains(&cause))
}
