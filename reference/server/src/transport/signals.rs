//! SIGTERM, SIGINT and SIGHUP, waited for on a thread of their own, and SIGXFSZ, which nobody gets. Knows nothing of what they end.

use crate::lock::lock;
use std::sync::{Arc, Mutex};

use nix::sys::signal::{SigSet, Signal};

/// Holds the signals back from every thread started afterwards. Call first, on the main thread.
pub fn hold() {
    // Unheld signals end the process by default, which is what a failure leaves us with.
    let mut held = terminating();
    // A file that may not grow further fails the write, and not the server.
    held.add(Signal::SIGXFSZ);
    let _ = held.thread_block();
}

/// What a signal does, which changes once the server serves.
pub struct Signals(Arc<Mutex<Box<dyn FnMut() + Send>>>);

impl Signals {
    /// Calls `each` for every signal that comes.
    pub fn watch(each: impl FnMut() + Send + 'static) -> Self {
        let each: Arc<Mutex<Box<dyn FnMut() + Send>>> = Arc::new(Mutex::new(Box::new(each)));
        let called = each.clone();
        let _ = std::thread::Builder::new()
            .name("signals".into())
            .stack_size(128 << 10)
            .spawn(move || {
                while next().is_some() {
                    lock(&called)();
                }
            });
        Self(each)
    }

    /// Calls `each` from now on.
    pub fn call(&self, each: impl FnMut() + Send + 'static) {
        *lock(&self.0) = Box::new(each);
    }
}

/// Waits for the next one.
pub fn next() -> Option<Signal> {
    terminating().wait().ok()
}

fn terminating() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    // As `nohup` starts a process that is to outlive its terminal.
    if !is_ignored(Signal::SIGHUP) {
        set.add(Signal::SIGHUP);
    }
    set
}

/// Whether this process was started so as not to hear of `signal`.
pub fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as u32 - 1)) != 0)
}
