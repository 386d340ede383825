//! Protocol sessions of the HTTP endpoint: ids, caps, expiry. Knows nothing of requests or PTC sessions.

use crate::digest;
use crate::mcp::connection::{Connection, Transport};
use crate::settings::HttpSettings;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

pub struct Session {
    /// Its id, a secret of its client.
    pub id: String,
    /// Who it belongs to, hashed.
    pub owner_hash: String,
    pub connection: Arc<Connection>,
    created: Instant,
    used: Mutex<Instant>,
    ended: AtomicBool,
}

pub struct SessionStore {
    count_max: usize,
    per_owner_max: usize,
    in_flight_max: usize,
    ttl: Duration,
    idle: Duration,
    live: Mutex<HashMap<String, Arc<Session>>>,
}

/// Which cap a new session meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Server,
    Owner,
}

/// Why a session ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Its life was over.
    Ttl,
    Idle,
}

impl Expired {
    /// The word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Expired::Ttl => ":ttl",
            Expired::Idle => ":idle",
        }
    }
}

impl SessionStore {
    pub fn new(settings: &HttpSettings) -> Self {
        SessionStore {
            count_max: settings.sessions_max,
            per_owner_max: settings.sessions_per_owner_max,
            in_flight_max: settings.in_flight_max,
            ttl: Duration::from_millis(settings.session_ttl_ms),
            idle: Duration::from_millis(settings.session_idle_ms),
            live: Mutex::new(HashMap::new()),
        }
    }

    /// A new session of `owner_hash`.
    ///
    /// # Errors
    /// The cap that is met; the process's is looked at first.
    pub fn open(&self, owner_hash: &str, now: Instant) -> Result<Arc<Session>, Full> {
        let mut live = self.live();
        if live.len() >= self.count_max {
            return Err(Full::Server);
        }
        if live
            .values()
            .filter(|session| session.owner_hash == owner_hash)
            .count()
            >= self.per_owner_max
        {
            return Err(Full::Owner);
        }
        let id = format!("mcp_{}", crate::token::random(24));
        let transport = Transport::Http {
            owner_hash: owner_hash.to_owned(),
            session_hash: digest::short(id.as_bytes()),
        };
        let session = Arc::new(Session {
            connection: Connection::new(id.clone(), transport, self.in_flight_max),
            owner_hash: owner_hash.to_owned(),
            created: now,
            used: Mutex::new(now),
            ended: AtomicBool::new(false),
            id: id.clone(),
        });
        live.insert(id, session.clone());
        Ok(session)
    }

    /// The live session `id` of this owner, now used. A foreign or expired one is not there.
    pub fn find(&self, id: &str, owner_hash: &str, now: Instant) -> Option<Arc<Session>> {
        let session = self.live().get(id).cloned()?;
        if session.owner_hash != owner_hash || self.expiry(&session, now).is_some() {
            return None;
        }
        session.touch(now);
        Some(session)
    }

    /// Takes a session out; true for the one caller that did.
    pub fn close(&self, session: &Session) -> bool {
        self.live().remove(&session.id);
        !session.ended.swap(true, Ordering::AcqRel)
    }

    /// Takes out whatever has expired. What is left counts towards the caps.
    pub fn take_expired(&self, now: Instant) -> Vec<(Arc<Session>, Expired)> {
        let due: Vec<_> = self
            .live()
            .values()
            .filter_map(|session| Some((session.clone(), self.expiry(session, now)?)))
            .collect();
        due.into_iter()
            .filter(|(session, _)| self.close(session))
            .collect()
    }

    pub fn all(&self) -> Vec<Arc<Session>> {
        self.live().values().cloned().collect()
    }

    /// How many are live.
    pub fn count(&self, now: Instant) -> usize {
        let live = self.live();
        let alive = live
            .values()
            .filter(|session| self.expiry(session, now).is_none());
        alive.count()
    }

    /// Whether one more is refused.
    pub fn is_full(&self, now: Instant) -> bool {
        self.count(now) >= self.count_max
    }

    fn expiry(&self, session: &Session, now: Instant) -> Option<Expired> {
        if now.duration_since(session.created) >= self.ttl {
            return Some(Expired::Ttl);
        }
        let used = *session.used.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = session.connection.in_flight() == 0 && now.duration_since(used) >= self.idle;
        idle.then_some(Expired::Idle)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub fn touch(&self, now: Instant) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn sessions(arguments: &[&str]) -> SessionStore {
        let arguments: Vec<String> = std::iter::once("--http")
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect();
        SessionStore::new(&Settings::read(&arguments, |_| None).unwrap().http.unwrap())
    }

    #[test]
    fn caps_global_first_and_a_close_frees_a_place() {
        let (sessions, now) = (
            sessions(&["--http-max-sessions=3", "--http-max-sessions-per-owner=2"]),
            Instant::now(),
        );
        let first = sessions.open("a", now).ok().unwrap();
        assert!(first.id.starts_with("mcp_") && first.id.len() == 36);
        assert!(sessions.open("a", now).is_ok());
        assert_eq!(sessions.open("a", now).err(), Some(Full::Owner));
        assert!(sessions.open("b", now).is_ok());
        assert_eq!(sessions.open("a", now).err(), Some(Full::Server));
        assert!(sessions.close(&first) && !sessions.close(&first));
        assert!(sessions.open("a", now).is_ok());
    }

    #[test]
    fn nobody_finds_a_foreign_session() {
        let (sessions, now) = (sessions(&[]), Instant::now());
        let session = sessions.open("a", now).ok().unwrap();
        assert!(sessions.find(&session.id, "a", now).is_some());
        assert!(sessions.find(&session.id, "b", now).is_none());
        assert!(sessions.find("mcp_x", "a", now).is_none());
    }

    #[test]
    fn expiry() {
        let arguments = [
            "--http-session-ttl-ms=1000",
            "--http-session-idle-timeout-ms=300",
        ];
        let (sessions, start) = (sessions(&arguments), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        let session = sessions.open("a", start).ok().unwrap();
        for ms in [200, 400, 600, 800] {
            assert!(sessions.find(&session.id, "a", after(ms)).is_some());
        }
        assert!(sessions.find(&session.id, "a", after(1000)).is_none());
        assert_eq!(sessions.take_expired(after(1000))[0].1, Expired::Ttl);
        let other = sessions.open("a", start).ok().unwrap();
        assert!(sessions.find(&other.id, "a", after(300)).is_none());
        assert_eq!(sessions.take_expired(after(300))[0].1, Expired::Idle);
        assert_eq!(sessions.count(after(1000)), 0);
    }
}
