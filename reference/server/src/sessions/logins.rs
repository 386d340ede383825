//! Failed logins of all nodes. The store counts them, and each node remembers what the others broadcast, so that neither a blocked source
//! nor one that never failed costs the store a request. Knows nothing of HTTP.

use super::shared::{NodeMessage, SharedSessions};
use super::store::{FailedLogin, LoginFailure, SOURCES_MAX};
use crate::lock::lock;
use crate::settings::RateLimitSettings;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// What a node has heard of failed logins.
#[derive(Default)]
pub struct LoginFailures {
    /// Sources with failures on any node, each with the end of its block if it is blocked.
    sources: Mutex<HashMap<String, Option<Instant>>>,
    /// Since when no broadcast was missed; `None` while broadcasts are not received.
    receiving_since: Mutex<Option<Instant>>,
}

/// Longer than any digest.
const SOURCE_BYTES_MAX: usize = 64;

impl LoginFailures {
    /// Records that from now on broadcasts are received, or no longer.
    pub fn set_receiving(&self, all: bool) {
        *lock(&self.receiving_since) = all.then(Instant::now);
    }

    /// Records a broadcast failure or block.
    pub fn record_failure(&self, source: String, block: Option<Duration>) {
        // Anybody who can reach the store may have sent it.
        if source.len() > SOURCE_BYTES_MAX {
            return;
        }
        let mut all = lock(&self.sources);
        if all.len() >= SOURCES_MAX && !all.contains_key(&source) {
            // A success of an evicted source no longer clears its failures, so the source is blocked a little sooner.
            let any = all.keys().next().cloned();
            any.and_then(|any| all.remove(&any));
        }
        let until = block.and_then(|block| Instant::now().checked_add(block));
        let of = all.entry(source).or_default();
        *of = until.or(*of);
    }

    /// Whether a source may have failed within the window, as far as this node knows.
    fn may_have_failed(&self, source: &str, window: Duration) -> bool {
        let missed = lock(&self.receiving_since).is_none_or(|since| since.elapsed() < window);
        missed || lock(&self.sources).contains_key(source)
    }
}

impl SharedSessions {
    /// How long a source is still blocked, as far as this node has heard.
    pub fn login_blocked(&self, source: &str) -> Option<Duration> {
        let until = lock(&self.logins().sources).get(source).copied()??;
        until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// Counts a failed login for all nodes, and returns once each of them has heard of it. `None` while the store is away.
    pub fn login_failed(&self, source: &str, limit: &RateLimitSettings) -> Option<LoginFailure> {
        let block = Duration::from_millis(limit.block_ms);
        let failed = FailedLogin {
            source,
            window: Duration::from_millis(limit.window_ms),
            failures_max: limit.failures_max,
            block,
        };
        let told = self.request(|store| store.login_failed(&failed)).ok()?;
        let block = match told {
            LoginFailure::Counted => None,
            LoginFailure::Blocks => Some(block),
            LoginFailure::Blocked(left) => Some(left),
        };
        self.logins().record_failure(source.to_owned(), block);
        if !matches!(told, LoginFailure::Blocked(_)) {
            let source = source.to_owned();
            self.broadcast(&NodeMessage::Login { source, block });
        }
        Some(told)
    }

    /// Clears the failures of a source after a successful login. Asks the store only where there may be some.
    pub fn login_succeeded(&self, source: &str, limit: &RateLimitSettings) {
        if self.login_blocked(source).is_some() {
            return;
        }
        let window = Duration::from_millis(limit.window_ms);
        if self.can_broadcast() && !self.logins().may_have_failed(source, window) {
            return;
        }
        // Removed here first: a failure that is broadcast meanwhile is a new one.
        let known = lock(&self.logins().sources).remove(source);
        let forgotten = self.request(|store| store.login_succeeded(source));
        if forgotten.is_err() && known.is_some() {
            self.logins().record_failure(source.to_owned(), None);
        }
    }
}
