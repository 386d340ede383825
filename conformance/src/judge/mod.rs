//! Compares what a target did with what a case expects. Strict by design: whatever is not known to
//! be right is not passed. Knows nothing of processes, transports or reports.
//!
//! Programs get a whole [`Verdict`]. Exchanges are judged step by step, so those functions give
//! `Ok` or the [`Mismatch`] of the step, and keep captures for later steps.

mod command;
mod credentials;
mod diff;
mod fixture;
mod json;
mod liberties;
mod message;
mod program;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod words;

pub use self::command::command;
pub use self::credentials::leaked;
pub use self::fixture::fixture;
pub use self::json::{call, json, unordered};
pub use self::message::{http, line};
pub use self::program::program;
pub use self::schema::output_schema;
pub use self::text::{raw_line, text};
pub use self::words::{error_messages, own_words};

use crate::verdict::{Mismatch, Verdict};

/// Captures are kept only when the whole step matched.
type Judged = Result<(), Mismatch>;

/// One part of an expectation, judged.
enum Part {
    /// It was seen and is right.
    Met,
    /// It was seen and is wrong.
    Unmet(Mismatch),
    /// It can't be seen: the part, and why not.
    Unseen(&'static str, String),
}

/// The verdict of several parts: wrong when one is, unobservable when none was seen.
fn verdict(parts: Vec<Part>) -> Verdict {
    let mut met = false;
    let mut unseen = Vec::new();
    for part in parts {
        match part {
            Part::Met => met = true,
            Part::Unmet(mismatch) => return Verdict::Fail(mismatch),
            Part::Unseen(part, reason) => unseen.push(format!("{part}: {reason}")),
        }
    }
    if met {
        Verdict::Pass { unobserved: unseen }
    } else {
        Verdict::Unobservable {
            reason: unseen.join("; "),
        }
    }
}

/// A mismatch that fails a case under a clause which every case is held to, whatever it is about.
fn breach(
    clause: &str,
    what: &str,
    expected: impl Into<String>,
    observed: impl Into<String>,
) -> Mismatch {
    Mismatch {
        clause: Some(clause.into()),
        ..mismatch(what, expected, observed)
    }
}

/// A mismatch of two texts, with a diff when one line doesn't show it.
fn mismatch(
    what: impl Into<String>,
    expected: impl Into<String>,
    observed: impl Into<String>,
) -> Mismatch {
    let said = |text: String| {
        if text.is_empty() {
            "nothing".to_owned()
        } else {
            text
        }
    };
    let (expected, observed) = (expected.into(), observed.into());
    let diff = diff::lines(&expected, &observed);
    let (expected, observed) = (said(expected), said(observed));
    Mismatch {
        what: what.into(),
        expected,
        observed,
        diff,
        clause: None,
        line: None,
    }
}
