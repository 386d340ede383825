//! Which web pages may call: the origin of a browser's request, its preflight, and the headers that let the page read the response
//! (CORS). Knows nothing of tokens.

use super::endpoint::Endpoint;
use super::host::is_loopback_authority;
use super::mcp;
use super::refusal::HttpRefusal;
use crate::settings::Origin;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use axum::http::{Method, StatusCode};
use axum::response::Response;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
static REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
static ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Headers that a page may send.
const REQUEST_HEADERS: &str = "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, traceparent, tracestate, x-request-id";
/// Headers that a page may read.
const RESPONSE_HEADERS: &str = "mcp-session-id, retry-after, www-authenticate, x-request-id";
/// How long a browser may cache a preflight.
const PREFLIGHT_SECONDS: &str = "600";

/// Refuses pages that may not call, and returns the page that may.
///
/// Not `tower_http::cors`, because that treats every `OPTIONS` request as a preflight, and so would answer those of other clients before
/// the token and the method are checked.
pub fn check(endpoint: &Endpoint, headers: &HeaderMap) -> Result<Option<PageOrigin>, HttpRefusal> {
    let Some(origin) = headers.get(ORIGIN) else {
        // An image or a link on a cross-site page sends no origin, but every browser marks it as cross-site.
        let mut sites = headers.get_all(&SEC_FETCH_SITE).iter();
        return match sites.any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site")) {
            true => Err(HttpRefusal::Forbidden),
            false => Ok(None),
        };
    };
    let permits = |origin: &HeaderValue| {
        let origin = origin.to_str();
        origin.is_ok_and(|origin| endpoint.origins().permits(origin))
    };
    // A browser sends one. Of several, none may be foreign: a proxy may have looked at another than the first.
    match headers.get_all(ORIGIN).iter().all(permits) {
        true => Ok(Some(PageOrigin(origin.clone()))),
        false => Err(HttpRefusal::Forbidden),
    }
}

/// A page that may call, by its origin.
pub struct PageOrigin(HeaderValue);

impl PageOrigin {
    /// Adds the headers that let the page read a response.
    pub fn allow_read(self, response: &mut Response) {
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.0);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(RESPONSE_HEADERS),
        );
    }
}

/// The response to a browser's preflight for a page.
pub fn preflight(request: &Request) -> Option<Response> {
    let asked = request.headers();
    if request.method() != Method::OPTIONS || !asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = mcp::plain(StatusCode::NO_CONTENT, "");
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(mcp::METHODS),
    );
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(REQUEST_HEADERS),
    );
    headers.insert(
        ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(PREFLIGHT_SECONDS),
    );
    // A public page that calls this machine requests that, too.
    if asked.contains_key(&REQUEST_PRIVATE_NETWORK) {
        headers.insert(&ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    Some(response)
}

/// The rule for `Origin` headers.
pub struct OriginRule {
    allowed: Vec<Origin>,
    loopback: bool,
}

impl OriginRule {
    /// With an allow-list, only its members pass; without one, on a loopback bind, every loopback origin passes.
    pub fn new(allowed: &[Origin], loopback: bool) -> Self {
        OriginRule {
            allowed: allowed.to_vec(),
            loopback: loopback && allowed.is_empty(),
        }
    }

    /// Whether a request with this `Origin` is permitted.
    pub fn permits(&self, origin: &str) -> bool {
        let Some(origin) = Origin::read(origin) else {
            return false;
        };
        match self.loopback {
            true => is_loopback_authority(origin.host()),
            false => self.allowed.contains(&origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_origins_are_recognized() {
        let loopback = OriginRule::new(&[], true);
        for right in [
            "http://localhost",
            "https://LOCALHOST:3000",
            "http://127.0.0.1:5",
            "http://[::1]:3",
        ] {
            assert!(loopback.permits(right), "{right}");
        }
        for wrong in [
            "null",
            "",
            "file://x",
            "localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://a@localhost",
            "http://localhost@evil.example",
        ] {
            assert!(!loopback.permits(wrong), "{wrong}");
        }
        assert!(!OriginRule::new(&[], false).permits("http://localhost"));
    }

    #[test]
    fn listed_origin_matches_exactly() {
        let listed = OriginRule::new(&[Origin::listed("https://App.example:443").unwrap()], true);
        for right in [
            "https://app.example",
            "https://app.example/path",
            "https://APP.example:443",
        ] {
            assert!(listed.permits(right), "{right}");
        }
        for wrong in [
            "http://localhost",
            "http://app.example",
            "https://app.example:8443",
            "https://app.example.evil.test",
            "https://app.example.",
            "https://app.exampl",
            "https://xapp.example",
            "https://evil.test/https://app.example",
            "https://app.example@evil.test",
            "https://evil.test?https://app.example",
            "https:///app.example",
            "https://app.example, https://evil.test",
        ] {
            assert!(!listed.permits(wrong), "{wrong}");
        }
    }
}
