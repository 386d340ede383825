//! Failed authentications per address: a number of failures in a window leads to a block. Time is passed in; knows nothing of HTTP.
//!
//! Where nodes share a store, the store counts for all of them; this table counts while the store is away.

use super::address::AddressBlock;
use crate::lock::lock;
use crate::sessions::SharedSessions;
use crate::sessions::store::{LoginFailure, SOURCES_MAX};
use crate::settings::RateLimitSettings;
use ptc_protocol::digest;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// The failures of every address.
pub struct RateLimit {
    settings: RateLimitSettings,
    sources: Mutex<HashMap<AddressBlock, SourceFailures>>,
    shared: Option<Arc<SharedSessions>>,
}

struct SourceFailures {
    failures: u64,
    window_start: Instant,
    blocked_until: Option<Instant>,
}

impl RateLimit {
    pub fn new(settings: RateLimitSettings, shared: Option<Arc<SharedSessions>>) -> Self {
        RateLimit {
            settings,
            sources: Mutex::new(HashMap::new()),
            shared,
        }
    }

    /// How long `source` is still blocked; `None` when it is not.
    pub fn blocked(&self, source: AddressBlock, now: Instant) -> Option<Duration> {
        let shared = self.shared.as_ref();
        if let Some(left) = shared.and_then(|shared| shared.login_blocked(&named(source))) {
            return Some(left);
        }
        let until = self.sources().get(&source)?.blocked_until?;
        until
            .checked_duration_since(now)
            .filter(|left| !left.is_zero())
    }

    /// Records a failure, and returns its consequence.
    pub fn failed(&self, source: AddressBlock, now: Instant) -> LoginFailure {
        let shared = self.shared.as_ref();
        if let Some(told) =
            shared.and_then(|shared| shared.login_failed(&named(source), &self.settings))
        {
            return told;
        }
        let window = Duration::from_millis(self.settings.window_ms);
        let block = Duration::from_millis(self.settings.block_ms);
        let mut sources = self.sources();
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            let stalest = sources
                .iter()
                .min_by_key(|(_, state)| state.window_start)
                .map(|(source, _)| *source);
            stalest.and_then(|stalest| sources.remove(&stalest));
        }
        let state = sources.entry(source).or_insert(SourceFailures {
            failures: 0,
            window_start: now,
            blocked_until: None,
        });
        if let Some(until) = state.blocked_until.filter(|until| *until > now) {
            return LoginFailure::Blocked(until - now);
        }
        if now.duration_since(state.window_start) >= window {
            state.failures = 0;
            state.window_start = now;
        }
        state.failures += 1;
        if state.failures < self.settings.failures_max {
            return LoginFailure::Counted;
        }
        state.blocked_until = Some(now + block);
        LoginFailure::Blocks
    }

    /// Clears the failures of `source`, unless it is blocked: someone else may be guessing from the same address.
    pub fn succeeded(&self, source: AddressBlock, now: Instant) {
        if let Some(shared) = &self.shared {
            shared.login_succeeded(&named(source), &self.settings);
        }
        let mut sources = self.sources();
        let state = sources.get(&source);
        if state.is_some_and(|state| state.blocked_until.is_none_or(|until| until <= now)) {
            sources.remove(&source);
        }
    }

    /// Removes addresses whose window and block are over.
    pub fn sweep(&self, now: Instant) {
        let window = Duration::from_millis(self.settings.window_ms);
        self.sources().retain(|_, state| {
            now.duration_since(state.window_start) < window
                || state.blocked_until.is_some_and(|until| until > now)
        });
    }

    /// The duration of a block.
    pub fn block(&self) -> Duration {
        Duration::from_millis(self.settings.block_ms)
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<AddressBlock, SourceFailures>> {
        lock(&self.sources)
    }
}

/// The name of a source in a store.
fn named(source: AddressBlock) -> String {
    digest::short(source.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
