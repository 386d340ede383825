//! Renders a run as TAP version 14. Knows only the record.

use super::{CaseRecord, Run, Status};

pub fn render(run: &Run) -> String {
    let mut text = String::from("TAP version 14\n");
    let total = run.cases.len() + run.complaints.len();
    text.push_str(&format!("1..{total}\n"));
    for (number, case) in (1..).zip(&run.cases) {
        line(&mut text, number, &run.label(case), case);
    }
    for (number, complaint) in (run.cases.len() + 1..).zip(&run.complaints) {
        text.push_str(&format!("not ok {number} - {}\n", escaped(complaint)));
    }
    text
}

fn line(text: &mut String, number: usize, label: &str, case: &CaseRecord) {
    let why = case.message.as_deref().unwrap_or_default();
    let (verdict, directive) = match case.status {
        Status::Pass => ("ok", String::new()),
        // Counted separately from what the target passed.
        Status::SelfCheck => ("ok", format!(" # SKIP {}", case.status.words())),
        Status::Fail | Status::Flaky => ("not ok", String::new()),
        // A failure with a TODO directive does not fail the run.
        Status::ExpectedFailure | Status::Warning => {
            ("not ok", format!(" # TODO {}", escaped(why)))
        }
        Status::Unobservable | Status::NotClaimed | Status::NotRun => (
            "ok",
            format!(" # SKIP {}: {}", case.status.words(), escaped(why)),
        ),
    };
    text.push_str(&format!(
        "{verdict} {number} - {}{directive}\n",
        escaped(label)
    ));
    if case.status.is_failure() {
        text.push_str("  ---\n");
        let mut entry = |name: &str, value: &str| {
            // A JSON string is a YAML scalar.
            text.push_str(&format!("  {name}: {}\n", serde_json::Value::from(value)));
        };
        entry("message", why);
        entry("at", &case.place);
        if let Some(cause) = &case.cause {
            entry("cause", cause);
        }
        if let Some(finding) = case.findings.first() {
            entry("found", &finding.observed);
            entry("wanted", &finding.expected);
        }
        entry("clause", case.anchor());
        for known in case.background() {
            entry("known", &known);
        }
        if let Some(rerun) = &case.rerun {
            entry("rerun", rerun);
        }
        text.push_str("  ...\n");
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '#' => out.push_str("\\#"),
            '\\' => out.push_str("\\\\"),
            control if super::sanitize::is_interpreted(control) => out.push(' '),
            plain => out.push(plain),
        }
    }
    out
}
