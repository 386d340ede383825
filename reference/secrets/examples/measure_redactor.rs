//! Measures the redactor against its targets: `cargo run --release -p ptc-secrets --example measure_redactor`. It counts the CPU time
//! of its thread, so other load on the machine matters little; on an idle machine that equals wall-clock time.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

#[path = "../../../tools/src/bench/row.rs"]
mod row;

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ptc_secrets::{MARKER, Redactor, Secret};
use row::{Row, median_of};
use rustix::time::{ClockId, clock_gettime};

/// How often each text is scrubbed.
const ROUNDS: usize = 7;
/// Bytes of each text.
const TEXT_BYTES: usize = 4_000_000;
/// Maximum size of an automaton, in MiB.
const AUTOMATON_MIB_MAX: f64 = 16.0;
/// Bytes of each hostile text, and the minimum speed in MB/s for the worst one of its class: at this speed 250 KB, the most that a
/// catalog shows at once, are searched in the time that scrubbing may take ([`ptc_secrets::SCRUB_TIME_MAX`]).
const HOSTILE_BYTES: usize = 5_000;
const HOSTILE_MIN: f64 = 1.0;
/// The longest time between two time checks.
const TIME_CHECK_GAP_MAX: Duration = Duration::from_millis(2);
/// The number of slow texts per class that are printed.
const WORST_PRINTED: usize = 4;
/// Writes a piece of a text; each number gives another piece.
type Text = fn(u32) -> String;
/// Writes a text in a form.
type Form = Box<dyn Fn(&str) -> String>;
/// Numbers of secrets.
const COUNTS: &[usize] = &[1, 64, 1_000];
/// Kinds of text, each with its minimum speeds in MB/s: with up to 64 secrets, and with more. Scrubbing text with few escapes must not
/// take longer than parsing it as JSON.
const TEXTS: &[(&str, Text, f64, f64)] = &[
    ("records", records, 500.0, 100.0),
    ("prose", prose, 500.0, 100.0),
    ("log lines", log_lines, 500.0, 100.0),
    ("JSON in JSON", json_in_json, 100.0, 100.0),
    ("a page", page, 100.0, 100.0),
    ("links", links, 100.0, 100.0),
    ("digests", digests, 100.0, 100.0),
    ("base64", base64, 100.0, 100.0),
];

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    for (name, piece, few, many) in TEXTS.iter().filter(|(name, ..)| name.contains(&only)) {
        let mut text = String::new();
        let mut number = 0;
        while text.len() < TEXT_BYTES {
            text.push_str(&piece(number));
            number += 1;
        }
        for &count in COUNTS {
            let redactor = redactor(count);
            let rounds = (0..ROUNDS).map(|_| {
                let begun = running_time();
                assert_eq!(redactor.scrub_str(&text).len(), text.len());
                running_time() - begun
            });
            let took = median_of(rounds.collect());
            let speed = text.len() as f64 / 1e6 / took.as_secs_f64();
            let least = if count > 64 { *many } else { *few };
            let what = format!("redaction of {name}, {count} secrets");
            println!("{}", Row::at_least(what, speed, least, " MB/s").line());
        }
    }
    let mut unseen = (Duration::ZERO, String::new());
    for (class, secrets) in hostile().iter().filter(|(class, _)| class.contains(&only)) {
        let redactor = build_redactor(secrets.iter().cloned());
        let speeds = pieces(&secrets[secrets.len() / 2])
            .into_iter()
            .chain(beginnings(secrets));
        let speeds = speeds.map(|piece| {
            let text = piece.repeat(HOSTILE_BYTES / piece.len() + 1);
            let begun = running_time();
            let (mut looked, mut longest) = (begun, Duration::ZERO);
            let scrubbed = redactor.scrub_str_within(&text, &mut || {
                let now = running_time();
                longest = longest.max(now - looked);
                looked = now;
                Ok::<(), ()>(())
            });
            assert!(scrubbed.is_ok());
            let took = running_time() - begun;
            longest = longest.max(begun + took - looked);
            if longest > unseen.0 {
                unseen = (longest, format!("{class}: {}", start(&piece)));
            }
            (text.len() as f64 / 1e6 / took.as_secs_f64(), piece)
        });
        let mut speeds: Vec<(f64, String)> = speeds.collect();
        speeds.sort_by(|left, right| left.0.total_cmp(&right.0));
        let what = format!("redaction of hostile text, {class}");
        // Which texts are slow is more informative than the slowest speed.
        for (speed, piece) in speeds.iter().take(WORST_PRINTED) {
            eprintln!("{what}: {speed:.2} MB/s of {:?}", start(piece));
        }
        let speed = speeds[0].0;
        println!(
            "{}",
            Row::at_least(what, speed, HOSTILE_MIN, " MB/s").line()
        );
    }
    let what = "redaction of hostile text, between two looks";
    eprintln!("{what}: {:?} in {}", unseen.0, unseen.1);
    println!("{}", Row::time(what, unseen.0, TIME_CHECK_GAP_MAX).line());
    let mebibytes = redactor(1_000).memory_bytes() as f64 / 1024.0 / 1024.0;
    let what = "redaction, automaton of 1000 secrets";
    let mebibytes = (mebibytes * 100.0).round() / 100.0;
    let row = Row::at_most(what, mebibytes, AUTOMATON_MIB_MAX, " MiB");
    println!("{}", row.line());
}

/// Enough of a piece to identify it.
fn start(piece: &str) -> String {
    piece.chars().take(40).collect()
}

fn running_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn records(n: u32) -> String {
    let sha = n.wrapping_mul(2_654_435_761);
    format!(
        "{{\"id\":{n},\"name\":\"item number {n}\",\"url\":\"https://host.example/api/items/{n}?q=a%20b\",\"sha\":\"{sha:08x}\"}}\n"
    )
}

fn prose(n: u32) -> String {
    format!(
        "Paragraph {n}. The harbour lay quiet that morning, and nobody on the quay expected the ferry before noon; three \
         fishermen mended their nets, a dog slept across the threshold of the customs house, and the clerk counted stamps.\n\n"
    )
}

fn log_lines(n: u32) -> String {
    let (a, b) = (word(n), word(n + 7_919));
    format!(
        "2026-11-22T10:{:02}:{:02}.{:06}Z INFO request_id={:08x}-{:04x}-4{:03x}-a{:03x}-{:08x}{:04x} method=GET path=/api/v2/items/{n} status=200 took_us={}\n",
        n / 60 % 60,
        n % 60,
        n % 1_000_000,
        a as u32,
        a >> 32 & 0xffff,
        a >> 48 & 0xfff,
        b & 0xfff,
        b >> 16 & 0xffff_ffff,
        b >> 48,
        n % 9_973
    )
}

fn json_in_json(n: u32) -> String {
    let inner =
        serde_json::json!({"n": n, "path": "C:\\data\\in", "text": "said \"no\",\nthen left"})
            .to_string();
    serde_json::json!({"content": [{"type": "text", "text": inner}]}).to_string()
}

fn page(n: u32) -> String {
    format!(
        "<li class=\"item\"><a href=\"/items?id={n}&amp;sort=asc&amp;page={}\">Bread &amp; butter &ndash; &quot;No. {n}&quot;</a> <span>&euro;&nbsp;{}</span></li>\n",
        n % 40,
        n % 97
    )
}

fn links(n: u32) -> String {
    format!(
        "https://host.example/r?to=https%3A%2F%2Fother.example%2Fa%3Fb%3D{n}%26c%3Dx%2520y&q=caf%C3%A9+au+lait\n"
    )
}

fn digests(n: u32) -> String {
    let words: String = (0..4)
        .map(|k| format!("{:016x}", word(n * 4 + k)))
        .collect();
    format!("{words}  build/out/{n}.o\n")
}

fn base64(n: u32) -> String {
    let bytes: Vec<u8> = (0..6).flat_map(|k| word(n * 6 + k).to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

/// A pseudo-random number (splitmix64).
fn word(n: u32) -> u64 {
    let mut word = (u64::from(n) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Secrets that are hard to search for, each class with the reason.
fn hostile() -> Vec<(&'static str, Vec<String>)> {
    let repeated = |piece: &str, length: usize| vec![piece.repeat(length / piece.len())];
    let number = |n: u32| format!("{:016x}", word(n));
    vec![
        ("backslashes", vec![format!("\\\\{}", number(1))]),
        ("only backslashes", repeated("\\", 32)),
        ("only percent", repeated("%", 32)),
        ("only ampersands", repeated("&", 32)),
        ("introducers", repeated("\\&%", 48)),
        ("escapes", repeated("%25", 48)),
        ("only =", repeated("=", 32)),
        ("only +", repeated("+", 32)),
        ("zeros", repeated("0", 32)),
        ("digits", repeated("0123456789", 40)),
        ("one letter", repeated("a", 64)),
        ("one letter, long", repeated("a", 8_192)),
        ("two letters, long", repeated("ab", 8_192)),
        (
            "an alphabet",
            vec!["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".to_owned()],
        ),
        ("digits of 16", repeated("0123456789abcdef", 64)),
        ("blanks", repeated(" ", 32)),
        ("line ends", repeated("\n", 32)),
        ("letters of two bytes", repeated("ä", 64)),
        ("brackets", repeated("[REDACTED]", 40)),
        ("a short one", vec!["E".to_owned()]),
        (
            "one in another, 1000",
            (16..1_016).map(|length| "a".repeat(length)).collect(),
        ),
        (
            "one beginning, 1000",
            (0..1_000).map(|n| "a".repeat(200) + &number(n)).collect(),
        ),
        (
            "random, 1000",
            (0..1_000).map(|n| number(n) + &number(n + 5_000)).collect(),
        ),
        (
            "escapes, 1000",
            (0..1_000)
                .map(|n| format!("%2\\u{}&#{n};\\\\", number(n)))
                .collect(),
        ),
    ]
}

/// Pieces of text related to a secret: its forms, nested forms, and text with many readings.
fn pieces(secret: &str) -> Vec<String> {
    let each =
        |write: fn(u8) -> String| move |text: &str| text.bytes().map(write).collect::<String>();
    let forms: [Form; 10] = [
        Box::new(str::to_owned),
        Box::new(each(|byte| format!("%{byte:02x}"))),
        Box::new(each(|byte| format!("%25{byte:02x}"))),
        Box::new(each(|byte| format!("\\u{byte:04x}"))),
        Box::new(each(|byte| format!("&#{byte};"))),
        Box::new(each(|byte| format!("&amp;#x{byte:x};"))),
        Box::new(each(|byte| format!("\\\\\\\\{}", char::from(byte)))),
        Box::new(each(|byte| format!("{byte:02x} "))),
        Box::new(each(|byte| format!("{byte:02x}"))),
        Box::new(|text| STANDARD.encode(text)),
    ];
    let mut pieces = vec![
        "\\&bsol;".to_owned(),
        "&#92;\\\\".to_owned(),
        "\\%5c".to_owned(),
        "%5c\\&#92;\\%5c\\".to_owned(),
        "\\\\&bsol;\\\\\\\\".to_owned(),
        "%5C\\&\\\\\\#92\\".to_owned(),
        "\\u005c\\%2525".to_owned(),
        "%&\\".to_owned(),
        "&amp;amp;amp;".to_owned(),
        "%2525252525".to_owned(),
        "\\".repeat(15) + "%31%32%33%34%35%36",
        "\\".repeat(16) + "41",
        "%\\".to_owned(),
        "=\n".to_owned(),
        "A\r\n".to_owned(),
        "+".to_owned(),
        "a1 ".to_owned(),
        "[REDACTED]".to_owned(),
        MARKER[..9].to_owned(),
    ];
    // The whole secret, and some of its beginnings.
    let part = |length: usize| secret.chars().take(length).collect::<String>();
    let chars = secret.chars().count();
    for text in [
        secret.to_owned(),
        part(chars - chars.min(1)),
        part(3),
        part(chars / 2) + "\\",
    ] {
        for outer in &forms {
            for inner in &forms {
                pieces.push(outer(&inner(&text)));
            }
        }
        // Every other character escaped.
        let mut mixed = String::new();
        for (at, byte) in text.bytes().enumerate() {
            match at % 2 {
                0 => mixed.push(char::from(byte)),
                _ => _ = write!(mixed, "%{byte:02x}"),
            }
        }
        pieces.push(mixed);
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Texts of the beginnings of the forms of all secrets.
fn beginnings(secrets: &[String]) -> Vec<String> {
    let (mut plain, mut escaped, mut blocks) = (String::new(), String::new(), String::new());
    for secret in secrets {
        let chars = secret.chars().count();
        let part: String = secret.chars().take(chars - chars.min(1)).collect();
        plain.push_str(&part);
        for byte in part.bytes() {
            _ = write!(escaped, "%{byte:02x}");
        }
        blocks.push_str(&STANDARD.encode(&part));
    }
    let pieces = [plain, escaped, blocks].into_iter();
    pieces.filter(|piece| !piece.is_empty()).collect()
}

/// Secrets of the usual kinds: tokens with a prefix, keys in base64, digests, passwords, a signed token.
fn redactor(count: usize) -> Redactor {
    build_redactor((0..count as u32).map(|n| {
        let (a, b) = (word(n + 1_000_000), word(n + 2_000_000));
        match n % 5 {
            0 => format!("ghp_{a:016x}{b:020x}"),
            1 => STANDARD.encode([a.to_le_bytes(), b.to_le_bytes(), a.to_be_bytes()].concat()),
            2 => format!("AKIA{:X}{:08X}", a & 0xFFFF_FFFF, b >> 32),
            3 => format!("p\"a/{:x} s&s+wörd-{:x}", a >> 32, b >> 40),
            _ => format!(
                "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{}",
                STANDARD.encode(format!("{{\"sub\":\"{a}{b}\"}}{a:x}{b:x}"))
            ),
        }
    }))
}

fn build_redactor(secrets: impl Iterator<Item = String>) -> Redactor {
    let mut builder = Redactor::builder();
    for secret in secrets {
        builder.add(&Secret::new(secret));
    }
    builder.build()
}
