//! TLS for peers: one certificate for `127.0.0.1`, signed by an authority that no machine trusts unless it is named to it. Its key is public,
//! as everything here, and proves nothing to anybody else. Knows nothing of HTTP.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The certificate of the authority, which expires in 2120; its key was thrown away.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// What every connection of a peer needs.
///
/// # Errors
/// When the certificate does not suit its key, or no protocol version is supported.
pub fn config() -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivatePkcs8KeyDer::from(KEY).into(),
        )?;
    Ok(Arc::new(config))
}

/// The stream over which a client that trusts the certificate sends requests.
///
/// # Errors
/// When no connection can be made of the configuration.
pub fn accept(
    config: &Arc<ServerConfig>,
    stream: TcpStream,
) -> Result<StreamOwned<ServerConnection, TcpStream>, rustls::Error> {
    let connection = ServerConnection::new(Arc::clone(config))?;
    Ok(StreamOwned::new(connection, stream))
}
