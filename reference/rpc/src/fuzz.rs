//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use crate::{Document, Frame, Framer, Line, parse};

/// Longest line in bytes.
const CAP: usize = 64;

/// Bytes are cut into the same lines however they arrive, those that the definition of a line gives; what is JSON is the same
/// JSON in compact form; reading a frame never panics, and its id is stable. The first byte chooses the size of chunks.
pub fn frames(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    let whole = defined(stream);
    assert_eq!(lines([stream]), whole, "in one piece");
    let size = usize::from(size).max(1);
    assert_eq!(lines(stream.chunks(size)), whole, "chunks of {size} bytes");
    let (head, tail) = stream.split_at(size.min(stream.len()));
    assert_eq!(lines([head, tail]), whole, "split at {size}");
    for line in whole.into_iter().flatten() {
        frame(&line);
    }
    frame(stream);
}

/// The lines of a stream as the definition has it: what stands before a newline, without the carriage returns at its end, none
/// when that is over the cap.
fn defined(stream: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut lines: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    // What no newline ended is no line.
    lines.pop();
    let trimmed = lines.into_iter().map(|line| {
        let mut line = line.to_vec();
        while line.last() == Some(&b'\r') {
            line.pop();
        }
        line
    });
    trimmed
        .map(|line| (line.len() <= CAP).then_some(line))
        .collect()
}

/// The lines that a stream is cut into when it arrives in `chunks`; none for one that is too long.
fn lines<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Option<Vec<u8>>> {
    let mut framer = Framer::new(CAP);
    let mut seen = Vec::new();
    for chunk in chunks {
        let taken = framer.feed(chunk, |line| {
            seen.push(match line {
                Line::Whole(bytes) => Some(bytes.to_vec()),
                Line::TooLong => None,
            });
            true
        });
        assert!(taken, "nobody asked to stop");
    }
    seen
}

fn frame(bytes: &[u8]) {
    if let Ok(json) = parse(bytes) {
        let document = Document::read(bytes).expect("what was read is read again");
        let indexed = document.json();
        assert!(
            indexed.members().eq(json.members()) && indexed.elements().eq(json.elements()),
            "stepping over large containers leaves out nothing else"
        );
        let compact = json.compact();
        assert_eq!(indexed.to_text().json().compact(), compact);
        let again = parse(compact.as_bytes()).expect("compact JSON is JSON");
        assert_eq!(again.compact(), compact, "compact form is stable");
    }
    if let Ok(frame) = Frame::parse(bytes) {
        let id = frame.request_id();
        if let Some(id) = &id {
            let text = parse(id.as_json().as_bytes()).expect("an id is JSON");
            assert!(crate::Id::from_json(text) == *id, "an id is stable");
        }
        let _ = (frame.method_name(), frame.is_response());
    }
}

#[cfg(test)]
mod tests {
    use super::{defined, frames, lines};

    /// Lines whose length with and without their carriage returns is around the cap and far beyond it, at every split.
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
            let whole = defined(&stream);
            for at in 0..=stream.len() {
                let (head, tail) = stream.split_at(at);
                assert_eq!(lines([head, tail]), whole, "{stream:?} split at {at}");
            }
        }
    }

    #[test]
    fn any_bytes() {
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
}
