//! Selects the cases to run: filters, skips and shards. Knows nothing of targets.

use std::collections::HashMap;
use std::str::FromStr;

use crate::suite::{Selector, SelectorError, Suite};

/// One part of a run that is spread over several machines: the `i`th of `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The number of this part, from 1.
    pub part: usize,
    /// The number of parts.
    pub of: usize,
}

/// A text that is not a part of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: expected i/n with 1 <= i <= n, such as 2/4")]
pub struct ShardError(String);

/// Why a selection has no cases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A glob that selects nothing.
    #[error(transparent)]
    Glob(#[from] SelectorError),
    #[error("the filters, skips and shard leave no case; `ptc-conformance list` names them")]
    Empty,
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if 1 <= part && part <= of => Ok(Self { part, of }),
            _ => Err(ShardError(text.to_owned())),
        }
    }
}

/// The criteria by which cases are selected.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only cases that one of these matches; all if empty.
    pub filters: Vec<Selector>,
    /// No cases that one of these matches.
    pub skips: Vec<Selector>,
    /// No cases that deliberately let real time pass.
    pub skip_waiting: bool,
    /// Only this part of them.
    pub shard: Option<Shard>,
    /// Earlier durations by case id, in microseconds, for balancing the parts.
    pub times: Option<HashMap<String, u64>>,
}

impl Selection {
    /// The indices of the selected cases. Neighbours go to different shards, since neighbours take similar time.
    ///
    /// # Errors
    /// When a glob matches no case, or no case is left.
    pub fn indices(&self, suite: &Suite) -> Result<Vec<usize>, SelectionError> {
        for selector in self.filters.iter().chain(&self.skips) {
            selector.check_matches(suite)?;
        }
        let wanted = suite.cases.iter().enumerate().filter(|(_, case)| {
            (self.filters.is_empty() || self.filters.iter().any(|filter| filter.selects(case)))
                && !self.skips.iter().any(|skip| skip.selects(case))
                && !(self.skip_waiting && case.waits())
        });
        let indices = wanted.map(|(index, _)| index);
        let indices: Vec<usize> = match self.shard {
            None => indices.collect(),
            Some(shard) => match &self.times {
                None => indices.skip(shard.part - 1).step_by(shard.of).collect(),
                Some(times) => balanced(suite, indices.collect(), times, shard),
            },
        };
        if indices.is_empty() {
            return Err(SelectionError::Empty);
        }
        Ok(indices)
    }

    /// Whether the selection can leave cases out.
    pub fn is_partial(&self) -> bool {
        !self.filters.is_empty()
            || !self.skips.is_empty()
            || self.skip_waiting
            || self.shard.is_some_and(|shard| shard.of > 1)
    }
}

/// The indices of one part, when the cases are assigned, longest first, to the part with the least load. A case without an earlier
/// duration is assumed to take the median.
fn balanced(
    suite: &Suite,
    mut indices: Vec<usize>,
    times: &HashMap<String, u64>,
    shard: Shard,
) -> Vec<usize> {
    let mut known: Vec<u64> = times.values().copied().collect();
    known.sort_unstable();
    let middle = known.get(known.len() / 2).copied().unwrap_or(1);
    let time = |index: &usize| {
        let known = times.get(&suite.cases[*index].id);
        known.copied().unwrap_or(middle).max(1)
    };
    indices.sort_by_key(|index| (std::cmp::Reverse(time(index)), *index));
    // Parts in excess of the number of cases stay empty.
    let mut loads = vec![0_u64; shard.of.min(indices.len())];
    let mut mine = Vec::new();
    for index in indices {
        let least = (0..loads.len()).min_by_key(|part| (loads[*part], *part));
        let part = least.unwrap_or_default();
        loads[part] = loads[part].saturating_add(time(&index));
        if part + 1 == shard.part {
            mine.push(index);
        }
    }
    mine.sort_unstable();
    mine
}
