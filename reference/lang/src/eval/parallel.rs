//! `pmap` and `pcalls`: real threads, results in order, isolated branches.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use super::{Eval, Evaluated};
use crate::error::{Error, Kind, Stop, Unwind};
use crate::heap;
use crate::value::Value;

impl<'r> Eval<'r> {
    /// Calls `run` for every index below `count` on parallel workers, and returns the results in order.
    ///
    /// At most `limits.workers` workers are alive in the whole program; if none is free, this is a capacity error. The
    /// failure with the lowest index decides the error.
    pub(crate) fn parallel(
        &mut self,
        form: &'static str,
        count: usize,
        run: &(dyn Fn(&mut Eval<'_>, usize) -> Evaluated + Sync),
    ) -> Evaluated<Vec<Value>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        self.reserve_values(count)?;
        let shared = self.shared;
        let workers = claim_workers(&shared.workers, self.limits().workers, count);
        if workers == 0 {
            return Err(Kind::Capacity.into());
        }
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let results: Mutex<Vec<Option<Evaluated>>> = Mutex::new((0..count).map(|_| None).collect());
        let (globals, journal, steps) = (&self.globals, &self.journal, &self.steps);
        let work = || {
            let mut eval = Eval::new(shared);
            eval.globals = std::sync::Arc::clone(globals);
            eval.journal = journal.clone();
            eval.steps = steps.clone();
            eval.is_worker = true;
            while !stop.load(Ordering::Relaxed) {
                // Every claimed index is run, so that no branch before a failed one is skipped.
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    break;
                }
                let result = run(&mut eval, index);
                if result.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                if let Ok(mut results) = results.lock() {
                    results[index] = Some(result);
                }
                // Definitions of one branch are invisible to the next.
                eval.globals = std::sync::Arc::clone(globals);
                eval.journal = journal.clone();
                eval.steps = steps.clone();
            }
        };
        // The worker's memory is charged to the program from the first byte to the last.
        let held = AtomicIsize::new(0);
        let worker = || {
            let before = heap::thread_balance();
            shared.meter.within(work);
            held.fetch_add(heap::thread_balance() - before, Ordering::Relaxed);
        };
        let started = self.host().run_workers(workers, &worker);
        shared.workers.fetch_sub(workers, Ordering::AcqRel);
        // This thread now holds what the workers allocated and did not free.
        heap::adopt(held.into_inner());
        if started == 0 {
            return Err(Kind::Capacity.into());
        }
        let results = results.into_inner().unwrap_or_default();
        let mut values = Vec::with_capacity(count);
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Some(Ok(value)) => values.push(value),
                Some(Err(stop)) => return Err(branch_error(form, index, *stop)),
                // Its worker died. A branch that was never started comes after a failed one, whose error is returned
                // above.
                None => {}
            }
        }
        if values.len() < count {
            return Err(Kind::Parallel {
                form,
                problem: "a worker ended without an answer".into(),
            }
            .into());
        }
        self.refuel()?;
        Ok(values)
    }
}

/// Claims up to `wanted` free workers and returns how many were claimed.
fn claim_workers(alive: &AtomicUsize, most: usize, wanted: usize) -> usize {
    let mut claimed = 0;
    let _ = alive.fetch_update(Ordering::AcqRel, Ordering::Acquire, |alive| {
        claimed = wanted.min(most.saturating_sub(alive));
        (claimed > 0).then_some(alive + claimed)
    });
    claimed
}

/// The error of the branch with index `index`, as the caller sees it.
fn branch_error(form: &'static str, index: usize, unwind: Unwind) -> Stop {
    match unwind {
        Unwind::Raise(Error {
            kind: Kind::Capacity,
            ..
        }) => Kind::Capacity.into(),
        Unwind::Raise(Error { kind, place }) => {
            let kind = Kind::Branch {
                form,
                index,
                cause: Box::new(kind),
            };
            Error { kind, place }.into()
        }
        limit @ Unwind::Limit(..) => Box::new(limit),
        Unwind::Return(_) => Kind::Parallel {
            form,
            problem: format!("return called inside {form}").into(),
        }
        .into(),
        Unwind::Fail(_) => Kind::Parallel {
            form,
            problem: format!("fail called inside {form}").into(),
        }
        .into(),
    }
}
