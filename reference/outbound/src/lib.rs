//! What every connection to another server begins with: which proxy is asked, and which certificates are believed. Knows nothing of
//! what is sent, but whether it may be sent again.

#![forbid(unsafe_code)]

mod certificates;
mod connections;
mod refusal;
mod sender;

use ptc_secrets::{RedactorBuilder, is_this_machine, register_login};
use reqwest::{Client, ClientBuilder, Url};

pub use certificates::check_certificates;
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

/// Registers the passwords of proxies: each gets its own with what is sent through it, and may show it in a page of its own.
pub fn register_proxies(env: &dyn Fn(&str) -> Option<String>, scrub: &mut RedactorBuilder) {
    for address in PROXY_VARIABLES.into_iter().filter_map(env) {
        register_login(&address, scrub);
    }
}

/// The beginnings of a client for `url`, and no other host.
///
/// # Errors
/// What is wrong with the CA certificates that the environment names, where https is spoken.
pub fn client(url: &str) -> Result<ClientBuilder, String> {
    // Fails when it is installed already, and then it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().tcp_nodelay(true);
    // Plain http needs no CA certificates, so the machine need not have any.
    if url.starts_with("http://") {
        builder = builder.tls_certs_only([]);
    } else {
        check_certificates()?;
    }
    // What the environment says of proxies is for other machines: one would be shown the credentials.
    Ok(match leads_here(url) {
        true => builder.no_proxy(),
        false => builder,
    })
}

/// Whether a URL leads to this very machine.
fn leads_here(url: &str) -> bool {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.is_some_and(is_this_machine)
}
