//! Tells whether a host is this machine: proxy settings of the environment are for other machines, and a proxy would see the
//! credentials. Knows no client.

use std::net::IpAddr;

/// Whether `host`, as written in a parsed URL, is this machine.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = address.parse().ok();
    address.is_some_and(|address| address.to_canonical().is_loopback())
        || host == "localhost"
        || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_loopback_is_recognised() {
        for host in [
            "127.0.0.1",
            "127.8.8.8",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "localhost",
            "a.localhost",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["128.0.0.1", "[::2]", "localhost.example", "notlocalhost"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
