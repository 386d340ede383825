//! The common settings of upstreams over HTTP: address, headers, timeouts. Credentials appear here by name only.

use std::time::Duration;

use ptc_protocol::limits::upstream_entry::{
    CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, RESPONSE_BYTES_MAX,
};
use ptc_secrets::{Emitter, RESERVED_AUTH_HEADERS, Scheme};
use serde_json::Value;

use super::entry::{ConfigEntry, ConfigResult};

/// The settings that both HTTP transports share.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// `url` or `base_url`, checked.
    pub url: String,
    /// Auth emitters in order.
    pub auth: Vec<Emitter>,
    /// Literal headers, names in lower case.
    pub static_headers: Vec<(String, String)>,
    /// Maximum duration of one request.
    pub request_timeout: Duration,
    /// Maximum duration of connecting.
    pub connect_timeout: Duration,
    /// Maximum bytes of an answer (of a handshake answer for MCP).
    pub response_bytes_max: usize,
}

pub(crate) const REMOTE_KEYS: &[&str] = &[
    "auth",
    "static_headers",
    "allow_insecure_http",
    "allow_insecure_auth",
    "request_timeout_ms",
    "connect_timeout_ms",
    "max_response_bytes",
];

/// The number that common servers accept.
const STATIC_HEADERS_MAX: usize = 100;
/// Names that `static_headers` may not set: secrets belong in `auth`, and the last three are set by the client.
const RESERVED_STATIC_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "mcp-protocol-version",
    "mcp-session-id",
    "user-agent",
];

impl ConfigEntry<'_> {
    pub fn remote(&self, url_key: &str, warnings: &mut Vec<String>) -> ConfigResult<RemoteConfig> {
        let auth = self.auth()?;
        let url = self
            .url(url_key)?
            .ok_or_else(|| self.refuse(&[], &format!("requires {url_key}")))?;
        self.check_insecure_http(url_key, &url, &auth)?;
        let static_headers = self.static_headers()?;
        for emitter in &auth {
            let Scheme::CustomHeader(header) = &emitter.scheme else {
                continue;
            };
            if static_headers
                .iter()
                .any(|(name, _)| name == header.as_str())
            {
                let cause =
                    format!("configures header \"{header}\" in both auth and static_headers");
                return Err(self.refuse(&["static_headers"], &cause));
            }
        }
        Ok(RemoteConfig {
            url,
            auth,
            static_headers,
            request_timeout: self.millis("request_timeout_ms", REQUEST_TIMEOUT_MS, warnings),
            connect_timeout: self.millis("connect_timeout_ms", CONNECT_TIMEOUT_MS, warnings),
            response_bytes_max: self.positive("max_response_bytes", RESPONSE_BYTES_MAX, warnings)
                as usize,
        })
    }

    /// Plain HTTP needs one opt-in, and auth over it a second.
    pub fn check_insecure_http(&self, key: &str, url: &str, auth: &[Emitter]) -> ConfigResult<()> {
        if !url.starts_with("http://") {
            return Ok(());
        }
        let allowed = |flag| self.get(flag) == Some(&Value::Bool(true));
        if !allowed("allow_insecure_http") {
            return Err(self.refuse(
                &[key],
                &format!(
                    "{key} \"{}\" uses http:// without allow_insecure_http",
                    shown(url)
                ),
            ));
        }
        if !auth.is_empty() && !allowed("allow_insecure_auth") {
            return Err(self.refuse(
                &[key],
                "uses http:// with auth but allow_insecure_auth is not true",
            ));
        }
        Ok(())
    }

    /// A URL with an http or https scheme (returned in lower case) and a host.
    pub fn url(&self, key: &str) -> ConfigResult<Option<String>> {
        let text = match self.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => return Err(self.refuse(&[key], &format!("{key} must be a string"))),
        };
        let shown = shown(text);
        let malformed = || self.refuse(&[key], &format!("has malformed {key} \"{shown}\""));
        let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(self.refuse(
                &[key],
                &format!("{key} carries credentials in the URL; use auth"),
            ));
        }
        if authority.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(malformed());
        }
        if scheme != "http" && scheme != "https" {
            return Err(self.refuse(
                &[key],
                &format!("{key} \"{shown}\" has unsupported URL scheme \"{scheme}\""),
            ));
        }
        Ok(Some(format!("{scheme}://{rest}")))
    }

    fn auth(&self) -> ConfigResult<Vec<Emitter>> {
        let items = match self.get("auth") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.refuse(&["auth"], "auth must be a list")),
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| self.emitter(&index.to_string(), item))
            .collect()
    }

    fn emitter(&self, index: &str, item: &Value) -> ConfigResult<Emitter> {
        let invalid = |key: Option<&str>, cause: &str| {
            let path: Vec<&str> = ["auth", index].into_iter().chain(key).collect();
            self.refuse(&path, &format!("has invalid auth emitter: {cause}"))
        };
        let field = |key| {
            item.get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let scheme = field("scheme").ok_or_else(|| {
            invalid(
                None,
                "`scheme` is missing; use bearer, basic or custom_header",
            )
        })?;
        let binding = field("binding").ok_or_else(|| invalid(None, "`binding` is missing"))?;
        let scheme = match scheme {
            "bearer" => Scheme::Bearer,
            "basic" => Scheme::Basic,
            "custom_header" | "api_key" => {
                let header =
                    field("header").ok_or_else(|| invalid(None, "custom_header needs `header`"))?;
                let name = header.parse::<http::HeaderName>().map_err(|_| {
                    self.refuse(
                        &["auth", index, "header"],
                        &format!("auth header \"{header}\" is invalid"),
                    )
                })?;
                if RESERVED_AUTH_HEADERS.contains(&name.as_str()) {
                    let cause = format!("auth header \"{header}\" is reserved");
                    return Err(self.refuse(&["auth", index, "header"], &cause));
                }
                Scheme::CustomHeader(name)
            }
            other => {
                let cause =
                    format!("unknown scheme \"{other}\"; use bearer, basic or custom_header");
                return Err(invalid(Some("scheme"), &cause));
            }
        };
        let credentials = &self.document.credentials;
        // Why the credential could not be resolved is reported at its own place.
        if credentials.get(binding).is_none() && !credentials.is_refused(binding) {
            let cause = format!("references unknown credential binding {binding}");
            return Err(self.refuse(&["auth", index, "binding"], &cause));
        }
        Ok(Emitter {
            scheme,
            binding: binding.to_owned(),
        })
    }

    fn static_headers(&self) -> ConfigResult<Vec<(String, String)>> {
        let entries = match self.get("static_headers") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => {
                return Err(self.refuse(&["static_headers"], "static_headers must be an object"));
            }
        };
        if entries.len() > STATIC_HEADERS_MAX {
            let count = entries.len();
            let cause = format!(
                "static_headers has {count} headers, more than the {STATIC_HEADERS_MAX} that it may have"
            );
            return Err(self.refuse(&["static_headers"], &cause));
        }
        let mut headers: Vec<(String, String)> = Vec::new();
        for (header, value) in entries {
            let refuse = |cause: &str| {
                self.refuse(
                    &["static_headers", header],
                    &format!("static_headers {cause}"),
                )
            };
            let name = header
                .parse::<http::HeaderName>()
                .map_err(|_| refuse(&format!("header \"{header}\" is invalid")))?;
            if RESERVED_STATIC_HEADERS.contains(&name.as_str()) {
                return Err(refuse(&format!("header \"{header}\" is reserved")));
            }
            let Value::String(value) = value else {
                return Err(refuse(&format!("\"{header}\" value must be a string")));
            };
            if http::HeaderValue::from_str(value).is_err() {
                return Err(refuse(&format!(
                    "\"{header}\" value contains characters that a header cannot carry"
                )));
            }
            if headers.iter().any(|(seen, _)| seen == name.as_str()) {
                return Err(refuse(&format!("duplicate header \"{header}\"")));
            }
            headers.push((name.as_str().to_owned(), value.clone()));
        }
        Ok(headers)
    }
}

/// A URL as messages show it: not at all where a part of it could be a credential. Without that part, the beginning of a credential that
/// contains a delimiter could not be recognised.
fn shown(url: &str) -> &str {
    match url.contains(['@', '?', '#']) {
        true => "…",
        false => url,
    }
}
