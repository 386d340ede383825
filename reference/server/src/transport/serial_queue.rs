//! A queue for requests whose handling may block on a store that is slow or away: they are handled in order on a separate thread, while
//! the reading thread continues to read. Knows nothing of frames.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The handling of one request. Programs run elsewhere.
pub type Task = Box<dyn FnOnce() + Send>;

/// Back-pressure: the reading thread waits while this many tasks, or this many bytes of them, are queued.
const TASKS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;
/// Native stack of the thread: sessions are serialized on it.
const STACK_BYTES: usize = crate::evaluation::pool::STACK_BYTES;

/// Starts its thread with the first task, and ends it on drop.
#[derive(Default)]
pub struct SerialQueue {
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
    tasks: VecDeque<(usize, Task)>,
    bytes: usize,
    /// Whether a task is being done.
    busy: bool,
    over: bool,
}

impl SerialQueue {
    /// Queues `task`, which holds this many bytes, behind the earlier ones.
    pub fn add(&self, bytes: usize, task: Task) {
        match self.shared.get_or_init(Shared::start) {
            Some(shared) => shared.add(bytes, task),
            // Without a thread the reader does it itself, and blocks.
            None => task(),
        }
    }

    /// Waits until everything is done, for at most `patience`.
    pub fn drain(&self, patience: Duration) {
        if let Some(Some(shared)) = self.shared.get() {
            let busy = |state: &mut State| state.busy || !state.tasks.is_empty();
            // After a timeout the caller continues without the remaining tasks.
            let _waited = shared
                .changed
                .wait_timeout_while(shared.lock(), patience, busy);
        }
    }
}

impl Drop for SerialQueue {
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

    fn add(&self, bytes: usize, task: Task) {
        let is_full = |state: &mut State| {
            let too_many = state.tasks.len() >= TASKS_MAX;
            too_many || !state.tasks.is_empty() && state.bytes + bytes > BYTES_MAX
        };
        let mut state = self
            .changed
            .wait_while(self.lock(), is_full)
            .unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        state.tasks.push_back((bytes, task));
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self) {
        let idle = |state: &mut State| state.tasks.is_empty() && !state.over;
        loop {
            let mut state = self
                .changed
                .wait_while(self.lock(), idle)
                .unwrap_or_else(PoisonError::into_inner);
            let Some((bytes, task)) = state.tasks.pop_front() else {
                return;
            };
            state.bytes -= bytes;
            state.busy = true;
            drop(state);
            self.changed.notify_all();
            // A panic in one task does not prevent the others.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)).is_err() {
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

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn tasks_run_in_order_despite_a_panic() {
        let queue = SerialQueue::default();
        let (sender, done) = channel();
        for number in 0..1000 {
            let sender = sender.clone();
            let task = move || {
                assert_ne!(number, 7, "a fault in an errand");
                sender.send(number).unwrap();
            };
            queue.add(1, Box::new(task));
        }
        queue.drain(TEST_TIMEOUT);
        drop(sender);
        let expected: Vec<i32> = (0..1000).filter(|number| *number != 7).collect();
        assert_eq!(done.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn adding_blocks_only_while_the_queue_is_full() {
        let queue = SerialQueue::default();
        let (go, may_go) = sync_channel::<()>(0);
        queue.add(
            BYTES_MAX,
            Box::new(move || may_go.recv_timeout(TEST_TIMEOUT).unwrap()),
        );
        for _ in 0..TASKS_MAX {
            queue.add(BYTES_MAX / TASKS_MAX, Box::new(|| ()));
        }
        queue.drain(Duration::from_millis(1));
        let shared = queue.shared.get().and_then(Option::as_ref).unwrap();
        assert!(shared.lock().busy);
        let (added, is_added) = channel();
        let waits = std::thread::spawn(move || {
            queue.add(1, Box::new(|| ()));
            added.send(()).unwrap();
            queue.drain(TEST_TIMEOUT);
        });
        let soon = Duration::from_millis(50);
        assert!(is_added.recv_timeout(soon).is_err(), "it did not wait");
        go.send(()).unwrap();
        is_added.recv_timeout(TEST_TIMEOUT).unwrap();
        waits.join().unwrap();
    }
}
