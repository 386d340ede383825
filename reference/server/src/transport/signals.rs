//! SIGTERM, SIGINT and SIGHUP, waited for on a thread of their own. Knows nothing of what they end.

use nix::sys::signal::{SigSet, Signal};

/// Holds the signals back from every thread started afterwards. Call first, on the main thread.
pub fn hold() {
    // Unheld signals end the process by default, which is what a failure leaves us with.
    let _ = terminating().thread_block();
}

/// Calls `each` for every signal that comes.
pub fn watch(mut each: impl FnMut() + Send + 'static) {
    let _ = std::thread::Builder::new()
        .name("signals".into())
        .stack_size(128 << 10)
        .spawn(move || {
            while terminating().wait().is_ok() {
                each();
            }
        });
}

fn terminating() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    if !hangup_is_ignored() {
        set.add(Signal::SIGHUP);
    }
    set
}

/// Whether this process was started to outlive its terminal, as by `nohup`.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (Signal::SIGHUP as u32 - 1)) != 0)
}
