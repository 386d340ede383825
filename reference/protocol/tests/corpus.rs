//! Runs the protocol cases of `spec/corpus/protocol.jsonl` through the operation table.
//! Knows nothing of the conformance runner: this is the short way to see a regression.

use ptc_protocol::{OPERATIONS, json_to_value};
use serde_json::{Value as Json, json};

#[test]
fn every_protocol_case_holds() {
    let corpus = include_str!("../../../spec/corpus/protocol.jsonl");
    let mut failed = Vec::new();
    let mut ran = 0;
    for line in corpus.lines().filter(|line| !line.trim().is_empty()) {
        let case: Json = serde_json::from_str(line).unwrap();
        let Some(name) = case["op"].as_str() else {
            continue;
        };
        let operation = OPERATIONS
            .iter()
            .find(|operation| operation.name == name)
            .unwrap();
        let outcome = match (operation.run)(&case["input"]) {
            Ok(ok) => json!({ "ok": ok }),
            Err(error) => json!({ "error": error }),
        };
        ran += 1;
        // As values: `1e100` is `1.0e100`, `1` is not `1.0`.
        if json_to_value(&outcome) != json_to_value(&case["expect"]) {
            failed.push(format!(
                "{}\n  expected {}\n  got      {outcome}",
                case["id"], case["expect"]
            ));
        }
    }
    assert!(ran > 400, "only {ran} cases");
    assert!(
        failed.is_empty(),
        "{} of {ran} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
