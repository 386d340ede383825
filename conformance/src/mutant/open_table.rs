//! Mutants of what MCP asks of any server (the clauses `base.*`): what authors of servers do wrong. The functions that need more than a line
//! stand below the table. Input that is wanted first and headers of parameters have none here: the reference has no tool with either;
//! servers with those faults stand in `conformance/foreign/faulty`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::json::Json;

use super::edit::{at, set};
use super::{Mutant, Mutation, Stream, answer, over_http, over_stdio, reply};

const fn request(name: &'static str, clause: &'static str, edit: fn(&mut Json)) -> Mutant {
    over_stdio(name, clause, Mutation::Request(edit))
}

const fn stream(name: &'static str, clause: &'static str, stream: Stream) -> Mutant {
    over_stdio(name, clause, Mutation::Stream(stream))
}

/// All of them, in the order of the pages.
pub const MUTANTS: &[Mutant] = &[
    // Ids and messages.
    reply("open-id-zero-lost", "base.messages.ids.echo", |frame, _| {
        if frame.get("id").and_then(Json::as_i64) == Some(0) {
            set(frame, &[], "id", Json::Null);
        }
    }),
    reply("open-ids-rounded", "base.messages.ids.echo", |frame, _| {
        if frame.get("id").and_then(Json::as_i64) == Some(9_007_199_254_740_991) {
            set(frame, &[], "id", Json::from(9_007_199_254_740_992_i64));
        }
    }),
    reply(
        "open-ids-as-numbers",
        "base.messages.ids.echo",
        |frame, _| {
            if frame.get("id").and_then(Json::as_str) == Some("1") {
                set(frame, &[], "id", Json::from(1));
            }
        },
    ),
    request("open-dies-of-null-id", "base.messages.ids.null", |frame| {
        if frame.get("id") == Some(&Json::Null) {
            std::process::exit(70);
        }
    }),
    reply(
        "open-batches",
        "base.messages.form.batches",
        |frame, method| {
            if method == "prompts/list" {
                *frame = Json::Array(vec![frame.clone()]);
            }
        },
    ),
    request("open-dies-of-batch", "base.messages.form.batch", |frame| {
        if matches!(frame, Json::Array(_)) {
            std::process::exit(70);
        }
    }),
    request(
        "open-dies-of-unknown-method",
        "base.messages.methods.unknown",
        |frame| {
            let method = frame.get("method").and_then(Json::as_str);
            if method.is_some_and(|method| method.starts_with("touchstone")) {
                std::process::exit(70);
            }
        },
    ),
    stream(
        "open-dies-of-garbage",
        "base.messages.methods.garbage",
        Stream::DiesOnGarbage,
    ),
    stream(
        "open-answers-notifications",
        "base.messages.notifications.silent",
        Stream::AnswersNotifications,
    ),
    reply(
        "open-odd-meta",
        "base.messages.form.meta",
        |frame, method| {
            if method == "tools/list" && frame.get("result").is_some() {
                let meta = Json::parse(r#"{"a key":1}"#).unwrap_or(Json::Null);
                set(frame, &["result"], "_meta", meta);
            }
        },
    ),
    reply("open-pongs", "base.messages.ping.empty", |frame, method| {
        if method == "ping" {
            set(frame, &["result"], "pong", Json::Bool(true));
        }
    }),
    // The life of a connection.
    reply(
        "open-confirms-any-revision",
        "base.lifecycle.initialize.other",
        |frame, method| {
            if method == "initialize" {
                set(
                    frame,
                    &["result"],
                    "protocolVersion",
                    Json::from("2099-12-31"),
                );
            }
        },
    ),
    stream(
        "open-forgets-at-the-end",
        "base.lifecycle.end.flush",
        Stream::ForgetsAtEnd,
    ),
    stream("open-lingers", "base.lifecycle.end.exit", Stream::Lingers),
    // Standard streams.
    stream("open-banner", "base.stdio.output.messages", Stream::Banner),
    stream("open-logs", "base.stdio.output.call", Stream::ExtraLine),
    stream(
        "open-wants-bare-newlines",
        "base.stdio.input.crlf",
        Stream::WantsBareNewlines,
    ),
    // Tools and lists.
    reply("open-unknown-tool", "base.tools.call.unknown", succeeds),
    reply("open-any-arguments", "base.tools.call.arguments", succeeds),
    reply(
        "open-content-as-text",
        "base.tools.call.shape",
        |frame, method| {
            if method == "tools/call" && frame.get("result").is_some() {
                set(frame, &["result"], "content", Json::from("text"));
            }
        },
    ),
    reply(
        "open-cursor-loops",
        "base.utilities.pages.end",
        |frame, method| {
            if method == "tools/list" {
                set(frame, &["result"], "nextCursor", Json::from("again"));
            }
        },
    ),
    reply(
        "open-cursor-null",
        "base.tools.list.shape",
        |frame, method| {
            if method == "tools/list" {
                set(frame, &["result"], "nextCursor", Json::Null);
            }
        },
    ),
    reply(
        "open-input-schema-broken",
        "base.tools.list.input",
        |frame, method| {
            if method == "tools/list" {
                each_tool(frame, "inputSchema", r#"{"type":"numeral"}"#);
            }
        },
    ),
    reply(
        "open-output-schema-broken",
        "base.tools.list.output",
        |frame, method| {
            if method == "tools/list" {
                each_tool(frame, "outputSchema", r#"{"type":"numeral"}"#);
            }
        },
    ),
    reply(
        "open-output-schema-not-kept",
        "base.tools.structured.everywhere",
        |frame, method| {
            let wanted = r#"{"type":"object","required":["touchstone"]}"#;
            if method == "tools/list" {
                each_tool(frame, "outputSchema", wanted);
            }
            if method == "tools/call" && frame.get("result").is_some() {
                let other = Json::parse(r#"{"other":1}"#).unwrap_or(Json::Null);
                set(frame, &["result"], "structuredContent", other);
            }
        },
    ),
    reply(
        "open-output-schema-no-structure",
        "base.tools.structured.everywhere",
        |frame, method| {
            if method == "tools/list" {
                each_tool(frame, "outputSchema", r#"{"type":"object"}"#);
            }
            if method == "tools/call" {
                super::edit::remove(frame, &["result"], "structuredContent");
            }
        },
    ),
    // Utilities.
    stream(
        "open-answers-cancelled",
        "base.utilities.cancellation.response",
        Stream::AnswersCancelled,
    ),
    stream(
        "open-progress-backwards",
        "base.utilities.progress.increases",
        Stream::ProgressBackwards,
    ),
    stream(
        "open-progress-late",
        "base.utilities.progress.stops",
        Stream::ProgressLate,
    ),
    stream(
        "open-progress-of-nobody",
        "base.utilities.progress.tokens",
        Stream::ProgressOfNobody,
    ),
    // The revision without sessions.
    reply(
        "open-lists-shrink",
        "base.stateless.requests.lists",
        |frame, method| {
            static CALLED: AtomicBool = AtomicBool::new(false);
            if method == "tools/call" {
                CALLED.store(true, Ordering::Relaxed);
            }
            if method == "tools/list"
                && CALLED.load(Ordering::Relaxed)
                && let Some(Json::Array(tools)) = at(frame, &["result", "tools"])
            {
                tools.clear();
            }
        },
    ),
    reply(
        "open-lists-ask-for-input",
        "base.stateless.input.form",
        |frame, method| {
            if method == "tools/list" && at(frame, &["result", "resultType"]).is_some() {
                set(
                    frame,
                    &["result"],
                    "resultType",
                    Json::from("input_required"),
                );
            }
        },
    ),
    reply(
        "open-no-result-type",
        "base.stateless.requests.result",
        |frame, _| {
            super::edit::remove(frame, &["result"], "resultType");
        },
    ),
    reply(
        "open-no-cache-hints",
        "base.stateless.caching.hints",
        |frame, _| {
            super::edit::remove(frame, &["result"], "ttlMs");
        },
    ),
    reply(
        "open-given-up-code",
        "base.stateless.refused.codes",
        |frame, _| {
            if let Some(code) = at(frame, &["error", "code"]) {
                *code = Json::from(-32002);
            }
        },
    ),
    // Streamable HTTP.
    over_http(
        "open-any-origin",
        "base.http.endpoint.origin",
        Mutation::HttpRequest(|request| request.drop_field("origin")),
    ),
    answer(
        "open-origin-not-403",
        "base.http.endpoint.forbidden",
        |answer, request| {
            if request.field("origin").is_some() && answer.status() == 403 {
                answer.set_status(400);
            }
        },
    ),
    answer(
        "open-get-without-stream",
        "base.http.endpoint.get",
        |answer, request| {
            if request.target().0 == "GET" {
                answer.set_status(404);
            }
        },
    ),
    over_http(
        "open-any-revision",
        "base.http.endpoint.version",
        Mutation::HttpRequest(|request| {
            if request.field("mcp-protocol-version") == Some("1999-01-01") {
                request.drop_field("mcp-protocol-version");
            }
        }),
    ),
    answer(
        "open-notification-not-202",
        "base.http.requests.notification",
        |answer, _| {
            if answer.status() == 202 {
                answer.set_status(200);
            }
        },
    ),
    answer(
        "open-session-not-needed",
        "base.http.sessions.missing",
        |answer, request| {
            if request.field("mcp-session-id").is_none() && answer.status() == 400 {
                answer.set_status(200);
            }
        },
    ),
    answer(
        "open-any-session",
        "base.http.sessions.unknown",
        |answer, request| {
            let unknown = request.field("mcp-session-id") == Some("touchstone-no-such-session");
            if unknown {
                answer.set_status(200);
            }
        },
    ),
    answer(
        "open-ended-session-400",
        "base.http.sessions.ended",
        |answer, request| {
            if request.field("mcp-session-id").is_some() && answer.status() == 404 {
                answer.set_status(400);
            }
        },
    ),
    answer(
        "open-delete-breaks",
        "base.http.sessions.delete",
        |answer, request| {
            if request.target().0 == "DELETE" {
                answer.set_status(500);
            }
        },
    ),
    over_http(
        "open-method-unchecked",
        "base.stateless.http.method",
        Mutation::HttpRequest(|request| {
            if request.field("mcp-method") == Some("tools/list") {
                request.set_field("Mcp-Method", "server/discover");
            }
        }),
    ),
    over_http(
        "open-names-not-decoded",
        "base.stateless.http.encoded",
        Mutation::HttpRequest(|request| {
            if request
                .field("mcp-name")
                .is_some_and(|name| name.starts_with("=?base64?"))
            {
                request.set_field("Mcp-Name", "not-decoded");
            }
        }),
    ),
    answer(
        "open-unknown-method-200",
        "base.stateless.http.unknown",
        |answer, request| {
            let asked = request.field("mcp-method");
            if asked.is_some_and(|method| method.starts_with("touchstone")) {
                answer.set_status(200);
            }
        },
    ),
];

/// Each tool that is listed has another schema.
fn each_tool(frame: &mut Json, name: &str, schema: &str) {
    let schema = Json::parse(schema).unwrap_or(Json::Null);
    if let Some(Json::Array(tools)) = at(frame, &["result", "tools"]) {
        for tool in tools {
            set(tool, &[], name, schema.clone());
        }
    }
}

/// A call that was refused succeeds.
fn succeeds(frame: &mut Json, method: &str) {
    let failed = at(frame, &["result", "isError"]) == Some(&mut Json::Bool(true));
    if method == "tools/call" && (failed || frame.get("error").is_some()) {
        super::edit::remove(frame, &[], "error");
        let result = Json::parse(r#"{"content":[]}"#).unwrap_or(Json::Null);
        set(frame, &[], "result", result);
    }
}
