//! Properties that must hold for any bytes, for fuzzers and for seeded runs on stable. Each function panics when its
//! property is violated.

use crate::edn::Edn;
use crate::fixture;
use crate::json::Json;
use crate::suite::{Suite, bundle};

/// Parses bytes as a page and as a corpus file: it never panics, every error points into the text, and the
/// result survives the bundle with the same ids.
pub fn check_fixture(data: &[u8]) {
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    for read in [
        fixture::page("page.md", data),
        fixture::corpus("corpus.jsonl", data),
    ] {
        match read {
            Ok(suite) => check_bundle(&suite),
            Err(errors) => {
                assert!(!errors.is_empty(), "a refusal without an error");
                for error in errors {
                    assert!(
                        (1..=lines).contains(&error.line),
                        "an error outside of the text: {error}"
                    );
                    assert!(error.column >= 1, "a column before the first: {error}");
                    assert!(!error.message.is_empty(), "an error without words");
                }
            }
        }
    }
}

/// A suite is unchanged after a round trip through a bundle; only the loader checks references to ids, so a bundle with bad ones may be
/// rejected.
fn check_bundle(suite: &Suite) {
    let text = bundle::write(suite).expect("a suite is plain JSON");
    match bundle::read(&text) {
        Ok(again) => assert!(again == *suite, "the bundle changed the suite"),
        Err(bundle::BundleError::Inconsistent(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Parses bytes as JSON and as a printed value: it never panics, and printing the result gives the same value.
pub fn check_values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(value) = Json::parse(text) {
        assert_eq!(
            Json::parse(&value.to_string()).as_ref(),
            Ok(&value),
            "{value} does not survive printing"
        );
    }
    if let Ok(value) = Edn::parse(text) {
        assert_eq!(
            Edn::parse(&value.to_string()).as_ref(),
            Ok(&value),
            "{value} does not survive printing"
        );
    }
}
