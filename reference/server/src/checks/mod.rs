//! Entry points for tests and fuzzers: the whole server under their own scheduler, and its HTTP side under hostile bytes.

pub mod fuzz;
pub mod intake;
pub mod passes;
pub mod simulate;

/// The session store interface, for a simulation of several nodes that share a store.
pub mod sessions {
    pub use crate::sessions::{
        SessionError, Sessions, SharedSessions, StorePair, Turn, TurnEffects, store,
    };
}
