//! Plays an attacker who wants a credential: writes secrets in every form that the redaction page promises to find, with its own
//! encoders, in texts, pieces, streams, JSON and headers; and parts of secrets, which must stay. `PTC_REDACTOR_ATTACKS` sets the number
//! of attempts.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use fastrand::Rng;
use ptc_secrets::{MARKER, Redactor, Secret, scrub_json, scrub_json_text};
use serde_json::{Value, json};

const ATTACKS: usize = 1_500;
/// Secrets besides the one that is written.
const OTHERS: usize = 12;
/// Characters of secrets. Introducers of escapes are tried by the model in `fuzz.rs`: next to them a part can't be distinguished from a
/// form.
const LETTERS: &[u8] =
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/:+= \"'<";
/// HTML's names for some of them.
const NAMES: &[(char, &str)] = &[
    ('"', "quot"),
    ('\'', "apos"),
    ('<', "lt"),
    ('/', "sol"),
    (':', "colon"),
    ('+', "plus"),
    ('=', "equals"),
    ('_', "lowbar"),
    ('.', "period"),
    ('&', "amp"),
    ('%', "percnt"),
    ('\\', "bsol"),
    ('#', "num"),
    (';', "semi"),
];

fn secret(random: &mut Rng) -> String {
    let length = random.usize(16..48);
    let letters = (0..length).map(|_| char::from(LETTERS[random.usize(..LETTERS.len())]));
    // Surrounding blanks are no part of a secret, a digit or a letter could continue an escape that does not belong to it, and no scheme
    // name, whose token would be scrubbed alone, begins with `@`.
    format!("@{}~", letters.collect::<String>())
}

/// A way to escape characters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writer {
    Json,
    Script,
    Percent,
    Html,
    Style,
}

/// `text` as a writer escapes it: what it must escape, and `likes` in ten of the other characters; `plus`: a blank may become `+`.
fn written(text: &str, writer: Writer, likes: usize, plus: bool, random: &mut Rng) -> String {
    let mut out = String::new();
    for character in text.chars() {
        let must = match writer {
            Writer::Json | Writer::Script | Writer::Style => "\"\\".contains(character),
            Writer::Percent => character == '%' || !character.is_ascii_graphic(),
            Writer::Html => "&<\"'".contains(character),
        };
        if !must && random.usize(..10) >= likes {
            out.push(character);
            continue;
        }
        let code = u32::from(character);
        out.push_str(&match writer {
            Writer::Json if "\"\\/".contains(character) && random.bool() => {
                format!("\\{character}")
            }
            Writer::Json => format!("\\u{code:04x}"),
            Writer::Script => match random.usize(..5) {
                0 => format!("\\x{code:02X}"),
                1 => format!("\\u{{{code:x}}}"),
                2 => format!("\\{code:03o}"),
                3 => format!("\\U{code:08x}"),
                _ => format!("\\u{code:04X}"),
            },
            Writer::Percent => match random.usize(..4) {
                0 => format!("%u{code:04x}"),
                1 => format!("%{code:02x}"),
                2 if character == ' ' && plus => "+".to_owned(),
                _ => format!("%{code:02X}"),
            },
            Writer::Html => match NAMES.iter().find(|(named, _)| *named == character) {
                Some((_, name)) if random.bool() => format!("&{name};"),
                _ if random.bool() => format!("&#{code};"),
                _ => format!("&#x{code:x};"),
            },
            Writer::Style => match random.bool() {
                true => format!("\\{code:x} "),
                false => format!("\\{code:06x}"),
            },
        });
    }
    out
}

/// `text` with nested escapes around it, as many as the table on the page allows.
fn escaped(text: &str, most: usize, random: &mut Rng) -> (String, Vec<Writer>) {
    let mixed = [Writer::Json, Writer::Script, Writer::Percent, Writer::Html];
    let mut writers: Vec<Writer> = match random.usize(..6) {
        0 => vec![Writer::Json; random.usize(1..=4)],
        1 => vec![Writer::Script; random.usize(1..=4)],
        // People write these by hand, around the character itself.
        2 if most > 2 => vec![Writer::Style],
        _ => Vec::new(),
    };
    writers.truncate(if most < 3 { most } else { 4 });
    if matches!(writers[..], [] | [Writer::Style]) {
        let more = random.usize(1..=most) - writers.len().min(1);
        writers.extend((0..more).map(|_| mixed[random.usize(..mixed.len())]));
    }
    let mut out = text.to_owned();
    for (layer, writer) in writers.iter().enumerate() {
        // A layer in which everything is escaped is ten times as long as its content.
        let likes = match out.len() {
            ..=80 => random.usize(..=10),
            ..=400 if layer < 2 => random.usize(..=4),
            _ => 0,
        };
        // In a block the `+` for a blank would be a block character.
        out = written(&out, *writer, likes, most > 2, random);
    }
    (out, writers)
}

/// `text` as one block, preceded by `lead`.
fn block(text: &str, random: &mut Rng) -> String {
    let lead = ["", "u", "us", "key", "user:"][random.usize(..5)];
    let bytes = [
        lead.as_bytes(),
        text.as_bytes(),
        &b"\0z"[..random.usize(..3)],
    ]
    .concat();
    let hex = |separator: &str, upper: bool| {
        let pair = |byte: &u8| match upper {
            true => format!("{byte:02X}"),
            false => format!("{byte:02x}"),
        };
        bytes.iter().map(pair).collect::<Vec<_>>().join(separator)
    };
    let base64 = match random.usize(..4) {
        0 => STANDARD.encode(&bytes),
        1 => STANDARD_NO_PAD.encode(&bytes),
        2 => URL_SAFE.encode(&bytes),
        _ => URL_SAFE_NO_PAD.encode(&bytes),
    };
    let columns = [4, 17, 60, 64, 76][random.usize(..5)];
    let wrapped = |end: &str| {
        let lines = base64.as_bytes().chunks(columns);
        let lines = lines.map(|line| String::from_utf8_lossy(line).into_owned());
        lines.collect::<Vec<_>>().join(end)
    };
    match random.usize(..12) {
        0 => hex("", false),
        1 => hex("", true),
        2 => hex(":", true),
        3 => hex(" ", false),
        4 => hex(", 0x", false),
        5 => wrapped("\n"),
        6 => wrapped("\r\n"),
        7 => wrapped("\n    "),
        _ => base64,
    }
}

/// `text` in a form that the page promises to find, and how it was made.
fn form(text: &str, random: &mut Rng) -> (String, String) {
    match random.usize(..8) {
        0 => (text.to_owned(), "raw".to_owned()),
        1 => (block(text, random), "block".to_owned()),
        2 => (block(&block(text, random), random), "two blocks".to_owned()),
        3 => {
            let block = block(text, random);
            let (out, writers) = escaped(&block, 2, random);
            (out, format!("block in {writers:?}"))
        }
        4 => {
            let (out, writers) = escaped(text, 3, random);
            (block(&out, random), format!("{writers:?} in a block"))
        }
        _ => {
            let (out, writers) = escaped(text, 3, random);
            (out, format!("{writers:?}"))
        }
    }
}

/// Surrounding text that does not continue a block or an escape.
const AROUND: &[(&str, &str)] = &[
    ("<", ">"),
    ("Authorization: Bearer ", "\r\nAccept: */*\r\n"),
    ("token=(", ")"),
    ("line one\n\n", "\n\nline three"),
    ("[", "]"),
    ("ä«", "»ö"),
];

struct Attack {
    redactor: Redactor,
    secret: String,
}

/// Every interface that passes text on.
fn scrub_in_every_way(
    redactor: &Redactor,
    text: &str,
    random: &mut Rng,
) -> Vec<(&'static str, String)> {
    let piecewise = |text: &str| {
        let mut look = || Ok::<(), ()>(());
        let clean = redactor.scrub_str_within(text, &mut look);
        clean.unwrap_or_default().into_owned()
    };
    let far = "All that is said before it says nothing. ".repeat(random.usize(1..3_000)) + text;
    let tree = |value: &Value| {
        let mut value = value.clone();
        scrub_json(&mut value, &[], redactor);
        value
    };
    let in_value = tree(&json!({"a": [{"b": text}, 1, null]}));
    let in_key = tree(&json!([{text: {"deep": true}}]));
    let json_text = json!({"k": text}).to_string();
    let (mut stream, mut streamed) = (redactor.stream(Duration::MAX), Vec::new());
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(random.usize(1..=rest.len().min(50)));
        stream.push(chunk, &mut streamed);
        rest = behind;
    }
    stream.flush(&mut streamed);
    vec![
        ("text", redactor.scrub_str(text).into_owned()),
        ("pieces", piecewise(&far)),
        (
            "value",
            in_value["a"][0]["b"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ),
        (
            "key",
            in_key[0]
                .as_object()
                .and_then(|map| map.keys().next().cloned())
                .unwrap_or_default(),
        ),
        (
            "JSON text",
            scrub_json_text(&json_text, redactor).into_owned(),
        ),
        ("stream", String::from_utf8_lossy(&streamed).into_owned()),
    ]
}

fn attack(random: &mut Rng) -> Attack {
    let secret = secret(random);
    let mut builder = Redactor::builder();
    for _ in 0..random.usize(..OTHERS) {
        builder.add(&Secret::new(self::secret(random)));
    }
    builder.add(&Secret::new(secret.clone()));
    Attack {
        redactor: builder.build(),
        secret,
    }
}

fn attacks() -> usize {
    let more = std::env::var("PTC_REDACTOR_ATTACKS").ok();
    more.and_then(|more| more.parse().ok()).unwrap_or(ATTACKS)
}

#[test]
fn every_documented_form_is_found_anywhere() {
    let mut random = Rng::with_seed(2_026);
    for _ in 0..attacks() {
        let Attack { redactor, secret } = attack(&mut random);
        let (form, made) = form(&secret, &mut random);
        let (before, after) = AROUND[random.usize(..AROUND.len())];
        let text = format!("{before}{form}{after}");
        for (way, clean) in scrub_in_every_way(&redactor, &text, &mut random) {
            // Shorter lines of a stream are not joined again.
            if way == "stream" && form.contains('\n') {
                continue;
            }
            assert!(
                clean.contains(MARKER),
                "{way}, {made}: {secret:?} in {text:?}"
            );
            assert!(
                !clean.contains(&form),
                "{way}, {made}: {secret:?} in {text:?}"
            );
            if way == "text" {
                // Some of an indented block and of padding may stay; nothing else of the written secret may.
                let left = clean.replace(MARKER, "");
                let lead = left.len().saturating_sub(before.len() + after.len());
                assert!(
                    lead <= 60 || !made.starts_with('['),
                    "{made}: {left:?} of {text:?}"
                );
            }
        }
    }
}

#[test]
fn partial_secrets_are_kept_in_every_form() {
    let mut random = Rng::with_seed(6_202);
    for _ in 0..attacks() {
        let Attack { redactor, secret } = attack(&mut random);
        let middle = random.usize(1..secret.len() - 1);
        let part = match random.usize(..4) {
            0 => secret[1..].to_owned(),
            1 => secret[..secret.len() - 1].to_owned(),
            2 => format!("{}\u{2026}{}", &secret[..middle], &secret[middle..]),
            _ => format!("{}^{}", &secret[..middle], &secret[middle + 1..]),
        };
        let (form, made) = form(&part, &mut random);
        let (before, after) = AROUND[random.usize(..AROUND.len())];
        let text = format!("{before}{form}{after}");
        let written = json!({"k": text}).to_string();
        for (way, clean) in scrub_in_every_way(&redactor, &text, &mut random) {
            let expected = match way {
                "pieces" => {
                    assert!(
                        clean.ends_with(&text),
                        "{way}, {made}: {secret:?} in {text:?}"
                    );
                    continue;
                }
                "JSON text" => &written,
                _ => &text,
            };
            assert_eq!(&clean, expected, "{way}, {made}: {secret:?}");
        }
    }
}
