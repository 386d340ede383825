//! All refusals of requests, as one table. Knows nothing of the reasons.

use super::mcp;
use axum::http::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use ptc_secrets::Scrubbed;
use std::time::Duration;

use crate::render::reply::Reply;

/// Why a request is not served.
pub enum Refusal {
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

impl Refusal {
    const fn row(&self) -> (StatusCode, &'static str, ConnectionAction) {
        use ConnectionAction::{Close, KeepAlive};
        match self {
            Refusal::Malformed => (StatusCode::BAD_REQUEST, "", Close),
            Refusal::Forbidden => (StatusCode::FORBIDDEN, "forbidden", Close),
            Refusal::NotFound => (StatusCode::NOT_FOUND, "not found", Close),
            Refusal::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "", Close),
            Refusal::Blocked(_) => (StatusCode::TOO_MANY_REQUESTS, "", Close),
            Refusal::TooManyConnections => (StatusCode::SERVICE_UNAVAILABLE, "", Close),
            Refusal::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "", KeepAlive),
            Refusal::UnsupportedMediaType => {
                let text = "unsupported media type";
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, text, KeepAlive)
            }
            Refusal::StoreUnavailable => {
                let text = "session store unavailable";
                (StatusCode::SERVICE_UNAVAILABLE, text, KeepAlive)
            }
            Refusal::EmptyBody => (StatusCode::BAD_REQUEST, "empty body", KeepAlive),
            Refusal::PayloadTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload too large",
                KeepAlive,
            ),
            Refusal::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "", Close),
            Refusal::NoRoomForBody => (StatusCode::SERVICE_UNAVAILABLE, "", Close),
            Refusal::MissingSession => {
                (StatusCode::BAD_REQUEST, "missing MCP-Session-Id", KeepAlive)
            }
            Refusal::UnknownSession => (StatusCode::NOT_FOUND, "", KeepAlive),
            Refusal::SessionChosenByClient => {
                let text = "initialize must not include MCP-Session-Id";
                (StatusCode::BAD_REQUEST, text, KeepAlive)
            }
            Refusal::WrongRevision => (
                StatusCode::BAD_REQUEST,
                "bad MCP-Protocol-Version",
                KeepAlive,
            ),
            Refusal::Rpc(status, _) => (*status, "", KeepAlive),
            Refusal::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "", Close),
        }
    }

    fn headers(&self, headers: &mut HeaderMap) {
        match self {
            Refusal::Unauthorized(challenge) => {
                headers.insert(WWW_AUTHENTICATE, challenge.value());
            }
            Refusal::MethodNotAllowed(methods) => {
                headers.insert(ALLOW, HeaderValue::from_static(methods));
            }
            Refusal::Blocked(left) => {
                let seconds = u64::try_from(left.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            Refusal::TooManyConnections | Refusal::NoRoomForBody => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text, action) = self.row();
        let mut response = match &self {
            Refusal::Rpc(_, reply) => mcp::json(status, Reply::bytes(reply)),
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
