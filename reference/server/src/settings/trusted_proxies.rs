//! Proxies that forward requests for clients, as `--http-trusted-proxy` names them. Knows nothing of the headers that they send.

use super::SettingsFault;
use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;

/// Proxies that are trusted to report the client's address.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Reads addresses (`10.0.0.1`) and networks (`10.0.0.0/8`).
    ///
    /// # Errors
    /// An item is neither.
    pub fn read(items: &[String]) -> Result<Self, SettingsFault> {
        let read = |item: &String| {
            let address = || item.parse::<IpAddr>().map(IpNet::from);
            item.parse()
                .or_else(|_| address())
                .map(canonical)
                .map_err(|_| SettingsFault::TrustedProxy(item.clone()))
        };
        items.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `address` belongs to a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|net| net.contains(&address))
    }
}

/// Prefix length of IPv4-mapped IPv6 addresses.
const MAPPED_BITS: u8 = 96;

/// Converts a network of IPv4-mapped IPv6 addresses into an IPv4 network, because addresses are compared in canonical form.
fn canonical(net: IpNet) -> IpNet {
    let bits = net.prefix_len().checked_sub(MAPPED_BITS);
    match (net.addr().to_canonical(), bits) {
        (IpAddr::V4(address), Some(bits)) if net.addr().is_ipv6() => {
            Ipv4Net::new(address, bits).map_or(net, IpNet::V4)
        }
        _ => net,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_networks_are_parsed_and_matched() {
        for wrong in ["", "10.0.0.0/33", "localhost", "10.0.0", "10.0.0.0/8/8"] {
            let read = TrustedProxies::read(&[wrong.to_owned()]);
            assert!(matches!(read, Err(SettingsFault::TrustedProxy(item)) if item == wrong));
        }
    }
}
