//! Failed logins of all nodes: the store counts them, and what a node hears of blocks it remembers, so that a blocked source costs
//! the store nothing. Knows nothing of HTTP.

use super::shared::Shared;
use super::store::{FailedLogin, LoginFailure, SOURCES_MAX};
use crate::settings::RateLimitSettings;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Sources that some node saw fail, each with the end of its block where it is blocked.
#[derive(Default)]
pub struct Logins(Mutex<HashMap<String, Option<Instant>>>);

/// Longer than any digest.
const SOURCE_BYTES_MAX: usize = 64;

impl Logins {
    /// Notes what a node told.
    pub fn note(&self, source: String, block: Option<Duration>) {
        // Anybody who reaches the store may have told it.
        if source.len() > SOURCE_BYTES_MAX {
            return;
        }
        let mut all = self.all();
        if all.len() >= SOURCES_MAX && !all.contains_key(&source) {
            // Whose failures are forgotten here is blocked a little sooner.
            let any = all.keys().next().cloned();
            any.and_then(|any| all.remove(&any));
        }
        let until = block.and_then(|block| Instant::now().checked_add(block));
        let of = all.entry(source).or_default();
        *of = until.or(*of);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// How long a source is still blocked, as far as this node heard.
    pub fn login_blocked(&self, source: &str) -> Option<Duration> {
        let until = self.logins().all().get(source).copied()??;
        until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// Counts a failed login for all nodes; nothing while the store is away.
    pub fn login_failed(&self, source: &str, limit: &RateLimitSettings) -> Option<LoginFailure> {
        let block = Duration::from_millis(limit.block_ms);
        let failed = FailedLogin {
            source,
            window: Duration::from_millis(limit.window_ms),
            failures_max: limit.failures_max,
            block,
        };
        let told = self.ask(|store| store.login_failed(&failed)).ok()?;
        let block = match told {
            LoginFailure::Counted => None,
            LoginFailure::Blocks => Some(block),
            LoginFailure::Blocked(left) => Some(left),
        };
        self.logins().note(source.to_owned(), block);
        Some(told)
    }

    /// Forgets the failures of a source that showed the right token. Asks the store only where there may be some.
    pub fn login_succeeded(&self, source: &str) {
        let heard = self.logins().all().contains_key(source);
        if (heard && self.login_blocked(source).is_none()) || !self.tells() {
            // Where the store is away, their window ends them.
            if self.ask(|store| store.login_succeeded(source)).is_ok() {
                self.logins().all().remove(source);
            }
        }
    }
}
