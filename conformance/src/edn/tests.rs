//! Text in, values or errors out; which values are equal.

use super::*;

fn check(text: &str) -> String {
    match Edn::parse(text) {
        Ok(value) => value.to_string(),
        Err((at, message)) => format!("error at {at}: {message}"),
    }
}

#[test]
fn values_print_in_canonical_form() {
    insta::assert_snapshot!(
        [
            "nil", "[true, false]", "007 ", "-0", "1.50", "1e3", "1.0e21", "##-Inf", ":due-date", r#""a\"\\\n\u00e9\u0041b""#,
            "{:b 1 :a [2]}", "#{3 1 2}", "#fn[map]", "#'x", r##"#"a\"b+""##, "x", "{}", "123456789012345678901234567890",
        ]
        .map(check)
        .join("\n"),
        @r#"
            nil
            [true false]
            7
            0
            1.5
            1000.0
            1e21
            ##-Inf
            :due-date
            "a\"\\\néAb"
            {:a [2] :b 1}
            #{1 2 3}
            #fn[map]
            #'x
            #"a\"b+"
            x
            {}
            123456789012345678901234567890
            "#
    );
}

#[test]
fn invalid_values_are_rejected() {
    insta::assert_snapshot!(
        ["", "1 2", "[1", "{:a}", "{:a 1 :a 2}", "#{1 1}", "12abc", "\\a", "\"a", "\"\\q\"", "\"\\u12\"", "]", "#x", ":"]
            .map(|text| format!("{text} -> {}", check(text)))
            .join("\n"),
        @r#"
             -> error at 0: expected a value, found the end
            1 2 -> error at 2: expected one value, found more after it
            [1 -> error at 2: expected a value or ']', found the end
            {:a} -> error at 0: expected a value for every key of the map
            {:a 1 :a 2} -> error at 0: expected each key once, found :a twice
            #{1 1} -> error at 0: expected each element once, found 1 twice
            12abc -> error at 0: expected a value, found 12abc
            \a -> error at 0: expected a string: a character prints as one
            "a -> error at 0: expected a closing quote
            "\q" -> error at 1: expected one of n t r b f " \ u after '\'
            "\u12" -> error at 1: expected four hexadecimal digits after \u
            ] -> error at 0: expected a value, found a closing bracket
            #x -> error at 0: expected #{ #" #' #fn[ ##Inf ##-Inf or ##NaN
            : -> error at 0: expected a value, found :
            "#
    );
}

#[test]
fn kinds_and_values_are_distinguished() {
    let equal = |a: &str, b: &str| Edn::parse(a).unwrap().matches(&Edn::parse(b).unwrap());
    assert!(equal("{:a 1 :b #{2 3}}", "{:b #{3 2}, :a 1}"));
    assert!(equal("100.0", "1.0e2"));
    for (a, b) in [
        ("1", "1.0"),
        ("0.0", "-0.0"),
        (":a", "\"a\""),
        ("[1 2]", "[2 1]"),
        ("[1]", "(1)"),
        ("nil", ":nil"),
        ("{:a 1}", "{:a 1 :b 2}"),
        ("[]", "#{}"),
        ("9007199254740993", "9007199254740992"),
    ] {
        assert!(!equal(a, b), "{a} must not equal {b}");
    }
}

#[test]
fn holes_match_only_their_kind() {
    let met = |hole: &str, value: &str| {
        Edn::parse_expected(hole)
            .unwrap()
            .matches(&Edn::parse(value).unwrap())
    };
    assert!(met("{:n <int> :s [<string>]}", "{:s [\"x\"] :n 3}"));
    assert!(!met("<int>", "3.0"));
    assert!(!met("<string>", ":a"));
    assert!(!met("<function>", "#'x"));
    assert!(Edn::parse_expected("<integer>").is_err());
    assert!(Edn::parse_expected("#{<any>}").is_err());
    assert!(Edn::parse_expected("[(1)]").is_err());
}

#[test]
fn nesting_depth_is_limited() {
    assert!(Edn::parse(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn too_many_values_are_rejected() {
    let zeros = |count: usize| format!("[{}]", "0 ".repeat(count));
    assert!(Edn::parse(&zeros(VALUES_MAX - 1)).is_ok());
    let (_, message) = Edn::parse(&zeros(VALUES_MAX)).expect_err("too many");
    assert!(message.contains("2000000 values"), "{message}");
}
