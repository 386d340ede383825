//! Runs the suite against recordings of the original server: every failure must be known, with a divergence or a ruling that explains it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::fixture;
use conformance::report::{Run, Status};

/// Clauses of pages that the recorded server violates, with the divergence that records it.
const KNOWN: &[(&str, &str)] = &[("mcp.dispatch.methods.ping", "original.server.ping")];

/// Maximum number of programs of the suite that are missing from the recording; more would hide its results.
const UNRECORDED_MAX: usize = 60;
/// Minimum numbers of corpus cases that the recording passes and fails: fewer mean that nothing was replayed.
const PASSED_MIN: usize = 7000;
const FAILED_MIN: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn recorded_differences_of_the_original_are_listed() {
    let report = std::env::temp_dir().join(format!("replayer-{}.json", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
        .current_dir(root())
        .args([
            "run",
            "--launch",
            "conformance/foreign/replayer/launch.toml",
        ])
        .args(["--claims", "conformance/foreign/replayer/claims.toml"])
        .args(["--by-divergence", "original-0.12"])
        .arg("--report")
        .arg(format!("json={}", report.display()))
        .output()
        .expect("the harness starts");
    let text = std::fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&status.stderr));
    });
    std::fs::remove_file(&report).expect("the report");
    let run: Run = serde_json::from_str(&text).expect("a report");
    let suite = fixture::load(&root().join("spec")).expect("the specification");
    let known: BTreeMap<&str, &str> = KNOWN.iter().copied().collect();
    let (mut passed, mut failed, mut unrecorded, mut unknown) = (0, 0, 0, Vec::new());
    for record in &run.cases {
        match record.status {
            Status::Pass => passed += 1,
            Status::ExpectedFailure => failed += 1,
            Status::Fail | Status::Warning => {
                failed += 1;
                let case = suite.case(&record.id).expect("a case of the suite");
                let listed = case.clauses.iter().find_map(|id| known.get(id.as_str()));
                // A failure that its entry does not explain remains one, and a warning is not compared with it.
                let warned = record.status == Status::Warning;
                let entry = case.divergence.as_deref().filter(|_| warned);
                let entry = entry.or(listed.copied());
                let entered = entry.is_some_and(|id| suite.section(id).is_some());
                let message = record.message.as_deref().unwrap_or_default();
                // Programs of later cases were never sent to the original.
                if message.contains("this program was not recorded") {
                    unrecorded += 1;
                } else if !entered && case.rulings.is_empty() {
                    unknown.push(format!("{}: {message}", record.id));
                }
            }
            _ => {}
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(
        unrecorded <= UNRECORDED_MAX,
        "{unrecorded} programs were not recorded"
    );
    assert!(
        passed >= PASSED_MIN && failed >= FAILED_MIN,
        "{passed} passed and {failed} failed: is the recording there?"
    );
}
