//! Runs the operations of `spec/corpus/` through the testee. Knows nothing of the conformance runner: this is the quick way to see a
//! regression.

use ptc_commands::testee;
use ptc_protocol::json_to_value;
use serde_json::{Value as Json, json};

ptc_commands::counting_allocator!();

#[test]
fn every_operation_case_holds() {
    for (name, corpus, least, closed) in [
        (
            "protocol",
            include_str!("../../../spec/corpus/protocol.jsonl"),
            400,
            true,
        ),
        (
            "agent",
            include_str!("../../../spec/corpus/agent.jsonl"),
            200,
            false,
        ),
    ] {
        let cases = corpus.lines().filter(|line| !line.trim().is_empty());
        let cases = cases.map(|line| serde_json::from_str::<Json>(line).unwrap());
        let cases: Vec<Json> = cases.filter(|case| case["op"].is_string()).collect();
        assert!(cases.len() > least, "{name}: only {} cases", cases.len());
        let failed = cases.iter().filter_map(|case| fault(case, closed));
        let failed: Vec<String> = failed.collect();
        assert!(
            failed.is_empty(),
            "{} of {name} failed:\n{}",
            failed.len(),
            failed.join("\n")
        );
    }
}

fn fault(case: &Json, closed: bool) -> Option<String> {
    let line = json!({ "id": 1, "op": case["op"], "input": case["input"] });
    let mut got = testee::answer(line.to_string().as_bytes());
    got.as_object_mut()?.remove("id");
    (!agrees(&case["expect"], &got, closed)).then(|| {
        format!(
            "{}\n  expected {}\n  got      {got}",
            case["id"], case["expect"]
        )
    })
}

/// Equality as values, so `1` differs from `1.0`; members that the case does not name are ignored, unless objects are `closed`.
fn agrees(expected: &Json, got: &Json, closed: bool) -> bool {
    match (expected, got) {
        (Json::Object(expected), Json::Object(got)) => {
            let found = |(key, value): (&String, &Json)| {
                got.get(key).is_some_and(|got| agrees(value, got, closed))
            };
            (!closed || expected.len() == got.len()) && expected.iter().all(found)
        }
        (Json::Array(expected), Json::Array(got)) => {
            let same = |(a, b): (&Json, &Json)| agrees(a, b, closed);
            expected.len() == got.len() && expected.iter().zip(got).all(same)
        }
        _ => json_to_value(expected) == json_to_value(got),
    }
}
