//! Counts the bytes that threads hold, per thread and per program. Knows nothing of values or clocks.
//!
//! What is guaranteed:
//!
//! - Every allocation of a thread that works for a program is counted in that program's [`Account`], whichever code
//!   made it: builtins, crates, the host. A thread reports its balance in batches of [`BATCH_BYTES`], so an account is
//!   never off by more than one batch per thread.
//! - A [`reserve`] is charged before the allocation, in one atomic step: threads that reserve at the same time can't be
//!   promised the same bytes.
//! - A program that runs on behalf of another, such as a tool, has an account inside the other's ([`Account::nested`]).
//!   Its bytes count in both, so however many such programs run at once, together they hold no more than the other may.
//! - Once an account is overdrawn, each of its threads that allocates another batch is alarmed: its next [`step`] asks
//!   for a check, however much fuel was left. So an allocation that a builtin failed to reserve is noticed when the
//!   builtin returns.
//!
//! What is not guaranteed: the allocator itself never refuses. A `GlobalAlloc` must not unwind, and code that can't
//! fail responds to a null pointer by aborting the process, and every other program with it. So an allocation whose
//! size a program controls is reserved before it grows, here and in every crate above; an unreserved one is stopped
//! after the fact, once.
#![allow(unsafe_code)] // The one module that needs it: `GlobalAlloc` is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that a thread allocates before it reports to its account.
pub const BATCH_BYTES: isize = 16 * 1024;
/// Steps between two checks of the clock and of memory.
const FUEL: u32 = 1024;

thread_local! {
    static THREAD: Thread = const {
        Thread {
            unreported: Cell::new(0),
            report_below: Cell::new(-BATCH_BYTES),
            reported: Cell::new(0),
            account: Cell::new(std::ptr::null()),
            fuel: Cell::new(FUEL),
        }
    };
}

/// The per-thread part of the count. Its cells have no destructor, so they may be used at any point of a thread's life.
struct Thread {
    /// Bytes allocated minus bytes freed since the last report to the account.
    unreported: Cell<isize>,
    /// The value of `unreported` below which the thread reports to the account: lower while a payment is not yet
    /// allocated.
    report_below: Cell<isize>,
    /// The sum of all reports, to any account or none.
    reported: Cell<isize>,
    /// Null while the thread works for no program.
    account: Cell<*const Counts>,
    /// Steps left until the next check.
    fuel: Cell<u32>,
}

/// The bytes that all threads of one program hold together, and their limit.
#[derive(Debug)]
pub struct Account {
    counts: Arc<Counts>,
}

/// The counters of an account. They stay in place as long as a thread or an inner account refers to them.
#[derive(Debug)]
struct Counts {
    held: AtomicIsize,
    peak: AtomicIsize,
    limit: isize,
    /// The counters of the account that this one is inside.
    outer: Option<Arc<Counts>>,
}

/// The system allocator with a balance for each thread and each program. A binary chooses its allocator, so each binary
/// that runs programs invokes [`counting_allocator!`](crate::counting_allocator) once.
pub struct CountingAllocator;

/// Makes [`CountingAllocator`] the allocator of this binary, so that the memory of programs is counted.
#[macro_export]
macro_rules! counting_allocator {
    () => {
        #[global_allocator]
        static ALLOCATOR: $crate::heap::CountingAllocator = $crate::heap::CountingAllocator;
    };
}

#[cfg(test)]
crate::counting_allocator!();

/// Whether allocations of this process are counted.
fn is_counting() -> bool {
    static COUNTS: OnceLock<bool> = OnceLock::new();
    *COUNTS.get_or_init(|| {
        let before = thread_balance();
        let block = std::hint::black_box(Box::new(0u64));
        let counted = thread_balance() != before;
        drop(block);
        counted
    })
}

impl Account {
    /// An account of `limit` bytes, with nothing held.
    ///
    /// # Panics
    ///
    /// In a binary with another allocator, where no limit would be enforced.
    pub fn new(limit: u64) -> Account {
        Account::of(limit, None)
    }

    /// Like [`Account::new`], but inside the account that this thread works for, if any.
    ///
    /// # Panics
    ///
    /// As [`Account::new`].
    pub fn nested(limit: u64) -> Account {
        let outer = THREAD.with(|thread| {
            let outer = thread.account.get();
            // SAFETY: a thread's account is that of an `Account` that is borrowed while `within` runs, so its `Arc` has
            // an owner; `from_raw` takes over the owner that is added here.
            (!outer.is_null()).then(|| unsafe {
                Arc::increment_strong_count(outer);
                Arc::from_raw(outer)
            })
        });
        Account::of(limit, outer)
    }

    fn of(limit: u64, outer: Option<Arc<Counts>>) -> Account {
        assert!(
            is_counting(),
            "this binary does not count memory: it needs `ptc_lang::counting_allocator!();`"
        );
        let counts = Arc::new(Counts {
            held: AtomicIsize::new(0),
            peak: AtomicIsize::new(0),
            limit: isize::try_from(limit).unwrap_or(isize::MAX),
            outer,
        });
        Account { counts }
    }

    /// Runs `work` and counts everything that this thread allocates and frees meanwhile in this account.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        with_account(Arc::as_ptr(&self.counts), work)
    }

    /// Bytes held now. The counts of other threads may lag by a batch each.
    pub fn held(&self) -> isize {
        self.counts.held_now()
    }

    /// The most bytes that were ever held, as far as threads have reported.
    pub fn peak(&self) -> isize {
        self.counts.peak.load(Ordering::Relaxed).max(self.held())
    }

    /// Whether this account, or one that it is inside, holds more than its limit.
    pub fn is_overdrawn(&self) -> bool {
        self.counts.is_overdrawn()
    }

    /// Bytes that may still be held.
    pub fn room(&self) -> usize {
        self.counts.room()
    }

    /// Charges `bytes`; returns false, and charges nothing, when they exceed the limit.
    pub fn charge(&self, bytes: usize) -> bool {
        self.counts.charge(bytes)
    }

    /// Charges `bytes` even when they exceed the limit.
    pub fn charge_unchecked(&self, bytes: usize) {
        self.counts.charge_unchecked(bytes);
    }

    /// Gives back `bytes` that were charged, or that are paid for elsewhere.
    pub fn release(&self, bytes: usize) {
        self.counts.release(bytes);
    }
}

impl Counts {
    /// These counters, then those of the enclosing account, and so on outwards.
    fn self_and_outer(&self) -> impl Iterator<Item = &Counts> {
        std::iter::successors(Some(self), |counts| counts.outer.as_deref())
    }

    fn held_now(&self) -> isize {
        THREAD.with(|thread| {
            // SAFETY: as in `reserve`.
            let own = unsafe { thread.account.get().as_ref() };
            let is_here =
                own.is_some_and(|own| own.self_and_outer().any(|at| std::ptr::eq(at, self)));
            let unreported = if is_here { thread.unreported.get() } else { 0 };
            self.held.load(Ordering::Relaxed) + unreported
        })
    }

    fn is_overdrawn(&self) -> bool {
        self.self_and_outer().any(|at| at.held_now() > at.limit)
    }

    fn room(&self) -> usize {
        let left = |at: &Counts| at.limit.saturating_sub(at.held_now());
        let least = self.self_and_outer().map(left).min();
        least.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(0))
    }

    fn charge(&self, bytes: usize) -> bool {
        let amount = isize::try_from(bytes).unwrap_or(isize::MAX);
        let before = self.held.fetch_add(amount, Ordering::Relaxed);
        let outer = self.outer.as_ref();
        let fits = before.saturating_add(amount) <= self.limit
            && outer.is_none_or(|outer| outer.charge(bytes));
        if !fits {
            self.held.fetch_sub(amount, Ordering::Relaxed);
            return false;
        }
        self.peak.fetch_max(before + amount, Ordering::Relaxed);
        true
    }

    fn charge_unchecked(&self, bytes: usize) {
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        for at in self.self_and_outer() {
            at.held.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn release(&self, bytes: usize) {
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        for at in self.self_and_outer() {
            at.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Runs `work` without charging any program for its allocations. For tables that are built once for the whole process:
/// the program that happens to use one first must not pay for it.
pub fn uncharged<T>(work: impl FnOnce() -> T) -> T {
    with_account(std::ptr::null(), work)
}

fn with_account<T>(account: *const Counts, work: impl FnOnce() -> T) -> T {
    /// Restores the previous account and fuel, even when `work` unwinds.
    struct RestoreAccount(*const Counts, u32);
    impl Drop for RestoreAccount {
        fn drop(&mut self) {
            THREAD.with(|thread| {
                thread.report();
                thread.account.set(self.0);
                thread.fuel.set(self.1);
            });
        }
    }
    let _before = THREAD.with(|thread| {
        thread.report();
        RestoreAccount(thread.account.replace(account), thread.fuel.replace(FUEL))
    });
    work()
}

/// Bytes allocated minus bytes freed by this thread; negative when it freed what other threads allocated.
#[inline]
pub fn thread_balance() -> isize {
    THREAD.with(|thread| thread.reported.get() + thread.unreported.get())
}

/// Takes over `bytes` that another thread of the same program allocated, for example when a worker hands over its
/// result.
pub fn adopt(bytes: isize) {
    THREAD.with(|thread| {
        thread
            .reported
            .set(thread.reported.get().wrapping_add(bytes))
    });
}

/// Pays for `bytes` that this thread is about to allocate; returns false when that would exceed the program's limit. A
/// thread that works for no program has no limit. Only the latest payment is remembered.
pub fn reserve(bytes: usize) -> bool {
    THREAD.with(|thread| {
        thread.report();
        // SAFETY: an account stays in place while `within` runs, and is removed from the thread before `within`
        // returns.
        let Some(account) = (unsafe { thread.account.get().as_ref() }) else {
            return true;
        };
        if !account.charge(bytes) {
            return false;
        }
        let bytes = bytes as isize;
        thread.reported.set(thread.reported.get() + bytes);
        thread.unreported.set(-bytes);
        thread.report_below.set(-bytes - BATCH_BYTES);
        true
    })
}

/// [`reserve`] for work that can't stop by itself, such as sorting. When `bytes` exceed the program's limit, its
/// account is overdrawn by them, so that the next check ends the program and nobody sees the incomplete result.
pub fn reserve_or_overdraw(bytes: usize) -> bool {
    /// The next check catches small growth anyway.
    const SMALL_BYTES: usize = 4096;
    if bytes < SMALL_BYTES || reserve(bytes) {
        return true;
    }
    THREAD.with(|thread| {
        // SAFETY: as in `reserve`.
        if let Some(account) = unsafe { thread.account.get().as_ref() } {
            account.charge_unchecked(bytes);
        }
        thread.fuel.set(1);
    });
    false
}

/// Blocks of at least this many bytes get a mapping of their own. They grow by remapping pages instead of copying,
/// however large they are, and go back to the system as soon as they are freed. A thread's heap would carve them out of
/// its free space, and copy them whole.
pub const MAPPED_BYTES: usize = 1 << 20;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod mapped {
    use std::alloc::Layout;

    /// The smallest alignment of a page.
    const PAGE_BYTES: usize = 4096;

    /// Whether a block of this layout gets its own mapping.
    #[inline(always)]
    pub fn applies(layout: Layout) -> bool {
        layout.size() >= super::MAPPED_BYTES && layout.align() <= PAGE_BYTES
    }

    /// A new block of zeros; null when memory is exhausted.
    pub fn map(bytes: usize) -> *mut u8 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the system chooses the address, so nothing else lies there.
        block_or_null(unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) })
    }

    /// Resizes the block and may move it; returns null on failure, which leaves the block unchanged.
    ///
    /// # Safety
    /// `block` was mapped here, is `bytes` long, and is not used again unless the result is null.
    pub unsafe fn resize(block: *mut u8, bytes: usize, new_bytes: usize) -> *mut u8 {
        block_or_null(unsafe { libc::mremap(block.cast(), bytes, new_bytes, libc::MREMAP_MAYMOVE) })
    }

    /// Returns a block to the system.
    ///
    /// # Safety
    /// `block` was mapped here, is `bytes` long, and is not used again.
    pub unsafe fn unmap(block: *mut u8, bytes: usize) {
        unsafe { libc::munmap(block.cast(), bytes) };
    }

    fn block_or_null(block: *mut libc::c_void) -> *mut u8 {
        match block == libc::MAP_FAILED {
            true => std::ptr::null_mut(),
            false => block.cast(),
        }
    }
}

/// On other systems the system allocator handles every block.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod mapped {
    use std::alloc::Layout;

    pub fn applies(_: Layout) -> bool {
        false
    }

    pub fn map(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn resize(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn unmap(_: *mut u8, _: usize) {}
}

/// Makes large blocks go back to the system as soon as they are freed, whatever was freed before. Must be called once,
/// before other threads start.
pub fn tune() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const MAPPED_BYTES: libc::c_int = self::MAPPED_BYTES as libc::c_int;
        // SAFETY: these calls set numbers that the allocator reads when it allocates and frees; `getrlimit` fills the
        // struct that it is given.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED_BYTES);
            // Freed small blocks are joined one by one, instead of tens of thousands at once when a large block is
            // freed.
            libc::mallopt(libc::M_MXFAST, 0);
            // Each arena reserves address space and keeps it.
            let mut space = std::mem::zeroed::<libc::rlimit>();
            let known = libc::getrlimit(libc::RLIMIT_AS, &mut space) == 0;
            if known && space.rlim_cur != libc::RLIM_INFINITY {
                libc::mallopt(libc::M_ARENA_MAX, 1);
            }
        }
    }
}

/// Turns on overwriting of freed memory, so that none of a program's values remain for an attacker who breaks the
/// evaluator later. Must be called once, before other threads start and after [`tune`].
pub fn overwrite_freed() {
    OVERWRITES.store(true, Ordering::Relaxed);
}

/// Whether freed memory is overwritten.
static OVERWRITES: AtomicBool = AtomicBool::new(false);

/// Overwrites a block that is about to be freed.
///
/// # Safety
/// The caller owns the block, which is `bytes` long.
unsafe fn wipe(block: *mut u8, bytes: usize) {
    unsafe { block.write_bytes(0, bytes) };
    // Nobody reads the block again, so the compiler would otherwise drop the write.
    std::hint::black_box(block);
}

#[inline(always)]
fn overwrites() -> bool {
    OVERWRITES.load(Ordering::Relaxed)
}

/// Returns all unused pages to the system, whichever threads used them, including threads that have ended. Takes about
/// 100 µs, and more after much was freed. C libraries other than GNU's do so by themselves, more or less.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time; it touches only free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes that this thread's program may still hold.
pub fn room() -> usize {
    THREAD.with(|thread| {
        // SAFETY: as in `reserve`.
        unsafe { thread.account.get().as_ref() }.map_or(usize::MAX, Counts::room)
    })
}

/// Whether this thread's program holds more than its limit.
pub fn is_overdrawn() -> bool {
    THREAD.with(|thread| {
        // SAFETY: as in `reserve`.
        unsafe { thread.account.get().as_ref() }.is_some_and(Counts::is_overdrawn)
    })
}

/// Spends `steps` of fuel; returns false when a check of the clock and of memory is due.
#[inline(always)]
pub fn step(steps: u32) -> bool {
    THREAD.with(|thread| {
        let fuel = thread.fuel.get();
        thread.fuel.set(fuel.wrapping_sub(steps));
        steps < fuel
    })
}

/// Makes a check due at the next step.
pub fn drain_fuel() {
    THREAD.with(|thread| thread.fuel.set(1));
}

/// Refills the fuel and reports to the account, as is needed before a check.
pub fn refuel() {
    THREAD.with(|thread| {
        thread.fuel.set(FUEL);
        thread.report();
    });
}

impl Thread {
    /// Reports to the account what was allocated and freed since the last report.
    #[cold]
    #[inline(never)]
    fn report(&self) {
        let unreported = self.unreported.replace(0);
        self.reported
            .set(self.reported.get().wrapping_add(unreported));
        self.report_below.set(-BATCH_BYTES);
        // SAFETY: as in `reserve`.
        if let Some(account) = unsafe { self.account.get().as_ref() } {
            for at in account.self_and_outer() {
                let held = at.held.fetch_add(unreported, Ordering::Relaxed) + unreported;
                if unreported > 0 {
                    at.peak.fetch_max(held, Ordering::Relaxed);
                    if held > at.limit {
                        self.fuel.set(1);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn record_growth(&self, bytes: usize) {
        let unreported = self.unreported.get().wrapping_add(bytes as isize);
        self.unreported.set(unreported);
        if unreported > BATCH_BYTES {
            self.report();
        }
    }

    #[inline(always)]
    fn record_shrink(&self, bytes: usize) {
        let unreported = self.unreported.get().wrapping_sub(bytes as isize);
        self.unreported.set(unreported);
        if unreported < self.report_below.get() {
            self.report();
        }
    }
}

/// GNU's C library keeps free blocks up to this size in a cache per thread. Taking another block from the cache and
/// copying is faster than growing in place, which takes the lock of the heap that the block is from.
const CACHED_BYTES: usize = 1024;

/// A block of `layout`, not counted: from its own mapping, or from `System`.
///
/// # Safety
/// As [`GlobalAlloc::alloc`].
#[inline(always)]
unsafe fn new_block(layout: Layout) -> *mut u8 {
    match mapped::applies(layout) {
        true => mapped::map(layout.size()),
        false => unsafe { System.alloc(layout) },
    }
}

/// Frees a block that [`new_block`] returned for `layout`.
///
/// # Safety
/// As [`GlobalAlloc::dealloc`].
#[inline(always)]
unsafe fn free_block(block: *mut u8, layout: Layout) {
    unsafe {
        if mapped::applies(layout) {
            // The system clears pages before anyone else gets them.
            return mapped::unmap(block, layout.size());
        }
        if overwrites() {
            wipe(block, layout.size());
        }
        System.dealloc(block, layout);
    }
}

// SAFETY: every block is mapped or comes from `System`, and is returned to where it came from, which its layout alone
// decides; counting touches plain cells and atomics, allocates nothing and never unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        THREAD.with(|thread| thread.record_growth(layout.size()));
        unsafe { new_block(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        THREAD.with(|thread| thread.record_shrink(layout.size()));
        unsafe { free_block(ptr, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        THREAD.with(|thread| thread.record_growth(layout.size()));
        match mapped::applies(layout) {
            true => mapped::map(layout.size()),
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        THREAD.with(|thread| {
            if new_size >= layout.size() {
                thread.record_growth(new_size - layout.size());
            } else {
                thread.record_shrink(layout.size() - new_size);
            }
        });
        // SAFETY: `realloc` is called with sizes that fit a layout; both blocks are at least as large as the copied
        // bytes.
        unsafe {
            let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
            match (mapped::applies(layout), mapped::applies(new_layout)) {
                // A larger block may move together with its pages, and leaves nothing behind.
                (true, true) => return mapped::resize(ptr, layout.size(), new_size),
                (false, false) if new_size > CACHED_BYTES && !overwrites() => {
                    return System.realloc(ptr, layout, new_size);
                }
                _ => {}
            }
            let new = new_block(new_layout);
            if !new.is_null() {
                new.copy_from_nonoverlapping(ptr, layout.size().min(new_size));
                free_block(ptr, layout);
            }
            new
        }
    }
}
