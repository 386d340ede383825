//! Lines from a child's output with a size limit that applies before decoding. Keeps the head and the tail of an over-long
//! line, enough to find out which request it answers. Does no I/O.

/// Bytes kept from the end of an over-long line to search for its id.
const TAIL_BYTES: usize = 256;

/// Splits a byte stream into lines. The limit can change between lines, because each call has its own.
#[derive(Default)]
pub(super) struct LineSplitter {
    held: Vec<u8>,
    /// The over-long line whose rest is being discarded.
    cut: Option<OverlongLine>,
}

#[derive(Debug, Clone)]
pub(super) struct OverlongLine {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub bytes: u64,
    /// False at the cut, true at the end of the line.
    pub ended: bool,
    /// Whether its request was already failed at the cut.
    pub settled: bool,
}

pub(super) enum LineEvent<'a> {
    Line(&'a [u8]),
    OverlongLine(&'a OverlongLine),
}

impl LineSplitter {
    /// Bytes of an over-long line that has not ended yet; otherwise 0.
    pub fn overlong_bytes(&self) -> u64 {
        self.cut.as_ref().map_or(0, |cut| cut.bytes)
    }

    /// Takes bytes and passes every complete line to `each`; an over-long line twice, at the cut and at its end. `each`
    /// returns whether a call was answered.
    pub fn feed(
        &mut self,
        mut chunk: &[u8],
        cap: usize,
        mut each: impl FnMut(LineEvent<'_>) -> bool,
    ) {
        while !chunk.is_empty() {
            let newline = chunk.iter().position(|&byte| byte == b'\n');
            let (part, rest) = match newline {
                Some(at) => (&chunk[..at], &chunk[at + 1..]),
                None => (chunk, &chunk[chunk.len()..]),
            };
            chunk = rest;
            if let Some(cut) = &mut self.cut {
                cut.extend(part);
                if newline.is_some() {
                    cut.ended = true;
                    each(LineEvent::OverlongLine(cut));
                    self.cut = None;
                }
                continue;
            }
            if self.held.len() + part.len() > cap {
                // The limit may have dropped below what is already held.
                let room = (cap + 1).saturating_sub(self.held.len());
                let mut cut = OverlongLine {
                    head: std::mem::take(&mut self.held),
                    tail: Vec::new(),
                    bytes: 0,
                    ended: false,
                    settled: false,
                };
                cut.head.extend_from_slice(&part[..room.min(part.len())]);
                cut.bytes = cut.head.len() as u64;
                cut.extend(&part[room.min(part.len())..]);
                cut.settled = each(LineEvent::OverlongLine(&cut));
                // Only the start can hold an id; keeping more would waste memory.
                cut.head.truncate(TAIL_BYTES);
                cut.head.shrink_to_fit();
                if newline.is_some() {
                    cut.ended = true;
                    each(LineEvent::OverlongLine(&cut));
                } else {
                    self.cut = Some(cut);
                }
                continue;
            }
            if newline.is_none() {
                self.held.extend_from_slice(part);
            } else if self.held.is_empty() {
                each(LineEvent::Line(trim(part)));
            } else {
                self.held.extend_from_slice(part);
                each(LineEvent::Line(trim(&self.held)));
                self.held.clear();
                self.held.shrink_to(64 * 1024);
            }
        }
    }
}

impl OverlongLine {
    fn extend(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.tail
            .extend_from_slice(&part[part.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
    }

    /// The integer id of the message, if it is a member near the start or the end.
    pub fn id(&self) -> Option<u64> {
        let start = &self.head[..self.head.len().min(TAIL_BYTES)];
        id_at_start(start).or_else(|| {
            if self.ended {
                id_at_end(&self.tail)
            } else {
                None
            }
        })
    }
}

fn trim(line: &[u8]) -> &[u8] {
    line.trim_ascii()
}

/// `{"id":7,…` or `{"jsonrpc":"2.0","id":7,…`: members before any nested value.
pub(super) fn id_at_start(line: &[u8]) -> Option<u64> {
    let head = &line[..line.len().min(TAIL_BYTES)];
    let text: String = head
        .iter()
        .map(|&b| char::from(b))
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    let text = text.strip_prefix('{')?;
    let text = text.strip_prefix("\"jsonrpc\":\"2.0\",").unwrap_or(text);
    let digits = text.strip_prefix("\"id\":")?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok()
}

/// `…,"id":7}` or `…,"id":7,"jsonrpc":"2.0"}` after the last nested value.
fn id_at_end(tail: &[u8]) -> Option<u64> {
    let text: String = tail
        .iter()
        .map(|&b| char::from(b))
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    let text = text.strip_suffix('}')?;
    let text = text.strip_suffix(",\"jsonrpc\":\"2.0\"").unwrap_or(text);
    let (before, digits) = text.rsplit_once("\"id\":")?;
    (before.ends_with(',') && !digits.is_empty())
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cap: usize, chunks: &[&str]) -> Vec<String> {
        let chunks: Vec<_> = chunks.iter().map(|chunk| (cap, *chunk)).collect();
        check_caps(&chunks)
    }

    /// Like [`check`], with a limit for each chunk.
    fn check_caps(chunks: &[(usize, &str)]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut seen = Vec::new();
        for (cap, chunk) in chunks {
            lines.feed(chunk.as_bytes(), *cap, |event| {
                seen.push(match event {
                    LineEvent::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    LineEvent::OverlongLine(cut) => {
                        format!("cut {} id {:?} ended {}", cut.bytes, cut.id(), cut.ended)
                    }
                });
                false
            });
        }
        seen
    }

    #[test]
    fn lines_and_cuts() {
        assert_eq!(check(9, &["a\nb\r", "\nc", "d\n\n"]), ["a", "b", "cd", ""]);
        let long = r#"{"jsonrpc":"2.0","id":12,"result":{"x":"yyyyyyyyyyyyyyyyyyyyyyy"}}"#;
        assert_eq!(
            check(30, &[long, "\nok\n"]),
            [
                "cut 66 id Some(12) ended false",
                "cut 66 id Some(12) ended true",
                "ok"
            ]
        );
        let last = r#"{"result":{"x":"yyyyyyyyyyyyyyyyyyyyyyyyyy"},"jsonrpc":"2.0","id":3}"#;
        assert_eq!(
            check(20, &[&last[..30], &last[30..], "\n"]),
            ["cut 30 id None ended false", "cut 68 id Some(3) ended true"]
        );
    }

    /// The call with the higher limit may have ended before the rest of its answer arrives.
    #[test]
    fn limit_may_drop_below_buffered_bytes() {
        let answer = r#"{"id":4,"result":"yyyy"#;
        assert_eq!(
            check_caps(&[(99, answer), (9, "yyyy\"}\nok\n")]),
            [
                "cut 28 id Some(4) ended false",
                "cut 28 id Some(4) ended true",
                "ok"
            ]
        );
    }
}
