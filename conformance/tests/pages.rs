//! One test for each file of the specification: it parses without errors, survives a round trip through a bundle, and
//! the cases that need no target pass.

use std::path::Path;

use conformance::fixture::{self, FixtureError};
use conformance::judge;
use conformance::suite::{CaseBody, Suite, bundle};
use conformance::verdict::Verdict;

fn page(path: &Path, bytes: Vec<u8>) -> datatest_stable::Result<()> {
    check(fixture::page(&path.to_string_lossy(), &bytes))
}

fn corpus(path: &Path, bytes: Vec<u8>) -> datatest_stable::Result<()> {
    check(fixture::corpus(&path.to_string_lossy(), &bytes))
}

fn check(read: Result<Suite, Vec<FixtureError>>) -> datatest_stable::Result<()> {
    let suite = read.map_err(|errors| {
        errors
            .iter()
            .map(FixtureError::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    if bundle::read(&bundle::write(&suite)?)? != suite {
        return Err("the bundle does not read back the same".into());
    }
    for case in &suite.cases {
        if let CaseBody::Fixture(body) = &case.body
            && let Verdict::Fail(mismatch) = judge::fixture(body)
        {
            return Err(format!(
                "{}:{}: {}\n{}",
                case.file, case.line, case.id, mismatch.diff
            )
            .into());
        }
    }
    Ok(())
}

datatest_stable::harness! {
    { test = page, root = "../spec", pattern = r"\.md$" },
    { test = corpus, root = "../spec/corpus", pattern = r"\.jsonl$" },
}
