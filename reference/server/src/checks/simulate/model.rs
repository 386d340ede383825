//! A model of sessions that is slow and obviously correct. Knows nothing of how the server keeps them.

use std::time::Duration;
use tokio::time::Instant;

/// The client, and the id of its request.
pub type CallKey = (usize, i64);

/// All sessions that ever existed.
pub struct Sessions {
    /// In the order of their start.
    pub all: Vec<Session>,
    /// Maximum number of live sessions in the process.
    pub count_max: usize,
    /// Maximum number of live sessions of one owner.
    pub per_owner_max: usize,
    pub ttl: Duration,
    pub idle: Duration,
}

pub struct Session {
    pub id: String,
    pub owner: String,
    /// The end of its life.
    pub expires: Instant,
    /// When it was last used.
    pub used: Instant,
    pub closed: bool,
    /// The request whose program runs or waits in it, unless it was cancelled.
    pub running: Option<CallKey>,
    /// The value that `total` is bound to.
    pub total: Option<i64>,
    /// Number of committed turns.
    pub turns: u64,
}

impl Sessions {
    /// Why `owner` may not start another session now.
    pub fn refusal_to_start(&mut self, owner: &str, now: Instant) -> Option<&'static str> {
        self.sweep(now);
        let live = || self.all.iter().filter(|session| !session.closed);
        let own = live().filter(|session| session.owner == owner).count();
        let full = live().count() >= self.count_max || own >= self.per_owner_max;
        full.then_some("session_limit_exceeded")
    }

    /// Why `owner` may not use the session at `place` now; sessions beyond the end never existed.
    pub fn refusal(&mut self, place: usize, owner: &str, now: Instant) -> Option<&'static str> {
        let idle = self.idle;
        let Some(session) = self.all.get_mut(place) else {
            return Some("session_not_found");
        };
        session.close_if_over(idle, now);
        if session.closed {
            return Some("session_closed");
        }
        (session.owner != owner).then_some("session_owner_mismatch")
    }

    /// The ids of the live sessions of `owner`, sorted.
    pub fn listed(&mut self, owner: &str, now: Instant) -> Vec<String> {
        self.sweep(now);
        let own = self.all.iter();
        let own = own.filter(|session| !session.closed && session.owner == owner);
        let mut ids: Vec<String> = own.map(|session| session.id.clone()).collect();
        ids.sort();
        ids
    }

    /// Closes all sessions of an owner.
    pub fn forget_owner(&mut self, owner: &str) {
        let own = self.all.iter_mut().filter(|session| session.owner == owner);
        own.for_each(|session| session.closed = true);
    }

    /// Records that a request was cancelled: it holds no session any more.
    pub fn cancelled(&mut self, key: CallKey) {
        let held = self.all.iter_mut();
        held.filter(|session| session.running == Some(key))
            .for_each(|session| session.running = None);
    }

    fn sweep(&mut self, now: Instant) {
        let idle = self.idle;
        self.all
            .iter_mut()
            .for_each(|session| session.close_if_over(idle, now));
    }
}

impl Session {
    fn close_if_over(&mut self, idle: Duration, now: Instant) {
        let unused = self.used + idle <= now && self.running.is_none();
        self.closed |= self.expires <= now || unused;
    }
}
