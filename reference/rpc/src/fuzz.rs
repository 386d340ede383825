//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use crate::{Frame, Framer, Line, parse};

/// Longest line in bytes.
const CAP: usize = 64;

/// Bytes are cut into the same lines however they arrive; a line is within the cap; what is JSON is the same JSON in compact
/// form; reading a frame never panics, and its id is stable. The first byte chooses the size of chunks.
pub fn frames(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else {
        return;
    };
    let whole = lines(stream, stream.len());
    let pieces = lines(stream, usize::from(size));
    assert_eq!(whole, pieces, "chunks of {size} bytes");
    for line in whole.into_iter().flatten() {
        frame(&line);
    }
    frame(stream);
}

/// The lines of a stream; none for one that is too long.
fn lines(stream: &[u8], size: usize) -> Vec<Option<Vec<u8>>> {
    let mut framer = Framer::new(CAP);
    let mut seen = Vec::new();
    for chunk in stream.chunks(size.max(1)) {
        let taken = framer.feed(chunk, |line| {
            seen.push(match line {
                Line::Whole(bytes) => {
                    assert!(bytes.len() <= CAP, "a line is within the cap");
                    assert!(!bytes.contains(&b'\n'), "a line is one line");
                    Some(bytes.to_vec())
                }
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
        let compact = json.compact();
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
    use super::frames;

    #[test]
    fn any_bytes() {
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
            let mut data = vec![random.u8(..9)];
            for _ in 0..random.usize(..24) {
                data.extend_from_slice(words[random.usize(..words.len())]);
            }
            frames(&data);
        }
    }
}
