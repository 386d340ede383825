//! One call in flight: its answer, and whether it was cancelled.
//!
//! Knows nothing of connections, which admit and end calls, or of what a call runs.

use crate::admission::gate::Permit;
use crate::lock::lock;
use crate::render::reply::{RefusalForm, Reply};
use ptc_rpc::Id;
use ptc_secrets::Scrubbed;
use ptc_upstream::TraceContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Sends the single reply of a call to its transport.
pub type Responder = Box<dyn FnOnce(Scrubbed<Reply>) + Send>;

/// One call in flight.
pub struct Call {
    /// Identifies it among the calls in flight: the request's id, or a number where ids of several clients may coincide.
    pub key: Id,
    pub id: Id,
    /// When it was admitted.
    pub started: Instant,
    /// The id of its trace, once it runs and if it is traced.
    pub trace_id: OnceLock<String>,
    /// How it is refused or cancelled.
    pub refusal_form: RefusalForm,
    /// The trace context of the request.
    pub trace: Option<TraceContext>,
    cancelled: AtomicBool,
    hooks: Mutex<Vec<CancelAction>>,
    claim: Mutex<Option<(Responder, Permit)>>,
}

/// An action on cancellation.
type CancelAction = Box<dyn FnOnce() + Send>;

impl Call {
    /// A call that was just admitted.
    pub fn new(
        key: Id,
        id: Id,
        refusal_form: RefusalForm,
        trace: Option<TraceContext>,
        responder: Responder,
        permit: Permit,
    ) -> Self {
        Call {
            key,
            id,
            started: Instant::now(),
            refusal_form,
            trace,
            cancelled: AtomicBool::new(false),
            trace_id: OnceLock::new(),
            hooks: Mutex::new(Vec::new()),
            claim: Mutex::new(Some((responder, permit))),
        }
    }

    /// Whether the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Runs `hook` when the call is cancelled, or at once if it already is.
    ///
    /// No hook is lost, and each runs once. [`Self::cancel`] sets the flag and then locks the hooks; this locks the hooks and then reads the
    /// flag. Whichever locks second sees the other's write (happens-before through the mutex), and hooks are taken out under the lock.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        lock(&self.hooks).push(Box::new(hook));
        if self.is_cancelled() {
            self.run_hooks();
        }
    }

    /// Cancels the call: the program sees it at its next check, and the hooks run.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.run_hooks();
    }

    fn run_hooks(&self) {
        let hooks = std::mem::take(&mut *lock(&self.hooks));
        hooks.into_iter().for_each(|hook| hook());
    }

    /// Takes the answer and the permit. Only the first caller gets them, so exactly one side ends the call.
    pub fn claim(&self) -> Option<(Responder, Permit)> {
        lock(&self.claim).take()
    }
}
