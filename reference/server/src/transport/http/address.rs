//! Who a request comes from: addresses, the blocks that count as one client, and proxies that speak for others.
//! Pure; knows nothing of requests but their headers.

use crate::settings::TrustedProxies;
use axum::http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::Ipv6Net;
use std::net::{IpAddr, SocketAddr};

/// Addresses that one client can choose from: a single v4 address, or the 64 bits of v6 that a network hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressBlock(IpAddr);

/// Bits of a v6 address that a client cannot choose.
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
    /// The address of the client behind `peer`: the rightmost one of the forwarding headers that is no trusted proxy's. What
    /// stands left of it anybody can write. Where `X-Forwarded-For` and `Forwarded` name different clients the proxy passed one
    /// of them on unread, so neither counts.
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

    /// Walks from the nearest hop outwards. A hop that can't be read ends the walk at the one before it.
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

/// The elements of a header of lists, in order, each read by `read`.
fn hops(
    headers: &HeaderMap,
    name: &HeaderName,
    read: fn(&str) -> Option<IpAddr>,
) -> Vec<Option<IpAddr>> {
    let values = headers.get_all(name).iter();
    values
        .flat_map(|value| match value.to_str() {
            Ok(value) => elements(value).map(read).collect(),
            Err(_) => vec![None],
        })
        .collect()
}

/// The elements of a list, parted by commas outside of quotes.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    list.split(move |letter: char| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    })
    .map(str::trim)
}

/// An address, perhaps with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || {
        let (address, port) = text.strip_prefix('[')?.split_once(']')?;
        let port = port.strip_prefix(':').unwrap_or("0");
        port.parse::<u16>().ok()?;
        address.parse().ok().map(IpAddr::V6)
    };
    let address = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = address.or_else(with_port).or_else(bracketed)?;
    Some(address.to_canonical())
}

/// The `for` of an element of `Forwarded` (RFC 7239); names such as `unknown` or `_hidden` are no address.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (_, value) = named.next()?;
    address(value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
        let proxies = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"].map(str::to_owned);
        let proxies = TrustedProxies::read(&proxies).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let peer = SocketAddr::new(peer.parse().unwrap(), 5);
        proxies.client(peer, &map).to_string()
    }

    #[test]
    fn the_rightmost_stranger_is_the_client() {
        let (listed, forwarded) = ("x-forwarded-for", "forwarded");
        for (peer, headers, expected) in [
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec![(listed, "1.1.1.1, 2.2.2.2")], "2.2.2.2"),
            (
                "10.0.0.1",
                vec![(listed, "1.1.1.1, 2.2.2.2, 10.9.9.9")],
                "2.2.2.2",
            ),
            (
                "10.0.0.1",
                vec![(listed, "2.2.2.2"), (listed, "192.0.2.1")],
                "2.2.2.2",
            ),
            ("10.0.0.1", vec![(listed, "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
            ("10.0.0.1", vec![(listed, "2.2.2.2:4711")], "2.2.2.2"),
            (
                "10.0.0.1",
                vec![(listed, "[2001:db9::1]:4711")],
                "2001:db9::1",
            ),
            (
                "10.0.0.1",
                vec![(listed, "1.1.1.1, garbage, 10.1.1.1")],
                "10.1.1.1",
            ),
            ("10.0.0.1", vec![(listed, "1.1.1.1,")], "10.0.0.1"),
            ("10.0.0.1", vec![(listed, "::ffff:2.2.2.2")], "2.2.2.2"),
            ("::ffff:10.0.0.1", vec![(listed, "2.2.2.2")], "2.2.2.2"),
            // A stranger's word doesn't count.
            ("8.8.8.8", vec![(listed, "1.1.1.1")], "8.8.8.8"),
            ("8.8.8.8", vec![(forwarded, "for=1.1.1.1")], "8.8.8.8"),
            (
                "10.0.0.1",
                vec![(forwarded, "for=1.1.1.1;proto=http, For=\"2.2.2.2:80\"")],
                "2.2.2.2",
            ),
            (
                "10.0.0.1",
                vec![(forwarded, "for=\"[2001:db9::7]:80\"; by=\"a,b\"")],
                "2001:db9::7",
            ),
            (
                "10.0.0.1",
                vec![(forwarded, "for=1.1.1.1, for=unknown")],
                "10.0.0.1",
            ),
            (
                "10.0.0.1",
                vec![(forwarded, "for=1.1.1.1, proto=https")],
                "10.0.0.1",
            ),
            (
                "10.0.0.1",
                vec![(listed, "2.2.2.2"), (forwarded, "for=2.2.2.2")],
                "2.2.2.2",
            ),
            (
                "10.0.0.1",
                vec![(listed, "2.2.2.2"), (forwarded, "for=3.3.3.3")],
                "10.0.0.1",
            ),
        ] {
            assert_eq!(client(peer, &headers), expected, "{peer} {headers:?}");
        }
    }

    #[test]
    fn a_block_is_what_a_client_can_choose_from() {
        let block = |text: &str| AddressBlock::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(block("2001:db8::1"), block("2001:db8::ffff:1"));
        assert_ne!(block("2001:db8::1"), block("2001:db8:0:1::1"));
        assert_eq!(block("::ffff:1.2.3.4"), block("1.2.3.4"));
        assert_ne!(block("1.2.3.4"), block("1.2.3.5"));
    }
}
