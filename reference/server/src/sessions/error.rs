//! Why a session cannot be used, and the words for it. Knows no session.

use crate::render::reason::SessionReason;

/// Why a session cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// It never existed, or is no longer remembered.
    NotFound,
    /// It was closed or has expired.
    Closed,
    /// It belongs to another owner.
    Foreign,
    /// A program is running in it.
    Busy,
    /// The maximum number of sessions of the process or store is reached.
    Full,
    /// The owner's maximum number of sessions is reached.
    OwnerFull,
    /// The store is unreachable.
    StoreUnavailable,
    /// The store became unreachable during the commit of a turn.
    CommitUnknown,
    /// The store became unreachable while it was asked to start or close a session.
    ChangeUnknown,
    /// Another turn began, or the lease of this one expired, before the commit.
    LeaseLost,
    /// This node cannot read the session's content in the store.
    Unreadable,
    /// The session is too large for the store.
    TooLarge,
    /// The store is full.
    StoreFull,
    /// The client asked to end its protocol session, on any node.
    Draining,
}

impl SessionError {
    pub const fn reason(self) -> SessionReason {
        match self {
            SessionError::NotFound => SessionReason::NotFound,
            SessionError::Closed => SessionReason::Closed,
            SessionError::Foreign => SessionReason::Foreign,
            SessionError::Busy => SessionReason::Busy,
            SessionError::Full
            | SessionError::OwnerFull
            | SessionError::TooLarge
            | SessionError::StoreFull => SessionReason::LimitExceeded,
            SessionError::StoreUnavailable
            | SessionError::CommitUnknown
            | SessionError::ChangeUnknown => SessionReason::StoreUnavailable,
            SessionError::LeaseLost => SessionReason::LeaseLost,
            // The caller knows the protocol session and chooses the message.
            SessionError::Draining => SessionReason::Closed,
            SessionError::Unreadable => SessionReason::Unreadable,
        }
    }

    /// The text of the reply's `message`.
    pub const fn message(self) -> &'static str {
        match self {
            SessionError::NotFound => "session not found",
            SessionError::Closed => "session is closed",
            SessionError::Foreign => "caller does not own this session",
            SessionError::Busy => "an eval is already running for this session",
            SessionError::Full => "maximum number of sessions reached",
            SessionError::OwnerFull => "maximum number of sessions for this owner reached",
            SessionError::StoreUnavailable => {
                "the session store is unavailable; nothing was changed"
            }
            SessionError::CommitUnknown => {
                "the session store became unavailable; whether this turn was kept is not known"
            }
            SessionError::ChangeUnknown => {
                "the session store became unavailable; whether this was done is not known"
            }
            SessionError::LeaseLost => {
                "this node lost the session before the turn was committed; nothing was kept"
            }
            SessionError::Unreadable => {
                "this server cannot read what the store holds of the session"
            }
            SessionError::TooLarge => "what the session holds is too large for the store",
            SessionError::StoreFull => "the session store is full; nothing was changed",
            SessionError::Draining => "its client asked for the end of the connection",
        }
    }
}
