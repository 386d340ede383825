//! The executor's threads, which serve all connections: blocking or long work must not hold them.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::LazyLock;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Does blocking or long work without holding up the executor's other work.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match is_on_executor() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Bytes that are read, checked or scrubbed on the executor. More of them may be crafted to take long.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// Places for work on more bytes: as many as there are processors, so that what such work holds is bounded, too.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));

thread_local! {
    /// Whether this thread has a place.
    static HAS_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// Does work that reads `bytes` bytes, without holding up the executor's other work if they are many.
pub fn for_bytes<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes <= INLINE_BYTES_MAX || HAS_PLACE.get() || !is_on_executor() {
        return work();
    }
    tokio::task::block_in_place(|| {
        // An error would mean that the semaphore was closed, and nothing closes it.
        let _place = Handle::current().block_on(PLACES.acquire());
        HAS_PLACE.set(true);
        let _given_back = GivePlaceBack;
        work()
    })
}

/// Ends what [`HAS_PLACE`] says, even by a panic.
struct GivePlaceBack;

impl Drop for GivePlaceBack {
    fn drop(&mut self) {
        HAS_PLACE.set(false);
    }
}

/// Whether this is a thread of a multi-threaded executor.
pub fn is_on_executor() -> bool {
    Handle::try_current()
        .is_ok_and(|executor| executor.runtime_flavor() == RuntimeFlavor::MultiThread)
}
