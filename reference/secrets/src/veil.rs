//! Decides what messages about a program may quote of it. A credential of several words is several tokens when it is written as a
//! program's text, and a message quotes them one by one. Knows nothing of programs but what parts their tokens.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::redactor::{MARKER, Redactor};

/// A shorter token says nothing of its credential.
const TOKEN_BYTES_MIN: usize = 3;
/// What parts tokens, beside blanks.
const DELIMITERS: &[u8] = b"()[]{}\"';,@^`~\\";

/// Takes out of what a message quotes every credential, and every token of those that the program holds as a whole: whoever wrote
/// that knows it. A part of a credential alone stays, as everywhere.
pub struct Veil<'r> {
    redactor: &'r Redactor,
    program: &'r str,
    /// Made when something is quoted: most programs make no message.
    tokens: OnceLock<Option<AhoCorasick>>,
}

impl<'r> Veil<'r> {
    pub(crate) fn new(redactor: &'r Redactor, program: &'r str) -> Self {
        Self {
            redactor,
            program,
            tokens: OnceLock::new(),
        }
    }

    /// `quoted` as a message may tell it.
    pub fn over(&self, quoted: &str) -> String {
        let clean = self.redactor.scrub_str(quoted);
        let Some(tokens) = self.tokens.get_or_init(|| self.tokens()) else {
            return clean.into_owned();
        };
        // Markers that stand already say nothing.
        let pieces = clean.split(MARKER);
        let veiled = pieces.map(|piece| {
            let mut out = String::with_capacity(piece.len());
            tokens.replace_all_with(piece, &mut out, |_, _, out| {
                out.push_str(MARKER);
                true
            });
            out
        });
        veiled.collect::<Vec<_>>().join(MARKER)
    }

    /// The tokens of the credentials that stand in the program as they are or in a form; `None` when there are none.
    fn tokens(&self) -> Option<AhoCorasick> {
        let parts = |byte: char| {
            byte.is_whitespace() || byte.is_ascii() && DELIMITERS.contains(&(byte as u8))
        };
        let written = self.redactor.written_in(self.program);
        let mut tokens: Vec<&str> = written
            .iter()
            .flat_map(|form| form.split(parts))
            .filter(|token| token.len() >= TOKEN_BYTES_MIN)
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        if tokens.is_empty() {
            return None;
        }
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // A dense table takes time in the square of a token's length where the token repeats itself.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(tokens)
            .ok()
    }
}
