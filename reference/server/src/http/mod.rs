//! The Streamable HTTP transport: the listener, its connections, the sweep of expired sessions, and the drain.
//!
//! Requests are judged in `endpoint`; this file knows sockets and time, not MCP.

mod access;
pub(crate) mod endpoint;
pub(crate) mod framing;
pub(crate) mod guard;
mod rate_limit;
mod sessions;
mod stateless;

use crate::server::Server;
use crate::settings::{HttpSettings, Level};
use endpoint::Endpoint;
use framing::Framed;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// Connections open at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// How often expired sessions are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept, for want of descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time that written replies get to leave once everything is decided.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves until `stop` turns true, then drains.
///
/// # Errors
/// The sentence to print when the address cannot be bound.
pub async fn serve(
    server: Arc<Server>,
    settings: HttpSettings,
    stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let address = SocketAddr::new(settings.host, settings.port);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address} (--http-host, --http-port): {error}")
    })?;
    log_boot(&server, &settings);
    listen(Arc::new(Endpoint::new(server, settings)), listener, stop).await;
    Ok(())
}

/// Where connections come in.
pub(crate) trait Door: Send {
    /// A connection's bytes.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and where it comes from.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Without it a small reply waits for an acknowledgement that is itself delayed.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

/// Serves whoever comes in, until `stop` turns true; then drains.
pub(crate) async fn listen(
    endpoint: Arc<Endpoint>,
    mut door: impl Door,
    mut stop: watch::Receiver<bool>,
) {
    let grace = Duration::from_millis(endpoint.settings().grace_ms);
    let (farewell, closing) = watch::channel(false);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let sweep = tokio::spawn(sweep(endpoint.clone()));
    let drain = tokio::spawn({
        let endpoint = endpoint.clone();
        async move {
            // A sender that is gone means the same as a signal.
            let _ = stop.wait_for(|stop| *stop).await;
            endpoint.drain(grace).await;
        }
    });
    tokio::pin!(drain);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            biased;
            _ = &mut drain => break,
            accepted = door.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (endpoint, closing) = (endpoint.clone(), closing.clone());
        tokio::spawn(async move {
            converse(endpoint, stream, peer, closing).await;
            drop(place);
        });
    }
    sweep.abort();
    let _ = farewell.send(true);
    let everybody_left = places.acquire_many(u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX));
    let _ = tokio::time::timeout(FAREWELL, everybody_left).await;
}

async fn converse(
    endpoint: Arc<Endpoint>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    mut closing: watch::Receiver<bool>,
) {
    let head_timeout = Duration::from_millis(endpoint.settings().request_timeout_ms);
    let service = service_fn(move |request| {
        let endpoint = endpoint.clone();
        async move { Ok::<_, std::convert::Infallible>(endpoint.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(Framed::new(stream)), service);
    tokio::pin!(connection);
    loop {
        tokio::select! {
            biased;
            Ok(()) = closing.changed() => connection.as_mut().graceful_shutdown(),
            // Whatever went wrong on the wire concerns this client only.
            _ = &mut connection => return,
        }
    }
}

async fn sweep(endpoint: Arc<Endpoint>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        endpoint.sweep(Instant::now());
    }
}

fn log_boot(server: &Server, settings: &HttpSettings) {
    if settings.auth_disabled {
        server
            .log
            .event(Level::Warn, "http_auth_disabled_loopback", None, |_| {});
    }
    if settings.token.is_some() && settings.sessions_per_owner_max < settings.sessions_max {
        server.log.event(
            Level::Warn,
            "http_single_token_owner_cap_below_global",
            None,
            |fields| {
                fields
                    .number("max_sessions", settings.sessions_max)
                    .number("max_sessions_per_owner", settings.sessions_per_owner_max);
            },
        );
    }
    server
        .log
        .event(Level::Info, "http_listening", None, |fields| {
            fields
                .text("host", &settings.host.to_string())
                .text("instance", &settings.instance)
                .text("path", &settings.path)
                .number("port", settings.port);
        });
}
