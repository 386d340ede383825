//! The outbound HTTP client: headers, same-origin redirects, bodies with a size limit, failure messages. Knows nothing of
//! MCP.

#[cfg(feature = "checks")]
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use ptc_outbound::{Repeat, Sender, causes, tls_refusal};
use ptc_secrets::AuthHeaders;
use reqwest::Response;
use reqwest::redirect::Policy;

use crate::config::RemoteConfig;
use crate::fault::{Reason, WorldFault};
use crate::limits::URL_BYTES_MAX;
use crate::runtime::Platform;
#[cfg(feature = "checks")]
use crate::simulation::HttpBackend;
use crate::trace_context::TraceContext;

/// Maximum redirects followed, within one origin.
const REDIRECTS_MAX: usize = 10;
/// The message when no CA certificates are available for https.
const NO_CERTIFICATES: &str = "https needs CA certificates, and this machine has none: \
    install its package ca-certificates, or name a PEM file in SSL_CERT_FILE";

/// A client with an upstream's headers. The auth headers are stored here and nowhere else.
#[derive(Clone)]
pub(crate) struct HttpClient {
    route: Route,
    headers: HeaderMap,
}

#[derive(Clone)]
enum Route {
    Network(Sender),
    #[cfg(feature = "checks")]
    Simulation(Arc<dyn HttpBackend>),
}

impl Platform {
    /// The way to the host of `url`.
    fn route(&self, remote: &RemoteConfig, url: &str) -> Result<Route, WorldFault> {
        #[cfg(feature = "checks")]
        if let Some(simulation) = &self.simulation {
            return Ok(Route::Simulation(Arc::clone(&simulation.http_backend)));
        }
        network(remote, url).map(Route::Network)
    }
}

impl HttpClient {
    /// A client that reaches the host of `url` over the network of `platform` with the settings of `remote`.
    pub fn new(
        remote: &RemoteConfig,
        url: &str,
        auth: &AuthHeaders,
        platform: &Platform,
    ) -> Result<Self, WorldFault> {
        let route = platform.route(remote, url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.static_headers {
            if let (Ok(name), Ok(value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(value))
            {
                headers.append(name, value);
            }
        }
        auth.apply(&mut headers);
        Ok(Self { route, headers })
    }

    /// GET with the upstream's headers and `extra`.
    pub async fn get(&self, url: &str, extra: HeaderMap) -> Result<Response, WorldFault> {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        headers.insert(
            http::header::ACCEPT,
            HeaderValue::from_static("application/json"),
        );
        self.send(Method::GET, url, headers, None, Repeat::Harmless)
            .await
    }

    /// POST of a JSON body with the upstream's headers and `extra`.
    pub async fn post(
        &self,
        url: &str,
        extra: HeaderMap,
        body: Vec<u8>,
        repeat: Repeat,
    ) -> Result<Response, WorldFault> {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        self.send(Method::POST, url, headers, Some(body), repeat)
            .await
    }

    /// DELETE with the upstream's headers and `extra`; the response is ignored.
    pub async fn delete(&self, url: &str, extra: HeaderMap) {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        let _ = self
            .send(Method::DELETE, url, headers, None, Repeat::Harmless)
            .await;
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        repeat: Repeat,
    ) -> Result<Response, WorldFault> {
        match &self.route {
            Route::Network(sender) => {
                let request = sender.client().request(method, url).headers(headers);
                let request = match body {
                    Some(body) => request.body(body),
                    None => request,
                };
                let sent = match request.build() {
                    Ok(request) => sender.send(request, repeat).await,
                    Err(error) => Err(error),
                };
                sent.map_err(|error| failure(&error))
            }
            #[cfg(feature = "checks")]
            Route::Simulation(http_backend) => {
                let mut request = http::Request::new(body.unwrap_or_default());
                *request.method_mut() = method;
                *request.uri_mut() = url
                    .parse()
                    .map_err(|_| WorldFault::unavailable("not a URL"))?;
                *request.headers_mut() = headers;
                http_backend.send(request).await.map(Response::from)
            }
        }
    }
}

/// The client for the real network. A redirect stays within its origin, so plain http never leads to https.
fn network(remote: &RemoteConfig, url: &str) -> Result<Sender, WorldFault> {
    let builder = ptc_outbound::client(url)
        .map_err(|fault| WorldFault::unavailable(fault.to_string()))?
        .connect_timeout(remote.connect_timeout)
        .user_agent(concat!("ptc/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(|attempt| {
            let origin = attempt.previous().first().map(reqwest::Url::origin);
            if attempt.previous().len() > REDIRECTS_MAX || origin != Some(attempt.url().origin()) {
                // The 3xx response itself is returned, and handled like any other status.
                attempt.stop()
            } else {
                attempt.follow()
            }
        }));
    Sender::new(builder)
        .map_err(|error| WorldFault::unavailable(client_build_error(&describe_error(&error))))
}

/// Why the client could not be built, and what to do about it.
fn client_build_error(why: &str) -> String {
    match why.contains("No CA certificates") {
        true => NO_CERTIFICATES.to_owned(),
        false => format!("HTTP client: {why}"),
    }
}

/// Adds the trace context to `headers`.
pub(crate) fn set_trace(headers: &mut HeaderMap, trace: Option<&TraceContext>) {
    for (name, value) in trace.into_iter().flat_map(TraceContext::fields) {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}

/// The whole body; fails when it exceeds `cap` bytes.
pub(crate) async fn read_body(
    mut response: Response,
    what: &str,
    cap: usize,
) -> Result<Vec<u8>, WorldFault> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
        if bytes.len() + chunk.len() > cap {
            return Err(WorldFault::too_large(
                what,
                cap,
                (bytes.len() + chunk.len()) as u64,
            ));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The fault for a status other than 2xx, the same for every HTTP transport.
pub(crate) fn status_fault(response: &Response) -> WorldFault {
    let status = response.status();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            WorldFault::new(Reason::AuthFailed, "auth_failed")
        }
        StatusCode::TOO_MANY_REQUESTS => WorldFault::new(Reason::RateLimited, "rate_limited"),
        status if status.is_server_error() => {
            WorldFault::unavailable(format!("http {}", status.as_u16()))
        }
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {
            let to = response
                .headers()
                .get(http::header::LOCATION)
                .and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| response.url().join(to).ok());
            let refused = match to {
                Some(to) if to.origin() != response.url().origin() => {
                    ": redirect to another origin refused".to_owned()
                }
                Some(to) if to.as_str().len() > URL_BYTES_MAX => {
                    format!(": redirect to an address of more than {URL_BYTES_MAX} bytes refused")
                }
                Some(to) if http::Uri::try_from(to.as_str()).is_err() => {
                    ": redirect to what is no address of a request".to_owned()
                }
                Some(_) => {
                    let message = format!("too many redirects ({REDIRECTS_MAX})");
                    return WorldFault::unavailable(message);
                }
                None => String::new(),
            };
            WorldFault::error(format!("http {}{refused}", status.as_u16()))
        }
        status => WorldFault::error(format!("http {}", status.as_u16())),
    }
}

/// Waits for `work`, at most for `limit`.
pub(crate) async fn with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, WorldFault>>,
) -> Result<T, WorldFault> {
    match tokio::time::timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(WorldFault::new(Reason::Timeout, "timeout")),
    }
}

fn failure(error: &reqwest::Error) -> WorldFault {
    if error.is_timeout() {
        return WorldFault::new(Reason::Timeout, "timeout");
    }
    WorldFault::unavailable(describe_error(error))
}

/// The innermost cause in few words. Never contains a URL: its path may be a capability.
fn describe_error(error: &reqwest::Error) -> String {
    use std::io::ErrorKind;
    if let Some(refusal) = tls_refusal(error) {
        return refusal;
    }
    let mut last = None;
    // The outermost error names the URL.
    for inner in causes(error).skip(1) {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            match io.kind() {
                ErrorKind::ConnectionRefused => return "connection refused".into(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                    return "socket closed".into();
                }
                ErrorKind::TimedOut => return "timeout".into(),
                _ => {}
            }
        }
        let text = inner.to_string();
        if text.contains("dns error") || text.contains("failed to lookup address") {
            return "non-existing domain".into();
        }
        last = Some(text);
    }
    match last {
        Some(text) if text.contains("closed") || text.contains("incomplete") => {
            "socket closed".into()
        }
        Some(text) => text,
        None => "HTTP request failed".into(),
    }
}
