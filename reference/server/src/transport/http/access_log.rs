//! Logs and counts each HTTP request. Knows nothing of its contents.

use super::endpoint::Endpoint;
use crate::diagnostics::log::text_or_null;
use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use ptc_secrets::Redactor;
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;
use tower_http::request_id::RequestId;
use tracing::Level;

/// The members of a request's log line, filled in as they become known.
#[derive(Clone, Default)]
pub struct AccessRecord(Arc<Fields>);

#[derive(Default)]
struct Fields {
    request_id: String,
    owner_hash: OnceLock<String>,
    session_hash: OnceLock<String>,
}

impl AccessRecord {
    /// The id that the reply carries.
    pub fn request_id(&self) -> &str {
        &self.0.request_id
    }

    /// Records the owner of the session that the request asks for or belongs to. Unknown while only the token was checked.
    pub fn owner(&self, hash: &str) {
        let _first_counts = self.0.owner_hash.set(hash.to_owned());
    }

    /// Records the request's session.
    pub fn session(&self, hash: String) {
        let _first_counts = self.0.session_hash.set(hash);
    }
}

/// Bytes of the longest method or path that a line quotes.
const SHOWN_BYTES_MAX: usize = 1024;

/// Answers a request, then logs and counts it.
pub async fn log(
    endpoint: &Endpoint,
    mut request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let id = request.extensions().get::<RequestId>();
    let id = id.map_or(&b""[..], |id| id.header_value().as_bytes());
    let record = AccessRecord(Arc::new(Fields {
        request_id: String::from_utf8_lossy(id).into_owned(),
        ..Fields::default()
    }));
    let started = Instant::now();
    let server = endpoint.server();
    let named = tracing::enabled!(Level::INFO).then(|| {
        (
            shortened(request.method().as_str()),
            path_of(request.uri(), &server.redactor),
        )
    });
    request.extensions_mut().insert(record.clone());
    let response = answer(request).await;
    let status = response.status().as_u16();
    if let Some(counters) = &server.counters {
        counters.request(status);
    }
    let class = match status {
        400..=499 => Some("client_error"),
        500.. => Some("server_error"),
        _ => None,
    };
    let Some((method, path)) = named else {
        return response;
    };
    let known = |hash: &OnceLock<String>| hash.get().cloned();
    let (owner, session) = (known(&record.0.owner_hash), known(&record.0.session_hash));
    tracing::info!(
        event = "http_request_stop",
        request_id = record.request_id(),
        duration_ms = started.elapsed().as_millis(),
        error_class = text_or_null(&class),
        instance = endpoint.settings().instance,
        method,
        owner_hash = text_or_null(&owner.as_deref()),
        path,
        session_hash = text_or_null(&session.as_deref()),
        status,
    );
    response
}

/// The path of a request's target. The query is removed after scrubbing: a credential may contain a question mark.
fn path_of(target: &Uri, redactor: &Redactor) -> String {
    match target.path_and_query().filter(|it| it.query().is_some()) {
        None => shortened(target.path()),
        Some(whole) => {
            let whole = shortened(whole.as_str());
            let clean = redactor.scrub_str(&whole);
            let path = clean.split('?').next();
            path.unwrap_or_default().to_owned()
        }
    }
}

/// Quotes a text that anybody may send, of any length. A long one is replaced by its length: scrubbing it takes time, and a part of it
/// could be a part of a credential.
fn shortened(text: &str) -> String {
    match text.len() {
        0..=SHOWN_BYTES_MAX => text.to_owned(),
        bytes => format!("({bytes} bytes)"),
    }
}
