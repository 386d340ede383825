//! What a store holds of a session: sealed, and bound to the place where it belongs.

use super::SharedSessions;
use crate::sessions::record::{self, RecordError, SessionHead};
use crate::sessions::store::{SessionKey, SessionRecord};
use crate::sessions::{Session, SessionError, SessionState};
use std::sync::atomic::Ordering;

/// Associated data of sealed bytes: where they belong. They open nowhere else: not under another id, not for another owner, not beside
/// parts of another turn.
pub struct AssociatedData<'a> {
    pub key: &'a SessionKey,
    pub owner: &'a str,
    pub stamp: &'a str,
}

impl<'a> AssociatedData<'a> {
    pub fn of_record(record: &'a SessionRecord) -> Self {
        AssociatedData {
            key: &record.key,
            owner: &record.owner,
            stamp: &record.stamp,
        }
    }

    fn of(&self, part: &str) -> String {
        let AssociatedData { key, owner, stamp } = self;
        format!("{part} {} {owner} {stamp}", key.as_str())
    }
}

impl SharedSessions {
    /// The sealed head and body of a session.
    pub(super) fn seal_session(
        &self,
        place: &AssociatedData<'_>,
        id: &str,
        title: Option<&str>,
        state: &SessionState,
    ) -> Result<(Vec<u8>, Vec<u8>), SessionError> {
        let head = SessionHead::of(id, title, state).to_bytes();
        let body = record::encode_body(state);
        let head = self.seal_part(place, "head", head)?;
        Ok((head, self.seal_part(place, "body", body)?))
    }

    /// Seals an encoded part. One that cannot be encoded or sealed is too large.
    pub(super) fn seal_part<E>(
        &self,
        place: &AssociatedData<'_>,
        part: &str,
        bytes: Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, SessionError> {
        let bytes = bytes.map_err(|_| SessionError::TooLarge)?;
        let sealed = self.seal.seal(&bytes, &place.of(part));
        sealed.map_err(|_| SessionError::TooLarge)
    }

    /// Opens a sealed part and reads it.
    pub(super) fn open_part<T>(
        &self,
        place: &AssociatedData<'_>,
        part: &str,
        sealed: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, RecordError>,
    ) -> Result<T, SessionError> {
        let opened = self.seal.open(sealed, &place.of(part));
        opened
            .map_err(RecordError::from)
            .and_then(|bytes| read(&bytes))
            .map_err(|cause| self.unreadable(place.key, &cause))
    }

    pub(super) fn open_head(&self, record: &SessionRecord) -> Result<SessionHead, SessionError> {
        let place = AssociatedData::of_record(record);
        self.open_part(&place, "head", &record.head, SessionHead::read)
    }

    /// Decodes a body into a session and caches the result.
    pub(super) fn restore_body(
        &self,
        session: &Session,
        place: &AssociatedData<'_>,
        body: &[u8],
    ) -> Result<(), SessionError> {
        self.metrics
            .read_bytes
            .fetch_add(body.len() as u64, Ordering::Relaxed);
        let mut state = session.state();
        self.open_part(place, "body", body, |body| {
            record::decode_body(&mut state, body, self.settings.memory_bytes)
        })?;
        self.cache.insert(place.key, place.stamp, &state);
        Ok(())
    }

    /// Only content that this node has cached may come without a body; otherwise a store that withholds it could pass a session off as
    /// empty. A record of another owner is refused, too.
    pub(super) fn check_record(
        &self,
        record: &SessionRecord,
        owner: &str,
        known: Option<&str>,
    ) -> Result<(), SessionError> {
        if record.owner != owner {
            return Err(SessionError::Foreign);
        }
        match record.body.is_some() || known == Some(record.stamp.as_str()) {
            true => Ok(()),
            false => Err(self.unreadable(&record.key, &RecordError::NoBody)),
        }
    }

    /// Logs why a session cannot be read; its owner only learns that it cannot.
    fn unreadable(&self, key: &SessionKey, cause: &RecordError) -> SessionError {
        let cause = cause.to_string();
        tracing::error!(event = "session_unreadable", cause, key = key.as_str());
        SessionError::Unreadable
    }
}
