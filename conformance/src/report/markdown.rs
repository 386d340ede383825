//! Renders a run as a Markdown summary for CI pages. Knows only the record.

use super::{CaseRecord, Run, Status, groups, levels};

/// Number of failures that are listed; the rest is counted.
const FAILURES_MAX: usize = 50;
/// Number of causes that are listed, and of cases for each.
const CAUSES_MAX: usize = 20;
const CASES_OF_CAUSE_MAX: usize = 50;

pub fn render(run: &Run) -> String {
    let verdict = run.headline();
    let subject = levels::run_subject(run);
    let mut text = format!("## {subject} conformance: {verdict}\n\n");
    text.push_str(&format!("Target: {}", code(&run.target)));
    if let Some(server) = &run.server {
        text.push_str(&format!(" ({})", code(server)));
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
        text.push_str(&format!("- {}\n", code(complaint)));
    }
    levels(run, &mut text);
    causes(run, &mut text);
    pages(run, &mut text);
    failures(run, &mut text);
    text
}

fn levels(run: &Run, text: &mut String) {
    text.push_str("| level | |\n|---|---|\n");
    for standing in levels::level_results(run) {
        let (name, words) = (standing.level.name, standing.words());
        text.push_str(&format!("| {name} | {words} |\n"));
    }
    text.push('\n');
}

/// Failures grouped by cause, each with a few examples and the rest collapsed.
fn causes(run: &Run, text: &mut String) {
    for group in groups::of_failures(run).iter().take(CAUSES_MAX) {
        let pages: Vec<String> = group.pages.keys().map(|page| code(page)).collect();
        text.push_str(&format!(
            "<details><summary>{} × {}</summary>\n\non {}\n\n",
            group.cases.len(),
            html(&group.cause),
            pages.join(", ")
        ));
        for (wording, count) in group.examples() {
            text.push_str(&format!("- {count} × {}\n", code(wording)));
        }
        for case in group.cases.iter().take(CASES_OF_CAUSE_MAX) {
            text.push_str(&format!("- {}\n", code(&run.label(case))));
        }
        let more = group.cases.len().saturating_sub(CASES_OF_CAUSE_MAX);
        if more > 0 {
            text.push_str(&format!("- … and {more} more\n"));
        }
        text.push_str("\n</details>\n\n");
    }
}

fn pages(run: &Run, text: &mut String) {
    text.push_str("| page | passed | failed | other |\n|---|--:|--:|--:|\n");
    for (page, counts) in groups::pages(run) {
        let [mut passed, mut failed, mut other] = [0; 3];
        for (status, count) in counts {
            match status {
                Status::Pass => passed += count,
                status if status.is_failure() => failed += count,
                _ => other += count,
            }
        }
        let page = cell(page);
        text.push_str(&format!("| {page} | {passed} | {failed} | {other} |\n"));
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
            "| {} | {} | {} |\n",
            cell(&run.label(case)),
            cell(case.anchor()),
            cell(&explained(case))
        ));
    }
    if failed.len() > FAILURES_MAX {
        text.push_str(&format!("\n… and {} more.\n", failed.len() - FAILURES_MAX));
    }
}

/// The message, with the background of the case.
fn explained(case: &CaseRecord) -> String {
    let message = case.message.clone().unwrap_or_default();
    let known = case.background();
    match known.is_empty() {
        true => message,
        false => format!("{message} ({})", known.join("; ")),
    }
}

/// A text as a code span without markup: enclosed in more backticks than it contains.
fn code(text: &str) -> String {
    let text = text.replace('\n', " ");
    let text = text.trim();
    let mut fence = "`".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    let blank = if text.is_empty() || text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// A code span in a table, where a bar ends a cell even inside code unless a backslash precedes it.
fn cell(text: &str) -> String {
    code(text).replace("\\|", "\\ |").replace('|', "\\|")
}

/// A text inside HTML, where Markdown has no effect.
fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('\n', " ")
}
