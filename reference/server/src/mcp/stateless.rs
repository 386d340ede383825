//! The stateless revision (2026-07-28): what each of its requests declares, and the results that only it has.
//!
//! Knows nothing of sessions or of calls in flight.

use crate::mcp::connection::{SESSION_REVISIONS, STATELESS_REVISION};
use crate::mcp::dispatch::{MethodCall, own_result};
use crate::mcp::incoming::{Incoming, META_VERSION};
use crate::mcp::tools;
use crate::render::reply::{Era, Reply};
use ptc_protocol::Payload;
use ptc_protocol::members::{Capabilities, DiscoverResult, UnsupportedVersion};
use ptc_rpc::{Json, JsonKind, RpcError};
use ptc_secrets::Redactor;
use std::borrow::Cow;
use std::sync::Arc;

/// The other key under `_meta` that every stateless request needs.
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The error code for a revision that the server does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;
/// How long a client may cache the results of `tools/list` and `server/discover`: they cannot change while the process lives.
const CACHE_TTL_MS: u64 = 300_000;
/// Who may cache them: the client only.
const CACHE_SCOPE: &str = "private";

/// Checks that a request has an id that a reply can name, and declares the revision that this server speaks.
///
/// # Errors
/// The error of its reply.
pub(super) fn check_request(redactor: &Redactor, incoming: &Incoming<'_>) -> Result<(), RpcError> {
    let frame = &incoming.frame;
    let nameable = frame
        .id
        .is_some_and(|id| matches!(id.kind(), JsonKind::String | JsonKind::Integer));
    if !frame.version_ok || !nameable {
        return Err(RpcError::INVALID_REQUEST);
    }
    match declared_version(incoming)? {
        version if version == STATELESS_REVISION => Ok(()),
        version => Err(unsupported(&redactor.scrub_str(&version))),
    }
}

/// The revision that a stateless request declares.
///
/// # Errors
/// `Invalid params` when a required member of `_meta` is missing or has the wrong kind.
pub fn declared_version<'a>(incoming: &Incoming<'a>) -> Result<Cow<'a, str>, RpcError> {
    let meta = |key: &str| incoming.members.meta?.get(key);
    let missing = |key: &str| RpcError {
        message: format!("Invalid params: _meta needs {key}").into(),
        ..RpcError::INVALID_PARAMS
    };
    let version = meta(META_VERSION)
        .and_then(Json::as_str)
        .ok_or_else(|| missing(META_VERSION))?;
    match meta(META_CAPABILITIES).map(Json::kind) {
        Some(JsonKind::Object) => Ok(version),
        _ => Err(missing(META_CAPABILITIES)),
    }
}

/// Validates a client's responses to questions that this server never asks: an object of objects by key, and the text of a state.
///
/// # Errors
/// `Invalid params`: what is wrong with them.
pub(super) fn check_input_responses(params: Option<Json<'_>>) -> Result<(), RpcError> {
    let wrong = |what: &str| {
        Err(RpcError {
            message: format!("Invalid params: {what}").into(),
            ..RpcError::INVALID_PARAMS
        })
    };
    let member = |name: &str| params.and_then(|params| params.get(name));
    if let Some(responses) = member("inputResponses") {
        if responses.kind() != JsonKind::Object {
            return wrong("inputResponses must be an object");
        }
        if responses
            .members()
            .any(|(_, response)| response.kind() != JsonKind::Object)
        {
            return wrong("every response in inputResponses must be an object");
        }
    }
    match member("requestState").map(Json::kind) {
        None | Some(JsonKind::String) => Ok(()),
        Some(_) => wrong("requestState must be a string"),
    }
}

pub(super) fn discover(call: &MethodCall<'_>) -> Reply {
    let result = DiscoverResult {
        cache_scope: CACHE_SCOPE,
        capabilities: Capabilities::default(),
        supported_versions: supported_versions(),
        ttl_ms: CACHE_TTL_MS,
    };
    let json = stateless_result(&Payload::from(result).to_json());
    own_result(call.id.clone(), json)
}

pub(super) fn tools_list(call: &MethodCall<'_>) -> Reply {
    let json = tools::list(&call.handler.tools).derive(|list| {
        let tools = list.strip_prefix('{').unwrap_or("}");
        stateless_result(&format!(
            "{{\"cacheScope\":\"{CACHE_SCOPE}\",\"ttlMs\":{CACHE_TTL_MS},{tools}"
        ))
    });
    Reply::json(call.id.clone(), Arc::new(json))
}

/// The object `result` with the members that every result of the stateless revision begins with.
fn stateless_result(result: &str) -> String {
    let members = result.strip_prefix('{').unwrap_or("}");
    format!("{{{}{members}", Era::Stateless.result_members())
}

fn unsupported(requested: &str) -> RpcError {
    let data = UnsupportedVersion {
        requested: requested.to_owned(),
        supported: supported_versions(),
    };
    RpcError {
        code: UNSUPPORTED_VERSION,
        message: "Unsupported protocol version".into(),
        data: Some(Payload::from(data).to_json()),
    }
}

/// The revisions of both eras, the newest first.
fn supported_versions() -> Vec<&'static str> {
    let stateless = std::iter::once(STATELESS_REVISION);
    stateless.chain(SESSION_REVISIONS).collect()
}
