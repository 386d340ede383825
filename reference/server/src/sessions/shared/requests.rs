//! Requests to a store: each is measured, and says whether the store is there.

use super::SharedSessions;
use crate::executor;
use crate::lock::lock;
use crate::sessions::SessionError;
use crate::sessions::store::{SessionStore, StoreError, StoreResult};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// When the last reply is older than this, readiness asks the store again.
const REPLY_AGE_MAX: Duration = Duration::from_secs(1);

impl SharedSessions {
    /// Sends a request to the store and records its outcome.
    pub(in crate::sessions) fn request<T>(
        &self,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        self.request_from(&*self.store, ask)
    }

    /// Like [`SharedSessions::request`], for a request that changes the store: if the store becomes unreachable meanwhile, the change may have been
    /// made.
    pub(super) fn request_change<T>(
        &self,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        let given_up = self.store.fails_fast();
        self.request(ask).map_err(|refused| match refused {
            SessionError::StoreUnavailable if !given_up => SessionError::ChangeUnknown,
            refused => refused,
        })
    }

    pub(super) fn request_from<T>(
        &self,
        store: &dyn SessionStore,
        ask: impl FnOnce(&dyn SessionStore) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        let since = Instant::now();
        let ask = || {
            // The node was started while the store was away.
            if !self.has_replied() {
                self.check_mark()?;
            }
            ask(store)
        };
        let answer = match store.yields_executor() {
            true => ask(),
            false => executor::blocking(ask),
        };
        let seconds = since.elapsed().as_secs_f64();
        self.metrics.requests.observe(seconds);
        self.record_outcome(answer)
    }

    /// Records whether the store replied, and translates the reply.
    pub(super) fn record_outcome<T>(&self, answer: StoreResult<T>) -> Result<T, SessionError> {
        match answer {
            Err(StoreError::Unavailable(cause)) => {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                self.mark_unavailable(&cause);
                Err(SessionError::StoreUnavailable)
            }
            Err(StoreError::UnknownOutcome(cause)) => {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event = "session_store_unanswered",
                    address = self.address,
                    cause,
                );
                Err(SessionError::StoreUnavailable)
            }
            Err(StoreError::Rejected(refused)) => {
                self.mark_available();
                match refused {
                    SessionError::Busy => self.metrics.busy.fetch_add(1, Ordering::Relaxed),
                    SessionError::LeaseLost => self.metrics.lost.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
                Err(refused)
            }
            Ok(answer) => {
                self.mark_available();
                Ok(answer)
            }
        }
    }

    /// Whether the store has replied at least once, so that a later failure is not a matter of reaching it.
    pub(super) fn has_replied(&self) -> bool {
        self.has_replied.load(Ordering::Acquire)
    }

    /// Logs once that the store is away.
    pub(super) fn mark_unavailable(&self, cause: &str) {
        if !self.is_unavailable.swap(true, Ordering::AcqRel) {
            tracing::error!(
                event = "session_store_unavailable",
                address = self.address,
                cause,
            );
        }
    }

    fn mark_available(&self) {
        *lock(&self.last_reply) = Instant::now();
        if self.is_unavailable.swap(false, Ordering::AcqRel) {
            tracing::info!(event = "session_store_back", address = self.address);
        }
    }

    /// Whether sessions can be used; asks the store if there was no recent reply.
    pub fn is_ready(&self) -> bool {
        if self.is_unavailable.load(Ordering::Acquire)
            || lock(&self.last_reply).elapsed() > REPLY_AGE_MAX
        {
            return self.sweep();
        }
        true
    }

    /// Closes expired sessions. Returns false when the store is away.
    pub fn sweep(&self) -> bool {
        let left = self.request(|store| store.sweep());
        if self.handler.get().is_some() {
            // Program sessions that belong to protocol sessions end with them.
            let _ = self.request_from(&*self.protocol, |store| store.sweep());
        }
        if let Ok(count) = left {
            self.count.store(count, Ordering::Relaxed);
        }
        left.is_ok()
    }

    /// Measurements of store requests as Prometheus text.
    pub fn metrics(&self) -> String {
        let is_up = !self.is_unavailable.load(Ordering::Acquire);
        self.metrics.render(is_up)
    }
}
