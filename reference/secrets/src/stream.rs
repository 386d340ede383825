//! Scrubbing text that arrives in chunks: line by line, and no line before it is certain that no secret goes on in the next.

use std::sync::Arc;

use crate::redactor::Finder;
use crate::watch::Watch;

/// A line that ends in so many bytes without a blank may go on in the next one: wrapped base64.
const UNBROKEN_BYTES: usize = 32;

/// Scrubs one stream. Feed chunks with [`push`](Self::push); [`finish`](Self::finish) releases what was held back.
pub struct StreamScrubber {
    finder: Option<Arc<Finder>>,
    held: Vec<u8>,
}

impl StreamScrubber {
    pub(crate) fn new(finder: Option<Arc<Finder>>) -> Self {
        Self {
            finder,
            held: Vec::new(),
        }
    }

    /// Takes a chunk and appends to `out` whatever can no longer be part of a secret: whole lines, as far as no secret can go on
    /// in the next one.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let Some(finder) = self.finder.clone() else {
            out.extend_from_slice(chunk);
            return;
        };
        let old = self.held.len();
        self.held.extend_from_slice(chunk);
        let ends = memchr::memrchr_iter(b'\n', &self.held).skip(finder.line_ends);
        let mut decided = ends
            .take_while(|end| *end >= old || finder.line_ends > 0)
            .find(|end| !goes_on(&self.held[..*end]))
            .map_or(0, |end| end + 1);
        // Text without an end of line is not held back for ever.
        if decided == 0 && self.held.len() > finder.held() {
            let places = finder.places(&self.held, &mut Watch::patient());
            decided = finder.decided(&self.held, &places);
        }
        self.release(&finder, decided, out);
    }

    /// Appends what was held back to `out`: nothing more is expected for now.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(finder) = self.finder.clone() {
            self.release(&finder, self.held.len(), out);
        }
    }

    /// Whether anything is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Ends the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.flush(out);
    }

    fn release(&mut self, finder: &Finder, decided: usize, out: &mut Vec<u8>) {
        let text = &self.held[..decided];
        match finder.clean(text, &mut Watch::patient()) {
            None => out.extend_from_slice(text),
            Some(clean) => out.extend_from_slice(&clean),
        }
        self.held.drain(..decided);
    }
}

/// Whether a secret that is written on the line that ends `text` could go on in the next one.
fn goes_on(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let unbroken = text
        .iter()
        .rev()
        .take_while(|byte| !byte.is_ascii_whitespace());
    unbroken.take(UNBROKEN_BYTES).count() == UNBROKEN_BYTES
}
