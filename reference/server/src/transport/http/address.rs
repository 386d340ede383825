//! The origin address of a request: addresses, the blocks that count as one client, and proxies that forward for others. Pure; of
//! requests it knows only the headers.

use crate::settings::TrustedProxies;
use axum::http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::Ipv6Net;
use std::net::{IpAddr, SocketAddr};

/// Addresses that one client can choose from: a single IPv4 address, or the /64 network of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressBlock(IpAddr);

/// Prefix of an IPv6 address that a client cannot choose, in bits.
const V6_PREFIX_BITS: u8 = 64;

impl std::fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<IpAddr> for AddressBlock {
    fn from(address: IpAddr) -> Self {
        AddressBlock(match address.to_canonical() {
            IpAddr::V6(address) => match Ipv6Net::new(address, V6_PREFIX_BITS) {
                Ok(net) => net.network().into(),
                Err(_) => address.into(),
            },
            v4 => v4,
        })
    }
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl TrustedProxies {
    /// The address of the client behind `peer`: the rightmost address in the forwarding headers that does not belong to a trusted proxy.
    /// Anybody can write what stands left of it. Where `X-Forwarded-For` and `Forwarded` name different clients, the proxy passed one of
    /// them on unread, so neither counts.
    pub fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.ip().to_canonical();
        if !self.contains(peer) {
            return peer;
        }
        let listed = hops(headers, &X_FORWARDED_FOR, address);
        let forwarded = hops(headers, &FORWARDED, forwarded_for);
        match (listed.is_empty(), forwarded.is_empty()) {
            (true, true) => peer,
            (false, true) => self.rightmost(peer, &listed),
            (true, false) => self.rightmost(peer, &forwarded),
            (false, false) => {
                let client = self.rightmost(peer, &listed);
                match client == self.rightmost(peer, &forwarded) {
                    true => client,
                    false => peer,
                }
            }
        }
    }

    /// Walks from the nearest hop outwards. A hop that cannot be parsed ends the walk at the one before it.
    fn rightmost(&self, peer: IpAddr, hops: &[Option<IpAddr>]) -> IpAddr {
        let mut nearest = peer;
        for hop in hops.iter().rev() {
            let Some(hop) = hop else { break };
            nearest = *hop;
            if !self.contains(nearest) {
                break;
            }
        }
        nearest
    }
}

/// The elements of a list header, in order, each parsed by `read`.
fn hops(
    headers: &HeaderMap,
    name: &HeaderName,
    read: fn(&str) -> Option<IpAddr>,
) -> Vec<Option<IpAddr>> {
    let values = headers.get_all(name).iter();
    values
        .flat_map(|value| match value.to_str() {
            Ok(value) => elements(value).into_iter().map(read).collect(),
            Err(_) => vec![None],
        })
        .collect()
}

/// The elements of a list, separated by commas outside of quotes. Scanned from the end, where proxies append: a quote that a client
/// leaves open then hides nothing that follows it.
fn elements(list: &str) -> Vec<&str> {
    let mut quoted = false;
    let parts = list.rsplit(|letter: char| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    let mut elements: Vec<&str> = parts.map(str::trim).collect();
    elements.reverse();
    elements
}

/// An address, optionally with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || {
        let (address, port) = text.strip_prefix('[')?.split_once(']')?;
        if !port.is_empty() {
            port.strip_prefix(':')?.parse::<u16>().ok()?;
        }
        address.parse().ok().map(IpAddr::V6)
    };
    let address = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = address.or_else(with_port).or_else(bracketed)?;
    Some(address.to_canonical())
}

/// The `for` of an element of `Forwarded` (RFC 7239). Names such as `unknown` or `_hidden` are not addresses.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (_, value) = named.next()?;
    address(value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests;
