//! What a client can remove from a session: definitions, history, prints, recorded calls.

use super::{Session, SessionError, Sessions, size};
use std::sync::Arc;

/// Targets that `lisp_session_forget` can clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetTarget {
    Memory,
    /// `*1 *2 *3`
    History,
    Prints,
    ToolCalls,
    UpstreamCalls,
}

impl ForgetTarget {
    /// All targets and their names in requests.
    pub const ALL: [(&'static str, ForgetTarget); 5] = [
        ("memory", ForgetTarget::Memory),
        ("history", ForgetTarget::History),
        ("prints", ForgetTarget::Prints),
        ("tool_calls", ForgetTarget::ToolCalls),
        ("upstream_calls", ForgetTarget::UpstreamCalls),
    ];

    pub fn from_word(word: &str) -> Option<Self> {
        ForgetTarget::ALL
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, clear)| *clear)
    }
}

impl Sessions {
    /// Removes definitions from a session and clears what `clear` names, which counts as a use. Returns the session and the names that
    /// were defined.
    ///
    /// # Errors
    /// As [`Sessions::begin`].
    pub fn forget(
        &self,
        id: &str,
        owner: &str,
        bindings: &[String],
        clear: &[ForgetTarget],
    ) -> Result<(Arc<Session>, Vec<String>), SessionError> {
        if self.shared.is_none() {
            let session = self.find(id, owner)?;
            let removed = session.forget(bindings, clear)?;
            session.touch();
            return Ok((session, removed));
        }
        let turn = self.begin(id, owner, None)?;
        turn.restore()?;
        let session = turn.session.clone();
        session.state().running = None;
        let removed = session.forget(bindings, clear)?;
        let state = session.state().clone();
        turn.commit(turn.prepare_state(state)?)?;
        Ok((session, removed))
    }
}

impl Session {
    /// Removes definitions and clears what `clear` names. Returns the names that were defined.
    ///
    /// # Errors
    /// [`SessionError::Busy`] while a program runs.
    pub(super) fn forget(
        &self,
        bindings: &[String],
        clear: &[ForgetTarget],
    ) -> Result<Vec<String>, SessionError> {
        let mut state = self.state();
        if state.is_running() {
            return Err(SessionError::Busy);
        }
        let mut env = state.env.clone();
        let mut removed: Vec<String> = bindings
            .iter()
            .filter(|name| env.forget(name))
            .cloned()
            .collect();
        removed.sort();
        removed.dedup();
        for target in clear {
            match target {
                ForgetTarget::Memory => {
                    let names: Vec<String> = env
                        .definitions()
                        .iter()
                        .map(|(name, ..)| (*name).to_owned())
                        .collect();
                    names.iter().for_each(|name| {
                        env.forget(name);
                    });
                }
                ForgetTarget::History => {
                    env.clear_history();
                    state.results = 0;
                }
                ForgetTarget::Prints => state.prints.clear(),
                ForgetTarget::ToolCalls => state.tool_calls.clear(),
                ForgetTarget::UpstreamCalls => state.upstream_calls.clear(),
            }
        }
        state.memory_bytes = size::of_named(
            env.definitions()
                .iter()
                .map(|(name, value, _)| (*name, *value)),
        );
        state.bindings = env.definitions().len();
        state.env = env;
        Ok(removed)
    }
}
