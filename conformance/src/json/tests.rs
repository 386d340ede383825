//! Text in, values or errors out; which values are equal.

use super::*;

fn check(text: &str) -> String {
    match Json::parse(text) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn same(a: &str, b: &str) -> bool {
    Json::parse(a).unwrap() == Json::parse(b).unwrap()
}

#[test]
fn numbers_keep_every_digit() {
    let big = "[123456789012345678901234567890,1.0,-0.0,1E+2]";
    assert_eq!(check(big), big);
}

#[test]
fn numbers_are_equal_by_value_within_a_kind() {
    assert!(same("[1e2, 100.00]", "[100.0, 1E2]"));
    assert!(same("-0", "0"));
    assert!(!same("1", "1.0"));
    assert!(!same("0.0", "-0.0"));
    assert!(!same(
        "10000000000000000000000001",
        "10000000000000000000000002"
    ));
    assert!(!same("1e999", "1e998"));
}

#[test]
fn objects_are_equal_in_any_order() {
    assert!(same(r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#));
    assert!(!same("[1,2]", "[2,1]"));
    assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":null}"#));
}

#[test]
fn invalid_json_is_rejected_with_its_position() {
    insta::assert_snapshot!(
        [
            "", "{", "[1,]", "01", "+1", "1.", ".5", "nul", "{'a':1}", r#"{"a":1,"a":2}"#, r#""\ud800""#,
            r#""\u12g4""#, "\"\u{1}\"", "[1] 2", "\"abc", "NaN",
        ]
        .map(|text| format!("{text:?} -> {}", check(text)))
        .join("\n"),
        @r#"
            "" -> error: expected a JSON value, found the end at byte 0
            "{" -> error: expected a key in double quotes, found the end at byte 1
            "[1,]" -> error: expected a JSON value, found ']' at byte 3
            "01" -> error: expected the end of the JSON text, found '1' at byte 1
            "+1" -> error: expected a JSON value, found '+' at byte 0
            "1." -> error: expected a digit, found the end at byte 2
            ".5" -> error: expected a JSON value, found '.' at byte 0
            "nul" -> error: expected a JSON value, found 'n' at byte 0
            "{'a':1}" -> error: expected a key in double quotes, found '\'' at byte 1
            "{\"a\":1,\"a\":2}" -> error: duplicate key "a" at byte 7
            "\"\\ud800\"" -> error: expected \u and four hexadecimal digits, found '"' at byte 7
            "\"\\u12g4\"" -> error: expected \u and four hexadecimal digits, found '\\' at byte 1
            "\"\u{1}\"" -> error: expected no raw control character in a string, found '\u{1}' at byte 1
            "[1] 2" -> error: expected the end of the JSON text, found '2' at byte 4
            "\"abc" -> error: unterminated string at byte 0
            "NaN" -> error: expected a JSON value, found 'N' at byte 0
            "#
    );
}

#[test]
fn nesting_depth_is_limited() {
    assert!(Json::parse(&format!("{}{}", "[".repeat(512), "]".repeat(512))).is_ok());
    assert!(Json::parse(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn surrogate_pairs_become_one_character() {
    assert_eq!(check(r#""\ud83d\ude00 \u00e9""#), "\"😀 é\"");
}

#[test]
fn too_many_values_are_rejected() {
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
    assert!(Json::parse(&zeros(VALUES_MAX - 2)).is_ok());
    let error = Json::parse(&zeros(VALUES_MAX)).expect_err("too many");
    assert!(error.to_string().contains("2000000 values"), "{error}");
}

#[test]
fn deep_values_are_truncated_for_display() {
    let nest = |inner: &str| format!("{}{inner}{}", "[".repeat(500), "]".repeat(500));
    let value = Json::parse(&nest(&format!("{}0", "0,".repeat(100_000)))).expect("JSON");
    let shown = value.pretty(10_000);
    assert!((10_000..12_000).contains(&shown.len()), "{}", shown.len());
    let whole = Json::parse(r#"{"b":[1,2],"a":{}}"#).expect("JSON");
    let text = whole.pretty(10_000);
    assert_eq!(text, "{\n  \"a\": {},\n  \"b\": [\n    1,\n    2\n  ]\n}");
}

#[test]
fn loose_parsing_has_the_same_value_limit() {
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
    assert!(parse_loosely(&zeros(VALUES_MAX - 2)).is_some());
    assert!(parse_loosely(&zeros(VALUES_MAX)).is_none());
    let text = format!(r#"["{}\",[{{"]"#, ",".repeat(VALUES_MAX));
    assert!(parse_loosely(&text).is_some_and(|value| value.is_array()));
}
