//! Counts the bytes that each thread holds. Knows nothing of values or limits.
//!
//! A program's memory is what its thread allocated and has not freed: strings, big integers and
//! shared structure are counted once each, as they are held. The meter reads [`live`]; nothing here
//! ever refuses an allocation.
#![allow(unsafe_code)] // The one module that needs it: `GlobalAlloc` is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The system allocator with a per-thread balance of live bytes.
pub struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes allocated minus bytes freed by this thread; negative when it freed what others allocated.
#[inline]
pub fn live() -> isize {
    LIVE.with(Cell::get)
}

/// Takes over `bytes` that another thread allocated, as when a worker hands its result over.
#[inline]
pub fn adopt(bytes: isize) {
    LIVE.with(|live| live.set(live.get().wrapping_add(bytes)));
}

// SAFETY: every call is passed to `System` unchanged; the counter is a plain thread-local cell
// without a destructor, so it may be touched at any point of a thread's life.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        adopt(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        adopt(-(layout.size() as isize));
        unsafe { System.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        adopt(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        adopt(new_size as isize - layout.size() as isize);
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
