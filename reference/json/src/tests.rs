//! Text is scanned, navigated and written again.

use super::*;

fn check(input: &str) -> String {
    match parse(input.as_bytes()) {
        Ok(json) => json.compact().into(),
        Err(error) => format!("refused at {}", error.offset),
    }
}

#[test]
fn values_are_compacted() {
    for (input, output) in [
        (
            " { \"a\" : [ 1 , 2.50 , -0 , 1e3 ] , \"b\" : { } } ",
            r#"{"a":[1,2.5,0,1000.0],"b":{}}"#,
        ),
        ("[]", "[]"),
        ("[[],[[]],{}]", "[[],[[]],{}]"),
        (
            r#"{"a":1,"a":2,"\u0061":3,"b":{"c":1,"c":[2]}}"#,
            r#"{"a":1,"b":{"c":1}}"#,
        ),
        (r#""\u00e9\/\ud83d\ude00\u000b""#, "\"é/😀\\u000B\""),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("1e300", "1.0e300"),
        ("null", "null"),
        ("\"\u{7f}\"", "\"\u{7f}\""),
    ] {
        assert_eq!(check(input), output, "{input}");
    }
}

#[test]
fn invalid_json_is_rejected() {
    for input in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "'a'",
        "NaN",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e999",
        "{} {}",
        "[1 2]",
        "{\"a\" 1}",
        "{1:2}",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"a\u{1}\"",
        "\u{feff}{}",
        "tru",
        "nulll",
        "]",
        "{]",
        "[}",
        "\"",
        "\"\\",
        "\"\\u12\"",
        "\0",
    ] {
        assert!(
            check(input).starts_with("refused"),
            "{input:?} gave {}",
            check(input)
        );
    }
    assert!(parse(b"\"\xE9\"").is_err());
}

#[test]
fn depth_is_limited_only_by_the_text() {
    let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    assert_eq!(check(&deep), deep);
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn first_of_duplicate_members_is_kept() {
    let members: Vec<String> = (0..100).map(|n| format!("\"k{}\":{n}", n % 50)).collect();
    let object = format!("{{{}}}", members.join(","));
    let kept: Vec<String> = (0..50).map(|n| format!("\"k{n}\":{n}")).collect();
    assert_eq!(check(&object), format!("{{{}}}", kept.join(",")));
}

#[test]
fn first_duplicate_is_kept_among_thousands_of_members() {
    // More names than one table holds.
    const NAMES: usize = 20_000;
    let member = |n: usize, of: usize| format!("\"k{}\":{of}", n * 7_919 % NAMES);
    let members: Vec<String> = (0..2 * NAMES).map(|n| member(n, n / NAMES)).collect();
    let object = format!("{{{}}}", members.join(","));
    let kept: Vec<String> = (0..NAMES).map(|n| member(n, 0)).collect();
    assert_eq!(check(&object), format!("{{{}}}", kept.join(",")));
}

#[test]
fn repeated_names_are_dropped_at_every_depth() {
    // Up to twelve names are compared one by one, more by their hashes; those of an outer object go on after an inner one.
    for names in [1, 11, 12, 13, 14, 40] {
        let members = |inner: &str, of: usize| {
            let member = |n: usize| match n == names / 2 {
                true => format!("\"k{n}\":{inner}"),
                false => format!("\"k{n}\":{of}"),
            };
            (0..names).map(member).collect::<Vec<_>>().join(",")
        };
        let once = (0..3).fold("0".to_owned(), |inner, _| {
            format!("{{{}}}", members(&inner, 0))
        });
        let twice = (0..3).fold("0".to_owned(), |inner, _| {
            format!("{{{},{}}}", members(&inner, 0), members("[1]", 1))
        });
        assert_eq!(check(&twice), once, "{names}");
    }
    // A name that another one begins with, or that differs in an escape only, is another name.
    let apart = r#"{"a":1,"a\"":2,"a\"b":3,"":4,"a\\":5,"A":6}"#;
    assert_eq!(check(apart), apart);
}

#[test]
fn text_longer_than_a_limit_is_counted_and_not_held() {
    let nested =
        |depth: usize| format!("{}1{}", "{\"a\":1,\"n\":".repeat(depth), "}".repeat(depth));
    for text in [
        r#"[ 1, "\u0061b", {"a":{"b":[]},"c":[2.50]}, [[["x"]]] ]"#.to_owned(),
        nested(300),
        format!("[{}]", vec![r#"{"k":[1,{}]}"#; 400].join(", ")),
        format!("\"{}\"", "x".repeat(5_000)),
        "12345".to_owned(),
    ] {
        let json = parse(text.as_bytes()).unwrap();
        let whole = json.compact();
        for bytes_max in [0, 1, 2, whole.len() / 2, whole.len() - 1] {
            assert_eq!(
                json.compact_within(bytes_max, |_| {}),
                Err(whole.len()),
                "{bytes_max}: {text:.60}"
            );
        }
        for bytes_max in [whole.len(), whole.len() + 1, usize::MAX] {
            assert_eq!(json.compact_within(bytes_max, |_| {}), Ok(whole.clone()));
        }
    }
}

#[test]
fn reading_and_writing_check_for_a_stop() {
    let rows = format!("[{}]", vec!["{\"a\":[1,\"b\\n\"]}"; 20_000].join(", "));
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    for text in [rows, deep] {
        // Each interval between two calls takes microseconds at most.
        let mut asked = 0;
        let mut count = || -> Result<(), ()> {
            asked += 1;
            Ok(())
        };
        let json = parse_while(text.as_bytes(), &mut count).unwrap();
        let compact = json.compact_while(&mut count).unwrap();
        assert!(asked > text.len() / 10_000, "{asked} questions");
        assert_eq!(compact, json.compact());
        let never = || Err("no");
        assert_eq!(
            parse_while(text.as_bytes(), never),
            Err(ParseError::Stopped("no"))
        );
        assert_eq!(json.compact_while(never), Err("no"));
    }
    let malformed = parse_while(b"[1,]", || Ok::<(), ()>(()));
    assert_eq!(
        malformed,
        Err(ParseError::Malformed(Malformed { offset: 3 }))
    );
}

#[test]
fn values_are_navigated_in_place() {
    let json = parse(br#"{"a":{"b":[1,"x\ny",true]},"a":null,"n":9007199254740993}"#).unwrap();
    let list = json.get("a").and_then(|a| a.get("b")).unwrap();
    let parts: Vec<_> = list.elements().collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[1].as_str().unwrap(), "x\ny");
    assert_eq!(parts[2].as_bool(), Some(true));
    assert_eq!(json.get("n").unwrap().as_i64(), Some(9_007_199_254_740_993));
    assert_eq!(json.get("zz"), None);
    assert_eq!(list.get("a"), None);
    assert_eq!(json.members().count(), 3);
}

/// A name is compared in its decoded form, not as it is written.
#[test]
fn names_are_compared_unescaped() {
    let json = parse(br#"{"\n":1,"\u006e":2,"n":3}"#).unwrap();
    let found = |name: &str| json.get(name).and_then(Json::as_i64);
    assert_eq!([found("\n"), found("n")], [Some(1), Some(2)]);
    assert_eq!([found("\\n"), found("\\u006e"), found("")], [None; 3]);
}

#[test]
fn large_containers_are_skipped() {
    let rows = |count: usize| format!("[{}]", vec!["{\"a\":[1,\"]}\"]}"; count].join(","));
    let deep = "[".repeat(2_000) + &"]".repeat(2_000);
    let text = format!(
        " {{\"small\":{{}},\"large\": {} ,\"other\":{{\"rows\":{},\"n\":7}},\"deep\":{deep},\"end\":true}} ",
        rows(100),
        rows(200)
    );
    let document = Document::read(text.as_bytes()).unwrap();
    let (indexed, plain) = (document.json(), parse(text.as_bytes()).unwrap());
    let kept = indexed.to_text();
    for json in [indexed, kept.json()] {
        assert!(json.members().eq(plain.members()));
        let other = json.get("other").unwrap();
        assert_eq!(other.get("n").and_then(Json::as_i64), Some(7));
        assert_eq!(other.get("rows").unwrap().elements().count(), 200);
        let copy = other.to_text();
        assert_eq!(copy.json().get("n").and_then(Json::as_i64), Some(7));
        assert_eq!(copy.json().compact(), other.compact());
        assert_eq!(json.compact(), plain.compact());
    }
}

#[test]
fn floats_are_written_the_same_everywhere() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e15, "1000000000000000.0"),
        (1e16, "1.0e16"),
        (0.1, "0.1"),
        (1e-5, "1.0e-5"),
        (-2.5e-300, "-2.5e-300"),
    ] {
        let mut out = Vec::new();
        write_float(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
