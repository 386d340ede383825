//! Scrubs text that arrives in chunks, line by line: a line is released only when no secret can continue in the next one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::redactor::{Finder, thread_cpu_time};
use crate::watch::Watch;

/// A line that ends with at least this many non-blank bytes may be wrapped base64 that continues on the next line.
const UNBROKEN_BYTES: usize = 32;

/// Scrubs one stream. Feed chunks with [`push`](Self::push); [`release_lines`](Self::release_lines) and [`flush`](Self::flush) release
/// what is held back.
pub struct StreamScrubber {
    finder: Option<Arc<Finder>>,
    held: Vec<u8>,
    /// The CPU time that threads may still spend on this stream.
    left: Duration,
}

impl StreamScrubber {
    pub(crate) fn new(finder: Option<Arc<Finder>>, time: Duration) -> Self {
        Self {
            finder,
            held: Vec::new(),
            left: time,
        }
    }

    /// Takes a chunk and appends to `out` whatever can no longer be part of a secret: whole lines up to the last one that no secret can
    /// continue beyond.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.in_time(chunk, out, |held, finder, watch| {
            // Line ends from earlier chunks were already examined.
            let old = match finder.line_ends {
                0 => held.len() - chunk.len(),
                _ => 0,
            };
            let decided = last_complete_line(held, finder.line_ends, old, may_continue);
            // Text without a line end is not held back forever.
            if decided == 0 && held.len() > finder.piece_bytes() {
                return finder.decided(held, &finder.find_forms(held, watch));
            }
            decided
        });
    }

    /// Appends to `out` all complete lines except trailing ones that look like wrapped base64, even where a secret of several lines
    /// could continue: nothing more is expected for now. An incomplete line, and one that looks like base64, are held until more
    /// arrives, however long that takes.
    pub fn release_lines(&mut self, out: &mut Vec<u8>) {
        self.in_time(&[], out, |held, _, _| {
            last_complete_line(held, 0, 0, is_wrapped)
        });
    }

    /// Appends what is held back to `out`: the stream has ended.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.in_time(&[], out, |held, _, _| held.len());
    }

    /// Whether anything is held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the time is used up. Held text and later chunks are then lost.
    pub fn is_out_of_time(&self) -> bool {
        self.left.is_zero()
    }

    /// Takes a chunk, and appends held text to `out` up to the position that `decides` returns.
    fn in_time(
        &mut self,
        chunk: &[u8],
        out: &mut Vec<u8>,
        decides: impl FnOnce(&[u8], &Finder, &mut Watch<'_>) -> usize,
    ) {
        let Some(finder) = &self.finder else {
            out.extend_from_slice(chunk);
            return;
        };
        let until = thread_cpu_time().saturating_add(self.left);
        let mut has_time = || thread_cpu_time() < until;
        let mut watch = Watch::new(&mut has_time);
        if !watch.is_over() {
            self.held.extend_from_slice(chunk);
            let mut decided = decides(&self.held, finder, &mut watch);
            let mut places = Vec::new();
            if decided > 0 {
                // A secret that begins before `decided` may end behind it, for example a secret of several lines.
                places = finder.find_forms(&self.held, &mut watch);
                let across = |place: &&Range<usize>| place.start < decided && decided < place.end;
                decided = places
                    .iter()
                    .find(across)
                    .map_or(decided, |place| place.end);
                places.retain(|place| place.end <= decided);
            }
            let clean = finder.redact_ranges(&self.held[..decided], &places, &mut watch);
            if !watch.is_over() {
                out.extend_from_slice(clean.as_deref().unwrap_or(&self.held[..decided]));
                self.held.drain(..decided);
            }
        }
        self.left = until.saturating_sub(thread_cpu_time());
        if self.left.is_zero() {
            self.held = Vec::new();
        }
    }
}

/// The end of the last line for which `may_continue` is false, skipping the last `later` line ends and ignoring those before `from`; 0 for
/// none.
fn last_complete_line(
    text: &[u8],
    later: usize,
    from: usize,
    may_continue: fn(&[u8]) -> bool,
) -> usize {
    memchr::memrchr_iter(b'\n', text)
        .skip(later)
        .take_while(|end| *end >= from)
        .find(|end| !may_continue(&text[..*end]))
        .map_or(0, |end| end + 1)
}

/// Whether a secret at the end of the line that ends `text` may continue on the next line; its bytes may be escaped.
fn may_continue(text: &[u8]) -> bool {
    ends_in(text, |byte| !byte.is_ascii_whitespace())
}

/// Like [`may_continue`] for a line that looks like base64 (escaped or not) up to its end: lines of JSON logs seldom do.
fn is_wrapped(text: &[u8]) -> bool {
    ends_in(text, |byte| {
        byte.is_ascii_alphanumeric() || b"+/-_=%&#;\\".contains(&byte)
    })
}

fn ends_in(text: &[u8], alike: fn(u8) -> bool) -> bool {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let run = text.iter().rev().take_while(|byte| alike(**byte));
    run.take(UNBROKEN_BYTES).count() == UNBROKEN_BYTES
}
