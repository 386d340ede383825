//! JSON-RPC frames: reads a frame and its id, and writes requests, replies and errors directly as bytes.
//!
//! Knows nothing of the meaning of methods, nor of transports.

use ptc_json::{Json, JsonKind, Malformed, parse, write_string};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// One frame with the members that are present, parsed but not validated.
///
/// Of duplicate members the first counts.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// `jsonrpc` is present and equals `"2.0"`.
    pub version_ok: bool,
    /// The `id` member, of any kind.
    pub id: Option<Json<'a>>,
    /// The `method` member, of any kind.
    pub method: Option<Json<'a>>,
    pub params: Option<Json<'a>>,
    pub result: Option<Json<'a>>,
    pub error: Option<Json<'a>>,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// Not one JSON value: answered with [`RpcError::PARSE`].
    Malformed,
    /// JSON, but not an object (batches included), or an object whose id is too long to be repeated: answered with
    /// [`RpcError::INVALID_REQUEST`] and no id.
    NotAnObject,
}

impl From<Malformed> for FrameFault {
    fn from(_: Malformed) -> Self {
        FrameFault::Malformed
    }
}

/// Maximum bytes of an id as JSON text (`mcp.limits.sizes.id`). An id is stored, logged and sent back, so the sender
/// must not choose its length freely.
pub const ID_BYTES_MAX: usize = 4096;

impl<'a> Frame<'a> {
    /// Reads one frame from bytes that are not needed elsewhere as JSON.
    ///
    /// # Errors
    /// The bytes are not JSON, or not an object.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameFault> {
        Frame::of(parse(bytes)?)
    }

    /// The frame in `json`.
    ///
    /// # Errors
    /// `json` is not an object, or its id is too long.
    pub fn of(json: Json<'a>) -> Result<Self, FrameFault> {
        if json.kind() != JsonKind::Object {
            return Err(FrameFault::NotAnObject);
        }
        let mut frame = Frame {
            version_ok: false,
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
        };
        let mut version = None;
        for (name, value) in json.members() {
            let slot = match name.as_str().as_deref() {
                Some("jsonrpc") => &mut version,
                Some("id") => &mut frame.id,
                Some("method") => &mut frame.method,
                Some("params") => &mut frame.params,
                Some("result") => &mut frame.result,
                Some("error") => &mut frame.error,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        if frame.id.is_some_and(|id| id.text().len() > ID_BYTES_MAX) {
            return Err(FrameFault::NotAnObject);
        }
        frame.version_ok = version
            .and_then(Json::as_str)
            .is_some_and(|version| version == "2.0");
        Ok(frame)
    }

    /// The id in canonical form; `None` for a notification.
    pub fn request_id(&self) -> Option<Id> {
        self.id.map(Id::from_json)
    }

    /// The method's name; `None` when it is missing or not a string.
    pub fn method_name(&self) -> Option<Cow<'a, str>> {
        self.method.and_then(Json::as_str)
    }

    /// True for an answer to a request of ours: an id, a result or an error, and no method.
    pub fn is_response(&self) -> bool {
        self.method.is_none()
            && self.id.is_some()
            && (self.result.is_some() || self.error.is_some())
    }
}

/// A request id of any kind, compared with its type: `7`, `"7"` and `7.0` are three ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// The id in `json`, in canonical text.
    pub fn from_json(json: Json<'_>) -> Self {
        match json.kind() {
            // The two common kinds are already canonical, unless escaped.
            JsonKind::Integer if json.text() != "-0" => Id(json.text().into()),
            _ => Id(String::from(json.compact()).into()),
        }
    }

    pub fn null() -> Self {
        Id("null".into())
    }

    /// The id for a number from a client's counter.
    pub fn number(number: u64) -> Self {
        Id(number.to_string().into())
    }

    /// The id as JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// The id as plain text for logs and traces: a string without its quotes, any other kind as JSON.
    pub fn plain(&self) -> Cow<'_, str> {
        parse(self.0.as_bytes())
            .ok()
            .and_then(Json::as_str)
            .unwrap_or(Cow::Borrowed(&self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A JSON-RPC error object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// Negative in every error of the protocol.
    pub code: i64,
    /// At most one sentence.
    pub message: Cow<'static, str>,
    /// The `data` member as JSON text.
    pub data: Option<String>,
}

impl RpcError {
    /// The bytes are not JSON.
    pub const PARSE: RpcError = RpcError::fixed(-32700, "Parse error");
    /// JSON, but not a request.
    pub const INVALID_REQUEST: RpcError = RpcError::fixed(-32600, "Invalid Request");
    pub const METHOD_NOT_FOUND: RpcError = RpcError::fixed(-32601, "Method not found");
    /// The method's parameters have the wrong shape.
    pub const INVALID_PARAMS: RpcError = RpcError::fixed(-32602, "Invalid params");
    pub const INTERNAL: RpcError = RpcError::fixed(-32603, "Internal error");

    /// An error with a fixed message and no data.
    pub const fn fixed(code: i64, message: &'static str) -> Self {
        RpcError {
            code,
            message: Cow::Borrowed(message),
            data: None,
        }
    }
}

/// Appends a result reply; `result` appends the value of the `result` member.
pub fn write_result(out: &mut Vec<u8>, id: &Id, result: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(b",\"jsonrpc\":\"2.0\",\"result\":");
    result(out);
    out.push(b'}');
}

/// Appends an error reply; without `id`, the id is `null`.
pub fn write_error(out: &mut Vec<u8>, id: Option<&Id>, error: &RpcError) {
    out.extend_from_slice(b"{\"error\":{\"code\":");
    out.extend_from_slice(error.code.to_string().as_bytes());
    if let Some(data) = &error.data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b",\"message\":");
    write_string(out, &error.message);
    out.extend_from_slice(b"},\"id\":");
    out.extend_from_slice(id.map_or("null", Id::as_json).as_bytes());
    out.extend_from_slice(b",\"jsonrpc\":\"2.0\"}");
}

/// Appends a request; `params` is JSON text.
pub fn write_request(out: &mut Vec<u8>, id: &Id, method: &str, params: Option<&str>) {
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(id.as_json().as_bytes());
    out.push(b',');
    write_call(out, method, params);
}

/// Appends a notification; `params` is JSON text.
pub fn write_notification(out: &mut Vec<u8>, method: &str, params: Option<&str>) {
    out.push(b'{');
    write_call(out, method, params);
}

fn write_call(out: &mut Vec<u8>, method: &str, params: Option<&str>) {
    out.extend_from_slice(b"\"jsonrpc\":\"2.0\",\"method\":");
    write_string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
