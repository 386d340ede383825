//! Plays the attacker against the redactor: asks the server, through every message that quotes a program, whether a guess at a part of a
//! credential is right. Knows the credential, so that it can make right and wrong guesses.
//!
//! To spell out a secret by guessing, an attacker needs two different answers: one for a right guess at a part, and one for a wrong
//! guess of the same shape. So each guess is sent together with a wrong twin, and the answers must be equal except for the guess.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

const SECRET: &str = "supersecrettoken-0123456789";
/// Number of guesses; `PTC_ORACLE_GUESSES` sets another number.
const GUESSES: usize = 600;

/// Programs that cause an answer to quote a guess, which replaces `G`.
const CHANNELS: &[&str] = &[
    "qqqqG",
    "qqqq...G...",
    "(str \"aaaa...G...bbbb\")",
    "(str \"aaaa...G\")",
    "(println \"G...\")",
    "(fail \"aaaa...G…\")",
    "(\"aaaa...G...bbbb\" 1)",
    "(+ 1 \"G\")",
    "{\"G\" [:a \"G\"]}",
    "[(pr-str {\"a\" \"G\"}) (json/generate-string [\"G\"])]",
    "\"G",
    "(let [qG",
    "(keyword \"qG!\")",
    "(re-find \"G(\" \"x\")",
    "(get data/qG 1)",
    "(.qG \"x\")",
    "(tool/qG {:a 1})",
    "#qG 1",
    "\\qG",
];

/// The shapes of guesses: encodings of a piece of the secret.
const SHAPES: &[fn(&str) -> String] = &[
    |piece| piece.to_owned(),
    |piece| piece.bytes().map(|byte| format!("{byte:02x}")).collect(),
    |piece| piece.bytes().map(|byte| format!("%{byte:02X}")).collect(),
    |piece| piece.bytes().map(|byte| format!("&#{byte:03};")).collect(),
    |piece| base64(piece.as_bytes()),
];

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    let sextet = |bits: &[u8]| {
        bits.iter()
            .fold(0, |value, bit| value * 2 + usize::from(*bit))
    };
    // Only whole characters: the part that a piece and its twin share must be encoded equally.
    bits.chunks_exact(6)
        .map(|bits| char::from(ALPHABET[sextet(bits)]))
        .collect()
}

/// Guesses with their wrong twins of the same shape: pieces from both ends and from the middle.
fn guesses(count: usize) -> Vec<(&'static str, String, String)> {
    let mut random = fastrand::Rng::with_seed(82);
    let mut all = Vec::new();
    for at in 0..count {
        // Shorter pieces also occur in the server's own words.
        let length = 4 + at % (SECRET.len() - 4);
        let start = match at % 3 {
            0 => 0,
            1 => SECRET.len() - length,
            _ => random.usize(..=SECRET.len() - length),
        };
        let right = &SECRET[start..start + length];
        // The last letter is the guessed one; at the secret's end, the first one.
        let changed = if at % 3 == 1 { 0 } else { length - 1 };
        let mut wrong = right.as_bytes().to_vec();
        wrong[changed] = if wrong[changed] == b'z' { b'y' } else { b'z' };
        let wrong = String::from_utf8(wrong).expect("letters");
        let shape = SHAPES[random.usize(..SHAPES.len())];
        let channel = CHANNELS[random.usize(..CHANNELS.len())];
        all.push((channel, shape(right), shape(&wrong)));
    }
    all
}

/// The server's answers to the programs, in order.
fn answers(programs: &[String]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("upstreams.json");
    let entry = serde_json::json!({
        "credentials": {"c": {"source": "literal", "value": SECRET}},
        "upstreams": {},
    });
    std::fs::write(&config, entry.to_string()).expect("a config");
    let mut server = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args([
            "start",
            "--response-profile",
            "debug",
            "--log-level",
            "error",
            "--upstreams-config",
        ])
        .arg(&config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut input = server.stdin.take().expect("its input");
    let mut output = BufReader::new(server.stdout.take().expect("its output"));
    let mut ask = |line: serde_json::Value| {
        writeln!(input, "{line}").expect("it listens");
        let mut reply = String::new();
        output.read_line(&mut reply).expect("it answers");
        reply
    };
    ask(serde_json::json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }));
    let answers = programs
        .iter()
        .map(|program| {
            ask(serde_json::json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "lisp_eval", "arguments": {"program": program}},
            }))
        })
        .collect();
    drop(input);
    server.wait().expect("it ends");
    answers
}

/// Whether two answers differ only where a guess is quoted, possibly cut.
fn differ_in_guess_only(one: &str, other: &str, right: &str, wrong: &str) -> bool {
    let pairs: Vec<(u8, u8)> = right
        .bytes()
        .zip(wrong.bytes())
        .filter(|(a, b)| a != b)
        .collect();
    let quoted = |(one, other): (u8, u8)| one == other || pairs.contains(&(one, other));
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(quoted)
}

/// The guesses whose answers differ in more than the guess, when answers pass through `tell`.
fn revealed_guesses(count: usize, tell: fn(&str) -> String) -> Vec<String> {
    let guesses = guesses(count);
    let programs: Vec<String> = guesses
        .iter()
        .flat_map(|(channel, right, wrong)| {
            [channel.replace('G', right), channel.replace('G', wrong)]
        })
        .collect();
    let answers = answers(&programs);
    let mut learnt = Vec::new();
    for ((channel, right, wrong), told) in guesses.iter().zip(answers.chunks_exact(2)) {
        if !differ_in_guess_only(&tell(&told[0]), &tell(&told[1]), right, wrong) {
            learnt.push(format!(
                "{channel} with {right} beside {wrong}:\n{}{}",
                told[0], told[1]
            ));
        }
    }
    learnt
}

fn count() -> usize {
    let more = std::env::var("PTC_ORACLE_GUESSES").ok();
    more.and_then(|more| more.parse().ok()).unwrap_or(GUESSES)
}

#[test]
fn guessing_parts_of_a_credential_reveals_nothing() {
    let learnt = revealed_guesses(count(), str::to_owned);
    assert!(
        learnt.is_empty(),
        "{} answers told something:\n{}",
        learnt.len(),
        learnt[0]
    );
}

/// The search must be able to find a leak: this server removes beginnings of a secret before an ellipsis, as ours once did.
#[test]
fn server_that_scrubs_prefixes_is_detected() {
    fn leaky(answer: &str) -> String {
        let mut answer = answer.to_owned();
        for length in (4..SECRET.len()).rev() {
            for cut in ["...", "…"] {
                let beginning = format!("{}{cut}", &SECRET[..length]);
                answer = answer.replace(&beginning, &format!("[REDACTED]{cut}"));
            }
        }
        answer
    }
    assert!(!revealed_guesses(GUESSES, leaky).is_empty());
}

#[test]
fn correct_whole_guess_is_redacted() {
    let programs: Vec<String> = CHANNELS
        .iter()
        .map(|channel| channel.replace('G', SECRET))
        .collect();
    for (program, answer) in programs.iter().zip(answers(&programs)) {
        assert!(!answer.contains(SECRET), "{program}: {answer}");
    }
}
