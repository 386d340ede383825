//! SIGTERM, SIGINT and SIGHUP, handled on a separate thread, and SIGXFSZ, which stays blocked. Knows nothing of what the signals end.

use crate::lock::lock;
use std::sync::{Arc, Mutex};

use nix::sys::signal::{SigSet, Signal};

/// Blocks the signals in every thread that is started afterwards. Call this first, on the main thread.
pub fn block() {
    // If this fails, the signals end the process, as they do by default.
    let mut held = termination_signals();
    // A file that may not grow further then fails the write instead of killing the server.
    held.add(Signal::SIGXFSZ);
    let _ = held.thread_block();
}

/// The action on a signal, which changes once the server serves.
pub struct Signals(Arc<Mutex<Box<dyn FnMut() + Send>>>);

impl Signals {
    /// Calls `each` for every signal that arrives.
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

    /// Replaces the action.
    pub fn set_action(&self, each: impl FnMut() + Send + 'static) {
        *lock(&self.0) = Box::new(each);
    }
}

/// Waits for the next signal.
pub fn next() -> Option<Signal> {
    termination_signals().wait().ok()
}

fn termination_signals() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    // `nohup` ignores SIGHUP in a process that is to outlive its terminal.
    if !is_ignored(Signal::SIGHUP) {
        set.add(Signal::SIGHUP);
    }
    set
}

/// Whether `signal` was set to be ignored when this process was started.
pub fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as u32 - 1)) != 0)
}
