//! Makes calls of a peer wait for each other, so that a case can distinguish concurrent from sequential calls without a clock.
//! Knows how many calls must meet; knows nothing of what they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

/// The barriers of one peer, by the number of calls that must meet.
#[derive(Debug, Default, Clone)]
pub(super) struct CallBarriers(Arc<Mutex<BTreeMap<usize, Arc<Barrier>>>>);

impl CallBarriers {
    /// Returns when `size` calls have arrived; later calls wait for the next `size`.
    pub(super) fn wait(&self, size: usize) {
        if size < 2 {
            return;
        }
        let mut meetings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let barrier = meetings
            .entry(size)
            .or_insert_with(|| Arc::new(Barrier::new(size)));
        let barrier = Arc::clone(barrier);
        drop(meetings);
        barrier.wait();
    }
}
