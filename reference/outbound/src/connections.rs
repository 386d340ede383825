//! Where connections are driven: on threads of their own. Knows nothing of what is sent over them.
//!
//! What a server sends before its answer (`100 Continue`, `103 Early Hints`) is parsed as long as there is more of it to read, tens of
//! megabytes at a stretch, and nothing counts it. Among other tasks that would keep a thread from its timers, so that deadlines pass
//! unseen; here it keeps other connections waiting at most.

use std::pin::pin;
use std::sync::OnceLock;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Handle, Runtime};

/// One that a hostile server holds up, and another.
const THREADS_MIN: usize = 2;
/// What arrives is read and handed on here, and looked at elsewhere.
const THREADS_MAX: usize = 4;

/// Awaits `work`; the connections that it opens are driven elsewhere than where it is awaited.
pub(crate) async fn driving<T>(work: impl Future<Output = T>) -> T {
    let Some(threads) = threads() else {
        return work.await;
    };
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let _entered = threads.enter();
        work.as_mut().poll(context)
    })
    .await
}

/// Begun when they are first needed, and kept to the end of the process.
fn threads() -> Option<&'static Handle> {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let begin = || {
        let cores = available_parallelism().map_or(THREADS_MIN, usize::from);
        Builder::new_multi_thread()
            .worker_threads(cores.clamp(THREADS_MIN, THREADS_MAX))
            .thread_name("connections")
            .enable_all()
            .build()
            .ok()
    };
    THREADS.get_or_init(begin).as_ref().map(Runtime::handle)
}
