//! Renders a run as one self-contained HTML page, without network access or other files. Knows only the record.

use std::collections::BTreeMap;

use askama::Template;
use serde::Serialize;
use serde_json::{Value, json};

use super::compare::RunDifference;
use super::groups::{self, FailureGroup};
use super::levels::{self, LevelResult};
use super::{CaseRecord, Finding, ReportError, Run, Status, Traffic, Transport};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    verdict: String,
    class: &'a str,
    target: &'a str,
    server: Option<&'a str>,
    sentences: Vec<String>,
    harness: &'a str,
    seconds: String,
    partial: bool,
    strict: bool,
    complaints: &'a [String],
    levels: Vec<LevelResult>,
    causes: Vec<FailureGroup<'a>>,
    areas: Vec<Area<'a>>,
    /// The data for the page's script, as JSON that cannot end its script element.
    data: String,
}

/// One row of the matrix: the sections whose ids have the same first part.
struct Area<'a> {
    name: &'a str,
    cells: Vec<Cell>,
    sections: Vec<Square<'a>>,
}

/// The results of an area over one transport.
struct Cell {
    transport: &'static str,
    passed: usize,
    failed: usize,
    other: usize,
    all: usize,
    good: usize,
    bad: usize,
}

/// The results of a section, over all transports.
struct Square<'a> {
    id: &'a str,
    class: &'static str,
    tally: String,
}

/// The page. `difference` is the name of an earlier run, and how this one differs from it.
///
/// # Errors
/// When the template cannot be rendered, which does not happen with text.
pub fn render(
    run: &Run,
    difference: Option<(&str, &RunDifference)>,
) -> Result<String, ReportError> {
    let page = Page {
        verdict: capitalized(&run.headline()),
        class: if run.conclusion().is_good() {
            "pass"
        } else {
            "fail"
        },
        target: &run.target,
        server: run.server.as_deref(),
        sentences: run.summary(),
        harness: &run.harness,
        seconds: format!("{:.1}", run.duration_ms as f64 / 1000.0),
        partial: run.partial,
        strict: run.strict,
        complaints: &run.complaints,
        levels: levels::level_results(run),
        causes: groups::of_failures(run),
        areas: areas(run),
        data: embedded(&data(run, difference))?,
    };
    Ok(page.render()?)
}

fn capitalized(words: &str) -> String {
    let (first, rest) = words.split_at(words.len().min(1));
    format!("{}{rest}", first.to_uppercase())
}

fn areas(run: &Run) -> Vec<Area<'_>> {
    let transports = run.transports();
    let mut areas: BTreeMap<&str, BTreeMap<&str, Vec<&CaseRecord>>> = BTreeMap::new();
    for case in &run.cases {
        let area = case.section.split('.').next().unwrap_or_default();
        let sections = areas.entry(area).or_default();
        sections.entry(&case.section).or_default().push(case);
    }
    let row = |(name, sections)| area(name, &sections, &transports);
    areas.into_iter().map(row).collect()
}

fn area<'a>(
    name: &'a str,
    sections: &BTreeMap<&'a str, Vec<&CaseRecord>>,
    transports: &[Option<Transport>],
) -> Area<'a> {
    Area {
        name,
        cells: transports
            .iter()
            .map(|transport| cell(*transport, sections.values().flatten()))
            .collect(),
        sections: sections
            .iter()
            .map(|(id, cases)| square(id, cases))
            .collect(),
    }
}

fn cell<'c>(transport: Option<Transport>, cases: impl Iterator<Item = &'c &'c CaseRecord>) -> Cell {
    let mut cell = Cell {
        transport: transport.map_or("", Transport::words),
        passed: 0,
        failed: 0,
        other: 0,
        all: 0,
        good: 0,
        bad: 0,
    };
    for case in cases.filter(|case| case.transport == transport) {
        cell.all += 1;
        match case.status {
            Status::Pass => cell.passed += 1,
            status if status.is_failure() => cell.failed += 1,
            _ => cell.other += 1,
        }
    }
    let percent = |count: usize| (count * 100).checked_div(cell.all).unwrap_or_default();
    cell.good = percent(cell.passed);
    // A single failure among thousands must be visible.
    cell.bad = percent(cell.failed).max(2 * usize::from(cell.failed > 0));
    cell.good = cell.good.min(100 - cell.bad);
    cell
}

fn square<'a>(id: &'a str, cases: &[&CaseRecord]) -> Square<'a> {
    let of = |status| cases.iter().filter(|case| case.status == status).count();
    let tally: Vec<String> = Status::ALL
        .into_iter()
        .filter(|status| of(*status) > 0)
        .map(|status| format!("{} {}", of(status), status.words()))
        .collect();
    let class = if cases.iter().any(|case| case.status.is_failure()) {
        "bad"
    } else if of(Status::Warning) + of(Status::ExpectedFailure) > 0 {
        "odd"
    } else if of(Status::Pass) > 0 {
        "good"
    } else {
        "none"
    };
    Square {
        id,
        class,
        tally: tally.join(", "),
    }
}

/// The details of a case that has more to show than its row.
#[derive(Serialize)]
struct Detail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentence: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unobserved: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    traffic: &'a [Traffic],
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    known: Vec<String>,
}

/// Most cases have few details, so a case is an array in the order that the page's script reads: id, section, status,
/// transport, place, clause, microseconds, detail.
fn data(run: &Run, difference: Option<(&str, &RunDifference)>) -> Value {
    let sections: Vec<&str> = {
        let mut all: Vec<&str> = run.cases.iter().map(|case| case.section.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let status = |wanted: Status| Status::ALL.iter().position(|status| *status == wanted);
    let row = |case: &CaseRecord| {
        let detail = json!(Detail {
            cause: case.cause.as_deref(),
            message: case.message.as_deref(),
            sentence: case.sentence.as_deref(),
            unobserved: &case.unobserved,
            findings: &case.findings,
            source: case.source.as_deref(),
            traffic: &case.traffic,
            stderr: case.stderr.as_deref(),
            rerun: case.rerun.as_deref(),
            by_hand: case.by_hand.as_deref(),
            // The rationale of a case that passed is of no interest.
            known: if case.message.is_some() {
                case.background()
            } else {
                Vec::new()
            },
        });
        let has_detail = detail.as_object().is_some_and(|detail| !detail.is_empty());
        json!([
            case.id,
            sections.binary_search(&case.section.as_str()).ok(),
            status(case.status),
            case.transport.map_or("", Transport::words),
            case.place,
            case.clause.as_deref().unwrap_or_default(),
            case.duration_us,
            if has_detail { detail } else { Value::Null },
        ])
    };
    let cases: Vec<Value> = run.cases.iter().map(row).collect();
    let statuses: Vec<Value> = Status::ALL
        .into_iter()
        .map(|status| json!([status, status.words(), status.is_failure()]))
        .collect();
    let several = run.transports().len() > 1;
    let difference = difference.map(|(name, difference)| {
        let kinds = difference.kinds();
        json!({"name": name, "kinds": kinds})
    });
    json!({
        "cases": cases,
        "difference": difference,
        "sections": sections,
        "several": several,
        "statuses": statuses,
    })
}

fn embedded(value: &Value) -> Result<String, ReportError> {
    let text = serde_json::to_string(value)?;
    // In JSON these characters occur only in strings, where an escape means the same.
    Ok(text
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{record, run};

    fn failed(message: &str) -> CaseRecord {
        CaseRecord {
            message: Some(message.to_owned()),
            ..record("x/1", Status::Fail)
        }
    }

    #[test]
    fn target_text_cannot_become_markup() {
        let mut run = run(
            "<b>t</b>",
            vec![failed("</script><script>alert(1)</script>")],
        );
        run.complaints = vec!["<i>".to_owned()];
        let page = render(&run, None).expect("a page");
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("<b>t</b>"));
        assert!(!page.contains("<p class=\"fail\"><i>"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "the page needs no network"
        );
    }

    #[test]
    fn one_failure_among_thousands_is_visible() {
        let mut passed = failed("");
        passed.status = Status::Pass;
        let mut cases = vec![passed; 5000];
        cases.push(failed("x"));
        let shown: Vec<&CaseRecord> = cases.iter().collect();
        let cell = cell(Some(Transport::Stdio), shown.iter());
        assert_eq!(
            (cell.passed, cell.failed, cell.good, cell.bad),
            (5000, 1, 98, 2)
        );
        assert_eq!(square("x", &shown).class, "bad");
    }
}
