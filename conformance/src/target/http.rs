//! An MCP session over Streamable HTTP: one POST per frame, with session id and protocol version.
//! Knows nothing of cases; malformed requests go through `raw`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;

use super::Answer;
use super::fault::{Fault, STRAYS_KEPT_MAX};
use super::frame::{self, FrameHead};
use super::sse;

/// Largest response body that is read, in bytes.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// How long a stream is read after the answer, whatever arrives.
pub const AFTER_ANSWER: Duration = Duration::from_millis(100);
/// Number of pings in one stream that are answered.
const PONGS_MAX: usize = 64;

/// A server's address, and the headers that every request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// URL of the MCP endpoint.
    pub url: String,
    /// Headers of every request, unchanged: `Authorization`, for example.
    pub headers: Vec<(String, String)>,
}

/// The response to one POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text; invalid UTF-8 is replaced.
    pub body: String,
    /// Whether the body was valid UTF-8.
    pub is_utf8: bool,
}

impl HttpReply {
    /// The first header with this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether its content type is that of an event stream.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(sse::is_stream)
    }

    /// Whether its content type is one of the two that MCP permits for answers.
    fn has_mcp_content_type(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        ["application/json", "text/event-stream"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(kind))
    }

    /// What is wrong with the response that contains `frame`, apart from the frame itself: no client looks for a result in a response whose
    /// status or content type excludes one, and JSON must be UTF-8.
    pub fn fault(&self, frame: &FrameHead) -> Option<Fault> {
        if !self.is_utf8 {
            return Some(Fault::Junk {
                line: self.body.clone(),
                why: "not UTF-8".to_owned(),
            });
        }
        let is_right = !frame.has_result || (self.status == 200 && self.has_mcp_content_type());
        (!is_right).then(|| Fault::Malformed {
            expected: "a result under HTTP 200 as application/json or text/event-stream".to_owned(),
            line: format!(
                "HTTP {}, Content-Type: {}",
                self.status,
                self.header("content-type").unwrap_or("none")
            ),
        })
    }

    /// The JSON-RPC frames in the body, as JSON or as an event stream.
    pub fn frames(&self) -> Vec<String> {
        if self.is_stream() {
            sse::events(&self.body)
        } else if self.body.trim().is_empty() {
            Vec::new()
        } else {
            vec![self.body.clone()]
        }
    }
}

/// What ends the wait for a stream, besides its end.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// The answer to the request with this id.
    Answer(u64),
    /// The answer to any request.
    AnyAnswer,
    /// Nothing else.
    End,
}

impl Awaited {
    /// What to wait for after sending `body`.
    fn for_request(body: &str) -> Self {
        match frame::is_notification(body) {
            true => Self::End,
            false => Self::AnyAnswer,
        }
    }

    fn matches(self, event: &str) -> bool {
        match self {
            Self::Answer(id) => FrameHead::parse(event).is_ok_and(|head| head.answers == Some(id)),
            Self::AnyAnswer => frame::is_response(event),
            Self::End => false,
        }
    }
}

/// A session with one server.
#[derive(Debug)]
pub struct HttpLink {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    session: Mutex<Session>,
    ids: AtomicU64,
}

#[derive(Debug, Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
}

impl HttpLink {
    /// Prepares a session; nothing is sent yet.
    ///
    /// # Errors
    /// When a header is not valid in HTTP.
    pub fn new(endpoint: &Endpoint) -> Result<Self, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        for (name, value) in &endpoint.headers {
            let header = HeaderName::try_from(name.as_str())
                .ok()
                .zip(HeaderValue::try_from(value.as_str()).ok());
            let Some((name, value)) = header else {
                return Err(Fault::Harness {
                    message: format!("`{name}: …` is not an HTTP header"),
                });
            };
            headers.insert(name, value);
        }
        // The client has no cryptography provider of its own. Installing one a second time changes nothing.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let mut client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        // Loading a machine's CA certificates takes longer than most cases, and it may have none.
        if endpoint.url.starts_with("http://") {
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| Fault::Harness {
            message: format!("no HTTP client: {error}"),
        })?;
        Ok(Self {
            client,
            url: endpoint.url.clone(),
            headers,
            session: Mutex::default(),
            ids: AtomicU64::new(1),
        })
    }

    /// Sends the request that `frame` builds for a fresh id, and waits at most `patience` for its answer.
    ///
    /// # Errors
    /// A [`Fault`] with the frame that was sent, when the exchange failed or the response contains no frame with that id.
    pub async fn ask(
        &self,
        frame: impl FnOnce(u64) -> String,
        patience: Duration,
    ) -> Result<Answer, Box<(Fault, String)>> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let sent = frame(id);
        let began = Instant::now();
        let reply = match self.exchange(&sent, patience, Awaited::Answer(id)).await {
            Ok(reply) => reply,
            Err(fault) => return Err(Box::new((fault, sent))),
        };
        let mut strays = Vec::new();
        let mut answer = None;
        for line in reply.frames() {
            match FrameHead::parse(&line) {
                // A second answer with the same id answers nothing.
                Ok(head) if head.answers == Some(id) && answer.is_none() => {
                    answer = Some((line, head));
                }
                // Answered where it arrived.
                Ok(_) if frame::pong(&line).is_some() => {}
                Ok(_) => strays.push(Fault::Stray { line }.as_stray()),
                Err(error) => {
                    let why = error.to_string();
                    strays.push(Fault::Junk { line, why }.as_stray());
                }
            }
            strays.truncate(STRAYS_KEPT_MAX);
        }
        let Some((received, head)) = answer else {
            let fault = self.without_answer(&reply, strays.into_iter().next(), id);
            return Err(Box::new((fault, sent)));
        };
        strays.extend(reply.fault(&head).map(Fault::as_stray));
        // Only the answer to `initialize` names a revision, and possibly a session.
        if let Some(version) = frame::revision(&received) {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id = reply.header("mcp-session-id").map(str::to_owned);
            session.version = Some(version);
        }
        Ok(Answer {
            sent,
            received,
            strays,
            took: began.elapsed(),
        })
    }

    /// The fault of a response without an answer. `stray` is the first thing that it contains instead.
    fn without_answer(&self, reply: &HttpReply, stray: Option<Fault>, id: u64) -> Fault {
        match stray {
            // A frame, even if it answers another request: this is an MCP endpoint.
            Some(Fault::Stray { line }) if line.contains("\"jsonrpc\"") => Fault::Stray { line },
            _ if reply.status != 200 || !reply.has_mcp_content_type() => Fault::NotMcp {
                url: self.url.clone(),
                status: reply.status,
                kind: reply.header("content-type").map(str::to_owned),
                body: reply.body.clone(),
            },
            Some(stray) => stray,
            None => Fault::Http {
                message: format!(
                    "the server answered HTTP {} without a frame for id {id}: {}",
                    reply.status,
                    super::fault::quote(&reply.body)
                ),
            },
        }
    }

    /// Sends `body` unchanged, within the session if there is one.
    ///
    /// # Errors
    /// When no complete HTTP response arrived within `patience`.
    pub async fn post(&self, body: &str, patience: Duration) -> Result<HttpReply, Fault> {
        self.exchange(body, patience, Awaited::for_request(body))
            .await
    }

    /// As [`Self::post`]; `awaited` ends the wait for a stream.
    async fn exchange(
        &self,
        body: &str,
        patience: Duration,
        awaited: Awaited,
    ) -> Result<HttpReply, Fault> {
        let mut request = self.request(body, patience);
        {
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(id) = &session.id {
                request = request.header("mcp-session-id", id);
            }
            if let Some(version) = &session.version {
                request = request.header("mcp-protocol-version", version);
            }
        }
        self.finish(request, patience, awaited).await
    }

    fn request(&self, body: &str, patience: Duration) -> reqwest::RequestBuilder {
        let request = self.client.post(&self.url).headers(self.headers.clone());
        request.timeout(patience).body(body.to_owned())
    }

    /// Sends `body` outside of the session, with these headers in addition to those of every request.
    ///
    /// # Errors
    /// When no complete HTTP response arrived within `patience`.
    pub async fn post_alone(
        &self,
        body: &str,
        headers: &[(String, String)],
        patience: Duration,
    ) -> Result<HttpReply, Fault> {
        let mut request = self.request(body, patience);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.finish(request, patience, Awaited::for_request(body))
            .await
    }

    /// Fetches a document without the headers of the endpoint or the session.
    ///
    /// # Errors
    /// When no complete HTTP response arrived within `patience`.
    pub async fn get(&self, url: &str, patience: Duration) -> Result<HttpReply, Fault> {
        let request = self.client.get(url).timeout(patience);
        self.finish(request, patience, Awaited::End).await
    }

    /// Enters the session that this answer to `initialize` opens.
    pub fn enter_session(&self, reply: &HttpReply) {
        let frames = reply.frames();
        let version = frames.iter().find_map(|frame| frame::revision(frame));
        if version.is_some() {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id = reply.header("mcp-session-id").map(str::to_owned);
            session.version = version;
        }
    }

    /// The headers of requests within the session.
    pub fn session_headers(&self) -> Vec<(String, String)> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let field = |name: &str, value: &Option<String>| {
            value.clone().map(|value| (name.to_owned(), value))
        };
        let both = [
            field("Mcp-Session-Id", &session.id),
            field("MCP-Protocol-Version", &session.version),
        ];
        both.into_iter().flatten().collect()
    }

    /// Ends the session `id` at `endpoint`, as far as the server lets clients do so.
    pub async fn end_session(endpoint: &Endpoint, id: &str, patience: Duration) {
        let Ok(link) = HttpLink::new(endpoint) else {
            return;
        };
        {
            let mut session = link.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id = Some(id.to_owned());
        }
        let _refused_or_gone = link.close(patience).await;
    }

    /// Ends the session, if there is one, and returns the status of the response. A server may refuse to end it.
    pub async fn close(&self, patience: Duration) -> Option<u16> {
        let id = {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id.take()
        };
        if let Some(id) = id {
            let request = self
                .client
                .delete(&self.url)
                .headers(self.headers.clone())
                .timeout(patience)
                .header("mcp-session-id", id);
            let answer = self.finish(request, patience, Awaited::End).await;
            return answer.ok().map(|reply| reply.status);
        }
        None
    }

    /// Sends a request and reads its response. After the `awaited` message, a stream is read for a moment longer, to catch anything that
    /// follows: the server should end it then, but one that does not has answered nevertheless. Pings in a stream are answered while it
    /// is read, since the server may wait for that; what it says of the answers does not matter.
    async fn finish(
        &self,
        request: reqwest::RequestBuilder,
        patience: Duration,
        awaited: Awaited,
    ) -> Result<HttpReply, Fault> {
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                Fault::NoReply { waited: patience }
            } else {
                Fault::Http {
                    message: format!("{}: {}", self.url, causes(&error)),
                }
            }
        };
        let request = request.build().map_err(failed)?;
        let sent_headers = request.headers().clone();
        let mut response = self.client.execute(request).await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let mut reply = HttpReply {
            status,
            headers,
            body: String::new(),
            is_utf8: true,
        };
        let is_stream = reply.is_stream();
        let mut body = Vec::new();
        let mut looked_at = 0;
        let mut listens_until = None;
        let mut pongs = JoinSet::new();
        loop {
            let next = response.chunk();
            let chunk = match listens_until {
                None => next.await.map_err(failed)?,
                Some(until) => match tokio::time::timeout_at(until, next).await {
                    Ok(Err(error)) if error.is_timeout() => None,
                    Ok(chunk) => chunk.map_err(failed)?,
                    Err(_) => None,
                },
            };
            let Some(chunk) = chunk else {
                break;
            };
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(Fault::Overlong {
                    head: String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
                    bytes: (body.len() + chunk.len()) as u64,
                });
            }
            // The blank line that ends an event may be split across two chunks.
            let fresh = body.len().saturating_sub(3).max(looked_at);
            body.extend_from_slice(&chunk);
            if is_stream && let Some(end) = sse::end_of_events(&body[fresh..]) {
                let text = String::from_utf8_lossy(&body[looked_at..fresh + end]);
                looked_at = fresh + end;
                let events = sse::events(&text);
                for pong in events.iter().filter_map(|event| frame::pong(event)) {
                    if pongs.len() < PONGS_MAX {
                        let request = self.client.post(&self.url).timeout(patience).body(pong);
                        pongs.spawn(request.headers(sent_headers.clone()).send());
                    }
                }
                if listens_until.is_none() && events.iter().any(|event| awaited.matches(event)) {
                    listens_until = Some(tokio::time::Instant::now() + AFTER_ANSWER);
                }
            }
        }
        pongs.detach_all();
        reply.body = String::from_utf8_lossy(&body).into_owned();
        reply.is_utf8 = match std::str::from_utf8(&body) {
            Ok(_) => true,
            // A stream that is abandoned may be cut within a character.
            Err(error) => error.error_len().is_none() && reply.is_stream(),
        };
        Ok(reply)
    }
}

/// An error with its chain of causes; the outermost text alone says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The address of a server, and its answer to a request: these bytes.
    async fn ask(
        url: impl Fn(std::net::SocketAddr) -> String,
        answer: Vec<u8>,
    ) -> (std::net::SocketAddr, Result<Answer, Box<(Fault, String)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let _head = stream.read(&mut [0; 4096]).await;
            let _gone = stream.write_all(&answer).await;
        });
        let link = HttpLink::new(&Endpoint {
            url: url(address),
            headers: Vec::new(),
        });
        let link = link.expect("a link");
        let asked = link.ask(
            |id| format!("{{\"id\":{id},\"method\":\"x\"}}"),
            Duration::from_secs(20),
        );
        (address, asked.await)
    }

    /// The faults found in a response with this body.
    async fn check(kind: &str, body: &[u8]) -> Vec<String> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = [head.as_bytes(), body].concat();
        let (_, asked) = ask(|address| format!("http://{address}/mcp"), answer).await;
        let strays = asked.expect("an answer").strays;
        strays.iter().map(Fault::to_string).collect()
    }

    /// A server that waits for the answer to its ping before it answers the request, both in one stream.
    #[tokio::test]
    async fn ping_in_a_stream_is_answered_while_the_stream_lasts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let (mut asked, _) = listener.accept().await.expect("a client");
            let _head = asked.read(&mut [0; 4096]).await;
            let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\
                data: {\"id\":\"p\",\ndata: \"method\":\"ping\"}\n\n";
            asked.write_all(stream.as_bytes()).await.expect("written");
            let (mut ponged, _) = listener.accept().await.expect("the answer");
            let mut pong = vec![0; 4096];
            let read = ponged.read(&mut pong).await.expect("a request");
            let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
            ponged
                .write_all(accepted.as_bytes())
                .await
                .expect("written");
            let answer = "data: {\"id\":1,\"result\":{}}\n\n";
            asked.write_all(answer.as_bytes()).await.expect("written");
            String::from_utf8_lossy(&pong[..read]).into_owned()
        });
        let link = HttpLink::new(&Endpoint {
            url: format!("http://{address}/mcp"),
            headers: vec![("authorization".to_owned(), "Bearer t".to_owned())],
        });
        let link = link.expect("a link");
        let frame = |id| format!("{{\"id\":{id},\"method\":\"x\"}}");
        let asked = link.ask(frame, Duration::from_secs(20));
        let answer = asked.await.expect("an answer");
        assert!(answer.strays.is_empty());
        let pong = server.await.expect("a pong");
        assert!(pong.contains("authorization: Bearer t"), "{pong}");
        assert!(
            pong.ends_with(r#"{"jsonrpc":"2.0","id":"p","result":{}}"#),
            "{pong}"
        );
    }

    #[tokio::test]
    async fn response_of_no_mcp_server_names_url_status_and_type() {
        let url = |address| format!("http://{address}/mcp?x=1");
        for (head, told) in [
            (
                "HTTP/1.1 501 Not Implemented\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>",
                "answered 501 text/html; expected 200 with application/json or text/event-stream; is /mcp the right path?",
            ),
            (
                "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                "answered 404 application/json; expected 200 with",
            ),
            (
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
                "answered 401; expected 200 with application/json or text/event-stream; is a --header missing?",
            ),
        ] {
            let (address, asked) = ask(url, head.as_bytes().to_vec()).await;
            let (fault, _) = *asked.expect_err("no answer");
            let said = fault.to_string();
            assert!(
                said.starts_with(&format!("POST http://{address}/mcp?x=1 {told}")),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn responses_must_be_utf_8() {
        const JSON: &str = "application/json";
        let right = "{\"id\":1,\"result\":{\"a\":\"é\"}}".as_bytes();
        let wrong = b"{\"id\":1,\"result\":{\"a\":\"\xE9\"}}";
        assert_eq!(check(JSON, right).await, [""; 0]);
        let told = check(JSON, wrong).await;
        assert!(told.len() == 1 && told[0].contains("not UTF-8"), "{told:?}");
        let events = [b"data: ", &wrong[..], b"\n\n"].concat();
        let told = check("text/event-stream", &events).await;
        assert!(told.len() == 1 && told[0].contains("not UTF-8"), "{told:?}");
    }
}
