//! A lane for requests whose handling may block on a store that is slow or away: they are handled in order on a separate thread, while
//! the reading thread continues to read. Knows nothing of frames.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The handling of one request. Programs run elsewhere.
pub type Errand = Box<dyn FnOnce() + Send>;

/// Back-pressure: the reading thread waits while this many errands, or this many bytes of them, are queued.
const ERRANDS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;
/// Native stack of the thread: sessions are serialized on it.
const STACK_BYTES: usize = crate::evaluation::pool::STACK_BYTES;

/// Starts its thread with the first errand, and ends it on drop.
#[derive(Default)]
pub struct Lane {
    /// `None` when no thread could be started.
    shared: OnceLock<Option<Arc<Shared>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    errands: VecDeque<(usize, Errand)>,
    bytes: usize,
    /// Whether an errand is being done.
    busy: bool,
    over: bool,
}

impl Lane {
    /// Queues `errand`, which holds this many bytes, behind the earlier ones.
    pub fn add(&self, bytes: usize, errand: Errand) {
        match self.shared.get_or_init(Shared::start) {
            Some(shared) => shared.add(bytes, errand),
            // Without a thread the reader does it itself, and blocks.
            None => errand(),
        }
    }

    /// Waits until everything is done, for at most `patience`.
    pub fn finish(&self, patience: Duration) {
        if let Some(Some(shared)) = self.shared.get() {
            let busy = |state: &mut State| state.busy || !state.errands.is_empty();
            // After a timeout the caller continues without the remaining errands.
            let _waited = shared
                .changed
                .wait_timeout_while(shared.lock(), patience, busy);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(Some(shared)) = self.shared.get() {
            shared.lock().over = true;
            shared.changed.notify_all();
        }
    }
}

impl Shared {
    fn start() -> Option<Arc<Shared>> {
        let shared = Arc::new(Shared::default());
        let works = shared.clone();
        std::thread::Builder::new()
            .name("lane".into())
            .stack_size(STACK_BYTES)
            .spawn(move || works.work())
            .ok()?;
        Some(shared)
    }

    fn add(&self, bytes: usize, errand: Errand) {
        let is_full = |state: &mut State| {
            let too_many = state.errands.len() >= ERRANDS_MAX;
            too_many || !state.errands.is_empty() && state.bytes + bytes > BYTES_MAX
        };
        let mut state = self
            .changed
            .wait_while(self.lock(), is_full)
            .unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        state.errands.push_back((bytes, errand));
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self) {
        let idle = |state: &mut State| state.errands.is_empty() && !state.over;
        loop {
            let mut state = self
                .changed
                .wait_while(self.lock(), idle)
                .unwrap_or_else(PoisonError::into_inner);
            let Some((bytes, errand)) = state.errands.pop_front() else {
                return;
            };
            state.bytes -= bytes;
            state.busy = true;
            drop(state);
            self.changed.notify_all();
            // A panic in one errand does not prevent the others.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(errand)).is_err() {
                tracing::error!(event = "worker_raise");
            }
            self.lock().busy = false;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, sync_channel};

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn errands_are_done_in_order_and_one_that_fails_ends_none_of_them() {
        let lane = Lane::default();
        let (sender, done) = channel();
        for number in 0..1000 {
            let sender = sender.clone();
            let errand = move || {
                assert_ne!(number, 7, "a fault in an errand");
                sender.send(number).unwrap();
            };
            lane.add(1, Box::new(errand));
        }
        lane.finish(SOON);
        drop(sender);
        let expected: Vec<i32> = (0..1000).filter(|number| *number != 7).collect();
        assert_eq!(done.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn who_adds_waits_for_room_only() {
        let lane = Lane::default();
        let (go, may_go) = sync_channel::<()>(0);
        lane.add(
            BYTES_MAX,
            Box::new(move || may_go.recv_timeout(SOON).unwrap()),
        );
        for _ in 0..ERRANDS_MAX {
            lane.add(BYTES_MAX / ERRANDS_MAX, Box::new(|| ()));
        }
        lane.finish(Duration::from_millis(1));
        let shared = lane.shared.get().and_then(Option::as_ref).unwrap();
        assert!(shared.lock().busy);
        let (added, is_added) = channel();
        let waits = std::thread::spawn(move || {
            lane.add(1, Box::new(|| ()));
            added.send(()).unwrap();
            lane.finish(SOON);
        });
        let soon = Duration::from_millis(50);
        assert!(is_added.recv_timeout(soon).is_err(), "it did not wait");
        go.send(()).unwrap();
        is_added.recv_timeout(SOON).unwrap();
        waits.join().unwrap();
    }
}
