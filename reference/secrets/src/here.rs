//! Whether a host is this very machine: what the environment says of proxies is for other machines, and a proxy would be shown the
//! credentials. Knows no client.

use std::net::IpAddr;

/// Whether `host`, as a parsed URL has it, is this very machine.
pub fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = address.parse().ok();
    address.is_some_and(|address| address.is_loopback())
        || host == "localhost"
        || host.ends_with(".localhost")
}
