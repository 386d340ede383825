//! The executor's threads, which serve all connections: blocking or long work must not hold them.

/// Does blocking or long work without holding up the executor's other work.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match is_on_executor() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Whether this is a thread of a multi-threaded executor.
pub fn is_on_executor() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};
    Handle::try_current()
        .is_ok_and(|executor| executor.runtime_flavor() == RuntimeFlavor::MultiThread)
}
