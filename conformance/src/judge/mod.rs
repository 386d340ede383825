//! Compares what a target did with what a case expects. Strict by design: nothing passes unless it is
//! known to be right. Knows nothing of processes, transports or reports.
//!
//! Programs get a complete [`Verdict`]. Exchanges are judged step by step, so those functions return
//! `Ok` or the [`Mismatch`] of the step, and keep captures for later steps.

mod command;
mod credentials;
mod diff;
mod fixture;
mod host_text;
mod json;
mod message;
mod permitted_members;
mod program;
mod schema;
#[cfg(test)]
mod tests;
mod text;

pub use self::command::command;
pub use self::credentials::leaked_credential;
pub use self::fixture::fixture;
pub use self::host_text::{error_messages, host_text_mismatch};
pub use self::json::{call, json, unordered};
pub use self::message::{http, line};
pub use self::program::{program, program_in_doubles};
pub use self::schema::{NoSchema, output_schema};
pub use self::text::{raw_line, text};

use crate::verdict::{Mismatch, Verdict};

/// The result of a step. Captures are kept only if the whole step matched.
type Judged = Result<(), Mismatch>;

/// The result for one part of an expectation.
enum PartVerdict {
    /// It was observed and is right.
    Met,
    /// It was observed and is wrong.
    Unmet(Mismatch),
    /// It can't be observed: the part, and the reason.
    Unseen(&'static str, String),
}

/// The verdict on several parts: a failure if one is wrong, unobservable if none could be observed.
fn verdict(parts: Vec<PartVerdict>) -> Verdict {
    let mut met = false;
    let mut unseen = Vec::new();
    for part in parts {
        match part {
            PartVerdict::Met => met = true,
            PartVerdict::Unmet(mismatch) => return Verdict::Fail(mismatch),
            PartVerdict::Unseen(part, reason) => unseen.push(format!("{part}: {reason}")),
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

/// A mismatch under a clause that applies to every case, whatever its subject.
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

/// A mismatch of two texts, with a diff unless both are one short line.
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
