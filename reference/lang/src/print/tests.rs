//! Values in, text out; what is truncated, and where.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

#[test]
fn floats_print_shortest_digits() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (1e15, "1000000000000000.0"),
        (9_007_199_254_740_992.0, "9007199254740992.0"),
        (1e16, "1.0e16"),
        (12_345_678_901_234_567_000.0, "1.2345678901234567e19"),
        (1e100, "1.0e100"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-123_456_789.123, "-123456789.123"),
        (0.01, "0.01"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1.0e-5"),
        (0.000_123_45, "1.2345e-4"),
        (-0.0015, "-0.0015"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5.0e-324"),
        (f64::MAX, "1.7976931348623157e308"),
    ] {
        assert_eq!(float(value), text);
    }
}

#[test]
fn strings_are_escaped() {
    let text = Value::from("a\"\\\n\u{1}\u{7f}\u{85}\u{a0}é");
    assert_eq!(
        readable(&text),
        "\"a\\\"\\\\\\n\\u0001\\u007F\\u0085\u{a0}é\""
    );
}

/// The slices and chunks of a long string may end anywhere, with characters to escape on both sides.
#[test]
fn escapes_at_slice_ends_are_kept() {
    for escaped in ["\u{85}", "\u{1}", "\"", "é\n", "😀\u{9f}\u{80}"] {
        for before in (4080..4100).chain(8180..8196) {
            let text = "a".repeat(before) + &escaped.repeat(3) + "b";
            let one = readable(&Value::from(escaped));
            let whole = "a".repeat(before) + &one[1..one.len() - 1].repeat(3) + "b";
            assert_eq!(readable(&text.into()), format!("\"{whole}\""));
        }
    }
}

#[test]
fn large_integers_show_their_leading_digits() {
    let value = Value::integer(BigInt::from(7) << 1_000_000);
    let shown = preview(&value, 50, 20);
    assert_eq!(
        shown,
        "69304593605071287754 ... (truncated at 20 chars; use println on specific fields)"
    );
    assert_eq!(
        write_text(
            &mut Sink::new(String::new(), usize::MAX, &Unwatched),
            &Value::integer(BigInt::from(1) << 3_000_000),
        ),
        Err(SinkError::Limit(Limit::Time))
    );
}

#[test]
fn long_lines_are_truncated() {
    assert_eq!(line("abc".into(), 3), "abc");
    assert_eq!(line("ae\u{301}cd".into(), 2), "ae\u{301}... (2/4 chars)");
    assert_eq!(line("e\u{301}".into(), 1), "e\u{301}");
}

proptest! {
    #[test]
    fn floats_read_back(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
        let text = float(value);
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{}", text);
        prop_assert!(text.contains('.'));
    }

    #[test]
    fn floats_of_few_digits_read_back(digits in -1_000_000i64..1_000_000, scale in -30i32..30) {
        let value: f64 = format!("{digits}e{scale}").parse().unwrap();
        let text = float(value);
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{}", text);
    }

    #[test]
    fn bounded_output_keeps_its_limit(text in "\\PC{0,40}", bytes_max in 0usize..60) {
        let value = Value::vector(vec![text.as_str().into(), Value::Int(7)]);
        let mut out = Sink::new(String::new(), bytes_max, &Unwatched);
        let written = write_readable(&mut out, &value);
        let (out, whole) = (out.into_text(), readable(&value));
        prop_assert!(out.len() <= bytes_max && whole.starts_with(&out));
        match written {
            Ok(()) => prop_assert_eq!(out, whole),
            Err(over) => prop_assert!(over == SinkError::Bytes && whole.len() > bytes_max),
        }
    }
}
