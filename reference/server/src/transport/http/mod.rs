//! The Streamable HTTP transport, on axum and tower.
//!
//! `accept` accepts connections, `router` holds the routes and the order of checks, each check has its own file, `mcp` answers requests
//! that pass them, and `refusal` all others.

pub(crate) mod accept;
mod access_log;
mod address;
pub(crate) mod bearer;
pub(crate) mod body;
mod descriptors;
pub(crate) mod endpoint;
pub(crate) mod host;
mod mcp;
pub(crate) mod origin;
pub(crate) mod permits;
mod protocol_sessions;
mod rate_limit;
mod refusal;
pub(crate) mod router;
mod shutdown;
mod stateless;
mod status;
pub(crate) mod stream;

use crate::server::Server;
use crate::settings::HttpSettings;
use axum::serve::ListenerExt;
use endpoint::Endpoint;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// An address that the server cannot listen on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (--http-host, --http-port): {error}")]
pub struct ListenFault {
    address: SocketAddr,
    error: std::io::Error,
}

/// Serves until `stop` turns true, then drains.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    server: Arc<Server>,
    mut settings: HttpSettings,
    stop: watch::Receiver<bool>,
) -> Result<(), ListenFault> {
    let address = SocketAddr::new(settings.host.0, settings.port);
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| ListenFault { address, error })?;
    log_boot(&settings);
    let room = descriptors::connections(settings.connections_max);
    if room < settings.connections_max {
        tracing::warn!(
            event = "http_max_connections_clamped",
            clamped_to = room,
            requested = settings.connections_max,
        );
        settings.connections_max = room;
    }
    // Without this, a small reply waits for an acknowledgement that is itself delayed.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let endpoint = Arc::new(Endpoint::new(server, settings));
    endpoint.listen_for_messages();
    accept::serve(endpoint, listener, stop).await;
    Ok(())
}

fn log_boot(settings: &HttpSettings) {
    if settings.auth_disabled {
        tracing::warn!(event = "http_auth_disabled_loopback");
    }
    if settings.token.is_some() && settings.sessions_per_owner_max < settings.sessions_max {
        tracing::warn!(
            event = "http_single_token_owner_cap_below_global",
            max_sessions = settings.sessions_max,
            max_sessions_per_owner = settings.sessions_per_owner_max,
        );
    }
    tracing::info!(
        event = "http_listening",
        host = %settings.host.0,
        instance = settings.instance,
        path = settings.path,
        port = settings.port,
    );
}
