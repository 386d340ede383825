//! The token of a request. Failures are counted by address; the right token always passes. Knows nothing of methods.

use super::accept::Peer;
use super::endpoint::Endpoint;
use super::refusal::{Challenge, HttpRefusal};
use crate::sessions::store::LoginFailure;
use axum::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use ptc_secrets::Secret;
use tokio::time::Instant;

/// Refuses requests without the right token where one is required, and connections of the reserve that cannot leave it.
pub fn check(endpoint: &Endpoint, peer: &Peer, headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let asked = endpoint.settings().checked_token();
    if let Some(token) = asked {
        authenticate(endpoint, token, peer, headers)?;
    }
    if peer.permit.is_reserved() && (asked.is_none() || !peer.permit.promote()) {
        return Err(HttpRefusal::TooManyConnections);
    }
    Ok(())
}

fn authenticate(
    endpoint: &Endpoint,
    token: &Secret,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<(), HttpRefusal> {
    let values = headers.get_all(AUTHORIZATION).iter();
    let shown = bearer(token, values.map(HeaderValue::as_bytes));
    let Some(limit) = endpoint.rate_limit() else {
        return match shown {
            Bearer::Right => Ok(()),
            Bearer::Missing => Err(HttpRefusal::Unauthorized(Challenge::Token)),
            Bearer::Wrong => Err(HttpRefusal::Unauthorized(Challenge::AnotherToken)),
        };
    };
    let settings = endpoint.settings();
    let source = settings.trusted_proxies.client(peer.address, headers);
    let now = Instant::now();
    if shown == Bearer::Right {
        limit.succeeded(source.into(), now);
        return Ok(());
    }
    if let Some(left) = limit.blocked(source.into(), now) {
        return Err(HttpRefusal::Blocked(left));
    }
    // Any page can make a browser send a request without a token. Only a wrong token is a guess.
    if shown == Bearer::Missing {
        return Err(HttpRefusal::Unauthorized(Challenge::Token));
    }
    match limit.failed(source.into(), now) {
        LoginFailure::Counted => {}
        // Another node may have blocked the source without this one having heard of it.
        LoginFailure::Blocked(left) => return Err(HttpRefusal::Blocked(left)),
        LoginFailure::Blocks => {
            tracing::warn!(
                event = "http_auth_rate_limited",
                block_ms = limit.block().as_millis(),
                instance = settings.instance,
                source = %source,
            );
        }
    }
    Err(HttpRefusal::Unauthorized(Challenge::AnotherToken))
}

/// The result of checking the `Authorization` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// Exactly one header, with the right token.
    Right,
    Missing,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_token_is_accepted() {
        let token = Secret::new("Token-0123456789-0123456789-abcde".to_owned());
        let right = "Bearer Token-0123456789-0123456789-abcde";
        let check = |values: &[&str]| bearer(&token, values.iter().map(|value| value.as_bytes()));
        assert_eq!(check(&[]), Bearer::Missing);
        assert_eq!(check(&[right]), Bearer::Right);
        assert_eq!(check(&[right, right]), Bearer::Wrong);
        for wrong in [
            "",
            "Bearer",
            "Bearer x",
            &right.to_lowercase(),
            &right.to_uppercase(),
            &right.replace("Bearer", "bearer"),
            &right.replace("Token", "token"),
            &right.replace(' ', "  "),
            &right[..right.len() - 1],
            &format!("{right}e"),
            &format!("{right} "),
            &right.replace("abcde", "abcdf"),
        ] {
            assert_eq!(check(&[wrong]), Bearer::Wrong, "{wrong}");
        }
    }
}
