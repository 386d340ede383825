//! The executor's threads, which serve all connections: blocking or long work must not hold them.

use std::cell::Cell;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// Does blocking or long work without holding up the executor's other work.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match is_on_executor() {
        true => apart(|_| work()),
        false => work(),
    }
}

/// Does work while another thread takes over the executor's other work, if the system gives one. `work` learns whether it did: if not, it
/// holds that other work up, and may not wait for any of it.
fn apart<T>(work: impl FnOnce(bool) -> T) -> T {
    let mut work = Some(work);
    let mut run = |is_apart| work.take().map(|work| work(is_apart));
    // Without a thread tokio panics before it begins. The thread that is here now goes on with the other work later.
    match catch_unwind(AssertUnwindSafe(|| block_in_place(|| run(true)))) {
        Ok(Some(done)) => done,
        Ok(None) => unreachable!("the work is there once"),
        Err(panic) => run(false).unwrap_or_else(|| resume_unwind(panic)),
    }
}

/// Bytes of text that are scrubbed on the executor. Longer text may be crafted to take long.
const SCRUBBED_INLINE_BYTES_MAX: usize = 16 << 10;
/// Bytes of a body that is read and checked on the executor: a millisecond's work. To hand other work to another thread also takes time.
const READ_INLINE_BYTES_MAX: usize = 256 << 10;

/// Places for longer work: as many as there are processors, so that what such work holds is bounded, too.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)));

thread_local! {
    /// Whether this thread has a place.
    static HAS_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// Scrubs `text` by `scrub`, without holding up the executor's other work if the text is long.
pub fn for_text<T>(text: &str, scrub: impl FnOnce() -> T) -> T {
    match text.len() <= SCRUBBED_INLINE_BYTES_MAX {
        true => scrub(),
        false => in_place(scrub),
    }
}

/// Reads a body of `bytes` bytes, or what is in it, without holding up the executor's other work if the body is long.
pub fn for_body<T>(bytes: usize, read: impl FnOnce() -> T) -> T {
    match bytes <= READ_INLINE_BYTES_MAX {
        true => read(),
        false => in_place(read),
    }
}

/// Does work in one of the places, where there is an executor.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if HAS_PLACE.get() || !is_on_executor() {
        return work();
    }
    apart(|is_apart| {
        // An error would mean that the semaphore was closed, and nothing closes it.
        let _place = is_apart.then(|| Handle::current().block_on(PLACES.acquire()));
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
