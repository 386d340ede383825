//! Runs the suite against faulty servers: each is caught by a case of the clause that it breaks, and the
//! correct server passes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use conformance::mutant;

/// The faults that any conformance suite must catch.
const TEN: &[&str] = &[
    "wrong-result",
    "no-is-error",
    "swapped-ids",
    "validated-partial",
    "extra-line",
    "parse-error-code",
    "prints-lost",
    "slim-leaks",
    "program-bytes-off-by-one",
    "remembers",
];

/// One of each kind of fault over HTTP, and of each kind of state.
const OTHERS: &[&str] = &[
    "http-request-id-dropped",
    "http-any-origin",
    "http-wrong-token-passes",
    "http-no-body-cap",
    "http-body-cut",
    "http-no-session-id",
    "sessions-closed-unknown",
    "upstream-failures-ok",
];

fn harness(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
        .args(arguments)
        .output()
        .expect("the harness starts")
}

fn reference() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_ptc-conformance"));
    let path = binary.with_file_name("examples").join("reference");
    assert!(
        path.is_file(),
        "{} is built by `cargo test -p conformance`",
        path.display()
    );
    path
}

#[test]
fn ten_mutants_are_caught_by_their_clauses() {
    let reference = reference();
    let mut arguments = vec!["selftest", "--reference"];
    arguments.push(reference.to_str().expect("a path in UTF-8"));
    for name in TEN.iter().chain(OTHERS) {
        arguments.extend(["--mutant", name]);
    }
    let output = harness(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for name in TEN.iter().chain(OTHERS) {
        let mutant = mutant::find(name).expect("a row of the table");
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line for each");
        let case = format!("caught by {}", mutant.clause);
        assert!(line.contains(&case), "{line}");
    }
}

#[test]
fn harmless_mutants_pass() {
    let reference = reference();
    let binary = env!("CARGO_BIN_EXE_ptc-conformance");
    for other in mutant::harmless() {
        let words = [
            binary,
            "mutate",
            &other.name,
            "--",
            reference.to_str().expect("a path in UTF-8"),
            "start",
        ];
        let command = shell_words::join(words);
        let output = harness(&["run", "--stdio", &command, "--filter", &other.clause]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}:\n{text}", other.name);
    }
}

#[test]
fn correct_server_passes_the_cases_that_catch_mutants() {
    let reference = reference();
    let reference = reference.to_str().expect("a path in UTF-8");
    let mut arguments = vec!["run", "--reference", reference];
    for name in TEN.iter().chain(OTHERS) {
        let mutant = mutant::find(name).expect("a row of the table");
        arguments.extend(["--filter", &mutant.clause]);
    }
    let output = harness(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}
