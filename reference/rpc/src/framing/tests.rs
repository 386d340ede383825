//! Chunks in, lines out, however the chunks are split.

use super::*;

fn lines(cap: usize, chunks: &[&str]) -> Vec<String> {
    let mut framer = Framer::new(cap);
    let mut seen = Vec::new();
    for chunk in chunks {
        framer.feed(chunk.as_bytes(), |line| {
            seen.push(match line {
                Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong => "<too long>".into(),
            });
            true
        });
    }
    seen
}

#[test]
fn lines_span_any_number_of_chunks() {
    assert_eq!(
        lines(9, &["a\nb\r\n", "c", "d\n", "\n", "e"]),
        ["a", "b", "cd", ""]
    );
    assert_eq!(lines(9, &["x\r\r\n"]), ["x"]);
}

#[test]
fn over_long_line_is_reported_once_at_the_exact_cap() {
    assert_eq!(
        lines(3, &["abc\nabcd\nabc\r\nx\n"]),
        ["abc", "<too long>", "abc", "x"]
    );
    let long = "y".repeat(1000);
    assert_eq!(
        lines(3, &[&long, &long, "\n", "ok\n"]),
        ["<too long>", "ok"]
    );
    assert!(lines(3, &[&long]).is_empty());
}

#[test]
fn carriage_returns_before_the_newline_are_not_counted() {
    for returns in [1, 63, 64, 65, 100, 1000] {
        let line = format!("abc{}", "\r".repeat(returns));
        for at in 0..=line.len() {
            let parts = [&line[..at], &line[at..], "\nx\n"];
            assert_eq!(lines(3, &parts), ["abc", "x"], "{returns} split at {at}");
            let parts = [&line[..at], &line[at..], "d\nx\n"];
            assert_eq!(lines(3, &parts), ["<too long>", "x"], "{returns} at {at}");
        }
    }
}

#[test]
fn no_line_is_delivered_after_a_stop() {
    let mut framer = Framer::new(10);
    let mut seen = 0;
    let all = framer.feed(b"a\nb\nc\n", |_| {
        seen += 1;
        seen < 2
    });
    assert_eq!((all, seen), (false, 2));
}
