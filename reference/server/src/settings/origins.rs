//! Origins of web pages, in `--http-allowed-origin` and in the browsers' `Origin` header. Knows nothing of who may call.

use super::SettingsFault;
use axum::http::uri::Authority;
use std::net::Ipv6Addr;

/// `scheme://host[:port]` in lower case without a default port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Reads the header of a request; `None` where it is not a web origin.
    pub fn read(origin: &str) -> Option<Self> {
        let lower = origin.trim().to_ascii_lowercase();
        let (scheme, rest) = lower.split_once("://")?;
        let default_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.strip_suffix(default_port).unwrap_or(authority);
        (!host.is_empty() && !host.contains('@')).then(|| Origin(format!("{scheme}://{host}")))
    }

    /// Reads an item of the operator's list.
    ///
    /// # Errors
    /// No browser sends such an origin: an entry that never matches is a mistake.
    pub fn listed(item: &str) -> Result<Self, SettingsFault> {
        Origin::read(item)
            .filter(|origin| is_sent(origin.host()))
            .ok_or_else(|| SettingsFault::Origin(item.to_owned()))
    }

    /// The host, with the port if there is one.
    pub fn host(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, host)| host)
    }
}

/// Whether a browser can send this host.
fn is_sent(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let port = host.strip_prefix(authority.host());
    let port = match port.map(|port| port.strip_prefix(':').unwrap_or(port)) {
        Some("") => host == authority.host(),
        Some(digits) => digits.parse().is_ok_and(|port: u16| port > 0),
        None => false,
    };
    let name = authority.host();
    let v6 = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let usual = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    port && match v6 {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(usual),
    }
}
