//! Renders a run as a Markdown summary for CI pages. Knows only the record.

use indexmap::IndexMap;

use super::{Run, Status};

/// How many failures are listed; the rest is counted.
const FAILURES_MAX: usize = 50;

/// The summary.
pub fn render(run: &Run) -> String {
    let verdict = run.conclusion().words();
    let mut text = format!("## PTC-Lisp conformance: {verdict}\n\n");
    text.push_str(&format!("Target: `{}`", run.target));
    if let Some(server) = &run.server {
        text.push_str(&format!(" ({})", cell(server)));
    }
    text.push_str(&format!(
        "  \n{}  \n{} ms{}\n\n",
        run.summary().join("  \n"),
        run.duration_ms,
        if run.partial {
            ", part of the suite"
        } else {
            ""
        }
    ));
    for complaint in &run.complaints {
        text.push_str(&format!("- {}\n", cell(complaint)));
    }
    areas(run, &mut text);
    failures(run, &mut text);
    text
}

fn areas(run: &Run, text: &mut String) {
    let mut areas: IndexMap<&str, [usize; 3]> = IndexMap::new();
    for case in &run.cases {
        let area = case.section.split('.').next().unwrap_or_default();
        let counts = areas.entry(area).or_default();
        let column = match case.status {
            Status::Pass => 0,
            status if status.is_failure() => 1,
            _ => 2,
        };
        counts[column] += 1;
    }
    text.push_str("| area | passed | failed | other |\n|---|--:|--:|--:|\n");
    for (area, [passed, failed, other]) in areas {
        text.push_str(&format!(
            "| {} | {passed} | {failed} | {other} |\n",
            cell(area)
        ));
    }
}

fn failures(run: &Run, text: &mut String) {
    let failed: Vec<_> = run
        .cases
        .iter()
        .filter(|case| case.status.is_failure())
        .collect();
    if failed.is_empty() {
        return;
    }
    text.push_str("\n| case | clause | why |\n|---|---|---|\n");
    for case in failed.iter().take(FAILURES_MAX) {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            run.label(case),
            case.clause.as_deref().map(cell).unwrap_or_default(),
            cell(case.message.as_deref().unwrap_or_default())
        ));
    }
    if failed.len() > FAILURES_MAX {
        text.push_str(&format!("\n… and {} more.\n", failed.len() - FAILURES_MAX));
    }
}

fn cell(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace(['\n', '\r'], " ")
}
