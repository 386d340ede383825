//! Lets calls of a peer wait for each other, so that a case tells calls side by side from calls in a row without a clock.
//! Knows how many are to meet; knows nothing of what they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

/// The meetings of one peer, by their size.
#[derive(Debug, Default, Clone)]
pub(super) struct Meetings(Arc<Mutex<BTreeMap<usize, Arc<Barrier>>>>);

impl Meetings {
    /// Returns when `size` calls are here; later calls wait for the next `size`.
    pub(super) fn join(&self, size: usize) {
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
