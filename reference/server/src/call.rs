//! One call in flight: who waits for its answer, and whether they still do.
//!
//! Knows nothing of connections, which take calls in and end them, or of what a call runs.

use crate::admission::gate::Permit;
use crate::lock::lock;
use crate::render::reply::Reply;
use ptc_rpc::Id;
use ptc_secrets::Scrubbed;
use ptc_upstream::TraceContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Sends the one reply of a call, off to its transport.
pub type Answer = Box<dyn FnOnce(Scrubbed<Reply>) + Send>;

/// One call in flight.
pub struct Call {
    /// What it is known by among the calls in flight: the request's id, or a number where ids of several clients meet.
    pub key: Id,
    pub id: Id,
    /// When it was taken in.
    pub started: Instant,
    /// The id of its trace, once it runs and when it is traced.
    pub trace_id: OnceLock<String>,
    /// The trace that the request belongs to.
    pub trace: Option<TraceContext>,
    cancelled: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
    claim: Mutex<Option<(Answer, Permit)>>,
}

/// What is done when a call is cancelled.
type Hook = Box<dyn FnOnce() + Send>;

impl Call {
    /// A call that came just now.
    pub fn new(
        key: Id,
        id: Id,
        trace: Option<TraceContext>,
        answer: Answer,
        permit: Permit,
    ) -> Self {
        Call {
            key,
            id,
            started: Instant::now(),
            trace,
            cancelled: AtomicBool::new(false),
            trace_id: OnceLock::new(),
            hooks: Mutex::new(Vec::new()),
            claim: Mutex::new(Some((answer, permit))),
        }
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Does `hook` when the call is cancelled, at once when it is already.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        lock(&self.hooks).push(Box::new(hook));
        if self.is_cancelled() {
            self.run_hooks();
        }
    }

    /// Lets the program know that nobody waits for it any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.run_hooks();
    }

    fn run_hooks(&self) {
        let hooks = std::mem::take(&mut *lock(&self.hooks));
        hooks.into_iter().for_each(|hook| hook());
    }

    /// The answer and the permit, for the side that ends the call: the first to ask.
    pub fn claim(&self) -> Option<(Answer, Permit)> {
        lock(&self.claim).take()
    }
}
