//! The differences between the two MCP eras on the client's side. Knows params; knows nothing of transports.

use crate::trace_context::TraceContext;

/// The revision offered in `initialize`.
pub(crate) const LEGACY_VERSION: &str = "2025-06-18";
/// The revision used with servers that have no `initialize`.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";

const CLIENT: &str = concat!(
    r#"{"name":"ptc","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// Params of `initialize`: without capabilities, so the server has nothing to ask for.
pub(crate) fn initialize_params() -> String {
    format!(r#"{{"capabilities":{{}},"clientInfo":{CLIENT},"protocolVersion":"{LEGACY_VERSION}"}}"#)
}

/// `params` (the text of a JSON object) with the `_meta` that every stateless request carries, including the trace
/// context.
pub(crate) fn with_meta(params: &str, trace: Option<&TraceContext>) -> String {
    let mut meta = format!(
        r#"{{"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{CLIENT},"io.modelcontextprotocol/protocolVersion":"{MODERN_VERSION}"}}"#
    );
    for (name, value) in trace.into_iter().flat_map(TraceContext::fields) {
        meta = with_member(&meta, name, &serde_json::Value::from(value).to_string());
    }
    with_member(params, "_meta", &meta)
}

/// `params` with the trace context in its `_meta`, if there is one.
pub(crate) fn with_trace(params: &str, trace: Option<&TraceContext>) -> String {
    let Some(trace) = trace else {
        return params.to_owned();
    };
    let mut meta = "{}".to_owned();
    for (name, value) in trace.fields() {
        meta = with_member(&meta, name, &serde_json::Value::from(value).to_string());
    }
    with_member(params, "_meta", &meta)
}

/// `object` (the text of a JSON object) with one more member, whose value is JSON text.
fn with_member(object: &str, name: &str, value: &str) -> String {
    let inner = object
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or("");
    let comma = if inner.trim().is_empty() { "" } else { "," };
    format!(r#"{{{inner}{comma}"{name}":{value}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_added_to_any_params() {
        for params in ["{}", r#"{"cursor":"a"}"#] {
            let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
            let trace = TraceContext::new(parent, Some("a=1"));
            let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
            let modern = read(with_meta(params, trace.as_ref()));
            assert_eq!(
                modern["_meta"]["io.modelcontextprotocol/protocolVersion"],
                MODERN_VERSION
            );
            assert_eq!(modern["_meta"]["traceparent"], parent);
            let legacy = read(with_trace(params, trace.as_ref()));
            assert_eq!(
                legacy["_meta"],
                serde_json::json!({"traceparent": parent, "tracestate": "a=1"})
            );
            assert_eq!(with_trace(params, None), params);
        }
        assert!(serde_json::from_str::<serde_json::Value>(&initialize_params()).is_ok());
    }
}
