//! Arguments validated in order; ranks.

use super::*;

fn verdict(arguments: &str) -> String {
    let json = ptc_rpc::parse(arguments.as_bytes()).unwrap();
    match read(Some(json), &Redactor::empty()) {
        Ok(question) => format!("{:?} {}", question.op, question.limit),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn arguments_are_validated_in_order() {
    for (arguments, expected) in [
        (
            "{}",
            "argument `op` is required (one of: stats, recent, get)",
        ),
        (
            r#"{"op":"purge"}"#,
            "argument `op` must be one of stats, recent, get (got: \"purge\")",
        ),
        (
            r#"{"op":"stats","limit":0}"#,
            "argument `limit` must be between 1 and 200 (got: 0)",
        ),
        (
            r#"{"op":"stats","limit":"5"}"#,
            "argument `limit` must be an integer (got: \"5\")",
        ),
        (
            r#"{"op":"stats","limit":1.5}"#,
            "argument `limit` must be an integer (got: 1.5)",
        ),
        (
            r#"{"op":"stats","since_seconds":86401}"#,
            "argument `since_seconds` must be between 1 and 86400 (got: 86401)",
        ),
        (
            r#"{"op":"stats","errors_only":"true"}"#,
            "argument `errors_only` must be a boolean (got: \"true\")",
        ),
        (
            r#"{"op":"get"}"#,
            "argument `request_id` is required for op=get",
        ),
        (
            r#"{"op":"get","request_id":5}"#,
            "argument `request_id` is required for op=get",
        ),
        (
            r#"{"op":"recent","request_id":5}"#,
            "argument `request_id` must be a string (got: 5)",
        ),
        (r#"{"op":"recent","limit":null}"#, "Recent 20"),
        (r#"{"op":"recent","limit":7,"zz":1}"#, "Recent 7"),
    ] {
        assert_eq!(verdict(arguments), expected, "{arguments}");
    }
    let long = format!(r#"{{"op":"stats","request_id":"{}"}}"#, "x".repeat(257));
    assert_eq!(verdict(&long), "argument `request_id` exceeds 256 bytes");
}

#[test]
fn nearest_rank_picks_percentiles() {
    assert_eq!(nearest_rank(&[1, 2, 3, 4], 50), Some(2));
    assert_eq!(nearest_rank(&[1, 2, 3, 4], 95), Some(4));
    assert_eq!(nearest_rank::<u64>(&[], 50), None);
}
