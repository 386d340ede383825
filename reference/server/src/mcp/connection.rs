//! The connection of one client: its protocol revision, its calls in flight, whether it is draining. A stdio process has one, an HTTP
//! listener one per protocol session.
//!
//! Knows nothing of tools or transports.

use crate::admission::gate::{Gate, GateClosed};
use crate::call::{Call, Responder};
use crate::lock::lock;
use crate::render::reply::{RefusalForm, Reply};
use ptc_rpc::Id;
use ptc_secrets::Scrubbed;
use ptc_upstream::TraceContext;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Revisions with `initialize`, the preferred one first.
pub const SESSION_REVISIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];
/// The stateless revision.
pub const STATELESS_REVISION: &str = "2026-07-28";

/// Where a connection's frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One process, one client.
    Stdio,
    /// A protocol session over HTTP, or a stateless call.
    Http {
        /// First 16 hex digits of a digest of the token.
        owner_hash: String,
        /// First 16 hex digits of a digest of the session id; empty in stateless calls.
        session_hash: String,
    },
}

/// What a transport knows of a request besides its frame.
#[derive(Default)]
pub struct RequestContext {
    /// `X-Request-Id`, received or generated; `None` on stdio.
    pub request_id: Option<String>,
    /// The trace context in its headers.
    pub trace: Option<TraceContext>,
    /// The arrival of a request that may become a call, if the transport has work to do before it is handled.
    pub arrival: Option<Arrival>,
    /// Whether the request was read before the connection began to drain, and has waited since.
    pub arrived_in_time: bool,
}

pub struct Connection {
    /// The owner of the program sessions that are started here.
    pub owner: String,
    pub transport: Transport,
    /// Maximum number of calls in flight here; `usize::MAX` when only the process's gate counts.
    pub in_flight_max: usize,
    revision: Mutex<&'static str>,
    draining: AtomicBool,
    calls: Mutex<Calls>,
    /// Signalled when no call is unanswered any more, or a cancelled request has arrived.
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    in_flight: HashMap<Id, Arc<Call>>,
    /// Requests for calls that are not admitted yet, because a store may have to be asked first. Each holds a thread, so there are few.
    arriving: Vec<Arriving>,
    /// Number of requests that have arrived so far.
    arrivals: u64,
    /// Calls whose reply is not yet written, not counting cancelled ones.
    unanswered: usize,
    /// Threads that wait for a change. A notification costs a system call, and most calls end while nobody waits.
    waiting: usize,
    /// Set once every call was cancelled; no further call is admitted.
    is_closed: bool,
}

struct Arriving {
    /// Identifies the request among all requests of the connection.
    number: u64,
    key: Id,
    cancelled: bool,
}

/// A request for a call, from its arrival until the call is admitted or refused. It records a cancellation that comes in between.
pub struct Arrival {
    connection: Arc<Connection>,
    number: u64,
    key: Id,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut calls = self.connection.calls();
        let place = calls
            .arriving
            .iter()
            .position(|known| known.number == self.number);
        if place.is_some_and(|at| calls.arriving.swap_remove(at).cancelled) {
            self.connection.notify(&calls);
        }
    }
}

impl Calls {
    fn is_cancelled(&self, arrival: &Arrival) -> bool {
        let mut cancelled = self.arriving.iter().filter(|known| known.cancelled);
        cancelled.any(|known| known.number == arrival.number)
    }

    /// Whether a cancelled request is still arriving.
    fn is_cancelling(&self, key: &Id) -> bool {
        let mut cancelled = self.arriving.iter().filter(|known| known.cancelled);
        cancelled.any(|known| known.key == *key)
    }
}

/// The outcome of a cancellation.
pub enum Cancelled {
    /// No call has that key.
    Unknown,
    /// Its request is still arriving, and will be answered as cancelled.
    Arriving,
    /// It was cancelled; its answer is to be used or dropped.
    InFlight(Arc<Call>, Responder),
}

/// Why a call was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The id is already in flight.
    Duplicate,
    /// There is no place for it.
    GateClosed(GateClosed),
    /// It was cancelled before it was admitted, or the connection is over.
    Cancelled,
}

impl Connection {
    pub fn new(owner: String, transport: Transport, in_flight_max: usize) -> Arc<Self> {
        Arc::new(Connection {
            owner,
            transport,
            in_flight_max,
            revision: Mutex::new(SESSION_REVISIONS[0]),
            draining: AtomicBool::new(false),
            calls: Mutex::new(Calls::default()),
            changed: Condvar::new(),
        })
    }

    /// The revision in use.
    pub fn revision(&self) -> &'static str {
        *lock(&self.revision)
    }

    /// Adopts the revision that a client asks for, or else the preferred one, and returns it.
    pub fn negotiate(&self, wanted: Option<&str>) -> &'static str {
        let known = SESSION_REVISIONS
            .into_iter()
            .find(|known| Some(*known) == wanted);
        let chosen = known.unwrap_or(SESSION_REVISIONS[0]);
        self.use_revision(chosen);
        chosen
    }

    pub fn use_revision(&self, revision: &'static str) {
        *lock(&self.revision) = revision;
    }

    /// The hashed owner of this protocol session; `None` where there is no protocol session.
    pub fn protocol_owner(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http {
                owner_hash,
                session_hash,
            } if !session_hash.is_empty() => Some(owner_hash),
            _ => None,
        }
    }

    /// Refuses tool calls from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether tool calls are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn in_flight(&self) -> usize {
        self.calls().in_flight.len()
    }

    /// Whether a call with this key is in flight.
    pub fn is_in_flight(&self, key: &Id) -> bool {
        self.calls().in_flight.contains_key(key)
    }

    /// Registers a request for the call `key` as arriving.
    pub fn arrive(self: &Arc<Self>, key: &Id) -> Arrival {
        let mut calls = self.calls();
        let number = calls.arrivals;
        calls.arrivals += 1;
        calls.arriving.push(Arriving {
            number,
            key: key.clone(),
            cancelled: false,
        });
        Arrival {
            connection: self.clone(),
            number,
            key: key.clone(),
        }
    }

    /// Admits the call of a request that arrived. A place is requested last, when nothing else prevents the call.
    ///
    /// # Errors
    /// [`NotAdmitted`], together with the answer to refuse it with.
    pub fn admit(
        &self,
        arrival: &Arrival,
        id: Id,
        refusal_form: RefusalForm,
        trace: Option<TraceContext>,
        responder: Responder,
        gate: &Arc<Gate>,
    ) -> Result<Arc<Call>, (NotAdmitted, Responder)> {
        let mut calls = self.calls();
        if calls.is_closed || calls.is_cancelled(arrival) {
            return Err((NotAdmitted::Cancelled, responder));
        }
        let in_flight = calls.in_flight.len();
        let key = arrival.key.clone();
        let Entry::Vacant(place) = calls.in_flight.entry(key.clone()) else {
            return Err((NotAdmitted::Duplicate, responder));
        };
        if in_flight >= self.in_flight_max {
            return Err((
                NotAdmitted::GateClosed(GateClosed::Full(self.in_flight_max)),
                responder,
            ));
        }
        let permit = match gate.enter() {
            Ok(permit) => permit,
            Err(shut) => return Err((NotAdmitted::GateClosed(shut), responder)),
        };
        let call = Arc::new(Call::new(key, id, refusal_form, trace, responder, permit));
        place.insert(call.clone());
        calls.unanswered += 1;
        Ok(call)
    }

    /// Ends a call with its reply, unless it was cancelled before. Its id and its place are free before the reply is sent. Returns
    /// whether the reply was sent.
    pub fn finish(&self, call: &Arc<Call>, reply: impl FnOnce() -> Scrubbed<Reply>) -> bool {
        let Some((responder, permit)) = call.claim() else {
            return false;
        };
        self.remove(call);
        drop(permit);
        responder(reply());
        self.count_answer();
        true
    }

    /// Cancels the call `key`, whose place is free at once, or its requests that are still arriving; a request that arrives later is
    /// another call.
    pub fn cancel(&self, key: &Id) -> Cancelled {
        let mut calls = self.calls();
        if let Some(call) = calls.in_flight.get(key).cloned() {
            drop(calls);
            return match self.cancel_call(&call) {
                Some(answer) => Cancelled::InFlight(call, answer),
                None => Cancelled::Unknown,
            };
        }
        let mut found = Cancelled::Unknown;
        for arriving in calls.arriving.iter_mut().filter(|known| known.key == *key) {
            arriving.cancelled = true;
            found = Cancelled::Arriving;
        }
        found
    }

    /// Waits until cancelled requests have arrived and hold nothing any more, for at most `patience`.
    pub fn wait_until_arrived(&self, key: &Id, patience: Duration) {
        // After a timeout the caller continues: the request ends by itself.
        drop(self.wait_while(patience, |calls| calls.is_cancelling(key)));
    }

    /// Cancels one call, unless its reply is already being sent. The answer is taken before the program sees the cancellation, so that
    /// nothing that the program does then can reach the client.
    pub fn cancel_call(&self, call: &Arc<Call>) -> Option<Responder> {
        let (responder, permit) = call.claim()?;
        call.cancel();
        self.remove(call);
        drop(permit);
        self.count_answer();
        Some(responder)
    }

    /// Cancels every call, including those that arrive later. Returns those in flight, with their answers.
    pub fn cancel_all(&self) -> Vec<(Arc<Call>, Responder)> {
        let mut calls = self.calls();
        calls.is_closed = true;
        let all: Vec<Arc<Call>> = calls.in_flight.values().cloned().collect();
        drop(calls);
        all.into_iter()
            .filter_map(|call| {
                let answer = self.cancel_call(&call)?;
                Some((call, answer))
            })
            .collect()
    }

    /// Waits until every call is answered, for at most `patience`. Returns the number of unanswered calls.
    pub fn wait_until_idle(&self, patience: Duration) -> usize {
        self.wait_while(patience, |calls| calls.unanswered > 0)
            .unanswered
    }

    fn wait_while(
        &self,
        patience: Duration,
        unchanged: impl Fn(&Calls) -> bool,
    ) -> MutexGuard<'_, Calls> {
        let mut calls = self.calls();
        calls.waiting += 1;
        let waited = self
            .changed
            .wait_timeout_while(calls, patience, |calls| unchanged(calls));
        let (mut calls, _) = waited.unwrap_or_else(PoisonError::into_inner);
        calls.waiting -= 1;
        calls
    }

    fn count_answer(&self) {
        let mut calls = self.calls();
        calls.unanswered -= 1;
        if calls.unanswered == 0 {
            self.notify(&calls);
        }
    }

    fn notify(&self, calls: &Calls) {
        if calls.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn remove(&self, call: &Arc<Call>) {
        let mut calls = self.calls();
        if calls
            .in_flight
            .get(&call.key)
            .is_some_and(|known| Arc::ptr_eq(known, call))
        {
            calls.in_flight.remove(&call.key);
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }
}

#[cfg(test)]
mod tests;
