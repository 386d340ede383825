//! Checks that the parts of the project agree. Knows the rules' names; each rule has its module.

mod boundaries;
mod builtins;
mod facts;
mod features;
mod golden;
mod requirements;
pub mod revisions;
mod sources;
mod vocabulary;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use conformance::suite::Suite;

use crate::documents::Documents;
use crate::mutants::{self, excused::ExcusedFaults};
use anyhow::{Result, bail};

/// The input of the rules.
struct Project {
    root: PathBuf,
    suite: Suite,
}

/// One rule; it returns its violations, one per line.
struct Rule {
    name: &'static str,
    check: fn(&Project) -> Result<Vec<String>>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "every source file says what it is",
        check: sources::check,
    },
    Rule {
        name: "a builtin has a row, a function and a section with a tested clause",
        check: builtins::check,
    },
    Rule {
        name: "no case asks an earlier revision for what a later one added",
        check: vocabulary::check,
    },
    Rule {
        name: "settings, methods, tools and reasons are specified",
        check: facts::check,
    },
    Rule {
        name: "rows of the source documents are proven",
        check: |project| Ok(Documents::read(&project.root)?.faults(&project.suite)),
    },
    Rule {
        name: "each clause for any MCP server tries a requirement of MCP",
        check: requirements::check,
    },
    Rule {
        name: "crates know only what they may know",
        check: boundaries::check,
    },
    Rule {
        name: "each excused fault can be planted and has one verdict",
        check: |_| {
            let mut wrong = ExcusedFaults::load()?.duplicate_verdicts();
            wrong.extend(mutants::stale_names()?);
            Ok(wrong)
        },
    },
    Rule {
        name: "harness and server are built of the same crates, and the server without checks",
        check: features::check,
    },
    Rule {
        name: "frozen requirements stand",
        check: revisions::check,
    },
    Rule {
        name: "golden/ is up to date",
        check: golden::check,
    },
];

/// Applies every rule, side by side: most of them parse all sources. Malformed fixtures and references to unknown
/// anchors are already detected when the suite is loaded.
///
/// # Errors
/// All violations.
pub fn run() -> Result<()> {
    let project = Project {
        root: crate::root(),
        suite: crate::suite()?,
    };
    let found: Vec<Result<Vec<String>>> = thread::scope(|scope| {
        let project = &project;
        let checks: Vec<_> = RULES
            .iter()
            .map(|rule| scope.spawn(move || (rule.check)(project)))
            .collect();
        checks
            .into_iter()
            .map(|check| check.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let mut wrong = Vec::new();
    for (rule, complaints) in RULES.iter().zip(found) {
        let complaints = complaints?;
        if complaints.is_empty() {
            eprintln!("ok: {}", rule.name);
        } else {
            eprintln!("WRONG: {}", rule.name);
            wrong.extend(complaints);
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n"))
    }
}
