//! States in one sentence what a run proves about its target. Knows only the record.

use super::{Run, Status};

/// What a run proves. Only the first two mean that the target does what was asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Every judged case of the suite passed.
    Conforms,
    /// The same, for the part of the suite that was selected.
    ConformsInPart,
    /// All failures are known: a baseline or a divergence page names them.
    AsExpected(usize),
    /// There are failures that nothing excuses.
    DoesNotConform,
    /// No case of the target passed, and none failed unexpectedly: nothing is known about it.
    NoEvidence,
    /// A signal ended the run before the last case.
    Interrupted,
}

impl Conclusion {
    /// Draws the conclusion from the record.
    pub fn of(run: &Run) -> Self {
        let expected = run.count(Status::ExpectedFailure);
        if run.interrupted {
            Self::Interrupted
        } else if run.has_failures() {
            Self::DoesNotConform
        } else if run.count(Status::Pass) == 0 {
            Self::NoEvidence
        } else if expected > 0 {
            Self::AsExpected(expected)
        } else if run.partial {
            Self::ConformsInPart
        } else {
            Self::Conforms
        }
    }

    /// Whether the run succeeds.
    pub fn is_good(self) -> bool {
        match self {
            Self::Conforms | Self::ConformsInPart | Self::AsExpected(_) => true,
            Self::DoesNotConform | Self::NoEvidence | Self::Interrupted => false,
        }
    }

    /// The words that headlines print.
    pub fn words(self) -> String {
        match self {
            Self::Conforms => "conforms".to_owned(),
            Self::ConformsInPart => "conforms in the part that was run".to_owned(),
            Self::AsExpected(1) => "as expected, 1 known failure".to_owned(),
            Self::AsExpected(known) => format!("as expected, {known} known failures"),
            Self::DoesNotConform => "does not conform".to_owned(),
            Self::NoEvidence => "nothing is proved: no case passed".to_owned(),
            Self::Interrupted => "interrupted".to_owned(),
        }
    }
}

/// The share of cases that were judged, because the target claims and can show them and they were run: numerator and denominator. Checks
/// of the harness itself belong to neither.
pub fn judged_share(run: &Run) -> (usize, usize) {
    let of_target = run.cases.len() - run.count(Status::SelfCheck);
    let unjudged: usize = [Status::NotClaimed, Status::Unobservable, Status::NotRun]
        .into_iter()
        .map(|status| run.count(status))
        .sum();
    (of_target - unjudged, of_target)
}

/// A share in whole percent, rounded down, so that only the whole is 100.
pub fn percent((part, whole): (usize, usize)) -> usize {
    (part * 100).checked_div(whole).unwrap_or_default()
}
