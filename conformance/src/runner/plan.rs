//! Which cases of a suite are run: filters, skips and shards. Knows nothing of targets.

use std::str::FromStr;

use crate::suite::{Selector, Suite};

/// One part of a run that is spread over several machines: the `i`th of `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub part: usize,
    /// How many parts there are.
    pub of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if 1 <= part && part <= of => Ok(Self { part, of }),
            _ => Err(format!(
                "`{text}`: expected i/n with 1 <= i <= n, such as 2/4"
            )),
        }
    }
}

/// What is asked of the suite.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only cases that one of these selects; all when there is none.
    pub filters: Vec<Selector>,
    /// Not the cases that one of these selects.
    pub skips: Vec<Selector>,
    /// Not the cases in which real time passes on purpose.
    pub skip_waiting: bool,
    /// Only this part of them.
    pub shard: Option<Shard>,
}

impl Selection {
    /// The places of the selected cases. Neighbours go to different shards, since neighbours cost alike.
    ///
    /// # Errors
    /// A message that names the glob that means no case at all, with what it may have meant; or says that no case is left.
    pub fn places(&self, suite: &Suite) -> Result<Vec<usize>, String> {
        for selector in self.filters.iter().chain(&self.skips) {
            selector.needed(suite)?;
        }
        let wanted = suite.cases.iter().enumerate().filter(|(_, case)| {
            (self.filters.is_empty() || self.filters.iter().any(|filter| filter.selects(case)))
                && !self.skips.iter().any(|skip| skip.selects(case))
                && !(self.skip_waiting && case.waits())
        });
        let places = wanted.map(|(place, _)| place);
        let places: Vec<usize> = match self.shard {
            None => places.collect(),
            Some(shard) => places.skip(shard.part - 1).step_by(shard.of).collect(),
        };
        if places.is_empty() {
            return Err(
                "the filters, skips and shard leave no case; `ptc-conformance list` names them"
                    .to_owned(),
            );
        }
        Ok(places)
    }

    /// Whether the selection can leave cases out.
    pub fn is_partial(&self) -> bool {
        !self.filters.is_empty()
            || !self.skips.is_empty()
            || self.skip_waiting
            || self.shard.is_some_and(|shard| shard.of > 1)
    }
}
