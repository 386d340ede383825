//! HTTP/1.1 by hand over a bare socket: requests are sent byte for byte, so that they may be malformed.
//! Knows nothing of cases, and of MCP only which event of a stream is an answer. Plain TCP only.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fault::Fault;
use super::http::{AFTER_ANSWER, BODY_BYTES_MAX};
use super::{frame, sse};
use crate::observed::HttpMessage;

/// Largest response head (status line and headers) that is read, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A socket to an HTTP server. It stays open between exchanges as long as the server keeps it open.
#[derive(Debug)]
pub struct RawConnection {
    reader: OwnedReadHalf,
    /// `None` while a response is awaited during which the sending side may be closed; dropping it closes that side.
    writer: Option<OwnedWriteHalf>,
    address: String,
    read: Vec<u8>,
    /// When to stop reading a stream whose answer has arrived, unless the server ends it before.
    give_up_at: Option<Instant>,
    /// Whether a stream was abandoned, so that more of it may arrive at any time.
    has_open_stream: bool,
    /// Whether the last request was of HTTP/1.0, whose clients must get no interim response (RFC 9110, 15.2).
    is_http_1_0: bool,
}

impl RawConnection {
    /// Connects to `address`, a `host:port`.
    ///
    /// # Errors
    /// When nothing listens there, or the connection takes longer than `patience`.
    pub async fn open(address: &str, patience: Duration) -> Result<Self, Fault> {
        let connected = tokio::time::timeout(patience, TcpStream::connect(address)).await;
        let failed = |message: String| Fault::Http { message };
        let stream = connected
            .map_err(|_| Fault::NoReply { waited: patience })?
            .map_err(|error| failed(format!("{address}: {error}")))?;
        stream
            .set_nodelay(true)
            .map_err(|error| failed(format!("{address}: {error}")))?;
        let (reader, writer) = stream.into_split();
        Ok(Self {
            reader,
            writer: Some(writer),
            address: address.to_owned(),
            read: Vec::new(),
            give_up_at: None,
            has_open_stream: false,
            is_http_1_0: false,
        })
    }

    /// Writes `bytes` unchanged.
    ///
    /// # Errors
    /// When the server does not accept them within `patience`.
    pub async fn send(&mut self, bytes: &[u8], patience: Duration) -> Result<(), Fault> {
        let line_end = bytes.windows(2).position(|pair| pair == b"\r\n");
        match line_end.map(|end| &bytes[..end]) {
            Some(line) if line.ends_with(b" HTTP/1.0") => self.is_http_1_0 = true,
            Some(line) if line.ends_with(b" HTTP/1.1") => self.is_http_1_0 = false,
            // More of the same request, or one that is malformed.
            _ => {}
        }
        let written = tokio::time::timeout(patience, async {
            let Some(writer) = &mut self.writer else {
                return Err(std::io::ErrorKind::NotConnected.into());
            };
            writer.write_all(bytes).await?;
            writer.flush().await
        });
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.failed(&error.to_string())),
            Err(_) => Err(Fault::InputStalled { waited: patience }),
        }
    }

    /// Reads one response. With `to_head` it answers a HEAD request, and so has no body.
    ///
    /// # Errors
    /// When no complete response arrives within `patience`, or what arrives is not HTTP/1.x.
    pub async fn receive(
        &mut self,
        to_head: bool,
        patience: Duration,
    ) -> Result<HttpMessage, Fault> {
        let deadline = Instant::now() + patience;
        let received = tokio::time::timeout_at(deadline, self.reply(to_head)).await;
        received.unwrap_or(Err(Fault::NoReply { waited: patience }))
    }

    /// Reads one response like [`Self::receive`], and closes the sending side when `half_close` is signalled.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub async fn receive_and_half_close(
        &mut self,
        to_head: bool,
        patience: Duration,
        half_close: oneshot::Receiver<()>,
    ) -> Result<HttpMessage, Fault> {
        let mut writer = self.writer.take();
        let closing = async {
            if half_close.await.is_ok()
                && let Some(writer) = &mut writer
            {
                // If the connection is gone, reading the response reports it.
                let _gone = writer.shutdown().await;
            }
            std::future::pending::<std::convert::Infallible>().await
        };
        let answer = tokio::select! {
            answer = self.receive(to_head, patience) => answer,
            never = closing => match never {},
        };
        self.writer = writer;
        answer
    }

    /// Whether a stream continues after the last response.
    pub fn has_open_stream(&self) -> bool {
        self.has_open_stream
    }

    /// What else arrives within `patience`, or before the server closes the connection: only the first bytes.
    pub async fn read_within(&mut self, patience: Duration) -> Vec<u8> {
        while self.read.is_empty() {
            match tokio::time::timeout(patience, self.read_more()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false) | Err(_)) | Err(_) => break,
            }
        }
        std::mem::take(&mut self.read)
    }

    async fn reply(&mut self, to_head: bool) -> Result<HttpMessage, Fault> {
        loop {
            let head = self.read_until(b"\r\n\r\n", HEAD_BYTES_MAX).await?;
            let (status, headers) = parse_head(&head).ok_or_else(|| Fault::Malformed {
                expected: "an HTTP/1.1 status line and headers".to_owned(),
                line: head.clone(),
            })?;
            // 1xx responses precede the final one.
            if (100..200).contains(&status) {
                if self.is_http_1_0 {
                    return Err(self.failed(&format!(
                        "an interim response {status} to a request of HTTP/1.0, whose clients know none"
                    )));
                }
                continue;
            }
            let mut reply = HttpMessage {
                status,
                headers,
                body: Vec::new(),
            };
            if !to_head && status != 204 && status != 304 {
                let mut body = Vec::new();
                let ended = self.body(&reply, &mut body).await;
                match self.give_up_at.take() {
                    // The server should end the stream, but one that does not has answered nevertheless.
                    Some(at) if at <= Instant::now() => {
                        self.has_open_stream = true;
                        self.read.clear();
                    }
                    _ => ended?,
                }
                reply.body = body;
            }
            return Ok(reply);
        }
    }

    async fn body(&mut self, reply: &HttpMessage, body: &mut Vec<u8>) -> Result<(), Fault> {
        let is_stream = header(reply, "content-type").is_some_and(sse::is_stream);
        let chunked = header(reply, "transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let mut lengths = values(reply, "content-length");
        let length = lengths.next();
        // RFC 9112, 6.2 and 6.3: whoever reads such an answer may take its end to be somewhere else.
        if length.is_some() && (chunked || lengths.any(|other| Some(other) != length)) {
            return Err(self.failed("the answer states its length in two ways"));
        }
        if chunked {
            return self.chunks(is_stream, body).await;
        }
        if let Some(length) = length {
            let length = number(length, 10).filter(|length| *length <= BODY_BYTES_MAX);
            let Some(length) = length else {
                return Err(self.failed("the answer's content-length is not usable"));
            };
            *body = self.read_exact(length).await?;
            return Ok(());
        }
        let mut looked_at = 0;
        loop {
            let before = body.len();
            body.append(&mut self.read);
            if body.len() > BODY_BYTES_MAX {
                return Err(self.failed("the answer's body does not end"));
            }
            if is_stream {
                self.watch_for_answer(body, before, &mut looked_at);
            }
            if !self.read_more().await? {
                return Ok(());
            }
        }
    }

    /// Sets the time to abandon a stream once one of its events is an answer: `body` is what has arrived, `before` its previous length.
    fn watch_for_answer(&mut self, body: &[u8], before: usize, looked_at: &mut usize) {
        // The blank line that ends an event may be split across two reads.
        let fresh = before.saturating_sub(3).max(*looked_at);
        if self.give_up_at.is_none()
            && let Some(end) = sse::end_of_events(&body[fresh..])
        {
            let events = String::from_utf8_lossy(&body[*looked_at..fresh + end]);
            *looked_at = fresh + end;
            let answers = sse::events(&events)
                .iter()
                .any(|event| frame::is_response(event));
            self.give_up_at = answers.then(|| Instant::now() + AFTER_ANSWER);
        }
    }

    async fn chunks(&mut self, is_stream: bool, body: &mut Vec<u8>) -> Result<(), Fault> {
        let mut looked_at = 0;
        loop {
            let line = self.read_until(b"\r\n", HEAD_BYTES_MAX).await?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let room = BODY_BYTES_MAX - body.len();
            let length = number(digits, 16).filter(|length| *length <= room);
            let Some(length) = length else {
                return Err(self.failed("the answer's chunk size is not usable"));
            };
            let before = body.len();
            body.extend(self.read_exact(length).await?);
            if is_stream {
                self.watch_for_answer(body, before, &mut looked_at);
            }
            if length == 0 {
                // Trailers, up to the empty line.
                while !self
                    .read_until(b"\r\n", HEAD_BYTES_MAX)
                    .await?
                    .trim()
                    .is_empty()
                {}
                return Ok(());
            }
            if self.read_exact(2).await? != b"\r\n" {
                return Err(self.failed("no line ends behind a chunk of the answer"));
            }
        }
    }

    async fn read_until(&mut self, end: &[u8], max: usize) -> Result<String, Fault> {
        loop {
            let found = self
                .read
                .windows(end.len())
                .position(|window| window == end);
            if let Some(at) = found {
                let rest = self.read.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.read, rest);
                return Ok(String::from_utf8_lossy(&taken).into_owned());
            }
            if self.read.len() > max {
                return Err(self.failed("the answer's head does not end"));
            }
            if !self.read_more().await? {
                return Err(self.dropped());
            }
        }
    }

    async fn read_exact(&mut self, length: usize) -> Result<Vec<u8>, Fault> {
        while self.read.len() < length {
            if !self.read_more().await? {
                return Err(self.dropped());
            }
        }
        let rest = self.read.split_off(length);
        Ok(std::mem::replace(&mut self.read, rest))
    }

    async fn read_more(&mut self) -> Result<bool, Fault> {
        let mut chunk = [0; 16 << 10];
        let read = self.reader.read(&mut chunk);
        let read = match self.give_up_at {
            None => read.await,
            Some(at) => match tokio::time::timeout_at(at, read).await {
                Ok(read) => read,
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            },
        };
        match read {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.read.extend_from_slice(&chunk[..read]);
                Ok(true)
            }
            // A server that drops a connection with unread input causes a reset.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn dropped(&self) -> Fault {
        Fault::Dropped {
            address: self.address.clone(),
        }
    }

    fn failed(&self, message: &str) -> Fault {
        Fault::Http {
            message: format!("{}: {message}", self.address),
        }
    }
}

fn header<'a>(reply: &'a HttpMessage, name: &str) -> Option<&'a str> {
    values(reply, name).next()
}

fn values<'a>(reply: &'a HttpMessage, name: &str) -> impl Iterator<Item = &'a str> {
    let fields = reply.headers.iter();
    let found = fields.filter(move |(found, _)| found.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// A number of digits alone: `usize::from_str_radix` also takes a sign.
fn number(digits: &str, radix: u32) -> Option<usize> {
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    plain.then(|| usize::from_str_radix(digits, radix).ok())?
}

fn parse_head(head: &str) -> Option<(u16, Vec<(String, String)>)> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.splitn(3, ' ');
    words
        .next()
        .filter(|version| ["HTTP/1.1", "HTTP/1.0"].contains(version))?;
    let status = words.next()?.parse().ok()?;
    let mut headers = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Some((status, headers))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// The fault caused by a response whose last bytes are repeated forever.
    async fn check(answer: &'static [u8], again: &'static [u8]) -> Fault {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let _gone = stream.write_all(answer).await;
            while stream.write_all(again).await.is_ok() {}
        });
        let patience = Duration::from_secs(20);
        let mut connection = RawConnection::open(&address, patience)
            .await
            .expect("a connection");
        let answered = connection.receive(false, patience).await;
        assert!(connection.read.len() <= 2 * BODY_BYTES_MAX);
        answered.expect_err("no whole answer")
    }

    #[tokio::test]
    async fn response_whose_end_is_uncertain_is_refused() {
        for (answer, told) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}"[..], "content-length is not usable"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n{}", "content-length is not usable"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 1\r\n\r\n{}", "in two ways"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "in two ways"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n", "chunk size is not usable"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n", "no line ends behind a chunk"),
            (b"HTTP/1.9 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 status line"),
        ] {
            let fault = check(answer, b" ").await.to_string();
            assert!(fault.contains(told), "{fault}");
        }
    }

    #[tokio::test]
    async fn endless_response_is_abandoned_with_bounded_memory() {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n";
        for (answer, again, told) in [
            (
                &b"HTTP/1.1 200 OK\r\nX: "[..],
                &[b'a'; 4096][..],
                "head does not end",
            ),
            (
                b"HTTP/1.1 200 OK\r\n\r\n",
                &[b'a'; 65536],
                "body does not end",
            ),
            // The total size of the chunks overflows.
            (HEAD, b"ffffffffffffffff\r\n", "chunk size is not usable"),
            (
                HEAD,
                b"10\r\n0123456789abcdef\r\n3000000\r\n",
                "chunk size is not usable",
            ),
        ] {
            let fault = check(answer, again).await.to_string();
            assert!(fault.contains(told), "{fault}");
        }
    }
}
