//! The host that a request is addressed to. On a loopback bind only loopback hosts are allowed, against DNS rebinding. Knows nothing of
//! paths.

use super::endpoint::Endpoint;
use super::refusal::HttpRefusal;
use axum::extract::Request;
use axum::http::header::{HOST, HeaderMap, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{Uri, Version};
use std::net::Ipv6Addr;

/// Refuses requests whose addressee or body length two servers could interpret differently, and stores the addressee of all others.
pub fn read(mut request: Request) -> Result<Request, HttpRefusal> {
    let headers = request.headers();
    // The HTTP library treats any coding that ends in `chunked` as chunks, and does not decode the other codings.
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if codings
        .next()
        .is_some_and(|coding| !is_chunked(coding.as_bytes()))
        || codings.next().is_some()
    {
        return Err(HttpRefusal::Malformed);
    }
    let addressee = addressee(request.uri(), headers, request.version())?;
    request.extensions_mut().insert(addressee);
    Ok(request)
}

/// The host, optionally with a port, that a request is addressed to; `None` in old HTTP versions.
#[derive(Clone)]
pub struct Addressee(Option<String>);

/// An absolute target takes precedence over the header (RFC 9112, 3.2.2), which must be valid nevertheless.
fn addressee(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<Addressee, HttpRefusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && version == Version::HTTP_11) {
        return Err(HttpRefusal::Malformed);
    }
    let named = match host.map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) if is_well_formed(host) => Some(host),
        Some(_) => return Err(HttpRefusal::Malformed),
    };
    let target = uri.authority().map(Authority::as_str);
    if target.is_some_and(|target| !is_well_formed(target)) {
        return Err(HttpRefusal::Malformed);
    }
    Ok(Addressee(target.or(named).map(str::to_owned)))
}

/// Whether an authority is unambiguous. The library checks its characters only.
fn is_well_formed(authority: &str) -> bool {
    !authority.contains('@')
        && authority.parse::<Authority>().is_ok()
        && host_of(authority).is_some()
}

/// Refuses requests to a host that is not allowed.
pub fn check(endpoint: &Endpoint, request: &Request) -> Result<(), HttpRefusal> {
    let addressee = request.extensions().get::<Addressee>();
    let host = addressee.and_then(|addressee| addressee.0.as_deref());
    if endpoint.settings().is_loopback() && !host.is_none_or(is_loopback_authority) {
        return Err(HttpRefusal::Forbidden);
    }
    Ok(())
}

/// Whether an authority (`host[:port]`) names this machine's loopback. It is case-sensitive, and names under `localhost` do not count.
pub fn is_loopback_authority(authority: &str) -> bool {
    let Some(host) = host_of(authority) else {
        return false;
    };
    match host.strip_prefix('[') {
        Some(address) => address
            .strip_suffix(']')
            .is_some_and(|address| address.parse() == Ok(Ipv6Addr::LOCALHOST)),
        None => host == "localhost" || is_loopback_v4(host),
    }
}

/// The host of an authority, with an IPv6 address in its brackets. `None` where the rest is not a port (RFC 3986, 3.2.3).
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.find(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, behind) = authority.split_at(end);
    (behind.is_empty() || is_port(behind)).then_some(host)
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `127.0.0.1` in each of its textual forms, including `127.1`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_authorities_are_recognized() {
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
}
