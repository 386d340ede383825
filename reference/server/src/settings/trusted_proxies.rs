//! Proxies that speak for others, as `--http-trusted-proxy` names them. Knows nothing of what they say.

use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;

/// Proxies whose word on where a request came from counts.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Reads addresses (`10.0.0.1`) and networks (`10.0.0.0/8`).
    ///
    /// # Errors
    /// The item that is neither.
    pub fn read(items: &[String]) -> Result<Self, String> {
        let read = |item: &String| {
            let address = || item.parse::<IpAddr>().map(IpNet::from);
            item.parse()
                .or_else(|_| address())
                .map(canonical)
                .map_err(|_| item.clone())
        };
        items.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|net| net.contains(&address))
    }
}

/// Bits that say that an IPv6 address stands for an IPv4 one.
const MAPPED_BITS: u8 = 96;

/// A network of IPv4 addresses written as IPv6 ones is that network: addresses are compared as what they stand for.
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
    fn networks() {
        for wrong in ["", "10.0.0.0/33", "localhost", "10.0.0", "10.0.0.0/8/8"] {
            assert_eq!(
                TrustedProxies::read(&[wrong.to_owned()]).unwrap_err(),
                wrong
            );
        }
    }
}
