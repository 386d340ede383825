//! Renders a run as JUnit XML, one suite per section and transport. Knows only the record.

use std::time::Duration;

use indexmap::IndexMap;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite, XmlString};

use super::terminal::details;
use super::{CaseRecord, ReportError, Run, Status, labelled};

/// The XML document.
///
/// # Errors
/// When the writer fails, which does not happen with text.
pub fn render(run: &Run) -> Result<String, ReportError> {
    let mut report = Report::new(format!("ptc-conformance: {}", run.target));
    report.set_time(Duration::from_millis(run.duration_ms));
    let several = run.transports().len() > 1;
    let mut suites: IndexMap<String, TestSuite> = IndexMap::new();
    for case in &run.cases {
        // Consumers identify a case by its suite and its name, so the same case over another transport needs another suite.
        let suite = labelled(&case.section, case.transport.filter(|_| several));
        let suite = match case.status {
            Status::SelfCheck => format!("{}: {suite}", case.status.words()),
            _ => suite,
        };
        suites
            .entry(suite)
            .or_insert_with_key(|suite| TestSuite::new(suite.as_str()))
            .add_test_case(test_case(case));
    }
    for (name, suite) in &mut suites {
        for case in &mut suite.test_cases {
            case.set_classname(name.as_str());
        }
    }
    if !run.complaints.is_empty() {
        let mut suite = TestSuite::new("complaints");
        for complaint in &run.complaints {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(complaint.as_str());
            suite.add_test_case(TestCase::new(complaint.as_str(), status));
        }
        suites.insert("complaints".to_owned(), suite);
    }
    report.add_test_suites(suites.into_values());
    let text = report.to_string()?;
    // The schema that Jenkins and others validate against has a count of skipped cases in each suite, but not at the root,
    // which is where it first occurs in the text.
    let sum = format!(" skipped=\"{}\"", report.skipped);
    Ok(text.replacen(&sum, "", 1))
}

fn test_case(case: &CaseRecord) -> TestCase {
    let message = case.message.as_deref().unwrap_or_default();
    let status = match case.status {
        // Checks of the harness have suites of their own.
        Status::Pass | Status::SelfCheck => TestCaseStatus::success(),
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
            let words = case.status.words();
            // Jenkins's schema permits no attributes here.
            status.set_description(match message {
                "" => words.to_owned(),
                message => format!("{words}: {message}"),
            });
            status
        }
    };
    let mut test = TestCase::new(case.id.as_str(), status);
    test.set_time(Duration::from_micros(case.duration_us));
    test
}
