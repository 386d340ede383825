//! All refusals of requests, as one table. Knows nothing of the reasons.

use super::mcp;
use axum::http::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use ptc_secrets::Scrubbed;
use std::time::Duration;

use crate::render::reply::Reply;

/// Why a request is not served.
pub enum HttpRefusal {
    /// Its addressee or the length of its body is ambiguous.
    Malformed,
    /// Its host or origin may not call.
    Forbidden,
    /// Nothing is served at its path.
    NotFound,
    /// It has no token, or a wrong one.
    Unauthorized(Challenge),
    /// Its address failed to authenticate too often; the block lasts this much longer.
    Blocked(Duration),
    /// All connections are taken, and this one has not presented a valid token.
    TooManyConnections,
    /// Its method is not allowed on the path; these are.
    MethodNotAllowed(&'static str),
    /// Its body is not JSON.
    UnsupportedMediaType,
    /// Its body is empty.
    EmptyBody,
    /// Its body is too large.
    PayloadTooLarge,
    /// Its body did not arrive in time.
    BodyTimeout,
    /// The bodies of all requests together are too large.
    NoRoomForBody,
    /// It names no session.
    MissingSession,
    /// It names a session that does not exist.
    UnknownSession,
    /// It names a session that only the store knows, and the store is away.
    StoreUnavailable,
    /// It asks for a new session, but names one.
    SessionChosenByClient,
    /// Its revision differs from that of its session.
    WrongRevision,
    /// A JSON-RPC error, with this status.
    Rpc(StatusCode, Box<Scrubbed<Reply>>),
    /// The server has a fault.
    Internal,
}

/// The challenge to a request without the right token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    Token,
    AnotherToken,
}

impl Challenge {
    const fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Challenge::Token => "Bearer",
            Challenge::AnotherToken => "Bearer error=\"invalid_token\"",
        })
    }
}

/// Whether the connection outlives the refusal. Clients without a valid token may not hold a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionAction {
    KeepAlive,
    Close,
}

impl HttpRefusal {
    const fn row(&self) -> (StatusCode, &'static str, ConnectionAction) {
        use ConnectionAction::{Close, KeepAlive};
        match self {
            HttpRefusal::Malformed => (StatusCode::BAD_REQUEST, "", Close),
            HttpRefusal::Forbidden => (StatusCode::FORBIDDEN, "forbidden", Close),
            HttpRefusal::NotFound => (StatusCode::NOT_FOUND, "not found", Close),
            HttpRefusal::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "", Close),
            HttpRefusal::Blocked(_) => (StatusCode::TOO_MANY_REQUESTS, "", Close),
            HttpRefusal::TooManyConnections => (StatusCode::SERVICE_UNAVAILABLE, "", Close),
            HttpRefusal::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "", KeepAlive),
            HttpRefusal::UnsupportedMediaType => {
                let text = "unsupported media type";
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, text, KeepAlive)
            }
            HttpRefusal::StoreUnavailable => {
                let text = "session store unavailable";
                (StatusCode::SERVICE_UNAVAILABLE, text, KeepAlive)
            }
            HttpRefusal::EmptyBody => (StatusCode::BAD_REQUEST, "empty body", KeepAlive),
            HttpRefusal::PayloadTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload too large",
                KeepAlive,
            ),
            HttpRefusal::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "", Close),
            HttpRefusal::NoRoomForBody => (StatusCode::SERVICE_UNAVAILABLE, "", Close),
            HttpRefusal::MissingSession => {
                (StatusCode::BAD_REQUEST, "missing MCP-Session-Id", KeepAlive)
            }
            HttpRefusal::UnknownSession => (StatusCode::NOT_FOUND, "", KeepAlive),
            HttpRefusal::SessionChosenByClient => {
                let text = "initialize must not include MCP-Session-Id";
                (StatusCode::BAD_REQUEST, text, KeepAlive)
            }
            HttpRefusal::WrongRevision => (
                StatusCode::BAD_REQUEST,
                "bad MCP-Protocol-Version",
                KeepAlive,
            ),
            HttpRefusal::Rpc(status, _) => (*status, "", KeepAlive),
            HttpRefusal::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "", Close),
        }
    }

    fn headers(&self, headers: &mut HeaderMap) {
        match self {
            HttpRefusal::Unauthorized(challenge) => {
                headers.insert(WWW_AUTHENTICATE, challenge.value());
            }
            HttpRefusal::MethodNotAllowed(methods) => {
                headers.insert(ALLOW, HeaderValue::from_static(methods));
            }
            HttpRefusal::Blocked(left) => {
                let seconds = u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            HttpRefusal::TooManyConnections | HttpRefusal::NoRoomForBody => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let (status, text, action) = self.row();
        let mut response = match &self {
            HttpRefusal::Rpc(_, reply) => mcp::json(status, Reply::bytes(reply)),
            _ => mcp::plain(status, text),
        };
        self.headers(response.headers_mut());
        if action == ConnectionAction::Close {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
