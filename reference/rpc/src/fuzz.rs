//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use crate::{Document, Frame, Framer, Line, parse};

/// Maximum bytes of a line.
const CAP: usize = 64;

/// Bytes give the same lines however they are split, equal to those of the definition; valid JSON stays the same JSON in
/// compact form; reading a frame never panics, and its id is stable. The first byte chooses the chunk size.
pub fn frames(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    let whole = expected_lines(stream);
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

/// The lines of a stream by definition: the text before each newline without trailing carriage returns; `None` when that is
/// over the limit.
fn expected_lines(stream: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut lines: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
    // Text after the last newline is not a line.
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

/// The lines of a stream that arrives in `chunks`; `None` for one that is too long.
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
mod tests;
