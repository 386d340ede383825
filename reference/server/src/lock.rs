//! The one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` guards. A thread that panicked while it held it is no reason to fail everybody else: what it left is whole, or the call's own.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
