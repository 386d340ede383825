//! Sessions as operators see them: every owner's.

use super::SharedSessions;
use super::content::AssociatedData;
use super::messages::NodeMessage;
use crate::sessions::record::{self, SessionHead};
use crate::sessions::store::SessionRecord;
use crate::sessions::{SessionError, SessionState};
use ptc_lang::Env;

/// A session as operators see it.
pub struct ListedSession {
    pub head: SessionHead,
    pub record: SessionRecord,
}

impl SharedSessions {
    /// Every live session, for operators, most recently used first. Sessions that this node cannot read are left out.
    pub fn list_all(&self) -> Result<Vec<ListedSession>, SessionError> {
        let mut records = self.request(|store| store.list(None))?;
        records.sort_by_key(|record| std::cmp::Reverse(record.times.used));
        let listed = records.into_iter().filter_map(|record| {
            let head = self.open_head(&record).ok()?;
            Some(ListedSession { head, record })
        });
        Ok(listed.collect())
    }

    /// The environment of a session.
    pub fn env_of(&self, listed: &ListedSession) -> Result<Env, SessionError> {
        let ListedSession { record, .. } = listed;
        let read = self.request(|store| store.read(&record.key, &record.owner, None))?;
        let session = self.local_session(&read, "", SessionState::empty(0))?;
        self.restore_body(
            &session,
            &AssociatedData::of_record(&read),
            read.body.as_deref().unwrap_or_default(),
        )?;
        Ok(session.env())
    }

    /// The environment of a session as a snapshot.
    pub fn export(&self, listed: &ListedSession) -> Result<Vec<u8>, SessionError> {
        let env = self.env_of(listed)?;
        env.snapshot(
            record::SNAPSHOT_BYTES_MAX,
            &record::SnapshotDeadline::start(),
        )
        .map_err(|_| SessionError::TooLarge)
    }

    /// Closes a session of any owner.
    pub fn delete(&self, listed: &ListedSession) -> Result<(), SessionError> {
        let ListedSession { record, .. } = listed;
        self.request_change(|store| store.close(&record.key, &record.owner))?;
        let message = NodeMessage::Closed(record.key.clone()).to_text();
        self.request(|store| store.broadcast(&message))
    }
}
