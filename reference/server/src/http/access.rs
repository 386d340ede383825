//! One log line per HTTP request. Knows nothing of what was asked.

use crate::log::Log;
use crate::settings::Level;
use tokio::time::Instant;

/// What the line says, filled in as it becomes known.
pub struct Access {
    /// The id that the reply carries.
    pub request_id: String,
    /// When the request came.
    pub started: Instant,
    /// Its method.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Whose session it asks for or is in; `None` while nothing but the token was looked at.
    pub owner_hash: Option<String>,
    /// Which session it is in.
    pub session_hash: Option<String>,
}

impl Access {
    /// Writes the line.
    pub fn log(&self, log: &Log, instance: &str, status: u16) {
        let class = match status {
            400..=499 => Some("client_error"),
            500.. => Some("server_error"),
            _ => None,
        };
        log.event(
            Level::Info,
            "http_request_stop",
            Some(&self.request_id),
            |fields| {
                fields
                    .number("duration_ms", self.started.elapsed().as_millis())
                    .maybe("error_class", class)
                    .text("instance", instance)
                    .text("method", &self.method)
                    .maybe("owner_hash", self.owner_hash.as_deref())
                    .text("path", &self.path)
                    .maybe("session_hash", self.session_hash.as_deref())
                    .number("status", status);
            },
        );
    }
}
