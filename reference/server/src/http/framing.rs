//! Judges the framing of requests before the HTTP library sees them: what two parsers could read in two ways ends the connection.
//!
//! A request head passes only when every line ends in CRLF, no line is folded, and the length of its body is said once and in
//! one way; a chunked body only when its chunks follow the grammar to the letter. What doesn't pass is replaced by bytes that the
//! library answers with 400, in its turn among pipelined requests. Knows framing; knows nothing of methods, paths or hosts.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose incoming bytes are judged.
pub struct Framed<S> {
    stream: S,
    judge: Judge,
    /// Bytes read and not yet judged.
    raw: Vec<u8>,
    /// Bytes judged, and how many of them were handed on.
    passed: Vec<u8>,
    handed: usize,
}

/// Longest head, in bytes; the HTTP library's own limits on lines and counts are stricter on what is inside.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest line that opens a chunk: sixteen digits and a short extension.
const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Longest trailer section of a chunked body.
const TRAILER_BYTES_MAX: usize = 8 << 10;
/// Bytes read at once.
const READ_BYTES: usize = 16 << 10;
/// What a refused request is replaced by: no HTTP at all.
const REFUSED: &[u8] = b"\0\r\n\r\n";
/// What stands for a blank that the HTTP library would drop. No credential holds this byte, which is no text.
const VISIBLE_BLANK: u8 = 0xFF;
const _: () =
    assert!(CHUNK_LINE_BYTES_MAX < TRAILER_BYTES_MAX && TRAILER_BYTES_MAX < HEAD_BYTES_MAX);

impl<S> Framed<S> {
    /// Judges what comes from `stream`.
    pub fn new(stream: S) -> Self {
        Framed {
            stream,
            judge: Judge::default(),
            raw: Vec::new(),
            passed: Vec::new(),
            handed: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let waiting = &this.passed[this.handed..];
            if !waiting.is_empty() {
                let count = waiting.len().min(out.remaining());
                out.put_slice(&waiting[..count]);
                this.handed += count;
                if this.handed == this.passed.len() {
                    this.passed.clear();
                    this.handed = 0;
                }
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [MaybeUninit::uninit(); READ_BYTES];
            let mut buffer = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.raw.extend_from_slice(buffer.filled());
            this.judge.take(&mut this.raw, &mut this.passed);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Where in the stream of requests the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In a head, of which nothing was passed yet.
    #[default]
    Head,
    /// In a body or chunk of which this many bytes are to come.
    Data { left: u64, chunked: bool },
    /// At the line that opens a chunk.
    ChunkLine,
    /// At the CRLF behind a chunk.
    ChunkEnd,
    /// In the trailers behind the last chunk.
    Trailers,
    /// Refused; nothing more is passed.
    Over,
}

/// Follows the framing of one connection.
#[derive(Default)]
struct Judge {
    place: Place,
    section: Section,
}

/// A request that is not passed.
struct Refused;

impl Judge {
    /// Moves what is judged from `raw` to `passed`.
    fn take(&mut self, raw: &mut Vec<u8>, passed: &mut Vec<u8>) {
        let (mut at, mut was) = (0, self.place);
        while let Ok(Some(count)) = self.step(&raw[at..]).inspect_err(|Refused| {
            passed.extend_from_slice(REFUSED);
            self.place = Place::Over;
        }) {
            passed.extend_from_slice(&raw[at..at + count]);
            if was == Place::Head {
                let head = passed.len() - count;
                keep_blanks(&mut passed[head..]);
            }
            was = self.place;
            at += count;
        }
        match self.place {
            Place::Over => raw.clear(),
            _ => drop(raw.drain(..at)),
        }
    }

    /// How many bytes may pass, all in one place; `None` when more must come first.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refused> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match self.place {
            Place::Over => Ok(None),
            Place::Head => {
                // A blank line before a request is allowed by the standard, and ignored.
                if bytes.starts_with(b"\r\n") {
                    return Ok(Some(2));
                }
                let Some(end) = self.section.end(bytes, HEAD_BYTES_MAX)? else {
                    return Ok(None);
                };
                self.place = body_of(&bytes[..end])?;
                Ok(Some(end))
            }
            Place::Data { left, chunked } => {
                let count = left.min(bytes.len() as u64);
                self.place = match (left - count, chunked) {
                    (0, false) => Place::Head,
                    (0, true) => Place::ChunkEnd,
                    (left, chunked) => Place::Data { left, chunked },
                };
                Ok(Some(count as usize))
            }
            Place::ChunkLine => {
                let Some(line) = line(bytes, CHUNK_LINE_BYTES_MAX)? else {
                    return Ok(None);
                };
                self.place = match chunk_bytes(line)? {
                    0 => Place::Trailers,
                    left => Place::Data {
                        left,
                        chunked: true,
                    },
                };
                Ok(Some(line.len() + 2))
            }
            Place::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.place = Place::ChunkLine;
                    Ok(Some(2))
                }
                [b'\r'] => Ok(None),
                _ => Err(Refused),
            },
            Place::Trailers => {
                let end = match bytes.starts_with(b"\r\n") {
                    true => Some(2),
                    false => self.section.end(bytes, TRAILER_BYTES_MAX)?,
                };
                let Some(end) = end else { return Ok(None) };
                // A field that changes framing has no business behind the body.
                for line in lines(&bytes[..end]).filter(|line| !line.is_empty()) {
                    if Length::NAMES.contains(&field(line)?.0.as_str()) {
                        return Err(Refused);
                    }
                }
                self.place = Place::Head;
                Ok(Some(end))
            }
        }
    }
}

/// Makes a blank behind a credential visible, so that it counts: a credential with one is another credential.
fn keep_blanks(head: &mut [u8]) {
    const NAME: &[u8] = b"authorization:";
    let mut start = 0;
    while let Some(length) = memchr::memchr(b'\r', &head[start..]) {
        let line = &mut head[start..start + length];
        let is_credential = line
            .get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME));
        let last = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
        if let Some(last) = last.filter(|last| is_credential && *last >= NAME.len()) {
            line[last + 1..].fill(VISIBLE_BLANK);
        }
        start += length + 2;
    }
}

/// How a head says the length of its body.
#[derive(Default)]
struct Length {
    content_length: Option<u64>,
    chunked: bool,
}

impl Length {
    const NAMES: [&str; 2] = ["content-length", "transfer-encoding"];
}

/// What follows a head, when the head is sound.
fn body_of(head: &[u8]) -> Result<Place, Refused> {
    let mut lines = lines(head).filter(|line| !line.is_empty());
    let request = lines.next().ok_or(Refused)?;
    let mut length = Length::default();
    for line in lines {
        let (name, value) = field(line)?;
        match name.as_str() {
            "content-length" => {
                let said = digits(value, 10)?;
                if length.content_length.replace(said).is_some() {
                    return Err(Refused);
                }
            }
            "transfer-encoding" => {
                let chunked = value.eq_ignore_ascii_case(b"chunked");
                if !chunked || length.chunked || !request.ends_with(b" HTTP/1.1") {
                    return Err(Refused);
                }
                length.chunked = true;
            }
            _ => {}
        }
    }
    match (length.content_length, length.chunked) {
        (Some(_), true) => Err(Refused),
        (None, true) => Ok(Place::ChunkLine),
        (None | Some(0), false) => Ok(Place::Head),
        (Some(left), false) => Ok(Place::Data {
            left,
            chunked: false,
        }),
    }
}

/// A header line's name in lower case and its value without the blanks around it. A folded line has no name.
fn field(line: &[u8]) -> Result<(String, &[u8]), Refused> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Refused)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(is_token) {
        return Err(Refused);
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let blank = |byte: &&u8| matches!(**byte, b' ' | b'\t');
    let before = value.iter().take_while(blank).count();
    let after = value[before..].iter().rev().take_while(blank).count();
    Ok((name, &value[before..value.len() - after]))
}

/// The size that a chunk's line says; its extensions mean nothing here.
fn chunk_bytes(line: &[u8]) -> Result<u64, Refused> {
    let end = line.iter().position(|byte| *byte == b';');
    digits(&line[..end.unwrap_or(line.len())], 16)
}

/// A number of digits only. A sign, a blank, a list or a number beyond 64 bits is none.
fn digits(text: &[u8], radix: u32) -> Result<u64, Refused> {
    let text = std::str::from_utf8(text).map_err(|_| Refused)?;
    match text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => u64::from_str_radix(text, radix).map_err(|_| Refused),
        false => Err(Refused),
    }
}

/// How much of a section of lines was looked at. However small the pieces that it comes in, each byte is searched once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Section {
    /// Where the line starts whose end didn't come yet.
    line: usize,
    /// What was searched for that end.
    searched: usize,
}

impl Section {
    /// Where the section that ends with an empty line ends, once it is all there; `bytes` are those of the last time and
    /// more. Each line must end in CRLF, and a carriage return stands nowhere else.
    fn end(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, Refused> {
        loop {
            let found = memchr::memchr3(b'\r', b'\n', b'\0', &bytes[self.searched..]);
            let end = found.map_or(bytes.len(), |at| self.searched + at);
            match &bytes[end..] {
                [] | [b'\r'] if bytes.len() > bytes_max => return Err(Refused),
                [] | [b'\r'] => {
                    self.searched = end;
                    return Ok(None);
                }
                // However it is cut: what is too long is refused.
                _ if end + 2 > bytes_max => return Err(Refused),
                [b'\r', b'\n', ..] if end == self.line => {
                    *self = Section::default();
                    return Ok(Some(end + 2));
                }
                [b'\r', b'\n', ..] => {
                    *self = Section {
                        line: end + 2,
                        searched: end + 2,
                    };
                }
                _ => return Err(Refused),
            }
        }
    }
}

/// The first line without its CRLF, once it is all there.
fn line(bytes: &[u8], bytes_max: usize) -> Result<Option<&[u8]>, Refused> {
    let end = memchr::memchr3(b'\r', b'\n', b'\0', bytes);
    match end.map(|end| (end, &bytes[end..])) {
        None if bytes.len() > bytes_max => Err(Refused),
        None | Some((_, [b'\r'])) => Ok(None),
        Some((end, [b'\r', b'\n', ..])) if end <= bytes_max => Ok(Some(&bytes[..end])),
        Some(_) => Err(Refused),
    }
}

/// The lines of a section whose line ends are judged.
fn lines(section: &[u8]) -> impl Iterator<Item = &[u8]> {
    section
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// What passes of bytes that come in pieces of so many, and whether they were refused.
pub(crate) fn passed(bytes: &[u8], pieces_of: usize) -> (Vec<u8>, bool) {
    let (mut judge, mut raw, mut passed) = (Judge::default(), Vec::new(), Vec::new());
    for piece in bytes.chunks(pieces_of.max(1)) {
        raw.extend_from_slice(piece);
        judge.take(&mut raw, &mut passed);
    }
    let refused = judge.place == Place::Over;
    if refused {
        passed.truncate(passed.len() - REFUSED.len());
    }
    (passed, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes of `text`, and what stands for the rest when it is refused.
    fn all_passed(text: &str, pieces_of: usize) -> String {
        let (mut bytes, refused) = passed(text.as_bytes(), pieces_of);
        bytes.extend(REFUSED.iter().filter(|_| refused));
        String::from_utf8(bytes).unwrap()
    }

    fn check(text: &str, expected: &str) {
        for size in [1, 2, 7, usize::MAX] {
            assert_eq!(
                all_passed(text, size),
                expected,
                "{text:?} in pieces of {size}"
            );
        }
    }

    #[test]
    fn sound_requests_pass_unchanged() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:\t3 \r\n\r\nabc\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n\n\r\0\n\n\n",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn heads_that_two_parsers_read_in_two_ways_are_refused() {
        for head in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 3",
            "Content-Length: 3\r\nContent-Length: 3",
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: 3, 3",
            "Content-Length: +3",
            "Content-Length: -3",
            "Content-Length: 0x3",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Content-Length : 3",
            " Content-Length: 3",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding:\u{b}chunked",
            "A: b\r\n folded",
            "A: b\r\n\tfolded",
            "A: b\nC: d",
            "A: b\rC: d",
            "A: b\0c",
            "no colon",
            ": nameless",
        ] {
            check(
                &format!("POST / HTTP/1.1\r\n{head}\r\n\r\nabc"),
                "\0\r\n\r\n",
            );
        }
        check(
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\0\r\n\r\n",
        );
        check("GET / HTTP/1.1\n\n", "\0\r\n\r\n");
        let long = format!(
            "GET / HTTP/1.1\r\nA: {}\r\n\r\n",
            "x".repeat(HEAD_BYTES_MAX)
        );
        assert_eq!(all_passed(&long, READ_BYTES), "\0\r\n\r\n");
    }

    #[test]
    fn where_a_head_is_cut_does_not_decide_whether_it_is_too_long() {
        for bytes in HEAD_BYTES_MAX - 2..HEAD_BYTES_MAX + 4 {
            let head = "GET / HTTP/1.1\r\nA: ";
            let filling = "x".repeat(bytes - head.len() - 4);
            let head = format!("{head}{filling}\r\n\r\n");
            let expected = if bytes > HEAD_BYTES_MAX {
                "\0\r\n\r\n"
            } else {
                &head
            };
            for pieces_of in [1, HEAD_BYTES_MAX, usize::MAX] {
                assert_eq!(
                    all_passed(&head, pieces_of),
                    expected,
                    "{bytes} in pieces of {pieces_of}"
                );
            }
        }
    }

    #[test]
    fn what_was_searched_is_not_searched_again() {
        let mut section = Section::default();
        let mut head = b"GET / HTTP/1.1\r\nA: ".to_vec();
        assert!(matches!(section.end(&head, HEAD_BYTES_MAX), Ok(None)));
        while head.len() < HEAD_BYTES_MAX - 4 {
            // No head holds this byte: looking at it once more would refuse the head.
            head.fill(0);
            head.push(b'x');
            assert!(matches!(section.end(&head, HEAD_BYTES_MAX), Ok(None)));
            head.fill(0);
            head.push(b'\r');
            assert!(matches!(section.end(&head, HEAD_BYTES_MAX), Ok(None)));
            head.push(b'\n');
            assert!(matches!(section.end(&head, HEAD_BYTES_MAX), Ok(None)));
        }
        head.extend_from_slice(b"\r\n");
        let length = head.len();
        assert!(matches!(section.end(&head, HEAD_BYTES_MAX), Ok(Some(end)) if end == length));
        assert_eq!(section, Section::default());
    }

    #[test]
    fn chunks_follow_the_grammar_or_end_the_connection() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (sound, wrong) in [
            ("", "x\r\nabc\r\n"),
            ("", "3 \r\nabc\r\n"),
            ("", "+3\r\nabc\r\n"),
            ("", "0x3\r\nabc\r\n"),
            ("", "\r\nabc\r\n"),
            ("", "3\nabc\r\n"),
            ("", "11111111111111111\r\n"),
            ("3\r\nabc", "d0\r\n\r\n"),
            ("3\r\nabc", "\n0\r\n\r\n"),
            ("0\r\n", "Content-Length: 5\r\n\r\n"),
            ("0\r\n", "Transfer-Encoding: chunked\r\n\r\n"),
        ] {
            check(
                &format!("{head}{sound}{wrong}GET / HTTP/1.1\r\n\r\n"),
                &format!("{head}{sound}\0\r\n\r\n"),
            );
        }
    }

    #[test]
    fn blanks_behind_a_credential_count() {
        let mut head =
            *b"GET / HTTP/1.1\r\nAUTHORIZATION: Bearer x \t\r\nA: b \r\nAuthorization:  \r\n\r\n";
        keep_blanks(&mut head);
        assert_eq!(
            &head[..],
            b"GET / HTTP/1.1\r\nAUTHORIZATION: Bearer x\xFF\xFF\r\nA: b \r\nAuthorization:  \r\n\r\n"
        );
        // What is no blank stays what it is, for the HTTP library to refuse.
        let mut head = *b"GET / HTTP/1.1\r\nAuthorization: x \x0C\r\n\r\n";
        keep_blanks(&mut head);
        assert_eq!(
            &head[..],
            b"GET / HTTP/1.1\r\nAuthorization: x \x0C\r\n\r\n"
        );
    }

    #[test]
    fn a_refusal_is_the_last_word() {
        check(
            "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\n\nGET /c HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\n\r\n\0\r\n\r\n",
        );
    }
}
