//! What distinguishes the two MCP eras on the client's side. Knows params; knows nothing of transports.

/// Revision offered in `initialize`.
pub(crate) const LEGACY_VERSION: &str = "2025-06-18";
/// Revision spoken where there is no `initialize`.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";

const CLIENT: &str = concat!(
    r#"{"name":"ptc","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);

/// Params of `initialize`: no capabilities, so the server has nothing to ask of us.
pub(crate) fn initialize_params() -> String {
    format!(r#"{{"capabilities":{{}},"clientInfo":{CLIENT},"protocolVersion":"{LEGACY_VERSION}"}}"#)
}

/// `params` (the text of a JSON object) with the `_meta` that every stateless request carries.
pub(crate) fn with_meta(params: &str) -> String {
    let inner = params
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or("");
    let comma = if inner.trim().is_empty() { "" } else { "," };
    format!(
        r#"{{{inner}{comma}"_meta":{{"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{CLIENT},"io.modelcontextprotocol/protocolVersion":"{MODERN_VERSION}"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_joins_any_params() {
        for params in ["{}", r#"{"cursor":"a"}"#] {
            let value: serde_json::Value = serde_json::from_str(&with_meta(params)).unwrap();
            assert_eq!(
                value["_meta"]["io.modelcontextprotocol/protocolVersion"],
                MODERN_VERSION
            );
        }
        assert!(serde_json::from_str::<serde_json::Value>(&initialize_params()).is_ok());
    }
}
