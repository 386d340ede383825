//! What the redactor promises, checked from outside the crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ptc_secrets::{ConfigDocument, Redactor, Secret, SharedTime, scrub_json, scrub_json_text};
use serde_json::json;
use std::time::Duration;

fn redactor(secrets: &[&str]) -> Redactor {
    let mut builder = Redactor::builder();
    for secret in secrets {
        builder.add(&Secret::new((*secret).to_owned()));
    }
    builder.build()
}

fn check(secrets: &[&str], text: &str, expected: &str) {
    assert_eq!(redactor(secrets).scrub_str(text), expected, "{text}");
}

#[test]
fn longest_secret_wins_in_any_order() {
    check(&["abc", "abcdef"], "abcdef abc", "[REDACTED] [REDACTED]");
    check(&["abcdef", "abc"], "abcdef abc", "[REDACTED] [REDACTED]");
}

#[test]
fn overlapping_secrets_leave_no_tail() {
    check(&["abcdef", "defghi"], "xabcdefghix", "x[REDACTED]x");
}

#[test]
fn scrubbing_twice_changes_nothing() {
    let redactor = redactor(&["E", "xsecretx"]);
    let once = redactor.scrub_str("Eel xsecretx").into_owned();
    assert_eq!(once, "[REDACTED]el [REDACTED]");
    assert_eq!(redactor.scrub_str(&once), once);
}

/// The literal text before an escape is remembered behind it, even where a `+` for a blank could begin the secret anew.
#[test]
fn prefix_is_remembered_after_a_plus_sign() {
    let secret = " 7;xnä+/'=and-more";
    for form in [
        " 7;xnä+\\x2f'=and-more",
        "+7;xnä+%2f'=and-more",
        " 7;xnä+&#47;'=and-more",
    ] {
        check(&[secret], &format!("..{form}.."), "..[REDACTED]..");
    }
}

/// A header value loses its surrounding blanks, and most readers of a variable trim it.
#[test]
fn surrounding_blanks_are_not_part_of_a_secret() {
    check(
        &["canary-0123456789 \n"],
        "<canary-0123456789>",
        "<[REDACTED]>",
    );
    check(
        &["\tcanary-0123456789"],
        "\tcanary-0123456789",
        "[REDACTED]",
    );
    let short = |text: &str| Secret::new(text.to_owned()).is_short();
    assert!(short("  canary-01234567  ") && !short(" canary-0123456789 "));
}

/// A program that sees which of its guesses vanish could spell out a secret.
#[test]
fn partial_secrets_are_kept() {
    let secret = "supersecrettoken-0123456789";
    let redactor = redactor(&[secret]);
    for length in 1..secret.len() {
        for part in [&secret[..length], &secret[length..]] {
            for text in [
                format!("aaaa...{part}...bbbb"),
                format!("{part}…"),
                format!("not callable: \"{part}"),
                part.to_owned(),
            ] {
                assert_eq!(redactor.scrub_str(&text), text);
            }
        }
    }
}

#[test]
fn every_escaped_form_is_found() {
    let secret = "pä\"ss/wo rd&<'9+\\";
    for form in [
        "cMOkInNzL3dvIHJkJjwnOStc",
        "p%C3%A4%22ss%2Fwo%20rd%26%3C%279%2B%5C",
        "p%c3%a4%22ss%2fwo%20rd%26%3c%279%2b%5c",
        "p%C3%A4%22ss%2Fwo+rd%26%3C%279%2B%5C",
        r#"pä\"ss/wo rd&<'9+\\"#,
        r#"p\u00e4\"ss/wo rd&<'9+\\"#,
        r#"p\u00E4\"ss/wo rd&<'9+\\"#,
        r#"pä\"ss\/wo rd&<'9+\\"#,
        r#"pä\\\"ss/wo rd&<'9+\\\\"#,
        "pä&quot;ss/wo rd&amp;&lt;&#39;9+\\",
        "pä&quot;ss/wo rd&amp;&lt;&#x27;9+\\",
    ] {
        check(&[secret], &format!("<<{form}>>"), "<<[REDACTED]>>");
    }
}

#[test]
fn base64_is_found_at_every_alignment() {
    use base64::Engine as _;
    let redactor = redactor(&["canary-0123456789"]);
    for lead in ["", "u", "us", "use", "user:"] {
        let text =
            base64::engine::general_purpose::STANDARD.encode(format!("{lead}canary-0123456789"));
        let clean = redactor.scrub_str(&text).into_owned();
        assert!(clean.contains("[REDACTED]"), "{lead:?} {clean}");
        // No character that carries a bit of the secret remains.
        assert!(
            clean.replace("[REDACTED]", "").len() <= lead.len() * 4 / 3,
            "{lead:?} {clean}"
        );
    }
}

/// Any block could contain a shorter secret by chance.
#[test]
fn a_secret_of_eight_bytes_is_found_in_blocks() {
    for secrets in [vec!["eight-8b"], vec!["eight-8b", "canary-0123456789"]] {
        check(
            &secrets,
            "<ZWlnaHQtOGI=> <65696768742d3862>",
            "<[REDACTED]> <[REDACTED]>",
        );
    }
    let text = "<c2V2ZW4tNw==> <736576656e2d37>";
    check(&["seven-7"], text, text);
    check(&["seven-7", "eight-8b"], text, text);
}

/// Indented as in YAML, PEM and pretty-printed JSON, both raw and inside a JSON string.
#[test]
fn blocks_are_found_in_indented_lines() {
    use base64::Engine as _;
    let secret = "canary-0123456789-and-somewhat-more";
    let redactor = redactor(&[secret]);
    for lead in ["", "u", "us"] {
        let block = base64::engine::general_purpose::STANDARD.encode(format!("{lead}{secret}"));
        for columns in [1, 2, 3, 4, 7, 8, 16, 20, 40] {
            for end in ["\n  ", "\r\n\t", "\n\t  ", "\r\n          "] {
                let lines: Vec<&str> = (0..block.len())
                    .step_by(columns)
                    .map(|at| &block[at..block.len().min(at + columns)])
                    .collect();
                let text = format!("key: |{end}{}\nnext: x", lines.join(end));
                let json = serde_json::Value::from(text.clone()).to_string();
                let twice = serde_json::Value::from(json.clone()).to_string();
                // The text before the secret and the padding may be on lines of their own.
                let most = if columns > 2 { 80 } else { 150 };
                for text in [text, json, twice] {
                    let clean = redactor.scrub_str(&text);
                    assert!(clean.contains("[REDACTED]"), "{text:?} {clean:?}");
                    assert!(clean.len() < most, "{text:?} {clean:?}");
                }
            }
        }
    }
    let dump: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = dump.chunks(6).map(|line| line.join(":")).collect();
    let text = format!("x\n    {}\n", lines.join(":\n    "));
    assert_eq!(redactor.scrub_str(&text), "x\n    [REDACTED]\n");
}

#[test]
fn hex_dumps_are_found_in_every_line_layout() {
    let secret = "canary-of-dumps-0123";
    let redactor = redactor(&[secret]);
    let ends = ["\n", "\r\n", "\\n", "\\\\r\\\\n", "&#10;", "%0A"];
    for prefix in ["", "0x"] {
        let pairs: Vec<String> = secret
            .bytes()
            .map(|byte| format!("{prefix}{byte:02x}"))
            .collect();
        for (separator, columns) in [
            (":", 1),
            (", ", 2),
            ("\t", 3),
            ("-", 5),
            (" ", 8),
            (",", 12),
        ] {
            for (end, indent) in ends
                .iter()
                .flat_map(|end| ["", "\t", "      ", "            "].map(|indent| (end, indent)))
            {
                for last in ["", separator.trim_end()] {
                    let lines: Vec<String> = pairs
                        .chunks(columns)
                        .map(|line| line.join(separator))
                        .collect();
                    let dump = lines.join(&format!("{last}{end}{indent}"));
                    // At every position relative to where pairs are probed.
                    for before in 0..40 {
                        let before = ".".repeat(before);
                        let text = format!("{before}{dump}>");
                        let clean = format!("{before}{prefix}[REDACTED]>");
                        assert_eq!(redactor.scrub_str(&text), clean, "{text:?}");
                    }
                }
            }
        }
    }
}

/// `\\x5c\\x6e` is a line end whose characters were escaped; `\\\\x6e` is also the letter, escaped twice.
#[test]
fn ambiguous_backslash_escapes_are_read_both_ways() {
    use base64::Engine as _;
    let secret = "canary-nnn-0123456789-rt";
    let block = base64::engine::general_purpose::STANDARD.encode(secret);
    let (first, rest) = block.split_at(12);
    let escaped =
        |end: &str, write: fn(char) -> String| -> String { end.chars().map(write).collect() };
    let writers: [fn(char) -> String; 4] = [
        |c| format!("\\x{:02x}", c as u32),
        |c| format!("\\u{:04x}", c as u32),
        |c| format!("%{:02X}", c as u32),
        |c| format!("&#{};", c as u32),
    ];
    for write in writers {
        for end in ["\\n", "\\r\\n", "\\n\\t", "\\n  "] {
            let text = format!("<{first}{}{rest}>", escaped(end, write));
            check(&[secret], &text, "<[REDACTED]>");
            let whole = escaped(&format!("{first}{end}{rest}"), write);
            check(&[secret], &format!("<{whole}>"), "<[REDACTED]>");
        }
    }
    for letter in block.char_indices().filter(|(_, c)| "nrt".contains(*c)) {
        let (at, c) = letter;
        let text = format!(
            "<{}\\\\x{:02x}{}>",
            &block[..at],
            c as u32,
            &block[at + 1..]
        );
        check(&[secret], &text, "<[REDACTED]>");
    }
}

#[test]
fn a_split_secret_is_found_at_every_cut() {
    let redactor = redactor(&["split-secret", "secret-two", "s"]);
    let text = "one split-secret two split-secret-two, and split-secre";
    let whole = redactor.scrub_str(text).into_owned();
    for size in 1..text.len() {
        let mut stream = redactor.stream(Duration::MAX);
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            stream.push(chunk, &mut out);
        }
        stream.flush(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), whole, "chunks of {size}");
    }
}

/// However long a writer pauses, the part of a credential that it wrote so far is not released.
#[test]
fn pause_reveals_no_prefix() {
    let secret = "split-secret-of-some-length";
    let redactor = redactor(&[secret]);
    let wrapped = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxc3BsaXQtc2VjcmV0LW\n9mLXNvbWUtbGVuZ3Ro\n";
    let long = format!("{}{secret}\n", "x".repeat(5_000));
    for (text, pause) in [(wrapped, 10), (wrapped, 49), (&long, 5_001), (&long, 5_020)] {
        let (mut stream, mut out) = (redactor.stream(Duration::MAX), Vec::new());
        stream.push(&text.as_bytes()[..pause], &mut out);
        stream.release_lines(&mut out);
        stream.push(&text.as_bytes()[pause..], &mut out);
        stream.flush(&mut out);
        let whole = redactor.scrub_str(text).into_owned();
        assert!(whole.contains("[REDACTED]"), "{whole}");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            whole,
            "pause after {pause}"
        );
    }
    // Lines in which no secret can continue are released at once.
    let several = self::redactor(&[secret, "a key\nof two lines"]);
    let (mut stream, mut out) = (several.stream(Duration::MAX), Vec::new());
    let lines = "first\n{\"level\":\"info\",\"message\":\"started\",\"port\":8000}\nhttp://127.0.0.1:8000/mcp?of=everybody\n";
    stream.push(lines.as_bytes(), &mut out);
    stream.push(b"half of a ", &mut out);
    stream.release_lines(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), lines);
}

#[test]
fn json_keys_values_and_numbers() {
    let redactor = redactor(&["1234567890", "s3cr3t-key", "s"]);
    let mut value = json!({"status": 7, "a s3cr3t-key": [1234567890u64, "x s3cr3t-key"]});
    scrub_json(&mut value, &["status"], &redactor);
    assert_eq!(
        value,
        json!({"status": 7, "a [REDACTED]": ["[REDACTED]", "x [REDACTED]"]})
    );
}

#[test]
fn json_secret_is_found_as_a_value_of_json() {
    let redactor = redactor(&[r#"{"id": "an id", "list": [1, "a\\\"b "]}"#]);
    let value = |id: &str, gap: &str| {
        format!(r#"{{"id":{gap}"{id}",{gap}"list":{gap}[1,{gap}"a\\\"b "]}}"#)
    };
    for (json, expected) in [
        (value("an id", " "), r#""[REDACTED]""#),
        (value("an id", ""), r#""[REDACTED]""#),
        (
            format!(r#"{{"k": [{}, 2]}}"#, value("an id", "")),
            r#"{"k": ["[REDACTED]", 2]}"#,
        ),
        (
            serde_json::Value::from(value("an id", "")).to_string(),
            r#""[REDACTED]""#,
        ),
    ] {
        assert_eq!(scrub_json_text(&json, &redactor), expected, "{json}");
    }
    for json in [value("no id", " "), value("an id", "  ")] {
        assert_eq!(scrub_json_text(&json, &redactor), json);
    }
}

#[test]
fn lines_of_a_secret_are_masked_in_a_program() {
    let redactor = redactor(&["the first line\nand the second"]);
    let program = "(str \"the first line\nand the second\")\n(inc :a)";
    let masked = "(str \"**************\n**************\")\n(inc :a)";
    assert_eq!(redactor.veil(program).masked_program(), masked);
    let whole = "(str \"the first line\")";
    assert_eq!(redactor.veil(whole).masked_program(), whole);
}

/// Writers that store every number as a float write a credential of digits this way.
#[test]
fn number_is_found_in_every_float_notation() {
    let redactor = redactor(&["9876543210987654", "1234567890123000"]);
    for number in [
        "9876543210987654",
        "-9876543210987654",
        "9876543210987654.0",
        "9.876543210987654E15",
        "9.876543210987654e+15",
        "9876543210987.654e3",
        "9.8765432109876540e15",
        "1.234567890123E15",
        "1.234567890123E16",
        "1234567890123e3",
    ] {
        assert!(redactor.finds_secret_in_number(number), "{number}");
    }
    for number in [
        "9.876543210987654",
        "9.876543210987654E14",
        "9.876543210987654e-15",
        "1.234567890123E14",
        "1.5",
        "1e400000000000",
        "1e18446744073709551616",
    ] {
        assert!(!redactor.finds_secret_in_number(number), "{number}");
    }
    let mut value: serde_json::Value = serde_json::from_str("[9.876543210987654E15, 1.5]").unwrap();
    scrub_json(&mut value, &[], &redactor);
    assert_eq!(value, json!(["[REDACTED]", 1.5]));
}

#[test]
fn an_empty_redactor_borrows() {
    let redactor = redactor(&[""]);
    assert!(redactor.is_empty());
    assert!(matches!(
        redactor.scrub_str("text"),
        std::borrow::Cow::Borrowed("text")
    ));
}

#[test]
fn a_thousand_secrets_fit_in_memory() {
    let secrets: Vec<String> = (0..1000u64)
        .map(|n| {
            format!(
                "ghp_{:036x}",
                u128::from(n) * 0x9E37_79B9_7F4A_7C15_F39C_u128
            )
        })
        .collect();
    let redactor = redactor(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        redactor.memory_bytes() <= 16 * 1024 * 1024,
        "{} bytes",
        redactor.memory_bytes()
    );
    assert_eq!(redactor.scrub_str(&secrets[777]), "[REDACTED]");
}

fn refusal(text: &str) -> String {
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    let path = std::path::Path::new("u.json");
    let fault = match ConfigDocument::parse(path, text.to_owned(), &env) {
        Ok(mut document) => document.refused.pop().expect("refused"),
        Err(fault) => fault,
    };
    fault.to_string()
}

#[test]
fn refusals_name_cause_and_place_but_no_value() {
    for (text, expected) in [
        ("", "u.json: upstreams config is empty"),
        (
            "[1]",
            "u.json:1:1: upstreams config must be a JSON object, got array",
        ),
        (
            "{\"a\": \n tru}",
            "u.json:2:5: upstreams config JSON decode failed: expected ident",
        ),
        (
            "{\"credentials\": 5}",
            "u.json:1:2: at credentials: credentials must be an object, got number",
        ),
        (
            "{\"credentials\": {\n  \"b\": {\"source\": \"env\", \"var\": \"UNSET\"}}}",
            "u.json:2:26: at credentials.b.var: credential b env UNSET is not set",
        ),
        (
            "{\"credentials\": {\"b\": {\"source\": \"exec\", \"command\": \"x\"}}}",
            "u.json:1:24: at credentials.b.source: invalid credential binding \"b\": source \"exec\" is reserved and not \
             supported; use env, file or literal",
        ),
        (
            "{\"credentials\": {\"b\": {\"source\": \"literal\", \"value\": 12}}}",
            "u.json:1:45: at credentials.b.value: invalid credential binding \"b\": `value` must be a string, got number",
        ),
        (
            "{\"credentials\": {\"b\": {\"source\": \"literal\", \"value\": \"fifteen-letters\"}}}",
            "u.json:1:18: at credentials.b: credential b is shorter than 16 bytes, so that a program could guess it; use a \
             longer one, or set \"allow_short\": true in its entry",
        ),
        (
            "{\"credentials\": {\"b\": {\"source\": \"literal\", \"value\": \"short\", \"allow_short\": 1}}}",
            "u.json:1:63: at credentials.b.allow_short: invalid credential binding \"b\": `allow_short` must be a boolean, got number",
        ),
        (
            "{\"credentials\": {\"b\": {\"source\": \"file\", \"path\": \"/no/such\"}}}",
            "u.json:1:42: at credentials.b.path: credential b: no such file or directory",
        ),
    ] {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn sources_resolve_and_short_secrets_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "from-a-file-of-mine \n\n").unwrap();
    let text = json!({"credentials": {
        "e": {"source": "env", "var": "SET"},
        "f": {"source": "file", "path": file},
        "l": {"source": "literal", "value": "lit", "scheme_hint": "weird", "allow_short": true},
    }, "upstreams": {}});
    let env = |name: &str| (name == "SET").then(|| "from-the-environment".to_owned());
    let document =
        ConfigDocument::parse(std::path::Path::new("u.json"), text.to_string(), &env).unwrap();
    assert!(
        document
            .credentials
            .get("e")
            .unwrap()
            .matches(b"from-the-environment")
    );
    assert!(
        document
            .credentials
            .get("f")
            .unwrap()
            .matches(b"from-a-file-of-mine")
    );
    assert_eq!(
        document.credentials.short_names().collect::<Vec<_>>(),
        ["l"]
    );
    assert!(!document.root.contains_key("credentials"));
}

/// Many secrets use the skip table; an alphabet of few letters causes near misses, and long runs of them make it give up.
#[test]
fn many_secrets_are_found_among_near_misses() {
    let mut random = fastrand::Rng::with_seed(13);
    for _ in 0..60 {
        let mut word = |length: u64| -> String {
            (0..length)
                .filter_map(|_| random.choice(['a', 'b', '0']))
                .collect()
        };
        let secrets: Vec<String> = (0..30).map(|n| word(8 + n % 7)).collect();
        let mut text = String::new();
        for n in 0..200 {
            text.push_str(&word(1 + n % 9));
            if n % 5 == 0 {
                text.push_str(&secrets[n as usize % secrets.len()][..4 + n as usize % 5]);
            }
        }
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut builder = Redactor::builder();
        for secret in &secrets {
            builder.add(&Secret::new((*secret).to_owned()));
        }
        ptc_secrets::fuzz::redactor(&secrets, &text, 7);
    }
}

/// Long text is scrubbed in pieces: wherever a piece ends, forms are found as in the whole text.
#[test]
fn text_in_pieces_is_scrubbed_like_the_whole() {
    let redactor = redactor(&["canary-0123456789", "two\nlines-of-a-key"]);
    let forms = [
        "canary-0123456789",
        "Y2FuYXJ5LTAxMjM0NTY3ODk=",
        "%63anary%252D0123456789",
        "two\\nlines-of-a-key",
        "ä",
    ];
    let mut text = String::new();
    for at in 0..20_000 {
        text.push_str(&".".repeat(at % 7));
        text.push_str(forms[at % forms.len()]);
    }
    let mut looks = 0;
    let pieces = redactor.scrub_str_within(&text, &mut || {
        looks += 1;
        Ok::<(), ()>(())
    });
    assert_eq!(pieces.unwrap(), redactor.scrub_str(&text));
    assert!(looks > text.len() / 100_000, "only {looks} looks");
    let stopped = redactor.scrub_str_within(&text, &mut || Err("stop"));
    assert_eq!(stopped, Err("stop"));
}

/// Pieces are as long as promised, text without a form is borrowed, and a form is found wherever a piece ends.
#[test]
fn pieces_never_split_a_form() {
    const HELD: usize = 64 * 1024;
    const STEP: usize = 48 * 1024;
    let secret = "canary-0123456789";
    let redactor = redactor(&[secret]);
    let scrub = |text: &str| {
        let mut looks = 0;
        let clean = redactor.scrub_str_within(text, &mut || {
            looks += 1;
            Ok::<(), ()>(())
        });
        let clean = clean.unwrap();
        let borrowed = matches!(clean, std::borrow::Cow::Borrowed(_));
        (clean.into_owned(), borrowed, looks)
    };
    // `look` is called twice per piece, unless the piece is short.
    for (length, looks) in [
        (0, 0),
        (1, 1),
        (HELD, 2),
        (HELD + 1, 4),
        (HELD + 2 * STEP, 6),
        (HELD + 2 * STEP + 1, 8),
    ] {
        let text = ".".repeat(length);
        assert_eq!(scrub(&text), (text, true, looks));
    }
    let percent = "%63anary%2D0123456789";
    for form in [secret, percent] {
        for end in [STEP, 2 * STEP] {
            for at in end - form.len() - 1..=end + 1 {
                let text = format!("{}{form}{}", ".".repeat(at), ",".repeat(HELD));
                let clean = format!("{}[REDACTED]{}", ".".repeat(at), ",".repeat(HELD));
                let scrubbed = scrub(&text);
                assert!(scrubbed.0 == clean, "{form} at {at}");
                assert!(!scrubbed.1);
            }
        }
    }
    // A secret at the very beginning, with nothing behind it.
    assert_eq!(scrub(secret), ("[REDACTED]".to_owned(), false, 1));
}

/// When a longer beginning does not continue, the rest still begins at the right position: all of the first escape is replaced.
#[test]
fn marker_starts_at_the_first_escape() {
    let secret = "=\\=x+;0<x'=u;;B%<%7😀xZq9";
    let form = "\\%3\\u0044\\u0025\\u0035c%3\\u0064\\%7\\U00000038%\\u{32}b\\045\\u{33}\\u{42}\\0453\\u0030\\x25\\u0033\\u{43}\\u0078\
        \\U000000252\\u0037\\u{25}\\u0033\\u{44}\\u{25}75\\u0025\\x33\\u0042\\045\\u0033\\u0042%\\u00342\\u{25}2\\u{35}\\x25\\U00000033c\
        \\u{25}25%\\0637\\u{25}F\\U00000030\\u0025\\U00000039\\u{46}%\\u00398\\u0025\\070\\x30x%\\u0035a\\U00000071\\u0025\\u0033\\x39";
    check(&[secret], &format!("key={form}!"), "key=[REDACTED]!");
}

/// Ambiguous escapes cost no more than a bounded number of readings per byte: without the bound, each of these texts took hours.
#[test]
fn ambiguous_escapes_are_read_in_bounded_time() {
    let redactor = redactor(&["canary-0123456789", "\\&%percent-and-more"]);
    for piece in [
        "\\&bsol;",
        "&#92;\\\\",
        "\\%5c",
        "%5c\\&#92;\\%5c\\",
        "\\\\&bsol;\\\\\\\\",
        "%5C\\&\\\\\\#92\\",
        "\\u005c\\%2525",
    ] {
        let text = piece.repeat(4_000 / piece.len());
        let begun = std::time::Instant::now();
        assert_eq!(redactor.scrub_str(&text), text);
        let took = begun.elapsed();
        assert!(took.as_secs() < 20, "{piece} took {took:?}");
        // Secrets after the piece are still found.
        let text = format!("{text} canary&#45;0123456789 %63anary-0123456789");
        let clean = redactor.scrub_str(&text);
        assert!(clean.ends_with(" [REDACTED] [REDACTED]"), "{piece}");
    }
}

/// Secrets that repeat themselves or consist of introducers, in texts crafted for them: when they were followed from each possible
/// beginning, most of these took hours.
#[test]
fn repetitive_secrets_cost_no_more() {
    let long = "a".repeat(4_096);
    let lengths: Vec<String> = (16..516).map(|length| "a".repeat(length)).collect();
    let beginnings: Vec<String> = (0..500)
        .map(|n| format!("{}{n:04}", "a".repeat(200)))
        .collect();
    for (secrets, pieces) in [
        (
            vec![long],
            vec![
                "a",
                "%61",
                "a%61",
                "&#97;\\u0061aaa",
                "YWFhYWFhYWFh",
                "61",
                "61 ",
            ],
        ),
        (lengths, vec!["a", "%61", "aaaaaaaaaaaaaa%61b"]),
        (beginnings, vec!["a", "%61", "YWFhYWFhYWFh"]),
        (vec!["%".repeat(64)], vec!["%", "%25", "%2525", "%%25"]),
        (
            vec!["\\\\0123456789abcdef".to_owned()],
            vec!["\\&bsol;", "%5c%5c%5c\\", "\\"],
        ),
        (vec!["\\".repeat(64)], vec!["\\&bsol;", "&#92;\\\\", "\\"]),
        (
            vec!["0".repeat(64), " ".repeat(64)],
            vec!["&#48;", "%30", "0", "+", "%20+ "],
        ),
    ] {
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let redactor = redactor(&secrets);
        for piece in pieces {
            let text = piece.repeat(8_000 / piece.len());
            let begun = std::time::Instant::now();
            let clean = redactor.scrub_str(&text);
            let took = begun.elapsed();
            assert!(took.as_secs() < 20, "{piece} took {took:?}");
            assert_eq!(redactor.scrub_str(&clean), clean, "{piece}");
        }
        // Secrets after the piece are still found, in their simplest forms.
        let secret = secrets[secrets.len() / 2];
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let text = format!(
            "{} <{secret}> <{percent}>",
            "%5c\\&#92;\\%5c\\".repeat(1_000)
        );
        let clean = redactor.scrub_str(&text);
        assert!(
            clean.ends_with(" <[REDACTED]> <[REDACTED]>"),
            "{secret}: {}",
            &clean[clean.len() - 80..]
        );
    }
}

/// Overlapping secrets are replaced as a whole, whichever they are and wherever they begin.
#[test]
fn overlapping_secrets_are_replaced_as_a_whole() {
    let random = std::cell::RefCell::new(fastrand::Rng::with_seed(17));
    let word = |length: usize, letters: &[&str]| -> String {
        let mut random = random.borrow_mut();
        (0..length)
            .map(|_| letters[random.usize(..letters.len())])
            .collect()
    };
    for round in 0..200 {
        let secrets: Vec<String> = (0..1 + round % 90)
            .map(|n| word(2 + n % 9, &["a", "b"]))
            .collect();
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let text = word(60, &["a", "b", "c", "ab"]);
        // The model: every occurrence of every secret; occurrences that share a byte are one.
        let mut gone = vec![false; text.len()];
        let mut joined = vec![false; text.len()];
        for secret in &secrets {
            for at in (0..text.len()).filter(|at| text[*at..].starts_with(secret)) {
                gone[at..at + secret.len()].fill(true);
                joined[at + 1..at + secret.len()].fill(true);
            }
        }
        let mut expected = String::new();
        for (at, letter) in text.char_indices() {
            match (gone[at], joined[at]) {
                (true, false) => expected.push_str("[REDACTED]"),
                (true, true) => {}
                (false, _) => expected.push(letter),
            }
        }
        let redactor = redactor(&secrets);
        assert_eq!(redactor.scrub_str(&text), expected, "{secrets:?} in {text}");
        // The same with some letters escaped gives as many markers: an escaped letter counts like a literal one.
        let escaped: String = text
            .chars()
            .map(|letter| match random.borrow_mut().u8(..4) {
                0 => format!("%{:02x}", letter as u32),
                1 => format!("&#{};", letter as u32),
                _ => letter.to_string(),
            })
            .collect();
        let decoded = redactor
            .scrub_str(&escaped)
            .replace("%61", "a")
            .replace("%62", "b")
            .replace("%63", "c")
            .replace("&#97;", "a")
            .replace("&#98;", "b")
            .replace("&#99;", "c");
        assert_eq!(decoded, expected, "{secrets:?} in {escaped}");
    }
}

#[test]
fn a_long_secret_is_found_behind_escapes() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDTgvwjlRHZ9zz\n";
    let secret: String = (0..150).map(|at| format!("{at}{line}")).collect();
    let redactor = redactor(&[&secret]);
    let text = format!("<{}>", secret.replace('\n', "\\n"));
    assert_eq!(redactor.scrub_str(&text), "<[REDACTED]>");
    let whole = redactor.scrub_str_within(&text, &mut || Ok::<(), ()>(()));
    assert_eq!(whole.unwrap(), "<[REDACTED]>");
}

/// A run of backslashes has a reading for each way to divide it, of which writers mean one.
#[test]
fn backslash_runs_are_found_at_every_escape_depth() {
    for (layers, run_max) in [(1, 24), (2, 20), (3, 12), (4, 8)] {
        for run in 1..=run_max {
            let backslashes = |count: usize| "\\".repeat(count);
            let secret = format!(
                "n07&&#{}ä{}Zq9-abcdef",
                backslashes(run),
                backslashes(run / 2)
            );
            let mut builder = Redactor::builder();
            builder.add(&Secret::new(secret.clone()));
            let form = secret.replace('\\', &backslashes(1 << layers));
            let text = format!("x {form} y");
            let clean = builder.build().scrub_str(&text).into_owned();
            assert_eq!(clean, "x [REDACTED] y", "{secret:?}, {layers} layers");
        }
    }
}

/// Whatever a text contains, `look` is called often: searching a piece of slow text takes longer than a scrub may take, and with a long
/// secret pieces are long.
#[test]
fn time_is_checked_often_in_slow_text() {
    /// Bytes that take at most about a millisecond to search.
    const BYTES_BETWEEN_LOOKS: usize = 512;
    let key = "\\\\\\\\0A".repeat(1_500);
    let nested = |text: &str| STANDARD.encode(STANDARD.encode(text.repeat(40)));
    let escaped = "\\\\\\\\6\\\\\\\\1";
    let canary = "canary-0123456789";
    for (secret, piece) in [
        ("\\".repeat(32), "\\".repeat(40) + "%5c"),
        (canary.to_owned(), escaped.to_owned()),
        (canary.to_owned(), nested(escaped)),
        (key, "\\\\\\\\0\\\\\\\\A".to_owned()),
    ] {
        let text = piece.repeat(60_000 / piece.len());
        let mut looks = 0;
        let clean = redactor(&[&secret]).scrub_str_within(&text, &mut || {
            looks += 1;
            Ok::<(), ()>(())
        });
        assert!(clean.is_ok());
        assert!(looks > text.len() / BYTES_BETWEEN_LOOKS, "{looks}: {piece}");
        // Nothing that was scrubbed by then is returned.
        let mut left = looks / 2;
        let stopped = redactor(&[&secret]).scrub_str_within(&text, &mut || {
            left -= 1;
            (left > 0).then_some(()).ok_or(left)
        });
        assert_eq!(stopped, Err(0));
    }
}

/// Text that was not searched in time is not shown, whatever it contains; and long text is searched in pieces.
#[test]
fn redactor_out_of_time_shows_nothing() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let looks = Arc::new(AtomicUsize::new(0));
    let patient = |left: usize| {
        looks.store(0, Ordering::Relaxed);
        let looks = Arc::clone(&looks);
        redactor(&["hunter2-hunter2"])
            .with_time_check(move || looks.fetch_add(1, Ordering::Relaxed) < left)
    };
    let text = "plain words, hunter2-hunter2, ".repeat(20_000);
    let whole = patient(usize::MAX).scrub_str(&text).into_owned();
    assert_eq!(whole, text.replace("hunter2-hunter2", "[REDACTED]"));
    assert!(looks.load(Ordering::Relaxed) >= text.len() / 100_000);
    assert_eq!(patient(2).scrub_str(&text), "[REDACTED]");
    assert_eq!(looks.load(Ordering::Relaxed), 3);
    let mut lines = vec!["plain".to_owned(), "hunter2-hunter2".to_owned()];
    lines = patient(1).scrub(lines).into_inner();
    assert_eq!(lines, ["plain", "[REDACTED]"]);
    let json = r#"["plain","words",1]"#;
    let clean = scrub_json_text(json, &patient(1)).into_owned();
    assert_eq!(clean, r#"["plain","[REDACTED]",1]"#);
    // A name that was not searched may be a secret, and none of the words of a program whose credentials are unknown is quoted.
    assert!(patient(0).finds_secret_in("plain"));
    let late = patient(1);
    let veil = late.veil("(plain words)");
    assert_eq!(veil.redact("plain"), "[REDACTED]");
    // A text's own time limit does not extend the program's.
    let over = patient(0).with_time_limit(Duration::MAX / 2);
    assert_eq!(over.scrub_str("plain"), "[REDACTED]");
    // Time spent on one text is missing for the next.
    let (alone, shared) = (
        redactor(&["hunter2-hunter2"]),
        SharedTime::new(Duration::from_millis(1)),
    );
    let scrub = |text: &str| shared.spend(&alone, |redactor| redactor.scrub_str(text).into_owned());
    assert_eq!(scrub("plain"), "plain");
    assert_eq!(scrub(&"\\u00".repeat(1 << 20)), "[REDACTED]");
    assert_eq!(scrub("plain"), "[REDACTED]");
    let empty = Redactor::empty().with_time_check(|| false);
    assert_eq!(empty.scrub_str("plain"), "plain");
}

/// Without another limit, each text and value has its own time.
#[test]
fn each_text_gets_its_own_time_limit() {
    let time = Duration::from_millis(1);
    let slow = "&#92;".repeat(1_000_000);
    let hurried = redactor(&[&"\\".repeat(32)]).with_time_limit_per_text(time);
    assert_eq!(hurried.scrub_str(&slow), "[REDACTED]");
    assert_eq!(hurried.scrub(slow.clone()).into_inner(), "[REDACTED]");
    assert!(hurried.finds_secret_in(&slow));
    assert_eq!(hurried.scrub_str("plain"), "plain");
    let lines: Vec<String> = (0..100).map(|_| slow[..100_000].to_owned()).collect();
    let clean = hurried.scrub(lines).into_inner();
    assert_eq!(clean.last().unwrap(), "[REDACTED]");
    // A redactor with its own `goes_on` asks only that.
    assert!(!hurried.with_time_check(|| true).is_out_of_time());
    let empty = Redactor::empty().with_time_limit_per_text(Duration::ZERO);
    assert_eq!(empty.scrub_str(&slow), slow);
}

/// Nested backslash escapes, four deep, of a whole credential or of one character: each layer escapes every character that it must, and
/// some others, in any of its notations. Octal digits have the most readings.
#[test]
fn backslash_escapes_are_followed_four_deep() {
    let secret = "canary-abcdef-0123456789";
    let redactor = redactor(&[secret]);
    let mut random = fastrand::Rng::with_seed(4);
    let mut layer = |text: &str, ways: usize, share: f64| -> String {
        let mut write = |sign: char| {
            let code = u32::from(sign);
            if sign != '\\' && random.f64() > share {
                return sign.to_string();
            }
            match random.usize(..ways) {
                0 => format!("\\{code:03o}"),
                1 => format!("\\x{code:02x}"),
                2 => format!("\\u{code:04x}"),
                3 => format!("\\u{{{code:x}}}"),
                _ => format!("\\U{code:08x}"),
            }
        };
        text.chars().map(&mut write).collect()
    };
    for (ways, share) in [(1, 0.3), (1, 0.6), (1, 1.0), (2, 0.6), (2, 1.0), (5, 0.3)] {
        for at in 0..secret.len() {
            let mut one = secret[at..=at].to_owned();
            for depth in 0..4 {
                one = layer(&one, ways, if depth == 0 { 1.0 } else { share });
            }
            let text = format!("<{}{one}{}>", &secret[..at], &secret[at + 1..]);
            assert_eq!(redactor.scrub_str(&text), "<[REDACTED]>", "{text}");
        }
    }
    for _ in 0..20 {
        let mut all = secret.to_owned();
        for _ in 0..4 {
            all = layer(&all, 2, 0.3);
        }
        let text = format!("<{all}>");
        assert_eq!(redactor.scrub_str(&text), "<[REDACTED]>", "{text}");
    }
}
