//! A lane for requests whose handling may wait, for a store that is slow or away: they are handled one after the other, as they came,
//! on a thread of their own, while the reading thread reads on. Knows nothing of frames.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// What is to be done for a request. Programs that it is about run elsewhere.
pub type Errand = Box<dyn FnOnce() + Send>;

/// Errands that wait, and their bytes; who reads waits when there are more.
const ERRANDS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;
/// Native stack of the thread: what a session holds is written on it.
const STACK_BYTES: usize = crate::evaluation::pool::STACK_BYTES;

/// The thread is started with the first errand, and ends with the lane.
#[derive(Default)]
pub struct Lane {
    /// None when there can be no thread.
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
    /// One is being done.
    busy: bool,
    over: bool,
}

impl Lane {
    /// Does `errand`, which holds so many bytes, when those before it are done.
    pub fn add(&self, bytes: usize, errand: Errand) {
        match self.shared.get_or_init(Shared::start) {
            Some(shared) => shared.add(bytes, errand),
            // Without a thread who reads has to wait.
            None => errand(),
        }
    }

    /// Waits until all is done, at most `patience`.
    pub fn finish(&self, patience: Duration) {
        if let Some(Some(shared)) = self.shared.get() {
            let busy = |state: &mut State| state.busy || !state.errands.is_empty();
            // Who is out of patience goes on without what is left.
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
            // What goes wrong in one is no reason not to do the others.
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
