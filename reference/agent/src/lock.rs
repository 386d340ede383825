//! The one way to take a lock, here and in the server.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, ignoring poisoning. A panic of one thread, in a tool for example, must not fail all others: the data that it left is
/// consistent, or belongs to its own call only.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
