//! Bodies of requests: each within a size and a time limit, and all together within a budget. Knows nothing of their content.

use super::endpoint::Endpoint;
use super::refusal::HttpRefusal;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap};
use axum::http::request::Parts;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of an oversized body that are read and discarded, so that the connection stays usable.
const DISCARD_BYTES_MAX: usize = 1 << 20;
/// Initial allocation for a body, unless the body announced that it is shorter.
const FIRST_BYTES: usize = 4 << 10;

/// Bytes that the bodies of all requests hold, and their maximum.
pub struct BodyBudget {
    max: usize,
    held: AtomicUsize,
}

impl BodyBudget {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(BodyBudget {
            max,
            held: AtomicUsize::new(0),
        })
    }

    #[cfg(feature = "checks")]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.max);
        let relaxed = Ordering::Relaxed;
        self.held.fetch_update(relaxed, relaxed, more).is_ok()
    }
}

/// A body's bytes; dropping them returns their share of the budget.
pub struct BodyBytes {
    bytes: Vec<u8>,
    first: usize,
    budget: Arc<BodyBudget>,
}

impl BodyBytes {
    fn new(budget: Arc<BodyBudget>, announced: Option<usize>) -> Self {
        BodyBytes {
            bytes: Vec::new(),
            first: announced.map_or(FIRST_BYTES, |bytes| bytes.min(FIRST_BYTES)),
            budget,
        }
    }

    /// Appends `data` if the budget has room for it. The allocation grows with the received bytes, whatever length the body announced.
    fn push(&mut self, data: &[u8], cap: usize) -> Result<(), HttpRefusal> {
        let needed = self.bytes.len() + data.len();
        let room = self.bytes.capacity();
        if needed > room {
            let wanted = needed.max(room * 2).max(self.first).min(cap.max(needed));
            if !self.budget.take(wanted - room) {
                return Err(HttpRefusal::NoRoomForBody);
            }
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        let room = self.bytes.capacity();
        self.budget.held.fetch_sub(room, Ordering::Relaxed);
    }
}

/// A POST whose body has arrived.
pub struct Posted {
    /// Everything before the body.
    pub head: Parts,
    body: BodyBytes,
}

impl Posted {
    /// The body; never empty.
    pub fn body(&self) -> &[u8] {
        &self.body.bytes
    }
}

impl FromRequest<Arc<Endpoint>> for Posted {
    type Rejection = HttpRefusal;

    async fn from_request(request: Request, endpoint: &Arc<Endpoint>) -> Result<Self, HttpRefusal> {
        let (head, body) = request.into_parts();
        if let Some(kind) = head.headers.get(CONTENT_TYPE)
            && !kind.to_str().is_ok_and(is_json)
        {
            return Err(HttpRefusal::UnsupportedMediaType);
        }
        let timeout = Duration::from_millis(endpoint.settings().request_timeout_ms);
        let body = tokio::time::timeout(timeout, read(endpoint, body, &head.headers)).await;
        let body = body.map_err(|_| HttpRefusal::BodyTimeout)??;
        match body.bytes.is_empty() {
            true => Err(HttpRefusal::EmptyBody),
            false => Ok(Posted { head, body }),
        }
    }
}

async fn read(
    endpoint: &Endpoint,
    mut body: Body,
    headers: &HeaderMap,
) -> Result<BodyBytes, HttpRefusal> {
    let cap = endpoint.settings().body_bytes;
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|text| text.to_str().ok());
    let announced = length.and_then(|text| text.parse::<usize>().ok());
    let beyond = announced.map_or(0, |announced| announced.saturating_sub(cap));
    let (too_large, discards) = (beyond > 0, beyond <= DISCARD_BYTES_MAX);
    if too_large && (!discards || headers.contains_key(EXPECT)) {
        return Err(HttpRefusal::PayloadTooLarge);
    }
    let mut bytes = BodyBytes::new(endpoint.body_budget().clone(), announced);
    let mut total = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| HttpRefusal::Malformed)?.into_data() else {
            continue;
        };
        total = total.saturating_add(data.len());
        if total <= cap && !too_large {
            bytes.push(&data, cap)?;
        } else if total.saturating_sub(cap) > DISCARD_BYTES_MAX {
            break;
        }
    }
    match total > cap {
        true => Err(HttpRefusal::PayloadTooLarge),
        false => Ok(bytes),
    }
}

/// Whether the media type of a `Content-Type` value is JSON.
pub fn is_json(content_type: &str) -> bool {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_content_types_are_recognized() {
        for right in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "text/foo+json",
            "+json",
        ] {
            assert!(is_json(right), "{right}");
        }
        for wrong in ["", "text/plain", "application/jsonx", "json"] {
            assert!(!is_json(wrong), "{wrong}");
        }
    }

    #[test]
    fn bodies_share_a_budget_and_release_it() {
        let budget = BodyBudget::new(20_000);
        let cap = 16_000;
        let mut first = BodyBytes::new(budget.clone(), None);
        assert!(first.push(&[1; 10], cap).is_ok());
        assert_eq!(budget.held(), FIRST_BYTES);
        assert!(first.push(&[2; 9_000], cap).is_ok());
        let mut second = BodyBytes::new(budget.clone(), None);
        assert!(second.push(&[1; 4_000], cap).is_ok() && second.push(&[2; 12_000], cap).is_err());
        assert_eq!(second.bytes, [1; 4_000]);
        drop(first);
        assert!(second.push(&[3; 12_000], cap).is_ok());
        assert_eq!(budget.held(), 16_000, "no more than a body may have");
        drop(second);
        assert_eq!(budget.held(), 0);
    }
}
