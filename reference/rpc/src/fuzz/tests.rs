//! Runs the check on seeded input.

use super::{expected_lines, frames, lines};

/// Lines whose length with and without carriage returns is around the limit and far beyond it, at every split.
#[test]
fn every_split_gives_the_same_lines() {
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..300 {
        let mut stream = Vec::new();
        for _ in 0..random.usize(1..5) {
            let byte = *random.choice(b"ab\r\n ").expect("there are some");
            let count = match random.u8(..4) {
                0 => random.usize(60..70),
                1 => random.usize(100..160),
                _ => random.usize(..8),
            };
            stream.extend(std::iter::repeat_n(byte, count));
        }
        stream.push(b'\n');
        let whole = expected_lines(&stream);
        for at in 0..=stream.len() {
            let (head, tail) = stream.split_at(at);
            assert_eq!(lines([head, tail]), whole, "{stream:?} split at {at}");
        }
    }
}

#[test]
fn arbitrary_bytes_keep_the_promises() {
    let returns = b"\r".repeat(100);
    let mut random = fastrand::Rng::with_seed(7);
    let words: &[&[u8]] = &[
        b"{\"jsonrpc\":\"2.0\",",
        b"\"id\":",
        b"\"method\":\"ping\"",
        b"}",
        b"{",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\r\n",
        b"\r",
        &returns,
        b"1e9",
        b"-0",
        b"\"\\ud83d\\ude00\"",
        b"\"\\u0041\"",
        b"null",
        b" ",
        b"\xff",
        b"\"",
        b"\\",
        b"123456789012345678901234567890",
    ];
    for _ in 0..5_000 {
        let mut data = vec![random.u8(..200)];
        for _ in 0..random.usize(..24) {
            data.extend_from_slice(words[random.usize(..words.len())]);
        }
        frames(&data);
    }
}
