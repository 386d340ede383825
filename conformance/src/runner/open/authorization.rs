//! Examines an HTTP server as a client without a token does: whether it refuses requests, and whether its metadata leads to a token.
//! Knows as much of RFC 9728 as MCP requires; knows nothing of cases.

use std::sync::Arc;

use serde_json::Value;

use super::connection::initialize_params;
use super::findings::Findings;
use crate::json;
use crate::target::Patience;
use crate::target::http::{Endpoint, HttpLink, HttpReply};
use crate::target::link;

/// Where the metadata is if no header names another place.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// `None` if the server does not refuse requests without a token; otherwise whether the endpoint's headers include
/// one.
pub async fn survey(
    endpoint: &Endpoint,
    findings: &Arc<Findings>,
    patience: Patience,
) -> Option<bool> {
    let is_token = |name: &str| name.eq_ignore_ascii_case("authorization");
    let (token, others): (Vec<_>, Vec<_>) = endpoint
        .headers
        .iter()
        .cloned()
        .partition(|(name, _)| is_token(name));
    let bare = Endpoint {
        url: endpoint.url.clone(),
        headers: others,
    };
    let link = HttpLink::new(&bare).ok()?;
    let params = initialize_params(link::PROTOCOL_VERSION);
    let body = link::frame(1, "initialize", Some(&params));
    let reply = link.post(&body, patience.start).await.ok()?;
    if reply.status != 401 {
        if reply.status < 300 {
            // The session was opened only to see whether the server permits it.
            link.enter_session(&reply);
            link.close(patience.reply).await;
        }
        return None;
    }
    metadata(&link, &endpoint.url, &reply, findings, patience).await;
    Some(!token.is_empty())
}

/// Records what is wrong with the metadata that a refusal points to.
async fn metadata(
    link: &HttpLink,
    url: &str,
    reply: &HttpReply,
    findings: &Arc<Findings>,
    patience: Patience,
) {
    let Some((origin, path)) = split_url(url) else {
        return;
    };
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    let named = parameter(challenge, "resource_metadata");
    if let Some(named) = &named
        && !named.starts_with(&format!("{origin}/"))
    {
        // A document on another machine is not examined.
        return;
    }
    let well_known = [
        format!("{origin}{WELL_KNOWN}{path}"),
        format!("{origin}{WELL_KNOWN}"),
    ];
    let places = match &named {
        Some(named) => vec![named.clone()],
        None => well_known.to_vec(),
    };
    for place in &places {
        let got = link.get(place, patience.reply).await;
        if let Some(reply) = got.ok().filter(|reply| reply.status == 200) {
            if let Some(wrong) = metadata_fault(&reply.body) {
                findings.add("bad-metadata", &format!("{place}: {wrong}"));
            }
            return;
        }
    }
    let tried = places.join(", ");
    findings.add(
        "no-metadata",
        &format!("`WWW-Authenticate: {challenge}`; nothing at {tried}"),
    );
}

/// What a metadata document lacks.
fn metadata_fault(text: &str) -> Option<&'static str> {
    let Some(Value::Object(document)) = json::parse_loosely(text) else {
        return Some("no JSON object");
    };
    if !document.get("resource").is_some_and(Value::is_string) {
        return Some("no `resource`");
    }
    let servers = document.get("authorization_servers");
    let servers = servers.and_then(Value::as_array);
    let named = servers.is_some_and(|servers| servers.iter().any(Value::is_string));
    (!named).then_some("no `authorization_servers`")
}

/// The origin and the path of a URL; the path of the root is empty.
fn split_url(url: &str) -> Option<(&str, &str)> {
    let authority = url.find("://")? + 3;
    let end = url[authority..]
        .find('/')
        .map_or(url.len(), |at| authority + at);
    let path = url[end..].split(['?', '#']).next()?;
    Some((&url[..end], path.trim_end_matches('/')))
}

/// A parameter of a challenge, quoted or not.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let start = challenge.to_ascii_lowercase().find(&format!("{name}="))?;
    let value = &challenge[start + name.len() + 1..];
    match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().map(str::to_owned),
        None => value.split([',', ' ']).next().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_urls_and_metadata_are_parsed() {
        let challenge = r#"Bearer realm="a", resource_metadata="http://a/x", scope="b c""#;
        assert_eq!(
            parameter(challenge, "resource_metadata").as_deref(),
            Some("http://a/x")
        );
        assert_eq!(
            parameter("Bearer scope=a, x=b", "scope").as_deref(),
            Some("a")
        );
        assert_eq!(parameter("Bearer", "scope"), None);
        assert_eq!(split_url("http://a:1/mcp?x"), Some(("http://a:1", "/mcp")));
        assert_eq!(split_url("http://a:1"), Some(("http://a:1", "")));
        assert_eq!(
            metadata_fault(r#"{"resource":"a","authorization_servers":["b"]}"#),
            None
        );
        assert_eq!(
            metadata_fault(r#"{"resource":"a","authorization_servers":[]}"#),
            Some("no `authorization_servers`")
        );
        assert_eq!(
            metadata_fault(r#"{"authorization_servers":["b"]}"#),
            Some("no `resource`")
        );
        assert_eq!(metadata_fault("<html>"), Some("no JSON object"));
    }
}
