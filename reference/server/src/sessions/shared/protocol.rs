//! Protocol sessions that all nodes share, for HTTP.

use super::content::AssociatedData;
use super::messages::NodeMessage;
use super::{LEASE_SLACK, SharedSessions};
use crate::sessions::SessionError;
use crate::sessions::store::{
    self, LeaseRequest, NewSession, SealedContent, SessionKey, SessionRecord,
};
use std::time::Duration;

/// State of a protocol session that all nodes share.
#[derive(Clone, Debug, minicbor::Encode, minicbor::Decode)]
pub struct ProtocolState {
    #[n(0)]
    pub revision: String,
    /// Its client asked to end the session: tool calls are refused.
    #[n(1)]
    pub drains: bool,
}

/// A protocol session that no other node knows yet.
pub struct NewProtocolSession<'a> {
    pub id: &'a str,
    pub owner: &'a str,
    pub revision: &'a str,
    pub ttl: Duration,
    pub idle: Duration,
    pub count_max: usize,
    pub per_owner_max: usize,
}

impl SharedSessions {
    /// Makes a protocol session valid on every node.
    pub fn share_protocol(&self, new: &NewProtocolSession<'_>) -> Result<(), SessionError> {
        let key = SessionKey::of(new.id);
        let stamp = crate::token::random(18);
        let owner = store::owner_digest(new.owner);
        let protocol = ProtocolState {
            revision: new.revision.to_owned(),
            drains: false,
        };
        let place = AssociatedData {
            key: &key,
            owner: &owner,
            stamp: &stamp,
        };
        let head = self.seal_protocol(&protocol, &place)?;
        let new = NewSession {
            key: &key,
            owner: &owner,
            ttl: new.ttl,
            idle: new.idle,
            count_max: new.count_max,
            per_owner_max: new.per_owner_max,
            stamp: &stamp,
            content: SealedContent {
                head: &head,
                body: b"",
            },
        };
        self.request_from(&*self.protocol, |store| store.create(&new))
            .map(drop)
    }

    /// Reads the shared state of a protocol session, which counts as a use, and its maximum remaining lifetime.
    pub fn find_protocol(
        &self,
        id: &str,
        owner: &str,
    ) -> Result<(ProtocolState, Duration), SessionError> {
        let key = SessionKey::of(id);
        let digest = store::owner_digest(owner);
        let record = self.request_from(&*self.protocol, |store| store.read(&key, &digest, None))?;
        self.check_record(&record, &digest, None)?;
        let left = Duration::from_micros(record.times.left_micros());
        Ok((self.open_protocol(&record)?, left))
    }

    /// Makes every node refuse tool calls in a protocol session.
    ///
    /// # Errors
    /// Why the nodes cannot be made to refuse them.
    pub fn drain_protocol(&self, id: &str, owner: &str) -> Result<(), SessionError> {
        let (key, owner) = (SessionKey::of(id), store::owner_digest(owner));
        let holder = crate::token::random(18);
        let acquire = LeaseRequest {
            key: &key,
            owner: &owner,
            known: None,
            holder: &holder,
            term: LEASE_SLACK,
        };
        let (record, lease) =
            self.request_from(&*self.protocol, |store| store.acquire(&acquire))?;
        let protocol = ProtocolState {
            drains: true,
            ..self.open_protocol(&record)?
        };
        let place = AssociatedData {
            key: &key,
            owner: &owner,
            stamp: &holder,
        };
        let head = self.seal_protocol(&protocol, &place)?;
        let content = SealedContent {
            head: &head,
            body: b"",
        };
        self.request_from(&*self.protocol, |store| store.commit(&lease, content))
    }

    /// Ends a protocol session on every node.
    pub fn close_protocol(&self, id: &str, owner: &str) {
        let key = SessionKey::of(id);
        // If the store is away, the session expires.
        if self
            .request_from(&*self.protocol, |store| {
                store.close(&key, &store::owner_digest(owner))
            })
            .is_ok()
        {
            self.broadcast(&NodeMessage::Ended(key));
        }
    }

    /// The number of protocol sessions on all nodes.
    pub fn count_protocol(&self) -> Result<usize, SessionError> {
        self.request_from(&*self.protocol, |store| store.sweep())
    }

    fn seal_protocol(
        &self,
        protocol: &ProtocolState,
        place: &AssociatedData<'_>,
    ) -> Result<Vec<u8>, SessionError> {
        self.seal_part(place, "protocol", minicbor::to_vec(protocol))
    }

    pub(super) fn open_protocol(
        &self,
        record: &SessionRecord,
    ) -> Result<ProtocolState, SessionError> {
        let place = AssociatedData::of_record(record);
        self.open_part(&place, "protocol", &record.head, |bytes| {
            Ok(minicbor::decode(bytes)?)
        })
    }
}
