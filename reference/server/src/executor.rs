//! The executor's threads, which serve all connections: blocking or long work must not hold them.

/// Does blocking or long work without holding up the executor's other work.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match is_on_executor() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Bytes of text that are scrubbed on the executor. Longer text may be crafted to take long.
const SCRUBBED_INLINE_BYTES_MAX: usize = 16 << 10;

/// Scrubs `text` by `scrub`, without holding up the executor's other work if the text is long.
pub fn for_text<T>(text: &str, scrub: impl FnOnce() -> T) -> T {
    match text.len() <= SCRUBBED_INLINE_BYTES_MAX {
        true => scrub(),
        false => blocking(scrub),
    }
}

/// Whether this is a thread of a multi-threaded executor.
pub fn is_on_executor() -> bool {
    use tokio::runtime::{Handle, RuntimeFlavor};
    Handle::try_current()
        .is_ok_and(|executor| executor.runtime_flavor() == RuntimeFlavor::MultiThread)
}
