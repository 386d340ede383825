//! Headers and peers in, the client's address out.

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
fn client_is_the_rightmost_untrusted_hop() {
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
        // Headers from an untrusted peer are ignored.
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
fn address_block_covers_a_clients_addresses() {
    let block = |text: &str| AddressBlock::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(block("2001:db8::1"), block("2001:db8::ffff:1"));
    assert_ne!(block("2001:db8::1"), block("2001:db8:0:1::1"));
    assert_eq!(block("::ffff:1.2.3.4"), block("1.2.3.4"));
    assert_ne!(block("1.2.3.4"), block("1.2.3.5"));
}
