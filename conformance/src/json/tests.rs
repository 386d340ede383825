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
fn doubles_lose_the_kind_and_the_last_digits() {
    let read = |text: &str| Json::parse(text).expect("JSON");
    for (exact, rounded) in [
        ("1.0", "1"),
        ("9007199254740993", "9007199254740992"),
        (r#"{"a":[2.0,-0.0]}"#, r#"{"a":[2,0]}"#),
    ] {
        assert!(read(exact).equals_in_doubles(&read(rounded)), "{exact}");
        assert!(!read(exact).survives_doubles(), "{exact}");
        assert!(read(rounded).survives_doubles(), "{rounded}");
    }
    for (a, b) in [
        ("1.5", "1"),
        ("[1]", "[1,1]"),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        ("1", "true"),
        ("null", "0"),
    ] {
        assert!(!read(a).equals_in_doubles(&read(b)), "{a} {b}");
    }
    assert!(read(r#"[0.1,-9007199254740992,null,"1.0",{"k":true}]"#).survives_doubles());
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
            "01" -> error: invalid number at byte 1
            "+1" -> error: expected a JSON value, found '+' at byte 0
            "1." -> error: invalid number at byte 1
            ".5" -> error: expected a JSON value, found '.' at byte 0
            "nul" -> error: expected a JSON value, found 'n' at byte 0
            "{'a':1}" -> error: expected a key in double quotes, found '\'' at byte 1
            "{\"a\":1,\"a\":2}" -> error: duplicate key "a" at byte 7
            "\"\\ud800\"" -> error: unexpected end of hex escape at byte 7
            "\"\\u12g4\"" -> error: invalid escape at byte 6
            "\"\u{1}\"" -> error: control character (\u0000-\u001F) found while parsing a string at byte 0
            "[1] 2" -> error: expected the end of the JSON text, found '2' at byte 4
            "\"abc" -> error: EOF while parsing a string at byte 0
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
fn values_at_the_limits_are_read_and_one_more_is_refused() {
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let zeros = |values: usize| format!("[0{}]", ",0".repeat(values - 2));
    // The smallest stack that anything here is read on.
    let read = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            for text in [arrays(512), objects(512), zeros(VALUES_MAX)] {
                let value = Json::parse(&text).expect("within the limits");
                assert!(value.to_string() == text && value.pretty(100).len() >= 100);
            }
            for text in [arrays(513), objects(513), zeros(VALUES_MAX + 1)] {
                Json::parse(&text).expect_err("beyond a limit");
            }
        });
    read.expect("a thread").join().expect("reads");
}

#[test]
fn what_only_looks_like_json_is_refused() {
    for text in [
        "\u{feff}1",
        "1 2",
        "1,",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "-",
        "1e",
        "1e+",
        "-01",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "[1 2]",
        "\"\\x\"",
        "nulls",
        "\u{a0}1",
        "{\"a\":{\"b\":1,\"b\":1}}",
        "{\"a\":1,\"\\u0061\":2}",
    ] {
        assert!(Json::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_object_is_never_taken_for_a_number() {
    for text in [
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::RawValue":"1"}"#,
    ] {
        assert_eq!(check(text), text);
        assert_eq!(Json::parse(text).unwrap().kind(), "object");
    }
}

#[test]
fn zeros_and_numbers_out_of_range_stay_what_they_are() {
    for text in [
        "-0",
        "-0.0",
        "0",
        "1e-400",
        "100000000000000000000000000001",
    ] {
        assert_eq!(check(text), text);
    }
    let kinds = ["1e400", "-0", "1E2"].map(|text| Json::parse(text).unwrap().kind());
    assert_eq!(kinds, ["float", "integer", "float"]);
    assert!(same("1e400", "1e400") && !same("1e400", "1e401") && same("1e2", "100.0"));
}

#[test]
fn a_value_at_the_start_says_where_it_ends() {
    let ends = |text: &str| Json::parse_prefix(text).map(|(value, end)| format!("{value} {end}"));
    assert_eq!(ends(" {\"a\": [1] } , 2").unwrap(), "{\"a\":[1]} 12");
    assert_eq!(ends("12>").unwrap(), "12 2");
    assert_eq!(ends("true]").unwrap(), "true 4");
    assert_eq!(ends("\"a\"\"").unwrap(), "\"a\" 3");
    assert_eq!(ends("nulls").unwrap(), "null 4");
    assert_eq!(ends("[1,").unwrap_err().at, 3);
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
