//! Renders a run as one HTML page that needs nothing else: no network, no other file. Knows only the record.

use std::collections::BTreeMap;

use askama::Template;
use indexmap::IndexMap;

use super::{Run, Status};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    verdict: &'a str,
    class: &'a str,
    target: &'a str,
    server: Option<&'a str>,
    summary: String,
    harness: &'a str,
    seconds: String,
    partial: bool,
    strict: bool,
    complaints: &'a [String],
    areas: Vec<Area<'a>>,
    /// The cases as JSON that cannot end its script element.
    data: String,
    /// The words for each status, as a JSON object.
    words: String,
}

struct Area<'a> {
    name: &'a str,
    passed: usize,
    failed: usize,
    other: usize,
    judged: usize,
    percent: usize,
}

/// The page.
///
/// # Errors
/// When the template cannot be filled, which it always can with text.
pub fn render(run: &Run) -> Result<String, String> {
    let words: IndexMap<Status, &str> = Status::ALL
        .into_iter()
        .map(|status| (status, status.words()))
        .collect();
    let page = Page {
        verdict: if run.passed() {
            "Conforms"
        } else {
            "Does not conform"
        },
        class: if run.passed() { "pass" } else { "fail" },
        target: &run.target,
        server: run.server.as_deref(),
        summary: run.summary(),
        harness: &run.harness,
        seconds: format!("{:.1}", run.duration_ms as f64 / 1000.0),
        partial: run.partial,
        strict: run.strict,
        complaints: &run.complaints,
        areas: areas(run),
        data: embedded(&run.cases)?,
        words: embedded(&words)?,
    };
    page.render().map_err(|error| format!("HTML: {error}"))
}

fn areas(run: &Run) -> Vec<Area<'_>> {
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for case in &run.cases {
        let column = match case.status {
            Status::Pass => 0,
            status if status.is_failure() => 1,
            _ => 2,
        };
        let area = case.section.split('.').next().unwrap_or_default();
        counts.entry(area).or_default()[column] += 1;
    }
    let of = |(name, [passed, failed, other]): (_, [usize; 3])| {
        let judged = passed + failed;
        let percent = (passed * 100).checked_div(judged).unwrap_or_default();
        Area {
            name,
            passed,
            failed,
            other,
            judged,
            percent,
        }
    };
    counts.into_iter().map(of).collect()
}

fn embedded<T: serde::Serialize>(value: &T) -> Result<String, String> {
    let text = serde_json::to_string(value).map_err(|error| format!("HTML: {error}"))?;
    // Inside JSON these characters stand in strings only, where an escape means the same.
    Ok(text
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
mod tests {
    use super::super::{CaseRecord, FORMAT};
    use super::*;

    #[test]
    fn what_a_target_says_cannot_become_markup() {
        let case = CaseRecord {
            id: "x/1".to_owned(),
            section: "x".to_owned(),
            clause: None,
            sentence: None,
            place: "x.md:1".to_owned(),
            status: Status::Fail,
            cause: None,
            message: Some("</script><script>alert(1)</script>".to_owned()),
            findings: Vec::new(),
            unobserved: Vec::new(),
            source: None,
            traffic: Vec::new(),
            stderr: None,
            duration_us: 1,
            rerun: None,
        };
        let run = Run {
            format: FORMAT,
            harness: "h".to_owned(),
            target: "<b>t</b>".to_owned(),
            server: None,
            suite_cases: 1,
            partial: false,
            strict: false,
            duration_ms: 1,
            cases: vec![case],
            complaints: vec!["<i>".to_owned()],
        };
        let page = render(&run).expect("a page");
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("<b>t</b>"));
        assert!(!page.contains("<p class=\"fail\"><i>"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "the page needs no network"
        );
    }
}
