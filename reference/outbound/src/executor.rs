//! Starts executors, or says why the system refuses. Knows nothing of what runs on them.
//!
//! Where tokio gets no thread or file descriptor it panics, and may then wait for ever for the threads that it did get. So both are asked
//! for, and given back, before.

use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// An executor with as many threads as there are processors, but at most `threads_max`.
///
/// # Errors
/// The system's refusal.
pub fn with_threads(threads_max: usize) -> io::Result<Runtime> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(threads_max).max(1);
    check_files()?;
    check_threads(threads)?;
    Builder::new_multi_thread()
        // Otherwise tokio takes the number from a variable of the environment, whatever it says.
        .worker_threads(threads)
        .enable_all()
        .build()
}

/// An executor that runs on the thread that blocks on it.
///
/// # Errors
/// The system's refusal.
pub fn without_threads() -> io::Result<Runtime> {
    check_files()?;
    Builder::new_current_thread().enable_all().build()
}

/// Pairs of file descriptors that tokio opens: for polling, waking, and signals.
const FILE_PAIRS: usize = 3;

fn check_files() -> io::Result<()> {
    let files: io::Result<Vec<_>> = (0..FILE_PAIRS).map(|_| io::pipe()).collect();
    files.map(drop)
}

fn check_threads(count: usize) -> io::Result<()> {
    let others = own_threads();
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut started, mut refused) = (Vec::with_capacity(count), None);
    for _ in 0..count {
        let gate = gate.clone();
        let wait = move || drop(gate.lock());
        match thread::Builder::new().spawn(wait) {
            Ok(thread) => started.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(closed);
    for thread in started {
        let _ = thread.join();
    }
    if let Some(error) = refused {
        return Err(error);
    }
    // The system counts a thread a moment longer than it takes to join it.
    let until = Instant::now() + GONE_WAIT_MAX;
    while own_threads() > others && Instant::now() < until {
        thread::sleep(GONE_TICK);
    }
    Ok(())
}

/// Maximum duration of the wait for threads that ended.
const GONE_WAIT_MAX: Duration = Duration::from_millis(20);
const GONE_TICK: Duration = Duration::from_micros(50);

/// The number of threads of this process, where the system tells.
fn own_threads() -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    Some(threads.count())
}
