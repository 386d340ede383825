//! Waits until all listening nodes have acted on a message, so that a client that gets its reply afterwards finds the change made on any
//! node. Knows neither the messages nor their transport.

use crate::lock::lock;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// This node's questions to the others whether they have acted, and the answers.
pub struct Acks {
    node: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether this node receives the answers.
    listens: bool,
    /// The nodes that answered each question.
    answered: HashMap<String, HashSet<String>>,
    /// After a timeout: the number of listeners then, and how many of them had not answered. Nobody waits for those a second time.
    silent: (usize, usize),
}

/// Separates the asking node from the unique part of its question.
const SEPARATOR: char = '.';
/// The longest name of a node and the longest question that are accepted: anybody who can reach the store may have sent them.
const TEXT_BYTES_MAX: usize = 64;

impl Acks {
    pub fn new() -> Self {
        Acks {
            node: crate::token::random(12),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// This node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn set_listening(&self, listens: bool) {
        self.state().listens = listens;
    }

    /// A question for all nodes; `None` where the answers would not be received.
    pub fn question(&self) -> Option<String> {
        let mut state = self.state();
        let fresh = crate::token::random(12);
        let question = state
            .listens
            .then(|| format!("{}{SEPARATOR}{fresh}", self.node))?;
        state.answered.insert(question.clone(), HashSet::new());
        Some(question)
    }

    /// The node that asked a question.
    pub fn asker(question: &str) -> Option<&str> {
        let (node, _) = question.split_once(SEPARATOR)?;
        (question.len() <= TEXT_BYTES_MAX).then_some(node)
    }

    /// Records an answer of `node`.
    pub fn answer(&self, question: &str, node: &str) {
        let mut state = self.state();
        match state.answered.get_mut(question) {
            Some(nodes) if node.len() <= TEXT_BYTES_MAX => drop(nodes.insert(node.to_owned())),
            Some(_) => {}
            // A late answer: the silent nodes do listen after all.
            None => state.silent = (0, 0),
        }
        self.changed.notify_all();
    }

    /// Waits for the answers of this many listeners, and forgets the question.
    pub fn wait(&self, question: &str, listeners: usize, patience: Duration) {
        let state = self.state();
        let (of, silent) = state.silent;
        let awaited = listeners.saturating_sub(if of == listeners { silent } else { 0 });
        let count = |state: &State| state.answered.get(question).map_or(0, HashSet::len);
        let waited = self
            .changed
            .wait_timeout_while(state, patience, |state| count(state) < awaited);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            state.silent = (listeners, listeners.saturating_sub(count(&state)));
        }
        state.answered.remove(question);
    }

    /// Forgets a question that was not delivered.
    pub fn forget(&self, question: &str) {
        self.state().answered.remove(question);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
