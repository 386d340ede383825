//! The concurrency gate: so many calls at once, never a queue. Knows nothing of calls.

use crate::evaluation::pressure::Watermark;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Hands out at most `cap` permits at a time.
#[derive(Debug)]
pub struct Gate {
    cap: usize,
    taken: AtomicUsize,
    watermark: Watermark,
}

/// The right to run; dropping it frees the place.
#[derive(Debug)]
pub struct Permit(Arc<Gate>);

impl Gate {
    /// A gate with `cap` places.
    #[cfg(test)]
    pub fn new(cap: usize) -> Arc<Self> {
        Self::below(cap, Watermark::with_room(100, 0))
    }

    /// A gate with `cap` places, closed while memory stands above `watermark`.
    pub fn below(cap: usize, watermark: Watermark) -> Arc<Self> {
        Arc::new(Gate {
            cap,
            taken: AtomicUsize::new(0),
            watermark,
        })
    }

    pub fn cap(&self) -> usize {
        self.cap
    }

    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// A permit, or `None` at once when all are taken or memory is short.
    pub fn enter(self: &Arc<Self>) -> Option<Permit> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        while taken < self.cap && !self.watermark.is_passed(taken) {
            match self.taken.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Permit(self.clone())),
                Err(now) => taken = now,
            }
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_gate_refuses_and_a_dropped_permit_frees_its_place() {
        let gate = Gate::new(2);
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some() && gate.enter().is_none());
        drop(first);
        assert!(gate.enter().is_some());
    }
}
