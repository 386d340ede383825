//! Opening a store: its address, its keys, and the mark that tells the right key from a wrong one.

use super::{SharedSessions, StorePair};
use crate::sessions::store::{
    self, Address, KeyFileFault, Namespace, Seal, StoreError, StoreEvent, StoreFault, StoreResult,
    UnsealError,
};
use crate::settings::SessionSettings;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The plaintext of the mark.
const MARK: &[u8] = b"ptc session store";
const MARK_CONTEXT: &str = "mark";

impl SharedSessions {
    /// Opens the store that the settings name, if any. `program` is the maximum duration of a program.
    ///
    /// # Errors
    /// Which store cannot be used, and why.
    pub fn open(
        settings: &SessionSettings,
        program: Duration,
    ) -> Result<Option<Arc<SharedSessions>>, StoreOpenError> {
        let Some(address) = &settings.store.address else {
            return Ok(None);
        };
        let seal = seal(settings)?;
        let unusable = |fault| StoreOpenError::unusable(address, fault);
        let stores = StorePair {
            programs: store::open(address, Namespace::Programs).map_err(unusable)?,
            protocol: store::open(address, Namespace::Protocol).map_err(unusable)?,
            address: address.to_string(),
        };
        let shared = SharedSessions::of(stores, seal, settings, program);
        match shared.check_mark() {
            Ok(()) => {}
            Err(StoreError::Unavailable(cause))
                if settings.store.optional && !shared.has_replied() =>
            {
                shared.mark_unavailable(&cause);
            }
            Err(failure) => return Err(unusable(failure.into())),
        }
        tracing::info!(
            event = "session_store",
            address = shared.address,
            encrypted = shared.seal.is_on(),
        );
        let shared = Arc::new(shared);
        let listening = Arc::downgrade(&shared);
        shared.store.subscribe(Box::new(move |word| {
            let shared = listening.upgrade();
            if let Some(shared) = &shared {
                match word {
                    StoreEvent::Subscribed => shared.logins.set_receiving(true),
                    StoreEvent::Disconnected => shared.logins.set_receiving(false),
                    StoreEvent::Message(message) => shared.receive(message),
                }
            }
            shared.is_some()
        }));
        Ok(Some(shared))
    }

    /// Whether the store that the settings name certainly does not exist yet.
    pub fn is_unmade(settings: &SessionSettings) -> bool {
        let address = settings.store.address.as_ref();
        address.is_some_and(store::is_unmade)
    }

    /// Checks that one of this node's keys opens the store's mark. An unmarked store is marked now, and a mark under an older key is
    /// replaced: a node that does not have the new key can then no longer start.
    pub(super) fn check_mark(&self) -> StoreResult<()> {
        let fresh = self.seal.seal(MARK, MARK_CONTEXT);
        let fresh = fresh.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let mark = self.store.mark(&fresh, None)?;
        self.has_replied.store(true, Ordering::Release);
        verify_mark(&self.seal, &mark)
            .map_err(|fault| StoreError::Unavailable(fault.to_string()))?;
        if !self.seal.is_newest(&mark, MARK_CONTEXT) {
            self.store.mark(&fresh, Some(&mark))?;
        }
        Ok(())
    }
}

/// Loads the keys that the settings name.
fn seal(settings: &SessionSettings) -> Result<Seal, StoreOpenError> {
    match &settings.store.key_file {
        Some(path) => Seal::from_file(path).map_err(StoreOpenError::KeyFile),
        None => Ok(Seal::none()),
    }
}

/// The report of `ptc doctor` on the store that the settings name, if any: a line and warnings. Does not change the store.
///
/// # Errors
/// The error that a start would end with.
pub fn examine(
    settings: &SessionSettings,
) -> Result<Option<(String, Vec<String>)>, StoreOpenError> {
    let Some(address) = &settings.store.address else {
        return Ok(None);
    };
    let seal = seal(settings)?;
    let summary =
        store::inspect(address).map_err(|fault| StoreOpenError::unusable(address, fault))?;
    if let Some(mark) = &summary.mark {
        verify_mark(&seal, mark).map_err(|fault| StoreOpenError::Mark {
            address: address.to_string(),
            fault,
        })?;
    }
    let keys = match seal.keys() {
        0 => "not encrypted".to_owned(),
        1 => "encrypted".to_owned(),
        keys => format!("encrypted under the first of {keys} keys"),
    };
    let sessions = match summary.sessions {
        1 => "1 session".to_owned(),
        sessions => format!("{sessions} sessions"),
    };
    let line = format!("session store: {address}: {sessions}, {keys}");
    Ok(Some((line, summary.warnings)))
}

/// Checks that one of the keys opens a store's mark.
///
/// # Errors
/// Why the mark does not open.
fn verify_mark(seal: &Seal, mark: &[u8]) -> Result<(), MarkFault> {
    match seal.open(mark, MARK_CONTEXT) {
        Ok(text) if text == MARK => Ok(()),
        Ok(_) => Err(MarkFault::Foreign),
        Err(UnsealError::Clear) => Err(MarkFault::Clear),
        Err(UnsealError::NoKey) => Err(MarkFault::NoKey),
        Err(UnsealError::Refused) => Err(MarkFault::OtherKey),
        Err(
            cause @ (UnsealError::Empty
            | UnsealError::Foreign
            | UnsealError::CutOff
            | UnsealError::Damaged),
        ) => Err(MarkFault::Damaged(cause)),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    #[error("--session-store-key-file / PTC_RUNNER_MCP_SESSION_STORE_KEY_FILE: {0}")]
    KeyFile(KeyFileFault),
    #[error("--session-store / PTC_RUNNER_MCP_SESSION_STORE: cannot use {address}: {fault}")]
    Unusable { address: String, fault: StoreFault },
    #[error("--session-store / PTC_RUNNER_MCP_SESSION_STORE: cannot use {address}: {fault}")]
    Mark { address: String, fault: MarkFault },
}

impl StoreOpenError {
    fn unusable(address: &Address, fault: StoreFault) -> Self {
        StoreOpenError::Unusable {
            address: address.to_string(),
            fault,
        }
    }
}

/// Why none of the keys opens a store's mark, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum MarkFault {
    #[error("it is marked by something else")]
    Foreign,
    #[error(
        "{}: start without --session-store-key-file, or name another store",
        UnsealError::Clear
    )]
    Clear,
    #[error("{}: name it with --session-store-key-file", UnsealError::NoKey)]
    NoKey,
    #[error(
        "the key is not the one of what it holds (--session-store-key-file), or its mark was changed: name the key that it began with"
    )]
    OtherKey,
    #[error(
        "its `{MARK_CONTEXT}`, which tells the right key from a wrong one, is damaged: {0}. Put it back from a backup, or remove it: \
         the next start makes one for its own key, and what another key sealed stays unreadable"
    )]
    Damaged(UnsealError),
}
