//! The checks on seeded input.

use super::{FramingRules, http};

/// Tries sequences of fewer than `end` words, the same in each run.
fn try_sequences(seed: u64, count: usize, end: usize, words: &[&str]) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..count {
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
    try_sequences(9, 4_000, 6, &words);
}

#[test]
fn any_framing() {
    let words = [
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\n",
        "GET /metrics HTTP/1.0\r\n",
        "Authorization: Bearer token-of-the-fuzzed-http-server-0\r\n",
        "Content-Length: 3\r\n",
        "{}\n",
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
    try_sequences(11, 2_000, 16, &words);
}

#[test]
fn lax_parsers_disagree_on_unfiltered_requests() {
    for request in [
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nabc",
    ] {
        let ends = |reading: FramingRules| reading.request_ends(request.as_bytes());
        assert_ne!(
            ends(FramingRules::LAX_RULES),
            ends(FramingRules::ODD_RULES),
            "{request:?}"
        );
    }
}
