//! Tool names from operationIds: camel case to snake case, underscores to hyphens, dots to slashes. ASCII letters only.

pub(super) fn normalize(id: &str) -> String {
    let chars: Vec<char> = id.trim().chars().collect();
    let mut out = String::with_capacity(id.len() + 4);
    let mut previous: Option<char> = None;
    for (at, &c) in chars.iter().enumerate() {
        if c == '.' {
            out.push('/');
            previous = None;
            continue;
        }
        if let Some(previous) = previous.filter(|_| c.is_ascii_uppercase()) {
            let word_begins = chars.get(at + 1).is_some_and(|next| {
                !next.is_ascii_uppercase() && !next.is_ascii_digit() && *next != '.' && *next != '_'
            });
            if word_begins || (!previous.is_ascii_uppercase() && previous != '_') {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
        previous = Some(c);
    }
    out.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::normalize;

    #[test]
    fn names() {
        for (id, name) in [
            ("list_traces", "list-traces"),
            ("listTraces", "list-traces"),
            ("HTTPServer", "http-server"),
            ("getHTTPResponse", "get-http-response"),
            ("getURLFor2Items", "get-url-for2-items"),
            ("HTTPServerList2", "http-server-list2"),
            ("v2List", "v2-list"),
            ("OAuth2Token", "o-auth2-token"),
            ("listAPIKeys", "list-api-keys"),
            ("FOO_BAR", "foo-bar"),
            ("Foo_Bar", "foo--bar"),
            ("get_User", "get--user"),
            ("users.list", "users/list"),
            ("users-list", "users-list"),
            ("Users-List", "users--list"),
            ("Get Item", "get -item"),
            ("  padded  ", "padded"),
            ("ids[]", "ids[]"),
            ("getÉté", "getÉté"),
        ] {
            assert_eq!(normalize(id), name);
        }
    }
}
