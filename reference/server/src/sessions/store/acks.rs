//! Waits until all listening nodes have acted on a message, so that a client that is answered afterwards finds it done wherever
//! it asks next. Knows neither messages nor how they travel.

use crate::lock::lock;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Questions of one node whether others have acted, and who said so.
pub struct Acks {
    node: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// This node hears what the others say.
    listens: bool,
    /// Who answered which question.
    answered: HashMap<String, HashSet<String>>,
    /// How many listened when some of them did not answer in time, and how many those were: nobody waits for them a second time.
    deaf: (usize, usize),
}

/// Between the node that asks and what makes its question another one.
const BETWEEN: char = '.';
/// The longest name of a node and the longest question that are taken in: anybody who reaches the store may have sent them.
const TEXT_BYTES_MAX: usize = 64;

impl Acks {
    pub fn new() -> Self {
        Acks {
            node: crate::token::random(12),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// What this node is called.
    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn listen(&self, listens: bool) {
        self.state().listens = listens;
    }

    /// A question for all nodes; none where the answers would not be heard.
    pub fn question(&self) -> Option<String> {
        let mut state = self.state();
        let fresh = crate::token::random(12);
        let question = state
            .listens
            .then(|| format!("{}{BETWEEN}{fresh}", self.node))?;
        state.answered.insert(question.clone(), HashSet::new());
        Some(question)
    }

    /// Who asked a question.
    pub fn asker(question: &str) -> Option<&str> {
        let (node, _) = question.split_once(BETWEEN)?;
        (question.len() <= TEXT_BYTES_MAX).then_some(node)
    }

    /// Notes an answer of `node`.
    pub fn answer(&self, question: &str, node: &str) {
        let mut state = self.state();
        match state.answered.get_mut(question) {
            Some(nodes) if node.len() <= TEXT_BYTES_MAX => drop(nodes.insert(node.to_owned())),
            Some(_) => {}
            // Somebody hears after all, though late.
            None => state.deaf = (0, 0),
        }
        self.changed.notify_all();
    }

    /// Waits for the answers of so many who listen, and forgets the question.
    pub fn wait(&self, question: &str, listeners: usize, patience: Duration) {
        let state = self.state();
        let (of, deaf) = state.deaf;
        let awaited = listeners.saturating_sub(if of == listeners { deaf } else { 0 });
        let come = |state: &State| state.answered.get(question).map_or(0, HashSet::len);
        let waited = self
            .changed
            .wait_timeout_while(state, patience, |state| come(state) < awaited);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            state.deaf = (listeners, listeners.saturating_sub(come(&state)));
        }
        state.answered.remove(question);
    }

    /// Forgets a question that reached nobody.
    pub fn forget(&self, question: &str) {
        self.state().answered.remove(question);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
