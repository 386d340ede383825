//! Decides what messages about a program may quote from it. A credential of several words is several tokens in a program's text,
//! and a message quotes them one by one. Knows nothing of programs except what separates their tokens.

use std::borrow::Cow;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::redactor::{MARKER, Redactor, into_text};

/// A shorter token reveals nothing of its credential.
const TOKEN_BYTES_MIN: usize = 3;
/// The byte that replaces those of a masked credential.
const MASK: u8 = b'*';
/// The separators of tokens, besides whitespace.
const DELIMITERS: &[u8] = b"()[]{}\"';,@^`~\\";

/// Removes from quoted text every credential, and every token of the credentials that the program contains as a whole: the author
/// of such a program knows the credential. A part of a credential alone stays, as everywhere.
pub struct Veil<'r> {
    redactor: &'r Redactor,
    program: &'r str,
    /// Built on the first quotation: most programs cause no message.
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

    /// `quoted` as a message may show it.
    pub fn redact(&self, quoted: &str) -> String {
        let clean = self.redactor.scrub_str(quoted);
        let Some(tokens) = self.tokens.get_or_init(|| self.tokens()) else {
            return clean.into_owned();
        };
        // Existing markers stay as they are.
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

    /// The program with each byte of a credential of several lines masked, so that a message may show single lines of it: in one line a
    /// part of such a credential would not be recognised.
    pub fn masked_program(&self) -> Cow<'r, str> {
        let bytes = self.program.as_bytes();
        let places = self.redactor.find_forms(bytes);
        // A search that ended early found only some of them.
        let places = places.unwrap_or_else(|| std::iter::once(0..bytes.len()).collect());
        let mut masked = Cow::Borrowed(bytes);
        for place in places {
            if bytes[place.clone()].contains(&b'\n') {
                let form = masked.to_mut()[place].iter_mut();
                form.filter(|byte| !matches!(**byte, b'\n' | b'\r'))
                    .for_each(|byte| *byte = MASK);
            }
        }
        match masked {
            Cow::Borrowed(_) => Cow::Borrowed(self.program),
            // Forms begin and end at character boundaries.
            Cow::Owned(masked) => Cow::Owned(into_text(masked)),
        }
    }

    /// The tokens of the credentials that the program contains, in any form; `None` when there are none.
    fn tokens(&self) -> Option<AhoCorasick> {
        let parts = |byte: char| {
            byte.is_whitespace() || byte.is_ascii() && DELIMITERS.contains(&(byte as u8))
        };
        let written = self.redactor.forms_in(self.program);
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
            // A dense table takes quadratic time for a long token that repeats itself.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(tokens)
            .ok()
    }
}
