//! A connection to one Redis server with hard bounds: no exchange takes longer, and no reply is larger, than the caller allows. (The
//! crate's own timeouts bound each read, so a server that sends one byte a second could hold it up forever.) Large content gets
//! additional time, at [`BYTES_PER_SECOND`]. Knows commands and values, not their meaning.

use crate::executor::{blocking, is_on_executor};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use ptc_secrets::Secret;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{Cmd, ConnectionLike, ErrorKind, Parser, RedisError, Value, cmd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The kernel detects a dead machine or a broken route by itself.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(10))
    .with_interval(Duration::from_secs(5))
    .with_retries(3);

/// A server's address and the credentials for it.
#[derive(Clone)]
pub struct Server {
    pub host: String,
    pub port: u16,
    /// Trusted authorities, for TLS.
    pub tls: Option<Arc<ClientConfig>>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub database: i64,
}

/// The minimum speed of a connection over which large sessions still pass.
const BYTES_PER_SECOND: usize = 4 << 20;
/// A smaller exchange that times out is the server's fault; a larger one may have been too large.
const LARGE_BYTES: usize = 256 << 10;

/// Elements of the largest reply. Each becomes a value of its own, many times as large as the few bytes that it may have on the wire.
const ELEMENTS_MAX: usize = 512 << 10;
/// Bytes of the longest line of a reply (not of bulk strings, whose length precedes them). The parser re-reads a long line for each chunk
/// of it.
const LINE_BYTES_MAX: usize = 16 << 10;

/// How long a reply is awaited before the executor's other work is moved to another thread, which costs more than the reply of a nearby
/// store takes.
const SPIN_WAIT: Duration = Duration::from_micros(250);

/// The additional time for this many bytes.
fn transfer_time(bytes: usize) -> Duration {
    let nanos = bytes as u64 * (1_000_000_000 / BYTES_PER_SECOND as u64);
    Duration::from_nanos(nanos)
}

/// A connection to a server.
pub struct RedisConnection {
    stream: Stream,
    elements: ElementCounter,
    parser: Parser,
    /// Bytes of the largest reply.
    answer_bytes_max: usize,
    database: i64,
    is_open: bool,
}

enum Stream {
    Plain(BoundedSocket),
    Secure(Box<StreamOwned<ClientConnection, BoundedSocket>>),
}

/// A socket with the remaining time and bytes of an exchange.
struct BoundedSocket {
    /// In non-blocking mode.
    socket: TcpStream,
    ends: Instant,
    left: usize,
    /// Bytes sent and received since the exchange began.
    moved: usize,
    /// Whether the last wait was shorter than [`SPIN_WAIT`].
    was_fast: bool,
}

fn too_large() -> io::Error {
    io::Error::other("its answer is too large")
}

/// The position within a server's replies (in a line or in a bulk string), and the number of elements in the current reply.
#[derive(Default)]
struct ElementCounter {
    count: usize,
    line_bytes: usize,
    /// The type of the line, which is its first byte.
    kind: u8,
    /// The number in the line, as far as it was read; `None` for anything else, such as a length of -1.
    number: Option<usize>,
    /// Bytes of a bulk string, and of the line end after it, that are still to come.
    text_left: usize,
    /// Elements of the requested replies that are still to come.
    awaited: usize,
    /// Whether bytes followed the last requested reply.
    has_more: bool,
}

impl ElementCounter {
    /// Awaits this many replies.
    fn begin(&mut self, answers: usize) {
        (self.count, self.awaited, self.has_more) = (0, answers, false);
    }

    /// Handles the end of a line, which gives the length of the bulk string behind it or announces a number of elements.
    fn line_ends(&mut self) {
        let number = self.number.unwrap_or(0);
        self.awaited = self.awaited.saturating_sub(1);
        match self.kind {
            b'$' | b'=' | b'!' => {
                self.text_left = self.number.map_or(0, |bytes| bytes.saturating_add(2));
            }
            b'*' | b'~' | b'>' => self.awaited = self.awaited.saturating_add(number),
            b'%' => self.awaited = self.awaited.saturating_add(number.saturating_mul(2)),
            // Attributes precede the element that they belong to.
            b'|' => self.awaited = self.awaited.saturating_add(number.saturating_mul(2) + 1),
            _ => {}
        }
        self.line_bytes = 0;
        self.count += 1;
    }

    /// Tracks the bytes that were read, before they are parsed.
    fn count_bytes(&mut self, mut read: &[u8]) -> io::Result<()> {
        while !read.is_empty() {
            let text = self.text_left.min(read.len());
            self.text_left -= text;
            read = &read[text..];
            let Some((byte, behind)) = read.split_first() else {
                break;
            };
            read = behind;
            if self.line_bytes == 0 {
                self.has_more |= self.awaited == 0;
                (self.kind, self.number) = (*byte, Some(0));
            }
            match (byte, self.number) {
                (b'\n', _) => {
                    self.line_ends();
                    continue;
                }
                _ if self.line_bytes == 0 => {}
                (b'0'..=b'9', Some(number)) => {
                    let digit = usize::from(byte - b'0');
                    self.number = Some(number.saturating_mul(10).saturating_add(digit));
                }
                (b'\r', _) => {}
                _ => self.number = None,
            }
            self.line_bytes += 1;
            if self.line_bytes > LINE_BYTES_MAX {
                return Err(too_large());
            }
        }
        match self.count > ELEMENTS_MAX {
            true => Err(too_large()),
            false => Ok(()),
        }
    }
}

/// A stream whose elements are counted as they are read.
struct CountedStream<'a> {
    stream: &'a mut Stream,
    elements: &'a mut ElementCounter,
}

impl Read for CountedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.elements.count_bytes(&buffer[..count])?;
        Ok(count)
    }
}

impl BoundedSocket {
    fn remaining(&self) -> io::Result<Duration> {
        match self.ends.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }

    /// Waits until the socket can be read or written. If the last wait was short, the thread blocks for a first moment; a longer wait
    /// does not hold up the executor.
    fn wait(&mut self, events: PollFlags) -> io::Result<()> {
        let since = Instant::now();
        let left = self.remaining()?;
        // A thread outside the executor simply blocks.
        let first = match (is_on_executor(), self.was_fast) {
            (false, _) => left,
            (true, true) => left.min(SPIN_WAIT),
            (true, false) => Duration::ZERO,
        };
        let mut ready = !first.is_zero() && wait_for_event(&self.socket, events, first)?;
        if !ready {
            ready = blocking(|| wait_for_event(&self.socket, events, self.remaining()?))?;
        }
        self.was_fast = since.elapsed() <= SPIN_WAIT;
        match ready {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Whether one of the events happens on a socket within a time. A closed connection counts as an event.
fn wait_for_event(socket: &TcpStream, events: PollFlags, within: Duration) -> io::Result<bool> {
    let ends = Instant::now() + within;
    let mut asked = [PollFd::new(socket.as_fd(), events)];
    loop {
        match poll(&mut asked, ends.saturating_duration_since(Instant::now())) {
            Err(Errno::EINTR) => {}
            polled => return Ok(polled? > 0),
        }
    }
}

#[cfg(target_os = "linux")]
fn poll(asked: &mut [PollFd], within: Duration) -> nix::Result<i32> {
    nix::poll::ppoll(asked, Some(within.into()), None)
}

#[cfg(not(target_os = "linux"))]
fn poll(asked: &mut [PollFd], within: Duration) -> nix::Result<i32> {
    let ms = i32::try_from(within.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    let within = nix::poll::PollTimeout::try_from(ms).unwrap_or(nix::poll::PollTimeout::MAX);
    nix::poll::poll(asked, within)
}

impl Read for BoundedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left);
        if most == 0 && !buffer.is_empty() {
            return Err(too_large());
        }
        let count = loop {
            self.wait(PollFlags::POLLIN)?;
            match self.socket.read(&mut buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        self.left -= count;
        self.moved += count;
        self.ends += transfer_time(count);
        Ok(count)
    }
}

impl Write for BoundedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.remaining()?;
        let count = loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::POLLOUT)?;
                }
                written => break written?,
            }
        };
        self.moved += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Stream {
    fn bounded(&self) -> &BoundedSocket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secure(stream) => &stream.sock,
        }
    }

    fn bounded_mut(&mut self) -> &mut BoundedSocket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secure(stream) => &mut stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Secure(stream) => stream.read(buffer),
        }
    }
}

/// A TLS configuration that trusts the system's authorities, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
///
/// # Errors
/// Why the authorities cannot be read.
pub fn authorities() -> Result<Arc<ClientConfig>, RedisError> {
    let invalid = |what, told| RedisError::from((ErrorKind::InvalidClientConfig, what, told));
    ptc_outbound::check_certificates()
        .map_err(|told| invalid("what TLS should trust can't be read", told.to_string()))?;
    let read = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(read.certs);
    if usable == 0 {
        let told = read.errors.first().map(ToString::to_string);
        let none = "no authority that TLS could trust was found";
        return Err(invalid(none, told.unwrap_or_default()));
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

impl Server {
    /// Reads `host:port`.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn from_address(place: &str, tls: Option<Arc<ClientConfig>>) -> Result<Self, RedisError> {
        let parts = place
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or((ErrorKind::InvalidClientConfig, "no host and port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Server {
            host: host.to_owned(),
            port,
            tls,
            user: None,
            password: None,
            database: 0,
        })
    }

    /// Another server of the same cluster as named in a redirect, where an empty host means this server's host.
    ///
    /// # Errors
    /// When the redirect names no server.
    pub fn redirected(&self, place: &str) -> Result<Self, RedisError> {
        let named = Server::from_address(place, None)?;
        Ok(Server {
            host: match named.host.is_empty() {
                true => self.host.clone(),
                false => named.host,
            },
            port: named.port,
            ..self.clone()
        })
    }

    /// Connects and logs in within a time. Commands that are sent before [`RedisConnection::with_timeout`] share that time.
    ///
    /// # Errors
    /// Why no connection could be made.
    pub fn connect(
        &self,
        within: Duration,
        answer_bytes_max: usize,
    ) -> Result<RedisConnection, RedisError> {
        let ends = Instant::now() + within;
        let addresses = self.addresses(within)?;
        let mut told = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let connected = addresses.iter().enumerate().find_map(|(at, address)| {
            let left = ends.saturating_duration_since(Instant::now());
            let shares = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
            let share = (left / shares).max(Duration::from_millis(1));
            TcpStream::connect_timeout(address, share)
                .map_err(|error| told = error)
                .ok()
        });
        let socket = connected.ok_or(told)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        SockRef::from(&socket).set_tcp_keepalive(&KEEPALIVE)?;
        let bounded = BoundedSocket {
            socket,
            ends,
            left: answer_bytes_max,
            moved: 0,
            was_fast: true,
        };
        let stream = match &self.tls {
            None => Stream::Plain(bounded),
            Some(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let client =
                    ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Stream::Secure(Box::new(StreamOwned::new(client, bounded)))
            }
        };
        let mut wire = RedisConnection {
            stream,
            elements: ElementCounter::default(),
            parser: Parser::new(),
            answer_bytes_max,
            database: self.database,
            is_open: true,
        };
        for command in self.setup_commands() {
            wire.req_command(&command)?.extract_error()?;
        }
        Ok(wire)
    }

    /// Resolves the host. Names are resolved on a separate thread, because only the system's own settings bound the time of a lookup.
    fn addresses(&self, within: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (found, name) = (mpsc::channel(), (self.host.clone(), self.port));
        std::thread::Builder::new()
            .name("names".into())
            .spawn(move || {
                // The receiver may have timed out.
                let _ = found.0.send(name.to_socket_addrs().map(Vec::from_iter));
            })?;
        found.1.recv_timeout(within).unwrap_or_else(|_| {
            let slow = "its name is not looked up in time";
            Err(io::Error::new(io::ErrorKind::TimedOut, slow))
        })
    }

    /// Commands that set up a connection.
    fn setup_commands(&self) -> Vec<Cmd> {
        let mut all = Vec::new();
        if let Some(password) = &self.password {
            let mut login = cmd("AUTH");
            login.arg(self.user.as_deref());
            #[expect(clippy::disallowed_methods, reason = "the client library takes text")]
            password.lend(|text| {
                login.arg(text);
            });
            all.push(login);
        }
        if self.database != 0 {
            let mut select = cmd("SELECT");
            select.arg(self.database);
            all.push(select);
        }
        all
    }
}

impl RedisConnection {
    /// Begins an exchange: all requests and replies from now on have this time plus the transfer time of their bytes.
    pub fn with_timeout(&mut self, time: Duration) -> &mut Self {
        let bounded = self.stream.bounded_mut();
        bounded.ends = Instant::now() + time;
        bounded.moved = 0;
        self
    }

    /// Whether the exchange was large.
    pub fn was_large(&self) -> bool {
        self.stream.bounded().moved >= LARGE_BYTES
    }

    /// Sends a command whose reply is read later.
    ///
    /// # Errors
    /// When it cannot be sent in time.
    pub fn send(&mut self, packed: &[u8]) -> Result<(), RedisError> {
        let bytes_max = self.answer_bytes_max;
        self.elements.begin(1);
        let bounded = self.stream.bounded_mut();
        bounded.left = bytes_max;
        bounded.ends += transfer_time(packed.len());
        let sent = match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(packed).and_then(|()| socket.flush()),
            Stream::Secure(stream) => stream.write_all(packed).and_then(|()| stream.flush()),
        };
        self.is_open &= sent.is_ok();
        Ok(sent?)
    }

    /// Reads the next value within a time of its own.
    ///
    /// # Errors
    /// When nothing arrives in time, or the data is not a valid reply.
    pub fn next(&mut self, within: Duration) -> Result<Value, RedisError> {
        self.with_timeout(within);
        self.elements.count = 0;
        self.stream.bounded_mut().left = self.answer_bytes_max;
        self.read()
    }

    /// Whether no unrequested data has arrived: it would be taken for the reply to the next request.
    pub fn is_quiet(&mut self) -> bool {
        let has_more = self.elements.has_more;
        let socket = &self.stream.bounded().socket;
        !has_more
            && matches!(
                wait_for_event(socket, PollFlags::POLLIN, Duration::ZERO),
                Ok(false)
            )
    }

    /// Reads one reply. Fails if more data follows, because replies and requests would then no longer match.
    fn read_single_reply(&mut self) -> Result<Value, RedisError> {
        let answer = self.read()?;
        if self.elements.has_more {
            self.is_open = false;
            return Err(io::Error::other("it answers more than it was asked").into());
        }
        Ok(answer)
    }

    fn read(&mut self) -> Result<Value, RedisError> {
        let followed = CountedStream {
            stream: &mut self.stream,
            elements: &mut self.elements,
        };
        let read = self.parser.parse_value(followed);
        // Bytes still under way would be taken for the reply to the next request.
        self.is_open &= read.is_ok();
        read
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command(&mut self, packed: &[u8]) -> Result<Value, RedisError> {
        self.send(packed)?;
        self.read_single_reply()
    }

    fn req_packed_commands(
        &mut self,
        packed: &[u8],
        offset: usize,
        count: usize,
    ) -> Result<Vec<Value>, RedisError> {
        self.send(packed)?;
        self.elements.begin(offset + count);
        (0..offset).try_for_each(|_| self.read().map(drop))?;
        (0..count).map(|_| self.read()).collect()
    }

    fn get_db(&self) -> i64 {
        self.database
    }

    fn check_connection(&mut self) -> bool {
        cmd("PING").query::<Value>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}
