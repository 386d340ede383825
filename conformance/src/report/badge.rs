//! Renders a run as a badge, in the shape that shields.io's endpoint reads. Knows only the record.

use serde_json::json;

use super::{Run, Status};

/// The badge.
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
    let color = match (run.passed(), passed == judged) {
        (false, _) => "red",
        (true, false) => "yellow",
        (true, true) => "brightgreen",
    };
    let badge = json!({
        "schemaVersion": 1,
        "label": "PTC-Lisp conformance",
        "message": format!("{passed}/{judged}"),
        "color": color,
    });
    format!("{badge}\n")
}
