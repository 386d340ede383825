//! Connections: which are accepted, how long each may last, and their end with the process. Knows sockets and time, not MCP.

use super::address::AddressBlock;
use super::endpoint::Endpoint;
use super::permits::{ConnectionPermit, ConnectionPermits};
use super::router::{Routes, router};
use super::stream::{Activity, DetectClose, WatchedStream};
use crate::settings::HttpSettings;
use axum::body::Body;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ptc_lang::heap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time that final replies get to be sent once the drain is over.
const LAST_WRITES_GRACE: Duration = Duration::from_secs(1);
/// Bytes of the longest request head, which is also what a connection may buffer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The time limits of a connection in the reserve: for its first request, and for its whole life.
const RESERVED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
const RESERVED_LIFETIME: Duration = Duration::from_secs(5);
const _: () = assert!(RESERVED_HEADER_TIMEOUT.as_millis() < RESERVED_LIFETIME.as_millis());
/// This many connections use memory that is worth returning to the system once more than half of them are gone.
const CROWD_MIN: usize = 128;

/// The limits of connections.
pub struct ConnectionLimits {
    connections_max: usize,
    per_address_max: usize,
    head_timeout: Duration,
    write_timeout: Duration,
    delay: Duration,
    grace: Duration,
}

impl ConnectionLimits {
    /// As the operator set them.
    pub fn new(settings: &HttpSettings) -> Self {
        ConnectionLimits {
            connections_max: settings.connections_max,
            per_address_max: settings.connections_per_address_max,
            head_timeout: Duration::from_millis(settings.request_timeout_ms),
            write_timeout: Duration::from_millis(settings.write_timeout_ms),
            delay: Duration::from_millis(settings.shutdown_delay_ms),
            grace: Duration::from_millis(settings.grace_ms),
        }
    }
}

/// A connection as its requests see it.
pub struct Peer {
    pub address: SocketAddr,
    pub permit: ConnectionPermit,
    pub activity: Arc<Activity>,
}

/// Serves connections until `stop` turns true; then drains.
pub async fn serve<L>(endpoint: Arc<Endpoint>, mut listener: L, mut stop: watch::Receiver<bool>)
where
    L: Listener<Addr = SocketAddr, Io: DetectClose>,
{
    let limits = Arc::new(endpoint.limits());
    let permits = ConnectionPermits::new(limits.connections_max, limits.per_address_max);
    let router = router(endpoint.clone());
    let (ending, end) = watch::channel(false);
    let sweep = tokio::spawn(sweep(endpoint.clone(), permits.clone()));
    let drain = tokio::spawn({
        let (endpoint, delay, grace) = (endpoint.clone(), limits.delay, limits.grace);
        async move {
            // A dropped sender means the same as a signal.
            let _ = stop.wait_for(|stop| *stop).await;
            endpoint.shutdown().announce();
            tokio::time::sleep(delay).await;
            endpoint.drain(grace).await;
        }
    });
    tokio::pin!(drain);
    loop {
        let (stream, address) = tokio::select! {
            biased;
            _ = &mut drain => break,
            accepted = listener.accept() => accepted,
        };
        // A proxy stands for many clients, so it has no limit of its own.
        let is_proxy = endpoint.settings().trusted_proxies.contains(address.ip());
        let block = (!is_proxy).then(|| AddressBlock::from(address.ip()));
        let peer = Arc::new(Peer {
            address,
            permit: permits.enter(block),
            activity: Arc::default(),
        });
        tokio::spawn(serve_connection(
            router.clone(),
            stream,
            peer,
            limits.clone(),
            end.clone(),
        ));
    }
    sweep.abort();
    let _ = ending.send(true);
    let _ = tokio::time::timeout(LAST_WRITES_GRACE, permits.wait_until_empty()).await;
}

/// Serves one connection until it ends.
pub(crate) async fn serve_connection(
    router: impl Routes,
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + DetectClose + Unpin + Send + 'static,
    peer: Arc<Peer>,
    limits: Arc<ConnectionLimits>,
    mut end: watch::Receiver<bool>,
) {
    let reserved = peer.permit.is_reserved();
    let known = peer.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(known.clone());
        router.clone().call(request.map(Body::new))
    });
    let head_timeout = match reserved {
        true => limits.head_timeout.min(RESERVED_HEADER_TIMEOUT),
        false => limits.head_timeout,
    };
    let stream = WatchedStream::new(stream, peer.activity.clone(), limits.write_timeout);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        // A client that only closed its sending side still gets its answer; the stream detects one that is gone.
        .half_close(true)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let leave_reserve = async {
        if !reserved {
            return std::future::pending().await;
        }
        tokio::select! {
            () = peer.permit.wait_until_evicted() => {}
            () = tokio::time::sleep(RESERVED_LIFETIME) => if !peer.permit.is_reserved() {
                std::future::pending().await
            }
        }
    };
    tokio::pin!(leave_reserve);
    loop {
        tokio::select! {
            biased;
            Ok(()) = end.changed() => {
                peer.activity.end();
                connection.as_mut().graceful_shutdown();
            }
            // Errors of the connection concern this client only.
            _ = &mut connection => return,
            () = &mut leave_reserve => return,
        }
    }
}

async fn sweep(endpoint: Arc<Endpoint>, permits: Arc<ConnectionPermits>) {
    loop {
        tokio::time::sleep(endpoint.sweep_interval()).await;
        endpoint.sweep(Instant::now());
        if permits.has_crowd_left(CROWD_MIN) {
            heap::trim();
        }
    }
}
