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
mod tests;
