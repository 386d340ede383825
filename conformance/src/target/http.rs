//! An MCP session over Streamable HTTP: one POST a frame, the session id and protocol version carried along.
//! Knows nothing of cases; malformed requests go through `raw`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::Answer;
use super::fault::Fault;
use super::sse;

/// Largest body that is read of an answer.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// Where a server is reached, and what every request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The MCP endpoint.
    pub url: String,
    /// Headers of every request, as given: `Authorization`, for example.
    pub headers: Vec<(String, String)>,
}

/// What came back from one POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text; invalid UTF-8 is replaced.
    pub body: String,
}

impl Reply {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC frames in the body, whichever way the server chose to send them.
    pub fn frames(&self) -> Vec<String> {
        let streamed = self
            .header("content-type")
            .is_some_and(|kind| kind.trim().starts_with("text/event-stream"));
        if streamed {
            sse::events(&self.body)
        } else if self.body.trim().is_empty() {
            Vec::new()
        } else {
            vec![self.body.clone()]
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
    /// When a header is not one that HTTP can carry.
    pub fn to(endpoint: &Endpoint) -> Result<Self, Fault> {
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
        // The client has no cryptography of its own. A second installation changes nothing.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Fault::Harness {
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

    /// Sends the request that `frame` makes of a fresh id, and waits at most `patience` for its answer.
    ///
    /// # Errors
    /// A [`Fault`] with the frame that was sent, when the exchange failed or its answer holds no frame with that id.
    pub async fn ask(
        &self,
        frame: impl FnOnce(u64) -> String,
        patience: Duration,
    ) -> Result<Answer, Box<(Fault, String)>> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let sent = frame(id);
        let began = Instant::now();
        let reply = match self.post(&sent, patience).await {
            Ok(reply) => reply,
            Err(fault) => return Err(Box::new((fault, sent))),
        };
        let mut strays = Vec::new();
        let mut answer = None;
        for line in reply.frames() {
            match serde_json::from_str::<Value>(&line) {
                Ok(value) if value.get("id").and_then(Value::as_u64) == Some(id) => {
                    answer = Some((line, value));
                }
                Ok(_) => strays.push(Fault::Stray { line }),
                Err(error) => strays.push(Fault::Junk {
                    line,
                    why: error.to_string(),
                }),
            }
        }
        let Some((received, value)) = answer else {
            let fault = strays.into_iter().next().unwrap_or(Fault::Http {
                message: format!(
                    "the server answered HTTP {} without a frame for id {id}: {}",
                    reply.status,
                    super::fault::quote(&reply.body)
                ),
            });
            return Err(Box::new((fault, sent)));
        };
        // Only the answer to `initialize` names a revision, and perhaps a session.
        let version = value.pointer("/result/protocolVersion");
        if let Some(version) = version.and_then(Value::as_str) {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id = reply.header("mcp-session-id").map(str::to_owned);
            session.version = Some(version.to_owned());
        }
        Ok(Answer {
            sent,
            received,
            strays,
            took: began.elapsed(),
        })
    }

    /// Sends `body` as it is, within the session when there is one.
    ///
    /// # Errors
    /// When no complete HTTP answer came within `patience`.
    pub async fn post(&self, body: &str, patience: Duration) -> Result<Reply, Fault> {
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
        self.finish(request, patience).await
    }

    fn request(&self, body: &str, patience: Duration) -> reqwest::RequestBuilder {
        let request = self.client.post(&self.url).headers(self.headers.clone());
        request.timeout(patience).body(body.to_owned())
    }

    /// Sends `body` outside of the session, with these headers besides those of every request.
    ///
    /// # Errors
    /// When no complete HTTP answer came within `patience`.
    pub async fn post_alone(
        &self,
        body: &str,
        headers: &[(String, String)],
        patience: Duration,
    ) -> Result<Reply, Fault> {
        let mut request = self.request(body, patience);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.finish(request, patience).await
    }

    /// Gets a document, as anybody can.
    ///
    /// # Errors
    /// When no complete HTTP answer came within `patience`.
    pub async fn get(&self, url: &str, patience: Duration) -> Result<Reply, Fault> {
        let request = self.client.get(url).timeout(patience);
        self.finish(request, patience).await
    }

    /// Goes on within the session that the answer to an `initialize` opens.
    pub fn adopt(&self, reply: &Reply) {
        let frames = reply.frames();
        let mut values = frames.iter().filter_map(|frame| {
            let value = serde_json::from_str::<Value>(frame).ok()?;
            Some(
                value
                    .pointer("/result/protocolVersion")?
                    .as_str()?
                    .to_owned(),
            )
        });
        if let Some(version) = values.next() {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.id = reply.header("mcp-session-id").map(str::to_owned);
            session.version = Some(version);
        }
    }

    /// The headers that requests within the session carry.
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

    /// Ends the session, if there is one. A server may refuse that. Gives the status of its answer.
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
            let answer = self.finish(request, patience).await;
            return answer.ok().map(|reply| reply.status);
        }
        None
    }

    async fn finish(
        &self,
        request: reqwest::RequestBuilder,
        patience: Duration,
    ) -> Result<Reply, Fault> {
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                Fault::NoReply { waited: patience }
            } else {
                Fault::Http {
                    message: format!("{}: {}", self.url, causes(&error)),
                }
            }
        };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(Fault::Overlong {
                    head: String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
                    bytes: (body.len() + chunk.len()) as u64,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply {
            status,
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// An error with everything that led to it; the outermost text alone says little.
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
