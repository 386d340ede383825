//! What every connection to another server begins with: which proxy is asked, and which certificates are believed. Knows nothing of
//! what is sent, but whether it may be sent again.

#![forbid(unsafe_code)]

mod certificates;
mod sender;

use ptc_secrets::is_this_machine;
use reqwest::{Client, ClientBuilder, Url};

pub use certificates::check_certificates;
pub use sender::{Repeat, Sender};

/// The beginnings of a client for `url`, and for `also` if something is fetched from there.
///
/// # Errors
/// What is wrong with the CA certificates that the environment names, where https is spoken.
pub fn client(url: &str, also: Option<&str>) -> Result<ClientBuilder, String> {
    // Fails when it is installed already, and then it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().tcp_nodelay(true);
    // Plain http needs no CA certificates, so the machine need not have any.
    if also.into_iter().chain([url]).all(is_plain) {
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

fn is_plain(url: &str) -> bool {
    url.starts_with("http://")
}

/// Whether a URL leads to this very machine.
fn leads_here(url: &str) -> bool {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.is_some_and(is_this_machine)
}
