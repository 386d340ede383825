//! Renders a run as JUnit XML, one suite a section. Knows only the record.

use std::time::Duration;

use indexmap::IndexMap;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite, XmlString};

use super::terminal::details;
use super::{CaseRecord, Run, Status};

/// The XML document.
///
/// # Errors
/// When the writer refuses, which it does not for text.
pub fn render(run: &Run) -> Result<String, String> {
    let mut report = Report::new(format!("ptc-conformance: {}", run.target));
    report.set_time(Duration::from_millis(run.duration_ms));
    let mut suites: IndexMap<&str, TestSuite> = IndexMap::new();
    for case in &run.cases {
        suites
            .entry(&case.section)
            .or_insert_with(|| TestSuite::new(case.section.as_str()))
            .add_test_case(test_case(case));
    }
    if !run.complaints.is_empty() {
        let mut suite = TestSuite::new("complaints");
        for complaint in &run.complaints {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(complaint.as_str());
            suite.add_test_case(TestCase::new(complaint.as_str(), status));
        }
        suites.insert("complaints", suite);
    }
    report.add_test_suites(suites.into_values());
    report
        .to_string()
        .map_err(|error| format!("JUnit: {error}"))
}

fn test_case(case: &CaseRecord) -> TestCase {
    let message = case.message.as_deref().unwrap_or_default();
    let status = match case.status {
        Status::Pass => TestCaseStatus::success(),
        Status::Fail | Status::Flaky => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(message);
            status.set_type(case.cause.as_deref().unwrap_or("mismatch"));
            status.set_description(XmlString::new(details(case)));
            status
        }
        Status::ExpectedFailure
        | Status::Warning
        | Status::Unobservable
        | Status::NotClaimed
        | Status::NotRun => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{}: {message}", case.status.words()));
            status
        }
    };
    let mut test = TestCase::new(case.id.as_str(), status);
    test.set_classname(case.section.as_str());
    test.set_time(Duration::from_micros(case.duration_us));
    test
}
