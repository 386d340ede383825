//! Templates and arguments in, paths or refusals out.

use super::*;

fn fill(template: &str, value: &str) -> Result<String, PathArgumentFault> {
    let filled = Template::new(template).fill(|_| Ok(value.to_owned()));
    filled.map(|filled| filled.path)
}

/// Encodings of `text`, also nested.
fn spellings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let encode = |text: &str, upper: bool| {
        let byte = |byte: u8| match upper {
            true => format!("%{byte:02X}"),
            false => format!("%{byte:02x}"),
        };
        text.bytes().map(byte).collect::<String>()
    };
    for _ in 0..3 {
        let inner = all.last().cloned().unwrap_or_default();
        all.push(encode(&inner, true));
        all.push(inner.replace('%', "%25"));
    }
    all.push(encode(text, false));
    all.push(text.bytes().map(|byte| format!("%u{byte:04x}")).collect());
    // Only some of its characters.
    for at in 0..text.len() {
        let (head, tail) = text.split_at(at);
        all.push(format!("{head}{}", encode(tail, false)));
        all.push(format!("{}{tail}", encode(head, true)));
    }
    all
}

#[test]
fn no_argument_escapes_its_path() {
    let hostile = [
        ".", "..", "...", "../x", "..\\x", "x/y", "x\\y", "/", "\\", "/..", "..;a", ".;", "", " ",
        ". ", "a\r\nb", "\0", "\u{7f}", "a\tb",
    ];
    for text in hostile {
        for spelled in spellings(text) {
            for template in ["/a/{id}/b", "/a/{id}", "/{id}"] {
                let filled = fill(template, &spelled);
                assert!(filled.is_err(), "{spelled:?} in {template}: {filled:?}");
            }
        }
    }
    for (template, value) in [
        ("/a/{x}{y}/b", "."),
        ("/a/.{x}/b", "."),
        ("/a/{x}./b", "."),
        ("/a/%2e{x}/b", "."),
        ("/a/{x}{y}/b", ""),
        ("/a/%2{x}/b", "e"),
        ("/a/%{x}%{x}", "2e"),
        ("/a/%{x}b", "2f"),
        ("/{x}", "%c0%ae"),
    ] {
        let filled = fill(template, value);
        assert!(filled.is_err(), "{value:?} in {template}: {filled:?}");
    }
}

#[test]
fn plain_text_is_percent_encoded() {
    for (template, value, path) in [
        ("/a/{id}/b", "x", "/a/x/b"),
        (
            "/a/{id}/b",
            "a b;c?d#e&f=g@h:i",
            "/a/a%20b%3Bc%3Fd%23e%26f%3Dg%40h%3Ai/b",
        ),
        ("/a/{id}", "é%", "/a/%C3%A9%25"),
        ("/a/{id}", "100%25", "/a/100%2525"),
        ("/a/{id}", "..x", "/a/..x"),
        ("/a/{id}", ".well-known", "/a/.well-known"),
        ("/a/v{id}.json", "1.0", "/a/v1.0.json"),
        ("/a/.{id}", ".x", "/a/..x"),
        ("/a/", "unused", "/a/"),
    ] {
        let filled = fill(template, value).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(filled, path, "{value:?} in {template}");
    }
}

#[test]
fn decoding_takes_one_pass() {
    let text = format!("%{}2e", "25".repeat(500_000));
    assert_eq!(percent_decode(text.as_bytes()), b".");
}

#[test]
fn more_specific_template_wins() {
    let claims = |theirs: &str, ours: &str, value: &str| {
        let ours = Template::new(ours);
        let filled = ours.fill(|_| Ok::<_, PathArgumentFault>(value.to_owned()));
        let filled = filled.unwrap_or_else(|why| panic!("{why}"));
        let claims = Template::new(theirs).also_routes(&filled, &ours, &mut 1_000);
        claims.unwrap()
    };
    for (theirs, ours, value) in [
        ("/users/me", "/users/{id}", "me"),
        ("/users/me", "/users/{id}", "ME"),
        ("/users/me", "/users/{id}", "%6de"),
        ("/users/m%65", "/users/{id}", "me"),
        ("/{kind}/me", "/users/{id}", "me"),
        ("/users/{id}.json", "/users/{id}", "7.json"),
        ("/users/v{a}-{b}", "/users/{id}", "v1-2"),
    ] {
        assert!(claims(theirs, ours, value), "{theirs} {ours} {value}");
    }
    for (theirs, ours, value) in [
        ("/users/me", "/users/{id}", "you"),
        ("/users/me/x", "/users/{id}", "me"),
        ("/users/{name}", "/users/{id}", "me"),
        ("/{kind}/{id}", "/users/{id}", "me"),
        ("/users/{id}.json", "/users/{id}", "7.xml"),
        ("/users/v{a}-{b}", "/users/{id}", "v12"),
    ] {
        assert!(!claims(theirs, ours, value), "{theirs} {ours} {value}");
    }
}

#[test]
fn examined_text_is_charged() {
    let ours = Template::new("/{id}");
    let claims = |theirs: &str, left: usize| {
        let filled = ours.fill(|_| Ok::<_, PathArgumentFault>("x".repeat(100)));
        let mut left = left;
        let claims = Template::new(theirs).also_routes(&filled.unwrap(), &ours, &mut left);
        (claims, left)
    };
    assert_eq!(claims("/{a}y{b}", 100), (Some(false), 0));
    assert_eq!(claims("/{a}y{b}", 99), (None, 99));
    assert_eq!(claims("/{a}x{b}x{c}", 2), (Some(true), 0));
    assert_eq!(claims("/y{a}", 0), (Some(false), 0), "ends cost nothing");
}
