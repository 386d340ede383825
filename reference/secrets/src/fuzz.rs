//! Check functions for hostile input: each takes any input, and panics when a promise is broken.
//! Driven by libFuzzer in `fuzz/`, and with seeded random input by the tests.

use crate::redactor::{MARKER, Redactor};
use crate::secret::Secret;

/// The redactor's promises, against a slow model that is obviously right: raw secrets are gone, scrubbing twice
/// changes nothing, and a stream comes out the same however it is cut.
pub fn redactor(secrets: &[&str], text: &str, cut: usize) {
    let mut builder = Redactor::builder();
    for secret in secrets {
        builder.add(&Secret::new((*secret).to_owned()));
    }
    let redactor = builder.build();
    let clean = redactor.scrub_str(text).into_owned();
    // A secret with a bracket can begin in a marker and end behind it.
    let apart = !secrets.iter().any(|secret| secret.contains(['[', ']']));
    if apart {
        assert_eq!(
            redactor.scrub_str(&clean),
            clean,
            "scrubbing twice changes nothing: {text:?}"
        );
    }
    let touched = covered(secrets, text);
    for (secret, at) in occurrences(secrets, text) {
        assert!(
            touched[at..at + secret.len()]
                .iter()
                .all(|covered| *covered)
        );
    }
    // Without the marker in play, nothing of a secret is left between the markers.
    if apart && !secrets.iter().any(|secret| MARKER.contains(secret)) {
        for piece in clean.split(MARKER) {
            assert!(
                !secrets
                    .iter()
                    .any(|secret| !secret.is_empty() && piece.contains(secret)),
                "{clean:?}"
            );
        }
    }
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    for chunk in text.as_bytes().chunks(cut.max(1)) {
        stream.push(chunk, &mut out);
    }
    stream.finish(&mut out);
    assert_eq!(
        String::from_utf8_lossy(&out),
        clean,
        "chunks of {cut}: {text:?}"
    );
}

/// [`redactor`] of one text: every line but the last is a secret, at most four of them; the last is what is scrubbed, with the secrets
/// once more in it. Its first character chooses the size of chunks.
pub fn lines(input: &str) {
    let mut lines: Vec<&str> = input.split('\n').collect();
    let text = lines.pop().unwrap_or_default();
    lines.truncate(SECRETS_MAX);
    let cut = text.chars().next().map_or(1, |first| first as usize % 64);
    redactor(&lines, &format!("{text}{}{text}", lines.concat()), cut);
}

/// Secrets of one text.
const SECRETS_MAX: usize = 4;

/// The bytes that a secret in raw form covers, by looking at every place.
fn covered(secrets: &[&str], text: &str) -> Vec<bool> {
    let mut covered = vec![false; text.len()];
    for (secret, at) in occurrences(secrets, text) {
        covered[at..at + secret.len()].fill(true);
    }
    covered
}

fn occurrences<'s>(secrets: &[&'s str], text: &str) -> Vec<(&'s str, usize)> {
    let mut found = Vec::new();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        found.extend(
            (0..text.len())
                .filter(|&at| text.as_bytes()[at..].starts_with(secret.as_bytes()))
                .map(|at| (*secret, at)),
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
}
