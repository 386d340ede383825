//! Check functions for hostile input: each takes any input, and panics when a promise is broken.
//! Driven by libFuzzer in `fuzz/`, and with seeded random input by the tests.

use std::ops::Range;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::escape::DEPTH;
use crate::redactor::{MARKER, Redactor, parts};
use crate::secret::Secret;

/// The redactor's promises, checked against a slow but evidently correct model: raw secrets are gone, scrubbing twice changes nothing,
/// and a stream gives the same output however it is split.
pub fn redactor(secrets: &[&str], text: &str, cut: usize) {
    let redactor = build_redactor(secrets);
    let clean = redactor.scrub_str(text).into_owned();
    assert_eq!(
        redactor.scrub_str(&clean),
        clean,
        "scrubbing twice changes nothing: {text:?}"
    );
    // Outside of markers nothing of a secret is left.
    for (secret, at) in occurrences(secrets, &clean) {
        let place = at..at + secret.len();
        let inside =
            |(start, _): (usize, &str)| start <= place.start && place.end <= start + MARKER.len();
        assert!(clean.match_indices(MARKER).any(inside), "{clean:?}");
    }
    if occurrences(secrets, text).is_empty() && !text.contains(FORM_BYTES) {
        assert_eq!(clean, text, "nothing but a secret is taken out");
    }
    let stream = |size: usize| {
        let (mut stream, mut out) = (redactor.stream(Duration::MAX), Vec::new());
        for chunk in text.as_bytes().chunks(size) {
            stream.push(chunk, &mut out);
        }
        stream.flush(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let streamed = stream(cut.max(1));
    assert_eq!(
        streamed,
        stream(text.len().max(1)),
        "chunks of {cut}: {text:?}"
    );
    if text.len() < 1024 && !text.contains('\n') {
        assert_eq!(streamed, clean, "chunks of {cut}: {text:?}");
    }
}

/// Characters that a form has besides the secret itself: introducers, or a `+` for a blank. Blocks are longer than the texts tried
/// here.
const FORM_BYTES: [char; 4] = ['%', '\\', '&', '+'];

/// [`redactor`] for one text: every line but the last is a secret, at most four of them; the last line is scrubbed, together with the
/// secrets once more. Its first character chooses the chunk size. Its bytes then choose forms for [`encodings`].
pub fn lines(input: &str) {
    encodings(input.as_bytes());
    let mut lines: Vec<&str> = input.split('\n').collect();
    let text = lines.pop().unwrap_or_default();
    lines.truncate(SECRETS_MAX);
    let cut = text.chars().next().map_or(1, |first| first as usize % 64);
    redactor(&lines, &format!("{text}{}{text}", lines.concat()), cut);
}

/// A secret in a form and a text that the bytes of `input` choose must be found: the model writes, the redactor reads. A text that
/// differs from the secret in one place must stay as it is, in the same form and surroundings.
pub fn encodings(input: &[u8]) {
    let mut choose = Choices(input.iter().copied());
    let secret = secret(&mut choose);
    let redactor = build_redactor(&[&secret]);
    let form = form(&secret, &mut choose.clone());
    let place = form.place.clone();
    let found = redactor
        .find_forms(form.text.as_bytes())
        .unwrap_or_default();
    let covered = found
        .iter()
        .any(|found| found.start <= place.start && place.end <= found.end);
    assert!(
        covered,
        "{secret:?} was not found in {:?}, {place:?} but {found:?}, {:?} was",
        form.text,
        longest_found_prefix(&secret, &form.text)
    );
    let clean = redactor.scrub_str(&form.text).into_owned();
    assert_eq!(redactor.scrub_str(&clean), clean, "twice: {:?}", form.text);
    let mut near: Vec<char> = secret.chars().collect();
    // The changed character is not the first one: an escape for it may end with, or be followed by, the original character, and an
    // introducer may form one character with it (`\~` is a backslash and a tilde, or a tilde). Nor is it the last one: its escape may
    // begin with an escape of the original (`\7\145`, for `\7e`, with `\71`). Leading blanks don't count.
    let begin = secret.chars().take_while(|first| " %\\&".contains(*first));
    let begin = 1 + begin.count();
    let at = begin + choose.below(near.len() - 1 - begin);
    near[at] = if near[at] == '~' { '^' } else { '~' };
    for near in [
        near.iter().collect(),
        secret[..secret.len() - 1].to_owned(),
        secret.chars().skip(1).collect(),
    ] {
        // A byte of the surrounding text could complete the secret.
        let text = self::form(&near, &mut choose.clone()).text;
        if !redactor.finds_secret_in(&text) {
            assert_eq!(redactor.scrub_str(&text), text);
        } else {
            assert!(
                near.len() < secret.len() || parts(&secret).any(|part| near.contains(part)),
                "{near:?} of {secret:?} in {text:?}"
            );
        }
    }
}

/// The longest beginning of a secret that is found in a text.
fn longest_found_prefix<'s>(secret: &'s str, text: &str) -> Option<&'s str> {
    let beginnings = secret.char_indices().map(|(end, _)| &secret[..end]);
    let mut found =
        beginnings.filter(|part| part.len() > 1 && build_redactor(&[part]).finds_secret_in(text));
    found.next_back()
}

/// Choices made by bytes; zeros when no bytes are left.
#[derive(Clone)]
struct Choices<I>(I);

impl<I: Iterator<Item = u8>> Choices<I> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % end.max(1)
    }
}

const LETTERS: &[&str] = &[
    "a", "B", "7", "z", "0", "%", "\\", "&", "/", "+", "\"", "'", "<", "=", " ", "ä", "😀", "n",
    "u", "x", "4", "1", ";", "#", "-",
];

fn secret(choose: &mut Choices<impl Iterator<Item = u8>>) -> String {
    let length = 16 + choose.below(30);
    let mut secret = String::new();
    for _ in 0..length {
        let letter = LETTERS[choose.below(LETTERS.len())];
        // More consecutive backslashes have more readings than the redactor follows.
        secret.push_str(
            match letter == "\\" && secret.ends_with(&letter.repeat(BACKSLASHES_MAX)) {
                true => "n",
                false => letter,
            },
        );
    }
    // A secret that repeats itself has no definite position.
    secret.push_str("Zq9");
    secret
}

/// Maximum consecutive backslashes in a secret for which the full escape depth is promised.
const BACKSLASHES_MAX: usize = 4;

/// A text with a form of a secret.
struct Form {
    text: String,
    place: Range<usize>,
}

/// The number of nested escapes of mixed kinds around a character that is promised, and of escapes around a block.
const MIXED_ESCAPES: usize = 3;
const BLOCK_ESCAPES: usize = 2;
/// Longer texts are not escaped again: a form of many layers is many times as long as the original.
const ESCAPED_BYTES_MAX: usize = 3_000;

/// `secret` in a form: up to as many escapes as are promised, perhaps a block, and more escapes around that; with text on both sides.
fn form(secret: &str, choose: &mut Choices<impl Iterator<Item = u8> + Clone>) -> Form {
    let (mut text, mut place) = (secret.to_owned(), 0..secret.len());
    // JSON in JSON is nested deeper than mixed kinds of writers nest each other's text.
    let (json, layers) = match choose.below(3) {
        0 => (true, choose.below(1 + usize::from(DEPTH))),
        _ => (false, choose.below(1 + MIXED_ESCAPES)),
    };
    for layer in 0..layers {
        if text.len() < ESCAPED_BYTES_MAX {
            let kind = match json {
                true => 1,
                false => choose.below(4),
            };
            text = escaped(&text, &mut place, (kind, layer == 0, false), choose);
        }
    }
    if choose.below(3) == 1 {
        text = block(&text, &mut place, choose);
        for _ in 0..choose.below(1 + BLOCK_ESCAPES) {
            let kind = choose.below(4);
            text = escaped(&text, &mut place, (kind, false, true), choose);
        }
    }
    let around = [
        "",
        "<<",
        " ",
        "key=",
        "x: ",
        "{\"a\":\"",
        "...",
        "\n",
        "then, ",
    ];
    let before = around[choose.below(around.len())];
    let after = around[choose.below(around.len())];
    Form {
        place: before.len() + place.start..before.len() + place.end,
        text: format!("{before}{text}{after}"),
    }
}

/// `text` as one kind of writer escapes it: what must be escaped, and some of the rest.
fn escaped(
    text: &str,
    place: &mut Range<usize>,
    (kind, innermost, in_block): (usize, bool, bool),
    choose: &mut Choices<impl Iterator<Item = u8>>,
) -> String {
    let likes = choose.below(3);
    let (mut out, old) = (String::new(), place.clone());
    for (at, character) in text.char_indices() {
        if at == old.start {
            place.start = out.len();
        }
        if at == old.end {
            place.end = out.len();
        }
        let likes = likes > 0 && choose.below(3) < likes;
        let (must, hex) = match kind {
            0 => (
                !character.is_ascii_alphanumeric() && !"-_.~".contains(character),
                0,
            ),
            1 => ("\"\\".contains(character) || character.is_control(), 0),
            2 => ("&<>\"'".contains(character), 0),
            _ => (false, 1),
        };
        if kind == 3 && !matches!(character, '%' | '\\' | '&') && character != '+' && !likes {
            out.push(character);
            continue;
        }
        if hex == 0 && !must && !likes {
            out.push(character);
            continue;
        }
        let code = u32::from(character);
        match (kind, choose.below(8)) {
            // In a block the `+` would be a block character.
            (0, 0) if character == ' ' && !in_block => out.push('+'),
            (0, 7) if code < 0x1_0000 && choose.below(4) == 0 => {
                out.push_str(&format!("%u{code:04x}"));
            }
            (0, upper) => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&match upper % 2 {
                        0 => format!("%{byte:02x}"),
                        _ => format!("%{byte:02X}"),
                    });
                }
            }
            (1, 0)
                if !character.is_alphanumeric()
                    && character.is_ascii()
                    && !character.is_control() =>
            {
                out.push('\\');
                out.push(character);
            }
            (1 | 3, 1) => out.push_str(&format!("\\u{{{code:x}}}")),
            (1 | 3, 2) if code < 0x100 => out.push_str(&format!("\\x{code:02x}")),
            (1 | 3, 3) if code < 0x100 => out.push_str(&format!("\\{code:03o}")),
            // Style sheets are written by hand, and then escaped as a whole.
            (1 | 3, 4) if innermost => {
                let end = [" ", "\t", "\n", "\r\n"][choose.below(4)];
                out.push_str(&format!("\\{code:x}{end}"));
            }
            (1 | 3, 5) => out.push_str(&format!("\\U{code:08x}")),
            (1 | 3, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
            (_, 0 | 4 | 5) if character == '&' => out.push_str("&amp;"),
            (_, 0) if character == '/' => out.push_str("&sol;"),
            (_, 6) if character == '"' => out.push_str("&quot;"),
            (_, 1) => out.push_str(&format!("&#{code:05};")),
            (_, 2) => out.push_str(&format!("&#x{code:x};")),
            (_, _) => out.push_str(&format!("&#X{code:04X};")),
        }
    }
    if old.end == text.len() {
        place.end = out.len();
    }
    out
}

/// All of `text` as one block.
fn block(
    text: &str,
    place: &mut Range<usize>,
    choose: &mut Choices<impl Iterator<Item = u8>>,
) -> String {
    let lead = &"user:".as_bytes()[..choose.below(4)];
    let tail = &b"\0z!"[..choose.below(3)];
    let bytes = [lead, text.as_bytes(), tail].concat();
    let joined = |separator: &str, upper: bool| {
        let pair = |byte: &u8| match upper {
            true => format!("{byte:02X}"),
            false => format!("{byte:02x}"),
        };
        bytes.iter().map(pair).collect::<Vec<_>>().join(separator)
    };
    let wrapped = |text: String, columns: usize, end: &str| {
        let chars: Vec<char> = text.chars().collect();
        let lines = chars
            .chunks(columns)
            .map(|line| line.iter().collect::<String>());
        lines.collect::<Vec<_>>().join(end)
    };
    let (from, to) = (lead.len() + place.start, lead.len() + place.end);
    let style = choose.below(14);
    let indent = ["\n  ", "\r\n\t", "\n        "][style % 3];
    let narrow = 1 + choose.below(31);
    // The characters that hold bits of the secret, and the separators between them.
    let (first, last) = match style {
        5 | 6 => (from * 2, to * 2),
        7 => (from * 3, to * 3 - 1),
        _ => (from * 8 / 6, (to * 8).div_ceil(6)),
    };
    let position = |char: usize, columns: usize, end: usize| char + char / columns * end;
    let (columns, end) = match style {
        3 => (64, 1),
        4 => (76, 2),
        9 => (narrow, 1),
        10 => (narrow, 2),
        11 => (64, indent.len()),
        12 | 13 => (narrow, indent.len()),
        _ => (usize::MAX, 0),
    };
    *place = position(first, columns, end)..position(last - 1, columns, end) + 1;
    match style {
        0 => STANDARD_NO_PAD.encode(&bytes),
        1 => URL_SAFE.encode(&bytes),
        2 => URL_SAFE_NO_PAD.encode(&bytes),
        3 => wrapped(STANDARD.encode(&bytes), 64, "\n"),
        4 => wrapped(STANDARD.encode(&bytes), 76, "\r\n"),
        5 => joined("", false),
        6 => joined("", true),
        7 => joined([":", "\t"][narrow % 2], true),
        9 => wrapped(URL_SAFE.encode(&bytes), narrow, "\n"),
        10 => wrapped(STANDARD_NO_PAD.encode(&bytes), narrow, "\r\n"),
        11 => wrapped(STANDARD.encode(&bytes), 64, indent),
        12 | 13 => wrapped(URL_SAFE_NO_PAD.encode(&bytes), narrow, indent),
        _ => STANDARD.encode(&bytes),
    }
}

fn build_redactor(secrets: &[&str]) -> Redactor {
    let mut builder = Redactor::builder();
    for secret in secrets {
        builder.add(&Secret::new((*secret).to_owned()));
    }
    builder.build()
}

/// Maximum number of secrets of one text.
const SECRETS_MAX: usize = 4;

/// Every position of a literal secret.
fn occurrences<'s>(secrets: &[&'s str], text: &str) -> Vec<(&'s str, usize)> {
    let mut found = Vec::new();
    for secret in secrets.iter().flat_map(|secret| parts(secret)) {
        found.extend(
            (0..text.len())
                .filter(|&at| text.as_bytes()[at..].starts_with(secret.as_bytes()))
                .map(|at| (secret, at)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn promises_hold_for_random_input() {
        let mut random = fastrand::Rng::with_seed(11);
        const LETTERS: &[&str] = &["a", "b", "ab", "ba", "é", "/", "%", "[", "REDACTED", "]"];
        for _ in 0..3000 {
            let mut word = |end: usize| -> String {
                let length = random.usize(..end);
                (0..length)
                    .filter_map(|_| random.choice(LETTERS))
                    .copied()
                    .collect()
            };
            let (one, two, text) = (word(4), word(6), word(24));
            super::redactor(&[&one, &two], &text, random.usize(1..8));
        }
    }

    #[test]
    fn every_form_of_the_model_is_found() {
        // An environment variable sets a larger number, for runs of minutes with a release build.
        let more = std::env::var("PTC_REDACTOR_INPUTS").ok();
        let inputs = more.and_then(|more| more.parse().ok()).unwrap_or(1_000);
        let mut random = fastrand::Rng::with_seed(12);
        for _ in 0..inputs {
            let mut input = [0; 256];
            random.fill(&mut input);
            super::encodings(&input);
        }
    }
}
