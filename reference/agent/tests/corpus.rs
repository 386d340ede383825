//! Runs the agent cases of `spec/corpus/agent.jsonl` through the operation table.
//! Knows nothing of the conformance runner: this is the short way to see a regression.

use ptc_agent::OPERATIONS;
use ptc_protocol::json_to_value;
use serde_json::{Value as Json, json};

#[test]
fn every_agent_case_holds() {
    let corpus = include_str!("../../../spec/corpus/agent.jsonl");
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
        if !agrees(&case["expect"], &outcome) {
            failed.push(format!(
                "{}\n  expected {}\n  got      {outcome}",
                case["id"], case["expect"]
            ));
        }
    }
    assert!(ran > 200, "only {ran} cases");
    assert!(
        failed.is_empty(),
        "{} of {ran} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Equality as values, `1` not being `1.0`; members that the case does not name are free.
fn agrees(expected: &Json, got: &Json) -> bool {
    match (expected, got) {
        (Json::Object(expected), Json::Object(got)) => expected
            .iter()
            .all(|(key, value)| got.get(key).is_some_and(|found| agrees(value, found))),
        (Json::Array(expected), Json::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| agrees(a, b))
        }
        _ => json_to_value(expected) == json_to_value(got),
    }
}
