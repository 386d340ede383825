//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use std::net::IpAddr;

use crate::http::framing;
use crate::http::guard::{Bearer, OriginRule, bearer, is_json, is_loopback_authority};
use ptc_secrets::Secret;

/// Whatever a request says: see [`guards`] for what its fields may claim, and [`framing`] for where it may end.
pub fn http(bytes: &[u8]) {
    framing(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    guards(text);
    for line in text.split("\r\n") {
        if let Some((_, value)) = line.split_once(':') {
            guards(value.trim());
        }
    }
}

/// Whatever an authority, an origin, a type or a token says: nothing that a client would resolve elsewhere counts as this
/// machine, an allow-list lets nothing else in, and only the token is the token.
fn guards(text: &str) {
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

/// What passes does not depend on how the bytes are cut, is what was sent, and says to a lax and to an odd parser alike where
/// each request ends.
fn framing(bytes: &[u8]) {
    let (passed, refused) = framing::passed(bytes, usize::MAX);
    for pieces_of in [1, 2, 7] {
        let cut = framing::passed(bytes, pieces_of);
        assert_eq!(cut, (passed.clone(), refused), "in pieces of {pieces_of}");
    }
    let same = |(passed, sent): (&u8, &u8)| passed == sent || matches!(sent, b' ' | b'\t');
    assert!(passed.len() <= bytes.len() && passed.iter().zip(bytes).all(same));
    let readings = [Reading::LAX, Reading::ODD].map(|reading| reading.ends(&passed));
    assert_eq!(readings[0], readings[1], "two parsers differ");
}

/// How a careless parser frames requests. What such parsers differ in is what smugglers use.
struct Reading {
    /// Whether a line may end in LF alone.
    bare_lf: bool,
    /// Whether of several lengths the first counts, else the last.
    first_length: bool,
    /// Whether chunks go before a length.
    chunks_first: bool,
    /// Whether any transfer coding that mentions chunks means chunks, else only that word alone.
    any_coding: bool,
}

impl Reading {
    const LAX: Reading = Reading {
        bare_lf: true,
        first_length: true,
        chunks_first: true,
        any_coding: true,
    };
    const ODD: Reading = Reading {
        bare_lf: false,
        first_length: false,
        chunks_first: false,
        any_coding: false,
    };

    /// Where each whole request ends.
    fn ends(&self, bytes: &[u8]) -> Vec<usize> {
        let (mut at, mut ends) = (0, Vec::new());
        while let Some(end) = self.request(bytes, at) {
            ends.push(end);
            at = end;
        }
        ends
    }

    fn request(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while bytes.get(at..)?.starts_with(b"\r\n") {
            at += 2;
        }
        let fields = self.lines(bytes, &mut at)?;
        let values = |wanted: &str| {
            let named = |line: &String| {
                let (name, value) = line.split_once(':')?;
                let same = name.trim().eq_ignore_ascii_case(wanted);
                same.then(|| value.trim().to_ascii_lowercase())
            };
            // The first line is the request's, whatever it says.
            fields.iter().skip(1).filter_map(named).collect::<Vec<_>>()
        };
        let lengths = values("content-length");
        let length = match self.first_length {
            true => lengths.first(),
            false => lengths.last(),
        };
        let codings = values("transfer-encoding");
        let chunked = codings.iter().any(|coding| match self.any_coding {
            true => coding.contains("chunked"),
            false => coding == "chunked",
        });
        if chunked && (self.chunks_first || length.is_none()) {
            return self.chunks(bytes, at);
        }
        let length: u64 = length.map_or(Some(0), |length| length.parse().ok())?;
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        (end <= bytes.len()).then_some(end)
    }

    fn chunks(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            let line = self.line(bytes, &mut at)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).ok()?;
            if size == 0 {
                self.lines(bytes, &mut at)?;
                return Some(at);
            }
            at = at.checked_add(size)?;
            self.line(bytes, &mut at)?;
        }
    }

    /// The lines before an empty one.
    fn lines(&self, bytes: &[u8], at: &mut usize) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let line = self.line(bytes, at)?;
            if line.is_empty() {
                return Some(lines);
            }
            lines.push(line);
        }
    }

    fn line(&self, bytes: &[u8], at: &mut usize) -> Option<String> {
        let rest = bytes.get(*at..)?;
        let end = match self.bare_lf {
            true => rest.iter().position(|byte| *byte == b'\n')?,
            false => rest.windows(2).position(|pair| pair == b"\r\n")? + 1,
        };
        *at += end + 1;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        Some(line.strip_suffix('\r').unwrap_or(&line).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, http};

    /// Sequences of fewer than `end` words, the same in each run.
    fn try_sequences(seed: u64, end: usize, words: &[&str]) {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let length = random.usize(..end);
            let words = (0..length).filter_map(|_| random.choice(words));
            http(words.copied().collect::<String>().as_bytes());
        }
    }

    #[test]
    fn any_text() {
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
        try_sequences(9, 6, &words);
    }

    #[test]
    fn any_framing() {
        let words = [
            "POST / HTTP/1.1\r\n",
            "GET / HTTP/1.0\r\n",
            "Content-Length: ",
            "content-length:",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding:",
            "Authorization: x \t\r\n",
            "chunked",
            ", ",
            "0",
            "3",
            "abc",
            "\r\n",
            "\r\n",
            "\r\n\r\n",
            "\n",
            "\r",
            "\0",
            " ",
            ";",
            "A: b",
            "+",
        ];
        try_sequences(11, 16, &words);
    }

    #[test]
    fn careless_parsers_differ_where_nothing_is_refused_before_them() {
        for request in [
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\nA: b\n\nabc\r\n\r\n",
        ] {
            let ends = |reading: Reading| reading.ends(request.as_bytes());
            assert_ne!(ends(Reading::LAX), ends(Reading::ODD), "{request:?}");
        }
    }
}
