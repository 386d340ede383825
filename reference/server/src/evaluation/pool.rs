//! Operating-system threads that run programs, reused from call to call. Knows nothing of programs.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Work for one thread.
pub struct Job(Box<dyn Work>);

trait Work: Send {
    fn is_void(&self) -> bool;
    fn run(self: Box<Self>);
}

/// Work, with a predicate that tells whether it is void.
struct Voidable<V, W>(V, W);

impl<V: Fn() -> bool + Send, W: FnOnce() + Send> Work for Voidable<V, W> {
    fn is_void(&self) -> bool {
        self.0()
    }

    fn run(self: Box<Self>) {
        self.1();
    }
}

impl Job {
    /// Work that must be done in any case.
    #[cfg(test)]
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Job::voidable(|| false, work)
    }

    /// Work that may be dropped undone once `is_void`.
    pub fn voidable(
        is_void: impl Fn() -> bool + Send + 'static,
        work: impl FnOnce() + Send + 'static,
    ) -> Self {
        Job(Box::new(Voidable(is_void, work)))
    }

    pub fn run(self) {
        self.0.run();
    }
}

/// Native stack of a thread. If a program needs more, it gets further segments, which return to the system when it ends; pages of a
/// thread's own stack stay resident once they were touched.
pub const STACK_BYTES: usize = 2 << 20;

/// Threads that are started when work arrives and none is idle.
///
/// The gate bounds the work. A cancelled call frees its place before its thread has noticed, so there may be a few more threads than
/// places, but never more than twice as many; beyond that a job waits until a thread is free. A client that does not read its answers, or
/// a slow store, can make that wait long. Then void jobs are dropped from the queue, so that it holds no more of them than there may be
/// threads.
#[derive(Clone)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads_max: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl ThreadPool {
    /// A pool for `places` concurrent calls. Starts no thread.
    pub fn new(places: usize) -> Self {
        ThreadPool {
            shared: Arc::new(Shared {
                state: Mutex::new(State::default()),
                work: Condvar::new(),
            }),
            threads_max: places.saturating_mul(2),
        }
    }

    /// A pool without threads: its owner takes the jobs and runs them.
    #[cfg(feature = "checks")]
    pub fn without_threads() -> Self {
        Self::new(0)
    }

    /// Takes a job that no thread has taken, the `number`th of them, modulo their count.
    #[cfg(feature = "checks")]
    pub fn take(&self, number: usize) -> Option<Job> {
        let mut state = self.shared.lock();
        let number = number.checked_rem(state.jobs.len())?;
        state.jobs.remove(number)
    }

    /// Runs `job` on a thread of the pool, unless it becomes void while it waits.
    ///
    /// # Errors
    /// Returns the job when there is no thread for it and none can be started.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let mut state = self.shared.lock();
        if state.idle <= state.jobs.len() && state.threads < self.threads_max {
            let shared = self.shared.clone();
            let started = std::thread::Builder::new()
                .name("eval".into())
                .stack_size(STACK_BYTES)
                .spawn(move || shared.work());
            match started {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(job),
                Err(_) => {}
            }
        }
        let mut void = Vec::new();
        // A pool without threads keeps all jobs.
        if self.threads_max > 0 && state.jobs.len() >= self.threads_max {
            let jobs = std::mem::take(&mut state.jobs);
            let (dropped, kept): (Vec<_>, _) = jobs.into_iter().partition(|job| job.0.is_void());
            (void, state.jobs) = (dropped, VecDeque::from(kept));
        }
        state.jobs.push_back(job);
        // Busy threads look for more work when they are done.
        let waits = state.idle > 0;
        drop(state);
        drop(void);
        if waits {
            self.shared.work.notify_one();
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                state.idle += 1;
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            };
            drop(state);
            // A job catches its own panics, to answer its call; this keeps the thread alive in any case.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_run_concurrently_and_panics_keep_threads_alive() {
        let pool = ThreadPool::new(1);
        let (done, results) = channel();
        for number in 0..50 {
            let done = done.clone();
            let job = Job::new(move || {
                if number % 7 == 0 {
                    panic!("expected by this test");
                }
                done.send(number).unwrap();
            });
            assert!(pool.run(job).is_ok());
        }
        drop(done);
        assert_eq!(results.iter().count(), 42);
    }

    #[test]
    fn void_jobs_are_dropped_while_threads_are_stuck() {
        const PLACES: usize = 2;
        let pool = ThreadPool::new(PLACES);
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..2 * PLACES {
            let released = released.clone();
            let stuck = Job::new(move || {
                // Ends when the sender is dropped.
                let _ = released.lock().unwrap().recv();
            });
            assert!(pool.run(stuck).is_ok());
        }
        let held = Arc::new(());
        let (done, results) = channel();
        for number in 0..1_000 {
            let (waits, done) = (held.clone(), done.clone());
            let job = Job::voidable(
                move || number != 500,
                move || {
                    done.send(number).unwrap();
                    drop(waits);
                },
            );
            assert!(pool.run(job).is_ok());
            // Besides waiting jobs, stuck threads may not have been handed their jobs yet.
            assert!(Arc::strong_count(&held) <= 2 + 4 * PLACES, "{number}");
        }
        drop((release, done));
        assert!(results.iter().any(|number| number == 500));
    }
}
