//! Redis or Valkey as a store. Each operation is one Lua script, and so one atomic step and one round trip.
//!
//! All keys share the hash tag `{ptc}`, so in a cluster a script finds all of them on one server. Connections block the calling thread,
//! with short timeouts; a few are kept for reuse. After a failure no caller waits for the store: requests fail at once, while one thread
//! probes whether the store is back.

use super::super::SessionError;
use super::super::record::SNAPSHOT_BYTES_MAX;
use super::acks::Acks;
use super::wire::{self, RedisConnection, Server};
use super::{
    CLOSED_MAX, FailedLogin, Lease, LeaseRequest, Listener, LoginFailure, Namespace, NewSession,
    RecordTimes, SOURCES_MAX, STORE_TIMEOUT, SealedContent, SessionKey, SessionRecord,
    SessionStore, StoreError, StoreEvent, StoreResult, StoreSummary, micros,
};
use crate::executor::blocking;
use crate::lock::lock;
use crate::settings::store_address::{RedisAddress, Topology};
use redis::{ConnectionLike, FromRedisValue, RedisError, ServerErrorKind, ToRedisArgs, Value};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// The time limits for connecting and for a reply. An operation ends within [`STORE_TIMEOUT`], not counting the transfer time of large
/// content.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_000);
const _: () =
    assert!(CONNECT_TIMEOUT.as_millis() + ANSWER_TIMEOUT.as_millis() <= STORE_TIMEOUT.as_millis());
/// Bytes of the largest reply: a session, or the list of all live sessions.
const ANSWER_BYTES_MAX: usize = 2 * SNAPSHOT_BYTES_MAX;
/// Bytes of the longest text from a server that is passed on to the log or to the operator who starts the node.
const QUOTED_BYTES_MAX: usize = 512;
/// Silence after which a listener checks the connection with a PING.
const PING_AFTER: Duration = Duration::from_secs(5);
/// Redirects that are followed in a cluster until the server with the keys is found.
const REDIRECTS: usize = 3;
/// The pause between two probes of a store that is away.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// How long a broadcast waits until the nodes have acted on it.
const ACK_TIMEOUT: Duration = Duration::from_millis(2_000);
/// Idle connections that are kept.
const IDLE_MAX: usize = 16;

/// Prefix of all keys.
const TAG: &str = "{ptc}";
/// Prefix of every script. It formats numbers in full, because Lua would shorten them.
const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// Scripts that a server out of memory refuses. All others run even then, so that sessions can be read, and closed to free memory.
const WRITES_DATA: [&str; 2] = ["create", "commit"];

macro_rules! scripts {
    ($($name:ident),*) => {
        struct Scripts { $($name: Script,)* }

        impl Scripts {
            fn new() -> Self {
                Scripts { $($name: Script::new(&format!(
                    "#!lua{}\n{PRELUDE}\n{}",
                    if WRITES_DATA.contains(&stringify!($name)) { "" } else { " flags=allow-oom" },
                    include_str!(concat!("scripts/", stringify!($name), ".lua"))
                )),)* }
            }
        }
    };
}

scripts!(
    acknowledge,
    mark,
    create,
    read,
    acquire,
    commit,
    release,
    close,
    close_owner,
    list,
    login_failed,
    login_succeeded,
    inspect,
    sweep,
    broadcast
);

/// A script's text, and the digest that servers cache it under.
struct Script {
    text: String,
    hash: String,
}

/// A script with its arguments.
struct Call<'a> {
    script: &'a Script,
    key: &'a str,
    arguments: Vec<Vec<u8>>,
}

impl Script {
    fn new(text: &str) -> Self {
        Script {
            hash: redis::Script::new(text).get_hash().to_owned(),
            text: text.to_owned(),
        }
    }

    fn key<'a>(&'a self, key: &'a str) -> Call<'a> {
        Call {
            script: self,
            key,
            arguments: Vec::new(),
        }
    }
}

impl Call<'_> {
    fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }

    /// Runs the script on a server by its digest; sends the text where the server has not cached it.
    fn invoke<T: FromRedisValue>(
        &self,
        connection: &mut dyn ConnectionLike,
    ) -> Result<T, RedisError> {
        let Script { text, hash } = self.script;
        match self.ask("EVALSHA", hash, connection) {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.ask("EVAL", text, connection)
            }
            told => told,
        }
    }

    fn ask<T: FromRedisValue>(
        &self,
        command: &str,
        script: &str,
        connection: &mut dyn ConnectionLike,
    ) -> Result<T, RedisError> {
        let mut asked = redis::cmd(command);
        asked.arg(script).arg(1).arg(self.key).arg(&self.arguments);
        asked.query(connection)
    }
}

/// One or more Redis servers.
#[derive(Clone)]
pub struct Redis {
    /// The prefix of all keys.
    root: String,
    /// The prefix of all channels. The databases of a server share its channels, so it includes the database.
    channels: String,
    scripts: Arc<Scripts>,
    connections: Arc<Connections>,
    acks: Arc<Acks>,
}

/// The part of the state that the probing thread needs, too.
struct Connections {
    servers: Servers,
    idle: Mutex<Vec<RedisConnection>>,
    /// The last request got no reply.
    away: AtomicBool,
    /// A thread is probing the store.
    is_probing: AtomicBool,
}

enum Servers {
    One(Server),
    Sentinel(Sentinels),
    /// One server of the cluster has all keys and gets all requests.
    Cluster(ServerList),
}

/// Servers of which any may be asked; the one that replied last is asked first.
struct ServerList {
    servers: Vec<Server>,
    first: AtomicUsize,
}

/// Sentinels, which know the address of the master.
struct Sentinels {
    asked: ServerList,
    name: String,
    /// Settings of the master; its host and port come from the sentinels.
    master: Server,
}

impl Redis {
    /// Prepares a client; connections are made on demand.
    ///
    /// # Errors
    /// Why the address or the system's certificates cannot be used.
    pub fn open(address: &RedisAddress, namespace: Namespace) -> StoreResult<Self> {
        let root = format!("{TAG}:{}:", namespace.name());
        Ok(Redis {
            channels: match address.database {
                0 => root.clone(),
                database => format!("{root}{database}:"),
            },
            root,
            scripts: Arc::new(Scripts::new()),
            acks: Arc::new(Acks::new()),
            connections: Arc::new(Connections {
                servers: Servers::of(address)
                    .map_err(|error| StoreError::Unavailable(cause(&error)))?,
                idle: Mutex::default(),
                away: AtomicBool::new(false),
                is_probing: AtomicBool::new(false),
            }),
        })
    }

    /// Inspects the store without changing it.
    ///
    /// # Errors
    /// The cause.
    pub fn inspect(&self) -> StoreResult<StoreSummary> {
        let mut call = self.scripts.inspect.key(&self.root);
        call.arg(CLOSED_MAX);
        let mut parts = parse_reply(self.run(&call)?)?;
        Ok(StoreSummary {
            mark: parts.next()?,
            sessions: parts.next()?,
            warnings: self.connections.durability_warnings(),
        })
    }

    /// Requests a lease, within a protocol session if `protocol_owner` is not empty.
    fn ask_lease(
        &self,
        acquire: &LeaseRequest<'_>,
        protocol_owner: &str,
    ) -> StoreResult<Vec<Value>> {
        let mut call = self.scripts.acquire.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(acquire.key.as_str())
            .arg(acquire.owner)
            .arg(acquire.known.unwrap_or_default())
            .arg(acquire.holder)
            .arg(micros(acquire.term))
            .arg(protocol_owner);
        self.run(&call)
    }

    /// Runs a script. Retries once on a new connection where a kept connection is broken: every script is idempotent.
    fn run<T: FromRedisValue>(&self, call: &Call<'_>) -> StoreResult<T> {
        self.run_reporting_retry(call).map(|(answer, _)| answer)
    }

    /// Like [`Redis::run`], and reports whether the script was sent twice: then the first attempt may have taken effect.
    fn run_reporting_retry<T: FromRedisValue>(&self, call: &Call<'_>) -> StoreResult<(T, bool)> {
        let mut twice = false;
        let mut ends = Instant::now() + STORE_TIMEOUT;
        let left = |ends: Instant, most: Duration| {
            let left = ends.saturating_duration_since(Instant::now());
            left.min(most)
        };
        let connections = &self.connections;
        if connections.away.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable(
                "it did not answer a moment ago".into(),
            ));
        }
        let kept = connections.take_idle();
        if let Some(mut connection) = kept {
            match call.invoke(connection.with_timeout(left(ends, ANSWER_TIMEOUT))) {
                Ok(answer) => {
                    connections.put_idle(connection);
                    return Ok((answer, false));
                }
                Err(error) if is_too_large(&error, &connection) => {
                    return Err(unknown_outcome(&error));
                }
                Err(error) if error.is_timeout() => {
                    return Err(connections.mark_unavailable(&error));
                }
                // The connection may be older than the server.
                Err(error) if is_connection_fault(&error) => {
                    connections.idle().clear();
                    // A server that redirects has done nothing.
                    twice = !error.is_cluster_error();
                    if connection.was_large() {
                        // Transfer time of the first attempt does not count against the second.
                        ends = Instant::now() + STORE_TIMEOUT;
                    }
                }
                Err(error) => return Err(rejection(&error)),
            }
        }
        let connected = connections.connect(left(ends, CONNECT_TIMEOUT));
        let mut connection = connected.map_err(|error| match is_connection_fault(&error) {
            true => connections.mark_unavailable(&error),
            false => rejection(&error),
        })?;
        match call.invoke(connection.with_timeout(left(ends, ANSWER_TIMEOUT))) {
            Ok(answer) => {
                connections.put_idle(connection);
                Ok((answer, twice))
            }
            Err(error) if is_too_large(&error, &connection) => Err(unknown_outcome(&error)),
            Err(error) if is_connection_fault(&error) => Err(connections.mark_unavailable(&error)),
            Err(error) => Err(match rejection(&error) {
                // A retry is refused, although the first attempt may have taken effect.
                StoreError::Rejected(_) if twice => unknown_outcome(&error),
                rejection => rejection,
            }),
        }
    }

    /// Delivers broadcasts until nobody listens. Calls `begins` once the subscription is confirmed.
    fn receive_broadcasts(
        &self,
        listener: &Listener,
        begins: impl FnOnce(),
    ) -> Result<(), RedisError> {
        let channels = &self.channels;
        let [told, asked, acted] = [
            format!("{channels}told"),
            format!("{channels}asked"),
            format!("{channels}acted:{}", self.acks.node()),
        ];
        let mut connection = self.connections.connect(CONNECT_TIMEOUT)?;
        let ping = redis::cmd("PING").get_packed_command();
        // The first reply comes when all channels are subscribed; the other confirmations are not messages.
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(&[&told, &asked, &acted]);
        connection.send(&subscribe.get_packed_command())?;
        connection.next(ANSWER_TIMEOUT)?.extract_error()?;
        if !listener(StoreEvent::Subscribed) {
            return Ok(());
        }
        self.acks.set_listening(true);
        begins();
        loop {
            let said = match connection.next(PING_AFTER) {
                Err(error) if error.is_timeout() => {
                    // A dead connection is as silent as one without messages.
                    connection.with_timeout(ANSWER_TIMEOUT).send(&ping)?;
                    connection.next(ANSWER_TIMEOUT)
                }
                said => said,
            };
            let (channel, mut text) = message(said?.extract_error()?);
            if channel == asked {
                self.acknowledge(&text);
            }
            if channel == acted
                && let Some((question, node)) = text.split_once(' ')
            {
                self.acks.answer(question, node);
            }
            // Whatever arrived, even a reply to PING, is passed on, if only as an empty message: the return value of `listener` says whether
            // anybody still listens, so the thread ends when its node is gone.
            if channel != told {
                text.clear();
            }
            if !listener(StoreEvent::Message(&text)) {
                return Ok(());
            }
        }
    }

    /// Acknowledges to another node that this one has acted on the messages before.
    fn acknowledge(&self, question: &str) {
        let Some(asker) = Acks::asker(question) else {
            return;
        };
        let mut call = self.scripts.acknowledge.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(&self.channels)
            .arg(asker)
            .arg(question)
            .arg(self.acks.node());
        // If the store is away, the other node stops waiting soon.
        let _ = self.run::<Value>(&call);
    }
}

/// Whether an exchange failed because of its own size; smaller requests would be answered.
fn is_too_large(error: &RedisError, connection: &RedisConnection) -> bool {
    error.is_io_error()
        && connection.was_large()
        && (error.is_timeout() || !error.is_connection_dropped())
}

fn unknown_outcome(error: &RedisError) -> StoreError {
    StoreError::UnknownOutcome(cause(error))
}

/// Whether the fault lies with the connection or the server's state rather than with the request.
fn is_connection_fault(error: &RedisError) -> bool {
    use redis::ErrorKind;
    error.is_io_error()
        || error.is_unrecoverable_error()
        || error.is_cluster_error()
        || matches!(
            error.kind(),
            ErrorKind::AuthenticationFailed
                | ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                        | ServerErrorKind::MasterDown
                        | ServerErrorKind::ReadOnly
                )
        )
}

/// The failure that an error reply means.
fn rejection(error: &RedisError) -> StoreError {
    match error.code() {
        Some("OOM") => SessionError::StoreFull.into(),
        _ => StoreError::Unavailable(cause(error)),
    }
}

/// The text of an error with its cause.
fn cause(error: &RedisError) -> String {
    let text = error.to_string();
    match text.len() <= QUOTED_BYTES_MAX {
        true => text,
        false => format!("it answers an error of {} bytes", text.len()),
    }
}

impl Connections {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<RedisConnection>> {
        lock(&self.idle)
    }

    /// Takes an idle connection on which nothing arrived meanwhile.
    fn take_idle(&self) -> Option<RedisConnection> {
        loop {
            let mut connection = self.idle().pop()?;
            if connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    fn put_idle(&self, connection: RedisConnection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    fn connect(&self, within: Duration) -> Result<RedisConnection, RedisError> {
        blocking(|| match &self.servers {
            Servers::One(server) => server.connect(within, ANSWER_BYTES_MAX),
            Servers::Sentinel(sentinels) => sentinels.connect(within),
            Servers::Cluster(asked) => {
                asked.first_available(Instant::now() + within, connect_to_key_owner)
            }
        })
    }

    /// Records that the store is away, and starts one thread that probes it.
    fn mark_unavailable(self: &Arc<Self>, error: &RedisError) -> StoreError {
        self.idle().clear();
        self.away.store(true, Ordering::Release);
        if !self.is_probing.swap(true, Ordering::AcqRel) {
            let connections = Arc::downgrade(self);
            let started = std::thread::Builder::new()
                .name("store".into())
                .spawn(move || {
                    loop {
                        std::thread::sleep(PROBE_INTERVAL);
                        let Some(connections) = connections.upgrade() else {
                            return;
                        };
                        if connections.probe() {
                            // In this order: a request that fails once `away` is cleared must be able to start the next prober, or
                            // the store would stay away forever.
                            connections.is_probing.store(false, Ordering::Release);
                            connections.away.store(false, Ordering::Release);
                            return;
                        }
                    }
                });
            if started.is_err() {
                // Without a thread, the next request probes the store.
                self.is_probing.store(false, Ordering::Release);
                self.away.store(false, Ordering::Release);
            }
        }
        StoreError::Unavailable(cause(error))
    }

    /// Settings with which the server may lose sessions, as far as it reveals them.
    fn durability_warnings(&self) -> Vec<String> {
        let told = |name: &str| -> Option<String> {
            let mut connection = self.connect(CONNECT_TIMEOUT).ok()?;
            let mut question = redis::cmd("CONFIG");
            // Managed servers may not allow it.
            let asked = question
                .arg("GET")
                .arg(name)
                .query(connection.with_timeout(ANSWER_TIMEOUT));
            let (_, value): (String, String) = asked.ok()?;
            Some(value)
        };
        // Each server of a cluster has its own settings.
        if matches!(self.servers, Servers::Cluster(_)) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        if told("appendonly").is_some_and(|on| on == "no") {
            warnings.push("appendonly is off: its end loses what it has not saved".to_owned());
        }
        if let Some(policy) = told("maxmemory-policy").filter(|policy| policy != "noeviction") {
            warnings.push(format!(
                "maxmemory-policy is {policy}: it forgets sessions when it is full; noeviction refuses new ones"
            ));
        }
        warnings
    }

    fn probe(&self) -> bool {
        let asked = self.connect(CONNECT_TIMEOUT).and_then(|mut connection| {
            redis::cmd("PING").query::<Value>(connection.with_timeout(ANSWER_TIMEOUT))?;
            Ok(connection)
        });
        asked.map(|connection| self.put_idle(connection)).is_ok()
    }
}

/// Channel and text of a message; both empty where the value is no message or not text.
fn message(said: Value) -> (String, String) {
    let Ok(parts) = Vec::<Value>::from_redis_value(said) else {
        return Default::default();
    };
    let mut texts = parts
        .into_iter()
        .map_while(|part| String::from_redis_value(part).ok());
    match (texts.next(), texts.next(), texts.next(), texts.next()) {
        (Some(kind), Some(channel), Some(text), None) if kind == "message" => (channel, text),
        _ => Default::default(),
    }
}

impl ServerList {
    fn of(servers: Vec<Server>) -> Self {
        ServerList {
            servers,
            first: AtomicUsize::new(0),
        }
    }

    /// The reply of the first server that can be asked. Each server gets an equal share of the time that is left; one share is reserved
    /// for the steps that follow.
    fn first_available<T>(
        &self,
        ends: Instant,
        ask: impl Fn(&Server, Duration) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let count = self.servers.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut told =
            RedisError::from((redis::ErrorKind::InvalidClientConfig, "no server is named"));
        for tried in 0..count {
            let at = (first + tried) % count;
            let shares = u32::try_from(count - tried + 1).unwrap_or(u32::MAX);
            let share = ends.saturating_duration_since(Instant::now()) / shares;
            let Some(server) = self.servers.get(at).filter(|_| !share.is_zero()) else {
                break;
            };
            match ask(server, share) {
                Ok(answer) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => told = error,
            }
        }
        Err(told)
    }
}

/// Connects to the server of a cluster that has the keys, starting from any of its servers, within a time.
fn connect_to_key_owner(server: &Server, within: Duration) -> Result<RedisConnection, RedisError> {
    let ends = Instant::now() + within;
    let mut server = server.clone();
    for _ in 0..=REDIRECTS {
        let left = ends.saturating_duration_since(Instant::now());
        let mut connection = server.connect(left, ANSWER_BYTES_MAX)?;
        let mut question = redis::cmd("EXISTS");
        let sent_on = match question
            .arg(format!("{TAG}:"))
            .query::<Value>(&mut connection)
        {
            Ok(_) => return Ok(connection),
            Err(error) => error,
        };
        let Some((place, _)) = sent_on.redirect_node() else {
            return Err(sent_on);
        };
        server = server.redirected(place)?;
    }
    let endless = "its servers send each other on";
    Err((redis::ErrorKind::Io, endless).into())
}

impl Sentinels {
    /// Connects to the master, and checks its role, within a time. Callers connect independently of each other.
    fn connect(&self, within: Duration) -> Result<RedisConnection, RedisError> {
        let ends = Instant::now() + within;
        let (host, port) = self.asked.first_available(ends, |sentinel, share| {
            let mut connection = sentinel.connect(share, ANSWER_BYTES_MAX)?;
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
            let answer: Option<(String, u16)> = question.query(&mut connection)?;
            answer.ok_or_else(|| {
                let unknown = "the sentinels know no master of this name";
                (redis::ErrorKind::InvalidClientConfig, unknown).into()
            })
        })?;
        let master = Server {
            host,
            port,
            ..self.master.clone()
        };
        let left = ends.saturating_duration_since(Instant::now());
        let mut connection = master.connect(left, ANSWER_BYTES_MAX)?;
        // Sentinels may be out of date: a former master soon refuses writes.
        let role: Vec<Value> = redis::cmd("ROLE").query(&mut connection)?;
        let role = role.into_iter().next().map(String::from_redis_value);
        match role {
            Some(Ok(role)) if role == "master" => Ok(connection),
            _ => {
                let replica = "the sentinels name a server that is no master any more";
                Err((redis::ErrorKind::Io, replica).into())
            }
        }
    }
}

impl Servers {
    fn of(address: &RedisAddress) -> Result<Self, RedisError> {
        if address.tls {
            // Another part of the process may have installed one first.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let tls = address.tls.then(wire::authorities).transpose()?;
        let places = address.servers.iter();
        let plain = places
            .map(|place| Server::from_address(place, tls.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let login = |server: Server| Server {
            user: address.user.clone(),
            password: address.password.clone(),
            database: address.database,
            ..server
        };
        let unnamed = (redis::ErrorKind::InvalidClientConfig, "no server is named");
        let first = plain.first().cloned().ok_or(unnamed)?;
        Ok(match &address.kind {
            Topology::One => Servers::One(login(first)),
            Topology::Sentinel(name) => Servers::Sentinel(Sentinels {
                // User, password and database are the master's.
                master: login(first),
                asked: ServerList::of(plain),
                name: name.clone(),
            }),
            Topology::Cluster => {
                Servers::Cluster(ServerList::of(plain.into_iter().map(login).collect()))
            }
        })
    }
}

/// The failure for the first word of a script's reply; every word but `ok` is a refusal.
fn rejection_for(word: &str) -> StoreError {
    match word {
        "not_found" => SessionError::NotFound.into(),
        "closed" => SessionError::Closed.into(),
        "foreign" => SessionError::Foreign.into(),
        "busy" => SessionError::Busy.into(),
        "full" => SessionError::Full.into(),
        "owner_full" => SessionError::OwnerFull.into(),
        "lost" => SessionError::LeaseLost.into(),
        "unreadable" => SessionError::Unreadable.into(),
        // A truncated word might still contain a part of a secret.
        other if other.len() > QUOTED_BYTES_MAX => {
            StoreError::Unavailable(format!("it answers a word of {} bytes", other.len()))
        }
        other => StoreError::Unavailable(format!("it answers {other:?}")),
    }
}

/// The values after an `ok`.
fn parse_reply(answer: Vec<Value>) -> StoreResult<ReplyParts> {
    let mut parts = answer.into_iter();
    match parts.next() {
        Some(word) => match text(word)?.as_str() {
            "ok" => Ok(ReplyParts(parts)),
            word => Err(rejection_for(word)),
        },
        None => Err(unexpected_reply()),
    }
}

struct ReplyParts(std::vec::IntoIter<Value>);

impl ReplyParts {
    fn next<T: FromRedisValue>(&mut self) -> StoreResult<T> {
        let value = self.0.next().ok_or_else(unexpected_reply)?;
        T::from_redis_value(value).map_err(|_| unexpected_reply())
    }

    fn times(&mut self) -> StoreResult<RecordTimes> {
        Ok(RecordTimes {
            created: self.next()?,
            expires: self.next()?,
            used: self.next()?,
            now: self.next()?,
        })
    }

    /// Reads a record without its body.
    fn record(&mut self, key: SessionKey) -> StoreResult<SessionRecord> {
        Ok(SessionRecord {
            key,
            owner: self.next()?,
            times: self.times()?,
            version: self.next()?,
            stamp: self.next()?,
            running: self.next::<i64>()? != 0,
            head: self.next()?,
            body: None,
        })
    }
}

fn text(value: Value) -> StoreResult<String> {
    String::from_redis_value(value).map_err(|_| unexpected_reply())
}

fn unexpected_reply() -> StoreError {
    StoreError::Unavailable("it answers what no script of ours does".into())
}

/// Reads a record and its lease.
fn parse_lease(
    mut parts: ReplyParts,
    acquire: &LeaseRequest<'_>,
) -> StoreResult<(SessionRecord, Lease)> {
    let mut record = parts.record(acquire.key.clone())?;
    record.body = parts.next()?;
    let lease = Lease {
        key: acquire.key.clone(),
        fence: parts.next()?,
        version: record.version,
        holder: acquire.holder.to_owned(),
    };
    Ok((record, lease))
}

impl SessionStore for Redis {
    fn mark(&self, fresh: &[u8], replaced: Option<&[u8]>) -> StoreResult<Vec<u8>> {
        let mut call = self.scripts.mark.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(fresh)
            .arg(replaced.unwrap_or_default());
        parse_reply(self.run(&call)?)?.next()
    }

    fn create(&self, new: &NewSession<'_>) -> StoreResult<RecordTimes> {
        let mut call = self.scripts.create.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(new.key.as_str())
            .arg(new.owner)
            .arg(micros(new.ttl))
            .arg(micros(new.idle))
            .arg(new.count_max)
            .arg(new.per_owner_max)
            .arg(new.stamp)
            .arg(new.content.head)
            .arg(new.content.body);
        parse_reply(self.run(&call)?)?.times()
    }

    fn read(
        &self,
        key: &SessionKey,
        owner: &str,
        known: Option<&str>,
    ) -> StoreResult<SessionRecord> {
        let mut call = self.scripts.read.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(key.as_str())
            .arg(owner)
            .arg(known.unwrap_or_default());
        let mut parts = parse_reply(self.run(&call)?)?;
        let mut record = parts.record(key.clone())?;
        record.body = parts.next()?;
        Ok(record)
    }

    fn acquire(&self, acquire: &LeaseRequest<'_>) -> StoreResult<(SessionRecord, Lease)> {
        parse_lease(parse_reply(self.ask_lease(acquire, "")?)?, acquire)
    }

    fn acquire_within(
        &self,
        _: &dyn SessionStore,
        protocol_owner: &str,
        acquire: &LeaseRequest<'_>,
    ) -> StoreResult<(SessionRecord, StoreResult<(SessionRecord, Lease)>)> {
        let mut outer = parse_reply(self.ask_lease(acquire, protocol_owner)?)?;
        let record = outer.record(SessionKey::from_digest(acquire.owner))?;
        match parse_reply(outer.next()?).and_then(|inner| parse_lease(inner, acquire)) {
            Err(failure @ (StoreError::Unavailable(_) | StoreError::UnknownOutcome(_))) => {
                Err(failure)
            }
            begun => Ok((record, begun)),
        }
    }

    fn commit(&self, lease: &Lease, content: SealedContent<'_>) -> StoreResult<()> {
        let mut call = self.scripts.commit.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(lease.key.as_str())
            .arg(lease.fence)
            .arg(lease.version)
            .arg(&lease.holder)
            .arg(content.head)
            .arg(content.body)
            .arg(u8::from(crate::sessions::test_faults::skips_commit_checks()));
        let (told, twice) = match self.run_reporting_retry(&call) {
            Ok((answer, twice)) => (parse_reply(answer).map(drop), twice),
            Err(failure) => (Err(failure), false),
        };
        match told {
            // The first attempt may have committed before other turns went on, so it would be wrong to report that nothing was kept.
            Err(StoreError::Rejected(_)) if twice => {
                let cause = "the connection broke while a turn was committed";
                Err(StoreError::UnknownOutcome(cause.into()))
            }
            told => told,
        }
    }

    fn release(&self, lease: &Lease) -> StoreResult<()> {
        let mut call = self.scripts.release.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(lease.key.as_str())
            .arg(lease.fence)
            .arg(&lease.holder);
        parse_reply(self.run(&call)?).map(drop)
    }

    fn close(&self, key: &SessionKey, owner: &str) -> StoreResult<()> {
        let mut call = self.scripts.close.key(&self.root);
        call.arg(CLOSED_MAX).arg(key.as_str()).arg(owner);
        let (answer, twice) = self.run_reporting_retry(&call)?;
        match parse_reply(answer) {
            // The first attempt closed it.
            Err(StoreError::Rejected(SessionError::Closed)) if twice => Ok(()),
            told => told.map(drop),
        }
    }

    fn close_owner(&self, owner: &str) -> StoreResult<()> {
        let mut call = self.scripts.close_owner.key(&self.root);
        call.arg(CLOSED_MAX).arg(owner);
        parse_reply(self.run(&call)?).map(drop)
    }

    fn list(&self, owner: Option<&str>) -> StoreResult<Vec<SessionRecord>> {
        let mut call = self.scripts.list.key(&self.root);
        call.arg(CLOSED_MAX).arg(owner.unwrap_or_default());
        let mut parts = parse_reply(self.run(&call)?)?;
        let count: usize = parts.next()?;
        (0..count)
            .map(|_| {
                let key = SessionKey(parts.next()?);
                parts.record(key)
            })
            .collect()
    }

    fn sweep(&self) -> StoreResult<usize> {
        let mut call = self.scripts.sweep.key(&self.root);
        call.arg(CLOSED_MAX);
        parse_reply(self.run(&call)?)?.next()
    }

    fn login_failed(&self, failed: &FailedLogin<'_>) -> StoreResult<LoginFailure> {
        let mut call = self.scripts.login_failed.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(failed.source)
            .arg(micros(failed.window))
            .arg(micros(failed.block))
            .arg(failed.failures_max)
            .arg(SOURCES_MAX);
        let mut parts = parse_reply(self.run(&call)?)?;
        Ok(match parts.next::<String>()?.as_str() {
            "counted" => LoginFailure::Counted,
            "blocks" => LoginFailure::Blocks,
            _ => LoginFailure::Blocked(Duration::from_micros(parts.next()?)),
        })
    }

    fn login_succeeded(&self, source: &str) -> StoreResult<()> {
        let mut call = self.scripts.login_succeeded.key(&self.root);
        call.arg(CLOSED_MAX).arg(source);
        parse_reply(self.run(&call)?).map(drop)
    }

    fn can_broadcast(&self) -> bool {
        true
    }

    fn fails_fast(&self) -> bool {
        self.connections.away.load(Ordering::Acquire)
    }

    fn yields_executor(&self) -> bool {
        true
    }

    fn broadcast(&self, message: &str) -> StoreResult<()> {
        let question = self.acks.question();
        let mut call = self.scripts.broadcast.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(&self.channels)
            .arg(message)
            .arg(question.as_deref().unwrap_or_default());
        let listeners = self.run(&call).and_then(parse_reply);
        let listeners = listeners.and_then(|mut parts| parts.next::<usize>());
        if let Some(question) = &question {
            match &listeners {
                Ok(count) => blocking(|| self.acks.wait(question, *count, ACK_TIMEOUT)),
                Err(_) => self.acks.forget(question),
            }
        }
        listeners.map(drop)
    }

    fn subscribe(&self, listener: Listener) {
        let (own, (waits, begins)) = (self.clone(), mpsc::channel::<()>());
        // Without a thread this node receives nothing, as when the store is away.
        let started = std::thread::Builder::new()
            .name("told".into())
            .spawn(move || {
                // The caller waits until this sender is dropped: the node is subscribed, or could not subscribe.
                let mut waits = Some(waits);
                while own.receive_broadcasts(&listener, || waits = None).is_err() {
                    own.acks.set_listening(false);
                    waits = None;
                    if !listener(StoreEvent::Disconnected) {
                        return;
                    }
                    std::thread::sleep(PROBE_INTERVAL);
                }
            });
        if started.is_ok() {
            let _begun = begins.recv_timeout(STORE_TIMEOUT);
        }
    }
}
