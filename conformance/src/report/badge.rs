//! Renders a run as a badge, in the format of a shields.io endpoint. Knows only the record.

use serde_json::json;

use super::conclusion::{Conclusion, judged_share, percent};
use super::{Run, Status, levels};

/// The colour for a target that passes all judged cases, by their share of all cases in percent: the first limit that is reached
/// counts. Below all of them the colour is `yellowgreen`.
const BRIGHTNESS: &[(usize, &str)] = &[(95, "brightgreen"), (75, "green")];

pub fn render(run: &Run) -> String {
    let passed = run.count(Status::Pass);
    let judged = passed
        + run
            .cases
            .iter()
            .filter(|case| case.status.is_failure())
            .count()
        + run.count(Status::ExpectedFailure)
        + run.count(Status::Warning);
    let share = percent(judged_share(run));
    let color = match run.conclusion() {
        Conclusion::DoesNotConform | Conclusion::Interrupted => "red",
        Conclusion::NoEvidence => "lightgrey",
        Conclusion::AsExpected(_) => "yellow",
        _ if passed < judged => "yellow",
        Conclusion::Conforms | Conclusion::ConformsInPart => BRIGHTNESS
            .iter()
            .find(|(least, _)| *least <= share)
            .map_or("yellowgreen", |(_, color)| *color),
    };
    let message = match share {
        100 => format!("{passed}/{judged}"),
        share => format!("{passed}/{judged}, {share}% of the suite"),
    };
    let badge = json!({
        "schemaVersion": 1,
        "label": format!("{} conformance", levels::run_subject(run)),
        "message": message,
        "color": color,
    });
    format!("{badge}\n")
}
