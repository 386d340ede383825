//! Who may speak to the endpoint: Host, Origin and bearer checks on header values. Pure; knows nothing of requests.

use ptc_secrets::Secret;
use std::net::{Ipv6Addr, SocketAddr};

/// What a bearer check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The one right header, or none is needed.
    Right,
    /// No header.
    Missing,
    /// Anything else.
    Wrong,
}

/// Checks the values of all `Authorization` headers: exactly one, `Bearer TOKEN`, compared in constant time.
pub fn bearer<'a>(token: &Secret, mut values: impl Iterator<Item = &'a [u8]>) -> Bearer {
    match (values.next(), values.next()) {
        (None, _) => Bearer::Missing,
        (Some(value), None)
            if value
                .strip_prefix(b"Bearer ")
                .is_some_and(|given| token.matches(given)) =>
        {
            Bearer::Right
        }
        _ => Bearer::Wrong,
    }
}

/// Whether an authority (`host[:port]`) names this machine's loopback. Case counts, and names under `localhost` don't.
pub fn is_loopback_authority(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port) => {
                return address.parse() == Ok(Ipv6Addr::LOCALHOST);
            }
            _ => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) => return false,
            None => authority,
        },
    };
    host == "localhost" || is_loopback_v4(host)
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `127.0.0.1` in each of its written forms, `127.1` too.
fn is_loopback_v4(host: &str) -> bool {
    let parts: Vec<&str> = host.split('.').collect();
    let number = |part: &&str| {
        !part.is_empty()
            && part.len() <= 3
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse::<u8>().is_ok()
    };
    (2..=4).contains(&parts.len()) && parts[0] == "127" && parts.iter().all(number)
}

/// The rule for `Origin` headers.
pub struct OriginRule {
    allowed: Vec<String>,
    loopback: bool,
}

impl OriginRule {
    /// With an allow-list only its members pass; without one, on a loopback bind, every loopback origin does.
    pub fn new(allowed: &[String], loopback: bool) -> Self {
        OriginRule {
            allowed: allowed.iter().filter_map(|origin| normal(origin)).collect(),
            loopback: loopback && allowed.is_empty(),
        }
    }

    /// Whether a request with this `Origin` may go on.
    pub fn permits(&self, origin: &str) -> bool {
        let Some(origin) = normal(origin) else {
            return false;
        };
        if self.loopback {
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            return is_loopback_authority(host);
        }
        self.allowed.contains(&origin)
    }
}

/// `scheme://host[:port]` in lower case without a default port; `None` for what is no web origin.
fn normal(origin: &str) -> Option<String> {
    let lower = origin.trim().to_lowercase();
    let (scheme, rest) = lower.split_once("://")?;
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.strip_suffix(default_port).unwrap_or(authority);
    (!host.is_empty() && !host.contains('@')).then(|| format!("{scheme}://{host}"))
}

/// Whether the first `Content-Type` value says JSON.
pub fn is_json(content_type: &str) -> bool {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// The address that failures are counted for: a v4 address in v6 dress counts as itself.
pub fn source(peer: SocketAddr) -> std::net::IpAddr {
    peer.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_authorities() {
        for right in [
            "localhost",
            "localhost:8080",
            "127.0.0.1",
            "127.0.0.5:1",
            "127.1",
            "[::1]",
            "[::1]:7332",
        ] {
            assert!(is_loopback_authority(right), "{right}");
        }
        for wrong in [
            "LOCALHOST",
            "localhost.",
            "sub.localhost",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.256",
            "127",
            "",
            "localhost:80:80",
            "[::1",
            "[::1]x",
            "user@localhost",
            "127..1",
            "[::2]",
        ] {
            assert!(!is_loopback_authority(wrong), "{wrong}");
        }
    }

    #[test]
    fn origins() {
        let loopback = OriginRule::new(&[], true);
        for right in [
            "http://localhost",
            "https://LOCALHOST:3000",
            "http://127.0.0.1:5",
            "http://[::1]:3",
        ] {
            assert!(loopback.permits(right), "{right}");
        }
        for wrong in [
            "null",
            "",
            "file://x",
            "localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://a@localhost",
        ] {
            assert!(!loopback.permits(wrong), "{wrong}");
        }
        let listed = OriginRule::new(&["https://App.example:443".into()], true);
        assert!(
            listed.permits("https://app.example") && listed.permits("https://app.example/path")
        );
        assert!(!listed.permits("http://localhost") && !listed.permits("http://app.example"));
        assert!(!OriginRule::new(&[], false).permits("http://localhost"));
    }

    #[test]
    fn bearers() {
        let token = Secret::new("t".repeat(32));
        let right = format!("Bearer {}", "t".repeat(32));
        let check = |values: &[&str]| bearer(&token, values.iter().map(|value| value.as_bytes()));
        assert_eq!(check(&[]), Bearer::Missing);
        assert_eq!(check(&[&right]), Bearer::Right);
        assert_eq!(check(&[&right, &right]), Bearer::Wrong);
        for wrong in [
            "",
            "Bearer",
            "Bearer x",
            &right.to_lowercase(),
            &right.replace(' ', "  "),
            &format!("{right} "),
        ] {
            assert_eq!(check(&[wrong]), Bearer::Wrong, "{wrong}");
        }
    }

    #[test]
    fn content_types() {
        for right in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "text/foo+json",
            "+json",
        ] {
            assert!(is_json(right), "{right}");
        }
        for wrong in ["", "text/plain", "application/jsonx", "json"] {
            assert!(!is_json(wrong), "{wrong}");
        }
    }
}
