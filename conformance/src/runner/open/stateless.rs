//! Converts messages to revision 2026-07-28: each request names its revision and the client's capabilities, and over HTTP, headers
//! repeat parts of the body. Knows JSON; knows nothing of connections or cases.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::findings::Findings;

/// The revision without sessions.
pub const REVISION: &str = "2026-07-28";
/// The key of `_meta` that names the revision.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The JSON pointer to the revision.
const VERSION_AT: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// The method that earlier revisions use to check that a server is alive, and its replacement here.
const PING: (&str, &str) = ("ping", "server/discover");

/// The `_meta` of each request, for a client with these capabilities.
pub fn meta(capabilities: &Value) -> Value {
    json!({
        VERSION_KEY: REVISION,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Converts a line that a case wrote for any revision to this one. Anything but a request is unchanged.
pub fn convert_message(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(mut message) if message.get("id").is_some() && message["method"].is_string() => {
            if message["method"] == PING.0 {
                message["method"] = Value::from(PING.1);
            }
            with_meta(&mut message);
            message.to_string()
        }
        _ => line.to_owned(),
    }
}

fn with_meta(message: &mut Value) {
    if message.get("params").is_none() {
        message["params"] = json!({});
    }
    let Some(params) = message["params"].as_object_mut() else {
        return;
    };
    let own = params.entry("_meta").or_insert_with(|| json!({}));
    if let (Some(own), Value::Object(usual)) = (own.as_object_mut(), meta(&json!({}))) {
        for (key, value) in usual {
            own.entry(key).or_insert(value);
        }
    }
}

/// Converts bytes that need not be a whole message: only a `"method":"ping"` in them is replaced.
pub fn convert_bytes(bytes: &[u8]) -> Vec<u8> {
    let other = format!(
        "\"{}\",\"params\":{{\"_meta\":{}}}",
        PING.1,
        meta(&json!({}))
    );
    let mut said = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((before, after)) = ping(rest) {
        said.extend_from_slice(before);
        said.extend_from_slice(other.as_bytes());
        rest = after;
    }
    said.extend_from_slice(rest);
    said
}

/// The bytes before and after the first `"ping"` that is the value of `"method"`.
fn ping(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = format!("\"{}\"", PING.0);
    let name = name.as_bytes();
    let at = bytes.windows(name.len()).position(|part| part == name)?;
    let before = &bytes[..at];
    let key = before.trim_ascii_end().strip_suffix(b":")?;
    let found = key.trim_ascii_end().ends_with(b"\"method\"");
    found.then_some((before, &bytes[at + name.len()..]))
}

/// The headers that repeat parts of a request's body; `None` for a message of another revision.
pub fn headers(text: &str, findings: &Findings) -> Option<Vec<(String, String)>> {
    let message = serde_json::from_str::<Value>(text).ok()?;
    let at = |path: &str| message.pointer(path).and_then(Value::as_str);
    let revision = at(VERSION_AT)?;
    let method = at("/method")?;
    let name = match method {
        "tools/call" | "prompts/get" => at("/params/name"),
        "resources/read" => at("/params/uri"),
        _ => None,
    };
    let mut headers = vec![
        ("MCP-Protocol-Version".to_owned(), revision.to_owned()),
        ("Mcp-Method".to_owned(), method.to_owned()),
    ];
    headers.extend(name.map(|name| ("Mcp-Name".to_owned(), header_value(name))));
    headers.extend(parameter_headers(&message, findings));
    Some(headers)
}

/// The headers of a notification; the revision requires only its method.
pub fn notification_headers(text: &str) -> Vec<(String, String)> {
    let message = serde_json::from_str::<Value>(text).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str);
    let method = method.map(|method| ("Mcp-Method".to_owned(), method.to_owned()));
    let version = ("MCP-Protocol-Version".to_owned(), REVISION.to_owned());
    [version].into_iter().chain(method).collect()
}

/// The headers that a tool wants to repeat parameters of its call.
pub fn parameter_headers(message: &Value, findings: &Findings) -> Vec<(String, String)> {
    let at = |path: &str| message.pointer(path);
    let (Some("tools/call"), Some(tool)) = (
        at("/method").and_then(Value::as_str),
        at("/params/name").and_then(Value::as_str),
    ) else {
        return Vec::new();
    };
    let Some(arguments) = at("/params/arguments") else {
        return Vec::new();
    };
    let mirrored = findings.header_parameters(tool).into_iter();
    mirrored
        .filter_map(|(path, name)| {
            let value = header_text(arguments.pointer(&path)?)?;
            Some((format!("Mcp-Param-{name}"), value))
        })
        .collect()
}

/// The value of a parameter in the form for a header.
pub fn header_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(header_value(text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// A text in the form for a header: unchanged, or in marked Base64 (2026-07-28, Streamable HTTP, Value Encoding).
pub fn header_value(text: &str) -> String {
    let plain = |c: char| matches!(c, ' '..='~');
    if text.chars().all(plain) && text.trim() == text && !text.starts_with("=?base64?") {
        return text.to_owned();
    }
    base64_value(text)
}

/// A text in Base64, with the marks.
pub fn base64_value(text: &str) -> String {
    format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_repeat_request_members() {
        let findings = Findings::default();
        let mirrored = vec![("/where/region".to_owned(), "Region".to_owned())];
        findings.register_header_parameters("ä", mirrored);
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"ä","arguments":{"where":{"region":"eu"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let wanted = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "=?base64?w6Q=?="),
            ("Mcp-Param-Region", "eu"),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers(call, &findings), Some(wanted.to_vec()));
        assert_eq!(headers(r#"{"id":1,"method":"ping"}"#, &findings), None);
        assert_eq!(header_value("a/b c"), "a/b c");
        assert_eq!(header_value(" a"), "=?base64?IGE=?=");
        assert_eq!(
            header_value("=?base64?YQ==?="),
            "=?base64?PT9iYXNlNjQ/WVE9PT89?="
        );
    }

    #[test]
    fn requests_name_their_revision() {
        let usual = meta(&json!({}));
        let said: Value = serde_json::from_str(&convert_message(
            r#"{"jsonrpc":"2.0","id":9007199254740991,"method":"ping","params":{"_meta":{"progressToken":1}}}"#,
        ))
        .expect("JSON");
        assert_eq!(said["id"].to_string(), "9007199254740991");
        assert_eq!(said["method"], "server/discover");
        assert_eq!(said["params"]["_meta"]["progressToken"], 1);
        assert_eq!(said["params"]["_meta"][VERSION_KEY], REVISION);
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
            "hello",
            "[]",
        ] {
            assert_eq!(convert_message(line), line);
        }
        let pieces = convert_bytes(b"{\"id\":\"\xC3\", \"method\" : \"ping\"}\r\n");
        let wanted = format!("\"server/discover\",\"params\":{{\"_meta\":{usual}}}}}\r\n");
        assert!(pieces.ends_with(wanted.as_bytes()));
        assert_eq!(convert_bytes(b"{\"id\":\"ping\""), b"{\"id\":\"ping\"");
    }
}
