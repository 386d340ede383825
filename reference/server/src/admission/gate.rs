//! The concurrency gate: a fixed number of calls at once, never a queue. Knows nothing of calls.

use crate::admission::pressure::Watermark;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Issues at most `cap` permits at a time.
#[derive(Debug)]
pub struct Gate {
    cap: usize,
    taken: AtomicUsize,
    watermark: Watermark,
}

/// Why a call is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateClosed {
    /// This many calls are in flight, which is the maximum.
    Full(usize),
    Memory,
}

/// The right to run; dropping it frees the place.
#[derive(Debug)]
pub struct Permit(Arc<Gate>);

impl Gate {
    /// A gate with `cap` places.
    #[cfg(test)]
    pub fn new(cap: usize) -> Arc<Self> {
        Self::with_watermark(cap, Watermark::with_headroom(100, 0))
    }

    /// A gate with `cap` places, closed while memory use is above `watermark`.
    pub fn with_watermark(cap: usize, watermark: Watermark) -> Arc<Self> {
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

    /// Returns a permit, or immediately why there is none.
    pub fn enter(self: &Arc<Self>) -> Result<Permit, GateClosed> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            if taken >= self.cap {
                return Err(GateClosed::Full(self.cap));
            }
            if self.watermark.is_exceeded(taken) {
                return Err(GateClosed::Memory);
            }
            match self.taken.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(Permit(self.clone())),
                Err(now) => taken = now,
            }
        }
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
    fn full_gate_refuses_until_a_permit_is_dropped() {
        let gate = Gate::new(2);
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(gate.enter().err(), Some(GateClosed::Full(2)));
        drop(first);
        assert!(gate.enter().is_ok());
    }

    #[test]
    fn memory_refusal_is_distinct_from_full_gate() {
        let gate = Gate::with_watermark(1, Watermark::with_headroom(0, 0));
        assert_eq!(gate.enter().err(), Some(GateClosed::Memory));
    }
}
