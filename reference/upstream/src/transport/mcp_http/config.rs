//! The keys of an MCP server over HTTP.

use std::time::Duration;

use crate::config::{ConfigEntry, ConfigResult, RemoteConfig};
use ptc_protocol::limits::upstream_entry::HANDSHAKE_TIMEOUT_MS;

#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// The URL and the headers.
    pub remote: RemoteConfig,
    pub handshake_timeout: Duration,
}

pub(super) const KEYS: &[&str] = &["url", "handshake_timeout_ms"];

impl ConfigEntry<'_> {
    pub fn http(&self, warnings: &mut Vec<String>) -> ConfigResult<HttpConfig> {
        Ok(HttpConfig {
            remote: self.remote("url", warnings)?,
            handshake_timeout: self.millis("handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS, warnings),
        })
    }
}
