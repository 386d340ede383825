//! The basis of every connection to another server: which proxy is used, and which certificates are trusted. Knows nothing of what
//! is sent, except whether it may be sent again.

#![forbid(unsafe_code)]

mod certificates;
mod connections;
pub mod executor;
mod refusal;
mod sender;

use ptc_secrets::{RedactorBuilder, is_loopback_host, register_login};
use reqwest::{Client, ClientBuilder, Url};

pub use certificates::{CertificateFault, check_certificates};
pub use refusal::{causes, tls_refusal};
pub use sender::{Repeat, Sender};

/// The variables that name proxies.
const PROXY_VARIABLES: [&str; 6] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// Registers the passwords of proxies: a proxy receives its own password with each request and may repeat it in an error page.
pub fn register_proxies(env: &dyn Fn(&str) -> Option<String>, scrub: &mut RedactorBuilder) {
    for address in PROXY_VARIABLES.into_iter().filter_map(env) {
        register_login(&address, scrub);
    }
}

/// A client builder for the host of `url`, and no other.
///
/// # Errors
/// A problem with the CA certificates named by the environment, when the URL uses https.
pub fn client(url: &str) -> Result<ClientBuilder, CertificateFault> {
    // Fails when a provider is already installed, which is then the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().tcp_nodelay(true);
    // Plain http needs no CA certificates, so the machine need not have any.
    if url.starts_with("http://") {
        builder = builder.tls_certs_only([]);
    } else {
        check_certificates()?;
    }
    // Proxy settings of the environment are for other machines: a proxy would see the credentials.
    Ok(match is_local(url) {
        true => builder.no_proxy(),
        false => builder,
    })
}

/// Whether a URL leads to this machine.
fn is_local(url: &str) -> bool {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.is_some_and(is_loopback_host)
}
