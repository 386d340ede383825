//! Text in, values out, and back; checked against `serde_json`.

use proptest::prelude::*;

use super::*;

fn check_read(text: &str) -> String {
    match from_str(text) {
        Ok(value) => crate::print::readable(&value),
        Err(error) => error.to_string(),
    }
}

fn check_refusal(value: &Value) -> String {
    to_string(value).expect_err("refused").to_string()
}

/// Counts how often it is checked.
struct CountingWatch(std::cell::Cell<usize>);

impl Watch for CountingWatch {
    fn check_limits(&self) -> Result<(), Limit> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

#[test]
fn nested_json_polls_the_watch() {
    const DEPTH: usize = 100_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let watch = CountingWatch(Default::default());
        let text = open.repeat(DEPTH) + "1" + &close.repeat(DEPTH);
        read(&text, Duplicates::First, &watch).unwrap();
        let least = 2 * DEPTH / VALUES_BETWEEN_CHECKS as usize;
        assert!(watch.0.get() >= least, "{} checks", watch.0.get());
    }
}

#[test]
fn json_text_is_read_as_values() {
    for (text, printed) in [
        (
            "[1,\"a\",null,true,false,2.5,{}]",
            "[1 \"a\" nil true false 2.5 {}]",
        ),
        (
            " {\"b\":[ ] , \"a\" : {\"c\":[1,[2]]}} ",
            "{\"a\" {\"c\" [1 [2]]} \"b\" []}",
        ),
        ("[1e3,-0.0,-0,5.0,1e-400]", "[1000.0 -0.0 0 5.0 0.0]"),
        (
            "[123456789012345678,9223372036854775807,-9223372036854775808,9223372036854775808]",
            "[123456789012345678 9223372036854775807 -9223372036854775808 9223372036854775808]",
        ),
        (r#""a\u0000\ud83c\udf0a\/\n""#, r#""a\u0000🌊/\n""#),
        ("{\"a\":1,\"a\":2}", "{\"a\" 2}"),
        ("{\"\\u0061\":1,\"a\":2}", "{\"a\" 2}"),
    ] {
        assert_eq!(check_read(text), printed, "{text}");
    }
}

#[test]
fn first_of_duplicate_keys_can_win() {
    let value = read("{\"b\":0,\"a\":1,\"a\":2}", Duplicates::First, &Unwatched);
    assert_eq!(crate::print::readable(&value.unwrap()), "{\"a\" 1 \"b\" 0}");
}

#[test]
fn long_strings_end_at_the_closing_quote() {
    for length in [0, 1, 31, 32, 33, 40, 47, 48, 100] {
        for end in ["\"", "\\n\"", "\u{1}", "é\"", "\u{80}\u{7f}\""] {
            let text = format!("\"{}{end}", "x".repeat(length));
            let theirs = serde_json::from_str::<String>(&text).ok();
            let ours = from_str(&text).ok();
            assert_eq!(ours, theirs.map(Value::from), "{text}");
        }
    }
}

#[test]
fn syntax_errors_state_their_position() {
    for (text, message) in [
        ("", "the text ends too early at byte 0"),
        ("[1,\n é]", "unexpected character at byte 5"),
        ("[1] x", "something follows the value at byte 4"),
        (
            "\"a\tb\"",
            "control character in a string, write it as an escape at byte 2",
        ),
        (r#""\x""#, "unknown escape in a string at byte 1"),
        (r#""\ud83d""#, "half of a surrogate pair at byte 1"),
        (r#""\ude00""#, "half of a surrogate pair at byte 1"),
        (r#""\ud83dé\u""#, "half of a surrogate pair at byte 1"),
        ("012", "malformed number at byte 3"),
        ("1e999", "malformed number at byte 5"),
        ("[1,]", "unexpected character at byte 3"),
        ("{\"a\":1,}", "unexpected character at byte 7"),
        ("{a:1}", "unexpected character at byte 1"),
        ("\"abc", "the text ends too early at byte 4"),
        ("nul", "unexpected character at byte 0"),
    ] {
        assert_eq!(check_read(text), message, "{text}");
    }
}

#[test]
fn unrepresentable_values_are_rejected_with_their_path() {
    let map = |entries: Vec<(Value, Value)>| Value::Map(Map::from(entries));
    let nan = Value::Float(f64::NAN);
    let row = map(vec![(Value::keyword("ts"), nan.clone())]);
    let rows = map(vec![("rows".into(), vec![Value::Nil, row].into())]);
    assert_eq!(
        check_refusal(&rows),
        "non-JSON-encodable value at rows[1].ts"
    );
    assert_eq!(check_refusal(&nan), "non-JSON-encodable value at <root>");
    let both = map(vec![
        (Value::keyword("a"), Value::Nil),
        ("a".into(), Value::Nil),
    ]);
    assert_eq!(
        check_refusal(&vec![both].into()),
        "non-JSON-encodable value at [0]"
    );
    let keys = map(vec![(Value::Int(1), Value::Nil)]);
    assert_eq!(check_refusal(&keys), "non-JSON-encodable value at <root>");
}

#[test]
fn object_keys_are_written_sorted() {
    let map = Map::from(vec![
        ("a".into(), Value::Int(1)),
        (Value::keyword("b"), Value::keyword("x")),
        ("c".into(), Value::Float(1e21)),
    ]);
    assert_eq!(
        to_string(&Value::Map(map)).unwrap(),
        r#"{"a":1,"b":"x","c":1.0e21}"#
    );
}

#[test]
fn nesting_is_limited_only_by_size() {
    const DEPTH: usize = 1_000_000;
    let text = "[".repeat(DEPTH) + &"]".repeat(DEPTH);
    let value = from_str(&text).unwrap();
    assert_eq!(to_string(&value).unwrap(), text);
    assert!(from_str(&"{\"a\":".repeat(DEPTH)).is_err());
}

#[test]
fn memory_and_length_are_bounded() {
    let text = format!("[{}[]]", "[],".repeat(100_000));
    let account = heap::Account::new(1_000_000);
    let error = account.within(|| read(&text, Duplicates::Last, &account).unwrap_err());
    assert_eq!(error.problem, Problem::Limit(Limit::Memory));
    assert!(account.peak() < 1_100_000, "{}", account.peak());
    let value = from_str(&text).unwrap();
    assert_eq!(
        to_string_within(&value, 1_000, &Unwatched),
        Err(SinkError::Bytes.into())
    );
    let written = account.within(|| to_string_within(&value, usize::MAX, &account));
    assert!(written.is_ok(), "{} bytes of text fit", text.len());
    let large = Value::integer(BigInt::from(1) << 3_000_000);
    assert_eq!(
        to_string_within(&large, usize::MAX, &Unwatched),
        Err(SinkError::Limit(Limit::Time).into())
    );
}

#[test]
fn records_share_key_text() {
    let value = from_str(r#"[{"k":1,"l":2},{"l":3,"k":4}]"#).unwrap();
    let Value::Vector(rows) = value else {
        panic!("an array")
    };
    let keys: Vec<_> = rows
        .iter()
        .map(|row| match row {
            Value::Map(row) => row.keys().next().and_then(Value::key_text).cloned(),
            _ => None,
        })
        .map(|key| key.expect("a text key"))
        .collect();
    assert!(keys[0].ptr_eq(&keys[1]));
}

#[test]
fn long_decimals_parse_like_std() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text = String::from(["", "-", "+"][random.usize(..3)]);
        let mut digits = |text: &mut String| {
            let count = [0, 1, 3, 770, 1_500, 5_000][random.usize(..6)];
            let digit = ["0", "9", "5", "1"][random.usize(..4)];
            text.push_str(&digit.repeat(count));
            text.push_str(["", "1", "49"][random.usize(..3)]);
        };
        digits(&mut text);
        digits(&mut text);
        text.push_str(["", ".", ".0"][seed as usize % 3]);
        digits(&mut text);
        text.push_str(&"0".repeat(1_024));
        text.push_str(["", "e5", "E-2000", "e+400", "e-99999999999999999999"][seed as usize % 5]);
        let wanted = text.parse::<f64>().ok().map(f64::to_bits);
        assert_eq!(parse_float(&text).map(f64::to_bits), wanted, "{text}");
    }
    // A midpoint between two floats, and a number slightly above it.
    let half = format!("9007199254740993.{}", "0".repeat(2_000));
    assert_eq!(parse_float(&half), Some(9_007_199_254_740_992.0));
    assert_eq!(parse_float(&(half + "1")), Some(9_007_199_254_740_994.0));
    for refused in ["e5", "-", "..", "1e", "1e+", "1.2.3", "1e5.0", "1-1"] {
        let text = refused;
        assert_eq!(
            shortened(text).is_some(),
            text.parse::<f64>().is_ok(),
            "{text}"
        );
    }
}

#[test]
fn large_integers_keep_their_digits() {
    let digits = "1234567890".repeat(1_000);
    assert_eq!(parse_integer(&digits).unwrap().to_string(), digits);
    let round = format!("-1{}", "0".repeat(5_000));
    assert_eq!(parse_integer(&round).unwrap().to_string(), round);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Json;
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<i32>().prop_map(|float| Json::from(f64::from(float) / 64.0)),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(".{0,3}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn agrees_with_serde_json(json in json()) {
        let value = from_str(&json.to_string()).unwrap();
        let written = to_string(&value).unwrap();
        prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&written).unwrap(), &json);
        prop_assert_eq!(from_str(&serde_json::to_string_pretty(&json).unwrap()).unwrap(), value);
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "[\\[\\]{}:,\"\\\\ux0-9eE.+a-f \n-]{0,40}") {
        crate::fuzz::json(&text);
    }

    #[test]
    fn rejects_what_serde_json_rejects(text in "[\\[\\]{}:,\"\\\\ux0-9eE.+a-f \n-]{0,12}") {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(from_str(&text).is_ok(), theirs.is_ok(), "{:?}", text);
    }
}
