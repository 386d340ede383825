//! A turn: the right to run one program in a session, which a close ends and a commit keeps.

use super::limits::CheckedTurn;
use super::shared::{EncodedTurn, SessionLease};
use super::{Session, SessionError, SessionState};
use crate::call::Call;
use crate::clock;
use crate::lock::lock;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::time::Instant;

/// The right to run one program in a session; ends when dropped.
pub struct Turn {
    pub session: Arc<Session>,
    pub(super) token: Arc<RunningTurn>,
    /// The right to commit the turn to a store.
    pub(super) lease: Option<Arc<SessionLease>>,
}

/// A turn, encoded for the commit.
pub enum PendingCommit {
    Local(SessionState),
    Stored(EncodedTurn),
}

impl Turn {
    /// Records the call that the program answers, so that cancelling the call frees the session.
    pub fn attach_call(&self, call: &Arc<Call>) {
        // A turn belongs to one call, so the cell is empty here.
        let _ = self.token.call.set(call.clone());
        if let Some(lease) = &self.lease {
            let lease = Arc::downgrade(lease);
            call.on_cancel(move || {
                if let Some(lease) = lease.upgrade() {
                    lease.release();
                }
            });
        }
    }

    /// Registers how to end the call when the session is closed on any node. Ends it at once if the session is already closed.
    pub fn on_close(&self, end: impl Fn() + Send + Sync + 'static) {
        self.token.on_close(end);
    }

    /// Decodes the session's content if it comes from a store. Takes time in proportion to the content's size.
    ///
    /// # Errors
    /// [`SessionError::Unreadable`].
    pub fn restore(&self) -> Result<(), SessionError> {
        match &self.lease {
            Some(lease) => lease.restore(&self.session),
            None => Ok(()),
        }
    }

    /// Encodes a turn for the commit. With a store, takes time in proportion to the session's size.
    ///
    /// # Errors
    /// [`SessionError::TooLarge`].
    pub fn encode(&self, checked: CheckedTurn) -> Result<PendingCommit, SessionError> {
        self.prepare_state(checked.state)
    }

    pub(super) fn prepare_state(&self, state: SessionState) -> Result<PendingCommit, SessionError> {
        match &self.lease {
            Some(lease) => lease
                .encode(&self.session, state)
                .map(PendingCommit::Stored),
            None => Ok(PendingCommit::Local(state)),
        }
    }

    /// Commits a turn, unless the session was closed or given to another turn in the meantime.
    ///
    /// # Errors
    /// With a store: that the commit was refused, or that its outcome is unknown.
    pub fn commit(&self, encoded: PendingCommit) -> Result<(), SessionError> {
        let kept = match (encoded, &self.lease) {
            (PendingCommit::Local(kept), _) => kept,
            (PendingCommit::Stored(encoded), Some(lease)) => return lease.commit(&encoded),
            (PendingCommit::Stored(_), None) => return Err(SessionError::LeaseLost),
        };
        let mut state = self.session.state();
        let own = state
            .running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, &self.token));
        if own && !state.closed {
            let running = state.running.take();
            *state = kept;
            state.running = running;
        }
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.session.state();
        state.used = Instant::now();
        state.updated_micros = clock::now_micros();
        if state
            .running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, &self.token))
        {
            state.running = None;
        }
    }
}

/// A program that runs in a session, or will run once its call is admitted. The session is busy while this exists and is not cancelled.
#[derive(Default)]
pub struct RunningTurn {
    pub(super) call: OnceLock<Arc<Call>>,
    end: Mutex<CancelHook>,
}

/// How to end and answer a program's call when its session is closed.
#[derive(Default)]
enum CancelHook {
    /// The call has not been admitted yet.
    #[default]
    Unset,
    Set(Arc<dyn Fn() + Send + Sync>),
    /// The session is closed: a call that arrives now is ended at once.
    Closed,
}

impl RunningTurn {
    /// Registers how to end the call when the session is closed. Ends it at once if the session is already closed.
    fn on_close(&self, end: impl Fn() + Send + Sync + 'static) {
        let mut known = lock(&self.end);
        if let CancelHook::Closed = *known {
            drop(known);
            return end();
        }
        *known = CancelHook::Set(Arc::new(end));
    }

    /// Ends the call because the session is closed.
    pub(super) fn close(&self) {
        let mut known = lock(&self.end);
        let end = std::mem::replace(&mut *known, CancelHook::Closed);
        drop(known);
        if let CancelHook::Set(end) = end {
            end();
        }
    }
}
