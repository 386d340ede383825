//! Redis or Valkey as a store. Each operation is one Lua script, and so one atomic step and one round trip.
//!
//! All keys share the hash tag `{ptc}`, so in a cluster a script finds all of them on one server. Connections block the calling thread,
//! with short timeouts; a few are kept for reuse. After a failure no caller waits for the store: requests fail at once, while one thread
//! probes whether the store is back.

use super::super::SessionError;
use super::super::record::SNAPSHOT_BYTES_MAX;
use super::acks::Acks;
use super::wire::{self, Server, Wire};
use super::{
    Acquire, Answer, CLOSED_MAX, Content, FailedLogin, Failure, Heard, Key, Lease, LoginFailure,
    New, PATIENCE, Record, SOURCES_MAX, SessionStore, Sight, Space, Times, Word, micros,
};
use crate::executor::blocking;
use crate::lock::lock;
use crate::settings::store_address::{RedisAddress, Topology};
use redis::{ConnectionLike, FromRedisValue, RedisError, ServerErrorKind, ToRedisArgs, Value};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// The time limits for connecting and for a reply. An operation ends within [`PATIENCE`], not counting the transfer time of large
/// content.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_000);
const _: () =
    assert!(CONNECT_TIMEOUT.as_millis() + ANSWER_TIMEOUT.as_millis() <= PATIENCE.as_millis());
/// Bytes of the largest reply: a session, or the list of all live sessions.
const ANSWER_BYTES_MAX: usize = 2 * SNAPSHOT_BYTES_MAX;
/// Bytes of the longest text from a server that is passed on to the log or to the operator who starts the node.
const TOLD_BYTES_MAX: usize = 512;
/// Silence after which a listener checks the connection with a PING.
const SILENCE: Duration = Duration::from_secs(5);
/// Redirects that are followed in a cluster until the server with the keys is found.
const REDIRECTS: usize = 3;
/// The pause between two probes of a store that is away.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a broadcast waits until the nodes have acted on it.
const ACT_WITHIN: Duration = Duration::from_millis(2_000);
/// Idle connections that are kept.
const IDLE_MAX: usize = 16;

/// Prefix of all keys.
const TAG: &str = "{ptc}";
/// Prefix of every script. It formats numbers in full, because Lua would shorten them.
const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// Scripts that a server out of memory refuses. All others run even then, so that sessions can be read, and closed to free memory.
const GROWS: [&str; 2] = ["create", "commit"];

macro_rules! scripts {
    ($($name:ident),*) => {
        struct Scripts { $($name: Script,)* }

        impl Scripts {
            fn new() -> Self {
                Scripts { $($name: Script::new(&format!(
                    "#!lua{}\n{PRELUDE}\n{}",
                    if GROWS.contains(&stringify!($name)) { "" } else { " flags=allow-oom" },
                    include_str!(concat!("scripts/", stringify!($name), ".lua"))
                )),)* }
            }
        }
    };
}

scripts!(
    acted,
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
    look,
    sweep,
    tell
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
    fn invoke<T: FromRedisValue>(&self, link: &mut dyn ConnectionLike) -> Result<T, RedisError> {
        let Script { text, hash } = self.script;
        match self.ask("EVALSHA", hash, link) {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.ask("EVAL", text, link)
            }
            told => told,
        }
    }

    fn ask<T: FromRedisValue>(
        &self,
        command: &str,
        script: &str,
        link: &mut dyn ConnectionLike,
    ) -> Result<T, RedisError> {
        let mut asked = redis::cmd(command);
        asked.arg(script).arg(1).arg(self.key).arg(&self.arguments);
        asked.query(link)
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
    shared: Arc<Shared>,
    acks: Arc<Acks>,
}

/// The part of the state that the probing thread needs, too.
struct Shared {
    servers: Servers,
    idle: Mutex<Vec<Wire>>,
    /// The last request got no reply.
    away: AtomicBool,
    /// A thread is probing the store.
    looking: AtomicBool,
}

enum Servers {
    One(Server),
    Sentinel(Sentinels),
    /// One server of the cluster has all keys and gets all requests.
    Cluster(Asked),
}

/// Servers of which any may be asked; the one that replied last is asked first.
struct Asked {
    servers: Vec<Server>,
    first: AtomicUsize,
}

/// Sentinels, which know the address of the master.
struct Sentinels {
    asked: Asked,
    name: String,
    /// Settings of the master; its host and port come from the sentinels.
    master: Server,
}

impl Redis {
    /// Prepares a client; connections are made on demand.
    ///
    /// # Errors
    /// Why the address or the system's certificates cannot be used.
    pub fn open(address: &RedisAddress, space: Space) -> Result<Self, String> {
        let root = format!("{TAG}:{}:", space.name());
        Ok(Redis {
            channels: match address.database {
                0 => root.clone(),
                database => format!("{root}{database}:"),
            },
            root,
            scripts: Arc::new(Scripts::new()),
            acks: Arc::new(Acks::new()),
            shared: Arc::new(Shared {
                servers: Servers::of(address).map_err(|error| cause(&error))?,
                idle: Mutex::default(),
                away: AtomicBool::new(false),
                looking: AtomicBool::new(false),
            }),
        })
    }

    /// Inspects the store without changing it.
    ///
    /// # Errors
    /// The cause.
    pub fn look(&self) -> Result<Sight, String> {
        let mut call = self.scripts.look.key(&self.root);
        call.arg(CLOSED_MAX);
        let look = || -> Answer<Sight> {
            let mut parts = parts(self.run(&call)?)?;
            Ok(Sight {
                mark: parts.next()?,
                sessions: parts.next()?,
                warnings: self.shared.lasting(),
            })
        };
        look().map_err(|failure| failure.to_string())
    }

    /// Requests a lease, within a protocol session if `protocol_owner` is not empty.
    fn ask_lease(&self, acquire: &Acquire<'_>, protocol_owner: &str) -> Answer<Vec<Value>> {
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
    fn run<T: FromRedisValue>(&self, call: &Call<'_>) -> Answer<T> {
        self.run_noting(call).map(|(answer, _)| answer)
    }

    /// Like [`Redis::run`], and reports whether the script was sent twice: then the first attempt may have taken effect.
    fn run_noting<T: FromRedisValue>(&self, call: &Call<'_>) -> Answer<(T, bool)> {
        let mut twice = false;
        let mut ends = Instant::now() + PATIENCE;
        let left = |ends: Instant, most: Duration| {
            let left = ends.saturating_duration_since(Instant::now());
            left.min(most)
        };
        let shared = &self.shared;
        if shared.away.load(Ordering::Acquire) {
            return Err(Failure::Away("it did not answer a moment ago".into()));
        }
        let kept = shared.kept();
        if let Some(mut link) = kept {
            match call.invoke(link.within(left(ends, ANSWER_TIMEOUT))) {
                Ok(answer) => {
                    shared.keep(link);
                    return Ok((answer, false));
                }
                Err(error) if is_own_fault(&error, &link) => return Err(unknown(&error)),
                Err(error) if error.is_timeout() => return Err(shared.lose(&error)),
                // The connection may be older than the server.
                Err(error) if is_lost(&error) => {
                    shared.idle().clear();
                    // A server that redirects has done nothing.
                    twice = !error.is_cluster_error();
                    if link.moved_much() {
                        // Transfer time of the first attempt does not count against the second.
                        ends = Instant::now() + PATIENCE;
                    }
                }
                Err(error) => return Err(refusal(&error)),
            }
        }
        let connected = shared.connect(left(ends, CONNECT_TIMEOUT));
        let mut link = connected.map_err(|error| match is_lost(&error) {
            true => shared.lose(&error),
            false => refusal(&error),
        })?;
        match call.invoke(link.within(left(ends, ANSWER_TIMEOUT))) {
            Ok(answer) => {
                shared.keep(link);
                Ok((answer, twice))
            }
            Err(error) if is_own_fault(&error, &link) => Err(unknown(&error)),
            Err(error) if is_lost(&error) => Err(shared.lose(&error)),
            Err(error) => Err(match refusal(&error) {
                // A retry is refused, although the first attempt may have taken effect.
                Failure::Refused(_) if twice => unknown(&error),
                refusal => refusal,
            }),
        }
    }

    /// Delivers broadcasts until nobody listens. Calls `begins` once the subscription is confirmed.
    fn hear(&self, heard: &Heard, begins: impl FnOnce()) -> Result<(), RedisError> {
        let channels = &self.channels;
        let [told, asked, acted] = [
            format!("{channels}told"),
            format!("{channels}asked"),
            format!("{channels}acted:{}", self.acks.node()),
        ];
        let mut link = self.shared.connect(CONNECT_TIMEOUT)?;
        let ping = redis::cmd("PING").get_packed_command();
        // The first reply comes when all channels are subscribed; the other confirmations are not messages.
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(&[&told, &asked, &acted]);
        link.send(&subscribe.get_packed_command())?;
        link.next(ANSWER_TIMEOUT)?.extract_error()?;
        if !heard(Word::Begins) {
            return Ok(());
        }
        self.acks.listen(true);
        begins();
        loop {
            let said = match link.next(SILENCE) {
                Err(error) if error.is_timeout() => {
                    // A dead connection is as silent as one without messages.
                    link.within(ANSWER_TIMEOUT).send(&ping)?;
                    link.next(ANSWER_TIMEOUT)
                }
                said => said,
            };
            let (channel, mut text) = message(said?.extract_error()?);
            if channel == asked {
                self.say_acted(&text);
            }
            if channel == acted
                && let Some((question, node)) = text.split_once(' ')
            {
                self.acks.answer(question, node);
            }
            // Whatever arrived, even a reply to PING, is passed on, if only as an empty message: the return value of `heard` says whether
            // anybody still listens, so the thread ends when its node is gone.
            if channel != told {
                text.clear();
            }
            if !heard(Word::Says(&text)) {
                return Ok(());
            }
        }
    }

    /// Acknowledges to another node that this one has acted on the messages before.
    fn say_acted(&self, question: &str) {
        let Some(asker) = Acks::asker(question) else {
            return;
        };
        let mut call = self.scripts.acted.key(&self.root);
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
fn is_own_fault(error: &RedisError, link: &Wire) -> bool {
    error.is_io_error()
        && link.moved_much()
        && (error.is_timeout() || !error.is_connection_dropped())
}

fn unknown(error: &RedisError) -> Failure {
    Failure::Unknown(cause(error))
}

/// Whether the fault lies with the connection or the server's state rather than with the request.
fn is_lost(error: &RedisError) -> bool {
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
fn refusal(error: &RedisError) -> Failure {
    match error.code() {
        Some("OOM") => SessionError::NoRoom.into(),
        _ => Failure::Away(cause(error)),
    }
}

/// The text of an error with its cause.
fn cause(error: &RedisError) -> String {
    let text = error.to_string();
    match text.len() <= TOLD_BYTES_MAX {
        true => text,
        false => format!("it answers an error of {} bytes", text.len()),
    }
}

impl Shared {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Wire>> {
        lock(&self.idle)
    }

    /// Takes an idle connection on which nothing arrived meanwhile.
    fn kept(&self) -> Option<Wire> {
        loop {
            let mut link = self.idle().pop()?;
            if link.is_quiet() {
                return Some(link);
            }
        }
    }

    fn keep(&self, link: Wire) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(link);
        }
    }

    fn connect(&self, within: Duration) -> Result<Wire, RedisError> {
        blocking(|| match &self.servers {
            Servers::One(server) => server.connect(within, ANSWER_BYTES_MAX),
            Servers::Sentinel(sentinels) => sentinels.connect(within),
            Servers::Cluster(asked) => asked.any(Instant::now() + within, owner),
        })
    }

    /// Records that the store is away, and starts one thread that probes it.
    fn lose(self: &Arc<Self>, error: &RedisError) -> Failure {
        self.idle().clear();
        self.away.store(true, Ordering::Release);
        if !self.looking.swap(true, Ordering::AcqRel) {
            let shared = Arc::downgrade(self);
            let started = std::thread::Builder::new()
                .name("store".into())
                .spawn(move || {
                    loop {
                        std::thread::sleep(LOOK_AGAIN);
                        let Some(shared) = shared.upgrade() else {
                            return;
                        };
                        if shared.answers() {
                            // In this order: a request that fails once `away` is cleared must be able to start the next prober, or
                            // the store would stay away forever.
                            shared.looking.store(false, Ordering::Release);
                            shared.away.store(false, Ordering::Release);
                            return;
                        }
                    }
                });
            if started.is_err() {
                // Without a thread, the next request probes the store.
                self.looking.store(false, Ordering::Release);
                self.away.store(false, Ordering::Release);
            }
        }
        Failure::Away(cause(error))
    }

    /// Settings with which the server may lose sessions, as far as it reveals them.
    fn lasting(&self) -> Vec<String> {
        let told = |name: &str| -> Option<String> {
            let mut link = self.connect(CONNECT_TIMEOUT).ok()?;
            let mut question = redis::cmd("CONFIG");
            // Managed servers may not allow it.
            let asked = question
                .arg("GET")
                .arg(name)
                .query(link.within(ANSWER_TIMEOUT));
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

    fn answers(&self) -> bool {
        let asked = self.connect(CONNECT_TIMEOUT).and_then(|mut link| {
            redis::cmd("PING").query::<Value>(link.within(ANSWER_TIMEOUT))?;
            Ok(link)
        });
        asked.map(|link| self.keep(link)).is_ok()
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

impl Asked {
    fn of(servers: Vec<Server>) -> Self {
        Asked {
            servers,
            first: AtomicUsize::new(0),
        }
    }

    /// The reply of the first server that can be asked. Each server gets an equal share of the time that is left; one share is reserved
    /// for the steps that follow.
    fn any<T>(
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
fn owner(server: &Server, within: Duration) -> Result<Wire, RedisError> {
    let ends = Instant::now() + within;
    let mut server = server.clone();
    for _ in 0..=REDIRECTS {
        let left = ends.saturating_duration_since(Instant::now());
        let mut link = server.connect(left, ANSWER_BYTES_MAX)?;
        let mut question = redis::cmd("EXISTS");
        let sent_on = match question.arg(format!("{TAG}:")).query::<Value>(&mut link) {
            Ok(_) => return Ok(link),
            Err(error) => error,
        };
        let Some((place, _)) = sent_on.redirect_node() else {
            return Err(sent_on);
        };
        server = server.beside(place)?;
    }
    let endless = "its servers send each other on";
    Err((redis::ErrorKind::Io, endless).into())
}

impl Sentinels {
    /// Connects to the master, and checks its role, within a time. Callers connect independently of each other.
    fn connect(&self, within: Duration) -> Result<Wire, RedisError> {
        let ends = Instant::now() + within;
        let (host, port) = self.asked.any(ends, |sentinel, share| {
            let mut link = sentinel.connect(share, ANSWER_BYTES_MAX)?;
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
            let answer: Option<(String, u16)> = question.query(&mut link)?;
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
        let mut link = master.connect(left, ANSWER_BYTES_MAX)?;
        // Sentinels may be out of date: a former master soon refuses writes.
        let role: Vec<Value> = redis::cmd("ROLE").query(&mut link)?;
        let role = role.into_iter().next().map(String::from_redis_value);
        match role {
            Some(Ok(role)) if role == "master" => Ok(link),
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
            .map(|place| Server::at(place, tls.clone()))
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
                asked: Asked::of(plain),
                name: name.clone(),
            }),
            Topology::Cluster => {
                Servers::Cluster(Asked::of(plain.into_iter().map(login).collect()))
            }
        })
    }
}

/// The failure for the first word of a script's reply; every word but `ok` is a refusal.
fn refused(word: &str) -> Failure {
    match word {
        "not_found" => SessionError::NotFound.into(),
        "closed" => SessionError::Closed.into(),
        "foreign" => SessionError::Foreign.into(),
        "busy" => SessionError::Busy.into(),
        "full" => SessionError::Full.into(),
        "owner_full" => SessionError::OwnerFull.into(),
        "lost" => SessionError::Lost.into(),
        "unreadable" => SessionError::Unreadable.into(),
        // A truncated word might still contain a part of a secret.
        other if other.len() > TOLD_BYTES_MAX => {
            Failure::Away(format!("it answers a word of {} bytes", other.len()))
        }
        other => Failure::Away(format!("it answers {other:?}")),
    }
}

/// The values after an `ok`.
fn parts(answer: Vec<Value>) -> Answer<Parts> {
    let mut parts = answer.into_iter();
    match parts.next() {
        Some(word) => match text(word)?.as_str() {
            "ok" => Ok(Parts(parts)),
            word => Err(refused(word)),
        },
        None => Err(unreadable()),
    }
}

struct Parts(std::vec::IntoIter<Value>);

impl Parts {
    fn next<T: FromRedisValue>(&mut self) -> Answer<T> {
        let value = self.0.next().ok_or_else(unreadable)?;
        T::from_redis_value(value).map_err(|_| unreadable())
    }

    fn times(&mut self) -> Answer<Times> {
        Ok(Times {
            created: self.next()?,
            expires: self.next()?,
            used: self.next()?,
            now: self.next()?,
        })
    }

    /// Reads a record without its body.
    fn record(&mut self, key: Key) -> Answer<Record> {
        Ok(Record {
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

fn text(value: Value) -> Answer<String> {
    String::from_redis_value(value).map_err(|_| unreadable())
}

fn unreadable() -> Failure {
    Failure::Away("it answers what no script of ours does".into())
}

/// Reads a record and its lease.
fn leased(mut parts: Parts, acquire: &Acquire<'_>) -> Answer<(Record, Lease)> {
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
    fn mark(&self, fresh: &[u8], replaced: Option<&[u8]>) -> Answer<Vec<u8>> {
        let mut call = self.scripts.mark.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(fresh)
            .arg(replaced.unwrap_or_default());
        parts(self.run(&call)?)?.next()
    }

    fn create(&self, new: &New<'_>) -> Answer<Times> {
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
        parts(self.run(&call)?)?.times()
    }

    fn read(&self, key: &Key, owner: &str, known: Option<&str>) -> Answer<Record> {
        let mut call = self.scripts.read.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(key.as_str())
            .arg(owner)
            .arg(known.unwrap_or_default());
        let mut parts = parts(self.run(&call)?)?;
        let mut record = parts.record(key.clone())?;
        record.body = parts.next()?;
        Ok(record)
    }

    fn acquire(&self, acquire: &Acquire<'_>) -> Answer<(Record, Lease)> {
        leased(parts(self.ask_lease(acquire, "")?)?, acquire)
    }

    fn acquire_within(
        &self,
        _: &dyn SessionStore,
        protocol_owner: &str,
        acquire: &Acquire<'_>,
    ) -> Answer<(Record, Answer<(Record, Lease)>)> {
        let mut outer = parts(self.ask_lease(acquire, protocol_owner)?)?;
        let record = outer.record(Key::told(acquire.owner))?;
        match parts(outer.next()?).and_then(|inner| leased(inner, acquire)) {
            Err(failure @ (Failure::Away(_) | Failure::Unknown(_))) => Err(failure),
            begun => Ok((record, begun)),
        }
    }

    fn commit(&self, lease: &Lease, content: Content<'_>) -> Answer<()> {
        let mut call = self.scripts.commit.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(lease.key.as_str())
            .arg(lease.fence)
            .arg(lease.version)
            .arg(&lease.holder)
            .arg(content.head)
            .arg(content.body)
            .arg(u8::from(super::super::careless()));
        let (told, twice) = match self.run_noting(&call) {
            Ok((answer, twice)) => (parts(answer).map(drop), twice),
            Err(failure) => (Err(failure), false),
        };
        match told {
            // The first attempt may have committed before other turns went on, so it would be wrong to report that nothing was kept.
            Err(Failure::Refused(_)) if twice => {
                let cause = "the connection broke while a turn was committed";
                Err(Failure::Unknown(cause.into()))
            }
            told => told,
        }
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let mut call = self.scripts.release.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(lease.key.as_str())
            .arg(lease.fence)
            .arg(&lease.holder);
        parts(self.run(&call)?).map(drop)
    }

    fn close(&self, key: &Key, owner: &str) -> Answer<()> {
        let mut call = self.scripts.close.key(&self.root);
        call.arg(CLOSED_MAX).arg(key.as_str()).arg(owner);
        let (answer, twice) = self.run_noting(&call)?;
        match parts(answer) {
            // The first attempt closed it.
            Err(Failure::Refused(SessionError::Closed)) if twice => Ok(()),
            told => told.map(drop),
        }
    }

    fn close_owner(&self, owner: &str) -> Answer<()> {
        let mut call = self.scripts.close_owner.key(&self.root);
        call.arg(CLOSED_MAX).arg(owner);
        parts(self.run(&call)?).map(drop)
    }

    fn list(&self, owner: Option<&str>) -> Answer<Vec<Record>> {
        let mut call = self.scripts.list.key(&self.root);
        call.arg(CLOSED_MAX).arg(owner.unwrap_or_default());
        let mut parts = parts(self.run(&call)?)?;
        let count: usize = parts.next()?;
        (0..count)
            .map(|_| {
                let key = Key(parts.next()?);
                parts.record(key)
            })
            .collect()
    }

    fn sweep(&self) -> Answer<usize> {
        let mut call = self.scripts.sweep.key(&self.root);
        call.arg(CLOSED_MAX);
        parts(self.run(&call)?)?.next()
    }

    fn login_failed(&self, failed: &FailedLogin<'_>) -> Answer<LoginFailure> {
        let mut call = self.scripts.login_failed.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(failed.source)
            .arg(micros(failed.window))
            .arg(micros(failed.block))
            .arg(failed.failures_max)
            .arg(SOURCES_MAX);
        let mut parts = parts(self.run(&call)?)?;
        Ok(match parts.next::<String>()?.as_str() {
            "counted" => LoginFailure::Counted,
            "blocks" => LoginFailure::Blocks,
            _ => LoginFailure::Blocked(Duration::from_micros(parts.next()?)),
        })
    }

    fn login_succeeded(&self, source: &str) -> Answer<()> {
        let mut call = self.scripts.login_succeeded.key(&self.root);
        call.arg(CLOSED_MAX).arg(source);
        parts(self.run(&call)?).map(drop)
    }

    fn tells(&self) -> bool {
        true
    }

    fn is_given_up(&self) -> bool {
        self.shared.away.load(Ordering::Acquire)
    }

    fn lets_go(&self) -> bool {
        true
    }

    fn tell(&self, message: &str) -> Answer<()> {
        let question = self.acks.question();
        let mut call = self.scripts.tell.key(&self.root);
        call.arg(CLOSED_MAX)
            .arg(&self.channels)
            .arg(message)
            .arg(question.as_deref().unwrap_or_default());
        let listeners = self.run(&call).and_then(parts);
        let listeners = listeners.and_then(|mut parts| parts.next::<usize>());
        if let Some(question) = &question {
            match &listeners {
                Ok(count) => blocking(|| self.acks.wait(question, *count, ACT_WITHIN)),
                Err(_) => self.acks.forget(question),
            }
        }
        listeners.map(drop)
    }

    fn listen(&self, heard: Heard) {
        let (own, (waits, begins)) = (self.clone(), mpsc::channel::<()>());
        // Without a thread this node receives nothing, as when the store is away.
        let started = std::thread::Builder::new()
            .name("told".into())
            .spawn(move || {
                // The caller waits until this sender is dropped: the node is subscribed, or could not subscribe.
                let mut waits = Some(waits);
                while own.hear(&heard, || waits = None).is_err() {
                    own.acks.listen(false);
                    waits = None;
                    if !heard(Word::Ends) {
                        return;
                    }
                    std::thread::sleep(LOOK_AGAIN);
                }
            });
        if started.is_ok() {
            let _begun = begins.recv_timeout(PATIENCE);
        }
    }
}
