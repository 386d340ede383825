//! Text in, times out, and back.

use proptest::prelude::*;

use super::*;

fn check(text: &str) -> String {
    parse_loose(text).map_or_else(
        || "none".to_owned(),
        |instant| super::text(&Value::Instant(instant)),
    )
}

#[test]
fn valid_times_are_parsed() {
    for (text, shown) in [
        ("2025-03-09T14:05:06-05:30", "2025-03-09T19:35:06Z"),
        ("2025-03-09T14:05:06,5Z", "2025-03-09T14:05:06.5Z"),
        (
            "2025-03-09T14:05:06.123456789+02",
            "2025-03-09T12:05:06.123456Z",
        ),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.25Z"),
        ("9 Mar 2025 14:05 -0800", "2025-03-09T22:05:00Z"),
        ("Sun, 9 Mar 99 14:05:06 EST", "1999-03-09T19:05:06Z"),
    ] {
        assert_eq!(check(text), shown);
    }
}

#[test]
fn invalid_times_are_rejected() {
    for text in [
        "",
        "T",
        "2025",
        "2025-3-9",
        "2023-02-29",
        "+2025-03-09",
        "2025-03-09T",
        "2025-03-09T14:05",
        "2025-03-09T24:00:00",
        "2025-03-09T14:05:60",
        "2025-03-09T14:05:06.",
        "2025-03-09T14:05:06-00:00",
        "2025-03-09T14:05:06+24:00",
        "2025-03-09T14:05:06+1",
        "2025-03-09T14:05:06z",
        "9999-12-31T23:59:59-01:00",
        "0000-01-01T00:00:00+01:00",
        "2025-03-09T14:05:0é",
        "Sun, 9 March 2025 14:05:06",
        "Sun, 9 Mar 2025 4:05:06",
        "Sun, 9 Mar 2025",
        "Xyz, 9 Mar 2025 14:05:06",
        "Sun, 9 Mar 2025 14:05:06 +0000 x",
        "9é Mar 2025 14:05",
    ] {
        assert_eq!(check(text), "none", "{text}");
    }
}

proptest! {
    #[test]
    fn instants_read_back(micros in -60_000_000_000_000_000i64..250_000_000_000_000_000) {
        let written = text(&Value::Instant(Instant::new(micros, 6)));
        if let Some(read) = parse_loose(&written) {
            prop_assert_eq!(read.micros(), micros);
        } else {
            prop_assert!(written.starts_with('-'), "{}", written);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,30}|[-0-9T:.,Z+ ]{0,32}") {
        let _ = parse_loose(&text);
    }
}
