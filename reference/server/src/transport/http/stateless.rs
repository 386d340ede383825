//! Headers that mirror a stateless request (revision 2026-07-28): read, decoded, compared. Pure.

use crate::mcp::incoming::Incoming;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ptc_rpc::RpcError;
use std::borrow::Cow;

/// The mirroring headers of a request.
pub struct MirroredHeaders<'a> {
    /// `MCP-Protocol-Version`
    pub version: Option<&'a str>,
    /// `Mcp-Method`
    pub method: Option<&'a str>,
    /// `Mcp-Name`
    pub name: Option<&'a str>,
}

/// The error code for a header that contradicts the body.
pub const HEADER_MISMATCH: i64 = -32020;

/// Compares headers with the body.
///
/// # Errors
/// The error that names the header.
pub fn check(
    headers: &MirroredHeaders<'_>,
    asked: &Incoming<'_>,
    version: &str,
) -> Result<(), RpcError> {
    compare("MCP-Protocol-Version", headers.version, version)?;
    let method = asked.method.as_deref().unwrap_or_default();
    compare("Mcp-Method", headers.method, method)?;
    if method == "tools/call" {
        let name = asked.tool.as_deref().unwrap_or_default();
        let given = headers.name.map(decode).transpose()?;
        compare("Mcp-Name", given.as_deref(), name)?;
    }
    Ok(())
}

fn compare(header: &str, given: Option<&str>, body: &str) -> Result<(), RpcError> {
    match given {
        Some(given) if given == body => Ok(()),
        Some(_) => Err(mismatch(format!(
            "Header mismatch: {header} header does not match the body"
        ))),
        None => Err(mismatch(format!(
            "Header mismatch: {header} header is required"
        ))),
    }
}

fn mismatch(message: String) -> RpcError {
    RpcError {
        code: HEADER_MISMATCH,
        message: message.into(),
        data: None,
    }
}

/// A header value, decoded when it has the form `=?base64?…?=`.
fn decode(value: &str) -> Result<Cow<'_, str>, RpcError> {
    let Some(inner) = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
    else {
        return Ok(Cow::Borrowed(value));
    };
    STANDARD
        .decode(inner)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Cow::Owned)
        .ok_or_else(|| mismatch("Header mismatch: Mcp-Name header is not valid Base64 text".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptc_rpc::Frame;

    fn verdict(version: Option<&str>, method: Option<&str>, name: Option<&str>) -> String {
        let body =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_eval"}}"#;
        let frame = Frame::parse(body.as_bytes()).unwrap();
        match check(
            &MirroredHeaders {
                version,
                method,
                name,
            },
            &frame.into(),
            "2026-07-28",
        ) {
            Ok(()) => "ok".into(),
            Err(error) => error.message.into_owned(),
        }
    }

    #[test]
    fn headers_must_mirror_the_body() {
        let (version, method) = (Some("2026-07-28"), Some("tools/call"));
        assert_eq!(verdict(version, method, Some("lisp_eval")), "ok");
        assert_eq!(
            verdict(version, method, Some("=?base64?bGlzcF9ldmFs?=")),
            "ok"
        );
        assert_eq!(
            verdict(version, method, None),
            "Header mismatch: Mcp-Name header is required"
        );
        assert_eq!(
            verdict(version, method, Some("lisp_task")),
            "Header mismatch: Mcp-Name header does not match the body"
        );
        for wrong in ["!!", "A", "AB", "====", "AB=C", "A b=", "/w=="] {
            assert_eq!(
                verdict(version, method, Some(&format!("=?base64?{wrong}?="))),
                "Header mismatch: Mcp-Name header is not valid Base64 text"
            );
        }
        assert!(verdict(version, Some("TOOLS/CALL"), None).contains("Mcp-Method"));
        assert!(verdict(None, method, None).contains("MCP-Protocol-Version"));
    }
}
