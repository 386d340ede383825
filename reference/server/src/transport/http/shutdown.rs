//! Graceful shutdown: the time that requests get to finish when the process is told to end. Knows nothing of requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Counts requests under way, and waits for them once shutdown has begun.
#[derive(Default)]
pub struct ShutdownGrace {
    announced: AtomicBool,
    begun: AtomicBool,
    active: AtomicUsize,
    idle: Notify,
}

/// A request between its frame and its response.
pub struct RequestGuard<'a>(&'a ShutdownGrace);

impl ShutdownGrace {
    /// Counts a request until the guard is dropped.
    ///
    /// Every request that enters and then reads `has_begun` as false is waited for. The request increments the count and then loads the
    /// flag; [`Self::wait`] stores the flag and then loads the count. All four accesses are sequentially consistent, so at least one side
    /// sees the other.
    pub fn enter(&self) -> RequestGuard<'_> {
        self.active.fetch_add(1, Ordering::SeqCst);
        RequestGuard(self)
    }

    /// Announces the shutdown. Requests are still served.
    pub fn announce(&self) {
        self.announced.store(true, Ordering::SeqCst);
    }

    /// Whether load balancers should route requests elsewhere.
    pub fn is_announced(&self) -> bool {
        self.announced.load(Ordering::SeqCst) || self.has_begun()
    }

    /// Whether new requests are refused.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    pub fn active(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    /// Begins the shutdown, and waits until no request is under way. Returns false when that takes longer than `grace`.
    pub async fn wait(&self, grace: Duration) -> bool {
        self.begun.store(true, Ordering::SeqCst);
        let quiet = async {
            loop {
                let idle = self.idle.notified();
                if self.active() == 0 {
                    return;
                }
                idle.await;
            }
        };
        tokio::time::timeout(grace, quiet).await.is_ok()
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if self.0.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
