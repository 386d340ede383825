//! SIGTERM and SIGINT, waited for on a thread of their own. Knows nothing of what they end.

use nix::sys::signal::{SigSet, Signal};

/// Holds the two signals back from every thread started afterwards. Call first, on the main thread.
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
    set
}
