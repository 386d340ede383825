//! The threads that serve everybody: what waits, or takes long, must not hold them.

/// Does what waits, or takes long, without holding up the executor's other work.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match is_executors() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Whether this thread does an executor's work.
pub fn is_executors() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};
    Handle::try_current()
        .is_ok_and(|executor| executor.runtime_flavor() == RuntimeFlavor::MultiThread)
}
