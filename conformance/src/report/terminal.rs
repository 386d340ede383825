//! Renders a run for people: a summary, and for each failure what is needed to understand and reproduce it.
//! Knows only the record.

use std::collections::HashMap;
use std::fmt::Write as _;

use indexmap::IndexMap;

use super::{CaseRecord, Run, Status, Visible, groups, levels};
use crate::cut;

/// Number of failures with the same cause that are shown in full; the rest is only named.
const SAME_CAUSE_SHOWN_MAX: usize = 3;
/// Number of failures that are shown in full.
const SHOWN_MAX: usize = 40;
/// Number of unshown failures that are named.
const NAMED_MAX: usize = 20;
/// Longest piece of traffic that is shown, in characters.
const TRAFFIC_CHARS_MAX: usize = 2000;
/// Number of frames of a transcript that are shown: the last ones.
const TRAFFIC_SHOWN_MAX: usize = 24;

pub fn render(run: &Run) -> String {
    let mut text = String::new();
    failures(run, &mut text);
    causes(run, &mut text);
    pages(run, &mut text);
    levels(run, &mut text);
    for status in [Status::Warning, Status::Unobservable, Status::NotClaimed] {
        let of_status = run.cases.iter().filter(|case| case.status == status);
        let messages: Vec<String> = of_status.map(|case| explanation(case, status)).collect();
        reasons(
            status.words(),
            messages.iter().map(String::as_str),
            &mut text,
        );
    }
    let passed = run.cases.iter().filter(|case| case.status == Status::Pass);
    let unseen = passed.flat_map(|case| case.unobserved.iter().map(String::as_str));
    reasons("passed in part", unseen, &mut text);
    text.push_str(&verdict(run));
    text
}

/// Why a case did not simply pass. A warning names its clause.
fn explanation(case: &CaseRecord, status: Status) -> String {
    let message = case.message.as_deref().unwrap_or("no reason given");
    match &case.clause {
        Some(clause) if status == Status::Warning => format!("{clause}: {message}"),
        _ => message.to_owned(),
    }
}

/// The counts, and what the run proves.
pub fn verdict(run: &Run) -> String {
    let mut text = String::new();
    for complaint in &run.complaints {
        let _infallible = writeln!(
            text,
            "{}: {}",
            BAD.paint("complaint"),
            continued(complaint, "    ")
        );
    }
    let conclusion = run.conclusion();
    let paint = match conclusion.is_good() {
        true => GOOD,
        false => BAD,
    };
    let _infallible = writeln!(
        text,
        "{}\n{} ({:.1} s against {})",
        run.summary().join("\n"),
        paint.paint(&run.headline()),
        run.duration_ms as f64 / 1000.0,
        Visible(&run.target)
    );
    text
}

/// A colour for terminals. The writer of the text removes it when the output is no terminal, or `NO_COLOR` is set.
#[derive(Clone, Copy)]
struct Paint(anstyle::Style);

const GOOD: Paint = Paint(anstyle::AnsiColor::Green.on_default().bold());
const BAD: Paint = Paint(anstyle::AnsiColor::Red.on_default().bold());

impl Paint {
    fn paint(self, text: &str) -> String {
        let Paint(style) = self;
        format!("{style}{text}{style:#}")
    }
}

/// All details of a case that did not pass.
pub fn details(case: &CaseRecord) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    line(&format!("{}: {}", case.id, case.status.words()));
    let over = case
        .transport
        .map(|transport| format!(" over {}", transport.words()));
    line(&format!("  at {}{}", case.place, over.unwrap_or_default()));
    if let (Some(clause), Some(sentence)) = (&case.clause, &case.sentence) {
        line(&format!("  clause {clause}: {}", Visible(sentence)));
    }
    for known in case.background() {
        line(&format!("  {}", Visible(&known)));
    }
    if let Some(source) = &case.source {
        line("  case:");
        line(&indented(source, "    "));
    }
    if let Some(message) = case.message.as_ref().filter(|_| case.findings.is_empty()) {
        line(&format!("  {}", Visible(message)));
    }
    for finding in &case.findings {
        line(&format!("  {}: expected (-) and observed (+)", finding.at));
        let short = || format!("- {}\n+ {}", finding.expected, finding.observed);
        let diff = Some(finding.diff.clone()).filter(|diff| !diff.is_empty());
        line(&indented(&diff.unwrap_or_else(short), "    "));
    }
    if !case.traffic.is_empty() {
        line("  traffic:");
        let hidden = case.traffic.len().saturating_sub(TRAFFIC_SHOWN_MAX);
        if hidden > 0 {
            line(&format!("    … {hidden} earlier frames"));
        }
        for frame in &case.traffic[hidden..] {
            let shown = cut::to_chars(&frame.text, TRAFFIC_CHARS_MAX);
            line(&format!(
                "    {} {}",
                frame.direction.arrow(),
                continued(&shown, "       ")
            ));
        }
    }
    if let Some(stderr) = case.stderr.as_deref().filter(|stderr| !stderr.is_empty()) {
        line("  standard error of the target:");
        line(&indented(stderr.trim_end(), "    "));
    }
    if let Some(commands) = &case.by_hand {
        line("  by hand:");
        line(&indented(commands, "    "));
    }
    if let Some(rerun) = &case.rerun {
        line(&format!("  rerun: {rerun}"));
    }
    text
}

/// Failures grouped by what they share, if there is more to say than each failure says by itself.
fn causes(run: &Run, text: &mut String) {
    let groups = groups::of_failures(run);
    if groups.iter().all(|group| group.cases.len() == 1) {
        return;
    }
    let _infallible = writeln!(text, "failures by cause:");
    for group in groups.iter().take(NAMED_MAX) {
        let _infallible = writeln!(text, "  {} × {}", group.cases.len(), Visible(&group.cause));
        let pages: Vec<&str> = group.pages.keys().copied().collect();
        let _infallible = writeln!(text, "      on {}", pages.join(", "));
        for case in group.cases.iter().take(groups::EXAMPLES) {
            let _infallible = writeln!(text, "      such as {}", run.label(case));
        }
        for (wording, count) in group.examples() {
            let _infallible = writeln!(text, "      {count} × {}", Visible(wording));
        }
    }
    if groups.len() > NAMED_MAX {
        let _infallible = writeln!(text, "  … and {} more causes", groups.len() - NAMED_MAX);
    }
    text.push('\n');
}

/// The pages with failures.
fn pages(run: &Run, text: &mut String) {
    let pages = groups::pages(run);
    let failed = |counts: &IndexMap<Status, usize>| {
        let of = |(status, count): (&Status, &usize)| status.is_failure().then_some(*count);
        counts.iter().filter_map(of).sum::<usize>()
    };
    let rows: Vec<_> = pages
        .iter()
        .map(|(page, counts)| (page, failed(counts), counts.values().sum::<usize>()))
        .filter(|(_, failed, _)| *failed > 0)
        .collect();
    if rows.is_empty() {
        return;
    }
    let _infallible = writeln!(text, "failures by page:");
    for (page, failed, all) in rows {
        let _infallible = writeln!(text, "  {page}: {failed} of {all}");
    }
    text.push('\n');
}

/// The levels, if a whole suite was run: for a part of it they would mean nothing.
fn levels(run: &Run, text: &mut String) {
    let standings = levels::level_results(run);
    let shown = standings.iter().filter(|standing| standing.passed > 0);
    if run.partial || shown.count() < 2 {
        return;
    }
    let _infallible = writeln!(text, "levels:");
    for standing in standings {
        let name = standing.level.name;
        let _infallible = writeln!(text, "  {name}: {}", standing.words());
    }
    text.push('\n');
}

fn failures(run: &Run, text: &mut String) {
    let mut of_cause: HashMap<String, usize> = HashMap::new();
    let mut shown = 0;
    let mut unshown: Vec<&CaseRecord> = Vec::new();
    for case in run.cases.iter().filter(|case| case.status.is_failure()) {
        let seen = of_cause.entry(key(case)).or_default();
        *seen += 1;
        if *seen <= SAME_CAUSE_SHOWN_MAX && shown < SHOWN_MAX {
            shown += 1;
            let told = details(case);
            let (head, rest) = told.split_once('\n').unwrap_or((&told, ""));
            let _infallible = writeln!(text, "{}\n{rest}", BAD.paint(head));
        } else {
            unshown.push(case);
        }
    }
    if unshown.is_empty() {
        return;
    }
    let _infallible = writeln!(
        text,
        "{} more failures (all of them: --report json=FILE):",
        unshown.len()
    );
    for case in unshown.iter().take(NAMED_MAX) {
        let message = case.message.as_deref().unwrap_or_default();
        let label = run.label(case);
        let _infallible = writeln!(text, "  {label}: {}", Visible(&cut::to_chars(message, 160)));
    }
    if unshown.len() > NAMED_MAX {
        let _infallible = writeln!(text, "  … and {} more", unshown.len() - NAMED_MAX);
    }
    text.push('\n');
}

/// Failures share a cause if the harness met the same fault; every mismatch is a cause of its own.
fn key(case: &CaseRecord) -> String {
    match case.cause.as_deref() {
        None | Some("mismatch") => case.id.clone(),
        Some(cause) => cause.to_owned(),
    }
}

fn reasons<'r>(heading: &str, messages: impl Iterator<Item = &'r str>, text: &mut String) {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for message in messages {
        match counts.iter_mut().find(|(known, _)| *known == message) {
            Some((_, count)) => *count += 1,
            None => counts.push((message, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (message, count) in counts.iter().take(NAMED_MAX) {
        let _infallible = writeln!(text, "{heading}: {count}: {}", Visible(message));
    }
}

fn indented(text: &str, margin: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            format!(
                "{margin}{}",
                Visible(&cut::to_chars(line, TRAFFIC_CHARS_MAX))
            )
        })
        .collect();
    lines.join("\n")
}

/// A text whose first line continues another one. Its other lines are indented, so that none is mistaken for the harness's own.
fn continued(text: &str, margin: &str) -> String {
    let text = Visible(text).to_string();
    text.trim_end().replace('\n', &format!("\n{margin}"))
}
