//! Operating-system threads that run programs, reused from call to call. Knows nothing of programs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Work for one thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// Native stack of a thread. What a program needs beyond is given to it in pieces that go back to the system when it ends;
/// of a thread's own stack what was touched once stays resident.
pub const STACK_BYTES: usize = 2 << 20;

/// Threads that are started when work comes and none is idle.
///
/// The gate bounds the work; a cancelled call gives its place back before its thread has noticed, so there may be a few
/// more threads than places, never more than twice as many. Beyond that a job waits the moment until one ends.
#[derive(Clone)]
pub struct Pool {
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

impl Pool {
    /// A pool for `places` calls at once. Starts no thread.
    pub fn new(places: usize) -> Self {
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::new(State::default()),
                work: Condvar::new(),
            }),
            threads_max: places.saturating_mul(2),
        }
    }

    /// A pool without threads: its owner takes the jobs and runs them.
    #[cfg(feature = "checks")]
    pub fn by_hand() -> Self {
        Self::new(0)
    }

    /// A job that no thread has taken, the `number`th of them, counted round.
    #[cfg(feature = "checks")]
    pub fn take(&self, number: usize) -> Option<Job> {
        let mut state = self.shared.lock();
        let number = number.checked_rem(state.jobs.len())?;
        state.jobs.remove(number)
    }

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// Gives the job back when there is no thread for it and none can be started.
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
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            // A job catches its own panics, to answer its call; this keeps the thread whatever happens.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_run_side_by_side_and_a_panic_costs_no_thread() {
        let pool = Pool::new(1);
        let (done, results) = channel();
        for number in 0..50 {
            let done = done.clone();
            let job: Job = Box::new(move || {
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
}
