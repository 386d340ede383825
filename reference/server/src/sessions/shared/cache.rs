//! The content of the sessions that this node used last, under its stamp. Knows no store.

use crate::lock::lock;
use crate::sessions::SessionState;
use crate::sessions::store::SessionKey;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Sessions whose content a node caches.
const RECENT_MAX: usize = 64;

#[derive(Default)]
pub struct SessionCache(Mutex<VecDeque<(SessionKey, String, SessionState)>>);

impl SessionCache {
    /// The stamp and the content of a session.
    pub fn get(&self, key: &SessionKey) -> Option<(String, SessionState)> {
        let recent = lock(&self.0);
        let known = recent.iter().find(|(known, ..)| known == key);
        known.map(|(_, stamp, state)| (stamp.clone(), state.clone()))
    }

    pub fn insert(&self, key: &SessionKey, stamp: &str, state: &SessionState) {
        let mut recent = lock(&self.0);
        recent.retain(|(known, ..)| known != key);
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        let state = SessionState {
            running: None,
            runs_elsewhere: false,
            ..state.clone()
        };
        recent.push_back((key.clone(), stamp.to_owned(), state));
    }

    pub fn remove(&self, key: &SessionKey) {
        lock(&self.0).retain(|(known, ..)| known != key);
    }
}
