//! Server-Sent SseParser: takes bytes, gives the data of events. Does no I/O; ignores all fields except
//! `data`.

/// Splits a stream into events at blank lines; line ends are LF, CRLF or CR.
#[derive(Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    /// Past the first line, which may begin with a byte order mark.
    begun: bool,
}

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl SseParser {
    /// Takes bytes; passes the data of every completed event to `each`.
    pub fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        for &byte in chunk {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    self.end_line(&mut each);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
        }
    }

    /// The stream ended; an event without its blank line still counts.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.end_line(&mut each);
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        if !std::mem::replace(&mut self.begun, true) && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        if self.line.is_empty() {
            if self.has_data {
                each(&self.data);
            }
            self.data.clear();
            self.has_data = false;
            return;
        }
        let line = std::mem::take(&mut self.line);
        let value = match line.iter().position(|&byte| byte == b':') {
            Some(at) if &line[..at] == b"data" => Some(&line[at + 1..]),
            None if line == b"data" => Some(&line[..0]),
            _ => None,
        };
        if let Some(value) = value {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data
                .extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str]) -> Vec<String> {
        let mut events = SseParser::default();
        let mut seen = Vec::new();
        let mut take = |data: &[u8]| seen.push(String::from_utf8_lossy(data).into_owned());
        for chunk in chunks {
            events.feed(chunk.as_bytes(), &mut take);
        }
        events.finish(&mut take);
        seen
    }

    #[test]
    fn events() {
        assert_eq!(check(&["data: a\n\ndata:b\r", "\n\r\n"]), ["a", "b"]);
        assert_eq!(
            check(&[": hi\nevent: message\nid: 1\ndata: {\ndata: }\n\n"]),
            ["{\n}"]
        );
        assert_eq!(check(&["da", "ta:  x", "\r\rdata"]), [" x", ""]);
        assert_eq!(
            check(&["\u{feff}data: a\n\n\u{feff}data: b\n\n"]),
            ["a"],
            "one mark at the very start is passed over"
        );
        assert!(check(&["event: ping\n\n", "retry: 5\n\n"]).is_empty());
    }
}
