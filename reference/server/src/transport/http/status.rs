//! The operators' routes: `/health`, `/ready` and the metrics.

use super::endpoint::Endpoint;
use super::mcp;
use super::refusal::HttpRefusal;
use crate::diagnostics::counters::Gauges;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use ptc_protocol::members::{Condition, Readiness};
use ptc_protocol::{Field, Payload};
use std::sync::Arc;
use tokio::time::Instant;

pub async fn health(method: Method) -> Result<Response, HttpRefusal> {
    match method {
        Method::GET => Ok(shown(StatusCode::OK, Condition { status: "ok" })),
        _ => Err(HttpRefusal::NotFound),
    }
}

/// Whether new sessions are accepted.
pub async fn ready(
    method: Method,
    State(endpoint): State<Arc<Endpoint>>,
) -> Result<Response, HttpRefusal> {
    if method != Method::GET {
        return Err(HttpRefusal::NotFound);
    }
    let busy = |status: &'static str| shown(StatusCode::SERVICE_UNAVAILABLE, Condition { status });
    Ok(if endpoint.shutdown().is_announced() {
        busy("draining")
    } else if endpoint.sessions().is_full(Instant::now()) {
        busy("saturated")
    } else if !endpoint.server().sessions.are_ready() {
        busy("session_store_unavailable")
    } else {
        // These requests carry no token, so the name is scrubbed.
        let instance = endpoint
            .server()
            .redactor
            .scrub_str(&endpoint.settings().instance);
        let instance = Field::word(instance.into_owned());
        shown(StatusCode::OK, Readiness { instance })
    })
}

fn shown(status: StatusCode, members: impl Into<Payload>) -> Response {
    mcp::json(status, members.into().to_json().into_bytes())
}

pub async fn metrics(
    method: Method,
    State(endpoint): State<Arc<Endpoint>>,
) -> Result<Response, HttpRefusal> {
    if method != Method::GET {
        return Err(HttpRefusal::MethodNotAllowed("GET"));
    }
    let server = endpoint.server();
    let gauges = Gauges {
        in_flight: server.gate.taken(),
        in_flight_max: server.gate.cap(),
        protocol_sessions: endpoint.sessions().count(Instant::now()),
        sessions: server.sessions.count(),
    };
    let counters = server.counters.as_deref();
    let text = counters.map(|counters| counters.render(&gauges));
    let mut text = text.unwrap_or_default();
    if let Some(store) = server.sessions.shared() {
        text.push_str(&store.metrics());
    }
    let mut response = mcp::plain(StatusCode::OK, text);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
