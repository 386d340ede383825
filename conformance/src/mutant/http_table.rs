//! The mutants over HTTP, one row each: status, header fields, session ids, bodies, authentication, origins, limits of the listener.
//! The functions that need more than a line stand below the table.

use crate::json::Json;

use super::edit::at;
use super::http::Message;
use super::{Mutant, Mutation, answer, flagged, http_request, over_http};

flagged!(over_http);

/// All of them, in the order of the specification.
pub const MUTANTS: &[Mutant] = &[
    // Routes and request ids.
    answer(
        "http-health-unavailable",
        "mcp.http.routes.health",
        |answer, request| {
            if request.target().1.starts_with("/health") {
                answer.set_status(503);
            }
        },
    ),
    answer(
        "http-everything-found",
        "mcp.http.routes.other",
        |answer, _| status(answer, 404, 200),
    ),
    answer("http-no-allow", "mcp.http.routes.methods", |answer, _| {
        answer.drop_field("allow")
    }),
    answer(
        "http-methods-not-found",
        "mcp.http.routes.methods",
        |answer, _| status(answer, 405, 404),
    ),
    answer(
        "http-request-id-dropped",
        "mcp.http.request-ids.echo",
        |answer, _| {
            answer.drop_field("x-request-id");
        },
    ),
    answer(
        "http-request-id-only-echoed",
        "mcp.http.request-ids.made",
        |answer, request| {
            if request.field("x-request-id").is_none() {
                answer.drop_field("x-request-id");
            }
        },
    ),
    // Where a request comes from, and how long it is.
    http_request("http-any-host", "mcp.http.origin.host", |request| {
        if request.field("host").is_some() {
            request.set_field("Host", "127.0.0.1");
        }
    }),
    http_request("http-any-origin", "mcp.http.origin.browser", |request| {
        request.drop_field("origin")
    }),
    answer(
        "http-origin-unauthorized",
        "mcp.http.origin.browser",
        |answer, _| status(answer, 403, 401),
    ),
    http_request(
        "http-allow-list-ignored",
        "mcp.http.origin.allowed",
        |request| {
            request.drop_field("origin");
        },
    ),
    http_request(
        "http-near-origin-passes",
        "mcp.http.origin.near",
        |request| {
            let near = |origin: &str| origin.starts_with("https://app.example.evil");
            if request.field("origin").is_some_and(near) {
                request.set_field("Origin", "https://app.example");
            }
        },
    ),
    answer("http-no-cors", "mcp.http.pages.answers", |answer, _| {
        answer.drop_field("access-control-allow-origin");
    }),
    http_request(
        "http-preflight-needs-token",
        "mcp.http.pages.preflight",
        |request| request.drop_field("access-control-request-method"),
    ),
    http_request(
        "http-images-elsewhere-pass",
        "mcp.http.pages.elsewhere",
        |request| request.drop_field("sec-fetch-site"),
    ),
    flag(
        "http-anybody-is-a-proxy",
        "mcp.http.proxies.strangers",
        "--http-trusted-proxy",
        "0.0.0.0/0",
    ),
    http_request(
        "http-proxies-say-nothing",
        "mcp.http.proxies.counted",
        |request| {
            request.drop_field("x-forwarded-for");
            request.drop_field("forwarded");
        },
    ),
    answer(
        "http-ambiguous-served",
        "mcp.http.smuggling.refused",
        |answer, _| status(answer, 400, 200),
    ),
    // Tokens.
    answer(
        "http-right-token-refused",
        "mcp.http.bearer.right",
        |answer, request| {
            if request.field("authorization").is_some() {
                answer.set_status(401);
            }
        },
    ),
    answer(
        "http-missing-token-forbidden",
        "mcp.http.bearer.missing",
        |answer, _| {
            status(answer, 401, 403);
        },
    ),
    answer(
        "http-no-challenge",
        "mcp.http.bearer.missing",
        |answer, _| {
            answer.drop_field("www-authenticate");
        },
    ),
    answer(
        "http-wrong-token-passes",
        "mcp.http.bearer.wrong",
        |answer, _| status(answer, 401, 200),
    ),
    answer(
        "http-challenge-bare",
        "mcp.http.bearer.wrong",
        |answer, _| {
            if answer.field("www-authenticate").is_some() {
                answer.set_field("WWW-Authenticate", "Bearer");
            }
        },
    ),
    http_request(
        "http-token-in-any-case",
        "mcp.http.bearer.wrong",
        |request| {
            let lower = |value: &str| value.replacen("Bearer A", "Bearer a", 1);
            if let Some(value) = request.field("authorization").map(lower) {
                request.set_field("Authorization", &value);
            }
        },
    ),
    http_request(
        "http-first-token-counts",
        "mcp.http.bearer.two",
        |request| {
            let mut seen = false;
            request.fields.retain(|(name, _)| {
                let token = name.eq_ignore_ascii_case("authorization");
                !token || !std::mem::replace(&mut seen, true)
            });
        },
    ),
    answer(
        "http-health-locked",
        "mcp.http.bearer.open",
        |answer, request| {
            if request.target().1.starts_with("/health") {
                answer.set_status(401);
            }
        },
    ),
    flag(
        "http-no-rate-limit",
        "mcp.http.rate-limit.blocks",
        "--no-http-auth-rate-limit",
        "",
    ),
    answer(
        "http-block-unauthorized",
        "mcp.http.rate-limit.blocks",
        |answer, _| {
            status(answer, 429, 401);
        },
    ),
    flag(
        "http-one-failure-blocks",
        "mcp.http.rate-limit.success",
        "--http-auth-rate-limit-max-failures",
        "1",
    ),
    // Bodies.
    http_request("http-any-type", "mcp.http.bodies.type", |request| {
        if request.field("content-type").is_some() {
            request.set_field("Content-Type", "application/json");
        }
    }),
    answer(
        "http-type-as-bad-request",
        "mcp.http.bodies.type",
        |answer, _| status(answer, 415, 400),
    ),
    answer(
        "http-empty-body-accepted",
        "mcp.http.bodies.empty",
        |answer, _| status(answer, 400, 202),
    ),
    answer(
        "http-malformed-as-bad-request",
        "mcp.http.bodies.malformed",
        |answer, _| {
            status(answer, 200, 400);
        },
    ),
    over_http(
        "http-malformed-code",
        "mcp.http.bodies.malformed",
        Mutation::Reply(malformed_code),
    ),
    flag(
        "http-no-body-cap",
        "mcp.http.bodies.cap",
        "--http-max-body-bytes",
        "99999999",
    ),
    answer(
        "http-too-large-as-bad-request",
        "mcp.http.bodies.cap",
        |answer, _| status(answer, 413, 400),
    ),
    answer("http-body-cut", "mcp.http.bodies.malformed", |answer, _| {
        answer.body.pop();
    }),
    answer(
        "http-body-longer-than-said",
        "mcp.http.bodies.malformed",
        |answer, _| {
            // Three bytes too few are announced.
            let said = answer.body.len().saturating_sub(3);
            answer.set_field("Content-Length", &said.to_string());
        },
    ),
    // Protocol sessions.
    answer(
        "http-no-session-id",
        "mcp.http.sessions.initialize",
        |answer, _| {
            answer.drop_field("mcp-session-id");
        },
    ),
    http_request(
        "http-session-not-needed",
        "mcp.http.sessions.missing",
        |request| {
            if request.field("mcp-session-id").is_none() {
                request.set_field("MCP-Session-Id", "made-up");
            }
        },
    ),
    answer(
        "http-unknown-session-as-bad-request",
        "mcp.http.sessions.missing",
        |answer, _| {
            status(answer, 404, 400);
        },
    ),
    answer(
        "http-session-fixation",
        "mcp.http.sessions.no-fixation",
        |answer, _| {
            status(answer, 400, 200);
        },
    ),
    http_request(
        "http-version-unchecked",
        "mcp.http.sessions.version",
        |request| {
            request.drop_field("mcp-protocol-version");
        },
    ),
    answer(
        "http-notifications-ok",
        "mcp.http.sessions.notifications",
        |answer, _| {
            status(answer, 202, 200);
        },
    ),
    answer(
        "http-notifications-answered",
        "mcp.http.sessions.notifications",
        |answer, _| {
            if answer.status() == 202 {
                answer.body = b"{}".to_vec();
            }
        },
    ),
    answer(
        "http-delete-without-content",
        "mcp.http.sessions.delete",
        |answer, _| {
            status(answer, 202, 204);
        },
    ),
    http_request(
        "http-delete-ignored",
        "mcp.http.sessions.delete",
        |request| {
            if request.target().0 == "DELETE" {
                request.drop_field("mcp-session-id");
            }
        },
    ),
    answer(
        "http-exit-refused",
        "mcp.http.sessions.exit",
        |answer, _| status(answer, 404, 200),
    ),
    flag(
        "http-any-number-of-sessions",
        "mcp.http.sessions.caps",
        "--http-max-sessions",
        "9999",
    ),
    answer(
        "http-caps-swapped",
        "mcp.http.sessions.caps",
        |answer, _| match answer.status() {
            503 => answer.set_status(429),
            429 => answer.set_status(503),
            _ => {}
        },
    ),
    flag(
        "http-never-idle",
        "mcp.http.expiry.idle",
        "--http-session-idle-timeout-ms",
        "99999999",
    ),
    flag(
        "http-any-number-in-flight",
        "mcp.http.in-flight.cap",
        "--http-max-in-flight-per-session",
        "64",
    ),
    over_http(
        "http-deleted-as-timeout",
        "mcp.http.in-flight.delete",
        Mutation::Reply(cancelled_as_timeout),
    ),
    answer(
        "http-drain-unnoticed",
        "mcp.http.drain.refuses",
        |answer, _| status(answer, 503, 200),
    ),
    flag(
        "http-patient-with-bodies",
        "mcp.http.slow.body",
        "--http-request-timeout-ms",
        "99999999",
    ),
    answer(
        "http-slow-body-as-bad-request",
        "mcp.http.slow.body",
        |answer, _| status(answer, 408, 400),
    ),
    flag(
        "http-patient-with-heads",
        "mcp.http.slow.head",
        "--http-request-timeout-ms",
        "99999999",
    ),
    // Session stores.
    flag(
        "http-leaves-at-once",
        "mcp.session_store.leaving.delay",
        "--http-shutdown-delay-ms",
        "0",
    ),
    flag(
        "http-leaves-at-once-whatever-the-environment-says",
        "mcp.session_store.leaving.environment",
        "--http-shutdown-delay-ms",
        "0",
    ),
    flag(
        "http-store-unmeasured",
        "mcp.session_store.metrics.histograms",
        "--session-store",
        "memory:",
    ),
    flag(
        "http-turns-never-busy",
        "mcp.session_store.metrics.counters",
        "--program-timeout-ms",
        "100",
    ),
    // The revision without sessions.
    http_request(
        "http-stateless-needs-session",
        "mcp.stateless.http.call",
        |request| {
            request.drop_field("mcp-method");
        },
    ),
    answer(
        "http-stateless-code",
        "mcp.stateless.http.mismatch",
        |answer, _| status(answer, 400, 200),
    ),
    http_request(
        "http-name-encoded-unread",
        "mcp.stateless.http.encoded",
        |request| {
            if let Some(name) = request.field("mcp-name").map(str::to_owned) {
                request.set_field("Mcp-Name", &name.replace("=?", ""));
            }
        },
    ),
    answer(
        "http-stateless-method-ok",
        "mcp.stateless.http.method",
        |answer, _| status(answer, 404, 200),
    ),
    answer(
        "http-stateless-version-ok",
        "mcp.stateless.http.version",
        |answer, _| status(answer, 400, 200),
    ),
];

fn status(answer: &mut Message, from: u16, to: u16) {
    if answer.status() == from {
        answer.set_status(to);
    }
}

fn malformed_code(frame: &mut Json, _method: &str) {
    if let Some(code) = at(frame, &["error", "code"])
        && code.as_i64() == Some(-32700)
    {
        *code = Json::from(-32600);
    }
}

fn cancelled_as_timeout(frame: &mut Json, _method: &str) {
    super::edit::payload(frame, |payload| {
        if let Some(Json::String(reason)) = at(payload, &["reason"])
            && reason == "cancelled"
        {
            *reason = "timeout".to_owned();
        }
    });
    if let Some(Json::String(text)) = super::edit::text_block(frame) {
        *text = text.replace("cancelled", "timeout");
    }
}
