//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use std::net::IpAddr;

use crate::http::guard::{Bearer, OriginRule, bearer, is_json, is_loopback_authority};
use ptc_secrets::Secret;

/// Whatever an authority, an origin, a type or a token says: nothing that a client would resolve elsewhere counts as this
/// machine, an allow-list lets nothing else in, and only the token is the token.
pub fn http(text: &str) {
    if is_loopback_authority(text) {
        let host = text.strip_prefix('[').map_or_else(
            || text.split(':').next().unwrap_or_default(),
            |rest| rest.split(']').next().unwrap_or_default(),
        );
        let numbers = host.split('.').all(|part| part.parse::<u8>().is_ok());
        let here = match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            // Short forms such as `127.1` are numbers too.
            Err(_) => host == "localhost" || (numbers && host.starts_with("127.")),
        };
        assert!(here, "{text:?} counts as this machine");
    }
    let rule = OriginRule::new(&["https://app.example".to_owned()], true);
    if rule.permits(text) {
        let lower = text.trim().to_lowercase();
        let rest = lower
            .strip_prefix("https://app.example")
            .expect("only the listed origin is permitted");
        let rest = rest.strip_prefix(":443").unwrap_or(rest);
        assert!(
            rest.is_empty() || rest.starts_with(['/', '?', '#']),
            "{text:?} is permitted"
        );
    }
    if OriginRule::new(&[], true).permits(text) {
        // Behind the authority nothing names a host.
        let authority = text.split("//").nth(1).unwrap_or_default();
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        assert!(!authority.contains('@'), "{text:?} hides its host");
    }
    if is_json(text) {
        let kind = text.split(';').next().unwrap_or_default().to_lowercase();
        assert!(kind.contains("json"), "{text:?} counts as JSON");
    }
    let token = Secret::new("token-of-this-server".to_owned());
    let right = matches!(bearer(&token, [text.as_bytes()].into_iter()), Bearer::Right);
    let said = text.split_whitespace().last().unwrap_or_default();
    assert!(
        !right || said == "token-of-this-server",
        "{text:?} counts as the token"
    );
}

#[cfg(test)]
mod tests {
    use super::http;

    #[test]
    fn any_text() {
        // A plain generator of pseudo-random numbers; what matters is that each run sees the same texts.
        let mut state = 9_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        let words = [
            "localhost",
            "127",
            "127.0.0.1",
            ".",
            "1",
            ":",
            ":80",
            ":443",
            "[",
            "]",
            "::1",
            "[::1]",
            "http://",
            "https://",
            "app.example",
            "@",
            "/",
            "?",
            "#",
            " ",
            "Bearer ",
            "token-of-this-server",
            "application/json",
            ";",
            "+json",
            "LOCALHOST",
            "evil",
            "0",
            "256",
            "\u{130}",
        ];
        for _ in 0..20_000 {
            let text: String = (0..random() % 6)
                .map(|_| words[random() % words.len()])
                .collect();
            http(&text);
        }
    }
}
