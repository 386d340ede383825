//! The one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` guards. A tool that panics does not take it down with it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
