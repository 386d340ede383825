//! What all HTTP requests share, and the lifecycle of sessions: end, expiry, drain. Knows nothing of requests.

use super::accept::ConnectionLimits;
use super::body::BodyBudget;
use super::origin::OriginRule;
use super::protocol_sessions::{ProtocolSession, ProtocolSessions};
use super::rate_limit::RateLimit;
use super::shutdown::ShutdownGrace;
use crate::mcp::connection::{Connection, Transport};
use crate::mcp::dispatch;
use crate::server::Server;
use crate::sessions::NodeMessage;
use crate::settings::HttpSettings;
use ptc_rpc::Id;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The endpoint and the state that its requests share.
pub struct Endpoint {
    server: Arc<Server>,
    settings: HttpSettings,
    sessions: ProtocolSessions,
    rate_limit: Option<RateLimit>,
    origins: OriginRule,
    bodies: Arc<BodyBudget>,
    /// Calls of the stateless revision; they belong to the token's owner.
    stateless: Arc<Connection>,
    next_key: AtomicUsize,
    shutdown: ShutdownGrace,
}

/// The longest and shortest interval between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const SWEEP_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// What an endpoint holds, for checks.
#[cfg(feature = "checks")]
pub struct EndpointCounts {
    pub sessions: usize,
    /// Requests between their frame and their response.
    pub requests: usize,
    /// Calls in flight, with and without a session.
    pub calls: usize,
    /// The maximum number of them in one session.
    pub calls_of_one_session: usize,
    /// Bytes of bodies.
    pub body_bytes: usize,
}

impl Endpoint {
    pub fn new(server: Arc<Server>, settings: HttpSettings) -> Self {
        let transport = Transport::Http {
            owner_hash: settings.owner_hash.clone(),
            session_hash: String::new(),
        };
        let owner = format!("token:{}", settings.owner_hash);
        Endpoint {
            sessions: ProtocolSessions::new(&settings, server.sessions.shared().cloned()),
            rate_limit: settings
                .rate_limit
                .filter(|_| settings.checked_token().is_some())
                .map(|limit| RateLimit::new(limit, server.sessions.shared().cloned())),
            origins: OriginRule::new(&settings.origins, settings.is_loopback()),
            bodies: BodyBudget::new(settings.unfinished_body_bytes),
            // Its many clients have nothing in common but the token, so only the process's cap applies to them.
            stateless: Connection::new(owner, transport, usize::MAX),
            next_key: AtomicUsize::new(0),
            shutdown: ShutdownGrace::default(),
            server,
            settings,
        }
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// The limits of connections.
    pub fn limits(&self) -> ConnectionLimits {
        ConnectionLimits::new(&self.settings)
    }

    pub fn sessions(&self) -> &ProtocolSessions {
        &self.sessions
    }

    /// Failed authentications, if they are counted.
    pub fn rate_limit(&self) -> Option<&RateLimit> {
        self.rate_limit.as_ref()
    }

    /// The rule for the origins of pages.
    pub fn origins(&self) -> &OriginRule {
        &self.origins
    }

    /// The memory budget of bodies.
    pub fn body_budget(&self) -> &Arc<BodyBudget> {
        &self.bodies
    }

    /// Requests under way, and the graceful shutdown.
    pub fn shutdown(&self) -> &ShutdownGrace {
        &self.shutdown
    }

    /// The connection of calls without a session.
    pub fn stateless(&self) -> &Arc<Connection> {
        &self.stateless
    }

    /// A key for a call without a session: the ids of different clients may coincide.
    pub fn next_key(&self) -> Id {
        Id::number(self.next_key.fetch_add(1, Ordering::Relaxed) as u64)
    }

    #[cfg(feature = "checks")]
    pub fn counts(&self) -> EndpointCounts {
        let connections: Vec<_> = self
            .sessions
            .all()
            .iter()
            .map(|session| session.connection.in_flight())
            .collect();
        EndpointCounts {
            sessions: connections.len(),
            requests: self.shutdown.active(),
            calls: connections.iter().sum::<usize>() + self.stateless.in_flight(),
            calls_of_one_session: connections.into_iter().max().unwrap_or(0),
            body_bytes: self.bodies.held(),
        }
    }

    /// Graceful shutdown: refuses new calls, waits until nothing is in flight or `grace` is over, then cancels the rest.
    pub async fn drain(&self, grace: Duration) {
        if !self.shutdown.wait(grace).await {
            for session in self.sessions.all() {
                self.cancel_all(&session.connection);
            }
            self.cancel_all(&self.stateless);
        }
    }

    /// The interval between sweeps: with a store, short enough that a running call keeps its session from becoming idle.
    pub fn sweep_interval(&self) -> Duration {
        let idle = Duration::from_millis(self.settings.session_idle_ms);
        match self.server.sessions.shared() {
            Some(_) => (idle / 4).clamp(SWEEP_INTERVAL_MIN, SWEEP_INTERVAL),
            None => SWEEP_INTERVAL,
        }
    }

    /// Ends everything that has expired.
    pub fn sweep(&self, now: Instant) {
        self.sweep_sessions(now);
        self.server.sessions.sweep();
        if let Some(limit) = &self.rate_limit {
            limit.sweep(now);
        }
    }

    /// Ends the sessions that have expired.
    pub fn sweep_sessions(&self, now: Instant) {
        for (session, why) in self.sessions.take_expired(now) {
            self.clean_up(&session, why.name());
        }
    }

    /// Registers a handler for messages of other nodes about protocol sessions.
    pub fn listen_for_messages(self: &Arc<Self>) {
        let Some(shared) = self.server.sessions.shared() else {
            return;
        };
        let endpoint = Arc::downgrade(self);
        shared.on_message(move |message| {
            let Some(endpoint) = endpoint.upgrade() else {
                return;
            };
            match message {
                NodeMessage::Cancel { session, call } => {
                    if let Some(session) = endpoint.sessions.find_by_key(session) {
                        dispatch::cancel_from_other_node(
                            &endpoint.server.handler,
                            &session.connection,
                            call,
                        );
                    }
                }
                NodeMessage::Ended(session) => {
                    if let Some(session) = endpoint.sessions.find_by_key(session) {
                        endpoint.remove_ended(&session);
                    }
                }
                NodeMessage::Closed(_) | NodeMessage::Login { .. } => {}
            }
        });
    }

    /// Ends a session and logs why.
    pub fn end_session(&self, session: &Arc<ProtocolSession>, why: &str) {
        if self.sessions.close(session) {
            self.clean_up(session, why);
        }
    }

    /// Removes this node's copy of a session that ended on another node, together with what belongs to it here.
    pub fn remove_ended(&self, session: &ProtocolSession) {
        if self.sessions.remove_here(session) {
            session.connection.drain();
            self.cancel_all(&session.connection);
        }
    }

    /// Cleans up after a session was removed.
    fn clean_up(&self, session: &Arc<ProtocolSession>, why: &str) {
        session.connection.drain();
        self.cancel_all(&session.connection);
        self.server.forget_owner(&session.connection.owner);
        tracing::info!(
            event = "http_session_closed",
            instance = self.settings.instance,
            owner_hash = session.owner_hash,
            reason = why,
            session_hash = session.hash,
        );
    }

    fn cancel_all(&self, connection: &Connection) {
        let redactor = &self.server.handler.redactor;
        for (call, answer) in connection.cancel_all() {
            dispatch::answer_cancelled(redactor, connection, &call, answer);
        }
    }
}
